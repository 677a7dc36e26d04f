"""What no job may ask, whatever it counts: the guards that all kinds of jobs share.

Each is one function of what is asked, and says what is wrong, the bound and what to do instead.
Imports nothing heavy: jobs are described by files that the help is made from.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from counton.base.errors import InvalidInput, field

if TYPE_CHECKING:
    from counton.base.exact import Number

#: The largest delta of a guarantee or of a limit: of a thousand people one may lose everything.
LARGEST_DELTA = Fraction(1, 1000)
#: The most events of one user that may count.
MOST_EVENTS = 1_000_000
#: How late a row of users or with an id may come, in days after the end of the window that was
#: released last.
LATE_DAYS = 35


def check_delta(delta: Number | None) -> None:
    """Refuse a delta with which a guarantee promises next to nothing.

    >>> check_delta("1e-6")
    >>> check_delta("0.5")
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: delta is 0.5, and with this probability the ...
    """
    if delta is None:
        return
    from counton.base.exact import exact

    if LARGEST_DELTA < exact(delta, "delta") < 1:
        raise InvalidInput(
            f"{field('delta')} is {delta}, and with this probability the guarantee may fail "
            f"altogether: even publishing each row with this probability would keep it; give at "
            f"most {float(LARGEST_DELTA)}, and far less than one divided by the number of people, "
            f"as in {field('delta', '1e-9')}"
        )


def check_most(most: int | None) -> None:
    """Refuse a bound on the events of a user that bounds nothing, or lets nothing count.

    >>> check_most(3)
    >>> check_most(10**9)
    Traceback (most recent call last):
    counton.base.errors.InvalidInput: most=1000000000 is more than any noise could hide: ...
    """
    if most is not None and most < 1:
        raise InvalidInput(
            f"{field('most', most)} would count nothing; give at least 1: how many events of one "
            f"user count"
        )
    if most is not None and most > MOST_EVENTS:
        raise InvalidInput(
            f"{field('most', most)} is more than any noise could hide: it grows with this number, "
            f"and would drown what is counted; give at most {MOST_EVENTS:,}, better a few more "
            f"than most users have"
        )


def check_most_a_window(a_window: int | None, most: int) -> None:
    """Refuse a bound on a user's events in one window that is larger than that on all.

    >>> check_most_a_window(2, most=20)
    """
    if a_window is not None and not 1 <= a_window <= most:
        raise InvalidInput(
            f"{field('most_a_window', a_window)} is how many of the {most:,} ({field('most')}) "
            f"count in one window; give 1 to {most:,}"
        )


def check_people_columns(user: str | None, row: str | None) -> None:
    """Refuse one column for users and for the ids of rows.

    >>> check_people_columns("cookie", "order")
    """
    if user is not None and user == row:
        raise InvalidInput(
            f"{field('user', user)} and {field('id', row)} name one column, so that of each user "
            f"one row alone would ever count; name the column that tells one row from another, or "
            f"leave {field('id')} out (to count each user once, give {field('first', True)})"
        )

"""Limits of exact sums: the refusal of rows beyond them, and each sender's share of the largest
sum.

A refusal that depends on exact sums discloses something about them. Only `refuse_overflow` refuses
rows because their sum would not be exact. A person who runs a job sees this refusal, and may see
the rows. A sender over the network may see only his own batch: `share_of` gives him a fixed share
of the largest sum, and the shares of all possible senders together are below it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from counton.base.errors import SumOverflow

#: Largest number of senders in the whole life of a stream.
MOST_SENDERS: Final = 2**16
#: The first sender's share is one part in this many.
_PARTS: Final = 16


def share_of(number: int) -> float:
    """Return the fraction of a stream's largest exact sum that one sender's rows may add up to.

    The second sender has half of the first sender's share, the third a third, the n-th an n-th. All
    shares together come to less than three quarters, so no sender is ever refused because of
    another sender's rows.

    Args:
        number: number of the sender, from 1 to `MOST_SENDERS`; no other sender of the stream has
            it.

    >>> share_of(1), share_of(100)
    (0.0625, 0.000625)
    >>> sum(map(share_of, range(1, MOST_SENDERS + 1))) < 0.75
    True
    """
    return 1 / (_PARTS * number)


def refuse_overflow(size: float, most: float, says: Callable[[], str]) -> None:
    """Refuse a sum of rows that would be too large to be computed and released exactly.

    Args:
        size: the sum, or a bound on it.
        most: largest size allowed.
        says: function that returns the message, with the value, the bound and the remedy.

    Raises:
        SumOverflow: the size is above the largest one allowed.

    >>> refuse_overflow(3, 2, lambda: "the rows add up to 3; the bound is 2: count in larger units")
    Traceback (most recent call last):
    ...
    counton.base.errors.SumOverflow: the rows add up to 3; the bound is 2: count in larger units
    """
    if size > most:
        raise SumOverflow(says())

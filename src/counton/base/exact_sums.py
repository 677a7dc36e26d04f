"""Limits of exact sums: refusal of rows beyond them, and each sender's share of the range.

A refusal that depends on exact sums discloses something about them. Only `refuse_overflow` refuses
rows because their sum would not be exact. A person who runs a job sees this refusal, and may see
the rows. A sender over the network may see only his own batch: `share_of` gives him a fixed share
of the range, and the shares of all possible senders never fill it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from counton.base.errors import SumOverflow

#: Largest number of senders in the whole life of a stream.
MOST_SENDERS: Final = 2**16
#: Share of the first sender: one part in this many.
_PARTS: Final = 16


def share_of(number: int) -> float:
    """Return the share of the largest sum that one sender may fill.

    The second sender has half of the first one's share, the third a third, the n-th an n-th. All
    shares together come to less than three quarters, so the rest is never needed: no sender is
    refused because of another sender's rows.

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
    """Refuse a sum of rows that would not be exact, or could not be read.

    Args:
        size: the sum, or a bound on it.
        most: largest size allowed.
        says: returns the message: the value, the bound and the remedy.

    Raises:
        SumOverflow: the size is above the largest one allowed.

    >>> refuse_overflow(3, 2, lambda: "the rows add up to 3; the bound is 2: count in larger units")
    Traceback (most recent call last):
    ...
    counton.base.errors.SumOverflow: the rows add up to 3; the bound is 2: count in larger units
    """
    if size > most:
        raise SumOverflow(says())

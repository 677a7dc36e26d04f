"""The room of exact sums: where rows are refused that leave it, and which part a sender may fill.

A refusal is an answer, and one that hangs on exact sums says something of them. So every sum of
rows that would not be exact is refused by `refuse_overflow`, and nowhere else. Whoever runs a job
sees such a refusal, and may see the rows. A sender of rows over the network sees none but of the
batch that he sends: `share_of` gives him a part of the room of his own, and the parts of all
senders that there can be leave room over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from counton.base.errors import SumOverflow

#: So many senders a stream has room for, over all of its time.
MOST_SENDERS: Final = 2**16
#: The first sender may fill one part in so many.
_PARTS: Final = 16


def share_of(number: int) -> float:
    """Which part of all that a stream's sums can hold a sender may fill.

    The second sender has half of what the first one has, the third one a third, the n-th one an
    n-th. All of them together have less than three quarters, so what is left over is never needed:
    no sender can be refused because of what another one sent.

    Args:
        number: of the sender, from 1 to `MOST_SENDERS`; no other sender of the stream has it.

    >>> share_of(1), share_of(100)
    (0.0625, 0.000625)
    >>> sum(map(share_of, range(1, MOST_SENDERS + 1))) < 0.75
    True
    """
    return 1 / (_PARTS * number)


def refuse_overflow(size: float, most: float, says: Callable[[], str]) -> None:
    """Refuse a sum of rows that would not be exact, or could not be read.

    Args:
        size: of the sum, or a bound on it.
        most: that it may come to.
        says: the value, the bound and the remedy, in words.

    Raises:
        SumOverflow: the size is beyond the most.

    >>> refuse_overflow(3, 2, lambda: "the rows add up to 3; the bound is 2: count in larger units")
    Traceback (most recent call last):
    ...
    counton.base.errors.SumOverflow: the rows add up to 3; the bound is 2: count in larger units
    """
    if size > most:
        raise SumOverflow(says())

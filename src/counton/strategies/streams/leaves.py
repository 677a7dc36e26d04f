"""Numbers with a fixed count of zeros among their bits, in increasing order.

They are the leaves of the smooth binary mechanism. A *fork* of level l is a prefix (the bits above
bit l) that some such number continues with a 1 at bit l.
"""

from __future__ import annotations

import math
from functools import lru_cache


def unrank(height: int, zeros: int, rank: int) -> int:
    """The number at place ``rank`` (from 0) of the ``height``-bit numbers with ``zeros`` zeros.

    >>> [f"{unrank(4, 2, rank):04b}" for rank in range(6)]
    ['0011', '0101', '0110', '1001', '1010', '1100']
    """
    number = 0
    for bit in reversed(range(height)):
        with_zero = math.comb(bit, zeros - 1) if zeros > 0 else 0
        if rank < with_zero:
            zeros -= 1
        else:
            rank -= with_zero
            number |= 1 << bit
    return number


def successor(number: int) -> int:
    """The next larger number with as many ones (Gosper's hack).

    >>> f"{successor(0b0110):04b}"
    '1001'
    """
    lowest = number & -number
    carried = number + lowest
    return carried | ((number ^ carried) // lowest >> 2)


def forks_before(height: int, zeros: int, level: int, prefix: int) -> int:
    """How many forks of ``level`` are smaller than ``prefix``.

    >>> [forks_before(4, 2, 1, prefix) for prefix in range(4)]  # 11 is none
    [0, 1, 2, 3]
    """
    count, seen = 0, 0
    for bit in reversed(range(height - level - 1)):
        if prefix >> bit & 1:
            # A zero here instead, then any bits that leave the total within reach.
            most = zeros - seen - 1
            count += _ways(bit, max(0, most - level), most)
        else:
            seen += 1
    return count


@lru_cache(maxsize=65_536)
def _ways(bits: int, least: int, most: int) -> int:
    """Strings of ``bits`` bits with between ``least`` and ``most`` zeros."""
    return sum(math.comb(bits, zeros) for zeros in range(least, most + 1))

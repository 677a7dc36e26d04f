"""Limits of exact sums: the refusal of rows beyond them, and how much a service takes.

A refusal that depends on exact sums discloses something about them. Only `refuse_overflow` refuses
rows because their sum would not be exact. A person who runs a job sees this refusal, and may see
the rows. So does the one who has a service's token to write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from counton.base.errors import SumOverflow

#: Fraction of a stream's largest exact sum that the rows sent to a service may add up to. What is
#: left is for the rounding of fractions, so that whatever is acknowledged can be counted.
MOST_SENT: Final = 0.5


def refuse_overflow(size: float, most: float, says: Callable[[], str]) -> None:
    """Refuse a sum of rows that would be too large to be computed and released exactly."""
    if size > most:
        raise SumOverflow(says())

"""Numbers written in base k with digits that may be negative.

Digits lie in -below .. k-1-below. Cutting the lowest digit off a number q leaves
(q + below) // k, the number whose multiple of k is q minus that digit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Digits:
    """One way of writing numbers: ``base`` and how far digits reach ``below`` zero.

    >>> balanced = Digits(base=5, below=2)
    >>> balanced.cut(8), balanced.weight(8)  # 8 = 2 * 5 - 2
    (2, 4)
    """

    base: int
    below: int

    @property
    def above(self) -> int:
        """The largest digit."""
        return self.base - 1 - self.below

    def count(self, number: int) -> int:
        """How many digits it takes to write every number from 0 to ``number``."""
        digits = largest = 0
        while largest < number:
            largest = largest * self.base + self.above
            digits += 1
        return digits

    def cut(self, number: int) -> int:
        """``number`` without its lowest digit."""
        return (number + self.below) // self.base

    def weight(self, number: int) -> int:
        """Sum of the absolute digits of ``number``."""
        total = 0
        while number > 0:
            cut = self.cut(number)
            total += abs(number - cut * self.base)
            number = cut
        return total

    def weights(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """``weight`` of every entry of an array."""
        total = np.zeros(numbers.shape, np.int64)
        while numbers.any():
            cut = (numbers + self.below) // self.base
            total += np.abs(numbers - cut * self.base)
            numbers = cut
        return total

    def total_weight(self, last: int) -> int:
        """Sum of ``weight`` over 0..last: whole groups by the number they share, then the rest."""
        cut = self.cut(last)
        if cut == 0:
            return _triangle(last)
        digit = last - cut * self.base
        up, down = _triangle(self.above), _triangle(self.below)
        lowest_digits = up + (cut - 1) * (up + down) + down
        lowest_digits += _triangle(digit) if digit >= 0 else -_triangle(-digit - 1)
        in_last_group = digit + self.below + 1
        return (
            self.base * self.total_weight(cut - 1)
            + in_last_group * self.weight(cut)
            + lowest_digits
        )

    def largest_weight(self, last: int) -> int:
        """Maximum of ``weight`` over 0..last."""
        cut = self.cut(last)
        if cut == 0:
            return last
        digit = last - cut * self.base
        in_last_group = self.weight(cut) + max(self.below, digit)
        return max(in_last_group, self.largest_weight(cut - 1) + self.above)


def _triangle(n: int) -> int:
    """1 + 2 + .. + n."""
    return n * (n + 1) // 2

"""Uniform numbers that are read only as far as a comparison needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from counton.errors import NoiseAddressError
from counton.noise.blocks import LAST_LANE, Address, BlockSource, Words


def leading_bits(
    source: BlockSource, address: Address, rows: Words, columns: Words, sixteen: Words
) -> NDArray[np.uint64]:
    """The first 64 bits of uniform numbers whose first sixteen are known."""
    words = source.refine(address, rows, columns, lane=1)
    return sixteen << np.uint64(48) | words[:, 0] >> np.uint64(16)


class Uniform:
    """One uniform number in [0, 1): sixteen known bits, then those of lanes 1, 2, 3, ..."""

    def __init__(
        self, source: BlockSource, address: Address, row: int, column: int, sixteen: int
    ) -> None:
        self._source = source
        self._address = address
        self._place = np.array([row], np.uint64), np.array([column], np.uint64)
        self._value, self._bits, self._lane = sixteen, 16, 0
        self._read_on()

    def below(self, bracket: Callable[[int], tuple[int, int]]) -> bool:
        """Whether the number is below a threshold, for certain.

        Args:
            bracket: gives, for any number of bits, integers ``low <= threshold * 2**bits <= high``.

        Raises:
            NoiseAddressError: still open after 32,000 bits.
        """
        while True:
            low, high = bracket(self._bits)
            if self._value + 1 <= low:
                return True
            if self._value >= high:
                return False
            self._read_on()

    def _read_on(self) -> None:
        self._lane += 1
        if self._lane > LAST_LANE:
            raise NoiseAddressError(
                "a draw is still open after 32,000 bits, which happens once in 2^32000 draws: "
                "the key or the AES implementation is broken"
            )
        upper, lower = self._source.refine(self._address, *self._place, self._lane)[0]
        self._value = self._value << 128 | int(upper) << 64 | int(lower)
        self._bits += 128

"""The samplers once more, slowly and from the definitions: one AES block, 400 digits at a time.

Written against the description of addresses in `counton.noise.blocks` and the laws' formulas,
sharing no code with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

mpmath.mp.dps = 400

MAIN, ACCEPT, OFFSET, RETRY, DIGIT = 0, 1, 2, 3, 16
BITS = 16 + 128 * 4  # uniform numbers are read this far: ties are impossible in practice


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


class Reference:
    """Draws at single addresses under one subkey."""

    def __init__(self, subkey: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES(subkey), modes.ECB()).encryptor()

    def block(self, index: int, high: tuple[int, int, int, int], row: int) -> bytes:
        purpose, level, attempt, lane = high
        word = purpose << 56 | level << 48 | attempt << 40 | lane << 32 | row
        return self._encryptor.update(index.to_bytes(8, "little") + word.to_bytes(8, "little"))

    def packed(self, size: int, purpose: int, level: int, row: int, column: int) -> int:
        per_block = 16 // size
        block = self.block(column // per_block, (purpose, level, 0, 0), row)
        at = column % per_block * size
        return int.from_bytes(block[at : at + size], "little")

    def uniform(self, sixteen: int, place: tuple[int, int, int, int, int]) -> mpmath.mpf:
        """U from its first sixteen bits and the lanes of one sample."""
        purpose, level, attempt, row, column = place
        number = sixteen
        for lane in range(1, 5):
            block = self.block(column, (purpose, level, attempt, lane), row)
            first, second = block[:8], block[8:]
            number = number << 64 | int.from_bytes(first, "little")
            number = number << 64 | int.from_bytes(second, "little")
        return mpmath.mpf(number) / mpmath.mpf(2) ** BITS

    def inverse(
        self, cumulative: Callable[[int], mpmath.mpf], uniform: mpmath.mpf, spread: float
    ) -> int:
        """Smallest j with U < F(j)."""
        low, high = -int(2000 * spread) - 10, int(2000 * spread) + 10
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if uniform < cumulative(middle) else (middle, high)
        return high

    def laplace(self, scale: Fraction, level: int, row: int, column: int) -> int:
        block_bits = 0
        while scale / 2**block_bits > 24:
            block_bits += 1
        q = mpmath.exp(-1 / real(scale))

        r = q ** (2**block_bits)

        def top(s: int) -> mpmath.mpf:
            return q * r ** (-1 - s) / (1 + q) if s < 0 else 1 - r ** (s + 1) / (1 + q)

        sixteen = self.packed(2, MAIN, level, row, column)
        uniform = self.uniform(sixteen, (MAIN, level, 0, row, column))
        value = self.inverse(top, uniform, 24)
        negative = value < 0
        number = 0
        while block_bits > 0:
            width = min(block_bits, 8)
            block_bits -= width
            p = q ** (2**block_bits)
            purpose = DIGIT + number
            sixteen = self.packed(2, purpose, level, row, column)
            uniform = self.uniform(sixteen, (purpose, level, 0, row, column))
            above, power, digit = uniform * (1 - p ** (2**width)), p, 0
            while digit < 2**width - 1 and above >= 1 - power:  # U >= (1 - p^(j + 1)) / (1 - ...)
                power, digit = power * p, digit + 1
            value = (value << width) + ((2**width - 1 - digit) if negative else digit)
            number += 1
        return value

    def gaussian(self, sigma_squared: Fraction, level: int, row: int, column: int) -> int:
        block_bits = 0
        if sigma_squared > 128**2:
            while sigma_squared / 4 ** (block_bits + 1) >= 64**2:
                block_bits += 1
        size = 1 << block_bits

        def nearest(s: int) -> int:
            return s * size if s >= 0 else (s + 1) * size - 1

        weights, lowest = block_weights(sigma_squared, size)

        def cumulative(s: int) -> mpmath.mpf:
            at = min(max(s - lowest, -1), len(weights) - 1)
            return weights[at] if at >= 0 else mpmath.mpf(0)

        for attempt in range(100):
            if attempt == 0:
                sixteen = self.packed(2, MAIN, level, row, column)
                accept16 = self.packed(2, ACCEPT, level, row, column)
                width = 2 if block_bits <= 16 else 8
                offset = self.packed(width, OFFSET, level, row, column) % size
            else:
                retry = self.block(column, (RETRY, level, attempt, 0), row)
                word = int.from_bytes(retry[:8], "little")
                accept16, sixteen = word >> 48, word >> 32 & 0xFFFF
                offset = int.from_bytes(retry[8:], "little") % size
            uniform = self.uniform(sixteen, (MAIN, level, attempt, row, column))
            s = self.inverse(cumulative, uniform, 1)
            value = s * size + offset
            ratio = mpmath.exp(-(value**2 - nearest(s) ** 2) / (2 * real(sigma_squared)))
            place = (ACCEPT, level, attempt, row, column)
            if block_bits == 0 or self.uniform(accept16, place) < ratio:
                return value
        raise AssertionError("rejected a hundred times")


_weights: dict[tuple[Fraction, int], tuple[list[mpmath.mpf], int]] = {}


def block_weights(sigma_squared: Fraction, size: int) -> tuple[list[mpmath.mpf], int]:
    """Cumulative block probabilities and the first block they begin with.

    Farther than 30 standard deviations lie 10^-195 of all draws, and `BITS` tell 10^-159 apart.
    """
    if (sigma_squared, size) not in _weights:
        reach = int(30 * float(sigma_squared) ** 0.5 / size) + 30
        right = _gaussians(sigma_squared, 0, size, reach)  # at s * size, for s = 0, 1, ..
        left = _gaussians(sigma_squared, 1, size, reach)  # at (s + 1) * size - 1, s = -1, ..
        weights = [*reversed(left), *right]
        total = mpmath.fsum(weights)
        sums, running = [], mpmath.mpf(0)
        for weight in weights:
            running += weight
            sums.append(running / total)
        _weights[sigma_squared, size] = (sums, -reach)
    return _weights[sigma_squared, size]


def _gaussians(sigma_squared: Fraction, first: int, step: int, count: int) -> list[mpmath.mpf]:
    """exp(-n^2 / (2 sigma^2)) at n = first, first + step, ..: quotients fall by a fixed factor."""
    unit = -1 / (2 * real(sigma_squared))
    value = mpmath.exp(unit * first**2)
    quotient = mpmath.exp(unit * ((first + step) ** 2 - first**2))
    factor = mpmath.exp(unit * 2 * step**2)
    found = []
    for _ in range(count):
        found.append(value)
        value, quotient = value * quotient, quotient * factor
    return found

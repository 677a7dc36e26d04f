"""Standard normal numbers as a function of a subkey and an address: float32, for training.

These are floating-point numbers, not the exact integers of ``samplers.py``. So the known attacks on
floating-point noise apply (Mironov, "On significance of the least significant bits for differential
privacy", 2012). They are used for gradients, which are floating-point numbers themselves.

Every machine gives the same bits. Coordinates are drawn in blocks of 2^16. A block's numbers depend
on subkey, level, index, its number and the number of its coordinates, and on no other block.
"""

# **Box-Muller.** From 32 bits each, w gives the radius sqrt(-2 ln u), u = w / 2^32, and v the
# angle: 31 bits for a quarter turn either way, one bit for the sign of the cosine. If w < 2^8, 32
# further bits are drawn, so that radii end at 9.49 instead of 6.7. Logarithm, sine and cosine are
# polynomials of single additions, multiplications, a division and a root. IEEE 754 rounds these in
# one way. The routines of numpy do not guarantee that (they differ between instruction sets). The
# result is within 2e-6 of the exact function of the bits.

from __future__ import annotations

import math
import threading

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import NoiseAddressError
from counton.noise.blocks import LAST_LANE, ROWS_LIMIT, BlockAddress, BlockSource, Tile

Singles = NDArray[np.float32]

#: Coordinates of a block.
COORDINATES_PER_BLOCK = 2**16
_PAIRS_PER_BLOCK = COORDINATES_PER_BLOCK // 2
_PURPOSE = 9
#: Largest squared radius of a pair of normals: -2 ln of the least u, which is 2^-65.
LARGEST_SQUARED_RADIUS = 2 * 65 * math.log(2)
#: Random words below this get 32 further bits.
_RARE_WORD_LIMIT = 2**8
#: Bits of sqrt(1/2) as float32: mantissas are taken within [sqrt(1/2), sqrt(2)).
_ROOT_BITS = 0x3F3504F3
#: Bits of 2^32 less those of 1, and the mask of an exponent's bits.
_EXPONENT_OF_32_BITS = 32 << 23
_EXPONENT_MASK = np.int32(-(2**23))

# -2 ln m = s (L0 + L1 s^2 + L2 s^4), s = (m - 1) / (m + 1)
_LOG = tuple(map(np.float32, (-4.000000476837158, -1.3330440521240234, -0.8259548544883728)))
_MINUS_TWO_LN_TWO = np.float32(-1.3862943611198906 * 2.0**-23)  # for each bit of an exponent
# sin(a pi / 2) = a (S0 + S1 a^2 + ...), cos(a pi / 2) = 1 + a^2 (C0 + C1 a^2 + ...), |a| <= 1
_SINE = tuple(
    map(
        np.float32,
        (
            1.5707963705062866,
            -0.6459637880325317,
            0.07968991994857788,
            -0.004674143623560667,
            0.00015167170204222202,
        ),
    )
)
_COSINE = tuple(
    map(
        np.float32,
        (-1.2337003946304321, 0.25366342067718506, -0.02083301916718483, 0.0008701311307959259),
    )
)


class _Scratch(threading.local):
    """Scratch arrays for one block of normals; each thread has its own."""

    def __init__(self) -> None:
        self.a, self.b, self.c, self.d, self.u = np.empty((5, _PAIRS_PER_BLOCK), np.float32)


_scratch = _Scratch()


class NormalField:
    """An endless table of independent standard normals: (level, index, coordinate) -> float32.

    >>> field = NormalField(bytes(32), size=100_000)
    >>> whole = field.read(0, 7)
    >>> bool((field.read(0, 7, 70_000, 70_005) == whole[70_000:70_005]).all())
    True
    >>> 0.99 < float(whole.std()) < 1.01
    True
    """

    def __init__(self, subkey: bytes, size: int) -> None:
        self._source = BlockSource(subkey)
        self.size = size

    def blocks(self, first: int, stop: int) -> range:
        """Return the numbers of the blocks of coordinates ``first`` to ``stop - 1``."""
        return range(first // COORDINATES_PER_BLOCK, -(-stop // COORDINATES_PER_BLOCK))

    def length(self, block: int) -> int:
        return min(COORDINATES_PER_BLOCK, self.size - block * COORDINATES_PER_BLOCK)

    def read(self, level: int, index: int, first: int = 0, stop: int | None = None) -> Singles:
        """Return the normals of coordinates ``first`` to ``stop - 1`` at (level, index)."""
        stop = self.size if stop is None else stop
        if not 0 <= first <= stop <= self.size:
            raise NoiseAddressError(
                f"coordinates {first} to {stop} are not all within the {self.size} coordinates of "
                "this parameter: give smaller numbers"
            )
        out = np.empty(stop - first, np.float32)
        for block in self.blocks(first, stop):
            drawn = self.block(level, index, block)
            begin = block * COORDINATES_PER_BLOCK
            low = max(first, begin)
            high = min(stop, begin + len(drawn))
            out[low - first : high - first] = drawn[low - begin : high - begin]
        return out

    def block(self, level: int, index: int, block: int, out: Singles | None = None) -> Singles:
        """Return the normals of one block at (level, index), in ``out`` or a new array.

        Args:
            level: 0 to 255.
            index: 0 to 2^32 - 1.
            out: its length is rounded up to an even number.
        """
        length = self.length(block)
        if not 0 <= index < ROWS_LIMIT or block < 0 or length <= 0:
            raise NoiseAddressError(
                f"index {index} and block {block} of level {level} are outside the addresses of "
                "noise: use fewer steps"
            )
        pairs = -(-length // 2)
        space = np.empty(2 * pairs, np.float32) if out is None else out[: 2 * pairs]
        address = BlockAddress(_PURPOSE, level)
        tile = Tile(index, 1, block * COORDINATES_PER_BLOCK, 2 * pairs)
        words = self._source.words_of_tile(address, tile, "<u4")[0]
        uniform = _scratch.u[:pairs]
        np.copyto(uniform, words[:pairs], casting="unsafe")
        if words[:pairs].min() < _RARE_WORD_LIMIT:
            rare = np.flatnonzero(words[:pairs] < _RARE_WORD_LIMIT)
            words = words.copy()  # the next call overwrites the scratch space
            columns = (rare + tile.first_column).astype(np.uint64)
            rows = np.full(len(rare), index, np.uint64)
            more = self._source.refine(address, rows, columns, LAST_LANE)
            # The 32 further bits are a fraction between 0 and 1, which is never 0.
            fraction = ((more[:, 0] >> np.uint64(32)).astype(np.float64) + 0.5) * 2.0**-32
            uniform[rare] = words[rare].astype(np.float64) + fraction
        _box_muller(uniform, words[pairs:].view(np.int32), space[:pairs], space[pairs:])
        return space[:length]


def _box_muller(uniform: Singles, angle: NDArray[np.int32], low: Singles, high: Singles) -> None:
    """Write pairs of standard normals to ``low`` and ``high``, by the Box-Muller method.

    ``uniform``, below 2^32, gives the radius and is overwritten; ``angle`` holds 32 random bits.
    """
    count = len(uniform)
    a, b, c, d = (part[:count] for part in (_scratch.a, _scratch.b, _scratch.c, _scratch.d))
    # u * 2^32 = m 2^e: radius^2 = -2 ln m - 2 (e - 32) ln 2; the mantissa is kept as m 2^32
    bits = uniform.view(np.int32)
    power = b.view(np.int32)
    np.subtract(bits, _ROOT_BITS + _EXPONENT_OF_32_BITS, out=power)
    np.bitwise_and(power, _EXPONENT_MASK, out=power)
    np.subtract(bits, power, out=bits)
    np.copyto(c, power, casting="unsafe")
    np.multiply(c, _MINUS_TWO_LN_TWO, out=c)
    np.add(uniform, np.float32(2.0**32), out=b)
    np.subtract(uniform, np.float32(2.0**32), out=uniform)
    np.divide(uniform, b, out=uniform)
    np.multiply(uniform, uniform, out=a)
    _polynomial(a, _LOG, b)
    np.multiply(b, uniform, out=b)
    np.add(b, c, out=b)
    radius = np.sqrt(b, out=uniform)
    # The lower 31 bits give a within [-1, 1), and the highest bit the sign of the cosine.
    sign = b.view(np.int32)
    np.bitwise_and(angle, np.int32(-(2**31)), out=sign)
    shifted = c.view(np.int32)
    np.left_shift(angle, 1, out=shifted)
    np.copyto(a, shifted, casting="unsafe")
    np.multiply(a, np.float32(2.0**-31), out=a)
    np.multiply(a, a, out=c)
    _polynomial(c, _COSINE, d)
    np.multiply(d, c, out=d)
    np.add(d, np.float32(1), out=d)
    np.bitwise_xor(d.view(np.int32), sign, out=d.view(np.int32))
    np.multiply(d, radius, out=low)
    _polynomial(c, _SINE, d)
    np.multiply(d, a, out=d)
    np.multiply(d, radius, out=high)


def _polynomial(x: Singles, coefficients: tuple[np.float32, ...], out: Singles) -> None:
    """Write a polynomial of ``x`` to ``out`` by Horner's scheme; each operation rounds once."""
    np.multiply(x, coefficients[-1], out=out)
    for coefficient in coefficients[-2:0:-1]:
        np.add(out, coefficient, out=out)
        np.multiply(out, x, out=out)
    np.add(out, coefficients[0], out=out)

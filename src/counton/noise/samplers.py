"""Exact samplers: which tables a law needs, and how their draws combine.

The choice is a pure function of the law's parameters, so that the same address gives the same noise
everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from counton.errors import NoiseAddressError
from counton.laws import DiscreteGaussian, DiscreteLaplace, Law
from counton.noise.blocks import LAST_ATTEMPT, Address, BlockSource, Tile, Words
from counton.noise.inverse import (
    GaussianBlocks,
    InverseTable,
    SignedGeometric,
    TruncatedGeometric,
    Uniform,
    exp_bracket,
    leading_bits,
)

# Purposes: the uses of random bits inside one sample.
_MAIN, _ACCEPT, _OFFSET, _RETRY, _DIGIT = 0, 1, 2, 3, 16

#: Tables stay small enough for the cache while at most some 0.5% (Laplace) and 3% (Gaussian) of
#: the draws need more than sixteen bits.
_LARGEST_TOP_SCALE = 24
_LARGEST_TABLE_SIGMA = 128
_DIGIT_BITS = 8
_BLOCKS_PER_SIGMA = 64
#: Samples handled at once: what is between two passes over them stays in the second-level cache.
SPAN = 2**15


class Sampler(ABC):
    """Fills tiles with exact draws of one law."""

    @abstractmethod
    def fill(self, source: BlockSource, level: int, tile: Tile, out: NDArray[np.int64]) -> None:
        """Write the tile's samples to ``out``, int64, shape ``(rows, columns)``."""


class LaplaceSampler(Sampler):
    """Discrete Laplace: a signed top part, then independent digits of the geometric magnitude."""

    def __init__(self, law: DiscreteLaplace, guard_bits: int = 0) -> None:
        bits = 0
        while law.scale / 2**bits > _LARGEST_TOP_SCALE:
            bits += 1
        self._top = InverseTable(SignedGeometric(law.scale, bits), guard_bits)
        self._digits: list[tuple[int, InverseTable]] = []
        while bits > 0:
            width = min(bits, _DIGIT_BITS)
            bits -= width
            digit = TruncatedGeometric(Fraction(2**bits) / law.scale, 2**width)
            self._digits.append((width, InverseTable(digit, guard_bits)))

    def fill(self, source: BlockSource, level: int, tile: Tile, out: NDArray[np.int64]) -> None:
        """See `Sampler.fill`."""
        self._top.draw(source, Address(_MAIN, level), tile, out)
        if not self._digits:
            return
        digit = np.empty_like(out)
        negative = out >> 63  # all ones where negative: there digits count downwards
        for number, (width, table) in enumerate(self._digits):
            table.draw(source, Address(_DIGIT + number, level), tile, digit)
            digit ^= negative & ((1 << width) - 1)
            out <<= width
            out |= digit


class GaussianTableSampler(Sampler):
    """Discrete Gaussian of moderate spread: one table, no rejection."""

    def __init__(self, law: DiscreteGaussian, guard_bits: int = 0) -> None:
        self._table = InverseTable(GaussianBlocks(law.sigma_squared, 0), guard_bits)

    def fill(self, source: BlockSource, level: int, tile: Tile, out: NDArray[np.int64]) -> None:
        """See `Sampler.fill`."""
        self._table.draw(source, Address(_MAIN, level), tile, out)


class GaussianBlockSampler(Sampler):
    """Discrete Gaussian of large spread: a block, a uniform place in it, accepted exactly.

    Blocks are 1/64 to 1/128 of sigma wide, so more than 99% of the proposals are accepted, nearly
    all of them by comparing sixteen bits with a lower bound for the whole block.
    """

    def __init__(self, law: DiscreteGaussian, guard_bits: int = 0) -> None:
        self._bits = 0
        while law.sigma_squared / 4 ** (self._bits + 1) >= _BLOCKS_PER_SIGMA**2:
            self._bits += 1
        self._law = GaussianBlocks(law.sigma_squared, self._bits)
        self._rate = 1 / (2 * law.sigma_squared)
        self._table = InverseTable(self._law, guard_bits)
        self._guard = 2.0 ** (guard_bits - 45)
        reach = int(16 * float(law.sigma_squared) ** 0.5) >> self._bits
        self._reach = reach + 1
        sure = [self._surely_accepted(block) for block in range(-reach, reach)]
        # Nothing is sure about blocks further out: they are looked up at the ends.
        self._sure = np.array([0, *sure, 0], np.uint16)

    def _surely_accepted(self, block: int) -> int:
        """How many of the 65,536 sixteen-bit values are below every acceptance in the block."""
        size = 1 << self._bits
        ends = (block * size, (block + 1) * size - 1)
        exponent = self._rate * (max(map(abs, ends)) ** 2 - self._law.nearest(block) ** 2)
        return exp_bracket(exponent, 16)[0]

    def fill(self, source: BlockSource, level: int, tile: Tile, out: NDArray[np.int64]) -> None:
        """See `Sampler.fill`."""
        self._table.draw(source, Address(_MAIN, level), tile, out)
        sure = self._sure.take(out + self._reach, mode="clip")
        sixteen = source.packed(Address(_ACCEPT, level), tile, "<u2")
        (doubtful,) = (sixteen >= sure).reshape(-1).nonzero()
        at = np.divmod(doubtful, tile.columns)
        known, blocks = sixteen[at].astype(np.uint64), out[at]
        wide = "<u2" if self._bits <= 16 else "<u8"
        places = source.packed(Address(_OFFSET, level), tile, wide)
        out <<= self._bits
        out |= (places & places.dtype.type((1 << self._bits) - 1)).astype(np.int64)
        if len(doubtful):
            out[at] = self._decide(source, level, *tile.places(*at), blocks, out[at], known)

    def _decide(
        self,
        source: BlockSource,
        level: int,
        rows: Words,
        columns: Words,
        blocks: NDArray[np.int64],
        values: NDArray[np.int64],
        sixteen: Words,
    ) -> NDArray[np.int64]:
        """Accept or redraw single proposals until all are accepted."""
        values = values.copy()
        pending = np.arange(len(values))
        mask = np.uint64((1 << self._bits) - 1)
        for attempt in range(LAST_ATTEMPT + 1):
            place = (rows[pending], columns[pending])
            accepted = self._accept(
                source, Address(_ACCEPT, level, attempt), place, blocks, values[pending], sixteen
            )
            pending = pending[~accepted]
            if not len(pending):
                return values
            place = (rows[pending], columns[pending])
            retry = Address(_RETRY, level, min(attempt + 1, LAST_ATTEMPT))
            words = source.refine(retry, *place, lane=0)
            sixteen = words[:, 0] >> np.uint64(48)
            first_bits = (words[:, 0] >> np.uint64(32)) & np.uint64(0xFFFF)
            blocks = self._table.settle(
                source, Address(_MAIN, level, retry.attempt), *place, first_bits
            )
            values[pending] = blocks << self._bits | (words[:, 1] & mask).astype(np.int64)
        raise NoiseAddressError(
            "a Gaussian draw was rejected 256 times, which happens once in 2^1000 draws: "
            "the key or the AES implementation is broken"
        )

    def _accept(
        self,
        source: BlockSource,
        address: Address,
        place: tuple[Words, Words],
        blocks: NDArray[np.int64],
        values: NDArray[np.int64],
        sixteen: Words,
    ) -> NDArray[np.bool_]:
        """Whether V < exp(-(x^2 - nearest^2) / (2 sigma^2)), V uniform with ``sixteen`` leading."""
        leading = leading_bits(source, address, *place, sixteen)
        size = 1 << self._bits
        nearest = np.where(blocks >= 0, blocks * size, (blocks + 1) * size - 1)
        # both factors are exact in float64 (below 2^53); the exponent is below 1 near the centre
        exponent = (values - nearest).astype(float) * (values + nearest).astype(float)
        ratio = np.exp(-exponent * float(self._rate))
        uniform = leading.astype(float) * 2.0**-64
        accepted: NDArray[np.bool_] = uniform < ratio
        for i in np.flatnonzero(np.abs(uniform - ratio) <= self._guard):
            sample = int(place[0][i]), int(place[1][i]), int(sixteen[i])
            gap = int(values[i]) ** 2 - int(nearest[i]) ** 2
            threshold = partial(exp_bracket, self._rate * gap)
            accepted[i] = gap == 0 or Uniform(source, address, *sample).below(threshold)
        return accepted


@lru_cache(maxsize=256)
def sampler_for(law: Law) -> Sampler:
    """The one sampler of a law (tables are shared between streams)."""
    if isinstance(law, DiscreteLaplace):
        return LaplaceSampler(law)
    if law.sigma_squared <= _LARGEST_TABLE_SIGMA**2:
        return GaussianTableSampler(law)
    return GaussianBlockSampler(law)

"""Exact samplers of discrete Laplace and Gaussian noise, by tables of cumulative probability.

The distribution's parameters alone decide which sampler is used: one address has one noise.
"""

from __future__ import annotations

import decimal
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.base.errors import NoiseAddressError
from counton.noise.blocks import LAST_ATTEMPT, LAST_LANE, BlockAddress, BlockSource, Tile, Words

#: Entry of a table for sixteen bits that do not decide a draw; it lies outside the range of draws.
UNDECIDED = -(2**15)
GUARD_DIGITS = 12


@lru_cache(maxsize=64)
def _context(bits: int) -> decimal.Context:
    """Return a decimal context whose relative rounding error is far below ``2**-bits``."""
    return decimal.Context(
        prec=bits * 30103 // 100_000 + 1 + GUARD_DIGITS + 30,
        rounding=decimal.ROUND_HALF_EVEN,
        Emin=decimal.MIN_EMIN,
        Emax=decimal.MAX_EMAX,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
    )


def exp_bracket(exponent: Fraction, bits: int) -> tuple[int, int]:
    """Return lo <= exp(-exponent) * 2**bits <= hi, which differ by at most 2; ``exponent`` >= 0.

    >>> exp_bracket(Fraction(1, 2), 16)  # 39749.59...
    (39749, 39751)
    """
    # The rounded quotient and the rounded exponential err by less than 10**-GUARD_DIGITS units of
    # 2**-bits together: the context carries GUARD_DIGITS + 30 digits beyond bits, and a * exp(-a) <
    # 1.
    context = _context(bits)
    quotient = context.divide(
        decimal.Decimal(exponent.numerator), decimal.Decimal(exponent.denominator)
    )
    value = context.exp(context.minus(quotient))
    scaled = context.multiply(value, decimal.Decimal(1 << bits))
    middle = int(scaled.to_integral_value(rounding=decimal.ROUND_HALF_EVEN, context=context))
    return max(middle - 1, 0), middle + 1


class _Powers:
    """The numbers exp(-first - n * rate) for n = 0, 1, ..., as integers with a known error."""

    # If two numbers up to 1 err by a and b units, their product rounded down errs by at most a + b
    # + 1. So the n-th value errs by at most 2 n + 1 units of 2**-(bits + guard_bits).

    def __init__(self, first: Fraction, rate: Fraction, guard_bits: int = 64) -> None:
        self._first = first
        self._rate = rate
        self._guard_bits = guard_bits
        self._powers_by_bits: dict[int, tuple[int, list[int]]] = {}

    def bracket(self, n: int, bits: int) -> tuple[int, int]:
        """Return lower and upper integer bounds of exp(-first - n * rate) * 2**bits."""
        finer = bits + self._guard_bits
        if bits not in self._powers_by_bits:
            ratio, start = (
                sum(exp_bracket(exponent, finer)) // 2 for exponent in (self._rate, self._first)
            )
            self._powers_by_bits[bits] = ratio, [start]
        ratio, powers = self._powers_by_bits[bits]
        while len(powers) <= n:
            powers.append(powers[-1] * ratio >> finer)
        error = 2 * n + 1
        low = max(powers[n] - error, 0)
        high = powers[n] + error
        return low >> self._guard_bits, -(-high >> self._guard_bits)


class CumulativeDistribution(ABC):
    """A distribution on integers, given by bounds of F(j) = P(draw <= j) to any number of bits."""

    #: Smallest and largest value; None if the support has no end.
    first: int | None
    last: int | None

    @abstractmethod
    def bracket(self, value: int, bits: int) -> tuple[int, int]:
        """Return lower and upper integer bounds of ``F(value) * 2**bits``."""

    def floor(self, value: int, bits: int) -> int:
        """Return ``F(value) * 2**bits`` rounded down, exactly."""
        # F is below 1 before the last value; if scales are tiny, no bracket need show by how much.
        most = (1 << bits) - (value != self.last)
        extra = 40
        while True:
            low, high = self.bracket(value, bits + extra)
            if low >> extra == high >> extra or low >> extra >= most:
                return min(low >> extra, most)
            extra *= 2


class SignedGeometric(CumulativeDistribution):
    """The distribution of a discrete Laplace variable divided by 2**block_bits and rounded down."""

    # P(value <= s) = q r^(-1-s) / (1+q) for s < 0 and 1 - r^(s+1) / (1+q) for s >= 0, where q =
    # exp(-1/scale) and r = q^(2^block_bits).

    first = None
    last = None

    def __init__(self, scale: Fraction, block_bits: int) -> None:
        rate = (1 << block_bits) / scale
        self._below = _Powers(1 / scale, rate)
        self._above = _Powers(Fraction(0), rate)

    @override
    def bracket(self, value: int, bits: int) -> tuple[int, int]:
        fixed_one = 1 << bits
        q_low, q_high = self._below.bracket(0, bits)
        if value < 0:
            low, high = self._below.bracket(-1 - value, bits)
            return (low << bits) // (fixed_one + q_high), -((-high << bits) // (fixed_one + q_low))
        low, high = self._above.bracket(value + 1, bits)
        return (
            fixed_one + ((-high << bits) // (fixed_one + q_low)),
            fixed_one - (low << bits) // (fixed_one + q_high),
        )


class TruncatedGeometric(CumulativeDistribution):
    """The distribution of one digit of a geometric variable: P(digit <= j) = (1 - p^(j+1)) / (1 -
    p^size), j in 0..size-1.

    ``p = exp(-rate)``, and ``size`` is the number of digits to choose from. The digits of a
    geometric variable in any base are independent. So they are drawn one by one, and a large scale
    needs no large table.
    """

    first = 0

    def __init__(self, rate: Fraction, size: int) -> None:
        self.last = size - 1
        self._powers = _Powers(Fraction(0), rate)
        self._size = size

    @override
    def bracket(self, value: int, bits: int) -> tuple[int, int]:
        if value >= self._size - 1:
            return 1 << bits, 1 << bits
        # 1 - p^size can be as small as 2^-40: extra bits make up for the lost precision.
        work = bits + 80
        unit = 1 << work
        part_low, part_high = self._powers.bracket(value + 1, work)
        whole_low, whole_high = self._powers.bracket(self._size, work)
        low = ((unit - part_high) << bits) // (unit - whole_low)
        high = -((-(unit - part_low) << bits) // (unit - whole_high))
        return low, high


class GaussianBlocks(CumulativeDistribution):
    """A distribution on blocks, by the largest Gaussian weight in each block.

    The weight of x is exp(-x^2 / (2 sigma_squared)). Block s has the 2**block_bits integers from s
    * 2**block_bits on. Its integer nearest zero is its first one if s >= 0, else its last. With
    ``block_bits = 0`` this is the discrete Gaussian distribution itself.
    """

    first = None
    last = None

    def __init__(self, sigma_squared: Fraction, block_bits: int) -> None:
        self._rate = 1 / (2 * sigma_squared)
        self._block = 1 << block_bits
        #: For each number of bits: the lowest block, the cumulative weights of the blocks from it
        #: on, in units of 2**-(bits + 64), and the bound of their error.
        self._sums: dict[int, tuple[int, list[int], int]] = {}

    def nearest(self, block: int) -> int:
        """Return the integer of a block that is nearest zero and has its largest weight."""
        return block * self._block if block >= 0 else (block + 1) * self._block - 1

    def _weights(self, offset: int, count: int, work: int) -> list[int]:
        """Return ``count`` numbers exp(-rate x^2) * 2**work, at most 2 off, in steps of a block."""
        # The ratio of one weight to the previous one falls by a constant factor from step to step.
        # If two numbers below 1 err by a and b units, their product errs by at most a + b + 1. So
        # the n-th ratio errs by 2 n + 3 units of 2**-(work + 64), and the n-th weight by (n + 2)^2:
        # below one unit of 2**-work.
        finer = work + 64

        def exact(exponent: Fraction) -> int:
            return sum(exp_bracket(exponent, finer)) // 2

        square = self._rate * self._block**2
        weight = exact(self._rate * offset**2)
        ratio = exact(square + 2 * self._rate * self._block * offset)
        factor = exact(2 * square)
        weights = []
        for _ in range(count):
            weights.append(weight >> 64)
            weight = weight * ratio >> finer
            ratio = ratio * factor >> finer
        return weights

    @override
    def bracket(self, value: int, bits: int) -> tuple[int, int]:
        if bits not in self._sums:
            work = bits + 64
            half = 0
            while exp_bracket(self._rate * self.nearest(half) ** 2, work + 64)[1] > 4:
                half = max(2 * half, 1)
            lowest = -half - 1
            highest = half
            before = self._weights(1, -lowest, work)
            after = self._weights(0, highest + 1, work)
            sums = list(accumulate([*reversed(before), *after]))
            # Each weight errs by at most 2; the tails beyond the ends are below 2**-60 of one unit.
            self._sums[bits] = (lowest, sums, 2 * len(sums) + 1)
        lowest, sums, error = self._sums[bits]
        position = value - lowest
        if position < 0:
            return 0, 1
        if position >= len(sums):
            return (1 << bits) - 1, 1 << bits
        weight_up_to_value = sums[position]
        total_weight = sums[-1]
        low = (max(weight_up_to_value - error, 0) << bits) // (total_weight + error)
        high = -((-(weight_up_to_value + error) << bits) // (total_weight - error))
        return low, min(high, 1 << bits)


class InverseTable:
    """A table that draws from a `CumulativeDistribution` by inversion.

    Most draws need few random bits.

    For U uniform in [0, 1) the draw is the smallest j with U < F(j). A draw reads sixteen random
    bits of U, then sixty-four, then as many as it needs. Larger ``guard_bits`` compare more draws
    exactly, and change no draw.
    """

    def __init__(self, distribution: CumulativeDistribution, guard_bits: int = 0) -> None:
        self._distribution = distribution
        self._guard = np.uint64((1 << guard_bits) - 1)
        self.lowest, floors = self._thresholds()
        assert max(-self.lowest, self.lowest + len(floors)) < -UNDECIDED
        self._floors = np.array([*floors, 2**64 - 1], np.uint64)  # nothing is above the last
        edges = np.arange(2**16, dtype=np.uint64) << np.uint64(48)
        below = np.searchsorted(self._floors[:-1], edges, side="left")
        above = np.append(below[1:], len(floors))
        self.cells = np.where(below == above, below + self.lowest, UNDECIDED).astype(np.int16)

    def _thresholds(self) -> tuple[int, list[int]]:
        """Return a value below which F < 2**-64, and F * 2**64 rounded down from there on."""
        distribution = self._distribution
        top = 2**64 - 1
        lowest = distribution.first if distribution.first is not None else 0
        if distribution.first is None:
            while distribution.floor(lowest, 64) >= 1:
                lowest = 2 * lowest - 1
            # floor is 0 at low and above 0 at high, or both are 0
            low = lowest
            high = 0
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if distribution.floor(middle, 64) == 0 else (low, middle)
            lowest = low
        floors: list[int] = []
        value = lowest
        while distribution.last is None or value < distribution.last:
            floors.append(distribution.floor(value, 64))
            if floors[-1] == top:
                break
            value += 1
        return lowest, floors

    def draw(
        self, source: BlockSource, address: BlockAddress, tile: Tile, out: NDArray[Any]
    ) -> None:
        """Write exact draws of all samples of a tile to ``out``: shape ``(rows, columns)``."""
        sixteen = source.words_of_tile(address, tile, "<u2")
        cells = self.cells.take(sixteen, mode="clip")  # none is outside; numpy's quickest mode
        out[...] = cells
        (undecided,) = (cells == UNDECIDED).reshape(-1).nonzero()
        if len(undecided):
            places = np.divmod(undecided, tile.columns)
            rows, columns = tile.places(places[0], places[1])
            out[places] = self.resolve(
                source, address, rows, columns, sixteen[places].astype(np.uint64)
            )

    def resolve(
        self,
        source: BlockSource,
        address: BlockAddress,
        rows: Words,
        columns: Words,
        sixteen: Words,
    ) -> NDArray[np.int64]:
        """Return the draws of samples for which the first sixteen random bits do not decide."""
        leading = leading_bits(source, address, rows, columns, sixteen)
        # A real threshold lies within one unit above its floor, so equality decides nothing.
        least = most = leading
        if self._guard:
            least = leading - np.minimum(leading, self._guard)
            most = leading + np.minimum(~leading, self._guard)
        ranks = self._floors.searchsorted(least, side="left")
        values = ranks + self.lowest
        for i in (self._floors.take(ranks) <= most).nonzero()[0]:
            uniform = Uniform(
                source,
                address,
                row=int(rows[i]),
                column=int(columns[i]),
                sixteen=int(sixteen[i]),
            )
            values[i] = self._exact(uniform, int(values[i]))
        return values

    def _exact(self, uniform: Uniform, start: int) -> int:
        """Return the smallest j with U < F(j); ``start`` is where the search begins."""

        def is_below(value: int) -> bool:
            return uniform.below(lambda bits: self._distribution.bracket(value, bits))

        value = start
        while not is_below(value):
            value += 1
        while value != self._distribution.first and is_below(value - 1):
            value -= 1
        return value


def leading_bits(
    source: BlockSource, address: BlockAddress, rows: Words, columns: Words, sixteen: Words
) -> NDArray[np.uint64]:
    """Return the first 64 bits of uniform numbers, of which ``sixteen`` are given."""
    words = source.refine(address, rows, columns, lane=1)
    return sixteen << np.uint64(48) | words[:, 0] >> np.uint64(16)


class Uniform:
    """A uniform random number in [0, 1), whose bits are computed as comparisons need them."""

    def __init__(
        self, source: BlockSource, address: BlockAddress, row: int, column: int, sixteen: int
    ) -> None:
        self._source = source
        self._address = address
        self._place = np.array([row], np.uint64), np.array([column], np.uint64)
        self._value = sixteen
        self._bits = 16
        self._lane = 0
        self._read_on()

    def below(self, bracket: Callable[[int], tuple[int, int]]) -> bool:
        """Return whether the number is below a threshold, which ``bracket(bits)`` bounds.

        Raises:
            NoiseAddressError: 32,000 bits do not decide.
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
                "32,000 bits do not decide a draw, which happens once in 2^32000 draws: "
                "the key or the AES implementation is broken"
            )
        upper, lower = self._source.refine(self._address, *self._place, self._lane)[0]
        self._value = self._value << 128 | int(upper) << 64 | int(lower)
        self._bits += 128


# Purposes: the uses of random bits inside one sample.
_MAIN_PURPOSE = 0
_ACCEPTANCE_PURPOSE = 1
_OFFSET_PURPOSE = 2
_RETRY_PURPOSE = 3
_DIGIT_PURPOSE = 16

#: With these limits, tables fit into the cache, and at most some 0.5% (Laplace) and 3% (Gaussian)
#: of the draws need more than sixteen bits.
_LARGEST_TOP_SCALE = 24
_LARGEST_TABLE_SIGMA = 128
_DIGIT_BITS = 8
_BLOCKS_PER_SIGMA = 64
#: Samples handled at once, few enough to stay in the second-level cache between two passes.
SAMPLES_PER_SPAN = 2**16


class TileSampler(ABC):
    """A sampler of one noise distribution, which fills rectangles of the noise table."""

    @abstractmethod
    def fill(self, source: BlockSource, level: int, tile: Tile, out: NDArray[np.int64]) -> None:
        """Write exact draws of all samples of a tile to ``out``: int64, ``(rows, columns)``."""


class LaplaceSampler(TileSampler):
    """Sampler of discrete Laplace noise: the high bits with the sign, then the low bits as digits.

    The digits are independent and come from small tables, so a large scale needs no large table.
    """

    def __init__(self, distribution: DiscreteLaplace, guard_bits: int = 0) -> None:
        bits = 0
        while distribution.scale / 2**bits > _LARGEST_TOP_SCALE:
            bits += 1
        self._top = InverseTable(SignedGeometric(distribution.scale, bits), guard_bits)
        self._bits = bits
        self._digits: list[tuple[int, InverseTable]] = []
        while bits > 0:
            width = min(bits, _DIGIT_BITS)
            bits -= width
            digit = TruncatedGeometric(Fraction(2**bits) / distribution.scale, 2**width)
            self._digits.append((width, InverseTable(digit, guard_bits)))

    @override
    def fill(self, source: BlockSource, level: int, tile: Tile, out: NDArray[np.int64]) -> None:
        self._top.draw(source, BlockAddress(_MAIN_PURPOSE, level), tile, out)
        if not self._digits:
            return
        low = np.zeros(out.shape, np.int32 if self._bits < 32 else np.int64)
        digit = np.empty_like(low)
        for number, (width, table) in enumerate(self._digits):
            table.draw(source, BlockAddress(_DIGIT_PURPOSE + number, level), tile, digit)
            low <<= width
            low |= digit
        below = out >> 63  # all ones if negative: then digits count downwards
        below &= (1 << self._bits) - 1
        below ^= low
        out <<= self._bits
        out |= below


class GaussianTableSampler(TileSampler):
    """Sampler of discrete Gaussian noise with a small standard deviation: one table suffices."""

    def __init__(self, distribution: DiscreteGaussian, guard_bits: int = 0) -> None:
        self._table = InverseTable(GaussianBlocks(distribution.sigma_squared, 0), guard_bits)

    @override
    def fill(self, source: BlockSource, level: int, tile: Tile, out: NDArray[np.int64]) -> None:
        self._table.draw(source, BlockAddress(_MAIN_PURPOSE, level), tile, out)


class GaussianBlockSampler(TileSampler):
    """Sampler of discrete Gaussian noise with a large standard deviation, by exact rejection.

    It draws a block, then a uniform integer of it; if this is rejected, both are drawn again.
    """

    # Blocks are 1/64 to 1/128 of sigma wide, so more than 99% of the proposals are accepted, nearly
    # all of them by comparing sixteen bits with a lower bound for the whole block.

    def __init__(self, distribution: DiscreteGaussian, guard_bits: int = 0) -> None:
        self._bits = 0
        while distribution.sigma_squared / 4 ** (self._bits + 1) >= _BLOCKS_PER_SIGMA**2:
            self._bits += 1
        self._distribution = GaussianBlocks(distribution.sigma_squared, self._bits)
        self._rate = 1 / (2 * distribution.sigma_squared)
        self._ratio = self._rate.as_integer_ratio()
        self._table = InverseTable(self._distribution, guard_bits)
        self._guard = 2.0 ** (guard_bits - 45)
        reach = int(16 * float(distribution.sigma_squared) ** 0.5) >> self._bits
        self._reach = reach + 1
        sure = [self._surely_accepted(block) for block in range(-reach, reach)]
        # Blocks beyond the ends have no safe bound: the lookup clips to the ends, which hold 0.
        self._sure = np.array([0, *sure, 0], np.uint16)

    def _surely_accepted(self, block: int) -> int:
        """Return a bound such that 16 random bits below it accept any integer of the block."""
        size = 1 << self._bits
        furthest = -block * size if block < 0 else (block + 1) * size - 1
        squares = furthest**2 - self._distribution.nearest(block) ** 2
        rate, unit = self._ratio
        exponent = squares * rate / unit
        # A lower bound is enough; its last places change no draw, and float64 finds it faster.
        return max(int(math.exp(-exponent) * 65_536 * (1 - 2.0**-40)) - 1, 0)

    @override
    def fill(self, source: BlockSource, level: int, tile: Tile, out: NDArray[np.int64]) -> None:
        self._table.draw(source, BlockAddress(_MAIN_PURPOSE, level), tile, out)
        sure = self._sure.take(out + self._reach, mode="clip")
        sixteen = source.words_of_tile(BlockAddress(_ACCEPTANCE_PURPOSE, level), tile, "<u2")
        (doubtful,) = (sixteen >= sure).reshape(-1).nonzero()
        places = np.divmod(doubtful, tile.columns)
        acceptance = sixteen[places].astype(np.uint64)
        blocks = out[places]
        wide = "<u2" if self._bits <= 16 else "<u8"
        offsets = source.words_of_tile(BlockAddress(_OFFSET_PURPOSE, level), tile, wide)
        out <<= self._bits
        out |= (offsets & offsets.dtype.type((1 << self._bits) - 1)).astype(np.int64)
        if len(doubtful):
            rows, columns = tile.places(places[0], places[1])
            out[places] = self._decide(
                source, level, rows, columns, blocks, out[places], acceptance
            )

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
        """Test proposed integers exactly; redraw those that are rejected until all are accepted."""
        values = values.copy()
        pending = np.arange(len(values))
        mask = np.uint64((1 << self._bits) - 1)
        for attempt in range(LAST_ATTEMPT + 1):
            accepted = self._accept(
                source,
                BlockAddress(_ACCEPTANCE_PURPOSE, level, attempt),
                rows[pending],
                columns[pending],
                blocks,
                values[pending],
                sixteen,
            )
            pending = pending[~accepted]
            if not len(pending):
                return values
            retry = BlockAddress(_RETRY_PURPOSE, level, min(attempt + 1, LAST_ATTEMPT))
            words = source.refine(retry, rows[pending], columns[pending], lane=0)
            sixteen = words[:, 0] >> np.uint64(48)
            first_bits = (words[:, 0] >> np.uint64(32)) & np.uint64(0xFFFF)
            blocks = self._table.resolve(
                source,
                BlockAddress(_MAIN_PURPOSE, level, retry.attempt),
                rows[pending],
                columns[pending],
                first_bits,
            )
            values[pending] = blocks << self._bits | (words[:, 1] & mask).astype(np.int64)
        raise NoiseAddressError(
            "a Gaussian draw was rejected 256 times, which happens once in 2^1000 draws: "
            "the key or the AES implementation is broken"
        )

    def _accept(
        self,
        source: BlockSource,
        address: BlockAddress,
        rows: Words,
        columns: Words,
        blocks: NDArray[np.int64],
        values: NDArray[np.int64],
        sixteen: Words,
    ) -> NDArray[np.bool_]:
        """Return, for each proposed integer x, whether V < exp(-(x^2 - nearest^2) / (2 sigma^2)).

        V is uniform in [0, 1) with the first bits ``sixteen``; ``nearest`` is the integer of x's
        block that is nearest to 0.
        """
        leading = leading_bits(source, address, rows, columns, sixteen)
        size = 1 << self._bits
        nearest = np.where(blocks >= 0, blocks * size, (blocks + 1) * size - 1)
        # Both factors are exact in float64 (below 2^53); the exponent is below 1 near the centre.
        exponent = (values - nearest).astype(float) * (values + nearest).astype(float)
        ratio = np.exp(-exponent * float(self._rate))
        uniform = leading.astype(float) * 2.0**-64
        accepted: NDArray[np.bool_] = uniform < ratio
        for i in np.flatnonzero(np.abs(uniform - ratio) <= self._guard):
            gap = int(values[i]) ** 2 - int(nearest[i]) ** 2
            if gap == 0:
                accepted[i] = True
                continue
            exact_uniform = Uniform(
                source,
                address,
                row=int(rows[i]),
                column=int(columns[i]),
                sixteen=int(sixteen[i]),
            )
            accepted[i] = exact_uniform.below(partial(exp_bracket, self._rate * gap))
        return accepted


@lru_cache(maxsize=256)
def sampler_for(distribution: NoiseDistribution) -> TileSampler:
    """Return the sampler of a noise distribution; equal distributions share one sampler."""
    if isinstance(distribution, DiscreteLaplace):
        return LaplaceSampler(distribution)
    if distribution.sigma_squared <= _LARGEST_TABLE_SIGMA**2:
        return GaussianTableSampler(distribution)
    return GaussianBlockSampler(distribution)

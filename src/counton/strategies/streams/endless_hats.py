"""Steps and hats without a last step: strategies for sums over recent steps, with Laplace noise.

Each step is measured alone, and so are sums that are weighted by hats: triangles over 2 s steps,
with a knot at every s-th step. The count of step t = k s + 1 + j, with 0 <= j < s, enters

    node (0, t)      with the weight c,
    node (1, k)      with the weight a - r(j),
    node (1, k + 1)  with the weight r(j) = round(a j / s),

in units of 2^-bits. Here c + a = 2^bits, so every count changes all nodes together by exactly 1 in
the 1-norm, for ever.

**Two levels.** For sums over hundreds of steps there is a second level of wider hats, whose spacing
is a multiple of the first: nodes (2, k), with a weight a' of their own. Then c + a + a' = 2^bits.
The steps are divided into blocks: each has the steps from a widest knot to the next, and the knots
of all levels that stand there.

**Estimates.** With y = C x + z, the residual of knot k is the sum over t of a_kt y_(0, t), less c
times the node of the knot. The counts x cancel in it, so it is a function of noise alone. The count
of step t is estimated by (y_(0, t) - sum over k of a_kt m_k) / c, where m = M (residuals) and M is
the inverse of c^2 I + A A^T, cut off beyond `_REACH_IN_BLOCKS` blocks and rounded. Any M gives
B C = A; this one has the least variance, but for the cut. Residuals of knots before the first step
are left out.

**Exactness.** All of this is arithmetic of integers. An estimate is rounded to a multiple of
2^-total_bits, and so is a count: adding a count before or after rounding gives the same number.
Running totals of estimates are rounded to multiples of 2^-fraction_bits. So a release is a function
of C x + z alone, and equal on every machine.

This mechanism is counton's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.participation import Structure
from counton.strategies.rounding import round_bits
from counton.strategies.strategy import (
    EndlessStrategy,
    Node,
    NodeNoise,
    Reader,
    Steps,
    StrategyFacts,
    check_step,
    check_window,
    window_ends,
)
from counton.strategies.streams.exact_totals import (
    FRACTION_BITS,
    GUARD_BITS,
    LARGEST_SUM,
    WIDEST_STDS,
    rounding_of_releases,
    steps_at_once,
)

if TYPE_CHECKING:
    from counton.base.arrays import Floats, Integers

#: Most steps between two knots, and most steps of a stream.
LARGEST_SPACING = 2**14
LARGEST_HORIZON = 2**30
_MOST_BITS = 16
#: Blocks to each side whose residuals correct an estimate.
_REACH_IN_BLOCKS = 6
#: Blocks to each side of the system from whose exact inverse M is taken.
_SOLVED_BLOCKS = 24
#: Fraction bits of M are `_INVERSE_BITS` more than those of c^2.
_INVERSE_BITS = 14
#: Fraction bits of the integers by which the system of two levels is solved.
_SOLUTION_BITS = 128
#: Most fine knots from one wide knot to the next.
_LARGEST_MULTIPLE = 32


@dataclass(frozen=True)
class _Level:
    """A level of hats.

    Attributes:
        spacing: steps from a knot to the next.
        height: weight of a count at a knot, in units of 2^-bits.
    """

    spacing: int
    height: int

    @cached_property
    def weights_after(self) -> Integers:
        """The weights in the next knot, by the distance j from the knot before: shape (s,)."""
        j = np.arange(self.spacing, dtype=np.int64)
        return (2 * self.height * j + self.spacing) // (2 * self.spacing)

    @cached_property
    def weights_before(self) -> Integers:
        """The weights in the knot before, by the distance j from it: shape (s,)."""
        return self.height - self.weights_after


class EndlessHats(EndlessStrategy):
    """Running totals whose sums over recent steps have little Laplace noise, without a last step.

    The guarantee is for all releases together, and does not weaken with age. Sums over so many
    recent steps have about the same variance at all late steps. The variance of totals grows with
    the step.

    Sums over 250 recent steps and more have less noise with a second level of wider hats.

    Args:
        spacing: number of steps from a knot to the next, from 2 to 2^14.
        height: weight of a count at a knot, in units of 2^-bits, from 0 to 2^bits - 1; 0: each step
            has noise of its own.
        bits: fraction bits of weights, 0 to 16.
        multiple: number of knots from a wide knot to the next, up to 32; 1: there are no wide hats.
        wide_height: weight of a count at a wide knot. It is 0 without wide hats; both weights
            together are at most 2^bits - 1.

    Raises:
        InvalidInputError: an argument out of range.

    >>> strategy = EndlessHats(11, 29128)
    >>> variance = strategy.variance([28, 1000, 10**6], since=[0, 972, 10**6 - 28])
    >>> (2 * variance).round(1).tolist()
    [34.4, 39.3, 38.9]
    >>> strategy.l1_sensitivity()
    Fraction(1, 1)
    >>> of_a_year = EndlessHats(12, 21998, multiple=12, wide_height=20623)
    >>> variance = of_a_year.variance([365, 10**6], since=[0, 10**6 - 365])
    >>> ((2 * variance) ** 0.5).round(1).tolist()
    [10.5, 11.7]
    """

    sources = ("a_floor_estimates", "a_rounded_quotient_estimates")

    def __init__(
        self,
        spacing: int,
        height: int,
        bits: int = _MOST_BITS,
        multiple: int = 1,
        wide_height: int = 0,
    ) -> None:
        self.bits = check_integer("bits", bits, 0, _MOST_BITS)
        self.spacing = check_integer("spacing", spacing, 2, LARGEST_SPACING)
        most = (1 << self.bits) - 1
        self.height = check_integer("height", height, 0, most)
        self.multiple = check_integer("multiple", multiple, 1, _LARGEST_MULTIPLE)
        most_wide = most - self.height if self.multiple > 1 else 0
        self.wide_height = check_integer("wide_height", wide_height, 0, most_wide)
        #: Steps of a block.
        self._block = self.spacing * self.multiple
        levels = [_Level(self.spacing, self.height)]
        if self.multiple > 1:
            levels.append(_Level(self._block, self.wide_height))
        self._levels = tuple(levels)
        #: The weight of a count in the node of its step.
        self.own = (1 << self.bits) - sum(level.height for level in levels)
        #: Knots of each level in a block, and of all of them.
        self._knots_by_level = [self._block // level.spacing for level in levels]
        self._knots = sum(self._knots_by_level)
        self.facts = StrategyFacts(
            lattice_bits=self.bits,
            fraction_bits=FRACTION_BITS,
            local=False,
            unit_columns=False,
            buffer_size=2,
            drawn_ahead=(_REACH_IN_BLOCKS + 2) * self._block,
            last_step=LARGEST_HORIZON,
        )

    @classmethod
    @override
    def examples(cls, horizon: int) -> Sequence[EndlessHats]:
        if horizon <= 40:
            return (cls(3, 28, 6), cls(2, 0, 0))
        return (cls(5, 40, 6), cls(2, 20, 6, 2, 18))

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """Arguments that identify the strategy; those of wide hats only if there are any."""
        values = {"spacing": self.spacing, "height": self.height, "bits": self.bits}
        if self.multiple > 1:
            values |= {"multiple": self.multiple, "wide_height": self.wide_height}
        return values

    def coarser(self, bits: int) -> EndlessHats:
        """Return nearly the same strategy with fewer fraction bits, for wider noise.

        Args:
            bits: fraction bits of weights, at most those of this strategy.
        """
        fewer = self.bits - bits
        height = self.height >> fewer
        return EndlessHats(self.spacing, height, bits, self.multiple, self.wide_height >> fewer)

    # ------------------------------------------------------------------------------ C and M

    @cached_property
    def _weights(self) -> tuple[Integers, Integers]:
        """Weights of a block's steps in the knots of the block, and in those of the next.

        Both have the shape (steps, knots); knots are sorted by level.
        """
        here = np.zeros((self._block, self._knots), np.int64)
        after = np.zeros_like(here)
        step = np.arange(self._block)
        first = 0
        for level, knots in zip(self._levels, self._knots_by_level, strict=True):
            knot = step // level.spacing
            here[step, first + knot] = np.tile(level.weights_before, knots)
            in_next_knot = np.tile(level.weights_after, knots)
            is_inside = knot + 1 < knots
            here[step[is_inside], first + knot[is_inside] + 1] = in_next_knot[is_inside]
            after[step[~is_inside], first] = in_next_knot[~is_inside]
            first += knots
        return here, after

    @cached_property
    def _inverse(self) -> list[Any]:
        """M from a block to the next ones in reach: (knots, knots) each, in 2^-(2 bits + 14)."""
        return self._inverse_of_two if self.multiple > 1 else self._inverse_of_one

    @property
    def _inverse_of_one(self) -> list[int]:
        """M by the distance of knots from 0 to `_REACH_IN_BLOCKS`, in units of 2^-(2 bits + 14)."""
        before = self._levels[0].weights_before
        after = self._levels[0].weights_after
        square = int(before @ before) + int(after @ after) + self.own**2
        product = int(before @ after)
        # The middle column of the inverse of a symmetric tridiagonal matrix, by elimination from
        # both ends: x_(j + 1) = -ratio x_j.
        ratio = Fraction(0)
        ratios = []
        for _ in range(_SOLVED_BLOCKS):
            ratio = Fraction(product) / (square - product * ratio)
            ratios.append(ratio)
        value = 1 / (square - 2 * product * ratios[-1])
        values = [value]
        for ratio in ratios[: -_REACH_IN_BLOCKS - 1 : -1]:
            value = -ratio * value
            values.append(value)
        unit = 1 << 2 * self.bits + _INVERSE_BITS
        return [math.floor(value * unit + Fraction(1, 2)) for value in values]

    @property
    def _inverse_of_two(self) -> list[Any]:
        """M from a block to the next `_REACH_IN_BLOCKS` ones, in units of 2^-(2 bits + 14).

        The system of 2 x 24 + 1 blocks is solved by elimination from both ends, in integers.
        """
        here, after = (weights.astype(object) for weights in self._weights)
        square = here.T @ here + after.T @ after
        square[np.diag_indices(self._knots)] += self.own**2
        shift = _SOLUTION_BITS - 2 * self.bits
        square = square << shift
        product = (here.T @ after) << shift  # of a block with the next
        from_first = square * 0
        from_last = square * 0
        ratios = []
        for _ in range(_SOLVED_BLOCKS):
            from_last = _times(_inverted(square - _times(product, from_last)), product.T)
            ratios.append(from_last)
            from_first = _times(_inverted(square - _times(product.T, from_first)), product)
        middle = square - _times(product, from_last) - _times(product.T, from_first)
        block = _inverted(middle)
        blocks = [block]
        for ratio in ratios[: -_REACH_IN_BLOCKS - 1 : -1]:
            block = -_times(ratio, block)
            blocks.append(block)
        half = 1 << _SOLUTION_BITS - _INVERSE_BITS - 1
        return [(block + half) >> _SOLUTION_BITS - _INVERSE_BITS for block in blocks]

    @cached_property
    def _kernel(self) -> Integers:
        """M by the distance of blocks, both ways within reach: shape (distances, knots, knots)."""
        matrices = [np.array(part, np.int64).reshape(self._knots, -1) for part in self._inverse]
        return np.array([*matrices[:0:-1], *(matrix.T for matrix in matrices)])

    def _knot_of(self, block: int, place: int) -> tuple[int, int]:
        """Return the node, as level and index, of the knot at a place in a block."""
        narrow_knots = self._knots_by_level[0]
        if place < narrow_knots:
            return 1, block * narrow_knots + place
        return 2, block

    @property
    @override
    def structure(self) -> Structure:
        """No facts: only the 1-norm of a single column is known in closed form."""
        return Structure()

    @override
    def column(self, step: int, last: int | None = None) -> tuple[Node, ...]:
        """Return the node of the step and the knots around it.

        Args:
            step: step of the stream, from 1.
            last: has no effect, because a count enters at most two nodes of each level of hats.
        """
        step = check_step(self, step)
        unit = 1 << self.bits
        nodes = [Node(0, step, Fraction(self.own, unit))]
        for number, level in enumerate(self._levels, 1):
            knot, j = divmod(step - 1, level.spacing)
            hats = {knot: int(level.weights_before[j]), knot + 1: int(level.weights_after[j])}
            nodes += [
                Node(number, hat, Fraction(weight, unit)) for hat, weight in hats.items() if weight
            ]
        return tuple(nodes)

    @override
    def l1_sensitivity(self) -> Fraction:
        return Fraction(1)

    @override
    def squared_sensitivity(self) -> Fraction:
        hats = sum((weights**2).sum(axis=1) for weights in self._weights)
        return Fraction(self.own**2 + int(np.max(hats)), 4**self.bits)

    @override
    def _node_factor(self, level: int) -> Fraction:
        """Return 1: all nodes have equal noise."""
        return Fraction(1)

    # --------------------------------------------------------------------------------- B

    @override
    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes whose noise is in the total of ``step``, exactly, in linear time."""
        step = check_step(self, step)
        here, after = (weights.astype(object) for weights in self._weights)
        blocks = (step - 1) // self._block + 1
        counted = np.arange(blocks * self._block) < step
        in_total = np.zeros((blocks + 1, self._knots), object)  # the total of each hat
        counts_by_block = counted.astype(np.int64).astype(object).reshape(blocks, self._block)
        in_total[:-1] += counts_by_block @ here
        in_total[1:] += counts_by_block @ after
        kernel = self._kernel.astype(object)
        unit = 1 << 2 * self.bits + _INVERSE_BITS
        read = np.zeros((blocks + _REACH_IN_BLOCKS + 2, self._knots), object)
        for block in range(blocks + _REACH_IN_BLOCKS + 1):
            near = range(
                max(0, block - _REACH_IN_BLOCKS), min(blocks, block + _REACH_IN_BLOCKS) + 1
            )
            for other in near:
                read[block] += kernel[other - block + _REACH_IN_BLOCKS] @ in_total[other]
        read *= Fraction(1, unit)
        nodes = []
        scale = Fraction(1 << self.bits, self.own)
        for block in range(blocks + _REACH_IN_BLOCKS + 1):
            corrections = here @ read[block] + after @ read[block + 1]
            for place, correction in enumerate(corrections.tolist()):
                number = block * self._block + place + 1
                weight = scale * ((number <= step) - correction)
                if weight:
                    nodes.append(Node(0, number, weight))
        for block, weights in enumerate(read.tolist()):
            nodes += [
                Node(*self._knot_of(block, place), weight * (1 << self.bits))
                for place, weight in enumerate(weights)
                if weight
            ]
        return tuple(nodes)

    @cached_property
    def _float_kernel(self) -> Floats:
        """M by the distance of blocks, both ways within reach, in float64."""
        return self._kernel / 2.0 ** (2 * self.bits + _INVERSE_BITS)

    def _weights_of_sum(self, weights: Floats, first: int) -> tuple[Floats, Floats]:
        """Return the weights of the nodes in a weighted sum of counts: of steps, and of knots.

        They begin `_REACH_IN_BLOCKS` + 1 blocks before the block of the first count.

        Args:
            weights: those of the counts of the steps first + 1, first + 2, ...
            first: the step before the first one.
        """
        begin = max(first // self._block - _REACH_IN_BLOCKS - 1, 0)
        end = (first + len(weights) - 1) // self._block + 2 + _REACH_IN_BLOCKS
        reads_by_step = np.zeros((end - begin, self._block))
        reads_by_step.reshape(-1)[first - begin * self._block :][: len(weights)] = weights
        here, after = self._weights
        in_sum = reads_by_step @ here
        in_sum[1:] += reads_by_step[:-1] @ after
        read = np.zeros_like(in_sum)
        for distance, part in zip(
            range(-_REACH_IN_BLOCKS, _REACH_IN_BLOCKS + 1), self._float_kernel, strict=True
        ):
            low = max(-distance, 0)
            high = len(read) - max(distance, 0)
            if low < high:
                read[low:high] += in_sum[low + distance : high + distance] @ part.T
        reads_by_step -= read @ here.T
        reads_by_step[:-1] -= read[1:] @ after.T
        return reads_by_step.reshape(-1) * (2.0**self.bits / self.own), read.reshape(
            -1
        ) * 2.0**self.bits

    @property
    def _edge(self) -> int:
        """Number of first steps near which the missing knots before the first step are felt."""
        return (_REACH_IN_BLOCKS + 2) * self._block

    def _variance_of_window(self, first: int, length: int) -> float:
        """Return the variance of the counts of the steps first + 1 .. first + length, in a node's.

        It is kept by the distance to the first step, and by the length.
        """
        saved: dict[tuple[int, int], float] = vars(self).setdefault("_variances", {})
        if (first, length) not in saved:
            step_weights, knot_weights = self._weights_of_sum(np.ones(length), first)
            saved[first, length] = float(step_weights @ step_weights + knot_weights @ knot_weights)
        return saved[first, length]

    @override
    def variance(
        self,
        steps: Steps,
        since: Steps | None = None,
        distribution: NoiseDistribution | None = None,
    ) -> NDArray[np.float64]:
        first, last = window_ends(self, steps, since)
        edge = self._edge
        # Far from the first step, only the place in a block matters. In the middle of a long
        # window, each further block adds the same variance.
        begins = np.where(first < edge, first, edge + (first - edge) % self._block).ravel()
        lengths = (last - first).ravel()
        longest = 2 * edge + 2 * self._block
        further = np.maximum(lengths - longest + self._block - 1, 0) // self._block
        shorter = lengths - further * self._block
        keys, place = np.unique(begins * (longest + 1) + shorter, return_inverse=True)
        place = place.reshape(-1)
        has_further = np.zeros(len(keys), np.bool_)
        has_further[place[further > 0]] = True
        variances = np.zeros(len(keys))
        growths = np.zeros(len(keys))
        for index, key in enumerate(keys.tolist()):
            begin, length = divmod(key, longest + 1)
            if length:
                variances[index] = self._variance_of_window(begin, length)
            if has_further[index]:
                before = self._variance_of_window(begin, length - self._block)
                growths[index] = variances[index] - before
        window_variances = variances[place] + growths[place] * further
        return np.asarray(window_variances.reshape(first.shape) * self._unit(distribution))

    def _unit(self, distribution: NoiseDistribution | None) -> float:
        return 1.0 if distribution is None else distribution.variance / 4.0**self.bits

    @override
    def _decayed_variance(self, factor: float, steps: Integers) -> Floats:
        # Older weights are below e^-22. Far from the first step only the place in a block matters.
        count = math.ceil(-22 / math.log(factor))
        settled = self._edge + count
        near = np.where(steps <= settled, steps, settled + (steps - settled) % self._block)
        last = int(near.max(initial=1))
        kept = count + 2 * self._edge
        step_weights = np.zeros(last + 2 * self._edge)
        knot_weights = np.zeros((len(step_weights) // self._block + 1) * self._knots)
        variances = np.zeros(last + 1)
        for step in range(1, last + 1):
            begin = max((step - 1) // self._block - _REACH_IN_BLOCKS - 1, 0)
            low = max(step - kept, 0)
            some_steps = step_weights[low : step + self._edge]
            next_block = step // self._block + _REACH_IN_BLOCKS + 3
            some_knots = knot_weights[low // self._block * self._knots : next_block * self._knots]
            some_steps *= factor
            some_knots *= factor
            added_steps, added_knots = self._weights_of_count(step)
            step_weights[begin * self._block :][: len(added_steps)] += added_steps
            knot_weights[begin * self._knots :][: len(added_knots)] += added_knots
            variances[step] = some_steps @ some_steps + some_knots @ some_knots
        return np.asarray(variances[near])

    def _weights_of_count(self, step: int) -> tuple[Floats, Floats]:
        """Return the weights of the nodes in the count of a step, kept by its place."""
        saved: dict[int, tuple[Floats, Floats]] = vars(self).setdefault("_by_place", {})
        before = step - 1
        if before >= self._edge:
            before = self._edge + (before - self._edge) % self._block
        if before not in saved:
            saved[before] = self._weights_of_sum(np.ones(1), before)
        return saved[before]

    @cached_property
    def _most_read(self) -> float:
        """Largest magnitude of a node's weight in sums of consecutive steps."""
        low = high = 0.0
        for length in range(1, self._edge + 2 * self._block + 1):
            for weights in self._weights_of_sum(np.ones(length), 0):
                low = min(low, float(weights.min()))
                high = max(high, float(weights.max()))
        return high - low

    @override
    def largest_reads(self, stops: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.full(stops.shape, self._most_read)

    # ----------------------------------------------------------------------------- rounding

    @property
    def total_bits(self) -> int:
        """Fraction bits of estimates, before totals are rounded."""
        return self.bits + GUARD_BITS

    @override
    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        # Each estimate is rounded, and so are the corrections by the knots around its step.
        heights = sum(level.height for level in self._levels)
        error_of_step = 0.5 * 2.0 ** (FRACTION_BITS - self.total_bits) * (1 + heights / self.own)
        return np.asarray(rounding_of_releases(first, last) + error_of_step * (last - first))

    def _largest_corrections(self, std: float) -> float:
        """Return the largest of the corrections, before they are rounded.

        Args:
            std: how wide noise may be, in units of 2^-bits.
        """
        here, after = (weights.astype(np.float64) for weights in self._weights)
        kernel = self._kernel.astype(np.float64)
        if self.multiple == 1:
            residual = std * math.hypot(self.own, *here.ravel(), *after.ravel())
            # residuals of neighbours are correlated
            return 3 * residual * float(np.linalg.norm(kernel))
        knot_stds = std * np.sqrt((here**2).sum(axis=0) + (after**2).sum(axis=0) + self.own**2)
        return float((np.abs(kernel) @ knot_stds).sum(axis=0).max())

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        std = WIDEST_STDS * distribution.std
        corrections = self._largest_corrections(std)
        estimates = std * 2.0**self.total_bits * (1 + len(self._levels))
        total = estimates / self.own * math.sqrt(LARGEST_HORIZON) * 2
        if not all(most < LARGEST_SUM for most in (corrections, estimates, total)):
            raise InvalidInputError(
                f"a node of {self!r} would have noise with a standard deviation of "
                f"{distribution.std / 2.0**self.bits:.3g}, whose sums are not exact in 64 bits: "
                "give a larger epsilon, rho or resolution, or fewer bits"
            )

    # -------------------------------------------------------------------------------- noise

    def _residuals(self, field: NodeNoise, blocks: range) -> Integers:
        """Return the residuals of the knots of blocks, of shape (blocks, knots, cells)."""
        cells = math.prod(field.shape)
        residuals = np.empty((len(blocks), self._knots, cells), np.int64)
        size = max(1, steps_at_once(cells) // self._block)
        before = np.zeros((1, self._block, cells), np.int64)  # no steps before the first one
        if blocks[0] > 0:
            before = self._own_noise(field, range(blocks[0] - 1, blocks[0]))
        for start in range(blocks[0], blocks.stop, size):
            some = range(start, min(start + size, blocks.stop))
            own_noise = np.concatenate([before, self._own_noise(field, some)])
            part = self._in_knots(own_noise)
            part -= self.own * self._noise_of_knots(field, some)
            residuals[start - blocks[0] :][: len(some)] = part
            before = own_noise[-1:]
        return residuals

    def _in_knots(self, own_noise: Integers) -> Integers:
        """Return the sums, weighted by hats, of all blocks but the first one."""
        cells = own_noise.shape[2]
        sums = []
        for level, knots in zip(self._levels, self._knots_by_level, strict=True):
            noise_by_knot = own_noise.reshape(-1, level.spacing, cells)
            level_sums = np.tensordot(noise_by_knot[knots:], level.weights_before, (1, 0))
            level_sums += np.tensordot(noise_by_knot[knots - 1 : -1], level.weights_after, (1, 0))
            sums.append(level_sums.reshape(-1, knots, cells))
        return np.concatenate(sums, axis=1)

    def _own_noise(self, field: NodeNoise, blocks: range) -> Integers:
        """Return the noise of the nodes of steps, of shape (blocks, steps, cells)."""
        nodes = range(blocks.start * self._block + 1, blocks.stop * self._block + 1)
        cells = math.prod(field.shape)
        return np.asarray(field.run(0, nodes)).reshape(len(blocks), self._block, cells)

    def _noise_of_knots(self, field: NodeNoise, blocks: range) -> Integers:
        """Return the noise of the nodes of knots, of shape (blocks, knots, cells)."""
        cells = math.prod(field.shape)
        parts = []
        for level, knots in enumerate(self._knots_by_level, 1):
            nodes = range(blocks.start * knots, blocks.stop * knots)
            drawn = np.asarray(field.run(level, nodes))
            parts.append(drawn.reshape(len(blocks), knots, cells))
        return np.concatenate(parts, axis=1)

    def _estimates(self, field: NodeNoise, steps: range) -> Integers:
        """Return the noise of the counts of steps, (steps, cells), in units of 2^-total_bits."""
        cells = math.prod(field.shape)
        blocks = range((steps[0] - 1) // self._block, (steps[-1] - 1) // self._block + 1)
        near = range(max(blocks[0] - _REACH_IN_BLOCKS, 0), blocks[-1] + _REACH_IN_BLOCKS + 2)
        padded = np.zeros((len(blocks) + 1 + 2 * _REACH_IN_BLOCKS, self._knots, cells), np.int64)
        padded[near[0] - blocks[0] + _REACH_IN_BLOCKS :] = self._residuals(field, near)
        corrections = np.zeros((len(blocks) + 1, self._knots, cells), np.int64)
        for block, part in enumerate(self._kernel):
            corrections += np.einsum("kj,bjc->bkc", part, padded[block : block + len(corrections)])
        corrections = round_bits(corrections, self.bits + _INVERSE_BITS - GUARD_BITS)
        estimates = self._own_noise(field, blocks) << self.total_bits
        first_place = 0
        for level, knots in zip(self._levels, self._knots_by_level, strict=True):
            level_corrections = corrections[:, first_place : first_place + knots].reshape(
                -1, 1, cells
            )
            level_corrections = level_corrections[: len(blocks) * knots + 1]
            estimates_by_knot = estimates.reshape(-1, level.spacing, cells)
            estimates_by_knot -= level.weights_before[:, None] * level_corrections[:-1]
            estimates_by_knot -= level.weights_after[:, None] * level_corrections[1:]
            first_place += knots
        estimates = (estimates + (self.own >> 1)) // self.own
        offset = steps[0] - 1 - blocks[0] * self._block
        return estimates.reshape(-1, cells)[offset : offset + len(steps)]

    def _totals(
        self, field: NodeNoise, before: Integers, done: int, last: int
    ) -> Iterator[tuple[range, Integers]]:
        """Yield the noise of totals up to ``last``, before it is rounded, in parts.

        Args:
            field: the noise of nodes.
            before: the total of the first ``done`` steps, of shape (cells,).
            done: number of steps that are added up already.
            last: the last step.
        """
        size = steps_at_once(len(before))
        while done < last:
            steps = range(done + 1, min(done + size, last) + 1)
            totals = np.cumsum(self._estimates(field, steps), axis=0) + before
            before = totals[-1]
            done = steps[-1]
            yield steps, totals

    def _rounded(self, totals: Integers) -> Integers:
        return round_bits(totals, self.total_bits - FRACTION_BITS)

    @override
    def _reader(self, field: NodeNoise) -> Reader:
        return _HatReader(self, field)

    @override
    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of releases, in time proportional to the last step."""
        return _HatReader(self, field).noise(steps)


def _times(matrix: Any, factor: Any) -> Any:
    """Return the product of two matrices of integers in units of 2^-`_SOLUTION_BITS`."""
    return (matrix @ factor) >> _SOLUTION_BITS


def _inverted(matrix: Any) -> Any:
    """Return the inverse of a positive definite matrix, in units of 2^-`_SOLUTION_BITS`."""
    size = len(matrix)
    rows = np.hstack([matrix, np.eye(size, dtype=np.int64).astype(object) << _SOLUTION_BITS])
    for pivot in range(size):
        rows[pivot] = (rows[pivot] << _SOLUTION_BITS) // rows[pivot, pivot]
        for other in range(size):
            if other != pivot:
                rows[other] = rows[other] - (rows[other, pivot] * rows[pivot] >> _SOLUTION_BITS)
    return rows[:, size:]


class _HatReader(Reader):
    """The noise of one running stream, at a cost for each step that depends on the spacing."""

    _strategy: EndlessHats

    def __init__(self, strategy: EndlessHats, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        self._begin()

    def _begin(self) -> None:
        self._done = 0
        self._total: Integers = np.zeros(math.prod(self._field.shape), np.int64)

    @override
    def noise(self, steps: range) -> NDArray[np.int64]:
        check_window(self._strategy, steps)
        out = np.empty((len(steps), len(self._total)), np.int64)
        if not len(steps):
            return out.reshape(0, *self._field.shape)
        if steps.start <= self._done:
            self._begin()
        strategy = self._strategy
        parts = strategy._totals(self._field, self._total, self._done, steps.stop - 1)
        for part, totals in parts:
            skipped = max(steps.start - part.start, 0)
            if skipped < len(part):
                place = part.start + skipped - steps.start
                rounded = strategy._rounded(totals[skipped:])
                out[place : place + len(rounded)] = rounded
            self._done = part[-1]
            self._total = totals[-1]
        return out.reshape(len(steps), *self._field.shape)

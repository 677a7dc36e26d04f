"""Steps and hats without a last step: a strategy for sums over recent steps, with Laplace noise.

Each step is measured alone, and so are sums that are weighted by hats: triangles over 2 s steps,
with a knot at every s-th step. The count of step t = k s + 1 + j, with 0 <= j < s, enters

    node (0, t)      with the weight c,
    node (1, k)      with the weight a - r(j),
    node (1, k + 1)  with the weight r(j) = round(a j / s),

in units of 2^-bits. Here c + a = 2^bits, so every count changes all nodes together by exactly 1 in
the 1-norm, for ever.

**Estimates.** With y = C x + z, the residual of knot k is the sum over t of a_kt y_(0, t), less c
y_(1, k). The counts x cancel in it, so it is a function of noise alone. The count of step t is
estimated by (y_(0, t) - sum over k of a_kt m_k) / c, where m = M (residuals) and M is the inverse
of c^2 I + A A^T, cut off beyond `_REACH` knots and rounded. Any M gives B C = A; this one has the
least variance, but for the cut. Residuals of knots before the first step are left out.

**Exactness.** All of this is arithmetic of integers. An estimate is rounded to a multiple of
2^-total_bits, and so is a count: adding a count before or after rounding gives the same number.
Running totals of estimates are rounded to multiples of 2^-fraction_bits. So a release is a function
of C x + z alone, and equal on every machine.

This mechanism is counton's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

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
#: Knots to each side whose residuals correct an estimate.
_REACH = 6
#: Knots to each side of the system from whose exact inverse M is taken.
_SOLVED = 24
#: Fraction bits of M are `_INVERSE_BITS` more than those of c^2.
_INVERSE_BITS = 14


class EndlessHats(EndlessStrategy):
    """Running totals whose sums over recent steps have little Laplace noise, without a last step.

    The guarantee is for all releases together, and does not weaken with age. Sums over so many
    recent steps have about the same variance at all late steps. The variance of totals grows with
    the step.

    Args:
        spacing: number of steps from a knot to the next, from 2 to 2^14.
        height: weight of a count at a knot, in units of 2^-bits, from 0 to 2^bits - 1; 0: each step
            has noise of its own.
        bits: fraction bits of weights, 0 to 16.

    Raises:
        InvalidInputError: an argument out of range.

    >>> strategy = EndlessHats(11, 29128)
    >>> variance = strategy.variance([28, 1000, 10**6], since=[0, 972, 10**6 - 28])
    >>> (2 * variance).round(1).tolist()
    [34.4, 39.3, 38.9]
    >>> strategy.l1_sensitivity()
    Fraction(1, 1)
    """

    sources = ("a_floor_estimates", "a_rounded_quotient_estimates")

    def __init__(self, spacing: int, height: int, bits: int = _MOST_BITS) -> None:
        self.bits = check_integer("bits", bits, 0, _MOST_BITS)
        self.spacing = check_integer("spacing", spacing, 2, LARGEST_SPACING)
        self.height = check_integer("height", height, 0, (1 << self.bits) - 1)
        #: The weight of a count in the node of its step.
        self.own = (1 << self.bits) - self.height
        self.facts = StrategyFacts(
            lattice_bits=self.bits,
            fraction_bits=FRACTION_BITS,
            local=False,
            unit_columns=False,
            buffer_size=2,
            drawn_ahead=(_REACH + 2) * self.spacing,
            last_step=LARGEST_HORIZON,
        )

    @classmethod
    @override
    def examples(cls, horizon: int) -> Sequence[EndlessHats]:
        return (cls(3, 28, 6), cls(2, 0, 0)) if horizon <= 40 else (cls(5, 40, 6),)

    # ------------------------------------------------------------------------------ C and M

    @cached_property
    def _right(self) -> Integers:
        """The weights in the next knot, by the distance j from the knot before: shape (s,)."""
        j = np.arange(self.spacing, dtype=np.int64)
        return (2 * self.height * j + self.spacing) // (2 * self.spacing)

    @cached_property
    def _left(self) -> Integers:
        return self.height - self._right

    @cached_property
    def _inverse(self) -> list[int]:
        """M by the distance of knots from 0 to `_REACH`, in units of 2^-(2 bits + 14)."""
        square = int(self._left @ self._left) + int(self._right @ self._right) + self.own**2
        product = int(self._left @ self._right)
        # The middle column of the inverse of a symmetric tridiagonal matrix, by elimination from
        # both ends: x_(j + 1) = -ratio x_j.
        ratio = Fraction(0)
        ratios = []
        for _ in range(_SOLVED):
            ratio = Fraction(product) / (square - product * ratio)
            ratios.append(ratio)
        value = 1 / (square - 2 * product * ratios[-1])
        values = [value]
        for ratio in ratios[: -_REACH - 1 : -1]:
            value = -ratio * value
            values.append(value)
        unit = 1 << 2 * self.bits + _INVERSE_BITS
        return [math.floor(value * unit + Fraction(1, 2)) for value in values]

    @cached_property
    def _kernel(self) -> Integers:
        """M by the distance of knots from -`_REACH` to `_REACH`."""
        values = self._inverse
        return np.array([*values[:0:-1], *values], np.int64)

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
            last: has no effect, because a count enters at most three nodes.
        """
        knot, j = divmod(check_step(self, step) - 1, self.spacing)
        unit = 1 << self.bits
        hats = {knot: int(self._left[j]), knot + 1: int(self._right[j])}
        return (
            Node(0, step, Fraction(self.own, unit)),
            *(Node(1, at, Fraction(weight, unit)) for at, weight in hats.items() if weight),
        )

    @override
    def l1_sensitivity(self) -> Fraction:
        return Fraction(1)

    @override
    def squared_sensitivity(self) -> Fraction:
        hats = int((self._left**2 + self._right**2).max())
        return Fraction(self.own**2 + hats, 4**self.bits)

    @override
    def _node_factor(self, level: int) -> Fraction:
        """Return 1: all nodes have equal noise."""
        return Fraction(1)

    # --------------------------------------------------------------------------------- B

    @override
    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes whose noise is in the total of ``step``, exactly, in linear time."""
        step = check_step(self, step)
        spacing = self.spacing
        last_knot = (step - 1) // spacing + 1
        in_total = [0] * (last_knot + 1)  # the total of each hat over the counted steps
        for counted in range(1, step + 1):
            knot, j = divmod(counted - 1, spacing)
            in_total[knot] += int(self._left[j])
            in_total[knot + 1] += int(self._right[j])
        inverse = self._inverse
        unit = 1 << 2 * self.bits + _INVERSE_BITS
        read = {}
        for knot in range(last_knot + _REACH + 1):
            near = range(max(0, knot - _REACH), min(last_knot, knot + _REACH) + 1)
            read[knot] = Fraction(sum(inverse[abs(knot - k)] * in_total[k] for k in near), unit)
        nodes = []
        scale = Fraction(1 << self.bits, self.own)
        for node in range(1, (last_knot + _REACH + 1) * spacing + 1):
            knot, j = divmod(node - 1, spacing)
            weight = Fraction(node <= step)
            weight -= int(self._left[j]) * read.get(knot, 0)
            weight -= int(self._right[j]) * read.get(knot + 1, 0)
            if weight:
                nodes.append(Node(0, node, scale * weight))
        nodes += [
            Node(1, knot, weight * (1 << self.bits)) for knot, weight in read.items() if weight
        ]
        return tuple(nodes)

    @cached_property
    def _matrix_of_knots(self) -> Floats:
        """M by the distance of knots from -`_REACH` to `_REACH`, in float64."""
        return self._kernel / 2.0 ** (2 * self.bits + _INVERSE_BITS)

    def _weights_of_sum(self, weights: Floats, first: int) -> tuple[Floats, Floats]:
        """Return the weights of the nodes in a weighted sum of counts: of steps, and of knots.

        Args:
            weights: those of the counts of the steps first + 1, first + 2, ...
            first: the step before the first one.
        """
        spacing = self.spacing
        begin = max(first // spacing - _REACH - 1, 0)
        end = (first + len(weights) - 1) // spacing + 2 + _REACH
        by_step = np.zeros((end - begin, spacing))
        by_step.reshape(-1)[first - begin * spacing :][: len(weights)] = weights
        in_sum = by_step @ self._left
        in_sum[1:] += by_step[:-1] @ self._right
        read = np.convolve(in_sum, self._matrix_of_knots)[_REACH:-_REACH]
        after = np.append(read[1:], 0.0)
        by_step -= np.outer(read, self._left) + np.outer(after, self._right)
        return by_step.reshape(-1) * (2.0**self.bits / self.own), read * 2.0**self.bits

    @property
    def _edge(self) -> int:
        """Number of first steps near which the missing knots before the first step are felt."""
        return (_REACH + 2) * self.spacing

    def _variance_of_window(self, first: int, length: int) -> float:
        """Return the variance of the counts of the steps first + 1 .. first + length, in a node's.

        It is kept by the distance to the first step, and by the length.
        """
        saved: dict[tuple[int, int], float] = vars(self).setdefault("_variances", {})
        if (first, length) not in saved:
            of_steps, of_knots = self._weights_of_sum(np.ones(length), first)
            saved[first, length] = float(of_steps @ of_steps + of_knots @ of_knots)
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
        # Far from the first step, only the place between two knots matters. In the middle of a long
        # window, each further knot adds the same variance.
        begins = np.where(first < edge, first, edge + (first - edge) % self.spacing).ravel()
        lengths = (last - first).ravel()
        longest = 2 * edge + 2 * self.spacing
        further = np.maximum(lengths - longest + self.spacing - 1, 0) // self.spacing
        shorter = lengths - further * self.spacing
        keys, place = np.unique(begins * (longest + 1) + shorter, return_inverse=True)
        place = place.reshape(-1)
        has_further = np.zeros(len(keys), np.bool_)
        has_further[place[further > 0]] = True
        variances = np.zeros(len(keys))
        growths = np.zeros(len(keys))
        for at, key in enumerate(keys.tolist()):
            begin, length = divmod(key, longest + 1)
            if length:
                variances[at] = self._variance_of_window(begin, length)
            if has_further[at]:
                before = self._variance_of_window(begin, length - self.spacing)
                growths[at] = variances[at] - before
        of_windows = variances[place] + growths[place] * further
        return np.asarray(of_windows.reshape(first.shape) * self._unit(distribution))

    def _unit(self, distribution: NoiseDistribution | None) -> float:
        return 1.0 if distribution is None else distribution.variance / 4.0**self.bits

    @override
    def _decayed_variance(self, factor: float, steps: Integers) -> Floats:
        # Older weights are below e^-22. Far from the first step only the place between two knots
        # matters.
        count = math.ceil(-22 / math.log(factor))
        settled = self._edge + count
        near = np.where(steps <= settled, steps, settled + (steps - settled) % self.spacing)
        last = int(near.max(initial=1))
        kept = count + 2 * self._edge
        of_steps = np.zeros(last + 2 * self._edge)
        of_knots = np.zeros(len(of_steps) // self.spacing + 1)
        variances = np.zeros(last + 1)
        for step in range(1, last + 1):
            begin = max((step - 1) // self.spacing - _REACH - 1, 0)
            low = max(step - kept, 0)
            some_steps = of_steps[low : step + self._edge]
            some_knots = of_knots[low // self.spacing : step // self.spacing + _REACH + 3]
            some_steps *= factor
            some_knots *= factor
            by_step, by_knot = self._weights_of_count(step)
            of_steps[begin * self.spacing :][: len(by_step)] += by_step
            of_knots[begin:][: len(by_knot)] += by_knot
            variances[step] = some_steps @ some_steps + some_knots @ some_knots
        return np.asarray(variances[near])

    def _weights_of_count(self, step: int) -> tuple[Floats, Floats]:
        """Return the weights of the nodes in the count of a step, kept by its place."""
        saved: dict[int, tuple[Floats, Floats]] = vars(self).setdefault("_by_place", {})
        before = step - 1
        if before >= self._edge:
            before = self._edge + (before - self._edge) % self.spacing
        if before not in saved:
            saved[before] = self._weights_of_sum(np.ones(1), before)
        return saved[before]

    @cached_property
    def _most_read(self) -> float:
        """Largest magnitude of a node's weight in sums of consecutive steps."""
        low = high = 0.0
        for length in range(1, self._edge + 2 * self.spacing + 1):
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
        # Each estimate is rounded, and so are the corrections by the two knots around its step.
        of_step = 0.5 * 2.0 ** (FRACTION_BITS - self.total_bits) * (1 + self.height / self.own)
        return np.asarray(rounding_of_releases(first, last) + of_step * (last - first))

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        std = WIDEST_STDS * distribution.std
        residual = std * math.hypot(self.own, *np.concatenate([self._left, self._right]).tolist())
        corrections = residual * float(np.linalg.norm(self._kernel.astype(np.float64)))
        corrections *= 3  # residuals of neighbours are correlated
        estimates = std * 2.0**self.total_bits * 2
        total = estimates / self.own * math.sqrt(LARGEST_HORIZON) * 2
        if not all(most < LARGEST_SUM for most in (corrections, estimates, total)):
            raise InvalidInputError(
                f"a node of {self!r} would have noise with a standard deviation of "
                f"{distribution.std / 2.0**self.bits:.3g}, whose sums are not exact in 64 bits: "
                "give a larger epsilon, rho or resolution, or fewer bits"
            )

    # -------------------------------------------------------------------------------- noise

    def _estimates(self, field: NodeNoise, steps: range) -> Integers:
        """Return the noise of the counts of steps, (steps, cells), in units of 2^-total_bits."""
        spacing = self.spacing
        cells = math.prod(field.shape)
        knots = range((steps[0] - 1) // spacing, (steps[-1] - 1) // spacing + 2)
        near = range(max(knots[0] - _REACH, 0), knots[-1] + _REACH + 1)
        begin = max(near[0] - 1, 0)
        drawn = field.run(0, range(begin * spacing + 1, (near[-1] + 1) * spacing + 1))
        own_noise = np.asarray(drawn).reshape(-1, spacing, cells)
        residuals = np.tensordot(own_noise, self._left, (1, 0))[near[0] - begin :]
        before = np.tensordot(own_noise, self._right, (1, 0))
        residuals[near[0] == 0 :] += before[: len(residuals) - (near[0] == 0)]
        residuals -= self.own * np.asarray(field.run(1, near)).reshape(-1, cells)
        padded = np.zeros((len(knots) + 2 * _REACH, cells), np.int64)
        padded[near[0] - knots[0] + _REACH :] = residuals
        corrections = np.zeros((len(knots), cells), np.int64)
        for at, factor in enumerate(self._kernel.tolist()):
            corrections += factor * padded[at : at + len(knots)]
        corrections = round_bits(corrections, self.bits + _INVERSE_BITS - GUARD_BITS)
        first = (knots[0] - begin) * spacing
        own_noise = own_noise.reshape(-1, cells)[first : first + (len(knots) - 1) * spacing]
        estimates = (own_noise << self.total_bits).reshape(-1, spacing, cells)
        estimates -= self._left[:, None] * corrections[:-1, None]
        estimates -= self._right[:, None] * corrections[1:, None]
        estimates = (estimates + (self.own >> 1)) // self.own
        offset = steps[0] - 1 - knots[0] * spacing
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

"""The growing square root: running totals of streams without a known end, with Gaussian noise.

The matrix square root of the matrix of running totals is Toeplitz, C[s, i] = f(s - i) with f(k) =
C(2k, k) / 4^k. A node is a row of C with its draw of noise. Item i enters all nodes s >= i, so in
an endless stream its column has infinite norm: the sum of f(k)^2 grows like ln(k) / pi. Here node s
has noise of the variance q(s), about the square root of s, which is constant within a quarter
octave (a range of steps in which s grows by the factor 2^(1/4)),

    q(s) = (12 / 11)^max(0, floor(4 log2 s) - 12),

and column i is divided by d_i, d_i^2 = sum over k >= 0 of f(k)^2 / q(i + k), which is finite. So
the squared sensitivity to every item, relative to the noise variances, is 1, and the guarantee
holds for all releases together, however many. The variance is about a quarter larger
than that of the best strategy for a known end, at all steps.

This mechanism is counton's own. The guarantee holds for any positive q for which the sum of 1 / (k
q(k)) is finite; this one is a compromise for streams of any length. If hundreds or thousands of
steps are expected, q can be 1 for about this many nodes (``even``), grow by the factor 13/10 in
each quarter octave of the next two octaves, and then as above. Over two to four times as many
steps, the mean variance is then 8 to 14% less. Later releases have up to 8% more variance, and the
first few up to 67% more. If q is a power of s, variances are larger, by 1% at least.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import LARGEST_SPREAD, DiscreteGaussian, NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.participation import Structure
from counton.strategies.rounding import OFFSET
from counton.strategies.strategy import (
    EndlessStrategy,
    Node,
    NodeNoise,
    NoiseView,
    Reader,
    Steps,
    StrategyFacts,
    check_step,
    check_window,
    window_ends,
)
from counton.strategies.streams.normalised_sqrt import NormalisedSqrt
from counton.strategies.streams.power_series import convolve
from counton.strategies.streams.root_variances import exact_variances, variances_of_long_rows
from counton.strategies.streams.square_root import (
    RootSeries,
    RootStrategy,
    by_blocks,
    floor_all,
    running_sums,
)
from counton.strategies.streams.staircase import Dividing, Staircase

#: Most steps: an octave, and so the table of variances, ends here.
STEPS = 2**20 - 1
_WEIGHT_BITS = 18
#: Variances of nodes are multiples of 2^-30, rounded up.
_VARIANCE_BITS = 30
#: By default this many quarter octaves have variance 1.
_EQUAL_LEVELS = 12
#: The variance of a later quarter octave is this multiple of that of the one before it.
_GROWTH = Fraction(12, 11)
#: If more nodes have variance 1, the variance grows by this factor in the quarter octaves after
#: them.
_STEEP_GROWTH = Fraction(13, 10)
#: So many quarter octaves have the steep growth.
_STEEP_LEVELS = 8
#: Choices for the number of nodes with variance 1, besides the default `_EQUAL_LEVELS`.
EVEN = (32, 128, 512, 2048)
#: Sums of f(k)^2 are computed term by term up to this term.
_SUMMED_TERMS = 2**22
#: Beyond these terms, a formula gives the sums of this many further quarter octaves.
_FORMULA_LEVELS = 160
#: The square root is computed for at least this many nodes.
_LEAST_ROOT_LENGTH = 2**10
#: Variances are exact up to this many steps. Beyond, they are within 1e-4.
_EXACT_STEPS = 2**13
#: With at least this many bits of weights, later variances are read from a file of the package.
_LEAST_SHIPPED_BITS = 8
#: The noise of this many nodes is computed at once.
_NODES_PER_DRAW = 2**12
#: The weights of this many nodes are computed at once.
_NODES_PER_WEIGHTS = 2**14
#: Largest number of noise values that a running stream keeps, over all its cells; with more, each
#: window is computed from step 1.
_MOST_HELD_NUMBERS = 2**23


def series_bits(weight_bits: int) -> int:
    """Return the fraction bits of the matrix square root, by those of column weights."""
    if weight_bits > 16:
        return 16
    return 14 if weight_bits > 10 else 12


def quarter(step: int, equal: int = _EQUAL_LEVELS) -> int:
    """Return the noise level of a step's node: max(0, floor(4 log2(step)) - equal).

    All nodes of a level have noise of equal variance. Each level after 0 is a quarter octave, whose
    end is about 2^(1/4) times its start.

    >>> [quarter(step) for step in (1, 9, 10, 11, 12, 16, 2**20)]
    [0, 0, 1, 1, 2, 4, 68]
    """
    return max(0, (step**4).bit_length() - 1 - equal)


@lru_cache(maxsize=512)
def node_variance(level: int, equal: int = _EQUAL_LEVELS) -> Fraction:
    """Return the noise variance of the nodes of a level, relative to that of the first nodes.

    ``level`` and ``equal`` are as in `quarter`. If ``equal`` is not the default, the variance grows
    faster over the first eight levels after level 0. It is a multiple of 2^-30.

    >>> float(node_variance(0)), round(float(node_variance(4)), 6)
    (1.0, 1.416297)
    """
    steep = 0 if equal == _EQUAL_LEVELS else min(level, _STEEP_LEVELS)
    exact = _STEEP_GROWTH**steep * _GROWTH ** (level - steep)
    return Fraction(math.ceil(exact * 2**_VARIANCE_BITS), 2**_VARIANCE_BITS)


@lru_cache(maxsize=512)
def first_of(level: int, equal: int = _EQUAL_LEVELS) -> int:
    """Return the number of the first node of a level of `quarter`.

    >>> [first_of(level) for level in range(6)]
    [1, 10, 12, 14, 16, 20]
    """
    if level == 0:
        return 1
    power = 1 << level + equal
    root = math.isqrt(math.isqrt(power))
    return root if root**4 == power else root + 1


def _spans(stop: int, equal: int = _EQUAL_LEVELS) -> list[tuple[int, range]]:
    """Return pairs (level, range of its nodes) for all nodes below ``stop``."""
    spans = []
    level = 0
    while first_of(level, equal) < stop:
        nodes = range(first_of(level, equal), min(first_of(level + 1, equal), stop))
        spans.append((level, nodes))
        level += 1
    return spans


def _logarithm(ratio: Floats) -> Floats:
    """Return numbers slightly above the logarithms of ratios from 1 to 1.5, equal everywhere."""
    # The series of 2 artanh((x - 1) / (x + 1)), by operations whose rounding IEEE 754 defines,
    # because weights must be the same on every machine.
    y = (ratio - 1) / (ratio + 1)
    square = y * y
    return np.asarray(2 * y * (1 + square / 3 + square * square / (5 * (1 - square))))


@lru_cache(maxsize=1)
def _summed_squares() -> Floats:
    """Return running sums of f(k)^2 from 0, computed in parts to save memory."""
    sums = np.zeros(_SUMMED_TERMS + 1)
    last = 1.0
    for start in range(0, _SUMMED_TERMS, _NODES_PER_WEIGHTS):
        k = np.arange(start + (start == 0), start + _NODES_PER_WEIGHTS, dtype=np.float64)
        f = np.cumprod(np.concatenate([[last], (2 * k - 1) / (2 * k)]))
        last = f[-1]
        squares = f[-_NODES_PER_WEIGHTS:] ** 2
        added = np.cumsum(np.concatenate([sums[start : start + 1], squares]))[1:]
        sums[start + 1 : start + _NODES_PER_WEIGHTS + 1] = added
    return sums


@lru_cache(maxsize=8)
def _weights_of(nodes: range, weight_bits: int, equal: int) -> NDArray[np.int64]:
    """Return the weights 1 / d_i of columns, rounded down, in units of 2^-weight_bits.

    d_i is the norm of column i, in which the noise of each entry's node has std 1.
    """
    norms = norms_of(np.arange(nodes.start, nodes.stop), equal)
    exact = 2.0**weight_bits / np.sqrt(norms)
    weights = np.floor(exact).astype(np.int64)
    weights.setflags(write=False)
    return weights


def norms_of(items: Integers, equal: int = _EQUAL_LEVELS) -> Floats:
    """Return upper bounds of d_i^2, the squared norms of the columns of ``items``, from 1 on.

    Each squared entry of a column is divided by the variance of its node's noise.

    >>> norms_of(np.array([10])).round(6).tolist()
    [2.095829]
    """
    sums = _summed_squares()
    total = np.zeros(len(items))
    # The smallest numbers are added first, in a fixed order.
    last = len(_spans(_SUMMED_TERMS, equal))
    beyond = np.zeros(len(items))
    for level in reversed(range(last, last + _FORMULA_LEVELS)):
        low = first_of(level, equal) - items
        high = first_of(level + 1, equal) - items
        width = float(node_variance(level, equal))
        part = _logarithm((high - 1) / (low - 1)) / (math.pi * width)
        if level >= last + _FORMULA_LEVELS - 4:
            part *= 4.0  # the rest: every octave adds 1/1.4 of the octave before it
        beyond += part
    total += beyond
    first = int(items.min(initial=_SUMMED_TERMS))
    for level, span in reversed(_spans(_SUMMED_TERMS, equal)):
        if span.stop <= first:
            break
        low = np.maximum(span.start - items, 0)
        high = np.maximum(span.stop - items, 0)
        total += (sums[high] - sums[low]) / float(node_variance(level, equal))
    return total * (1 + 1e-9)  # more than all rounding errors, including that of f


class WeightedRoot(NormalisedSqrt):
    """The matrix square root over the first nodes, with columns weighted as in `_weights_of`."""

    def __init__(self, horizon: int, weight_bits: int, equal: int = _EQUAL_LEVELS) -> None:
        RootStrategy.__init__(self, horizon, series_bits(weight_bits), weight_bits)
        self.equal = equal

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """The weights of the columns, rounded down, in units of 2^-weight_bits."""
        nodes = range(1, self.horizon + 1)
        parts = [
            _weights_of(nodes[start : start + _NODES_PER_WEIGHTS], self.weight_bits, self.equal)
            for start in range(0, self.horizon, _NODES_PER_WEIGHTS)
        ]
        return np.concatenate(parts)

    @cached_property
    def widths(self) -> Floats:
        """Variances of the nodes' noise, relative to the first node's."""
        spans = _spans(self.horizon + 1, self.equal)
        widths = [float(node_variance(level, self.equal)) for level, _ in spans]
        return np.repeat(widths, [len(span) for _, span in spans])

    @cached_property
    @override
    def _mean_and_largest(self) -> tuple[float, float]:
        return float(self._variances.mean()), float(self._variances.max())

    @cached_property
    def _variances(self) -> Floats:
        """Variances of the releases, relative to the first node's."""
        exact = _exact_variances(min(self.horizon, _EXACT_STEPS), self.weight_bits, self.equal)
        if self.horizon <= _EXACT_STEPS:
            return exact
        return np.concatenate(
            [exact, variances_of_long_rows(self.shares, self.widths)[_EXACT_STEPS:]]
        )

    def differences(self, starts: Integers, stops: Integers) -> Floats:
        """Return the variances of the counts of the steps start + 1 .. stop, likewise."""
        a = self.inverse
        d = self.shares
        q = self.widths
        differences = np.empty(len(starts))
        for index, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            within = np.zeros(stop)
            within[: stop - start] = d[start:stop][::-1]
            read = convolve(within, a[:stop], stop)[::-1]
            differences[index] = float((read**2 * q[:stop]).sum())
        return differences


@lru_cache(maxsize=32)  # each takes time quadratic in its releases, of which there are few
def _exact_variances(horizon: int, weight_bits: int, equal: int) -> Floats:
    """Return the variances of the first releases, as sums over nodes."""
    first = WeightedRoot(horizon, weight_bits, equal)
    total = exact_variances(first.shares, first.inverse, first.widths)
    total.flags.writeable = False
    return total


def _field_without_levels(field: NodeNoise, equal: int) -> NodeNoise:
    """Return a source in which nodes have the numbers 1, 2, ... of `quarter`, and no levels."""

    def run(_level: int, nodes: range) -> Integers:
        parts = [
            field.run(level, range(max(span.start, nodes.start), span.stop))
            for level, span in _spans(nodes.stop, equal)
            if span.stop > nodes.start
        ]
        return np.concatenate(parts) if parts else np.empty((0, *field.shape), np.int64)

    return NoiseView(field.shape, run)


class _CompensatedSum:
    """A running sum of vectors in float64, with a correction of its rounding error."""

    def __init__(self, length: int) -> None:
        self.value = np.zeros(length)
        self._correction = np.zeros(length)

    def add(self, summand: Floats) -> None:
        """Add a vector.

        Args:
            summand: a vector of the same length.
        """
        rounded = self.value + summand
        added = rounded - self.value
        self._correction += (self.value - (rounded - added)) + (summand - added)
        self.value = rounded + self._correction
        self._correction -= self.value - rounded


class _NoiseOfReleases:
    """The noise of releases, node after node, for ``cells`` coordinates at once.

    With s the noise of running totals by unscaled columns, and d_i the norms of the columns, the
    noise of release t is d_t s_t plus the sum over i < t of (d_i - d_{i+1}) s_i. It is rounded
    correctly: in float64 and, where two candidates remain, exactly in integers.
    """

    def __init__(self, root: GrowingSquareRoot, cells: int) -> None:
        self._root = root
        self._dividing = Dividing(root._stairs, cells)
        #: The sum over i < t for the next t, and the sum of the absolute values of its terms.
        self._past = _CompensatedSum(cells)
        self._past_size = np.zeros(cells)
        #: The sum of |d_i - d_{i+1}| over i < t.
        self._total_change = 0.0
        #: s and the weight of the last node; there is no weight before the first.
        self._last_s: Floats = np.zeros((1, cells))
        self._last_weight = np.zeros(0, np.int64)

    def at_next_nodes(
        self, z: NDArray[np.int64], noise_until: Callable[[int, int], NDArray[np.int64]]
    ) -> NDArray[np.int64]:
        """Return the noise of the releases at the next nodes, of the shape of ``z``.

        Args:
            z: the noise of these nodes: shape (nodes, cells).
            noise_until: function of (node, coordinate) that returns the noise of all nodes up to
                this one.
        """
        root = self._root
        first = self._dividing.steps + 1
        s = self._dividing.next(z)
        weights = root._weights(range(first, first + len(z)))
        norms = 2.0**root.weight_bits / weights
        changes = self._changes_of_norms(weights)
        past_terms = changes * np.concatenate([self._last_s, s[:-1]]).T
        past_sums, n_roundings = running_sums(past_terms)
        present_terms = norms * s.T
        sums = present_terms + (past_sums + self._past.value[:, None])

        self._past_size += np.abs(past_terms).sum(axis=1)
        self._total_change += float(np.abs(changes).sum())
        error_of_s = (self._total_change + norms) * 1.001 * root._stairs.error(first + len(z) - 1)
        sizes = np.abs(present_terms) + self._past_size[:, None]
        rounding_error = sizes * ((n_roundings + 24) * 1.01 * 2.0**-53)
        released = self._rounded(first, sums, error_of_s + rounding_error, noise_until)

        self._past.add(past_sums[:, -1])
        self._last_s = s[-1:]
        self._last_weight = weights[-1:]
        return released

    def _changes_of_norms(self, weights: NDArray[np.int64]) -> Floats:
        """Return d_i - d_{i+1} for each next node i + 1, given its weight; 0 for the first node."""
        inverses = np.append(self._last_weight, weights)
        # These values are exact except for two roundings.
        products = inverses[1:] * inverses[:-1]
        changes = 2.0**self._root.weight_bits * np.diff(inverses) / products
        return np.append(np.zeros(1 - len(self._last_weight)), changes)

    def _rounded(
        self,
        first: int,
        sums: Floats,
        error: Floats,
        noise_until: Callable[[int, int], NDArray[np.int64]],
    ) -> NDArray[np.int64]:
        """Return sums of noise as multiples of 2^-fraction_bits, correctly rounded.

        Args:
            first: the first node.
            sums: approximate sums at the nodes, in units of the lattice: shape (cells, nodes).
            error: bounds on their errors.
            noise_until: see `at_next_nodes`.

        Returns:
            int64 of shape (nodes, cells).
        """
        facts = self._root.facts
        lattice_unit = 2.0 ** (facts.fraction_bits - facts.lattice_bits)
        unrounded = sums * lattice_unit + OFFSET
        guard = lattice_unit * error + (1 + np.abs(unrounded)) * 2.0**-50
        released = np.empty(sums.shape[::-1], np.int64)
        for row, column in floor_all(unrounded, guard, released):
            node = first + int(row)
            noise = noise_until(node, int(column))
            released[row, column] = self._root._beginning(node)._decide(noise)
        return released


class _RootReader(Reader):
    """The noise of one running stream, at constant time per step.

    If its numbers are too many for memory, everything is computed again.
    """

    _strategy: GrowingSquareRoot

    def __init__(self, strategy: GrowingSquareRoot, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        self._of_root = _field_without_levels(field, strategy._equal)
        self._cells = math.prod(field.shape)
        self._next = 1
        self._begin()

    def _begin(self) -> None:
        self._noise_of_releases = _NoiseOfReleases(self._strategy, self._cells)
        self._done = 0
        self._kept = np.empty((0, self._cells), np.int64)

    def _has_room(self, steps: int, times: int = 1) -> bool:
        """Return whether memory suffices for all nodes up to ``steps``, ``times`` over."""
        return 2 * times * steps * self._cells <= _MOST_HELD_NUMBERS

    @property
    def local(self) -> bool:
        """Whether memory suffices for twice as many nodes; then steps take constant time."""
        return self._has_room(self._next, 2)

    @override
    def noise(self, steps: range) -> NDArray[np.int64]:
        check_window(self._strategy, steps)
        if steps and self._has_room(steps.stop - 1):
            self._next = steps.stop - 1
            return self._totals_at(steps)
        return super().noise(steps)

    def _totals_at(self, nodes: range) -> NDArray[np.int64]:
        """Return the noise of the releases at consecutive steps."""
        if not self._done - len(self._kept) < nodes.start:
            self._begin()
        parts = [self._kept]
        first = self._done - len(self._kept) + 1  # nodes that parts hold
        while self._done < nodes.stop - 1:
            some = range(self._done + 1, min(self._done + _NODES_PER_DRAW, nodes.stop - 1) + 1)
            z = self._of_root.run(0, some).reshape(len(some), self._cells)
            part = self._noise_of_releases.at_next_nodes(z, self._noise_until)
            self._done = some.stop - 1
            if some.start <= nodes.start:
                parts, first = [parts[-1][-1:], part], some.start - len(parts[-1][-1:])
            else:
                parts.append(part)
        totals = np.concatenate(parts)
        self._kept = totals[-2:].copy()
        totals_asked = totals[nodes.start - first : nodes.stop - first]
        return totals_asked.reshape(len(nodes), *self._field.shape)

    def _noise_until(self, node: int, column: int) -> NDArray[np.int64]:
        z = self._of_root.run(0, range(1, node + 1))
        return np.ascontiguousarray(z.reshape(node, self._cells)[:, column])


class GrowingSquareRoot(EndlessStrategy):
    """Running totals of a stream without a known end, with Gaussian noise.

    The guarantee is for all releases together, and does not weaken with age.

    The noise of release t is that of release t - 1 plus d_t (F^-1 z)_t. F is the matrix square root
    of the matrix of running totals, z the noise of nodes, whose variance grows with time, and d_t
    the norm of column t of F, whose entries are divided by the std of their nodes' noise. F is
    rounded to multiples of 2^-16 or coarser, the weights 1 / d_t to multiples of 2^-weight_bits;
    noise is rounded correctly. A stream has up to 2^20 - 1 steps (119 years of hours); for more,
    state a horizon.

    Args:
        weight_bits: fraction bits of weights, from 4 to 18; with fewer the error is slightly
            larger, but wider noise fits int64.
        even: about how many of the first nodes have equal noise: 32, 128, 512 or 2048. The mean
            error is then least over two to four times as many steps. None: about 8, for any length.

    Raises:
        InvalidInputError: an argument outside that range.

    >>> root = GrowingSquareRoot()
    >>> root.variance([1, 2, 9, 100, 1000]).round(4).tolist()
    [2.3806, 2.9658, 3.997, 8.1702, 13.3585]
    >>> round(GrowingSquareRoot(even=512).mean_variance(1024) / root.mean_variance(1024), 3)
    0.862
    """

    sources = ("a_floor_estimates",)

    def __init__(self, weight_bits: int = _WEIGHT_BITS, even: int | None = None) -> None:
        self.weight_bits = check_integer("weight_bits", weight_bits, 4, _WEIGHT_BITS)
        self.even = even if even is None else check_integer("even", even, EVEN[0], EVEN[-1])
        if even is not None and even not in EVEN:
            raise InvalidInputError(f"even is {even}; give one of {', '.join(map(str, EVEN))}")
        self._equal = _EQUAL_LEVELS if self.even is None else 4 * (self.even.bit_length() - 1)
        self.facts = StrategyFacts(
            lattice_bits=series_bits(self.weight_bits) + self.weight_bits,
            fraction_bits=10,
            unit_columns=False,
            attained=False,
            causal=True,
            local=False,
            last_step=STEPS,
        )
        self._beginnings: dict[int, WeightedRoot] = {}

    @classmethod
    def examples(cls, horizon: int) -> Sequence[GrowingSquareRoot]:
        """Return strategies with fine weights, on short horizons alone, and with coarse ones.

        Args:
            horizon: number of steps that each instance must serve, from 1.
        """
        if 26 < horizon <= 100:
            return cls(4), cls(4, 32)
        if horizon <= 26:
            return (cls(), cls(4))
        return (cls(4),) if horizon <= 250 else ()

    @property
    @override
    def structure(self) -> Structure:
        """Only one fact: the inner product of two columns may be negative."""
        return Structure(aligned=lambda: False)

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the strategy: bits of the weights, and ``even`` if stated."""
        even = {} if self.even is None else {"even": self.even}
        return {"weight_bits": self.weight_bits, **even}

    @cached_property
    def _stairs(self) -> Staircase:
        """The rounded coefficients of the matrix square root, by where they decrease."""
        bits = series_bits(self.weight_bits)
        return Staircase(RootSeries(STEPS, bits).numerators, bits)

    def _weights(self, nodes: range) -> NDArray[np.int64]:
        """Return the weights 1 / d_i of the columns of ``nodes``, in units of 2^-weight_bits."""
        first = (nodes.start - 1) // _NODES_PER_WEIGHTS * _NODES_PER_WEIGHTS + 1
        parts = [
            _weights_of(range(start, start + _NODES_PER_WEIGHTS), self.weight_bits, self._equal)
            for start in range(first, nodes.stop, _NODES_PER_WEIGHTS)
        ]
        return np.concatenate(parts)[nodes.start - first : nodes.stop - first]

    def _beginning(self, nodes: int) -> WeightedRoot:
        """Return the weighted matrix square root over at least the first ``nodes`` nodes."""
        length = max(1 << (nodes - 1).bit_length(), _LEAST_ROOT_LENGTH)
        if length not in self._beginnings:
            # Short ones are useless once a stream has passed them.
            for shorter in [
                shorter_length
                for shorter_length in self._beginnings
                if 4 * shorter_length <= length
            ]:
                del self._beginnings[shorter]
            self._beginnings[length] = WeightedRoot(length, self.weight_bits, self._equal)
        return self._beginnings[length]

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes in the release, fast for early steps only.

        Args:
            step: step of the stream, from 1.
        """
        row = self._beginning(check_step(self, step)).row(step)
        return tuple(Node(quarter(node, self._equal), node, weight) for _, node, weight in row)

    def column(self, step: int, last: int | None = None) -> tuple[Node, ...]:
        """Return the node of the step, and all after it that a release up to ``last`` reads.

        Args:
            step: step of the stream, from 1.
            last: the last release that is considered. It must be given.
        """
        step = check_step(self, step)
        last = self._check_end(last)
        beginning = self._beginning(max(step, last))
        weight = int(beginning.weights[step - 1])
        unit = 1 << self.facts.lattice_bits
        entries = beginning.root.numerators[: max(last - step + 1, 0)].tolist()
        return tuple(
            Node(quarter(node, self._equal), node, Fraction(weight * value, unit))
            for node, value in enumerate(entries, start=step)
        )

    def l1_sensitivity(self) -> Fraction:
        """Raise `InvalidInputError`: no column has a finite 1-norm, which Laplace noise needs."""
        refuse_laplace(self)

    def squared_sensitivity(self) -> Fraction:
        """Return 1, the largest squared norm of a column over stds of noise."""
        return Fraction(1)

    def largest_reads(self, stops: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return, for each of ``stops``, a bound on a node's weight times its relative std."""
        classes = range(quarter(STEPS, self._equal) + 1)
        widths = np.sqrt([float(self._node_factor(level)) for level in classes])
        firsts = [first_of(level, self._equal) for level in classes]
        last = np.searchsorted(firsts, stops, side="right") - 1
        # d, the number by which a node's column is divided, decreases from node to node.
        most = (1 << self.weight_bits) / self._weights(range(1, 2)).item()
        return np.asarray(most * widths[np.maximum(last, 0)], dtype=np.float64)

    def _node_factor(self, level: int) -> Fraction:
        """Return the noise variance of ``level``'s nodes, relative to level 0."""
        return node_variance(level, self._equal)

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        last_level = quarter(STEPS, self._equal)
        check_noise(self, distribution, last_level=last_level, last=f"at step {STEPS:,}")

    @cached_property
    def _coarser(self) -> float:
        """Factor by which few fraction bits of weights raise variances, compared with 18.

        It is the mean over the second half of the first 8192 releases, for which both are exact: 1
        + 3e-5 with 14 bits, and 1 + 1e-3 or 1 + 2e-3 with 8 bits.
        """
        if self.weight_bits == _WEIGHT_BITS:
            return 1.0
        some = slice(_EXACT_STEPS // 2, None)
        fine = GrowingSquareRoot(even=self.even)._beginning(_EXACT_STEPS)._variances[some]
        return float((self._beginning(_EXACT_STEPS)._variances[some] / fine).mean())

    def _of_totals(self, steps: Integers) -> Floats:
        """Return the variance of the total at each of ``steps``; 0 at step 0."""
        last = int(steps.max(initial=1))
        variances = np.zeros(steps.shape)
        exact_rows = min(last, _EXACT_STEPS) if self.weight_bits >= _LEAST_SHIPPED_BITS else last
        exact = np.concatenate([[0.0], self._beginning(exact_rows)._variances])
        near = steps < len(exact)
        variances[near] = exact[steps[near]]
        if not near.all():
            variances[~near] = self._coarser * _interpolated_variances(steps[~near], self.even)
        return variances

    def variance(
        self,
        steps: Steps,
        since: Steps | None = None,
        distribution: NoiseDistribution | None = None,
    ) -> NDArray[np.float64]:
        """Return the variances of running totals or, with ``since``, of their differences.

        The time for a difference is proportional to its last step.

        Args:
            steps: one step or an array of steps, from 1 on.
            since: steps from 0 on, broadcast with ``steps``, that come before each sum. Default:
                running totals.
            distribution: noise distribution of the first node, for variances in squared data units.
                Default: variances relative to the first node's noise.
        """
        first, last = window_ends(self, steps, since)
        variances = self._of_totals(last)
        both = first > 0
        if both.any():
            beginning = self._beginning(int(last[both].max()))
            variances[both] = beginning.differences(first[both], last[both])
        return variances * self._unit(distribution)

    def _unit(self, distribution: NoiseDistribution | None) -> float:
        return 1.0 if distribution is None else distribution.variance / 4.0**self.facts.lattice_bits

    def _reader(self, field: NodeNoise) -> Reader:
        return _RootReader(self, field)

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the correctly rounded noise of releases, in units of ``2^-fraction_bits``.

        The time is proportional to the last step, for each coordinate.

        Args:
            field: source of the noise of nodes.
            steps: consecutive steps, from 1 on.

        Raises:
            SumOverflowError: noise of 2^50 or more, which no calibrated distribution has.
        """
        check_window(self, steps)

        # For 1,000 steps of 5,000 coordinates a new reader takes 646 MB, and blocks of coordinates
        # take 126 MB; so a reader without room comes here.
        def write(z: NDArray[np.int64], nodes: range, out: NDArray[np.int64]) -> None:
            noise_of_releases = _NoiseOfReleases(self, z.shape[1])
            for start in range(0, len(z), _NODES_PER_DRAW):
                part = noise_of_releases.at_next_nodes(
                    z[start : start + _NODES_PER_DRAW], lambda node, column: z[:node, column].copy()
                )
                low = max(nodes.start - 1 - start, 0)
                high = nodes.stop - 1 - start
                some = part[low:high]
                out[start + low - nodes.start + 1 :][: len(some)] = some

        return by_blocks(_field_without_levels(field, self._equal), steps, write, few=True)


def refuse_laplace(strategy: EndlessStrategy) -> NoReturn:
    """Raise `InvalidInputError`: in an endless stream no column has a finite 1-norm."""
    raise InvalidInputError(
        f"{strategy!r} has no finite 1-norm, because the stream never ends, so Laplace noise is "
        "impossible: use Gaussian noise (ZCDP or ApproxDP), or Epochs for Laplace noise"
    )


def check_noise(
    strategy: EndlessStrategy, distribution: NoiseDistribution, *, last_level: int, last: str
) -> None:
    """Refuse noise that is not Gaussian, or too wide to draw at the last nodes.

    Args:
        strategy: strategy whose nodes of the last level have the widest noise.
        distribution: noise distribution of the nodes of level 0.
        last_level: level of the last nodes.
        last: where they are in the stream, in words.

    Raises:
        InvalidInputError: the noise is not Gaussian, or too wide.
    """
    if not isinstance(distribution, DiscreteGaussian):
        refuse_laplace(strategy)
    if distribution.sigma_squared * strategy._node_factor(last_level) > LARGEST_SPREAD**2:
        raise InvalidInputError(
            f"the noise of {strategy!r} would be too wide to draw exactly: {last} its standard "
            "deviation would be above 2^40 units of the integers that are added up; give a larger "
            "rho, epsilon or resolution, or fewer weight_bits"
        )


@lru_cache(maxsize=1)
def _load_shipped() -> tuple[Integers, dict[int | None, Floats]]:
    """Return, as shipped, numbers of nodes, and by ``even`` the variances of totals after these."""
    # They come with the package; ``make growing`` computes them.
    text = files("counton.strategies.streams").joinpath("growing_root.json").read_text("utf-8")
    shipped = json.loads(text)
    variances: dict[int | None, Floats] = {None: np.array(shipped["variances"])}
    variances |= {even: np.array(shipped[f"even {even}"]) for even in EVEN}
    return np.array(shipped["nodes"]), variances


def _interpolated_variances(nodes: Integers, even: int | None = None) -> Floats:
    """Return the variance of the total after n nodes, interpolated in the table.

    Within each quarter octave a < n < b, b = 2^(1/4) a, by cubic polynomials in log((n - a) / (b -
    n)).

    >>> _interpolated_variances(np.array([2**14, 2**20 - 1])).round(4).tolist()
    [21.4709, 36.3421]
    """
    table_nodes = _load_shipped()[0]
    variances = _load_shipped()[1][even]
    interpolated = np.empty(len(nodes))
    for level, span in _spans(int(nodes.max(initial=0)) + 1):
        some = (nodes >= span.start) & (nodes < span.stop)
        if not some.any():
            continue
        whole = range(first_of(level), first_of(level + 1))
        there = slice(*np.searchsorted(table_nodes, [whole.start, whole.stop]))

        def scale(numbers: Integers, whole: range = whole) -> Floats:
            return np.asarray(np.log((numbers - whole.start + 0.5) / (whole.stop - numbers - 0.5)))

        x = scale(table_nodes[there])
        y = variances[there]
        positions = scale(nodes[some])
        interpolated[some] = _cubic(x, y, positions)
    return interpolated


def _cubic(x: Floats, y: Floats, positions: Floats) -> Floats:
    """Return a function between its values, by the cubic polynomial through the nearest four.

    Args:
        x: increasing positions of the values.
        y: the values.
        positions: where the function is wanted.
    """
    first = np.clip(np.searchsorted(x, positions, side="right") - 2, 0, len(x) - 4)
    total = np.zeros(len(positions))
    for i in range(4):
        part = y[first + i]
        for j in (j for j in range(4) if j != i):
            part = part * (positions - x[first + j]) / (x[first + i] - x[first + j])
        total += part
    return total

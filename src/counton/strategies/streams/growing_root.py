"""The square root that grows: Gaussian totals for streams whose end nobody knows.

The square root of the running totals is Toeplitz, C[s, i] = f(s - i) with f(k) = C(2k, k) / 4^k. An
item enters all later nodes, so that over an endless stream its column has no norm: sum f(k)^2
diverges like ln(k) / pi. Here the noise of later nodes is wider: node s has variance q(s), about
the root of s, in quarter octaves,

    q(s) = (12 / 11)^max(0, floor(4 log2 s) - 12),

and column i is divided by d_i, d_i^2 = sum over k >= 0 of f(k)^2 / q(i + k), which is finite. So
every item costs 1, to the end of time: the guarantee holds for all releases together, however many
there will be. Budget follows time, and the price of an unknown end is a constant, a quarter of
the variance of the best for an end that is known.

This mechanism is counton's own; that any positive q with sum 1 / (k q(k)) finite will do is easily
seen, and this one is within 3 percent of the best for ends that are equally likely on a logarithmic
scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Floats, Integers
from counton.errors import InvalidInput
from counton.exact import check_integer
from counton.laws import LARGEST_SPREAD, DiscreteGaussian, Law, Shift
from counton.strategies.base import Metric, Node, NodeNoise, Norm, Relation, Steps, StreamStrategy
from counton.strategies.participation import schedule_for
from counton.strategies.streams.normalised_sqrt import (
    NormalisedSqrt,
    ShortSeries,
    discounted,
    mixture_of_powers,
    powers_of,
)
from counton.strategies.streams.series import convolve, fft_length
from counton.strategies.streams.square_root import square_root_coefficients

#: Longest stream: the series behind it is exact up to here.
LONGEST = 2**20
_WEIGHT_BITS = 18
#: Variances of nodes are multiples of 2^-30, rounded up.
_VARIANCE_BITS = 30
#: Quarter octaves with variance 1, and how it grows from one to the next.
_EQUAL, _GROWTH = 12, Fraction(12, 11)
#: Sums over f^2 are taken one by one up to twice the longest stream, beyond in closed form over so
#: many quarter octaves.
_SUMMED, _BEYOND = 2 * LONGEST, 160
#: No shorter beginning is made; variances up to the second step are exact, beyond within 1e-4.
_SHORTEST, _EXACT_ROWS = 2**10, 2**13


def series_bits(weight_bits: int) -> int:
    """Bits behind the point of the root, for weights with so many.

    >>> [series_bits(bits) for bits in (18, 14, 8)]
    [16, 14, 12]
    """
    return 16 if weight_bits > 16 else 14 if weight_bits > 10 else 12


def quarter(step: int) -> int:
    """In which class of nodes a step is: 0 for those of variance 1, then one each quarter octave.

    >>> [quarter(step) for step in (1, 9, 10, 11, 12, 16, 2**20)]
    [0, 0, 1, 1, 2, 4, 68]
    """
    return max(0, (step**4).bit_length() - 1 - _EQUAL)


@lru_cache(maxsize=512)
def node_variance(level: int) -> Fraction:
    """q of a class of nodes, a multiple of 2^-30.

    >>> float(node_variance(0)), round(float(node_variance(4)), 6)
    (1.0, 1.416297)
    """
    return Fraction(math.ceil(_GROWTH**level * 2**_VARIANCE_BITS), 2**_VARIANCE_BITS)


@lru_cache(maxsize=512)
def first_of(level: int) -> int:
    """The first node of a class.

    >>> [first_of(level) for level in range(6)]
    [1, 10, 12, 14, 16, 20]
    """
    if level == 0:
        return 1
    power = 1 << level + _EQUAL
    root = math.isqrt(math.isqrt(power))
    return root if root**4 == power else root + 1


def _spans(stop: int) -> list[tuple[int, range]]:
    """Classes, and the nodes of each below ``stop``."""
    found = []
    level = 0
    while first_of(level) < stop:
        found.append((level, range(first_of(level), min(first_of(level + 1), stop))))
        level += 1
    return found


def _logarithm(ratio: Floats) -> Floats:
    """A little more than the natural logarithm of ratios between 1 and 1.5.

    By the series of 2 artanh((x - 1) / (x + 1)), with nothing but what IEEE 754 rounds in one way:
    weights have to be the same on every machine.
    """
    y = (ratio - 1) / (ratio + 1)
    square = y * y
    return np.asarray(2 * y * (1 + square / 3 + square * square / (5 * (1 - square))))


@lru_cache(maxsize=4)
def squared_norms(count: int) -> Floats:
    """d_i^2 for i = 1 .. count, rounded up.

    >>> squared_norms(10)[[0, 1, 7, 8, 9]].round(6).tolist()
    [2.380566, 2.367248, 2.246367, 2.204896, 2.095829]
    """
    squares = square_root_coefficients(_SUMMED) ** 2
    sums = np.concatenate([[0.0], np.cumsum(squares)])
    items = np.arange(1, count + 1)
    total = np.zeros(count)
    # Smallest first, in a definite order.
    last = len(_spans(_SUMMED))
    beyond = np.zeros(count)
    for level in reversed(range(last, last + _BEYOND)):
        low, high = first_of(level) - items, first_of(level + 1) - items
        part = _logarithm((high - 1) / (low - 1)) / (math.pi * float(node_variance(level)))
        if level >= last + _BEYOND - 4:
            part *= 4.0  # what is left: every octave adds 1/1.4 of the one before it
        beyond += part
    total += beyond
    for level, span in reversed(_spans(_SUMMED)):
        low = np.maximum(span.start - items, 0)
        high = np.maximum(span.stop - items, 0)
        total += (sums[high] - sums[low]) / float(node_variance(level))
    return total * (1 + 1e-9)  # above all errors of rounding, of f too


class _Beginning(NormalisedSqrt):
    """The first steps, as a root with columns divided by d_i instead of their own norms."""

    def __init__(self, horizon: int, weight_bits: int) -> None:
        super().__init__(horizon)
        self.weight_bits = weight_bits
        self.root = self._root = ShortSeries(horizon, series_bits(weight_bits))
        self.lattice_bits = self.root.lattice_bits + weight_bits

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """1 / d_i, rounded down, in units of 2^-weight_bits; they never fall."""
        return np.floor(2.0**self.weight_bits / np.sqrt(squared_norms(self.horizon))).astype(
            np.int64
        )

    @cached_property
    def widths(self) -> Floats:
        """Variances of the nodes, in units of that of the first."""
        spans = _spans(self.horizon + 1)
        return np.repeat(
            [float(node_variance(level)) for level, _ in spans], [len(span) for _, span in spans]
        )

    @cached_property
    def variances(self) -> Floats:
        """Of the releases, in units of the first node's."""
        d, a, q = self.shares, self.inverse, self.widths
        if self.horizon > _EXACT_ROWS:
            exact = _Beginning(_EXACT_ROWS, self.weight_bits).variances
            return np.concatenate([exact, _variances_of_long_rows(d, q)[_EXACT_ROWS:]])
        total = np.zeros(self.horizon)
        for k in range(self.horizon):  # node k + 1 in all releases
            total[k:] += q[k] * np.cumsum(d[k:] * a[: self.horizon - k]) ** 2
        return total

    def differences(self, starts: Integers, stops: Integers) -> Floats:
        """Variances of what releases say about the steps start + 1 .. stop."""
        a, d, q = self.inverse, self.shares, self.widths
        found = np.empty(len(starts))
        for place, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            within = np.zeros(stop)
            within[: stop - start] = d[start:stop][::-1]
            read = convolve(within, a[:stop], stop)[::-1]
            found[place] = float((read**2 * q[:stop]).sum())
        return found


class _ByClass:
    """Node noise by class, as that of one level."""

    def __init__(self, field: NodeNoise) -> None:
        self._field = field

    @property
    def shape(self) -> tuple[int, ...]:
        return self._field.shape

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """Noise of consecutive nodes from 1 on."""
        parts = [
            self._field.run(of, range(max(span.start, nodes.start), span.stop))
            for of, span in _spans(nodes.stop)
            if span.stop > nodes.start
        ]
        return np.concatenate(parts) if parts else np.empty((0, *self.shape), np.int64)


class GrowingSquareRoot(StreamStrategy):
    """Gaussian totals of a stream whose end nobody knows; protection never fades.

    The noise of release t is that of t - 1 and d_t (F^-1 z)_t, F the root; node noise grows with
    time. Root and weights are rounded, to multiples of 2^-16 and of 2^-weight_bits or coarser ones;
    noise is rounded correctly. It serves up to 2^20 steps, 119 years of hours: what follows them is
    another stream, which costs nothing more.

    Args:
        weight_bits: from 4 to 18; fewer cost a little and leave room for wider noise.

    Raises:
        InvalidInput: an argument outside that range.

    >>> root = GrowingSquareRoot()
    >>> root.variance([1, 2, 9, 100, 1000]).round(4).tolist()
    [2.3806, 2.9658, 3.997, 8.1702, 13.3585]
    """

    horizon = None
    fraction_bits = 10
    local = False
    causal = True
    unit_columns = False
    aligned = False
    attained = False

    def __init__(self, weight_bits: int = _WEIGHT_BITS) -> None:
        self.weight_bits = check_integer("weight_bits", weight_bits, 4, _WEIGHT_BITS)
        self.lattice_bits = series_bits(self.weight_bits) + self.weight_bits
        self._beginnings: dict[int, _Beginning] = {}

    @classmethod
    def examples(cls, horizon: int) -> Sequence[GrowingSquareRoot]:
        """Fine weights, and coarse ones: exact rows of many fine weights take minutes."""
        return (cls(), cls(4)) if horizon <= 26 else (cls(4),) if horizon <= 250 else ()

    @property
    def parameters(self) -> dict[str, Any]:
        """Bits of the weights."""
        return {"weight_bits": self.weight_bits}

    @property
    def longest(self) -> int:
        """2^20."""
        return LONGEST

    def _beginning(self, steps: int) -> _Beginning:
        """At least so many of the first steps."""
        length = max(1 << (steps - 1).bit_length(), _SHORTEST)
        if length not in self._beginnings:
            self._beginnings[length] = _Beginning(length, self.weight_bits)
        return self._beginnings[length]

    def row(self, step: int) -> tuple[Node, ...]:
        """Nodes 1, ..., ``step`` with the exact coefficients of B; early steps only."""
        row = self._beginning(self.check_step(step)).row(step)
        return tuple(Node(quarter(node), node, weight) for _, node, weight in row)

    def column(self, step: int) -> tuple[Node, ...]:
        """Refused: an item enters ever more nodes as the stream goes on.

        Raises:
            InvalidInput: always; see ``column_until``.
        """
        raise InvalidInput(
            f"an item of {self!r} enters all later nodes, without end: use column_until(step, last)"
        )

    def column_until(self, step: int, last: int) -> tuple[Node, ...]:
        """Nodes ``step``, ..., ``last`` with the coefficients of the root times the weight."""
        step, last = self.check_step(step), self.check_step(last)
        beginning = self._beginning(last)
        weight, unit = int(beginning.weights[step - 1]), 1 << self.lattice_bits
        return tuple(
            Node(quarter(step + k), step + k, Fraction(weight * int(value), unit))
            for k, value in enumerate(beginning.root.numerators[: max(last - step + 1, 0)])
        )

    def l1_sensitivity(self) -> Fraction:
        """Refused: with Laplace noise no item has a finite norm.

        Raises:
            InvalidInput: always.
        """
        self._laplace()

    def _laplace(self) -> NoReturn:
        raise InvalidInput(
            f"{self!r} has no finite 1-norm, since the stream never ends: use Gaussian noise (ZCDP "
            f"or ApproxDP), or Epochs for Laplace noise"
        )

    def squared_sensitivity(self) -> Fraction:
        """1: no item costs more, over all nodes that will ever be, each by its own variance."""
        return Fraction(1)

    def sensitivity(
        self, p: Norm, *, steps: int | None = None, separation: int = 1, every: int | None = None
    ) -> float:
        """See `Strategy.sensitivity`; of 2-norms.

        Raises:
            InvalidInput: the 1-norm, which is infinite, or wrong arguments.
        """
        if p == 1:
            self._laplace()
        return super().sensitivity(p, steps=steps, separation=separation, every=every)

    def shift(
        self,
        relation: Relation = "add_remove",
        *,
        steps: int | None = None,
        separation: int = 1,
        every: int | None = None,
    ) -> Shift:
        """How far one unit moves all nodes, each by its own variance, in lattice units.

        Only the 2-norm means anything: Laplace noise is refused. A unit with k steps moves them by
        up to k times as much: columns far out are ever more alike, whatever lies between them.

        Raises:
            InvalidInput: an argument out of range, or a relation other than "add_remove".
        """
        if relation != "add_remove":
            return super().shift(relation)
        times = schedule_for(None, steps, separation, every).steps
        whole = (times << self.lattice_bits) ** 2
        return Shift(whole, whole)

    @property
    def largest_entry(self) -> int:
        """Entries only rise along the diagonal, where 1 / d_i^2 is at most q(i)."""
        widest = node_variance(quarter(LONGEST)) * 4**self.lattice_bits
        return math.isqrt(math.ceil(widest)) + 1

    @property
    def largest_read(self) -> float:
        """d_1: what the first release reads."""
        return float(self._beginning(1).shares[0])

    def node_variance(self, level: int) -> float:
        """q of the class."""
        return float(node_variance(level))

    def node_law(self, base: Law, level: int) -> Law:
        """The base law with q times its variance.

        Raises:
            InvalidInput: a Laplace law, or noise that later nodes have no room for.
        """
        if not isinstance(base, DiscreteGaussian):
            self._laplace()
        if base.sigma_squared * node_variance(quarter(LONGEST)) > LARGEST_SPREAD**2:
            raise InvalidInput(
                f"noise of {self!r} would be wider than 2^40 units of its lattice at step "
                f"{LONGEST:,}: raise rho or epsilon, take fewer weight_bits, or coarsen the "
                f"resolution"
            )
        return DiscreteGaussian(base.sigma_squared * node_variance(level))

    def variance(self, steps: Iterable[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Of the releases, in units of the variance of the first node."""
        at = self.check_steps(steps)
        if not at.size:
            return np.zeros(at.shape)
        return self._beginning(int(at.max())).variances[at - 1]

    def window_variance(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """Of differences; each takes time in proportion to its end."""
        first, last = self.check_ends(starts, stops)
        found = np.zeros(first.shape)
        alone = (first == 0) & (last > 0)
        found[alone] = self.variance(last[alone])
        both = (first > 0) & (last > first)
        if both.any():
            beginning = self._beginning(int(last[both].max()))
            found[both] = beginning.differences(first[both], last[both])
        return found

    def mean_variance(self, steps: int, law: Law | None = None) -> float:
        """Mean of the variances of the first so many releases.

        In units of the variance of the first node, or exactly with a calibrated law.

        >>> round(GrowingSquareRoot().mean_variance(1024), 3)
        11.209
        """
        steps = self.check_step(steps)
        return float(self._beginning(steps).variances[:steps].mean()) * self._unit(law)

    def largest_variance(self, steps: int, law: Law | None = None) -> float:
        """Largest variance of the first so many releases; units as of `mean_variance`."""
        steps = self.check_step(steps)
        return float(self._beginning(steps).variances[:steps].max()) * self._unit(law)

    def _unit(self, law: Law | None) -> float:
        return 1.0 if law is None else law.variance / 4.0**self.lattice_bits

    def overall_variance(self, metric: Metric) -> float:
        """Refused: the mean and the largest depend on how far the stream goes.

        Raises:
            InvalidInput: always; see ``mean_variance`` and ``variance``.
        """
        raise InvalidInput(
            f"{self!r} serves a stream without an end; use mean_variance(steps) or variance([step])"
        )

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """B z rounded to multiples of ``2^-fraction_bits``; costs O(stop log stop) a coordinate.

        Raises:
            SumOverflow: noise of 2^52 or more, which no calibrated law has.
        """
        self.check_window(steps)
        if not steps:
            return np.empty((0, *field.shape), np.int64)
        return self._beginning(steps.stop - 1).noise(_ByClass(field), steps)


def _variances_of_long_rows(d: Floats, q: Floats) -> Floats:
    """Squared norms of the rows of A D F^-1 before rounding, by the variances of nodes.

    At t the variance grows by d_t^2 sum over s <= t of q_s a_{t-s}^2 and by twice d_t times the sum
    over s < t of q_s B_{t-1,s} a_{t-s}, a the coefficients of sqrt(1 - x). There they stand as a
    mixture of powers, as in ``normalised_sqrt``; the sums over s are convolutions with q.
    """
    horizon = len(d)
    rule, a = mixture_of_powers(horizon)
    length = fft_length(horizon)
    of_q = np.fft.rfft(q, length)

    def with_q(x: Floats) -> Floats:
        return np.asarray(np.fft.irfft(np.fft.rfft(x, length) * of_q, length)[:horizon])

    cross = np.zeros(horizon)
    cross[1:] = (a[1] - sum(weight for _, weight in rule)) * (d * q)[:-1]
    for power, weight in rule:
        seen = powers_of(power, horizon)
        cross[1:] += weight * discounted(d * with_q(a[: len(seen)] * seen), power)[:-1]
    return np.cumsum(2 * d * cross + d**2 * with_q(a**2))

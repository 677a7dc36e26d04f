"""Banded roots: strategies for sums over recent steps, with Gaussian noise.

C is a causal Toeplitz matrix with few diagonals: item i enters the nodes i, i + 1, ... with the
weights c_0 = 1, c_1, ..., which are integers in units of 2^-series_bits and may be negative. For
the sums over the last W steps, c are the first coefficients of the root p(x)^(1/2) of the
polynomial p(x) = 1 + x + ... + x^(W - 1); ``counton.strategies.workloads`` computes them. Releases
are running totals, so that a sum over recent steps is a difference of two releases.

For a known horizon the columns may be divided by their norms d_i, of which only the last ones are
smaller. Their reciprocals w_i are integers in units of 2^-weight_bits.

**Exactness.** Noise z of nodes is a multiple of 2^-lattice_bits. With G = lattice_bits +
guard_bits, the recursion

    v_t = z_t - round(sum over k >= 1 of c_k v_(t - k)),    rounded to multiples of 2^-G,

estimates w_t times the count of step t. If that count changes by d, z_s changes by c_(s - t) w_t d
for all s >= t. Then v_t changes by w_t d, a multiple of 2^-G, and no other v changes, because
rounding commutes with adding multiples of the grid. Next v_t is divided by w_t and rounded, which
changes the result by exactly d, and running totals are rounded to multiples of 2^-fraction_bits. So
a release is a function of C x + z alone. All of this is arithmetic of integers, equal on every
machine. A step takes time proportional to the number of diagonals.

This mechanism is counton's own.
"""

from __future__ import annotations

import hashlib
import math
import operator
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import integers_from_text, integers_to_text
from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule, Structure
from counton.strategies.rounding import round_bits
from counton.strategies.strategy import (
    EndlessStrategy,
    Metric,
    Node,
    NodeNoise,
    Reader,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    check_metric,
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
from counton.strategies.streams.power_series import convolve, reciprocal, relative_slack

if TYPE_CHECKING:
    from counton.base.arrays import Floats, Integers

#: Most coefficients of C, and most steps of a strategy whose columns are divided by their norms.
LARGEST_BAND = 2**14
#: Most steps of a stream, with and without a known last step.
LARGEST_HORIZON = 2**30
#: Fraction bits of the series and of weights, at least and at most.
_LEAST_BITS = 4
_MOST_BITS = 16
#: The inverse of the series is computed up to this many times its length, and cut where less than
#: `_NEGLIGIBLE_SHARE` of its 1-norm is left.
_INVERSE_LENGTHS = 64
_SHORTEST_INVERSE = 2**12
_NEGLIGIBLE_SHARE = 1e-11
#: From this many windows of one length on, the variances at all steps are computed together.
_FEWEST_JOINT_WINDOWS = 32
#: Most numbers that a running stream holds; beyond it, noise is computed again from step 1.
_MOST_HELD_NUMBERS = 2**25


class Band:
    """The coefficients c_0, c_1, ... of C, in units of ``2**-bits``, with their inverse.

    Args:
        numerators: integers, the first of them ``2**bits``.
        bits: fraction bits, 4 to 16.

    Raises:
        InvalidInputError: other integers, or coefficients so large that exact sums do not fit.
    """

    def __init__(self, numerators: Sequence[int] | NDArray[np.int64], bits: int) -> None:
        self.bits = check_integer("series_bits", bits, _LEAST_BITS, _MOST_BITS)
        series = np.asarray(numerators)
        if (
            series.ndim != 1
            or not 1 <= len(series) <= LARGEST_BAND
            or series.dtype.kind not in "iu"
        ):
            raise InvalidInputError(
                f"the series has shape {series.shape} and type {series.dtype}; give 1 to "
                f"{LARGEST_BAND:,} integers"
            )
        series = series.astype(np.int64)
        unit = 1 << self.bits
        if series[0] != unit or np.abs(series).max() > 4 * unit:
            raise InvalidInputError(
                f"the series begins with {series[0]} and has a coefficient of magnitude "
                f"{np.abs(series).max()}; it must begin with 2^{self.bits}, and no coefficient may "
                f"exceed 2^{self.bits + 2}"
            )
        used = int(np.flatnonzero(series)[-1]) + 1
        self.numerators: Integers = series[:used]
        self.numerators.setflags(write=False)

    def __len__(self) -> int:
        return len(self.numerators)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the coefficients, which identifies them."""
        return hashlib.sha256(self.numerators.astype("<i8").tobytes()).hexdigest()

    @cached_property
    def squares(self) -> Integers:
        """Squared 2-norms of the first 1, 2, ... coefficients, in units of ``4**-bits``."""
        return np.cumsum(self.numerators**2)

    @cached_property
    def magnitudes(self) -> Integers:
        """1-norms of the first 1, 2, ... coefficients, in units of ``2**-bits``."""
        return np.cumsum(np.abs(self.numerators))

    def inverse(self, steps: int | None) -> Floats:
        """Return the coefficients of 1/c that matter in the first ``steps`` steps.

        Raises:
            InvalidInputError: they do not decay, and ``steps`` is None or very large.
        """
        longest = max(_INVERSE_LENGTHS * len(self), _SHORTEST_INVERSE)
        if steps is not None and steps <= longest:
            return self._inverse_of_length(steps)
        if self.inverse_norm is None:
            raise InvalidInputError(
                f"the inverse of the series of {len(self):,} coefficients is not known to decay, "
                f"so errors of more than {longest:,} steps cannot be computed: give a horizon up "
                "to this one, or another series"
            )
        inverse = self._inverse_of_length(longest)
        remaining = np.cumsum(np.abs(inverse[::-1]))[::-1]
        kept = int((remaining > _NEGLIGIBLE_SHARE * remaining[0]).sum())
        return inverse[:kept]

    def _inverse_of_length(self, length: int) -> Floats:
        padded = np.zeros(length)
        padded[: len(self)] = self.numerators[:length] / 2.0**self.bits
        with np.errstate(over="ignore", invalid="ignore"):  # it may grow without a limit
            return reciprocal(padded, length)

    @cached_property
    def inverse_norm(self) -> float | None:
        """Upper bound of the 1-norm of 1/c; None if none is proven."""
        # Let r be the first coefficients of 1/c. Then c r = 1 + q with small q, so that 1/c =
        # r / (1 + q), whose 1-norm is at most |r| / (1 - |q|) if |q| < 1.
        length = max(_INVERSE_LENGTHS * len(self), _SHORTEST_INVERSE)
        inverse = self._inverse_of_length(length)
        if not np.abs(inverse).max() < LARGEST_SUM:
            return None
        series = self.numerators / 2.0**self.bits
        count = length + len(self)
        rest = convolve(np.pad(series, (0, length)), np.pad(inverse, (0, len(self))), count)
        rest[0] -= 1.0
        norms = float(np.linalg.norm(series) * np.linalg.norm(inverse))
        error = float(np.abs(rest).sum()) + count * relative_slack(4 * count) * norms
        if error >= 0.5:
            return None
        return 1.001 * float(np.abs(inverse).sum()) / (1 - error)


class _BandNoise:
    """The noise of releases, step after step, for ``cells`` coordinates at once."""

    def __init__(self, strategy: _BandedStrategy, cells: int) -> None:
        band = strategy.band
        self._strategy = strategy
        self._single = cells == 1
        #: c_(K - 1), ..., c_1: the factors of the last K - 1 values of v.
        self._backwards = np.ascontiguousarray(band.numerators[:0:-1])
        shape = (len(band) - 1,) if self._single else (len(band) - 1, cells)
        self._latest = np.zeros(shape, np.int64)
        self._total = np.zeros(cells, np.int64)
        self.step = 0

    def next(self, z: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the noise of the next releases, (steps, cells), from that of their nodes."""
        strategy = self._strategy
        held = len(self._backwards)
        nodes = z[:, 0] if self._single else z
        v = np.concatenate([self._latest, nodes << strategy.guard_bits])
        shift = strategy.band.bits
        half = 1 << shift >> 1
        backwards = self._backwards
        if held:
            for index in range(len(z)):
                past = backwards.dot(v[index : index + held])
                v[index + held] -= ((int(past) if self._single else past) + half) >> shift
            self._latest = v[-held:].copy()
        v = v[held:].reshape(len(z), -1)
        finer = strategy.quotient_bits
        if strategy.weight_bits:
            steps = np.arange(self.step + 1, self.step + 1 + len(z))
            weights = strategy.weights_at(steps)[:, None]
            v = ((v << finer) + (weights >> 1)) // weights
        totals = np.cumsum(v, axis=0)
        totals += self._total
        self._total = totals[-1].copy() if len(totals) else self._total
        self.step += len(z)
        return round_bits(totals, strategy.total_bits - FRACTION_BITS)


class _BandReader(Reader):
    """The noise of one running stream, at a cost for each step that depends on the band alone."""

    _strategy: _BandedStrategy

    def __init__(self, strategy: _BandedStrategy, field: NodeNoise) -> None:
        super().__init__(strategy, field)
        self._cells = math.prod(field.shape)
        self._begin()

    def _begin(self) -> None:
        self._noise = _BandNoise(self._strategy, self._cells)
        self._last = np.empty((0, self._cells), np.int64)

    @property
    def local(self) -> bool:
        """Whether memory suffices to go on from the last step."""
        return self._strategy.facts.buffer_size * self._cells <= _MOST_HELD_NUMBERS

    @override
    def noise(self, steps: range) -> NDArray[np.int64]:
        check_window(self._strategy, steps)
        if not len(steps) or not self.local:
            return self._strategy.noise(self._field, steps)
        if steps.start <= self._noise.step - len(self._last):
            self._begin()
        parts = [self._last] if steps.start <= self._noise.step else []
        first = self._noise.step - len(self._last) + 1 if parts else self._noise.step + 1
        for part in self._strategy._parts(self._field, self._noise, steps.stop - 1):
            if self._noise.step < steps.start:
                first = self._noise.step + 1
                self._last = part[-2:].copy()
                continue
            parts.append(part)
        noise = np.concatenate(parts)
        self._last = noise[-2:].copy()
        some = noise[steps.start - first : steps.stop - first]
        return some.reshape(len(steps), *self._field.shape)


class _BandedStrategy(StreamStrategy):
    """What banded roots with and without a horizon have in common."""

    band: Band
    weight_bits: int
    sources = ("a_floor_estimates", "a_rounded_quotient_estimates")

    def _begin(self, band: Band, weight_bits: int, last_step: int | None) -> None:
        self.band = band
        self.weight_bits = weight_bits
        self.facts = StrategyFacts(
            lattice_bits=band.bits + weight_bits,
            fraction_bits=FRACTION_BITS,
            local=False,
            causal=True,
            unit_columns=False,
            buffer_size=len(band),
            last_step=last_step,
        )

    @property
    def series_bits(self) -> int:
        """Fraction bits of the coefficients of C before weights."""
        return self.band.bits

    @property
    def guard_bits(self) -> int:
        """Further fraction bits of the recursion, beside those of the noise of nodes."""
        return 0 if self.weight_bits else GUARD_BITS

    @property
    def quotient_bits(self) -> int:
        """Further fraction bits of the quotient of v and a weight."""
        return GUARD_BITS if self.weight_bits else 0

    @property
    def total_bits(self) -> int:
        """Fraction bits of running totals before they are rounded."""
        return self.band.bits + self.guard_bits + self.quotient_bits

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "coefficients": len(self.band),
            "series_bits": self.series_bits,
            "series_sha256": self.band.digest,
        }

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters and the coefficients as JSON values."""
        return {**super().to_dict(), "series": integers_to_text(self.band.numerators)}

    @abstractmethod
    def weights_at(self, steps: Integers) -> Integers:
        """Return the weights 1 / d_i of the columns of ``steps``, in units of 2^-weight_bits."""

    # -------------------------------------------------------------------------------- errors

    @cached_property
    def _inverse(self) -> Floats:
        """The first coefficients of 1/c; all others are negligible within the horizon."""
        return self.band.inverse(self.horizon)

    @cached_property
    def _sums(self) -> Floats:
        """Coefficients of 1 / ((1 - x) c): all later ones equal the last."""
        return np.cumsum(self._inverse)

    @cached_property
    def _squares_before(self) -> Floats:
        return np.concatenate([[0.0], np.cumsum(self._sums**2)])

    def _squares_of_length(self, length: int) -> Floats:
        """Return sums of the first 0, 1, ... of the squares (b_(j + length) - b_j)^2."""
        saved: dict[int, Floats] = vars(self).setdefault("_squares_by_length", {})
        if length not in saved:
            if len(saved) > 64:
                saved.clear()
            b = self._sums
            later = np.full(len(b), b[-1])
            if length < len(b):
                later[: len(b) - length] = b[length:]
            saved[length] = np.concatenate([[0.0], np.cumsum((later - b) ** 2)])
        return saved[length]

    def _variances_of_windows(self, first: Integers, last: Integers) -> Floats:
        """Return variances of the counts of the steps first + 1 .. last, of equal columns."""
        b = self._sums
        length = last - first
        variances = self._squares_before[np.minimum(length, len(b))]
        variances = variances + np.maximum(length - len(b), 0) * b[-1] ** 2
        for window_length in np.unique(length[first > 0]).tolist():
            some = (first > 0) & (length == window_length)
            squares = self._squares_of_length(window_length)
            variances[some] += squares[np.minimum(first[some], len(b))]
        return np.where(length > 0, variances, 0.0)

    def _decayed_of_equal_columns(self, factor: float, steps: Integers) -> Floats:
        """Return variances of sums with the weight factor^age, of equal columns."""
        count = len(self._inverse) + math.ceil(-40 / math.log(factor))
        powers = np.power(factor, np.arange(count, dtype=np.float64))
        inverse = np.pad(self._inverse, (0, count - len(self._inverse)))
        sums = convolve(inverse, powers, count)
        squares = np.concatenate([[0.0], np.cumsum(sums**2)])
        return np.asarray(squares[np.minimum(steps, count)])

    @property
    def _largest_share(self) -> float:
        """Largest norm d_i by which a column is divided."""
        return 1.0

    def largest_reads(self, stops: NDArray[np.int64]) -> NDArray[np.float64]:
        most = self._largest_share * self._most_read
        return np.full(stops.shape, most)

    @cached_property
    def _most_read(self) -> float:
        """Largest magnitude of a node's weight in sums of consecutive steps, before weights."""
        b = self._sums
        return float(max(b.max(), 0.0) - min(b.min(), 0.0))

    def _window_rounding(self, first: Integers, last: Integers) -> Floats:
        # Each v is rounded, and so is each quotient: half a unit of its grid, times what it adds.
        grid = 2.0 ** (FRACTION_BITS - self.facts.lattice_bits - self.guard_bits)
        error_of_step = 0.5 * grid * self._largest_share * self._most_read
        if self.weight_bits:
            error_of_step += 0.5 * 2.0 ** (FRACTION_BITS - self.total_bits)
        return np.asarray(rounding_of_releases(first, last) + error_of_step * last)

    @override
    def _check_distribution(self, distribution: NoiseDistribution) -> None:
        steps = self.horizon or LARGEST_HORIZON
        inverse = self._inverse
        with np.errstate(over="ignore"):
            norm = float(np.linalg.norm(inverse))
        v = WIDEST_STDS * distribution.std * 2.0**self.guard_bits * norm
        products = v * float(self.band.magnitudes[-1])
        quotients = v * 2.0**self.quotient_bits
        total = quotients * self._largest_share / 2.0**self.weight_bits * math.sqrt(steps)
        total *= max(self._most_read, 1.0)
        if not all(most < LARGEST_SUM for most in (products, quotients, total)):
            raise InvalidInputError(
                f"a node of {self!r} would have noise with a standard deviation of "
                f"{distribution.std / 2.0**self.facts.lattice_bits:.3g}, whose sums over "
                f"{steps:,} steps are not exact in 64 bits: give a larger rho, epsilon or "
                "resolution, or fewer series_bits"
            )

    # -------------------------------------------------------------------------------- noise

    def _parts(self, field: NodeNoise, noise: _BandNoise, last: int) -> Iterator[Integers]:
        """Yield the noise of the next releases up to ``last``, in parts (steps, cells)."""
        cells = math.prod(field.shape)
        size = steps_at_once(cells)
        while noise.step < last:
            steps = range(noise.step + 1, min(noise.step + size, last) + 1)
            yield noise.next(field.run(0, steps).reshape(len(steps), cells))

    def _reader(self, field: NodeNoise) -> Reader:
        return _BandReader(self, field)

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the noise of releases, in time proportional to the last step."""
        check_window(self, steps)
        cells = math.prod(field.shape)
        out = np.empty((len(steps), cells), np.int64)
        if out.size:
            noise = _BandNoise(self, cells)
            for part in self._parts(field, noise, steps.stop - 1):
                begin = noise.step - len(part) + 1
                low = max(steps.start - begin, 0)
                if low < len(part):
                    place = begin + low - steps.start
                    out[place : place + len(part) - low] = part[low:]
        return out.reshape(len(steps), *field.shape)

    def _exact_inverse(self, count: int) -> list[Fraction]:
        """Return the first coefficients of 1/c, exactly, in quadratic time."""
        bits = self.band.bits
        c = [int(value) for value in self.band.numerators]
        scaled = [1]  # entry k is a_k * 2^(bits * k)
        for k in range(1, count):
            spent = sum(
                c[i] * scaled[k - i] << bits * (i - 1) for i in range(1, min(k, len(c) - 1) + 1)
            )
            scaled.append(-spent)
        return [Fraction(value, 1 << bits * k) for k, value in enumerate(scaled[:count])]


class BandedRoot(_BandedStrategy):
    """Running totals whose sums over recent steps have little Gaussian noise, up to a horizon.

    Args:
        horizon: number of steps, from 1 to 2^30.
        series: the coefficients of C in units of 2^-series_bits, at most 16,384 integers. The first
            is 2^series_bits; others may be negative.
        series_bits: fraction bits of the coefficients, 4 to 16.
        weight_bits: fraction bits of the weights by which columns get equal norms, 4 to 16; 0: all
            weights are 1. With weights, a stream has at most 16,384 steps.

    Raises:
        InvalidInputError: an argument out of range.

    >>> from counton.strategies.workloads import Rolling
    >>> strategy = Rolling(7).root(365)
    >>> strategy.horizon, round(float(strategy.squared_sensitivity()), 3)
    (365, 1.0)
    >>> strategy.variance([7, 100, 365], since=[0, 93, 358]).round(2).tolist()
    [2.98, 3.16, 2.62]
    """

    horizon: int

    def __init__(
        self,
        horizon: int,
        series: Sequence[int] | NDArray[np.int64],
        series_bits: int,
        weight_bits: int = 0,
    ) -> None:
        self.horizon = check_integer("horizon", horizon, 1, LARGEST_HORIZON)
        if weight_bits:
            weight_bits = check_integer("weight_bits", weight_bits, _LEAST_BITS, _MOST_BITS)
            check_integer("horizon", horizon, 1, LARGEST_BAND, remedy="or give 0 as weight_bits")
        series = np.asarray(series)
        band = Band(series[:horizon] if series.ndim == 1 else series, series_bits)
        self._begin(band, weight_bits, None)

    @classmethod
    def examples(cls, horizon: int) -> Sequence[Self]:
        """Return strategies with and without weights, with long and short series."""
        signed = (16, 8, 6, 5, -4, 0, -1)
        examples = [cls(horizon, signed, 4, 8), cls(horizon, signed, 4)]
        if horizon <= 32:
            examples += [cls(horizon, (1024, -300, 70), 10, 4), cls(horizon, (64,), 6, 16)]
        return tuple(examples)

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        return {
            "horizon": self.horizon,
            **super().parameters,
            "weight_bits": self.weight_bits,
        }

    @classmethod
    @override
    def _from_description(
        cls, horizon: int, coefficients: int, series_bits: int, series: str, weight_bits: int,
        **_: Any,
    ) -> Self:  # fmt: skip
        count = check_integer("coefficients", coefficients, 1, LARGEST_BAND)
        return cls(horizon, integers_from_text(series, (count,)), series_bits, weight_bits)

    def __repr__(self) -> str:
        weights = f", weight_bits={self.weight_bits}" if self.weight_bits else ""
        return (
            f"BandedRoot(horizon={self.horizon}, coefficients={len(self.band)}, "
            f"series_bits={self.series_bits}{weights}, series={self.band.digest[:8]})"
        )

    # ------------------------------------------------------------------------ C and its norms

    @cached_property
    def _weights_by_length(self) -> Integers:
        """Weights of columns with 1, 2, ... entries, in units of 2^-weight_bits."""
        if not self.weight_bits:
            return np.ones(len(self.band), np.int64)
        # Square roots and quotients of float64 are equal on every machine.
        norms = np.sqrt(self.band.squares.astype(np.float64)) / 2.0**self.band.bits
        return np.rint(2.0**self.weight_bits / norms).astype(np.int64)

    @override
    def weights_at(self, steps: Integers) -> Integers:
        return self._weights_by_length[np.minimum(self.horizon - steps, len(self.band) - 1)]

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes of ``step`` and of the next steps."""
        step = check_step(self, step)
        weight = int(self.weights_at(np.array([step]))[0])
        unit = 1 << self.facts.lattice_bits
        values = self.band.numerators[: self.horizon - step + 1].tolist()
        return tuple(
            Node(0, step + k, Fraction(weight * value, unit))
            for k, value in enumerate(values)
            if value
        )

    @override
    def _level_widths(self) -> dict[int, int]:
        return {0: self.horizon + 1}  # nodes are numbered from 1

    def l1_sensitivity(self) -> Fraction:
        largest = max(
            int(length) * int(weight)
            for length, weight in zip(self.band.magnitudes, self._weights_by_length, strict=True)
        )
        return Fraction(largest, 1 << self.facts.lattice_bits)

    def squared_sensitivity(self) -> Fraction:
        largest = max(
            int(square) * int(weight) ** 2
            for square, weight in zip(self.band.squares, self._weights_by_length, strict=True)
        )
        return Fraction(largest, 4**self.facts.lattice_bits)

    @property
    @override
    def structure(self) -> Structure:
        """Bounds on the inner products of columns, whose entries have signs."""
        return Structure(overlaps=self._overlaps)

    @cached_property
    def _products(self) -> list[int]:
        """Bounds on inner products of columns at least 0, 1, ... steps apart, in 4^-lattice_bits.

        Columns further apart than the series is long have no common node.
        """
        c = self.band.numerators
        w = self._weights_by_length
        most = len(c) - 1
        bounds = [0] * (len(c) + 1)
        for lag in reversed(range(len(c))):
            # The later column of a pair has 1, 2, ... entries, and the earlier one ``lag`` more.
            sums = np.abs(np.cumsum(c[: len(c) - lag] * c[lag:]))
            later = np.arange(len(c))
            # It is at most the product of both norms, so it fits int64.
            products = sums[np.minimum(later, most - lag)] * w[np.minimum(later + lag, most)]
            bounds[lag] = max(bounds[lag + 1], int((products * w).max()))
        return bounds

    def _overlaps(self, schedule: Schedule) -> list[int]:
        """Return bounds on inner products of columns j times ``schedule.apart`` apart, j from 1."""
        lags = range(schedule.apart, schedule.apart * schedule.steps, schedule.apart)
        return [self._products[min(lag, len(self.band))] for lag in lags]

    # ------------------------------------------------------------------------------- B, errors

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes 1 to ``step``, in quadratic time."""
        step = check_step(self, step)
        inverse = self._exact_inverse(step)
        unit = 1 << self.weight_bits
        weights = self.weights_at(np.arange(1, step + 1)).tolist()
        factors = [Fraction(unit, weight) for weight in weights]  # of the steps 1 to ``step``
        nodes = []
        for node in range(1, step + 1):
            products = map(operator.mul, inverse, factors[node - 1 :])
            nodes.append(Node(0, node, sum(products, Fraction())))
        return tuple(nodes)

    @cached_property
    def _shares(self) -> Floats:
        """Norms d_i, as the reciprocals of rounded weights: shape (horizon,); only with weights."""
        return 2.0**self.weight_bits / self.weights_at(np.arange(1, self.horizon + 1))

    @property
    @override
    def _largest_share(self) -> float:
        return float(2.0**self.weight_bits / self._weights_by_length.min())

    def _of_length(self, length: int | None) -> Floats:
        """Return the variances at all steps of the last ``length`` steps; None: of totals."""
        saved: dict[int | None, Floats] = vars(self).setdefault("_by_length", {})
        if length not in saved:
            a = self._inverse
            d = self._shares
            variances = np.zeros(self.horizon)
            for k in range(self.horizon):  # node k + 1 in all releases
                read = np.cumsum(d[k : k + len(a)] * a[: self.horizon - k])
                if length is None:
                    variances[k : k + len(read)] += read**2
                    variances[k + len(read) :] += read[-1] ** 2
                    continue
                until = min(len(read) + length, self.horizon - k)
                within = np.full(until, read[-1])
                within[: len(read)] = read[:until]
                within[length:] -= read[: max(until - length, 0)]
                variances[k : k + until] += within**2
            saved[length] = variances
        return saved[length]

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        first, last = window_ends(self, steps, since)
        shape = first.shape
        first = first.ravel()
        last = last.ravel()
        share = 2.0**self.weight_bits / self._weights_by_length[-1]
        variances = share**2 * self._variances_of_windows(first, last)
        # Columns of the last steps have other weights.
        others = last > max(self.horizon - len(self.band) + 1, 0)
        if self.weight_bits and others.any():
            variances[others] = self._of_last_columns(first[others], last[others])
        return np.asarray(variances.reshape(shape))

    def _of_last_columns(self, first: Integers, last: Integers) -> Floats:
        variances = np.zeros(len(first))
        from_start = (first == 0) & (last > 0)
        if from_start.sum() > _FEWEST_JOINT_WINDOWS:
            variances[from_start] = self._of_length(None)[last[from_start] - 1]
        else:
            variances[from_start] = self._of_windows(first[from_start], last[from_start])
        length = last - first
        inner = (first > 0) & (length > 0)
        for window_length in np.unique(length[inner]).tolist():
            some = inner & (length == window_length)
            if some.sum() > _FEWEST_JOINT_WINDOWS:
                variances[some] = self._of_length(window_length)[last[some] - 1]
            else:
                variances[some] = self._of_windows(first[some], last[some])
        return variances

    def _of_windows(self, first: Integers, last: Integers) -> Floats:
        """Return variances of the counts of steps first + 1 .. last, by a convolution for each."""
        a = self._inverse
        variances = np.empty(len(first))
        for index, (start, stop) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            within = np.zeros(stop)
            within[: stop - start] = self._shares[start:stop][::-1]
            inverse = np.zeros(stop)
            inverse[: len(a)] = a[:stop]
            variances[index] = float((convolve(within, inverse, stop) ** 2).sum())
        return variances

    @override
    def _decayed_variance(self, factor: float, steps: Integers) -> Floats:
        if not self.weight_bits:
            return self._decayed_of_equal_columns(factor, steps)
        a = np.zeros(self.horizon)
        a[: len(self._inverse)] = self._inverse
        d = self._shares
        read = np.zeros(self.horizon)
        variances = np.empty(self.horizon)
        for step in range(1, self.horizon + 1):
            seen = read[:step]
            seen *= factor
            seen += d[step - 1] * a[:step][::-1]
            variances[step - 1] = seen @ seen
        return variances[steps - 1]

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        check_metric(metric)
        if not self.weight_bits and of == "totals":
            b = self._sums
            squares = self._squares_before[1 : self.horizon + 1]
            if metric == "max":
                beyond = max(self.horizon - len(b), 0)
                return float(squares[-1] + beyond * b[-1] ** 2)
            later = self.horizon - len(squares)
            total = squares.sum() + later * squares[-1] + later * (later + 1) / 2 * b[-1] ** 2
            return float(total / self.horizon)
        return super().overall_variance(metric, of)


class EndlessBandedRoot(_BandedStrategy, EndlessStrategy):
    """Running totals whose sums over recent steps have little Gaussian noise, without a last step.

    The guarantee is for all releases together, and does not weaken with age. Sums over recent steps
    have the same variance at all late steps. The variance of totals grows with the step.

    Args:
        series, series_bits: as of `BandedRoot`. The inverse of the series must decay.

    Raises:
        InvalidInputError: an argument out of range, or a series whose inverse is not known to
            decay.

    >>> from counton.strategies.workloads import Rolling
    >>> strategy = Rolling(7).root(None)
    >>> ends = [7, 1000, 10**6]
    >>> variance = strategy.variance(ends, since=[0, 993, 10**6 - 7])
    >>> (variance * float(strategy.squared_sensitivity())).round(2).tolist()
    [2.97, 3.17, 3.17]
    """

    def __init__(self, series: Sequence[int] | NDArray[np.int64], series_bits: int) -> None:
        band = Band(series, series_bits)
        band.inverse(None)
        self._begin(band, 0, LARGEST_HORIZON)

    @classmethod
    def examples(cls, horizon: int) -> Sequence[Self]:
        """Return strategies with signs, with long and short series."""
        examples = [cls((16, 8, 6, 5, -4, 0, -1), 4)]
        if horizon <= 32:
            examples += [cls((1024, -300, 70), 10), cls((64,), 6)]
        return tuple(examples)

    @classmethod
    @override
    def _from_description(cls, coefficients: int, series_bits: int, series: str, **_: Any) -> Self:
        count = check_integer("coefficients", coefficients, 1, LARGEST_BAND)
        return cls(integers_from_text(series, (count,)), series_bits)

    def __repr__(self) -> str:
        return (
            f"EndlessBandedRoot(coefficients={len(self.band)}, series_bits={self.series_bits}, "
            f"series={self.band.digest[:8]})"
        )

    @property
    @override
    def structure(self) -> Structure:
        """No facts: the inner product of two columns may be negative."""
        return Structure()

    @override
    def weights_at(self, steps: Integers) -> Integers:
        return np.ones(len(steps), np.int64)

    def column(self, step: int, last: int | None = None) -> tuple[Node, ...]:
        """Return the nodes of ``step`` and of the next steps, up to ``last`` if it is given."""
        step = check_step(self, step)
        unit = 1 << self.facts.lattice_bits
        count = len(self.band) if last is None else max(check_step(self, last) - step + 1, 0)
        values = self.band.numerators[:count].tolist()
        return tuple(
            Node(0, step + k, Fraction(value, unit)) for k, value in enumerate(values) if value
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes 1 to ``step``, in quadratic time."""
        step = check_step(self, step)
        total = Fraction()
        sums = []
        for value in self._exact_inverse(step):
            total += value
            sums.append(total)
        return tuple(Node(0, node, sums[step - node]) for node in range(1, step + 1))

    def l1_sensitivity(self) -> Fraction:
        return Fraction(int(self.band.magnitudes[-1]), 1 << self.facts.lattice_bits)

    def squared_sensitivity(self) -> Fraction:
        return Fraction(int(self.band.squares[-1]), 4**self.facts.lattice_bits)

    def _node_factor(self, level: int) -> Fraction:
        """Return 1: all nodes have equal noise."""
        return Fraction(1)

    def variance(
        self,
        steps: Steps,
        since: Steps | None = None,
        distribution: NoiseDistribution | None = None,
    ) -> NDArray[np.float64]:
        first, last = window_ends(self, steps, since)
        variances = self._variances_of_windows(first.ravel(), last.ravel())
        return np.asarray(variances.reshape(first.shape) * self._unit(distribution))

    @override
    def _decayed_variance(self, factor: float, steps: Integers) -> Floats:
        return self._decayed_of_equal_columns(factor, steps)

    def _unit(self, distribution: NoiseDistribution | None) -> float:
        return 1.0 if distribution is None else distribution.variance / 4.0**self.facts.lattice_bits


def series_of(coefficients: Floats, bits: int) -> list[int]:
    """Round coefficients, the first of them 1, to multiples of ``2**-bits``: their numerators.

    >>> series_of(np.array([1.0, 0.5, -0.126]), 4)
    [16, 8, -2]
    """
    numerators: list[int] = np.rint(np.asarray(coefficients) * 2.0**bits).astype(np.int64).tolist()
    return numerators

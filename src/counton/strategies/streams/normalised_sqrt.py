"""The square-root factorisation with unit columns: less error with Gaussian noise.

`NormalisedSqrt` divides the columns of C by their norms. Later columns are shorter, so that early
items alone need the noise of the square root: C' = C D^-1 gives all items the same protection, and
less error: Henzinger, Kalinin and Upadhyay, "Normalized square root: sharper matrix factorization
bounds for differentially private continual counting" (arXiv 2509.14334).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from itertools import count, pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInput
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule, Structure, sensitivities
from counton.strategies.rounding import OFFSET, rounded_within
from counton.strategies.strategy import (
    Metric,
    Node,
    NodeNoise,
    Steps,
    StreamStrategy,
    Workload,
    check_metric,
    check_step,
    check_window,
    window_ends,
)
from counton.strategies.streams.power_series import (
    DIGIT_BITS,
    convolve,
    exact_convolution,
    exact_dot,
    fft_length,
)
from counton.strategies.streams.square_root import (
    SqrtToeplitz,
    by_blocks,
    floor_all,
    root_facts,
    square_root_coefficients,
)

if TYPE_CHECKING:
    from counton.base.arrays import Floats

#: Fraction bits of the weights of columns, and of the series that they multiply.
_WEIGHT_BITS, _SERIES_BITS, _FINER_SERIES_BITS = 16, 12, 14
#: Longest series whose products with two weights are proven to stay within int64.
_LARGEST_NORMALISED = 2**20
#: Variances are sums over exact rows up to this horizon, beyond within 1e-4 of them.
_EXACT_ROWS = 2**13
#: Convolutions with fewer numbers are sums of shifted copies.
_SHORT_SERIES = 2**16
#: So many overlaps are computed each, and then at distances that grow by a tenth.
_ALL_OVERLAPS = 16


class ShortSeries(SqrtToeplitz):
    """The square root on a coarser lattice."""

    serves = "NormalisedSqrt"

    def __init__(self, horizon: int, lattice_bits: int) -> None:
        super().__init__(horizon)
        self.facts = root_facts(lattice_bits)


class NormalisedSqrt(StreamStrategy):
    """Square-root factorisation with unit columns, C' = C D^-1: less error with Gaussian noise.

    The noise of a release is the sum over i <= t of d_i (C^-1 z)_i, with d_i the norm of column i
    of C: one multiplication a step more than `SqrtToeplitz`. Weights 1 / d_i are rounded to
    multiples of 2^-weight_bits, C to multiples of 2^-12 (beyond 2^13 steps 2^-14); the sensitivity
    is that of the rounded C', exactly, and noise is rounded correctly.

    Args:
        horizon: number of steps, from 1 to 2^20.
        weight_bits: from 4 to 16; fewer cost a little and leave room for wider noise.

    Raises:
        InvalidInput: an argument outside that range.

    >>> strategy = NormalisedSqrt(1024)
    >>> round(float(strategy.squared_sensitivity()), 3), strategy.variance([1, 1024]).round(2)
    (1.0, array([3.27, 6.89]))
    >>> [round((strategy.overall_variance(m)) ** 0.5, 3) for m in ("mean", "max")]
    [2.991, 3.081]
    """

    sources = ("normalised",)

    horizon: int

    def __init__(self, horizon: int, weight_bits: int = _WEIGHT_BITS) -> None:
        horizon = check_integer("horizon", horizon, 1)
        if horizon > _LARGEST_NORMALISED:
            raise InvalidInput(
                f"horizon of the normalised square root is {horizon}; it must be at most 2^20: use "
                f"SqrtToeplitz, or a tree strategy such as KAry for longer streams"
            )
        self.horizon = horizon
        self.weight_bits = check_integer("weight_bits", weight_bits, 4, _WEIGHT_BITS)
        bits = _SERIES_BITS if horizon <= _EXACT_ROWS else _FINER_SERIES_BITS
        self._root = ShortSeries(horizon, bits)
        self.facts = root_facts(bits + self.weight_bits)
        self._rows: dict[int, tuple[Node, ...]] = {}

    @classmethod
    def examples(cls, horizon: int) -> tuple[NormalisedSqrt, ...]:
        """Fine weights, and coarse ones: exact rows of many fine weights take minutes."""
        coarse, fine = cls(horizon, weight_bits=4), cls(horizon)
        return (fine, coarse) if horizon <= 26 else (coarse,) if horizon <= 250 else ()

    @cached_property
    def _squares(self) -> NDArray[np.int64]:
        """Squared norms of C's last 1, 2, .. columns, in units of 4^-bits of the series."""
        return np.cumsum(self._root.numerators**2)

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """1 over the norms of C's columns, in units of 2^-weight_bits; they never fall."""
        norms = np.sqrt(self._squares[::-1].astype(np.float64)) / 2.0**self._root.facts.lattice_bits
        return np.rint(2.0**self.weight_bits / norms).astype(np.int64)

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """d_i, the inverse weights."""
        return 2.0**self.weight_bits / self.weights

    def column(self, step: int) -> tuple[Node, ...]:
        """Nodes ``step``, ..., ``horizon`` with the coefficients of C times the column's weight."""
        step = check_step(self, step)
        unit, weight = 1 << self.facts.lattice_bits, int(self.weights[step - 1])
        values = self._root.numerators[: self.horizon - step + 1]
        return tuple(
            Node(0, step + k, Fraction(weight * int(v), unit)) for k, v in enumerate(values)
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Nodes 1, ..., ``step`` with the exact coefficients of B; small horizons only."""
        step = check_step(self, step)
        if step in self._rows:
            return self._rows[step]
        weights = [int(w) for w in self.weights[:step]]
        common = math.lcm(*weights)
        shares = [common // w for w in weights]
        b, p = self._root.row_coefficients(step), self._root.facts.lattice_bits
        # The inverse series 1/c is that of b, differenced; over the common denominator 2^(p k).
        inverse = [int((b[k] - (b[k - 1] if k else 0)) * (1 << p * k)) for k in range(step)]
        nodes = []
        for k in range(step):
            width = step - 1 - k
            total = sum(shares[k + j] * inverse[j] << p * (width - j) for j in range(width + 1))
            exact = Fraction(total << self.weight_bits, common << p * width)
            nodes.append(Node(0, k + 1, exact))
        self._rows[step] = tuple(nodes)
        return self._rows[step]

    def l1_sensitivity(self) -> Fraction:
        """Largest 1-norm of a column, exactly."""
        lengths = np.cumsum(self._root.numerators)[::-1] * self.weights
        return Fraction(int(lengths.max()), 1 << self.facts.lattice_bits)

    def squared_sensitivity(self) -> Fraction:
        """Largest squared 2-norm of a column, exactly; within a trifle of 1."""
        return Fraction(
            int((self._squares[::-1] * self.weights**2).max()), 4**self.facts.lattice_bits
        )

    @property
    @override
    def structure(self) -> Structure:
        """Products of columns only fall with distance, so that D_2^2 bounds each change."""
        return Structure(
            overlaps=self._overlaps, change_bound=lambda: sensitivities(self).l2_squared
        )

    def _overlaps(self, schedule: Schedule) -> list[int]:
        """Exact at some distances: coefficients only fall and weights only rise, so that of all
        earlier columns at least so far away the nearest has the largest product with a given one.
        """
        c, w = self._root.numerators, self.weights
        found: list[int] = []
        computed = 0
        for j in range(1, schedule.steps):
            lag = j * schedule.apart
            if j <= _ALL_OVERLAPS or 10 * j >= 11 * computed:
                products = np.cumsum(c[: len(c) - lag] * c[lag:])[::-1]
                found.append(int((products * (w[lag:] * w[: len(w) - lag])).max()))
                computed = j
            else:
                found.append(found[-1])  # no less than those further apart
        return found

    @cached_property
    def inverse(self) -> NDArray[np.float64]:
        """First column of C^-1 in float64."""
        return np.diff(self._root._quotient.approximate, prepend=0.0)

    @cached_property
    def _variances(self) -> NDArray[np.float64]:
        d = self.shares
        if self.horizon > _EXACT_ROWS:
            return variances_of_long_rows(d, np.ones(self.horizon))
        a = self.inverse
        total = np.zeros(self.horizon)
        for k in range(self.horizon):  # node k + 1 in all releases
            total[k:] += np.cumsum(d[k:] * a[: self.horizon - k]) ** 2
        return total

    def overall_variance(self, metric: Metric, of: Workload = "totals") -> float:
        """From the squared norms of the rows of B."""
        check_metric(metric)
        if of == "windows":
            return super().overall_variance(metric, of)
        return float(self._variances.max() if metric == "max" else self._variances.mean())

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Squared norms of rows, or of their differences.

        Takes time in proportion to the horizon for each distance up to the longest window, or for
        each window, whichever is less.
        """
        first, last = window_ends(self, steps, since)
        variance = np.zeros(first.shape)
        from_start = (first == 0) & (last > 0)
        variance[from_start] = self._variances[last[from_start] - 1]
        inner = (first > 0) & (last > first)
        s, t = first[inner], last[inner]
        if s.size:
            longest = int((t - s).max())
            one_by_one = self._by_distance if longest <= 64 * len(s) else self._by_window
            variance[inner] = one_by_one(s, t)
        return variance

    def _by_distance(self, s: NDArray[np.int64], t: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sums over pairs of steps of d_i d_j (C^-1 C^-T)_ij, by the distance of i and j."""
        a, d = self.inverse, self.shares
        found = np.zeros(len(s))
        for distance in range(int((t - s).max())):
            count = self.horizon - distance
            products = np.cumsum(a[:count] * a[distance:])
            sums = np.concatenate([[0.0], np.cumsum(d[:count] * d[distance:] * products)])
            some = t - s > distance
            twice = 1 if distance == 0 else 2
            found[some] += twice * (sums[t[some] - distance] - sums[s[some]])
        return found

    def _by_window(self, s: NDArray[np.int64], t: NDArray[np.int64]) -> NDArray[np.float64]:
        """What each node adds to the steps of one window, by convolution."""
        a, d = self.inverse, self.shares
        found = np.empty(len(s))
        for place, (start, stop) in enumerate(zip(s.tolist(), t.tolist(), strict=True)):
            within = np.zeros(stop)
            within[: stop - start] = d[start:stop][::-1]
            found[place] = float((convolve(within, a[:stop], stop) ** 2).sum())
        return found

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """B z rounded to multiples of ``2^-fraction_bits``; costs O(stop log stop) a coordinate.

        Raises:
            SumOverflow: noise of 2^52 or more, which no calibrated law has.
        """
        check_window(self, steps)
        return by_blocks(field, steps, False, self._round)

    def _round(self, z: NDArray[np.int64], steps: range, released: NDArray[np.int64]) -> None:
        """Write floor(2^fraction_bits B z + offset) of one block of coordinates.

        With s the noise of the square root, B z at t is d_t s_t + sum over i < t of
        (d_i - d_{i+1}) s_i: weights whose magnitudes bound how errors of s add up.
        """
        sums, error = self._root.sums(np.ascontiguousarray(z.T, dtype=np.float64))
        w = self.weights[: len(z)].astype(np.float64)
        falls = 2.0**self.weight_bits * np.diff(w) / (w[1:] * w[:-1])  # exact but for two roundings
        before, depth = running_sums(falls * sums[:, :-1])
        largest = float((np.append(0.0, np.cumsum(np.abs(falls))) + self.shares[: len(z)]).max())
        cell = 2.0 ** (self.facts.fraction_bits - self.facts.lattice_bits)
        within = slice(steps.start - 1, steps.stop - 1)
        total = self.shares[: len(z)] * sums + np.pad(before, ((0, 0), (1, 0)))
        cells = total[:, within] * cell + OFFSET
        of_sums = np.abs(sums).max(axis=1) + error
        guard = cell * largest * 1.001 * (error + of_sums * (depth + 8) * 2.0**-53)
        guard = guard[:, None] + (1 + np.abs(cells)) * 2.0**-50
        for row, column in floor_all(cells, guard, released):
            released[row, column] = self.decide(z[: steps[row], column])

    def decide(self, z: NDArray[np.int64]) -> int:
        """floor(2^fraction_bits B z + offset) by integers, with more digits until certain."""
        quotient, length = self._root._quotient, exact_dot(np.abs(z), np.ones_like(z))
        weights = [int(w) for w in self.weights[: len(z)]]
        sums = [0] * len(z)
        for j in count():
            added = exact_convolution(quotient.digit(j), z)
            sums = [(s << (DIGIT_BITS if j else 0)) + a for s, a in zip(sums, added, strict=True)]
            finer = quotient.places(j) + 64
            shares = [(1 << finer + self.weight_bits) // w for w in weights]
            total = shares[-1] * sums[-1]
            total += sum((a - b) * s for a, b, s in zip(shares, shares[1:], sums, strict=False))
            # Shares are less than 1 too small, their differences off by less than 1.
            most = shares[-1] + sum(abs(a - b) for a, b in pairwise(shares))  # d_1 if they fall
            error = most * quotient.error_units(j) * length + sum(map(abs, sums)) + len(sums)
            error += quotient.error_units(j) * length * len(sums)
            places = quotient.places(j) + finer + self.facts.lattice_bits - self.facts.fraction_bits
            found = rounded_within(total, error, places)
            if found is not None:  # certain to happen: B z is rational
                return found
        raise AssertionError("unreachable")


def running_sums(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Cumulative sums along the last axis, and through how many roundings a term goes at most."""
    rows, length = x.shape
    width = 1 << (length.bit_length() + 1) // 2
    padded = np.zeros((rows, -(-length // width) * width))
    padded[:, :length] = x
    blocks = np.cumsum(padded.reshape(rows, -1, width), axis=2)
    before = np.cumsum(blocks[:, :, -1], axis=1)
    blocks[:, 1:] += before[:, :-1, None]
    return blocks.reshape(rows, -1)[:, :length], width + blocks.shape[1] + 1


def mixture_of_powers(count: int) -> tuple[list[tuple[float, float]], Floats]:
    """Coefficients a_0 .. a_(count - 1) of sqrt(1 - x), from j = 2 on as sums of w x^(j - 1).

    a_j is -1/pi times the integral over (0, 1) of x^(j - 3/2) sqrt(1 - x), by the trapezoidal rule
    in ln(x / (1 - x)).

    Returns:
        Pairs (x, w), and the coefficients.

    >>> mixture_of_powers(5)[1].round(5).tolist()
    [1.0, -0.5, -0.125, -0.0625, -0.03906]
    """
    step = 0.75
    y = np.arange(-9.0, math.log(count) + 13.0, step)
    powers, rest = 1 / (1 + np.exp(-y)), 1 / (1 + np.exp(y))
    mixture = -step / math.pi * rest**1.5 * powers**0.5
    # Errors would add up over the steps, were these not the coefficients of one series with the
    # sum that those of sqrt(1 - x) have.
    rule = list(zip(powers.tolist(), mixture.tolist(), strict=True))
    a = np.zeros(count)
    for power, weight in rule:
        seen = powers_of(power, count - 1)
        a[1 : 1 + len(seen)] += weight * seen
    a[0] = 1.0
    a[1] = square_root_coefficients(count)[-1] - 1.0 - a[2:].sum()
    return rule, a


def variances_of_long_rows(d: Floats, q: Floats) -> Floats:
    """Squared norms of the rows of A D C^-1, C the square root before rounding, by those of nodes.

    With nodes of variances q, which never fall, the variance at t grows by d_t^2 sum over s <= t of
    q_s a_{t-s}^2 and by twice d_t times the sum over s < t of q_s B_{t-1,s} a_{t-s}, a the
    coefficients of sqrt(1 - x). There they stand as a mixture of powers from 2 on; the sums over s
    are convolutions with q. Linear time where q is constant.
    """
    horizon = len(d)
    rule, a = mixture_of_powers(horizon)
    rises = np.diff(q, prepend=0.0)
    starts = np.flatnonzero(rises)
    length = fft_length(horizon)
    of_q = np.fft.rfft(q, length) if len(starts) > 1 else q

    def with_q(x: Floats) -> Floats:
        if len(x) > _SHORT_SERIES and len(starts) > 1:
            return np.asarray(np.fft.irfft(np.fft.rfft(x, length) * of_q, length)[:horizon])
        # From where the variance of nodes rises on, so much more of the running sums.
        sums, found, past = np.cumsum(x), np.zeros(horizon), 0.0
        for start, stop in pairwise([*starts, horizon]):
            rise = rises[start]
            found[start:stop] += past
            some = found[start : start + len(x)]
            some += rise * (sums[: len(some)] - sums[-1])
            found[start:stop] += rise * sums[-1]
            past += rise * sums[-1]
        return found

    cross = np.zeros(horizon)
    cross[1:] = (a[1] - sum(weight for _, weight in rule)) * (d * q)[:-1]
    for power, weight in rule:
        seen = powers_of(power, horizon)
        cross[1:] += weight * discounted_sums(d * with_q(a[: len(seen)] * seen), power)[:-1]
    return np.cumsum(2 * d * cross + d**2 * with_q(a**2))


def discounted_sums(x: Floats, power: float) -> Floats:
    """Running sums of positive numbers, all that came before multiplied by ``power`` at each step.

    Block by block, such that no power in a block leaves float64, and that one block further on
    nothing of it is left.

    >>> discounted_sums(np.array([8.0, 0.0, 1.0]), 0.5).tolist()
    [8.0, 4.0, 3.0]
    """
    width = min(max(2, int(-300 / math.log(power))), len(x))
    powers = np.full(width, power)
    powers[0] = 1.0
    np.cumprod(powers, out=powers)
    blocks = np.zeros((-(-len(x) // width), width))
    blocks.reshape(-1)[: len(x)] = x
    blocks /= powers
    np.cumsum(blocks, axis=1, out=blocks)
    blocks *= powers
    blocks[1:] += blocks[:-1, -1:] * (powers * power)
    return blocks.reshape(-1)[: len(x)]


def powers_of(power: float, count: int) -> Floats:
    """1, x, x^2, ..: this many, or as far as they have not vanished."""
    powers = np.full(min(count, 8 + int(-40 / math.log(power))), power)
    powers[:1] = 1.0
    return np.cumprod(powers, out=powers)

"""The square-root factorisation: A = C C, apart from rounding the entries of C.

Fichtenberger, Henzinger and Upadhyay, "Constant matters: fine-grained error bound on differentially
private continual observation", sections 3-4: C is Toeplitz with first column f(k) = C(2k,k) / 4^k.
Here C is rounded to multiples of 2^-18 (long streams: 2^-20). So private measurements C x + z are
multiples of it too, and the sensitivity is an exact rational number. B = A C^-1 then gives B C = A
exactly.

Errors of the paper that concern safety: it draws z anew at every step, which an observer can
average away; here z is drawn once. Its Psi(T) = 1 + ln((4T-3)/5)/pi (eq. 4) is below the true
squared sensitivity for every T; here the exact sum is used.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import count, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError, SumOverflowError
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule, Structure
from counton.strategies.rounding import OFFSET, rounded_within
from counton.strategies.strategy import (
    Metric,
    Node,
    NodeNoise,
    Steps,
    StrategyFacts,
    StrategyReleaseForm,
    StreamStrategy,
    check_metric,
    check_step,
    check_window,
    window_ends,
)
from counton.strategies.streams.inverse_root import BoundedSeries, inverse_near_root, inverse_root
from counton.strategies.streams.power_series import (
    DIGIT_BITS,
    LEADING_BITS,
    PrefixQuotient,
    balanced_digits,
    convolve,
    exact_convolution,
    exact_dot,
    fft_length,
    relative_slack,
)

if TYPE_CHECKING:
    from counton.base.arrays import Floats, Integers

#: Longest series for which intermediate values are proven to fit int64.
LARGEST_HORIZON = 2**24

#: C is rounded to multiples of 2^-18; above this horizon to multiples of 2^-20.
_LONGEST_COARSE_HORIZON = 2**19

#: Beyond this horizon the mean and largest variance are computed without a Fourier transform.
_LONGEST_TRANSFORMED_HORIZON = 2**17

#: Numbers transformed at a time (steps times coordinates), so that they stay in the processor's
#: cache.
_NUMBERS_PER_TRANSFORM = 2**16

#: Smallest number of first coefficients of an inverse that are computed alone.
_FEWEST_FIRST_COEFFICIENTS = 2**14

#: Coefficients computed at once.
_COEFFICIENTS_AT_ONCE = 2**14

#: Inner products of columns with signs are computed up to this many products of two entries.
_MOST_PRODUCTS = 2**28

#: Bits of the digits of noise whose products with multiples of 2^-_CLOSE_BITS are exact; long
#: series have coarser multiples, down to 2^-_FEWEST_CLOSE_BITS.
_NOISE_DIGIT_BITS = 12
_CLOSE_BITS = 18
_FEWEST_CLOSE_BITS = 8

#: Bits of the second digit of a reciprocal weight.
_SHARE_BITS = 40

#: Windows up to this many steps are summed directly: cheaper than a transform.
_LONGEST_DIRECT_WINDOW = 16


def square_root_coefficients(count: int) -> NDArray[np.float64]:
    """Return the first ``count`` coefficients of 1 / sqrt(1 - x): (2k choose k) / 4^k.

    >>> square_root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    f = np.ones(count)
    for start in range(1, count, _COEFFICIENTS_AT_ONCE):
        k = np.arange(start, min(start + _COEFFICIENTS_AT_ONCE, count), dtype=np.float64)
        # Each step takes one rounded division and one rounded product, in order, so bits are equal
        # on every processor.
        f[start : start + _COEFFICIENTS_AT_ONCE] = np.cumprod(
            np.append(f[start - 1], (2 * k - 1) / (2 * k))
        )[1:]
    return f


def square_root_sensitivity(horizon: int) -> float:
    """Return the squared 2-norm sensitivity of the unrounded square root for a horizon.

    Source: "Constant matters", section 3, Psi*: the sum over k < T of the squares of
    `square_root_coefficients`. Erratum: its eq. (4) is below this sum for every T, and would add
    too little noise.

    >>> f"{square_root_sensitivity(10):.10f}"
    '1.7913439416'
    """
    # Eq. (4) has (4T - 3) / 5 instead of (4T - 1) / 3.
    return math.fsum(square_root_coefficients(_checked_horizon(horizon)) ** 2)


def _checked_horizon(horizon: int) -> int:
    horizon = check_integer("horizon", horizon, 1)
    if horizon > LARGEST_HORIZON:
        raise InvalidInputError(
            f"horizon of the square-root factorisation is {horizon}; it must be at most 2^24: use "
            f"a tree strategy such as KAry for longer streams"
        )
    return horizon


def by_blocks(
    field: NodeNoise,
    steps: range,
    write: Callable[[NDArray[np.int64], range, NDArray[np.int64]], None],
    *,
    few: bool,
) -> NDArray[np.int64]:
    """Return the noise of releases, for some coordinates at a time to save memory.

    ``write(z, steps, out)`` computes it from the noise z, (nodes, coordinates), of nodes 1, 2, ...
    into ``out``, (len(steps), coordinates). If it needs no Fourier transform (``few``), more are
    computed together.
    """
    released = np.empty((len(steps), math.prod(field.shape)), dtype=np.int64)
    if released.size:
        z = field.run(0, range(1, steps.stop)).reshape(steps.stop - 1, -1)
        width = max(1, _NUMBERS_PER_TRANSFORM // (len(z) if few else fft_length(len(z))))
        for start in range(0, z.shape[1], width):
            part = slice(start, start + width)
            write(z[:, part], steps, released[:, part])
    return released.reshape(len(steps), *field.shape)


def floor_all(
    cells: Floats, guard: Floats, released: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Write floors of ``cells``, transposed, and yield places that ``guard`` makes uncertain."""
    low = np.floor(cells - guard)
    released[:] = low.astype(np.int64).T
    for column, row in zip(*np.nonzero(low != np.floor(cells + guard)), strict=True):
        yield row, column


class CloseSums(NamedTuple):
    """Sums B z in two parts: whole * 2^-bits + rest.

    Attributes:
        whole: the large part, exact integers.
        bits: their fraction bits.
        rest: the small part.
        error: bound on the error of each sum.
    """

    whole: Integers
    bits: int
    rest: Floats
    error: float


class RootSeries:
    """The matrix square root C of totals A, rounded to multiples of ``2**-bits``, and B = A C^-1.

    Both are lower triangular Toeplitz matrices, described by the coefficients of their first
    columns.
    """

    def __init__(self, count: int, bits: int) -> None:
        self.count = count
        self.bits = bits
        self._exact_row: list[int] = []  # entry k is b_k * 2^(bits * k), an integer
        #: The length of the last Fourier transform of the first column of B, and this transform.
        self._kept: tuple[int, NDArray[np.complex128]] | None = None
        self._computed_inverse: BoundedSeries | None = None

    @cached_property
    def numerators(self) -> NDArray[np.int64]:
        """First column of C in units of ``2^-bits``: int64 of length ``count``."""
        # The array changes in place, as others of all steps: each takes 8 MB for a million steps.
        units = square_root_coefficients(self.count)
        units *= 2.0**self.bits
        return np.rint(units, out=units).astype(np.int64)

    @cached_property
    def quotient(self) -> PrefixQuotient:
        """The first column of B, whose entries can be computed to any precision."""
        return PrefixQuotient(self.numerators, self.bits)

    def row(self, number: int) -> list[Fraction]:
        """Return the first ``number`` entries of B's first column, exactly, in quadratic time.

        >>> RootSeries(3, 18).row(3)
        [Fraction(1, 1), Fraction(1, 2), Fraction(3, 8)]
        """
        p = self.bits
        exact_row = self._exact_row
        c = [int(v) for v in self.numerators[: max(1, number)]]
        for k in range(len(exact_row), number):
            # c * b = 1 + x + x^2 + ..., multiplied through by 2^(p k).
            spent = sum(c[i] * exact_row[k - i] << p * (i - 1) for i in range(1, k + 1))
            exact_row.append((1 << p * k) - spent)
        return [Fraction(exact_row[k], 1 << p * k) for k in range(number)]

    #: The error bound of the floats that decide how a release is rounded.
    _slack = staticmethod(relative_slack)

    def sums(self, reals: Floats, few: Sequence[int] | None = None) -> tuple[Floats, Floats]:
        """Return B z in float64, (coordinates, releases), and a bound on its error by coordinate.

        Args:
            reals: noise z of nodes 1, 2, ..., integers in float64, shape (coordinates, nodes).
            few: the steps whose releases are computed; default: all, by a Fourier transform.
        """
        nodes = reals.shape[1]
        inverse = self.first_inverse(nodes)
        b = inverse.coefficients
        if few is not None:
            backwards = b[nodes - 1 :: -1].copy()  # BLAS needs it contiguous
            sums = np.stack([reals[:, :t] @ backwards[nodes - t :] for t in few], axis=1)
            slack = (nodes + 2) * 2.0**-53
        else:
            length = fft_length(nodes)
            kept = self._kept  # another thread may replace it meanwhile
            if kept is None or kept[0] != length:
                kept = self._kept = (length, np.fft.rfft(b[: length // 2], length))
            sums = np.fft.irfft(kept[1] * np.fft.rfft(reals, length), length)[:, :nodes]
            slack = self._slack(length)
        # Rounding z and b to float64 adds 2^-53 each; the error of b is multiplied by |z|_2.
        error_of_b = inverse.error
        norms = 1.001 * np.linalg.norm(reals, axis=1)
        if norms.max() >= 2.0**60 or np.abs(reals).max() >= 2.0**52:
            raise SumOverflowError(
                "the noise of a square root is too large for its exact sums (2^52 in one node, or "
                "2^60 in all): give a larger epsilon, rho or resolution"
            )
        return sums, norms * ((slack + 2.0**-51) * 1.001 * float(np.linalg.norm(b)) + error_of_b)

    def last_sum(self, z: Integers) -> tuple[int, int]:
        """Return the last entry of B z and a bound on its error, both in units of 2^-LEADING_BITS.

        The product is exact, so this error is far smaller than that of `sums`.

        Args:
            z: noise of nodes 1, 2, ..., integers.
        """
        count = len(z)
        inverse = self.first_inverse(count)
        b = np.rint(np.ldexp(inverse.coefficients[:count], LEADING_BITS)).astype(np.int64)
        error = inverse.error * 2.0**LEADING_BITS + math.sqrt(count)  # rounded to integers
        norm = math.sqrt(np.square(z.astype(np.float64)).sum())
        return exact_dot(b, z[::-1]), math.ceil(1.001 * error * norm)

    def close_sums(self, z: Integers) -> CloseSums | None:
        """Return all entries of B z, with errors that are far smaller than those of `sums`.

        B is split into multiples of a power of two, whose products with digits of z are exact, and
        a small rest. None: z is too large for that.

        Args:
            z: noise of nodes 1, 2, ..., integers below 2^52 in magnitude.
        """
        count = len(z)
        length = fft_length(count)
        slack = self._slack(length)
        inverse = self.first_inverse(count)
        b = inverse.coefficients[:count]
        norm = float(np.linalg.norm(z.astype(np.float64)))
        number = -(-(int(np.abs(z).max()).bit_length() + 1) // _NOISE_DIGIT_BITS)
        digits = balanced_digits(z, _NOISE_DIGIT_BITS, number)
        largest = max(float(np.linalg.norm(digit.astype(np.float64))) for digit in digits)
        for bits in range(_CLOSE_BITS, _FEWEST_CLOSE_BITS, -1):
            multiples = np.rint(np.ldexp(b, bits))
            norm_of_multiples = 1.001 * float(np.linalg.norm(multiples))
            is_certain = slack * norm_of_multiples * largest < 0.25
            if is_certain and norm_of_multiples * norm < 2.0**62:
                break
        else:
            return None
        spectrum = np.fft.rfft(multiples, length)
        whole = np.zeros(count, np.int64)
        for place, digit in enumerate(digits):
            product = np.fft.irfft(spectrum * np.fft.rfft(digit, length), length)[:count]
            whole += np.rint(product).astype(np.int64) << place * _NOISE_DIGIT_BITS
        small = b - np.ldexp(multiples, -bits)
        rest = np.fft.irfft(np.fft.rfft(small, length) * np.fft.rfft(z, length), length)[:count]
        error = slack * float(np.linalg.norm(small)) + inverse.error
        return CloseSums(whole, bits, rest, 1.001 * error * norm)

    @property
    def inverse(self) -> BoundedSeries:
        """First column of B in float64, with a proven bound on its error."""
        return self.first_inverse(self.count)

    def first_inverse(self, count: int) -> BoundedSeries:
        """Return at least the first ``count`` entries of B's first column, and their error bound.

        A run at the beginning of a long stream needs no others.

        Args:
            count: number of entries, up to that of C.
        """
        inverse = self._computed_inverse  # another thread may replace it meanwhile
        if inverse is None or len(inverse.coefficients) < count:
            number = min(max(_FEWEST_FIRST_COEFFICIENTS, 1 << (count - 1).bit_length()), self.count)
            inverse = inverse_root(self.numerators[:number], self.bits)
            if inverse is None:  # a subclass with other numerators
                digits = self.quotient.digit(0)
                error = self.quotient.error_units(0) * 2.0**-LEADING_BITS * math.sqrt(self.count)
                coefficients = np.ldexp(digits.astype(np.float64), -LEADING_BITS)
                inverse = BoundedSeries(coefficients, error)
            self._computed_inverse = inverse
        return inverse


class RootStrategy(StreamStrategy):
    """A strategy whose matrix is the square root of totals, with column i divided by d_i.

    The weights 1 / d_i are integers in units of ``2**-weight_bits``.

    With s the noise of releases without weights, the noise of release t is d_t s_t plus the sum
    over i < t of (d_i - d_{i+1}) s_i. It is rounded *correctly* to multiples of
    ``2^-fraction_bits``: by Fourier transforms with a proven error bound and, if two values remain,
    by integer arithmetic. So a release is one definite function of C x + z, for every processor,
    length of the transform and window.

    Args:
        series_bits: fraction bits of C before weights.
        weight_bits: fraction bits of weights; 0: all weights are 1.
    """

    horizon: int

    def __init__(self, horizon: int, series_bits: int, weight_bits: int = 0) -> None:
        self.horizon = horizon
        self.weight_bits = weight_bits
        self.root = RootSeries(horizon, series_bits)
        self.facts = StrategyFacts(
            lattice_bits=series_bits + weight_bits,
            fraction_bits=10,
            local=False,
            causal=True,
            unit_columns=False,
        )

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """Weights of the columns, in units of 2^-weight_bits; they never decrease."""
        return np.ones(self.horizon, np.int64)

    def column(self, step: int) -> tuple[Node, ...]:
        """Return the nodes of ``step`` and of all later steps."""
        step = check_step(self, step)
        unit = 1 << self.facts.lattice_bits
        weight = int(self.weights[step - 1])
        values = self.root.numerators[: self.horizon - step + 1]
        return tuple(
            Node(0, step + k, Fraction(weight * int(v), unit)) for k, v in enumerate(values)
        )

    @override
    def _level_widths(self) -> dict[int, int]:
        return {0: self.horizon + 1}  # nodes are numbered from 1

    @property
    def _squares(self) -> NDArray[np.int64]:
        """Squared 2-norms of the last 1, 2, ... columns before weights, in 4^-series_bits."""
        squares = np.square(self.root.numerators)
        return np.cumsum(squares, out=squares)

    def l1_sensitivity(self) -> Fraction:
        # Entries may be negative in subclasses.
        lengths = np.abs(self.root.numerators)
        lengths = np.cumsum(lengths, out=lengths)[::-1]
        lengths *= self.weights
        return Fraction(int(lengths.max()), 1 << self.facts.lattice_bits)

    def squared_sensitivity(self) -> Fraction:
        norms = np.square(self.weights)
        norms *= self._squares[::-1]
        largest = int(norms.max())
        return Fraction(largest, 4**self.facts.lattice_bits)

    @property
    @abstractmethod
    def _variances(self) -> Floats:
        """Variances of all releases: shape ``(horizon,)``."""

    def overall_variance(self, metric: Metric, of: StrategyReleaseForm = "totals") -> float:
        check_metric(metric)
        if of == "windows":
            return super().overall_variance(metric, of)
        mean, largest = self._mean_and_largest
        return largest if metric == "max" else mean

    @cached_property
    def _mean_and_largest(self) -> tuple[float, float]:
        """The mean and the largest of the variances of all releases."""
        return float(self._variances.mean()), float(self._variances.max())

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """Return the correctly rounded noise, in time O(stop log stop) per coordinate."""
        return by_blocks(field, check_window(self, steps), self._round, few=self._are_few(steps))

    def _are_few(self, steps: range) -> bool:
        """Return whether direct sums at ``steps`` cost less than a Fourier transform of all."""
        return not self.weight_bits and len(steps) <= _LONGEST_DIRECT_WINDOW

    def _round(self, z: NDArray[np.int64], steps: range, released: NDArray[np.int64]) -> None:
        """Write floor(2^fraction_bits s + `OFFSET`) of the exact noise s into ``released``."""
        few = self._are_few(steps)
        reals = np.ascontiguousarray(z.T, dtype=np.float64)
        total, error = self.root.sums(reals, steps if few else None)
        if self.weight_bits:
            # d_t and d_i - d_(i+1): their magnitudes bound how errors of s add up.
            w = self.weights[: len(z)].astype(np.float64)
            shares = 2.0**self.weight_bits / w
            falls = 2.0**self.weight_bits * np.diff(w) / (w[1:] * w[:-1])  # two roundings
            before, depth = running_sums(falls * total[:, :-1])
            largest = float((np.append(0.0, np.cumsum(np.abs(falls))) + shares).max())
            largest_sums = np.abs(total).max(axis=1) + error
            error = largest * 1.001 * (error + largest_sums * (depth + 8) * 2.0**-53)
            total = shares * total + np.pad(before, ((0, 0), (1, 0)))
        if not few:
            total = total[:, steps.start - 1 : steps.stop - 1]
        cell = 2.0 ** (self.facts.fraction_bits - self.facts.lattice_bits)
        cells = total * cell + OFFSET
        guard = (cell * error)[:, None] + (1 + np.abs(cells)) * 2.0**-50
        uncertain = list(floor_all(cells, guard, released))
        for column in sorted({column for _, column in uncertain}):
            rows = [row for row, uncertain_column in uncertain if uncertain_column == column]
            close = (
                self.root.close_sums(z[: steps[max(rows)], column]) if self.weight_bits else None
            )
            for row in rows:
                rounded = None if close is None else self._rounded_close(close, steps[row])
                if rounded is None:
                    rounded = self._decide(z[: steps[row], column])
                released[row, column] = rounded

    def _rounded_close(self, sums: CloseSums, step: int) -> int | None:
        """Return the rounded noise of one release; None if its error leaves two values.

        Args:
            sums: noise of the releases without weights.
            step: step of the release.
        """
        weights = self.weights[:step]
        # 1 / weight in two digits: multiples of 2^-62, then of 2^-(62 + _SHARE_BITS).
        first = (1 << LEADING_BITS) // weights
        second = ((1 << LEADING_BITS) % weights << _SHARE_BITS) // weights
        whole = sums.whole[:step]
        total = exact_dot(-np.diff(first, append=0), whole) << _SHARE_BITS
        total += exact_dot(-np.diff(second, append=0), whole)
        places = LEADING_BITS + _SHARE_BITS + sums.bits - self.weight_bits

        shares = 2.0**self.weight_bits / weights
        falls = -np.diff(shares, append=0.0)
        rest = sums.rest[:step]
        total += int(math.ldexp(float(falls @ rest), places))
        sizes = np.abs(rest)
        # Each of these products and sums is rounded, and so are both shares in a fall.
        float_error = (step + 8) * 2.0**-53 * float(np.abs(falls) @ sizes)
        float_error += 2.0**-51 * float(shares.max()) * float(sizes.sum())
        error_of_sums = float(np.abs(falls).sum()) * sums.error
        error = math.ceil(math.ldexp(1.001 * (float_error + error_of_sums), places)) + 1
        error += math.ceil(1.001 * float(np.abs(whole).astype(np.float64).sum()))
        return rounded_within(total, error, places + self._rounded_bits)

    @property
    def _rounded_bits(self) -> int:
        """How many fraction bits measurements have, and releases have not."""
        return self.facts.lattice_bits - self.facts.fraction_bits

    def _decide(self, z: NDArray[np.int64]) -> int:
        """Return the rounded noise of one number, with more digits until rounding is certain."""
        if not self.weight_bits:
            total, error = self.root.last_sum(z)
            rounded = rounded_within(total, error, LEADING_BITS + self._rounded_bits)
            if rounded is not None:
                return rounded
        quotient = self.root.quotient
        length = exact_dot(np.abs(z), np.ones_like(z))
        # If all weights are 1, only the last s is needed.
        weights = [int(w) for w in self.weights[: len(z)]] if self.weight_bits else [1]
        sums = [0] * len(weights)
        for j in count():
            digit = quotient.digit(j)
            added = [exact_dot(digit[: len(z)], z[::-1])]
            if self.weight_bits:
                added = exact_convolution(digit, z)
            sums = [(s << (DIGIT_BITS if j else 0)) + a for s, a in zip(sums, added, strict=True)]
            finer = quotient.places(j) + 64
            shares = [(1 << finer + self.weight_bits) // w for w in weights]
            total = shares[-1] * sums[-1]
            total += sum((a - b) * s for a, b, s in zip(shares, shares[1:], sums, strict=False))
            # The integers d_i are too small by less than 1, and the error of their differences is
            # less than 1.
            most = shares[-1] + sum(abs(a - b) for a, b in pairwise(shares))  # d_1 if they fall
            error = most * quotient.error_units(j) * length + sum(map(abs, sums)) + len(sums)
            error += quotient.error_units(j) * length * len(sums)
            places = quotient.places(j) + finer + self._rounded_bits
            rounded = rounded_within(total, error, places)
            if rounded is not None:  # it ends, because B z is rational
                return rounded
        raise AssertionError("unreachable")


def is_falling(series: Integers) -> bool:
    """Return whether the entries of a series never increase, and none is negative.

    >>> is_falling(np.array([4, 2, 2, 0])), is_falling(np.array([4, 2, -1]))
    (True, False)
    """
    return bool(series[-1] >= 0 and (np.diff(series) <= 0).all())


def signed_overlaps(series: Integers, weights: Integers, schedule: Schedule) -> list[int]:
    """Return bounds on inner products of columns j times ``schedule.apart`` apart, j from 1.

    Column i is the Toeplitz column of ``series``, cut at the horizon, times ``weights[i]``. Entries
    of the series may be negative or increase. Each bound holds for all larger distances too.

    >>> signed_overlaps(np.array([2, -1]), np.array([1, 1]), Schedule(2, 1, fixed=False))
    [2]
    """
    horizon = len(weights)
    lags = range(schedule.apart, schedule.apart * schedule.steps, schedule.apart)
    support = int(np.flatnonzero(series)[-1]) + 1  # columns further apart have no common node
    if support * horizon > _MOST_PRODUCTS:
        most = int((np.cumsum(series**2)[::-1] * weights**2).max())
        return [most] * len(lags)
    bounds = [0] * (support + 1)
    for lag in reversed(range(1, support)):
        products = np.abs(np.cumsum(series[: horizon - lag] * series[lag:]))[::-1]
        largest = int((products * (weights[lag:] * weights[: horizon - lag])).max())
        bounds[lag] = max(bounds[lag + 1], largest)
    return [bounds[min(lag, support)] for lag in lags]


def running_sums(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Return running sums along the last axis, and how often a summand is rounded at most."""
    rows, length = x.shape
    width = 1 << (length.bit_length() + 1) // 2
    padded = np.zeros((rows, -(-length // width) * width))
    padded[:, :length] = x
    blocks = np.cumsum(padded.reshape(rows, -1, width), axis=2)
    before = np.cumsum(blocks[:, :, -1], axis=1)
    blocks[:, 1:] += before[:, :-1, None]
    return blocks.reshape(rows, -1)[:, :length], width + blocks.shape[1] + 1


class SqrtToeplitz(RootStrategy):
    """Square-root factorisation with rounded entries: very small error with Gaussian noise.

    The squared 2-norm sensitivity and the variance at the last step T, in units of one node's noise
    variance, are both about ln(T) / pi + 1.066.

    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", Theorems 1 and 2. Releases
    are rounded correctly: see `RootStrategy`.

    Args:
        horizon: number of steps, from 1 to 2^24.

    Raises:
        InvalidInputError: a horizon outside that range.

    >>> strategy = SqrtToeplitz(1000)
    >>> round(float(strategy.squared_sensitivity()), 4), strategy.variance([1, 1000]).round(4)
    (3.265, array([1.   , 3.265]))
    """

    sources = ("constants",)

    def __init__(self, horizon: int) -> None:
        # Rounding C costs below 1e-6 of the variance; fewer bits leave room for more noise.
        super().__init__(
            _checked_horizon(horizon), 18 if horizon <= _LONGEST_COARSE_HORIZON else 20
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Return the nodes 1 to ``step``, in quadratic time.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        coefficients = self.root.row(check_step(self, step))
        return tuple(Node(0, k, b) for k, b in enumerate(reversed(coefficients), start=1))

    @property
    @override
    def structure(self) -> Structure:
        """Facts about C: Toeplitz, with a first column that decreases, also after rounding."""
        series = self.root.numerators
        if not is_falling(series):
            return Structure(overlaps=self._overlaps)
        return Structure(falling_series=series, aligned=lambda: True)

    def _overlaps(self, schedule: Schedule) -> list[int]:
        """Return bounds on inner products of columns j times ``schedule.apart`` apart, j from 1."""
        return signed_overlaps(self.root.numerators, self.weights, schedule)

    @cached_property
    @override
    def _variances(self) -> Floats:
        """Variances of all releases; the last is the largest."""
        return np.cumsum(self.root.inverse.coefficients**2)

    @cached_property
    @override
    def _mean_and_largest(self) -> tuple[float, float]:
        near = inverse_near_root(self.root.numerators, self.root.bits)
        if self.horizon <= _LONGEST_TRANSFORMED_HORIZON or near is None:
            return super()._mean_and_largest
        squares = near**2
        releases = np.arange(self.horizon, 0, -1)  # in which each node is
        return float(squares @ releases) / self.horizon, float(squares.sum())

    def variance(self, steps: Steps, since: Steps | None = None) -> NDArray[np.float64]:
        """Return the variances of releases, or of their differences.

        The time is that of the horizon, times the number of different lengths of windows or of
        different starts, whichever is smaller.

        Args:
            steps: one step or an array of steps, from 1 on.
            since: steps from 0 on, broadcast with ``steps``, after which each sum begins. Default:
                the variance of the releases themselves.
        """
        first, last = window_ends(self, steps, since)
        squares = np.concatenate([[0.0], self._variances])
        variance = np.asarray(squares[last - first])  # nodes that only the later total uses
        both = (first > 0) & (last > first)
        s = first[both]
        d = (last - first)[both]
        if s.size:
            one_by_one = (
                self._by_length if len(np.unique(d)) <= len(np.unique(s)) else self._by_start
            )
            variance[both] += one_by_one(s, d)
        return variance

    def _by_length(self, s: NDArray[np.int64], d: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the sums over j < s of (b_{j+d} - b_j)^2, in one pass for each different d."""
        b = self.root.inverse.coefficients
        variances = np.empty(len(s))
        for length in np.unique(d):
            some = d == length
            most = int(s[some].max())
            sums = np.cumsum((b[length : length + most] - b[:most]) ** 2)
            variances[some] = sums[s[some] - 1]
        return variances

    def _by_start(self, s: NDArray[np.int64], d: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the sums over j < s of (b_{j+d} - b_j)^2, by a correlation for each s."""
        b = self.root.inverse.coefficients
        variances = np.empty(len(s))
        squares = np.concatenate([[0.0], self._variances])
        for start in np.unique(s):
            some = s == start
            stop = int(start + d[some].max())
            products = convolve(b[:start][::-1], b[:stop], stop)[start - 1 :]
            ahead = squares[start + d[some]] - squares[d[some]]
            variances[some] = ahead + squares[start] - 2 * products[d[some]]
        return variances

"""The square-root factorisation, A = C C up to rounding C to a lattice; and with unit columns.

Fichtenberger, Henzinger and Upadhyay, "Constant matters: fine-grained error bound on differentially
private continual observation", sections 3-4: C is Toeplitz with first column f(k) = C(2k,k) / 4^k.
Here C is rounded to multiples of 2^-18 (long streams: 2^-20), so that private measurements C x + z
lie on a lattice and the sensitivity is an exact rational; B = A C^-1 then makes B C = A exactly.

Safety errata: the paper draws z anew in every round, which an observer averages away; z is drawn
once here. Its Psi(T) = 1 + ln((4T-3)/5)/pi (eq. 4) is below the true squared sensitivity for every
T; the exact sum is used here.

`NormalisedSqrt` divides the columns of C by their norms. Later columns are shorter, so that early
items alone need the noise of the square root: C' = C D^-1 gives all items the same protection, and
less error: Henzinger, Kalinin and Upadhyay, "Normalized square root: sharper matrix factorization
bounds for differentially private continual counting" (arXiv 2509.14334).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput, SumOverflow
from counton.exact import check_integer
from counton.strategies.base import (
    Metric,
    Node,
    NodeNoise,
    Norm,
    Steps,
    StreamStrategy,
    check_metric,
)
from counton.strategies.participation import Schedule

if TYPE_CHECKING:
    from counton.arrays import Floats, Integers

#: Error of a convolution by FFT per doubling of its length, in units of 2^-53 * |x|_2 * |y|_2.
#: Percival, "Rapid multiplication modulo the sum and difference of highly composite numbers"
#: (Math. Comp. 72, 2003), Theorem 5.1, proves 13 for twiddle factors good to half a unit; the rest
#: is reserve for other radices and less accurate twiddles.
SLACK = 32

#: Bits each further digit adds to a fixed-point series; float64 convolutions of length 2^23 still
#: find such a digit to within a fraction of its last place.
DIGIT_BITS = 30

#: Bits behind the point of the first digit: coefficients up to 1 fit int64.
LEADING_BITS = 62

#: Streams in several threads may share one strategy, hence one series.
_GROWING = threading.Lock()


def fft_length(count: int) -> int:
    """Power of two long enough that the first ``count`` coefficients of a product do not wrap."""
    return 1 << (2 * count - 1).bit_length()


def relative_slack(length: int) -> float:
    """Bound on |error of one coefficient| / (|x|_2 |y|_2) of an FFT convolution of that length."""
    return SLACK * max(1, length.bit_length()) * 2.0**-53


def convolve(x: Floats, y: Floats, count: int) -> Floats:
    """First ``count`` coefficients of the product, in float64, within ``relative_slack``.

    >>> convolve(np.array([1.0, 2.0]), np.array([1.0, 1.0]), 2).round(9).tolist()
    [1.0, 3.0]
    """
    length = fft_length(count)
    spectrum = np.fft.rfft(x[:count], length) * np.fft.rfft(y[:count], length)
    return np.fft.irfft(spectrum, length)[:count]


def reciprocal(x: Floats, count: int) -> Floats:
    """First ``count`` coefficients of 1/x in float64 (Newton); x[0] must not be 0.

    >>> reciprocal(np.array([1.0, -1.0]), 4).round(9).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    inverse = np.array([1.0 / x[0]])
    while len(inverse) < count:
        known = min(2 * len(inverse), count)
        correction = -convolve(x, np.pad(inverse, (0, known - len(inverse))), known)
        correction[0] += 2.0
        inverse = convolve(correction, np.pad(inverse, (0, known - len(inverse))), known)
    return inverse


def balanced_digits(x: Integers, bits: int, number: int) -> list[Integers]:
    """Digits d_j in [-2^(bits-1), 2^(bits-1)) with x = sum of d_j 2^(bits j); |x| <= 2^62."""
    digits = []
    half = 1 << (bits - 1)
    for _ in range(number - 1):
        digit = ((x + half) & (2 * half - 1)) - half
        digits.append(digit)
        x = (x - digit) >> bits
    return [*digits, x]


def exact_dot(x: Integers, y: Integers) -> int:
    """Exact sum of x * y for entries up to 2^62 and at most 2^22 of them.

    >>> exact_dot(np.array([2**60, 1]), np.array([2**40, -3]))
    1267650600228229401496703205373
    """
    # |digits| <= 2^20, so 2^22 products stay within int64.
    xs, ys = balanced_digits(x, 21, 3), balanced_digits(y, 21, 3)
    return sum(
        int(np.dot(a, b)) << 21 * (i + j) for i, a in enumerate(xs) for j, b in enumerate(ys)
    )


def convolve_modulo(x: Integers, y: Integers, count: int) -> Integers:
    """First ``count`` coefficients of the product modulo 2^64, exactly; |x|, |y| <= 2^62.

    Both are cut into digits so short that every float64 convolution is certain to round to the
    right integer.
    """
    length = fft_length(count)
    widths = [int(np.abs(v[:count]).max(initial=0)).bit_length() + 1 for v in (x, y)]
    bits = 1
    while _digit_error(length, count, bits + 1) < 0.25:
        bits += 1
    of_x, of_y = (-(-width // bits) for width in widths)
    spectra = [np.fft.rfft(d, length) for d in balanced_digits(x[:count], bits, of_x)]
    total = np.zeros(count, dtype=np.int64)
    pending: list[NDArray[np.complex128]] = []
    digits = balanced_digits(y[:count], bits, of_y)
    for place in range(len(digits) + of_x - 1):
        if place * bits >= 64:
            break
        if place < len(digits):
            spectrum = np.fft.rfft(digits[place], length)
            products = [s * spectrum for s in spectra]
            pending = [a + b for a, b in zip(pending, products, strict=False)] + products[
                len(pending) :
            ]
        coefficients = np.rint(np.fft.irfft(pending.pop(0), length)[:count]).astype(np.int64)
        total += coefficients << (place * bits)
    return total


def _digit_error(length: int, count: int, bits: int) -> float:
    """Bound on the error of a sum of all digit convolutions that share a place."""
    shared = -(-64 // bits)
    return shared * relative_slack(length) * count * 4.0 ** (bits - 1)


class PrefixQuotient:
    """The series b = 1 / ((1 - x) c) for c = numerators / 2^bits with c[0] = 1, to any precision.

    Digit j approximates b as sum of ``digit(i) * 2^-places(i)`` over i <= j, every coefficient
    within ``error_units(j) * 2^-places(j)``. The bound is proven after the fact: the residual of
    ``c b = 1 / (1 - x)`` is computed exactly, and an error is the residual over c.
    """

    def __init__(self, numerators: Integers, bits: int) -> None:
        self._numerators = numerators
        self._bits = bits
        self._series = numerators / 2.0**bits
        count = len(numerators)
        self.approximate: Floats = reciprocal(np.diff(self._series, prepend=0.0), count)
        self._digits: list[Integers] = []
        self._error_units: list[int] = []
        self._residual: Integers = np.zeros(0, dtype=np.int64)
        self._inverse_norm = 0.0

    @staticmethod
    def places(j: int) -> int:
        """Bits behind the point of digit j."""
        return LEADING_BITS + DIGIT_BITS * j

    def digit(self, j: int) -> Integers:
        """Digit j of every coefficient (int64); computed when first asked for."""
        if len(self._digits) <= j:
            with _GROWING:
                while len(self._digits) <= j:
                    self._next_digit()
        return self._digits[j]

    def error_units(self, j: int) -> int:
        """Bound on |b - its first j + 1 digits|, in units of digit j."""
        self.digit(j)
        return self._error_units[j]

    def _next_digit(self) -> None:
        inverse = np.diff(self.approximate, prepend=0.0)  # of c, since b is its running sum
        if not self._digits:
            self._inverse_norm = self._bound_inverse(inverse)
            digit = np.rint(self.approximate * 2.0**LEADING_BITS).astype(np.int64)
            goal = 2.0 ** (LEADING_BITS + self._bits)
            wrapped = (1 << (LEADING_BITS + self._bits)) % 2**64  # 2^62, 2^63 or 0
            start = np.full(len(digit), wrapped, dtype=np.uint64).astype(np.int64)
            residual = self._subtract(start, np.full(len(digit), goal), digit)
            correction = self._quotient(residual, inverse)
            digit += correction
            residual = self._subtract(residual, residual.astype(np.float64), correction)
        else:
            if float(np.abs(self._residual).max()) >= 2.0 ** (63 - DIGIT_BITS):
                raise ArithmeticError("a residual left the range in which it is known exactly")
            remainder = self._residual << DIGIT_BITS
            digit = self._quotient(remainder, inverse)
            residual = self._subtract(remainder, remainder.astype(np.float64), digit)
        largest = float(np.abs(residual).max(initial=0))
        self._error_units.append(math.ceil(1.01 * self._inverse_norm * largest / 2.0**self._bits))
        self._residual = residual
        self._digits.append(digit)

    def _quotient(self, residual: Integers, inverse: Floats) -> Integers:
        """Nearest integers to residual / (2^bits c), as well as float64 can tell."""
        quotient = convolve(residual / 2.0**self._bits, inverse, len(residual))
        return np.rint(quotient).astype(np.int64)

    def _subtract(self, modulo: Integers, real: Floats, digit: Integers) -> Integers:
        """Minuend - numerators * digit exactly, the minuend known modulo 2^64 and in float64."""
        count = len(digit)
        exact = modulo - convolve_modulo(self._numerators, digit, count)
        factors = self._numerators.astype(np.float64), digit.astype(np.float64)
        approximate: Floats = real - convolve(*factors, count)
        norms = float(np.linalg.norm(factors[0]) * np.linalg.norm(factors[1]))
        error = 1.01 * relative_slack(fft_length(count)) * norms + 2.0**-52 * float(
            np.abs(real).max()
        )
        # Both agree to within 2^62, hence the number known modulo 2^64 is the true one.
        if float(np.abs(exact - approximate).max()) + error >= 2.0**62:
            raise ArithmeticError("a residual left the range in which it is known exactly")
        return exact

    def _bound_inverse(self, inverse: Floats) -> float:
        """Upper bound on |1/c|_1, from an approximation and the residual of c times it."""
        count = len(inverse)
        residual = convolve(self._series, inverse, count)
        residual[0] -= 1.0
        norms = float(np.linalg.norm(self._series) * np.linalg.norm(inverse))
        error = float(np.abs(residual).sum()) + count * relative_slack(fft_length(count)) * norms
        if error >= 0.01:
            raise ArithmeticError("the inverse series is not known well enough")
        return 1.001 * float(np.abs(inverse).sum()) / (1.0 - error)


#: Longest series whose exact arithmetic is proven to stay within int64.
LARGEST_HORIZON = 2**22

#: C is rounded to multiples of 2^-18, beyond this horizon of 2^-20.
_FINER_BEYOND = 2**19

#: Rounding offset in cells: 1/2, moved by a multiple of 1/3 so that no dyadic number is a tie.
_OFFSET = Fraction(1, 2) + Fraction(1, 3 * 2**20)

#: Numbers in one block of transforms (coordinates are taken in blocks), to stay in the cache.
_BLOCK = 2**16

#: Windows up to this many steps are summed directly: cheaper than a transform.
_FEW_STEPS = 16


def square_root_coefficients(count: int) -> NDArray[np.float64]:
    """f(0), ..., f(count - 1): the series of 1 / sqrt(1 - x), f(k) = C(2k, k) / 4^k.

    >>> square_root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    k = np.arange(1.0, count)
    # One rounded division and one rounded product a step, in order: the same bits on any CPU.
    return np.cumprod(np.concatenate([[1.0], (2 * k - 1) / (2 * k)]))


def square_root_sensitivity(horizon: int) -> float:
    """Psi*(T), the squared 2-norm sensitivity of the real square-root factorisation.

    "Constant matters" section 3, the exact sum of f(k)^2 over k < T.

    >>> f"{square_root_sensitivity(10):.10f}"
    '1.7913439416'
    """
    return math.fsum(square_root_coefficients(_checked_horizon(horizon)) ** 2)


def safe_squared_sensitivity(horizon: int) -> float:
    """1 + ln((4T - 1) / 3) / pi: a closed form never below Psi*(T).

    Erratum: eq. (4) of "Constant matters" has (4T - 3) / 5, which is below Psi*(T) for every T and
    would add too little noise.

    >>> safe_squared_sensitivity(10) > square_root_sensitivity(10)
    True
    """
    return 1 + math.log((4 * _checked_horizon(horizon) - 1) / 3) / math.pi


def _checked_horizon(horizon: int) -> int:
    horizon = check_integer("horizon", horizon, 1)
    if horizon > LARGEST_HORIZON:
        raise InvalidInput(
            f"horizon of the square-root factorisation is {horizon}; it must be at most 2^22: use "
            f"a tree strategy such as KAry for longer streams"
        )
    return horizon


def _by_blocks(
    field: NodeNoise,
    steps: range,
    few: bool,
    write: Callable[[NDArray[np.int64], range, NDArray[np.int64]], None],
) -> NDArray[np.int64]:
    """Released noise of ``steps``, some coordinates at a time; ``few``: without a transform.

    ``write`` is given z from step 1 on, the steps, and where their noise belongs.
    """
    released = np.empty((len(steps), math.prod(field.shape)), dtype=np.int64)
    if released.size:
        z = field.run(0, range(1, steps.stop)).reshape(steps.stop - 1, -1)
        width = max(1, _BLOCK // (len(z) if few else fft_length(len(z))))
        for start in range(0, z.shape[1], width):
            part = slice(start, start + width)
            write(z[:, part], steps, released[:, part])
    return released.reshape(len(steps), *field.shape)


def _floored(
    cells: Floats, guard: Floats, released: NDArray[np.int64]
) -> Iterator[tuple[int, int]]:
    """Write floor(cells), turned over, and yield where floats known within ``guard`` leave two."""
    low = np.floor(cells - guard)
    released[:] = low.astype(np.int64).T
    for column, row in zip(*np.nonzero(low != np.floor(cells + guard)), strict=True):
        yield row, column


class SqrtToeplitz(StreamStrategy):
    """Square-root factorisation on a lattice: very small error with Gaussian noise.

    D_2^2 and the variance at the horizon are both Psi*(T), about ln(T) / pi + 1.066.

    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", Theorems 1 and 2.

    Released noise is B z rounded *correctly* to multiples of ``2^-fraction_bits``: computed by FFT
    with a proven error bound, and where that leaves two candidates, by integer arithmetic. So a
    release is one definite function of the measurements C x + z, whatever the CPU, the length of
    the transform or the window.

    Args:
        horizon: number of steps, from 1 to 2^22.

    Raises:
        InvalidInput: a horizon outside that range.

    >>> strategy = SqrtToeplitz(1000)
    >>> round(strategy.sensitivity(2) ** 2, 4), strategy.variance([1, 1000]).round(4).tolist()
    (3.265, [1.0, 3.265])
    """

    fraction_bits = 10
    local = False
    unit_columns = False

    horizon: int

    def __init__(self, horizon: int) -> None:
        self.horizon = _checked_horizon(horizon)
        # Rounding C costs below 1e-6 of the variance; fewer bits leave room for more noise.
        self.lattice_bits = 18 if self.horizon <= _FINER_BEYOND else 20
        self._kept: tuple[int, NDArray[np.complex128]] | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON values that rebuild this strategy."""
        return {"horizon": self.horizon}

    @cached_property
    def numerators(self) -> NDArray[np.int64]:
        """First column of C in units of ``2^-lattice_bits``, int64 of length ``horizon``."""
        scaled = square_root_coefficients(self.horizon) * 2.0**self.lattice_bits
        return np.rint(scaled).astype(np.int64)

    @cached_property
    def _quotient(self) -> PrefixQuotient:
        return PrefixQuotient(self.numerators, self.lattice_bits)

    @cached_property
    def _cumulative(self) -> NDArray[np.float64]:
        return np.cumsum(self._quotient.approximate**2)

    @cached_property
    def _exact_row(self) -> list[int]:
        """Grows on demand: entry k is b_k * 2^(lattice_bits * k), an integer."""
        return []

    def row_coefficients(self, number: int) -> list[Fraction]:
        """First ``number`` entries of B's first column, exactly; quadratic time, small horizons.

        >>> SqrtToeplitz(3).row_coefficients(3)
        [Fraction(1, 1), Fraction(1, 2), Fraction(3, 8)]
        """
        p, known = self.lattice_bits, self._exact_row
        c = [int(v) for v in self.numerators[: max(1, number)]]
        for k in range(len(known), number):
            # c * b = 1 + x + x^2 + ..., multiplied through by 2^(p k).
            spent = sum(c[i] * known[k - i] << p * (i - 1) for i in range(1, k + 1))
            known.append((1 << p * k) - spent)
        return [Fraction(known[k], 1 << p * k) for k in range(number)]

    def column(self, step: int) -> tuple[Node, ...]:
        """Nodes ``step``, ..., ``horizon`` with the coefficients of C."""
        step = self.check_step(step)
        unit = 1 << self.lattice_bits
        values = self.numerators[: self.horizon - step + 1]
        return tuple(Node(0, step + k, Fraction(int(v), unit)) for k, v in enumerate(values))

    def row(self, step: int) -> tuple[Node, ...]:
        """Nodes 1, ..., ``step`` with the exact coefficients of B; small horizons only."""
        step = self.check_step(step)
        coefficients = self.row_coefficients(step)
        return tuple(Node(0, step - k, b) for k, b in reversed(list(enumerate(coefficients))))

    @property
    def largest_entry(self) -> int:
        """1 on the lattice: the first coefficient; the others are smaller."""
        return 1 << self.lattice_bits

    def l1_sensitivity(self) -> Fraction:
        """1-norm of C's first column, exactly."""
        return Fraction(int(self.numerators.sum()), 1 << self.lattice_bits)

    def squared_sensitivity(self) -> Fraction:
        """Squared 2-norm of C's first column, exactly."""
        return Fraction(exact_dot(self.numerators, self.numerators), 1 << 2 * self.lattice_bits)

    def largest_sum(self, norm: Norm, schedule: Schedule) -> int:
        """The schedule that begins at once is the worst, exactly: coefficients only fall."""
        moved = self.numerators
        rows = -(-len(moved) // schedule.apart)
        padded = np.zeros(rows * schedule.apart, np.int64)
        padded[: len(moved)] = moved
        sums = np.cumsum(padded.reshape(rows, schedule.apart), axis=0)
        if schedule.steps < rows:
            sums[schedule.steps :] -= sums[: -schedule.steps].copy()
        moved = sums.reshape(-1)[: len(moved)]
        return int(moved.sum()) if norm == 1 else exact_dot(moved, moved)

    def run_sums(self, norm: Norm, length: int) -> NDArray[Any]:
        """A run moves later nodes by the same amounts from wherever it begins."""
        moved = np.cumsum(self.numerators)
        moved[length:] -= moved[:-length].copy()
        largest = int(moved.max()) ** norm * self.horizon
        powers = moved.astype(np.int64 if largest < 2**62 else object) ** norm
        return np.asarray(np.cumsum(powers)[::-1])

    def largest_alternating(self, norm: Norm, changes: int) -> int:
        """At most D_2^2 for each change: products of columns only fall with their distance."""
        alone = min(changes, self.horizon) * self.each_alternating(norm)
        return min(super().largest_alternating(norm, changes), alone)

    def each_alternating(self, norm: Norm) -> int:
        """D_2^2: see `largest_alternating`."""
        return self.shift().l1 if norm == 1 else self.shift().l2_squared

    def variance(self, steps: Iterable[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Sum of the squares of B's first ``step`` coefficients, for every step."""
        return self._cumulative[self.check_steps(steps) - 1]

    def window_variance(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """With s, t the ends: squared norms of both rows, less twice their inner product.

        Takes time in proportion to the horizon for each length or each start of the windows,
        whichever differ less.
        """
        first, last = self.check_ends(starts, stops)
        squares = np.concatenate([[0.0], self._cumulative])
        variance = np.asarray(squares[last - first])  # nodes that only the later end reads
        both = (first > 0) & (last > first)
        s, d = first[both], (last - first)[both]
        if s.size:
            one_by_one = (
                self._by_length if len(np.unique(d)) <= len(np.unique(s)) else self._by_start
            )
            variance[both] += one_by_one(s, d)
        return variance

    def _by_length(self, s: NDArray[np.int64], d: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sum of (b_{j+d} - b_j)^2 over j < s, for each pair."""
        b, found = self._quotient.approximate, np.empty(len(s))
        for length in np.unique(d):
            some = d == length
            most = int(s[some].max())
            sums = np.cumsum((b[length : length + most] - b[:most]) ** 2)
            found[some] = sums[s[some] - 1]
        return found

    def _by_start(self, s: NDArray[np.int64], d: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same, by one correlation for each start."""
        b, found = self._quotient.approximate, np.empty(len(s))
        squares = np.concatenate([[0.0], self._cumulative])
        for start in np.unique(s):
            some = s == start
            stop = int(start + d[some].max())
            products = convolve(b[:start][::-1], b[:stop], stop)[start - 1 :]
            ahead = squares[start + d[some]] - squares[d[some]]
            found[some] = ahead + squares[start] - 2 * products[d[some]]
        return found

    def overall_variance(self, metric: Metric) -> float:
        """Variance at the horizon, or its mean over all steps."""
        check_metric(metric)
        return float(self._cumulative[-1] if metric == "max" else self._cumulative.mean())

    def noise(self, field: NodeNoise, steps: range) -> NDArray[np.int64]:
        """B z rounded to multiples of ``2^-fraction_bits``; costs O(stop log stop) a coordinate.

        Raises:
            SumOverflow: noise of 2^52 or more, which no calibrated law has.
        """
        self.check_window(steps)
        few = len(steps) <= _FEW_STEPS
        return _by_blocks(field, steps, few, partial(self._round, few=few))

    #: Whose noise it is, in messages.
    serves = "SqrtToeplitz"
    #: Of the floats that decide how a release is rounded.
    _slack = staticmethod(relative_slack)

    def _round(
        self, z: NDArray[np.int64], steps: range, released: NDArray[np.int64], *, few: bool
    ) -> None:
        """Write floor(2^fraction_bits B z + offset) of one block of coordinates."""
        reals = np.ascontiguousarray(z.T, dtype=np.float64)
        sums, error = self.sums(reals, steps if few else None)
        if not few:
            sums = sums[:, steps.start - 1 : steps.stop - 1]
        cell = 2.0 ** (self.fraction_bits - self.lattice_bits)
        cells = sums * cell + float(_OFFSET)
        guard = (cell * error)[:, None] + (1 + np.abs(cells)) * 2.0**-51
        for row, column in _floored(cells, guard, released):
            released[row, column] = self._decide(z[: steps[row], column])

    def sums(self, reals: Floats, few: Sequence[int] | None = None) -> tuple[Floats, Floats]:
        """B z in float64, and how far that may be off in each coordinate.

        Args:
            reals: noise of nodes 1, 2, .. as integers, shape (coordinates, nodes).
            few: only these releases; default: all of them, by a transform.

        Returns:
            Shapes (coordinates, releases) and (coordinates,), in lattice units.
        """
        b, nodes = self._coefficients, reals.shape[1]
        if few is not None:
            backwards = b[nodes - 1 :: -1].copy()  # BLAS wants it contiguous
            sums = np.stack([reals[:, :t] @ backwards[nodes - t :] for t in few], axis=1)
            slack = (nodes + 2) * 2.0**-53
        else:
            length = fft_length(nodes)
            sums = np.fft.irfft(self._spectrum(length) * np.fft.rfft(reals, length), length)
            sums = sums[:, :nodes]
            slack = self._slack(length)
        # z and b to float64 cost 2^-53 each; b's own error meets |z|_1 <= sqrt(steps) |z|_2.
        of_b = self._quotient.error_units(0) * 2.0**-LEADING_BITS * math.sqrt(nodes)
        norms = 1.001 * np.linalg.norm(reals, axis=1)
        if norms.max() >= 2.0**60 or np.abs(reals).max() >= 2.0**52:
            raise SumOverflow(
                f"noise of a node of {self.serves} is 2^52 or more, or of all nodes 2^60, which "
                "its exact sums cannot hold: raise epsilon or rho, or coarsen the resolution"
            )
        return sums, norms * ((slack + 2.0**-51) * 1.001 * float(np.linalg.norm(b)) + of_b)

    def _spectrum(self, length: int) -> NDArray[np.complex128]:
        """Transform of B's first column; kept until another length is asked for."""
        kept = self._kept  # another thread may replace it meanwhile
        if kept is None or kept[0] != length:
            b = self._coefficients[: length // 2]
            kept = self._kept = (length, np.fft.rfft(b, length))
        return kept[1]

    @cached_property
    def _coefficients(self) -> NDArray[np.float64]:
        """B's first column, each within 2^-53 relative of a proven fixed-point value."""
        return np.ldexp(self._quotient.digit(0).astype(np.float64), -LEADING_BITS)

    def _decide(self, z: NDArray[np.int64]) -> int:
        """floor(2^fraction_bits b.z + offset) by integers, with more digits of b until certain."""
        backwards = z[::-1]
        length = exact_dot(np.abs(z), np.ones_like(z))
        total = 0
        for j in count():
            digit = self._quotient.digit(j)[: len(z)]
            total = (total << (DIGIT_BITS if j else 0)) + exact_dot(digit, backwards)
            error = self._quotient.error_units(j) * length
            places = self._quotient.places(j) + self.lattice_bits - self.fraction_bits
            low, high = (
                ((total + e) * _OFFSET.denominator + (_OFFSET.numerator << places))
                // (_OFFSET.denominator << places)
                for e in (-error, error)
            )
            if low == high:  # certain to happen: B z is dyadic, and no dyadic number is a tie
                return low
        raise AssertionError("unreachable")


# ------------------------------------------------------------------------------- unit columns

#: Fraction bits of the weights of columns, and of the series that they multiply.
_WEIGHT_BITS, _SERIES_BITS, _FINER_SERIES_BITS = 16, 12, 14
#: Longest series whose products with two weights are proven to stay within int64.
_LARGEST_NORMALISED = 2**20
#: Variances are sums over exact rows up to this horizon, beyond within 1e-4 of them.
_EXACT_ROWS = 2**13
#: Rounding offset: with a prime in the denominator that divides no weight, so that there is no tie.
_PRIME_OFFSET = Fraction(1, 2) + Fraction(1, 2**31 - 1)
#: So many overlaps are computed each, and then at distances that grow by a tenth.
_ALL_OVERLAPS = 16


class _ShortSeries(SqrtToeplitz):
    """The square root on a coarser lattice."""

    serves = "NormalisedSqrt"

    def __init__(self, horizon: int, bits: int) -> None:
        super().__init__(horizon)
        self.lattice_bits = bits


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
    >>> round(strategy.sensitivity(2), 3), strategy.variance([1, 1024]).round(2).tolist()
    (1.0, [3.27, 6.89])
    >>> [round((strategy.overall_variance(m)) ** 0.5, 3) for m in ("mean", "max")]
    [2.991, 3.081]
    """

    fraction_bits = 10
    local = False
    unit_columns = False

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
        self._root = _ShortSeries(horizon, bits)
        self.lattice_bits = bits + self.weight_bits
        self._rows: dict[int, tuple[Node, ...]] = {}

    @classmethod
    def examples(cls, horizon: int) -> tuple[NormalisedSqrt, ...]:
        """Fine weights, and coarse ones: exact rows of many fine weights take minutes."""
        coarse, fine = cls(horizon, weight_bits=4), cls(horizon)
        return (fine, coarse) if horizon <= 26 else (coarse,) if horizon <= 250 else ()

    @property
    def parameters(self) -> dict[str, Any]:
        """Horizon and bits of the weights."""
        return {"horizon": self.horizon, "weight_bits": self.weight_bits}

    @cached_property
    def _squares(self) -> NDArray[np.int64]:
        """Squared norms of C's last 1, 2, .. columns, in units of 4^-bits of the series."""
        return np.cumsum(self._root.numerators**2)

    @cached_property
    def weights(self) -> NDArray[np.int64]:
        """1 over the norms of C's columns, in units of 2^-weight_bits; they never fall."""
        norms = np.sqrt(self._squares[::-1].astype(np.float64)) / 2.0**self._root.lattice_bits
        return np.rint(2.0**self.weight_bits / norms).astype(np.int64)

    @cached_property
    def _shares(self) -> NDArray[np.float64]:
        """d_i, the inverse weights."""
        return 2.0**self.weight_bits / self.weights

    def column(self, step: int) -> tuple[Node, ...]:
        """Nodes ``step``, ..., ``horizon`` with the coefficients of C times the column's weight."""
        step = self.check_step(step)
        unit, weight = 1 << self.lattice_bits, int(self.weights[step - 1])
        values = self._root.numerators[: self.horizon - step + 1]
        return tuple(
            Node(0, step + k, Fraction(weight * int(v), unit)) for k, v in enumerate(values)
        )

    def row(self, step: int) -> tuple[Node, ...]:
        """Nodes 1, ..., ``step`` with the exact coefficients of B; small horizons only."""
        step = self.check_step(step)
        if step in self._rows:
            return self._rows[step]
        weights = [int(w) for w in self.weights[:step]]
        common = math.lcm(*weights)
        shares = [common // w for w in weights]
        b, p = self._root.row_coefficients(step), self._root.lattice_bits
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

    @property
    def largest_entry(self) -> int:
        """The weight of the last column, 1, on its diagonal: all others are smaller."""
        return 1 << self.lattice_bits

    def l1_sensitivity(self) -> Fraction:
        """Largest 1-norm of a column, exactly."""
        lengths = np.cumsum(self._root.numerators)[::-1] * self.weights
        return Fraction(int(lengths.max()), 1 << self.lattice_bits)

    def squared_sensitivity(self) -> Fraction:
        """Largest squared 2-norm of a column, exactly; within a trifle of 1."""
        return Fraction(int((self._squares[::-1] * self.weights**2).max()), 4**self.lattice_bits)

    def overlaps(self, schedule: Schedule) -> list[int]:
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

    def largest_alternating(self, norm: Norm, changes: int) -> int:
        """At most D_2^2 for each change: of all earlier columns the nearest has the largest
        product with a given one, and so on.
        """
        alone = min(changes, self.horizon) * self.each_alternating(norm)
        return min(super().largest_alternating(norm, changes), alone)

    def each_alternating(self, norm: Norm) -> int:
        """D_2^2: see `largest_alternating`."""
        return self.shift().l1 if norm == 1 else self.shift().l2_squared

    @cached_property
    def _inverse(self) -> NDArray[np.float64]:
        """First column of C^-1 in float64."""
        return np.diff(self._root._quotient.approximate, prepend=0.0)

    @cached_property
    def _variances(self) -> NDArray[np.float64]:
        d = self._shares
        if self.horizon > _EXACT_ROWS:
            return _variances_of_long_rows(d)
        a = self._inverse
        total = np.zeros(self.horizon)
        for k in range(self.horizon):  # node k + 1 in all releases
            total[k:] += np.cumsum(d[k:] * a[: self.horizon - k]) ** 2
        return total

    def variance(self, steps: Iterable[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Squared norms of the rows of B, for every step."""
        return self._variances[self.check_steps(steps) - 1]

    def overall_variance(self, metric: Metric) -> float:
        """Mean or maximum over all steps."""
        check_metric(metric)
        return float(self._variances.max() if metric == "max" else self._variances.mean())

    def window_variance(self, starts: Steps, stops: Steps) -> NDArray[np.float64]:
        """Squared norms of differences of rows.

        Takes time in proportion to the horizon for each distance up to the longest window, or for
        each window, whichever is less.
        """
        first, last = self.check_ends(starts, stops)
        variance = np.zeros(first.shape)
        from_start = (first == 0) & (last > 0)
        variance[from_start] = self.variance(last[from_start])
        inner = (first > 0) & (last > first)
        s, t = first[inner], last[inner]
        if s.size:
            longest = int((t - s).max())
            one_by_one = self._by_distance if longest <= 64 * len(s) else self._by_window
            variance[inner] = one_by_one(s, t)
        return variance

    def _by_distance(self, s: NDArray[np.int64], t: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sums over pairs of steps of d_i d_j (C^-1 C^-T)_ij, by the distance of i and j."""
        a, d = self._inverse, self._shares
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
        a, d = self._inverse, self._shares
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
        self.check_window(steps)
        return _by_blocks(field, steps, False, self._round)

    def _round(self, z: NDArray[np.int64], steps: range, released: NDArray[np.int64]) -> None:
        """Write floor(2^fraction_bits B z + offset) of one block of coordinates.

        With s the noise of the square root, B z at t is d_t s_t + sum over i < t of
        (d_i - d_{i+1}) s_i: positive weights that add up to d_1, and so do errors of s.
        """
        sums, error = self._root.sums(np.ascontiguousarray(z.T, dtype=np.float64))
        w = self.weights[: len(z)].astype(np.float64)
        falls = 2.0**self.weight_bits * np.diff(w) / (w[1:] * w[:-1])  # exact but for two roundings
        before, depth = _running_sums(falls * sums[:, :-1])
        largest = float(self._shares[0])
        cell = 2.0 ** (self.fraction_bits - self.lattice_bits)
        within = slice(steps.start - 1, steps.stop - 1)
        total = self._shares[: len(z)] * sums + np.pad(before, ((0, 0), (1, 0)))
        cells = total[:, within] * cell + float(_PRIME_OFFSET)
        of_sums = np.abs(sums).max(axis=1) + error
        guard = cell * largest * 1.001 * (error + of_sums * (depth + 8) * 2.0**-53)
        guard = guard[:, None] + (1 + np.abs(cells)) * 2.0**-50
        for row, column in _floored(cells, guard, released):
            released[row, column] = self._decide(z[: steps[row], column])

    def _decide(self, z: NDArray[np.int64]) -> int:
        """floor(2^fraction_bits B z + offset) by integers, with more digits until certain."""
        quotient, length = self._root._quotient, exact_dot(np.abs(z), np.ones_like(z))
        weights = [int(w) for w in self.weights[: len(z)]]
        sums = [0] * len(z)
        for j in count():
            added = _exact_convolution(quotient.digit(j), z)
            sums = [(s << (DIGIT_BITS if j else 0)) + a for s, a in zip(sums, added, strict=True)]
            finer = quotient.places(j) + 64
            shares = [(1 << finer + self.weight_bits) // w for w in weights]
            total = shares[-1] * sums[-1]
            total += sum((a - b) * s for a, b, s in zip(shares, shares[1:], sums, strict=False))
            # Shares are less than 1 too small, their differences off by less than 1.
            error = shares[0] * quotient.error_units(j) * length + sum(map(abs, sums)) + len(sums)
            error += quotient.error_units(j) * length * len(sums)
            places = quotient.places(j) + finer + self.lattice_bits - self.fraction_bits
            low, high = (
                ((total + e) * _PRIME_OFFSET.denominator + (_PRIME_OFFSET.numerator << places))
                // (_PRIME_OFFSET.denominator << places)
                for e in (-error, error)
            )
            if low == high:  # certain to happen: no number over weights below 2^31 - 1 is a tie
                return low
        raise AssertionError("unreachable")


def _running_sums(x: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Cumulative sums along the last axis, and through how many roundings a term goes at most."""
    rows, length = x.shape
    width = 1 << (length.bit_length() + 1) // 2
    padded = np.zeros((rows, -(-length // width) * width))
    padded[:, :length] = x
    blocks = np.cumsum(padded.reshape(rows, -1, width), axis=2)
    before = np.cumsum(blocks[:, :, -1], axis=1)
    blocks[:, 1:] += before[:, :-1, None]
    return blocks.reshape(rows, -1)[:, :length], width + blocks.shape[1] + 1


def _exact_convolution(x: Integers, z: Integers) -> list[int]:
    """First len(z) coefficients of the product, exactly, for |x|, |z| <= 2^62.

    >>> _exact_convolution(np.array([2**61, -1]), np.array([2**50, 3]))
    [2596148429267413814265248164610048, 6916403127734239232]
    """
    count, result = len(z), [0] * len(z)
    for place, digit in enumerate(balanced_digits(z, 21, 3)):
        if not digit.any():
            continue
        modulo = convolve_modulo(x[:count], digit, count)
        near = convolve(x[:count].astype(np.float64), digit.astype(np.float64), count)
        # Both agree to within 2^62, so that the whole multiples of 2^64 between them are certain.
        wraps = np.rint((near - modulo) * 2.0**-64)
        exact = ((int(w) << 64) + int(m) for w, m in zip(wraps, modulo, strict=True))
        result = [r + (e << 21 * place) for r, e in zip(result, exact, strict=True)]
    return result


def _variances_of_long_rows(d: Floats) -> Floats:
    """Squared norms of the rows of A D C^-1 for the square root C before rounding, in linear time.

    At t the squared norm grows by d_t^2 sum over j < t of a_j^2, with a_j the coefficients of
    sqrt(1 - x), and by 2 d_t sum over k < t of B_{t-1,k} a_{t-k}. There they stand as a mixture of
    powers, a_j = -1/pi times the integral over (0, 1) of x^(j - 3/2) sqrt(1 - x), by the
    trapezoidal rule in ln(x / (1 - x)) from j = 2 on; sum over k <= t of B_tk x^(t - k) follows
    from t to t + 1.
    """
    horizon, step = len(d), 0.75
    y = np.arange(-9.0, math.log(horizon) + 13.0, step)
    powers, rest = 1 / (1 + np.exp(-y)), 1 / (1 + np.exp(y))
    mixture = -step / math.pi * rest**1.5 * powers**0.5
    # Errors would add up over the steps, were these not the coefficients of one series with the
    # sum that those of sqrt(1 - x) have.
    rule = list(zip(powers.tolist(), mixture.tolist(), strict=True))
    a = np.zeros(horizon)
    for power, weight in rule:
        seen = _powers(power, horizon - 1)
        a[1 : 1 + len(seen)] += weight * seen
    a[0] = 1.0
    a[1] = square_root_coefficients(horizon)[-1] - 1.0 - a[2:].sum()
    cross = np.zeros(horizon)
    cross[1:] = (a[1] - float(mixture.sum())) * d[:-1]
    for power, weight in rule:
        seen = _powers(power, horizon)
        first = np.cumsum(a[: len(seen)] * seen)
        found = d * first[-1]
        found[: len(seen)] = d[: len(seen)] * first
        cross[1:] += weight * _discounted(found, power)[:-1]
    return np.cumsum(2 * d * cross + d**2 * np.cumsum(a**2))


def _discounted(x: Floats, power: float) -> Floats:
    """Running sums of positive numbers, all that came before multiplied by ``power`` at each step.

    Block by block, such that no power in a block leaves float64, and that one block further on
    nothing of it is left.

    >>> _discounted(np.array([8.0, 0.0, 1.0]), 0.5).tolist()
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


def _powers(power: float, count: int) -> Floats:
    """1, x, x^2, ..: so many, or as far as they have not vanished."""
    powers = np.full(min(count, 8 + int(-40 / math.log(power))), power)
    powers[:1] = 1.0
    return np.cumprod(powers, out=powers)

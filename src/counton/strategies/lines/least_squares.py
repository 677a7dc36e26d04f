"""Least squares for a line of cells, some of which are also known from elsewhere.

The measurement matrix C has rows over several cells, called H, and a row for each single cell. A
cell may be a block of steps that another strategy measures: the sum of the block is then known from
it, with its own variance, in place of C's row for the cell, and combined with the rows H.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, Integers
from counton.base.errors import SumOverflowError
from counton.strategies.lines.line_strategy import LineStrategy
from counton.strategies.rounding import boundary
from counton.strategies.strategy import Norm

#: Bounds in float64 are raised by this factor, for their own rounding.
_RESERVE = 1.001
#: Largest number of bits that one further pass of the refinement adds to a solution.
_DIGIT_BITS = 30
#: Numbers in int64 stay below this many bits.
_INTEGER_BITS = 62
#: Residuals are known modulo 2^64 and, if that is not enough, also modulo this prime. They must
#: have at most `_RESIDUAL_BITS` bits, or `_RESIDUAL_BITS_WITH_PRIME` with the prime, to be
#: determined.
_PRIME = 2**31 - 1
_RESIDUAL_BITS = 62
_RESIDUAL_BITS_WITH_PRIME = 92


class NormalEquations(ABC):
    """The equations of least squares, G u = r, with G = H^T H + diag(precision).

    ``precision``, shape (cells,), is 1 / variance of a separate estimate of each cell: its own
    measurement, or another strategy's. The unit of variances is that of one draw of noise.

    ``floor``, shape (cells,), has positive numbers for which G - diag(floor) is proven to have no
    negative eigenvalue.
    """

    floor: Floats

    @abstractmethod
    def solve(self, right: Floats) -> Floats:
        """Return the solution u of G u = r for each right side: float64, shape (vectors, cells)."""

    @property
    @abstractmethod
    def variances(self) -> tuple[Floats, Floats]:
        """Variances of the sums of the first 0, 1, ..., n cells, and of each cell's estimate."""

    @abstractmethod
    def range_variance(self, low: NDArray[Any], high: NDArray[Any]) -> Floats:
        """Return the variances of sums between real positions 0 <= low <= high <= cells.

        The sum from 0.5 to 2 is half of cell 0 plus cell 1.
        """


class IntegerEquations:
    """Equations (a H^T H + diag(b)) u = r in integers, with exactly rounded prefix sums of u.

    Args:
        line: the strategy whose rows over several cells are H.
        factor, diagonal: a, and b: int64, shape (cells,).
        equations: the same equations divided by a, in float64.
    """

    def __init__(
        self, line: CellwiseLine, factor: int, diagonal: Integers, equations: NormalEquations
    ) -> None:
        self._line = line
        self._factor = factor
        self._diagonal = diagonal
        self.equations = equations
        self._largest = factor * line.spread + float(diagonal.max())
        # Rounding error of a float64 sum of this many numbers, relative to the sum of their
        # magnitudes.
        self._rounding = (line.cells + line.rows + 64) * 2.0**-52
        self._floor = factor * equations.floor
        self._prefixes = np.sqrt(np.cumsum(1.0 / self._floor)) * _RESERVE
        # Modulo the prime, sums over a row of H stay within int64.
        entries = (line.cells + line.rows) * line.largest_entry
        #: Most bits of an entry of r - G u that remainders determine exactly: by 2^64 and, if the
        #: entries of H are not too large, also by the prime.
        self._determined_bits = (
            _RESIDUAL_BITS_WITH_PRIME if entries * _PRIME < 2**62 else _RESIDUAL_BITS
        )

    def _times(self, u: NDArray[Any]) -> NDArray[Any]:
        """Return G u, shape (vectors, cells); integers are modulo 2^64."""
        product = self._line.under(self._line.over(u))
        product *= u.dtype.type(self._factor)
        product += self._diagonal.astype(u.dtype) * u
        return product

    def holds(self, largest: float, solved: float, sums: float, bits: int) -> bool:
        """Return whether `rounded_prefixes` to multiples of 2^-bits cannot overflow.

        Args:
            largest: bound on the summed magnitudes of the terms of every entry of r.
            solved, sums: bounds on the entries of u, and on its prefix sums.
        """
        least = max(bits, 0) + 2
        error = self._rounding * (largest + self._largest * solved) * 2.0**least
        # So many bits hold the residual after the solver, within float64's error, and that after u
        # is rounded.
        needed_bits = _RESERVE * (2 * error + self._largest)
        small = max(solved, sums) <= 2.0 ** (_INTEGER_BITS - 3 - least)
        return (
            small
            and error <= 2.0 ** (self._determined_bits - 3)
            and needed_bits < 2.0**self._determined_bits
        )

    def rounded_prefixes(
        self,
        right: Integers,
        real: Floats,
        largest: float,
        bits: int,
        further_right: Callable[[], Integers],
    ) -> Integers:
        """Return the prefix sums of u, rounded to multiples of 2^-bits: shape (vectors, cells).

        They are a function of the right side r alone, equal on every machine.

        Args:
            right: r modulo 2^64: shape (vectors, cells).
            real: r in float64. An entry may be off by the rounding error of a sum of cells + rows
                terms, whose magnitudes add up to ``largest``.
            further_right: returns r modulo the prime of `modulo_prime`; called if noise is wide.

        Raises:
            SumOverflowError: a sum does not fit int64; never if `holds` returns True.
        """
        residual = _Residual(modulo_word=right, real=real, modulo_prime=None)
        sums = _RoundedSums(right.shape, bits, self._prefixes)
        while len(sums.open_lines):
            digit = self._next_digit(residual, largest, sums)
            if digit.integers is None:
                can_determine_more = (
                    residual.modulo_prime is None and self._determined_bits > _RESIDUAL_BITS
                )
                if sums.has_no_digit and can_determine_more:
                    residual = residual._replace(modulo_prime=further_right())
                    continue
                raise SumOverflowError(
                    f"sums of noise reach {digit.size:.3g}, and are not exact in multiples of "
                    f"{2.0 ** (-bits):g}: give a larger epsilon, rho or resolution"
                )
            residual = self._subtract(residual, digit.integers, digit.shift)
            largest = float(np.abs(residual.real).max())
            norms = np.sqrt((residual.real**2) @ (1.0 / self._floor)) * _RESERVE
            residual = residual.of_lines(sums.add(digit.integers, digit.shift, norms))
        return sums.rounded

    def _next_digit(self, residual: _Residual, largest: float, sums: _RoundedSums) -> _Digit:
        """Solve for the residual, and round the solution as finely as the next residual allows.

        Args:
            residual: r - G u for the digits so far.
            largest: bound on the summed magnitudes of the terms of every entry of the residual.
            sums: the prefix sums to which the digit will be added.
        """
        solution = self.equations.solve(residual.real)
        solution /= self._factor
        solved = float(np.abs(solution).max())
        size = max(solved, float(np.abs(np.cumsum(solution, axis=1)).max()), 2.0**-60)
        error = self._rounding * (largest + self._largest * solved)
        determined_bits = _RESIDUAL_BITS if residual.modulo_prime is None else self._determined_bits
        shift = determined_bits - 2 - math.ceil(math.log2(max(error, 2.0**-60)))
        shift = min(shift, _INTEGER_BITS - 2 - math.ceil(math.log2(size)), sums.largest_shift)
        least = sums.least_shift
        while shift >= least:
            rounded = np.rint(solution * 2.0**shift)
            remainder = float(np.abs(residual.real * 2.0**shift - self._times(rounded)).max())
            bound = remainder + 1.01 * error * 2.0**shift
            if bound < 2.0**determined_bits:
                return _Digit(rounded.astype(np.int64), shift, size)
            excess = math.ceil(math.log2(bound)) - determined_bits + 2
            shift = max(least, shift - excess) if shift > least else least - 1
        return _Digit(None, shift, size)

    def _subtract(self, residual: _Residual, digit: Integers, shift: int) -> _Residual:
        """Return 2^shift times the residual, minus G times the digit."""
        # The residual is known modulo 2^64, or also modulo the prime, and within half of that by
        # floats: so this is the true residual.
        modulo_word = (residual.modulo_word << shift) - self._times(digit)
        real = modulo_word.astype(np.float64)
        modulo_prime_before = residual.modulo_prime
        if modulo_prime_before is None:
            return _Residual(modulo_word, real, None)
        rows = self._line.over(digit % _PRIME)
        product = modulo_prime(self._line, self._factor, rows, self._diagonal, digit)
        after = (modulo_prime_before * pow(2, shift, _PRIME) - product) % _PRIME
        real += _multiples(modulo_word, after) * 2.0**64
        return _Residual(modulo_word, real, after)


class _Residual(NamedTuple):
    """r - G u, where u has the digits so far: shape (vectors, cells).

    Attributes:
        modulo_word: modulo 2^64.
        real: in float64.
        modulo_prime: modulo `_PRIME`; None if it is not needed.
    """

    modulo_word: Integers
    real: Floats
    modulo_prime: Integers | None

    def of_lines(self, kept: NDArray[np.bool_]) -> _Residual:
        """Return the residual of some vectors."""
        modulo_prime = None if self.modulo_prime is None else self.modulo_prime[kept]
        return _Residual(self.modulo_word[kept], self.real[kept], modulo_prime)


class _Digit(NamedTuple):
    """The next digit of a solution, in multiples of 2^-shift of the last one.

    Attributes:
        integers: shape (vectors, cells); None if no digit is exact.
        size: largest magnitude of the solution and of its prefix sums.
    """

    integers: Integers | None
    shift: int
    size: float


class _RoundedSums:
    """Prefix sums of a solution, to which digits are added until all rounded sums are certain.

    The rounded sum is floor(2^bits s + offset) for each sum s.

    Args:
        shape: numbers of vectors and of cells.
        bits: the sums are rounded to multiples of 2^-bits.
        errors: bounds on the error of each prefix sum, in units of the norm of the residual.

    Attributes:
        rounded: the rounded sums; some may be wrong until all are certain.
        open_lines: the vectors that have sums whose result is not yet certain.
    """

    def __init__(self, shape: tuple[int, ...], bits: int, errors: Floats) -> None:
        self.rounded = np.empty(shape, np.int64)
        self.open_lines = np.arange(shape[0])
        self._bits = bits
        self._errors = errors
        self._binary_places = 0
        # Vector, cell and exact digits of the sums that are not yet certain; none at first.
        self._line_index = self._cell_index = np.zeros(0, np.int64)
        self._totals: list[int] = []

    @property
    def has_no_digit(self) -> bool:
        return self._binary_places == 0

    @property
    def least_shift(self) -> int:
        """The least number of binary places that the next digit must add."""
        return max(self._bits, 0) + 2 if self.has_no_digit else 1

    @property
    def largest_shift(self) -> int:
        """The largest number of binary places that the next digit may add."""
        # 2^shift times 1/2, the rounding boundary, stays within int64 on any grid.
        return _INTEGER_BITS + min(self._bits, 0) if self.has_no_digit else _DIGIT_BITS

    def add(self, digit: Integers, shift: int, norms: Floats) -> NDArray[np.bool_]:
        """Add a digit of the vectors ``open_lines``; return those which stay open.

        Args:
            digit: shape (vectors, cells), in multiples of 2^-shift of the last digit.
            norms: norms of the residuals after the digit, shape (vectors,).
        """
        sums_of_digits = np.cumsum(digit, axis=1)
        if self.has_no_digit:
            self._begin(sums_of_digits, shift, norms)
        else:
            self._add_to_open(sums_of_digits, shift, norms)
        kept = np.isin(self.open_lines, self._line_index)
        self.open_lines = self.open_lines[kept]
        return kept

    def _begin(self, sums: Integers, shift: int, norms: Floats) -> None:
        """Round all sums by their first digit."""
        self._binary_places = shift
        dropped = self._binary_places - self._bits
        doubt = np.minimum(norms.max() * self._errors + 2, 2.0**61).astype(np.int64)
        sums += boundary(dropped)
        low = (sums - doubt) >> dropped
        self.rounded[...] = low
        self._line_index, self._cell_index = np.nonzero(low != (sums + doubt) >> dropped)
        self._totals = (sums[self._line_index, self._cell_index] - boundary(dropped)).tolist()

    def _add_to_open(self, sums: Integers, shift: int, norms: Floats) -> None:
        """Round the sums that are not yet certain, in Python's integers."""
        self._binary_places += shift
        dropped = self._binary_places - self._bits
        row = np.searchsorted(self.open_lines, self._line_index)
        doubts = np.ceil(norms[row] * self._errors[self._cell_index]) + 2
        offset = boundary(dropped)
        added = sums[row, self._cell_index].tolist()
        uncertain = []
        for index, doubt in enumerate(doubts.tolist()):
            total = (self._totals[index] << shift) + added[index]
            low = (total + offset - int(doubt)) >> dropped
            high = (total + offset + int(doubt)) >> dropped
            self._totals[index] = total
            if low == high:
                self.rounded[self._line_index[index], self._cell_index[index]] = low
            else:
                uncertain.append(index)
        self._line_index = self._line_index[uncertain]
        self._cell_index = self._cell_index[uncertain]
        self._totals = [self._totals[index] for index in uncertain]


def modulo_prime(
    line: CellwiseLine, factor: int, rows: Integers, weights: Integers, cells: Integers
) -> Integers:
    """Return factor H^T rows + weights * cells modulo 2^31 - 1: shape (vectors, cells)."""
    residues = line.under(rows % _PRIME) % _PRIME * (factor % _PRIME) % _PRIME
    residues += weights % _PRIME * (cells % _PRIME) % _PRIME
    return residues % _PRIME


def _multiples(residual: Integers, further: Integers) -> Floats:
    """Return k for the integers residual + k 2^64, from their remainders modulo 2^31 - 1.

    The magnitude of k must be below 2^30.

    >>> number = -5 * 2**64 + 7
    >>> _multiples(np.array([7]), np.array([number % _PRIME])).tolist()
    [-5.0]
    """
    multiples = (further - residual % _PRIME) % _PRIME * pow(2**64, -1, _PRIME) % _PRIME
    return np.where(multiples > _PRIME // 2, multiples - _PRIME, multiples).astype(np.float64)


class CellwiseLine(LineStrategy):
    """A strategy for a line whose matrix has a row for each single cell, and rows H over several.

    Attributes:
        own: weight of each cell in its own row: int64, shape (cells,); 0 if it has none.
        rows: the number of rows H; ``measure`` returns these measurements first.
    """

    own: Integers
    rows: int

    @property
    def short_text(self) -> str:
        """Short text for ``repr``: class, number of cells, number of rows over several cells."""
        return f"{self.saved_name}(cells={self.cells}, rows={self.rows})"

    @abstractmethod
    def over(self, cells: NDArray[Any]) -> NDArray[Any]:
        """Return H x for each row of ``cells``, in their dtype; integers are modulo 2^64.

        Args:
            cells: numbers for the cells, shape (vectors, cells).

        Returns:
            Shape (vectors, rows).
        """

    @abstractmethod
    def under(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return H^T y for each row of ``rows``, in their dtype; integers are modulo 2^64.

        Args:
            rows: numbers for the rows of H, shape (vectors, rows).

        Returns:
            Shape (vectors, cells).
        """

    @abstractmethod
    def rows_of(self, cell: int) -> list[tuple[int, int]]:
        """Return pairs (row, weight) of the rows of H in which the cell has a weight.

        Args:
            cell: index of the cell, from 0.
        """

    @abstractmethod
    def overlap(self, lag: int) -> int:
        """Return a bound on the inner product of two columns of H.

        Args:
            lag: the least distance of the two columns in cells, from 1.
        """

    @abstractmethod
    def powers(self, norm: Norm) -> Integers:
        """Return the 1-norm or the squared 2-norm of each column of H.

        Args:
            norm: 1 for the 1-norm, 2 for the squared 2-norm.

        Returns:
            Shape (cells,).
        """

    @property
    @abstractmethod
    def spread(self) -> float:
        """Upper bound of the sum of the magnitudes in any row of H^T H."""

    @abstractmethod
    def equations(self, precision: Floats) -> NormalEquations:
        """Return the equations for estimating the cells from H and separate estimates.

        Args:
            precision: 1 / variance of the separate estimate of each cell, shape (cells,). The unit
                of variances is that of one draw of noise.
        """

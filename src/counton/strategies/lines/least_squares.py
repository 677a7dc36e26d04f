"""Least squares for a line of cells, some of which are also known from elsewhere.

The measurement matrix C has rows over several cells, called H, and a row for each single cell. A
cell may be a block of steps that another strategy measures: the sum of the block is then known from
it, with its own variance, in place of C's row for the cell, and combined with the rows H.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

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
_BITS = 62
#: Residuals are known modulo 2^64 and, if that is not enough, also modulo this prime. They must
#: have at most _ALONE bits, or _TOGETHER bits with the prime, to be determined.
_PRIME = 2**31 - 1
_ALONE = 62
_TOGETHER = 92


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
        self._room = _TOGETHER if entries * _PRIME < 2**62 else _ALONE

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
        # The residual after the solver, within float64's error, and after rounding u.
        needed_bits = _RESERVE * (2 * error + self._largest)
        small = max(solved, sums) <= 2.0 ** (_BITS - 3 - least)
        return small and error <= 2.0 ** (self._room - 3) and needed_bits < 2.0**self._room

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
        # The result is floor(2^bits s + offset) for each sum s. Digits are added to u until every
        # result is certain.
        residual = right
        binary_places = 0
        further: Integers | None = None  # the residual modulo the prime, if needed
        prefixes = np.empty(right.shape, np.int64)
        lines = np.arange(len(right))
        # The sums of the digits so far, where the result is not yet certain; none at first.
        open_line = open_cell = np.zeros(0, np.int64)
        totals: list[int] = []
        while len(lines):
            digit = self.equations.solve(real)
            digit /= self._factor
            solved = float(np.abs(digit).max())
            size = max(solved, float(np.abs(np.cumsum(digit, axis=1)).max()), 2.0**-60)
            error = self._rounding * (largest + self._largest * solved)
            room = _ALONE if further is None else self._room
            more = room - 2 - math.ceil(math.log2(max(error, 2.0**-60)))
            more = min(more, _BITS - 2 - math.ceil(math.log2(size)))
            # 2^more times 1/2, the rounding boundary, stays within int64 on any grid.
            more = min(more, _DIGIT_BITS if binary_places else _BITS + min(bits, 0))
            least = 1 if binary_places else max(bits, 0) + 2
            while more >= least:
                whole = np.rint(digit * 2.0**more)
                remainder = float(np.abs(real * 2.0**more - self._times(whole)).max())
                most = remainder + 1.01 * error * 2.0**more
                if most < 2.0**room:
                    break
                by = math.ceil(math.log2(most)) - room + 2
                more = max(least, more - by) if more > least else least - 1
            if more < least:
                if further is None and not binary_places and self._room > room:
                    further = further_right()
                    continue
                raise SumOverflowError(
                    f"sums of noise reach {size:.3g}, and are not exact in multiples of "
                    f"{2.0 ** (-bits):g}: give a larger epsilon, rho or resolution"
                )
            digits = whole.astype(np.int64)
            # The residual is known modulo 2^64, or also modulo the prime, and within half of that
            # by floats: so this is the true residual.
            residual = (residual << more) - self._times(digits)
            real = residual.astype(np.float64)
            if further is not None:
                rows = self._line.over(digits % _PRIME)
                product = modulo_prime(self._line, self._factor, rows, self._diagonal, digits)
                further = (further * pow(2, more, _PRIME) - product) % _PRIME
                real += _multiples(residual, further) * 2.0**64
            largest = float(np.abs(real).max())
            norms = np.sqrt((real**2) @ (1.0 / self._floor)) * _RESERVE
            sums_of_digits = np.cumsum(digits, axis=1)
            if not binary_places:
                binary_places = more
                doubt = np.minimum(norms.max() * self._prefixes + 2, 2.0**61).astype(np.int64)
                sums_of_digits += boundary(binary_places - bits)
                low = (sums_of_digits - doubt) >> (binary_places - bits)
                prefixes[...] = low
                open_line, open_cell = np.nonzero(
                    low != (sums_of_digits + doubt) >> (binary_places - bits)
                )
                at = sums_of_digits[open_line, open_cell] - boundary(binary_places - bits)
                totals = at.tolist()
            else:
                binary_places += more
                row = np.searchsorted(lines, open_line)
                doubts = np.ceil(norms[row] * self._prefixes[open_cell]) + 2
                moved = boundary(binary_places - bits)
                still = []
                added = sums_of_digits[row, open_cell].tolist()
                for index, (before, also, by) in enumerate(
                    zip(totals, added, doubts.tolist(), strict=True)
                ):
                    total = (before << more) + also
                    low_one, high_one = (
                        (total + moved + sign * int(by)) >> (binary_places - bits)
                        for sign in (-1, 1)
                    )
                    totals[index] = total
                    if low_one == high_one:
                        prefixes[open_line[index], open_cell[index]] = low_one
                    else:
                        still.append(index)
                open_line = open_line[still]
                open_cell = open_cell[still]
                totals = [totals[index] for index in still]
            keep = np.isin(lines, open_line)
            lines = lines[keep]
            residual = residual[keep]
            real = real[keep]
            further = None if further is None else further[keep]
        return prefixes


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

"""A strategy for lines of up to 4096 cells with an explicit measurement matrix."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers, integers_from_text, integers_to_text, one_thread
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, without_mask
from counton.strategies.lines.least_squares import CellwiseLine, NormalEquations
from counton.strategies.lines.scaled_root import scaled_root
from counton.strategies.strategy import LARGEST_DENSE, Norm

_LARGEST_SQUARED = 2.0**60


class Dense(CellwiseLine):
    """A strategy for a line of cells, with any integer measurement matrix C of full column rank.

    Cells are estimated by least squares.

    Args:
        matrix: C, int64, shape (measurements, cells).
        formula: the formula of `scaled_root` that computed the matrix, and stands for it in
            `to_dict`.

    Raises:
        InvalidInputError: not an integer matrix over 1 to 4096 cells, masked entries, deficient
            rank, or entries too large for exact norms.

    >>> Dense(np.array([[2, 1], [0, 2]]), "mine").squared_sensitivity()
    5
    """

    sources = ("optimal",)

    def __init__(self, matrix: NDArray[Any], name: str, formula: str | None = None) -> None:
        matrix = np.asarray(without_mask(matrix, "the matrix"))
        if matrix.ndim != 2 or matrix.dtype.kind not in "iu":
            raise InvalidInputError(
                f"the matrix has shape {matrix.shape} and type {matrix.dtype}; give a matrix of "
                "integers, with one row for each measurement"
            )
        self.measurements, self.cells = matrix.shape
        if not 1 <= self.cells <= LARGEST_DENSE:
            raise InvalidInputError(
                f"a dense strategy over {self.cells} cells is too large; at most {LARGEST_DENSE} "
                "cells are possible: use haar or square_root"
            )
        # computed in float64, which is exact enough to show that norms are below 2^63
        if (matrix.astype(np.float64) ** 2).sum(axis=0).max() >= _LARGEST_SQUARED:
            raise InvalidInputError(
                f"an entry of the matrix has magnitude {int(np.abs(matrix.astype(float)).max())}; "
                "the squares of a column must add up to less than 2^60 to be exact: divide the "
                "matrix by a number"
            )
        self._matrix = matrix.astype(np.int64)
        self._matrix.flags.writeable = False
        self.name = name
        self._formula = formula
        #: The matrix as text, once it was asked for: a large one takes long to compress.
        self._text: str | None = None
        #: Rows of C over several cells, and the weights of rows of one: int64, shape (rows, cells)
        #: and (cells,). A cell without such a row has the weight 0. Of several, the largest counts,
        #: and the others are in the first array.
        self._rest, self.own = _split(self._matrix)
        self.rows = len(self._rest)
        if self.own.min() == 0:
            self._factor  # noqa: B018  (refuses deficient rank now, before any data)

    @classmethod
    def by_formula(cls, cells: int, formula: str) -> Self:
        """Return the strategy of a formula of `scaled_root`, equal on every machine.

        Args:
            cells: number of cells of the line, from 1 to 4096.
            formula: "mean" or "max": the metric of running totals for which it was fitted.

        Raises:
            InvalidInputError: an unknown formula, or too many cells.
        """
        check_integer("cells", cells, 1, LARGEST_DENSE)
        return cls(scaled_root(cells, formula), "scaled square root", formula)

    @classmethod
    @override
    def examples(cls, cells: int) -> Sequence[Self]:
        steps = 2 * np.eye(cells, dtype=np.int64) - np.eye(cells, k=1, dtype=np.int64)
        waves = np.arange(2 * cells, dtype=np.int64).reshape(2, cells) ** 2 % 7 - 3
        return (cls(steps, "steps"), cls(np.vstack([steps, waves]), "waves"))

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """JSON values that identify the matrix: its size and a digest."""
        digest = hashlib.sha256(np.ascontiguousarray(self._matrix, "<i8").tobytes()).hexdigest()
        return {"cells": self.cells, "measurements": self.measurements, "matrix_sha256": digest}

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the parameters, the name, and the exact matrix or its formula, as JSON values."""
        description = {**super().to_dict(), "name": self.name}
        if self._formula is not None:
            return {**description, "formula": self._formula}
        self._text = self._text or integers_to_text(self._matrix)
        return {**description, "matrix": self._text}

    @classmethod
    @override
    def _from_description(
        cls,
        cells: int,
        measurements: int,
        name: str,
        matrix: str = "",
        formula: str | None = None,
        **_: Any,
    ) -> Self:
        cells = check_integer("cells", cells, 1, LARGEST_DENSE)
        shape = check_integer("measurements", measurements, 1, 2**32), cells
        if formula is not None:
            return cls.by_formula(cells, formula)
        return cast("Self", _cached_dense(cls, matrix, shape, str(name)))

    @cached_property
    @one_thread()
    def _factor(self) -> Floats:
        """Lower Cholesky factor of C^T C."""
        try:
            return np.asarray(np.linalg.cholesky(self._gram), dtype=np.float64)
        except np.linalg.LinAlgError:
            raise InvalidInputError(
                "the columns of the matrix are linearly dependent, so cells cannot be estimated: "
                "add measurements"
            ) from None

    def matrix(self) -> Integers:
        return self._matrix

    @override
    def measure(self, counts: Integers) -> Integers:
        flat = counts.reshape(self.cells, -1)
        return exact_product(self._matrix, flat).reshape(self.measurements, *counts.shape[1:])

    @one_thread()
    @override
    def estimate(self, measured: NDArray[Any]) -> Floats:
        """Return least-squares estimates of the cells.

        Args:
            measured: noisy measurements, shape (measurements, ...).
        """
        flat = measured.reshape(self.measurements, -1).astype(np.float64)
        solution = self._solve(self._matrix.T.astype(np.float64) @ flat)
        return solution.reshape(self.cells, *measured.shape[1:])

    @one_thread()
    def _solve(self, right: Floats) -> Floats:
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self._factor, True), right), dtype=np.float64)

    @override
    def over(self, cells: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(exact_product(self._rest, cells.T).T)

    @override
    def under(self, rows: NDArray[Any]) -> NDArray[Any]:
        return np.ascontiguousarray(exact_product(self._rest.T, rows.T).T)

    @override
    def rows_of(self, cell: int) -> list[tuple[int, int]]:
        column = self._rest[:, cell]
        return [(int(row), int(column[row])) for row in np.flatnonzero(column)]

    @override
    def powers(self, norm: Norm) -> Integers:
        return np.asarray((np.abs(self._rest) ** norm).sum(axis=0))

    @property
    @override
    def spread(self) -> float:
        magnitudes = np.abs(self._rest).astype(np.float64)
        return float((magnitudes.T @ magnitudes.sum(axis=1)).max()) * (1 + 2.0**-20)

    @cached_property
    def _lags(self) -> Integers:
        """For d = 0, 1, ..., the largest `overlap` of columns at least d cells apart."""
        rest = self._rest
        products = np.abs(exact_product(np.ascontiguousarray(rest.T), rest))
        largest = [int(np.diagonal(products, lag).max()) for lag in range(self.cells)]
        return np.maximum.accumulate(np.array(largest, np.int64)[::-1])[::-1]

    @override
    def overlap(self, lag: int) -> int:
        """Return the largest absolute inner product of columns that are ``lag`` or more apart.

        Rows of C that measure one cell alone are left out.

        Args:
            lag: the least distance of the two columns in cells, from 1.
        """
        return int(self._lags[lag]) if lag < self.cells else 0

    @override
    def equations(self, precision: Floats) -> NormalEquations:
        """Return the equations for estimating the cells, in cubic time.

        Args:
            precision: 1 / variance of a separate estimate of each cell, shape (cells,).
        """
        return _DenseEquations(self._rest, precision)

    @override
    def largest_column(self, norm: Norm) -> int:
        return int((np.abs(self._matrix) ** norm).sum(axis=0).max())

    @cached_property
    @one_thread()
    def _gram(self) -> Floats:
        real = self._matrix.astype(np.float64)
        return np.asarray(real.T @ real)

    @cached_property
    @override
    def least_inner(self) -> int:
        """Lower bound of the inner product of any two columns, in float64 with a margin."""
        rounding = self.measurements * 2.0**-50 * float(self._gram.diagonal().max()) + 1
        return min(int(np.floor(float(self._gram.min()) - rounding)), self.squared_sensitivity())

    @property
    @override
    def largest_entry(self) -> int:
        return int(np.abs(self._matrix).max())

    @cached_property
    def _prefixes(self) -> Floats:
        """Covariance of the sums of the first 0, 1, ..., n cells: shape (n + 1, n + 1)."""
        covariance = np.zeros((self.cells + 1, self.cells + 1))
        inner = covariance[1:, 1:]
        inner[...] = self._solve(np.eye(self.cells))
        np.cumsum(inner, axis=0, out=inner)
        np.cumsum(inner, axis=1, out=inner)
        return covariance

    @override
    def variance(self, low: Integers, high: Integers) -> Floats:
        joint = self._prefixes
        return np.maximum(joint[low, low] + joint[high, high] - 2 * joint[low, high], 0.0)

    @override
    def ranges_variance(self) -> float:
        joint = self._prefixes
        return float((self.cells + 1) * np.trace(joint) - joint.sum())

    @override
    def functional_variance(self, weights: Floats) -> float:
        return float((weights * self._solve(weights.T).T).sum())


def _split(matrix: Integers) -> tuple[Integers, Integers]:
    diagonal = np.zeros(matrix.shape[1], np.int64)
    row_of_cell = np.full(len(diagonal), -1)
    for row in np.flatnonzero((matrix != 0).sum(axis=1) == 1).tolist():
        cell = int(np.flatnonzero(matrix[row])[0])
        if matrix[row, cell] > diagonal[cell]:
            diagonal[cell] = matrix[row, cell]
            row_of_cell[cell] = row
    return np.delete(matrix, row_of_cell[row_of_cell >= 0], axis=0), diagonal


class _DenseEquations(NormalEquations):
    """Normal equations G u = r with a dense matrix G = H^T H + D.

    They are solved by G's Cholesky factor, or, if all cells are measured alone and D has an
    inverse, by Woodbury's formula (`counton.strategies.lines.hats`), with few rows H.
    """

    @one_thread()
    def __init__(self, rest: Integers, precision: Floats) -> None:
        real = rest.astype(np.float64)
        cells = len(precision)
        covariance = np.zeros((cells + 1, cells + 1))
        inner = covariance[1:, 1:]
        if precision.min() > 0:
            self.floor = precision
            scaled = real / precision
            capacitance = np.eye(len(real)) + scaled @ real.T
            inverse = np.diag(1 / precision) - scaled.T @ np.linalg.solve(capacitance, scaled)
            inner[...] = inverse
            self._solve: Callable[[Floats], Floats] = inverse.dot
        else:
            from scipy.linalg import cho_solve

            gram = real.T @ real
            gram[np.diag_indices_from(gram)] += precision
            self._solve = partial(cho_solve, (np.linalg.cholesky(gram), True))
            inner[...] = self._solve(np.eye(cells))
            self.floor = self._proven_bound(gram, len(rest), inner)
        self._cells = inner.diagonal().copy()
        np.cumsum(inner, axis=0, out=inner)
        np.cumsum(inner, axis=1, out=inner)
        self._joint = covariance

    @staticmethod
    def _proven_bound(gram: Floats, rows: int, inverse: Floats) -> Floats:
        """Return a proven lower bound of all eigenvalues of G (``gram``), for each cell.

        ``inverse`` is an approximation of the inverse of G. Rump, "Verification of positive
        definiteness" (BIT 46, 2006).
        """
        # If Cholesky's method succeeds on G minus slightly more than its rounding error, G has no
        # negative eigenvalue.
        cells = len(gram)
        rounding = (cells + rows + 16) * 2.0**-50 * float(np.trace(gram))
        least = 0.5 / float(np.linalg.norm(inverse))
        for _ in range(8):
            lowered = gram.copy()
            lowered[np.diag_indices_from(lowered)] -= least + rounding
            try:
                np.linalg.cholesky(lowered)
                return np.full(cells, least)
            except np.linalg.LinAlgError:
                least /= 16
        raise InvalidInputError(
            "the columns of the matrix are almost linearly dependent, so estimates cannot be "
            "rounded reliably: add measurements"
        )

    @one_thread()
    @override
    def solve(self, right: Floats) -> Floats:
        return np.ascontiguousarray(self._solve(right.T).T, np.float64)

    @property
    @override
    def variances(self) -> tuple[Floats, Floats]:
        return np.asarray(self._joint.diagonal()), self._cells

    @override
    def range_variance(self, low: NDArray[Any], high: NDArray[Any]) -> Floats:
        last = len(self._cells) - 1
        variance: Floats = np.zeros(np.broadcast_shapes(np.shape(low), np.shape(high)))
        corners = []
        for ends, sign in ((low, -1), (high, 1)):
            cell = np.minimum(np.asarray(ends).astype(np.int64), last)
            share = ends - cell
            corners += [(cell, sign * (1 - share)), (cell + 1, sign * share)]
        for first, weight in corners:
            for two, times in corners:
                variance = variance + weight * times * self._joint[first, two]
        return np.maximum(variance, 0.0)


@one_thread()
def exact_product(left: Integers, right: NDArray[Any]) -> NDArray[Any]:
    """Return ``left @ right`` of int64 matrices, exactly modulo 2^64 and at the speed of float64;
    or, if ``right`` is float64, in float64.

    Both are split into digits so small that float64 adds up their products without rounding.

    >>> exact_product(np.array([[2**31, -1]]), np.array([[2**31 - 1], [7]])).tolist()
    [[4611686016279904249]]
    """
    if right.dtype != np.int64 or right.shape[1] == 1:  # conversion would cost as much
        return np.asarray(left.astype(right.dtype) @ right)
    left_bits = min(_bits(left), 22)
    right_bits = 53 - left_bits - left.shape[1].bit_length()
    product = np.zeros((left.shape[0], right.shape[1]), np.int64)
    for left_place, left_digit in _digits(left, left_bits):
        for right_place, right_digit in _digits(right, right_bits):
            # Bits that are shifted out at the top cancel, because arithmetic is modulo 2^64.
            product += (left_digit @ right_digit).astype(np.int64) << (left_place + right_place)
    return product


def _bits(numbers: Integers) -> int:
    """Return the number of bits of the largest magnitude among ``numbers``; at least 1."""
    return max(
        int(numbers.max(initial=0)).bit_length(), int(numbers.min(initial=0)).bit_length(), 1
    )


def _digits(numbers: Integers, bits: int) -> Iterator[tuple[int, Floats]]:
    """Yield (place, digits) of integers, lowest first: the sum of digits times 2^place.

    Only the highest digits, of ``bits`` bits each, may be negative.
    """
    shift = 0
    total = _bits(numbers)
    while shift + bits < total:
        yield shift, ((numbers >> shift) & ((1 << bits) - 1)).astype(np.float64)
        shift += bits
    yield shift, (numbers >> shift).astype(np.float64)


@lru_cache(maxsize=1)
def _cached_dense(kind: type[Dense], matrix: str, shape: tuple[int, int], name: str) -> Dense:
    """Return the strategy whose matrix is the text ``matrix``; the last result is cached."""
    return kind(integers_from_text(matrix, shape), name)

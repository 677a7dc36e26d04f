"""Strategies for lines whose normal equations can be solved with cells known otherwise too.

C has rows over several cells, H, and measures each cell by itself with a weight of its own. Where a
cell stands for a block of steps with a strategy inside, that says more of it, or less, than a row
of C does: it is then known with another variance, and least squares couple both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from numpy.typing import NDArray

from counton.arrays import Floats, Integers
from counton.strategies.lines.base import LineStrategy


class NormalEquations(ABC):
    """G u = r for G = H^T H + diag(precision): least squares where cells are known otherwise too.

    H are the rows of C over several cells. What one knows of a cell by itself, as a number with the
    variance 1 / precision, need not be its own row of C. Variances are in units of that of one
    measurement's noise.

    Attributes:
        floor: (cells,), positive and proven: G - diag(floor) has no negative eigenvalue.
    """

    floor: Floats

    @abstractmethod
    def solve(self, right: Floats) -> Floats:
        """About G^-1 r, line by line: shape (lines, cells)."""

    @property
    @abstractmethod
    def prefix_variance(self) -> Floats:
        """Variance of the sums of the first 1, 2, ..., n cells, (cells,)."""

    @property
    @abstractmethod
    def cell_variance(self) -> Floats:
        """Variance of every cell, (cells,): the diagonal of G^-1."""

    @abstractmethod
    def range_variance(self, low: NDArray[Any], high: NDArray[Any]) -> Floats:
        """Variance of the sums between two positions, real numbers with 0 <= low <= high <= n.

        Cells of which an end cuts off a part count in part.
        """


class OwnCells(LineStrategy):
    """A line of which every cell is measured by itself, besides rows over several cells, H.

    Attributes:
        own: each cell's own weight, int64 (cells,); 0 where a cell has no row of its own.
        rows: how many rows over several cells there are; in ``measure`` these come first.
    """

    own: Integers
    rows: int

    @abstractmethod
    def over(self, cells: NDArray[Any]) -> NDArray[Any]:
        """H x: (lines, cells) to (lines, rows), in the type of x; integers modulo 2^64."""

    @abstractmethod
    def under(self, rows: NDArray[Any]) -> NDArray[Any]:
        """H^T y: (lines, rows) to (lines, cells), in the type of y; integers modulo 2^64."""

    @abstractmethod
    def rows_of(self, cell: int) -> list[tuple[int, int]]:
        """(row, weight) of the rows over a cell, those of weight 0 left out."""

    @abstractmethod
    def equations(self, precision: Floats) -> NormalEquations:
        """H^T H + diag(precision), where a cell by itself is known with variance 1 / precision."""

"""What a strategy for lines is: an integer matrix C whose noisy product gives all cells back.

One line of ``cells`` counts x is measured as y = C x + z with one independent draw of noise per row
of C. C has integer entries (real weights in units of ``2**-bits``), so y is exact in integers
and what is published is a function of y alone: floating point comes after privacy.
Strategies are pure mathematics: no randomness, no data, no privacy. `counton.testing` holds their
laws.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Floats, Integers
from counton.errors import SumOverflow
from counton.exact import check_integer
from counton.strategies.base import NodeNoise
from counton.strategies.norms import ColumnNorms

#: Weights are multiples of 2^-20 of the largest unless stated otherwise.
LATTICE_BITS = 20
LARGEST_CELLS = 2**32


class LineStrategy(ABC):
    """A way to measure a line of cells.

    Attributes:
        name: by which it is chosen.
        cells: number of cells n.
        measurements: rows of C.
        works_on_grids: it can be one axis of a grid, not only a line.
        unit_columns: all non-zero entries of C are known to be +1 or -1.
    """

    name: str
    cells: int
    measurements: int
    works_on_grids: ClassVar[bool] = True
    unit_columns: bool = False

    @classmethod
    def examples(cls, cells: int) -> Sequence[LineStrategy]:
        """Instances over ``cells`` cells: what the laws of ``counton.testing`` run over.

        Override it where the constructor needs more than the number of cells.
        """
        return (cls(cells),)  # type: ignore[call-arg]

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """JSON values that say which C this is; part of the noise address."""

    @abstractmethod
    def measure(self, counts: Integers) -> Integers:
        """C x exactly: (cells, ...) to (measurements, ...)."""

    @abstractmethod
    def estimate(self, measured: NDArray[Any]) -> Floats:
        """Unbiased cells from y: (measurements, ...) to (cells, ...). Post-processing."""

    def running_sums(self, counts: Integers, noise: NodeNoise, bits: int) -> tuple[Integers, int]:
        """Private running sums of one line: a function of y = C x + z alone.

        Args:
            counts: x, shape (cells,), so small that C x fits into int64 with room for noise.
            noise: z, one draw a measurement: consecutive nodes of level 0.
            bits: sums on multiples of 2^-bits are wanted, so that adjacent intervals add up.

        Returns:
            int64 of shape (cells + 1,), the sums of the first 0, 1, ..., n cells in units of
            2^-b, and b: ``bits``, unless the strategy has a grid of its own.

        Raises:
            SumOverflow: sums beyond 2^53 units, where float64 is not exact.
        """
        measured = self.measure(counts)
        measured += noise.run(0, range(self.measurements))
        return rounded_sums(self.estimate(measured), bits), bits

    @abstractmethod
    def l1_sensitivity(self) -> int:
        """Exact maximum 1-norm of a column of C: one unit added or removed."""

    @abstractmethod
    def squared_sensitivity(self) -> int:
        """Exact maximum squared 2-norm of a column of C."""

    @abstractmethod
    def l1_move_sensitivity(self) -> int:
        """At least the 1-norm of any difference of two columns: one unit moved."""

    @abstractmethod
    def squared_move_sensitivity(self) -> int:
        """At least the squared 2-norm of any difference of two columns."""

    @property
    def least_inner(self) -> int:
        """At most the inner product of any two columns; 0 where C has no negative entry."""
        return 0

    def norms(self) -> ColumnNorms:
        """All sensitivities together."""
        return ColumnNorms(
            self.l1_sensitivity(),
            self.squared_sensitivity(),
            self.l1_move_sensitivity(),
            self.squared_move_sensitivity(),
            self.unit_columns,
        )

    @property
    @abstractmethod
    def largest_entry(self) -> int:
        """Largest magnitude in C: bounds C x."""

    @abstractmethod
    def variance(self, low: Integers, high: Integers) -> Floats:
        """Variance of the sums over [low, high), in units of one measurement's noise variance."""

    @abstractmethod
    def ranges_variance(self) -> float:
        """Total variance of all n (n + 1) / 2 ranges, in the same units."""

    @abstractmethod
    def functional_variance(self, weights: Floats) -> float:
        """Total variance of the queries ``weights`` (queries, cells), in the same units."""

    def matrix(self) -> Integers:
        """C itself, shape (measurements, cells); small lines only."""
        return self.measure(np.eye(self.cells, dtype=np.int64))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({arguments})"


def check_cells(cells: int) -> int:
    """``cells`` itself, if a line can have as many.

    Raises:
        InvalidInput: below 1 or above 2^32.
    """
    return check_integer("cells", cells, 1, LARGEST_CELLS)


def rounded_sums(cells: Floats, bits: int) -> Integers:
    """Running sums along every axis on multiples of 2^-bits, with zeros in front.

    ``cells`` is overwritten.

    Raises:
        SumOverflow: sums of 2^53 units or more.

    >>> rounded_sums(np.array([0.3, 0.3]), bits=2).tolist()
    [0, 1, 2]
    """
    for axis in range(cells.ndim):
        np.cumsum(cells, axis=axis, out=cells)
    np.rint(np.multiply(cells, 2.0**bits, out=cells), out=cells)
    largest = float(np.abs(cells).max())
    if largest >= 2.0**53:
        raise SumOverflow(
            f"private sums reach {largest * 2.0**-bits:.3g}; at this noise they are exact up to "
            f"{2.0 ** (53 - bits):.3g}: count in larger units"
        )
    sums = np.zeros(tuple(count + 1 for count in cells.shape), np.int64)
    sums[(slice(1, None),) * cells.ndim] = cells
    return sums


def on_lattice(weights: NDArray[Any], bits: int) -> tuple[int, ...]:
    """Real weights as integers, the largest at 2^bits; positive weights stay at least 1."""
    scaled = np.rint(weights / weights.max() * 2.0**bits).astype(np.int64)
    return tuple(int(v) for v in np.where(weights > 0, np.maximum(scaled, 1), 0))

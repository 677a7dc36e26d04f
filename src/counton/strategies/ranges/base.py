"""What a strategy for ranges is: an integer matrix C whose noisy product gives all cells back.

One line of ``cells`` counts x is measured as y = C x + z with one independent draw of noise per row
of C. C has integer entries (real weights in units of ``2**-bits``), so y is exact in integers
and what is published is a function of y alone: floating point comes after privacy.
Strategies are pure mathematics: no randomness, no data, no privacy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Weights are multiples of 2^-20 of the largest unless stated otherwise.
LATTICE_BITS = 20
LARGEST_CELLS = 2**32


class RangeStrategy(ABC):
    """A way to measure a line of cells.

    Attributes:
        name: by which it is chosen.
        cells: number of cells n.
        measurements: rows of C.
        exchange: the strategy can be one axis of a grid (it offers `measure` and `estimate`).
    """

    name: str
    cells: int
    measurements: int
    exchange: ClassVar[bool] = True

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

    @property
    @abstractmethod
    def l1(self) -> int:
        """Largest 1-norm of a column of C: one unit added or removed."""

    @property
    @abstractmethod
    def l2_squared(self) -> int:
        """Largest squared 2-norm of a column of C."""

    @property
    @abstractmethod
    def move_l1(self) -> int:
        """At least the 1-norm of any difference of two columns: one unit moved."""

    @property
    @abstractmethod
    def move_l2_squared(self) -> int:
        """At least the squared 2-norm of any difference of two columns."""

    @property
    def least_inner(self) -> int:
        """At most the inner product of any two columns; 0 where C has no negative entry."""
        return 0

    @property
    def units(self) -> int | None:
        """Non-zero entries of the largest column if every entry of C is 1, else None."""
        return None

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
    if isinstance(cells, bool) or not isinstance(cells, (int, np.integer)):
        raise InvalidInput(f"cells is {cells!r}; give an integer of at least 1")
    if not 1 <= cells <= LARGEST_CELLS:
        raise InvalidInput(f"there are {cells} cells; there must be between 1 and 2^32")
    return int(cells)


def on_lattice(weights: NDArray[Any], bits: int) -> tuple[int, ...]:
    """Real weights as integers, the largest at 2^bits; positive weights stay at least 1."""
    scaled = np.rint(weights / weights.max() * 2.0**bits).astype(np.int64)
    return tuple(int(v) for v in np.where(weights > 0, np.maximum(scaled, 1), 0))

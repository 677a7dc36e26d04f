"""What one protected unit can change in one step, and the grid on which totals are exact."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.errors import InvalidInput
from counton.exact import Number, exact, text
from counton.privacy import grid
from counton.shift import Shift

Relation = Literal["add_remove", "replace"]

_RELATIONS = ("add_remove", "replace")
_MOST = 2**40  # noise for a larger change could not be summed in int64


@dataclass(frozen=True, slots=True)
class Contribution:
    """The protected unit and the neighbouring relation. Build it with one of the class methods.

    Attributes:
        relation: neighbours differ by a unit that is added or removed, or by one replaced.
        cells: most cells of one step's vector that a unit counts in.
        per_cell: most by which one cell can differ between neighbours, in grid units.
        lower, upper, resolution: of clipped values, in data units; None for counts.

    >>> print(Contribution.add_remove())
    one unit, which counts in one cell of one step by at most 1, added or removed
    """

    relation: Relation
    cells: int
    per_cell: int
    lower: Fraction | None = None
    upper: Fraction | None = None
    resolution: Fraction | None = None

    def __post_init__(self) -> None:
        if self.relation not in _RELATIONS:
            raise InvalidInput(
                f"neighbours is {self.relation!r}; it must be 'add_remove' or 'replace'"
            )
        amounts: dict[str, Any] = {"cells": self.cells, "per_cell": self.per_cell}
        for name, value in amounts.items():
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not whole or not 1 <= value <= _MOST:
                raise InvalidInput(
                    f"{name} is {value!r}; it must be an integer from 1 to 2^40: state the most "
                    f"that one unit can change"
                )
            object.__setattr__(self, name, int(value))

    @classmethod
    def add_remove(cls, cells: int = 1, per_cell: int = 1) -> Contribution:
        """A unit present or absent: up to ``cells`` cells of one step, each by up to ``per_cell``.

        Raises:
            InvalidInput: ``cells`` or ``per_cell`` is not an integer from 1 to 2^40.
        """
        return cls("add_remove", cells, per_cell)

    @classmethod
    def replace(cls, cells: int = 1, per_cell: int = 1) -> Contribution:
        """A unit replaced by another within its step, each counting in up to ``cells`` cells.

        ``per_cell`` is the most by which a cell can change. Up to ``2 * cells`` cells change:
        those that the old unit leaves and those that the new one enters.

        Raises:
            InvalidInput: ``cells`` or ``per_cell`` is not an integer from 1 to 2^40.
        """
        return cls("replace", cells, per_cell)

    @classmethod
    def clipped(
        cls,
        lower: Number,
        upper: Number,
        resolution: Number,
        neighbours: Relation = "add_remove",
    ) -> Contribution:
        """A unit has one real value: clipped to bounds, put on a grid, added to one cell.

        Sensitivity in grid units is ``max(|lower|, |upper|) / resolution`` when units are added or
        removed; a replaced unit may also change by ``(upper - lower) / resolution`` in its cell.

        Raises:
            InvalidInput: bounds that are not finite, not ascending or not multiples of
                ``resolution``; a resolution that is not above 0 or too fine.

        >>> Contribution.clipped(-5, 100, resolution=0.01).per_cell
        10000
        """
        low, high = exact(lower, "lower"), exact(upper, "upper")
        step = exact(resolution, "resolution")
        if step <= 0:
            raise InvalidInput(
                f"resolution is {text(step)}; it must be above 0: state the finest difference "
                f"that matters"
            )
        if low >= high:
            raise InvalidInput(
                f"lower is {text(low)}, which is not below upper, {text(high)}: swap the bounds or "
                f"widen them"
            )
        for name, bound in (("lower", low), ("upper", high)):
            if (bound / step).denominator != 1:
                below = (bound // step) * step
                raise InvalidInput(
                    f"{name} is {text(bound)}, not a multiple of the resolution {text(step)}; the "
                    f"nearest ones are {text(below)} and {text(below + step)}"
                )
        most = max(abs(low), abs(high))
        change = max(most, high - low) if neighbours == "replace" else most
        if change / step > _MOST:
            raise InvalidInput(
                f"resolution is {text(step)}, which makes {int(change / step)} grid cells of one "
                f"unit's change; at most 2^40 are allowed: use {text(step * 1000)} or coarser"
            )
        return cls(neighbours, 1, int(change / step), low, high, step)

    @property
    def neighbours(self) -> str:
        """The neighbouring relation, in words."""
        return "added or removed" if self.relation == "add_remove" else "replaced by another"

    def describe(self, unit: str = "unit", *, steps: bool = True) -> str:
        """What is protected, and the neighbouring relation, in words.

        Args:
            unit: what one protected unit is called.
            steps: whether cells belong to the steps of a stream; a table has none.

        >>> Contribution.replace(cells=2).describe("visitor", steps=False)
        'one visitor, which counts in up to 2 cells each by at most 1, replaced by another'
        """
        where = " of one step" if steps else ""
        if self.resolution is not None and self.lower is not None and self.upper is not None:
            counts = (
                f"whose value, clipped to [{text(self.lower)}, {text(self.upper)}] in steps of "
                f"{text(self.resolution)}, counts in one cell{where}"
            )
        else:
            cells = "one cell" if self.cells == 1 else f"up to {self.cells:,} cells"
            each = " each" if self.cells > 1 else ""
            counts = f"which counts in {cells}{where}{each} by at most {self.per_cell:,}"
        return f"one {unit}, {counts}, {self.neighbours}"

    def __str__(self) -> str:
        return self.describe()

    def shift(
        self,
        column_l1: Fraction,
        column_l2_squared: Fraction,
        unit_columns: bool,
        cells: int,
        lattice_bits: int = 0,
    ) -> Shift:
        """Worst change of all node values between neighbours, in units of ``2**-lattice_bits``.

        Args:
            column_l1: largest 1-norm of a column of C (real units).
            column_l2_squared: largest squared 2-norm of a column of C.
            unit_columns: all non-zero entries of C are +1 or -1.
            cells: how many cells one step's vector has.
            lattice_bits: node values lie on multiples of ``2**-lattice_bits``.

        Raises:
            InvalidInput: norms that no column on that lattice has.

        >>> Contribution.replace(cells=2).shift(Fraction(3), Fraction(3), True, cells=10)
        Shift(l1=12, l2_squared=12, entries=((1, 12),))
        """
        if cells < 1:
            raise InvalidInput(f"a step's vector has {cells} cells; it must have at least 1")
        column = int(column_l1 * 2**lattice_bits)
        column_squared = int(column_l2_squared * 4**lattice_bits)
        if (column, column_squared) != (
            column_l1 * 2**lattice_bits,
            column_l2_squared * 4**lattice_bits,
        ):
            raise InvalidInput(
                f"columns with norms {column_l1} and {column_l2_squared} squared do not lie on "
                f"multiples of 2^-{lattice_bits}: pass the strategy's own lattice_bits"
            )
        l1, l2_squared, changes = self._change(cells)
        entries = None
        if unit_columns and changes is not None:
            magnitude, count = changes
            entries = ((magnitude * 2**lattice_bits, count * int(column_l1)),)
        return Shift(column * l1, column_squared * l2_squared, entries)

    def _change(self, cells: int) -> tuple[int, int, tuple[int, int] | None]:
        """l1 and squared l2 of the worst change of one step's vector, and its entries if known."""
        size = self.per_cell
        if self.relation == "add_remove":
            count = min(self.cells, cells)
            return size * count, size**2 * count, (size, count)
        if self.lower is None or self.upper is None or self.resolution is None:
            count = min(2 * self.cells, cells)
            return size * count, size**2 * count, (size, count)
        # A value may change within its cell by `width`, or leave one cell for another.
        width = int((self.upper - self.lower) / self.resolution)
        if cells == 1:
            return width, width**2, (width, 1)
        most = int(max(abs(self.lower), abs(self.upper)) / self.resolution)
        known = (most, 2) if width <= most else None
        return 2 * most, max(width**2, 2 * most**2), known

    def clip(self, values: grid.Numbers) -> NDArray[np.float64]:
        """Values of single units as they will count: clipped and on the grid, in data units.

        Raises:
            InvalidInput: as `to_grid`.

        >>> Contribution.clipped(0, 10, resolution=0.5).clip([-3, 2.6, 99])
        array([ 0. ,  2.5, 10. ])
        """
        return np.asarray(grid.to_data(self.to_grid(values), self._step), dtype=np.float64)

    def to_grid(self, values: grid.Numbers) -> NDArray[np.int64]:
        """Values of single units in grid units: int64, the shape of ``values``.

        Clipped contributions clip and round to the nearest grid point. Counts must already be
        integers of at most ``per_cell``: a count that is cut in silence would be a wrong count.

        Raises:
            InvalidInput: NaN, infinity or not a number, naming position and value; for counts
                also fractions and values beyond ``per_cell``.

        >>> Contribution.clipped(0, 10, resolution=0.5).to_grid([-3, 2.6, 99])
        array([ 0,  5, 20])
        """
        if self.resolution is None or self.lower is None or self.upper is None:
            return np.asarray(grid.counts(values, self.per_cell))
        return np.asarray(grid.clip(values, self.lower, self.upper, self.resolution))

    def grid_total(self, totals: grid.Numbers) -> NDArray[np.int64]:
        """Totals of a step in data units as exact grid integers: int64, the shape of ``totals``.

        Integers, Fractions and Decimals must lie on the grid. Floats may be off by a hundredth of
        a grid cell, which undoes the rounding of a float sum; without a resolution they are
        refused.

        Raises:
            InvalidInput: a total off the grid, NaN, infinite, or not a number.
            SumOverflow: a total beyond 2^62 grid cells.

        >>> Contribution.clipped(0, 10, resolution=0.1).grid_total(0.1 + 0.2)
        array(3)
        """
        return np.asarray(grid.totals(totals, self.resolution))

    def from_grid(self, totals: ArrayLike) -> NDArray[Any]:
        """Grid integers in data units: int64 for counts, else the nearest float64."""
        return grid.to_data(np.asarray(totals), self._step)

    @property
    def _step(self) -> Fraction:
        return Fraction(1) if self.resolution is None else self.resolution

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which `from_dict` rebuilds the contribution exactly."""
        if self.resolution is None or self.lower is None or self.upper is None:
            return {"neighbours": self.relation, "cells": self.cells, "per_cell": self.per_cell}
        return {
            "neighbours": self.relation,
            "lower": text(self.lower),
            "upper": text(self.upper),
            "resolution": text(self.resolution),
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Contribution:
        """Inverse of `to_dict`.

        Raises:
            InvalidInput: missing, unknown or invalid parameters.
        """
        try:
            if "resolution" in saved:
                return cls.clipped(**saved)
            return cls(saved["neighbours"], saved["cells"], saved["per_cell"])
        except (KeyError, TypeError) as error:
            raise InvalidInput(f"saved contribution {saved} does not fit: {error}") from error

"""A contingency table with all its margins over time; margins and cells add up at every step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from typing_extensions import override

from counton.base.arrays import Column, Integers
from counton.base.errors import InvalidInputError, param
from counton.base.exact import in_parts, quote_name
from counton.continual.formulas import TableNumbers
from counton.continual.table_request import EVERY_ROW, TableRequest
from counton.privacy.contribution import Relation
from counton.statistics.grid_cells import GridCells, GridResult
from counton.statistics.statistic import ErrorScale
from counton.strategies.strategy import Norm
from counton.tables.grid import Grid, margins_strategies

#: Largest product of the integer weights on all columns: over time, where sums keep growing, and
#: for one release.
_LARGEST_WEIGHT = 2**12
_LARGEST_WEIGHT_OF_ONE_RELEASE = 2**28
#: Largest number of rows of all margins together.
_MOST_ROWS = 10**6


class ContingencyResult(GridResult):
    """Released counts of all cells and margins of a table at one step, or between two steps.

    The name of a number is a tuple with a value for each column, in order; None sums over a column.
    """

    statistic: Contingency

    def _box(self, name: object) -> tuple[Integers, Integers]:
        """Return the first cell, and the cell after the last, on each axis: shape ``(columns, 1)``.

        A / separates the values of a text, a * sums over a column.
        """
        statistic = self.statistic
        requested_name = name
        if isinstance(name, str):
            parts = [name] if len(statistic.columns) == 1 else name.split("/")
            name = tuple(None if part == "*" else part for part in parts)
        if name is None:
            name = (None,) * len(statistic.columns)
        values = in_parts(name)
        if len(values) != len(statistic.columns):
            example = "/".join(
                [next(iter(statistic.columns.values()))[0], *"*" * (len(statistic.columns) - 1)]
            )
            raise InvalidInputError(
                f"{quote_name(requested_name)} names no cell: give one value for each of "
                f"{', '.join(statistic.columns)}, in this order, with '/' between them; * means "
                f"all values of a column, as in {example!r}"
            )
        places = [
            None if value is None else statistic.place_of(axis, value)
            for axis, value in enumerate(values)
        ]
        low = [0 if place is None else place for place in places]
        high = [
            size if place is None else place + 1
            for place, size in zip(places, statistic.shape, strict=True)
        ]
        return np.array(low)[:, None], np.array(high)[:, None]

    def margin(self, *columns: str, confidence_level: float = 0.95) -> dict[str, Column]:
        """Return the counts of all combinations of some columns' values, with intervals.

        Without columns it is the total. Margins agree exactly.

        Raises:
            InvalidInputError: a column is unknown, or named twice.
        """
        return self._margin(columns).columns(confidence_level)

    def _margin(self, columns: Sequence[str]) -> TableNumbers:
        statistic = self.statistic
        names = list(statistic.columns)
        for name in columns:
            if name not in names or columns.count(name) > 1:
                raise InvalidInputError(
                    f"the margin {columns!r} is not known: give names among {', '.join(names)}, "
                    "each only once"
                )
        kept = [names.index(name) for name in columns]
        sizes = [statistic.shape[axis] for axis in kept]
        picked = np.indices(sizes).reshape(len(kept), -1) if kept else np.zeros((0, 1), np.int64)
        low = np.zeros((len(names), picked.shape[1]), np.int64)
        high = low + np.array(statistic.shape)[:, None]
        labels: dict[str, Column] = {}
        for row, axis in enumerate(kept):
            low[axis] = picked[row]
            high[axis] = picked[row] + 1
            labels[names[axis]] = np.array(statistic.columns[names[axis]], dtype=object)[
                picked[row]
            ]
        return TableNumbers(labels, self.of_boxes(low, high))

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        """Return the rows of the table: every margin, the total first and the cells last."""
        names = list(self.statistic.columns)
        kept = [
            columns for count in range(len(names) + 1) for columns in combinations(names, count)
        ]
        margins = [self._margin(columns) for columns in kept]
        about = {}
        for name in names:
            labels = [
                margin.about.get(name, np.full(np.size(margin.numbers.value), None, dtype=object))
                for margin in margins
            ]
            about[name] = np.concatenate(labels)
        return TableNumbers.stack(margins, about)


class Contingency(GridCells):
    """Counts of every combination of values of some columns, and of all margins.

    An event is a tuple with a value for each column, such as ("f", "no"); with ``counts`` a pair
    such as (("f", "no"), 3), which counts 3 times.

    Args:
        columns: the public values of each column, by name; or pairs of a name and values.
        equal: the same accuracy of all margins, instead of the least total error.
        counts, neighbours, unit: as in `Hierarchy`.
        grid: the matrix of the measured sums, as `Grid.to_dict` describes it; None: the best one.

    Raises:
        InvalidInputError: values that are not texts or occur twice, or more than a million margins.

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> people = Contingency({"sex": ["f", "m"], "smokes": ["no", "yes"]})
    >>> counter = RunningStatistic.start(
    ...     people, 12, ZCDP(2), key=Key.generate(), name="people", batched=True
    ... )
    >>> month = counter.release_batch([("f", "no")] * 300 + [("m", "yes")] * 100)
    >>> month["f", None] == month["f", "no"] + month["f", "yes"], abs(month["f", None] - 300) < 60
    (True, True)
    """

    is_table = True
    result_type = ContingencyResult
    keyword = "contingency"
    example = "columns=page,device groups=page=home,shop;device=phone,desk"
    says = "How many rows have each combination of some columns' values, with all margins."
    help = (
        f"With {param('time')} all margins are released after each window, as count releases "
        f"its totals. Without {param('time')} the table is released once: the same command again "
        f"shows the same numbers. The table has every margin; a column is empty where it adds up "
        f"all values."
    )
    phrase = "contingency table of {columns}"
    also_called = ("crosstab", "table")

    def __init__(
        self,
        columns: Mapping[str, Sequence[str]] | Sequence[Sequence[object]],
        *,
        equal: bool = False,
        counts: bool = False,
        grid: Mapping[str, object] | Grid | None = None,
        neighbours: Relation = "add_remove",
        unit: str | None = None,
    ) -> None:
        self.equal = bool(equal)
        super().__init__(columns, counts=counts, grid=grid, neighbours=neighbours, unit=unit)
        self.domain = self.columns
        rows = math.prod(size + 1 for size in self.shape)
        if rows > _MOST_ROWS:
            raise InvalidInputError(
                f"all margins together have {rows:,} rows, and at most {_MOST_ROWS:,} can be "
                "released: take fewer columns or values"
            )

    @staticmethod
    @override
    def label(names: Mapping[str, Any]) -> str:
        parts = [f"{name} {value}" for name, value in names.items() if value is not None]
        return ", ".join(parts) or "total"

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        parameters: dict[str, object] = {
            "columns": [[name, [*labels]] for name, labels in self.columns.items()]
        }
        return {**parameters, **({"equal": True} if self.equal else {}), **super().parameters}

    @override
    def _choose(self, norm: Norm, horizon: int | None = None) -> Grid:
        most = _LARGEST_WEIGHT_OF_ONE_RELEASE if horizon == 1 else _LARGEST_WEIGHT
        return Grid(margins_strategies(self.shape, norm, equal=self.equal, largest_weight=most))

    @property
    @override
    def error_of(self) -> ErrorScale:
        mean = 1.0
        largest = 1.0
        for axis in self.grid.axes:
            low = np.array([0, 0])
            cell, whole = axis.variance(low, np.array([1, axis.cells]))
            mean *= float(axis.cells * cell + whole) / (axis.cells + 1)
            largest *= float(max(cell, whole))
        meaning = "a number of any margin, over all steps and margins"
        return ErrorScale(meaning, math.sqrt(mean), math.sqrt(largest))

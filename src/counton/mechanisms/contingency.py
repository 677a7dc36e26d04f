"""Contingency tables by named columns: one release, every margin consistent.

Along each column the cells and their sum are measured, weights a and b; the table's measurements
are the Kronecker product, so every margin of every set of columns is measured, and least squares
makes them agree. With a = b every margin of a table has the same variance (the cascade of "Ranges"
on trees of one level, its section D.3); by default a and b are those of least total error over all
margins.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.columns import (
    OUTSIDE,
    check_names,
    codes_among,
    codes_of,
    columns_of,
    data_frame,
    labels_bytes,
    refuse_added,
)
from counton.errors import InvalidInput
from counton.laws import Family
from counton.mechanisms.ranges import (
    RangesPlan,
    RangesRelease,
    check_size,
    plan_ranges,
    released_cells,
)
from counton.mechanisms.tables import (
    NORMS,
    best_of_kinds,
    check_room,
    checked_counts,
)
from counton.noise import Key
from counton.privacy import Contribution, Guarantee
from counton.strategies.lines.grid import margins_strategies
from counton.strategies.lines.workload import Margins


def plan_margins(
    shape: tuple[int, ...],
    *,
    guarantee: Guarantee,
    contribution: Contribution | None,
    equal: bool,
) -> RangesPlan:
    """The weights and the noise of least total error over all margins."""
    margins = tuple(Margins(cells) for cells in shape)

    def attempt(family: Family) -> RangesPlan:
        axes = margins_strategies(shape, NORMS[family], equal=equal)
        return plan_ranges(
            shape,
            guarantee=guarantee,
            contribution=contribution,
            strategy=axes,
            workload=margins,
        )

    return best_of_kinds(guarantee, attempt, cost=lambda plan: plan.best.expected_error)


@dataclass(frozen=True, eq=False)
class ContingencyRelease:
    """Private margins of a contingency table.

    Attributes:
        columns: names of the columns.
        values: for each column, its values in order.
        ranges: the release of the grid of cells behind it.

    >>> from counton.privacy import ZCDP
    >>> table = release_contingency(
    ...     {"sex": ["f", "m", "f"]}, columns=["sex"], domain={"sex": ["f", "m"]},
    ...     guarantee=ZCDP(0.5), key=Key.generate(),
    ... )
    >>> list(table.margin("sex"))
    ['sex', 'estimate', 'std']
    """

    columns: tuple[str, ...]
    values: tuple[NDArray[Any], ...]
    ranges: RangesRelease

    def margin(self, *columns: str) -> dict[str, NDArray[Any]]:
        """The margin of some columns: their values in all combinations, estimate, std.

        Without columns it is the total. Every margin is the exact sum of every finer one.

        Raises:
            InvalidInput: an unknown column, or one named twice.
        """
        for name in columns:
            if name not in self.columns or columns.count(name) > 1:
                raise InvalidInput(
                    f"margin of {columns!r}: every name must be one of {', '.join(self.columns)}, "
                    f"and only once"
                )
        kept = [self.columns.index(name) for name in columns]
        cells = self.ranges.cells()
        dropped = tuple(i for i in range(len(self.columns)) if i not in kept)
        summed = cells.sum(axis=dropped)
        order = sorted(kept)
        estimates = np.transpose(summed, [order.index(i) for i in kept]).ravel()
        sizes = [len(self.values[column]) for column in kept]
        picked = np.indices(sizes).reshape(len(kept), -1).T if kept else np.zeros((1, 0), np.int64)
        low = np.zeros((len(picked), len(self.columns)), np.int64)
        high = low + np.array(self.ranges.shape)
        for place, column in enumerate(kept):
            low[:, column] = picked[:, place]
            high[:, column] = picked[:, place] + 1
        if len(self.columns) == 1:
            low, high = low[:, 0], high[:, 0]
        found: dict[str, NDArray[Any]] = {
            name: self.values[column][picked[:, place]]
            for place, (name, column) in enumerate(zip(columns, kept, strict=True))
        }
        return {**found, "estimate": estimates, "std": self.ranges.std(low, high)}

    def table(self, *columns: str) -> Any:
        """The margin as a polars data frame; as `margin`.

        Raises:
            InvalidInput: as `margin`.
            MissingExtra: polars is not installed; `margin` needs none.
        """
        return data_frame(self.margin(*columns))

    def __str__(self) -> str:
        return f"columns {', '.join(self.columns)}: {self.ranges.describe()}"


def release_contingency(
    data: Any,
    *,
    guarantee: Guarantee,
    contribution: Contribution | None = None,
    key: Key,
    name: str = "contingency",
    columns: Sequence[str],
    domain: Mapping[str, Sequence[Any]],
    value: str | None = None,
    equal: bool = False,
) -> ContingencyRelease:
    """Release a contingency table with all its margins, once.

    Args:
        data: a data frame or mapping of columns; one row a unit, or a count in column ``value``.
        guarantee, contribution, key, name: as in `release_ranges`.
        columns: the columns of the table.
        domain: for each column the values it can have: public, and all of them.
        value: name of a column of counts; None counts rows.
        equal: the same variance for every margin, instead of least total error over all margins.

    Raises:
        InvalidInput: missing columns, empty or repeating domains, values outside them, counts
            that are not non-negative integers, too many cells to be measured in memory, or as
            `release_ranges`.
        SumOverflow: counts too large to be measured exactly.

    >>> from counton.privacy import ZCDP
    >>> data = {"sex": ["f", "m", "f"], "smokes": ["no", "no", "yes"]}
    >>> table = release_contingency(
    ...     data, columns=["sex", "smokes"], domain={"sex": ["f", "m"], "smokes": ["no", "yes"]},
    ...     guarantee=ZCDP(0.5), key=Key.generate(), equal=True,
    ... )
    >>> table.margin("sex")["sex"].tolist(), table.margin("sex")["std"].round(3).tolist()
    (['f', 'm'], [1.333, 1.333])
    >>> bool(table.margin("sex")["estimate"].sum() == table.margin()["estimate"][0])
    True
    """
    check_names(columns)
    values = [_listed(column, domain) for column in columns]
    refuse_added(columns)
    plan = plan_margins(
        tuple(map(len, values)), guarantee=guarantee, contribution=contribution, equal=equal
    )
    check_size(plan.best.grid.shape, plan.best.grid.axes)
    counts = _counted(data, columns, values, value)
    means = {
        "columns": list(columns),
        "value": value,
        "values_sha256": [hashlib.sha256(labels_bytes(part)).hexdigest() for part in values],
    }
    released = released_cells(counts, plan, key=key, kind="contingency", name=name, means=means)
    return ContingencyRelease(tuple(columns), tuple(values), released)


def _listed(column: str, domain: Mapping[str, Sequence[Any]]) -> NDArray[Any]:
    """The values of a column in order."""
    if column not in domain:
        raise InvalidInput(
            f"the domain does not list the values of {column!r}; values observed in the data "
            f"would give it away: declare them all"
        )
    listed = list(domain[column])
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    _, values = codes_of(array)
    if not listed or len(values) < len(listed):
        raise InvalidInput(
            f"the domain of {column!r} has {len(listed)} values, {len(values)} of them different "
            f"and not missing; it must list at least one, each once"
        )
    return values


def _counted(
    data: Any, columns: Sequence[str], values: Sequence[NDArray[Any]], value: str | None
) -> NDArray[np.int64]:
    """Counts of all cells, shape (values of column 1, ...)."""
    names = [*columns] if value is None else [*columns, value]
    found = columns_of(data, names, "data")
    weights = checked_counts(found[-1], "the data") if value is not None else None
    shape = tuple(len(listed) for listed in values)
    place = np.zeros(len(found[0]), np.int64)
    for name, column, listed in zip(columns, found, values, strict=False):
        codes = codes_among(column, listed)
        if codes.size and codes.min() < 0:
            row = int(np.argmax(codes < 0))
            what = (
                "is missing"
                if codes[row] != OUTSIDE
                else f"is {column[row : row + 1].tolist()[0]!r}"
            )
            raise InvalidInput(
                f"row {row + 1:,} of the data: {name} {what}, which is not in the domain: "
                f"declare it or drop the row"
            )
        place = place * len(listed) + codes
    if weights is not None:
        check_room(weights, 1)
    counts = np.zeros(math.prod(shape), np.int64)
    np.add.at(counts, place, 1 if weights is None else weights)
    return counts.reshape(shape)

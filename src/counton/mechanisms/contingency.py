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
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Floats, Integers
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
    CellsDraft,
    RangesPlan,
    RangesRelease,
    check_size,
    plan_ranges,
    saved_cells,
)
from counton.mechanisms.tables import (
    NORMS,
    TableRelease,
    best_of_kinds,
    check_room,
    checked_counts,
    stated,
)
from counton.mechanisms.terms import TableTerms
from counton.mechanisms.whole_numbers import bounds_of, whole_numbers
from counton.noise import Key
from counton.privacy import Contribution, Guarantee
from counton.strategies.lines.grid import margins_strategies
from counton.strategies.lines.workloads import Margins

#: Rows of all margins together, at most.
_MOST_ROWS = 10**6


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


@dataclass(frozen=True, eq=False, repr=False)
class ContingencyRelease(TableRelease):
    """Private margins of a contingency table.

    Attributes:
        columns: names of the columns.
        values: for each column, its values in the order of the cells, which is sorted.
        ranges: the release of the grid of cells behind it.
        declared: for each column, its values in the order of the domain: that of all tables.

    See `TableRelease` for ``terms``, ``guarantee``, ``contribution``, ``input_digest`` and
    ``repeated``.

    >>> from counton import Key, ZCDP, release_contingency
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
    declared: tuple[NDArray[Any], ...]

    @cached_property
    def _order(self) -> tuple[Integers, ...]:
        """For each column, the places of the declared values among the cells."""
        return tuple(
            codes_among(declared, values)
            for declared, values in zip(self.declared, self.values, strict=True)
        )

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
        picked, low, high = self._boxes(kept)
        found: dict[str, NDArray[Any]] = {
            name: self.values[column][picked[:, place]]
            for place, (name, column) in enumerate(zip(columns, kept, strict=True))
        }
        estimates = self._summed(self.ranges.cells(), kept)
        return {**found, "estimate": estimates, "std": self.ranges.std(low, high)}

    def _summed(self, cells: NDArray[Any], kept: Sequence[int]) -> NDArray[Any]:
        """Sums of cells over all other columns, values in declared order."""
        summed = cells.sum(axis=tuple(i for i in range(len(self.columns)) if i not in kept))
        order = sorted(kept)
        turned = np.transpose(summed, [order.index(i) for i in kept])
        return np.asarray(
            turned[np.ix_(*(self._order[i] for i in kept))] if kept else turned
        ).ravel()

    def _boxes(self, kept: Sequence[int]) -> tuple[Integers, Integers, Integers]:
        """Which values a margin combines, and the box of cells that each adds up."""
        sizes = [len(self.values[column]) for column in kept]
        picked = np.indices(sizes).reshape(len(kept), -1).T if kept else np.zeros((1, 0), np.int64)
        for place, column in enumerate(kept):
            picked[:, place] = self._order[column][picked[:, place]]
        low = np.zeros((len(picked), len(self.columns)), np.int64)
        high = low + np.array(self.ranges.shape)
        for place, column in enumerate(kept):
            low[:, column] = picked[:, place]
            high[:, column] = picked[:, place] + 1
        if len(self.columns) == 1:
            low, high = low[:, 0], high[:, 0]
        return picked, low, high

    def table(self, *columns: str, level: float = 0.95) -> Any:
        """The margin as a polars data frame, with intervals that hold with probability ``level``.

        Columns: those of `margin`, and lower and upper.

        Raises:
            InvalidInput: as `margin`, or a level outside (0, 1).
            MissingExtra: polars is not installed; `margin` needs none.
        """
        return data_frame(self._with_intervals(columns, level))

    def _with_intervals(self, columns: Sequence[str], level: float) -> dict[str, NDArray[Any]]:
        found = self.margin(*columns)
        _, low, high = self._boxes([self.columns.index(name) for name in columns])
        half = self.ranges.halfwidth(low, high, level)
        return {**found, "lower": found["estimate"] - half, "upper": found["estimate"] + half}

    def all_margins(
        self, *, level: float = 0.95, integers: bool = False, nonnegative: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Every margin, the total first and the cells last, as arrays.

        Columns: those of the table, None where a margin adds up all values, and estimate, std,
        lower and upper. Whole and non-negative numbers are chosen from the first column on, each
        value's number shared out among those of the next (`whole_numbers`): all margins are sums of
        these cells. Intervals are those of the unadjusted estimates, cut to what is possible.

        Args:
            level: probability with which each interval holds.
            integers: whole numbers.
            nonnegative: none below 0; biased where little is counted.

        Raises:
            InvalidInput: a level outside (0, 1), or more than a million rows.

        >>> from counton import Key, ZCDP, release_contingency
        >>> table = release_contingency(
        ...     {"sex": ["f", "m", "f"]}, columns=["sex"], domain={"sex": ["m", "f"]},
        ...     guarantee=ZCDP(0.5), key=Key.generate(),
        ... )
        >>> found = table.all_margins(integers=True, nonnegative=True)
        >>> found["sex"].tolist(), bool(found["estimate"][0] == found["estimate"][1:].sum())
        ([None, 'm', 'f'], True)
        """
        rows = math.prod(count + 1 for count in self.ranges.shape)
        if rows > _MOST_ROWS:
            raise InvalidInput(
                f"all margins together have {rows:,} rows; at most {_MOST_ROWS:,} are listed: ask "
                f"for one margin at a time"
            )
        cells = self.ranges.cells()
        if integers or nonnegative:
            cells = self._fitted(cells, integers=integers, nonnegative=nonnegative)
        parts = []
        for count in range(len(self.columns) + 1):
            for kept in combinations(range(len(self.columns)), count):
                found = self._with_intervals([self.columns[i] for i in kept], level)
                size = len(found["estimate"])
                part = {name: np.full(size, None, dtype=object) for name in self.columns} | found
                part["estimate"] = self._summed(cells, kept)
                parts.append(part)
        table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if nonnegative:
            table["lower"], table["upper"] = (
                np.maximum(table[end], 0) for end in ("lower", "upper")
            )
        if integers:
            low, high = np.ceil(table["lower"] - 2.0**-20), np.floor(table["upper"] + 2.0**-20)
            table["lower"] = low.astype(np.int64)
            table["upper"] = np.maximum(low, high).astype(np.int64)
        return table

    def _fitted(self, cells: Floats, *, integers: bool, nonnegative: bool) -> NDArray[Any]:
        """Cells made whole or non-negative, in declared order of columns, from the total down."""
        shape = cells.shape
        unit = 1.0 if integers else self.ranges._unit
        sizes = [math.prod(shape[:depth]) for depth in range(len(shape) + 1)]
        estimates = [cells.reshape(size, -1).sum(axis=1) / unit for size in sizes]
        parents = [np.repeat(np.arange(above), below // above) for above, below in pairwise(sizes)]
        nothing = [np.full(size, np.nan) for size in sizes]
        bounds, _ = bounds_of(parents, nothing, nonnegative=nonnegative)
        whole = whole_numbers(estimates, parents, bounds)[-1].reshape(shape)
        return whole if integers else np.asarray(whole * unit)

    def _rows(self) -> dict[str, NDArray[Any]]:
        return self._with_intervals(self.columns, 0.95)

    def describe(self) -> str:
        """What was released and what is protected, in words."""
        return f"columns {', '.join(self.columns)}: {self.ranges.describe()}"

    def _measured(self) -> str:
        return (
            f"Measured were sums over the cells of the table of {', '.join(self.columns)} "
            f"(strategy {self.ranges.strategy!r}); every margin is a linear function of them, and "
            f"all margins add up."
        )

    def _errors(self) -> list[str]:
        return self.ranges._errors()

    def _sources(self) -> tuple[str, ...]:
        return self.ranges._sources()

    def saved_strategy(self) -> dict[str, Any]:
        """See `TableRelease.saved_strategy`: the weights, and the public values of the columns."""
        values = [part.tolist() for part in self.declared]
        plain = all(type(value) in (str, int, bool) for part in values for value in part)
        return {**self.ranges.saved_strategy(), "values": values if plain else None}

    def saved_values(self) -> dict[str, Any]:
        """See `TableRelease.saved_values`."""
        return self.ranges.saved_values()


class ContingencyDraft(CellsDraft[ContingencyRelease]):
    """A contingency table that is to be released; arguments as in `counton.release_contingency`."""

    kind = "contingency"

    def __init__(
        self,
        data: Any,
        *,
        guarantee: Guarantee,
        contribution: Contribution | None = None,
        name: str = "contingency",
        columns: Sequence[str],
        domain: Mapping[str, Sequence[Any]],
        value: str | None = None,
        equal: bool = False,
    ) -> None:
        check_names(columns)
        self._columns = tuple(columns)
        listed = [_listed(column, domain) for column in columns]
        self._declared = tuple(declared for declared, _ in listed)
        self._values = tuple(values for _, values in listed)
        refuse_added(columns)
        promised = stated(guarantee, contribution)
        if guarantee is None:
            raise InvalidInput("guarantee is None; give one such as ZCDP(rho=0.5)")
        shape = tuple(map(len, self._values))
        # Before anything is counted, since the cells might not fit into memory.
        self._plan = plan_margins(
            shape, guarantee=guarantee, contribution=contribution, equal=equal
        )
        check_size(self._plan.best.grid.shape, self._plan.best.grid.axes)
        counts = _counted(data, columns, self._values, value)
        means = {
            "columns": list(columns),
            "value": value,
            "values_sha256": [
                hashlib.sha256(labels_bytes(part)).hexdigest() for part in self._values
            ],
        }
        asked = {**promised, **means, "shape": list(shape), "equal": bool(equal)}
        super().__init__(name, asked, counts, means)

    @property
    def plan(self) -> RangesPlan:
        """See `CellsDraft.plan`."""
        return replace(self._plan, contribution=self.contribution)

    def release(self, key: Key) -> ContingencyRelease:
        """See `TableDraft.release`."""
        return self._of(self._measured(key))

    def shown(
        self,
        terms: TableTerms,
        strategy: Mapping[str, Any],
        values: Mapping[str, Any],
        input_digest: str,
    ) -> ContingencyRelease:
        """See `TableDraft.shown`."""
        return saved_contingency(
            self._columns, self._declared, terms, strategy, values, input_digest
        )

    def _of(self, ranges: RangesRelease) -> ContingencyRelease:
        return _of(self._columns, self._declared, ranges)


def saved_contingency(
    columns: tuple[str, ...],
    listed: tuple[NDArray[Any], ...],
    terms: TableTerms,
    strategy: Mapping[str, Any],
    values: Mapping[str, Any],
    input_digest: str,
) -> ContingencyRelease:
    """A release from what was saved of it: no plan and no noise.

    Args:
        columns, listed: names of the columns, and the values of each in declared order.
        terms, strategy, values, input_digest: as they were saved.

    Raises:
        StateError, InvalidInput: parts that do not go together.
    """
    margins = tuple(Margins(cells) for cells in terms.shape)
    ranges = saved_cells(terms, strategy, values, input_digest, (), margins)
    return _of(columns, listed, ranges)


def _of(
    columns: tuple[str, ...], declared: tuple[NDArray[Any], ...], ranges: RangesRelease
) -> ContingencyRelease:
    return ContingencyRelease(
        columns,
        tuple(codes_of(part)[1] for part in declared),
        ranges,
        declared,
        terms=ranges.terms,
        input_digest=ranges.input_digest,
        repeated=ranges.repeated,
    )


def _listed(column: str, domain: Mapping[str, Sequence[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The values of a column as declared, and sorted."""
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
    return array, values


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

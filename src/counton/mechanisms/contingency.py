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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Integers
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
class ContingencyRelease(TableRelease):
    """Private margins of a contingency table.

    Attributes:
        columns: names of the columns.
        values: for each column, its values in order.
        ranges: the release of the grid of cells behind it.

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
        picked, low, high = self._boxes(kept)
        found: dict[str, NDArray[Any]] = {
            name: self.values[column][picked[:, place]]
            for place, (name, column) in enumerate(zip(columns, kept, strict=True))
        }
        return {**found, "estimate": estimates, "std": self.ranges.std(low, high)}

    def _boxes(self, kept: Sequence[int]) -> tuple[Integers, Integers, Integers]:
        """Which values a margin combines, and the box of cells that each adds up."""
        sizes = [len(self.values[column]) for column in kept]
        picked = np.indices(sizes).reshape(len(kept), -1).T if kept else np.zeros((1, 0), np.int64)
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

        Columns: those of `margin`, and low and high.

        Raises:
            InvalidInput: as `margin`, or a level outside (0, 1).
            MissingExtra: polars is not installed; `margin` needs none.
        """
        return data_frame(self._with_intervals(columns, level))

    def _with_intervals(self, columns: Sequence[str], level: float) -> dict[str, NDArray[Any]]:
        found = self.margin(*columns)
        _, low, high = self._boxes([self.columns.index(name) for name in columns])
        half = self.ranges.halfwidth(low, high, level)
        return {**found, "low": found["estimate"] - half, "high": found["estimate"] + half}

    def _rows(self) -> dict[str, NDArray[Any]]:
        return self._with_intervals(self.columns, 0.95)

    def describe(self) -> str:
        """What was released and what is protected, in words."""
        return f"columns {', '.join(self.columns)}: {self.ranges.describe()}"

    def saved_strategy(self) -> dict[str, Any]:
        """See `TableRelease.saved_strategy`: the weights, and the public values of the columns."""
        values = [part.tolist() for part in self.values]
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
        self._values = tuple(_listed(column, domain) for column in columns)
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
        return saved_contingency(self._columns, self._values, terms, strategy, values, input_digest)

    def _of(self, ranges: RangesRelease) -> ContingencyRelease:
        return _of(self._columns, self._values, ranges)


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
        columns, listed: names of the columns, and the values of each.
        terms, strategy, values, input_digest: as they were saved.

    Raises:
        StateError, InvalidInput: parts that do not go together.
    """
    margins = tuple(Margins(cells) for cells in terms.shape)
    ranges = saved_cells(terms, strategy, values, input_digest, (), margins)
    return _of(columns, listed, ranges)


def _of(
    columns: tuple[str, ...], values: tuple[NDArray[Any], ...], ranges: RangesRelease
) -> ContingencyRelease:
    return ContingencyRelease(
        columns,
        values,
        ranges,
        terms=ranges.terms,
        input_digest=ranges.input_digest,
        repeated=ranges.repeated,
    )


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

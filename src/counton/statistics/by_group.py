"""A statistic for each of several declared groups, under one guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInputError, param
from counton.base.exact import has_parts, quote, suggest
from counton.continual.formulas import TableNumbers
from counton.continual.table_request import EVERY_ROW, TableRequest
from counton.privacy import ContributionBound, Guarantee
from counton.statistics.accumulator_statistic import AccumulatorStatistic, Part, Sums, X
from counton.statistics.catalogue import statistic_from_dict, statistic_to_dict
from counton.statistics.cells import Cells
from counton.statistics.results import StatisticResult, read_cells
from counton.statistics.statistic import (
    ErrorScale,
    Events,
    Exact,
    Statistic,
    distinct_names,
    says_cells,
)

#: A statistic of one kind or another.
S = TypeVar("S", bound=Statistic)


class GroupedResult(StatisticResult):
    """The released numbers of a statistic in each of several groups.

    ``read`` computes the numbers from one group's cells; None: as the statistic does.
    """

    statistic: Grouped

    def __init__(
        self,
        statistic: Statistic,
        cells: Cells,
        read: Callable[[Cells], StatisticResult] | None = None,
    ) -> None:
        super().__init__(statistic, cells)
        self._read = read

    def of(self, group: str) -> StatisticResult:
        """Return the released numbers of one group.

        Raises:
            InvalidInputError: the group is not declared.
        """
        place = self.statistic.group(group)
        inner = self.statistic.inner
        first = place * (np.size(self.release.value) // len(self.statistic.groups))
        part = self.cells.part(lambda values: values[place], self.cells.design, first)
        return read_cells(inner, part) if self._read is None else self._read(part)

    @override
    def since(self, earlier: StatisticResult) -> Self:
        return type(self)(self.statistic, self.cells.since(earlier.cells), self._read)

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        inner = self.statistic.inner
        all_groups = self.statistic.groups
        plain = inner.result_type is None and (inner.many_groups or says_cells(inner))
        if self._read is not None or not plain:
            chosen = request.groups or all_groups
            return TableNumbers.of_groups(
                {group: self.of(group).numbers(request) for group in chosen}
            )
        together = Cells(self.release, self.cells.first, len(all_groups))
        numbers = StatisticResult(inner, together).numbers(request)
        rows = np.size(numbers.numbers.value) // len(all_groups)
        named = {"group": np.repeat(np.array(all_groups), rows)}
        numbers = numbers._replace(about=named | {**numbers.about})
        if request.groups is None:
            return numbers
        places = np.array([self.statistic.group(group) for group in request.groups], np.int64)
        return numbers.rows(np.add.outer(places * rows, np.arange(rows)).ravel())


class Grouped(AccumulatorStatistic):
    """A statistic that is counted separately in each of several declared groups.

    An event is a pair (group, event of the statistic). A row belongs to one group, so groups do not
    increase the change by a unit.

    Args:
        of: the statistic, or its `statistic_to_dict`.
        groups: names of all groups.

    Raises:
        InvalidInputError: the order of events matters for the statistic, or names are not texts or
            occur twice.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Average
    >>> paid = Grouped(Average(0, 100, resolution=1), ["north", "south"])
    >>> key = Key.generate()
    >>> counter = RunningStatistic.start(paid, 24, PureDP(1), key=key, name="paid", batched=True)
    >>> result = counter.release_batch([("north", 20), ("south", 35)])
    >>> -20 < result.of("north")["count"] < 20
    True
    """

    result_type = GroupedResult

    def __init__(self, of: Statistic | Mapping[str, object], groups: Sequence[str]) -> None:
        inner = statistic_from_dict(of) if isinstance(of, Mapping) else of
        if (
            not isinstance(inner, AccumulatorStatistic)
            or inner.ordered
            or isinstance(inner, Grouped)
        ):
            raise InvalidInputError(
                f"{quote(inner)} needs its rows in their order, so it cannot be divided into "
                "groups: use another statistic, or a stream for each group"
            )
        self.inner = inner
        self.groups = distinct_names(groups, "groups are")
        self.n_accumulators = len(self.groups) * inner.n_accumulators
        self.counts_rows = inner.counts_rows
        self.counts_units = inner.counts_units
        self.parts = (Part("by", "label"), *inner.parts)
        self._place = {name: place for place, name in enumerate(self.groups)}

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        return {"of": statistic_to_dict(self.inner), "groups": list(self.groups)}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r}, {len(self.groups):,} groups)"

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (len(self.groups), *self.inner.cells)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        """Return the bound of the inner statistic; groups do not increase it.

        Args:
            batched: True if a step may have any number of events, as for the inner statistic.

        Raises:
            InvalidInputError: neighbouring datasets of the inner statistic replace an event.
        """
        contribution = self.inner.contribution(batched=batched)
        if contribution.relation == "replace":
            raise InvalidInputError(
                f"{self.inner!r} protects the content of an event, but not its presence, and with "
                "groups the presence must be private too: use neighbours='add_remove'"
            )
        return contribution

    @property
    @override
    def error_of(self) -> ErrorScale:
        return self.inner.error_of

    def with_inner(self, inner: Statistic) -> Self:
        """Return a copy with the same groups of another statistic.

        Args:
            inner: the other statistic.
        """
        return type(self)(inner, self.groups)

    @override
    def for_people(self, most: int) -> Self:
        return self.with_inner(self.inner.for_people(most))

    @override
    def norms_of_people(self, most: int) -> tuple[int, int] | None:
        return self.inner.norms_of_people(most)

    @override
    def resolve_parameters(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        return self.with_inner(self.inner.resolve_parameters(guarantee, horizon))

    @override
    def allows(self, other: Statistic) -> bool:
        if not isinstance(other, Grouped) or other.groups != self.groups:
            return False
        return self.inner.allows(other.inner)

    @override
    def begin(self) -> Exact:
        return _ByGroup(self)

    @override
    def encode(self, *parts: Any) -> Integers:
        return self.inner.encode(*parts)

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        return self.inner.entries(code)

    @property
    @override
    def largest_entry(self) -> int:
        return self.inner.largest_entry

    @override
    def code_bounds(self) -> tuple[int, int]:
        return self.inner.code_bounds()

    @override
    def row_bounds(self) -> tuple[int, int]:
        return self.inner.row_bounds()

    @override
    def measure(self, sums: Integers) -> Integers:
        steps = len(sums)
        count = len(self.groups)
        cells = self.inner.measure(sums.reshape(steps * count, self.inner.n_accumulators))
        return cells.reshape(steps, count, *self.inner.cells)

    @override
    def most_counted(self, first: float, last: float) -> float:
        return self.inner.most_counted(first, last)

    @override
    def total(self, cells: Integers) -> Floats:
        totals = self.inner.total(cells.reshape(-1, *self.inner.cells))
        return np.asarray(totals.reshape(len(cells), len(self.groups)).max(axis=1), np.float64)

    def group(self, name: object) -> int:
        """Return the index of a group in ``groups``.

        Args:
            name: name of the group.

        Raises:
            InvalidInputError: no group has this name.
        """
        if not isinstance(name, str) or name not in self._place:
            raise InvalidInputError(
                f"group is {quote(name)}, which is not listed: {suggest(name, [*self._place])}give "
                "the name of a group that is listed"
            )
        return self._place[name]


class _ByGroup(Sums):
    """Exact changes of the groups' cells. It stores no sums: the stream's `Counter` keeps them."""

    _statistic: Grouped

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        statistic = self._statistic
        listed = list(events)
        if statistic.inner.counts_users:
            raise InvalidInputError(
                f"{statistic!r} counts users in each group, and only a job knows the users of "
                f"rows: run a job with {param('user')} and {param('group_by')}"
            )
        steps = np.repeat(np.arange(len(stops)), np.diff(stops, prepend=0))
        places = np.empty(len(listed), np.int64)
        for index, event in enumerate(listed):
            if not has_parts(event, 2):
                raise InvalidInputError(
                    f"an event is {quote(event)}; give pairs of a group and an event"
                )
            places[index] = statistic.group(event[0])
        cells = steps * len(statistic.groups) + places  # each group of each step counts as a step
        ends = np.cumsum(np.bincount(cells, minlength=len(stops) * len(statistic.groups)))
        rows = np.argsort(cells, kind="stable").tolist()
        changes = statistic.inner.begin().take([listed[row][1] for row in rows], ends)
        return changes.reshape(len(stops), *statistic.cells)


def inner_of(statistic: S) -> S:
    """Return the statistic that is counted in each group, or the statistic itself."""
    return cast("S", statistic.inner) if isinstance(statistic, Grouped) else statistic

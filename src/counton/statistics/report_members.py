"""The statistics within a report: which are possible, and how a job states them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import BoundedChange, scaled_norms
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, exact, has_parts, quote
from counton.privacy import ContributionBound
from counton.statistics.accumulator_statistic import AccumulatorStatistic, Part, UsersByRank, X
from counton.statistics.by_group import Grouped, inner_of
from counton.statistics.catalogue import statistic_from_dict
from counton.statistics.distinct import Distinct
from counton.statistics.statistic import Statistic

#: Option of a report's statistics besides each statistic's own options: its share of the budget.
SHARE = "share"
#: Options on how numbers are shown that a report accepts for each statistic.
_SHOWN = ("shares",)


class FirstRows(UsersByRank):
    """The number of users in a report: only the first row of each user counts.

    >>> FirstRows().entries(1), FirstRows().entries(2)
    ([(0, 0)], [(0, 1)])
    """

    keyword = "distinct"
    phrase = "number of distinct users"
    additive = True
    counted_ranks = (1,)
    n_accumulators = 1

    def __init__(self, *, unit: str | None = None) -> None:
        self._call_units(unit)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return ContributionBound.add_remove(unit=self.unit)


class GroupedRows(Grouped):
    """A statistic of a report in each of several groups; one integer has a row's group and values.

    >>> from counton.statistics import Average
    >>> ages = GroupedRows(Average(0, 9, resolution=1), ["young", "old"])
    >>> young_or_old, value = np.array([1]), np.array([7.0])
    >>> [(int(place), int(change)) for place, change in
    ...  ages.entries(ages.encode(young_or_old, value)[0])]
    [(2, 7), (3, 2)]
    """

    def __init__(self, of: Statistic | Mapping[str, object], groups: Sequence[str]) -> None:
        super().__init__(of, groups)
        self.parts = (Part("by", "label", self.groups), *self.inner.parts)
        self.counted_ranks = self.inner.counted_ranks
        known_beforehand = self.inner.known_beforehand
        self.known_beforehand = known_beforehand
        self._low, high = self.inner.code_bounds()
        self._size = high - self._low + 1

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return an integer of two digits, group and code within it; -1 if undeclared."""
        group = np.asarray(parts[0], np.int64)
        inner_codes = np.zeros(len(parts[0]), np.int64)
        is_listed = group >= 0
        if self.inner.parts:
            inner_codes = np.asarray(self.inner.encode(*parts[1:]), np.int64)
            if self.inner.spans:
                is_listed &= inner_codes >= 0
            inner_codes = inner_codes - self._low
        return np.where(is_listed, group * self._size + inner_codes, -1)

    @override
    def code_bounds(self) -> tuple[int, int]:
        return 0, len(self.groups) * self._size - 1

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        start = code // self._size * self.inner.n_accumulators
        inner_code: Any = self._low
        if self._size > 1:
            inner_code = code % self._size + inner_code
        inner = self.inner.entries(inner_code)
        entries = [(start + place, amount) for place, amount in inner]
        return cast("Sequence[tuple[X | int, X | int]]", entries)

    @override
    def total_of_sums(self, sums: Floats) -> float:
        return max(
            self.inner.total_of_sums(group_sums)
            for group_sums in sums.reshape(-1, self.inner.n_accumulators)
        )

    @override
    def largest_measured(self, sums: Floats) -> float:
        return max(
            self.inner.largest_measured(group_sums)
            for group_sums in sums.reshape(-1, self.inner.n_accumulators)
        )

    @override
    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        rows_per_group = None if rows is None else max(rows // len(self.groups), 1)
        cells = self.inner.typical_cells(rows_per_group, steps)
        return None if cells is None else np.stack([cells] * len(self.groups))


def norms_of(statistic: AccumulatorStatistic) -> tuple[int, int]:
    """Bound the 1-norm and squared 2-norm of the change by one row.

    >>> from counton.statistics import Average, Sum
    >>> norms_of(Sum(-5, 20, resolution=1)), norms_of(Average(0, 50, resolution=1))
    ((20, 400), (50, 2500))
    """
    contribution = statistic.contribution(batched=True)
    if contribution.pattern is None:
        return (
            contribution.cells * contribution.per_cell,
            contribution.cells * contribution.per_cell**2,
        )
    assert isinstance(contribution.pattern, BoundedChange)
    return contribution.pattern.l1, contribution.pattern.l2_squared


def norms_of_people(statistic: AccumulatorStatistic, most: int) -> tuple[int, int]:
    """Bound the 1-norm and squared 2-norm of the change by ``most`` rows of one person.

    >>> from counton.statistics import Count
    >>> norms_of_people(Count(), 3), norms_of_people(FirstRows(), 3)
    ((3, 9), (1, 1))
    """
    l1, l2_squared = norms_of(statistic)
    if not statistic.counted_ranks:
        return scaled_norms(l1, l2_squared, by=most)
    cells = min(most, statistic.n_accumulators)  # each cell changes by 1, at most once
    return cells, cells


def is_pair(value: Any) -> bool:
    """Return True for a pair of a name and a statistic, or its dict."""
    pair = has_parts(value, 2) and isinstance(value[0], str)
    return pair and isinstance(value[1], Statistic | Mapping)


def fitting(
    name: str, declaration: Any, groups: Sequence[str] | None = None
) -> AccumulatorStatistic:
    """Convert a statistic, or its dict, to the form that a report needs.

    Raises:
        InvalidInputError: the statistic needs its rows in order, or does not protect one row added
            or removed.
    """
    if groups is not None:
        return GroupedRows(fitting(name, declaration), groups)
    statistic = (
        statistic_from_dict(declaration) if isinstance(declaration, Mapping) else declaration
    )
    if isinstance(statistic, Distinct) and statistic.changes is None:
        return FirstRows()
    if type(statistic) is Grouped:
        statistic = GroupedRows(fitting(name, statistic.inner), statistic.groups)
    called = inner_of(statistic).keyword or type(inner_of(statistic)).__name__
    if not isinstance(statistic, AccumulatorStatistic) or statistic.ordered:
        raise unfit(name, called, "needs its rows in their order")
    contribution = statistic.contribution(batched=True)
    if contribution.relation != "add_remove":
        raise unfit(name, called, "protects the values of a row, but not its presence")
    if statistic.counts_units:
        raise unfit(name, called, "counts a row more than once")
    one_by_one = contribution.in_one_step or bool(statistic.counted_ranks)  # a row has one rank
    if not one_by_one or statistic.statistics:
        raise unfit(name, called, "has rows that change several steps, or is itself a report")
    return statistic


def unfit(name: str, called: str, why: str = "needs rows in their order") -> InvalidInputError:
    """Return the error that a report cannot contain a statistic "that" ``why``."""
    return InvalidInputError(
        f"{name!r} of the report is a statistic ({called}) that {why}, but a report can only add "
        "up rows one by one, each present or absent: release it as a job of its own beside the "
        "report"
    )


def checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InvalidInputError(
            f"a statistic of the report is called {quote(name)}; give it a name that is not empty"
        )
    return name


def shares_by_name(shares: Any, names: Mapping[str, object]) -> dict[str, float]:
    """Check shares of the budget, by the name of a statistic."""
    checked = {}
    for name, value in dict(shares or {}).items():
        if name not in names:
            raise InvalidInputError(
                f"share names {name!r}, which is not in the report; it has {', '.join(names)}"
            )
        number = exact(value, f"share of {name!r}")
        if number <= 0:
            raise InvalidInputError(f"share of {name!r} is {value!r}; it must be above 0")
        checked[name] = float(number)
    return checked


def whole_weights(weights: Mapping[str, int], statistics: Mapping[str, object]) -> dict[str, int]:
    """Return the weights, from 1 to 2^40 for each measured statistic."""
    if set(weights) != set(statistics):
        raise InvalidInputError(
            f"weights are given for {', '.join(weights)}; give one for each statistic that is "
            f"measured: {', '.join(statistics)}"
        )
    return {
        name: check_integer(f"weight of {name!r}", weights[name], 1, 2**40) for name in statistics
    }

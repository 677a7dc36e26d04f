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
#: Options of a whole job that a report also accepts for one of its statistics.
_OF_ROWS = ("by", "domain")


class FirstRows(UsersByRank):
    """The number of users in a report: only the first row of each user counts.

    >>> FirstRows().entries(1), FirstRows().entries(2)
    ([(0, 0)], [(0, 1)])
    """

    keyword = "distinct"
    phrase = "number of distinct users"
    additive = True
    counted_ranks = (1,)
    places = 1

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

    def __init__(self, of: Statistic | Mapping[str, Any], groups: Sequence[str]) -> None:
        super().__init__(of, groups)
        self.parts = (Part("by", "label", self.groups), *self.inner.parts)
        self.counted_ranks = self.inner.counted_ranks
        known = self.inner.known_beforehand
        self.known_beforehand = known
        self._low, high = self.inner.code_bounds()
        self._size = high - self._low + 1

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return an integer of two digits, group and code within it; -1 if undeclared."""
        group = np.asarray(parts[0], np.int64)
        own = np.zeros(len(parts[0]), np.int64)
        known = group >= 0
        if self.inner.parts:
            own = np.asarray(self.inner.encode(*parts[1:]), np.int64)
            if self.inner.spans:
                known &= own >= 0
            own = own - self._low
        return np.where(known, group * self._size + own, -1)

    @override
    def code_bounds(self) -> tuple[int, int]:
        return 0, len(self.groups) * self._size - 1

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        start = code // self._size * self.inner.places
        own: Any = self._low
        if self._size > 1:
            own = code % self._size + own
        inner = self.inner.entries(own)
        found = [(start + place, amount) for place, amount in inner]
        return cast("Sequence[tuple[X | int, X | int]]", found)

    @override
    def total_of_sums(self, sums: Floats) -> float:
        return max(self.inner.total_of_sums(one) for one in sums.reshape(-1, self.inner.places))

    @override
    def largest_measured(self, sums: Floats) -> float:
        return max(self.inner.largest_measured(one) for one in sums.reshape(-1, self.inner.places))

    @override
    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        each = None if rows is None else max(rows // len(self.groups), 1)
        found = self.inner.typical_cells(each, steps)
        return None if found is None else np.stack([found] * len(self.groups))


def norms_of(statistic: AccumulatorStatistic) -> tuple[int, int]:
    """Bound the 1-norm and squared 2-norm of the change by one row.

    >>> from counton.statistics import Average, Sum
    >>> norms_of(Sum(-5, 20, resolution=1)), norms_of(Average(0, 50, resolution=1))
    ((20, 400), (50, 2500))
    """
    found = statistic.contribution(batched=True)
    if found.pattern is None:
        return found.cells * found.per_cell, found.cells * found.per_cell**2
    assert isinstance(found.pattern, BoundedChange)
    return found.pattern.l1, found.pattern.l2_squared


def norms_of_people(statistic: AccumulatorStatistic, most: int) -> tuple[int, int]:
    """Bound the 1-norm and squared 2-norm of the change by ``most`` rows of one person.

    >>> from counton.statistics import Count
    >>> norms_of_people(Count(), 3), norms_of_people(FirstRows(), 3)
    ((3, 9), (1, 1))
    """
    l1, l2_squared = norms_of(statistic)
    if not statistic.counted_ranks:
        return scaled_norms(l1, l2_squared, by=most)
    cells = min(most, statistic.places)  # each cell changes by 1, at most once
    return cells, cells


def is_pair(given: Any) -> bool:
    """Return True for a pair of a name and a statistic, or its dict."""
    pair = has_parts(given, 2) and isinstance(given[0], str)
    return pair and isinstance(given[1], Statistic | Mapping)


def fitting(name: str, given: Any, groups: Sequence[str] | None = None) -> AccumulatorStatistic:
    """Convert a statistic, or its dict, to the form that a report needs.

    Raises:
        InvalidInputError: the statistic needs its rows in order, or does not protect one row ...
            removed.
    """
    if groups is not None:
        return GroupedRows(fitting(name, given), groups)
    one = statistic_from_dict(given) if isinstance(given, Mapping) else given
    if isinstance(one, Distinct) and one.changes is None:
        return FirstRows()
    if type(one) is Grouped:
        one = GroupedRows(fitting(name, one.inner), one.groups)
    called = inner_of(one).keyword or type(inner_of(one)).__name__
    if not isinstance(one, AccumulatorStatistic) or one.ordered:
        raise unfit(name, called, "needs its rows in their order")
    own = one.contribution(batched=True)
    if own.relation != "add_remove":
        raise unfit(name, called, "protects the values of a row, but not its presence")
    if one.counts_units:
        raise unfit(name, called, "counts a row more than once")
    one_by_one = own.in_one_step or bool(one.counted_ranks)  # a row has one rank
    if not one_by_one or one.statistics:
        raise unfit(name, called, "has rows that change several steps, or is itself a report")
    return one


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


def shares_by_name(given: Any, known: Mapping[str, Any]) -> dict[str, float]:
    """Check shares of the budget, by the name of a statistic."""
    found = {}
    for name, value in dict(given or {}).items():
        if name not in known:
            raise InvalidInputError(
                f"share names {name!r}, which is not in the report; it has {', '.join(known)}"
            )
        number = exact(value, f"share of {name!r}")
        if number <= 0:
            raise InvalidInputError(f"share of {name!r} is {value!r}; it must be above 0")
        found[name] = float(number)
    return found


def whole_weights(given: Mapping[str, int], known: Mapping[str, Any]) -> dict[str, int]:
    """Return the weights, from 1 to 2^40 for each measured statistic."""
    if set(given) != set(known):
        raise InvalidInputError(
            f"weights are given for {', '.join(given)}; give one for each statistic that is "
            f"measured: {', '.join(known)}"
        )
    return {name: check_integer(f"weight of {name!r}", given[name], 1, 2**40) for name in known}

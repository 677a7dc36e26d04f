"""The largest groups of a histogram, with intervals that hold for all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arguments import DEFAULT_TOP
from counton.base.arrays import Integers
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, quote
from counton.continual.formulas import Estimate, TableNumbers
from counton.continual.table_request import EVERY_ROW, TableRequest
from counton.privacy import ContributionBound
from counton.privacy.contribution import Relation
from counton.privacy.unit_changes import SpacedSteps
from counton.statistics.accumulator_statistic import AccumulatorStatistic, Part, Sums, X
from counton.statistics.by_group import S
from counton.statistics.cells import Cells
from counton.statistics.ranking import Ranking, ranked_numbers, ranking_of
from counton.statistics.results import StatisticResult
from counton.statistics.statistic import Events, Exact, Statistic, distinct_names, place_of_name


class TopKResult(StatisticResult):
    """Released counts of all groups at one step; tables show the largest groups first."""

    statistic: TopK

    def ranking(self, k: int | None = None, confidence_level: float = 0.95) -> Ranking:
        """Rank the largest groups; see `rank_largest`. All intervals hold together.

        ``k`` None is the statistic's own number.

        Raises:
            InvalidInputError: the level is out of range, or too near to 1 for so many groups.
        """
        k = self.statistic.k if k is None else k
        values = np.asarray(self.release.value)
        return ranking_of(self.statistic.groups, values, self.cells.halfwidth, k, confidence_level)

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        """Return the largest or the requested groups; intervals hold all at once."""
        k = self.statistic.k if request.ask is None else len(self.statistic.groups)
        numbers = ranked_numbers(partial(self.ranking, k), self.release.std)
        if request.ask is None:
            return numbers
        names = numbers.about["group"]
        kept = np.isin(names, request.ask)
        return TableNumbers({"group": names[kept]}, numbers.numbers.selected(kept))


class TopK(AccumulatorStatistic):
    """The largest groups of a histogram.

    All groups are counted. The ranking is a function of the released counts and costs no privacy.

    An event is the name of a group; with ``cells`` a list of different groups.
    ``neighbours="replace"`` hides the group of an event, but not whether there was one.

    Args:
        groups: names of all possible groups.
        k: number of groups to show.
        cells: largest number of groups in which one event counts.
        neighbours: "add_remove": one event is present or absent. "replace": its group changes.
        unit: the word for one event.

    Raises:
        InvalidInputError: names that are not texts, or occur twice; or a number out of range.

    Sensitivity: exactly that of a histogram with the same contribution bound ("Constant matters",
    section 5).

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> from counton.statistics import TopK
    >>> key = Key.generate()
    >>> airports = TopK(["JFK", "LGA", "EWR"], k=2)
    >>> counter = RunningStatistic.start(airports, 24, ZCDP(2), key=key, name="to")
    >>> result = counter.release_many(["JFK"] * 20 + ["EWR"] * 4)[-1]
    >>> ranking = result.ranking(confidence_level=0.999999)
    >>> len(ranking.names), ranking.names[0], bool(ranking.lower[0] < 20 < ranking.upper[0])
    (2, 'JFK', True)
    """

    result_type = TopKResult
    keyword = "top-k"
    example = "by=page groups=home,shop top=1"
    finds = True
    ranks = True
    says = "The largest groups of a histogram, with intervals that hold for all of them at once."
    phrase = "ranking of the {k} largest groups"
    also_called = ("top", "topk", "top_k", "largest")
    event = "group"
    counts_rows = True

    def __init__(
        self,
        groups: Sequence[str],
        k: int = DEFAULT_TOP,
        *,
        cells: int = 1,
        neighbours: Relation = "add_remove",
        unit: str | None = None,
    ) -> None:
        self.groups = distinct_names(groups, "groups are")
        if wrong := [group for group in self.groups if "\0" in group]:
            raise InvalidInputError(
                f"a group is {quote(wrong[0])}, which has the character NUL in its name: remove it"
            )
        self.declares = self.groups
        self.n_accumulators, self.parts = len(self.groups), (Part("by", "label", self.groups),)
        self._place = {group: cell for cell, group in enumerate(self.groups)}
        self.k = check_integer("k", k, 1)
        self._call_units(unit)
        self._contribution = ContributionBound(neighbours, SpacedSteps(cells), unit=self.unit)
        self.ordered = cells > 1

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        contribution = self._contribution
        parameters: dict[str, object] = (
            {"cells": contribution.cells} if contribution.cells > 1 else {}
        )
        parameters |= {"neighbours": "replace"} if contribution.relation == "replace" else {}
        return {
            "groups": list(self.groups),
            "k": self.k,
            **parameters,
            **self._parameters_of("unit"),
        }

    def __repr__(self) -> str:
        rest = {name: value for name, value in self.parameters.items() if name != "groups"}
        arguments = "".join(f", {name}={value!r}" for name, value in rest.items())
        return f"TopK({len(self.groups):,} groups{arguments})"

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (len(self.groups),)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return self._contribution

    @override
    def whole(self, cells: Cells) -> Estimate:
        return cells.all()

    @override
    def check_asked(self, name: Any) -> None:
        place_of_name(self, name)

    @override
    def by_groups(self, groups: Sequence[str]) -> Self:
        return type(self)(**{**self.parameters, "groups": groups})

    @override
    def allows(self, other: Statistic) -> bool:
        """Return True if ``other`` counts the same groups, in any order.

        Args:
            other: the statistic to compare with.
        """
        if not isinstance(other, TopK) or set(self.groups) != set(other.groups):
            return False
        return TopK(**{**self.parameters, "groups": other.groups, "k": other.k}) == other

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return the index of each row's group, negative if it is not declared."""
        return np.asarray(parts[0], np.int64)

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        return [(code, 1)]

    @override
    def begin(self) -> Exact:
        return _Sets(self) if self.ordered else Sums(self)

    @override
    def columns_of(self, events: Events) -> tuple[Any, ...]:
        return (self.places_of(events),)

    @property
    @override
    def number_names(self) -> Sequence[str]:
        return self.groups

    def places_of(self, groups: Iterable[Any]) -> Integers:
        """Return the indices of groups.

        Args:
            groups: names of groups; a name may occur several times.

        Returns:
            int64, one index from 0 for each name.

        Raises:
            InvalidInputError: a group is not listed.
        """
        listed = groups.tolist() if isinstance(groups, np.ndarray) else groups
        try:
            return np.array([self._place[group] for group in listed], np.int64)
        except (KeyError, TypeError):
            wrong = next(
                group for group in listed if not (isinstance(group, str) and group in self._place)
            )
            raise InvalidInputError(
                f"group is {quote(wrong)}, which is not listed: give the name of a group that is "
                "listed, or list one more group for all others"
            ) from None


class _Sets(Sums):
    """Exact changes by events that are lists of groups."""

    _statistic: TopK

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        statistic = self._statistic
        places = list[list[int]]()
        most = statistic.contribution().cells
        for event in events:
            if isinstance(event, str) or not isinstance(event, (list, tuple, set, frozenset)):
                raise InvalidInputError(
                    f"an event is {quote(event)}; give a list of up to {most:,} groups"
                )
            places.append(statistic.places_of(event).tolist())
            if len(places[-1]) > most or len({*places[-1]}) < len(places[-1]):
                raise InvalidInputError(
                    f"an event is {quote(event)}; give a list of up to {most:,} different groups"
                )
        ends = np.cumsum([0, *map(len, places)])[np.concatenate([[0], stops])]
        cells = np.array(list(chain(*places)), np.int64)
        sums = []
        for first, last in pairwise(ends.tolist()):
            sums.append(np.bincount(cells[first:last], minlength=statistic.n_accumulators))
        return np.array(sums, np.int64).reshape(len(stops), statistic.n_accumulators)


def with_top(statistic: S, top: int) -> S:
    """Return a copy that shows ``top`` groups; one that shows all is unchanged."""
    if not isinstance(statistic, TopK):
        return statistic
    return cast("S", type(statistic)(**{**statistic.parameters, "k": top}))

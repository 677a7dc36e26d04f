"""A statistic of one's own that keeps the laws of statistics, and others that break one each.

The laws' own tests and the list of all claims take their examples from here.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from counton import Average, ContributionBound, Cuts, Distinct, Substrings
from counton.base.distributions import BoundedChange
from counton.continual import StepRelease
from counton.statistics import AccumulatorStatistic, Grouped, Part, Statistic, StatisticResult
from counton.statistics.accumulator_statistic import Sums
from counton.statistics.cells import Cells
from counton.statistics.live_statistic import OnDemandResult

STREAM = [[10, 70, 90], [], [60], [20, 61]]


class Above(AccumulatorStatistic):
    """How many values lie below a threshold, and how many above."""

    parts = (Part("value"),)
    counts_rows = True
    n_accumulators = 2

    def __init__(self, threshold: int = 60) -> None:
        self.threshold = threshold

    @property
    def cells(self) -> tuple[int, ...]:
        return (2,)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"threshold": self.threshold}

    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return ContributionBound.add_remove(cells=1)

    def encode(self, *parts: Any) -> Any:
        return (np.asarray(parts[0]) > self.threshold).astype(np.int64)

    def entries(self, said: Any) -> Any:
        return [(said, 1)]

    @property
    def number_names(self) -> tuple[str, ...]:
        return "below", "above"


class First(Above):
    """What a row says depends on its place."""

    def encode(self, *parts: Any) -> Any:
        said = super().encode(*parts)
        said[1:] = 0
        return said


class Half(Above):
    """What it measures is less than what one unit changes there."""

    def entries(self, said: Any) -> Any:
        return [(said, 3)]

    def row_bounds(self) -> tuple[int, int]:
        return 3, 3

    counts_rows = False

    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return ContributionBound.add_remove(cells=1, per_cell=3 if batched else 1)


class InOneStep(Distinct):
    """Says that all a user changes stands in one step; who comes and goes changes two."""

    def __init__(self) -> None:
        super().__init__(changes=2)

    @property
    def parameters(self) -> dict[str, Any]:
        return {}

    def contribution(self, *, batched: bool = False) -> ContributionBound:
        pattern = BoundedChange(2, 4, single_step=True)
        return ContributionBound.of_pattern(pattern, "which changes as much as two", unit="user")


class RemembersSums(Sums):
    def take(self, events: Any, stops: Any) -> Any:
        found = super().take(events, stops)
        statistic: Any = self._statistic
        statistic.seen = found
        return found


class ReadsWhatWasCounted(StatisticResult):
    """Reads exact sums where there are some."""

    def __init__(self, statistic: Any, cells: Cells) -> None:
        value = statistic.shown(cells.release)
        super().__init__(statistic, Cells(replace(cells.release, value=value)))


class SaysWhatWasCounted(StatisticResult):
    def describe(self) -> str:
        statistic: Any = self.statistic
        return f"{statistic.seen}"


class ShowsWhatItCounted(Above):
    seen: Any = None
    result_type: Any = ReadsWhatWasCounted

    def begin(self) -> Sums:
        return RemembersSums(self)

    def shown(self, release: StepRelease) -> Any:
        return release.value if self.seen is None else self.seen.sum(axis=0)


class ShowsOnlyWhatItCounted(ShowsWhatItCounted):
    def shown(self, release: StepRelease) -> Any:
        return self.seen.sum(axis=0)


class SaysWhatItCounted(ShowsWhatItCounted):
    """Shows what was released, and what was counted in words."""

    result_type = SaysWhatWasCounted


class Forgetful(Sums):
    """Counts nothing once it was restored."""

    def __init__(self, statistic: Any, restored: bool = False) -> None:
        super().__init__(statistic)
        self._restored = restored

    def take(self, events: Any, stops: Any) -> Any:
        return super().take(events, stops) * (not self._restored)

    def load(self, saved: bytes) -> None:
        self._restored = True


def claiming(**claims: Any) -> Above:
    """A statistic that says something else of itself."""
    cls: Any = type("Wrong", (Above,), claims)
    made: Above = cls()
    return made


class LetterByLetter(Substrings):
    """Protects less than one letter changes, where a step has one."""

    def contribution(self, *, batched: bool = False) -> ContributionBound:
        if batched:
            return super().contribution(batched=True)
        return ContributionBound.replace(cells=1, unit="letter")


class LettersThatGo(Substrings):
    """Replaces letters, and says that they come and go."""

    def neighbours_differ(self) -> str:
        return Distinct().neighbours_differ()


class WiderReading(StatisticResult):
    def std(self, name: Any = None) -> float:
        return float(2 * super().std(name))


class ShownExactly(OnDemandResult):
    """What was counted, with the words of what is released."""

    def __getitem__(self, name: Any) -> Any:
        cell = np.array([self.statistic.cell(name)])
        return float(self._machine._exact.counts(cell, self.step)[0])


class SaidExactly(OnDemandResult):
    def describe(self) -> str:
        return f"{self._machine._exact.counts(np.arange(2), self.step)}"


class LostCuts(Cuts):
    def cell(self, name: Any) -> int:
        return 0


class ShowsCuts(Cuts):
    """Cells on demand, shown as they were counted."""

    result_type = ShownExactly


class SaysCuts(Cuts):
    """The same in words only."""

    result_type = SaidExactly


def grouped(**claims: Any) -> Grouped:
    """An average by two groups that says something else."""
    cls: Any = type(
        "WrongGroups", (Grouped,), {"resolve_parameters": lambda self, *args: self, **claims}
    )
    made: Grouped = cls(Average(0, 50, resolution=1), ["north", "south"])
    for name in claims:
        vars(made).pop(name, None)  # what it found out of itself
    return made


class InTheFirstGroup(Sums):
    """All rows are of one group."""

    def take(self, events: Any, stops: Any) -> Any:
        statistic: Any = self._statistic
        moved = [(statistic.groups[0], event) for _, event in events]
        return Grouped.begin(statistic).take(moved, stops)


class OfAllGroups(Sums):
    """Every row stands in each group."""

    def take(self, events: Any, stops: Any) -> Any:
        found = Grouped.begin(self._statistic).take(events, stops)  # type: ignore[arg-type]
        return np.repeat(found.sum(axis=1, keepdims=True), found.shape[1], axis=1)


def turned(self: Any, sums: Any) -> Any:
    return Grouped.measure(self, sums)[:, ::-1]


#: Events of a statistic that takes others than `STREAM` has, and whose they are.
STREAMS: dict[type[Statistic], tuple[Any, Any]] = {
    Cuts: ([[("a", "b")], [], [("b", "c"), ("a", "c")]], None),
    Grouped: ([[("north", 3), ("south", 12)], [], [("north", 70), ("south", 1)]], None),
    InOneStep: ([[("ann", True)], [("ann", False)]], lambda event: event[0]),
    Substrings: (["ab", "", "b", "aab"], None),
}


def stream_of(statistic: Statistic) -> tuple[Any, Any]:
    """Events for the laws of a statistic, and whose each of them is."""
    return next((STREAMS[cls] for cls in type(statistic).__mro__ if cls in STREAMS), (STREAM, None))

"""Published values with the description of their stream, of all steps and groups or of some.

Counts and sums have a cell for each step and group. Other statistics have a result for each step,
from whose cells tables are computed. A stream to which a program passes numbers has a release of
these for each step.

Tables are made in `released_table` and `period_sums`, answers to questions in `questions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, IntegersOrFloats, read_only
from counton.base.errors import InvalidInputError, param
from counton.base.exact import some_of, suggest, with_capital
from counton.continual import Design, Releases
from counton.continual.intervals import check_confidence_level
from counton.results.cell_series import CellNumbers, CellSeries
from counton.results.counted_windows import (
    AllToDate,
    CountedWindows,
    LastWindows,
    PeriodToDate,
)
from counton.results.display import EVERYTHING, DisplaySelection
from counton.results.metadata import PublishedSeries, ReleaseMetadata
from counton.results.series_numbers import Numbers
from counton.statistics import Grouped, StatisticResult
from counton.statistics.results import StatisticResults, result_of_release
from counton.statistics.statistic import place_of_name
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.periods import period_starts
from counton.windowing.window_selection import steps_between

if TYPE_CHECKING:
    from counton.results.revisions import Revisions

#: Requested groups: one group, several groups that are added up, or weights by group.
Groups = str | Sequence[str] | Mapping[str, float]
#: Consecutive steps: ``"25:48"`` (both included), a range, or None for all steps.
Steps = str | range | None
#: Name in place of the groups of a statistic if none is found yet.
_NOBODY = "(none)"


@dataclass(frozen=True, repr=False)
class ReleaseData:
    """The released numbers of a stream, for all steps and groups or for some of them.

    Attributes:
        steps: steps 1 to the last released step.
        published: the cells of counts and sums; results; or releases of a program's numbers.
        level: probability with which each interval holds.
        first: the first step that tables and charts show.
        chosen: names of the selected groups; None: all.
        shown: the selection of numbers to show.
        notes: sentences shown with the release everywhere.
        since: the first release that shows each undeclared group. If windows are released again, a
            group may have numbers for windows before it. The values of earlier steps are 0
            (`first_steps`).
        stored_rows: for a table of results from a file, the columns that identify its rows; None:
            no row is missing. Released cells are complete, because they are in the description.
        joint_margins: by step, half-widths of intervals that hold all at once.
        joint_level: level of each interval of several series, so that all hold at once.
        state: address of the state whose run has just released the numbers, for messages.
        revisions: the numbers of windows in all releases, if windows are released again.
    """

    metadata: ReleaseMetadata
    design: Design
    steps: range
    published: CellNumbers | StatisticResults | Releases
    level: float
    first: int = 1
    chosen: tuple[str, ...] | None = None
    shown: DisplaySelection = EVERYTHING
    notes: tuple[str, ...] = ()
    since: Mapping[str, int] | None = None
    stored_rows: pl.DataFrame | None = None
    joint_margins: Floats | None = None
    joint_level: float | None = None
    state: str | None = None
    revisions: Revisions | None = None

    @classmethod
    def of(
        cls,
        metadata: ReleaseMetadata,
        design: Design,
        values: IntegersOrFloats,
        level: float,
        *,
        shown: DisplaySelection = EVERYTHING,
        since: Mapping[str, int] | None = None,
        is_present: NDArray[np.bool_] | None = None,
        own_series: Mapping[PublishedSeries, Numbers] | None = None,
        has_total: NDArray[np.bool_] | None = None,
    ) -> Self:
        """Return the released numbers of a stream, given its cells by step."""
        steps = range(1, 1 + len(values))
        readable = design
        if since is not None and not metadata.statistic.additive:
            inner = metadata.inner
            # Nobody reads the cells of the group without a name.
            statistic = Grouped(inner, tuple(since) or (_NOBODY,))
            if not since:
                values = np.zeros((len(values), *statistic.cells), np.int64)
            values = values.reshape(len(values), *statistic.cells)
            metadata = replace(metadata, statistic=statistic)
            readable = replace(design, shape=statistic.cells)
        published: CellNumbers | StatisticResults
        if metadata.statistic.additive:
            flat = values.reshape(len(values), math.prod(values.shape[1:]))
            published = CellNumbers(read_only(flat), is_present, own_series or {}, has_total)
            shown = shown.of_ranking() if metadata.ranks else EVERYTHING
        else:
            published = StatisticResults.from_values(metadata.statistic, readable, values)
        return cls(
            metadata=metadata,
            design=design,
            steps=steps,
            published=published,
            level=check_confidence_level(level),
            shown=shown,
            since=since,
        )

    @property
    def has_cells(self) -> bool:
        """True if the published numbers are those of cells, as for counts and sums."""
        return isinstance(self.published, CellNumbers)

    @property
    def cells(self) -> CellNumbers:
        """The cells of counts and sums; `InvalidInputError` for others."""
        if not isinstance(self.published, CellNumbers):
            self.refuse_for_results("totals and windows")
        return self.published

    @cached_property
    def series(self) -> CellSeries:
        """The series of counts and sums; `InvalidInputError` for others."""
        return CellSeries(
            metadata=self.metadata,
            design=self.design,
            steps=self.steps,
            groups=self.groups,
            cells=self.cells,
            interval_level=self.level if self.joint_level is None else self.joint_level,
            joint_margins=self.joint_margins,
            is_undeclared=self.since is not None,
        )

    @property
    def results(self) -> StatisticResults:
        """The statistic's numbers at each step; `InvalidInputError` without a statistic."""
        if not isinstance(self.published, StatisticResults):
            self.refuse_for_results("differences, shares and sums")
        return self.published

    @property
    def is_by_group(self) -> bool:
        """True if tables have one number for each group, as for counts and sums."""
        return self.has_cells and not self.metadata.ranks

    @property
    def is_drawable(self) -> bool:
        """True if a chart can draw the numbers."""
        return self.is_by_group and bool(self.groups)

    @property
    def n_series(self) -> int:
        """Number of rows of each window and group of counts and sums."""
        return len(self.metadata.published_series)

    @property
    def n_rows(self) -> int | None:
        """Number of rows of the table; None if it is not known before the table is made."""
        if not self.is_by_group:
            return None
        return len(self.shown_steps) * len(self.groups) * self.n_series

    # ------------------------------------------------------------------------------------- groups
    @property
    def groups(self) -> Sequence[str]:
        """Names of the selected groups; ``("all",)`` without groups."""
        if self.chosen is not None:
            return self.chosen
        if self.since is not None:
            return tuple(self.since)
        if self.has_cells:
            return self.metadata.groups
        return self.metadata.domain or ()

    @property
    def first_steps(self) -> NDArray[np.int64]:
        """The first step with a number, by group: int64; 1 for declared groups."""
        return self._first_steps_of(self.groups)

    def _first_steps_of(self, groups: Sequence[str]) -> NDArray[np.int64]:
        if self.since is None:
            return np.ones(len(groups), np.int64)
        releases = np.array([self.since[group] for group in groups], np.int64)
        return np.maximum(releases - self.metadata.windows.n_revisions, 1)

    # ------------------------------------------------------------------------------------ windows
    @property
    def shown_steps(self) -> range:
        """The steps that tables and charts show."""
        return range(self.first, self.steps.stop)

    @property
    def counted_windows(self) -> CountedWindows:
        """The windows that each number counts."""
        series = self.metadata.series
        if series == "rolling" and len(self.metadata.widths) == 1:
            return LastWindows(self.metadata.widths[0])
        if self.shown.over is not None:
            return LastWindows(self.shown.over)
        if self.has_cells:
            return AllToDate()
        if series == "period-to-date":
            period = self.metadata.counting_period_in_words()
            return AllToDate() if period is None else PeriodToDate(period)
        return LastWindows(1) if series == "per-window" else AllToDate()

    @cached_property
    def period_begins(self) -> NDArray[np.int64]:
        """For each step, the last step before its period: users count again in each."""
        every = self.metadata.counting_period()
        windows = self.metadata.windows
        return period_starts(windows, every, self.steps.stop - 1)

    @property
    def users_begin(self) -> NDArray[np.int64]:
        """For each step, the step after which users are counted again."""
        if self.metadata.counting_period() is not None:
            return self.period_begins
        return np.asarray(self.steps, np.int64) - 1

    def begins_of(self, steps: Sequence[int]) -> NDArray[np.int64]:
        """Return, for each of ``steps``, the step after which the shown number begins to count; 0
        for the beginning of the stream.
        """
        ends = np.asarray(steps, np.int64)
        counted = self.counted_windows
        if self.metadata.series == "rolling" and isinstance(counted, LastWindows):
            return np.maximum(ends - counted.n_windows, 0)
        if self.shown.over is not None:
            return ends - self.shown.over
        if self.metadata.series == "period-to-date":
            return self.period_begins[ends - 1]
        return ends - 1 if counted == LastWindows(1) else np.zeros_like(ends)

    def ends(self, steps: Steps) -> tuple[int, int]:
        """Return the step before the first of ``steps``, and the last.

        None: the steps that the newest number covers. Steps that are not released are refused.
        """
        last = self.steps.stop - 1
        if steps is None and self.counted_windows != AllToDate() and self.steps:
            return int(self.begins_of([last])[0]), last
        chosen = steps_between(steps, last, self.metadata.windows)
        return chosen.start - 1, chosen.stop - 1

    def counted_until(self) -> NDArray[np.int64]:
        """Return the time up to which each release counts, in microseconds since 1970."""
        last_windows = np.maximum(np.asarray(self.steps) - self.metadata.strategy.facts.delay, 0)
        ends = self.metadata.windows.ends(range(self.steps.stop))  # from the stream's beginning
        return np.asarray(ends[last_windows], dtype=np.int64)

    def in_local_time(self, us: NDArray[np.int64]) -> NDArray[np.datetime64]:
        """Convert microseconds since 1970-01-01 UTC to local times."""
        local = self.metadata.windows.local_times(us).dt.replace_time_zone(None).to_numpy()
        return np.asarray(local, dtype="datetime64[us]")

    def check_released(self) -> None:
        """Raise `InvalidInputError` if nothing is released yet."""
        if not self.steps:
            raise InvalidInputError(
                "nothing is released yet, because no window has ended by the newest event; give "
                f"events beyond the first window, or {param('until')}"
            )

    # ---------------------------------------------------------------------------------- selection
    def only(self, steps: range | None = None, groups: Sequence[str] | None = None) -> Self:
        """Return some steps and groups; see `Release.only`."""
        numbers = self
        if steps is not None:
            numbers = replace(self, first=steps.start, steps=range(1, steps.stop))
            if self.has_cells:
                numbers = numbers._until(steps.stop - 1)
            elif isinstance(self.published, StatisticResults) and self.since is not None:
                numbers = numbers._results_until(steps.stop - 1, self.published)
            elif isinstance(self.published, StatisticResults):
                numbers = replace(
                    numbers, published=self.published[: steps.stop - self.published.steps.start]
                )
        return numbers if groups is None else numbers._of_groups(tuple(groups))

    def _until(self, last: int) -> Self:
        """Return counts or sums up to step ``last``, without groups that were shown later."""
        numbers = replace(
            self,
            published=self.cells.until(last),
            joint_margins=None if self.joint_margins is None else self.joint_margins[:last],
        )
        if self.since is None:
            return numbers
        first = self.first_steps.tolist()
        names = [group for group, step in zip(self.groups, first, strict=True) if step <= last]
        return replace(
            numbers,
            published=numbers.cells.of_groups(GroupNames(self.groups).places(names)),
            since={group: self.since[group] for group in names},
            chosen=None if self.chosen is None else tuple(names),
        )

    def _results_until(self, last: int, results: StatisticResults) -> Self:
        """Return results up to step ``last``, without groups that were shown later."""
        assert self.since is not None
        assert results.releases is not None
        first = dict(zip(self.since, self._first_steps_of(tuple(self.since)), strict=True))
        since = {group: self.since[group] for group, step in first.items() if step <= last}
        values = results.releases.values[:last, : len(since)]
        renewed = self.of(self.metadata, self.design, values, self.level, since=since)
        chosen = self.chosen and tuple(group for group in self.chosen if group in since)
        return replace(
            self,
            metadata=renewed.metadata,
            published=renewed.published,
            since=since,
            chosen=chosen,
        )

    def _of_groups(self, groups: tuple[str, ...]) -> Self:
        statistic = self.metadata.statistic
        if statistic.declares is not None:
            for group in groups:
                place_of_name(statistic, group)
            return replace(self, shown=self.shown._replace(ask=groups))
        if self.has_cells:
            if groups == self.groups:
                return self
            return self._groups_at(self._places_of(groups))
        if not isinstance(statistic, Grouped) or isinstance(self.published, Releases):
            raise InvalidInputError(
                f"{param('groups', ','.join(groups))} names groups, but {self.design.name!r} has "
                "no groups; leave it out"
            )
        for group in groups:
            statistic.group(group)
        return replace(self, chosen=groups)

    def _places_of(self, groups: Sequence[str]) -> NDArray[np.int64]:
        """Return the indices of some groups; refuse unknown groups, and groups named twice."""
        places = GroupNames(self.groups).places(groups)
        is_repeated = np.ones(len(places), np.bool_)
        is_repeated[np.unique(places, return_index=True)[1]] = False
        is_wrong = is_repeated | (places < 0)
        if not is_wrong.any():
            return places
        if self.metadata.group_by is None:
            raise InvalidInputError(
                f"{param('groups', ','.join(groups))} names groups, but "
                f"{self.design.name!r} has a single total: leave it out"
            )
        number = int(np.argmax(is_wrong))
        near = ""
        why = "twice"
        if places[number] < 0:
            why = "which is not a group of this release"
            near = suggest(groups[number], self.groups)
        raise InvalidInputError(
            f"{param('groups')} names {groups[number]!r}, {why}. {with_capital(near)}"
            f"Choose from {some_of(self.groups)}, each once"
        )

    def _groups_at(self, places: NDArray[np.int64]) -> Self:
        """Return counts or sums of the groups with these indices."""
        groups = tuple(GroupNames(self.groups).at(places))
        return replace(
            self,
            published=self.cells.of_groups(places),
            chosen=groups,
            shown=self.shown._replace(ask=groups) if self.metadata.ranks else self.shown,
        )

    def first_groups(self, count: int) -> Self:
        """Return the first ``count`` groups, in declared order.

        Groups are not chosen by their estimates: intervals of the largest of many noisy numbers
        hold less often than they state.
        """
        if len(self.groups) <= count:
            return self
        return self._groups_at(np.arange(count))

    def with_note(self, note: str) -> Self:
        """Return the release with one more note."""
        return replace(self, notes=(*self.notes, note))

    def at(self, level: float) -> Self:
        """Return the numbers with another level; see `Release.at`."""
        level = check_confidence_level(level)
        return replace(self, level=level, joint_margins=None, joint_level=None)

    # ------------------------------------------------------------------------------------ results
    @property
    def result(self) -> StatisticResult:
        """The numbers after the last step; see `Release.result`."""
        last = self.steps.stop - 1
        if self.metadata.series == "period-to-date":
            return self.result_between(int(self.period_begins[last - 1]), last)
        if self.metadata.half_life is not None and not self.has_cells:
            return self.decayed_results[last - 1]
        if self.metadata.series == "rolling" and not self.has_cells:
            return self.result_between(int(self.begins_of([last])[0]), last)
        return self.results[last - 1]

    def result_of_series(self, series: PublishedSeries, step: int) -> StatisticResult:
        """Return the numbers of a rolling or decayed series after a step.

        Args:
            series: the series.
            step: the last window that is counted.
        """
        if series.width is None:
            return self.decayed_results[step - 1]
        return self.result_between(max(step - series.width, 0), step)

    @cached_property
    def decayed_results(self) -> Sequence[StatisticResult]:
        """The numbers in which older windows count less, after each step from 1 on."""
        from counton.strategies.workloads import Decayed

        assert self.metadata.half_life is not None
        releases = self.results.releases
        assert releases is not None
        statistic = self.metadata.statistic
        decayed = releases.decayed(Decayed(self.metadata.half_life))
        return [result_of_release(statistic, release) for release in decayed]

    @cached_property
    def result_between(self) -> Callable[[int, int], StatisticResult]:
        """Function of (start, stop) that returns the numbers of steps start + 1 to stop."""

        # A plan for recent windows may release each window alone.
        adds_windows = self.metadata.is_recent and self.design.strategy.facts.release == "windows"
        releases = self.results.releases if adds_windows else None

        @lru_cache(maxsize=2)
        def read(start: int, stop: int) -> StatisticResult:
            if releases is not None:
                return result_of_release(self.metadata.statistic, releases.span(start, stop))
            result = self.results[stop - 1]
            if self.design.strategy.facts.release == "windows":
                if start != stop - 1:
                    raise InvalidInputError(
                        f"{self.design.name!r} holds the numbers of single windows, and those of "
                        "several windows do not add up: ask for one window "
                        f"({param('windows', stop)}), or begin a stream with "
                        f"{param('series', 'cumulative')}"
                    )
                return result
            return result.since(self.results[start - 1]) if start else result

        return read

    def refuse_for_results(self, action: str) -> NoReturn:
        """Raise `InvalidInputError` for what can be asked only of counts and sums.

        Args:
            action: what was asked for.
        """
        raise InvalidInputError(
            f"{self.design.name!r} holds results of {self.metadata.kind}, and {action} can be "
            "asked only of counts, and of sums of declared groups; leave it out"
        )

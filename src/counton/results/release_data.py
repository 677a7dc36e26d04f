"""Published values with the description of their stream: selection, tables and sums.

Counts and sums have a cell for each step and group. Other statistics have a result for each step,
from whose cells tables are computed. A stream to which a program passes numbers has a release of
these for each step. Other modules need not know which form a release has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, read_only
from counton.base.errors import InvalidInputError, param
from counton.base.exact import some_of, suggest, with_capital
from counton.base.table_schema import (
    CUMULATIVE,
    DECAYED,
    PER_WINDOW,
    ROLLING,
    TRAILING,
    WINDOW,
)
from counton.continual import Design, Releases
from counton.continual.formulas import Estimate, Formula, TableNumbers, Term
from counton.continual.intervals import check_confidence_level
from counton.continual.releases import recent_values
from counton.continual.table_request import TableRequest
from counton.results.display import EVERYTHING, DisplaySelection
from counton.results.metadata import PublishedSeries, ReleaseMetadata
from counton.results.periods import (
    Periods,
    check_periods,
    check_sums,
    period_starts,
    periods_of,
    refuse_users_added,
    steps_between,
)
from counton.results.series import (
    LateValues,
    Numbers,
    Series,
    arranged,
    columns_below,
    finite,
    local_times,
    rows_among,
    when_columns,
)
from counton.results.systematic_errors import adds_users_up
from counton.results.text import with_parts
from counton.results.window_notes import (
    note_of_number,
    with_notes,
    with_notes_of_periods,
    with_notes_of_sums,
    withdrawn_cells,
)
from counton.statistics import Grouped, Statistic, StatisticResult
from counton.statistics.results import StatisticResults
from counton.statistics.statistic import place_of_name
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from counton.results.revisions import Revisions
    from counton.statistics.by_group import GroupedResult

#: Requested groups: one group, several groups that are added up, or weights by group.
Groups = str | Sequence[str] | Mapping[str, float]
#: Consecutive steps: ``"25:48"`` (both included), a range, or None for all steps.
Steps = str | range | None
#: Name in place of the groups of a statistic if none is found yet.
_NOBODY = "(none)"
#: Largest number of table rows that are made at a time.
_ROWS = 2**16


@dataclass(frozen=True, repr=False)
class ReleaseData:
    """The released numbers of a stream, for all steps and groups or for some of them.

    Attributes:
        steps: steps 1 to the last released step.
        published: cells of this stream's totals, or of windows if no totals are published, by
            step and group; results; or releases of a program's numbers.
        first: the first step that tables and charts show.
        chosen: names of the selected groups; None: all.
        shown: the selection of numbers to show.
        notes: sentences shown with the release everywhere.
        since: the first release that shows each undeclared group. If windows are released again, a
            group may have numbers for windows before it. The values of earlier steps are 0
            (`first_steps`).
        there: for counts or sums from a file, whether each step and group has a row, shape
            ``(steps, groups)``; None: all. An estimate that needs a missing row raises an error.
        rows_there: for another table from a file, the columns that identify existing rows; None:
            all. Released cells are complete, because they are in the description.
        own_series: the numbers of other series than totals, if a file has them.
        totals_there: for rolling sums from a file, whether the total of each step and group
            follows from its rows; None: it does wherever there are rows.
        together: by step, half-widths of intervals that hold all at once.
        joint_level: level of each interval of several series, so that all hold at once.
        kept_in: the state of the run that has just released it.
        revisions: the numbers of windows in all releases, if windows are released again.
    """

    metadata: ReleaseMetadata
    design: Design
    steps: range
    published: Numbers | LateValues | StatisticResults | Releases
    level: float
    first: int = 1
    chosen: tuple[str, ...] | None = None
    shown: DisplaySelection = EVERYTHING
    notes: tuple[str, ...] = ()
    since: Mapping[str, int] | None = None
    there: NDArray[np.bool_] | None = None
    rows_there: pl.DataFrame | None = None
    own_series: Mapping[PublishedSeries, Numbers] = field(default_factory=dict)
    totals_there: NDArray[np.bool_] | None = None
    together: Floats | None = None
    joint_level: float | None = None
    kept_in: str | None = None
    revisions: Revisions | None = None

    @classmethod
    def of(
        cls,
        metadata: ReleaseMetadata,
        design: Design,
        values: NDArray[Any],
        level: float,
        *,
        shown: DisplaySelection = EVERYTHING,
        since: Mapping[str, int] | None = None,
        there: NDArray[np.bool_] | None = None,
        own_series: Mapping[PublishedSeries, Numbers] | None = None,
        totals_there: NDArray[np.bool_] | None = None,
        start: int = 1,
    ) -> Self:
        """Return the released numbers of a stream, given its cells, by step from ``start`` on."""
        steps = range(1, start + len(values))
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
        if metadata.statistic.additive:
            flat: Any = values.reshape(len(values), math.prod(values.shape[1:]))
            flat = flat if start == 1 else LateValues(flat, start)
            published: Any = read_only(flat)
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
            there=there,
            own_series=own_series or {},
            totals_there=totals_there,
        )

    @property
    def has_cells(self) -> bool:
        """True if the published numbers are those of cells, as for counts and sums."""
        return not isinstance(self.published, StatisticResults | Releases)

    @property
    def _cells(self) -> Any:
        """The cells of counts and sums; `InvalidInputError` for others."""
        self._require_cells()
        return self.published

    def _require_cells(self) -> None:
        """Raise `InvalidInputError` unless the published numbers are those of cells."""
        if not self.has_cells:
            self._cannot("totals and windows")

    @cached_property
    def series(self) -> Series:
        """The cells of counts and sums with their errors; `InvalidInputError` for others."""
        cells = self._cells
        errors = self.design.errors
        half = self.together
        if half is None:
            level = self.level if self.joint_level is None else self.joint_level
            half = errors.halfwidths(self.steps, level)
        return Series(cells, errors.std(self.steps), half, self.there)

    @property
    def results(self) -> StatisticResults:
        """The statistic's numbers at each step; `InvalidInputError` without a statistic."""
        if not isinstance(self.published, StatisticResults):
            self._cannot("differences, shares and sums")
        return self.published

    @property
    def statistic(self) -> Statistic:
        """The statistic of the stream."""
        return self.metadata.statistic

    @property
    def is_by_group(self) -> bool:
        """True if tables have one number for each group, as for counts and sums."""
        return self.has_cells and not self.metadata.ranks

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

    @property
    def shown_steps(self) -> range:
        """The steps that tables and charts show."""
        return range(self.first, self.steps.stop)

    @property
    def over(self) -> int | str | None:
        """Number of last steps of each number, or its period, such as "week"; None: all to date."""
        series = self.metadata.series
        if series == "rolling" and len(self.metadata.widths) == 1:
            return self.metadata.widths[0]
        if self.shown.over is not None or self.has_cells:
            return self.shown.over
        if series == "period-to-date":
            return self.metadata.anew()
        return 1 if series == "per-window" else None

    @cached_property
    def _period_begins(self) -> NDArray[np.int64]:
        """For each step, the last step before its period: users count again in each."""
        every = self.metadata.anew_every()
        windows = self.metadata.windows
        return period_starts(windows, every, self.steps.stop - 1)

    def _begins(self, steps: Sequence[int]) -> NDArray[np.int64]:
        """Return, for each of ``steps``, the step after which the shown number begins to count; 0
        for the beginning of the stream.
        """
        ends = np.asarray(steps, np.int64)
        if self.metadata.series == "rolling" and isinstance(self.over, int):
            return np.maximum(ends - self.over, 0)
        if self.shown.over is not None:
            return ends - self.shown.over
        if self.metadata.series == "period-to-date":
            return self._period_begins[ends - 1]
        return ends - 1 if self.over == 1 else np.zeros_like(ends)

    def _request_at(self, step: int) -> TableRequest:
        """Return which table a statistic should make at a step."""
        groups = self.chosen
        if self.since is not None:
            first = self.first_steps.tolist()
            groups = tuple(name for name, at in zip(self.groups, first, strict=True) if at <= step)
        return TableRequest(self.shown.ask, groups)

    @property
    def delay(self) -> int:
        """Number of last windows that a release does not count yet."""
        return self.metadata.strategy.facts.delay

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
        key: Any = slice(last)
        chosen = self.chosen
        since = self.since
        if since is not None:
            first = self.first_steps.tolist()
            names = [group for group, step in zip(self.groups, first, strict=True) if step <= last]
            key = key, GroupNames(self.groups).places(names)
            since = {group: since[group] for group in names}
            chosen = None if chosen is None else tuple(names)
        return replace(
            self,
            published=read_only(self._cells[key]),
            together=None if self.together is None else self.together[:last],
            chosen=chosen,
            since=since,
            there=None if self.there is None else self.there[:last],
            own_series={of: read_only(sums[:last]) for of, sums in self.own_series.items()},
            totals_there=None if self.totals_there is None else self.totals_there[:last],
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
        if self.statistic.declares is not None:
            for group in groups:
                place_of_name(self.statistic, group)
            return replace(self, shown=self.shown._replace(ask=groups))
        if self.has_cells:
            if groups == self.groups:
                return self
            of = GroupNames(self.groups).places(groups)
            again = np.ones(len(of), np.bool_)
            again[np.unique(of, return_index=True)[1]] = False
            if (wrong := again | (of < 0)).any():
                if self.metadata.group_by is None:
                    raise InvalidInputError(
                        f"{param('groups', ','.join(groups))} names groups, but "
                        f"{self.design.name!r} has a single total: leave it out"
                    )
                number = int(np.argmax(wrong))
                near = ""
                why = "twice"
                if of[number] < 0:
                    why = "which is not a group of this release"
                    near = suggest(groups[number], self.groups)
                raise InvalidInputError(
                    f"{param('groups')} names {groups[number]!r}, {why}. {with_capital(near)}"
                    f"Choose from {some_of(self.groups)}, each once"
                )
            return self._groups_at(of)
        if not isinstance(self.statistic, Grouped) or isinstance(self.published, Releases):
            raise InvalidInputError(
                f"{param('groups', ','.join(groups))} names groups, but {self.design.name!r} has "
                "no groups; leave it out"
            )
        for group in groups:
            self.statistic.group(group)
        return replace(self, chosen=groups)

    def _groups_at(self, of: NDArray[np.int64]) -> Self:
        """Return counts or sums of the groups with these indices."""
        is_present = self.there
        groups = tuple(GroupNames(self.groups).at(of))
        return replace(
            self,
            published=read_only(self._cells[:, of]),
            chosen=groups,
            shown=self.shown._replace(ask=groups) if self.metadata.ranks else self.shown,
            there=None if is_present is None else is_present[:, of],
            own_series={name: read_only(sums[:, of]) for name, sums in self.own_series.items()},
            totals_there=None if self.totals_there is None else self.totals_there[:, of],
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
        return replace(self, level=level, together=None, joint_level=None)

    @cached_property
    def totals(self) -> Series | None:
        """Running totals, if they are published; else `InvalidInputError`."""
        self._require_cells()
        if self.metadata.series in ("per-window", "rolling", "decayed"):
            return None
        if self.design.strategy.facts.workload == "windows":  # sums of windows, read together
            stops = np.asarray(self.steps)
            return self.between(np.zeros_like(stops), stops)
        return self.series

    @cached_property
    def windows(self) -> Series | None:
        """The numbers of single windows, if published; `InvalidInputError` if there are none."""
        return self._windows(self.steps)

    def _windows(self, steps: range) -> Series | None:
        """Return the numbers of single windows for some steps."""
        self._require_cells()
        if self.metadata.series in ("cumulative", "rolling", "decayed"):
            return None
        if self.design.strategy.facts.workload == "windows" and self.totals_there is None:
            return self.series.part(steps)
        stops = np.asarray(steps, np.int64)
        own_windows = self.own_series.get(PublishedSeries(PER_WINDOW))
        if own_windows is None:
            return self.between(stops - 1, stops)
        series = self._between(stops - 1, stops, own_windows[stops - 1])
        is_present = None if self.there is None else self.there[stops - 1]
        return replace(series, there=is_present, start=steps.start)

    def _rolling(self, width: int, steps: range | None = None) -> Series:
        """Return the sums of the last windows; in the first steps, of all windows so far.

        Args:
            width: number of windows.
            steps: consecutive steps; None: all.
        """
        steps = self.steps if steps is None else steps
        stops = np.asarray(steps, np.int64)
        starts = np.maximum(stops - width, 0)
        own_sums = self.own_series.get(PublishedSeries(ROLLING, width))
        if own_sums is None:
            return self.between(starts, stops)
        series = self._between(starts, stops, own_sums[stops - 1])
        is_present = None if self.there is None else self.there[stops - 1]
        return replace(series, there=is_present, start=steps.start)

    def _decayed(self, steps: range | None = None) -> Series:
        """Return the sums in which older windows count less.

        Args:
            steps: consecutive steps; None: all.
        """
        from counton.continual.stream_errors import ErrorsOf
        from counton.strategies.workloads import Decayed

        steps = self.steps if steps is None else steps
        assert self.metadata.half_life is not None
        workload = Decayed(self.metadata.half_life)
        values = self.own_series.get(PublishedSeries(DECAYED))
        if values is None:
            (part,) = workload.parts
            values = recent_values(self._totals[: steps.stop - 1], part)
        errors = replace(self.design, errors_of=ErrorsOf(workload=workload)).errors
        level = self.level if self.joint_level is None else self.joint_level
        of = slice(steps.start - 1, steps.stop - 1)
        is_present = None if self.there is None else self.there[of]
        half = errors.recent_halfwidths(steps, level)[""]
        return Series(values[of], errors.recent_stds(steps)[""], half, is_present, steps.start)

    @property
    def _last_series(self) -> tuple[Series | None, Series | None]:
        """The totals and the windows of the last step."""
        steps = self.steps[-1:]
        return None if self.totals is None else self.totals.part(steps), self._windows(steps)

    def between(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Series:
        """Return sums over ranges of steps, start + 1 to stop, with the noise of each sum.

        Raises:
            InvalidInputError: undeclared groups, shown only from some step on; or no sums.
        """
        self._refuse_found()
        return self._between(starts, stops, self._so_far(stops) - self._so_far(starts))

    def _between(
        self, starts: NDArray[np.int64], stops: NDArray[np.int64], estimates: Numbers
    ) -> Series:
        level = self.level if self.joint_level is None else self.joint_level
        half = self.design.errors.window_halfwidths(starts, stops, level)
        return Series(estimates, self.design.errors.window_std(starts, stops), half)

    def _so_far(self, steps: NDArray[np.int64], places: Any = None) -> Numbers:
        """Return totals after some steps, ``(len(steps), groups)``; step 0 is the beginning."""
        steps = np.atleast_1d(steps)
        if self.there is not None or self.totals_there is not None:
            needed = steps
            # sums of all windows up to each step
            if self.design.strategy.facts.workload == "windows" and self.totals_there is None:
                needed = np.arange(1, int(steps.max(initial=0)) + 1)
            self._refuse_missing(needed[needed > 0], places)
        totals = self._totals[np.maximum(steps - 1, 0)]
        totals[steps == 0] = 0
        return totals if places is None else totals[:, places]

    def _refuse_missing(self, needed: NDArray[np.int64], places: Any = None) -> None:
        """Raise `InvalidInputError` if the file lacks a number at ``needed`` steps."""
        is_present = self.there if self.totals_there is None else self.totals_there
        if is_present is None:
            return
        of = np.arange(len(self.groups)) if places is None else places
        missing = np.argwhere(~is_present[needed - 1][:, of])
        if len(missing):
            row, column = missing[0].tolist()
            raise InvalidInputError(
                f"step {int(needed[row]):,} of {self.groups[int(of[column])]!r} is not in the "
                f"file; give a file that has it"
            )

    def _refuse_withdrawn(self, ends: Sequence[int], groups: Sequence[str]) -> None:
        """Refuse what is computed of the totals at ``ends``, or of the windows between them, if one
        of these numbers is withdrawn.
        """
        steps = range(1, max(ends) + 1)
        withdrawn = withdrawn_cells(self.metadata.notes, steps, groups)
        if self.metadata.series in ("cumulative", "rolling"):
            withdrawn[np.setdiff1d(steps, ends) - 1] = False
        else:
            withdrawn[: min(ends)] = False
        if withdrawn.any():
            step, group = np.argwhere(withdrawn)[0].tolist()
            raise InvalidInputError(
                f"the number of step {step + 1:,} of {groups[group]!r} is withdrawn: ask for "
                f"{param('windows')} without it"
            )

    @cached_property
    def _totals(self) -> Numbers:
        estimates: Numbers = self._cells  # callers have refused missing values
        if self.design.strategy.facts.workload == "totals" or self.totals_there is not None:
            return estimates
        if isinstance(estimates, LateValues):  # totals less that of the step before
            late: Any = np.cumsum(estimates.values, axis=0)
            late = np.concatenate([np.zeros_like(late[:1]), late])
            return cast("Numbers", LateValues(late, estimates.start - 1))
        return cast("Numbers", np.cumsum(estimates, axis=0))

    def _refuse_found(self) -> None:
        """Refuse groups that were found in the data, and decayed sums."""
        if self.metadata.series == "decayed":
            raise InvalidInputError(
                f"{self.design.name!r} releases decayed sums, which are not added up or compared: "
                "read its table"
            )
        if self.since is not None:
            raise InvalidInputError(
                "groups that were found in the data are each shown only from one of the releases "
                "on, so only the rows of their table are published; read these rows, or list the "
                "groups beforehand"
            )

    def number_of(self, groups: Groups, steps: Steps = None, of: str | None = None) -> Estimate:
        """Return a number of one or several groups in some steps, with all its noise.

        Arguments are those of `Release.difference`.

        Raises:
            InvalidInputError: a group, step or number is unknown; or the statistic has no such
                number.
        """
        self._refuse_found()
        weights = {groups: 1.0} if isinstance(groups, str) else groups
        if not isinstance(weights, Mapping):
            weights = dict.fromkeys(weights, 1.0)
        if self.has_cells:
            return self._sum_of_cells(weights, steps, of)
        if not weights:
            raise InvalidInputError(f"{param('groups')} is empty; give at least one group")
        numbers = [(self._number(name, steps, of), weight) for name, weight in weights.items()]
        if isinstance(groups, str):
            return numbers[0][0]
        parts = []
        for number, weight in numbers:
            if (formula := number.formula) is None:
                raise InvalidInputError(
                    f"{of or repr(self.metadata.what)} of several groups together cannot be "
                    "read, because it is not the sum of its values in these groups: ask for a "
                    "single group"
                )
            parts.append(formula * float(weight))
        return Formula.total(parts)

    def _sum_of_cells(self, weights: Mapping[str, float], steps: Steps, of: str | None) -> Formula:
        """Return a weighted sum over groups, with its noise."""
        from counton.continual.comparisons import sum_formula

        if of is not None:
            raise InvalidInputError(
                f"{param('of', of)} chooses among the numbers of a statistic, but "
                f"{self.design.name!r} has only the {self.metadata.subject}: leave it out"
            )
        names = list(weights)
        cells = GroupNames(self.metadata.groups).places(names).tolist()
        if -1 in cells or not names:
            wrong = names[cells.index(-1)] if names else None
            raise InvalidInputError(
                f"{param('groups')} names {wrong!r}, which is not a group of this release; "
                f"{suggest(wrong, self.metadata.groups)}choose from {some_of(self.metadata.groups)}"
            )
        places = GroupNames(self.groups).places(names)
        if (places < 0).any():
            raise InvalidInputError(
                f"{param('groups')} lacks {names[int(np.argmin(places))]!r}, which the question is "
                f"about; leave {param('groups')} out, or add it"
            )
        start, stop = self.ends(steps)
        self._refuse_withdrawn((start, stop), names)
        totals = {
            end: dict(zip(cells, total.tolist(), strict=True))
            for end, total in zip(
                (start, stop), self._so_far(np.array([start, stop]), places), strict=True
            )
        }
        parts = [
            Term(float(weight), start, stop, cell)
            for cell, weight in zip(cells, weights.values(), strict=True)
        ]
        return sum_formula(self.design, parts, lambda cell, step: totals[step][cell])

    def _number(self, name: str, steps: Steps, of: str | None) -> Estimate:
        """Return a number of another statistic, with its noise."""
        start, stop = self.ends(steps)
        statistic = self.statistic
        if isinstance(statistic, Grouped):
            result = cast("GroupedResult", self._result_of(start, stop))
            return result.of(name).number_of(of)
        if of is not None and name != "all":
            raise InvalidInputError(
                f"{param('of', of)} names a number of each group, but {self.design.name!r} has no "
                f"groups: give {of!r} in place of {name!r}"
            )
        return self._result_of(start, stop).number_of(of if name == "all" else name)

    @cached_property
    def _result_of(self) -> Callable[[int, int], StatisticResult]:
        """Function of (start, stop) that returns the numbers of steps start + 1 to stop."""

        @lru_cache(maxsize=2)
        def read(start: int, stop: int) -> StatisticResult:
            result = self.results[stop - 1]
            if self.design.strategy.facts.workload == "windows":
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

    def _numbers(self, start: int, stop: int) -> TableNumbers:
        """Return the table's numbers for steps start + 1 to stop."""
        return self._result_of(start, stop).numbers(self._request_at(stop))

    def whole(self, steps: Steps = None, of: str | None = None) -> Estimate:
        """Return the number of all groups together, the divisor of shares.

        Raises:
            InvalidInputError: one user may count in several groups, so that the sum of all groups
                is not the number of users.
        """
        self._refuse_shares_of_users()
        if self.has_cells:
            return self.number_of(self.metadata.groups, steps, of)
        if isinstance(self.statistic, Grouped):
            return self.number_of(self.statistic.groups, steps, of)
        return self._result_of(*self.ends(steps)).whole()

    def _refuse_shares_of_users(self) -> None:
        """Refuse the number of users of all groups, where one user may count in several groups."""
        groups = self.metadata.groups_of_user
        if groups > 1:
            unit = self.metadata.privacy_unit
            raise InvalidInputError(
                f"shares of distinct users cannot be computed, because one {unit} may count in "
                f"{groups:,} groups, and the number of users of all groups together is not "
                f"released. Ask for the ratio of two groups; or begin a stream with "
                f"{param('max_contributions', 1)}"
            )

    @property
    def _comparisons(self) -> int:
        """Number of comparisons among which a reader may have chosen: pairs of groups if these are
        shown because of their size, otherwise 1.
        """
        count = math.prod(self.statistic.cells) if self.statistic.ranks else 1
        return max(count * (count - 1) // 2, 1)

    def ends(self, steps: Steps) -> tuple[int, int]:
        """Return the step before the first of ``steps``, and the last.

        None: the steps that the newest number covers. Steps that are not released are refused.
        """
        last = self.steps.stop - 1
        if steps is None and self.over is not None and self.steps:
            return int(self._begins([last])[0]), last
        chosen = self.steps_named(steps)
        return chosen.start - 1, chosen.stop - 1

    def steps_named(self, steps: Steps) -> range:
        """Return the steps selected by numbers or times, as in `number_of`; refuse others."""
        return steps_between(steps, self.steps.stop - 1, self.metadata.windows)

    def table(self, steps: range | None = None) -> pl.DataFrame:
        """Return a row for each step and each group or number; see `Release.table`."""
        if steps is None:
            steps = self.shown_steps
        tables = [self._rows(chunk) for chunk in self._chunks(steps)]
        return tables[0] if len(tables) == 1 else pl.concat(tables)

    def lazy(self) -> pl.LazyFrame:
        """Return `table` as a lazy frame, which computes some rows at a time."""
        if not self.is_by_group:
            return self.table().lazy()
        from polars.io.plugins import register_io_source

        def rows(
            columns: list[str] | None,
            predicate: pl.Expr | None,
            most: int | None,
            _batch: int | None,
        ) -> Iterator[pl.DataFrame]:
            for steps in self._chunks(self.shown_steps):
                table = self._rows(steps)
                if predicate is not None:
                    table = table.filter(predicate)
                table = table if columns is None else table.select(columns)
                if most is not None:
                    table = table.head(most)
                    most -= table.height
                yield table

        schema = self._rows(self.shown_steps[:1]).schema
        return register_io_source(rows, schema=schema, is_pure=True)

    def _chunks(self, steps: range) -> Iterator[range]:
        """Yield consecutive ranges whose rows fit into memory; a single one for results."""
        size = max(1, _ROWS // max(1, len(self.groups)) if self.is_by_group else len(steps))
        for start in range(0, max(len(steps), 1), size):
            yield steps[start : start + size]

    def _rows(self, steps: range) -> pl.DataFrame:
        published = self.published
        if self.is_by_group:
            return self._rows_of_cells(steps)
        if isinstance(published, Releases):
            values = published.values[
                steps.start - published.steps.start : steps.stop - published.steps.start
            ]
            return pl.DataFrame(Releases(steps, values, self.design).table_columns(self.level))
        return self._published_form(self._rows_of_results(steps), self.rows_there)

    def _rows_of_cells(self, shown: range) -> pl.DataFrame:
        windows = self.metadata.windows
        groups = self.groups
        steps = len(shown)
        times = {"window_start": windows.starts(shown), "window_end": windows.ends(shown)}
        if self.delay:
            times["counted_until"] = self.counted_until()[shown.start - 1 : shown.stop - 1]
        when = {"window_index": np.asarray(shown, dtype=np.int64), **times}
        columns: dict[str, Any] = {
            name: np.repeat(column, len(groups)) for name, column in when.items()
        }
        columns["group"] = GroupNames(groups).column.gather(np.tile(np.arange(len(groups)), steps))
        moments = pl.col(*times).cast(pl.Datetime("us", "UTC"))
        table = pl.DataFrame(columns).with_columns(moments.dt.convert_time_zone(windows.timezone))
        table = self._published_form(self._with_versions(table), None)
        kept = ~withdrawn_cells(self.metadata.notes, shown, groups)
        if self.there is not None:
            kept &= self.there[shown.start - 1 : shown.stop - 1]
        if self.since is not None:
            kept &= np.asarray(shown)[:, None] >= self.first_steps
        is_kept = pl.Series(kept.ravel(), dtype=pl.Boolean)
        tables = [
            self._with_numbers(table, published, numbers, shown).filter(is_kept)
            for published, numbers in self._published_series(shown)
        ]
        if len(tables) == 1:
            return tables[0]
        together = pl.concat(tables, how="vertical_relaxed")
        return together.sort("window_index", maintain_order=True)

    def _published_series(self, steps: range) -> Iterator[tuple[PublishedSeries, Series]]:
        """Yield the released series of counts and sums with their numbers, for some steps."""
        for published in self.metadata.published_series:
            numbers: Series | None
            if published.width is not None:
                numbers = self._rolling(published.width, steps)
            elif published.name == DECAYED:
                numbers = self._decayed(steps)
            elif published.name == PER_WINDOW:
                numbers = self._windows(steps)
            else:
                numbers = None if self.totals is None else self.totals.part(steps)
            if numbers is not None:
                yield published, numbers

    def _with_numbers(
        self, table: pl.DataFrame, published: PublishedSeries, numbers: Series, steps: range
    ) -> pl.DataFrame:
        """Return the rows of one series.

        Args:
            table: The window and the group of each row.
            published: The series.
            numbers: Its numbers; missing ones are 0.
            steps: The steps of the rows, each with a row for each group.
        """
        columns: dict[str, Any] = numbers.with_zeros().columns(self.level)
        if self.metadata.widths:
            columns |= self._columns_of_width(published, steps)
        table = table.with_columns(**columns, series=pl.lit(published.name))
        if published.width is not None:
            notes = self.metadata.notes
            table = with_notes_of_sums(table, notes, self.metadata.windows, published.width)
        return arranged(table)

    def _columns_of_width(self, published: PublishedSeries, steps: range) -> dict[str, Any]:
        """Return which windows the numbers of a series count, and whether all have been released.

        Args:
            published: The series.
            steps: The steps of the rows, each with a row for each group.
        """
        stops = np.asarray(steps, np.int64)
        n_windows = _windows_counted(published, stops)
        columns = {
            "n_windows": np.repeat(n_windows, len(self.groups)),
            "is_complete": np.repeat(stops >= n_windows, len(self.groups)),
        }
        if published.width is None:
            return columns
        windows = self.metadata.windows
        begins = windows.starts(range(1, steps.stop))[np.maximum(stops - published.width, 0)]
        return columns | {"window_start": local_times(windows, np.repeat(begins, len(self.groups)))}

    def _rankings(self, steps: range) -> Iterator[TableNumbers]:
        """Yield the table of each step: the ``shown.top`` groups, and whether each is surely among
        them.

        This depends on all groups, so a file contains every group that any step shows.
        """
        from counton.statistics.ranking import ranked_numbers, ranking_of

        # Showing some groups is a choice among all possible ones, so lower ends allow for the
        # largest noise of all of them, and upper ends for that of k. If a reader chose the groups,
        # perhaps by released numbers, upper ends allow for the noise of all groups too.
        series = self.series
        shown = self.shown
        assert shown.top is not None
        first = self.first_steps
        values = series.estimates[steps.start - 1 : steps.stop - 1]
        shown_steps = steps or range(1, 2)
        # Groups that are not shown were always below.
        hidden = self.metadata.cells.thresholds(self.design, shown_steps)
        halves = cache(partial(self.design.errors.halfwidths, shown_steps))
        for at, (step, std) in enumerate(
            zip(shown_steps, self.design.errors.std(shown_steps), strict=True)
        ):
            present = np.flatnonzero(first <= step)
            names = [self.groups[place] for place in present.tolist()]
            half = partial(lambda at, level: float(halves(level)[at]), at)
            ranking = partial(
                ranking_of,
                names,
                values[at : at + 1, present].ravel(),
                half,
                shown.top,
                room=shown.room,
                chosen=shown.ask is not None,
                hidden=int(hidden[at]),
            )
            yield ranked_numbers(ranking, float(std))

    def _rows_of_results(self, steps: range) -> pl.DataFrame:
        begin = self.shown.over or 0
        steps = steps[sum(step < begin for step in steps[:begin]) :]
        begins = self._begins(steps)
        if self.metadata.ranks:
            numbers = self._rankings(steps)
        else:
            numbers = map(self._numbers, begins.tolist(), steps)
        parts = [part.columns(self.level) for part in numbers]
        rows = [len(next(iter(part.values()))) for part in parts]
        place = np.repeat(np.arange(len(steps)), rows)
        of_periods = begins[place] if self.metadata.series == "period-to-date" else None
        when = when_columns(
            np.asarray(steps, np.int64)[place], self.metadata.windows, self.shown.over, of_periods
        )
        when = when.with_columns(series=pl.lit(self._series_name))
        return self._with_versions(pl.concat([when, columns_below(parts)], how="horizontal"))

    @property
    def _series_name(self) -> str:
        """What a statistic's rows of a window count, as in the column ``series``."""
        if self.shown.over is not None:
            return PER_WINDOW if self.shown.over == 1 else TRAILING
        series = self.metadata.series
        return CUMULATIVE if series == "both" else series

    def _with_versions(self, table: pl.DataFrame) -> pl.DataFrame:
        """Add the columns of versions, if windows are released again."""
        if not self.design.strategy.facts.reads_another:
            return table
        from counton.results.revisions import version_columns

        newest: Any = self.design.strategy
        steps = table["window_index"].to_numpy()
        return table.with_columns(**version_columns(newest, steps, self.metadata.windows))

    def _published_form(
        self, table: pl.DataFrame, stored_rows: pl.DataFrame | None
    ) -> pl.DataFrame:
        """Return rows of ``stored_rows``, no single step, and each part of a group's name."""
        if stored_rows is not None:
            table = rows_among(table, stored_rows)
        if not (self.metadata.windows.is_recurring or self.has_cells):
            return arranged(table.drop("window_index", "series"))
        parted = table if self.metadata.ranks else with_parts(table, self.metadata)
        return arranged(with_notes(parted, self.metadata.notes))

    def plain_table(self, series: str | None = None, steps: range | None = None) -> pl.DataFrame:
        """Return the rows of one series, which is computed if it is not released.

        Args:
            series: ``"cumulative"`` or ``"per-window"``; None: cumulative if it is released.
            steps: the steps of the rows; None: all shown steps.
        """
        steps = self.shown_steps if steps is None else steps
        if not self.is_by_group:
            if series is not None:
                raise InvalidInputError(
                    f"{param('series', series)} is only for statistics with several numbers, but "
                    f"{self.design.name!r} is a {self.metadata.what}; leave it out"
                )
            return self.table(steps)
        released = self.metadata.series_names
        if series is None:
            series = released[0]
        is_recent = self.metadata.widths or self.metadata.half_life is not None
        if is_recent and series not in released:
            raise InvalidInputError(
                f"{param('series', series)} is not released by {self.design.name!r}; give "
                f"{' or '.join(released)}"
            )
        if series not in (CUMULATIVE, PER_WINDOW, *released):
            raise InvalidInputError(
                f"{param('series')} is {series!r}; use {CUMULATIVE} or {PER_WINDOW}"
            )
        table = self.table(steps)
        if series in released:
            return table.filter(pl.col("series") == series)
        # Unpublished numbers follow from published ones.
        stops = np.asarray(steps, np.int64)
        begins = stops - 1 if series == PER_WINDOW else np.zeros_like(stops)
        numbers = pl.DataFrame(self.between(begins, stops).columns(self.level))
        numbers = numbers.with_columns(series=pl.lit(series))
        table = table.drop(numbers.columns)
        if not self.metadata.notes:
            return arranged(table.hstack(numbers))
        withdrawn = withdrawn_cells(self.metadata.notes, range(1, steps.stop), self.groups)
        # Numbers that are computed of a withdrawn one would tell it.
        hidden = np.logical_or.accumulate(withdrawn)
        if series == PER_WINDOW:
            hidden = withdrawn | np.vstack([np.zeros_like(withdrawn[:1]), withdrawn[:-1]])
        is_shown = ~withdrawn[steps.start - 1 :].ravel()
        shown = ~hidden[steps.start - 1 :].ravel()
        computed = table.hstack(numbers.filter(pl.Series(is_shown)))
        return arranged(computed.filter(pl.Series(shown[is_shown])))

    def with_band(self) -> Self:
        """Return intervals that hold for all steps and groups at once, for a chart.

        For counts and sums they follow from the joint noise of all steps, if that makes them
        narrower. The noise of groups is independent, so each holds with probability ``level ** (1 /
        groups)``.

        Raises:
            InvalidInputError: there are no intervals, or groups are undeclared.
        """
        from counton.continual.simultaneous_intervals import narrowing_factor

        if self.since is not None:
            raise InvalidInputError(
                "a band holds only for groups that were chosen beforehand, but here groups were "
                "found in the data because they are large; use the table, or list the groups"
            )
        if not self.has_cells:
            table = self.plain_table()
            if "lower" not in table.columns:
                self._cannot("bands")
            return self.at(1 - (1 - self.level) / max(table.height, 1))
        group_level = float(self.level ** (1 / len(self.groups)))
        if self.metadata.widths or self.metadata.half_life is not None:
            n_numbers = len(self.shown_steps) * self.n_series
            joint_level = min(1 - (1 - group_level) / max(n_numbers, 1), 1 - 1e-9)
            return replace(self, joint_level=check_confidence_level(joint_level))
        wide = self.at(min(1 - (1 - group_level) / len(self.shown_steps), 1 - 1e-9))
        shown = slice(self.first - 1, None)
        half = wide.series.half.copy()
        factor = narrowing_factor(
            self.design, half[shown], self.first, group_level, windows=self.totals is None
        )
        half[shown] *= factor
        # whole numbers are inside or outside, never between
        if not self.design.strategy.facts.fraction_bits:
            unit = float(self.design.units.released)
            half[shown] = np.floor(half[shown] / unit * (1 + 1e-12)) * unit
        return replace(wide, level=self.level, together=half)

    def sums(self, every: str) -> pl.DataFrame:
        """Return the number of each day, week or month; see `Release.sums`."""
        check_sums(self.metadata, every)
        self.check_released()
        windows = self.metadata.windows
        check_periods(windows, every, self.delay)
        periods = periods_of(windows, every, self.steps[-1])
        refuse_users_added(self.metadata, every, periods.edges, self._users_begin)
        make_table = self._sums_of_cells if self.has_cells else self._sums_of_results
        table = make_table(periods)
        if windows.n_revisions:
            from counton.results.revisions import final_windows

            final = final_windows(self.design, self.steps[-1])
            table = table.with_columns(is_final=pl.col("last_window") <= final)
        return arranged(with_notes_of_periods(table, self.metadata.notes))

    @property
    def _users_begin(self) -> NDArray[np.int64]:
        """For each step, the step after which users are counted again."""
        if self.metadata.anew_every() is not None:
            return self._period_begins
        return np.asarray(self.steps, np.int64) - 1

    def _sums_of_cells(self, periods: Periods) -> pl.DataFrame:
        """Return a row with the sum of each group in each period."""
        first = periods.edges[:-1]
        self._refuse_withdrawn(periods.edges.tolist(), self.groups)
        columns = self.between(first, periods.edges[1:]).columns(self.level)
        table = periods.table(self.metadata.windows, [len(self.groups)] * len(first))
        return table.with_columns(
            group=pl.Series(list(self.groups) * len(first), dtype=pl.String),
            **columns,
        )

    def _sums_of_results(self, periods: Periods) -> pl.DataFrame:
        """Return the rows of a statistic's table for each period."""
        ends = pairwise(periods.edges.tolist())
        parts = [self._numbers(start, stop).columns(self.level) for start, stop in ends]
        rows = [len(next(iter(part.values()))) for part in parts]
        of_periods = periods.table(self.metadata.windows, rows)
        table = pl.concat([of_periods, columns_below(parts)], how="horizontal")
        stored_rows = self.rows_there
        if stored_rows is not None:
            named = [name for name in stored_rows.columns if name not in (*WINDOW, "series")]
            stored_rows = stored_rows.select(named).unique()
        return self._published_form(table, stored_rows)

    @cached_property
    def _last(self) -> pl.DataFrame:
        return self.only(self.steps[-1:]).table()

    def last_rows(self, most: int | None = None) -> pl.DataFrame:
        """Return the rows of the last step, of the first ``most`` groups."""
        if most is None:
            return self._last
        if self.is_by_group:
            return self.only(self.steps[-1:]).first_groups(most).table()
        return self._last.head(most)

    def last_numbers(self) -> dict[str, Any]:
        """Return the last numbers as JSON values, as ``rows`` of the table."""
        if not self.is_by_group:
            return {"rows": finite(self._last.drop(*WINDOW, "as_of", strict=False)).to_dicts()}
        withdrawn = withdrawn_cells(self.metadata.notes, self.steps[-1:], self.groups)
        rows: list[dict[str, Any]] = []
        for published, stored in self._published_series(self.steps[-1:]):
            columns = stored.with_withdrawn(withdrawn).columns(self.level)
            about: dict[str, Any] = {"series": published.name}
            if self.metadata.widths:
                about["n_windows"] = int(_windows_counted(published, self.steps[-1]))
            hidden = withdrawn[0].tolist()
            for place, group in enumerate(self.groups):
                row: dict[str, Any] = {**about, "group": group}
                for column, values in columns.items():
                    row[column] = None if hidden[place] else values[place].item()
                if self.metadata.notes:
                    row["note"] = note_of_number(
                        self.metadata.notes,
                        self.metadata.windows,
                        step=self.steps[-1],
                        group=group,
                        width=published.width,
                    )
                rows.append(row)
        counted_until = self.metadata.windows.format_moment(int(self.counted_until()[-1]))
        return {"counted_until": counted_until, "rows": rows}

    @property
    def result(self) -> StatisticResult:
        """The numbers after the last step; see `Release.result`."""
        last = self.steps.stop - 1
        if self.metadata.series == "period-to-date":
            return self._result_of(int(self._period_begins[last - 1]), last)
        return self.results[last - 1]

    @property
    def rows(self) -> int | None:
        """Number of rows of `table`; None if it is not known before the table is made."""
        if not self.is_by_group:
            return None
        return len(self.shown_steps) * len(self.groups) * self.n_series

    @property
    def n_series(self) -> int:
        """Number of rows of each window and group of counts and sums."""
        return len(self.metadata.published_series)

    def left_out(self) -> tuple[int, int]:
        """Return the number of rows that the file lacks, and of the release."""
        if self.rows_there is not None:
            of = replace(self, rows_there=None).table().height
            return of - self.table().height, of
        if self.there is None:
            return 0, 0
        begins = np.maximum(self.first_steps, self.first)
        missing = int((~self.there[self.first - 1 :]).sum())
        return missing * self.n_series, int((self.steps.stop - begins).sum()) * self.n_series

    @property
    def drawable(self) -> bool:
        """True if a chart can draw the numbers."""
        return self.is_by_group and bool(self.groups)

    def _times(self, steps: range) -> NDArray[np.datetime64] | NDArray[np.int64]:
        """Return the ends of windows as local times, or steps; step 0 is the start of the first."""
        windows = self.metadata.windows
        return (
            self.in_local_time(windows.ends(steps))
            if windows.timed
            else np.asarray(steps, np.int64)
        )

    def counted_until(self) -> NDArray[np.int64]:
        """Return the time up to which each release counts, in microseconds since 1970."""
        last_windows = np.maximum(np.asarray(self.steps) - self.delay, 0)
        ends = self.metadata.windows.ends(range(self.steps.stop))  # from the stream's beginning
        return np.asarray(ends[last_windows], dtype=np.int64)

    def in_local_time(self, us: NDArray[np.int64]) -> NDArray[np.datetime64]:
        """Convert microseconds since 1970-01-01 UTC to local times."""
        local = local_times(self.metadata.windows, us).dt.replace_time_zone(None).to_numpy()
        return np.asarray(local, dtype="datetime64[us]")

    def check_released(self) -> None:
        """Raise `InvalidInputError` if nothing is released yet."""
        if not self.steps:
            raise InvalidInputError(
                "nothing is released yet, because no window has ended by the newest event; give "
                f"events beyond the first window, or {param('until')}"
            )

    def facts(self) -> dict[str, Any]:
        """Return what a file states about these numbers, as JSON values."""
        over = self.over
        facts: dict[str, Any] = {}
        if self.metadata.ranks:  # the number of possible groups, from which these are chosen
            facts = {"room": self.shown.room}
        elif isinstance(self.published, StatisticResults):
            facts = {"statistic": self.design.statistic}
            if (cut := self.metadata.windows).is_recurring:
                windows = f"{cut.noun}s"
                last = f"all {windows} to date" if over is None else f"the {over} to date"
                if isinstance(over, int):
                    last = f"the last {over:,} {windows}"
                period = adds_users_up(self.metadata)
                facts["counted"] = last if period is None else f"{last}, {period}"
        return facts | ({"notes": [*self.notes]} if self.notes else {})

    def _cannot(self, action: str) -> NoReturn:
        raise InvalidInputError(
            f"{self.design.name!r} holds results of {self.metadata.kind}, and {action} can be "
            "asked only of counts, and of sums of declared groups; leave it out"
        )


def _windows_counted(published: PublishedSeries, steps: Any) -> Any:
    """Return how many windows the numbers of a series count at some steps."""
    if published.width is not None:
        return np.full_like(steps, published.width)
    return np.ones_like(steps) if published.name == PER_WINDOW else steps

"""One run of a job: read events, release the windows that have ended, keep track."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from dataclasses import field as attribute
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.errors import (
    InvalidInput,
    ReplayMismatch,
    StreamConflict,
    SumOverflow,
    field,
)
from counton.events.files import (
    Rows,
    Source,
    event_paths,
    open_source,
    refuse_among_events,
)
from counton.events.policies import Policies
from counton.events.tally import Reading, Tally, by_row, tally
from counton.events.windows import load_zone
from counton.jobs import clock, kinds
from counton.jobs.definition import (
    PERIODS,
    Asked,
    Definition,
    amend,
    ask,
    check,
    define,
    refuse_ended,
    refuse_of_ordered,
)
from counton.jobs.intake import Intake, Observed, compare, refuse_known
from counton.jobs.job import TABLES, Job, Progress, checked, silent
from counton.mechanisms import StreamTerms
from counton.mechanisms.intervals import halfwidths, joint_halfwidths, window_halfwidths
from counton.mechanisms.terms import largest_sum
from counton.privacy import Guarantee
from counton.privacy.contribution import checked_unit
from counton.statistics import Tallied
from counton.store import Store, Stream, state_file
from counton.store.database import Closing
from counton.store.keyfile import state_files
from counton.store.store import Found
from counton.store.units import Known, inherited

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.jobs.discovery import Discovery
    from counton.jobs.discovery import Found as FoundLabels
    from counton.jobs.people import Bounding, Chosen
    from counton.jobs.shown import ReleasedStatistic, Shown
    from counton.jobs.succession import Carried
    from counton.plots import Curves
    from counton.store.marks import Change
    from counton.store.store import Reader

Numbers = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """Numbers with their noise: one for each step and group.

    Attributes:
        estimates: what is published, in data units, shape ``(steps, groups)``.
        std: standard deviation of the noise by step.
        half: half-width of the intervals by step.

    >>> Series(np.array([[12], [17]]), np.array([4.0, 4.0]), np.array([9.0, 9.0])).lower.tolist()
    [[3], [8]]
    """

    estimates: Numbers
    std: NDArray[np.float64]
    half: NDArray[np.float64]

    @property
    def lower(self) -> Numbers:
        """Lower ends of the intervals; integers where estimates are."""
        return self._shifted(-self.half)

    @property
    def upper(self) -> Numbers:
        """Upper ends of the intervals; integers where estimates are."""
        return self._shifted(self.half)

    def _shifted(self, by: NDArray[np.float64]) -> Numbers:
        if self.estimates.dtype == np.int64 and np.all(by == np.rint(by)):
            return np.asarray(self.estimates + by.astype(np.int64)[:, None], dtype=np.int64)
        return np.asarray(self.estimates + by[:, None], dtype=np.float64)

    def part(self, steps: range) -> Series:
        """Those of consecutive steps, where these are of step 1 and the following ones."""
        of = slice(steps.start - 1, steps.stop - 1)
        return Series(self.estimates[of], self.std[of], self.half[of])

    def columns(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Columns ``estimate, std, lower, upper`` of a table with a row for each step and group."""
        return {
            f"{prefix}estimate": self.estimates.ravel(),
            f"{prefix}std": np.repeat(self.std, self.estimates.shape[1]),
            f"{prefix}lower": self.lower.ravel(),
            f"{prefix}upper": self.upper.ravel(),
        }


@dataclass(frozen=True)
class Released:
    """All released steps, or some of them; all groups, or some.

    Attributes:
        definition: of the stream.
        terms: of the stream.
        steps: 1 to the last step released.
        own: what the journal holds, totals or windows.
        level: confidence of the intervals.
        first: the first step that tables and charts show.
        chosen: the groups that these are, where they are not all.
        carried: totals of the streams that this one continues.
        since: of groups that nobody declared, the step from which on each is shown; None where
            groups are declared. What was released of them before is not here: it is 0.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.jobs.definition import ask, define
    >>> request = Job(
    ...     "count", "visits.csv", "visits.db", time="time", every="1h", start="2024-03-01",
    ...     steps=8760, epsilon=1, release="both"
    ... )
    >>> definition = define(ask(request))
    >>> counter = Counter(definition.strategy, PureDP(1), key=Key.generate(), name="visits")
    >>> own = Series(np.array([[12], [17]]), np.array([4.0, 4.0]), np.array([9.0, 9.0]))
    >>> released = Released(definition, counter.terms, range(1, 3), own, 0.95)
    >>> released.table().select("step", "group", "lower", "upper", "window_estimate").rows()
    [(1, 'all', 3, 21, 12), (2, 'all', 8, 26, 5)]
    """

    definition: Definition
    terms: StreamTerms
    steps: range
    own: Series
    level: float
    first: int = 1
    chosen: tuple[str, ...] | None = None
    carried: Carried | None = None
    since: Mapping[str, int] | None = None

    @classmethod
    def read(cls, stream: Stream | Reader, definition: Definition, level: float) -> Released:
        """Everything in the journal, with intervals of confidence ``level``."""
        if definition.discovery is not None:
            return cls._discovered(stream, definition, definition.discovery, level)
        releases = stream.releases()
        steps = range(1, len(releases.steps) + 1)
        cells = np.asarray(releases.values).reshape(len(steps), len(definition.cells))
        values = cells[:, : len(definition.groups)]  # what has no name yet is not shown
        terms = stream.terms
        half = halfwidths(terms.strategy, terms.law, steps, level) * float(terms.resolution)
        own = Series(values, np.asarray(releases.std, dtype=np.float64), half)
        carried = None
        if definition.continues is not None:
            from counton.jobs.succession import carried_by

            carried = carried_by(stream, definition)
        return cls(definition, terms, steps, own, level, carried=carried)

    @classmethod
    def _discovered(
        cls, stream: Stream | Reader, definition: Definition, discovery: Discovery, level: float
    ) -> Released:
        """The groups that are shown, by the step since when and then by name."""
        from counton.jobs.discovery import shown

        labels, terms = stream.labels(), stream.terms
        steps = range(1, stream.step + 1)
        size = max(1, _READ // max(1, len(labels)))
        chunks = [steps[start : start + size] for start in range(0, len(steps), size)]
        first = np.full(len(labels), -1, np.int64)
        for chunk in chunks:
            values = stream.releases(chunk.start, chunk.stop).values
            reached = shown(values, discovery.thresholds(terms, chunk))[: len(labels)]
            new = np.flatnonzero((reached >= 0) & (first[: len(reached)] < 0))
            first[new] = chunk.start + reached[new]
        since = sorted((int(first[cell]), labels[cell], cell) for cell in np.flatnonzero(first > 0))
        cells = np.array([cell for _, _, cell in since], np.intp)
        estimates = np.zeros((len(steps), len(since)), np.int64)
        for chunk in chunks:
            values = stream.releases(chunk.start, chunk.stop).values
            there = cells < values.shape[1]
            estimates[chunk.start - 1 : chunk.stop - 1, there] = values[:, cells[there]]
        for place, (step, _, _) in enumerate(since):
            estimates[: step - 1, place] = 0  # also where there was noise: it says since when
        half = halfwidths(terms.strategy, terms.law, steps, level)
        own = Series(estimates, terms.std(steps), half)
        return cls(
            definition, terms, steps, own, level, since={name: step for step, name, _ in since}
        )

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups, in the order of their numbers."""
        if self.since is not None and self.chosen is None:
            return tuple(self.since)
        return self.definition.groups if self.chosen is None else self.chosen

    @property
    def shown(self) -> range:
        """The steps that tables and charts show."""
        return range(self.first, self.steps.stop)

    def only(self, steps: range | None = None, groups: Sequence[str] | None = None) -> Released:
        """Some of the steps and some of the groups; None: all.

        Args:
            steps: consecutive ones, all released.
            groups: in the order in which they are wanted.

        Raises:
            InvalidInput: a group that is not among them, or one named twice.
        """
        found = self
        if steps is not None:
            last = steps.stop - 1
            own = self.own
            own = Series(own.estimates[:last], own.std[:last], own.half[:last])
            found = replace(self, steps=range(1, steps.stop), own=own, first=steps.start)
            if self.since is not None:  # groups shown later are not known yet
                known = [group for group in self.groups if self.since[group] < steps.stop]
                own = replace(
                    own, estimates=own.estimates[:, [self.groups.index(g) for g in known]]
                )
                since = {group: self.since[group] for group in known}
                chosen = None if self.chosen is None else tuple(known)
                found = replace(found, own=own, since=since, chosen=chosen)
        if groups is None or tuple(groups) == found.groups:
            return found
        places = {group: place for place, group in enumerate(found.groups)}
        for number, group in enumerate(groups):
            if group not in places or group in groups[:number]:
                why = "twice" if group in places else "which is not among the groups"
                raise InvalidInput(
                    f"{field('groups')} names {group!r}, {why}; choose from {_some(self.groups)}, "
                    f"each once"
                )
        of = [places[group] for group in groups]
        own = replace(found.own, estimates=found.own.estimates[:, of])
        carried = self.carried and replace(self.carried, estimates=self.carried.estimates[of])
        return replace(found, own=own, chosen=tuple(groups), carried=carried)

    def largest(self, count: int) -> Released:
        """The groups with the largest last numbers, if there are more than ``count``."""
        if len(self.groups) <= count:
            return self
        last = np.asarray(self.main.estimates[-1], np.float64)
        places = np.argsort(-last, kind="stable")[:count]
        return self.only(groups=[self.groups[place] for place in places])

    @cached_property
    def totals(self) -> Series | None:
        """So far, after each step; None where they are not asked for."""
        if self.definition.release == "windows":
            return None
        own, carried = self.own, self.carried
        if carried is None:
            return own
        half = joint_halfwidths(
            carried.releases, self.terms.strategy, self.terms.law, self.steps, self.level
        )
        return Series(
            own.estimates + carried.estimates[: len(self.groups)],
            np.sqrt(own.std**2 + carried.variance),
            half * float(self.terms.resolution),
        )

    @cached_property
    def windows(self) -> Series | None:
        """Of each window by itself; None where that is not asked for."""
        return self._windows(self.steps)

    def _windows(self, steps: range) -> Series | None:
        """The same of some steps."""
        if self.definition.release == "totals":
            return None
        if self.terms.strategy.workload == "windows":
            return self.own.part(steps)
        stops = np.asarray(steps)
        return self.between(stops - 1, stops)

    @property
    def last(self) -> tuple[Series | None, Series | None]:
        """Totals and windows of the last step alone."""
        steps = self.steps[-1:]
        return None if self.totals is None else self.totals.part(steps), self._windows(steps)

    @property
    def main(self) -> Series:
        """The totals, or the windows where no totals are asked for."""
        found = self.windows if self.totals is None else self.totals
        assert found is not None
        return found

    def between(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Series:
        """What happened in the steps start + 1 .. stop, for each pair of ends.

        Args:
            starts, stops: integers with 0 <= start <= stop <= last step.

        Raises:
            InvalidInput: groups that nobody declared, which are shown from some step on.
        """
        if self.since is not None:
            raise InvalidInput(
                "groups that nobody declared have totals alone, since each is shown from some "
                "window on; take the totals, or declare the groups"
            )
        strategy = self.terms.strategy
        half = window_halfwidths(strategy, self.terms.law, starts, stops, self.level)
        return Series(
            self._so_far(stops) - self._so_far(starts),
            self.terms.window_std(starts, stops),
            half * float(self.terms.resolution),
        )

    def _so_far(self, steps: NDArray[np.int64]) -> Numbers:
        """Totals after steps, of which 0 is the beginning: shape ``(len(steps), groups)``."""
        steps = np.atleast_1d(steps)
        found = self._totals[np.maximum(steps - 1, 0)]
        found[steps == 0] = 0
        return found

    @cached_property
    def _totals(self) -> Numbers:
        estimates = self.own.estimates
        if self.terms.strategy.workload == "totals":
            return estimates
        return cast("Numbers", np.cumsum(estimates, axis=0))

    def sums(self, every: str) -> pl.DataFrame:
        """What happened in each day, week or month: one row a period and group.

        Columns: window_start, window_end, first_step, last_step, whole, group, sum, std, lower,
        upper. The sums of all periods are the last total. The first period and the last are not
        ``whole`` where the released windows do not cover them.

        Args:
            every: length of a period: ``1d``, ``1w``, ``1mo``, or several.

        Raises:
            InvalidInput: no such length, periods that begin inside a window, or a stream with a
                delay.
        """
        from counton.jobs.periods import check_periods, periods_of

        windows, groups = self.definition.windows, self.groups
        check_periods(windows, every, self.delay)
        periods = periods_of(windows, every, self.steps[-1])
        first, last = periods.edges[:-1], periods.edges[1:]
        ends = windows.ends(range(self.steps.stop))  # from the stream's beginning

        def each(values: Any) -> pl.Series:
            return pl.Series(values).gather(np.repeat(np.arange(len(first)), len(groups)))

        sums = self.between(first, last).columns()
        return pl.DataFrame(
            {
                "window_start": each(_moments(ends[first], self.definition)),
                "window_end": each(_moments(ends[last], self.definition)),
                "first_step": each(first + 1),
                "last_step": each(last),
                "whole": each(periods.whole),
                "group": pl.Series(list(groups) * len(first), dtype=pl.String),
                "sum": sums.pop("estimate"),
                **sums,
            }
        )

    def local_start(self) -> str:
        """Beginning of the first window in local time."""
        start = self.definition.windows.start
        zone = load_zone(self.definition.windows.timezone)
        return start.astimezone(zone).strftime("%Y-%m-%d %H:%M")

    @property
    def delay(self) -> int:
        """How many windows before its own a release counts up to."""
        return self.definition.strategy.delay

    def local_ends(self) -> NDArray[np.datetime64]:
        """Ends of the windows in local time, without a zone."""
        return self._local(self.definition.windows.ends(self.steps))

    def ended(self, step: int) -> np.datetime64:
        """When the window of a step ended, in local time."""
        found: np.datetime64 = self.local_ends()[step - self.steps.start]
        return found

    def local_counted(self) -> NDArray[np.datetime64]:
        """Up to when each release counts, in local time: ends of windows, less the delay."""
        return self._local(self._counted())

    def counted_until(self) -> int:
        """Microsecond up to which the last release counts."""
        return int(self._counted()[-1])

    def _counted(self) -> NDArray[np.int64]:
        last_windows = np.maximum(np.asarray(self.steps) - self.delay, 0)
        ends = self.definition.windows.ends(range(self.steps.stop))  # from the stream's beginning
        return np.asarray(ends[last_windows], dtype=np.int64)

    def _local(self, us: NDArray[np.int64]) -> NDArray[np.datetime64]:
        local = _moments(us, self.definition).dt.replace_time_zone(None).to_numpy()
        return np.asarray(local, dtype="datetime64[us]")

    def curves(self) -> Curves:
        """What a chart of totals shows: over the times up to which they count."""
        # Before the delay is over nothing is counted.
        start = min(max(self.delay, self.first - 1), len(self.steps) - 1)
        part = slice(start, None)
        return self._curves(self.local_counted()[part], self.totals or self.own, part)

    def window_curves(self, most: int = 400) -> tuple[Curves, str]:
        """What a chart of windows shows, and how long they are.

        Where there are more than ``most`` windows, they are added up to days, weeks or months, of
        which only whole ones are shown.
        """
        from counton.jobs.periods import periods_of

        windows = self.definition.windows
        if len(self.shown) > most:
            for every in ("1d", "1w", "1mo", "12mo"):
                try:
                    periods = periods_of(windows, every, self.steps[-1])
                except InvalidInput:  # these windows are no parts of days
                    continue
                edges = periods.edges
                whole = periods.whole & (edges[:-1] >= self.first - 1)
                if 1 < whole.sum() <= most:
                    series = self.between(edges[:-1], edges[1:])
                    ends = self._local(windows.ends(range(self.steps.stop))[edges[1:]])
                    return self._curves(ends[whole], series, whole), every
        stops = np.arange(1, self.steps.stop)
        series = self.windows or self.between(stops - 1, stops)
        part = slice(self.first - 1, None)
        return self._curves(self.local_ends()[part], series, part), windows.every

    def _curves(self, times: NDArray[np.datetime64], series: Series, shown: Any) -> Curves:
        from counton.plots import Curves

        estimates, lower, upper = (
            np.asarray(a, np.float64)[shown] for a in (series.estimates, series.lower, series.upper)
        )
        if self.since is not None:
            steps = np.asarray(self.steps)[shown]
            hidden = steps[:, None] < np.array([self.since[group] for group in self.groups])
            estimates, lower, upper = (
                np.where(hidden, np.nan, a) for a in (estimates, lower, upper)
            )
        return Curves(times, self.groups, estimates, lower, upper)

    def figures(self, *, panels: bool = False) -> dict[str, Figure]:
        """Charts of ``totals``, of ``windows``, or both; of many groups the largest.

        Args:
            panels: one small chart for each group.

        Raises:
            MissingExtra: matplotlib is not installed.
        """
        from counton.plots.totals import MOST_GROUPS, plot_totals

        definition, part = self.definition, self.largest(MOST_GROUPS + 1)
        by = f", by {definition.columns.group}" if definition.columns.group else ""
        what = subject(definition)
        drawn = {}
        if self.totals is not None:
            late = f", each point released {self.delay:,} windows later" if self.delay else ""
            since = f"since {self.local_start()}{late}"
            drawn["totals"] = part.curves(), f"Running {what}{by}", since
        if definition.release != "totals":
            curves, every = part.window_curves()
            drawn["windows"] = (
                curves,
                f"{what[0].upper()}{what[1:]}{by}",
                f"in each {PERIODS.get(every, f'window of {every}')}",
            )
        protected = (
            f"{definition.guarantee} protects each single {definition.unit} "
            f"({definition.contribution.neighbours}); bands: {100 * self.level:g}% intervals"
        )
        several = len(self.groups)
        return {
            kind: plot_totals(
                replace(curves, all_groups=several), title, protected, scale, panels=panels
            )
            for kind, (curves, title, scale) in drawn.items()
        }

    def table(self) -> pl.DataFrame:
        """One row per step and group: step, window, group, estimate, std, lower, upper.

        The last four are those of totals; windows' own numbers have ``window_`` before these names.
        With a delay also ``counted_until``: the total is that of the events before it.
        """
        found = [self._rows(steps) for steps in self._chunks()]
        return found[0] if len(found) == 1 else pl.concat(found)

    def lazy(self) -> pl.LazyFrame:
        """The rows of `table`, made some at a time while they are written."""
        from polars.io.plugins import register_io_source

        def rows(
            columns: list[str] | None,
            predicate: pl.Expr | None,
            most: int | None,
            _batch: int | None,
        ) -> Iterator[pl.DataFrame]:
            for steps in self._chunks():
                found = self._rows(steps)
                if predicate is not None:
                    found = found.filter(predicate)
                found = found if columns is None else found.select(columns)
                if most is not None:
                    found = found.head(most)
                    most -= found.height
                yield found

        schema = self._rows(self.shown[:1]).schema
        return register_io_source(rows, schema=schema, is_pure=True)

    def _chunks(self) -> Iterator[range]:
        size = max(1, _ROWS // max(1, len(self.groups)))
        shown = self.shown
        for start in range(0, max(len(shown), 1), size):
            yield shown[start : start + size]

    def _rows(self, shown: range) -> pl.DataFrame:
        """The rows of some steps."""
        windows, groups, steps = self.definition.windows, self.groups, len(shown)
        step = np.repeat(np.arange(steps), len(groups))

        def each(us: NDArray[np.int64]) -> pl.Series:
            return _moments(us, self.definition).gather(step)

        columns: dict[str, Any] = {
            "step": np.repeat(np.asarray(shown, dtype=np.int64), len(groups)),
            "window_start": each(windows.starts(shown)),
            "window_end": each(windows.ends(shown)),
        }
        if self.delay:
            columns["counted_until"] = each(self._counted()[shown.start - 1 : shown.stop - 1])
        names = pl.Series(list(groups), dtype=pl.String)
        columns["group"] = names.gather(np.tile(np.arange(len(groups)), steps))
        if self.totals is not None:
            columns |= self.totals.part(shown).columns()
        own = self._windows(shown)
        if own is not None:
            columns |= own.columns("window_")
        table = pl.DataFrame(columns)
        if self.since is None:
            return table
        since = np.tile(np.array([self.since[group] for group in groups], np.int64), steps)
        return table.filter(pl.col("step") >= pl.Series(since, dtype=pl.Int64))


def subject(definition: Definition) -> str:
    """What is counted or added up."""
    if definition.what in ("count", "distinct"):
        people = definition.people
        if people is not None:
            return f"number of {plural(definition.unit) if people.first else 'events'}"
        return f"number of {plural(definition.unit)}"
    return f"sum of {definition.columns.value}"


def plural(unit: str) -> str:
    """A unit's plural, for regular English words.

    >>> plural("departure"), plural("query"), plural("visits")
    ('departures', 'queries', 'visits')
    """
    if unit.endswith("y") and unit[-2:-1] not in "aeiou":
        return f"{unit[:-1]}ies"
    return unit if unit.endswith("s") else f"{unit}s"


def _some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def _moments(us: NDArray[np.int64], definition: Definition) -> pl.Series:
    series = pl.Series(np.asarray(us, dtype=np.int64)).cast(pl.Datetime("us", "UTC"))
    return series.dt.convert_time_zone(definition.windows.timezone)


#: Values of groups that nobody declared which are looked at together.
_READ = 2**22
#: Cells released in one transaction.
_CHUNK = 2**20
#: Rows of a table that are made at a time.
_ROWS = 2**18


@dataclass(frozen=True)
class Outcome(Closing):
    """What a run did. Close it, or use it in a ``with`` block: it holds the stream open.

    Attributes:
        definition: of the stream.
        stream: to read the journal from.
        before, after: steps released before and after the run.
        until: microseconds; windows that ended by then are released.
        until_stated: it is not the newest event's time.
        tally: of the events. Exact: only for the operator.
        late: rows that arrived for windows released earlier. Exact: only for the operator.
        over: rows left out because their user had as many as may count. Only for the operator.
        known: new rows that were counted before. Only for the operator.
        closed: new rows that came too late to be counted at all. Only for the operator.
        again: these new events have been counted by an earlier run, so nothing was done.
        dropped: rows that waited in the stream that this one continues. Only for the operator.
    """

    definition: Definition
    stream: Stream
    before: int
    after: int
    until: int | None
    until_stated: bool
    tally: Tally = attribute(repr=False)
    late: int = attribute(repr=False)
    over: int = attribute(default=0, repr=False)
    known: int = attribute(default=0, repr=False)
    closed: int = attribute(default=0, repr=False)
    again: bool = False
    dropped: int = attribute(default=0, repr=False)

    def shown(
        self, level: float = 0.95, shown: Shown | None = None
    ) -> Released | ReleasedStatistic:
        """Everything released so far, from the journal, with intervals of confidence ``level``.

        Args:
            level: probability with which each interval holds.
            shown: of a statistic, what is shown of its readings.

        Raises:
            InvalidInput: a level that is not above 0 or above 1 - 1e-9, or what the statistic does
                not have.
        """
        return read_released(self.stream, self.definition, level, shown)

    def released(self, level: float = 0.95) -> Released:
        """The same of counts and sums, which know their windows, sums and differences.

        Raises:
            InvalidInput: a level that is not above 0 or above 1 - 1e-9, or another statistic.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from counton.jobs import Job, run
        >>> folder = tempfile.TemporaryDirectory()
        >>> events, state = Path(folder.name, "visits.csv"), Path(folder.name, "visits.db")
        >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-02T10:15\\n")
        >>> request = Job(
        ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
        ...     until="newest",
        ...     epsilon=1
        ... )
        >>> with run(request) as outcome:
        ...     outcome.released(level=0.9).table().select("step", "window_end").rows()[0]
        (1, datetime.datetime(2024, 3, 2, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')))
        >>> folder.cleanup()
        """
        if not self.definition.plain:
            raise InvalidInput(
                f"stream {self.stream.name!r} holds readings of {self.definition.statistic!r}, and "
                f"no plain counts or sums: ask for what is shown of them"
            )
        return Released.read(self.stream, self.definition, level)

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()


def read_released(
    stream: Stream | Reader, definition: Definition, level: float, shown: Shown | None = None
) -> Released | ReleasedStatistic:
    """Everything that a stream has released, from its journal.

    Args:
        stream: or a reader of it.
        definition: of it.
        level: probability with which each interval holds.
        shown: of a statistic, what is shown of its readings.
    """
    if definition.plain:
        return Released.read(stream, definition, level)
    from counton.jobs.shown import ReleasedStatistic

    return ReleasedStatistic.read(stream, definition, level, shown)


def run(
    request: Job,
    progress: Progress = silent,
    *,
    approve: Callable[[Definition], None] | None = None,
) -> Outcome:
    """Read, check, release, and keep what was seen.

    Everything that can be wrong with the request or the events is found before the state is
    touched.

    Args:
        request: what is asked.
        progress: told where the run is.
        approve: shown what defines the stream before events are read; what it raises ends the run.

    Raises:
        InvalidInput: the request or the data is outside what is allowed.
        StateError: the state does not fit what was asked.
        ReplayMismatch: rows have disappeared, or a file was counted before.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> events, state = Path(folder.name, "visits.csv"), Path(folder.name, "visits.db")
    >>> _ = events.write_text("time\\n2024-03-01T09:00\\n2024-03-01T11:30\\n2024-03-03T10:15\\n")
    >>> request = Job(
    ...     "count", events, state, time="time", every="1d", start="2024-03-01", steps=365,
    ...     until="newest",
    ...     epsilon=1
    ... )
    >>> with run(request) as outcome:
    ...     outcome.before, outcome.after, outcome.released().own.estimates.shape
    (0, 2, (2, 1))
    >>> with run(Job("count", events, state, until="2024-03-04")) as outcome:
    ...     outcome.before, outcome.after, outcome.late
    (2, 3, 0)
    >>> folder.cleanup()
    """
    request = checked(request)
    progress("choosing a strategy", 0.05)
    store, saved = _look(request)
    request = request if saved is None else _as_before(request, saved)
    try:
        return _run(request, store, saved, progress, approve)
    except BaseException:
        if store is not None:
            store.close()
        raise


def is_stream(request: Job) -> bool:
    """Whether a job releases a table over time: it has times, or its state has such a stream."""
    if request.time is not None:
        return True
    store, saved = _look(request)
    if store is not None:
        store.close()
    return saved is not None and saved.details.get("what") == request.what


#: What a stream remembers of the jobs that released it, besides what defines it. A later job that
#: leaves a policy out has it again; one that says nothing of outputs has those of the last job that
#: wrote a file.
POLICIES = (
    *("watermark", "unknown", "bad_rows", "bad_rows_most", "missing", "late"),
    *("clock_change", "time_format", "file_format"),
)
OUTPUTS = (
    *("out", "plot", "sums", "title", "axis", "over", "shares", "ask", "cut", "level"),
    *("top", "room"),
)
_PATHS = ("out", "plot", "bad_rows")


def recalled(job: Job) -> Job:
    """A job with what the stream remembers of earlier ones, where it says nothing else.

    Raises:
        StateError: the state cannot be read.

    >>> recalled(Job("count", "visits.csv", "a-state-that-is-new.db")).watermark is None
    True
    """
    store, saved = _look(job)
    if store is None:
        return job
    store.close()
    return job if saved is None else _as_before(job, saved)


def _as_before(job: Job, saved: Found) -> Job:
    """See `recalled`."""
    kept = saved.details.get("remembered", {})
    defaults = {item.name: item.default for item in fields(Job)}
    own = any(getattr(job, name) != defaults[name] for name in OUTPUTS)
    told = {
        name: value
        for name, value in kept.items()
        if getattr(job, name) == defaults[name] and not (own and name in OUTPUTS)
    }
    return replace(job, **told) if told else job


def _remembered(job: Job, before: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be remembered of a job, as JSON values; of paths where they are.

    Args:
        job: which.
        before: what is remembered of earlier ones.
    """
    defaults = {item.name: item.default for item in fields(Job)}
    writes = any(getattr(job, name) is not None for name in ("out", "plot", "sums"))
    found = {} if writes else {name: before[name] for name in OUTPUTS if name in before}
    for name in (*POLICIES, *OUTPUTS) if writes else POLICIES:
        value = getattr(job, name)
        if value == defaults[name] or (name == "unknown" and value == "discover"):
            continue
        if name in _PATHS:
            start, quarantine, path = os.fspath(value).rpartition("quarantine:")
            value = start + quarantine + os.path.abspath(path)
        elif isinstance(value, list | tuple):
            value = [str(one) for one in value]
        found[name] = value
    return found


def _check_quarantine(file: Path, request: Job) -> None:
    """Refuse to set rows aside in a file that the run reads or keeps, or would read the next time.

    Raises:
        InvalidInput: naming it.
    """
    from counton.jobs.outputs import check_output

    read = [Path(path) for path in event_paths(request.events, request.file_format) if path != "-"]
    check_output(file, (".csv",), inputs=[*state_files(request.state, request.key), *read])
    refuse_among_events(request.events, file)


def _look(request: Job) -> tuple[Store | None, Found | None]:
    """The state, if there is one yet, and what it says of the stream; not yet as its writer."""
    place = state_file(request.state)
    if place is not None and not place.exists():
        return None, None
    store = Store(request.state, create=place is None)
    try:
        return store, store.find(request.name)
    except BaseException:
        store.close()
        raise


def _run(
    request: Job,
    store: Store | None,
    saved: Found | None,
    progress: Progress,
    approve: Callable[[Definition], None] | None,
) -> Outcome:
    dropped = 0
    if saved is not None:
        definition = Definition.reopen(saved.terms, saved.details, discovering=True)
        definition = amend(definition, request, saved.step)
        refuse_ended(definition, request.name)
    else:
        definition = None
        if request.continues is not None:
            from counton.jobs import succession

            request, predecessor, end = succession.succeed(request, store)
            dropped = end.dropped
    policies = Policies.read(request.bad_rows, request.bad_rows_most, request.missing)
    if policies.quarantine is not None:
        _check_quarantine(policies.quarantine, request)
    source = None
    if request.what in TABLES:  # whose cells are read from the domain
        source = open_source(request.events, request.file_format)
        _refuse_events_as_domain(request, definition, source)
    asked = ask(request, definition)
    if source is None and not _is_text(asked, definition):
        source = open_source(request.events, request.file_format)
        _refuse_events_as_domain(request, definition, source)
    if definition is None:
        if asked.statistic is not None and asked.statistic.tallied and request.time is not None:
            named = _named(asked.request, () if store is None else store.units)
            asked = asked._replace(request=named)
        definition = define(asked)
        if request.continues is not None:
            definition = succession.continued(definition, request.continues, predecessor, end.step)
    else:
        check(definition, asked)
    kept = _remembered(request, definition.remembered)
    if definition.statistic.on_demand:  # what is asked of it is asked anew
        kept = {name: value for name, value in kept.items() if name in POLICIES}
    definition = replace(definition, remembered=kept)
    if approve is not None:
        approve(definition)
    progress("reading events", 0.25)
    if definition.ordered:
        return _run_ordered(request, asked, definition, source, store, saved, policies, progress)
    assert source is not None
    if store is not None and saved is not None and request.append:
        source = _new_files(source, store, request, definition)
    reading = Reading(
        definition.columns,
        definition.windows,
        "discover" if definition.discovery is not None else asked.unknown,
        definition.adds,
        asked.clock_change,
        request.time_format,
        declared=definition.groups,
        other=definition.other,
        since=definition.since,
        policies=policies,
    )
    labels, counted_by = None, definition
    if definition.discovery is not None:
        from counton.jobs.discovery import Found as FoundLabels
        from counton.jobs.discovery import labels_in

        known = () if store is None or saved is None else store.labels(request.name)
        labels = FoundLabels(known, labels_in(source, reading, known))
        counted_by = replace(definition, domain=labels.all)  # what is kept names none of them
    bounding = _bounding(request, counted_by, store, saved)
    held = None if bounding is None else bounding.hold(source)
    watch = None if progress is silent else _Counted(progress)
    found = tally(source, reading, counted_by.domain, bound=held, watch=watch)
    digests = source.digests(definition.columns.names)
    if (part := source.changed()) is not None:
        raise _changed(part)
    released = None if saved is None else saved.step
    until, ended = _ended(request, definition, source, found, released)
    new = store is None or saved is None
    if store is None or saved is None:
        chosen = None if bounding is None else bounding.choose(None, 0)
        labels, found, chosen = _only_counted(labels, found, chosen)
        intake = _compared({}, found, chosen, definition, 0, ended, request.append, labels)
        _refuse_overflow(definition, intake)
        if store is not None:
            store.close()
        stream = _create(request, definition)
        if definition.continues is not None:
            succession.end_stream(request.state, definition.continues.name, confirmed=True)
    else:
        if definition.continues is not None:  # a run may have been killed before it did so
            from counton.jobs.succession import end_stream

            end_stream(store, definition.continues.name, confirmed=True)
        stream = Stream.open(store, request.name, key=request.key)
    try:
        if labels is not None and stream.labels() != labels.known:
            raise StreamConflict(
                f"another process has counted in stream {request.name!r} meanwhile; nothing was "
                f"released: run again"
            )
        before = stream.step  # another process may have released since the state was read
        counted, again = found, False
        if request.append and _known(stream, source, digests, definition, ended):
            counted, again, bounding = replace(found, cells=found.cells.head(0)), True, None
        if not new:
            chosen = None if bounding is None else bounding.choose(stream, before)
            labels, counted, chosen = _only_counted(labels, counted, chosen)
            if request.append and chosen is None and not request.confirmed:
                refuse_known(stream.observed_blocks(), counted.cells, definition.measures)
            intake = _compared(
                stream.observed_blocks(),
                counted,
                chosen,
                definition,
                before,
                ended,
                request.append,
                labels,
            )
            _refuse_overflow(definition, intake)
        # Whether anything in a file counts must not decide whether it may come again.
        sources: tuple[str, ...] = ()
        if found.rows and not again:
            sources = _sources(stream, source, digests, definition, request)
        late = intake.late_rows
        if definition.adds is not None and not by_row(definition.adds):
            late //= definition.places  # a row is in all of them
        remembered = None
        if bounding is not None and chosen is not None:
            remembered = bounding.change(chosen, intake.target)
        found_labels = None if labels is None else (len(labels.known), labels.new)
        if saved is not None and stream.details != definition.details:  # nothing is refused below
            stream.amend(definition.details)
        _release(
            stream, definition, intake, sources, request.append, remembered, found_labels, progress
        )
        if saved is not None:
            _publish(stream)
    except BaseException:
        stream.close()
        raise
    left_out = (0, 0, 0)
    if chosen is not None:  # of a file of all events nearly all rows are known, or old
        again_now = (chosen.known, chosen.closed) if request.append else (0, 0)
        left_out = (chosen.over, *again_now)
    return Outcome(
        definition,
        stream,
        before,
        stream.step,
        until,
        clock.is_stated(request.until),
        found,
        late,
        *left_out,
        again,
        dropped,
    )


def _refuse_events_as_domain(request: Job, definition: Definition | None, source: Source) -> None:
    """Groups read from the events would say whose events are in them."""
    if isinstance(request.domain, str | os.PathLike):
        from counton.jobs.private_domain import refuse_events_as_domain

        time = request.time if definition is None else definition.columns.time
        refuse_events_as_domain(request.domain, source, time, request.time_format)


def _is_text(asked: Asked, definition: Definition | None) -> bool:
    """Whether the events are the letters of a text, which has no columns."""
    statistic = asked.statistic if definition is None else definition.statistic
    parts = asked.parts if definition is None else definition.parts
    return statistic is not None and statistic.of_letters and parts == kinds.Parts()


def _run_ordered(
    request: Job,
    asked: Asked,
    definition: Definition,
    source: Source | None,
    store: Store | None,
    saved: Found | None,
    policies: Policies,
    progress: Progress,
) -> Outcome:
    """The same where rows are taken one after the other."""
    from counton.jobs.ordered_rows import Taking, fitting, read_letters, read_rows

    released = None if saved is None else saved.step
    refuse_of_ordered(request, definition.statistic, each_row=definition.cut is None)
    if source is None:
        rows = read_letters(request, definition.statistic)
    else:
        rows = read_rows(request, definition, source, policies)
    if source is not None and (part := source.changed()) is not None:
        raise _changed(part)
    rows = fitting(rows, definition, released)
    found = Tally(
        *(pl.DataFrame(), rows.newest, len(rows.events), rows.before, rows.beyond),
        *(rows.left_out, rows.skipped, rows.quarantined),
    )
    until: int | None = None
    ended = len(rows.stops)
    if definition.cut is not None:
        assert source is not None
        until, ended = _ended(request, definition, source, found, released)
    taking = Taking(definition, rows, ended, late=request.late)
    if store is None or saved is None:
        taking.tried()
        if store is not None:
            store.close()
        stream = _create(request, definition)
    else:
        stream = Stream.open(store, request.name, key=request.key)
    try:
        before = stream.step
        if saved is not None and stream.details != definition.details:
            stream.amend(definition.details)
        taking.release(stream, progress)
        if saved is not None:
            _publish(stream)
    except BaseException:
        stream.close()
        raise
    stated = clock.is_stated(request.until)
    return Outcome(definition, stream, before, stream.step, until, stated, found, 0)


def _changed(part: Rows) -> InvalidInput:
    return InvalidInput(
        f"{part.name} changed while it was read, so it cannot be told what was counted; try "
        f"again when it is whole"
    )


def _only_counted(
    labels: FoundLabels | None, found: Tally, chosen: Chosen | None
) -> tuple[FoundLabels | None, Tally, Chosen | None]:
    """Cells for those labels alone that are counted: a unit's other rows bring no group."""
    if labels is None:
        return labels, found, chosen
    labels, places = labels.counted(found.cells if chosen is None else chosen.cells)

    def placed(frame: pl.DataFrame) -> pl.DataFrame:
        cells = pl.Series("group", places[frame["group"].to_numpy()], dtype=pl.Int64)
        return frame.with_columns(cells)

    if chosen is None:
        return labels, replace(found, cells=placed(found.cells)), None
    users = [
        part._replace(facts=(part.facts[0], places[part.facts[1]], *part.facts[2:]))
        for part in chosen.users
    ]
    cells, rows = placed(chosen.cells), placed(chosen.rows)
    return labels, found, replace(chosen, cells=cells, rows=rows, users=users)


def _bounding(
    request: Job,
    definition: Definition,
    store: Store | None,
    saved: Found | None,
) -> Bounding | None:
    """The choice of rows, where users are bounded or rows have ids."""
    if definition.people is None and definition.columns.id is None:
        return None
    from counton.jobs.people import Bounding

    secret = None
    if store is not None and saved is not None:
        secret = store.secret(request.name, request.key)
    return Bounding(definition, secret, request.append, request.confirmed)


def _known(
    stream: Stream,
    source: Source,
    sha256s: Sequence[str],
    definition: Definition,
    ended: int,
) -> bool:
    """Whether new events are those of an earlier run, all of whose rows are in the state.

    That run came to its end, or it was killed after it had committed: then there is nothing to do
    but to write what it would have written, from the journal. Rows with ids are told one by one.

    Raises:
        ReplayMismatch: they would release windows as if nothing more had happened in them.
    """
    if definition.columns.id is not None:
        return False
    if not all(stream.has_source(f"sha256:{sha256}") for sha256 in sha256s):
        return False
    if ended > stream.step:
        raise ReplayMismatch(
            f"{source.name} has been counted already, and {ended - stream.step:,} more windows "
            f"would be released without a new event; give the file of the new events, or drop "
            f"{field('append', True)} if the file holds everything since the first window"
        )
    return True


def _new_files(source: Source, store: Store, request: Job, definition: Definition) -> Source:
    """Of several files those that were not counted before; all of them if there is no other.

    So a folder to which a file is added every night is read from the new one on. Rows with ids are
    told one by one.
    """
    if len(source.parts) == 1 or definition.columns.id is not None:
        return source
    known = [
        part
        for part in source.parts
        if store.has_source(request.name, f"sha256:{part.digest(definition.columns.names)}")
    ]
    return source if len(known) == len(source.parts) else source.without(known)


class _Counted:
    """Says how many rows have been read, and how fast, a few times a second."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._start, self._said, self._rows = progress, monotonic(), 0.0, 0

    def __call__(self, rows: int) -> None:
        self._rows += rows
        seconds = monotonic() - self._start
        if seconds > self._said + 0.3:
            self._said = seconds
            rate = self._rows / seconds / 1e6
            self._progress(f"read {self._rows:,} rows, {rate:.1f} million a second", 0.25)


def _named(request: Job, known: Sequence[Known]) -> Job:
    """A new stream's request with the word by which its state counts what it protects.

    Raises:
        InvalidInput: see `units.inherited`.
    """
    kind = "event" if request.user is None else "user"
    unit = None if request.unit is None else checked_unit(request.unit)
    return replace(request, unit=inherited(known, kind, unit, kind))


def _publish(stream: Stream) -> None:
    """Add what is new where the stream is published in the state's own database."""
    from counton.store import published

    place = published.Place(stream.database, None)
    with place.transaction(write=False) as connection:
        known = published.found(connection, stream.name)
    if known is not None:
        from counton.jobs.publishing import publish_new

        publish_new(stream, place, None, Released.read)


def _ended(
    request: Job, definition: Definition, source: Source, found: Tally, released: int | None
) -> tuple[int, int]:
    """Until when windows are released, and how many have ended by then: see `clock.ended`."""
    seen = clock.Seen(source.name, found.newest, found.beyond > 0, released)
    return clock.ended(
        request.until,
        definition.windows,
        seen,
        confirmed=request.confirmed,
        watermark=request.watermark,
    )


def _create(request: Job, definition: Definition) -> Stream:
    return Stream.create(
        request.state,
        request.name,
        definition.strategy,
        definition.guarantee,
        key=request.key,
        contribution=definition.contribution,
        shape=definition.shape if definition.plain else (),
        details=definition.details,
        counters=_counters(definition),
        statistic=None if definition.plain else definition.statistic,
        batched=definition.cut is not None,
    )


def _counters(definition: Definition) -> Guarantee | None:
    if definition.discovery is None:
        return None
    from counton.jobs.discovery import counters_of

    return counters_of(definition.guarantee)


def _sources(
    stream: Stream,
    source: Source,
    sha256s: Sequence[str],
    definition: Definition,
    request: Job,
) -> tuple[str, ...]:
    """Digests of parts that are new to the stream.

    A file of new events must not be counted twice, and neither as such after it was the file of all
    events; so the digests of both are kept.

    Raises:
        ReplayMismatch: new events that were counted before.
    """
    new = []
    for part, sha256 in zip(source.parts, sha256s, strict=True):
        digest = f"sha256:{sha256}"
        if not stream.has_source(digest):
            new.append(digest)
        elif request.append and definition.columns.id is None:
            raise ReplayMismatch(
                f"{part.name} has been counted already ({digest[:18]}...); leave it out, or drop "
                f"{field('append', True)} if the file holds everything since the first window"
            )
    return tuple(dict.fromkeys(new))  # the same file of all events again adds nothing


def _compared(
    kept: Observed,
    found: Tally,
    chosen: Chosen | None,
    definition: Definition,
    released: int,
    target: int,
    append: bool,
    labels: FoundLabels | None,
) -> Intake:
    """What the events add to a stream at step ``released``; chosen rows are new ones."""
    adds, unnamed = definition.adds, ("(not named)",) * (0 if labels is None else len(labels.all))
    unnamed = unnamed or ("(not named)",)
    bounds = (1, 1) if adds is None else adds.row_bounds()  # what one row adds, in grid units
    return compare(
        kept,
        found.cells if chosen is None else chosen.cells,
        released=released,
        target=target,
        # Messages name no group that is not shown.
        groups=_places(definition)
        if labels is None
        else ("(not named)",) * max(1, len(labels.all)),
        windows=definition.windows,
        measures=definition.measures,
        append=append or chosen is not None,
        bounds=bounds,
    )


def _places(definition: Definition) -> Sequence[str]:
    """Names of what rows are added up in, for messages."""
    if definition.places == 1:
        return definition.cells
    return [group for group in definition.cells for _ in range(definition.places)]


def _refuse_overflow(definition: Definition, intake: Intake) -> None:
    """Refuse values whose sums would not be exact."""
    most = largest_sum(definition.strategy)
    statistic = definition.statistic
    if isinstance(statistic, Tallied) and statistic.largest_entry > 1:  # of what is measured
        most //= statistic.largest_entry
        if intake.whole_sum > most:
            raise SumOverflow(
                f"the counts add up to {intake.whole_sum:,.0f}; the bound is {most:,} for what is "
                f"measured of {statistic!r}: count in larger units"
            )
    if intake.largest_sum > most:
        raise SumOverflow(
            f"the values add up to {intake.largest_sum:,} times the resolution; the bound is "
            f"{most:,}: use a coarser {field('resolution')} or narrower bounds"
        )


def _release(
    stream: Stream,
    definition: Definition,
    intake: Intake,
    sources: tuple[str, ...],
    append: bool,
    remembered: Change | None,
    labels: tuple[int, Sequence[str]] | None,
    progress: Progress,
) -> None:
    """Release the windows that have ended, and keep what was seen of all."""
    if intake.target == intake.released:
        if sources or (append and intake.changed):
            stream.observe(intake.pending(), sources=sources, remembered=remembered, labels=labels)
        return
    # New events come in one transaction, because their file can be given only once; chosen rows
    # too, because what is remembered of them is written once.
    new = intake.target - intake.released
    at_once = append or remembered is not None
    for steps in [_all(intake)] if at_once else _chunks(intake):
        progress("releasing", 0.4 + 0.3 * (steps.start - intake.released - 1) / new)
        observed = intake.observed(steps)
        if steps.stop > intake.target:
            observed |= intake.beyond()
        sums = definition.measured(intake.inputs(steps))
        inputs = definition.contribution.exact_from_grid(sums)
        # The file is known from the first transaction on: part of it is counted then.
        first = steps.start == intake.released + 1
        stream.release_many(
            inputs,
            observed=observed,
            sources=sources if first else (),
            remembered=remembered,
            labels=labels if first else None,
        )


def _all(intake: Intake) -> range:
    return range(intake.released + 1, intake.target + 1)


def _chunks(intake: Intake) -> Iterator[range]:
    size = max(1, _CHUNK // max(1, intake.groups))
    for start in range(intake.released + 1, intake.target + 1, size):
        yield range(start, min(start + size, intake.target + 1))

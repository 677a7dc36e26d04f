"""What was released of counts and sums: totals, windows, sums over periods, tables and charts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.columns import ADDED, WHEN, TextTable
from counton.base.errors import InvalidInput, field
from counton.base.exact import check_integer, figures, quantity
from counton.numbers import Design
from counton.numbers.intervals import (
    check_level,
    joint_halfwidths,
)
from counton.privacy.contribution import PERIODS
from counton.released.description import CarriedTotals, Description
from counton.released.release import Groups, Release, Steps
from counton.released.screen import MOST, Screen
from counton.released.series import Numbers, Series, local_times, some_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.base.windows import Windows
    from counton.charts import Curves
    from counton.numbers.contrasts import Answer
    from counton.numbers.formulas import Formula, Term


@dataclass(frozen=True, repr=False)
class ReleasedCells(Release):
    """All released steps, or some of them; all groups, or some.

    Attributes:
        definition: what is public of the stream.
        terms: of the stream.
        steps: 1 to the last step released.
        published: totals, or windows where no totals are published, with the noise of this stream.
        level: confidence of the intervals.
        first: the first step that tables and charts show.
        chosen: the groups that these are, where they are not all.
        carried: totals of the streams that this one continues.
        since: of groups that nobody declared, the step from which on each is shown; None where
            groups are declared. What was released of them before is not here: it is 0.
        there: of a file from which rows were left out, which are there, by step and group; None:
            all. The estimates of a series that lacks some are refused.
        own_windows: windows' own numbers beside totals, where a file has them.
        by_size: the groups are the largest of others.
        together: the intervals of totals, or of windows alone, hold all at once.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.run import Job
    >>> from counton.run.request import ask
    >>> from counton.run.new_stream import define
    >>> request = Job(
    ...     "count", "visits.csv", "visits.db", time="time", every="1h", start="2024-03-01",
    ...     steps=8760, epsilon=1, release="both"
    ... )
    >>> definition = define(ask(request))
    >>> counter = Counter(definition.strategy, PureDP(1), key=Key.generate(), name="visits")
    >>> own = Series(np.array([[12], [17]]), np.array([4.0, 4.0]), np.array([9.0, 9.0]))
    >>> released = ReleasedCells(definition, counter.terms, range(1, 3), own, 0.95)
    >>> released.table().select("step", "group", "lower", "upper", "window_estimate").rows()
    [(1, 'all', 3, 21, 12), (2, 'all', 8, 26, 5)]
    """

    definition: Description
    terms: Design
    steps: range
    published: Series
    level: float
    first: int = 1
    chosen: tuple[str, ...] | None = None
    carried: CarriedTotals | None = None
    since: Mapping[str, int] | None = None
    there: NDArray[np.bool_] | None = None
    own_windows: Numbers | None = None
    notes: tuple[str, ...] = ()
    by_size: bool = False
    together: bool = False

    @classmethod
    def of(
        cls,
        description: Description,
        terms: Design,
        values: Numbers,
        level: float,
        *,
        carried: CarriedTotals | None = None,
        since: Mapping[str, int] | None = None,
        there: NDArray[np.bool_] | None = None,
        own_windows: Numbers | None = None,
    ) -> ReleasedCells:
        """What was published, with intervals of confidence ``level``.

        Args:
            description, terms: of the stream.
            values: totals, or windows where no totals are published; shape ``(steps, groups)``,
                from step 1 on.
            level: probability with which each interval holds.
            carried, since, there, own_windows: see the class.
        """
        steps = range(1, len(values) + 1)
        own = Series(values, terms.std(steps), terms.halfwidths(steps, level), there)
        return cls(
            description,
            terms,
            steps,
            own,
            level,
            carried=carried,
            since=since,
            there=there,
            own_windows=own_windows,
        )

    @property
    def groups(self) -> Sequence[str]:
        """Names of the groups, in the order of their numbers."""
        if self.since is not None and self.chosen is None:
            return tuple(self.since)
        return self.definition.groups if self.chosen is None else self.chosen

    @property
    def own(self) -> Series:
        """What this stream alone released: without the totals that it goes on from."""
        if self.carried is None:
            return self.published
        return replace(self.published, values=self.published.values - self.carried.estimates)

    @property
    @override
    def shown_steps(self) -> range:
        return range(self.first, self.steps.stop)

    def only(
        self, steps: range | None = None, groups: Sequence[str] | None = None
    ) -> ReleasedCells:
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
            own = self.published.part(range(1, last + 1))
            found = replace(
                self,
                steps=range(1, steps.stop),
                published=own,
                first=steps.start,
                there=None if self.there is None else self.there[:last],
                own_windows=None if self.own_windows is None else self.own_windows[:last],
            )
            if self.since is not None:  # groups shown later are not known yet
                known = [group for group in self.groups if self.since[group] < steps.stop]
                own = own.of_groups([self.groups.index(group) for group in known])
                since = {group: self.since[group] for group in known}
                chosen = None if self.chosen is None else tuple(known)
                found = replace(found, published=own, since=since, chosen=chosen)
        if groups is None or tuple(groups) == found.groups:
            return found
        places = {group: place for place, group in enumerate(found.groups)}
        for number, group in enumerate(groups):
            if group not in places or group in groups[:number]:
                why = "twice" if group in places else "which is not among the groups"
                raise InvalidInput(
                    f"{field('groups')} names {group!r}, {why}; choose from "
                    f"{some_of(self.groups)}, each once"
                )
        of = [places[group] for group in groups]
        own = found.published.of_groups(of)
        carried = self.carried and replace(self.carried, estimates=self.carried.estimates[of])
        there, windows = found.there, found.own_windows
        return replace(
            found,
            published=own,
            chosen=tuple(groups),
            carried=carried,
            there=None if there is None else there[:, of],
            own_windows=None if windows is None else windows[:, of],
        )

    def largest(self, count: int) -> ReleasedCells:
        """The groups with the largest totals, if there are more than ``count``.

        Of windows alone by what all those that are shown add up to: the last one is mostly noise.
        """
        if len(self.groups) <= count:
            return self
        sizes = np.asarray(self.main.values[-1], np.float64)
        if self.totals is None:
            sizes = np.asarray(self.main.values[self.first - 1 :], np.float64).sum(axis=0)
        places = np.argsort(-sizes, kind="stable")[:count]
        return replace(self.only(groups=[self.groups[place] for place in places]), by_size=True)

    @cached_property
    def totals(self) -> Series | None:
        """So far, after each step; None where they are not asked for."""
        if self.definition.release == "windows":
            return None
        own, carried = self.published, self.carried
        if carried is None:
            return own
        half = joint_halfwidths(
            carried.releases, self.terms.strategy, self.terms.law, self.steps, self.level
        )
        return replace(
            own,
            std=np.sqrt(own.std**2 + carried.variance),
            half=self.terms.in_data_units(half),
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
            return self.published.part(steps)
        stops = np.asarray(steps)
        if self.own_windows is None:
            return self.between(stops - 1, stops)
        found = self._between(stops - 1, stops, self.own_windows[stops - 1])
        there = None if self.there is None else self.there[stops - 1]
        return replace(found, there=there, start=steps.start)

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
        return self._between(starts, stops, self._so_far(stops) - self._so_far(starts))

    def _between(
        self, starts: NDArray[np.int64], stops: NDArray[np.int64], estimates: Numbers
    ) -> Series:
        half = self.terms.window_halfwidths(starts, stops, self.level)
        return Series(estimates, self.terms.window_std(starts, stops), half)

    def _so_far(self, steps: NDArray[np.int64]) -> Numbers:
        """Totals after steps, of which 0 is the beginning: shape ``(len(steps), groups)``."""
        steps = np.atleast_1d(steps)
        if self.there is not None:
            needed = steps
            if self.terms.strategy.workload == "windows":  # sums of all windows up to each
                needed = np.arange(1, int(steps.max(initial=0)) + 1)
            self._refuse_missing(needed[needed > 0])
        found = self._totals[np.maximum(steps - 1, 0)]
        found[steps == 0] = 0 if self.carried is None else self.carried.estimates
        return found

    def _refuse_missing(self, steps: NDArray[np.int64], place: int | None = None) -> None:
        """Refuse steps of which rows were left out; of one group, or of any."""
        assert self.there is not None
        there = self.there[steps - 1]
        gone = ~(there if place is None else there[:, [place]])
        if gone.any():
            row, column = (int(one[0]) for one in np.nonzero(gone))
            group = self.groups[column if place is None else place]
            raise InvalidInput(
                f"step {int(steps[row]):,} of {group!r} is not among the rows that were read: give "
                f"a file that has it{self._unshown}"
            )

    @property
    def _unshown(self) -> str:
        """Why a row may not be there, for messages."""
        above = self.definition.above
        return "" if above is None else f" ({above})"

    def _refuse_chosen(self, what: str) -> None:
        """Refuse what holds for groups that were chosen beforehand, or for all of them."""
        why = self.definition.above or ("the largest were chosen" if self.by_size else None)
        if why is not None:
            raise InvalidInput(
                f"{what} is of groups that were not chosen by their size, and here {why}: take a "
                f"table of all groups, or of some by name"
            )

    @cached_property
    def _totals(self) -> Numbers:
        estimates = self.published.values  # whoever asks has refused those that are not there
        if self.terms.strategy.workload == "totals":
            return estimates
        return cast("Numbers", np.cumsum(estimates, axis=0))

    @override
    def number_of(self, one: Groups, steps: Steps = None, of: str | None = None) -> Formula:
        """Groups that are added up, each with its weight."""
        from counton.numbers.contrasts import sum_formula

        if of is not None:
            raise InvalidInput(
                f"{field('of', of)} names one of several numbers of a statistic, and "
                f"{self.terms.name!r} holds the {self.definition.subject}: leave it out"
            )
        return sum_formula(self.terms, self._parts(one, steps), self._after)

    @override
    def whole(self, steps: Steps = None, of: str | None = None) -> Formula:
        """All declared groups.

        Raises:
            InvalidInput: those are shown that are large enough.
        """
        self._refuse_chosen("a sum of all groups")
        return self.number_of(self.definition.groups, steps, of)

    @override
    def at(self, level: float) -> ReleasedCells:
        half = self.terms.halfwidths(self.steps, check_level(level))
        own = replace(self.published, half=half)
        return replace(self, published=own, level=level)

    @override
    def with_band(self) -> ReleasedCells:
        """See `Release.with_band`: by the joint law of all steps, where that is narrower.

        Groups have independent noise, so each is to hold with ``level ** (1 / groups)``.

        Raises:
            InvalidInput: groups that nobody declared, or that are shown for their size.
        """
        from counton.numbers.bands import narrower

        self._refuse_chosen("a band")
        if self.since is not None:
            raise InvalidInput(
                "groups that nobody declared are shown because they are large, and a band holds "
                "for groups chosen beforehand; take the table, or declare the groups"
            )
        one = float(self.level ** (1 / len(self.groups)))
        wide = self.at(min(1 - (1 - one) / len(self.shown_steps), 1 - 1e-9))
        if self.carried is not None:
            return wide
        shown = slice(self.first - 1, None)
        half = wide.published.half.copy()
        factor = narrower(self.terms, half[shown], self.first, one, windows=self.totals is None)
        half[shown] *= factor
        if not self.terms.strategy.fraction_bits:  # whole numbers are within, or are not
            unit = float(self.terms.released_unit)
            half[shown] = np.floor(half[shown] / unit * (1 + 1e-12)) * unit
        band = replace(wide.published, half=half)
        return replace(wide, published=band, level=self.level, together=True)

    @override
    def most_of_hidden(self, *, groups: int = 1) -> Answer:
        """See `Release.most_of_hidden`.

        A group that is not shown has had an estimate below the threshold at the last step too, so
        its number is below that and what noise may have taken away.

        Args:
            groups: for this many groups at once, as many as are asked about; for one that is named
                without looking it is 1.

        Raises:
            InvalidInput: groups that were declared, or a level of 0.5 or less.
        """
        from counton.numbers.contrasts import Answer

        discovery = self.definition.discovery
        if discovery is None or self.carried is not None:
            return super().most_of_hidden(groups=groups)
        last, missed = self.steps[-1:], (1 - self.level) / check_integer("groups", groups, 1)
        if missed >= 0.5:
            raise InvalidInput(
                f"{field('level', self.level)} is a probability that a bound holds; it must be "
                f"above 0.5"
            )
        hidden = int(discovery.thresholds(self.terms, last)[0]) - 1
        half = self.terms.halfwidths(last, check_level(1 - 2 * missed))
        return Answer(
            math.nan,
            float(self.terms.std(last)[0]),
            0.0,
            float(hidden + half[0]),
            self.level,
            f"a group that was not large enough to be shown up to step {last[0]:,}",
        )

    @override
    def simulate(self, numbers: Any = None, n: int = 1) -> list[ReleasedCells]:
        """Numbers of each window, in data units.

        >>> import tempfile
        >>> import polars as pl
        >>> from counton import PureDP, release
        >>> folder = tempfile.TemporaryDirectory()
        >>> visits = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-02T11:30"]})
        >>> found = release(
        ...     "count", visits, time="time", every="1d", start="2024-03-01", steps=365,
        ...     until="newest", guarantee=PureDP(1), state=folder.name + "/visits.db",
        ... )
        >>> one, other = found.simulate([[300], [500], [200]], 2)
        >>> one.terms.name, one.table().height, other.totals.values.shape
        ('SIMULATED events', 3, (3, 1))
        >>> folder.cleanup()
        """
        from counton.released.simulation import as_simulation, check_numbers, simulated_releases

        if self.since is not None:
            self._cannot("simulations of groups that nobody declared")
        self._refuse_chosen("a simulation")
        if numbers is None:
            own = np.asarray(self.own.estimates, np.float64)
            exact = own
            if self.terms.strategy.workload == "totals":
                exact = np.diff(own, axis=0, prepend=np.zeros((1, own.shape[1])))
        else:
            exact = check_numbers(numbers, (len(self.groups),), self.terms)
        whole = self.published.values.dtype == np.int64
        found = []
        for values in simulated_releases(self.terms, exact, n):
            terms, definition = as_simulation(self.terms, self.definition)
            made = ReleasedCells.of(
                definition, terms, np.rint(values).astype(np.int64) if whole else values, self.level
            )
            found.append(replace(made, chosen=self.chosen))
        return found

    @override
    def changes(self, steps: Steps, other_steps: Steps, *, of: str | None = None) -> pl.DataFrame:
        """See `Release.changes`.

        Raises:
            InvalidInput: also where groups are shown because they are large.
        """
        self._refuse_chosen("the largest change")
        return super().changes(steps, other_steps, of=of)

    @property
    @override
    def parts_of_whole(self) -> bool:
        """Counts are."""
        return self.terms.contribution.resolution is None

    def _parts(self, asked: Groups, steps: Steps) -> list[Term]:
        """What is added up, in cells of the stream."""
        from counton.numbers.formulas import Term

        if self.since is not None:
            raise InvalidInput(
                "groups that nobody declared have totals alone, since each is shown from some "
                "window on; take the totals, or declare the groups"
            )
        given = {asked: 1.0} if isinstance(asked, str) else asked
        if not isinstance(given, Mapping):
            given = dict.fromkeys(given, 1.0)
        if not given or any(group not in self.definition.groups for group in given):
            wrong = next((group for group in given if group not in self.definition.groups), None)
            raise InvalidInput(
                f"{field('groups')} names {wrong!r}, which is not among the groups; choose from "
                f"{some_of(self.definition.groups)}{self._unshown}"
            )
        start, stop = self.ends(steps)
        place = {group: cell for cell, group in enumerate(self.definition.groups)}
        return [Term(float(weight), start, stop, place[group]) for group, weight in given.items()]

    def _after(self, cell: int, step: int) -> float:
        """The released total of a cell after a step, in this stream."""
        group = self.definition.groups[cell]
        if not step:
            if self.carried is None or group not in self.groups:
                return 0.0
            return float(self.carried.estimates[self.groups.index(group)])
        if group not in self.groups:
            raise InvalidInput(
                f"{field('groups')} leaves {group!r} out, which is asked for; take all groups"
            )
        place = self.groups.index(group)
        if self.there is not None:
            windows = self.terms.strategy.workload == "windows"
            self._refuse_missing(np.arange(1, step + 1) if windows else np.array([step]), place)
        return float(self._totals[step - 1, place])

    @override
    def pattern(self, by: str) -> pl.DataFrame:
        """See `Release.pattern`.

        Raises:
            InvalidInput: also of more than 2,048 days, whose joint noise is too large a table.
        """
        from counton.numbers.contrasts import sum_formula
        from counton.numbers.formulas import Term
        from counton.released.periods import WEEKDAYS, check_delay, occurrences_of

        windows, groups = self.definition.windows, self.groups
        check_delay(field("by", by), self.delay)
        found = occurrences_of(windows, by, self.shown_steps)
        series = self.between(found.starts, found.stops)
        known = np.unique(found.of)
        columns: dict[str, list[Any]] = {
            name: [] for name in (by, "times", "group", "estimate", "std", "lower", "upper")
        }
        for one in known.tolist():
            places = np.flatnonzero(found.of == one)
            times = len(places)
            if times > _MOST_TIMES:
                raise InvalidInput(
                    f"{field('by', by)} finds {times:,} days, and at most {_MOST_TIMES:,} are "
                    f"taken together: choose fewer {field('steps')}"
                )
            # Groups have independent noise of one law, so that of one tells the errors of all.
            ends = zip(found.starts[places].tolist(), found.stops[places].tolist(), strict=True)
            terms = [Term(1 / times, start, stop, 0) for start, stop in ends]
            noise = sum_formula(self.terms, terms, lambda _cell, _step: 0.0)
            std, half = noise.std, noise.half(self.level)
            means = np.asarray(series.estimates, np.float64)[places].mean(axis=0)
            columns[by] += [one if by == "hour" else WEEKDAYS[one]] * len(groups)
            columns["times"] += [times] * len(groups)
            columns["group"] += groups
            columns["estimate"] += means.tolist()
            columns["std"] += [std] * len(groups)
            columns["lower"] += (means - half).tolist()
            columns["upper"] += (means + half).tolist()
        return pl.DataFrame(columns, schema_overrides={"group": pl.String})

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
        from counton.released.periods import check_periods, periods_of

        windows, groups = self.definition.windows, self.groups
        check_periods(windows, every, self.delay)
        periods = periods_of(windows, every, self.steps[-1])
        first, last = periods.edges[:-1], periods.edges[1:]
        sums = self.between(first, last).columns()
        return periods.table(windows, [len(groups)] * len(first)).with_columns(
            group=pl.Series(list(groups) * len(first), dtype=pl.String),
            sum=sums.pop("estimate"),
            **sums,
        )

    @property
    def _cut(self) -> Windows:
        return self.definition.windows

    @property
    def delay(self) -> int:
        """How many windows before its own a release counts up to."""
        return self.definition.strategy.delay

    def local_ends(self) -> NDArray[np.datetime64]:
        """Ends of the windows in local time, without a zone."""
        return self._local(self.definition.windows.ends(self.steps))

    def window_end(self, step: int) -> np.datetime64:
        """When the window of a step ended, in local time."""
        found: np.datetime64 = self.local_ends()[step - self.steps.start]
        return found

    def times(self, steps: range) -> NDArray[np.datetime64]:
        """Ends of the windows of some steps in local time; of step 0 the beginning."""
        return self._local(self.definition.windows.ends(steps))

    def local_counted(self) -> NDArray[np.datetime64]:
        """Up to when each release counts, in local time: ends of windows, less the delay."""
        return self._local(self._counted_until())

    def _counted_until(self) -> NDArray[np.int64]:
        last_windows = np.maximum(np.asarray(self.steps) - self.delay, 0)
        ends = self.definition.windows.ends(range(self.steps.stop))  # from the stream's beginning
        return np.asarray(ends[last_windows], dtype=np.int64)

    def _local(self, us: NDArray[np.int64]) -> NDArray[np.datetime64]:
        local = local_times(self.definition.windows, us).dt.replace_time_zone(None).to_numpy()
        return np.asarray(local, dtype="datetime64[us]")

    def curves(self) -> Curves:
        """What a chart of totals shows: over the times up to which they count."""
        # Before the delay is over nothing is counted.
        start = min(max(self.delay, self.first - 1), len(self.steps) - 1)
        part = slice(start, None)
        return self._curves(self.local_counted()[part], self.totals or self.published, part)

    def window_curves(self, most: int = 400) -> tuple[Curves, str]:
        """What a chart of windows shows, and how long they are.

        Where there are more than ``most`` windows, they are added up to days, weeks or months, of
        which only whole ones are shown.
        """
        from counton.released.periods import periods_of

        windows = self.definition.windows
        if len(self.shown_steps) > most:
            for every in ("1d", "1w", "1mo", "12mo"):
                try:
                    periods = periods_of(windows, every, self.steps[-1])
                except InvalidInput:  # these windows are no parts of days
                    continue
                edges = periods.edges
                whole = periods.whole & (edges[:-1] >= self.first - 1)
                if 1 < whole.sum() <= most:
                    series = self.between(edges[:-1], edges[1:])
                    ends = self._local(windows.ends(range(self.steps.stop))[edges])
                    found = self._curves(ends[1:][whole], series, whole)
                    return replace(found, starts=ends[:-1][whole]), every
        stops = np.arange(1, self.steps.stop)
        series = self.windows or self.between(stops - 1, stops)
        part = slice(self.first - 1, None)
        drawn = self._curves(self.local_ends()[part], series, part)
        return replace(drawn, starts=self._local(windows.starts(self.steps))[part]), windows.every

    def _curves(self, times: NDArray[np.datetime64], series: Series, shown: Any) -> Curves:
        from counton.charts import Curves

        known = series.with_zeros()
        estimates, lower, upper = (
            np.asarray(a, np.float64)[shown] for a in (known.estimates, known.lower, known.upper)
        )
        hidden = np.zeros(estimates.shape, np.bool_)
        if self.since is not None:
            steps = np.asarray(self.steps)[shown]
            hidden |= steps[:, None] < np.array([self.since[group] for group in self.groups])
        if self.there is not None and len(self.there) == len(known.estimates):  # not of periods
            hidden |= ~self.there[shown]
        estimates, lower, upper = (np.where(hidden, np.nan, a) for a in (estimates, lower, upper))
        names = self.definition.groups if self.since is None else tuple(self.since)
        place = {group: number for number, group in enumerate(names)}
        places = [place[group] for group in self.groups]
        return Curves(times, self.groups, estimates, lower, upper, places=places)

    def figures(
        self,
        *,
        panels: bool = False,
        title: str | None = None,
        axis: str | None = None,
        source: str | None = None,
        width: float | None = None,
    ) -> dict[str, Figure]:
        """Charts of ``totals``, of ``windows``, or both; of many groups the largest.

        Args:
            panels: one small chart for each group.
            title, axis: what is shown, in other words.
            source: where the numbers come from, below the chart.
            width: in inches; None: 7.5. A telephone shows 4.

        Raises:
            InvalidInput: no such width.
            MissingExtra: matplotlib is not installed.
        """
        from counton.charts.style import check_width
        from counton.charts.totals import MOST_PANELS, plot_totals
        from counton.released.stream_words import (
            foot_of,
            groups_in_words,
            series_in_words,
            times_in_words,
        )

        self.check_released()
        definition, part, wide = self.definition, self.largest(MOST_PANELS), check_width(width)
        grouped = groups_in_words(definition)
        by = f", by {grouped}" if grouped else ""
        what = definition.subject
        drawn = {}
        if self.totals is not None:
            late = f", each point released {self.delay:,} windows later" if self.delay else ""
            times = f"{times_in_words(definition)}{late}"
            drawn["totals"] = part.curves(), f"Running {what}{by}", times
        if definition.release == "windows" or (definition.release == "both" and not self.together):
            most = (len(self.shown_steps),) if self.together else ()
            curves, every = part.window_curves(*most)
            times = times_in_words(definition, 1, every)
            drawn["windows"] = curves, f"{what[0].upper()}{what[1:]}{by}", times
        several = len(self.groups)
        return {
            kind: plot_totals(
                replace(
                    curves,
                    all_groups=several,
                    groups=curves.groups if grouped else [series_in_words(definition)],
                ),
                said if title is None else title,
                f"{times}; with {100 * self.level:g}% intervals"
                + ", which hold together" * self.together,
                what if axis is None else axis,
                panels=panels,
                foot=foot_of(definition, source),
                width=wide,
            )
            for kind, (curves, said, times) in drawn.items()
        }

    @override
    def screen(self) -> Screen:
        """The largest groups, in the order in which they are declared."""
        self.check_released()
        heading = self._heading()
        noise = [
            ("error", f"standard deviation {self._noise_in_words()}"),
            (
                "",
                "each estimate is the true number plus random noise, so a small one can be below 0",
            ),
            (
                "intervals",
                f"each by itself holds the true number with probability {100 * self.level:g}%",
            ),
        ]
        if self.definition.bound_note is not None:
            noise.append(("", self.definition.bound_note))
        if not self.groups:
            return Screen(noise, heading, notes=["no group is large enough to be shown yet"])
        smaller = len(self.groups) - MOST
        left_out = f"and {smaller:,} smaller groups" if smaller > 0 else ""
        return Screen(noise, heading, [self.largest(MOST)._last_table()], left_out)

    def _noise_in_words(self) -> str:
        """Standard deviations of what was released last."""
        parts, step = [], f"{self.steps[-1]:,}"
        if self.totals is not None:
            parts.append(f"{figures(self.totals.std[-1])} of the total after window {step}")
        if self.windows is not None:
            parts.append(f"{figures(self.windows.std[-1])} of window {step} by itself")
        return ", ".join(parts)

    def _heading(self) -> str:
        definition, step = self.definition, self.steps[-1]
        cut = definition.windows
        released, counted = (
            cut.until(int(cut.ends(range(end, end + 1))[0]))
            for end in (step, max(step - self.delay, 0))
        )
        which = f"window {step:,}, {cut.timezone}"
        if definition.release == "windows":
            return f"\n{definition.subject} in the window {released} ({which})"
        if self.delay:
            which = f"{which}; released with the window {released}"
        return f"\n{definition.subject} so far, {counted} ({which})"

    def _last_table(self) -> TextTable:
        """The last step, a row for each group."""
        names = [(self.definition.by or "", False)]
        columns: list[Sequence[str]] = [self.groups]
        shown = [series for series in self.last if series is not None]
        for name, series in zip(("estimate", "in this window"), shown, strict=False):
            half, whole = float(series.half[0]), series.estimates.dtype.kind == "i"
            value, lower, upper = (
                [quantity(float(number), half, whole) for number in ends[0]]
                for ends in (series.estimates, series.lower, series.upper)
            )
            ends = [f"{low} to {high}" for low, high in zip(lower, upper, strict=True)]
            names += [(name, True), (f"{100 * self.level:g}% interval", True)]
            columns += [value, ends]
        return TextTable(names, [*zip(*columns, strict=True)])

    @override
    def errors(self) -> list[str]:
        return [
            error_in_words(series, what, self.level)
            for what, series in (("total", self.totals), ("window's own number", self.windows))
            if series is not None and len(series.std)
        ]

    @override
    def reach(self) -> dict[str, float]:
        every = "row" if self.definition.cut is None else self.definition.cut.every
        each = f"in each {PERIODS.get(every, every)}"
        own = {"so far": self.totals, each: self.windows}
        return {
            name: float(series.half[-1])
            for name, series in own.items()
            if series is not None and len(series.half)
        }

    @override
    def last_rows(self, most: int | None = None) -> pl.DataFrame:
        last = self.only(self.steps[-1:])
        return (last if most is None else last.largest(most)).table()

    @override
    def numbers(self, of: str | None = None) -> pl.DataFrame:
        published = self.definition.release
        chosen = ("windows" if published == "windows" else "totals") if of is None else of
        if chosen not in ("totals", "windows"):
            raise InvalidInput(f"{field('of')} is {of!r}; use totals or windows")
        table = self.table()
        when = [name for name in table.columns if name in _OF_WHAT]
        if published in ("both", chosen):
            prefix = "window_" if chosen == "windows" else ""
            return table.select(*when, *(pl.col(f"{prefix}{one}").alias(one) for one in ADDED))
        stops = np.asarray(self.shown_steps)  # what is not published follows from what is
        begins = stops - 1 if chosen == "windows" else np.zeros_like(stops)
        return table.select(when).with_columns(**self.between(begins, stops).columns())

    @property
    @override
    def rows(self) -> int:
        """See `Release.rows`; of groups that nobody declared there may be fewer."""
        return len(self.shown_steps) * len(self.groups)

    @override
    def with_note(self, note: str) -> ReleasedCells:
        return replace(self, notes=(*self.notes, note))

    @override
    def left_out(self) -> tuple[int, int]:
        if self.there is None:
            return 0, 0
        begins = np.full(len(self.groups), self.first)
        if self.since is not None:
            begins = np.maximum([self.since[group] for group in self.groups], self.first)
        return int((~self.there[self.first - 1 :]).sum()), int((self.steps.stop - begins).sum())

    @override
    def last_numbers(self) -> dict[str, Any]:
        """Numbers by group, of windows under ``window_`` names."""
        last: dict[str, Any] = {
            "counted_until": self.definition.windows.at(int(self._counted_until()[-1]))
        }
        groups: list[dict[str, Any]] = [{"group": group} for group in self.groups]
        for prefix, series in zip(("", "window_"), self.last, strict=True):
            if series is None:
                continue
            last[f"{prefix}std"] = float(series.std[0])
            for name, ends in (
                ("estimate", series.estimates),
                ("lower", series.lower),
                ("upper", series.upper),
            ):
                for row, number in zip(groups, ends[0].tolist(), strict=True):
                    row[f"{prefix}{name}"] = number
        return {**last, "groups": groups}

    @property
    @override
    def drawable(self) -> bool:
        """A group, at least."""
        return bool(self.groups)

    @override
    def own_facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {"steps": self.steps.stop - 1}
        found |= carried_facts(self.carried, self.groups, self.terms)
        if self.since is not None:
            found["since"] = dict(self.since)
        return found

    def table(self, steps: range | None = None) -> pl.DataFrame:
        """One row per step and group: step, window, group, estimate, std, lower, upper.

        The last four are those of totals; windows' own numbers have ``window_`` before these names.
        With a delay also ``counted_until``: the total is that of the events before it.

        Args:
            steps: which of those that are shown; None: all of them.
        """
        found = [self._rows(some) for some in self._chunks(steps)]
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

        schema = self._rows(self.shown_steps[:1]).schema
        return register_io_source(rows, schema=schema, is_pure=True)

    def _chunks(self, steps: range | None = None) -> Iterator[range]:
        size = max(1, _ROWS // max(1, len(self.groups)))
        shown = self.shown_steps if steps is None else steps
        for start in range(0, max(len(shown), 1), size):
            yield shown[start : start + size]

    def _rows(self, shown: range) -> pl.DataFrame:
        """The rows of some steps."""
        windows, groups, steps = self.definition.windows, self.groups, len(shown)
        step = np.repeat(np.arange(steps), len(groups))

        def each(us: NDArray[np.int64]) -> pl.Series:
            return local_times(self.definition.windows, us).gather(step)

        columns: dict[str, Any] = {
            "step": np.repeat(np.asarray(shown, dtype=np.int64), len(groups)),
            "window_start": each(windows.starts(shown)),
            "window_end": each(windows.ends(shown)),
        }
        if self.delay:
            columns["counted_until"] = each(self._counted_until()[shown.start - 1 : shown.stop - 1])
        names = pl.Series(list(groups), dtype=pl.String)
        columns["group"] = names.gather(np.tile(np.arange(len(groups)), steps))
        if self.totals is not None:
            columns |= self.totals.part(shown).with_zeros().columns()
        own = self._windows(shown)
        if own is not None:
            columns |= own.with_zeros().columns("window_")
        table = pl.DataFrame(columns)
        if self.definition.by_several:
            from counton.released.stream_words import with_parts

            table = with_parts(table, self.definition)
        kept = np.ones((steps, len(groups)), np.bool_)
        if self.there is not None:
            kept &= self.there[shown.start - 1 : shown.stop - 1]
        if self.since is not None:
            since = np.array([self.since[group] for group in groups], np.int64)
            kept &= np.asarray(shown)[:, None] >= since
        return table if kept.all() else table.filter(pl.Series(kept.ravel(), dtype=pl.Boolean))


def carried_facts(
    carried: CarriedTotals | None, groups: Sequence[str], terms: Design
) -> dict[str, Any]:
    """The totals before a stream, as a description has them: those of its first groups."""
    if carried is None:
        return {}
    told = carried.of(len(groups)).to_dict(terms.resolution)
    return {"carried": {"groups": list(groups), **told}}


def error_in_words(series: Series, what: str, level: float) -> str:
    """A sentence about the noise of some numbers."""
    low, high, last = (
        quantity(one, one)
        for one in map(float, (series.std.min(), series.std.max(), series.std[-1]))
    )
    half = float(series.half[-1])
    between = "" if low == high else f" (from {low} to {high} so far)"
    return (
        f"The noise of a {what} has the standard deviation {last} at the last step{between}, and "
        f"its {100 * level:g}% interval there reaches {quantity(half, half)} to both sides."
    )


#: Columns of a table that say of what its numbers are.
_OF_WHAT = (*WHEN, "counted_until", "group")
#: Days whose joint noise is computed at once.
_MOST_TIMES = 2048
#: Rows of a table that are made at a time.
_ROWS = 2**18

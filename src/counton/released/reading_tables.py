"""Released steps of a statistic as tables and charts: a row, or several, for each step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.columns import WHEN
from counton.base.errors import InvalidInput, field
from counton.base.exact import quantity
from counton.base.groups import GroupNames
from counton.base.windows import Windows
from counton.numbers import Design, Releases
from counton.numbers.intervals import check_level
from counton.privacy.guarantees import plural
from counton.released.counts import ReleasedCells
from counton.released.description import Description
from counton.released.packed_cells import MOST_CELLS, pack
from counton.released.read_options import EVERYTHING, Look, View, check_shown
from counton.released.release import Groups, Release, Steps
from counton.released.screen import Screen, largest_rows
from counton.released.series import local_times
from counton.statistics import Grouped, Reading, Statistic
from counton.statistics.by_group import GroupedReading
from counton.statistics.readings import Readings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counton.numbers.formulas import Estimate, Formula
    from counton.statistics.report import Report


#: Columns that are numbers of a row, and no name of it.
NUMBERS = (
    *("window_start", "window_end", "counted_until", "over"),
    *("estimate", "std", "lower", "upper", "value", "sure"),
    *("window_estimate", "window_std", "window_lower", "window_upper"),
    *("running_total", "running_total_std"),
)
#: Steps that a chart shows, about.
_DRAWN = 500


@dataclass(frozen=True, repr=False)
class ReleasedReadings(Release):
    """Released steps of a statistic, all or some of them.

    Attributes:
        definition: of the stream.
        terms: of the stream.
        steps: 1 to the last step released.
        readings: of its steps.
        level: confidence of the intervals.
        first: the first step that tables and charts show.
        shown: what is shown of each reading.
        chosen: the groups that are shown, where they are not all.
        there: of a file from which rows were left out, what tells apart those that are there; None:
            all are. Readings themselves are of all cells, which the file's description holds.

    >>> import tempfile
    >>> import polars as pl
    >>> from counton.run import Job, run
    >>> from counton.statistics import Average
    >>> folder = tempfile.TemporaryDirectory()
    >>> paid = pl.DataFrame({"at": ["2024-03-01T09:00", "2024-03-02T10:15"], "paid": [3, 5]})
    >>> job = Job(
    ...     Average(0, 9, resolution=1), paid, folder.name + "/s.db", value="paid", time="at",
    ...     every="1d", start="2024-03-01", steps=365, until="2024-03-03", epsilon=1,
    ... )
    >>> with run(job) as outcome:
    ...     outcome.read().table()["step"].unique().to_list()
    [1, 2]
    >>> folder.cleanup()
    """

    definition: Description
    terms: Design
    steps: range
    readings: Readings
    level: float
    first: int = 1
    shown: View = EVERYTHING
    chosen: tuple[str, ...] | None = None
    there: pl.DataFrame | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        stream: ReleasedStream,
        definition: Description,
        level: float,
        shown: View | None = None,
    ) -> ReleasedReadings:
        """Everything in the journal, with intervals of confidence ``level``."""
        shown = View() if shown is None else shown
        definition = as_shown(definition, shown)
        steps = range(1, stream.step + 1)
        readings = stream.readings(1, steps.stop, definition.statistic)
        return cls(definition, stream.terms, steps, readings, level, shown=shown)

    @property
    @override
    def groups(self) -> Sequence[str]:
        """Those of the statistic, if it is of groups."""
        return (self.definition.domain or ()) if self.chosen is None else self.chosen

    @property
    @override
    def shown_steps(self) -> range:
        return range(self.first, self.steps.stop)

    @property
    @override
    def over(self) -> int | None:
        return self.shown.over

    @property
    def statistic(self) -> Statistic:
        """Which."""
        return self.definition.statistic

    @override
    def part(self, name: str) -> Release:
        """See `Release.part`.

        Counts and sums that are measured by themselves answer all that counts and sums answer; what
        follows from another statistic is what that says of it.
        """
        if not self.statistic.inner.statistics:
            return super().part(name)
        report: Report = cast("Report", self.statistic.inner)
        groups = self.definition.domain
        member = report.statistic(name)
        one: Statistic = member
        measured = report.derived_from.get(name, name)
        terms = report.terms_of(measured, self.terms, () if groups is None else (len(groups),))
        own = one.by_groups(groups) if groups is not None and measured == name else None
        statistic = own or (one if groups is None else Grouped(one, groups))
        by, columns = self.definition.by, report.columns[name]
        if isinstance(one, Grouped) or one.declares is not None:  # groups of its own
            groups = GroupNames(one.groups if isinstance(one, Grouped) else one.declares or ())
            by, columns = columns[0], columns[1:]
            one = one.inner
        people = self.definition.people
        if people is not None and (
            member.counted_ranks == (1,) or (by is None and member.counts_users)
        ):
            people = people._replace(each=member.counted_ranks[-1])
        definition = replace(
            self.definition,
            what=one.keyword or type(one).__name__,
            statistic=one if one.additive and measured == name else statistic,
            by=by,
            domain=groups,
            value=columns[0] if len(columns) == 1 else None,
            people=people,
        )
        if one.additive and measured == name:
            releases = self.readings.releases
            assert releases is not None
            values = report.values_of(name, releases.values, terms)
            cells = ReleasedCells.of(definition, terms, values.reshape(len(values), -1), self.level)
            return cells.only(range(self.first, self.steps.stop), self.chosen)
        readings = self.readings.part(statistic, name)
        return replace(self, definition=definition, terms=terms, readings=readings)

    def at_hand(self) -> ReleasedReadings:
        """The same, with its steps read, so that its state may be closed before it is shown."""
        if not self.statistic.on_demand:
            return self
        from counton.released.on_demand_answers import Answers

        answers = Answers(self.terms, self.statistic, self.shown, [self.table()])
        return replace(self, readings=answers.readings(self.statistic))

    def only(
        self, steps: range | None = None, groups: Sequence[str] | None = None
    ) -> ReleasedReadings:
        """Some of the steps, and some of the groups; None: all.

        Raises:
            InvalidInput: groups of a statistic without, or that are none of its.
        """
        found = self
        if steps is not None:
            found = replace(found, first=steps.start, steps=range(1, steps.stop))
        if groups is None:
            return found
        if self.statistic.declares is not None:
            for group in groups:
                self.statistic.cell(group)
            return replace(found, shown=replace(found.shown, ask=tuple(groups)))
        if not isinstance(self.statistic, Grouped):
            raise InvalidInput(
                f"{field('groups', ','.join(groups))} names groups, and {self.statistic!r} has "
                f"none; leave it out"
            )
        for group in groups:
            self.statistic.group(group)
        return replace(found, chosen=tuple(groups))

    @override
    def number_of(self, one: Groups, steps: Steps = None, of: str | None = None) -> Estimate:
        """See `Release.number_of`: of all steps asked for, what came in them together."""
        from counton.numbers.formulas import Formula

        if isinstance(one, str):
            return self._number(one, steps, of)
        given = one if isinstance(one, Mapping) else dict.fromkeys(one, 1.0)
        found = [(self._number(name, steps, of), weight) for name, weight in given.items()]
        if not found:
            raise InvalidInput(f"{field('groups')} names no group; give at least one")
        total = Formula(least=0.0, most=0.0)
        for number, weight in found:
            if (formula := number.formula) is None:
                raise InvalidInput(
                    f"{of or 'what is read of ' + repr(self.definition.what)} of several groups is "
                    f"no sum of theirs; name one group"
                )
            total = total + formula * float(weight)
        return total

    @override
    def whole(self, steps: Steps = None, of: str | None = None) -> Estimate:
        if isinstance(self.statistic, Grouped):
            return self.number_of(self.statistic.groups, steps, of)
        if self.statistic.on_demand:
            self._cannot("shares")
        return self._reading_of(*self.ends(steps)).whole()

    @property
    @override
    def comparisons(self) -> int:
        """All pairs of groups, where the largest are shown."""
        count = math.prod(self.statistic.cells) if self.statistic.ranks else 1
        return max(count * (count - 1) // 2, 1)

    @override
    def at(self, level: float) -> ReleasedReadings:
        return replace(self, level=check_level(level))

    @override
    def simulate(self, numbers: Any = None, n: int = 1) -> list[ReleasedReadings]:
        """See `Release.simulate`: what cells changed by in each step, in the units of releases."""
        from counton.released.simulation import as_simulation, check_numbers, simulated_releases

        statistic, shape = self.statistic, self.terms.shape
        if statistic.on_demand:
            self._cannot("simulations")
        if not isinstance(self.readings.releases, Releases):
            raise InvalidInput(
                f"{self.definition.what} is read from the cells of report {self.terms.name!r}: "
                f"simulate the report, and take this part of each simulation"
            )
        if numbers is None:
            values = np.asarray(self.readings.releases.values, np.float64)
            exact = np.diff(values, axis=0, prepend=np.zeros((1, *values.shape[1:])))
        else:
            exact = check_numbers(numbers, shape, self.terms)
        found = []
        for made in simulated_releases(self.terms, exact, n):
            terms, definition = as_simulation(self.terms, self.definition)
            values = np.rint(made).astype(np.int64) if self._whole else made
            readings = Readings.of(statistic, terms, values)
            one = replace(self, definition=definition, terms=terms, readings=readings)
            found.append(replace(one, steps=readings.steps, first=1))
        return found

    @property
    def _whole(self) -> bool:
        """Whether released cells are whole numbers."""
        found = self.readings.releases
        return found is not None and found.values.dtype == np.int64

    def _number(self, name: str, steps: Steps, of: str | None) -> Estimate:
        """One number of one group, or of all."""
        start, stop = self.ends(steps)
        statistic = self.statistic
        if isinstance(statistic, Grouped):
            groups = self._reading_of(start, stop).by_group([name])
            assert groups is not None
            return groups[name].number_of(of)
        if of is not None and name != "all":
            raise InvalidInput(
                f"{field('of', of)} is of groups, and {self.terms.name!r} has none: name {of!r} in "
                f"the place of {name!r}"
            )
        called = of if name == "all" else name
        if statistic.on_demand:
            return self._on_demand(called, start, stop)
        return self._reading_of(start, stop).number_of(called)

    def _reading_of(self, start: int, stop: int) -> Reading:
        """What came in the steps start + 1 .. stop."""
        found = self.readings[stop - 1]
        return found.since(self.readings[start - 1]) if start else found

    def _on_demand(self, name: str | None, start: int, stop: int) -> Formula:
        """Cells that are computed when they are asked for, added up."""
        from counton.numbers.formulas import CellSum, Formula, Term

        if name is None:
            raise InvalidInput(f"{self.definition.what} has cells of many names; name one")
        from counton.released.on_demand_answers import Answers

        _, cells = self.statistic.asked_cells(name)
        machine = self.readings.machine
        if isinstance(machine, Answers):
            machine.check_rows(cells, [end for end in (start, stop) if end])
        each = [
            machine.history(cells, range(end, end + 1)).sum(axis=1)[0]
            for end in (start, stop)
            if end
        ]
        value = float(each[-1] - each[0]) if start else float(each[0])
        parts = tuple(Term(1.0, start, stop, int(cell)) for cell in cells)
        return Formula.of(CellSum(value, self.terms, parts))

    @cached_property
    def last(self) -> pl.DataFrame:
        """The rows of the last step."""
        return self._table(self.steps[-1:])

    def table(self, steps: range | None = None) -> pl.DataFrame:
        """Readings below each other: step, window, and the statistic's own columns.

        Args:
            steps: which of those that are shown; None: all of them, and where cells are read on
                demand and none are named the last.
        """
        if steps is None:
            alone = self.statistic.on_demand and self.shown.ask is None
            steps = range(self.steps.stop - 1 if alone else self.first, self.steps.stop)
        return self._table(steps)

    @override
    def screen(self) -> Screen:
        """The rows of the last step, of many the largest."""
        self.check_released()
        if self.definition.once and self.there is None:
            shown, notes = self.shown, self.facts().get("notes", ())
            tables = self.reading.screen(shown.ask, shown.fit, self.level)
            return Screen(tables=tables, notes=[f"note: {note}" for note in notes])
        rows = self.last
        heading = heading_of(self, self.shown.over)
        if not rows.height:
            none = "no group is large enough to be shown yet"
            if self.shown.over is not None:
                none = "nothing yet: fewer steps are released than are to be looked back over"
            return Screen(heading=heading, notes=[none])
        table, left_out = largest_rows(rows.drop(WHEN, strict=False))
        return Screen((), heading, [table], left_out)

    @override
    def errors(self) -> list[str]:
        from counton.numbers.releases import noise_in_words
        from counton.released.stream_words import far_in_words

        errors = []
        if not self.statistic.on_demand or self.shown.ask is not None:
            last = self.last
            if "std" in last.columns and last["std"].drop_nulls().len():
                errors = [noise_in_words(last["std"].drop_nulls().to_numpy())]
        if not errors:  # what is read has no deviation of its own
            after = self.steps.stop - 1
            std = float(self.terms.std(range(after, after + 1))[0])
            errors = [
                f"A cell of what it is read from has the standard deviation {quantity(std, std)}."
            ]
        far = far_in_words(self.reach())
        errors.append(
            f"Intervals hold with a probability of {100 * self.level:g}% or more, one at a time "
            f"unless the table says else"
            f"{f'; the last ones reach at most {far} to either side' if far else ''}."
        )
        return errors

    @override
    def reach(self) -> dict[str, float]:
        """Where cells are read on demand, that of any one of them."""
        if not self.statistic.on_demand or self.shown.ask is not None:
            return super().reach()
        return {"": float(self.terms.window_halfwidths(0, self.steps[-1], self.level))}

    @override
    def last_rows(self, most: int | None = None) -> pl.DataFrame:
        return self.last if most is None else self.last.head(most)

    @override
    def with_note(self, note: str) -> ReleasedReadings:
        return replace(self, notes=(*self.notes, note))

    @override
    def left_out(self) -> tuple[int, int]:
        if self.there is None:
            return 0, 0
        of = math.prod(self.statistic.cells)
        if not self.statistic.on_demand or self.shown.ask is not None:
            of = replace(self, there=None).table().height
        return of - self.table().height, of

    @override
    def facts(self) -> dict[str, Any]:
        over, fit = self.shown.over, self.shown.fit
        all_notes = [*([] if fit is None else fit.notes()), *self.notes]
        notes = {"notes": all_notes} if all_notes else {}
        if self.definition.once:
            return {"statistic": self.terms.statistic, **notes}
        windows = "windows" if self.definition.cut is not None else "steps"
        counted = f"all {windows} so far" if over is None else f"the last {over:,} {windows}"
        return {"statistic": self.terms.statistic, "counted": counted, **notes}

    @override
    def own_facts(self) -> dict[str, Any]:
        """See `Release.own_facts`: what is shown, and all cells, unless they are too many."""
        found: dict[str, Any] = {"shown": self.shown.to_dict()}
        if (cells := self.cells()) is not None:
            found["cells"] = pack(cells)
        return found

    def cells(self) -> NDArray[Any] | None:
        """The released cells by step; None where they are made on demand, or are too many."""
        if self.statistic.on_demand:
            return None
        found = self.readings.releases
        return None if found is None or found.values.size > MOST_CELLS else found.values

    def _table(self, steps: range) -> pl.DataFrame:
        begin = self.shown.over or 0
        steps = steps[sum(step < begin for step in steps[:begin]) :]
        if self.statistic.on_demand and self.shown.ask is not None and steps:
            parts = [self._history(self.shown.ask, steps)]
            place = np.repeat(np.arange(len(steps)), len(self.shown.ask))
        else:
            parts = []
            for step in steps:
                reading = self.readings[step - 1]
                if 0 < begin < step:
                    reading = reading.since(self.readings[step - begin - 1])
                parts.append(self._columns(reading))
            rows = [len(next(iter(part.values()))) for part in parts]
            place = np.repeat(np.arange(len(steps)), rows)
        table = _frame(
            parts, np.asarray(steps, np.int64)[place], self.definition.cut, self.shown.over
        )
        if self.there is not None:
            table = rows_among(table, self.there)
        if self.definition.once:
            return table.drop("step")
        if not self.definition.by_several:
            return table
        from counton.released.stream_words import with_parts

        return with_parts(table, self.definition)

    def sums(self, every: str) -> pl.DataFrame:
        """The statistic of the rows of each day, week or month by itself.

        Columns: window_start, window_end, first_step, last_step, whole, then those of `table`. The
        intervals are of the noise of a period alone, as those of `View.over` are.

        Args and errors as of `ReleasedCells.sums`.

        Raises:
            InvalidInput: also a table that was released once, or cells that are read on demand.
        """
        from counton.released.periods import check_periods, check_sums, periods_of

        check_sums(self.definition, every)
        self.check_released()
        windows = self.definition.windows
        check_periods(windows, every, self.definition.strategy.delay)
        periods = periods_of(windows, every, self.steps[-1])
        ends = pairwise(periods.edges.tolist())
        parts = [self._columns(self._reading_of(start, stop)) for start, stop in ends]
        rows = [len(next(iter(part.values()))) for part in parts]
        when = periods.table(windows, rows)
        table = pl.concat([when, _rows_of(parts)], how="horizontal")
        if self.there is not None:
            named = [name for name in self.there.columns if name not in (*WHEN, "over")]
            table = rows_among(table, self.there.select(named).unique())
        if not self.definition.by_several:
            return table
        from counton.released.stream_words import with_parts

        return with_parts(table, self.definition)

    def _columns(self, reading: Reading) -> dict[str, Any]:
        level, ask = self.level, self.shown.ask
        if isinstance(reading, GroupedReading) and ask is None and self.shown.fit is None:
            return _without_steps(reading.table_columns(level, self.chosen))
        groups = reading.by_group(self.chosen)
        if groups is not None:
            parts = [self._columns(part) for part in groups.values()]
            rows = [len(next(iter(part.values()))) for part in parts]
            found: dict[str, Any] = {"group": np.repeat(np.array(list(groups)), rows)}
            names = list(parts[0])
            return found | {name: np.concatenate([part[name] for part in parts]) for name in names}
        if self.shown.fit is not None:
            found = cast("Any", reading).apply_fit(self.shown.fit).table_columns(level)
        elif ask is None:
            found = reading.table_columns(level)
        else:
            found = reading.asked_columns(ask, level)
        return _without_steps(found)

    def _history(self, ask: Sequence[Any], steps: range) -> dict[str, Any]:
        """Cells that are asked for, or cuts, after all of some steps: a row for each, by step."""
        statistic, terms, machine = self.statistic, self.terms, self.readings.machine
        names, asked = zip(*(statistic.asked_cells(name) for name in ask), strict=True)
        stops, stds = np.asarray(steps, np.int64), terms.std(range(1, steps[-1] + 1))
        found: dict[str, list[NDArray[Any]]] = {
            "estimate": [],
            "std": [],
            "lower": [],
            "upper": [],
        }
        for cells in asked:
            all_steps = range(steps.start, steps[-1] + 1)
            every = machine.history(cells, all_steps)[:: steps.step].sum(axis=1)
            half = terms.window_halfwidths(0, stops, self.level, cells=len(cells))
            half = np.ceil(half) if every.dtype.kind == "i" else half
            std = math.sqrt(len(cells)) * stds[stops - 1]
            for name, column in zip(found, (every, std, every - half, every + half), strict=True):
                found[name].append(column)
        columns = {name: np.stack(parts, axis=1).ravel() for name, parts in found.items()}
        return {statistic.drawing.cells: np.array(names * len(steps)), **columns}

    def times(self, steps: range) -> NDArray[np.datetime64] | NDArray[np.int64]:
        """Ends of windows in local time, without a zone; without windows the steps."""
        cut = self.definition.cut
        if cut is None:
            return np.asarray(steps, np.int64)
        local = local_times(cut, cut.ends(steps)).dt.replace_time_zone(None)
        return np.asarray(local.to_numpy(), "datetime64[us]")

    def window_end(self, step: int) -> np.datetime64:
        """When the window of a step ended, in local time."""
        found: np.datetime64 = np.asarray(self.times(range(step, step + 1)), "datetime64[us]")[0]
        return found

    def figures(
        self,
        *,
        panels: bool = False,
        title: str | None = None,
        axis: str | None = None,
        source: str | None = None,
        width: float | None = None,
    ) -> dict[str, Figure]:
        """A chart of what `table` tells; arguments as of `Release.figures`.

        Raises:
            InvalidInput: panels, of a statistic that has no groups; or no such width.
            MissingExtra: matplotlib is not installed.
        """
        if panels:
            raise InvalidInput(
                f"{field('panels', True)} is for the groups of counts and sums: leave it out"
            )
        self.check_released()
        if self.definition.once:
            return {"table": self._chart_of_table(Look(title, axis, source, width))}
        steps, after = self._some(), self.steps.stop - 1
        drawn = self.table(steps)
        if "rank" in drawn.columns:  # the same groups all along: the largest of all that is shown
            over = None if self.first == 1 else self.steps.stop - self.first
            whole = replace(self, shown=replace(self.shown, over=over))
            last = whole._table(range(after, after + 1))["group"].to_list()
            drawn = replace(self, shown=replace(self.shown, ask=tuple(last))).table(steps)
        look = Look(title, axis, source, width)
        return {"statistic": chart_of(self.statistic, drawn, self, look, over=self.shown.over)}

    def _chart_of_table(self, look: Look) -> Figure:
        """Of a table that was released once.

        Raises:
            InvalidInput: rows were left out of the file that was read.
        """
        if self.there is not None:
            raise InvalidInput(
                f"rows of {self.terms.name!r} were left out of what was read, and a chart of a "
                f"table shows all: take the table, which has the rows that are there, or give the "
                f"file as it was written"
            )
        from counton.charts.style import check_width
        from counton.charts.table_charts import plot_table

        definition = self.definition
        promise = (
            f"{definition.guarantee} protects each single {definition.unit} "
            f"({definition.contribution.neighbours})"
        )
        return plot_table(
            self.reading,
            promise,
            what=plural(definition.unit),
            title=look.title,
            axis=look.axis,
            fit=self.shown.fit,
            level=self.level,
            foot="" if look.source is None else f"Source: {look.source}.",
            width=check_width(look.width),
        )

    @property
    def reading(self) -> Reading:
        """What the last step said, of all cells: sums of a set of them, covariances."""
        return self.readings[self.steps.stop - 2]

    def _some(self) -> range | None:
        """The steps that a chart shows, the last among them."""
        if self.statistic.on_demand and self.shown.ask is None:
            return None
        count = self.steps.stop - self.first
        stride = max(1, count // _DRAWN)
        return range(self.first + (count - 1) % stride, self.steps.stop, stride)


def _without_steps(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of a reading, without the steps that it is of."""
    return {name: values for name, values in columns.items() if name not in ("start", "step")}


def heading_of(released: Release, over: int | None, at_once: str = "") -> str:
    """What stands above the rows of the last step.

    Args:
        released: what is shown.
        over: how many steps are looked back over; None: all so far.
        at_once: for what intervals hold together.
    """
    after, cut = released.steps.stop - 1, released.definition.cut
    level = f"intervals of {100 * released.level:g}%{at_once}"
    if cut is None:
        which = "after" if over is None else "in"
        if over is not None and over > 1:
            which = f"in the {over:,} steps up to"
        return f"\n{which} step {after:,}, {level}"
    which = ""
    if over is not None:
        which = "in the window " if over == 1 else f"in the {over:,} windows "
    until = cut.until(int(cut.ends(range(after, after + 1))[0]))
    return f"\n{which}{until} (window {after:,}, {cut.timezone}), {level}"


def chart_of(
    statistic: Statistic,
    table: pl.DataFrame,
    released: TimedSteps,
    look: Look,
    *,
    over: int | None = None,
) -> Figure:
    """A chart of readings.

    Args:
        statistic: which.
        table: its rows.
        released: where they come from.
        look: words and width.
        over: how many steps are shown together; None: all so far.
    """
    from counton.charts.statistic_charts import plot_statistic
    from counton.charts.style import check_width
    from counton.released.stream_words import (
        counted_in_words,
        foot_of,
        groups_in_words,
        times_in_words,
    )

    definition = released.definition
    columns = {name: table[name].to_numpy() for name in table.columns}
    width = check_width(look.width)
    return plot_statistic(
        statistic,
        columns,
        released.times,
        level=released.level,
        title=look.title,
        axis=look.axis,
        when=times_in_words(definition, over),
        by=groups_in_words(definition),
        of=definition.value,
        counted=counted_in_words(definition, over),
        over=over,
        foot=foot_of(definition, look.source),
        width=width,
    )


def as_shown(definition: Description, shown: View) -> Description:
    """A definition whose statistic shows as many groups as are asked for.

    Raises:
        InvalidInput: what a statistic does not show.
    """
    check_shown(shown, definition.statistic)
    if shown.top is None:
        return definition
    return replace(definition, statistic=definition.statistic.showing(shown.top))


class ReleasedStream(Protocol):
    """A stream, or a reader of one."""

    @property
    def terms(self) -> Design:
        """Of the stream."""

    @property
    def step(self) -> int:
        """How many steps there are."""

    def readings(
        self, start: int = 1, stop: int | None = None, read_as: Statistic | None = None
    ) -> Readings:
        """What steps ``start..stop-1`` said of the statistic."""


class TimedSteps(Protocol):
    """Released steps with their times."""

    @property
    def definition(self) -> Description:
        """Of the stream."""

    @property
    def level(self) -> float:
        """Confidence of the intervals."""

    def times(self, steps: range) -> NDArray[np.datetime64] | NDArray[np.int64]:
        """Ends of windows in local time; of step 0 the beginning."""


def labels_of(table: pl.DataFrame) -> list[str]:
    """Columns that tell the rows of a table of readings apart: no numbers, unless they must.

    >>> labels_of(pl.DataFrame({"step": [1, 1], "share": [0.1, 0.5], "value": [3.0, 4.0]}))
    ['step', 'share']
    """
    names = [name for name in table.columns if name not in NUMBERS]
    exact = [name for name in names if not table.schema[name].is_float()]
    several = table.height and table.select(exact).is_duplicated().any()
    return names if several else exact


def rows_among(table: pl.DataFrame, there: pl.DataFrame) -> pl.DataFrame:
    """Rows of a table that are among those of another, by the columns that both have.

    >>> rows = pl.DataFrame({"step": [1, 2], "value": [3, 4]})
    >>> rows_among(rows, pl.DataFrame({"step": [2]}))["value"].to_list()
    [4]
    """
    on = [name for name in there.columns if name in table.columns]
    same = [
        pl.col(name).fill_null("") if kind == pl.String else pl.col(name)
        for name, kind in table.select(on).schema.items()
    ]
    kept = (
        table.select(same)
        .with_row_index("_row")
        .join(there.select(on).select(same), on=on, how="semi", nulls_equal=True)
    )
    return table[kept["_row"]]


def _frame(
    parts: Sequence[Mapping[str, Any]],
    steps: NDArray[np.int64],
    windows: Windows | None,
    over: int | None = None,
) -> pl.DataFrame:
    """Columns below each other, with the step of each row, and its window."""
    columns: dict[str, Any] = {"step": steps}
    if windows is not None:
        ends = windows.ends(range(int(steps.max(initial=0)) + 1))  # from the stream's beginning
        columns["window_start"] = local_times(windows, ends[steps - (over or 1)])
        columns["window_end"] = local_times(windows, ends[steps])
    if over is not None:
        columns["over"] = np.full(len(steps), over)
    return pl.concat([pl.DataFrame(columns), _rows_of(parts)], how="horizontal")


def _rows_of(parts: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Columns of readings below each other."""
    columns: dict[str, Any] = {}
    for name in parts[0] if parts else ():
        values = np.concatenate([part[name] for part in parts])
        texts = values.dtype == object
        columns[name] = pl.Series(values.tolist(), dtype=pl.String) if texts else values
    found = pl.DataFrame(columns)
    if "std" in found.columns:  # of what has none
        found = found.with_columns(pl.col("std").fill_nan(None))
    return found

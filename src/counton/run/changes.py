"""The changes of a run to a stream: new windows, and late rows of files of new rows.

Each input of a stream is of one kind, which its definition says.

**Whole windows.** An input holds all rows of the windows that it covers. What is covered hangs on
the job, the clock and the released step, never on the rows (`counton.run.clock.covered_windows`).
Rows outside are left out, each by itself. A window that was released is closed: later rows of it do
not count, and vanished rows change nothing. The operator is told how many there are. No decision
depends on that number. A run that releases no step keeps nothing of its input, and what an input
says of a window is kept only in the transaction that releases a step.

**New rows.** Each row of an input is new: its file says so, or its id or user, by which known rows
are told. For each window the state keeps how many rows (and, for sums, what total) it has *seen*
and how many of them it has *counted*, that is, released. A late row is seen in a window that was
released without it, and is counted once, at the next release. So one row changes one step by at
most its own contribution.

If windows are revised (`counton.frame.windows.RevisedWindows`), a late row is also counted at the
next release, but in a new version of its own window. The next release, and so the delay, is equal
for all rows of a run. Rows of final windows are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import extremes, narrowest
from counton.base.errors import InvalidInput, field
from counton.base.exact import name_alone, refuse_overflow
from counton.base.private import Private, open_private
from counton.frame.lazy_polars import polars as pl
from counton.frame.windows import NO_MOMENT, Windows, microseconds
from counton.job.job import Job
from counton.numbers.design import largest_sum
from counton.rows.sources import Source
from counton.run.clock import ClockFacts, repeats_all_rows, windows_covered_by, windows_ended
from counton.run.definition import Definition
from counton.run.missing_rows import refuse_empty_windows
from counton.statistics.by_group import inner_of
from counton.statistics.tally_statistic import most_readable, refuse_unreadable

if TYPE_CHECKING:
    from counton.base.distributions import NoiseDistribution
    from counton.state.addition import Addition

X = TypeVar("X")


@name_alone
@dataclass(frozen=True, repr=False)
class Counts:
    """Exact numbers of the rows that one run read: how many count, and how many were left out for
    each reason. Only the operator of the run may see them.

    Attributes:
        rows: number of all rows read.
        before, beyond: rows before the first window and after the last, counted nowhere.
        unknown: rows of undeclared groups, counted nowhere.
        skipped: rows left out because a value is missing.
        quarantined: unreadable rows, written to a file of their own and not counted.
        late: rows that arrived for windows released earlier.
        beyond_most: rows left out because their user has reached the bound on counted rows.
        known: rows of this run that an earlier run counted.
        closed: new rows that came after their window was final, counted nowhere.
        gone: rows counted earlier that have vanished from a file of all events (each such file
            repeats all events since the first window); they stay counted.
        taken_back: rows of people that were counted earlier, are gone, and count no more.
        shut: rows that a file of all events has added to windows released earlier; counted nowhere.
        outside: rows of windows that the input does not cover, counted nowhere.
        late_by: delay of late rows, in windows: 95% of the late rows came at most this many windows
            after the release of their own window.
        empty: number of released windows after the newest row.
        others: rows seen with names of undeclared groups, which belong to the group for all others;
            some may be outside the windows or beyond a user's bound. In a remote source, at most
            1,000 such rows are looked at.
        unlisted: the commonest names of undeclared groups, each with its number of rows.
        differing: released windows of which an input of all rows says something else than before.
    """

    rows: int
    before: int
    beyond: int
    unknown: int
    skipped: int
    quarantined: int
    late: int = 0
    beyond_most: int = 0
    known: int = 0
    closed: int = 0
    gone: int = 0
    taken_back: int = 0
    shut: int = 0
    outside: int = 0
    late_by: int = 0
    empty: int = 0
    others: int = 0
    unlisted: Sequence[tuple[str, int]] = ()
    differing: Sequence[WindowRows] = ()


class WindowRows(NamedTuple):
    """The rows of a released window in an input that holds all of them. Exact: for the operator.

    Attributes:
        step: number of the window.
        before, now: numbers of its rows by the last input that counted, and by this one.
        more, fewer: how many rows are new and gone, at least: in one group they cancel.
        counts: True if the window is open, so that the difference counts.
    """

    step: int
    before: int
    now: int
    more: int
    fewer: int
    counts: bool


class Changes(NamedTuple):
    """The changes that one run makes to its stream, computed before anything is written.

    Attributes:
        counts: exact numbers of the rows read, for the operator.
        additions: function that yields a pair for each transaction to write. The first item is the
            progress before this transaction: the fraction (0 to 1) of the new steps that are
            written by then. The second is the transaction's content (`Addition`). With the argument
            True the function yields a transaction even if nothing has changed.
        again: True if an earlier run has counted these rows already, so that they add nothing.
    """

    counts: Private[Counts]
    additions: Callable[[bool], Iterator[tuple[float, Private[Addition]]]]
    again: bool = False


def for_operator(private: Private[X]) -> X:
    """Return the exact numbers that a `Private` container hides. Only for people who may see the
    events: never publish the result.
    """
    return open_private(private)


def ended_steps(
    job: Job,
    definition: Definition,
    source: Source,
    found: Private[Any],
    released: int | None,
    now: datetime | None,
) -> tuple[int | None, int, int]:
    """Return the time up to which windows are released, in microseconds since 1970, how many steps
    have ended by then, and how many of them come after the newest row.

    See `windows_ended`. Without time windows the time is None: all rows are one step.
    """
    tally, cut = open_private(found), definition.cut
    if not cut.goes_on:
        return None, 1, 0
    begin, moments = microseconds(cut.start), np.asarray(tally.moments, np.int64)
    past = moments[moments <= microseconds(now or datetime.now(UTC))]
    facts = source.name, tally.newest, tally.beyond > 0, released
    latest = int(past.max(initial=NO_MOMENT))
    last = None if latest == NO_MOMENT else latest
    none = not (tally.rows or definition.new_rows)
    told = ClockFacts(*facts, all_of_them=repeats_all_rows(job), last=last, none=none)
    if source.live and (told.newest is None or told.newest < begin):
        return begin, 0, 0
    first = released is None and not source.live
    # With ``yes`` one row more or less must not decide whether there is a first release.
    if first and tally.rows and not tally.within and not job.times.yes:
        _, ended = windows_ended(job, definition, told, now, yes=True)
        if ended:
            raise _no_row_within(source, cut, tally.newest)
    until, ended = windows_ended(job, definition, told, now)
    if job.rows.covers is not None:
        before = released or 0
        due = range(before + 1, ended + 1)
        refuse_empty_windows(
            job,
            cut,
            source.name,
            tally.windows_with_rows,
            covered=windows_covered_by(job, definition, before, ended, until) or due,
            due=due,
        )
    newest = 0 if last is None else int(cut.step_of(np.array([last]))[0])
    return until, ended, max(ended - max(newest, released or 0), 0)


def _no_row_within(source: Source, windows: Windows, newest: int | None) -> InvalidInput:
    """Build the error for a first run none of whose rows lies in a window: its options are probably
    wrong.
    """
    last = "none can be counted"
    if newest is not None:
        last = f"the newest row that can be read is of {windows.to_the_minute(newest)}"
    return InvalidInput(
        f"no row of {source.name} lies in a window of the stream, from "
        f"{windows.at(windows.start)} to {windows.at(windows.end)}, so nothing was released; "
        f"{last}. Correct {field('start')}, {field('steps')} or the format of times "
        f"({field('time_format')}), or give the events of these windows. If nothing happened in "
        f"them, give {field('yes', True)}"
    )


def refuse_inexact_rows(
    definition: Definition,
    largest: int,
    sums: NDArray[np.float64],
    taken: int = 0,
    before: float = 0.0,
) -> None:
    """Refuse rows if a sum of their values, now or at a later step, could be too large to be exact.

    The check comes before rows are stored, because stored rows cannot be removed again.

    Args:
        definition: definition of the stream.
        largest: bound on what the rows add to any total, as an integer multiple of the statistic's
            resolution.
        sums: the statistic keeps one or more sums for each group, such as one for each interval of
            values. For each of these sums, a bound on what the rows of all groups together add to
            it.
        taken: largest total that any sum of any group has reached so far. Each total is multiplied
            by the weight of its group.
        before: sum of all totals so far.
    """
    bound, statistic = largest_sum(definition.strategy), definition.statistic
    inner = inner_of(statistic)
    whole = inner.total_of_sums(sums)
    if before + whole > statistic.most_counted(0.0, 0.0):
        refuse_unreadable(statistic, definition.strategy, _law_of(definition), before + whole)
    most = bound - taken
    also = ", together with the values counted before" if taken else ""
    if inner.largest_entry > 1:  # in measured units
        measured = inner.largest_measured(sums)
        refuse_overflow(
            measured,
            most,
            lambda: (
                f"the counts add up to {sums.sum():,.0f}{also}; at most "
                f"{int(bound * (float(sums.sum()) / measured)):,} is allowed for {statistic!r}: "
                "count in larger units, such as thousands"
            ),
        )
    elif inner.counts_units:  # numbers of events have no resolution
        refuse_overflow(
            largest,
            most,
            lambda: (
                f"the counts add up to {largest:,}{also}; at most {bound:,} is exact: correct rows "
                "with too large a count, or count in larger units, such as thousands"
            ),
        )
    else:
        refuse_overflow(
            largest,
            most,
            lambda: (
                f"the values add up to {largest:,} times the resolution{also}; at most {bound:,} "
                f"times is allowed: give a coarser {field('resolution')} or narrower bounds"
            ),
        )


class SumBounds(NamedTuple):
    """Largest sums that a stream can compute and release without rounding.

    Attributes:
        largest: bound on each total, as an integer multiple of the statistic's resolution.
        read: bound on the sum of all totals of a statistic; beyond it a release would not be exact
            in float64.
    """

    largest: int
    read: float

    @classmethod
    def of(cls, definition: Definition) -> SumBounds:
        """Compute the largest exact sums that a stream with this definition (columns, windows,
        groups and guarantee) can release.
        """
        largest, statistic = largest_sum(definition.strategy), definition.statistic
        return cls(largest, most_readable(statistic, definition.strategy, _law_of(definition)))


def _law_of(definition: Definition) -> NoiseDistribution:
    from counton.numbers.node_law import law_for

    terms = (definition.guarantee, definition.contribution, definition.shape)
    return law_for(definition.strategy, *terms).law


def parts_of_bounds(
    definition: Definition, bounds: SumBounds, cells: pl.DataFrame
) -> dict[int, float]:
    """Return how much some rows use up of the largest sums that the stream can release exactly.

    The result is a ratio: the rows' sum divided by the largest exact sum (see `SumBounds`), rounded
    up. Rows whose ratios add up to 1 or less can always be counted, in one run or in several.

    Args:
        cells: sums of rows by step and group: columns ``step``, ``group`` and ``total``.

    Returns:
        Ratios by window if each release counts one window alone; otherwise one ratio for the whole
        stream, under key 0.
    """
    if definition.strategy.facts.workload == "totals":
        return {0: _part_of(definition, bounds, cells)}
    size = pl.col("total").cast(pl.Float64).abs().sum()
    entry = inner_of(definition.statistic).largest_entry
    each = max(entry / bounds.largest, 1 / bounds.read if bounds.read > 0 else math.inf)
    # No window comes to more than this sum; for large sums the exact share is computed.
    most = cells.group_by("step").agg(size).select("step", part=pl.col("total") * each)
    return {
        step: part
        if part < _LITTLE
        else _part_of(definition, bounds, cells.filter(pl.col("step") == step))
        for step, part in most.rows()
    }


def _part_of(definition: Definition, bounds: SumBounds, cells: pl.DataFrame) -> float:
    sizes = pl.col("total").cast(pl.Float64).abs().sum()
    found: list[float] = cells.group_by("group").agg(sizes)["total"].to_list()
    part = max(found, default=0.0) / bounds.largest
    sums, inner = place_sums(cells, definition.sums.places), inner_of(definition.statistic)
    part = max(part, inner.largest_measured(sums) / bounds.largest)
    return max(part, inner.total_of_sums(sums) / bounds.read if bounds.read > 0 else math.inf)


#: Fraction of a window's largest sum below which rows are ignored.
_LITTLE = 2.0**-20


_KEY = ("step", "group")
_KEPT = ("seen_rows", "seen_total", "counted_rows", "counted_total")
_COLUMNS = (*_KEY, *_KEPT)
#: Totals that the state keeps: by window, or in blocks, each after the numbers of its windows.
Observed = Mapping[int, NDArray[np.int64]] | Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]]


@name_alone
@dataclass(frozen=True, repr=False)
class Intake:
    """Totals that a run releases, and totals that the state (database) keeps afterwards. Exact:
    secret.

    Attributes:
        cells: columns of a table with a row for each pair of window (``step``) and ``group``,
            sorted by both. Only pairs are listed that have uncounted rows, or whose window changes
            in this run. ``seen_rows`` and ``seen_total`` are the number and the total of the rows
            read so far. ``counted_rows`` and ``counted_total`` are the number and the total of the
            rows released so far. ``due`` is the total that is not counted yet, and ``at`` the step
            that will release it.
        released: steps released before this run.
        target: steps released after this run.
        groups: number of cells of one step; a cell is one of the sums that a statistic keeps for
            each group.
        measures: names of the numbers kept for each window and group: ``"rows"``, and for sums
            ``"total"``.
        changed: numbers of the windows whose kept numbers this run changes, in order.
        gone, shut: if each file has all events since the first window: numbers of rows of released
            windows that are missing from it, and that are new in it. A changed row counts in both.
        versions: number of times that each window is released: 1, or more if windows are released
            again when late rows come.
        closed: number of rows of windows that are final, counted nowhere.
        arrived, late: number of new rows, and how many of them are of released windows. If each
            file has all events: number of all rows, and of the new rows of released windows.
        late_by: delay of late rows, in windows: 95% of the late rows came at most this many windows
            after the release of their own window.
        newest: number of the newest window with a row, counted or not; 0 if there is none.
        waiting: number of rows of released windows that have not been counted yet.
        lacks_all: True if an input of all rows has none of the released windows, and an earlier one
            had some.
    """

    cells: Mapping[str, NDArray[np.int64]]
    released: int
    target: int
    groups: int
    measures: tuple[str, ...]
    changed: NDArray[np.int64]
    gone: int = 0
    shut: int = 0
    versions: int = 1
    closed: int = 0
    arrived: int = 0
    late: int = 0
    late_by: int = 0
    differing: tuple[WindowRows, ...] = ()
    newest: int = 0
    waiting: int = 0
    lacks_all: bool = False

    def largest_sums(self, places: int, *, alone: bool = False) -> tuple[int, NDArray[np.float64]]:
        """Return upper bounds on what this run and later runs can add: to any single total, and to
        each place.

        A place is the index of one of the sums that the statistic keeps for each group.

        Args:
            places: number of places.
            alone: True to bound only what the release of a single step adds.

        Returns:
            The bound for any single total, and an array of shape ``(places,)`` of bounds for all
            groups together.
        """
        step, group, due = (self.cells[name] for name in ("at", "group", "due"))
        windows = self.cells["step"]
        if self.versions > 1:  # each version is released with all its rows
            step, due = windows, self.cells["seen_total"]
        largest, sizes = np.abs(due).max(initial=0), np.abs(due.astype(np.float64))
        if self.versions == 1 and (windows[:1] != windows[-1:]).any():
            # Several windows of a group are released together only at the first new step.
            first = step == self.released + 1 if alone else slice(None)
            largest = max(np.bincount(group[first], sizes[first]).max(initial=0.0), largest)
        return int(largest), _sums_of_places(group, sizes, places, step if alone else None)

    def inputs(self, steps: range) -> NDArray[np.int64]:
        """Return what each new step adds to each cell, which is one of the sums kept for each
        group. The numbers are integer multiples of the statistic's resolution; shape ``(len(steps)
        * versions, groups)``.

        If windows are released in several versions, each step has one row in the array for each
        version: the first for its own window, the next for the window before, and so on. The last
        row is for the window that becomes final.
        """
        dense = np.zeros(len(steps) * self.versions * self.groups, dtype=np.int64)
        step, group, due = (self.cells[name] for name in ("at", "group", "due"))
        now = slice(*np.searchsorted(step, (steps.start, steps.stop)))
        row = (step[now] - steps.start) * self.versions
        if self.versions > 1:
            row += step[now] - self.cells["step"][now]
        np.add.at(dense, row * self.groups + group[now], due[now])
        return dense.reshape(-1, self.groups)

    def observations(
        self, steps: range, *, first: bool, last: bool
    ) -> dict[int, NDArray[np.int64]]:
        """Return, by window, the numbers of each changed window that the state (database) must keep
        once ``steps`` are released.

        Each array has shape ``(2, measures, groups)``: first the numbers read so far, then the
        released ones. Its integer type is the smallest that fits, to save memory.

        Args:
            first: True if ``steps`` begin with the first new step, which also counts late rows of
                released windows.
            last: True to include windows after the last released step, whose rows stay uncounted.
        """
        begin, end = 0 if first else steps.start, np.inf if last else steps.stop
        changed = self.changed[(begin <= self.changed) & (self.changed < end)]
        if not changed.size:
            return {}
        after, until = np.searchsorted(self.cells["step"], (changed[0], changed[-1] + 1))
        cells = {name: column[after:until] for name, column in self.cells.items()}
        those = np.isin(cells["step"], changed)
        if not those.all():
            cells = {name: column[those] for name, column in cells.items()}
        sizes = [cells[f"{of}_{name}"] for of in ("seen", "counted") for name in self.measures]
        ends = [0, *chain(*map(extremes, sizes))]
        kind = narrowest(min(ends), max(ends))
        packed = np.zeros((len(changed), 2, len(self.measures), self.groups), kind)
        rows, groups = np.searchsorted(changed, cells["step"]), cells["group"]
        counted_now = cells["step"] <= (steps.stop - 1 if steps else 0)
        for index, measure in enumerate(self.measures):
            seen, before = cells[f"seen_{measure}"], cells[f"counted_{measure}"]
            packed[:, 0, index][rows, groups] = seen
            packed[:, 1, index][rows, groups] = np.where(counted_now, seen, before)
        return dict(zip(changed.tolist(), packed, strict=True))


def compare(
    kept: Observed,
    found: pl.DataFrame,
    *,
    released: int,
    target: int,
    groups: int,
    measures: tuple[str, ...],
    covered: range | None,
    cut: Windows | None = None,
    told: str = "rows",
) -> Intake:
    """Compare the totals of a run's rows with the totals that the state (database) has kept.

    Args:
        kept: by window, the totals of rows read and of rows released that the state keeps.
        found: totals of the run's rows: columns ``step``, ``group``, ``rows``, ``total``.
        released: number of released steps.
        target: number of windows that have ended.
        groups: number of groups.
        measures: ``("rows",)`` for counts, ``("rows", "total")`` for sums.
        covered: numbers of the windows of which the rows are all; None if the rows are new.
        cut: rule that assigns each row to a step; None if each window is released only once.
        told: ``"total"`` if the operator is told differing totals, and not numbers of rows.
    """
    target, lags = max(target, released), 0 if cut is None else cut.lags
    gone, shut, late, late_by, too_late = 0, 0, 0, 0, 0
    differing = tuple[WindowRows, ...]()
    if lags and covered is None:
        final = pl.col("step") < released + 1 - lags
        too_late = int(found.filter(final)["rows"].sum())
        found = found.filter(~final)
    arrived = int(found["rows"].sum())
    if covered is not None:  # rows of windows that are not due change nothing
        found = found.filter(pl.col("step") < covered.stop)
    before = unpack_observed(kept, measures)
    known = not before.is_empty()
    if known:
        found = before.join(found, on=_KEY, how="full", coalesce=True).fill_null(0)
    if not (found["step"] * groups + found["group"]).is_sorted():
        found = found.sort(_KEY)
    nothing = np.zeros(found.height, np.int64)
    cells = {name: found[name].to_numpy() for name in (*_KEY, "rows", "total")}
    for name in _KEPT:
        cells[name] = found[name].to_numpy() if known else nothing
    step = cells["step"]
    lacks_all = False
    if covered is None:
        late, late_by = _late(step, cells["rows"], released)
        for name in measures:
            cells[name] = cells[name] + cells[f"seen_{name}"]
    else:  # all rows of the covered windows: they replace the content of those that are open
        inside = (step >= covered.start) & (step < covered.stop)
        closed = step <= (released - lags if target > released else target)
        known_here = inside & (step <= released)
        lacks_all = bool(cells["seen_rows"][known_here].any())
        lacks_all &= not cells["rows"][known_here].any()
        differing = _differing(cells, known_here, ~closed, "rows")
        for_good = [one for one in differing if one.step <= released - lags]
        gone, shut = (sum(one[at] for one in for_good) for at in (4, 3))
        if told != "rows":
            differing = _differing(cells, known_here, ~closed, told)
        late = shut
        for name in measures:
            cells[name] = np.where(inside & ~closed, cells[name], cells[f"seen_{name}"])
    rows, total = cells["rows"], cells[measures[-1]]  # one array for counts
    moved = (rows != cells["seen_rows"]) | (total != cells["seen_total"])
    # A file of all events may change values of rows, and not their number.
    waits = (rows != cells["counted_rows"]) | (total != cells["counted_total"])
    changed = step[moved | (waits & (step <= target))]
    # Cells are sorted by step, and windows have numbers above 0.
    changed = changed[np.concatenate([changed[:1] > 0, changed[1:] != changed[:-1]])]
    stays = np.isin(step, changed) | waits
    cells |= {"seen_rows": rows, "seen_total": total, "at": np.maximum(step, released + 1)}
    cells["due"] = total - cells["counted_total"] if known else total
    return Intake(
        cells={
            name: cells[name] if stays.all() else cells[name][stays]
            for name in (*_COLUMNS, "at", "due")
        },
        released=released,
        target=target,
        groups=groups,
        measures=measures,
        changed=changed,
        gone=gone,
        shut=shut,
        versions=lags + 1,
        closed=too_late,
        arrived=max(arrived, 0),
        late=late,
        late_by=late_by,
        differing=differing,
        newest=int(step[rows > 0].max(initial=0)),
        waiting=max(int((rows - cells["counted_rows"])[step <= released].sum()), 0),
        lacks_all=lacks_all,
    )


def _late(step: NDArray[np.int64], rows: NDArray[np.int64], released: int) -> tuple[int, int]:
    """Return the number of late rows (new rows whose windows are released already), and their
    delay.

    The delay is a number of windows: 95% of the late rows came at most this many windows after the
    release of their own window. Both numbers are 0 if there are no late rows.

    Args:
        step, rows: number of a window, and number of new rows in it, for each pair of window and
            group.
        released: number of released steps.
    """
    late = step <= released
    lags, order = released + 1 - step[late], np.argsort(released + 1 - step[late], kind="stable")
    came = np.cumsum(rows[late][order].clip(0))
    if not came.size or not came[-1]:
        return 0, 0
    return int(came[-1]), int(lags[order][np.searchsorted(came, _MOST_LATE * came[-1])])


def _differing(
    cells: Mapping[str, NDArray[np.int64]],
    known: NDArray[np.bool_],
    opened: NDArray[np.bool_],
    told: str,
) -> tuple[WindowRows, ...]:
    """Return the released windows of which an input of all rows says something else than before.

    Only totals by window and group are known, so a new row and a vanished one of the same window
    and group cancel, unless the sum of their values tells them apart.

    Args:
        cells: totals of this input (``rows``) and before (``seen_rows``), by window and group.
        known: mask of the entries of released, covered windows.
        opened: mask of the entries of windows in which the input counts.
        told: name of the numbers that are compared.
    """
    step, now, before = cells["step"][known], cells[told][known], cells[f"seen_{told}"][known]
    more = now - before
    other = (more == 0) & (cells["total"] != cells["seen_total"])[known]
    steps = np.unique(step[(more != 0) | other])
    those = np.isin(step, steps)  # cells are sorted by step
    first = np.flatnonzero(np.diff(step[those], prepend=0))
    numbers = (before, now, more.clip(0) + other, (-more).clip(0) + other)
    sums = (np.add.reduceat(one[those], first).tolist() for one in numbers)
    return tuple(map(WindowRows, steps.tolist(), *sums, opened[known][those][first].tolist()))


def place_sums(cells: pl.DataFrame, places: int) -> NDArray[np.float64]:
    """Return the absolute values of the column ``total``, added up over all windows and groups for
    each place.

    A statistic keeps several sums for each group; a place is the index of one of them. The result
    has shape ``(places,)``.

    Args:
        cells: table of sums; its column ``group`` holds the number of the group times ``places``,
            plus the number of the place.
        places: number of places of a group.

    >>> place_sums(pl.DataFrame({"group": [0, 3, 2], "total": [1, 5, -2]}), 2).tolist()
    [3.0, 5.0]
    """
    sizes = np.abs(cells["total"].to_numpy().astype(np.float64))
    return _sums_of_places(cells["group"].to_numpy(), sizes, places, None)


def _sums_of_places(
    group: NDArray[np.int64],
    sizes: NDArray[np.float64],
    places: int,
    step: NDArray[np.int64] | None,
) -> NDArray[np.float64]:
    """Return the sum of sizes for each place (one of the sums that a statistic keeps for
    each group); shape ``(places,)``.

    ``group`` and ``sizes`` have an entry for each window and group; the place of an entry is
    ``group % places``. If ``step`` is given, each step is summed by itself, and the largest of
    these sums is returned.
    """
    if places == 1 and step is None:
        return np.array([sizes.sum()])
    place = group % places
    if step is None:
        return np.asarray(np.bincount(place, sizes, places), np.float64)
    if places > 1:  # else the entries are in the order of their steps
        order = np.lexsort((place, step))
        step, place, sizes = step[order], place[order], sizes[order]
    first = np.flatnonzero(np.diff(step * places + place, prepend=-1))
    largest = np.zeros(places)
    np.maximum.at(largest, place[first], np.add.reduceat(sizes, first))
    return largest


#: Fraction of the late rows that came within `Counts.late_by` windows.
_MOST_LATE = 0.95


def unpack_observed(kept: Observed, measures: tuple[str, ...]) -> pl.DataFrame:
    """Return the totals that a state (database) keeps by window as one table, with the columns of
    `Intake.cells`.
    """
    if isinstance(kept, Mapping):
        kept = [(np.array([step], np.int64), totals[None]) for step, totals in kept.items()]
    last = len(measures) - 1  # for counts the total is the number of rows
    schema = dict.fromkeys(_COLUMNS, pl.Int64)
    found = [pl.DataFrame(schema=schema)]
    for steps, packed in kept:  # windows, seen or counted, measures, groups
        row, group = np.nonzero(packed.any(axis=(1, 2)))
        seen, counted = (packed[row, at, :, group].astype(np.int64) for at in (0, 1))
        ends = (seen[:, 0], seen[:, last], counted[:, 0], counted[:, last])
        columns = (steps[row], group, *ends)
        found.append(pl.DataFrame(dict(zip(schema, columns, strict=True)), schema=schema))
    return pl.concat(found)

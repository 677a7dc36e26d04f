"""How the rows of a run become the inputs of steps.

For each window and cell the state keeps how many rows (and what total) were *seen*, and how many of
them were *counted*, that is, released. A run has two parts:

- Its rows say what is seen. New rows are added to what was seen before (`NewRowsOfRun`). A snapshot
  replaces it in the windows that it covers and that are not final (`SnapshotOfRun`).
- What is seen and not counted is due at the next step, or at the step of its own window if that
  comes later (`PlannedSteps`). So one row changes one step by at most its own contribution. If
  windows are revised, it changes the version of its own window that the step releases.

What is seen is kept only in a transaction that also says what it counts.

A cell is one exact sum of one group: the place of the group times the number of sums of a group,
plus the place of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import narrowest
from counton.base.private import Private, reveal
from counton.run.contribution_choice import ChoiceCounts
from counton.run.discovered_groups import GroupNamesOfRun
from counton.run.exactness import AddedSums
from counton.run.missing_rows import KeptRows, MissingRows
from counton.state import Stream
from counton.state.commit_input import CommitInput, LateRowStats
from counton.state.dedup import DigestChange
from counton.statistics import AccumulatorStatistic
from counton.statistics.statistic import shape_of
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows

#: Largest number of values that one transaction releases, if the rows can be given again.
_VALUES_OF_TRANSACTION = 2**20
#: Fraction of the late rows that came within `OperatorCounts.late_by` windows.
_MOST_LATE = 0.95
_KEY = ["step", "cell"]
_KEPT = ["seen_rows", "seen_total", "counted_rows", "counted_total"]

_step = pl.col("step")
_has_cell = pl.col("cell") >= 0
_rows = pl.col("rows")
_total = pl.col("total")
_seen_rows = pl.col("seen_rows")
_seen_total = pl.col("seen_total")
_counted_rows = pl.col("counted_rows")
_counted_total = pl.col("counted_total")


class Measurement(NamedTuple):
    """How the exact sums of a statistic become the cells that a step releases.

    Attributes:
        sums_of_group: number of exact sums of each group.
        sums: number of exact sums of all groups.
        shape: shape of the cells of an additive statistic, whose sums they are.
        is_of_each_group: whether each group is measured alone, since groups are found in the rows.
        sums_of_row: number of sums that one row changes.
        kept: names of the numbers that the state keeps of each sum: ``rows``, and ``total`` if it
            is not the number of rows.
        told_number: which of them the operator is told of a window: of a table of counts, totals.
    """

    statistic: AccumulatorStatistic
    sums_of_group: int
    sums: int
    shape: tuple[int, ...]
    is_of_each_group: bool
    sums_of_row: int
    kept: tuple[str, ...]
    told_number: str

    @classmethod
    def for_statistic(
        cls,
        statistic: AccumulatorStatistic,
        of_group: AccumulatorStatistic,
        groups: int | None,
        *,
        is_of_each_group: bool,
    ) -> Measurement:
        """Return the measurement of a statistic.

        Args:
            statistic: the statistic of all groups.
            of_group: the statistic of one group.
            groups: number of groups; None: all rows are of one.
            is_of_each_group: whether groups are found in the rows, and measured one by one.
        """
        only_rows = of_group.counts_rows or (not of_group.parts and not of_group.rank_digits)
        return cls(
            statistic,
            sums_of_group=of_group.n_accumulators,
            sums=of_group.n_accumulators * (groups or 1),
            shape=(groups or 1,) if is_of_each_group else shape_of(statistic, groups),
            is_of_each_group=is_of_each_group,
            sums_of_row=len(of_group.entries(_total)),
            kept=("rows",) if only_rows else ("rows", "total"),
            told_number="total" if of_group.counts_units else "rows",
        )

    def cells(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the released cells, ``(n, *cells)``, given the exact sums, ``(n, sums)``."""
        if self.statistic.additive:
            return sums.reshape((len(sums), *self.shape))
        if not self.is_of_each_group:
            return self.statistic.measure(sums)
        of_groups = self.statistic.measure(sums.reshape(-1, self.sums_of_group))
        return of_groups.reshape((len(sums), -1))

    def number_of_rows(self, sums: pl.DataFrame) -> int:
        """Return the number of rows that were added up."""
        return int(sums["rows"].sum()) // self.sums_of_row


@dataclass(frozen=True)
class Span:
    """The steps that a run releases.

    Attributes:
        windows: all windows of the stream.
        released: number of steps released before the run.
        target: number of steps released after it.
    """

    windows: Windows
    released: int
    target: int

    @property
    def new_steps(self) -> range:
        """The steps that this run releases."""
        return range(self.released + 1, self.target + 1)

    @property
    def last_final(self) -> int:
        """The last window that can no longer change by a snapshot, nor, revised, by any row."""
        return self.released - self.windows.n_revisions

    @property
    def revises(self) -> bool:
        """Whether windows are released anew for late rows."""
        return self.windows.n_revisions > 0

    @property
    def is_recurring(self) -> bool:
        """Whether windows follow each other; else there is a single table."""
        return self.windows.is_recurring


class ChangedWindow(NamedTuple):
    """A released window of which a snapshot says something else than an earlier one. Exact.

    Attributes:
        before, now: numbers of rows in the earlier snapshot and in this one.
        added, missing: numbers of rows that one of them has and the other lacks.
        is_open: whether the snapshot counts.
    """

    step: int
    before: int
    now: int
    added: int
    missing: int
    is_open: bool


@dataclass(frozen=True, repr=False)
class OperatorCounts:
    """Exact numbers that the rows of a run tell its operator.

    Two of them decide something, too: `refuse_shrunk_windows` ends a run by `changed`, and the
    state adds up `late`. No released number depends on any of them.

    Attributes:
        late: new rows of windows released before, unless these windows are final.
        late_by: delay of late rows in windows: most of them came at most so many after the release
            of their own window.
        late_uncounted: rows of released windows that have not been counted yet.
        after_final: new rows of windows that were final, counted nowhere.
        outside_snapshot: rows of windows that a snapshot does not cover, counted nowhere.
        missing: counted rows of final windows that a snapshot lacks.
        changed: released windows of which a snapshot says something else than before.
        choice: which rows of users, or with ids, do not count.
    """

    late: int = 0
    late_by: int = 0
    late_uncounted: int = 0
    after_final: int = 0
    outside_snapshot: int = 0
    missing: int = 0
    changed: tuple[ChangedWindow, ...] = ()
    choice: ChoiceCounts = field(default_factory=ChoiceCounts)


class RowsOfRun(Protocol):
    """The rows of a run, beside what the state has kept of earlier ones."""

    @property
    def digests(self) -> Sequence[str]:
        """Digests of files, which the state keeps so that each file counts once."""

    @property
    def names(self) -> GroupNamesOfRun | None:
        """Names of groups that are found in the rows; None if groups are declared."""

    @property
    def remembered(self) -> DigestChange | None:
        """What the state remembers of the users and ids of counted rows, from this run on."""

    @property
    def can_be_given_again(self) -> bool:
        """Whether the next run finds these rows in its input, if this one is killed."""

    def touched(self) -> NDArray[np.int64]:
        """Return the windows whose kept totals are needed."""

    def seen(self, kept: pl.DataFrame, span: Span) -> pl.DataFrame:
        """Return ``kept`` with the totals that are seen after the run."""

    def counts(self, kept: pl.DataFrame, span: Span, measurement: Measurement) -> OperatorCounts:
        """Return what the operator is told."""

    def missing_rows(self, kept: pl.DataFrame, span: Span, counts: OperatorCounts) -> MissingRows:
        """Return what the input lacks of the rows that were counted before."""

    def late_row_stats(
        self, before: LateRowStats, counts: OperatorCounts, measurement: Measurement
    ) -> LateRowStats:
        """Return the numbers of rows that arrived, and that were late, up to this run."""


@dataclass(frozen=True, repr=False)
class NewRowsOfRun:
    """New rows: from files that the stream has not counted, or chosen one by one.

    Attributes:
        sums: sums of the rows: ``step``, ``cell``, ``rows``, ``total``. Retracted rows of users
            are subtracted. Rows of cell -1 count nowhere, since their group is not found yet.
        digests: digests of the files.
        names: names of groups that are found in the rows; None if groups are declared.
        remembered: what the state remembers of users and ids.
        choice: which rows of users, or with ids, do not count.
        outside_snapshot: number of rows of windows that a snapshot does not cover.
        missing: what the input lacks of the rows that were counted before.
    """

    sums: pl.DataFrame
    digests: Sequence[str]
    names: GroupNamesOfRun | None = None
    remembered: DigestChange | None = None
    choice: ChoiceCounts = field(default_factory=ChoiceCounts)
    outside_snapshot: int = 0
    missing: MissingRows = field(default_factory=MissingRows)
    can_be_given_again: ClassVar[bool] = False

    def touched(self) -> NDArray[np.int64]:
        """Return the windows of the rows."""
        return self.sums["step"].unique().sort().to_numpy()

    def seen(self, kept: pl.DataFrame, span: Span) -> pl.DataFrame:
        """Add the rows, but for those of final windows, to what was seen before."""
        return _join_totals(kept, self._open_rows(span).filter(_has_cell)).with_columns(
            seen_rows=_seen_rows + _rows, seen_total=_seen_total + _total
        )

    def counts(self, kept: pl.DataFrame, span: Span, measurement: Measurement) -> OperatorCounts:
        """Count late rows, and rows of final windows."""
        open_rows = self._open_rows(span)
        added = open_rows.with_columns(_rows.clip(0))
        late = added.filter(_step <= span.released)
        all_rows = measurement.number_of_rows(self.sums)
        return OperatorCounts(
            late=measurement.number_of_rows(late),
            late_by=_delay_of_most(late, span.released),
            late_uncounted=_number_uncounted(self.seen(kept, span), span, measurement),
            after_final=all_rows - measurement.number_of_rows(open_rows),
            outside_snapshot=self.outside_snapshot,
            choice=self.choice,
        )

    def missing_rows(
        self, _kept: pl.DataFrame, _span: Span, _counts: OperatorCounts
    ) -> MissingRows:
        """Return what was found when the rows were chosen: files of new rows lack nothing."""
        return self.missing

    def late_row_stats(
        self, before: LateRowStats, counts: OperatorCounts, measurement: Measurement
    ) -> LateRowStats:
        """Add the rows, but for those of final windows, to the earlier ones."""
        arrived = max(0, measurement.number_of_rows(self.sums) - counts.after_final)
        return LateRowStats(before.arrived + arrived, before.late + counts.late)

    def _open_rows(self, span: Span) -> pl.DataFrame:
        if not span.revises:
            return self.sums  # a late row counts at the next step
        return self.sums.filter(_step > span.last_final)


@dataclass(frozen=True, repr=False)
class SnapshotOfRun:
    """All rows of some windows.

    Attributes:
        sums: sums of the rows: ``step``, ``cell``, ``rows``, ``total``. Rows of cell -1 count
            nowhere, since their group is not found yet.
        covered: windows of which the rows are all.
        names: names of groups that are found in the rows; None if groups are declared.
        remembered: what the state remembers of users, of a single table.
        choice: which rows of users do not count.
    """

    sums: pl.DataFrame
    covered: range
    names: GroupNamesOfRun | None = None
    remembered: DigestChange | None = None
    choice: ChoiceCounts = field(default_factory=ChoiceCounts)
    can_be_given_again: ClassVar[bool] = True
    digests: ClassVar[Sequence[str]] = ()

    def touched(self) -> NDArray[np.int64]:
        """Return the windows that are covered."""
        return np.arange(self.covered.start, self.covered.stop)

    def seen(self, kept: pl.DataFrame, span: Span) -> pl.DataFrame:
        """Replace what was seen in the covered windows that are not final.

        A run that releases no step keeps nothing: a later snapshot has these rows again.
        """
        if not span.new_steps:
            return kept
        is_replaced = self._is_covered() & (_step > span.last_final)
        together = _join_totals(kept, self.sums.filter(self._is_covered() & _has_cell))
        return together.with_columns(
            seen_rows=pl.when(is_replaced).then(_rows).otherwise(_seen_rows),
            seen_total=pl.when(is_replaced).then(_total).otherwise(_seen_total),
        )

    def counts(self, kept: pl.DataFrame, span: Span, measurement: Measurement) -> OperatorCounts:
        """Compare released windows with what the state has kept of them."""
        # A first run has no released windows, but may have millions of sums.
        of_released = replace(self, sums=self.sums.filter(_step <= span.released))
        kept = kept.filter(_step <= span.released)
        changed = of_released._changed_windows(kept, span, measurement, "rows")
        told = changed
        if measurement.told_number != "rows":
            told = of_released._changed_windows(kept, span, measurement, measurement.told_number)
        for_good = [window for window in changed if window.step <= span.last_final]
        added = sum(window.added for window in for_good)
        return OperatorCounts(
            late=sum(window.added for window in changed if window.is_open),
            late_uncounted=_number_uncounted(of_released.seen(kept, span), span, measurement),
            after_final=added,
            outside_snapshot=measurement.number_of_rows(
                self.sums.filter(_step < self.covered.start)
            ),
            missing=sum(window.missing for window in for_good),
            changed=told,
            choice=self.choice,
        )

    def _changed_windows(
        self, kept: pl.DataFrame, span: Span, measurement: Measurement, number: str
    ) -> tuple[ChangedWindow, ...]:
        """Return the released windows of which this snapshot says something else than before.

        Args:
            number: what is compared: ``rows``, or ``total``.
        """
        together = _join_totals(kept, self.sums.filter(self._is_covered()))
        now = pl.col(number)
        before = pl.col(f"seen_{number}")
        is_replaced = (now == before) & (_total != _seen_total)  # by as many other rows
        compared = together.filter(self._is_covered() & (_step <= span.released)).with_columns(
            added=(now - before).clip(0) + is_replaced,
            missing=(before - now).clip(0) + is_replaced,
        )
        differs = (pl.col("added") + pl.col("missing") > 0).any().over("step")
        by_window = (
            compared.filter(differs)
            .group_by("step")
            .agg(before.sum(), now.sum(), pl.col("added").sum(), pl.col("missing").sum())
            .sort("step")
        )
        last_final = span.last_final if span.new_steps else span.target
        each = measurement.sums_of_row
        return tuple(
            ChangedWindow(
                step=step,
                before=before_rows // each,
                now=now_rows // each,
                added=added // each,
                missing=missing // each,
                is_open=step > last_final,
            )
            for step, before_rows, now_rows, added, missing in by_window.rows()
        )

    def missing_rows(self, kept: pl.DataFrame, span: Span, counts: OperatorCounts) -> MissingRows:
        """Compare released windows that are covered with what the state has kept of them.

        A run that releases no step keeps nothing of its snapshot.
        """
        if not span.new_steps:
            return MissingRows()
        is_compared = self._is_covered() & (_step <= span.released)
        counted = kept.filter(is_compared & (_seen_rows != 0))
        there = self.sums.filter(is_compared & (_rows != 0))
        return MissingRows(
            are_all=bool(counted.height) and not there.height,
            open_windows=[
                KeptRows(window.step, window.before, window.now)
                for window in counts.changed
                if window.is_open
            ],
        )

    def late_row_stats(
        self, before: LateRowStats, counts: OperatorCounts, measurement: Measurement
    ) -> LateRowStats:
        """Return the numbers of this snapshot's rows, and of those that came too late."""
        return LateRowStats(measurement.number_of_rows(self.sums), counts.after_final)

    def _is_covered(self) -> pl.Expr:
        return _step.is_between(self.covered.start, self.covered.stop, closed="left")


def _join_totals(kept: pl.DataFrame, sums: pl.DataFrame) -> pl.DataFrame:
    """Join kept totals and sums of rows; what one of them lacks is 0."""
    if not kept.height:  # a first run may have millions of sums
        return sums.with_columns(pl.lit(0, pl.Int64).alias(name) for name in _KEPT).sort(_KEY)
    joined = kept.join(sums, on=_KEY, how="full", coalesce=True)
    return joined.fill_null(0).sort(_KEY)


def _number_uncounted(totals: pl.DataFrame, span: Span, measurement: Measurement) -> int:
    """Return the number of rows of released windows that have not been counted."""
    waiting = totals.filter(_step <= span.released)
    rows = waiting.select("step", rows=_seen_rows - _counted_rows)
    return max(0, measurement.number_of_rows(rows))


def _delay_of_most(late: pl.DataFrame, released: int) -> int:
    """Return after how many windows most of the late rows had come; 0 without late rows."""
    by_delay = late.group_by(delay=released + 1 - _step).agg(_rows.sum()).sort("delay")
    rows = by_delay["rows"].cum_sum()
    if not by_delay.height or not rows[-1]:
        return 0
    return int(by_delay.filter(rows >= _MOST_LATE * rows[-1])["delay"][0])


@dataclass(frozen=True, repr=False)
class PlannedSteps:
    """What a run releases, and what the state keeps afterwards. Exact: secret.

    Attributes:
        rows: the rows of the run.
        measurement: how sums become the cells of a step.
        totals: totals by window and cell: ``step``, ``cell``, what is seen and what was counted.
        changed: windows of which the state keeps other totals afterwards.
        counts: what the operator is told.
        missing: what the input lacks of the rows that were counted before.
        arrivals_before: numbers of rows that arrived before, and that were late.
    """

    rows: RowsOfRun
    span: Span
    measurement: Measurement
    totals: pl.DataFrame
    changed: NDArray[np.int64]
    counts: OperatorCounts
    missing: MissingRows
    arrivals_before: LateRowStats

    @classmethod
    def compare(
        cls,
        rows: RowsOfRun,
        kept: pl.DataFrame,
        span: Span,
        measurement: Measurement,
        arrivals_before: LateRowStats,
    ) -> PlannedSteps:
        """Compare a run's rows with what the state has kept."""
        totals = rows.seen(kept, span).select(_KEY + _KEPT)
        compared = totals.with_columns(was_rows=pl.lit(0, pl.Int64), was_total=pl.lit(0, pl.Int64))
        if kept.height:
            before = kept.select("step", "cell", was_rows="seen_rows", was_total="seen_total")
            compared = totals.join(before, on=_KEY, how="left").fill_null(0)
        has_moved = (_seen_rows != pl.col("was_rows")) | (_seen_total != pl.col("was_total"))
        is_counted_now = _is_due() & (_step <= span.target) & bool(span.new_steps)
        changed = compared.filter(has_moved | is_counted_now)["step"].unique().sort()
        counts = rows.counts(kept, span, measurement)
        return cls(
            rows,
            span,
            measurement,
            totals,
            changed.to_numpy(),
            counts,
            rows.missing_rows(kept, span, counts),
            arrivals_before,
        )

    @property
    def last_window_with_rows(self) -> int:
        """The last of the windows in question with a row; 0 if there is none."""
        newest = self.totals.filter(_seen_rows > 0)["step"].max()
        return 0 if newest is None else int(newest)  # type: ignore[arg-type]

    @property
    def changes_anything(self) -> bool:
        """Whether the run releases or keeps anything."""
        return bool(self.span.new_steps or self.rows.digests or self.changed.size)

    def transactions(
        self, new_facts: Mapping[str, Any] | None = None, *, is_needed: bool = False
    ) -> Iterator[tuple[float, Private[CommitInput]]]:
        """Yield the content of each transaction, in the order of the steps.

        Rows that come only once are written in one transaction, with the digests of their files.

        Args:
            new_facts: what the stream keeps of its jobs from this run on, which belongs to the
                first transaction; None: as before.
            is_needed: whether there is a transaction even if nothing changes.

        Yields:
            The fraction of new steps that were written before it, and the content.
        """
        if not (self.changes_anything or is_needed):
            if new_facts is not None:
                yield 0.0, Private(CommitInput(details=new_facts))
            return
        parts = self._steps_of_transactions()
        for number, steps in enumerate(parts):
            is_first = number == 0
            content = self.commit_input(
                steps,
                is_first=is_first,
                is_last=number == len(parts) - 1,
                new_facts=new_facts if is_first else None,
            )
            yield number / len(parts), Private(content)

    def _steps_of_transactions(self) -> list[range]:
        """Return the new steps of each transaction; a run without new steps has one, of none."""
        new = self.span.new_steps
        size = max(1, len(new))
        if self.rows.can_be_given_again:
            size = max(1, _VALUES_OF_TRANSACTION // max(1, self.measurement.sums))
        return [new[begin : begin + size] for begin in range(0, len(new), size)] or [new]

    def commit_input(
        self,
        steps: range,
        *,
        is_first: bool,
        is_last: bool,
        new_facts: Mapping[str, Any] | None = None,
    ) -> CommitInput:
        """Return the content of the transaction that releases some steps.

        Args:
            is_first: whether the steps begin with the first new one, which also counts late rows.
            is_last: whether rows of later windows are kept, uncounted.
            new_facts: what the stream keeps of its jobs from then on; None: as before.
        """
        names = self.rows.names
        return CommitInput(
            inputs=self.values(steps) if self.span.new_steps else None,
            observed=self.observed(steps, is_first=is_first, is_last=is_last),
            sources=self.rows.digests if is_first else (),
            remembered=self.rows.remembered if is_first else None,
            labels=(len(names.kept), names.new) if names is not None and is_first else None,
            late_row_stats=self._late_row_stats(),
            details=new_facts,
        )

    def values(self, steps: range) -> NDArray[np.int64]:
        """Return what each step adds to each cell, in multiples of the resolution.

        The shape is ``(steps, *cells)``. If windows are revised, a last axis has an entry for each
        version: the first for the step's own window, the next for the window before it.
        """
        versions = self.span.windows.n_revisions + 1
        sums = self._sums_of_versions(steps, versions)
        cells = self.measurement.cells(sums.reshape(-1, self.measurement.sums))
        if not self.span.revises:
            return cells
        return np.moveaxis(cells.reshape((len(steps), versions, *cells.shape[1:])), 1, -1)

    def _sums_of_versions(self, steps: range, versions: int) -> NDArray[np.int64]:
        """Return what each step adds to each sum of each version: ``(steps, versions, sums)``."""
        due = self.totals.filter(_is_due()).with_columns(counting_step=self._counting_step())
        is_counted = pl.col("counting_step").is_between(steps.start, steps.stop, closed="left")
        due = due.filter(is_counted)
        counting_step = due["counting_step"].to_numpy()
        version = np.zeros_like(counting_step)
        if self.span.revises:
            version = counting_step - due["step"].to_numpy()
        amounts = (due["seen_total"] - due["counted_total"]).to_numpy()
        sums = np.zeros((len(steps), versions, self.measurement.sums), np.int64)
        np.add.at(sums, (counting_step - steps.start, version, due["cell"].to_numpy()), amounts)
        return sums

    def observed(
        self, steps: range, *, is_first: bool, is_last: bool
    ) -> dict[int, NDArray[np.int64]]:
        """Return the totals to keep, by window, once these steps are released.

        An array has the shape ``(2, measures, sums)``: what is seen, then what is counted; its type
        is the narrowest that holds them. The first steps also count late rows; after the last ones
        rows of later windows stay uncounted.
        """
        begin = 0 if is_first else steps.start
        end = np.inf if is_last else steps.stop
        windows = self.changed[(begin <= self.changed) & (self.changed < end)]
        if not windows.size:
            return {}
        totals = self.totals.filter(_step.is_between(int(windows[0]), int(windows[-1])))
        totals = totals.filter(_step.is_in(windows))
        window_index = np.searchsorted(windows, totals["step"].to_numpy())
        cell = totals["cell"].to_numpy()
        measures = self.measurement.kept
        arrays = np.zeros(
            (len(windows), 2, len(measures), self.measurement.sums), _narrowest(totals, measures)
        )
        is_counted = _step < steps.stop if steps else pl.lit(value=False)
        for number, measure in enumerate(measures):
            seen = pl.col(f"seen_{measure}")
            counted_before = pl.col(f"counted_{measure}")
            after = totals.select(
                seen=seen, counted=pl.when(is_counted).then(seen).otherwise(counted_before)
            )
            arrays[window_index, 0, number, cell] = after["seen"].to_numpy()
            arrays[window_index, 1, number, cell] = after["counted"].to_numpy()
        return dict(zip(windows.tolist(), arrays, strict=True))

    def added_sums(self, *, one_step_alone: bool) -> AddedSums:
        """Return bounds on what the rows add to exact sums.

        Args:
            one_step_alone: whether a release is of one step, not of all up to it.
        """
        if self.span.revises:  # each version is released with all its rows
            size = _seen_total.abs()
            released_together = [_step]
        else:
            size = (_seen_total - _counted_total).abs()
            released_together = [self._counting_step()] if one_step_alone else []
        n_accumulators = self.measurement.sums_of_group
        accumulator = pl.col("cell") % n_accumulators
        sizes = self.totals.with_columns(size=size, accumulator=accumulator)
        of_cells = sizes.group_by(["cell", *released_together]).agg(pl.col("size").sum())
        of_accumulators = sizes.group_by(["accumulator", *released_together]).agg(
            pl.col("size").cast(pl.Float64).sum()
        )
        largest_of_accumulators = np.zeros(n_accumulators)
        np.maximum.at(
            largest_of_accumulators,
            of_accumulators["accumulator"].to_numpy(),
            of_accumulators["size"].to_numpy(),
        )
        largest = int(of_cells["size"].max() or 0)  # type: ignore[arg-type]
        return AddedSums(largest, largest_of_accumulators)

    def _late_row_stats(self) -> LateRowStats | None:
        """Return the numbers of rows to keep; a single table has no late rows."""
        if not self.span.is_recurring:
            return None
        return self.rows.late_row_stats(self.arrivals_before, self.counts, self.measurement)

    def _counting_step(self) -> pl.Expr:
        """The step that counts what is due: the next one, or that of the rows' own window."""
        next_step = pl.lit(self.span.released + 1)
        return pl.max_horizontal(_step, next_step).alias("counting_step")


def _narrowest(totals: pl.DataFrame, measures: Sequence[str]) -> np.dtype[Any]:
    """Return the narrowest type of integers that holds all totals."""
    extremes = [0]
    for name in measures:
        for column in (totals[f"seen_{name}"], totals[f"counted_{name}"]):
            extremes += [int(column.min() or 0), int(column.max() or 0)]  # type: ignore[arg-type]
    return narrowest(min(extremes), max(extremes))


def _is_due() -> pl.Expr:
    return (_seen_rows != _counted_rows) | (_seen_total != _counted_total)


def kept_totals(
    stream: Stream | None, touched: NDArray[np.int64], measurement: Measurement
) -> pl.DataFrame:
    """Return the totals that a stream keeps of some windows, and of those with rows to count.

    Args:
        touched: numbers of the windows.
    """
    schema = dict.fromkeys([*_KEY, *_KEPT], pl.Int64)
    frames = [pl.DataFrame(schema=schema)]
    blocks = iter(()) if stream is None else reveal(stream.observed_blocks(Private(touched)))
    last = len(measurement.kept) - 1  # the total, or the number of rows if that is the total
    for windows, totals in blocks:  # totals: window, seen or counted, measure, cell
        row, cell = np.nonzero(totals.any(axis=(1, 2)))
        seen = totals[row, 0, :, cell].astype(np.int64)
        counted = totals[row, 1, :, cell].astype(np.int64)
        columns = {
            "step": windows[row],
            "cell": cell,
            "seen_rows": seen[:, 0],
            "seen_total": seen[:, last],
            "counted_rows": counted[:, 0],
            "counted_total": counted[:, last],
        }
        frames.append(pl.DataFrame(columns, schema=schema))
    return pl.concat(frames)

"""How the rows of a run become the inputs of steps.

For each window and cell the state keeps how many rows (and what total) were *seen*, and how many of
them were *counted*, that is, released. A run has two parts:

- Its rows say what is seen (`seen_rows`). New rows are added to what was seen before
  (`NewRowsOfRun`). A snapshot replaces it in the windows that it covers and that are not final
  (`SnapshotOfRun`).
- What is seen and not counted is due at the step of its own window. A late row, whose window is
  released already, is due at the next step (`late_rows.counting_step`). So one row changes one
  step by at most its own contribution. If windows are revised, it changes the version of its own
  window that the step releases.

What is seen is kept only in a transaction that also says what it counts.

A cell is one exact sum of one group: the index of the group times the number of its
accumulators, plus the index of the accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import narrowest
from counton.base.private import Private, reveal
from counton.run.counting.exactness import AddedSums
from counton.run.counting.kept_totals import KEPT_COLUMNS, KEY_COLUMNS, is_due
from counton.run.counting.late_rows import counting_step
from counton.run.counting.measurement import Measurement, Span
from counton.run.counting.missing_rows import MissingRows
from counton.run.counting.operator_counts import OperatorCounts
from counton.run.counting.seen_rows import RowsOfRun
from counton.run.rows.kept_sums import ReadSums
from counton.state.commit_input import CommitInput, LateRowStats
from counton.state.journal import WindowTotals
from counton.windowing.lazy_polars import polars as pl

#: Largest number of values that one transaction releases, if the rows can be given again.
_VALUES_OF_TRANSACTION = 2**20

_window = pl.col("window")
_seen_rows = pl.col("seen_rows")
_seen_total = pl.col("seen_total")
_counted_total = pl.col("counted_total")


@dataclass(frozen=True, repr=False)
class PlannedSteps:
    """What a run releases, and what the state keeps afterwards. Exact: secret.

    Attributes:
        rows: the rows of the run.
        span: which steps are released, and which windows they cover.
        measurement: how sums become the cells of a step.
        totals: totals by window and cell: ``window``, ``cell``, what is seen and what was counted.
        changed: windows of which the state keeps other totals afterwards.
        counts: what the operator is told.
        missing: what the input lacks of the rows that were counted before.
        late_rows_before: numbers of rows that earlier runs received, and of late ones.
    """

    rows: RowsOfRun
    span: Span
    measurement: Measurement
    totals: pl.DataFrame
    changed: NDArray[np.int64]
    counts: OperatorCounts
    missing: MissingRows
    late_rows_before: LateRowStats

    @classmethod
    def compare(
        cls,
        rows: RowsOfRun,
        totals_before: pl.DataFrame,
        span: Span,
        measurement: Measurement,
        late_rows_before: LateRowStats,
    ) -> PlannedSteps:
        """Compare a run's rows with what the state has kept."""
        totals = rows.seen(totals_before, span).select([*KEY_COLUMNS, *KEPT_COLUMNS])
        compared = totals.with_columns(was_rows=pl.lit(0, pl.Int64), was_total=pl.lit(0, pl.Int64))
        if totals_before.height:  # a first run has no totals, and a join of all sums takes memory
            before = totals_before.select(
                "window", "cell", was_rows="seen_rows", was_total="seen_total"
            )
            compared = totals.join(before, on=KEY_COLUMNS, how="left").fill_null(0)
        has_moved = (_seen_rows != pl.col("was_rows")) | (_seen_total != pl.col("was_total"))
        is_counted_now = is_due() & _is_counted_by(span.new_steps)
        changed = compared.filter(has_moved | is_counted_now)["window"].unique().sort()
        counts = rows.counts(totals_before, span, measurement)
        return cls(
            rows,
            span,
            measurement,
            totals,
            changed.to_numpy(),
            counts,
            rows.missing_rows(totals_before, span, counts),
            late_rows_before,
        )

    @property
    def cells_with_rows(self) -> pl.DataFrame:
        """Columns ``window`` and ``cell``: those in question that have a row."""
        return self.totals.filter(_seen_rows > 0).select("window", "cell")

    @property
    def windows_with_rows(self) -> NDArray[np.int64]:
        """Those of the windows in question that have a row, in order."""
        return self.cells_with_rows["window"].unique().sort().to_numpy()

    @property
    def last_window_with_rows(self) -> int:
        """The last of the windows in question with a row; 0 if there is none."""
        return int(self.windows_with_rows.max(initial=0))

    @property
    def changes_anything(self) -> bool:
        """Whether the run releases or keeps anything."""
        return bool(self.span.new_steps or self.rows.digests or self.changed.size)

    def transactions(
        self,
        new_public_facts: Mapping[str, object] | None = None,
        *,
        is_needed: bool = False,
        read_sums: ReadSums | None = None,
    ) -> Iterator[tuple[float, Private[CommitInput]]]:
        """Yield the content of each transaction, in the order of the steps.

        Rows that come only once are written in one transaction, with the digests of their files.

        Args:
            new_public_facts: what the stream keeps of its jobs from this run on, which belongs to
                the first transaction; None: as before.
            is_needed: whether there is a transaction even if nothing changes.
            read_sums: sums of files, which the first transaction keeps; None if they are not kept.

        Yields:
            The fraction of new steps that were written before it, and the content.
        """
        if not (self.changes_anything or is_needed):
            if new_public_facts is not None:
                yield 0.0, Private(CommitInput(public_facts=new_public_facts))
            return
        parts = self._steps_of_transactions()
        input_sums = None
        if read_sums is not None:
            input_sums = read_sums.to_keep(self.rows.if_repeated, self.span.target)
        for number, steps in enumerate(parts):
            is_first = number == 0
            content = self.commit_input(
                steps,
                is_first=is_first,
                is_last=number == len(parts) - 1,
                new_public_facts=new_public_facts if is_first else None,
            )
            if is_first and input_sums is not None:
                content = content._replace(input_sums=reveal(input_sums))
            yield number / len(parts), Private(content)

    def _steps_of_transactions(self) -> list[range]:
        """Return the new steps of each transaction; a run without new steps has one, of none."""
        new = self.span.new_steps
        size = max(1, len(new))
        if self.rows.can_be_given_again:
            size = max(1, _VALUES_OF_TRANSACTION // max(1, self.measurement.n_sums))
        return [new[begin : begin + size] for begin in range(0, len(new), size)] or [new]

    def commit_input(
        self,
        steps: range,
        *,
        is_first: bool,
        is_last: bool,
        new_public_facts: Mapping[str, object] | None = None,
    ) -> CommitInput:
        """Return the content of the transaction that releases some steps.

        Args:
            is_first: whether the steps begin with the first new one, which also counts late rows.
            is_last: whether rows of later windows are kept, uncounted.
            new_public_facts: what the stream keeps of its jobs from then on; None: as before.
        """
        commit_input = CommitInput(
            inputs=self.values(steps) if self.span.new_steps else None,
            totals_by_window=self.totals_by_window(steps, is_first=is_first, is_last=is_last),
            late_row_stats=self._late_row_stats(),
            public_facts=new_public_facts,
        )
        if not is_first:
            return commit_input
        names = self.rows.names
        return commit_input._replace(
            sources=self.rows.digests,
            remembered=self.rows.remembered,
            labels=None if names is None else (len(names.kept), names.new),
        )

    def values(self, steps: range) -> NDArray[np.int64]:
        """Return what each step adds to each cell, in multiples of the resolution.

        The shape is ``(steps, *cells)``. If windows are revised, a last axis has an entry for each
        version: the first for the step's own window, the next for the window before it.
        """
        versions = self.span.windows.n_revisions + 1
        sums = self._count_new_and_late_rows(steps, versions)
        cells = self.measurement.cells(sums.reshape(-1, self.measurement.n_sums))
        if not self.span.revises:
            return cells
        return np.moveaxis(cells.reshape((len(steps), versions, *cells.shape[1:])), 1, -1)

    def _count_new_and_late_rows(self, steps: range, versions: int) -> NDArray[np.int64]:
        """Return what each step adds to each sum of each version: ``(steps, versions, sums)``.

        A row that is not counted yet counts at the step of its window, a late row at the next one.
        """
        due = self.totals.filter(is_due()).with_columns(counting_step=self._counting_step_of_rows())
        is_counted = pl.col("counting_step").is_between(steps.start, steps.stop, closed="left")
        due = due.filter(is_counted)
        step_of_row = due["counting_step"].to_numpy()
        version = np.zeros_like(step_of_row)
        if self.span.revises:
            version = step_of_row - due["window"].to_numpy()
        amounts = (due["seen_total"] - due["counted_total"]).to_numpy()
        sums = np.zeros((len(steps), versions, self.measurement.n_sums), np.int64)
        np.add.at(sums, (step_of_row - steps.start, version, due["cell"].to_numpy()), amounts)
        return sums

    def totals_by_window(self, steps: range, *, is_first: bool, is_last: bool) -> WindowTotals:
        """Return the totals to keep, by window, once these steps are released.

        Those of a window have the shape ``(2, measures, sums)``: what is seen, then what is
        counted; their type is the narrowest that holds them. The first steps also count late rows;
        after the last ones rows of later windows stay uncounted.
        """
        begin = 0 if is_first else steps.start
        end = np.inf if is_last else steps.stop
        windows = self.changed[(begin <= self.changed) & (self.changed < end)]
        measures = self.measurement.kept
        if not windows.size:
            return WindowTotals(
                windows, np.zeros((0, 2, len(measures), self.measurement.n_sums), np.int64)
            )
        totals = self.totals.filter(_window.is_between(int(windows[0]), int(windows[-1])))
        windows_of_totals = totals["window"].to_numpy()
        window_index = np.searchsorted(windows, windows_of_totals)
        is_changed = windows[window_index] == windows_of_totals
        if not is_changed.all():
            totals = totals.filter(is_changed)
            window_index = window_index[is_changed]
        cell = totals["cell"].to_numpy()
        arrays = np.zeros(
            (len(windows), 2, len(measures), self.measurement.n_sums), _narrowest(totals, measures)
        )
        is_counted = _is_counted_by(steps)
        for number, measure in enumerate(measures):
            seen = pl.col(f"seen_{measure}")
            counted_before = pl.col(f"counted_{measure}")
            after = totals.select(
                seen=seen, counted=pl.when(is_counted).then(seen).otherwise(counted_before)
            )
            arrays[window_index, 0, number, cell] = after["seen"].to_numpy()
            arrays[window_index, 1, number, cell] = after["counted"].to_numpy()
        return WindowTotals(windows, arrays)

    def added_sums(self, *, one_step_alone: bool) -> AddedSums:
        """Return bounds on what the rows add to exact sums.

        Args:
            one_step_alone: whether a release is of one step, not of all up to it.
        """
        if self.span.revises:  # each version is released with all its rows
            size = _seen_total.abs()
            released_together = [_window]
        else:
            size = (_seen_total - _counted_total).abs()
            released_together = [self._counting_step_of_rows()] if one_step_alone else []
        n_accumulators = self.measurement.n_accumulators
        accumulator = pl.col("cell") % n_accumulators
        sizes = self.totals.with_columns(size=size, accumulator=accumulator)
        sizes_of_cells = sizes.group_by(["cell", *released_together]).agg(pl.col("size").sum())
        sizes_of_accumulators = sizes.group_by(["accumulator", *released_together]).agg(
            pl.col("size").cast(pl.Float64).sum()
        )
        largest_of_accumulators = np.zeros(n_accumulators)
        np.maximum.at(
            largest_of_accumulators,
            sizes_of_accumulators["accumulator"].to_numpy(),
            sizes_of_accumulators["size"].to_numpy(),
        )
        largest = int(sizes_of_cells["size"].max() or 0)  # type: ignore[arg-type]
        return AddedSums(largest, largest_of_accumulators)

    def _late_row_stats(self) -> LateRowStats | None:
        """Return the numbers of rows to keep; a single table has no late rows."""
        if not self.span.is_recurring:
            return None
        return self.rows.late_row_stats(self.late_rows_before, self.counts, self.measurement)

    def _counting_step_of_rows(self) -> pl.Expr:
        """Return the step that counts a row: that of its window, or the next one if it is late."""
        return counting_step(_window, self.span.released).alias("counting_step")


def _is_counted_by(steps: range) -> pl.Expr:
    """Return whether the rows of a window are counted once these steps are released.

    Late rows lie below the first step, so one comparison covers them.
    """
    return _window < steps.stop if steps else pl.lit(value=False)


def _narrowest(totals: pl.DataFrame, measures: Sequence[str]) -> np.dtype[np.integer]:
    """Return the narrowest type of integers that holds all totals."""
    extremes = [0]
    for name in measures:
        for column in (totals[f"seen_{name}"], totals[f"counted_{name}"]):
            extremes += [int(column.min() or 0), int(column.max() or 0)]  # type: ignore[arg-type]
    return narrowest(min(extremes), max(extremes))

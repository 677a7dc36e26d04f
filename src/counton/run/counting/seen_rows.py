"""What the rows of a run say is seen: new rows, or a snapshot of windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from counton.run.counting.contribution_choice import ChoiceCounts
from counton.run.counting.kept_totals import join_totals
from counton.run.counting.measurement import Measurement, Span
from counton.run.counting.missing_rows import KeptRows, MissingRows
from counton.run.counting.operator_counts import ChangedWindow, OperatorCounts, TimelinessCounts
from counton.run.rows.discovered_groups import GroupNamesOfRun
from counton.state.commit_input import LateRowStats
from counton.state.dedup import DigestChange
from counton.windowing.lazy_polars import polars as pl

#: Fractions of the late rows, and of all rows, for which `OperatorCounts.late_by` is enough.
_SHARE_OF_LATE_ROWS = 0.5
_SHARE_OF_ALL_ROWS = 0.99

_window = pl.col("window")
_has_cell = pl.col("cell") >= 0
_rows = pl.col("rows")
_total = pl.col("total")
_seen_rows = pl.col("seen_rows")
_seen_total = pl.col("seen_total")
_counted_rows = pl.col("counted_rows")


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

    @property
    def if_repeated(self) -> ChoiceCounts | None:
        """Which rows of users do not count in a run that finds the same rows again, and counts
        none; None: unknown, or nothing is chosen.
        """

    def touched(self) -> NDArray[np.int64]:
        """Return the windows whose kept totals are needed."""

    def seen(self, totals_before: pl.DataFrame, span: Span) -> pl.DataFrame:
        """Return ``totals_before`` with the totals that are seen after the run."""

    def counts(
        self, totals_before: pl.DataFrame, span: Span, measurement: Measurement
    ) -> OperatorCounts:
        """Return what the operator is told."""

    def missing_rows(
        self, totals_before: pl.DataFrame, span: Span, counts: OperatorCounts
    ) -> MissingRows:
        """Return what the input lacks of the rows that were counted before."""

    def late_row_stats(
        self, before: LateRowStats, counts: OperatorCounts, measurement: Measurement
    ) -> LateRowStats:
        """Return the numbers of rows that arrived, and that were late, up to this run."""


@dataclass(frozen=True, repr=False)
class NewRowsOfRun:
    """New rows: from files that the stream has not counted, or chosen one by one.

    Attributes:
        sums: sums of the rows: ``window``, ``cell``, ``rows``, ``total``. Retracted rows of users
            are subtracted. Rows of cell -1 count nowhere, since their group is not found yet.
        digests: digests of the files.
        names: names of groups that are found in the rows; None if groups are declared.
        remembered: what the state remembers of users and ids.
        choice: which rows of users, or with ids, do not count.
        outside_snapshot: number of rows of windows that a snapshot does not cover.
        missing: what the input lacks of the rows that were counted before.
        if_repeated: which rows do not count in a run that finds the same rows in the state that
            this one leaves, and so counts none; None: it might count some.
    """

    sums: pl.DataFrame
    digests: Sequence[str]
    names: GroupNamesOfRun | None = None
    remembered: DigestChange | None = None
    choice: ChoiceCounts = field(default_factory=ChoiceCounts)
    outside_snapshot: int = 0
    missing: MissingRows = field(default_factory=MissingRows)
    if_repeated: ChoiceCounts | None = None
    can_be_given_again: ClassVar[bool] = False

    def touched(self) -> NDArray[np.int64]:
        """Return the windows of the rows."""
        return self.sums["window"].unique().sort().to_numpy()

    def seen(self, totals_before: pl.DataFrame, span: Span) -> pl.DataFrame:
        """Add the rows, but for those of final windows, to what was seen before."""
        return join_totals(totals_before, self._open_rows(span).filter(_has_cell)).with_columns(
            seen_rows=_seen_rows + _rows, seen_total=_seen_total + _total
        )

    def counts(
        self, totals_before: pl.DataFrame, span: Span, measurement: Measurement
    ) -> OperatorCounts:
        """Count late rows, and rows of final windows."""
        open_rows = self._open_rows(span)
        added = open_rows.with_columns(_rows.clip(0))
        late = added.filter(_window <= span.released)
        late_by = _wait_for_most(added, span.released)
        late_after_wait = late.filter(_window + late_by <= span.released)
        rows = measurement.number_of_rows(added)
        all_rows = measurement.number_of_rows(self.sums)
        return OperatorCounts(
            late=measurement.number_of_rows(late),
            late_by=late_by,
            timeliness=TimelinessCounts(
                counted=rows,
                in_time=rows - measurement.number_of_rows(late),
                in_time_after_wait=rows - measurement.number_of_rows(late_after_wait),
            ),
            late_uncounted=_number_uncounted(self.seen(totals_before, span), span, measurement),
            after_final=all_rows - measurement.number_of_rows(open_rows),
            outside_snapshot=self.outside_snapshot,
            choice=self.choice,
        )

    def missing_rows(
        self, _totals_before: pl.DataFrame, _span: Span, _counts: OperatorCounts
    ) -> MissingRows:
        """Return what was found when the rows were chosen: files of new rows lack nothing."""
        return self.missing

    def late_row_stats(
        self, before: LateRowStats, counts: OperatorCounts, measurement: Measurement
    ) -> LateRowStats:
        """Add the rows, but for those of final windows, to the earlier ones."""
        arrived = max(0, measurement.number_of_rows(self.sums) - counts.after_final)
        return LateRowStats.of_new_rows(
            arrived=before.arrived + arrived, counted_late=before.late + counts.late
        )

    def _open_rows(self, span: Span) -> pl.DataFrame:
        if not span.revises:
            return self.sums  # a late row counts at the next step
        return self.sums.filter(_window > span.last_final)


@dataclass(frozen=True, repr=False)
class SnapshotOfRun:
    """All rows of some windows.

    Attributes:
        sums: sums of the rows: ``window``, ``cell``, ``rows``, ``total``. Rows of cell -1 count
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
    if_repeated: ClassVar[None] = None
    can_be_given_again: ClassVar[bool] = True
    digests: ClassVar[Sequence[str]] = ()

    def touched(self) -> NDArray[np.int64]:
        """Return the windows that are covered."""
        return np.arange(self.covered.start, self.covered.stop)

    def seen(self, totals_before: pl.DataFrame, span: Span) -> pl.DataFrame:
        """Replace what was seen in the covered windows that are not final.

        A run that releases no step keeps nothing: a later snapshot has these rows again.
        """
        if not span.new_steps:
            return totals_before
        is_replaced = self._is_covered() & (_window > span.last_final)
        together = join_totals(totals_before, self.sums.filter(self._is_covered() & _has_cell))
        return together.with_columns(
            seen_rows=pl.when(is_replaced).then(_rows).otherwise(_seen_rows),
            seen_total=pl.when(is_replaced).then(_total).otherwise(_seen_total),
        )

    def counts(
        self, totals_before: pl.DataFrame, span: Span, measurement: Measurement
    ) -> OperatorCounts:
        """Compare released windows with what the state has kept of them."""
        # A first run has no released windows, but may have millions of sums.
        released_rows = replace(self, sums=self.sums.filter(_window <= span.released))
        totals_before = totals_before.filter(_window <= span.released)
        changed = released_rows._changed_windows(totals_before, span, measurement, "rows")
        told_windows = changed
        if measurement.told_number != "rows":
            told_windows = released_rows._changed_windows(
                totals_before, span, measurement, measurement.told_number
            )
        final = [window for window in changed if window.number <= span.last_final]
        seen_of_released = released_rows.seen(totals_before, span)
        return OperatorCounts(
            late=sum(window.added for window in changed if window.is_open),
            late_uncounted=_number_uncounted(seen_of_released, span, measurement),
            after_final=sum(window.added for window in final),
            outside_snapshot=measurement.number_of_rows(
                self.sums.filter(_window < self.covered.start)
            ),
            missing=sum(window.missing for window in final),
            changed=told_windows,
            choice=self.choice,
        )

    def _changed_windows(
        self, totals_before: pl.DataFrame, span: Span, measurement: Measurement, number: str
    ) -> tuple[ChangedWindow, ...]:
        """Return the released windows of which this snapshot says something else than before.

        Args:
            number: what is compared: ``rows``, or ``total``.
        """
        together = join_totals(totals_before, self.sums.filter(self._is_covered()))
        now = pl.col(number)
        before = pl.col(f"seen_{number}")
        is_replaced = (now == before) & (_total != _seen_total)  # by as many other rows
        compared = together.filter(self._is_covered() & (_window <= span.released)).with_columns(
            added=(now - before).clip(0) + is_replaced,
            missing=(before - now).clip(0) + is_replaced,
        )
        differs = (pl.col("added") + pl.col("missing") > 0).any().over("window")
        rows_by_window = (
            compared.filter(differs)
            .group_by("window")
            .agg(before.sum(), now.sum(), pl.col("added").sum(), pl.col("missing").sum())
            .sort("window")
        )
        last_final = span.last_final if span.new_steps else span.target
        sums_of_row = measurement.sums_of_row
        return tuple(
            ChangedWindow(
                number=window,
                before=before_rows // sums_of_row,
                now=now_rows // sums_of_row,
                added=added // sums_of_row,
                missing=missing // sums_of_row,
                is_open=window > last_final,
            )
            for window, before_rows, now_rows, added, missing in rows_by_window.rows()
        )

    def missing_rows(
        self, totals_before: pl.DataFrame, span: Span, counts: OperatorCounts
    ) -> MissingRows:
        """Compare released windows that are covered with what the state has kept of them.

        A run that releases no step keeps nothing of its snapshot.
        """
        if not span.new_steps:
            return MissingRows()
        is_compared = self._is_covered() & (_window <= span.released)
        counted = totals_before.filter(is_compared & (_seen_rows != 0))
        there = self.sums.filter(is_compared & (_rows != 0))
        return MissingRows(
            are_all=bool(counted.height) and not there.height,
            open_windows=[
                KeptRows(window.number, window.before, window.now)
                for window in counts.changed
                if window.is_open
            ],
        )

    def late_row_stats(
        self, before: LateRowStats, counts: OperatorCounts, measurement: Measurement
    ) -> LateRowStats:
        """Return the numbers of this snapshot's rows, and of those that came too late."""
        return LateRowStats.of_snapshot(
            arrived=measurement.number_of_rows(self.sums), never_counted=counts.after_final
        )

    def _is_covered(self) -> pl.Expr:
        return _window.is_between(self.covered.start, self.covered.stop, closed="left")


def _number_uncounted(totals: pl.DataFrame, span: Span, measurement: Measurement) -> int:
    """Return the number of rows of released windows that have not been counted."""
    waiting = totals.filter(_window <= span.released)
    rows = waiting.select("window", rows=_seen_rows - _counted_rows)
    return max(0, measurement.number_of_rows(rows))


def _wait_for_most(added: pl.DataFrame, released: int) -> int:
    """Return how many windows to wait for most late rows, and nearly all rows of a run.

    Args:
        added: rows of the run by window.
        released: number of windows released before the run.

    Returns:
        The number of windows; 0 without late rows.
    """
    late = added.filter(_window <= released)
    rows_by_delay = late.group_by(delay=released + 1 - _window).agg(_rows.sum()).sort("delay")
    late_in_time = rows_by_delay["rows"].cum_sum()
    if not rows_by_delay.height or not late_in_time[-1]:
        return 0
    all_rows = int(added["rows"].sum())
    missed_at_most = min(
        (1 - _SHARE_OF_LATE_ROWS) * late_in_time[-1],
        (1 - _SHARE_OF_ALL_ROWS) * all_rows,
    )
    is_enough = late_in_time[-1] - late_in_time <= missed_at_most
    return int(rows_by_delay.filter(is_enough)["delay"][0])

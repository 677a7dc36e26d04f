"""Which rows of a run count: new ones, chosen ones, or those of a snapshot.

=========================  ============  =========================================================
input                      users or ids  rows that count
=========================  ============  =========================================================
`Snapshot`                 no            those of its windows: they replace the earlier ones
`Snapshot`                 yes           rows that were not counted, within the bound
`Snapshot`, single table   yes           rows within the bound: they replace the earlier ones
`NewRows`                  no            those of files that were not counted
`NewRows`                  yes           those of new files, within the bound
`RowsWithIds`              yes           those with ids that were not counted, within the bound
=========================  ============  =========================================================

The first and third are a `SnapshotOfRun`, the others are `NewRowsOfRun`.
"""

from __future__ import annotations

from dataclasses import replace

from counton.base.private import reveal
from counton.run.counting.chosen_rows import RowChoice, choose_rows, no_chosen_rows
from counton.run.counting.contribution_choice import ChoiceCounts
from counton.run.counting.remembered_rows import RememberedRows
from counton.run.counting.seen_rows import NewRowsOfRun, RowsOfRun, SnapshotOfRun
from counton.run.prepared_run import PreparedRun
from counton.run.rows.discovered_groups import GroupNamesOfRun
from counton.run.rows.read_rows import ReadRows
from counton.run.rows.row_buffer import RowBuffer
from counton.run.rows.window_sums import WindowSums
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import NewRows, SingleTable, Snapshot
from counton.run.windows.due_windows import EndedWindows
from counton.state.stream_reader import JournalReader
from counton.windowing.lazy_polars import polars as pl


def rows_of_run(
    prepared: PreparedRun, rows_read: ReadRows, ended: EndedWindows, stream: JournalReader | None
) -> RowsOfRun:
    """Return the rows of a run: new ones, chosen ones, or those of a snapshot."""
    sums = reveal(rows_read.sums)
    if sums.buffer is not None:
        return _chosen_rows(prepared, rows_read, sums.buffer, ended, stream)
    spec = prepared.spec
    assert not spec.terms.chooses_rows, "rows to choose from are read"
    released = prepared.state.released
    if isinstance(prepared.options.input, NewRows):
        has_nothing_new = rows_read.files.is_duplicate or not sums.numbers.read
        frame = sums.frame.clear() if has_nothing_new else sums.frame
        first_open = prepared.windows.first_open(released)
        frame, names = _with_counted_names(spec, frame, sums, pl.col("window") >= first_open)
        # A file without rows may come again, with rows.
        return NewRowsOfRun(frame, () if has_nothing_new else rows_read.files.digests, names)
    is_released = pl.col("window").is_between(released + 1, ended.last)
    frame, names = _with_counted_names(spec, sums.frame, sums, is_released)
    return SnapshotOfRun(frame, prepared.covered_windows(ended), names)


def _with_counted_names(
    spec: StreamSpec, frame: pl.DataFrame, sums: WindowSums, counts: pl.Expr
) -> tuple[pl.DataFrame, GroupNamesOfRun | None]:
    if sums.names is None:
        return frame, None
    n_accumulators = spec.terms.group_statistic.n_accumulators
    return sums.names.of_counted_rows(frame, counts, column="cell", n_accumulators=n_accumulators)


def _chosen_rows(
    prepared: PreparedRun,
    rows_read: ReadRows,
    buffer: RowBuffer,
    ended: EndedWindows,
    stream: JournalReader | None,
) -> RowsOfRun:
    """Choose the rows that count: they are new, whatever the input but a single table."""
    sums = reveal(rows_read.sums)
    spec = prepared.spec
    released = prepared.state.released
    outside = _number_outside_snapshot(prepared, sums, ended)
    keeps_nothing = spec.takes_whole_windows and ended.last <= released
    choosable = prepared.choosable_windows(ended)
    target = max(ended.last, released)
    closed = _closed_windows(prepared, ended)
    choice = RowChoice(spec.terms, buffer.groups, released, choosable, target, closed)
    if keeps_nothing or rows_read.files.is_duplicate:
        nothing = replace(no_chosen_rows(sums.names), outside_snapshot=outside)
        if not closed:
            return nothing
        remembered = RememberedRows.read(stream, spec.terms, released)
        n_late = choice.number_late(buffer, remembered)
        return replace(nothing, choice=ChoiceCounts(uncounted_late=n_late))
    if isinstance(spec.terms.windowing, SingleTable):
        return _chosen_rows_of_table(spec, buffer, sums.names, is_released=released > 0)
    digests = rows_read.files.digests if sums.numbers.read else ()
    remembered = RememberedRows.read(stream, spec.terms, released)
    run_input = prepared.options.input
    has_all_rows = (
        isinstance(run_input, Snapshot) and run_input.repeats_rows and run_input.lookback is None
    )
    rows = choose_rows(choice, buffer, remembered, sums.names, digests, has_all_rows=has_all_rows)
    return replace(rows, outside_snapshot=outside)


def _chosen_rows_of_table(
    spec: StreamSpec, buffer: RowBuffer, names: GroupNamesOfRun | None, *, is_released: bool
) -> SnapshotOfRun:
    """Choose the rows of a single table: as its first run did, since all rows are given again."""
    choice = RowChoice(spec.terms, buffer.groups, released=0, choosable=range(1, 2), target=1)
    nothing = RememberedRows.read(None, spec.terms, 0)
    rows = choose_rows(choice, buffer, nothing, names, ())
    return SnapshotOfRun(
        rows.sums,
        covered=range(1, 2),
        names=rows.names,
        remembered=None if is_released else rows.remembered,
        choice=rows.choice,
    )


def _closed_windows(prepared: PreparedRun, ended: EndedWindows) -> range:
    """Return the windows that a snapshot of the last days covers, and of which no row may count.

    Of an input with all rows, `ChoiceCounts.new_past` has the late rows.
    """
    if not prepared.spec.takes_whole_windows or prepared.options.input.lookback is None:
        return range(0)
    return range(prepared.covered_windows(ended).start, prepared.choosable_windows(ended).start)


def _number_outside_snapshot(prepared: PreparedRun, sums: WindowSums, ended: EndedWindows) -> int:
    """Return the number of rows of windows before those that a snapshot states to cover."""
    spec = prepared.spec
    if not spec.takes_whole_windows or prepared.options.input.lookback is None:
        return 0
    first_covered = prepared.covered_windows(ended).start
    outside = sums.frame.filter(pl.col("window") < first_covered)
    sums_of_row = len(spec.terms.group_statistic.entries(pl.col("total")))
    return int(outside["rows"].sum()) // sums_of_row

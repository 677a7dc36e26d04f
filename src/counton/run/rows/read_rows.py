"""The second step of a run: read the rows and add them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from counton.base.private import Private, reveal
from counton.io.row_assignment import RowMapping
from counton.io.sources import Source
from counton.run.prepared_run import PreparedRun, check_rows_of_stream
from counton.run.progress import Progress, no_progress, row_watcher
from counton.run.rows.kept_sums import ReadSums, find_sums, may_keep
from counton.run.rows.uncounted_files import (
    UncountedFiles,
    leave_out_counted_files,
    recognise_files,
)
from counton.run.rows.window_sums import WindowSums, columns_of
from counton.run.spec.terms import NewRows, SnapshotRecognition
from counton.windowing.groups import GroupNames

if TYPE_CHECKING:
    from counton.run.rows.row_buffer import RowBuffer


@dataclass(frozen=True, repr=False)
class ReadRows:
    """The rows of a run: where they came from, and their sums.

    Attributes:
        column_names: names of the columns of the rows of a new stream; else none.
        sums_to_keep: sums of files that were read, which the state may keep.
    """

    files: UncountedFiles
    sums: Private[WindowSums]
    column_names: tuple[str, ...] = ()
    sums_to_keep: ReadSums | None = None


def read_rows(prepared: PreparedRun, progress: Progress = no_progress) -> ReadRows:
    """Read the rows, and add them up: of all files of a snapshot, or of those that were not
    counted. Nothing is written but the file of bad rows.

    Raises:
        InvalidInputError: a column is missing, or a row is refused.
    """
    progress("reading rows", 0.25)
    state = prepared.state
    spec = prepared.spec
    columns = columns_of(spec).names
    source = prepared.source
    if isinstance(prepared.options.input, NewRows):
        source = leave_out_counted_files(
            source, columns, state.is_counted, are_several=prepared.are_several_files
        )

    keeps_sums = may_keep(prepared, reveal(source))
    sums_to_keep = None
    sums = find_sums(prepared, reveal(source)) if keeps_sums else None
    if sums is None:
        if prepared.has_unchecked_rows:
            check_rows_of_stream(prepared, reveal(source))
        sums = _read_sums(prepared, source, progress)
        sums_to_keep = ReadSums(prepared, source, sums) if keeps_sums else None
    has_rows = reveal(sums).numbers.read > 0
    files = recognise_files(
        source, columns, state.is_counted, prepared.options.input, has_rows=has_rows
    )
    names = () if state.saved is not None else tuple(reveal(source).columns())
    return ReadRows(files, sums, names, sums_to_keep)


def _read_sums(
    prepared: PreparedRun, source: Private[Source], progress: Progress
) -> Private[WindowSums]:
    """Read all rows, and add them up."""
    from counton.run.rows.row_reading import RowReading, aggregate_rows

    state = prepared.state
    spec = prepared.spec

    def make_buffer(mapping: RowMapping, groups: GroupNames | None) -> RowBuffer | None:
        return _make_buffer(prepared, mapping, groups)

    reading = RowReading(
        spec=spec,
        options=prepared.options,
        now=prepared.now,
        kept_names=state.names_of_groups if spec.discovers_groups else (),
        make_buffer=make_buffer,
        watch=None if progress is no_progress else row_watcher(progress),
    )
    return aggregate_rows(reading, source)


def _make_buffer(
    prepared: PreparedRun, mapping: RowMapping, groups: GroupNames | None
) -> RowBuffer | None:
    """Return the buffer of the rows, if those that count are chosen."""
    terms = prepared.spec.terms
    if not terms.chooses_rows:
        return None
    from counton.run.counting.chosen_rows import RowChoice
    from counton.run.rows.row_buffer import RowBuffer

    state = prepared.state
    buffer = RowBuffer(mapping, state.secret(), groups)
    if _can_drop_early(prepared):
        all_windows = range(1, terms.windowing.windows.steps + 1)
        choice = RowChoice(terms, buffer.groups, state.released, all_windows)
        buffer.drop_by(choice.that_may_count)
    return buffer


def _can_drop_early(prepared: PreparedRun) -> bool:
    """Return whether rows beyond their users' bounds can be dropped while others are read.

    Of a user's new rows the first ones count. Counted rows take up room, so that fewer of them
    count, but no others. There are five exceptions.
    """
    spec = prepared.spec
    has_counted_rows = prepared.state.saved is not None
    # A row that repeats an id is not new, and would take the room of a row that is.
    has_ids = spec.terms.recognition.id_column is not None
    # A snapshot repeats counted rows. Those that are dropped would seem to be missing from it.
    is_snapshot = isinstance(spec.terms.recognition, SnapshotRecognition)
    repeats_counted_rows = is_snapshot and has_counted_rows
    # Rows of windows that end later are chosen by a later run, so none is beyond a bound yet. Which
    # windows end now is known once all rows are read.
    leaves_later_windows = spec.takes_whole_windows
    # In a group in which a user was counted, more rows count, also if rows of other groups come
    # first.
    has_counted_groups = (
        has_counted_rows and spec.terms.privacy_unit.rule.max_contributions_per_group is not None
    )
    # A counted row may exclude a late row of its own window, and leave room in the step that counts
    # late rows to another one.
    has_counted_windows = (
        has_counted_rows and spec.terms.privacy_unit.rule.max_contributions_per_window is not None
    )
    return not (
        has_ids
        or repeats_counted_rows
        or leaves_later_windows
        or has_counted_groups
        or has_counted_windows
    )

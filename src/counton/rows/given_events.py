"""What a run is given as events: a path, several, a folder, a pattern, or a frame."""

from __future__ import annotations

import os

from counton.base.errors import InvalidInput, field
from counton.rows.files import CSV, EventFile
from counton.rows.formats import CsvForm, format_of
from counton.rows.frames import EventFrame
from counton.rows.paths import event_paths, is_database
from counton.rows.sources import Source


def open_source(events: object, stated: str | None = None, form: CsvForm = CSV) -> Source:
    """The rows of a path, of several, of a folder or pattern, or of a data frame.

    Args:
        events: path of a file, ``-`` for standard input, a folder (the event files in it), a
            pattern such as ``logs/2024-*.csv``, a sequence of these; whatever speaks Arrow:
            frames and lazy frames of polars, pandas, pyarrow, DuckDB; or a source, as it is.
        stated: format of the files; from their names if None.

    Raises:
        InvalidInput: nothing of this kind, no such file, the same file twice, an empty file or an
            unknown format.
    """
    if isinstance(events, Source):
        return events
    if not isinstance(events, str | os.PathLike | list | tuple):
        frame = EventFrame(events)
        return Source((frame,), frame.name)
    if is_database(events):
        raise InvalidInput(
            f"{field('events')} are the address of a database, which only jobs ask; write its rows "
            f"into a file, or give them as a frame"
        )
    if stated is not None:
        format_of("", stated)
    paths = event_paths(events, stated)
    parts = tuple(EventFile(path, stated, form=form, piped=True) for path in paths)
    name = parts[0].name if len(parts) == 1 else f"{len(parts):,} files from {parts[0].name}"
    return Source(parts, name)

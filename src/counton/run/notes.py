"""Public notes on the numbers of single windows, which their stream keeps."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime

import numpy as np

from counton.base.errors import InvalidInputError, param
from counton.base.exact import some_of, suggest, with_capital
from counton.results.window_notes import WindowNote
from counton.run.outputs.exports import only_name
from counton.run.spec.stream_spec import StreamSpec, amend_public_notes
from counton.run.spec.terms import SingleTable
from counton.state import Store
from counton.state.stream_reader import JournalReader
from counton.windowing.windows import microseconds, parse_time


def annotate(
    state: str | os.PathLike[str],
    window: str | datetime,
    note: str,
    *,
    stream: str | None = None,
    group: str | None = None,
    withdraw: bool = False,
) -> WindowNote:
    """Put a public note beside the numbers of one window, in all later tables and texts.

    Day and note are published as they are written, and nothing protects a choice that was made by
    exact numbers. The stream goes on.

    Args:
        state: path of a SQLite file, or a database URL.
        window: a moment in the window, such as "2019-01-20", in the stream's time zone.
        note: one line that says why the number is wrong.
        stream: name of the stream; needed if there are several.
        group: the group whose number is wrong; None: all groups.
        withdraw: take the number out of later tables. What was published stays published.

    Returns:
        The note, as the stream keeps it. A number that was withdrawn before stays so.

    Raises:
        InvalidInputError: the window is not released, the group is not declared, the note is empty,
            or the numbers are not those of single cells and ``withdraw`` is True.
        StateError: the state cannot be used, or is an old copy.

    >>> import polars as pl
    >>> from counton.job.statistics.count import CountJob
    >>> from counton.run.run_job import run
    >>> job = CountJob(
    ...     state="m.db", time="at", every="1d", epsilon=1, start="2024-03-01", windows=365,
    ...     until="2024-03-02",
    ... )
    >>> result = run(job, rows=pl.DataFrame({"at": ["2024-03-01T09:00"]}))
    >>> annotate("m.db", "2024-03-01", "the counter was broken").step
    1
    """
    if not note.strip() or not note.isprintable():
        raise InvalidInputError(
            f"{param('note')} is {note!r}; give one line that says why the number is wrong"
        )
    with Store(state) as store:
        stream = only_name(store.streams) if stream is None else stream
        reader = store.reader(stream)  # raises if there is no such stream
        store.position(stream)  # raises if the state is an old copy
        spec = StreamSpec.of_stream(reader)
        step = _released_step(reader, spec, window)
        _refuse_unknown_group(spec, stream, group)
        if withdraw and (not spec.metadata().shows_cells or spec.discovers_groups):
            raise InvalidInputError(
                f"{param('withdraw', True)} is for counts and sums of declared groups: leave "
                "it out, and the note stands beside the numbers"
            )
        new_note = WindowNote(step, group, note.strip(), withdraw)

        def add_note(current: StreamSpec, _: int) -> StreamSpec:
            return _with_note(current, new_note)

        amend_public_notes(store, stream, add_note)
        notes = StreamSpec.of_stream(store.reader(stream)).notes
    return next(note for note in notes if (note.step, note.group) == (step, group))


def _released_step(reader: JournalReader, spec: StreamSpec, window: str | datetime) -> int:
    """Return the number of the released window at a moment.

    Raises:
        InvalidInputError: no window there is released.
    """
    windows = spec.terms.windowing.windows
    time = microseconds(parse_time(window, windows.timezone))
    step = int(windows.step_of(np.array([time], np.int64))[0])
    if not isinstance(spec.terms.windowing, SingleTable) and 1 <= step <= reader.step:
        return step
    last = windows.format_moment(int(windows.ends(range(reader.step, reader.step + 1))[0]))
    raise InvalidInputError(
        f"{param('window', window)} is in no window that stream {reader.name!r} has "
        f"released, from {windows.format_moment(windows.start)} to {last}: give a moment in one "
        "of them"
    )


def _refuse_unknown_group(spec: StreamSpec, name: str, group: str | None) -> None:
    groups = spec.metadata().groups
    if group is None or group in groups:
        return
    near = with_capital(suggest(group, groups))
    raise InvalidInputError(
        f"{param('group', group)} is no declared group of stream {name!r}. {near}Give one of "
        f"{some_of(groups)}, or leave {param('group')} out"
    )


def _with_note(spec: StreamSpec, note: WindowNote) -> StreamSpec:
    """Return a spec with a note in place of an earlier one on the same numbers.

    A number that is withdrawn stays so for ever.
    """
    others: list[WindowNote] = []
    is_withdrawn = note.withdrawn
    for earlier in spec.notes:
        if (earlier.step, earlier.group) == (note.step, note.group):
            is_withdrawn |= earlier.withdrawn
        else:
            others.append(earlier)
    notes = [*others, note._replace(withdrawn=is_withdrawn)]
    return replace(spec, notes=tuple(sorted(notes, key=lambda note: (note.step, note.group or ""))))

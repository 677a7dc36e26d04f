"""The files that a run writes: refused before rows are read, and written from the journal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from counton.base.arguments import check_text
from counton.base.errors import CountonError
from counton.continual.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level
from counton.io.input_paths import event_paths, is_file, refuse_among_events
from counton.io.sources import Source
from counton.job.common_options import Job
from counton.results.display import check_shown
from counton.results.release import Release
from counton.run.outputs.output_files import (
    PICTURES,
    check_output,
    draw_release,
    refuse_another_streams,
    write_release,
)
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import OutputFiles, RunOptions
from counton.state.keys import state_files


def check_outputs(
    outputs: OutputFiles, options: RunOptions, spec: StreamSpec, level: float | None
) -> None:
    """Refuse a width, a confidence level or a selection of numbers that a stream cannot have.

    A selection names groups and cells, which only the plan of a stream has.

    Args:
        level: confidence level of the intervals; None: the usual one.

    Raises:
        InvalidInputError: the stream cannot have it.
    """
    metadata = spec.metadata()
    check_shown(
        options.display, metadata, check_confidence_level(level, usual=DEFAULT_CONFIDENCE_LEVEL)
    )
    width = outputs.chart_form.get("width")
    if width is not None:
        from counton.charts.style import check_width

        check_width(width)


def refuse_shared_files(
    job: Job, rows: object, options: RunOptions, outputs: OutputFiles, noise_id: str | None
) -> None:
    """Refuse files that a run would write and that it, or another stream, reads, keeps or writes.

    Args:
        rows: a source of rows that a program passes; None: what the job names.
        noise_id: identity of the stream's noise; None: the stream is new.

    Raises:
        InvalidInputError: a file cannot be written, or would be replaced.
    """
    quarantine = options.policies.quarantine
    if isinstance(rows, Source) and rows.comes_from_inbox:
        quarantine = None
    written = [
        ("bad_rows", quarantine, (".csv",)),
        ("output", outputs.table, None),
        ("chart", outputs.chart, PICTURES),
    ]
    if all(path is None for _, path, _ in written):
        return
    events = job.events if rows is None else rows
    named = [*event_paths(events, job.file_format), job.value_of("groups"), job.strategy]
    texts = [os.fspath(path) for path in named if isinstance(path, str | os.PathLike)]
    used = [Path(text) for text in texts if is_file(text)]
    assert job.state is not None
    used += state_files(job.state, job.key)
    for option, path, endings in written:
        if path is None:
            continue
        check_text(option, str(path))
        check_output(path, endings, inputs=used)
        refuse_among_events(events, path)
        used.append(path)
    if outputs.table is not None:
        refuse_another_streams(outputs.table, noise_id)


def write_outputs(
    release: Release, outputs: OutputFiles, progress: Callable[[str, float], None]
) -> str | None:
    """Write the table and the chart of a release.

    Returns:
        Why the chart could not be drawn; None if it was, or if there is none. The numbers are
        released by then, so this ends no run.
    """
    if not release.numbers.steps:
        return None
    if outputs.table is not None:
        progress("writing the table", 0.75)
        write_release(release.numbers, outputs.table)
    if outputs.chart is None or not release.numbers.is_drawable:
        return None
    progress("drawing", 0.85)
    try:
        draw_release(release.numbers, outputs.chart, **outputs.chart_form)
    except (CountonError, OSError) as error:
        return str(error)
    return None

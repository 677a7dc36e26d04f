"""Sentences on what may be wrong with the job of a new stream, for commands and for Python.

No row decides them, so they may be published. Options appear as in a job file, because some of them
are only there. `in_python` writes them as arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from counton.base.columns import list_in_words
from counton.base.errors import JobWarning
from counton.job.common_options import Job
from counton.results.systematic_errors import left_out_groups_note, uneven_windows_note
from counton.run.new_job.count_columns import columns_named_as_counts
from counton.run.spec.stream_spec import StreamSpec

if TYPE_CHECKING:
    from counton.run.run_job import RunResult


_OPTIONS_ARE_FIXED = (
    "the stream has begun, so its options are fixed. To change them, begin a new stream, which "
    "spends the privacy loss again"
)


def job_warnings(result: RunResult) -> list[JobWarning]:
    """Return warnings about the job of a new stream, for Python; none if the stream is older.

    Args:
        result: the first run of the stream, or a later one.
    """
    notes = first_run_notes(result, count_column_argument)
    return [JobWarning(in_python(note, result.job)) for note in notes]


def first_run_notes(result: RunResult, count_column: Callable[[str], str]) -> list[str]:
    """Return sentences on what may be wrong with the job of a new stream; none if it is older.

    Args:
        result: the first run of the stream, or a later one.
        count_column: writes the option that names a column of counts.
    """
    if result.before:
        return []
    notes = new_stream_notes(
        result.spec,
        result.job,
        column_names=result.column_names,
        other_units=result.other_units,
        count_column=count_column,
    )
    return [*notes, _OPTIONS_ARE_FIXED] if notes else []


def new_stream_notes(
    spec: StreamSpec,
    job: Job,
    *,
    column_names: Collection[str],
    other_units: Collection[str],
    count_column: Callable[[str], str],
) -> list[str]:
    """Return sentences on what may be wrong with the job of a new stream. No row decides them.

    Args:
        spec: the specification of the stream.
        job: the job.
        column_names: names of the columns of its rows.
        other_units: units of the ledger whose losses are not added to that of the stream.
        count_column: writes the option that names a column of counts.
    """
    metadata = spec.metadata()
    notes = (
        uneven_windows_note(metadata),
        left_out_groups_note(metadata),
        count_column_note(column_names, job, count_column),
        other_units_note(spec.unit_in_ledger, other_units),
    )
    return [note for note in notes if note is not None]


def count_column_note(
    column_names: Collection[str], job: Job, setting: Callable[[str], str]
) -> str | None:
    """Return a sentence on a column that seems to say how many things a row stands for, while a job
    counts each row as one; None if there is none.

    Args:
        column_names: names of the columns of the rows.
        job: the job.
        setting: writes the option that names such a column.

    >>> from counton.job.statistics.count import CountJob
    >>> job = CountJob(events="rides.csv", time="at", group_by="site", privacy_unit="car")
    >>> print(count_column_note(["at", "site", "count"], job, count_column_argument))
    each counted row is one event. If column 'count' has the number of events of a row, set
    count_column='count'
    >>> for name in ("rides", "bus_count", "who"):
    ...     print(count_column_note(["at", name], job, count_column_argument) is None)
    False
    False
    True
    """
    if job.statistic != "count" or job.has_stated("count_column"):
        return None
    candidates = columns_named_as_counts(column_names, job)
    if not candidates:
        return None
    column = candidates[0]
    return (
        f"each counted row is one event. If column {column!r} has the number of events of a row, "
        f"set {setting(column)}"
    )


def count_column_argument(column: str) -> str:
    """Return the argument of Python that names a column of counts.

    >>> count_column_argument("visits")
    "count_column='visits'"
    """
    return f"count_column={column!r}"


def other_units_note(unit: str, other_units: Collection[str]) -> str | None:
    """Return a sentence if the ledger keeps apart the losses of streams that may be about the same
    users; None if it adds all of them to that of the stream.

    Args:
        unit: protected unit of the stream.
        other_units: units of the ledger whose losses are not added to that of the stream.

    >>> print(other_units_note("visitor's week", ["visitor's day"]))
    the ledger does not add this loss per visitor's week to the losses per visitor's day in this
    state. The same users may lose both. For one sum, protect the same unit in all streams
    """
    if not other_units:
        return None
    others = list_in_words([*other_units])
    return (
        f"the ledger does not add this loss per {unit} to the losses per {others} in this state. "
        "The same users may lose both. For one sum, protect the same unit in all streams"
    )


def in_python(note: str, job: Job) -> str:
    """Return a note with options as Python writes them.

    Args:
        note: a note with options as in a job file.
        job: the job, whose options it may name.

    >>> from counton.job.statistics.count import CountJob
    >>> note = "set once-per-window = true and max-contributions = 2 in the job file; ..."
    >>> in_python(note, CountJob(events="visits.csv"))
    'set once_per_window=True and max_contributions=2; ...'
    """
    names = {str(field.alias): name for name, field in type(job).model_fields.items()}

    def argument(match: re.Match[str]) -> str:
        if match[1] not in names:
            return match[0]
        name = names[match[1]]
        if match[2] is None:
            return name
        value = match[2].capitalize() if match[2] in ("true", "false") else match[2]
        return f"{name}={value}"

    note = re.sub(r"\b([a-z]+(?:-[a-z]+)+)\b(?: = (\w+))?", argument, note)
    return note.replace(" in the job file", "")

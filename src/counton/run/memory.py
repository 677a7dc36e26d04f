"""What a stream remembers of its jobs: policies, outputs, and what is shown of its readings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from counton.base.errors import InvalidInput, field
from counton.base.options import split_names
from counton.rows.files import EventFile
from counton.rows.formats import is_file
from counton.rows.paths import names_tell_format
from counton.run.journal_values import known_totals
from counton.spec.job import Job
from counton.spec.stated_options import kept_as, options_of_job
from counton.state import Store
from counton.state.sqlite_file import NoState
from counton.state.store import StoredStream


def find_stream(request: Job) -> StoredStream | None:
    """What a job's state says of its stream; None where there is none.

    Raises:
        StateError: the state cannot be read.
    """
    store, saved = look(request)
    if store is not None:
        store.close()
    return saved


def look(request: Job) -> tuple[Store | None, StoredStream | None]:
    """A job's state, if there is one yet, and what it says of the stream; not yet as its writer.

    Raises:
        StateError: the state cannot be read.
    """
    try:
        store = Store(request.state)
    except NoState:
        return None, None
    try:
        return store, store.find(request.name)
    except BaseException:
        store.close()
        raise


def recall(job: Job) -> Job:
    """A job with what the stream remembers of earlier ones, where it says nothing else.

    Raises:
        StateError: the state cannot be read.

    >>> recall(Job("count", "visits.csv", "a-state-that-is-new.db")).watermark is None
    True
    """
    job = with_totals(job)
    store, saved = look(job)
    if store is None:
        return job
    store.close()
    return job if saved is None else as_before(job, saved)


def with_totals(job: Job) -> Job:
    """A job with its known totals themselves, where it names a file of them: that file may change.

    Raises:
        InvalidInput: a file that is no such table, or that of the rows.
    """
    if not isinstance(job.known, str | os.PathLike):
        return job
    files = job.events if isinstance(job.events, list | tuple) else [job.events]
    private = [one for one in files if isinstance(one, str | os.PathLike) and is_file(str(one))]
    there = is_file(os.fspath(job.known))
    if there and any(EventFile(one).has_bytes_of(job.known) for one in private):
        raise InvalidInput(
            f"{field('known', os.fspath(job.known))} is the file of the private rows; known totals "
            f"are kept as they are, so they must be public"
        )
    levels = job.option("levels")
    named = None if levels is None else split_names(levels)
    from counton.spec.public_tables import totals_of

    totals = totals_of(job.known, named)
    return replace(job, known=[[list(path), total] for path, total in totals.items()])


def as_before(job: Job, saved: StoredStream) -> Job:
    """See `recall`."""
    kept, known = saved.details.get("remembered", {}), options_of_job(job)
    own = any(job.option(each.name) != each.default for each in kept_as("output", known))
    told = {
        name: value
        for name, value in kept.items()
        if name in known
        and job.option(name) == known[name].default
        and not (own and known[name].kept == "output")
    }
    if "file_format" in told and names_tell_format(job.events):
        del told["file_format"]  # of files whose names say nothing
    return job.having(**told) if told else job


def remembered_of(job: Job, before: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be remembered of a job, as JSON values; of paths where they are.

    Args:
        job: which.
        before: what is remembered of earlier ones.
    """
    known = options_of_job(job)
    writes = any(getattr(job, name) is not None for name in ("out", "plot", "sums"))
    outputs = kept_as("output", known)
    found = {} if writes else {one.name: before[one.name] for one in outputs if one.name in before}
    if job.file_format is None and "file_format" in before:
        found["file_format"] = before["file_format"]  # for nights whose files need it again
    said = [*kept_as("policy", known), *kept_as("view", known), *(outputs if writes else ())]
    for option in said:
        name, value = option.name, job.option(option.name)
        if value == option.default or (name == "unknown" and value == "discover"):
            continue
        if name == "known":
            value = [[list(path), total] for path, total in known_totals(value)]
        elif option.file:
            start, quarantine, path = os.fspath(value).rpartition("quarantine:")
            value = start + quarantine + os.path.abspath(path)
        elif isinstance(value, list | tuple):
            value = [str(one) for one in value]
        found[name] = value
    return found

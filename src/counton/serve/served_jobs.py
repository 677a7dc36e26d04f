"""The jobs of a service: what is refused at the start, and rows that come by request."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from counton.base.errors import CountonError, InvalidInput, StateError, StateUnavailable, field
from counton.base.private import Private, open_private
from counton.job.job import Job
from counton.job.jobfile import load_each, published_to, select_jobs
from counton.job.stated_options import refuse_of_service, words_of_files
from counton.numbers.intervals import LEVEL, check_level
from counton.released.read_options import check_shown
from counton.rows.row_reading import RowReading
from counton.rows.sources import EventFrame, Rows, Source, unreadable_errors
from counton.run.changes import SumBounds
from counton.run.definition import Definition
from counton.run.journal_values import shown_of
from counton.run.settlement import open_job, resolve
from counton.run.shared_paths import refuse_shared
from counton.run.unordered_rows import reading_of
from counton.serve.settings import MOST_NAME


class AcceptedRows(Source):
    """Rows that were checked on arrival."""

    accepted = True


def empty_inbox(columns: Sequence[str] = ("time",)) -> Any:
    """Return a source without rows, to release windows in which nothing happened."""
    nothing = pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    return Source((EventFrame(nothing, "the inbox"),), "the inbox")


@dataclass(frozen=True)
class ServedJob:
    """A job that a service runs: its name, and its options completed by its stream's."""

    called: str
    job: Job
    definition: Definition
    reading: RowReading

    @cached_property
    def bounds(self) -> SumBounds:
        """Largest sums that the stream can compute and release exactly."""
        return SumBounds.of(self.definition)

    def with_rows(self, parts: Sequence[Rows]) -> Job:
        """Return the job with accepted rows as its events."""
        given = tuple(parts) or empty_inbox(self.definition.columns.names).parts
        source: Any = AcceptedRows(given, "the inbox")
        return self.job.having(events=source)


def explain(error: CountonError) -> str:
    """Return a message with option names as in job files."""
    return error.translate(words_of_files())


@contextmanager
def about(name: str) -> Iterator[None]:
    """Turn any error in the block into counton's, with the job's name."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except CountonError as error:
        raise type(error)(f"job {name!r}: {explain(error)}") from error
    except OSError as error:
        raise StateUnavailable(
            f"job {name!r}: {error}; check that this file can be read and written"
        ) from error
    except BaseException as error:  # a panic of a library in another language is no Exception
        raise StateError(f"job {name!r}: {type(error).__name__}: {error}") from error


def prepare(
    path: str | Path, only: str | Sequence[str] | None = None
) -> tuple[dict[str, ServedJob], dict[str, CountonError]]:
    """Prepare the jobs of a file; an error in one leaves the others.

    Nothing is written. Returns the prepared jobs by stream, of which ended
    ones can only be shown, and the errors of the others by stream or job.

    Raises:
        InvalidInput: the file cannot be read, or two jobs exclude each other.
    """
    jobs = select_jobs(load_each(path, empty_inbox()), only)
    found, failed = dict[str, ServedJob](), dict[str, CountonError]()
    names: set[str] = set()
    for name, job in jobs.items():
        if isinstance(job, CountonError):
            failed[name] = job  # the error names the job itself
            continue
        if job.keeping.name in names:
            raise InvalidInput(
                f"job {name!r}: another job has a stream named {job.keeping.name!r} too, and "
                "clients ask by that name; serve only one of them"
            )
        names.add(job.keeping.name)
        try:
            with about(name):
                found[job.keeping.name] = serve_job(name, job)
        except CountonError as error:
            failed[job.keeping.name] = error
    refuse_shared({each.called: each.job for each in found.values()})
    if (to := published_to(path)) is not None:
        raise InvalidInput(
            f"[publish] to {to!r} is only for counton run, because a service answers "
            "readers itself: leave it out, or run counton publish too"
        )
    return found, failed


def serve_job(name: str, job: Job) -> ServedJob:
    """Prepare a job, which is only shown if its stream has ended.

    Args:
        name: name of the job in its file.
        job: the job.

    Raises:
        InvalidInput: a service cannot run the job; the message names value and remedy.
        StateError: the job's state cannot be used, or its stream was made with other options.
    """
    refuse_of_service(job)
    _refuse_name(job.keeping.name)
    with open_job(job) as opened:
        job, known = opened.job, opened.saved
        counted = job.option("value") or job.option("counts")
        named = (job.times.time, job.groups.by, counted, job.people.user, job.rows.id)
        columns = tuple(name for name in named if name is not None)
        opened = opened.having(
            **dict.fromkeys(("out", "plot")),
            events=empty_inbox(columns or ("time",)),
            append=True,
            yes=True,
        )
        job = opened.job
        if known is not None and known.details.get("once"):
            raise InvalidInput(
                f"{job.keeping.name!r} is a table that was released once, but a service releases "
                f"at the end of each window: give another {field('name')} with {field('time')}, or "
                "leave the job out"
            )
        if isinstance(job.what, str) and job.times.time is None and known is None:
            raise InvalidInput(
                "the job has no column of times, so it releases once, but a "
                f"service releases at the end of each window: give {field('time')}, or use counton "
                "run"
            )
        if known is not None and known.details.get("ended") is not None:
            definition = Definition.reopen(known.design, known.details)  # no run goes on with it
        else:
            definition = resolve(opened).definition
        check_shown(shown_of(job.option), definition, check_level(job.view.level, usual=LEVEL))
        return ServedJob(name, job, definition, reading_of(job, definition))


def _refuse_name(name: str) -> None:
    """Refuse the name of a stream that no address of the service can hold.

    Clients and proxies take ``/`` for the end of a name, also in its coded form, and remove ``.``
    and ``..``.

    Args:
        name: name of the stream.

    Raises:
        InvalidInput: the name cannot be asked for.
    """
    if "/" in name or name in ("", ".", "..") or len(name) > MOST_NAME:
        raise InvalidInput(
            f"{field('name')} is {name!r}, which cannot be part of a web address, so nobody could "
            f"ask the service for this stream. Use at most {MOST_NAME} characters without '/', and "
            "neither '.' nor '..'"
        )


def pack_rows(frame: pl.DataFrame) -> Private[bytes]:
    """Encode rows for the inbox, as an Arrow stream."""
    whole = io.BytesIO()
    frame.write_ipc_stream(whole, compression="lz4")
    return Private(whole.getvalue())


def unpack_rows(bodies: Sequence[Private[bytes]]) -> list[Rows]:
    """Decode batches: one table for each set of columns.

    Raises:
        StateError: a batch is not what `pack_rows` wrote.
    """
    kinds: dict[tuple[Any, ...], list[pl.DataFrame]] = {}
    for body in bodies:
        try:
            frame = pl.read_ipc_stream(io.BytesIO(open_private(body)))
        except unreadable_errors() as error:
            raise StateError(
                "rows that wait in the inbox (table counton_inbox_waiting) cannot be read: the "
                "state was altered; restore it from a copy"
            ) from error
        kinds.setdefault(tuple(frame.schema.items()), []).append(frame)
    return [EventFrame(pl.concat(frames), "the inbox") for frames in kinds.values()]

"""The jobs of a service: what is refused at the start, and rows that come by request."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import polars as pl

from counton.base.errors import (
    CountonError,
    InvalidInputError,
    StateError,
    StateUnavailableError,
    param,
)
from counton.base.private import Private, reveal
from counton.continual.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level
from counton.io.row_assignment import RowMapping
from counton.io.sources import EventFrame, InputPart, Source, unreadable_errors
from counton.job.common_options import Job
from counton.job.incompatible import refuse_of_service
from counton.job.job_file import (
    file_keys,
    load_each,
    published_to,
    select_jobs,
)
from counton.job.saved_job import stream_name
from counton.results.display import check_shown
from counton.run.counting.exactness import SumBounds
from counton.run.opened_state import OpenedState
from counton.run.outputs.path_conflicts import refuse_shared
from counton.run.prepared_run import prepare
from counton.run.rows.row_reading import row_mapping
from counton.run.rows.row_source import named_columns
from counton.run.rows.window_sums import columns_of
from counton.run.spec.parsing import parse_run
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import SingleTable
from counton.serve.settings import MOST_NAME
from counton.windowing.windows import Windows


class AcceptedRows(Source):
    """Rows that were checked on arrival."""

    comes_from_inbox = True


def empty_inbox(columns: Sequence[str] = ("time",)) -> Source:
    """Return a source without rows, to release windows in which nothing happened."""
    nothing = pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    return Source((EventFrame(nothing, "the inbox"),), "the inbox")


@dataclass(frozen=True)
class ServedJob:
    """A job that a service runs.

    Attributes:
        called: name of the job in its file.
        job: the job, with the options of earlier runs that its stream remembers.
        stream: name of its stream.
        spec: the specification of the stream.
        mapping: how rows are read.
        release_delay: microseconds from the end of a window to its release.
    """

    called: str
    job: Job
    stream: str
    spec: StreamSpec
    mapping: RowMapping
    release_delay: int

    @property
    def windows(self) -> Windows:
        """The windows of the stream."""
        return self.spec.terms.windowing.windows

    @property
    def state(self) -> str:
        """Path or URL of the state."""
        return str(self.job.state)

    @cached_property
    def bounds(self) -> SumBounds:
        """Largest sums that the stream can compute and release exactly."""
        return SumBounds.of(self.spec)

    def accepted_rows(self, parts: Sequence[InputPart]) -> AcceptedRows:
        """Return the rows of batches as the source of a run."""
        sources = tuple(parts) or empty_inbox(self.mapping.columns.names).parts
        return AcceptedRows(sources, "the inbox")


def explain(error: CountonError) -> str:
    """Return a message with option names as in job files."""
    return error.translate(file_keys())


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
        raise StateUnavailableError(
            f"job {name!r}: {error}; check that this file can be read and written"
        ) from error
    except BaseException as error:  # a panic of a library in another language is no Exception
        raise StateError(f"job {name!r}: {type(error).__name__}: {error}") from error


def prepare_jobs(
    path: str | Path, only: str | Sequence[str] | None = None
) -> tuple[dict[str, ServedJob], dict[str, CountonError]]:
    """Prepare the jobs of a file; an error in one leaves the others.

    Nothing is written. Returns the prepared jobs by stream, of which ended
    ones can only be shown, and the errors of the others by stream or job.

    Raises:
        InvalidInputError: the file cannot be read, or two jobs exclude each other.
    """
    jobs = select_jobs(load_each(path, empty_inbox()), only)
    prepared: dict[str, ServedJob] = {}
    failed: dict[str, CountonError] = {}
    names: set[str] = set()
    for name, job in jobs.items():
        if isinstance(job, CountonError):
            failed[name] = job  # the error names the job itself
            continue
        stream = stream_name(job)
        if stream in names:
            raise InvalidInputError(
                f"job {name!r}: another job has a stream named {stream!r} too, and clients ask by "
                "that name; serve only one of them"
            )
        names.add(stream)
        try:
            with about(name):
                prepared[stream] = serve_job(name, job)
        except CountonError as error:
            failed[stream] = error
    refuse_shared({served.called: served.job for served in prepared.values()})
    address = published_to(path)
    if address is not None:
        raise InvalidInputError(
            f"[publish] to {address!r} is only for counton run, because a service answers "
            "readers itself: leave it out, or run counton publish too"
        )
    return prepared, failed


def serve_job(name: str, job: Job) -> ServedJob:
    """Prepare a job, which is only shown if its stream has ended.

    Args:
        name: name of the job in its file.
        job: the job.

    Raises:
        InvalidInputError: a service cannot run the job; the message names value and remedy.
        StateError: the job's state cannot be used, or its stream was made with other options.
    """
    _refuse_name(stream_name(job))
    with OpenedState(job) as state:
        kept = None if state.saved is None else StreamSpec.of_stream(state.saved)
        refuse_of_service(job, is_new=kept is None)
        if kept is not None and isinstance(kept.terms.windowing, SingleTable):
            raise InvalidInputError(
                f"{state.name!r} is a table that was released once, but a service releases at "
                f"the end of each window: give another {param('stream')} with {param('time')}, "
                "or leave the job out"
            )
        job = job.with_options(append=True, allow_empty_windows=True)
        columns: Sequence[str] = named_columns(job, ())
        if kept is not None and type(job) is type(kept.job):
            job = kept.complete_run_options(job)
            columns = columns_of(kept).names
        if kept is not None and kept.closed_at_step is not None:  # no run goes on with it
            options = parse_run(kept.complete_job(job), kept.terms)
            level = check_confidence_level(job.confidence_level, usual=DEFAULT_CONFIDENCE_LEVEL)
            check_shown(options.display, kept.metadata(), level)
            spec = kept
        else:
            rows = empty_inbox(columns)
            prepared = prepare(job, state, rows, datetime.now(UTC), writes_files=False)
            options = prepared.options
            spec = prepared.spec
        mapping = row_mapping(spec, options)
        return ServedJob(name, job, state.name, spec, mapping, options.release_delay)


def _refuse_name(name: str) -> None:
    """Refuse the name of a stream that no address of the service can hold.

    Clients and proxies take ``/`` for the end of a name, also in its coded form, and remove ``.``
    and ``..``.

    Args:
        name: name of the stream.

    Raises:
        InvalidInputError: the name cannot be asked for.
    """
    if "/" in name or name in ("", ".", "..") or len(name) > MOST_NAME:
        raise InvalidInputError(
            f"{param('stream')} is {name!r}, which cannot be part of a web address, so nobody "
            f"could ask the service for this stream. Use at most {MOST_NAME} characters without "
            "'/', and neither '.' nor '..'"
        )


def pack_rows(frame: pl.DataFrame) -> Private[bytes]:
    """Encode rows for the inbox, as an Arrow stream."""
    whole = io.BytesIO()
    frame.write_ipc_stream(whole, compression="lz4")
    return Private(whole.getvalue())


def unpack_rows(bodies: Sequence[Private[bytes]]) -> list[InputPart]:
    """Decode batches: one table for each set of columns.

    Raises:
        StateError: a batch is not what `pack_rows` wrote.
    """
    kinds: dict[tuple[object, ...], list[pl.DataFrame]] = {}
    for body in bodies:
        try:
            frame = pl.read_ipc_stream(io.BytesIO(reveal(body)))
        except unreadable_errors() as error:
            raise StateError(
                "rows that wait in the inbox (table counton_inbox_waiting) cannot be read: the "
                "state was altered; restore it from a copy"
            ) from error
        kinds.setdefault(tuple(frame.schema.items()), []).append(frame)
    return [EventFrame(pl.concat(frames), "the inbox") for frames in kinds.values()]

"""Check that no job of a file writes what another job writes, reads or keeps.

Shared paths, by defaults or links, are found only when all jobs are compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from counton.base.errors import CountonError, InvalidInputError, param
from counton.io.input_paths import event_paths, is_file, refuse_among_events
from counton.job.common_options import Job
from counton.job.custom_strategies import is_file_of
from counton.job.saved_job import stream_name
from counton.run.opened_state import name_in
from counton.run.outputs.output_files import chart_paths, table_paths
from counton.run.spec.parsing import last_lengths, parse_policies
from counton.run.spec.stream_spec import StreamSpec
from counton.state import Store
from counton.state.database import Closing, parse_address
from counton.state.keys import state_files
from counton.state.rollback_guard import NO_FOLDER as NO_ROLLBACK_GUARD
from counton.state.sqlite_file import NoStateError, files_of


@dataclass(frozen=True)
class UsedPath:
    """A path that a job uses, with its key in the job file."""

    job: str
    key: str
    path: Path

    def identities(self) -> list[object]:
        """Return values that are equal for all paths to one file.

        Case is ignored, as on many disks.
        """
        real_path = os.path.realpath(self.path)
        identities: list[object] = [real_path.casefold()]
        with suppress(OSError):
            status = os.stat(real_path)
            identities.append((status.st_dev, status.st_ino))
        return identities


def refuse_shared(jobs: Mapping[str, Job]) -> None:
    """Refuse jobs if one would overwrite a file that another job writes, reads or keeps.

    Args:
        jobs: all jobs of a file by name, filled with the options that their streams keep.

    Raises:
        InvalidInputError: two jobs share a stream, or a file that one of them writes.
    """
    _refuse_shared_streams(jobs)
    written_paths = [path for name, job in jobs.items() for path in _written_paths(name, job)]
    writer_of: dict[object, UsedPath] = {}
    for path in written_paths:
        for identity in path.identities():
            other = writer_of.get(identity)
            if other is not None and other != path:
                raise _conflict(path, other, "writes too")
            writer_of[identity] = path
    read_paths = [path for name, job in jobs.items() for path in _read_paths(name, job)]
    for path in read_paths:
        for identity in path.identities():
            if identity in writer_of:
                raise _conflict(writer_of[identity], path, "reads or keeps")
    for name, job in jobs.items():
        _refuse_tables_among_events(name, job, written_paths)


def _refuse_shared_streams(jobs: Mapping[str, Job]) -> None:
    job_of_stream: dict[tuple[str, str], str] = {}
    for name, job in jobs.items():
        stream = (state_of(job), stream_name(job))
        if stream in job_of_stream:
            raise InvalidInputError(
                f"job {name!r} releases stream {stream_name(job)!r} of state {_state_path(job)!r}, "
                f"and so does job {job_of_stream[stream]!r}; a stream belongs to one job: give one "
                "of the two another 'stream', or leave it out"
            )
        job_of_stream[stream] = name


def _refuse_tables_among_events(name: str, job: Job, written_paths: list[UsedPath]) -> None:
    """Refuse a table that another job writes into the folder of this job's events."""
    for path in written_paths:
        if path.job == name or path.key != "output":
            continue
        try:
            refuse_among_events(job.events, path.path)
        except InvalidInputError as error:
            raise InvalidInputError(f"job {path.job!r} and job {name!r}: {error}") from None


def _conflict(written: UsedPath, other: UsedPath, does: str) -> InvalidInputError:
    also_called = ""
    if str(written.path) != str(other.path):
        also_called = f", as {str(other.path)!r},"
    return InvalidInputError(
        f"job {written.job!r} writes {str(written.path)!r} ({written.key}), which job "
        f"{other.job!r}{also_called} {does} ({other.key}), and would overwrite it; give another "
        "file in one of them"
    )


def refuse_publishing_over(jobs: Mapping[str, Job], to: str) -> None:
    """Refuse a database for published numbers if it is a file that a job keeps or writes.

    A run would find that out only after it has released. The state itself may hold the published
    numbers, if it is the state of all jobs.

    Args:
        jobs: all jobs of the file.
        to: path or URL of the database.

    Raises:
        InvalidInputError: a job uses the file.
    """
    address = parse_address(to, param("to"))
    if address.file is None:
        return
    owners = [name for name, job in jobs.items() if state_of(job) == address.label]
    if len(owners) == len(jobs):
        return
    if owners:
        other = next(name for name in jobs if name not in owners)
        raise InvalidInputError(
            f"{param('to', to)} in [publish] is the state of job {owners[0]!r}, which is secret, "
            f"and job {other!r} has another state: give a file of its own for the published numbers"
        )
    published = {
        identity
        for path in files_of(address.file)
        for identity in UsedPath("", "to", path).identities()
    }
    for name, job in jobs.items():
        for path in (*_written_paths(name, job), *_kept_paths(name, job)):
            if not published.isdisjoint(path.identities()):
                raise InvalidInputError(
                    f"{param('to', to)} in [publish] is {str(path.path)!r}, which job {name!r} "
                    f"uses ({path.key}): give a file of its own for the published numbers"
                )


class JobStates(Closing):
    """The states of several jobs, each opened once, while the jobs are compared.

    Args:
        jobs: jobs by name.

    Attributes:
        jobs: the jobs, filled with the options that their streams keep if their states can be read.
        begun: names of jobs whose streams exist.
    """

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._stores: dict[str, Store | None] = {}
        self.jobs = dict(jobs)
        self.begun: set[str] = set()
        for name, job in jobs.items():
            with suppress(CountonError, OSError):  # its run reports the error
                self._fill(name, job)

    def _fill(self, name: str, job: Job) -> None:
        store = self.at(_state_path(job))
        if store is None:
            return
        stream_name = name_in(store, job)
        stream = store.find(stream_name)
        if stream is None:
            return
        self.begun.add(name)
        filled = StreamSpec.of_stream(stream).complete_job(job)
        self.jobs[name] = filled.with_options(stream=stream_name)

    def at(self, state: str | os.PathLike[str] | None) -> Store | None:
        """Return the open state at this path or URL; None if it does not exist yet."""
        if state is None:
            return None
        label = _state_label(state)
        if label not in self._stores:
            try:
                self._stores[label] = Store(state)
            except NoStateError:
                self._stores[label] = None
        return self._stores[label]

    def close(self) -> None:
        """Close the states that were opened."""
        for store in self._stores.values():
            if store is not None:
                store.close()


# ------------------------------------------------------------------------------ what a job uses
def state_of(job: Job) -> str:
    """Return a job's state in a form that is equal for all paths to it."""
    return _state_label(_state_path(job))


def _state_path(job: Job) -> str:
    assert job.state is not None, "the jobs of a file name their states"
    return os.fspath(job.state)


def _state_label(state: str | os.PathLike[str]) -> str:
    with suppress(CountonError):  # no state, as the job itself reports
        return parse_address(state).label
    return os.fspath(state)


def _written_paths(name: str, job: Job) -> Iterator[UsedPath]:
    if job.output is not None:
        keys = ("output", "the description beside its output")
        for key, path in zip(keys, table_paths(Path(job.output)), strict=False):
            yield UsedPath(name, key, path)
    if job.chart is not None:
        kinds = ["totals", "windows"]
        with suppress(InvalidInputError):  # the job itself reports wrong lengths
            kinds += [f"last-{length}" for length in last_lengths(job)]
        for path in chart_paths(kinds, Path(job.chart)).values():
            yield UsedPath(name, "chart", path)
    quarantine = parse_policies(job).quarantine
    if quarantine is not None:
        yield UsedPath(name, "bad-rows", quarantine)


def _state_paths(name: str, job: Job) -> Iterator[UsedPath]:
    with suppress(CountonError):
        for path in state_files(_state_path(job), job.key):
            yield UsedPath(name, "state", path)


def _kept_paths(name: str, job: Job) -> Iterator[UsedPath]:
    """Yield the files of a job's state and key, and the folder of its rollback guard."""
    yield from _state_paths(name, job)
    if job.rollback_guard not in (None, NO_ROLLBACK_GUARD):
        yield UsedPath(name, "rollback-guard", Path(os.fspath(job.rollback_guard)))


def _read_paths(name: str, job: Job) -> Iterator[UsedPath]:
    yield from _state_paths(name, job)
    domain = job.value_of("groups")
    if isinstance(domain, str) and is_file(domain):
        yield UsedPath(name, "groups", Path(domain))
    if is_file_of(job.strategy):
        yield UsedPath(name, "strategy", Path(job.strategy))
    files: list[str] = []
    with suppress(CountonError, OSError):  # the job itself reports the error
        files = event_paths(job.events, job.file_format)
    for file in files:
        if file != "-":
            yield UsedPath(name, "events", Path(file))

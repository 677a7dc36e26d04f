"""Refusal of jobs of one file that would overwrite each other's files.

Shared paths, by defaults or links, are noticed only when all jobs are compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from counton.base.errors import CountonError, InvalidInput
from counton.base.errors import field as option_name
from counton.options.common_options import Job
from counton.rows.paths import event_paths, is_file, refuse_among_events
from counton.runs.opened_state import name_in
from counton.runs.output_files import pictures_of, table_paths
from counton.runs.parsing import parse_policies, usual_name
from counton.runs.stream_spec import StreamSpec
from counton.state import Store
from counton.state.database import Closing, parse_address
from counton.state.keys import state_files
from counton.state.sqlite_file import NoState, files_of
from counton.state.state_witness import NONE


class _Use(NamedTuple):
    """A file that a job uses.

    Attributes:
        job: name of the job.
        option: key in the job file, or words for the file.
    """

    job: str
    option: str
    path: Path

    @property
    def places(self) -> Iterator[object]:
        """Values that are equal for all paths to one file; case is ignored, as on many disks."""
        path = os.path.realpath(self.path)
        yield path.casefold()
        with suppress(OSError):
            facts = os.stat(path)
            yield facts.st_dev, facts.st_ino


def refuse_shared(jobs: Mapping[str, Job]) -> None:
    """Refuse jobs if one would overwrite a file that another job writes, reads or keeps.

    Args:
        jobs: jobs by name, filled with the options that their streams keep.

    Raises:
        InvalidInput: one would, or two jobs have one stream.
    """
    job_of_stream: dict[tuple[str, str], str] = {}
    for name, job in jobs.items():
        stream = job.name or usual_name(job)
        place = (state_of(job), stream)
        if place in job_of_stream:
            raise InvalidInput(
                f"job {name!r} releases stream {stream!r} of state {os.fspath(job.state)!r}, and "
                f"so does job {job_of_stream[place]!r}. A stream belongs to one job. Give one of "
                f"them another {option_name('name')}"
            )
        job_of_stream[place] = name
    writes = [use for name, job in jobs.items() for use in _writes(name, job)]
    written: dict[object, _Use] = {}
    for use in writes:
        for place_of_file in use.places:
            other = written.setdefault(place_of_file, use)
            if other != use:
                raise _conflict(use, other, "writes too")
    for name, job in jobs.items():
        for use in _reads(name, job):
            for place_of_file in use.places:
                if place_of_file in written:
                    raise _conflict(written[place_of_file], use, "reads or keeps")
        for use in writes:
            if use.job != name and use.option == "out":
                _refuse_among_events_of(name, job, use)


def _refuse_among_events_of(name: str, job: Job, use: _Use) -> None:
    try:
        refuse_among_events(job.events, use.path)
    except InvalidInput as error:
        raise InvalidInput(f"job {use.job!r} and job {name!r}: {error}") from None


def refuse_publishing_over(jobs: Mapping[str, Job], to: str) -> None:
    """Refuse a database for published numbers if it is a file that a job keeps or writes.

    A run would notice only after it has released. The state itself may hold the published numbers,
    if it is the state of all jobs.

    Args:
        jobs: all jobs of the file.
        to: path or URL of the database.

    Raises:
        InvalidInput: a job uses the file.
    """
    address = parse_address(to, option_name("to"))
    if address.file is None:
        return
    stated = f"{option_name('to', to)} in [publish]"
    owners = [name for name, job in jobs.items() if state_of(job) == address.label]
    if len(owners) == len(jobs):
        return
    if owners:
        other = next(name for name in jobs if name not in owners)
        raise InvalidInput(
            f"{stated} is the state of job {owners[0]!r}, which is secret, and job {other!r} has "
            "another state. Give a file of its own for the published numbers"
        )
    files = [_Use("", "to", path) for path in files_of(address.file)]
    published = {place for use in files for place in use.places}
    for name, job in jobs.items():
        for use in (*_writes(name, job), *_keeps(name, job)):
            if not published.isdisjoint(use.places):
                raise InvalidInput(
                    f"{stated} is {str(use.path)!r}, which job {name!r} uses ({use.option}). Give "
                    "a file of its own for the published numbers"
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
        store = self.at(job.state)
        if store is None:
            return
        stream = name_in(store, job)
        saved = store.find(stream)
        if saved is not None:
            self.begun.add(name)
            filled = StreamSpec.of_stream(saved).fill_job(job)
            self.jobs[name] = filled.with_options(name=stream)

    def at(self, state: str | os.PathLike[str] | None) -> Store | None:
        """Return the open state at this path or URL; None if it does not exist yet."""
        place = _place_of(state)
        if place not in self._stores:
            try:
                self._stores[place] = Store(place if state is None else state)
            except NoState:
                self._stores[place] = None
        return self._stores[place]

    def close(self) -> None:
        """Close the states that were opened."""
        for store in self._stores.values():
            if store is not None:
                store.close()


def _conflict(mine: _Use, other: _Use, does: str) -> InvalidInput:
    as_named = "" if str(mine.path) == str(other.path) else f", as {str(other.path)!r},"
    return InvalidInput(
        f"job {mine.job!r} writes {str(mine.path)!r} ({mine.option}), which job {other.job!r}"
        f"{as_named} {does} ({other.option}), and would overwrite it. Give another file in one of "
        "them"
    )


def state_of(job: Job) -> str:
    """Return a job's state in a form that is equal for all paths to it."""
    return _place_of(job.state)


def _place_of(state: str | os.PathLike[str] | None) -> str:
    if state is None:
        return ""
    with suppress(CountonError):  # no state, as the job itself reports
        return parse_address(state).label
    return os.fspath(state)


def _writes(name: str, job: Job) -> Iterator[_Use]:
    if job.out is not None:
        table, *description = table_paths(Path(job.out))
        yield _Use(name, "out", table)
        for path in description:
            yield _Use(name, "the description beside its out", path)
    if job.plot is not None:
        for path in pictures_of("both", Path(job.plot)).values():
            yield _Use(name, "plot", path)
    quarantine = parse_policies(job).quarantine
    if quarantine is not None:
        yield _Use(name, "bad-rows", quarantine)


def _keeps(name: str, job: Job) -> Iterator[_Use]:
    """Yield the files of a job's state and key, and the folder of its rollback guard."""
    yield from _state_files(name, job)
    if job.witness not in (None, NONE):
        yield _Use(name, "witness", Path(os.fspath(str(job.witness))))


def _state_files(name: str, job: Job) -> Iterator[_Use]:
    if job.state is None:
        return
    with suppress(CountonError):  # the job itself reports the error
        for path in state_files(job.state, job.key):
            yield _Use(name, "state", path)


def _reads(name: str, job: Job) -> Iterator[_Use]:
    yield from _state_files(name, job)
    domain = job.value_of("domain")
    if isinstance(domain, str | os.PathLike) and is_file(os.fspath(domain)):
        yield _Use(name, "domain", Path(domain))
    paths: list[str] = []
    with suppress(CountonError, OSError):  # the job itself reports the error
        paths = event_paths(job.events, job.file_format)
    for path in paths:
        if path != "-":
            yield _Use(name, "events", Path(path))

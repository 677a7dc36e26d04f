"""Check that no job of a file writes what another writes, reads or keeps.

Shared paths, by defaults or links, are found only when all jobs are compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from counton.base.errors import CountonError, InvalidInput, field
from counton.job.job import Job
from counton.rows.paths import event_paths, is_file, refuse_among_events
from counton.run.settlement import as_before
from counton.state import Store
from counton.state.database import Closing, parse_address
from counton.state.keys import state_files
from counton.state.sqlite_file import NoState, files_of
from counton.state.state_witness import NONE


class _Use(NamedTuple):
    """A file that a job uses, with its key in the job file."""

    job: str
    what: str
    path: Path

    @property
    def places(self) -> Iterator[object]:
        """Values equal for all paths to one file; case is ignored, as on many disks."""
        real = os.path.realpath(self.path)
        yield real.casefold()
        with suppress(OSError):
            found = os.stat(real)
            yield found.st_dev, found.st_ino


def refuse_shared(jobs: Mapping[str, Job]) -> None:
    """Refuse jobs if one would overwrite a file that another job writes, reads or keeps."""
    streams: dict[tuple[str, str], str] = {}
    for name, job in jobs.items():
        stream = (state_of(job), job.keeping.name)
        if stream in streams:
            raise InvalidInput(
                f"job {name!r} releases stream {job.keeping.name!r} of state "
                f"{os.fspath(job.keeping.state)!r}, and so does job {streams[stream]!r}; a stream "
                "belongs to one job: give one of the two another 'name', or leave it out"
            )
        streams[stream] = name
    writes = [use for name, job in jobs.items() for use in _writes(name, job)]
    written: dict[object, _Use] = {}
    for use in writes:
        for place in use.places:
            if place in written and written[place] != use:
                raise _both(use, written[place], "writes too")
            written[place] = use
    for name, job in jobs.items():
        for use in _reads(name, job):
            for place in use.places:
                if place in written:
                    raise _both(written[place], use, "reads or keeps")
    for name, job in jobs.items():
        for use in writes:
            if use.job != name and use.what == "out":
                try:
                    refuse_among_events(job.events, use.path)
                except InvalidInput as error:
                    raise InvalidInput(f"job {use.job!r} and job {name!r}: {error}") from None


def refuse_publishing_over(jobs: Mapping[str, Job], to: str) -> None:
    """Refuse a database for published numbers if it is a file that a job keeps or writes.

    A run would find that out only after it has released. The state itself may hold the published
    numbers, if it is the state of all jobs.

    Args:
        jobs: all jobs of the file.
        to: path or URL of the database.

    Raises:
        InvalidInput: a job uses the file.
    """
    address = parse_address(to, field("to"))
    if address.file is None:
        return
    owners = [name for name, job in jobs.items() if state_of(job) == address.label]
    is_own_state = len(owners) == len(jobs)
    if owners and not is_own_state:
        other = next(name for name in jobs if name not in owners)
        raise InvalidInput(
            f"{field('to', to)} in [publish] is the state of job {owners[0]!r}, which is secret, "
            f"and job {other!r} has another state: give a file of its own for the published numbers"
        )
    if is_own_state:
        return
    paths = files_of(address.file)
    published = {place for path in paths for place in _Use("", "to", path).places}
    for name, job in jobs.items():
        for use in (*_writes(name, job), *_keeps(name, job)):
            if not published.isdisjoint(use.places):
                raise InvalidInput(
                    f"{field('to', to)} in [publish] is {str(use.path)!r}, which job {name!r} uses "
                    f"({use.what}): give a file of its own for the published numbers"
                )


class JobStates(Closing):
    """The states (databases) of several jobs, each opened once, while the jobs are compared.

    Args:
        jobs: jobs by name.

    Attributes:
        jobs: the jobs, completed with the options that their streams keep if their states can be
            read.
        begun: names of jobs whose streams exist.
    """

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._stores: dict[str, Store | None] = {}
        self.jobs, self.begun = dict(jobs), set[str]()
        for name, job in jobs.items():
            with suppress(CountonError, OSError):  # its run reports the error
                store = self.at(job.keeping.state)
                if store is not None and (saved := store.find(job.keeping.name)) is not None:
                    self.begun.add(name)
                    self.jobs[name] = as_before(job, saved)

    def at(self, state: str | os.PathLike[str]) -> Store | None:
        """Return the open state (database) at this path or URL; None if it does not exist yet."""
        where = _place_of(state)
        if where not in self._stores:
            try:
                self._stores[where] = Store(state)
            except NoState:
                self._stores[where] = None
        return self._stores[where]

    def close(self) -> None:
        """Close the states (databases) of all jobs that were opened."""
        for store in self._stores.values():
            if store is not None:
                store.close()


def _both(mine: _Use, other: _Use, does: str) -> InvalidInput:
    same = "" if str(mine.path) == str(other.path) else f", as {str(other.path)!r},"
    return InvalidInput(
        f"job {mine.job!r} writes {str(mine.path)!r} ({mine.what}), which job {other.job!r}{same} "
        f"{does} ({other.what}), and would overwrite it; give another file in one of them"
    )


def state_of(job: Job) -> str:
    """Return a job's state in a form that is equal for all paths to it."""
    return _place_of(job.keeping.state)


def _place_of(state: str | os.PathLike[str]) -> str:
    with suppress(CountonError):  # no state, as the job itself reports
        return parse_address(state).label
    return os.fspath(state)


def _writes(name: str, job: Job) -> Iterator[_Use]:
    if job.output.out is not None:
        from counton.run.written_files import table_paths

        called = "out", "the description beside its out"
        for what, path in zip(called, table_paths(Path(job.output.out)), strict=False):
            yield _Use(name, what, path)
    if job.output.plot is not None:
        from counton.run.written_files import pictures_of

        for path in pictures_of("both", Path(job.output.plot)).values():
            yield _Use(name, "plot", path)
    with suppress(CountonError):  # no such policy, as the job itself reports
        aside = job.format.policies().quarantine
        if aside is not None:
            yield _Use(name, "bad-rows", aside)


def _keeps(name: str, job: Job) -> Iterator[_Use]:
    """Yield the files of a job's state and key, and the folder of its witness."""
    with suppress(CountonError):
        for path in state_files(job.keeping.state, job.keeping.key):
            yield _Use(name, "state", path)
    witness = job.keeping.witness
    if witness not in (None, NONE):
        yield _Use(name, "witness", Path(os.fspath(witness)))


def _reads(name: str, job: Job) -> Iterator[_Use]:
    with suppress(CountonError):
        for path in state_files(job.keeping.state, job.keeping.key):
            yield _Use(name, "state", path)
    if isinstance(job.groups.domain, str | os.PathLike) and is_file(os.fspath(job.groups.domain)):
        yield _Use(name, "domain", Path(job.groups.domain))
    found: list[str] = []
    with suppress(CountonError, OSError):  # the job itself reports the error
        found = event_paths(job.events, job.format.file_format)
    for file in found:
        if file != "-":
            yield _Use(name, "events", Path(file))

"""Batches that a service acknowledged and that no run can count, for the operator to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from counton.base.errors import InvalidInput, field
from counton.base.exact import quote
from counton.base.windows import microseconds, moment
from counton.job.job import Job
from counton.job.jobfile import load_each, select_jobs
from counton.serve.served_jobs import empty_inbox, unpack_rows
from counton.state import Store
from counton.state.inbox import Inbox, LeftOut
from counton.state.sqlite_file import NoState


def facts_of(one: LeftOut) -> dict[str, Any]:
    """Return id, time of arrival, number of rows and reason of a batch that could not be counted,
    as JSON values, without its rows.

    The facts are exact: only for the operator.
    """
    came = moment(one.arrived).isoformat()
    return {
        "id": one.id,
        "stream": one.stream,
        "batch": one.batch,
        "came": came,
        "rows": one.rows,
        "why": one.why,
    }


class LeftOutBatches:
    """The batches of rows that a service accepted and no run could count, for all streams of a job
    file.

    A service of these jobs may run meanwhile.

    Args:
        file: job file.
        only: names of jobs; None: all.

    Raises:
        InvalidInput: the file is no job file, or a name is unknown.
        StateError: a state cannot be used.
    """

    def __init__(self, file: str | Path, only: str | Sequence[str] | None = None) -> None:
        jobs = select_jobs(load_each(file, empty_inbox()), only)
        self._jobs = {
            job.keeping.name: job
            for job in jobs.values()
            if isinstance(job, Job) and _is_begun(job)
        }

    def all(self) -> list[LeftOut]:
        """Return the batches that could not be counted, stream by stream. The result is secret."""
        found: list[LeftOut] = []
        for name, job in self._jobs.items():
            with _inbox(job) as inbox:
                found += inbox.left_out(name)
        return found

    def rows(self, id: str) -> str:
        """Return the rows of a batch as CSV. The result is secret.

        Raises:
            InvalidInput: there is no such batch.
        """
        (rows,) = unpack_rows([self._find("rows", id).body])
        return rows.frame().collect().write_csv()

    def put_back(self, id: str) -> int:
        """Put a batch back into the inbox, the store of rows that wait to be counted, and return
        its number of rows.

        Raises:
            InvalidInput: there is no such batch.
            StateError: the stream has ended and counts nothing more, or the state is an old copy.
        """
        now = microseconds(datetime.now(UTC))
        return self._perform("put_back", id, lambda inbox, name: inbox.put_back(name, id, now))

    def drop(self, id: str) -> int:
        """Delete a batch, and return its number of rows.

        Raises:
            InvalidInput: there is no such batch.
        """
        return self._perform("drop", id, lambda inbox, name: inbox.drop(name, id))

    def _perform(self, what: str, id: str, work: Callable[[Inbox, str], int]) -> int:
        stream = self._find(what, id).stream
        with _inbox(self._jobs[stream]) as inbox:
            return work(inbox, stream)

    def _find(self, what: str, id: str) -> LeftOut:
        batches = self.all()
        for one in batches:
            if one.id == id:
                return one
        known = ", ".join(one.id for one in batches) or "none"
        raise InvalidInput(
            f"{field(what)} is {quote(id)}, but no batch with this id was left out: {known}"
        )


def _is_begun(job: Job) -> bool:
    """Return whether the stream of a job exists in its state (database)."""
    try:
        with Store(job.keeping.state) as store:
            return store.find(job.keeping.name) is not None
    except NoState:
        return False


def _inbox(job: Job) -> Inbox:
    return Inbox(job.keeping.state, {job.keeping.name: job.keeping.key})

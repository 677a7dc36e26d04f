"""Releases at their time: what waits in the inbox is counted, windows that have ended are released.

When something is done is decided by the clock alone, never by how many rows wait or what they say:
where people are protected, which of a user's rows count hangs on which rows a run is given
together, and one user's rows must not decide that for another.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from time import monotonic

from counton.errors import StateError
from counton.jobs.clock import length_of
from counton.jobs.runs import Outcome, run
from counton.serve.jobs import Served, unpacked
from counton.serve.journaling import note
from counton.store import Store, state_file
from counton.store.inbox import Fold, Inbox
from counton.store.sqlite_file import NoState
from counton.windows import microseconds, moment

Clock = Callable[[], datetime]


def clock() -> datetime:
    """What the clock of this machine says."""
    return datetime.now(UTC)


def released(served: Served) -> int | None:
    """How many steps of a job are released; None where there is no stream yet."""
    place = state_file(served.job.state)
    if place is not None and not place.exists():
        return None
    try:
        with Store(served.job.state) as store:
            found = store.find(served.job.name)
    except NoState:
        return None
    return None if found is None else found.step


def begin(served: Served) -> None:
    """Make the stream of a job, where it is new.

    Raises:
        CountonError: the job does not fit the state, its budget or its key.
    """
    job = served.job
    if released(served) is None:
        try:
            run(served.given([]), now=served.definition.windows.start).close()
        except StateError:
            if released(served) is None:
                raise  # else another server has made it
    with Store(job.state) as store:
        store.secret(job.name, job.key)  # the key is there, and is the stream's


@dataclass
class Counts:
    """What runs have told since the service began. Exact: only for the operator.

    Attributes:
        rows, late, over, known, closed: as of `counton.jobs.Outcome`.
        runs: how many there were.
        releases: steps released.
        failures: runs that failed.
        seconds: of the last run.
    """

    rows: int = 0
    late: int = 0
    over: int = 0
    known: int = 0
    closed: int = 0
    runs: int = 0
    releases: int = 0
    failures: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, float]:
        """By name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


class Releaser:
    """Counts and releases for one job, while it is this process's turn.

    Args:
        served: the job.
        inbox: of its state.
        every: seconds between two folds.
        clock: what time it is.
    """

    def __init__(self, served: Served, inbox: Inbox, every: float, clock: Clock) -> None:
        self._served, self._inbox, self._clock = served, inbox, clock
        self._every = timedelta(seconds=every)
        self.counts = Counts()
        self._next_fold = clock()
        self._step: int | None = None

    @property
    def name(self) -> str:
        """Of the stream."""
        return self._served.job.name

    def forget(self) -> None:
        """Another process may have released: look again."""
        self._step = None

    def work(self) -> bool:
        """Do what is due; whether something was released.

        Raises:
            CountonError: it could not be done; it is still due.
        """
        now = self._clock()
        if not self._due(now) and now < self._next_fold:
            return False
        self._next_fold = now + self._every
        fold = self._inbox.fold(self.name)
        while fold is not None and fold.again:  # what came since is to be in the release too
            self._run(fold, self._before_next())
            fold = self._inbox.fold(self.name)
        return (fold is not None or self._due(now)) and self._run(fold, now)

    def _run(self, fold: Fold | None, now: datetime) -> bool:
        began = monotonic()
        parts = [] if fold is None else unpacked(fold.bodies, fold.digest)
        known = bool(parts) and self._known(parts[0].digest())
        with run(self._served.given([] if known else parts), now=now) as outcome:
            self._step = outcome.after
            self._note(outcome, monotonic() - began)
        if fold is not None:
            self._set_aside(fold)
            self._inbox.taken(self.name, fold.number)
        return outcome.after > outcome.before

    def _before_next(self) -> datetime:
        """A moment at which nothing new is to be released."""
        windows, step = self._served.definition.windows, self._step or 0
        end = int(windows.ends(range(step, step + 1))[0]) if step else microseconds(windows.start)
        return moment(end + self._late())

    def _late(self) -> int:
        watermark = self._served.job.watermark
        return 0 if watermark is None else length_of(watermark)

    def _known(self, digest: str) -> bool:
        """Whether a fold is in the state: all of its parts are, or none."""
        with Store(self._served.job.state) as store:
            return store.has_source(self.name, f"sha256:{digest}")

    def _due(self, now: datetime) -> bool:
        """Whether a window has ended, with its watermark, that is not released."""
        windows = self._served.definition.windows
        if self._step is None:
            self._step = released(self._served) or 0
        ended = windows.ended_by(microseconds(now) - self._late())
        return min(ended, windows.steps) > self._step

    def _note(self, outcome: Outcome, seconds: float) -> None:
        counts, new = self.counts, outcome.after - outcome.before
        counts.runs, counts.seconds = counts.runs + 1, seconds
        counts.releases += new
        counts.rows += outcome.tally.rows
        counts.over += outcome.over
        counts.known += outcome.known
        counts.closed += outcome.closed
        if new:
            counts.late += outcome.late  # now they are counted
            note("released", stream=self.name, step=outcome.after, seconds=round(seconds, 3))

    def _set_aside(self, fold: Fold) -> None:
        """Add rows to the file of those that are set aside; after a crash some may be there twice.

        They say of which batch they are, and which row of it.
        """
        file = self._served.quarantine
        if file is None or not fold.aside:
            return
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            if stream.tell() == 0:
                columns = self._served.definition.columns.names
                writer.writerow(["file", "row", "problem", *columns])
            writer.writerows(fold.aside)

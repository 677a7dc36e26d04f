"""Releases at their time: rows are counted, and windows that have ended are released.

A drain is a set of batches that are counted together. Only times of arrival decide which: time is
divided at fixed multiples of an interval, and when windows are due. The number of rows, their
content and the duration of a run do not matter: if people are protected, the rows of a run decide
together which of a user's rows count, and one user must not decide that for another.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from time import monotonic

from counton.base.errors import ConcurrentWriterError, StateError
from counton.base.private import Private, reveal
from counton.io.sources import InputPart
from counton.run.opened_state import OpenedState
from counton.run.prepared_run import prepare
from counton.run.rows.read_rows import read_rows
from counton.run.run_job import RowCounts, commit, decide, publish_new_steps
from counton.serve.batch_intake import UnderWay
from counton.serve.log_lines import note, warn
from counton.serve.served_jobs import ServedJob, unpack_rows
from counton.state import Store
from counton.state.database import CommitHook
from counton.state.inbox import Inbox, InboxDrain
from counton.state.sqlite_file import NoStateError
from counton.strategies.strategy import last_served_step
from counton.windowing.windows import moment

#: Most windows that a run releases, and most numbers in them: the rest follows in further runs,
#: each committed by itself, so that memory is bounded and a service can end in between.
_RUN_WINDOWS = 10_000
_RUN_NUMBERS = 2**20
#: Number of groups that is assumed for a stream that finds its groups in the rows.
_FOUND_GROUPS = 1_000


@dataclass(frozen=True, repr=False)
class ServiceRun:
    """What a run of a service did.

    Attributes:
        before, after: number of steps released before the run and after it.
        counts: exact numbers of rows, for the operator.
    """

    before: int
    after: int
    counts: Private[RowCounts]

    def confidential_counts(self) -> RowCounts:
        """Return the exact numbers of rows. Only for people who may see the rows."""
        return reveal(self.counts)


def run(
    served: ServedJob,
    parts: Sequence[InputPart],
    now: datetime,
    commit_hook: CommitHook | None = None,
) -> ServiceRun:
    """Count rows of batches, and release the windows that have ended.

    Args:
        served: the job of the service, with its stream.
        parts: the rows; none: windows are released in which nothing happened.
        now: the time up to which windows are released.
        commit_hook: function that writes more into the transaction that counts the rows.

    Raises:
        CountonError: see `counton.run.run_job.run`.
    """
    with OpenedState(served.job) as state:
        rows = served.accepted_rows(parts)
        prepared = prepare(served.job, state, rows, now, writes_files=False)
        rows_read = read_rows(prepared)
        committed = commit(
            prepared, rows_read, decide(prepared, rows_read), commit_hook=commit_hook
        )
        if not prepared.begins_stream:
            publish_new_steps(committed.stream)
        return ServiceRun(state.released, committed.stream.step, committed.counts)


def begin(served: ServedJob) -> None:
    """Create the stream of a job; refuse one that cannot be continued, such as an old copy."""
    if _has_begun(served):
        return
    try:
        run(served, (), served.windows.start)
    except (StateError, ConcurrentWriterError):
        if not _has_begun(served):
            raise  # otherwise another server has created it
    _has_begun(served)


def _has_begun(served: ServedJob) -> bool:
    """Return whether the stream of a job exists.

    Raises:
        NoiseKeyError: the key is missing, or another one.
        StateError: the state is an old copy, or cannot be used.
    """
    try:
        store = Store(served.state)
    except NoStateError:
        return False
    with store:
        reader = store.find(served.stream, served.job.key)
        if reader is None:
            return False
        reader.secret()  # this asks for the key
        store.position(served.stream)  # the state has forgotten nothing
        return True


class Releaser:
    """Worker that counts one job's rows and releases its windows, while its process alone may.

    Args:
        served: the job.
        store: the state.
        inbox: the batches that wait.
        every: length of a drain in seconds.
        under_way: batches that are not committed yet.
        stopping: event after which no further run begins; None: never.

    Attributes:
        counts: exact numbers of rows, runs, releases and failures since the service began, for the
            operator only.
        seconds: duration of the last run.
    """

    def __init__(
        self,
        served: ServedJob,
        store: Store,
        inbox: Inbox,
        every: float,
        under_way: UnderWay,
        stopping: threading.Event | None = None,
    ) -> None:
        self._stopping = threading.Event() if stopping is None else stopping
        self._served = served
        self._store = store
        self._inbox = inbox
        self._under_way = under_way
        self._every = round(every * 1e6)
        self.counts = Counter[str]()
        self.seconds = 0.0
        self._step: int | None = None
        self._over = False

    @property
    def name(self) -> str:
        return self._served.stream

    @cached_property
    def windows(self) -> int:
        """Number of windows that the stream can release."""
        steps = self._served.windows.steps
        return min(steps, last_served_step(self._served.spec.strategy) or steps)

    @cached_property
    def last(self) -> int:
        """When the last window is due; later batches are not taken."""
        ends = self._served.windows.ends(range(self.windows, self.windows + 1))
        return int(ends[0]) + self._served.release_delay

    def forget(self) -> None:
        """Discard what is cached, because another process may have released meanwhile."""
        self._step = None

    def work(self) -> bool:
        """Count and release what is due; return whether a step was released.

        If the stream has ended, the batches that wait are dropped.
        """
        if self._over:
            return False
        try:
            return self._work()
        except StateError:
            stream = self._store.find(self.name)
            if stream is None or stream.public_facts.get("ended") is None:
                raise
        if rows := self._inbox.drop_waiting(self.name):
            warn(
                "rows waited when their stream was ended, and are dropped",
                stream=self.name,
                rows=rows,
            )
        self._over = True  # no batch is taken from now on
        return False

    def _work(self) -> bool:
        """Count each complete drain after the windows that were due before it are released."""
        past = self._under_way.past(self.name)
        released = False
        while (drain := self._inbox.drain(self.name, self._cut, past)) is not None:
            # The last window waits until no more batches are taken, whatever is drained before.
            released |= self._release(min(drain.first, self.last - 1))
            if self._stopping.is_set():
                return released
            us = min(self._cut(drain.last), self.last - 1)
            released |= self._run(drain, us)
        if past >= self.last and self._due(past) and not self._inbox.close_stream(self.name):
            past = self.last - 1  # another server has taken a batch that came in time
        return self._release(past) or released

    def _cut(self, us: int) -> int:
        """Return the end of the drain of ``us``: the next multiple, or when a window is due."""
        windows = self._served.windows
        drain_end = (us // self._every + 1) * self._every
        ended = windows.ended_by(us - self._served.release_delay)
        if ended >= self.windows:
            return drain_end
        end = int(windows.ends(range(ended + 1, ended + 2))[0])
        return min(drain_end, end + self._served.release_delay)

    def _release(self, us: int) -> bool:
        """Release the windows due at ``us``, some in each run; return whether there was one."""
        released = False
        until = min(us, self.last)
        while self._due(us) and not self._stopping.is_set():
            assert self._step is not None
            last_window = min(self._step + self._windows_of_run, self.windows)
            end = int(self._served.windows.ends(range(last_window, last_window + 1))[0])
            end += self._served.release_delay
            if not self._run(None, min(until, end)):
                break
            released = True
        return released

    @cached_property
    def _windows_of_run(self) -> int:
        """Largest number of windows that a run releases."""
        spec = self._served.spec
        numbers = math.prod(spec.shape) * (self._served.windows.n_revisions + 1)
        if spec.discovers_groups:
            numbers *= _FOUND_GROUPS
        return min(max(_RUN_NUMBERS // max(numbers, 1), 1), _RUN_WINDOWS)

    def _run(self, drain: InboxDrain | None, us: int) -> bool:
        """Count a drain, and release the windows due; return whether a step was released."""
        began = monotonic()
        parts = [] if drain is None else unpack_rows(drain.bodies)
        take_batches = None if drain is None else partial(self._inbox.remove, drain=drain)
        result = run(self._served, parts, moment(us), commit_hook=take_batches)
        self._step = result.after
        self.seconds = monotonic() - began
        new = result.after - result.before
        self._add_counts(result.confidential_counts(), new)
        if new:
            seconds = round(self.seconds, 3)
            note("released", stream=self.name, step=result.after, seconds=seconds)
        return new > 0

    def _add_counts(self, exact: RowCounts, new_steps: int) -> None:
        choice = exact.input.choice
        self.counts.update(runs=1, releases=new_steps, rows=exact.rows.read)
        self.counts.update(over=choice.beyond_bound, known=choice.duplicates)
        self.counts.update(closed=choice.after_final + exact.input.after_final)
        if new_steps:
            self.counts["late"] += exact.input.late_uncounted  # they are counted now

    def due_by(self, us: int) -> int:
        """Return how many windows are due, after the wait for late rows, released or not."""
        return min(self._served.windows.ended_by(us - self._served.release_delay), self.windows)

    def _due(self, us: int) -> bool:
        """Return whether an unreleased window is due."""
        if self._step is None:
            stream = self._store.find(self.name)
            self._step = 0 if stream is None else stream.step
        return self.due_by(us) > self._step

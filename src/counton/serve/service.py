"""A service: its streams, and its threads for intake and releases."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from time import monotonic

from polars.exceptions import PanicException

from counton.base.errors import (
    ConcurrentWriterError,
    CountonError,
    InvalidInputError,
    NoiseKeyError,
    StateError,
)
from counton.serve.access import Access
from counton.serve.batch_intake import Clock, Committer, UnderWay
from counton.serve.log_lines import note, warn
from counton.serve.public_series import Journal
from counton.serve.read_paths import OLD_STATE_ANSWER
from counton.serve.release_times import Releaser, begin
from counton.serve.served_jobs import ServedJob, about, prepare_jobs
from counton.serve.settings import Settings, settings_of
from counton.serve.steady_clock import SteadyClock, machine_clock, machine_seconds
from counton.serve.tokens import tokens_of
from counton.state import Store
from counton.state.inbox import Inbox
from counton.state.lease import LEASE_SECONDS, Leases
from counton.state.rollback_guard import remark_on_guard
from counton.windowing.windows import microseconds

#: Seconds between two checks for due work, and the longest wait after a failure.
_TICK_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 60.0
#: Seconds between two readings of the journal.
_READING_SECONDS = 0.5
#: Seconds between two attempts to begin a job that failed for a passing reason.
_RETRY_SECONDS = 5.0
_TRANSIENT_ERRORS = (StateError, ConcurrentWriterError, NoiseKeyError)
#: After this many failures in a row another server may try.
_FAILURES_BEFORE_HANDOVER = 3
#: Tolerated difference of several servers' clocks, in microseconds.
_CLOCK_TOLERANCE_US = 60_000_000
#: Message if the clock was ahead before, or is behind now.
CLOCK_BEHIND = (
    "windows are released whose end the clock of this machine has not reached, so the clock was "
    "fast or is slow: nothing more is released until it reaches their end; set the clock"
)
#: Message while the machine's clock is ahead of the time that the service uses.
CLOCK_JUMPED = (
    "the clock of this machine has jumped ahead, which would end windows too early: until that has "
    "lasted for ten minutes, the service goes on from the time before. Set the clock; or, if it is "
    "right, start the service again to accept it now"
)
#: Message if windows are not released in time, and the longest delay that is none.
OVERDUE = (
    "windows have been due for more than five minutes and are not released: the service catches "
    "up, another server has stopped, or a run hangs; see the log"
)
_LONGEST_DELAY = timedelta(minutes=5)
#: How long ids of batches are known, so that one sent twice counts once, in microseconds: 35 days.
_REMEMBERED_US = 35 * 86_400_000_000
#: Largest number of batches of a state that wait for their commit.
_MOST_WAITING_BATCHES = 1024


class State:
    """One state database with its inbox and the right to release its streams.

    Of several servers that share it, one at a time has this right, the lease.
    """

    def __init__(self, address: str, name: str) -> None:
        self.leases = Leases(address, [name])
        try:
            if self.leases.is_exclusive:
                self.leases.take()
            self.inbox = Inbox(address)
        except BaseException:
            self.leases.close()
            raise
        self.store = Store(address)
        self.committer = Committer(self.inbox, _MOST_WAITING_BATCHES)
        self.waiting_bytes = 0
        self.leads: frozenset[str] = frozenset()  # streams that this process may release

    def close(self) -> None:
        """Commit the batches that wait, and close the database."""
        self.committer.close()
        self.inbox.close()
        self.store.close()
        self.leases.close()


class Service:
    """The streams, settings and threads that all paths of a service share.

    Args:
        file: the job file.
        only: names of the jobs to serve; none: all.
        clock: function that returns the time.
        seconds: function that returns the seconds of a clock that is never set, against which
            ``clock`` is checked; None: that of the machine, or none with another ``clock``.

    Raises:
        InvalidInputError: a setting is out of range, or a file cannot be read.
        CountonError: no job can run, for instance because another process serves their state.
    """

    def __init__(
        self,
        file: str | Path,
        only: str | Sequence[str] | None = None,
        clock: Clock = machine_clock,
        seconds: Callable[[], float] | None = None,
    ) -> None:
        if seconds is None and clock is machine_clock:
            seconds = machine_seconds
        #: The clock that is checked; None if there is nothing to check it against.
        self.steady = None if seconds is None else SteadyClock(clock, seconds)
        self.settings: Settings = settings_of(file)
        self.access = Access(tokens_of(self.settings.tokens), self.settings.public)
        self.clock: Clock = clock if self.steady is None else self.steady
        self.began = monotonic()
        self.under_way = UnderWay(self.clock)
        self._jobs = partial(prepare_jobs, file, only)
        jobs, self.failed = self._jobs()
        self.served: dict[str, ServedJob] = {}
        self.states: dict[str, State] = {}
        self.releasers: dict[str, Releaser] = {}
        self.journals: dict[str, Journal] = {}
        self.stopping = threading.Event()
        #: Names of streams whose journals could not be read when they were last looked at.
        self.unreadable = set[str]()
        self._threads: list[threading.Thread] = []
        self._wait: dict[str, tuple[int, float]] = {}
        try:
            self._begin(jobs)
            if not self.served:
                first, *more = self.failed.values()
                raise type(first)("\n".join(map(str, (first, *more))))
        except BaseException:
            self.close()
            raise

    def _begin(self, jobs: Mapping[str, ServedJob]) -> None:
        """Serve jobs; note the error of each that fails."""
        for name, served in jobs.items():
            try:
                with about(served.called):
                    begin(served)
                    self._open_stream(name, served)
            except CountonError as error:
                self.failed[name] = error
            else:
                self.served[name] = served
                self.failed.pop(name, None)

    def _open_stream(self, name: str, served: ServedJob) -> None:
        address = served.state
        if address not in self.states:
            self.states[address] = State(address, name)
        state = self.states[address]
        if name not in state.leases.names:
            state.leases.add(name)
        self.releasers[name] = Releaser(
            served,
            state.store,
            state.inbox,
            self.settings.fold_seconds,
            self.under_way,
            self.stopping,
        )
        self.journals[name] = Journal(
            state.store, name, key=served.job.key, release_delay=served.release_delay
        )

    @property
    def remarks(self) -> list[str]:
        """Sentences for the operator: places of rollback guards, ended streams, and failed jobs."""
        ended = [
            f"job {self.served[name].called!r}: stream {name!r} is closed at window "
            f"{journal.spec.closed_at_step:,}: what it released is shown, and it takes no rows"
            for name, journal in list(self.journals.items())
            if journal.spec.closed_at_step is not None
        ]
        reasons = [
            remark_on_guard(
                served.state,
                served.job.rollback_guard,
                opened=self.states[served.state].store.database,
            )
            for served in self.served.values()
        ]
        guards = [str(InvalidInputError(why)) for why in dict.fromkeys(reasons) if why is not None]
        return [*guards, *ended, *map(str, self.failed.values())]

    def state_of(self, name: str) -> State:
        return self.states[self.served[name].state]

    def why_closed(self, name: str, came: int) -> str | None:
        """Return why a stream does not take a batch; it may still close before the commit."""
        closed_at_step = self.journals[name].spec.closed_at_step
        releaser = self.releasers[name]
        if closed_at_step is not None:
            return f"the stream is closed at window {closed_at_step:,}; send rows to another stream"
        if came >= releaser.last:
            return (
                f"the last of the {releaser.windows:,} windows of the stream was due at "
                f"{self.served[name].windows.format_moment(releaser.last)}; begin another stream"
            )
        return None

    @property
    def why_not_ready(self) -> str | None:
        """Return why the service is not ready, without the name of a stream."""
        if self.stopping.is_set():
            return "the service stops"
        if any(not thread.is_alive() for thread in self._threads):
            return "a thread of the service has failed: see the log, and start the service again"
        if any(failures >= _FAILURES_BEFORE_HANDOVER for failures, _ in list(self._wait.values())):
            return "runs of a stream fail again and again: see the log"
        if any(journal.refused for journal in list(self.journals.values())):
            return OLD_STATE_ANSWER
        if self.unreadable:
            return "the state of a stream cannot be read: see the log"
        if any(state.committer.has_failed for state in list(self.states.values())):
            return "batches cannot be saved: see the log"
        if self.steady is not None and self.steady.is_ahead:
            return CLOCK_JUMPED
        if self._ahead_of_clock():
            return CLOCK_BEHIND
        return OVERDUE if self._is_overdue() else None

    def _is_overdue(self) -> bool:
        """Return whether a window has been due for long, and is not released."""
        latest = self.clock() - _LONGEST_DELAY
        for journal in list(self.journals.values()):
            due = journal.due(journal.step + 1)
            if due is not None and due <= latest:
                return True
        return False

    def _ahead_of_clock(self) -> set[str]:
        """Return the streams with released windows that have not ended by the clock.

        The clock was ahead, or has been set back. Nothing is released until it reaches their end.
        """
        now = microseconds(self.clock()) + _CLOCK_TOLERANCE_US
        return {
            name
            for name, journal in list(self.journals.items())
            if journal.spec.closed_at_step is None
            and self.releasers[name].due_by(now) < journal.step
        }

    def is_old_copy(self, name: str) -> bool:
        """Return whether a stream's state is an old copy."""
        with suppress(CountonError):
            self.journals[name].refresh()
        return self.journals[name].refused

    def start(self) -> None:
        """Start two threads for each database: one releases, the other renews the right to."""
        self._start(self.states.values())
        note("started", streams=sorted(self.served))
        for name, error in sorted(self.failed.items()):
            warn("a job cannot run", stream=name, error=type(error).__name__)

    def _start(self, states: Iterable[State]) -> None:
        for state in states:
            for work, called in ((self._release, "release"), (self._hold, "leases")):
                thread = threading.Thread(target=work, args=(state,), name=called, daemon=True)
                thread.start()
                self._threads.append(thread)

    def _begin_failed(self) -> None:
        """Try again the jobs whose database could not be used at the start."""
        waiting = {
            name for name, error in self.failed.items() if isinstance(error, _TRANSIENT_ERRORS)
        }
        if not waiting:
            return
        addresses = set(self.states)
        self._begin({name: job for name, job in self._jobs()[0].items() if name in waiting})
        self._start(state for address, state in self.states.items() if address not in addresses)
        for name in sorted(waiting - self.failed.keys()):
            note("a job can run now", stream=name)

    def stop(self) -> None:
        """Tell the releasing threads to stop after their present work."""
        self.stopping.set()

    def close(self) -> None:
        """Wait for threads, and close all states."""
        self.stopping.set()
        for thread in self._threads:
            thread.join()
        for state in self.states.values():
            state.close()

    def _hold(self, state: State) -> None:
        """Renew the right to release a database until the service stops.

        It runs in a thread of its own, so that a long run does not lose the right.
        """
        while not self.stopping.is_set():
            leads = state.leases.renew(self._left_to_others(state))
            for name in sorted(leads ^ state.leads):
                note("releases" if name in leads else "does not release", stream=name)
            state.leads = leads
            self.stopping.wait(LEASE_SECONDS / 4)

    def _left_to_others(self, state: State) -> frozenset[str]:
        """Return the streams that this server leaves to others: they cannot run, or failed.

        For jobs that failed, the server asks again when the next run is due.
        """
        now = monotonic()
        failing = [
            name
            for name, (failures, until) in list(self._wait.items())
            if failures >= _FAILURES_BEFORE_HANDOVER and now < until
        ]
        return frozenset({*failing, *(state.leases.names - self.served.keys())})

    def _release(self, state: State) -> None:
        led = frozenset[str]()
        looked = 0.0
        forgot = 0.0
        while not self.stopping.is_set():
            now_led = state.leads
            for name in sorted(now_led & self.served.keys()):
                if name not in led:
                    self.releasers[name].forget()
                self._work(self.releasers[name])
            led = now_led
            now = monotonic()
            with suppress(CountonError):
                if now - looked > _READING_SECONDS:
                    state.waiting_bytes = state.inbox.load().bytes
                    looked = now
                if led and now - forgot > 3600:
                    state.inbox.forget(microseconds(self.clock()) - _REMEMBERED_US)
                    forgot = now
            self.stopping.wait(_TICK_SECONDS)

    def _work(self, releaser: Releaser) -> None:
        failures, until = self._wait.get(releaser.name, (0, 0.0))
        if monotonic() < until:
            return
        try:
            releaser.work()
        except (Exception, PanicException) as error:
            releaser.counts["failures"] += 1
            releaser.forget()
            wait = min(_LONGEST_WAIT_SECONDS, 0.5 * 2**failures)
            self._wait[releaser.name] = (failures + 1, monotonic() + wait)
            warn(
                "a run failed",
                stream=releaser.name,
                error=type(error).__name__,
                again_in_seconds=wait,
            )
        else:
            self._wait[releaser.name] = (0, 0.0)

    async def _refresh(self, name: str, journal: Journal) -> None:
        """Read the new steps of a stream, and note whether it can be read."""
        try:
            await asyncio.to_thread(journal.refresh)
        except (Exception, PanicException) as error:  # after any error it looks again
            if name not in self.unreadable:
                warn("a stream cannot be read", stream=name, error=type(error).__name__)
            self.unreadable.add(name)
        else:
            self.unreadable.discard(name)

    async def watch(self) -> None:
        """Look for new releases until the service stops.

        Jobs that could not begin are tried again, and the log warns of windows released ahead of
        the clock.
        """
        ahead = set[str]()
        has_jumped = False
        tried = monotonic()
        while not self.stopping.is_set():
            if monotonic() - tried > _RETRY_SECONDS:
                with suppress(Exception):
                    await asyncio.to_thread(self._begin_failed)
                tried = monotonic()
            had_jumped = has_jumped
            has_jumped = self.steady is not None and self.steady.is_ahead
            if has_jumped and not had_jumped:
                warn(CLOCK_JUMPED)
            if had_jumped and not has_jumped:
                note("the clock and the time of the service agree again")
            before = ahead
            ahead = self._ahead_of_clock()
            for name in sorted(ahead - before):
                warn(CLOCK_BEHIND, stream=name)
            for name, journal in list(self.journals.items()):
                await self._refresh(name, journal)
            await asyncio.sleep(_READING_SECONDS)

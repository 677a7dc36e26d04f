"""Batches on their way in: checked by the job's reading, then committed, then acknowledged."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime
from typing import Any

import polars as pl

from counton.errors import InvalidInput, field
from counton.events.files import Source
from counton.events.policies import MOST
from counton.events.tally import Problem, collected, marked, tally
from counton.jobs.discovery import labels_in
from counton.serve.bodies import read_rows
from counton.serve.jobs import Served, Waiting, packed
from counton.store.inbox import Batch, Inbox, Verdict
from counton.windows import NO_MOMENT, microseconds

Clock = Callable[[], datetime]
#: Batches that are committed together at most.
_TOGETHER = 256
_FOREVER = 2**63


class Full(Exception):
    """So much waits already that nothing more is taken now."""


def digest_of(media: str, body: bytes) -> bytes:
    """Of what was sent, whatever its compression."""
    return hashlib.sha256(f"{media}\n".encode() + body).digest()


def checked_batch(
    served: Served, id: str, media: str, body: bytes, digest: bytes, most: int, now: int
) -> Batch:
    """A batch whose rows the job can count, by its policies.

    Args:
        served: the job.
        id: of the batch.
        media: media type of the body.
        body: without compression.
        digest: of it.
        most: rows.
        now: microseconds since 1970.

    Raises:
        TooLarge: more rows.
        InvalidInput: rows that the job refuses, naming the first and the remedy; nothing is taken.
    """
    reading, definition = served.reading, served.definition
    part = read_rows(body, media, definition.columns.names, most, "the batch")
    source = Source((part,), part.name)
    domain = definition.domain
    if definition.discovery is not None:
        domain = labels_in(source, reading, ())
    bad = _bad_rows(source, served)
    aside: list[tuple[Any, ...]] = []
    frame = part.frame().collect()
    whole = frame.height
    if bad.height:
        if reading.policies.quarantine is None:
            tally(source, reading, domain)  # refuses, unless such rows are skipped
        else:
            aside = _aside(served, id, frame, bad)
        frame = frame.filter(~pl.int_range(pl.len()).is_in(bad["row"].to_list()))
        source = Source((Waiting(frame, part.name),), part.name)
    found = tally(source, reading, domain)
    if found.beyond:
        end = definition.windows.at(definition.windows.end)
        raise InvalidInput(
            f"{found.beyond:,} rows of the batch are after the last window, which ends {end}, so "
            f"that they would be counted nowhere; correct their times, or send them to a "
            f"stream that goes on"
        )
    left = {
        "before_first_window": found.before,
        "of_undeclared_groups": found.unknown,
        "lacking_something": bad.height - len(aside),
        "set_aside": len(aside),
    }
    answer = {
        "batch": id,
        "rows": whole,
        "counted": whole - sum(left.values()),
        "counted_nowhere": {name: rows for name, rows in left.items() if rows},
    }
    return Batch(served.job.name, id, digest, now, answer, whole, packed(frame), aside)


def _bad_rows(source: Source, served: Served) -> pl.DataFrame:
    """Numbers of rows that cannot be counted, from 0, and what is wrong with each."""
    steps = collected(source, marked(source, served.reading).select("step"))["step"]
    rows = (steps < NO_MOMENT).arg_true()
    problem = NO_MOMENT - steps.gather(rows)
    return pl.DataFrame({"row": rows.cast(pl.Int64), "problem": problem})


_LACKING = [
    int(problem)
    for problem in (
        *(Problem.NO_TIME, Problem.NO_GROUP, Problem.NO_VALUE),
        *(Problem.NO_USER, Problem.NO_ID),
    )
]


def _aside(
    served: Served, id: str, frame: pl.DataFrame, bad: pl.DataFrame
) -> list[tuple[Any, ...]]:
    """Rows to be set aside; none of those that lack something where these are skipped.

    Raises:
        InvalidInput: too many of them.
    """
    policies = served.reading.policies
    if policies.missing == "skip":
        bad = bad.filter(~pl.col("problem").is_in(_LACKING))
    if not bad.height:
        return []
    if bad.height > policies.most:
        raise InvalidInput(
            f"{bad.height:,} rows of the batch cannot be counted, and {policies.most:,} may be set "
            f"aside; look at them, or raise {field('bad_rows_most', MOST)}"
        )
    cells = frame[bad["row"].to_list()]
    return [
        (f"batch {id}", int(number) + 1, Problem(int(why)).words, *map(_text, values))
        for (number, why), values in zip(bad.rows(), cells.rows(), strict=True)
    ]


def _text(value: object) -> str | None:
    return None if value is None else str(value)


class UnderWay:
    """Batches that have come whole and are not committed yet, by the time at which they came.

    A fold waits for those that came before it ends: how long one sender's rows take to be checked
    decides not with which rows another one's are counted.

    Args:
        clock: what time it is.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._came: dict[str, Counter[int]] = {}

    def enter(self, stream: str) -> int:
        """A batch has come; when that was, in microseconds since 1970."""
        with self._lock:
            now = microseconds(self._clock())
            self._came.setdefault(stream, Counter())[now] += 1
        return now

    def leave(self, stream: str, came: int) -> None:
        """It is committed, or is not taken."""
        with self._lock:
            self._came[stream][came] -= 1
            if not self._came[stream][came]:
                del self._came[stream][came]

    def past(self, stream: str) -> int:
        """Until when nothing is under way: now, or when the earliest came that is."""
        with self._lock:
            return min(microseconds(self._clock()), *self._came.get(stream, ()), _FOREVER)


class Committer:
    """Commits batches of all who wait, together, one transaction after the other.

    Args:
        inbox: of a state.
        most: batches that may wait to be committed.
        broken: told what went wrong where a transaction failed.
    """

    def __init__(self, inbox: Inbox, most: int, broken: Callable[[Exception], None]) -> None:
        self._inbox, self._broken = inbox, broken
        self._queue: queue.Queue[tuple[Batch, Future[Verdict]] | None] = queue.Queue(most)
        self._thread = threading.Thread(target=self._work, name="inbox", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> Future[Verdict]:
        """What becomes of a batch, once it is committed.

        Raises:
            Full: too many wait.
        """
        done: Future[Verdict] = Future()
        try:
            self._queue.put_nowait((batch, done))
        except queue.Full:
            raise Full from None
        return done

    def close(self) -> None:
        """Commit what waits, and end."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            together, last = [first], False
            while len(together) < _TOGETHER:
                try:
                    one = self._queue.get_nowait()
                except queue.Empty:
                    break
                if one is None:
                    last = True
                    break
                together.append(one)
            self._commit(together)
            if last:
                return

    def _commit(self, together: list[tuple[Batch, Future[Verdict]]]) -> None:
        try:
            verdicts = self._inbox.put([batch for batch, _ in together])
        except Exception as error:
            self._broken(error)
            for _, done in together:
                done.set_exception(error)
            return
        for (_, done), verdict in zip(together, verdicts, strict=True):
            done.set_result(verdict)

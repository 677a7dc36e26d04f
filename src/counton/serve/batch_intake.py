"""Intake of batches: checked by their job's policies, committed, then acknowledged."""

from __future__ import annotations

import math
import queue
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from time import monotonic
from typing import Any

import polars as pl

from counton.base.exact import LARGEST_SENT_SHARE, refuse_overflow
from counton.base.private import Private, reveal
from counton.io.aggregation import sum_rows
from counton.io.row_assignment import assign_rows
from counton.io.sources import Source
from counton.run.counting.exactness import (
    AddedSums,
    accumulator_sizes,
    refuse_inexact_totals,
    shares_of_bounds,
)
from counton.run.rows.discovered_groups import find_group_names
from counton.serve.bodies import read_rows
from counton.serve.log_lines import warn
from counton.serve.served_jobs import ServedJob, pack_rows
from counton.serve.settings import BATCH_ROWS
from counton.state.inbox import Batch, BatchStatus, Inbox
from counton.state.stream_reader import Amounts
from counton.windowing.windows import microseconds

Clock = Callable[[], datetime]
#: Largest number of batches that are committed together.
_BATCHES_PER_COMMIT = 256
_ENDLESS_US = 2**63
#: Microseconds within which a batch that has arrived is committed.
_LONGEST_COMMIT_US = 3_600_000_000
#: Seconds for which a failed commit counts as the present state of affairs.
_RECENT_SECONDS = 30.0


def checked_batch(
    served: ServedJob,
    id: str,
    sent: bytes,
    digest: bytes,
    now: int,
) -> Batch:
    """Return a batch that its job's policies allow, ready to be committed.

    ``sent`` are its decompressed rows; it came at ``now``, in microseconds since 1970.

    Raises:
        TooLargeError: there are too many rows.
        InvalidInputError: the message names the first refused row and the remedy; or sums would be
            too large. Nothing is taken.
    """
    mapping = served.mapping
    spec = served.spec
    groups = spec.terms.groups.names
    skips = mapping.policies.missing == "drop"
    part = read_rows(sent, mapping.columns.names, BATCH_ROWS, "the batch", skips=skips)
    source = Source((part,), part.name)
    if spec.discovers_groups:
        groups = find_group_names(source, mapping, ()).all
    # Read all that a run reads of a row, so that no row is accepted that a run could not read.
    read = assign_rows(source, mapping).collect(engine="in-memory")
    bad = read["window"] < 0  # it is the code of a row's problem
    if bad.any():
        sum_rows(source, mapping, groups)  # refuses bad rows, unless they are skipped
    frame = _with_moments(part.frame().collect(), read["us"], served).filter(~bad)
    counted = reveal(sum_rows(source, mapping, groups, assigned=read.filter(~bad)))
    due = now - served.release_delay
    shares = _shares_of_sums(served, counted.cells, due)
    ignored = {
        "before_first_window": counted.before_start,
        "after_last_window": counted.after_last_window,
        "of_undeclared_groups": counted.unlisted,
        "lacking_something": int(bad.sum()),
    }
    answer = {
        "batch": id,
        "rows": read.height,
        "counted": read.height - sum(ignored.values()),
        "counted_nowhere": {name: rows for name, rows in ignored.items() if rows},
    }
    return Batch(
        stream=served.stream,
        id=id,
        digest=digest,
        arrived=now,
        answer=answer,
        rows=read.height,
        body=pack_rows(frame),
        shares=Private(shares),
        first_open_window=served.windows.ended_by(due - _LONGEST_COMMIT_US),
    )


def _shares_of_sums(served: ServedJob, sums: pl.DataFrame, due: int) -> dict[int, float]:
    """Return the shares of what sums can hold that a batch takes; refuse sums that are too large.

    Args:
        served: the job.
        sums: the sums of the batch, by window and cell.
        due: windows that ended by this time, in microseconds since 1970, have been released.
    """
    spec = served.spec
    sizes_of_cells = sums.group_by("cell").agg(pl.col("total").cast(pl.Float64).abs().sum())
    largest: Any = sizes_of_cells["total"].max()
    sizes_of_accumulators = accumulator_sizes(sums, spec.terms.group_statistic.n_accumulators)
    refuse_inexact_totals(
        spec, AddedSums(int(largest or 0), sizes_of_accumulators), Amounts(0, 0.0)
    )
    # Late rows are released with the next window that is due.
    window = pl.max_horizontal("window", served.windows.ended_by(due) + 1).alias("window")
    shares = shares_of_bounds(spec, served.bounds, sums.with_columns(window))
    refuse_overflow(
        max(shares.values(), default=0.0),
        LARGEST_SENT_SHARE,
        lambda: (
            f"the rows of the batch add up to more than {LARGEST_SENT_SHARE} of what the sums of "
            "the stream can hold, which is the most that a service takes: correct the rows, or "
            "count in larger units"
        ),
    )
    return shares


def _with_moments(frame: pl.DataFrame, us: pl.Series, served: ServedJob) -> pl.DataFrame:
    """Replace a column of times by parsed ones, so that later runs need not parse it.

    One that is also the group, the user, the id or a value stays as it is.
    """
    columns = served.mapping.columns
    if columns.time in ("", columns.group, *columns.parts, columns.user, columns.id):
        return frame
    return frame.with_columns(us.cast(pl.Datetime("us", "UTC")).alias(columns.time))


class UnderWay:
    """Times of arrival of batches that have been received, but are not yet committed.

    A drain of batches that are counted together waits for all that arrived earlier. So the time
    that it takes to check one sender's rows does not decide which rows of others are counted
    together.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._came: dict[str, Counter[int]] = {}

    def enter(self, stream: str) -> int:
        """Note that a batch arrives; return the time in microseconds since 1970."""
        with self._lock:
            now = microseconds(self._clock())
            self._came.setdefault(stream, Counter())[now] += 1
        return now

    def leave(self, stream: str, came: int) -> None:
        """Note that the batch which arrived at ``came`` is committed, or refused."""
        with self._lock:
            self._came[stream][came] -= 1
            if not self._came[stream][came]:
                del self._came[stream][came]

    def past(self, stream: str) -> int:
        """Return the arrival of the oldest batch under way, or the present time."""
        with self._lock:
            return min(microseconds(self._clock()), *self._came.get(stream, ()), _ENDLESS_US)


class Committer:
    """A thread that commits the batches of all waiting senders together.

    Args:
        inbox: where they are committed.
        most: most batches that may wait.
    """

    def __init__(self, inbox: Inbox, most: int) -> None:
        self._inbox = inbox
        self._queue: queue.Queue[tuple[Batch, Future[BatchStatus]] | None] = queue.Queue(most)
        self._failed_at = -math.inf
        self._thread = threading.Thread(target=self._work, name="inbox", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> Future[BatchStatus]:
        """Queue a batch; the verdict says whether the inbox took it.

        Raises:
            queue.Full: too many batches wait to be committed.
        """
        done: Future[BatchStatus] = Future()
        self._queue.put_nowait((batch, done))
        return done

    @property
    def has_failed(self) -> bool:
        """Whether the last commit has failed, a short time ago."""
        return monotonic() - self._failed_at < _RECENT_SECONDS

    def close(self) -> None:
        """Commit the batches that wait, and end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            items: list[tuple[Batch, Future[BatchStatus]] | None] = [first]
            with suppress(queue.Empty):
                while items[-1] is not None and len(items) < _BATCHES_PER_COMMIT:
                    items.append(self._queue.get_nowait())
            together = [item for item in items if item is not None]
            try:
                verdicts = self._inbox.put([batch for batch, _ in together])
            except Exception as error:
                warn("batches could not be committed", error=type(error).__name__)
                for _, done in together:
                    done.set_exception(error)
                self._failed_at = monotonic()
            else:
                self._failed_at = -math.inf
                for (_, done), verdict in zip(together, verdicts, strict=True):
                    done.set_result(verdict)
            if items[-1] is None:
                return

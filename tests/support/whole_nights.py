"""Nights whose inputs hold all rows of the windows that they cover, and how far one event moves
what they release.
"""

import re
import sqlite3
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from folders import job_folder
from keys import chosen_key
from neighbouring_jobs import declared, distance_of, measured
from revised_jobs import COLUMNS, Nights, Row

from counton.base.errors import InvalidInputError
from counton.continual.checkpoint import arrivals_of
from counton.run import Job, run
from counton.run.spec.stream_spec import StreamSpec
from counton.state import Store, Stream

#: Where an event is on a night: its time in windows (3.5: in the middle of the third), its group
#: and, unless it is 1, its value; None: the input lacks it.
Place = tuple[Any, ...] | None


#: Options of windows that are released once.
CLOSED: dict[str, Any] = {"series": "per-window", "windows": 40}
_QUERY = """SELECT * FROM e WHERE strftime('%s', at) >= strftime('%s', {since})
    AND strftime('%s', at) < strftime('%s', {until})"""


@dataclass(frozen=True)
class Calendar:
    """Windows of a day or of six hours by the clocks of a zone; their edges are computed here."""

    every: str = "1d"
    start: str = "2024-03-01"
    zone: str = "UTC"

    @cached_property
    def edges(self) -> list[float]:
        """Where window k + 1 begins, in seconds."""
        begin = datetime.fromisoformat(self.start)
        zone = ZoneInfo(self.zone)
        days = [(begin + timedelta(n)).replace(tzinfo=zone).timestamp() for n in range(60)]
        return days if self.every == "1d" else [days[0] + 21600 * n for n in range(60)]

    def text(self, windows: float) -> str:
        """The time so many windows after the start, to the second."""
        whole = int(windows)
        begin, end = self.edges[whole : whole + 2]
        moment = int(begin + (windows - whole) * (end - begin))
        return datetime.fromtimestamp(moment, UTC).isoformat()

    def local(self, windows: float) -> datetime:
        return datetime.fromisoformat(self.text(windows)).astimezone(ZoneInfo(self.zone))

    def reaches(self, covers: str, last: int) -> list[float]:
        """The moments from which on an input may have its rows; two if clocks change meanwhile."""
        amount = int(covers[:-1])
        days = covers.endswith("d")
        hours = self.edges[last] - amount * (86400 if days else 3600)
        then = self.local(last).replace(tzinfo=None) - timedelta(amount)
        clock = then.replace(tzinfo=ZoneInfo(self.zone)).timestamp()
        return [clock] if self.every == "1d" and days else [clock, hours] if days else [hours]


class Night(NamedTuple):
    """A run: the rows of others in its input, how many windows have ended, what it covers (a length
    or a number of days), the moment before which its input has no rows, and after how many
    transactions it is killed.
    """

    rows: list[Row]
    until: float
    covers: str | int | None
    begins: float = 0
    dies: int | None = None


def covered(
    night: Night, released: int, calendar: Calendar = Calendar(), watermark: int = 0, first: int = 1
) -> range:
    """The windows of which a night's input holds all rows, by the rule of the promise.

    Args:
        watermark: hours by which windows are released later.
        first: the first window of an input that does not say what it covers.
    """
    last, ended = (
        max(bisect_right(calendar.edges, moment + 0.5) - 1, released)
        for until in [datetime.fromisoformat(calendar.text(night.until)).timestamp()]
        for moment in (until, until - 3600 * watermark)
    )
    if night.covers is not None:
        covers = night.covers if isinstance(night.covers, str) else f"{night.covers}d"
        first = 1 + bisect_left(calendar.edges, max(calendar.reaches(covers, last)))
    return range(first, ended + 1)


def changes_of(
    event: Sequence[Place],
    nights: Sequence[Night],
    steps: Sequence[int] | None = None,
    covers: Sequence[range] | None = None,
) -> int:
    """How often the event changes, among releasing nights, after the first that counts it.

    ``steps``: what is released after each night; ``covers``: the windows that each covers.
    """
    released = 0
    known = dict[int, Place]()
    seen = False
    changes = 0
    for number, where in enumerate(event):
        after = max(int(nights[number].until), released) if steps is None else steps[number]
        windows = covered(nights[number], released) if covers is None else covers[number]
        windows = range(windows.start, min(windows.stop, after + 1))
        if after > released:
            now = where if where is not None and int(where[0]) in windows else None
            before = {known[one] for one in windows if known.get(one)}
            changes += seen and before != ({now} - {None})
            seen = seen or now is not None
            known |= dict.fromkeys(windows)
            if now is not None:
                known[int(now[0])] = now
        released = after
    return changes


class _Killed(BaseException):
    """The end of a process."""


@contextmanager
def _killed(after: int | None) -> Iterator[None]:
    """The process ends after so many transactions, each of which releases one window."""
    take = Stream.commit
    left = [np.inf if after is None else after]

    def takes(*given: Any, **more: Any) -> None:
        if not left[0]:
            raise _Killed
        left[0] -= 1
        take(*given, **more)

    with pytest.MonkeyPatch.context() as patch, suppress(_Killed):
        patch.setattr("counton.run.counting.step_inputs._VALUES_OF_TRANSACTION", 1)
        patch.setattr(Stream, "commit", takes)
        yield


def released(
    nights: Sequence[Night],
    event: Sequence[Place | Sequence[Place]] | None = None,
    what: str = "count",
    calendar: Calendar = Calendar(),
    door: str = "frame",
    **options: Any,
) -> Nights:
    """What whole jobs release under one key; ``event`` is one more row, or those of a person.

    What is told of each night is the number of windows released by then; None: it was refused.
    """
    told = list[int | None]()
    with job_folder() as folder:
        state = Path(folder, "s.db")
        for number, night in enumerate(nights):
            rows = [*night.rows]
            for where in _places(event[number]) if event is not None else ():
                at, group, value = (*where, 1.0)[:3]
                rows.append((at, group, "someone", "new", value))
            found = _frame(rows, calendar, added_up=door == "counts")
            begins = datetime.fromtimestamp(night.begins, UTC).isoformat()
            found = found.filter(pl.col("at") >= begins)
            new = {
                "time": "at", "every": calendar.every, "start": calendar.start, "group_by": "group",
                "timezone": calendar.zone, "groups": "a,b", "key": chosen_key(), "epsilon": 1,
                "until": calendar.text(night.until), "rollback_guard": Path(folder),
                "allow_empty_windows": True,
                **options,
            }  # fmt: skip
            events: Any = found
            if door == "query":
                events = _written(found, Path(folder, f"{number}.db"))
                new["query"] = _QUERY
            covers = f"{night.covers}d" if isinstance(night.covers, int) else night.covers
            step: Any = None
            try:
                with (
                    _killed(night.dies),
                    run(Job(what, events, state, lookback=covers, **new)) as outcome,
                ):
                    step = outcome.after
            except InvalidInputError as error:
                assert re.match("lookback reaches back to", str(error))  # noqa: PT017
            else:
                if step is None:
                    with Store(state) as store:
                        step = store.reader(store.streams[0]).step
            told.append(step)
        if not any(told):
            return Nights(np.zeros(0), told, None, None)
        with Store(state) as store:
            reader = store.reader(store.streams[0])
            values = np.asarray(reader.releases().values)
            design = reader.design
            metadata = StreamSpec.of_stream(reader).metadata()
    values = values.reshape(len(values), -1, design.strategy.facts.versions)
    return Nights(values, told, design, metadata)


def _places(given: Any) -> list[Any]:
    return [] if given is None else [given] if isinstance(given, tuple) else given


def _frame(rows: Sequence[Row], calendar: Calendar, added_up: bool) -> pl.DataFrame:
    """A table of events, or of their numbers by window and group."""
    if added_up:
        numbers = Counter[tuple[int, str]]()
        for at, group, *_, value in rows:
            numbers[int(at), group] += int(value)
        rows = [(*cell, "", "", float(number)) for cell, number in numbers.items()]
    kinds = dict.fromkeys(COLUMNS, pl.String) | {"value": pl.Float64}
    texts = [(calendar.text(at - 1), *rest) for at, *rest in rows]
    return pl.DataFrame(texts, schema=kinds, orient="row")


def _written(rows: pl.DataFrame, path: Path) -> str:
    """A database with the rows, by its address."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute('CREATE TABLE e (at TEXT, "group" TEXT, user TEXT, id TEXT, value REAL)')
        connection.executemany("INSERT INTO e VALUES (?, ?, ?, ?, ?)", rows.rows())
    return f"sqlite:///{path}"


def share_of_closed(without: Nights, with_it: Nights) -> float:
    """How far units move what is measured of windows that are released once, over what the noise is
    calibrated to.
    """
    change = np.rint(with_it.values - without.values)[..., 0]
    if with_it.metadata.series == "cumulative":
        change = np.diff(change, axis=0, prepend=0)
    far = measured(with_it.design, [*change])
    return distance_of(with_it.design)(far, 0 * far) / declared(with_it.design)


def moved(without: Nights, with_it: Nights, *, revised: bool) -> int:
    """How far an event moves what is measured: the sum of absolute differences."""
    change = np.rint(with_it.values - without.values).astype(np.int64)
    if with_it.metadata.series == "cumulative":
        change = np.diff(change, axis=0, prepend=0)
    arrived = arrivals_of(change, np.zeros_like(change[0])) if revised else change
    return int(np.abs(arrived).sum())


def day(number: int) -> str:
    return f"2024-03-{number:02}"


def now(job: Job) -> list[list[int]]:
    """The newest counts of all days by group."""
    with run(job) as outcome:
        estimates = outcome.read().numbers.series.released.estimates
        return estimates.round().astype(int).reshape(-1, 2).tolist()


def kept(state: Path) -> list[str]:
    """All rows of a state's tables, but for the number by which a writer owns its stream."""
    with closing(sqlite3.connect(state)) as connection:
        return [re.sub(r"\d+,('[0-9a-f]{64}',X')", r"\1", line) for line in connection.iterdump()]

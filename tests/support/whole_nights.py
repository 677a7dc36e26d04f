"""Nights whose inputs hold all rows of the windows that they cover, and how far one event moves
what they release.
"""

import random
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from folders import job_folder
from keys import chosen_key
from neighbouring_jobs import declared, distance_of, measured
from revised_jobs import Nights, Row, day_in_march, frame

from counton.numbers.counter_state import arrivals_of
from counton.run import Job, run

#: Where an event is on a night: the day of its time and its group; None: the input lacks it.
Place = tuple[int, str] | None


#: Options of windows that are released once.
CLOSED: dict[str, Any] = {"release": "windows", "steps": 40}


class Night(NamedTuple):
    """A run: the rows of others in its input, how many days have ended, how many it covers, and
    whether its input has no row of other days.
    """

    rows: list[Row]
    until: int
    covers: int | None
    short: bool = False


def covered(night: Night, released: int) -> range:
    """The days of which a night's input holds all rows, by the rule of the promise."""
    last = max(night.until, released)
    return range(1 if night.covers is None else max(last - night.covers + 1, 1), last + 1)


def draw_nights(chance: random.Random, lags: int) -> list[Night]:
    """Nights that are skipped, repeated, out of order; several days a night; any coverage."""
    nights, released, all_since_start = list[Night](), 0, chance.random() < 0.3
    for number in range(chance.randint(3, 7)):
        until = max(released + chance.choice([0, 0, 1, 1, 1, 2, 3, -1]), 1)
        least = max(until - released, 1)
        covers = chance.choice([least, least, least + 1, least + lags, least + lags + 2, 99])
        days = range(max(1, until - 5), until + 2)
        rows = [
            (chance.choice(days), chance.choice("ab"), "u", str(number), 1.0)
            for _ in range(chance.randint(1, 5))
        ]
        short = chance.random() < 0.5
        nights.append(Night(rows, until, None if all_since_start else covers, short))
        released = max(released, until)
    return nights


def draw_event(chance: random.Random, nights: Sequence[Night], kind: str) -> list[Place]:
    """Where the event is on each night: it stays, vanishes once, or comes, goes and moves."""
    first = chance.randrange(len(nights))
    last = nights[first].until
    own = (chance.randint(max(1, last - 2), last), chance.choice("ab"))
    if kind == "stays":
        return [own if number >= first else None for number in range(len(nights))]
    if kind == "vanishes":
        gone = chance.randint(first, len(nights))
        return [own if first <= number < gone else None for number in range(len(nights))]
    other = (max(1, own[0] + chance.choice([-1, 0, 1, 2])), chance.choice("ab"))
    return [
        chance.choice([None, own, other]) if number >= first else None
        for number in range(len(nights))
    ]


def changes_of(event: Sequence[Place], nights: Sequence[Night]) -> int:
    """How often the event changes, among releasing nights, after the first that counts it."""
    released, known, seen, changes = 0, dict[int, Place](), False, 0
    for where, night in zip(event, nights, strict=True):
        days = covered(night, released)
        if night.until > released:
            now = where if where is not None and where[0] in days else None
            before = {known[day] for day in days if known.get(day)}
            changes += seen and before != ({now} - {None})
            seen = seen or now is not None
            known |= dict.fromkeys(days)
            if now is not None:
                known[now[0]] = now
        released = max(released, night.until)
    return changes


def released(
    nights: Sequence[Night],
    event: Sequence[Place | Sequence[Place]] | None = None,
    what: str = "count",
    **options: Any,
) -> Nights:
    """What whole jobs release under one key; ``event`` is one more row, or those of a person."""
    before = 0
    with job_folder() as folder:
        for number, night in enumerate(nights):
            rows = [*night.rows]
            for where in _places(event[number]) if event is not None else ():
                rows.append((*where, "someone", "new", 1.0))
            if night.short:
                rows = [row for row in rows if row[0] in covered(night, before)]
            before = max(before, night.until)
            new = {
                "time": "at", "every": "1d", "start": "2024-03-01", "by": "group",
                "domain": "a,b", "key": chosen_key(), "epsilon": 1, **options,
            }  # fmt: skip
            covers = None if night.covers is None else f"{night.covers}d"
            job = Job(
                what, frame(rows, number + 1), Path(folder, "s.db"), yes=True, **new,
                until=day_in_march(1 + night.until), covers=covers,
            )  # fmt: skip
            with run(job) as outcome:
                design, definition = outcome.stream.design, outcome.definition
                found = np.asarray(outcome.stream.releases().values)
    values = found.reshape(len(found), -1, design.strategy.facts.versions)
    return Nights(values, [], design, definition)


def _places(given: Any) -> list[Any]:
    return [] if given is None else [given] if isinstance(given, tuple) else given


def share_of_closed(without: Nights, with_it: Nights) -> float:
    """How far units move what is measured of windows that are released once, over what the noise is
    calibrated to.
    """
    change = np.rint(with_it.values - without.values)[..., 0]
    if with_it.definition.release == "totals":
        change = np.diff(change, axis=0, prepend=0)
    far = measured(with_it.design, [*change])
    return distance_of(with_it.design)(far, 0 * far) / declared(with_it.design)


def moved(without: Nights, with_it: Nights, *, revised: bool) -> int:
    """How far an event moves what is measured: the sum of absolute differences."""
    change = np.rint(with_it.values - without.values).astype(np.int64)
    arrived = arrivals_of(change, np.zeros_like(change[0])) if revised else change
    return int(np.abs(arrived).sum())


def day(number: int) -> str:
    return f"2024-03-{number:02}"


def now(job: Job) -> list[list[int]]:
    """The newest counts of all days by group."""
    with run(job) as outcome:
        return outcome.read().numbers.series.estimates.round().astype(int).reshape(-1, 2).tolist()


def kept(state: Path) -> list[str]:
    """All rows of a state's tables, but for the number by which a writer owns its stream."""
    with closing(sqlite3.connect(state)) as connection:
        return [re.sub(r"\d+,X'", "", line) for line in connection.iterdump()]

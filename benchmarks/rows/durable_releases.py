"""One step released in a database: against the least that a database does, a row of its own."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from benchmarks.row import Row
from counton import PureDP, Stream
from counton.statistics import Distinct
from counton.strategies import KAry

#: Steps, turn by turn; and users of whom some are known to a statistic.
STEPS, USERS = 400, 200_000


def measure() -> Iterator[Row]:
    """Yield durable steps of a count, and of users of whom many are known. By the clock: they wait
    for the disk."""
    strategy, terms = KAry.best(100_000), PureDP(1)
    with tempfile.TemporaryDirectory() as folder:
        state = str(Path(folder, "state.db"))
        with Stream.create(state, "visits", strategy, terms) as stream:
            bare = inserts(Path(folder, "bare.db"))
            ours, theirs = fastest(lambda: stream.release(3), bare)
        yield Row(
            f"a durable release of one step, in {1e3 * ours:.2f} ms by the clock",
            measured=ours / theirs,
            bar=5,
            note="times a row inserted and synced by sqlite3 alone",
        )
        few, many = (users(state, f"users {known}", known) for known in (1_000, USERS))
        some, all_of_them = fastest(few, many)
        yield Row(
            f"a durable step of one user, {USERS:,} users known, {1e3 * all_of_them:.2f} ms",
            measured=all_of_them / some,
            bar=1.5,
            note="times the same with 1,000 known",
        )


def inserts(path: Path) -> Callable[[], object]:
    """What inserts a row and waits until it is synced."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE bare (step INTEGER PRIMARY KEY, value BLOB)")

    def insert() -> None:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO bare (value) VALUES (?)", [bytes(60)])
        database.execute("COMMIT")

    return insert


def users(state: str, name: str, known: int) -> Callable[[], object]:
    """What releases a step with a new user, where so many are known."""
    stream = Stream.create(state, name, KAry.best(100_000), PureDP(1), statistic=Distinct())
    stream.release_events([f"user {number}" for number in range(known)])
    new = iter(np.arange(known, 10**9))
    return lambda: stream.release_events([f"user {next(new)}"])


def fastest(*works: Callable[[], object]) -> list[float]:
    """Least seconds of each by the clock, in turns."""
    least = [float("inf")] * len(works)
    for _ in range(STEPS):
        for place, work in enumerate(works):
            start = time.perf_counter()
            work()
            least[place] = min(least[place], time.perf_counter() - start)
    return least

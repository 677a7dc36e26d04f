"""One step released in a database: against the least that a database does, a row of its own."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.row import Row
from counton import PureDP, Stream
from counton.strategies import KAry

#: Steps, turn by turn.
STEPS = 400


def measure() -> Iterator[Row]:
    """Measure releases that are written to disk, of a count; yield the row.

    Times are by the clock, because these releases wait for the disk.
    """
    strategy = KAry.best(100_000)
    terms = PureDP(1)
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


def inserts(path: Path) -> Callable[[], object]:
    """Return a function that inserts a row with sqlite3 and waits until it is on the disk."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE bare (step INTEGER PRIMARY KEY, value BLOB)")

    def insert() -> None:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO bare (value) VALUES (?)", [bytes(60)])
        database.execute("COMMIT")

    return insert


def fastest(*works: Callable[[], object]) -> list[float]:
    """Return the least seconds of each function by the clock, called in turns."""
    least = [float("inf")] * len(works)
    for _ in range(STEPS):
        for place, work in enumerate(works):
            start = time.perf_counter()
            work()
            least[place] = min(least[place], time.perf_counter() - start)
    return least

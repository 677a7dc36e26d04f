"""One step released in a database: against the least that is synced to disk for it.

A release syncs twice: the transaction of the database, and then the record of the rollback guard,
which is a file outside the database.
"""

from __future__ import annotations

import os
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
            bare = synced_writes(Path(folder, "bare.db"), Path(folder, "bare.json"))
            ours, theirs = fastest(lambda: stream.release(3), bare)
        yield Row(
            f"a durable release of one step, in {1e3 * ours:.2f} ms by the clock",
            measured=ours / theirs,
            bar=7,  # it also checks the row, the seal and the guard's record before it writes
            note="a row inserted by sqlite3 and a small file written, both synced",
        )


def synced_writes(database_path: Path, file_path: Path) -> Callable[[], object]:
    """Return a function that inserts a row with sqlite3 and writes a file, both to the disk."""
    database = sqlite3.connect(database_path, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE bare (step INTEGER PRIMARY KEY, value BLOB)")
    file_path.touch()

    def write() -> None:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO bare (value) VALUES (?)", [bytes(60)])
        database.execute("COMMIT")
        descriptor = os.open(file_path, os.O_RDWR)
        os.pwrite(descriptor, os.urandom(400), 0)
        os.fsync(descriptor)
        os.close(descriptor)

    return write


def fastest(*works: Callable[[], object]) -> list[float]:
    """Return the least seconds of each function by the clock, called in turns."""
    least = [float("inf")] * len(works)
    for _ in range(STEPS):
        for place, work in enumerate(works):
            start = time.perf_counter()
            work()
            least[place] = min(least[place], time.perf_counter() - start)
    return least

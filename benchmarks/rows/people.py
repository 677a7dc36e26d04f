"""Counts of people on one machine: at most ten rows of each user count, whole runs of the command.

``python -m benchmarks.rows.people 100000000`` measures another number of rows: as many users as a
tenth of them.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.measure import Process, fastest, process
from benchmarks.row import Row
from counton.run.rows.row_buffer import PURPOSES, _digests
from counton.state.dedup import Secret, pack

ROWS = 10_000_000
GROUPS = 100
DAYS = 30
MOST = 10
#: The rows of a smaller run, where the start of a process weighs more, and its bound.
_FEW = 1_000_000
_FEW_MOST = 5
_PART = 5_000_000
_NOTE = "ranked, filtered and grouped in polars by hand"
_NOTE_REMEMBERED = "the same, with digests of users made and kept"
#: What somebody would write who wants no more than the first rows of each user counted.
_BY_HAND = """
import sys
import polars as pl
time, most = pl.col("time"), int(sys.argv[2])
first = pl.scan_parquet(sys.argv[1]).filter(time.rank("ordinal").over("user") <= most)
first.group_by(time.dt.truncate("1d"), "page").len().collect(engine="streaming")
"""


def measure(rows: int = ROWS) -> Iterator[Row]:
    """Measure first runs that bound users' rows, including their start; yield rows of CPU time and
    memory.

    A script that groups rows by hand remembers no user, so the last row adds what that takes.
    """
    large = rows > ROWS
    ours, by_hand = _first_run(rows, MOST)
    title = f"{rows:,} rows of {rows // 10:,} people"
    yield Row(f"{title}, memory", ours.peak_megabytes, 8000 if large else 750, unit="MB")
    yield Row(f"{title}, CPU", ours.cpu_seconds / by_hand.cpu_seconds, 3, note=_NOTE)
    ours, by_hand = _first_run(_FEW, _FEW_MOST)
    title = f"{_FEW:,} rows of {_FEW // 10:,} people, of each {_FEW_MOST}, CPU"
    yield Row(title, ours.cpu_seconds / by_hand.cpu_seconds, 3.5, note=_NOTE)
    remembering = by_hand.cpu_seconds + _remembering_seconds(_FEW, _FEW_MOST)
    yield Row(
        f"{title}, users remembered", ours.cpu_seconds / remembering, 3, note=_NOTE_REMEMBERED
    )


def _remembering_seconds(rows: int, most: int) -> float:
    """Return the CPU seconds of what a run does so that no later run counts a row again: a keyed
    digest of each row's user, and a row in the state for each counted one. A script that counts
    once does nothing of this.
    """
    users = _visits(0, rows, rows // 10)["user"]
    secret = Secret.fresh()
    place = pl.int_range(pl.len()).over("user")
    counted = users.to_frame().filter(place < most)["user"]
    digests = np.sort(_digests(secret, PURPOSES["user"], counted).to_numpy())
    ones = np.ones(len(digests), np.int64)

    def remember() -> None:
        _digests(secret, PURPOSES["user"], users)
        with sqlite3.connect(":memory:") as state:
            state.execute("CREATE TABLE marks (digests BLOB)")
            state.execute("INSERT INTO marks VALUES (?)", (pack(digests, [ones, ones, ones]),))

    return fastest(remember, turns=3, seconds=2)[0]


def _first_run(rows: int, most: int) -> tuple[Process, Process]:
    """Return what a first run uses that counts at most so many rows of a user, and polars alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "visits.parquet"
        _write_visits(file, rows)
        (folder / "domain.txt").write_text("\n".join(f"g{place}" for place in range(GROUPS)))
        words = ["release", "count", str(file), "--time", "time", "--group-by", "page"]
        words += ["--groups", str(folder / "domain.txt"), "--every", "1d", "--start", "2024-03-01"]
        words += ["--windows", str(DAYS), "--until", "latest-event", "--epsilon", "1"]
        words += ["--user", "user", "--max-contributions", str(most)]
        ours = process(["-m", "counton", *words, "--state", str(folder / "s.db")])
        return ours, process(["-c", _BY_HAND, str(file), str(most)])


def _write_visits(file: Path, rows: int) -> None:
    parts = []
    for number in range(-(-rows // _PART)):
        part = file.with_name(f"part {number:04}.parquet")
        _visits(number, min(_PART, rows - number * _PART), rows // 10).write_parquet(part)
        parts.append(part)
    pl.scan_parquet(parts).sink_parquet(file)
    for part in parts:
        part.unlink()


def _visits(number: int, rows: int, users: int) -> pl.DataFrame:
    random = np.random.default_rng(number)
    since = random.integers(0, DAYS * 86_400, rows) * 10**6
    page, user = (pl.Series(random.integers(0, many, rows)) for many in (GROUPS, users))
    return pl.select(
        time=pl.Series(since + 1_709_251_200_000_000).cast(pl.Datetime("us", "UTC")),
        page=pl.format("g{}", page),
        user=pl.format("u{}", user),
    )


if __name__ == "__main__":
    from benchmarks.__main__ import line

    for row in measure(int(sys.argv[1])):
        print(line(row), flush=True)

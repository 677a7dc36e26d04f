"""Drivers, executors and their Python workers killed at any moment: the series is the same.

COUNTON_KILLS says how often each of them is killed; a few times unless it is set.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest
from patience import HANGS
from spark_here import SETTINGS

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pyspark", reason="pyspark is not installed: make test-spark")

QUERY = Path(__file__).with_name("streaming_query.py")
KILLS = int(os.environ.get("COUNTON_KILLS", "2"))
FILES = 8
#: Workers in processes of their own, of which each has one core.
CLUSTER = "local-cluster[2,1,1024]"


def written(folder: Path, seed: int) -> Path:
    """A folder with files of rows, some of them late by days."""
    chance = random.Random(seed)
    (folder / "in").mkdir(parents=True)
    for number in range(FILES):
        rows = []
        for _ in range(80):
            day = max(0, number - chance.choice((0, 0, 0, 0, 1, 3)))
            hour = chance.randrange(24)
            minute = chance.randrange(60)
            rows.append(
                {
                    "at": f"2024-03-{day + 1:02}T{hour:02}:{minute:02}",
                    "page": chance.choice("abc"),
                    "user": f"u{chance.randrange(30)}",
                }
            )
        file = folder / "in" / f"{number}.parquet"
        pl.DataFrame(rows).write_parquet(file)
        os.utime(file, (10**9 + number, 10**9 + number))  # Spark reads the oldest first
    return folder


class Process:
    """The query in a process group of its own."""

    def __init__(self, folder: Path, master: str) -> None:
        self.errors = folder / "errors.txt"
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, QUERY, folder, master],
                env={**os.environ, **SETTINGS},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def begun(self) -> None:
        """Wait until Spark runs."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "begun\n", self.errors.read_text()[-3000:]

    def ended(self) -> bool:
        """Whether it counted all; no process of it is left."""
        out, _ = self.process.communicate(timeout=HANGS)
        self.kill()
        return out.endswith("ended\n")

    def kill(self) -> None:
        """Kill the driver and all that it started."""
        for one in [self.process.pid, *self.others()]:
            _kill(one)
        self.process.wait()

    def others(self, *words: str) -> list[int]:
        """Processes of its session that have these words in their commands."""
        mine = [one for one, session in _sessions() if session == self.process.pid != one]
        return [one for one in sorted(mine) if all(word in _command(one) for word in words)]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _sessions() -> Iterator[tuple[int, int]]:
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                facts = (place / "stat").read_text().rpartition(")")[2].split()
                yield int(place.name), int(facts[3])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[pl.DataFrame, float]:
    """What an undisturbed query shows, and how long it takes after Spark has started."""
    folder = written(tmp_path_factory.mktemp("undisturbed"), 1)
    process = Process(folder, "local[2]")
    process.begun()
    begin = time.monotonic()
    assert process.ended(), process.errors.read_text()[-3000:]
    table = pl.read_parquet(folder / "out.parquet")
    assert table.height > 60
    return table, time.monotonic() - begin


def test_query_continues_after_killed_driver(
    tmp_path: Path, expected: tuple[pl.DataFrame, float]
) -> None:
    """The whole driver, or its Python or its JVM alone."""
    chance, (table, seconds) = random.Random(2024), expected
    killed = rounds = 0
    while killed < KILLS:
        rounds += 1
        folder = written(tmp_path / str(rounds), 1)
        while True:
            process = Process(folder, "local[2]")
            process.begun()
            if killed < KILLS:
                try:  # so that a folder takes about four kills
                    process.process.wait(chance.uniform(0, 0.5 * seconds))
                except subprocess.TimeoutExpired:
                    killed += 1
                    what = chance.choice(("all", "python", "jvm"))
                    if what == "python":
                        _kill(process.process.pid)
                        time.sleep(chance.uniform(0, 1))
                    elif what == "jvm":
                        for jvm in process.others("java"):
                            _kill(jvm)
                        time.sleep(chance.uniform(0, 1))
                    process.kill()
                    continue
            if process.ended():
                break
        print(f"round {rounds}: {killed} killed so far", flush=True)
        assert pl.read_parquet(folder / "out.parquet").equals(table), killed


def test_killed_executors_change_nothing(
    tmp_path: Path, expected: tuple[pl.DataFrame, float]
) -> None:
    """Executors, or the Python processes that work for them."""
    chance, (table, seconds) = random.Random(2025), expected
    killed = rounds = 0
    while killed < KILLS:
        rounds += 1
        folder = written(tmp_path / str(rounds), 1)
        ended = False
        while not ended:
            process = Process(folder, CLUSTER)
            process.begun()
            while killed < KILLS:
                try:
                    process.process.wait(chance.uniform(0.2, 0.5 * seconds))
                    break
                except subprocess.TimeoutExpired:
                    words = chance.choice((["CoarseGrainedExecutorBackend"], ["pyspark", "daemon"]))
                    there = process.others(*words)
                    if there:
                        _kill(chance.choice(there))
                        killed += 1
            ended = process.ended()  # else too many executors died at a time: the query goes on
        print(f"round {rounds}: {killed} killed so far", flush=True)
        assert pl.read_parquet(folder / "out.parquet").equals(table), killed

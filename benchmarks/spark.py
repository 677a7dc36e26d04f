"""What jobs cost over Spark: `make bench-spark` prints the tables of docs/scale.md.

Rows lie in Parquet files. Each job is compared with what Spark does by itself for the same
numbers: read, cut time into days, count by day and group, hand the counts to the driver.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from counton.run import Job

DAYS = 30
_MEGABYTE = 2**20
#: Jobs over people, and over groups that are found, are measured up to so many events.
_MOST_OTHERS = 10**6


class Memory(threading.Thread):
    """Watches the resident memory of this process and of all that it started."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self._ended = 0, threading.Event()

    def run(self) -> None:
        """See `threading.Thread`."""
        while not self._ended.wait(0.2):
            self.peak = max(self.peak, sum(resident()))

    def end(self) -> int:
        """The most that there was, in bytes."""
        self._ended.set()
        self.join()
        return self.peak


def resident() -> Iterator[int]:
    """Bytes of each process of this session, pages that are shared counted in each."""
    for facts in _processes():
        yield int(facts[21]) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds that all processes of this session use for it, and those that end meanwhile."""
    before = _ticks()
    work()
    return (_ticks() - before) / os.sysconf("SC_CLK_TCK")


def _ticks() -> int:
    return sum(sum(map(int, facts[11:15])) for facts in _processes())


def _processes() -> Iterator[list[str]]:
    """What the system says of each process of this session, from its state on."""
    mine = os.getsid(0)
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            facts = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(facts[3]) == mine:
            yield facts


@contextmanager
def session(workers: int) -> Iterator[Any]:
    """Spark with so many workers on this machine."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local[{workers}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.maxResultSize", "4g")
        .config("spark.sql.shuffle.partitions", str(2 * workers))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


def rows(spark: Any, folder: Path, events: int, groups: int, users: int = 10**5) -> Any:
    """Events spread evenly over the days and, by a hash, over the groups and users."""
    path = folder / f"{events} {groups} {users}"
    if not path.exists():
        within = f"pmod(xxhash64(id), {DAYS * 86_400_000_000})"
        made = spark.range(events).selectExpr(
            f"timestamp_micros(1709251200000000 + {within}) as at",  # from 2024-03-01 on
            f"concat('g', cast(pmod(xxhash64(id, 1), {groups}) as string)) as page",
            f"concat('u', cast(pmod(xxhash64(id, 2), {users}) as string)) as user",
        )
        made.repartition(8).write.parquet(str(path))
    return spark.read.parquet(str(path))


def job(folder: Path, groups: int, **more: Any) -> Job:
    """Counts by day and group, released for 30 days at one go."""
    asked: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "steps": DAYS, "epsilon": 1,
        "until": "2024-03-31", "by": "page", "domain": [f"g{number}" for number in range(groups)],
        "strategy": "binary", "release": "totals",
    }  # fmt: skip
    return Job("count", "-", folder / "bench.db", **{**asked, **more})


def plain(frame: Any) -> int:
    """Spark's own counts of the same cells, at the driver."""
    counts = frame.groupBy("page", frame["at"].cast("date").alias("day")).count()
    return int(counts.toArrow().num_rows)


def noisy(frame: Any, asked: Job) -> int:
    """A run of a new stream, whose journal is in a database on disk."""
    from counton import spark as counton_spark

    with counton_spark.run(asked, frame) as outcome:
        return outcome.for_operator().rows  # type: ignore[no-any-return]


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def fresh(folder: Path) -> Path:
    """An empty folder for a state."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def people(events: int, users: int, workers: int, times: int) -> None:
    """Print what counts of people cost, a bound of 10 rows each, and Spark's own groups by user."""
    with tempfile.TemporaryDirectory() as name, session(workers) as spark:
        folder = Path(name)
        frame = rows(spark, folder, events, 100, users)
        asked = job(folder / "state", 100, user="user", most=10)

        def alone() -> None:
            assert frame.groupBy("user").count().toArrow().num_rows <= users

        def ours() -> None:
            fresh(folder / "state")
            noisy(frame, asked)

        alone()  # warm
        pairs = [(cpu_seconds(alone), cpu_seconds(ours)) for _ in range(times)]
        own, mine = (min(one) for one in zip(*pairs, strict=True))
        print(
            f"{events:,} rows of {users:,} users, at most 10 each, {workers} workers: Spark alone, "
            f"by user, {own:.2f} CPU seconds; counton {mine:.2f}; ratio {mine / own:.2f}"
        )


def main() -> None:
    """Print a table: a row for each number of events, of groups, and of workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10**7)
    parser.add_argument("--groups", type=int, default=10**5)
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--users", type=int, default=0, help="measure only people, so many")
    asked = parser.parse_args()
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    if asked.users:
        for workers in map(int, asked.workers.split(",")):
            people(asked.events, asked.users, workers, asked.times)
        return
    sizes = [10**power for power in range(5, 12) if 10**power <= asked.events]
    groups = [10**power for power in range(2, 8) if 10**power <= asked.groups]
    shapes = [(size, groups[0]) for size in sizes] + [(sizes[-1], size) for size in groups[1:]]
    print("workers  events      groups    Spark    counton  ratio  people  found   memory")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        state = folder / "state"
        for workers in map(int, asked.workers.split(",")):
            with session(workers) as spark:
                noisy(rows(spark, folder, *shapes[0]), job(fresh(state), shapes[0][1]))  # warm
                for size, number in shapes:
                    frame, memory = rows(spark, folder, size, number), Memory()
                    memory.start()
                    pairs = [
                        (
                            seconds(lambda: plain(frame)),  # noqa: B023 - called at once
                            seconds(lambda: noisy(frame, job(fresh(state), number))),  # noqa: B023
                        )
                        for _ in range(asked.times)
                    ]
                    own, ours = (min(one) for one in zip(*pairs, strict=True))
                    peak = memory.end() / _MEGABYTE
                    users = {"user": "user", "most": 5}
                    found = {"domain": None, "unknown": "discover", "delta": "1e-9"}
                    others = [
                        seconds(lambda: noisy(frame, job(fresh(state), number, **more)))  # noqa: B023
                        if size <= _MOST_OTHERS
                        else float("nan")
                        for more in (users, found)
                    ]
                    print(
                        f"{workers:7}  {size:<10,}  {number:<8,}  {own:6.2f}   {ours:6.2f}  "
                        f"{ours / own:5.2f}  {others[0]:6.2f}  {others[1]:6.2f}  {peak:6,.0f} MB",
                        flush=True,
                    )


if __name__ == "__main__":
    main()

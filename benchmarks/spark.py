"""What jobs cost over Spark: `make bench-spark` prints the tables of docs/guides/spark.md.

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
    """A thread that notes the peak resident memory of this process and of all processes that it
    started.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self._ended = threading.Event()

    def run(self) -> None:
        """Read the memory five times a second, until `end` is called."""
        while not self._ended.wait(0.2):
            self.peak = max(self.peak, sum(resident()))

    def end(self) -> int:
        """End the thread; return the peak memory in bytes."""
        self._ended.set()
        self.join()
        return self.peak


def resident() -> Iterator[int]:
    """Yield the resident memory of each process of this session in bytes; shared pages are counted
    for each process.
    """
    for facts in _processes():
        yield int(facts[21]) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(work: Callable[[], object]) -> float:
    """Call ``work``; return the CPU seconds that all processes of this session use meanwhile."""
    before = _ticks()
    work()
    return (_ticks() - before) / os.sysconf("SC_CLK_TCK")


def _ticks() -> int:
    return sum(sum(map(int, facts[11:15])) for facts in _processes())


def _processes() -> Iterator[list[str]]:
    """Yield what Linux says of each process of this session: the fields of ``/proc/PID/stat`` from
    the process's state on.
    """
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
    """Run Spark with so many workers on this machine during the ``with`` block; yield the
    session.
    """
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
    """Return a Spark frame of events, spread evenly over days, groups and users; the file is
    written only once.
    """
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
    """Return a job that counts by day and group, and releases 30 days at once."""
    asked: dict[str, Any] = {
        "time": "at", "every": "1d", "start": "2024-03-01", "windows": DAYS, "epsilon": 1,
        "until": "2024-03-31", "group_by": "page",
        "groups": [f"g{number}" for number in range(groups)],
        "strategy": "binary", "series": "cumulative",
    }  # fmt: skip
    return Job("count", "-", folder / "bench.db", **{**asked, **more})


def plain(frame: Any) -> int:
    """Count the same cells with Spark alone; return the number of cells."""
    counts = frame.groupBy("page", frame["at"].cast("date").alias("day")).count()
    return int(counts.toArrow().num_rows)


def noisy(frame: Any, asked: Job) -> int:
    """Run a job over a Spark frame; return the number of rows read."""
    from counton import spark as counton_spark

    with counton_spark.run(asked, frame) as outcome:
        return outcome.confidential_counts().rows.read


def seconds(work: Callable[[], object]) -> float:
    """Call ``work``; return how many seconds it takes by the clock."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def fresh(folder: Path) -> Path:
    """Make a folder empty, for a new state; return its path."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def people(events: int, users: int, workers: int, times: int) -> None:
    """Print the CPU time of counts with a bound of 10 rows per user, and of Spark's own grouping by
    user.

    Args:
        events: number of rows.
        users: number of users.
        workers: number of Spark's workers.
        times: number of repetitions, of which the fastest counts.
    """
    with tempfile.TemporaryDirectory() as name, session(workers) as spark:
        folder = Path(name)
        frame = rows(spark, folder, events, 100, users)
        asked = job(folder / "state", 100, user="user", max_contributions=10)

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
    """Print a table with a row for each number of events, groups and workers."""
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
                    frame = rows(spark, folder, size, number)
                    memory = Memory()
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
                    users = {"user": "user", "max_contributions": 5}
                    found = {"groups": None, "unlisted_groups": "discover", "delta": "1e-9"}
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

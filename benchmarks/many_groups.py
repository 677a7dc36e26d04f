"""Measure nights of many declared groups.

`make bench-groups` prints a table, which docs/guides/spark.md names.

Half as many rows as groups, 5*10^7 at most, lie in a Parquet file for each night; few groups have
most rows. The first night declares the groups and releases a day; the next ones go on. Each is a
process of its own, as with cron, so that the CPU time and the memory are those of one night. Then
what the noise of a year of nights costs, by strategy.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from counton import ZCDP, Counter, Key, Stream, plan
from counton.strategies import KAry


def make(folder: Path, groups: int, nights: int) -> None:
    """Write the names of groups, one per line, and a Parquet file of rows for each night."""
    with (folder / "names.txt").open("wb") as file:
        for first in range(0, groups, 2**22):
            some = pl.int_range(first, min(first + 2**22, groups))
            pl.select(pl.format("page-{}", some)).write_csv(file, include_header=False)
    random = np.random.default_rng(0)
    for night in range(1, nights + 1):
        rows = min(max(groups // 2, 10**5), 5 * 10**7)
        pages = (random.zipf(1.3, rows) - 1) % groups
        start = np.datetime64("2024-03-01", "us") + np.timedelta64(night - 1, "D")
        times = start + np.sort(random.integers(0, 86_400 * 10**6, rows))
        table = pl.DataFrame({"time": times, "page": pages})
        table = table.with_columns(page=pl.format("page-{}", "page"))
        table.write_parquet(folder / f"{night}.parquet")


def release(folder: Path, night: int) -> None:
    """Release one night, and print its CPU time, duration, memory and size of the state."""
    from counton.run import Job, run

    asked = {"every": "1d", "start": "2024-03-01", "windows": 365, "rho": "0.015", "time": "time"}
    names = {"group_by": "page", "groups": str(folder / "names.txt")}
    new = {**asked, **names} if night == 1 else {}
    began = time.perf_counter()
    job = Job(
        "count",
        folder / f"{night}.parquet",
        folder / "s.db",
        until=f"2024-03-{night + 1:02}",
        append=True,
    )
    with run(job.derive(**new)) as outcome:
        assert outcome.after == night
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{night:5}   {used.ru_utime + used.ru_stime:5.1f} s  {time.perf_counter() - began:6.1f} s"
        f"  {used.ru_maxrss / 2**10:6,.0f} MiB  {(folder / 's.db').stat().st_size / 1e6:6,.1f} MB",
        flush=True,
    )


def late_nights(cells: int) -> None:
    """Print the cost of the noise of each night of a year, in microseconds of CPU for each group.

    Each night draws its noise, or finds it in the state, as a process of its own would.

    Args:
        cells: number of groups.
    """
    from counton.continual.noise_cache import NoiseCache
    from counton.state.database import Database
    from counton.state.stream import NoiseTable

    best = plan(horizon=365, guarantee=ZCDP("0.015"), shape=(cells,)).best.strategy
    for strategy in (best, KAry.best(365, norm=2)):
        with tempfile.TemporaryDirectory() as folder:
            state = Path(folder) / "s.db"
            key = Key.generate()
            given: dict[str, Any] = {"shape": (cells,), "key": key}
            Stream.create(state, "pages", strategy, ZCDP("0.015"), **given).close()
            counter = Counter(strategy, ZCDP("0.015"), name="pages", **given)
            took = []
            field = counter.design.noise_field(key)
            for step in range(1, 366):
                database = Database(state)
                began = time.process_time()
                ahead = NoiseCache(strategy, field)
                ahead.keep(1, NoiseTable(database, 1), counter.design.largest_noise_std)
                if ahead.by_cells:
                    deque(ahead.cells_of(step), maxlen=0)
                else:
                    deque(ahead.parts(range(step, step + 1)), maxlen=0)
                took.append((time.process_time() - began) / cells * 1e6)
                database.close()
            nights = "".join(f"{took[step - 1]:11.2f}" for step in (1, 100, 365))
            std = np.sqrt(np.mean(counter.std() ** 2))
            print(
                f"{cells:12,} {type(strategy).__name__:26}{nights}{np.mean(took):11.2f}"
                f"{max(took):11.2f}{state.stat().st_size / cells:11.0f}{std:8.1f}",
                flush=True,
            )


def main() -> None:
    """Print a table with a row for each night of each number of groups, and a table of the cost of
    noise.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", default="100000,1000000", help="numbers, commas between")
    parser.add_argument("--nights", type=int, default=2)
    parser.add_argument("--late", default="10000,100000", help="groups of a year's noise")
    parser.add_argument("--night", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.night is not None:
        release(asked.folder, asked.night)
        return
    for groups in map(int, asked.groups.split(",")):
        print(f"{groups:,} groups\nnight      CPU      time      memory     state", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder), groups, asked.nights)
            for night in range(1, asked.nights + 1):
                one = [sys.executable, "-m", "benchmarks.many_groups", "--night", str(night)]
                subprocess.run([*one, "--folder", folder], check=True)
    print("noise, microseconds of CPU a group in a year of nights; what its state has; its error")
    heads = ("night 1", "night 100", "night 365", "mean", "largest", "bytes")
    print(f"      groups {'strategy':26}" + "".join(f"{head:>11}" for head in heads) + "     std")
    for cells in map(int, asked.late.split(",")):
        late_nights(cells)


if __name__ == "__main__":
    main()

"""What nights of many declared groups cost: `make bench-groups` prints the table of docs/scale.md.

Half as many rows as groups, 5*10^7 at most, lie in a Parquet file for each night; few groups have
most rows. The first night declares the groups and releases a day; the next ones go on. Each is a
process of its own, as with cron, so that the CPU time and the memory are those of one night. Then
what the noise of a late night costs, by strategy.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from counton import ZCDP, Counter, Key
from counton.strategies import KAry, NormalisedSqrt


def make(folder: Path, groups: int, nights: int) -> None:
    """The names, one on a line, and the rows of each night."""
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
    """One night, and what it took."""
    from counton.run import Job, run

    asked = {"every": "1d", "start": "2024-03-01", "steps": 365, "rho": "0.015", "time": "time"}
    names = {"by": "page", "domain": str(folder / "names.txt")}
    new = {**asked, **names} if night == 1 else {}
    began = time.perf_counter()
    job = Job(
        "count",
        folder / f"{night}.parquet",
        folder / "s.db",
        until=f"2024-03-{night + 1:02}",
        append=True,
    )
    with run(job.having(**new)) as outcome:
        assert outcome.after == night
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"{night:5}   {used.ru_utime + used.ru_stime:5.1f} s  {time.perf_counter() - began:6.1f} s"
        f"  {used.ru_maxrss / 2**10:6,.0f} MiB  {(folder / 's.db').stat().st_size / 1e6:6,.1f} MB",
        flush=True,
    )


def late_nights(cells: int = 2**17) -> None:
    """What the noise of one step costs, of a year of days, in microseconds of CPU a group."""
    steps = (1, 30, 100, 365)
    print("noise, microseconds of CPU a group, and its standard deviation over the year")
    print(f"{'strategy':18}" + "".join(f"{f'night {step}':>12}" for step in steps) + "       std")
    for name, strategy in {"normalised-sqrt": NormalisedSqrt(365), "kary": KAry.best(365)}.items():
        key = Key.generate()
        counter = Counter(strategy, ZCDP("0.015"), key=key, name=name, shape=(cells,))
        field, line = counter.design.noise_field(key), f"{name:18}"
        for step in steps:
            began = time.process_time()
            strategy.noise(field, range(step, step + 1))
            line += f"{(time.process_time() - began) / cells * 1e6:12.2f}"
        print(f"{line}{np.sqrt(np.mean(counter.std() ** 2)):10.1f}", flush=True)


def main() -> None:
    """Print a table: a row for each night of each number of groups."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", default="100000,1000000", help="numbers, commas between")
    parser.add_argument("--nights", type=int, default=2)
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
    late_nights()


if __name__ == "__main__":
    main()

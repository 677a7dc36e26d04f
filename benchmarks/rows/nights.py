"""Whole first runs that count a file and write a table, against polars counting it and writing one.

Both are processes of their own, measured with their start. Of a run's CPU time, .7 to .9 s are its
start, whatever the number of rows; polars starts in .3 s.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import process
from benchmarks.row import Row
from benchmarks.whole_processes import (
    POLARS,
    POLARS_LIMIT,
    counton_words,
    write_groups,
    write_visits,
)

ROWS = 1_000_000
MANY_ROWS = 10_000_000
TURNS = 5
#: What polars does after it has counted.
_WRITE = '.sort("time", "page").write_csv(sys.argv[2])\n'
_NOTE = "polars grouping and writing a table"


def measure() -> Iterator[Row]:
    """Measure first runs against polars, in turns; yield the rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_groups(folder)
        csv_file, parquet_file = write_visits(folder, ROWS)
        _, many_rows = write_visits(folder, MANY_ROWS)
        works = (
            (f"{ROWS:,} rows of CSV", csv_file, False, BARS["csv"]),
            (f"{ROWS:,} rows of Parquet", parquet_file, False, BARS["parquet"]),
            (f"{MANY_ROWS:,} rows of Parquet", many_rows, False, BARS["many"]),
            (f"{ROWS:,} rows of Parquet, few of each user", parquet_file, True, BARS["users"]),
        )
        for work, file, has_users, bar in works:
            turns = [_seconds_of(file, has_users=has_users) for _ in range(TURNS)]
            ours, theirs = map(min, zip(*turns, strict=True))
            yield Row(f"a first run, {work}", ours / theirs, bar, note=_NOTE)


BARS = {"csv": 1.2, "parquet": 3.5, "many": 2.5, "users": 3}


def _seconds_of(file: Path, *, has_users: bool) -> tuple[float, float]:
    """Return the CPU seconds of a first run and of polars for one file."""
    kind = file.suffix[1:]
    parsing = ", try_parse_dates=True" if kind == "csv" else ""
    limit = POLARS_LIMIT if has_users else ""
    program = POLARS.format(kind=kind, parsing=parsing, limit=limit).rstrip() + _WRITE
    table = Path(tempfile.mkdtemp(dir=file.parent), "table.csv")
    words = [*counton_words(file, has_users=has_users), "--output", str(table)]
    ours = process(words).cpu_seconds
    theirs = process(["-c", program, str(file), str(table.with_name("polars.csv"))]).cpu_seconds
    return ours, theirs

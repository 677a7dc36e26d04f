"""Scheduled runs without anything new: the files have the bytes that an earlier run has counted.

Such a run is nearly all start, so it is compared with the start of what a script would import.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.measure import process
from benchmarks.row import Row

ROWS = 1_000_000
FEW_ROWS = 100
DAYS = 30
GROUPS = 100
TURNS = 5
#: What a script imports that looks for new rows.
IMPORTS = "import numpy, polars"
FILES = {"csv": "CSV", "parquet": "Parquet", "jsonl": "JSON lines"}


def measure() -> Iterator[Row]:
    """Measure a second run with the same file against one with a hundred rows, and against imports
    alone; yield the rows.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pages.txt").write_text("\n".join(f"g{number}" for number in range(GROUPS)))
        for kind, what in FILES.items():
            files = [_visits(folder / f"{rows}.{kind}", rows) for rows in (ROWS, FEW_ROWS)]
            for file in files:
                _run(file)  # it creates the stream
            turns = [[*map(_run, files), _import()] for _ in range(TURNS)]
            many, few, imports = map(min, zip(*turns, strict=True))
            title = f"a run without new rows, {ROWS:,} of {what}"
            yield Row(title, many / few, 1.25, note=f"the same with {FEW_ROWS} rows")
            yield Row(f"{title}, compared with imports", many / imports, 1.8, note=IMPORTS)


def _import() -> float:
    """Import what a script needs; return the CPU seconds."""
    return process(["-c", IMPORTS]).cpu_seconds


def _run(file: Path) -> float:
    """Run the command once; return its CPU seconds."""
    words = ["release", "count", str(file), "--time", "time", "--every", "1d"]
    words += ["--group-by", "page", "--groups", str(file.parent / "pages.txt")]
    words += ["--start", "2024-03-01", "--windows", "365", "--until", "latest-event"]
    words += ["--allow-empty-windows", "--epsilon", "1", "--state", f"{file}.db"]
    return process(["-m", "counton", *words]).cpu_seconds


def _visits(file: Path, rows: int) -> Path:
    """Write random visits to a file in a format by its ending."""
    random = np.random.default_rng(rows)
    seconds = np.sort(random.integers(0, DAYS * 86_400, rows))
    since = np.datetime64("2024-03-01T00:00:00") + seconds.astype("timedelta64[s]")
    page = pl.format("g{}", pl.Series(random.integers(0, GROUPS, rows)))
    table = pl.select(time=pl.Series(since.astype("datetime64[us]")), page=page)
    if file.suffix == ".parquet":
        table.write_parquet(file)
        return file
    texts = table.with_columns(pl.col("time").dt.to_string("%Y-%m-%dT%H:%M:%S"))
    if file.suffix == ".csv":
        texts.write_csv(file)
    else:
        texts.write_ndjson(file)
    return file

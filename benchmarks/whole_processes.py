"""Whole programs that count a file: counton, polars and duckdb, each as a process of its own.

``python -m benchmarks.whole_processes`` prints the table of docs/research/comparison.md: CPU time
with the start of each program, the least of some turns, as multiples of counton's. With
``--record`` it keeps the CPU seconds in `whole_processes.json`, from which the page has its table.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.measure import process

DAYS = 30
GROUPS = 100
USERS = 100_000
FEW_ROWS = 1_000
MOST_OF_USER = 5
PROGRAMS = ("counton", "polars", "duckdb")
HEADER = "| Work | counton | polars | duckdb |\n|---|--:|--:|--:|"
RECORD = Path(__file__).with_suffix(".json")

#: Programs of polars and duckdb by work: their first argument is the file.
POLARS = """
import sys, polars as pl
rows = pl.scan_{kind}(sys.argv[1]{parsing})
{limit}
rows.group_by(pl.col("time").dt.truncate("1d"), "page").len().collect(engine="streaming")
"""
POLARS_LIMIT = f'rows = rows.filter(pl.col("time").rank("ordinal").over("user") <= {MOST_OF_USER})'
DUCKDB = """
import sys, duckdb
rows = f"select * from read_{kind}('{{sys.argv[1]}}')"
{limit}
columns = "date_trunc('day', time), page, count(*)"
duckdb.sql(f"select {{columns}} from ({{rows}}) group by all").fetchall()
"""
DUCKDB_LIMIT = (
    f'rows += " qualify row_number() over (partition by user order by time) <= {MOST_OF_USER}"'
)


def write_visits(folder: Path, rows: int) -> tuple[Path, Path]:
    """Write random visits to a CSV and a Parquet file.

    Args:
        folder: where they are written.
        rows: number of rows.
    """
    random = np.random.default_rng(rows)
    seconds = np.sort(random.integers(0, DAYS * 86_400, rows))
    since = np.datetime64("2024-03-01T00:00:00") + seconds.astype("timedelta64[s]")
    page_numbers = pl.Series(random.integers(0, GROUPS, rows))
    visits = pl.DataFrame(
        {
            "time": pl.Series(since.astype("datetime64[us]")),
            "page": pl.select(pl.format("g{}", page_numbers)).to_series(),
            "user": random.integers(0, USERS, rows),
        }
    )
    csv_file = folder / f"{rows}.csv"
    parquet_file = folder / f"{rows}.parquet"
    visits.write_csv(csv_file, datetime_format="%Y-%m-%dT%H:%M:%S")
    visits.write_parquet(parquet_file)
    return csv_file, parquet_file


def write_groups(folder: Path) -> None:
    """Write the names of all pages to a file, in the folder of the visits."""
    lines = ["page", *(f"g{number}" for number in range(GROUPS))]
    (folder / "pages.txt").write_text("\n".join(lines) + "\n")


def counton_words(file: Path, *, has_users: bool) -> list[str]:
    """Return the arguments of a first run of counton, with a new state."""
    state = Path(tempfile.mkdtemp(dir=file.parent), "s.db")
    words = ["-m", "counton", "release", "count", str(file), "--time", "time", "--every", "1d"]
    words += ["--group-by", "page", "--groups", str(file.parent / "pages.txt")]
    words += ["--start", "2024-03-01", "--windows", "365", "--until", "2024-03-31"]
    words += ["--epsilon", "1", "--state", str(state)]
    if has_users:
        words += ["--user", "user", "--max-contributions", str(MOST_OF_USER)]
    return words


def seconds_of(file: Path, turns: int, *, has_users: bool) -> list[float]:
    """Return the least CPU seconds of counton, polars and duckdb for one file.

    Args:
        file: the visits.
        turns: how often each program runs.
        has_users: whether a few rows of each user count.
    """
    kind = file.suffix[1:]
    parsing = ", try_parse_dates=True" if kind == "csv" else ""
    polars_limit = POLARS_LIMIT if has_users else ""
    duckdb_limit = DUCKDB_LIMIT if has_users else ""
    polars_code = POLARS.format(kind=kind, parsing=parsing, limit=polars_limit)
    duckdb_code = DUCKDB.format(kind=kind, limit=duckdb_limit)
    least = [float("inf")] * 3
    for _ in range(turns):
        programs = (
            counton_words(file, has_users=has_users),
            ["-c", polars_code, str(file)],
            ["-c", duckdb_code, str(file)],
        )
        used = [process(words).cpu_seconds for words in programs]
        least = [min(pair) for pair in zip(least, used, strict=True)]
    return least


def row(work: str, seconds: Sequence[float]) -> str:
    """Return a row of the table: CPU times as multiples of counton's.

    >>> row("count rows", [2.0, 1.0, 0.5])
    '| count rows | 1 | 0.50 | 0.25 |'
    """
    first, *others = seconds
    ratios = " | ".join(f"{other / first:.2f}" for other in others)
    return f"| {work} | 1 | {ratios} |"


def recorded() -> dict[str, list[float]]:
    """Return the CPU seconds of counton, polars and duckdb that were kept, by work."""
    kept = json.loads(RECORD.read_text("ascii"))["cpu_seconds"]
    return {work: [seconds[name] for name in PROGRAMS] for work, seconds in kept.items()}


def record(seconds: Mapping[str, Sequence[float]], rows: int) -> None:
    """Keep CPU seconds by work.

    Args:
        seconds: those of counton, polars and duckdb.
        rows: number of rows of the large files.
    """
    versions = {name: importlib.metadata.version(name) for name in PROGRAMS[1:]}
    named = {work: dict(zip(PROGRAMS, each, strict=True)) for work, each in seconds.items()}
    kept = {"rows": rows, "versions": versions, "cpu_seconds": named}
    RECORD.write_text(json.dumps(kept, indent=1) + "\n", "ascii")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--record", action="store_true", help="keep the seconds, for the page")
    asked = parser.parse_args()
    print(HEADER)
    measured: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_groups(folder)
        csv_file, parquet_file = write_visits(folder, asked.rows)
        few_rows, _ = write_visits(folder, FEW_ROWS)
        works = (
            ("count rows of CSV", csv_file, False),
            ("count rows of Parquet", parquet_file, False),
            (f"count at most {MOST_OF_USER} rows of each user, Parquet", parquet_file, True),
            (f"count {FEW_ROWS:,} rows of CSV", few_rows, False),
        )
        for work, file, has_users in works:
            measured[work] = seconds_of(file, asked.turns, has_users=has_users)
            print(row(work, measured[work]), flush=True)
    if asked.record:
        record(measured, asked.rows)


if __name__ == "__main__":
    main()

"""A question to DuckDB, counted where its rows lie, against DuckDB's own counts of these cells."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton.run import Job, run

ROWS, GROUPS, DAYS = 10_000_000, 100, 30
_QUERY = "select * from visits"


def measure() -> Iterator[Row]:
    """Measure a run in which DuckDB counts equal rows, against DuckDB alone; yield one row.

    Without DuckDB there are no rows.
    """
    if find_spec("duckdb") is None:
        return
    import duckdb

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(duckdb.connect(str(folder / "shop.duckdb"))) as database:
            database.execute(
                f"create table visits as select to_timestamp(1709251200 + (hash(i) % "  # noqa: S608
                f"{DAYS * 86_400_000_000}) / 1e6) as moment, 'g' || hash(i, 1) % {GROUPS} as page "
                f"from range({ROWS}) t(i)"
            )
        runs = count()
        ours, theirs = fastest(
            lambda: _ours(folder, next(runs)), lambda: _theirs(duckdb, folder), turns=3
        )
        yield Row(
            f"{ROWS:,} rows of DuckDB in {GROUPS} groups, counted and released",
            ours / theirs,
            1.3,
            note=f"DuckDB alone, by day and group: {theirs:.2f} s",
        )


def _ours(folder: Path, number: int) -> None:
    asked: dict[str, Any] = {
        "time": "moment", "every": "1d", "start": "2024-03-01",
        "steps": DAYS, "until": "2024-03-31",
        "by": "page", "domain": [f"g{group}" for group in range(GROUPS)], "epsilon": 1,
        "strategy": "binary", "query": _QUERY,
    }  # fmt: skip
    job = Job("count", f"duckdb:///{folder}/shop.duckdb", folder / f"{number}.db", **asked)
    with run(job) as outcome:
        assert outcome.after == DAYS


def _theirs(duckdb: Any, folder: Path) -> None:
    with closing(duckdb.connect(str(folder / "shop.duckdb"), read_only=True)) as database:
        database.execute("SET TimeZone = 'UTC'")
        days = "select page, cast(moment as date) as day, count(*) from visits group by all"
        assert len(database.execute(days).fetchall()) == GROUPS * DAYS

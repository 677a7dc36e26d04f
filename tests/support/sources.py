"""The same rows from everywhere that rows come from: files, frames, databases."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from run_results import counts_of, releases_of

from counton.base.errors import CountonError
from counton.run import Job, RunResult, run

#: Names that a file, a question or a request could get wrong.
PAGES = ["a", "B", "01", "1", "1.0", "a,b", 'q"x', "für", " a", "null"]
PLACES = ["x", "y", "true"]
START = datetime(2024, 3, 1, tzinfo=UTC)
#: Of two nights: the last window that each releases ends before this day of March.
ENDS = (9, 17)

BY = {"group_by": "page", "groups": PAGES[:8]}
VALUE = {"value": "paid", "lower": 0, "upper": 9, "resolution": "0.1"}
TABLE = {"columns": "page,place", "groups": {"page": PAGES, "place": PLACES}}
#: Of every statistic that is added up, what defines it.
STATISTICS: dict[str, tuple[str, dict[str, Any]]] = {
    "count": ("count", {}),
    "groups": ("count", BY),
    "other": ("count", {**BY, "other_group": "rest"}),
    "two columns": ("count", {"group_by": "page,place", "groups": TABLE["groups"]}),
    "found": ("count", {"group_by": "page", "unlisted_groups": "discover", "delta": "1e-6"}),
    "found, averaged": (
        "average",
        {**VALUE, "group_by": "page", "unlisted_groups": "discover", "delta": "1e-6"},
    ),
    "sum": ("sum", {**BY, **VALUE, "series": "both"}),
    "average": ("average", VALUE),
    "quantiles": ("quantiles", {"value": "paid", "edges": "0,4,9", "line": "identity"}),
    "top-k": ("top-k", {**BY, "top": 2}),
    "distinct": ("distinct", {"user": "user"}),
    "reach": ("reach", {"user": "user", "at_least": "1,2", "contribution_period": "1w"}),
    "moments": ("moments", {"columns": "paid", "bounds": "0:9", "grid": 8}),
    "hierarchy": (
        "hierarchy",
        {
            "levels": "page,place",
            "groups": {
                "page": [page for page in PAGES for _ in PLACES],
                "place": PLACES * len(PAGES),
            },
        },
    ),
    "ranges": ("ranges", {"label": "page", "groups": PAGES}),
    "contingency": ("contingency", TABLE),
    "report": (
        "report",
        {
            "statistics": {
                "rows": {"statistic": "count"},
                "pages": {"statistic": "count", **BY},
                "paid": {"statistic": "average", **VALUE},
                "spread": {"statistic": "quantiles", "value": "paid", "edges": "0,4,9"},
            }
        },
    ),
}
PEOPLE: dict[str, dict[str, Any]] = {
    "events": {},
    "people": {"user": "user", "max_contributions": 2},
    "ids": {"row_id": "id"},
    "ids of people": {
        "user": "user",
        "max_contributions": 2,
        "contribution_period": "1w",
        "row_id": "id",
    },
}
#: What only counts by group have.
CHOICES: dict[str, dict[str, Any]] = {
    "once": {"user": "user", "max_contributions": 2, "once_per_window": True},
    "first": {"user": "user", "max_contributions": 2, "distinct_users": True},
    "spread": {"user": "user", "max_contributions": 2, "max_contributions_per_window": 1},
}


class Case(NamedTuple):
    """A job, and rows for two nights of it.

    Attributes:
        what: the statistic.
        own: what else is asked.
        append: whether the second night has new rows alone; else it has all.
        nights: the rows.
    """

    what: str
    own: dict[str, Any]
    append: bool
    nights: list[pl.DataFrame]

    def job(self, folder: Path, night: int, **more: Any) -> Job:
        """The job of a night, but for its rows."""
        asked: dict[str, Any] = {
            "time": "at", "every": "1d", "start": "2024-03-01", "windows": 30, "epsilon": 9,
            "until": f"2024-03-{ENDS[night]:02}", "strategy": "binary", "stream": "it",
            "append": self.append, "allow_empty_windows": True, "missing_values": "drop",
            **self.own, **more,
        }  # fmt: skip
        return Job(self.what, "-", folder / "s.db", **asked)


def case(seed: int, statistic: str, people: str, *, append: bool) -> Case:
    """A job over rows made by chance: late ones, copies, such as lack something or lie outside."""
    chance = random.Random(seed)
    what, own = STATISTICS[statistic]
    numbered = chance.random() < 0.5  # users are numbers
    nights: list[list[dict[str, Any]]] = []
    for begin, end in ((-2, ENDS[0] - 1), (ENDS[0] - 4, ENDS[1] - 1)):
        nights.append([_row(chance, begin, end, numbered) for _ in range(chance.randint(20, 60))])
    if "row_id" in PEOPLE.get(people, {}):
        nights[1] += chance.sample(nights[0], 9)
    frames = [pl.DataFrame(rows, schema=SCHEMA | _users(numbered)) for rows in nights]
    if not append:
        frames[1] = pl.concat(frames).sample(fraction=1, shuffle=True, seed=seed)
    of_people = (PEOPLE | CHOICES)[people]
    if what in ("distinct", "reach"):  # whose rows are those of users already
        of_people = {name: of_people[name] for name in ("row_id",) if name in of_people}
    own = {**own, **of_people}
    if "other_group" not in own:
        own.setdefault("unlisted_groups", "drop")
    if seed % 3 == 0:
        own["timezone"] = "Europe/Paris"
    return Case(what, own, append, frames)


SCHEMA: dict[str, Any] = {
    "at": pl.Datetime("us", "UTC"), "page": pl.String, "place": pl.String, "user": pl.String,
    "paid": pl.Float64, "id": pl.String,
}  # fmt: skip


def _users(numbered: bool) -> dict[str, Any]:
    return {"user": pl.Int64} if numbered else {}


def _row(chance: random.Random, begin: int, end: int, numbered: bool) -> dict[str, Any]:
    day = chance.randrange(begin, end)
    user = int(chance.expovariate(0.2))
    whole = chance.choice([0, 86_399, chance.randrange(86_400)])
    at = START + timedelta(days=day, seconds=whole, microseconds=chance.choice([0, 0, 1, 999_999]))
    return {
        "at": at if chance.random() < 0.97 else None,
        "page": chance.choice(PAGES) if chance.random() < 0.97 else None,
        "place": chance.choice(PLACES),
        "user": user if numbered else f"u{user}",
        "paid": round(chance.gauss(5, 3), 2),
        "id": str(chance.randrange(10**6)),
    }


def odd_rows() -> pl.DataFrame:
    """Rows that a source could read otherwise: rare names and numbers, ends of time, nothing."""
    usual: dict[str, Any] = {
        "at": START + timedelta(days=4), "page": "a", "place": "x", "user": "u", "paid": 1.0,
        "id": "1",
    }  # fmt: skip
    pages = ["", " a ", "a\x01b", "a\x0bb", "a\"b,'", "\N{SLIGHTLY SMILING FACE}", "e\u0301", None]
    numbers = [-0.0, 1e300, 5e-324, None]  # JSON has no others
    ends = [datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC), None]
    edges = [START - timedelta(microseconds=1), START, START + timedelta(microseconds=1)]
    odd: list[dict[str, Any]] = [
        *({"page": page} for page in pages),
        *({"paid": number} for number in numbers),
        *({"at": at} for at in ends + edges),
        *({"user": user} for user in ("", None)),
        dict.fromkeys(usual),
        {},
        {},
    ]
    return pl.DataFrame([usual | row for row in odd], schema=SCHEMA)


def odd_ends(
    folder: Path, people: str, given: Callable[[Path, pl.DataFrame], dict[str, Any]]
) -> tuple[Any, ...]:
    """What a run says of the odd rows, and what is wrong with those that it sets aside."""
    folder.mkdir()
    own = {**BY, **VALUE, "unlisted_groups": "drop", **PEOPLE[people]}
    each = Case("sum", own, True, [odd_rows()])
    asked = each.job(folder, 0, missing_values="fail", bad_rows=f"quarantine:{folder}/bad.csv")
    with run(asked.derive(**given(folder, each.nights[0]))) as outcome:
        return told(outcome), sorted(pl.read_csv(folder / "bad.csv")["problem"].to_list())


class Lent:
    """A frame of some library that lends its columns by Arrow's interface, and no more."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


def as_texts(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with times as programs write them."""
    return rows.with_columns(pl.col("at").dt.to_string("%Y-%m-%dT%H:%M:%S%.6f%:z"))


def _csv(folder: Path, rows: pl.DataFrame) -> dict[str, Any]:
    as_texts(rows).write_csv(folder / "rows.csv")
    return {"events": folder / "rows.csv"}


def _jsonl(folder: Path, rows: pl.DataFrame) -> dict[str, Any]:
    as_texts(rows).write_ndjson(folder / "rows.jsonl")
    return {"events": folder / "rows.jsonl"}


def _parquet(folder: Path, rows: pl.DataFrame) -> dict[str, Any]:
    rows.write_parquet(folder / "rows.parquet")
    return {"events": folder / "rows.parquet"}


def _several(folder: Path, rows: pl.DataFrame) -> dict[str, Any]:
    half = rows.height // 2
    folder /= str(len([*folder.iterdir()]))  # a counted file keeps its bytes
    folder.mkdir()
    files = [_csv(folder, rows[:half])["events"], _parquet(folder, rows[half:])["events"]]
    return {"events": files}


def _pandas(folder: Path, rows: pl.DataFrame) -> dict[str, Any]:
    import pandas as pd

    return {"events": pd.DataFrame({name: rows[name].to_list() for name in rows.columns})}


def _relation(folder: Path, rows: pl.DataFrame) -> dict[str, Any]:
    import duckdb

    rows.write_parquet(folder / "related.parquet")
    return {"events": duckdb.connect().read_parquet(str(folder / "related.parquet"))}


def in_sqlite(path: Path, rows: pl.DataFrame) -> dict[str, Any]:
    """What a job says of rows that a file of SQLite has, once they are there."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        names = ", ".join(f"'{name}'" for name in rows.columns)
        database.execute(f"create table visits ({names})")
        several = ", ".join("?" * rows.width)
        database.executemany(f"insert into visits values ({several})", as_texts(rows).rows())  # noqa: S608
        database.commit()
    return {"events": f"sqlite:///{path}", "query": "select * from visits -- all of them"}


def in_postgresql(url: str, rows: pl.DataFrame) -> dict[str, Any]:
    """What a job says of rows that a server has, once they are there."""
    import psycopg

    columns = ", ".join(f'"{name}" {_TYPES[dtype]}' for name, dtype in rows.schema.items())
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("drop table if exists visits")
        cursor.execute(f"create table visits({columns})")
        with cursor.copy("copy visits from stdin") as copy:
            for row in rows.rows():
                copy.write_row(row)
    return {"events": url, "query": "select * from visits -- all of them"}


_TYPES: dict[pl.DataType, str] = {
    pl.Datetime("us", "UTC"): "timestamptz", pl.String(): "varchar", pl.Int64(): "int8",
    pl.Float64(): "float8",
}  # fmt: skip


#: Where rows may be, by name: what a job says of them, once they are there.
SOURCES: dict[str, Callable[[Path, pl.DataFrame], dict[str, Any]]] = {
    "CSV": _csv,
    "JSON lines": _jsonl,
    "Parquet": _parquet,
    "two files": _several,
    "a frame": lambda _, rows: {"events": rows},
    "a lazy frame": lambda _, rows: {"events": rows.lazy()},
    "Arrow": lambda _, rows: {"events": Lent(rows)},
    "pandas": _pandas,
    "a relation of DuckDB": _relation,
    "a file of SQLite": lambda folder, rows: in_sqlite(folder / "shop.sqlite", rows),
}


def told(outcome: RunResult) -> tuple[Any, ...]:
    """All that a run says, the rows of its journal, and the table that it released."""
    found = counts_of(outcome)
    facts = (found.rows, found.before, found.after_last_window, found.unlisted, found.skipped)
    counts = (
        found.late,
        found.beyond_bound,
        found.duplicates,
        found.after_final,
        outcome.is_duplicate_input,
    )
    steps = (outcome.before, outcome.after, outcome.until)
    if not outcome.after:
        return facts, counts, steps, None, None
    kept = releases_of(outcome).tolist()
    return facts, counts, steps, kept, outcome.read().table().rows()


def nights_of(
    each: Case,
    folder: Path,
    given: Callable[[Path, pl.DataFrame], dict[str, Any]],
    counted: Callable[..., Any] = run,
) -> Iterator[tuple[Any, ...] | str]:
    """What each night says; of one that is refused the kind of its error."""
    folder.mkdir()
    for night, rows in enumerate(each.nights):
        job = each.job(folder, night).derive(**given(folder, rows))
        try:
            with counted(job) as outcome:
                yield told(outcome)
        except CountonError as error:
            yield f"{type(error).__name__}: {error}"

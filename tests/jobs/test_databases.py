"""Rows that a database has: the same bits as of a file, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from spark_jobs import JOBS, PAGES, events, job

from counton.errors import InvalidInput, MissingExtra, ReplayMismatch
from counton.events import databases
from counton.jobs.runs import Outcome, run

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")

#: Those of which `test_every_source.py` has no case.
NAMES = [
    *("people once", "people first", "weeks of people", "found of people"),
    *("found top", "report of people"),
]
SOME = ["groups", "average", "people", "found", "local days"]


@pytest.fixture
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, salts and secrets that are the same for each new stream."""
    monkeypatch.setattr("counton.noise.key.secrets.token_bytes", lambda size: bytes(range(size)))
    monkeypatch.setattr("counton.noise.key.secrets.token_hex", lambda size: "5a" * size)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that databases were asked."""
    asked: list[str] = []
    for kind in (databases.DuckRelation, databases.PostgreSQL):

        def rows(self: Any, select: str, before: Any = kind.rows) -> pl.DataFrame:
            asked.append(select)
            found: pl.DataFrame = before(self, select)
            return found

        monkeypatch.setattr(kind, "rows", rows)
    return asked


def told(outcome: Outcome) -> tuple[Any, ...]:
    """All that a run says, and the rows of its journal."""
    found = outcome.for_operator()
    facts = (found.rows, found.before, found.beyond, found.unknown, found.skipped)
    counts = (found.late, found.beyond_most, found.known, found.closed, outcome.again)
    steps = (outcome.before, outcome.after, outcome.until)
    table = outcome.read().table().rows() if outcome.after else None
    return facts, counts, steps, table


def moments(rows: pl.DataFrame, zone: str | None = None) -> pl.DataFrame:
    """The same with times as databases have them."""
    at = pl.col("at").str.to_datetime("%Y-%m-%dT%H:%M", time_unit="us")
    return rows.with_columns(at.dt.replace_time_zone(zone or "UTC").dt.convert_time_zone("UTC"))


def in_duckdb(path: Path, rows: pl.DataFrame) -> str:
    """The address of a database with these rows as its visits."""
    table = path.with_suffix(".parquet")
    rows.write_parquet(table)
    path.unlink(missing_ok=True)
    with closing(duckdb.connect(str(path))) as connection:
        connection.read_parquet(str(table)).create("visits")
    return f"duckdb:///{path}"


def nights(name: str, *, append: bool) -> Iterator[pl.DataFrame]:
    """Rows of two nights, the second with late ones."""
    rows = events()
    yield rows.filter(pl.col("at") < "2024-03-12")
    repeated = "id" in JOBS[name][1]
    since = "2024-03-11" if repeated else "2024-03-12"
    late = rows.filter(pl.col("at") < "2024-03-03").gather_every(3)
    late = late.with_columns(id=pl.lit("late") + pl.col("id"))
    yield (
        pl.concat([rows.filter(pl.col("at") >= since), late]) if append else pl.concat([rows, late])
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_question_has_the_bits_of_a_file(name: str, tmp_path: Path, one_key: None) -> None:
    for state, append in (("whole", False), ("nights", True)):
        file, asked, related = (
            job(name, tmp_path, f"{state} {way}", append=append) for way in ("file", "url", "rows")
        )
        for rows in nights(name, append=append):
            rows = moments(rows, file.timezone)
            table = tmp_path / "rows.parquet"
            rows.write_parquet(table)
            with run(file.having(events=table)) as outcome:
                expected = told(outcome)
            url = in_duckdb(tmp_path / "visits.duckdb", rows)
            with run(asked.having(events=url, query="select * from visits;")) as outcome:
                assert told(outcome) == expected
            with closing(duckdb.connect()) as connection:
                related = related.having(events=connection.read_parquet(str(table)))
                with run(related) as outcome:
                    assert told(outcome) == expected
    assert expected[2][1] > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", SOME)
def test_postgresql_has_the_bits_of_a_file(
    name: str, tmp_path: Path, postgres: str, one_key: None
) -> None:
    import psycopg

    file, asked = (job(name, tmp_path, way, append=True) for way in ("file", "url"))
    for rows in nights(name, append=True):
        rows = moments(rows, file.timezone)
        with run(file.having(events=rows)) as outcome:
            expected = told(outcome)
        with psycopg.connect(postgres) as connection, connection.cursor() as cursor:
            cursor.execute("drop table if exists visits")
            cursor.execute(
                "create table visits"
                "(at timestamptz, page varchar, place text, who text, paid float8, id text)"
            )
            with cursor.copy("copy visits from stdin") as copy:
                for row in rows.rows():
                    copy.write_row(row)
        query = 'select at, page, place, who as "user", paid, id from visits -- all of them'
        with run(asked.having(events=postgres, query=query)) as outcome:
            assert told(outcome) == expected
    gone = "with gone as (delete from visits returning *) select * from gone"
    with pytest.raises(InvalidInput, match=r"does not answer \("):
        run(asked.having(events=postgres, query=gone))


def test_rows_that_are_alike_stay_where_they_are(
    tmp_path: Path, one_key: None, counted: list[str]
) -> None:
    rows = moments(events())
    url, query = in_duckdb(tmp_path / "visits.duckdb", rows), "select * from visits"
    for name, far in {"groups": True, "people": False, "average": False, "ids": False}.items():
        counted.clear()
        with run(job(name, tmp_path, name).having(events=url, query=query)):
            pass
        whole = [select for select in counted if "LIMIT 0" not in select]
        assert [("GROUP BY" in select) for select in whole] == [far], name
    assert "user" not in "".join(counted)  # nor any other name of a column or value


def test_dates_and_local_times_are_counted_there_too(
    tmp_path: Path, one_key: None, counted: list[str]
) -> None:
    rows = moments(events())
    local = rows.with_columns(pl.col("at").dt.replace_time_zone(None))
    days = rows.with_columns(pl.col("at").dt.date())
    for number, each in enumerate((local, days)):
        url = in_duckdb(tmp_path / f"{number}.duckdb", each)
        there = job("groups", tmp_path, f"there {number}")
        with run(job("groups", tmp_path, f"here {number}").having(events=each)) as outcome:
            expected = told(outcome)
        with run(there.having(events=url, query="select * from visits")) as outcome:
            assert told(outcome) == expected
    assert sum("GROUP BY" in select for select in counted) == 2


def test_bad_rows_are_told_and_set_aside(tmp_path: Path, one_key: None) -> None:
    rows = moments(events())
    rows = rows.with_columns(
        at=pl.when(pl.int_range(pl.len()) % 100 != 7).then("at"),
        page=pl.when(pl.int_range(pl.len()) % 90 != 3).then("page"),
    )
    url, query = in_duckdb(tmp_path / "visits.duckdb", rows), "select * from visits"
    with pytest.raises(InvalidInput, match=r"a row of the question to duckdb:///\S+ has no "):
        run(job("groups", tmp_path, "refused").having(events=url, query=query))
    skipped, aside = [], []
    for way, source in (("here", {"events": rows}), ("there", {"events": url, "query": query})):
        asked = job("groups", tmp_path, way, missing="skip", unknown="drop")
        with run(asked.having(**source)) as outcome:
            skipped.append(told(outcome))
        asked = job("groups", tmp_path, f"{way} aside").having(**source)
        with run(asked.having(bad_rows=f"quarantine:{tmp_path}/{way}.csv")) as outcome:
            aside.append(told(outcome))
    assert skipped[0] == skipped[1]
    assert skipped[0][0][4] > 0
    assert aside[0] == aside[1]
    found = [pl.read_csv(tmp_path / f"{way}.csv").height for way in ("here", "there")]
    assert found[0] == found[1] > 0


@pytest.mark.parametrize("name", ["groups", "average"])
def test_rows_that_were_counted_may_not_change(name: str, tmp_path: Path, one_key: None) -> None:
    """As of a file: counted rows again add nothing, and fewer or other ones are refused."""
    rows, path = moments(events()), tmp_path / "visits.duckdb"
    asked = job(name, tmp_path, append=True, query="select * from visits")
    url = in_duckdb(path, rows)
    with run(asked.having(events=url)) as outcome:
        steps = outcome.after
    in_duckdb(path, rows.reverse())
    with run(asked.having(events=url)) as outcome:
        assert (outcome.again, outcome.before) == (True, steps)
    in_duckdb(path, rows.with_columns(pl.col("at").dt.offset_by("1us")))
    with pytest.raises(ReplayMismatch, match="windows that hold the same rows already"):
        run(asked.having(events=url))
    whole = job(name, tmp_path, "whole", query="select * from visits")
    with run(whole.having(events=in_duckdb(path, rows))):
        pass
    with pytest.raises(ReplayMismatch, match="rows must not disappear or change"):
        run(whole.having(events=in_duckdb(path, rows[1:])))


def test_texts_are_told_apart_by_their_bytes(tmp_path: Path, one_key: None) -> None:
    query = 'select "at", page collate nocase as page from visits'
    rows = moments(events()).with_columns(
        page=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.col("page").str.to_uppercase())
        .otherwise("page")
    )  # fmt: skip
    url = in_duckdb(tmp_path / "visits.duckdb", rows)
    asked = job("dropped", tmp_path, "there").having(events=url, query=query)
    with run(job("dropped", tmp_path, "here").having(events=rows)) as here, run(asked) as there:
        assert told(there) == told(here)
        assert there.for_operator().unknown > 0


def test_what_is_no_question_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = in_duckdb(tmp_path / "visits.duckdb", moments(events()))
    asked = job("groups", tmp_path)
    refused: dict[str, dict[str, Any]] = {
        "which rows of it are meant; give query=select": {"events": url},
        "events are 2, and a question to a database stands alone": {
            "events": [url, "rows.csv"],
            "query": "select 1",
        },
        "asks a database, and events are none": {"events": events(), "query": "select 1"},
        r"does not answer \(.*nowhere": {"events": url, "query": "select * from nowhere"},
        r"does not answer \(.*url does not exist": {"events": url, "query": "select * from url"},
        r"has no column 'at'; its columns are a": {"events": url, "query": "select 1 as a"},
        "does not answer .*does not exist": {
            "events": "duckdb:///none.duckdb",
            "query": "select 1 as at",
        },
    }
    for match, given in refused.items():
        with pytest.raises(InvalidInput, match=match):
            run(asked.having(**given))
    episodes = {"letter": "page", "alphabet": PAGES, "longest": 2, "by": None, "domain": None}
    ordered = job("groups", tmp_path, "ordered").having(
        what="episodes", strategy=None, events=url, query="select * from visits", **episodes
    )
    with pytest.raises(InvalidInput, match="episodes takes rows in their order"):
        run(ordered)
    with closing(duckdb.connect()) as connection:
        relation = connection.sql("select 1 as a")
        with pytest.raises(InvalidInput, match="a relation, which is a question by itself"):
            run(asked.having(events=relation, query="select 1"))
    assert not list(tmp_path.glob("*.db"))
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingExtra, match="install counton's extra 'duckdb'"):
        run(asked.having(events=url, query="select * from visits"))


@pytest.mark.slow
def test_a_password_is_in_no_message(tmp_path: Path) -> None:
    url = "postgresql://ann:horse@127.0.0.1:1/visits"
    with pytest.raises(
        InvalidInput, match=r"postgresql://127\.0\.0\.1:1/visits has no answer"
    ) as told:
        run(job("groups", tmp_path).having(events=url, query="select 1"))
    assert "horse" not in str(told.value)
    assert told.value.__cause__ is None

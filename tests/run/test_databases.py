"""Rows of a query to SQLite or PostgreSQL: the same bits as of a file, and what is refused."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from postgresql_server import Server
from run_results import counts_of
from sources import in_postgresql, in_sqlite, told
from spark_jobs import events, job

from counton.base.errors import CountonError, InvalidInputError, StateUnavailableError
from counton.cli.exits import RETRYABLE_CODES, exit_code
from counton.io.databases import open_query
from counton.run import Job, run


def moments(rows: pl.DataFrame, zone: str | None = None) -> pl.DataFrame:
    """The same with times as databases have them."""
    at = pl.col("at").str.to_datetime("%Y-%m-%dT%H:%M", time_unit="us")
    return rows.with_columns(at.dt.replace_time_zone(zone or "UTC").dt.convert_time_zone("UTC"))


#: Puts rows into a database, and says what a job says of them.
Put = Callable[[pl.DataFrame], dict[str, Any]]


@pytest.fixture(params=["SQLite", pytest.param("PostgreSQL", marks=pytest.mark.slow)])
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Put:
    if request.param == "PostgreSQL":
        url = request.getfixturevalue("postgres")
        return lambda rows: in_postgresql(url, rows)
    return lambda rows: in_sqlite(tmp_path / "visits.sqlite", rows)


def test_query_cannot_write_to_database(put: Put, tmp_path: Path) -> None:
    """Whatever it says: what could write is refused, and what is there stays."""
    given = put(moments(events()))
    asked = job("groups", tmp_path)
    there = tmp_path / "there"
    written = f"'{there}.csv'"
    ends = "select 1) as asked limit 0; commit; begin read write; delete from visits; commit; "
    for query in (
        "delete from visits returning *",
        "with gone as (delete from visits returning *) select * from gone",
        f"{ends} select * from (select 1",  # noqa: S608
        "select 1; delete from visits",
        "create table others as select * from visits",
        f"copy (select * from visits) to {written}",  # noqa: S608
        f"copy (select * from visits) to program 'cat > {there}'",  # noqa: S608
        f"export database '{there}'",
        f"attach {written} as other",
        "set work_mem = 1",
        "pragma query_only = off",
        "begin",
        "select *, nextval('numbers') from visits",
        "select *, wipe() from visits",
        "select *, set_config('transaction_read_only', 'off', true), wipe() from visits",
        f"select *, lo_export(1, {written}) from visits",  # noqa: S608
        "select *, pg_reload_conf() from visits",
    ):
        with pytest.raises(InvalidInputError, match=r"cannot be answered \("):
            run(asked.derive(**given | {"query": query}))
        assert not list(tmp_path.glob("there*")), query
    with run(asked.derive(**given)) as outcome:
        assert counts_of(outcome).rows == events().height


@pytest.mark.slow
def test_query_of_superuser_runs_with_rights_of_reader(
    postgres_server: Server, tmp_path: Path
) -> None:
    """And of the tables that its own name finds; where rows would be hidden it is told."""
    import psycopg

    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        for statement in (
            "create role ann superuser login",
            "create schema ann",
            "create table ann.visits as select timestamptz '2024-03-02' as at, 'a' as page",
            "create table public.visits as select timestamptz '2024-03-02' as at, 'b' as page",
            "create table ann.hidden as select * from ann.visits",
            "alter table ann.hidden enable row level security",
        ):
            connection.execute(statement)
    url = postgres_server.url.replace("counton@", "ann@")
    found = open_query(url, "select *, current_user as asks from visits").parts[0]
    assert found.scan(["page", "asks"]).collect().rows() == [("a", "pg_read_all_data")]
    with pytest.raises(InvalidInputError, match="row-level security policy"):
        open_query(url, "select * from hidden")


@pytest.mark.slow
def test_enumerations_and_texts_of_a_server_are_texts(postgres: str, tmp_path: Path) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("create type mood as enum ('sad', 'glad')")
        connection.execute("create domain feeling as mood")
        connection.execute("create type pair as (a int, b int)")
    at = "timestamptz '2024-03-02 10:00Z' as at"
    query = f"select {at}, 'glad'::mood as mood, 'sad'::feeling as feeling, row(1, 2)::pair as pair"
    fixed = {
        "time": "at",
        "every": "1d",
        "start": "2024-03-01",
        "windows": 9,
        "until": "2024-03-04",
    }
    by: dict[str, Any] = {"group_by": "mood", "groups": "glad"}
    for number, role in enumerate(
        (by, {"user": "feeling", "max_contributions": 1}, {"row_id": "mood"})
    ):
        asked = Job("count", postgres, tmp_path / f"{number}.db", epsilon=10**6, query=query)
        with run(asked.derive(**fixed, **role)) as outcome:
            tally = counts_of(outcome)
        assert (tally.rows, tally.unlisted) == (1, 0)
    pair = Job("count", postgres, tmp_path / "pair.db", epsilon=1, query=query, row_id="pair")
    with run(pair.derive(**fixed)) as outcome:
        assert counts_of(outcome).rows == 1


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql://h:99999/db", "postgresql://h:abc/db", "postgresql://[::1/db"),
        *("postgresql://[aaa]/db", "postgresql://a..b/db", f"postgresql://{'a' * 300}/db"),
        *("postgresql://%zz/db", "postgresql+asyncpg://h/db", "postgresql://u:p@w@/run/db"),
        *("sqlite:////etc/passwd", "sqlite:///.", "duckdb:////etc/passwd", "mysql://h/db"),
        f"sqlite:///{'a' * 5000}",
    ],
)
def test_odd_addresses_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(CountonError, match=r"answer|no database|are the address") as told:
        run(job("groups", tmp_path).derive(events=url, query="select 1 as at"))
    assert "p@w" not in str(told.value)


@pytest.mark.parametrize("name", ["groups", "people"])
def test_rows_that_were_counted_change_nothing(
    name: str, put: Put, tmp_path: Path, one_key: None
) -> None:
    """The same rows are known in any order."""
    rows = moments(events())
    asked = job(name, tmp_path, append=True)
    with run(asked.derive(**put(rows))) as outcome:
        steps = outcome.after
    with run(asked.derive(**put(rows.reverse()))) as outcome:
        assert (outcome.is_duplicate_input, outcome.before) == (True, steps)


def test_sqlite_has_values_and_no_types(tmp_path: Path, one_key: None) -> None:
    """A row says what it says alone, as in CSV."""
    path = tmp_path / "visits.sqlite"
    values: list[tuple[Any, ...]] = [
        ("2024-03-01T09:00:00Z", "1", 7, 0.1),
        ("2024-03-02 09:00:00+00:00", 1.0, 7.0, 3),
        ("2024-03-03", "01", 8, "2.5"),
    ]
    asked = Job(
        "sum", "-", tmp_path / "s.db", time="at", every="1d", start="2024-03-01", windows=9,
        until="2024-03-04", group_by="page", groups="1,01", value="paid", lower=0, upper=4,
        resolution="0.1", user="user", max_contributions=2, epsilon=1, query="select * from visits",
    )  # fmt: skip

    def given(*rows: tuple[Any, ...]) -> Job:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database:
            database.execute("create table visits (at, page, user, paid)")
            database.executemany("insert into visits values (?, ?, ?, ?)", rows)
            database.commit()
        return asked.derive(events=f"sqlite:///{path}")

    texts = pl.DataFrame(
        [[str(value).removesuffix(".0") for value in row] for row in values],
        schema=["at", "page", "user", "paid"],
        orient="row",
    )
    with run(given(*values)) as there:
        expected = told(there)
    with run(asked.derive(events=texts, query=None, state=tmp_path / "here.db")) as here:
        assert told(here) == expected
    refused = given(*values, (values[0][0], "1", "7", b"\xff"))
    with pytest.raises(
        InvalidInputError, match=r"a row of the query of .* no value in column 'paid'"
    ):
        run(refused.derive(state=tmp_path / "refused.db"))
    for address in ("sqlite:///", "sqlite://"):
        with pytest.raises(InvalidInputError, match=r"names no file; give sqlite:///FILE"):
            run(asked.derive(events=address))
    with pytest.raises(InvalidInputError, match=r"cannot be answered \(unable to open"):
        run(asked.derive(events=f"sqlite:///{tmp_path}/none.sqlite"))
    assert not (tmp_path / "none.sqlite").exists()


#: Cells of SQLite, one of which a row has in the place of a name, and what is counted of the row.
ODD_CELLS: dict[str, int] = {"x'ff'": 0, "cast(x'61ff' as text)": 0, "x'61'": 1, "'a'": 1}


@pytest.mark.parametrize("column", ["page", "user", "id"])
def test_unreadable_cell_of_sqlite_affects_only_its_row(
    column: str, tmp_path: Path, one_key: None
) -> None:
    """Neighbours: with or without one row, whatever it holds, all others count."""
    path = tmp_path / "visits.sqlite"
    found = dict[str | None, list[float]]()
    usual = {"at": "'2024-03-01T09:00Z'", "page": "'a'", "user": "'ann'", "id": "'one'"}
    other = {**usual, "user": "'bob'", "id": "'two'"}
    for cell in (None, *ODD_CELLS):
        path.unlink(missing_ok=True)
        rows = [usual, *([] if cell is None else [other | {column: cell}])]
        with closing(sqlite3.connect(path)) as database:
            database.execute("create table visits (at, page, user, id)")
            for row in rows:
                database.execute(f"insert into visits values ({', '.join(row.values())})")  # noqa: S608
            database.commit()
        asked = Job(
            "count", f"sqlite:///{path}", tmp_path / f"{len(found)}.db", time="at", every="1d",
            start="2024-03-01", windows=9, until="2024-03-02", group_by="page", groups="a,b",
            user="user", max_contributions=2, row_id="id", epsilon=10**7,
            query="select * from visits",
            missing_values="drop", bad_rows=f"quarantine:{tmp_path / 'bad.csv'}",
        )  # fmt: skip
        with run(asked) as done:
            found[cell] = done.read().table()["estimate"].to_list()
    assert found == {None: [1, 0]} | {cell: [1 + more, 0] for cell, more in ODD_CELLS.items()}


def test_sqlite_changed_during_reading_is_refused(tmp_path: Path) -> None:
    given = in_sqlite(tmp_path / "a #1.sqlite", moments(events()))
    rows = open_query(
        given["events"].replace("sqlite:", "sqlite+pysqlite:"), "select * from visits"
    )
    part = rows.parts[0]
    assert part.scan(["page"]).collect().height == 900
    with closing(sqlite3.connect(tmp_path / "a #1.sqlite")) as database:
        database.execute("delete from visits where page = 'a'")
        database.commit()
    with pytest.raises(InvalidInputError, match="returned other rows"):
        part.scan(["page", "at"])


def test_invalid_query_is_refused(tmp_path: Path) -> None:
    url = in_sqlite(tmp_path / "visits.sqlite", moments(events()))["events"]
    asked = job("groups", tmp_path)
    refused: dict[str, dict[str, Any]] = {
        "the query that selects its rows is missing; give query=select": {"events": url},
        "events names 2 sources, and one of them is a database, whose rows cannot be joined": {
            "events": [url, "rows.csv"],
            "query": "select 1",
        },
        "is for a database, and events name no database": {"events": events(), "query": "select 1"},
        r"cannot be answered \(.*nowhere": {"events": url, "query": "select * from nowhere"},
        "the query of sqlite:///.* has two columns 'at', so nobody can tell which is meant": {
            "events": url,
            "query": "select page as at, at from visits",
        },
        r"has no column 'at'.*columns are a$": {"events": url, "query": "select 1 as a"},
    }
    for match, given in refused.items():
        with pytest.raises(InvalidInputError, match=match):
            run(asked.derive(**given))
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "match"),
    [
        (
            "postgresql://ann:horse@127.0.0.1:1/visits",
            r"postgresql://127\.0\.0\.1:1/visits got no answer \(.*refused",
        ),
        ("postgresql://ann:horse@no.host.invalid/visits", r"got no answer \(.*no\.host\.invalid"),
        ("postgresql://ann:ba@horse@/visits", r"got no answer \(OperationalError\)"),
        ("postgresql://127.0.0.1:1/visits?password=horse@x", r"got no answer \(OperationalError\)"),
    ],
)
def test_unavailable_server_raises_retryable_error_without_password(
    url: str, match: str, tmp_path: Path
) -> None:
    with pytest.raises(StateUnavailableError, match=match) as told:
        run(job("groups", tmp_path).derive(events=url, query="select 1"))
    assert exit_code(told.value) in RETRYABLE_CODES
    assert "horse" not in str(told.value)
    assert told.value.__cause__ is None


#: A question about the windows that are due, as each database compares times.
DUE = {
    "sqlite": "datetime(at) >= datetime({since}) and datetime(at) < datetime({until})",
    "": '"at" >= {since} and "at" < {until}',
}


@pytest.mark.parametrize("append", [False, True])
def test_query_for_due_windows_gives_counts_of_complete_file(
    append: bool, put: Put, tmp_path: Path, one_key: None
) -> None:
    """Three nights that each ask for their windows alone release what one file of all would."""
    rows = moments(events()).sort("at")
    given = put(rows)
    due = DUE["sqlite" if str(given["events"]).startswith("sqlite") else ""]
    given["query"] = f"select * from visits where {due} and '50%{{x}}' like '%{{%'"  # noqa: S608
    table = tmp_path / "rows.parquet"
    rows.write_parquet(table)
    whole = job("groups", tmp_path, "whole", allow_empty_windows=True).derive(events=table)
    asked = job("groups", tmp_path, "asked", append=append, allow_empty_windows=True).derive(
        **given
    )
    read = []
    for until in ("2024-03-05", "2024-03-05", "2024-03-12", "2024-03-17"):
        with run(whole.derive(until=until)) as outcome:
            expected = told(outcome)[3:]
        with run(asked.derive(until=until)) as outcome:
            assert told(outcome)[3:] == expected
            assert counts_of(outcome).missing == 0  # rows of released windows are not asked for
            read.append(counts_of(outcome).rows)
    first = events().filter(pl.col("at") < "2024-03-05").height
    assert read[:2] == [first, 0]
    assert sum(read) == events().filter(pl.col("at") < "2024-03-17").height


def test_moments_are_of_the_zone_of_the_stream(tmp_path: Path) -> None:
    """A day in Zurich begins before that of UTC."""
    at = pl.Series("at", ["2024-03-01T22:30", "2024-03-01T23:30", "2024-03-02T22:30"])
    moment = at.str.to_datetime("%Y-%m-%dT%H:%M", time_unit="us").dt.replace_time_zone("UTC")
    given = in_sqlite(tmp_path / "visits.sqlite", pl.DataFrame({"at": moment}))
    query = f"select * from visits where {DUE['sqlite']}"  # noqa: S608
    asked = Job(
        *("count", given["events"], tmp_path / "s.db"), query=query, time="at", every="1d",
        timezone="Europe/Zurich", start="2024-03-02", windows=9, until="2024-03-03", epsilon=1,
    )  # fmt: skip
    with run(asked) as outcome:
        assert counts_of(outcome).rows == 2


@pytest.mark.parametrize(
    ("where", "more", "match"),
    [
        ("at >= {since}", {"append": True}, "count them twice"),
        ("at < {until}", {"append": True}, "count them twice"),
        ("at >= '{since}'", {}, "remove the quotes"),
        ("at < {until}", {"until": "latest-event"}, "is known only after the rows are read"),
    ],
)
def test_moments_that_would_count_wrongly_are_refused(
    where: str, more: dict[str, Any], match: str, tmp_path: Path
) -> None:
    url = in_sqlite(tmp_path / "visits.sqlite", moments(events()))["events"]
    given = {"events": url, "query": " ".join(["select * from visits where", where])}
    with pytest.raises(InvalidInputError, match=match):
        run(job("groups", tmp_path, **more).derive(**given))
    assert not list(tmp_path.glob("*.db"))

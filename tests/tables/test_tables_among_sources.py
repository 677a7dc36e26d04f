"""The cases of tests/run/test_every_source.py in tables of ibis, Delta, Iceberg: the same bits."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sources import CHOICES, PEOPLE, SOURCES, STATISTICS, case, nights_of, odd_ends
from spark_jobs import PAGES, events, job

from counton.base.errors import CountonError, InvalidInput
from counton.rows import databases
from counton.run import run

ibis: Any = pytest.importorskip("ibis", reason="ibis is not installed: make test-tables")
deltalake: Any = pytest.importorskip("deltalake", reason="deltalake: make test-tables")
catalogs: Any = pytest.importorskip("pyiceberg.catalog.sql", reason="pyiceberg: make test-tables")
duckdb: Any = pytest.importorskip("duckdb", reason="duckdb is not installed")

# Their own warnings, of each other's versions.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

LONG = int(os.environ.get("COUNTON_FUZZ", "0"))


def ibis_over_duckdb(folder: Path, rows: pl.DataFrame) -> Any:
    rows.write_parquet(folder / "asked.parquet")
    database = duckdb.connect()
    database.read_parquet(str(folder / "asked.parquet")).create("visits")
    visits = ibis.duckdb.from_connection(database).table("visits")
    return visits.filter(visits.place.notnull() | visits.place.isnull())


def ibis_in_memory(folder: Path, rows: pl.DataFrame) -> Any:
    return ibis.memtable(rows)


def ibis_over_polars(folder: Path, rows: pl.DataFrame) -> Any:
    return ibis.polars.connect({"visits": rows}).table("visits")


def in_delta(folder: Path, rows: pl.DataFrame) -> Any:
    """A table with a version before: of other rows, some of them deleted, then all overwritten."""
    place, half = folder / "delta", rows.height // 2
    deltalake.write_deltalake(place, rows[::3], mode="overwrite")
    deltalake.DeltaTable(place).delete("place = 'x'")
    deltalake.write_deltalake(place, rows[:half], mode="overwrite")
    deltalake.write_deltalake(place, rows[half:], mode="append")
    return deltalake.DeltaTable(place)


def in_iceberg(folder: Path, rows: pl.DataFrame) -> Any:
    place, half = folder / "lake", rows.height // 2
    place.mkdir(exist_ok=True)
    catalog = catalogs.SqlCatalog("it", uri=f"sqlite:///{place}/c.db", warehouse=place.as_uri())
    catalog.create_namespace_if_not_exists("shop")
    if catalog.table_exists("shop.visits"):
        catalog.drop_table("shop.visits")
    table = catalog.create_table("shop.visits", schema=rows.to_arrow().schema)
    table.append(rows[::3].to_arrow())
    table.overwrite(rows[:half].to_arrow())
    table.append(rows[half:].to_arrow())
    return table


TABLES: dict[str, Callable[[Path, pl.DataFrame], Any]] = {
    "ibis over DuckDB": ibis_over_duckdb,
    "ibis in memory": ibis_in_memory,
    "ibis over polars": ibis_over_polars,
    "Delta": in_delta,
    "Iceberg": in_iceberg,
    "a scan of Iceberg": lambda folder, rows: in_iceberg(folder, rows).scan(),
}


@pytest.fixture
def one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, salts and secrets that are the same for each new stream."""
    monkeypatch.setattr("counton.noise.key.secrets.token_bytes", lambda size: bytes(range(size)))
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")  # and one identity
    monkeypatch.setattr("counton.noise.key.secrets.token_hex", lambda size: "5a" * size)


@pytest.mark.usefixtures("one_key")
@pytest.mark.parametrize("statistic", STATISTICS)
def test_tables_have_the_bits_of_a_frame(statistic: str, tmp_path: Path) -> None:
    kinds = [*PEOPLE, *(CHOICES if statistic == "groups" else ())]
    place = list(STATISTICS).index(statistic)
    seeds = [secrets.randbelow(10**9) for _ in range(LONG)] or [place]
    for turn, seed in enumerate(seeds):
        each = case(seed, statistic, kinds[(place + turn) % len(kinds)], append=seed % 3 > 0)
        folder = tmp_path / str(turn)
        folder.mkdir()
        expected = list(nights_of(each, folder / "a frame", SOURCES["a frame"]))
        assert not any(isinstance(night, str) for night in expected), expected
        for name, made in TABLES.items():

            def given(folder: Path, rows: pl.DataFrame) -> dict[str, Any]:
                return {"events": made(folder, rows)}  # noqa: B023

            assert list(nights_of(each, folder / name, given)) == expected, (name, each)


@pytest.mark.usefixtures("one_key")
@pytest.mark.parametrize("people", ["events", "people"])
def test_odd_rows_of_tables_are_those_of_a_frame(people: str, tmp_path: Path) -> None:
    expected = odd_ends(tmp_path / "a frame", people, SOURCES["a frame"])
    for name, made in TABLES.items():

        def given(folder: Path, rows: pl.DataFrame) -> dict[str, Any]:
            return {"events": made(folder, rows)}  # noqa: B023

        assert odd_ends(tmp_path / name, people, given) == expected, name


@pytest.fixture
def rows() -> pl.DataFrame:
    at = pl.col("at").str.to_datetime("%Y-%m-%dT%H:%M", time_unit="us", time_zone="UTC")
    return events().with_columns(at)


@pytest.mark.parametrize("table", TABLES)
def test_counted_rows_of_a_table_stay_counted(
    table: str, tmp_path: Path, rows: pl.DataFrame
) -> None:
    made = TABLES[table]
    asked = job("groups", tmp_path, append=True)
    with run(asked.having(events=made(tmp_path, rows))) as outcome:
        steps = outcome.after
    with run(asked.having(events=made(tmp_path, rows.reverse()))) as outcome:
        assert (outcome.again, outcome.before) == (True, steps)
    whole = job("groups", tmp_path, "whole")
    with run(whole.having(events=made(tmp_path, rows))):
        pass
    with run(whole.having(events=made(tmp_path, rows[1:]))) as outcome:
        assert (outcome.before, outcome.for_operator().gone) == (outcome.after, 1)


@pytest.mark.parametrize("table", TABLES)
def test_bad_rows_of_a_table_are_told_and_set_aside(
    table: str, tmp_path: Path, rows: pl.DataFrame
) -> None:
    made, number = TABLES[table], pl.int_range(pl.len())
    bad = rows.with_columns(
        at=pl.when(number % 100 != 7).then("at"),
        page=pl.when(number % 90 != 3).then("page"),
        paid=pl.when(number % 80 == 5).then(float("nan")).otherwise("paid"),
    )
    facts = list[Any]()
    for way, given in (("here", bad), ("there", made(tmp_path, bad))):
        asked = job("windows", tmp_path, way, missing="skip").having(events=given)
        with run(asked.having(bad_rows=f"quarantine:{tmp_path}/{way}.csv")) as outcome:
            facts.append(outcome.for_operator())
        set_aside = pl.read_csv(tmp_path / f"{way}.csv").drop("file", "row", strict=False)
        facts.append(sorted(map(repr, set_aside.rows())))
    assert [repr(fact) for fact in facts[:2]] == [repr(fact) for fact in facts[2:]]
    with pytest.raises(
        InvalidInput, match=r"^a row of the (ibis expr\w+|Delta table|Iceberg table)"
    ):
        run(job("windows", tmp_path, "refused").having(events=made(tmp_path, bad)))
    for what, match in {"no_such": "has no column 'no_such'; its columns are at, page"}.items():
        with pytest.raises(InvalidInput, match=match):
            run(job("groups", tmp_path, "none").having(by=what, events=made(tmp_path, rows)))
    ordered = job("groups", tmp_path, "ordered").having(
        what="episodes", strategy=None, letter="page", alphabet=PAGES, longest=2, by=None,
        domain=None, events=made(tmp_path, rows),
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="episodes needs its rows in their order"):
        run(ordered)


def test_duckdb_counts_what_ibis_asks(
    tmp_path: Path, rows: pl.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    before = databases.DuckRelation.rows

    def counted(self: Any, select: str) -> pl.DataFrame:
        asked.append(select)
        return before(self, select)

    monkeypatch.setattr(databases.DuckRelation, "rows", counted)
    for name, there in {"groups": True, "people": False}.items():
        for table in ("ibis over DuckDB", "ibis in memory"):
            asked.clear()
            with run(
                job(name, tmp_path, f"{name} {table}").having(events=TABLES[table](tmp_path, rows))
            ):
                pass
            whole = [select for select in asked if "LIMIT 0" not in select]
            assert ["GROUP BY" in select for select in whole] == [there]


def test_a_table_is_read_as_of_when_it_was_opened(tmp_path: Path, rows: pl.DataFrame) -> None:
    """Of an older version its rows; and a scan keeps its filter and its columns."""
    in_delta(tmp_path, rows)
    table = in_iceberg(tmp_path, rows)
    first = deltalake.DeltaTable(tmp_path / "delta", version=0)
    old = table.scan(snapshot_id=table.snapshots()[0].snapshot_id)
    for number, given in enumerate((first, old)):
        with run(job("groups", tmp_path, f"old {number}").having(events=given)) as outcome:
            assert outcome.for_operator().rows == rows[::3].height
    few = table.scan(row_filter="page == 'a'", selected_fields=("at", "page"))
    with run(job("groups", tmp_path, "few").having(events=few)) as outcome:
        assert outcome.for_operator().rows == rows.filter(pl.col("page") == "a").height


def test_what_cannot_be_read_whole_is_refused(tmp_path: Path, rows: pl.DataFrame) -> None:
    """A feature that polars does not know would show other rows; files of a table are not it."""
    in_delta(tmp_path, rows)
    asked = job("groups", tmp_path)
    with pytest.raises(InvalidInput, match="is the folder of a Delta table"):
        run(asked.having(events=tmp_path / "delta"))
    with pytest.raises(InvalidInput, match="is a StringColumn of ibis"):
        run(asked.having(events=ibis.memtable(rows).page))
    with pytest.raises(InvalidInput, match="the ibis expression cannot be answered"):
        run(asked.having(events=ibis.table({"at": "timestamp", "page": "string"}, name="none")))
    with pytest.raises(InvalidInput, match="events is a table already, so no query is needed"):
        run(asked.having(events=ibis.memtable(rows), query="select 1"))
    log = tmp_path / "delta" / "_delta_log" / f"{4:020}.json"
    reader = {"minReaderVersion": 2, "minWriterVersion": 5}
    log.write_text(json.dumps({"protocol": reader}) + "\n")
    with pytest.raises(CountonError, match=r"the Delta table cannot be read \(.*column mapping"):
        run(asked.having(events=deltalake.DeltaTable(tmp_path / "delta")))
    assert not list(tmp_path.glob("*.db"))

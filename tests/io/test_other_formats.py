"""Files and addresses that counton does not read are refused by what they are."""

import bz2
import lzma
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import release
from counton.base.errors import InvalidInputError
from counton.job.job_file import load
from counton.run import run

ROWS = "time\n2024-03-01\n"


def refusal(events: Any, folder: Path, **options: Any) -> str:
    with pytest.raises(InvalidInputError) as error:
        release(
            "count", events, time="time", every="1d", start="2024-03-01", windows=9, epsilon=1,
            privacy_unit="event", until="2024-03-02", state=folder / "s.db", **options,
        )  # fmt: skip
    assert not (folder / "s.db").exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v.xlsx", ("is a workbook of a spreadsheet", "CSV in UTF-8", "polars.read_excel(")),
        ("v.XLS", ("is a workbook of a spreadsheet", "polars.read_excel(")),
        ("v.csv.bz2", ("is compressed by bzip2", "bunzip2 -k ")),
        ("v.csv.xz", ("is compressed by xz", "unxz -k ")),
        ("v.zip", ("is a zip archive", "unzip ")),
        ("v.duckdb", ("is a DuckDB database", "COPY (SELECT ...) TO 'visits.parquet'")),
        ("v.tab", ("separated by tabs", "file_format=csv", "separator=tab")),
        ("v.json", ("is JSON", "jq -c '.[]'", "file_format=jsonl")),
        ("v.feather", ("a file of Arrow", "polars.read_ipc(")),
        ("v.log", ("cannot be told from its name",)),
    ],
)
def test_file_of_another_format_is_refused_by_its_ending(
    name: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(ROWS)
    said = refusal(tmp_path / name, tmp_path)
    assert all(word in said for word in words), said


def _write_named_csv(kind: str, path: Path) -> None:
    if kind == "workbook":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("xl/workbook.xml", "<workbook/>")
    elif kind == "bzip2":
        path.write_bytes(bz2.compress(ROWS.encode()))
    elif kind == "xz":
        path.write_bytes(lzma.compress(ROWS.encode()))
    elif kind == "Parquet":
        pl.DataFrame({"time": ["2024-03-01"]}).write_parquet(path)
    elif kind == "SQLite":
        with closing(sqlite3.connect(path)) as database:
            database.execute("create table visits (time)")
    else:
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(path)) as database:
            database.execute("create table visits (time text)")


@pytest.mark.parametrize("kind", ["workbook", "bzip2", "xz", "Parquet", "SQLite", "DuckDB"])
def test_file_of_other_format_named_csv_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    _write_named_csv(kind, path)
    said = refusal(path, tmp_path)
    assert kind in said, said


def test_header_that_begins_as_another_format_is_a_header(tmp_path: Path) -> None:
    for name in ("PAR1", "BZh9", "PK", "ARROW1", "12345678DUCK"):
        file = tmp_path / f"{name}.csv"
        file.write_text(f"{name},time\nx,2024-03-01\n")
        made = release(
            "count", file, time="time", every="1d", start="2024-03-01", windows=9, epsilon=100,
            privacy_unit="event", until="2024-03-02", state=tmp_path / f"{name}.db",
        )  # fmt: skip
        assert made.table()["estimate"].to_list() == [1]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("duckdb:///v.db", ("DuckDB database", "duckdb v.db -c", "COPY (SELECT ...) TO")),
        ("mysql://ann:secret@host/db", ("mysql://host/db", "write its rows into a file")),
        ("s3://bucket/v.csv", ("a file elsewhere", "copy the file")),
        ("postgres://host/db", ("write postgresql://USER@HOST/DATABASE",)),
        ("sqlite3:///v.db", ("write sqlite:///FILE",)),
        ("file:" + "///v.csv", ("give its path, '/v.csv'",)),
    ],
)
def test_address_that_is_not_read_is_refused(
    address: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    for options in ({}, {"query": "select * from visits"}):
        said = refusal(address, tmp_path, **options)
        assert all(word in said for word in words), said
        assert "secret" not in said
    file = tmp_path / "nightly.toml"
    file.write_text(
        f'[jobs.v]\nevents = "{address}"\nquery = "select 1"\ntime = "time"\nevery = "1d"\n'
        'start = "2024-03-01"\nwindows = 9\nepsilon = "1"\nprivacy-unit = "visit"\nstate = "s.db"\n'
    )
    with pytest.raises(InvalidInputError) as error:
        run(load(file)["v"])
    assert all(word in str(error.value) for word in words), str(error.value)

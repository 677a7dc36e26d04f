"""What catalogues read beside a CSV file: it fits the file, and what the standards ask for."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import ZCDP, PureDP, release
from counton.base.errors import InvalidInput
from counton.run import export

ROWS = pl.DataFrame(
    {
        "time": ["2024-01-31T09:12", "2024-02-01T09:40", "2024-02-29T11:30"],
        "page": ["home", "shop", "home"],
        "paid": [3, 5, 7],
    }
)
STREAM: dict[str, Any] = {
    "time": "time", "start": "2024-01-01", "steps": 9, "until": "2024-03-31",
    "by": "page", "domain": "home,shop", "yes": True,
}  # fmt: skip


@pytest.fixture
def written(tmp_path: Path) -> Path:
    state = tmp_path / "s.db"
    release(
        "count", ROWS, state=state, every="1mo", release="both", timezone="Europe/Zurich",
        guarantee=PureDP(1), **STREAM,
    )  # fmt: skip
    file = tmp_path / "visits.csv"
    export(state, file, metadata="csvw,dcat,sdmx", title="Visits of the shop")
    return file


#: What the datatypes of CSV on the Web hold, as texts.
TYPES = {
    "integer": r"-?\d+",
    "double": r"-?\d+(\.\d+)?(e-?\d+)?",
    "dateTimeStamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d",
    "string": r".+",
}


def test_a_csv_file_is_what_its_description_says(written: Path) -> None:
    said = json.loads(written.with_name("visits.csv-metadata.json").read_text())
    assert said["@context"][0] == "http://www.w3.org/ns/csvw"
    assert said["dc:title"] == "Visits of the shop"
    table = pl.read_csv(written, infer_schema=False)
    columns = said["tableSchema"]["columns"]
    assert (written.parent / said["url"]) == written
    assert [one["name"] for one in columns] == table.columns
    for one in columns:
        values = table[one["name"]].to_list()
        assert all(re.fullmatch(TYPES[one["datatype"]], value) for value in values), one
        assert one["dc:description"]
    keys = said["tableSchema"]["primaryKey"]
    assert keys == ["step", "group"]
    assert table.select(keys).n_unique() == table.height
    assert "one event added or removed" in said["dc:description"]


def test_a_dataset_says_when_and_where(written: Path) -> None:
    said = json.loads(written.with_name("visits.csv.dcat.jsonld").read_text())
    assert (said["@type"], said["dcat:temporalResolution"]["@value"]) == ("dcat:Dataset", "P1M")
    used = {key.partition(":")[0] for key in re.findall(r'"(\w+:\w+)":', json.dumps(said))}
    assert used <= said["@context"].keys()
    period = said["dct:temporal"]
    first, last = (period[name]["@value"] for name in ("dcat:startDate", "dcat:endDate"))
    table = pl.read_csv(written, infer_schema=False)
    assert datetime.fromisoformat(first) == datetime.fromisoformat(table["window_start"][0])
    assert datetime.fromisoformat(last) == datetime.fromisoformat(table["window_end"][-1])
    assert said["dcat:distribution"]["dcat:downloadURL"] == {"@id": "visits.csv"}


def test_sdmx_has_each_number_once(written: Path) -> None:
    found, table = pl.read_csv(written.with_name("visits.sdmx.csv")), pl.read_csv(written)
    assert found.columns[:3] == ["STRUCTURE", "STRUCTURE_ID", "ACTION"]
    assert set(found["STRUCTURE_ID"]) == {"COUNTON:EVENTS(1.0)"}
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]*", name) for name in found.columns)
    assert found["TIME_PERIOD"].unique().sort().to_list() == ["2024-01", "2024-02"]
    key = ["TIME_PERIOD", "GROUP", "MEASURE"]
    assert found.select(key).n_unique() == found.height == 2 * table.height
    for measure, name in (("TOTAL", "estimate"), ("WINDOW", "window_estimate")):
        some = found.filter(pl.col("MEASURE") == measure)
        assert some["OBS_VALUE"].to_list() == table[name].to_list()


def test_whole_numbers_are_integers_without_decimals(tmp_path: Path) -> None:
    """A catalogue shows counts with whole noise as integers, and others as far as noise allows."""
    more: dict[str, Any] = {**STREAM, "every": "1mo", "by": None, "domain": None}
    for name, whole in (("binary", True), ("sqrt", False)):
        state, file = tmp_path / f"{name}.db", tmp_path / f"{name}.csv"
        more |= {"strategy": name, "guarantee": ZCDP("0.1")}
        release("count", ROWS, state=state, **more)
        export(state, file, metadata="csvw,sdmx")
        said = json.loads(file.with_name(f"{name}.csv-metadata.json").read_text())
        types = {one["name"]: one["datatype"] for one in said["tableSchema"]["columns"]}
        kind = "integer" if whole else "double"
        assert {types[column] for column in ("estimate", "lower", "upper")} == {kind}
        assert types["std"] == "double"
        table = pl.read_csv(file.with_name(f"{name}.sdmx.csv"))
        assert table["OBS_VALUE"].dtype == (pl.Int64 if whole else pl.Float64)
        shown = [0 if whole or std >= 10 else 1 for std in table["STD"]]  # two digits of it
        assert table["DECIMALS"].to_list() == shown
        assert whole or 1 in shown


@pytest.mark.parametrize(
    ("every", "period"),
    [
        ("1d", "2024-01-01"),
        ("1w", "2024-01-01T00:00:00/P7D"),
        ("6h", "2024-01-01T00:00:00/PT21600S"),
    ],
)
def test_periods_are_those_of_sdmx(every: str, period: str, tmp_path: Path) -> None:
    from counton.released.metadata import metadata_of

    more: dict[str, Any] = {**STREAM, "steps": 900}
    found = release(
        "count", ROWS, state=tmp_path / "s.db", every=every, guarantee=PureDP(1), **more
    )
    assert metadata_of(found.numbers, "t.csv", "sdmx")["TIME_PERIOD"][0] == period


def test_what_has_no_such_metadata_is_said(written: Path, tmp_path: Path) -> None:
    state = tmp_path / "s.db"
    for out, metadata, words in (
        ("t.csv", "csvw,rdf", "metadata is 'rdf'; use one of csvw, dcat, sdmx"),
        ("t.parquet", "csvw", "is written beside a CSV file"),
        (None, "dcat", "is written beside a CSV file"),
    ):
        with pytest.raises(InvalidInput, match=words):
            export(state, None if out is None else tmp_path / out, metadata=metadata)
    release(
        "contingency", ROWS, state=state, name="once", columns="page", guarantee=PureDP(1),
        domain={"page": ["home", "shop"]},
    )  # fmt: skip
    with pytest.raises(
        InvalidInput, match="is only for counts and sums over time, and 'once' is another statistic"
    ):
        export(state, tmp_path / "once.csv", name="once", metadata="sdmx")
    export(state, tmp_path / "once.csv", name="once", metadata=["csvw", "dcat"])

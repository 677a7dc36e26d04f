"""CSV with semicolons and decimal commas: out, and back with the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import PureDP, read, release
from counton.base.errors import InvalidInput
from counton.released.release_facts import CsvStyle
from counton.run import export, export_all


@pytest.fixture
def state(tmp_path: Path) -> Path:
    rows = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-02T10:15"], "room": ["a;1", "b,2"]})
    release(
        "count", rows, time="time", every="1d", start="2024-03-01", steps=9, until="2024-03-03",
        state=tmp_path / "s.db", guarantee=PureDP(1), by="room", domain=["a;1", "b,2"], yes=True,
    )  # fmt: skip
    return tmp_path / "s.db"


@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), ("tab", ","), ("|", ".")])
def test_a_table_comes_back(state: Path, separator: str, decimal: str) -> None:
    file = state.with_name("t.csv")
    written = export(state, file, separator=separator, decimal=decimal)
    assert file.read_bytes().startswith(b"\xef\xbb\xbf") == (separator == ";")  # for Excel
    head, first = file.read_text("utf-8-sig").splitlines()[:2]
    sign = "\t" if separator == "tab" else separator
    assert head.startswith(f"step{sign}window_start{sign}")
    assert (f"{sign}{written.table()['std'][0]}{sign}".replace(".", decimal)) in first
    assert read(file).table().equals(written.table())
    assert read(file, level=0.5).table().equals(export(state, level=0.5).table())
    named = str(state.with_name("{name}.csv"))
    (several,) = export_all(state, named, separator=separator, decimal=decimal).values()
    assert read(state.with_name("count.csv")).table().equals(several.table())


@pytest.mark.parametrize(
    ("out", "signs", "said"),
    [
        ("t.csv", {"decimal": ","}, "are the same character: give another separator, separator"),
        ("t.csv", {"separator": ":"}, "columns may be separated by , ; | or tab"),
        ("t.csv", {"separator": ";", "decimal": "x"}, "give . or ,"),
        ("t.parquet", {"separator": ";"}, "is for CSV files only"),
        (None, {"separator": ";"}, "is for CSV files only"),
    ],
)
def test_signs_that_do_not_fit_are_refused(
    state: Path, out: str | None, signs: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said.replace("|", r"\|")):
        export(state, out and state.with_name(out), **signs)


def test_a_file_that_says_no_signs_is_refused_by_name(state: Path) -> None:
    file = state.with_name("t.csv")
    export(state, file)
    beside = Path(f"{file}.json")
    for wrong in ({"separator": "::"}, [";"], {"separator": 7}):
        beside.write_text(json.dumps({**json.loads(beside.read_text("utf-8")), "csv": wrong}))
        with pytest.raises(InvalidInput, match=r"t\.csv"):
            read(file)
    assert CsvStyle.of(None) == CsvStyle()

"""The command ``show`` of a released table and a state."""

import json

import polars as pl
import pytest

from counton import ZCDP, Stream
from counton.strategies import GrowingSquareRoot
from counton.strategies.streams import growing_root

from .conftest import Workplace

EVENTS = ["00:10,a", "00:40,a", "01:30,b", "02:10,a", "02:20,b", "03:05,a"]


@pytest.fixture
def table(place: Workplace) -> str:
    out = place.folder / "t.parquet"
    assert place.count(place.write("e.csv", EVENTS), "--output", str(out)).code == 0
    return str(out)


def test_inspect_describes_a_released_table(place: Workplace, table: str) -> None:
    printed = place.plain("inspect", table).fine().out
    for words in ("Released table of stream count", "3 windows (1 to 3)", "95%"):
        assert words in printed
    assert "fingerprint" not in printed


def test_inspect_json_has_last_rows_without_key(place: Workplace, table: str) -> None:
    report = json.loads(place.plain("inspect", table, "--json").out)
    assert (report["name"], report["groups"], report["last"]) == ("count", ["a", "b"], 3)
    assert [(row["group"], row["estimate"]) for row in report["rows"]] == [("a", 3), ("b", 2)]
    assert "key" not in report


def test_inspect_states_missing_windows_of_a_cut_table(place: Workplace, table: str) -> None:
    rows = pl.read_parquet(table)
    metadata = pl.read_parquet_metadata(table)["counton"]
    cut = place.folder / "cut.parquet"
    rows.filter(pl.col("window_index") != 2).write_parquet(cut, metadata={"counton": metadata})
    assert "2 windows (1 to 3), 1 between them missing" in place.plain("inspect", str(cut)).out


def test_inspect_shows_all_streams_of_a_state_or_one(place: Workplace, table: str) -> None:
    second = place.new(stream="two")
    place("release", "count", place.write("f.csv", ["00:10,a"]), *second).fine()
    state = str(place.state)
    assert f"State: {state} (format " in place.plain("inspect", state).out
    assert "Stream two:" in place.shown()
    one = place.shown("--stream", "count")
    assert "Stream count:" in one
    assert "Stream two" not in one


def test_inspect_refuses_unknown_stream_with_known_names(place: Workplace, table: str) -> None:
    said = place.plain("inspect", str(place.state), "--stream", "none").refused()
    assert "'none'" in said
    assert "'count'" in said


def test_inspect_shows_stream_without_end_closed_at_last_step(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_root, "STEPS", 3)
    state = str(place.state)
    with Stream.create(state, "visits", GrowingSquareRoot(), ZCDP(1)) as stream:
        for _ in range(2):
            stream.release(1)
        assert "ended" not in place.plain("inspect", state).out
        stream.release(1)
    assert "Stream visits: 3 steps; closed at window 3\n" in place.plain("inspect", state).out
    other = str(place.folder / "other.db")
    words = (
        "--state",
        other,
        "--stream",
        "job",
        "--rho",
        "1",
        "--privacy-unit",
        "visit",
        "--expected-windows",
        "3",
    )
    times = ("--time", "time", "--start", "2013-01-01", "--every", "1h", "--allow-empty-windows")
    events = place.write("e.csv", EVENTS)
    place("release", "count", events, *words, *times, "--until", "2013-01-01T03:00").fine()
    assert "; closed at window 3\n" in place.plain("inspect", other).out

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


def test_show_describes_what_was_released(place: Workplace, table: str) -> None:
    state = str(place.state)
    said = place.plain("inspect", table).fine()
    for words in ("Released table of stream count", "3 windows (1 to 3)", "95%"):
        assert words in said.out
    assert "fingerprint" not in said.out
    found = json.loads(place.plain("inspect", table, "--json").out)
    assert (found["name"], found["groups"], found["last"]) == ("count", ["a", "b"], 3)
    assert [(row["group"], row["estimate"]) for row in found["rows"]] == [("a", 3), ("b", 2)]
    assert "key" not in found
    rows = pl.read_parquet(table)
    facts = pl.read_parquet_metadata(table)["counton"]
    cut = place.folder / "cut.parquet"
    rows.filter(pl.col("window_index") != 2).write_parquet(cut, metadata={"counton": facts})
    assert "2 windows (1 to 3), 1 between them missing" in place.plain("inspect", str(cut)).out
    assert f"State: {state} (format " in place.plain("inspect", state).out
    assert (
        place("release", "count", place.write("f.csv", ["00:10,a"]), *place.new(stream="two")).code
        == 0
    )
    one = place.shown("--stream", "count")
    assert "Stream count:" in one
    assert "Stream two" not in one
    assert "Stream two:" in place.shown()
    done = place.plain("inspect", state, "--stream", "none")
    assert (done.code, "has no stream 'none'; it has 'count', 'two'" in done.err) == (2, True)


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

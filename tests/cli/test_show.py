"""The command ``show`` of a released table and a state."""

import json

import polars as pl
import pytest

from .conftest import Workplace

EVENTS = ["00:10,a", "00:40,a", "01:30,b", "02:10,a", "02:20,b", "03:05,a"]


@pytest.fixture
def table(place: Workplace) -> str:
    out = place.folder / "t.parquet"
    assert place.count(place.write("e.csv", EVENTS), "--out", str(out)).code == 0
    return str(out)


def test_show_describes_what_was_released(place: Workplace, table: str) -> None:
    state = str(place.state)
    said = place.plain("show", table)
    assert said.code == 0, said.err
    for words in ("stream count, as it was released", "3 windows, 1 to 3", "95%"):
        assert words in said.out
    assert "fingerprint" not in said.out
    found = json.loads(place.plain("show", table, "--json").out)
    assert (found["name"], found["groups"], found["last"]) == ("count", ["a", "b"], 3)
    assert [(row["group"], row["estimate"]) for row in found["rows"]] == [("a", 3), ("b", 2)]
    assert "key" not in found
    rows = pl.read_parquet(table)
    facts = pl.read_parquet_metadata(table)["counton"]
    cut = place.folder / "cut.parquet"
    rows.filter(pl.col("step") != 2).write_parquet(cut, metadata={"counton": facts})
    assert "2 windows, 1 to 3; missing between them: 1" in place.plain("show", str(cut)).out
    assert f"state {state}, file format" in place.plain("show", state).out
    assert place("count", place.write("f.csv", ["00:10,a"]), *place.new(name="two")).code == 0
    one = place.shown("--name", "count")
    assert "stream count" in one
    assert "stream two" not in one
    assert "stream two" in place.shown()
    done = place.plain("show", state, "--name", "none")
    assert (done.code, "has no stream 'none'; it has 'count', 'two'" in done.err) == (2, True)

"""A stream or table whose numbers are withdrawn says so wherever they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import PureDP, read, release
from counton.base.errors import InvalidInput, StateError
from counton.run import export
from counton.run.continuation import end_stream
from counton.run.exports import methods
from counton.state.verification import verify

WORDS = "a wrong file was counted on 4 March; use days-corrected"
ROWS = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-02T10:15"], "room": ["a", "b"]})
DAILY: dict[str, Any] = {
    "time": "time",
    "every": "1d",
    "start": "2024-03-01",
    "steps": 9,
    "until": "2024-03-03",
}
TABLE: dict[str, Any] = {"columns": "room", "domain": {"room": ["a", "b"]}}


REVISED = {name: value for name, value in DAILY.items() if name != "steps"} | {"revise": "2d"}


@pytest.mark.parametrize(
    ("what", "options"),
    [("count", DAILY), ("count", REVISED), ("contingency", TABLE)],
    ids=["windows", "revised", "table"],
)
def test_readers_see_why_and_the_account_still_holds(
    tmp_path: Path, what: Any, options: dict[str, Any]
) -> None:
    state = tmp_path / "s.db"
    more: dict[str, Any] = {"append": True} if "revise" in options else {}
    release(what, ROWS, state=state, guarantee=PureDP(1), yes=True, name="days", **options, **more)
    before = export(state).table()
    end_stream(state, "days", withdrawn=WORDS)
    assert export(state).table().equals(before)
    assert f"WITHDRAWN: {WORDS}." in methods(state)["days"]
    for file in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        export(state, file)
        assert f"WITHDRAWN: {WORDS}." in read(file).methods()
    export(state, tmp_path / "t.html")
    assert f"WITHDRAWN: {WORDS}" in (tmp_path / "t.html").read_text("utf-8")
    assert all(one.right for one in verify(state))
    end_stream(state, "days", withdrawn="use another")  # other words replace them
    assert "WITHDRAWN: use another." in methods(state)["days"]
    if what == "count":
        with pytest.raises(StateError, match="ended at step 2"):
            release("count", ROWS, state=state, name="days", **more)


@pytest.mark.parametrize("words", ["", "  ", "two\nlines"])
def test_words_that_say_nothing_are_refused(tmp_path: Path, words: str) -> None:
    state = tmp_path / "s.db"
    release("count", ROWS, state=state, guarantee=PureDP(1), name="days", yes=True, **DAILY)
    with pytest.raises(InvalidInput, match="give one line that says why"):
        end_stream(state, "days", withdrawn=words)
    assert "WITHDRAWN" not in json.dumps(methods(state))

"""A stream or table whose numbers are withdrawn says so wherever they are read."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from counton import PureDP, Release, read, release
from counton.base.errors import InvalidInputError, StateError
from counton.cli.app import app
from counton.run import export, methods, publish
from counton.run.close_stream import close_stream
from counton.state.verification import verify

WORDS = "a wrong file was counted on 4 March; use days-corrected"
ROWS = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-02T10:15"], "room": ["a", "b"]})
DAILY: dict[str, Any] = {
    "time": "time", "every": "1d", "start": "2024-03-01", "windows": 9, "until": "2024-03-03",
}  # fmt: skip
TABLE: dict[str, Any] = {"columns": "room", "groups": {"room": ["a", "b"]}}


REVISED = {name: value for name, value in DAILY.items() if name != "steps"} | {
    "allowed_lateness": "2d"
}


@pytest.mark.parametrize(
    ("what", "options"),
    [("count", DAILY), ("count", REVISED), ("contingency", TABLE)],
    ids=["windows", "revised", "table"],
)
def test_readers_see_why_and_the_account_still_holds(
    tmp_path: Path, what: Any, options: dict[str, Any]
) -> None:
    state = tmp_path / "s.db"
    more: dict[str, Any] = {"append": True} if "allowed_lateness" in options else {}
    release(
        what,
        ROWS,
        state=state,
        guarantee=PureDP(1),
        allow_empty_windows=True,
        stream="days",
        **options,
        **more,
    )
    before = export(state).table()
    close_stream(state, "days", withdrawn=WORDS)
    assert export(state).table().equals(before)
    assert f"WITHDRAWN: {WORDS}." in methods(state)["days"]
    for file in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        export(state, file)
        assert f"WITHDRAWN: {WORDS}." in read(file).methods()
    assert all(one.right for one in verify(state))
    close_stream(state, "days", withdrawn="use another")  # other words replace them
    assert "WITHDRAWN: use another." in methods(state)["days"]
    if what == "count":
        with pytest.raises(StateError, match=r"(ended at step|closed at window) 2"):
            release("count", ROWS, state=state, stream="days", **more)


Door = Callable[[Path, Path], str]


def call(*words: str) -> str:
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    return found.stderr


def of_release(read_out: Callable[[Release], str]) -> Door:
    return lambda state, folder: read_out(export(state))


def of_export(*options: str, name: str = "t.csv", beside: str = "t.csv.json") -> Door:
    def written(state: Path, folder: Path) -> str:
        call("export", str(state), "--output", str(folder / name), *options)
        return (folder / beside).read_text("utf-8")

    return written


def described(public: Path) -> str:
    with closing(sqlite3.connect(public)) as connection:
        said = "SELECT description FROM counton_published_streams"
        return str(connection.execute(said).fetchone()[0])


def published(state: Path, folder: Path) -> str:
    publish(state, folder / "new.db")
    return described(folder / "new.db")


def published_again(state: Path, folder: Path) -> str:
    publish(state, folder / "public.db")
    return described(folder / "public.db")


DOORS: dict[str, Door] = {
    "full methods": of_release(lambda found: found.methods(full=True)),
    "description": of_release(Release.describe),
    "notebook": of_release(Release._repr_html_),
    "screen": of_release(str),
    "chart": of_export(name="t.svg", beside="t.svg"),
    "new published database": published,
    "published again": published_again,
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_withdrawn_stream_states_reason_in_every_output(tmp_path: Path, door: Door) -> None:
    state = tmp_path / "s.db"
    grouped = {"group_by": "room", "groups": ["a", "b"], **DAILY}
    release(
        "count",
        ROWS,
        state=state,
        guarantee=PureDP(1),
        stream="days",
        allow_empty_windows=True,
        **grouped,
    )
    publish(state, tmp_path / "public.db")
    assert "WITHDRAWN" not in door(state, tmp_path)
    close_stream(state, "days", withdrawn="use-another")  # no space, at which a chart breaks lines
    assert "WITHDRAWN: use-another" in door(state, tmp_path)


@pytest.mark.parametrize("words", ["", "  ", "two\nlines"])
def test_withdrawal_without_reason_is_refused(tmp_path: Path, words: str) -> None:
    state = tmp_path / "s.db"
    release(
        "count",
        ROWS,
        state=state,
        guarantee=PureDP(1),
        stream="days",
        allow_empty_windows=True,
        **DAILY,
    )
    with pytest.raises(InvalidInputError, match="give one line that says why"):
        close_stream(state, "days", withdrawn=words)
    assert "WITHDRAWN" not in json.dumps(methods(state))

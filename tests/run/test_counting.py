"""Counting from Python: frames and files, the same state as the command line's."""

import gzip
import io
import sqlite3
import sys
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from counton import ZCDP, ApproxDP, ExpiringDP, ExpiringZCDP, Job, PureDP, release
from counton.base.errors import InvalidInput
from counton.cli.app import app
from counton.job.job import fields_of
from counton.job.stated_options import all_options
from counton.privacy.guarantees import Guarantee
from counton.released.screen import screen_of
from counton.rows.sources import Source
from counton.rows.tally import tally

ROWS = pl.DataFrame(
    {
        "time": [f"2013-01-01T{h:02}:{m:02}:00Z" for h in range(5) for m in range(0, 60, 7)],
        "page": [("a", "b", "a")[n % 3] for n in range(45)],
        "paid": [n % 11 / 4 for n in range(45)],
    }
)
NEW: dict[str, Any] = {
    "time": "time", "every": "1h", "start": "2013-01-01", "steps": 6, "until": "newest",
    "by": "page", "domain": ["a", "b"], "guarantee": PureDP(1),
}  # fmt: skip


def journal(state: Path) -> list[Any]:
    connection = sqlite3.connect(state)
    rows = connection.execute("SELECT * FROM counton_journal ORDER BY stream_id, step").fetchall()
    connection.close()
    return rows


def form(how: str, frame: pl.DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same rows as something that events can be."""
    typed = frame.with_columns(pl.col("time").str.to_datetime(time_zone="UTC"))
    if how == "frame":
        return frame
    if how == "lazy":
        return typed.lazy()
    if how == "typed":
        return typed.with_columns(pl.col("page").cast(pl.Categorical))
    if how == "standard input":

        class Pipe:
            buffer = io.BytesIO(frame.write_csv().encode())

        monkeypatch.setattr(sys, "stdin", Pipe())
        return "-"
    folder.mkdir(exist_ok=True)
    if how == "csv":
        frame.write_csv(folder / "e.csv")
        return folder / "e.csv"
    if how == "compressed":
        (folder / "e.jsonl.gz").write_bytes(gzip.compress(frame.write_ndjson().encode()))
        return folder / "e.jsonl.gz"
    if how == "parquet":
        typed.write_parquet(folder / "e.parquet")
        return str(folder / "e.parquet")
    assert how == "folder"
    frame[:20].write_csv(folder / "1.csv")
    typed[20:].write_parquet(folder / "2.parquet")
    return folder


FORMS = ["lazy", "typed", "standard input", "csv", "compressed", "parquet", "folder"]


@pytest.mark.parametrize("how", FORMS)
def test_the_same_rows_give_the_same_bytes(
    how: str, tmp_path: Path, one_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("frame", how):
        events = form(name, ROWS, tmp_path / "events", monkeypatch)
        state = tmp_path / f"{name}.db"
        new = NEW | {"append": name == "folder"}  # of several files each has new events
        count = release("count", events, **new, state=state)
        total = release(
            "sum",
            form(name, ROWS, tmp_path / "events", monkeypatch),
            **{**new, "guarantee": ZCDP(1)},
            value="paid", lower=0, upper=2, resolution="0.01",
            state=state, name="paid",
        )  # fmt: skip
        assert count.steps == range(1, 5)
        found.append((journal(state), count.table().write_csv(), total.table().write_csv()))
    assert found[0] == found[1]


def test_the_command_line_goes_on_with_what_python_began_and_the_other_way_round(
    tmp_path: Path, one_key: None
) -> None:
    early, states = ROWS.filter(pl.col("time") < "2013-01-01T03"), []
    early.write_csv(tmp_path / "early.csv")
    ROWS.write_csv(tmp_path / "all.csv")

    def command(events: str, state: Path) -> None:
        words = [
            *("count", str(tmp_path / events), "--time", "time", "--every", "1h", "--by", "page"),
            *("--start", "2013-01-01", "--steps", "6", "--domain", "a,b", "--epsilon", "1"),
            *("--state", str(state), "--until", "newest"),
        ]
        assert CliRunner().invoke(app, words).exit_code == 0

    for first, second in (("p", "p"), ("p", "c"), ("c", "p"), ("c", "c")):
        state = tmp_path / f"{first}{second}.db"
        for who, frame, name in ((first, early, "early.csv"), (second, ROWS, "all.csv")):
            if who == "c":
                command(name, state)
            else:
                release("count", frame, **NEW, state=state)
        states.append(journal(state))
    assert states[0] == states[1] == states[2] == states[3]
    assert len(states[0]) == 2


def test_a_run_says_what_happened_and_shows_the_steps_it_released(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    first = release("count", ROWS.filter(pl.col("time") < "2013-01-01T03"), **NEW, state=state)
    then = first.table()
    late = pl.DataFrame({"time": ["2013-01-01T00:01Z"], "page": ["b"], "paid": [0.0]})
    with pytest.warns(UserWarning, match="windows released before are not counted"):
        second = release("count", pl.concat([ROWS, late]), state=state, until="newest")
    assert (first.steps, second.steps) == (range(1, 3), range(1, 5))
    assert first.table().equals(then)  # what came later is not in it
    assert second.table().height == 8
    assert second.table()[:4].equals(then)


def test_a_run_shows_itself_as_words_table_and_chart(tmp_path: Path) -> None:
    run = release("count", ROWS, **NEW, state=tmp_path / "state.db")
    shown = run._repr_html_()
    assert "pure differential privacy with epsilon = 1" in shown
    assert "<th>estimate</th>" in shown
    assert shown.count("<tr>") == 3
    assert "data:image/png;base64," in shown


def test_a_run_that_released_nothing_shows_itself_too(tmp_path: Path) -> None:
    run = release("count", ROWS[:2], **NEW, state=tmp_path / "state.db")
    assert not run.steps
    assert run.table().height == 0
    assert "0 windows of 1h released" in run._repr_html_()
    for face in (run.figures, partial(screen_of, run.numbers), run.methods):
        with pytest.raises(InvalidInput, match="nothing is released yet"):
            face()


@pytest.mark.parametrize(
    ("guarantee", "numbers"),
    [
        (PureDP("0.5"), {"epsilon": "0.5"}),
        (ApproxDP(1, "1e-9"), {"epsilon": 1, "delta": "1e-9"}),
        (ZCDP("0.1"), {"rho": "0.1"}),
        (ExpiringDP("0.2"), {"expire": True, "epsilon": "0.2"}),
        (ExpiringZCDP("0.2"), {"expire": True, "rho": "0.2"}),
    ],
)
def test_a_guarantee_and_its_numbers_ask_for_the_same(
    guarantee: Guarantee, numbers: dict[str, Any], tmp_path: Path, one_key: None
) -> None:
    asked = {**NEW}
    if "expire" in numbers:
        del asked["steps"]
    one = release("count", ROWS, **{**asked, "guarantee": guarantee}, state=tmp_path / "one.db")
    two = release(
        "count", ROWS, **{**asked, "guarantee": None}, **numbers, state=tmp_path / "two.db"
    )
    assert one.describe() == two.describe()
    assert journal(tmp_path / "one.db") == journal(tmp_path / "two.db")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"epsilon": 1}, "guarantee and epsilon=1 both state the privacy loss"),
        ({"guarantee": 1}, "guarantee is 1; give PureDP"),
        ({"evry": "1h"}, "release has no argument 'evry': did you mean every?"),
        ({"what": "sum"}, "release has no argument 'what'"),
        ({"steps": "6"}, "give a whole number"),
        ({"events": 3}, "neither the path of a file nor a data frame"),
        ({"value": "paid"}, "did you mean 'counts'"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_changes_nothing(
    more: dict[str, Any], words: str, tmp_path: Path
) -> None:
    asked = {"events": ROWS, **NEW, **more}
    with pytest.raises(InvalidInput, match=words):
        release("count", **asked, state=tmp_path / "state.db")
    assert not list(tmp_path.iterdir())


def test_a_frame_of_new_events_is_counted_once(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    early, rest = ROWS[:20], ROWS[20:]
    first = release("count", early, **NEW, state=state, append=True)
    known = release("count", early.lazy(), state=state, append=True, until="newest")
    assert known.steps == first.steps
    with pytest.raises(InvalidInput, match="the data frame has been counted already"):
        release("count", early.lazy(), state=state, append=True, until="2013-01-01T03:00")
    assert release("count", rest, state=state, append=True, until="newest").steps == range(1, 5)
    whole = release(
        "count", ROWS, **{**NEW, "guarantee": PureDP(1000)}, state=tmp_path / "whole.db"
    )
    assert whole.steps == range(1, 5)


def test_of_a_folder_of_new_events_only_new_files_are_read(
    tmp_path: Path, one_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, state = tmp_path / "logs", tmp_path / "state.db"
    folder.mkdir()
    read = list[str]()

    def noting(source: Source, *arguments: Any, **more: Any) -> Any:
        read.extend(Path(part.name).name for part in source.parts)
        return tally(source, *arguments, **more)

    monkeypatch.setattr("counton.run.unordered_rows.tally", noting)
    for night, rows in enumerate((ROWS[:20], ROWS[20:30], ROWS[30:])):
        rows.write_csv(folder / f"{night}.csv")
        latest = release("count", folder, **NEW, state=state, append=True)
    assert read == ["0.csv", "1.csv", "2.csv"]
    again = release("count", folder, **NEW, state=state, append=True)
    assert again.steps == latest.steps == range(1, 5)
    assert again.table().equals(latest.table())
    whole = release("count", ROWS, **NEW, state=tmp_path / "whole.db")
    assert whole.table().drop("estimate").equals(again.table().drop("estimate"))


def test_every_argument_is_a_field_of_a_request() -> None:
    import inspect

    known = {item.name for _, item in fields_of(Job)} | {"guarantee", "progress", *all_options()}
    assert set(inspect.signature(release).parameters) <= known

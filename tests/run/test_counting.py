"""Counting from Python: frames and files, the same state as the command line's."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from counton import ZCDP, ApproxDP, ExpiringDP, ExpiringZCDP, PureDP, release
from counton.base.errors import InvalidInputError
from counton.cli.app import app
from counton.io.aggregation import sum_rows
from counton.io.sources import Source
from counton.privacy.guarantees import Guarantee
from counton.results.terminal import screen_of

ROWS = pl.DataFrame(
    {
        "time": [f"2013-01-01T{h:02}:{m:02}:00Z" for h in range(5) for m in range(0, 60, 7)],
        "page": [("a", "b", "a")[n % 3] for n in range(45)],
        "paid": [n % 11 / 4 for n in range(45)],
    }
)
NEW: dict[str, Any] = {
    "time": "time", "every": "1h", "start": "2013-01-01", "windows": 6, "until": "latest-event",
    "group_by": "page", "groups": ["a", "b"], "guarantee": PureDP(1),
}  # fmt: skip


def journal(state: Path) -> list[Any]:
    connection = sqlite3.connect(state)
    rows = connection.execute("SELECT * FROM counton_journal ORDER BY stream_id, step").fetchall()
    connection.close()
    return rows


def test_command_line_and_python_continue_each_others_stream(tmp_path: Path, one_key: None) -> None:
    early = ROWS.filter(pl.col("time") < "2013-01-01T03")
    states = []
    early.write_csv(tmp_path / "early.csv")
    ROWS.write_csv(tmp_path / "all.csv")

    def command(events: str, state: Path) -> None:
        words = [
            *(
                "release",
                "count",
                str(tmp_path / events),
                "--time",
                "time",
                "--every",
                "1h",
                "--group-by",
                "page",
            ),
            *("--start", "2013-01-01", "--windows", "6", "--groups", "a,b", "--epsilon", "1"),
            *("--state", str(state), "--until", "latest-event"),
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


def test_release_returns_numbers_of_its_own_run(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    first = release("count", ROWS.filter(pl.col("time") < "2013-01-01T03"), **NEW, state=state)
    then = first.table()
    late = pl.DataFrame({"time": ["2013-01-01T00:01Z"], "page": ["b"], "paid": [0.0]})
    with pytest.warns(UserWarning, match="windows released before are not counted"):
        second = release("count", pl.concat([ROWS, late]), state=state, until="latest-event")
    assert (first.steps, second.steps) == (range(1, 3), range(1, 5))
    assert first.table().equals(then)  # what came later is not in it
    assert second.table().height == 8
    assert second.table()[:4].equals(then)


def test_a_run_that_released_nothing_shows_itself_too(tmp_path: Path) -> None:
    run = release("count", ROWS[:2], **NEW, state=tmp_path / "state.db")
    assert not run.steps
    assert run.table().height == 0
    assert "0 windows of 1h released" in run._repr_html_()
    for face in (run.figures, partial(screen_of, run.numbers), run.methods):
        with pytest.raises(InvalidInputError, match="nothing is released yet"):
            face()


@pytest.mark.parametrize(
    ("guarantee", "numbers"),
    [
        (PureDP("0.5"), {"epsilon": "0.5"}),
        (ApproxDP(1, "1e-9"), {"epsilon": 1, "delta": "1e-9"}),
        (ZCDP("0.1"), {"rho": "0.1"}),
        (ExpiringDP("0.2"), {"expiring": True, "epsilon": "0.2"}),
        (ExpiringZCDP("0.2"), {"expiring": True, "rho": "0.2"}),
    ],
)
def test_guarantee_object_and_numbers_create_same_stream(
    guarantee: Guarantee, numbers: dict[str, Any], tmp_path: Path, one_key: None
) -> None:
    asked = {**NEW}
    if "expiring" in numbers:
        del asked["windows"]
    one = release("count", ROWS, **{**asked, "guarantee": guarantee}, state=tmp_path / "one.db")
    two = release(
        "count", ROWS, **{**asked, "guarantee": None}, **numbers, state=tmp_path / "two.db"
    )
    assert one.describe() == two.describe()
    assert journal(tmp_path / "one.db") == journal(tmp_path / "two.db")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"epsilon": 1}, "cannot be used with epsilon=1, because both state the privacy loss"),
        ({"guarantee": 1}, "guarantee is 1; give PureDP"),
        ({"what": "sum"}, "release has no argument 'what'"),
        ({"value": "paid"}, "did you mean count-column"),
    ],
)
def test_release_refuses_invalid_options_and_creates_no_file(
    more: dict[str, Any], words: str, tmp_path: Path
) -> None:
    asked = {"events": ROWS, **NEW, **more}
    with pytest.raises(InvalidInputError, match=words):
        release("count", **asked, state=tmp_path / "state.db")
    assert not list(tmp_path.iterdir())


def test_append_run_reads_only_new_files_of_folder(
    tmp_path: Path, one_key: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "logs"
    state = tmp_path / "state.db"
    folder.mkdir()
    read = list[str]()

    def noting(source: Source, *arguments: Any, **more: Any) -> Any:
        read.extend(Path(part.name).name for part in source.parts)
        return sum_rows(source, *arguments, **more)

    monkeypatch.setattr("counton.run.rows.row_reading.sum_rows", noting)
    for night, rows in enumerate((ROWS[:20], ROWS[20:30], ROWS[30:])):
        rows.write_csv(folder / f"{night}.csv")
        latest = release("count", folder, **NEW, state=state, append=True)
    assert read == ["0.csv", "1.csv", "2.csv"]
    again = release("count", folder, **NEW, state=state, append=True)
    assert again.steps == latest.steps == range(1, 5)
    assert again.table().equals(latest.table())

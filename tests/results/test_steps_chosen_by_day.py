"""One way to say which steps are asked for: numbers, or the days of their windows."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import PureDP, release
from counton.base.errors import InvalidInputError
from counton.run import export
from counton.windowing.window_selection import steps_between
from counton.windowing.windows import UnwindowedSteps, Windows

DAYS = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 40)
#: Days of 23 and 24 hours: clocks in Berlin go forward on 31 March.
BERLIN = Windows(datetime(2024, 3, 29, 23, tzinfo=UTC), "1h", 200, "Europe/Berlin")


@pytest.mark.parametrize(
    ("asked", "windows", "steps"),
    [
        ("2:4", DAYS, range(2, 5)),
        ("2024-03-02:2024-03-04", DAYS, range(2, 5)),
        ("2024-03-02", DAYS, range(2, 3)),
        ("2024-03-28:", DAYS, range(28, 31)),
        (":2024-03-02", DAYS, range(1, 3)),
        ("7", DAYS, range(7, 8)),
        ("2024-02-01:2024-03-02", DAYS, range(1, 3)),
        ("2024-03-31", BERLIN, range(25, 31)),
        ("2024-03-30T10:00:2024-03-30T12:00", BERLIN, range(11, 13)),
        # Of a window only half of which is meant nothing is shown.
        (":2024-03-30T02:30", BERLIN, range(1, 3)),
        ("2024-03-30T09:30:2024-03-30T12:30", BERLIN, range(11, 13)),
    ],
)
def test_days_and_numbers_name_the_same_steps(asked: str, windows: Windows, steps: range) -> None:
    assert steps_between(asked, 30, windows) == steps


def test_a_day_of_changed_clocks_has_23_hours() -> None:
    assert len(steps_between("2024-03-31", 200, BERLIN)) == 23


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            "2024-05-01:2024-05-02",
            "no released window lies between the times of windows=2024-05-01",
        ),
        ("2024-03-04:2024-03-02", "no released window"),
        ("2024-03-02T06:00:2024-03-03T18:00", "no released window"),
        ("2024-03-32:2024-03-33", "as in 2024-03-18:2024-03-24"),
        ("31", "not within the released steps 1:30"),
        ("-7", "cannot be read as steps"),
        (1.5, "cannot be read as steps"),
        ("29:31", "not within the released steps 1:30"),
    ],
)
def test_window_selection_refuses_invalid_text(asked: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        steps_between(asked, 30, DAYS)


def test_days_where_steps_have_no_times_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot be read as steps"):
        steps_between("2024-03-01:2024-03-02", 30, UnwindowedSteps())


def test_methods_of_release_accept_days(tmp_path: Path) -> None:
    state = tmp_path / "a.db"
    visits = pl.DataFrame({"time": ["2024-03-01T09:00", "2024-03-03T10:15"], "page": ["a", "b"]})
    found = release(
        "count", visits, state=state, guarantee=PureDP(10**6), time="time", every="1d", windows=9,
        start="2024-03-01", until="2024-03-05", group_by="page", groups=["a", "b"],
    )  # fmt: skip
    for ask in (found.difference, found.ratio):
        days = ask("a", "b", steps="2024-03-01:2024-03-02", other_steps="2024-03-03")
        assert days == ask("a", "b", steps="1:2", other_steps="3:3")
    assert found.share("a", steps="2024-03-01") == found.share("a", steps="1:1")
    assert found.share("b", steps="2024-03-02:2024-03-03") == found.share("b", steps="2:3")
    wrong: Any = 2.5
    with pytest.raises(InvalidInputError, match=r"windows=2\.5 cannot be read as steps"):
        found.difference("a", "b", steps=wrong)
    assert found.share("a", steps="1") == found.share("a", steps="1:1")
    table = export(state, windows="2024-03-02:2024-03-03").table()
    assert table["window_index"].unique().sort().to_list() == [2, 3]

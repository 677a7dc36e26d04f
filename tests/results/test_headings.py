"""A number says what it is a number of: its subject, bound and window, and whether it stays."""

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import release
from counton.results.terminal import screen_of, shown_rows, unbounded_notes

FRAME = pl.DataFrame(
    {
        "at": [f"2024-03-0{day}" for day in (1, 2, 3) for _ in range(40)],
        "tail": [f"N{number % 8}" for _ in range(3) for number in range(40)],
        "late": [number % 90 for _ in range(3) for number in range(40)],
    }
)
DAYS: dict[str, Any] = {
    "time": "at", "every": "1d", "start": "2024-03-01", "windows": 30, "until": "2024-03-03",
    "epsilon": 1,
}  # fmt: skip
PEOPLE: dict[str, Any] = {"user": "tail", "privacy_unit": "aircraft", "max_contributions": 5}
VALUES: dict[str, Any] = {"value": "late", "lower": 0, "upper": 60, "resolution": 1}
END = "to the end of 2 March 2024 (window 2 of 30, UTC)"


@pytest.mark.parametrize(
    ("what", "more", "heading"),
    [
        ("count", {"privacy_unit": "departure"}, f"Number of departures, cumulative {END}"),
        (
            "count",
            {**PEOPLE, "event_name": "departure", "contribution_period": "1d",
            "series": "per-window"},
            "Number of departures, at most 5 per aircraft's day, in the day 2 March 2024 "
            "(window 2 of 30, UTC)",
        ),
        (
            "count",
            {**PEOPLE, "event_name": "departure", "group_by": "tail",
            "groups": [f"N{number}" for number in range(8)]},
            f"Number of departures, by tail, at most 5 per aircraft, cumulative {END}",
        ),
        (
            "count",
            {**PEOPLE, "max_contributions_per_window": 2, "event_name": "departure"},
            f"Number of departures, at most 5 per aircraft and 2 in a day, cumulative {END}",
        ),
        (
            "sum",
            {**PEOPLE, **VALUES},
            f"Sum of late, at most 5 per aircraft, values from 0 to 60, cumulative {END}",
        ),
        (
            "average",
            {**PEOPLE, **VALUES},
            "Average of late, each value clipped to [0, 60], at most 5 per aircraft, "
            f"{END}, 95% confidence intervals",
        ),
        ("count", {"allowed_lateness": "1d", "append": True, "windows": None},
         "Number of events, in each day, as known to the end of 2 March 2024 (window 2, UTC)"),
    ],
)  # fmt: skip
def test_heading_states_subject_bound_and_window(
    what: Any, more: dict[str, Any], heading: str, tmp_path: Path
) -> None:
    found = release(what, FRAME, state=tmp_path / "s.db", **DAYS | more)
    assert screen_of(found.numbers).heading == f"\n{heading}"


def test_heading_of_single_table_states_subject(tmp_path: Path) -> None:
    found = release(
        "quantiles", FRAME, state=tmp_path / "s.db", value="late", edges=[0, 30, 60], epsilon=1,
        user="tail", max_contributions=3, privacy_unit="aircraft",
    )  # fmt: skip
    heading = screen_of(found.numbers).heading
    assert "late" in heading
    assert heading.endswith(", at most 3 per aircraft, 95% confidence intervals")


def test_a_number_that_may_change_is_one_so_far(tmp_path: Path) -> None:
    more: dict[str, Any] = {"allowed_lateness": "1d", "append": True, "windows": None}
    found = release("count", FRAME, state=tmp_path / "s.db", **DAYS | more)
    (table,) = screen_of(found.numbers).tables
    assert [row[-1] for row in table.rows] == ["final", "provisional"]


def test_shown_rows_of_a_long_table_are_its_first() -> None:
    rows: dict[str, list[Any]] = {
        "name": [f"p{number}" for number in range(30)],
        "estimate": [*map(float, range(30))],
    }
    one = pl.DataFrame({"group": rows["name"], "estimate": rows["estimate"]})
    shown, said = shown_rows(one)
    assert (shown.rows[0][0], said) == ("p0", "the first 20 of 30 rows")
    mixed, said = shown_rows(pl.DataFrame(rows))
    assert (mixed.rows[0][0], said) == ("p0", "the first 20 of 30 rows")
    several = pl.DataFrame({"statistic": ["visits"] * 40 + ["paid"] * 80, **{
        name: [*values, *values, *values, *values] for name, values in rows.items()
    }})  # fmt: skip
    shown, said = shown_rows(several)
    assert (len(shown.rows), said) == (100, "the first 100 of 120 rows")
    assert [row[1] for row in shown.rows[:3]] == ["p0", "p1", "p2"]


def test_unbounded_notes_explain_infinite_deviation() -> None:
    rows = pl.DataFrame({"measure": ["mean", "count"], "noise_std": [math.inf, 200.0]})
    (note,) = unbounded_notes(rows)
    assert note.startswith("unbounded: the released number of rows is too small")
    assert not unbounded_notes(rows.tail(1))
    assert not unbounded_notes(rows.drop("noise_std"))

"""Users' periods and windows of one length begin at one moment, or the pair is refused."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.run import Job, run
from counton.run.spec.plan_spec import plan_spec

FIRST: dict[str, Any] = {
    "time": "at",
    "windows": 20,
    "user": "u",
    "epsilon": 10**9,
    "allow_empty_windows": True,
}


def job(folder: Path, what: str, times: list[str], **more: Any) -> Job:
    rows = pl.DataFrame({"at": times, "u": ["ann"] * len(times)})
    return Job(what, rows, folder / "s.db", **{**FIRST, **more})


def released(given: Job) -> list[int]:
    with run(given) as outcome:
        table = outcome.read().table()
    (column,) = (name for name in table.columns if name.endswith("estimate"))
    return [round(number) for number in table[column].to_list()]


#: Pairs of one length, the beginning of the windows, and where a period begins in them.
SHIFTED = [
    ("1w", "1w", "2024-03-03", "2024-03-04T00:00:00+00:00", "UTC"),
    ("2w", "2w", "2024-03-04", "2024-03-11T00:00:00+00:00", "UTC"),
    ("1d", "1d", "2024-03-02T06:00", "2024-03-03T00:00:00+00:00", "UTC"),
    ("2d", "2d", "2024-03-01", "2024-03-02T00:00:00+00:00", "UTC"),
    ("1d", "24h", "2024-03-02", "2024-03-02T01:00:00+01:00", "Europe/Berlin"),
    ("1mo", "1mo", "2024-03-15", "2024-04-01T00:00:00+00:00", "UTC"),
    ("12mo", "12mo", "2024-04-01", "2025-01-01T00:00:00+00:00", "UTC"),
    ("6h", "6h", "2024-03-03", "2024-03-03T05:30:00+05:30", "Asia/Kolkata"),
    ("60m", "1h", "2024-03-03", "2024-03-03T00:30:00+05:30", "Asia/Kolkata"),
]
BOUNDS: list[tuple[str, dict[str, Any]]] = [
    ("count", {"max_contributions": 1}),
    ("count", {"max_contributions": 7, "once_per_window": True}),
    ("reach", {"at_least": "1"}),
]


@pytest.mark.parametrize(("every", "per", "start", "begins", "zone"), SHIFTED)
def test_new_stream_with_shifted_periods_is_refused(
    every: str, per: str, start: str, begins: str, zone: str, tmp_path: Path
) -> None:
    windows = {"every": every, "start": start, "timezone": zone}
    for what, bound in BOUNDS:
        given = job(tmp_path, what, [start], contribution_period=per, **windows, **bound)
        with pytest.raises(InvalidInputError) as refused:
            plan_spec(given, ())
        message = str(refused.value)
        assert message.startswith(
            f"contribution_period={per}: a period begins at {begins}, inside the window"
        )
        assert f"of {every} that begins at {start}" in message


def test_user_counts_once_in_week_that_begins_on_monday(tmp_path: Path) -> None:
    given = job(
        tmp_path,
        "count",
        ["2024-03-03T10:00", "2024-03-04T10:00", "2024-03-10T10:00"],
        every="1w",
        start="2024-02-26",
        until="2024-03-11",
        max_contributions=1,
        contribution_period="1w",
        series="per-window",
    )
    assert released(given) == [1, 1]


@pytest.mark.parametrize(
    ("every", "per", "start", "zone"),
    [
        ("1d", "24h", "2024-03-01", "UTC"),
        ("1d", "1mo", "2024-03-15", "UTC"),
        ("1w", "1mo", "2024-03-03", "UTC"),
        ("1w", "1d", "2024-03-03", "UTC"),
        ("1mo", "1mo", "2024-03-01", "Asia/Kolkata"),
        ("12mo", "12mo", "2024-01-01", "America/New_York"),
    ],
)
def test_periods_of_other_lengths_or_of_same_begin_are_allowed(
    every: str, per: str, start: str, zone: str, tmp_path: Path
) -> None:
    windows = {"every": every, "start": start, "timezone": zone}
    spec = plan_spec(
        job(tmp_path, "count", [start], contribution_period=per, max_contributions=1, **windows), ()
    )
    assert spec.terms.privacy_unit.rule.contribution_period == per


@pytest.mark.parametrize(("per", "times"), [("1mo", (31, 32)), ("1d", (28, 29))])
def test_distinct_users_with_shifted_weeks_state_double_counts(
    per: str, times: tuple[int, int], tmp_path: Path
) -> None:
    """A week in which a month or a day begins holds parts of two of a user's periods."""
    days = {28: "2024-03-28", 29: "2024-03-29", 31: "2024-03-31", 32: "2024-04-01"}
    given = job(
        tmp_path,
        "count",
        [f"{days[day]}T10:00" for day in times],
        every="1w",
        start="2024-03-26",
        until="2024-04-02",
        max_contributions=7,
        contribution_period=per,
        once_per_window=True,
        series="per-window",
    )
    assert released(given) == [2]
    word = {"1mo": "month", "1d": "day"}[per]
    with run(given) as outcome:
        note = f"users of several {word}s in one week"
        assert f"{note} are counted once in each {word}" in outcome.read().methods()
        assert note in str(outcome.read())

"""Texts say of which numbers one user may count more often than the limit, and of no others.

Each case releases exact numbers of rows that are the worst for it, and compares both.
"""

import json
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from in_turn import in_turn

from counton import read
from counton.results.metadata import ReleaseMetadata
from counton.results.metadata_codec import guarantee_of_stream
from counton.results.systematic_errors import systematic_errors, what_intervals_leave_out
from counton.results.terminal import screen_of
from counton.run import Job, run
from counton.run.outputs.output_files import write_page, write_release
from counton.run.spec.plan_spec import plan_spec

N_GUESTS = 10
#: Rows from here on arrive late, until the next moment.
FIRST_LATE = datetime(2024, 3, 18)
FIRST_IN_TIME = datetime(2024, 4, 1)
#: Every guest comes six times a day to both canteens.
ROWS = pl.DataFrame(
    {
        "time": datetime(2024, 3, 4) + timedelta(days=day, hours=hour),
        "guest": f"guest {guest}",
        "canteen": "AB"[hour % 2],
    }
    for day, guest, hour in product(range(42), range(N_GUESTS), range(6))
)
IS_LATE = pl.col("time").is_between(FIRST_LATE, FIRST_IN_TIME, closed="left")
#: Two days, a week apart, whose rows are late: no earlier day uses up the limit of a whole stream.
LATE_MONDAYS = ROWS.filter(IS_LATE & (pl.col("time").dt.weekday() == 1))


def options_of(
    every: str, period: str | None, limit: int, per_window: int | None, *, once: bool, grouped: bool
) -> dict[str, Any]:
    options: dict[str, Any] = {"every": every, "max_contributions": limit}
    if period is not None:
        options["contribution_period"] = period
    if per_window is not None:
        options["max_contributions_per_window"] = per_window
    if once:
        options["once_per_window"] = True
    if grouped:
        options |= {"group_by": "canteen", "groups": "A,B"}
    return options


def job(folder: Path, options: dict[str, Any]) -> Job:
    return Job(
        "count", folder / "e.parquet", folder / "s.db", time="time", start="2024-03-04", windows=60,
        until="2024-04-01", epsilon=500, series="per-window", stream="guests", user="guest",
        privacy_unit="guest", allow_empty_windows=True,
    ).derive(**options)  # fmt: skip


def release_late_rows(
    folder: Path, options: dict[str, Any], rows: pl.DataFrame
) -> tuple[int, ReleaseMetadata]:
    """Return the largest number of all windows and groups, and the public description."""
    asked = job(folder, options)
    rows.filter(~IS_LATE).write_parquet(folder / "e.parquet")
    run(asked).close()
    rows.write_parquet(folder / "e.parquet")
    with run(asked.derive(until="2024-04-15")) as outcome:
        table = outcome.read().table()
        return round(max(table["estimate"])), outcome.spec.metadata()


CASES = [
    pytest.param(
        options_of(every, period, limit, per_window, once=once, grouped=grouped),
        1 if once else min(limit, per_window or limit),
        id=f"{every} {period} {limit} {per_window}{' once' * once}{' grouped' * grouped}",
    )
    for every, period, limit, per_window, once, grouped in product(
        ("1d", "1w"), ("1d", "1w", None), (1, 3), (None, 1), (False, True), (False, True)
    )
]


@pytest.mark.parametrize(("options", "limit_in_number"), in_turn(CASES, 7))
def test_texts_say_exactly_when_late_rows_exceed_limit(
    options: dict[str, Any], limit_in_number: int, tmp_path: Path
) -> None:
    rows = ROWS if "contribution_period" in options else LATE_MONDAYS
    largest, metadata = release_late_rows(tmp_path, options, rows)
    errors = systematic_errors(metadata)
    window = {"1d": "day", "1w": "week"}[options["every"]]
    often = "more than once" if limit_in_number == 1 else f"more than {limit_in_number} times"
    sentence = f"guests with late rows may be counted {often} in this later {window}"
    is_exceeded = largest > limit_in_number * N_GUESTS
    assert (sentence in errors) == is_exceeded
    [brief] = [text for text in what_intervals_leave_out(metadata) if "rows that arrive" in text]
    assert (f"(where one guest may count {often})" in brief) == is_exceeded


@pytest.mark.parametrize(("options", "limit_in_number"), in_turn(CASES, 7))
def test_texts_say_how_often_users_count_without_late_rows(
    options: dict[str, Any], limit_in_number: int, tmp_path: Path
) -> None:
    """In one window of several periods; and in both canteens together."""
    ROWS.write_parquet(tmp_path / "e.parquet")
    with run(job(tmp_path, options)) as outcome:
        table = outcome.read().table()
        errors = systematic_errors(outcome.spec.metadata())
    often = "once" if limit_in_number == 1 else f"up to {limit_in_number} times"
    counted_again = f"guests of several days in one week are counted {often} in each day"
    most = round(max(table["estimate"]))
    assert (counted_again in errors) == (most > limit_in_number * N_GUESTS)
    in_both = table.group_by("window_index").agg(pl.col("estimate").sum())["estimate"]
    several = [error for error in errors if "group" in error and "beyond" not in error]
    if counted_again not in errors and "group_by" in options:
        assert bool(several) == (round(max(in_both)) > N_GUESTS)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (options_of("1d", "1d", 2, None, once=True, grouped=True),
         "guests of several groups are counted once in each of up to 2 groups"),
        (options_of("1d", "1w", 3, None, once=False, grouped=True),
         "guests with several rows are counted up to 3 times in each week, in one group or in "
         "several"),
        (options_of("1d", "1w", 6, 2, once=False, grouped=True),
         "guests with several rows are counted up to 2 times in one day, in one group or in "
         "several"),
        (options_of("1d", None, 3, None, once=False, grouped=True),
         "guests with several rows are counted up to 3 times in all, in one group or in several"),
        (options_of("1d", "1d", 1, None, once=True, grouped=True), None),
        (options_of("1d", "1d", 1, None, once=False, grouped=True), None),
        (options_of("1d", "1d", 3, None, once=False, grouped=False), None),
    ],
)  # fmt: skip
def test_texts_say_how_often_users_count_in_groups(
    options: dict[str, Any], sentence: str | None, tmp_path: Path
) -> None:
    ROWS.write_parquet(tmp_path / "e.parquet")
    errors = systematic_errors(plan_spec(job(tmp_path, options)).metadata())
    several = [error for error in errors if "several" in error]
    assert several == [] if sentence is None else several == [sentence]


def test_every_output_says_that_users_count_more_than_once(tmp_path: Path) -> None:
    ROWS.write_parquet(tmp_path / "e.parquet")
    options = options_of("1d", "1d", 1, None, once=False, grouped=True)
    with run(job(tmp_path, options)) as outcome:
        released = outcome.read()
        page = tmp_path / "t.html"
        write_page(released.numbers, page)
        table = tmp_path / "t.csv"
        write_release(released.numbers, table)
    sentence = "guests with late rows may be counted more than once in this later day"
    again = read(table)
    for text in (released.describe(), released.methods(), again.describe(), again.methods(),
                 page.read_text()):  # fmt: skip
        assert sentence in " ".join(text.split())
    assert sentence in guarantee_of_stream(again.numbers)["systematic_errors"]
    screen = " ".join(screen_of(released.numbers).notes)
    assert "(where one guest may count more than once)" in screen


@pytest.mark.parametrize(
    ("options", "is_distinct"),
    [
        (options_of("1w", "1w", 1, None, once=False, grouped=False), True),
        (options_of("1d", "1d", 2, None, once=True, grouped=True), True),
        (options_of("1w", "1w", 1, None, once=False, grouped=True), False),
        (options_of("1d", "1w", 1, None, once=False, grouped=False), False),
        (options_of("1w", "1w", 1, None, once=False, grouped=False) | {"event_name": "meal"},
         False),
    ],
)  # fmt: skip
def test_metadata_call_numbers_distinct_as_screens_do(
    options: dict[str, Any], is_distinct: bool, tmp_path: Path
) -> None:
    ROWS.write_parquet(tmp_path / "e.parquet")
    table = tmp_path / "t.csv"
    with run(job(tmp_path, options)) as outcome:
        numbers = outcome.read().numbers
        assert ("istinct guests" in screen_of(numbers).heading) == is_distinct
        write_release(numbers, table)
        written = outcome.read().describe()
    facts = json.loads((tmp_path / "t.csv.json").read_text())
    assert facts["description"]["people"]["distinct"] == is_distinct
    assert read(table).describe() == written

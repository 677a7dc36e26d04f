"""Users who are counted once in each period: its number is shown, or all words say what is."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.job.saved_job import stream_name
from counton.results.metadata_codec import facts_of, guarantee_of_stream
from counton.results.terminal import screen_of
from counton.run import Job, export, run
from counton.run.plan_job import planned_job
from counton.run.spec.plan_spec import plan_spec
from counton.run.spec.planned_accuracy import planned_design
from counton.run.spec.stream_spec import StreamSpec
from counton.serve.public_series import Journal, SeriesSelection
from counton.state import Store
from counton.strategies import KAry
from counton.windowing.periods import made_of_windows, period_starts
from counton.windowing.windows import Windows

START = datetime(2024, 2, 26, tzinfo=UTC)  # a Monday
DAYS = 40
ANEW = "each counted once in each"


def visits(zone: str = "UTC") -> pl.DataFrame:
    """Users of 40 days: some come daily, some weekly, one once."""
    rows = [
        (START + timedelta(days=day, hours=12), f"u{user}")
        for day in range(DAYS)
        for user in range(30)
        if user == 0 or day % (user % 9 + 1) == user % 5
    ]
    frame = pl.DataFrame(rows, {"at": pl.Datetime("us", "UTC"), "who": pl.String}, orient="row")
    return frame.with_columns(pl.col("at").dt.convert_time_zone(zone))


def job(folder: Path, **more: Any) -> Job:
    stream: dict[str, Any] = {
        "time": "at", "every": "1d", "start": START, "windows": DAYS, "user": "who",
        "contribution_period": "1w",
        "epsilon": 10**6, "until": START + timedelta(days=DAYS), "at_least": "1,3",
    }  # fmt: skip
    state = folder / f"{len([*folder.glob('*.db')])}.db"
    return Job(more.pop("what", "reach"), more.pop("events", visits()), state, **{**stream, **more})


def rows_by(per: str, frame: pl.DataFrame) -> dict[tuple[Any, str], int]:
    """By the last day of each period, the users who had 1 row or 3 in it up to each day."""
    days = frame.with_columns(period=pl.col("at").dt.truncate(per), day=pl.col("at").dt.date())
    found = {}
    for (period,), part in days.group_by("period"):
        for day in part["day"].unique():
            counts = part.filter(pl.col("day") <= day).group_by("who").len()["len"]
            for least in (1, 3):
                found[day, f"{least} or more"] = int((counts >= least).sum())
        assert period is not None
    return found


@pytest.mark.parametrize(
    ("per", "zone"), [("1w", "UTC"), ("1mo", "UTC"), ("1d", "UTC"), ("1w", "Asia/Kolkata")]
)
def test_numbers_are_of_the_period(per: str, zone: str, tmp_path: Path) -> None:
    frame = visits(zone)
    local = datetime.fromisoformat("2024-02-26")
    more = {
        "timezone": zone,
        "start": local.isoformat(),
        "contribution_period": per,
        "events": frame,
    }
    with run(job(tmp_path, **more, until="2024-04-06")) as outcome:
        assert outcome.spec.metadata().series == "period-to-date"
        table = outcome.read().table()
    truth = rows_by(per, frame)
    for row in table.filter(pl.col("measure").str.ends_with("more")).iter_rows(named=True):
        day = (row["window_end"] - timedelta(seconds=1)).date()
        wanted = truth.get((day, row["measure"]))
        if wanted is not None:
            assert round(row["estimate"]) == wanted, row
        assert row["window_start"] == max(
            pl.Series([row["window_end"] - timedelta(seconds=1)]).dt.truncate(per)[0],
            local.replace(tzinfo=row["window_start"].tzinfo),
        )


def test_every_output_names_period_of_number(tmp_path: Path) -> None:
    asked = job(tmp_path)
    with run(asked) as outcome:
        released = outcome.read()
    for words in (released.methods(), released.methods(full=True)):
        assert not re.search("[Tt]he running|Running", words)
    assert "in each week to date, was published" in released.methods()
    assert "in the week to the end of 5 April 2024" in screen_of(released.numbers).heading
    assert facts_of(released.numbers)["counted"] == "the week to date"
    last = released.table()["estimate"][-3]
    for one in (released, export(str(asked.state))):
        found = one.total("1 or more")
        assert found.value == last
        assert found.what == "1 or more (1 April to 5 April 2024)"
        both = one.total("1 or more", steps=range(29, 41))
        assert both.what == f"1 or more (25 March to 5 April 2024, {ANEW} week)"
        assert both.value > last
    assert released.result.number_of("1 or more").value == last


def test_cumulative_reach_states_that_users_count_again(tmp_path: Path) -> None:
    with run(job(tmp_path, series="cumulative")) as outcome:
        released = outcome.read()
    said = f"{ANEW} week"
    assert said in released.methods()
    assert said in released.methods(full=True)
    assert "users, each counted once in each week," in screen_of(released.numbers).notes[-1]
    assert facts_of(released.numbers)["counted"] == f"all windows to date, {said}"
    assert said in released.total("1 or more").what
    whole = sum(
        number
        for (day, name), number in rows_by("1w", visits()).items()
        if name == "1 or more" and (day.weekday() == 6 or day == datetime(2024, 4, 5).date())
    )
    assert round(released.total("1 or more").value) == whole > 30


def test_report_marks_numbers_that_add_users(tmp_path: Path) -> None:
    parts = {"rows": {"statistic": "count"}, "active": {"statistic": "reach", "at_least": "1,3"}}
    asked = job(tmp_path, what="report", statistics=parts, max_contributions=9, at_least=None)
    with run(asked) as outcome:
        released = outcome.read()
    said = f"active: users, {ANEW} week, are added up over all periods"
    assert f"active (reach, users {ANEW} week)" in released.methods()
    assert f"active: users, {ANEW} week," in screen_of(released.numbers).notes[-1]
    assert said in guarantee_of_stream(released.numbers)["systematic_errors"]
    assert f"{ANEW} week" in released.part("active").total("1 or more").what


def test_periods_that_end_within_windows_are_added_up(tmp_path: Path) -> None:
    for changed in (
        {"every": "1w", "contribution_period": "1d", "windows": 5},
        {"every": "5d", "windows": 8},
    ):
        with run(job(tmp_path, **changed, until=START + timedelta(days=35))) as outcome:
            released = outcome.read()
        assert released.numbers.metadata.series == "cumulative"
        assert ANEW in released.methods()
        with pytest.raises(InvalidInputError, match="series=period-to-date"):
            run(job(tmp_path, **changed, series="period-to-date"))


def test_endless_stream_with_default_period_to_date_is_refused(tmp_path: Path) -> None:
    endless: dict[str, Any] = {"windows": None, "expected_windows": DAYS}
    with pytest.raises(InvalidInputError, match="series=period-to-date"):
        run(job(tmp_path, **endless))
    assert not [*tmp_path.glob("*.db")]


def test_endless_stream_with_cumulative_series_is_continued(tmp_path: Path) -> None:
    endless: dict[str, Any] = {"windows": None, "expected_windows": DAYS, "series": "cumulative"}
    first = job(tmp_path, **endless, until=START + timedelta(days=7))
    with run(first) as outcome:
        assert outcome.read().table()["window_end"].n_unique() == 7
    with run(first.derive(until=START + timedelta(days=9))) as outcome:
        assert outcome.read().table()["window_end"].n_unique() == 9


def test_series_period_to_date_needs_contribution_period(tmp_path: Path) -> None:
    for changed in (
        {"what": "count", "max_contributions": 2, "at_least": None},
        {"contribution_period": None},
    ):
        with pytest.raises(InvalidInputError, match="series=period-to-date"):
            run(job(tmp_path, **changed, series="period-to-date"))


@pytest.mark.parametrize(("per", "rho"), [("1d", None), ("1w", None), ("1mo", None), ("1w", 1)])
def test_the_noise_is_least_of_the_periods(per: str, rho: int | None, tmp_path: Path) -> None:
    loss = {"epsilon": 1} if rho is None else {"epsilon": None, "rho": rho}
    asked = job(tmp_path, contribution_period=per, windows=364, **loss)
    ours, totals = (
        error_of_periods(plan_spec(one), per) for one in (asked, asked.derive(series="cumulative"))
    )
    assert ours <= totals * (1 + 1e-9)
    if per != "1mo" and rho is None:
        assert ours < 0.6 * totals
    if per == "1d":
        assert plan_spec(asked).metadata().strategy == KAry(364, 365, subtraction=False)


def error_of_periods(spec: StreamSpec, per: str) -> float:
    terms = planned_design(spec)
    windows = spec.terms.windowing.windows
    begins = period_starts(windows, per, windows.steps)
    return float(
        (terms.errors.window_std(begins, np.arange(1, len(begins) + 1)) ** 2).mean() ** 0.5
    )


def test_planned_error_of_reach_equals_released_error(tmp_path: Path) -> None:
    asked = job(tmp_path, epsilon=1)
    planned = {one.name: one.halfwidths for one in planned_job(asked).numbers}
    with run(asked) as outcome:
        table = outcome.read().table()
    for step, place in ((1, 0), (20, 1), (40, 2)):
        row = table.filter(pl.col("window_index") == step, pl.col("measure") == "1 or more")
        half = (row["upper"] - row["lower"]).item() / 2
        assert half == pytest.approx(planned["1 or more"][place], abs=0.51)


def test_period_starts_follow_calendar_of_timezone() -> None:
    days = Windows(datetime(2024, 2, 28, tzinfo=UTC), "1d", 40)
    assert period_starts(days, "1w", 9).tolist() == [0, 0, 0, 0, 0, 5, 5, 5, 5]
    assert period_starts(days, "1mo", 4).tolist() == [0, 0, 2, 2]
    assert period_starts(days, None, 3).tolist() == [0, 0, 0]
    kolkata = Windows(datetime(2024, 2, 28, tzinfo=UTC), "1d", 40, "Asia/Kolkata")
    for cut, per, whole in (
        (days, "1w", True), (days, "2d", True), (days, "12h", False), (kolkata, "1w", False),
        (Windows(START, "2d", 40), "1w", False), (Windows(START, "6h", 40), "12h", True),
        (Windows(START, "1w", 40), "1mo", False), (Windows(START, "10s", 9), "1mo", True),
        (Windows.endless(START, "1w"), "1w", True), (Windows(START, "5h", 40), "1d", False),
    ):  # fmt: skip
        assert made_of_windows(cut, per) == whole, (cut, per)


def test_numbers_of_single_windows_are_of_no_others(tmp_path: Path) -> None:
    with run(job(tmp_path, series="per-window", contribution_period=None)) as outcome:
        released = outcome.read()
    assert released.total("1 or more").value == released.table()["estimate"][-3]
    assert "The running" not in released.methods(full=True)
    for asked in (range(1, 4), range(1, 41)):
        with pytest.raises(
            InvalidInputError,
            match="numbers of single windows, and those of several windows do not add up",
        ):
            released.total("1 or more", steps=asked)


def test_service_names_period_of_number(tmp_path: Path) -> None:
    asked = job(tmp_path)
    run(asked).close()
    with Store(str(asked.state)) as store:
        journal = Journal(store, stream_name(asked))
        assert journal.about()["series"] == "period-to-date"
        last = journal.page(SeriesSelection(last=1)).table
    assert last["window_start"][0].day == 1

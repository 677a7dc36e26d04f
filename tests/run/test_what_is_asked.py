"""Totals, windows or both; and sums over days, weeks and months that agree with them."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from run_results import details_of

from counton.base.errors import InvalidInputError, StateError
from counton.results.charts import window_curves
from counton.results.release import Release
from counton.run import Job, run
from counton.run.spec.stream_spec import StreamSpec
from counton.state import Store
from counton.strategies import Independent
from counton.windowing.periods import periods_of, refuse_split_windows
from counton.windowing.windows import Windows, microseconds

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture
def year(tmp_path: Path) -> Job:
    """Hours of a year of local time, with noise that shows."""
    events = tmp_path / "e.csv"
    rows = [f"2024-{month:02}-{day:02}T07:30,a" for month in range(1, 13) for day in (1, 10, 28)]
    events.write_text("time,page\n" + "".join(f"{row}\n" for row in rows))
    return Job(
        what="count", events=events, state=tmp_path / "state.db", time="time", every="1h",
        group_by="page", groups="a,b", start="2024-01-01", timezone="Europe/Berlin", windows=8784,
        until="2025-01-01", allow_empty_windows=True, epsilon=1,
    )  # fmt: skip


def released(request: Job) -> Release:
    with run(request) as outcome:
        return outcome.read()


def test_series_both_has_windows_that_sum_to_totals(year: Job) -> None:
    totals = released(year.derive(stream="totals")).table()
    table = released(year.derive(series="both")).table()
    assert totals.columns == table.columns
    assert table["series"].unique(maintain_order=True).to_list() == ["cumulative", "per-window"]
    windows = table.filter(series="per-window")
    sums = windows.select(pl.col("estimate").cum_sum().over("group"))
    assert sums["estimate"].equals(table.filter(series="cumulative")["estimate"])


@pytest.mark.parametrize("release", ["cumulative", "per-window", "both"])
def test_sums_of_days_weeks_and_months_agree_with_the_hours(year: Job, release: str) -> None:
    found = released(year.derive(series=release))
    assert found.numbers.series.totals is not None or found.numbers.series.windows is not None
    ends = found.numbers.series.released.estimates
    last = ends[-1] if found.numbers.design.strategy.facts.release == "totals" else ends.sum(axis=0)
    for every, count in (("1d", 366), ("1w", 53), ("1mo", 12), ("3mo", 4)):
        sums = found.sums(every)
        assert sums.height == 2 * count
        assert sums.filter(group="a")["estimate"].sum() == last[0]
        assert sums.filter(group="b")["estimate"].sum() == last[1]
        assert sums["is_complete"].to_list() == ([True] * 2 * (count - (every == "1w"))) + (
            [False] * 2 if every == "1w" else []
        )
        starts = sums.filter(group="a")["window_start"]
        assert (starts.dt.hour() == 0).all()
        if every == "1w":
            assert (starts.dt.weekday() == 1).all()
        if "mo" in every:
            assert (starts.dt.day() == 1).all()
    days = found.sums("1d").filter(group="a")
    change = days.filter(pl.col("last_window") - pl.col("first_window") != 23)
    assert change["window_start"].dt.strftime("%m-%d").to_list() == ["03-31", "10-27"]


def test_sums_of_periods_have_noise_of_their_releases(year: Job) -> None:
    found = released(year.derive(series="both"))
    months = found.sums("1mo").filter(group="a")
    for row in months.iter_rows(named=True):
        start = row["first_window"] - 1
        stop = row["last_window"]
        assert row["noise_std"] == pytest.approx(
            found.numbers.design.errors.window_std(start, stop), rel=1e-12
        )
        rows = found.table().filter(
            pl.col("window_index").is_between(start + 1, stop), group="a", series="per-window"
        )
        assert row["estimate"] == rows["estimate"].sum()
        assert row["lower"] <= row["estimate"] <= row["upper"]


def test_first_and_last_periods_are_marked_incomplete() -> None:
    windows = Windows(datetime(2024, 1, 31, 22, tzinfo=BERLIN), "1h", 100, "Europe/Berlin")
    months = periods_of(windows, "1mo", 26)
    assert months.edges.tolist() == [0, 2, 26]
    assert months.is_complete.tolist() == [False, False]
    days = periods_of(windows, "1d", 26)
    assert days.edges.tolist() == [0, 2, 26]
    assert days.is_complete.tolist() == [False, True]


@pytest.mark.parametrize(
    ("every", "start", "sums", "words"),
    [
        ("1h", "2024-01-01T00:30", "1d", "inside the window of 1h that begins at 2024-01-01T23:30"),
        ("1w", "2024-01-01", "1mo", "inside the window of 1w"),
        ("1mo", "2024-01-01", "1d", "inside the window of 1mo"),
        ("1d", "2024-01-01", "1y", "not the length of a period; give 1d, 1w, 1mo or 3mo"),
    ],
)
def test_periods_that_are_not_made_of_windows_are_refused(
    every: str, start: str, sums: str, words: str
) -> None:
    windows = Windows(datetime.fromisoformat(start).replace(tzinfo=UTC), every, 50)
    with pytest.raises(InvalidInputError, match=words):
        refuse_split_windows(windows, sums)


def test_periods_follow_clocks_that_jump_at_midnight() -> None:
    start = datetime(2024, 3, 30, tzinfo=ZoneInfo("Asia/Beirut"))
    windows = Windows(start, "1h", 72, "Asia/Beirut")  # 31 March begins at 01:00
    days = periods_of(windows, "1d", 71)
    assert np.diff(days.edges).tolist() == [24, 23, 24]
    assert windows.start is start
    assert microseconds(start) == int(windows.starts(range(1, 2))[0])


def test_windows_alone_have_one_draw_of_noise_each(year: Job) -> None:
    alone = released(year.derive(series="per-window"))
    assert alone.numbers.design.strategy == Independent(8784)
    assert set(alone.table()["series"]) == {"per-window"}
    assert set(alone.table()["noise_std"]) == {alone.numbers.design.distribution.std}
    both = released(year.derive(stream="both", series="both")).table()
    both = both.filter(series="per-window")
    assert (both["noise_std"] > 1.3 * alone.numbers.design.distribution.std).all()
    with pytest.raises(InvalidInputError, match="strategy=kary cannot be used with"):
        run(year.derive(stream="kary", series="per-window", strategy="kary"))


@pytest.mark.parametrize(
    ("name", "saved", "more"),
    [
        ("independent", "Independent", {"series": "per-window"}),
        ("cascade", "GrowingCascade", {"series": "per-window"}),
        ("epochs", "Epochs", {"windows": None, "expected_windows": 100}),
        ("growing-blocks", "GrowingBlocks", {"windows": None, "expected_windows": 100}),
        ("growing-sqrt", "GrowingSquareRoot", {"windows": None, "expected_windows": 100}),
        ("multiscale", "Octave", {}),
    ],
)
def test_job_accepts_every_ranked_strategy_by_name(
    year: Job, name: str, saved: str, more: dict[str, Any]
) -> None:
    named = year.derive(epsilon=None, rho=1, strategy=name, until="2024-01-03", **more)
    assert released(named).numbers.design.strategy.saved_name == saved
    wrong = "cumulative" if more.get("series") == "per-window" else "per-window"
    with pytest.raises(
        InvalidInputError, match=f"strategy={name} cannot be used with .* is made for "
    ):
        run(named.derive(stream="wrong", windows=366, expected_windows=None, series=wrong))


def test_a_simple_strategy_releases_integers(year: Job) -> None:
    simple = year.derive(epsilon=None, rho=1, simple=True, until="2024-01-03")
    assert released(simple).table()["estimate"].dtype == pl.Int64
    assert (
        released(Job("count", year.events, year.state, until="2024-01-04")).numbers.series.totals
        is not None
    )
    assert released(simple).numbers.series.totals is not None
    run(simple.derive(stream="best", simple=False)).close()
    with pytest.raises(StateError, match=r"'best' exists with other options: simple \(here with"):
        run(simple.derive(stream="best"))


def test_expiration_delay_is_refused_without_totals(year: Job) -> None:
    forever = year.derive(windows=None, expiring=True, expiration_delay=2)
    with pytest.raises(
        InvalidInputError, match="expiration_delay=2 cannot be used with series=per-window"
    ):
        run(forever.derive(series="per-window"))
    with pytest.raises(InvalidInputError, match="sums=1d cannot be used with expiration_delay=2"):
        released(forever).sums("1d")


def test_a_long_series_of_windows_is_drawn_by_day(year: Job) -> None:
    found = released(year.derive(series="per-window"))
    curves, every = window_curves(found.numbers)
    assert every == "1d"
    assert (
        curves.estimates[:, 0].tolist() == found.sums("1d").filter(group="a")["estimate"].to_list()
    )
    assert window_curves(found.numbers, most=60)[1] == "1w"
    few, every = window_curves(replace(found.numbers, steps=range(1, 51)), most=50)
    assert (every, len(few.times)) == ("1h", 50)


@pytest.mark.parametrize(
    ("what", "stated", "missing"),
    [
        ("count", {}, "time, every, start, windows and epsilon or rho"),
        ("count", {"time": "time", "epsilon": 1}, "every, start and windows"),
        ("count", {"time": "time", "expected_windows": 90}, "every, start and epsilon or rho"),
        ("sum", {"lower": 0}, "value, upper, resolution, time, every, start, windows and eps"),
        (
            "average",
            {"time": "time", "value": "v"},
            "lower, upper, resolution, every, start, windows and eps",
        ),
        ("moments", {"time": "time", "rho": 1}, "columns, bounds, every, start and windows"),
    ],
)
def test_new_stream_names_all_missing_options(
    what: str, stated: dict[str, Any], missing: str, tmp_path: Path
) -> None:
    (tmp_path / "e.csv").write_text("time,v\n2024-03-01T09:00,3\n")
    with pytest.raises(InvalidInputError, match=rf"^a new stream of \w+ needs {missing}"):
        run(Job(what, tmp_path / "e.csv", tmp_path / "s.db", **stated))
    assert not (tmp_path / "s.db").exists()


def test_state_stores_stream_specification_as_one_record(tmp_path: Path) -> None:
    events = tmp_path / "e.csv"
    state = tmp_path / "s.db"
    events.write_text("at,who,paid\n2024-03-01T09:00,u,3\n")
    job = Job(
        "sum", events, state, time="at", every="1d", start="2024-03-01", windows=9, value="paid",
        lower=0, upper="9", resolution=1, user="who", max_contributions=2,
        contribution_period="1w", epsilon=1,
        until="2024-03-02", release_delay="6h", confidence_level=0.9,
    )  # fmt: skip
    with run(job) as outcome:
        created = outcome.spec.metadata()
        details = details_of(outcome)
    assert details["record"] == {
        "time": "at", "every": "1d", "start": "2024-03-01T00:00:00+00:00", "windows": 9,
        "timezone": "UTC", "value": "paid", "lower": "0", "upper": "9", "resolution": "1",
        "user": "who", "max_contributions": 2, "contribution_period": "1w", "privacy_unit": "user",
        "series": "cumulative",
        "strategy": "auto", "ambiguous": "raise", "decimal": ".", "epsilon": "1",
    }  # fmt: skip
    assert details["remembered"] == {"release_delay": "6h", "confidence_level": 0.9}
    with Store(state) as store:
        reader = store.reader("sum_of_paid")
        assert StreamSpec.of_stream(reader).metadata() == created

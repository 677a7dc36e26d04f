"""The recipe ``recipes/pattern.py`` averages hours of the day and days of the week."""

import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import PureDP, read, release
from counton.base.errors import InvalidInputError

RECIPE = Path(__file__).parents[2] / "recipes" / "pattern.py"
PATTERN = runpy.run_path(str(RECIPE), run_name="recipe")["pattern"]


def released(tmp_path: Path, every: str = "1h", hours: int = 29 * 24) -> Any:
    """Rows in every hour from 30 March 2024 on, over the night in which Berlin skips an hour."""
    begin = datetime(2024, 3, 30, 3, tzinfo=UTC)
    visits = pl.DataFrame({
        "time": [begin + timedelta(minutes=10 + 20 * n) for n in range(3 * hours)],
        "page": ["home", "shop", "home"] * hours,
    })  # fmt: skip
    release(
        "count", visits, time="time", every=every, start="2024-03-30T04:00",
        windows=720, until="latest-event", guarantee=PureDP(1),
        timezone="Europe/Berlin", state=tmp_path / "s.db", output=tmp_path / "t.parquet",
        group_by="page",
        groups=["home", "shop"],
    )  # fmt: skip
    return read(tmp_path / "t.parquet")


def test_days_of_the_week_are_averages_of_sums_of_days(tmp_path: Path) -> None:
    found = released(tmp_path).only(range(30, 600))
    days = found.sums("1d").filter("is_complete", pl.col("first_window") >= 30, group="home")
    table = PATTERN(found, "weekday", "home")
    assert table.columns == [
        "weekday",
        "times",
        "estimate",
        "noise_std",
        "lower",
        "upper",
    ]
    assert table.height == 7
    for name, times, estimate, std, lower, upper in table.iter_rows():
        own = days.filter(pl.col("window_start").dt.strftime("%A") == name)
        assert times == own.height
        assert estimate == pytest.approx(own["estimate"].mean())
        parts = [
            found.total("home", steps=range(first, last + 1)).asked
            for first, last in own.select("first_window", "last_window").iter_rows()
        ]
        together = sum(parts[1:], parts[0]) / times
        half = together.half(0.95)
        assert std == pytest.approx(together.std)
        assert (lower, upper) == pytest.approx((estimate - half, estimate + half))


def test_hours_are_those_of_the_local_clock(tmp_path: Path) -> None:
    table = PATTERN(released(tmp_path, "30m", hours=8 * 24), "hour", "home").sort("hour")
    assert table["hour"].to_list() == [*range(24)]
    times = dict(table.select("hour", "times").iter_rows())
    assert times[2] == times[1] - 1  # on 31 March there is none
    off = (table["estimate"] - 2) / table["noise_std"]  # 2 of 3 rows are of home: 2 an hour
    assert off.abs().max() < 6


def test_pattern_refuses_long_windows_and_missing_group(tmp_path: Path) -> None:
    found = released(tmp_path, every="1d")
    with pytest.raises(InvalidInputError, match="the windows cover no 1h completely"):
        PATTERN(found, "hour", "home")
    with pytest.raises(InvalidInputError, match="cellar"):
        PATTERN(found, "weekday", "cellar")

"""Windows that lie within periods of the calendar, and windows in which a period begins."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from programs import run_program

from counton.windowing.periods import SplitWindow, first_split_window, most_windows_in, period_of
from counton.windowing.windows import Windows, load_zone, moment

#: Zones in which clocks skip midnight, show it twice, skip a whole day, or are never set.
ZONES = (
    "UTC",
    "Asia/Kolkata",
    "America/New_York",
    "America/Sao_Paulo",
    "America/Havana",
    "America/St_Johns",
    "Asia/Beirut",
    "Pacific/Apia",
    "Pacific/Kwajalein",
    "Europe/Berlin",
)


def split_window_by_moments(windows: Windows, per: str) -> SplitWindow | None:
    """The same from the periods of the first moments of days, as rows are assigned to them."""
    first, last = windows.ends(range(windows.steps + 1))[[0, -1]].tolist()
    midnight = datetime.combine(
        windows.local(first).date(), datetime.min.time(), load_zone(windows.timezone)
    )
    days = Windows(midnight, "1d", (last - first) // 86_400_000_000 + 3, windows.timezone)
    begins = pl.DataFrame({"us": days.starts(range(1, days.steps + 1))})
    numbers = begins.with_columns(period=period_of(pl.col("us"), per, windows.timezone))
    edges = numbers.filter(pl.col("period") != pl.col("period").shift(1))["us"].to_numpy()
    for edge in edges[(edges > first) & (edges < last)].tolist():
        step = int(windows.step_of(np.array([edge]))[0])
        begin = int(windows.starts(range(step, step + 1))[0])
        if begin != edge:
            return SplitWindow(begin, edge)
    return None


@pytest.mark.parametrize("timezone", ZONES)
def test_split_windows_are_those_in_which_a_period_of_rows_begins(timezone: str) -> None:
    """Periods of windows follow the calendar of zoneinfo, those of rows that of polars."""
    random = Random(timezone)
    found = set()
    for _ in range(24):
        day = datetime(1993, 1, 1) + timedelta(days=random.randrange(9_000))
        hour = random.choice([0, 0, 0, random.randrange(24)])
        start = day.replace(hour=hour, tzinfo=ZoneInfo(timezone)).astimezone(UTC)
        every = random.choice(["1h", "5h", "6h", "1d", "1d", "2d", "3d", "1w", "2w", "1mo", "3mo"])
        windows = Windows(start, every, random.randrange(1, 800), timezone)
        if moment(windows.end) > start + timedelta(days=3653):  # which are not compared
            windows = Windows(start, every, 30, timezone)
        per = random.choice(["1d", "1d", "2d", "7d", "1w", "2w", "3w", "1mo", "2mo", "3mo", "12mo"])
        split = first_split_window(windows, per)
        assert split == split_window_by_moments(windows, per), (windows, per)
        found.add(split is None)
    assert found == {True, False}


def test_a_skipped_day_begins_its_period_with_the_day_after_it() -> None:
    """Samoa had no 30 December 2011, a Friday."""
    samoa = ZoneInfo("Pacific/Apia")
    days = Windows(datetime(2011, 12, 26, tzinfo=samoa), "1d", 9, "Pacific/Apia")
    assert first_split_window(days, "1d") is None
    twice = Windows(datetime(2011, 12, 26, tzinfo=samoa), "2d", 9, "Pacific/Apia")
    split = first_split_window(twice, "1d")
    assert split is not None
    assert days.format_moment(split.period_begin)[:10] == "2011-12-27"


def test_periods_of_windows_are_compared_without_polars() -> None:
    program = (
        "import sys\n"
        "from counton.windowing.periods import made_of_windows\n"
        "from counton.windowing.windows import Windows, parse_time\n"
        "berlin = 'Europe/Berlin'\n"
        "days = Windows(parse_time('2024-03-01', berlin), '1d', 3653, berlin)\n"
        "assert made_of_windows(days, '1w')\n"
        "assert 'polars' not in sys.modules"
    )
    run_program([sys.executable, "-c", program], check=True)


#: Starts of windows, in local time: the year begins on a Sunday or a Monday, or clocks change soon.
STARTS = ("2012-01-01", "2024-01-01", "2024-10-07")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    ("every", "per"),
    [
        *[("1w", "1mo"), ("1w", "3mo"), ("1w", "12mo"), ("1w", "1w"), ("2w", "1mo"), ("5d", "1w")],
        *[("1d", "1w"), ("1d", "1mo"), ("1d", "12mo"), ("1d", "12h"), ("1d", "36h"), ("1d", "2d")],
        *[("1h", "1d"), ("12h", "1d"), ("7h", "1w"), ("6h", "1mo"), ("7h", "5h"), ("5h", "12h")],
        *[("1mo", "1mo"), ("1mo", "12mo"), ("1mo", "1w"), ("3mo", "12mo"), ("1mo", "2000mo")],
    ],
)
def test_most_windows_in_period_is_largest_counted_number(
    every: str, per: str, start: str, zone: str
) -> None:
    begin = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone))
    days = {"h": 1 / 24, "d": 1, "w": 7, "mo": 31}[every.lstrip("0123456789")]
    steps = int(800 / days / int(every.rstrip("hdwmo")))
    windows = Windows(begin, every, steps, zone)
    starts = pl.Series(windows.starts(range(1, steps + 1)))
    ends = pl.Series(windows.ends(range(1, steps + 1)))
    period = pl.select(
        first=period_of(pl.lit(starts), per, zone), last=period_of(pl.lit(ends - 1), per, zone)
    )
    numbers = period.select(pl.int_ranges("first", pl.col("last") + 1)).to_series().explode()
    assert most_windows_in(windows, per) == numbers.value_counts()["count"].max()


@pytest.mark.parametrize(
    ("every", "per", "zone", "most"),
    [
        *[("1w", "1mo", "UTC", 6), ("1w", "3mo", "UTC", 14), ("1w", "12mo", "UTC", 54)],
        *[("1d", "1mo", "UTC", 31), ("1d", "1w", "UTC", 7), ("1mo", "12mo", "UTC", 12)],
        *[("1h", "1d", "UTC", 24), ("1h", "1d", "America/New_York", 25)],
    ],
)
def test_most_windows_in_period_of_a_long_stream(
    every: str, per: str, zone: str, most: int
) -> None:
    """Weeks begin on Monday. In 30 years, some leap year begins on a Sunday."""
    begin = datetime(2024, 1, 1, tzinfo=ZoneInfo(zone))
    assert most_windows_in(Windows(begin, every, 366 * 30, zone), per) == most


def test_most_windows_in_period_are_in_a_later_period() -> None:
    """A period of a hundred years begins in 2000, after four of these windows."""
    years = Windows(datetime(1996, 1, 1, tzinfo=UTC), "12mo", 39)
    assert most_windows_in(years, "1200mo") == 35

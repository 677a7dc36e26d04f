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

from counton.windowing.periods import SplitWindow, first_split_window, period_of
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

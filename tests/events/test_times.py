"""Times as people and databases write them, as microseconds since 1970."""

from __future__ import annotations

import polars as pl
import pytest

from counton.events.windows import with_moments

HOUR = 3_600_000_000


def moments(texts: list[str], timezone: str = "UTC", time_format: str | None = None) -> list[int]:
    frame = pl.LazyFrame({"time": texts})
    found = with_moments(frame, "time", timezone, time_format=time_format).collect()
    assert found["readable"].to_list() == [us is not None for us in found["us"]]
    return found["us"].to_list()


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T05", 5),
        ("1970-01-01 05", 5),
        ("1970-01-01T05:30", 5.5),
        (" 1970-01-01 05:30:00 ", 5.5),
        ("1970-01-01T05:00:00.900", 5.00025),
        ("1970-01-01T05Z", 5),
        ("1970-01-01 05:00:00z", 5),
        ("1970-01-01 05:00:00+00", 5),  # PostgreSQL's timestamptz
        ("1970-01-01 05:00:00.9-03", 8.00025),
        ("1970-01-01T05+05", 0),
        ("1970-01-01T05:00+05:30", -0.5),
        ("1970-01-01T05:00:00+0530", -0.5),
    ],
)
def test_iso_8601_and_its_short_forms(text: str, hours: float) -> None:
    assert moments([text]) == [round(hours * HOUR)]


@pytest.mark.parametrize(
    "text", ["", "?", "1970-01", "1970-13-01", "1970-01-01T25", "x-05", "1970-01-01-05", "05:00+00"]
)
def test_what_is_no_time_is_not_read(text: str) -> None:
    assert moments([text]) == [None]


def test_local_times_are_those_of_the_zone() -> None:
    assert moments(["1970-01-01T05"], "America/New_York") == [10 * HOUR]
    assert moments(["1970-01-01T05+00"], "America/New_York") == [5 * HOUR]


@pytest.mark.parametrize(
    ("time_format", "text"),
    [
        ("%Y-%m-%d %H:%M:%S%z", "1970-01-01 05:00:00+0000"),
        ("%Y-%m-%d %H:%M:%S%:z", "1970-01-01 05:00:00+00:00"),
        ("%Y-%m-%d %H:%M:%S%#z", "1970-01-01 05:00:00+00"),
        ("%+", "1970-01-01T05:00:00+00:00"),
        ("%d.%m.%Y %H:%M", "01.01.1970 00:00"),
    ],
)
def test_stated_formats_with_and_without_an_offset(time_format: str, text: str) -> None:
    assert moments([text], "America/New_York", time_format) == [5 * HOUR]

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from counton.base.errors import InvalidInputError
from counton.windowing.windows import (
    NO_MOMENT,
    RevisableWindows,
    Windows,
    moment,
    parse_time,
)

NEW_YORK = "America/New_York"


def year_2013(every: str, steps: int) -> Windows:
    return Windows(parse_time("2013-01-01T00:00", NEW_YORK), every, steps, NEW_YORK)


def test_8760_hours_cover_year_2013_in_new_york() -> None:
    windows = year_2013("1h", 8760)
    assert moment(windows.end) == datetime(2014, 1, 1, 5, tzinfo=UTC)
    lengths = windows.ends(range(1, 8761)) - windows.starts(range(1, 8761))
    assert set(lengths.tolist()) == {3_600_000_000}


def test_days_follow_the_local_calendar() -> None:
    windows = year_2013("1d", 365)
    steps = range(1, 366)
    hours = (windows.ends(steps) - windows.starts(steps)) // 3_600_000_000
    assert hours[68] == 23  # 10 March: the clocks go forward
    assert hours[306] == 25  # 3 November: they go back
    assert sorted(set(hours.tolist())) == [23, 24, 25]
    assert moment(windows.end) == datetime(2014, 1, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("America/Havana", "2024-03-10", 23),  # clocks skip midnight
        ("America/Havana", "2024-11-03", 25),  # midnight comes twice
        ("Africa/Cairo", "2024-04-26", 23),
        ("Africa/Cairo", "2024-10-31", 25),
        ("America/Santiago", "2024-09-08", 23),
        ("Pacific/Apia", "2011-12-30", 0),  # a day that never was
    ],
)
def test_days_that_begin_while_the_clocks_change(zone: str, day: str, hours: int) -> None:
    start = parse_time(day[:4] + "-01-01", zone)
    windows = Windows(start, "1d", 366, zone)
    begins = [
        moment(us).astimezone(ZoneInfo(zone)) for us in windows.starts(range(1, 367)).tolist()
    ]
    lengths = np.diff(windows.ends(range(367))) // 3_600_000_000
    number = (datetime.fromisoformat(day).date() - start.date()).days
    assert lengths[number] == hours
    assert {23, 24, 25} <= set(lengths.tolist()) <= {0, 23, 24, 25}
    # every begin is the first moment of its local day
    for k, begin in enumerate(begins):
        if k != number or hours:
            assert (begin.date() - start.date()).days == k
        before = (begin.astimezone(UTC) - timedelta(microseconds=1)).astimezone(ZoneInfo(zone))
        assert before.date() < begin.date()


def test_months_end_on_last_day_where_day_is_missing() -> None:
    windows = Windows(datetime(2024, 1, 31, tzinfo=UTC), "1mo", 3)
    assert [moment(us).date().isoformat() for us in windows.ends(range(1, 4)).tolist()] == [
        "2024-02-29",
        "2024-03-31",
        "2024-04-30",
    ]


@pytest.mark.parametrize("every", ["90s", "15m", "1h", "1d", "2w", "1mo"])
def test_event_lies_in_window_between_its_bounds(every: str) -> None:
    windows = year_2013(every, 40)
    steps = range(1, 41)
    starts = windows.starts(steps)
    ends = windows.ends(steps)
    assert np.array_equal(starts[1:], ends[:-1])
    numbers = np.arange(1, 41)
    assert np.array_equal(windows.step_of(starts), numbers)
    assert np.array_equal(windows.step_of(ends - 1), numbers)
    assert windows.step_of(starts[:1] - 1)[0] < 1
    assert windows.step_of(ends[-1:])[0] == 41


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("every", ["6h", "1d", "1w", "1mo"])
def test_step_of_event_is_independent_of_other_rows(every: str, zone: str) -> None:
    windows = Windows(datetime(2024, 1, 31, 9, tzinfo=UTC), every, 20, zone)
    first = int(windows.starts(range(1, 2))[0])
    end = windows.end
    us = np.random.default_rng(7).integers(first - (end - first), 2 * end - first, 9000)
    us[:20] = windows.starts(range(1, 21))
    us[20:40] = windows.ends(range(1, 21)) - 1
    starts = windows.starts(range(1, 22))
    assert set(np.searchsorted(starts, us, side="right").tolist()) == set(range(22))
    problem = NO_MOMENT - 3
    for some in (us, us[:40], np.sort(us), *np.array_split(np.sort(us), 50), us[:0]):
        rows = pl.DataFrame({"us": [problem, *some.tolist()]}, schema={"us": pl.Int64})
        alone = rows.slice(1).select(windows.step("us")).to_series().to_list()
        steps = np.searchsorted(starts, some, side="right").tolist()
        assert alone == steps
        assert rows.select(windows.step("us")).to_series().to_list() == [-3, *steps]
        inside = (some >= first) & (some < end)
        assert np.array_equal(windows.step_of(some[inside]), np.array(steps)[inside])


def test_a_window_has_ended_at_its_end_and_not_before() -> None:
    windows = year_2013("1h", 8760)
    third = int(windows.ends(range(3, 4))[0])
    assert windows.ended_by(third - 1) == 2
    assert windows.ended_by(third) == 3
    assert windows.ended_by(windows.end + 10**12) == 8760
    assert windows.ended_by(0) == 0


def test_text_times_without_offset_are_local() -> None:
    assert parse_time("2013-07-01T00:00", NEW_YORK).utcoffset() == timedelta(hours=-4)
    assert parse_time("2013-07-01T00:00Z", NEW_YORK).utcoffset() == timedelta(0)
    assert parse_time("2013-07-01", NEW_YORK).tzinfo == ZoneInfo(NEW_YORK)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("yesterday", "'yesterday' is not a time"),
        ("2013-03-10T02:30", "does not exist"),
        ("2013-11-03T01:30", "comes twice"),
    ],
)
def test_times_that_are_no_single_moment_are_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        parse_time(text, NEW_YORK)


@pytest.mark.parametrize(
    ("every", "steps", "zone", "words"),
    [
        ("0h", 1, "UTC", "'0h'"),
        ("1y", 1, "UTC", "'1y'"),
        ("hour", 1, "UTC", "'hour'"),
        ("-1h", 1, "UTC", "'-1h'"),
        ("1h", 0, "UTC", "steps is 0"),
        ("1h", 10**9, "UTC", "year 9999"),
        ("1mo", 999_999, "UTC", "year 9999"),
        ("1d", 10**9, "UTC", "too many"),
        ("1h", 1, "Mars/Olympus", "'Mars/Olympus'"),
    ],
)
def test_impossible_windows_are_refused(every: str, steps: int, zone: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Windows(datetime(2013, 1, 1, tzinfo=UTC), every, steps, zone)


def test_window_starting_in_skipped_hour_begins_after_jump() -> None:
    windows = Windows(parse_time("2013-03-01T02:30", NEW_YORK), "1d", 365, NEW_YORK)
    tenth = moment(int(windows.starts(range(10, 11))[0])).astimezone(ZoneInfo(NEW_YORK))
    assert tenth.isoformat() == "2013-03-10T03:00:00-04:00"


def test_a_naive_start_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no time zone"):
        Windows(datetime(2013, 1, 1), "1h", 1)


@pytest.mark.parametrize(
    ("zone", "start", "every", "said"),
    [
        ("UTC", "2024-03-07", "1d", "to the end of 7 March 2024"),
        ("America/New_York", "2013-12-31T23:00", "1h", "to the end of 31 December 2013"),
        ("America/New_York", "2013-12-31T22:00", "1h", "up to 31 December 2013, 23:00"),
        ("UTC", "2013-12-31T22:00:00", "90s", "up to 31 December 2013, 22:01:30"),
        ("America/Havana", "2024-03-09", "1d", "to the end of 9 March 2024"),  # then comes 01:00
        ("Africa/Cairo", "2024-10-31", "1d", "to the end of 31 October 2024"),  # of 25 hours
        ("UTC", "2024-02-01", "1mo", "to the end of 29 February 2024"),
    ],
)
def test_until_names_day_that_ends(zone: str, start: str, every: str, said: str) -> None:
    windows = Windows(parse_time(start, zone), every, 2, zone)
    assert windows.end_in_words(int(windows.ends(range(1, 2))[0])) == said


def test_windows_that_are_revised_share_the_table_of_edges() -> None:
    start = datetime(2024, 3, 1, tzinfo=UTC)
    once = Windows(start, "1d", 30, "Europe/Berlin")
    revised = RevisableWindows(start, "1d", 30, "Europe/Berlin", versions=3)
    assert revised._edges() is once._edges()

"""Times as people and databases write them, as microseconds since 1970."""

import io
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counton import release
from counton.base.errors import InvalidInputError
from counton.io.sources import write_lines
from counton.io.timestamps import (
    EPOCH_FORMATS,
    UNREADABLE_TIME,
    _from_any_shape,
    as_text,
    moments,
)
from counton.run import Job
from counton.windowing.windows import NO_MOMENT

HOUR = 3_600_000_000


def test_showing_an_array_loads_numpy_into_polars() -> None:
    """It would fail where both meet their first array at the same moment."""
    said = "from counton.io.row_assignment import _load_numpy_in_polars; _load_numpy_in_polars(); "
    said += "import polars.series.series as s; print('ndarray' in vars(s.np))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]


def read(
    texts: list[str], timezone: str = "UTC", time_format: str | None = None
) -> list[int | None]:
    frame = pl.DataFrame({"time": texts})
    found = frame.select(moments("time", pl.String(), timezone, time_format=time_format))
    assert all(us > NO_MOMENT or us == UNREADABLE_TIME for us in found["time"])
    return [us if us > NO_MOMENT else None for us in found["time"]]


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
        ("1970-01-01 05:00:00 UTC", 5),  # BigQuery
        ("1970-01-01 05:00:00.900000 UTC", 5.00025),
        ("1970-01-01 05:00 GMT", 5),
        ("19700101", 0),
        ("19700101T0530", 5.5),
        ("19700101T053000Z", 5.5),
        ("19700101 053000+0100", 4.5),
        ("1970-01-01 05:00:00,900", 5.00025),
        ("1970-01-01T24:00", 24),
        ("1970-01-01 24:00:00", 24),
        ("1970-01-31T24:00:00.000", 31 * 24),
        ("1970-01-01T24:00Z", 24),
        ("1970-01-01T24:00:00+02:00", 22),
        ("1970-01-01T05:00+05:30", -0.5),
        ("1970-01-01T05:00:00+0530", -0.5),
    ],
)
def test_iso_8601_and_its_short_forms(text: str, hours: float) -> None:
    assert read([text]) == [round(hours * HOUR)]


@pytest.mark.parametrize(
    "text", ["", "?", "1970-01", "1970-13-01", "1970-01-01T25", "x-05", "1970-01-01-05", "05:00+00"]
)
def test_invalid_time_text_is_not_read(text: str) -> None:
    assert read([text]) == [None]


def test_local_times_are_those_of_the_zone() -> None:
    assert read(["1970-01-01T05"], "America/New_York") == [10 * HOUR]
    assert read(["1970-01-01T05+00"], "America/New_York") == [5 * HOUR]


@pytest.mark.parametrize(
    ("time_format", "text"),
    [
        ("%Y-%m-%d %H:%M:%S%z", "1970-01-01 05:00:00+0000"),
        ("%Y-%m-%dT%H:%M:%S%z", "1970-01-01T05:00:00Z"),
        ("%Y-%m-%d %H:%M:%S%:z", "1970-01-01 05:00:00+00:00"),
        ("%Y-%m-%d %H:%M:%S%#z", "1970-01-01 05:00:00+00"),
        ("%+", "1970-01-01T05:00:00+00:00"),
        ("%d.%m.%Y %H:%M", "01.01.1970 00:00"),
    ],
)
def test_stated_formats_with_and_without_an_offset(time_format: str, text: str) -> None:
    assert read([text], "America/New_York", time_format) == [5 * HOUR]


@pytest.mark.parametrize(
    ("form", "right"),
    [
        ("%Y-%m-%d %H:%M:%S %Z", "'%Y-%m-%d %H:%M:%S %z'"),
        ("%Y-%m-%dT%H:%M:%SZ", "'%Y-%m-%dT%H:%M:%S%z'"),
        ("%Y-%m-%dT%H:%M:%S%.3fz", "'%Y-%m-%dT%H:%M:%S%.3f%z'"),
        ("%H:%M", "'%Y-%m-%d %H:%M'"),
        ("%d %b %H:%M", "of both"),
        ("%Y-%m", "first day of each month, as in 2024-01-01, and leave"),
        ("%Y Q%q", "first day of each quarter"),
        ("%Y", "first day of each year"),
        ("noon", "of both"),
        ("", "of both"),
        ("%d/%m/%y", "'%d/%m/%Y'"),
        ("%D %T", "'%m/%d/%Y %T'"),
        ("%x", "'%m/%d/%Y'"),
        ("%g-W%V-%u", "'%G-W%V-%u'"),
        ("%Y-%m-%d %H:%M:%S.%f", "'%Y-%m-%d %H:%M:%S%.f'"),
        ("%Y-%m-%d %H:%M PM", "'%Y-%m-%d %I:%M %p'"),
        ("%d.%m.%Y %k:%Ma.m.", "'%d.%m.%Y %I:%M%p'"),
        ("%s", "'epoch'"),
        ("%Y-%m-%d %I:%M", "no format by which"),
        ("%Y-%m-%d %H", "no format by which"),
        ("%Q", "no format by which"),
        ("%", "no format by which"),
    ],
)
def test_ambiguous_time_format_is_refused(form: str, right: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(right)) as said:
        Job("count", "events.csv", "s.db", time="at", time_format=form)
    assert said.value.fields[0] == "time_format"


@pytest.mark.parametrize(
    "form",
    [
        *EPOCH_FORMATS, "%d.%m.%Y", "%d/%m/%Y %H.%M %z", "%Y-%m-%d %H:%M:%S%:z", "%+", "%F %T",
        "%Y-%m-%d %I:%M %p", "%-d.%-m.%Y %k:%M", "%Y-%j", "%G-W%V-%u", "%Y%m%d%H%M%S", "%c",
        "%A %d %B %Y", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M:%S EST", "%d.%m.%Y %H:%M Uhr",
        "%Y-%m-%d %H:%M:%S UTC",
    ],
)  # fmt: skip
def test_unambiguous_time_format_is_accepted(form: str) -> None:
    Job("count", "events.csv", "s.db", time="at", time_format=form)


#: Texts that look like a zone or an offset, at the end of a format.
ZONES = [
    "UTC", " UTC", " GMT", " (utc)", "+0000", " +0000", " +00:00", " -00", " -0500", "-05:00",
    " +1", " UTC+1", " EST", " est", " CEST", " MSK", " XYZT", " Europe/Berlin",
    " [Europe/Berlin]", " (\u22120500)",
]  # fmt: skip
WORDS = [
    "", " Uhr", " UHR", "h", "Z%z", " UTC%z", " %z EST", " o'clock", "\u65e5", " de", "(local)",
]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_time_format_with_other_timezone_is_refused(zone: str) -> None:
    form = f"%Y-%m-%d %H:%M:%S{zone}"
    with pytest.raises(
        InvalidInputError, match=r"has the (word|offset) .*read in America/New_York"
    ) as e:
        read(["1970-01-01 05:00:00"], "America/New_York", form)
    assert "%z" in str(e.value)
    is_utc = zone.strip(" ()") in ("UTC", "GMT", "utc", "+0000", "+00:00", "-00")
    if is_utc:
        assert read([f"1970-01-01 05:00:00{zone}"], "UTC", form) == [5 * HOUR]
        return
    with pytest.raises(InvalidInputError, match=r"has the (word|offset) "):
        read(["1970-01-01 05:00:00"], "UTC", form)


def test_time_format_with_name_of_timezone_is_read() -> None:
    form = "%Y-%m-%d %H:%M:%S Europe/Berlin"
    assert read(["1970-01-01 05:00:00 Europe/Berlin"], "Europe/Berlin", form) == [4 * HOUR]
    assert read(["1970-01-01 05:00:00 EST"], "EST", "%Y-%m-%d %H:%M:%S EST") == [10 * HOUR]


@pytest.mark.parametrize("word", WORDS)
def test_format_with_other_words_is_read_in_the_stated_zone(word: str) -> None:
    form = f"%Y-%m-%d %H:%M:%S{word}"
    text = f"1970-01-01 05:00:00{word}".replace("%z", "+0000")
    assert read([text], "Asia/Tokyo", form) == [5 * HOUR if "%z" in word else -4 * HOUR]


@pytest.mark.parametrize(
    ("form", "text"),
    [("%d/%m/%Y", "01/03/24"), (None, "24-03-01"), (None, "24-03-01T08:30"), ("%F", "24-3-1")],
)
def test_a_year_of_fewer_digits_is_no_time(form: str | None, text: str) -> None:
    """It was read as a year of the first century."""
    assert read([text], time_format=form) == [None]


SHAPES = [
    "2013-03-10T01:30:00Z",
    "2013-03-10 01:30:00+01:00",
    "2013-03-10T01:30:00-0330",
    "2013-03-10T01:30:00",
    "2013-03-10T01:30:00.5",
    "2013-03-10T01:30:00.123Z",
    "2013-03-10T01:30:00.123456789+05:45",
    "2013-03-10 02:30:00",  # skipped in New York
    "2013-11-03 01:30:00",  # comes twice there
]
ODD = [
    *SHAPES,
    *("", " 2013-03-10T01:30:00Z ", "2013-03-10", "2013-03-10T01:30Z", "2013-03-10T01:30:00 Z"),
    *("2013-03-10T01:30:00.+01Z", "2013-03-10T01:30:00.12-4Z", "2013-03-10T01:30:00.1234Z"),
    *("2013-02-30T01:30:00Z", "2013-03-10T01:30:60Z", "2013-03-10T01:30:00+25:00", "never"),
    *("2013-3-1T01:30:00Z", "2013-3-10T1:30:00.00Z", "+12013-3-1T1:30:00Z", "2013-03-10T01:30:5 Z"),
    *("2013-03-10T01:30:00.123456Z\n", "２０１３-03-10T01:30:00Z", "2013-03-10T01:30:00é"),
    *("2013-\t3-10T01:30:00Z", "+013-03-10T01:30:00Z", "2013-03-\t9T01:30:00.123Z"),
    *("2013-03-10T\t1:30:00", " 013-03-10 01:30:00+01:00", "2013-03-10T01:30:\t5-0330"),
    *("2013-03-10T01:30:00+24:00", "2013-03-10T01:30:00-15:45", "2013-03-10T01:30:00+0"),
]


@pytest.mark.parametrize("first", SHAPES)
@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
def test_fast_reading_of_times_equals_general_parser(first: str, timezone: str) -> None:
    texts = pl.Series("time", [None, first, *ODD, None])
    found = texts.to_frame().select(moments("time", pl.String(), timezone)).to_series()
    assert found.to_list() == _from_any_shape(texts, timezone, "raise", None).to_list()


@settings(max_examples=30)
@given(rows=st.lists(st.tuples(st.integers(0, 2**33), st.sampled_from(SHAPES)), min_size=1))
def test_all_shapes_of_a_moment_are_read_alike(rows: list[tuple[int, str]]) -> None:
    texts = []
    for seconds, shape in rows:
        moment = datetime.fromtimestamp(seconds, UTC)
        texts.append(moment.strftime("%Y-%m-%d") + shape[10] + moment.strftime("%H:%M:%S") + "Z")
    assert read(texts) == [seconds * 10**6 for seconds, _ in rows]


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata"])
@pytest.mark.parametrize(("unit", "second"), [("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_texts_of_times_are_those_of_polars(
    unit: Literal["ms", "us", "ns"], second: int, zone: str | None
) -> None:
    """Digests of rows are made of them, and states keep those."""
    edges = [None, 0, -1, 1, second, -second, 86_400 * second - 1, 86_400 * second]
    if unit != "ns":  # whose years end before
        edges += [-62_135_596_800 * second, 253_402_300_799 * second + second - 1]
    near = [second * (1_700_000_000 + 3601 * n) + 1 for n in range(2000)]
    whole = [second * (1_700_000_000 + 7 * n) for n in range(2000)]
    for stored in ([], [None], edges, near, whole):
        times = pl.Series("t", stored, pl.Int64).cast(pl.Datetime(unit, zone))
        found = times.to_frame().select(as_text(pl.col("t"), times.dtype))["t"]
        assert found.to_list() == times.cast(pl.String).to_list()


def test_lines_of_rows_are_those_of_their_texts() -> None:
    frame = pl.DataFrame(
        {
            "t": pl.Series([0, 1, None, 10**15]).cast(pl.Datetime("us", "UTC")),
            "d": pl.Series([0, 1, None, 10**4]).cast(pl.Date),
            "small": pl.Series([-128, 127, 0, None], dtype=pl.Int8),
            "large": pl.Series([2**64 - 1, 0, None, 7], dtype=pl.UInt64),
            "wide": pl.Series([-(2**63), 2**63 - 1, None, 7], dtype=pl.Int64),
            "text": ['a "word"', "a,b", "two\nlines", None],
            "yes": [True, False, None, True],
            "part": [0.1, 1e300, None, -0.5],
            "list": [[1], [], None, [2]],
        }
    )
    lines = io.BytesIO()
    write_lines(frame.lazy(), lines)  # type: ignore[arg-type]
    same = frame.drop("list").with_columns(pl.col("t").to_physical()).rename({"t": "t in UTC"})
    assert lines.getvalue() == same.select(pl.all().cast(pl.String)).write_csv().encode()


def test_texts_that_repeat_are_read_as_each_alone() -> None:
    texts = ["2024-03-31", "2024-03-31T02:30", "?", None, "2024-03-30T24:00", "2024-03-01 09:17Z"]
    many = pl.Series("time", texts * 500)
    read = many.to_frame().select(moments("time", many.dtype, "Europe/Berlin")).to_series()
    alone = [
        pl.Series("time", [text], pl.String)
        .to_frame()
        .select(moments("time", pl.String(), "Europe/Berlin"))
        .item()
        for text in texts
    ]
    assert read.to_list() == alone * 500


@pytest.mark.parametrize(
    "text",
    ["1970-01-01T24:01", "1970-01-01T24:00:01", "19701301", "1970-01-01 05:00 EST", "1970-01",
     "1970Q1", "197001", "0019700101", "1970010"],
)  # fmt: skip
def test_text_that_names_no_moment_is_no_time(text: str) -> None:
    assert read(["1970-01-01", text], "Europe/Berlin") == [-HOUR, None]


def test_hour_24_is_next_midnight_of_timezone() -> None:
    texts = ["2024-03-30T24:00", "2024-03-31T24:00", "2024-03-31", "2024-04-01"]
    moments_read = read(texts, "Europe/Berlin")
    assert moments_read[:2] == moments_read[2:]


@pytest.mark.parametrize(
    ("text", "form", "match"),
    [
        ("2024-01", None, "a month, quarter or year is no moment: write its first day, as in 2024"),
        ("2024Q1", None, "as in 2024-01-01"),
        ("2024-Q3", None, "as in 2024-01-01"),
        ("01.03.2024 24:00", "%d.%m.%Y %H:%M", "write 00:00 of the next day for 24:00"),
        ("yesterday", None, "write ISO 8601"),
    ],
)
def test_unreadable_time_is_refused_with_advice(
    text: str, form: str | None, match: str, tmp_path: Path
) -> None:
    file = tmp_path / "e.csv"
    file.write_text(f"time\n{text}\n")
    with pytest.raises(InvalidInputError, match=match):
        release("count", file, time="time", every="1d", start="2024-01-01", windows=9, epsilon=1,
                privacy_unit="event", time_format=form, state=tmp_path / "s.db")  # fmt: skip


@pytest.mark.parametrize("ambiguous", ["raise", "earliest", "within the day"])
def test_times_of_utc_equal_those_of_a_zone_without_changes(ambiguous: str) -> None:
    """The clocks of UTC are not looked up; those of Etc/UTC are, and never change either."""
    texts = [
        *("2024-03-31T02:30:00", "2024-10-27T02:30:00", "1969-12-31T23:59:59", "2024-02-30"),
        *("0001-01-01T00:00:00", "9999-12-31T23:59:59", "10000-01-01T00:00:00", "2024-03-31", "?"),
        None,
    ]  # fmt: skip
    past_years = [-(2**63), -62135596800000001, 253402300800000000, 2**63 - 1, 0, None]
    columns = [
        pl.Series("time", texts),
        pl.Series("time", texts[:2]),
        pl.Series("time", past_years, pl.Int64).cast(pl.Datetime("us")),
        pl.Series("time", past_years, pl.Int64).cast(pl.Datetime("ns")),
        pl.Series("time", [-(2**31), 0, 19813, 2**31 - 1, None], pl.Int32).cast(pl.Date),
    ]
    for column in columns:
        of_zones = [
            column.to_frame().select(moments("time", column.dtype, zone, ambiguous)).to_series()
            for zone in ("UTC", "Etc/UTC")
        ]
        assert of_zones[0].to_list() == of_zones[1].to_list(), column

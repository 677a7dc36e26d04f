"""Nightly queries with ``{since}`` and ``{until}``: each day of a week of nights equals the truth.

The edges are bound in the type and form of the column of times. A column whose order is not the
order of time is refused.
"""

import gc
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from week_of_nights import (
    BETWEEN,
    POSTGRESQL_COLUMNS,
    SEASONS,
    SQLITE_COLUMNS,
    Season,
    TimeColumn,
    day_of,
    expected_nights,
    fill_postgresql,
    fill_sqlite,
    nightly_job,
    run_nights,
    values_of,
)

from counton.base.errors import InvalidInputError
from counton.run import Job, run


@pytest.fixture
def server(postgres: str) -> Iterator[str]:
    """A server; connections that an error still holds end, so that others see no old rows."""
    yield postgres
    gc.collect()


SPRING = SEASONS[1]
AUTUMN = SEASONS[4]
UTC_DAYS = SEASONS[0]
#: Conditions that convert column and edges alike.
CONVERTED = {
    "datetime": "datetime(time) >= datetime({since}) and datetime(time) < datetime({until})",
    "strftime": "strftime('%s', time) >= strftime('%s', {since})"
    " and strftime('%s', time) < strftime('%s', {until})",
    "julianday": "julianday(time) >= julianday({since}) and julianday(time) < julianday({until})",
}


@pytest.mark.parametrize("season", SEASONS, ids=str)
@pytest.mark.parametrize("column", SQLITE_COLUMNS)
def test_query_of_sqlite_every_column_every_night_equals_truth(
    column: str, season: Season, tmp_path: Path
) -> None:
    kind = SQLITE_COLUMNS[column]
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(season, kind))
    job = nightly_job(tmp_path, url, season, time_format=kind.time_format)
    assert run_nights(job, season) == expected_nights(season)


@pytest.mark.parametrize("where", CONVERTED)
@pytest.mark.parametrize("column", ["space", "T", "Z", "+00:00", "offsets of the zone", "a date"])
@pytest.mark.parametrize("season", [SPRING, AUTUMN], ids=str)
def test_query_of_sqlite_with_converted_edges_equals_truth(
    season: Season, column: str, where: str, tmp_path: Path
) -> None:
    kind = SQLITE_COLUMNS[column]
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(season, kind))
    query = f"select * from visits where {CONVERTED[where]}"  # noqa: S608
    job = nightly_job(tmp_path, url, season, query=query)
    assert run_nights(job, season) == expected_nights(season)


@pytest.mark.parametrize(
    "where",
    [
        "time >= unixepoch({since}) and time < unixepoch({until})",
        "datetime(time, 'unixepoch') >= datetime({since})"
        " and datetime(time, 'unixepoch') < datetime({until})",
        "datetime(time, 'unixepoch') >= datetime({since}, 'unixepoch')"
        " and datetime(time, 'unixepoch') < datetime({until}, 'unixepoch')",
    ],
)
def test_query_of_sqlite_with_numbers_and_functions_equals_truth(
    where: str, tmp_path: Path
) -> None:
    kind = SQLITE_COLUMNS["seconds"]
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(SPRING, kind))
    query = f"select * from visits where {where}"  # noqa: S608
    job = nightly_job(tmp_path, url, SPRING, query=query, time_format=kind.time_format)
    assert run_nights(job, SPRING) == expected_nights(SPRING)


@pytest.mark.parametrize("where", ["time >= {since}", "time < {until}", "{since} <= time"])
@pytest.mark.parametrize("column", [*SQLITE_COLUMNS])
def test_query_of_sqlite_with_edge_on_one_side_equals_truth(
    column: str, where: str, tmp_path: Path
) -> None:
    kind = SQLITE_COLUMNS[column]
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(AUTUMN, kind))
    query = f"select * from visits where {where}"  # noqa: S608
    job = nightly_job(tmp_path, url, AUTUMN, query=query, time_format=kind.time_format)
    assert run_nights(job, AUTUMN) == expected_nights(AUTUMN)


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("where", ["time >= {since}", "time < {until}"])
def test_query_with_one_edge_and_row_ids_equals_truth(
    where: str, append: bool, tmp_path: Path
) -> None:
    kind = SQLITE_COLUMNS["Z"]  # each time is another text, so it is an id
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(AUTUMN, kind))
    query = f"select time, time as id from visits where {where}"  # noqa: S608
    job = nightly_job(tmp_path, url, AUTUMN, query=query, lookback=None, row_id="id", append=append)
    assert run_nights(job, AUTUMN) == expected_nights(AUTUMN)


@pytest.mark.slow
@pytest.mark.parametrize("season", SEASONS, ids=str)
@pytest.mark.parametrize("column", POSTGRESQL_COLUMNS)
def test_query_of_postgresql_every_column_every_night_equals_truth(
    column: str, season: Season, server: str, tmp_path: Path
) -> None:
    kind = POSTGRESQL_COLUMNS[column]
    url = fill_postgresql(server, kind.declared, values_of(season, kind))
    job = nightly_job(tmp_path, url, season, time_format=kind.time_format)
    assert run_nights(job, season) == expected_nights(season)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "where"),
    [
        ("timestamptz", "time >= cast({since} as timestamptz) and time < {until}::timestamptz"),
        ("timestamptz", "extract(epoch from time) >= extract(epoch from {since}::timestamptz)"
         " and time < {until}"),
        ("timestamptz", "time at time zone 'Europe/Berlin' >= {since} and time < {until}"),
        ("timestamp", "time between {since} and {until}"),
    ],
)  # fmt: skip
def test_query_of_postgresql_with_converted_edges_equals_truth(
    column: str, where: str, server: str, tmp_path: Path
) -> None:
    kind = POSTGRESQL_COLUMNS[column]
    url = fill_postgresql(server, kind.declared, values_of(SPRING, kind))
    job = nightly_job(tmp_path, url, SPRING, query=f"select * from visits where {where}")  # noqa: S608
    assert run_nights(job, SPRING) == expected_nights(SPRING)


@pytest.mark.parametrize("column", ["space", "Z", "seconds", "offsets of the zone"])
def test_query_of_new_rows_counts_each_row_once(column: str, tmp_path: Path) -> None:
    kind = SQLITE_COLUMNS[column]
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(AUTUMN, kind))
    job = nightly_job(
        tmp_path,
        url,
        AUTUMN,
        time_format=kind.time_format,
        lookback=None,
        allowed_lateness="1d",
        append=True,
    )
    assert run_nights(job, AUTUMN) == expected_nights(AUTUMN)


@pytest.mark.parametrize("clock_change", ["earliest", "latest"])
@pytest.mark.parametrize("column", ["space", "Z", "seconds"])
def test_query_of_hours_over_clock_change_equals_file(
    column: str, clock_change: str, tmp_path: Path
) -> None:
    """An edge may be an hour that clocks show twice."""
    kind = SQLITE_COLUMNS[column]
    values = values_of(AUTUMN, kind)
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values)
    file = tmp_path / "e.csv"
    file.write_text("\n".join(["time", *map(str, values), ""]))
    given: dict[str, Any] = {
        "every": "1h", "start": "2024-11-02T20:00-05:00", "lookback": "5h",
        "allowed_lateness": "3h",
        "ambiguous": clock_change, "time_format": kind.time_format, "max_empty_windows": 9,
    }  # fmt: skip
    asked = nightly_job(tmp_path, url, AUTUMN, **given)
    whole = nightly_job(tmp_path, str(file), AUTUMN, **given)
    whole = whole.derive(query=None, state=tmp_path / "whole.db")
    for hour in range(1, 13):
        until = f"2024-11-03T{hour + 1:02}:00Z"
        numbers = []
        for job in (asked, whole):
            with run(job.derive(until=until)) as outcome:
                numbers.append(
                    outcome.read().numbers.series.released.estimates.round().ravel().tolist()
                )
        assert numbers[0] == numbers[1], until


def refused(job: Job, season: Season = UTC_DAYS) -> str:
    """What a run of the third night is refused with."""
    until = day_of(season, 3).replace(tzinfo=None).isoformat()
    with pytest.raises(InvalidInputError) as error:
        run(job.derive(until=until))
    assert not Path(str(job.state)).exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("declared", "odd", "words"),
    [
        ("TEXT", "2024-02-26T12:00:00", "holds times as '2024-02-2"),
        ("TEXT", "2024-02-26 12:00:00Z", "holds times as '2024-02-2"),
        ("TEXT", "2024-02-26 12:00:00+01:00", "holds times as '2024-02-2"),
        ("TEXT", "2024-02-26", "holds times as '2024-02-2"),
        ("TEXT", "2024-02-26 12:00 ", "holds times as '2024-02-2"),
        ("", 1708948800, "holds numbers and texts"),
        ("", 1708948800000, "holds numbers and texts"),
        ("TEXT", b"2024-02-26 12:00:00", "holds bytes"),
    ],
)
@pytest.mark.parametrize("append", [False, True])
def test_query_of_mixed_forms_is_refused(
    append: bool, declared: str, odd: Any, words: str, tmp_path: Path
) -> None:
    """One row changes how no other is read: it ends the run."""
    values = [*values_of(UTC_DAYS, SQLITE_COLUMNS["space"]), odd]
    url = fill_sqlite(tmp_path / "e.db", declared, values)
    more = {"append": True, "lookback": None} if append else {}
    assert words in refused(nightly_job(tmp_path, url, UTC_DAYS, **more))


def test_query_of_mixed_numbers_is_refused(tmp_path: Path) -> None:
    values = values_of(UTC_DAYS, SQLITE_COLUMNS["seconds"])
    for number, odd in enumerate(("2024-02-26 12:00:00", str(values[40]), b"1708948800")):
        url = fill_sqlite(tmp_path / f"{number}.db", "", [*values, odd])
        job = nightly_job(tmp_path, url, UTC_DAYS, time_format="epoch")
        assert ("holds bytes" if number == 2 else "holds numbers and texts") in refused(job)


def test_query_of_numbers_without_format_is_refused(tmp_path: Path) -> None:
    url = fill_sqlite(tmp_path / "e.db", "INTEGER", values_of(UTC_DAYS, SQLITE_COLUMNS["seconds"]))
    words = refused(nightly_job(tmp_path, url, UTC_DAYS, allow_empty_windows=True))
    assert "holds numbers, not times" in words
    assert "give time_format (epoch, epoch_ms" in words


@pytest.mark.parametrize("time_format", ["%d.%m.%Y %H:%M", "%Y-%m-%d %I:%M %p", "%b %d %Y %H:%M"])
def test_query_of_format_out_of_order_is_refused(time_format: str, tmp_path: Path) -> None:
    kind = TimeColumn("TEXT", lambda at, zone: at.strftime(time_format))
    url = fill_sqlite(tmp_path / "e.db", "TEXT", values_of(UTC_DAYS, kind))
    job = nightly_job(tmp_path, url, UTC_DAYS, time_format=time_format)
    assert "are not in the order of time" in refused(job)


@pytest.mark.parametrize(
    ("column", "chosen", "where"),
    [
        ("seconds", "datetime(time, 'unixepoch') as time", BETWEEN),
        ("space", "time", "datetime(time, '-1 hour') >= {since} and time < {until}"),
        ("Z", "time", "date(time, '+9 hours') >= {since} and date(time, '+9 hours') < {until}"),
    ],
)
def test_query_that_compares_other_values_is_refused(
    column: str, chosen: str, where: str, tmp_path: Path
) -> None:
    """Rows between the edges by their times are missing from the answer."""
    kind = SQLITE_COLUMNS[column]
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(UTC_DAYS, kind))
    query = f"select {chosen} from visits where {where}"  # noqa: S608
    assert "does not return" in refused(
        nightly_job(tmp_path, url, UTC_DAYS, query=query, allow_empty_windows=True)
    )


@pytest.mark.slow
def test_query_of_postgresql_in_another_zone_is_refused(server: str, tmp_path: Path) -> None:
    """A column without a zone that is in UTC, and days of Berlin."""
    kind = POSTGRESQL_COLUMNS["timestamp"]
    url = fill_postgresql(server, kind.declared, values_of(SPRING, kind))
    chosen = "select time at time zone 'UTC' as time from visits where"
    job = nightly_job(tmp_path, url, SPRING, query=f"{chosen} {BETWEEN}")
    assert "does not return" in refused(job, SPRING)
    converted = BETWEEN.replace("time", "time at time zone 'UTC'")
    with run(job.derive(query=f"{chosen} {converted}", until="2024-03-28")) as outcome:
        assert outcome.after == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "where", "words"),
    [
        ("timestamptz", "time::date >= {since} and time::date < {until}", "does not return"),
        ("seconds", BETWEEN, "with values of type int4, which are no times: give time_format"),
        ("timestamptz", "time - now() >= {since}", "with values of type interval, which are no"),
        ("text", "time >= {since} and time < {until} or time = '2024-03-26T10:00'", ""),
    ],
)
def test_query_of_postgresql_that_compares_other_values_is_refused(
    column: str, where: str, words: str, server: str, tmp_path: Path
) -> None:
    kind = POSTGRESQL_COLUMNS[column]
    values = values_of(SPRING, kind)
    if not words:
        values.append("2024-03-26T10:00")
        words = "whose order is not the order of time"
    url = fill_postgresql(server, kind.declared, values)
    query = f"select * from visits where {where}"  # noqa: S608
    assert words in refused(nightly_job(tmp_path, url, SPRING, query=query), SPRING)


def test_query_of_hours_and_offsets_in_repeated_hour_is_refused(tmp_path: Path) -> None:
    kind = SQLITE_COLUMNS["offsets of the zone"]
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(AUTUMN, kind))
    job = nightly_job(
        tmp_path, url, AUTUMN, every="1h", start="2024-11-02T20:00-05:00", lookback="9h",
        allowed_lateness="3h", until="2024-11-03T07:00Z",
    )  # fmt: skip
    with pytest.raises(InvalidInputError, match=r"the clocks of America/Chicago show .* twice"):
        run(job)


def test_query_with_edges_of_counted_rows_equals_truth(tmp_path: Path) -> None:
    """The database counts by day; the column of times is another than the one that is compared."""
    kind = SQLITE_COLUMNS["space"]
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(SPRING, kind))
    chosen = "select date(time) as day, count(*) as number from visits"
    query = f"{chosen} where {BETWEEN} group by date(time)"
    job = nightly_job(tmp_path, url, SPRING, query=query, time="day", count_column="number")
    assert run_nights(job, SPRING) == expected_nights(SPRING)


#: Queries that count the rows of a day of another zone, or a part of a day.
DIVIDED = {
    "a day of UTC": "select date(time, '+1 hour') as day, count(*) as number from visits"
    " where datetime(time) >= datetime({since}) and datetime(time) < datetime({until}) group by 1",
    "a subquery": "select day, (select count(*) from visits where date(time) = day"
    " and datetime(time) < datetime({until}, '-1 hour')) as number"
    " from (select distinct date(time) as day from visits)"
    " where day >= {since} and day < {until}",
    "sums": "select date(time) as day, sum(1.5) as number from visits"
    " where datetime(time) >= datetime({since}, '+1 hour') and datetime(time) < datetime({until})"
    " group by 1",
}


@pytest.mark.parametrize("kind", DIVIDED)
def test_query_whose_edges_divide_counted_rows_is_refused(kind: str, tmp_path: Path) -> None:
    """The row of a day is there, and its number is of a part of the day."""
    season = Season("Europe/Berlin", "2024-03-05")
    column = SQLITE_COLUMNS["+00:00"]
    url = fill_sqlite(tmp_path / "e.db", column.declared, values_of(season, column))
    more: dict[str, Any] = {"count_column": "number"}
    if kind == "sums":
        more = {"group_by": "number", "groups": ["36.0", "34.5"]}
    job = nightly_job(
        tmp_path, url, season, query=DIVIDED[kind], time="day", allow_empty_windows=True, **more
    )
    words = refused(job, season)
    assert "with other values if the edges are further apart" in words
    assert not re.search("[0-9]{4}-", words)


def test_query_with_limit_is_refused_if_it_cuts(tmp_path: Path) -> None:
    """A row that it cuts is missing between edges that are further apart, or not."""
    kind = SQLITE_COLUMNS["space"]
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(UTC_DAYS, kind))
    query = f"select * from visits where {BETWEEN} order by time desc limit 80"  # noqa: S608
    assert "LIMIT may cut" in refused(nightly_job(tmp_path, url, UTC_DAYS, query=query))


@pytest.mark.slow
def test_query_of_postgresql_whose_edges_divide_counted_rows_is_refused(
    server: str, tmp_path: Path
) -> None:
    kind = POSTGRESQL_COLUMNS["timestamptz"]
    url = fill_postgresql(server, kind.declared, values_of(SPRING, kind))
    for zone in ("UTC", "Europe/Berlin"):
        query = (
            f"select (time at time zone '{zone}')::date as day, count(*) as number from visits"  # noqa: S608
            f" where {BETWEEN} group by 1"
        )
        job = nightly_job(tmp_path, url, SPRING, query=query, time="day", count_column="number")
        if zone == "UTC":
            assert "with other values if the edges are further apart" in refused(job, SPRING)
        else:
            assert run_nights(job, SPRING) == expected_nights(SPRING)


#: Columns, times that a run reads, and first days. By the order of texts they lie elsewhere.
ELSEWHERE = {
    "blank": ("space", " 2024-02-26 12:00:00", "2024-02-25"),
    "tab": ("T", "\t2024-02-26T12:00:00", "2024-02-25"),
    "blank of typesetting": ("Z", "\u00a02024-02-26T12:00:00Z", "2024-02-25"),
    "month of one digit": ("days", "2024/2/26", "2024-02-25"),
    "day of one digit": ("days", "2024/02/3", "2024-02-03"),
    "sign": ("seconds as texts", "+1708948800", "2024-02-25"),
}


@pytest.mark.parametrize(
    ("case", "declared"),
    # A column of the type DATETIME would convert the sign and its digits to a number.
    [*((case, "TEXT") for case in ELSEWHERE),
     *((case, "DATETIME") for case in ELSEWHERE if case != "sign")],
)  # fmt: skip
def test_query_of_times_that_lie_elsewhere_is_refused(
    case: str, declared: str, tmp_path: Path
) -> None:
    column, odd, start = ELSEWHERE[case]
    season = Season("UTC", start)
    kind = SQLITE_COLUMNS[column]
    url = fill_sqlite(tmp_path / "e.db", declared, [*values_of(season, kind), odd])
    job = nightly_job(tmp_path, url, season, time_format=kind.time_format)
    assert "whose order is not the order of time" in refused(job, season)


def test_query_of_times_elsewhere_that_count_nowhere_equals_truth(tmp_path: Path) -> None:
    """Texts that are no times, or times of other windows, end no run."""
    kind = SQLITE_COLUMNS["space"]
    odd = ["unlisted_groups", "", " ", " 2020-01-01 00:00:00", "\t2025-01-01 00:00:00", None]
    url = fill_sqlite(tmp_path / "e.db", "TEXT", [*values_of(UTC_DAYS, kind), *odd])
    assert run_nights(nightly_job(tmp_path, url, UTC_DAYS), UTC_DAYS) == expected_nights(UTC_DAYS)


def test_query_of_hours_of_one_digit_equals_truth(tmp_path: Path) -> None:
    """The order of texts within a day does not matter for days."""
    kind = TimeColumn("TEXT", lambda at, zone: f"{at:%Y-%m-%d} {at.hour}:00", "%Y-%m-%d %H:%M")
    url = fill_sqlite(tmp_path / "e.db", kind.declared, values_of(UTC_DAYS, kind))
    job = nightly_job(tmp_path, url, UTC_DAYS, time_format=kind.time_format)
    assert run_nights(job, UTC_DAYS) == expected_nights(UTC_DAYS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "odd"),
    [("text", " 2024-03-26 12:00:00"), ("days", "2024/3/26"), ("days", " 2024/03/26")],
)
def test_query_of_postgresql_of_times_that_lie_elsewhere_is_refused(
    column: str, odd: str, server: str, tmp_path: Path
) -> None:
    kind = POSTGRESQL_COLUMNS[column]
    url = fill_postgresql(server, 'text collate "C"', [*values_of(SPRING, kind), odd])
    job = nightly_job(tmp_path, url, SPRING, time_format=kind.time_format)
    assert "whose order is not the order of time" in refused(job, SPRING)


@pytest.mark.slow
def test_query_of_postgresql_that_converts_texts_equals_truth(server: str, tmp_path: Path) -> None:
    """A function may refuse other edges than times."""
    kind = POSTGRESQL_COLUMNS["text"]
    url = fill_postgresql(server, kind.declared, values_of(SPRING, kind))
    where = "to_date(time, 'YYYY-MM-DD') >= to_date({since}, 'YYYY-MM-DD') and time < {until}"
    job = nightly_job(tmp_path, url, SPRING, query=f"select * from visits where {where}")  # noqa: S608
    assert run_nights(job, SPRING) == expected_nights(SPRING)


def test_query_by_time_of_loading_uses_edges_of_time_column(tmp_path: Path) -> None:
    """Queries of new rows may compare another column: their rows may be late."""
    with closing(sqlite3.connect(tmp_path / "e.db")) as database, database:
        database.execute("create table visits (time TEXT, loaded TEXT)")
        rows = [("2024-03-01 09:00", "2024-03-01 10:00"), ("2024-03-01 23:00", "2024-03-02 01:00")]
        database.executemany("insert into visits values (?, ?)", rows)
    season = Season("UTC", "2024-03-01")
    query = "select * from visits where loaded >= {since} and loaded < {until}"
    job = nightly_job(
        tmp_path, f"sqlite:///{tmp_path}/e.db", season, query=query, lookback=None, append=True,
        allow_empty_windows=True,
    )  # fmt: skip
    released = run_nights(job, season)
    assert [night[0] for night in released] == [1] + [2] * 8

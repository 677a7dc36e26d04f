"""A week of nightly runs over a table of a real database, and the true number of each day."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from counton.run import Job, run

#: The condition that `docs/guides/databases.md` teaches.
BETWEEN = "time >= {since} and time < {until}"


class Season(NamedTuple):
    """Nine days of a zone.

    Attributes:
        zone: IANA name.
        start: the first day.
    """

    zone: str
    start: str


#: Zones east and west of UTC, with both clock changes.
SEASONS = (
    Season("UTC", "2024-02-25"),
    Season("Europe/Berlin", "2024-03-25"),
    Season("Europe/Berlin", "2024-10-22"),
    Season("America/Chicago", "2024-03-05"),
    Season("America/Chicago", "2024-10-30"),
    Season("Asia/Kolkata", "2024-03-01"),
)
#: Number of days of a season.
DAYS = 9
HALF_A_SECOND = timedelta(milliseconds=500)


class TimeColumn(NamedTuple):
    """A kind of column of times.

    Attributes:
        declared: the type in the definition of the table.
        write: turns a moment into the value of the column; the second argument is the zone.
        time_format: option of the job, if it needs one.
    """

    declared: str
    write: Callable[[datetime, ZoneInfo], Any]
    time_format: str | None = None


def _naive(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)


SQLITE_COLUMNS: dict[str, TimeColumn] = {
    "space": TimeColumn("TEXT", lambda at, zone: str(_naive(at, zone))),
    "space, no type": TimeColumn("", lambda at, zone: str(_naive(at, zone))),
    "T": TimeColumn("TEXT", lambda at, zone: _naive(at, zone).isoformat()),
    "fractions": TimeColumn("TIMESTAMP", lambda at, zone: str(_naive(at + HALF_A_SECOND, zone))),
    "Z": TimeColumn("TEXT", lambda at, zone: _utc(at).isoformat() + "Z"),
    "Z and fractions": TimeColumn(
        "TEXT", lambda at, zone: _utc(at + HALF_A_SECOND).isoformat() + "Z"
    ),
    "+00:00": TimeColumn("TEXT", lambda at, zone: str(at)),
    "offsets of the zone": TimeColumn("TEXT", lambda at, zone: at.astimezone(zone).isoformat()),
    "UTC": TimeColumn("TEXT", lambda at, zone: f"{at:%Y-%m-%d %H:%M:%S} UTC"),
    "basic": TimeColumn("TEXT", lambda at, zone: f"{_naive(at, zone):%Y%m%dT%H%M%S}"),
    "a basic date": TimeColumn("TEXT", lambda at, zone: f"{_naive(at, zone):%Y%m%d}"),
    "a date": TimeColumn("DATE", lambda at, zone: str(_naive(at, zone).date())),
    "compact": TimeColumn(
        "TEXT", lambda at, zone: f"{_naive(at, zone):%Y%m%d%H%M%S}", "%Y%m%d%H%M%S"
    ),
    "digits": TimeColumn("", lambda at, zone: int(f"{_naive(at, zone):%Y%m%d%H%M}"), "%Y%m%d%H%M"),
    "days": TimeColumn("TEXT", lambda at, zone: f"{_naive(at, zone):%Y/%m/%d}", "%Y/%m/%d"),
    "days as digits": TimeColumn("", lambda at, zone: int(f"{_naive(at, zone):%Y%m%d}"), "%Y%m%d"),
    "seconds": TimeColumn("INTEGER", lambda at, zone: int(at.timestamp()), "epoch"),
    "seconds, no type": TimeColumn("", lambda at, zone: int(at.timestamp()), "epoch"),
    "seconds as floats": TimeColumn("REAL", lambda at, zone: at.timestamp() + 0.25, "epoch"),
    "seconds as texts": TimeColumn("TEXT", lambda at, zone: str(int(at.timestamp())), "epoch"),
    "seconds as texts, no type": TimeColumn("", lambda at, zone: str(int(at.timestamp())), "epoch"),
    "milliseconds": TimeColumn("INTEGER", lambda at, zone: int(at.timestamp()) * 1000, "epoch_ms"),
    "microseconds": TimeColumn("BIGINT", lambda at, zone: int(at.timestamp()) * 10**6, "epoch_us"),
    "nanoseconds": TimeColumn("INTEGER", lambda at, zone: int(at.timestamp()) * 10**9, "epoch_ns"),
}
POSTGRESQL_COLUMNS: dict[str, TimeColumn] = {
    "date": TimeColumn("date", lambda at, zone: _naive(at, zone).date()),
    "timestamp": TimeColumn("timestamp", _naive),
    "timestamptz": TimeColumn("timestamptz", lambda at, zone: at),
    "text": TimeColumn("text", lambda at, zone: str(_naive(at, zone))),
    "text with T": TimeColumn("text", lambda at, zone: _naive(at, zone).isoformat()),
    "basic text": TimeColumn("text", lambda at, zone: f"{_naive(at, zone):%Y%m%dT%H%M%S}"),
    "days": TimeColumn("text", lambda at, zone: f"{_naive(at, zone):%Y/%m/%d}", "%Y/%m/%d"),
    "digits": TimeColumn(
        "int8", lambda at, zone: int(f"{_naive(at, zone):%Y%m%d%H%M}"), "%Y%m%d%H%M"
    ),
    "varchar": TimeColumn("varchar(40)", lambda at, zone: _utc(at).isoformat() + "Z"),
    "offsets of the zone": TimeColumn("text", lambda at, zone: at.astimezone(zone).isoformat()),
    "seconds": TimeColumn("int4", lambda at, zone: int(at.timestamp()), "epoch"),
    "milliseconds": TimeColumn("int8", lambda at, zone: int(at.timestamp()) * 1000, "epoch_ms"),
    "seconds as floats": TimeColumn("float8", lambda at, zone: at.timestamp() + 0.25, "epoch"),
    "seconds as decimals": TimeColumn("numeric", lambda at, zone: int(at.timestamp()), "epoch"),
}


def day_of(season: Season, number: int) -> datetime:
    """The beginning of a day of a season."""
    local = datetime.fromisoformat(season.start) + timedelta(days=number)
    return local.replace(tzinfo=ZoneInfo(season.zone))


def moments_of(season: Season) -> list[datetime]:
    """An event at the beginning of each hour, also before the season and after it."""
    begin = day_of(season, 0).astimezone(UTC) - timedelta(hours=30)
    return [begin + timedelta(hours=hour) for hour in range(24 * (DAYS + 3))]


def true_numbers(season: Season) -> list[int]:
    """The number of events of each day: 23, 24 or 25."""
    edges = [day_of(season, number).timestamp() for number in range(DAYS + 1)]
    times = [moment.timestamp() for moment in moments_of(season)]
    return [sum(begin <= at < end for at in times) for begin, end in pairwise(edges)]


def values_of(season: Season, column: TimeColumn) -> list[Any]:
    """What a column holds for the events of a season."""
    zone = ZoneInfo(season.zone)
    return [column.write(moment, zone) for moment in moments_of(season)]


def fill_sqlite(path: Path, declared: str, values: Sequence[Any]) -> str:
    """Write a table ``visits`` into a file of SQLite, and return its address."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"create table visits (time {declared})")
        database.executemany("insert into visits values (?)", [(value,) for value in values])
    return f"sqlite:///{path}"


def fill_postgresql(url: str, declared: str, values: Sequence[Any]) -> str:
    """Write a table ``visits`` to a server, and return its address."""
    import psycopg

    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("drop table if exists visits")
        cursor.execute(f"create table visits (time {declared})")
        cursor.executemany("insert into visits values (%s)", [(value,) for value in values])
    return url


def nightly_job(folder: Path, url: str, season: Season, **options: Any) -> Job:
    """The nightly command of `docs/guides/databases.md`."""
    query = f"select * from visits where {BETWEEN}"  # noqa: S608
    given: dict[str, Any] = {
        "query": query, "time": "time", "every": "1d",
        "start": season.start, "timezone": season.zone, "lookback": "7d", "allowed_lateness": "7d",
        "epsilon": 10**6, "privacy_unit": "visit", "ambiguous": "earliest", **options,
    }  # fmt: skip
    return Job("count", url, folder / "state.db", **given)


def run_nights(job: Job, season: Season) -> list[list[int]]:
    """Run a job on each night of a season; return the newest numbers after each night."""
    released = []
    for night in range(1, DAYS + 1):
        until = day_of(season, night).replace(tzinfo=None).isoformat()
        with run(job.derive(until=until)) as outcome:
            estimates = outcome.read().numbers.series.released.estimates
        released.append(estimates.round().astype(int).ravel().tolist())
    return released


def expected_nights(season: Season) -> list[list[int]]:
    """The true numbers of all days after each night."""
    truth = true_numbers(season)
    return [truth[: night + 1] for night in range(DAYS)]

"""Edges of queries: bound in the form of the column of times, or the query is refused."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from some_cases import long

from counton.base.errors import InvalidInputError
from counton.io import databases, query_edges
from counton.io.databases import open_query
from counton.io.query_edges import (
    EpochNumber,
    FormattedText,
    LocalDay,
    LocalText,
    OffsetText,
    QueryEdges,
    TextStyle,
    first_local_time,
    is_in_order_of_time,
    text_form,
)
from counton.io.timestamps import WITHIN_DAY, moments
from counton.windowing.windows import NO_MOMENT, microseconds, moment

BERLIN = "Europe/Berlin"
QUERY = "select * from visits where time >= {since} and time < {until}"


def us_of(*parts: int) -> int:
    return microseconds(datetime(*parts, tzinfo=UTC))  # type: ignore[misc, arg-type]


def edges_of(
    since: int, until: int, *, zone: str = BERLIN, clock_change: str = "earliest",
    time_format: str | None = None, holds_all_rows: bool = True,
) -> QueryEdges:  # fmt: skip
    return QueryEdges(
        moments={"since": since, "until": until},
        column="time",
        timezone=zone,
        ambiguous=clock_change,
        time_format=time_format,
        holds_all_rows=holds_all_rows,
    )


def answer(
    folder: Path, values: Sequence[Any], edges: QueryEdges, query: str = QUERY
) -> Counter[int]:
    """The moments of the rows that a query returns, between its edges."""
    path = folder / "e.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table visits (time)")
        database.executemany("insert into visits values (?)", [(value,) for value in values])
    rows = open_query(f"sqlite:///{path}", query, edges).parts[0].scan(["time"]).collect()
    return Counter(edges.between(edges.read(rows["time"])).to_list())


# ---------------------------------------------------------------------- forms


#: Moments at and beside changes of clocks, in these zones; some skip midnight, or show it twice.
CHANGES = {
    BERLIN: [us_of(2024, 3, 31, 1), us_of(2024, 10, 27, 1), us_of(2024, 3, 30, 23)],
    "America/Sao_Paulo": [us_of(2018, 11, 4, 3), us_of(2018, 2, 18, 2), us_of(2018, 2, 18, 3)],
    "America/Havana": [us_of(2024, 11, 3, 4), us_of(2024, 11, 3, 5), us_of(2024, 3, 10, 5)],
    "Australia/Lord_Howe": [us_of(2024, 4, 6, 15), us_of(2024, 10, 5, 15, 30)],
}


@pytest.mark.parametrize("clock_change", ["raise", "earliest", "latest", WITHIN_DAY])
@pytest.mark.parametrize("zone", CHANGES)
def test_first_local_time_separates_times_at_clock_changes(zone: str, clock_change: str) -> None:
    """Local times before the edge are read as earlier moments, and all others as later ones.

    Times that clocks skip are only read in windows of whole days, whose edges are those of days.
    """
    for change in CHANGES[zone]:
        for minutes in range(-150, 151, 30):
            edge = change + minutes * 60_000_000
            days = [moment(us).astimezone(ZoneInfo(zone)).date() for us in (edge - 1, edge)]
            if clock_change == WITHIN_DAY and days[0] == days[1]:
                continue
            first = first_local_time(edge, zone, clock_change)
            local = [first + timedelta(minutes=step) for step in range(-200, 201, 5)]
            texts = pl.DataFrame({"time": [time.isoformat() for time in local]})
            read = texts.select(moments("time", pl.String(), zone, clock_change)).to_series()
            for time, us in zip(local, read, strict=True):
                if us > NO_MOMENT:
                    assert (time >= first) == (us >= edge), (edge, time)


NOON = us_of(2024, 7, 1, 10)
MIDNIGHT = us_of(2024, 6, 30, 22)
SPACE = TextStyle()
WITH_T = TextStyle(separator="T")
COMPACT = TextStyle(has_dashes=False, separator="T", has_colons=False)
HOURS = TextStyle(has_colons=None)
SECONDS = WITH_T._replace(has_seconds=True)


@pytest.mark.parametrize(
    ("form", "us", "text"),
    [
        (LocalText(BERLIN, "raise", SPACE), NOON, "2024-07-01 12:00"),
        (LocalText(BERLIN, "raise", WITH_T), MIDNIGHT, "2024-07-01"),
        (LocalText(BERLIN, "raise", WITH_T), NOON + 500_000, "2024-07-01T12:00:00.500000"),
        (LocalText(BERLIN, "raise", COMPACT), NOON, "20240701T1200"),
        (LocalText(BERLIN, "raise", HOURS), NOON, "2024-07-01 12"),
        (LocalDay(BERLIN, "raise"), MIDNIGHT, "2024-07-01"),
        (LocalDay(BERLIN, "raise"), NOON, "2024-07-02"),
        (OffsetText("-0330", SPACE), NOON, "2024-07-01 06:30-0330"),
        (OffsetText("+02", SECONDS, BERLIN), NOON, "2024-07-01T12:00:00+02"),
        (OffsetText("+02:00", WITH_T, BERLIN), us_of(2024, 1, 1), "2024-01-01T01:00+01:00"),
        (OffsetText(" UTC", SPACE), NOON, "2024-07-01 10:00"),
        (EpochNumber("epoch_ns"), 1, 1000),
        (FormattedText(BERLIN, "raise", "%Y/%m/%d %H"), NOON, "2024/07/01 12"),
    ],
)
def test_edge_is_written_in_the_form_of_its_column(form: Any, us: int, text: str | int) -> None:
    assert form.value(us) == text


def test_edge_between_times_of_one_text_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="cannot tell apart the times before and after"):
        FormattedText(BERLIN, "raise", "%Y/%m/%d").value(NOON)


@pytest.mark.parametrize(
    ("time_format", "in_order"),
    [
        ("%Y-%m-%d %H:%M:%S", True), ("%Y%m%d", True), ("%Y-%j", True), ("%Y/%m/%d %H.%M", True),
        ("%d.%m.%Y", False), ("%m/%d/%Y %H:%M", False), ("%Y-%m-%d %I:%M %p", False),
        ("%Y-%-m-%-d", False), ("%Y %b %d", False), ("%Y-%m-%d %H:%M:%S%z", False),
        ("%H:%M %Y-%m-%d", False), ("%Y-%d-%m", False),
    ],
)  # fmt: skip
def test_is_in_order_of_time_compares_texts(time_format: str, in_order: bool) -> None:
    assert is_in_order_of_time(time_format) == in_order


def test_text_form_of_no_time_is_local() -> None:
    edges = edges_of(us_of(2024, 3, 1), us_of(2024, 3, 2))
    for texts in ([], ["n/a", None]):
        form = text_form(edges, "it", pl.Series(texts, dtype=pl.String))
        assert form == LocalText(BERLIN, "earliest", TextStyle())


def test_text_form_accepts_only_offsets_of_timezone() -> None:
    edges = edges_of(us_of(2024, 10, 26), us_of(2024, 10, 28))
    both = ["2024-10-26T12:00:00+02:00", "2024-10-27T12:00:00+01:00"]
    style = TextStyle(separator="T", has_seconds=True)
    assert text_form(edges, "it", pl.Series(both)) == OffsetText("+02:00", style, BERLIN)
    for odd in ("2024-10-26T12:00:00+01:00", "2024-10-27T12:00:00+01", "2024-10-27T12:00:00Z"):
        with pytest.raises(InvalidInputError, match="whose order is not the order of time"):
            text_form(edges, "it", pl.Series([*both, odd]))


# ---------------------------------------------------------------------- the promise


def _form(number: int, at: datetime) -> Any:
    """A moment in one of several forms."""
    local = at.astimezone(ZoneInfo(BERLIN))
    naive = local.replace(tzinfo=None)
    forms: list[Any] = [
        str(naive), naive.isoformat(), f"{naive:%Y-%m-%d %H:%M}", str(naive.date()),
        at.replace(tzinfo=None).isoformat() + "Z", at.isoformat(), local.isoformat(),
        f"{at:%Y-%m-%d %H:%M:%S} UTC", f"{naive:%Y%m%dT%H%M%S}", f"{naive:%Y%m%d}",
        int(at.timestamp()), at.timestamp() + 0.5, str(int(at.timestamp())),
    ]  # fmt: skip
    return forms[number]


def check_rows_alone(folder: Path, cases: int, *, holds_all_rows: bool) -> int:
    """Check that an answer has all rows between its edges, by their times, or is refused.

    So a row changes the answer by itself alone. Most columns have one form, and some rows another.

    Returns:
        How many answers were not refused.
    """
    chance = np.random.default_rng(80)
    answered = 0
    for _ in range(cases):
        begin = datetime(2024, 10, 25, tzinfo=UTC) + timedelta(hours=int(chance.integers(0, 72)))
        since = microseconds(begin)
        until = since + int(chance.integers(1, 50)) * 3_600_000_000
        usual, odd = chance.integers(0, 13, 2)
        values = [
            _form(int(usual), begin + timedelta(minutes=int(minutes)))
            for minutes in chance.integers(-80 * 60, 80 * 60, 30)
        ]
        if chance.random() < 0.5:
            at = begin + timedelta(minutes=int(chance.integers(-60, 60)))
            values.insert(int(chance.integers(0, 31)), _form(int(odd), at))
        time_format = "epoch" if usual >= 10 else None
        edges = edges_of(since, until, time_format=time_format, holds_all_rows=holds_all_rows)
        texts = pl.Series([str(value) for value in values])
        wanted = Counter(edges.between(edges.read(texts)).to_list())
        try:
            found = answer(folder, values, edges)
        except InvalidInputError:
            continue
        answered += 1
        assert found == wanted, (values, begin, until)
    return answered


@pytest.mark.parametrize(("cases", "answered"), [(60, 20), long(200, 90)])
@pytest.mark.parametrize("holds_all_rows", [True, False])
def test_answer_has_all_rows_between_edges_or_is_refused(
    holds_all_rows: bool, cases: int, answered: int, tmp_path: Path
) -> None:
    assert check_rows_alone(tmp_path, cases, holds_all_rows=holds_all_rows) > answered


def _first_form(edges: QueryEdges, name: str, texts: pl.Series) -> Any:
    return text_form(edges, name, texts.head(1))


@pytest.mark.parametrize("holds_all_rows", [True, False])
def test_form_by_first_row_is_rejected(
    holds_all_rows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong implementation: one row decides how others are read, and their loss is not seen."""
    monkeypatch.setattr(databases, "text_form", _first_form)
    monkeypatch.setattr(databases, "refuse_lost_rows", lambda *_: None)
    with pytest.raises(AssertionError):
        check_rows_alone(tmp_path, 200, holds_all_rows=holds_all_rows)


def test_edges_as_texts_with_offset_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong implementation: the same text whatever the column holds."""
    form = query_edges.UtcTimestamp()
    monkeypatch.setattr(databases, "text_form", lambda *_: form)
    monkeypatch.setattr(databases, "refuse_lost_rows", lambda *_: None)
    with pytest.raises(AssertionError):
        check_rows_alone(tmp_path, 200, holds_all_rows=True)


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize("name", ["since", "until"])
@pytest.mark.parametrize("zone", [BERLIN, "America/Havana", "Australia/Lord_Howe"])
def test_widened_edges_are_midnights_two_days_away(zone: str, name: str) -> None:
    """A format of days alone can write them, also where clocks change in between."""
    form = FormattedText(zone, "earliest", "%Y%m%d")
    for day in range(300):
        midnight = datetime(2024, 3, 1) + timedelta(days=day)
        us = microseconds(midnight.replace(tzinfo=ZoneInfo(zone)))
        wide = edges_of(us, us, zone=zone).widen().moments[name]
        assert form.value(wide).isdigit()
        assert abs(wide - us) >= 48 * 3_600_000_000
        assert (wide < us) == (name == "since")


def counted(*rows: tuple[str, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"time": pl.String, "n": pl.String}, orient="row")


@pytest.mark.parametrize(
    ("wide", "got", "rows"),
    [
        ([("2024-03-05", "24")], [("2024-03-05", "23")], 1),
        ([("2024-03-05", "24")], [], 1),
        ([], [("2024-03-05", "24"), ("2024-03-05", "24")], 2),
        ([("2024-03-05", "24"), ("2024-03-05", "24")], [("2024-03-05", "24")], 1),
        ([("2024-03-05", "a")], [("2024-03-05", None)], 1),
        ([("2024-03-05", "1000000000")], [("2024-03-05", "999999999")], 1),
        ([("2024-03-05", "0.30000000000000004")], [("2024-03-05", "0.3")], 0),
        ([("2024-03-05", "1e-7"), ("2024-03-05", None)],
         [("2024-03-05", None), ("2024-03-05", "1.0e-07")], 0),
        ([("2024-03-05", "e.g."), ("2024-02-01", "1")], [("2024-03-05", "e.g.")], 0),
    ],
)  # fmt: skip
def test_rows_that_depend_on_edges_are_refused(wide: Any, got: Any, rows: int) -> None:
    edges = edges_of(us_of(2024, 3, 4, 23), us_of(2024, 3, 5, 23))
    if not rows:
        query_edges.refuse_divided_rows(edges, "the query", counted(*wide), counted(*got))
        return
    with pytest.raises(InvalidInputError, match=rf"returns {rows} rows? between"):
        query_edges.refuse_divided_rows(edges, "the query", counted(*wide), counted(*got))


def test_lost_rows_are_counted_in_the_refusal(tmp_path: Path) -> None:
    values = ["2024-03-01 09:00:00", "2024-03-01 10:00:00", "2024-03-01 23:30:00"]
    edges = edges_of(us_of(2024, 3, 1), us_of(2024, 3, 2), zone="UTC")
    query = "select * from visits where time(time) < '10:00' and time >= {since} and time < {until}"
    assert answer(tmp_path, values, edges, query).total() == 1  # a condition of its own
    query = "select * from visits where time >= {since} and date(time, '+1 hour') < {until}"
    with pytest.raises(InvalidInputError, match="does not return 1 row whose 'time' lies between"):
        answer(tmp_path, values, edges, query)


def test_missing_column_of_times_is_named(tmp_path: Path) -> None:
    edges = edges_of(us_of(2024, 3, 1), us_of(2024, 3, 2))
    with pytest.raises(InvalidInputError, match="has no column 'time'"):
        answer(tmp_path, ["2024-03-01"], edges, QUERY.replace("*", "time as at"))


def test_query_without_edges_is_read_as_before(tmp_path: Path) -> None:
    edges = edges_of(us_of(2024, 3, 1), us_of(2024, 3, 2))
    mixed = ["2024-03-01 09:00", "2024-03-01T10:00", "2024-03-01T10:00Z"]
    assert answer(tmp_path, mixed, edges, "select * from visits").total() == 3


def test_all_rows_lie_between_unknown_edges(tmp_path: Path) -> None:
    """As `init` looks at a query whose windows are not known yet."""
    columns: list[list[Any]] = [["2024-03-01 09:00"], [1709283600], [1.5e12]]
    for number, values in enumerate(columns):
        path = tmp_path / f"{number}.db"
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("create table visits (time)")
            database.executemany("insert into visits values (?)", [(value,) for value in values])
        for where in ("time >= {since} and time < {until}", "datetime(time) < datetime({until})"):
            if number and "datetime" in where:
                continue
            query = f"select * from visits where {where}"  # noqa: S608
            rows = open_query(f"sqlite:///{path}", query).parts[0]
            assert rows.scan(["time"]).collect().height == 1

"""Rows that are only counted have the same sums, whether each is assigned alone or by its piece."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

from counton.base.private import reveal
from counton.io import aggregation
from counton.io.aggregation import Aggregates, sum_rows
from counton.io.files import open_source
from counton.io.row_assignment import Columns, RowMapping
from counton.io.stored_times import assign_counted_rows
from counton.windowing.groups import GroupNames
from counton.windowing.windows import Windows

GROUPS = GroupNames(("g0", "g1", "g2"))
DAYS = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 20)
WINDOWS = {
    "days": DAYS,
    "days of a zone whose clocks change": Windows(
        datetime(2024, 3, 20, 23, tzinfo=UTC), "1d", 20, "Europe/Berlin"
    ),
    "months": Windows(datetime(2024, 1, 1, tzinfo=UTC), "1mo", 5),
    "hours from half past": Windows(datetime(2024, 3, 10, 0, 30, tzinfo=UTC), "1h", 99),
}
#: Types of times, each of which holds the times of the rows exactly.
TYPES: dict[str, Callable[[pl.Series], pl.Series]] = {
    "microseconds": lambda us: us.cast(pl.Datetime("us", "UTC")),
    "milliseconds": lambda us: (us // 1000).cast(pl.Datetime("ms", "UTC")),
    "nanoseconds": lambda us: (us * 1000).cast(pl.Datetime("ns", "UTC")),
    "another zone": lambda us: us.cast(pl.Datetime("us", "Asia/Kolkata")),
    "dates": lambda us: (us // 86_400_000_000).cast(pl.Int32).cast(pl.Date),
}
#: Kinds for which each row is assigned by itself: a date has no hour, and no zone.
ALONE = {
    ("hours from half past", "nanoseconds"),
    ("hours from half past", "dates"),
    ("days of a zone whose clocks change", "dates"),
}


def some_rows(kind: str) -> pl.DataFrame:
    """Return rows of a hundred days, with a missing time; no time is in milliseconds."""
    chance = np.random.default_rng(1)
    begin = 1_707_000_000_000_000
    us = pl.Series(begin + chance.integers(0, 100 * 86_400_000, 3000) * 1000)
    groups = chance.choice([*GROUPS, "other"], 3000)
    return pl.DataFrame({"at": TYPES[kind](us), "page": groups}).with_columns(
        at=pl.when(pl.int_range(pl.len()) != 7).then("at")
    )


def mapping(windows: Windows, **more: Any) -> RowMapping:
    return RowMapping(Columns("at", "page"), windows, unlisted_groups="discover", **more)


def sums(rows: pl.DataFrame, windows: Windows) -> list[tuple[Any, ...]]:
    source = open_source(rows)
    found = aggregation._sums_of_source(source, mapping(windows), GROUPS, None, None, None)
    return found.sort("code").select(sorted(found.columns)).rows()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("windows", WINDOWS)
def test_sums_are_those_of_rows_alone(
    windows: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = some_rows(kind)
    of_windows = WINDOWS[windows]
    cells = assign_counted_rows(open_source(rows), mapping(of_windows), len(GROUPS))
    assert (cells is None) == ((windows, kind) in ALONE)
    found = sums(rows, of_windows)
    monkeypatch.setattr(aggregation, "assign_counted_rows", lambda *_, **__: None)
    assert found == sums(rows, of_windows)


@pytest.mark.parametrize("kind", ["microseconds", "milliseconds"])
@pytest.mark.parametrize("stored", [-(2**63), -(2**60), 2**60, 2**63 - 1])
def test_rows_of_no_valid_year_are_assigned_alone(stored: int, kind: str) -> None:
    rows = some_rows(kind)
    other = pl.Series("at", [stored]).cast(rows.schema["at"]).to_frame()
    together = pl.concat([rows, other.with_columns(page=pl.lit("g1"))])
    assert assign_counted_rows(open_source(together), mapping(DAYS), len(GROUPS)) is None


def test_texts_of_times_are_assigned_alone() -> None:
    rows = pl.DataFrame({"at": ["2024-03-02T10:00"], "page": ["g1"]})
    assert assign_counted_rows(open_source(rows), mapping(DAYS), len(GROUPS)) is None


def test_rows_without_groups_are_counted_by_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_rows("microseconds").drop_nulls()
    alone = RowMapping(Columns("at"), DAYS)

    def counted() -> Aggregates:
        return reveal(sum_rows(open_source(rows), alone))

    found = counted()
    monkeypatch.setattr(aggregation, "assign_counted_rows", lambda *_, **__: None)
    expected = counted()
    assert found.cells.equals(expected.cells)
    assert (found.newest, found.rows) == (expected.newest, 2999)


def test_watch_hears_of_all_rows() -> None:
    heard: list[int] = []
    rows = some_rows("microseconds")
    assign_counted_rows(open_source(rows), mapping(DAYS), len(GROUPS), heard.append)
    assert sum(heard) == rows.height

"""Values of every type, at its ends: with policies no row of them decides for the others."""

from collections.abc import Iterator
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from adds import Grid
from in_turn import in_turn

from counton.base.errors import InvalidInputError
from counton.base.private import reveal
from counton.io.aggregation import sum_rows
from counton.io.error_policy import Policies, Problem
from counton.io.files import open_source
from counton.io.row_assignment import Columns, RowMapping
from counton.io.sources import Source
from counton.io.timestamps import NO_TIME, UNREADABLE_TIME, moments
from counton.windowing.windows import Windows, moment

WINDOWS = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1h", 4, "America/New_York")
DAY = 19783  # 1 March 2024, in days since 1970
US = DAY * 86_400_000_000 + 5_400_000_000  # half past one
LONG = (-(2**63), -(2**63) + 1, -(2**62), -(2**62) - 2, 0, 2**53 + 1, 2**62, 2**63 - 1)


def integers(kind: Any, bits: int, signed: bool = True) -> tuple[Any, Any, tuple[Any, ...]]:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return kind, 1, (low, low + 1, high - 1, high, 0)


def stored(kind: Any, good: int, extremes: tuple[int, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    """Values by the number that stands for them in the file."""
    return kind, good, extremes


TEXTS = ("", " ", "\0", "nan", "inf", "-1e999", "1e400", "9" * 400, "0x1", "+262142-12-31T00:00:00",
         "-262143-01-01", "0000-00-00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00",
         "9999-12-31", "\ufffd", "e\u0301", "\u202e", "a" * 70_000)  # fmt: skip
FLOATS = (float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, -0.0, 2.0**63, 1e19)
TYPES: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "int8": integers(pl.Int8, 8),
    "int32": integers(pl.Int32, 32),
    "int64": integers(pl.Int64, 64),
    "int128": integers(pl.Int128, 128),
    "uint8": integers(pl.UInt8, 8, signed=False),
    "uint64": integers(pl.UInt64, 64, signed=False),
    "float32": (pl.Float32, 1.0, tuple(one for one in FLOATS if abs(one) < 1e38 or one != one)),
    "float64": (pl.Float64, 1.0, FLOATS),
    "decimal": (pl.Decimal(38, 2), Decimal(1), (Decimal(10**35), Decimal(-(10**35)))),
    "whole decimal": (pl.Decimal(38, 0), Decimal(1), (Decimal(10**37), Decimal(-(10**37)))),
    "boolean": (pl.Boolean, True, (False,)),
    "text": (pl.String, "1", TEXTS),
    "time text": (pl.String, "2024-03-01T01:30:00Z", TEXTS),
    "category": (pl.Categorical, "1", TEXTS),
    "enum": (pl.Enum(["1", "", "\0"]), "1", ("", "\0")),
    "bytes": (pl.Binary, b"1", (b"", b"\xff", b"\0", b"\xed\xa0\x80", b"\xc3")),
    "date": stored(pl.Date, DAY, (-(2**31), 2**31 - 1, -719163, 2932897, 95_000_000)),
    "ms": stored(pl.Datetime("ms"), US // 1000, LONG),
    "us": stored(pl.Datetime("us"), US, LONG),
    "ns": stored(pl.Datetime("ns"), US * 1000, LONG),
    "ms UTC": stored(pl.Datetime("ms", "UTC"), US // 1000, LONG),
    "us UTC": stored(pl.Datetime("us", "UTC"), US, LONG),
    "ns zone": stored(pl.Datetime("ns", "America/New_York"), US * 1000, LONG),
    "ms zone": stored(pl.Datetime("ms", "Asia/Kolkata"), US // 1000, LONG),
    "duration": stored(pl.Duration("us"), 1, LONG),
    "clock": (pl.Time, time(1), (time(0), time(23, 59, 59, 999_999))),
    "null": (pl.Null, None, ()),
    "list": (pl.List(pl.Int64), [1], ([], [2**63 - 1], [None])),
    "struct": (pl.Struct({"a": pl.Int64}), {"a": 1}, ({"a": None}, None)),
}  # fmt: skip


def column(kind: Any, values: list[Any]) -> pl.Series:
    if kind == pl.Date:
        return pl.Series(values, dtype=pl.Int32).cast(kind)
    if isinstance(kind, pl.Datetime | pl.Duration):
        return pl.Series(values, dtype=pl.Int64).cast(kind)
    return pl.Series(values, dtype=kind, strict=False)


def file_of(name: str, values: list[Any], role: str, path: Path) -> Source:
    good = "2024-03-01T01:30:00Z"
    frame = {
        "time": [good] * len(values),
        "what": ["a"] * len(values),
        "value": ["1"] * len(values),
    }
    typed = {**frame, role: column(TYPES[name][0], values)}
    pl.DataFrame(typed).write_parquet(path)
    return open_source(path)


def clipped(given: Any) -> Any:
    return np.rint(np.clip(given, 0, 9)).astype(np.int64)


def readers(role: str, folder: Path) -> Iterator[tuple[str, Any]]:
    """What a reader finds in a source: of good rows always the same."""
    policies = Policies(folder / "bad.csv", 100, "drop", is_most_stated=True)

    def added(columns: Columns, domain: tuple[str, ...] | None, **more: Any) -> Any:
        def read(source: Source, time_format: str | None = None) -> Any:
            reading = RowMapping(
                columns, WINDOWS, policies=policies, time_format=time_format, **more
            )
            return reveal(sum_rows(source, reading, domain)).rows

        return read

    for unknown in ("drop", "refuse"):
        if unknown == "drop" or role == "time":
            yield "sum_rows", added(Columns("time", "what"), ("a", "1"), unlisted_groups=unknown)
    yield (
        "other",
        added(Columns("time", "what"), ("a", "z"), other="z", unlisted_groups="drop"),
    )
    yield "sum", added(Columns("time", value="value"), None, row_rule=Grid(clipped))
    yield "users", added(Columns("time", user="what", id="value"), None)
    if role == "time":
        read = added(Columns("time"), None)
        for one in ("epoch", "epoch_ms", "epoch_ns", "%Y %j"):
            yield f"sum_rows {one}", lambda source, one=one: read(source, one)


def told(read: Any, source: Source) -> Any:
    try:
        return read(source)
    except InvalidInputError as error:
        return str(error)


@pytest.mark.parametrize("role", ["time", "what", "value"])
@pytest.mark.parametrize("name", TYPES)
def test_readability_depends_only_on_column_type(name: str, role: str, tmp_path: Path) -> None:
    _, good, extremes = TYPES[name]
    alone = file_of(name, [good], role, tmp_path / "alone.parquet")
    among = file_of(name, [good, None, *extremes], role, tmp_path / "among.parquet")
    place = [*TYPES].index(name)
    for reader, read in in_turn(readers(role, tmp_path), 2, first=place % 2):
        known = told(read, alone)
        found = told(read, among)
        assert isinstance(found, str) == isinstance(known, str), (reader, known, found)


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_time_outside_calendar_is_unreadable_and_not_missing(unit: Any, zone: str | None) -> None:
    kind = pl.Datetime(unit, zone)
    given = pl.Series("time", [None, *LONG[:4], *LONG[-2:]], dtype=pl.Int64).cast(kind)
    found = given.to_frame().select(moments("time", kind, "America/New_York"))["time"]
    assert found.to_list() == [NO_TIME, *[UNREADABLE_TIME] * 6]


def test_last_day_of_calendar_is_read_in_every_timezone() -> None:
    texts = ["9999-12-31T23:59:59", "9999-12-31", "0001-01-01"]
    dates = [datetime.fromisoformat(text) for text in texts]
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):
        for given in (pl.Series("time", texts), pl.Series("time", dates)):
            found = given.to_frame().select(moments("time", given.dtype, zone))["time"]
            years = [moment(us).year for us in found]
            assert years == [9999, 9999, 1], (zone, given.dtype)


def test_quarantined_value_is_written_as_stored(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    policies = Policies(tmp_path / "bad.csv", 100)
    source = file_of("date", [DAY, 2**31 - 1], "time", tmp_path / "e.parquet")
    found = reveal(sum_rows(source, RowMapping(Columns("time"), WINDOWS, policies=policies), None))
    assert (found.rows, found.quarantined) == (2, 1)
    assert (
        bad.read_text().splitlines()[1].endswith(f",2,{Problem.UNREADABLE_TIME.words},{2**31 - 1}")
    )

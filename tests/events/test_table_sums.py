"""What the rows of a table come to hangs on each value of each row, and on nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton.events.opening import open_source
from counton.events.tablesums import TableSums, table_digest

AT = datetime(2024, 3, 1, 9, 30, 1, 250_000, tzinfo=UTC)
NAMES: list[Any] = [
    None,
    "",
    "a",
    "ab",
    "twelve bytes",
    "thirteen byte",
    "thirteen bytf",
    "x" * 700,
    "ä€",
]
ROWS = pl.DataFrame(
    {
        "at": [AT + timedelta(minutes=k % 50) for k in range(90)],
        "page": [NAMES[k % len(NAMES)] for k in range(90)],
        "user": [None if k == 40 else (k * k) % 31 - 5 for k in range(90)],
        "paid": [None if k == 50 else k % 8 / 4 for k in range(90)],
        "new": [[True, False, None][k % 3] for k in range(90)],
    }
)


def come_to(rows: pl.DataFrame) -> str:
    found = table_digest(rows.lazy())
    assert found is not None
    return found


KNOWN = come_to(ROWS)
NEW_YORK = pl.Datetime("us", "America/New_York")
#: The same rows said otherwise.
SAME: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "order": lambda rows: rows.sample(fraction=1, shuffle=True, seed=1),
    "columns": lambda rows: rows.select(reversed(rows.columns)),
    "a narrow type": lambda rows: rows.cast({"user": pl.Int8}),
    "text of numbers": lambda rows: rows.cast({"user": pl.String}),
    "text of booleans": lambda rows: rows.cast({"new": pl.String}),
    "categories": lambda rows: rows.cast({"page": pl.Categorical, "user": pl.String}),
    "a declared list": lambda rows: rows.cast({"page": pl.Enum(NAMES[1:])}),
    "single precision": lambda rows: rows.cast({"paid": pl.Float32}),
    "milliseconds": lambda rows: rows.cast({"at": pl.Datetime("ms", "UTC")}),
    "nanoseconds": lambda rows: rows.cast({"at": pl.Datetime("ns", "UTC")}),
    "another zone": lambda rows: rows.cast({"at": NEW_YORK}),
    "bytes": lambda rows: rows.cast({"page": pl.Binary}),
    "a list beside": lambda rows: rows.with_columns(many=pl.lit([1])),
    "several chunks": lambda rows: pl.concat([rows[:7], rows[7:8], rows[8:]], rechunk=False),
    "a slice": lambda rows: pl.concat([rows[:9], rows])[9:],
}  # fmt: skip


@pytest.mark.parametrize("how", SAME)
def test_the_same_rows_come_to_the_same(how: str) -> None:
    assert come_to(SAME[how](ROWS)) == KNOWN


@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "snappy"])
@pytest.mark.parametrize("size", [7, 1000])
def test_a_file_comes_to_what_its_rows_do(compression: Any, size: int, tmp_path: Path) -> None:
    ROWS.reverse().write_parquet(
        tmp_path / "f.parquet", compression=compression, row_group_size=size
    )
    assert open_source(tmp_path / "f.parquet").parts[0].table_digest() == KNOWN


def test_rows_added_in_any_parts_come_to_the_same() -> None:
    sums, rest = TableSums(), ROWS
    draw = random.Random(1)
    while rest.height:
        some = draw.randrange(20)
        sums.add(rest[:some])
        rest = rest[some:]
    assert (sums.rows, sums.digest()) == (90, KNOWN)


def test_many_rows_come_to_the_same_in_any_parts() -> None:
    """Of more than are looked at together."""
    places = pl.int_range(70_000, eager=True)
    many = pl.DataFrame({"n": places, "name": "user number " + (places % 99).cast(pl.String)})
    sums = TableSums()
    for rows in (many[40_000:], many[:3], many[3:40_000]):
        sums.add(rows)
    assert sums.digest() == come_to(many)
    swapped = many.with_columns(name=pl.col("name").shift(1, fill_value=many["name"][-1]))
    assert come_to(swapped) != come_to(many)


def changed(row: int, name: str, value: Any) -> pl.DataFrame:
    values = ROWS[name].to_list()
    values[row] = value
    return ROWS.with_columns(pl.Series(name, values, dtype=ROWS.schema[name]))


def test_other_rows_come_to_something_else() -> None:
    one = ROWS.with_columns(two="paid").rename({"user": "two", "two": "user"})
    others = {
        "a row less": ROWS[1:],
        "a row twice": pl.concat([ROWS, ROWS[:1]]),
        "a row three times": pl.concat([ROWS, ROWS[:1], ROWS[:1]]),
        "another row three times": pl.concat([ROWS, ROWS[1:2], ROWS[1:2]]),
        "a column less": ROWS.drop("new"),
        "a column more": ROWS.with_columns(more=pl.lit(1)),
        "another name": ROWS.rename({"user": "uses"}),
        "two names changed": one,
        "users moved": ROWS.with_columns(pl.col("user").shift(1, fill_value=3)),
        "no zone": ROWS.with_columns(pl.col("at").dt.replace_time_zone(None)),
        "numbers with a point": ROWS.cast({"user": pl.Float64}),
        "all of one user": ROWS.with_columns(user=7),
    }
    values_of: dict[str, list[Any]]
    for row in (0, 33, 89):
        values_of = {
            "at": [None, AT - timedelta(microseconds=1), AT + timedelta(days=9000)],
            "page": [*NAMES, "b", "b\0", "7", "-7", "07", "x" * 699 + "y", "x" * 701],
            "user": [None, 0, 99, -99, 2**40],
            "paid": [None, 0.0, -0.0, 99.5, float("nan"), float("inf"), 1e-300],
            "new": [None, True, False],
        }
        for name, values in values_of.items():
            for value in values:
                if repr(ROWS[name][row]) != repr(value):
                    others[f"{name} {row} {value!r}"] = changed(row, name, value)
    found = {name: come_to(rows) for name, rows in others.items()}
    assert len({KNOWN, *found.values()}) == len(found) + 1


def test_pairs_of_equal_rows_do_not_cancel() -> None:
    twice = [come_to(pl.DataFrame({"a": [one, one]})) for one in ("x", "y", 1, 2, -1, None)]
    assert len(set(twice)) == len(twice)


#: Single values, all of which differ; those in one place are one value of several types.
VALUES: list[list[pl.Series]] = [
    [pl.Series([1], dtype=kind) for kind in (pl.Int64, pl.UInt64, pl.Int128)] + [pl.Series(["1"])],
    [pl.Series([-1]), pl.Series(["-1"]), pl.Series([-1], dtype=pl.Int16)],
    [pl.Series([2**64 - 1], dtype=pl.UInt64)],
    [pl.Series([2**64 - 2], dtype=pl.UInt64)],
    [pl.Series([2**70], dtype=pl.Int128), pl.Series([str(2**70)])],
    [pl.Series([1.0])],
    [pl.Series(["1.0"]), pl.Series([Decimal("1.0")])],
    [pl.Series(["01"])],
    [pl.Series(["+1"])],
    [pl.Series(["-0"])],
    [pl.Series([0.0])],
    [pl.Series([-0.0])],
    [pl.Series([float("nan")]), pl.Series([-float("nan")])],
    [pl.Series([4607182418800017408])],  # the bits of 1.0
    [pl.Series([0.1]), pl.Series([0.1], dtype=pl.Float32)],
    [pl.Series([True]), pl.Series(["true"])],
    [pl.Series([date(2024, 3, 1)]), pl.Series(["2024-03-01"])],
    [pl.Series([datetime(2024, 3, 1)])],
    [pl.Series([AT]), pl.Series([AT], dtype=NEW_YORK)],
    [pl.Series([int(AT.timestamp()) * 10**9 + 250_000_000])],
    [pl.Series([time(9, 30)])],
    [pl.Series([timedelta(0, 5)]), pl.Series([5_000_000])],
    [pl.Series(["a"]), pl.Series([b"a"]), pl.Series(["a"], dtype=pl.Categorical)],
    [pl.Series(["a\0"])],
    [pl.Series(["\0a"])],
    [pl.Series(["x" * 513])],
    [pl.Series(["x" * 514])],
    [pl.Series([""])],
    [pl.Series([None], dtype=kind) for kind in (pl.Null, pl.Int8, pl.String, pl.Float64, NEW_YORK)]
    + [pl.Series([b"\xff"])],
]  # fmt: skip


def test_values_are_told_apart_by_what_they_say() -> None:
    found = [{come_to(one.alias("a").to_frame()) for one in values} for values in VALUES]
    assert [len(one) for one in found] == [1] * len(found)
    assert len(set.union(*found)) == len(found)


def test_no_rows_come_to_nothing(tmp_path: Path) -> None:
    assert table_digest(ROWS[:0].lazy()) is None
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert open_source(tmp_path / "a.csv").parts[0].table_digest() is None


def test_digests_stay_as_they_are() -> None:
    """States keep them: a change of these two lines makes counted files new."""
    assert KNOWN == "6fcf6cfcb546d8bbaf89ce9b5368d22a57d45a266c8149efe3e6fc8f34fb34b2"
    assert (
        come_to(ROWS.select("page"))
        == "2c198b6c8da1e89221caee28c5afcd3f58f81a814e2c1d54db210ba2109da0d9"
    )


def test_another_layout_of_texts_comes_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """No version of polars is without marks, or has others."""
    monkeypatch.setattr("counton.events.tablesums._VIEWS", b"U")
    assert come_to(ROWS) == KNOWN

"""A count is written with digits alone: a point may be a decimal sign, or group thousands."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from counton import release
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.io.row_assignment import _count_of

#: What a text of a count means where a point is the decimal sign; None: it is refused.
WITH_POINT: dict[str, int | None] = {
    "12": 12, "012": 12, "12.0": 12, "12.00": 12, "0": 0, "1125899906842624": 2**50,
    "1.000": None, "12.000": None, "1.000.000": None, "12.": None, "12.5": None, "12.01": None,
    "1,000": None, "1e3": None, "+5": None, "-1": None, " 12": None, "0x10": None, "1_000": None,
    "1125899906842625": None, "9007199254740993": None, "9" * 400: None, "\u0661\u0662": None,
}  # fmt: skip
#: The same where a comma is the decimal sign, so that points group thousands.
WITH_COMMA: dict[str, int | None] = {
    "12": 12, "12,0": 12, "12,00": 12, "1.000": 1000, "3.000": 3000, "1.000.000": 10**6,
    "1.000,0": 1000, "12,000": None, "1.00": None, "1000.000": None, "1.0000": None, "12.0": None,
    "12,5": None, ".000": None,
}  # fmt: skip
STREAM: dict[str, Any] = {
    "time": "time", "every": "1d", "start": "2024-03-01", "windows": 2, "until": "2024-03-02",
    "epsilon": 500, "privacy_unit": "event", "allow_empty_windows": True,
}  # fmt: skip


def counted(events: Any, folder: Path, what: Any = "count", **options: Any) -> float:
    """Return the first number of a stream with next to no noise."""
    state = folder / f"{len([*folder.iterdir()])}.db"
    table = release(
        what, events, **{**STREAM, "count_column": "n", "state": state, **options}
    ).table()
    return float(table["estimate"].round(6)[0])


def check(events: Any, folder: Path, wanted: int | None, **options: Any) -> None:
    if wanted is not None:
        assert counted(events, folder, **options) == wanted
        return
    with pytest.raises(
        InvalidInputError,
        match=r"row 1 of .* has (a count (that|with)|a value that|a number with)",
    ):
        counted(events, folder, **options)


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize("text", WITH_POINT)
def test_count_in_csv_is_digits_alone(text: str, separator: str, tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text(f'time{separator}n\n2024-03-01{separator}"{text}"\n')
    check(file, tmp_path, WITH_POINT[text], separator=separator)


@pytest.mark.parametrize("text", WITH_COMMA)
def test_count_with_decimal_comma_may_group_thousands(text: str, tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text(f"time;n\n2024-03-01;{text}\n")
    check(file, tmp_path, WITH_COMMA[text], separator=";", decimal=",")


@pytest.mark.parametrize("text", ["12", "12.0", "1.000", "1e3", "1,000", "9007199254740993"])
def test_texts_of_counts_mean_the_same_in_all_sources(text: str, tmp_path: Path) -> None:
    lines = tmp_path / "e.jsonl"
    lines.write_text(json.dumps({"time": "2024-03-01", "n": text}) + "\n")
    frame = pl.DataFrame({"time": ["2024-03-01"], "n": [text]})
    frame.write_parquet(tmp_path / "e.parquet")
    for events in (lines, tmp_path / "e.parquet", frame):
        check(events, tmp_path, WITH_POINT[text])


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("hierarchy", {"levels": "page", "groups": {"page": ["a", "b"]}}),
        ("contingency", {"columns": "page", "groups": {"page": ["a", "b"]}}),
        ("ranges", {"label": "page", "groups": ["a", "b"]}),
    ],
)
def test_count_in_a_table_is_digits_alone(what: str, options: Any, tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    for text in ("12.0", "1.000", "1e3", "4294967297"):
        file.write_text(f"time;page;n\n2024-03-01;a;{text}\n")
        check(file, tmp_path, WITH_POINT.get(text), what=what, separator=";", **options)


@pytest.mark.parametrize(
    ("dtype", "cell", "wanted"),
    [
        (pl.Int64, 2**50, 2**50),
        (pl.Int64, 2**53 + 1, None),
        (pl.UInt64, 2**64 - 1, None),
        (pl.Float64, 12.0, 12),
        (pl.Float64, 12.5, None),
        (pl.Decimal(20, 6), Decimal("12.000000"), 12),
        (pl.Decimal(20, 6), Decimal("12.000001"), None),
    ],
)
def test_whole_number_of_typed_column_is_a_count(
    dtype: Any, cell: Any, wanted: int | None, tmp_path: Path
) -> None:
    column = pl.Series("n", [cell], dtype=dtype)
    check(pl.DataFrame({"time": ["2024-03-01"]}).with_columns(column), tmp_path, wanted)


def test_whole_number_of_object_column_is_a_count(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    cells: list[tuple[Any, int | None]] = [
        (12, 12), (12.0, 12), (Decimal("12.000"), 12), (True, 1), ("1.000", None),
        (2**53 + 1, None), (12.5, None), (Decimal("1E+3"), 1000),
    ]  # fmt: skip
    for cell, wanted in cells:
        frame = pd.DataFrame({"time": ["2024-03-01"], "n": pd.Series([cell], dtype=object)})
        check(frame, tmp_path, wanted)


def test_json_number_is_a_count_if_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    for number, wanted in (("12", 12), ("12.000", 12), ("1e3", 1000), ("9007199254740993", None)):
        file.write_text(f'{{"time": "2024-03-01", "n": {number}}}\n')
        check(file, tmp_path, wanted)


def test_number_in_sqlite_is_a_count_if_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "e.sqlite"
    cells: list[tuple[Any, int | None, str]] = [
        (12, 12, ""), (12.0, 12, ""), ("12.0", 12, ""), ("1.000", None, "has decimals"),
        (2**53 + 1, None, "is above 2"), (12.5, None, "is not a whole number"),
    ]  # fmt: skip
    for cell, wanted, words in cells:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database:
            database.execute("create table visits (time, n)")
            database.execute("insert into visits values ('2024-03-01', ?)", [cell])
            database.commit()
        options = {"query": "select time, n from visits"}
        if wanted is not None:
            assert counted(f"sqlite:///{path}", tmp_path, **options) == wanted
            continue
        with pytest.raises(InvalidInputError, match=f"has a count that {words}"):
            counted(f"sqlite:///{path}", tmp_path, **options)


def test_numeric_of_postgresql_is_a_count_if_it_is_whole(postgres: str, tmp_path: Path) -> None:
    for cell, wanted in (("12.000", 12), ("12.500", None)):
        query = f"select '2024-03-01' as time, cast('{cell}' as numeric(9, 3)) as n"
        if wanted is not None:
            assert counted(postgres, tmp_path, query=query) == wanted
            continue
        with pytest.raises(InvalidInputError, match="has a count that is not a whole number"):
            counted(postgres, tmp_path, query=query)


def test_refused_count_with_points_names_the_decimal_comma(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text("time;n\n2024-03-01;1.000\n")
    with pytest.raises(
        InvalidInputError,
        match=r"'1\.000'\); if points group .*; else write counts without decimals, such as 4",
    ):
        counted(file, tmp_path, separator=";")


#: What the file of bad rows says of a point that may group thousands.
BOTH_READINGS = (
    'if such points group thousands, set decimal = "," in the job file; else write counts without '
    "decimals"
)
#: What the file of bad rows says of a text, by the text and the decimal sign.
PROBLEMS = {
    ("1.204", "."): f"a count that has a point before three digits; {BOTH_READINGS}",
    ("4.000", "."): f"a count that has a point before three digits; {BOTH_READINGS}",
    ("1.204,0", "."): f"a count that has a point before three digits; {BOTH_READINGS}",
    ("1,204", "."): "a count that has thousands separators",
    ("1'204", ","): "a count that has thousands separators",
    ("1204.000", "."): "a count that has decimals",
    ("12.0", ","): "a count that has decimals",
    ("12,0", "."): "a count that has decimals",
    (" 12", "."): "a count with blanks before or behind it",
    ("12 ", ","): "a count with blanks before or behind it",
    ("-259", "."): "a count that is negative",
    ("-1.204", ","): "a count that is negative",
    ("12.5", "."): "a count that is not a whole number",
    ("12.5", ","): "a count that is not a whole number",
    ("12,5", ","): "a count that is not a whole number",
    ("1.204,50", ","): "a count that is not a whole number",
    ("9007199254740993", "."): "a count that is above 2^50 (in tables 2^32)",
    ("9007199254740993,0", ","): "a count that is above 2^50 (in tables 2^32)",
    ("1e3", "."): "a count that is not written in digits alone",
    ("many", "."): "a value that is not a finite number",
}


@pytest.mark.parametrize(("text", "sign"), PROBLEMS)
def test_problem_of_count_is_in_file_of_bad_rows_and_in_message(
    text: str, sign: str, tmp_path: Path
) -> None:
    file = tmp_path / "e.csv"
    aside = tmp_path / "q.csv"
    file.write_text(f"time;n\n2024-03-01;{text}\n2024-03-01;4\n")
    options = {"separator": ";", "decimal": sign}
    counted(file, tmp_path, bad_rows=f"quarantine:{aside}", **options)
    with aside.open(newline="") as stream:
        assert [row["problem"] for row in csv.DictReader(stream)] == [PROBLEMS[text, sign]]
    words = PROBLEMS[text, sign].partition(";")[0]
    with pytest.raises(InvalidInputError, match=rf"row 1 of .* has {re.escape(words)} in column"):
        counted(file, tmp_path, **options)


def test_message_about_several_bad_counts_gives_each_no_other_problem(tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    file.write_text("time,n\n2024-03-01,-259\n2024-03-01,1.204\n")
    words = r"negative in column 'n' \('-259'\) \(one of 2 rows whose count cannot be read\)"
    with pytest.raises(InvalidInputError, match=words):
        counted(file, tmp_path)


@pytest.mark.parametrize("text", ["9007199254740993", "1.000", "many", "1e400"])
def test_count_above_the_bound_is_set_aside(text: str, tmp_path: Path) -> None:
    file = tmp_path / "e.csv"
    aside = tmp_path / "q.csv"
    file.write_text(f"time,n\n2024-03-01,3\n2024-03-01,{text}\n2024-03-01,4\n")
    assert counted(file, tmp_path, bad_rows=f"quarantine:{aside}", epsilon=1, windows=365) == (
        pytest.approx(7, abs=200)
    )
    assert text in aside.read_text()


@pytest.mark.parametrize("most", [2**50, 2**32, 5])
def test_one_event_more_changes_the_sum_by_at_most_one(most: int) -> None:
    """A count above the bound fades out. Dropped at once, it would take all its events with it."""
    near = {number for end in (0, most, 2 * most, 3 * most) for number in range(end - 3, end + 4)}
    numbers = sorted(number for number in near if number >= 0)
    cells = pl.DataFrame({"n": [str(number) for number in numbers]})
    given = pl.col("n")
    added, whole = _count_of(given, given.cast(pl.Float64), most, written=True, set_aside=True)
    found = cells.select(pl.when(whole).then(added).otherwise(0.0)).to_series().to_list()
    for first, second, one, other in zip(numbers, numbers[1:], found, found[1:], strict=False):
        assert abs(one - other) <= second - first
    assert [value for number, value in zip(numbers, found, strict=True) if number <= most] == [
        number for number in numbers if number <= most
    ]
    assert {value for number, value in zip(numbers, found, strict=True) if number >= 2 * most} == {
        0
    }


@pytest.mark.parametrize("rows", [5000, 1500])
def test_sum_of_counts_above_the_exact_range_advises_no_resolution(
    rows: int, tmp_path: Path
) -> None:
    file = tmp_path / "e.csv"
    file.write_text("time,n\n" + f"2024-03-01,{2**50}\n" * rows)
    with pytest.raises(SumOverflowError, match="correct rows with too large a count") as error:
        counted(file, tmp_path, epsilon=1, windows=365)
    assert "resolution" not in str(error.value)

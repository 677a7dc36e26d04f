"""Each cell is parsed alone: one cell more or less changes no other, whatever the source."""

from __future__ import annotations

import json
import math
import random
import re
import sqlite3
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from counton import release
from counton.base.errors import InvalidInputError
from counton.io.databases import open_query
from counton.io.error_policy import Problem
from counton.io.files import open_source
from counton.io.object_cells import CellKind, convert_objects, read_cell
from counton.io.row_assignment import Columns, RowMapping, assign_rows
from counton.io.sources import Source
from counton.serve.bodies import read_rows
from counton.statistics import Contingency, Count, Sum
from counton.windowing.windows import Windows

pd = pytest.importorskip("pandas")

WINDOWS = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1h", 48, timezone="Europe/Berlin")
EPOCH = 1709251200  # 1 March 2024
PLAIN_CELLS: list[Any] = [
    None, 0, 7, -3, EPOCH, EPOCH + 1, 1000 * EPOCH, 10**19, 2**53 + 1, 2**200, 0.1, 7.0, 2.5,
    EPOCH + 0.25, 1e300, "x", "", " 7 ", "7", "7.0", "0.1", "true", "b", "2024-03-01",
    "2024-03-01T00:10", "2024-03-01 23:30:00+00:00", "01.03.2024", str(EPOCH), "f\u00fcr",
]  # fmt: skip
JSON_CELLS = [*PLAIN_CELLS, True, False]
SQL_CELLS = [cell for cell in PLAIN_CELLS if not isinstance(cell, int) or abs(cell) < 2**63] + [
    b"b",
    b"\xff",
]
NIGHT = datetime(2024, 3, 1, 23, 30)
OBJECT_CELLS: list[Any] = [
    *PLAIN_CELLS, True, False, b"b", b"\xff", math.nan, math.inf, np.float32(0.1), np.float32(1),
    np.float32(EPOCH), np.float16(2.5), np.int64(7), np.uint8(7), np.bool_(True), np.str_("b"),
    np.longdouble(0.1), Decimal("16"), Decimal("1E-37"), Decimal("0.10"), Decimal("7.00"),
    Decimal("123456789012345678901234567890.5"), Decimal("NaN"), Decimal("1E+5000"), Fraction(1, 3),
    NIGHT, NIGHT.replace(tzinfo=UTC), NIGHT.replace(tzinfo=ZoneInfo("America/Chicago")),
    NIGHT.replace(tzinfo=timezone(timedelta(hours=5, minutes=30))), datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-9))), date(2024, 3, 1),
    date(2024, 1, 3), time(9, 30), timedelta(days=1), np.datetime64("2024-03-01T23:30"),
    np.datetime64("2024-03"), np.datetime64("NaT"), np.timedelta64(1, "D"),
    pd.Timestamp(NIGHT), pd.Timestamp(NIGHT, tz="Asia/Tokyo"), pd.NaT, pd.NA,
    pd.Timestamp(EPOCH * 10**9 + 123456789), uuid.UUID(int=7), [1], {"a": 1}, 1j, "\ud800",
]  # fmt: skip


def _label() -> Any:
    return Contingency({"c": ["b", "7", "x"]})


#: How a column is read, by its role.
READINGS: dict[str, RowMapping] = {
    "time": RowMapping(Columns("c"), WINDOWS),
    **{
        form: RowMapping(Columns("c"), WINDOWS, time_format=form)
        for form in ("epoch", "epoch_ms", "epoch_ns", "%d.%m.%Y", "%Y-%d-%m", "%Y-%m-%dT%H:%M")
    },
    "group": RowMapping(Columns("", "c"), WINDOWS),
    "found group": RowMapping(Columns("", "c"), WINDOWS, unlisted_groups="discover"),
    "user": RowMapping(Columns("", user="c"), WINDOWS),
    "id": RowMapping(Columns("", id="c"), WINDOWS),
    "value": RowMapping(Columns("", value="c"), WINDOWS, row_rule=Sum(-10, 10, "0.1")),
    "count": RowMapping(Columns("", value="c"), WINDOWS, row_rule=Count(counts=True)),
    "label": RowMapping(Columns("", several=("c",)), WINDOWS, row_rule=_label()),
}
Opener = Callable[[Path, Sequence[Any]], Source]


def _pandas(_: Path, cells: Sequence[Any]) -> Source:
    column = pd.Series(np.empty(len(cells), object))
    column[:] = np.array([*cells, None], object)[:-1]
    return open_source(pd.DataFrame({"c": column}))


def _categories(_: Path, cells: Sequence[Any]) -> Source:
    kept = [isinstance(cell, str | int) for cell in cells]
    known = dict.fromkeys(cell for cell, is_kept in zip(cells, kept, strict=True) if is_kept)
    kinds = pd.Index([*known], dtype=object)
    places = {cell: place for place, cell in enumerate(known)}
    codes = [places[cell] if is_kept else -1 for cell, is_kept in zip(cells, kept, strict=True)]
    return open_source(pd.DataFrame({"c": pd.Categorical.from_codes(codes, kinds)}))


def _jsonl(folder: Path, cells: Sequence[Any]) -> Source:
    path = folder / "c.jsonl"
    path.write_text("".join(json.dumps({"c": cell}) + "\n" for cell in cells))
    return open_source(path)


def _csv(folder: Path, cells: Sequence[Any]) -> Source:
    path = folder / "c.csv"
    lines = [f'"{"" if cell is None else cell}",1\n' if cell != "" else '"",1\n' for cell in cells]
    path.write_text("".join(["c,n\n", *lines]).replace('""', ""))
    return open_source(path)


def _service(_: Path, cells: Sequence[Any]) -> Source:
    body = b"".join(json.dumps({"c": cell}).encode() + b"\n" for cell in cells)
    return Source((read_rows(body, ["c"], 10**6, "the request"),), "the request")


def _sqlite(folder: Path, cells: Sequence[Any]) -> Source:
    path = folder / "c.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table visits (c)")
        database.executemany("insert into visits values (?)", [(cell,) for cell in cells])
        database.commit()
    return open_query(f"sqlite:///{path}", "select c from visits")


#: Sources whose cells have no common type, and the cells that they can hold.
MIXED: dict[str, tuple[Opener, Sequence[Any]]] = {
    "pandas": (_pandas, OBJECT_CELLS),
    "categories of pandas": (_categories, PLAIN_CELLS),
    "JSON lines": (_jsonl, JSON_CELLS),
    "CSV": (_csv, PLAIN_CELLS),
    "a service": (_service, JSON_CELLS),
    "SQLite": (_sqlite, SQL_CELLS),
}


def marked(source: Source, reading: RowMapping) -> list[tuple[Any, ...]]:
    return assign_rows(source, reading).collect().rows()


@pytest.mark.parametrize("role", READINGS)
@pytest.mark.parametrize("kind", MIXED)
def test_cell_removed_or_added_changes_no_other_cell(kind: str, role: str, tmp_path: Path) -> None:
    opener, cells = MIXED[kind]
    chance = random.Random(f"{kind} {role}")
    reading = READINGS[role]
    each = [marked(opener(tmp_path, [cell]), reading)[0] for cell in cells]
    for _ in range(12):
        drawn = [chance.randrange(len(cells)) for _ in range(chance.randint(2, 40))]
        if kind == "JSON lines" and all(cells[place] is None for place in drawn):
            continue
        parsed = marked(opener(tmp_path, [cells[place] for place in drawn]), reading)
        assert parsed == [each[place] for place in drawn]


@pytest.mark.long
def test_cell_of_postgresql_removed_changes_no_other_cell(postgres: str) -> None:
    """One cell of type JSON may be a number, a text or null; the server writes each as text."""
    cells = ["null", "7", "7.0", "2.50", "1e3", '"2024-03-01"', '"x"', "true", str(EPOCH)]

    def rows_of(texts: Sequence[str], reading: RowMapping) -> list[tuple[Any, ...]]:
        values = ", ".join(f"({place}, '{text}'::jsonb)" for place, text in enumerate(texts))
        query = f"select c #>> '{{}}' as c from (values {values}) as v(place, c) order by place"  # noqa: S608
        return marked(open_query(postgres, query), reading)

    chance = random.Random(1)
    for reading in READINGS.values():
        each = {text: rows_of([text], reading)[0] for text in cells}
        drawn = chance.choices(cells, k=20)
        assert rows_of(drawn, reading) == [each[text] for text in drawn]


def _polars(dtype: Any) -> Callable[[Path, Sequence[Any]], Source]:
    return lambda _, cells: open_source(pl.DataFrame({"c": pl.Series(list(cells), dtype=dtype)}))


def _parquet(dtype: Any) -> Callable[[Path, Sequence[Any]], Source]:
    def write(folder: Path, cells: Sequence[Any]) -> Source:
        pl.DataFrame({"c": pl.Series(list(cells), dtype=dtype)}).write_parquet(folder / "c.parquet")
        return open_source(folder / "c.parquet")

    return write


def _duckdb(dtype: Any) -> Callable[[Path, Sequence[Any]], Source]:
    def write(folder: Path, cells: Sequence[Any]) -> Source:
        duckdb = pytest.importorskip("duckdb")
        _parquet(dtype)(folder, cells)
        return open_source(duckdb.connect().read_parquet(str(folder / "c.parquet")))

    return write


#: Types of columns that pandas has, by the type of polars. It has the others as objects alone.
PANDAS_TYPES = {
    pl.Int64: "Int64",
    pl.Float32: "Float32",
    pl.Boolean: "boolean",
    pl.String: "string",
}


def _pandas_typed(dtype: Any) -> Callable[[Path, Sequence[Any]], Source]:
    def write(_: Path, cells: Sequence[Any]) -> Source:
        column = pd.array(list(cells), dtype=PANDAS_TYPES[dtype])
        return open_source(pd.DataFrame({"c": column}))

    return write


def _arrow(dtype: Any) -> Callable[[Path, Sequence[Any]], Source]:
    def write(_: Path, cells: Sequence[Any]) -> Source:
        pa = pytest.importorskip("pyarrow")
        values = pl.Series(list(cells), dtype=dtype).to_arrow()
        return open_source(pa.table({"c": values.dictionary_encode()}))

    return write


TYPED_CELLS: dict[Any, list[Any]] = {
    pl.Int64: [None, 0, 7, -3, EPOCH, 10**18, 2**53 + 1],
    pl.Float32: [None, 0.5, 7.0, -3.25, float(2**60)],
    pl.Decimal(38, 6): [None, Decimal("16"), Decimal("0.000001"), Decimal("7")],
    pl.Datetime("us"): [None, NIGHT, NIGHT + timedelta(days=30)],
    pl.Datetime("ms", "UTC"): [None, NIGHT.replace(tzinfo=UTC)],
    pl.Date: [None, date(2024, 3, 1), date(1969, 12, 31)],
    pl.Boolean: [None, True, False],
    pl.String: [cell for cell in PLAIN_CELLS if cell is None or isinstance(cell, str)],
}


@pytest.mark.parametrize(
    ("opener", "dtype"),
    [
        (opener, dtype)
        for opener in (_polars, _parquet, _duckdb, _pandas_typed, _arrow)
        for dtype in TYPED_CELLS
        if opener is not _pandas_typed or dtype in PANDAS_TYPES
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_cell_of_typed_column_removed_changes_no_other_cell(
    opener: Any, dtype: Any, tmp_path: Path
) -> None:
    cells = TYPED_CELLS[dtype]
    chance = random.Random(str(dtype))
    write = opener(dtype)
    for reading in READINGS.values():
        drawn = [chance.choice(cells) for _ in range(30)]
        try:
            whole = marked(write(tmp_path, drawn), reading)
        except InvalidInputError as error:  # the declared type holds no times, or no names
            with pytest.raises(InvalidInputError, match=re.escape(str(error))):
                marked(write(tmp_path, drawn[1:]), reading)
            continue
        place = chance.randrange(len(drawn))
        fewer = marked(write(tmp_path, drawn[:place] + drawn[place + 1 :]), reading)
        assert fewer == whole[:place] + whole[place + 1 :]


def counted(what: Any, events: Any, folder: Path, **options: Any) -> list[float]:
    stream: dict[str, Any] = {
        "time": "time", "every": "1d", "start": "2024-03-01", "windows": 9, "until": "2024-03-05",
        "epsilon": 10**6, "privacy_unit": "event", "allow_empty_windows": True,
        "series": "per-window",
        "state": folder / f"{len([*folder.iterdir()])}.db",
    }  # fmt: skip
    table = release(what, events, **{**stream, **options}).table()
    name = "window_estimate" if "window_estimate" in table.columns else "estimate"
    estimates: list[float] = table[name].round(6).to_list()
    return estimates


def test_naive_datetime_in_first_row_moves_no_aware_one(tmp_path: Path) -> None:
    aware = [NIGHT.replace(tzinfo=UTC)] * 100
    naive = datetime(2024, 3, 1, 12)
    frames = [
        pd.DataFrame({"time": pd.Series(cells, dtype=object)}) for cells in (aware, [naive, *aware])
    ]
    before, after = (
        counted("count", frame, tmp_path, timezone="Europe/Berlin") for frame in frames
    )
    assert before == [0, 100, 0, 0]
    assert after == [1, 100, 0, 0]


def test_decimal_with_many_digits_removes_no_other_value(tmp_path: Path) -> None:
    values = [Decimal(16)] * 100
    options = {"value": "paid", "lower": 0, "upper": 20, "resolution": 1, "missing_values": "drop"}
    sums = []
    for cells in (values, [*values, Decimal("1E-37")], [Decimal("1E-37"), *values]):
        frame = pd.DataFrame({"time": "2024-03-02", "paid": pd.Series(cells, dtype=object)})
        sums.append(counted("sum", frame, tmp_path, **options))
    assert sums == [[0, 1600, 0, 0]] * 3


def test_float32_in_first_row_rounds_no_epoch() -> None:
    epochs = [EPOCH + 86_399 + 60 * row for row in range(100)]
    reading = RowMapping(Columns("c"), WINDOWS, time_format="epoch")
    before = marked(_pandas(Path(), epochs), reading)
    after = marked(_pandas(Path(), [np.float32(EPOCH), *epochs]), reading)
    assert after[1:] == before
    assert [us // 10**6 for us, *_ in before] == epochs


def test_truth_values_in_object_column_are_numbers_and_labels(tmp_path: Path) -> None:
    cells = [True, None, False, True]
    typed = open_source(pd.DataFrame({"c": pd.array(cells, dtype="boolean")}))
    for role in ("value", "count", "group", "label"):
        assert marked(_pandas(tmp_path, cells), READINGS[role]) == marked(typed, READINGS[role])


def test_date_in_object_column_is_read_whatever_the_time_format(tmp_path: Path) -> None:
    """A text of this format names the day before the month; a date of Python does not."""
    cells = [date(2024, 3, 1), "2024-02-03", NIGHT.replace(tzinfo=UTC)]
    reading = RowMapping(Columns("c"), WINDOWS, time_format="%Y-%d-%m")
    moments = [
        datetime.fromtimestamp(us / 10**6, UTC)
        for us, *_ in marked(_pandas(tmp_path, cells), reading)
    ]
    assert [moment.isoformat()[:16] for moment in moments] == [
        "2024-02-29T23:00", "2024-03-01T23:00", "2024-03-01T23:30",
    ]  # fmt: skip


@pytest.mark.parametrize("role", ["time", "epoch", "%Y-%d-%m", "user", "id", "value", "count"])
def test_object_of_no_readable_type_makes_its_row_bad(role: str, tmp_path: Path) -> None:
    for cell in ([1], {"a": 1}, 1j, timedelta(days=1), np.timedelta64(1, "D"), "\ud800"):
        rows = assign_rows(_pandas(tmp_path, ["2024-03-01", cell]), READINGS[role]).collect()
        problem = {"user": Problem.NO_USER, "id": Problem.NO_ID, "value": Problem.NOT_FINITE,
                   "count": Problem.NOT_FINITE}.get(role, Problem.UNREADABLE_TIME)  # fmt: skip
        assert rows["window"][1] == -problem


def test_read_cell_gives_exact_numbers() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        number = chance.choice([chance.random(), chance.gauss(0, 1e200), chance.random() * 1e-300])
        texts = convert_objects("n", [number, Decimal(number), np.float32(0.1)]).texts
        read = texts.cast(pl.Float64).to_list()
        assert read == [number, number, float(np.float32(0.1))]
    assert read_cell(2**53 + 1) == (str(2**53 + 1), CellKind.TEXT)

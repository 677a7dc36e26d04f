"""Tables as workbooks for spreadsheets, which know neither time zones nor large integers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import polars.selectors as cs

from counton.columns import errors_of
from counton.exact import decimals
from counton.lazy import require

#: Rows of a sheet, one of which is the header.
_ROWS = 1_048_576
#: Characters that a cell can hold.
_TEXT = 32_767
_MOST_DECIMALS = 12
#: A spreadsheet shows 15 digits; what has more is written as text.
_SHOWN = 10**15


def write_workbook(table: pl.DataFrame, name: str, facts: Mapping[str, Any] | None = None) -> None:
    """Write a table as a workbook, `.xlsx`.

    Args:
        table: cells are numbers, text, dates, times or empty. Times are written as they read in
            their zone, which stands in the header: ``window_start (Europe/Berlin)``. Integers of
            more than 15 digits are text, since a spreadsheet would round them; other numbers have
            16 digits. Text is text, also where it begins like a formula or an address.
        name: of the file. Where the rows do not fit in one sheet there are several.
        facts: what the table promises, JSON values; they stand in a sheet of their own, "about".

    Raises:
        MissingExtra: XlsxWriter is not installed.
        OSError: it could not be written, or a text is too long for a cell.
    """
    require("xlsxwriter")
    import xlsxwriter
    from xlsxwriter.exceptions import XlsxWriterException

    lengths = table.select(pl.col(_texts(table)).str.len_chars().max()).rows()
    longest: int = max((length or 0 for row in lengths for length in row), default=0)
    if longest > _TEXT:
        raise OSError(
            f"a text of {longest} characters does not fit in a cell of a workbook, which holds "
            f"{_TEXT}; write .csv or .parquet instead"
        )
    with TemporaryDirectory() as scratch:
        book = xlsxwriter.Workbook(name, {"constant_memory": True, "tmpdir": scratch})
        _fill(book, table)
        if facts is not None:
            _tell(book, facts)
        try:
            book.close()
        except XlsxWriterException as error:
            raise OSError(str(error)) from error


def _texts(table: pl.DataFrame) -> list[str]:
    return [name for name, kind in table.schema.items() if kind == pl.String]


def _fill(book: Any, table: pl.DataFrame) -> None:
    """A sheet, or several, with a header each."""
    zones = {
        column: kind.time_zone
        for column, kind in table.schema.items()
        if isinstance(kind, pl.Datetime) and kind.time_zone is not None
    }
    header = [f"{each} ({zones[each]})" if each in zones else each for each in table.columns]
    rows = table.with_columns(cs.datetime().dt.replace_time_zone(None)).iter_rows()
    bold = book.add_format({"bold": True})
    day = book.add_format({"num_format": "yyyy-mm-dd"})
    time = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
    numbers: dict[int | None, Any] = {
        places: book.add_format({"num_format": "#,##0" + "." * (places > 0) + "0" * places})
        for places in range(_MOST_DECIMALS + 1)
    }
    for first in range(0, max(table.height, 1), _ROWS - 1):
        sheet = book.add_worksheet("table" if not first else f"table {first // (_ROWS - 1) + 1}")
        sheet.freeze_panes(1, 0)
        for column, (words, kind) in enumerate(zip(header, table.dtypes, strict=True)):
            wide = 20 if kind.is_temporal() else 12
            sheet.set_column(column, column, max(wide, min(len(words) + 2, 60)))
            sheet.write_string(0, column, words, bold)
        for row, values in enumerate(islice(rows, _ROWS - 1), 1):
            digits = _digits(table.columns, values)
            for column, value in enumerate(values):
                if value is None:
                    continue
                if isinstance(value, bool):
                    sheet.write_boolean(row, column, value)
                elif isinstance(value, int | float) and _is_number(value):
                    sheet.write_number(row, column, value, numbers.get(digits[column]))
                elif isinstance(value, date) and value.year >= 1900:
                    style = time if isinstance(value, datetime) else day
                    sheet.write_datetime(row, column, value, style)
                else:
                    sheet.write_string(row, column, str(value))


def _tell(book: Any, facts: Mapping[str, Any]) -> None:
    """A sheet of names and what they stand for; long JSON goes on in the cells beside it."""
    sheet = book.add_worksheet("about")
    sheet.set_column(0, 0, 16)
    sheet.set_column(1, 1, 100)
    for row, (name, value) in enumerate(facts.items()):
        said = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        sheet.write_string(row, 0, name)
        for column, begin in enumerate(range(0, max(len(said), 1), _TEXT)):
            sheet.write_string(row, column + 1, said[begin : begin + _TEXT])


def _digits(names: Sequence[str], values: Sequence[Any]) -> list[int | None]:
    """How many decimals the cells of a row show; None: as many as they have.

    A cell holds what was published. It shows what the noise leaves of it, as a screen does.
    """
    errors = errors_of({name: [value] for name, value in zip(names, values, strict=True)})
    found: list[int | None] = []
    for name, value in zip(names, values, strict=True):
        error = errors.get(name, [None])[0]
        if not isinstance(error, int | float) or not math.isfinite(error) or error <= 0:
            found.append(None)
        else:
            found.append(0 if isinstance(value, int) else decimals(error))
    return found


def _is_number(value: int | float) -> bool:
    """Whether a spreadsheet shows this number as it is."""
    return math.isfinite(value) if isinstance(value, float) else abs(value) < _SHOWN

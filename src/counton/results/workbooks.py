"""Tables as workbooks for spreadsheets, which know neither time zones nor large integers.

A workbook is read back too: its numbers are written with all their digits, and a sheet has what is
public of the stream.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree as ET

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
            all their digits. Text is text, also where it begins like a formula or an address.
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


class _Digits(float):
    """A number that is written with all its digits, of which 17 are needed."""

    def __format__(self, spec: str) -> str:
        return repr(float(self)).removesuffix(".0")


#: How the parts of a workbook call things.
_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def read_workbook(name: str, numbers: Sequence[str]) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The rows of a workbook that `write_workbook` wrote, and what it promises.

    Args:
        name: of the file, which a spreadsheet may have saved again.
        numbers: columns that are numbers, also where a long one is a text.

    Raises:
        ValueError: it is no such workbook.
    """
    try:
        with zipfile.ZipFile(name) as archive:
            sheets = _sheets(archive)
    except (zipfile.BadZipFile, ET.ParseError, LookupError) as error:
        raise ValueError(f"it is no workbook of counton ({error})") from error
    facts = {
        str(row[0]): "".join(str(row[column]) for column in sorted(row)[1:])
        for row in sheets.get("about", ())
    }
    found: dict[str, Any] = {"written_by": facts.get("written_by")}
    if "description" in facts:
        found["description"] = json.loads(facts["description"])
    columns: dict[str, list[Any]] = {}
    for sheet, rows in sheets.items():
        if not re.fullmatch(r"table( \d+)?", sheet) or not rows:
            continue
        header = {
            at: re.sub(r"^(window_\w+|counted_until) \(.*", r"\1", str(words))
            for at, words in rows[0].items()
        }
        for at, words in header.items():
            columns.setdefault(words, []).extend(row.get(at) for row in rows[1:])
    series = (_series(column, values, column in numbers) for column, values in columns.items())
    return pl.DataFrame(list(series)), found


def _series(name: str, values: list[Any], number: bool) -> pl.Series:
    if number:
        values = [_number(value) if isinstance(value, str) else value for value in values]
    there = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in there):
        texts = [None if value is None else str(value) for value in values]
        return pl.Series(name, texts, dtype=pl.String)
    kind: Any = pl.Boolean
    if not there or not all(isinstance(value, bool) for value in there):
        kind = pl.Int64 if all(isinstance(value, int) for value in there) else pl.Float64
    return pl.Series(name, values, dtype=kind, strict=False)


def _number(text: str) -> float:
    """A number that a spreadsheet would not show as it is, and that is a text therefore."""
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _sheets(archive: zipfile.ZipFile) -> dict[str, list[dict[int, Any]]]:
    """Rows by the names of sheets: cells by the number of their column."""

    def part(path: str) -> ET.Element:
        return ET.fromstring(archive.read(path))  # expat refuses bombs

    texts: list[str] = []
    if "xl/sharedStrings.xml" in archive.namelist():
        texts = [_text(one) for one in part("xl/sharedStrings.xml").iter(f"{_MAIN}si")]
    links = part("xl/_rels/workbook.xml.rels")
    places = {one.attrib["Id"]: one.attrib["Target"].removeprefix("/xl/") for one in links}
    return {
        one.attrib["name"]: [
            {_column(cell): _value(cell, texts) for cell in row.iter(f"{_MAIN}c")}
            for row in part(f"xl/{places[one.attrib[_LINK]]}").iter(f"{_MAIN}row")
        ]
        for one in part("xl/workbook.xml").iter(f"{_MAIN}sheet")
    }


def _text(of: ET.Element) -> str:
    return "".join(one.text or "" for one in of.iter(f"{_MAIN}t"))


def _column(cell: ET.Element) -> int:
    number = 0
    for letter in re.sub(r"\d", "", cell.attrib["r"]):
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _value(cell: ET.Element, texts: Sequence[str]) -> Any:
    kind, value = cell.attrib.get("t", "n"), cell.findtext(f"{_MAIN}v")
    if kind == "inlineStr":
        return _text(cell)
    if value is None:
        return None
    if kind in ("s", "str"):
        return texts[int(value)] if kind == "s" else value
    if kind == "b":
        return bool(int(value))
    return int(value) if re.fullmatch(r"-?\d+", value) else float(value)


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
                    sheet.write_number(row, column, _Digits(value), numbers.get(digits[column]))
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

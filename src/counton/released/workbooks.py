"""Released tables as spreadsheet workbooks, which support neither time zones nor large integers.

A workbook can be read back: its numbers have all their digits, and a hidden sheet has the public
facts of the stream. Another sheet, "about", states the guarantee in words.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import polars.selectors as cs
from typing_extensions import override

from counton.base.columns import errors_of
from counton.base.exact import decimals, figures
from counton.base.lazy import require
from counton.base.outside_input import parse_json
from counton.released.sizes import MOST_BYTES, check_bytes, check_shape, too_large

#: Largest number of rows in a sheet, including the header.
_ROWS = 1_048_576
#: Largest number of characters in a cell.
_TEXT = 32_767
_MOST_DECIMALS = 12
#: Largest number of bytes of a workbook that is read.
_MOST_PACKED = 2**27
#: Name of the hidden sheet, which has the facts of the table as JSON, in cells of one column.
_CARRIED = "counton"
#: Largest numbers of cells and of characters in a workbook that is read.
_ROOM = (2**24, 2**28)
#: Errors that are raised while reading a file that is not a workbook, or is damaged.
_NO_WORKBOOK = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ET.ParseError,
    LookupError,
    NotImplementedError,
    RuntimeError,  # encrypted
)
#: Pattern of a character that is written as its code; codes of surrogates are not characters.
_CODE = re.compile(r"_x((?![dD][89a-fA-F])[0-9a-fA-F]{4})_")
#: Numbers from these on are written as text: a spreadsheet has 15 digits, and no infinite numbers.
_SHOWN = {int: 10**15, float: math.inf}


def write_workbook(table: pl.DataFrame, name: str, facts: Mapping[str, Any] | None = None) -> None:
    """Write a table to a workbook, `.xlsx`.

    Args:
        table: cells are numbers, texts, dates, times or empty. Times are written as local times,
            and the header names the zone: ``window_start (Europe/Berlin)``. Integers of more than
            15 digits are written as text, because a spreadsheet would round them; other numbers
            have all their digits. Texts stay texts, even if they begin like a formula or an
            address. A column whose times are all midnight shows dates.
        name: the path of the file. Rows that do not fit into one sheet are written to further
            sheets.
        facts: the facts of the table as JSON values. They are written to a hidden sheet, and in
            words to the sheet "about"; None: there are none.

    Raises:
        MissingExtra: XlsxWriter is not installed.
        OSError: the file cannot be written, or a text is too long for a cell.
    """
    require("xlsxwriter")
    import xlsxwriter
    from xlsxwriter.exceptions import XlsxWriterException

    lengths = table.select(cs.string().str.len_chars().max()).rows()
    longest: int = max((length or 0 for row in lengths for length in row), default=0)
    if longest > _TEXT:
        raise OSError(
            f"a text of {longest} characters is too long for a cell of a workbook, which holds "
            f"{_TEXT}; write .csv or .parquet instead"
        )
    with TemporaryDirectory() as scratch:
        book = xlsxwriter.Workbook(name, {"constant_memory": True, "tmpdir": scratch})
        _fill(book, table)
        if facts is not None:
            _write_facts(book, facts)
        try:
            book.close()
        except XlsxWriterException as error:
            raise OSError(str(error)) from error


class _Digits(float):
    """A float that is written to a workbook with all its digits, up to 17."""

    def __format__(self, spec: str) -> str:
        return repr(float(self)).removesuffix(".0")


#: XML names in the parts of a workbook.
_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_LINK = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def read_workbook(path: Path, numbers: Sequence[str]) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Return the rows of a workbook that `write_workbook` wrote, and its facts (the public
    description of the rows as JSON values).

    The XML is read as a stream, without a tree in memory.

    Args:
        path: the path of the file, which a spreadsheet may have saved again.
        numbers: names of the columns of numbers, in which a text may replace a number with many
            digits.

    Raises:
        InvalidInput: the workbook is too large.
        ValueError: `write_workbook` did not write the file.
    """
    check_bytes(path, _MOST_PACKED)
    try:
        with zipfile.ZipFile(path) as archive:
            sheets = _sheets(archive)
    except _NO_WORKBOOK as error:
        raise ValueError(f"it is not a workbook that counton wrote ({error})") from error
    carried = "".join(str(cell or "") for cell in sheets.get(_CARRIED, {}).get(0, []))
    found = parse_json(carried) if carried else {}
    if not isinstance(found, dict):
        raise ValueError(f"its sheet {_CARRIED!r} is damaged (not a JSON object)")
    columns: dict[str, list[Any]] = {}
    for sheet, cells in sheets.items():
        if not re.fullmatch(r"table( \d+)?", sheet):
            continue
        rows = max((len(column) for column in cells.values()), default=0)
        for values in cells.values():
            if values and values[0] is not None:
                values += [None] * (rows - len(values))
                name = re.sub(r"^(window_\w+|counted_until) \(.*", r"\1", str(values[0]))
                columns.setdefault(name, []).extend(values[1:])
    check_shape(max((len(one) for one in columns.values()), default=0), len(columns))
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
    """Convert a text to an integer or a float.

    `write_workbook` writes numbers with many digits as texts, because a spreadsheet would round
    them.
    """
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


class _Part:
    """Parser target for one XML file inside a workbook, which handles its tags one after another.

    Args:
        room: numbers of cells and of characters that may still be stored. All files reduce the same
            list.
    """

    #: Tags whose text is needed.
    texts: tuple[str, ...] = (f"{_MAIN}t",)

    def __init__(self, room: list[int]) -> None:
        self._room = room
        self._text: list[str] | None = None

    def doctype(self, *_: Any) -> None:
        """Raise an error for XML that declares entities, because an ordinary workbook does not."""
        raise ValueError(
            "its XML has entity declarations, which can hide harmful content: save it anew"
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Handle the start of a tag of the XML file; ``attributes`` are those of the tag."""
        if tag in self.texts:
            self._text = []

    def data(self, text: str) -> None:
        """Handle a piece of text within a tag of the XML file."""
        if self._text is not None:
            self._take(1, len(text))
            self._text.append(text)

    def end(self, tag: str) -> None:
        """Handle the end of a tag of the XML file; ``tag`` is the name of the tag."""
        if self._text is not None and tag in self.texts:
            self.take_text(tag, "".join(self._text))
            self._text = None

    def take_text(self, tag: str, text: str) -> None:
        """Handle the complete text of a tag of the XML file; by default nothing happens."""

    def close(self) -> None:
        """Handle the end of the XML file; nothing happens."""

    def _take(self, place: int, many: int) -> None:
        self._room[place] -= many
        if self._room[place] < 0:
            what = ("cells", "characters")[place]
            raise too_large(f"more than {_ROOM[place]:,} {what}", f"{_ROOM[place]:,}")


class _TextPool(_Part):
    """Parser target for the workbook's list of texts, to which cells refer by number."""

    def __init__(self, room: list[int]) -> None:
        super().__init__(room)
        self.found: list[str] = []

    @override
    def start(self, tag: str, attributes: dict[str, str]) -> None:
        super().start(tag, attributes)
        if tag == f"{_MAIN}si":
            self._take(0, 1)
            self.found.append("")

    @override
    def take_text(self, tag: str, text: str) -> None:
        if self.found:
            self.found[-1] += text


class _TagList(_Part):
    """Parser target that collects the attributes of all tags with one name."""

    def __init__(self, tag: str, room: list[int]) -> None:
        super().__init__(room)
        self._tag = tag
        self.found: list[dict[str, str]] = []

    @override
    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag.endswith(self._tag):
            self._take(0, 1)
            self.found.append(attributes)


class _Sheet(_Part):
    """Parser target for a sheet, which collects the cells of each column. Empty cells above the
    last filled one are None.
    """

    texts = (f"{_MAIN}t", f"{_MAIN}v")

    def __init__(self, texts: Sequence[str], room: list[int]) -> None:
        super().__init__(room)
        self._shared = texts
        self.found: dict[int, list[Any]] = {}
        self._rows = 0
        self._kind = "n"
        self._column = 0
        self._value: str | None = None

    @override
    def start(self, tag: str, attributes: dict[str, str]) -> None:
        super().start(tag, attributes)
        if tag == f"{_MAIN}row":
            self._rows += 1
        elif tag == f"{_MAIN}c":
            self._kind, self._column = attributes.get("t", "n"), _column(attributes["r"])
            self._value = None

    @override
    def take_text(self, tag: str, text: str) -> None:
        self._value = text if self._value is None else self._value + text

    @override
    def end(self, tag: str) -> None:
        super().end(tag)
        if tag != f"{_MAIN}c" or self._value is None:
            return
        values = self.found.setdefault(self._column, [])
        empty = self._rows - 1 - len(values)
        self._take(0, empty + 1)
        values += [None] * empty
        values.append(self._read(self._value))

    def _read(self, value: str) -> Any:
        if self._kind == "s":
            text = self._shared[int(value)]
            self._take(1, len(text))
            return _unescape(text)
        if self._kind in ("inlineStr", "str"):
            return _unescape(value)
        return bool(int(value)) if self._kind == "b" else _number(value)


def _unescape(text: str) -> str:
    """Replace the codes in a workbook's text by the characters for which they stand; XML forbids
    these characters.

    >>> _unescape("_x0041_, _x005F_x0041_, _xD800_")
    'A, _x0041_, _xD800_'
    """
    return _CODE.sub(lambda found: chr(int(found[1], 16)), text) if "_x" in text else text


def _sheets(archive: zipfile.ZipFile) -> dict[str, dict[int, list[Any]]]:
    """Return the cells of each sheet, by its name and by the index of the column."""
    room, size = list(_ROOM), 0

    def fill(path: str, part: _Part) -> None:
        nonlocal size
        size += archive.getinfo(path).file_size  # no more is decompressed
        if size > MOST_BYTES:
            raise too_large(f"{size:,} bytes without compression", f"{MOST_BYTES:,}")
        parser = ET.XMLParser(target=part)
        with archive.open(path) as file:
            while block := file.read(2**16):
                parser.feed(block)
        parser.close()

    texts = _TextPool(room)
    if "xl/sharedStrings.xml" in archive.namelist():
        fill("xl/sharedStrings.xml", texts)
    links, named = _TagList("Relationship", room), _TagList(f"{_MAIN}sheet", room)
    fill("xl/_rels/workbook.xml.rels", links)
    fill("xl/workbook.xml", named)
    places = {one["Id"]: one["Target"].removeprefix("/xl/") for one in links.found}
    found = {}
    for one in named.found:
        sheet = _Sheet(texts.found, room)
        fill(f"xl/{places[one[_LINK]]}", sheet)
        found[one["name"]] = sheet.found
    return found


def _column(place: str) -> int:
    number = 0
    for letter in re.sub(r"\d", "", place)[:4]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _fill(book: Any, table: pl.DataFrame) -> None:
    """Write a table to a workbook; a long table gets several sheets, each with a header."""
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
    # Windows of days begin and end at midnight, a time without information.
    midnights = table.select(cs.datetime().dt.time() == pl.time(0)).select(pl.all().all())
    styles = [
        day if name not in midnights.columns or midnights[name][0] else time
        for name in table.columns
    ]
    numbers: dict[int | None, Any] = {
        places: book.add_format({"num_format": "#,##0" + "." * (places > 0) + "0" * places})
        for places in range(_MOST_DECIMALS + 1)
    }
    for first in range(0, max(table.height, 1), _ROWS - 1):
        sheet = book.add_worksheet("table" if not first else f"table {first // (_ROWS - 1) + 1}")
        sheet.freeze_panes(1, 0)
        for column, (words, kind) in enumerate(zip(header, table.dtypes, strict=True)):
            wide = 20 if kind.is_temporal() else 12
            # the icon of a filter
            sheet.set_column(column, column, max(wide, min(len(words) + 5, 60)))
            sheet.write_string(0, column, words, bold)
        for row, values in enumerate(islice(rows, _ROWS - 1), 1):
            digits = _digits(table.columns, values)
            for column, value in enumerate(values):
                if value is None:
                    continue
                if isinstance(value, bool):
                    sheet.write_boolean(row, column, value)
                elif isinstance(value, int | float) and abs(value) < _SHOWN.get(type(value), 0):
                    sheet.write_number(row, column, _Digits(value), numbers.get(digits[column]))
                elif isinstance(value, date) and value.year >= 1900:
                    sheet.write_datetime(row, column, value, styles[column])
                else:
                    sheet.write_string(row, column, str(value))
        last = min(table.height - first, _ROWS - 1)
        if last > 0:
            sheet.autofilter(0, 0, last, table.width - 1)


def _write_facts(book: Any, facts: Mapping[str, Any]) -> None:
    """Write the facts of the table, the public description of its stream, to two sheets: in words
    for people, and hidden as JSON.
    """
    sheet = book.add_worksheet("about")
    sheet.set_column(0, 0, 16)
    sheet.set_column(1, 1, 100)
    words: list[tuple[str, str | float]] = []
    for name, value in facts.items():
        if isinstance(value, str | int | float):
            words.append((name.replace("_", " "), "yes" if value is True else value))
        elif isinstance(value, list):
            words += [(name, one) for one in value if isinstance(one, str)]
        elif name == "noise" and "std" in value:
            words.append((name, f"{value['family']} of standard deviation {figures(value['std'])}"))
    for row, (name, said) in enumerate(words):
        sheet.write_string(row, 0, name)
        if isinstance(said, str):
            sheet.write_string(row, 1, said[:_TEXT])
        else:
            sheet.write_number(row, 1, _Digits(said))
    # not the code of a character
    carried = json.dumps(facts, sort_keys=True).replace("_x", "\\u005fx")
    hidden = book.add_worksheet(_CARRIED)
    hidden.very_hidden()
    for row, begin in enumerate(range(0, len(carried), _TEXT)):
        hidden.write_string(row, 0, carried[begin : begin + _TEXT])


def _digits(names: Sequence[str], values: Sequence[Any]) -> list[int | None]:
    """Return the number of decimals that each cell of a row shows, as the noise justifies; None:
    all.

    A cell contains all digits of the published number, even if it shows fewer.
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

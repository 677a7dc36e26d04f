"""Limits on the size of files of released numbers, checked before rows are read.

Small files can describe large tables: a single row of step 10^9, or a row of ten thousand names
above a million empty rows. Parquet and Arrow files state their numbers of rows and columns.
"""

from __future__ import annotations

import re
from pathlib import Path

from counton.base.errors import InvalidInput
from counton.base.lazy_polars import polars as pl
from counton.base.outside_input import structure_of

#: Largest number of bytes of a table, also when it is decompressed.
MOST_BYTES = 2**30
#: Largest number of bytes of a description, or of a service's answer.
MOST_TEXT = 2**28
MOST_ROWS = 2**24
MOST_COLUMNS = 1024
#: Largest number of steps times groups of a release, however few rows the file has.
MOST_NUMBERS = 2**24
#: Largest number of values in a table that has fewer bytes than values, because most are empty.
_FEW = 2**20
#: Pattern of strings in JSON; a string before a colon is a name.
_NAME = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*:)?', re.DOTALL)
_BLOCK = 2**20


def check_bytes(path: Path, most: int = MOST_BYTES) -> None:
    """Raise an error for a file of more than ``most`` bytes.

    Raises:
        InvalidInput: the file is too large; the message names both numbers.
        OSError: the file cannot be read.
    """
    if (size := path.stat().st_size) > most:
        raise too_large(f"{size:,} bytes", f"{most:,}")


def too_large(what: str, most: str) -> InvalidInput:
    """Return the error for a file that exceeds a limit.

    Args:
        what: the size of the file, in words.
        most: the limit, in words.
    """
    return InvalidInput(
        f"it has {what}, and at most {most} can be read: export fewer groups or steps (counton "
        "export), and read that file"
    )


def check_shape(rows: int, columns: int, size: int | None = None) -> None:
    """Raise an error for a table that would be too large in memory.

    Args:
        rows, columns: numbers of rows and columns of the table.
        size: bytes of the table as text, in which each value has at least one byte; None: the size
            does not bound the number of values.

    Raises:
        InvalidInput: the table is too large; the message names the limit.
    """
    if rows > MOST_ROWS:
        raise too_large(f"{rows:,} rows", f"{MOST_ROWS:,}")
    if columns > MOST_COLUMNS:
        raise too_large(f"{columns:,} columns", f"{MOST_COLUMNS:,}")
    if size is not None and rows * columns > max(size, _FEW):
        raise InvalidInput(
            f"it has {rows:,} rows of {columns:,} columns in only {size:,} bytes, so most of them "
            "are empty: give the file as counton wrote it"
        )


def check_csv(path: Path, separator: str = ",") -> None:
    """Raise an error for a CSV file that is too large.

    Args:
        path: path of the file.
        separator: the character between fields.

    Raises:
        InvalidInput: the table is too large; the message names the limit.
        OSError: the file cannot be read.
    """
    check_bytes(path)
    rows, size = 0, path.stat().st_size
    with path.open("rb") as file:
        columns = file.readline(_BLOCK).count(separator.encode()) + 1
        while block := file.read(_BLOCK):
            rows += block.count(b"\n")
    check_shape(rows, columns, size)


def check_json_table(data: bytes) -> None:
    """Raise an error for a JSON list of rows with too many rows, too many columns, or too much
    nesting.

    Raises:
        InvalidInput: the table is too large; the message names the limit.
    """
    rows = structure_of(data).count(b"{")
    names: set[bytes] = set()
    for found in _NAME.finditer(data):
        if found[2]:
            names.add(found[1])
        if len(names) > MOST_COLUMNS:
            break
    check_shape(rows, len(names), len(data))


def check_frame(rows: pl.LazyFrame) -> None:
    """Raise an error for a table with too many rows or columns, as its file format states them.

    Raises:
        InvalidInput: the table is too large; the message names the limit.
    """
    columns = len(rows.collect_schema())
    check_shape(rows.select(pl.len()).collect().item(), columns)

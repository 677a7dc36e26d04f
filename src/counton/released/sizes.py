"""How large a file of released numbers may be, which is refused before its rows are read.

Small files can say that they are large: one row of step 10^9, a row of ten thousand names before a
million rows of none. Parquet and Arrow files say how many rows and columns they have.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from counton.base.errors import InvalidInput
from counton.base.outside_input import structure_of

#: Bytes of a table, also without its compression.
MOST_BYTES = 2**30
#: Bytes of a description, or of what a service answers.
MOST_TEXT = 2**28
MOST_ROWS = 2**24
MOST_COLUMNS = 1024
#: Steps times groups that a release has in memory, whatever rows a file has of them.
MOST_NUMBERS = 2**24
#: Cells of rows that a table of a few bytes may have, most of them empty.
_FEW = 2**20
#: Texts of JSON; those before a colon are names.
_NAME = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")(\s*:)?', re.DOTALL)
_BLOCK = 2**20


def check_bytes(path: Path, most: int = MOST_BYTES) -> None:
    """Refuse a file of more bytes.

    Raises:
        InvalidInput: naming both numbers.
        OSError: it cannot be read.
    """
    if (size := path.stat().st_size) > most:
        raise too_large(f"{size:,} bytes", f"{most:,}")


def too_large(what: str, most: str) -> InvalidInput:
    """The error for a file beyond a bound."""
    return InvalidInput(
        f"it has {what}, and at most {most} are read: give parts of it, by groups or steps "
        f"(counton export)"
    )


def check_shape(rows: int, columns: int, size: int | None = None) -> None:
    """Refuse a table that is too large in memory.

    Args:
        rows, columns: of the table.
        size: bytes of them as text, at least one for each value; None: that says
            nothing of how many they are.

    Raises:
        InvalidInput: naming the bound.
    """
    if rows > MOST_ROWS:
        raise too_large(f"{rows:,} rows", f"{MOST_ROWS:,}")
    if columns > MOST_COLUMNS:
        raise too_large(f"{columns:,} columns", f"{MOST_COLUMNS:,}")
    if size is not None and rows * columns > max(size, _FEW):
        raise InvalidInput(
            f"it has {rows:,} rows of {columns:,} columns in {size:,} bytes, so that most of them "
            f"are empty: give it as it was written"
        )


def check_csv(path: Path) -> None:
    """Refuse a table of text that is too large.

    Raises:
        InvalidInput: naming the bound.
        OSError: it cannot be read.
    """
    check_bytes(path)
    rows, size = 0, path.stat().st_size
    with path.open("rb") as file:
        columns = file.readline(_BLOCK).count(b",") + 1
        while block := file.read(_BLOCK):
            rows += block.count(b"\n")
    check_shape(rows, columns, size)


def check_json_table(data: bytes) -> None:
    """Refuse rows as JSON objects that are too many, too wide, or too deep.

    Raises:
        InvalidInput: naming the bound.
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
    """Refuse a table of a format that says how many rows and columns it has.

    Raises:
        InvalidInput: naming the bound.
    """
    columns = len(rows.collect_schema())
    check_shape(rows.select(pl.len()).collect().item(), columns)

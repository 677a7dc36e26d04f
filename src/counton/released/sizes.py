"""How large a file of released numbers is, before anything of it is decoded.

Small files can say that they are large: one row of step 10^9, a page of gigabytes that takes a few
kilobytes, a row of ten thousand names before a million rows of none. Whatever is larger than the
bounds here is refused before memory is taken for it.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counton.base.errors import InvalidInput
from counton.base.outside_input import structure_of
from counton.released.arrow_sizes import size_of_file

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
#: Bytes that a table may take without its compression, however few it has.
_FEW_BYTES = 2**27
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


def _check_unpacked(size: int, packed: int) -> None:
    most = min(MOST_BYTES, max(_FEW_BYTES, 64 * packed))
    if size > most:
        raise too_large(f"{packed:,} bytes, {size:,} without compression", f"{most:,}")


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


def check_arrow(data: bytes) -> None:
    """Refuse an Arrow file that is too large without its compression.

    Raises:
        InvalidInput: naming the bound.
        ValueError: it is none.
    """
    rows, size = size_of_file(data)
    check_shape(rows, 1)
    _check_unpacked(size, len(data))


def check_parquet(path: Path) -> None:
    """Refuse a Parquet file that is too large without its compression.

    Its footer says where the pages of each column lie, and each page, how large it is.

    Raises:
        InvalidInput: naming the bound.
        ValueError: it is none.
        OSError: it cannot be read.
    """
    check_bytes(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _check_pages(data)


def _check_pages(data: mmap.mmap) -> None:
    if len(data) < 12 or data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise ValueError("it is no Parquet file, or ends early")
    (length,) = struct.unpack_from("<I", data, len(data) - 8)
    if length > len(data) - 12:
        raise ValueError("it is no Parquet file, or was changed")
    try:
        said = _Compact(data[len(data) - 8 - length : len(data) - 8]).struct()
        groups = said.get(_ROW_GROUPS, [])
        check_shape(max(said[_ROWS], sum(one[_ROWS_OF_GROUP] for one in groups)), len(said[2]))
        size = 0
        for page in (
            page for group in groups for column in group[1] for page in _pages(data, column[3])
        ):
            size += page[_PAGE_SIZE]
            for kind in (_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_2):
                values = page.get(kind, {}).get(1, 0)
                if not 0 <= values <= MOST_ROWS:
                    raise too_large(f"a page of {values:,} values", f"{MOST_ROWS:,}")
            if page.get(_DATA_PAGE, {}).get(2) == 7 or page.get(_DATA_PAGE_2, {}).get(4) == 7:
                raise InvalidInput(
                    "it has texts that are written by what differs from the one before "
                    "(DELTA_BYTE_ARRAY), which can be of any length: write it with another encoding"
                )
            if page[_PAGE_SIZE] < 0:
                raise ValueError("a page of it has no size")
            _check_unpacked(size, len(data))
    except (struct.error, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no Parquet file, or was changed: {error!r}") from error


#: Fields of the parts of a Parquet file, by their numbers in its definition.
_ROWS, _ROW_GROUPS, _ROWS_OF_GROUP = 3, 4, 3
_PAGE_SIZE, _PACKED_SIZE, _DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_2 = 2, 3, 5, 7, 8
_MOST_DEPTH, _LARGEST_HEADER = 16, 2**16
_CHUNK_SIZE, _FIRST_DATA, _FIRST_DICTIONARY = 7, 9, 11


def _pages(data: mmap.mmap, column: dict[int, Any]) -> Iterator[dict[int, Any]]:
    """Headers of the pages of a column of a group of rows."""
    at = column[_FIRST_DATA]
    at = min(at, column.get(_FIRST_DICTIONARY) or at)
    end = at + column[_CHUNK_SIZE]
    if not 0 <= at <= end <= len(data):
        raise ValueError("a column of it lies elsewhere")
    while at < end:
        reader = _Compact(data[at : min(end, at + _LARGEST_HEADER)])
        page = reader.struct()
        if page[_PACKED_SIZE] < 0:
            raise ValueError("a page of it has no size")
        yield page
        at += reader.at + page[_PACKED_SIZE]


class _Compact:
    """Thrift's compact form: it describes the parts of Parquet files."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Values by the numbers of their fields."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            found[number] = self._value(head & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            raise ValueError("parts of it lie too deep within each other")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind in (7, 8):
            size = 8 if kind == 7 else self._length()
            self.at += size
            return None
        if kind in (9, 10):
            head = self._byte()
            many = head >> 4 if head >> 4 < 15 else self._length()
            inner = head & 15
            if inner in (1, 2):
                self.at += many
                return None
            return [self._value(inner, depth + 1) for _ in range(many)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"it has a part of kind {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _length(self) -> int:
        """Of the following bytes, all of which are there."""
        found = self._varint()
        if found > len(self._data) - self.at:
            raise ValueError("a part of it is longer than it is")
        return found

    def _integer(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)

    def _varint(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
        raise ValueError("it has a number of too many bytes")

"""What the footer of a Parquet file says, before anything of the file is decoded.

It is read here since readers believe one part of it or another: of a footer that says 0 rows and
lists groups of ten they read none, without a word.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, Protocol

#: Fields of a footer by their numbers in Parquet's definition, and of a group of rows.
ROW_GROUPS = 4
_ROWS, _ROWS_OF_GROUP = 3, 3
_MOST_DEPTH = 16
#: With what a file begins and ends.
_MAGIC = b"PAR1"


class _Bytes(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, place: slice, /) -> bytes: ...


def footer_of(data: _Bytes) -> dict[int, Any]:
    """Values of the footer by the numbers of their fields.

    Raises:
        ValueError: the bytes are no Parquet file, or were changed.
    """
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise ValueError("it is no Parquet file, or ends early")
    (length,) = struct.unpack("<I", data[-8:-4])
    if length > len(data) - 12:
        raise ValueError("it is no Parquet file, or was changed")
    try:
        return Compact(data[len(data) - 8 - length : len(data) - 8]).struct()
    except (struct.error, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no Parquet file, or was changed: {error!r}") from error


def rows_in(footer: dict[int, Any]) -> int:
    """How many rows a footer says that there are, by all of its parts.

    Raises:
        ValueError: its parts say otherwise than the whole.

    >>> rows_in({3: 20, 4: [{3: 12}, {3: 8}]})
    20
    >>> rows_in({3: 0, 4: [{3: 12}, {3: 8}]})
    Traceback (most recent call last):
    ...
    ValueError: its footer says that it has 0 rows, and lists groups of 20
    """
    try:
        whole, groups = footer[_ROWS], [one[_ROWS_OF_GROUP] for one in footer.get(ROW_GROUPS, [])]
        if whole != sum(groups) or min(groups, default=0) < 0:
            raise ValueError(
                f"its footer says that it has {whole:,} rows, and lists groups of {sum(groups):,}"
            )
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it is no Parquet file, or was changed: {error!r}") from error
    return int(whole)


class _FileBytes:
    """Parts of a file, read as they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, path.stat().st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: slice, /) -> bytes:
        begin, end, _ = place.indices(self._size)
        with self._path.open("rb", buffering=0) as file:
            file.seek(begin, os.SEEK_SET)
            return file.read(end - begin)


def rows_of_file(path: Path) -> int:
    """The same of a file, of which its footer alone is read.

    Raises:
        ValueError: it is no Parquet file, was changed, or contradicts itself.
        OSError: it cannot be read.
    """
    return rows_in(footer_of(_FileBytes(path)))


class Compact:
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

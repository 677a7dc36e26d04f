"""Rows of a growing file by their byte positions, from JSON lines or CSV."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

from typing_extensions import override

from counton.base.errors import InvalidInput
from counton.base.outside_input import open_plain
from counton.state.database import Closing

_JSON = (".jsonl", ".ndjson")


class RowsOfFile(Closing):
    """Reader of the rows of a file of JSON lines, by their positions in bytes.

    Args:
        path: path of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file: BinaryIO = os.fdopen(open_plain(path), "rb")
        except OSError as error:
            raise InvalidInput(
                f"{str(path)!r} cannot be read ({error.strerror}); check the path"
            ) from error

    def close(self) -> None:
        """Close the file from which rows are read."""
        self._file.close()

    def bytes_of(self, begin: int, end: int) -> bytes:
        """Return the bytes of the file from position ``begin`` up to, not including, ``end``."""
        self._file.seek(begin)
        return self._file.read(end - begin)

    def digest(self, begin: int, end: int) -> str:
        """Return the SHA-256, in hexadecimal, of the file's bytes from position ``begin`` up to,
        not including, ``end``.
        """
        return hashlib.sha256(self.bytes_of(begin, end)).hexdigest()

    def end_of_rows(self, begin: int, rows: int, size: int) -> int:
        """Return the position in bytes after the next rows that are whole.

        Args:
            begin: position of the first row.
            rows: largest number of rows.
            size: largest number of bytes; a single longer row is allowed.
        """
        end = begin
        for number, place in enumerate(self._ends(begin), 1):
            if number > rows or (place - begin > size and end > begin):
                break
            end = place
        return end

    def lines(self, begin: int, end: int) -> bytes:
        """Return the rows of the file between two positions in bytes, as JSON lines."""
        return self.bytes_of(begin, end)

    def count(self, begin: int, end: int) -> int:
        """Return the number of rows of the file between two positions in bytes."""
        return sum(1 for _ in takewhile(lambda place: place <= end, self._ends(begin)))

    def _ends(self, begin: int) -> Iterator[int]:
        """Yield the position in bytes at which each row ends, from the position ``begin`` on.

        A last line that is still being written is left out.
        """
        self._file.seek(begin)
        for line in iter(self._file.readline, b""):
            if not line.endswith(b"\n") and not _is_object(line):
                return
            begin += len(line)
            yield begin


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


class CsvRows(RowsOfFile):
    """Reader of the rows of a CSV file with a header, which returns rows as JSON lines of texts."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._header, self._first = next(self._records(0), (list[str](), 0))
        if len(set(self._header)) < len(self._header):
            self.close()
            raise InvalidInput(f"{str(path)!r} has two columns with one name; rename one of them")

    def _records(self, begin: int) -> Iterator[tuple[list[str], int]]:
        """Yield the fields of each record, and the position in bytes at which it ends, from the
        position ``begin`` on.
        """
        self._file.seek(begin)
        end = begin

        def texts() -> Iterator[str]:
            nonlocal end
            for line in iter(self._file.readline, b""):
                end += len(line)
                yield line.decode("utf-8-sig" if end == len(line) else "utf-8")

        try:
            for record in csv.reader(texts(), strict=True):
                yield record, end
        except csv.Error:  # a quote is still open: the record is being written
            return
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{str(self.path)!r} is not valid UTF-8; convert it") from error

    @override
    def _ends(self, begin: int) -> Iterator[int]:
        for record, end in self._records(max(begin, self._first)):
            if record and len(record) < len(self._header) and self._is_last(end):
                return
            yield end

    def _is_last(self, end: int) -> bool:
        """Return whether the file ends at position ``end``, and its last line has no newline
        yet.
        """
        place = self._file.tell()
        self._file.seek(end - 1)
        last = self._file.read(2)
        self._file.seek(place)
        return len(last) == 1 and last != b"\n"

    @override
    def lines(self, begin: int, end: int) -> bytes:
        found = list[str]()
        for record, place in self._records(max(begin, self._first)):
            if place > end:
                break
            if len(record) not in (0, len(self._header)):
                raise InvalidInput(
                    f"{str(self.path)!r} has a line of {len(record)} fields before byte {place:,}, "
                    f"but {len(self._header)} columns are named in its first line; correct the line"
                )
            if record:
                # An empty field is a missing value, as in a job's own files.
                row = {
                    name: value or None for name, value in zip(self._header, record, strict=True)
                }
                found.append(json.dumps(row) + "\n")
        return "".join(found).encode()


def open_rows(path: Path) -> RowsOfFile:
    """Open a file of rows; the ending of its name decides its format.

    >>> path = Path("visits.csv")
    >>> _ = path.write_text('time,page\\n2024-03-01T09:00,"home, sweet"\\n')
    >>> with open_rows(path) as rows:
    ...     rows.lines(0, rows.end_of_rows(0, 100, 2**20))
    b'{"time": "2024-03-01T09:00", "page": "home, sweet"}\\n'
    """
    ending = path.suffix.lower()
    if ending in _JSON:
        return RowsOfFile(path)
    if ending == ".csv":
        return CsvRows(path)
    raise InvalidInput(
        f"{str(path)!r} is neither .jsonl, .ndjson nor .csv; write its rows as one of these, or "
        f"send them through a pipe"
    )

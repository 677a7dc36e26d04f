"""Rows of files, read lazily with polars; and opening of events: paths, patterns, folders, data
frames.
"""

from __future__ import annotations

import csv
import filecmp
import gzip
import hashlib
import io
import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, cast

from typing_extensions import override

from counton.base.errors import InvalidInput, field, is_text
from counton.base.lazy_polars import polars as pl
from counton.base.sqlite_header import sqlite_header
from counton.rows.paths import CsvForm, Format, event_paths, format_of, is_database, place_of_file
from counton.rows.readable_lines import (
    FileRows,
    LinesOfRows,
    csv_rows,
    has_short_line,
    is_beyond_floats,
    json_rows,
    keys_of,
    sift,
)
from counton.rows.sources import Rows, Source, UnreadableRow, name_of, open_frame, unreadable_errors

CSV = CsvForm()
#: First bytes of files compressed by gzip and zstd, which polars decompresses.
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")

_LOOKED_AT = 4096

#: Number of first JSON lines from which names of columns are collected.
_JSON_ROWS = 10_000


#: Number of first lines of a zstd file to decompress at first.
_FIRST_LINES = 2**16

NO_UTF8 = "has bytes that are not UTF-8"


def refuse_sqlite(path: str) -> None:
    """Refuse a SQLite file, recognised by its first bytes, before it is opened as another kind of
    file.
    """
    with suppress(OSError):
        if sqlite_header(Path(path)) is not None:
            raise InvalidInput(
                f"{path!r} is a SQLite database, not a table; name it in a job file, with "
                f"{field('events', 'sqlite:///FILE')} and {field('query', 'select ...')}, or write "
                "its rows into a file"
            )


class EventFile(Rows):
    """Rows of one file; or of standard input (``-``) or a pipe, whose bytes are kept in memory.

    Args:
        path: path of a file, or ``-``.
        stated: format of the file; None: by the ending of its name. Standard input is CSV unless
            stated.
        form: separator, decimal sign and sign of comments, for CSV.
        piped: whether the path may be a pipe.

    Raises:
        InvalidInput: the file is missing or empty, or its format is unknown.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        stated: str | None = None,
        *,
        form: CsvForm = CSV,
        piped: bool = False,
    ) -> None:
        path = os.fspath(path)
        self.name = "standard input" if path == "-" else path
        self._bytes: bytes | None = None
        self._is_short: bool | None = None
        self.form = form
        if path == "-":
            self.kind: Format = format_of(path, stated or "csv")
            self._bytes = sys.stdin.buffer.read()
        else:
            self.kind = format_of(path, stated)
            if piped and Path(path).is_fifo():  # such as bash's <(command)
                self._bytes = Path(path).read_bytes()
            elif not Path(path).is_file():
                raise InvalidInput(
                    f"{path!r} is not a file; check the path, or use - to pipe events"
                )
            refuse_sqlite(path)
        self.path = path
        self.place = None if self._bytes is not None else place_of_file(path)
        self._stamp = self._present()
        size = len(self._bytes) if self._bytes is not None else Path(path).stat().st_size
        if not size and self.kind != "jsonl":  # JSON lines without events are an empty file
            needs = (
                "the first line, which names the columns"
                if self.kind == "csv"
                else "Parquet's own frame"
            )
            raise InvalidInput(
                f"{self.name} is empty (0 bytes); even a {self.kind} file without events needs "
                f"{needs}: write it again"
            )

    @override
    def digest(self, columns: Sequence[str] = ()) -> str:
        return self._digest

    @cached_property
    def _digest(self) -> str:
        try:
            with self._content() as stream:
                hashed = hashlib.file_digest(cast(io.BufferedReader, stream), "sha256")
        except unreadable_errors(EOFError, zlib.error) as error:
            raise self.unreadable(error) from error
        return hashed.hexdigest()

    @override
    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        if self._bytes is not None:
            return Path(other).read_bytes() == self._bytes
        return Path(self.path).samefile(other) or filecmp.cmp(self.path, other, shallow=False)

    def beginning(self, size: int) -> tuple[EventFile, bool, int]:
        """Return the beginning of this file, as a file of its own whose last line is whole.

        Args:
            size: largest number of bytes, after decompression.

        Returns:
            The beginning; whether it is the whole file; and the number of bytes read, which is
                ``size`` + 1 if the file is longer than ``size``.
        """
        try:
            with self._content(size + 1) as lines:
                held = lines.read(size + 1)
        except unreadable_errors(EOFError, zlib.error) as error:
            raise self.unreadable(error) from error
        whole = len(held) <= size
        found = copy(self)
        found._bytes = held if whole else held[: held.rfind(b"\n") + 1]
        found._stamp = found._present()
        return found, whole, len(held)

    def has_changed(self) -> bool:
        """Return True if the file was written or replaced since it was opened."""
        return self._present() != self._stamp

    def _present(self) -> tuple[int, ...]:
        if self._bytes is not None:
            return ()
        found = Path(self.path).stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    @override
    def number(self, given: pl.Expr) -> pl.Expr:
        if self.kind != "csv" or self.form.decimal == ".":
            return given
        return given.str.replace_many([".", ","], [",", "."])  # a point is in no number

    @override
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        source = Path(self.path) if self._bytes is None else io.BytesIO(self._bytes)
        if self.kind == "parquet":
            return pl.scan_parquet(source, glob=False)
        try:
            first = self._start()
        except OSError as error:
            raise self.unreadable(error) from error
        # For CSV only the header is checked, and for JSON lines no row: each row decides for
        # itself.
        header = first.split(b"\n")[0] if self.kind == "csv" else b""
        in_utf16 = first.startswith((b"\xff\xfe", b"\xfe\xff"))
        if (in_utf16 or b"\0" in header) and not first.startswith(_COMPRESSED):
            raise InvalidInput(
                f"{self.name} is UTF-16 or not text at all, and a {self.kind} file must be text in "
                f"UTF-8; convert it, or state its format ({field('file_format')})"
            )
        if self.kind == "csv":
            # Text only: the type of a column of times or names must not be guessed.
            rows = pl.scan_csv(
                source,
                infer_schema=False,
                glob=False,
                separator=self.form.separator,
                comment_prefix=self.form.comment,
            )
            # All columns are read: with some alone, polars misses that a row has too many fields.
            return rows.map_batches(self._refuse_short, projection_pushdown=False, streamable=True)
        if columns is None:
            return pl.LazyFrame(schema=dict.fromkeys(self._keys, pl.String))
        # Text, as for CSV: if types were guessed from all rows, one row could change the meaning of
        # others.
        return pl.scan_ndjson(source, schema=dict.fromkeys(columns, pl.String))

    def _refuse_short(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Refuse lines of CSV with fewer fields than the header, because polars would fill the
        missing fields with null.
        """
        width = rows.width
        if width > 1 and rows.to_series(width - 1).null_count():
            if self._is_short is None:
                with self._lines() as lines:
                    self._is_short = has_short_line(lines, width, self.form.separator)
            if self._is_short:
                raise pl.exceptions.ShapeError("a line has fewer fields than the header")
        return rows

    @cached_property
    def _keys(self) -> list[str]:
        """Keys that occur in the first lines of a file of JSON lines. A line that is no JSON object
        adds no key.
        """
        found = dict[str, None]()
        for keys in islice(self._keys_of_lines(), _JSON_ROWS):
            found |= keys
        return list(found)

    def _keys_of_lines(self) -> Iterator[dict[str, None]]:
        try:
            with self._lines() as lines:
                for line in lines:
                    if line.strip():
                        keys = keys_of(line.decode("utf-8", "replace"))
                        yield dict.fromkeys(filter(is_text, keys))
        except unreadable_errors(EOFError, zlib.error) as error:
            raise self.unreadable(error) from error

    @override
    def _may_lack(self, name: str) -> bool:
        """Return True if the file may lack this column, so that its values are null.

        Only a file of JSON lines may lack columns, because each line names its own.
        """
        if self.kind != "jsonl":
            return False
        return self.settled or not self._keys or any(name in keys for keys in self._keys_of_lines())

    def sift(self, columns: Sequence[str], most: int) -> Rows:
        """Return the rows of these columns, in which unreadable lines became empty rows.

        If all lines can be read, the file itself is returned. If more than ``most`` cannot, an
        error is raised.
        """
        asked = self.of_file(columns)
        if self.kind == "parquet":
            return self
        try:
            self.frame(asked).select(pl.col(asked).is_null().any()).collect(engine="streaming")
            return self
        except unreadable_errors() as error:
            reason = error
        try:
            with self._lines() as lines:
                if self.kind == "csv":
                    rows = csv_rows(lines, asked, self.form.separator)
                else:
                    rows = json_rows(lines, asked)
                found = sift(rows, asked, most)
        except unreadable_errors(EOFError, zlib.error):
            raise self.unreadable(reason) from reason
        if isinstance(found, FileRows):
            return SiftedFile(self, found)
        row, line = found
        with self._lines() as lines:
            header = b"" if self.kind == "jsonl" else lines.readline()
        wrong = _wrong_row(io.BytesIO(header + line), self.kind, self.form.separator)
        what = {"csv": "is no CSV", "jsonl": "is no JSON object"}[self.kind]
        raise self._wrong(row + 1, what if wrong is None else wrong[1])

    @override
    def unreadable(self, error: BaseException) -> InvalidInput:
        """Build the error for a row that cannot be read; it names the first such row if it is
        found.
        """
        if self.kind == "parquet" or isinstance(error, OSError):
            return super().unreadable(error)
        try:
            with self._lines() as lines:
                wrong = _wrong_row(lines, self.kind, self.form.separator)
        except (OSError, EOFError, zlib.error):
            wrong = None
        if wrong is None:
            return UnreadableRow(str(super().unreadable(error)))
        return self._wrong(*wrong)

    def _wrong(self, row: int, what: str) -> UnreadableRow:
        remedy = "correct the file, or state its format"
        if what == NO_UTF8:
            remedy = (
                "correct the file, or convert it, as from Latin-1 by iconv -f LATIN1 -t UTF-8 "
                f"{self.name} > utf8.{self.kind}"
            )
        return UnreadableRow(
            f"row {row:,} of {self.name} cannot be read as {self.kind} (it {what}); {remedy}"
        )

    def _start(self) -> bytes:
        if self._bytes is not None:
            return self._bytes[:_LOOKED_AT]
        with open(self.path, "rb") as file:
            return file.read(_LOOKED_AT)

    def _lines(self) -> IO[bytes]:
        """Open the file for reading, decompressed and without lines that are comments."""
        sign = self.form.comment
        if self.kind != "csv" or sign is None:
            return self._content()
        return io.BufferedReader(LinesOfRows(self._content(), sign.encode()))

    def _content(self, least: int | None = None) -> IO[bytes]:
        """Open the file, decompressed: all of it, or at least its first ``least`` bytes."""
        held, first = self._bytes, self._start()
        if first.startswith(_COMPRESSED[1]):
            packed = Path(self.path) if held is None else io.BytesIO(held)
            # all lines, or the first with at least ``least`` bytes together
            lines, most = pl.scan_lines(packed), _FIRST_LINES
            if least is None:
                found = lines.collect().to_series()
            else:
                found = lines.head(most).collect().to_series()
                while found.len() == most and int(found.str.len_bytes().sum()) < least:
                    most *= 2
                    found = lines.head(most).collect().to_series()
            return io.BytesIO("".join(f"{line}\n" for line in found).encode())
        if first.startswith(_COMPRESSED[0]):
            return cast(IO[bytes], gzip.open(self.path if held is None else io.BytesIO(held)))
        return open(self.path, "rb") if held is None else io.BytesIO(held)


class SiftedFile(Rows):
    """Rows of a file in which some lines are unreadable; an empty row stands for each of these
    lines.
    """

    def __init__(self, file: EventFile, found: FileRows) -> None:
        self.name, self.kind, self.file = file.name, file.kind, file
        self.together, self.settled, self.again = file.together, file.settled, file.again
        self.place = file.place
        self._rows, self.unread = found.rows, found.unread

    @override
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        return self._rows.lazy()

    @override
    def number(self, given: pl.Expr) -> pl.Expr:
        return self.file.number(given)

    @override
    def digest(self, columns: Sequence[str] = ()) -> str:
        return self.file.digest(columns)

    @override
    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        return self.file.has_bytes_of(other)

    @override
    def has_changed(self) -> bool:
        return self.file.has_changed()


def _wrong_row(lines: IO[bytes], kind: Format, separator: str) -> tuple[int, str] | None:
    """Find the first row that is not valid CSV or JSON; return its number and the reason, or None
    if all are valid.
    """
    row = 0
    texts = map(bytes.decode, lines)
    try:
        if kind == "jsonl":
            for text in texts:
                row += bool(text.strip())
                if not text.strip():
                    continue
                found = json.loads(text, parse_int=_small, parse_float=_small)
                if not isinstance(found, dict):
                    return row, "is no JSON object"
            return None
        reader = csv.reader(texts, strict=True, delimiter=separator)
        width = len(next(reader, []))
        for row, fields in enumerate(reader, 1):
            if fields and len(fields) != width:
                more = f"{len(fields) - width} more"
                fewer = f"{width - len(fields)} fewer"
                which = more if len(fields) > width else fewer
                ending = "s" * (len(fields) > 1)
                return row, f"has {len(fields)} field{ending}, {which} than the header"
    except UnicodeDecodeError:
        return row + 1, NO_UTF8
    except RecursionError:
        return row, "is nested too deeply"
    except _BeyondFloats:
        return row, "has a number beyond 1.8e308, the largest number that can be read"
    except ValueError:
        return row, "is no JSON object"
    except csv.Error as error:
        return row + 1, f"is no CSV ({error})"
    return None


class _BeyondFloats(Exception):
    """The error for a number that is larger than any float."""


def _small(number: str) -> str:
    if is_beyond_floats(number):
        raise _BeyondFloats
    return number


def open_source(events: object, stated: str | None = None, form: CsvForm = CSV) -> Source:
    """Open the events that a user names: files, standard input, or a data frame.

    Args:
        events: path of a file, ``-`` for standard input, a folder (the event files in it), a
            pattern such as ``logs/2024-*.csv``, a sequence of these; any table that exports Arrow:
            frames and lazy frames of polars, pandas, pyarrow, DuckDB; or a source, which is
            returned.
        stated: format of the files; None: by the endings of their names.

    Raises:
        InvalidInput: the events are of an unknown kind, a file is missing, named twice or empty, or
            a format is unknown.
    """
    if isinstance(events, Source):
        return events
    if not isinstance(events, str | os.PathLike | list | tuple):
        frame = open_frame(events)
        return Source((frame,), frame.name)
    if is_database(events):
        raise InvalidInput(
            f"{field('events')} are the address of a database, which only job files can name; "
            "write its rows into a file, or pass them as a data frame"
        )
    if stated is not None:
        format_of("", stated)
    paths = event_paths(events, stated)
    parts = tuple(EventFile(path, stated, form=form, piped=True) for path in paths)
    return Source(parts, name_of(parts))

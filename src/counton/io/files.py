"""Rows of files, read lazily; and opening of events: paths, patterns, folders, data frames."""

from __future__ import annotations

import filecmp
import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import IO, cast

from typing_extensions import override

from counton.base.errors import InvalidInputError, is_text, param
from counton.base.outside_input import sqlite_header
from counton.io.csv_lines import csv_pieces, header_of, other_separator
from counton.io.input_paths import (
    CsvForm,
    Format,
    event_paths,
    format_of,
    is_database,
    place_of_file,
)
from counton.io.json_lines import json_pieces, keys_of
from counton.io.other_formats import content_of
from counton.io.sources import (
    InputPart,
    Source,
    UnreadableRowError,
    name_of,
    open_frame,
    unreadable_errors,
)
from counton.io.text_lines import (
    NO_UTF8,
    BrokenFileError,
    Fault,
    Piece,
    Unzstd,
    blocks,
    whole_lines,
)
from counton.windowing.lazy_polars import polars as pl

CSV = CsvForm()
#: First bytes of files compressed by gzip; and by zstd, also of a frame to be skipped.
_GZIP = b"\x1f\x8b"
_ZSTD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")

_INSPECTED_BYTES = 4096

#: Number of first JSON lines from which names of columns are collected.
_INSPECTED_JSON_LINES = 10_000


def refuse_sqlite(path: str) -> None:
    """Refuse a SQLite file by its first bytes."""
    with suppress(OSError):
        if sqlite_header(Path(path)) is not None:
            raise InvalidInputError(
                f"{path!r} is a SQLite database, not a table; name it in a job file, with "
                f"{param('events', 'sqlite:///FILE')} and {param('query', 'select ...')}, or write "
                "its rows into a file"
            )


class EventFile(InputPart):
    """Rows of one file; or of standard input (``-``) or a pipe, whose bytes are kept in memory.

    Args:
        stated: its format; None: by its ending. Standard input is CSV unless stated.
        form: of CSV; None: the usual one, for a table that no option describes.
        piped: whether the path may be a pipe.

    Raises:
        InvalidInputError: the file is missing or empty, or its format is unknown.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        file_format: str | None = None,
        *,
        form: CsvForm | None = None,
        piped: bool = False,
    ) -> None:
        path = os.fspath(path)
        self.name = "standard input" if path == "-" else path
        self._bytes: bytes | None = None
        self.form = form or CSV
        if path == "-":
            self.kind: Format = format_of(path, file_format or "csv")
            self._bytes = sys.stdin.buffer.read()
        else:
            if file_format is None and Path(path).is_file():
                refuse_sqlite(path)
            self.kind = format_of(path, file_format)
            if piped and Path(path).is_fifo():  # such as bash's <(command)
                self._bytes = Path(path).read_bytes()
            elif not Path(path).is_file():
                raise InvalidInputError(
                    f"{path!r} is not a file. Check the path, or use - to read standard input"
                )
            refuse_sqlite(path)
        self.path = path
        self.path_without_compression = None if self._bytes is not None else place_of_file(path)
        self._stamp = self._present()
        if not self.size and self.kind != "jsonl":  # JSON lines without events are an empty file
            needs = (
                "a first line with the names of the columns"
                if self.kind == "csv"
                else "the header of the format"
            )
            raise InvalidInputError(
                f"{self.name} is empty (0 bytes). Even without events, a {self.kind} file has "
                f"{needs}. Check whether it was written completely"
            )

    @property
    def size(self) -> int:
        """Number of bytes of the file as it is stored, when it was opened."""
        return self._stamp[1] if self._bytes is None else len(self._bytes)

    @override
    def digest(self, columns: Sequence[str] = ()) -> str:
        return self._digest

    @cached_property
    def _digest(self) -> str:
        with self._content() as stream:
            return hashlib.file_digest(cast(io.BufferedReader, stream), "sha256").hexdigest()

    @override
    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        if self._bytes is not None:
            return Path(other).read_bytes() == self._bytes
        return Path(self.path).samefile(other) or filecmp.cmp(self.path, other, shallow=False)

    def beginning(self, size: int) -> tuple[EventFile, bool, int]:
        """Return at most ``size`` decompressed bytes as a file whose last line is whole, whether it
        is all, and the number of bytes read, ``size`` + 1 of a longer file.
        """
        with self._content() as lines:
            content = lines.read(size + 1)
        whole = len(content) <= size
        beginning = copy(self)
        beginning._bytes = content if whole else whole_lines(content)
        beginning._stamp = beginning._present()
        return beginning, whole, len(content)

    def has_changed(self) -> bool:
        """Return True if the file was written or replaced since it was opened."""
        return self._present() != self._stamp

    def _present(self) -> tuple[int, ...]:
        if self._bytes is not None:
            return ()
        stat = Path(self.path).stat()
        return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns

    @property
    @override
    def decimal_sign(self) -> str:
        return self.form.decimal if self.kind == "csv" else "."

    @override
    def number(self, cell: pl.Expr) -> pl.Expr:
        if self.decimal_sign == ".":
            return cell
        return cell.str.replace_many([".", ","], [",", "."])  # a point is in no number

    @override
    def count(self, column: str, cell: pl.Expr) -> pl.Expr:
        if self.decimal_sign == ".":
            return self.number(cell)
        # Where a comma is the decimal sign, a point before three digits groups thousands.
        plain = cell.str.replace_all(".", "", literal=True)
        grouped = cell.str.contains(r"^[0-9]{1,3}(?:\.[0-9]{3})+(?:,0{1,2})?$")
        return self.number(pl.when(grouped).then(plain).otherwise(cell))

    @override
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        if self.kind == "parquet":
            return pl.scan_parquet(
                Path(self.path) if self._bytes is None else io.BytesIO(self._bytes), glob=False
            )
        from polars.io.plugins import register_io_source

        selected = columns
        if selected is None:
            selected = self._header if self.kind == "csv" else self._keys
        selected = list(selected)

        def read(
            names: list[str] | None, condition: pl.Expr | None, most: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            for piece in self._pieces(names if names else selected):
                if piece.faults and not self.unread:
                    raise self._refusal(piece.faults[min(piece.faults)])
                rows = piece.rows if most is None else piece.rows.head(most)
                yield rows if condition is None else rows.filter(condition)
                if most is not None and (most := most - rows.height) <= 0:
                    return

        # All columns are texts: the meaning of a row must not be guessed from other rows.
        return register_io_source(read, schema=dict.fromkeys(selected, pl.String))

    def _pieces(self, columns: Sequence[str]) -> Iterator[Piece]:
        """Yield some columns of a text file, some lines at a time."""
        with self._content() as stream:
            if self.kind == "csv":
                yield from csv_pieces(stream, self._header, columns, self.form)
            else:
                self._refuse_utf_16()
                yield from json_pieces(stream, columns)

    @cached_property
    def _header(self) -> list[str]:
        """Names of the columns of a CSV file."""
        self._refuse_utf_16()
        with self._content() as stream:
            header = header_of(stream, self.form)
        if not header:
            raise InvalidInputError(
                f"{self.name} has no line that names the columns; write it again, with such a line"
            )
        return header

    def _refuse_utf_16(self) -> None:
        """Refuse a text by its first line; JSON lines only by a mark, since each row decides."""
        with self._content() as stream:
            beginning = stream.read(_INSPECTED_BYTES)
        other = content_of(beginning) if self.kind == "csv" else None
        if other is not None:
            raise InvalidInputError(f"{self.name} {other}")
        first = re.split(rb"[\r\n]", beginning)[0]
        in_utf16 = first.startswith((b"\xff\xfe", b"\xfe\xff"))
        if in_utf16 or (self.kind == "csv" and b"\0" in first):
            raise InvalidInputError(
                f"{self.name} is UTF-16 or not text at all, and a {self.kind} file must be text in "
                f"UTF-8; convert it (iconv -f UTF-16 -t UTF-8 {self.name} > utf8.{self.kind}), or "
                f"state its format ({param('file_format')})"
            )

    @cached_property
    def _keys(self) -> list[str]:
        """Keys in the first lines of JSON; a line that is no object adds none."""
        names = dict[str, None]()
        for keys in islice(self._keys_of_lines(), _INSPECTED_JSON_LINES):
            names |= keys
        return list(names)

    def _keys_of_lines(self) -> Iterator[dict[str, None]]:
        with self._content() as stream:
            for line in chain.from_iterable(map(bytes.splitlines, blocks(stream))):
                if line.strip():
                    keys = keys_of(line.decode("utf-8", "replace"))
                    yield dict.fromkeys(filter(is_text, keys))

    @override
    def _may_lack(self, name: str) -> bool:
        """Return True for JSON lines, each of which names its own columns."""
        if self.kind != "jsonl":
            return False
        return (
            self.stream_exists
            or not self._keys
            or any(name in keys for keys in self._keys_of_lines())
        )

    def sift(self, columns: Sequence[str], most: int) -> InputPart:
        """Return the rows, with at most ``most`` faulty lines left empty."""
        if self.kind == "parquet":
            return self
        unread = dict[int, str]()
        n_not_utf8 = 0
        first_fault: Fault | None = None
        row = 0
        for piece in self._pieces(self.of_file(columns)):
            for place, fault in sorted(piece.faults.items()):
                first_fault = first_fault or fault
                if len(unread) == most:
                    raise self._refusal(first_fault, most)
                unread[row + place] = fault.text.decode("utf-8", "backslashreplace")
                n_not_utf8 += fault.problem == NO_UTF8
            row += piece.rows.height
        if not unread:
            return self
        input_part = copy(self)
        input_part.unread = unread
        input_part.n_not_utf8 = n_not_utf8
        return input_part

    def _refusal(self, fault: Fault, most: int = 0) -> UnreadableRowError:
        """Build the error for a faulty line.

        Args:
            fault: the first faulty line.
            most: number of faulty lines that are accepted; the file has more.
        """
        if fault.line == 1 and self.kind == "csv" and fault.problem != NO_UTF8:
            sign = other_separator(fault.text)
            if sign not in (None, self.form.separator):
                option = param("separator", "tab" if sign == "\t" else f"'{sign}'")
                return UnreadableRowError(
                    f"the header of {self.name} cannot be read with the separator "
                    f"{self.form.separator!r}; say which character separates columns, {option}"
                )
        remedy = "correct the file, or let its program write Parquet"
        if fault.problem == NO_UTF8:
            remedy = (
                "correct the file, or convert it, as from Latin-1 by iconv -f LATIN1 -t UTF-8 "
                f"{self.name} > utf8.{self.kind}"
            )
        more = ""
        if most > 0:
            more = f". It is the first of more than {most:,} such lines"
        return UnreadableRowError(
            f"line {fault.line:,} of {self.name} cannot be read as {self.kind} "
            f"(it {fault.problem}); {remedy}{more}"
        )

    @contextmanager
    def _content(self) -> Iterator[IO[bytes]]:
        """Open the file, decompressed; an error within the block says why it cannot be read."""
        content = self._bytes
        try:
            with open(self.path, "rb") if content is None else io.BytesIO(content) as file:
                first = file.read(_INSPECTED_BYTES)
                file.seek(0)
                stream: IO[bytes] = file
                if first.startswith(_GZIP):
                    stream = cast(IO[bytes], gzip.GzipFile(fileobj=file))
                elif _ZSTD.match(first):
                    stream = io.BufferedReader(Unzstd(file))
                yield stream
        except BrokenFileError as error:
            raise self._refusal(error.fault) from error
        except unreadable_errors(EOFError, zlib.error) as error:
            raise self.unreadable(error) from error


def open_source(events: object, file_format: str | None = None, form: CsvForm = CSV) -> Source:
    """Open files, standard input, or a data frame.

    Args:
        events: a path, ``-``, a folder, a pattern such as ``logs/2024-*.csv``, a sequence of these;
            any table that exports Arrow; or a source, which is returned.
        file_format: format of the files; None: by their endings.

    Raises:
        InvalidInputError: the events are of an unknown kind, a file is missing, named twice or
            empty, or a format is unknown.
    """
    if isinstance(events, Source):
        return events
    if not isinstance(events, str | os.PathLike | list | tuple):
        frame = open_frame(events)
        return Source((frame,), frame.name)
    if is_database(events):
        raise InvalidInputError(
            f"{param('events')} are the address of a database, which only job files can name; "
            "write its rows into a file, or pass them as a data frame"
        )
    if file_format is not None:
        format_of("", file_format)
    paths = event_paths(events, file_format)
    parts = tuple(EventFile(path, file_format, form=form, piped=True) for path in paths)
    return Source(parts, name_of(parts))

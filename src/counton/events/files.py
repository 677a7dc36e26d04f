"""Event files: CSV, Parquet or JSON lines, one row per event, read lazily with polars."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from counton.errors import InvalidInput, field

Format = Literal["csv", "parquet", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def format_of(path: str, stated: str | None = None) -> Format:
    """Format of a file: what the caller states, else what its name ends with.

    Raises:
        InvalidInput: neither says which.

    >>> format_of("events.csv.gz"), format_of("-", "jsonl")
    ('csv', 'jsonl')
    """
    if stated is not None:
        if stated not in FORMATS:
            raise InvalidInput(f"format {stated!r} is not known; use one of {', '.join(FORMATS)}")
        return stated
    name = path.lower().removesuffix(".gz").removesuffix(".zst")
    found = _SUFFIXES.get(Path(name).suffix)
    if found is None:
        raise InvalidInput(
            f"the format of {path!r} cannot be told from its name; name it .csv, .parquet or "
            f".jsonl, or state the format ({', '.join(FORMATS)})"
        )
    return found


def _digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class EventFile:
    """Rows of one file, or of standard input (``-``) or a pipe, which are kept in memory.

    Args:
        path: a file, or ``-``.
        stated: format; from the file's name if None. Standard input is CSV unless stated.

    Raises:
        InvalidInput: no such file, an empty file, or an unknown format.
    """

    def __init__(self, path: str | os.PathLike[str], stated: str | None = None) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InvalidInput(
                f"{field('events')} is of type {type(path).__name__}, which is not the path of a "
                f"file; write it to one (a data frame: write_parquet or to_parquet)"
            )
        path = os.fspath(path)
        self.name = "standard input" if path == "-" else path
        self._bytes: bytes | None = None
        if path == "-":
            self.format: Format = format_of(path, stated or "csv")
            self._bytes = sys.stdin.buffer.read()
        else:
            self.format = format_of(path, stated)
            if Path(path).is_fifo():  # as bash's <(command) is
                self._bytes = Path(path).read_bytes()
            elif not Path(path).is_file():
                raise InvalidInput(
                    f"{path!r} is not a file; check the path, or use - to pipe events"
                )
        self._path = path
        if (len(self._bytes) if self._bytes is not None else Path(path).stat().st_size) == 0:
            raise InvalidInput(
                f"{self.name} is empty (0 bytes); it needs at least one row of events"
            )

    def digest(self) -> str:
        """SHA-256 of the bytes, in hexadecimal."""
        if self._bytes is not None:
            return hashlib.sha256(self._bytes).hexdigest()
        return _digest(self._path)

    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        """Whether another file is this one, by whatever path, or holds the same bytes."""
        size = Path(other).stat().st_size
        if self._bytes is not None:
            return len(self._bytes) == size and _digest(other) == self.digest()
        if Path(self._path).samefile(other):
            return True
        return Path(self._path).stat().st_size == size and _digest(other) == self.digest()

    def scan(self, columns: tuple[str, ...], numbers: tuple[str, ...] = ()) -> pl.LazyFrame:
        """The named columns, text where the format has no types of its own.

        Args:
            columns: names of the columns wanted.
            numbers: those of them which hold numbers.

        Raises:
            InvalidInput: the file cannot be read as its format, or lacks a column.
        """
        present = self.columns()
        missing = [name for name in columns if name not in present]
        if missing:
            raise InvalidInput(
                f"{self.name} has no column {missing[0]!r}; its columns are {', '.join(present)}"
            )
        # A whole number in the first rows must not make later fractions unreadable.
        return self._open(dict.fromkeys(numbers, pl.Float64)).select(columns)

    def columns(self) -> list[str]:
        """Names of the columns.

        Raises:
            InvalidInput: the file cannot be read as its format.
        """
        try:
            return self._open({}).collect_schema().names()
        except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: Exception) -> InvalidInput:
        """The error to raise when polars cannot read the file."""
        reason = str(error).strip().split("\n")[0]
        if isinstance(error, OSError):
            return InvalidInput(f"{self.name} cannot be read ({reason}); check its permissions")
        return InvalidInput(
            f"{self.name} cannot be read as {self.format} ({reason}); repair it or state its format"
        )

    def _open(self, types: dict[str, type[pl.DataType]]) -> pl.LazyFrame:
        source = Path(self._path) if self._bytes is None else io.BytesIO(self._bytes)
        if self.format == "csv":
            # Text only: a column of times or group names must not be guessed to be numbers.
            return pl.scan_csv(source, infer_schema=False, glob=False)
        if self.format == "parquet":
            return pl.scan_parquet(source, glob=False)
        return pl.scan_ndjson(source, infer_schema_length=10_000, schema_overrides=types)

"""Event files: CSV, Parquet or JSON lines, one row per event, read lazily with polars.

And the declared groups of a histogram (`read_domain`). Declared, because observed groups would
leak: whether a rare group appears in the output at all would tell whether its one event is in the
data, whatever noise the counts have; so the list of groups must come from public knowledge.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Literal, get_args

import polars as pl

from counton.errors import InvalidInput, field, is_text

#: Tables that are not read: as text, a line of theirs would be taken for a group.
_OTHER_TABLES = (
    *(".tsv", ".tab", ".xlsx", ".xls", ".ods", ".json"),
    *(".feather", ".arrow", ".ipc", ".orc", ".avro"),
)


def read_domain(source: str | os.PathLike[str] | Sequence[str], column: str) -> tuple[str, ...]:
    """Groups from a comma-separated list, a table's column or a text file with one group per line.

    Args:
        source: ``A,B,C``, the path of a file, or the groups themselves.
        column: column of the table to read; a table with one column needs no such name.

    Returns:
        The groups in the order stated.

    Raises:
        InvalidInput: no such file, no such column, no groups, or a group stated twice.

    >>> read_domain("AA, UA,DL", "carrier")
    ('AA', 'UA', 'DL')
    """
    if isinstance(source, str | os.PathLike):
        source = os.fspath(source)
        groups = _listed(source, column)
    else:
        groups = _given(source, column)
    for group in groups:
        if not is_text(group):
            raise InvalidInput(
                f"the group {group[:80]!r} of {field('domain')} is no text in UTF-8 (a byte of "
                f"another encoding, or NUL); write it in UTF-8"
            )
    if not groups or "" in groups:
        raise InvalidInput(f"domain {source!r} holds no group or an empty one; name each group")
    twice = [group for group, times in Counter(groups).items() if times > 1]
    if twice:
        raise InvalidInput(f"domain {source!r} names the group {twice[0]!r} twice; name it once")
    return tuple(groups)


def _given(groups: object, column: str) -> list[str]:
    if isinstance(groups, Mapping | Set) or hasattr(groups, "columns"):
        kind = type(groups).__name__
        how = "has no order" if isinstance(groups, Set) else f"is a table: give its {column!r} only"
        raise InvalidInput(
            f"{field('domain')} is of type {kind}, which {how}; give a list of the groups in order"
        )
    texts: list[object] = list(groups) if isinstance(groups, Iterable) else [groups]
    for group in texts:
        if not isinstance(group, str):
            raise InvalidInput(
                f"a group of {field('domain')} is of type {type(group).__name__}; give a file, a "
                f"list A,B,C, or texts"
            )
    return [str(group) for group in texts]


def _listed(source: str, column: str) -> list[str]:
    path = Path(source)
    if is_file(source):
        groups = _from_table(source, column) if _is_table(path) else text_lines(path)
    elif "," not in source and (_is_table(path) or path.suffix == ".txt" or os.sep in source):
        raise InvalidInput(f"domain {source!r} is not a file; check the path, or list A,B,C")
    else:
        groups = [group.strip() for group in source.split(",")]
    return groups


def is_file(name: str) -> bool:
    """Whether a text names a file; a long list of groups is no name at all.

    >>> is_file("A," * 5000)
    False
    """
    try:
        return Path(name).is_file()
    except (OSError, ValueError):
        return False


def table_columns(source: str | os.PathLike[str]) -> list[str]:
    """Columns of a domain that is a table; none of a text with one group per line."""
    return EventFile(source).columns() if _is_table(Path(source)) else []


def _is_table(path: Path) -> bool:
    return _ending(str(path)) in _SUFFIXES


def _ending(name: str) -> str:
    """What a name ends with, whatever its letters and its compression."""
    return Path(name.lower().removesuffix(".gz").removesuffix(".zst")).suffix


def text_lines(source: str | os.PathLike[str]) -> list[str]:
    """Lines of a domain that is a text with one group per line; none of a table.

    Raises:
        InvalidInput: a table of a kind that is not read, or not UTF-8 text.
    """
    path = Path(source)
    if _is_table(path):
        return []
    if _ending(str(path)) in _OTHER_TABLES:
        raise InvalidInput(
            f"domain {str(path)!r} is a table of a kind that is not read; write it as .csv, "
            f".parquet or .jsonl, or one group per line as .txt"
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"domain {str(path)!r} is not UTF-8 text; convert it") from error
    return [line.strip() for line in lines if line.strip()]


def _from_table(source: str, column: str) -> list[str]:
    file = EventFile(source)
    names = file.columns()
    if column not in names and len(names) > 1:
        raise InvalidInput(
            f"domain {source!r} has no column {column!r}; name one of its columns "
            f"({', '.join(names)}) {column!r}"
        )
    name = column if column in names else names[0]
    try:
        groups = file.scan((name,)).select(pl.col(name).cast(pl.String)).collect()[name]
    except (pl.exceptions.PolarsError, OSError) as error:
        raise file.unreadable(error) from error
    return groups.fill_null("").to_list()


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
    found = _SUFFIXES.get(_ending(path))
    if found is None:
        raise InvalidInput(
            f"the format of {path!r} cannot be told from its name; name it .csv, .parquet or "
            f".jsonl, or state the format ({', '.join(FORMATS)})"
        )
    return found


#: Gzip and zstd, which polars unpacks.
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_LOOKED_AT = 4096


def _beginning(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_LOOKED_AT)


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
        self._refuse_no_text()
        present = self.columns()
        missing = [name for name in columns if name not in present]
        if missing:
            raise InvalidInput(
                f"{self.name} has no column {missing[0]!r}; its columns are {', '.join(present)}"
            )
        # A whole number in the first rows must not make later fractions unreadable.
        return self._open(dict.fromkeys(numbers, pl.Float64)).select(columns)

    def _refuse_no_text(self) -> None:
        """Refuse CSV and JSON lines in UTF-16, and what is no text; polars shows bytes of it."""
        if self.format == "parquet":
            return
        try:
            first = self._bytes if self._bytes is not None else _beginning(self._path)
        except OSError as error:
            raise self.unreadable(error) from error
        if first.startswith(_COMPRESSED):
            return
        if first.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in first[:_LOOKED_AT]:
            raise InvalidInput(
                f"{self.name} is UTF-16 or no text at all, and {self.format} is text in UTF-8; "
                f"convert it, or state its format ({field('file_format')})"
            )

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
            refused = isinstance(error, PermissionError) or "ermission denied" in reason
            remedy = "check its permissions" if refused else "it may be truncated: write it again"
            return InvalidInput(f"{self.name} cannot be read ({reason}); {remedy}")
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

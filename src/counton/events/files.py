"""Where rows of events come from: files, standard input, data frames; read lazily with polars.

A `Source` is what a run is given: one or several `Rows`, each with columns of its own types, one
row per event. A file's are CSV, Parquet or JSON lines. And the declared groups of a histogram
(`read_domain`). Declared, because observed groups would leak: whether a rare group appears in the
output at all would tell whether its one event is in the data, whatever noise the counts have; so
the list of groups must come from public knowledge.
"""

from __future__ import annotations

import csv
import glob
import gzip
import hashlib
import io
import json
import math
import os
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, Sized
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from numbers import Integral
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Literal, cast, get_args

import polars as pl

from counton.columns import BETWEEN
from counton.errors import InvalidInput, field, is_text
from counton.events.linesums import LineSums
from counton.events.sifting import FileRows, csv_rows, json_rows, keys_of, sifted
from counton.events.windows import as_text
from counton.exact import quoted
from counton.groups import GroupNames

#: What polars raises where rows cannot be read. It ends with a panic, which is no `Exception`, on
#: types and values that it has not been taught.
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)

#: Tables that are not read: as text, a line of theirs would be taken for a group.
_OTHER_TABLES = (
    *(".tsv", ".tab", ".xlsx", ".xls", ".ods", ".json"),
    *(".feather", ".arrow", ".ipc", ".orc", ".avro"),
)


#: Exact sums of groups are one value of a database, of which more than this many bytes is none.
_MOST_BYTES = 9 * 10**8
#: Groups at most: a sum takes 11 bytes at most where it is written down.
_MOST_GROUPS = 8 * 10**7
#: Characters of a text of names that are read together.
_TEXT = 2**24


def read_domain(
    source: str | os.PathLike[str] | Sequence[Any] | Mapping[str, Sequence[Any]], column: str
) -> GroupNames:
    """Groups from a comma-separated list, a table's column or a text file with one group per line.

    Args:
        source: ``A,B,C``, the path of a file, or the groups themselves. Of several columns a
            table that has them, tuples, or a mapping of lists, of which all combinations are meant.
        column: column of the table to read; a table with one column needs no such name. Several
            with commas between.

    Returns:
        The groups in the order stated.

    Raises:
        InvalidInput: no such file, no such column, no groups, a group stated twice, or more than a
            state can keep the sums of.

    >>> read_domain("AA, UA,DL", "carrier")
    ('AA', 'UA', 'DL')
    >>> read_domain({"sex": ["f", "m"], "adult": [True, False]}, "sex,adult")
    ('f / true', 'f / false', 'm / true', 'm / false')
    """
    if isinstance(source, str | os.PathLike):
        source = os.fspath(source)
        names = _listed(source, column)
    else:
        names = _given(source, column)
    _refuse_too_many(len(names))
    groups = names.column
    if (hidden := groups.filter(groups.str.contains(chr(0), literal=True))).len():
        raise _no_text(hidden[0])
    if not names or (groups == "").any():
        raise InvalidInput(
            f"domain {quoted(source)} holds no group or an empty one; name each group"
        )
    if groups.n_unique() < len(names):
        twice = groups.filter(groups.is_duplicated())
        raise InvalidInput(
            f"domain {quoted(source)} names the group {twice[0]!r} twice; name it once"
        )
    return names


def _no_text(group: str) -> InvalidInput:
    return InvalidInput(
        f"the group {group[:80]!r} of {field('domain')} is no text in UTF-8 (a byte of another "
        f"encoding, or NUL); write it in UTF-8"
    )


def _names(groups: Sequence[str]) -> GroupNames:
    """Texts as names.

    Raises:
        InvalidInput: one of them is not in UTF-8.
    """
    for group in groups:
        if not is_text(group):
            raise _no_text(group)
    return GroupNames(groups)


def _refuse_too_many(number: int) -> None:
    """Refuse groups whose sums no state can keep, before anything is read or promised."""
    if number >= _MOST_GROUPS:
        raise InvalidInput(
            f"{field('domain')} declares {number:,} groups, and a state keeps the sums of fewer "
            f"than {_MOST_GROUPS:,}: declare fewer, such as those of a coarser column"
        )


def refuse_long_terms(names: GroupNames) -> None:
    """Refuse groups that a statistic keeps among its terms, which are one value of a database.

    Raises:
        InvalidInput: they are too many.
    """
    # A letter takes up to 12 bytes where it is written down, and a name four more.
    letters = int(names.column.str.len_chars().sum())
    most = 12 * letters + 4 * len(names)
    if most > _MOST_BYTES and len(json.dumps(list(names))) > _MOST_BYTES:
        raise InvalidInput(
            f"the names of the {len(names):,} groups of {field('domain')} take more than "
            f"{_MOST_BYTES:,} bytes, and this statistic keeps them among its terms: declare fewer, "
            f"such as those of a coarser column, or shorten their names"
        )


def _given(groups: object, column: str) -> GroupNames:
    if isinstance(groups, GroupNames):
        return groups
    parts = [name.strip() for name in column.split(",")]
    if isinstance(groups, Mapping) and len(parts) > 1:
        return _names(_combined(groups, parts))
    if isinstance(groups, Mapping | Set) or hasattr(groups, "columns"):
        kind = type(groups).__name__
        how = "has no order" if isinstance(groups, Set) else f"is a table: give its {column!r} only"
        raise InvalidInput(
            f"{field('domain')} is of type {kind}, which {how}; give a list of the groups in order"
        )
    if not isinstance(groups, Iterable):
        raise InvalidInput(
            f"{field('domain')} is {quoted(groups)}; give a file, a "
            f"list A,B,C, or a sequence of groups"
        )
    _refuse_too_many(len(groups) if isinstance(groups, Sized) else 0)
    return _names([_label(group, parts) for group in groups])


def _combined(groups: Mapping[Any, Any], parts: list[str]) -> list[str]:
    """All combinations of what is declared of each column."""
    if set(groups) != set(parts):
        raise InvalidInput(
            f"{field('domain')} declares {', '.join(map(str, groups))}, and {field('by')} names "
            f"{', '.join(parts)}: declare the values of each of these"
        )
    _refuse_too_many(math.prod(len(list(groups[name])) for name in parts))
    return [_label(group, parts) for group in product(*(list(groups[name]) for name in parts))]


def _label(group: object, parts: list[str]) -> str:
    """What a declared group is called: of several columns their values, one after the other."""
    if isinstance(group, tuple):
        if len(group) != len(parts):
            raise InvalidInput(
                f"{field('domain')} holds a tuple of {len(group)}, and {field('by')} names "
                f"{len(parts)} column{'s' * (len(parts) > 1)}: give one value for each"
            )
        each = [_label(part, parts[:1]) for part in group]
        for part in each:
            if BETWEEN in part:
                raise InvalidInput(
                    f"{field('domain')} holds {part!r}, and {BETWEEN!r} stands between the values "
                    f"of several columns; rename it"
                )
        return BETWEEN.join(each)
    if isinstance(group, bool):
        return str(group).lower()
    if isinstance(group, str):
        return group
    if isinstance(group, Integral):
        return str(group)
    raise InvalidInput(
        f"a group of {field('domain')} is of type {type(group).__name__}; give a file, a "
        f"list A,B,C, texts, whole numbers, or True and False"
    )


def _listed(source: str, column: str) -> GroupNames:
    path = Path(source)
    if is_file(source):
        return _from_table(source, column) if _is_table(path) else text_lines(path)
    if "," not in source and (_is_table(path) or path.suffix == ".txt" or os.sep in source):
        raise InvalidInput(f"domain {source!r} is not a file; check the path, or list A,B,C")
    return _names([group.strip() for group in source.split(",")])


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


def text_lines(source: str | os.PathLike[str]) -> GroupNames:
    """Lines of a domain that is a text with one group per line; none of a table.

    Raises:
        InvalidInput: a table of a kind that is not read, or not UTF-8 text.
    """
    path = Path(source)
    if _is_table(path):
        return GroupNames(())
    if _ending(str(path)) in _OTHER_TABLES:
        raise InvalidInput(
            f"domain {str(path)!r} is a table of a kind that is not read; write it as .csv, "
            f".parquet or .jsonl, or one group per line as .txt"
        )
    try:
        with path.open(encoding="utf-8-sig") as file:
            parts = [pl.Series(lines, dtype=pl.String) for lines in _some_lines(file)]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"domain {str(path)!r} is not UTF-8 text; convert it") from error
    return GroupNames(pl.concat(parts) if parts else ())


def _some_lines(file: IO[str]) -> Iterator[list[str]]:
    """Lines of a text that are not empty, some at a time: millions of texts take much room."""
    while text := "".join(file.readlines(_TEXT)):
        yield [line for each in text.splitlines() if (line := each.strip())]


def _from_table(source: str, column: str) -> GroupNames:
    file = EventFile(source)
    names = file.columns()
    if column not in names and "," in column:
        return _from_table_of(joined(Source((file,), file.name), column).parts[0], column)
    if column not in names and len(names) > 1:
        raise InvalidInput(
            f"domain {source!r} has no column {column!r}; name one of its columns "
            f"({', '.join(names)}) {column!r}"
        )
    return _from_table_of(file, column if column in names else names[0])


def _from_table_of(file: Rows, name: str) -> GroupNames:
    try:
        groups = file.scan((name,), (name,)).select(pl.col(name).cast(pl.String)).collect()[name]
        if file.kind == "jsonl" and groups.str.contains(r"^[\[{]").any():
            raise file.unreadable(TypeError(f"column {name!r} holds lists or records"))
    except UNREADABLE as error:
        raise file.unreadable(error) from error
    return GroupNames(groups.fill_null(""))


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
#: Bytes of a file that are looked at together.
_BLOCK = 2**22
#: JSON lines in which names of columns are looked for.
_JSON_ROWS = 10_000


def _beginning(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_LOOKED_AT)


def _digest(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class UnreadableRow(InvalidInput):
    """One line of a file cannot be read; the others may be, see `Source.sifted`."""


class Rows(ABC):
    """Rows with named columns: one file, standard input, or a data frame.

    Attributes:
        name: what messages call it.
        kind: as what it is read, in messages.
        numbered: its rows have an order, so that one is found again by its number.
        together: columns that are made of others, see `joined`.
        settled: its columns were there when its stream was made: where a format names them in each
            row, none need be there tonight.
        unread: numbers of rows that cannot be read, from 0, and what stands there; these are empty.
        still: what to do where it changed while it was read.
        again: what to do where new events turn out to have been counted.
    """

    name: str
    kind: str
    numbered: bool = True
    together: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    settled: bool = False
    unread: Mapping[int, str] = MappingProxyType({})
    still: str = "try again when it is whole"
    again: str = (
        f"leave it out, or drop {field('append', True)} if the file holds everything since the "
        f"first window"
    )

    def place_of(self, row: int) -> str:
        """Which row is meant, for messages."""
        return f"row {row:,} of {self.name}" if self.numbered else f"a row of {self.name}"

    @abstractmethod
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """The columns, or all of them with types only to look at; see `scan`."""

    @abstractmethod
    def digest(self, columns: Sequence[str] = ()) -> str:
        """SHA-256 of a file's bytes, or of a frame's ``columns``, in hexadecimal."""

    def row_digest(self, columns: Sequence[str] = ()) -> str | None:
        """What the rows come to in any order, of a file with all it says of them.

        Args:
            columns: of a frame those that are read.

        Returns:
            Hexadecimal; None where there is no row, or nothing that could come twice.
        """
        return None

    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        """Whether a file is this one, by whatever path, or holds the same bytes."""
        return False

    def changed(self) -> bool:
        """Whether it was written since it was opened."""
        return False

    def scan(self, columns: Sequence[str], names: Sequence[str] = ()) -> pl.LazyFrame:
        """The named columns, text where the format has no types of its own.

        What a row says is a function of that row alone: no type is guessed from other rows.

        Args:
            columns: names of the columns wanted.
            names: those of them by whose text rows are told: of groups, users, ids.

        Raises:
            InvalidInput: it cannot be read as what it is, lacks a column or has one twice, a column
                holds lists or the like, or one of names floating-point numbers.
        """
        asked, present = self._asked(columns), self.columns()
        for name in asked:
            if name not in present and not self._may_lack(name):
                raise InvalidInput(f"{self.name} has no column {name!r}; {_listing(present)}")
            if f"{name}_duplicated_0" in present:  # as polars calls the second one
                raise InvalidInput(
                    f"{self.name} has two columns {name!r}, so it cannot be told which is meant; "
                    f"rename or remove one of them"
                )
        found = self.frame(list(asked))
        types = found.collect_schema()
        for name in asked:
            if types[name].is_nested() or types[name] == pl.Object:
                raise InvalidInput(
                    f"column {name!r} of {self.name} holds {types[name]}, which is neither text, "
                    f"number nor time; convert it"
                )
        for name in names:
            for part in self.together.get(name, (name,)):
                refuse_floats(self, part, types[part])
        return found.with_columns(self._made(columns, types)).select(columns)

    def _asked(self, columns: Sequence[str]) -> dict[str, None]:
        """Those columns of the rows of which some are made, or are."""
        return dict.fromkeys(part for name in columns for part in self.together.get(name, (name,)))

    def _may_lack(self, name: str) -> bool:
        """Whether a column that was not found may be missing from all rows."""
        return False

    def of_file(self, columns: Sequence[str]) -> list[str]:
        """The columns as they are given: what those are made of that are made of others."""
        return list(self._asked(columns))

    def _made(self, columns: Sequence[str], types: Mapping[str, pl.DataType]) -> list[pl.Expr]:
        """Those of the columns that are made of others; null where one of these is."""
        return [
            pl.concat_str(
                [as_text(pl.col(part), types[part]) for part in parts], separator=BETWEEN
            ).alias(name)
            for name, parts in self.together.items()
            if name in columns
        ]

    def columns(self) -> list[str]:
        """Names of the columns.

        Raises:
            InvalidInput: it cannot be read as what it is.
        """
        try:
            return self.frame().collect_schema().names()
        except (*UNREADABLE, UnicodeDecodeError) as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: BaseException) -> InvalidInput:
        """The error to raise when polars cannot read the rows."""
        reason = str(error).strip().split("\n")[0]
        if isinstance(error, OSError):
            refused = isinstance(error, PermissionError) or "ermission denied" in reason
            remedy = "check its permissions" if refused else "it may be truncated: write it again"
            return InvalidInput(f"{self.name} cannot be read ({reason}); {remedy}")
        return InvalidInput(
            f"{self.name} cannot be read as {self.kind} ({reason}); repair it or state its format"
        )


def refuse_floats(rows: Rows, column: str, dtype: pl.DataType) -> None:
    """Refuse a column of names whose texts hang on the type that all its rows together were given.

    One missing value makes a column of whole numbers one of floats in many programs, and then every
    row says "1.0" where it said "1".

    Raises:
        InvalidInput: it holds floating-point numbers, or decimals with a fraction.
    """
    if dtype.is_float() or (isinstance(dtype, pl.Decimal) and dtype.scale):
        raise InvalidInput(
            f"column {column!r} of {rows.name} holds {dtype}, which has several texts for one "
            f"number, so that its names could not be told from each other (and a single missing "
            f"value can have made it so); cast it to whole numbers or text"
        )


class EventFile(Rows):
    """Rows of one file, or of standard input (``-``) or a pipe, which are kept in memory.

    Args:
        path: a file, or ``-``.
        stated: format; from the file's name if None. Standard input is CSV unless stated.

    Raises:
        InvalidInput: no such file, an empty file, or an unknown format.
    """

    def __init__(self, path: str | os.PathLike[str], stated: str | None = None) -> None:
        path = os.fspath(path)
        self.name = "standard input" if path == "-" else path
        self._bytes: bytes | None = None
        if path == "-":
            self.kind: Format = format_of(path, stated or "csv")
            self._bytes = sys.stdin.buffer.read()
        else:
            self.kind = format_of(path, stated)
            if Path(path).is_fifo():  # as bash's <(command) is
                self._bytes = Path(path).read_bytes()
            elif not Path(path).is_file():
                raise InvalidInput(
                    f"{path!r} is not a file; check the path, or use - to pipe events"
                )
        self.path = path
        self._stamp = self._present()
        size = len(self._bytes) if self._bytes is not None else Path(path).stat().st_size
        if not size and self.kind != "jsonl":  # JSON lines without events are no bytes
            needs = "the header of its columns" if self.kind == "csv" else "Parquet's own frame"
            raise InvalidInput(
                f"{self.name} is empty (0 bytes); also without events a {self.kind} file holds "
                f"{needs}: write it again"
            )

    def digest(self, columns: Sequence[str] = ()) -> str:
        """See `Rows.digest`."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        if self._bytes is not None:
            return hashlib.sha256(self._bytes).hexdigest()
        return _digest(self.path)

    def row_digest(self, columns: Sequence[str] = ()) -> str | None:
        """See `Rows.row_digest`: of the lines, whatever their compression."""
        return self._row_digest

    @cached_property
    def _row_digest(self) -> str | None:
        sums = LineSums()
        try:
            if self.kind == "parquet":
                _write_lines(self.frame(), sums)
            else:
                with self._lines() as stream:
                    while block := stream.read(_BLOCK):
                        sums.write(block)
        except (*UNREADABLE, EOFError, zlib.error):
            return None  # which is said where the rows are read
        return sums.digest() if sums.lines > (self.kind != "jsonl") else None

    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        """See `Rows.has_bytes_of`."""
        size = Path(other).stat().st_size
        if self._bytes is not None:
            return len(self._bytes) == size and _digest(other) == self.digest()
        if Path(self.path).samefile(other):
            return True
        return Path(self.path).stat().st_size == size and _digest(other) == self.digest()

    def changed(self) -> bool:
        """Whether the file was written, or replaced, since it was opened."""
        return self._present() != self._stamp

    def _present(self) -> tuple[int, ...]:
        if self._bytes is not None:
            return ()
        found = Path(self.path).stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """See `Rows.frame`."""
        self._refuse_no_text()
        source = Path(self.path) if self._bytes is None else io.BytesIO(self._bytes)
        if self.kind == "csv":
            # Text only: a column of times or group names must not be guessed to be numbers.
            rows = pl.scan_csv(source, infer_schema=False, glob=False)
            # All columns are read: of some alone polars does not see that a row has too many.
            return rows.map_batches(_as_read, projection_pushdown=False, streamable=True)
        if self.kind == "parquet":
            return pl.scan_parquet(source, glob=False)
        if columns is None:
            return pl.LazyFrame(schema=dict.fromkeys(self._keys, pl.String))
        # Text, as of CSV: types guessed from all rows would let one row change what others say.
        return pl.scan_ndjson(source, schema=dict.fromkeys(columns, pl.String))

    @cached_property
    def _keys(self) -> list[str]:
        """Names in the first JSON lines; lines that are no objects have none."""
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
        except (*UNREADABLE, EOFError, zlib.error) as error:
            raise self.unreadable(error) from error

    def _may_lack(self, name: str) -> bool:
        """See `Rows._may_lack`: of JSON lines each row names its own columns."""
        if self.kind != "jsonl":
            return False
        return self.settled or not self._keys or any(name in keys for keys in self._keys_of_lines())

    def sifted(self, columns: Sequence[str], most: int) -> Rows:
        """The rows with those empty that cannot be read; itself where all can be.

        Args:
            columns: that are asked for.
            most: so many rows that cannot be read at most.

        Raises:
            InvalidInput: more of them.
        """
        asked = list(self._asked(columns))
        if self.kind == "parquet":
            return self
        try:
            self.frame(asked).select(pl.col(asked).is_null().any()).collect(engine="streaming")
            return self
        except UNREADABLE as error:
            reason = error
        read = csv_rows if self.kind == "csv" else json_rows
        try:
            with self._lines() as lines:
                found = sifted(read(lines, asked), asked, most)
        except (*UNREADABLE, EOFError, zlib.error):
            raise self.unreadable(reason) from reason
        if isinstance(found, FileRows):
            return SiftedFile(self, found)
        row, line = found
        with self._lines() as lines:
            header = b"" if self.kind == "jsonl" else lines.readline()
        wrong = _wrong_row(io.BytesIO(header + line), self.kind)
        what = {"csv": "is no CSV", "jsonl": "is no JSON object"}[self.kind]
        raise self._wrong(row + 1, what if wrong is None else wrong[1])

    def unreadable(self, error: BaseException) -> InvalidInput:
        """See `Rows.unreadable`; names the first row that is wrong, if it can be found."""
        if self.kind == "parquet" or isinstance(error, OSError):
            return super().unreadable(error)
        try:
            with self._lines() as lines:
                wrong = _wrong_row(lines, self.kind)
        except (OSError, EOFError, zlib.error):
            wrong = None
        if wrong is None:
            return UnreadableRow(str(super().unreadable(error)))
        return self._wrong(*wrong)

    def _wrong(self, row: int, what: str) -> UnreadableRow:
        return UnreadableRow(
            f"row {row:,} of {self.name} cannot be read as {self.kind} (it {what}); repair it or "
            f"state its format"
        )

    def _start(self) -> bytes:
        return _beginning(self.path) if self._bytes is None else self._bytes[:_LOOKED_AT]

    def _lines(self) -> IO[bytes]:
        """The file without its compression.

        Raises:
            PolarsError: it is compressed by zstd, and no text in UTF-8.
        """
        held = self._bytes
        if self._start().startswith(_COMPRESSED[1]):
            packed = Path(self.path) if held is None else io.BytesIO(held)
            return io.BytesIO("\n".join(pl.scan_lines(packed).collect().to_series()).encode())
        if self._start().startswith(_COMPRESSED[0]):
            return cast(IO[bytes], gzip.open(self.path if held is None else io.BytesIO(held)))
        return open(self.path, "rb") if held is None else io.BytesIO(held)

    def _refuse_no_text(self) -> None:
        """Refuse CSV and JSON lines in UTF-16, and what is no text; polars shows bytes of it."""
        if self.kind == "parquet":
            return
        try:
            first = self._start()
        except OSError as error:
            raise self.unreadable(error) from error
        if first.startswith(_COMPRESSED):
            return
        # Of CSV the header alone is looked at, and of JSON lines no row, which decides for itself.
        header = first.split(b"\n")[0] if self.kind == "csv" else b""
        if first.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in header:
            raise InvalidInput(
                f"{self.name} is UTF-16 or no text at all, and {self.kind} is text in UTF-8; "
                f"convert it, or state its format ({field('file_format')})"
            )


class SiftedFile(Rows):
    """Rows of a file of which some cannot be read.

    Args:
        file: of CSV or JSON lines.
        found: what can be read of it.
    """

    def __init__(self, file: EventFile, found: FileRows) -> None:
        self.name, self.kind, self.file = file.name, file.kind, file
        self.together, self.settled, self.again = file.together, file.settled, file.again
        self._rows, self.unread = found.rows, found.unread

    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """See `Rows.frame`."""
        return self._rows.lazy()

    def digest(self, columns: Sequence[str] = ()) -> str:
        """See `Rows.digest`."""
        return self.file.digest(columns)

    def row_digest(self, columns: Sequence[str] = ()) -> str | None:
        """See `Rows.row_digest`."""
        return self.file.row_digest(columns)

    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        """See `Rows.has_bytes_of`."""
        return self.file.has_bytes_of(other)

    def changed(self) -> bool:
        """See `Rows.changed`."""
        return self.file.changed()


#: What a frame lends its columns by, without a copy (the Arrow PyCapsule interface).
_STREAM = "__arrow_c_stream__"


class EventFrame(Rows):
    """Rows of a data frame. A lazy frame of polars stays lazy; others are not copied.

    Args:
        frame: of polars (eager or lazy), or an object with ``__arrow_c_stream__``.

    Raises:
        InvalidInput: nothing that speaks Arrow, or a frame that cannot be handed over.

    >>> rows = EventFrame(pl.DataFrame({"time": ["2024-03-01T09:00"], "page": ["home"]}))
    >>> rows.columns()
    ['time', 'page']
    """

    name = "the data frame"
    kind = "a data frame"

    def __init__(self, frame: object) -> None:
        self._frame = _in_polars(frame)
        self._hashed: dict[tuple[str, ...], tuple[str, str | None]] = {}

    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """See `Rows.frame`."""
        return self._frame

    def scan(self, columns: Sequence[str], names: Sequence[str] = ()) -> pl.LazyFrame:
        """See `Rows.scan`.

        Raises:
            InvalidInput: a column of bytes, or as there.
        """
        found = super().scan(columns, names)
        for name, dtype in found.collect_schema().items():
            if dtype == pl.Binary:
                raise InvalidInput(
                    f"column {name!r} of {self.name} holds {dtype}, which is neither text, number "
                    f"nor time; convert it"
                )
        return found

    def digest(self, columns: Sequence[str] = ()) -> str:
        """SHA-256 of the named columns as CSV."""
        return self._digests(tuple(columns))[0]

    def row_digest(self, columns: Sequence[str] = ()) -> str | None:
        """See `Rows.row_digest`."""
        return self._digests(tuple(columns))[1]

    def _digests(self, columns: tuple[str, ...]) -> tuple[str, str | None]:
        if columns not in self._hashed:
            hashed = _Digests()
            frame = self.frame(self.of_file(columns))
            made = self._made(columns, frame.collect_schema())
            _write_lines(frame.with_columns(made).select(columns), hashed)
            lines = hashed.sums
            self._hashed[columns] = (
                hashed.sha256.hexdigest(),
                lines.digest() if lines.lines > 1 else None,
            )
        return self._hashed[columns]

    def unreadable(self, error: BaseException) -> InvalidInput:
        """See `Rows.unreadable`."""
        reason = str(error).strip().split("\n")[0]
        return InvalidInput(f"{self.name} cannot be read ({reason}); repair it")


class _Digests:
    """A file of which only digests are kept: of all of it, and of its lines in any order."""

    def __init__(self) -> None:
        self.sha256, self.sums = hashlib.sha256(), LineSums()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        self.sums.write(data)
        return len(data)

    def flush(self) -> None:
        pass


def _write_lines(frame: pl.LazyFrame, file: _Digests | LineSums) -> None:
    """Write rows as CSV, in parts, since they may be larger than memory; of flat columns."""
    types = frame.collect_schema()
    flat = [name for name, dtype in types.items() if not dtype.is_nested() and dtype != pl.Object]
    texts = frame.select(as_text(pl.col(name), types[name]) for name in flat)
    texts.sink_csv(cast(IO[bytes], file))


def _in_polars(frame: Any) -> pl.LazyFrame:
    if isinstance(frame, pl.LazyFrame):
        return frame
    if not hasattr(frame, _STREAM):
        raise InvalidInput(
            f"{field('events')} is of type {type(frame).__name__}, which is neither the path of a "
            f"file nor a data frame that speaks Arrow; give a path, or a frame of polars, pandas, "
            f"pyarrow or DuckDB"
        )
    try:
        return pl.DataFrame(frame).lazy()
    except ImportError as error:  # pandas lends its columns by way of pyarrow
        raise InvalidInput(
            f"{field('events')} is a {type(frame).__module__.partition('.')[0]} data frame, which "
            f"needs pyarrow to hand over its columns; install pyarrow, or give a path"
        ) from error
    except (pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{field('events')} is a {type(frame).__name__} that cannot be read as a data frame "
            f"({str(error).splitlines()[0]}); give its columns plain types, or a path"
        ) from error


def _as_read(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


def _listing(columns: Sequence[str]) -> str:
    """Names of columns for a message: a few, and readable."""
    if not columns:
        return "it has no columns"
    names = [name if name.isprintable() else repr(name) for name in columns[:_COLUMNS_SHOWN]]
    shown = ", ".join(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..." for name in names)
    more = len(columns) - len(names)
    return f"its columns are {shown}" + (f" and {more:,} more" if more else "")


_COLUMNS_SHOWN, _SHOWN = 12, 60


def _wrong_row(lines: IO[bytes], kind: Format) -> tuple[int, str] | None:
    """The first row that is no CSV or JSON, and what it is in words; None if there is none."""
    row = 0
    texts = _decoded(lines)
    try:
        if kind == "jsonl":
            for text in texts:
                row += bool(text.strip())
                if text.strip() and not isinstance(json.loads(text, parse_int=str), dict):
                    return row, "is no JSON object"
            return None
        reader = csv.reader(texts, strict=True)
        width = len(next(reader, []))
        for row, fields in enumerate(reader, 1):
            if len(fields) > width:
                return row, f"has {len(fields)} fields, {len(fields) - width} more than the header"
    except UnicodeDecodeError:
        return row + 1, "has bytes that are not UTF-8"
    except RecursionError:
        return row, "is nested too deeply"
    except ValueError:
        return row, "is no JSON object"
    except csv.Error as error:
        return row + 1, f"is no CSV ({error})"
    return None


def _decoded(lines: IO[bytes]) -> Iterator[str]:
    for line in lines:
        yield line.decode("utf-8")


@dataclass(frozen=True)
class Source:
    """All rows that a run is given.

    >>> from counton.events.files import open_source
    >>> open_source(pl.DataFrame({"time": ["2024-03-01T09:00"]})).name
    'the data frame'

    Attributes:
        parts: files in their order, or one frame; each has its own types of columns.
        name: what messages call the whole.
    """

    parts: tuple[Rows, ...]
    name: str

    @property
    def live(self) -> bool:
        """Whether it is a part of events that go on, in which no row need count yet."""
        return False

    @property
    def checked(self) -> bool:
        """Whether rows that cannot be counted were told apart when they came: there are none."""
        return False

    @property
    def comes_once(self) -> bool:
        """Whether its rows are removed where they lie in the transaction that counts them.

        Then they cannot come again, and nothing is kept by which they would be known.
        """
        return False

    def delegate(self, reading: Any) -> Source:
        """The source that counts these rows: itself, or one that does so where they lie.

        Args:
            reading: how they are read, a `counton.events.tally.RowReading`.
        """
        return self

    def digests(self, columns: Sequence[str]) -> tuple[str, ...]:
        """SHA-256 of each part: see `Rows.digest`."""
        return tuple(part.digest(columns) for part in self.parts)

    def columns(self) -> list[str]:
        """Names of the columns of the first part."""
        return self.parts[0].columns()

    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        """Whether a file is a part, by whatever path, or holds the same bytes."""
        return any(part.has_bytes_of(other) for part in self.parts)

    def sifted(self, columns: Sequence[str], most: int) -> Source:
        """The same with rows empty that cannot be read: see `EventFile.sifted`."""
        parts = list[Rows]()
        for part in self.parts:
            left = most - sum(len(one.unread) for one in parts)
            parts.append(part.sifted(columns, left) if isinstance(part, EventFile) else part)
        return Source(tuple(parts), self.name)

    def settled(self) -> Source:
        """The same for a stream that there is: see `Rows`."""
        if type(self) is not Source:
            return self
        parts = [copy(part) for part in self.parts]
        for part in parts:
            part.settled = True
        return Source(tuple(parts), self.name)

    def of(self, parts: tuple[Rows, ...]) -> Source:
        """This source with other parts in the place of its own."""
        found = copy(self)
        object.__setattr__(found, "parts", parts)
        return found

    def without(self, parts: Sequence[Rows]) -> Source:
        """The other parts."""
        return Source(tuple(part for part in self.parts if part not in parts), self.name)

    def changed(self) -> Rows | None:
        """A part that was written since it was opened, if any."""
        return next((part for part in self.parts if part.changed()), None)


def joined(source: Source, column: str | None) -> Source:
    """A source in which several columns, named with commas between, are one that has their values.

    Args:
        source: any.
        column: of groups; as it is where the source has it, or where it names no other columns.

    >>> rows = pl.DataFrame({"sex": ["f", "m"], "adult": [True, None]})
    >>> found = joined(open_source(rows), "sex,adult")
    >>> found.parts[0].scan(["sex,adult"]).collect().to_series().to_list()
    ['f / true', None]
    """
    if column is None or "," not in column or column in source.columns():
        return source
    parts = tuple(name.strip() for name in column.split(","))
    found = []
    for rows in source.parts:
        one = copy(rows)
        one.together = {column: parts}
        found.append(one)
    return source.of(tuple(found))


def is_database(events: object) -> bool:
    """Whether events are the address of a database, or a relation of DuckDB; or one is among them.

    >>> is_database("duckdb:///visits.duckdb"), is_database(["visits.csv"])
    (True, False)
    """
    if isinstance(events, list | tuple):
        return any(map(is_database, events))
    if isinstance(events, str):
        return events.partition("://")[0].partition("+")[0] in _DATABASES and "://" in events
    return type(events).__module__.partition(".")[0].lstrip("_") == "duckdb"


_DATABASES = ("duckdb", "postgresql")


def open_source(events: object, stated: str | None = None) -> Source:
    """The rows of a path, of several, of a folder or pattern, or of a data frame.

    Args:
        events: path of a file, ``-`` for standard input, a folder (the event files in it), a
            pattern such as ``logs/2024-*.csv``, a sequence of these; whatever speaks Arrow:
            frames and lazy frames of polars, pandas, pyarrow, DuckDB; or a source, as it is.
        stated: format of the files; from their names if None.

    Raises:
        InvalidInput: nothing of this kind, no such file, the same file twice, an empty file or an
            unknown format.
    """
    if isinstance(events, Source):
        return events
    if not isinstance(events, str | os.PathLike | list | tuple):
        frame = EventFrame(events)
        return Source((frame,), frame.name)
    if is_database(events):
        raise InvalidInput(
            f"{field('events')} are the address of a database, which only jobs ask; write its rows "
            f"into a file, or give them as a frame"
        )
    if stated is not None:
        format_of("", stated)
    paths = event_paths(events, stated)
    parts = tuple(EventFile(path, stated) for path in paths)
    name = parts[0].name if len(parts) == 1 else f"{len(parts):,} files from {parts[0].name}"
    return Source(parts, name)


def event_paths(events: object, stated: str | None = None) -> list[str]:
    """Paths of the files that events are read from; none of a data frame.

    Raises:
        InvalidInput: a folder or pattern without event files, or a file twice.
    """
    if not isinstance(events, str | os.PathLike | list | tuple) or is_database(events):
        return []
    given = [events] if isinstance(events, str | os.PathLike) else list(events)
    if not given:
        raise InvalidInput(f"{field('events')} names no file; give at least one")
    paths = [path for one in given for path in _found(one, stated)]
    seen: set[str] = set()
    for path in paths:
        place = os.path.realpath(path) if path != "-" else path
        if place in seen:
            raise InvalidInput(f"{path!r} is given twice, and would be counted twice; give it once")
        seen.add(place)
    return paths


def names_tell_format(events: object) -> bool:
    """Whether the names of all files say what they are; of a frame nothing has to be said.

    >>> names_tell_format(["a.csv", "b.jsonl.gz"]), names_tell_format("a.log")
    (True, False)
    """
    if not isinstance(events, str | os.PathLike | list | tuple) or is_database(events):
        return True
    given = [events] if isinstance(events, str | os.PathLike) else list(events)
    names = list[str]()
    for one in given:
        if not isinstance(one, str | os.PathLike):
            return False
        path = os.fspath(one)
        if os.path.isdir(path):
            hidden = (".", "_")
            inside = [entry for entry in os.scandir(path) if not entry.name.startswith(hidden)]
            names += [entry.path for entry in inside if entry.is_file()]
        else:
            names += glob.glob(path, recursive=True) if glob.has_magic(path) else [path]
    return all(_ending(name) in _SUFFIXES for name in names)


def refuse_among_events(events: object, out: Path | None) -> None:
    """Refuse a table that a later run would take for events, since it lies in their folder.

    Raises:
        InvalidInput: naming both.
    """
    if out is None or _ending(out.name) not in _SUFFIXES:
        return
    given = events if isinstance(events, list | tuple) else [events]
    for path in given:
        if not isinstance(path, str | os.PathLike) or not os.path.isdir(path):
            continue
        if os.path.realpath(path) == os.path.realpath(out.parent):
            raise InvalidInput(
                f"{str(out)!r} would be read as events by the next run, which reads the folder "
                f"{os.fspath(path)!r}; write it elsewhere"
            )


def _found(given: object, stated: str | None) -> list[str]:
    """Files that one path means: itself, those in a folder, those of a pattern."""
    if not isinstance(given, str | os.PathLike):
        raise InvalidInput(
            f"{field('events')} holds a value of type {type(given).__name__}, which is not the "
            f"path of a file; give paths, or one data frame alone"
        )
    path = os.fspath(given)
    if not is_text(path):
        raise InvalidInput(
            f"{field('events')} is {path[:80]!r}, which is no text in UTF-8 (a byte of another "
            f"encoding, or NUL); rename the file"
        )
    if path == "-" or (os.path.exists(path) and not os.path.isdir(path)):
        return [path]
    if os.path.isdir(path):
        inside = sorted(entry.path for entry in os.scandir(path) if _is_events(entry, stated))
        if not inside:
            raise InvalidInput(
                f"the folder {path!r} holds no event files ({', '.join(_SUFFIXES)}, also .gz and "
                f".zst); name the files, or give a pattern such as {os.path.join(path, '*')!r}"
            )
        return inside
    if not glob.has_magic(path):
        folder = os.path.dirname(path)
        missing = f"there is no folder {folder!r}" if folder and not os.path.isdir(folder) else ""
        raise InvalidInput(
            f"{path!r} is not a file{missing and f' ({missing})'}; check the path, or use - to "
            f"pipe events"
        )
    matching = sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name))
    if not matching:
        raise InvalidInput(f"no file matches {path!r}; check the pattern")
    return matching


def _is_events(entry: os.DirEntry[str], stated: str | None) -> bool:
    return (
        entry.is_file()
        and not entry.name.startswith((".", "_"))
        and (stated is not None or _ending(entry.name) in _SUFFIXES)
    )

"""Rows of events with named columns, and all that a run is given of them; rows of data frames."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Any, cast

import polars as pl
from typing_extensions import override

from counton.base.columns import BETWEEN
from counton.base.errors import InvalidInput, field
from counton.rows.paths import SEPARATORS
from counton.rows.timestamps import as_text

#: What polars raises where rows cannot be read. It ends with a panic, which is no `Exception`, on
#: types and values that it has not been taught.
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)


class UnreadableRow(InvalidInput):
    """One line of a file cannot be read; the others may be, see `Source.sift`."""


class Rows(ABC):
    """Rows with named columns: one file, standard input, or a data frame.

    Attributes:
        name: what messages call it.
        kind: as what it is read, in messages.
        numbered: its rows have an order, so that one is found again by its number.
        together: columns that are made of others, see `join_columns`.
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

    def number(self, given: pl.Expr) -> pl.Expr:
        """A column of numbers, so that it can be cast: of text with a decimal point."""
        return given

    def sift(self, columns: Sequence[str], most: int) -> Rows:
        """The rows with those empty that cannot be read: see `EventFile.sift`."""
        return self

    @abstractmethod
    def digest(self, columns: Sequence[str] = ()) -> str:
        """SHA-256 of a file's bytes, unpacked, or of a frame's ``columns``, in hexadecimal."""

    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        """Whether a file is this one, by whatever path, or holds the same bytes."""
        return False

    def has_changed(self) -> bool:
        """Whether it was written since it was opened."""
        return False

    def scan(self, columns: Sequence[str], names: Sequence[str] = ()) -> pl.LazyFrame:
        """The named columns, text where the format has no types of its own.

        What a row says is a function of that row alone: no type is guessed from other rows.

        Args:
            columns: names of the columns wanted.
            names: those of them by whose text rows are told: of groups, users, ids.
        """
        asked, present = self._parts_of(columns), self.columns()
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
        return found.with_columns(self._combined_columns(columns, types)).select(columns)

    def _parts_of(self, columns: Sequence[str]) -> dict[str, None]:
        """Those columns of the rows of which some are made, or are."""
        return dict.fromkeys(part for name in columns for part in self.together.get(name, (name,)))

    def _may_lack(self, name: str) -> bool:
        """Whether a column that was not found may be missing from all rows."""
        return False

    def of_file(self, columns: Sequence[str]) -> list[str]:
        """The columns as they are given: what those are made of that are made of others."""
        return list(self._parts_of(columns))

    def _combined_columns(
        self, columns: Sequence[str], types: Mapping[str, pl.DataType]
    ) -> list[pl.Expr]:
        """Those of the columns that are made of others; null where one of these is."""
        return [
            pl.concat_str(
                [as_text(pl.col(part), types[part]) for part in parts], separator=BETWEEN
            ).alias(name)
            for name, parts in self.together.items()
            if name in columns
        ]

    def columns(self) -> list[str]:
        """Names of the columns."""
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
    """
    if dtype.is_float() or (isinstance(dtype, pl.Decimal) and dtype.scale):
        raise InvalidInput(
            f"column {column!r} of {rows.name} holds {dtype}, which has several texts for one "
            f"number, so that its names could not be told from each other (and a single missing "
            f"value can have made it so); cast it to whole numbers or text"
        )


def _listing(columns: Sequence[str]) -> str:
    if not columns:
        return "it has no columns"
    other = next((sign for sign in SEPARATORS if len(columns) == 1 and sign in columns[0]), None)
    if other is not None:
        said = field("separator", "tab" if other == "\t" else f"'{other}'")
        return f"its only one is {columns[0][:_SHOWN]!r}: say what stands between them, {said}"
    names = [name if name.isprintable() else repr(name) for name in columns[:_COLUMNS_SHOWN]]
    shown = ", ".join(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..." for name in names)
    more = len(columns) - len(names)
    return f"its columns are {shown}" + (f" and {more:,} more" if more else "")


_COLUMNS_SHOWN, _SHOWN = 12, 60


@dataclass(frozen=True)
class Source:
    """All rows that a run is given.

    >>> from counton.rows.files import open_source
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
        """The source that counts these rows: itself, or one that does so where they lie."""
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

    def sift(self, columns: Sequence[str], most: int) -> Source:
        """The same with rows empty that cannot be read: see `Rows.sift`."""
        parts = list[Rows]()
        for part in self.parts:
            left = most - sum(len(one.unread) for one in parts)
            parts.append(part.sift(columns, left))
        return Source(tuple(parts), self.name)

    def for_known_stream(self) -> Source:
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
        """The other parts, which are called by what they are."""
        rest = tuple(part for part in self.parts if part not in parts)
        return Source(rest, name_of(rest) if rest else self.name)

    def changed_part(self) -> Rows | None:
        """A part that was written since it was opened, if any."""
        return next((part for part in self.parts if part.has_changed()), None)


def name_of(parts: Sequence[Rows]) -> str:
    """What messages call some files together, as many as there are; of one its own name."""
    first = parts[0].name
    return first if len(parts) == 1 else f"{len(parts):,} files from {first}"


def join_columns(source: Source, column: str | None) -> Source:
    """A source in which several columns, named with commas between, are one that has their values.

    >>> from counton.rows.files import open_source
    >>> rows = pl.DataFrame({"sex": ["f", "m"], "adult": [True, None]})
    >>> found = join_columns(open_source(rows), "sex,adult")
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
        self._hashed: dict[tuple[str, ...], str] = {}

    @override
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        return self._frame

    @override
    def scan(self, columns: Sequence[str], names: Sequence[str] = ()) -> pl.LazyFrame:
        found = super().scan(columns, names)
        for name, dtype in found.collect_schema().items():
            if dtype == pl.Binary:
                raise InvalidInput(
                    f"column {name!r} of {self.name} holds {dtype}, which is neither text, number "
                    f"nor time; convert it"
                )
        return found

    def digest(self, columns: Sequence[str] = ()) -> str:
        """SHA-256 of the named columns as CSV; in any order, where the rows have none."""
        names = tuple(columns)
        if names not in self._hashed:
            given = self.frame(self.of_file(names))
            made = self._combined_columns(names, given.collect_schema())
            frame = given.with_columns(made).select(names)
            hashed = _HashFile()
            write_lines(frame if self.numbered else frame.sort(names), hashed)
            self._hashed[names] = hashed.sha256.hexdigest()
        return self._hashed[names]

    @override
    def unreadable(self, error: BaseException) -> InvalidInput:
        reason = str(error).strip().split("\n")[0]
        return InvalidInput(f"{self.name} cannot be read ({reason}); repair it")


class _HashFile:
    """A file of which only a digest is kept."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return len(data)

    def flush(self) -> None:
        pass


def write_lines(frame: pl.LazyFrame, file: _HashFile) -> None:
    """Write rows as CSV, in parts, since they may be larger than memory; of flat columns."""
    types = frame.collect_schema()
    flat = [name for name, dtype in types.items() if not dtype.is_nested() and dtype != pl.Object]
    written = [
        pl.col(name) if types[name].is_integer() else as_text(pl.col(name), types[name])
        for name in flat
    ]
    frame.select(written).sink_csv(cast(IO[bytes], file))


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
            f"needs pyarrow to hand over its columns: install counton's extra 'pandas' (in a "
            f"checkout: pip install '.[pandas]'), or give a path"
        ) from error
    except (pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{field('events')} is a {type(frame).__name__} that cannot be read as a data frame "
            f"({str(error).splitlines()[0]}); give its columns plain types, or a path"
        ) from error

"""Events as rows with named columns: of one file or frame (`InputPart`), or of a run (`Source`)."""

from __future__ import annotations

import hashlib
import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import IO, Any, ClassVar, cast

from typing_extensions import override

from counton.base.columns import BETWEEN
from counton.base.errors import InvalidInputError, first_line, param
from counton.base.exact import with_capital
from counton.base.look_alikes import look_alike, with_code_points
from counton.io.input_paths import SEPARATORS
from counton.io.pandas_columns import ArrowStream, convert_series
from counton.io.timestamps import as_text, physical_us
from counton.windowing.lazy_polars import polars as pl

# Polars knows no zones such as +05:30, which pandas and Arrow write, and would refuse all columns
# of a file because of one. `InputPart.scan` reads them.
os.environ.setdefault("POLARS_IGNORE_TIMEZONE_PARSE_ERROR", "1")


def unreadable_errors(*more: type[BaseException]) -> tuple[type[BaseException], ...]:
    """Return the exceptions of polars for unreadable rows, plus ``more``.

    For some types and values polars panics, with an error that is no `Exception`.
    """
    return pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, *more


class UnreadableRowError(InvalidInputError):
    """One line of a file cannot be read; others may be."""


class InputPart(ABC):
    """One part of an input, with named columns: a file, standard input, a frame or a query.

    Attributes:
        kind: name of the format, for messages.
        numbered: whether the rows have an order.
        of_bytes: whether its texts may be stored as bytes.
        together: the columns from which a column is combined: see `join_columns`.
        stream_exists: True if the stream exists already. Its columns were checked, so JSON lines
            may now lack one.
        unread: unreadable lines by number from 0; these rows are empty.
        n_not_utf8: number of those that have bytes of another encoding than UTF-8.
        path_without_compression: folder and name of the file, without .gz or .zst.
        remedy_if_changed: what to do about rows that changed while they were read.
        remedy_if_counted: what to do about events that were counted already.
    """

    name: str
    kind: str
    numbered: bool = True
    of_bytes: bool = True
    together: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    stream_exists: bool = False
    unread: Mapping[int, str] = MappingProxyType({})
    n_not_utf8: int = 0
    path_without_compression: str | None = None
    remedy_if_changed: str = "try again when nothing writes to it"
    remedy_if_counted: str = (
        f"leave it out, or leave {param('append', True)} out if the file holds everything since "
        "the first window"
    )

    def place_of(self, row: int) -> str:
        """Return words for a row, such as "row 12 of visits.csv"."""
        return f"row {row:,} of {self.name}" if self.numbered else f"a row of {self.name}"

    @abstractmethod
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        """Return these columns; all only for finding out their types. To read rows, use `scan`."""

    def kinds_of(self, columns: Sequence[str]) -> dict[str, str]:
        """Return the columns of each cell's kind, for `scan`, by the columns that they describe.

        Args:
            columns: all columns of these rows that will be read.

        Returns:
            Names of columns of `CellKind` values; without columns whose type says what cells are.
        """
        return {}

    @property
    def decimal_sign(self) -> str:
        """Decimal sign of numbers that are texts."""
        return "."

    def number(self, cell: pl.Expr) -> pl.Expr:
        """Replace the format's decimal sign, such as a comma, by a point."""
        return cell

    def count(self, column: str, cell: pl.Expr) -> pl.Expr:
        """Return counts as the format writes them, without what groups their digits.

        Args:
            column: the name of the column.
            cell: its cells.
        """
        return self.number(cell)

    def sift(self, columns: Sequence[str], most: int) -> InputPart:
        """Return the rows with at most ``most`` unreadable lines left empty."""
        return self

    @abstractmethod
    def digest(self, columns: Sequence[str] = ()) -> str:
        """Return the SHA-256 of a file's decompressed bytes, or of a frame's ``columns``."""

    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        """Return True for a path to this file, or to the same bytes."""
        return False

    def has_changed(self) -> bool:
        """Return True if the rows were changed since they were opened."""
        return False

    def scan(
        self, columns: Sequence[str], names: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> pl.LazyFrame:
        """Return columns, as text if the format has no types of its own: texts of categories, and
        UTC for a fixed offset such as ``+05:30``.

        A row's meaning depends on that row alone: no type is guessed from others.

        Args:
            columns: the names of the columns.
            names: columns whose texts identify groups, users or ids.
            kinds: further columns, from `kinds_of`.

        Raises:
            InvalidInputError: A column is missing, or its type holds no texts, numbers or times.
        """
        read_names = self.of_file(columns)
        self.check_columns(read_names)
        frame = self.frame([*read_names, *kinds])
        plain = list[pl.Expr]()
        types = frame.collect_schema()
        for name in read_names:
            dtype = types[name]
            is_readable = not dtype.is_nested() and dtype != pl.Object
            if not is_readable or (dtype == pl.Binary and not self.of_bytes):
                raise InvalidInputError(
                    f"column {name!r} of {self.name} holds {dtype}, and only text, numbers "
                    "and times can be read; convert the column"
                )
            if isinstance(dtype, pl.Categorical | pl.Enum):
                plain.append(pl.col(name).cast(pl.String))
            elif isinstance(dtype, pl.Datetime) and (dtype.time_zone or "").startswith(("+", "-")):
                utc = pl.Datetime(dtype.time_unit, "UTC")
                plain.append(pl.col(name).to_physical().cast(utc))
        if plain:
            frame = frame.with_columns(plain)
            types = frame.collect_schema()
        for name in names:
            for part in self.together.get(name, (name,)):
                refuse_floats(self, part, types[part])
        if self.together:
            frame = frame.with_columns(self._combined_columns(columns, types))
        return frame.select([*columns, *kinds])

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse rows that lack a column, or have two of its name."""
        present = self.columns()
        for name in names:
            if name not in present and not self._may_lack(name):
                raise no_column(self.name, name, present, self._elsewhere(name))
            # Polars calls the second one so.
            if present.count(name) > 1 or f"{name}_duplicated_0" in present:
                raise InvalidInputError(
                    f"{self.name} has two columns {name!r}, so nobody can tell which is meant; "
                    "rename or remove one of them"
                )

    def _may_lack(self, name: str) -> bool:
        """Return True if the rows may lack this column."""
        return False

    def _elsewhere(self, name: str) -> str:
        """Return the end of a message about a missing column: where it may be, and the remedy."""
        return ""

    def of_file(self, columns: Sequence[str]) -> list[str]:
        """Return the file's own columns from which ``columns`` are made, each once."""
        parts = (part for name in columns for part in self.together.get(name, (name,)))
        return list(dict.fromkeys(parts))

    def _combined_columns(
        self, columns: Sequence[str], types: Mapping[str, pl.DataType]
    ) -> list[pl.Expr]:
        """Return expressions for combined columns: joined texts, null where one is."""
        return [
            pl.concat_str(
                [as_text(pl.col(part), types[part]) for part in parts], separator=BETWEEN
            ).alias(name)
            for name, parts in self.together.items()
            if name in columns
        ]

    def columns(self) -> list[str]:
        try:
            return self.frame().collect_schema().names()
        except unreadable_errors(UnicodeDecodeError) as error:
            raise self.unreadable(error) from error

    def unreadable(self, error: BaseException) -> InvalidInputError:
        """Return the error for what polars raised."""
        reason = first_line(error)
        if isinstance(error, OSError | EOFError | zlib.error):
            refused = isinstance(error, PermissionError) or "ermission denied" in reason
            remedy = "check its permissions" if refused else "it may be truncated: write it again"
            return InvalidInputError(f"{self.name} cannot be read ({reason}); {remedy}")
        return InvalidInputError(
            f"{self.name} cannot be read as {self.kind} ({reason}); correct the file, or state its "
            "format"
        )


def refuse_floats(rows: InputPart, column: str, dtype: pl.DataType) -> None:
    """Refuse floats as names, because their text may depend on other rows.

    In many programs one missing value turns whole numbers into floats: every row then reads "1.0".
    """
    if dtype.is_float() or (isinstance(dtype, pl.Decimal) and dtype.scale):
        raise InvalidInputError(
            f"column {column!r} of {rows.name} holds {dtype}, and one such number can be written "
            "as several texts (1 and 1.0), so names could not be told apart; convert the column to "
            "whole numbers or text (a single missing value may have changed its type)"
        )


def no_column(
    source_name: str, name: str, present: Sequence[str], elsewhere: str = ""
) -> InvalidInputError:
    """Build the error for a missing column; it proposes the nearest."""
    alike = look_alike(name, present)
    if alike is not None:
        return InvalidInputError(
            f"{source_name} has no column {with_code_points(name)}, but {with_code_points(alike)}, "
            "which looks equal; write the name as the column has it"
        )
    near = get_close_matches(name, present, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    return InvalidInputError(
        f"{source_name} has no column {name!r}.{meant} {with_capital(_listing(present))}{elsewhere}"
    )


def _listing(columns: Sequence[str]) -> str:
    if not columns:
        return "it has no columns"
    other = next((sign for sign in SEPARATORS if len(columns) == 1 and sign in columns[0]), None)
    if other is not None:
        option = param("separator", "tab" if other == "\t" else f"'{other}'")
        return (
            f"its only column is {columns[0][:_SHOWN_CHARACTERS]!r}: say which character separates "
            f"columns, {option}"
        )
    names = [name if name.isprintable() else repr(name) for name in columns[:_SHOWN_COLUMNS]]
    shown = ", ".join(
        name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}..."
        for name in names
    )
    more = len(columns) - len(names)
    return f"its columns are {shown}" + (f" and {more:,} more" if more else "")


_SHOWN_COLUMNS = 12
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class Source:
    """The rows of a run, in one or more parts, such as files.

    >>> from counton.io.files import open_source
    >>> open_source(pl.DataFrame({"time": ["2024-03-01T09:00"]})).name
    'the data frame'

    Attributes:
        parts: files in their order, or one frame, perhaps of different types.
    """

    parts: tuple[InputPart, ...]
    name: str
    #: True if rows wait in a service's inbox. They were checked when they arrived, and are removed
    #: in the transaction that counts them: they cannot come again, so no digest is kept.
    comes_from_inbox: ClassVar[bool] = False

    @property
    def may_grow(self) -> bool:
        """True if more events will follow, so that a source may be empty."""
        return False

    def columns(self) -> list[str]:
        """Return the columns of the first part."""
        return self.parts[0].columns()

    def has_bytes_of(self, other: str | os.PathLike[str]) -> bool:
        """Return True for a path to one of the parts, or to the same bytes."""
        return any(input_part.has_bytes_of(other) for input_part in self.parts)

    def sift(self, columns: Sequence[str], most: int) -> Source:
        """Return the source with at most ``most`` unreadable lines in all left empty."""
        parts = list[InputPart]()
        for input_part in self.parts:
            remaining = most - sum(len(sifted.unread) for sifted in parts)
            parts.append(input_part.sift(columns, remaining))
        return Source(tuple(parts), self.name)

    def for_known_stream(self) -> Source:
        """Return a copy whose parts have `InputPart.stream_exists`."""
        if type(self) is not Source:
            return self
        parts = [copy(input_part) for input_part in self.parts]
        for input_part in parts:
            input_part.stream_exists = True
        return Source(tuple(parts), self.name)

    def without(self, parts: Sequence[InputPart]) -> Source:
        """Return the source without some parts, named by the others."""
        rest = tuple(input_part for input_part in self.parts if input_part not in parts)
        return Source(rest, name_of(rest) if rest else self.name)


def name_of(parts: Sequence[InputPart]) -> str:
    """Return a single file's name, else the first and the number of files."""
    first = parts[0].name
    return first if len(parts) == 1 else f"{len(parts):,} files from {first}"


def join_columns(source: Source, column: str | None) -> Source:
    """Combine columns, separated by commas, by joining their values as texts; one name stays.

    >>> from counton.io.files import open_source
    >>> rows = pl.DataFrame({"sex": ["f", "m"], "adult": [True, None]})
    >>> found = join_columns(open_source(rows), "sex,adult")
    >>> found.parts[0].scan(["sex,adult"]).collect().to_series().to_list()
    ['f / true', None]
    """
    if column is None or "," not in column or column in source.columns():
        return source
    joined = copy(source)
    parts = [copy(rows) for rows in source.parts]
    for rows in parts:
        rows.together = {column: tuple(name.strip() for name in column.split(","))}
    object.__setattr__(joined, "parts", tuple(parts))
    return joined


#: Method by which a frame exports its columns without a copy (the Arrow PyCapsule interface).
_STREAM = "__arrow_c_stream__"

#: Libraries whose tables have no order of rows.
_UNORDERED = ("duckdb", "_duckdb", "ibis")


class EventFrame(InputPart):
    """Rows of a polars frame; a lazy one stays lazy, and none is copied.

    >>> rows = EventFrame(pl.DataFrame({"time": ["2024-03-01T09:00"], "page": ["home"]}))
    >>> rows.columns()
    ['time', 'page']
    """

    kind = "a data frame"
    of_bytes = False

    def __init__(self, frame: pl.DataFrame | pl.LazyFrame, name: str = "the data frame") -> None:
        self._frame = frame.lazy()
        self.name = name
        self._hashed: dict[tuple[str, ...], str] = {}

    @override
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        return self._frame

    def digest(self, columns: Sequence[str] = ()) -> str:
        """Return the SHA-256 of columns as CSV; rows without an order are sorted first."""
        names = tuple(columns)
        if names not in self._hashed:
            raw = self.frame(self.of_file(names))
            combined = self._combined_columns(names, raw.collect_schema())
            frame = raw.with_columns(combined).select(names)
            hashed = _HashFile()
            write_lines(frame if self.numbered else frame.sort(names), hashed)
            self._hashed[names] = hashed.sha256.hexdigest()
        return self._hashed[names]

    @override
    def unreadable(self, error: BaseException) -> InvalidInputError:
        return InvalidInputError(
            f"{self.name} cannot be read ({first_line(error)}); correct the file"
        )


#: Beginning of the names of the columns that hold the kinds of another column's cells.
_KINDS = "\0kinds of "


def kinds_column(column: str) -> str:
    """Return the name of the column that holds the kinds of a column's cells."""
    return f"{_KINDS}{column}"


class FetchedColumns(EventFrame):
    """Rows whose columns are fetched when needed: a column that nobody reads is never converted.

    Without an order (``numbered``) they are known again in any.
    """

    def __init__(self, *, numbered: bool) -> None:
        super().__init__(pl.DataFrame())
        self._held = pl.DataFrame()
        if not numbered:
            self.numbered = False
            self.remedy_if_changed = "select rows that do not change during the run"
            self.remedy_if_counted = (
                f"select only the new rows, or leave {param('append', True)} out if the query "
                "returns everything since the first window"
            )

    @abstractmethod
    def _fetch(self, names: Sequence[str]) -> pl.DataFrame:
        """Return the columns of all rows, and for columns of objects those of `kinds_column`."""

    @override
    @abstractmethod
    def columns(self) -> list[str]: ...

    @override
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        names = self.columns() if columns is None else columns
        present = set(self._held.columns)
        if not present.issuperset(names):
            # All columns are read at once: a second reading may find the rows in another order.
            fetched = [name for name in self._held.columns if not name.startswith(_KINDS)]
            self._held = self._fetch(list(dict.fromkeys((*fetched, *names))))
        return self._held.lazy().select(names)


class LentFrame(FetchedColumns):
    """Rows of a frame with ``__arrow_c_stream__``; columns of pandas are read without pyarrow.

    Raises:
        InvalidInputError: the object does not export Arrow, or the export fails.
    """

    def __init__(self, frame: Any) -> None:
        if hasattr(frame, "to_frame") or hasattr(frame, "chunks"):  # of pandas, polars or pyarrow
            raise InvalidInputError(
                f"{param('events')} is a {type(frame).__name__}, which is a single column, not a "
                "data frame; give a data frame with this column, as from series.to_frame('time')"
            )
        if not hasattr(frame, _STREAM):
            raise InvalidInputError(
                f"{param('events')} is of type {type(frame).__name__}, which is neither the path "
                f"of a file nor a data frame that exports Arrow; give a path, or a frame of "
                f"polars, pandas, pyarrow or DuckDB"
            )
        super().__init__(numbered=type(frame).__module__.partition(".")[0] not in _UNORDERED)
        self._lent = frame
        if hasattr(frame, "select") or hasattr(frame, "iloc"):
            # The columns of pyarrow's tables are their data.
            named = getattr(frame, "column_names", None) or frame.columns
            self._names = [str(name) for name in named]
        else:  # a stream, which is read once
            try:
                self._held = pl.DataFrame(ArrowStream(frame))
            except (Exception, pl.exceptions.PanicException) as error:  # of any library
                raise self.unreadable(error) from error
            self._names = self._held.columns

    @override
    def columns(self) -> list[str]:
        return self._names

    @override
    def _fetch(self, names: Sequence[str]) -> pl.DataFrame:
        try:
            return self._convert(names)
        except InvalidInputError:
            raise
        except (Exception, pl.exceptions.PanicException) as error:  # of any library
            for name in names:
                try:
                    self._convert([name])
                except (Exception, pl.exceptions.PanicException) as reason:
                    raise InvalidInputError(
                        f"column {name!r} of {self.name} cannot be read ({first_line(reason)}); "
                        "convert it to text, numbers or times"
                    ) from reason
            raise self.unreadable(error) from error

    def _convert(self, names: Sequence[str]) -> pl.DataFrame:
        lent = self._lent
        if hasattr(lent, "iloc"):
            columns = list[pl.Series]()
            for name in names:
                converted = convert_series(name, lent.iloc[:, self._names.index(name)])
                columns.append(converted.texts)
                if converted.kinds is not None:
                    columns.append(converted.kinds.alias(kinds_column(name)))
            return pl.DataFrame(columns)
        if hasattr(lent, "project"):  # DuckDB takes expressions
            quoted = (name.replace('"', '""') for name in names)
            chosen = lent.project(", ".join(f'"{name}"' for name in quoted))
        else:
            chosen = lent.select(list(names))
        return pl.DataFrame(ArrowStream(chosen)).select(names)

    @override
    def kinds_of(self, columns: Sequence[str]) -> dict[str, str]:
        self.frame(columns)
        kinds = {column: kinds_column(column) for column in columns}
        return {column: name for column, name in kinds.items() if name in self._held.columns}

    @override
    def _elsewhere(self, name: str) -> str:
        index = getattr(self._lent, "index", None) if hasattr(self._lent, "reset_index") else None
        if index is None:
            return ""
        if name in index.names:
            return f", and {name!r} is in its index: give the frame's reset_index()"
        if getattr(index, "nlevels", 1) > 1:
            return ", and its index has several levels: give the frame's reset_index()"
        if index.dtype.kind == "M":
            return f", and its index holds times: give the frame's reset_index(names={name!r})"
        if index.dtype.kind not in "biuf":  # numbers mostly number the rows
            return f"; if its index holds them, give the frame's reset_index(names={name!r})"
        return ""

    @override
    def unreadable(self, error: BaseException) -> InvalidInputError:
        return InvalidInputError(
            f"{param('events')} is a {type(self._lent).__name__} that cannot be read as a data "
            f"frame ({first_line(error)}); give its columns plain types, or give a path"
        )


def open_frame(frame: Any) -> EventFrame:
    return (EventFrame if isinstance(frame, pl.DataFrame | pl.LazyFrame) else LentFrame)(frame)


class _HashFile:
    """Keeps only a digest of the bytes written."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return len(data)

    def flush(self) -> None:
        pass


def _same_text(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return values that are the same in all types: times in microseconds, and whole floats.

    >>> seconds = pl.Series("at", [5000], pl.Int64).cast(pl.Datetime("ns"))
    >>> seconds.to_frame().select(_same_text(pl.col("at"), seconds.dtype)).item()
    5
    """
    if isinstance(dtype, pl.Datetime):
        us = pl.coalesce(physical_us(column, dtype), column.to_physical())
        return us if dtype.time_zone is None else us.name.suffix(" in UTC")
    if dtype.is_float():
        whole = (column == column.floor()) & (column.abs() < 2**53)
        integer = pl.when(whole).then(column).cast(pl.Int64).cast(pl.String)
        return pl.coalesce(integer, as_text(column, dtype))
    return as_text(column, dtype)


def write_lines(frame: pl.LazyFrame, file: _HashFile) -> None:
    """Write rows as CSV, some at a time; columns of lists, records or objects are left out."""
    types = frame.collect_schema()
    flat = [name for name, dtype in types.items() if not dtype.is_nested() and dtype != pl.Object]
    written = [
        pl.col(name) if types[name].is_integer() else _same_text(pl.col(name), types[name])
        for name in flat
    ]
    frame.select(written).sink_csv(cast(IO[bytes], file))

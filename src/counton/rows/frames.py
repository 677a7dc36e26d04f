"""Rows of data frames: whatever speaks Arrow, read lazily with polars."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import IO, Any, cast

import polars as pl
from typing_extensions import override

from counton.base.errors import InvalidInput, field
from counton.rows.sources import Rows
from counton.rows.timestamps import as_text

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
            f"needs pyarrow to hand over its columns; install pyarrow, or give a path"
        ) from error
    except (pl.exceptions.PolarsError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"{field('events')} is a {type(frame).__name__} that cannot be read as a data frame "
            f"({str(error).splitlines()[0]}); give its columns plain types, or a path"
        ) from error

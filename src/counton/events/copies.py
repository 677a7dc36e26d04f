"""Whether two files hold the same rows, whatever their formats and the order of their columns.

Text says of itself no type. So what a column of text is compared with says how it is read: the
``0.10`` of a CSV file is the 0.1 of a Parquet file, and a time is a moment in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import IO, cast

import polars as pl

from counton.events.linesums import LineSums
from counton.events.sources import UNREADABLE, Rows
from counton.events.windows import as_text

#: Makes moments of a column of times of some type: see `counton.events.windows.moments`.
Moments = Callable[[str, pl.DataType], pl.Expr]


def same_rows(one: Rows, other: Rows, time: str | None, moments: Moments) -> bool:
    """Whether two files have the same columns, and the same rows in any order.

    Args:
        one, other: files.
        time: the column of times, if there is one.
        moments: how it is read.

    >>> from counton.events.opening import open_source
    >>> text = pl.DataFrame({"n": ["1", "2"], "paid": ["0.10", "3"]})
    >>> typed = pl.DataFrame({"paid": [3.0, 0.1], "n": [2, 1]})
    >>> files = [open_source(rows).parts[0] for rows in (text, typed, typed.with_columns(n=1))]
    >>> same_rows(files[0], files[1], None, None), same_rows(files[0], files[2], None, None)
    (True, False)
    """
    names = sorted(one.columns())
    unread = [sorted(rows.unread.values()) for rows in (one, other)]  # of which nothing is known
    if names != sorted(other.columns()) or unread[0] != unread[1]:
        return False
    frames = one.frame(names), other.frame(names)
    try:
        types = [dict(frame.collect_schema()) for frame in frames]
        flat = [name for name in names if all(_is_flat(each[name]) for each in types)]
        sums = []
        for frame, own, others in zip(frames, types, reversed(types), strict=True):
            read = [
                moments(name, own[name]).alias(name)
                if name == time
                else _read_as(name, own[name], others[name], moments)
                for name in flat
            ]
            lines = LineSums()
            frame.select(read).sink_csv(cast(IO[bytes], lines), include_header=False)
            sums.append(lines.digest())
    except UNREADABLE:
        return False  # which is said where rows are counted
    return sums[0] == sums[1]


def alike(looks: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of places that look alike: each with the first that does.

    >>> alike(["a", "b", "", "a", "a", ""])
    [(0, 3), (0, 4)]
    """
    first: dict[str, int] = {}
    found = []
    for place, look in enumerate(looks):
        before = first.setdefault(look, place)
        if look and before != place:
            found.append((before, place))
    return found


def _is_flat(dtype: pl.DataType) -> bool:
    return not dtype.is_nested() and dtype != pl.Object


def _read_as(name: str, own: pl.DataType, other: pl.DataType, moments: Moments) -> pl.Expr:
    """Texts that are equal where two columns of the same name say the same."""
    column = pl.col(name)
    if pl.String in (own, other) and own != other:
        typed = other if own == pl.String else own
        if typed.is_numeric():
            return as_text(column.cast(typed, strict=False), typed).alias(name)
        if typed == pl.Date or isinstance(typed, pl.Datetime):
            return moments(name, own).alias(name)
        if typed == pl.Boolean:
            return as_text(column, own).str.to_lowercase().alias(name)
    return as_text(column, own).fill_null("").alias(name)

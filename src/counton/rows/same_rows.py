"""Whether two files hold the same rows, whatever their formats and the order of their columns.

Text says of itself no type. So what a column of text is compared with says how it is read: the
``0.10`` of a CSV file is the 0.1 of a Parquet file, and a time is a moment in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from counton.rows.sources import UNREADABLE, Rows
from counton.rows.timestamps import as_text

#: Makes moments of a column of times of some type: see `counton.rows.timestamps.moments`.
Moments = Callable[[str, pl.DataType], pl.Expr]
#: Columns by name, with their types.
_Types = Mapping[str, pl.DataType]


def find_copy(
    parts: Sequence[Rows], time: str | None, moments: Moments
) -> tuple[Rows, Rows] | None:
    """A file, and a later one of the same columns with the same rows in any order, if any.

    Each is read as often as there are kinds of columns among them.

    >>> from counton.rows.files import open_source
    >>> text = pl.DataFrame({"n": ["1", "2"], "paid": ["0.10", "3"]})
    >>> typed = pl.DataFrame({"paid": [3.0, 0.1], "n": [2, 1]})
    >>> files = [open_source(rows).parts[0] for rows in (text, typed, typed.with_columns(n=1))]
    >>> find_copy(files, None, None) == (files[0], files[1]), find_copy(files[1:], None, None)
    (True, None)
    """
    try:
        types = [
            dict(sorted(part.frame(part.columns()).collect_schema().items())) for part in parts
        ]
    except UNREADABLE:
        return None  # which is said where rows are counted
    kinds = [each for k, each in enumerate(types) if each not in types[:k]]
    known: dict[object, Rows] = {}
    for part, own in zip(parts, types, strict=True):
        for kind, others in enumerate(kinds):
            if own.keys() != others.keys():
                continue
            read = _all_read_as(own, others, time, moments)
            try:
                hashes = part.frame(list(own)).select(hash=pl.struct(read).hash())
                found = hashes.select(pl.len(), pl.col("hash").sum()).collect().row(0)
            except UNREADABLE:
                continue
            unread = tuple(sorted(part.unread.values()))  # of which nothing is known
            pair = frozenset((kind, kinds.index(own)))
            first = known.setdefault((pair, unread, found), part)
            if first is not part:
                return first, part
    return None


def _all_read_as(own: _Types, others: _Types, time: str | None, moments: Moments) -> list[pl.Expr]:
    return [
        moments(name, own[name]).alias(name)
        if name == time
        else _read_as(name, own[name], others[name], moments)
        for name in own
        if _is_flat(own[name]) and _is_flat(others[name])
    ]


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

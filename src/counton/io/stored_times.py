"""Rows that are only counted: one stands for all of its group in a piece of a window.

Most rows of a file lie in few windows and groups. Rows are first grouped by their group and by the
piece of a window (`Windows.pieces`) in which they lie, which is a quotient of stored integers.
`assign_part` then finds once for each piece and group what its rows mean, by its newest time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from counton.io.row_assignment import (
    RowMapping,
    assign_part,
    collect,
    row_number_name,
    stored_times_and_groups,
    watched,
)
from counton.io.sources import Source, open_frame
from counton.io.timestamps import StoredTimes
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows, is_moment

#: Most pieces of windows times groups, if windows consist of several pieces.
_MOST_CELLS_OF_PIECES = 2**22


class _Pieces(NamedTuple):
    """Pieces of equal length that make up all windows, in the unit of stored times.

    Attributes:
        offset: a time at which a piece begins, from 0 on and less than the length.
        before, after: number of the last piece before the first window, and of the first one after
            the last window.
        first_time: first valid time.
    """

    offset: int
    length: int
    before: int
    after: int
    first_time: int

    @classmethod
    def of(cls, windows: Windows, times: StoredTimes) -> _Pieces | None:
        """Return the pieces; None if their edges lie between two stored times."""
        if windows.pieces is None:
            return None
        origin_us, length_us = windows.pieces
        length = times.from_us(length_us)
        offset = times.from_us(origin_us % length_us)
        if length is None or offset is None:
            return None
        if offset and times.are_all_valid:  # a difference could be less than the least integer
            return None
        begin_us = int(windows.starts(range(1, 2))[0])
        first, after = (
            (edge - origin_us % length_us) // length_us for edge in (begin_us, windows.end)
        )
        return cls(offset, length, first - 1, after, times.first)

    @property
    def within(self) -> int:
        """Number of pieces of all windows."""
        return self.after - self.before - 1

    def number(self, time: pl.Expr, watch: Callable[[int], None] | None) -> pl.Expr:
        """Return the number of the piece of each stored time; ``watch`` hears of further rows.

        Valid times outside all windows share the numbers ``before`` and ``after``. Times before all
        valid ones have a number of their own, so that the newest of these is invalid, too.
        """
        read = watched(time, watch)
        since = read - self.offset if self.offset else read
        number = (since // self.length).clip(self.before, self.after)
        return pl.when(time < self.first_time).then(self.before - 1).otherwise(number)


def assign_counted_rows(
    source: Source,
    mapping: RowMapping,
    groups: int,
    watch: Callable[[int], None] | None = None,
) -> pl.DataFrame | None:
    """Assign the rows of a source, of which only the number by window and group is wanted.

    Args:
        source: the rows.
        mapping: the options by which they are read; the rows have no values, users and ids.
        groups: number of groups.
        watch: function that is told of further rows read.

    Returns:
        ``us`` (the newest time), ``window`` and ``group`` as `assign_rows` gives them, and
        ``number`` of rows. None if times are not stored as times, or if one is of an invalid year:
        then each row must be assigned by itself.
    """
    parts = [stored_times_and_groups(input_part, mapping) for input_part in source.parts]
    plain = [part for part in parts if part is not None]
    if len(plain) < len(parts) or len({part.type_of_time for part in plain}) > 1:
        return None
    time = pl.col(mapping.columns.time)
    pieces = _Pieces.of(mapping.windows, StoredTimes.of(plain[0].type_of_time))
    if pieces is None:
        return None
    if pieces.within > mapping.windows.steps and pieces.within * groups > _MOST_CELLS_OF_PIECES:
        return None
    piece = row_number_name(mapping.columns.names)
    number = f"{piece} number"
    stored = time.to_physical().cast(pl.Int64)
    names = [name for name in mapping.columns.names if name != mapping.columns.time]
    rows = pl.concat([part.frame for part in plain])
    cells = collect(
        source,
        rows.with_columns(pieces.number(stored, watch).alias(piece))
        .group_by(piece, *names)
        .agg(time.max(), pl.len().cast(pl.Int64).alias(number)),
    )
    assigned = assign_part(open_frame(cells), mapping).collect()
    is_readable = is_moment(pl.col("us")) | cells[mapping.columns.time].is_null()
    if not assigned.select(is_readable.all()).item():
        return None
    return assigned.with_columns(number=cells[number])

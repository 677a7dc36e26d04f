"""Labels of rows where nobody declared the groups. Secret, until a group is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import StreamConflict
from counton.base.groups import GroupNames
from counton.base.private import Private, open_private
from counton.rows.remote_rows import Spread
from counton.rows.row_reading import RowReading
from counton.rows.window_marks import collect, mark_rows

if TYPE_CHECKING:
    from counton.rows.sources import Source
    from counton.run.definition import Definition
    from counton.state import Stream


def labels_in(
    source: Source, reading: RowReading, known: Private[tuple[str, ...]]
) -> Private[FoundLabels]:
    """Labels of rows within the windows, known ones and others by first window and name."""
    before = open_private(known)
    if isinstance(source, Spread):
        found = open_private(source.labels(reading))
    else:
        rows = mark_rows(source, reading).filter(
            pl.col("step").is_between(1, reading.windows.steps), pl.col("group").is_not_null()
        )
        found = collect(source, rows.group_by("group").agg(pl.col("step").min()))
    there = set(before)
    new = [row for row in found.select("step", "group").rows() if row[1] not in there]
    return Private(FoundLabels(before, tuple(name for _, name in sorted(new))))


def counted_by(definition: Definition, labels: Private[FoundLabels]) -> Definition:
    """By which cells the rows of a run are added up; what a stream keeps names none of them."""
    return replace(definition, domain=GroupNames(open_private(labels).all))


def refuse_others(stream: Stream, labels: Private[FoundLabels]) -> None:
    """Refuse to go on where the state has other labels than those a run began with.

    Raises:
        StreamConflict: another process has counted meanwhile.
    """
    if open_private(stream.labels()) != open_private(labels).known:
        raise StreamConflict(
            f"another process has counted in stream {stream.name!r} meanwhile; nothing was "
            f"released: run again"
        )


class FoundLabels(NamedTuple):
    """Labels of the rows of a run. Secret.

    Attributes:
        known: those that the state has, in the order of their cells.
        new: others; of users, also of rows that do not count.
    """

    known: tuple[str, ...]
    new: tuple[str, ...]

    def __repr__(self) -> str:
        return "Found(secret)"

    @property
    def all(self) -> tuple[str, ...]:
        """Both."""
        return (*self.known, *self.new)

    def keep_counted(self, cells: pl.DataFrame) -> tuple[FoundLabels, NDArray[np.int64]]:
        """Only those that are counted, and which cell each of all then has."""
        first = len(self.known)
        used = np.unique(cells["group"].to_numpy())
        used = used[used >= first]
        places = np.concatenate([np.arange(first), np.full(len(self.new), -1)]).astype(np.int64)
        places[used] = first + np.arange(len(used))
        return FoundLabels(self.known, tuple(self.new[place - first] for place in used)), places

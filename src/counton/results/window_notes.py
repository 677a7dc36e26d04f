"""Public notes beside single released numbers: that a day is wrong, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows


class WindowNote(NamedTuple):
    """A public note on the numbers of one window.

    Attributes:
        step: number of the window.
        group: the group whose number is meant; None: all.
        note: why the number is wrong.
        withdrawn: True if tables lack the number from now on.
    """

    step: int
    group: str | None
    note: str
    withdrawn: bool = False

    def sentence(self, windows: Windows) -> str:
        """Return the note with its window and group.

        >>> from datetime import UTC, datetime
        >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 30)
        >>> WindowNote(2, "north", "counter broken", True).sentence(days)
        '2 March 2024, north, withdrawn: counter broken'
        """
        of = windows.span_text(range(self.step, self.step + 1))
        of += "" if self.group is None else f", {self.group}"
        return f"{of}{', withdrawn' * self.withdrawn}: {self.note}"


def withdrawn_cells(
    marks: Sequence[WindowNote], steps: range, groups: Sequence[str], *, withdrawn: bool = True
) -> NDArray[np.bool_]:
    """Return which numbers are withdrawn (or noted alone), with the shape ``(steps, groups)``."""
    mask = np.zeros((len(steps), len(groups)), np.bool_)
    for mark in marks:
        if mark.withdrawn == withdrawn and mark.step in steps:
            mask[mark.step - steps.start, [mark.group in (None, group) for group in groups]] = True
    return mask


def with_notes_of_periods(table: pl.DataFrame, marks: Sequence[WindowNote]) -> pl.DataFrame:
    """Add a column ``note`` to a table of periods, if any number is marked.

    It has the notes on all windows from ``first_window`` to ``last_window``, and is the last
    column.
    """
    if not marks:
        return table
    groups = table["group"] if "group" in table.columns else [None] * table.height
    notes = []
    for first, last, group in zip(table["first_window"], table["last_window"], groups, strict=True):
        of_row = [
            mark.note
            for mark in sorted(marks, key=lambda mark: mark.step)
            if first <= mark.step <= last and (group is None or mark.group in (None, group))
        ]
        notes.append("; ".join(dict.fromkeys(of_row)) or None)
    return table.with_columns(pl.Series("note", notes, dtype=pl.String))


def with_notes(table: pl.DataFrame, marks: Sequence[WindowNote]) -> pl.DataFrame:
    """Add a column ``note`` to a table with a row for each step, if any number is marked.

    It is the last column.
    """
    if not marks or "window_index" not in table.columns:
        return table
    note = pl.lit(None, pl.String)
    for mark in marks:
        is_cell = pl.col("window_index") == mark.step
        if mark.group is not None and "group" in table.columns:
            is_cell &= pl.col("group") == mark.group
        note = pl.when(is_cell).then(pl.lit(mark.note)).otherwise(note)
    return table.with_columns(note.alias("note"))

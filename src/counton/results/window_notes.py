"""Public notes beside single released numbers: that a day is wrong, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from counton.base.columns import list_in_words
from counton.base.wording import plural
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

    @classmethod
    def from_saved(cls, values: Sequence[Any]) -> Self:
        """Rebuild a note from the list of its attributes, in their order, which a state keeps."""
        return cls(*values)

    def sentence(self, windows: Windows, widths: Sequence[int] = (), number: str = "sum") -> str:
        """Return the note with its window and group.

        Args:
            windows: the windows of the stream.
            widths: how many last windows are added up, if such sums are published. The sentence
                then says up to which window sums include this one.
            number: the word for one of these sums.

        >>> from datetime import UTC, datetime
        >>> days = Windows(datetime(2024, 3, 1, tzinfo=UTC), "1d", 30)
        >>> WindowNote(2, "north", "counter broken", True).sentence(days)
        '2 March 2024, north, withdrawn: counter broken'
        >>> WindowNote(2, None, "counter broken").sentence(days, [7])
        '2 March 2024: counter broken (in sums of the last 7 days up to 8 March 2024)'
        """
        described_cell = windows.span_text(range(self.step, self.step + 1))
        described_cell += "" if self.group is None else f", {self.group}"
        ends = [min(self.step + width - 1, windows.steps) for width in widths]
        noun = plural(windows.period or "window")
        sums = [
            f"the last {width:,} {noun} up to {windows.span_text(range(end, end + 1))}"
            for width, end in zip(widths, ends, strict=True)
            if end > self.step
        ]
        included = f" (in {plural(number)} of {list_in_words(sums)})" if sums else ""
        return f"{described_cell}{', withdrawn' * self.withdrawn}: {self.note}{included}"

    def concerns(self, step: int, group: str | None, width: int = 1) -> bool:
        """Return whether a number is that of the noted window, or a sum that includes it.

        Args:
            step: the newest window of the number.
            group: its group; None: all groups together.
            width: how many windows it adds up.
        """
        is_included = step - width < self.step <= step
        return is_included and (group is None or self.group in (None, group))


def noted_sums(
    marks: Sequence[WindowNote], steps: range, groups: Sequence[str], width: int
) -> NDArray[np.bool_]:
    """Return which sums of the last windows include a noted one, with the shape ``(steps,
    groups)``.

    Args:
        marks: the notes.
        steps: the newest windows of the sums.
        groups: their groups.
        width: how many windows are added up.
    """
    noted = [[mark.concerns(step, None, width) for mark in marks] for step in steps]
    concerns_group = [[mark.group in (None, group) for group in groups] for mark in marks]
    return np.array(noted, np.bool_) @ np.array(concerns_group, np.bool_)


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
        row_notes = [
            mark.note
            for mark in sorted(marks, key=lambda mark: mark.step)
            if first <= mark.step <= last and (group is None or mark.group in (None, group))
        ]
        notes.append("; ".join(dict.fromkeys(row_notes)) or None)
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


def with_notes_of_sums(
    table: pl.DataFrame, marks: Sequence[WindowNote], windows: Windows, width: int
) -> pl.DataFrame:
    """Replace the column ``note`` of sums of the last windows: it has all notes on these windows.

    Each note begins with its window, because a sum is of several ones.

    Args:
        table: sums of one width.
        marks: the notes; without any, the table has no such column.
        windows: the windows of the stream.
        width: how many windows are added up.
    """
    if not marks:
        return table
    step = pl.col("window_index")
    notes = []
    for mark in marks:
        is_included = (step >= mark.step) & (step < mark.step + width)
        if mark.group is not None:
            is_included &= pl.col("group") == mark.group
        sentence = mark._replace(group=None).sentence(windows)
        notes.append(pl.when(is_included).then(pl.lit(sentence)))
    together = pl.concat_str(notes, separator="; ", ignore_nulls=True)
    is_noted = pl.any_horizontal(note.is_not_null() for note in notes)
    return table.with_columns(note=pl.when(is_noted).then(together))


def note_of_number(
    marks: Sequence[WindowNote],
    windows: Windows,
    step: int,
    group: str,
    width: int | None,
) -> str | None:
    """Return the note on one number, as in the column ``note`` of its table; None: it has none.

    Args:
        marks: the notes.
        windows: the windows of the stream.
        step: the newest window of the number.
        group: its group.
        width: how many last windows it adds up; None: it is a total or a single window.
    """
    if width is None:
        notes = [mark.note for mark in marks if mark.concerns(step, group)]
        return notes[-1] if notes else None
    notes = [
        mark._replace(group=None).sentence(windows)
        for mark in marks
        if mark.concerns(step, group, width)
    ]
    return "; ".join(notes) or None

"""Tables of all versions of windows that are released again for late rows."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from counton.results.release_data import ReleaseData
from counton.results.released_table import table_of
from counton.results.revisions import Revisions, versions_at_hand, versions_of_cells
from counton.results.window_notes import with_notes
from counton.windowing.groups import GroupNames


def versions_of(numbers: ReleaseData) -> pl.DataFrame:
    """Return a table of all versions of the shown windows; see `Release.versions`.

    Args:
        numbers: the released numbers.

    Raises:
        InvalidInputError: windows are released only once.
    """
    revisions = versions_at_hand(numbers.revisions, numbers.design.name)
    windows = numbers.metadata.windows
    last = numbers.design.strategy.horizon or 0
    if numbers.has_cells:
        names = revisions.names(numbers.metadata.groups)
        places = GroupNames(tuple(names)).places(numbers.groups).tolist()
        cells = dict(zip(numbers.groups, places, strict=True))
        table = versions_of_cells(revisions, windows, cells, numbers.level, last)
        for mark in numbers.metadata.notes:
            if mark.withdrawn:
                is_marked = pl.col("group") == (mark.group or pl.col("group"))
                table = table.filter(~((pl.col("window_index") == mark.step) & is_marked))
        table = with_notes(table, numbers.metadata.notes)
    else:
        tables = [
            table_of(
                _numbers_at_step(numbers, revisions, step),
                range(max(1, step - revisions.lags), step + 1),
            )
            for step in range(1, last + 1)
        ]
        table = pl.concat(tables).sort("window_index", "lag_windows", maintain_order=True)
    shown = pl.col("window_index").is_between(numbers.first, numbers.steps.stop - 1)
    return table.filter(shown)


def _numbers_at_step(numbers: ReleaseData, revisions: Revisions, step: int) -> ReleaseData:
    """Return the newest numbers of the shown windows and groups after one release."""
    design = revisions.design_at(step)
    values = revisions.newest(step)
    metadata = replace(numbers.metadata, strategy=design.strategy)
    chosen = numbers.chosen
    if (since := revisions.found_by(step)) is not None:
        values = values[:, GroupNames(tuple(revisions.since or ())).places(list(since))]
        chosen = None if chosen is None else tuple(name for name in chosen if name in since)
    version_numbers = numbers.of(
        metadata, design, values, numbers.level, shown=numbers.shown, since=since
    )
    version_numbers = replace(
        version_numbers, revisions=revisions, notes=numbers.notes, state=numbers.state
    )
    return version_numbers if chosen is None else version_numbers.only(None, chosen)

"""Groups that nobody declared: their names in the rows of a run, and their index among the cells.

Names of groups are secret until a group is shown. The state keeps them in the order of their cells.
A new name gets a cell only if one of its rows counts: rows of final windows count nowhere, and of a
snapshot only those of the windows that the run releases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counton.base.private import reveal
from counton.io.remote_rows import RemoteRows
from counton.io.row_assignment import RowMapping, assign_rows, collect
from counton.io.sources import Source
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl


@dataclass(frozen=True, repr=False)
class GroupNamesOfRun:
    """Names of groups, those that the state has first. Secret."""

    kept: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def all(self) -> GroupNames:
        """All names, in the order of their indices in the sums of a run."""
        return GroupNames(self.kept + self.new)

    def of_counted_rows(
        self, rows: pl.DataFrame, counts: pl.Expr, *, column: str, n_accumulators: int = 1
    ) -> tuple[pl.DataFrame, GroupNamesOfRun]:
        """Drop new names without a row that counts, and number the others anew.

        Rows of dropped names get the number -1: they are of no cell, and count nowhere.

        Args:
            rows: rows, or sums of rows by window and cell.
            counts: whether rows of a window count.
            column: column with the index of the group, or with the cell.
            n_accumulators: number of cells of a group.

        Returns:
            The rows or sums with the new numbers, and the names that are left.
        """
        used = np.unique(rows.filter(counts)[column].to_numpy() // n_accumulators)
        used = used[used >= len(self.kept)]
        new_index = np.full(len(self.kept) + len(self.new), -1, np.int64)
        new_index[: len(self.kept)] = np.arange(len(self.kept))
        new_index[used] = len(self.kept) + np.arange(len(used))
        cell = rows[column].to_numpy()
        group_index = new_index[cell // n_accumulators]
        in_group = cell % n_accumulators
        new_cell = np.where(group_index < 0, -1, group_index * n_accumulators + in_group)
        renumbered = rows.with_columns(pl.Series(column, new_cell))
        names = tuple(self.new[index - len(self.kept)] for index in used)
        return renumbered, GroupNamesOfRun(self.kept, names)


def find_group_names(
    source: Source, mapping: RowMapping, names_before: tuple[str, ...]
) -> GroupNamesOfRun:
    """Return the names of groups in the rows, new ones by their first window and then by name.

    Args:
        source: the rows.
        mapping: how they are read.
        names_before: the names that the state has.
    """
    if isinstance(source, RemoteRows):
        names = reveal(source.group_names(mapping))
    else:
        is_inside = pl.col("window").is_between(1, mapping.windows.steps)
        rows = assign_rows(source, mapping).filter(is_inside & pl.col("group").is_not_null())
        names = collect(source, rows.group_by("group").agg(pl.col("window").min()))
    known_names = set(names_before)
    ordered = names.sort("window", "group")["group"]
    return GroupNamesOfRun(names_before, tuple(name for name in ordered if name not in known_names))

"""How rows become the cells of a step: the sums of a statistic, and the steps of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.statistics import AccumulatorStatistic
from counton.statistics.statistic import shape_of
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import Windows


class Measurement(NamedTuple):
    """How the exact sums of a statistic become the cells that a step releases.

    Attributes:
        n_accumulators: number of exact sums of each group.
        n_sums: number of exact sums of all groups.
        shape: shape of the cells of an additive statistic, whose sums they are.
        is_of_each_group: whether each group is measured alone, since groups are found in the rows.
        sums_of_row: number of sums that one row changes.
        kept: names of the numbers that the state keeps of each sum: ``rows``, and ``total`` if it
            is not the number of rows.
        told_number: which of them the operator is told of a window: of a table of counts, totals.
    """

    statistic: AccumulatorStatistic
    n_accumulators: int
    n_sums: int
    shape: tuple[int, ...]
    is_of_each_group: bool
    sums_of_row: int
    kept: tuple[str, ...]
    told_number: str

    @classmethod
    def for_statistic(
        cls,
        statistic: AccumulatorStatistic,
        group_statistic: AccumulatorStatistic,
        groups: int | None,
        *,
        is_of_each_group: bool,
    ) -> Measurement:
        """Return the measurement of a statistic.

        Args:
            statistic: the statistic of all groups.
            group_statistic: the statistic of one group.
            groups: number of groups; None: all rows are of one.
            is_of_each_group: whether groups are found in the rows, and measured one by one.
        """
        only_rows = group_statistic.counts_rows or (
            not group_statistic.parts and not group_statistic.rank_digits
        )
        return cls(
            statistic,
            n_accumulators=group_statistic.n_accumulators,
            n_sums=group_statistic.n_accumulators * (groups or 1),
            shape=(groups or 1,) if is_of_each_group else shape_of(statistic, groups),
            is_of_each_group=is_of_each_group,
            sums_of_row=len(group_statistic.entries(pl.col("total"))),
            kept=("rows",) if only_rows else ("rows", "total"),
            told_number="total" if group_statistic.counts_units else "rows",
        )

    def cells(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the released cells, ``(n, *cells)``, given the exact sums, ``(n, n_sums)``."""
        if self.statistic.additive:
            return sums.reshape((len(sums), *self.shape))
        if not self.is_of_each_group:
            return self.statistic.measure(sums)
        group_cells = self.statistic.measure(sums.reshape(-1, self.n_accumulators))
        return group_cells.reshape((len(sums), -1))

    def number_of_rows(self, sums: pl.DataFrame) -> int:
        """Return the number of rows that were added up."""
        return int(sums["rows"].sum()) // self.sums_of_row


@dataclass(frozen=True)
class Span:
    """The steps that a run releases.

    Attributes:
        windows: all windows of the stream.
        released: number of steps released before the run.
        target: number of steps released after it.
    """

    windows: Windows
    released: int
    target: int

    @property
    def new_steps(self) -> range:
        """The steps that this run releases."""
        return range(self.released + 1, self.target + 1)

    @property
    def last_final(self) -> int:
        """The last window that can no longer change by a snapshot, nor, revised, by any row."""
        return self.released - self.windows.n_revisions

    @property
    def revises(self) -> bool:
        """Whether windows are released anew for late rows."""
        return self.windows.n_revisions > 0

    @property
    def is_recurring(self) -> bool:
        """Whether windows follow each other; else there is a single table."""
        return self.windows.is_recurring

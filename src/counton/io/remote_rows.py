"""Sources of rows on other machines, which mark rows and add them up there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from counton.base.private import Private
from counton.io.sources import Source
from counton.windowing.lazy_polars import polars as pl

if TYPE_CHECKING:
    from counton.io.row_assignment import RowMapping


class RemoteRows(Source):
    """A source whose rows are read and added up on other machines.

    Results must not depend on how the rows are distributed or ordered.
    """

    @abstractmethod
    def cells(self, mapping: RowMapping, domain: Sequence[str] | None) -> Private[pl.DataFrame]:
        """Return sums by window and group, as `counton.io.aggregation.sums_of_part` does.

        ``domain`` are declared groups, or those of `group_names`; None: no groups.
        """

    @abstractmethod
    def group_names(self, mapping: RowMapping) -> Private[pl.DataFrame]:
        """Return ``group``, the names within the windows, and ``window``, their first windows."""

    def assign_rows(
        self, mapping: RowMapping, domain: Sequence[str] | None
    ) -> Private[Iterable[pl.DataFrame]]:
        """Return the rows within the windows and of declared groups, in several frames.

        Only a source of which users' rows have to be chosen implements it. The next `cells` adds up
        all rows as they were read here, or raises an error. Columns are those of
        `counton.io.row_assignment.assign_rows`: time, window, group (also as a position), value and
        user.
        """
        raise NotImplementedError

    @abstractmethod
    def some(self, mapping: RowMapping, condition: pl.Expr, most: int) -> Private[pl.DataFrame]:
        """Return up to ``most`` original rows, by an expression over the columns of
        `assign_rows`."""

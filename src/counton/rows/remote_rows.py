"""Sources of rows on other machines, which mark rows and add them up there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from counton.base.private import Private
from counton.frame.lazy_polars import polars as pl
from counton.rows.sources import Source

if TYPE_CHECKING:
    from counton.rows.row_reading import RowReading


class Spread(Source):
    """A source whose rows are read and added up on other machines.

    Results must not depend on how the rows are distributed or ordered.
    """

    @abstractmethod
    def cells(self, reading: RowReading, domain: Sequence[str] | None) -> Private[pl.DataFrame]:
        """Return sums by window and group, with the columns of `counton.rows.tally.cells_of`.

        ``domain`` are declared groups, or those of `labels`; None: no groups.
        """

    @abstractmethod
    def labels(self, reading: RowReading) -> Private[pl.DataFrame]:
        """Return ``group``, the labels within the windows, and ``step``, their first windows."""

    def mark_rows(
        self, reading: RowReading, domain: Sequence[str] | None
    ) -> Private[Iterable[pl.DataFrame]]:
        """Return the rows within the windows and of declared groups, in several frames.

        Only a source of which users' rows have to be chosen implements it. The next `cells` adds up
        all rows as they were read here, or raises an error. Columns are those of
        `counton.rows.row_reading.mark_rows`: time, window, group (also as a position), value and
        user.
        """
        raise NotImplementedError

    @abstractmethod
    def some(self, reading: RowReading, which: pl.Expr, most: int) -> Private[pl.DataFrame]:
        """Return up to ``most`` original rows, by an expression over the columns of `mark_rows`."""

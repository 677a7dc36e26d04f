"""Rows on several machines: a run's computations on them, done where the rows are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from counton.base.lazy_polars import polars as pl
from counton.base.private import Private
from counton.rows.sources import EventFrame, Source

if TYPE_CHECKING:
    from counton.rows.window_marks import RowReading


class Spread(Source):
    """A source whose rows are marked and added up elsewhere; its one part has no rows here.

    Its answers must not depend on the distribution or the order of the rows.
    """

    @abstractmethod
    def cells(self, reading: RowReading, domain: Sequence[str] | None) -> Private[pl.DataFrame]:
        """Return sums of rows by cell, as `counton.rows.tally.cells_of`.

        Args:
            domain: groups; if ``reading`` discovers groups, those of `labels`.
        """

    @abstractmethod
    def labels(self, reading: RowReading) -> Private[pl.DataFrame]:
        """Return labels of rows within the windows: ``group``, and the first ``step`` of each."""

    def mark_rows(
        self, reading: RowReading, domain: Sequence[str] | None
    ) -> Private[Iterable[pl.DataFrame]]:
        """Yield marked rows within the windows, of groups of the domain, that could count.

        They come some at a time, with the columns of `counton.rows.window_marks.mark_rows`; a group
        may be its position in the domain. The next call of `cells` adds up these rows. A source
        whose rows are never told apart need not implement this.
        """
        raise NotImplementedError

    @abstractmethod
    def some(self, reading: RowReading, which: pl.Expr, most: int) -> Private[pl.DataFrame]:
        """Return rows as given for which an expression of marked rows is true."""


class FetchedRows(EventFrame):
    """A few rows of a remote source, fetched to be named in a message or set aside.

    >>> FetchedRows(pl.DataFrame({"time": [None]}), "the data frame").place_of(1)
    'a row of the data frame'
    """

    numbered = False

    def __init__(self, rows: pl.DataFrame, name: str) -> None:
        super().__init__(rows)
        self.name = name

"""Rows that lie on several machines: what a run needs of them, computed where they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import polars as pl

from counton.base.private import Private
from counton.rows.sources import EventFrame, Source

if TYPE_CHECKING:
    from counton.rows.window_marks import RowReading


class Spread(Source):
    """A source whose rows are marked and added up elsewhere; its one part has no row at hand.

    What it answers must not depend on how the rows are spread, nor on their order.
    """

    @abstractmethod
    def cells(self, reading: RowReading, domain: Sequence[str] | None) -> Private[pl.DataFrame]:
        """Sums of rows by cell, as `counton.rows.tally.cells_of` says of some of them.

        Args:
            domain: the groups; of those found by `labels` where ``reading`` discovers them.
        """

    @abstractmethod
    def labels(self, reading: RowReading) -> Private[pl.DataFrame]:
        """Labels of rows within the windows: ``group``, and the first ``step`` of each."""

    def mark_rows(
        self, reading: RowReading, domain: Sequence[str] | None
    ) -> Private[Iterable[pl.DataFrame]]:
        """Marked rows within the windows, of groups of the domain, as far as they could count.

        Some at a time, with columns as of `counton.rows.window_marks.mark_rows`; a group may be its
        place in the domain. They are the rows that `cells`, asked next, adds up. A source that is
        never asked for them, since its rows are not told from each other, has none.
        """
        raise NotImplementedError

    @abstractmethod
    def some(self, reading: RowReading, which: pl.Expr, most: int) -> Private[pl.DataFrame]:
        """Rows as they were given, of which an expression of marked rows is true."""


class FetchedRows(EventFrame):
    """A few rows of a spread source, brought here to be named in a message or set aside.

    >>> FetchedRows(pl.DataFrame({"time": [None]}), "the data frame").place_of(1)
    'a row of the data frame'
    """

    numbered = False

    def __init__(self, rows: pl.DataFrame, name: str) -> None:
        super().__init__(rows)
        self.name = name

"""Sources of rows on other machines, which compute windows and groups (`mark_rows`) and add rows up
there.
"""

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
    """A source whose rows are read and added up on other machines, such as a database or a cluster.

    Its parts have no rows on this machine. The results must not depend on how the rows are
    distributed or ordered.
    """

    @abstractmethod
    def cells(self, reading: RowReading, domain: Sequence[str] | None) -> Private[pl.DataFrame]:
        """Return sums of rows by window and group, with the columns of
        `counton.rows.tally.cells_of`.

        Args:
            domain: declared groups, or groups found in the data (from `labels`); None if rows are
                not split by group.
        """

    @abstractmethod
    def labels(self, reading: RowReading) -> Private[pl.DataFrame]:
        """Return the labels of groups with rows within the windows, and the first window of each:
        columns ``group`` and ``step``.
        """

    def mark_rows(
        self, reading: RowReading, domain: Sequence[str] | None
    ) -> Private[Iterable[pl.DataFrame]]:
        """Return the rows that could count, in several data frames: those within the windows and of
        declared groups.

        A source implements this method only if a user's rows have to be chosen before they are
        added up. The next call of `cells` adds up all rows as they were read here, or raises an
        error if a second reading finds other rows.

        The columns are those of `counton.rows.window_marks.mark_rows`: time, window, group, value
        and user. A group may be given by its position in the domain.
        """
        raise NotImplementedError

    @abstractmethod
    def some(self, reading: RowReading, which: pl.Expr, most: int) -> Private[pl.DataFrame]:
        """Return up to ``most`` original rows for which the expression ``which`` is true. The
        expression refers to the columns of `mark_rows`: window, group and value of a row.
        """


class FetchedRows(EventFrame):
    """A few rows of a remote source, fetched to be shown in a message or written to a file.

    >>> FetchedRows(pl.DataFrame({"time": [None]}), "the data frame").place_of(1)
    'a row of the data frame'
    """

    numbered = False

    def __init__(self, rows: pl.DataFrame, name: str) -> None:
        super().__init__(rows)
        self.name = name

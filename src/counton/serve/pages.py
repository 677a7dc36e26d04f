"""Pages of released rows, each of a bounded size, and where the next one begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

import polars as pl

from counton.base.errors import InvalidInputError, param

#: Most rows of a page.
PAGE_ROWS = 5_000
#: Most bytes of texts in the rows of a page, unless a single row has more.
_TEXT_BYTES = 2**20
#: Most steps of a page: numbers of some statistics are computed one step after the other.
_PAGE_STEPS = 500
#: Name of the column by which rows are ordered.
_STEP_COLUMN = "window_index"

_POSITION = re.compile(r"([0-9]{1,15})\.([0-9]{1,15})\.([0-9]{1,15})", re.ASCII)


class PagePosition(NamedTuple):
    """The place where a page begins.

    Attributes:
        step: the first step of the page.
        skipped: number of rows of this step that earlier pages have.
        last: the last step of all pages, so that later releases do not change what they hold.

    >>> str(PagePosition(24, 0, 48)), PagePosition.parse("24.0.48").last
    ('24.0.48', 48)
    """

    step: int
    skipped: int
    last: int

    def __str__(self) -> str:
        return f"{self.step}.{self.skipped}.{self.last}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a position from the text that `str` returns.

        Args:
            text: the text.

        Raises:
            InvalidInputError: the text is no position.
        """
        numbers = _POSITION.fullmatch(text)
        if numbers is None:
            raise InvalidInputError(
                f"{param('page', text)} is not the position of a page: take it from 'next' of the "
                "answer before"
            )
        return cls(*map(int, numbers.groups()))


class Page(NamedTuple):
    """Some rows, and the position of the page after them; None after the last page."""

    table: pl.DataFrame
    next: PagePosition | None


class ReleasedRows:
    """The rows of some released steps, in pages.

    Args:
        steps: the steps.
        rows_of: function that returns the rows of some consecutive steps, ordered by step.
        step_rows: number of rows of each step, as far as it is known beforehand; None: unknown.
    """

    def __init__(
        self,
        steps: range,
        rows_of: Callable[[range], pl.DataFrame],
        step_rows: int | None = None,
    ) -> None:
        self._steps = steps
        self._rows_of = rows_of
        self._step_rows = step_rows

    @property
    def known_rows(self) -> int | None:
        """Number of all rows; None if it is not known beforehand."""
        return None if self._step_rows is None else len(self._steps) * self._step_rows

    def parts(self) -> Iterator[pl.DataFrame]:
        """Yield all rows in parts of the size of a page; each step is computed once.

        There is at least one part, which may have no rows.
        """
        if not self._steps:
            yield self._rows_of(self._steps)
        n_done = 0
        while n_done < len(self._steps):
            table, computed = self._collect(self._steps[n_done:], 0)
            kept = _rows_that_fit(table)
            if kept or not n_done:
                yield table.head(kept)
            while kept < table.height:
                table = table.slice(kept)
                kept = _rows_that_fit(table)
                yield table.head(kept)
            n_done += computed

    def page(self, position: PagePosition | None = None) -> Page:
        """Return a page.

        Args:
            position: where it begins; None: at the first step.

        Raises:
            InvalidInputError: a step of the position is not among the steps.
        """
        if position is None and not self._steps:
            return Page(self._rows_of(self._steps), None)
        if position is None:
            position = PagePosition(self._steps.start, 0, self._steps.stop - 1)
        steps = range(position.step, position.last + 1)
        if not steps or steps[0] not in self._steps or steps[-1] not in self._steps:
            raise InvalidInputError(
                f"{param('page', str(position))} is beyond the released steps: begin again "
                "without it"
            )
        table, n_done = self._collect(steps, position.skipped)
        kept = _rows_that_fit(table)
        if kept < table.height:
            step = int(table[_STEP_COLUMN][kept])
            before = int((table[_STEP_COLUMN].head(kept) == step).sum())
            skipped = before + (position.skipped if step == position.step else 0)
            return Page(table.head(kept), PagePosition(step, skipped, position.last))
        more = steps[n_done:]
        return Page(table, PagePosition(more.start, 0, position.last) if more else None)

    def _collect(self, steps: range, skipped: int) -> tuple[pl.DataFrame, int]:
        """Return the rows of the first steps, enough for a page, and the number of these steps.

        Args:
            steps: the steps from the beginning of the page on.
            skipped: number of rows of the first step that earlier pages have.
        """
        tables: list[pl.DataFrame] = []
        rows = 0
        n_done = 0
        step_rows = self._step_rows
        size = 1 if step_rows is None else -(-PAGE_ROWS // max(step_rows, 1))
        while n_done < min(len(steps), _PAGE_STEPS) and rows < PAGE_ROWS:
            part = steps[n_done : min(n_done + size, _PAGE_STEPS)]
            table = self._rows_of(part)
            if not tables and skipped:
                n_rows_of_first = int((table[_STEP_COLUMN] == part[0]).sum())
                table = table.slice(min(skipped, n_rows_of_first))
            tables.append(table)
            rows += table.height
            n_done += len(part)
            step_rows = max(rows // n_done, 1)
            size = max((PAGE_ROWS - rows) // step_rows, 1)
        return pl.concat(tables, how="vertical_relaxed"), n_done


def _rows_that_fit(table: pl.DataFrame) -> int:
    """Return how many rows of a table fit into a page, at least one if there is any."""
    texts = [name for name, kind in table.schema.items() if kind == pl.String]
    kept = min(table.height, PAGE_ROWS)
    if not texts or not kept:
        return kept
    sizes = pl.sum_horizontal(pl.col(name).str.len_bytes() for name in texts)
    so_far = table.head(kept).select(sizes.cast(pl.Int64).cum_sum()).to_series()
    return max(int((so_far <= _TEXT_BYTES).sum()), 1)

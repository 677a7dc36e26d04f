"""Output for terminals, by rich; and tables of rich, wherever they go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import rich.console
from rich.measure import Measurement
from rich.table import Table
from typing_extensions import override

from counton.base.columns import TextTable
from counton.base.outside_input import shown_name
from counton.cli.exits import close_output

#: On a screen with fewer columns, a table that does not fit is shown row by row.
_NARROW_COLUMNS = 80


class Terminal(rich.console.Console):
    """Console of rich for a terminal. It prints names as they are: ``:x:`` does not become a
    picture.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(emoji=False, **more)

    @override
    def on_broken_pipe(self) -> None:
        """End quietly if the program that reads the output has closed it, as ``head`` does."""
        self.quiet = True
        close_output()

    def write(self, text: str, *, bold: bool = False) -> None:
        """Print a text unchanged and unwrapped."""
        style = "bold" if bold else None
        self.print(text, end="", style=style, highlight=False, markup=False, soft_wrap=True)

    def write_table(self, table: TextTable | Table) -> None:
        """Print a table; if it does not fit, print the rows one after the other.

        Tables of rich are folded if the screen is not narrow.
        """
        folds = not isinstance(table, TextTable) and self.width >= _NARROW_COLUMNS
        shown = _clean(table_of_texts(table) if isinstance(table, TextTable) else table)
        if shown.columns and not folds and not self._holds(shown):
            self._write_cards(shown)
        else:
            self.print(shown, highlight=False, markup=False)

    def _holds(self, table: Table) -> bool:
        widest = Measurement.get(self, self.options.update(width=1000), table).maximum
        return widest <= self.width

    def _write_cards(self, table: Table) -> None:
        """Print the rows of a table one after the other: a line for each column, with name and
        value.
        """
        words = texts_of(table)
        for row in words.rows:
            rows = [
                (name, cell) for (name, _), cell in zip(words.columns, row, strict=True) if cell
            ]
            self.print(_beside(rows), highlight=False, markup=False)
            self.print("")


def texts_of(table: Table) -> TextTable:
    """Convert a table of rich to a table of texts."""
    columns = [(str(column.header), column.justify == "right") for column in table.columns]
    rows = [*zip(*(map(str, column.cells) for column in table.columns), strict=True)]
    return TextTable(columns, rows)


def _beside(rows: Iterable[tuple[str, str]]) -> Table:
    words = Table.grid(padding=(0, 2))
    words.add_column(style="dim", no_wrap=True)
    words.add_column(overflow="fold")
    for name, value in rows:
        words.add_row(name, value)
    return words


def table_of_texts(table: TextTable) -> Table:
    """Convert a table of texts to a table of rich."""
    shown = Table()
    for name, number in table.columns:
        justify: Literal["right", "left"] = "right" if number else "left"
        shown.add_column(name, justify=justify, overflow="fold")
    for row in table.rows:
        shown.add_row(*row)
    return shown


def _clean(table: Table) -> Table:
    """Replace control characters in a table's texts, because names come from the data; return the
    table.
    """
    for column in table.columns:
        column.header = shown_name(str(column.header))
        column._cells = [shown_name(str(cell)) for cell in column._cells]
    return table

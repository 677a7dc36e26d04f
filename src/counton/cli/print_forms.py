"""Forms of printed output: lines, words beside names, tables, JSON, and a progress bar on stderr.

Nothing is marked up, and lines are wrapped only if their method says so.
"""

from __future__ import annotations

import json
import re
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

import rich.console
from rich.measure import Measurement
from rich.table import Table
from typing_extensions import override

from counton.base.columns import TextTable, align_lines
from counton.base.errors import CountonError, InvalidInput, hide_secrets
from counton.base.exact import readable
from counton.base.outside_input import printable
from counton.cli.exits import close_output
from counton.run.progress import Progress, silent

if TYPE_CHECKING:
    import polars as pl

    from counton.privacy import Guarantee
    from counton.state import Store

#: A narrow screen has fewer columns: a table that does not fit is shown row by row.
_NARROW = 80
#: Columns that a narrow screen leaves out, the first one first: other columns imply them.
_SPARED = ("window_end", "step")
#: A guarantee with a larger epsilon or rho promises next to nothing.
MOST_LOSS = 20


class Console(rich.console.Console):
    """The console for output. Names are shown letter by letter: ``:x:`` is no picture."""

    def __init__(self, **more: Any) -> None:
        super().__init__(emoji=False, **more)

    @override
    def on_broken_pipe(self) -> None:
        """Finish quietly when the reader of a pipe has read enough, like ``head``."""
        self.quiet = True
        close_output()

    def write_line(self, text: str, *, bold: bool = False) -> None:
        """Print a line of any length, unwrapped."""
        style = "bold" if bold else None
        self.print(printable(text), style=style, highlight=False, markup=False, soft_wrap=True)

    def ask_line(self, prompt: str) -> str:
        """Return the line that is typed after a prompt.

        A plain read would miss a Ctrl-C between the prompt and the read, and wait for ever. So the
        read begins when there is a line.



        Raises:
            EOFError: the input ended.
        """
        self.print(printable(prompt), end="", highlight=False, markup=False, soft_wrap=True)
        self.file.flush()
        while sys.platform != "win32" and not select.select([sys.stdin], [], [], 0.2)[0]:
            pass
        if not (line := sys.stdin.readline()):
            raise EOFError
        return line.strip()

    def write_folded(self, text: str) -> None:
        """Print lines as wide as the screen; continuations are indented to the line's words."""
        for line in printable(text).split("\n"):
            begin = re.match(r"(\w+: +| +|)", line)
            below = " " * (0 if begin is None else len(begin[0]))
            lines = wrap(line, self.width, subsequent_indent=below, break_on_hyphens=False) or [""]
            for one in lines:
                self.print(one, highlight=False, markup=False, soft_wrap=True)

    def write_words(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print names with words beside them; a row without a name continues the one before."""
        self.write_table(_beside(rows))

    def write_table(self, table: Table) -> None:
        """Print a table whose cells are shown as they are.

        A narrow screen shows it row by row. Output that other programs read has no frame and is
        never wrapped.
        """
        _clean(table)
        if table.show_header and not self.is_terminal:
            self._write_plain(table)
            return
        narrow = table.show_header and table.columns and self.width < _NARROW
        if narrow and not self._fits(table):
            self._write_cards(table)
            return
        self.print(table, highlight=False, markup=False)

    def write_released(self, table: pl.DataFrame) -> None:
        """Print rows of a release without breaking a number or date, on any screen."""
        from counton.released.screen import text_table

        if not self.is_terminal:
            self.write_table(table_of_texts(text_table(table)))
            return
        left, spared = table, []
        for name in _SPARED:
            if self._fits(table_of_texts(text_table(left))):
                break
            if name in left.columns and "window_start" in left.columns:
                left = left.drop(name)
                spared.append(name)
        shown = table_of_texts(text_table(left), unbroken=True)
        if self._fits(shown):
            self.write_table(shown)
            if spared:
                self.write_line(f"Files and --json also have {' and '.join(reversed(spared))}.")
        else:
            self._write_cards(table_of_texts(text_table(table)))

    def write_files(self, table: Path | None, chart: Path | None) -> None:
        """Print the paths of written files."""
        for name, path in (("table", table), ("chart", chart)):
            if path is not None:
                self.write_line(f"{name} written to {path}")

    def _fits(self, table: Table) -> bool:
        """Whether no cell of a table is broken."""
        widest = Measurement.get(self, self.options.update(width=1000), table).maximum
        return widest <= self.width

    def _write_plain(self, table: Table) -> None:
        """Print names of columns and rows, a line each, of any length."""
        columns = [(str(column.header), column.justify == "right") for column in table.columns]
        rows = [*zip(*(map(str, column.cells) for column in table.columns), strict=True)]
        for line in align_lines(TextTable(columns, rows, str(table.caption or ""))):
            self.write_line(line)

    def _write_cards(self, table: Table) -> None:
        """Print the rows one after the other: each column's name, with the value beside it."""
        _clean(table)
        names = [str(column.header) for column in table.columns]
        for row in zip(*(column.cells for column in table.columns), strict=True):
            rows = [(name, str(cell)) for name, cell in zip(names, row, strict=True) if str(cell)]
            self.print(_beside(rows), highlight=False, markup=False)
            self.print("")


class ReportLines(Console):
    """Lines of a report, which are collected and printed nowhere.

    Attributes:
        lines: the lines so far.
    """

    def __init__(self) -> None:
        super().__init__(stderr=True)
        self.lines: list[str] = []

    @override
    def write_line(self, text: str, *, bold: bool = False) -> None:
        self.lines.append(printable(text))


def print_json(value: Any) -> None:
    """Print one JSON value and nothing else; addresses show no password."""
    sys.stdout.write(json.dumps(_without_passwords(value), indent=2) + "\n")


def _without_passwords(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {name: _without_passwords(one, str(name)) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_passwords(one, key) for one in value]
    return hide_secrets(value) if key in _ADDRESSES and isinstance(value, str) else value


#: Keys whose values may be addresses of databases.
_ADDRESSES = ("state", "ledger", "shared_ledger", "place", "out")


def tell_of_old_copies(store: Store, names: Iterable[str]) -> None:
    """Report on standard error which of these streams may be old copies, and why."""
    for name in names:
        if (doubt := store.reader(name).doubt()) is not None:
            Console(stderr=True).write_line(f"note: {doubt}")


def warn_of_no_witness(
    errors: Console,
    *states: tuple[Any, Sequence[Any], Any],
    option: str = "witness",
    opened: Callable[[Any], Store | None] = lambda _: None,
    in_file: bool = False,
) -> None:
    """Warn once if an old copy of a state would not be noticed.

    Args:
        states: each state with the places of its keys, and of its second witness if stated.
        option: the option for a second witness in this command.
        opened: returns the open store of a state, if there is one.
        in_file: whether a job file would name a second witness, each time.
    """
    from counton.state.key_and_witness import witness_remarks

    remarks: dict[str, None] = {}
    for state, keys, witness in states:
        with suppress(CountonError):  # for states that cannot be used
            store = opened(state)
            database = None if store is None else store.database
            remarks |= dict.fromkeys(
                witness_remarks(state, *keys, witness=witness, opened=database, in_file=in_file)
            )
    for remark in remarks:
        errors.write_line(InvalidInput(remark).translate({"witness": option}))


def warn_of_weak(
    console: Console, guarantee: Guarantee, unit: str, stated: object, about: str = ""
) -> None:
    """Warn in one line if a stated guarantee promises next to nothing."""
    loss = getattr(guarantee, "epsilon", None) or getattr(guarantee, "rho", None)
    if stated is not None and loss is not None and loss > MOST_LOSS:
        console.write_line(
            f"{about}warning: a loss of {readable(loss)} for one {unit} is above {MOST_LOSS}, so "
            f"what is released may be e^{MOST_LOSS} times likelier with it than without: that "
            f"hides next to nothing; 1 is a common choice"
        )


def _beside(rows: Iterable[tuple[str, str]]) -> Table:
    words = Table.grid(padding=(0, 2))
    words.add_column(style="dim", no_wrap=True)
    words.add_column(overflow="fold")
    for name, value in rows:
        words.add_row(name, value)
    return words


def table_of_texts(table: TextTable, *, unbroken: bool = False) -> Table:
    """Build a table of texts for a screen.

    Args:
        unbroken: keep each number on one line, on any screen.
    """
    shown = Table(caption=table.caption or None)
    for name, number in table.columns:
        justify: Literal["right", "left"] = "right" if number else "left"
        shown.add_column(name, justify=justify, overflow="fold", no_wrap=unbroken and number)
    for row in table.rows:
        shown.add_row(*row)
    return shown


def _clean(table: Table) -> None:
    """Replace characters in a table that steer a terminal: names come with the data."""
    for column in table.columns:
        column.header = printable(str(column.header), "")
        column._cells = [printable(str(cell)) for cell in column._cells]


@contextmanager
def working(console: Console, *, always: bool = False) -> Iterator[Progress]:
    """Show a progress bar while the block runs: on terminals, or always."""
    if not (always or console.is_terminal):
        yield silent
        return
    from rich import progress

    columns = (
        progress.TextColumn("{task.description:<22}"),
        progress.BarColumn(40),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", total=1.0)

        def report(stage: str, share: float, /) -> None:
            bar.update(task, description=stage, completed=share)

        yield report
        bar.update(task, description="done", completed=1.0)


def check_chart(plot: Path | None, width: float | None) -> None:
    """Refuse a path that is no picture, and a width without a chart."""
    if plot is not None:
        from counton.charts.style import check_width
        from counton.run.written_files import PICTURES, check_output

        check_output(plot, PICTURES)
        check_width(width)
    elif width is not None:
        raise InvalidInput(
            f"--width {width:g} is for a chart, and none is drawn: give --plot too, or leave it out"
        )

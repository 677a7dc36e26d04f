"""How commands print: lines, words beside names, tables, JSON, and a progress bar on stderr.

Nothing is marked up, and lines are wrapped where it is said so.
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

#: Below so many columns a table that does not fit is shown row by row.
_NARROW = 80
#: Columns that a screen can do without, the first to go first: the other ones tell as much.
_SPARED = ("window_end", "step")
#: From this epsilon, or rho, on a guarantee is hardly one.
MOST_LOSS = 20


class Console(rich.console.Console):
    """What is printed on. Names are shown letter by letter: ``:x:`` is no picture."""

    def __init__(self, **more: Any) -> None:
        super().__init__(emoji=False, **more)

    @override
    def on_broken_pipe(self) -> None:
        """Whoever reads has enough, as head: what is left to do is done, and says nothing more."""
        self.quiet = True
        close_output()

    def write_line(self, text: str, *, bold: bool = False) -> None:
        """A line as it is, however long."""
        style = "bold" if bold else None
        self.print(printable(text), style=style, highlight=False, markup=False, soft_wrap=True)

    def ask_line(self, prompt: str) -> str:
        """The line that is typed after a prompt.

        A read alone would miss a Ctrl-C that comes between the prompt and the read, and wait for
        ever; so it begins when there is a line.

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
        """Lines as wide as the screen; what goes on stands below where the words began."""
        for line in printable(text).split("\n"):
            begin = re.match(r"(\w+: +| +|)", line)
            below = " " * (0 if begin is None else len(begin[0]))
            lines = wrap(line, self.width, subsequent_indent=below, break_on_hyphens=False) or [""]
            for one in lines:
                self.print(one, highlight=False, markup=False, soft_wrap=True)

    def write_words(self, rows: Iterable[tuple[str, str]]) -> None:
        """Names, and beside each of them words; a nameless row goes on with the one before."""
        self.write_table(_beside(rows))

    def write_table(self, table: Table) -> None:
        """A table whose cells are shown as they are.

        On a narrow screen row by row; not on a terminal, where other programs read it, without a
        frame and whole, however wide it is.
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
        """Rows of a release, no number or date broken, however narrow a screen is."""
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
        """What was written, and where."""
        for name, path in (("table", table), ("chart", chart)):
            if path is not None:
                self.write_line(f"{name} written to {path}")

    def _fits(self, table: Table) -> bool:
        """Whether no cell of a table is broken."""
        widest = Measurement.get(self, self.options.update(width=1000), table).maximum
        return widest <= self.width

    def _write_plain(self, table: Table) -> None:
        """Names of columns and rows, a line each, however long."""
        columns = [(str(column.header), column.justify == "right") for column in table.columns]
        rows = [*zip(*(map(str, column.cells) for column in table.columns), strict=True)]
        for line in align_lines(TextTable(columns, rows, str(table.caption or ""))):
            self.write_line(line)

    def _write_cards(self, table: Table) -> None:
        """The rows one after the other: names of columns, and beside each what the row says."""
        _clean(table)
        names = [str(column.header) for column in table.columns]
        for row in zip(*(column.cells for column in table.columns), strict=True):
            said = [(name, str(cell)) for name, cell in zip(names, row, strict=True) if str(cell)]
            self.print(_beside(said), highlight=False, markup=False)
            self.print("")


class ReportLines(Console):
    """Lines that a report takes, and that are printed nowhere.

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
    """One JSON value and nothing else; addresses show no password."""
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
    """Say on standard error which of these streams of a state may be old copies, and why."""
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
    """Say once where an old copy of a state would not be noticed.

    Args:
        states: each with where its keys are kept, and where its second witness, if that is said.
        option: what names a second witness here.
        opened: of a state what is open of it already.
        in_file: whether a job file would name a second witness, each time.
    """
    from counton.state.key_and_witness import witness_remarks

    told: dict[str, None] = {}
    for state, keys, witness in states:
        with suppress(CountonError):  # said of what cannot be used
            store = opened(state)
            database = None if store is None else store.database
            told |= dict.fromkeys(
                witness_remarks(state, *keys, witness=witness, opened=database, in_file=in_file)
            )
    for said in told:
        errors.write_line(InvalidInput(said).translate({"witness": option}))


def warn_of_weak(
    console: Console, guarantee: Guarantee, unit: str, stated: object, about: str = ""
) -> None:
    """Say in one line that a guarantee which is stated promises next to nothing."""
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
    for name, told in rows:
        words.add_row(name, told)
    return words


def table_of_texts(table: TextTable, *, unbroken: bool = False) -> Table:
    """A table of texts, for a screen.

    Args:
        unbroken: numbers stand on one line each, however narrow the screen is.
    """
    shown = Table(caption=table.caption or None)
    for name, number in table.columns:
        justify: Literal["right", "left"] = "right" if number else "left"
        shown.add_column(name, justify=justify, overflow="fold", no_wrap=unbroken and number)
    for row in table.rows:
        shown.add_row(*row)
    return shown


def _clean(table: Table) -> None:
    """Make cells of a table such as a terminal may show: names come with the data."""
    for column in table.columns:
        column.header = printable(str(column.header), "")
        column._cells = [printable(str(cell)) for cell in column._cells]


@contextmanager
def working(console: Console, *, always: bool = False) -> Iterator[Progress]:
    """A bar while the block runs, on terminals, or always if asked."""
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
    """Refuse what is no picture, and the width of a chart that is not drawn."""
    if plot is not None:
        from counton.charts.style import check_width
        from counton.run.written_files import PICTURES, check_output

        check_output(plot, PICTURES)
        check_width(width)
    elif width is not None:
        raise InvalidInput(
            f"--width {width:g} is of a chart, and none is drawn: give --plot too, or leave it out"
        )

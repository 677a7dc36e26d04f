"""Forms of printed output: lines, pairs of name and words, tables, JSON, and a progress bar.

Nothing is marked up, and lines are wrapped only if their method states it.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from typing_extensions import override

from counton.base.columns import TextTable, align_lines
from counton.base.errors import CountonError, InvalidInputError, hide_secrets
from counton.base.exact import readable
from counton.base.outside_input import printable, shown_name
from counton.cli.exits import close_output

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from counton.cli.terminal import Terminal
    from counton.privacy import Guarantee
    from counton.run.progress import Progress
    from counton.state import Store

#: Beginning of exact numbers, which go to standard error.
CONFIDENTIAL = "confidential"
#: A guarantee with a larger epsilon or rho protects almost nothing.
LARGEST_PROTECTING_LOSS = 20


#: Environment variables that make rich treat any output as a terminal.
_FORCING_VARIABLES = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})


class Console:
    """Console for output, which uses rich only to write to a terminal.

    Lines and tables that go elsewhere are written without it, because it is slow to import.

    Args:
        stderr: write to standard error.
        more: arguments of the `Terminal`, such as its width; rich determines the others.
    """

    def __init__(self, *, stderr: bool = False, **more: Any) -> None:
        self._stderr = stderr
        self._more = more
        self._file: TextIO = more.get("file") or (sys.stderr if stderr else sys.stdout)

    @cached_property
    def terminal(self) -> Terminal:
        """The object of the library rich that writes to a terminal."""
        from counton.cli.terminal import Terminal

        return Terminal(stderr=self._stderr, **self._more)

    @property
    def is_terminal(self) -> bool:
        """True if a person reads the output, on a terminal; False if it goes to a file or a
        program.
        """
        if self._more or not _FORCING_VARIABLES.isdisjoint(os.environ) or self._file.isatty():
            return self.terminal.is_terminal
        return False

    def write_line(self, text: str, *, bold: bool = False) -> None:
        """Print a line, however long, without wrapping it."""
        self._write(f"{text}\n", bold=bold)

    def ask_line(self, prompt: str) -> str:
        """Print a prompt, and return the line that is typed.

        The function waits for input before it reads, because a plain read would miss a Ctrl-C
        between the prompt and the read.

        Raises:
            EOFError: the input ended.
        """
        self._write(prompt)
        while sys.platform != "win32" and not select.select([sys.stdin], [], [], 0.2)[0]:
            pass
        if not (line := sys.stdin.readline()):
            raise EOFError
        return line.strip()

    def _write(self, text: str, *, bold: bool = False) -> None:
        if self.is_terminal:
            self.terminal.write(printable(text), bold=bold)
            return
        try:
            self._file.write(printable(text))
            self._file.flush()
        except BrokenPipeError:
            close_output()

    def write_table(self, table: TextTable | Table) -> None:
        """Print a table, with the text of its cells unchanged.

        The rows of a table that does not fit a terminal are printed one after the other. Output
        that other programs read has no frame and is never wrapped: a line for the names of columns,
        and one for each row.
        """
        if self.is_terminal:
            self.terminal.write_table(table)
            return
        if not isinstance(table, tuple):
            from counton.cli.terminal import texts_of

            table = texts_of(table)
        columns = [(shown_name(name), number) for name, number in table.columns]
        rows = [[shown_name(cell) for cell in row] for row in table.rows]
        for line in align_lines(table._replace(columns=columns, rows=rows)):
            self.write_line(line)


class ReportLines(Console):
    """Console that collects the lines of a report and prints nothing.

    Attributes:
        lines: the lines so far.
    """

    def __init__(self) -> None:
        super().__init__(stderr=True)
        self.lines: list[str] = []

    @override
    def write_line(self, text: str, *, bold: bool = False) -> None:
        self.lines.append(printable(text))


def print_json(value: object) -> None:
    """Print one value as JSON and nothing else; passwords in addresses are hidden."""
    sys.stdout.write(json.dumps(_without_passwords(value), indent=2) + "\n")


def print_json_rows(about: Mapping[str, object], table: pl.DataFrame) -> None:
    """Print, as one JSON object on one line, what is known about a table's rows, and the rows under
    ``rows``.
    """
    sys.stdout.write(f'{json.dumps(about)[:-1]}, "rows": {table.write_json()}}}\n')


def _without_passwords(value: object, key: str = "") -> object:
    if isinstance(value, Mapping):
        return {name: _without_passwords(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_passwords(inner, key) for inner in value]
    return hide_secrets(value) if key in _ADDRESSES and isinstance(value, str) else value


#: Keys of JSON objects whose values may be addresses of databases.
_ADDRESSES = ("state", "place", "output")


def tell_of_old_copies(store: Store, names: Iterable[str]) -> None:
    """Report on stderr which of some streams may come from an old copy of their state (database),
    and why.
    """
    for name in names:
        if (suspicion := store.reader(name).rollback_suspicion()) is not None:
            Console(stderr=True).write_line(f"note: {suspicion}")


def with_option_words(message: str) -> str:
    """Return a message of the library with options in place of arguments of Python."""
    message = message.replace(
        "name its folder (rollback_guard)", "name its folder (--rollback-guard)"
    )
    return message.replace("accept_old_copy=True", "counton verify --accept-old-copy")


def warn_of_guard_beside_state(
    errors: Console,
    states: Iterable[tuple[Any, Any]],
    *,
    option: str = "rollback_guard",
    opened: Callable[[Any], Store | None] = lambda _: None,
) -> None:
    """Warn about rollback guards that lie in the folder of their states, each once: if the whole
    folder is restored from an old copy, nobody notices.

    A rollback guard is a small file away from the state that records the last released step.

    Args:
        states: for each state its address, and the folder of its rollback guard if stated.
        option: the option for a rollback guard in this command.
        opened: function that returns the `Store` of a state that the caller has open, or None.
    """
    from counton.state.rollback_guard import remark_on_guard

    remarks: dict[str | None, None] = {}
    for state, guard in states:
        with suppress(CountonError):  # for states that cannot be used
            store = opened(state)
            database = None if store is None else store.database
            remarks[remark_on_guard(state, guard, opened=database)] = None
    for remark in filter(None, remarks):
        errors.write_line(InvalidInputError(remark).translate({"rollback_guard": option}))


def warn_of_weak(console: Console, guarantee: Guarantee, unit: str, about: str = "") -> None:
    """Print a warning, which begins with ``about``, if a guarantee's epsilon or rho is above
    `LARGEST_PROTECTING_LOSS`, so that it hides almost nothing.
    """
    loss = guarantee.losses.get("epsilon") or guarantee.losses.get("rho")
    if loss is not None and loss > LARGEST_PROTECTING_LOSS:
        console.write_line(
            f"{about}warning: the privacy loss {readable(loss)} for one {unit} is above "
            f"{LARGEST_PROTECTING_LOSS}. At ε = {LARGEST_PROTECTING_LOSS}, released numbers may "
            f"already be e^{LARGEST_PROTECTING_LOSS} times "
            f"likelier with this {unit} than without it, so next to nothing is hidden; a loss of 1 "
            "is a common choice"
        )


def _show_no_progress(_task: str, _fraction: float, /) -> None:
    """Ignore the progress of a run."""


@contextmanager
def working(console: Console) -> Iterator[Progress]:
    """Show a progress bar on a terminal during the ``with`` block; yield the function that moves
    it.
    """
    if not console.is_terminal:
        yield _show_no_progress
        return
    from rich import progress

    columns = (
        progress.TextColumn("{task.description:<22}"),
        progress.BarColumn(40),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console.terminal) as bar:
        task = bar.add_task("starting", total=1.0)

        def report(stage: str, share: float, /) -> None:
            bar.update(task, description=stage, completed=share)

        yield report
        bar.update(task, description="done", completed=1.0)

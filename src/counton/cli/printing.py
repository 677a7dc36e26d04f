"""How commands print: lines, words beside names, tables, JSON. Nothing is marked up or wrapped."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def print_json(value: Any) -> None:
    """One JSON value and nothing else."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def print_line(console: Console, text: str, *, bold: bool = False) -> None:
    """A line as it is, however long."""
    style = "bold" if bold else None
    console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def print_words(console: Console, rows: Iterable[tuple[str, str]]) -> None:
    """Names, and beside each of them words; a nameless row goes on with the one before."""
    words = Table.grid(padding=(0, 2))
    words.add_column(style="dim", no_wrap=True)
    words.add_column(overflow="fold")
    for name, text in rows:
        words.add_row(name, text)
    print_table(console, words)


def print_table(console: Console, table: Table) -> None:
    """A table whose cells are shown as they are."""
    console.print(table, highlight=False, markup=False)


def print_files(console: Console, table: Path | None, chart: Path | None) -> None:
    """What was written, and where."""
    for name, path in (("table", table), ("chart", chart)):
        if path is not None:
            print_line(console, f"{name} written to {path}")

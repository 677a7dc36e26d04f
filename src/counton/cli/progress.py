"""A progress bar on stderr; nothing where nobody would see it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from counton.jobs.job import Progress as Heard
from counton.jobs.job import silent


@contextmanager
def working(console: Console, *, always: bool = False) -> Iterator[Heard]:
    """A bar while the block runs, on terminals, or always if asked."""
    if not (always or console.is_terminal):
        yield silent
        return
    columns = (
        TextColumn("{task.description:<22}"),
        BarColumn(40),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("starting", total=1.0)

        def report(stage: str, share: float, /) -> None:
            bar.update(task, description=stage, completed=share)

        yield report
        bar.update(task, description="done", completed=1.0)

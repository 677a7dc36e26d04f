"""How a run reports its progress."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Protocol

#: Seconds between two reports of the number of rows that were read.
_REPORT_SECONDS = 0.3


class Progress(Protocol):
    """A function that is told the current task, and the fraction of the run that is done."""

    def __call__(self, task: str, fraction: float, /) -> None:
        """Receive the task's name and the fraction, 0 to 1."""


def no_progress(_task: str, _fraction: float) -> None:
    """Ignore the progress of a run.

    Args:
        _task: name of the current task.
        _fraction: fraction of the run that is done, 0 to 1.
    """


def row_watcher(progress: Progress) -> Callable[[int], None]:
    """Return a function that reports how many rows were read, and how fast."""
    start = monotonic()
    rows_read = 0
    reported = 0.0

    def watch(rows: int) -> None:
        nonlocal rows_read, reported
        rows_read += rows
        seconds = monotonic() - start
        if seconds > reported + _REPORT_SECONDS:
            reported = seconds
            millions = rows_read / seconds / 1e6
            progress(f"read {rows_read:,} rows, {millions:.1f} million a second", 0.25)

    return watch

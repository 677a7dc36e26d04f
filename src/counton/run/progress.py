"""The receiver of a run's progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A function of the current task's name and the done fraction (0 to 1) of all work."""

    def __call__(self, stage: str, share: float, /) -> None:
        """Receive the task's name and the done fraction (0 to 1) of all work."""


def silent(_stage: str, _share: float) -> None:
    """Do nothing with the progress of a run."""

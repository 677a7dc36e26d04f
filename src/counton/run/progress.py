"""The receiver of a run's progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A function that receives the name of the current task, and the fraction (0 to 1) of all work
    that is done.
    """

    def __call__(self, stage: str, share: float, /) -> None:
        """Receive the name of the current task, and the fraction (0 to 1) of all work that is
        done.
        """


def silent(_stage: str, _share: float) -> None:
    """Do nothing with the progress of a run."""

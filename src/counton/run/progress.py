"""The receiver of a run's progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receives the current task and the finished share of the whole work."""

    def __call__(self, stage: str, share: float, /) -> None:
        """Receive the progress."""


def silent(_stage: str, _share: float) -> None:
    """Ignore the progress."""

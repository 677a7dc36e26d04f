"""Who is told how far a run is."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called with what is being done and the share of the whole work that is behind it."""

    def __call__(self, stage: str, share: float, /) -> None:
        """Take note."""


def silent(_stage: str, _share: float) -> None:
    """Tell nobody."""

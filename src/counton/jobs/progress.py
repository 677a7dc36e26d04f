"""How a job says where it is."""

from __future__ import annotations

from typing import Protocol


class Report(Protocol):
    """Called with what is being done and the share of the whole work that is behind it."""

    def __call__(self, stage: str, share: float, /) -> None:
        """Take note."""


def silent(_stage: str, _share: float) -> None:
    """Report to nobody."""

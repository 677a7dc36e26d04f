"""One line of the table: a figure, the bar it is held to, and whether it passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Row:
    """One measured figure, with the bar that it has to meet.

    Attributes:
        name: the name of what was measured.
        measured: the figure, in ``unit``.
        bar: the promised bound, in ``unit``.
        sense: "at most" if the figure must not exceed the bar, "at least" if it must reach the bar.
        unit: unit of the figure; "x" for a ratio of CPU times.
        note: what the figure was compared with.
    """

    name: str
    measured: float
    bar: float
    sense: Literal["at most", "at least"] = "at most"
    unit: str = "x"
    note: str = ""

    @property
    def passed(self) -> bool:
        """True if the figure meets its bar."""
        if self.sense == "at most":
            return self.measured <= self.bar
        return self.measured >= self.bar

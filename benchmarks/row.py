"""One line of the table: a figure, the bar it is held to, and whether it passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Row:
    """One measured figure.

    Attributes:
        name: what was measured.
        measured: the figure, in ``unit``.
        bar: what is promised, in ``unit``.
        sense: whether the figure should stay at or below its bar, or reach it.
        unit: "x" for a ratio of CPU times.
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
        """Whether the figure meets its bar."""
        if self.sense == "at most":
            return self.measured <= self.bar
        return self.measured >= self.bar

"""Which windows each released number counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AllToDate:
    """Each number counts all windows since the start."""


@dataclass(frozen=True)
class LastWindows:
    """Each number counts the same number of last windows.

    Attributes:
        n_windows: this number, from 1.
    """

    n_windows: int


@dataclass(frozen=True)
class PeriodToDate:
    """Each number counts the windows of its period so far, as for distinct users of a week.

    Attributes:
        period: name of the period, such as "week".
    """

    period: str


CountedWindows = AllToDate | LastWindows | PeriodToDate

"""Dharangutte, Gao, Gong and Wang, "Differentially Private Range Queries with Correlated Input
Perturbation": statements, Figures 1 to 5.
"""

from __future__ import annotations

from pathlib import Path

from counton.reproduce.evidence import Evidence, Figure
from counton.reproduce.ranges.numbers import comparisons, error_table
from counton.reproduce.ranges.timing import measure

TITLE = "Differentially Private Range Queries with Correlated Input Perturbation"


def evidence(folder: Path | None = None, *, quick: bool = False) -> Evidence:
    """All rows, and the figures in ``folder`` if there is one; rows of times unless it is quick."""
    figures: tuple[Figure, ...] = ()
    times = None if quick and folder is None else measure(quick=quick)
    rows = comparisons(quick=quick)
    if times is not None and not quick:
        rows += times.rows()
    if folder is not None and times is not None:
        from counton.reproduce.ranges.figures import draw_all

        figures = tuple(draw_all(folder, times, quick=quick))
    return Evidence(TITLE, rows, figures, error_table())

"""Dharangutte, Gao, Gong and Wang, "Differentially Private Range Queries with Correlated Input
Perturbation": statements, Figures 1 to 5.
"""

from __future__ import annotations

from pathlib import Path

from papers.evidence import Evidence, Figure, Report, Stages, silent
from papers.ranges.numbers import PARTS, comparisons, error_table
from papers.ranges.timing import measure

TITLE = "Differentially Private Range Queries with Correlated Input Perturbation"
_FIGURES = 10


def evidence(
    folder: Path | None = None, *, quick: bool = False, report: Report = silent
) -> Evidence:
    """All rows, and the figures in ``folder`` if there is one; rows of times unless it is quick."""
    timed = not quick or folder is not None
    stages = Stages(report, timed + PARTS + _FIGURES * (folder is not None))
    figures: tuple[Figure, ...] = ()
    times = stages.one("times", lambda: measure(quick=quick)) if timed else None
    rows = tuple(row for part in stages("numbers", comparisons(quick=quick)) for row in part)
    if times is not None and not quick:
        rows += times.rows()
    if folder is not None and times is not None:
        from papers.ranges.figures import draw_all

        figures = tuple(stages("figures", draw_all(folder, times, quick=quick)))
    return Evidence(TITLE, rows, figures, error_table())

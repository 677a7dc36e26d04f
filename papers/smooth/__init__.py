"""Andersson and Pagh, "A Smooth Binary Mechanism": Table 1, Figures 1-5, and its statements."""

from __future__ import annotations

from pathlib import Path

from papers.evidence import Evidence, Figure, Report, Stages, silent
from papers.smooth.numbers import rows
from papers.smooth.timing import measure

TITLE = "A Smooth Binary Mechanism for Efficient Private Continual Observation"
_FIGURES = 6


def evidence(
    folder: Path | None = None, *, quick: bool = False, report: Report = silent
) -> Evidence:
    """All rows, and the figures in ``folder`` if there is one; times only if it may take long."""
    stages = Stages(report, 1 + (not quick) + _FIGURES * (folder is not None))
    times = None if quick else stages.one("times", measure)
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from papers.smooth.figures import draw_all

        figures = tuple(stages("figures", draw_all(folder, times)))
    found = stages.one("numbers", rows)
    return Evidence(TITLE, (*found, *(times.rows() if times else ())), figures)

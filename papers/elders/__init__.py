"""Andersson, Pagh, Steiner and Torkamani, "Count on Your Elders": its statements and figures."""

from __future__ import annotations

from pathlib import Path

from papers.elders import laplace_or_gaussian, numbers, random_input
from papers.evidence import Evidence, Figure, Report, Stages, silent

TITLE = "Count on Your Elders: Laplace vs Gaussian Noise"
_FIGURES = 7


def evidence(
    folder: Path | None = None, *, quick: bool = False, report: Report = silent
) -> Evidence:
    """All rows, and the figures in ``folder`` if there is one; quick with fewer runs."""
    stages = Stages(report, 4 + _FIGURES * (folder is not None))
    measured = stages.one("largest errors", lambda: random_input.measure(quick=quick))
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from papers.elders.figures import draw_all

        figures = tuple(stages("figures", draw_all(folder, measured)))
    parts = (
        numbers.rows,
        laplace_or_gaussian.rows,
        lambda: random_input.rows(measured),
    )
    found = stages("numbers", (part() for part in parts))
    return Evidence(TITLE, tuple(row for rows in found for row in rows), figures)

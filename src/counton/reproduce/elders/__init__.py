"""Andersson, Pagh, Steiner and Torkamani, "Count on Your Elders": its statements and figures."""

from __future__ import annotations

from pathlib import Path

from counton.reproduce.elders import laplace_or_gaussian, numbers, random_input
from counton.reproduce.evidence import Evidence, Figure

TITLE = "Count on Your Elders: Laplace vs Gaussian Noise"


def evidence(folder: Path | None = None, *, quick: bool = False) -> Evidence:
    """All rows, and the figures in ``folder`` if there is one; quick with fewer runs."""
    measured = random_input.measure(quick=quick)
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from counton.reproduce.elders.figures import draw_all

        figures = tuple(draw_all(folder, measured))
    rows = (*numbers.rows(), *laplace_or_gaussian.rows(), *random_input.rows(measured))
    return Evidence(TITLE, rows, figures)

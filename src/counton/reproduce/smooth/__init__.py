"""Andersson and Pagh, "A Smooth Binary Mechanism": Table 1, Figures 1-5, and its statements."""

from __future__ import annotations

from pathlib import Path

from counton.reproduce.evidence import Evidence, Figure
from counton.reproduce.smooth.numbers import rows
from counton.reproduce.smooth.timing import measure

TITLE = "A Smooth Binary Mechanism for Efficient Private Continual Observation"


def evidence(folder: Path | None = None, *, quick: bool = False) -> Evidence:
    """All rows, and the figures in ``folder`` if there is one; times only if it may take long."""
    times = None if quick else measure()
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from counton.reproduce.smooth.figures import draw_all

        figures = tuple(draw_all(folder, times))
    return Evidence(TITLE, (*rows(), *(times.rows() if times else ())), figures)

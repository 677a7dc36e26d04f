"""Andersson et al., "Continual Counting with Gradual Privacy Expiration": Table 1, Figures 1-4."""

from __future__ import annotations

from pathlib import Path

from counton.reproduce.evidence import Evidence, Figure
from counton.reproduce.expiration.numbers import table_1

TITLE = "Continual Counting with Gradual Privacy Expiration"


def evidence(folder: Path | None = None, *, quick: bool = False) -> Evidence:
    """Table 1, and Figures 1 to 4 in ``folder`` if there is one, unless it has to be quick."""
    figures: tuple[Figure, ...] = ()
    if folder is not None and not quick:
        from counton.reproduce.expiration.figures import draw_all

        folder.mkdir(parents=True, exist_ok=True)
        figures = tuple(draw_all(folder))
    return Evidence(TITLE, table_1(), figures)

"""Andersson et al., "Continual Counting with Gradual Privacy Expiration": tables and theorems."""

from __future__ import annotations

from pathlib import Path

from counton.reproduce.evidence import Evidence, Figure
from counton.reproduce.expiration.numbers import caption_4, table_1
from counton.reproduce.expiration.statements import rows

TITLE = "Continual Counting with Gradual Privacy Expiration"


def evidence(folder: Path | None = None, *, quick: bool = False) -> Evidence:
    """All rows, and the figures in ``folder`` if there is one; in quick form the same."""
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from counton.reproduce.expiration.figures import draw_all

        figures = tuple(draw_all(folder))
    return Evidence(TITLE, (*table_1(), *caption_4(), *rows()), figures)

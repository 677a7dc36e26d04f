"""Andersson et al., "Continual Counting with Gradual Privacy Expiration": tables and theorems."""

from __future__ import annotations

from pathlib import Path

from papers.evidence import Evidence, Figure, Report, Stages, silent
from papers.expiration.numbers import caption_4, table_1
from papers.expiration.statements import rows

TITLE = "Continual Counting with Gradual Privacy Expiration"
_FIGURES = 7


def evidence(
    folder: Path | None = None, *, quick: bool = False, report: Report = silent
) -> Evidence:
    """All rows, and the figures in ``folder`` if there is one; in quick form the same."""
    stages = Stages(report, 3 + _FIGURES * (folder is not None))
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from papers.expiration.figures import draw_all

        figures = tuple(stages("figures", draw_all(folder)))
    found = stages("numbers", (part() for part in (table_1, caption_4, rows)))
    return Evidence(TITLE, tuple(row for part in found for row in part), figures)

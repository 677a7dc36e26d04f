"""Who is how precise: every published mechanism for continual counts, with venue and year.

No paper's tables, but an answer to a question that each of them answers for itself: how far off is
a running total under one guarantee, one neighbouring relation and one number of steps? Each
mechanism is computed here, with its best parameters, the exact laws of discrete noise, and one
count added or removed in one step.
"""

from __future__ import annotations

from pathlib import Path

from papers.evidence import Evidence, Figure, Report, Stages, silent
from papers.survey.numbers import HORIZONS, comparisons, errors_at

TITLE = "Who is how precise: running totals, by every published mechanism"


def evidence(
    folder: Path | None = None, *, quick: bool = False, report: Report = silent
) -> Evidence:
    """The table, rows of it beside what was stated elsewhere, and ``survey.png`` in ``folder``.

    Args:
        folder: where the picture goes; None for none.
        quick: no million of steps, and no search for matrices.
    """
    horizons = HORIZONS[:2] if quick else HORIZONS
    stages = Stages(report, len(horizons) + (folder is not None))
    rows = [
        row
        for some in stages("errors", (errors_at(horizon, quick=quick) for horizon in horizons))
        for row in some
    ]
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from papers.survey.figures import draw

        folder.mkdir(parents=True, exist_ok=True)
        figures = (stages.one("figure", lambda: draw(folder / "survey.png", rows)),)
    ordered = sorted(rows, key=lambda row: (row.guarantee, row.metric))
    return Evidence(TITLE, comparisons(rows), figures, tuple(ordered))

"""Error of running totals against their number: every published mechanism, and those of counton.

No paper's tables, but the evidence for a claim: that the plans of counton have less error than any
published tree or stream, and hardly more than matrices that were searched for. Each mechanism is
computed here, with its best parameters for each horizon; those for finished tables too, whose noise
can be drawn ahead.
"""

from __future__ import annotations

from pathlib import Path

from papers.evidence import Evidence, Figure, Report, Stages, silent
from papers.less_noise.numbers import comparisons, error_table

TITLE = "Less noise: running totals under continual observation"


def evidence(
    folder: Path | None = None, *, quick: bool = False, report: Report = silent
) -> Evidence:
    """The table, what was announced beside it, and ``less-noise.png`` in ``folder``.

    Args:
        folder: where the picture goes; None for none.
        quick: horizons up to a year of hours, and no dense optimum, which takes minutes.
    """
    stages = Stages(report, 2 + (folder is not None))
    errors = stages.one("errors", lambda: error_table(quick=quick))
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from papers.less_noise.figures import draw

        folder.mkdir(parents=True, exist_ok=True)
        figures = (stages.one("figure", lambda: draw(folder / "less-noise.png", errors)),)
    rows = stages.one("numbers", lambda: comparisons(quick=quick))
    return Evidence(TITLE, rows, figures, errors)

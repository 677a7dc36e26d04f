"""Fichtenberger, Henzinger, Upadhyay, "Constant matters": norms, bounds, streams, uses."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from counton.reproduce.constants import applications, numbers, sensitivities, streams
from counton.reproduce.evidence import Comparison, Evidence, Figure

TITLE = "Constant matters: fine-grained error bound on private continual observation"
_RUNS, _QUICK_RUNS = 1024, 32


@lru_cache(maxsize=2)
def _comparisons(runs: int) -> tuple[Comparison, ...]:
    return (
        *numbers.norms(),
        *numbers.mathias(),
        *numbers.calibration(),
        *numbers.remark_1(),
        *numbers.improvements(),
        *numbers.lower_bounds(),
        *streams.largest_errors(runs),
        *streams.table_2(),
        *streams.figure_4(),
        streams.independence(),
        *streams.honaker(runs),
        *applications.bounds(runs),
        *sensitivities.histogram(),
        *sensitivities.cuts(),
        *sensitivities.words(),
        *sensitivities.graphs(),
    )


def evidence(folder: Path | None = None, *, quick: bool = False) -> Evidence:
    """Every number, and every figure in ``folder``; 32 runs instead of 1,024 if ``quick``."""
    runs = _QUICK_RUNS if quick else _RUNS
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from counton.reproduce.constants.figures import draw_all

        figures = tuple(draw_all(folder, runs))
    return Evidence(TITLE, _comparisons(runs), figures)

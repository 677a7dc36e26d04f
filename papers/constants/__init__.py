"""Fichtenberger, Henzinger, Upadhyay, "Constant matters": norms, bounds, streams, uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from papers.constants import applications, numbers, sensitivities, streams, uses
from papers.evidence import Comparison, Evidence, Figure, Report, Stages, silent

TITLE = "Constant matters: fine-grained error bound on private continual observation"
_RUNS = 1024
_QUICK_RUNS = 32


#: What is computed, in the paper's order, with so many runs.
_PARTS: tuple[Callable[[int], Iterable[Comparison]], ...] = (
    lambda runs: numbers.norms(),
    lambda runs: numbers.mathias(),
    lambda runs: numbers.calibration(),
    lambda runs: numbers.remark_1(),
    lambda runs: numbers.improvements(),
    lambda runs: numbers.lower_bounds(),
    streams.largest_errors,
    lambda runs: streams.table_2(),
    lambda runs: streams.figure_4(),
    lambda runs: (streams.independence(),),
    streams.honaker,
    applications.bounds,
    uses.cuts,
    uses.averages,
    lambda runs: (uses.top_1(runs),),
    uses.sparse,
    lambda runs: (uses.local(),),
    lambda runs: sensitivities.histogram(),
    lambda runs: sensitivities.cuts(),
    lambda runs: sensitivities.covered(),
    lambda runs: sensitivities.words(),
    lambda runs: sensitivities.graphs(),
)
_FIGURES = 8


@lru_cache(maxsize=64)
def _rows(part: int, runs: int) -> tuple[Comparison, ...]:
    return tuple(_PARTS[part](runs))


def evidence(
    folder: Path | None = None, *, quick: bool = False, report: Report = silent
) -> Evidence:
    """Every number, and every figure in ``folder``; 32 runs instead of 1,024 if ``quick``."""
    stages = Stages(report, _FIGURES * (folder is not None) + len(_PARTS))
    runs = _QUICK_RUNS if quick else _RUNS
    figures: tuple[Figure, ...] = ()
    if folder is not None:
        from papers.constants.figures import draw_all

        figures = tuple(stages("figures", draw_all(folder, runs)))
    parts = stages("numbers", (_rows(part, runs) for part in range(len(_PARTS))))
    return Evidence(TITLE, tuple(row for part in parts for row in part), figures)

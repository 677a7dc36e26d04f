"""One experiment of each paper on real data: the flights that left New York in 2013.

The papers measure on no data or on synthetic data. Here each one's main mechanism runs on counts by
hour, by day, by airline and by delay, and its errors stand beside what its theorem says of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from papers.evidence import Comparison, Evidence, Report, Stages, silent
from papers.flights import numbers

TITLE = "Real data: the flights that left New York in 2013"


def evidence(
    folder: Path | None = None, *, quick: bool = False, report: Report = silent
) -> Evidence:
    """Measured errors beside exact ones; there are no pictures.

    Args:
        folder: of pictures; nothing is written there.
        quick: fewer runs.
    """
    del folder
    runs = 16 if quick else 64
    stages = Stages(report, len(numbers.EXPERIMENTS))
    rows: list[Comparison] = []
    for name, experiment in numbers.EXPERIMENTS.items():
        rows += stages.one(name, partial(_all, experiment, runs))
    return Evidence(TITLE, tuple(rows))


def _all(experiment: Callable[[int], Iterator[Comparison]], runs: int) -> list[Comparison]:
    return list(experiment(runs))

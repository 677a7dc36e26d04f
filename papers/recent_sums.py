"""Noise of rolling and decayed sums: planned for them, and derived from plans of other series.

``python -m papers.recent_sums`` prints the table, and ``python -m papers.recent_sums FILE`` draws
the picture: the standard deviation of the last W days in a year of days.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from counton import ZCDP, Decayed, PureDP, Rolling, plan
from counton.base.series import PlannedSeries
from counton.charts.style import FAINT, INK, PALETTE, WIDTH, clean, heading_inches, write_heading
from counton.continual.design import Design
from counton.planning.lower_bounds import least_std
from counton.privacy import Guarantee
from counton.strategies.joint_errors import recent_variance
from counton.strategies.workloads import RecentWorkload
from papers.drawing import save
from papers.evidence import Figure

#: The guarantees, by their names in the table.
GUARANTEES: dict[str, Guarantee] = {"ρ = ½": ZCDP(0.5), "ε = 1": PureDP(1)}
#: The workloads of the table.
WORKLOADS: tuple[RecentWorkload, ...] = (
    *(Rolling(width) for width in (2, 7, 28, 91, 182, 365)),
    *(Decayed(half_life) for half_life in (7, 28)),
)
#: Widths of the picture.
WIDTHS = (1, 2, 3, 5, 7, 10, 14, 21, 28, 45, 60, 91, 130, 182, 260, 365)
YEAR = 365
_SERIES: tuple[PlannedSeries, ...] = ("cumulative", "per-window", "both")


class Row(NamedTuple):
    """The root mean variance of a workload.

    Attributes:
        workload, guarantee, steps: what is released, and how long.
        derived: from the best plan of totals, of single steps, or of both.
        planned: from the plan for this workload.
        bound: no factorisation is below.
    """

    workload: RecentWorkload
    guarantee: str
    steps: int
    derived: float
    planned: float
    bound: float


def row_of(workload: RecentWorkload, guarantee: str, steps: int) -> Row:
    """Compute a row of the table.

    >>> row = row_of(Rolling(7), "ρ = ½", 60)
    >>> row.bound < row.planned < row.derived
    True
    """
    stated = GUARANTEES[guarantee]
    best = plan(steps, stated, workload=workload).best
    (bound,) = least_std(best, "mean").values()
    return Row(
        workload, guarantee, steps, _derived(workload, stated, steps), best.errors.mean_std, bound
    )


def _derived(workload: RecentWorkload, guarantee: Guarantee, steps: int) -> float:
    others: list[Design] = []
    for series in _SERIES:
        others += plan(steps, guarantee, series=series, compare=False).choices
    variances = [
        recent_variance(design.strategy, design.distribution, workload.parts, "mean", steps)
        for design in others
    ]
    return math.sqrt(min(variances))


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    lines = [
        "| sum | guarantee | T | derived | planned | no factorisation is below |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        words = row.workload.words.removeprefix("the ")
        errors = " | ".join(f"{each:.3f}" for each in (row.derived, row.planned, row.bound))
        lines.append(f"| {words} | {row.guarantee} | {row.steps:,} | {errors} |")
    return "\n".join(lines)


_TITLE = "Noise of the sum of the last days"
_SUBTITLE = (
    "Standard deviation for one count added or removed, in a year of days. Derived: computed from "
    "the best release of totals or of single days. Planned: released for this sum."
)
_SHOWS = (
    "The standard deviation of the sum of the last days against the number of these days, with "
    "Gaussian and with Laplace noise. The planned sums have the least noise at all widths."
)


def draw(path: Path, rows: Sequence[Row]) -> Figure:
    """Draw the picture: a panel for each guarantee."""
    from matplotlib.figure import Figure as Canvas

    top = heading_inches(_TITLE, _SUBTITLE) + 0.1
    tall = top + 3.9
    figure = Canvas(figsize=(WIDTH, tall), dpi=120)
    write_heading(figure, _TITLE, _SUBTITLE)
    axes = figure.subplots(1, 2)
    figure.subplots_adjust(
        left=0.07, right=0.985, bottom=0.6 / tall, top=1 - (top + 0.3) / tall, wspace=0.16
    )
    for ax, guarantee in zip(axes, GUARANTEES, strict=True):
        some = [row for row in rows if row.guarantee == guarantee]
        widths = [row.workload.parts[0].width for row in some]
        ax.plot(widths, [row.derived for row in some], color=PALETTE[1], lw=1.8, label="derived")
        ax.plot(widths, [row.planned for row in some], color=PALETTE[0], lw=2.8, label="planned")
        ax.set_xscale("log")
        ax.set_xticks([1, 7, 28, 91, 365], ["1", "7", "28", "91", "365"])
        ax.set_ylim(0, 1.15 * max(row.derived for row in some))
        ax.set_title(guarantee, loc="left", size=11, weight="bold", color=INK, pad=8)
        ax.set_xlabel("days in the sum", color=FAINT, size=10)
        clean(ax, grid="both")
        ax.minorticks_off()
        ax.legend(frameon=False, fontsize=9.5, labelcolor=INK, loc="lower right")
    return save(figure, path, _TITLE, _SHOWS)


def main() -> None:
    """Print the table, or draw the picture into a file."""
    if len(sys.argv) > 1:
        rows = [row_of(Rolling(width), name, YEAR) for name in GUARANTEES for width in WIDTHS]
        draw(Path(sys.argv[1]), rows)
        return
    rows = [row_of(workload, name, YEAR) for name in GUARANTEES for workload in WORKLOADS]
    sys.stdout.write(f"{table(rows)}\n")


if __name__ == "__main__":
    main()

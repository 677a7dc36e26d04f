"""The picture of how many events of a user to count: error of noise and loss against the bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from counton.charts.style import (
    FAINT,
    PALETTE,
    WIDTH,
    Caption,
    check_width,
    clean,
    drawing,
    frame,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@drawing
def plot_bounds(
    most: Sequence[int],
    noise: Sequence[float],
    dropped: Sequence[float],
    title: str,
    subtitle: str,
    *,
    width: float = WIDTH,
) -> Figure:
    """Noise and loss against the bound, both in percent of all events, on one logarithmic axis.

    Args:
        most: the bounds, ascending.
        noise: standard deviation of the noise, as a share of all events.
        dropped: share of events that do not count.
        title, subtitle: what the chart shows. It is drawn from exact events: say so.
        width: in inches, as 4 for a telephone.

    >>> figure = plot_bounds([1, 2], [0.01, 0.02], [0.3, 0], "Visits", "not private")
    >>> float(figure.get_figwidth())
    7.5
    """
    width = check_width(width)
    figure, bottom, top = frame(Caption(title, subtitle, width=width), 3.3, above=0.25, below=0.65)
    ax = figure.subplots()
    right = 1 - 0.15 * WIDTH / width
    figure.subplots_adjust(left=0.75 / width, right=right, bottom=bottom, top=top)
    curves = (
        ("noise", [100 * share for share in noise], PALETTE[0]),
        ("dropped", [100 * share for share in dropped], PALETTE[1]),
    )
    for name, values, colour in curves:
        shown = [(x, y) for x, y in zip(most, values, strict=True) if y > 0]
        if not shown:
            continue
        ax.plot(*zip(*shown, strict=True), "o-", color=colour, linewidth=1.7, markersize=4)
        ax.annotate(
            name,
            shown[-1],
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            size=11,
            color=colour,
            weight="bold",
            annotation_clip=False,
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ticks = _apart(most, width - 0.25 * WIDTH)
    ax.set_xticks(ticks, [f"{number:,}" for number in ticks])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _place: f"{value:g}%")
    ax.set_title("of all events", loc="left", size=10, color=FAINT, pad=4)
    ax.set_xlabel("events of a user that count, at most (N)", size=10, color=FAINT)
    clean(ax, grid="y")
    ax.tick_params(labelsize=10)
    return figure


def _apart(numbers: Sequence[int], inches: float) -> list[int]:
    """Those whose names have room on a logarithmic axis, the largest among them.

    >>> _apart([1, 2, 3, 500, 1000, 1520], 5.6)
    [1, 2, 3, 500, 1520]
    """
    whole = math.log(numbers[-1] / numbers[0]) or 1.0
    kept: list[int] = []
    for number in reversed(numbers):
        names = 0.08 * (len(f"{number:,}") + len(f"{kept[-1]:,}")) / 2 + 0.1 if kept else 0.0
        if not kept or math.log(kept[-1] / number) / whole * inches >= names:
            kept.append(number)
    return kept[::-1]

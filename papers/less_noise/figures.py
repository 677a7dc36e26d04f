"""The picture: error against the number of steps, pure and Gaussian, mean and largest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from counton.base.lazy import require
from counton.charts.style import (
    FAINT,
    INK,
    PALETTE,
    WIDTH,
    clean,
    heading_inches,
    write_heading,
)
from papers.drawing import save
from papers.evidence import Figure
from papers.less_noise.numbers import (
    BOUND,
    GUARANTEES,
    LOOK_AHEAD,
    METRICS,
    OCTAVE,
    PLANNED,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from papers.evidence import ErrorRow

_TITLE = "Noise of a running total"
_SUBTITLE = (
    "Standard deviation for one count added or removed, by the number of steps that are "
    "released. Each mechanism with its best parameters, all computed here."
)
#: Line of each mechanism: colour, width, dashes. Ours are drawn last and widest.
_LINES: dict[str, tuple[str, float, str]] = {
    "binary tree": ("#b0b0b0", 1.2, "-"),
    "Honaker online": (PALETTE[6], 1.2, "-"),
    "k-ary tree": (PALETTE[5], 1.2, "-"),
    "k-ary with subtraction": (PALETTE[1], 1.6, "-"),
    "smooth binary": (PALETTE[3], 1.6, "-"),
    "square root": (PALETTE[2], 1.6, "-"),
    "normalised square root": (PALETTE[2], 1.6, "--"),
    "least-squares tree": (PALETTE[5], 1.6, "--"),
    "HDMM": (INK, 1.6, "--"),
    "dense optimum": (INK, 1.2, ":"),
    LOOK_AHEAD: (PALETTE[4], 2.0, "-"),
    OCTAVE: (PALETTE[0], 1.4, ":"),
    PLANNED: (PALETTE[0], 2.8, "-"),
    BOUND: (FAINT, 1.0, "--"),
}
_PANEL = 3.3
_LEGEND = 1.15


_SHOWS = (
    "The standard deviation of a running total against the number of steps, for every published "
    "mechanism with its best parameters and for the plans of counton, with Laplace and with "
    "Gaussian noise. The plans lie below every published tree, within 0.2 per cent of what HDMM "
    "finds for up to 1,024 steps, and with Gaussian noise close to the bound that no "
    "factorisation can pass."
)


def draw(path: Path, errors: Sequence[ErrorRow]) -> Figure:
    """Write the picture; one panel for each guarantee and metric."""
    require("matplotlib")
    from matplotlib.figure import Figure as Canvas

    top = heading_inches(_TITLE, _SUBTITLE) + 0.1
    tall = top + 2 * _PANEL + _LEGEND
    figure = Canvas(figsize=(WIDTH, tall), dpi=120)
    write_heading(figure, _TITLE, _SUBTITLE)
    axes = figure.subplots(2, 2, sharex=True)
    figure.subplots_adjust(
        left=0.07, right=0.985, bottom=(_LEGEND + 0.4) / tall, top=1 - (top + 0.3) / tall,
        hspace=0.3, wspace=0.16,
    )  # fmt: skip
    for row, guarantee in zip(axes, GUARANTEES, strict=True):
        for ax, metric in zip(row, METRICS, strict=True):
            some = [one for one in errors if (one.guarantee, one.metric) == (guarantee, metric)]
            _panel(ax, some)
            ax.set_title(
                f"{guarantee}: {'mean' if metric == 'mean' else 'largest'}",
                loc="left", size=11, weight="bold", color=INK, pad=8,
            )  # fmt: skip
    for ax in axes[1]:
        ax.set_xlabel("steps", color=FAINT, size=10)
    handles = {
        name: line
        for ax in axes.flat
        for line, name in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    ordered = [name for name in _LINES if name in handles]
    figure.legend(
        [handles[name] for name in ordered], ordered, loc="lower left", ncols=3, frameon=False,
        fontsize=9.5, labelcolor=INK, bbox_to_anchor=(0.03, 0.005), columnspacing=1.4,
    )  # fmt: skip
    return save(figure, path, _TITLE, _SHOWS)


def _panel(ax: Axes, errors: Sequence[ErrorRow]) -> None:
    ours = [one.std for one in errors if one.mechanism == PLANNED]
    for name, (colour, width, dashes) in _LINES.items():
        points = [(one.horizon, one.std) for one in errors if one.mechanism == name]
        if points:
            ax.plot(*zip(*points, strict=True), color=colour, linewidth=width, linestyle=dashes,
                    label=name, clip_on=True)  # fmt: skip
    ax.set_xscale("log")
    ax.set_ylim(0, 2.3 * max(ours))
    clean(ax, grid="both")
    ax.minorticks_off()

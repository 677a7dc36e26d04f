"""The picture: mean and largest error of each mechanism, a bar a mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from counton.base.lazy import require
from counton.charts.style import FAINT, INK, PALETTE, WIDTH, clean, heading_inches, write_heading
from papers.drawing import save
from papers.evidence import ErrorRow, Figure
from papers.less_noise.numbers import BOUND, GUARANTEES, PLANNED

_TITLE = "Who is how precise"
_SUBTITLE = (
    "Standard deviation of a running total over 8,760 steps, for one count added or removed: root "
    "of the mean variance (dot) and of the largest (end of the line)."
)
_HORIZON = 8760
_ROW = 0.24
_MARGIN = 0.9
_TICKS = (4, 5, 7, 10, 15, 20, 30, 50, 70, 100)
_SHOWS = (
    "The standard deviation of a running total over a year of hours, for every published mechanism "
    "that serves it: in the mean (dot) and at the worst step (end of the line). With Laplace noise "
    "the plan of counton has the least of all; with Gaussian noise it is the normalised square "
    "root."
)


def draw(path: Path, errors: Sequence[ErrorRow]) -> Figure:
    """Write the picture; one panel for each guarantee."""
    require("matplotlib")
    from matplotlib.figure import Figure as Canvas

    rows = [row for row in errors if row.horizon == _HORIZON and row.mechanism != BOUND]
    sizes = [len({row.mechanism for row in rows if row.guarantee == one}) for one in GUARANTEES]
    heading = heading_inches(_TITLE, _SUBTITLE)
    height = heading + sum(sizes) * _ROW + len(sizes) * _MARGIN
    canvas = Canvas(figsize=(WIDTH, height), dpi=120)
    write_heading(canvas, _TITLE, _SUBTITLE)
    top = heading
    for guarantee, size in zip(GUARANTEES, sizes, strict=True):
        inches = size * _ROW
        axes = canvas.add_axes((0.32, 1 - (top + 0.3 + inches) / height, 0.64, inches / height))
        top += inches + _MARGIN
        some = [row for row in rows if row.guarantee == guarantee]
        mean = {row.mechanism: row.std for row in some if row.metric == "mean"}
        largest = {row.mechanism: row.std for row in some if row.metric == "max"}
        names = sorted(mean, key=lambda name: -mean[name])
        for place, name in enumerate(names):
            colour = PALETTE[0] if name == PLANNED else FAINT
            axes.plot([mean[name], largest[name]], [place, place], color=colour, linewidth=2)
            axes.plot([mean[name]], [place], "o", color=PALETTE[0 if name == PLANNED else 1])
        axes.set_xscale("log")
        axes.set_yticks(range(len(names)), names)
        axes.set_title(guarantee, loc="left", size=11, weight="bold", color=INK, pad=8)
        clean(axes, grid="x")
        low = min(mean.values())
        high = max(largest.values())
        axes.set_xticks([tick for tick in _TICKS if low * 0.8 < tick < high * 1.1])
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    return save(canvas, path, _TITLE, _SHOWS)

"""What the papers' figures share: sheets of panels, diagrams of trees, small files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.lazy import require
from counton.charts.style import (
    FAINT,
    INK,
    WIDTH,
    clean,
    heading_inches,
    save_figure,
    write_heading,
)
from papers.evidence import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_DPI = 120
_COLOURS = 96


def shade(colour: str, strength: float) -> str:
    """Return a colour made darker or lighter: 0 is black, 1 unchanged, 2 white.

    >>> shade("#0072B2", 0.5), shade("#0072B2", 1.5)
    ('#003959', '#80b8d8')
    """
    if strength == 1:
        return colour
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    if strength < 1:
        mixed = [part * strength for part in parts]
    else:
        mixed = [part + (255 - part) * (strength - 1) for part in parts]
    return "#" + "".join(f"{round(part):02x}" for part in mixed)


def panels(
    title: str,
    subtitle: str,
    shape: tuple[int, int] = (1, 1),
    *,
    panel: float = 3.2,
    legend: float = 0.5,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Canvas, NDArray[Any]]:
    """A sheet with a heading, and its axes in rows and columns.

    Args:
        title: in large letters.
        subtitle: the parameters, and what is averaged over how many runs.
        shape: rows and columns of panels.
        panel: height of one, in inches; the sheet has the width of all pictures.
        legend: room below for `legend_below`, in inches.
        sharex: whether all panels have one x axis.
        sharey: whether all panels have one y axis.
    """
    require("matplotlib")
    from matplotlib.figure import Figure as Canvas

    rows, columns = shape
    top = heading_inches(title, subtitle) + 0.1
    tall = top + rows * panel + legend
    canvas = Canvas(figsize=(WIDTH, tall), dpi=_DPI)
    write_heading(canvas, title, subtitle)
    axes = canvas.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False)
    canvas.subplots_adjust(
        left=0.1, right=0.98, bottom=(legend + 0.5) / tall, top=1 - (top + 0.25) / tall,
        hspace=0.75 / max(panel - 0.75, 0.5), wspace=0.1 if sharey else 0.22,
    )  # fmt: skip
    return canvas, axes


def label(
    ax: Axes, title: str = "", x: str = "", y: str = "", *, grid: str | None = "both"
) -> None:
    """Title and units of a panel, in the style of all pictures."""
    clean(ax, grid=grid)
    ax.minorticks_off()
    if title:
        ax.set_title(title, loc="left", size=11, weight="bold", color=INK, pad=7)
    if x:
        ax.set_xlabel(x, color=FAINT, size=10)
    if y:
        ax.set_ylabel(y, color=FAINT, size=10)


def legend_below(canvas: Canvas, columns: int = 3) -> None:
    """One legend for all panels, at the foot of the sheet; a name is listed once."""
    handles = {
        name: handle
        for ax in canvas.axes
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(
        handles.values(), handles.keys(), loc="lower left", ncols=columns, frameon=False,
        fontsize=9.5, labelcolor=INK, bbox_to_anchor=(0.03, 0.005), columnspacing=1.4,
    )  # fmt: skip


def name_colours(ax: Axes, colours: Mapping[str, str]) -> None:
    """Squares of these colours in the legend, for boxes that draw none themselves."""
    for name, colour in colours.items():
        ax.plot([], [], "s", markersize=10, markeredgecolor=FAINT, color=colour, label=name)


class Box(NamedTuple):
    """A node in a diagram: the steps that it covers, drawn as a box.

    Attributes:
        low: its first step.
        high: its last step.
        level: its height in the picture; 0 is lowest.
        colour: of the box, such as one of the palette for nodes that are read.
        text: inside the box.
    """

    low: int
    high: int
    level: int
    colour: str
    text: str = ""


def draw_boxes(ax: Axes, boxes: Iterable[Box]) -> None:
    """A tree as intervals: a row of boxes for each level, and the steps on the x axis."""
    from matplotlib.patches import FancyBboxPatch

    shown = list(boxes)
    for box in shown:
        wide = box.high - box.low + 1
        ax.add_patch(
            FancyBboxPatch(
                (box.low - 0.42, box.level - 0.34), wide - 0.16, 0.68,
                boxstyle="round,pad=0,rounding_size=0.1", linewidth=0.8, edgecolor=FAINT,
                facecolor=box.colour,
            )
        )  # fmt: skip
        if box.text:
            red, green, blue = (int(box.colour[at : at + 2], 16) for at in (1, 3, 5))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 140
            middle = (box.low + box.high) / 2
            ax.text(
                middle, box.level, box.text, ha="center", va="center", size=9,
                color="white" if dark else INK,
            )  # fmt: skip
    clean(ax)
    ax.set_xlim(min(box.low for box in shown) - 0.6, max(box.high for box in shown) + 0.6)
    ax.set_ylim(-0.5, max(box.level for box in shown) + 0.5)
    ax.set_yticks([])


def save(canvas: Canvas, path: Path, title: str, shows: str) -> Figure:
    """Write a sheet as a PNG with few colours: a third of the size, and nothing lost to the eye.

    Args:
        canvas: the sheet.
        path: of the file; its folder is made.
        title: as in `Figure`.
        shows: as in `Figure`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(canvas, path)
    shrink(path)
    return Figure(path, title, shows)


def shrink(path: Path) -> None:
    """Keep the most frequent colours of a PNG exactly, and take the nearest one for the others.

    Lines, bands and letters are of few colours; all others are shades at their edges.
    """
    from PIL import Image

    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"), dtype=np.int64)
    numbers = pixels @ np.array([65536, 256, 1], dtype=np.int64)
    codes, places, times = np.unique(numbers, return_inverse=True, return_counts=True)
    colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1)
    kept = np.argsort(-times, kind="stable")[:_COLOURS]
    nearest = np.argmin(
        (colours**2).sum(axis=1)[:, None]
        - 2 * colours @ colours[kept].T
        + (colours[kept] ** 2).sum(axis=1),
        axis=1,
    )
    tall, wide = pixels.shape[:2]
    few = Image.frombytes("P", (wide, tall), nearest.astype(np.uint8)[places].tobytes())
    few.putpalette(colours[kept].astype(np.uint8).tobytes())
    few.save(path, optimize=True)

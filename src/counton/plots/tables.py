"""Charts of consistent tables: how noise compares with size, and what adds up to what."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.extras import require
from counton.plots.style import FAINT, INK, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counton.mechanisms.hierarchy import HierarchyRelease
    from counton.mechanisms.ranges import RangesRelease

_MOST_POINTS = 4000
_DEEPEST = 4  # levels below the total which an icicle shows
_THINNEST = 0.003  # of the width: smaller nodes are not drawn one by one
_MOST_CELLS = 2000
#: Characters along the width of the icicle and along its height; characters as wide as a line is
#: high; and lines a name may take.
_WIDE, _TALL, _LINE, _LINES = 105, 72, 2, 2


def plot_hierarchy(release: HierarchyRelease, title: str, subtitle: str) -> Figure:
    """Two panels: relative noise against size by level, and an icicle of the estimates.

    Only released values are drawn. Negative estimates count as 0 in the icicle and are left out of
    the logarithmic panel.

    Args:
        release: what was released.
        title: what is counted.
        subtitle: what is protected.

    >>> from counton import Key, ZCDP, release_hierarchy
    >>> people = {"state": ["CA", "DC"], "count": [39_538_223, 689_545]}
    >>> release = release_hierarchy(
    ...     people, guarantee=ZCDP(0.5), key=Key.generate(), domain=people, levels=["state"]
    ... )
    >>> float(plot_hierarchy(release, "People", "each one is protected").get_figwidth())
    13.0
    """
    figure, (left, right) = _figure(title, subtitle, (1.0, 1.5))
    _noise_panel(left, release)
    _icicle(right, release)
    return figure


def _figure(title: str, subtitle: str, widths: tuple[float, float]) -> tuple[Figure, Any]:
    require("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6.2), dpi=150, facecolor="white")
    axes = figure.subplots(1, 2, gridspec_kw={"width_ratios": widths})
    figure.subplots_adjust(left=0.065, right=0.985, bottom=0.11, top=0.82, wspace=0.12)
    figure.text(0.02, 0.945, title, size=15, weight="bold", color=INK, parse_math=False)
    figure.text(0.02, 0.895, subtitle, size=10, color=FAINT, parse_math=False)
    return figure, axes


def _clean(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=FAINT, labelsize=9)


def _noise_panel(ax: Axes, release: HierarchyRelease) -> None:
    rng = np.random.default_rng(0)  # which points of a crowded level are drawn, nothing else
    for level in range(len(release.tree.levels) - 1, -1, -1):
        estimates = release.estimates[level]
        std = np.sqrt(release.plan.joint_law.variances[level])
        shown = np.flatnonzero(estimates > std)
        if len(shown) > _MOST_POINTS:
            shown = np.sort(rng.choice(shown, _MOST_POINTS, replace=False))
        colour = PALETTE[level % len(PALETTE)]
        ax.scatter(
            estimates[shown],
            100 * std[shown] / estimates[shown],
            s=70 if level == 0 else 26 if level == 1 else 9,
            color=colour,
            alpha=0.9 if level < 2 else 0.45,
            linewidths=0,
            label=f"{release.tree.levels[level]} (std {std.max():,.3g})",
            zorder=10 - level,
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("released count", color=INK)
    ax.set_ylabel("standard deviation of the noise, % of the count", color=INK)
    ax.grid(True, which="major", color="#e6e6e6", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize=9, loc="upper right")
    ax.set_title("Noise against size", loc="left", size=11, color=INK)
    _clean(ax)


def _icicle(ax: Axes, release: HierarchyRelease) -> None:
    tree = release.tree
    depth = min(len(tree.levels), _DEEPEST + 1)
    left, width = np.zeros(1), np.ones(1)
    tops_left, tops_width, top = left, width, np.zeros(1, np.int64)
    for level in range(depth):
        if level:
            left, width = _children(release, level, left, width)
            parents = tree.parents[level - 1]
            top = np.arange(len(parents)) if level == 1 else top[parents]
        if level == 1:
            tops_left, tops_width = left, width
        strength = 1.0 if level == 0 else max(0.3, 0.95 - 0.2 * (level - 1))
        shades = (
            ["#d9d9d9"]
            if level == 0
            else [PALETTE[i % len(PALETTE)] for i in range(len(tops_left))]
        )
        for first, wide, colour in zip(tops_left, tops_width, shades, strict=True):
            _block(ax, level, first, wide, colour, strength, 0.0)
        labels = ["total"] if level == 0 else tree.labels[level - 1].tolist()
        for node in np.flatnonzero(width >= _THINNEST):
            _block(ax, level, left[node], width[node], shades[int(top[node])], strength, 0.4)
            estimate = float(release.estimates[level][node])
            room = int(width[node] * _WIDE), _TALL // depth
            text, standing = _fitting(str(labels[node]), f"{estimate:,.0f}", *room)
            _name(ax, text, left[node] + width[node] / 2, -level - 0.5, standing=standing)
    ax.set_xlim(0, 1)
    ax.set_ylim(-depth, 0)
    ax.set_yticks([-level - 0.5 for level in range(depth)], tree.levels[:depth])
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, colors=FAINT, labelsize=9)
    ax.set_title(
        "Released counts: every row adds up to the one above", loc="left", size=11, color=INK
    )


def _block(
    ax: Axes, level: int, left: float, width: float, colour: str, strength: float, edge: float
) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(
        Rectangle(
            (left, -level - 0.96),
            width,
            0.92,
            facecolor=_lighter(colour, strength),
            edgecolor="white",
            linewidth=edge,
        )
    )


def _lighter(colour: str, strength: float) -> tuple[float, ...]:
    from matplotlib.colors import to_rgb

    return tuple(1 - strength * (1 - part) for part in to_rgb(colour))


def _name(ax: Axes, text: str, x: float, y: float, *, standing: bool) -> None:
    ax.text(
        x,
        y,
        text,
        ha="center",
        va="center",
        rotation=90 if standing else 0,
        size=7.5,
        color=INK,
        parse_math=False,
        clip_on=True,
    )


def _fitting(label: str, number: str, wide: int, tall: int) -> tuple[str, bool]:
    """Lines for a block of so many characters across and, standing, along; and whether they stand.

    >>> _fitting("South America", "349", 13, 15), _fitting("South America", "349", 8, 15)
    (('South America\\n349', False), ('South\\nAmerica\\n349', False))
    >>> _fitting("South America", "349", 3, 15), _fitting("South America", "349", 2, 9)
    (('South America', True), ('', False))
    """
    lying = wrap(label, wide, break_long_words=False) if wide > 0 else []
    if lying and max(map(len, lying)) <= wide and len(lying) <= _LINES:
        return "\n".join([*lying, number] if len(number) <= wide else lying), False
    if wide < _LINE or len(label) > tall:
        return "", False
    both = f"{label}\n{number}"
    return (both if wide >= 2 * _LINE and len(number) <= tall else label), True


def _children(
    release: HierarchyRelease, level: int, left: NDArray[np.float64], width: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where the nodes of a level lie: side by side below their parents, by estimate."""
    parents = release.tree.parents[level - 1]
    sizes = np.maximum(release.estimates[level], 0.0)
    total = np.bincount(parents, weights=sizes, minlength=len(width))
    share = sizes / np.where(total > 0, total, 1.0)[parents]
    widths = share * width[parents]
    before = np.concatenate([[0.0], np.cumsum(widths)[:-1]])
    starts = release.tree.starts[level - 1]
    first = before[np.minimum(starts, len(before) - 1)]
    return left[parents] + before - first[parents], widths


def plot_ranges(release: RangesRelease, title: str, subtitle: str) -> Figure:
    """Two panels: the cells with their noise, and noise against the length of an interval.

    Args:
        release: what was released, on a line.
        title: what is counted.
        subtitle: what is protected and how.

    >>> from counton import Key, ZCDP, release_ranges
    >>> release = release_ranges([52, 31, 17, 40], guarantee=ZCDP(0.5), key=Key.generate())
    >>> float(plot_ranges(release, "Visits", "each one is protected").get_figwidth())
    13.0
    """
    figure, (left, right) = _figure(title, subtitle, (1.5, 1.0))
    cells = release.shape[0]
    size = -(-cells // _MOST_CELLS)
    low = np.arange(0, cells, size)
    high = np.minimum(low + size, cells)
    estimate, std = release.sum(low, high), release.std(low, high)
    left.fill_between(
        low,
        estimate - 2 * std,
        estimate + 2 * std,
        step="post",
        color=PALETTE[0],
        alpha=0.25,
        linewidth=0,
    )
    left.step(low, estimate, where="post", color=PALETTE[0], linewidth=1)
    left.set_title(
        "Cells" if size == 1 else f"Sums of {size:,} cells", loc="left", size=11, color=INK
    )
    left.set_xlabel("cell", color=INK)
    _clean(left)
    lengths = np.unique(np.geomspace(1, cells, 60).astype(np.int64))
    spread = np.array([_spread(release, int(length)) for length in lengths])
    right.fill_between(lengths, spread[:, 0], spread[:, 2], color=PALETTE[1], alpha=0.25)
    right.plot(lengths, spread[:, 1], color=PALETTE[1])
    right.set_xscale("log")
    right.set_ylim(0, None)
    right.set_xlabel("cells in the interval", color=INK)
    right.set_title("Standard deviation: least, mean, largest", loc="left", size=11, color=INK)
    _clean(right)
    return figure


def _spread(release: RangesRelease, length: int) -> tuple[float, float, float]:
    cells = release.shape[0]
    low = np.unique(np.linspace(0, cells - length, 200).astype(np.int64))
    std = release.std(low, low + length)
    return float(std.min()), float(std.mean()), float(std.max())

"""Figures 1 to 5, and three more: the variances behind Lemma 3.14, and properties."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counton.charts.style import FAINT, INK, PALETTE
from counton.tables import AllRanges, Haar, Nodes
from papers.drawing import Box, draw_boxes, label, legend_below, panels, save, shade
from papers.evidence import Figure
from papers.ranges.mechanisms import (
    GUARANTEE,
    MECHANISMS,
    SUBSETS,
    Mechanism,
    choice,
    laplace_total_error,
    largest_error,
    total_error,
)
from papers.ranges.numbers import (
    QUICK_RUNS,
    cascade_variances,
    defined_covariance,
    level_variances,
)
from papers.ranges.timing import QUERIES, Times
from papers.ranges.workloads import workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    each.name: colour
    for each, colour in zip(MECHANISMS, (*PALETTE[:4], *PALETTE[4:7]), strict=True)
}
_MARKS = dict(zip(_COLOURS, "oDsv^*P", strict=True))
#: Line lengths at which curves have points; in quick form of exact errors, and of simulations.
_FULL = tuple(2**k for k in range(4, 16))
_FEW = (2**4, 2**6, 2**8, 2**10, 2**15)
_SIMULATED = (2**6, 2**10)
#: Runs of each simulation; in quick form those that rows have, so that each runs once.
_RUNS = 200
_QUICK_RUNS = QUICK_RUNS
#: Simulations over 2,500 subsets stop here.
_LARGEST_SUBSETS = 2**10


def draw_all(folder: Path, times: Times, *, quick: bool) -> Iterator[Figure]:
    """Write all figures as PNG."""
    yield _split(folder / "figure-1.png")
    yield _sampling_times(folder / "figure-2a.png", times)
    yield _errors(
        folder / "figure-2bc.png", "ranges", "Figure 2(b, c): all ranges",
        "This is the mean squared and the expected largest error over every range of a line, "
        "against the number of cells. Noise on the cells alone soon loses. The others grow alike, "
        "and below them is the error of an optimal strategy.", quick=quick,
    )  # fmt: skip
    yield _levels(folder / "figure-2de.png")
    yield _errors(
        folder / "figure-3.png", "nodes", "Figure 3: the nodes of the binary tree",
        "This is the same for the nodes of the binary tree alone. With 1,024 cells, the root mean "
        "squared error of the optimum is 74 counts, that of the plain binary tree 167, and that of "
        "all others 96 to 118. By the largest error, wavelet and cascade are first, and noise on "
        "the cells is far behind. The plain binary tree is behind HDMM and factorization, which is "
        "the reverse of the paper.", quick=quick,
    )  # fmt: skip
    yield _errors(
        folder / "figure-4.png", "subsets", "Figure 4: 2,500 random subsets",
        "This is the same for random sets of at least a quarter of the cells. Noise on the cells "
        "alone is better than any tree, and the wavelet is within 6% of it at 1,024 cells. An "
        "optimal strategy, which is built for sets of this size, has a third of its squared error.",
        quick=quick,
    )  # fmt: skip
    yield _release_times(folder / "figure-5.png", times)
    yield _variances(folder / "lemma-3-14.png")
    yield _growth(folder / "theorem-3-15.png", quick=quick)
    yield _properties(folder / "properties.png")


def _split(path: Path) -> Figure:
    title = "Figure 1: noise cascades down the tree"
    canvas, axes = panels(
        title,
        "Y is fresh noise of the same variance as X. Then X0 and X1 have that variance too, and "
        "add up to X; so it goes on down to the cells.",
        (2, 1),
        panel=3.0,
        legend=0.45,
    )
    fresh = (PALETTE[0], shade(PALETTE[0], 1.35), shade(PALETTE[0], 1.6), shade(PALETTE[0], 1.8))
    names = (("X",), ("X0 = X/2 + (√3/2) Y", "X1 = X/2 - (√3/2) Y"), ("X00", "X01", "X10", "X11"))
    ax = axes[0, 0]
    boxes = []
    for depth, colour in enumerate(fresh):
        wide = 8 >> depth
        for place in range(1 << depth):
            text = names[depth][place] if depth < 3 else f"X{place:03b}"
            boxes.append(Box(1 + place * wide, (place + 1) * wide, 3 - depth, colour, text))
    draw_boxes(ax, boxes)
    label(ax, "(a) every box: variance 1; neighbours with one parent: correlation -1/2",
          "cell", grid=None)  # fmt: skip
    ax.set_xticks(range(1, 9))
    for depth, colour in enumerate(fresh):
        said = ("the total", "its halves", "their halves", "the cells")[depth]
        ax.plot([], [], "s", markersize=10, markeredgecolor=FAINT, color=colour, label=said)
    below = axes[1, 0]
    matrix = defined_covariance(3)
    below.imshow(matrix, cmap="PuOr_r", vmin=-1, vmax=1, aspect="auto")
    for i in range(8):
        for j in range(8):
            value = matrix[i, j]
            said = "1" if i == j else f"-1/{round(-1 / value)}"
            below.text(j, i, said, ha="center", va="center", size=9, color="w" if i == j else INK)
    label(below, "(b) covariance of the eight cells: C_3 of Definition 3.1", "cell", "cell",
          grid=None)  # fmt: skip
    below.set_xticks(range(8), [str(i) for i in range(1, 9)])
    below.set_yticks(range(8), [str(i) for i in range(1, 9)])
    legend_below(canvas, 4)
    return save(
        canvas, path, title,
        "The noise of a total is divided into that of its halves again and again. Each time, one "
        "half adds fresh noise and the other subtracts it. So every node of the tree is equally "
        "accurate, cells are negatively correlated, and sums of cells stay consistent.",
    )  # fmt: skip


def _curve(ax: Axes, mechanism: Mechanism, cells: list[int], values: list[float]) -> None:
    ax.plot(
        cells, values, color=_COLOURS[mechanism.name], marker=_MARKS[mechanism.name],
        markersize=4.5, linewidth=2.4 if mechanism.name == "cascade" else 1.4,
        label=mechanism.label, zorder=3 if mechanism.name == "cascade" else 2,
    )  # fmt: skip


def _errors(path: Path, asked: str, title: str, shows: str, *, quick: bool) -> Figure:
    sizes, runs = (_FEW, _QUICK_RUNS) if quick else (_FULL, _RUNS)
    most = min(_LARGEST_SUBSETS, _SIMULATED[0]) if quick else _LARGEST_SUBSETS
    canvas, axes = panels(
        title,
        f"Guarantee: {GUARANTEE}; one unit more or less in one cell. Above exact values for the m "
        f"queries; below means of {runs} runs with exact noise, shaded: 99% intervals.",
        (2, 1),
        panel=3.4,
        legend=0.95,
        sharex=True,
    )
    totals = axes[0, 0]
    largest = axes[1, 0]
    for each in MECHANISMS:
        cells = [n for n in sizes if n <= each.largest]
        _curve(
            totals, each, cells, [_root(total_error(each.name, n, asked), asked, n) for n in cells]
        )
        drawn = [n for n in (_SIMULATED if quick else cells) if asked != "subsets" or n <= most]
        found = [largest_error(each.name, n, asked, runs) for n in drawn]
        _curve(largest, each, drawn, [one.mean for one in found])
        largest.fill_between(
            drawn, [one.mean - one.half for one in found], [one.mean + one.half for one in found],
            color=_COLOURS[each.name], alpha=0.2, linewidth=0,
        )  # fmt: skip
    laplace = [n for n in sizes if n <= (2**6 if quick else 2**10)]
    totals.plot(
        laplace, [_root(laplace_total_error(n, asked), asked, n) for n in laplace],
        color=_COLOURS["optimal"], linestyle=":", linewidth=1.8,
        label="HDMM, Laplace noise, δ = 0",
    )  # fmt: skip
    label(totals, "√(err_W,2 / m): root mean squared error of a query", y="counts")
    label(largest, "err_W,∞: expected largest error of all queries", "number of cells n", "counts")
    for ax in (totals, largest):
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.minorticks_off()
    legend_below(canvas, 2)
    return save(canvas, path, title, shows)


def _root(total: float, asked: str, cells: int) -> float:
    """Root mean squared error of one of a workload's queries, from their total squared error."""
    return math.sqrt(total / (SUBSETS if asked == "subsets" else workload(asked, cells).queries))


def _levels(path: Path) -> Figure:
    title = "Figure 2(d, e): variance by level of the tree"
    canvas, axes = panels(
        title,
        f"Exact variance of the sum over a node, mean of each level, by the length of the node. "
        f"Guarantee: {GUARANTEE}.",
        (1, 2),
        panel=4.0,
        legend=0.95,
        sharey=True,
    )
    for ax, height, part in zip(axes[0], (5, 10), "de", strict=True):
        lengths = [2**k for k in range(height + 1)]
        for each in MECHANISMS:
            _curve(ax, each, lengths, level_variances(each.name, 2**height).tolist())
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        label(ax, f"({part}) n = {2**height:,} cells", "length of the node, cells",
              "variance, squared counts" if height == 5 else "")  # fmt: skip
    legend_below(canvas, 2)
    return save(
        canvas, path, title,
        "This is the accuracy of sums over 1, 2, 4, ... cells. The cascade and the plain binary "
        "tree are flat by design, and noise on the cells grows with the length. With 1,024 cells, "
        "noise on the cells is best for sums of one and two, the wavelet from 4 to 64, the "
        "hierarchical method from 128 to 512, and the cascade for the whole.",
    )  # fmt: skip


def _sampling_times(path: Path, times: Times) -> Figure:
    title = "Figure 2(a): time to draw the noise"
    canvas, axes = panels(
        title,
        "Time of one draw of all cells over that of the cascade at 64 cells, within one run on "
        "one machine. The cascade is drawn with exact noise; SciPy takes the whole matrix.",
        panel=4.0,
        legend=0.45,
    )
    ax = axes[0, 0]
    unit = times.cascade[2**6]
    for found, name, colour, mark in (
        (times.cascade, "cascade, counton", PALETTE[0], "o"),
        (times.dense, "SciPy multivariate_normal", PALETTE[1], "s"),
    ):
        ax.plot(
            list(found), [each / unit for each in found.values()], color=colour, marker=mark,
            markersize=5, label=name,
        )  # fmt: skip
    start_at = max(times.cascade) // 64
    ends = np.array([start_at, max(times.cascade)], dtype=np.float64)
    start = times.cascade[start_at] / unit
    ax.plot(
        ends, start * (ends / ends[0]) ** 1.05, color=INK, linestyle="--", linewidth=1,
        label="slope 1.05, as printed",
    )  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    label(ax, "", "number of cells n", "time, multiples")
    legend_below(canvas)
    return save(
        canvas, path, title,
        "This is the time to draw correlated noise by the number of cells, for the cascade and for "
        "a sampler that takes any covariance matrix. The time of the cascade hardly grows up to "
        "2^15 cells, where fixed costs dominate. It jumps at 2^16 and is about proportional to the "
        "cells from there to 2^22, where it ends. The picture of the paper goes on to 2^25. The "
        "time of the general sampler grows with the cube of the cells.",
    )  # fmt: skip


def _release_times(path: Path, times: Times) -> Figure:
    title = "Figure 5: time of a whole release"
    canvas, axes = panels(
        title,
        f"Strategy, noise and the answers to {QUERIES:,} ranges, over the time of noise on the "
        f"cells alone at the same number of cells, within one run.",
        panel=4.2,
        legend=0.95,
    )
    ax = axes[0, 0]
    for each in MECHANISMS:
        cells = [n for name, n in times.whole if name == each.name]
        base = [times.whole["identity", n] for n in cells]
        _curve(
            ax,
            each,
            cells,
            [times.whole[each.name, n] / b for n, b in zip(cells, base, strict=True)],
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    label(ax, "", "number of cells n", "time, multiples")
    legend_below(canvas, 2)
    return save(
        canvas, path, title,
        "This is the time of each mechanism from the start to the answers, in multiples of the "
        "simplest one. Wavelet and cascade stay within about 2.5 times its time, and the "
        "hierarchical method within 4. The plain binary tree takes 5 to 10 times as long, and "
        "explicit factorization 5 to 30 times. The optimal strategy needs a search, which takes "
        "over 1,000 times as long at 1,024 cells.",
    )  # fmt: skip


def _variances(path: Path) -> Figure:
    title = "Lemma 3.14: the variance of ranges"
    canvas, axes = panels(
        title,
        "The cascade's ranges in units of a node's variance: the largest and the mean over all "
        "ranges of a line, exact, with the proof's bound and a line that the largest approaches.",
        panel=4.0,
        legend=0.45,
    )
    ax = axes[0, 0]
    heights = list(range(2, 11))
    found = [cascade_variances(k) for k in heights]
    ax.plot(heights, [2 * k - 2 for k in heights], color=FAINT, linestyle="--",
            label="2k - 2 pieces")  # fmt: skip
    ax.plot(heights, [each.max() for each in found], color=PALETTE[1], marker="s", label="largest")
    ax.plot(heights, [2 * k / 3 + 4 / 9 for k in heights], color=INK, linestyle=":",
            label="2k/3 + 4/9")  # fmt: skip
    longer = list(range(1, 21))
    means = [
        Haar.cascade(2**k).ranges_variance() * Haar.cascade(2**k).weights[0] ** 2
        / AllRanges(2**k).queries
        for k in longer
    ]  # fmt: skip
    ax.plot(longer, means, color=PALETTE[0], marker="o", label="mean")
    ax.plot(longer, [1.0] * len(longer), color=PALETTE[2], label="a node")
    ax.set_xticks(range(2, 21, 2))
    label(ax, "", "levels k, for n = 2^k cells", "variance, multiples of a node's")
    legend_below(canvas, 5)
    return save(
        canvas, path, title,
        "A range consists of at most 2k - 2 nodes whose noises are negatively correlated. So its "
        "variance grows only with the logarithm of the line. For each doubling, it grows by 2/3 of "
        "that of a node for the worst range, and by less on average.",
    )  # fmt: skip


def _growth(path: Path, *, quick: bool) -> Figure:
    title = "Theorem 3.15: how errors grow with the line"
    runs = _QUICK_RUNS if quick else _RUNS
    sizes = list(_SIMULATED if quick else _FULL)
    canvas, axes = panels(
        title,
        f"Errors at fixed noise of a node or cell, as multiples of those at n = {sizes[0]}. "
        f"Largest errors are means of {runs} runs with exact noise.",
        (1, 2),
        panel=3.8,
        legend=0.45,
    )

    def totals(name: str, n: int) -> float:
        strategy = Haar.cascade(n) if name == "cascade" else Nodes.independent(n)
        return strategy.ranges_variance() * strategy.largest_entry**2 / AllRanges(n).queries

    def noise(name: str, n: int) -> float:
        best = choice(name, n)
        weight = best.strategy.axes[0].largest_entry
        return float(best.distribution.variance**0.5 / weight)

    for name, who in (("cascade", "cascade"), ("identity", "independent")):
        colour = _COLOURS[name]
        for ax, values in (
            (axes[0, 0], [totals(name, n) for n in sizes]),
            (
                axes[0, 1],
                [largest_error(name, n, "ranges", runs).mean / noise(name, n) for n in sizes],
            ),
        ):
            ax.plot(sizes, np.array(values) / values[0], color=colour, marker=_MARKS[name],
                    markersize=5, label=f"{who} noise")  # fmt: skip
    n = np.array(sizes, dtype=np.float64)
    for ax, distributions in (
        (axes[0, 0], ((np.log2(n), "log n"), (n, "n (left)"))),
        (axes[0, 1], ((np.log2(n), "log n"), (np.sqrt(n), "√n (right)"))),
    ):
        for (distribution, said), style in zip(
            distributions, (":", "-." if ax is axes[0, 1] else "--"), strict=True
        ):
            ax.plot(
                n,
                distribution / distribution[0],
                color=INK,
                linestyle=style,
                linewidth=1,
                label=said,
            )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
    label(
        axes[0, 0],
        "mean squared error of ranges",
        "number of cells n",
        f"multiples of n = {sizes[0]}",
    )
    label(axes[0, 1], "expected largest error", "number of cells n")
    legend_below(canvas, 5)
    return save(
        canvas, path, title,
        "This is the mean squared and the expected largest error of all ranges against the number "
        "of cells. With independent noise, they grow as n and its root. With the noise of the "
        "cascade, they grow about as the logarithm.",
    )  # fmt: skip


#: What a mechanism's answers are, besides accurate; the last by `level_variances`.
_ASKED = ("unbiased", "answers\nadd up", "law in\nclosed form", "levels alike:\nlargest/least",
          "needs no\nworkload")  # fmt: skip


def properties() -> list[tuple[str, list[str]]]:
    """Rows of the table of properties.

    >>> properties()[0]
    ("cascade (the paper's own)", ['yes', 'yes', 'yes', '1.0', 'yes'])
    """
    rows = []
    for each in MECHANISMS:
        levels = level_variances(each.name, 1024)
        spread = levels.max() / levels.min()
        adds_up = "no" if each.name == "dyadic" else "yes"
        rows.append((
            each.label,
            ["yes", adds_up, "yes", f"{spread:,.1f}", "no" if each.name == "optimal" else "yes"],
        ))  # fmt: skip
    return rows


def _properties(path: Path) -> Figure:
    title = "Section 1: what the answers are like"
    canvas, axes = panels(
        title,
        "Properties of the mechanisms as counton runs them, n = 1,024. All add Gaussian noise of "
        "known law; variances of the levels from the shortest sums to the whole line.",
        panel=3.7,
        legend=0.0,
    )
    ax = axes[0, 0]
    rows = properties()
    ax.set_axis_off()
    ax.set_xlim(0, 10)
    ax.set_ylim(len(rows) - 0.5, -1.6)
    columns = [3.9 + 1.35 * i for i in range(len(_ASKED))]
    for x, name in zip(columns, _ASKED, strict=True):
        ax.text(x, -1.05, name, ha="center", va="center", size=9.5, color=FAINT)
    for y, (name, cells) in enumerate(rows):
        ax.text(0, y, name, va="center", size=10, color=INK, weight="bold" if y == 0 else "normal")
        for x, said in zip(columns, cells, strict=True):
            colour = {"yes": PALETTE[2], "no": PALETTE[1]}.get(said, INK)
            ax.text(x, y, said, ha="center", va="center", size=10, color=colour, weight="bold")
    for y in range(len(rows)):
        ax.axhline(y - 0.5, color="#e6e6e6", linewidth=0.8)
    return save(
        canvas, path, title,
        "This shows which mechanisms are unbiased, consistent and of known distribution, and how "
        "far apart the variances of their levels are. Only the cascade and the plain binary tree "
        "treat all levels alike. Of these, only the answers of the cascade add up.",
    )  # fmt: skip

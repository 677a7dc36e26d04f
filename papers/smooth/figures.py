"""Figures of the paper on the smooth binary mechanism, and the best share of zeros."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from counton.charts.style import FAINT, INK, PALETTE
from counton.strategies import Binary, SmoothBinary, SqrtToeplitz
from counton.strategies.published.smooth import unrank
from counton.strategies.streams.square_root import square_root_coefficients
from papers.drawing import (
    Box,
    draw_boxes,
    label,
    legend_below,
    name_colours,
    panels,
    save,
    shade,
)
from papers.evidence import Figure
from papers.smooth.numbers import (
    LAST,
    RUNNING,
    best_share,
    concentrated_variance,
    nodes_of,
    pure_constant,
    pure_variance,
)
from papers.smooth.timing import BINARY, HORIZONS, ROOT, RUNS, SMOOTH, WIDTH, Times

_COLOURS = {BINARY: PALETTE[1], SMOOTH: PALETTE[0], ROOT: PALETTE[2]}
_READ = PALETTE[1]
_STORED = shade(PALETTE[0], 1.6)
_PATH = "#ffffff"
_EMPTY = "#f0f0f0"


def draw_all(folder: Path, times: Times | None) -> Iterator[Figure]:
    """Write Figures 1 to 5 and one more as PNG; Figure 5(a) only where times were measured."""
    yield _binary_tree(folder / "figure-1.png")
    yield _smooth_tree(folder / "figure-2.png")
    yield _neighbours(folder / "figure-3.png")
    yield _variance(folder / "figure-4.png")
    yield efficiency(folder / "figure-5.png", times)
    yield _zeros(folder / "zeros.png")


def _binary_tree(path: Path) -> Figure:
    title = "Figure 1: the binary mechanism, T = 7"
    canvas, axes = panels(
        title,
        "A box is a node and covers the items below it. Only left children are measured, "
        "with noise; a running total adds up those that end where the next one begins.",
        (2, 1),
        panel=2.5,
        legend=0.4,
    )
    stored = [
        Box(low, low + 2**level - 1, level, _STORED, _sum(low, low + 2**level - 1))
        for level in range(3)
        for low in range(1, 9, 2 ** (level + 1))
    ]
    right = [
        Box(low, low + 2**level - 1, level, _PATH)
        for level in range(3)
        for low in range(1 + 2**level, 9, 2 ** (level + 1))
    ]
    root = Box(1, 8, 3, _PATH)
    read = set(nodes_of(3, 6))
    for ax, chosen in ((axes[0, 0], set()), (axes[1, 0], read)):
        draw_boxes(
            ax,
            [
                box._replace(colour=_READ) if (box.low, box.high) in chosen else box
                for box in (root, *right, *stored)
            ],
        )
        ax.set_xticks(range(1, 9))
    axes[1, 0].set_xticklabels([f"{t}\n{t - 1:03b}" for t in range(1, 9)])
    label(axes[0, 0], "(a) what is measured", "item", grid=None)
    label(axes[1, 0], "(b) M(6) = Σ[1,4] + Σ[5,6], for 6 = 110 in binary",
          "item t, and t - 1 in binary", grid=None)  # fmt: skip
    name_colours(axes[0, 0], {"measured": _STORED, "read by no total": _PATH})
    name_colours(axes[1, 0], {"read by M(6)": _READ})
    legend_below(canvas)
    return save(
        canvas, path, title,
        "In the tree of the binary mechanism over seven items, only left children are measured. "
        "The sixth total adds the node of items 1 to 4 and that of items 5 and 6, one for each 1 "
        "in 110.",
    )  # fmt: skip


def _sum(low: int, high: int) -> str:
    return f"x{low}" if low == high else f"Σ[{low},{high}]"


def _smooth_tree(path: Path) -> Figure:
    title = "Figure 2: the smooth binary mechanism, T = 5"
    canvas, axes = panels(
        title,
        "Items sit only in leaves with as many zeros as ones. Then every item enters two nodes "
        "and every total reads two.",
        panel=3.4,
        legend=0.4,
    )
    height = 4
    tree = SmoothBinary(5, 4, 2)
    items = {unrank(4, 2, t - 1): t for t in range(1, 6)}
    read = set(nodes_of(height, unrank(4, 2, 5)))
    useful = {pair for t in range(1, 6) for pair in nodes_of(height, unrank(4, 2, t))}
    boxes = [Box(1, 16, 4, _PATH)]
    for level in range(height):
        for low in range(1, 17, 2**level):
            pair = (low, low + 2**level - 1)
            held = [items[leaf - 1] for leaf in range(low, pair[1] + 1) if leaf - 1 in items]
            colour = _READ if pair in read else _STORED if pair in useful else _PATH
            text = "" if not held else f"x{held[0]}" if level == 0 else ""
            if pair in useful and level > 0:
                text = _sum(*pair)
            boxes.append(Box(*pair, level, colour, text))
    ax = axes[0, 0]
    draw_boxes(ax, boxes)
    ax.set_xticks(range(1, 17))
    ax.set_xticklabels(
        [
            f"{leaf:04b}\n{'m(' + str(order) + ')' if order else ''}"
            for leaf in range(16)
            for order in [_order(leaf)]
        ],
        size=8,
    )
    label(ax, "M(5) = Σ[1,8] + Σ[9,12], for m(6) = 1100", "leaf in binary, from 0000 to 1111",
          grid=None)  # fmt: skip
    ax.tick_params(axis="x", labelsize=8)
    name_colours(ax, {"read by M(5)": _READ, "measured": _STORED, "read by no total": _PATH})
    legend_below(canvas)
    assert len(tree.row(5)) == len(read)
    return save(
        canvas, path, title,
        "In the tree of the smooth mechanism, the five items are only in leaves with two zeros and "
        "two ones. The fifth total reads two nodes, Σ[1,8] and Σ[9,12]. Every other total also "
        "reads two.",
    )  # fmt: skip


def _order(leaf: int) -> int | None:
    leaves = [unrank(4, 2, place) for place in range(6)]
    return leaves.index(leaf) + 1 if leaf in leaves else None


def _neighbours(path: Path) -> Figure:
    title = "Figure 3: from one leaf to the next"
    canvas, axes = panels(
        title,
        "Leaves of height 14 with seven ones that follow each other. The lowest block of n ones "
        "moves: its top bit goes up by one place, the others to the bottom. Each 1 is a node.",
        panel=3.3,
        legend=0.4,
    )
    ax = axes[0, 0]
    leaf = int("00110100111100", 2)
    rows = [n for n in range(leaf, 2**14) if n.bit_count() == 7][:5]
    places = []
    for number, row in enumerate(rows):
        before = rows[number - 1] if number else row
        for bit in range(14):
            one = row >> bit & 1
            same = row >> bit == before >> bit
            colour = _PATH if not one else _STORED if same else _READ
            places.append(Box(14 - bit, 14 - bit, 4 - number, colour, str(one)))
    draw_boxes(ax, places)
    ax.set_yticks(range(5))
    new = [sum(box.colour == _READ for box in places if box.level == 4 - n) for n in range(5)]
    ax.set_yticklabels(["t" if n == 0 else f"t + {n}: {new[n]} new" for n in range(5)][::-1])
    ax.set_xticks([1, 14])
    ax.set_xticklabels(["highest bit", "lowest"])
    label(ax, "the leaf that the total reads", "bit", grid=None)
    canvas.subplots_adjust(left=0.16)
    name_colours(ax, {"node read anew": _READ, "node kept": _STORED, "bit 0": _PATH})
    legend_below(canvas)
    return save(
        canvas, path, title,
        "These are five consecutive leaves of the smooth mechanism, as bits. A 1 is a node that "
        "the total reads. All n nodes of a lowest block of n ones are replaced, and the others "
        "stay. On average over a whole tree, two nodes are replaced.",
    )  # fmt: skip


def _variance(path: Path) -> Figure:
    title = "Figure 4: variance"
    canvas, axes = panels(
        title,
        "Exact variance of a released total times 2ρ, under ρ-zero-concentrated privacy; no "
        "measurement. The last T on the right is 10,000,000.",
        (1, 2),
        panel=3.6,
        legend=0.4,
    )
    left, right = axes[0]
    steps = np.arange(1, RUNNING + 1)
    for name, strategy in (
        (BINARY, Binary(RUNNING)),
        (SMOOTH, SmoothBinary.even(RUNNING)),
        (ROOT, SqrtToeplitz(RUNNING)),
    ):
        running = float(strategy.squared_sensitivity()) * strategy.variance(steps)
        left.step(steps, running, where="post", color=_COLOURS[name], linewidth=1.5, label=name)
    horizons = _horizons()
    last: dict[str, float] = {}
    for name, values in (
        (BINARY, [concentrated_variance(Binary(t)) for t in horizons]),
        (SMOOTH, [concentrated_variance(SmoothBinary.even(t)) for t in horizons]),
        (ROOT, [norm**2 for norm in _root_norms(horizons)]),
    ):
        last[name] = values[-1]
        right.step(horizons, values, where="post", color=_COLOURS[name], linewidth=1.8, label=name)
    right.annotate(
        "", (LAST, last[BINARY]), (LAST, last[SMOOTH]),
        arrowprops={"arrowstyle": "<->", "color": INK},
    )  # fmt: skip
    right.text(
        LAST / 1.7, 235, f"{last[BINARY] / last[SMOOTH]:.2f}×", ha="right", size=11, color=INK
    )
    right.set_xscale("log")
    label(left, f"(a) T = {RUNNING}", "step t", "variance · 2ρ")
    label(right, "(b) largest, by bound on T", "T")
    left.set_ylim(0)
    right.set_ylim(0)
    legend_below(canvas)
    return save(
        canvas, path, title,
        "This is the variance of each of 250 totals (left), and the largest variance for a given "
        "bound on the number of steps (right). That of the binary mechanism jumps up and down. "
        "That of the smooth mechanism is flat and ends 3.27 times lower. That of the square root "
        "of Henzinger et al. is lowest.",
    )  # fmt: skip


def _root_norms(horizons: list[int]) -> list[float]:
    """Squared norms of the square root's columns; beyond 2^22 with their growth, ln(T) / pi."""
    exact = np.cumsum(square_root_coefficients(min(max(horizons), 2**22)) ** 2)
    known = [min(t, len(exact)) for t in horizons]
    return [
        float(exact[at - 1]) + math.log(t / at) / math.pi
        for t, at in zip(horizons, known, strict=True)
    ]


def _horizons() -> list[int]:
    """Enough values of T up to the last for steps to stand where they are."""
    jumps = [2**bits - 1 for bits in range(1, 24)] + [2**bits for bits in range(1, 24)]
    leaves = [math.comb(2 * half, half) for half in range(1, 14)]
    spread = np.geomspace(1, LAST, 120).astype(int).tolist()
    found = {*jumps, *leaves, *spread, LAST}
    return sorted(t for t in found if 1 <= t <= LAST)


def efficiency(path: Path, times: Times | None) -> Figure:
    """Figure 5, its left panel only where times were measured."""
    title = "Figure 5: cost"
    measured = (
        f" Left: {RUNS} measured runs each with the same normal noise, {WIDTH:,} numbers an "
        "output, as multiples of the binary mechanism's least at the first T."
    )
    canvas, axes = panels(
        title,
        "Numbers that have to be held while all totals up to T are released: as many nodes as a "
        "total reads, or as many as steps." + measured * (times is not None),
        (1, 2 if times else 1),
        panel=3.6,
        legend=0.4,
    )
    right = axes[0, -1]
    horizons = _horizons()
    # Nodes have variance 1, so that the largest variance is the most nodes of a row.
    for name, values in (
        (BINARY, [Binary(t).overall_variance("max") for t in horizons]),
        (SMOOTH, [SmoothBinary.even(t).overall_variance("max") for t in horizons]),
        (ROOT, [float(t) for t in horizons]),
    ):
        right.step(horizons, values, where="post", color=_COLOURS[name], linewidth=1.8, label=name)
    right.set_xscale("log")
    right.set_yscale("log")
    label(right, "(b) space" if times else "", "T", "numbers held")
    if times:
        left = axes[0, 0]
        unit = min(times.seconds[BINARY, HORIZONS[0]])
        for name, colour in _COLOURS.items():
            points = [(t, s / unit) for t in HORIZONS for s in times.seconds[name, t]]
            left.plot(*zip(*points, strict=True), "o", color=colour, markersize=4, alpha=0.6)
            least = [min(times.seconds[name, t]) / unit for t in HORIZONS]
            left.plot(HORIZONS, least, color=colour, linewidth=1.6, label=name)
        left.set_xscale("log", base=2)
        left.set_ylim(0)
        label(left, "(a) time of an output", "T", "times the binary mechanism's")
    legend_below(canvas)
    return save(
        canvas, path, title,
        "This is the number of values that a mechanism stores while it releases T totals. In the "
        "full form, it is also the time for an output of 10,000 numbers. Trees store as many "
        "values as the logarithm of T and need the same time for every output. The Toeplitz matrix "
        "needs space in proportion to T.",
    )  # fmt: skip


def _zeros(path: Path) -> Figure:
    title = "Pure privacy: how many zeros a leaf should have"
    canvas, axes = panels(
        title,
        "Smooth binary mechanism with Laplace noise. Left: the limit of variance · ε² / log₂³T "
        "by the share of zeros. Right: the best share at each T, and the paper's even split.",
        (1, 2),
        panel=3.4,
        legend=0.4,
    )
    left, right = axes[0]
    shares = np.linspace(0.04, 0.6, 300)
    left.plot(shares, [pure_constant(share) for share in shares], color=PALETTE[0], linewidth=1.8)
    for share, height in ((best_share(), 0.06), (0.5, 0.32)):
        left.plot([share], [pure_constant(share)], "o", color=INK, markersize=5)
        left.annotate(
            f"{share:.3f}: {pure_constant(share):.4f}", (share, pure_constant(share)),
            (share, height), ha="center", size=9, color=INK,
            arrowprops={"arrowstyle": "-", "color": FAINT},
        )  # fmt: skip
    left.set_ylim(0, 0.6)
    label(left, "limit of long streams", "share of zeros", "variance · ε² / log₂³T")
    horizons = np.unique(np.geomspace(4, 2**40, 120).astype(np.int64)).tolist()
    best = [SmoothBinary.best(t, norm=1) for t in horizons]
    concentrated = [SmoothBinary.best(t, norm=2) for t in horizons]
    right.plot(horizons, [tree.zeros / tree.height for tree in best], color=PALETTE[0],
               linewidth=1.4, label="best under pure privacy")  # fmt: skip
    right.plot(horizons, [tree.zeros / tree.height for tree in concentrated], color=PALETTE[2],
               linewidth=1.4, label="best under zCDP")  # fmt: skip
    right.axhline(best_share(), color=PALETTE[0], linestyle="--", linewidth=1,
                  label="its limit, 0.160")  # fmt: skip
    right.axhline(0.5, color=PALETTE[1], linestyle="--", linewidth=1, label="the paper's half")
    right.set_xscale("log")
    right.set_ylim(0, 0.6)
    label(right, "by number of steps", "T", "share of zeros")
    legend_below(canvas, columns=4)
    ratio = pure_variance(SmoothBinary.even(2**20)) / pure_variance(best[0].best(2**20, norm=1))
    return save(
        canvas, path, title,
        "The paper says that under pure privacy half of a leaf's bits should no longer be zero; "
        "here is what is best instead. The share tends to 0.160, slowly and from both sides, and "
        f"at 2^20 steps the variance is {ratio:.2f} times less than with an even split.",
    )  # fmt: skip

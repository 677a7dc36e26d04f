"""The paper's figures 1 to 4, its Table 2 and Remark 1 as pictures, and the factors themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from counton.charts.style import FAINT, INK, PALETTE
from counton.planning.lower_bounds import factorisation_bounds
from counton.strategies.streams.square_root import square_root_coefficients
from papers import drawing
from papers.constants.applications import EPSILON, FEWER, STEPS, achieved, table_1
from papers.constants.numbers import (
    HORIZON,
    binary_factor,
    improvement,
    psi,
    psi_star,
)
from papers.constants.streams import (
    FIGURE_1,
    FIGURE_3,
    FIGURE_4,
    ITEMS,
    PRINTED_SNR,
    SPARSITY,
    ZIPF_HORIZON,
    coin_flips,
    marks,
    mechanisms,
    printed_law,
    signal_to_noise,
    simulated,
    stds,
    zipf_stream,
)
from papers.evidence import Figure
from papers.simulation import errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMES = ("binary tree", "square root")
_BINARY = PALETTE[1]
_OURS = PALETTE[0]
_TRUE = INK


def draw_all(folder: Path, runs: int) -> Iterator[Figure]:
    """Write every figure as PNG."""
    yield _factors(folder / "factors.png")
    yield _figure_1(folder / "figure-1.png", runs)
    yield _figure_2(folder / "figure-2.png")
    yield _figure_3(folder / "figure-3.png", runs)
    yield _figure_4(folder / "figure-4.png")
    yield _norms(folder / "remark-1.png")
    yield _table_2(folder / "table-2.png")
    yield _table_1(folder / "table-1.png", runs)


def _factors(path: Path) -> Figure:
    canvas, axes = drawing.panels(
        "Two ways to factor the matrix of running totals",
        "M = L R for 16 steps. R says what is measured, one row for each noisy number; L says "
        "which of them a release adds up. Dark: 1, white: 0.",
        (2, 2), panel=3.3, legend=0.1,
    )  # fmt: skip
    left, right = binary_factor(4)
    order = np.lexsort((right.argmax(axis=1), -right.sum(axis=1)))
    row = square_root_coefficients(16)
    toeplitz = np.array([[row[i - j] if i >= j else 0 for j in range(16)] for i in range(16)])
    shown = (
        ("Binary tree: R", right[order], "item", "noisy number"),
        ("Binary tree: L", left[:, order], "noisy number", "release"),
        ("Square root: R", toeplitz, "item", "noisy number"),
        ("Square root: L = R", toeplitz, "noisy number", "release"),
    )
    for ax, (title, matrix, x, y) in zip(axes.flat, shown, strict=True):
        ax.imshow(matrix, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        drawing.label(ax, title, x, y)
        ax.grid(visible=False)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.yaxis.get_major_locator().set_params(integer=True)
    return drawing.save(
        canvas, path, "Theorem 1: the factors",
        "The binary tree measures every node of a tree over the steps and adds up few of them. The "
        "square root measures weighted sums with the weights 1, 1/2, 3/8, 5/16, ... and reads them "
        "with the same weights. Both products are the matrix of running totals. The rows and "
        "columns of the square root are shorter, and all rows are nearly equal.",
    )  # fmt: skip


def _figure_1(path: Path, runs: int) -> Figure:
    canvas, axes = drawing.panels(
        "The error of a running count, step by step",
        f"T = 65,536 steps, ε = {FIGURE_1}, δ = 1e-10, noise as the paper scales it. Below: mean "
        f"over {runs:,} runs with exact noise.",
        (2, 1), panel=2.9, legend=0.35,
    )  # fmt: skip
    above, below = axes[:, 0]
    steps = np.arange(1, 513)
    for strategy, name, colour in zip(mechanisms(HORIZON), _NAMES, (_BINARY, _OURS), strict=True):
        above.plot(steps, stds(strategy, FIGURE_1)[:512], color=colour, linewidth=1.3, label=name)
        until = simulated(strategy, FIGURE_1, runs).largest_until
        below.plot(marks(HORIZON), until, color=colour, linewidth=1.8, label=name)
    drawing.label(above, "Standard deviation of the first 512 releases", "step t", "counts")
    drawing.label(below, "Largest error in steps 1 to t", "step t", "counts")
    below.set_xscale("log", base=2)
    below.minorticks_off()
    for ax in (above, below):
        ax.set_ylim(0)
    drawing.legend_below(canvas, 2)
    return drawing.save(
        canvas, path, "Figure 1: error by step",
        "The upper picture has the exact standard deviation of each release. That of the binary "
        "tree jumps with the number of ones in the binary digits of the step, and that of the "
        "square root grows smoothly. The lower picture has the largest error that a reader has "
        "seen by step t, measured over many runs. That of the square root is half of the tree's at "
        "first, and a good third in the end.",
    )  # fmt: skip


def _figure_2(path: Path) -> Figure:
    canvas, axes = drawing.panels(
        "How far the factors are from the best possible",
        "Product of the factors' norms less Mathias' lower bound for any factorisation, by the "
        "number of steps T.",
        panel=3.2, legend=0.5,
    )  # fmt: skip
    ax = axes[0, 0]
    horizons = [2**k for k in range(2, 45)]
    lower = np.array([factorisation_bounds(horizon)[0] for horizon in horizons])
    printed = np.array([psi(horizon) for horizon in horizons]) - lower
    true = np.array([psi_star(horizon) for horizon in horizons]) - lower
    ax.plot(horizons, printed, color=_BINARY, linestyle="--", linewidth=1.8,
            label="as printed: equation (4), too small")  # fmt: skip
    ax.plot(horizons, true, color=_OURS, linewidth=2.2, label="the norm itself, Ψ*(T)")
    ax.axhline(0.5, color=FAINT, linewidth=1, linestyle=":", label="the claim: below 0.5")
    ax.set_xscale("log", base=2)
    drawing.label(ax, "", "steps T", "upper less lower bound")
    ax.set_ylim(0, 0.7)
    drawing.legend_below(canvas, 2)
    return drawing.save(
        canvas, path, "Figure 2: upper less lower bound",
        "This is the gap between the norms of the factors and the bound for all factorisations, "
        "for 4 to 2^44 steps. The closed form of the paper stays below 0.5. But it is below the "
        "norm that noise has to cover. The gap of the norm itself tends to 0.585.",
    )  # fmt: skip


def _figure_3(path: Path, runs: int) -> Figure:
    canvas, axes = drawing.panels(
        "Eight streams of coin flips, counted",
        f"T = 65,536 steps, ε = {FIGURE_3}, δ = 1e-10, noise as the paper scales it. Lines: mean "
        f"over {runs:,} runs with exact noise; bands: one standard deviation of a single run.",
        (4, 2), panel=2.15, legend=0.5, sharex=True,
    )  # fmt: skip
    some = np.arange(60, HORIZON, 61)
    found = [
        (stds(strategy, FIGURE_3)[some], simulated(strategy, FIGURE_3, runs).mean[some])
        for strategy in mechanisms(HORIZON)
    ]
    for ax, exponent in zip(axes.flat, (*SPARSITY, None), strict=True):
        count = np.cumsum(coin_flips(exponent))[some]
        for (std, mean), name, colour in zip(found, _NAMES, (_BINARY, _OURS), strict=True):
            ax.fill_between(some / 1000, count - std, count + std, color=colour, alpha=0.3,
                            linewidth=0, label=f"{name}: ± one std")  # fmt: skip
            ax.plot(some / 1000, count + mean, color=colour, linewidth=0.9, label=f"{name}: mean")
        ax.plot(some / 1000, count, color=_TRUE, linewidth=1, linestyle="--", label="true count")
        title = "p = 0" if exponent is None else f"p = 1/{2**exponent:,}"
        drawing.label(ax, title)
    for ax in axes[-1]:
        ax.set_xlabel("step t, thousands", color=FAINT, size=10)
    for ax in axes[:, 0]:
        ax.set_ylabel("count", color=FAINT, size=10)
    drawing.legend_below(canvas)
    return drawing.save(
        canvas, path, "Figure 3: counting coin flips",
        "These are private counts around the true count, for streams whose items are 1 with "
        "probability 1/16 down to 1/1,024, and for an empty stream. The noise does not depend on "
        "the stream. So in sparser streams, the wide and ragged band of the binary tree hides "
        "more. The band of the square root is smooth and, averaged over the steps, 2.6 times "
        "narrower.",
    )  # fmt: skip


def _figure_4(path: Path) -> Figure:
    canvas, axes = drawing.panels(
        "The most frequent of 20 items",
        f"Zipf's law with exponent 1; {ZIPF_HORIZON:,} steps, ε = {FIGURE_4}, δ = 1e-10, noise as "
        "the paper scales it. Dots: one run, every 32nd step; bands: one standard deviation.",
        (1, 2), panel=3.4, legend=0.6,
    )  # fmt: skip
    distribution, ax = axes[0]
    ranks = np.arange(1, ITEMS + 1)
    distribution.bar(ranks, 1 / ranks / (1 / ranks).sum(), color=PALETTE[4])
    drawing.label(distribution, "The law", "rank of the item", "probability", grid="y")
    count = np.cumsum(zipf_stream() == 0)
    steps = np.arange(1, ZIPF_HORIZON + 1)
    for strategy, name, colour in zip(
        mechanisms(ZIPF_HORIZON), _NAMES, (_BINARY, _OURS), strict=True
    ):
        std = stds(strategy, FIGURE_4)
        ax.fill_between(steps, count - std, count + std, color=colour, alpha=0.25, linewidth=0,
                        label=f"{name}: ± one std")  # fmt: skip
        (batch,) = errors(strategy, printed_law(strategy, FIGURE_4), 1, "constants figure 4")
        ax.plot(steps[19::32], (count + batch[:, 0])[19::32], color=colour, linestyle="none",
                marker="o", markersize=3, label=f"{name}: one run")  # fmt: skip
    ax.plot(steps, count, color=_TRUE, linewidth=2.2, label="true count", zorder=5)
    drawing.label(ax, "Count of the first item", "step t", "count")
    drawing.legend_below(canvas)
    return drawing.save(
        canvas, path, "Figure 4: the most frequent item",
        "The left picture has the probability of each item. The right picture has the private "
        "running count of the first item for both mechanisms. At ε = 0.1, the noise of the binary "
        "tree is larger than the count in every step except the last, 2,048, which is a single "
        "node. The noise of the square root is smaller than the count from step 1,173 on.",
    )  # fmt: skip


def _norms(path: Path) -> Figure:
    canvas, axes = drawing.panels(
        "Binary tree and square root: the constant",
        "Left: largest standard deviation of a total at noise multiplier 1, by T. Right: the "
        "binary tree's standard deviation over the square root's at t = 2^i - 1, T = 65,536.",
        (1, 2), panel=3.4, legend=0.75,
    )  # fmt: skip
    product, ratio = axes[0]
    exponents = np.arange(2, 31)
    bounds = np.array([factorisation_bounds(2 ** int(k)) for k in exponents])
    ours = [psi_star(2 ** int(k)) for k in exponents]
    product.plot(exponents, np.sqrt(exponents * (exponents + 1)), color=_BINARY, linewidth=2,
                 label="binary tree: √(log T (log T + 1))")  # fmt: skip
    product.plot(exponents, ours, color=_OURS, linewidth=2, label="square root: Ψ*(T)")
    product.fill_between(exponents, bounds[:, 0], bounds[:, 1], color=PALETTE[2], alpha=0.4,
                         linewidth=0, label="Mathias: the best possible lies here")  # fmt: skip
    drawing.label(product, "Product of norms", "log2 of the steps T", "")
    product.set_ylim(0)
    tops = list(range(2, 17))
    for redrawn, style, name in (
        (True, "--", "noise drawn anew each step (the paper's; not private)"),
        (False, "-", "noise drawn once"),
    ):
        found = [improvement(i, redrawn=redrawn) for i in tops]
        ratio.plot(tops, found, color=PALETTE[3], linestyle=style, marker="o", markersize=3,
                   linewidth=1.6, label=name)  # fmt: skip
    ratio.axhline(math.pi / math.log(2), color=FAINT, linewidth=1, linestyle=":",
                  label="π log2 e = 4.53, the limit")  # fmt: skip
    drawing.label(ratio, "Ratio where all digits are 1", "i, at t = 2^i - 1", "")
    ratio.set_ylim(0, 5)
    ratio.set_xticks(tops[::2])
    drawing.legend_below(canvas, 2)
    return drawing.save(
        canvas, path, "Remark 1: the binary mechanism's constant",
        "The left picture has the factor by which each mechanism multiplies the noise of a single "
        "count. That of the square root is close to the best possible, and that of the binary tree "
        "grows 4.5 times as fast. The right picture has the gain where the tree is worst. It is "
        "roughly 4, as in the paper, with the noise of the paper. With noise that is drawn once, "
        "as privacy needs, it is somewhat less.",
    )  # fmt: skip


def _table_2(path: Path) -> Figure:
    canvas, axes = drawing.panels(
        "How sparse may a stream be?",
        f"Average signal-to-noise ratio, T = 65,536, ε = {FIGURE_3}, δ = 1e-10. Computed: mean "
        "over all steps of true count over standard deviation; the paper does not define its own.",
        panel=3.6, legend=0.5,
    )  # fmt: skip
    ax: Axes = axes[0, 0]
    shares = [2.0**-k for k in SPARSITY]
    for (name, printed), strategy, colour in zip(
        PRINTED_SNR.items(), mechanisms(HORIZON), (_BINARY, _OURS), strict=True
    ):
        noise = stds(strategy, FIGURE_3)
        found = [signal_to_noise(np.cumsum(coin_flips(k)), noise) for k in SPARSITY]
        ax.plot(shares, found, color=colour, linewidth=2, label=f"{name}: computed")
        ax.plot(shares, [float(value) for value in printed], color=colour, linestyle="none",
                marker="o", label=f"{name}: printed in Table 2")  # fmt: skip
    ax.axhline(1, color=FAINT, linewidth=1, linestyle=":")
    ax.text(shares[0], 1.08, "noise as large as the count", color=FAINT, size=9, ha="right")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    drawing.label(ax, "", "share of ones in the stream, p", "signal over noise")
    drawing.legend_below(canvas, 2)
    return drawing.save(
        canvas, path, "Table 2: signal-to-noise ratio",
        "This is the average ratio of the true count to the noise for streams of different "
        "sparsity, computed here (lines) and printed in the paper (dots). Both are proportional to "
        "the share of ones and about three times higher for the square root. The printed ratios "
        "are lower throughout, by a definition that the paper does not give.",
    )  # fmt: skip


def _table_1(path: Path, runs: int) -> Figure:
    canvas, axes = drawing.panels(
        "What the bounds promise, and what is achieved",
        f"Largest error over {STEPS:,} steps and all cells, kept with probability 2/3; ε = "
        f"{EPSILON}, δ = 1e-10. Achieved: counton's statistics, least private noise, {runs:,} "
        f"runs (words: {math.ceil(runs / FEWER):,}).",
        panel=5.4, legend=0.3,
    )  # fmt: skip
    ax: Axes = axes[0, 0]
    rows = [(each, achieved(each, runs)) for each in table_1()][::-1]
    places = np.arange(len(rows))
    ax.barh(places + 0.2, [each.bound for each, _ in rows], 0.36, color=PALETTE[4],
            label="bound, as printed")  # fmt: skip
    ax.barh(places - 0.2, [found for _, found in rows], 0.36, color=PALETTE[0], label="achieved")
    for at, (each, found) in zip(places, rows, strict=True):
        for value, up in ((each.bound, 0.2), (found, -0.2)):
            ax.text(value * 1.04, at + up, f"{value:,.0f}", va="center", size=9, color=INK)
    ax.set_xscale("log")
    drawing.label(ax, "", "counts", "", grid="x")
    ax.set_xlim(30, 12_000)
    ax.set_yticks(places, [f"{each.name}\n{each.place}" for each, _ in rows])
    canvas.subplots_adjust(left=0.3)
    drawing.legend_below(canvas, 2)
    return drawing.save(
        canvas, path, "Table 1: bounds of the applications",
        "This compares the error bound of the paper for each application with the bound of "
        "counton. counton uses the least private noise, 0.6 times that of the paper, with which "
        "the error of the histogram would be about 158. All printed bounds hold, except that for "
        "substrings in Table 1, which uses a norm that is too small to be private. That for "
        "episodes is six times too large.",
    )  # fmt: skip

"""Figures 1 to 4 of the paper on expiration: loss by age at one mean squared error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counton.lazy import require
from counton.plots.style import FAINT, INK, PALETTE
from counton.privacy import expiration_loss
from counton.reproduce.drawing import save
from counton.reproduce.evidence import Figure
from counton.reproduce.expiration.numbers import (
    HABIT_ROWS,
    LONG,
    NEAR_BEST_ROWS,
    SHORT,
    HabitRow,
    epsilon_for,
    habit_for,
    printed_habit,
)
from counton.strategies import Expiring

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GROWTHS = (1, 2, 3)


def plotted_ages(steps: int, analysis: str = "paper") -> NDArray[np.int64]:
    """All ages of a short stream; of a long one, or for smooth curves, enough of them."""
    if steps <= 2000 and analysis != "exact":
        return np.arange(steps)
    edges = 2 ** np.arange(steps.bit_length())
    even = np.geomspace if steps > 2000 else np.linspace
    spread = even(1, steps - 1, 160).astype(np.int64)
    ages = np.unique([0, *spread, *edges, *(edges - 1), *(edges - 2), steps - 1])
    return ages[(ages >= 0) & (ages < steps)]


@lru_cache(maxsize=64)
def growth_curve(growth: int, steps: int, analysis: str) -> NDArray[np.float64]:
    """Loss of Algorithm 3 at ``plotted_ages``, with the plots' error."""
    ages = plotted_ages(steps, analysis).tolist()
    losses = expiration_loss(Expiring(growth), ages, analysis)  # type: ignore[arg-type]
    return epsilon_for(growth, steps) * losses


#: What each figure is, and what it shows.
_TOLD = {
    "figure-1.png": (
        "Figure 1: privacy loss by age",
        "The privacy loss of an item by its age, for Algorithm 3 against the bound of Theorem 1.2 "
        "and against counters that start anew every W steps, all with mean squared error 1000. "
        "The exact loss of the same noise (dotted) is below the paper's analysis, and that far "
        "below the bound.",
    ),
    "figure-2.png": (
        "Figure 2: a thousand steps",
        "The same over the first 1,000 steps: the bound, several growths λ, and the restarted "
        "counter for several windows W. A larger λ loses more of an item's privacy early and less "
        "late; the restarted counter jumps each time that it starts anew.",
    ),
    "figure-3.png": (
        "Figure 3: a million steps",
        "The same error over a million steps, both axes logarithmic. The loss of the restarted "
        "counter grows in proportion to the age once the window has passed, that of Algorithm 3 "
        "like a power of the logarithm.",
    ),
    "figure-4.png": (
        "Figure 4: the restarted counter at its best",
        "The restarted counter with the budgets that the paper prints as best for the last loss, "
        "and those that are (dashed). Even so it ends above Algorithm 3 after a million steps.",
    ),
}


def draw_all(folder: Path) -> Iterator[Figure]:
    """Write the four figures as PNG."""
    panels: dict[str, tuple[tuple[str, Callable[[Axes], None]], ...]] = {
        "figure-1.png": (
            ("(a) Algorithm 3 against Theorem 1.2", _bound),
            ("(b) Algorithm 3 and the restarted counter", _against_habit),
        ),
        "figure-2.png": (
            ("(a) Algorithm 3 against Theorem 1.2", _bound),
            ("(b) Algorithm 3 for several λ", _growths),
            ("(c) Restarted counter for several W", _habits),
        ),
        "figure-3.png": (("Algorithm 3 and the restarted counter", _against_habit),),
        "figure-4.png": (
            (
                "(a) Restarted counter, near the least last loss",
                lambda ax: _habits(ax, near_best=True),
            ),
            ("(b) Algorithm 3 and that budget", lambda ax: _against_habit(ax, near_best=True)),
        ),
    }
    for name, parts in panels.items():
        yield _draw(folder / name, parts)


def _draw(path: Path, parts: tuple[tuple[str, Callable[[Axes], None]], ...]) -> Figure:
    require("matplotlib")
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(5.4 * len(parts) + 0.4, 4.3), dpi=150, layout="constrained")
    axes = figure.subplots(1, len(parts), squeeze=False)[0]
    for ax, (title, draw) in zip(axes, parts, strict=True):
        draw(ax)
        ax.set_title(title, loc="left", size=11, weight="bold", color=INK)
        ax.set_xlabel("age of the item, steps", color=FAINT)
        ax.set_ylabel("privacy loss", color=FAINT)
        ax.grid(color="#e6e6e6", linewidth=0.8)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        ax.tick_params(colors=FAINT, labelsize=9, length=0)
        ax.legend(frameon=False, fontsize=8.5)
    return save(figure, path, *_TOLD[path.name])


def _step(ax: Axes, steps: int, losses: NDArray[np.float64], number: int, label: str) -> None:
    ax.step(
        plotted_ages(steps), losses, where="post", color=PALETTE[number], label=label, linewidth=1.4
    )


def _exact(ax: Axes, steps: int, growth: int, number: int, label: str | None) -> None:
    ax.step(
        plotted_ages(steps, "exact"),
        growth_curve(growth, steps, "exact"),
        where="post",
        color=PALETTE[number],
        linestyle=":",
        linewidth=1.6,
        label=label,
    )


def _bound(ax: Axes) -> None:
    _step(ax, SHORT, growth_curve(2, SHORT, "bound"), 1, "bound of Theorem 1.2, λ = 2")
    _step(ax, SHORT, growth_curve(2, SHORT, "paper"), 0, "the paper's analysis, λ = 2")
    _exact(ax, SHORT, 2, 0, "exact loss, the same noise")


def _growths(ax: Axes) -> None:
    for number, growth in enumerate(_GROWTHS):
        _step(ax, SHORT, growth_curve(growth, SHORT, "paper"), number, f"λ = {growth}")
        _exact(ax, SHORT, growth, number, "exact loss" if growth == _GROWTHS[-1] else None)


def habit_curves(
    steps: int, *, near_best: bool
) -> Iterator[tuple[HabitRow, NDArray[np.float64], NDArray[np.float64] | None]]:
    """The printed budgets of a plot, their losses, and those of the budgets of least last loss."""
    ages = plotted_ages(steps).tolist()
    for row in NEAR_BEST_ROWS if near_best else HABIT_ROWS:
        if row.steps == steps:
            best = habit_for(row.window, steps, share=None).loss(ages) if near_best else None
            yield row, printed_habit(row).loss(ages), best


def _habits(ax: Axes, *, near_best: bool = False) -> None:
    for number, (row, losses, best) in enumerate(habit_curves(SHORT, near_best=near_best), start=3):
        share = float(row.past) / float(row.current)
        _step(ax, SHORT, losses, number, f"W = {row.window}, share {share:.3f}")
        if best is not None:
            _best(ax, SHORT, best, number, "least last loss" if row.window == 127 else None)


def _against_habit(ax: Axes, *, near_best: bool = False) -> None:
    for number, growth in enumerate(_GROWTHS):
        _step(ax, LONG, growth_curve(growth, LONG, "paper"), number, f"Algorithm 3, λ = {growth}")
        _exact(ax, LONG, growth, number, "exact loss" if growth == _GROWTHS[-1] else None)
    for number, (row, losses, best) in enumerate(habit_curves(LONG, near_best=near_best), start=3):
        _step(ax, LONG, losses, number, f"restarted, W = {row.window}")
        if best is not None:
            _best(ax, LONG, best, number, "least last loss" if row.window == 1023 else None)
    ax.set_xscale("symlog", linthresh=1)
    ax.set_yscale("log")
    ax.set_xlim(0, LONG)


def _best(
    ax: Axes, steps: int, losses: NDArray[np.float64], number: int, label: str | None
) -> None:
    """Ours beside the paper's, which are a little worse."""
    ax.step(
        plotted_ages(steps),
        losses,
        where="post",
        color=PALETTE[number],
        linestyle="--",
        linewidth=1,
        label=label,
    )

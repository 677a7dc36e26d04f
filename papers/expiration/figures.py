"""Figures of the paper on expiration: loss by age at one mean squared error; errors and bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.charts.style import FAINT, INK, PALETTE
from counton.continual.intervals import largest_expiring_error
from counton.privacy import ExpiringDP, expiration_loss
from counton.strategies import Binary, Expiring
from papers.drawing import label, legend_below, panels, save
from papers.evidence import Figure
from papers.expiration.numbers import (
    HABIT_ROWS,
    LONG,
    NEAR_BEST_ROWS,
    SHORT,
    HabitRow,
    epsilon_for,
    habit_for,
    printed_habit,
)
from papers.expiration.statements import GROWTHS, LOGARITHMIC, loss_targets
from papers.lower_bounds import least_largest_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GROWTHS = (1, 2, 3)


def plotted_ages(steps: int, analysis: str = "paper") -> NDArray[np.int64]:
    """All ages of a short stream; of a long one, or for smooth curves, enough of them."""
    if steps <= 2000 and analysis != "exact":
        return np.arange(steps)
    edges = 2 ** np.arange(steps.bit_length())
    even = np.geomspace if steps > 2000 else np.linspace
    spread = even(1, steps - 1, 110).astype(np.int64)
    ages = np.unique([0, *spread, *edges, *(edges - 1), *(edges - 2), steps - 1])
    return ages[(ages >= 0) & (ages < steps)]


@lru_cache(maxsize=64)
def growth_curve(growth: int, steps: int, analysis: str) -> NDArray[np.float64]:
    """Loss of Algorithm 3 at ``plotted_ages``, with the plots' error."""
    ages = plotted_ages(steps, analysis).tolist()
    losses = expiration_loss(Expiring(growth), ages, analysis)  # type: ignore[arg-type]
    return epsilon_for(growth, steps) * losses


class _Told(NamedTuple):
    title: str
    subtitle: str
    shows: str


_SAME_ERROR = (
    "Privacy loss of an item by its age. All curves have mean squared error 1000 over the first "
)
#: What each figure is, and what it shows.
_TOLD = {
    "figure-1.png": _Told(
        "Figure 1: privacy loss by age",
        f"{_SAME_ERROR}T releases: T = 1,000 above, 1,000,000 below. No delay.",
        "This is the privacy loss of an item by its age for Algorithm 3, against the bound of "
        "Theorem 1.2 and against counters that restart every W steps. All have mean squared error "
        "1000. The exact loss of the same noise (dotted) is below the analysis of the paper, which "
        "is far below the bound.",
    ),
    "figure-2.png": _Told(
        "Figure 2: a thousand steps",
        f"{_SAME_ERROR}1,000 releases. No delay; a share is the budget for past rounds over that "
        "of the current one.",
        "This is the same over the first 1,000 steps: the bound, several growths λ, and the "
        "restarted counter for several windows W. With a larger λ, an item loses less privacy at "
        "first and more later. The loss of the restarted counter jumps at each restart.",
    ),
    "figure-3.png": _Told(
        "Figure 3: a million steps",
        f"{_SAME_ERROR}1,000,000 releases. No delay.",
        "This is the same error over a million steps, with both axes logarithmic. The loss of the "
        "restarted counter grows in proportion to the age once the window has passed. That of "
        "Algorithm 3 grows like a power of the logarithm.",
    ),
    "figure-4.png": _Told(
        "Figure 4: the restarted counter at its best",
        f"{_SAME_ERROR}T releases: T = 1,000 above, 1,000,000 below. A share is the budget for "
        "past rounds over that of the current one.",
        "This is the restarted counter with the budgets that the paper prints as best for the last "
        "loss, and with the budgets that are best (dashed). Even so, it ends above Algorithm 3 "
        "with λ = 1 and 2 after a million steps.",
    ),
}


def draw_all(folder: Path) -> Iterator[Figure]:
    """Write the paper's four figures and three of its statements as PNG."""
    parts_of: dict[str, tuple[tuple[str, Callable[[Axes], None]], ...]] = {
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
    for name, parts in parts_of.items():
        yield _draw(folder / name, parts)
    yield _error(folder / "error.png")
    yield _lower_bound(folder / "lower-bound.png")
    yield _warm_ups(folder / "warm-ups.png")


def _draw(path: Path, parts: tuple[tuple[str, Callable[[Axes], None]], ...]) -> Figure:
    title, subtitle, shows = _TOLD[path.name]
    canvas, axes = panels(title, subtitle, (len(parts), 1), panel=3.3, legend=0.0)
    for ax, (name, draw) in zip(axes[:, 0], parts, strict=True):
        draw(ax)
        label(ax, name, "age of the item, steps", "privacy loss")
        ax.legend(frameon=False, fontsize=9, labelcolor=INK)
    return save(canvas, path, title, shows)


def _step(ax: Axes, steps: int, losses: NDArray[np.float64], number: int, name: str) -> None:
    ax.step(
        plotted_ages(steps), losses, where="post", color=PALETTE[number], label=name, linewidth=1.4
    )


def _exact(ax: Axes, steps: int, growth: int, number: int, name: str | None) -> None:
    ax.step(
        plotted_ages(steps, "exact"),
        growth_curve(growth, steps, "exact"),
        where="post",
        color=PALETTE[number],
        linestyle=":",
        linewidth=1.6,
        label=name,
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


def _best(ax: Axes, steps: int, losses: NDArray[np.float64], number: int, name: str | None) -> None:
    """Ours beside the paper's, which are a little worse."""
    ax.step(
        plotted_ages(steps),
        losses,
        where="post",
        color=PALETTE[number],
        linestyle="--",
        linewidth=1,
        label=name,
    )


def _error(path: Path) -> Figure:
    title = "Theorem 1.2: error by step"
    canvas, axes = panels(
        title,
        "Exact mean squared error · ε² of the release at step t, without delay, for the growth λ "
        "of the privacy loss. Above λ = 3/2 it stays below a constant for ever (dotted).",
        panel=3.9,
        legend=0.65,
    )
    ax = axes[0, 0]
    steps = np.unique([2**power for power in range(61)])
    for number, growth in enumerate(GROWTHS):
        values = 2 * Expiring(growth).variance(steps)
        ax.step(steps, values, where="post", color=PALETTE[number], linewidth=1.7,
                label=f"λ = {growth}")  # fmt: skip
    for growth, limit in (("2", np.pi**2 / 3), ("3", np.pi**4 / 45)):
        colour = PALETTE[GROWTHS.index(growth)]
        ax.axhline(limit, color=colour, linestyle=":", linewidth=1.2)
    ax.set_xscale("log")
    ax.set_yscale("log")
    label(ax, "", "step t", "mean squared error · ε²")
    legend_below(canvas)
    return save(
        canvas, path, title,
        "This is the growth of the error of an endless count, for six growths λ of its privacy "
        "loss. For λ = 1, the error grows with the logarithm of the step, and for 3/2 with the "
        "logarithm of that. For larger λ, it does not grow any more.",
    )  # fmt: skip


def _lower_bound(path: Path) -> Figure:
    title = "Theorem 5.1: how small errors can be"
    canvas, axes = panels(
        title,
        "Largest error of all releases with probability 2/3: what Algorithm 3 promises for its "
        "loss, without delay (lines), and what no mechanism with that loss is below (dashed).",
        (1, 2),
        panel=3.5,
        legend=0.4,
        sharey=True,
    )
    left, right = axes[0]
    for growth, colour in (("1", PALETTE[0]), ("2", PALETTE[1])):
        strategy = Expiring(growth)
        losses = loss_targets(strategy, 1.0, 2**14)

        def both(steps: int, epsilon: float, of: Expiring, by_age: dict[int, float]) -> list[float]:
            scaled = {age: epsilon * loss for age, loss in by_age.items()}
            above = largest_expiring_error(ExpiringDP(f"{epsilon:.9f}").bound_to(of), steps, 2 / 3)
            return [above, least_largest_error(scaled, steps)]

        horizons = [2**power for power in range(8, 41, 2)]
        epsilons = np.geomspace(0.02, 2, 15)
        by_steps = [both(steps, 0.1, strategy, losses) for steps in horizons]
        by_epsilon = [both(10**6, float(epsilon), strategy, losses) for epsilon in epsilons]
        for ax, x, found in ((left, horizons, by_steps), (right, epsilons, by_epsilon)):
            above, below = zip(*found, strict=True)
            ax.plot(x, above, color=colour, linewidth=1.8, label=f"Algorithm 3, λ = {growth}")
            ax.plot(x, below, "--", color=colour, linewidth=1.5, label=f"least, λ = {growth}")
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_yscale("log")
    label(left, "ε = 0.1", "number of steps T", "largest error")
    label(right, "T = 1,000,000", "ε")
    legend_below(canvas, columns=4)
    return save(
        canvas, path, title,
        "This compares the error bound of Algorithm 3 with the least error of any mechanism with "
        "the same loss by age. They are 10 to 55 times apart, because the lower bound counts only "
        "the loss up to an age of twice the error.",
    )  # fmt: skip


def _warm_ups(path: Path) -> Figure:
    title = "Algorithms 1 and 2: the warm-ups"
    canvas, axes = panels(
        title,
        "Privacy loss of an item by its age, in units of ε, T = 1,000. All have noise of scale "
        "1/ε in a node; the binary mechanism promises no more for young items than for old ones.",
        panel=3.7,
        legend=0.9,
    )
    ax = axes[0, 0]
    ages = np.arange(1000)
    edges = np.unique([0, *(2 ** np.arange(10)), *(2 ** np.arange(1, 10) - 1), 999])
    exact = expiration_loss(LOGARITHMIC, edges.tolist())
    for name, x, values, colour, dashes in (
        ("Algorithm 1: d", ages, ages, PALETTE[1], "-"),
        ("Algorithm 2 as stated: 2 log(d + 1) + 2", ages, 2 * np.log2(ages + 1) + 2, FAINT, "--"),
        ("Algorithm 2 as analysed", ages, expiration_loss(LOGARITHMIC, ages.tolist(), "paper"),
         PALETTE[4], "-"),
        ("Algorithm 2, exact", edges, exact, PALETTE[0], "-"),
        ("binary mechanism, T = 1,000", ages, np.full(1000, Binary(1000).height), PALETTE[2], "-"),
    ):  # fmt: skip
        ax.step(x + 1, values, dashes, where="post", color=colour, linewidth=1.7, label=name)
    ax.set_xscale("log")
    ax.set_ylim(0, 24)
    label(ax, "", "age d, plus 1", "privacy loss / ε")
    legend_below(canvas, columns=2)
    return save(
        canvas, path, title,
        "This is the loss of an item by its age under the first two algorithms of the paper, and "
        "under the binary mechanism with the same noise. Algorithm 2 loses one ε each time the age "
        "doubles, about half of what its lemma states. It reaches the guarantee of the binary "
        "mechanism only at the end.",
    )  # fmt: skip

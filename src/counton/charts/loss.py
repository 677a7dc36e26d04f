"""The picture of a plan for an expiring stream: loss against age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from counton.charts.style import (
    FAINT,
    INK,
    PALETTE,
    WIDTH,
    Caption,
    check_width,
    clean,
    drawing,
    frame,
    name_ends,
    names_below,
    names_inches,
    shade,
)
from counton.planning.expiration_plans import FadingPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 240
#: From this ratio of the highest to the lowest end on the axis of losses is logarithmic.
_WIDE = 10


@drawing
def plot_loss(
    plan: FadingPlan, ages: Mapping[str, int], title: str, *, width: float = WIDTH
) -> Figure:
    """Privacy loss by age: the plan, what the paper would claim for it, and the restarted counter.

    Args:
        plan: from ``counton.plan(expire=...)``.
        ages: named ages in steps, such as {"a day": 24}: marked on the axis, which ends at the
            largest.
        title: what the chart shows.
        width: in inches, as 4 for a telephone.

    >>> from counton import plan
    >>> fading = plan(expire={24: 1, 8760: 3})
    >>> float(plot_loss(fading, {"a day": 24, "a year": 8760}, "Loss by age").get_figwidth())
    7.5
    """
    last = max([*ages.values(), *plan.targets, 1])
    edges = 2 ** np.arange(last.bit_length() + 1) - 2 + plan.best.strategy.facts.delay
    spread = np.geomspace(1, last, _POINTS).astype(np.int64)
    all_ages = np.unique([0, *spread, *edges, *(edges + 1), *plan.targets, *ages.values()])
    shown = all_ages[(all_ages >= 0) & (all_ages <= last)]
    parameter = float(getattr(plan.guarantee, plan.unit))
    subtitle = (
        f"growth {float(plan.best.strategy.growth):g}, delay {plan.best.strategy.facts.delay:,}, "
        f"{plan.unit} {parameter:g}: typical error {plan.best.rmse:,.1f}"
    )
    habit = plan.baseline
    every = f"restarted every\n{habit.window:,} steps:\ntypical error"
    # What the paper's analysis claims goes up and down with age: drawn behind the others.
    curves = {
        f"{every} {plan.baseline_rmse:,.1f}": (
            habit.loss(shown.tolist()),
            PALETTE[1],
            1.7,
        ),
        "the paper's analysis\nof this plan": (
            plan.best.loss(shown.tolist(), "paper"),
            shade(PALETTE[0], 1.45),
            0.9,
        ),
        "this plan": (plan.best.loss(shown.tolist()), PALETTE[0], 1.7),
    }
    width = check_width(width)
    below = [(name, colour) for name, (_, colour, _) in curves.items()]
    names = names_inches(below, width)
    figure, bottom, top = frame(
        Caption(title, subtitle, width=width),
        3.9,
        above=0.25,
        below=0.6 + names + 0.25 * (names > 0),
    )
    ax = figure.subplots()
    right = 1 - (0.35 if names else 0.27 * WIDTH) / width
    figure.subplots_adjust(left=0.525 / width, right=right, bottom=bottom, top=top)
    for losses, colour, thick in curves.values():
        ax.step(shown, losses, where="post", color=colour, linewidth=thick)
    for age, limit in plan.targets.items():
        ax.plot(age, limit, "v", color=INK, markersize=7, zorder=5)
        ax.annotate(
            f"at most {limit:g}",
            (age, limit),
            xytext=(-6, 5),
            textcoords="offset points",
            ha="right",
            size=9,
            color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    ax.set_title(f"privacy loss ({plan.unit})", loc="left", size=9, color=FAINT, pad=4)
    _frame(ax, shown, ages, [losses for losses, _, _ in curves.values()])
    if names:
        ax.set_xticks(list(ages.values()), [age.replace(" ", "\n") for age in ages])
        names_below(figure, below, 0.1)
        return figure
    to_axes = ax.transData + ax.transAxes.inverted()
    ends = [
        (name, float(to_axes.transform((1, float(losses[-1])))[1]), colour)
        for name, (losses, colour, _) in curves.items()
    ]
    name_ends(ax, ends, 9)
    return figure


def _frame(
    ax: Axes,
    shown: NDArray[np.int64],
    ages: Mapping[str, int],
    curves: Sequence[NDArray[np.float64]],
) -> None:
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(0, int(shown[-1]))
    ends = [float(losses[-1]) for losses in curves]
    ax.set_ylim(0, 1.12 * max(ends))
    if max(ends) > _WIDE * min(ends):  # the lower curves would lie on the axis
        ax.set_yscale("log")
        least = min(float(losses[losses > 0].min()) for losses in curves)
        ax.set_ylim(least / 1.5, 1.5 * max(ends))
    ax.set_xticks(list(ages.values()), list(ages))
    ax.minorticks_off()
    ax.set_xlabel("age of an item", color=FAINT)
    clean(ax, grid="both")

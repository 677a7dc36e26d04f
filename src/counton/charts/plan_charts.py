"""The picture of a plan over time: errors of releases, and what not knowing the end costs."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInput
from counton.charts.style import (
    FAINT,
    PALETTE,
    WIDTH,
    Caption,
    check_width,
    clean,
    drawing,
    foot_inches,
    frame,
    name_ends,
    names_below,
    names_inches,
    tick,
)
from counton.numbers import Design
from counton.planning import StreamPlan, plan
from counton.planning.lower_bounds import least_of_any_mechanism, sentence_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Parts of the time, spread by their logarithms, and steps of each that are computed, at most.
_PARTS, _OF_EACH = 100, 16
#: Of a name beside a curve, in a line.
_LETTERS = 17


class _Curve(NamedTuple):
    """A strategy's errors, and what stands beside them."""

    name: str
    std: Floats  # shape (parts, steps of each)
    colour: str
    width: float

    @property
    def line(self) -> Floats:
        """The root of the mean variance of each part."""
        return np.asarray(np.sqrt((self.std**2).mean(axis=1)))


@drawing
def plot_plan(ranked: StreamPlan, title: str, *, width: float = WIDTH) -> Figure:
    """Standard deviations of the best choice over time, and of the best of the other kind.

    Lines are the mean over some steps side by side, bands the least and the largest of them. Of a
    plan with a last step the best without one, and the reverse: what not knowing the end
    costs. Below are the two factors to what is possible, and a line at the least that any mechanism
    must have.

    Args:
        ranked: what `plan` found.
        title: what the chart shows.
        width: in inches, as 4 for a telephone.

    Raises:
        InvalidInput: the plan of a statistic, whose errors are not those of its cells.

    >>> from counton import PureDP, plan
    >>> float(plot_plan(plan(100, PureDP(1)), "A plan for 100 days").get_figwidth())
    7.5
    """
    if ranked.best.errors_of.what:
        raise InvalidInput(
            "the plan is of a statistic, whose errors depend on what it reads; draw one of counts"
        )
    steps = ranked.steps
    shown = _parts(steps)
    middles = np.sqrt(shown[:, 0] * shown[:, -1].astype(np.float64))
    curves = _curves(ranked, shown)
    over = "" if ranked.horizon is not None else f" of the first {steps:,} steps"
    subtitle = f"{ranked.guarantee}; protected: {ranked.contribution}"
    foot = sentence_of(ranked.factors, ranked.metric, over)
    least = least_of_any_mechanism(ranked.best, ranked.metric)
    ends = [(curve.name, float(curve.line[-1]), curve.colour) for curve in curves]
    if least:
        name = f"any mechanism has\nin the {ranked.metric} at least\n{least:,.3g}"
        ends.append((name, least, FAINT))
    below = [(name, colour) for name, _, colour in ends]
    width = check_width(width)
    lowest, names = foot_inches(foot, width), names_inches(below, width)
    figure, bottom, top = frame(
        Caption(title, subtitle, "", foot, width), 3.6, above=0.3, below=0.62 + names
    )
    ax = figure.subplots()
    right = 1 - (0.2 if names else 0.26 * WIDTH) / width
    figure.subplots_adjust(left=0.675 / width, right=right, bottom=bottom, top=top)
    for curve in reversed(curves):
        low, high = curve.std.min(axis=1), curve.std.max(axis=1)
        ax.fill_between(middles, low, high, color=curve.colour, alpha=0.22, linewidth=0)
        ax.plot(middles, curve.line, color=curve.colour, linewidth=curve.width)
    if least:
        ax.axhline(least, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
    ax.set_xscale("log")
    ax.set_xlim(1, max(steps, 2))
    ax.set_ylim(0, 1.08 * max(float(curve.std.max()) for curve in curves))
    ax.xaxis.set_major_formatter(lambda value, _place: f"{value:,.0f}")
    if steps >= 10**6:
        ax.xaxis.set_major_formatter(lambda value, _place: _short(value))
    ax.minorticks_off()
    ax.set_title("standard deviation of a release", loc="left", size=10, color=FAINT, pad=5)
    ax.set_xlabel("step", size=10, color=FAINT)
    clean(ax, grid="y")
    ax.tick_params(labelsize=10)
    if names:
        names_below(figure, below, lowest)
        return figure
    highest = float(ax.get_ylim()[1])
    name_ends(ax, [(name, end / highest, colour) for name, end, colour in ends], 10)
    return figure


def _curves(ranked: StreamPlan, shown: Integers) -> list[_Curve]:
    """The best choice, and the best of the other kind where there is one."""
    best = ranked.best
    bounded = ranked.horizon is not None
    names = {True: "last step known:\n{}", False: "no last step:\n{}"}
    found = [
        _Curve(names[bounded].format(_label(best)), _std(ranked, best, shown), PALETTE[0], 2.2)
    ]
    try:
        other = plan(
            None if bounded else ranked.steps,
            ranked.guarantee,
            ranked.metric,
            ranked.contribution,
            ranked.best.shape,
            release=ranked.best.release,
            around=ranked.steps if bounded else None,
        )
    except InvalidInput:  # only totals are planned without a last step
        return found
    std = _std(ranked, other.best, shown)
    name = names[not bounded].format(_label(other.best))
    more = other.best.by(ranked.metric) / best.by(ranked.metric) - 1
    compared = f"({more:+.0%})".replace("-", "−")
    found.append(_Curve(f"{name}\n{compared}", std, PALETTE[1], 1.7))
    return found


def _label(choice: Design) -> str:
    return f"{fill(choice.kind, _LETTERS)},\n{choice.family.capitalize()} noise"


def _std(ranked: StreamPlan, choice: Design, shown: Integers) -> Floats:
    flat = shown.reshape(-1)
    windows = ranked.best.release == "windows"
    std = choice.window_std(flat - 1, flat) if windows else choice.std(flat.tolist())
    return np.asarray(std.reshape(shown.shape))


def _parts(steps: int) -> Integers:
    """Steps from each part of the time; shape (parts, steps of each)."""
    edges = np.unique(np.geomspace(1, steps + 1, _PARTS + 1).astype(np.int64))
    if len(edges) == 1:
        edges = np.array([1, 2])
    parts = zip(edges[:-1], edges[1:] - 1, strict=True)
    return np.array([np.rint(np.linspace(a, b, _OF_EACH)) for a, b in parts]).astype(np.int64)


def _short(value: float) -> str:
    for size, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if value >= size:
            return f"{tick(value / size)} {name}"
    return f"{value:,.0f}"

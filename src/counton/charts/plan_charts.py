"""Charts of plans: errors of releases, and privacy loss by age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInputError
from counton.charts.style import (
    FAINT,
    INK,
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
from counton.continual import Design
from counton.planning import StreamPlan
from counton.planning.expiration_plans import FadingPlan
from counton.planning.lower_bounds import far_from_possible, least_of_any_mechanism
from counton.planning.planner import plan_stream

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Largest number of parts of the time axis, which has a logarithmic scale, and of steps computed in
#: each part.
_MOST_TIME_PARTS = 100
_STEPS_PER_TIME_PART = 16
#: Number of strategies that `plot_choices` draws if none are named.
_DEFAULT_STRATEGIES = 5
#: Largest number of letters in a line of a name beside a curve.
_LETTERS_PER_LINE = 17


class _Curve(NamedTuple):
    """Standard deviations by step, drawn as a curve with a name beside it."""

    name: str
    std: Floats  # shape (parts, steps of each)
    colour: str
    width: float

    @property
    def line(self) -> Floats:
        """Root of the mean variance in each part of the time axis."""
        return np.asarray(np.sqrt((self.std**2).mean(axis=1)))


@drawing
def plot_plan(ranked: StreamPlan, title: str, *, width: float | None = None) -> Figure:
    """Draw the standard deviation of a plan's best strategy by step.

    The line is the mean over neighbouring steps, in a band from the smallest to the largest. A
    second curve shows what an unknown last step costs or, for a plan without a last step, a known
    one. A dashed line is the smallest error of any mechanism; the words below state the ratios to
    lower bounds.

    Args:
        ranked: the plan of a stream of counts.
        title: the line above the chart.
        width: width in inches, 3 to 30, such as 4 for a telephone; None: 7.5.

    Raises:
        InvalidInputError: the plan is for a statistic, whose errors are not those of its cells; or
            the width is out of range.

    >>> from counton import PureDP, plan
    >>> float(plot_plan(plan(100, PureDP(1)), "A plan for 100 days").get_figwidth())
    7.5
    """
    _check_counts(ranked)
    shown = _shown_steps(ranked.steps)
    curves = _curves(ranked, shown)
    foot = far_from_possible(ranked.best, ranked.factors, ranked.metric)
    return _errors_by_step(ranked, curves, shown, title, foot, width)


@drawing
def plot_choices(
    ranked: StreamPlan,
    title: str,
    *,
    choices: Sequence[Design] | None = None,
    width: float | None = None,
) -> Figure:
    """Draw the standard deviation of several strategies of a plan by step, a curve for each.

    The line is the mean over neighbouring steps, in a band from the smallest to the largest. A
    dashed line is the smallest error of any mechanism.

    Args:
        ranked: the plan of a stream of counts.
        title: the line above the chart.
        choices: designs of this plan, or of others such as `counton.plan_expiring`, at most 8;
            None: the best five. The name of a curve states another guarantee than the plan's. In a
            plan of totals, a design of single windows has the errors of its sums.
        width: width in inches, 3 to 30; None: 7.5.

    Raises:
        InvalidInputError: the plan is for a statistic, whose errors are not those of its cells;
            there are no choices, or more than 8; or the width is out of range.

    >>> from counton import PureDP, plan, plan_expiring
    >>> ranked = plan(100, PureDP(1))
    >>> drawn = [ranked.best, plan_expiring({100: 1}).best]
    >>> float(plot_choices(ranked, "Strategies for 100 days", choices=drawn).get_figwidth())
    7.5
    """
    _check_counts(ranked)
    drawn = list(ranked.choices[:_DEFAULT_STRATEGIES] if choices is None else choices)
    if not 1 <= len(drawn) <= len(PALETTE):
        raise InvalidInputError(
            f"{len(drawn)} choices cannot be drawn: give 1 to {len(PALETTE)} designs of plans"
        )
    shown = _shown_steps(ranked.steps)
    curves = []
    for number, choice in enumerate(drawn):
        name = _label(choice)
        if choice.guarantee != ranked.guarantee:
            name = f"{name},\n{fill(str(choice.guarantee), _LETTERS_PER_LINE)}"
        curves.append(_Curve(name, _std(ranked, choice, shown), PALETTE[number], 1.7))
    return _errors_by_step(ranked, curves, shown, title, "", width)


def _check_counts(ranked: StreamPlan) -> None:
    """Raise an error for the plan of a statistic, whose errors are not those of its cells."""
    if ranked.best.errors_of.meaning:
        raise InvalidInputError(
            "this is the plan of a statistic whose errors depend on its rows, so there are no "
            "curves to draw; draw a plan of counts"
        )


def _shown_steps(steps: int) -> Integers:
    """Return the steps whose errors are drawn, in parts of the time axis that grow with time.

    The shape is (parts, steps of each).
    """
    edges = np.unique(np.geomspace(1, steps + 1, _MOST_TIME_PARTS + 1).astype(np.int64))
    parts = np.linspace(edges[:-1], edges[1:] - 1, _STEPS_PER_TIME_PART, axis=1)
    return np.asarray(np.rint(parts).astype(np.int64))


def _errors_by_step(
    ranked: StreamPlan,
    curves: Sequence[_Curve],
    shown: Integers,
    title: str,
    foot: str,
    width: float | None,
) -> Figure:
    """Draw curves of standard deviations, and the smallest error of any mechanism.

    Args:
        ranked: the plan.
        curves: the curves; the first is in front.
        shown: the steps of the curves, shape (parts, steps of each).
        title: the line above the chart.
        foot: the words below it.
        width: width in inches; None: the default.
    """
    steps = ranked.steps
    middles = np.sqrt(shown[:, 0] * shown[:, -1].astype(np.float64))
    subtitle = f"{ranked.guarantee}; protected: {ranked.contribution}"
    least = least_of_any_mechanism(ranked.best, ranked.metric)
    ends = [(curve.name, float(curve.line[-1]), curve.colour) for curve in curves]
    if least:
        name = f"any mechanism has\nin the {ranked.metric} at least\n{least:,.3g}"
        ends.append((name, least, FAINT))
    below = [(name, colour) for name, _, colour in ends]
    width = check_width(width)
    lowest = foot_inches(foot, width)
    names = names_inches(below, width)
    words = Caption(title, subtitle, "", foot, width)
    right = 0.2 if names else 0.26 * WIDTH
    figure, ax = _axes(words, 3.6, above=0.3, below=0.62 + names, left=0.675, right=right)
    for curve in reversed(curves):
        low = curve.std.min(axis=1)
        high = curve.std.max(axis=1)
        ax.fill_between(middles, low, high, color=curve.colour, alpha=0.22, linewidth=0)
        ax.plot(middles, curve.line, color=curve.colour, linewidth=curve.width)
    if least:
        ax.axhline(least, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
    ax.set_xscale("log")
    ax.set_xlim(1, max(steps, 2))
    ax.set_ylim(0, 1.08 * max(float(curve.std.max()) for curve in curves))
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


def _axes(
    words: Caption, tall: float, *, above: float, below: float, left: float, right: float
) -> tuple[Figure, Axes]:
    """Return an empty chart with one pair of axes; all lengths are in inches."""
    figure, bottom, top = frame(words, tall, above=above, below=below)
    ax = figure.subplots()
    wide = words.width
    figure.subplots_adjust(left=left / wide, right=1 - right / wide, bottom=bottom, top=top)
    return figure, ax


def _curves(ranked: StreamPlan, shown: Integers) -> list[_Curve]:
    """Return the curves of the best strategy and, if there is one, of `plot_plan`'s second."""
    best = ranked.best
    bounded = ranked.horizon is not None
    names = {True: "last step known:\n{}", False: "no last step:\n{}"}
    curves = [
        _Curve(names[bounded].format(_label(best)), _std(ranked, best, shown), PALETTE[0], 2.2)
    ]
    try:
        horizon, expected_windows = (None, ranked.steps) if bounded else (ranked.steps, None)
        other = plan_stream(
            horizon,
            ranked.guarantee,
            metric=ranked.metric,
            contribution=ranked.contribution,
            shape=best.shape,
            release=best.errors.release,
            expected_windows=expected_windows,
        )
    except InvalidInputError:  # only totals can be planned without a last step
        return curves
    std = _std(ranked, other.best, shown)
    name = names[not bounded].format(_label(other.best))
    more = other.best.errors.by(ranked.metric) / best.errors.by(ranked.metric) - 1
    compared = f"({more:+.0%})".replace("-", "−")
    curves.append(_Curve(f"{name}\n{compared}", std, PALETTE[1], 1.7))
    return curves


def _label(choice: Design) -> str:
    strategy_name = fill(choice.strategy_family, _LETTERS_PER_LINE)
    return f"{strategy_name},\n{choice.noise_kind.capitalize()} noise"


def _std(ranked: StreamPlan, choice: Design, shown: Integers) -> Floats:
    flat = shown.reshape(-1)
    if ranked.best.errors.release == "windows":
        std = choice.errors.window_std(flat - 1, flat)
    elif choice.errors.release == "windows":  # its totals are sums of its windows
        std = choice.errors.window_std(np.zeros_like(flat), flat)
    else:
        std = choice.errors.std(flat.tolist())
    return np.asarray(std.reshape(shown.shape))


def _short(value: float) -> str:
    for size, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if value >= size:
            return f"{tick(value / size)} {name}"
    return f"{value:,.0f}"


_CURVE_POINTS = 240
#: A lighter form of the first colour.
_LIGHT_COLOUR = "#73b1d5"


@drawing
def plot_loss(
    plan: FadingPlan, ages: Mapping[str, int], title: str, *, width: float | None = None
) -> Figure:
    """Draw the privacy loss of an event by its age, as two curves.

    They are the plan's own loss, and the bound in the paper.

    Args:
        plan: the plan of a stream whose guarantee expires.
        ages: ages in steps to mark on the axis, by name, such as {"a day": 24}. The axis ends at
            the largest of these and of the plan's own ages.
        title: the line above the chart.
        width: width in inches, 3 to 30; None: 7.5.

    Raises:
        InvalidInputError: the width is out of range.

    >>> from counton import plan_expiring
    >>> fading = plan_expiring({24: 1, 8760: 3})
    >>> float(plot_loss(fading, {"a day": 24, "a year": 8760}, "Loss by age").get_figwidth())
    7.5
    """
    last = max([*ages.values(), *plan.targets, 1])
    edges = 2 ** np.arange(last.bit_length() + 1) - 2 + plan.best.strategy.facts.delay
    spread = np.geomspace(1, last, _CURVE_POINTS).astype(np.int64)
    all_ages = np.unique([0, *spread, *edges, *(edges + 1), *plan.targets, *ages.values()])
    shown = all_ages[(all_ages >= 0) & (all_ages <= last)]
    parameter = float(plan.guarantee.losses[plan.unit])
    subtitle = (
        f"growth {float(plan.best.strategy.growth):g}, delay {plan.best.strategy.facts.delay:,}, "
        f"{plan.unit} {parameter:g}: typical error {plan.best.errors.rmse:,.1f}"
    )
    # The loss by the paper's analysis rises and falls with age: drawn behind the others.
    loss = plan.best.errors.loss
    ages_shown = shown.tolist()
    curves = {
        "the paper's analysis\nof this plan": (loss(ages_shown, "paper"), _LIGHT_COLOUR, 0.9),
        "this plan": (loss(ages_shown), PALETTE[0], 1.7),
    }
    width = check_width(width)
    below = [(name, colour) for name, (_, colour, _) in curves.items()]
    names = names_inches(below, width)
    words = Caption(title, subtitle, width=width)
    lower = 0.6 + names + 0.25 * (names > 0)
    right = 0.35 if names else 0.27 * WIDTH
    figure, ax = _axes(words, 3.9, above=0.25, below=lower, left=0.525, right=right)
    for losses, colour, thick in curves.values():
        ax.step(shown, losses, where="post", color=colour, linewidth=thick)
    for age, limit in plan.targets.items():
        ax.plot(age, limit, "v", color=INK, markersize=7, zorder=5)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        style: Any = {"textcoords": "offset points", "ha": "right", "size": 9, "color": INK}
        ax.annotate(f"at most {limit:g}", (age, limit), xytext=(-6, 5), bbox=box, **style)
    ax.set_title(f"privacy loss ({plan.unit})", loc="left", size=9, color=FAINT, pad=4)
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(0, int(shown[-1]))
    ax.set_ylim(0, 1.12 * max(float(losses[-1]) for losses, _, _ in curves.values()))
    ax.set_xticks(list(ages.values()), list(ages))
    ax.minorticks_off()
    ax.set_xlabel("age of an item", color=FAINT)
    clean(ax, grid="both")
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

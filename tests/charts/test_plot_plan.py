"""The picture of a plan over time: what is drawn is what the plan says."""

from typing import Any

import numpy as np
import pytest

from counton import ZCDP, ContributionBound, Distinct, PureDP, plan, plan_expiring
from counton.base.errors import InvalidInputError
from counton.charts import plot_choices, plot_loss, plot_plan
from counton.planning import StreamPlan
from counton.strategies import (
    Binary,
    GrowingCascade,
    Node,
    StrategyFacts,
    StreamStrategy,
    noise_variance,
)


def written(ranked: StreamPlan) -> str:
    figure = plot_plan(ranked, "A title")
    texts: list[Any] = [*figure.texts, *figure.axes[0].texts]
    return " ".join(text.get_text().replace("\n", " ") for text in texts)


@pytest.mark.parametrize("horizon", [None, 300])
def test_plan_chart_compares_known_with_unknown_horizon(horizon: int | None) -> None:
    ranked = plan(horizon, ZCDP(0.5), expected_windows=None if horizon else 300)
    said = written(ranked)
    for part in ("last step known:", "no last step:", "any mechanism has in the mean at least"):
        assert part in said
    for factor in ranked.factors:
        assert f"{factor.times} times the least of {factor.holds_for} ({factor.source})" in said
    other = plan(None if horizon else 300, ZCDP(0.5), expected_windows=300 if horizon else None)
    more = f"({other.best.errors.mean_std / ranked.best.errors.mean_std - 1:+.0%})"
    assert more.replace("-", "−") in said


def test_lines_are_means_of_exact_variances() -> None:
    contribution = ContributionBound.values(0, 10, resolution="0.5")
    ranked = plan(40, PureDP(1), contribution=contribution)
    ax = plot_plan(ranked, "A title").axes[0]
    best = max(ax.lines, key=lambda line: line.get_linewidth())
    drawn = np.asarray(best.get_ydata(), dtype=np.float64)
    variance = noise_variance(ranked.best.strategy, ranked.best.distribution, range(1, 41))
    assert drawn[0] == pytest.approx(0.5 * variance[0] ** 0.5)
    low = 0.5 * variance.min() ** 0.5
    high = 0.5 * variance.max() ** 0.5
    assert ((low * 0.999 <= drawn) & (drawn <= high * 1.001)).all()


def test_plans_of_windows_and_of_one_step_are_drawn_too() -> None:
    assert "no last step" not in written(plan(50, PureDP(1), series="per-window"))
    assert "any mechanism" in written(plan(1, PureDP(1)))
    assert "any mechanism" in written(plan(10**8, ZCDP(0.5)))


def test_a_statistic_is_refused() -> None:
    ranked = plan(10, PureDP(1), of=Distinct(changes=4))
    assert ranked.best.errors_of.meaning
    with pytest.raises(InvalidInputError, match="plan of a statistic"):
        plot_plan(ranked, "A title")


@pytest.mark.parametrize("width", [3.5, 7.5, 10])
def test_plan_charts_have_requested_width_and_name_curves(width: float) -> None:
    """Below the axes where there is no room beside them; nothing is cut off."""
    figures = (
        plot_plan(plan(100, PureDP(1)), "A title", width=width),
        plot_loss(plan_expiring({24: 1, 8760: 3}), {"a day": 24}, "A title", width=width),
    )
    for figure in figures:
        assert figure.get_figwidth() == width
        shown = figure.get_tightbbox()
        assert shown.x0 >= 0
        assert shown.x1 <= width
    for figure, name in zip(figures, ("last step known", "this plan"), strict=True):
        texts = [*figure.texts, *figure.axes[0].texts]
        assert any(name in text.get_text() for text in texts)


class CountThenAdd(StreamStrategy):
    """A strategy of one's own: each step's count has its noise, and totals add these up."""

    facts = StrategyFacts(unit_columns=True)

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon

    @property
    def parameters(self) -> dict[str, Any]:
        return {"horizon": self.horizon}

    def column(self, step: int) -> tuple[Node, ...]:
        return (Node(0, step, 1),)

    def row(self, step: int) -> tuple[Node, ...]:
        return tuple(Node(0, index, 1) for index in range(1, step + 1))


def test_every_strategy_of_a_plan_has_its_curve() -> None:
    """Strategies of a paper and of one's own, a cascade, and one whose guarantee expires."""
    others = [Binary(40), CountThenAdd(40)]
    ranked = plan(40, PureDP(1), also=others)
    named = {repr(choice.strategy): choice for choice in ranked}
    expiring = plan_expiring({40: 1}).best
    windows = plan(40, PureDP(1), series="per-window")
    cascade = next(each for each in windows if isinstance(each.strategy, GrowingCascade))
    drawn = [expiring, cascade, *(named[repr(strategy)] for strategy in others)]
    figure = plot_choices(ranked, "A title", choices=drawn)
    ax = figure.axes[0]
    lines = [line for line in ax.lines if len(np.asarray(line.get_xdata())) > 2]
    assert len(lines) == 4
    for line, choice in zip(reversed(lines), drawn, strict=True):
        heights = np.asarray(line.get_ydata(), dtype=np.float64)
        stds = np.asarray(choice.errors.std(list(range(1, 41))))
        if choice is cascade:  # of the sums of its windows, not of one window
            stds = choice.errors.window_std([0] * 40, list(range(1, 41)))
            assert stds[38] > 1.5 * stds[0]
        assert heights[0] == pytest.approx(stds[0])
        # The last part of the axis has several steps.
        assert stds[-4:].min() * 0.999 <= heights[-1] <= stds[-4:].max() * 1.001
    texts: list[Any] = [*figure.texts, *ax.texts]
    names = " ".join(text.get_text().replace("\n", " ") for text in texts)
    assert str(expiring.guarantee) in names


def test_windows_of_a_plan_include_the_cascade() -> None:
    ranked = plan(32, ZCDP(0.5), series="per-window")
    assert {"GrowingCascade", "Independent"} <= {type(each.strategy).__name__ for each in ranked}
    ax = plot_choices(ranked, "A title").axes[0]
    assert len([line for line in ax.lines if len(np.asarray(line.get_xdata())) > 2]) >= 2


@pytest.mark.parametrize("count", [0, 9])
def test_no_choices_and_too_many_are_refused(count: int) -> None:
    ranked = plan(40, PureDP(1))
    with pytest.raises(InvalidInputError, match=f"{count} choices cannot be drawn"):
        plot_choices(ranked, "A title", choices=[ranked.best] * count)


def test_choices_of_a_statistic_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="plan of a statistic"):
        plot_choices(plan(10, PureDP(1), of=Distinct(changes=4)), "A title")

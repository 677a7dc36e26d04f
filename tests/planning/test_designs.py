"""Laws of every plan: its designs are streams, their errors those of the releases, bounds below."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from counton import (
    ZCDP,
    ApproxDP,
    Average,
    ContributionBound,
    Counter,
    Distinct,
    Key,
    PureDP,
    plan,
    plan_cells,
    plan_expiring,
)
from counton.base.errors import InvalidInputError
from counton.continual import Design
from counton.continual.design import design_for
from counton.continual.stream_errors import ErrorsOf
from counton.strategies import Binary, Metric
from counton.training import plan as plan_training

STEPS = 40
VALUES = ContributionBound.values(0, 5, resolution="0.25")
#: What is asked of streams, by what differs.
ASKED: dict[str, dict[str, Any]] = {
    "totals": {"horizon": STEPS, "guarantee": PureDP(1)},
    "windows": {"horizon": STEPS, "guarantee": ApproxDP(1, 1e-6), "series": "per-window"},
    "both": {"horizon": STEPS, "guarantee": ZCDP("0.5"), "series": "both"},
    "values": {"horizon": STEPS, "guarantee": ZCDP("0.5"), "contribution": VALUES},
    "cells": {"horizon": STEPS, "guarantee": PureDP(1), "shape": (3,), "metric": "max"},
    "no last step": {"horizon": None, "guarantee": ZCDP("0.5"), "expected_windows": STEPS},
    "half-width": {"horizon": STEPS, "margin_of_error": 20},
    "statistic": {
        "horizon": STEPS, "guarantee": PureDP(1), "of": Distinct(changes=4), "batched": True,
    },
    "mean": {
        "horizon": STEPS, "guarantee": PureDP(1), "of": Average(0, 5, resolution=1),
        "batched": True, "metric": "max",
    },
    "fading": {"epsilon": {24: 1, 8760: 3}, "steps": STEPS},
    "fading, delayed": {"rho": {24: 0.1}, "steps": STEPS, "per_step": 0.01},
}  # fmt: skip


@pytest.mark.parametrize("asked", ASKED)
def test_errors_are_those_of_the_stream_that_is_made(asked: str) -> None:
    """Of what is read, and of a cell: as a counter with the same strategy says beforehand."""
    planned = plan_expiring if asked.startswith("fading") else plan
    best: Design = planned(**ASKED[asked]).best
    counter = Counter(
        best.strategy, best.guarantee, contribution=best.contribution, shape=best.shape,
        key=Key.generate(), name="visits",
    )  # fmt: skip
    assert counter.design.distribution == best.distribution
    steps = range(1, STEPS + 1)
    of = best.errors_of
    std = counter.std(steps)
    assert best.errors.std(steps) == pytest.approx(std * of.mean)
    assert best.errors.halfwidth(STEPS) == pytest.approx(
        counter.design.errors.halfwidth(STEPS) * of.mean
    )
    squares = [std**2]
    if best.errors.release == "both":
        squares.append(counter.window_std(np.arange(STEPS), np.arange(STEPS) + 1) ** 2)
    assert best.errors.mean_std == pytest.approx(math.sqrt(np.mean(squares)) * of.mean)
    assert best.errors.max_std == pytest.approx(math.sqrt(np.max(squares)) * of.largest)
    assert replace(best, errors_of=ErrorsOf()).errors.std(steps) == pytest.approx(std)


@pytest.mark.parametrize("asked", [name for name in ASKED if not name.startswith("fading")])
def test_choices_are_ordered_by_error_and_exceed_lower_bounds(asked: str) -> None:
    ranked = plan(**ASKED[asked])
    errors = [choice.errors.by(ranked.metric) for choice in ranked]
    assert errors == sorted(errors)
    of: Metric
    for choice in ranked:
        for of, error in (("mean", choice.errors.mean_std), ("max", choice.errors.max_std)):
            least = ranked.least_std(of).get(choice.noise_kind, 0.0)
            assert least <= error * (1 + 1e-9)
    assert all(factor.factor >= 1 - 1e-9 for factor in ranked.factors)


every_plan = pytest.mark.parametrize(
    "planned",
    [
        partial(plan, 8, PureDP(1)),
        partial(plan, 8, PureDP(1), of=Distinct(changes=4)),
        partial(plan_expiring, {24: 1}),
        partial(plan_cells, 8, epsilon=1),
        partial(plan_training, steps=2, dimension=9),
    ],
    ids=["counts", "statistic", "fading", "cells", "training"],
)


@every_plan
def test_first_choice_of_a_plan_is_its_best(planned: Callable[[], Any]) -> None:
    ranked = planned()
    assert ranked.best is ranked.choices[0] is next(iter(ranked))
    assert ranked.guarantee == ranked.best.guarantee


@every_plan
def test_full_description_of_a_plan_has_every_choice(planned: Callable[[], Any]) -> None:
    ranked = planned()
    rows = ranked.rows()
    text = ranked.describe(full=True)
    assert [row["rank"] for row in rows] == [*range(1, len(ranked) + 1)]
    assert ranked.words[-1] in text
    assert all(row["strategy"] in text for row in rows)


@every_plan
def test_brief_description_of_a_plan_has_three_choices(planned: Callable[[], Any]) -> None:
    ranked = planned()
    brief = ranked.describe().splitlines()
    assert brief == str(ranked).splitlines()
    assert brief[: len(ranked.head())] == [*ranked.head()]
    shown = min(3, len(ranked))
    ranks = [line.split()[0] for line in brief[-shown - 1 : -1]]
    assert ranks == [str(rank) for rank in range(1, shown + 1)]
    assert brief[-1].endswith("describe(full=True)")


@every_plan
def test_table_html_and_repr_of_a_plan_count_its_choices(planned: Callable[[], Any]) -> None:
    ranked = planned()
    assert ranked.table().height == len(ranked)
    assert "<table>" in ranked._repr_html_()
    assert f"of {len(ranked)} choices" in repr(ranked)


def test_endless_design_has_errors_only_with_expected_windows() -> None:
    endless = plan(None, ZCDP("0.5"), expected_windows=9).best
    nobody_says = design_for(endless.strategy, endless.guarantee, endless.contribution)
    assert endless.errors.steps == 9
    for ask in (lambda: nobody_says.errors.mean_std, lambda: nobody_says.errors.steps):
        with pytest.raises(InvalidInputError, match=r"mean_variance\(steps\)|has no last step"):
            ask()
    assert nobody_says.errors.largest_error() == math.inf


def test_loss_by_age_is_defined_only_for_expiring_guarantees() -> None:
    best = plan_expiring({24: 1}).best
    assert best.errors.loss([24])[0] == best.guarantee.loss([24])[0] <= 1  # type: ignore[attr-defined]
    with pytest.raises(InvalidInputError, match="is equal at every age"):
        design_for(Binary(7), PureDP(1), ContributionBound.add_remove()).errors.loss([1])

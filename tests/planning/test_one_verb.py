"""`plan` is one verb: what is asked about says which plan it is, and nothing given is ignored."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest

from counton import ZCDP, Contribution, Distinct, Edges, PureDP, plan
from counton.base.errors import InvalidInput
from counton.numbers import Design
from counton.planning import CellsDesign, FadingPlan, StreamPlan
from counton.statistics import plan_verb as planning
from counton.statistics.statistic_plan import plan_statistic
from counton.strategies import KAry


def test_what_is_asked_about_says_which_plan_it_is() -> None:
    assert isinstance(plan(9, PureDP(1)), StreamPlan)
    assert isinstance(plan(None, ZCDP(1), around=9), StreamPlan)
    assert isinstance(plan(expire={24: 1}), FadingPlan)
    assert isinstance(plan(age=24, rmse=30), FadingPlan)
    of_streams = plan(9, PureDP(1)), plan(expire={24: 1})
    assert all(isinstance(one.best, Design) for one in of_streams)
    grid = plan(cells=(2, 2), guarantee=PureDP(1), workload=np.eye(2))
    for one in (plan(cells=4, guarantee=PureDP(1)), grid):
        assert {type(choice) for choice in one} == {CellsDesign}


def test_every_argument_is_for_one_of_them() -> None:
    forms = {*planning._STREAM, *planning._EXPIRATION, *planning._CELLS}
    assert forms == {*signature(plan).parameters}


#: A plan of each kind, and every argument that the others have.
ASKED: dict[str, dict[str, Any]] = {
    "_STREAM": {"horizon": 9, "guarantee": PureDP(1)},
    "_EXPIRATION": {"expire": {24: 1}},
    "_CELLS": {"cells": 4, "guarantee": PureDP(1)},
}
VALUES: dict[str, Any] = {
    "horizon": None, "guarantee": PureDP(1), "metric": "max", "shape": (2,), "of": Edges(),
    "contribution": Contribution.add_remove(), "strategies": [KAry(9, 3)], "batched": True,
    "release": "both", "simple": True, "compare": False, "around": 9, "also": [KAry(9, 3)],
    "expire": {24: 1}, "age": 9, "rmse": 3, "largest_error": 3, "steps": 9, "per_step": 2,
    "delays": [3], "largest_growth": 3, "concentrated": True, "cells": 4, "line": "haar",
    "workload": "nodes", "within": 20, "level": 0.9, "least": "rho", "delta": 1e-6, "size": 9,
}  # fmt: skip


@pytest.mark.parametrize("form", ASKED)
@pytest.mark.parametrize("name", VALUES)
def test_no_argument_of_another_plan_is_ignored(form: str, name: str) -> None:
    if name in getattr(planning, form):
        return
    asked: Any = {**ASKED[form], name: VALUES[name]}
    with pytest.raises(InvalidInput, match=f"which takes no .*\\b(horizon|{name})\\b"):
        plan(**asked)


def test_a_plan_of_nothing_is_refused() -> None:
    nothing: Any = plan
    with pytest.raises(InvalidInput, match="nothing to plan for: give a horizon"):
        nothing(guarantee=PureDP(1))
    with pytest.raises(InvalidInput, match="guarantee is None"):
        nothing(9)
    with pytest.raises(InvalidInput, match="guarantee is None"):
        nothing(cells=9)


def test_a_statistic_is_planned_by_its_own_errors() -> None:
    one = plan(12, PureDP(1), of=Distinct(changes=4), batched=True, compare=False)
    assert one == plan_statistic(Distinct(changes=4), 12, PureDP(1), batched=True)
    assert one.contribution == Distinct(changes=4).contribution(batched=True, horizon=12)
    assert one.best.mean_std > plan(12, PureDP(1), compare=False).best.mean_std
    least = plan(12, PureDP(1), "max", of=Distinct(changes=4), batched=True)
    assert least.metric == "max"
    assert {each.strategy for each in plan(9, PureDP(1), of=Edges(), strategies=[KAry(9, 3)])} == {
        KAry(9, 3)
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"of": 3}, "of is 3; give a statistic"),
        ({"of": Edges(), "shape": (3,)}, "says shape by itself"),
        ({"of": Edges(), "contribution": Contribution.add_remove()}, "says contribution by itself"),
        ({"batched": True}, "batched is said of a statistic"),
    ],
)
def test_what_a_statistic_says_itself_is_refused(more: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        plan(9, PureDP(1), **more)

"""Three verbs plan: a stream, one whose protection fades, cells that are released once."""

from typing import Any

import numpy as np
import pytest

from counton import (
    ZCDP,
    ApproxDP,
    ContributionBound,
    Distinct,
    Edges,
    PureDP,
    plan,
    plan_cells,
    plan_expiring,
)
from counton.base.errors import InvalidInputError
from counton.base.strategy_names import PAPERS
from counton.continual import Design
from counton.planning import CellsDesign, FadingPlan, StreamPlan
from counton.statistics.statistic_plan import plan_statistic
from counton.strategies import Binary, HonakerOnline, KAry, SmoothBinary, SqrtToeplitz


def test_each_verb_gives_designs_of_its_kind() -> None:
    assert isinstance(plan(9, PureDP(1)), StreamPlan)
    assert isinstance(plan(None, ZCDP(1), expected_windows=9), StreamPlan)
    assert isinstance(plan_expiring({24: 1}), FadingPlan)
    of_streams = plan(9, PureDP(1)), plan_expiring({24: 1})
    assert all(isinstance(one.best, Design) for one in of_streams)
    grid = plan_cells((2, 2), PureDP(1), workload=np.eye(2))
    for one in (plan_cells(4, PureDP(1)), grid):
        assert {type(choice) for choice in one} == {CellsDesign}


def test_numbers_state_the_guarantee_as_well() -> None:
    for numbers, guarantee in (
        ({"epsilon": 1}, PureDP(1)),
        ({"epsilon": "0.5", "delta": 1e-6}, ApproxDP("0.5", 1e-6)),
        ({"rho": 0.5}, ZCDP(0.5)),
    ):
        more: Any = numbers
        assert plan(9, **more) == plan(9, guarantee)
        assert plan_cells(4, **more).guarantee == guarantee


@pytest.mark.parametrize("verb", [plan, plan_cells])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "guarantee is None"),
        ({"guarantee": PureDP(1), "epsilon": 1}, "epsilon=1 states the privacy loss too"),
        ({"epsilon": 1, "rho": 1}, "state the privacy loss in two ways"),
        ({"delta": 1e-6}, "needs epsilon too"),
    ],
)
def test_plans_refuse_missing_or_second_guarantee(verb: Any, given: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        verb(9, **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "losses are None; give the largest loss for at least one age"),
        ({"epsilon": {1: 1}, "rho": {1: 1}}, "measure the privacy loss in two ways"),
    ],
)
def test_losses_are_stated_in_one_way(given: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        plan_expiring(**given)


def test_the_mechanism_of_a_paper_has_the_paper_s_parameters() -> None:
    built = {
        "binary-paper": Binary(365), "honaker-paper": HonakerOnline(365),
        "kary-paper": KAry(365, 19, subtraction=True), "smooth-paper": SmoothBinary.even(365),
        "sqrt-paper": SqrtToeplitz(365),
    }  # fmt: skip
    assert built.keys() == PAPERS.keys()
    ranked = plan(365, rho=0.5, strategies=[*built])
    assert {one.strategy_family: one.strategy for one in ranked} == built
    best = SmoothBinary.best(365)
    assert plan(365, epsilon=1, strategies=["smooth"]).best.strategy == best
    assert best != SmoothBinary.even(365)
    with pytest.raises(InvalidInputError, match="it has a last step"):
        plan(None, rho=0.5, strategies=["smooth-paper"])
    with pytest.raises(InvalidInputError, match="strategy=smoth is not known"):
        plan(365, rho=0.5, strategies=["smoth"])


def test_a_statistic_is_planned_by_its_own_errors() -> None:
    one = plan(12, PureDP(1), of=Distinct(changes=4), batched=True, compare=False)
    assert one == plan_statistic(Distinct(changes=4), 12, PureDP(1), batched=True)
    assert one.contribution == Distinct(changes=4).contribution(batched=True)
    assert one.best.errors.mean_std > plan(12, PureDP(1), compare=False).best.errors.mean_std
    least = plan(12, PureDP(1), "max", of=Distinct(changes=4), batched=True)
    assert least.metric == "max"
    assert {each.strategy for each in plan(9, PureDP(1), of=Edges(), strategies=[KAry(9, 3)])} == {
        KAry(9, 3)
    }


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"of": 3}, "of is 3, which is not a statistic"),
        ({"of": Edges(), "shape": (3,)}, "decides shape"),
        ({"of": Edges(), "contribution": ContributionBound.add_remove()}, "decides contribution"),
        ({"batched": True}, "batched is for a statistic"),
        ({"expected_rows": 9}, "expected_rows=9 is only for a plan that starts from an error"),
        ({"margin_of_error": 9}, "margin_of_error finds the privacy loss"),
    ],
)
def test_plan_refuses_incompatible_arguments(more: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        plan(9, PureDP(1), **more)

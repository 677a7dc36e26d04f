"""How far streams are from possible, of the terms that a release is bound to."""

from dataclasses import replace

import pytest

from counton import ZCDP, ApproxDP, Counter, Key, PureDP, plan
from counton.continual import Design
from counton.continual.stream_errors import ErrorsOf
from counton.planning import factors_of_design, far_from_possible
from counton.privacy import ContributionBound, ExpiringDP, Guarantee
from counton.strategies import (
    Epochs,
    Expiring,
    GrowingSquareRoot,
    KAry,
    NormalisedSqrt,
    StreamStrategy,
)
from counton.strategies.strategy import Metric


def terms_of(
    strategy: StreamStrategy, guarantee: Guarantee, contribution: ContributionBound | None = None
) -> Design:
    counter = Counter(
        strategy, guarantee, key=Key.generate(), name="visits", contribution=contribution
    )
    return counter.design


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5), ApproxDP(1, 1e-6)])
@pytest.mark.parametrize("metric", ["mean", "max"])
def test_factors_of_design_are_those_of_the_plan(guarantee: Guarantee, metric: Metric) -> None:
    planned = plan(365, guarantee, metric)
    terms = terms_of(planned.best.strategy, guarantee)
    assert terms.distribution == planned.best.distribution
    found = factors_of_design(terms, metric)
    assert [one.to_dict() for one in found] == [one.to_dict() for one in planned.factors]
    # With (epsilon, delta) no bound is known to plans.
    both = isinstance(guarantee, PureDP | ZCDP)
    assert [one.holds_for == "any mechanism" for one in found] == ([False, True] if both else [])
    assert all(one.factor >= 1 and one.source for one in found)


@pytest.mark.parametrize(
    ("strategy", "guarantee"), [(GrowingSquareRoot(), ZCDP(0.5)), (Epochs(), PureDP(1))]
)
def test_factors_of_endless_design_are_for_first_steps(
    strategy: StreamStrategy, guarantee: Guarantee
) -> None:
    terms = terms_of(strategy, guarantee)
    planned = plan(None, guarantee, expected_windows=1000, strategies=[strategy])
    thousand = replace(terms, errors_of=ErrorsOf(steps=1000))
    found = factors_of_design(thousand)
    assert [one.to_dict() for one in found] == [one.to_dict() for one in planned.factors]
    said = far_from_possible(thousand, found)
    assert said.startswith("The root of the mean variance of the first 1,000 steps is ")
    assert " of the first 65,536 steps is " in far_from_possible(terms, factors_of_design(terms))


def test_the_sentence_has_both_factors_and_their_sources() -> None:
    terms = terms_of(NormalisedSqrt(64), ZCDP(0.5))
    first, second = both = factors_of_design(terms, "max")
    said = far_from_possible(terms, both, "max")
    assert "deviation of a cell is" in far_from_possible(terms, both, "max", of="a cell")
    assert said.startswith(f"The largest standard deviation is {first.times} times the least of ")
    for part in (first.source, second.source, f"{second.times} times the least of any mechanism"):
        assert part in said
    assert said.endswith(".")


def test_distance_from_bound_is_omitted_without_a_theorem() -> None:
    fading = terms_of(Expiring(1), ExpiringDP(1))
    assert factors_of_design(fading) == ()
    assert far_from_possible(fading, ()) == ""
    many = ContributionBound.add_remove(steps=3)
    (alone,) = factors_of_design(terms_of(KAry.best(365), PureDP(1), contribution=many))
    assert alone.holds_for == "any mechanism"

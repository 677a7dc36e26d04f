"""One guarantee for several parts: what a split promises, and that no other one is better."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from counton import ZCDP, ApproxDP, PureDP, plan
from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInput
from counton.planning import Cost, Split, last_halfwidth, split
from counton.planning.least_privacy import least_guarantee
from counton.privacy import Contribution, Guarantee

#: As much as a split may be worse than the best of all.
_NEAR = 0.005


def ideal_noise(guarantee: Guarantee, l1: int, l2_squared: int) -> float:
    """Noise of which a cell's error is in proportion to the norm that it follows."""
    if isinstance(guarantee, ZCDP):
        return math.sqrt(l2_squared / float(2 * guarantee.rho))
    assert isinstance(guarantee, PureDP)
    return l1 / float(guarantee.epsilon)


def drawn(number: int) -> tuple[list[Cost], Guarantee]:
    """Parts with norms, weights and bounds of all sizes, of which the bounds can be kept."""
    rng = np.random.default_rng(number)
    guarantee: Guarantee = PureDP(1) if number % 2 else ZCDP("0.5")
    power = 1 if number % 2 else 2
    count = int(rng.integers(2, 7))
    shares = rng.dirichlet(np.ones(count) * 2)
    costs = []
    for share in shares:
        l1 = int(10 ** rng.uniform(0, 4))
        l2_squared = int(rng.integers(l1, l1**2 + 1))
        one = Cost(l1, l2_squared, each=float(10 ** rng.uniform(-2, 1)))
        alone = ideal_noise(guarantee, l1, l2_squared) * one.each
        bound = alone / share ** (1 / power) * 1.02 if rng.random() < 0.4 else None
        weight = round(float(10 ** rng.uniform(-1, 1)), 3)
        costs.append(Cost(l1, l2_squared, bound, weight, one.each))
    return costs, guarantee


def solved(costs: Sequence[Cost], guarantee: Guarantee) -> Any:
    """The best shares, by a solver that knows nothing but the problem."""
    power = 1 if isinstance(guarantee, PureDP) else 2
    alone = np.array([ideal_noise(guarantee, c.l1, c.l2_squared) * c.each for c in costs])
    least = np.array(
        [
            0 if c.within is None else (a / c.within) ** power
            for c, a in zip(costs, alone, strict=True)
        ]
    )
    weights = np.array([float(c.weight) for c in costs])
    free = np.array([c.within is None for c in costs])
    # The largest part of the budget of which those without a bound get as many as their weights.
    found = minimize(
        lambda x: -x[0],
        [0.01],
        method="SLSQP",
        constraints=[{"type": "ineq", "fun": lambda x: 1 - least.sum() - x[0]}],
        bounds=[(0, 1)],
    )
    share = np.where(free, found.x[0] * weights / max(weights[free].sum(), 1e-9), least)
    return share if free.any() else share / share.sum()


def refuse_worse(costs: Sequence[Cost], guarantee: Guarantee, found: Split) -> None:
    """What a split has to keep, whoever made it."""
    power = 1 if isinstance(guarantee, PureDP) else 2
    assert found.l1 == sum(w * c.l1 for w, c in zip(found.weights, costs, strict=True))
    squares = (w**2 * c.l2_squared for w, c in zip(found.weights, costs, strict=True))
    assert found.l2_squared == sum(squares)
    cell = ideal_noise(guarantee, found.l1, found.l2_squared)
    errors = [cell * c.each / w for w, c in zip(found.weights, costs, strict=True)]
    for cost, error in zip(costs, errors, strict=True):
        assert cost.within is None or error <= cost.within
    wanted = solved(costs, guarantee)
    for cost, share, error in zip(costs, wanted, errors, strict=True):
        alone = ideal_noise(guarantee, cost.l1, cost.l2_squared) * cost.each
        assert error == pytest.approx(alone / share ** (1 / power), rel=_NEAR)


@pytest.mark.parametrize("number", range(24))
def test_no_other_split_is_better(number: int) -> None:
    costs, guarantee = drawn(number)
    refuse_worse(costs, guarantee, split(costs, guarantee, ideal_noise))


def test_a_wrong_split_is_seen() -> None:
    """Equal weights; a bound that is missed by a hundredth."""
    costs, guarantee = drawn(1)
    right = split(costs, guarantee, ideal_noise)

    def of(weights: Sequence[int]) -> Split:
        l1 = sum(w * c.l1 for w, c in zip(weights, costs, strict=True))
        l2_squared = sum(w**2 * c.l2_squared for w, c in zip(weights, costs, strict=True))
        return right._replace(weights=tuple(weights), l1=l1, l2_squared=l2_squared)

    refuse_worse(costs, guarantee, of(right.weights))
    with pytest.raises(AssertionError):
        refuse_worse(costs, guarantee, of([1] * len(costs)))
    costs = [Cost(1, 1, within=4), Cost(1, 1)]
    right = split(costs, PureDP(1), ideal_noise)
    refuse_worse(costs, PureDP(1), of(right.weights))
    with pytest.raises(AssertionError):
        refuse_worse(costs, PureDP(1), of([99, 301]))


def test_whole_numbers_are_as_small_as_they_can_be() -> None:
    even = split([Cost(1, 1), Cost(1, 1)], PureDP(1))
    assert even.weights == (1, 1)
    assert even.shares == (Fraction(1, 2), Fraction(1, 2))
    assert split([Cost(60, 3600), Cost(1, 1)], PureDP(1)).weights == (1, 60)
    # A share of rho is a square of weights.
    assert split([Cost(1, 1, weight=4), Cost(1, 1)], ZCDP(1)).weights == (2, 1)
    assert split([Cost(1, 1, weight=3)], ZCDP(1)).weights == (1,)


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5), ApproxDP(1, 1e-6)])
def test_planned_errors_are_those_of_the_stream(guarantee: Guarantee) -> None:
    """The split's norms, given to the planner, have the half-widths that the split says."""
    costs = [Cost(1, 1, within=60), Cost(60, 3600, each=0.024), Cost(1, 1, weight=3)]
    found = split(costs, guarantee, last_halfwidth(52))
    moved = BoundedChange(found.l1, found.l2_squared, once=True)
    contribution = Contribution.of_pattern(moved, "which changes all parts")
    best = plan(52, guarantee, contribution=contribution, compare=False).best
    assert found.errors is not None
    for weight, cost, error in zip(found.weights, costs, found.errors, strict=True):
        assert error == pytest.approx(best.errors.halfwidth(52) * cost.each / weight)
    assert found.errors[0] <= 60


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5), ApproxDP(1, 1e-6)])
@pytest.mark.parametrize("rest", [[], [Cost(1, 1)]])
def test_what_cannot_be_reached_says_what_it_costs(guarantee: Any, rest: list[Cost]) -> None:
    costs = [Cost(1, 1, 4, name="visits"), Cost(60, 3600, 4, each=0.02, name="delays"), *rest]
    noise = last_halfwidth(4)
    with pytest.raises(InvalidInput, match="visits within 4 and delays within 4") as refused:
        split(costs, guarantee, noise)
    name = "rho" if isinstance(guarantee, ZCDP) else "epsilon"
    said = str(refused.value).split(f"give {name}=")[1].split(" or more")[0]

    def of(loss: Fraction) -> Any:
        if isinstance(guarantee, ApproxDP):
            return ApproxDP(loss, guarantee.delta)
        return type(guarantee)(loss)

    found = split(costs, of(Fraction(said)), noise)
    assert found.errors is not None
    assert max(found.errors[:2]) <= 4
    with pytest.raises(InvalidInput, match="is not enough"):
        split(costs, of(Fraction(said) * Fraction(99, 100)), noise)


def test_bounds_that_only_noise_of_zero_keeps_have_a_price_too() -> None:
    costs, noise = [Cost(1, 1, 1, name="a"), Cost(3, 5, 1, name="b")], last_halfwidth(100)
    with pytest.raises(InvalidInput, match="a within 1 and b within 1; give epsilon=") as refused:
        split(costs, PureDP(1), noise)
    said = Fraction(str(refused.value).split("give epsilon=")[1].split(" or more")[0])
    for epsilon in (said, 2 * said):
        errors = split(costs, PureDP(epsilon), noise).errors
        assert errors is not None
        assert max(errors) <= 1


def test_all_parts_with_bounds_share_what_is_left() -> None:
    costs = [Cost(1, 1, within=20), Cost(7, 49, within=70)]
    found = split(costs, PureDP(1), ideal_noise)
    assert found.errors is not None
    assert found.errors[0] / 20 == pytest.approx(found.errors[1] / 70, rel=2e-3)
    assert found.errors[0] < 4


def test_what_is_no_split_is_refused() -> None:
    with pytest.raises(InvalidInput, match="give a list with a Cost for each part"):
        split([], PureDP(1))
    with pytest.raises(InvalidInput, match="noise is missing"):
        split([Cost(1, 1, within=3)], PureDP(1))
    with pytest.raises(InvalidInput, match="within=-1 must be above 0"):
        Cost(1, 1, within=-1)
    with pytest.raises(InvalidInput, match="norms are"):
        Cost(3, 2)
    with pytest.raises(InvalidInput, match="coarser resolution"):
        split([Cost(2**39, 2**78), Cost(1, 1, weight=100)], PureDP(1))


@pytest.mark.parametrize("within", [0.5, 0.9, 7, 30, 31.4, 5000])
def test_the_least_loss_is_the_least_of_four_digits(within: float) -> None:
    calls = 0

    def error(guarantee: Any) -> float:
        nonlocal calls
        calls += 1
        return math.ceil(1000 * 30 / math.pow(guarantee.epsilon, 0.7)) / 1000

    found: Any = least_guarantee(error, within)
    number = found.epsilon
    assert error(found) <= within
    step = Fraction(10) ** (math.floor(math.log10(number)) - 3)
    assert (number / step).denominator == 1
    assert error(PureDP(number - step)) > within
    assert calls < 45


def test_no_loss_is_enough() -> None:
    with pytest.raises(InvalidInput, match="cannot be reached: even with epsilon = 1000"):
        least_guarantee(lambda guarantee: 3.0, 2)

"""Plans for expiring streams: within their targets, and no tried choice has less error."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import counton
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.base.exact import figures_above
from counton.continual.intervals import largest_expiring_error
from counton.noise import NoiseField
from counton.planning import FadingPlan
from counton.privacy import ExpiringDP, ExpiringZCDP, expiration_loss
from counton.strategies import Expiring, noise_variance
from counton.strategies.strategy import node_distribution
from papers.expiration.restarts import RestartedCounter
from papers.lower_bounds import allowed_loss, least_largest_error

CASES: list[tuple[dict[int, float], float]] = [
    ({24: 1, 8760: 3}, 1),
    ({24: 1, 8760: 3}, 0.01),
    ({0: 0.01, 23: 0.1, 24: 1, 87600: 3}, 1),
    ({0: 0.2}, 1),
    ({100: 0.5}, 0.2),
]


def continuous_rmse(plan: FadingPlan) -> float:
    """The error with noise of real numbers, which varies a little more: what is searched with."""
    best = plan.best
    mean = best.strategy.mean_variance(plan.steps, gaussian=best.noise_kind == "gaussian")
    if isinstance(best.guarantee, ExpiringZCDP):
        noise = mean / (2 * float(best.guarantee.rho))
    else:
        assert isinstance(best.guarantee, ExpiringDP)
        noise = 2 * mean / float(best.guarantee.epsilon) ** 2
    found = math.hypot(math.sqrt(noise), best.errors_of.per_step * best.strategy.facts.delay)
    assert best.errors.rmse <= found * (1 + 1e-9)
    return found


@pytest.mark.parametrize("largest_growth", [2, 6])
@pytest.mark.parametrize(("targets", "per_step"), CASES)
@pytest.mark.slow
def test_targets_are_kept_and_no_other_choice_has_less_error(
    targets: dict[int, float], per_step: float, largest_growth: int
) -> None:
    plan = counton.plan_expiring(targets, per_step=per_step, largest_growth=largest_growth)
    assert plan.best.strategy.growth <= largest_growth
    ages = list(targets)
    limits = np.array(list(targets.values()))
    assert (plan.best.errors.loss(ages) <= limits * (1 + 1e-9)).all()
    assert (plan.best.errors.loss(ages) >= limits * (1 - 1e-4)).any()  # nothing is left unused
    rng = np.random.default_rng(5)
    for _ in range(30):
        growth = Fraction(int(rng.integers(0, 100 * largest_growth + 1)), 100)
        delay = int(rng.integers(0, min(max(ages), plan.steps - 1) + 1) * rng.random() ** 3)
        other = Expiring(growth, delay)
        losses = expiration_loss(other, ages)
        epsilon = min(limit / at for limit, at in zip(limits, losses, strict=True) if at)
        noise = 2 * other.mean_variance(plan.steps) / epsilon**2
        assert math.hypot(math.sqrt(noise), per_step * delay) >= continuous_rmse(plan) * 0.9995, (
            growth,
            delay,
        )


@pytest.mark.long
@pytest.mark.slow
def test_the_growth_is_the_best_of_all_hundredths() -> None:
    plan = counton.plan_expiring({24: 1, 8760: 3})
    errors = {}
    for hundredths in range(201):
        other = Expiring(Fraction(hundredths, 100))
        epsilon = (np.array([1, 3]) / expiration_loss(other, [24, 8760])).min()
        errors[other.growth] = math.sqrt(2 * other.mean_variance(8760)) / epsilon
    assert plan.best.strategy.growth == min(errors, key=errors.__getitem__) == Fraction(27, 25)
    assert continuous_rmse(plan) == pytest.approx(min(errors.values()), rel=1e-4)
    assert plan.best.errors.rmse < 23.35


def test_loss_beyond_last_target_depends_on_largest_growth() -> None:
    days = [366, 3653]
    plan, steep = (counton.plan_expiring({1: 1}, largest_growth=most) for most in (2, 6))
    assert plan.best.strategy.growth == 2
    habit = RestartedCounter.best(plan.targets, plan.steps)
    assert (plan.best.errors.loss(days) < habit.loss(days) / 4).all()
    assert steep.best.errors.rmse < plan.best.errors.rmse
    assert (
        steep.best.errors.loss(days).tolist() == days
    )  # nothing is hidden but what one release hides


def test_targets_of_epsilon_and_delta_are_kept() -> None:
    targets = {24: 1.0, 8760: 2.0}
    plan = counton.plan_expiring(targets, delta=1e-6)
    guarantee = plan.best.guarantee
    assert isinstance(guarantee, ExpiringZCDP)
    kept = guarantee.epsilon_by_age(targets, delta=1e-6)
    limits = np.array([*targets.values()])
    assert (kept <= limits).all()
    assert (kept >= limits * 0.999).any()  # nothing is left unused
    assert "1 up to age 24, 2 up to age 8760 in epsilon, at delta = 1e-6" in plan.words[1]
    assert plan.best.errors.rmse < counton.plan_expiring(targets).best.errors.rmse


@pytest.mark.parametrize("delta", [0, 1, -1])
def test_delta_out_of_range_is_refused(delta: int) -> None:
    with pytest.raises(InvalidInputError, match="above 0 and below 1"):
        counton.plan_expiring({24: 1}, delta=delta)


def test_delta_without_epsilon_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="belongs to epsilon"):
        counton.plan_expiring(rho={24: 1}, delta=1e-6)


def test_numbers_may_be_given_in_any_exact_form() -> None:
    losses: Any = {np.int64(24): Fraction(1, 3), 8760: np.float32(3)}
    plan = counton.plan_expiring(losses, per_step="0.01")
    assert plan.best.errors.loss([24]) <= 1 / 3
    assert plan.targets == {24: 0.3333333333333333, 8760: 3.0}


def test_rmse_of_plan_combines_noise_and_delay() -> None:
    plan = counton.plan_expiring({24: 1, 8760: 3}, per_step=0.01, steps=5000)
    errors = plan.best.errors
    delay = plan.best.strategy.facts.delay
    assert errors.rmse == pytest.approx(math.hypot(errors.mean_std, 0.01 * delay))


def test_plan_delays_only_when_few_items_arrive() -> None:
    assert counton.plan_expiring({24: 1, 8760: 3}, per_step=0.01).best.strategy.facts.delay > 24
    assert counton.plan_expiring({24: 1, 8760: 3}, per_step=100).best.strategy.facts.delay == 0


def ruled_out(targets: dict[int, float], steps: int) -> list[float]:
    """Errors in halves that Theorem 5.1 rules out: too little may be lost for them."""
    blocks = range(1, min(steps, 1200))  # far enough for these targets
    sums = itertools.accumulate(allowed_loss(targets, age) for age in range(len(blocks)))
    return [
        block / 2
        for block, total in zip(blocks, sums, strict=True)
        if total < math.log(steps / (3 * block))
    ]


@pytest.mark.parametrize(
    "targets",
    [{24: 0.1, 8760: 0.3}, {5: 0.001}, {0: 1}, {3: 0.01, 50: 2}, {24: 1000}, {900: 0.004}],
)
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 300, 10**6])
@pytest.mark.slow
def test_least_largest_error_equals_theorem_5_1(targets: dict[int, float], steps: int) -> None:
    assert least_largest_error(targets, steps) == max(ruled_out(targets, steps), default=0)


def test_impossible_error_equals_bound_computed_by_hand() -> None:
    sum_of_losses = 0.1 * 25
    targets = {24: 0.1, 8760: 0.3}
    assert sum_of_losses + 0.3 * 21 < math.log(10**6 / (6 * 23))  # C = 23 by hand
    assert sum_of_losses + 0.3 * 22 > math.log(10**6 / (6 * 23.5))  # and what is open
    assert least_largest_error(targets, 10**6) == 23
    assert least_largest_error({24: 1000}, 1000) == 0


@pytest.mark.parametrize(
    "targets", [{24: 1}, {24: 1, 8760: 3}, {0: 0.001, 24: 1000}, {0: 9}, {1: 3}]
)
@pytest.mark.slow
def test_planned_error_exceeds_impossible_error(targets: dict[int, float]) -> None:
    for steps in (2, 10, 1000, 10**9):
        plan = counton.plan_expiring(targets, steps=steps)
        assert plan.best.errors.largest_error() > least_largest_error(targets, steps)


def test_few_items_per_step_have_error_below_theorem_5_1() -> None:
    # Held back for a step, a hundredth of an item: less than half, which no mechanism with these
    # losses can keep to on a stream of ones.
    targets = {0: 0.001, 24: 1000}
    assert least_largest_error(targets, 1000) == 0.5
    plan = counton.plan_expiring(targets, per_step=0.01)
    assert plan.best.errors.largest_error() < 0.5


@pytest.mark.parametrize(
    ("guarantee", "distribution"),
    [
        (ExpiringDP("0.2"), DiscreteLaplace(Fraction(5))),
        (ExpiringZCDP("0.02"), DiscreteGaussian(Fraction(25))),
    ],
    ids=str,
)
def test_bound_on_largest_error_holds_within_factor_two(
    guarantee: ExpiringDP | ExpiringZCDP, distribution: Any
) -> None:
    strategy = Expiring(1)
    steps = 400
    field = NoiseField(
        bytes(32), lambda level: node_distribution(strategy, distribution, level), (1500,)
    )
    largest = np.abs(strategy.noise(field, range(1, steps + 1))).max(axis=0)
    bound = largest_expiring_error(guarantee.bound_to(strategy), steps, 2 / 3)
    assert (largest < bound).mean() > 2 / 3
    assert (largest < bound / 2).mean() < 2 / 3


@pytest.mark.parametrize(
    ("targets", "per_step"),
    [
        ({24: 0.01, 8760: 0.03}, 1),
        ({24: 0.01, 8760: 0.03}, 0.01),
        ({24: 1, 8760: 3}, 1),
        ({0: 2}, 1),
    ],
)
@pytest.mark.slow
@pytest.mark.long
def test_rho_is_kept_and_no_other_choice_has_less_error(
    targets: dict[int, float], per_step: float
) -> None:
    plan = counton.plan_expiring(rho=targets, per_step=per_step)
    assert isinstance(plan.guarantee, ExpiringZCDP)
    ages = list(targets)
    limits = np.array(list(targets.values()))
    assert (plan.best.errors.loss(ages) <= limits).all()
    assert (plan.best.errors.loss(ages) >= limits * (1 - 1e-3)).any()
    assert (plan.best.errors.loss(ages) <= plan.best.errors.loss(ages, "paper") * (1 + 1e-9)).all()
    habit = RestartedCounter.best(plan.targets, plan.steps, gaussian=True)
    assert (habit.loss(ages) <= limits * (1 + 1e-9)).all()
    steps = range(1, plan.steps + 1)
    distribution = DiscreteGaussian(1 / (2 * plan.guarantee.rho))
    variance = noise_variance(plan.best.strategy, distribution, steps).mean()
    assert plan.best.errors.mean_std**2 == pytest.approx(variance)
    rng = np.random.default_rng(6)
    for _ in range(20):
        growth = Fraction(int(rng.integers(0, 201)), 100)
        delay = int(rng.integers(0, min(max(ages), plan.steps - 1) + 1) * rng.random() ** 3)
        other = Expiring(growth, delay)
        least = expiration_loss(other, ages, "concentrated")  # never above what is promised
        rho = min(limit / at for limit, at in zip(limits, least, strict=True) if at)
        promise = ExpiringZCDP(Fraction(rho)).bound_to(other)
        promised = [promise.at_age(age) for age in ages]
        if all(at is None or at.rho <= x * 1.001 for at, x in zip(promised, limits, strict=True)):
            noise = other.mean_variance(plan.steps, gaussian=True) / (2 * rho)
            assert math.hypot(math.sqrt(noise), per_step * delay) >= continuous_rmse(plan) * 0.99


@pytest.mark.parametrize("unit", ["epsilon", "rho"])
def test_one_age_is_not_a_collection_of_ages(unit: str) -> None:
    plan = counton.plan_expiring(**{unit: {24: 0.01}})  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="ages are 24; give a collection"):
        plan.best.errors.loss(24)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"epsilon": {}}, "at least one age"),
        (
            {"epsilon": [24]},
            "losses are a value of type list; give the largest loss for at least one age",
        ),
        ({"epsilon": {24: 1}, "largest_growth": "x"}, "largest_growth is 'x'"),
        ({"epsilon": {24: 1}, "largest_growth": 17}, "from 0 to 16"),
        ({"epsilon": {24: 0}}, "a largest loss is 0"),
        ({"epsilon": {24: math.nan}}, "a largest loss is 'nan'"),
        ({"epsilon": {-1: 1}}, "age is -1"),
        ({"epsilon": {1.5: 1}}, "age is 1.5"),
        ({"epsilon": {24: 1}, "steps": 0}, "steps is 0"),
        ({"epsilon": {24: 1}, "per_step": -1}, "per_step is -1"),
    ],
)
def test_plan_expiring_refuses_invalid_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        counton.plan_expiring(**arguments)


def test_expiring_plan_states_losses_and_errors() -> None:
    plan = counton.plan_expiring({24: 1, 8760: 3})
    (row,) = plan.rows()
    assert row["rmse"] == plan.best.errors.rmse
    assert row["loss_at_87600"] == plan.best.errors.loss([87600])[0]
    text = str(plan)
    assert repr(plan.best.strategy) in text
    assert f"{figures_above(plan.halfwidth(8760))} in step 8,760 (95% confidence)" in text
    assert "protected" in plan._repr_html_()

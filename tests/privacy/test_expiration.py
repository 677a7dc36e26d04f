"""Guarantees that weaken with age: bound, printed, saved, calibrated, counted."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from counton import (
    ZCDP,
    ApproxDP,
    ContributionBound,
    Counter,
    ExpiringDP,
    ExpiringZCDP,
    Key,
    PureDP,
)
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import BudgetExceededError, InvalidInputError
from counton.continual.checkpoint import StreamProgress, write_checkpoint
from counton.continual.node_distribution import distribution_for
from counton.privacy import Ledger, expiration_loss, guarantee_from_dict
from counton.strategies import Binary, Expiring
from counton.strategies.strategy import node_distribution

STRATEGY = Expiring(growth=2, delay=4)


@pytest.mark.parametrize("guarantee", [ExpiringDP(0.1), ExpiringZCDP("1/3")])
def test_saved_expiring_guarantee_is_restored(
    guarantee: ExpiringDP | ExpiringZCDP,
) -> None:
    for each in (guarantee, guarantee.bound_to(STRATEGY)):
        assert guarantee_from_dict(json.loads(json.dumps(each.to_dict()))) == each
    assert guarantee.bound_to(STRATEGY).bound_to(STRATEGY).expiry == STRATEGY.expiry


def test_expiring_guarantee_has_text() -> None:
    assert str(ExpiringDP(0.5)) == "expiring differential privacy with epsilon = 0.5"
    bound = ExpiringZCDP(2).bound_to(Expiring("3/2", 3, 5))
    assert str(bound).endswith("with rho = 2 (growth 1.5, delay 3, levels 5)")
    assert "grows slowly with its age" in ExpiringDP(1).meaning
    assert all("one visit" in kind(1).meaning_for("visit") for kind in (ExpiringDP, ExpiringZCDP))


def test_guarantee_at_age_is_epsilon_times_loss() -> None:
    guarantee = ExpiringDP(0.5).bound_to(STRATEGY)
    assert guarantee.at_age(3) is None
    assert guarantee.at_age(4) == PureDP(0.5)
    assert guarantee.at_age(1003) == PureDP(27.5)
    concentrated = ExpiringZCDP("1/1000").bound_to(STRATEGY).at_age(1003)
    assert concentrated is not None
    loss = expiration_loss(STRATEGY, [1003], "concentrated")[0]
    assert 0 <= concentrated.rho - Fraction(loss) / 1000 < 1e-9


def test_node_distributions_have_scales_of_paper() -> None:
    pure = distribution_for(STRATEGY, ExpiringDP(0.5), ContributionBound.add_remove()).distribution
    assert pure == DiscreteLaplace(Fraction(2))
    assert node_distribution(STRATEGY, pure, 3) == DiscreteLaplace(Fraction(1, 2))
    gaussian = distribution_for(
        STRATEGY, ExpiringZCDP(0.5), ContributionBound.add_remove()
    ).distribution
    assert gaussian == DiscreteGaussian(Fraction(1))
    assert node_distribution(STRATEGY, gaussian, 3) == DiscreteGaussian(Fraction(1, 4))


def test_a_unit_in_more_cells_needs_more_noise() -> None:
    distribution = distribution_for(
        STRATEGY, ExpiringDP(1), ContributionBound.add_remove(3), shape=(8,)
    ).distribution
    assert distribution == DiscreteLaplace(Fraction(3))
    distribution = distribution_for(
        STRATEGY, ExpiringZCDP(1), ContributionBound.replace(1), shape=(8,)
    ).distribution
    assert distribution == DiscreteGaussian(Fraction(1))  # one cell loses one, another gains one


def test_loss_of_unit_is_sum_of_inverse_scales() -> None:
    # Shift every interval of the cheapest cover of [1, age + 1] by one: the log-probabilities
    # change by the sum of 1 / scale, which is the promised loss.
    guarantee = ExpiringDP("0.3").bound_to(Expiring("3/2"))
    distribution = distribution_for(
        Expiring("3/2"), guarantee, ContributionBound.add_remove()
    ).distribution
    scales = [node_distribution(Expiring("3/2"), distribution, level).scale for level in range(4)]  # type: ignore[union-attr]
    promised = guarantee.at_age(14)  # positions 1..15: whole trees of 1, 2, 4 and 8 positions
    assert promised is not None
    assert 0 <= promised.epsilon - sum(1 / scale for scale in scales) < 1e-9


def test_expiring_counter_releases_0_during_delay_and_resumes_equally() -> None:
    key = Key.generate()
    counter = Counter(STRATEGY, ExpiringDP(0.5), key=key, name="visits")
    assert counter.design.guarantee == ExpiringDP(0.5).bound_to(STRATEGY)
    xs = np.arange(300)
    releases = counter.release_many(xs)
    assert (releases.values[:4] == 0).all()
    assert (releases.std()[:4] == 0).all()
    assert (releases.std()[4:] > 1).all()
    delayed = np.concatenate([np.zeros(4), np.cumsum(xs)[:-4]])
    assert np.abs(releases.values - delayed)[4:].max() < 200
    assert len(set((releases.values - delayed)[4:])) > 10

    single = Counter(STRATEGY, ExpiringDP(0.5), key=key, name="visits")
    values = [single.release(int(x)).value for x in xs[:7]]
    resumed = Counter.resume(single.checkpoint(), key=key)
    values += resumed.release_many(xs[7:]).values.tolist()
    assert values == releases.values.tolist()


def test_state_stays_small_far_out() -> None:
    key = Key.generate()
    counter = Counter(Expiring(1), ExpiringDP(1), key=key, name="visits")
    done = StreamProgress(10**9, np.array(10**12), np.zeros(0, np.int64))
    far = Counter.resume(write_checkpoint(counter.design.text, key.fingerprint, done), key=key)
    far.release(1)
    assert len(far.checkpoint()) < 10_000


def test_the_ledger_wants_to_know_the_age() -> None:
    guarantee = ExpiringDP(0.5).bound_to(STRATEGY)
    with pytest.raises(InvalidInputError, match="only at a fixed age"):
        Ledger(PureDP(3)).spend("visits", guarantee)
    ledger = Ledger(PureDP(30), age=1003)
    ledger.spend("visits", guarantee)
    ledger.spend("sales", PureDP(1))
    assert ledger.cost() == PureDP(28.5)
    with pytest.raises(BudgetExceededError):
        ledger.spend("clicks", guarantee)
    assert Ledger.from_dict(ledger.to_dict()).cost() == PureDP(28.5)


def test_expiring_guarantee_refuses_unsuitable_strategy_or_parameters() -> None:
    key = Key.generate()
    for guarantee in (ExpiringDP(1), ExpiringZCDP(1)):
        with pytest.raises(InvalidInputError, match="its noise does not depend on age"):
            Counter(Binary(9), guarantee, key=key, name="s")
        with pytest.raises(InvalidInputError, match="not bound to a strategy"):
            guarantee.at_age(1)
        with pytest.raises(InvalidInputError, match="another growth or delay"):
            Counter(Expiring(1), guarantee.bound_to(STRATEGY), key=key, name="s")
        with pytest.raises(InvalidInputError, match="age is -1"):
            guarantee.bound_to(STRATEGY).at_age(-1)
    for fixed in (PureDP(1), ApproxDP(1, 1e-6), ZCDP(1)):
        with pytest.raises(InvalidInputError, match="use ExpiringDP or ExpiringZCDP"):
            Counter(STRATEGY, fixed, key=key, name="s")
    with pytest.raises(InvalidInputError, match="needs laplace noise"):
        distribution_for(STRATEGY, ExpiringDP(1), ContributionBound.add_remove(), family="gaussian")
    with pytest.raises(
        InvalidInputError, match="2\\^40"
    ):  # level 62 would have 63 times this scale
        distribution_for(Expiring(0), ExpiringDP("1e-11"), ContributionBound.add_remove())
    for bad in (0, -1, float("nan")):
        with pytest.raises(InvalidInputError, match="epsilon is"):
            ExpiringDP(bad)
        with pytest.raises(InvalidInputError, match="rho is"):
            ExpiringZCDP(bad)


@pytest.mark.parametrize("expiry", ["x", 3, {"growth": 1, "age": 3}, {"growth": "99"}])
def test_guarantee_from_dict_refuses_invalid_expiry(expiry: Any) -> None:
    for kind in ("expiring", "expiring zero-concentrated"):
        parameter = "epsilon" if kind == "expiring" else "rho"
        with pytest.raises(InvalidInputError, match=r"expiry is|cannot be read|growth is"):
            guarantee_from_dict({"guarantee": kind, parameter: "1", "expiry": expiry})


def test_numbers_of_numpy_are_numbers() -> None:
    numbers: Any = np.array([2, 3, 4])
    strategy = Expiring(*numbers)
    assert strategy == Expiring(2, 3, 4)
    assert json.loads(json.dumps(strategy.parameters)) == {"growth": "2", "delay": 3, "levels": 4}
    assert Expiring(np.float64(1.5)) == Expiring("3/2")


@pytest.mark.parametrize("delta", ["0.3", "1e-6", "1e-12"])
@pytest.mark.parametrize("rho", ["0.0001", "0.02", "1", "30"])
def test_epsilon_by_age_follows_from_rho_at_best_order(rho: str, delta: str) -> None:
    """Canonne, Kamath and Steinke 2020, Proposition 12, over all orders up to 20,000."""
    guarantee = ExpiringZCDP(rho).bound_to(Expiring(1, delay=1))
    ages = [0, 1, 5, 100]
    found = guarantee.epsilon_by_age(ages, delta)
    assert found[0] == 0
    orders = np.arange(2, 20_001, dtype=float)
    for age, epsilon in zip(ages[1:], found[1:], strict=True):
        at = guarantee.at_age(age)
        assert at is not None
        gains = np.log(float(delta)) + np.log(orders - 1) - orders * np.log1p(-1 / orders)
        best = float((orders * float(at.rho) - gains / (orders - 1)).min())
        assert max(best, 0) <= epsilon <= max(best, 0) * (1 + 1e-9) + 1e-12
    assert (np.diff(found) >= 0).all()


def test_epsilon_by_age_needs_a_delta_and_a_strategy() -> None:
    bound = ExpiringZCDP(1).bound_to(STRATEGY)
    for wrong in (0, 1, -1, 2):
        with pytest.raises(InvalidInputError, match=r"delta is .*; it must be above 0 and below 1"):
            bound.epsilon_by_age([1], delta=wrong)
    with pytest.raises(InvalidInputError, match="not bound to a strategy"):
        ExpiringZCDP(1).epsilon_by_age([1], delta=1e-6)

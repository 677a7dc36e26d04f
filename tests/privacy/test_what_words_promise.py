"""What guarantees are said to promise, computed; and what they do not, though it was once said."""

import math
import re
from fractions import Fraction

import pytest
from scipy.special import ndtr

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, Sensitivity
from counton.base.exact import exact
from counton.continual.node_distribution import distribution_for
from counton.privacy import (
    ZCDP,
    ApproxDP,
    ContributionBound,
    ExpiringDP,
    ExpiringZCDP,
    PureDP,
    calibrate,
)
from counton.privacy.concentrated import renyi_by_pure
from counton.privacy.gaussian import analytic_gaussian_sigma
from counton.privacy.guarantees import loss_of_many
from counton.statistics.discovery import Discovery
from counton.strategies import Binary, KAry


def test_rho_is_not_the_advantage_of_two_bell_curves() -> None:
    """Randomised response with every Renyi divergence within alpha rho, and a larger advantage."""
    rho = 2
    epsilon = 2.399
    assert epsilon * math.tanh(epsilon / 2) <= rho  # the divergence of order 1, their limit
    for alpha in (1.001, 1.1, 1.5, 2, 3, 10, 1000):
        assert renyi_by_pure(Fraction(epsilon), Fraction(alpha)) <= alpha * rho
    advantage = math.tanh(epsilon / 2)
    curves = 2 * float(ndtr(math.sqrt(2 * rho) / 2)) - 1
    assert (advantage, curves) == pytest.approx((0.8336, 0.6827), abs=1e-4)
    said = ZCDP(rho).meaning_for("visit")
    assert "Renyi divergence of each whole order alpha from 2 on is at most alpha times rho" in said
    assert "advantage" not in said


def test_the_loss_exceeds_epsilon_with_more_probability_than_delta() -> None:
    sigma = analytic_gaussian_sigma(1, 1e-6)
    beyond = float(ndtr(1 / (2 * sigma) - sigma))
    assert beyond / 1e-6 == pytest.approx(20.1, abs=0.1)


def test_loss_of_many_units_grows_quadratically_under_rho() -> None:
    one = Sensitivity(1, 1)
    many = Sensitivity(100, 10_000)
    distributions = [calibrate(ZCDP(1), shift, "gaussian").distribution for shift in (one, many)]
    assert isinstance(distributions[0], DiscreteGaussian)
    assert isinstance(distributions[1], DiscreteGaussian)
    assert distributions[1].sigma_squared == 10_000 * distributions[0].sigma_squared
    assert calibrate(ZCDP(10_000), many, "gaussian").distribution == distributions[0]
    assert loss_of_many(ZCDP(1), 100) == "10,000 times the rho"
    assert loss_of_many(ExpiringZCDP(1), 100) == "10,000 times the rho"
    assert loss_of_many(PureDP(1), 100) == "100 times the epsilon"
    assert loss_of_many(ApproxDP(1, "1e-6"), 100) == "100 times the epsilon, and far more delta"


@pytest.mark.parametrize("strategy", [Binary(365), KAry.best(365)], ids=str)
def test_intervals_of_discovered_small_groups_miss_truth(strategy: Binary | KAry) -> None:
    """A group that counts one is shown only where noise is wider than any interval at 95%."""
    unit = ContributionBound.add_remove()
    distribution = distribution_for(strategy, PureDP(1), unit).distribution
    assert isinstance(distribution, DiscreteLaplace)
    found = Discovery.with_least_thresholds(strategy, distribution, 365, unit, Fraction(1, 10**9))
    # Its noise is then at least so many standard deviations; by Chebyshev's inequality fewer
    # than sqrt(20) are enough for 95%.
    assert float(Fraction(found.margin)) > 14 > math.sqrt(20) + 1


def test_step_in_two_streams_loses_sum_of_both() -> None:
    """As where another stream goes on from an old copy, and the newest one had gone further."""
    noise = distribution_for(Binary(1), PureDP(1), ContributionBound.add_remove()).distribution
    assert isinstance(noise, DiscreteLaplace)
    rate = 1 / float(noise.scale)
    once = max(abs(x) - abs(x - 1) for x in range(-9, 10)) * rate
    both = max(
        (abs(x) - abs(x - 1)) * rate + (abs(y) - abs(y - 1)) * rate
        for x in range(-9, 10)
        for y in range(-9, 10)
    )
    assert (once, both) == (1, 2)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        ("1e-300", "1e-300"),
        ("0.1", "0.1"),
        ("1/3", "1/3"),
        ("1234.56789", "1234.56789"),
        ("0.12345612345678912345", "0.123457"),
        ("0.12345678912345678912", "0.123457"),
        ("9.21034037197618273607", "9.21035"),
    ],
)
def test_meaning_states_parameters_exactly_or_rounded_up(number: str, shown: str) -> None:
    for guarantee in (PureDP(number), ZCDP(number), ExpiringDP(number), ExpiringZCDP(number)):
        said = re.search(r"(?:epsilon|rho) = ([^ ,]+)", guarantee.meaning)
        assert said is not None
        assert said[1] == shown
        assert exact(said[1], "number") >= exact(number, "number")


@pytest.mark.parametrize("delta", ["0.00012345678912345678", "0.00012345612345678912"])
def test_meaning_states_delta_rounded_up(delta: str) -> None:
    assert ApproxDP(1, delta).meaning.endswith("probability of delta = 0.000123457")

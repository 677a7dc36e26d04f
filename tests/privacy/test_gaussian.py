"""Discrete Gaussian noise under (epsilon, delta): formula, proof and the discrete law itself."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from counton.base.errors import InvalidInputError
from counton.privacy import Sensitivity
from counton.privacy.gaussian import (
    analytic_gaussian_sigma,
    delta_at_most,
    log_factor,
    variance_for,
)

CASES = [
    (1.0, 1e-6), (2.0, 1e-5), (0.1, 1e-9), (0.001, 1e-3), (8.0, 1e-12), (30.0, 1e-3), (0.5, 0.4),
    (1.0, 1e-100), (5.0, 0.9),
]  # fmt: skip


def true_delta(sigma: float, epsilon: float) -> mpmath.mpf:
    """Balle and Wang, Theorem 8, in 60 digits."""
    with mpmath.workdps(60):
        s = mpmath.mpf(sigma)
        e = mpmath.mpf(epsilon)
        first = mpmath.ncdf(1 / (2 * s) - e * s)
        return first - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"), [(1, "1e-6", 4.224678889), (2, "1e-5", 1.993812446)]
)
def test_known_values(epsilon: int, delta: str, sigma: float) -> None:
    """Values computed from the formula with 60 digits."""
    assert round(analytic_gaussian_sigma(epsilon, delta), 9) == sigma


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_sigma_satisfies_the_bound_and_hardly_less_would(epsilon: float, delta: float) -> None:
    sigma = analytic_gaussian_sigma(epsilon, delta)
    assert true_delta(sigma, epsilon) <= delta
    assert true_delta(sigma * (1 - 1e-10), epsilon) > delta


@pytest.mark.parametrize("sigma", [0.01, 0.2, 1.0, 4.0, 37.0, 1e4])
@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 1.0, 7.0])
def test_delta_is_bounded_from_above_and_tightly(sigma: float, epsilon: float) -> None:
    true = true_delta(sigma, epsilon)
    bound = delta_at_most(sigma, epsilon)
    assert bound >= true or (bound == 0 and true < 1e-290)
    assert bound <= true * (1 + 1e-7) + 1e-300


def test_delta_too_small_for_floats_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="use Laplace noise"):
        analytic_gaussian_sigma(1, "1e-290")
    for epsilon, delta in ((0, 0.1), (-1, 0.1), (1, 0), (1, 1), (math.nan, 0.1)):
        with pytest.raises(InvalidInputError):
            analytic_gaussian_sigma(epsilon, delta)


@pytest.mark.parametrize("tau_squared", [0.05, 0.1, 0.3, 1.0])
def test_theta_stays_within_the_bounds_of_the_proof(tau_squared: float) -> None:
    epsilon_factor, delta_factor = log_factor(tau_squared)
    eta = math.expm1(delta_factor)
    y = np.linspace(0, 1, 201)
    j = np.arange(-40, 41)
    theta = np.exp(-((j[:, None] - y) ** 2) / (2 * tau_squared)).sum(axis=0)
    theta /= math.sqrt(2 * math.pi * tau_squared)
    assert theta.max() <= (1 + eta) * (1 + 1e-12)
    assert theta.min() >= (1 - eta) * (1 - 1e-12)
    assert theta.max() >= 1 + eta * 0.99 - 1e-12  # the bound is attained
    assert math.isclose(epsilon_factor, math.log((1 + eta) / (1 - eta)), rel_tol=1e-6)


def discrete_gaussian(sigma_squared: float, centre: int, reach: int) -> np.ndarray:
    x = np.arange(-reach, reach + 1) - centre
    masses: np.ndarray = np.exp(-(x.astype(float) ** 2) / (2 * sigma_squared))
    masses /= masses.sum()
    return masses


def enumerated_delta(sigma_squared: float, moves: tuple[int, ...], epsilon: float) -> float:
    """Hockey-stick divergence by summing over all outputs of one or two coordinates."""
    reach = int(12 * math.sqrt(sigma_squared)) + max(moves) + 12
    one = np.ones(1)
    other = np.ones(1)
    for move in moves:
        one = np.multiply.outer(one, discrete_gaussian(sigma_squared, move, reach)).ravel()
        other = np.multiply.outer(other, discrete_gaussian(sigma_squared, 0, reach)).ravel()
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


@pytest.mark.parametrize("moves", [(1,), (10,), (1, 1), (1, 2), (1, 3)])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", "1e-6"), ("0.5", "0.01"), ("4", "1e-5"), ("10", "0.001")]
)
def test_the_discrete_law_satisfies_its_bound(
    moves: tuple[int, ...], epsilon: str, delta: str
) -> None:
    sensitivity = Sensitivity(sum(moves), sum(m * m for m in moves), tuple((m, 1) for m in moves))
    variance = float(variance_for(Fraction(epsilon), Fraction(delta), sensitivity))
    assert enumerated_delta(variance, moves, float(epsilon)) <= float(delta)


@pytest.mark.parametrize("moves", [(10,), (7, 8), (40,)])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.5", "0.01")])
def test_one_percent_less_noise_violates_it(
    moves: tuple[int, ...], epsilon: str, delta: str
) -> None:
    sensitivity = Sensitivity(sum(moves), sum(m * m for m in moves))
    variance = float(variance_for(Fraction(epsilon), Fraction(delta), sensitivity))
    assert enumerated_delta(variance * 0.99**2, moves, float(epsilon)) > float(delta)


@pytest.mark.parametrize("count", [5, 20])
def test_many_coordinates_against_composed_loss_distributions(count: int) -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    epsilon = Fraction(1)
    delta = Fraction(1, 10**6)
    variance = float(variance_for(epsilon, delta, Sensitivity(count, count, ((1, count),))))

    def delta_at(sigma_squared: float) -> float:
        one = pld.from_discrete_gaussian_mechanism(
            math.sqrt(sigma_squared), sensitivity=1, value_discretization_interval=1e-4
        )
        return float(one.self_compose(count).get_delta_for_epsilon(1.0))

    assert delta_at(variance) <= 1e-6
    assert delta_at(variance * 0.97) > 1e-6


def test_rounding_variance_is_a_small_price() -> None:
    for count in (1, 30, 10**6):
        sensitivity = Sensitivity(count, count)
        variance = float(variance_for(Fraction(1), Fraction(1, 10**6), sensitivity))
        excess = variance - count * analytic_gaussian_sigma(1, 1e-6) ** 2
        assert 0 < excess < 3

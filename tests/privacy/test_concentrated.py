"""The conversion between rho and (epsilon, delta) is the tight one, and rounds towards privacy."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counton.base.errors import InvalidInputError
from counton.privacy.calibration import elders_scale
from counton.privacy.concentrated import (
    best_order,
    concentrated_by_pure,
    log_rounded_down,
    pure_within,
    renyi_by_pure,
    renyi_within,
    rho_within,
)
from counton.privacy.gaussian import delta_at_most


def mp(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def delta_of_zcdp(rho: mpmath.mpf, epsilon: mpmath.mpf, every_order: bool) -> mpmath.mpf:
    """Proposition 12 of Canonne, Kamath and Steinke, minimised over alpha in 40 digits."""

    def log_delta(log_u: mpmath.mpf) -> mpmath.mpf:
        u = mpmath.exp(log_u)
        alpha = 1 + u
        return u * (alpha * rho - epsilon) - log_u + alpha * (mpmath.log(u) - mpmath.log(alpha))

    low = mpmath.mpf(-90)
    high = mpmath.mpf(70)
    for _ in range(170):  # ternary search: log_delta is unimodal
        third = (high - low) / 3
        if log_delta(low + third) < log_delta(high - third):
            high -= third
        else:
            low += third
    best = (low + high) / 2
    if every_order:
        return mpmath.exp(log_delta(best))
    below = max(mpmath.floor(mpmath.exp(best)), 1)
    return mpmath.exp(min(log_delta(mpmath.log(below)), log_delta(mpmath.log(below + 1))))


CASES = [("1", "1e-6"), ("0.01", "1e-9"), ("8", "1e-12"), ("0.5", "0.05"), ("3", "1e-60")]


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_rho_within_satisfies_the_bound_and_hardly_more_would(
    epsilon: str, delta: str, every: bool
) -> None:
    e = Fraction(epsilon)
    d = Fraction(delta)
    rho = rho_within(e, d, every_order=every)
    with mpmath.workdps(40):
        assert delta_of_zcdp(mp(rho), mp(e), every) <= mp(d)
        assert delta_of_zcdp(mp(rho) * (1 + mpmath.mpf("1e-8")), mp(e), every) > mp(d)


def test_rho_at_whole_orders_is_nearly_that_at_every_order() -> None:
    """rho lost by converting at 22 instead of 21.98, and at worst, where the best order is 2.4."""
    for epsilon, delta, least in (("1", "1e-6", 0.999999), ("0.5", "0.05", 0.98)):
        e = Fraction(epsilon)
        d = Fraction(delta)
        ratio = rho_within(e, d) / rho_within(e, d, every_order=True)
        assert least < ratio <= 1


def test_between_whole_orders_the_divergence_is_bounded_by_convexity() -> None:
    """Discrete Gaussian noise around its worst centre: above alpha rho there, within the bound."""
    above = 0
    for sigma, order in itertools.product((0.3, 0.5, 0.7), (1.25, 1.5, 2.5, 3.5, 4.75)):
        rho = 1 / (2 * sigma**2)
        worst = max(renyi_around(centre / 64, sigma, order) for centre in range(64))
        above += worst > order * rho * (1 + 1e-9)
        part = order % 1
        assert worst <= order * rho + part * (1 - part) * rho / (order - 1)
        for whole in (2, 3, 4, 5):
            worst = max(renyi_around(centre / 64, sigma, whole) for centre in range(64))
            assert worst == pytest.approx(whole * rho, rel=1e-12)
    assert above > 5


def renyi_around(centre: float, sigma: float, order: float) -> float:
    """Renyi divergence of a discrete Gaussian around a centre from itself, moved by 1."""
    k = np.arange(-60, 61)
    logs = -((k - centre) ** 2) / (2 * sigma**2)
    logs -= np.log(np.sum(np.exp(logs)))
    mean = np.sum(np.exp(order * logs[1:] + (1 - order) * logs[:-1]))
    return float(np.log(mean) / (order - 1))


@pytest.mark.parametrize("nines", [3, 6, 7, 9, 13, 20, 40])
@pytest.mark.parametrize("epsilon", ["0.001", "1", "10"])
def test_near_a_delta_of_one_rounding_is_towards_privacy_too(nines: int, epsilon: str) -> None:
    """Where ln(delta) is the small difference of large numbers."""
    e = Fraction(epsilon)
    d = 1 - Fraction(1, 10**nines)
    rho = rho_within(e, d, every_order=True)
    with mpmath.workdps(70):
        assert (
            mpmath.exp(log_rounded_down(d)) <= mp(d) < mpmath.exp(log_rounded_down(d) * (1 - 1e-14))
        )
        assert delta_of_zcdp(mp(rho), mp(e), True) <= mp(d)
        if nines <= 20:  # orders nearer to 1 than e^-60 are not searched
            assert delta_of_zcdp(mp(rho) * (1 + mpmath.mpf("1e-8")), mp(e), True) > mp(d)
        a = 1 / mp(elders_scale(e, d, 1))
        assert a**2 / 2 + a * mpmath.sqrt(-2 * mpmath.log(mp(d))) <= mp(e)


def test_logarithms_of_long_fractions_are_rounded_down() -> None:
    for d in (
        Fraction(10**300 // 3 * 2 - 1, 10**300),
        Fraction(3**600 + 1, 3**601),
        Fraction(1, 7),
    ):
        with mpmath.workdps(400):
            exact = mpmath.log(mp(d))
            assert exact * (1 + mpmath.mpf("1e-14")) < log_rounded_down(d) < exact


@settings(max_examples=50)
@given(st.floats(0.001, 20), st.floats(-30, -1))
def test_a_gaussian_with_this_rho_keeps_epsilon_and_delta(epsilon: float, exponent: float) -> None:
    """Independent of the formula: the exact delta of a Gaussian mechanism with that rho."""
    delta = 10.0**exponent
    rho = float(rho_within(Fraction(epsilon), Fraction(delta)))
    assert delta_at_most((2 * rho) ** -0.5, epsilon) <= delta


def test_pure_and_concentrated() -> None:
    assert concentrated_by_pure(Fraction(1, 10)) == Fraction(1, 200)
    assert concentrated_by_pure(Fraction(5)) == 5
    with pytest.raises(InvalidInputError):
        concentrated_by_pure(Fraction(-1))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5, 6.0])
def test_randomised_response_has_the_concentration_claimed(epsilon: float) -> None:
    """The extreme epsilon-DP mechanism: no Renyi divergence exceeds alpha * rho."""
    rho = float(concentrated_by_pure(Fraction(epsilon)))
    with mpmath.workdps(30):
        p = 1 / (1 + mpmath.exp(-epsilon))
        for alpha in (1.001, 1.5, 2, 5, 20, 100):
            moment = p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)
            assert mpmath.log(moment) / (alpha - 1) <= alpha * rho


@settings(max_examples=60)
@given(st.floats(1e-4, 60), st.floats(-6, 8))
def test_pure_guarantees_at_one_order_are_those_of_randomised_response(
    epsilon: float, log_order: float
) -> None:
    e = Fraction(epsilon)
    order = 1 + Fraction(math.exp(log_order))
    bound = renyi_by_pure(e, order)
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mp(e)))
        alpha = mp(order)
        moment = p**alpha * (1 - p) ** (1 - alpha) + (1 - p) ** alpha * p ** (1 - alpha)
        least = mpmath.log(moment) / (alpha - 1)
        assert least <= mp(bound) <= least + mpmath.mpf("1e-13") * (1 + 1 / (alpha - 1))
    assert bound <= min(e, order * e**2 / 2)


@settings(max_examples=60)
@given(st.floats(1e-6, 5), st.floats(-3, 6))
def test_pure_within_returns_largest_epsilon_for_loss(loss: float, log_order: float) -> None:
    order = 1 + Fraction(math.exp(log_order))
    fits = pure_within(Fraction(loss), order)
    assert renyi_by_pure(fits, order) <= Fraction(loss)
    assert renyi_by_pure(fits * Fraction(100001, 100000), order) > Fraction(loss)


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_one_order_is_enough_and_its_loss_satisfies_the_bound(epsilon: str, delta: str) -> None:
    e = Fraction(epsilon)
    d = Fraction(delta)
    order = best_order(e, d)
    assert rho_within(e, d) * Fraction(99999, 100000) < renyi_within(e, d, order) / order
    for alpha in (order, 2 * order, 1 + (order - 1) / 3):
        loss = renyi_within(e, d, alpha)
        with mpmath.workdps(60):
            a = mp(alpha)
            factor = (1 - 1 / a) ** a / (a - 1)
            assert mpmath.exp((a - 1) * (mp(loss) - mp(e))) * factor <= mp(d)
            assert mpmath.exp((a - 1) * (mp(loss) + mp(e) / 10**8 - mp(e))) * factor > mp(d)

"""The conversion between rho and (epsilon, delta) is the tight one, and rounds towards privacy."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counton.errors import InvalidInput
from counton.privacy.concentrated import (
    concentrated_by_pure,
    epsilon_within,
    rho_within,
)
from counton.privacy.gaussian import delta_at_most


def mp(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def delta_of_zcdp(rho: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """Proposition 12 of Canonne, Kamath and Steinke, minimised over alpha in 40 digits."""

    def log_delta(log_u: mpmath.mpf) -> mpmath.mpf:
        u = mpmath.exp(log_u)
        alpha = 1 + u
        return u * (alpha * rho - epsilon) - log_u + alpha * (mpmath.log(u) - mpmath.log(alpha))

    low, high = mpmath.mpf(-40), mpmath.mpf(40)
    for _ in range(130):  # ternary search: log_delta is unimodal
        third = (high - low) / 3
        if log_delta(low + third) < log_delta(high - third):
            high -= third
        else:
            low += third
    return mpmath.exp(log_delta((low + high) / 2))


CASES = [("1", "1e-6"), ("0.01", "1e-9"), ("8", "1e-12"), ("0.5", "0.05"), ("3", "1e-60")]


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_rho_within_satisfies_the_bound_and_hardly_more_would(epsilon: str, delta: str) -> None:
    e, d = Fraction(epsilon), Fraction(delta)
    rho = rho_within(e, d)
    with mpmath.workdps(40):
        assert delta_of_zcdp(mp(rho), mp(e)) <= mp(d)
        assert delta_of_zcdp(mp(rho) * (1 + mpmath.mpf("1e-8")), mp(e)) > mp(d)


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_epsilon_within_satisfies_the_bound_and_hardly_less_would(epsilon: str, delta: str) -> None:
    d = Fraction(delta)
    rho = rho_within(Fraction(epsilon), d)
    e = epsilon_within(rho, d)
    assert Fraction(epsilon) * (1 - Fraction(1, 10**9)) < e
    with mpmath.workdps(40):
        assert delta_of_zcdp(mp(rho), mp(e)) <= mp(d)
        assert delta_of_zcdp(mp(rho), mp(e) * (1 - mpmath.mpf("1e-8"))) > mp(d)


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
    with pytest.raises(InvalidInput):
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

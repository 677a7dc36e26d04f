"""Composed losses of discrete Laplace noise against exact sums over all outputs."""

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest

from counton import plan
from counton.base.distributions import DiscreteLaplace
from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP
from counton.privacy.calibration import elders_scale
from counton.privacy.laplace import composed_delta, least_scale, loss_masses


def binomial_delta(rate: float, count: int, epsilon: float) -> mpmath.mpf:
    """Unit shifts have losses of +-rate only, so `count` of them compose to a binomial law."""
    with mpmath.workdps(50):
        a = mpmath.mpf(rate)
        e = mpmath.mpf(epsilon)
        p = 1 / (1 + mpmath.exp(-a))
        total = mpmath.mpf(0)
        for k in range(count + 1):
            loss = (2 * k - count) * a
            if loss > e:
                mass = mpmath.binomial(count, k) * p**k * (1 - p) ** (count - k)
                total += mass * (1 - mpmath.exp(e - loss))
        return total


def enumerated_delta(scale: float, magnitude: int, count: int, epsilon: float) -> float:
    """Hockey-stick divergence by summing over all outputs."""
    reach = int(45 * scale) + magnitude
    x = np.arange(-reach, reach + 1)
    here = np.exp(-np.abs(x) / scale)
    there = np.exp(-np.abs(x - magnitude) / scale)
    here, there = here / here.sum(), there / here.sum()
    one = np.ones(1)
    other = np.ones(1)
    for _ in range(count):
        one = np.multiply.outer(one, here).ravel()
        other = np.multiply.outer(other, there).ravel()
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


@pytest.mark.parametrize("count", [1, 2, 7, 20, 63, 200])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0])
def test_unit_shifts_follow_the_binomial_formula(count: int, epsilon: float) -> None:
    scale = Fraction(37, 4)
    delta = composed_delta(scale, 1, count, epsilon)
    true = binomial_delta(4 / 37, count, epsilon)
    assert true * (1 - mpmath.mpf("1e-12")) <= delta <= true * (1 + mpmath.mpf("1e-9"))


@pytest.mark.parametrize(("magnitude", "count"), [(1, 1), (3, 1), (10, 1), (2, 2), (5, 2)])
@pytest.mark.parametrize("epsilon", [0.1, 0.7])
def test_larger_shifts_against_all_outputs(magnitude: int, count: int, epsilon: float) -> None:
    scale = 3.0 * magnitude ** (1 / 2)
    delta = composed_delta(Fraction(scale), magnitude, count, epsilon)
    assert math.isclose(
        delta, enumerated_delta(scale, magnitude, count, epsilon), rel_tol=1e-9, abs_tol=1e-14
    )


@pytest.mark.parametrize("magnitude", [1, 2, 5, 64])
def test_masses_are_the_law_of_the_loss(magnitude: int) -> None:
    rate = 0.37
    losses, masses = loss_masses(rate, magnitude, magnitude)
    found: dict[int, float] = {}
    for x in range(-400, 401 + magnitude):
        mass = math.exp(-rate * abs(x)) * math.tanh(rate / 2)
        loss = abs(x - magnitude) - abs(x)
        found[loss] = found.get(loss, 0.0) + mass
    for loss, mass in zip(losses.tolist(), masses.tolist(), strict=True):
        assert math.isclose(mass, found.get(loss, 0.0), rel_tol=1e-12, abs_tol=1e-15)


@pytest.mark.parametrize(("magnitude", "groups"), [(7, 4), (40, 8), (1000, 12), (10**9, 12)])
@pytest.mark.parametrize("reach", [1e-6, 0.3, 4.0])
def test_grouping_keeps_both_probabilities(magnitude: int, groups: int, reach: float) -> None:
    """Each side's probabilities sum to 1, so mass only moved within intervals."""
    rate = reach / magnitude
    losses, masses = loss_masses(rate, magnitude, groups)
    assert (masses >= 0).all()
    assert math.isclose(masses.sum(), 1, rel_tol=1e-12)
    neighbour = masses * np.exp(-losses * rate * magnitude / groups)
    assert neighbour.sum() <= 1 + 1e-12
    assert math.isclose(neighbour.sum(), 1, rel_tol=1e-9)


@pytest.mark.parametrize(("magnitude", "groups"), [(1000, 12), (4096, 64)])
def test_losses_beyond_what_float64_can_hold_are_grouped(magnitude: int, groups: int) -> None:
    """Above 700 the exponentials left float64, with a warning, and no number was a mass."""
    for reach in (690.0, 710.0, 5000.0):
        losses, masses = loss_masses(reach / magnitude, magnitude, groups)
        assert (masses >= 0).all()
        assert math.isclose(masses.sum(), 1, rel_tol=1e-12)
        kept = masses > 1e-300  # the others have no logarithm
        tilted = np.exp(np.log(masses[kept]) - losses[kept] * reach / groups)
        assert tilted.sum() <= 1 + 1e-9


@pytest.mark.parametrize("guarantee", [PureDP(800), ApproxDP(800, 1e-6), ZCDP(10**9)], ids=repr)
def test_guarantees_that_hide_nothing_plan_without_a_warning(guarantee: Guarantee) -> None:
    ranked = plan(100, guarantee)
    assert "std" in ranked.describe()
    assert all(factor.factor >= 1 for factor in ranked.factors)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_grouping_is_pessimistic_and_tight(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from counton.privacy import laplace

    scale = Fraction(40 * 5 * math.isqrt(4 * count), 2)
    exact = [composed_delta(scale, 12, count, e) for e in (0.05, 0.2, 0.5, 1.0)]
    monkeypatch.setattr(laplace, "_groups", lambda magnitude, count: 8)
    grouped = [composed_delta(scale, 12, count, e) for e in (0.05, 0.2, 0.5, 1.0)]
    for fine, coarse in zip(exact, grouped, strict=True):
        assert fine * (1 - 1e-12) <= coarse <= fine * 1.05 + 1e-15


@pytest.mark.parametrize("count", [2, 13, 40, 100])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.2", "1e-9"), ("4", "1e-12")])
def test_least_scale_satisfies_the_bound_and_hardly_less_would(
    count: int, epsilon: str, delta: str
) -> None:
    e = Fraction(epsilon)
    d = Fraction(delta)
    pure = count / e
    scale = least_scale(e, d, 1, count, pure)
    assert scale <= pure
    assert binomial_delta(float(1 / scale), count, float(e)) <= float(d)
    assert binomial_delta(float(1 / scale) * 1.01, count, float(e)) > float(d)


@pytest.mark.parametrize("magnitude", [2, 9])
def test_least_scale_of_larger_shifts_by_enumeration(magnitude: int) -> None:
    scale = float(
        least_scale(Fraction(1), Fraction(1, 1000), magnitude, 2, Fraction(2 * magnitude))
    )
    assert enumerated_delta(scale, magnitude, 2, 1.0) <= 0.001
    assert enumerated_delta(scale * 0.99, magnitude, 2, 1.0) > 0.001


@pytest.mark.parametrize(("epsilon", "delta"), list(product(["0.1", "1", "5"], ["1e-6", "1e-12"])))
@pytest.mark.parametrize("count", [30, 200])
def test_the_bound_of_elders_holds(count: int, epsilon: str, delta: str) -> None:
    """Andersson et al., Theorem 1.3: a^2/2 + a sqrt(2 ln(1/delta)) = epsilon, scale l2/a."""
    scale = elders_scale(Fraction(epsilon), Fraction(delta), count)
    a = math.sqrt(count) / float(scale)
    assert math.isclose(
        a * (a / 2 + math.sqrt(-2 * math.log(float(delta)))), float(epsilon), rel_tol=1e-9
    )
    assert binomial_delta(float(1 / scale), count, float(epsilon)) <= float(delta)


def test_when_noise_may_all_but_vanish_the_search_ends() -> None:
    scale = least_scale(Fraction(1), Fraction(99, 100), 1, 1, Fraction(1))
    assert DiscreteLaplace(scale).variance < 1
    assert binomial_delta(float(1 / scale), 1, 1.0) <= 0.99

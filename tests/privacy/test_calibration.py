"""Which law is taken, why, and that it keeps the guarantee."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP, Sensitivity, calibrate


@given(st.fractions("0.001", "100"), st.integers(1, 1000))
def test_pure_is_laplace_of_the_exact_scale(epsilon: Fraction, l1: int) -> None:
    distribution = calibrate(PureDP(epsilon), Sensitivity(l1, l1)).distribution
    assert distribution == DiscreteLaplace(l1 / epsilon)


@given(st.fractions("0.001", "1"), st.integers(1, 1000))
def test_concentrated_is_gaussian_of_the_exact_variance(rho: Fraction, count: int) -> None:
    distribution = calibrate(ZCDP(rho), Sensitivity(2 * count, 4 * count)).distribution
    assert distribution == DiscreteGaussian(4 * count / (2 * rho))


def test_concentrated_takes_laplace_where_it_has_less_variance() -> None:
    """One large jump and a large rho: P(x = 1) is exp(-rho/l1) against exp(-rho/l1^2)."""
    chosen = calibrate(ZCDP(300), Sensitivity(10, 100))
    assert chosen.distribution == DiscreteLaplace(Fraction(10, 300))
    # epsilon = l1 / scale bounds every Renyi divergence, and alpha > 1.
    assert 10 / chosen.distribution.scale <= 300
    assert (
        chosen.distribution.variance
        < calibrate(ZCDP(300), Sensitivity(10, 100), "gaussian").distribution.variance
    )


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-9", "1e-12", "1e-15", "1e-40", "1e-300"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
@pytest.mark.parametrize("count", [1, 4, 20, 90])
def test_approximate_takes_the_least_variance(count: int, epsilon: str, delta: str) -> None:
    chosen = calibrate(ApproxDP(epsilon, delta), Sensitivity(count, count, ((1, count),)))
    assert len(chosen.candidates) == 6
    assert chosen.distribution.variance == min(
        candidate.variance for candidate in chosen.candidates
    )
    assert [c.variance for c in chosen.candidates] == sorted(c.variance for c in chosen.candidates)
    assert chosen.reason.startswith(chosen.candidates[0].method)
    by_method = {c.method: c.variance for c in chosen.candidates}
    composed = by_method["Laplace by composed privacy-loss distributions"]
    for method, variance in by_method.items():
        assert not method.startswith("Laplace") or composed <= variance * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "0.01"), ("5", "1e-9")])
@pytest.mark.parametrize("magnitude", [1, 3])
def test_every_candidate_keeps_the_guarantee(magnitude: int, epsilon: str, delta: str) -> None:
    """One node that moves by `magnitude`: the divergence is a sum over the integers."""
    shift = Sensitivity(magnitude, magnitude**2, ((magnitude, 1),))
    chosen = calibrate(ApproxDP(epsilon, delta), shift)
    assert all(candidate.distribution is not None for candidate in chosen.candidates)
    for candidate in chosen.candidates:
        assert one_node_delta(candidate.distribution, magnitude, float(epsilon)) <= float(delta)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "0.01"), ("5", "1e-9")])
def test_every_laplace_candidate_keeps_the_guarantee_for_many_nodes(
    epsilon: str, delta: str
) -> None:
    shift = Sensitivity(80, 80, ((1, 80),))
    laplace = [
        c.distribution
        for c in calibrate(ApproxDP(epsilon, delta), shift).candidates
        if isinstance(c.distribution, DiscreteLaplace)
    ]
    assert len(laplace) == 4
    for distribution in laplace:
        a = 1 / float(distribution.scale)
        e = float(epsilon)
        p = 1 / (1 + math.exp(-a))
        losses = [
            ((2 * k - 80) * a, math.comb(80, k) * p**k * (1 - p) ** (80 - k)) for k in range(81)
        ]
        assert sum(-mass * math.expm1(e - x) for x, mass in losses if x > e) <= float(delta)


def one_node_delta(distribution: object, magnitude: int, epsilon: float) -> float:
    reach = 2000
    x = np.arange(-reach, reach + 1).astype(float)
    if isinstance(distribution, DiscreteLaplace):
        exponents = [-np.abs(x - m) / float(distribution.scale) for m in (magnitude, 0)]
    else:
        assert isinstance(distribution, DiscreteGaussian)
        exponents = [
            -((x - m) ** 2) / (2 * float(distribution.sigma_squared)) for m in (magnitude, 0)
        ]
    one, other = (np.exp(e) / np.exp(e).sum() for e in exponents)
    # Differences of the size of the rounding error of exp are no violation of pure privacy.
    return float(np.maximum(one - math.exp(epsilon) * other - 1e-12 * one, 0).sum())


@pytest.mark.parametrize("rho", ["0.001", "0.1", "0.5", "2", "8"])
def test_partly_revealed_laplace_noise_keeps_rho(rho: str) -> None:
    """Then all nodes' losses may be one coin of +-l1 / scale: its divergences, at whole orders."""
    shift = Sensitivity(24, 24, ((1, 24),))
    seen = calibrate(ZCDP(rho), shift, "laplace", causal=False).distribution
    assert isinstance(seen, DiscreteLaplace)
    epsilon = 24 / float(seen.scale)
    most = float(Fraction(rho))
    up = 1 / (1 + math.exp(-epsilon))
    for order in (2, 3, 5, 10, 40):
        likely = order * math.log(up) + (1 - order) * math.log1p(-up)
        other = order * math.log1p(-up) + (1 - order) * math.log(up)
        divergence = float(np.logaddexp(likely, other)) / (order - 1)
        assert divergence <= order * most * (1 + 1e-9)
    unseen = calibrate(ZCDP(rho), shift, "laplace").distribution
    assert seen.variance >= unseen.variance


def test_small_deltas_favour_laplace_and_large_ones_gaussian() -> None:
    shift = Sensitivity(20, 20, ((1, 20),))
    assert isinstance(calibrate(ApproxDP(1, 1e-6), shift).distribution, DiscreteGaussian)
    assert isinstance(calibrate(ApproxDP(1, 1e-30), shift).distribution, DiscreteLaplace)


@pytest.mark.parametrize("guarantee", [PureDP(1), ZCDP(0.5), ApproxDP(1, 1e-6), ApproxDP(1, 1e-30)])
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_family_can_be_forced(guarantee: Guarantee, family: str) -> None:
    if isinstance(guarantee, PureDP) and family == "gaussian":
        with pytest.raises(InvalidInputError, match="never satisfies pure"):
            calibrate(guarantee, Sensitivity(20, 20), family)
        return
    chosen = calibrate(guarantee, Sensitivity(20, 20), family)
    assert isinstance(
        chosen.distribution, DiscreteLaplace if family == "laplace" else DiscreteGaussian
    )
    assert chosen.reason.endswith(f"{family} noise was asked for")


def test_unknown_families_and_guarantees_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="family is 'cauchy'"):
        calibrate(PureDP(1), Sensitivity(1, 1), "cauchy")
    with pytest.raises(
        InvalidInputError, match="cannot be kept by noise that is equal at every age"
    ):
        calibrate("strong", Sensitivity(1, 1))


def test_calibrate_refuses_noise_out_of_range_with_advice() -> None:
    with pytest.raises(InvalidInputError, match="raise epsilon"):
        calibrate(PureDP(1e-13), Sensitivity(1, 1))
    with pytest.raises(InvalidInputError, match=r"no noise is known .*raise epsilon"):
        calibrate(ApproxDP(1e-13, 1e-13), Sensitivity(1, 1, ((1, 1),)))


def test_unknown_entries_leave_out_composition_only() -> None:
    chosen = calibrate(ApproxDP(1, 1e-6), Sensitivity(30, 60))
    missing = [c for c in chosen.candidates if c.distribution is None]
    assert ["not all known" in c.method for c in missing] == [True]
    assert missing[0].variance == math.inf


def test_results_are_remembered() -> None:
    arguments = ApproxDP(1, 1e-7), Sensitivity(12, 12, ((1, 12),))
    assert calibrate(*arguments) is calibrate(*arguments)

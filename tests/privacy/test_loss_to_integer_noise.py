"""What integer noise really costs, by the divergences of the laws of a few releases."""

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from counton.base.distributions import DiscreteGaussian
from counton.base.expiry import Expiry
from counton.privacy import ZCDP, ExpiringZCDP, expiration_loss
from counton.privacy.loss_by_age import concentrated_loss
from counton.strategies import Expiring
from counton.strategies.strategy import node_distribution

ORDERS = (1.000001, 1.01, 1.1, 1.5, 2, 4, 8, 16)


def log_distribution(distribution: Any, values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Log-probabilities of a discrete Gaussian law."""
    inner = np.arange(-200, 201)
    doubled = 2 * float(distribution.sigma_squared)
    total = np.logaddexp.reduce(-(inner**2) / doubled)
    return np.asarray(-(values**2) / doubled - total, np.float64)


def tree_distribution(
    strategy: Expiring, base: DiscreteGaussian, level: int, reach: int
) -> NDArray[np.float64]:
    """Log-law of the releases of one whole tree, on -reach..reach each, by summing over nodes."""
    values = np.arange(-reach, reach + 1)
    distributions = [node_distribution(strategy, base, lv) for lv in range(level + 1)]

    def below(lv: int, moved: int) -> NDArray[np.float64]:
        if lv == 0:
            return log_distribution(distributions[0], values - moved)
        own = log_distribution(distributions[lv], values)
        parts = []
        for noise, weight in zip(values.tolist(), own.tolist(), strict=True):
            child = below(lv - 1, moved + noise).reshape(-1)
            parts.append(child[:, None] + child[None, :] + weight)
        return np.asarray(np.logaddexp.reduce(parts), np.float64)

    return below(level, 0).reshape((len(values),) * 2**level)


def divergence(distribution: NDArray[np.float64], order: float) -> float:
    """Renyi divergence of the law from itself with every coordinate moved by one."""
    kept = distribution[tuple(slice(1, None) for _ in distribution.shape)]
    moved = distribution[tuple(slice(-1) for _ in distribution.shape)]
    exponents = order * kept + (1 - order) * moved
    return float(np.logaddexp.reduce(exponents.reshape(-1)) / (order - 1))


@pytest.mark.parametrize("growth", ["1/2", 1, 2, 3])
@pytest.mark.parametrize("rho", ["0.1", "0.3", 1, 2, 5])
def test_divergence_at_each_age_is_within_guarantee(growth: str | int, rho: str | int) -> None:
    # Positions 1 and 2..3: a tree of one release and a tree of two.
    strategy = Expiring(growth)
    reach = 24 if rho == "0.1" else 14
    guarantee = ExpiringZCDP(rho).bound_to(strategy)
    base = DiscreteGaussian(1 / (2 * guarantee.rho))
    promised = guarantee.at_age(2)
    assert promised is not None
    trees = [tree_distribution(strategy, base, level, reach) for level in (0, 1)]
    for order in ORDERS if reach == 14 else ORDERS[:5]:  # the table must hold what the order weighs
        lost = sum(divergence(tree, order) for tree in trees)
        # Tables are cut off, which costs the least orders some of their precision.
        assert lost / order <= float(promised.rho) * (1 + 1e-6) + 1e-10 / (order - 1), order


def test_narrow_noise_loses_more_than_continuous_noise_would() -> None:
    strategy = Expiring(growth=1)
    base = DiscreteGaussian(Fraction(1, 10))  # rho = 5
    trees = [tree_distribution(strategy, base, level, 3) for level in (0, 1, 2)]
    lost = sum(divergence(tree, 1.01) for tree in trees) / 1.01  # positions 1..7
    continuous = 5 * expiration_loss(strategy, [6], "concentrated")[0]
    assert lost > 1.15 * continuous
    assert ExpiringZCDP(5).bound_to(strategy).at_age(6) == ZCDP(15)
    assert lost <= 15


@pytest.mark.slow
def test_wide_noise_loses_next_to_nothing_more() -> None:
    for growth, age in itertools.product(("1/2", "1", "2"), (1, 10, 10**6, 2**40)):
        strategy = Expiring(growth)
        rho = Fraction(1, 10_000)
        lost = float(concentrated_loss(strategy.expiry, rho, age) / rho)
        loss = expiration_loss(strategy, [age], "concentrated")[0]
        assert loss <= lost <= loss * (1 + 1e-6)


@pytest.mark.parametrize("growth", ["1/2", 1, "3/2", 3])
@pytest.mark.slow
def test_concentrated_loss_grows_with_age_up_to_expiration_loss(growth: str | int) -> None:
    ages = [*range(40), 1000, 8760, 10**6, 2**62]
    for rho in (Fraction(1, 1000), Fraction(1, 30), Fraction(1), Fraction(10**300)):
        losses = [concentrated_loss(Expiry(growth, delay=3), rho, age) / rho for age in ages]
        assert losses[:4] == [0, 0, 0, 1]
        assert losses == sorted(losses)
        exact = expiration_loss(Expiring(growth, delay=3), ages)
        assert all(a <= b * (1 + 1e-11) for a, b in zip(losses, exact, strict=True))


def test_the_ratio_of_theta_is_bounded() -> None:
    # Four releases under one interval: Theta by summing over its three inner intervals.
    from counton.privacy.loss_by_age import _log_ratio

    for rho in (0.05, 0.1, 0.15):
        variance = 1 / (2 * rho)
        numbers = np.arange(-25, 26)
        top, left, right = np.meshgrid(numbers, numbers, numbers, indexing="ij")
        own = top**2 + (left - top) ** 2 + (right - top) ** 2
        precision = np.array([[3, -1, -1], [-1, 3, 0], [-1, 0, 3]])
        sums = []
        for a, b in itertools.product(range(5), range(5)):
            releases = np.array([0, a, 0, b])
            leaves = sum(
                (r - s) ** 2 for r, s in zip(releases, (left, left, right, right), strict=True)
            )
            centre = np.linalg.solve(precision, [0, a, b])
            least = releases @ releases - np.array([0, a, b]) @ centre
            sums.append(np.exp(-(own + leaves - least) / (2 * variance)).sum())
        ratio = math.log(max(sums) / min(sums))
        claimed = _log_ratio(Expiry(1, levels=3), rho, 4, 2)
        assert claimed is not None
        assert ratio <= claimed
        assert ratio > 0

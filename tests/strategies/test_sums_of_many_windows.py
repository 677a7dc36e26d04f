"""Variances of sums of many windows: at once, and pair by pair."""

from fractions import Fraction

import numpy as np
import pytest

from counton.base.distributions import DiscreteLaplace
from counton.strategies import (
    LeastSquaresStrategy,
    StreamStrategy,
    noise_variance,
    public_strategies,
)
from counton.strategies.joint_errors import sum_noise_variance
from counton.strategies.strategy import last_served_step
from counton.tables import Hats

DISTRIBUTION = DiscreteLaplace(Fraction(3))
CASES = [strategy for cls in public_strategies() for strategy in cls.examples(60)]
TREES = LeastSquaresStrategy(Hats(8, (4,), [[8, 4, 8]], bits=4), (2, 3))


@pytest.mark.parametrize("strategy", [*CASES, TREES], ids=lambda one: type(one).__name__)
def test_sum_noise_variance_equals_that_of_dense_matrix(strategy: StreamStrategy) -> None:
    last = min(last_served_step(strategy) or 60, 240)
    rng = np.random.default_rng(1)
    stops = np.sort(rng.choice(np.arange(1, last + 1), min(33, last), replace=False))
    for weights in (rng.normal(size=len(stops)), np.ones(len(stops))):
        found = sum_noise_variance(strategy, DISTRIBUTION, stops, weights)
        if found is None:
            assert strategy.saved_name in {
                "EndlessBandedRoot",
                "EndlessHats",
                "Epochs",
                "Expiring",
                "GrowingBlocks",
                "GrowingSquareRoot",
                "Octave",
            }
            return
        low = np.minimum(stops[:, None], stops)
        high = np.maximum(stops[:, None], stops)
        apart = noise_variance(strategy, DISTRIBUTION, high, since=low)
        alone = np.asarray(noise_variance(strategy, DISTRIBUTION, stops, since=0 * stops))
        assert found == pytest.approx(weights @ (alone[:, None] + alone - apart) @ weights / 2)

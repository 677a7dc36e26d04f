"""An attacker who knows everything but the noise: what he finds is below what is claimed.

He plants a canary, a gradient as long as the clip in every step of one schedule, and tells runs
with it from runs without by the best statistic there is. Every coordinate of a large parameter is a
run of its own. From how often he is right follows a lower bound on epsilon, with confidence
1 - 1e-6.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from keys import chosen_key
from scipy import stats

from counton import ApproxDP
from counton.training import TrainingNoise
from counton.training.strategies import BufferedToeplitz, Echo, OctaveTraining, TrainingStrategy

RUNS = 200_000
EPSILON = 2.0
DELTA = 1e-5
STRATEGIES: list[Callable[[], TrainingStrategy]] = [
    lambda: BufferedToeplitz.fit(8, 2, scaling="equal"),
    lambda: Echo.fit(8, 2, 1, "free"),
    lambda: OctaveTraining.fit(8, 2, scaling="free"),
]


def epsilon_found(strategy: TrainingStrategy, narrower: float) -> float:
    """Lower bound on epsilon from runs with and without the canary."""
    noise = TrainingNoise(
        strategy, key=chosen_key(), name="audit", guarantee=ApproxDP(EPSILON, DELTA), clip=1
    )
    noise.std *= narrower
    encoder = strategy.encoder()
    gram = encoder.T @ encoder
    own = np.arange(0, 8, 4)
    canary = np.zeros(8)
    canary[own] = 1, np.sign(gram[own[0], own[1]])  # the sign that adds up
    drawn = np.array([noise.read(step, "w", 2 * RUNS) for step in range(1, 9)])
    matrix, _ = strategy.increments()
    best = np.linalg.solve(matrix @ matrix.T, canary)  # the likelihood ratio's direction
    score = best @ drawn
    without = score[:RUNS]
    present = score[RUNS:] + best @ canary
    found = 0.0
    for share in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001):
        threshold = np.quantile(without[: RUNS // 4], 1 - share)  # chosen on other runs
        rest = without[RUNS // 4 :]
        false = int((rest > threshold).sum())
        true = int((present > threshold).sum())
        most_false = stats.beta.ppf(1 - 1e-6, false + 1, len(rest) - false)
        least_true = stats.beta.ppf(1e-6, true, RUNS - true + 1)
        found = max(found, math.log((least_true - DELTA) / most_false))
    return found


@pytest.mark.parametrize("make", STRATEGIES)
def test_a_canary_shows_no_more_than_is_claimed(make: Callable[[], TrainingStrategy]) -> None:
    found = epsilon_found(make(), narrower=1)
    assert 0.5 * EPSILON < found < EPSILON


@pytest.mark.parametrize("make", STRATEGIES)
def test_noise_that_was_halved_is_found_out(make: Callable[[], TrainingStrategy]) -> None:
    assert epsilon_found(make(), narrower=0.5) > EPSILON

"""How far an expiring stream's releases stray at worst, and what no mechanism can stay below."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np

from counton.errors import InvalidInput
from counton.exact import check_integer
from counton.expiry import Expiry
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.strategies import Expiring

#: With which plans promise their largest error, as Theorem 5.1 does.
PROBABILITY = 2 / 3


def allowed_loss(targets: Mapping[int, float], age: int) -> float:
    """The most an item of this age may have lost: the least target at this age or later."""
    return min((loss for at, loss in targets.items() if at >= age), default=math.inf)


def least_largest_error(targets: Mapping[int, float], steps: int) -> float:
    """No mechanism at all keeps every one of ``steps`` releases closer than this to the truth.

    For streams of 0 and 1, with probability 2/3: the largest error, in halves, that the theorem
    rules out; 0 if it rules out none. It says nothing about larger ones.

    Source: Andersson et al., "Continual Counting with Gradual Privacy Expiration", Theorem 5.1:
    errors strictly below C < steps / 2 at all steps need
    sum_{d = 0}^{2C - 1} g(d) >= ln(steps / (6 C)). Its proof compares streams with a block of 2C
    ones; so 2C has to be an integer, and C need not be.

    Args:
        targets: largest loss by age. Beyond the largest age nothing is asked.
        steps: length of the stream.

    >>> least_largest_error({24: 0.1, 8760: 0.3}, steps=10**6)
    23.0
    """
    steps = check_integer("steps", steps, 1)

    def open_to(block: int) -> bool:
        """Whether errors below half of this are not ruled out; beyond rounding errors."""
        return _sum_below(targets, block) * (1 + 1e-12) >= math.log(steps / (3 * block))

    # Larger errors allow more loss and need less of it: the first that fits is found by halving.
    return bisect_left(range(1, min(steps, max(targets) + 2)), True, key=open_to) / 2


def _sum_below(targets: Mapping[int, float], end: int) -> float:
    """Sum of what an item may have lost over the ages 0..end - 1."""
    total, age = 0.0, 0
    for at in sorted(targets):
        total += allowed_loss(targets, at) * (min(at + 1, end) - age)
        age = min(at + 1, end)
    return total if age == end else math.inf


def largest_error(
    strategy: Expiring, guarantee: ExpiringDP | ExpiringZCDP, steps: int, probability: float
) -> float:
    """All noise up to ``steps`` stays below this with at least the given probability.

    Chernoff's bound for the sum of the noises at each step, and a union bound over steps.

    >>> round(largest_error(Expiring(2), ExpiringDP(0.5), steps=1000, probability=2 / 3), 1)
    24.1

    Raises:
        InvalidInput: a probability outside (0, 1).
    """
    if not 0 < probability < 1:
        raise InvalidInput(f"probability is {probability}; it must be between 0 and 1")
    if isinstance(guarantee, ExpiringZCDP):
        unit = largest_noise(strategy.expiry, steps, probability, gaussian=True)
        return unit / math.sqrt(guarantee.rho)
    return largest_noise(strategy.expiry, steps, probability, gaussian=False) / float(
        guarantee.epsilon
    )


def largest_noise(expiry: Expiry, steps: int, probability: float, *, gaussian: bool) -> float:
    """`largest_error` for an epsilon, or a rho, of 1."""
    height = min(max(steps - expiry.delay, 1).bit_length(), expiry.top + 1)
    return _largest_noise(expiry.growth, height, math.log(2 * steps / (1 - probability)), gaussian)


@lru_cache(maxsize=2**14)
def _largest_noise(growth: Fraction, height: int, log_count: float, gaussian: bool) -> float:
    """For ``height`` levels, and a sum that may be larger with probability 2 exp(-log_count)."""
    expiry = Expiry(growth)
    scales = np.array([float(expiry.factor(level)) for level in range(height)])
    if gaussian:  # P(|sum| > x) <= 2 exp(-x^2 / (2 variance))
        return math.sqrt(log_count * float(scales.sum()))
    # P(|sum| > x) <= 2 exp(-s x) prod 1 / (1 - s^2 b^2); releases of later steps have more terms.
    s = np.geomspace(1e-2, 1 - 1e-9, 1000)[:, None] / scales.max()
    log_moment = -np.log1p(-((s * scales) ** 2)).sum(axis=1)
    return float(np.min((log_count + log_moment) / s[:, 0]))

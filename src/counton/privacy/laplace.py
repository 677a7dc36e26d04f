"""Discrete Laplace noise under (epsilon, delta), by composing the losses of all changed nodes.

dp-accounting composes them and computes delta, with the same relative error for small values as for
large ones.
"""

# A shift by m of discrete Laplace noise of scale b has the privacy losses m/b (noise <= 0), -m/b
# (noise >= m) and (m - 2x)/b in between: finitely many, on a lattice. For unit shifts there are
# only two, so n of them compose to a binomial distribution. The sparse form of dp-accounting
# multiplies and adds positive numbers only, so the result is accurate relative to delta, however
# small delta is, and nothing is truncated.
#
# Losses of large shifts are grouped. Each group's mass is split between the ends of its interval so
# that its probability and its probability under the neighbour stay the same. This is the
# pessimistic "connect the dots" of Doroshenko et al. (2022), Theorem 4.1: delta can only grow.

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from counton.base.exact import float_above, float_below, rounded_up

_SUM_ROUNDING = 1e-9  # relative error of thousands of float64 additions of positive numbers
_ROUNDING = 8e-15  # relative error of a few float64 operations
_LARGEST_EXPONENT = 700.0
_MOST_GROUPED_VALUES = 160  # number of values in the composed distribution, if losses are grouped
_MOST_CHANGED_NODES = 256  # changed nodes; with so many, Gaussian noise has half the variance
_PRECISION = 1e-5


def composable(magnitude: int, count: int) -> bool:
    """Return whether ``count`` nodes that change by ``magnitude`` are few enough for speed."""
    return count <= (_MOST_CHANGED_NODES if magnitude == 1 else _MOST_CHANGED_NODES // 4)


def least_scale(
    epsilon: Fraction, delta: Fraction, magnitude: int, count: int, enough: Fraction
) -> Fraction:
    """Return the least scale of Laplace noise that keeps (epsilon, delta), rounded up.

    One unit changes ``count`` nodes by ``magnitude`` each. The result is never above ``enough``,
    which suffices.
    """
    budget = float_below(epsilon)
    rest = float_below(delta) * (1 - _SUM_ROUNDING)

    def suffices(scale: float) -> bool:
        return composed_delta(rounded_up(scale), magnitude, count, budget) <= rest

    high = low = float_above(enough)
    step = 0.02
    while suffices(low * (1 - step)):
        low = low * (1 - step)
        step = min(2 * step, 0.5)
        high = low
        if count * magnitude / low > 600:  # e^-600: there is hardly any noise left
            return min(enough, rounded_up(high))
    low *= 1 - step
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return min(enough, rounded_up(high))


def composed_delta(scale: Fraction, magnitude: int, count: int, epsilon: float) -> float:
    """Return the delta of ``count`` nodes, each changed by ``magnitude``, for ``epsilon``."""
    from dp_accounting.pld.pld_pmf import SparsePLDPmf

    rate = float_above(1 / scale)
    groups = _groups(magnitude, count)
    largest = rate * magnitude * count
    losses, masses = loss_masses(rate, magnitude, groups)
    pairs = dict(zip(losses.tolist(), masses.tolist(), strict=True))
    power = SparsePLDPmf(pairs, rate * magnitude / groups, 0.0, True)
    total = SparsePLDPmf({0: 1.0}, rate * magnitude / groups, 0.0, True)
    for bit in range(count.bit_length()):
        if bit:
            power = power.compose(power, 0.0)
        if count >> bit & 1:
            total = total.compose(power, 0.0)
    return float(total.get_delta_for_epsilon(epsilon - _ROUNDING * (epsilon + largest)))


def _groups(magnitude: int, count: int) -> int:
    """Return into how many groups a node's losses are merged; ``magnitude``: none is merged."""
    return min(magnitude, max(4, _MOST_GROUPED_VALUES // count))


def loss_masses(
    rate: float, magnitude: int, groups: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the possible losses of a node that changes by ``magnitude``, and their probabilities.

    Its Laplace noise has scale 1 / ``rate``. Losses are in units of ``rate * magnitude / groups``.
    """
    # The noise x has probability exp(-rate |x|) (1 - e) / (1 + e), e = exp(-rate). Between 0 and
    # magnitude its loss is (magnitude - 2x) rate.
    total = 1 + math.exp(-rate)
    keys = np.arange(-groups, groups + 1)
    masses = np.zeros(2 * groups + 1)
    masses[-1] = 1 / total
    masses[0] = math.exp(-rate * magnitude) / total
    if groups == magnitude:
        inner = np.arange(1, magnitude)
        masses[2 * magnitude - 2 * inner] = np.exp(-rate * inner) * -math.expm1(-rate) / total
        return keys[::2] if magnitude == 1 else keys, masses[::2] if magnitude == 1 else masses
    # Interval j holds every x with j < (magnitude - 2x) groups / magnitude <= j + 1.
    uppers = range(-groups + 1, groups + 1)
    firsts = [-((u * magnitude - magnitude * groups) // (2 * groups)) for u in uppers]
    first = np.maximum(np.array(firsts), 1)
    last = np.minimum(np.array([magnitude, *firsts[:-1]]) - 1, magnitude - 1)
    sizes = np.maximum(last - first + 1, 0)
    mass = np.exp(-rate * first) * -np.expm1(-rate * sizes) / total
    other = np.exp(-rate * (magnitude - last)) * -np.expm1(-rate * sizes) / total
    width = rate * magnitude / groups
    # Split `mass` into up + down with up e^-upper + down e^-lower = other.
    lower = width * (np.array(list(uppers)) - 1)
    if rate * magnitude < _LARGEST_EXPONENT:
        tilted = other * np.exp(lower)
    else:  # which float64 has no number for; with the two exponents added up it has
        exponents = np.minimum(lower - rate * (magnitude - last), 0)
        tilted = np.exp(exponents) * -np.expm1(-rate * sizes) / total
    up = (mass - tilted) / -math.expm1(-width)
    up = np.clip(up + mass * (_ROUNDING / width), 0, mass)  # the difference may have cancelled
    masses[1:] += up
    masses[:-1] += mass - up
    return keys, masses

"""Lower bounds on the largest error of every mechanism with pure privacy, with their constants.

"Count on Your Elders", Theorem 1.4, bounds it on random streams, "Constant matters", Theorem 6, in
several cells, and "Continual Counting with Gradual Privacy Expiration", Theorem 5.1, if losses grow
with age. The first two are stated up to constants, which are computed here.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import numpy as np

from counton.base.arrays import Floats
from counton.base.exact import Number, check_integer, check_positive, float_above

#: Factor for bounds: it lowers them by more than all rounding errors of the sums.
_SAFE = 1 - 1e-9
#: Probability with which a mechanism must keep all its errors below a bound: in most theorems, and
#: in Theorem 1.4 of "Count on Your Elders".
_PROBABILITY = 2 / 3
_RANDOM_PROBABILITY = 3 / 4
#: Number of block sizes tried for Theorem 1.4 of "Count on Your Elders".
_BLOCKS = 200
#: Largest number of terms of a binomial law that are added up one by one.
_FEW_TERMS = 2**12
#: Coefficients of 1/m, 1/m^3, 1/m^5 and 1/m^7 in ln(C(2m, m) sqrt(pi m) / 4^m), and the m from
#: which they are enough.
_CENTRAL = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336)
_STIRLING = 32


def least_error_on_coin_flips(horizon: int, epsilon: Number) -> float:
    """Return a lower bound on the largest error of running totals of fair coin flips.

    No mechanism with pure privacy keeps all T errors below it with probability 3/4 or more, over
    the coin flips and the mechanism's noise.

    Source: Andersson, Pagh, Steiner and Torkamani, "Count on Your Elders", Theorem 1.4. As printed,
    the proof needs 10 T^(-1/20) <= 1/12, so T >= 120^20 = 3.8e41 steps. This function computes the
    bound that the proof gives for T steps.

    It is 0 if the proof gives none for so few steps.

    Raises:
        InvalidInputError: a horizon below 1, or epsilon not above 0.

    >>> [least_error_on_coin_flips(steps, 1) for steps in (100, 8760, 10**6)]
    [0.5, 2.0, 3.5]
    """
    # Cut the stream x into m blocks of B steps, and let x^i be x with k of the zeros of block i,
    # drawn at random, made ones. Its law is within D = P(X > B - k) + (mass of the k likeliest
    # values of X), X binomial (B, 1/2), of that of x. Let E_i be the event that the released totals
    # at the ends of blocks exceed those of x by more than k / 2 for the first time at the end of
    # block i. If all errors on x^i are below k / 2, E_i happens; and x^i differs from x in k steps.
    # Since the events exclude each other, 1 >= sum_i P(E_i on x) >= m e^(-k epsilon) (3/4 - D), or
    # some error is k / 2 or more.
    horizon = check_integer("horizon", horizon, 1, 2**256)
    loss = float_above(check_positive("epsilon", epsilon, "try epsilon=1"))

    def ruled_out(changed: int) -> bool:
        # In blocks beyond these, D is below 1/100.
        longest = min(horizon, 10**4 * changed**2)
        if longest < changed:
            return False
        size = np.unique(np.floor(np.geomspace(changed, longest, _BLOCKS)))
        terms = changed <= _FEW_TERMS
        apart = (_distance_by_terms if terms else _distance_by_integrals)(changed, size)
        blocks = np.floor(float(horizon) / size * _SAFE)
        log_most = math.log(float((blocks * (_RANDOM_PROBABILITY - apart)).max(initial=1.0)))
        return changed * loss < log_most * _SAFE

    return _last(ruled_out, math.ceil(math.log(horizon + 1) / loss)) / 2


def _distance_by_terms(changed: int, size: Floats) -> Floats:
    """Return D = P(X is one of its k likeliest values) + P(X > size - k) by adding up terms.

    X is binomial (size, 1/2), and k is ``changed``. In the proof of `least_error_on_coin_flips`, D
    bounds how much the distribution of a block of ``size`` coin flips changes if k of the zeros,
    drawn at random, become ones.

    >>> _distance_by_terms(2, np.array([4.0, 5.0])).tolist()  # (6 + 4 + 4 + 1) / 16, 26 / 32
    [0.9375, 0.8125]
    """
    # Importing scipy would take longer than to plan a stream. For more than 1074 steps the second
    # mass is 0: it is below 1e-100 wherever the first leaves less than 3/4.
    half = np.ceil(size / 2)
    even = size % 2 == 0
    place = np.arange(1.0, changed)[:, None]
    # From the middle outwards, each value but that of even sizes twice.
    ratios = (half - place + even) / (half + place)
    beside = np.cumprod(np.vstack([_central_mass(half), ratios]), axis=0)
    number = np.arange(changed)
    likeliest = np.where(
        even, beside[(number + 1) // 2].sum(axis=0), beside[number // 2].sum(axis=0)
    )
    outwards = (size - place + 1) / place
    least = np.cumprod(np.vstack([np.exp2(-size), outwards]), axis=0).sum(axis=0)
    return np.asarray(likeliest + least)


def _central_mass(half: Floats) -> Floats:
    """Return C(2m, m) / 4^m; for m from 32 on by Stirling's series, correct to 1e-15."""
    exact = np.array([math.comb(2 * m, m) / 4**m for m in range(_STIRLING)])
    series = sum(term / half**power for power, term in zip((1, 3, 5, 7), _CENTRAL, strict=True))
    few = exact[np.minimum(half, _STIRLING - 1).astype(np.int64)]
    return np.where(half < _STIRLING, few, np.exp(series) / np.sqrt(math.pi * half))


def _distance_by_integrals(changed: int, size: Floats) -> Floats:
    """Return D of `_distance_by_terms` by integrals, which are quick for any size."""
    from scipy.special import betainc

    def up_to(value: Floats) -> Floats:
        """Return P(X <= value) for each size."""
        inside = betainc(np.maximum(size - value, 0.5), np.maximum(value, 0.0) + 1, 0.5)
        return np.where(value >= size, 1.0, np.where(value < 0, 0.0, inside))

    middle = np.floor((size + changed) / 2)
    return up_to(middle) - up_to(middle - changed) + 1 - up_to(size - changed)


def _last(holds: Any, most: int) -> int:
    """Return the largest integer up to ``most`` for which it holds, 0 if none, by bisection."""
    low = 0
    high = most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def least_error_of_cells(cells: int, steps: int, epsilon: Number) -> float:
    """Return a lower bound on the largest error of running totals in several cells.

    On some stream, some error in some cell at some step of every mechanism with pure privacy
    reaches the bound with probability 1/3 or more. A unit counts in any one of the cells, in any
    step. "Constant matters", Theorem 6, states such a bound for counts of letters, up to a
    constant.

    Raises:
        InvalidInputError: epsilon not above 0.

    >>> [least_error_of_cells(cells, 1000, 1) for cells in (1, 3, 10**6)]
    [2.0, 2.5, 8.5]
    """
    # A packing has the constant: a stream that enters no cell, and for each cell and each of
    # floor(T / k) blocks of k steps the stream which enters it in that block. With errors below k /
    # 2 the first end of a block at which a cell seems to have been entered more than k / 2 times
    # tells block and cell: none if k epsilon < ln(2/3 cells floor(T / k)).
    loss = float_above(check_positive("epsilon", epsilon, "try epsilon=1"))

    def ruled_out(changed: int) -> bool:
        if changed > steps:
            return False
        streams = math.log(cells) + math.log(steps // changed) + math.log(_PROBABILITY)
        return changed * loss < streams * _SAFE

    return _last(ruled_out, math.ceil(math.log(cells * steps + 1) / loss)) / 2


def allowed_loss(targets: Mapping[int, float], age: int) -> float:
    """Return the largest loss allowed at an age: the least target for it and all greater ages."""
    return min((loss for at, loss in targets.items() if at >= age), default=math.inf)


def least_largest_error(targets: Mapping[int, float], steps: int) -> float:
    """Return a lower bound on the largest of ``steps`` errors if losses grow with age.

    On some stream of 0 and 1, every mechanism with these losses keeps all errors below the bound
    with probability less than 2/3. It is a multiple of 1/2, and 0 if the theorem gives none.

    Source: Andersson et al., "Continual Counting with Gradual Privacy Expiration", Theorem 5.1.

    ``targets`` are the largest epsilon by age in steps, without limit beyond the largest age.

    >>> least_largest_error({24: 0.1, 8760: 0.3}, steps=10**6)
    23.0
    """
    # Errors strictly below C < steps / 2 at all steps need sum_{d = 0}^{2C - 1} g(d) >= ln(steps /
    # (6 C)), where g(d) is the loss allowed at age d. The proof compares streams with a block of 2C
    # ones; so 2C has to be an integer, and C need not be.
    steps = check_integer("steps", steps, 1)

    def open_to(block: int) -> bool:
        """Return whether Theorem 5.1, with a margin, permits errors below ``block`` / 2."""
        return _sum_below(targets, block) * (1 + 1e-12) >= math.log(steps / (3 * block))

    # The larger the error, the sooner the theorem allows it, so bisection finds the first that it
    # allows.
    return bisect_left(range(1, min(steps, max(targets) + 2)), True, key=open_to) / 2


def _sum_below(targets: Mapping[int, float], end: int) -> float:
    """Return the sum of the losses allowed at ages below ``end``."""
    total = 0.0
    age = 0
    for at in sorted(targets):
        total += allowed_loss(targets, at) * (min(at + 1, end) - age)
        age = min(at + 1, end)
    return total if age == end else math.inf

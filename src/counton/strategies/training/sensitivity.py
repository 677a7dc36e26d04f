"""The sensitivity to one example that counts in several steps of a training run.

With G = C^T C, an example that counts by vectors of norm at most 1 in the steps S moves C x by at
most the root of the sum over S x S of |G_st|: gradients of two epochs may have any direction, so
the sign of G_st is the worst one. A sampler enforces which sets S are possible:

- *fixed*: every example has one place i in the epoch, S_i = {i, i + b, i + 2b, ...};
- *separated*: at most k steps, any two at least b apart.
"""

from __future__ import annotations

import numpy as np

from counton.base.arrays import Floats
from counton.base.errors import InvalidInput
from counton.strategies.participation import Schedule
from counton.strategies.strategy import LARGEST_DENSE


def gram_of_schedules(coefficients: Floats, apart: int) -> Floats:
    """Return |G_st| for all s and t in S_i = {i, i + apart, ...}, by i, for G = C^T C, C Toeplitz.

    The result has the shape ``(apart, members, members)``.

    Members beyond the last step have zeros. With 0-based s and t = s + lag * apart,
    G_st = sum over u < steps - t of c_u c_(u + lag * apart). O(steps * members).

    >>> gram_of_schedules(np.array([1.0, 0.5, 0.25, 0.125]), 2)[0].round(4).tolist()
    [[1.3281, 0.3125], [0.3125, 1.25]]
    """
    members = -(-len(coefficients) // apart)
    gram = np.zeros((apart, members, members))
    for lag in range(members):
        at = np.arange(members - lag)
        value = by_schedule(_products(coefficients, lag * apart), apart)
        gram[:, at, at + lag] = value
        gram[:, at + lag, at] = value
    return gram


def _products(coefficients: Floats, lag: int) -> Floats:
    """Return |G_st| for t = s + lag, by s."""
    sums = np.cumsum(coefficients[: len(coefficients) - lag] * coefficients[lag:])
    return np.abs(sums[::-1])


def costs_of_schedules(coefficients: Floats, apart: int) -> Floats:
    """Return the sum over S_i x S_i of |G_st| for every S_i of a Toeplitz C: shape ``(apart,)``.

    >>> costs_of_schedules(np.array([1.0, 0.5, 0.25, 0.125]), 2).round(4).tolist()
    [3.2031, 2.8125]
    """
    total = np.zeros(apart)
    for lag in range(-(-len(coefficients) // apart)):
        products = by_schedule(_products(coefficients, lag * apart), apart)
        total += products.sum(axis=1) * (2 if lag else 1)
    return total


def gram_of_matrix(gram: Floats, apart: int) -> Floats:
    """Return |G_st| for all s and t in S_i = {i, i + apart, ...}, by i; G is any matrix.

    The result has the shape ``(apart, members, members)``, with zeros beyond the last step, as in
    `gram_of_schedules`.
    """
    steps = len(gram)
    members = -(-steps // apart)
    found = np.zeros((apart, members, members))
    for first in range(apart):
        own = np.arange(first, steps, apart)
        found[first, : len(own), : len(own)] = np.abs(gram[np.ix_(own, own)])
    return found


def full_gram(coefficients: Floats) -> Floats:
    """Return the full matrix G of a Toeplitz C: O(steps^2)."""
    steps = len(coefficients)
    gram = np.empty((steps, steps))
    for lag in range(steps):
        sums = np.cumsum(coefficients[: steps - lag] * coefficients[lag:])[::-1]
        at = np.arange(steps - lag)
        gram[at, at + lag] = sums
        gram[at + lag, at] = sums
    return gram


def by_schedule(values: Floats, apart: int) -> Floats:
    """Arrange one value per step in rows, one for each schedule S_i: shape ``(apart, members)``.

    Rows are padded with zeros.
    """
    members = -(-len(values) // apart)
    padded = np.zeros(apart * members)
    padded[: len(values)] = values
    return padded.reshape(members, apart).T


def in_order(rows: Floats, steps: int) -> Floats:
    """Return one value per step from the rows of `by_schedule`, its inverse."""
    return np.ascontiguousarray(rows.T).reshape(-1)[:steps]


def fixed_squared(gram: Floats, divisors: Floats | None = None) -> float:
    """Return the largest sum over one S_i x S_i of |G_st| d_s d_t; see `gram_of_schedules`."""
    if divisors is None:
        return float(gram.sum((1, 2)).max())
    rows = by_schedule(divisors, len(gram))
    return float(np.einsum("is,ist,it->i", rows, gram, rows).max())


def monotone_squared(coefficients: Floats, schedule: Schedule) -> float:
    """Return the exact cost for a Toeplitz C with falling coefficients that are not negative.

    S = {1, 1 + b, 1 + 2b, ...} is the worst of all: moving S to the left, and its members together,
    loses no product. It holds for fixed and for separated schedules.
    """
    total = coefficients.copy()
    for member in range(1, schedule.steps):
        if member * schedule.apart >= len(coefficients):
            break
        total[member * schedule.apart :] += coefficients[: -member * schedule.apart]
    return float(total @ total)


def separated_squared(products: Floats, schedule: Schedule) -> float:
    """Return an upper bound if only "k steps, at least b apart" holds, from |G_st| d_s d_t.

    With H_l(s) the largest product with a step at least l b after s and w_m(s) = P_ss + 2 (H_1(s) +
    ... + H_m(s)), the sum over S x S is at most the sum of w_(p-j)(s_j), since s_j' >= s_j + (j' -
    j) b. The largest of those sums is found by V_m(s) = w_m(s) + max over t >= s + b of V_(m-1)(t).
    O(steps^2).

    >>> round(separated_squared(full_gram(np.array([1.0, 0.5, 0.25])), Schedule(2, 2, False)), 4)
    2.8125
    """
    steps = len(products)
    if steps > LARGEST_DENSE:
        raise InvalidInput(
            f"no bound is known for {steps:,} steps with several epochs in no fixed order, only up "
            f"to {LARGEST_DENSE:,} steps: take a BufferedToeplitz without step scaling, enforce "
            f"the order, or train in fewer and larger steps"
        )
    apart = schedule.apart
    behind = np.maximum.accumulate(products[:, ::-1], axis=1)[:, ::-1]
    weights = np.diagonal(products).copy()
    best = weights.copy()
    largest = best.max()
    for member in range(1, schedule.steps):
        reach = steps - member * apart
        if reach <= 0:
            break
        at = np.arange(reach)
        weights[:reach] += 2 * behind[at, at + member * apart]
        later = np.full(steps, -np.inf)
        later[: steps - apart] = np.maximum.accumulate(best[::-1])[::-1][apart:]
        best = weights + later
        largest = max(largest, best.max())
    return float(largest)

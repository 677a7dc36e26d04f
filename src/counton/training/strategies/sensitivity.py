"""The sensitivity to one training example that counts in several steps of a run.

C is the measurement matrix, x has the sum of gradients of each step, and G = C^T C. An example adds
a gradient, a vector of norm at most 1, in each step of a set S. It moves C x by at most the root of
the sum over S x S of |G_st|, because its gradients may have any directions. The sampler of training
batches decides which sets S are possible:

- *fixed*: every example has one place i in the epoch, S_i = {i, i + b, i + 2b, ...};
- *separated*: at most k steps, any two at least b apart.
"""

from __future__ import annotations

import numpy as np

from counton.base.arrays import Floats
from counton.base.errors import InvalidInputError
from counton.strategies.participation import Schedule
from counton.strategies.strategy import LARGEST_DENSE


def gram_of_schedules(coefficients: Floats, apart: int) -> Floats:
    """Return the magnitudes of inner products of columns of a Toeplitz matrix C, for every two
    steps in which one example counts.

    ``coefficients`` are the first column of C. An example at place i of each epoch counts in the
    steps i, i + apart, .... The result has shape ``(apart, members, members)``: the first axis is
    the place, the others are two of the example's steps. Entries beyond the last step are 0.

    >>> gram_of_schedules(np.array([1.0, 0.5, 0.25, 0.125]), 2)[0].round(4).tolist()
    [[1.3281, 0.3125], [0.3125, 1.25]]
    """
    # With 0-based s and t = s + lag * apart, G_st = sum over u < steps - t of c_u c_(u + lag *
    # apart). O(steps * members).
    members = -(-len(coefficients) // apart)
    gram = np.zeros((apart, members, members))
    for lag in range(members):
        rows = np.arange(members - lag)
        value = by_schedule(_products(coefficients, lag * apart), apart)
        gram[:, rows, rows + lag] = value
        gram[:, rows + lag, rows] = value
    return gram


def _products(coefficients: Floats, lag: int) -> Floats:
    """Return |<column s, column s + lag>| of a Toeplitz matrix, for each s."""
    sums = np.cumsum(coefficients[: len(coefficients) - lag] * coefficients[lag:])
    return np.abs(sums[::-1])


def costs_of_schedules(coefficients: Floats, apart: int) -> Floats:
    """Return the squared sensitivity to an example at each place of an epoch, for a Toeplitz matrix
    C.

    An epoch has ``apart`` steps, and the result the shape ``(apart,)``. ``coefficients`` are the
    first column of C.

    >>> costs_of_schedules(np.array([1.0, 0.5, 0.25, 0.125]), 2).round(4).tolist()
    [3.2031, 2.8125]
    """
    # The sum of |G_st| over all pairs of the example's steps, G = C^T C.
    total = np.zeros(apart)
    for lag in range(-(-len(coefficients) // apart)):
        products = by_schedule(_products(coefficients, lag * apart), apart)
        total += products.sum(axis=1) * (2 if lag else 1)
    return total


def gram_of_matrix(gram: Floats, apart: int) -> Floats:
    """Return the magnitudes of entries of ``gram``, for every two steps in which one example
    counts.

    ``gram`` is C^T C for a matrix C, shape (steps, steps). An example at place i of each epoch
    counts in the steps i, i + apart, .... The result has shape ``(apart, members, members)``: the
    first axis is the place, the others are two of the example's steps. Entries beyond the last step
    are 0.
    """
    steps = len(gram)
    members = -(-steps // apart)
    gram_by_start = np.zeros((apart, members, members))
    for first in range(apart):
        positions = np.arange(first, steps, apart)
        gram_by_start[first, : len(positions), : len(positions)] = np.abs(
            gram[np.ix_(positions, positions)]
        )
    return gram_by_start


def full_gram(coefficients: Floats) -> Floats:
    """Return C^T C of the Toeplitz C with these ``coefficients``: shape (steps, steps)."""
    steps = len(coefficients)
    gram = np.empty((steps, steps))
    for lag in range(steps):
        sums = np.cumsum(coefficients[: steps - lag] * coefficients[lag:])[::-1]
        rows = np.arange(steps - lag)
        gram[rows, rows + lag] = sums
        gram[rows + lag, rows] = sums
    return gram


def by_schedule(values: Floats, apart: int) -> Floats:
    """Arrange values, one for each step, in rows: row i has the steps i, i + apart, ....

    The shape is ``(apart, members)``; rows are padded with zeros.
    """
    members = -(-len(values) // apart)
    padded = np.zeros(apart * members)
    padded[: len(values)] = values
    return padded.reshape(members, apart).T


def in_order(rows: Floats, steps: int) -> Floats:
    """Return values in order of steps from the rows that `by_schedule` makes."""
    return np.ascontiguousarray(rows.T).reshape(-1)[:steps]


def fixed_squared(gram: Floats, divisors: Floats | None = None) -> float:
    """Return the squared sensitivity to examples that have the same place in each epoch: the
    largest over all places.

    ``gram`` is a result of `gram_of_schedules`. ``divisors`` has the numbers by which step scaling
    divides the noise of steps, shape (steps,); None: no scaling.
    """
    if divisors is None:
        return float(gram.sum((1, 2)).max())
    rows = by_schedule(divisors, len(gram))
    return float(np.einsum("is,ist,it->i", rows, gram, rows).max())


def monotone_squared(coefficients: Floats, schedule: Schedule) -> float:
    """Return the exact squared sensitivity to an example that counts in the steps of ``schedule``.

    The matrix is Toeplitz with the given coefficients, which decrease from step to step and are not
    negative. The schedule is fixed, or has a least distance of the steps.
    """
    # The steps {1, 1 + b, 1 + 2b, ...} are the worst case: moving steps to earlier places, and
    # closer together, makes no product of columns smaller.
    total = coefficients.copy()
    for member in range(1, schedule.steps):
        if member * schedule.apart >= len(coefficients):
            break
        total[member * schedule.apart :] += coefficients[: -member * schedule.apart]
    return float(total @ total)


def separated_squared(products: Floats, schedule: Schedule) -> float:
    """Return an upper bound on the squared sensitivity to an example whose steps have a least
    distance.

    ``products`` has the magnitudes of the inner products of every two columns of the measurement
    matrix C: shape (steps, steps). The time is quadratic in the number of steps.

    >>> round(separated_squared(full_gram(np.array([1.0, 0.5, 0.25])), Schedule(2, 2, False)), 4)
    2.8125
    """
    # The example counts in at most k steps, any two at least b apart; P = ``products``. Let H_l(s)
    # be the largest product with a step at least l b after s, and w_m(s) = P_ss + 2 (H_1(s) + ... +
    # H_m(s)). The sum over all pairs of steps s_1, .., s_p is at most the sum of w_(p-j)(s_j),
    # since s_j' >= s_j + (j' - j) b. The largest of those sums is found by V_m(s) = w_m(s) + max
    # over t >= s + b of V_(m-1)(t).
    steps = len(products)
    if steps > LARGEST_DENSE:
        raise InvalidInputError(
            f"there are {steps:,} steps, and examples count several times in no fixed order, which "
            f"can be computed only up to {LARGEST_DENSE:,} steps: use a BufferedToeplitz without "
            "step scaling, enforce the order (order='fixed'), or train in fewer and larger steps"
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
        rows = np.arange(reach)
        weights[:reach] += 2 * behind[rows, rows + member * apart]
        later = np.full(steps, -np.inf)
        later[: steps - apart] = np.maximum.accumulate(best[::-1])[::-1][apart:]
        best = weights + later
        largest = max(largest, best.max())
    return float(largest)

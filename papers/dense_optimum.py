"""The matrix of least error for training in an enforced order, for short runs.

A is the matrix that sums up gradients, C the measurement matrix, and S_i are the steps of a
training example at place i of each epoch.

*For a schedule in enforced order* minimise trace(A^T A X^-1) over X = C^T C, subject to the sum of
|X_st| over every S_i x S_i being at most 1. (Choquette-Choo, McMahan, Rush and Thakurta,
"Multi-Epoch Matrix Factorization Mechanisms for Private Machine Learning", 2023, with equal
diagonals.) Here X_st = 0 for different steps of one S_i, and the diagonal p_s is free. So X L X =
A^T A, with a matrix of multipliers L that is block diagonal: a block L_i for each S_i. With X = D Y
D, D = diag(p)^1/2, M = D L D and W = D^-1 A^T A D^-1,

    Y = M^-1/2 (M^1/2 W M^1/2)^1/2 M^-1/2,   M_i <- Y_i M_i Y_i,   p_s <- (p_s M_ss / sum M)^1/2,

until the blocks Y_i are the identity and the L_ss are equal within S_i. The problem is convex. If
the entries of L_i off the diagonal are no larger than those on it, this proves the optimum: at 512
steps in 8 epochs they are at most 0.87 times as large. Every iterate is scaled to satisfy the
constraint.

*No matrix is below.* Let l_i be the largest magnitude of an entry of L_i. The sum of |X_st| over
S_i x S_i is at least <L_i, X_i> / l_i, so an X that keeps the constraint has <L, X> <= sum l_i. For
any X, trace(A^T A X^-1) <L, X> >= (trace (L^1/2 A^T A L^1/2)^1/2)^2. So every iterate gives a lower
bound: this square, divided by the sum of all l_i.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from counton.base.arrays import Floats
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule
from counton.strategies.strategy import LARGEST_DENSE
from counton.training import SGD
from counton.training.strategies import BandedOptimum, training_schedule
from counton.training.strategies.sgd import weights_of

_ROUNDS = 200
_ENOUGH = 1e-6


def dense_optimum(steps: int, epochs: int = 1, optimizer: SGD | None = None) -> BandedOptimum:
    """Return the strategy of least root mean squared error for examples that have the same place
    in each epoch; its C has all bands.

    Args:
        steps: number of steps, at most 4096; beyond 1024 it takes minutes.
        epochs: number of epochs of the run.
        optimizer: the optimiser whose weights shall have the least error; None: running sums.

    Raises:
        InvalidInputError: an argument out of range.

    >>> round(dense_optimum(16, epochs=4).rmse, 3), round(dense_optimum(64).rmse, 2)
    (3.671, 2.1)
    """
    steps = check_integer("steps", steps, 1, LARGEST_DENSE)
    schedule = training_schedule(steps, epochs)
    gram, _ = _optimal(steps, schedule, optimizer)
    matrix = np.linalg.cholesky(gram[::-1, ::-1]).T[::-1, ::-1]
    return BandedOptimum(np.asarray(matrix, np.float64), schedule).under(optimizer)


def no_error_below(steps: int, epochs: int = 1, optimizer: SGD | None = None) -> float:
    """Return a root mean squared error that no matrix goes below, for arguments as in
    `dense_optimum`.

    >>> dense_optimum(16, epochs=4).rmse / no_error_below(16, epochs=4) < 1.001
    True
    """
    return math.sqrt(_optimal(steps, training_schedule(steps, epochs), optimizer)[1] / steps)


@lru_cache(maxsize=2)
def _optimal(steps: int, schedule: Schedule, optimizer: SGD | None) -> tuple[Floats, float]:
    """Return C^T C of the optimal measurement matrix C for examples on a fixed schedule, shape
    (steps, steps), and a sum of variances that no matrix goes below.
    """
    members = schedule.steps
    apart = schedule.apart
    order = np.arange(steps).reshape(members, apart).T.reshape(-1)  # S_0, S_1, ...
    back = np.argsort(order)
    totals = weights_of(np.eye(steps), optimizer)
    products = (totals.T @ totals)[np.ix_(order, order)]
    shares = np.full((apart, members), 1 / members)
    start = np.sqrt(products.diagonal()).reshape(apart, members)
    multiplier = np.einsum("is,st->ist", start, np.eye(members))
    best = np.eye(steps)
    least = np.inf
    below = 0.0
    for _ in range(_ROUNDS):
        root_shares = np.sqrt(shares)
        flat = root_shares.reshape(-1)
        wanted = products / flat[:, None] / flat
        values, vectors = np.linalg.eigh(multiplier)
        values = np.maximum(values, 1e-12 * values.max())
        root = np.einsum("iab,ib,icb->iac", vectors, np.sqrt(values), vectors)
        inverse = np.einsum("iab,ib,icb->iac", vectors, 1 / np.sqrt(values), vectors)
        middle = _both_sides(root, wanted)
        spectrum, basis = np.linalg.eigh((middle + middle.T) / 2)
        spectrum = np.sqrt(np.maximum(spectrum, 0))
        found = _both_sides(inverse, (basis * spectrum) @ basis.T)
        blocks = found.reshape(apart, members, apart, members)
        own = blocks[np.arange(apart), :, np.arange(apart), :]
        costs = np.abs(own) * root_shares[:, :, None] * root_shares[:, None, :]
        squared = float(costs.sum((1, 2)).max())
        total = float(spectrum.sum())  # the trace of W Y^-1
        error = squared * total
        largest = np.abs(multiplier / root_shares[:, :, None] / root_shares[:, None, :])
        below = max(below, total**2 / float(largest.max((1, 2)).sum()))
        if error < least:
            improved = 1 - error / least
            best = found * flat[:, None] * flat
            least = error
            if improved < _ENOUGH:
                break
        multiplier = np.einsum("iab,ibc,icd->iad", own, multiplier, own)
        diagonal = np.maximum(np.einsum("iss->is", multiplier), 1e-300)  # a step may need none
        shares = np.sqrt(shares * diagonal / diagonal.sum(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
    return best[np.ix_(back, back)], below


def _both_sides(blocks: Floats, matrix: Floats) -> Floats:
    """Return D M D, where M is ``matrix`` and D is the block-diagonal matrix with these
    ``blocks``.
    """
    apart, members, _ = blocks.shape
    steps = len(matrix)
    left = (blocks @ matrix.reshape(apart, members, steps)).reshape(steps, steps)
    turned = (blocks @ left.T.reshape(apart, members, steps)).reshape(steps, steps)
    return turned.T

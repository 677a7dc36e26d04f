"""Step scaling: the noise of step t is divided by d_t, so that the sensitivity to all examples is
equal.

S_i are the steps of a training example at place i of each epoch, and G = C^T C for the unscaled
measurement matrix C. The scaled matrix is C D with D = diag(d).

Let d_s = u_s / sqrt(sum over s, t of S_i of u_s u_t |G_st|) for the steps s of S_i, with any
positive numbers u, called shares. Then the squared sensitivity to every S_i is exactly 1. Shares of
1 give one scale for every place in the epoch, and are also good if only a least distance of an
example's steps is enforced. Free shares lower the error more, but require that examples keep their
places in all epochs; otherwise the error is larger than without scaling.

*One share for each epoch.* Let any two steps of an example be at least b apart, and the run have
exactly epochs times b steps. An example that counts ``epochs`` times then has one step in each
stretch of b steps, in any order. So what an example adds to its squared sensitivity in a stretch
depends on the stretch's share, in any order of examples. Shares may decrease with time, because
fewer running sums contain late steps. Sensitivities are always computed for the actual divisors.
"""

from __future__ import annotations

import math

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.errors import InvalidInputError
from counton.strategies.descent import descend, on_grid
from counton.strategies.strategy import LARGEST_DENSE
from counton.training.strategies.sensitivity import by_schedule, in_order
from counton.training.strategies.sgd import SGD, gram_of
from counton.training.strategies.training_strategy import Search

#: Largest number of iterations of a search for shares, by the kind of search.
_ITERATIONS = {"quick": 40, "long": 200}


def balance(gram: Floats, shares: Floats) -> Floats:
    """Return the numbers by which step scaling divides the noise of each step so that the squared
    sensitivity to every example is 1: shape (steps,).

    Args:
        gram: magnitudes of C^T C, for the measurement matrix C, between every two steps of each
            example, from `gram_of_schedules`.
        shares: one positive number for each step; the divisors of the steps in which one example
            counts are proportional to their shares.

    >>> balance(np.array([[[4.0]], [[9.0]]]), np.ones(2)).tolist()
    [0.5, 0.3333333333333333]
    """
    rows = by_schedule(shares, len(gram))
    costs = np.einsum("is,ist,it->i", rows, gram, rows)
    return in_order(rows / np.sqrt(costs)[:, None], len(shares))


def toeplitz_weights(inverse: Floats, optimizer: SGD | None = None) -> Floats:
    """Return the matrix F from which the mean variance of running sums of noise, or of the weights
    under ``optimizer``, follows under step scaling: shape (steps, steps).

    If the noise of step t is divided by d_t, the mean variance is e^T F e with e_t = 1 / d_t.
    ``inverse`` has the coefficients of the inverse of the Toeplitz matrix C: shape (steps,).
    """
    # F_st = (n - max(s, t)) / n * (K K^T)_st, 0-based, K = Toeplitz(inverse); (K K^T)_st = (K
    # K^T)_(s-1)(t-1) + g_s g_t.
    steps = len(inverse)
    if steps > LARGEST_DENSE:
        raise InvalidInputError(
            f"step scaling 'epochs' or 'free' can be computed for up to {LARGEST_DENSE:,} steps, "
            f"but there are {steps:,}: use scaling 'equal'"
        )
    products = np.empty((steps, steps))
    products[0] = inverse[0] * inverse
    products[:, 0] = products[0]
    for row in range(1, steps):
        products[row, row:] = products[row - 1, row - 1 : -1] + inverse[row] * inverse[row:]
        products[row:, row] = products[row, row:]
    return weighted_gram(products, optimizer)


def scaled_variance(coefficients: Floats, inverse: Floats, optimizer: SGD | None = None) -> float:
    """Return the mean over all steps of the variance of running sums of noise, or of the weights
    under ``optimizer``.

    The noise of the steps is K z, where K = diag(inverse) Toeplitz(coefficients) and z has
    independent entries of variance 1. Both arguments have the shape (steps,).

    >>> scaled_variance(np.array([1.0, -0.5]), np.array([1.0, 2.0]))
    2.5
    """
    if optimizer is not None:
        return float(inverse @ toeplitz_weights(coefficients, optimizer) @ inverse)
    steps = len(coefficients)
    behind = np.concatenate([np.zeros(steps - 1), coefficients])
    windows = np.lib.stride_tricks.sliding_window_view(behind, steps)[::-1]  # [j, s] is g_(s-j)
    sums = np.cumsum(windows * inverse, axis=1)
    return float(np.einsum("js,js->", sums, sums)) / steps


def weighted_gram(products: Floats, optimizer: SGD | None = None) -> Floats:
    """Return the matrix F from which the mean variance of running sums of noise, or of the weights
    under ``optimizer``, follows under step scaling.

    If the noise of step t is divided by d_t, the mean variance is e^T F e with e_t = 1 / d_t. The
    unscaled noise of steps is K z; ``products`` is K K^T, shape (steps, steps), and is overwritten.
    """
    indices = np.arange(len(products))
    if optimizer is None:
        products *= (len(indices) - np.maximum(indices[:, None], indices)) / len(indices)
    else:
        products *= gram_of(optimizer, len(indices))
    return products


def best_shares(
    gram: Floats, weights: Floats, groups: Integers | None = None, search: Search = "long"
) -> Floats:
    """Return the shares with which step scaling has the least mean variance, if every example has
    the same place in each epoch: shape (steps,).

    A share is a positive number for each step, rounded to a grid. Step scaling divides the noise of
    each step by a number; for the steps in which one example counts, these numbers are proportional
    to the shares.

    Args:
        gram: the magnitudes of C^T C, for the measurement matrix C, between every two steps of each
            example.
        weights: the matrix F of `toeplitz_weights`.
        groups: a number for each step, shape (steps,): steps with equal numbers get equal shares;
            by default each step has its own.
        search: "quick" for fewer iterations.
    """
    # The search over the shares u is L-BFGS in ln u, with the exact gradient: d ln(cost of S_i) / d
    # ln u_s = 2 u_s (|G| u)_s / cost. Before rounding, the mean of ln u is 0.
    steps = len(weights)
    apart = len(gram)
    groups = np.arange(steps) if groups is None else groups

    def value(logs: Floats) -> tuple[float, Floats]:
        rows = by_schedule(np.exp(logs[groups]), apart)
        partly = np.einsum("ist,it->is", gram, rows) * rows
        costs = partly.sum(axis=1)
        inverse = 1 / in_order(rows / np.sqrt(costs)[:, None], steps)
        moved = -2 * inverse * (weights @ inverse)  # by ln d
        total = -moved.sum() / 2
        together = by_schedule(moved, apart).sum(axis=1)
        gradient = moved - in_order(together[:, None] * partly / costs[:, None], steps)
        return math.log(total), np.asarray(np.bincount(groups, gradient / total), np.float64)

    start = np.zeros(int(groups.max()) + 1)
    most = _ITERATIONS[search]
    logs = descend(value, start, maxiter=most, maxfun=2 * most)[1][groups]
    return on_grid(np.exp(logs - logs.mean()))

"""A proven lower bound on the error of running totals beside revised windows.

A row belongs to a window and arrives a number of nights later; both together are its *cell*. A
strategy measures C x of the cells x, with columns of C of 2-norm at most 1 and Gaussian noise of
variance 1, and reads every number from it. With X = C'C, a number a'x has the variance a' X^-1 a.
Wanted are the versions of windows, each with a variance of at most e_v, and totals with the least
mean variance. For weights l_v >= 0 of versions and l > 0 of totals, let G be the sum of l_v a a'
over versions and of l / nights a a' over totals. Then for every mu > 0

    sum of l_v e_v + l mean >= trace(G X^-1) >= trace((M^1/2 G M^1/2)^1/2)^2 / sum(mu),

where M = diag(mu). The second step is the inequality of Cauchy and Schwarz for G^1/2 X^-1/2 and
X^1/2 M^1/2, because trace(M X) <= sum(mu). So every l, l_v and mu prove a bound on the mean
variance of totals. An iteration improves them: mu becomes the diagonal of the root, as in
`counton.strategies.lines.optimal`, and l_v rises where the strategy that belongs to mu has more
than e_v. No argument uses that a night reads no later measurement, so the bound also holds for
strategies that do.
"""

from __future__ import annotations

import numpy as np

from counton.base.arrays import Floats
from counton.strategies.lines.one_thread import on_one_thread

#: Most cells for which the bound is computed: a matrix of their number squared has its eigenvalues
#: found in each iteration.
MOST_CELLS = 512
#: Iterations at most, and the gain of the bound with which they end.
_ITERATIONS, _GAIN = 24, 2e-4
#: Exponent with which weights of versions follow their variances.
_STEP = 4
#: Least eigenvalue, relative to the largest: rounding makes smaller ones, also negative ones.
_LEAST = 1e-14
#: Factor that lowers the bound by more than its rounding errors.
_SAFE = 1 - 1e-9


@on_one_thread
def least_totals(versions: Floats, totals: float, share: float) -> float:
    """Return a lower bound on the mean variance of running totals that are released besides
    windows.

    A window is released again as its rows arrive; each released count is a version. The bound holds
    for every strategy whose versions have at most the given variances. There are as many nights as
    windows: the last night is the end of the last window. All variances are in units of the noise
    variance of a strategy of sensitivity 1.

    Args:
        versions: largest allowed variance of each version of each window, shape ``(windows,
            versions)``. Version v of window w is released in night w + v, counted from 0; entries
            of nights after the last one have no effect.
        totals: mean variance of the totals of a known strategy.
        share: weight of totals against versions, between 0 and 1. Like ``totals`` it only decides
            where the search for the best bound begins.

    Returns:
        A positive number, or 0.0 if nothing was proven.

    >>> round(least_totals(np.array([[1.0]]), 1.0, 0.5), 3)  # one row, which is all numbers
    1.0
    >>> round(least_totals(np.full((8, 1), 1e9), 2.0, 0.5), 2)  # windows as wide as they like
    2.23
    """
    nights, lags = versions.shape
    window, lag = np.nonzero(np.add.outer(np.arange(nights), np.arange(lags)) < nights)
    known, night = versions[window, lag], window + lag
    same = window[:, None] == window
    read = (same & (lag <= lag[:, None])).astype(np.float64)  # the cells of each version
    summed = (nights - np.maximum.outer(night, night)) / nights  # of a'a over totals
    weight, weights = share / totals, (1 - share) / len(known) / known
    root, mu, best = 0.0, np.zeros(0), 0.0
    for _ in range(_ITERATIONS):
        gram = (read.T * weights) @ read + weight * summed
        mu = mu if len(mu) else np.sqrt(np.diag(gram))
        scale = np.sqrt(mu)
        squares, axes = np.linalg.eigh(scale[:, None] * gram * scale)
        own = np.sqrt(np.maximum(squares, _LEAST * squares[-1]))
        before, root = best, float(own.sum() - len(own) * np.sqrt(_LEAST * squares[-1]))
        bound = (root**2 / float(mu.sum()) - float(weights @ known)) / weight
        best = max(best, bound * _SAFE)
        if before > 0 and best < (1 + _GAIN) * before:
            break
        mu = ((axes**2) * own).sum(axis=1)  # the diagonal of the root
        # The strategy that belongs to mu has X^-1 = D^1/2 (root)^-1 D^1/2 with D = diag(mu).
        reads = (read * np.sqrt(mu)) @ axes
        weights = weights * ((reads**2 / own).sum(axis=1) / known) ** _STEP
    return best

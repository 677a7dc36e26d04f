"""Searches for the matrices of `BandedOptimum`, whose module describes both problems.

A search minimises the logarithm or the value of the mean variance over a vector of free parameters,
by L-BFGS with the exact gradient.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, Integers
from counton.strategies.descent import descend
from counton.strategies.participation import Schedule
from counton.strategies.streams.square_root import square_root_coefficients
from counton.training.strategies.division import divide_series
from counton.training.strategies.sgd import SGD, matrix_of, weights_of
from counton.training.strategies.training_strategy import Search

#: Iterations of the search for a matrix with bands, and of each round of the search for few normals
#: per step.
_ITERATIONS = 60


class _QuickSearch(NamedTuple):
    """How many iterations a quick search has; their time grows with the cube of the steps.

    Attributes:
        fewer_from: number of steps from which on it has fewer iterations.
        least: the least number of them.
    """

    fewer_from: int
    least: int

    def iterations(self, steps: int) -> int:
        """Return the number of iterations: so many that the time hardly grows with the steps."""
        return min(_ITERATIONS, max(self.least, int(_ITERATIONS * (self.fewer_from / steps) ** 3)))


_QUICK_FOR_BANDS = _QuickSearch(fewer_from=256, least=10)
#: With few normals per step, iterations take longer.
_QUICK_FOR_FEW_NORMALS = _QuickSearch(fewer_from=160, least=5)
#: Number of steps from which on a quick search has one round.
_STEPS_WITH_ONE_ROUND = 320
#: For each round: the powers whose sums replace the maximum over products of columns, and over
#: columns.
_POWERS = ((24, 60), (60, 200))
#: Value that stands for an infinite logarithm of the error, so that a search moves away.
_INFINITE_LOG_ERROR = 1e3
#: Least sum of powers, of which the root is taken.
_LEAST_SUM_OF_POWERS = 1e-300


@lru_cache(maxsize=4)
def optimal_bands(steps: int, schedule: Schedule, optimizer: SGD | None, search: Search) -> Floats:
    """Return the optimal C with as many bands as the least distance: shape (steps, steps)."""
    bands = _BandSearch(steps, schedule, optimizer)
    iterations = _ITERATIONS
    if search == "quick":
        iterations = _QUICK_FOR_BANDS.iterations(steps)
    _, x = descend(bands.value, bands.start(), maxiter=iterations, maxfun=2 * iterations)
    return bands.matrix_of(x)


@lru_cache(maxsize=4)
def optimal_few(
    steps: int,
    schedule: Schedule,
    lags: tuple[int, ...],
    optimizer: SGD | None,
    search: Search,
) -> Floats:
    """Return the C of least error found by search, if its inverse has the diagonals ``lags``."""
    few = _FewDiagonalsSearch(steps, schedule, lags, optimizer)
    iterations = _ITERATIONS
    rounds: tuple[tuple[int, int], ...] = _POWERS
    if search == "quick":
        iterations = _QUICK_FOR_FEW_NORMALS.iterations(steps)
        rounds = _POWERS if steps < _STEPS_WITH_ONE_ROUND else _POWERS[:1]
    x = few.start()
    for power, sharp in rounds:
        objective = partial(few.finite_value, power=power, sharp=sharp)
        _, x = descend(objective, x, maxiter=iterations, maxfun=2 * iterations, maxcor=20)
    return few.matrix_of(x)


def inverse_of(matrix: Floats) -> Floats:
    """Return the inverse of a lower-triangular matrix."""
    from scipy.linalg import solve_triangular

    return np.asarray(solve_triangular(matrix, np.eye(len(matrix)), lower=True))


def is_at_lags(steps: int, lags: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return a mask of shape (steps, steps): True where row - column is one of ``lags``."""
    return np.isin(_lag_of_entries(steps), lags)


def _lag_of_entries(steps: int) -> Integers:
    """Return row - column of each entry of a matrix of shape (steps, steps)."""
    return np.subtract.outer(np.arange(steps), np.arange(steps))


def _stretches(steps: int, schedule: Schedule) -> Integers:
    """Return each step's stretch of ``schedule.apart`` steps, in which an example counts once.

    All numbers are 0 if the run is not exactly ``schedule.steps`` stretches long.
    """
    if schedule.steps > 1 and schedule.steps * schedule.apart == steps:
        return np.arange(steps) // schedule.apart
    return np.zeros(steps, np.int64)


def _root(steps: int, optimizer: SGD | None) -> Floats:
    """Return the start of searches: (1 - x)^(-1/2), under an optimiser (1 - momentum x)^(-1/2)
    times.
    """
    root = square_root_coefficients(steps)
    if optimizer is None:
        return root
    return np.convolve(root, root * optimizer.momentum ** np.arange(steps))[:steps]


class _BandSearch:
    """The mean variance under a C with bands, as a function of free parameters.

    The free parameters are the logarithms of the stretches' shares, then the entries of C within
    its bands. A share is the squared norm of every column in a stretch.

    Args:
        steps: number of steps.
        schedule: the steps in which one training example counts.
        optimizer: the optimiser whose weights shall have little error; None: running sums.
    """

    def __init__(self, steps: int, schedule: Schedule, optimizer: SGD | None) -> None:
        self._steps = steps
        self._optimizer = optimizer
        self._apart = schedule.apart if schedule.steps > 1 else steps
        self._stretch = _stretches(steps, schedule)
        self._n_stretches = int(self._stretch[-1]) + 1
        self._lag = _lag_of_entries(steps)
        self._is_in_bands = (self._lag >= 0) & (self._lag < self._apart)

    def start(self) -> Floats:
        """Return the free parameters from which a search starts."""
        root = _root(self._apart, self._optimizer)
        return np.concatenate([np.zeros(self._n_stretches), root[self._lag[self._is_in_bands]]])

    def matrix_of(self, x: Floats) -> Floats:
        """Return C for free parameters ``x``."""
        return self._columns(x)[0]

    def _columns(self, x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return C, its columns' norms before and after scaling, and the shares of stretches."""
        logarithms = x[: self._n_stretches]
        shares = np.exp(logarithms - logarithms.max())
        shares /= shares.sum()
        matrix = np.zeros((self._steps, self._steps))
        matrix[self._is_in_bands] = x[self._n_stretches :]
        norms = np.linalg.norm(matrix, axis=0)
        target_norms = np.sqrt(shares[self._stretch])
        return matrix * (target_norms / norms), norms, target_norms, shares

    def value(self, x: Floats) -> tuple[float, Floats]:
        """Return the mean variance and its gradient."""
        matrix, norms, target_norms, shares = self._columns(x)
        inverse = inverse_of(matrix)
        sums = weights_of(inverse, self._optimizer)
        slope = (inverse @ (sums.T @ sums)).T
        slope = np.where(self._is_in_bands, slope, 0.0) * (-2 / self._steps)
        column_slopes = (slope * matrix).sum(axis=0)  # by the logarithm of a column's norm
        entry_slopes = (slope - matrix * (column_slopes / target_norms**2)) * (target_norms / norms)
        share_slopes = np.asarray(np.bincount(self._stretch, column_slopes / 2), np.float64)
        share_slopes -= shares * share_slopes.sum()
        mean_variance = float((sums**2).sum() / self._steps)
        return mean_variance, np.concatenate([share_slopes, entry_slopes[self._is_in_bands]])


class _FewDiagonalsSearch:
    """The logarithm of error under a C whose inverse K has few diagonals, by free parameters.

    The free parameters are the logarithms of each step's scale, then the entries of K at its lags,
    before its rows are multiplied by the scales.

    Args:
        steps: number of steps.
        schedule: the steps in which one training example counts.
        lags: row - column of the entries of K that may differ from 0.
        optimizer: the optimiser whose weights shall have little error; None: running sums.
    """

    def __init__(
        self, steps: int, schedule: Schedule, lags: tuple[int, ...], optimizer: SGD | None
    ) -> None:
        self._steps = steps
        self._optimizer = optimizer
        self._lags = lags
        self._members = schedule.steps
        self._apart = schedule.apart if schedule.steps > 1 else steps
        self._stretch = _stretches(steps, schedule)
        self._n_stretches = int(self._stretch[-1]) + 1
        self._is_inside = is_at_lags(steps, lags)
        self._indices = np.arange(steps)

    def start(self) -> Floats:
        """Return the free parameters from which a search starts."""
        impulse = np.zeros(self._steps)
        impulse[0] = 1
        at_lags = list(self._lags)
        column = np.zeros(self._steps)  # the first column of K, all of whose columns are equal
        column[at_lags] = divide_series(impulse, _root(self._apart, self._optimizer))[at_lags]
        norms = np.sqrt(np.cumsum(divide_series(impulse, column) ** 2)[::-1])
        entries = column[_lag_of_entries(self._steps)[self._is_inside]]
        return np.concatenate([np.log(norms), entries])

    def matrix_of(self, x: Floats) -> Floats:
        """Return C for free parameters ``x``."""
        return inverse_of(self._increments(x)[1])

    def _increments(self, x: Floats) -> tuple[Floats, Floats]:
        """Return each step's scale, and K."""
        entries = np.zeros((self._steps, self._steps))
        entries[self._is_inside] = x[self._steps :]
        scales = np.exp(x[: self._steps])[:, None]
        return scales, scales * entries

    def finite_value(self, x: Floats, power: int, sharp: int) -> tuple[float, Floats]:
        """Return the logarithm of the error, and its gradient; far away, a large number.

        Args:
            x: the free parameters.
            power: exponent of the sums that replace maxima over products of columns.
            sharp: exponent of the sums that replace maxima over columns.
        """
        with np.errstate(all="ignore"):
            try:
                value, slope = self._value(x, power, sharp)
            except ValueError:  # an inverse that leaves float64
                return _INFINITE_LOG_ERROR, np.zeros_like(x)
        if not (math.isfinite(value) and np.isfinite(slope).all()):
            return _INFINITE_LOG_ERROR, np.zeros_like(x)
        return value, slope

    def _value(self, x: Floats, power: int, sharp: int) -> tuple[float, Floats]:
        scales, increments = self._increments(x)
        sums = weights_of(increments, self._optimizer)
        squares = float((sums**2).sum())
        matrix = inverse_of(increments)
        gram = matrix.T @ matrix
        log_sensitivity, gram_slopes = self._sensitivity_bound(np.abs(gram), power, sharp)
        gram_slopes *= np.sign(gram)
        matrix_slopes = matrix @ (gram_slopes + gram_slopes.T)
        if self._optimizer is None:
            slope = np.cumsum(sums[::-1], axis=0)[::-1] * (2 / squares)
        else:
            slope = matrix_of(self._optimizer, self._steps).T @ sums * (2 / squares)
        slope -= matrix.T @ matrix_slopes @ matrix.T
        scale_slopes = (slope * increments).sum(axis=1)
        entry_slopes = (scales * slope)[self._is_inside]
        return log_sensitivity + math.log(squares), np.concatenate([scale_slopes, entry_slopes])

    def _sensitivity_bound(self, products: Floats, power: int, sharp: int) -> tuple[float, Floats]:
        """Return the logarithm of a smooth bound on the squared sensitivity, and its gradient.

        ``products`` has the magnitudes of C^T C, shape (steps, steps). The bound is the sum over
        stretches of the largest F, as the module of `BandedOptimum` defines it. Sums of powers
        replace both maxima, to make it smooth.
        """
        unit = float(np.diagonal(products).max())
        products = products / unit
        # Entry (s, t) is the sum over step t and all later ones.
        sums_from = np.cumsum((products**power)[:, ::-1], axis=1)[:, ::-1]
        costs = np.diagonal(products).copy()  # F of each step
        largest_products: list[tuple[Integers, Integers, Floats]] = []
        for distance in range(self._apart, self._members * self._apart, self._apart):
            early = self._indices[: max(self._steps - distance, 0)]
            late = early + distance
            largest = np.maximum(sums_from[early, late], _LEAST_SUM_OF_POWERS) ** (1 / power)
            costs[early] += 2 * largest
            largest_products.append((early, late, largest))
        total, cost_slopes = self._total_of_largest(costs, sharp)
        sum_slopes = np.zeros((self._steps, self._steps))
        for early, late, largest in largest_products:
            sum_slopes[early, late] = 2 * cost_slopes[early] * largest ** (1 - power)
        slope = np.cumsum(sum_slopes, axis=1) * products ** (power - 1)
        slope[self._indices, self._indices] += cost_slopes
        return math.log(total * unit), slope / unit

    def _total_of_largest(self, costs: Floats, sharp: int) -> tuple[float, Floats]:
        """Return the sum of each stretch's largest cost, smoothed, and its logarithm's gradient."""
        largest = np.zeros(self._n_stretches)
        np.maximum.at(largest, self._stretch, costs)
        shares = costs / largest[self._stretch]
        sums = np.bincount(self._stretch, shares**sharp)
        stretch_members = self._members / self._n_stretches
        total = stretch_members * float(largest @ sums ** (1 / sharp))
        factors = (sums ** (1 / sharp - 1))[self._stretch]
        return total, stretch_members * shares ** (sharp - 1) * factors / total

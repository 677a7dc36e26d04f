"""The least error by dense matrices: yardsticks for short runs.

*For a schedule in enforced order* minimise trace(A^T A X^-1) over X = C^T C subject to the sum of
|X_st| over every S_i x S_i being at most 1. (Choquette-Choo, McMahan, Rush and Thakurta,
"Multi-Epoch Matrix Factorization Mechanisms for Private Machine Learning", 2023, with equal
diagonals.) Here X_st = 0 for different steps of one S_i, and the diagonal p_s is free, so that X L
X = A^T A with a multiplier L that is block diagonal over the S_i. With X = D Y D, D = diag(p)^1/2,
M = D L D and W = D^-1 A^T A D^-1,

    Y = M^-1/2 (M^1/2 W M^1/2)^1/2 M^-1/2,   M_i <- Y_i M_i Y_i,   p_s <- (p_s M_ss / sum M)^1/2,

until Y_i = 1 and L_ss are equal within S_i. The problem is convex, and entries of L_i off its
diagonal that are no larger than those on it prove the optimum: at 512 steps in 8 epochs they are at
most 0.87 of them. What is used is scaled to hold the bound, wherever the iteration stands.

*Where only a separation is promised*, of all C with as many bands as steps apart: columns of C that
are at least b steps apart have no row in common if C has b bands: entries at lags 0 to b - 1. An
example that counts in steps at least b apart then costs the sum of the squared norms of its
columns, whatever the order and wherever its gradients point (Choquette-Choo et al., "(Amplified)
Banded Matrix Factorization", 2023). In a run of exactly epochs times b steps it has at most one
step in each stretch of b: the columns of the j-th stretch may have the squared norm q_j, with q_1 +
q_2 + ... = 1, and the later ones, which few sums read, are given less.

The mean variance is minimised over all entries of the bands and over q, by L-BFGS with the exact
gradient: with B = A C^-1, the mean variance has the derivative -2 (C^-1 B^T B)^T / steps by C. The
problem is convex in C^T C.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule
from counton.strategies.strategy import LARGEST_DENSE
from counton.strategies.training.sensitivity import (
    fixed_squared,
    gram_of_matrix,
    separated_squared,
)
from counton.strategies.training.training_strategy import (
    SLACK,
    Tap,
    TrainingStrategy,
    training_schedule,
)

_ROUNDS = 200
_ENOUGH = 1e-6


class DenseOptimum(TrainingStrategy):
    """A lower-triangular C by dense optimisation: least error known, and far too many normals.

    Args:
        matrix: C, lower-triangular with an inverse; at most 4096 steps.
        schedule: in which steps one example counts.

    >>> round(DenseOptimum.fit(16, epochs=4).rmse, 3)
    3.671
    """

    def __init__(self, matrix: Floats, schedule: Schedule) -> None:
        self.steps = check_integer("steps", len(matrix), 1, LARGEST_DENSE)
        self.schedule = Schedule(*schedule)
        self._matrix = np.tril(matrix)

    @classmethod
    def fit(cls, steps: int, epochs: int = 1) -> Self:
        """The matrix of least root mean squared error in an enforced order.

        Args:
            steps: of the run, at most 4096: minutes beyond 1024.
            epochs: of the run.

        Raises:
            InvalidInput: an argument out of range.

        >>> round(DenseOptimum.fit(64).rmse, 2)
        2.1
        """
        steps = check_integer("steps", steps, 1, LARGEST_DENSE)
        schedule = training_schedule(steps, epochs)
        return cls(_optimal(steps, schedule), schedule)

    @property
    @override
    def name(self) -> str:
        return "dense optimum"

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """The matrix by its digest."""
        return {"sha256": hashlib.sha256(self._matrix.astype("<f8").tobytes()).hexdigest()}

    @property
    def _inverse(self) -> Floats:
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self._matrix, np.eye(self.steps), lower=True))

    @override
    def taps(self, step: int) -> tuple[Tap, ...]:
        self.check_step(step)
        from scipy.linalg import solve_triangular

        unit = np.zeros(self.steps)
        unit[step - 1] = 1
        row = solve_triangular(self._matrix, unit, lower=True, trans="T")
        return tuple(Tap(0, index + 1, float(row[index])) for index in range(step))

    @override
    def first_step(self, level: int, index: int) -> int:
        """A step's own normal has its number."""
        return self.check_step(index)

    @property
    @override
    def draws(self) -> float:
        return (self.steps + 1) / 2

    @override
    def squared_sensitivity(self) -> float:
        gram = self._matrix.T @ self._matrix
        if self.schedule.fixed:
            return fixed_squared(gram_of_matrix(gram, self.schedule.apart)) * (1 + SLACK)
        return separated_squared(np.abs(gram), self.schedule) * (1 + SLACK)

    @override
    def mean_variance(self) -> float:
        return float((np.cumsum(self._inverse, axis=0) ** 2).sum() / self.steps)

    @override
    def with_schedule(self, schedule: Schedule) -> TrainingStrategy:
        return DenseOptimum(self._matrix, schedule)

    @override
    def encoder(self) -> Floats:
        return self._matrix


@lru_cache(maxsize=2)
def _optimal(steps: int, schedule: Schedule) -> Floats:
    members, apart = schedule.steps, schedule.apart
    order = np.arange(steps).reshape(members, apart).T.reshape(-1)  # S_0, S_1, ...
    back = np.argsort(order)
    totals = np.tril(np.ones((steps, steps)))
    products = (totals.T @ totals)[np.ix_(order, order)]
    shares = np.full((apart, members), 1 / members)
    start = np.sqrt(products.diagonal()).reshape(apart, members)
    multiplier = np.einsum("is,st->ist", start, np.eye(members))
    best, least = np.eye(steps), np.inf
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
        found = _both_sides(inverse, (basis * np.sqrt(np.maximum(spectrum, 0))) @ basis.T)
        blocks = found.reshape(apart, members, apart, members)
        own = blocks[np.arange(apart), :, np.arange(apart), :]
        costs = np.abs(own) * root_shares[:, :, None] * root_shares[:, None, :]
        squared = float(costs.sum((1, 2)).max())
        error = squared * float(np.trace(np.linalg.solve(found, wanted)))
        if error < least:
            improved = 1 - error / least
            best, least = found * flat[:, None] * flat, error
            if improved < _ENOUGH:
                break
        multiplier = np.einsum("iab,ibc,icd->iad", own, multiplier, own)
        diagonal = np.einsum("iss->is", multiplier)
        shares = np.sqrt(shares * diagonal / diagonal.sum(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
    gram = best[np.ix_(back, back)]
    flipped = np.linalg.cholesky(gram[::-1, ::-1])
    return np.asarray(flipped.T[::-1, ::-1])


def _both_sides(blocks: Floats, matrix: Floats) -> Floats:
    """D matrix D for a block-diagonal symmetric D."""
    apart, members, _ = blocks.shape
    steps = len(matrix)
    left = (blocks @ matrix.reshape(apart, members, steps)).reshape(steps, steps)
    turned = (blocks @ left.T.reshape(apart, members, steps)).reshape(steps, steps)
    return turned.T


#: Of the search for bands.
_ITERATIONS = 60


class BandedOptimum(DenseOptimum):
    """A banded C by optimisation: for any order of examples, with all normals of the run so far.

    Args:
        matrix: C, lower-triangular with an inverse; at most 4096 steps.
        schedule: in which steps one example counts.

    >>> round(BandedOptimum.fit(16, epochs=4).rmse, 3)
    3.704
    """

    @classmethod
    def fit(cls, steps: int, epochs: int = 1, separation: int | None = None) -> Self:
        """The bands of least root mean squared error where a separation is promised.

        Args:
            steps: of the run, at most 4096: seconds for 512, minutes beyond 1024.
            epochs: how often one example counts.
            separation: the least distance, in steps; steps // epochs unless stated.

        Raises:
            InvalidInput: an argument out of range.

        >>> BandedOptimum.fit(12, epochs=3, separation=2)
        <banded optimum, 2 bands: 12 steps, 3 for each example, at least 2 apart>
        """
        steps = check_integer("steps", steps, 1, LARGEST_DENSE)
        schedule = training_schedule(steps, epochs, "separated", separation)
        return cls(_optimal_bands(steps, schedule), schedule)

    @property
    def bands(self) -> int:
        """How many diagonals of C have entries."""
        rows, columns = np.nonzero(self._matrix)
        return int((rows - columns).max()) + 1

    @property
    @override
    def name(self) -> str:
        return f"banded optimum, {self.bands} bands"


@lru_cache(maxsize=4)
def _optimal_bands(steps: int, schedule: Schedule) -> Floats:
    from scipy.linalg import solve_triangular
    from scipy.optimize import minimize

    apart = schedule.apart if schedule.steps > 1 else steps
    tight = schedule.steps * apart == steps
    stretch = np.arange(steps) // apart if tight else np.zeros(steps, np.int64)
    number = int(stretch[-1]) + 1
    lag = np.subtract.outer(np.arange(steps), np.arange(steps))
    inside = (lag >= 0) & (lag < apart)

    def columns(x: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """C, the norms of its columns before and after they are scaled, and q."""
        shares = np.exp(x[:number] - x[:number].max())
        shares /= shares.sum()
        matrix = np.zeros((steps, steps))
        matrix[inside] = x[number:]
        norms, wanted = np.linalg.norm(matrix, axis=0), np.sqrt(shares[stretch])
        return matrix * (wanted / norms), norms, wanted, shares

    def value(x: Floats) -> tuple[float, Floats]:
        matrix, norms, wanted, shares = columns(x)
        inverse = solve_triangular(matrix, np.eye(steps), lower=True)
        sums = np.cumsum(inverse, axis=0)
        slope = np.where(inside, (inverse @ (sums.T @ sums)).T, 0.0) * (-2 / steps)
        along = (slope * matrix).sum(axis=0)  # by the logarithm of a column's norm
        by_entry = (slope - matrix * (along / wanted**2)) * (wanted / norms)
        by_share = np.asarray(np.bincount(stretch, along / 2), np.float64)
        by_share -= shares * by_share.sum()
        return float((sums**2).sum() / steps), np.concatenate([by_share, by_entry[inside]])

    odd = np.arange(1, apart)
    root = np.cumprod(np.concatenate([np.ones(1), (2 * odd - 1) / (2 * odd)]))
    found = minimize(
        value,
        np.concatenate([np.zeros(number), root[lag[inside]]]),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS},
    )
    return columns(np.asarray(found.x, np.float64))[0]

"""The least error where only a separation is promised, of all C with as many bands as steps apart.

Columns of C that are at least b steps apart have no row in common if C has b bands: entries at lags
0 to b - 1. An example that counts in steps at least b apart then costs the sum of the squared norms
of its columns, whatever the order and wherever its gradients point (Choquette-Choo et al.,
"(Amplified) Banded Matrix Factorization", 2023). In a run of exactly epochs times b steps it has at
most one step in each stretch of b: the columns of the j-th stretch may have the squared norm q_j,
with q_1 + q_2 + ... = 1, and the later ones, which few sums read, are given less.

The mean variance is minimised over all entries of the bands and over q, by L-BFGS with the exact
gradient: with B = A C^-1, the mean variance has the derivative -2 (C^-1 B^T B)^T / steps by C. The
problem is convex in C^T C.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Self

import numpy as np
from typing_extensions import override

from counton.arrays import Floats
from counton.exact import check_integer
from counton.strategies.base import LARGEST_DENSE
from counton.strategies.participation import Schedule
from counton.strategies.training.base import training_schedule
from counton.strategies.training.dense import DenseOptimum

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

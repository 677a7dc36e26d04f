"""Training strategies of least error where only a separation of steps is enforced, for short runs.

A is the matrix that sums up gradients, C the measurement matrix.

*If only a separation of b steps is enforced*, minimise over all C with b bands (entries at lags 0
to b - 1): columns of C that are at least b steps apart then share no row. The squared sensitivity
to an example that counts in steps at least b apart is then the sum of the squared norms of its
columns, in any order and for any directions of its gradients (Choquette-Choo et al., "(Amplified)
Banded Matrix Factorization", 2023). In a run of exactly epochs times b steps, it has at most one
step in each stretch of b consecutive steps. The columns of the j-th stretch may have the squared
norm q_j, with q_1 + q_2 + ... = 1; later stretches, which fewer sums contain, get less.

The mean variance is minimised over all entries of the bands and over q, by L-BFGS with the exact
gradient: with B = A C^-1, the mean variance has the derivative -2 (C^-1 B^T B)^T / steps by C. The
problem is convex in C^T C.

*With few normals per step* the inverse K of C has few diagonals: the noise of a step uses the last
normals and those an epoch before. (For a C whose bands end after an epoch, K has large entries
there.) C then has entries at all lags, so an example's steps in different epochs are not
orthogonal. The objective is the mean variance times a bound on the squared sensitivity: with P =
|C^T C| and F(s) = P_ss + 2 (the largest P_st with t >= s + b, and with t >= s + 2b, ...), for an
example in one step of each stretch it is at most the sum over stretches of the largest F. The
search replaces maxima by smooth sums of powers. The sensitivity of the final K is computed as for
all strategies (``separated_squared``), so the guarantee does not depend on this approximation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats, integers_from_text, integers_to_text
from counton.base.errors import InvalidInputError
from counton.base.exact import Number, check_integer, figures
from counton.strategies.descent import matrix_on_grid
from counton.strategies.participation import Schedule
from counton.strategies.strategy import LARGEST_DENSE
from counton.training.strategies.banded_search import (
    inverse_of,
    is_at_lags,
    optimal_bands,
    optimal_few,
)
from counton.training.strategies.sensitivity import (
    fixed_squared,
    gram_of_matrix,
    separated_squared,
)
from counton.training.strategies.sgd import SGD, weights_of
from counton.training.strategies.training_strategy import (
    SLACK,
    Search,
    Tap,
    TrainingStrategy,
    check_search,
    training_schedule,
)

#: Entries of an inverse up to this fraction of the largest one are taken as rounding errors.
_ROUNDED = 1e-9


class BandedOptimum(TrainingStrategy):
    """Training noise from an optimised measurement matrix C with few diagonals of entries other
    than 0; with ``lags``, the inverse of C has few such diagonals instead.

    Examples may come in any order that keeps a least distance between their steps.

    Args:
        matrix: the matrix C, lower-triangular and invertible: shape (steps, steps), at most 4096
            steps.
        schedule: the steps in which one training example counts; see `training_schedule`.
        lags: the noise of a step uses the normal numbers this many steps back, including 0; None:
            any number of steps back.

    Raises:
        InvalidInputError: more than 4096 steps, or a matrix whose inverse has entries at other
            lags.

    >>> round(BandedOptimum.fit(16, epochs=4).rmse, 3)
    3.704
    """

    def __init__(
        self, matrix: Floats, schedule: Schedule, lags: tuple[int, ...] | None = None
    ) -> None:
        self.steps = check_integer("steps", len(matrix), 1, LARGEST_DENSE)
        self.schedule = Schedule.from_saved(schedule)
        self.lags = lags
        matrix = np.tril(matrix)
        if lags is None:
            self._matrix = self._on_grid(matrix)
            return
        inverse = inverse_of(matrix)
        kept = np.where(is_at_lags(self.steps, lags), inverse, 0.0)
        elsewhere = float(np.abs(inverse - kept).max())
        if not elsewhere <= _ROUNDED * float(np.abs(kept).max()):
            raise InvalidInputError(
                f"the inverse of the matrix has an entry of {elsewhere:.3g} at other lags than "
                f"{lags}: name all lags at which a step uses normal numbers, or leave "
                "lags out"
            )
        self._keep_inverse(kept)

    def _keep_inverse(self, increments: Floats) -> None:
        """Store the rounded inverse K of C (``increments``), and compute C from it."""
        self._increments = self._on_grid(increments)
        self._matrix = inverse_of(self._increments)

    def _on_grid(self, matrix: Floats) -> Floats:
        """Return the matrix in multiples of 2^-bits, which `to_dict` saves exactly."""
        self._entries, self._bits = matrix_on_grid(matrix)
        return np.ldexp(self._entries.astype(np.float64), -self._bits)

    @classmethod
    def fit(
        cls,
        steps: int,
        epochs: int = 1,
        separation: int | None = None,
        draws: Number | None = None,
        optimizer: SGD | None = None,
        order: str = "separated",
        search: Search = "long",
    ) -> Self:
        """Return the strategy of least root mean squared error if an example's steps have a least
        distance.

        Args:
            steps: number of steps, at most 4096; 512 take seconds, beyond 1024 it takes minutes.
            epochs: largest number of steps in which one training example counts.
            separation: the least distance of these steps; by default the number of steps in an
                epoch.
            draws: largest number of normal numbers per coordinate and step, on average; by default
                all normal numbers of the run so far.
            optimizer: the optimiser whose weights shall have little error; None: running sums.
            order: "separated"; or "fixed", a stronger condition, which never needs more noise.
            search: "quick" or "long". Beyond 160 steps a quick search ends early, with an error
                that is up to 4% larger.

        Raises:
            InvalidInputError: an argument out of range.

        >>> BandedOptimum.fit(12, epochs=3, separation=2)
        <banded optimum, 2 bands: 12 steps, 3 for each example, at least 2 apart>
        >>> BandedOptimum.fit(12, epochs=3, draws=4)
        <banded optimum, 4 normals: 12 steps, 3 for each example, at least 4 apart>
        """
        steps = check_integer("steps", steps, 1, LARGEST_DENSE)
        requested = training_schedule(steps, epochs, order, separation)
        check_search(search)
        # The search is the same in a fixed order; only the sensitivity is computed for it.
        schedule = training_schedule(steps, epochs, "separated", requested.apart)
        most = (steps + 1) / 2 if draws is None else float(draws)
        if not most >= 1:
            raise InvalidInputError(
                f"draws is {draws}; it must be at least 1: each step takes one normal or more"
            )
        if most >= (steps + 1) / 2:
            bands = optimal_bands(steps, schedule, optimizer, search)
            return cls(bands, requested).under(optimizer)
        # The last normal numbers, and those an epoch before, as many as ``draws`` allows.
        apart = schedule.apart if schedule.steps > 1 else steps
        nearest = [lag for near in range(apart) for lag in (near, near + apart) if lag < steps]
        shares = accumulate((steps - lag) / steps for lag in nearest)
        lags = tuple(
            sorted(lag for lag, so_far in zip(nearest, shares, strict=True) if so_far <= most)
        )
        few = optimal_few(steps, schedule, lags, optimizer, search)
        return cls(few, requested, lags).under(optimizer)

    @property
    def bands(self) -> int:
        """Number of diagonals of the measurement matrix C that have entries other than 0."""
        rows, columns = np.nonzero(self._matrix)
        return int((rows - columns).max()) + 1

    @property
    @override
    def name(self) -> str:
        few = f"{self.bands} bands" if self.lags is None else f"{figures(self.draws)} normals"
        return f"banded optimum, {few}"

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        """JSON values: fraction bits of the matrix, a digest of its entries, and the lags."""
        parameters: dict[str, object] = {"bits": self._bits, "matrix_sha256": self._digest}
        return parameters if self.lags is None else parameters | {"lags": list(self.lags)}

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self._entries, "<i8").tobytes()).hexdigest()

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the description of the training strategy as JSON values, with its matrix."""
        return {**self.address, "matrix": integers_to_text(self._entries)}

    @classmethod
    @override
    def _from_description(
        cls,
        steps: int,
        schedule: Schedule,
        bits: int,
        matrix: str,
        lags: Sequence[int] | None = None,
        **_: Any,
    ) -> Self:
        """Rebuild the strategy from ``matrix``, which encodes C, or its inverse with ``lags``."""
        kept = _matrix_of(steps, bits, matrix)
        if lags is None:
            return cls(kept, Schedule.from_saved(schedule))
        strategy = cls(np.eye(len(kept)), Schedule.from_saved(schedule), tuple(lags))
        strategy._keep_inverse(kept)
        return strategy

    @override
    def taps(self, step: int) -> tuple[Tap, ...]:
        self.check_step(step)
        if self.lags is not None:
            row = self._increments[step - 1]
            reached = [step - lag for lag in self.lags if lag < step]
            return tuple(Tap(0, index, float(row[index - 1])) for index in reached)
        from scipy.linalg import solve_triangular

        unit = np.zeros(self.steps)
        unit[step - 1] = 1
        row = solve_triangular(self._matrix, unit, lower=True, trans="T")
        return tuple(Tap(0, index + 1, float(row[index])) for index in range(step))

    @property
    @override
    def draws(self) -> float:
        if self.lags is None:
            return (self.steps + 1) / 2
        return sum(self.steps - lag for lag in self.lags) / self.steps

    @override
    def squared_sensitivity(self) -> float:
        gram = self._matrix.T @ self._matrix
        if self.schedule.fixed:
            return fixed_squared(gram_of_matrix(gram, self.schedule.apart)) * (1 + SLACK)
        return separated_squared(np.abs(gram), self.schedule) * (1 + SLACK)

    @override
    def mean_variance(self) -> float:
        noise = weights_of(inverse_of(self._matrix), self.optimizer)
        return float((noise**2).sum() / self.steps)

    @override
    def encoder(self) -> Floats:
        return self._matrix


def _matrix_of(steps: int, bits: int, text: str) -> Floats:
    """Return the matrix that a text encodes in units of 2^-bits: float64, shape (steps, steps)."""
    steps = check_integer("steps", steps, 1, LARGEST_DENSE)
    bits = check_integer("bits", bits, -1000, 1000)
    return np.ldexp(integers_from_text(text, (steps, steps)).astype(np.float64), -bits)

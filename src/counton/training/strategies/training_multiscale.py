"""Multiscale noise for training: on every octave of time, interpolated between its points.

Level l has nodes 1, 2, ..., one for each 2^l steps, with standard normals z_l and a weight w_l.
Nothing is stored between steps, because normals are drawn again from their addresses. The noise of
the running sum at step t is N(t) = N_0(t), computed from the highest level L down:

    N_L = w_L z_L,    N_l = w_l z_l + U N_(l+1),
    (U g)(2q) = (3 g(q-1) + 10 g(q) + 3 g(q+1)) / 16,    (U g)(2q+1) = (g(q) + g(q+1)) / 2,

where U interpolates from a level to the one below, and N(0) = 0. The noise of step t is (N(t) -
N(t-1)) / d_t, with a divisor d_t of step scaling. Let B be the matrix of the weights of all normals
in N, A the matrix that sums up gradients, and D = diag(d). Then C = B^T (B B^T)^-1 A D is the
measurement matrix of least norm; without D, C^T C is G = A^T (B B^T)^-1 A.

The noise of a step uses some normals of later nodes. But its distribution is that of noise with a
lower-triangular matrix, the Cholesky factor of the covariance. So the guarantee for Gaussian noise
holds if gradients depend on earlier releases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.descent import descend, on_grid
from counton.strategies.participation import Schedule
from counton.strategies.strategy import LARGEST_DENSE
from counton.strategies.streams.multiscale import matrix
from counton.training.strategies.scaling import balance, best_shares, weighted_gram
from counton.training.strategies.sensitivity import (
    by_schedule,
    fixed_squared,
    gram_of_matrix,
    in_order,
    separated_squared,
)
from counton.training.strategies.toeplitz import check_scaling, check_shares
from counton.training.strategies.training_strategy import (
    SLACK,
    Search,
    Tap,
    TrainingStrategy,
    check_search,
    training_schedule,
)

#: Largest number of steps for which weights are searched; longer runs use the weights of a shorter
#: run.
MOST_SEARCHED_STEPS = 512
#: The same for a quick search.
MOST_QUICKLY_SEARCHED_STEPS = 128


class OctaveTraining(TrainingStrategy):
    """Training noise that stores nothing from step to step: each step draws about thirty normal
    numbers.

    The noise of running sums is interpolated from normal numbers at points of time 1, 2, 4, ...
    steps apart.

    Args:
        steps: number of steps of the run, at most 4096.
        weights: standard deviation of the noise on each level, beginning with single steps.
        schedule: the steps in which one training example counts; see `training_schedule`.
        shares: one positive number for each step, from which step scaling computes the numbers that
            divide the steps' noise; default: 1.

    Raises:
        InvalidInputError: an argument out of range.

    >>> strategy = OctaveTraining(16, (1.0, 0.8, 0.8, 0.8, 0.8, 1.2))
    >>> strategy.buffers, len(strategy.taps(7))
    (0, 14)
    >>> round(strategy.squared_sensitivity(), 6)
    1.0
    """

    saved_name = "Octave"

    def __init__(
        self,
        steps: int,
        weights: Sequence[float],
        schedule: Schedule | None = None,
        shares: object = None,
    ) -> None:
        self._set_run(steps, schedule, LARGEST_DENSE)
        self.weights = tuple(float(weight) for weight in weights)
        if not self.weights or not all(0 < weight < math.inf for weight in self.weights):
            raise InvalidInputError(
                f"weights are {self.weights}; give a number above 0 for each level: use "
                "OctaveTraining.fit to find them"
            )
        checked = check_shares(self.steps, shares)
        self.shares = np.ones(self.steps) if checked is None else checked

    @classmethod
    def fit(
        cls,
        steps: int,
        epochs: int = 1,
        order: str = "fixed",
        separation: int | None = None,
        scaling: str = "equal",
        search: Search = "long",
    ) -> Self:
        """Return the strategy whose weights of levels have the least root mean squared error that a
        search finds.

        A run of more than 512 steps, or of more than 128 steps with a quick search, gets the
        weights of a shorter run; the weight of its middle level is repeated for the additional
        levels.

        Args:
            steps, epochs, order, separation: the run, and the steps in which an example counts, as
                in `training_schedule`.
            scaling: the kind of step scaling: "equal", or "free" if examples keep their places in
                all epochs.
            search: "quick" or "long".

        Raises:
            InvalidInputError: an argument out of range.

        >>> OctaveTraining.fit(32).draws
        17.46875
        """
        # The search is L-BFGS with the exact gradient.
        steps = check_integer("steps", steps, 1, LARGEST_DENSE)
        schedule = training_schedule(steps, epochs, order, separation)
        check_search(search)
        most = MOST_SEARCHED_STEPS if search == "long" else MOST_QUICKLY_SEARCHED_STEPS
        if steps <= most:
            fitted = _search(steps, schedule)
        else:
            halvings = math.ceil(math.log2(steps / most))
            short = steps >> halvings
            apart = max(schedule.apart >> halvings, 1)
            fit = -(-short // apart)
            members = fit if schedule.fixed else min(schedule.steps, fit)
            fitted = _search(short, Schedule(members, apart, schedule.fixed))
            middle = len(fitted) // 2
            more = _levels(steps) - len(fitted)
            fitted = fitted[:middle] + (fitted[middle],) * more + fitted[middle:]
        best = cls(steps, fitted, schedule).with_scaling(scaling)
        if scaling == "equal" or steps > MOST_SEARCHED_STEPS or search == "quick":
            return best
        weights = _search_weights(steps, schedule, best.weights, best.shares)
        return min(
            best,
            cls(steps, weights, schedule).with_scaling(scaling),
            key=lambda strategy: strategy.rmse,
        )

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        equal = bool((self.shares == 1).all())
        shares = {} if equal else {"shares": self.shares.tolist()}
        return {"weights": list(self.weights), **shares}

    def with_scaling(self, scaling: str = "equal") -> Self:
        """Return a copy with step scaling, by which the noise of each step is divided by a number
        of its own.

        Args:
            scaling: "equal"; or "free", if examples keep their places in all epochs.

        Raises:
            InvalidInputError: another kind of scaling, or "free" without a fixed order.

        >>> strategy = OctaveTraining(16, (1.0, 0.8, 0.8, 0.8, 0.8, 1.2), training_schedule(16, 4))
        >>> strategy.rmse > strategy.with_scaling("free").rmse
        True
        """
        if scaling not in ("equal", "free"):
            raise InvalidInputError(f"scaling is {scaling!r}; give 'equal' or 'free'")
        check_scaling(scaling, self.schedule)
        if scaling == "equal":
            return self._copy_with("_divisors", shares=np.ones(self.steps))
        gram = gram_of_matrix(self._full_gram, self.schedule.apart)
        return self._copy_with("_divisors", shares=best_shares(gram, self._scaling_matrix()))

    @override
    def taps(self, step: int) -> tuple[Tap, ...]:
        self.check_step(step)
        taps = []
        for level, values in enumerate(_interpolations(self.steps, len(self.weights))):
            row = values[step - 1] - (values[step - 2] if step > 1 else 0)
            weight = self.weights[level]
            taps += [
                Tap(level, int(index) + 1, weight * float(row[index])) for index in row.nonzero()[0]
            ]
        return tuple(taps)

    @override
    def first_step(self, level: int, index: int) -> int:
        """Return the first step whose noise uses this normal, which may be of a later node.

        Args:
            level: level of the node, from 0.
            index: index of the node in its level, from 1.
        """
        return self._first_steps[level, index]

    @cached_property
    def _first_steps(self) -> dict[tuple[int, int], int]:
        steps = range(self.steps, 0, -1)
        return {(tap.level, tap.index): step for step in steps for tap in self.taps(step)}

    @override
    def divisor(self, step: int) -> float:
        return float(self._divisors[self.check_step(step) - 1])

    @cached_property
    def _covariance(self) -> Floats:
        return _covariance(self.steps, self.weights)

    @cached_property
    def _full_gram(self) -> Floats:
        from scipy.linalg import cho_factor, cho_solve

        totals = np.tril(np.ones((self.steps, self.steps)))
        return np.asarray(totals.T @ cho_solve(cho_factor(self._covariance), totals))

    @cached_property
    def _divisors(self) -> Floats:
        return balance(gram_of_matrix(self._full_gram, self.schedule.apart), self.shares)

    def _scaling_matrix(self) -> Floats:
        """Return F, shape (steps, steps): the mean variance is e^T F e with e_t = 1 / d_t."""
        return weighted_gram(_differences(self._covariance), self.optimizer)

    @override
    def squared_sensitivity(self) -> float:
        if self.schedule.fixed:
            gram = gram_of_matrix(self._full_gram, self.schedule.apart)
            return fixed_squared(gram, self._divisors) * (1 + SLACK)
        products = np.abs(self._full_gram) * self._divisors[:, None] * self._divisors
        return separated_squared(products, self.schedule) * (1 + SLACK)

    @override
    def mean_variance(self) -> float:
        inverse = 1 / self._divisors
        return float(inverse @ self._scaling_matrix() @ inverse)

    @override
    def encoder(self) -> Floats:
        totals = np.tril(np.ones((self.steps, self.steps)))
        rows, _ = self.increments()
        sums = np.cumsum(rows * self._divisors[:, None], axis=0)
        return np.asarray(sums.T @ np.linalg.solve(self._covariance, totals) * self._divisors)


def _ranges(steps: int, levels: int) -> list[range]:
    """Return the indices of the nodes of each level, as ranges that begin at 1, lowest level first.

    The lowest level has a node for each step. Each next level has about half as many nodes, from
    whose values those of the level below are interpolated.

    >>> _ranges(8, 3)
    [range(1, 9), range(1, 6), range(1, 4)]
    """
    ranges = [range(1, steps + 1)]
    for _ in range(levels - 1):
        ranges.append(range(1, (ranges[-1].stop - 1) // 2 + 2))
    return ranges


@lru_cache(maxsize=4)
def _interpolations(steps: int, levels: int) -> tuple[Floats, ...]:
    """Return each level's weights in running sums at unit deviation: shape (steps, nodes)."""
    interpolations = [np.eye(steps)]
    for child, parent in pairwise(_ranges(steps, levels)):
        interpolations.append(interpolations[-1] @ matrix(child, parent))
    return tuple(interpolations)


@lru_cache(maxsize=1)
def _covariances(steps: int, levels: int) -> tuple[Floats, ...]:
    """Return each level's covariance of running sums at unit deviation: (steps, steps)."""
    return tuple(
        interpolation @ interpolation.T for interpolation in _interpolations(steps, levels)
    )


def _covariance(steps: int, weights: Sequence[float]) -> Floats:
    """Return the covariance of running sums, (steps, steps), for the levels' ``weights``."""
    total = np.zeros((steps, steps))
    for weight, part in zip(weights, _covariances(steps, len(weights)), strict=True):
        total += weight**2 * part
    return total


def _differences(covariance: Floats) -> Floats:
    """Return the covariance of single steps, given that of running sums: same shape."""
    # The noise of a step is N(t) - N(t-1), with N(0) = 0.
    return np.diff(np.diff(covariance, axis=0, prepend=0), axis=1, prepend=0)


def _levels(steps: int) -> int:
    """Return the number of levels of points of time for a run of ``steps`` steps."""
    return math.ceil(math.log2(steps)) + 2 if steps > 1 else 1


@lru_cache(maxsize=64)
def _search(steps: int, schedule: Schedule) -> tuple[float, ...]:
    levels = _levels(steps)
    start = [1.0, *(0.78 for _ in range(levels - 2)), 1.4][:levels]
    return _search_weights(steps, schedule, start, np.ones(steps))


def _search_weights(
    steps: int, schedule: Schedule, start: Sequence[float], shares: Floats
) -> tuple[float, ...]:
    """Return the weights of least error found from ``start``, the first of them 1.

    ``shares``, shape (steps,): the divisors of an example's steps are proportional to them.
    """
    # With S = B B^T, H = S^-1 A and D the differences, the mean variance e^T (W o D S D^T) e
    # changes by <dS, M> where M = D^T (W o e e^T) D - H K H^T, K_st = u_s u_t sign(G_st) / q_i
    # times the part of the variance that belongs to S_i, for s and t of one S_i.
    from scipy.linalg import cho_factor, cho_solve

    if len(start) == 1:
        return tuple(start)
    parts = _interpolations(steps, len(start))
    totals = np.tril(np.ones((steps, steps)))
    indices = np.arange(steps)
    share_left = (steps - np.maximum(indices[:, None], indices)) / steps
    same = (indices[:, None] - indices) % schedule.apart == 0
    outer = shares[:, None] * shares

    def log_variance_and_gradient(logs: Floats) -> tuple[float, Floats]:
        weights = np.exp(np.concatenate([[0.0], logs]))
        covariance = _covariance(steps, tuple(weights.tolist()))
        solved = cho_solve(cho_factor(covariance), totals)
        gram = totals.T @ solved
        costs = (np.abs(gram) * outer * same).sum(axis=1)  # cost of the S_i of each step, by rows
        rows = by_schedule(costs, schedule.apart).sum(axis=1)
        squared = in_order(np.repeat(rows[:, None], -(-steps // schedule.apart), 1), steps)
        inverse = np.sqrt(squared) / shares
        weights_of_steps = share_left * _differences(covariance)
        moved = inverse * (weights_of_steps @ inverse)
        total = float(moved.sum())
        slopes_by_step = by_schedule(moved, schedule.apart).sum(axis=1)
        owned = in_order(np.repeat(slopes_by_step[:, None], -(-steps // schedule.apart), 1), steps)
        kept = outer * np.sign(gram) * same * (owned / squared)[:, None]
        direct = share_left * inverse[:, None] * inverse
        once = direct - np.concatenate([direct[1:], np.zeros((1, steps))])
        slope = once - np.concatenate([once[:, 1:], np.zeros((steps, 1))], axis=1)
        slope -= solved @ kept @ solved.T
        gradient = [
            2 * weight**2 * float(((slope @ part) * part).sum())
            for weight, part in zip(weights[1:], parts[1:], strict=True)
        ]
        return math.log(total), np.array(gradient) / total

    begin = np.log(np.array(start[1:])) - math.log(start[0])
    _, logs = descend(
        log_variance_and_gradient, begin, [(-6.0, 4.0)] * len(begin), maxiter=40, ftol=1e-9
    )
    return (1.0, *on_grid(np.exp(logs)).tolist())

"""BLT, buffered linear Toeplitz noise: a few numbers per coordinate are kept from step to step.

Dvijotham, McMahan, Pillutla, Steinke and Thakurta, "Efficient and Near-Optimal Noise Generation for
Streaming Differential Privacy" (2024); with several epochs McMahan, Xu and Zhang (2024). C is the
measurement matrix, Toeplitz with the power series C(x). With poles theta_i and zeros thetahat_i
that interlace, 1 > theta_1 > thetahat_1 > theta_2 > ... > 0,

    C(x) = prod (1 - thetahat_i x) / (1 - theta_i x) = 1 + sum w_i x / (1 - theta_i x), w_i > 0,
    C^-1(x) = 1 + sum v_i x / (1 - thetahat_i x), v_i < 0.

The coefficients of C are positive and decrease, so the sensitivity of any schedule is known
exactly. With a fresh normal z_t and the buffers S_i (the kept numbers), the noise of step t is z_t
+ sum v_i S_i. Then S_i becomes thetahat_i S_i + z_t.

Computations use 1 - theta and 1 - thetahat, whose differences lose no digits.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.descent import DIFFERENCE, descend, on_grid, with_differences
from counton.strategies.participation import Schedule
from counton.training.strategies.division import divide_series
from counton.training.strategies.scaling import balance, scaled_variance
from counton.training.strategies.sensitivity import gram_of_schedules
from counton.training.strategies.sgd import RUNNING_SUMS, SGD, series_of, unscaled_variance
from counton.training.strategies.toeplitz import (
    Scaling,
    ToeplitzTraining,
    check_scaling,
    check_shares,
)
from counton.training.strategies.training_strategy import Tap, training_schedule

#: Largest number of buffers; more lower the error by less than float64 can resolve.
MOST_BUFFERS = 8
#: Up to this many steps, a second search improves the parameters under step scaling.
MOST_REFITTED_STEPS = 4096
#: Up to this many steps, the same under an optimiser, which takes time quadratic in the steps.
MOST_REFITTED_STEPS_UNDER_OPTIMIZER = 512
#: A buffer that lowers the error by less than this fraction is left out.
_LEAST_ERROR_REDUCTION = 1e-5
#: Zeros are multiples of this number, at least as far from 0 and 1; float32 holds all of them.
_ZERO_UNIT = 2.0**-24


class BufferedToeplitz(ToeplitzTraining):
    """Training noise (BLT, buffered linear Toeplitz) that keeps a few numbers per coordinate, and
    draws one normal number per step.

    Args:
        steps: number of steps of the run.
        theta: poles of the power series whose coefficients are the first column of the measurement
            matrix, in (0, 1), decreasing.
        thetahat: zeros of this series; theta_1 > thetahat_1 > theta_2 > ... > 0.
        schedule: the steps in which one training example counts; see `training_schedule`.
        shares: one positive number for each step, from which step scaling computes the numbers that
            divide the steps' noise; None: noise is not scaled.

    Raises:
        InvalidInputError: parameters that do not interlace within (0, 1).

    >>> strategy = BufferedToeplitz.fit(steps=512)
    >>> strategy.buffers, round(strategy.rmse, 4)
    (3, 2.8375)
    >>> round(strategy.with_scaling().rmse, 4)
    2.7857
    """

    def __init__(
        self,
        steps: int,
        theta: tuple[float, ...],
        thetahat: tuple[float, ...],
        schedule: Schedule | None = None,
        shares: object = None,
    ) -> None:
        self._set_run(steps, schedule)
        self.theta = tuple(float(value) for value in theta)
        self.thetahat = tuple(float(value) for value in thetahat)
        if not interlaces(self.theta, self.thetahat):
            raise InvalidInputError(
                f"theta is {self.theta} and thetahat is {self.thetahat}; give 1 to {MOST_BUFFERS} "
                "numbers in each, equally many, with 1 > theta_1 > thetahat_1 > theta_2 > ... > 0: "
                "use BufferedToeplitz.fit to find them"
            )
        self.shares = check_shares(self.steps, shares)
        self.decays = self.thetahat
        self.outputs = tuple(_residues(1 - np.array(thetahat), 1 - np.array(theta)).tolist())

    @classmethod
    def fit(
        cls,
        steps: int,
        epochs: int = 1,
        order: str = "fixed",
        separation: int | None = None,
        buffers: int = 3,
        scaling: Scaling = "none",
        optimizer: SGD | None = None,
    ) -> Self:
        """Return the strategy whose theta and thetahat have the least root mean squared error
        found.

        Without step scaling, the time of the search does not depend on the number of steps.

        Args:
            steps, epochs, order, separation: the run, and the steps in which an example counts, as
                in `training_schedule`.
            buffers: largest number of values kept per coordinate; fewer are used if one more would
                lower the error by less than 1/100,000.
            scaling: the kind of step scaling; up to 4096 steps, a second search improves the
                parameters for it.
            optimizer: the optimiser whose weights shall have little error; None: running sums.

        Raises:
            InvalidInputError: an argument out of range.

        >>> BufferedToeplitz.fit(steps=512, epochs=8, buffers=2)
        <BLT-2: 512 steps, 8 for each example, fixed order>
        """
        # L-BFGS over the logit of 1 - theta_1 and the logarithms of the following gaps, from two
        # starts; the objective is in closed form.
        schedule = training_schedule(steps, epochs, order, separation)
        buffers = check_integer("buffers", buffers, 1, MOST_BUFFERS)
        # The coefficients c_1 to c_2d are 2d moments of a measure on theta, and some d points have
        # the same moments (Gauss).
        buffers = min(buffers, max(1, steps // 2))
        check_scaling(scaling)
        theta, thetahat = fit_buffers(steps, schedule, buffers, series_of(optimizer, steps))
        strategy = cls(steps, theta, thetahat, schedule).under(optimizer)
        if scaling == "none":
            return strategy
        best = strategy.with_scaling(scaling)
        if steps > (
            MOST_REFITTED_STEPS if optimizer is None else MOST_REFITTED_STEPS_UNDER_OPTIMIZER
        ):
            return best

        def again(best: Self) -> Self | None:
            theta, thetahat = interlace(_refit(best))
            if not interlaces(theta, thetahat):
                return None
            refitted = cls(steps, theta, thetahat, schedule)
            return refitted.under(optimizer).with_scaling(scaling)

        return best._best_refit(again, 1 if scaling == "equal" else 2)

    @property
    @override
    def name(self) -> str:
        return f"BLT-{self.buffers}{'' if self.shares is None else ', steps scaled'}"

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        parameters = {"theta": list(self.theta), "thetahat": list(self.thetahat)}
        return parameters | super().parameters

    @override
    def taps(self, step: int) -> tuple[Tap, ...]:
        return (Tap(0, self.check_step(step), 1.0),)

    @property
    @override
    def draws(self) -> float:
        return 1.0

    @override
    def coefficients(self) -> Floats:
        return blt_coefficients(self.steps, self.theta, self.thetahat)

    @override
    def inverse(self) -> Floats:
        return blt_coefficients(self.steps, self.thetahat, self.theta)

    @override
    def mean_variance(self) -> float:
        """Return the mean over all steps of the variance of the running sums of noise, with or
        without step scaling.

        The unit is the variance of one normal number; the time is O(steps).
        """
        if self.divisors is None or self.optimizer is not None:
            return super().mean_variance()
        return _scaled_variance(np.array(self.decays), np.array(self.outputs), 1 / self.divisors)


def interlaces(theta: tuple[float, ...], thetahat: tuple[float, ...]) -> bool:
    """Return True if theta and thetahat interlace: 1 > theta_1 > thetahat_1 > theta_2 > ... > 0.

    Return False if they do not, or if there are more than eight of each.

    >>> interlaces((0.9, 0.5), (0.7, 0.2)), interlaces((0.9, 0.7), (0.7, 0.2))
    (True, False)
    """
    if len(theta) != len(thetahat) or not 1 <= len(theta) <= MOST_BUFFERS:
        return False
    together = [1.0, *(x for pair in zip(theta, thetahat, strict=True) for x in pair), 0.0]
    return all(a > b for a, b in pairwise(together))


def _residues(poles: Floats, zeros: Floats) -> Floats:
    """Return w_i of prod (1 - zero_i x) / (1 - pole_i x) = 1 + sum w_i x / (1 - pole_i x).

    ``poles`` and ``zeros`` have 1 - pole_i and 1 - zero_i along the last axis; shape as ``poles``.
    """
    differences = zeros[..., None, :] - poles[..., :, None]
    others = poles[..., None, :] - poles[..., :, None]
    others = np.where(np.eye(poles.shape[-1], dtype=bool), 1.0, others)
    return np.asarray(differences.prod(-1) / others.prod(-1))


def blt_coefficients(steps: int, poles: tuple[float, ...], zeros: tuple[float, ...]) -> Floats:
    """Return the first ``steps`` coefficients of the power series prod (1 - zero_i x) / (1 - pole_i
    x).

    >>> blt_coefficients(3, (0.5,), (0.25,)).tolist()
    [1.0, 0.25, 0.125]
    """
    gaps = 1 - np.array(poles)
    weights = _residues(gaps, 1 - np.array(zeros))
    powers = np.exp(np.outer(np.log1p(-gaps), np.arange(steps - 1)))
    return np.concatenate([np.ones(1), weights @ powers])


# ------------------------------------------------------------------------------------ the search


def from_search(x: Floats) -> Floats:
    """Convert any real numbers ``x`` to 1 - theta_1, 1 - thetahat_1, 1 - theta_2, ..., of a BLT.

    These ascend always, so the poles and zeros interlace. Both lie along the last axis.
    """
    steps = np.concatenate([x[..., :1], np.exp(x[..., 1:])], axis=-1)
    return np.asarray(1 / (1 + np.exp(-np.cumsum(steps, axis=-1))))


def to_search(v: Floats) -> Floats:
    """Convert 1 - theta_1, 1 - thetahat_1, ... to the variables of a search, as `from_search`
    inverted.
    """
    logits = np.log(v) - np.log1p(-v)
    return np.concatenate([logits[:1], np.log(np.diff(logits))])


def search_variables(theta: tuple[float, ...], thetahat: tuple[float, ...]) -> Floats:
    """Return the variables of a search (see `from_search`) for poles theta and zeros thetahat."""
    return to_search(1 - np.array([theta, thetahat]).T.reshape(-1))


def search_start(steps: int, buffers: int) -> Floats:
    """Return the variables (see `from_search`) at which the search starts: (2 * buffers,)."""
    # 1 - theta_1 is near 1/steps.
    logits = np.linspace(np.log(1 / steps), 0.3, 2 * buffers)
    return np.concatenate([logits[:1], np.log(np.diff(logits))])


def search_bounds(buffers: int) -> list[tuple[float, float]]:
    """Return (lowest, highest) for each of the 2 * buffers variables of `from_search`."""
    return [(-40.0, 3.0)] + [(-9.0, 4.0)] * (2 * buffers - 1)


def interlace(v: Floats) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the poles theta and zeros thetahat of buffered linear Toeplitz noise (BLT), rounded to
    multiples of a small number.

    ``v`` has 1 - theta_1, 1 - thetahat_1, 1 - theta_2, .... A strategy needs theta_1 > thetahat_1 >
    theta_2 > ...; rounding may break this order, and `interlaces` checks it.

    >>> interlace(np.array([0.01, 0.1]))
    ((0.9900016784667969,), (0.899993896484375,))
    """
    # Buffers are multiplied by thetahat in float32, so every thetahat is rounded to a multiple of
    # 2^-24. If rounded numbers no longer interlace, fewer buffers are as good.
    v = np.minimum(on_grid(v), 1 - _ZERO_UNIT)
    v[1::2] = np.maximum(np.rint(v[1::2] / _ZERO_UNIT) * _ZERO_UNIT, _ZERO_UNIT)
    return tuple((1 - v[0::2]).tolist()), tuple((1 - v[1::2]).tolist())


@lru_cache(maxsize=256)
def fit_buffers(
    steps: int, schedule: Schedule, buffers: int, series: tuple[float, ...] = RUNNING_SUMS
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the theta and thetahat of least error without step scaling, at most ``buffers`` each.

    A buffer is left out if it lowers the error by less than 1/100,000. ``series`` is that of
    `series_of`.
    """
    if buffers == 1:
        fitted = _search(steps, schedule, 1, series)
        theta, thetahat = fitted
        return fitted if interlaces(theta, thetahat) else ((0.5,), (0.25,))
    fewer = fit_buffers(steps, schedule, buffers - 1, series)
    if len(fewer[0]) < buffers - 1:
        return fewer
    fitted = _search(steps, schedule, buffers, series)
    theta, thetahat = fitted
    if not interlaces(theta, thetahat):
        return fewer
    largest_rmse = _rmse(fewer, steps, schedule, series) * (1 - _LEAST_ERROR_REDUCTION)
    return fitted if _rmse(fitted, steps, schedule, series) < largest_rmse else fewer


def _rmse(
    parameters: tuple[tuple[float, ...], tuple[float, ...]],
    steps: int,
    schedule: Schedule,
    series: tuple[float, ...],
) -> float:
    gaps = 1 - np.array(parameters).T.reshape(1, -1)
    return math.sqrt(float(_errors(gaps, steps, schedule, series)[0]))


def _search(
    steps: int, schedule: Schedule, buffers: int, series: tuple[float, ...]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    shifts = DIFFERENCE * np.concatenate(
        [np.zeros((1, 2 * buffers)), np.eye(2 * buffers), -np.eye(2 * buffers)]
    )

    def value(x: Floats) -> tuple[float, Floats]:
        with np.errstate(all="ignore"):
            logs = np.log(_errors(from_search(x + shifts), steps, schedule, series)) / 2
        logs = np.where(np.isfinite(logs), logs, 1e3)
        up = logs[1 : 2 * buffers + 1]
        down = logs[2 * buffers + 1 :]
        return float(logs[0]), (up - down) / (2 * DIFFERENCE)

    bounds = search_bounds(buffers)
    ends = {"maxiter": 400, "ftol": 1e-14, "gtol": 1e-9}
    starts = [search_start(begin, buffers) for begin in (steps, max(steps // 16, 8))]
    fits = [descend(value, start, bounds, **ends) for start in starts]
    return interlace(from_search(min(fits, key=lambda fit: fit[0])[1]))


def _errors(v: Floats, steps: int, schedule: Schedule, series: tuple[float, ...]) -> Floats:
    """Return the squared error (squared sensitivity times mean variance) of each row of ``v``.

    A row has 1 - theta_1, 1 - thetahat_1, 1 - theta_2, ..., of a BLT.
    """
    poles = v[:, 0::2]
    zeros = v[:, 1::2]
    squares = _squared_sums(poles, _residues(poles, zeros), steps, schedule)
    outputs = _residues(zeros, poles)
    if series == RUNNING_SUMS:
        return squares * _variances(zeros, outputs, np.prod(poles / zeros, axis=1), steps)
    powers = np.exp(np.log1p(-zeros)[..., None] * np.arange(steps - 1))
    later = np.einsum("ri,rit->rt", outputs, powers)
    return squares * unscaled_variance(np.insert(later, 0, 1.0, axis=1), series)


def _squared_sums(poles: Floats, weights: Floats, steps: int, schedule: Schedule) -> Floats:
    """Return the squared sensitivity to an example of each epoch, for each row of a BLT.

    A row has the 1 - theta_i and w_i of C(x). The worst example counts in each epoch's first step.
    """
    # It is the squared norm of c + (c shifted by an epoch) + ..., with c the coefficients of C,
    # computed by geometric sums for each epoch.
    apart = schedule.apart if schedule.steps > 1 else steps
    epochs = np.arange(-(-steps // apart))
    logs = np.log1p(-poles)[:, None, :]  # (rows, 1, buffers)
    once = -np.expm1(apart * logs)
    kept = np.minimum(epochs + 1, schedule.steps)[None, :, None]
    oldest = (epochs[None, :, None] + 1 - kept) * apart
    factor = np.exp(oldest * logs) * -np.expm1(kept * apart * logs) / once
    # The first step of an epoch has its own coefficient c_0 = 1, and those at whole epochs.
    is_first = oldest == 0
    whole = factor - np.where(is_first, 1.0, 0.0)
    first = is_first[:, :, 0] + np.einsum("rm,rem->re", weights, whole * np.exp(-logs))
    pair = logs[:, 0, :, None] + logs[:, 0, None, :]
    length = np.minimum(apart, steps - epochs * apart)[None, :, None, None] - 1
    sums = np.expm1(length * pair[:, None]) / np.expm1(pair)[:, None]
    carried = weights[:, None, :] * factor
    rest = np.einsum("rei,rej,reij->re", carried, carried, sums)
    return np.asarray((first**2 + rest).sum(axis=1))


def _variances(zeros: Floats, outputs: Floats, constant: Floats, steps: int) -> Floats:
    """Return the mean variance of running sums of noise, for each row of a BLT.

    A row has the 1 - thetahat_i and v_i of C^-1(x); ``constant`` is prod (1 - theta_i) / (1 -
    thetahat_i).
    """
    # The mean over t of the sum over s <= t of b_s^2, with b_s = constant + sum gamma_i
    # thetahat_i^s.
    gains = -outputs / zeros

    def weighted_total(gap: Floats) -> Floats:
        """Return the sum over t < n of (n - t) (1 - gap)^t, for each entry of ``gap``."""
        plain = -np.expm1(steps * np.log1p(-gap)) / gap
        return np.asarray(steps / gap - (1 - gap) * plain / gap)

    pairs = zeros[:, :, None] + zeros[:, None, :] - zeros[:, :, None] * zeros[:, None, :]
    total = (
        constant**2 * steps * (steps + 1) / 2
        + 2 * constant * (gains * weighted_total(zeros)).sum(axis=1)
        + np.einsum("ri,rj,rij->r", gains, gains, weighted_total(pairs))
    )
    return np.asarray(total / steps)


def _scaled_variance(decays: Floats, outputs: Floats, inverse: Floats) -> float:
    """Return the mean variance of running sums of BLT noise, times ``inverse[t]`` at step t.

    ``decays`` are the thetahat_i, ``outputs`` the v_i. ``inverse`` has the shape (steps,).
    """
    # From the covariance of the buffers S_i. With M_ij = E[S_i S_j] and V_i = E[S_i N], N the sum
    # so far, both before step t: V_i <- decay_i (V_i + inverse_t (M outputs)_i) + inverse_t.
    steps = len(inverse)
    pairs = decays[:, None] * decays
    powers = -np.expm1(np.arange(steps)[:, None, None] * np.log(pairs)) / (1 - pairs)
    reached = powers @ outputs  # M outputs, by step
    own_outputs = 1 + reached @ outputs
    fed = inverse[:, None] * (1 + decays * reached)
    with_sum = np.zeros_like(fed)
    for i, decay in enumerate(decays):
        with_sum[1:, i] = divide_series(fed[:-1, i], np.array([1.0, -decay]))
    added = 2 * inverse * (with_sum @ outputs) + inverse**2 * own_outputs
    return float(np.arange(steps, 0, -1) / steps @ added)


def _refit(strategy: BufferedToeplitz) -> Floats:
    """Search for a strategy's poles and zeros of less error with its shares; as `from_search`."""
    steps = strategy.steps
    shares = strategy.shares
    assert shares is not None

    def logs(x: Floats) -> float:
        v = from_search(x)
        poles = v[0::2]
        zeros = v[1::2]
        with np.errstate(all="ignore"):
            theta = tuple((1 - poles).tolist())
            thetahat = tuple((1 - zeros).tolist())
            c = blt_coefficients(steps, theta, thetahat)
            inverse = 1 / balance(gram_of_schedules(c, strategy.schedule.apart), shares)
            if strategy.optimizer is None:
                value = _scaled_variance(1 - zeros, _residues(zeros, poles), inverse)
            else:
                coefficients = blt_coefficients(steps, thetahat, theta)
                value = scaled_variance(coefficients, inverse, strategy.optimizer)
            return float(np.log(value) / 2) if value > 0 and np.isfinite(value) else 1e3

    start = search_variables(strategy.theta, strategy.thetahat)
    bounds = search_bounds(strategy.buffers)
    optimum = descend(with_differences(logs), start, bounds, maxiter=120, ftol=1e-12)
    return from_search(optimum[1])

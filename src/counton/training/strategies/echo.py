"""Echo: BLT noise (see `BufferedToeplitz`) that reuses normals of the same place in earlier epochs.

With y = x^b, where b is the number of steps of an epoch,

    C^-1(x) = BLT^-1(x) (1 + a y / (1 - r y)),      C(x) = BLT(x) (1 - a y / (1 - (r - a) y)).

C is the measurement matrix and BLT(x) the series of a BLT. Let S_i be the steps of a training
example at place i of each epoch. The term subtracted at distance b makes the columns of C for one
S_i nearly orthogonal, while each column stays long. Past normals are drawn again from their
addresses, (epochs - 1) / 2 for each step on average, so no more numbers are stored than for the
BLT.

The sensitivity holds only if every example keeps its place in each epoch; in another order it is
about a tenth larger. C is lower-triangular and invertible, so the releases are a function of C x +
z, with gradients x and normals z, and an example changes x in one S_i only. By the usual theorem
for Gaussian noise, this also holds if gradients depend on earlier releases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.descent import descend, on_grid, with_differences
from counton.strategies.participation import Schedule
from counton.training.strategies.buffered import (
    MOST_BUFFERS,
    BufferedToeplitz,
    blt_coefficients,
    from_search,
    interlace,
    interlaces,
    search_bounds,
    search_start,
    search_variables,
    to_search,
)
from counton.training.strategies.scaling import balance, scaled_variance
from counton.training.strategies.sensitivity import costs_of_schedules, gram_of_schedules
from counton.training.strategies.sgd import SGD, series_of, unscaled_variance
from counton.training.strategies.toeplitz import (
    Scaling,
    ToeplitzTraining,
    check_scaling,
    check_shares,
)
from counton.training.strategies.training_strategy import (
    LARGEST_STEPS,
    Search,
    Tap,
    check_search,
    training_schedule,
)

#: Least and largest number of evaluations of a quick search.
_FEWEST_EVALUATIONS = 60
_MOST_EVALUATIONS = 400
#: Steps times epochs from which on a quick search has fewer evaluations, as each takes longer.
_STEPS_WITH_FEWER_EVALUATIONS = 2**14
#: Coefficients of 1, ln(steps of an epoch) and ln(epochs), from which the variables of the search
#: follow: a fit to the results of long searches for 3 to 16 epochs of 8 to 128 steps.
_START_COEFFICIENTS = (
    (-0.41, -0.38, -0.05, 0.67, 0.22, 0.47),
    (-0.83, 0.13, 0.08, -0.03, -0.03, -0.05),
    (-0.41, 0.25, 0.07, 0.03, 0.09, 0.14),
)
#: Up to this many steps, a second search improves the parameters under step scaling.
MOST_REFITTED_STEPS = 512
#: Largest magnitude of ``ratio``, and of ``ratio - gain``.
_MOST_RATIO = 1 - 2.0**-12


class Echo(ToeplitzTraining):
    """Training noise (BLT, buffered linear Toeplitz) that reuses normal numbers of the same place
    in earlier epochs.

    Every training example must have the same place in each epoch.

    Args:
        steps: number of steps of the run, a multiple of the number of epochs.
        theta, thetahat: poles and zeros of the BLT, as in `BufferedToeplitz`.
        gain: the weight of the normal number one epoch ago.
        ratio: the factor by which this weight changes from each epoch to the one before it.
        schedule: a fixed schedule of two epochs or more.
        shares: one positive number for each step, from which step scaling computes the numbers that
            divide the steps' noise; None: noise is not scaled.

    Raises:
        InvalidInputError: a schedule without an enforced order, or parameters out of range.

    >>> strategy = Echo(
    ...     512, (0.9917812198, 0.7961268628), (0.9479444297, 0.3719352563), 0.27698903, 0.58967974,
    ...     schedule=training_schedule(512, 8),
    ... )
    >>> round(strategy.rmse, 4), round(strategy.with_scaling("free").rmse, 4)
    (9.0463, 8.8684)
    """

    def __init__(
        self,
        steps: int,
        theta: tuple[float, ...],
        thetahat: tuple[float, ...],
        gain: float,
        ratio: float,
        schedule: Schedule,
        shares: object = None,
    ) -> None:
        schedule = Schedule.from_saved(schedule)
        self.steps = check_integer("steps", steps, 1, LARGEST_STEPS)
        if not schedule.fixed or schedule.steps < 2 or schedule.steps * schedule.apart != steps:
            raise InvalidInputError(
                f"Echo cannot serve {steps} steps with {schedule}: its sensitivity holds only for "
                "two or more whole epochs in an enforced order (order='fixed'); use "
                "BufferedToeplitz"
            )
        base = BufferedToeplitz(steps, theta, thetahat, schedule)
        if not (math.isfinite(gain) and abs(ratio) < 1 and abs(ratio - gain) < 1):
            raise InvalidInputError(
                f"gain is {gain} and ratio is {ratio}; ratio and ratio - gain must be above -1 and "
                "below 1: use Echo.fit to find them"
            )
        self.theta = base.theta
        self.thetahat = base.thetahat
        self.decays = base.decays
        self.outputs = base.outputs
        self.gain = float(gain)
        self.ratio = float(ratio)
        self.schedule = schedule
        self.shares = check_shares(self.steps, shares)

    @classmethod
    def fit(
        cls,
        steps: int,
        epochs: int,
        buffers: int = 2,
        scaling: Scaling = "none",
        optimizer: SGD | None = None,
        search: Search = "long",
    ) -> Self:
        """Return the strategy with the least root mean squared error that a search finds.

        Args:
            steps: number of steps of the run, a multiple of ``epochs``.
            epochs: number of epochs, two or more.
            buffers: largest number of values kept per coordinate; fewer are used if more do not
                lower the error.
            scaling: the kind of step scaling; up to 512 steps, a second search improves the
                parameters for it.
            optimizer: the optimiser whose weights shall have little error; None: running sums.
            search: "quick" or "long". A quick search is usually within 0.5% of the error.

        Raises:
            InvalidInputError: an argument out of range.

        >>> Echo.fit(8, 2).rmse < BufferedToeplitz.fit(8, 2).rmse
        True
        """
        # L-BFGS from several starts, then Nelder-Mead, because the largest cost over all examples
        # is not smooth. A quick search is Nelder-Mead from a typical result.
        schedule = training_schedule(steps, epochs)
        buffers = check_integer("buffers", buffers, 1, MOST_BUFFERS)
        if epochs < 2:
            raise InvalidInputError(
                f"epochs is {epochs}, but Echo needs earlier epochs to read noise from: use "
                "BufferedToeplitz.fit"
            )
        check_scaling(scaling)
        check_search(search)
        return cls._fit_scaled(steps, schedule, buffers, scaling, optimizer, search)

    @classmethod
    @lru_cache(maxsize=16)
    def _fit_scaled(
        cls,
        steps: int,
        schedule: Schedule,
        buffers: int,
        scaling: Scaling,
        optimizer: SGD | None,
        search: Search,
    ) -> Self:
        logs = _fit(steps, schedule, buffers, series_of(optimizer, steps), search)
        best = cls._make(np.array(logs), steps, schedule)
        best = best.under(optimizer).with_scaling(scaling, search)
        if scaling == "none" or search == "quick":
            return best
        # The search does not know the scales, so that its second best may be better with them.
        quick = cls._fit_scaled(steps, schedule, buffers, scaling, optimizer, "quick")
        best = min(best, quick, key=lambda strategy: strategy.rmse)
        if steps > MOST_REFITTED_STEPS:
            return best

        def again(best: Self) -> Self | None:
            x = _refit(best)
            if not interlaces(*interlace(from_search(x[:-2]))):
                return None
            return cls._make(x, steps, schedule).under(optimizer).with_scaling(scaling)

        return best._best_refit(again)

    @classmethod
    def _make(cls, x: Floats, steps: int, schedule: Schedule) -> Self:
        ratio = float(np.clip(on_grid(x[-1]), -_MOST_RATIO, _MOST_RATIO))
        gain = float(np.clip(on_grid(x[-2]), ratio - _MOST_RATIO, ratio + _MOST_RATIO))
        return cls(steps, *interlace(from_search(x[:-2])), gain, ratio, schedule)

    @property
    @override
    def name(self) -> str:
        return f"Echo-{self.buffers}{'' if self.shares is None else ', steps scaled'}"

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        parameters = {
            "theta": list(self.theta),
            "thetahat": list(self.thetahat),
            "gain": self.gain,
            "ratio": self.ratio,
        }
        return parameters | super().parameters

    @override
    def taps(self, step: int) -> tuple[Tap, ...]:
        self.check_step(step)
        taps = [Tap(0, step, 1.0)]
        weight = self.gain
        for earlier in range(step - self.schedule.apart, 0, -self.schedule.apart):
            taps.append(Tap(0, earlier, weight))
            weight *= self.ratio
        return tuple(taps)

    @property
    @override
    def draws(self) -> float:
        return 1 + (self.schedule.steps - 1) / 2

    @override
    def coefficients(self) -> Floats:
        plain = blt_coefficients(self.steps, self.theta, self.thetahat)
        return echo_coefficients(plain, self.schedule.apart, -self.gain, self.ratio - self.gain)

    @override
    def inverse(self) -> Floats:
        plain = blt_coefficients(self.steps, self.thetahat, self.theta)
        return echo_coefficients(plain, self.schedule.apart, self.gain, self.ratio)


def echo_coefficients(plain: Floats, apart: int, gain: float, ratio: float) -> Floats:
    """Return the coefficients of the series plain(x) (1 + gain y / (1 - ratio y)) with y = x^apart.

    ``plain`` has the coefficients of plain(x); the result has the same shape.
    """
    coefficients = plain.copy()
    weight = gain
    for lag in range(apart, len(plain), apart):
        coefficients[lag:] += weight * plain[:-lag]
        weight *= ratio
    return coefficients


def _series(x: Floats, steps: int, apart: int) -> tuple[Floats, Floats]:
    """Return the first columns of C and of its inverse, shape (steps,), for variables ``x``.

    They are those of `from_search` for theta and thetahat, then gain and ratio of `Echo`.
    """
    v = from_search(x[:-2])
    theta = tuple((1 - v[0::2]).tolist())
    thetahat = tuple((1 - v[1::2]).tolist())
    gain = float(x[-2])
    ratio = float(x[-1])
    return (
        echo_coefficients(blt_coefficients(steps, theta, thetahat), apart, -gain, ratio - gain),
        echo_coefficients(blt_coefficients(steps, thetahat, theta), apart, gain, ratio),
    )


def _descend(
    logs: Callable[[Floats], float], start: Floats, buffers: int, iterations: int, last: int
) -> tuple[float, Floats]:
    """Search from ``start`` for the least value of ``logs``; return it and its variables.

    These are those of `from_search` for ``buffers``, then gain and ratio. The search makes at most
    ``iterations`` of L-BFGS, if any, then ``last`` evaluations by Nelder-Mead.
    """
    # L-BFGS searches first, with a gradient by differences; Nelder-Mead then refines.
    from scipy.optimize import minimize

    value = with_differences(logs)
    bounds = [*search_bounds(buffers), (-0.99, 0.99), (-0.99, 0.9999)]
    first = (logs(start), start)
    if iterations:
        first = descend(value, start, bounds, maxiter=iterations, ftol=1e-11)
    options = {"maxfev": last, "xatol": 1e-5, "fatol": 1e-10}
    second = minimize(logs, first[1], method="Nelder-Mead", options=options)
    return (float(second.fun), second.x) if second.fun < first[0] else first


def _typical_start(schedule: Schedule) -> Floats:
    """Return the variables of the search (see `_descend`) for two buffers that are usual."""
    features = np.array([1.0, math.log(schedule.apart), math.log(schedule.steps)])
    start = np.asarray(features @ np.array(_START_COEFFICIENTS), np.float64)
    start[-1] = min(start[-1], 0.95)
    start[-2] = min(start[-2], 0.5)
    return start


@lru_cache(maxsize=64)
def _fit(
    steps: int,
    schedule: Schedule,
    buffers: int,
    series: tuple[float, ...],
    search: Search = "long",
) -> tuple[float, ...]:
    def logs(x: Floats) -> float:
        with np.errstate(all="ignore"):
            c, inverse = _series(x, steps, schedule.apart)
            squared = float(costs_of_schedules(c, schedule.apart).max())
            value = squared * float(unscaled_variance(inverse, series))
        allowed = abs(x[-1]) < 1 and abs(x[-1] - x[-2]) < 1
        return math.log(value) / 2 if allowed and 0 < value < math.inf else 1e3

    # Variables are those of `from_search` for the poles and zeros, then gain and ratio.
    begin = search_start(steps, buffers)
    starts = [np.concatenate([begin, pair]) for pair in ((0.3, 0.9), (0.5, 0.5))]
    if buffers == 2:
        starts.insert(0, _typical_start(schedule))
    if search == "quick":
        last = _MOST_EVALUATIONS * _STEPS_WITH_FEWER_EVALUATIONS // (steps * schedule.steps)
        last = min(_MOST_EVALUATIONS, max(_FEWEST_EVALUATIONS, last))
        # Only for two buffers is the start near the end.
        fits = [_descend(logs, starts[0], buffers, 0 if buffers == 2 else 60, last)]
    else:
        fits = [_descend(logs, start, buffers, 150, 400) for start in starts]
    best = np.asarray(min(fits, key=lambda fit: fit[0])[1], np.float64)
    if interlaces(*interlace(from_search(best[:-2]))):
        return tuple(best.tolist())
    if buffers > 1:  # two parameters coincided, or one vanished
        return _fit(steps, schedule, buffers - 1, series, search)
    return (*to_search(np.array([0.5, 0.75])).tolist(), 0.1, 0.1)


def _refit(strategy: Echo) -> Floats:
    steps = strategy.steps
    apart = strategy.schedule.apart
    shares = strategy.shares
    assert shares is not None

    def logs(x: Floats) -> float:
        with np.errstate(all="ignore"):
            c, inverse = _series(x, steps, apart)
            e = 1 / balance(gram_of_schedules(c, apart), shares)
            value = scaled_variance(inverse, e, strategy.optimizer)
        return math.log(value) / 2 if 0 < value < math.inf else 1e3

    start = search_variables(strategy.theta, strategy.thetahat)
    start = np.append(start, [strategy.gain, strategy.ratio])
    return _descend(logs, start, strategy.buffers, 40, 1)[1]

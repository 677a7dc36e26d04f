"""Banded inverse square root: the noise of a step is a weighted sum of the last few normals.

Kalinin, McKenna, Upadhyay and Lampert, "Back to Square Roots" (2025): A is the matrix that sums up
gradients, C the measurement matrix, and C^-1 makes the noise of steps from independent standard
normals. C^-1 is the inverse square root of A, the Toeplitz matrix of the power series (1 -
x)^(1/2), cut off after ``band`` coefficients. Old normals are drawn again from their addresses, so
nothing is stored between steps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule
from counton.training.strategies.division import divide_series
from counton.training.strategies.sgd import SGD, series_of, unscaled_variance
from counton.training.strategies.toeplitz import Scaling, ToeplitzTraining, check_shares
from counton.training.strategies.training_strategy import (
    Tap,
    TrainingStrategy,
    training_schedule,
)


class BandedInverseSquareRoot(ToeplitzTraining):
    """Training noise in which each step has a weighted sum of the last ``band`` standard normal
    draws.

    Old normal numbers are drawn again when needed, so nothing is stored between steps.

    Args:
        steps: number of steps of the run.
        band: number of normal numbers in the noise of a step.
        schedule: the steps in which one training example counts; see `training_schedule`.
        shares: one positive number for each step, from which step scaling computes the numbers that
            divide the steps' noise; None: noise is not scaled.
        momentum: the momentum of the optimiser for whose weights the noise is made: C^-1 is the
            series (1 - x)^(1/2) (1 - momentum x)^(1/2), cut off.

    Raises:
        InvalidInputError: an argument out of range.

    >>> strategy = BandedInverseSquareRoot(64, band=3)
    >>> [round(tap.weight, 4) for tap in strategy.taps(9)]
    [1.0, -0.5, -0.125]
    >>> strategy.buffers
    0
    """

    def __init__(
        self,
        steps: int,
        band: int,
        schedule: Schedule | None = None,
        shares: object = None,
        momentum: float = 0.0,
    ) -> None:
        self._set_run(steps, schedule)
        self.band = check_integer("band", band, 1, self.steps)
        self.shares = check_shares(self.steps, shares)
        self.momentum = SGD(momentum=momentum).momentum

    @classmethod
    def fit(
        cls,
        steps: int,
        epochs: int = 1,
        order: str = "fixed",
        separation: int | None = None,
        most: int = 64,
        scaling: Scaling = "none",
        optimizer: SGD | None = None,
    ) -> Self:
        """Return the strategy with the band of least root mean squared error, among bands up to
        ``most``.

        Args:
            steps, epochs, order, separation: the run, and the steps in which an example counts, as
                in `training_schedule`.
            most: largest number of normal numbers per step.
            scaling: the kind of step scaling, as in `with_scaling`.
            optimizer: the optimiser whose weights shall have little error; None: running sums.

        Raises:
            InvalidInputError: an argument out of range.

        >>> BandedInverseSquareRoot.fit(512, 8).band
        37
        """
        schedule = training_schedule(steps, epochs, order, separation)
        most = check_integer("most", most, 1)
        momentum = 0.0 if optimizer is None else optimizer.momentum
        series = series_of(optimizer, steps)

        def error(strategy: Self) -> float:
            return strategy.squared_sensitivity() * float(
                unscaled_variance(strategy.inverse(), series)
            )

        bands = range(1, min(most, steps) + 1)
        tried = (cls(steps, band, schedule, momentum=momentum) for band in bands)
        return min(tried, key=error).under(optimizer).with_scaling(scaling)

    @property
    @override
    def name(self) -> str:
        kind = f"banded inverse square root, {self.band} normals"
        return f"{kind}{'' if self.shares is None else ', steps scaled'}"

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        momentum = {"momentum": self.momentum} if self.momentum else {}
        return {"band": self.band, **momentum, **super().parameters}

    @override
    def taps(self, step: int) -> tuple[Tap, ...]:
        self.check_step(step)
        weights = _inverse_root(self.band, self.momentum)
        return tuple(Tap(0, step - lag, float(weights[lag])) for lag in range(min(self.band, step)))

    @override
    def coefficients(self) -> Floats:
        impulse = np.zeros(self.steps)
        impulse[0] = 1
        return divide_series(impulse, _inverse_root(self.band, self.momentum))

    @override
    def inverse(self) -> Floats:
        g = np.zeros(self.steps)
        g[: self.band] = _inverse_root(self.band, self.momentum)
        return g


@lru_cache(maxsize=256)
def _inverse_root(band: int, momentum: float) -> Floats:
    """Return ``band`` coefficients of (1 - x)^(1/2) (1 - momentum x)^(1/2)."""
    # Those of (1 - x)^(1/2) are g_0 = 1 and g_k = g_(k-1) (2k - 3) / (2k).
    k = np.arange(1, band)
    g = np.concatenate([np.ones(1), np.cumprod((2 * k - 3) / (2 * k))])
    if momentum:
        g = np.convolve(g, g * momentum ** np.arange(band))[:band]
    g.setflags(write=False)
    return g


def is_independent(strategy: TrainingStrategy) -> bool:
    """Return True if the noise of steps is independent, one normal number for each step, as in
    DP-SGD.

    >>> is_independent(BandedInverseSquareRoot(8, band=1))
    True
    """
    return (
        isinstance(strategy, BandedInverseSquareRoot)
        and strategy.band == 1
        and strategy.scaling == "none"
    )

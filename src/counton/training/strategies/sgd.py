"""The weights that an optimiser makes of gradients, for plans whose error is that of the weights.

Stochastic gradient descent with a momentum mu, a weight decay lambda and learning rates r_t has

    m_t = mu m_(t-1) + g_t + lambda w_(t-1),    w_t = w_(t-1) - r_t m_t,

as `torch.optim.SGD` and, in optax, `add_decayed_weights` before `sgd`. Of given gradients g the
weights are a linear function: w = -A g with a lower-triangular matrix A. Noise K z in the gradients
is A K z in the weights, so their mean variance is the sum over s, t of (A^T A)_st (K K^T)_st,
divided by the steps. Without an optimiser A is the matrix of running sums.

At a constant rate r, A is Toeplitz: the power series r / (1 - (1 + mu - r lambda) x + mu x^2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from counton.base.arrays import Floats
from counton.base.errors import InvalidInputError
from counton.base.exact import shorten
from counton.strategies.strategy import LARGEST_DENSE

#: The polynomial 1 - x, by whose inverse series running sums are made.
RUNNING_SUMS = (1.0, -1.0)


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, for which `plan` ranks and fits strategies by the error of the
    weights.

    The noise of earlier steps moves the weights and so later gradients; this is left out.

    Args:
        momentum: the fraction of each step's update that the next step repeats.
        weight_decay: the multiple of the weights that is added to each gradient.
        rate: the learning rate: one number, one for each step, or a function of the step's number
            (from 1). Divide it by the batch size, if the optimiser gets means over the batch.

    Raises:
        InvalidInputError: momentum is not at least 0 and below 1, or weight decay is below 0.

    >>> SGD(momentum=0.9, rate=lambda step: 1 / step).rates(2).tolist()
    [1.0, 0.5]
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    rate: float | Sequence[float] | Floats | Callable[[int], float] = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.momentum < 1 or not 0 <= self.weight_decay < math.inf:
            raise InvalidInputError(
                f"momentum is {self.momentum} and weight_decay is {self.weight_decay}; give a "
                "momentum of at least 0 and below 1, and a weight decay of at least 0"
            )
        if not callable(self.rate):
            rates = np.asarray(self.rate, np.float64).tolist()
            object.__setattr__(self, "rate", tuple(rates) if isinstance(rates, list) else rates)

    def rates(self, steps: int) -> Floats:
        """Return the learning rate of each step.

        Args:
            steps: number of steps of the run, at most 4,096.

        Returns:
            float64, shape ``(steps,)``.

        Raises:
            InvalidInputError: not one finite number of at least 0 for each step, or all are 0; more
                than 4096 steps.
        """
        if steps > LARGEST_DENSE:
            raise InvalidInputError(
                f"errors of weights can be computed for up to {LARGEST_DENSE:,} steps, but there "
                f"are {steps:,}: leave optimizer out"
            )
        rate = self.rate
        asked = [rate(step) for step in range(1, steps + 1)] if callable(rate) else rate
        rates = np.array(asked, np.float64)
        rates = np.full(steps, rates) if rates.ndim == 0 else rates
        if rates.shape != (steps,) or not (rates.min() >= 0 and 0 < rates.max() < math.inf):
            raise InvalidInputError(
                f"rate is {shorten(str(asked))}; give one number, or one for each of the {steps} "
                "steps, of at least 0 and not all 0"
            )
        return rates


@lru_cache(maxsize=1)
def matrix_of(optimizer: SGD, steps: int) -> Floats:
    """Return the matrix A that makes the weights of gradients, without its sign: shape (steps,
    steps).

    >>> matrix_of(SGD(momentum=0.5, rate=[1, 0.5]), 2).tolist()
    [[1.0, 0.0], [1.25, 0.5]]
    """
    rows = np.empty((steps, steps))
    moved = np.zeros(steps)
    weights = np.zeros(steps)
    for step, rate in enumerate(optimizer.rates(steps)):
        moved *= optimizer.momentum
        moved -= optimizer.weight_decay * weights
        moved[step] += 1
        weights += rate * moved
        rows[step] = weights
    return rows


@lru_cache(maxsize=1)
def gram_of(optimizer: SGD, steps: int) -> Floats:
    """Return A^T A divided by the number of steps, for the matrix A of `matrix_of`."""
    matrix = matrix_of(optimizer, steps)
    return np.asarray(matrix.T @ matrix / steps)


def series_of(optimizer: SGD | None, steps: int) -> tuple[float, ...]:
    """Return the polynomial by whose inverse series the weights are made of gradients at the mean
    learning rate; without an optimiser that of running sums.

    >>> series_of(None, 8), series_of(SGD(momentum=0.5), 8)
    ((1.0, -1.0), (1.0, -1.5, 0.5))
    """
    if optimizer is None:
        return RUNNING_SUMS
    decay = float(optimizer.rates(steps).mean()) * optimizer.weight_decay
    return 1.0, -(1 + optimizer.momentum - decay), optimizer.momentum


def weights_of(noise: Floats, optimizer: SGD | None) -> Floats:
    """Return the noise of the weights for that of steps, one a row; without optimiser its sums."""
    totals = None if optimizer is None else matrix_of(optimizer, len(noise))
    return np.cumsum(noise, axis=0) if totals is None else totals @ noise


def unscaled_variance(inverse: Floats, series: tuple[float, ...]) -> Floats:
    """Return the mean variance of the weights at a constant learning rate, for noise that is not
    scaled.

    ``inverse`` has the coefficients of the inverse of the Toeplitz matrix C along the last axis.
    ``series`` is the polynomial of `series_of`.

    >>> unscaled_variance(np.array([1.0, -0.5]), RUNNING_SUMS).tolist()
    1.125
    """
    steps = inverse.shape[-1]
    if series == RUNNING_SUMS:
        weights = np.cumsum(inverse, axis=-1)
    else:
        from scipy.signal import lfilter

        weights = lfilter([1.0], series, inverse)
    return np.asarray(weights**2 @ (np.arange(steps, 0, -1) / steps))

"""The epsilon of a run so far, and at its end.

The steps that were taken are a part of the whole run: their noise is that of the first rows and
columns of C, if C is lower-triangular. So the guarantee for them is computed as for a run that ends
there (`accounting.py`, `bins.py`, `moment_bound.py`), with the standard deviation that the noise
has. Every epsilon here is an upper bound, and never above that of the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from counton.base.arrays import Floats
from counton.base.errors import InvalidInputError
from counton.base.exact import Number, check_integer, exact, float_above, float_below, text
from counton.privacy import ApproxDP
from counton.strategies.strategy import LARGEST_DENSE
from counton.training.accounting import beyond, delta_rest, poisson_losses
from counton.training.bins import (
    LARGEST_LOG_VARIANCE,
    MOST_PLACES,
    bounds_of_products,
    place_delta,
    products_of_matrix,
    reshuffled_losses,
)
from counton.training.moment_bound import MomentBound
from counton.training.secret_place_noise import delta_beyond
from counton.training.strategies.banded import is_independent
from counton.training.strategies.sensitivity import (
    fixed_squared,
    gram_of_matrix,
    separated_squared,
)
from counton.training.strategies.training_strategy import SLACK, TrainingStrategy

if TYPE_CHECKING:
    from counton.training.noise import TrainingNoise

#: The largest epsilon that is searched for.
_LARGEST_EPSILON = 10_000.0
#: Relative width within which epsilon is found.
_PRECISION = 1e-4
#: The same for bounds by moments, which take seconds; and how many of them are computed.
_COARSE_PRECISION = 2e-3
_MOST_BOUNDS = 8
#: Part of the mean that grids of places drawn anew may cut off, as a share of delta.
_CUT_SHARE_OF_DELTA = 1e-7
#: Number of points of the grids of places.
_GRID_POINTS = 256

#: A bound of delta for an epsilon.
_Delta = Callable[[float], float]


def epsilon_of_run(noise: TrainingNoise, unit_std: float, delta: Number, steps: int) -> float:
    """Return an epsilon with which the first steps of a run keep (epsilon, delta).

    Args:
        noise: the noise of the run.
        unit_std: standard deviation of one fresh normal divided by the clipping norm.
        delta: the delta, above 0 and below 1.
        steps: number of steps.

    Raises:
        InvalidInputError: an argument is out of range, or no epsilon up to 10,000 suffices.
    """
    requested = exact(delta, "delta")
    if not 0 < requested < 1:
        raise InvalidInputError(
            f"delta is {text(requested)}; it must be above 0 and below 1: try 1e-5"
        )
    steps = check_integer("steps", steps, 0)
    noise.strategy.check_step(max(steps, 1))
    if steps == 0:
        return 0.0
    least_delta = float_below(requested)
    whole = noise.sampler.steps if noise.sampler is not None else noise.strategy.steps
    guarantee = noise.guarantee
    sufficient = math.inf
    if isinstance(guarantee, ApproxDP) and guarantee.delta <= requested:
        sufficient = float_above(guarantee.epsilon)
        if steps >= whole and guarantee.delta == requested:
            return sufficient
    least = sufficient
    for delta_of, most_bounds in _bounds(noise, unit_std, least_delta, steps):
        least = min(least, _least_epsilon(delta_of, least_delta, least, most_bounds))
    if math.isinf(least):
        raise InvalidInputError(
            f"no epsilon up to {_LARGEST_EPSILON:,.0f} suffices for delta {text(requested)}: give "
            "a larger delta"
        )
    return least


def _bounds(
    noise: TrainingNoise, unit_std: float, delta: float, steps: int
) -> Iterator[tuple[_Delta, int]]:
    """Yield bounds of delta by epsilon, each with the number of values to compute (0: any)."""
    sampler = noise.sampler
    strategy = noise.strategy
    if sampler is not None and sampler.rate is not None:
        yield _poisson(unit_std, sampler.rate, steps), 0
        return
    if sampler is not None and sampler.secret_places is not None and sampler.anew:
        yield _reshuffled(unit_std, sampler.secret_places, steps, delta), 0
        return
    multiplier = unit_std / math.sqrt(prefix_squared_sensitivity(strategy, steps))
    yield _gaussian(multiplier, steps), 0
    if sampler is not None and sampler.secret_places is not None:
        yield from _kept(strategy, unit_std, sampler.secret_places, steps)


def _gaussian(multiplier: float, steps: int) -> _Delta:
    """Return delta without amplification."""
    from counton.privacy.gaussian import delta_at_most

    def delta_of(epsilon: float) -> float:
        return _with_lost(
            delta_at_most(multiplier, epsilon), beyond(multiplier, steps, epsilon), steps
        )

    return delta_of


def _poisson(multiplier: float, rate: float, steps: int) -> _Delta:
    """Return delta if each step takes each example by chance."""
    losses = poisson_losses(multiplier, rate, steps)

    def delta_of(epsilon: float) -> float:
        lost = steps * beyond(multiplier, epsilon=epsilon)
        return _with_lost(float(losses.get_delta_for_epsilon(epsilon)), lost, steps)

    return delta_of


def _reshuffled(multiplier: float, places: int, steps: int, delta: float) -> _Delta:
    """Return delta if every example draws another secret place in each epoch that has begun."""
    epochs = -(-steps // places)
    if multiplier**-2 > LARGEST_LOG_VARIANCE:
        return lambda _: 1.0
    losses = reshuffled_losses(places, epochs, multiplier, max(_CUT_SHARE_OF_DELTA * delta, 1e-300))
    whole = epochs * places

    def delta_of(epsilon: float) -> float:
        lost = whole * beyond(multiplier, epsilon=epsilon)
        lost += math.exp(min(epsilon, 700.0)) * whole * 2.0**-64
        delta = float(losses.get_delta_for_epsilon(epsilon)) * (1 + SLACK)
        return _with_lost(delta, lost, whole)

    return delta_of


def _kept(
    strategy: TrainingStrategy, unit_std: float, places: int, steps: int
) -> Iterator[tuple[_Delta, int]]:
    """Yield bounds of delta if every example has one secret place for all epochs."""
    matrix = _prefix(strategy, steps)
    if matrix is None or places == 1 or places > MOST_PLACES:
        return
    products = products_of_matrix(np.abs(matrix), places)
    squared = float(products.diagonal().max()) * (1 + SLACK)
    gram = products / squared * (1 + SLACK)
    multiplier = unit_std / math.sqrt(squared)

    def with_lost(bound_of: _Delta, epsilon: float) -> float:
        lost = delta_beyond(epsilon, steps, places, multiplier)
        return _with_lost(bound_of(epsilon), lost, steps)

    for bound in bounds_of_products(gram):
        if bound.places > 1:
            compared = partial(place_delta, bound=bound, multiplier=multiplier, points=_GRID_POINTS)
            yield partial(with_lost, compared), 0
    if not is_independent(strategy):
        moments = partial(MomentBound(gram).delta, multiplier=multiplier)
        yield partial(with_lost, moments), _MOST_BOUNDS


def _with_lost(delta: float, lost: float, steps: int) -> float:
    """Return delta for drawn normals, given that for exact ones and what they reveal more."""
    return lost + delta / delta_rest(1.0, steps, 0.0)


def _prefix(strategy: TrainingStrategy, steps: int) -> Floats | None:
    """Return the first rows and columns of C; None if they are not the matrix of these steps."""
    if strategy.steps > LARGEST_DENSE:
        return None
    matrix = strategy.encoder()
    if matrix.shape[0] != strategy.steps or np.triu(matrix, 1).any():
        return None
    return matrix[:steps, :steps]


def prefix_squared_sensitivity(strategy: TrainingStrategy, steps: int) -> float:
    """Return an upper bound of the squared sensitivity of the first steps of a run.

    It is that of the whole run if the matrix C is not lower-triangular, or too large.

    Args:
        strategy: the correlation of the noise over steps.
        steps: number of steps.

    >>> from counton.training.strategies import BandedInverseSquareRoot
    >>> prefix_squared_sensitivity(BandedInverseSquareRoot(8, band=1, schedule=(4, 2, True)), 3)
    2.000000002
    """
    whole = strategy.squared_sensitivity()
    matrix = None if steps >= strategy.steps else _prefix(strategy, steps)
    if matrix is None:
        return whole
    schedule = strategy.schedule
    gram = np.abs(matrix.T @ matrix)
    if schedule.fixed:
        squared = fixed_squared(gram_of_matrix(gram, min(schedule.apart, steps)))
    else:
        squared = separated_squared(gram, schedule)
    return min(whole, squared * (1 + SLACK))


def _least_epsilon(delta_of: _Delta, delta: float, sufficient: float, most_bounds: int) -> float:
    """Return an epsilon whose bound is at most delta, near the least one; or infinity.

    Args:
        delta_of: a bound of delta for an epsilon.
        delta: the delta.
        sufficient: an epsilon that suffices; only smaller ones are of use.
        most_bounds: how many bounds may be computed; 0: any number.
    """
    high = min(sufficient, 1.0)
    low = 0.0
    precision = _COARSE_PRECISION if most_bounds else _PRECISION
    count = 1
    while high < sufficient and delta_of(high) > delta:
        low = high
        high = 2 * high
        count += 1
        if high > _LARGEST_EPSILON:
            return math.inf
    while high - low > precision * high and (not most_bounds or count < most_bounds):
        middle = (low + high) / 2
        is_enough = delta_of(middle) <= delta
        count += 1
        low, high = (low, middle) if is_enough else (middle, high)
        if high < 1e-6:
            break
    return high

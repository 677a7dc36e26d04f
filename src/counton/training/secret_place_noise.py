"""How much noise a run needs in which every example has one secret place for all epochs.

Two bounds prove that a noise multiplier suffices: the comparison of `bins.py`, which is fast, and
`moment_bound.py`, which takes seconds and allows less noise. The smaller multiplier is used.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

from counton.base.errors import InvalidInputError
from counton.base.exact import float_above, float_below
from counton.privacy import ApproxDP, Guarantee
from counton.training.accounting import beyond, delta_left, noise_multiplier
from counton.training.bins import (
    PlaceBound,
    gaussian_delta,
    least_multiplier,
    place_bounds,
    place_delta,
    products_of_places,
)
from counton.training.moment_bound import MomentBound
from counton.training.strategies.banded import is_independent
from counton.training.strategies.training_strategy import TrainingStrategy

#: Number of points of the grids of `place_delta`, and a smaller one for the search. More points
#: reduce the noise by less than 0.2%.
_GRID_POINTS = 256
_FEW_GRID_POINTS = 96
#: The search by moments ends within this factor of the least multiplier.
_SEARCH_PRECISION = 1.0015
#: Largest number of bounds that the search by moments computes.
_MOST_BOUNDS = 12
#: The search by moments accepts no multiplier below this share of its estimate.
_LEAST_SHARE_OF_ESTIMATE = 0.9


def places_multiplier(guarantee: Guarantee, strategy: TrainingStrategy, places: int) -> float:
    """Return the noise multiplier if every example has one secret place for all epochs, rounded up.

    It is the standard deviation of one draw of noise divided by the strategy's sensitivity. It
    never exceeds the multiplier without amplification. `ZCDP` is not amplified, nor are strategies
    whose matrix C is not lower-triangular.

    Args:
        guarantee: the guarantee for the whole run; neighbouring datasets differ by one added or
            removed example.
        strategy: the correlation of the noise over steps.
        places: number of steps of an epoch; every example draws one of them.

    Returns:
        The least multiplier, within about 0.2%, that a bound proves.

    Raises:
        InvalidInputError: as `noise_multiplier`.

    >>> from counton.training.strategies import BandedInverseSquareRoot
    >>> independent = BandedInverseSquareRoot(64, band=1)
    >>> guarantee = ApproxDP(1, 1e-5)
    >>> places_multiplier(guarantee, independent, 64) < noise_multiplier(guarantee, 64) / 3
    True
    """
    widest = noise_multiplier(guarantee, strategy.steps)
    if not isinstance(guarantee, ApproxDP):
        return widest
    comparison_multiplier = min(
        widest, _multiplier_by_comparison(guarantee, strategy, places, widest)
    )
    return min(
        comparison_multiplier,
        _multiplier_by_moments(guarantee, strategy, places, comparison_multiplier),
    )


def quick_places_multiplier(guarantee: Guarantee, strategy: TrainingStrategy, places: int) -> float:
    """Return an estimate of `places_multiplier` for ranking strategies, which proves nothing.

    Args:
        guarantee: the guarantee for the whole run.
        strategy: the correlation of the noise over steps.
        places: number of steps of an epoch.

    Raises:
        InvalidInputError: as `noise_multiplier`.
    """
    widest = noise_multiplier(guarantee, strategy.steps)
    if not isinstance(guarantee, ApproxDP):
        return widest
    epsilon = float_below(guarantee.epsilon)
    delta = float_below(guarantee.delta)
    bound = _moment_bound(strategy, places)
    if bound is None:
        return min(widest, _narrowest(epsilon, delta, place_bounds(strategy, places), widest)[0])
    return min(widest, _estimate(epsilon, delta, bound, widest))


def delta_beyond(epsilon: float, steps: int, places: int, multiplier: float) -> float:
    """Return the part of delta that drawn normals and places need.

    Drawn normals never exceed a largest radius, and places are drawn from 64 bits.

    Args:
        epsilon: epsilon of the guarantee.
        steps: number of steps of the run.
        places: number of steps of an epoch.
        multiplier: standard deviation of the noise divided by the sensitivity.
    """
    delta_of_normals = places * beyond(multiplier, steps, epsilon + math.log(places))
    delta_of_places = math.exp(min(epsilon, 700.0)) * places * 2.0**-64
    return delta_of_normals + delta_of_places


def _multiplier_by_comparison(
    guarantee: ApproxDP, strategy: TrainingStrategy, places: int, widest: float
) -> float:
    """Return a multiplier that the comparison of `bins.py` proves to suffice."""
    epsilon = float_below(guarantee.epsilon)
    delta = float_below(guarantee.delta)
    narrowest, best = _narrowest(epsilon, delta, place_bounds(strategy, places), widest)
    if best.places == 1:
        return widest
    above = float_above(guarantee.epsilon)
    lost = delta_beyond(above, strategy.steps, places, narrowest)
    try:
        delta_rest = delta_left(guarantee, strategy.steps, lost)
    except InvalidInputError:
        return widest
    # A little more noise makes up for what is lost, except where that is nearly half of delta.
    multiplier = _least_by_bound(
        epsilon, delta_rest, best, narrowest, 1.01 * narrowest, _GRID_POINTS
    )
    if math.isinf(multiplier):
        multiplier = _least_by_bound(epsilon, delta_rest, best, narrowest, widest, _GRID_POINTS)
    return multiplier


@lru_cache(maxsize=1024)
def _narrowest(
    epsilon: float, delta: float, bounds: tuple[PlaceBound, ...], widest: float
) -> tuple[float, PlaceBound]:
    """Return a small noise multiplier for which one of ``bounds`` proves (epsilon, delta), and this
    bound.

    If none improves on ``widest``, which is known to suffice, return that and the bound for one
    place.
    """
    multiplier = widest
    best = PlaceBound(1, 0.0)
    for bound in bounds:
        if (
            bound.places > 1
            and place_delta(epsilon, bound, 0.99 * multiplier, _FEW_GRID_POINTS) <= delta
        ):
            multiplier = _least_by_bound(
                epsilon, delta, bound, multiplier / 16, 0.99 * multiplier, _FEW_GRID_POINTS
            )
            best = bound
    if best.places > 1:
        multiplier = _least_by_bound(
            epsilon, delta, best, 0.9 * multiplier, multiplier, _GRID_POINTS
        )
    return multiplier, best


@lru_cache(maxsize=1024)
def _least_by_bound(
    epsilon: float, delta: float, bound: PlaceBound, low: float, high: float, points: int
) -> float:
    """Return the least multiplier (within 0.1%) for a bound; ``high`` is known to suffice."""
    return least_multiplier(
        lambda multiplier: place_delta(epsilon, bound, multiplier, points) <= delta, low, high
    )


@lru_cache(maxsize=64)
def _moment_bound(strategy: TrainingStrategy, places: int) -> MomentBound | None:
    """Return the bound by moments; None if it does not cover the strategy, or cannot help."""
    if is_independent(strategy) or places == 1:
        return None
    products = products_of_places(strategy, places)
    return None if products is None else MomentBound(products)


@lru_cache(maxsize=256)
def _multiplier_by_moments(
    guarantee: ApproxDP, strategy: TrainingStrategy, places: int, high: float
) -> float:
    """Return a multiplier that the bound by moments proves to suffice; infinite if it finds none.

    Args:
        guarantee: the guarantee for the whole run.
        strategy: the correlation of the noise over steps.
        places: number of steps of an epoch.
        high: a multiplier that suffices; only smaller ones are of use.
    """
    bound = _moment_bound(strategy, places)
    if bound is None:
        return math.inf
    epsilon = float_below(guarantee.epsilon)
    estimate = _estimate(epsilon, float_below(guarantee.delta), bound, high)
    # More is lost with less noise: what is lost here is enough for every multiplier above.
    least = _LEAST_SHARE_OF_ESTIMATE * estimate
    above = float_above(guarantee.epsilon)
    lost = delta_beyond(above, strategy.steps, places, least)
    try:
        delta = delta_left(guarantee, strategy.steps, lost)
    except InvalidInputError:
        return math.inf
    delta_of = partial(bound.delta, epsilon, limit=delta)
    return _search(delta_of, delta, least, estimate, high)


def _estimate(epsilon: float, delta: float, bound: MomentBound, high: float) -> float:
    """Return about the least multiplier, as if the privacy loss were normal."""
    multiplier = least_multiplier(
        lambda multiplier: gaussian_delta(epsilon, bound.estimated_variance(multiplier)) <= delta,
        high / 16,
        high,
    )
    return min(high, multiplier)


def _search(
    delta_of: partial[float], delta: float, least: float, start: float, high: float
) -> float:
    """Return a multiplier whose bound is at most ``delta``, near the least one; or infinity.

    Secants of ln delta against the logarithm of the multiplier find it. Each step aims a little
    above, so that few bounds are computed.

    Args:
        delta_of: the bound of delta for a multiplier, which takes seconds.
        delta: the largest bound that is accepted.
        least: no smaller multiplier is accepted.
        start: the first multiplier to try.
        high: no larger multiplier is of use.
    """
    too_small = math.log(least)
    suffices = math.inf
    log_multiplier = math.log(start)
    margin = math.log(_SEARCH_PRECISION) / 2
    slope = -15.0
    before: tuple[float, float] | None = None
    for _ in range(_MOST_BOUNDS):
        too_much = math.log(max(delta_of(math.exp(log_multiplier)), 1e-300) / delta)
        if too_much <= 0:
            suffices = log_multiplier
        else:
            too_small = log_multiplier
        if before is not None and before[0] != log_multiplier:
            slope = min(-2.0, max(-60.0, (too_much - before[1]) / (log_multiplier - before[0])))
        before = log_multiplier, too_much
        following = log_multiplier - too_much / slope + margin
        is_close = suffices - following < margin
        if suffices - too_small < 2 * margin or (too_much <= 0 and is_close):
            break
        if not too_small < following < min(suffices, math.log(high)):
            following = (too_small + min(suffices, math.log(high))) / 2
        if following <= too_small:
            break
        log_multiplier = following
    return math.exp(suffices) if math.isfinite(suffices) else math.inf

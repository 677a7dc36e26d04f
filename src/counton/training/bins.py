"""Amplification if every example has a secret step of the epoch: proven bounds, no simulation.

An example draws one of b places (steps of the epoch), uniformly and in secret, and counts there in
every epoch ("balls in bins"). Let C be the strategy's matrix. For place j add the absolute entries
of C over the epochs e,

    m_j = sum over e of |C|[:, j + e b],        G_ij = m_i . m_j / variance of a node.

**The attacker's gradients.** The density of all outputs with the example, divided by the density
without it, is R, the mean over j of R_j. R_j starts at 1, and every output multiplies it by the
likelihood ratio of two normals whose means differ by mu_j. Here mu_j = sum of C_ts g_s over the
example's steps s so far, and the gradient g_s, of norm at most 1, may depend on earlier releases.
Both directions of (epsilon, delta) are E f(R) without the example, for a convex f: max(r -
e^epsilon, 0) and max(1 - e^epsilon r, 0). Let V(R_1, ..., R_b) be E f(mean of R_j X_j), where X_j
is the factor of all outputs to come if every g_s is the same unit vector and C is |C|: a
log-normal. Then d^2 V / dR_i dR_j = E f'' X_i X_j / b^2 >= 0 for all i and j. So of all possible
next gradients, E V increases most for those whose mu_i . mu_j are largest, for all pairs at once;
and mu_i . mu_j <= m_i m_j in each row. Hence, for any gradients, E f(R) <= E f(mean of log-normals
exp(Z_j - G_jj / 2)), where Z is normal with covariances G.

**Comparison.** If G <= G' entry by entry, the means of such log-normals have E f <= E' f (Kahane
1985, "Sur le chaos multiplicatif"; the derivative along (1 - s) G + s G' is the one above). So G
may be replaced by

    G' = shared + own at i = j, and shared elsewhere,

which is one log-normal factor times the mean of b independent log-normals. Moreover, an attacker
who knows j modulo k only gains (f is convex). The b / k places that remain are k or more apart, and
`shared` is the largest G_ij at such a distance. Every k gives a bound; the best is taken. k = b is
the bound without amplification, k = 1 with independent noise is that of DP-SGD.

**The mean of independent log-normals** is computed on a grid: an atom between two grid points is
divided between them such that its mean stays. This only increases E f. What lies above the grid is
cut off, and its part of the mean is added to delta, because max(r - e^epsilon, 0) grows no faster
than r; cutting it off only increases max(1 - e^epsilon r, 0). So every number here is an upper
bound, up to float64.

**Places that are drawn anew in each epoch** (random allocation). With independent noise an epoch
has G = 1 / variance for every place, and 0 between places. Its pair of distributions, R against 1,
is the mean of b independent log-normals, for gradients that may depend on all earlier releases. So
epochs compose adaptively (Zhu, Dong and Wang 2022, Theorem 10), each direction separately. The
atoms of the mean are divided once more, between the points e^(k h) of a grid of losses, such that
the mean stays. Then every convex function of R only grows, and dp-accounting composes the result.
Mass above the grid is an infinite loss with the example, and mass at 0 without it. A place that
stays the same loses more, because the noise of all epochs together reveals it. Feldman and Shenfeld
(arXiv 2502.08202, 2602.17284) compute the distribution of such places; the bounds here are derived
above.

**The bounded radius of drawn normals** (see ``accounting.py``). With the density p_j at place j and
q without the example, what is lost is at most the mean over j of min(p_j, b e^epsilon q) where only
p_j reaches, and the sum over j of min(q, e^epsilon p_j / b) where only q does: at most b times
`beyond` for epsilon + ln b. If places are drawn anew, every step is a mixture, as with Poisson
batches.

Schuchardt and Kalinin (arXiv 2601.21636) were the first to bound this without sampling, by Renyi
divergences and conditional composition; Feldman and Shenfeld (2026) treat independent noise. The
bounds here hold for every lower-triangular C.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counton.base.arrays import Floats
from counton.base.errors import InvalidInputError
from counton.base.exact import float_above, float_below
from counton.privacy import ApproxDP, Guarantee
from counton.strategies.strategy import LARGEST_DENSE
from counton.training.accounting import beyond, delta_left, noise_multiplier
from counton.training.strategies.banded import is_independent
from counton.training.strategies.training_strategy import SLACK, TrainingStrategy

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

#: Number of points of the grids, and a smaller one for the search. More points reduce the noise by
#: less than 0.2%.
_GRID_POINTS = 256
_FEW_GRID_POINTS = 96
#: Mean of the mass that is cut off above a grid, as a share of delta.
_CUT_SHARE_OF_DELTA = 1e-7
#: Distance of neighbouring privacy losses on the grid with which epochs are composed.
_LOSS_INTERVAL = 1e-3
#: Largest number of places for which amplification with correlated noise is computed.
MOST_PLACES = 2048
#: Variance of log-likelihood ratios above which delta is set to 1, because nothing is hidden.
LARGEST_LOG_VARIANCE = 100.0


class PlaceBound(NamedTuple):
    """A bound on what an attacker learns about the secret place of an example, that is, its step in
    every epoch.

    At each possible place, the example would move the outputs of the run by some vector. Outputs
    are scaled so that the squared length of these vectors is at most 1.

    Attributes:
        places: number of places between which an attacker cannot decide.
        shared: upper bound of the inner product of the vectors of two different places.
    """

    places: int
    shared: float


class _Atoms(NamedTuple):
    """A distribution on a grid that bounds another distribution: the mean of every convex function
    is at least as large under the distribution on the grid as under the other one.

    Attributes:
        values: points of the grid, ascending.
        masses: probability of each point.
        beyond: part of the mean that lies above the grid; it is cut off and added to delta
            separately.
    """

    values: Floats
    masses: Floats
    beyond: float


def products_of_places(strategy: TrainingStrategy, places: int) -> Floats | None:
    """Return the products m_i . m_j of the places' vectors, divided by the squared sensitivity.

    Args:
        strategy: the strategy.
        places: number of steps of an epoch.

    Returns:
        Upper bounds, shape (places, places). None if the bounds of this module do not cover the
        strategy: its matrix C is not lower-triangular or too large, or its sensitivity is not that
        of places which are kept.
    """
    if strategy.steps > LARGEST_DENSE or places > MOST_PLACES:
        return None
    matrix = np.abs(strategy.encoder())
    if matrix.shape[0] != strategy.steps or np.triu(matrix, 1).any():
        return None
    products = products_of_matrix(matrix, places) / strategy.squared_sensitivity() * (1 + SLACK)
    return None if products.diagonal().max() > (1 + SLACK) * (1 + 2 * SLACK) else products


def products_of_matrix(matrix: Floats, places: int) -> Floats:
    """Return the products m_i . m_j of the places' vectors, shape (places, places).

    Args:
        matrix: absolute entries of C, shape (steps, steps).
        places: number of steps of an epoch.
    """
    steps = len(matrix)
    epochs = -(-steps // places)
    padded = np.zeros((steps, epochs * places))
    padded[:, :steps] = matrix
    moved = padded.reshape(steps, epochs, places).sum(axis=1)
    products: Floats = moved.T @ moved
    return products


def distances(places: int) -> list[int]:
    """Return the distances k for which an attacker may be told the place modulo k, ascending.

    >>> distances(24), distances(1)
    ([1, 2, 3, 6, 12], [])
    """
    halves = {-(-places // 2**power) for power in range(places.bit_length())}
    return sorted(step for step in {1} | halves if step < places)


@lru_cache(maxsize=64)
def place_bounds(strategy: TrainingStrategy, places: int) -> tuple[PlaceBound, ...]:
    """Return bounds on what an attacker learns about the secret place of an example, under a
    strategy.

    Each `PlaceBound` supposes another number of places between which the attacker cannot decide.
    The bound with the largest number comes first.

    Args:
        strategy: the strategy; if its matrix C is not lower-triangular, there is only the bound for
            one place, without amplification.
        places: number of steps of an epoch.

    >>> from counton.training.strategies import BandedInverseSquareRoot
    >>> place_bounds(BandedInverseSquareRoot(8, band=1), 8)
    (PlaceBound(places=8, shared=0.0), PlaceBound(places=1, shared=0.0))
    """
    alone = (PlaceBound(1, 0.0),)
    if is_independent(strategy):
        epochs = strategy.steps / places
        is_amplified = places > 1 and epochs <= strategy.squared_sensitivity()
        return (PlaceBound(places, 0.0), *alone) if is_amplified else alone
    gram = products_of_places(strategy, places)
    return alone if gram is None else bounds_of_products(gram)


def bounds_of_products(gram: Floats) -> tuple[PlaceBound, ...]:
    """Return what `place_bounds` does, for given products of the places' vectors.

    Args:
        gram: upper bounds of the products, divided by the squared sensitivity.
    """
    places = len(gram)
    apart = [float(gram.diagonal(lag).max()) for lag in range(places)]
    bounds = []
    for step in distances(places):
        shared = max(apart[step::step])
        if shared < 1:
            bounds.append(PlaceBound(places // step, shared))
    return (*bounds, PlaceBound(1, 0.0))


def place_delta(epsilon: float, bound: PlaceBound, multiplier: float, points: int = 256) -> float:
    """Return an upper bound on delta at ``epsilon``, if every example has one secret place for all
    epochs.

    It holds for an added example and for a removed example.

    Args:
        epsilon: epsilon of the guarantee.
        bound: one of the bounds that `place_bounds` returns.
        multiplier: standard deviation of the noise divided by the sensitivity.
        points: number of points of the grids; more points give a smaller bound.

    >>> one = place_delta(1.0, PlaceBound(1, 0.0), 2.0)
    >>> many = place_delta(1.0, PlaceBound(64, 0.0), 2.0)
    >>> many < one / 1000
    True
    """
    variance = multiplier**-2
    places = bound.places
    shared = bound.shared * variance
    own_variance = (1 - bound.shared) * variance
    if places == 1:
        shared = variance
        own_variance = 0.0
    if variance > LARGEST_LOG_VARIANCE:
        return 1.0
    from scipy.special import ndtr

    atoms = _Atoms(np.ones(1), np.ones(1), 0.0)
    if own_variance > 0:
        cut = _CUT_SHARE_OF_DELTA * gaussian_delta(epsilon, variance)
        atoms = mean_of_many(own_variance, places, points, max(cut, 1e-300))
    values, masses, mass_beyond = atoms
    limit = math.exp(epsilon)
    if shared == 0:
        up = np.maximum(values - limit, 0)
        down = np.maximum(1 - limit * values, 0)
    else:
        width = math.sqrt(shared)
        with np.errstate(divide="ignore"):
            logs = np.log(values)
        near = (logs - epsilon) / width
        far = (-logs - epsilon) / width
        up = values * ndtr(near + width / 2) - limit * ndtr(near - width / 2)
        down = ndtr(far + width / 2) - limit * values * ndtr(far - width / 2)
    return min(1.0, max(float(up @ masses) + mass_beyond, float(down @ masses)) * (1 + SLACK))


def gaussian_delta(epsilon: float, variance: float) -> float:
    """Return delta at ``epsilon`` of a normal privacy loss with this variance."""
    from scipy.special import ndtr

    width = math.sqrt(variance)
    above = float(ndtr(width / 2 - epsilon / width))
    return above - math.exp(epsilon) * float(ndtr(-width / 2 - epsilon / width))


def mean_of_many(variance: float, number: int, points: int, cut: float) -> _Atoms:
    """Return a grid distribution that bounds the mean of ``number`` independent log-normals.

    Each has mean 1 and this variance of its logarithm. Mass above the grid is cut off if its part
    of the mean is below ``cut``.
    """
    # Built from means of two.
    doubled = log_normal_atoms(variance, points)
    reached = 1
    total: _Atoms | None = None
    done = 0
    while True:
        if number & reached:
            share = done / (done + reached)
            total = doubled if total is None else _mean_of_two(total, doubled, share, points, cut)
            done += reached
        reached *= 2
        if reached > number:
            return total or doubled
        doubled = _mean_of_two(doubled, doubled, 0.5, points, cut)


def log_normal_atoms(variance: float, points: int) -> _Atoms:
    """Return a grid distribution that bounds the log-normal exp(Z - variance / 2), Z of mean 0.

    Mass between two points moves to both, so the mean stays and the distribution is wider: a
    privacy loss computed from it is never too small.
    """
    from scipy.special import ndtr

    width = math.sqrt(variance)
    logs = np.linspace(-variance / 2 - 8.5 * width, variance / 2 + 7.5 * width, points - 1)
    values = np.concatenate([np.zeros(1), np.exp(logs)])
    below = np.concatenate([np.zeros(1), ndtr(logs / width + width / 2)])
    mean_below = np.concatenate([np.zeros(1), ndtr(logs / width - width / 2)])
    masses_within = np.diff(below)
    mean = np.diff(mean_below)
    right = np.clip((mean - values[:-1] * masses_within) / np.diff(values), 0, masses_within)
    masses = np.zeros(points)
    masses[:-1] += masses_within - right
    masses[1:] += right
    last = float(ndtr(-logs[-1] / width - width / 2))
    masses[-1] += last
    rest = float(ndtr(width / 2 - logs[-1] / width)) - last * float(values[-1])
    return _Atoms(values, masses, max(rest, 0.0))


def _mean_of_two(first: _Atoms, second: _Atoms, share: float, points: int, cut: float) -> _Atoms:
    """Return a grid distribution that bounds share * first + (1 - share) * second, independent.

    Mass above the grid is moved to ``beyond``, if its part of the mean is below ``cut``.
    """
    values = np.add.outer(share * first.values, (1 - share) * second.values).ravel()
    masses = np.multiply.outer(first.masses, second.masses).ravel()
    order = np.argsort(values, kind="stable")
    values = values[order]
    masses = masses[order]
    from_above = np.cumsum((values * masses)[::-1])[::-1]
    last = int(np.searchsorted(-from_above, -cut))  # what lies there and above has a mean below cut
    high = float(values[min(last, len(values) - 1)])
    low = float(values[int(np.searchsorted(np.cumsum(masses), cut))])
    grid = np.concatenate([np.zeros(1), np.geomspace(max(low, high * 1e-9), high, points - 1)])
    grid[-1] = high
    rest = float(np.maximum(values - high, 0) @ masses)
    placed = _on_grid(np.minimum(values, high), masses, grid)
    return _Atoms(grid, placed, share * first.beyond + (1 - share) * second.beyond + rest)


def _on_grid(values: Floats, masses: Floats, grid: Floats) -> Floats:
    """Return masses moved to grid points, each split between two neighbours: its mean stays."""
    left = np.clip(np.searchsorted(grid, values, side="right") - 1, 0, len(grid) - 2)
    right = np.clip((values - grid[left]) / (grid[left + 1] - grid[left]), 0, 1)
    placed = np.bincount(left, masses * (1 - right), len(grid))
    placed += np.bincount(left + 1, masses * right, len(grid))
    return np.asarray(placed, np.float64)


def reshuffled_delta(epsilon: float, places: int, epochs: int, multiplier: float) -> float:
    """Return an upper bound on delta at ``epsilon``, if every example draws another secret place in
    each epoch.

    It holds for an added example and for a removed example.

    Args:
        epsilon: epsilon of the guarantee.
        places: number of steps of an epoch; every example draws one in each epoch.
        epochs: number of epochs of the run.
        multiplier: standard deviation of the independent noise of a step, divided by the clipping
            norm.

    >>> kept = place_delta(1.0, PlaceBound(64, 0.0), 2.0 / 8**0.5)
    >>> reshuffled_delta(1.0, 64, 8, 2.0) < kept / 100
    True
    """
    variance = multiplier**-2
    if variance > LARGEST_LOG_VARIANCE:
        return 1.0
    cut = max(_CUT_SHARE_OF_DELTA * gaussian_delta(epsilon, variance), 1e-300)
    composed = reshuffled_losses(places, epochs, multiplier, cut)
    return min(1.0, float(composed.get_delta_for_epsilon(epsilon)) * (1 + SLACK))


def reshuffled_losses(
    places: int, epochs: int, multiplier: float, cut: float
) -> PrivacyLossDistribution:
    """Return the privacy loss if every example draws another secret place in each epoch.

    It is rounded towards more loss.

    Args:
        places: number of steps of an epoch; every example draws one in each epoch.
        epochs: number of epochs.
        multiplier: standard deviation of the independent noise of a step, divided by the clipping
            norm.
        cut: part of the mean that grids may cut off; it counts as an infinite loss.
    """
    return _losses(mean_of_many(multiplier**-2, places, _GRID_POINTS, cut)).self_compose(epochs)


def _losses(atoms: _Atoms) -> PrivacyLossDistribution:
    """Return the distributions of the privacy loss for an added and for a removed example."""
    from dp_accounting.pld.pld_pmf import DensePLDPmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    least, most = np.log(atoms.values[atoms.values > 0][[0, -1]]) / _LOSS_INTERVAL
    first = math.floor(least) - 1
    last = math.ceil(most) + 1
    grid = np.concatenate([np.zeros(1), np.exp(_LOSS_INTERVAL * np.arange(first, last + 1))])
    grid_masses = _on_grid(atoms.values, atoms.masses, grid)
    present = grid_masses * grid
    return PrivacyLossDistribution(
        DensePLDPmf(_LOSS_INTERVAL, first, present[1:], atoms.beyond, True),
        DensePLDPmf(_LOSS_INTERVAL, -last, grid_masses[:0:-1].copy(), float(grid_masses[0]), True),
    )


@lru_cache(maxsize=256)
def reshuffled_multiplier(guarantee: Guarantee, places: int, epochs: int) -> float:
    """Return the noise multiplier of independent noise if every example draws another secret place
    in each epoch.

    It is the standard deviation of a step's noise divided by the clipping norm, rounded up.

    Args:
        guarantee: (epsilon, delta) for neighbouring datasets that differ by one added or removed
            example.
        places: number of steps of an epoch; every example draws one in each epoch.
        epochs: number of epochs of the run.

    Raises:
        InvalidInputError: another kind of guarantee, or a delta too small to cover that drawn
            normal numbers never exceed a largest radius.

    >>> from counton.training.accounting import poisson_multiplier
    >>> guarantee = ApproxDP(1, 1e-5)
    >>> reshuffled_multiplier(guarantee, 16, 4) < poisson_multiplier(guarantee, 1 / 16, 64)
    True
    """
    if not isinstance(guarantee, ApproxDP):
        raise InvalidInputError(
            f"how secret random places of examples improve {guarantee!r} is not known here; give "
            "ApproxDP(epsilon, delta)"
        )
    steps = places * epochs
    widest = math.sqrt(epochs) * noise_multiplier(guarantee, steps)
    epsilon = float_below(guarantee.epsilon)
    delta = float_below(guarantee.delta)

    def least(delta: float, low: float, high: float) -> float:
        return least_multiplier(
            lambda multiplier: reshuffled_delta(epsilon, places, epochs, multiplier) <= delta,
            low,
            high,
        )

    narrowest = least(delta, widest / 256, widest)
    lost = steps * beyond(narrowest, epsilon=float_above(guarantee.epsilon))
    drawn = math.exp(min(float_above(guarantee.epsilon), 700.0)) * steps * 2.0**-64
    delta_rest = delta_left(guarantee, steps, lost + drawn)
    return min(widest, least(delta_rest, narrowest, 1.01 * narrowest))


def least_multiplier(keeps: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least multiplier that ``keeps`` accepts, within 0.1%; infinite if not ``high``.

    Args:
        keeps: whether a multiplier suffices; if one does, every larger one does.
        low: a multiplier that need not suffice.
        high: the largest multiplier to try.
    """
    if not keeps(high):
        return math.inf
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high

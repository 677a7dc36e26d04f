"""A tight bound for secret places that stay the same: moments, a comparison and a linear program.

`bins.py` shows that the privacy loss of an example with a secret place is at most that of

    R = mean over the places j of exp(Z_j - G_jj / 2),

where Z is normal with covariances G, the scaled products of the places' vectors, all at least 0.
Wanted are E f(R) for f(r) = max(r - e^epsilon, 0) and for f(r) = max(1 - e^epsilon r, 0). The
comparison in `bins.py` replaces G by a simpler matrix, which can cost 40% more noise. This module
bounds E f(R) from what is known exactly of R.

**A shared factor.** G = g 11' + H with the largest g for which H is a covariance matrix,
g = 1 / (1' G^-1 1). Hence R = W A, with W and A independent: W is a log-normal of mean 1 and
variance g of its logarithm, and A is a mean of log-normals with covariances H. The mean over W has
a closed form, as an option's price has (Black and Scholes 1973). What remains is E F(A) for a
convex F. With several epochs g is large, and A is close to 1.

**What is known of A.** Its mean is 1. Moreover:

1. The central moments 2, 3 and 4. E of a product of factors exp(Y_i - H_ii / 2) - 1 is the sum,
   over the graphs on these factors in which each has an edge, of the product of exp(H_ij) - 1 over
   the edges. (Write each exp(H_ij) of the mixed moment as 1 + (exp(H_ij) - 1), and expand.)
2. E max(A - b, 0) <= E max(A' - b, 0) for each b, with the A' of the comparison of `bins.py`.
3. A >= L = exp(mean over j of (Y_j - H_jj / 2)), because an arithmetic mean is at least the
   geometric one. So E max(b - A, 0) <= E max(b - L, 0), and L is log-normal. Also
   E max(b - A, 0) = E max(A - b, 0) + b - 1.

**A linear program.** If a polynomial of degree 4 plus sums of w max(a - b, 0) and u max(b - a, 0)
with w, u >= 0 is nowhere below F, then the same combination of the numbers above is at least
E F(A). The program finds the combination of least cost for the points of a grid. The result is then
repaired without the program: between two points F is below its chord, and the polynomial is above
its chord less h^2 max(q'') / 8. What is missing in a cell is added to the combination, with its
cost. So the bound does not depend on the solver: a bad solution is only a loose bound.

**Groups of places.** If there are more than `MOST_JOINT_PLACES` places, the attacker is told the
place modulo a number. R is then a mean over the groups, and f is convex, so the mean of the groups'
bounds is a bound.

All numbers are bounds up to float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from counton.base.arrays import Floats
from counton.training.bins import PlaceBound, distances, log_normal_atoms, mean_of_many

#: Largest number of places whose moments are computed together, in time of its fourth power.
MOST_JOINT_PLACES = 256
#: Number of points at which the linear program compares, and of places where slopes may change.
_PROGRAM_POINTS = 6000
_PROGRAM_KNOTS = 100
#: Number of points of the grids of means that are compared.
_COMPARED_POINTS = 192
#: Part of the mean of a compared distribution that its grid may cut off.
_COMPARED_CUT_SHARE = 1e-16
#: Added to the variance of each place, so that factors of matrices exist. Larger covariances only
#: increase the bound.
_VARIANCE_JITTER = 1e-10
#: Bound of the relative rounding of moments.
_MOMENT_ROUNDING = 1e-12
#: Share of the bound by comparison that may be cut off above the grid of the linear program.
_TAIL_SHARE = 1e-4

#: A convex function of an array, for a variance of the shared factor and an epsilon.
_LossFunction = Callable[[Floats, float, float], Floats]


def excess(values: Floats, variance: float, epsilon: float) -> Floats:
    """Return E max(W a - e^epsilon, 0) for each ``a``, with a log-normal W of mean 1.

    Args:
        values: the numbers a, at least 0.
        variance: variance of the logarithm of W.
        epsilon: epsilon of the guarantee.

    >>> excess(np.array([0.0, 1.0, 3.0]), 0.0, math.log(2)).tolist()
    [0.0, 0.0, 1.0]
    """
    from scipy.special import ndtr

    limit = math.exp(epsilon)
    if variance <= 0:
        return np.maximum(values - limit, 0)
    width = math.sqrt(variance)
    with np.errstate(divide="ignore"):
        quantiles = (np.log(values) - epsilon) / width
    losses: Floats = np.maximum(
        values * ndtr(quantiles + width / 2) - limit * ndtr(quantiles - width / 2), 0
    )
    return losses


def shortfall(values: Floats, variance: float, epsilon: float) -> Floats:
    """Return E max(1 - e^epsilon W a, 0) for each ``a``, with a log-normal W of mean 1.

    Args:
        values: the numbers a, at least 0.
        variance: variance of the logarithm of W.
        epsilon: epsilon of the guarantee.

    >>> shortfall(np.array([0.0, 0.25, 3.0]), 0.0, math.log(2)).tolist()
    [1.0, 0.5, 0.0]
    """
    from scipy.special import ndtr

    limit = math.exp(epsilon)
    if variance <= 0:
        return np.maximum(1 - limit * values, 0)
    width = math.sqrt(variance)
    with np.errstate(divide="ignore"):
        quantiles = (-np.log(values) - epsilon) / width
    losses: Floats = np.maximum(
        ndtr(quantiles + width / 2) - limit * values * ndtr(quantiles - width / 2), 0
    )
    return losses


class _Loss(NamedTuple):
    """A convex function of A, whose mean is bounded.

    Attributes:
        function: the function; its slopes are between -1 and 1.
        rises: whether it rises with A; otherwise it falls.
    """

    function: _LossFunction
    rises: bool


_EXCESS = _Loss(excess, rises=True)
_SHORTFALL = _Loss(shortfall, rises=False)


def central_moments(covariances: Floats) -> Floats:
    """Return E (A - 1)^k, k = 0, ..., 4, of a mean A of log-normals of mean 1.

    Args:
        covariances: covariances of the logarithms, shape (places, places).

    >>> central_moments(np.zeros((3, 3))).tolist()
    [1.0, 0.0, 0.0, 0.0, 0.0]
    >>> alone = central_moments(np.array([[0.25]]))  # of one log-normal
    >>> bool(np.isclose(alone[2], math.expm1(0.25)))
    True
    """
    edges = np.expm1(covariances)
    return _moments_of_edges(edges, _complete_graphs(edges))


def _complete_graphs(edges: Floats) -> float:
    """Return the sum over four places of the product over their six edges."""
    # The product does not depend on the order of the places. So each sum is over places after the
    # first one, and counts the orders: this takes a quarter of the time.
    total = 0.0
    for first in range(len(edges)):
        self_edge = float(edges[first, first])
        row = edges[first, first + 1 :]
        rest = edges[first + 1 :, first + 1 :]
        joined = rest * row  # an edge to the first place, and one to another
        squares = row**2
        total += 4 * float((joined * row[:, None] * (joined @ rest)).sum())
        total += 6 * self_edge * float(squares @ rest @ squares)
        total += 4 * self_edge**3 * float((row**3).sum())
        total += self_edge**6
    return total


def _moments_of_edges(edges: Floats, complete: float) -> Floats:
    """Return the central moments 0 to 4 of A.

    Args:
        edges: exp(H_ij) - 1.
        complete: the result of `_complete_graphs`.
    """
    number = len(edges)
    sums = edges.sum(axis=1)
    paths = edges @ edges
    triangles = (edges * paths).sum(axis=1)
    second = sums.sum()
    third = 3 * (sums @ sums) + triangles.sum()
    fourth = (
        3 * second**2  # two edges apart
        + 12 * (sums @ edges @ sums)  # a path of three edges
        + 4 * (sums**3).sum()  # a star
        + 3 * (paths**2).sum()  # a cycle
        + 12 * (sums @ triangles)  # a triangle and one more edge
        + 6 * (edges * paths**2).sum()  # two triangles with a common edge
        + complete
    )
    return np.array([1.0, 0.0, second / number**2, third / number**3, fourth / number**4])


def _magnitudes(edges: Floats) -> Floats:
    """Return at least the sums of absolute values of what the moments add up."""
    sizes = np.abs(edges)
    # One edge of a complete graph is at most the largest; two triangles remain.
    complete = float(sizes.max() * (sizes * (sizes @ sizes) ** 2).sum())
    return _moments_of_edges(sizes, complete)


class _DominatingDistribution:
    """A distribution on a grid that bounds E max(A - b, 0) for all b.

    Attributes:
        values: points of the grid, ascending.
        masses: probability of each point.
        beyond: part of the mean that the grid cuts off.
    """

    def __init__(self, bound: PlaceBound, largest: float, scale: float) -> None:
        """Compute the distribution.

        Args:
            bound: how many places an attacker cannot tell apart, and their largest covariance.
            largest: largest variance of a place.
            scale: factor of all covariances.
        """
        common = largest if bound.places == 1 else bound.shared
        values = np.ones(1)
        masses = np.ones(1)
        self.beyond = 0.0
        own_variance = (largest - common) * scale
        if own_variance > 0:
            atoms = mean_of_many(own_variance, bound.places, _COMPARED_POINTS, _COMPARED_CUT_SHARE)
            values, masses, self.beyond = atoms
        if common > 0:
            factor = log_normal_atoms(common * scale, _COMPARED_POINTS)
            values = np.outer(values, factor.values).ravel()
            masses = np.outer(masses, factor.masses).ravel()
            self.beyond += factor.beyond
        order = np.argsort(values)
        self.values: Floats = values[order]
        self.masses: Floats = masses[order]
        self._mass_above = np.append(np.cumsum(self.masses[::-1])[::-1], 0)
        self._mean_above = np.append(np.cumsum((self.masses * self.values)[::-1])[::-1], 0)

    def tail(self, thresholds: Floats) -> Floats:
        """Return a bound of E max(A - b, 0) for each b of ``thresholds``."""
        first = np.searchsorted(self.values, thresholds)
        inside = self._mean_above[first] - thresholds * self._mass_above[first]
        tails: Floats = np.maximum(inside, 0) + self.beyond
        return tails

    def mean_of(self, loss: _LossFunction, variance: float, epsilon: float) -> float:
        """Return a bound of the mean of a loss, whose slopes are at most 1."""
        return float(self.masses @ loss(self.values, variance, epsilon)) + self.beyond


class _MeanFacts(NamedTuple):
    """What is known of A at one scale of the noise.

    Attributes:
        moments: central moments 0 to 4.
        rounding: bounds of their rounding.
        variance: largest variance of ln of a factor of R.
        dominating: distributions that bound E max(A - b, 0).
        log_mean: mean of ln L.
        log_width: standard deviation of ln L.
    """

    moments: Floats
    rounding: Floats
    variance: float
    dominating: Sequence[_DominatingDistribution]
    log_mean: float
    log_width: float

    def above(self, thresholds: Floats) -> Floats:
        """Return a bound of E max(A - b, 0) for each b of ``thresholds``."""
        tails: Floats = np.min(
            [distribution.tail(thresholds) for distribution in self.dominating], axis=0
        )
        return tails

    def below(self, thresholds: Floats) -> Floats:
        """Return a bound of E max(b - A, 0) for each b of ``thresholds``."""
        from scipy.special import ndtr

        mean_bound = self.above(thresholds) + thresholds - 1
        if self.log_width <= 1e-5:
            # E max(b - L, 0) <= max(b - e^m, 0) + E max(-N, 0), N normal of this width, m <= 0.
            least_bound = np.maximum(thresholds - math.exp(self.log_mean), 0) + self.log_width / 2
        else:
            with np.errstate(divide="ignore"):
                scaled = (np.log(thresholds) - self.log_mean) / self.log_width
            whole = math.exp(self.log_mean + self.log_width**2 / 2)
            least_bound = thresholds * ndtr(scaled) - whole * ndtr(scaled - self.log_width)
        tails: Floats = np.maximum(np.minimum(least_bound, mean_bound), 0)
        return tails


class _PlaceGroup:
    """Places that are compared with each other: covariances, without what they share."""

    def __init__(self, gram: Floats) -> None:
        """Separate the shared factor.

        Args:
            gram: scaled products of the places' vectors, at least 0, shape (places, places).
        """
        number = len(gram)
        gram = gram + _VARIANCE_JITTER * np.eye(number)
        shared = 1 / float(np.linalg.solve(gram, np.ones(number)).sum())
        #: Variance of the logarithm of the shared factor. It is a little less than the largest one.
        self.shared = max(0.0, shared * (1 - 1e-6) - _VARIANCE_JITTER)
        self.rest: Floats = gram - self.shared
        np.linalg.cholesky(self.rest)  # raises unless these are covariances
        self.largest = float(self.rest.diagonal().max())
        self.bounds = [PlaceBound(1, 0.0)]
        largest = [float(self.rest.diagonal(lag).max()) for lag in range(number)]
        for step in distances(number):
            apart = max(largest[step::step])
            self.bounds.append(PlaceBound(number // step, max(0.0, apart)))

    def facts(self, scale: float) -> _MeanFacts:
        """Return what is known of A at one scale of the noise.

        Args:
            scale: inverse of the variance of the noise, divided by the squared sensitivity.
        """
        rest = scale * self.rest
        edges = np.expm1(rest)
        return _MeanFacts(
            moments=_moments_of_edges(edges, _complete_graphs(edges)),
            rounding=_MOMENT_ROUNDING * _magnitudes(edges),
            variance=scale * (self.shared + self.largest),
            dominating=[
                _DominatingDistribution(bound, self.largest, scale) for bound in self.bounds
            ],
            log_mean=-float(rest.diagonal().mean()) / 2,
            log_width=math.sqrt(max(float(rest.mean()), 0.0)),
        )

    def deltas(self, epsilon: float, scale: float, limit: float = math.inf) -> tuple[float, float]:
        """Return bounds of delta for a removed and for an added example.

        Args:
            epsilon: epsilon of the guarantee.
            scale: inverse of the variance of the noise, divided by the squared sensitivity.
            limit: if the first bound is above it, the second one is of no use, and 0.
        """
        facts = self.facts(scale)
        removed = _bound(_EXCESS, facts, scale * self.shared, epsilon)
        if removed > limit:
            return removed, 0.0
        return removed, _bound(_SHORTFALL, facts, scale * self.shared, epsilon)


def _bound(loss: _Loss, facts: _MeanFacts, shared: float, epsilon: float) -> float:
    """Return a bound of E F(A): the least of the comparison's and the linear program's."""
    comparison_bound = min(
        distribution.mean_of(loss.function, shared, epsilon) for distribution in facts.dominating
    )
    spread = math.sqrt(facts.moments[2])
    scale = max(float(loss.function(np.ones(1), shared, epsilon)[0]), comparison_bound / 100)
    if scale <= 0 or spread <= 0:
        return comparison_bound
    last = math.exp(epsilon + 8 * math.sqrt(facts.variance) + facts.variance)
    ends = np.geomspace(1 + spread, last + 2 * spread, 200)
    tails = facts.above(ends)
    end = min(int(np.searchsorted(-tails, -_TAIL_SHARE * scale)), len(ends) - 1)
    # The slope is at most 1, so what lies above the end adds at most the tail there. A loss that
    # falls adds nothing.
    cut_off = float(tails[end]) if loss.rises else 0.0
    program = _BoundProgram(loss.function, shared, epsilon, facts, float(ends[end]), scale)
    return min(comparison_bound, program.solve() + cut_off)


class _BoundProgram:
    """The linear program for one loss F: a combination that is nowhere below F, of least cost."""

    def __init__(
        self,
        loss: _LossFunction,
        shared: float,
        epsilon: float,
        facts: _MeanFacts,
        end: float,
        scale: float,
    ) -> None:
        """Choose the grid, and compute the costs.

        Args:
            loss: the convex function F, with its parameters.
            shared: variance of the shared factor.
            epsilon: epsilon of the guarantee.
            facts: what is known of A.
            end: the largest number at which F is compared; from there on F counts as constant.
            scale: size of the bound; the program's numbers are divided by it.
        """
        self.scale = scale
        self.spread = math.sqrt(facts.moments[2])
        self.grid = self._make_grid(lambda values: loss(values, shared, epsilon), end)
        self.knots = self.grid[:: max(1, len(self.grid) // _PROGRAM_KNOTS)]
        self.values = loss(self.grid, shared, epsilon) / scale
        self.above = facts.above(self.knots)
        self.below = facts.below(self.knots)
        units = self.spread ** np.arange(5)
        self.moments = facts.moments / units
        self.rounding = facts.rounding / units

    def _make_grid(self, loss: Callable[[Floats], Floats], end: float) -> Floats:
        """Return points that are dense where the loss bends, or where A is likely."""
        fine = np.concatenate([np.linspace(0, 1, 4001)[:-1], np.geomspace(1, end, 12001)])
        bend = np.maximum(np.gradient(np.gradient(loss(fine), fine), fine), 0)
        bend += self.scale / 4 / (1 + ((fine - 1) / (3 * self.spread)) ** 2) ** 2
        density = np.sqrt(bend / self.scale)
        density += 1 / np.maximum(0.3 * self.spread, np.abs(fine - 1) / 8)
        steps = (density[1:] + density[:-1]) / 2 * np.diff(fine)
        length = np.concatenate([np.zeros(1), np.cumsum(steps)])
        grid = np.interp(np.linspace(0, length[-1], _PROGRAM_POINTS), length, fine)
        return np.unique(np.append(grid, [0.0, 1.0, end]))

    def solve(self) -> float:
        """Return a bound of the mean of the loss up to the end; infinite if the solver fails."""
        from scipy.optimize import linprog

        grid = self.grid
        centred = (grid - 1) / self.spread
        orders = np.arange(5)
        rows = np.hstack(
            [
                centred[:, None] ** orders,
                np.maximum(grid[:, None] - self.knots, 0),
                np.maximum(self.knots - grid[:, None], 0),
            ]
        )
        costs = np.concatenate([self.moments, self.above, self.below])
        # All derivatives of the polynomial are at least 0 at the end: it rises from there on.
        rising = np.zeros((4, rows.shape[1]))
        for order in range(1, 5):
            for power in range(order, 5):
                factor = math.perm(power, order)
                rising[order - 1, power] = factor * centred[-1] ** (power - order)
        rising /= np.abs(rising).max(axis=1)[:, None]
        sizes = np.abs(rows).max(axis=1)
        solved = linprog(
            costs,
            A_ub=-np.vstack([rows / sizes[:, None], rising]),
            b_ub=-np.append(self.values / sizes, np.full(4, 1e-9)),
            bounds=[(None, None)] * 5 + [(0, None)] * (2 * len(self.knots)),
            method="highs",
            options={
                "primal_feasibility_tolerance": 1e-10,
                "dual_feasibility_tolerance": 1e-9,
            },
        )
        if solved.status != 0:
            return math.inf
        weights = np.concatenate([solved.x[:5], np.maximum(solved.x[5:], 0)])
        if (rising @ weights < 0).any():
            return math.inf
        missing = self._missing(self.values - rows @ weights, centred, weights)
        rounded = float(np.abs(weights[:5]) @ self.rounding)
        return (float(costs @ weights) + self._repair(missing) + rounded) * self.scale

    def _missing(self, lacking: Floats, centred: Floats, weights: Floats) -> Floats:
        """Return how far the combination may be below the loss in each cell of the grid.

        Args:
            lacking: how far it is below at the points.
            centred: the points, as the polynomial takes them.
            weights: the combination; its first five are coefficients of the polynomial.
        """
        # The second derivative is convex, because the coefficient of order 4 is at least 0: its
        # largest value in a cell is at one of the two ends.
        bent = 2 * weights[2] + 6 * weights[3] * centred + 12 * weights[4] * centred**2
        bent = np.maximum(np.maximum(bent[1:], bent[:-1]), 0)
        ends = np.maximum(lacking[1:], lacking[:-1])
        missing: Floats = np.maximum(ends + np.diff(centred) ** 2 * bent / 8, 0)
        return missing

    def _repair(self, missing: Floats) -> float:
        """Return the least cost of adding what is missing.

        Near 1 a constant is added. Far above and far below, a slope is cheaper, because A is rarely
        there.
        """
        starts = self.grid[:-1]
        stops = self.grid[1:]
        smallest = 1e-12
        above = [(math.inf, 0.0)]
        below = [(-1.0, 0.0)]
        for index in range(len(self.knots) - 1):
            start = self.knots[index]
            stop = self.knots[index + 1]
            if start > 1:
                slopes = missing / np.maximum(starts - start, smallest)
                steepest = float(slopes[starts >= stop].max(initial=0.0))
                above.append((stop, steepest * float(self.above[index])))
            if stop < 1:
                slopes = missing / np.maximum(stop - stops, smallest)
                steepest = float(slopes[stops <= start].max(initial=0.0))
                below.append((start, steepest * float(self.below[index + 1])))
        return min(
            float(missing[(starts < high) & (stops > low)].max(initial=0.0))
            + cost_above
            + cost_below
            for high, cost_above in above
            for low, cost_below in below
        )


class MomentBound:
    """Bounds of delta for an example at a secret place that stays the same in all epochs.

    Args:
        gram: products of the vectors by which the example moves the outputs from each of its
            places, absolute values, divided by the squared sensitivity; shape (places, places).
    """

    def __init__(self, gram: Floats) -> None:
        apart = -(-len(gram) // MOST_JOINT_PLACES)
        self._groups = [_PlaceGroup(gram[first::apart, first::apart]) for first in range(apart)]

    def delta(self, epsilon: float, multiplier: float, limit: float = math.inf) -> float:
        """Return an upper bound on delta, for an added and for a removed example.

        Args:
            epsilon: epsilon of the guarantee.
            multiplier: standard deviation of the noise divided by the sensitivity.
            limit: a larger bound may be that for a removed example alone, which takes less time.
        """
        scale = multiplier**-2
        # The mean of several groups is above the limit if one of them is above this.
        largest = limit * len(self._groups)
        deltas = np.array([places.deltas(epsilon, scale, largest) for places in self._groups])
        return min(1.0, float(deltas.mean(axis=0).max()))

    def estimated_variance(self, multiplier: float) -> float:
        """Return the variance of a normal privacy loss that is about as large, for searches."""
        scale = multiplier**-2
        parts = [
            scale * places.shared + math.log1p(float(np.expm1(scale * places.rest).mean()))
            for places in self._groups
        ]
        return float(np.mean(parts))

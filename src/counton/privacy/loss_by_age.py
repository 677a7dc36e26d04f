"""The privacy loss of an item under a guarantee that expires, as a function of the item's age.

Each release is a sum of noisy counts of dyadic intervals. Two streams that differ in one item give
equal releases if the noise of some intervals is shifted: the shifts of all intervals that contain a
released position must add up to 1 from the item on, and to 0 before it. The privacy loss is the
least cost of such shifts, for the worst position of the item. The *label* of an interval is the sum
of its own shift and of those of all intervals that contain it.

Comments at the beginning of this file have the computation, the search and the proofs.
"""

# **Costs of dyadic intervals.** Two streams that differ in the item at position j give the same
# releases if the noise of the intervals is shifted. The shifts must add 1 to every released
# position from j on, and 0 to every earlier one. The label of an interval is the sum of its own
# shift and the shifts of all intervals around it. An interval then costs a function of the
# difference of its label and its parent's. Labels outside [0, 1] never help, so a subtree is
# summarised by its least cost as a function of its parent's label. Both classes of costs below keep
# these functions for many positions at once, in arrays with a column for each position; sums of
# functions are sums of arrays.
#
# **The worst position** has the largest cost over all positions of an item. It is found by branch
# and bound over the bits of the position. A window of n released positions starts at the item. Its
# two ends climb the forest of intervals level by level: the bits of the position decide which
# siblings they meet. Three facts make the search finite and exact:
#
#     - Cost functions only grow when a sibling's cost is added, so larger functions stay larger.
#     - A further ancestor can only lower the cost: it offers another way to shift. So an interval
#       that holds both ends may be taken as the root of its tree. And if the window is shorter than
#       an interval, only the first three intervals of this level need be looked at.
#     - The cost of any fixed labels bounds the least cost from above. Fixing labels on a grid gives
#       a bound on everything that may follow, and positions below the best known one are dropped.
#
# Only for growth of 4 and more do thousands of positions remain. Then costs are rounded up to a
# grid, so that most positions have equal costs. The result is an upper bound in any case. If the
# costs of the worst position were not rounded, which is usual, the result is the largest cost
# itself.
#
# **Integer noise.** Noise of nested intervals hides an item best if each is shifted a little, by
# fractions. Integer noise can only be shifted by integers. These shifts cost what they cost under
# Laplace noise: g of the pure loss. This bound always holds. Wide noise does almost as well as
# continuous noise: g of the concentrated loss. The proof:
#
# The releases so far have the distribution P(r) ~ exp(-r^T Sigma^-1 r / 2) Theta(r), where Theta
# sums exp(-(s - c(r))^T H (s - c(r)) / 2) over integer vectors s, the sums of the noise from a root
# down to each interval of level 1 and more; levels above those of the window may be taken as known.
# If Theta were constant, D_alpha(P moved by d || P) <= alpha d^T Sigma^-1 d / 2. With R = max Theta
# / min Theta the bound grows by alpha / (alpha - 1) ln R. Since D_alpha grows with alpha, for every
# order D_alpha <= alpha (sqrt(rho g) + sqrt(ln R))^2.
#
# Bound of R: Theta is, by Poisson summation, a sum over integer vectors k with terms of at most
# exp(-2 pi^2 k^T H^-1 k). H is a tree's: its diagonal p has 1 / variance of the interval and of its
# two children, and H <= 2 diag(p). So R <= (1 + S) / (1 - S), where 1 + S is the product over the
# intervals of the sums of exp(-pi^2 k^2 / p) over the integers k.

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError
from counton.base.exact import float_above
from counton.base.expiry import ExpiringNoise, Expiry, checked_age, checked_ages

Analysis = Literal["exact", "paper", "bound", "concentrated"]

_MOST_LEVELS = 66  # enough for windows of LARGEST_AGE positions

#: Functions of a label, as numbers or coefficients: shape (numbers, positions of the item).
Costs = NDArray[np.float64]

#: If more positions than this remain, costs are rounded up to a grid. Its step is `_COST_GRID`
#: times the largest known cost, times the least power of 4 that leaves at most _MOST_POSITIONS.
_MOST_EXACT_POSITIONS = 2**12
_COST_GRID = 2.0**-17
_MOST_POSITIONS = 2**15

#: Integer noise: relative margin for the rounding of a few hundred floats and of many intervals.
_ROUNDING_MARGIN = 1e-9
#: Integer noise: the largest excess over the loss to continuous noise that is bounded here.
_MOST_EXCESS = 0.01


class Expires(Protocol):
    """A strategy whose guarantee weakens with the age of an item."""

    @property
    def expiry(self) -> Expiry:
        """Noise of each level, and the steps until an item is first counted."""
        ...


def expiration_loss(
    strategy: Expires,
    ages: Iterable[int],
    analysis: Analysis = "exact",
    position: int | None = None,
) -> NDArray[np.float64]:
    """Return the privacy loss of an item at each age: shape ``(len(ages),)``.

    An item of age d entered d steps before the newest release. The result holds for adaptively
    chosen streams and, unless ``position`` is given, for every position of the item in the stream.

    Args:
        strategy: one whose guarantee expires, such as `counton.strategies.Expiring`.
        ages: ages in steps, 0 or more.
        analysis: "exact", "paper" or "bound", in units of epsilon; "concentrated", in units of rho.
            "exact" is the least loss that can be proved; from growth 4 on it may be larger than
            needed, in all tests by at most a thousandth. "paper" adds up the dyadic intervals of
            the released positions. "bound" is the paper's closed form. "concentrated" is exact for
            continuous Gaussian noise; for integer noise see `ExpiringZCDP.at_age`.
        position: the step at which the item entered, for "exact" and "concentrated"; None: the
            largest loss over all positions.

    Source: Andersson et al., "Continual Counting with Gradual Privacy Expiration": Algorithm 3,
    Appendix A and Lemma 4.1. The exact loss is at most the paper's.

    Erratum: the integral in Lemma 4.1 is slightly below the sum it bounds if growth exceeds 1;
    "bound" is the sum.

    >>> from counton.strategies import Expiring
    >>> s = Expiring(growth=2)
    >>> for analysis in ("exact", "paper", "bound"):
    ...     print(analysis, expiration_loss(s, [0, 3, 31, 999], analysis))
    exact [ 1.  4. 16. 55.]
    paper [ 1.  4. 16. 80.]
    bound [  2.  12.  42. 110.]
    >>> expiration_loss(Expiring(growth=1), [3], "concentrated")
    array([2.])

    Raises:
        InvalidInputError: not an expiring strategy, ages that are no collection of integers in
            0..2^62, an unknown analysis, or a position that is below 1 or given with another
            analysis.
    """
    expiry = strategy.expiry if isinstance(strategy, ExpiringNoise) else None
    if not isinstance(expiry, Expiry):
        raise InvalidInputError(
            f"{strategy!r} gives a guarantee that does not expire, so its loss is equal at every "
            "age; use counton.strategies.Expiring"
        )
    if analysis not in get_args(Analysis):
        raise InvalidInputError(
            f"analysis is {analysis!r}; give one of {', '.join(get_args(Analysis))}"
        )
    checked = checked_ages(ages)
    if position is None:
        return np.array([loss_at(expiry, age, analysis) for age in checked], np.float64)
    if analysis not in ("exact", "concentrated") or checked_age(position) < 1:
        raise InvalidInputError(
            f"position is {position!r} and analysis is {analysis!r}; a position is at least 1, and "
            "only the analyses 'exact' and 'concentrated' look at single positions"
        )
    model = _cost_model(expiry.growth, analysis)
    highest = _highest(expiry)
    lengths = [max(age - expiry.delay + 1, 0) for age in checked]
    return np.array([cost_at(model, position, length, highest) for length in lengths], np.float64)


@lru_cache(maxsize=2**16)
def loss_at(expiry: Expiry, age: int, analysis: Analysis) -> float:
    """Return `expiration_loss` at one age in steps; 0 if no release has counted the item."""
    length = age - expiry.delay + 1  # number of released positions from the item's on
    if length < 1:
        return 0.0
    top = _highest(expiry)
    if analysis in ("exact", "concentrated"):
        return worst_cost(_cost_model(expiry.growth, analysis), length, top)
    weights = _weights(expiry.growth)
    if analysis == "paper":
        return _greedy(weights, length, top)
    last = min(length.bit_length() - 1, top)
    many = 2 * math.fsum(weights[:last])
    return many + weights[last] * (2 if last < top else length >> top)


def loss_rounded_up(expiry: Expiry, age: int) -> Fraction:
    """Return the exact loss at one age as a fraction, never below the true value.

    The rounding error of its few hundred floats is below 1e-12, by which it is rounded up.
    """
    loss = loss_at(expiry, age, "exact")
    integral = expiry.growth.denominator == 1 <= expiry.growth
    # Below 2^43 the search drops no position that is better by 1 or more.
    if age <= expiry.delay or (integral and loss < 2**43):
        return Fraction(loss)  # one interval, or sums of integers all the way: exact
    return _rounded_up(loss)


def smooth_loss(expiry: Expiry, length: int, highest: int) -> Fraction:
    """Return the largest loss of an item in ``length`` releases, under continuous Gaussian noise.

    It is rounded up, in units of rho. Intervals of level l, up to ``highest``, have 2^l steps.
    """
    return _rounded_up(worst_cost(_cost_model(expiry.growth, "concentrated"), length, highest))


def _rounded_up(loss: float) -> Fraction:
    decimals = 12 - math.frexp(loss)[1] * 3 // 10  # about twelve significant digits, rounded up
    unit = Fraction(10**decimals if decimals >= 0 else Fraction(1, 10**-decimals))
    return math.ceil(Fraction(loss) * (1 + Fraction(1, 10**12)) * unit) / unit


@lru_cache(maxsize=256)
def _weights(growth: Fraction) -> list[float]:
    """Return, by level, the epsilon of an interval's noisy count, with scale 1 on level 0."""
    expiry = Expiry(growth)
    return [float(1 / expiry.factor(level)) for level in range(_MOST_LEVELS)]


@lru_cache(maxsize=256)
def _factors(growth: Fraction) -> list[float]:
    expiry = Expiry(growth)
    return [float(expiry.factor(level)) for level in range(_MOST_LEVELS)]


def _highest(expiry: Expiry) -> int:
    return _MOST_LEVELS - 1 if expiry.levels is None else expiry.top


@lru_cache(maxsize=256)
def _cost_model(growth: Fraction, analysis: Analysis) -> CostModel:
    if analysis == "exact":
        return AbsoluteCosts(_weights(growth))
    return QuadraticCosts(_factors(growth))


def _greedy(weights: list[float], length: int, top: int) -> float:
    """Return the largest weight of the fewest intervals that cover ``length`` steps anywhere."""
    # At every level the first interval is taken into the cover if its number is odd, and the last
    # one if its number is even. The others form pairs, the intervals of the next level.
    costs = {length: 0.0}  # intervals of this level that remain: worst cost so far
    for level in range(top):
        following: dict[int, float] = {}
        for count, cost in costs.items():
            for n_first in (0, 1):  # 1 if the first interval has an odd number
                ends = min(n_first + (count - n_first) % 2, count)
                rest = (count - ends) // 2
                worst = cost + ends * weights[level]
                following[rest] = max(following.get(rest, 0.0), worst)
        costs = following
    return max(cost + count * weights[top] for count, cost in costs.items())


def concentrated_loss(expiry: Expiry, rho: Fraction, age: int) -> Fraction:
    """Return the rho of an item of this age under discrete Gaussian noise, rounded up.

    ``rho`` is the loss of an item that one release has counted. The result is the lesser of two
    bounds, which comments at the beginning prove under "Integer noise". If units may change more
    than one count by 1, the noise is wider, and the loss no larger.

    >>> [float(concentrated_loss(Expiry(1), Fraction(rho), 10) / rho) for rho in (5, 0.01)]
    [4.0, 2.60173...]
    """
    shifted_by_integers = rho * loss_rounded_up(expiry, age)
    length = age - expiry.delay + 1
    if length < 2:
        return shifted_by_integers
    top = _top(expiry, length)
    log_ratio = _log_ratio(expiry, float_above(rho), length, top)
    if log_ratio is None:
        return shifted_by_integers
    loss = float_above(rho * smooth_loss(expiry, length, top))
    almost_continuous = Fraction((math.sqrt(loss) + math.sqrt(log_ratio)) ** 2 * (1 + 1e-14))
    return min(shifted_by_integers, almost_continuous)


def is_wide(expiry: Expiry, rho: float, age: int) -> bool:
    """Return whether discrete Gaussian noise loses at most 1% more than continuous noise."""
    length = age - expiry.delay + 1
    log_ratio = _log_ratio(expiry, rho, length, _top(expiry, length)) if length > 1 else 0.0
    return log_ratio is not None and log_ratio < 2e-5 * rho


def _top(expiry: Expiry, length: int) -> int:
    """Return the highest level of intervals that can lower the loss at the worst position."""
    return min(expiry.top, length.bit_length() + 1)


def _log_ratio(expiry: Expiry, rho: float, length: int, top: int) -> float | None:
    """Bound how much more privacy discrete Gaussian noise may lose than continuous noise.

    The bound is on ln R: if continuous noise loses x (rho), discrete noise loses at most (sqrt(x) +
    sqrt(ln R))^2; the comment "Integer noise" proves it. None: the noise is too narrow for it.
    """
    precision = [2 * rho / factor for factor in _factors(expiry.growth)[: top + 1]]
    excess = 0.0
    for level in range(1, top + 1):
        term = math.exp(
            -(math.pi**2) / (precision[level] + 2 * precision[level - 1]) * (1 - _ROUNDING_MARGIN)
        )
        # The number of intervals of a level is at most twice the number in four windows.
        excess += 2.0 ** max(length.bit_length() + 3 - level, 0) * 4 * term  # 1 / (1 - term) < 2
        if excess > _MOST_EXCESS:
            return None
    return 3 * excess  # ln (1 + S) / (1 - S), S <= e^excess - 1


class AbsoluteCosts:
    """Costs of shifts of Laplace noise: |shift| times the weight of the level.

    An interval has two costs: for the labels 0 and 1 of its parent. Arrays have shape (2, positions
    of the item).

    Attributes:
        labels: labels at which costs are compared to rule out positions of the item.
        cost_of_ones: for each level, the least cost of adding 1 to all positions in an interval.
    """

    # A linear program over a laminar family has an integral optimum, so other labels are never
    # needed. Its value is exactly the pure loss, attained far out in the direction of the shift.

    def __init__(self, weights: list[float]) -> None:
        self.labels = np.array([0.0, 1.0])
        self._weights = weights
        self.cost_of_ones = [weights[0]]
        for weight in weights[1:]:
            self.cost_of_ones.append(min(weight, 2 * self.cost_of_ones[-1]))

    def conditional_costs(self, level: int, label: float) -> Costs:
        """Return the cost of giving an interval this label, by label of its parent: shape (2, 1).

        It is |parent's label - label| times the weight of the level.
        """
        return self._weights[level] * np.abs(self.labels - label)[:, None]

    def uniform(self, level: int, ones: bool) -> Costs:
        """Return the cost if an interval's positions need the total shift 1 if ``ones``, else 0.

        The costs, shape (2, 1), are for the total shifts 0 and 1 that larger intervals give.
        """
        return self.cost_of_ones[level] * np.array([[ones], [not ones]], np.float64)

    def to_parent_label(self, costs: Costs, level: int) -> Costs:
        """Convert costs by an interval's own label to costs by its parent's label.

        The interval keeps its parent's label at no cost, or changes it at the cost of its level's
        weight.
        """
        kept: Costs = np.minimum(costs, self._weights[level] + costs[::-1])
        return kept

    def at_labels(self, costs: Costs) -> Costs:
        """Return the costs for the labels 0 and 1 of the parent: shape (labels, positions)."""
        return costs

    def rounded_up(self, costs: Costs, grid: float) -> Costs:
        """Round costs up to multiples of ``grid``."""
        # Minima over labels then rise by at most ``grid``.
        above: Costs = np.ceil(costs / grid) * grid
        return above

    def root_loss(self, costs: Costs) -> Costs:
        """Return the losses of an interval without a parent, for label 0: shape (positions,)."""
        value: Costs = costs[0]
        return value


class QuadraticCosts:
    """Costs of shifts of Gaussian noise: shift^2 / variance of the level.

    An interval's cost is a x^2 - 2 b x + c, where x is its parent's label. Arrays hold a, b and c,
    shape (3, positions). At the five ``labels`` costs are compared to rule out positions of the
    item. ``cost_of_ones`` has, for each level, the factor of the least cost of adding 1 to all
    positions in an interval.
    """

    # The least sum of costs over all shifts is 1^T Sigma^-1 1, where Sigma is the covariance of the
    # releases from the item on, given the earlier releases.

    def __init__(self, variances: list[float]) -> None:
        self.labels = np.linspace(0, 1, 5)
        self._variances = variances
        self.cost_of_ones = [1 / variances[0]]
        for variance in variances[1:]:
            both = 2 * self.cost_of_ones[-1]
            self.cost_of_ones.append(both / (1 + variance * both))

    def conditional_costs(self, level: int, label: float) -> Costs:
        """Return the cost of giving an interval this label, as coefficients of shape (3, 1).

        It is (parent's label - label)^2 / variance of the level.
        """
        return np.array([[1.0], [label], [label**2]]) / self._variances[level]

    def uniform(self, level: int, ones: bool) -> Costs:
        """Return the cost if an interval's positions need the total shift 1 if ``ones``, else 0.

        Of the total shift x by larger intervals it is (x - needed shift)^2 times
        ``cost_of_ones[level]``, as coefficients of shape (3, 1).
        """
        return self.cost_of_ones[level] * np.array([[1.0], [ones], [ones]])

    def to_parent_label(self, costs: Costs, level: int) -> Costs:
        """Convert costs by an interval's own label, the best, to costs by its parent's label."""
        square, linear, constant = costs
        variance = self._variances[level]
        shrink = 1 + variance * square
        less = variance * linear**2 / shrink
        return np.array([square / shrink, linear / shrink, constant - less])

    def rounded_up(self, costs: Costs, grid: float) -> Costs:
        """Round coefficients to ``grid`` such that no cost falls for labels in [0, 1]."""
        # 0 <= b <= a is kept, so that the best labels lie in [0, 1].
        square, linear, constant = costs / grid
        return grid * np.array([np.ceil(square), np.floor(linear), np.ceil(constant)])

    def at_labels(self, costs: Costs) -> Costs:
        """Return the costs for each of ``labels`` of the parent: shape (labels, positions)."""
        x = self.labels[:, None]
        values: Costs = costs[0] * x**2 - 2 * costs[1] * x + costs[2]
        return values

    def root_loss(self, costs: Costs) -> Costs:
        """Return the losses c of an interval without a parent, for label 0: shape (positions,)."""
        value: Costs = costs[2]
        return value


CostModel = AbsoluteCosts | QuadraticCosts


class _EndCosts(NamedTuple):
    """Costs of two intervals of one level, which hold the first and the last position of a window.

    The window is the released positions from an item on. Arrays have a column for each place of it
    in the stream that can have the largest cost.
    """

    left: Costs
    right: Costs


class _Step(NamedTuple):
    """A step up one level, from the intervals at the ends of a window to their parents.

    ``left_bit`` and ``right_bit`` are 1 if the interval is the right child. ``carry`` is the carry
    bit when the window's length minus 1 is added to its first position.
    """

    left_bit: int
    right_bit: int
    carry: int


class _ReleasedPositions:
    """A window of consecutive positions, and where its ends can lie at each level."""

    def __init__(self, length: int, highest: int) -> None:
        self._last = length - 1
        #: Highest level in use: all its intervals are roots.
        self.highest = highest
        #: From this level on both ends lie in one interval or in two neighbours.
        self.top = min(highest, self._last.bit_length())

    def distance(self, level: int, carry: int) -> int:
        """Return by how many intervals of ``level`` the ends of the window are apart.

        ``carry`` is 1 if the lowest ``level`` bits of the first position and of ``length`` - 1
        overflow when they are added, else 0.
        """
        return (self._last >> level) + carry

    def steps(self, level: int, carry: int) -> list[_Step]:
        """Return the steps up after which the ends of the window lie in different intervals."""
        if level >= self.top:
            return []
        ways = []
        for bit in (0, 1):
            if bit == 0 and self.distance(level, carry) == 1:
                continue  # siblings: both ends meet in the parent
            total = bit + (self._last >> level & 1) + carry
            ways.append(_Step(bit, total & 1, total >> 1))
        return ways


def worst_cost(model: CostModel, length: int, highest: int) -> float:
    """Return the loss at the worst position: the least cost of shifts that hide the item.

    The shifts change the sums at the ``length`` >= 1 released positions from the item on by 1, and
    no earlier ones. The result is slightly more only if the search had to round.
    """
    leaf = model.conditional_costs(0, 1.0)
    if length == 1:
        return float(model.root_loss(leaf)[0])
    window = _ReleasedPositions(length, highest)
    bounds = _bounds(model, window)
    best = 0.0
    alive: dict[int, _EndCosts] = {0: _EndCosts(leaf, leaf)}
    for level in range(window.top + 1):
        following: dict[int, list[_EndCosts]] = {0: [], 1: []}
        for carry, ends in alive.items():
            best = max(best, _largest_cost(model, window, level, carry, ends))
        for carry, ends in alive.items():
            kept = _keep_promising(model, bounds.get((level, carry)), ends, best)
            if kept.left.shape[1] > _MOST_EXACT_POSITIONS:
                kept = _round_to_grid(model, kept, best)
            for step in window.steps(level, carry) if kept.left.shape[1] else ():
                following[step.carry].append(_climb(model, level, step, kept))
        alive = {
            carry: _EndCosts(
                left=np.concatenate([part.left for part in parts], axis=1),
                right=np.concatenate([part.right for part in parts], axis=1),
            )
            for carry, parts in following.items()
            if parts
        }
    return best


def cost_at(model: CostModel, position: int, length: int, highest: int) -> float:
    """Return the loss of the item at ``position``, from 1: the least cost that hides it.

    The shifts change the sums at the ``length`` positions from there on by 1, and no earlier ones.
    """
    last = position + length - 1
    total = 0.0
    start = position
    while start <= last:
        level = min(start.bit_length() - 1, highest)  # the level of the tree that holds ``start``
        number = start >> level
        total += float(model.root_loss(_subtree(model, level, number, position, last))[0])
        start = number + 1 << level
    return total


def _subtree(model: CostModel, level: int, number: int, first: int, last: int) -> Costs:
    """Return the least cost of shifts within interval ``number``, by label of its parent.

    With this label, the shifts must add 1 at the positions ``first`` to ``last``, and 0 before.
    """
    low = number << level
    high = (number + 1 << level) - 1
    if low > last:
        return 0 * model.uniform(level, ones=True)
    if high < first or (first <= low and high <= last):
        return model.uniform(level, ones=high >= first)
    left, right = (_subtree(model, level - 1, 2 * number + half, first, last) for half in (0, 1))
    return model.to_parent_label(left + right, level)


def _climb(model: CostModel, level: int, step: _Step, ends: _EndCosts) -> _EndCosts:
    """Add the costs of one more level: from the intervals at a window's ends to their parents.

    They include the costs of both children. A sibling after the window costs nothing.
    """
    left = ends.left + model.uniform(level, ones=step.left_bit == 0)
    right = ends.right
    if step.right_bit:  # else the sibling is not released yet: any label, at no cost
        right = right + model.uniform(level, ones=True)
    return _EndCosts(
        model.to_parent_label(left, level + 1), model.to_parent_label(right, level + 1)
    )


def _largest_cost(
    model: CostModel, window: _ReleasedPositions, level: int, carry: int, ends: _EndCosts
) -> float:
    """Return the largest cost of places of the window for which the search ends at this level.

    The search ends where no larger interval in use contains the left one, of the window's first
    position. If the next interval holds the last position, the parent of both is also tried.
    """
    right = _to_root(model, window, level, carry, ends.right)
    largest = np.max(model.root_loss(ends.left) + right)
    if window.distance(level, carry) == 1 and level < window.highest:
        met = model.to_parent_label(ends.left + ends.right, level + 1)
        largest = max(largest, np.max(model.root_loss(met)))
    return float(largest)


def _to_root(
    model: CostModel, window: _ReleasedPositions, level: int, carry: int, right: Costs
) -> NDArray[np.float64]:
    """Return the costs that fall on all trees of intervals but the first: shape (places,).

    The first tree holds the window's first position and has its root at ``level``; the others lie
    between both ends, or hold the last position, whose costs up to ``level`` are ``right``.
    """
    number = 1 + window.distance(level, carry)  # the left end being the first of its level
    root = level
    while number > 1 and root < window.highest:
        if number & 1:
            right = right + model.uniform(root, ones=True)
        number = number >> 1
        root = root + 1
        right = model.to_parent_label(right, root)
    cost_between = sum(model.cost_of_ones[level + 1 : root])
    if number > 1:  # all intervals of the highest level are roots
        cost_between += (number - (2 if root == level else 1)) * model.cost_of_ones[root]
    return model.root_loss(right) + cost_between


def _keep_promising(
    model: CostModel, bound: NDArray[np.float64] | None, ends: _EndCosts, best: float
) -> _EndCosts:
    """Keep the places of the window whose cost may be above ``best``, the largest so far."""
    if bound is None:
        return _EndCosts(ends.left[:, :0], ends.right[:, :0])
    left = model.at_labels(ends.left)
    right = model.at_labels(ends.right)
    highest = np.full(left.shape[1], np.inf)
    for i, j in itertools.product(range(len(left)), repeat=2):
        np.minimum(highest, left[i] + right[j] + bound[i, j], out=highest)
    keep = highest > best * (1 + 1e-13)
    return _EndCosts(ends.left[:, keep], ends.right[:, keep])


def _round_to_grid(model: CostModel, ends: _EndCosts, best: float) -> _EndCosts:
    """Round costs up to a grid, and merge places whose costs have become equal."""
    grid = _COST_GRID * 2.0 ** math.frexp(best)[1]  # a power of two keeps sums exact
    while True:
        left = model.rounded_up(ends.left, grid)
        right = model.rounded_up(ends.right, grid)
        both = np.unique(np.concatenate([left, right]), axis=1)
        if both.shape[1] <= _MOST_POSITIONS:
            return _EndCosts(both[: len(left)], both[len(left) :])
        grid *= 4


def _bounds(
    model: CostModel, window: _ReleasedPositions
) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Return upper bounds, by (level, carry), on the costs that intervals above a level add.

    They are for windows whose ends lie in different intervals of the level. Entry (i, j) is for
    label i of the parent of the left one, and label j of that of the right one.
    """
    bounds: dict[tuple[int, int], NDArray[np.float64]] = {}
    for level in reversed(range(min(window.top + 1, window.highest))):
        grid = _label_grid(model, level)
        for carry in (0, 1):
            values = [
                _bound_after(step, model, window, grid, bounds.get((level + 1, step.carry)))
                for step in (window.steps(level, carry) if window.distance(level, carry) else ())
            ]
            if window.distance(level, carry) == 1:
                met = np.full((len(grid.root), len(grid.root)), np.inf)
                np.fill_diagonal(met, grid.root)
                values.append(met)
            if values:
                bounds[level, carry] = np.max(values, axis=0)
    return bounds


class _LabelGrid(NamedTuple):
    """Costs for parents of a level's intervals whose labels are fixed on the grid of the model.

    Attributes:
        level: the level of the intervals.
        parent: costs of the parents, with a column for each label.
        changes: by label of the parent and of its own parent, the cost of this pair.
        root: by label, the cost of a parent that is a root.
        ones, zeros: by label of the parent, the cost of a sibling whose positions need 1, or 0.
    """

    level: int
    parent: Costs
    changes: Costs
    root: Costs
    ones: Costs
    zeros: Costs


def _label_grid(model: CostModel, level: int) -> _LabelGrid:
    # Each label of the parent has a column, so that all of them climb together.
    parent = np.hstack([model.conditional_costs(level + 1, label) for label in model.labels])
    return _LabelGrid(
        level=level,
        parent=parent,
        changes=model.at_labels(parent).T,
        root=model.root_loss(parent),
        ones=model.at_labels(model.uniform(level, ones=True)),
        zeros=model.at_labels(model.uniform(level, ones=False)),
    )


def _bound_after(
    step: _Step,
    model: CostModel,
    window: _ReleasedPositions,
    grid: _LabelGrid,
    bound_above: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return the bounds on costs above a level if the ends of the window take this step.

    Args:
        step: the step to the parents of the intervals at the ends.
        grid: the costs of the parents, by label.
        bound_above: the bounds above the parents' level; None if the search ends there.
    """
    other_trees = _to_root(model, window, grid.level + 1, step.carry, grid.parent)
    after = grid.root[:, None] + other_trees
    if bound_above is not None:
        above = (grid.changes[:, :, None] + bound_above).min(axis=1)
        above = (above[:, None, :] + grid.changes).min(axis=2)
        after = np.maximum(after, above)
    after = after + (grid.zeros if step.left_bit else grid.ones)
    return after + grid.ones[:, 0] if step.right_bit else after

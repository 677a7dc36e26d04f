"""The privacy loss of an item under a guarantee that expires, as a function of the item's age.

Each release is a sum of noisy counts of dyadic intervals. Two streams that differ in one item give
the same releases if the noise of some intervals is shifted. Each shift has a cost: the privacy loss
that it causes. The loss of the item is the least total cost of such shifts, for the worst position
of the item.

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
# The releases so far have the law P(r) ~ exp(-r^T Sigma^-1 r / 2) Theta(r), where Theta sums
# exp(-(s - c(r))^T H (s - c(r)) / 2) over integer vectors s, the sums of the noise from a root down
# to each interval of level 1 and more; levels above those of the window may be taken as known. If
# Theta were constant, D_alpha(P moved by d || P) <= alpha d^T Sigma^-1 d / 2. With R = max Theta /
# min Theta the bound grows by alpha / (alpha - 1) ln R. Since D_alpha grows with alpha, for every
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

from counton.base.errors import InvalidInput
from counton.base.exact import float_above
from counton.base.expiry import Expiry, checked_age, checked_ages

Analysis = Literal["exact", "paper", "bound", "concentrated"]

_LEVELS = 66  # enough for windows of LARGEST_AGE positions

#: Functions of a label, as numbers or coefficients: shape (numbers, positions of the item).
Costs = NDArray[np.float64]

#: If more positions than this remain, costs are rounded up to a grid. Its step is _GRID times the
#: largest known cost, times the least power of 4 that leaves at most _MOST_POSITIONS.
_FEW_POSITIONS = 2**12
_GRID = 2.0**-17
_MOST_POSITIONS = 2**15

#: Integer noise: relative margin for the rounding of a few hundred floats and of many intervals.
_ROOM = 1e-9
#: Integer noise: the largest excess over the loss to continuous noise that is bounded here.
_MOST_EXCESS = 0.01


class Expires(Protocol):
    """A strategy whose guarantee weakens with the age of an item."""

    @property
    def expiry(self) -> Expiry:
        """Noise distribution of each level, and the steps until an item is first counted."""
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
        strategy: a strategy whose guarantee expires, such as `counton.strategies.Expiring`.
        ages: ages in steps, 0 or more.
        analysis: "exact", "paper" or "bound", in units of epsilon; "concentrated", in units
            of rho. "exact" is the least loss that can be proved; from growth 4 on it may be
            larger than needed, in all tests by at most a thousandth. "paper" adds up the
            dyadic intervals of the released positions. "bound" is the paper's closed form.
            "concentrated" is exact for continuous Gaussian noise; for integer noise see
            `ExpiringZCDP.at_age`.
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
        InvalidInput: not an expiring strategy, ages that are no collection of integers in 0..2^62,
            an unknown analysis, or a position that is below 1 or given with another analysis.
    """
    expiry = getattr(strategy, "expiry", None)
    if not isinstance(expiry, Expiry):
        raise InvalidInput(
            f"{strategy!r} gives a guarantee that does not expire, so its loss is equal at every "
            "age; use counton.strategies.Expiring"
        )
    if analysis not in get_args(Analysis):
        raise InvalidInput(f"analysis is {analysis!r}; give one of {', '.join(get_args(Analysis))}")
    checked = checked_ages(ages)
    if position is None:
        return np.array([loss_at(expiry, age, analysis) for age in checked], np.float64)
    if analysis not in ("exact", "concentrated") or checked_age(position) < 1:
        raise InvalidInput(
            f"position is {position!r} and analysis is {analysis!r}; a position is at least 1, and "
            "only the analyses 'exact' and 'concentrated' look at single positions"
        )
    kind, highest = _kind(expiry.growth, analysis), _highest(expiry)
    lengths = [max(age - expiry.delay + 1, 0) for age in checked]
    return np.array([cost_at(kind, position, length, highest) for length in lengths], np.float64)


@lru_cache(maxsize=2**16)
def loss_at(expiry: Expiry, age: int, analysis: Analysis) -> float:
    """Return `expiration_loss` at one age in steps; 0 if no release has counted the item."""
    length = age - expiry.delay + 1  # number of released positions from the item's on
    if length < 1:
        return 0.0
    top = _highest(expiry)
    if analysis in ("exact", "concentrated"):
        return worst_cost(_kind(expiry.growth, analysis), length, top)
    weights = _weights(expiry.growth)
    if analysis == "paper":
        return _greedy(weights, length, top)
    last = min(length.bit_length() - 1, top)
    many = 2 * math.fsum(weights[:last])
    return many + weights[last] * (2 if last < top else length >> top)


def loss_rounded_up(expiry: Expiry, age: int) -> Fraction:
    """Return the exact loss of `expiration_loss` at one age as a fraction, never below the true
    value.

    The relative rounding error of the computation, which adds a few hundred floats, is below 1e-12;
    the result is rounded up by as much.
    """
    loss = loss_at(expiry, age, "exact")
    integral = expiry.growth.denominator == 1 <= expiry.growth
    # Below 2^43 the search drops no position that is better by 1 or more.
    if age <= expiry.delay or (integral and loss < 2**43):
        return Fraction(loss)  # one interval, or sums of integers all the way: exact
    return _rounded_up(loss)


def smooth_loss(expiry: Expiry, length: int, highest: int) -> Fraction:
    """Return the largest privacy loss of an item that ``length`` releases have counted, under
    continuous Gaussian noise; rounded up.

    It is in units of rho. ``highest`` is the highest level of the strategy's dyadic intervals;
    intervals of level l have 2^l steps.
    """
    return _rounded_up(worst_cost(_kind(expiry.growth, "concentrated"), length, highest))


def _rounded_up(loss: float) -> Fraction:
    places = 12 - math.frexp(loss)[1] * 3 // 10  # about twelve significant digits, rounded up
    unit = Fraction(10**places if places >= 0 else Fraction(1, 10**-places))
    return math.ceil(Fraction(loss) * (1 + Fraction(1, 10**12)) * unit) / unit


@lru_cache(maxsize=256)
def _weights(growth: Fraction) -> list[float]:
    """Return, for each level of dyadic intervals, the privacy loss (epsilon) of an interval's noisy
    count if the count changes by 1.

    Intervals of level l have 2^l steps. The noise is Laplace noise, with scale 1 on level 0.
    """
    expiry = Expiry(growth)
    return [float(1 / expiry.factor(level)) for level in range(_LEVELS)]


@lru_cache(maxsize=256)
def _factors(growth: Fraction) -> list[float]:
    expiry = Expiry(growth)
    return [float(expiry.factor(level)) for level in range(_LEVELS)]


def _highest(expiry: Expiry) -> int:
    return _LEVELS - 1 if expiry.levels is None else expiry.top


@lru_cache(maxsize=256)
def _kind(growth: Fraction, analysis: Analysis) -> CostKind:
    if analysis == "exact":
        return AbsoluteCosts(_weights(growth))
    return QuadraticCosts(_factors(growth))


def _greedy(weights: list[float], length: int, top: int) -> float:
    """Return the largest total weight of the dyadic intervals that cover ``length`` steps.

    The cover has the fewest intervals. ``weights[level]`` is the weight of an interval, and ``top``
    the highest level. The maximum is over all first steps.
    """
    # At every level the first interval is taken into the cover if its number is odd, and the last
    # one if its number is even. The others form pairs, the intervals of the next level.
    costs = {length: 0.0}  # intervals of this level that remain: worst cost so far
    for level in range(top):
        following: dict[int, float] = {}
        for count, cost in costs.items():
            for left in (0, 1):
                ends = min(left + (count - left) % 2, count)
                rest = (count - ends) // 2
                worst = cost + ends * weights[level]
                following[rest] = max(following.get(rest, 0.0), worst)
        costs = following
    return max(cost + count * weights[top] for count, cost in costs.items())


def concentrated_loss(expiry: Expiry, rho: Fraction, age: int) -> Fraction:
    """Return the privacy loss (rho) of an item of this age under discrete Gaussian noise, rounded
    up.

    ``rho`` is the loss of an item that exactly one release has counted. The result is the lesser of
    two bounds, which comments at the beginning of this file prove under "Integer noise". If units
    may change more than one count by 1, the noise is wider, and the loss is no larger.

    >>> [float(concentrated_loss(Expiry(1), Fraction(rho), 10) / rho) for rho in (5, 0.01)]
    [4.0, 2.60173...]
    """
    whole = rho * loss_rounded_up(expiry, age)
    length = age - expiry.delay + 1
    if length < 2:
        return whole
    top = _top(expiry, length)
    log_ratio = _log_ratio(expiry, float_above(rho), length, top)
    if log_ratio is None:
        return whole
    loss = float_above(rho * smooth_loss(expiry, length, top))
    return min(whole, Fraction((math.sqrt(loss) + math.sqrt(log_ratio)) ** 2 * (1 + 1e-14)))


def is_wide(expiry: Expiry, rho: float, age: int) -> bool:
    """Return True if discrete Gaussian noise loses at most 1% more than continuous noise at this
    age.
    """
    length = age - expiry.delay + 1
    log_ratio = _log_ratio(expiry, rho, length, _top(expiry, length)) if length > 1 else 0.0
    return log_ratio is not None and log_ratio < 2e-5 * rho


def _top(expiry: Expiry, length: int) -> int:
    """Return the highest level of dyadic intervals that can lower the privacy loss for the worst
    position of the item.
    """
    return min(expiry.top, length.bit_length() + 1)


def _log_ratio(expiry: Expiry, rho: float, length: int, top: int) -> float | None:
    """Bound how much more privacy discrete Gaussian noise may lose than continuous noise.

    The bound is on ln R: if continuous noise loses x (rho), discrete noise loses at most
    (sqrt(x) + sqrt(ln R))^2. The comment "Integer noise" at the beginning of this file proves it.
    ``length`` is the number of released steps, ``top`` the highest level of dyadic intervals. None:
    the noise is too narrow for this bound.
    """
    precision = [2 * rho / factor for factor in _factors(expiry.growth)[: top + 1]]
    excess = 0.0
    for level in range(1, top + 1):
        term = math.exp(-(math.pi**2) / (precision[level] + 2 * precision[level - 1]) * (1 - _ROOM))
        # The number of intervals of a level is at most twice the number in four windows.
        excess += 2.0 ** max(length.bit_length() + 3 - level, 0) * 4 * term  # 1 / (1 - term) < 2
        if excess > _MOST_EXCESS:
            return None
    return 3 * excess  # ln (1 + S) / (1 - S), S <= e^excess - 1


class AbsoluteCosts:
    """Costs of hiding an item by shifts of the Laplace noise of dyadic intervals: |shift| times the
    weight of the level.

    Two streams that differ in one item give equal releases if the noise of some intervals is
    shifted: the shifts of all intervals that contain a released position must add up to 1 from the
    item on, and to 0 before it. The cost is the privacy loss that the shifts cause.

    The label of an interval is the sum of its own shift and the shifts of all intervals that
    contain it. An interval has two costs: one for the case that its parent has label 0, one for
    label 1. Arrays of costs have shape (2, positions of the item).

    Attributes:
        labels: labels at which costs are compared to rule out positions of the item: 0 and
            1.
        whole: for each level, the least cost of adding 1 to all positions in an interval.
    """

    # A linear program over a laminar family has an integral optimum, so other labels are never
    # needed. Its value is exactly the pure loss, attained far out in the direction of the shift.

    def __init__(self, weights: list[float]) -> None:
        self.labels = np.array([0.0, 1.0])
        self._weights = weights
        self.whole = [weights[0]]
        for weight in weights[1:]:
            self.whole.append(min(weight, 2 * self.whole[-1]))

    def costs_given(self, level: int, label: float) -> Costs:
        """Return the cost of shifting one interval's noise so that the interval gets the label
        ``label``, for each label of its parent: shape (2, 1).

        A label is the sum of the shifts of an interval and of all intervals that contain it. So the
        cost is |parent's label - label| times the weight of the level.
        """
        return self._weights[level] * np.abs(self.labels - label)[:, None]

    def uniform(self, level: int, ones: bool) -> Costs:
        """Return the least cost of shifts within an interval if all its positions need the same
        total shift: 1 if ``ones``, else 0.

        The two costs, of shape (2, 1), are for the total shifts 0 and 1 that the larger intervals
        already give. The cost is 0 if no further shift is needed.
        """
        return self.whole[level] * np.array([[ones], [not ones]], np.float64)

    def up(self, costs: Costs, level: int) -> Costs:
        """Convert costs by an interval's own label to costs by its parent's label.

        A label is the sum of the shifts of an interval and of all intervals that contain it. The
        interval keeps its parent's label, 0 or 1, at no cost, or changes to the other label at the
        cost of its level's weight.
        """
        kept: Costs = np.minimum(costs, self._weights[level] + costs[::-1])
        return kept

    def at_labels(self, costs: Costs) -> Costs:
        """Return the costs of an interval for the labels 0 and 1 of its parent: shape (labels,
        positions).

        A label is the sum of the shifts of an interval and of all intervals that contain it.
        """
        return costs

    def rounded_up(self, costs: Costs, grid: float) -> Costs:
        """Round costs, the privacy losses that shifts cause, up to multiples of ``grid``."""
        # Minima over labels then rise by at most ``grid``.
        above: Costs = np.ceil(costs / grid) * grid
        return above

    def at_zero(self, costs: Costs) -> Costs:
        """Return the privacy losses of an interval that lies within no other interval of the tree:
        shape (positions,), one for each possible position of the item.

        ``costs`` has the losses for the labels 0 and 1 of the parent interval: shape (2,
        positions). The label is the sum of the shifts of noise of the parent and of all intervals
        that contain it. This interval has no parent, so nothing is shifted around it, and the
        losses for the label 0 are returned.
        """
        value: Costs = costs[0]
        return value


class QuadraticCosts:
    """Costs of hiding an item by shifts of the Gaussian noise of dyadic intervals: shift^2 /
    variance of the level.

    Two streams that differ in one item give equal releases if the noise of some intervals is
    shifted: the shifts of all intervals that contain a released position must add up to 1 from the
    item on, and to 0 before it. The cost is the privacy loss that the shifts cause.

    An interval's cost is a x^2 - 2 b x + c, where x is its parent's label: the sum of the shifts of
    the parent and of all intervals that contain it. Arrays hold a, b and c, shape (3, positions).
    ``labels`` has the five labels at which costs are compared to rule out positions of the item.
    ``whole`` has, for each level, the factor of the least cost of adding 1 to all positions in an
    interval.
    """

    # The least sum of costs over all shifts is 1^T Sigma^-1 1, where Sigma is the covariance of the
    # releases from the item on, given the earlier releases.

    def __init__(self, variances: list[float]) -> None:
        self.labels = np.linspace(0, 1, 5)
        self._variances = variances
        self.whole = [1 / variances[0]]
        for variance in variances[1:]:
            both = 2 * self.whole[-1]
            self.whole.append(both / (1 + variance * both))

    def costs_given(self, level: int, label: float) -> Costs:
        """Return the cost of shifting one interval's noise so that the interval gets the label
        ``label``, as coefficients of shape (3, 1).

        A label is the sum of the shifts of an interval and of all intervals that contain it. So the
        cost is (parent's label - label)^2 / variance of the level.
        """
        return np.array([[1.0], [label], [label**2]]) / self._variances[level]

    def uniform(self, level: int, ones: bool) -> Costs:
        """Return the least cost of shifts within an interval if all its positions need the same
        total shift: 1 if ``ones``, else 0.

        It has coefficients of shape (3, 1), as a function of the total shift x that the larger
        intervals already give: (x - needed shift)^2 times ``whole[level]``.
        """
        return self.whole[level] * np.array([[1.0], [ones], [ones]])

    def up(self, costs: Costs, level: int) -> Costs:
        """Convert costs by an interval's own label to costs by its parent's label; the interval
        takes the label of least cost.

        A label is the sum of the shifts of an interval and of all intervals that contain it.
        """
        square, linear, constant = costs
        variance = self._variances[level]
        shrink = 1 + variance * square
        less = variance * linear**2 / shrink
        return np.array([square / shrink, linear / shrink, constant - less])

    def rounded_up(self, costs: Costs, grid: float) -> Costs:
        """Round coefficients of costs to multiples of ``grid``, so that no cost falls for labels in
        [0, 1].
        """
        # 0 <= b <= a is kept, so that the best labels lie in [0, 1].
        square, linear, constant = costs / grid
        return grid * np.array([np.ceil(square), np.floor(linear), np.ceil(constant)])

    def at_labels(self, costs: Costs) -> Costs:
        """Return the costs of an interval for each of ``labels`` as its parent's label: shape
        (labels, positions).

        A label is the sum of the shifts of an interval and of all intervals that contain it.
        """
        x = self.labels[:, None]
        values: Costs = costs[0] * x**2 - 2 * costs[1] * x + costs[2]
        return values

    def at_zero(self, costs: Costs) -> Costs:
        """Return the privacy losses of an interval that lies within no other interval of the tree:
        shape (positions,), one for each possible position of the item.

        ``costs`` has the coefficients a, b and c of the losses a x^2 - 2 b x + c: shape (3,
        positions). Here x is the label of the parent interval: the sum of the shifts of noise of
        the parent and of all intervals that contain it. This interval has no parent, so nothing is
        shifted around it: x is 0, and c is returned.
        """
        value: Costs = costs[2]
        return value


CostKind = AbsoluteCosts | QuadraticCosts


class _EndCosts(NamedTuple):
    """Costs of shifting the noise of two dyadic intervals of one level: the interval that holds the
    first position of a window, and the interval that holds its last position.

    The window consists of the released positions from an item on. Arrays have a column for each
    possible place of the window in the stream. Places that cannot have the largest cost are left
    out.
    """

    left: Costs
    right: Costs


class _Step(NamedTuple):
    """A step up one level of dyadic intervals, in the search for the time step at which an item
    loses most.

    Two intervals hold the first and the last position of a window of released positions; the step
    goes from them to their parents. ``left_bit`` and ``right_bit`` are 1 if the interval is the
    right child of its parent. ``carry`` is the carry bit when the window's length minus 1 is added
    to its first position.
    """

    left_bit: int
    right_bit: int
    carry: int


class _Window:
    """A window of ``length`` consecutive positions, and where its two ends can lie at each level of
    dyadic intervals.
    """

    def __init__(self, length: int, highest: int) -> None:
        self._last = length - 1
        #: Highest level in use: all its intervals are roots.
        self.highest = highest
        #: From this level on both ends lie in one interval or in two neighbours.
        self.top = min(highest, self._last.bit_length())

    def distance(self, level: int, carry: int) -> int:
        """Return the number of the interval that holds the window's last position, minus the number
        of the interval that holds its first position.

        Intervals of ``level`` are numbered in order. ``carry`` is 1 if the lowest ``level`` bits of
        the first position and of ``length`` - 1 overflow when they are added, else 0.
        """
        return (self._last >> level) + carry

    def steps(self, level: int, carry: int) -> list[_Step]:
        """Return the possible moves from ``level`` to the next higher level after which both ends
        of the window lie in different intervals.
        """
        if level >= self.top:
            return []
        ways = []
        for bit in (0, 1):
            if bit == 0 and self.distance(level, carry) == 1:
                continue  # siblings: both ends meet in the parent
            total = bit + (self._last >> level & 1) + carry
            ways.append(_Step(bit, total & 1, total >> 1))
        return ways


def worst_cost(kind: CostKind, length: int, highest: int) -> float:
    """Return the privacy loss of one item at the worst position: the least cost of shifts of noise
    that hide the item.

    The shifts hide the item if they change the sums at the ``length`` >= 1 released positions from
    the item on by 1, and leave the sums at earlier positions unchanged.

    Args:
        kind: the costs of shifting the noise of intervals.
        length: number of released positions from the item on.
        highest: highest level of intervals in use.

    Returns:
        The largest cost over all positions of the item; slightly more only if the search had to
            round.
    """
    leaf = kind.costs_given(0, 1.0)
    if length == 1:
        return float(kind.at_zero(leaf)[0])
    window = _Window(length, highest)
    bounds = _bounds(kind, window)
    best = 0.0
    alive: dict[int, _EndCosts] = {0: _EndCosts(leaf, leaf)}
    for level in range(window.top + 1):
        following: dict[int, list[_EndCosts]] = {0: [], 1: []}
        for carry, ends in alive.items():
            best = max(best, _largest_cost(kind, window, level, carry, ends))
        for carry, ends in alive.items():
            kept = _keep_promising(kind, bounds.get((level, carry)), ends, best)
            if kept.left.shape[1] > _FEW_POSITIONS:
                kept = _round_to_grid(kind, kept, best)
            for step in window.steps(level, carry) if kept.left.shape[1] else ():
                following[step.carry].append(_climb(kind, level, step, kept))
        alive = {
            carry: _EndCosts(*(np.concatenate(sides, axis=1) for sides in zip(*parts, strict=True)))
            for carry, parts in following.items()
            if parts
        }
    return best


def cost_at(kind: CostKind, position: int, length: int, highest: int) -> float:
    """Return the privacy loss of the item at ``position``: the least cost of shifts of noise that
    hide the item.

    The shifts change the sums at the ``length`` released positions from ``position`` on by 1, and
    leave the sums at earlier positions unchanged. The first position is 1. ``highest`` is the
    highest level of intervals.
    """
    last = position + length - 1
    total, start = 0.0, position
    while start <= last:
        level = min(start.bit_length() - 1, highest)  # the level of the tree that holds ``start``
        number = start >> level
        total += float(kind.at_zero(_subtree(kind, level, number, position, last))[0])
        start = number + 1 << level
    return total


def _subtree(kind: CostKind, level: int, number: int, first: int, last: int) -> Costs:
    """Return the least cost of shifts of noise within interval ``number`` of a level, as a function
    of the label of the interval's parent.

    The label is the sum of the shifts of the parent and of all intervals that contain the parent.
    Together with this label, the shifts must add 1 at the positions ``first`` to ``last``, and 0 at
    earlier positions.
    """
    low, high = number << level, (number + 1 << level) - 1
    if low > last:
        return 0 * kind.uniform(level, ones=True)
    if high < first or (first <= low and high <= last):
        return kind.uniform(level, ones=high >= first)
    left, right = (_subtree(kind, level - 1, 2 * number + half, first, last) for half in (0, 1))
    return kind.up(left + right, level)


def _climb(kind: CostKind, level: int, step: _Step, ends: _EndCosts) -> _EndCosts:
    """Add the costs of one more level of dyadic intervals: from the intervals at the ends of a
    window to their parents.

    The costs of a parent include the costs of both its children. A sibling after the window costs
    nothing.
    """
    left = ends.left + kind.uniform(level, ones=step.left_bit == 0)
    right = ends.right
    if step.right_bit:  # else the sibling is not released yet: any label, at no cost
        right = right + kind.uniform(level, ones=True)
    return _EndCosts(kind.up(left, level + 1), kind.up(right, level + 1))


def _largest_cost(
    kind: CostKind, window: _Window, level: int, carry: int, ends: _EndCosts
) -> float:
    """Return the largest cost of hiding an item, over all places of a window for which the search
    ends at this level.

    The window has the released positions from the item on. The interval of this level that holds
    the window's first position is called the left interval. The search ends where no larger
    interval in use contains the left interval. If the interval after the left interval holds the
    window's last position, the parent of these two intervals is also tried.
    """
    right = _to_root(kind, window, level, carry, ends.right)
    largest = np.max(kind.at_zero(ends.left) + right)
    if window.distance(level, carry) == 1 and level < window.highest:
        met = kind.up(ends.left + ends.right, level + 1)
        largest = max(largest, np.max(kind.at_zero(met)))
    return float(largest)


def _to_root(
    kind: CostKind, window: _Window, level: int, carry: int, right: Costs
) -> NDArray[np.float64]:
    """Return the part of the cost of hiding an item that falls on all trees of dyadic intervals but
    the first: shape (places,).

    The item is hidden in a window, the released positions from the item on, and there is one cost
    for each place of the window in the stream. The first tree holds the window's first position and
    has its root at ``level``. The other trees lie between both ends of the window, or hold its last
    position.

    Args:
        carry: carry bit of the last `_Step`.
        right: costs of the interval with the last position, up to ``level``.
    """
    number = 1 + window.distance(level, carry)  # the left end being the first of its level
    root = level
    while number > 1 and root < window.highest:
        if number & 1:
            right = right + kind.uniform(root, ones=True)
        number, root = number >> 1, root + 1
        right = kind.up(right, root)
    between = sum(kind.whole[level + 1 : root])
    if number > 1:  # all intervals of the highest level are roots
        between += (number - (2 if root == level else 1)) * kind.whole[root]
    return kind.at_zero(right) + between


def _keep_promising(
    kind: CostKind, bound: NDArray[np.float64] | None, ends: _EndCosts, best: float
) -> _EndCosts:
    """Keep only the places of the window in the stream whose cost may be above ``best``, the
    largest cost that was found so far.
    """
    if bound is None:
        return _EndCosts(ends.left[:, :0], ends.right[:, :0])
    left, right = kind.at_labels(ends.left), kind.at_labels(ends.right)
    highest = np.full(left.shape[1], np.inf)
    for i, j in itertools.product(range(len(left)), repeat=2):
        np.minimum(highest, left[i] + right[j] + bound[i, j], out=highest)
    keep = highest > best * (1 + 1e-13)
    return _EndCosts(ends.left[:, keep], ends.right[:, keep])


def _round_to_grid(kind: CostKind, ends: _EndCosts, best: float) -> _EndCosts:
    """Round costs up to a grid. Then merge places of the window in the stream whose costs have
    become equal.
    """
    grid = _GRID * 2.0 ** math.frexp(best)[1]  # a power of two keeps sums exact
    while True:
        left, right = kind.rounded_up(ends.left, grid), kind.rounded_up(ends.right, grid)
        both = np.unique(np.concatenate([left, right]), axis=1)
        if both.shape[1] <= _MOST_POSITIONS:
            return _EndCosts(both[: len(left)], both[len(left) :])
        grid *= 4


def _bounds(kind: CostKind, window: _Window) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Return upper bounds on the cost of hiding an item that the intervals above a level add.

    There is an array for each pair (level, carry). The bounds are for windows of released positions
    whose ends lie in different intervals of the level. Entry (i, j) of an array is for label i of
    the parent of the left end's interval, and label j of the parent of the right end's interval.
    """
    bounds: dict[tuple[int, int], NDArray[np.float64]] = {}
    for level in reversed(range(min(window.top + 1, window.highest))):
        # One column for each label of the parent, so that all of them climb together.
        fixed = np.hstack([kind.costs_given(level + 1, label) for label in kind.labels])
        moves = kind.at_labels(fixed).T
        root = kind.at_zero(fixed)
        ones = kind.at_labels(kind.uniform(level, ones=True))
        zeros = kind.at_labels(kind.uniform(level, ones=False))
        for carry in (0, 1):
            found = []
            for step in window.steps(level, carry) if window.distance(level, carry) else ():
                after = root[:, None] + _to_root(kind, window, level + 1, step.carry, fixed)
                if (level + 1, step.carry) in bounds:
                    above = bounds[level + 1, step.carry]
                    above = (moves[:, :, None] + above).min(axis=1)
                    above = (above[:, None, :] + moves).min(axis=2)
                    after = np.maximum(after, above)
                after = after + (zeros if step.left_bit else ones)
                found.append(after + ones.T if step.right_bit else after)
            if window.distance(level, carry) == 1:
                met = np.full((len(root), len(root)), np.inf)
                np.fill_diagonal(met, root)
                found.append(met)
            if found:
                bounds[level, carry] = np.max(found, axis=0)
    return bounds

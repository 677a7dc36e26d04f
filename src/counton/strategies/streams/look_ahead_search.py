"""Local search for the radices and weights of `LookAhead` with the least error.

The error is the mean variance over all steps, from moments, or the largest, by branch and bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from counton.strategies.strategy import Metric, Norm, ReleaseForm
from counton.strategies.streams.subtrees import Subtrees, depths_of

#: Weights in the search are multiples of 2^-8 of the weight of single steps.
WEIGHT_BITS = 8


def mean_variance(horizon: int, radices: Sequence[int], weights: Sequence[float]) -> float:
    """Return the mean variance of a tree `LookAhead`, in units of one node's noise variance.

    Radices begin with the lowest level, weights with single steps.
    """
    # It is computed from means over steps. The fraction p of a node's estimate that is in a release
    # is linear in that of its child. So the means of p and of p^2 over the steps of a complete
    # node, and of the last node, follow from those one level down.
    # Number of nodes; number of steps of a complete node, and of the last one.
    count = horizon
    width = 1
    rest = 1
    variance = tail = 1 / weights[0] ** 2
    estimates = [(variance, tail)]  # by depth
    # For the last node: means of p, of p^2, and of the variance so far.
    first_moment = 1.0
    second_moment = 1.0
    gathered = 0.0
    whole = 0.0  # for complete nodes: the mean of the variance so far
    for radix, weight, depth in zip(radices, weights[1:], depths_of(radices)[1:], strict=True):
        last = count - (-(-count // radix) - 1) * radix
        count = -(-count // radix)
        share, mean, mean_square = _moments(
            last, variance, tail, width, rest, first_moment, second_moment
        )
        spread = radix * variance
        spread_of_last = (last - 1) * variance + tail
        square = weight**2
        estimates = [(1 / square, 1 / square)] + [
            (1 / (square + 1 / (radix * a)), 1 / (square + 1 / ((last - 1) * a + b)))
            for a, b in estimates[:depth]
        ]
        variance, tail = estimates[depth]
        first_moment = mean / spread_of_last
        second_moment = mean_square / spread_of_last**2
        gathered = (
            share * gathered
            + (1 - share) * whole
            + (spread_of_last - tail) * (first_moment - second_moment)
        )
        rest = rest + (last - 1) * width
        width = width * radix
        whole += (spread - variance) * ((width + 1) * (width - 1) / (6 * width * width))
    share, mean, _ = _moments(count, variance, tail, width, rest, first_moment, second_moment)
    return mean + share * gathered + (1 - share) * whole


def _moments(
    count: int,
    variance: float,
    tail: float,
    width: int,
    rest: int,
    first_moment: float,
    second_moment: float,
) -> tuple[float, float, float]:
    """Return the part of a node's steps in its last child, and the means of v and v^2.

    v is what the node's children add to the release at a step: each p times the variance of its
    estimate, where p is 1 if the step is after the child, 0 before, between inside. All but the
    last are complete.

    Args:
        count: number of children.
        variance, tail: variances of the estimates of a complete, and of the last child.
        width, rest: numbers of steps of a complete, and of the last child.
        first_moment, second_moment: means of p and p^2 of the last child over its steps.
    """
    share = rest / (rest + (count - 1) * width)
    p = (width + 1) / (2 * width)
    pp = (width + 1) * (2 * width + 1) / (6 * width * width)
    mean_before = (count - 2) / 2
    first = variance * (mean_before + p)
    second = variance**2 * ((count - 2) * (2 * count - 3) / 6 + 2 * mean_before * p + pp)
    all_left = variance * (count - 1)
    first_of_last = all_left + tail * first_moment
    second_of_last = all_left**2 + 2 * all_left * tail * first_moment + tail**2 * second_moment
    return (
        share,
        share * first_of_last + (1 - share) * first,
        share * second_of_last + (1 - share) * second,
    )


def largest_variance(trees: Subtrees) -> float:
    """Return the largest variance over all steps, in units of one node's noise variance."""
    # What the levels above a node add is a concave function of the fraction of its estimate that is
    # in the release. The most that the levels below add is known from smaller trees.
    return _Peaks(trees).largest()


#: The coefficients a, b, c of a + b p + c p^2.
_Parabola = tuple[float, float, float]
_FLAT: _Parabola = (0.0, 0.0, 0.0)


class _Peaks:
    """Branch and bound for the largest variance over the steps of a tree `LookAhead`."""

    # Proof that the result is the largest variance. Let p_l be the fraction of the estimate of the
    # level-l node around a step that is in the release. The variance is the sum over levels of
    # excess_l p_l (1 - p_l), plus, on the highest level, the variance of earlier nodes and p_l
    # times the node's own. p_l is linear in p_{l-1}, so the node of level l and those above it add
    # a parabola in p_l, and each step of the recursion (`_climb`) moves it one level down exactly.
    # At a single step p_0 = 1, where the parabola is the variance of a release. So no result is too
    # large. A child is left out for one of two reasons:
    #
    # - Its bound is not above the best. The bound is the maximum of its parabola for p from 0 to 1,
    #   plus the most that lower levels add. For complete nodes this most is exact, by induction: at
    #   the last step below such a node all p are 1, so they add the 0 from which the search begins.
    #   For the last node p (1 - p) lies between 0 and 1/4, so its excess adds at most a quarter if
    #   it is positive, and 0 if not.
    # - A complete child nearer to the middle is left out, and the parent's parabola has c <= 0. It
    #   falls on both sides of its highest point, which is in the middle child or beyond the end.
    #   So at every p a farther child's parabola is at most that of a nearer one, and so is its
    #   bound.
    #
    # With c > 0 the parabola rises to both ends, and every child's bound is computed. That happens:
    # an excess is negative where the estimate of a node uses fewer levels than those of its
    # children, and the node's weight is small.

    def __init__(self, trees: Subtrees) -> None:
        self._trees = trees
        self._variances_by_level = [tuple(map(float, both)) for both in trees.variances]
        self._spread = [(0.0, 0.0), *(tuple(map(float, both)) for both in trees.spreads)]
        self._excess = [(0.0, 0.0)] + [
            (spread[0] - variances[0], spread[1] - variances[1])
            for variances, spread in zip(
                self._variances_by_level[1:], self._spread[1:], strict=True
            )
        ]
        #: For each level, the most that a node and the nodes below it add to the variance: for
        #: complete nodes, and for the last one.
        self._most = [(0.0, 0.0)]
        for level in range(1, len(self._variances_by_level)):
            whole = self._climb(level, self._arch(_FLAT, level, last=False), best=0.0, last=False)
            last = max(self._excess[level][1], 0.0) / 4 + max(self._most[-1])
            self._most.append((whole, last))

    def largest(self) -> float:
        # It is in the last complete node of the highest level, or in the last node, which may be
        # incomplete.
        top = self._trees.top
        count = self._trees.counts[top]
        variance, tail = self._variances_by_level[top]
        best = 0.0
        if count > 1:
            rises = self._arch((variance * (count - 2), variance, 0.0), top, last=False)
            best = self._climb(top, rises, best=best, last=False)
        rises = self._arch((variance * (count - 1), tail, 0.0), top, last=True)
        return self._climb(top, rises, best=best, last=True)

    def _arch(self, above: _Parabola, level: int, *, last: bool) -> _Parabola:
        """Return (a, b, c): with its part p in a release, all from the node up add a + b p + c
        p^2.
        """
        excess = self._excess[level][last]
        return above[0], above[1] + excess, above[2] - excess

    def _climb(self, level: int, arch: _Parabola, *, best: float, last: bool) -> float:
        """Return the larger of ``best`` and the largest variance below a node of ``level``."""
        if level == 0:
            return max(best, sum(arch))
        count = self._trees.children[level - 1][last]
        variance, tail = self._variances_by_level[level - 1]
        spread = self._spread[level][last]
        under = self._most[level - 2][0] if level > 1 else 0.0
        a, b, c = arch

        def child(number: int, *, is_last: bool) -> tuple[_Parabola, float]:
            start = number * variance / spread
            slope = (tail if is_last else variance) / spread
            moved = a + start * (b + start * c), slope * (b + 2 * c * start), c * slope**2
            moved = self._arch(moved, level - 1, last=is_last)
            most = max(under, self._most[level - 2][1]) if is_last and level > 1 else under
            return moved, _top_of(moved) + most

        wholes = count - last
        middle = 0
        if c < 0:
            middle = int(min(max(-b / (2 * c), 0.0), 1.0) * spread / variance)
        elif b > 0:
            middle = wholes - 1
        middle = min(middle, wholes - 1)
        for steps in (range(max(middle, 0), wholes), range(middle - 1, -1, -1)):
            for number in steps:
                moved, bound = child(number, is_last=False)
                if _is_above(bound, best):
                    best = self._climb(level - 1, moved, best=best, last=False)
                elif number != middle and c <= 0:
                    break
        if last:
            moved, bound = child(count - 1, is_last=True)
            if _is_above(bound, best):
                best = self._climb(level - 1, moved, best=best, last=True)
        return best


def _is_above(bound: float, best: float) -> bool:
    """Return whether a bound is above the largest variance so far by more than rounding."""
    return bound > best * (1 + 1e-15)


def _top_of(parabola: _Parabola) -> float:
    """Return the maximum of the parabola a + b p + c p^2 over 0 <= p <= 1."""
    a, b, c = parabola
    ends = max(a, a + b + c)
    if c < 0 and 0 < b < -2 * c:
        return max(ends, a - b * b / (4 * c))
    return ends


class _WeightedTree(NamedTuple):
    """A tree, and its error, by which trees are compared."""

    error: float
    radices: tuple[int, ...]
    weights: tuple[float, ...]


class _RadixChange(NamedTuple):
    """A change of one of several radices, which differ by at most one, by 1 or -1."""

    levels: range
    step: int


#: Radices with which the search begins, by norm; for Laplace noise (norm 1) levels add more to the
#: sensitivity, so few levels are better.
_FIRST_RADICES: dict[int, tuple[int, ...]] = {1: (11, 12, 13, 14, 16, 18), 2: (2, 3, 4, 6)}
#: Integer weights for the least maximum are refined if the tree has at most this many levels above
#: the steps.
_MOST_REFINED_LEVELS = 3
#: Least real weight of a level in a search: levels that a release hardly reads would end at 0.
_LEAST_WEIGHT = 1e-6
#: The search does not continue from trees whose error is above the best by more than this factor.
_LARGEST_ERROR_RATIO = 1.03


class ShapeQuestion(NamedTuple):
    """A horizon, an error and a contribution bound, for which a search finds the best tree."""

    horizon: int
    norm: Norm
    metric: Metric
    release: ReleaseForm = "totals"
    steps: int = 1
    apart: int = 1


@lru_cache(maxsize=256)
def best_shape(question: ShapeQuestion) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the radices and integer weights of `LookAhead` of the least error found.

    The search uses sums, products, quotients, square roots and comparisons alone: its result is
    equal on every machine.
    """
    search = _Search(question)
    best = search.improve_weights((), (1.0,), rounds=1)
    begin = []
    for radix in _FIRST_RADICES[question.norm]:
        levels = 1
        while search.fits((radix,) * levels):
            begin.append(search.improve_weights((radix,) * levels, (1.0,) * (levels + 1), rounds=6))
            levels += 1
    begin.sort()
    for start in begin:
        if start.error <= _LARGEST_ERROR_RATIO * best.error or start is begin[0]:
            best = min(best, search.nearby(start))
    unit = 2**WEIGHT_BITS / best.weights[0]
    integers = [max(1, math.floor(weight * unit + 0.5)) for weight in best.weights]
    return best.radices, search.polish(best.radices, integers)


class _Search:
    """Local search for the radices of a tree, with the best weights for each."""

    def __init__(self, question: ShapeQuestion) -> None:
        self._question = question
        self._horizon = question.horizon
        self._norm = question.norm
        self._metric = question.metric

    def nearby(self, best: _WeightedTree) -> _WeightedTree:
        """Return the best tree that changes of radices by one reach from ``best``."""
        changes = _radix_changes(len(best.radices))
        is_moving = True
        while is_moving:
            is_moving = False
            for together in changes:
                better = self._repeat(together, best)
                is_moving = is_moving or better is not best
                best = better
        return self.improve_weights(best.radices, best.weights, rounds=8)

    def _repeat(self, changes: Sequence[_RadixChange], best: _WeightedTree) -> _WeightedTree:
        """Return the tree after some changes, repeated together while the error falls."""
        while True:
            radices = _changed(best.radices, changes)
            if min(radices) < 2 or not self.fits(radices):
                return best
            candidate = self.improve_weights(radices, best.weights, rounds=4)
            if not candidate.error < best.error * (1 - 1e-9):
                return best
            best = candidate

    def fits(self, radices: Sequence[int]) -> bool:
        """Return whether no radix of the highest level could be one less for the horizon."""
        return math.prod(radices[:-1]) * (radices[-1] - 1) < self._horizon

    def polish(self, radices: tuple[int, ...], weights: list[int]) -> tuple[int, ...]:
        """Improve integer weights of the levels one at a time, by steps of 16, 4 and 1.

        The search begins at ``weights``, which are overwritten; that of level 0 stays. For the
        largest variance, weights of trees of more than three levels above single steps, and of
        windows, are unchanged.
        """
        if self._metric == "max" and (
            len(radices) > _MOST_REFINED_LEVELS or self._question.release == "windows"
        ):
            return tuple(weights)

        def error() -> float:
            if self._metric == "mean":
                return self._error(radices, weights)
            size = self._size(self._costs(radices), weights)
            return size * largest_variance(Subtrees(self._horizon, radices, weights))

        least = error()
        for step, level in product((16, 4, 1, -16, -4, -1, 1, -1), range(1, len(weights))):
            while True:
                weights[level] += step
                candidate_error = error() if weights[level] > 0 else math.inf
                if not candidate_error < least:
                    break
                least = candidate_error
            weights[level] -= step
        return tuple(weights)

    def improve_weights(
        self, radices: tuple[int, ...], weights: tuple[float, ...], rounds: int
    ) -> _WeightedTree:
        """Improve real weights in ``rounds`` rounds; return error, radices and weights."""
        # At the best weights the product of w_l^(2 - norm) and the derivative of the error by w_l^2
        # is equal at every level; scaling each weight by the product's fourth root comes closer to
        # that.
        loads = self._loads(radices)
        costs = self._costs(radices)
        improved = list(weights)
        depths = depths_of(radices)
        for _ in range(rounds):
            terms = [
                load * variance**2
                for load, variance in zip(loads, _variances(radices, improved), strict=True)
            ]
            gains = list(terms)
            for level, depth in enumerate(depths):
                gain = terms[level]
                for down in range(level - 1, level - 1 - depth, -1):
                    gain /= radices[down]
                    gains[down] += gain
            if self._norm == 1:
                gains = [gain * weight for gain, weight in zip(gains, improved, strict=True)]
            gains = [gain / cost for gain, cost in zip(gains, costs, strict=True)]
            improved = [
                max(weight * math.sqrt(math.sqrt(gain / gains[0])), _LEAST_WEIGHT)
                for weight, gain in zip(improved, gains, strict=True)
            ]
        return _WeightedTree(self._error(radices, improved), radices, tuple(improved))

    def _error(self, radices: tuple[int, ...], weights: Sequence[float]) -> float:
        """Return variance times squared sensitivity, up to a factor; the largest as a bound."""
        size = self._size(self._costs(radices), weights)
        release = self._question.release
        if self._metric == "mean" and release == "totals":
            return size * mean_variance(self._horizon, radices, weights)
        variances = _variances(radices, weights)
        alone = sum(
            load * variance for load, variance in zip(_alone(radices), variances, strict=True)
        )
        if release == "windows":
            return size * alone
        if self._metric == "mean":
            return size * (alone + mean_variance(self._horizon, radices, weights)) / 2
        arches = sum(k * variances[i] - variances[i + 1] for i, k in enumerate(radices))
        totals = arches / 4 + variances[-1] * max(self._horizon / math.prod(radices), 1.0)
        return size * (totals if release == "totals" else max(totals, alone))

    def _size(self, costs: Sequence[float], weights: Sequence[float]) -> float:
        """Return the squared sensitivity to one unit, up to a factor, from the `_costs`."""
        norm = self._norm
        moved = sum(cost * weight**norm for cost, weight in zip(costs, weights, strict=True))
        return float(moved ** (3 - norm))

    def _costs(self, radices: Sequence[int]) -> list[float]:
        """Return, by level, how much a weight of 1 adds to a unit's norm, up to a factor."""
        # For the squared 2-norm it is the largest sum over nodes of the squared number of a unit's
        # steps in the node, divided by the number of steps.
        steps = self._question.steps
        width = 1
        costs = [1.0]
        for radix in radices:
            width *= radix
            together = min(steps, -(-width // self._question.apart))
            full, rest = divmod(steps, together)
            costs.append((full * together**2 + rest**2) / steps if self._norm == 2 else 1.0)
        return costs

    def _loads(self, radices: tuple[int, ...]) -> list[float]:
        """Return, by level, the factor of the variance of a node's estimate in the error."""
        width = 1
        over = [0.0]
        largest = self._metric == "max"
        release = self._question.release
        for radix in radices:
            width *= radix
            over.append(0.25 if largest else (width + 1) * (width - 1) / (6 * width * width))
        at_top = self._horizon if largest else (self._horizon + 1) / 2
        over.append(max(at_top / width, 1.0 if largest else 0.5))
        totals = [k * over[i + 1] - over[i] for i, k in enumerate((*radices, 1))]
        alone = _alone(radices)
        if release == "windows":
            return alone
        if release == "totals" or largest:
            return totals
        return [(a + b) / 2 for a, b in zip(totals, alone, strict=True)]


def _radix_changes(n_levels: int) -> list[tuple[_RadixChange, ...]]:
    """Return the changes that a search makes together: one change, or two in different radices.

    The radix of the lowest level, that of the highest, and those of all levels in between are
    changed separately.
    """
    groups = [range(1)]
    if n_levels > 1:
        groups.append(range(n_levels - 1, n_levels))
    if n_levels > 2:
        groups.append(range(1, n_levels - 1))
    singles = [_RadixChange(levels, step) for levels in groups for step in (1, -1)]
    pairs = [
        (first, second)
        for number, first in enumerate(singles)
        for second in singles[number + 1 :]
        if first.levels != second.levels
    ]
    return [*((single,) for single in singles), *pairs]


def _changed(radices: Sequence[int], changes: Sequence[_RadixChange]) -> tuple[int, ...]:
    """Return radices after some changes, each of which keeps the radices of its levels alike."""
    changed = list(radices)
    for levels, step in changes:
        values = [changed[level] for level in levels]
        extreme = min(values) if step > 0 else max(values)
        changed[levels[values.index(extreme)]] += step
    return tuple(changed)


def _alone(radices: Sequence[int]) -> list[float]:
    """Return, by level, the factor of that variance in the count of a single step."""
    loads = []
    share_left = 1.0
    for radix in radices:
        loads.append(share_left * (1 - 1 / radix))
        share_left /= radix * radix
    return [*loads, share_left]


def _variances(radices: Sequence[int], weights: Sequence[float]) -> list[float]:
    """Return, by level, the variance of a complete node's estimate from its subtree."""
    estimates = [1 / weights[0] ** 2]
    variances = [estimates[0]]
    for radix, weight, depth in zip(radices, weights[1:], depths_of(radices)[1:], strict=True):
        square = weight**2
        estimates = [1 / square, *(1 / (square + 1 / (radix * a)) for a in estimates[:depth])]
        variances.append(estimates[depth])
    return variances

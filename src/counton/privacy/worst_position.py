"""The largest cost over all positions an item can have: a branch and bound over their bits.

A window of n released positions starts at the item. Its two ends climb the forest of intervals
level by level: which siblings they meet is decided by the bits of the item's position. Three facts
make the search finite and exact:

- Cost functions only grow when a sibling's cost is added, so larger functions stay larger.
- A further ancestor can only lower the cost: it offers another way to shift. So once both ends lie
  in one interval that interval may be taken as the root of its tree, and once the window is
  shorter than an interval, only the first three such intervals need be looked at.
- The cost of any fixed labels bounds the least cost from above. Fixing labels on a grid gives a
  bound on everything that may follow, and positions below the best known one are dropped.

Only for growth of 4 and more are thousands of positions left. Then costs are rounded up to a grid,
on which most positions coincide. What is found is an upper bound in any case; if no rounded
position comes out best, which is the rule, it is the largest cost itself.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.privacy.dyadic_costs import CostKind, Costs

#: If there are more positions their costs are rounded up to a grid, of this size relative to the
#: largest cost found, or of the next power of 4 times it with which few enough are left.
_FEW_POSITIONS = 2**12
_GRID = 2.0**-17
_MOST_POSITIONS = 2**15


class _Ends(NamedTuple):
    """Costs of the intervals at both ends of the window; one position a column."""

    left: Costs
    right: Costs


class _Step(NamedTuple):
    """One level up: the left end's bit, whether the right end is an odd node, the next carry."""

    left_bit: int
    right_bit: int
    carry: int


class _Window:
    """Arithmetic of a window of ``length`` positions, seen from each level."""

    def __init__(self, length: int, highest: int) -> None:
        self._last = length - 1
        #: Highest level in use: all its intervals are roots.
        self.highest = highest
        #: From this level on both ends lie in one interval or in two neighbours.
        self.top = min(highest, self._last.bit_length())

    def distance(self, level: int, carry: int) -> int:
        """How many intervals of ``level`` the right end lies beyond the left one."""
        return (self._last >> level) + carry

    def steps(self, level: int, carry: int) -> list[_Step]:
        """The ways up from ``level`` on which both ends stay apart."""
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
    """Largest least cost of a window of ``length`` >= 1 positions, over all of its places.

    Args:
        kind: cost functions of intervals.
        length: number of released positions from the item on.
        highest: highest level of intervals in use.

    Returns:
        Never less than the largest cost, and more only where the search had to round.
    """
    leaf = kind.fixed(0, 1.0)
    if length == 1:
        return float(kind.at_zero(leaf)[0])
    window = _Window(length, highest)
    bounds = _bounds(kind, window)
    best = 0.0
    alive: dict[int, _Ends] = {0: _Ends(leaf, leaf)}
    for level in range(window.top + 1):
        following: dict[int, list[_Ends]] = {0: [], 1: []}
        for carry, ends in alive.items():
            best = max(best, _finished(kind, window, level, carry, ends))
        for carry, ends in alive.items():
            kept = _promising(kind, bounds.get((level, carry)), ends, best)
            if kept.left.shape[1] > _FEW_POSITIONS:
                kept = _rounded_up(kind, kept, best)
            for step in window.steps(level, carry) if kept.left.shape[1] else ():
                following[step.carry].append(_climb(kind, level, step, kept))
        alive = {
            carry: _Ends(*(np.concatenate(sides, axis=1) for sides in zip(*parts, strict=True)))
            for carry, parts in following.items()
            if parts
        }
    return best


def cost_at(kind: CostKind, position: int, length: int, highest: int) -> float:
    """Least cost of a window of ``length`` positions which starts at ``position`` >= 1."""
    last = position + length - 1
    total, start = 0.0, position
    while start <= last:
        level = min(start.bit_length() - 1, highest)  # of the tree that holds ``start``
        number = start >> level
        total += float(kind.at_zero(_subtree(kind, level, number, position, last))[0])
        start = number + 1 << level
    return total


def _subtree(kind: CostKind, level: int, number: int, first: int, last: int) -> Costs:
    """Costs of one interval and all in it, where positions first..last gain 1."""
    low, high = number << level, (number + 1 << level) - 1
    if low > last:
        return 0 * kind.uniform(level, ones=True)
    if high < first or (first <= low and high <= last):
        return kind.uniform(level, ones=high >= first)
    left, right = (_subtree(kind, level - 1, 2 * number + half, first, last) for half in (0, 1))
    return kind.up(left + right, level)


def _climb(kind: CostKind, level: int, step: _Step, ends: _Ends) -> _Ends:
    """Both ends one level up, with the siblings they meet."""
    left = ends.left + kind.uniform(level, ones=step.left_bit == 0)
    right = ends.right
    if step.right_bit:  # else its sibling is not released yet: any label, at no cost
        right = right + kind.uniform(level, ones=True)
    return _Ends(kind.up(left, level + 1), kind.up(right, level + 1))


def _finished(kind: CostKind, window: _Window, level: int, carry: int, ends: _Ends) -> float:
    """Largest cost if the left end's tree ends at this level, or at the next where ends meet."""
    right = _to_root(kind, window, level, carry, ends.right)
    largest = np.max(kind.at_zero(ends.left) + right)
    if window.distance(level, carry) == 1 and level < window.highest:
        met = kind.up(ends.left + ends.right, level + 1)
        largest = max(largest, np.max(kind.at_zero(met)))
    return float(largest)


def _to_root(
    kind: CostKind, window: _Window, level: int, carry: int, right: Costs
) -> NDArray[np.float64]:
    """Costs to the right of a left end which is the root of its tree, with all trees between."""
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


def _promising(
    kind: CostKind, bound: NDArray[np.float64] | None, ends: _Ends, best: float
) -> _Ends:
    """The positions which some continuation might still bring above ``best``."""
    if bound is None:
        return _Ends(ends.left[:, :0], ends.right[:, :0])
    left, right = kind.at_labels(ends.left), kind.at_labels(ends.right)
    highest = np.full(left.shape[1], np.inf)
    for i, j in itertools.product(range(len(left)), repeat=2):
        np.minimum(highest, left[i] + right[j] + bound[i, j], out=highest)
    keep = highest > best * (1 + 1e-13)
    return _Ends(ends.left[:, keep], ends.right[:, keep])


def _rounded_up(kind: CostKind, ends: _Ends, best: float) -> _Ends:
    """Positions whose costs are the same once rounded up count as one."""
    grid = _GRID * 2.0 ** math.frexp(best)[1]  # a power of two keeps sums exact
    while True:
        left, right = kind.rounded_up(ends.left, grid), kind.rounded_up(ends.right, grid)
        both = np.unique(np.concatenate([left, right]), axis=1)
        if both.shape[1] <= _MOST_POSITIONS:
            return _Ends(both[: len(left)], both[len(left) :])
        grid *= 4


def _bounds(kind: CostKind, window: _Window) -> dict[tuple[int, int], NDArray[np.float64]]:
    """By (level, carry): bounds on what follows while both ends stay apart at ``level``.

    Entry (i, j) is for labels i and j of the parents of the left and the right end.
    """
    bounds: dict[tuple[int, int], NDArray[np.float64]] = {}
    for level in reversed(range(min(window.top + 1, window.highest))):
        fixed = [kind.fixed(level + 1, label) for label in kind.labels]
        moves = np.array([kind.at_labels(costs)[:, 0] for costs in fixed])
        root = np.array([kind.at_zero(costs)[0] for costs in fixed])
        ones = kind.at_labels(kind.uniform(level, ones=True))
        zeros = kind.at_labels(kind.uniform(level, ones=False))
        for carry in (0, 1):
            found = []
            for step in window.steps(level, carry) if window.distance(level, carry) else ():
                ends = [_to_root(kind, window, level + 1, step.carry, costs)[0] for costs in fixed]
                after = root[:, None] + np.array(ends)
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

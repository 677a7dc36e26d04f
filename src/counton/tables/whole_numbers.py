"""Post-processing of released trees: whole or non-negative numbers that add up, some known.

All results depend on releases and public facts only, so they cost no privacy. They are biased: a
non-negative count of a small true one is too large on average, and its siblings too small.

The total is chosen first, then the children of every node, given the node. Children become the
nearest numbers that add up to it, none below its lower bound (the sum of known totals below, and at
least 0), and are rounded so that the sum stays: all down, then those of the largest remainders up.
"""

# The noise of siblings is exchangeable, so the least-squares estimate of children given their sum
# is the Euclidean projection. Of equal remainders, the first are rounded up.

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, Integers
from counton.base.errors import SumOverflow

#: Below this bound float sums of integers are exact.
_LARGEST = 2.0**53
#: Estimates are rounded to multiples of this, which is finer than any release.
_GRAIN = 2.0**-20


class Bounds(NamedTuple):
    """Constraints on the counts of nodes, by level.

    Attributes:
        fixed: whether a count is known, or the sum of its children's known counts.
        lowest: the count of a fixed node; the lowest allowed count of any other node.
    """

    fixed: list[NDArray[np.bool_]]
    lowest: list[Floats]


def bounds_of(
    parents: Sequence[Integers], known: Sequence[Floats], *, nonnegative: bool
) -> tuple[Bounds, tuple[int, int, str] | None]:
    """Return the constraints that follow from known totals, and the first contradiction.

    The contradiction is (level, index of the node, reason) or None.

    ``known`` has NaN where unknown; ``parents`` are ascending indices one level up.

    >>> bounds, wrong = bounds_of([np.array([0, 0])], [np.array([9.0]), np.array([4.0, np.nan])],
    ...                           nonnegative=True)
    >>> [level.tolist() for level in bounds.fixed], bounds.lowest[1].tolist(), wrong
    ([[True], [True, False]], [4.0, 0.0], None)
    """
    least = 0.0 if nonnegative else -np.inf
    fixed: list[NDArray[np.bool_]] = []
    lowest: list[Floats] = []
    for level in range(len(known) - 1, -1, -1):
        stated = ~np.isnan(known[level])
        size = len(stated)
        low = np.full(size, least)
        whole = np.zeros(size, dtype=bool)
        if level < len(parents):
            above = parents[level]
            children = np.bincount(above, minlength=size)
            settled = np.bincount(above, weights=fixed[0], minlength=size).astype(np.int64)
            whole = (children > 0) & (settled == children)
            with np.errstate(invalid="ignore"):
                added = np.bincount(above, weights=lowest[0], minlength=size)
            low = np.where(children > 0, added, low)
            for wrong, why in (
                (
                    stated & whole & (known[level] != low),
                    ("the sum of its parts, which are all known, is"),
                ),
                (stated & (known[level] < low), "its parts add up to at least"),
            ):
                if wrong.any():
                    place = int(np.argmax(wrong))
                    return Bounds([], []), (level, place, f"{why} {low[place]:,.0f}")
        fixed.insert(0, stated | whole)
        lowest.insert(0, np.where(stated, known[level], low))
    return Bounds(fixed, lowest), None


def whole_numbers(
    estimates: Sequence[Floats], parents: Sequence[Integers], bounds: Bounds
) -> list[Integers]:
    """Return integers near the estimates, within bounds, that add up to their parents.

    Raises:
        SumOverflow: estimates beyond 2^53.

    >>> parents = [np.array([0, 0, 0])]
    >>> nothing = [np.full(1, np.nan), np.full(3, np.nan)]
    >>> bounds, _ = bounds_of(parents, nothing, nonnegative=True)
    >>> estimates = [np.array([9.6]), np.array([-2.2, 4.9, 6.9])]
    >>> [level.tolist() for level in whole_numbers(estimates, parents, bounds)]
    [[10], [0, 4, 6]]
    """
    if max(float(np.abs(level).max(initial=0)) for level in estimates) >= _LARGEST:
        raise SumOverflow("estimates are beyond 2^53, and not exact there: count in larger units")
    total = np.where(
        bounds.fixed[0], bounds.lowest[0], np.maximum(np.rint(estimates[0]), bounds.lowest[0])
    )
    found = [total.astype(np.int64)]
    for level, above in enumerate(parents):
        found.append(
            _children(
                found[-1],
                above,
                np.rint(estimates[level + 1] / _GRAIN) * _GRAIN,
                bounds.fixed[level + 1],
                bounds.lowest[level + 1],
            )
        )
    return found


def _children(
    totals: Integers, parents: Integers, estimates: Floats, fixed: NDArray[np.bool_], lowest: Floats
) -> Integers:
    """Return integers near the estimates of one level that add up to the parents' ``totals``."""
    size = len(totals)
    values = np.where(fixed, lowest, 0.0).astype(np.int64)
    left = totals - np.bincount(parents, weights=values, minlength=size).astype(np.int64)
    free = np.flatnonzero(~fixed)
    if not len(free):
        return values
    family, wanted, low = parents[free], estimates[free], lowest[free]
    number = np.bincount(family, minlength=size)
    extra = left - np.bincount(family, weights=wanted, minlength=size)
    nearest = wanted + (extra / np.maximum(number, 1))[family]
    below = np.zeros(size, dtype=bool)
    below[family[nearest < low]] = True
    order = np.argsort(family, kind="stable")  # parents ascend, so families stay together
    starts = np.searchsorted(family[order], np.arange(size + 1))
    for parent in np.flatnonzero(below).tolist():
        members = order[starts[parent] : starts[parent + 1]]
        spare = left[parent] - low[members].sum()
        nearest[members] = low[members] + _onto_simplex(wanted[members] - low[members], spare)
    values[free] = _round_family(nearest, family, left, low)
    return values


def _onto_simplex(wanted: Floats, total: float) -> Floats:
    """Return the numbers nearest to ``wanted`` that add up to ``total`` and are not negative."""
    falling = np.sort(wanted)[::-1]
    cut = (np.cumsum(falling) - total) / np.arange(1, len(wanted) + 1)
    last = int(np.flatnonzero(falling > cut)[-1]) if (falling > cut).any() else 0
    nearest: Floats = np.maximum(wanted - cut[last], 0.0)
    return nearest


def _round_family(nearest: Floats, family: Integers, left: Integers, low: Floats) -> Integers:
    """Round numbers so that the children of each node have the sum ``left``.

    The largest remainders are rounded up; no number falls below ``low``. ``family``, ascending, is
    the parent of each.
    """
    floor = np.floor(nearest + 2.0**-24)  # undo rounding errors below whole numbers
    part = nearest - floor
    values = floor.astype(np.int64)
    missing = left - np.bincount(family, weights=floor, minlength=len(left)).astype(np.int64)
    order = np.lexsort((-part, family))
    begin = np.searchsorted(family[order], np.arange(len(left)))
    rank = np.arange(len(family)) - begin[family[order]]
    values[order] += rank < missing[family[order]]
    # Rounding may leave a sum one too large; then the smallest part above its bound is lowered.
    for parent in np.flatnonzero(missing < 0).tolist():
        members = np.flatnonzero(family == parent)
        able = members[np.argsort(part[members], kind="stable")]
        able = able[values[able] > low[able]]
        values[able[: -int(missing[parent])]] -= 1
    return values

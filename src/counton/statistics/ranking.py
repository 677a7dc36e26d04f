"""The ranking of released counts: the k largest groups, and those that may be among them.

The shown groups were selected by their noisy counts, so lower ends of intervals allow for the
largest noise among all n groups, upper ends only for the noise of the truly k largest.
"""

# The estimates of n groups have independent errors N. The k groups with the largest estimates are
# shown. For upper ends it is enough that the truly k largest groups are at most `upward` above
# their estimates. Proof: let i be shown and not among these. Then one of them, j, is not shown, so
#
#     truth of i <= truth of j <= estimate of j + upward <= estimate of i + upward.
#
# So with probability `level` all statements of a `Ranking` hold, if
#
#     P(N > halfwidth) = p,  P(N < -upward) = q,  (1 - p - q)^k (1 - p)^(n - k) >= level.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer
from counton.continual.formulas import ClosedForm, TableNumbers
from counton.continual.intervals import SMALLEST_TAIL, check_confidence_level

#: Values are compared in blocks of this size to find a bound on the largest ones.
_VALUES_PER_BLOCK = 128


@dataclass(frozen=True, eq=False)
class Ranking:
    """The groups with the largest released counts, and how sure it is that they are the largest.

    With probability ``level`` three statements hold at once. The true count of each shown group
    lies between its ``lower`` and ``upper``. Each group of ``group_is_certain`` is one of the k
    largest. The k largest groups are all shown or among ``others``; of equal counts, the first in
    the given order is larger.

    All arrays have shape ``(shown,)``, the largest released count first.

    >>> found = rank_largest(["a", "b", "c"], np.array([9, 30, 1]), halfwidth=3, k=2)
    >>> found.lower.tolist(), found.upper.tolist(), found.is_certain, found.others
    ([27, 6], [33, 12], True, ())
    """

    names: tuple[Any, ...]
    values: NDArray[np.number]
    lower: NDArray[np.number]
    upper: NDArray[np.number]
    group_is_certain: NDArray[np.bool_]
    confidence_level: float
    _all: Sequence[object] = field(repr=False)
    _others: NDArray[np.int64] = field(repr=False)

    @property
    def others(self) -> tuple[Any, ...]:
        """Groups that are not shown but may belong to the k largest."""
        return tuple(self._all[place] for place in self._others.tolist())

    @property
    def is_certain(self) -> bool:
        """True if all shown groups surely belong to the k largest."""
        return bool(self.group_is_certain.all())


def rank_largest(
    names: Sequence[object],
    values: NDArray[np.number],
    halfwidth: float,
    k: int,
    *,
    upward: float | None = None,
    hidden: int | None = None,
    confidence_level: float = 0.95,
) -> Ranking:
    """Rank the k largest of some released counts; this costs no privacy.

    Let w = ``halfwidth`` + ``upward``, and c the released count of a group. The group surely
    belongs to the k largest if at most k - 1 other released counts are above c - w. It surely does
    not if k other released counts are above c + w.

    Args:
        names: names of the groups, in the order of ``values``.
        values: released counts, one for each group.
        halfwidth: largest amount by which released counts of all possible groups may exceed true
            counts: the half-width at the first level of `ranking_levels`.
        k: number of groups to show, from 1.
        upward: largest amount by which true counts of the k truly largest groups may exceed
            released counts: the half-width at the second level of `ranking_levels`; None:
            ``halfwidth``.
        hidden: upper bound on released counts of groups that are not in ``values``; None: all are.
        confidence_level: probability with which both bounds hold.

    Raises:
        InvalidInputError: k is below 1, or lengths differ.

    >>> found = rank_largest(["a", "b", "c"], np.array([9, 30, 8]), halfwidth=4, k=2)
    >>> found.names, found.group_is_certain.tolist(), found.others
    (('b', 'a'), [True, False], ('c',))
    """
    values = np.asarray(values)
    k = check_integer("k", k, 1)
    up = halfwidth if upward is None else upward
    if values.ndim != 1 or len(names) != len(values):
        raise InvalidInputError(
            f"values have shape {values.shape}, but there are {len(names):,} names: give one value "
            "for each name"
        )
    best = _largest(values, k + 1)
    shown = best[:k]
    not_shown = best[k:]
    top = values[shown]
    if values.dtype.kind in "iu" and halfwidth == int(halfwidth) and up == int(up):
        halfwidth = int(halfwidth)
        up = int(up)
    least = top - halfwidth - up
    group_is_certain = np.ones(len(shown), bool)
    others = np.empty(0, np.int64)
    if len(not_shown):
        group_is_certain &= values[not_shown[0]] <= least
        may = np.flatnonzero(values >= least[-1])
        others = may[~np.isin(may, shown)]
    highest = top
    if hidden is not None:  # a hidden group may be one of the k largest
        group_is_certain = group_is_certain & (least >= hidden)
        highest = top if upward is None else np.maximum(top, hidden)
    return Ranking(
        tuple(names[place] for place in shown.tolist()),
        top,
        top - halfwidth,
        highest + up,
        group_is_certain,
        confidence_level,
        names,
        others,
    )


def ranking_of(
    names: Sequence[object],
    values: NDArray[np.number],
    halfwidth: Callable[[float], float],
    k: int,
    confidence_level: float,
    *,
    room: int | None = None,
    chosen: bool = False,
    hidden: int | None = None,
) -> Ranking:
    """Rank the k largest of some released counts, given one group's half-width at each level.

    Args:
        room: number of all possible groups; None: the number of ``names``.
        chosen: True if ``names`` may have been chosen after releases; upper ends then allow for the
            noise of all groups.
    """
    n_groups = len(names) if room is None else room
    down, up = map(
        halfwidth, checked_ranking_levels(n_groups, n_groups if chosen else k, confidence_level)
    )
    upward = None if chosen else up
    return rank_largest(
        names, values, down, k, upward=upward, hidden=hidden, confidence_level=confidence_level
    )


def checked_ranking_levels(groups: int, k: int, confidence_level: float) -> tuple[float, float]:
    """Return `ranking_levels`, if intervals can be computed at them.

    Raises:
        InvalidInputError: the level is out of range, or too near to 1 for so many groups.

    >>> checked_ranking_levels(1000, 1000, 0.9999999)
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: level is 0.9999999 for all of 1,000 groups at once, ...
    """
    levels = ranking_levels(groups, k, confidence_level)
    if max(levels) > 1 - SMALLEST_TAIL:
        missed = 1.1 * SMALLEST_TAIL * groups  # one group has a part of it, at least 1 / groups
        raise InvalidInputError(
            f"level is {confidence_level} for all of {groups:,} groups at once, so that each of "
            "them needs more than 1 - 1e-9, the largest that is known: give at most 1 - "
            f"{missed:.2g}, or fewer groups"
        )
    return levels


def ranked_numbers(ranking: Callable[[float], Ranking], std: float) -> TableNumbers:
    """Return the table of a ranking, largest group first."""
    ranking_at = cache(ranking)
    shown = ranking_at(0.95)  # names and estimates are equal at all levels

    def ends(confidence_level: float) -> tuple[NDArray[np.number], NDArray[np.number]]:
        return ranking_at(confidence_level).lower, ranking_at(confidence_level).upper

    about = {"rank": np.arange(1, len(shown.names) + 1), "group": np.array(shown.names, np.str_)}
    numbers = ClosedForm(shown.values, ends, std)
    return TableNumbers(
        about,
        numbers,
        further_columns=lambda confidence_level: {
            "is_certain": ranking_at(confidence_level).group_is_certain
        },
    )


def ranking_levels(groups: int, k: int, confidence_level: float) -> tuple[float, float]:
    """Return the probabilities of one group's interval in `rank_largest`.

    Both kinds of ends get an equal part of the error probability, which is best if tails fall
    exponentially. If all groups are shown, both are ``confidence_level ** (1 / groups)``. Groups
    have independent noise of one symmetric distribution.

    Args:
        groups: number of all possible groups, from 1.
        k: number of groups that are shown, from 1.
        confidence_level: probability with which all intervals of the ranking hold together.

    Returns:
        The probability for lower ends, and that for upper ends.

    Raises:
        InvalidInputError: there is no group, or the level is outside (0, 1 - 1e-9].

    >>> [round(one, 6) for one in ranking_levels(1000, 10, 0.95)]
    [0.999949, 0.994877]
    """
    groups = check_integer("groups", groups, 1)
    confidence_level = check_confidence_level(confidence_level)
    k = min(check_integer("k", k, 1), groups)
    if k == groups:
        both = confidence_level ** (1 / groups)
        return both, both

    def fails(share: float) -> tuple[float, float]:
        kept = math.log1p(-share)
        return -math.expm1(kept / groups), -math.expm1(kept / k)

    # P(both hold) is (1 - share)^2, or more, and less
    low = (1 - confidence_level) / 2
    high = 1 - confidence_level
    for _ in range(60):
        middle = (low + high) / 2
        down, up = fails(middle)
        log_probability = k * math.log1p(-min(down + up, 0.5)) + (groups - k) * math.log1p(-down)
        low, high = (
            (middle, high) if log_probability >= math.log(confidence_level) else (low, middle)
        )
    down, up = fails(low)
    return 1 - 2 * down, 1 - 2 * up


def _largest(values: NDArray[np.number], count: int) -> NDArray[np.int64]:
    """Return the ``count`` largest values' indices, largest first; equal values in order."""
    blocks = len(values) // _VALUES_PER_BLOCK
    places = np.arange(len(values))
    if blocks >= 2 * count:
        # A bound that as many blocks reach as values are wanted: hence enough values reach it.
        tops = values[: blocks * _VALUES_PER_BLOCK].reshape(blocks, _VALUES_PER_BLOCK).max(axis=1)
        bound = np.partition(tops, blocks - count)[blocks - count]
        places = np.flatnonzero(values >= bound)
    return np.asarray(places[np.argsort(-values[places], kind="stable")[:count]])

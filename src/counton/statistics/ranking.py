"""The largest of some estimates, and who may be among them too: a function of what is released.

Estimates of n groups are off by independent noise N. The k groups whose estimates are the largest
are shown, and noise has helped them, so lower ends have to allow for the largest noise of all n.
Upper ends need not: it is enough that the truly k largest groups are no more than ``upward`` above
their estimates. For let i be shown and not among these. Then one of them, j, is not shown, so

    truth of i <= truth of j <= estimate of j + upward <= estimate of i + upward.

So with probability ``level`` all is true that a `Ranking` says, if

    P(N > halfwidth) = p,  P(N < -upward) = q,  (1 - p - q)^k (1 - p)^(n - k) >= level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput
from counton.base.exact import check_integer
from counton.numbers.formulas import ClosedForm, TableNumbers
from counton.numbers.intervals import check_level

#: Values are compared in blocks of this many to find a bound on the largest ones.
_BLOCK = 128


@dataclass(frozen=True, eq=False)
class Ranking:
    """The largest of some estimates, and how sure that is. Made by `rank_largest`.

    With probability ``level`` all of this is true at once: the true value of each that is shown
    lies between its ``lower`` and ``upper``; of those that are ``sure`` fewer than k groups are
    larger; and the k largest, of equal ones those that come first in the given order, are shown or
    among ``others``.

    Attributes:
        names: of those shown, largest estimate first; in the given order where estimates agree.
        values: their estimates.
        lower, upper: ends of their intervals.
        sure: whether each surely belongs to the k largest.
        level: see above.

    >>> found = rank_largest(["a", "b", "c"], np.array([9, 30, 1]), halfwidth=3, k=2)
    >>> found.lower.tolist(), found.upper.tolist(), found.settled, found.others
    ([27, 6], [33, 12], True, ())
    """

    names: tuple[Any, ...]
    values: NDArray[Any]
    lower: NDArray[Any]
    upper: NDArray[Any]
    sure: NDArray[np.bool_]
    level: float
    _all: Sequence[Any] = field(repr=False)
    _others: NDArray[np.int64] = field(repr=False)

    @property
    def others(self) -> tuple[Any, ...]:
        """Names of those not shown who may belong to the k largest too, in the given order."""
        return tuple(self._all[place] for place in self._others.tolist())

    @property
    def settled(self) -> bool:
        """Whether the shown ones surely are the k largest."""
        return bool(self.sure.all())


def rank_largest(
    names: Sequence[Any],
    values: NDArray[Any],
    halfwidth: float,
    k: int,
    *,
    upward: float | None = None,
    hidden: int | None = None,
    level: float = 0.95,
) -> Ranking:
    """The k largest of some estimates: a function of what is released, so it costs nothing.

    A group surely belongs to the k largest if no more than k - 1 others have an estimate above its
    own less both half-widths; it cannot if k have one above its own plus both.

    Args:
        names: of all groups that may be shown.
        values: an estimate for each.
        halfwidth: by how much an estimate is above the truth, at most, for all groups at once.
            `ranking_levels` gives its level. Where groups nobody declared are
            shown once they are large, these are all that there can be, not those that are shown:
            showing them has chosen among all.
        k: how many are shown; fewer if there are fewer.
        upward: by how much the truth is above the estimate, at most, for the truly k largest at
            once; as ``halfwidth`` unless given.
        hidden: groups without a value here have estimates below this; None: there are none.
        level: with which both hold.

    Raises:
        InvalidInput: k below 1, or other lengths.

    >>> found = rank_largest(["a", "b", "c"], np.array([9, 30, 8]), halfwidth=4, k=2)
    >>> found.names, found.sure.tolist(), found.others
    (('b', 'a'), [True, False], ('c',))
    """
    values = np.asarray(values)
    k = check_integer("k", k, 1)
    up = halfwidth if upward is None else upward
    if values.ndim != 1 or len(names) != len(values):
        raise InvalidInput(
            f"values have shape {values.shape} and there are {len(names):,} names: give one value "
            f"for each name"
        )
    best = _largest(values, k + 1)
    shown, beyond = best[:k], best[k:]
    top = values[shown]
    if values.dtype.kind in "iu" and halfwidth == int(halfwidth) and up == int(up):
        halfwidth, up = int(halfwidth), int(up)
    least = top - halfwidth - up
    sure, others = np.ones(len(shown), bool), np.empty(0, np.int64)
    if len(beyond):
        sure &= values[beyond[0]] <= least
        may = np.flatnonzero(values >= least[-1])
        others = may[~np.isin(may, shown)]
    highest = top
    if hidden is not None:  # one of the k largest may be hidden
        sure = sure & (least >= hidden)
        highest = top if upward is None else np.maximum(top, hidden)
    return Ranking(
        tuple(names[place] for place in shown.tolist()),
        top,
        top - halfwidth,
        highest + up,
        sure,
        level,
        names,
        others,
    )


def ranking_of(
    names: Sequence[Any],
    values: NDArray[Any],
    halfwidth: Callable[[float], float],
    k: int,
    level: float,
    *,
    room: int | None = None,
    chosen: bool = False,
    hidden: int | None = None,
) -> Ranking:
    """The k largest of some estimates, by the half-width that an interval of each has at a level.

    Args:
        names, values, k, hidden: as of `rank_largest`.
        halfwidth: of an interval that holds with a probability.
        level: with which all is true at once.
        room: how many there can be, from which those are chosen; None: these.
        chosen: a reader chose these, perhaps for what is released of them, so that upper ends too
            allow for the noise of all.
    """
    there = len(names) if room is None else room
    down, up = map(halfwidth, ranking_levels(there, there if chosen else k, check_level(level)))
    upward = None if chosen else up
    return rank_largest(names, values, down, k, upward=upward, hidden=hidden, level=level)


def ranked_numbers(ranking: Callable[[float], Ranking], std: float) -> TableNumbers:
    """The rows of a ranking, best first: rank, group, and beside each whether it is sure.

    Args:
        ranking: by the level of its intervals.
        std: standard deviation of the noise of each estimate.
    """
    at = cache(ranking)
    shown = at(0.95)  # whichever: names and estimates are the same at all

    def ends(level: float) -> tuple[NDArray[Any], NDArray[Any]]:
        return at(level).lower, at(level).upper

    about = {"rank": np.arange(1, len(shown.names) + 1), "group": np.array(shown.names, np.str_)}
    numbers = ClosedForm(shown.values, ends, std)
    return TableNumbers(about, numbers, beside=lambda level: {"sure": at(level).sure})


def ranking_levels(groups: int, k: int, level: float) -> tuple[float, float]:
    """Levels of the intervals of one group whose half-widths `rank_largest` needs: down, and up.

    Both share of what may fail alike, which is best where tails fall exponentially; where all
    groups are shown, both are ``level ** (1 / groups)``.

    Args:
        groups: how many may be shown, whose noise is independent, of one symmetric law.
        k: how many are shown.
        level: with which all is true at once.

    Raises:
        InvalidInput: fewer than one group, or a level outside (0, 1 - 1e-9].

    >>> [round(one, 6) for one in ranking_levels(1000, 10, 0.95)]
    [0.999949, 0.994877]
    """
    groups, level = check_integer("groups", groups, 1), check_level(level)
    k = min(check_integer("k", k, 1), groups)
    if k == groups:
        both = level ** (1 / groups)
        return both, both

    def fails(share: float) -> tuple[float, float]:
        kept = math.log1p(-share)
        return -math.expm1(kept / groups), -math.expm1(kept / k)

    low, high = (1 - level) / 2, 1 - level  # P(both hold) is (1 - share)^2, or more, and less
    for _ in range(60):
        middle = (low + high) / 2
        down, up = fails(middle)
        held = k * math.log1p(-min(down + up, 0.5)) + (groups - k) * math.log1p(-down)
        low, high = (middle, high) if held >= math.log(level) else (low, middle)
    down, up = fails(low)
    return 1 - 2 * down, 1 - 2 * up


def _largest(values: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Places of the largest values, largest first, then in order."""
    blocks = len(values) // _BLOCK
    places = np.arange(0)
    if blocks >= 2 * count:
        # So many blocks have a value from their least largest on, hence so many values have.
        tops = values[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        bound = np.partition(tops, blocks - count)[blocks - count]
        places = np.flatnonzero(values >= bound)
    else:
        places = np.arange(len(values))
    order = np.argsort(-values[places], kind="stable")[:count]
    return np.asarray(places[order])

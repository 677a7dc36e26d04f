"""The largest of some estimates, and who may be among them too: a function of what is released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput
from counton.exact import check_integer

#: Values are compared in blocks of so many to find a bound on the largest ones.
_BLOCK = 128


@dataclass(frozen=True, eq=False)
class Ranking:
    """The largest of some estimates, and how sure that is. Made by `rank_largest`.

    With probability ``level`` all of this is true at once: every true value lies between its
    ``lower`` and ``upper``; those that are ``sure`` belong to the k largest; and nobody belongs to
    them who is neither shown nor among ``others``. (Belonging means: fewer than k are larger.)

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
    level: float = 0.95,
) -> Ranking:
    """The k largest of some estimates: a function of what is released, so it costs nothing.

    With the half-width h holding for all at once: a group surely belongs to the k largest if no
    more than k - 1 others have an estimate above its own less 2 h; it cannot if k have one
    above its own plus 2 h.

    Args:
        names: of all groups that may be shown.
        values: an estimate for each.
        halfwidth: such that with probability ``level`` all true values lie within it, at once: of
            n groups with independent noise the half-width for ``level ** (1 / n)`` each. Where
            groups nobody declared are shown once they are large, n is how many there can be, not
            how many are shown: showing them has chosen among all.
        k: how many are shown; fewer if there are fewer.
        level: what ``halfwidth`` holds with.

    Raises:
        InvalidInput: k below 1, or other lengths.

    >>> found = rank_largest(["a", "b", "c"], np.array([9, 30, 8]), halfwidth=4, k=2)
    >>> found.names, found.sure.tolist(), found.others
    (('b', 'a'), [True, False], ('c',))
    """
    values = np.asarray(values)
    k = check_integer("k", k, 1)
    if values.ndim != 1 or len(names) != len(values):
        raise InvalidInput(
            f"values have shape {values.shape} and there are {len(names):,} names: give one value "
            f"for each name"
        )
    best = _largest(values, k + 1)
    shown, beyond = best[:k], best[k:]
    top = values[shown]
    whole = values.dtype.kind in "iu" and halfwidth == int(halfwidth)
    half = int(halfwidth) if whole else halfwidth
    sure = np.ones(len(shown), bool)
    others = np.empty(0, np.int64)
    if len(beyond):
        sure = values[beyond[0]] <= top - 2 * half
        may = np.flatnonzero(values >= top[-1] - 2 * half)
        others = may[~np.isin(may, shown)]
    return Ranking(
        tuple(names[place] for place in shown.tolist()),
        top,
        top - half,
        top + half,
        sure,
        level,
        names,
        others,
    )


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

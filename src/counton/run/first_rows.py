"""Choice of the first rows of each protected unit, on rows kept as arrays.

A unit is a user or one user's period. Rows are ordered by time, name of the group, value, and
digest of the id. The choice depends only on the unit's own rows. A row that is not among its unit's
first ``most`` rows can never be chosen, whatever rows are added. So such rows may be dropped while
others are still read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from counton.base.exact import name_alone
from counton.released.description import Counting

Places = NDArray[np.intp]
#: Most rows whose positions fit into one 64-bit word beside enough bits of a key.
_PACKED: Final = 2**22
#: Approximate number of rows that are processed together.
_TOGETHER: Final = 2**18
#: Number of a key's first bits by which held rows are sorted.
_WORD: Final = 16


@name_alone
@dataclass(frozen=True, eq=False)
class HeldRows:
    """Rows as arrays of equal length, each of the narrowest type that holds it.

    Attributes:
        us: microseconds since 1970.
        step, group: the row's step, and the position of its group in the domain.
        total: value of the row.
        user, id: digests (uint64) of names, or other numbers that are equal exactly if the names
            are; None if there is no such column.
        due: step that releases the row; None if it was not computed.
    """

    us: NDArray[np.int64]
    step: NDArray[np.integer[Any]]
    group: NDArray[np.integer[Any]]
    total: NDArray[np.integer[Any]]
    user: NDArray[np.uint64] | None = None
    id: NDArray[np.uint64] | None = None
    due: NDArray[np.integer[Any]] | None = None

    def __len__(self) -> int:
        return len(self.us)

    @property
    def key(self) -> NDArray[np.uint64]:
        """One digest for each row: of its user, or of its id without users."""
        key = self.id if self.user is None else self.user
        assert key is not None
        return key

    def at(self, which: Any) -> HeldRows:
        """Return some of the rows: those that a slice, an array of positions, or a mask selects."""
        if isinstance(which, np.ndarray) and which.dtype == np.intp:
            fields: Any = (None if one is None else one.take(which) for one in self.fields)
        else:
            fields = (None if one is None else one[which] for one in self.fields)
        return HeldRows(*fields)

    @property
    def fields(self) -> tuple[NDArray[Any] | None, ...]:
        """All arrays of the rows, or None for a missing column, in the order of the attributes."""
        whose = self.user, self.id, self.due
        return (self.us, self.step, self.group, self.total, *whose)


def together(parts: Sequence[HeldRows]) -> HeldRows:
    """Concatenate several sets of rows into one set."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.fields for part in parts), strict=True)
    fields: Any = (None if one[0] is None else np.concatenate(one) for one in columns)
    return HeldRows(*fields)


@name_alone
class Pool:
    """Rows that may still count within the bounds of their users, collected while further rows are
    read. Rows that can no longer count are dropped.

    Args:
        thinned: function that is given all held rows of some keys (digests of users or ids), and
            returns those that may still count, in the order of their keys; None keeps all rows.
    """

    #: With fewer rows than this, none are dropped.
    least = 2**24

    def __init__(self, thinned: Callable[[HeldRows], HeldRows] | None) -> None:
        self._thinned = thinned
        self._parts: list[tuple[NDArray[np.uint16], HeldRows]] = []
        self._rows = self._after = 0

    def add(self, rows: HeldRows) -> None:
        """Add rows to the pool; drop rows that can no longer count if the pool has grown large."""
        word = (rows.key >> np.uint64(64 - _WORD)).astype(np.uint16)
        order = np.argsort(word, kind="stable")  # so few bits are sorted without comparisons
        self._parts.append((word[order], rows.at(order)))
        self._rows += len(rows)
        if self._thinned is not None and self._rows > max(self.least, 2 * self._after):
            kept = [self._thinned(rows) for rows in self.by_keys()]
            self._parts, self._rows = [], 0
            for rows in kept:
                self._parts.append(((rows.key >> np.uint64(64 - _WORD)).astype(np.uint16), rows))
                self._rows += len(rows)
            self._after = self._rows

    def by_keys(self) -> Iterator[HeldRows]:
        """Yield the rows in portions of ascending keys, all rows of a key in one."""
        times = 1 << min(_WORD, (self._rows // _TOGETHER).bit_length())
        width = 2**_WORD // times
        for first in range(0, 2**_WORD, width):
            parts = []
            for word, rows in self._parts:
                begin, end = np.searchsorted(word, [first, first + width])
                if begin < end:
                    parts.append(rows.at(slice(begin, end)))
            if parts:
                yield together(parts)


def by_key(key: NDArray[np.uint64], period: NDArray[np.int64] | None = None) -> Places:
    """Return the positions that sort rows by ``key`` (digest of a user or id), then by ``period``;
    rows that are equal in both stay in their order.

    >>> by_key(np.array([7, 5, 7], np.uint64), np.array([1, 0, 0])).tolist()
    [1, 2, 0]
    """
    first: Any = slice(None)
    if period is not None and len(period) and (period != period[0]).any():
        number: NDArray[Any] = period - period.min()
        if number.max() < 2**16:
            number = number.astype(np.uint16)  # two bytes sort without comparisons
        first = np.argsort(number, kind="stable")
        key = key[first]
    order = _by_word(key)
    return order if isinstance(first, slice) else np.asarray(first[order])


def _by_word(key: NDArray[np.uint64]) -> Places:
    """Return positions that sort keys stably, packed into 64-bit words for speed."""
    if len(key) > _PACKED:
        return np.argsort(key, kind="stable")
    low = np.uint64(max(1, len(key) - 1).bit_length())
    words = (key >> low << low) | np.arange(len(key), dtype=np.uint64)
    words.sort()
    order = (words & ((np.uint64(1) << low) - np.uint64(1))).astype(np.intp)
    words >>= low
    ordered = key[order]
    if ((words[1:] == words[:-1]) & (ordered[1:] != ordered[:-1])).any():
        return np.argsort(key, kind="stable")  # keys that are equal in their first bits only
    return order


def runs(*ordered: NDArray[Any] | None) -> tuple[Places, Places]:
    """Return where each run of equal rows begins, and how long it is.

    A run is a series of neighbouring rows that are equal in all columns (``ordered``). A column
    that is None is ignored.

    >>> [one.tolist() for one in runs(np.array([3, 3, 5]))]
    [[0, 2], [2, 1]]
    """
    columns = [column for column in ordered if column is not None]
    differs = np.zeros(len(columns[0]), np.bool_)
    differs[:1] = True
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    begins = np.flatnonzero(differs)
    return begins, np.diff(np.append(begins, len(differs)))


def first_rows(
    rows: HeldRows,
    unit: Places,
    named: NDArray[np.int64],
    bound: Counting,
    *,
    old: NDArray[np.bool_] | None = None,
    due: NDArray[np.integer[Any]] | None = None,
    most: int | None = None,
) -> NDArray[np.bool_]:
    """Return a mask of the rows that count: the first rows of each protected unit, as many as the
    bound allows.

    Args:
        rows: the rows; the rows of one unit stand together.
        unit: number of each row's unit, from 0 on, ascending.
        named: for each group, its rank in the sorted list of names. Unlike a group's number, the
            order of ranks does not depend on other units' rows.
        bound: bound on the rows of a unit.
        old: mask of rows that earlier runs have counted. They always count, and must have earlier
            times than all others.
        due: step that releases each row; needed for a bound on rows in each step.
        most: largest number of rows of a unit, in place of the number in ``bound``.
    """
    most, each = bound.most if most is None else most, bound.each
    names = ("group",) if each is not None else ("step", "group") if bound.distinct else ()
    sizes, taken = np.bincount(unit), np.ones(len(unit), np.bool_)
    contested = sizes > (1 if names else most)
    if due is not None:
        contested |= sizes > (bound.most_a_window or most)
    places = np.flatnonzero(contested[unit])
    if not len(places):
        return taken
    old = np.zeros(len(unit), np.bool_) if old is None else old
    taken[places] = False
    ordered = places[in_order(rows.at(places), unit[places], named)]
    if names:
        cells = [getattr(rows, name) for name in names]
        ordered = _first_alike(ordered, unit, cells, each or 1, old)
    if each is not None:
        ordered = _in_first_groups(ordered, unit, rows.group, most, old)
    if due is not None:
        ordered = _first_alike(ordered, unit, [due], bound.most_a_window or most, old)
    if each is None:
        ordered = _first_alike(ordered, unit, [], most, old)
    taken[ordered] = True
    return taken


def ranks(rows: HeldRows, unit: Places, named: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each row's rank in its unit, from 1 on, by time, name of the group, and value."""
    found = np.ones(len(unit), np.int64)
    places = np.flatnonzero((np.bincount(unit) > 1)[unit])
    ordered = places[in_order(rows.at(places), unit[places], named)]
    begins, sizes = runs(unit[ordered])
    found[ordered] += np.arange(len(ordered)) - np.repeat(begins, sizes)
    return found


def _first_alike(
    ordered: Places,
    unit: Places,
    cells: Sequence[NDArray[Any]],
    most: int,
    old: NDArray[np.bool_],
) -> Places:
    """Keep of each unit's rows that agree in ``cells`` the first ``most`` and all ``old`` ones."""
    keys = [unit[ordered], *(cell[ordered] for cell in cells)]
    alike = np.lexsort(keys[::-1])  # stable, so that the first stay first
    begins, sizes = runs(*(key[alike] for key in keys))
    rank = np.arange(len(ordered)) - np.repeat(begins, sizes)
    stay = (rank < most) | old[ordered[alike]]
    return np.asarray(ordered[np.sort(alike[stay])])


def _in_first_groups(
    ordered: Places, unit: Places, group: NDArray[Any], most: int, old: NDArray[np.bool_]
) -> Places:
    """Keep a unit's rows in its first ``most`` groups, and in groups whose first row is ``old``."""
    keys = unit[ordered], group[ordered]
    alike = np.lexsort(keys[::-1])
    begins, sizes = runs(*(key[alike] for key in keys))
    firsts = alike[begins]  # of each group, by its position in the order
    entered = np.zeros(len(unit), np.bool_)
    entered[_first_alike(ordered[np.sort(firsts)], unit, [], most, old)] = True
    stay = np.repeat(entered[ordered[firsts]], sizes)
    return np.asarray(ordered[np.sort(alike[stay])])


def in_order(rows: HeldRows, unit: Places, named: NDArray[np.int64]) -> Places:
    """Return positions that sort rows by unit, time, name of the group, value, and id.

    Different rows are never equal in this order, which would then depend on other units' rows.
    """
    if not len(rows):
        return np.zeros(0, np.intp)
    number, since = unit - unit.min(), rows.us - rows.us.min()
    bits = int(since.max()).bit_length()
    least = [named[rows.group], rows.total]
    ids = [] if rows.id is None else [rows.id]
    if bits + int(number.max()).bit_length() > 63 or int(since.min()) < 0:
        return np.lexsort((*ids, *reversed(least), rows.us, unit))
    words = (number.astype(np.int64) << bits) | since
    order = np.argsort(words)
    words = words[order]
    alike = np.zeros(len(words), np.bool_)
    alike[1:] = words[1:] == words[:-1]
    alike[:-1] |= alike[1:]
    tied = np.flatnonzero(alike)
    if len(tied):
        rest = order[tied]
        finer = [column[rest] for column in (*ids, *reversed(least))]
        order[tied] = rest[np.lexsort((*finer, words[tied]))]
    return order

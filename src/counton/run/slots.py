"""The slots of people whose rows come in inputs of whole windows.

Each protected unit (a user or one user's period) has as many slots as rows of it count. A slot
holds a counted row: the user's digest, the window, the group and the value. It keeps the row while
the input holds an equal one, while the row's window is closed or not covered, and once the slot was
replaced ``recounts`` times. Else the row is taken back, and the slot is free for another row of the
unit. So a slot counts at most 1 + ``recounts`` rows and takes back at most ``recounts``, however
often inputs change. With ``recounts`` = 0 no row is taken back. A slot depends only on the unit's
own rows and slots, and on what is covered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from counton.base.exact import name_alone
from counton.run.first_rows import runs
from counton.state.seen import Digests, MarkSet, merge


@name_alone
class Slots(NamedTuple):
    """The slots of one period, after the rows were taken back that an input lacks. Secret.

    Attributes:
        kept: slots that keep their rows. Facts: window, group, value; with ``recounts`` also the
            number of replacements used.
        free: slots without a row; of their facts only the number of replacements counts.
        taken_back: the slots whose rows no longer count, as they were.
        lacking: number of rows that the input lacks and that stay counted.
    """

    kept: MarkSet
    free: MarkSet
    taken_back: MarkSet
    lacking: int

    @classmethod
    def read(cls, slots: MarkSet, rows: Digests, inside: range, recounts: int) -> Self:
        """Compare the slots of one period with the rows of an input.

        Args:
            slots: the slots as the last release left them; one without a row has window 0.
            rows: hashes (`row_hashes`) of the input's rows in open, covered windows.
            inside: the open, covered windows.
            recounts: how many times a slot may be replaced.
        """
        step = slots.facts[0]
        used = slots.facts[3] if recounts else np.zeros(len(step), np.int64)
        # Of equal slots those that were replaced most often keep their rows.
        lost = ~first_equal(row_hashes([slots.digests, *slots.facts[:3]]), rows, -used)
        lost &= (step >= inside.start) & (step < inside.stop)
        freed = lost & (used < recounts)
        free, none = freed | (step == 0), np.zeros(len(step), np.int64)
        empty = slots._replace(facts=(none, none, none, used + freed))
        lacking = int((lost & ~freed).sum())
        return cls(_at(slots, ~free), _at(empty, free), _at(slots, freed), lacking)

    def fill(self, new: MarkSet | None) -> MarkSet:
        """Return all slots of the period once a unit's ``new`` rows have taken its free slots.

        The first of a unit's rows takes the slot that was replaced least often, and so on. Rows
        for which no slot was free before take slots that were never used.

        Args:
            new: the new rows, in the order in which they were chosen; None if there are none.
        """
        if new is None:
            return merge([self.kept, self.free])
        free = _at(self.free, np.lexsort((self.free.facts[3], self.free.digests)))
        place = np.searchsorted(free.digests, new.digests)
        place += np.arange(len(place)) - np.searchsorted(new.digests, new.digests)
        taken = place < np.searchsorted(free.digests, new.digests, "right")
        used = np.zeros(len(place), np.int64)
        used[taken] = free.facts[3][place[taken]]
        left = _at(free, np.delete(np.arange(len(free.digests)), place[taken]))
        return merge([self.kept, left, new._replace(facts=(*new.facts[:3], used))])


def first_equal(some: Digests, others: Digests, by: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the hashes ``some`` that are among ``others``: of equal ones the first in
    the order ``by``, as many as ``others`` has.

    >>> one, two = np.array([7, 7, 7, 5], np.uint64), np.array([7, 9, 7], np.uint64)
    >>> first_equal(one, two, np.array([3, 1, 2, 0])).tolist()
    [False, True, True, False]
    """
    kinds, times = np.unique(others, return_counts=True)
    if not len(kinds):
        return np.zeros(len(some), np.bool_)
    kind = np.searchsorted(kinds, some)
    kind[kind == len(kinds)] = 0
    known = np.asarray(kinds[kind] == some)
    many = np.bincount(kind[known], minlength=len(kinds))
    doubtful = np.flatnonzero(known & (many > times)[kind])
    order = doubtful[np.lexsort((by[doubtful], kind[doubtful]))]
    if len(order):
        begins, sizes = runs(kind[order])
        known[order] = np.arange(len(order)) - np.repeat(begins, sizes) < times[kind[order]]
    return known


def row_hashes(columns: Sequence[NDArray[Any]]) -> Digests:
    """Hash each row to a 64-bit word; two rows agree by chance with probability 2^-64.

    Nobody can search for such rows, because the digests of users are secret.
    """
    word = columns[0].astype(np.uint64)
    for column in columns[1:]:
        word = (word ^ (word >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        word ^= column.astype(np.int64).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return word ^ (word >> np.uint64(32))


def _at(marks: MarkSet, which: NDArray[Any]) -> MarkSet:
    facts = tuple(fact[which] for fact in marks.facts)
    return marks._replace(digests=marks.digests[which], facts=facts)

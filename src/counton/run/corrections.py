"""Rows that take the place of earlier ones with their ids: a minus there, and a plus here.

Of each id the state remembers the row that counts: window, group and value, how often it was
corrected, and whether it was taken back. A later row with this id and other content is a
correction: the row that counts is taken back from its own window, and the new one is added to its
own. A row whose sign is -1 takes back alone. Both are versions of their windows, as of the night in
which the correction comes. What becomes of a row hangs on the rows with its id alone, and on the
night.

A row is corrected no more often than the stream declares: noise is calibrated to that
(`counton.strategies.WindowVersions`). It is corrected as long as its window is not final, since a
final number never changes. Corrections that come too late, or too often, change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.exact import name_alone
from counton.run.first_rows import HeldRows
from counton.state import seen as marks

_Flags = NDArray[np.bool_]
_Numbers = NDArray[np.int64]
_CELL = ("step", "group", "total")
#: What is remembered of a row: numbers, of which the last one is its last window.
FACTS = 6


@name_alone
class Records(NamedTuple):
    """What is remembered of the id of each row. Secret.

    Attributes:
        there: whether anything is.
        step, group, total: of the row that counts.
        used: how often it was corrected.
        counts: whether it counts, and was not taken back.
        last: the last window of any row with the id: as long as that all records are kept, so that
            no earlier one outlives the newest.
    """

    there: _Flags
    step: _Numbers
    group: _Numbers
    total: _Numbers
    used: _Numbers
    counts: _Flags
    last: _Numbers

    @classmethod
    def of(cls, ids: NDArray[np.uint64], parts: Sequence[marks.MarkSet]) -> Records:
        """Of some ids, each once, by what is remembered part by part; the newest record of each."""
        order = np.argsort(ids)
        ordered, rows, facts = ids[order], [], []
        for part in parts:
            at = np.searchsorted(ordered, part.digests)
            at[at == len(ids)] = 0
            same = np.flatnonzero(ordered[at] == part.digests) if len(ids) else at[:0]
            rows.append(order[at[same]])
            facts.append(np.stack([fact[same] for fact in part.facts]))
        there, known = np.zeros(len(ids), np.bool_), np.zeros((FACTS, len(ids)), np.int64)
        if rows:
            row, said = np.concatenate(rows), np.concatenate(facts, axis=1)
            newest = np.argsort(said[3], kind="stable")  # the last correction is written last
            known[:, row[newest]] = said[:, newest]
            there[row] = True
        step, group, total, used, counts, last = known
        return cls(there, step, group, total, used, counts == 1, last)


@name_alone
@dataclass(frozen=True)
class CorrectedRows:
    """What rows do, one for each id. Secret.

    Attributes:
        added: rows that count from now on.
        taken: cells of rows that count no more: ``step``, ``group`` and ``total``.
        remembered: the new records, without those that stay as they were.
        known: rows that change nothing, since they count already or were taken back.
        corrected: rows that take the place of others, or take them back.
        often: corrections of rows that were corrected as often as they may be.
        late: corrections of rows whose windows are final.
    """

    added: HeldRows
    taken: pl.DataFrame
    remembered: marks.MarkSet
    known: int
    corrected: int
    often: int
    late: int


def correct(rows: HeldRows, before: Records, most: int, first_open: int) -> CorrectedRows:
    """What becomes of rows, each with an id of its own.

    Args:
        rows: one for each id; their own windows are open.
        before: what is remembered of their ids.
        most: how often a row may be corrected.
        first_open: the first window that is not final.

    >>> row = HeldRows(*(np.array([x]) for x in (0, 5, 0, 7)), id=np.array([9], np.uint64))
    >>> nothing = Records.of(row.id, [])
    >>> first = correct(row, nothing, 1, 1)
    >>> len(first.added), first.taken.height, first.corrected
    (1, 0, 0)
    >>> again = Records.of(row.id, [first.remembered])
    >>> correct(row, again, 1, 1).known
    1
    >>> other = HeldRows(*(np.array([x]) for x in (0, 6, 0, 8)), id=row.id)
    >>> found = correct(other, again, 1, 1)
    >>> len(found.added), found.taken.rows(), found.corrected
    (1, [(5, 0, 7)], 1)
    >>> correct(row, Records.of(row.id, [first.remembered, found.remembered]), 1, 1).often
    1
    >>> correct(other, again, 1, 6).late
    1
    """
    assert rows.id is not None
    minus = np.zeros(len(rows), np.bool_) if rows.sign is None else rows.sign < 0
    same = before.counts & ~minus
    for name in _CELL:
        same &= getattr(before, name) == getattr(rows, name)
    idle = same | (minus & ~before.counts)  # counts already, or there is nothing to take back
    change = before.there & ~idle
    often = change & (before.used >= most)
    late = change & ~often & before.counts & (before.step < first_open)
    change &= ~often & ~late
    new = ~before.there & ~minus
    taken = change & before.counts
    places = np.flatnonzero(new | change)
    some, used = rows.at(places), before.used[places] + change[places]
    assert some.id is not None
    order = np.argsort(some.id)
    facts: Any = (*(np.asarray(getattr(some, name), np.int64) for name in _CELL), used)
    facts = (*facts, (~minus[places]).astype(np.int64), np.maximum(before.last[places], facts[0]))
    remembered = marks.MarkSet("id", 0, some.id[order], tuple(fact[order] for fact in facts))
    return CorrectedRows(
        rows.at(np.flatnonzero((new | change) & ~minus)),
        pl.DataFrame({name: getattr(before, name)[taken] for name in _CELL}),
        remembered,
        *(int(each.sum()) for each in (idle, change, often, late)),
    )


def without(cells: pl.DataFrame, taken: pl.DataFrame) -> pl.DataFrame:
    """Sums of rows by cell, less those of rows that count no more."""
    if not taken.height:
        return cells
    less = taken.with_columns(-pl.col("rows"), -pl.col("total"))
    sums = pl.col("rows").sum(), pl.col("total").sum()
    both = pl.concat([cells, less.select(cells.columns)])
    found = both.group_by("step", "group", maintain_order=True).agg(*sums)
    return found.select(cells.columns).sort("step", "group")

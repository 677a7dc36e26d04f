"""Corrections: a row replaces an earlier row with the same id, which is subtracted.

For each id the state remembers the row that counts: window, group and value, how often it was
corrected, and whether it was cancelled. A later row with this id and other content is a correction:
the counted row is subtracted from its own window, and the new row is added to its own. A row with
sign -1 only cancels the earlier row. Both changes make new versions of their windows, in the run
that brings the correction. What happens to a row depends only on the rows with its id, and on the
run that brings them.

A row is corrected at most as often as the stream declares: the noise is calibrated to that
(`counton.strategies.WindowVersions`). It is corrected until its window is final, since a final
number never changes. Corrections that come too late, or too often, change nothing.
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
#: Number of facts that the state keeps with each id's digest; the last is the id's last window.
FACTS = 6


@name_alone
class Records(NamedTuple):
    """Remembered facts about the row with each id, as arrays with an entry for each id. Secret.

    Attributes:
        there: whether a row with the id was counted or cancelled before.
        step, group, total: window, group and value of the row that counts.
        used: number of corrections so far.
        counts: whether the row counts; False once it is cancelled.
        last: last window of any row with the id. All records of the id are kept until that window
            closes, so that an older record is never found without the newest.
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
        """Find the newest record (remembered facts about a row) of each id. ``ids`` are distinct
        digests of ids, ``parts`` the records that the stream has stored.
        """
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
    """Effects of a run's new rows on a stream in which a row may replace an earlier row with the
    same id. Secret.

    The new rows have distinct ids, so there is at most one effect for each id.

    Attributes:
        added: rows that count from now on.
        taken: earlier rows that no longer count and are to be subtracted: for each its window
            (``step``), ``group`` and value (``total``).
        remembered: digests of the ids whose facts (see `Records`) are new or have changed, with
            these facts, for the state to keep.
        known: number of rows without effect, because they count already or were cancelled.
        corrected: number of rows that replace an earlier row, or cancel it.
        often: number of corrections left out because the row had been corrected as often as the
            stream allows.
        late: number of corrections left out because the row's window is final.
    """

    added: HeldRows
    taken: pl.DataFrame
    remembered: marks.MarkSet
    known: int
    corrected: int
    often: int
    late: int


def correct(rows: HeldRows, before: Records, most: int, first_open: int) -> CorrectedRows:
    """Compute the effects of new rows with distinct ids on a stream that allows corrections.

    Args:
        rows: new rows, one for each id, in windows that are not final.
        before: remembered records of these ids.
        most: largest number of corrections of one row.
        first_open: first window that is not final.

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
    idle = same | (minus & ~before.counts)  # it counts already, or there is nothing to take back
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
    """Subtract the rows in ``taken``, which no longer count, from sums by window and group."""
    if not taken.height:
        return cells
    less = taken.with_columns(-pl.col("rows"), -pl.col("total"))
    sums = pl.col("rows").sum(), pl.col("total").sum()
    both = pl.concat([cells, less.select(cells.columns)])
    found = both.group_by("step", "group", maintain_order=True).agg(*sums)
    return found.select(cells.columns).sort("step", "group")

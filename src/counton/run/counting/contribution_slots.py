"""Counted rows that a later snapshot lacks, if the guarantee covers changes of users' rows.

Each unit has as many slots as rows of it count. A slot holds a counted row. If a snapshot lacks the
row, in a window that it covers and that is open, the row is retracted, and the slot is free for
another row of the unit; but a slot is replaced at most ``max_corrections`` times. So a slot counts
at most 1 + ``max_corrections`` rows and retracts at most ``max_corrections``, however often
snapshots change. Without ``max_corrections`` no row is retracted.

Slots are frames like rows (`contribution_choice`), with the column ``replaced``: how often the slot
was freed. A free slot has the window 0.
"""

from __future__ import annotations

from typing import NamedTuple

from counton.run.counting.contribution_choice import EFFECT, UNIT_COLUMNS
from counton.windowing.lazy_polars import polars as pl

#: Columns of the row that a slot holds; 0 in a free slot.
_ROW_OF_SLOT = ("window", "group", "total")
_PLACE_IN_UNIT = pl.int_range(pl.len()).over(UNIT_COLUMNS)


class ContributionSlots(NamedTuple):
    """The slots of some units, compared with a snapshot.

    Attributes:
        kept: slots that keep their rows.
        free: slots without a row.
        retracted: rows that no longer count.
        missing: number of rows that the snapshot lacks, and that stay counted.
    """

    kept: pl.DataFrame
    free: pl.DataFrame
    retracted: pl.DataFrame
    missing: int

    @classmethod
    def all_kept(cls, slots: pl.DataFrame) -> ContributionSlots:
        """Return slots beside new rows, which say nothing of them."""
        return cls(slots, slots.clear(), slots.clear(), missing=0)

    def filled(self, new: pl.DataFrame) -> pl.DataFrame:
        """Return all slots once new rows have taken free ones, those replaced least first.

        A row for which none is free takes a slot that was never used.

        Args:
            new: new rows that count, in the order in which they were chosen, so that the order of
                rows within a file decides nothing.
        """
        # The k-th new row of a unit takes its k-th free slot.
        free = self.free.sort("replaced", maintain_order=True).with_columns(place=_PLACE_IN_UNIT)
        placed = new.drop("replaced").with_columns(place=_PLACE_IN_UNIT)
        same_slot = [*UNIT_COLUMNS, "place"]
        still_free = free.join(placed, on=same_slot, how="anti")
        times_replaced = free.select([*same_slot, "replaced"])
        filled = placed.join(times_replaced, on=same_slot, how="left", maintain_order="left")
        filled = filled.with_columns(pl.col("replaced").fill_null(0))
        all_slots = [self.kept, still_free, filled]
        return pl.concat([slots.select(self.kept.columns) for slots in all_slots])


def compare_slots(
    slots: pl.DataFrame, snapshot: pl.DataFrame, covered: range, max_corrections: int
) -> ContributionSlots:
    """Compare slots with the rows of a snapshot in covered windows.

    Args:
        slots: slots of some units.
        snapshot: all rows of these units in the covered windows.
        covered: the windows of which the snapshot has all rows, and that may change.
        max_corrections: how often a slot may be replaced.
    """
    if not slots.height:
        return ContributionSlots.all_kept(slots)
    compared = _mark_missing(slots, snapshot, covered)
    is_free = pl.col("window") == 0
    is_retracted = pl.col("is_missing") & (pl.col("replaced") < max_corrections)
    retracted = compared.filter(is_retracted).select(slots.columns)
    freed = retracted.with_columns(pl.col("replaced") + 1, pl.col(_ROW_OF_SLOT) * 0)
    return ContributionSlots(
        kept=compared.filter(~is_retracted & ~is_free).select(slots.columns),
        free=pl.concat([compared.filter(is_free).select(slots.columns), freed]),
        retracted=retracted,
        missing=compared.filter(pl.col("is_missing") & ~is_retracted).height,
    )


def _mark_missing(slots: pl.DataFrame, snapshot: pl.DataFrame, covered: range) -> pl.DataFrame:
    """Return slots with a column that says whether the snapshot lacks their rows.

    Of slots with the same row as many are kept as the snapshot has such rows: those replaced most
    come first, since they have the fewest corrections left.
    """
    times = snapshot.group_by(EFFECT).agg(times_there=pl.len())
    compared = slots.sort("replaced", descending=True, maintain_order=True)
    compared = compared.join(times, on=EFFECT, how="left", maintain_order="left")
    is_there = pl.int_range(pl.len()).over(EFFECT) < pl.col("times_there").fill_null(0)
    is_covered = pl.col("window").is_between(covered.start, covered.stop, closed="left")
    return compared.with_columns(is_missing=~is_there & is_covered)

"""The choice of the rows that count: of each unit as many as its bound allows, and no row twice.

A unit is a user or, with periods, one user's period. A row that has counted stays counted, and
takes up room. Of the unit's new rows the first count while there is room, in the order of time,
name of the group, value, and digest of the id. So the choice depends on the unit's own rows alone,
and on the runs that brought them: with or without the unit, the same rows of all others count.

Rows are frames with the columns ``user`` (a digest), ``period``, ``us`` (time), ``window`` (its
number), ``group`` (its place), ``total`` (value), ``counting_step`` (the step that counts the row),
and perhaps ``id``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from counton.run.spec.terms import DistinctUser, PrivacyUnit, User
from counton.statistics.accumulator_statistic import RankDigit
from counton.windowing.lazy_polars import polars as pl

#: Columns that tell units apart.
UNIT_COLUMNS = ("user", "period")
#: Columns of a row that decide its effect: rows that agree in them need not be told apart.
EFFECT = (*UNIT_COLUMNS, "window", "group", "total")


@dataclass(frozen=True, repr=False)
class ChoiceCounts:
    """Exact numbers of rows that do not count, for the operator.

    Attributes:
        beyond_bound: rows for which their users had no room; of a snapshot, those of windows that
            this run releases.
        duplicates: rows that an earlier run has counted.
        after_final: rows of windows or periods that are closed.
        missing: counted rows that a snapshot lacks, and that stay counted.
        retracted: counted rows that a snapshot lacks, and that count no more.
        new_past: new rows of windows or periods that are closed, of an input that has all rows.
        dropped_early: rows beyond a bound by window, dropped before all rows were read, so before
            it was known which windows the run releases.
    """

    beyond_bound: int = 0
    duplicates: int = 0
    after_final: int = 0
    missing: int = 0
    retracted: int = 0
    new_past: int = 0
    dropped_early: Counter[int] = field(default_factory=Counter)

    def plus(self, other: ChoiceCounts) -> ChoiceCounts:
        """Return the sums of both."""
        names = [item.name for item in fields(self)]
        return ChoiceCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


def in_order(rows: pl.DataFrame, groups: Sequence[str]) -> pl.DataFrame:
    """Return the rows unit by unit, and those of each in the order in which they count.

    Groups stand in the order of their names: that of their places may depend on others' rows.

    Args:
        groups: names of all groups, by their places.
    """
    ranks = pl.Series(groups, dtype=pl.String).rank("ordinal")
    order = [*UNIT_COLUMNS, "us", "rank_of_group", "total", "id"]
    ranked = rows.with_columns(rank_of_group=pl.lit(ranks).gather(pl.col("group")))
    if "user" in rows.columns:  # a sort by several columns is fast if the first is in order
        ranked = ranked[_order_by_first_bits(ranked["user"])]
    order = [name for name in order if name in ranked.columns]
    return ranked.sort(order, maintain_order=True).drop("rank_of_group")


def _order_by_first_bits(digests: pl.Series) -> NDArray[np.uint64]:
    """Return the numbers of rows in the order of the first bits of their digests, then of rows.

    Each row's number stands in the last bits, so that one fast sort of integers gives the order.
    """
    bits = len(digests).bit_length()
    last_bits = np.uint64(2**bits - 1)
    keys = digests.to_numpy() & ~last_bits
    keys |= np.arange(len(digests), dtype=np.uint64)
    keys.sort()
    return keys & last_bits


def of_other_ids(rows: pl.DataFrame, counted_ids: pl.Series) -> pl.DataFrame:
    """Return the rows whose ids have not counted."""
    return rows.filter(~pl.col("id").is_in(counted_ids.implode()))


def first_of_each_id(new: pl.DataFrame, groups: Sequence[str]) -> pl.DataFrame:
    """Return the first row of each id."""
    is_repeated = pl.len().over("id") > 1
    repeated = in_order(new.filter(is_repeated), groups)
    first = repeated.unique("id", keep="first", maintain_order=True)
    return pl.concat([new.filter(~is_repeated), first])


def not_counted_before(
    rows: pl.DataFrame, counted: pl.DataFrame, groups: Sequence[str]
) -> pl.DataFrame:
    """Return the rows of a snapshot without those that have counted, which it repeats.

    Of rows with the same effect the first have counted: as many as ``counted`` has.
    """
    if not counted.height:
        return rows
    times = counted.group_by(EFFECT).agg(times_counted=pl.len())
    compared = rows.join(times, on=EFFECT, how="left", maintain_order="left")
    compared = compared.with_columns(pl.col("times_counted").fill_null(0))
    never_counted = compared.filter(pl.col("times_counted") == 0)
    doubtful = in_order(compared.filter(pl.col("times_counted") > 0), groups)
    is_new = _place_among(EFFECT) >= pl.col("times_counted")
    return pl.concat([never_counted, doubtful.filter(is_new)]).drop("times_counted")


def within_bound(
    rows: pl.DataFrame, counted: pl.DataFrame, privacy_unit: PrivacyUnit, groups: Sequence[str]
) -> pl.DataFrame:
    """Return the new rows for which their units have room: all, if no users are protected.

    They are in the order in which they count (`in_order`), if users are protected.

    Args:
        rows: new rows.
        counted: rows that earlier runs have counted.
        groups: names of all groups, by their places.
    """
    if not isinstance(privacy_unit, User | DistinctUser):
        return rows
    candidates = in_order(rows, groups).with_columns(is_counted=pl.lit(value=False))
    if counted.height:
        units_with_new_rows = rows.select(UNIT_COLUMNS).unique()
        theirs = counted.join(units_with_new_rows, on=UNIT_COLUMNS, how="semi")
        theirs = theirs.with_columns(is_counted=pl.lit(value=True))
        together = pl.concat([theirs, candidates], how="diagonal")
        candidates = together.sort(UNIT_COLUMNS, maintain_order=True)
    chosen = _first_of_unit(candidates, privacy_unit)
    return chosen.filter(~pl.col("is_counted")).select(rows.columns)


def _first_of_unit(candidates: pl.DataFrame, privacy_unit: User | DistinctUser) -> pl.DataFrame:
    """Return the first of each unit's rows, as many as its bound allows, and all counted ones."""
    if isinstance(privacy_unit, DistinctUser):
        once_in_each_group = _first(candidates, (*UNIT_COLUMNS, "group"), 1)
        return _first(once_in_each_group, UNIT_COLUMNS, privacy_unit.max_groups)
    if privacy_unit.max_contributions_per_group is not None:
        in_groups = _first(
            candidates, (*UNIT_COLUMNS, "group"), privacy_unit.max_contributions_per_group
        )
        return _in_first_groups(in_groups, privacy_unit.max_contributions)
    if privacy_unit.once_per_window:
        # It says who counts in a window, so a late row belongs to its own window. No noise depends
        # on it: a user's rows may count in any steps.
        candidates = _first(candidates, (*UNIT_COLUMNS, "window", "group"), 1)
    if privacy_unit.max_contributions_per_window is not None:
        # Noise hides so many rows in one step, so a late row takes up room of the step that counts
        # it.
        candidates = _first(
            candidates, (*UNIT_COLUMNS, "counting_step"), privacy_unit.max_contributions_per_window
        )
    return _first(candidates, UNIT_COLUMNS, privacy_unit.max_contributions)


def _first(rows: pl.DataFrame, alike: Sequence[str], most: int) -> pl.DataFrame:
    """Return the first ``most`` of the rows that agree in some columns, and all counted ones."""
    place = _place_in_unit(rows) if tuple(alike) == UNIT_COLUMNS else _place_among(alike)
    return rows.filter((place < most) | pl.col("is_counted"))


def _place_in_unit(rows: pl.DataFrame) -> pl.Series:
    """Return the place, from 0 on, of each row in its unit. The rows stand unit by unit."""
    unit = pl.struct(UNIT_COLUMNS).rle_id().set_sorted()
    first_of_unit = pl.col("row").min().over("unit")
    numbered = rows.select(UNIT_COLUMNS).with_row_index("row").with_columns(unit=unit)
    return numbered.select(pl.col("row") - first_of_unit).to_series()


def _in_first_groups(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return the rows in the first ``most`` groups of each unit, and in groups that counted."""
    first_of_group = rows.unique((*UNIT_COLUMNS, "group"), keep="first", maintain_order=True)
    groups = _first(first_of_group, UNIT_COLUMNS, most).select(*UNIT_COLUMNS, "group")
    return rows.join(groups, on=(*UNIT_COLUMNS, "group"), how="semi", maintain_order="left")


def _place_among(alike: Sequence[str]) -> pl.Expr:
    """Return the place of a row, from 0 on, among those that agree in some columns."""
    return pl.int_range(pl.len()).over(alike)


def with_ranks(
    rows: pl.DataFrame,
    counted: pl.DataFrame,
    digits: Sequence[RankDigit],
    groups: Sequence[str],
) -> pl.DataFrame:
    """Return chosen rows with a column ``code``: the value, and the row's rank among its user's.

    A rank depends on the user's own rows alone, new and counted ones.

    Args:
        rows: new rows that count.
        counted: rows that earlier runs have counted.
        digits: how ranks are written into the code of a row.
    """
    if not digits:
        return rows.with_columns(code=pl.col("total"))
    new = in_order(rows, groups).with_columns(is_counted=pl.lit(value=False))
    candidates = new
    if counted.height:
        theirs = counted.join(rows.select(UNIT_COLUMNS).unique(), on=UNIT_COLUMNS, how="semi")
        theirs = theirs.with_columns(is_counted=pl.lit(value=True))
        candidates = pl.concat([theirs, new], how="diagonal")
    code = pl.col("total")
    for digit in digits:
        group_of_statistic = pl.col("total") // digit.unit % digit.size
        rank = 1 + pl.int_range(pl.len()).over(*UNIT_COLUMNS, "group", group_of_statistic)
        for place, counted_rank in enumerate(digit.ranks):
            code = code + (rank == counted_rank) * (digit.unit << place)
    ranked = candidates.with_columns(code=code).filter(~pl.col("is_counted"))
    return ranked.select(*rows.columns, "code")

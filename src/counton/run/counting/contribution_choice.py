"""The choice of the rows that count: of each unit as many as its bound allows, and no row twice.

A unit is a user or, with periods, one user's period. A row that has counted stays counted, and
takes up room. Of the unit's new rows the first count while there is room, in the order of time,
name of the group, value, and digest of the id. So the choice depends on the unit's own rows alone,
and on the runs that brought them: with or without the unit, the same rows of all others count.

Rows are frames with the columns ``user`` (a digest), ``period``, ``us`` (time), ``window`` (its
number), ``group`` (its place), ``total`` (value), ``step_of_bound`` (the step that counts the row;
of revised windows, the window), and perhaps ``id``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Integers, extremes
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
        uncounted_late: rows of a snapshot in windows that are closed, which no run has counted
            although their users have room.
        dropped_early: rows beyond a bound by window, dropped before all rows were read, so before
            it was known which windows the run releases.
    """

    beyond_bound: int = 0
    duplicates: int = 0
    after_final: int = 0
    missing: int = 0
    retracted: int = 0
    new_past: int = 0
    uncounted_late: int = 0
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
    return rows[_counting_order(rows, groups).rows]


class _CountingOrder(NamedTuple):
    """The order of `in_order`.

    Attributes:
        rows: numbers of the rows.
        begins_unit: whether each of these rows is the first one of its unit.
    """

    rows: Integers
    begins_unit: NDArray[np.bool_]


def _places(begins: NDArray[np.bool_]) -> Integers:
    """Return the place, from 0 on, of each row in its unit, given whether it is the first one."""
    firsts = np.flatnonzero(begins)
    lengths = np.diff(firsts, append=len(begins))
    return np.arange(len(begins)) - np.repeat(firsts, lengths)


def _counting_order(rows: pl.DataFrame, groups: Sequence[str]) -> _CountingOrder:
    """Return the order of `in_order`.

    Sorts of single integers, which hold the number of their row, are faster than a sort by several
    columns. They give the order of most rows, because most rows of a user have times of their own.
    """
    order = None
    if "user" in rows.columns and rows.height:
        order = _order_by_users_and_times(rows, groups)
    if order is not None:
        return order
    numbers = _order_by_all(rows, groups)
    return _CountingOrder(numbers, _begins_unit(rows[numbers]))


def _order_by_users_and_times(rows: pl.DataFrame, groups: Sequence[str]) -> _CountingOrder | None:
    """Return the order of `in_order`; None if users and times cannot be sorted one by one.

    The first bits of two digests may be equal. Where clocks are set back, a later time may belong
    to an earlier period.
    """
    times = rows["us"].to_numpy()
    order_by_time = _order_by_integers([times])
    if order_by_time is None:
        order_by_time = np.argsort(times, kind="stable")
    users = rows["user"].to_numpy()[order_by_time]
    order_by_user = _order_by_first_bits(users)
    users = users[order_by_user]
    order = order_by_time[order_by_user]
    begins_unit = np.ones(len(order), bool)
    np.not_equal(users[1:], users[:-1], out=begins_unit[1:])
    is_in_order = users[1:] >= users[:-1]
    periods = rows["period"].to_numpy()
    if periods.min() != periods.max():
        periods = periods[order]
        is_in_order &= begins_unit[1:] | (periods[1:] >= periods[:-1])
        begins_unit[1:] |= periods[1:] != periods[:-1]
    if not is_in_order.all():
        return None
    times = times[order]
    is_tied = ~begins_unit[1:] & (times[1:] == times[:-1])
    if is_tied.any():
        _decide_ties(rows, order, is_tied, groups)
    return _CountingOrder(order, begins_unit)


def _decide_ties(
    rows: pl.DataFrame, order: Integers, is_tied: NDArray[np.bool_], groups: Sequence[str]
) -> None:
    """Put rows of one unit and time in the order of their groups, values and ids.

    Args:
        rows: the rows.
        order: numbers of rows, by units and times; changed in place.
        is_tied: whether each of these rows but the first has the unit and time of the one before.
        groups: names of all groups, by their places.
    """
    begins_tie = np.concatenate([[True], ~is_tied])
    ends_tie = np.concatenate([~is_tied, [True]])
    places = np.flatnonzero(~(begins_tie & ends_tie))
    numbers = order[places]
    tied = rows[numbers]
    decided = None
    if "id" not in tied.columns:
        number_of_tie = np.cumsum(begins_tie[places])
        ranks = _ranks_of_groups(tied, groups).to_numpy().astype(np.int64)
        decided = _order_by_integers([number_of_tie, ranks, tied["total"].to_numpy()])
    if decided is None:
        decided = _order_by_all(tied, groups)
    order[places] = numbers[decided]


def _order_by_all(rows: pl.DataFrame, groups: Sequence[str]) -> Integers:
    """Return the numbers of rows, sorted by each column that decides the order."""
    numbered = rows.with_columns(rank_of_group=_ranks_of_groups(rows, groups)).with_row_index("row")
    columns = [*UNIT_COLUMNS, "us", "rank_of_group", "total", "id"]
    order = [name for name in columns if name in numbered.columns]
    return numbered.sort(order, maintain_order=True)["row"].to_numpy().astype(np.int64)


def _ranks_of_groups(rows: pl.DataFrame, groups: Sequence[str]) -> pl.Series:
    """Return the rank of the name of each row's group among all names."""
    ranks = pl.Series(groups, dtype=pl.String).rank("ordinal")
    return ranks.gather(rows["group"])


def _order_by_integers(columns: Sequence[Integers]) -> Integers | None:
    """Return the numbers of rows, sorted by columns of integers, and then by the numbers.

    Returns:
        None if a row's integers and its number together take more than 64 bits.
    """
    limits = [extremes(column) for column in columns]
    widths = [(largest - least).bit_length() for least, largest in limits]
    height = len(columns[0])
    bits_of_row = height.bit_length()
    if sum(widths) + bits_of_row > 64:
        return None
    keys = np.zeros(height, np.uint64)
    for column, (least, _), width in zip(columns, limits, widths, strict=True):
        keys <<= np.uint64(width)
        keys |= (column - least).view(np.uint64)
    keys <<= np.uint64(bits_of_row)
    return _sorted_rows(keys, bits_of_row)


def _order_by_first_bits(digests: NDArray[np.uint64]) -> Integers:
    """Return the numbers of rows in the order of the first bits of their digests, then of rows."""
    bits_of_row = len(digests).bit_length()
    return _sorted_rows(digests & ~np.uint64(2**bits_of_row - 1), bits_of_row)


def _sorted_rows(keys: NDArray[np.uint64], bits_of_row: int) -> Integers:
    """Return the numbers of rows, sorted by keys whose last bits are 0, and then by the numbers.

    Each row's number stands in the last bits, so that one fast sort of integers gives the order.
    """
    keys |= np.arange(len(keys), dtype=np.uint64)
    keys.sort()
    keys &= np.uint64(2**bits_of_row - 1)
    return keys.view(np.int64)


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
    order = _counting_order(rows, groups)
    if not counted.height:  # rows that are beyond a bound need not be put in order
        most_rows = _most_rows_of_unit(privacy_unit)
        if most_rows is not None:
            return rows[order.rows[_places(order.begins_unit) < most_rows]]
    candidates = rows[order.rows].with_columns(is_counted=pl.lit(value=False))
    if counted.height:
        units_with_new_rows = rows.select(UNIT_COLUMNS).unique()
        theirs = counted.join(units_with_new_rows, on=UNIT_COLUMNS, how="semi")
        theirs = theirs.with_columns(is_counted=pl.lit(value=True))
        together = pl.concat([theirs, candidates], how="diagonal")
        candidates = together.sort(UNIT_COLUMNS, maintain_order=True)
    chosen = _first_of_unit(candidates, privacy_unit)
    return chosen.filter(~pl.col("is_counted")).select(rows.columns)


def _most_rows_of_unit(privacy_unit: User | DistinctUser) -> int | None:
    """Return how many rows of a unit count, whatever their windows and groups; None if these
    decide, too.
    """
    if isinstance(privacy_unit, DistinctUser) or privacy_unit.once_per_window:
        return None
    other_bounds = (
        privacy_unit.max_contributions_per_window,
        privacy_unit.max_contributions_per_group,
    )
    return privacy_unit.max_contributions if other_bounds == (None, None) else None


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
    most_a_window = privacy_unit.max_contributions_per_window
    if most_a_window is not None:
        # A row beyond the bound of its own window never counts. Otherwise, an input that repeats
        # this row later would count it as a late row.
        candidates = _first(candidates, (*UNIT_COLUMNS, "window"), most_a_window)
        # Noise hides so many rows in one step, so a late row takes up room of the step that counts
        # it.
        candidates = _first(candidates, (*UNIT_COLUMNS, "step_of_bound"), most_a_window)
    return _first(candidates, UNIT_COLUMNS, privacy_unit.max_contributions)


def _first(rows: pl.DataFrame, alike: Sequence[str], most: int) -> pl.DataFrame:
    """Return the first ``most`` of the rows that agree in some columns, and all counted ones."""
    is_of_units = tuple(alike) == UNIT_COLUMNS
    place = pl.Series(_places(_begins_unit(rows))) if is_of_units else _place_among(alike)
    return rows.filter((place < most) | pl.col("is_counted"))


def _begins_unit(rows: pl.DataFrame) -> NDArray[np.bool_]:
    """Return whether each row is the first one of its unit. The rows stand unit by unit."""
    begins = np.ones(rows.height, bool)
    begins[1:] = False
    for column in rows.select(name for name in UNIT_COLUMNS if name in rows.columns):
        cells = column.to_numpy()
        begins[1:] |= cells[1:] != cells[:-1]
    return begins


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

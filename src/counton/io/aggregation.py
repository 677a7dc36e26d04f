"""Exact sums of *marked* rows (`assign_rows`) by window, group and place, in one pass.

A *place* is one of the exact sums that a statistic keeps for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from counton.base.exact import name_alone, refuse_overflow
from counton.base.private import Private, reveal
from counton.io.bad_rows import set_bad_rows_aside, set_bad_rows_aside_elsewhere, unknown_groups
from counton.io.remote_rows import RemoteRows
from counton.io.row_assignment import (
    Adds,
    RowMapping,
    assign_part,
    assign_rows,
    by_row,
    cells_across,
    collect,
    parts_of_columns,
    row_number_name,
    unreadable_part,
    with_total,
)
from counton.io.sources import Rows, Source, unreadable_errors
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import NO_MOMENT

#: Number of rows that are added up at a time if they are also kept in memory.
ROWS_AT_A_TIME = 2**18
#: With more groups than this, no table of groups is kept in memory while rows are read.
MANY_GROUPS = 2**22
#: With more windows of less than a day times groups than this, most of them have few rows.
MANY_CELLS = 2**22


def cells_of(
    rows: Rows, mapping: RowMapping, domain: Sequence[str] | None, alike: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Add up one part's rows by window, group and place; `sum_cells` adds up parts.

    Args:
        alike: if each row stands for several equal ones, their ``number`` and, if times differ, the
            ``newest`` in microseconds.

    Returns:
        ``code`` (one number for window, group and chosen sums), ``group`` (label if groups are
        found, else null), ``rows`` and ``us`` (newest time). If rows add other amounts than 1,
        ``total N`` (int64, modulo 2^64) and the sum of absolute values ``magnitude N`` (float64)
        for each entry N.
    """
    marked = assign_part(rows, mapping)
    number = None
    if alike is not None:
        marked = marked.collect().hstack(alike).lazy()
        number = pl.col("number")
        if "newest" in alike.columns:
            us = pl.when(pl.col("us") > NO_MOMENT).then("newest").otherwise("us")
            marked = marked.with_columns(us=us)
    return _cells_of(marked, mapping, domain, number)


def _cells_of(
    marked: pl.LazyFrame,
    mapping: RowMapping,
    domain: Sequence[str] | None,
    number: pl.Expr | None = None,
) -> pl.DataFrame:
    if mapping.unlisted_groups == "discover":
        cells = _add(
            marked, pl.col("window"), mapping.adds, newest=True, by=["group"], number=number
        )
    else:
        cells = sums_by_cell(marked, domain, mapping.adds, newest=True, number=number)
        cells = cells.with_columns(group=pl.lit(None, pl.String))
    sums = [name for name in cells.collect_schema().names() if name not in ("code", "group")]
    return cells.select("code", "group", *sums).collect()


def sum_cells(cells: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up sums of several parts by code and, if there is one, group; the newest time is kept."""
    together = pl.concat(cells)
    by = [name for name in ("code", "group") if name in together.columns]
    newest = [pl.col("us").max()] if "us" in together.columns else []
    sums = pl.exclude(*by, "us").sum()
    return together.group_by(by).agg(*newest, sums).select(together.columns)


def by_place(cells: pl.DataFrame, domain: Sequence[str], adds: Adds | None) -> pl.DataFrame:
    """Return sums by positions in ``domain``, not labels; an undeclared one comes after the last.

    >>> cells = {"code": [1, 2], "group": ["b", "?"], "rows": [3, 1], "us": [0, 0]}
    >>> by_place(pl.DataFrame(cells), ["a", "b"], None).sort("code")["code"].to_list()
    [4, 8]
    """
    across = cells_across(adds)
    width = len(domain) + 1
    window = pl.col("code") // across
    rest = pl.col("code") % across
    code = (window * width + pl.col("place")) * across + rest
    placed = _place(cells.lazy(), domain).collect()
    return sum_cells([placed.with_columns(code=code, group=pl.lit(None, pl.String)).drop("place")])


def labels_of(cells: pl.DataFrame, mapping: RowMapping) -> pl.DataFrame:
    """Return the labels of groups within the windows, and the first window of each.

    Args:
        cells: sums by code, as `sum_cells` returns them, with a column of groups.
        mapping: the columns and windows by which rows were summed.

    Returns:
        A row for each group, with the columns ``group`` and ``window``. Rows outside the windows
        are ignored.
    """
    labelled = cells.select("group", window=pl.col("code") // cells_across(mapping.adds)).filter(
        pl.col("window").is_between(1, mapping.windows.steps), pl.col("group").is_not_null()
    )
    return labelled.group_by("group").agg(pl.col("window").min())


def pick_rows(rows: Rows, mapping: RowMapping, condition: pl.Expr) -> pl.DataFrame:
    """Return original rows by an expression over the columns of `assign_rows`."""
    row_numbers = (
        assign_part(rows, mapping)
        .with_row_index("row")
        .filter(condition)
        .select("row")
        .collect()["row"]
    )
    names = rows.of_file(mapping.columns.names)
    number = row_number_name(names)
    numbered = (
        rows.scan(names).with_row_index(number).filter(pl.col(number).is_in(row_numbers.implode()))
    )
    return numbered.select(names).collect()


def candidates(
    rows: Rows, mapping: RowMapping, domain: Sequence[str] | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return one part's rows that could count, and the sums of all its rows from `cells_of`.

    The first lie within the windows, with a known group (its position in ``domain``) and values.
    """
    frame = assign_part(rows, mapping).collect()
    could = pl.col("window").is_between(1, mapping.windows.steps)
    if mapping.columns.group is not None:
        could &= pl.col("group").is_not_null()
    if mapping.adds is not None and by_row(mapping.adds):
        could &= pl.col("total") >= 0
    kept_rows = frame
    if mapping.columns.group is not None and domain is not None:
        place = pl.col("group").cast(pl.Enum(list(domain)), strict=False).to_physical()
        kept_rows = frame.with_columns(group=place.cast(pl.UInt32))
    return kept_rows.filter(could), _cells_of(frame.lazy(), mapping, domain)


def sums_by_cell(
    rows: pl.LazyFrame, domain: Sequence[str] | None, adds: Adds | None, **more: Any
) -> pl.LazyFrame:
    """Add up rows by window and position of the group in ``domain``."""
    # A row's window and group as one number; below 0 for a bad row.
    code = pl.col("window")
    if domain is not None:
        code = code * (len(domain) + 1) + pl.col("place")
        rows = _place(rows, domain)
    return _add(rows, code, adds, **more)


def _place(rows: pl.LazyFrame, domain: Sequence[str]) -> pl.LazyFrame:
    """Add the position of each row's group; the length of the list if it is not declared."""
    group = pl.col("group")
    if rows.collect_schema()["group"] != pl.String:  # categories of the domain: rows of people
        place = group.to_physical().fill_null(len(domain))
    else:
        find = GroupNames(domain).finder()
        place = group.map_batches(
            lambda names: pl.Series(find(names)), return_dtype=pl.Int32, is_elementwise=True
        )
    return rows.with_columns(place=place.cast(pl.Int64))


def sums_by_label(
    rows: pl.LazyFrame,
    mapping: RowMapping,
    domain: Sequence[str] | None,
    source: Source,
    *,
    raw: bool = False,
) -> pl.DataFrame:
    """Add up rows by window and label, then by position in ``domain``.

    This is faster than finding every row's position, but not for very many undeclared labels, all
    of which are held. ``raw``: rows have labels in place of one value (`assign_rows`).
    """
    # With many groups, the positions of all rows would also need a table larger than the names.
    adds = mapping.adds
    by = [] if domain is None else ["group"]
    if raw:
        # Equal rows are counted first, so that each distinct row is encoded only once.
        labels = [name for name in rows.collect_schema().names() if name.startswith("part ")]
        aggregates = [pl.len().cast(pl.Int64).alias("rows"), pl.col("us").max()]
        equal = rows.group_by(pl.col("window").alias("code"), *by, *labels).agg(aggregates)
        alike = with_total(collect(source, equal), mapping).lazy()
        number = pl.col("rows")
        sums = _add(alike, pl.col("code"), adds, newest=True, by=by, number=number).collect()
    else:
        sums = collect(source, _add(rows, pl.col("window"), adds, newest=True, by=by))
    if domain is None:
        return sums
    across = cells_across(adds)
    window = pl.col("code") // across
    rest = pl.col("code") % across
    places = _places_of(sums["group"], domain)
    code = (window * (len(domain) + 1) + pl.lit(places)) * across + rest
    unknown = places == len(domain)
    cells = sums.with_columns(code=code).drop("group")
    if not unknown.any():
        return cells
    return pl.concat([cells.filter(~unknown), sum_cells([cells.filter(unknown)])])


def _places_of(labels: pl.Series, domain: Sequence[str]) -> pl.Series:
    """Return each label's position; the length of the list for undeclared ones."""
    places = np.full(len(labels), len(domain), np.int64)
    indexed = labels.alias("group").to_frame().with_row_index("row")
    # A join holds several times its input, so labels are joined some at a time if names are few.
    at_a_time = max(ROWS_AT_A_TIME, len(domain))
    for start, names in GroupNames(domain).parts():
        placed = names.to_frame().with_row_index("place")
        for piece in indexed.iter_slices(at_a_time):
            matches = piece.join(placed, on="group", how="inner")
            places[matches["row"].to_numpy()] = matches["place"].to_numpy().astype(np.int64) + start
    return pl.Series("place", places)


def added_up(
    parts: Iterable[pl.DataFrame], groups: int, adds: Adds | None, number: pl.Expr
) -> pl.DataFrame:
    """Add up ``window``, ``group`` (position) and ``total`` (Int64), as in `Aggregates.cells`.

    ``number``: how many times each row counts; below 0 it is taken back.
    """
    code = pl.col("window") * groups + pl.col("group")
    none = pl.DataFrame(schema=dict.fromkeys(("window", "group", "total", "number"), pl.Int64))
    adding = partial(_add, code=code, adds=adds, number=number)
    sums = _sum_batches(parts, none, adding).sort("code")
    cells = sums["code"] // cells_across(adds)
    return _by_place(sums.with_columns(window=cells // groups, group=cells % groups), adds)


def _sum_batches(
    batches: Iterable[pl.DataFrame],
    none: pl.DataFrame,
    adding: Callable[[pl.LazyFrame], pl.LazyFrame],
) -> pl.DataFrame:
    """Add up each frame by ``adding``, then the sums; ``none`` is the result without frames."""
    added: list[pl.DataFrame] = []
    least = 0
    for batch in batches:
        added.append(adding(batch.lazy()).collect())
        if sum(map(len, added)) > 2 * least + ROWS_AT_A_TIME:
            added = [sum_cells(added)]
            least = len(added[0])
    if not added:
        return adding(none.lazy()).collect()
    return added[0] if len(added) == 1 else sum_cells(added)


def _add(
    rows: pl.LazyFrame,
    code: pl.Expr,
    adds: Adds | None,
    *,
    newest: bool = False,
    by: Sequence[str] = (),
    number: pl.Expr | None = None,
) -> pl.LazyFrame:
    """Add up the number of rows of each code, and what they add to each sum.

    ``newest``: also the newest time. ``number``: of events for which each row stands.
    """
    weight = pl.lit(1, pl.Int64) if number is None else number
    n_rows = pl.len().cast(pl.Int64) if number is None else number.sum()
    sums = [n_rows.alias("rows")]
    if newest:
        sums.append(pl.col("us").max())
    if adds is not None:
        entries = adds.entries(pl.col("total"))
        if by_row(adds):
            in_range = pl.col("total") >= 0
            choice = pl.lit(0, pl.Int64)
            places = [place for place, _ in entries if not isinstance(place, int)]
            for place, span in zip(places, adds.spans, strict=True):
                in_range &= (place >= span.start) & (place < span.stop)
                choice = choice * len(span) + (place - span.start)
            none = cells_across(adds) - 1
            code = code * (none + 1) + pl.when(in_range).then(choice).otherwise(none)
        if not adds.counts_rows:
            for place, (_, amount) in enumerate(entries):
                if isinstance(amount, int):  # equal for each row
                    added = n_rows * amount
                    size = n_rows * float(abs(amount))
                else:
                    added = (amount * weight).sum()
                    size = (amount.cast(pl.Float64) * weight).abs().sum()
                sums.append(added.alias(f"total {place}"))
                sums.append(size.alias(f"magnitude {place}"))
    return rows.group_by(code.alias("code"), *by).agg(sums)


def _by_place(cells: pl.DataFrame, adds: Adds | None) -> pl.DataFrame:
    """Convert sums of `_add` to a row for each window, group and accumulator."""
    group = pl.col("group")
    names = ("window", "cell", "rows", "total")
    if adds is None:
        return cells.select("window", cell="group", rows="rows", total="rows")
    across = cells_across(adds)
    parts = []
    radix = across - 1
    spans = iter(adds.spans if across > 1 else ())
    for number, (place, _) in enumerate(adds.entries(pl.col("total"))):
        at: Any = place
        if not isinstance(place, int):
            span = next(spans)
            radix //= len(span)
            at = span.start + pl.col("code") % across // radix % len(span)
        at = (group * adds.n_accumulators + at).alias("cell")
        total = "rows" if adds.counts_rows else f"total {number}"
        parts.append(cells.select("window", at, "rows", total=total))
    if len(parts) == 1:
        return parts[0]
    together = pl.concat(parts)
    if by_row(adds):  # other rows of the place may have chosen others elsewhere
        together = together.group_by("window", "cell").agg(pl.col("rows", "total").sum())
    return together.sort("window", "cell").select(names)


class RowHolder(Protocol):
    """Holds rows until all are read, because only then can those that count be chosen."""

    def select(self, marked: pl.LazyFrame) -> pl.LazyFrame:
        """Return the columns to hold of all marked rows, also of those that cannot be counted."""

    def take(self, rows: pl.DataFrame) -> None:
        """Hold some rows; calls are in their order."""


#: Bound on the sum of one cell, so that a total over cells stays exact in int64.
_LARGEST_CELL = 2**61


@name_alone
@dataclass(frozen=True, repr=False)
class Aggregates:
    """Exact sums of all rows of a run. Secret, so they are passed on as `Private`.

    Attributes:
        cells: ``window``; ``cell``, which is (position of the group) * (number of accumulators) +
            (position of the accumulator); ``rows``; and ``total``, the amount that they add; all
            int64.
        newest: newest readable time, also of rows that count nowhere, in microseconds since 1970.
        before, beyond: rows before the first and after the last window.
        unknown, skipped, quarantined: rows of undeclared groups, with a missing value, and
            unreadable ones.
        moments: newest times of the cells up to the last window, in any order. A row after it, such
            as one of the year 9999, does not show that no window is missing.
        within: number of rows within the windows, also of those that count nowhere.
        windows_with_rows: numbers of the windows that have a row, in order. Rows that count
            nowhere, such as those of undeclared groups, are rows, too; rows that cannot be read are
            not.
    """

    cells: pl.DataFrame
    newest: int | None
    rows: int
    before: int
    beyond: int
    unknown: int
    skipped: int = 0
    quarantined: int = 0
    moments: ArrayLike = ()
    within: int = 0
    windows_with_rows: ArrayLike = ()


def sum_rows(
    source: Source,
    mapping: RowMapping,
    domain: Sequence[str] | None = None,
    *,
    bound: RowHolder | None = None,
    watch: Callable[[int], None] | None = None,
    marked: pl.DataFrame | None = None,
) -> Private[Aggregates]:
    """Read all events of a run, and add them up; ``bound`` holds rows to choose from.

    ``marked``: the rows as `assign_rows` gives them, without ``raw_labels``, if they are read
    already; ``bound`` and ``watch`` then hear of none.

    Raises:
        InvalidInputError: a column is missing; a time is missing, unreadable, or skipped or
            repeated when clocks change; a group is missing or unknown; a value is missing, NaN or
            infinite; or a user or id is missing.
        SumOverflowError: the sum of one cell is too large.
    """
    width = 1 if domain is None else len(domain) + 1
    across = cells_across(mapping.adds)
    sums = _by_cell(source, mapping, domain, bound, watch, marked)
    sizes = [name for name in sums.columns if name.startswith("magnitude")]
    most = sums.select(pl.col(sizes).max().fill_null(0.0)).row(0) if sizes else ()
    exact = [name for name, size in zip(sizes, most, strict=True) if size < _LARGEST_CELL]
    sums = sums.drop(exact).sort("code")
    rows_read = int(sums["rows"].sum())
    skipped = 0
    quarantined = 0
    if sums.height and sums["code"][0] < 0:
        skipped, quarantined = _set_bad_rows_aside(source, mapping, sums, width * across)
        sums = sums.filter(pl.col("code") >= 0)
    cells = sums["code"].to_numpy()
    counts = sums["rows"].to_numpy()
    window = width * across
    steps = cells // window
    groups_of = cells - steps * window  # as % would, which is slow
    outside = np.zeros(len(cells), bool)
    if across > 1:
        outside = groups_of % across == across - 1
        groups_of //= across
    if domain is not None:
        outside |= groups_of == len(domain)
    unknown = int(counts[outside].sum())
    if unknown and mapping.unlisted_groups == "error":
        raise unknown_groups(source, mapping, domain or ())
    within = slice(*np.searchsorted(steps, (1, mapping.windows.steps + 1)))  # they are sorted
    early = slice(within.start)
    late = slice(within.stop, None)
    if unknown:
        counts = np.where(outside, 0, counts)
    counted = counts > 0
    large = (sums[name].to_numpy()[counted] for name in {*sizes} - {*exact})
    largest = max((column.max(initial=0) for column in large), default=0.0)
    _refuse_large_sum(float(largest), mapping)
    parted = sums.with_columns(pl.Series("window", steps), pl.Series("group", groups_of))[within]
    if not counted[within].all():
        parted = parted.filter(counted[within])
    return Private(
        Aggregates(
            cells=_by_place(parted, mapping.adds),
            newest=None if not sums.height else int(sums["us"].max()),  # type: ignore[arg-type]
            rows=rows_read,
            before=int(counts[early].sum()),
            beyond=int(counts[late].sum()),
            unknown=unknown,
            skipped=skipped,
            quarantined=quarantined,
            moments=sums["us"].to_numpy()[: within.stop],
            within=int(sums["rows"][within].sum()),
            windows_with_rows=np.unique(steps[within]),
        )
    )


def _set_bad_rows_aside(
    source: Source, mapping: RowMapping, sums: pl.DataFrame, cells_of_step: int
) -> tuple[int, int]:
    """Set unreadable rows aside, which were summed in cells below 0.

    Returns:
        Number of rows that were skipped, and of those that were written to the quarantine file.
    """
    if not isinstance(source, RemoteRows):
        return set_bad_rows_aside(source, mapping)
    bad = sums.filter(pl.col("code") < 0)
    problems = bad.select(problem=-(pl.col("code") // cells_of_step), rows="rows")
    return set_bad_rows_aside_elsewhere(source, mapping, problems)


def _refuse_large_sum(largest: float, mapping: RowMapping) -> None:
    """Refuse sums of one window and group that could exceed the exact range."""

    def explain() -> str:
        if any(part.kind == "count" for part in parts_of_columns(mapping)):
            return (
                f"the counts of one window and group add up to {largest:.3g}; at most 2^61 is "
                "exact: correct rows with too large a count, or count in larger units, such as "
                "thousands"
            )
        return (
            f"the values of one window and group add up to {largest:.3g} times the resolution; at "
            "most 2^61 times is allowed: give a coarser resolution or narrower bounds"
        )

    refuse_overflow(largest, _LARGEST_CELL - 1, explain)


def _by_cell(
    source: Source,
    mapping: RowMapping,
    domain: Sequence[str] | None,
    bound: RowHolder | None,
    watch: Callable[[int], None] | None,
    marked: pl.DataFrame | None,
) -> pl.DataFrame:
    """Return the sums of all rows of a local or remote source."""
    adding = partial(sums_by_cell, domain=domain, adds=mapping.adds, newest=True)
    kinds = {part.kind for part in parts_of_columns(mapping)}
    groups = len(domain or ())
    if marked is not None and groups > MANY_GROUPS:
        return sums_by_label(marked.lazy(), mapping, domain, source)
    if marked is not None:
        return adding(marked.lazy()).collect(engine="in-memory")
    if isinstance(source, RemoteRows):
        if bound is not None:
            for piece in reveal(source.assign_rows(mapping, domain)):
                bound.take(bound.select(piece.lazy()).collect())
        return reveal(source.cells(mapping, domain))
    # In short windows a group has few rows, and its label would be held nearly once for each.
    labels = kinds == {"label"}
    dense = labels or mapping.windows.whole_days or mapping.windows.steps * groups <= MANY_CELLS
    is_sparse = groups > MANY_GROUPS or (dense and mapping.unlisted_groups != "drop")
    # Rows that are counts are added up before: their labels are as many as they.
    by_label = (
        is_sparse and bound is None and "count" not in kinds and (domain is not None or labels)
    )
    rows = assign_rows(source, mapping, watch, raw_labels=by_label and labels)
    if by_label:
        return sums_by_label(rows, mapping, domain, source, raw=labels)
    if bound is None:
        return collect(source, adding(rows))
    held_rows = bound.select(rows)
    none = held_rows.collect_schema().to_frame()

    def batches() -> Iterator[pl.DataFrame]:
        for batch in held_rows.collect_batches(chunk_size=ROWS_AT_A_TIME, engine="streaming"):
            bound.take(batch)
            yield batch

    try:
        return _sum_batches(batches(), none, adding)
    except unreadable_errors() as error:
        raise unreadable_part(source, error) from error

"""Exact sums of assigned rows (`assign_rows`) by window, group and accumulator, in one pass.

An *accumulator* is one of the exact sums that a statistic keeps for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.exact import name_alone, refuse_overflow
from counton.base.private import Private, reveal
from counton.io.bad_rows import set_bad_rows_aside, set_bad_rows_aside_elsewhere, unknown_groups
from counton.io.remote_rows import RemoteRows
from counton.io.row_assignment import (
    RowMapping,
    RowRule,
    assign_part,
    assign_rows,
    collect,
    n_choices,
    parts_of_columns,
    row_number_name,
    unreadable_part,
    values_choose_sum,
    with_total,
)
from counton.io.sources import InputPart, Source, unreadable_errors
from counton.io.stored_times import assign_counted_rows
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import is_moment

#: Number of rows that are added up at a time if they are also kept in memory.
ROWS_AT_A_TIME = 2**18
#: With more groups than this, no table of groups is kept in memory while rows are read.
MOST_TABLED_GROUPS = 2**22
#: With more windows of less than a day times groups than this, most of them have few rows.
MOST_DENSE_CELLS = 2**22


class SumCode(NamedTuple):
    """One number for a row's window, the index of its group, and the accumulators of its values.

    Rows of one code are added up together. Codes of bad rows are below 0.

    Attributes:
        groups: number of indices of groups, with one for undeclared groups; 1 without groups.
        choices: number of choices of accumulators, with one for unknown values (`n_choices`).

    >>> code = SumCode(groups=3, choices=2)
    >>> code.encode(5, 1, 0), code.decode(np.array([32]))
    (32, (array([5]), array([1]), array([0])))
    """

    groups: int
    choices: int

    @classmethod
    def of(cls, domain: Sequence[str] | None, row_rule: RowRule | None) -> SumCode:
        """Return the code of rows whose groups are listed in ``domain``; None: without groups."""
        return cls(1 if domain is None else len(domain) + 1, n_choices(row_rule))

    def encode(self, window: pl.Expr, group_index: pl.Expr, choice: pl.Expr) -> pl.Expr:
        """Return the code."""
        return self.add_choice(self.add_group(window, group_index), choice)

    def encode_group(self, code: pl.Expr, group_index: pl.Expr) -> pl.Expr:
        """Return the code with a group, from one without groups."""
        return self.encode(code // self.choices, group_index, code % self.choices)

    def add_group(self, window: pl.Expr, group_index: pl.Expr) -> pl.Expr:
        """Return the code without a choice."""
        return window * self.groups + group_index

    def add_choice(self, code: pl.Expr, choice: pl.Expr) -> pl.Expr:
        """Return the code with a choice, from one without."""
        return code * self.choices + choice

    def decode(
        self, code: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return windows, indices of groups, and choices of codes that are not below 0."""
        codes_of_window = self.groups * self.choices
        window = code // codes_of_window
        code_in_window = code - window * codes_of_window  # as % would, which is slow
        if self.choices == 1:
            return window, code_in_window, np.broadcast_to(np.int64(0), code_in_window.shape)
        return window, code_in_window // self.choices, code_in_window % self.choices

    def window_of(self, code: Any) -> Any:
        """Return the window of a code, a number or a column."""
        return code // (self.groups * self.choices)


def sums_of_part(
    rows: InputPart,
    mapping: RowMapping,
    domain: Sequence[str] | None,
    alike: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Add up one part's rows by window, group and accumulator; `merge_sums` adds up parts.

    Args:
        alike: if each row stands for several equal ones, their ``number`` and, if times differ, the
            ``newest`` in microseconds.

    Returns:
        ``code`` (`SumCode`), ``group_name`` (if groups are found, else null), ``rows`` and
        ``us`` (newest time). If rows add other amounts than 1, ``total N`` (int64, modulo 2^64) and
        the sum of absolute values ``magnitude N`` (float64) for each entry N of the rule.
    """
    assigned = assign_part(rows, mapping)
    number = None
    if alike is not None:
        assigned = assigned.collect().hstack(alike).lazy()
        number = pl.col("number")
        if "newest" in alike.columns:
            us = pl.when(is_moment(pl.col("us"))).then("newest").otherwise("us")
            assigned = assigned.with_columns(us=us)
    return _sum_assigned_rows(assigned, mapping, domain, number)


def _sum_assigned_rows(
    assigned: pl.LazyFrame,
    mapping: RowMapping,
    domain: Sequence[str] | None,
    number: pl.Expr | None = None,
) -> pl.DataFrame:
    if mapping.unlisted_groups == "discover":
        sums = _sum_by_code(
            assigned,
            pl.col("window"),
            mapping.row_rule,
            newest=True,
            by=[pl.col("group").alias("group_name")],
            number=number,
        )
    else:
        sums = _sum_by_window_and_group(assigned, domain, mapping.row_rule, number)
        sums = sums.with_columns(group_name=pl.lit(None, pl.String))
    names = [name for name in sums.collect_schema().names() if name not in ("code", "group_name")]
    return sums.select("code", "group_name", *names).collect()


def merge_sums(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up sums of several parts by code and group name, if there is one; keep newest times."""
    together = pl.concat(parts)
    group_columns = [name for name in ("code", "group_name") if name in together.columns]
    newest = [pl.col("us").max()] if "us" in together.columns else []
    sums = pl.exclude(*group_columns, "us").sum()
    return together.group_by(group_columns).agg(*newest, sums).select(together.columns)


def with_group_index(
    sums: pl.DataFrame, domain: Sequence[str], row_rule: RowRule | None
) -> pl.DataFrame:
    """Return sums by indices of groups in ``domain``, not by group names.

    The index of an undeclared group comes after the last.

    >>> sums = {"code": [1, 2], "group_name": ["b", "?"], "rows": [3, 1], "us": [0, 0]}
    >>> with_group_index(pl.DataFrame(sums), ["a", "b"], None).sort("code")["code"].to_list()
    [4, 8]
    """
    indexed = _add_group_index(sums.lazy(), pl.col("group_name"), domain).collect()
    code = SumCode.of(domain, row_rule).encode_group(pl.col("code"), pl.col("group_index"))
    indexed = indexed.with_columns(code=code, group_name=pl.lit(None, pl.String)).drop(
        "group_index"
    )
    return merge_sums([indexed])


def group_names_of(sums: pl.DataFrame, mapping: RowMapping) -> pl.DataFrame:
    """Return the names of groups within the windows, and the first window of each.

    Args:
        sums: sums by code and group name, as `merge_sums` returns them.
        mapping: the columns and windows by which rows were summed.

    Returns:
        A row for each group, with the columns ``group`` and ``window``. Rows outside the windows
        are ignored.
    """
    window = SumCode.of(None, mapping.row_rule).window_of(pl.col("code"))
    named = sums.select(group="group_name", window=window).filter(
        pl.col("window").is_between(1, mapping.windows.steps), pl.col("group").is_not_null()
    )
    return named.group_by("group").agg(pl.col("window").min())


def pick_rows(rows: InputPart, mapping: RowMapping, condition: pl.Expr) -> pl.DataFrame:
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
    rows: InputPart, mapping: RowMapping, domain: Sequence[str] | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return one part's rows that could count, and the sums of all its rows from `sums_of_part`.

    The first lie within the windows, with a known group (its index in ``domain``) and values.
    """
    frame = assign_part(rows, mapping).collect()
    could = pl.col("window").is_between(1, mapping.windows.steps)
    if mapping.columns.group is not None:
        could &= pl.col("group").is_not_null()
    if mapping.row_rule is not None and values_choose_sum(mapping.row_rule):
        could &= pl.col("total") >= 0
    kept_rows = frame
    if mapping.columns.group is not None and domain is not None:
        index = pl.col("group").cast(pl.Enum(list(domain)), strict=False).to_physical()
        kept_rows = frame.with_columns(group=index.cast(pl.UInt32))
    return kept_rows.filter(could), _sum_assigned_rows(frame.lazy(), mapping, domain)


def _sum_by_window_and_group(
    rows: pl.LazyFrame,
    domain: Sequence[str] | None,
    row_rule: RowRule | None,
    number: pl.Expr | None = None,
) -> pl.LazyFrame:
    """Add up rows by window and index of the group in ``domain``, with the newest times.

    ``number``: of events for which each row stands; None: 1.
    """
    code = pl.col("window")
    if domain is not None:
        code = SumCode.of(domain, row_rule).add_group(code, pl.col("group_index"))
        rows = _add_group_index(rows, pl.col("group"), domain)
    return _sum_by_code(rows, code, row_rule, newest=True, number=number)


def _add_group_index(rows: pl.LazyFrame, group: pl.Expr, domain: Sequence[str]) -> pl.LazyFrame:
    """Add the index of each row's group; the length of the list if it is not declared."""
    dtype = rows.select(group).collect_schema().dtypes()[0]
    if dtype != pl.String:  # categories of the domain: rows of users
        index = group.to_physical().fill_null(len(domain))
    else:
        find = GroupNames(domain).finder()
        index = group.map_batches(
            lambda names: pl.Series(find(names)), return_dtype=pl.Int32, is_elementwise=True
        )
    return rows.with_columns(group_index=index.cast(pl.Int64))


def sums_by_group_name(
    rows: pl.LazyFrame, mapping: RowMapping, domain: Sequence[str], source: Source
) -> pl.DataFrame:
    """Add up rows by window and group name, then by index of the group in ``domain``.

    This is faster than finding every row's index, but not for very many undeclared names, all of
    which are held. With many groups, the indices of all rows would also need a table larger than
    the names.
    """
    name_columns = [pl.col("group").alias("group_name")]
    sums = _sum_by_code(rows, pl.col("window"), mapping.row_rule, newest=True, by=name_columns)
    return _sums_by_index(collect(source, sums), domain, mapping.row_rule)


def sums_of_counted_rows(
    source: Source,
    mapping: RowMapping,
    domain: Sequence[str] | None,
    watch: Callable[[int], None] | None = None,
) -> pl.DataFrame | None:
    """Count rows by group and stored time, then add up as the others do.

    Returns:
        None if each row must be assigned by itself (`assign_counted_rows`).
    """
    rows = assign_counted_rows(source, mapping, groups=len(domain or ("",)), watch=watch)
    if rows is None:
        return None
    name_columns = [] if domain is None else [pl.col("group").alias("group_name")]
    number = pl.col("number")
    window = pl.col("window")
    sums = _sum_by_code(
        rows.lazy(), window, None, newest=True, by=name_columns, number=number
    ).collect()
    return sums if domain is None else _sums_by_index(sums, domain, None)


def sums_of_equal_rows(
    rows: pl.LazyFrame, mapping: RowMapping, domain: Sequence[str] | None, source: Source
) -> pl.DataFrame:
    """Count equal rows of labels, encode each distinct row once, and add up as the others do.

    ``rows`` have their labels in columns ``part N``, as `assign_rows` gives them with
    ``raw_labels``.
    """
    group_name = [] if domain is None else [pl.col("group").alias("group_name")]
    labels = [name for name in rows.collect_schema().names() if name.startswith("part ")]
    aggregates = [pl.len().cast(pl.Int64).alias("rows"), pl.col("us").max()]
    equal = rows.group_by(pl.col("window").alias("code"), *group_name, *labels).agg(aggregates)
    distinct_rows = with_total(collect(source, equal), mapping).lazy()
    sums = _sum_by_code(
        distinct_rows,
        pl.col("code"),
        mapping.row_rule,
        newest=True,
        by=[] if domain is None else [pl.col("group_name")],
        number=pl.col("rows"),
    ).collect()
    return sums if domain is None else _sums_by_index(sums, domain, mapping.row_rule)


def _sums_by_index(
    sums: pl.DataFrame, domain: Sequence[str], row_rule: RowRule | None
) -> pl.DataFrame:
    """Return sums by window and group name as sums by index of the group in ``domain``."""
    indices = _group_indices(sums["group_name"], domain)
    code = SumCode.of(domain, row_rule).encode_group(pl.col("code"), pl.lit(indices))
    is_unlisted = indices == len(domain)
    indexed = sums.with_columns(code=code).drop("group_name")
    if not is_unlisted.any():
        return indexed
    return pl.concat([indexed.filter(~is_unlisted), merge_sums([indexed.filter(is_unlisted)])])


def _group_indices(group_names: pl.Series, domain: Sequence[str]) -> pl.Series:
    """Return the index of each group; the length of the list for undeclared ones."""
    indices = np.full(len(group_names), len(domain), np.int64)
    numbered = group_names.alias("group").to_frame().with_row_index("row")
    # A join holds several times its input: if ``domain`` is short, names are joined in pieces.
    at_a_time = max(ROWS_AT_A_TIME, len(domain))
    for start, names in GroupNames(domain).parts():
        declared = names.to_frame().with_row_index("index")
        for piece in numbered.iter_slices(at_a_time):
            matches = piece.join(declared, on="group", how="inner")
            in_names = matches["index"].to_numpy().astype(np.int64)
            indices[matches["row"].to_numpy()] = in_names + start
    return pl.Series("group_index", indices)


def sum_indexed_rows(
    parts: Iterable[pl.DataFrame], groups: int, row_rule: RowRule | None, number: pl.Expr
) -> pl.DataFrame:
    """Add up ``window``, ``group`` (index) and ``total`` (Int64), as in `Aggregates.cells`.

    ``number``: how many times each row counts; below 0 it is taken back.
    """
    no_rows = pl.DataFrame(schema=dict.fromkeys(("window", "group", "total", "number"), pl.Int64))
    code = SumCode(groups=groups, choices=n_choices(row_rule))
    add_up = partial(
        _sum_by_code,
        code=code.add_group(pl.col("window"), pl.col("group")),
        row_rule=row_rule,
        number=number,
    )
    sums = _sum_batches(parts, no_rows, add_up).sort("code")
    return _cells_of_sums(_decode_sums(sums, code), row_rule)


def _decode_sums(sums: pl.DataFrame, code: SumCode) -> pl.DataFrame:
    """Add ``window``, ``group_index`` and, if values choose accumulators, ``choice``.

    Args:
        sums: sums by ``code``, none of which is below 0.
        code: what the codes consist of.
    """
    windows, group_indices, choices = code.decode(sums["code"].to_numpy())
    decoded = sums.with_columns(
        pl.Series("window", windows), pl.Series("group_index", group_indices)
    )
    if code.choices > 1:
        decoded = decoded.with_columns(pl.Series("choice", choices))
    return decoded


def _sum_batches(
    batches: Iterable[pl.DataFrame],
    no_rows: pl.DataFrame,
    add_up: Callable[[pl.LazyFrame], pl.LazyFrame],
) -> pl.DataFrame:
    """Add up each frame by ``add_up``, then the sums; ``no_rows`` is summed without frames."""
    sums: list[pl.DataFrame] = []
    merged_height = 0
    for batch in batches:
        sums.append(add_up(batch.lazy()).collect())
        if sum(map(len, sums)) > 2 * merged_height + ROWS_AT_A_TIME:
            sums = [merge_sums(sums)]
            merged_height = len(sums[0])
    if not sums:
        return add_up(no_rows.lazy()).collect()
    return sums[0] if len(sums) == 1 else merge_sums(sums)


def _sum_by_code(
    rows: pl.LazyFrame,
    code: pl.Expr,
    row_rule: RowRule | None,
    *,
    newest: bool = False,
    by: Sequence[pl.Expr] = (),
    number: pl.Expr | None = None,
) -> pl.LazyFrame:
    """Add up each code's number of rows, and what they add to each accumulator.

    Args:
        code: the code of window and group; the choice of accumulators is added here.
        newest: also the newest time.
        by: further columns by which rows are added up.
        number: of events for which each row stands.
    """
    weight = pl.lit(1, pl.Int64) if number is None else number
    n_rows = pl.len().cast(pl.Int64) if number is None else number.sum()
    sums = [n_rows.alias("rows")]
    if newest:
        sums.append(pl.col("us").max())
    if row_rule is not None:
        entries = row_rule.entries(pl.col("total"))
        if values_choose_sum(row_rule):
            sum_code = SumCode.of(None, row_rule)
            code = sum_code.add_choice(code, _choice_of_row(row_rule, sum_code.choices))
        if not row_rule.counts_rows:
            sums += _totals_and_magnitudes(entries, n_rows, weight)
    return rows.group_by(code.alias("code"), *by).agg(sums)


def _totals_and_magnitudes(
    entries: Sequence[tuple[object, Any]], n_rows: pl.Expr, weight: pl.Expr
) -> list[pl.Expr]:
    """Return the total and the magnitude of what rows add to each accumulator.

    Args:
        entries: for each accumulator, its number and what a row adds: a number, or an expression.
        n_rows: number of events of all rows.
        weight: number of events of each row.
    """
    sums: list[pl.Expr] = []
    for entry, (_, amount) in enumerate(entries):
        if isinstance(amount, int):  # equal for each row
            total = n_rows * amount
            magnitude = n_rows * float(abs(amount))
        else:
            total = (amount * weight).sum()
            magnitude = (amount.cast(pl.Float64) * weight).abs().sum()
        sums += [total.alias(f"total {entry}"), magnitude.alias(f"magnitude {entry}")]
    return sums


def _choice_of_row(row_rule: RowRule, choices: int) -> pl.Expr:
    """Return the number of the accumulators that a row's values choose; the last if unknown."""
    in_range = pl.col("total") >= 0
    choice = pl.lit(0, pl.Int64)
    accumulators = [
        accumulator
        for accumulator, _ in row_rule.entries(pl.col("total"))
        if not isinstance(accumulator, int)
    ]
    for accumulator, span in zip(accumulators, row_rule.spans, strict=True):
        in_range &= (accumulator >= span.start) & (accumulator < span.stop)
        choice = choice * len(span) + (accumulator - span.start)
    return pl.when(in_range).then(choice).otherwise(choices - 1)


def _cells_of_sums(sums: pl.DataFrame, row_rule: RowRule | None) -> pl.DataFrame:
    """Convert sums by ``window``, ``group_index`` and, if values choose accumulators, ``choice``.

    Returns:
        A row for each window and cell, with the columns of `Aggregates.cells`.
    """
    group_index = pl.col("group_index")
    if row_rule is None:
        return sums.select("window", "rows", cell=group_index, total="rows").select(_CELL_COLUMNS)
    choices = n_choices(row_rule)
    parts = []
    radix = choices - 1
    spans = iter(row_rule.spans if choices > 1 else ())
    for entry, (accumulator, _) in enumerate(row_rule.entries(pl.col("total"))):
        chosen: Any = accumulator
        if not isinstance(accumulator, int):
            span = next(spans)
            radix //= len(span)
            chosen = span.start + pl.col("choice") // radix % len(span)
        cell = group_index * row_rule.n_accumulators + chosen
        total = "rows" if row_rule.counts_rows else f"total {entry}"
        parts.append(sums.select("window", cell.alias("cell"), "rows", total=total))
    if len(parts) == 1:
        return parts[0]
    together = pl.concat(parts)
    if values_choose_sum(row_rule):  # other rows of a cell may have chosen others elsewhere
        together = together.group_by("window", "cell").agg(pl.col("rows", "total").sum())
    return together.sort("window", "cell").select(_CELL_COLUMNS)


class RowHolder(Protocol):
    """Holds rows until all are read, because only then can those that count be chosen."""

    def select(self, assigned: pl.LazyFrame) -> pl.LazyFrame:
        """Return the columns to hold of all rows, also of those that cannot be counted."""

    def take(self, rows: pl.DataFrame) -> None:
        """Hold some rows; calls are in their order."""


#: Columns of `Aggregates.cells`.
_CELL_COLUMNS = ("window", "cell", "rows", "total")
#: Bound on the sum of one cell, so that a total over cells stays exact in int64.
_LARGEST_CELL = 2**61


@name_alone
@dataclass(frozen=True, repr=False)
class Aggregates:
    """Exact sums of all rows of a run. Secret, so they are passed on as `Private`.

    Attributes:
        cells: ``window``; ``cell``, which is (index of the group) * (number of accumulators) +
            accumulator; ``rows``; and ``total``, the amount that they add; all int64.
        newest: newest readable time, also of rows that count nowhere, in microseconds since 1970.
        before_start, after_last_window: rows before the first and after the last window.
        unlisted, missing, quarantined: rows of undeclared groups, with a missing value, and
            unreadable ones.
        moments: newest times of the cells up to the last window, in any order. A row after it, such
            as one of the year 9999, does not show that no window is missing.
        windows_of_moments: number of the window of each of these times.
        rows_of_moments: number of the rows of each of these cells, but for undeclared groups.
        within: number of rows within the windows, also of those that count nowhere.
        windows_with_rows: numbers of the windows that have a row, in order. Rows that count
            nowhere, such as those of undeclared groups, are rows, too; rows that cannot be read are
            not.
    """

    cells: pl.DataFrame
    newest: int | None
    rows: int
    before_start: int
    after_last_window: int
    unlisted: int
    missing: int = 0
    quarantined: int = 0
    moments: ArrayLike = ()
    windows_of_moments: ArrayLike = ()
    rows_of_moments: ArrayLike = ()
    within: int = 0
    windows_with_rows: ArrayLike = ()


def sum_rows(
    source: Source,
    mapping: RowMapping,
    domain: Sequence[str] | None = None,
    *,
    row_holder: RowHolder | None = None,
    watch: Callable[[int], None] | None = None,
    assigned: pl.DataFrame | None = None,
) -> Private[Aggregates]:
    """Read all events of a run, and add them up; ``row_holder`` holds rows to choose from.

    ``assigned``: the rows as `assign_rows` gives them, without ``raw_labels``, if they are read
    already; ``row_holder`` and ``watch`` then hear of none.

    Raises:
        InvalidInputError: a column is missing; a time is missing, unreadable, or skipped or
            repeated when clocks change; a group is missing or unknown; a value is missing, NaN or
            infinite; or a user or id is missing.
        SumOverflowError: the sum of one cell is too large.
    """
    code = SumCode.of(domain, mapping.row_rule)
    sums = _sums_of_source(source, mapping, domain, row_holder, watch, assigned)
    sums, magnitudes = _without_small_magnitudes(sums)
    rows_read = int(sums["rows"].sum())
    missing = 0
    quarantined = 0
    if sums.height and sums["code"][0] < 0:
        missing, quarantined = _set_bad_rows_aside(source, mapping, sums, code)
        sums = sums.filter(pl.col("code") >= 0)
    decoded = _decode_sums(sums, code)
    n_listed = _numbers_of_listed_rows(decoded, code, domain)
    unlisted = int(sums["rows"].sum()) - int(n_listed.sum())
    if unlisted and mapping.unlisted_groups == "error":
        raise unknown_groups(source, mapping, domain or ())
    _refuse_large_sum(_largest_magnitude(decoded, magnitudes, n_listed > 0), mapping)
    rows_within = _within_windows(decoded, mapping)
    windows = decoded["window"].to_numpy()
    return Private(
        Aggregates(
            cells=_cells_within(decoded, rows_within, n_listed > 0, mapping.row_rule),
            newest=None if not sums.height else int(sums["us"].max()),  # type: ignore[arg-type]
            rows=rows_read,
            before_start=int(n_listed[: rows_within.start].sum()),
            after_last_window=int(n_listed[rows_within.stop :].sum()),
            unlisted=unlisted,
            missing=missing,
            quarantined=quarantined,
            moments=sums["us"].to_numpy()[: rows_within.stop],
            windows_of_moments=windows[: rows_within.stop],
            rows_of_moments=n_listed[: rows_within.stop],
            within=int(sums["rows"][rows_within].sum()),
            windows_with_rows=_without_repeats(windows[rows_within]),
        )
    )


def _numbers_of_listed_rows(
    decoded: pl.DataFrame, code: SumCode, domain: Sequence[str] | None
) -> NDArray[np.int64]:
    """Return the number of rows of each sum; 0 for undeclared groups and unknown values."""
    is_unlisted = np.zeros(len(decoded), bool)
    if code.choices > 1:
        is_unlisted = decoded["choice"].to_numpy() == code.choices - 1
    if domain is not None:
        is_unlisted |= decoded["group_index"].to_numpy() == len(domain)
    return np.where(is_unlisted, 0, decoded["rows"].to_numpy())


def _largest_magnitude(
    decoded: pl.DataFrame, magnitudes: Sequence[str], is_counted: NDArray[np.bool_]
) -> float:
    """Return the largest magnitude of a sum that counts; 0 if there is none."""
    columns = (decoded[name].to_numpy()[is_counted] for name in magnitudes)
    return float(max((column.max(initial=0) for column in columns), default=0.0))


def _without_repeats(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the different numbers among ascending ones. `numpy.unique` would look for their order.

    >>> _without_repeats(np.array([1, 1, 4])).tolist()
    [1, 4]
    """
    is_first = np.ones(len(ascending), bool)
    is_first[1:] = ascending[1:] != ascending[:-1]
    return ascending[is_first]


def _within_windows(decoded: pl.DataFrame, mapping: RowMapping) -> slice:
    """Return where sums of the stream's windows lie; sums are sorted by their windows."""
    windows = decoded["window"].to_numpy()
    start, stop = np.searchsorted(windows, (1, mapping.windows.steps + 1))
    return slice(start, stop)


def _cells_within(
    decoded: pl.DataFrame,
    within: slice,
    is_counted: NDArray[np.bool_],
    row_rule: RowRule | None,
) -> pl.DataFrame:
    """Return `Aggregates.cells`: the sums that count, within the windows."""
    sums = decoded[within]
    if not is_counted[within].all():
        sums = sums.filter(is_counted[within])
    return _cells_of_sums(sums, row_rule)


def _without_small_magnitudes(sums: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Return sums by code, and the names of columns of magnitudes that may be too large.

    Columns whose magnitudes are so small that all sums are exact are left out.
    """
    magnitudes = [name for name in sums.columns if name.startswith("magnitude")]
    if not magnitudes:
        return sums.sort("code"), []
    largest = sums.select(pl.col(magnitudes).max().fill_null(0.0)).row(0)
    small = [name for name, size in zip(magnitudes, largest, strict=True) if size < _LARGEST_CELL]
    return sums.drop(small).sort("code"), [name for name in magnitudes if name not in small]


def _set_bad_rows_aside(
    source: Source, mapping: RowMapping, sums: pl.DataFrame, code: SumCode
) -> tuple[int, int]:
    """Set unreadable rows aside, which were summed under codes below 0.

    Returns:
        Number of rows that were skipped, and of those that were written to the quarantine file.
    """
    rows_read = int(sums["rows"].sum())
    if not isinstance(source, RemoteRows):
        return set_bad_rows_aside(source, mapping, rows_read)
    bad = sums.filter(pl.col("code") < 0)
    problems = bad.select(problem=-code.window_of(pl.col("code")), rows="rows")
    return set_bad_rows_aside_elsewhere(source, mapping, rows_read, problems)


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


class _Summation(Enum):
    """How the rows of a source are added up."""

    #: Where the rows are, by a database or Spark.
    REMOTE = auto()
    #: By the index of each row's group, in one pass over the source.
    BY_INDEX = auto()
    #: The same, of rows that are already in memory.
    IN_MEMORY = auto()
    #: The same, some rows at a time, because all rows are also held.
    WHILE_HELD = auto()
    #: By group name first (`sums_by_group_name`).
    BY_GROUP_NAME = auto()
    #: Rows of one group in a piece of a window first, if times allow it (`sums_of_counted_rows`).
    OF_COUNTED_ROWS = auto()
    #: Equal rows first (`sums_of_equal_rows`).
    OF_EQUAL_ROWS = auto()


def _choose_summation(
    source: Source,
    mapping: RowMapping,
    domain: Sequence[str] | None,
    *,
    is_assigned: bool,
    holds_rows: bool,
) -> _Summation:
    """Return the fastest way that memory allows.

    Args:
        source: the rows.
        mapping: the options by which they are read.
        domain: the declared groups; None: there are none.
        is_assigned: True if the rows were read before.
        holds_rows: True if all rows are also held, so that those that count can be chosen.
    """
    groups = len(domain or ())
    has_many_groups = groups > MOST_TABLED_GROUPS
    if is_assigned:
        return _Summation.BY_GROUP_NAME if has_many_groups else _Summation.IN_MEMORY
    if isinstance(source, RemoteRows):
        return _Summation.REMOTE
    if holds_rows:
        return _Summation.WHILE_HELD
    kinds = {part.kind for part in parts_of_columns(mapping)}
    if "count" in kinds:  # the rows are counts: they have nearly as many group names as rows
        return _Summation.BY_INDEX
    # In short windows a group has few rows, and its name would be held nearly once for each.
    only_labels = kinds == {"label"}
    windows = mapping.windows
    groups_have_many_rows = (
        only_labels or windows.whole_days or windows.steps * groups <= MOST_DENSE_CELLS
    )
    names_are_few = groups_have_many_rows and mapping.unlisted_groups != "drop"
    if not has_many_groups and not names_are_few:
        return _Summation.BY_INDEX
    if only_labels:
        return _Summation.OF_EQUAL_ROWS
    if mapping.row_rule is None and not mapping.value_columns_without_rule:
        return _Summation.OF_COUNTED_ROWS
    return _Summation.BY_INDEX if domain is None else _Summation.BY_GROUP_NAME


def _sums_of_source(
    source: Source,
    mapping: RowMapping,
    domain: Sequence[str] | None,
    row_holder: RowHolder | None,
    watch: Callable[[int], None] | None,
    assigned: pl.DataFrame | None,
) -> pl.DataFrame:
    """Return the sums of all rows of a local or remote source."""
    summation = _choose_summation(
        source, mapping, domain, is_assigned=assigned is not None, holds_rows=row_holder is not None
    )
    if summation is _Summation.REMOTE:
        assert isinstance(source, RemoteRows)
        return _sums_of_remote_rows(source, mapping, domain, row_holder)
    if summation is _Summation.OF_COUNTED_ROWS:
        sums = sums_of_counted_rows(source, mapping, domain, watch)
        if sums is not None:
            return sums
        summation = _Summation.BY_INDEX if domain is None else _Summation.BY_GROUP_NAME
    raw_labels = summation is _Summation.OF_EQUAL_ROWS
    if assigned is None:
        rows = assign_rows(source, mapping, watch, raw_labels=raw_labels)
    else:
        rows = assigned.lazy()
    if summation is _Summation.OF_EQUAL_ROWS:
        return sums_of_equal_rows(rows, mapping, domain, source)
    if summation is _Summation.BY_GROUP_NAME:
        assert domain is not None
        return sums_by_group_name(rows, mapping, domain, source)
    add_up = partial(_sum_by_window_and_group, domain=domain, row_rule=mapping.row_rule)
    if summation is _Summation.WHILE_HELD:
        assert row_holder is not None
        return _sums_while_held(source, rows, row_holder, add_up)
    if summation is _Summation.IN_MEMORY:
        return add_up(rows).collect(engine="in-memory")
    return collect(source, add_up(rows))


def _sums_of_remote_rows(
    source: RemoteRows,
    mapping: RowMapping,
    domain: Sequence[str] | None,
    row_holder: RowHolder | None,
) -> pl.DataFrame:
    """Return the sums of rows that are elsewhere; ``row_holder`` gets those that could count."""
    if row_holder is not None:
        for piece in reveal(source.assign_rows(mapping, domain)):
            row_holder.take(row_holder.select(piece.lazy()).collect())
    return reveal(source.cells(mapping, domain))


def _sums_while_held(
    source: Source,
    rows: pl.LazyFrame,
    row_holder: RowHolder,
    add_up: Callable[[pl.LazyFrame], pl.LazyFrame],
) -> pl.DataFrame:
    """Give all rows to ``row_holder``, some at a time, and add them up."""
    held_rows = row_holder.select(rows)
    no_rows = held_rows.collect_schema().to_frame()

    def batches() -> Iterator[pl.DataFrame]:
        for batch in held_rows.collect_batches(chunk_size=ROWS_AT_A_TIME, engine="streaming"):
            row_holder.take(batch)
            yield batch

    try:
        return _sum_batches(batches(), no_rows, add_up)
    except unreadable_errors() as error:
        raise unreadable_part(source, error) from error

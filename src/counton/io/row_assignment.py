"""Marking of rows with window, group, user and value, for any source."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from counton.base.columns import MISSING, OUTSIDE
from counton.io.error_policy import Policies, Problem
from counton.io.object_cells import CellKind
from counton.io.sources import Rows, Source, unreadable_errors
from counton.io.timestamps import (
    EPOCH_FORMATS,
    UNREADABLE_TIME,
    WITHIN_DAY,
    ClockChange,
    as_text,
    is_serial,
    moments,
)
from counton.windowing.groups import GroupNames
from counton.windowing.lazy_polars import polars as pl
from counton.windowing.windows import NO_MOMENT, Windows, microseconds

UnlistedGroups = Literal["error", "drop", "discover"]


class EventPart(Protocol):
    """One value of an event, such as a number or a label."""

    @property
    def name(self) -> str:
        """A job's option, such as "value", or the name of a column."""

    @property
    def kind(self) -> str:
        """Kind of the values: "number", "count" or "label"."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Allowed labels."""

    @property
    def most(self) -> int:
        """Largest count."""


class Adds(Protocol):
    """How a row changes a statistic's sums (`counton.statistics.AccumulatorStatistic`)."""

    @property
    def parts(self) -> Sequence[EventPart]:
        """Values that the statistic reads."""

    @property
    def n_accumulators(self) -> int:
        """Number of exact sums of each group."""

    @property
    def counts_rows(self) -> bool:
        """True if every row adds 1 to exactly one accumulator."""

    @property
    def spans(self) -> Sequence[range]:
        """Ranges of accumulators; a row adds to at most one of each, as its values decide."""

    def encode(self, *parts: Any) -> NDArray[np.int64]:
        """Encode each row's values as one integer."""

    def entries(self, code: Any) -> Sequence[tuple[Any, Any]]:
        """Return pairs of a place and an amount, of all rows or an int for all."""


#: Most characters of a label of a group found in the data; longer labels are counted nowhere.
_LONGEST_LABEL = 200

_HIDDEN = r"[\p{C}\p{Zl}\p{Zp}]"


def label(cell: pl.Expr) -> pl.Expr:
    """Return the group named by a text; null if it names none.

    Spaces around it and Unicode's form (NFC) make no difference. Empty texts, very long ones, and
    ones with control or formatting characters name no group.
    """
    text = cell.cast(pl.String).str.normalize("NFC").str.strip_chars()
    good = text.str.len_chars().is_between(1, _LONGEST_LABEL) & ~text.str.contains(_HIDDEN)
    return pl.when(good).then(text)


def one_name(texts: pl.Series) -> pl.Series:
    """Return users or ids under one name: whole numbers lose zeros after the point, because
    programs write 7 also as 7.0. Leading zeros stay.

    >>> one_name(pl.Series(["7", "7.0", "007.00", "7.50", "v7.0", None])).to_list()
    ['7', '7', '007', '7.50', 'v7.0', None]
    """
    if not texts.str.contains(".0", literal=True).any():
        return texts
    return texts.str.replace(r"^(-?[0-9]+)\.0+$", "${1}")


@dataclass(frozen=True)
class Columns:
    """Names of columns by their role.

    Attributes:
        time, group, value: of the event; the time is "" without times.
        user: see `one_name`.
        id: two rows with one id are the same event.
        several: columns of an event's values, if it has others than one number.
    """

    time: str
    group: str | None = None
    value: str | None = None
    user: str | None = None
    id: str | None = None
    several: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Columns of values, in the order of the statistic."""
        return self.several if self.value is None else (self.value,)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read, each once."""
        named = (self.time, self.group, *self.parts, self.user, self.id)
        return tuple(dict.fromkeys(name for name in named if name))


class RowMapping(NamedTuple):
    """Options by which rows are read.

    Attributes:
        windows: assigns each row to a window.
        unlisted_groups: rows of undeclared groups are refused ("error"), counted nowhere ("drop"),
            or counted in found groups ("discover").
        adds: how rows change sums; None: rows are only counted.
        ambiguous: which moment is meant by a local time that occurs twice. If windows are whole
            days, each local time is in the day that it names.
        time_format: None: ISO 8601.
        declared: groups with a count of their own, if ``other`` counts all other rows, and those
            without a group.
        kept: values of an event in order, if there is no rule ``adds``.
    """

    columns: Columns
    windows: Windows
    unlisted_groups: UnlistedGroups = "error"
    adds: Adds | None = None
    ambiguous: ClockChange = "raise"
    time_format: str | None = None
    declared: Sequence[str] = ()
    other: str | None = None
    policies: Policies = Policies()
    kept: Sequence[EventPart] = ()

    def group(self, cell: pl.Expr) -> pl.Expr:
        """Return the group in which each row counts."""
        if self.unlisted_groups == "discover":
            return label(cell)
        if self.other is None:
            return cell
        is_declared = cell.is_in(GroupNames(self.declared).column.implode())
        return pl.when(is_declared.fill_null(False)).then(cell).otherwise(pl.lit(self.other))


def cells_across(adds: Adds | None) -> int:
    """Return the number of cells of one window and group: one for each combination of places that
    values decide, and one for rows with an unknown value.
    """
    if adds is None or not by_row(adds):
        return 1
    return math.prod(map(len, adds.spans)) + 1


def by_row(adds: Adds) -> bool:
    """Return True if a row's values decide to which place it adds, or to none."""
    return any(not isinstance(place, int) for place, _ in adds.entries(pl.col("total")))


def collect(source: Source, frame: pl.LazyFrame) -> pl.DataFrame:
    """Compute a frame; an unreadable row raises an error that names it."""
    try:
        return frame.collect(engine="streaming")
    except unreadable_errors() as error:
        raise unreadable_part(source, error) from error


def unreadable_part(source: Source, error: BaseException) -> Exception:
    """Return an error that names the file and, if possible, the row."""
    for part in source.parts[:-1]:
        try:
            names = part.columns()
            part.frame(names).select(pl.col(names).is_null().any()).collect(engine="streaming")
        except unreadable_errors():
            return part.unreadable(error)
    return source.parts[-1].unreadable(error)


def assign_rows(
    source: Source,
    mapping: RowMapping,
    watch: Callable[[int], None] | None = None,
    *,
    raw_labels: bool = False,
) -> pl.LazyFrame:
    """Mark the rows of a source, in its order; ``watch`` hears of further rows read.

    With ``raw_labels`` labels stay, in columns ``part N``: all values are labels, so that many
    events are equal.

    Returns:
        ``us``: the time in microseconds since 1970. ``window``: its number; 0 before the first, the
            number of windows plus 1 after the last, minus the `Problem` if a row cannot be counted.
            ``group``: text. ``total``: 1, the value as a multiple of the resolution, or the code of
            `with_total`; with ``kept`` there are ``part N`` instead. ``user``, ``id`` (text) and
            ``sign``, if stated.
    """
    parts = [assign_part(part, mapping, watch, raw_labels=raw_labels) for part in source.parts]
    return parts[0] if len(parts) == 1 else pl.concat(parts)


@cache
def _show_an_array() -> None:
    """Let polars load numpy now, on a single thread: two of its threads at once would fail."""
    pl.Series(np.zeros(1, np.int64))


def assign_part(
    part: Rows,
    mapping: RowMapping,
    watch: Callable[[int], None] | None = None,
    *,
    raw_labels: bool = False,
) -> pl.LazyFrame:
    """Assign the rows of one part, with the columns of `assign_rows`."""
    _show_an_array()
    scanned = _scan(part, mapping)
    frame, us = _time_column(scanned, mapping, watch)
    names = _name_columns(scanned)
    expressions = {"us": us, **names, **_value_columns(scanned)}
    are_texts = [scanned.types[column] == pl.String for column, _ in scanned.value_columns]
    values, kept_parts, value_problems = _values_of_parts(
        [column_part for _, column_part in scanned.value_columns], mapping, are_texts
    )
    totals = [pl.lit(1, dtype=pl.Int64).alias("total")]
    if raw_labels or mapping.kept:
        totals = kept_parts
    elif values and mapping.adds is not None:
        totals = [_encode(values, mapping.adds).alias("total")]
    identity_columns: list[pl.Expr] = [pl.col(name) for name in ("user", "id") if name in names]
    if "group" in names:
        identity_columns.insert(0, mapping.group(pl.col("group")).alias("group"))
    problems = [*_missing_names(names, mapping), *value_problems]
    window = _window_or_problem(mapping, problems)
    return frame.select(**expressions).select("us", *identity_columns, window, *totals)


class _ScannedPart(NamedTuple):
    """One part of the rows, before its cells are converted.

    Attributes:
        rows: the part.
        frame: its cells.
        types: the type of each column.
        kinds: for columns that are not read as texts, the column of `CellKind` values, if any.
        names: columns of group, user and id, those that the mapping states.
        value_columns: columns of values, each with what the statistic reads from it.
    """

    rows: Rows
    frame: pl.LazyFrame
    types: pl.Schema
    kinds: dict[str, str]
    names: dict[str, str]
    value_columns: list[tuple[str, EventPart]]


def _scan(part: Rows, mapping: RowMapping) -> _ScannedPart:
    """Read the columns that a mapping names, as texts if they name or label something.

    Raises:
        InvalidInputError: a column is missing.
    """
    columns = mapping.columns
    value_columns = list(zip(columns.parts, parts_of_columns(mapping), strict=True))
    stated_names = {"group": columns.group, "user": columns.user, "id": columns.id}
    names = {name: column for name, column in stated_names.items() if column is not None}
    labels = [column for column, column_part in value_columns if column_part.kind == "label"]
    numbers = {column for column, column_part in value_columns if column_part.kind != "label"}
    part.check_columns(part.of_file(columns.names))
    all_kinds = part.kinds_of(part.of_file(columns.names))
    kinds = {
        column: kind for column, kind in all_kinds.items() if column in {columns.time, *numbers}
    }
    frame = part.scan(columns.names, [*names.values(), *labels], list(kinds.values()))
    return _ScannedPart(part, frame, frame.collect_schema(), kinds, names, value_columns)


def _time_column(
    scanned: _ScannedPart, mapping: RowMapping, watch: Callable[[int], None] | None
) -> tuple[pl.LazyFrame, pl.Expr]:
    """Return the rows, and their times in microseconds since 1970; 0 if rows have no time."""
    time = mapping.columns.time
    us = pl.col(mapping.columns.names[0]).is_null().cast(pl.Int64) * 0
    if time:
        us = _times(mapping, scanned.types[time], scanned.kinds.get(time))
    if watch is not None:
        us = _watch(us, watch)
    if scanned.rows.unread:
        return unread_marked(scanned.frame, us, scanned.rows)
    return scanned.frame, us


def _name_columns(scanned: _ScannedPart) -> dict[str, pl.Expr]:
    """Return group, user and id as texts, those that are stated."""
    texts = {
        name: as_text(pl.col(column), scanned.types[column])
        for name, column in scanned.names.items()
    }
    for name in texts.keys() & {"user", "id"}:
        texts[name] = texts[name].map_batches(one_name, return_dtype=pl.String, is_elementwise=True)
    return texts


def _value_columns(scanned: _ScannedPart) -> dict[str, pl.Expr]:
    """Return the values of each row, in the columns ``part 0``, ``part 1``, ..."""
    values = {}
    for index, (column, column_part) in enumerate(scanned.value_columns):
        cell = pl.col(column)
        kind = scanned.kinds.get(column)
        if column_part.kind == "label":
            value = as_text(cell, scanned.types[column])
        elif column_part.kind == "count":
            value = _numbers_of_cells(scanned.rows.count(column, cell), kind)
        else:
            value = _numbers_of_cells(scanned.rows.number(cell), kind)
        values[f"part {index}"] = value
    return values


def _missing_names(
    names: Mapping[str, pl.Expr], mapping: RowMapping
) -> list[tuple[pl.Expr, Problem]]:
    """Return the conditions under which a row lacks its group, user or id, with the problem."""
    needed = [("user", Problem.NO_USER), ("id", Problem.NO_ID)]
    if mapping.unlisted_groups == "error" and mapping.other is None:
        needed.insert(0, ("group", Problem.NO_GROUP))
    return [
        (pl.col(name).is_null() | (pl.col(name) == ""), problem)
        for name, problem in needed
        if name in names
    ]


def _window_or_problem(mapping: RowMapping, problems: Sequence[tuple[pl.Expr, Problem]]) -> pl.Expr:
    """Return the number of a row's window, or minus the first problem that a row has."""
    window = mapping.windows.step("us")
    for wrong, problem in reversed(problems):
        unless = pl.when(wrong & (pl.col("us") > NO_MOMENT))
        window = unless.then(-int(problem)).otherwise(window)
    return window.alias("window")


def _values_of_parts(
    parts: Sequence[EventPart], mapping: RowMapping, are_texts: Sequence[bool]
) -> tuple[list[pl.Expr], list[pl.Expr], list[tuple[pl.Expr, Problem]]]:
    """Check the values of each row, which are in the columns ``part 0``, ``part 1``, ...

    Args:
        parts: What the statistic reads from each column.
        mapping: The options by which rows are read.
        are_texts: Whether the cells of each column are texts in the input.

    Returns:
        A code or number for each part, 0 if it is invalid; the values to keep; and conditions under
        which a row is invalid, with the problem.
    """
    values = []
    kept_parts = []
    problems = list[tuple[pl.Expr, Problem]]()
    for place, part in enumerate(parts):
        cell = pl.col(f"part {place}")
        if part.kind == "label":
            kept_parts.append(cell)
            values.append(_code(cell, part.labels))
            continue
        value = cell.cast(pl.Float64, strict=False)
        finite = value.is_finite().fill_null(False)
        problems += [(cell.is_null(), Problem.NO_VALUE), (~finite, Problem.NOT_FINITE)]
        if part.kind == "count":
            set_aside = mapping.policies.quarantine is not None
            value, whole = _count_of(cell, value, part.most, are_texts[place], set_aside=set_aside)
            problems.append((finite & ~whole, Problem.NO_COUNT))
            finite &= whole
        values.append(pl.when(finite).then(value).otherwise(0.0))
        kept_parts.append(value)
    return values, kept_parts, problems


def _times(mapping: RowMapping, dtype: pl.DataType, kinds: str | None) -> pl.Expr:
    """Return the time of each row in microseconds since 1970, or a code of `moments`.

    Args:
        mapping: The options by which rows are read.
        dtype: The type of the column of times.
        kinds: The column of the cells' kinds; None if the type says them.
    """
    name = mapping.columns.time
    windows = mapping.windows
    ambiguous = WITHIN_DAY if windows.whole_days else mapping.ambiguous
    us = moments(name, dtype, windows.timezone, ambiguous, mapping.time_format)
    if mapping.time_format in EPOCH_FORMATS and not dtype.is_temporal():
        serial = is_serial(pl.col(name))
        early = us < microseconds(windows.start)
        us = pl.when(serial & early).then(UNREADABLE_TIME).otherwise(us)
    if kinds is None:
        return us
    kind = pl.col(kinds)
    if mapping.time_format is not None:
        # A stated format is for texts: a date of Python has no day and month to confuse.
        as_iso = moments(name, dtype, windows.timezone, ambiguous, None)
        us = pl.when(kind == CellKind.TIME).then(as_iso).otherwise(us)
    return pl.when(kind == CellKind.OTHER).then(UNREADABLE_TIME).otherwise(us)


def _numbers_of_cells(cell: pl.Expr, kinds: str | None) -> pl.Expr:
    """Return the numbers of a column of objects: 1 and 0 for truth values, a text for no number."""
    if kinds is None:
        return cell
    kind = pl.col(kinds)
    truth = pl.when(cell == "true").then(pl.lit("1")).otherwise(pl.lit("0"))
    number = pl.when(kind == CellKind.TRUTH).then(truth).otherwise(cell)
    return pl.when(kind == CellKind.OTHER).then(pl.lit("?")).otherwise(number)


#: A count as it is written: digits alone, or followed by a point and one or two zeros. Three digits
#: after a point may be thousands.
_DIGITS_ALONE = r"^[0-9]+(?:\.0{1,2})?$"


def _count_of(
    cell: pl.Expr, value: pl.Expr, most: int, written: bool, *, set_aside: bool
) -> tuple[pl.Expr, pl.Expr]:
    """Return how many events each row adds, and whether the row is in order.

    Args:
        cell: The cells.
        value: The cells as floats.
        most: The largest count.
        written: True if the cells are texts.
        set_aside: True if other rows are written to a file, and the run goes on without them.

    Returns:
        The count, and True for a whole number in range that is written with digits alone. If bad
        rows are set aside, a count above ``most`` adds as much less as it is above, down to 0 from
        twice ``most`` on. Otherwise one event more would remove all events of its row from the sum.
    """
    whole = value == value.floor()
    if written:
        whole &= cell.str.contains(_DIGITS_ALONE)
    if not set_aside:
        return value, whole & value.is_between(0, most)
    fading = pl.when(value > most).then(2 * most - value).otherwise(value)
    return fading, whole & fading.is_between(0, most) & (value < 2 * most)


def with_total(rows: pl.DataFrame, mapping: RowMapping) -> pl.DataFrame:
    """Replace labels by ``total``, a code from which the statistic finds the changed sums."""
    parts = parts_of_columns(mapping)
    names = [f"part {place}" for place in range(len(parts))]
    codes = [_code(pl.col(name), part.labels) for name, part in zip(names, parts, strict=True)]
    assert mapping.adds is not None
    return rows.with_columns(total=_encode(codes, mapping.adds)).drop(names)


def unread_marked(frame: pl.LazyFrame, us: pl.Expr, part: Rows) -> tuple[pl.LazyFrame, pl.Expr]:
    """Number the rows; give unreadable ones the code of `Problem.UNREADABLE_ROW` as their time."""
    number = row_number_name(frame.collect_schema().names())
    unread = pl.Series(list(part.unread), dtype=pl.UInt32)
    problem = NO_MOMENT - int(Problem.UNREADABLE_ROW)
    us = pl.when(pl.col(number).is_in(unread.implode())).then(problem).otherwise(us)
    return frame.with_row_index(number), us


def parts_of_columns(mapping: RowMapping) -> Sequence[EventPart]:
    """Return what the statistic reads from each column of values."""
    if mapping.adds is None:
        return mapping.kept
    return [part for part in mapping.adds.parts if part.name != "by"]


def _code(cell: pl.Expr, labels: Sequence[str]) -> pl.Expr:
    """Encode texts by positions in ``labels``; null and "" are `MISSING`, others `OUTSIDE`."""
    place = cell.cast(pl.Enum(list(labels)), strict=False).to_physical().cast(pl.Int64)
    nothing = cell.is_null() | (cell == "")
    return pl.when(nothing).then(MISSING).otherwise(place.fill_null(OUTSIDE))


def _watch(us: pl.Expr, watch: Callable[[int], None]) -> pl.Expr:
    def passing(rows: pl.Series) -> pl.Series:
        watch(len(rows))
        return rows

    return us.map_batches(passing, return_dtype=pl.Int64, is_elementwise=True)


def _encode(values: Sequence[pl.Expr], adds: Adds) -> pl.Expr:
    """Encode each row's values as one integer, meaningless if one is missing."""
    if len(values) == 1:
        return values[0].map_batches(
            lambda series: pl.Series(adds.encode(series.to_numpy()), dtype=pl.Int64),
            return_dtype=pl.Int64,
            is_elementwise=True,
        )
    names = [f"part {place}" for place in range(len(values))]

    def encode(rows: pl.Series) -> pl.Series:
        columns = [rows.struct.field(name).to_numpy() for name in names]
        return pl.Series(adds.encode(*columns), dtype=pl.Int64)

    together = pl.struct([value.alias(name) for name, value in zip(names, values, strict=True)])
    return together.map_batches(encode, return_dtype=pl.Int64, is_elementwise=True)


def row_number_name(columns: Sequence[str]) -> str:
    """Return a name longer than all others, and so none of them.

    >>> row_number_name(["time", "row"])
    'row timerow'
    """
    return f"row {''.join(columns)}"

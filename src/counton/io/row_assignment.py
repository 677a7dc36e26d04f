"""Assignment of window, group, user and value to each row, for any source."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from counton.base.columns import MISSING, OUTSIDE
from counton.io.error_policy import Policies, Problem
from counton.io.object_cells import CellKind
from counton.io.problem_codes import code_as_time, code_as_window
from counton.io.sources import InputPart, Source, unreadable_errors
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
from counton.windowing.windows import Windows, is_moment, microseconds

UnlistedGroups = Literal["error", "drop", "discover"]


class ValueColumn(Protocol):
    """What a statistic reads from one column: a number, a count or a label of each event."""

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


class RowRule(Protocol):
    """How a row changes a statistic's sums (`counton.statistics.AccumulatorStatistic`)."""

    @property
    def parts(self) -> Sequence[ValueColumn]:
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

    def encode(self, *parts: object) -> NDArray[np.int64]:
        """Encode each row's values as one integer."""

    def entries(self, code: object) -> Sequence[tuple[Any, object]]:
        """Return pairs of an accumulator and an amount, of all rows or an int for all."""


#: Most characters of the name of a group found in the data; longer names are counted nowhere.
_LONGEST_GROUP_NAME = 200

#: Texts that programs write for a missing value, R the first one. Each is the name of one user.
LIKE_MISSING = ("NA", "N/A", "NULL", "null", "None", "NaN", "nan")

_HIDDEN = r"[\p{C}\p{Zl}\p{Zp}]"


def normal_group_name(cell: pl.Expr) -> pl.Expr:
    """Return the group named by a text; null if it names none.

    Spaces around it and Unicode's form (NFC) make no difference. Empty texts, very long ones, and
    ones with control or formatting characters name no group.
    """
    text = cell.cast(pl.String).str.normalize("NFC").str.strip_chars()
    good = text.str.len_chars().is_between(1, _LONGEST_GROUP_NAME) & ~text.str.contains(_HIDDEN)
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
        row_rule: how rows change sums; None: rows are only counted.
        ambiguous: which moment is meant by a local time that occurs twice. If windows are whole
            days, each local time is in the day that it names.
        time_format: None: ISO 8601.
        declared: groups with a count of their own, if ``other`` counts all other rows, and those
            without a group.
        value_columns_without_rule: values of an event in order, if there is no ``row_rule``.
    """

    columns: Columns
    windows: Windows
    unlisted_groups: UnlistedGroups = "error"
    row_rule: RowRule | None = None
    ambiguous: ClockChange = "raise"
    time_format: str | None = None
    declared: Sequence[str] = ()
    other: str | None = None
    policies: Policies = Policies()
    value_columns_without_rule: Sequence[ValueColumn] = ()

    def group(self, cell: pl.Expr) -> pl.Expr:
        """Return the group in which each row counts."""
        if self.unlisted_groups == "discover":
            return normal_group_name(cell)
        if self.other is None:
            return cell
        is_declared = cell.is_in(GroupNames(self.declared).column.implode())
        return pl.when(is_declared.fill_null(False)).then(cell).otherwise(pl.lit(self.other))


def n_choices(row_rule: RowRule | None) -> int:
    """Return the number of choices of accumulators by a row's values.

    They are all combinations that values decide, and one for rows with an unknown value.
    """
    if row_rule is None or not values_choose_sum(row_rule):
        return 1
    return math.prod(map(len, row_rule.spans)) + 1


def values_choose_sum(row_rule: RowRule) -> bool:
    """Return True if a row's values decide to which accumulator it adds, or to none."""
    return any(
        not isinstance(accumulator, int) for accumulator, _ in row_rule.entries(pl.col("total"))
    )


def collect(source: Source, frame: pl.LazyFrame) -> pl.DataFrame:
    """Compute a frame; an unreadable row raises an error that names it."""
    try:
        return frame.collect(engine="streaming")
    except unreadable_errors() as error:
        raise unreadable_part(source, error) from error


def unreadable_part(source: Source, error: BaseException) -> Exception:
    """Return an error that names the file and, if possible, the row."""
    for input_part in source.parts[:-1]:
        try:
            names = input_part.columns()
            input_part.frame(names).select(pl.col(names).is_null().any()).collect(
                engine="streaming"
            )
        except unreadable_errors():
            return input_part.unreadable(error)
    return source.parts[-1].unreadable(error)


def assign_rows(
    source: Source,
    mapping: RowMapping,
    watch: Callable[[int], None] | None = None,
    *,
    raw_labels: bool = False,
) -> pl.LazyFrame:
    """Assign the rows of a source, in its order; ``watch`` hears of further rows read.

    With ``raw_labels`` labels stay, in columns ``part N``: all values are labels, so that many
    events are equal.

    Returns:
        ``us``: the time in microseconds since 1970. ``window``: its number; 0 before the first, the
            number of windows plus 1 after the last, or the code of the `Problem` for which a row
            cannot be counted (`counton.io.problem_codes`).
            ``group``: text. ``total``: 1 without a ``row_rule`` or values; else what
            ``RowRule.encode`` makes of the row's values, such as a multiple of the resolution. With
            ``value_columns_without_rule`` there are ``part N`` instead.
            ``user``, ``id`` (text, of which `one_name` is the name) and ``sign``, if stated.
    """
    parts = [
        assign_part(input_part, mapping, watch, raw_labels=raw_labels)
        for input_part in source.parts
    ]
    return parts[0] if len(parts) == 1 else pl.concat(parts)


@cache
def _load_numpy_in_polars() -> None:
    """Let polars load numpy now, on a single thread: two of its threads at once would fail."""
    pl.Series(np.zeros(1, np.int64))


class _ReadColumns(NamedTuple):
    """The columns of one part that are read, and the values in them.

    Attributes:
        frame: the columns as they are in the file.
        types: types of the columns.
        kinds: for each column of objects, the column of its cells' kinds (`CellKind`).
        roles: columns of groups, users and ids, by role.
        values: each column of values, with what the statistic reads from it.
    """

    frame: pl.LazyFrame
    types: pl.Schema
    kinds: Mapping[str, str]
    roles: Mapping[str, str]
    values: Sequence[tuple[str, ValueColumn]]


def assign_part(
    input_part: InputPart,
    mapping: RowMapping,
    watch: Callable[[int], None] | None = None,
    *,
    raw_labels: bool = False,
) -> pl.LazyFrame:
    """Assign the rows of one part, with the columns of `assign_rows`."""
    _load_numpy_in_polars()
    read = _read_columns(input_part, mapping)
    frame = read.frame
    us = _time_column(read, mapping)
    us = watched(us, watch)
    if input_part.unread:
        frame, us = unread_marked(frame, us, input_part)
    roles = _role_columns(read)
    values = _checked_values(read, mapping)
    totals = [pl.lit(1, dtype=pl.Int64).alias("total")]
    if raw_labels or mapping.value_columns_without_rule:
        totals = values.raw_values
    elif values.numbers and mapping.row_rule is not None:
        totals = [_encode(values.numbers, mapping.row_rule).alias("total")]
    problems = [*_problems_of_roles(roles, mapping), *values.problems]
    identity_columns: list[pl.Expr] = [pl.col(name) for name in ("user", "id") if name in roles]
    if "group" in roles:
        identity_columns.insert(0, mapping.group(pl.col("group")).alias("group"))
    named = frame.select(us=us, **roles, **_value_columns(read, input_part))
    window = _window_or_problem(mapping.windows, problems)
    return named.select("us", *identity_columns, window.alias("window"), *totals)


class PlainColumns(NamedTuple):
    """Times as they are stored and groups as texts, by the names of their columns.

    Attributes:
        type_of_time: type of the times.
    """

    frame: pl.LazyFrame
    type_of_time: pl.DataType


def stored_times_and_groups(input_part: InputPart, mapping: RowMapping) -> PlainColumns | None:
    """Return the columns of rows that are only counted.

    Returns:
        None unless each stored time is one moment, and later ones are larger: of texts, of local
        times whose clocks may change, and of lines that cannot be read.
    """
    _load_numpy_in_polars()
    read = _read_columns(input_part, mapping)
    name = mapping.columns.time
    if not name or read.kinds or input_part.unread or name in read.roles.values():
        return None
    dtype = read.types[name]
    has_zone = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    is_time = isinstance(dtype, pl.Datetime) or dtype == pl.Date
    if not is_time or not (has_zone or mapping.windows.timezone == "UTC"):
        return None
    groups = [as_text(pl.col(column), read.types[column]) for column in read.roles.values()]
    return PlainColumns(read.frame.select(name, *groups), dtype)


def _read_columns(input_part: InputPart, mapping: RowMapping) -> _ReadColumns:
    """Open the columns of a part; those of labels, groups, users and ids are read as texts."""
    columns = mapping.columns
    values = list(zip(columns.parts, parts_of_columns(mapping), strict=True))
    columns_by_role = {"group": columns.group, "user": columns.user, "id": columns.id}
    roles = {name: column for name, column in columns_by_role.items() if column is not None}
    labels = [column for column, value in values if value.kind == "label"]
    not_texts = {columns.time, *(column for column, value in values if value.kind != "label")}
    input_part.check_columns(input_part.of_file(columns.names))
    kinds_of_all = input_part.kinds_of(input_part.of_file(columns.names))
    kinds = {column: name for column, name in kinds_of_all.items() if column in not_texts}
    frame = input_part.scan(columns.names, [*roles.values(), *labels], list(kinds.values()))
    return _ReadColumns(frame, frame.collect_schema(), kinds, roles, values)


def _time_column(read: _ReadColumns, mapping: RowMapping) -> pl.Expr:
    """Return the times of rows in microseconds since 1970; 0 if rows have no times."""
    name = mapping.columns.time
    if name:
        return _times(mapping, read.types[name], read.kinds.get(name))
    return pl.col(mapping.columns.names[0]).is_null().cast(pl.Int64) * 0


def _role_columns(read: _ReadColumns) -> dict[str, pl.Expr]:
    """Return the texts of groups, users and ids by role."""
    return {
        name: as_text(pl.col(column), read.types[column]) for name, column in read.roles.items()
    }


def _value_columns(read: _ReadColumns, input_part: InputPart) -> dict[str, pl.Expr]:
    """Return the cells of values by the names ``part 0``, ``part 1``, ..."""
    named = dict[str, pl.Expr]()
    for index, (column, value) in enumerate(read.values):
        cell = pl.col(column)
        if value.kind == "label":
            cells = as_text(cell, read.types[column])
        elif value.kind == "count":
            cells = _numbers_of_cells(input_part.count(column, cell), read.kinds.get(column))
        else:
            cells = _numbers_of_cells(input_part.number(cell), read.kinds.get(column))
        named[f"part {index}"] = cells
    return named


def _problems_of_roles(roles: Container[str], mapping: RowMapping) -> list[tuple[pl.Expr, Problem]]:
    """Return conditions under which a row has no group, user or id that it needs."""
    needed = [("user", Problem.NO_USER), ("id", Problem.NO_ID)]
    if mapping.unlisted_groups == "error" and mapping.other is None:
        needed.insert(0, ("group", Problem.NO_GROUP))
    return [
        (pl.col(name).is_null() | (pl.col(name) == ""), problem)
        for name, problem in needed
        if name in roles
    ]


def _window_or_problem(windows: Windows, problems: Sequence[tuple[pl.Expr, Problem]]) -> pl.Expr:
    """Return the window of each row, or minus its first problem."""
    window = windows.step("us")
    for is_wrong, problem in reversed(problems):
        is_first = pl.when(is_wrong & is_moment(pl.col("us")))
        window = is_first.then(code_as_window(problem)).otherwise(window)
    return window


class _CheckedValues(NamedTuple):
    """The values of each row, which are in the columns ``part 0``, ``part 1``, ...

    Attributes:
        numbers: a code or number of each column, 0 if it is invalid.
        raw_values: labels as texts, and other values as numbers, which may be invalid.
        problems: conditions under which a row is invalid, with the problem.
    """

    numbers: Sequence[pl.Expr]
    raw_values: list[pl.Expr]
    problems: Sequence[tuple[pl.Expr, Problem]]


def _checked_values(read: _ReadColumns, mapping: RowMapping) -> _CheckedValues:
    """Return the values of rows, with the conditions under which they are invalid."""
    numbers = []
    raw_values = []
    problems = list[tuple[pl.Expr, Problem]]()
    for index, (column, value) in enumerate(read.values):
        cell = pl.col(f"part {index}")
        if value.kind == "label":
            raw_values.append(cell)
            numbers.append(_code(cell, value.labels))
            continue
        number = cell.cast(pl.Float64, strict=False)
        finite = number.is_finite().fill_null(False)
        problems += [(cell.is_null(), Problem.NO_VALUE), (~finite, Problem.NOT_FINITE)]
        if value.kind == "count":
            is_text = read.types[column] == pl.String
            set_aside = mapping.policies.quarantine is not None
            checked = _count_of(cell, number, value.most, is_text, set_aside=set_aside)
            number = checked.number
            problems.append((finite & ~checked.is_valid, Problem.NO_COUNT))
            finite &= checked.is_valid
        numbers.append(pl.when(finite).then(number).otherwise(0.0))
        raw_values.append(number)
    return _CheckedValues(numbers, raw_values, problems)


def _times(mapping: RowMapping, dtype: pl.DataType, kinds: str | None) -> pl.Expr:
    """Return the time of each row in microseconds since 1970, or a code of `moments`.

    Args:
        mapping: the options by which rows are read.
        dtype: the type of the column of times.
        kinds: the column of the cells' kinds; None if the type says them.
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


class _CheckedCount(NamedTuple):
    """How many events each row adds, and whether its cell is a valid count."""

    number: pl.Expr
    is_valid: pl.Expr


def _count_of(
    cell: pl.Expr, value: pl.Expr, most: int, written: bool, *, set_aside: bool
) -> _CheckedCount:
    """Return how many events each row adds, and whether it is valid.

    A valid count is a whole number in range, and a text has digits alone. If bad rows are set
    aside, a count above ``most`` adds as much less as it is above, down to 0 from twice ``most``
    on. Otherwise one event more would remove all events of its row from the sum.

    Args:
        cell: the cells.
        value: the cells as floats.
        most: the largest count.
        written: True if the cells are texts.
        set_aside: True if other rows are written to a file, and the run goes on without them.
    """
    whole = value == value.floor()
    if written:
        whole &= cell.str.contains(_DIGITS_ALONE)
    if not set_aside:
        return _CheckedCount(value, whole & value.is_between(0, most))
    fading = pl.when(value > most).then(2 * most - value).otherwise(value)
    return _CheckedCount(fading, whole & fading.is_between(0, most) & (value < 2 * most))


def with_total(rows: pl.DataFrame, mapping: RowMapping) -> pl.DataFrame:
    """Replace labels by ``total``, a code from which the statistic finds the changed sums."""
    parts = parts_of_columns(mapping)
    names = [f"part {place}" for place in range(len(parts))]
    codes = [_code(pl.col(name), part.labels) for name, part in zip(names, parts, strict=True)]
    assert mapping.row_rule is not None
    return rows.with_columns(total=_encode(codes, mapping.row_rule)).drop(names)


def unread_marked(
    frame: pl.LazyFrame, us: pl.Expr, input_part: InputPart
) -> tuple[pl.LazyFrame, pl.Expr]:
    """Number the rows; unreadable ones have `Problem.UNREADABLE_ROW` in place of a time."""
    number = row_number_name(frame.collect_schema().names())
    unread = pl.Series(list(input_part.unread), dtype=pl.UInt32)
    problem = code_as_time(Problem.UNREADABLE_ROW)
    us = pl.when(pl.col(number).is_in(unread.implode())).then(problem).otherwise(us)
    return frame.with_row_index(number), us


def parts_of_columns(mapping: RowMapping) -> Sequence[ValueColumn]:
    """Return what the statistic reads from each column of values."""
    if mapping.row_rule is None:
        return mapping.value_columns_without_rule
    return [part for part in mapping.row_rule.parts if part.name != "by"]


def _code(cell: pl.Expr, labels: Sequence[str]) -> pl.Expr:
    """Encode texts by positions in ``labels``; null and "" are `MISSING`, others `OUTSIDE`."""
    place = cell.cast(pl.Enum(list(labels)), strict=False).to_physical().cast(pl.Int64)
    nothing = cell.is_null() | (cell == "")
    return pl.when(nothing).then(MISSING).otherwise(place.fill_null(OUTSIDE))


def watched(us: pl.Expr, watch: Callable[[int], None] | None) -> pl.Expr:
    """Return a column of integers; ``watch`` hears of its rows as they are read."""
    if watch is None:
        return us

    def passing(rows: pl.Series) -> pl.Series:
        watch(len(rows))
        return rows

    return us.map_batches(passing, return_dtype=pl.Int64, is_elementwise=True)


def _encode(values: Sequence[pl.Expr], row_rule: RowRule) -> pl.Expr:
    """Encode each row's values as one integer, meaningless if one is missing."""
    if len(values) == 1:
        return values[0].map_batches(
            lambda series: pl.Series(row_rule.encode(series.to_numpy()), dtype=pl.Int64),
            return_dtype=pl.Int64,
            is_elementwise=True,
        )
    names = [f"part {place}" for place in range(len(values))]

    def encode(rows: pl.Series) -> pl.Series:
        columns = [rows.struct.field(name).to_numpy() for name in names]
        return pl.Series(row_rule.encode(*columns), dtype=pl.Int64)

    together = pl.struct([value.alias(name) for name, value in zip(names, values, strict=True)])
    return together.map_batches(encode, return_dtype=pl.Int64, is_elementwise=True)


def row_number_name(columns: Sequence[str]) -> str:
    """Return a name longer than all others, and so none of them.

    >>> row_number_name(["time", "row"])
    'row timerow'
    """
    return f"row {''.join(columns)}"

"""Marking of rows: the window, group, user and value of each event are computed, for any source."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from functools import cache
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from counton.base.columns import MISSING, OUTSIDE
from counton.base.groups import GroupNames
from counton.base.lazy_polars import polars as pl
from counton.base.windows import NO_MOMENT, Windows, microseconds
from counton.rows.policies import Policies, Problem
from counton.rows.sources import Rows, Source, unreadable_errors
from counton.rows.timestamps import (
    EPOCH_FORMATS,
    UNREADABLE_TIME,
    ClockChange,
    as_text,
    is_serial,
    moments,
)

Unknown = Literal["refuse", "drop", "discover"]


class EventPart(Protocol):
    """The description of one value of an event, such as a number or a label."""

    @property
    def name(self) -> str:
        """Name by which the statistic refers to this value: a job's option, such as "value", or the
        name of a column.
        """

    @property
    def kind(self) -> str:
        """Kind of the values: "number", "count" or "label"."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that are allowed, if the values of this part of an event are labels."""

    @property
    def most(self) -> int:
        """Largest value, if the values are counts."""


class Adds(Protocol):
    """The rule by which a row changes a statistic's sums. Statistics whose rows may come in any
    order implement it (`counton.statistics.TallyStatistic`).
    """

    @property
    def parts(self) -> Sequence[EventPart]:
        """Values of a row that the statistic reads."""

    @property
    def places(self) -> int:
        """Number of exact sums, called places, that the statistic keeps for each group."""

    @property
    def counts_rows(self) -> bool:
        """True if every row adds 1 to exactly one place (one of the sums that the statistic keeps
        for each group).
        """

    @property
    def spans(self) -> Sequence[range]:
        """Ranges of places (the sums kept for each group). A row adds to at most one place of each
        range; the row's values decide to which.
        """

    def encode(self, *parts: Any) -> NDArray[np.int64]:
        """Encode the values of each row as one integer. ``parts`` has an array for each value that
        the statistic reads, with an entry for each row.
        """

    def entries(self, code: Any) -> Sequence[tuple[Any, Any]]:
        """Return what each row adds to the sums, as pairs of a place (one of the sums kept for each
        group) and an amount.

        ``code`` has the values of the rows, encoded by `encode`. A place or an amount that is equal
        for all rows may be an int.
        """


#: Most characters of a label of a group found in the data; longer labels are counted nowhere.
_LONGEST_LABEL = 200

_HIDDEN = r"[\p{C}\p{Zl}\p{Zp}]"


def label(given: pl.Expr) -> pl.Expr:
    """Return the group named by a text; null if the text cannot be a group's name.

    Texts that differ only in spaces around them or in Unicode's form (NFC) name the same group.
    Empty texts, very long texts, and texts with control or formatting characters name no group.
    """
    text = given.cast(pl.String).str.normalize("NFC").str.strip_chars()
    good = text.str.len_chars().is_between(1, _LONGEST_LABEL) & ~text.str.contains(_HIDDEN)
    return pl.when(good).then(text)


def one_name(texts: pl.Series) -> pl.Series:
    """Return users or ids under one name each: the text of a whole number loses its zeros after the
    point, because programs write the integer 7 also as 7.0. Leading zeros stay.

    >>> one_name(pl.Series(["7", "7.0", "007.00", "7.50", "v7.0", None])).to_list()
    ['7', '7', '007', '7.50', 'v7.0', None]
    """
    if not texts.str.contains(".0", literal=True).any():
        return texts
    return texts.str.replace(r"^(-?[0-9]+)\.0+$", "${1}")


@dataclass(frozen=True)
class Columns:
    """Names of columns by their role; None if there is no such column.

    Attributes:
        time, group, value: columns of the event; the time is "" if rows have no time.
        user: column of users; see `one_name`.
        id: column of ids, which tell events apart: two rows with one id are the same event.
        several: columns of an event's values, if an event has other values than one number.
    """

    time: str
    group: str | None = None
    value: str | None = None
    user: str | None = None
    id: str | None = None
    several: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Columns of an event's values, in the order in which a statistic takes them."""
        return self.several if self.value is None else (self.value,)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns that are read, each once."""
        named = (self.time, self.group, *self.parts, self.user, self.id)
        return tuple(dict.fromkeys(name for name in named if name))


@dataclass(frozen=True)
class RowReading:
    """Options by which rows are read.

    Attributes:
        columns: columns of time, group, value, user and id.
        windows: rule that assigns each row to a step.
        unknown: whether rows of undeclared groups are refused ("refuse"), counted nowhere ("drop"),
            or counted in groups found in the data ("discover").
        adds: rule by which rows change a statistic's sums; None if rows are only counted.
        clock_change: which moment is meant by a local time that occurs twice when clocks change.
        time_format: format of times; None: ISO 8601.
        declared: groups with a count of their own, if the group ``other`` counts all other rows.
        other: group that counts rows of all other groups and rows without a group; None if there
            is no such group.
        policies: policies for rows that cannot be counted.
        kept: values of an event, in the order of their columns, if there is no rule ``adds``.
    """

    columns: Columns
    windows: Windows
    unknown: Unknown = "refuse"
    adds: Adds | None = None
    clock_change: ClockChange = "raise"
    time_format: str | None = None
    declared: Sequence[str] = ()
    other: str | None = None
    policies: Policies = attribute(default_factory=Policies)
    kept: Sequence[EventPart] = ()

    def group(self, given: pl.Expr) -> pl.Expr:
        """Return an expression for the group in which each row counts, given the expression of its
        column of groups.
        """
        if self.unknown == "discover":
            return label(given)
        if self.other is None:
            return given
        known = given.is_in(GroupNames(self.declared).column.implode())
        return pl.when(known.fill_null(False)).then(given).otherwise(pl.lit(self.other))


def cells_across(adds: Adds | None) -> int:
    """Return the number of cells into which the rows of one window and group are divided when they
    are added up.

    It is above 1 if a row's values decide to which places the row adds. (A place is one of the sums
    that the statistic keeps for a group.) Then there is one cell for each combination of places,
    and one for rows with an unknown value.
    """
    if adds is None or not by_row(adds):
        return 1
    return math.prod(map(len, adds.spans)) + 1


def by_row(adds: Adds) -> bool:
    """Return True if a row's values decide to which place (one of the sums kept for each group) it
    adds. It may then add to no place at all.
    """
    return any(not isinstance(place, int) for place, _ in adds.entries(pl.col("total")))


def collect(source: Source, frame: pl.LazyFrame) -> pl.DataFrame:
    """Compute a lazy frame of a source's rows; an unreadable row raises an error that names the
    row.
    """
    try:
        return frame.collect(engine="streaming")
    except unreadable_errors() as error:
        raise unreadable_part(source, error) from error


def unreadable_part(source: Source, error: BaseException) -> Exception:
    """Return an error that names the file, and if possible the row, that could not be read."""
    for part in source.parts[:-1]:
        try:
            names = part.columns()
            part.frame(names).select(pl.col(names).is_null().any()).collect(engine="streaming")
        except unreadable_errors():
            return part.unreadable(error)
    return source.parts[-1].unreadable(error)


def mark_rows(
    source: Source,
    reading: RowReading,
    watch: Callable[[int], None] | None = None,
    *,
    raw_labels: bool = False,
) -> pl.LazyFrame:
    """Mark the rows of a source: compute for each row its window, group, user and value, in the
    order of the source.

    Args:
        watch: function that is called with a number of rows each time that so many more rows are
            read.
        raw_labels: True to return labels as they are, in columns ``part N`` instead of ``total``,
            if all values of events are labels (`says_labels`).

    Returns:
        A lazy frame with these columns. ``us``: the time in microseconds since 1970. ``step``: the
            number of the window; 0 before the first window, the number of windows plus 1 after the
            last. A row that cannot be counted has a negative step instead: minus the number of its
            `Problem`. ``group``: text. ``total``: 1, or the value as a multiple of the resolution,
            or the code of several values from `with_total`; with ``kept`` there are columns
            ``part N`` instead. Also ``user``, ``id`` (both text) and ``sign``, if these columns are
            stated.
    """
    parts = [mark_part(part, reading, watch, raw_labels=raw_labels) for part in source.parts]
    return parts[0] if len(parts) == 1 else pl.concat(parts)


@cache
def _show_an_array() -> None:
    """Let polars load numpy now, on a single thread.

    It loads numpy when it first meets an array, and fails if two of its threads do so at once.
    """
    pl.Series(np.zeros(1, np.int64))


def mark_part(
    part: Rows,
    reading: RowReading,
    watch: Callable[[int], None] | None = None,
    *,
    raw_labels: bool = False,
) -> pl.LazyFrame:
    """Mark the rows of one file or frame with the window, group, user and value of each row; the
    result has the columns of `mark_rows`.
    """
    _show_an_array()
    columns = reading.columns
    parts = list(zip(columns.parts, parts_of_columns(reading), strict=True))
    every = {name: getattr(columns, name) for name in ("group", "user", "id")}
    whose = {name: column for name, column in every.items() if column is not None}
    told = [*whose.values(), *(column for column, one in parts if one.kind == "label")]
    frame = part.scan(columns.names, told)
    types = frame.collect_schema()
    us = pl.col(columns.names[0]).is_null().cast(pl.Int64) * 0  # if rows have no time
    if columns.time:
        us = moments(
            columns.time,
            types[columns.time],
            reading.windows.timezone,
            reading.clock_change,
            reading.time_format,
        )
        if reading.time_format in EPOCH_FORMATS and not types[columns.time].is_temporal():
            serial = is_serial(pl.col(columns.time))
            early = us < microseconds(reading.windows.start)
            us = pl.when(serial & early).then(UNREADABLE_TIME).otherwise(us)
    if watch is not None:
        us = _watch(us, watch)
    if part.unread:
        frame, us = unread_marked(frame, us, part)
    taken = {"us": us}
    taken |= {name: as_text(pl.col(column), types[column]) for name, column in whose.items()}
    for name in taken.keys() & {"user", "id"}:
        taken[name] = taken[name].map_batches(one_name, return_dtype=pl.String, is_elementwise=True)
    for place, (column, one) in enumerate(parts):
        given = pl.col(column)
        said = as_text(given, types[column]) if one.kind == "label" else part.number(given)
        taken[f"part {place}"] = said
    missing = [("user", Problem.NO_USER), ("id", Problem.NO_ID)]
    if reading.unknown == "refuse" and reading.other is None:
        missing.insert(0, ("group", Problem.NO_GROUP))
    problems = [
        (pl.col(name).is_null() | (pl.col(name) == ""), problem)
        for name, problem in missing
        if name in taken
    ]
    values, kept_parts = [], []
    for place, (_, one) in enumerate(parts):
        given = pl.col(f"part {place}")
        if one.kind == "label":
            kept_parts.append(given)
            values.append(_code(given, one.labels))
            continue
        value = given.cast(pl.Float64, strict=False)
        finite = value.is_finite().fill_null(False)
        problems += [(given.is_null(), Problem.NO_VALUE), (~finite, Problem.NOT_FINITE)]
        if one.kind == "count":
            if reading.policies.quarantine is not None:
                # A row set aside for one event too many would move its sum by all its events.
                value = value.clip(upper_bound=float(one.most))
            whole = (value == value.floor()) & value.is_between(0, one.most)
            problems.append((finite & ~whole, Problem.NO_COUNT))
            finite &= whole
        values.append(pl.when(finite).then(value).otherwise(0.0))
        kept_parts.append(value)
    totals = [pl.lit(1, dtype=pl.Int64).alias("total")]
    if raw_labels or reading.kept:
        totals = kept_parts
    elif values and reading.adds is not None:
        totals = [_encode(values, reading.adds).alias("total")]
    step = reading.windows.step("us")
    for wrong, problem in reversed(problems):
        unless = pl.when(wrong & (pl.col("us") > NO_MOMENT))
        step = unless.then(-int(problem)).otherwise(step)
    kept: list[pl.Expr] = [pl.col(name) for name in ("user", "id") if name in taken]
    if "group" in taken:
        kept.insert(0, reading.group(pl.col("group")).alias("group"))
    return frame.select(**taken).select("us", *kept, step.alias("step"), *totals)


def says_labels(reading: RowReading) -> bool:
    """Return True if the statistic reads only labels from each event, so that many events are
    equal.
    """
    parts = parts_of_columns(reading)
    return bool(parts) and all(one.kind == "label" for one in parts)


def with_total(rows: pl.DataFrame, reading: RowReading) -> pl.DataFrame:
    """Replace the labels of rows by one column ``total``: a code of all labels of the row, from
    which the statistic finds the sums that the row changes.

    Args:
        rows: rows with their windows and groups, as `mark_rows` returns them.
    """
    parts = parts_of_columns(reading)
    names = [f"part {place}" for place in range(len(parts))]
    codes = [_code(pl.col(name), one.labels) for name, one in zip(names, parts, strict=True)]
    assert reading.adds is not None
    return rows.with_columns(total=_encode(codes, reading.adds)).drop(names)


def unread_marked(frame: pl.LazyFrame, us: pl.Expr, part: Rows) -> tuple[pl.LazyFrame, pl.Expr]:
    """Mark the unreadable rows of one part of a source, so that they are not counted.

    Returns:
        The rows with their numbers as a further column; and the expression ``us`` of times, which
            gives unreadable rows the code of `Problem.UNREADABLE_ROW` instead of a time.
    """
    number = row_number_name(frame.collect_schema().names())
    unread = pl.Series(list(part.unread), dtype=pl.UInt32)
    problem = NO_MOMENT - int(Problem.UNREADABLE_ROW)
    us = pl.when(pl.col(number).is_in(unread.implode())).then(problem).otherwise(us)
    return frame.with_row_index(number), us


def parts_of_columns(reading: RowReading) -> Sequence[EventPart]:
    """Return what the statistic reads from each column of an event's values, such as a number or a
    label.
    """
    if reading.adds is None:
        return reading.kept
    return [part for part in reading.adds.parts if part.name != "by"]


def _code(given: pl.Expr, labels: Sequence[str]) -> pl.Expr:
    """Return an expression that encodes texts by their positions in ``labels``; null and "" become
    `MISSING`, any other text `OUTSIDE`.
    """
    place = given.cast(pl.Enum(list(labels)), strict=False).to_physical().cast(pl.Int64)
    nothing = given.is_null() | (given == "")
    return pl.when(nothing).then(MISSING).otherwise(place.fill_null(OUTSIDE))


def _watch(us: pl.Expr, watch: Callable[[int], None]) -> pl.Expr:
    def passing(rows: pl.Series) -> pl.Series:
        watch(len(rows))
        return rows

    return us.map_batches(passing, return_dtype=pl.Int64, is_elementwise=True)


def _encode(values: Sequence[pl.Expr], adds: Adds) -> pl.Expr:
    """Return an expression that encodes the values of each row as one integer. For a row that lacks
    a value the integer is meaningless.
    """
    if len(values) == 1:
        return values[0].map_batches(
            lambda given: pl.Series(adds.encode(given.to_numpy()), dtype=pl.Int64),
            return_dtype=pl.Int64,
            is_elementwise=True,
        )
    names = [f"part {place}" for place in range(len(values))]

    def encode(rows: pl.Series) -> pl.Series:
        given = [rows.struct.field(name).to_numpy() for name in names]
        return pl.Series(adds.encode(*given), dtype=pl.Int64)

    together = pl.struct([one.alias(name) for name, one in zip(names, values, strict=True)])
    return together.map_batches(encode, return_dtype=pl.Int64, is_elementwise=True)


def row_number_name(columns: Sequence[str]) -> str:
    """Return a name for a column of row numbers that is longer than all other names, and so differs
    from them.

    >>> row_number_name(["time", "row"])
    'row timerow'
    """
    return f"row {''.join(columns)}"

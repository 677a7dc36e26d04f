"""Events counted (or summed) by window and group in one pass over a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.errors import InvalidInput, SumOverflow, field
from counton.events.files import EventFile
from counton.events.windows import ClockChange, Windows, with_moments

Unknown = Literal["refuse", "drop"]
UNKNOWN: tuple[Unknown, ...] = get_args(Unknown)

Grid = Callable[[NDArray[np.float64]], NDArray[np.int64]]

#: Sums of one cell stay below this, so that a total over cells is still exact in int64.
_LARGEST_CELL = 2.0**61
_SHOWN = 5


class Problem(IntEnum):
    """What is wrong with a row; of several, the first is named.

    >>> Problem.NO_GROUP.words
    'no group'
    """

    NONE = 0
    NO_TIME = 1
    UNREADABLE_TIME = 2
    CLOCK_CHANGE = 3
    NO_GROUP = 4
    NO_VALUE = 5
    NOT_FINITE = 6

    @property
    def words(self) -> str:
        """What the row has."""
        return _WORDS[self]

    def remedy(self, timezone: str) -> str:
        """What to do.

        Args:
            timezone: in which times without an offset are read.
        """
        return _REMEDIES[self].replace("TIMEZONE", timezone)


_WORDS = {
    Problem.NONE: "no problem",
    Problem.NO_TIME: "no time",
    Problem.UNREADABLE_TIME: "a time that cannot be read",
    Problem.CLOCK_CHANGE: "a local time that the clocks skip or pass twice",
    Problem.NO_GROUP: "no group",
    Problem.NO_VALUE: "no value",
    Problem.NOT_FINITE: "a value that is not a finite number",
}
_REMEDIES = {
    Problem.NONE: "count it",
    Problem.NO_TIME: "remove such rows, or choose a time column that is always filled",
    Problem.UNREADABLE_TIME: (
        "write ISO 8601, as in 2013-01-01T05:00Z, or state the time format "
        f"({field('time_format')})"
    ),
    Problem.CLOCK_CHANGE: (
        "write times with a UTC offset; of a time that comes twice in TIMEZONE you may also "
        f"choose one ({field('clock_change')})"
    ),
    Problem.NO_GROUP: (
        f"give the row a group, or leave out rows without ({field('unknown', 'drop')})"
    ),
    Problem.NO_VALUE: "remove such rows, or fill the value",
    Problem.NOT_FINITE: "write a finite number",
}


@dataclass(frozen=True)
class Columns:
    """Which columns hold an event's time, group, value, user and id (None: there is none)."""

    time: str
    group: str | None = None
    value: str | None = None
    user: str | None = None
    id: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, each once."""
        named = (self.time, self.group, self.value, self.user, self.id)
        return tuple(dict.fromkeys(name for name in named if name is not None))


@dataclass(frozen=True)
class Tally:
    """What a file holds, exactly. Not private: nothing of it belongs in a published output.

    Attributes:
        cells: one row per window and group that has events: ``step``, ``group`` (position in the
            domain), ``rows``, ``total`` (events, or the sum of values on the grid); all int64.
        newest: microseconds of the newest event, None where there is no event.
        rows: all rows read.
        before: rows before the first window, counted nowhere.
        beyond: rows after the last window.
        unknown: rows of undeclared groups, counted nowhere.
    """

    cells: pl.DataFrame
    newest: int | None
    rows: int
    before: int
    beyond: int
    unknown: int


def tally(
    file: EventFile,
    columns: Columns,
    windows: Windows,
    domain: Sequence[str] | None = None,
    *,
    unknown: Unknown = "refuse",
    grid: Grid | None = None,
    clock_change: ClockChange = "raise",
    time_format: str | None = None,
) -> Tally:
    """Count a file's events by window and group.

    Args:
        file: the events.
        columns: where time, group and value stand.
        windows: how time is cut.
        domain: the declared groups; None exactly if there is no group column.
        unknown: whether rows of other groups are refused or counted nowhere.
        grid: puts values on the integers (`Contribution.to_grid`); needed with a value column.
        clock_change: which moment a local time means that comes twice.
        time_format: for times that are not ISO 8601.

    Raises:
        InvalidInput: a missing column, a missing or unreadable time, a time that the
            clocks skip or pass twice, a missing or unknown group, a value that is missing, NaN or
            infinite.
        SumOverflow: the sum of one cell is too large.
    """
    frame = file.scan(columns.names, () if columns.value is None else (columns.value,))
    marked = _mark(frame, columns, windows, unknown, grid, clock_change, time_format)
    try:
        found = (
            marked.group_by("step", "group")
            .agg(
                pl.len().cast(pl.Int64).alias("rows"),
                pl.col("total").sum(),
                pl.col("total").cast(pl.Float64).abs().sum().alias("magnitude"),
                pl.col("us").max(),
                pl.col("problem").max(),
            )
            .collect(engine="streaming")
        )
        if found.height and found["problem"].max() != Problem.NONE:
            raise _explain(file, columns, marked, windows.timezone)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise file.unreadable(error) from error
    known, outside = _place(found, domain)
    if outside.height and unknown == "refuse":
        raise _unknown_groups(file, columns, outside)
    _check_sums(known)
    inside = known.filter(pl.col("step").is_between(1, windows.steps))
    return Tally(
        cells=inside.select("step", "group", "rows", "total").sort("step", "group"),
        newest=None if not found.height else int(found["us"].max()),  # type: ignore[arg-type]
        rows=int(found["rows"].sum()),
        before=int(known.filter(pl.col("step") < 1)["rows"].sum()),
        beyond=int(known.filter(pl.col("step") > windows.steps)["rows"].sum()),
        unknown=int(outside["rows"].sum()),
    )


def _mark(
    frame: pl.LazyFrame,
    columns: Columns,
    windows: Windows,
    unknown: Unknown,
    grid: Grid | None,
    clock_change: ClockChange,
    time_format: str | None,
) -> pl.LazyFrame:
    """Columns step, group, total, us, problem: problem is a `Problem`."""
    group = pl.lit("") if columns.group is None else pl.col(columns.group).cast(pl.String)
    given = pl.lit(1.0) if columns.value is None else pl.col(columns.value)
    named = frame.select(
        time=pl.col(columns.time), missing=pl.col(columns.time).is_null(), group=group, given=given
    )
    timed = with_moments(named, "time", windows.timezone, clock_change, time_format)
    value = pl.col("given").cast(pl.Float64, strict=False)
    problem = (
        pl.when("missing")
        .then(Problem.NO_TIME)
        .when(~pl.col("readable"))
        .then(Problem.UNREADABLE_TIME)
        .when(pl.col("us").is_null())
        .then(Problem.CLOCK_CHANGE)
        .when(pl.col("group").is_null() if unknown == "refuse" else False)
        .then(Problem.NO_GROUP)
        .when(pl.col("given").is_null())
        .then(Problem.NO_VALUE)
        .when(~value.is_finite().fill_null(False))
        .then(Problem.NOT_FINITE)
        .otherwise(Problem.NONE)
    )
    total = pl.lit(1, dtype=pl.Int64)
    if grid is not None:
        total = (
            pl.when(value.is_finite())
            .then(value)
            .fill_null(0.0)
            .map_batches(
                lambda values: pl.Series(grid(values.to_numpy())),
                return_dtype=pl.Int64,
                is_elementwise=True,
            )
        )
    step = (
        pl.col("us")
        .fill_null(0)
        .map_batches(
            lambda us: pl.Series(windows.step_of(us.to_numpy())),
            return_dtype=pl.Int64,
            is_elementwise=True,
        )
    )
    return timed.select("group", "us", step=step, total=total, problem=problem.cast(pl.Int8))


def _explain(
    file: EventFile, columns: Columns, marked: pl.LazyFrame, timezone: str
) -> InvalidInput:
    """The error for the first row that cannot be counted, and how many there are."""
    bad = marked.with_row_index("row", offset=1).filter(pl.col("problem") != Problem.NONE)
    number = int(bad.select(pl.len()).collect().item())
    first = bad.select("row", "problem").head(1).collect()
    row, problem = int(first["row"][0]), Problem(int(first["problem"][0]))
    name = {
        Problem.NO_GROUP: columns.group,
        Problem.NO_VALUE: columns.value,
        Problem.NOT_FINITE: columns.value,
    }.get(problem, columns.time)
    assert name is not None
    text = file.scan((name,)).slice(row - 1, 1).collect()[name].to_list()[0]
    others = f" ({number:,} rows have such a problem)" if number > 1 else ""
    return InvalidInput(
        f"row {row:,} of {file.name} has {problem.words} in column {name!r} ({text!r})"
        f"{others}; {problem.remedy(timezone)}"
    )


def _place(found: pl.DataFrame, domain: Sequence[str] | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Replace group names by positions in the domain; rows of other groups come apart."""
    if domain is None:
        return found.with_columns(group=pl.lit(0, dtype=pl.Int64)), found.head(0)
    places = pl.DataFrame(
        {"group": list(domain), "place": range(len(domain))},
        schema={"group": pl.String, "place": pl.Int64},
    )
    joined = found.join(places, on="group", how="left")
    known = joined.filter(pl.col("place").is_not_null())
    outside = joined.filter(pl.col("place").is_null())
    return known.with_columns(group=pl.col("place")), outside


def _unknown_groups(file: EventFile, columns: Columns, outside: pl.DataFrame) -> InvalidInput:
    names = outside["group"].unique().sort().to_list()
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return InvalidInput(
        f"{file.name} has groups in column {columns.group!r} that are not declared: {shown}{more}; "
        f"correct the data or the domain, or drop unknown groups"
    )


def _check_sums(known: pl.DataFrame) -> None:
    large = known.filter(pl.col("magnitude") >= _LARGEST_CELL)
    if large.height:
        raise SumOverflow(
            f"the values of one window and group add up to {large['magnitude'][0]:.3g} times the "
            f"resolution; the bound is 2^61: use a coarser resolution or narrower bounds"
        )

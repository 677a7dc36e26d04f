"""Rows made from each user's rows: the number of the user's rows, or some of their values.

The counts of made rows tell how many events users have, or in which range the values of a column
lie. A user's made rows depend on that user's rows alone: whether or not one user is there, the made
rows of all others are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from datetime import UTC, datetime
from functools import cached_property
from typing import cast

import polars as pl
from typing_extensions import override

from counton.base.errors import InvalidInput, field
from counton.base.private import Private
from counton.base.windows import Once, Windows, load_zone
from counton.job.job import RowFormat
from counton.released.periods import period_of
from counton.rows.sources import EventFrame, Source, UnreadableRow
from counton.rows.tally import Tally, tally
from counton.rows.timestamps import ClockChange
from counton.rows.window_marks import Columns, RowReading
from counton.run.stream_request import check_period
from counton.statistics import Quantiles

#: Separator of a user's name and the number of a period.
_BETWEEN = "\x1f"


@dataclass(frozen=True)
class UserRows:
    """Rules for replacing all rows of a user by one new row, or by a few.

    Attributes:
        user: column of users.
        named: name of the new column.
        grid: quantile statistic whose cells the values fall into; None if no values are read.
        value: column of the values; None: the user's rows are counted.
        most: number of values that are taken from each user.
        per: length of a period; each period of a user is then treated as a user. None: no periods.
        time: column of times, which determines the period of a row.
        timezone: zone of local times and of periods.
        how: options for reading rows.
    """

    user: str
    named: str
    grid: Quantiles | None
    value: str | None = None
    most: int = 1
    per: str | None = None
    time: str | None = None
    timezone: str = "UTC"
    how: RowFormat = attribute(default_factory=RowFormat)

    def __post_init__(self) -> None:
        load_zone(self.timezone)
        if self.per is not None and self.time is None:
            raise InvalidInput(
                f"{field('per', self.per)} needs the column of times to tell periods apart; give "
                f"{field('time')}"
            )
        if self.per is None and self.time is not None:
            raise InvalidInput(
                f"{field('time', self.time)} is used only to tell periods apart, and their length "
                f"is missing; give {field('per')}, or leave {field('time')} out"
            )
        if self.per is not None:
            check_period(self.per, self.timezone)
        if self.user == self.named:
            raise InvalidInput(
                f"{field('user', self.user)} is also the column whose values are looked at; name "
                "two different columns"
            )

    @property
    def reading(self) -> RowReading:
        """The options by which `tally`, the function that adds rows up, reads the rows."""
        windows: Windows = Once()  # the window of a row does not matter
        if self.time is not None:
            windows = Windows(datetime(2000, 1, 1, tzinfo=UTC), "1s", 1, self.timezone)
        return RowReading(
            Columns(self.time or "", value=self.value, user=self.user),
            windows,
            adds=None if self.value is None else self.grid,
            clock_change=cast("ClockChange", self.how.clock_change or "raise"),
            time_format=self.how.time_format,
            policies=self.how.policies(),
        )


class EachUser(EventFrame):
    """New rows made from each user's rows when they are read: one row for each user, or one for
    each value that is taken from the user.

    The new rows have two columns. The first has the user's name. The second, named ``rules.named``,
    has the number of the user's rows, or the cell of a value. If a user has more values than may be
    taken, evenly spaced values are taken.

    Args:
        source: all rows.
        rules: rules by which the new rows are made.

    Attributes:
        found: exact numbers of rows, once they have been read.

    >>> from counton.rows.files import open_source
    >>> rows = pl.DataFrame({"who": ["ann", "bob", "ann"], "paid": [5, 1, 9]})
    >>> grid = Quantiles([1, 2, 3, 4, 5])
    >>> EachUser(open_source(rows), UserRows("who", "events", grid)).frame().collect().rows()
    [('ann', 2), ('bob', 1)]
    >>> asked = UserRows("who", "paid", Quantiles([0, 4, 8, 12]), "paid", most=1)
    >>> EachUser(open_source(rows), asked).frame().collect().rows()
    [('ann', 4.0), ('bob', 0.0)]
    """

    numbered = False

    def __init__(self, source: Source, rules: UserRows) -> None:
        super().__init__(pl.DataFrame())
        self._source, self._asked_for, self.name = source, rules, source.name
        self.found: Private[Tally] | None = None

    @override
    def frame(self, columns: Sequence[str] | None = None) -> pl.LazyFrame:
        return self._made_rows.lazy()

    @override
    def columns(self) -> list[str]:
        """Return the names of the two columns (user, and number of rows or cell), which are known
        before anything is read.
        """
        return [self._asked_for.user, self._asked_for.named]

    @override
    def has_changed(self) -> bool:
        return self._source.changed_part() is not None

    @cached_property
    def _made_rows(self) -> pl.DataFrame:
        rules, held = self._asked_for, _MarkedRowHolder()
        reading = rules.reading
        try:
            self.found = tally(self._source, reading, bound=held)
        except UnreadableRow:
            held = _MarkedRowHolder()
            source = self._source.sift(reading.columns.names, reading.policies.unread)
            self.found = tally(source, reading, bound=held)
        rows = pl.concat(held.rows).filter(pl.col("step") >= 0)
        if rules.per is not None:
            period = period_of(pl.col("us"), rules.per, rules.timezone).cast(pl.String)
            rows = rows.with_columns(pl.col("user") + _BETWEEN + period)
        if rules.value is None:
            made = rows.group_by("user").agg(pl.len().cast(pl.Int64).alias(rules.named))
        else:
            assert rules.grid is not None
            edges = pl.Series(rules.grid.edges)
            made = _evenly(rows, rules.most).select(
                "user", pl.lit(edges).gather(pl.col("total")).alias(rules.named)
            )
        return made.rename({"user": rules.user}).sort(rules.user, rules.named)


class _MarkedRowHolder:
    """An object that holds all rows in memory while `tally` (the function that adds rows up) reads
    them.
    """

    def __init__(self) -> None:
        self.rows: list[pl.DataFrame] = []

    def select(self, marked: pl.LazyFrame) -> pl.LazyFrame:
        """Return the lazy rows ``marked`` unchanged, because all their columns are to be held in
        memory.
        """
        self.rows.append(marked.collect_schema().to_frame())
        return marked

    def take(self, rows: pl.DataFrame) -> None:
        """Add rows to the rows that are held in memory."""
        self.rows.append(rows)


def _evenly(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return at most ``most`` rows of each user, evenly spaced in the order of their values."""
    place, many = pl.int_range(pl.len()).over("user"), pl.len().over("user").cast(pl.Int64)

    def before(count: pl.Expr) -> pl.Expr:
        return (2 * count * most + many) // (2 * many)

    taken = (many <= most) | (before(place + 1) > before(place))
    return rows.sort("user", "total").filter(taken)

"""The number of rows, and the sum of a column; both for all rows or for each group."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, Self

import numpy as np
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.errors import InvalidInputError, param
from counton.base.exact import Number
from counton.base.systematic_error import SystematicError
from counton.privacy import ContributionBound
from counton.privacy.contribution import Relation
from counton.privacy.value_grid import totals_and_extremes
from counton.statistics.accumulator_statistic import AccumulatorStatistic, Part, X
from counton.statistics.clipping import clipped_in_words
from counton.statistics.statistic import Events


class _SumOfRows(AccumulatorStatistic):
    """Base class of `Count` and `Sum`, whose released numbers are themselves sums over rows."""

    n_accumulators = 1
    shows = ()
    additive = True
    finds = True

    @override
    def by_groups(self, groups: Sequence[str]) -> Self:
        return self

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        return [(0, code)]


#: Most events for which one row stands: a single row leaves every sum of a stream exact.
MOST_EVENTS: Final = 2**50


class Count(_SumOfRows):
    """Number of events: each row is one, or stands for as many as a column says.

    Args:
        counts: True if each row has a whole number of events that it stands for; the protected unit
            is one of these events, not the row.
        unit: the word for one row.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Count
    >>> visits = RunningStatistic.start(
    ...     Count(), 24, PureDP(1), key=Key.generate(), name="visits", batched=True
    ... )
    >>> result = visits.release_batch(["home", "shop", "home"])
    >>> result.table_columns()["estimate"].shape
    (1,)
    """

    keyword = "count"
    example = "by=page groups=home,shop"
    says = "The number of events: of rows, or of what a column of counts adds up to."
    help = (
        f"A stream is a series of releases, one after each window of time. A new one needs "
        f"{param('time')}, {param('every')}, {param('windows')}, {param('start')} and a "
        "guarantee; a "
        f"later run continues it and may leave them out. More data later: run the same command "
        f"again, as every night."
    )
    also_called = ("number", "events", "rows", "histogram")
    asks = ("count",)

    def __init__(self, *, counts: bool = False, unit: str | None = None) -> None:
        self._call_units(unit)
        self.counts = self.counts_units = bool(counts)
        self.counts_rows = not counts
        self.parts = (Part("counts", "count", most=MOST_EVENTS),) if counts else ()

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return ContributionBound.add_remove(unit=self.unit)

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return how many events each row stands for."""
        counts = parts[0] if self.counts else np.ones(len(parts[0]))
        return np.asarray(counts).astype(np.int64)

    @override
    def columns_of(self, events: Events) -> tuple[Any, ...]:
        if not self.counts:
            return (events,)
        numbers, least, largest = totals_and_extremes(events, None)
        if least < 0 or largest > self.parts[0].most:
            span = f"{least} to {largest}"
            raise InvalidInputError(
                f"rows stand for {span} events; give whole numbers from 0 to 2^50"
            )
        return (numbers,)

    @override
    def row_bounds(self) -> tuple[int, int]:
        return (0, self.parts[0].most) if self.counts else (1, 1)


class DistinctUsers(AccumulatorStatistic):
    """Number of distinct users: a `Count` in which only the first row of each user counts."""

    keyword = "distinct"
    example = "user=visitor"
    says = "The number of different users."
    phrase = "number of distinct {units}"
    also_called = ("unique", "uniques", "users", "visitors")
    event = "user"
    counted = "users"


class ClippedStatistic(AccumulatorStatistic):
    """Base class of statistics of one column, clipped to bounds and rounded to a grid.

    Attributes:
        bounds: the contribution bound of one value, as from `ContributionBound.values`.
        lower, upper, resolution: see there.
    """

    parts = (Part("value"),)
    event = "value"

    @override
    def systematic_errors(self) -> Sequence[SystematicError]:
        return (clipped_in_words(self.lower, self.upper, f"the {self.keyword or 'number'}"),)

    @override
    def units_of(self, column: str | None, rows: str) -> dict[str, str]:
        return {} if column is None else {"": column, "count": rows}

    def _clip(
        self, lower: Number, upper: Number, resolution: Number, relation: Relation = "add_remove"
    ) -> None:
        self.bounds = ContributionBound.values(lower, upper, resolution, relation, unit=self.unit)
        assert self.bounds.value_bounds is not None
        self.lower, self.upper, self.resolution = self.bounds.value_bounds

    @override
    def bounds_of(self, place: int) -> tuple[Fraction, Fraction, Fraction]:
        return self.lower, self.upper, self.resolution

    @override
    def row_bounds(self) -> tuple[int, int]:
        return int(self.lower / self.resolution), int(self.upper / self.resolution)


class Sum(_SumOfRows, ClippedStatistic):
    """Sum of values that are clipped to bounds and rounded to multiples of a resolution.

    Args:
        lower, upper: bounds to which values are clipped, multiples of ``resolution``.
        resolution: values are rounded to its nearest multiple.
        unit: the word for one protected unit.

    Raises:
        InvalidInputError: as `ContributionBound.values`.

    >>> Sum(0, 60, resolution=1).contribution().per_cell
    60
    """

    keyword = "sum"
    example = "value=seconds lower=0 upper=600 resolution=1"
    says = "The sum of a column, whose values are clipped to bounds and put on a grid."
    help = (
        f"As count, and a new stream also needs {param('value')}, {param('lower')}, "
        f"{param('upper')} and {param('resolution')}, all chosen without looking at the data."
    )
    also_called = ("total", "totals")
    asks = ("sum",)

    def __init__(
        self, lower: Number, upper: Number, resolution: Number, *, unit: str | None = None
    ) -> None:
        self._call_units(unit)
        self._clip(lower, upper, resolution)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return self.bounds

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return the clipped values in multiples of the resolution."""
        return self.bounds.to_grid(parts[0])


def statistic_of_rows(
    keyword: str, contribution: ContributionBound, *, counts: bool
) -> AccumulatorStatistic:
    """Return `Count` or `Sum` for a stream whose description does not name its statistic;
    ``contribution`` has the bounds of a sum's values.

    Raises:
        InvalidInputError: the description names a sum, and values have no bounds.
    """
    if keyword != Sum.keyword:
        return Count(counts=counts)
    if contribution.value_bounds is None:
        raise InvalidInputError(
            "the description names a sum, but the design of the stream has no bounds of values: "
            "give both as counton wrote them"
        )
    return Sum(*contribution.value_bounds)

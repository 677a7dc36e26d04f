"""The mean of clipped values: of all values so far, or of those since an earlier release.

If the number of values is private, two cells are measured: the sum of v - lower and the sum of
upper - v over the values v, in multiples of the resolution. The mean is a ratio of sums of these
cells. Its interval is Fieller's, and conservative.
"""

# A unit is one value v, clipped to [lower, upper] and rounded to the grid. The sum of both cells is
# the number of values times W, the width of the bounds on the grid; their difference is twice the
# sum of the values, centred. For every v, a unit changes the two cells by W together, so
#
#     ||d||_1 = W    and    ||d||_2^2 <= (v - lower)^2 + (upper - v)^2 <= W^2,
#
# with equality if v is a bound. No accuracy is lost: all changes and their negatives span the whole
# ball of the 1-norm. The alternative, a centred sum and a count of weight w, spans a part of a
# larger ball: it changes by W + w. With w = W its mean has, in the worst case over v, twice the
# variance under Laplace noise. Under Gaussian noise w = W is this measurement turned by 45 degrees,
# and the best weight for means that may lie anywhere.
#
# The interval: (A, B), the released two cells, lies within h of the line through the origin and the
# truth with the stated probability. So the truth is one of the directions whose lines pass within
# h. With Gaussian noise the distance from a line has one distribution for all lines. With Laplace
# noise it depends on the direction. Then h is the larger of two half-widths: that of a single cell,
# which belongs to the lines with the heaviest tails, and that of a normal distribution of equal
# variance.

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError
from counton.base.exact import Number, check_integer, quote_name, refuse_overflow, text
from counton.continual.formulas import ClosedForm, Estimate, Formula, quotient
from counton.privacy import ContributionBound
from counton.statistics.accumulator_statistic import X
from counton.statistics.by_group import S
from counton.statistics.cells import Cells
from counton.statistics.count import ClippedStatistic, Sum
from counton.statistics.statistic import ErrorScale

_NAMES: tuple[str, ...] = ("mean", "sum", "count")
_LARGEST_SUM = 2**62


class Average(ClippedStatistic):
    """The mean, the sum and the number of clipped values.

    An event is a number, rounded to the nearest multiple of the resolution; values outside the
    bounds are clipped, which biases the mean. NaN is refused.

    Args:
        lower, upper: multiples of ``resolution``.
        resolution: the grid on which values are rounded. A finer one has smaller rounding errors.
        number: the public number of values in each step: only their sum is released, and
            neighbouring datasets differ in one value that is replaced. None: the number is private,
            and one value is added or removed.
        unit: the word for one protected unit.

    Raises:
        InvalidInputError: `ContributionBound.values` refuses the bounds or the resolution, or
            ``number`` is below 1.

    Source: "Constant matters", section 5, for a public number of values; comments at the beginning
    of this file prove the sensitivity of the two cells and the interval of the mean.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Average
    >>> delays = Average(0, 180, resolution=1)
    >>> counter = RunningStatistic.start(
    ...     delays, 24, PureDP(1), key=Key.generate(), name="delays", batched=True
    ... )
    >>> hour = counter.release_batch([30.2, -12, 45] * 200)
    >>> low, high = hour.interval("mean", 1 - 1e-9)
    >>> 0 <= low <= 25 <= high <= 180, round(hour.std("count"), 1) > 1
    (True, True)
    """

    many_groups = True
    finds = True
    keyword = "average"
    example = "value=seconds lower=0 upper=600 resolution=1"
    column = "measure"
    says = "The mean of clipped values, and their sum and number."
    phrase = "average of {value}, each value clipped to [{lower}, {upper}],"
    unit_word = "{value}"
    on_screen = ("mean",)
    also_called: tuple[str, ...] = ("mean", "avg")
    sources = ("constants",)

    asks = _NAMES

    def __init__(
        self,
        lower: Number,
        upper: Number,
        resolution: Number,
        *,
        number: int | None = None,
        unit: str | None = None,
    ) -> None:
        self._call_units(unit)
        self._clip(lower, upper, resolution, "replace")
        self.number = None if number is None else check_integer("number", number, 1, 2**40)
        self.n_accumulators = 2 if number is None else 1
        self.ordered = number is not None  # the number of values is checked at each step
        self.row_total = self.width if number is None else None
        self.known_beforehand = ("sum", "count") if number is None else None

    @property
    def width(self) -> int:
        """Upper bound minus lower bound, in multiples of the resolution."""
        return int((self.upper - self.lower) / self.resolution)

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (2,) if self.number is None else ()

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        if self.number is not None:
            return self.bounds
        ends = f"[{text(self.lower)}, {text(self.upper)}] in steps of {text(self.resolution)}"
        return ContributionBound.of_pattern(
            BoundedChange(self.width, self.width**2, single_step=True),
            f"whose value, clipped to {ends}, counts in a sum and in the number of values",
            unit=self.unit,
        )

    @override
    def gives(self, place: int | None) -> Mapping[str, Any]:
        return {name: name for name in (("count",) if place is None else _NAMES)}

    @property
    @override
    def error_of(self) -> ErrorScale:
        """The number whose standard deviation a plan states: the sum if the number of values is
        public, otherwise the number of values.

        >>> Average(0, 60, resolution=1, number=4).error_of.meaning
        'the sum of values; of the mean after t steps: over 4 t'
        >>> print(Average(-20, 40, resolution=1).error_of.meaning)
        the number of values; of their sum: times 31.6; of the mean of n values: up to times 42.4
        / n
        """
        if self.number is not None:
            return ErrorScale(
                f"the sum of values; of the mean after t steps: over {self.number:,} t"
            )
        lower = float(self.lower)
        upper = float(self.upper)
        std = math.sqrt(2) / self.width
        total = math.hypot(lower, upper) / math.sqrt(2)
        mean = (upper - lower) / math.sqrt(2)
        return ErrorScale(
            f"the number of values; of their sum: times {total:,.3g}; of the mean of n values: up "
            f"to times {mean:,.3g} / n",
            std,
            std,
        )

    @override
    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        if self.number is not None:
            return np.array(self.number * steps * sum(super().row_bounds()) // 2)
        if rows is None:
            return None
        return np.asarray(self.measure(np.full((1, 2), rows * self.width // 2, np.int64))[0])

    @override
    def check_events(self, event_counts: NDArray[np.int64]) -> None:
        if self.number is not None and (event_counts != self.number).any():
            wrong = int(event_counts[event_counts != self.number][0])
            raise InvalidInputError(
                f"a step has {wrong:,} values, but the public number of values is {self.number:,}: "
                f"give {self.number:,} values in each step, or leave number out, which keeps the "
                "number private"
            )
        size = self.width + abs(int(self.lower / self.resolution))
        most = int(event_counts.max(initial=0))
        refuse_overflow(
            most * size,
            _LARGEST_SUM,
            lambda: (
                f"a step has {most:,} values, which can add up to {most * size:.3g} times the "
                "resolution; sums are exact up to 2^62: take shorter steps, or a coarser resolution"
            ),
        )

    @override
    def encode(self, *parts: Any) -> Integers:
        """Return each clipped value minus the lower bound, in multiples of the resolution."""
        grid = self.bounds.to_grid(parts[0])
        if grid.ndim != 1:
            raise InvalidInputError(
                f"values have shape {grid.shape}; give a flat list of numbers, one for each event"
            )
        lower, upper = super().row_bounds()
        return np.asarray(np.clip(grid, lower, upper) - lower)

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        if self.number is not None:
            return [(0, code + int(self.lower / self.resolution))]
        return [(0, code), (1, self.width - code)]

    @override
    def row_bounds(self) -> tuple[int, int]:
        least = 0 if self.number is None else int(self.lower / self.resolution)
        return least, least + self.width

    @property
    @override
    def number_names(self) -> tuple[str, ...]:
        return _NAMES

    @override
    def number_of(self, cells: Cells, name: Any = None) -> Estimate:
        """Return the mean, ``"sum"`` or ``"count"`` from the released cells.

        With a private number the mean is a ratio of two estimates, clipped to the bounds; it is
        halfway between the bounds if the released number is not positive.

        Args:
            cells: the released cells.
            name: "mean", "sum" or "count"; None: the mean.

        Raises:
            InvalidInputError: no number has this name, or the mean of no values is asked for.
        """
        measure = "mean" if name is None else name
        if measure not in self.number_names:
            choices = ", ".join(map(repr, self.number_names[:-1]))
            raise InvalidInputError(f"name is {quote_name(name)}; give {choices} or 'count'")
        if self.number is not None:
            return self._of_known_number(cells, measure)
        if measure == "mean":
            return self._mean_of(cells)
        above, below = _above_and_below(cells)
        count = (above + below) / self.width
        cell_std = cells.std

        def formula() -> Formula:
            above_lower = cells.sum({0: 1.0})
            below_upper = cells.sum({1: 1.0})
            if measure == "count":
                return (above_lower + below_upper) / self.width
            return (above_lower + below_upper) * (
                float(self.lower) / self.width
            ) + above_lower * float(self.resolution)

        value = count
        weights: tuple[Any, Any] = (1, 1)
        if measure == "sum":
            value = float(self.lower) * count + above * float(self.resolution)
            weights = (self.lower, self.upper)
        weight = math.hypot(*map(float, weights)) / self.width

        def half(confidence_level: float) -> float:
            return float(cells.halfwidths(np.array(cell_std), confidence_level)) * weight

        return ClosedForm.symmetric(value, half, cell_std * weight, formula)

    def _of_known_number(self, cells: Cells, measure: str) -> Estimate:
        """Return a number of released cells if each step has a known number of values."""
        assert self.number is not None
        start, stop = cells.ends
        delay = cells.design.strategy.facts.delay
        total = cells.cell(0)
        number = float((max(stop - delay, 0) - max(start - delay, 0)) * self.number)
        if measure == "count":
            return Formula(number)
        if measure == "sum":
            return total
        if not number:
            raise InvalidInputError(
                "no value has been counted yet: ask for the mean after a later step"
            )
        return total.divided_by(number, float(self.lower), float(self.upper))

    def _mean_of(self, cells: Cells) -> Estimate:
        """Return the mean of an unknown number of values."""
        lower = float(self.lower)
        upper = float(self.upper)
        cell_std = cells.std
        above, below = _above_and_below(cells)
        seen = above + below > 0
        both = np.where(seen, above + below, 1.0)
        share = np.where(seen, above / both, 0.5)
        std = np.where(
            seen, cell_std * (upper - lower) * np.hypot(above, below) / both**2, math.inf
        )

        def ends(confidence_level: float) -> tuple[Any, Any]:
            # The distance from a line is a weighted sum of both cells.
            wide = float(cells.halfwidths(np.array(cell_std), confidence_level))
            low, high = _directions(above, below, wide)
            return lower + (upper - lower) * low, lower + (upper - lower) * high

        def formula() -> Formula:
            above_lower = cells.sum({0: 1.0})
            share = quotient(above_lower, above_lower + cells.sum({1: 1.0}))
            return (share * (upper - lower) + lower).bounded_by(lower, upper)

        mean = lower + (upper - lower) * np.clip(share, 0.0, 1.0)
        return ClosedForm(mean, ends, std, formula)


def _above_and_below(cells: Cells) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the released sums of distances from the lower bound, and from the upper one."""
    values = np.asarray(cells.values, np.float64)
    return values[..., 0], values[..., 1]


class SumBesideNumber(Average):
    """The sum and the number of clipped values in each group, for groups that are not declared.

    A group is shown if its noisy number of values is large enough. The cells are those of
    `Average`: if the lower bound is 0, the sum is as accurate as if it were measured alone;
    otherwise its noise is larger by at most the square root of 2.

    >>> seconds = SumBesideNumber(0, 60, resolution=1)
    >>> seconds.number_names, seconds.row_total
    (('sum', 'count'), 60)
    """

    keyword = "sum"
    says = "The sum of clipped values, and their number."
    phrase = "sum of {value}, each value clipped to [{lower}, {upper}],"
    unit_word = "{value}"
    on_screen = ("sum",)
    also_called = ()

    def __init__(
        self, lower: Number, upper: Number, resolution: Number, *, unit: str | None = None
    ) -> None:
        super().__init__(lower, upper, resolution, unit=unit)
        self.known_beforehand = None

    @property
    @override
    def number_names(self) -> tuple[str, ...]:
        return _NAMES[1:]

    @override
    def number_of(self, cells: Cells, name: Any = None) -> Estimate:
        return super().number_of(cells, "sum" if name is None else name)


def undeclared_variant(statistic: S) -> S | SumBesideNumber:
    """Return the variant that can be counted in groups whose names are not declared:
    `SumBesideNumber` for a `Sum`, any other statistic itself.

    >>> from counton.statistics import Count, Sum
    >>> undeclared_variant(Sum(0, 60, resolution=1)), undeclared_variant(Count())
    (SumBesideNumber(lower='0', upper='60', resolution='1'), Count())
    """
    if isinstance(statistic, Sum):
        options = {"unit": statistic.unit} if statistic._stated else {}
        return SumBesideNumber(statistic.lower, statistic.upper, statistic.resolution, **options)
    return statistic


def _directions(above: Floats, below: Floats, distance: float) -> tuple[Floats, Floats]:
    """Return the smallest and largest x / (x + y) with x, y >= 0 on a line through the origin at
    most ``distance`` from the noisy point; always with the possible ratio nearest to the noisy
    ratio.
    """
    radius = np.hypot(above, below)
    near = radius <= distance
    cell_angles = np.arctan2(above, below)
    reach = np.arcsin(np.where(near, 0.0, distance / np.where(near, 1.0, radius)))
    nearest = np.where(above + below > 0, np.clip(cell_angles, 0.0, math.pi / 2), math.pi / 4)
    angles = [nearest]
    for turned in (cell_angles - math.pi, cell_angles, cell_angles + math.pi):  # lines, not rays
        low = np.maximum(turned - reach, 0.0)
        high = np.minimum(turned + reach, math.pi / 2)
        angles += [np.where(low <= high, end, nearest) for end in (low, high)]
    shares = [np.sin(angle) / (np.sin(angle) + np.cos(angle)) for angle in angles]
    least = np.min(shares, axis=0)
    most = np.max(shares, axis=0)
    low = np.where(near, 0.0, least)
    high = np.where(near, 1.0, most)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

"""Means, variances and covariances of bounded columns, over time.

Values are clipped to their bounds, rounded to a grid, and scaled to a_j between -1 and 1 for column
j. The measured cells of a row are 1, a_j, 1 - a_j^2, and a_j a_k for each pair of columns, all
multiplied to be whole numbers. All first and second moments follow from the sums of these cells.

Intervals of means, variances and covariances are proved in
`counton.statistics.moment_intervals`. If a denominator may be 0, the interval contains all possible
values.
"""

# Cells are whole numbers in units of 1 / (number of grid cells)^2; all columns have equally many
# grid points. Squares are measured as 1 - a_j^2 for a reason. With s_j = a_j^2 a row's
# squared norm is 1 + sum s_j + sum s_j s_k + sum (1 - s_j)^2. It is convex in each s_j, so largest
# if every s_j is 0 or 1: with r ones it is 1 + d + r (r - 1) / 2. Hence
#
#     ||x||_2^2 <= 1 + d + d (d - 1) / 2,
#
# with equality if every value is one of its bounds. Measuring a_j^2 would add d. From d = 2 on the
# 1-norm has this bound too, since |a_j a_k| <= (s_j + s_k) / 2; for one column its bound is 9/4.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError
from counton.base.exact import (
    Number,
    check_integer,
    exact,
    has_parts,
    in_parts,
    quote,
    quote_name,
    readable,
    refuse_overflow,
    text,
)
from counton.base.systematic_error import SystematicError
from counton.base.wording import counted
from counton.continual.formulas import ClosedForm, Estimate, Formula, product, quotient
from counton.continual.intervals import SMALLEST_TAIL
from counton.privacy import ContributionBound, value_grid
from counton.privacy.contribution import checked_unit
from counton.statistics.accumulator_statistic import AccumulatorStatistic, Part, X
from counton.statistics.cells import Cells
from counton.statistics.clipping import clipped_in_words
from counton.statistics.moment_intervals import (
    NUMBER_FAILS,
    MeanEnds,
    covariance_ends,
    error_shares_of_means,
    variance_ends,
)
from counton.statistics.results import StatisticResult
from counton.statistics.statistic import ErrorScale, Events

_MOST_COLUMNS = 8
_MOST_GRID = 2**16
#: Largest bound of a column: products of two, and their quotients, must be floats.
_LARGEST_BOUND = 10**100
_LARGEST_SUM = 2**62
_LARGEST_ROW = 2**62
#: Divisors must exceed their largest error by more than this factor, which covers rounding.
_DIVISOR_MARGIN = 1 + 1e-9
#: Number of columns that each kind of number needs.
_COLUMNS = {"count": 0, "sum": 1, "mean": 1, "variance": 1, "covariance": 2}


class _Dual(NamedTuple):
    """The value of a function of the released sums, and its derivatives; NaN if it has none."""

    value: float
    slopes: Floats

    def plus(self, other: _Dual, times: float = 1.0) -> _Dual:
        """Return self + times * other."""
        return _Dual(self.value + times * other.value, self.slopes + times * other.slopes)

    def times(self, other: _Dual) -> _Dual:
        slopes = self.value * other.slopes + other.value * self.slopes
        return _Dual(self.value * other.value, slopes)

    def over(self, other: _Dual) -> _Dual:
        """Return self / other; 0 without derivatives if ``other`` is 0 or less, or has none."""
        if not other.value > 0 or not np.isfinite(other.slopes).all():
            return _Dual(0.0, np.full(len(self.slopes), math.nan))
        value = self.value / other.value
        return _Dual(value, (self.slopes - value * other.slopes) / other.value)


class _MomentNumber(NamedTuple):
    """A number of columns that are scaled to [-1, 1].

    Attributes:
        dual: the value with its derivatives by the sums.
        least, most: bounds on the true number that always hold.
        scale, offset: in data units the number is ``scale`` times the value, plus ``offset``.
        formula: the number as a `Formula`.
    """

    dual: _Dual
    least: float
    most: float
    formula: Callable[[], Formula]
    scale: float = 1.0
    offset: float = 0.0

    def to_data_units(self, value: float) -> float:
        """Clip a value to the possible values, and convert it to data units."""
        return min(max(value, self.least), self.most) * self.scale + self.offset


class MomentsResult(StatisticResult):
    """Released moments of columns.

    Names of numbers: ``"count"``, ``("mean", column)``, ``("sum", column)``, ``("variance",
    column)`` and ``("covariance", one, other)``. Variances and covariances describe the counted
    rows, not a population: they are divided by the number of rows.
    """

    statistic: Moments

    def __init__(self, statistic: Moments, cells: Cells) -> None:
        super().__init__(statistic, cells)
        self._ones: dict[float, float] = {}  # by the probability of error
        self._quotients: dict[int, Formula] = {}

    @override
    def number_of(self, name: Any = None) -> Estimate:
        if name is None:
            raise InvalidInputError(
                "Moments has several numbers; give the name of one of them: "
                f"{', '.join(self.statistic.kinds)}"
            )
        kinds = self.statistic.kinds
        kind, places = self._kind_and_columns(
            kinds.get(name, name) if isinstance(name, str) else name
        )
        number = self._moment_number(kind, places)

        def ends(confidence_level: float) -> tuple[float, float]:
            low, high = self._ends(kind, places, number, confidence_level)
            return number.to_data_units(low), number.to_data_units(high)

        def formula() -> Formula:
            return number.formula() * number.scale + number.offset

        std = self._std(number.dual.slopes * number.scale)
        return ClosedForm(number.to_data_units(number.dual.value), ends, std, formula)

    def _kind_and_columns(self, name: object) -> tuple[str, tuple[int, ...]]:
        """Return the kind of a number, such as "mean", and the indices of its columns."""
        kind, *columns = in_parts(name) or (name,)
        if isinstance(kind, str) and _COLUMNS.get(kind) == len(columns):
            places = tuple(map(self.statistic.place, columns))
            if len({*places}) < len(places):
                raise InvalidInputError(
                    f"both columns are {quote(columns[0])}; give two different columns"
                )
            return kind, places
        raise InvalidInputError(
            f"name is {quote_name(name)}; give 'count', ('mean', column), ('sum', column), "
            "('variance', column) or ('covariance', one, other)"
        )

    # ------------------------------------------------------------------ functions of the sums

    def _moment_number(self, kind: str, places: tuple[int, ...]) -> _MomentNumber:
        half = [float(self.statistic.half[place]) for place in places]
        middle = [float(self.statistic.middle[place]) for place in places]
        if kind == "count":
            return _MomentNumber(
                self._sum(0), least=0.0, most=math.inf, formula=partial(self._sum_at, 0)
            )
        if kind in ("sum", "mean"):
            accumulator = 1 + places[0]
            if kind == "mean":
                return _MomentNumber(
                    self._mean(places[0]),
                    least=-1.0,
                    most=1.0,
                    formula=lambda: self._quotient(accumulator).bounded_by(-1.0, 1.0),
                    scale=half[0],
                    offset=middle[0],
                )
            slopes = middle[0] * self._sum(0).slopes + half[0] * self._sum(accumulator).slopes
            return _MomentNumber(
                _Dual(float(slopes @ self._sums), slopes),
                least=-math.inf,
                most=math.inf,
                formula=lambda: self._sum_at(0) * middle[0] + self._sum_at(accumulator) * half[0],
            )
        place = places[0]
        other = places[-1]
        least = 0.0 if kind == "variance" else -1.0

        def formula() -> Formula:
            share = self._quotient(self.statistic.second(place, other))
            both = product(self._quotient(1 + place), self._quotient(1 + other))
            return (-(share + both) + 1.0 if place == other else share - both).bounded_by(
                least, 1.0
            )

        return _MomentNumber(
            self._moment(place, other),
            least=least,
            most=1.0,
            formula=formula,
            scale=half[0] * half[-1],
        )

    @cached_property
    def _sums(self) -> Floats:
        """The released sums, scaled to [-1, 1]; the first is the number of rows."""
        return np.asarray(self.cells.values, np.float64) / self.statistic.grid**2

    def _sum(self, place: int) -> _Dual:
        slopes = np.zeros(self.statistic.n_accumulators)
        slopes[place] = 1.0
        return _Dual(float(self._sums[place]), slopes)

    def _share(self, place: int) -> _Dual:
        """Return a sum over the number of rows; 0 without derivatives if that is not positive."""
        return self._sum(place).over(self._sum(0))

    def _mean(self, column: int) -> _Dual:
        return self._share(1 + column)

    def _moment(self, place: int, other: int) -> _Dual:
        """Return the covariance of two columns, or a variance."""
        share = self._share(self.statistic.second(place, other))
        if place == other:
            share = _Dual(1 - share.value, -share.slopes)
        return share.plus(self._mean(place).times(self._mean(other)), -1.0)

    def _sum_at(self, place: int) -> Formula:
        return self.cells.sum({place: 1.0 / self.statistic.grid**2})

    def _quotient(self, place: int) -> Formula:
        """Return a sum over the number of rows; equal quotients must be the same object."""
        if place not in self._quotients:
            self._quotients[place] = quotient(self._sum_at(place), self._sum_at(0))
        return self._quotients[place]

    # ------------------------------------------------------------------ how far they may be off

    def _std(self, slopes: Floats) -> float:
        if not np.isfinite(slopes).all():
            return math.inf
        return self.cells.std / self.statistic.grid**2 * float(np.linalg.norm(slopes))

    def _half(self, slopes: Floats, confidence_level: float) -> float:
        std = self._std(slopes)
        if not math.isfinite(std):
            return math.inf
        return float(self.cells.halfwidths(np.array(std), confidence_level))

    def _unit_halfwidth(self, fails: float) -> float:
        """Return the half-width of a sum of cells whose weights have 2-norm 1."""
        # If this probability is below the smallest known tail, the result is twice the half-width
        # for its square root: the tails fall at least exponentially.
        if fails not in self._ones:
            slopes = self._sum(0).slopes
            if fails > 2 * SMALLEST_TAIL:
                self._ones[fails] = self._half(slopes, 1 - fails)
            else:
                self._ones[fails] = 2 * self._half(slopes, 1 - math.sqrt(fails))
        return self._ones[fails]

    def _ends(
        self, kind: str, places: tuple[int, ...], moment: _MomentNumber, confidence_level: float
    ) -> tuple[float, float]:
        """Return the interval of one number, scaled to [-1, 1]."""
        value = moment.dual.value
        number = float(self._sums[0])
        fails = 1 - confidence_level
        if kind in ("count", "sum"):
            half = self._half(moment.dual.slopes, confidence_level)
            return value - half, value + half
        if kind == "mean":
            unit_half = self._unit_halfwidth(fails)
            if not number > unit_half * _DIVISOR_MARGIN:
                return moment.least, moment.most
            mean = MeanEnds.of_share(self._mean(places[0]).value, unit_half / number)
            return mean.low, mean.high
        low = high = min(max(value, moment.least), moment.most)
        # The best split of the error depends on the true number of rows: allow all possible
        # numbers.
        halfwidth = self._unit_halfwidth(fails * NUMBER_FAILS)
        std = self._std(self._sum(0).slopes) or 1.0  # without noise the half-width is 0 too
        for part in error_shares_of_means((number - halfwidth) / std, (number + halfwidth) / std):
            rest = fails * (1 - NUMBER_FAILS)
            unit_half = self._unit_halfwidth(rest * part / len(places))
            ratio = self._unit_halfwidth(rest * (1 - part))
            if not number > max(unit_half, ratio) * _DIVISOR_MARGIN:
                return moment.least, moment.most
            ends = self._second(kind, places, unit_half / number, ratio / number)
            low = min(low, ends[0])
            high = max(high, ends[1])
        return low, high

    def _second(
        self, kind: str, places: tuple[int, ...], unit_ratio: float, ratio: float
    ) -> tuple[float, float]:
        """Return the interval of a variance or covariance, scaled to [-1, 1].

        ``unit_ratio`` is the half-width of a mean at the part of the error probability that is for
        means, ``ratio`` at the rest.
        """
        shares = [self._mean(place).value for place in places]
        moment = self._moment(places[0], places[-1]).value
        if kind == "variance":
            return variance_ends(moment, MeanEnds.of_share(shares[0], unit_ratio), ratio)
        both, difference = (
            MeanEnds.of_share(shares[0] + sign * shares[1], unit_ratio, 2) for sign in (1, -1)
        )
        return covariance_ends(moment, both, difference, ratio)


class Moments(AccumulatorStatistic):
    """Number of rows, means, variances and covariances of their columns.

    An event is a row with a number for each column, clipped to its bounds and rounded to the
    nearest of ``grid`` + 1 equally spaced points, whose moments are estimated. NaN and infinity are
    refused. The number of rows is private too.

    Args:
        columns: bounds by name, or a list of (name, lower, upper); at most 8 columns.
        grid: more intervals do not increase errors, but make the integer sums larger.
        unit: the word for one protected unit.

    Raises:
        InvalidInputError: no columns or too many, bounds that do not ascend, or a grid so fine that
            a row does not fit into 62 bits.

    Sensitivity, if a row counts as 1: for d columns both the squared 2-norm and the 1-norm are 1 +
    d + d (d - 1) / 2 (for one column the 1-norm is 9/4).

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> from counton.statistics import Moments
    >>> sales = Moments({"price": (0, 100), "sold": (0, 20)})
    >>> counter = RunningStatistic.start(
    ...     sales, 24, ZCDP(2), key=Key.generate(), name="sales", batched=True
    ... )
    >>> hour = counter.release_batch([(20, 14), (40, 10), (60, 6), (80, 2)] * 500)
    >>> low, high = hour.interval(("mean", "price"))
    >>> low <= 50 <= high, high - low < 2
    (True, True)
    """

    keyword = "moments"
    example = "columns=seconds bounds=0:600"
    says = "Means, variances and covariances of columns."
    result_type = MomentsResult
    column = "measure"
    phrase = "table of means, variances and covariances of {columns}"
    unit_word = ""
    also_called = ("variance", "var", "std", "correlation")
    known_beforehand = ("count",)
    event = "row"

    def __init__(
        self,
        columns: Mapping[str, tuple[Number, Number]] | Sequence[Sequence[object]],
        *,
        grid: int = 256,
        unit: str = "event",
    ) -> None:
        ends_by_column: Any = columns
        if isinstance(ends_by_column, list):  # `parameters` uses a list, which keeps the order
            ends_by_column = {name: tuple(ends) for name, *ends in ends_by_column}
        if not isinstance(ends_by_column, Mapping) or not 1 <= len(columns) <= _MOST_COLUMNS:
            raise InvalidInputError(
                f"columns are {quote(columns)}; give a dictionary from 1 to {_MOST_COLUMNS} "
                "columns to their bounds, such as {'price': (0, 100)}"
            )
        self.grid = check_integer("grid", grid, 1, _MOST_GRID)
        self.unit = checked_unit(unit)
        self._stated = unit != "event"
        self.columns = {name: _bounds_of(name, ends) for name, ends in ends_by_column.items()}
        if (self.grid + 1) ** len(self.columns) >= _LARGEST_ROW:
            raise InvalidInputError(
                f"grid is {self.grid} and there are {len(self.columns)} columns, so a row would "
                "take more than 62 bits; give a smaller grid"
            )
        self.names = tuple(self.columns)
        self.parts = tuple(Part(name) for name in self.names)
        bounds = np.array([[float(end) for end in ends] for ends in self.columns.values()])
        #: Middle of the bounds, and half of their distance.
        self.middle: Floats = bounds.mean(axis=1)
        self.half: Floats = (bounds[:, 1] - bounds[:, 0]) / 2
        count = len(self.names)
        self.pairs = [*combinations(range(count), 2)]
        self.n_accumulators = 1 + 2 * count + len(self.pairs)

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        columns = [[name, *(text(end) for end in ends)] for name, ends in self.columns.items()]
        return {"columns": columns, "grid": self.grid, **self._parameters_of("unit")}

    @override
    def systematic_errors(self) -> Sequence[SystematicError]:
        return [
            clipped_in_words(lower, upper, "means and variances", f"values of {name}")
            for name, (lower, upper) in self.columns.items()
        ]

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (self.n_accumulators,)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        """Return the bound on the change by one row.

        Args:
            batched: of no effect; the bound holds for any number of rows in a step.
        """
        square = self.grid**2
        count = len(self.names)
        largest = 1 + count + len(self.pairs)
        total = largest * square
        if count == 1:  # 1 + |a| + 1 - a^2 is at most 9/4
            places = np.arange(-self.grid, self.grid + 1, 2, dtype=np.int64)
            total = int((square + self.grid * np.abs(places) + square - places**2).max())
        return ContributionBound.of_pattern(
            BoundedChange(total, largest * square**2, single_step=True),
            f"whose {counted(count, 'value')}, clipped to bounds on a grid of {self.grid} "
            f"cells, count in sums and products, and in the number of rows",
            unit=self.unit,
        )

    @property
    @override
    def error_of(self) -> ErrorScale:
        """The number of rows.

        >>> print(Moments({"price": (0, 100)}).error_of.meaning)
        the number of rows; of the mean of n values in the middle: times half the width of their
        bounds, over n
        """
        std = 1 / self.grid**2
        return ErrorScale(
            "the number of rows; of the mean of n values in the middle: times half the width of "
            "their bounds, over n",
            std,
            std,
        )

    @override
    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        if rows is None:
            return None
        count = len(self.names)
        grid = self.grid
        sums = [rows, *[rows * grid // 2] * count, *[rows * grid**2 // 3] * count]
        sums += [rows * grid**2 // 4] * len(self.pairs)
        return np.asarray(self.measure(np.array([sums], np.int64))[0])

    @override
    def check_events(self, event_counts: NDArray[np.int64]) -> None:
        most = int(event_counts.max(initial=0))
        refuse_overflow(
            most * self.grid**2 * 4,
            _LARGEST_SUM,
            lambda: (
                f"a step has {most:,} rows, more than can be added up on a grid of {self.grid} "
                "cells: take shorter steps, or a smaller grid"
            ),
        )

    @override
    def columns_of(self, events: Events) -> tuple[Any, ...]:
        count = len(self.names)
        if not len(events):
            return tuple(np.zeros(0) for _ in self.names)
        if not isinstance(events, np.ndarray):
            wrong = [row for row in events if not hasattr(row, "__len__") or len(row) != count]
            if wrong or any(isinstance(row, (str, bytes)) for row in events):
                row = wrong[0] if wrong else next(r for r in events if isinstance(r, (str, bytes)))
                raise InvalidInputError(
                    f"a row is {quote(row)}; give a number for each of the {count} columns "
                    f"{', '.join(self.names)}"
                )
        elif events.ndim != 2 or events.shape[1] != count:
            raise InvalidInputError(
                f"rows have shape {events.shape}; give shape (n, {count}), a number for each of "
                f"the columns {', '.join(self.names)}"
            )
        else:
            return tuple(value_grid.finite(events[:, place]) for place in range(count))
        return tuple(value_grid.finite([row[place] for row in events]) for place in range(count))

    @override
    def encode(self, *parts: Any) -> Integers:
        """Encode each row as an integer whose digits are its values on the grid."""
        codes: Integers = np.zeros(len(parts[0]), np.int64)
        for place, values in enumerate(parts):
            scaled = (value_grid.finite(values) - self.middle[place]) / self.half[place]
            points = np.rint((np.clip(scaled, -1, 1) + 1) / 2 * self.grid).astype(np.int64)
            codes = codes * (self.grid + 1) + points
        return codes

    @override
    def entries(self, code: X) -> Sequence[tuple[X | int, X | int]]:
        base = self.grid + 1
        count = len(self.names)
        digits = [code // base ** (count - 1 - j) % base for j in range(count)]
        amounts: list[X | int] = [1, *digits, *(digit * digit for digit in digits)]
        amounts += [digits[j] * digits[k] for j, k in self.pairs]
        return list(enumerate(amounts))

    @override
    def row_bounds(self) -> tuple[int, int]:
        return 0, self.grid**2

    @override
    def largest_measured(self, sums: Floats) -> float:
        return float(sums[0]) * self.grid**2

    @override
    def code_bounds(self) -> tuple[int, int]:
        return 0, (self.grid + 1) ** len(self.names) - 1

    @override
    def gives(self, place: int | None) -> Mapping[str, Any]:
        if place is None:
            return {"count": "count"}
        name = self.names[place]
        return {"mean": ("mean", name), "sum": ("sum", name), "count": "count"}

    @override
    def bounds_of(self, place: int) -> tuple[Fraction, Fraction, Fraction]:
        lower, upper = self.columns[self.names[place]]
        return lower, upper, (upper - lower) / self.grid

    @override
    def measure(self, sums: Integers) -> Integers:
        """Convert sums over rows to cells.

        The cells are ``grid ** 2`` times the number of rows; for each column the sum of x; for each
        column the sum of 1 - x^2; and for each pair the sum of x y.

        Args:
            sums: for each step the number of rows, then sums of grid indices, of their squares, and
                of products of two; shape ``(steps, sums)``.
        """
        grid = self.grid
        count = len(self.names)
        number = sums[:, :1]
        lines = sums[:, 1 : 1 + count]
        squares = sums[:, 1 + count : 1 + 2 * count]
        products = sums[:, 1 + 2 * count :]
        first = [j for j, _ in self.pairs]
        second = [k for _, k in self.pairs]
        both = lines[:, first] + lines[:, second]
        parts = [
            grid**2 * number,
            grid * (2 * lines - grid * number),
            4 * (grid * lines - squares),
            4 * products - 2 * grid * both + grid**2 * number,
        ]
        return np.concatenate(parts, axis=1).astype(np.int64)

    @cached_property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """The kind and columns of each table row, as in ``{"mean age": ("mean", "age")}``."""
        pairs = [(self.names[j], self.names[k]) for j, k in self.pairs]
        parts: list[tuple[str, ...]] = [("count",)]
        parts += [(kind, name) for kind in ("mean", "variance") for name in self.names]
        parts += [("covariance", *pair) for pair in pairs]
        return {" ".join(part): part for part in parts}

    @property
    @override
    def number_names(self) -> Sequence[str]:
        return [*self.kinds]

    def second(self, place: int, other: int) -> int:
        """Return the cell of the product of two columns, or of one column's square.

        Args:
            place: index of a column, from 0.
            other: index of the other column, or the same one.
        """
        count = len(self.names)
        if place == other:
            return 1 + count + place
        return 1 + 2 * count + self.pairs.index((min(place, other), max(place, other)))

    def place(self, name: object) -> int:
        """Return the index of a column.

        Args:
            name: name of the column.

        Raises:
            InvalidInputError: no column has this name.
        """
        if name not in self.names:
            raise InvalidInputError(
                f"column is {quote_name(name)}, which is not known; the columns are "
                f"{', '.join(map(repr, self.names))}"
            )
        return self.names.index(str(name))


def _bounds_of(name: object, ends: object) -> tuple[Fraction, Fraction]:
    """Return the bounds of a column; refuse others than two numbers in their order."""
    if not isinstance(name, str) or not name.isprintable() or not name.strip():
        raise InvalidInputError(f"a column is called {quote(name)}; give it a name")
    if not has_parts(ends, 2):
        raise InvalidInputError(
            f"bounds of column {quote(name)} are {quote(ends)}; give a pair (lower, upper)"
        )
    lower = exact(ends[0], "lower")
    upper = exact(ends[1], "upper")
    if not lower < upper:
        raise InvalidInputError(
            f"bounds of column {quote(name)} are ({text(lower)}, {text(upper)}), but the "
            "lower must be below the upper: swap them or widen them"
        )
    largest = max(abs(lower), abs(upper))
    if (upper - lower) * _LARGEST_BOUND < 1 or largest > _LARGEST_BOUND:
        raise InvalidInputError(
            f"bounds of column {quote(name)} are ({readable(lower)}, {readable(upper)}); "
            f"bounds may be at most 1e100 in size, and at least 1e-100 apart: choose "
            f"another unit"
        )
    return lower, upper

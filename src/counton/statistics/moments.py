"""Means, variances and covariances of bounded columns, and the least-squares line, over time.

A unit is a row (v_1, .., v_d), each value clipped to its bounds and put on a grid of as many
points; a_j, from -1 to 1, says where it lies between them. Measured are, in units of one over the
squared number of grid cells, hence in whole numbers,

    1,    a_j,    1 - a_j^2    and    a_j a_k  (j < k),

from which all first and second moments follow. Squares are counted from above for a reason: with
s_j = a_j^2 a row's squared norm is 1 + sum s_j + sum s_j s_k + sum (1 - s_j)^2, convex in each s_j
and so largest where every s_j is 0 or 1, at r ones 1 + d + r (r - 1) / 2: all together

    ||x||_2^2 <= 1 + d + d (d - 1) / 2,

attained where all values are bounds, while squares themselves would cost d more. In the 1-norm the
same number bounds it from d = 2 on, since |a_j a_k| <= (s_j + s_k) / 2; for one column it is 9/4.

Intervals of means, variances, covariances and slopes are proved
(`counton.statistics.moment_intervals`). That of the height of a line is found by the delta method:
its noise is to first order that of a linear function of the sums, whose tails are known.
Half-widths are divided by 1 - (half-width of the denominator) / (denominator), since denominators
are released sums, and widened by what products of errors can come to. Where a denominator may be 0,
all that is possible is in an interval: values lie on a grid between bounds, so slopes and heights
have bounds too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats, Integers
from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInput, field
from counton.base.exact import Number, check_integer, exact, quote, readable, text
from counton.base.exact_sums import refuse_overflow
from counton.base.options import TABLE_COLUMNS, Option, Statement, split_names
from counton.numbers.formulas import (
    ClosedForm,
    Estimate,
    Formula,
    product,
    quotient,
)
from counton.numbers.intervals import SMALLEST_TAIL, check_level
from counton.privacy import Contribution, value_grid
from counton.privacy.contribution import checked_unit
from counton.statistics.clipping import ends_in_words
from counton.statistics.moment_intervals import (
    NUMBER_FAILS,
    MeanEnds,
    covariance_ends,
    means_fail,
    slope_ends,
    variance_ends,
)
from counton.statistics.readings import Cells, Reading
from counton.statistics.statistic import Card, ChartSpec, ErrorScale, Events, Statistic, Table
from counton.statistics.tally_statistic import Part, TallyStatistic, X

_MOST_COLUMNS, _MOST_GRID = 8, 2**16
#: Of columns: products of two, and their quotients, are floating-point numbers.
_LARGEST_BOUND = 10**100
_LARGEST_SUM, _LARGEST_ROW = 2**62, 2**62
#: Divisors are larger than what they may be off by so much more than rounding.
_SURELY = 1 + 1e-9
_KINDS = ("sum", "mean", "variance", "covariance", "slope")


class _Smooth(NamedTuple):
    """A function of the sums where they were released.

    Attributes:
        value: of the function.
        slopes: its derivatives by the sums, in units of a row: of what its error is to first order;
            NaN where it has none.
        beyond: what products of errors can add, as a function of the level.
        over: by which factor errors may be larger, as far as a denominator is unknown; infinite
            where it may be 0.
        least, most: between which values the truth lies in any case.
        formula: how it follows from released cells; None: it is no sum of quotients.
    """

    value: float
    slopes: Floats
    beyond: Callable[[float], float]
    over: Callable[[float], float]
    least: float
    most: float
    formula: Callable[[], Formula] | None = None


def _none(_level: float) -> float:
    return 0.0


class MomentsReading(Reading):
    """Moments at one step, or of the rows between two.

    Names: ``"count"``, ``("mean", column)``, ``("variance", column)``, ``("covariance", one,
    other)``, and ``("slope", of, on)`` of the least-squares line. Variances and covariances are
    those of the rows there are: sums of squares are divided by their number.
    """

    statistic: Moments

    def __init__(self, statistic: Moments, cells: Cells) -> None:
        super().__init__(statistic, cells)
        self._overs: dict[float, float] = {}  # by level
        self._ones: dict[float, float] = {}  # by what may fail
        self._quotients: dict[int, Formula] = {}

    @override
    def number_of(self, name: Any = None) -> Estimate:
        if name is None:
            raise InvalidInput(
                f"Moments says several numbers; name one of {', '.join(self.statistic.kinds)}"
            )
        asked = self.statistic.kinds.get(name, name) if isinstance(name, str) else name
        found = self._function(asked)
        estimate = min(max(found.value, found.least), found.most)
        std = self._std(found.slopes)
        return ClosedForm(estimate, lambda level: self._ends(asked, level), std, found.formula)

    def line(self, of: str, *, on: str) -> Line:
        """The least-squares line of one column on another.

        Raises:
            InvalidInput: no columns of these names, or twice the same.
        """
        self._slope(*self._two(of, on))
        return Line(self, of, on)

    # ------------------------------------------------------------------ functions of the sums

    def _function(self, name: Any) -> _Smooth:
        if isinstance(name, str):
            name = (name,)
        if name == ("count",):
            return self._count
        if isinstance(name, (tuple, list)) and name and name[0] in _KINDS:
            kind, *columns = name
            if kind == "sum" and len(columns) == 1:
                return self._sum_of(self.statistic.place(columns[0]))
            if kind in ("mean", "variance") and len(columns) == 1:
                place = self.statistic.place(columns[0])
                return self._mean(place) if kind == "mean" else self._covariance(place, place)
            if kind in ("covariance", "slope") and len(columns) == 2:
                two = self._two(*columns)
                return self._covariance(*two) if kind == "covariance" else self._slope(*two)
        raise InvalidInput(
            f"name is {quote(name)}; it must be 'count', or one of ('mean', column), ('sum', "
            f"column), ('variance', column), ('covariance', one, other) and ('slope', of, on)"
        )

    def _two(self, one: object, other: object) -> tuple[int, int]:
        places = self.statistic.place(one), self.statistic.place(other)
        if places[0] == places[1]:
            raise InvalidInput(f"both columns are {quote(one)}; give two different ones")
        return places

    @property
    def _sums(self) -> Floats:
        """Released sums in units of a row."""
        return np.asarray(self.cells.values, np.float64) / self.statistic.grid**2

    def _unit(self, place: int) -> Floats:
        """The derivative of one sum."""
        found = np.zeros(self.statistic.cells[0])
        found[place] = 1.0
        return found

    @property
    def _count(self) -> _Smooth:
        value, number = float(self._sums[0]), partial(self._sum_at, 0)
        return _Smooth(value, self._unit(0), _none, lambda _: 1.0, 0.0, math.inf, number)

    def _sum_at(self, place: int) -> Formula:
        return self.cells.sum({place: 1.0 / self.statistic.grid**2})

    def _quotient(self, place: int) -> Formula:
        """A sum over the number of rows; the same one wherever it enters."""
        if place not in self._quotients:
            self._quotients[place] = quotient(self._sum_at(place), self._sum_at(0))
        return self._quotients[place]

    def _sum_of(self, column: int) -> _Smooth:
        middle, half = self.statistic.middle[column], self.statistic.half[column]
        slopes = middle * self._unit(0) + half * self._unit(1 + column)

        def formula() -> Formula:
            return self._sum_at(0) * float(middle) + self._sum_at(1 + column) * float(half)

        value = float(slopes @ self._sums)
        return _Smooth(value, slopes, _none, lambda _: 1.0, -math.inf, math.inf, formula)

    def _over(self, level: float) -> float:
        """By which factor a ratio may be further off, since the number of rows is not known."""
        if level not in self._overs:
            number = float(self._sums[0])
            rest = 1 - self._half(self._unit(0), level) / number if number > 0 else 0.0
            self._overs[level] = 1 / rest if rest > 0 else math.inf
        return self._overs[level]

    def _share(self, place: int) -> tuple[float, Floats]:
        """A sum over the number of rows, and its derivatives; 0 where no row is seen."""
        sums = self._sums
        if sums[0] <= 0:
            return 0.0, np.full(len(sums), math.nan)
        share = float(sums[place] / sums[0])
        return share, (self._unit(place) - share * self._unit(0)) / sums[0]

    def _mean_of(self, column: int) -> _Smooth:
        value, slopes = self._share(1 + column)

        def formula() -> Formula:
            return self._quotient(1 + column).within(-1.0, 1.0)

        return _Smooth(value, slopes, _none, self._over, -1.0, 1.0, formula)

    def _mean(self, column: int) -> _Smooth:
        return self._scale(
            self._mean_of(column), self.statistic.half[column], self.statistic.middle[column]
        )

    def _moment(self, one: int, other: int) -> _Smooth:
        """A covariance, or a variance, where bounds are -1 and 1."""
        this, means = self.statistic, (self._mean_of(one), self._mean_of(other))
        count = len(this.names)
        if one == other:
            place, least = 1 + count + one, 0.0
            lacking, slopes = self._share(place)
            raw, slopes = 1 - lacking, -slopes
        else:
            pair = (min(one, other), max(one, other))
            place, least = 1 + 2 * count + this.pairs.index(pair), -1.0
            raw, slopes = self._share(place)
        value = raw - means[0].value * means[1].value
        slopes = slopes - means[0].value * means[1].slopes - means[1].value * means[0].slopes

        def beyond(level: float) -> float:
            return math.prod(self._reach(mean, level) for mean in means)

        def formula() -> Formula:
            share = self._quotient(place)
            both = product(self._quotient(1 + one), self._quotient(1 + other))
            return (-(share + both) + 1.0 if one == other else share - both).within(least, 1.0)

        return _Smooth(value, slopes, beyond, self._over, least, 1.0, formula)

    def _covariance(self, one: int, other: int) -> _Smooth:
        half = self.statistic.half
        return self._scale(self._moment(one, other), float(half[one] * half[other]))

    def _slope(self, of: int, on: int) -> _Smooth:
        both, spread = self._moment(of, on), self._moment(on, on)
        half = self.statistic.half
        factor, most = float(half[of] / half[on]), float(self.statistic.grid)
        if spread.value <= 0 or not np.isfinite(spread.slopes).all():
            nothing = np.full(len(both.slopes), math.nan)
            nowhere = _Smooth(0.0, nothing, _none, lambda _: math.inf, -most, most)
            return self._scale(nowhere, factor)
        value = both.value / spread.value
        slopes = (both.slopes - value * spread.slopes) / spread.value

        def beyond(level: float) -> float:
            return (both.beyond(level) + abs(value) * spread.beyond(level)) / spread.value

        def over(level: float) -> float:
            rest = 1 - self._reach(spread, level) / spread.value
            return self._over(level) / rest if rest > 0 else math.inf

        return self._scale(_Smooth(value, slopes, beyond, over, -most, most), factor)

    def _height(self, of: int, on: int, at: float) -> _Smooth:
        slope = self._slope(of, on)
        means = self._mean(of), self._mean(on)
        away = at - means[1].value
        value = means[0].value + slope.value * away
        slopes = means[0].slopes + slope.slopes * away - slope.value * means[1].slopes

        def beyond(level: float) -> float:
            return abs(away) * slope.beyond(level) + self._reach(slope, level) * self._reach(
                means[1], level
            )

        # No further from the mean than by the largest slope times the largest distance.
        this = self.statistic
        apart = abs(at - this.middle[on]) + this.half[on]
        most = float(this.half[of] + slope.most * apart)
        middle = float(this.middle[of])
        return _Smooth(value, slopes, beyond, slope.over, middle - most, middle + most)

    @staticmethod
    def _scale(found: _Smooth, factor: float, added: float = 0.0) -> _Smooth:
        factor, of = float(factor), found.formula

        def formula() -> Formula:
            assert of is not None
            return of() * factor + float(added)

        return _Smooth(
            found.value * factor + float(added),
            found.slopes * factor,
            lambda level: found.beyond(level) * factor,
            found.over,
            found.least * factor + float(added),
            found.most * factor + float(added),
            None if of is None else formula,
        )

    def _std(self, slopes: Floats) -> float:
        if not np.isfinite(slopes).all():
            return math.inf
        return self.cells.std / self.statistic.grid**2 * float(np.linalg.norm(slopes))

    def _half(self, slopes: Floats, level: float) -> float:
        std = self._std(slopes)
        if not math.isfinite(std):
            return math.inf
        return float(self.cells.halfwidths(np.array(std), level))

    def _one(self, fails: float) -> float:
        """By how much a sum with weights of norm 1 is off, but for this probability.

        Where that is below what laws are told apart at, twice as much as but for its root: their
        tails fall at least exponentially.
        """
        if fails not in self._ones:
            alone = self._unit(0)
            if fails > 2 * SMALLEST_TAIL:
                self._ones[fails] = self._half(alone, 1 - fails)
            else:
                self._ones[fails] = 2 * self._half(alone, 1 - math.sqrt(fails))
        return self._ones[fails]

    def _reach(self, found: _Smooth, level: float) -> float:
        """By how much the estimate may be off."""
        over = found.over(level)
        if not math.isfinite(over):
            return math.inf
        return self._half(found.slopes, level) * over + found.beyond(level)

    def _interval(self, found: _Smooth, level: float) -> tuple[float, float]:
        reach = self._reach(found, level)
        if not math.isfinite(reach):
            return found.least, found.most
        return (
            min(max(found.value - reach, found.least), found.most),
            max(min(found.value + reach, found.most), found.least),
        )

    def _ends(self, name: Any, level: float) -> tuple[float, float]:
        found = self._function(name)  # says what is wrong with the name
        kind, *columns = (name,) if isinstance(name, str) else name
        if kind in ("count", "sum"):
            return self._interval(found, level)
        number, fails = float(self._sums[0]), 1 - level
        if kind == "mean":
            known, place = self._one(fails), self.statistic.place(columns[0])
            if not number > known * _SURELY:
                return found.least, found.most
            mean = MeanEnds.of(self._share(1 + place)[0], known / number)
            half, middle = float(self.statistic.half[place]), float(self.statistic.middle[place])
            return middle + half * mean.low, middle + half * mean.high
        places = [self.statistic.place(one) for one in columns]
        low = high = min(max(found.value, found.least), found.most)
        # How what may fail is shared hangs on the true number of rows: on all that are possible.
        off = self._one(fails * NUMBER_FAILS)
        std = self._std(self._unit(0)) or 1.0  # of no noise: then off is 0 too
        for part in means_fail((number - off) / std, (number + off) / std):
            rest = fails * (1 - NUMBER_FAILS)
            known = self._one(rest * part / len(places))
            ratio = self._one(rest * (1 - part))
            if not number > max(known, ratio) * _SURELY:
                return found.least, found.most
            ends = self._second(kind, places, known / number, ratio / number)
            low, high = min(low, ends[0]), max(high, ends[1])
        return low, high

    def _second(
        self, kind: str, places: Sequence[int], known: float, ratio: float
    ) -> tuple[float, float]:
        """Ends of a variance, a covariance or a slope."""
        this, shares = self.statistic, [self._share(1 + place)[0] for place in places]
        moment, half = self._moment(places[0], places[-1]).value, this.half[list(places)]
        if kind == "variance":
            ends = variance_ends(moment, MeanEnds.of(shares[0], known), ratio)
            scale = float(half[0] ** 2)
        elif kind == "covariance":
            both, apart = (MeanEnds.of(shares[0] + sign * shares[1], known, 2) for sign in (1, -1))
            ends, scale = covariance_ends(moment, both, apart, ratio), float(half[0] * half[1])
        else:
            of, on = (MeanEnds.of(share, known) for share in shares)
            spread = self._moment(places[1], places[1]).value
            ends = slope_ends(*(moment, spread), on=on, of=of, ratio=ratio, most=float(this.grid))
            scale = float(half[0] / half[1])
        return ends[0] * scale, ends[1] * scale


def _besides_noise(moments: Moments) -> Sequence[str]:
    bent, columns = "means, variances and slopes", moments.columns.items()
    return [ends_in_words(*ends, bent, f"values of {name}") for name, ends in columns]


def _chart_rows(moments: Moments, table: Table) -> Table:
    words = {"count": "rows"}
    for one in moments.columns:
        words |= {f"{kind} {one}": f"{kind} of {one}" for kind in ("mean", "variance")}
        for other in moments.columns:
            words[f"covariance {one} {other}"] = f"covariance of {one} and {other}"
            words[f"slope {one} {other}"] = f"slope of {one} on {other}"
    names = table["name"].astype(str).tolist()
    return {**table, "name": np.array([words.get(name, name) for name in names])}


class Moments(TallyStatistic):
    """The number of rows; means, variances and covariances of their columns; lines.

    An event is a row with a number for each column. The statistic clips numbers to their bounds and
    rounds them to the nearest of ``grid`` + 1 points; it estimates the moments of these. It refuses
    NaN and infinity. The number of rows is private.

    Args:
        columns: bounds of each column by its name, in order, or rows of name, lower and upper; at
            most 8.
        grid: cells between the bounds of every column: finer ones cost nothing but room in sums.
        unit: what one protected unit is called.

    Raises:
        InvalidInput: no columns or too many, bounds that do not ascend, or a grid so fine that a
            row does not fit into 62 bits.

    Sensitivity: see the module. For d columns D_2^2 times 1 + d + d (d - 1) / 2, and as much times
    D_1 (9/4 for one column), in the units of a row.

    >>> from counton import ZCDP, Key, Running
    >>> from counton.statistics import Moments
    >>> sales = Moments({"price": (0, 100), "sold": (0, 20)})
    >>> counter = Running.start(sales, 24, ZCDP(2), key=Key.generate(), name="sales", batched=True)
    >>> hour = counter.release_batch([(20, 14), (40, 10), (60, 6), (80, 2)] * 500)
    >>> low, high = hour.interval(("mean", "price"))
    >>> low <= 50 <= high, high - low < 2
    (True, True)
    >>> line = hour.line("sold", on="price")
    >>> low, high = line.slope_interval()
    >>> low <= -0.2 <= high < 0, abs(line.at(30) - 12) < 1
    (True, True)
    """

    card = Card(
        besides_noise=_besides_noise,
        keyword="moments",
        example={"columns": "seconds", "bounds": "0:600"},
        says="Means, variances and covariances of columns, and their least-squares lines.",
        reading=MomentsReading,
        column="name",
        phrase="table of means, variances, covariances and least-squares slopes of {columns}",
        chart=ChartSpec(
            "Running means, variances and slopes",
            "",
            panels=True,
            from_zero=False,
            choose=_chart_rows,
        ),
        also_called=("variance", "var", "std", "correlation"),
        known_beforehand=("count",),
        options=(
            replace(TABLE_COLUMNS, column="number"),
            Option(
                "bounds",
                "lowest and highest value of each column: 0:100,0:20",
                several=True,
                needed=True,
            ),
            Option(
                "grid", "how many cells between the bounds of each column; default: 256", "whole"
            ),
        ),
        event="row",
    )

    def __init__(
        self,
        columns: Mapping[str, tuple[Number, Number]] | Sequence[Sequence[Any]],
        *,
        grid: int = 256,
        unit: str = "event",
    ) -> None:
        given: Any = columns
        if isinstance(given, list):  # as in `parameters`, where a mapping would lose its order
            given = {name: tuple(ends) for name, *ends in given}
        if not isinstance(given, Mapping) or not 1 <= len(columns) <= _MOST_COLUMNS:
            raise InvalidInput(
                f"columns are {quote(columns)}; give names and bounds of 1 to {_MOST_COLUMNS}, "
                f"such as {{'price': (0, 100)}}"
            )
        self.grid = check_integer("grid", grid, 1, _MOST_GRID)
        self.unit, self._stated = checked_unit(unit), unit != "event"
        self.columns: dict[str, tuple[Fraction, Fraction]] = {}
        for name, ends in given.items():
            if not isinstance(name, str) or not name.isprintable() or not name.strip():
                raise InvalidInput(f"a column is called {quote(name)}; give it a name")
            if not isinstance(ends, (tuple, list)) or len(ends) != 2:
                raise InvalidInput(
                    f"bounds of column {quote(name)} are {quote(ends)}; give (lower, upper)"
                )
            lower, upper = exact(ends[0], "lower"), exact(ends[1], "upper")
            if not lower < upper:
                raise InvalidInput(
                    f"bounds of column {quote(name)} are ({text(lower)}, {text(upper)}); the "
                    f"lower one must be below the upper one: swap them or widen them"
                )
            largest = max(abs(lower), abs(upper))
            if (upper - lower) * _LARGEST_BOUND < 1 or largest > _LARGEST_BOUND:
                raise InvalidInput(
                    f"bounds of column {quote(name)} are ({readable(lower)}, {readable(upper)}); "
                    f"their squares are computed with up to 1e100 and for ranges from 1e-100 on: "
                    f"choose another unit"
                )
            self.columns[name] = lower, upper
        if (self.grid + 1) ** len(self.columns) >= _LARGEST_ROW:
            raise InvalidInput(
                f"grid is {self.grid}, and there are {len(self.columns)} columns: a row would not "
                f"fit into 62 bits; take a coarser grid"
            )
        self.names = tuple(self.columns)
        self.parts = tuple(Part(name) for name in self.names)
        bounds = np.array([[float(end) for end in each] for each in self.columns.values()])
        #: Middle of the bounds, and half of their distance.
        self.middle: Floats = bounds.mean(axis=1)
        self.half: Floats = (bounds[:, 1] - bounds[:, 0]) / 2
        count = len(self.names)
        self.pairs = [(j, k) for j in range(count) for k in range(j + 1, count)]
        self.places = 1 + 2 * count + len(self.pairs)

    @classmethod
    @override
    def from_spec(cls, stated: Statement) -> Statistic:
        _, bounds = stated.require("columns", "bounds")
        names, ends = stated.require_names("columns"), split_names(bounds)
        pairs: list[Any] = [tuple(part.strip() for part in each.split(":")) for each in ends]
        if len(names) != len(ends) or any(len(pair) != 2 or "" in pair for pair in pairs):
            raise InvalidInput(
                f"{field('bounds', ','.join(ends))} must be two numbers for each of the columns "
                f"{', '.join(names)}, as in 0:100,0:20"
            )
        return cls(dict(zip(names, pairs, strict=True)), **stated.only("grid"))

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        columns = [[name, *(text(end) for end in ends)] for name, ends in self.columns.items()]
        return {"columns": columns, "grid": self.grid, **self._parameters_of("unit")}

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (self.places,)

    @override
    def contribution(self, *, batched: bool = False, horizon: int | None = None) -> Contribution:
        """The same for batches."""
        one, count = self.grid**2, len(self.names)
        largest = 1 + count + len(self.pairs)
        total = largest * one
        if count == 1:  # 1 + |a| + 1 - a^2, of which 9/4 is the largest if the grid has that a
            places = np.arange(-self.grid, self.grid + 1, 2, dtype=np.int64)
            total = int((one + self.grid * np.abs(places) + one - places**2).max())
        return Contribution.of_pattern(
            BoundedChange(total, largest * one**2, once=True),
            f"whose {count} value{'s' * (count > 1)}, clipped to bounds on a grid of {self.grid} "
            f"cells, count in sums and products, and in the number of rows",
            unit=self.unit,
        )

    @property
    @override
    def error_of(self) -> ErrorScale:
        """See `Statistic.error_of`.

        >>> print(Moments({"price": (0, 100)}).error_of.what)
        the number of rows; of the mean of n values in the middle: times half the width of their
        bounds, over n
        """
        one = 1 / self.grid**2
        return ErrorScale(
            "the number of rows; of the mean of n values in the middle: times half the width of "
            "their bounds, over n",
            one,
            one,
        )

    @override
    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        if rows is None:
            return None
        count, grid = len(self.names), self.grid
        sums = [rows, *[rows * grid // 2] * count, *[rows * grid**2 // 3] * count]
        sums += [rows * grid**2 // 4] * len(self.pairs)
        return np.asarray(self.measure(np.array([sums], np.int64))[0])

    @override
    def check_events(self, each: NDArray[np.int64]) -> None:
        most = int(each.max(initial=0))
        refuse_overflow(
            most * self.grid**2 * 4,
            _LARGEST_SUM,
            lambda: (
                f"a step has {most:,} rows, more than can be added up on a grid of {self.grid} "
                f"cells: take shorter steps, or a coarser grid"
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
                what = wrong[0] if wrong else next(r for r in events if isinstance(r, (str, bytes)))
                raise InvalidInput(
                    f"a row is {quote(what)}; it must have a number for each of {count} columns, "
                    f"{', '.join(self.names)}"
                )
        elif events.ndim != 2 or events.shape[1] != count:
            raise InvalidInput(
                f"rows have shape {events.shape}; they must be (n, {count}): a number for each of "
                f"the columns {', '.join(self.names)}"
            )
        else:
            return tuple(value_grid.finite(events[:, place]) for place in range(count))
        return tuple(value_grid.finite([row[place] for row in events]) for place in range(count))

    @override
    def encode(self, *parts: Any) -> Integers:
        """Grid points of all values, as the digits of one number."""
        found: Integers = np.zeros(len(parts[0]), np.int64)
        for place, values in enumerate(parts):
            where = (value_grid.finite(values) - self.middle[place]) / self.half[place]
            points = np.rint((np.clip(where, -1, 1) + 1) / 2 * self.grid).astype(np.int64)
            found = found * (self.grid + 1) + points
        return found

    @override
    def entries(self, said: X) -> Sequence[tuple[X | int, X | int]]:
        base, count = self.grid + 1, len(self.names)
        digits = [said // base ** (count - 1 - j) % base for j in range(count)]
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
    def said_bounds(self) -> tuple[int, int]:
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
        """Moments about the middle, and what squares lack of 1."""
        grid, count = self.grid, len(self.names)
        number, lines = sums[:, :1], sums[:, 1 : 1 + count]
        squares, products = sums[:, 1 + count : 1 + 2 * count], sums[:, 1 + 2 * count :]
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
        """All that a table says, by what it is called there: the kind, and its columns."""
        pairs = [(self.names[j], self.names[k]) for j, k in self.pairs]
        asked: list[tuple[str, ...]] = [("count",)]
        asked += [(kind, name) for kind in ("mean", "variance") for name in self.names]
        asked += [("covariance", *pair) for pair in pairs]
        asked += [("slope", *ends) for one, other in pairs for ends in ((other, one), (one, other))]
        return {" ".join(one): one for one in asked}

    @property
    @override
    def number_names(self) -> Sequence[str]:
        return [*self.kinds]

    def place(self, name: object) -> int:
        if name not in self.names:
            raise InvalidInput(
                f"column is {quote(name)}; there are {', '.join(map(repr, self.names))}"
            )
        return self.names.index(str(name))


class Line:
    """The least-squares line of one column on another; made by `MomentsReading.line`.

    Attributes:
        of, on: the columns: ``of`` is told from ``on``.

    >>> from counton import Key, PureDP, Running
    >>> rows = Moments({"hours": (0, 16), "points": (0, 64)})
    >>> counter = Running.start(rows, 1, PureDP(8), key=Key.generate(), name="exam", batched=True)
    >>> line = counter.release_batch([(1, 6), (5, 18), (9, 30)] * 900).line("points", on="hours")
    >>> low, high = line.interval(4)
    >>> low <= 15 <= high, abs(line.slope - 3) < 0.2
    (True, True)
    """

    def __init__(self, reading: MomentsReading, of: str, on: str) -> None:
        self._reading, self.of, self.on = reading, of, on
        self._places = reading.statistic.place(of), reading.statistic.place(on)

    @property
    def slope(self) -> float:
        """By how much ``of`` rises where ``on`` rises by one; 0 where no spread is seen."""
        return float(self._reading["slope", self.of, self.on])

    def slope_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Ends that hold the slope with probability ``level``, where there is one.

        Where too little is known, these are all slopes that points of the grid can have.

        Raises:
            InvalidInput: a level outside (0, 1 - 1e-9].
        """
        return self._reading.interval(("slope", self.of, self.on), level)

    def at(self, point: float) -> float:
        """Height of the line at a point of ``on``; its intercept is that at 0."""
        return self._reading._height(*self._places, float(point)).value

    def interval(self, point: float, level: float = 0.95) -> tuple[float, float]:
        """Ends that hold the height at a point with probability ``level``.

        Raises:
            InvalidInput: a level outside (0, 1 - 1e-9].
        """
        found = self._reading._height(*self._places, float(point))
        return self._reading._interval(found, check_level(level))

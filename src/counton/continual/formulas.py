"""Formulas: how a number was computed from released cells, from which its error follows.

Statistics give the `Formula` of each number: weighted sums of cells, quotients of two such sums (a
mean), and products of two quotients (in a variance). Formulas add up across groups, windows and
streams; their intervals use the joint distribution of all noise, so shared noise cancels. A number
without a formula, such as a quantile, has an interval for each level (`Estimate`); of two that are
combined, each interval gets half of the error probability.

The interval of a quotient A / B is Fieller's (1954): all numbers r for which the interval of A - r
B contains 0. It needs no approximation. It is unbounded if the divisor may be 0.
"""

# The error of a sum of quotients is the sum of their errors. A quotient A / B has the error
# (N_A - q N_B) / B, with the true quotient q, the noise N_A and N_B, and the released divisor B. To
# first order this is the noise of one sum of cells, whose distribution is known. Two steps cover
# the unknown true quotients and divisors. The half-width is divided by 1 - (half-width of B) / B,
# for the divisor with which this is least; and a bound on the products of two errors is added.

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Column, Floats
from counton.base.columns import BETWEEN
from counton.base.errors import InvalidInputError
from counton.continual.design import Design
from counton.continual.intervals import check_confidence_level, interval_halfwidth
from counton.strategies import noise_variance
from counton.strategies.joint_errors import sum_noise_variance
from counton.strategies.strategy import window_rounding

#: Largest number of steps between which covariances of noise are computed pair by pair.
_MOST_PAIRED_ENDS = 32
#: Largest number of iterations in the search for an end of an interval, and its relative precision.
_MOST_ITERATIONS = 200
_RELATIVE_PRECISION = 2.0**-20


class Term(NamedTuple):
    """The change of one cell in steps start + 1 to stop, times a weight.

    Attributes:
        start, stop: the step before the first counted step, and the last counted step.
        cell: index of the cell.

    >>> Term(-1.0, 0, 7, 2).cell
    2
    """

    weight: float
    start: int
    stop: int
    cell: int


class Estimate(ABC):
    """A number computed from releases, with its error and interval.

    ``least`` and ``most`` are bounds on the true number that always hold.
    """

    least: float = -math.inf
    most: float = math.inf

    @property
    @abstractmethod
    def value(self) -> float:
        """The number, as it was released or computed from releases."""

    @property
    @abstractmethod
    def std(self) -> float:
        """Standard deviation of its noise, to first order; NaN if none describes the error."""

    @abstractmethod
    def interval(self, confidence_level: float) -> tuple[float, float]:
        """Return an interval that holds the true number with probability at least
        ``confidence_level``."""

    @property
    def formula(self) -> Formula | None:
        """The number as a `Formula`; None if it has none."""
        return None

    def _clip(self, low: float, high: float) -> tuple[float, float]:
        return min(max(low, self.least), self.most), max(min(high, self.most), self.least)


@dataclass(frozen=True, eq=False)
class CellSum:
    """A weighted sum of released cells, as it was published, in data units.

    ``grain`` is the largest absolute rounding error of the value.
    """

    value: float
    design: Design
    parts: tuple[Term, ...]
    grain: float = 0.0


@dataclass(frozen=True, eq=False)
class Quotient:
    """One `Formula` divided by another, as a part of a larger formula."""

    above: Formula
    below: Formula


@dataclass(frozen=True, eq=False)
class Formula(Estimate):
    """A number as a function of released cells.

    It is a constant plus weighted sums of cells, quotients of two sums, and products of two
    quotients, each times a weight.

    >>> two = Formula(2.0) + 3 - Formula(1.0)
    >>> two.value, (two / 4).value, (-two).interval(0.95)
    (4.0, 1.0, (-4.0, -4.0))
    """

    constant: float = 0.0
    sums: tuple[tuple[CellSum, float], ...] = ()
    quotients: tuple[tuple[Quotient, float], ...] = ()
    products: tuple[tuple[Quotient, Quotient, float], ...] = ()
    least: float = -math.inf
    most: float = math.inf

    @classmethod
    def from_cell_sum(cls, cell_sum: CellSum) -> Formula:
        return cls(sums=((cell_sum, 1.0),))

    @property
    @override
    def formula(self) -> Formula:
        return self

    @property
    def linear(self) -> bool:
        return not self.quotients and not self.products

    @property
    @override
    def value(self) -> float:
        return float(min(max(self.raw, self.least), self.most))

    @property
    def raw(self) -> float:
        """The value, before it is clipped to the bounds of the true number."""
        terms = [self.constant]
        terms += [weight * cell_sum.value for cell_sum, weight in self.sums]
        terms += [weight * _ratio_of(quotient) for quotient, weight in self.quotients]
        terms += [
            weight * _ratio_of(quotient) * _ratio_of(other)
            for quotient, other, weight in self.products
        ]
        return math.fsum(terms) if all(map(math.isfinite, terms)) else math.nan

    @property
    @override
    def std(self) -> float:
        std = _JointNoise([self]).first_order(self)
        return math.inf if std is None else std

    @override
    def interval(self, confidence_level: float) -> tuple[float, float]:
        if len(self.quotients) == 1 and not (self.sums or self.products):
            ((quotient, weight),) = self.quotients
            if weight:
                alone = Ratio(quotient.above, quotient.below, weight, self.constant)
                return self._clip(*alone.interval(confidence_level))
        return self.interval_of_half_width(self.half(confidence_level))

    def half(self, confidence_level: float) -> float:
        """Return the half-width of the interval of this level; infinite if a divisor may be 0."""
        return _JointNoise([self]).half(self, check_confidence_level(confidence_level))

    def interval_of_half_width(self, half: float) -> tuple[float, float]:
        """Return value - half and value + half, clipped to the bounds of the true number."""
        if not math.isfinite(half):
            return self.least, self.most
        return self._clip(self.raw - half, self.raw + half)

    def bounded_by(self, least: float, most: float) -> Formula:
        """Return a copy whose true number is known to lie between ``least`` and ``most``."""
        return replace(self, least=least, most=most)

    def __add__(self, other: Formula | float) -> Formula:
        if not isinstance(other, Formula):
            other = Formula(float(other), least=float(other), most=float(other))
        return Formula.total([self, other])

    def __mul__(self, factor: float) -> Formula:
        if not math.isfinite(factor):
            raise InvalidInputError(f"a number is multiplied by {factor}; give a finite factor")
        least, most = sorted((self.least * factor, self.most * factor)) if factor else (0.0, 0.0)
        return Formula(
            self.constant * factor,
            tuple((cell_sum, weight * factor) for cell_sum, weight in self.sums),
            tuple((quotient, weight * factor) for quotient, weight in self.quotients),
            tuple((quotient, other, weight * factor) for quotient, other, weight in self.products),
            least=least,
            most=most,
        )

    def __neg__(self) -> Formula:
        return self * -1.0

    def __sub__(self, other: Formula | float) -> Formula:
        return self + (-other)

    def __truediv__(self, divisor: float) -> Formula:
        return self * (1 / divisor)

    @classmethod
    def total(cls, numbers: Sequence[Formula]) -> Formula:
        """Return the sum of many formulas as one formula."""
        return cls(
            sum(formula.constant for formula in numbers),
            tuple(chain.from_iterable(formula.sums for formula in numbers)),
            tuple(chain.from_iterable(formula.quotients for formula in numbers)),
            tuple(chain.from_iterable(formula.products for formula in numbers)),
            sum(formula.least for formula in numbers),
            sum(formula.most for formula in numbers),
        )


def quotient(above: Formula, below: Formula) -> Formula:
    """Return one sum of released cells divided by another."""
    return Formula(quotients=((Quotient(above, below), 1.0),))


def product(first_factor: Formula, second_factor: Formula) -> Formula:
    """Return the product of two quotients, each made by `quotient`."""
    ((first, weight),) = first_factor.quotients
    ((second, other_weight),) = second_factor.quotients
    return Formula(products=((first, second, weight * other_weight),))


@dataclass(frozen=True, eq=False)
class Ratio(Estimate):
    """One formula divided by another: ``scale * above / below + offset``.

    The interval is Fieller's (1954): all r for which the interval of above - r * below contains 0.
    It needs no approximation. It is unbounded if the divisor may be 0.
    """

    above: Formula
    below: Formula
    scale: float = 1.0
    offset: float = 0.0
    least: float = -math.inf
    most: float = math.inf

    @property
    @override
    def value(self) -> float:
        x = self.above.value
        y = self.below.value
        return self.scale * (x / y) + self.offset if y else math.nan

    @property
    @override
    def std(self) -> float:
        x = self.above.value
        y = self.below.value
        if not y or not math.isfinite(x / y):
            return math.inf
        return abs(self.scale) * (self.above - self.below * (x / y)).std / abs(y)

    @override
    def interval(self, confidence_level: float) -> tuple[float, float]:
        low, high = self._ends(check_confidence_level(confidence_level))
        ends = sorted(self.scale * end + self.offset for end in (low, high))
        return self._clip(ends[0], ends[1])

    def _ends(self, confidence_level: float) -> tuple[float, float]:
        above = self.above
        below = self.below
        distribution = _JointNoise([above, below])
        x = above.raw
        y = below.raw
        if (
            not y
            or not abs(y) > distribution.half(below, confidence_level, full=True)
            or not math.isfinite(x / y)
        ):
            return -math.inf, math.inf

        def excess(r: float) -> float:
            return abs(x - r * y) - distribution.half(
                above - below * r, confidence_level, full=True
            )

        middle = x / y
        first = distribution.first_order(above - below * middle)
        step = (math.inf if first is None else first) / abs(y)
        step = max(step, abs(middle) * 2**-40, 1e-300) if math.isfinite(step) else 1.0
        return _end(excess, middle, -1, step), _end(excess, middle, 1, step)


def _end(excess: Callable[[float], float], middle: float, sign: int, step: float) -> float:
    """Return an end of an interval, or a number slightly outside it; infinity if it has none.

    Args:
        excess: function that is at most 0 inside the interval.
        middle: a number inside.
        sign: 1 for the upper end, -1 for the lower.
        step: the first distance from ``middle`` to try.
    """
    inner = 0.0
    low = excess(middle)
    outer = step
    while (high := excess(middle + sign * outer)) <= 0:
        inner = outer
        low = high
        outer = 2 * outer
        if outer > 1e300:
            return sign * math.inf
    for turn in range(_MOST_ITERATIONS):
        if outer - inner <= _RELATIVE_PRECISION * outer:
            break
        # The zero of a line through both ends, a little to either side; now and then the middle.
        candidate = inner + (outer - inner) / 2
        if turn % 3 != 2 and math.isfinite(low) and math.isfinite(high):
            line = inner + low / (low - high) * (outer - inner)
            aside = (1 if turn % 3 == 0 else -1) * 0.4 * _RELATIVE_PRECISION * outer
            candidate = min(
                max(line + aside, inner + _RELATIVE_PRECISION * outer / 4),
                outer - _RELATIVE_PRECISION * outer / 4,
            )
        if candidate in (inner, outer):
            break
        if (excess_there := excess(middle + sign * candidate)) > 0:
            outer = candidate
            high = excess_there
        else:
            inner = candidate
            low = excess_there
    return middle + sign * outer


@dataclass(frozen=True, eq=False)
class ClosedForm(Estimate):
    """A number, or an array, whose interval is a function of the level, not of the joint noise.

    Attributes:
        estimate: the number or numbers.
        ends: function from a level to the ends of the intervals.
        deviation: standard deviation of the noise; NaN if none describes the error.
        parts: function that returns the number as a `Formula`; None: it is none.

    >>> ClosedForm(3.0, lambda level: (2.0, 5.0)).interval(0.9)
    (2.0, 5.0)
    """

    estimate: Any
    ends: Callable[[float], tuple[Any, Any]]
    deviation: Any = math.nan
    parts: Callable[[], Formula] | None = None

    @classmethod
    def symmetric(
        cls,
        estimate: Any,
        half: Callable[[float], Any],
        deviation: Any,
        parts: Callable[[], Formula] | None = None,
    ) -> ClosedForm:
        """Return a number with the interval estimate - half(level) to estimate + half(level)."""

        def ends(confidence_level: float) -> tuple[Any, Any]:
            wide = half(confidence_level)
            return estimate - wide, estimate + wide

        return cls(estimate, ends, deviation, parts)

    @property
    @override
    def value(self) -> Any:
        return _plain(self.estimate)

    @property
    @override
    def std(self) -> Any:
        return _plain(self.deviation)

    @override
    def interval(self, confidence_level: float) -> tuple[Any, Any]:
        low, high = self.ends(check_confidence_level(confidence_level))
        return _plain(low), _plain(high)

    @property
    @override
    def formula(self) -> Formula | None:
        return None if self.parts is None else self.parts()

    def divided_by(self, count: float, least: float, most: float) -> ClosedForm:
        """Divide this number by ``count`` > 0, and bound the result."""

        def ends(confidence_level: float) -> tuple[float, float]:
            low, high = (end / count for end in self.ends(confidence_level))
            return max(low, least), min(high, most)

        def parts() -> Formula:
            assert self.formula is not None
            return (self.formula / count).bounded_by(least, most)

        return ClosedForm(self.estimate / count, ends, self.deviation / count, parts)

    def selected(self, places: Any, parts: Callable[[], Formula] | None = None) -> ClosedForm:
        """Select numbers of an array by any index; ``parts`` is as in the class."""
        shape = np.shape(self.estimate)

        def ends(confidence_level: float) -> tuple[Any, Any]:
            low, high = self.ends(confidence_level)
            return low[places], high[places]

        deviation = np.broadcast_to(self.deviation, shape)[places]
        return ClosedForm(self.estimate[places], ends, deviation, parts)


def join_numbers(
    numbers: Sequence[Estimate], join: Callable[[list[Any]], Column] | None = None
) -> ClosedForm:
    """Join numbers, or arrays of numbers, to one array with its intervals.

    ``join`` makes one array of several: of values, deviations, and ends; None: it concatenates.

    >>> join_numbers([Formula(2.0), Formula(3.0)]).interval(0.9)[0].tolist()
    [2.0, 3.0]
    """
    values = [number.value for number in numbers]

    def put_in_a_row(parts: list[Any]) -> Column:
        arrays = zip(parts, values, strict=True)
        return np.concatenate(
            [np.broadcast_to(np.ravel(array), np.size(value)) for array, value in arrays]
        )

    put = put_in_a_row if join is None else join

    def ends(confidence_level: float) -> tuple[Any, Any]:
        pairs = [number.interval(confidence_level) for number in numbers]
        return put([low for low, _ in pairs]), put([high for _, high in pairs])

    return ClosedForm(put(values), ends, put([number.std for number in numbers]))


class TableNumbers(NamedTuple):
    """A table of released numbers: one number in each row, and columns that describe the rows.

    Attributes:
        about: columns that describe the rows, by name: one entry for each row.
        numbers: all numbers in one array, in order of rows.
        further_columns: function from the confidence level to further columns, by name.

    >>> both = join_numbers([Formula(2.0), Formula(3.0)])
    >>> two = TableNumbers({"measure": np.array(["a", "b"])}, both)
    >>> {name: column.tolist() for name, column in two.columns(0.9).items()}["upper"]
    [2.0, 3.0]
    """

    about: Mapping[str, Column]
    numbers: ClosedForm
    further_columns: Callable[[float], Mapping[str, Column]] = lambda _: {}

    def columns(self, confidence_level: float) -> dict[str, Column]:
        low, high = self.numbers.interval(confidence_level)
        estimate = self.numbers.estimate
        std = self.numbers.std
        return {
            **self.about,
            "estimate": estimate,
            "noise_std": std if np.ndim(std) else np.full(estimate.shape, std),
            "lower": low,
            "upper": high,
            "confidence_level": np.full(estimate.shape, float(confidence_level)),
            **self.further_columns(confidence_level),
        }

    def rows(self, places: NDArray[np.int64]) -> TableNumbers:
        about = {name: values[places] for name, values in self.about.items()}

        def further_columns(confidence_level: float) -> dict[str, Column]:
            return {
                name: values[places]
                for name, values in self.further_columns(confidence_level).items()
            }

        return TableNumbers(about, self.numbers.selected(places), further_columns)

    @classmethod
    def stack(cls, parts: Sequence[TableNumbers], about: Mapping[str, Column]) -> TableNumbers:
        """Stack tables below each other, described by ``about``, with all ``further_columns``."""

        def further_columns(confidence_level: float) -> dict[str, Column]:
            tables = [part.further_columns(confidence_level) for part in parts]
            return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}

        return cls(about, join_numbers([part.numbers for part in parts]), further_columns)

    @classmethod
    def of_groups(cls, parts: Mapping[str, TableNumbers]) -> TableNumbers:
        """Stack the tables of several groups below each other, with a column "group" in front.

        Groups within these groups are named by both.
        """
        tables = [*parts.values()]
        rows = [np.size(table.numbers.value) for table in tables]
        groups = np.repeat(np.array([*parts]), rows)
        names = tables[0].about
        about = {name: np.concatenate([table.about[name] for table in tables]) for name in names}
        inner_groups = about.pop("group", None)
        if inner_groups is not None:
            groups = np.array(
                [
                    group if inner_group is None else f"{group}{BETWEEN}{inner_group}"
                    for group, inner_group in zip(groups, inner_groups, strict=True)
                ],
                dtype=object,
            )
        return cls.stack(tables, {"group": groups, **about})


def _plain(number: object) -> Any:
    """Convert an array without axes to a Python number; return any other value unchanged."""
    return (
        number.item() if isinstance(number, np.ndarray | np.generic) and not number.ndim else number
    )


@dataclass(frozen=True, eq=False)
class PairEstimate(Estimate):
    """The difference or ratio of two numbers, at least one of which has no formula.

    Each of their intervals gets half of the allowed error probability (Bonferroni). A ratio
    (``over``) is multiplied by ``scale``; then ``offset`` is added.
    """

    first: Estimate
    second: Estimate
    over: bool = False
    scale: float = 1.0
    offset: float = 0.0

    @property
    @override
    def value(self) -> float:
        first = self.first.value
        second = self.second.value
        if not self.over:
            return first - second
        return self.scale * (first / second) + self.offset if second else math.nan

    @property
    @override
    def std(self) -> float:
        return math.nan

    @override
    def interval(self, confidence_level: float) -> tuple[float, float]:
        single_level = 1 - (1 - check_confidence_level(confidence_level)) / 2
        low, high = self.first.interval(single_level)
        least, most = self.second.interval(single_level)
        if not self.over:
            return low - most, high - least
        if least <= 0 <= most:
            return -math.inf, math.inf
        ends = [self.scale * (a / b) + self.offset for a in (low, high) for b in (least, most)]
        defined = [end for end in ends if not math.isnan(end)]
        return (min(defined), max(defined)) if len(defined) == 4 else (-math.inf, math.inf)


def difference(minuend: Estimate, subtrahend: Estimate) -> Estimate:
    """Return ``minuend`` minus ``subtrahend``; noise that two formulas share cancels."""
    if (first := minuend.formula) is not None and (second := subtrahend.formula) is not None:
        return first - second
    return PairEstimate(minuend, subtrahend)


def shifted_ratio(
    numerator: Estimate, denominator: Estimate, scale: float = 1.0, offset: float = 0.0
) -> Estimate:
    """Return ``scale`` * ``numerator`` / ``denominator`` + ``offset``."""
    if (above := numerator.formula) is not None and (below := denominator.formula) is not None:
        return Ratio(above, below, scale, offset)
    return PairEstimate(numerator, denominator, True, scale, offset)


def _ratio_of(quotient: Quotient) -> float:
    """Return the released value of a quotient; NaN if its divisor is 0."""
    below = quotient.below.raw
    return quotient.above.raw / below if below else math.nan


class _JointNoise:
    """Joint noise of several formulas, over all streams, cells and steps that they use."""

    def __init__(self, formulas: Sequence[Formula]) -> None:
        streams: list[tuple[Design, dict[tuple[int, int, int], int]]] = []
        for cell_sum in _sums(formulas):
            index = _stream_index(streams, cell_sum.design)
            if index == len(streams):
                streams.append((cell_sum.design, {}))
            keys = streams[index][1]
            for part in cell_sum.parts:
                keys.setdefault(part[1:], len(keys))
        self._noises = [_Noise(design, list(keys)) for design, keys in streams]
        self._streams = streams

    def _weights_of(self, formula: Formula) -> tuple[list[Floats], float]:
        """Return the weights of cells in a formula's plain sums, and their rounding error.

        There is an array for each stream, by cell and window. Quotients and products are left to
        other methods.
        """
        weights = [np.zeros(len(keys)) for _, keys in self._streams]
        rounding = 0.0
        for cell_sum, factor in formula.sums:
            index = _stream_index(self._streams, cell_sum.design)
            keys = self._streams[index][1]
            rounding = rounding + abs(factor) * cell_sum.grain
            for part in cell_sum.parts:
                if not math.isfinite(part.weight):
                    raise InvalidInputError(
                        f"the weight of a cell is {part.weight}; give finite numbers"
                    )
                weights[index][keys[part[1:]]] += factor * part.weight
        return weights, rounding

    def _half(self, weights: Sequence[Floats], confidence_level: float, *, full: bool) -> float:
        """Return the half-width of a weighted sum of cells of several independent streams.

        With ``full`` it also suffices if a single draw of noise has the whole variance.
        """
        # The root of the sum of squares covers all tails that grow no heavier when they are added
        # up.
        return math.hypot(
            *(
                noise.half(stream_weights, confidence_level, full=full)
                for noise, stream_weights in zip(self._noises, weights, strict=True)
            )
        )

    def first_order(self, formula: Formula) -> float | None:
        """Return a formula's standard deviation to first order; None if a released divisor is 0."""
        linear, _ = self._weights_of(formula)
        quotients = self._quotients_of(formula)
        if quotients is None:
            return None
        weights = _with_quotients(linear, quotients)
        return math.hypot(
            *(noise.std(of_stream) for noise, of_stream in zip(self._noises, weights, strict=True))
        )

    def _quotients_of(self, formula: Formula) -> dict[Quotient, _QuotientNoise] | None:
        """Return the released value and the noise of each quotient; None if a divisor is 0."""
        noise_of: dict[Quotient, _QuotientNoise] = {}
        for quotient in _quotients_in(formula):
            if quotient not in noise_of:
                noise_of[quotient] = self._noise_of_quotient(quotient)
        if not all(math.isfinite(noise.ratio) for noise in noise_of.values()):
            return None
        for quotient, weight in formula.quotients:
            noise_of[quotient].weight += weight
        for first, second, weight in formula.products:
            noise_of[first].weight += weight * noise_of[second].ratio
            noise_of[second].weight += weight * noise_of[first].ratio
        return noise_of

    def _noise_of_quotient(self, quotient: Quotient) -> _QuotientNoise:
        dividend_weights, dividend_rounding = self._weights_of(quotient.above)
        divisor_weights, divisor_rounding = self._weights_of(quotient.below)
        ratio = _ratio_of(quotient)
        return _QuotientNoise(
            ratio=ratio,
            divisor=quotient.below.raw,
            error_weights=[
                above - ratio * below
                for above, below in zip(dividend_weights, divisor_weights, strict=True)
            ],
            divisor_weights=divisor_weights,
            dividend_rounding=dividend_rounding,
            divisor_rounding=divisor_rounding,
        )

    def half(self, formula: Formula, confidence_level: float, *, full: bool = False) -> float:
        """Return the half-width of a formula's interval; infinite if a divisor may be 0.

        With ``full`` it also suffices if a single draw of noise has the whole variance. Then it
        obeys the triangle inequality in the weights, which bounds on products of errors need.
        """
        linear, rounding = self._weights_of(formula)
        if formula.linear:
            return self._half(linear, confidence_level, full=full) + rounding
        quotients = self._quotients_of(formula)
        if quotients is None:
            return math.inf
        # A divisor may be smaller than released, by up to the half-width of its interval. This
        # multiplies the error of its quotient by at most its inflation.
        largest_inflation = 1.0
        further = rounding
        for quotient in quotients.values():
            divisor = abs(quotient.divisor)
            divisor_half = self._half(quotient.divisor_weights, confidence_level, full=True)
            divisor_half += quotient.divisor_rounding
            if not divisor > divisor_half:
                return math.inf
            inflation = 1 / (1 - divisor_half / divisor)
            largest_inflation = max(largest_inflation, inflation)
            error_half = self._half(quotient.error_weights, confidence_level, full=True)
            rounded = quotient.rounding * inflation / divisor
            quotient.largest_error = error_half * inflation / divisor + rounded
            further += abs(quotient.weight) * rounded
        for first, second, weight in formula.products:
            errors = quotients[first].largest_error * quotients[second].largest_error
            further += abs(weight) * errors
        first_order = self._half(_with_quotients(linear, quotients), confidence_level, full=full)
        return first_order * largest_inflation + further


@dataclass(eq=False)
class _QuotientNoise:
    """The released value of one quotient in a formula, and its noise.

    Weights are an array for each stream, by cell and window.

    Attributes:
        ratio: released value of the quotient.
        divisor: released value of its divisor.
        error_weights: weights of dividend - ratio * divisor, whose noise is the quotient's error
            times the divisor, to first order.
        divisor_weights: weights of the cells in the divisor.
        dividend_rounding: largest rounding error of the dividend's sums.
        divisor_rounding: largest rounding error of the divisor's sums.
        weight: derivative of the formula by the quotient.
        largest_error: largest error of the quotient.
    """

    ratio: float
    divisor: float
    error_weights: list[Floats]
    divisor_weights: list[Floats]
    dividend_rounding: float
    divisor_rounding: float
    weight: float = 0.0
    largest_error: float = 0.0

    @property
    def rounding(self) -> float:
        """The largest rounding error of dividend - ratio * divisor."""
        return self.dividend_rounding + abs(self.ratio) * self.divisor_rounding


def _quotients_in(formula: Formula) -> Iterator[Quotient]:
    """Yield the quotients of a formula, and the factors of its products; some may come again."""
    for quotient, _ in formula.quotients:
        yield quotient
    for first, second, _ in formula.products:
        yield first
        yield second


def _with_quotients(
    linear: Sequence[Floats], quotients: Mapping[Quotient, _QuotientNoise]
) -> list[Floats]:
    """Return a formula's derivative by each cell: its weight to first order, for each stream."""
    weights = list(linear)
    for quotient in quotients.values():
        for index, error_weights in enumerate(quotient.error_weights):
            weights[index] = weights[index] + quotient.weight * error_weights / quotient.divisor
    return weights


def _stream_index(streams: Sequence[tuple[Design, object]], design: Design) -> int:
    """Return the index of a design's stream; ``len(streams)`` if it is not in the list.

    Statistics of a report are of one stream. Designs without an identity, as of a plan, are of one
    stream if they are equal.
    """
    for index, (other, _) in enumerate(streams):
        if other is design or other == design:
            return index
        same = other.noise_id is not None and other.noise_id == design.noise_id
        if same and other.units.exact == design.units.exact:
            return index
    return len(streams)


def _sums(formulas: Sequence[Formula]) -> Iterable[CellSum]:
    for formula in formulas:
        yield from (cell_sum for cell_sum, _ in formula.sums)
        for quotient, _ in formula.quotients:
            yield from _sums([quotient.above, quotient.below])
        for first, second, _ in formula.products:
            yield from _sums([first.above, first.below, second.above, second.below])


class _Noise:
    """The noise of weighted sums of counts of cells and windows of one stream.

    Cells have independent noise of one distribution, which is correlated over steps.
    """

    # Covariances follow from variances of windows: 2 Cov(N_s, N_t) = Var N_s + Var N_t - Var(N_t -
    # N_s).

    def __init__(self, design: Design, keys: Sequence[tuple[int, int, int]]) -> None:
        self._design = design
        strategy = design.strategy
        ends = sorted({end for start, stop, *_ in keys for end in (start, stop)} - {0})
        index_of = {end: number for number, end in enumerate(ends)}
        cells = {cell: number for number, cell in enumerate(sorted({key[2] for key in keys}))}
        self._rows = np.array([cells[key[2]] for key in keys], np.int64)
        self._starts = np.array([index_of.get(key[0], -1) for key in keys], np.int64)
        self._stops = np.array([index_of.get(key[1], -1) for key in keys], np.int64)
        self._shape = len(cells), len(ends)
        all_ends = self._ends = np.array(ends, dtype=np.int64)
        self._rounding = np.zeros(len(all_ends))
        if len(all_ends):
            self._rounding = window_rounding(strategy, np.zeros_like(all_ends), all_ends)
        bits = 2.0**-strategy.facts.lattice_bits
        self._full = float(strategy.largest_reads(all_ends).max()) * bits if len(all_ends) else 0.0
        self._node = design.distribution.std  # std of a node read at weight 1, in lattice cells
        self._coarse = 1.0 if design.distribution.variance < 400 else 0.5

    @cached_property
    def _covariance(self) -> NDArray[np.float64]:
        """Covariances of a cell's noise between the steps at which windows start or stop."""
        ends = self._ends
        distribution = self._design.distribution
        strategy = self._design.strategy
        if not len(ends):
            return np.zeros((0, 0))
        first = np.minimum(ends[:, None], ends[None, :])
        last = np.maximum(ends[:, None], ends[None, :])
        apart = noise_variance(strategy, distribution, last.ravel(), since=first.ravel())
        alone = np.asarray(noise_variance(strategy, distribution, ends, since=np.zeros_like(ends)))
        return np.asarray((alone[:, None] + alone[None, :] - apart.reshape(first.shape)) / 2)

    def _at_ends(self, weights: Floats) -> NDArray[np.float64]:
        """Convert weights of windows to weights of running totals: shape ``(cells, steps)``."""
        sums = np.zeros(self._shape)
        for ends, sign in ((self._stops, 1.0), (self._starts, -1.0)):
            some = ends >= 0
            np.add.at(sums, (self._rows[some], ends[some]), sign * weights[some])
        return sums

    def _deviation(self, end_weights: NDArray[np.float64]) -> float:
        if len(self._ends) > _MOST_PAIRED_ENDS:  # of many there would be too many pairs
            distribution = self._design.distribution
            strategy = self._design.strategy
            variances = [
                sum_noise_variance(strategy, distribution, self._ends, row) for row in end_weights
            ]
            if None not in variances:
                return math.sqrt(max(math.fsum(np.array(variances, np.float64)), 0.0))
        return math.sqrt(max(float(np.sum((end_weights @ self._covariance) * end_weights)), 0.0))

    def std(self, weights: Floats) -> float:
        return float(self._design.errors.in_data_units(self._deviation(self._at_ends(weights))))

    def half(self, weights: Floats, confidence_level: float, *, full: bool = False) -> float:
        """Return the half-width of a weighted sum's interval in data units, as in
        `_JointNoise.half`."""
        # This is the larger of two quantiles: that of a normal distribution, and that of equal
        # nodes which together have the variance, each with the largest weight of any node.
        if not weights.any():
            return 0.0
        end_weights = self._at_ends(weights)
        magnitudes = np.abs(weights)
        std = self._deviation(end_weights)
        magnitudes_by_cell = np.bincount(self._rows, magnitudes, self._shape[0])
        largest = self._full * float(magnitudes_by_cell.max())
        jump = self._full * float(magnitudes.max())
        if not std and not largest:
            return 0.0
        nodes = 1
        if not full and largest and self._node:
            nodes = max(int(std**2 / (largest * self._node) ** 2 * (1 + 1e-9)), 1)
        node_quantile = 0.0
        if self._node:
            halfwidth = interval_halfwidth(self._design.distribution, nodes, confidence_level)
            node_quantile = halfwidth / (math.sqrt(nodes) * self._node)
        quantile = max(NormalDist().inv_cdf((1 + confidence_level) / 2), node_quantile)
        # the largest rounding error of a weighted sum, in multiples of the resolution
        cell = 2.0**-self._design.strategy.facts.fraction_bits
        rounding = float((np.abs(end_weights) * self._rounding).sum()) * cell
        half = quantile * std + self._coarse * jump + rounding
        return float(self._design.errors.in_data_units(half))


class StreamParts(NamedTuple):
    """The weights of several formulas on the running totals of one stream.

    ``weights`` are those of totals at ``ends``: shape ``(formulas, cells, ends)``.
    """

    design: Design
    cells: NDArray[np.int64]
    ends: NDArray[np.int64]
    weights: NDArray[np.float64]


def parts_of(formulas: Sequence[Formula]) -> tuple[list[StreamParts], NDArray[np.float64]]:
    """Return the weights of formulas on totals by stream, and their largest rounding errors.

    Formulas must be sums of cells, without quotients.
    """
    if not all(formula.linear for formula in formulas):
        raise InvalidInputError(
            "a formula with products or quotients is not a sum of cells: use only sums and "
            "differences"
        )
    streams: list[tuple[Design, list[tuple[int, int, int, float]]]] = []
    grain = np.zeros(len(formulas))
    for number, formula in enumerate(formulas):
        for cell_sum, weight in formula.sums:
            grain[number] += abs(weight) * cell_sum.grain
            if (index := _stream_index(streams, cell_sum.design)) == len(streams):
                streams.append((cell_sum.design, []))
            for part in cell_sum.parts:
                contribution = weight * part.weight
                streams[index][1].append((number, part.cell, part.stop, contribution))
                streams[index][1].append((number, part.cell, part.start, -contribution))
    streams_parts = []
    for design, rows in streams:
        rows = [row for row in rows if row[2]]  # the total of step 0 is 0
        cells, ends = (
            np.unique([row[column] for row in rows]).astype(np.int64) for column in (1, 2)
        )
        weights = np.zeros((len(formulas), len(cells), len(ends)))
        for number, cell, end, contribution in rows:
            indices = np.searchsorted(cells, cell), np.searchsorted(ends, end)
            weights[number, *indices] += contribution
        streams_parts.append(StreamParts(design, cells, ends, weights))
    return streams_parts, grain

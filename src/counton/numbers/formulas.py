"""How a number that is read was computed from released cells, so that its error follows.

A statistic says of what it reads which `Formula` it is: sums of cells with weights, quotients of
two such sums (a mean), products of two quotients (in a variance). Formulas are added and subtracted
across groups, windows and streams, and keep the noise that they share: an interval comes from the
joint law of all cells at all steps. What is no formula, as a quantile, gives a set of its own that
holds at any level (`Estimate`); ends of two such sets are combined, each at half the error.

The interval of one quotient, or of one formula over another, is Fieller's (1954): all numbers r for
which A - r B may be 0 by its own interval. Nothing in it is an approximation. A sum of several
quotients is off by what each is off, (N_A - q N_B) / B with the true quotient q, the errors N_A and
N_B and the released divisor B: to first order that is the noise of one sum of cells, whose law is
known. What is left open, true quotients and divisors, is covered as for moments: the half-width is
divided by 1 - (half-width of B) / B, of the divisor of which that is least; and what products of
two errors can come to is added. Where a divisor may be 0, they are unbounded.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Floats
from counton.base.errors import InvalidInput
from counton.numbers.design import Design
from counton.numbers.intervals import check_level, interval_halfwidth
from counton.strategies import noise_variance
from counton.strategies.joint_errors import sum_noise_variance
from counton.strategies.strategy import largest_reads, window_rounding

#: Ends of windows whose joint noise is computed pair by pair.
_FEW_ENDS = 32
#: Steps towards an end of an interval, and where they stop: so close to it, and outside.
_TURNS, _CLOSE = 200, 2.0**-20


class Term(NamedTuple):
    """What happened in one cell in the steps start + 1 .. stop, this many times.

    Attributes:
        weight: how many times.
        start, stop: the step before the first, and the last.
        cell: which; below 0 where only its noise matters, as of others that enter alike.
        alike: of so many cells.

    >>> Term(-1.0, 0, 7, 2).cell
    2
    """

    weight: float
    start: int
    stop: int
    cell: int
    alike: int = 1


class Estimate(ABC):
    """A number that is read from what was released.

    Attributes:
        least, most: between which values the truth lies in any case.
    """

    least: float = -math.inf
    most: float = math.inf

    @property
    @abstractmethod
    def value(self) -> float:
        """The estimate."""

    @property
    @abstractmethod
    def std(self) -> float:
        """Standard deviation of its noise, to first order; NaN where it has none."""

    @abstractmethod
    def interval(self, level: float) -> tuple[float, float]:
        """Ends that hold the truth with this probability, at least."""

    @property
    def formula(self) -> Formula | None:
        """The same as a function of released cells, to be added to others; None: it is none."""
        return None

    def _clip(self, low: float, high: float) -> tuple[float, float]:
        """Ends, within what is possible."""
        return min(max(low, self.least), self.most), max(min(high, self.most), self.least)


@dataclass(frozen=True, eq=False)
class CellSum:
    """A sum of released cells.

    Attributes:
        value: as it is published, in data units.
        design: of the stream.
        parts: what is added up.
        grain: by how much the published value may be rounded besides.
    """

    value: float
    design: Design
    parts: tuple[Term, ...]
    grain: float = 0.0


@dataclass(frozen=True, eq=False)
class Quotient:
    """One sum over another."""

    above: Formula
    below: Formula


@dataclass(frozen=True, eq=False)
class Formula(Estimate):
    """Sums of cells, quotients of such sums and products of two quotients, each with a weight.

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
    def of(cls, one: CellSum) -> Formula:
        return cls(sums=((one, 1.0),))

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
        """The same, also where it is not possible."""
        terms = [self.constant]
        terms += [weight * one.value for one, weight in self.sums]
        terms += [weight * _over(one) for one, weight in self.quotients]
        terms += [weight * _over(one) * _over(other) for one, other, weight in self.products]
        return math.fsum(terms) if all(map(math.isfinite, terms)) else math.nan

    @property
    @override
    def std(self) -> float:
        found = _Law([self]).first_order(self)
        return math.inf if found is None else found

    @override
    def interval(self, level: float) -> tuple[float, float]:
        if (one := self._one_quotient()) is not None:
            return self._clip(*one.interval(level))
        return self.around(self.half(level))

    def half(self, level: float) -> float:
        """Half-width of the interval, infinite where a divisor may be 0."""
        return _Law([self]).half(self, check_level(level))

    def around(self, half: float) -> tuple[float, float]:
        """Ends of the interval of this half-width, within what is possible."""
        if not math.isfinite(half):
            return self.least, self.most
        return self._clip(self.raw - half, self.raw + half)

    def _one_quotient(self) -> Ratio | None:
        """The same as one sum of cells over another, where it is one."""
        if len(self.quotients) != 1 or self.sums or self.products:
            return None
        ((one, weight),) = self.quotients
        return Ratio(one.above, one.below, weight, self.constant) if weight else None

    def within(self, least: float, most: float) -> Formula:
        """The same, known to lie between two values."""
        return replace(self, least=least, most=most)

    def __add__(self, other: Formula | float) -> Formula:
        if not isinstance(other, Formula):
            other = Formula(float(other), least=float(other), most=float(other))
        return Formula.total([self, other])

    def __mul__(self, by: float) -> Formula:
        if not math.isfinite(by):
            raise InvalidInput(f"a weight is {by}; give finite numbers")
        ends = sorted((self.least * by, self.most * by)) if by else [0.0, 0.0]
        return Formula(
            self.constant * by,
            tuple((one, weight * by) for one, weight in self.sums),
            tuple((one, weight * by) for one, weight in self.quotients),
            tuple((one, other, weight * by) for one, other, weight in self.products),
            *ends,
        )

    def __neg__(self) -> Formula:
        return self * -1.0

    def __sub__(self, other: Formula | float) -> Formula:
        return self + (-other)

    def __truediv__(self, by: float) -> Formula:
        return self * (1 / by)

    @classmethod
    def total(cls, numbers: Sequence[Formula]) -> Formula:
        """Many added up.

        >>> Formula.total([Formula(2.0), Formula(1.0)]).value
        3.0
        """
        return cls(
            sum(one.constant for one in numbers),
            tuple(chain.from_iterable(one.sums for one in numbers)),
            tuple(chain.from_iterable(one.quotients for one in numbers)),
            tuple(chain.from_iterable(one.products for one in numbers)),
            sum(one.least for one in numbers),
            sum(one.most for one in numbers),
        )


def quotient(above: Formula, below: Formula) -> Formula:
    """One sum of cells over another; see also `product`."""
    return Formula(quotients=((Quotient(above, below), 1.0),))


def product(one: Formula, other: Formula) -> Formula:
    """Of two quotients alone."""
    ((first, weight),), ((second, other_weight),) = one.quotients, other.quotients
    return Formula(products=((first, second, weight * other_weight),))


@dataclass(frozen=True, eq=False)
class Ratio(Estimate):
    """One formula over another.

    The interval holds all r for which above - r below, a formula, may be 0 by its own interval
    (Fieller 1954): it needs no approximation, and is unbounded where the divisor may be 0.

    Attributes:
        above, below: the formulas.
        scale, moved: it is ``scale`` times the ratio, and ``moved`` more.
    """

    above: Formula
    below: Formula
    scale: float = 1.0
    moved: float = 0.0
    least: float = -math.inf
    most: float = math.inf

    @property
    @override
    def value(self) -> float:
        x, y = self.above.value, self.below.value
        return self.scale * (x / y) + self.moved if y else math.nan

    @property
    @override
    def std(self) -> float:
        x, y = self.above.value, self.below.value
        if not y or not math.isfinite(x / y):
            return math.inf
        return abs(self.scale) * (self.above - self.below * (x / y)).std / abs(y)

    @override
    def interval(self, level: float) -> tuple[float, float]:
        low, high = self._ends(check_level(level))
        ends = sorted(self.scale * end + self.moved for end in (low, high))
        return self._clip(ends[0], ends[1])

    def _ends(self, level: float) -> tuple[float, float]:
        above, below = self.above, self.below
        law = _Law([above, below])
        x, y = above.raw, below.raw
        if not y or not abs(y) > law.half(below, level, full=True) or not math.isfinite(x / y):
            return -math.inf, math.inf

        def excess(r: float) -> float:
            return abs(x - r * y) - law.half(above - below * r, level, full=True)

        middle = x / y
        first = law.first_order(above - below * middle)
        step = (math.inf if first is None else first) / abs(y)
        step = max(step, abs(middle) * 2**-40, 1e-300) if math.isfinite(step) else 1.0
        return _end(excess, middle, -1, step), _end(excess, middle, 1, step)


def shares_of(numbers: Sequence[Estimate], whole: Estimate) -> list[Estimate]:
    """Each of many numbers over the whole of which it is a part.

    Cells have independent noise of one law. So of the cells of a whole in which a number has no
    part it is enough to know how many enter alike, and time grows with the numbers, not with their
    square.
    """
    below = whole.formula
    sums = () if below is None else below.sums
    first = sums[0][0].design if sums else None
    if below is None or not below.linear or any(one.design != first for one, _ in sums):
        return [ratio_of(one, whole) for one in numbers]
    assert first is not None
    of_cell: dict[int, tuple[Term, ...]] = {}
    for each, weight in sums:
        for part in each.parts:
            own = part._replace(weight=weight * part.weight)
            of_cell[part.cell] = (*of_cell.get(part.cell, ()), own)

    def kind(cell: int) -> tuple[Term, ...]:
        return tuple(part._replace(cell=-1) for part in of_cell[cell])

    kinds, grain = Counter(map(kind, of_cell)), sum(abs(w) * one.grain for one, w in sums)

    def below_of(above: Formula) -> Formula:
        cells = {part.cell for one, _ in above.sums for part in one.parts} & of_cell.keys()
        parts = [part for cell in cells for part in of_cell[cell]]
        left = kinds - Counter(map(kind, cells))
        for number, (terms, count) in enumerate(left.items(), 1):
            parts += [part._replace(cell=-number, alike=count) for part in terms]
        found = Formula.of(CellSum(below.raw, first, tuple(parts), grain))
        return found.within(below.least, below.most)

    formulas = [one.formula for one in numbers]
    return [
        ratio_of(one, whole if above is None else below_of(above))
        for one, above in zip(numbers, formulas, strict=True)
    ]


def _end(excess: Callable[[float], float], middle: float, sign: int, step: float) -> float:
    """A number that is hardly outside, to one side; infinite where there is none."""
    inner, low, outer = 0.0, excess(middle), step
    while (high := excess(middle + sign * outer)) <= 0:
        inner, low, outer = outer, high, 2 * outer
        if outer > 1e300:
            return sign * math.inf
    for turn in range(_TURNS):
        if outer - inner <= _CLOSE * outer:
            break
        # Where a line through both ends is 0, a little to either side; now and then the middle.
        at = inner + (outer - inner) / 2
        if turn % 3 != 2 and math.isfinite(low) and math.isfinite(high):
            line = inner + low / (low - high) * (outer - inner)
            aside = (1 if turn % 3 == 0 else -1) * 0.4 * _CLOSE * outer
            at = min(max(line + aside, inner + _CLOSE * outer / 4), outer - _CLOSE * outer / 4)
        if at in (inner, outer):
            break
        if (found := excess(middle + sign * at)) > 0:
            outer, high = at, found
        else:
            inner, low = at, found
    return middle + sign * outer


@dataclass(frozen=True, eq=False)
class ClosedForm(Estimate):
    """A number whose estimate, error and interval are known without the joint law of all cells.

    Attributes:
        estimate: the number; or those of many groups, in an array.
        ends: its interval of each level.
        deviation: standard deviation of its noise; NaN where it has none.
        parts: how it follows from released cells, where it is to be added to others; None: it is no
            such function.

    >>> ClosedForm(3.0, lambda level: (2.0, 5.0)).interval(0.9)
    (2.0, 5.0)
    """

    estimate: Any
    ends: Callable[[float], tuple[Any, Any]]
    deviation: Any = math.nan
    parts: Callable[[], Formula] | None = None

    @classmethod
    def around(
        cls,
        estimate: Any,
        half: Callable[[float], Any],
        deviation: Any,
        parts: Callable[[], Formula] | None = None,
    ) -> ClosedForm:
        """A number whose interval of a level reaches equally far to both sides."""

        def ends(level: float) -> tuple[Any, Any]:
            wide = half(level)
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
    def interval(self, level: float) -> tuple[Any, Any]:
        low, high = self.ends(check_level(level))
        return _plain(low), _plain(high)

    @property
    @override
    def formula(self) -> Formula | None:
        return None if self.parts is None else self.parts()

    def over(self, count: float, least: float, most: float) -> ClosedForm:
        """This number over a known one, of which it is known between what it lies."""

        def ends(level: float) -> tuple[float, float]:
            low, high = (end / count for end in self.ends(level))
            return max(low, least), min(high, most)

        def parts() -> Formula:
            assert self.formula is not None
            return (self.formula / count).within(least, most)

        return ClosedForm(self.estimate / count, ends, self.deviation / count, parts)

    def at(self, places: Any, parts: Callable[[], Formula] | None = None) -> ClosedForm:
        """One of many numbers, or some.

        Args:
            places: which, as an index of the array of all.
            parts: how it follows from released cells.
        """
        shape = np.shape(self.estimate)

        def ends(level: float) -> tuple[Any, Any]:
            low, high = self.ends(level)
            return low[places], high[places]

        deviation = np.broadcast_to(self.deviation, shape)[places]
        return ClosedForm(self.estimate[places], ends, deviation, parts)


def join_numbers(
    numbers: Sequence[Estimate], join: Callable[[list[Any]], NDArray[Any]] | None = None
) -> ClosedForm:
    """Several numbers in one array, each by itself or many.

    Args:
        numbers: which.
        join: how values, errors or ends become one array; None: those of one after those before.

    >>> join_numbers([Formula(2.0), Formula(3.0)]).interval(0.9)[0].tolist()
    [2.0, 3.0]
    """
    values = [one.value for one in numbers]

    def below(parts: list[Any]) -> NDArray[Any]:
        each = zip(parts, values, strict=True)
        return np.concatenate([np.broadcast_to(np.ravel(one), np.size(of)) for one, of in each])

    put = below if join is None else join

    def ends(level: float) -> tuple[Any, Any]:
        pairs = [one.interval(level) for one in numbers]
        return put([low for low, _ in pairs]), put([high for _, high in pairs])

    return ClosedForm(put(values), ends, put([one.std for one in numbers]))


def _nothing(_level: float) -> dict[str, NDArray[Any]]:
    return {}


class TableNumbers(NamedTuple):
    """Numbers that stand below each other in a table, and what each of them is about.

    Attributes:
        about: columns that say it.
        numbers: all of them in one array, in the order of the rows.
        called: the column of the values: ``"estimate"``, or ``"value"`` of such as have no standard
            deviation, so no column ``"std"``.
        beside: other columns, which may depend on the level.

    >>> both = join_numbers([Formula(2.0), Formula(3.0)])
    >>> two = TableNumbers({"name": np.array(["a", "b"])}, both)
    >>> {name: column.tolist() for name, column in two.columns(0.9).items()}["upper"]
    [2.0, 3.0]
    """

    about: Mapping[str, NDArray[Any]]
    numbers: ClosedForm
    called: str = "estimate"
    beside: Callable[[float], Mapping[str, NDArray[Any]]] = _nothing

    def columns(self, level: float) -> dict[str, NDArray[Any]]:
        """All columns of the table, with intervals of this level."""
        low, high = self.numbers.interval(level)
        value = self.numbers.estimate
        found = {**self.about, self.called: value}
        if self.called == "estimate":
            std = self.numbers.std
            found["std"] = std if np.ndim(std) else np.full(value.shape, std)
        return {**found, "lower": low, "upper": high, **self.beside(level)}

    def rows(self, places: NDArray[np.int64]) -> TableNumbers:
        """Some of the rows."""
        about = {name: values[places] for name, values in self.about.items()}

        def beside(level: float) -> dict[str, NDArray[Any]]:
            return {name: values[places] for name, values in self.beside(level).items()}

        return TableNumbers(about, self.numbers.at(places), self.called, beside)

    @classmethod
    def below(
        cls, parts: Sequence[TableNumbers], about: Mapping[str, NDArray[Any]]
    ) -> TableNumbers:
        """Tables below each other.

        Args:
            parts: one at least, all of the same columns but what rows are about.
            about: what the rows of all of them are about.
        """

        def beside(level: float) -> dict[str, NDArray[Any]]:
            found = [part.beside(level) for part in parts]
            return {name: np.concatenate([one[name] for one in found]) for name in found[0]}

        return cls(about, join_numbers([part.numbers for part in parts]), parts[0].called, beside)

    @classmethod
    def of_groups(cls, parts: Mapping[str, TableNumbers]) -> TableNumbers:
        """Tables of groups below each other, with the names of these in front."""
        each = [*parts.values()]
        rows = [np.size(part.numbers.value) for part in each]
        about = {"group": np.repeat(np.array([*parts]), rows)}
        names = each[0].about
        about |= {name: np.concatenate([part.about[name] for part in each]) for name in names}
        return cls.below(each, about)


def _plain(number: Any) -> Any:
    """A number of Python, or an array of several."""
    return (
        number.item() if isinstance(number, np.ndarray | np.generic) and not number.ndim else number
    )


@dataclass(frozen=True, eq=False)
class OfTwo(Estimate):
    """The difference, or the ratio, of two numbers at least one of which is no formula.

    Each is held with half of the error that is allowed, so both are (Bonferroni).

    Attributes:
        one, other: the numbers.
        over: whether it is their ratio.
    """

    one: Estimate
    other: Estimate
    over: bool = False
    scale: float = 1.0
    moved: float = 0.0

    @property
    @override
    def value(self) -> float:
        one, other = self.one.value, self.other.value
        if not self.over:
            return one - other
        return self.scale * (one / other) + self.moved if other else math.nan

    @property
    @override
    def std(self) -> float:
        return math.nan

    @override
    def interval(self, level: float) -> tuple[float, float]:
        each = 1 - (1 - check_level(level)) / 2
        (low, high), (least, most) = self.one.interval(each), self.other.interval(each)
        if not self.over:
            return low - most, high - least
        if least <= 0 <= most:
            return -math.inf, math.inf
        ends = [self.scale * (a / b) + self.moved for a in (low, high) for b in (least, most)]
        known = [end for end in ends if not math.isnan(end)]
        return (min(known), max(known)) if len(known) == 4 else (-math.inf, math.inf)


def difference(one: Estimate, other: Estimate) -> Estimate:
    """One number less another."""
    if (first := one.formula) is not None and (second := other.formula) is not None:
        return first - second
    return OfTwo(one, other)


def ratio_of(one: Estimate, other: Estimate, scale: float = 1.0, moved: float = 0.0) -> Estimate:
    """``scale`` times one number over another, and ``moved`` more."""
    if (above := one.formula) is not None and (below := other.formula) is not None:
        return Ratio(above, below, scale, moved)
    return OfTwo(one, other, True, scale, moved)


def _over(one: Quotient) -> float:
    below = one.below.raw
    return one.above.raw / below if below else math.nan


class _Law:
    """The joint noise of formulas: of all cells at all steps of all their streams."""

    def __init__(self, formulas: Sequence[Formula]) -> None:
        streams: list[tuple[Design, dict[tuple[int, int, int, int], int]]] = []
        for one in _sums(formulas):
            place = _place(streams, one.design)
            if place == len(streams):
                streams.append((one.design, {}))
            keys = streams[place][1]
            for part in one.parts:
                keys.setdefault(part[1:], len(keys))
        self._noises = [_Noise(terms, list(keys)) for terms, keys in streams]
        self._streams = streams

    def _vectors(self, one: Formula) -> tuple[list[Floats], float]:
        """Weights of the parts of each stream in a sum of cells, and what is rounded."""
        found = [np.zeros(len(keys)) for _, keys in self._streams]
        grain = 0.0
        for each, weight in one.sums:
            place = _place(self._streams, each.design)
            keys, grain = self._streams[place][1], grain + abs(weight) * each.grain
            for part in each.parts:
                if not math.isfinite(part.weight):
                    raise InvalidInput(f"a weight is {part.weight}; give finite numbers")
                found[place][keys[part[1:]]] += weight * part.weight
        return found, grain

    def _half(self, vectors: Sequence[Floats], level: float, full: bool) -> float:
        """Half-width of a sum of cells; streams are independent.

        The root of the sum of squares covers tails that grow no heavier when they are added up.
        """
        return math.hypot(
            *(n.half(v, level, full=full) for n, v in zip(self._noises, vectors, strict=True))
        )

    def first_order(self, one: Formula) -> float | None:
        """Standard deviation to first order; None where there is none."""
        vectors, _ = self._vectors(one)
        reads = self._read(one)
        if reads is None:
            return None
        vectors = _with_quotients(vectors, reads)
        return math.hypot(*(n.std(v) for n, v in zip(self._noises, vectors, strict=True)))

    def _read(self, one: Formula) -> dict[Quotient, _Read] | None:
        """Each different quotient, with its weight to first order; None where a divisor is 0."""
        found: dict[Quotient, _Read] = {}

        def of(each: Quotient) -> _Read:
            if each not in found:
                above, grain = self._vectors(each.above)
                below, rounded = self._vectors(each.below)
                share, divisor = _over(each), each.below.raw
                off = [a - share * b for a, b in zip(above, below, strict=True)]
                found[each] = _Read(share, divisor, off, below, grain, rounded)
            return found[each]

        for each, weight in one.quotients:
            of(each).weight += weight
        for first, second, weight in one.products:
            a, b = of(first), of(second)
            a.weight += weight * b.share
            b.weight += weight * a.share
        return found if all(math.isfinite(each.share) for each in found.values()) else None

    def half(self, one: Formula, level: float, *, full: bool = False) -> float:
        """Half-width of the interval, infinite where a divisor may be 0.

        Args:
            full: as if a single node had all of the variance, whose tails are the heaviest, so that
                the half-width is a norm of the weights.
        """
        linear, grain = self._vectors(one)
        if one.linear:
            return self._half(linear, level, full) + grain
        reads = self._read(one)
        if reads is None:
            return math.inf
        widest, more = 1.0, grain
        for each in reads.values():
            size = abs(each.divisor)
            moved = self._half(each.below, level, True) + each.rounded
            if not size > moved:
                return math.inf
            over = 1 / (1 - moved / size)
            widest = max(widest, over)
            rounded = (each.grain + abs(each.share) * each.rounded) * over / size
            each.reach = self._half(each.off, level, True) * over / size + rounded
            more += abs(each.weight) * rounded
        for first, second, weight in one.products:
            more += abs(weight) * reads[first].reach * reads[second].reach
        return self._half(_with_quotients(linear, reads), level, full) * widest + more


@dataclass(eq=False)
class _Read:
    """A quotient as it was released.

    Attributes:
        share, divisor: quotient and divisor.
        off: weights of the parts in above - share * below, whose noise is its error.
        below: weights of the parts of the divisor.
        grain, rounded: by how much both are rounded besides.
        weight: with which it counts, to first order.
        reach: by how much the quotient may be off.
    """

    share: float
    divisor: float
    off: list[Floats]
    below: list[Floats]
    grain: float
    rounded: float
    weight: float = 0.0
    reach: float = 0.0


def _with_quotients(linear: Sequence[Floats], reads: Mapping[Quotient, _Read]) -> list[Floats]:
    """Weights of parts, with those that quotients have to first order."""
    vectors = list(linear)
    for each in reads.values():
        for place, off in enumerate(each.off):
            vectors[place] = vectors[place] + each.weight * off / each.divisor
    return vectors


def _place(streams: Sequence[tuple[Design, object]], terms: Design) -> int:
    """Which of some streams has the noise of these terms; how many they are, if none has.

    Of one stream are the parts of a report, whose cells are in other units. Where nobody knows
    whose noise it is, as of a plan, there is one stream of the same terms.
    """
    for place, (known, _) in enumerate(streams):
        if known is terms or known == terms:
            return place
        same = known.noise_id is not None and known.noise_id == terms.noise_id
        if same and known.resolution == terms.resolution:
            return place
    return len(streams)


def _sums(formulas: Sequence[Formula]) -> Iterable[CellSum]:
    for one in formulas:
        yield from (each for each, _ in one.sums)
        for each, _ in one.quotients:
            yield from _sums([each.above, each.below])
        for first, second, _ in one.products:
            yield from _sums([first.above, first.below, second.above, second.below])


class _Noise:
    """Noise of sums of parts of one stream, with any weights.

    Cells have independent noise of one law. Noise of one cell at several steps is correlated, and
    its covariances follow from variances of windows: 2 Cov(N_s, N_t) = Var N_s + Var N_t -
    Var(N_t - N_s).
    """

    def __init__(self, terms: Design, keys: Sequence[tuple[int, int, int, int]]) -> None:
        self._design = terms
        strategy = terms.strategy
        ends = sorted({end for start, stop, *_ in keys for end in (start, stop)} - {0})
        place = {end: number for number, end in enumerate(ends)}
        cells = {cell: number for number, cell in enumerate(sorted({key[2] for key in keys}))}
        self._rows = np.array([cells[key[2]] for key in keys], np.int64)
        self._starts = np.array([place.get(key[0], -1) for key in keys], np.int64)
        self._stops = np.array([place.get(key[1], -1) for key in keys], np.int64)
        self._alike = np.ones((len(cells), 1))
        self._alike[self._rows, 0] = [key[3] for key in keys]
        self._shape = len(cells), len(ends)
        at = self._ends = np.array(ends, dtype=np.int64)
        self._rounding = np.zeros(len(at))
        if len(at):
            self._rounding = window_rounding(strategy, np.zeros_like(at), at)
        bits = 2.0**-strategy.facts.lattice_bits
        self._full = float(largest_reads(strategy, at).max()) * bits if len(at) else 0.0
        self._node = terms.law.std  # of a node read at weight 1, in lattice cells
        self._coarse = 1.0 if terms.law.variance < 400 else 0.5

    @cached_property
    def _covariance(self) -> NDArray[np.float64]:
        """Of the noise of one cell at all ends."""
        at, law, strategy = self._ends, self._design.law, self._design.strategy
        if not len(at):
            return np.zeros((0, 0))
        first = np.minimum(at[:, None], at[None, :])
        last = np.maximum(at[:, None], at[None, :])
        apart = noise_variance(strategy, law, last.ravel(), since=first.ravel())
        alone = np.asarray(noise_variance(strategy, law, at, since=np.zeros_like(at)))
        return np.asarray((alone[:, None] + alone[None, :] - apart.reshape(first.shape)) / 2)

    def _at_ends(self, weights: Floats) -> NDArray[np.float64]:
        """Weights of totals by cell and end."""
        found = np.zeros(self._shape)
        for ends, sign in ((self._stops, 1.0), (self._starts, -1.0)):
            some = ends >= 0
            np.add.at(found, (self._rows[some], ends[some]), sign * weights[some])
        return found

    def _deviation(self, at: NDArray[np.float64]) -> float:
        if len(self._ends) > _FEW_ENDS:  # of many there would be too many pairs
            law, strategy = self._design.law, self._design.strategy
            found = [sum_noise_variance(strategy, law, self._ends, row) for row in at]
            if None not in found:
                each = np.array(found, np.float64) * self._alike[:, 0]
                return math.sqrt(max(math.fsum(each.tolist()), 0.0))
        return math.sqrt(max(float(np.sum((at @ self._covariance) * at * self._alike)), 0.0))

    def std(self, weights: Floats) -> float:
        return float(self._design.in_data_units(self._deviation(self._at_ends(weights))))

    def half(self, weights: Floats, level: float, *, full: bool = False) -> float:
        """Half-width of the interval, in data units.

        As `counton.numbers.window_halfwidths` of fractional weights: the larger of a normal
        law's quantile and that of as many equal nodes as have the variance where each has the
        largest weight that any can have.

        Args:
            full: as if a single node had all of the variance, whose tails are the heaviest, so
                that the half-width is a norm of the weights.
        """
        if not weights.any():
            return 0.0
        at, magnitudes = self._at_ends(weights), np.abs(weights)
        std = self._deviation(at)
        by_cell = np.bincount(self._rows, magnitudes, self._shape[0])
        largest = self._full * float(by_cell.max())
        jump = self._full * float(magnitudes.max())
        if not std and not largest:
            return 0.0
        nodes = 1
        if not full and largest and self._node:
            nodes = max(int(std**2 / (largest * self._node) ** 2 * (1 + 1e-9)), 1)
        heavy = 0.0
        if self._node:
            heavy = interval_halfwidth(self._design.law, nodes, level) / (
                math.sqrt(nodes) * self._node
            )
        quantile = max(NormalDist().inv_cdf((1 + level) / 2), heavy)
        cell = 2.0**-self._design.strategy.facts.fraction_bits
        rounding = float((np.abs(at) * self._rounding * self._alike).sum()) * cell
        return float(self._design.in_data_units(quantile * std + self._coarse * jump + rounding))


class StreamParts(NamedTuple):
    """What formulas add up of one stream.

    Attributes:
        design: of the stream.
        cells: which of its cells.
        ends: steps up to which they are totals.
        weights: of these totals, shape ``(formulas, cells, ends)``.
    """

    design: Design
    cells: NDArray[np.int64]
    ends: NDArray[np.int64]
    weights: NDArray[np.float64]


def parts_of(formulas: Sequence[Formula]) -> tuple[list[StreamParts], NDArray[np.float64]]:
    """What formulas add up, stream by stream, and by how much each is rounded besides."""
    if not all(one.linear for one in formulas):
        raise InvalidInput("a formula is no sum of cells: give sums and differences alone")
    streams: list[tuple[Design, list[tuple[int, int, int, float]]]] = []
    grain = np.zeros(len(formulas))
    for number, formula in enumerate(formulas):
        for one, weight in formula.sums:
            grain[number] += abs(weight) * one.grain
            if (place := _place(streams, one.design)) == len(streams):
                streams.append((one.design, []))
            for part in one.parts:
                each = weight * part.weight
                streams[place][1].append((number, part.cell, part.stop, each))
                streams[place][1].append((number, part.cell, part.start, -each))
    found = []
    for terms, rows in streams:
        rows = [row for row in rows if row[2]]  # nothing has happened after step 0
        cells, ends = (np.unique([row[at] for row in rows]).astype(np.int64) for at in (1, 2))
        weights = np.zeros((len(formulas), len(cells), len(ends)))
        for number, cell, end, each in rows:
            at = np.searchsorted(cells, cell), np.searchsorted(ends, end)
            weights[number, *at] += each
        found.append(StreamParts(terms, cells, ends, weights))
    return found, grain

"""Several statistics of the same rows under one guarantee: a report.

A row is one event for all of them together: its user's bound, its id and its window count once. So
the cells of all statistics stand beside each other as those of one, each multiplied by a whole
number w_k, and are measured with noise of one law. With D1_k and D2_k for what one unit changes in
the cells of statistic k at most, it changes those of the report by

    sum_k w_k D1_k  in the 1-norm,  and  (sum_k (w_k D2_k)^2)^(1/2)  in the 2-norm,

since no cell belongs to two statistics. The weights say how the budget is shared
(`counton.plans.splits`): by what is wanted of some statistics at the last step, and of what is left
by shares.

What follows from the cells of another statistic is not measured again: how many rows there are from
any statistic that counts them, a sum or an average from an average or moments of the same column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Floats, Integers
from counton.columns import MISSING, OUTSIDE
from counton.errors import InvalidInput, SumOverflow, field
from counton.exact import check_integer, exact, figures, quoted
from counton.laws import Bounded
from counton.mechanisms import Release
from counton.mechanisms.formulas import Asked
from counton.mechanisms.tables import LARGEST_MEASUREMENT
from counton.mechanisms.terms import StreamTerms
from counton.options import Option, OwnColumns, Statement, check_value, listed
from counton.privacy import Contribution, Guarantee, value_grid
from counton.privacy.contribution import checked_unit
from counton.statistics.base import Drawing, ErrorOf, Events, Statistic
from counton.statistics.known import statistic_from_dict, statistic_named
from counton.statistics.readings import Reading, halfwidth
from counton.statistics.tallied import Part, Tallied, X

if TYPE_CHECKING:
    from counton.plans.splits import Noise, Split

#: Columns of a reading that are numbers, and not what a row is about.
_NUMBERS = ("estimate", "std", "lower", "upper")
#: What a report says of each of its statistics besides the statistic's own options.
WITHIN, SHARE, ROWS_PLANNED = "within", "share", "rows"
#: Rows say one integer, which has to hold what they say to every statistic.
_MOST_SAID = 2**62
_MOST_STATISTICS = 64
#: Of several numbers of a statistic the first of these is drawn, else the first that it has.
_SHOWN_FIRST, _WORDS = ("mean", "0.5"), {"0.5": "median"}
#: Of so many statistics it is tried whether they are better measured apart.
_MOST_TRIED = 4


@dataclass(frozen=True, kw_only=True)
class PartTerms(StreamTerms):
    """The terms of a report as those of one of its statistics, whose cells are not multiplied.

    Attributes:
        one: what one unit of its exact sums is, in data units, over the weight of its cells.
        weight: by which its cells are multiplied.
    """

    one: Fraction
    weight: int = 1

    @classmethod
    def of(
        cls, terms: StreamTerms, statistic: Tallied, weight: int, shape: tuple[int, ...]
    ) -> PartTerms:
        """Those of a statistic."""
        kept = {item.name: getattr(terms, item.name) for item in fields(StreamTerms)}
        own = statistic.contribution(batched=True).resolution
        unit = (Fraction(1) if own is None else own) / weight
        return cls(
            **{**kept, "shape": shape, "statistic": statistic.to_dict()}, one=unit, weight=weight
        )

    def of_exact(self, cells: NDArray[np.int64]) -> Any:
        """See `StreamTerms.of_exact`: of cells that are not multiplied."""
        return np.asarray(cells, np.float64) * float(self.one * self.weight)

    @property
    def whole(self) -> bool:
        """See `StreamTerms.whole`."""
        return False

    @property
    def resolution(self) -> Fraction:
        """See `StreamTerms.resolution`."""
        return self.one


class Report(Tallied):
    """Several statistics of the same rows, under one guarantee and one bound on people.

    An event is a mapping from columns to what they hold, or a sequence in the order of
    ``column_names``. A row that one of the statistics cannot place is refused, or by a job that
    drops such rows counted in none.

    Args:
        statistics: by name, or pairs of a name and what `Statistic.to_dict` says.
        columns: of each statistic the columns that it reads, in its order; one without is read from
            columns that are called as it calls its parts.
        within: of some statistics, how far off the end of a 95% interval may be at the last step.
        shares: of the others, how what is left is shared: 1 unless stated.
        rows: how many rows there will be at the last step, about, where that is public: an average
            can be asked to be ``within`` something only then.
        most: how many rows of a person count; a job says so by itself.
        weights: by what the cells of each are multiplied: found by `settled` unless stated.
        apart: statistics that are measured although they follow from another one.
        unit: what one protected unit is called.

    Raises:
        InvalidInput: no statistics, one whose rows count in order or whose unit is no row that is
            added or removed, columns that do not fit, or rows that say more than 62 bits.

    >>> from counton import Key, PureDP
    >>> from counton.statistics import Average, Count
    >>> daily = Report(
    ...     {"visits": Count(), "paid": Average(0, 100, resolution=1)}, columns={"paid": "paid"}
    ... )
    >>> counter = daily.counter(30, PureDP(1), key=Key.generate(), name="daily", batched=True)
    >>> day = counter.release_batch([{"paid": 20}, {"paid": 70}] * 500)
    >>> low, high = day.of("paid").interval("mean", 1 - 1e-9)
    >>> low <= 45 <= high, list(day.table_columns())
    (True, ['statistic', 'name', 'estimate', 'std', 'lower', 'upper'])
    """

    keyword = stream = "report"
    says = "Several statistics of the same rows, under one guarantee and one bound on people."
    phrase = "report of {statistics}"
    also_called = ("several", "dashboard")
    drawing = Drawing("Running report", "", panels=True, from_zero=False, cells="name")
    event = "row"
    shows = ("over",)
    options = (
        Option(
            "statistics",
            "the statistics by name, each with its options; in a command a file: TOML or JSON",
            by_name=True, nested=True, needed=True,
        ),
        Option("rows", "how many rows there will be, about, where that is public", "whole"),
    )  # fmt: skip

    def __init__(
        self,
        statistics: Mapping[str, Statistic | Mapping[str, Any]] | Sequence[Any],
        *,
        columns: Mapping[str, str | Sequence[str]] | None = None,
        within: Mapping[str, float] | None = None,
        shares: Mapping[str, float] | None = None,
        rows: int | None = None,
        most: int = 1,
        weights: Mapping[str, int] | None = None,
        apart: Sequence[str] = (),
        unit: str | None = None,
    ) -> None:
        given: Any = statistics
        pairs = [*given.items()] if isinstance(given, Mapping) else given
        if not isinstance(pairs, list | tuple) or not all(map(_is_pair, pairs)):
            raise InvalidInput(
                "the statistics of a report are no statistics by name: give a mapping, as in "
                "{'visits': Count()}"
            )
        if not 1 <= len(pairs) <= _MOST_STATISTICS:
            raise InvalidInput(
                f"a report has {len(pairs)} statistics; give 1 to {_MOST_STATISTICS} by name"
            )
        self._statistics: dict[str, Tallied] = {}
        for name, one in pairs:
            self._statistics[_name(name)] = _fitting(name, one)
        if len(self.statistics) < len(pairs):
            raise InvalidInput("two statistics of a report have one name; give each its own")
        for name in apart:
            self.statistic(name)
        self.apart = tuple(apart)
        self.columns = self._columns(columns or {})
        self.column_names, self.parts = self._parts()
        if not self.parts:
            raise InvalidInput(
                "no statistic of the report reads a column: how many rows there are is a "
                "statistic by itself, count"
            )
        named = [source for one in self.statistics.values() for source in one.sources]
        self.sources = tuple(dict.fromkeys(named))
        if any(one.known_beforehand is not None for one in self.statistics.values()):
            self.known_beforehand = ()
        self.within = _by_name("within", within, self.statistics)
        self.shares = _by_name("share", shares, self.statistics)
        self.rows = None if rows is None else check_integer("rows", rows, 1)
        self.most = check_integer("most", most, 1, 2**20)
        self.unit = checked_unit("event" if unit is None else unit)
        self._stated = unit is not None
        self.weights = None if weights is None else _whole(weights, self.measured_ones)
        self._bounds = [one.said_bounds() for one in self.statistics.values()]
        sizes = [high - low + 1 for low, high in self._bounds]
        if math.prod(sizes) >= _MOST_SAID or math.prod(map(len, self.spans)) >= _MOST_SAID // 2**20:
            raise InvalidInput(
                "a row of the report says more than fits into 62 bits: take a coarser resolution, "
                "fewer cells, or two reports"
            )

    # What it is made of.

    @classmethod
    def from_job(cls, stated: Statement) -> Statistic:
        """See `Statistic.from_job`."""
        (given,) = stated.needed("statistics")
        statistics, columns = {}, {}
        wanted: dict[str, dict[str, Any]] = {WITHIN: {}, SHARE: {}}
        for name, own in _tables(given).items():
            kind, inner = _stated_part(stated, name, own)
            if not issubclass(kind, Tallied):
                raise _unfit(name, kind.keyword)
            statistics[name] = kind.from_job(inner)
            columns[name] = kind.columns_of_job(inner).names
            for key, found in wanted.items():
                if own.get(key) is not None:
                    found[name] = own[key]
        return cls(
            statistics,
            columns=columns,
            within=wanted[WITHIN],
            shares=wanted[SHARE],
            **stated.only("rows"),
        )

    @classmethod
    def columns_of_job(cls, stated: Statement) -> OwnColumns:
        """See `Statistic.columns_of_job`."""
        found = cls.from_job(stated).own_columns
        assert found is not None
        return found

    @property
    def statistics(self) -> Mapping[str, Tallied]:
        """See `Statistic.statistics`."""
        return self._statistics

    def worded(self, table: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """See `Statistic.worded`: of each statistic the number that says most."""
        names = table["name"].astype(str)
        kept, called = np.zeros(len(names), np.bool_), names.astype(object)
        for one in self.statistics:
            own = table["statistic"].astype(str) == one
            there = [*dict.fromkeys(names[own].tolist())]
            shown = next((name for name in _SHOWN_FIRST if name in there), there[0])
            rows = own & (names == shown)
            kept |= rows
            called[rows] = (
                one if shown in ("all", "total") else f"{one}: {_WORDS.get(shown, shown)}"
            )
        found = {name: values[kept] for name, values in table.items() if name != "statistic"}
        return {**found, "name": called[kept]}

    @property
    def own_columns(self) -> OwnColumns:
        """See `Statistic.own_columns`."""
        numbers = [part.name for part in self.parts if part.kind != "label"]
        return OwnColumns(self.column_names, tuple(numbers))

    @property
    def parameters(self) -> dict[str, Any]:
        """See `Statistic.parameters`."""
        found: dict[str, Any] = {
            "statistics": [[name, one.to_dict()] for name, one in self.statistics.items()],
            "columns": {name: [*names] for name, names in self.columns.items() if names},
        }
        for name, value in (
            ("within", self.within),
            ("shares", self.shares),
            ("rows", self.rows),
            ("weights", self.weights),
            ("apart", [*self.apart]),
        ):
            if value:
                found[name] = dict(value) if isinstance(value, Mapping) else value
        if self.most > 1:
            found["most"] = self.most
        return {**found, "unit": self.unit} if self._stated else found

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}: {type(one).__name__}" for name, one in self.statistics.items())
        return f"Report({parts})"

    def _columns(self, given: Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
        for name in given:
            self.statistic(name)
        found = {}
        for name, one in self.statistics.items():
            own = given.get(name)
            names = tuple(part.name for part in one.parts) if own is None else listed(own)
            if len(names) != len(one.parts) or not all(names):
                raise InvalidInput(
                    f"columns of {name!r} are {', '.join(names) or 'none'}, and {one!r} reads "
                    f"{len(one.parts)}: {', '.join(part.name for part in one.parts)}; name one for "
                    f"each"
                )
            found[name] = names
        return found

    def _parts(self) -> tuple[tuple[str, ...], tuple[Part, ...]]:
        """Columns of all statistics, each once, and what they hold."""
        found: dict[str, Part] = {}
        for name, one in self.statistics.items():
            for column, part in zip(self.columns[name], one.parts, strict=True):
                before = found.setdefault(column, Part(column, part.kind, part.labels))
                if before.kind != part.kind:
                    raise InvalidInput(
                        f"column {column!r} is to hold {before.kind}s and {part.kind}s; give the "
                        f"statistics of the report columns of their own"
                    )
                labels = tuple(dict.fromkeys((*before.labels, *part.labels)))
                found[column] = Part(column, part.kind, labels)
        return tuple(found), tuple(found.values())

    def statistic(self, name: object) -> Tallied:
        """One of the statistics.

        Raises:
            InvalidInput: none of this name.
        """
        if not isinstance(name, str) or name not in self.statistics:
            raise InvalidInput(
                f"{quoted(name)} is no statistic of the report; it has {', '.join(self.statistics)}"
            )
        return self.statistics[name]

    # What is measured, and what follows from it.

    @cached_property
    def followed(self) -> dict[str, str]:
        """By the name of a statistic that is not measured the one from which it follows."""
        names = [*self.statistics]

        def says(other: str, name: str) -> bool:
            return other != name and self._rows(name, other) is not None

        kept = {
            name
            for place, name in enumerate(names)
            if name in self.apart
            or not any(
                says(other, name) and not (says(name, other) and at > place)
                for at, other in enumerate(names)
            )
        }
        sources = {
            name: next((other for other in names if other in kept and says(other, name)), None)
            for name in names
            if name not in kept
        }
        return {name: source for name, source in sources.items() if source is not None}

    def _rows(self, name: str, other: str) -> dict[Any, Any] | None:
        """What one statistic reads, and what another calls that; None: the other does not say it.

        Rows of both are the same ones, so a number of rows is one of all. Values that the other
        rounds to finer multiples are told well enough.
        """
        one, source = self.statistics[name], self.statistics[other]
        columns, there = self.columns[name], self.columns[other]
        if not one.asks or len(columns) > 1 or not {*columns} <= {*there}:
            return None
        place = there.index(columns[0]) if columns else None
        given = source.gives(place)
        if not {*one.asks} <= {*given}:
            return None
        if place is not None:
            mine, its = one.value_bounds, source.bounds_of(place)
            if mine is None or its is None or mine[:2] != its[:2] or mine[2] < its[2]:
                return None
        return {(ask if len(one.asks) > 1 else None): given[ask] for ask in one.asks}

    @cached_property
    def measured_ones(self) -> dict[str, Tallied]:
        """The statistics that are measured."""
        return {name: one for name, one in self.statistics.items() if name not in self.followed}

    @cached_property
    def cell_ranges(self) -> dict[str, slice]:
        """Where the cells of each measured statistic stand."""
        sizes = [math.prod(one.cells) for one in self.measured_ones.values()]
        return _slices(self.measured_ones, sizes)

    @cached_property
    def _place_ranges(self) -> dict[str, slice]:
        return _slices(self.measured_ones, [one.places for one in self.measured_ones.values()])

    @property
    def cells(self) -> tuple[int, ...]:
        """See `Statistic.cells`."""
        return (sum(math.prod(one.cells) for one in self.measured_ones.values()),)

    def weight(self, name: str) -> int:
        """By what the cells of a statistic are multiplied; 1 until it is settled."""
        return 1 if self.weights is None else self.weights[name]

    def norms(self, name: str) -> tuple[int, int]:
        """What one row changes in the cells of a statistic: l1, and the square of l2."""
        return norms_of(self.statistics[name])

    def contribution(self, *, batched: bool = False) -> Contribution:
        """See `Statistic.contribution`: see the module; the same for batches."""
        l1 = sum(self.weight(name) * self.norms(name)[0] for name in self.measured_ones)
        l2 = sum(self.weight(name) ** 2 * self.norms(name)[1] for name in self.measured_ones)
        names = ", ".join(self.statistics)
        return Contribution.patterned(
            Bounded(l1, l2, once=True), f"which counts in all of {names}", unit=self.unit
        )

    @property
    def error_of(self) -> ErrorOf:
        """See `Statistic.error_of`."""
        return ErrorOf("one cell, before it is divided by the weight of its statistic")

    def for_people(self, most: int) -> Report:
        """See `Statistic.for_people`."""
        return self if most == self.most else self._with(most=most)

    def _with(self, **changes: Any) -> Report:
        return Report(**{**self.parameters, **changes})

    def settled(self, guarantee: Guarantee, horizon: int | None = None) -> Report:
        """With all statistics settled, and weights that share the guarantee.

        Raises:
            InvalidInput: what is wanted cannot be reached; the message says what would reach it.
        """
        if self.weights is not None:
            return self
        inner = [[name, one.settled(guarantee, horizon)] for name, one in self.statistics.items()]
        settled = self._with(statistics=inner)
        return settled._measured_well(guarantee, horizon)

    def _measured_well(self, guarantee: Guarantee, horizon: int | None) -> Report:
        """With weights; apart is what costs less so than with what it would follow from.

        Which that is, is tried: of statistics that are wanted ``within`` something, some apart.

        Raises:
            InvalidInput: what is wanted cannot be reached.
        """
        from counton.plans.splits import last_halfwidth

        noise = last_halfwidth(horizon) if self.within else None
        sources = [*self.measured_ones]
        wanted = [name for name in self.followed if name in self.within][:_MOST_TRIED]
        found, best, refused = None, math.inf, None
        for several in range(len(wanted) + 1):
            for apart in combinations(wanted, several):
                tried = self._with(apart=[*self.apart, *apart])
                try:
                    shared = tried._split(guarantee, horizon, noise)
                except InvalidInput as error:
                    refused = refused or error
                    continue
                errors = dict(zip(tried.measured_ones, shared.errors or (), strict=False))
                size = sum(math.log(errors[name]) for name in sources if name in errors)
                if found is None or size < best - 1e-3:
                    weights = dict(zip(tried.measured_ones, shared.weights, strict=True))
                    found, best = tried._with(weights=weights), size
        if found is None:
            assert refused is not None
            raise refused
        return found

    def _split(self, guarantee: Guarantee, horizon: int | None, noise: Noise | None) -> Split:
        """How the guarantee is shared among what is measured."""
        from counton.plans.splits import Cost, split

        costs = []
        for name in self.measured_ones:
            l1, l2_squared = self.norms(name)
            told = [name, *(one for one, source in self.followed.items() if source == name)]
            bounds = [
                (self.within[one], self._error(one, guarantee, horizon), one)
                for one in told
                if one in self.within
            ]
            within, each, called = min(
                bounds, key=lambda one: one[0] / one[1], default=(None, 1.0, name)
            )
            costs.append(
                Cost(
                    l1 * self.most,
                    l2_squared * self.most**2,
                    within=within,
                    each=each,
                    weight=exact(str(self.shares.get(name, 1)), "share"),
                    name=called,
                )
            )
        return split(costs, guarantee, noise)

    def _error(self, name: str, guarantee: Guarantee, horizon: int | None) -> float:
        """How far off what is read of a statistic is, in what one of its cells is off."""
        from counton.statistics.planned import planned_reading

        of = self.followed.get(name, name)
        source, one = self.statistics[of], self.statistics[name]
        if one.known_beforehand is not None and self.rows is None:
            raise InvalidInput(
                f"{field(WITHIN, figures(self.within[name]))} of {name!r} hangs on how many rows "
                f"there are; say how many there will be, about, where that is public "
                f"({field('rows', 10_000)}), or give it a share"
            )
        plan = source.plan(horizon, guarantee, batched=True)
        terms = PartTerms.of(plan.terms(plan.best), source, 1, source.cells)
        last = horizon or terms.strategy.longest or 1
        reading = planned_reading(source, terms, last, self.rows)
        own = reading if of == name else self.reading_of(name, reading)
        cell = halfwidth(reading.release)
        return _widest(own) / cell if cell else 1.0  # with next to no noise all is exact

    def halfwidths_of_parts(
        self, terms: StreamTerms, step: int, level: float, rows: int | None, over: int | None
    ) -> dict[str, float]:
        """As `planned_halfwidths`, of all statistics: their names stand before those of numbers."""
        from counton.statistics.planned import halfwidths_of, planned_halfwidths, planned_reading

        found: dict[str, float] = {}
        for name, one in self.statistics.items():
            if name not in self.followed:
                own = planned_halfwidths(
                    one, self.terms_of(name, terms), step, level, rows=rows, over=over
                )
            elif rows is None and one.known_beforehand == ():
                continue
            else:
                of = self.followed[name]
                reading = planned_reading(
                    self.statistics[of], self.terms_of(of, terms), step, rows, over
                )
                own = halfwidths_of(self.reading_of(name, reading), level)
                if rows is None and one.known_beforehand is not None:
                    own = {key: own[key] for key in own if key in one.known_beforehand}
            found |= {f"{name} {key}".strip(): half for key, half in own.items()}
        return found

    def allows(self, other: Statistic) -> bool:
        """See `Statistic.allows`."""
        if not isinstance(other, Report) or [*other.statistics] != [*self.statistics]:
            return False
        same = all(one.allows(other.statistics[name]) for name, one in self.statistics.items())
        mine, its = ((one.columns, one.within, one.shares, one.rows) for one in (self, other))
        return same and mine == its and self.weights in (None, other.weights)

    # What rows say.

    def columns_of(self, events: Events) -> tuple[Any, ...]:
        """See `Tallied.columns_of`."""
        found: list[NDArray[Any]] = []
        for place, part in enumerate(self.parts):
            values = []
            for event in events:
                if isinstance(event, Mapping) and part.name in event:
                    values.append(event[part.name])
                elif isinstance(event, tuple | list) and len(event) == len(self.parts):
                    values.append(event[place])
                else:
                    raise InvalidInput(
                        f"a row is {quoted(event)}; it must have what each of the columns "
                        f"{', '.join(self.column_names)} holds"
                    )
            if part.kind == "label":
                codes = {label: code for code, label in enumerate(part.labels)}
                found.append(np.array([codes.get(one, OUTSIDE) for one in values], np.int64))
            else:
                found.append(value_grid.finite(values))
        return tuple(found)

    def said(self, *parts: Any) -> Integers:
        """See `Tallied.said`: what rows say to each statistic, as the digits of one number."""
        by_column = dict(zip(self.column_names, parts, strict=True))
        labels = {part.name: part.labels for part in self.parts}
        found, known = np.zeros(len(parts[0]), np.int64), np.ones(len(parts[0]), np.bool_)
        for (name, one), (low, high) in zip(self.statistics.items(), self._bounds, strict=True):
            if not one.parts:
                continue  # it says the same of every row
            own = []
            for column, part in zip(self.columns[name], one.parts, strict=True):
                given = by_column[column]
                if part.kind == "label" and part.labels != labels[column]:
                    given = _recoded(np.asarray(given), labels[column], part.labels)
                own.append(given)
            said = np.asarray(one.said(*own), np.int64)
            if one.may_be_none:
                known &= said >= 0
                said = np.where(said >= 0, said, low)
            if len(said) and (int(said.min()) < low or int(said.max()) > high):
                raise InvalidInput(
                    f"rows say something outside of what {one!r} says they can, which is a defect "
                    f"of that statistic"
                )
            found = found * (high - low + 1) + (said - low)
        return np.where(known, found, -1)

    def _digits(self, said: X) -> dict[str, X | int]:
        """What rows say to each statistic."""
        found: dict[str, X | int] = {}
        rest = said
        order = [*zip(self.statistics.items(), self._bounds, strict=True)]
        for (name, one), (low, high) in reversed(order):
            if not one.parts:
                found[name] = low
                continue
            size = high - low + 1
            found[name] = rest % size + low
            rest = rest // size
        return found

    @property
    def places(self) -> int:
        """See `Tallied.places`."""
        return sum(one.places for one in self.measured_ones.values())

    def entries(self, said: X) -> Sequence[tuple[X | int, X | int]]:
        """See `Tallied.entries`: those of each statistic."""
        digits, found = self._digits(said), []
        for name, one in self.measured_ones.items():
            start = self._place_ranges[name].start
            found += [(place + start, amount) for place, amount in one.entries(digits[name])]
        return cast("Sequence[tuple[X | int, X | int]]", found)

    @cached_property
    def spans(self) -> tuple[range, ...]:
        """See `Tallied.spans`."""
        found = []
        for name, one in self.measured_ones.items():
            start = self._place_ranges[name].start
            if one.may_be_none:
                found += [range(start + span.start, start + span.stop) for span in one.spans]
        return tuple(found)

    @property
    def may_be_none(self) -> bool:
        """See `Tallied.may_be_none`."""
        return any(one.may_be_none for one in self.statistics.values())

    def said_bounds(self) -> tuple[int, int]:
        """See `Tallied.said_bounds`."""
        return 0, math.prod(high - low + 1 for low, high in self._bounds) - 1

    @property
    def largest_entry(self) -> int:
        """See `Tallied.largest_entry`."""
        return max(self.weight(name) * one.largest_entry for name, one in self._measured())

    def whole_of(self, sums: Floats) -> float:
        """See `Tallied.whole_of`: of those that hold only so much."""
        found = [
            one.whole_of(sums[self._place_ranges[name]])
            for name, one in self._measured()
            if one.most_counted(0.0, 0.0) < math.inf
        ]
        return max(found, default=0.0)

    def largest_measured(self, sums: Floats) -> float:
        """See `Tallied.largest_measured`: of each by itself, times its weight."""
        return max(
            self.weight(name) * one.largest_measured(sums[self._place_ranges[name]])
            for name, one in self._measured()
        )

    def _measured(self) -> Sequence[tuple[str, Tallied]]:
        return [*self.measured_ones.items()]

    def row_bounds(self) -> tuple[int, int]:
        """See `Tallied.row_bounds`."""
        lows, highs = zip(*(one.row_bounds() for _, one in self._measured()), strict=True)
        return min(lows), max(highs)

    def measured(self, sums: Integers) -> Integers:
        """See `Tallied.measured`: cells of each, times its weight."""
        most = self.largest_measured(np.abs(sums.astype(np.float64)).max(axis=0, initial=0.0))
        if most >= LARGEST_MEASUREMENT:
            raise SumOverflow(
                f"what a step of the report measures can reach {most:.3g}; below "
                f"{LARGEST_MEASUREMENT:.3g} it is exact: take shorter steps, or a coarser "
                f"resolution"
            )
        parts = [
            one.measured(sums[:, self._place_ranges[name]]).reshape(len(sums), -1)
            * self.weight(name)
            for name, one in self._measured()
        ]
        return np.concatenate(parts, axis=1).astype(np.int64)

    def most_counted(self, first: float, last: float) -> float:
        """See `Tallied.most_counted`: of the one that holds least."""
        return min(
            one.most_counted(first / self.weight(name), last / self.weight(name))
            for name, one in self._measured()
        )

    def counted(self, cells: Integers) -> Floats:
        """See `Tallied.counted`: of the one that has most."""
        found = [
            one.counted(
                (cells[:, self.cell_ranges[name]] // self.weight(name)).reshape(-1, *one.cells)
            )
            for name, one in self._measured()
            if one.most_counted(0.0, 0.0) < math.inf
        ]
        return np.asarray(np.max([np.zeros(len(cells)), *found], axis=0), np.float64)

    def check_events(self, each: NDArray[np.int64]) -> None:
        """See `Tallied.check_events`."""
        for one in self.statistics.values():
            one.check_events(each)

    # What is read.

    def read(self, release: Release) -> ReportReading:
        """See `Statistic.read`."""
        return ReportReading(self, release)

    def terms_of(self, name: str, terms: StreamTerms, groups: tuple[int, ...] = ()) -> PartTerms:
        """The terms of a measured statistic, of which those of the report are given."""
        one = self.measured_ones[name]
        return PartTerms.of(terms, one, self.weight(name), (*groups, *one.cells))

    def reading_of(self, name: str, reading: Reading) -> FollowedReading:
        """What a statistic reads that follows from the reading of another."""
        rows = self._rows(name, self.followed[name])
        assert rows is not None
        return FollowedReading(self.statistics[name], reading, rows)

    def values_of(self, name: str, values: NDArray[Any], terms: PartTerms) -> NDArray[np.float64]:
        """Released cells of a measured statistic, from all of them: the last axis is of cells."""
        own = np.asarray(values)[..., self.cell_ranges[name]].astype(np.float64)
        shape = (*own.shape[:-1], *self.statistics[name].cells)
        return np.asarray(own.reshape(shape) * float(terms.one))


class ReportReading(Reading):
    """What was released of all statistics of a report at one step.

    >>> from counton import Key, PureDP
    >>> from counton.statistics import Average, Count
    >>> report = Report({"rows": Count(), "paid": Average(0, 9, 1)}, columns={"paid": "paid"})
    >>> counter = report.counter(1, PureDP(1), key=Key.generate(), name="r", batched=True)
    >>> reading = counter.release_batch([{"paid": 3}])
    >>> list(reading.parts)
    ['rows', 'paid']
    """

    statistic: Report
    #: The two readings whose difference it is.
    _ends: tuple[ReportReading, ReportReading] | None = None

    def of(self, name: str) -> Reading:
        """What was released of one of the statistics.

        Raises:
            InvalidInput: none of this name.
        """
        this = self.statistic
        one = this.statistic(name)
        source = this.followed.get(name)
        if source is not None:
            return this.reading_of(name, self.of(source))
        if self._ends is not None:
            earlier, now = self._ends
            return now.of(name).since(earlier.of(name))
        terms = this.terms_of(name, self.release._terms)
        values = this.values_of(name, np.asarray(self.release.value), terms)
        std = self.release.std * float(terms.one)
        return one.read(Release(self.step, values if one.cells else float(values), std, terms))

    @property
    def parts(self) -> dict[str, Reading]:
        """What was released of each statistic."""
        return {name: self.of(name) for name in self.statistic.statistics}

    def since(self, earlier: Reading) -> Self:
        """See `Reading.since`: what was counted of each statistic."""
        found = super().since(earlier)
        assert isinstance(earlier, ReportReading)
        found._ends = earlier, self
        return found

    def formula(self, name: str | None = None) -> Asked:
        """See `Reading.formula`: ``"visits"``, or a statistic and a number of it, ``"paid mean"``.

        Raises:
            InvalidInput: no such statistic, or none of its numbers.
        """
        called = "" if name is None else name
        for part in sorted(self.statistic.statistics, key=len, reverse=True):
            if called == part:
                return self.of(part).formula()
            if called.startswith(f"{part} "):
                rest = called[len(part) + 1 :]
                with suppress(InvalidInput):
                    return self.of(part).formula(rest)
                return self.of(part).formula(rest.partition(" ")[2] or rest)  # without its level
        first = next(iter(self.statistic.statistics))
        raise InvalidInput(
            f"{quoted(name)} names no number of the report: name one of its statistics, "
            f"{', '.join(self.statistic.statistics)}, and where that has several a number of it, "
            f"such as {f'{first} mean'!r}"
        )

    def __getitem__(self, name: Any) -> Any:
        """A number of one statistic: ``["visits"]`` of those with one number, else a pair.

        Raises:
            InvalidInput: no such statistic, or none of its numbers.
        """
        part, inner = self._asked(name)
        return self._only(part) if inner is None else self.of(part)[inner]

    def _asked(self, name: Any) -> tuple[str, Any]:
        if isinstance(name, tuple) and len(name) == 2:
            return name[0], name[1]
        return name, None

    def _only(self, part: str, column: str = "estimate") -> Any:
        found = self.of(part).table_columns()[column]
        if len(found) != 1:
            raise InvalidInput(
                f"{part!r} has {len(found)} numbers: ask for one of them, ({part!r}, name)"
            )
        return found[0].item()

    def std(self, name: Any = None) -> float:
        """See `Reading.std`; of a part as `__getitem__` has it."""
        if name is None:
            return self.release.std
        part, inner = self._asked(name)
        return float(self._only(part, "std") if inner is None else self.of(part).std(inner))

    def interval(self, name: Any, level: float = 0.95) -> tuple[Any, Any]:
        """See `Reading.interval`; of a part as `__getitem__` has it."""
        part, inner = self._asked(name)
        if inner is not None:
            return self.of(part).interval(inner, level)
        found = self.of(part).table_columns(level)
        self._only(part)
        return found["lower"][0].item(), found["upper"][0].item()

    def table_columns(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        """See `Reading.table_columns`: the rows of each statistic, and what each row is about."""
        found: dict[str, list[Any]] = {"statistic": [], "name": []}
        numbers: dict[str, list[NDArray[np.float64]]] = {name: [] for name in _NUMBERS}
        for name, reading in self.parts.items():
            columns = dict(reading.table_columns(level))
            if "estimate" not in columns:  # of a share it is called what it is of
                columns["estimate"] = columns.pop("value")
            rows = len(columns["estimate"])
            about = {
                key: values
                for key, values in columns.items()
                if key not in (*_NUMBERS, "step", "start")
            }
            found["statistic"] += [name] * rows
            found["name"] += [_about(about, row) for row in range(rows)]
            for key, parts in numbers.items():
                values = columns.get(key, np.full(rows, math.nan))
                parts.append(np.asarray(values, np.float64))
        texts = {name: np.array(values) for name, values in found.items()}
        return texts | {name: np.concatenate(parts) for name, parts in numbers.items()}


class FollowedReading(Reading):
    """Some rows of another statistic's reading, which are all that a statistic has to say."""

    def __init__(self, statistic: Statistic, reading: Reading, rows: Mapping[Any, Any]) -> None:
        """Not for callers.

        Args:
            statistic: that is read.
            reading: of the statistic that was measured.
            rows: by the name of each row here that of the row there.
        """
        super().__init__(statistic, reading.release)
        self._reading, self._rows = reading, rows

    def _there(self, name: Any) -> Any:
        if len(self._rows) == 1 and name is None:
            return next(iter(self._rows.values()))
        if name not in self._rows:
            raise InvalidInput(f"{quoted(name)} is none of {', '.join(map(str, self._rows))}")
        return self._rows[name]

    def since(self, earlier: Reading) -> Self:
        """See `Reading.since`: rows of what was counted."""
        assert isinstance(earlier, FollowedReading)
        since = self._reading.since(earlier._reading)
        return type(self)(self.statistic, since, self._rows)

    def formula(self, name: str | None = None) -> Asked:
        """See `Reading.formula`: that of the reading from which it follows."""
        there = self._there(name)
        if isinstance(there, str):
            return self._reading.formula(there)
        if there and all(isinstance(one, str) for one in there):
            return self._reading.formula(" ".join(there))
        return self._reading.whole()  # how many rows there are

    def __getitem__(self, name: Any) -> Any:
        """See `Reading.__getitem__`."""
        return self._reading[self._there(name)]

    def std(self, name: Any = None) -> float:
        """See `Reading.std`."""
        return self._reading.std(self._there(name))

    def interval(self, name: Any = None, level: float = 0.95) -> tuple[Any, Any]:
        """See `Reading.interval`."""
        return self._reading.interval(self._there(name), level)

    def table_columns(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        """See `Reading.table_columns`."""
        names = [*self._rows]
        ends = [self.interval(name, level) for name in names]
        named = {} if names == [None] else {"name": np.array(names)}
        return {
            **named,
            "estimate": np.array([float(self[name]) for name in names]),
            "std": np.array([self.std(name) for name in names]),
            "lower": np.array([float(low) for low, _ in ends]),
            "upper": np.array([float(high) for _, high in ends]),
        }


def _widest(reading: Reading) -> float:
    """Half of the widest interval of a reading; of its means, where it has such."""
    columns = reading.table_columns()
    half = (np.asarray(columns["upper"], float) - np.asarray(columns["lower"], float)) / 2
    means = np.array([str(name).startswith("mean") for name in columns.get("name", ())])
    return float(half[means].max() if means.any() else half.max())


def norms_of(statistic: Tallied) -> tuple[int, int]:
    """What one row changes in the cells of a statistic at most: l1, and the square of l2.

    >>> from counton.statistics import Average, Sum
    >>> norms_of(Sum(-5, 20, resolution=1)), norms_of(Average(0, 50, resolution=1))
    ((20, 400), (50, 2500))
    """
    found = statistic.contribution(batched=True)
    if found.pattern is None:
        return found.cells * found.per_cell, found.cells * found.per_cell**2
    assert isinstance(found.pattern, Bounded)
    return found.pattern.l1, found.pattern.l2_squared


def _is_pair(given: Any) -> bool:
    """Whether it is a name and a statistic, or what describes one."""
    pair = isinstance(given, list | tuple) and len(given) == 2 and isinstance(given[0], str)
    return pair and isinstance(given[1], Statistic | Mapping)


def _fitting(name: str, given: Any) -> Tallied:
    one = statistic_from_dict(given) if isinstance(given, Mapping) else given
    if not isinstance(one, Tallied) or not one.tallied or one.inner is not one:
        raise _unfit(name, one.keyword or type(one).__name__)
    own = one.contribution(batched=True)
    one_row = own.relation == "add_remove" and own.in_one_step and not one.counts_units
    if not one_row or one.ranks or any(part.name == "by" for part in one.parts):
        raise _unfit(name, one.keyword or type(one).__name__)
    return one


def _unfit(name: str, called: str) -> InvalidInput:
    return InvalidInput(
        f"{name!r} is a statistic of its own ({called}): a report holds statistics that add up "
        f"rows one by one, each row added or removed; release it as a job beside the report"
    )


def _name(name: object) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InvalidInput(f"a statistic of the report is called {quoted(name)}; give it a name")
    return name


def _by_name(what: str, given: Any, known: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for name, value in dict(given or {}).items():
        if name not in known:
            raise InvalidInput(f"{what} names {name!r}; the report has {', '.join(known)}")
        number = exact(value, f"{what} of {name!r}")
        if number <= 0:
            raise InvalidInput(f"{what} of {name!r} is {value!r}; it must be above 0")
        found[name] = float(number)
    return found


def _whole(given: Mapping[str, int], known: Mapping[str, Any]) -> dict[str, int]:
    if set(given) != set(known):
        raise InvalidInput(
            f"weights are of {', '.join(given)}; they must be of what is measured: "
            f"{', '.join(known)}"
        )
    return {name: check_integer(f"weight of {name!r}", given[name], 1, 2**40) for name in known}


def _slices(names: Mapping[str, Any], sizes: Sequence[int]) -> dict[str, slice]:
    ends = [0, *np.cumsum(sizes).tolist()]
    return {name: slice(*pair) for name, pair in zip(names, pairwise(ends), strict=True)}


def _recoded(codes: NDArray[Any], given: Sequence[str], own: Sequence[str]) -> Integers:
    """Places among all labels of a column as those among the labels of one statistic."""
    place = {label: at for at, label in enumerate(own)}
    table = np.array([place.get(label, OUTSIDE) for label in given] + [MISSING], np.int64)
    known = np.where(codes >= 0, codes, len(given))
    return np.where(codes == OUTSIDE, OUTSIDE, table[known])


def _about(columns: Mapping[str, NDArray[Any]], row: int) -> str:
    """What a row is about, in one text."""
    found = []
    for values in columns.values():
        one = values[row]
        if one is None:
            continue
        found.append(figures(float(one)) if values.dtype.kind == "f" else str(one))
    return " ".join(found) or "all"


def _tables(given: Any) -> dict[str, dict[str, Any]]:
    """The statistics of a job by name: a table, or a file or text that has one.

    Raises:
        InvalidInput: something else.
    """
    import json
    import tomllib
    from pathlib import Path

    found = given
    if isinstance(given, str):
        text = given
        try:
            if not given.lstrip().startswith("{"):
                text = Path(given).read_text("utf-8")
            found = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"{field('statistics', given[:80])} is no table of statistics by name ({error}); "
                f"give a TOML or JSON file with one"
            ) from None
    if not isinstance(found, Mapping) or not all(isinstance(v, Mapping) for v in found.values()):
        raise InvalidInput(
            f"{field('statistics')} are {quoted(found)}; give a table for each by its name, with "
            f"statistic and its options"
        )
    return {str(name): dict(own) for name, own in found.items()}


def _stated_part(
    stated: Statement, name: str, own: Mapping[str, Any]
) -> tuple[type[Statistic], Statement]:
    """The class of one statistic of a report, and what the job states of it."""
    keyword = own.get("statistic", "count")
    kind = statistic_named(keyword)
    known = {option.key: option for option in kind.options}
    known |= {option.name: option for option in kind.options}
    options, domain = {}, None
    for key, value in own.items():
        if key in ("statistic", WITHIN, SHARE):
            continue
        if key == "domain" and "domain" in kind.reads and "by" not in kind.reads:
            domain = value
            continue
        if key not in known:
            raise InvalidInput(
                f"{name!r} of the report says {key!r}, which is no option of {keyword}; it takes "
                f"{', '.join([*dict.fromkeys(o.key for o in kind.options), WITHIN, SHARE])}"
            )
        option = known[key]
        if isinstance(value, float) and option.kind == "text":
            value = repr(value)
        check_value(option, value)
        options[option.name] = value
    return kind, stated.of_part(keyword, options, domain)

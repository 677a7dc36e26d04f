"""Results of a private look at events, which helps to choose bounds before a stream begins.

It finds a bound on the number of a user's events, or bounds on values. All results are functions of
released numbers, so further questions cost no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.exact import check_integer, figures, percent
from counton.numbers.intervals import check_level
from counton.privacy import Guarantee
from counton.privacy.guarantees import plural
from counton.released.counting import Bounded
from counton.released.release import Release
from counton.statistics import Count, Quantiles, TallyStatistic
from counton.statistics.quantiles import QuantilesReading

if TYPE_CHECKING:
    from counton.planning.planner import StreamOptions

#: Each number of events up to the first number has a histogram cell of its own. Above it, cells end
#: at these numbers times powers of ten.
EXACTLY = 16
_BEYOND = (10, 12, 16, 20, 25, 30, 40, 50, 60, 80)
#: Default bounds that are compared: these numbers times powers of ten.
_TRIED = (1, 2, 5)
#: Cells for values end at powers of two with exponents in this range, and at their negatives.
_LEAST, _LARGEST = -6, 34


def numbers_of_events(at_most: int) -> list[float]:
    """Return the edges of a histogram that counts users by their number of events.

    Each number up to 16 has a cell. Then cells end at 20, 25, 30, 40, 50, 60, 80, 100, 120, 160,
    200 and so on; the last cell has all larger numbers. So 20, 50, 100 and 200 can be judged as
    bounds.

    Args:
        at_most: the number above which users are no longer told apart: they share the last cell.

    Raises:
        InvalidInput: the number is below 1, or above 2^40.

    >>> numbers_of_events(40)[14:]
    [15.0, 16.0, 17.0, 21.0, 26.0, 31.0, 41.0, 42.0]
    """
    # Powers of two would give 23 cells instead of 36 up to 1,024, and 6% (Gaussian) to 12%
    # (Laplace) less noise.
    last = check_integer("at_most", at_most, 1, 2**40)
    edges = [*range(1, min(last, EXACTLY) + 1)]
    if last > EXACTLY:
        beyond = (factor * 10**power for power in range(13) for factor in _BEYOND)
        edges += [EXACTLY + 1, *(end + 1 for end in beyond if EXACTLY < end < last)]
    return [float(edge) for edge in (*edges, last + 1, last + 2)]


def powers_of_two() -> list[float]:
    """Return the edges of histogram cells for values of unknown size: 0, powers of two, and their
    negatives.

    >>> edges = powers_of_two()
    >>> len(edges), edges[-1] == 2.0**34, edges[40:44]
    (83, True, [-0.015625, 0.0, 0.015625, 0.03125])
    """
    powers = [2.0**power for power in range(_LEAST, _LARGEST + 1)]
    return [*(-power for power in reversed(powers)), 0.0, *powers]


class Most(NamedTuple):
    """Estimated number of events that a given share of the users do not exceed: a quantile of the
    number of events of a user.

    Attributes:
        share: that share, from 0 to 1: of all users, or of all periods of users.
        most: the estimate; None: it is above all distinguished numbers, or the released counts show
            no users.
        lower, upper: ends of its interval; ``upper`` is None if there is no upper bound.

    >>> Most(0.95, 7, 6, 8).options
    {'most': 7}
    """

    share: float
    most: int | None
    lower: int
    upper: int | None

    @property
    def options(self) -> dict[str, Any]:
        """The field of a `Job` that sets this estimate as the bound on each user's events, as in
        ``{"most": 7}``; empty if there is no estimate.
        """
        return {} if self.most is None else {"most": self.most}


class ValueBounds(NamedTuple):
    """Estimated bounds between which a given share of the values lie, with equally many below and
    above.

    Attributes:
        share: that share, from 0 to 1.
        lower, upper: ends of the cells that contain the estimated quantiles; None: the released
            counts show no values.
        lower_from, lower_to: the interval of the lower quantile.
        upper_from, upper_to: the interval of the upper quantile.

    >>> ValueBounds(0.95, 0.0, 256.0, 0.0, 1.0, 128.0, 256.0).options
    {'lower': '0', 'upper': '256'}
    """

    share: float
    lower: float | None
    upper: float | None
    lower_from: float
    lower_to: float
    upper_from: float
    upper_to: float

    @property
    def options(self) -> dict[str, Any]:
        """The fields of a `Job` that set these bounds, with their values; empty if there are no
        estimates.
        """
        if self.lower is None or self.upper is None:
            return {}
        return {"lower": plain(self.lower), "upper": plain(self.upper)}


class Swept(NamedTuple):
    """The effect of one bound on a user's events: how many events count, and how much noise there
    is.

    Attributes:
        most: the bound.
        kept, lower, upper: share of all events that count, with its interval. A user with more
            events than the largest distinguished number is taken to have that number. ``kept`` is
            None if the released counts show no users.
        halfwidth: half-width of an interval of the last release, from a plan; None: nothing is
            planned.

    >>> Swept(1, 0.3, 0.25, 0.36, None).most
    1
    """

    most: int
    kept: float | None
    lower: float
    upper: float
    halfwidth: float | None


@dataclass(frozen=True)
class Inspection:
    """The result of a private count of users by their number of events, or of values by size. It
    helps to choose bounds for a later stream.

    Attributes:
        released: histogram of users by number of events, or of values by size, released once.
        shares: the shares of users, or of values, for which estimates are requested.
        of_values: True if the histogram is of the values of a column.

    Raises:
        InvalidInput: the release is not such a histogram, or a share is not above 0 and below 1.

    >>> import polars as pl
    >>> from counton import inspect
    >>> visits = pl.DataFrame({"visitor": [f"visitor {number % 500}" for number in range(900)]})
    >>> found = inspect(visits, user="visitor", state="visits.db", epsilon=100)
    >>> print(found.words()[0])
    95% of users have at most 2 events (interval of 95%: 2 to 2)
    >>> one, two = found.sweep([1, 2])
    >>> 0.4 < one.kept < 0.7, two.kept > 0.9
    (True, True)
    """

    released: Release
    shares: tuple[float, ...]
    of_values: bool
    again: bool = False

    def __post_init__(self) -> None:
        numbers = self.released.numbers
        if not isinstance(numbers.statistic, Quantiles) or numbers.definition.cut.goes_on:
            raise InvalidInput(
                f"{numbers.design.name!r} is not a private look at events; give the result of "
                "inspect"
            )
        if not self.shares:
            raise InvalidInput(f"{field('share')} is empty; give at least one share, such as 0.95")
        for share in self.shares:
            check_share(share)

    @property
    def unit(self) -> str:
        """The word for the protected unit, such as "user"."""
        return self.released.numbers.definition.unit

    @property
    def protection(self) -> str:
        """Words that state the protected unit, and what the noise hides about it."""
        definition, whose = self.released.numbers.definition, "with all events"
        if self.of_values:
            most = definition.counting.most
            values = "one value counts" if most == 1 else f"up to {most:,} values count"
            whose = f"of whose {definition.value} {values}"
        return f"one {self.unit}, {whose}, {definition.contribution.neighbours}"

    @property
    def level(self) -> float:
        """The probability with which each interval of the estimates holds the true number."""
        return self.released.numbers.level

    @cached_property
    def _reading(self) -> QuantilesReading:
        return cast("QuantilesReading", self.released.reading)

    @property
    def _edges(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self._reading.statistic.edges
        return found

    @property
    def at_most(self) -> int:
        """The number of events above which users are no longer told apart: they share the last cell
        of the histogram.
        """
        return int(self._edges[-1]) - 2

    @cached_property
    def answers(self) -> tuple[Most, ...] | tuple[ValueBounds, ...]:
        """One estimate for each requested share of users or of values: a bound on a user's events,
        or two bounds of values.
        """
        if self.of_values:
            return tuple(map(self._bounds, self.shares))
        return tuple(map(self._most, self.shares))

    def _most(self, share: float) -> Most:
        cell = self._reading.cell_at(share)
        found = self._reading.quantile(share, self.level)
        # Whole numbers: a cell from 17 up to 33 holds 17 to 32.
        lower, upper = math.ceil(found.lower), math.ceil(found.upper) - 1
        most = None
        if cell is not None and cell < self._reading.statistic.places - 1:
            most = int(self._edges[cell + 1]) - 1
            lower, upper = min(lower, most), max(upper, most)
        elif cell is not None:  # above the largest distinguished number
            lower, upper = min(lower, self.at_most + 1), self.at_most + 1
        return Most(share, most, max(lower, 1), None if upper > self.at_most else upper)

    def _bounds(self, share: float) -> ValueBounds:
        ends = []
        for side, tail in enumerate(((1 - share) / 2, (1 + share) / 2)):
            cell = self._reading.cell_at(tail)
            found = self._reading.quantile(tail, self.level)
            end = None if cell is None else float(self._edges[cell + side])
            ends.append((end, found.lower, found.upper))
        (lower, *of_lower), (upper, *of_upper) = ends
        return ValueBounds(share, lower, upper, *of_lower, *of_upper)

    @property
    def recommendation(self) -> Most | ValueBounds | None:
        """The recommended bound on a user's events, or the recommended bounds of values.

        It is one of the ``answers``: the one for the largest share of users or values, among those
        that have an estimate and an informative interval. An interval is not informative if it has
        no upper end or contains all cells. None: there is no such answer.
        """
        told = [one for one in self.answers if one.options and not self._is_open(one)]
        return max(told, key=lambda one: one.share, default=None)

    @property
    def suggestion(self) -> dict[str, Any]:
        """The fields of a `Job` that set the recommended bound, with their values; empty if there
        is none.
        """
        return {} if self.recommendation is None else self.recommendation.options

    def _is_open(self, one: Most | ValueBounds) -> bool:
        """Return True if the interval of an estimate has no end on one side, or contains all
        cells.
        """
        if isinstance(one, Most):
            return one.upper is None
        ends = float(self._edges[0]), float(self._edges[-1])
        return (one.lower_from, one.upper_to) == ends

    def sweep(
        self,
        most: Sequence[int] | None = None,
        *,
        steps: int | None = None,
        guarantee: Guarantee | None = None,
        of: TallyStatistic | None = None,
        most_a_window: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> tuple[Swept, ...]:
        """Compare bounds on the number of a user's events.

        For each bound it estimates the share of all events that count, and the half-width of a
        planned stream's intervals. It uses only released numbers and a plan.

        Args:
            most: bounds to try. None: the estimates in ``answers``, and 1, 2, 5, 10 and so on, up
                to the first of these numbers that no estimate exceeds. An answer without an
                estimate stands for the upper end of its interval, or for ``at_most`` if it has no
                upper end.
            steps, guarantee: number of steps and guarantee of the planned stream.
            of: statistic of the planned stream; None: a count.
            most_a_window: largest number of a user's events that count in one window.
            options: options of the plan, such as ``release="windows"`` (`counton.plan`).

        Raises:
            InvalidInput: the histogram is of values, not of users' numbers of events; a bound is
                below 1; only one of steps and guarantee is given; or the statistic does not add up
                rows.
        """
        if self.of_values:
            raise InvalidInput(
                "a sweep compares bounds on the events of a user, but this is a look at values of "
                "a column: inspect the events of users instead"
            )
        if most is None:
            found = [one for one in self.answers if isinstance(one, Most)]
            last = max(one.upper or self.at_most if one.most is None else one.most for one in found)
            rounded = [factor * 10**power for power in range(13) for factor in _TRIED]
            beyond = next(bound for bound in rounded if bound >= last)
            tried = {bound for bound in rounded if bound <= beyond}
            bounds = sorted(tried | {one.most for one in found if one.most is not None})
        else:
            bounds = [check_integer("most", bound, 1) for bound in most]
        planned = planned_halfwidths(
            bounds, steps, guarantee, of, self.level, most_a_window=most_a_window, **options
        )
        return tuple(
            Swept(bound, *self._kept_share(bound), half)
            for bound, half in zip(bounds, planned, strict=True)
        )

    def _kept_share(self, most: int) -> tuple[float | None, float, float]:
        """Return the share of all events that count under a bound: its estimate, and the ends of
        its interval.

        At most ``most`` events of each user count. The estimate is None if the released counts show
        no users.
        """
        # Counted and lost events are two sums over users, each with an interval of half the
        # remaining probability; the kept share grows with the first and falls with the second. If a
        # cell holds users with several numbers of events, each sum lies between its values for the
        # least and the largest.
        least = self._edges[:-1].copy()
        largest = self._edges[1:] - 1
        # for larger numbers only the first at_most events are included
        largest[-1] = least[-1] = self.at_most
        level = check_level(1 - (1 - self.level) / 2)

        def total(each: NDArray[np.float64]) -> tuple[float, float]:
            found = self._reading.weighted_sum(each, level)
            return max(found.lower, 0.0), max(found.upper, 0.0)

        def counts(each: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.minimum(each, most), np.float64)

        def excess(each: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.maximum(each - most, 0.0), np.float64)

        users, middle = np.diff(self._reading.monotone), (least + largest) / 2
        kept_low, kept_high = total(counts(least))[0], total(counts(largest))[1]
        lost_low, lost_high = total(excess(least))[0], total(excess(largest))[1]
        lower = kept_low / (kept_low + lost_high) if kept_low > 0 else float(lost_high <= 0)
        upper = kept_high / (kept_high + lost_low) if kept_high > 0 else 1.0
        kept, gone = float(users @ counts(middle)), float(users @ excess(middle))
        if kept + gone <= 0:
            return None, 0.0, 1.0
        return min(max(kept / (kept + gone), lower), upper), lower, upper

    @property
    def events(self) -> float | None:
        """Estimated number of all events; None if it is 0. A user with more than ``at_most`` events
        is taken to have ``at_most``.
        """
        ends = np.append(self._edges[1:-1] - 1, self.at_most)
        middle = (np.minimum(self._edges[:-1], self.at_most) + ends) / 2
        return float(np.diff(self._reading.monotone) @ middle) or None

    def table(self) -> pl.DataFrame:
        """Return the estimated bounds as a table, with one row for each requested share of users or
        of values.
        """
        numbers = pl.Float64 if self.of_values else pl.Int64
        names = (ValueBounds if self.of_values else Most)._fields
        types = {name: pl.Float64 if name == "share" else numbers for name in names}
        return pl.DataFrame([one._asdict() for one in self.answers], schema=types)

    def describe(self) -> str:
        """Describe the estimates, with the protected unit and the guarantee.

        There is a line for each requested share of users or of values, then the options that set
        the recommended bound.
        """
        lines = [*self.words(), "", self.released.describe()]
        if self.suggestion:
            given = " and ".join(f"{name}={value}" for name, value in self.suggestion.items())
            lines.insert(len(self.answers), f"{self.advice}: {given}")
        return "\n".join(lines)

    @property
    def advice(self) -> str:
        """Introduction to the options with which a job uses the recommended bound, such as "to take
        it over".

        If there are several estimates, it names the share of the recommended one: "to take that of
        95% over".
        """
        if len(self.answers) == 1 or self.recommendation is None:
            return "to take it over"
        return f"to take that of {100 * self.recommendation.share:g}% over"

    def notes(self, names: Mapping[str, str] | None = None) -> list[str]:
        """Return notes to read before the estimated bounds on events or values are used.

        Args:
            names: other names for the arguments of `inspect` that notes mention, by their names.
        """
        found, ends = [], (float(self._edges[0]), float(self._edges[-1]))
        open_ended = [one for one in self.answers if self._is_open(one)]
        if open_ended and self.of_values:
            found.append(
                "an interval that reaches over the whole grid says nothing: there are too few "
                "values for this guarantee, or too many cells"
            )
        elif open_ended:
            found.append(
                f"an interval without an upper end reaches beyond {self.at_most:,} events: there "
                f"are too few {plural(self.unit)} for this guarantee, or {field('at_most')} is too "
                f"small"
            )
        if self.of_values:
            found.append(
                f"values below {plain(ends[0])} count in the first cell, and values from "
                f"{plain(ends[1])} on in the last"
            )
        if self.again:
            found.append(
                "this was released before, from the rows of that time, and is shown again; rows "
                f"that came since need another {field('name')}, whose privacy loss adds up"
            )
        return [InvalidInput(note).translate(names or {}) for note in found]

    def words(self) -> list[str]:
        """Return a sentence for each estimated bound on a user's events or on values."""
        return [
            self._most_in_words(one) if isinstance(one, Most) else self._bounds_in_words(one)
            for one in self.answers
        ]

    def _most_in_words(self, one: Most) -> str:
        interval = f"interval of {percent(self.level)}%"
        upper = f"to {one.upper:,}" if one.upper is not None else "and more"
        who = f"{100 * one.share:g}% of {plural(self.unit)}"
        if one.most is None and one.upper is None and one.lower > self.at_most:
            return f"{who} reach beyond {self.at_most:,} events ({interval}: more than that)"
        if one.most is None:
            return f"{who}: too few for an answer ({interval}: {one.lower:,} {upper})"
        events = "event" if one.most == 1 else "events"
        return f"{who} have at most {one.most:,} {events} ({interval}: {one.lower:,} {upper})"

    def _bounds_in_words(self, one: ValueBounds) -> str:
        interval = f"intervals of {percent(self.level)}%"
        ends = (
            f"{figures(one.lower_from)} to {figures(one.lower_to)}, and "
            f"{figures(one.upper_from)} to {figures(one.upper_to)}"
        )
        who = f"{100 * one.share:g}% of the values of {self.released.numbers.definition.value}"
        if one.lower is None or one.upper is None:
            return f"{who}: too few for an answer ({interval}: {ends})"
        return f"{who} lie between {plain(one.lower)} and {plain(one.upper)} ({interval}: {ends})"

    def to_dict(self) -> dict[str, Any]:
        """Return estimates, recommendation, protected unit and notes as JSON values."""
        definition = self.released.numbers.definition
        return {
            "name": self.released.numbers.design.name,
            "unit": self.unit,
            "protected": self.protection,
            "guarantee": definition.guarantee.to_dict(),
            "level": self.level,
            "answers": [{**one._asdict(), "options": one.options} for one in self.answers],
            "suggestion": self.suggestion,
        }

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<Inspection {self.released.numbers.design.name!r}: {'; '.join(self.words())}>"


def planned_halfwidths(
    most: Sequence[int],
    steps: int | None,
    guarantee: Guarantee | None,
    of: TallyStatistic | None = None,
    level: float = 0.95,
    *,
    most_a_window: int | None = None,
    **options: Unpack[StreamOptions],
) -> list[float | None]:
    """Return the half-width of the last release's interval, for each bound on a user's events.

    Args:
        most: the bounds.
        steps, guarantee: number of steps and guarantee of the planned stream; None: nothing is
            planned.
        of: statistic of the planned stream; None: a count.
        level: probability with which the intervals hold.
        most_a_window, options: as in `Inspection.sweep`.

    Raises:
        InvalidInput: only one of steps and guarantee is given, or the statistic does not add up
            rows.

    >>> from counton import PureDP
    >>> one, two = planned_halfwidths([1, 2], 365, PureDP(1))
    >>> 1.9 < two / one < 2.1
    True
    """
    if (steps is None and options.get("around") is None) != (guarantee is None):
        raise InvalidInput(
            f"the error of the noise depends on {field('steps')} and a privacy loss, such as "
            f"{field('epsilon', 1)}; give both, or neither"
        )
    if guarantee is None:
        return [None] * len(most)
    statistic: Any = Count() if of is None else of
    if not isinstance(statistic, TallyStatistic) or statistic.card.declares is not None:
        raise InvalidInput(
            f"{statistic!r} bounds the rows of a user by its own options; give a plan for a "
            "statistic that adds up rows, such as count, sum or average"
        )
    from counton.planning.planner import plan_stream

    statistic = statistic.settle(guarantee, steps)
    row = statistic.contribution(batched=True, horizon=steps)
    found: list[float | None] = []
    for bound in most:
        a_window = None if most_a_window is None else min(most_a_window, bound)
        unit = Bounded(bound, most_a_window=a_window).bounding(row)
        told: StreamOptions = {"compare": False, "simple": steps == 1, **options}
        ranked = plan_stream(steps, guarantee, contribution=unit, shape=statistic.cells, **told)
        found.append(ranked.best.errors.halfwidth(ranked.steps, level) * statistic.error_of.largest)
    return found


def check_share(share: Any) -> float:
    """Return a share of users or of values as a float, after checking that it is above 0 and below
    1.

    Raises:
        InvalidInput: it is not.
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise InvalidInput(
            f"{field('share', share if isinstance(share, int | float | str) else None)} must be "
            f"above 0 and below 1; try {field('share', 0.95)}"
        )
    return float(share)


def plain(number: float) -> str:
    """Format a float with all its digits and without an exponent, as options are written.

    >>> plain(0.0), plain(-1024.0), plain(0.0009765625), plain(2.0**40)
    ('0', '-1024', '0.0009765625', '1099511627776')
    """
    return f"{int(number)}" if number == int(number) else repr(number)

"""The contribution bound: how much one protected unit can change, and in how many steps."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.arrays import to_data
from counton.base.distributions import (
    BoundedChange,
    Pattern,
    Sensitivity,
    pattern_from_dict,
    pattern_to_dict,
    scaled_norms,
)
from counton.base.errors import InvalidInputError, param
from counton.base.exact import (
    Number,
    check_integer,
    check_positive,
    exact,
    first_digits,
    quote,
    text,
)
from counton.base.lengths import PERIODS
from counton.privacy import value_grid

Relation = Literal["add_remove", "replace"]
#: Values of ``once``: with "group" no two events of one unit are in one cell.
OncePer = Literal["group"]

_ONCE = ("group",)
#: Relation, cells and steps of a contribution that bounds only the number of events.
_ANYWHERE = ("add_remove", 1, 1)
#: Default word for a protected unit.
ANY_UNIT = "unit"
_LONGEST_UNIT = 200
#: The ending of a unit's name that states a period, and the clock (time zone and column of times)
#: by which periods are counted: "'s day (UTC, time)".
_PART = re.compile(r"(?:'s (.+?)| within one window)( \(.+\))?$")
_LENGTHS = {name: length for length, name in PERIODS.items()}
_SECONDS = {"s": 1, "m": 60, "h": 3600}
#: Time zones differ by multiples of this many seconds. Periods that divide it end at the same times
#: in every zone.
_ZONES = 900

_MOST = 2**40  # noise for a larger change could not be summed in int64


def check_relation(name: str, relation: object) -> None:
    """Raise `InvalidInputError` unless a neighbouring relation is "add_remove" or "replace"."""
    if relation not in ("add_remove", "replace"):
        raise InvalidInputError(f"{name} is {quote(relation)}; give 'add_remove' or 'replace'")


def checked_unit(unit: object, label: str = "unit") -> str:
    """Check and normalise the name of a unit: Unicode form NFKC, single spaces.

    >>> checked_unit(" visiteur  égaré ") == "visiteur égaré"
    True
    """
    noun, clock = _apart(unit.strip()) if isinstance(unit, str) else ("", "")
    normalised = unicodedata.normalize("NFKC", noun).strip()
    word = " ".join(part for part in normalised.split(" ") if part)
    if not word or not (word + clock).isprintable():
        raise InvalidInputError(
            f"{label} is {quote(unit)}; it is the name of the protected unit: give a word such as "
            "'visitor', without control characters"
        )
    if len(word) > _LONGEST_UNIT:
        raise InvalidInputError(
            f"{label} has {len(word)} characters; it may have at most {_LONGEST_UNIT}: choose a "
            f"shorter word"
        )
    return word + clock


def canonical_unit(unit: str, units: Iterable[str]) -> str:
    """Return the name of a unit as ``units`` spells it; case and width of letters do not matter.

    A name that is not known is normalised (`checked_unit`). The time zone and column in brackets
    count letter by letter, since columns may differ in case alone.

    >>> canonical_unit("Visitor", ["order", "visitor"]), canonical_unit("user", ["order"])
    ('visitor', 'user')
    """
    unit = checked_unit(unit)
    alike = {_fold(word): word for word in units}
    return alike.get(_fold(unit), unit)


def _fold(unit: str) -> tuple[str, str]:
    word, clock = _apart(unit)
    return unicodedata.normalize("NFKC", word.casefold()).casefold(), clock


def _apart(unit: str) -> tuple[str, str]:
    """Split "reader's day (UTC, time)" into "reader's day" and " (UTC, time)", perhaps ""."""
    match = _PART.search(unit)
    clock = "" if match is None else match[2] or ""
    return unit.removesuffix(clock), clock


def with_clock(unit: str, *clock: str) -> str:
    """Append a clock to the name of a unit that is somebody's period, such as a reader's day.

    The clock is the time zone and the column of times that decide where a day begins. Days by two
    clocks overlap, so they are two kinds of units. Any other unit is unchanged.

    >>> with_clock("reader's day", "UTC", "seen at"), with_clock("reader", "UTC", "seen at")
    ("reader's day (UTC, seen at)", 'reader')
    """
    if _PART.search(unit) is None or clock_of(unit):
        return unit
    written = [  # in quotes if brackets could garble the name
        name
        if re.fullmatch(r"[\w/+-]+( [\w/+-]+)*", name) and name.isprintable()
        else json.dumps(name, ensure_ascii=not name.isprintable())
        for name in clock
    ]
    return f"{unit} ({', '.join(written)})"


def clock_of(unit: str) -> str:
    """Return the time zone and column that a unit names in brackets, or ""."""
    return _apart(unit)[1].strip()


def without_clock(unit: str) -> str:
    """Return the name of a unit without the time zone and column in brackets."""
    return _apart(unit)[0]


def base_unit(unit: str) -> str:
    """Return the name of a unit without its period: "reader" for "reader's month"."""
    return _PART.sub("", unit)


def states_period(unit: str) -> bool:
    """Return whether a unit's name states a period of somebody, such as a reader's day."""
    return _PART.search(unit) is not None


def unit_without_period(unit: str, per: str | None) -> str:
    """Return "reader" for "reader's day" if the period ``per`` is a day ("1d").

    A unit that states no period is unchanged, as is any unit if ``per`` is None.

    Raises:
        InvalidInputError: the unit names another period.

    >>> unit_without_period("reader's day", "1d"), unit_without_period("reader's day", None)
    ('reader', "reader's day")
    """
    if per is None or not states_period(unit):
        return unit
    whole = base_unit(unit)
    if unit != f"{whole}'s {PERIODS.get(per, per)}":
        raise InvalidInputError(
            f"{param('privacy_unit', unit)} names another period than "
            f"{param('contribution_period', per)}; give {param('privacy_unit', whole)}, because "
            "the contribution period decides"
        )
    return whole


def is_part(unit: str, of: str) -> bool:
    """Return whether each ``unit`` lies within one ``of``, as a reader's day within his month.

    A release that protects the larger unit protects the smaller.

    - A reader contains each of his periods. A longer period contains a shorter one that cannot
      begin in one and end in the next: a month does not contain a week. Periods by two clocks
      (`with_clock`) do not contain each other.
    - Units with different nouns do not contain each other: nobody knows whose visit it is.

    If units are added or removed, a guarantee for the larger unit counts twice for the smaller one
    (`guarantees.when_replaced`): if rows of a reader's day are removed, other rows of the reader
    may count in their place.

    >>> is_part("reader's day", "reader's week"), is_part("reader's week", "reader's month")
    (True, False)
    """
    if canonical_unit(unit, [of]) == of:
        return True
    match = _PART.search(unit)
    other = _PART.search(of)
    if canonical_unit(base_unit(unit), [base_unit(of)]) != base_unit(of) or match is None:
        return False
    return other is None or (match[2] == other[2] and _lies_within(match[1], other[1]))


def _lies_within(short: str | None, long: str | None) -> bool:
    """Return whether each ``short`` period, such as a day, lies within one ``long``."""
    lengths = [
        re.fullmatch(r"(\d+)(s|m|h|d|w|mo)", _LENGTHS.get(period or "", period or ""))
        for period in (short, long)
    ]
    if lengths[0] is None or lengths[1] is None:
        return False
    (few, small), (many, large) = (
        (int(length[1]), length[2]) for length in lengths if length is not None
    )
    if small in _SECONDS:
        few *= _SECONDS[small]
        return (many * _SECONDS[large] if large in _SECONDS else _ZONES) % few == 0
    if small == large:
        return many % few == 0
    return (few, small) == (1, "d") and large in ("w", "mo")


@dataclass(frozen=True, slots=True)
class ContributionBound:
    """The contribution bound: protected unit, neighbouring relation, and change by one unit.

    Build it with a class method. Units that exceed the limits are not protected as stated: keep
    only the first few events of each.

    A unit counts in at most ``steps`` steps, any two of them at least ``separation`` apart, and in
    each in up to ``cells`` cells by up to ``per_cell``. There are two other forms:

    - With ``every`` a unit counts in at most ``steps`` consecutive members of i, i + every, i + 2
      every, ... for one i, and may miss some. If they need not be consecutive, state
      ``separation=every`` instead.
    - With ``most`` a unit has at most ``most`` events, in any steps and cells.

    Attributes:
        relation: "add_remove" if neighbouring datasets differ by a unit that is added or removed,
            "replace" if one unit is replaced by another.
        cells: the most cells in which a unit counts in one step.
        per_cell: the most by which one cell differs between neighbouring datasets: an integer for
            counts, a multiple of the resolution for values.
        lower, upper, resolution: in data units: values are clipped to [lower, upper] and rounded to
            multiples of the resolution; None for counts.
        steps: the most steps of a unit; None for a schedule without an end.
        separation: the least distance of any two of them.
        every: steps from one scheduled step to the next.
        most: the most events of a unit, each in one cell of any step by up to ``per_cell``.
        most_a_step: the most of these events in one step; ``steps`` is then ``most / most_a_step``
            rounded up.
        once: "group" if no two of these events are in one cell, whatever their steps.
        unit: the name of a protected unit; "unit" takes it from other streams of the state.
        pattern: how one unit changes the counts over the steps; see `of_pattern`.
        words: the pattern in words.

    >>> print(ContributionBound.add_remove(steps=3, separation=7, unit="visitor"))
    one visitor added or removed, counted in one cell of each of up to 3 steps, at least 7 apart, by
    at most 1
    """

    relation: Relation
    cells: int
    per_cell: int
    lower: Fraction | None = None
    upper: Fraction | None = None
    resolution: Fraction | None = None
    steps: int | None = None
    separation: int = 1
    every: int | None = None
    unit: str = "unit"
    most: int | None = None
    once: OncePer | None = None
    pattern: Pattern | None = None
    words: str = ""
    most_a_step: int | None = None

    def __post_init__(self) -> None:
        check_relation("neighbours", self.relation)
        if self.steps is None and self.every is None:
            object.__setattr__(self, "steps", 1)
        most = "state the most that one unit can change"
        for name in ("cells", "per_cell", "steps", "separation", "every", "most", "most_a_step"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_integer(name, value, 1, _MOST, most))
        if self.most_a_step is not None:
            self._check_most_a_step()
        elif self.most is not None and (self.relation, self.cells, self.steps) != _ANYWHERE:
            raise InvalidInputError(
                f"most is {self.most}, which bounds the events of a unit, so cells and steps "
                "cannot be bounded too: leave cells and steps out, and count units as added or "
                "removed"
            )
        if self.pattern is not None and (
            (self.cells, self.per_cell, self.steps, self.most) != (1, 1, 1, None)
            or self.resolution is not None
            or not self.words
        ):
            raise InvalidInputError(
                f"pattern is {self.pattern!r}, which already states the whole change by a unit: "
                "leave cells, steps and bounds out, and describe the pattern in words"
            )
        if self.once is not None and (self.most is None or self.once not in _ONCE):
            raise InvalidInputError(
                f"once is {self.once!r}; give {' or '.join(map(repr, _ONCE))}, together with most, "
                "or None"
            )
        if self.every is not None and self.separation != 1:
            raise InvalidInputError(
                f"separation is {self.separation} and every is {self.every}, but with every a unit "
                "follows a fixed schedule, which already states the distance of its steps: leave "
                "separation out"
            )
        if self.every is not None and self.steps == 1:
            raise InvalidInputError(
                f"every is {self.every} and steps is 1, but a schedule needs at least 2 steps: "
                "give the number of consecutive steps of the schedule, or leave steps out for no "
                "limit"
            )
        if self.steps == 1:  # one step has no distance
            object.__setattr__(self, "separation", 1)
        object.__setattr__(self, "unit", checked_unit(self.unit))

    def _check_most_a_step(self) -> None:
        if self.most is None or self.most_a_step is None or self.most < self.most_a_step:
            raise InvalidInputError(
                f"most_a_step is {self.most_a_step} and most is {self.most}, but a unit cannot "
                "have more events in one step than in all steps: give most, at least as large as "
                "most_a_step"
            )
        steps = -(-self.most // self.most_a_step)
        if (
            (self.relation, self.cells) != _ANYWHERE[:2]
            or self.steps not in (1, steps)
            or ((self.separation, self.every, self.once) != (1, None, None))
        ):
            raise InvalidInputError(
                f"most_a_step is {self.most_a_step} and most is {self.most}, which already bounds "
                f"a unit to {steps} steps: leave steps, cells, separation, every and once out, and "
                "count units as added or removed"
            )
        object.__setattr__(self, "steps", steps)

    @classmethod
    def add_remove(
        cls,
        cells: int = 1,
        per_cell: int = 1,
        steps: int | None = None,
        separation: int = 1,
        every: int | None = None,
        unit: str = "unit",
    ) -> ContributionBound:
        """Return the bound for a unit that is added or removed, with all its counts.

        It counts in up to ``cells`` cells of each of its steps, by up to ``per_cell`` each.

        Args:
            cells: the most cells in which a unit counts in one step.
            per_cell: the most by which a unit changes one cell in one step.
            steps: the most steps of a unit. Default: 1, or no limit with ``every``.
            separation: the least distance of two steps of a unit.
            every: steps from one scheduled step to the next. Default: no schedule.
            unit: the name of a protected unit, such as "visitor".

        Raises:
            InvalidInputError: an amount is not in 1..2^40, amounts contradict each other, or the
                name of the unit is empty or unprintable.
        """
        return cls("add_remove", cells, per_cell, None, None, None, steps, separation, every, unit)

    @classmethod
    def replace(
        cls,
        cells: int = 1,
        per_cell: int = 1,
        steps: int | None = None,
        separation: int = 1,
        every: int | None = None,
        unit: str = "unit",
    ) -> ContributionBound:
        """Return the bound for a unit that is replaced by another one.

        Old and new unit count in the same steps, in up to ``cells`` cells of each, so up to ``2 *
        cells`` cells change, by ``per_cell`` at most. (A new unit in other steps is no replacement:
        one is removed, one is added.)

        Args:
            cells: the most cells in which each of the two units counts in one step.
            per_cell: the most by which one cell changes in one step.
            steps: the most steps of a unit. Default: 1, or no limit with ``every``.
            separation: the least distance of two steps of a unit.
            every: steps from one scheduled step to the next. Default: no schedule.
            unit: the name of a protected unit, such as "visitor".

        Raises:
            InvalidInputError: as for `add_remove`.
        """
        return cls("replace", cells, per_cell, None, None, None, steps, separation, every, unit)

    @classmethod
    def values(
        cls,
        lower: Number,
        upper: Number,
        resolution: Number,
        neighbours: Relation = "add_remove",
        steps: int | None = None,
        separation: int = 1,
        every: int | None = None,
        unit: str = "unit",
    ) -> ContributionBound:
        """Return the bound for a unit that adds one real value to one cell in each of its steps.

        Values are clipped to [``lower``, ``upper``] and rounded to multiples of ``resolution``, in
        which a unit that is added or removed changes its cell by at most ``max(|lower|, |upper|) /
        resolution``. A replaced unit may also change it by ``(upper - lower) / resolution``.

        Args:
            lower: the least value after clipping, in data units; a multiple of ``resolution``.
            upper: the largest value after clipping, above ``lower``; a multiple of ``resolution``.
            resolution: the finest difference that matters, above 0, in data units.
            neighbours: "add_remove" if neighbouring datasets differ by a unit that is added or
                removed, "replace" if one unit is replaced by another.
            steps: the most steps of a unit. Default: 1, or no limit with ``every``.
            separation: the least distance of two steps of a unit.
            every: steps from one scheduled step to the next. Default: no schedule.
            unit: the name of a protected unit, such as "visitor".

        Raises:
            InvalidInputError: bounds that are not finite, ascending multiples of ``resolution``, or
                a resolution that is not above 0, or too fine.

        >>> ContributionBound.values(-5, 100, resolution=0.01).per_cell
        10000
        """
        low = exact(lower, "lower")
        high = exact(upper, "upper")
        step = check_positive("resolution", resolution, "state the finest difference that matters")
        if low >= high:
            raise InvalidInputError(
                f"lower is {_short(low)} and upper is {_short(high)}, but lower must be below "
                "upper: swap the bounds or widen them"
            )
        for name, bound in (("lower", low), ("upper", high)):
            if (bound / step).denominator != 1:
                below = (bound // step) * step
                raise InvalidInputError(
                    f"{name} is {_short(bound)}, which is not a multiple of the resolution "
                    f"{_short(step)}; give {_short(below)} or {_short(below + step)}, the nearest "
                    "multiples"
                )
        most = max(abs(low), abs(high))
        change = max(most, high - low) if neighbours == "replace" else most
        if change / step > _MOST:
            least = step
            cells = Fraction(change // step)
            while change / least > _MOST:
                least *= 1000
            raise InvalidInputError(
                f"resolution is {_short(step)}, so one unit may change a sum by {_short(cells)} "
                "times the resolution; at most 2^40 times are allowed: give a resolution of at "
                f"least {_short(least)}, or narrower bounds"
            )
        size = int(change / step)
        return cls(neighbours, 1, size, low, high, step, steps, separation, every, unit)

    @classmethod
    def events(
        cls,
        most: int,
        *,
        most_a_step: int | None = None,
        once: OncePer | None = None,
        bounds: ContributionBound | None = None,
        unit: str = "unit",
    ) -> ContributionBound:
        """Return the bound for a unit with up to ``most`` events in any cells and steps.

        The unit is added or removed. The norms are at most ``most`` times those of one event. With
        ``once="group"`` the squared 2-norm is ``most`` times that of one event. With
        ``most_a_step`` they are at most those of a unit that counts by ``most_a_step`` in each of
        ``most / most_a_step`` steps.

        Args:
            most: the most events of a unit in the whole stream.
            most_a_step: the most of these events in one step. Default: ``most``.
            once: "group" if no two events of a unit are in one cell, whatever their steps. Default:
                they may be.
            bounds: the clipping of each event's value, a result of `values`. Default: events are
                counted.
            unit: the name of a protected unit, such as "visitor".

        Raises:
            InvalidInputError: ``most`` is not in 1..2^40, the name of the unit is empty or
                unprintable, or ``most_a_step`` exceeds ``most``.

        >>> print(ContributionBound.events(20, most_a_step=2, unit="visitor"))
        one visitor added or removed, with at most 20 events counted, each by at most 1, at most 2
        of them in one step
        """
        # All events may be in one step and cell, where they move the nodes (measurements) most.
        # With once="group" no two events enter the same node.
        #
        # With w = most_a_step, let step s change by d_s with 1-norm a_s: each a_s is at most w, and
        # their sum at most most. Every sequence a is a mixture of those with w in as many steps as
        # most allows, the rest in one more, and 0 elsewhere. Norms are convex, so for fixed
        # directions of d one of these is at least as far. It changes ceil(most / w) steps, each by
        # w or less. So the 1-norm is at most w times, and the squared 2-norm at most w^2 times, the
        # one a strategy states for a unit in as many steps.
        bound = cls.add_remove() if bounds is None else bounds
        return replace(bound, most=most, most_a_step=most_a_step, once=once, unit=unit)

    def in_steps(self, times: int) -> ContributionBound:
        """Return the bound for a unit that counts in up to ``times`` steps as it does here in one.

        Args:
            times: the most steps in which the unit counts, from 1.

        >>> print(ContributionBound.add_remove(unit="visit").in_steps(3))
        one visit added or removed, counted in one cell of each of up to 3 steps by at most 1
        """
        if isinstance(self.pattern, BoundedChange):
            # Norms of the sum of several changes are at most the sums of their norms.
            pattern = replace(self.pattern.scaled_by(times), single_step=False)
            return replace(self, pattern=pattern, words=f"{self.words}, up to {times:,} times")
        if self.most is not None:
            return replace(self, most=self.most * times, most_a_step=self.most, steps=1)
        assert self.every is None
        assert self.steps is not None
        return replace(self, steps=self.steps * times, separation=1)

    @property
    def without_step_limit(self) -> ContributionBound:
        """This bound without the limit ``most_a_step``."""
        return replace(self, most_a_step=None, steps=1)

    @classmethod
    def of_pattern(
        cls, pattern: Pattern, words: str, *, relation: Relation = "add_remove", unit: str = "unit"
    ) -> ContributionBound:
        """Return the bound for a unit whose changes of the counts follow a pattern over the steps.

        A pattern may lower counts as well as raise them.

        Args:
            pattern: `counton.base.distributions.Runs`, `Alternating` or `BoundedChange`.
            words: the change by one unit in words that follow its name.
            relation: the neighbouring relation: "add_remove" or "replace".
            unit: the name of a protected unit, such as "visitor".

        Raises:
            InvalidInputError: ``words`` is empty, or the name of the unit is empty or unprintable.

        >>> from counton.base.distributions import BoundedChange
        >>> weight = "which changes the weight of the forest by at most 2, up and then down"
        >>> print(ContributionBound.of_pattern(BoundedChange(4, 8), weight, unit="edge"))
        one edge added or removed, which changes the weight of the forest by at most 2, up and then
        down
        """
        return cls(relation, 1, 1, unit=unit, pattern=pattern, words=words)

    @property
    def signed(self) -> bool:
        """Whether adding a unit can lower a count: assumed for all values and patterns."""
        return self.pattern is not None or self.resolution is not None

    @property
    def value_bounds(self) -> tuple[Fraction, Fraction, Fraction] | None:
        """Lower bound, upper bound and resolution of values, in data units; None for counts."""
        if self.lower is None or self.upper is None or self.resolution is None:
            return None
        return self.lower, self.upper, self.resolution

    @property
    def neighbours(self) -> str:
        """The neighbouring relation in words, such as "added or removed"."""
        return "added or removed" if self.relation == "add_remove" else "replaced by another"

    @property
    def acts_once(self) -> bool:
        """Whether a unit counts in one step only; False for every pattern (`of_pattern`)."""
        return self.steps == 1 and self.most in (None, 1) and self.pattern is None

    @property
    def in_one_step(self) -> bool:
        """Whether one unit changes one step only, by the limit ``steps`` or by its pattern."""
        return self.acts_once or (
            isinstance(self.pattern, BoundedChange) and self.pattern.single_step
        )

    def describe(self, unit: str | None = None, *, steps: bool = True) -> str:
        """Return protected unit and neighbouring relation in words.

        Args:
            unit: the name of the unit in the text. Default: that of this bound.
            steps: whether the text states steps; a table has none.

        >>> ContributionBound.replace(cells=2).describe("visitor", steps=False)
        'one visitor, counted in up to 2 cells by at most 1 each, replaced by another'
        """
        unit_phrase = f"one {unit or self.unit}"
        change = self.change_in_words(steps=steps)
        if self.relation == "replace":  # else the change would be read as that of "another"
            return f"{unit_phrase}, {change}, {self.neighbours}"
        return f"{unit_phrase} {self.neighbours}, {change}"

    def change_in_words(self, *, steps: bool = True) -> str:
        """Return the most that one unit changes, as words that can follow the unit's name.

        Args:
            steps: whether the text states steps; a table has none.

        >>> ContributionBound.add_remove().change_in_words()
        'counted in one cell of one step by at most 1'
        """
        if self.pattern is not None:
            return self.words
        if self.most is not None:
            return self._events_in_words()
        where = f" of {self._steps_in_words()}" if steps else ""
        if self.resolution is not None:
            return f"whose value, {self._clipped_in_words()}, is added to one cell{where}"
        cells = "one cell" if self.cells == 1 else f"up to {self.cells:,} cells"
        each_cell = " each" if self.cells > 1 else ""
        comma = "," if where.count(",") else ""
        return f"counted in {cells}{where}{comma} by at most {self.per_cell:,}{each_cell}"

    def _clipped_in_words(self) -> str:
        assert self.lower is not None
        assert self.upper is not None
        return (
            f"clipped to [{text(self.lower)}, {text(self.upper)}] and rounded to multiples of "
            f"{text(self._step)}"
        )

    def _events_in_words(self) -> str:
        where = ""
        if self.most == 1:
            where = "in one cell of one step"
        elif self.once == "group":
            where = "no two of them in the same cell"
        elif self.most_a_step is not None:
            where = f"at most {self.most_a_step:,} of them in one step"
        events = "one event" if self.most == 1 else f"{self.most:,} events"
        if self.resolution is not None:
            values = "its value" if self.most == 1 else "each value"
            clipped = f"{values} {self._clipped_in_words()}"
            return ", ".join(filter(None, [f"with at most {events} counted", where, clipped]))
        if self.most == 1:
            return f"with at most one event counted, {where} by at most {self.per_cell:,}"
        counted_events = f"with at most {events} counted, each by at most {self.per_cell:,}"
        return ", ".join(filter(None, [counted_events, where]))

    def _steps_in_words(self) -> str:
        if self.every is not None:
            every = "every step" if self.every == 1 else f"every {self.every:,}th step"
            if self.steps is None:
                return f"{every} from any one on"
            row = f"{self.steps:,} scheduled steps in a row of which it may miss some"
            return f"{every} from any one on, {row}"
        if self.steps is None or self.steps == 1:
            return "one step"
        apart = "" if self.separation == 1 else f", at least {self.separation:,} apart"
        return f"each of up to {self.steps:,} steps{apart}"

    def __str__(self) -> str:
        return self.describe()

    def sensitivities(self, single: Sensitivity, cells: int) -> Sensitivity:
        """Return the sensitivity of all nodes together to one unit.

        The result and ``single`` are multiples of the unit in which the strategy draws integer
        noise.

        Args:
            single: the sensitivity to a unit that counts by 1 in one cell of each of its steps.
            cells: number of cells of a step.

        Raises:
            InvalidInputError: no cells, or a pattern over several steps, whose change a strategy
                knows.

        >>> ContributionBound.replace(cells=2).sensitivities(Sensitivity(3, 3, ((1, 3),)), cells=10)
        Sensitivity(l1=12, l2_squared=12, entries=((1, 12),))
        """
        # A unit changes step s by a vector d_s, hence the nodes by the sum of (column s of C) x
        # d_s. Norms multiply: |C e_s| |d_s| in the 1-norm, <C e_s, C e_t> <d_s, d_t> in the squared
        # 2-norm.
        if cells < 1:
            raise InvalidInputError(
                f"the vector of a step has {cells} cells; it must have at least 1"
            )
        if isinstance(self.pattern, BoundedChange) and self.pattern.single_step:
            return Sensitivity(
                single.l1 * self.pattern.l1, single.l2_squared * self.pattern.l2_squared
            )
        if self.pattern is not None:
            raise InvalidInputError(
                f"the contribution is {self}, a pattern over the steps of a stream, but a table "
                "has no steps: release a stream"
            )
        l1, l2_squared, changes = self._change(cells)
        if self.most is not None and self.once is None:
            # Events in one step and cell are the worst arrangement: |sum of C e_s| is at most the
            # sum of the norms. The entries describe many events, so they do not give one worst
            # change.
            together = self.most_a_step or self.most
            l1, l2_squared = scaled_norms(l1, l2_squared, by=together)
            changes = changes if together == 1 else None
        entries = None
        if single.entries is not None and changes is not None:
            size, count = changes
            entries = tuple(
                (size * magnitude, count * nodes) for magnitude, nodes in single.entries
            )
        return Sensitivity(single.l1 * l1, single.l2_squared * l2_squared, entries)

    def _change(self, cells: int) -> tuple[int, int, tuple[int, int] | None]:
        """Return the 1-norm and squared 2-norm of the largest change of a step by one unit.

        The third result is (size, number) if the worst change is ``number`` cells by ``size`` each,
        in multiples of the resolution; None if no single change is the worst.
        """
        size = self.per_cell
        if self.once == "group" and self.most is not None:
            # Events in different cells enter different nodes, whatever their steps.
            count = min(self.most, cells)
        elif self.relation == "add_remove":
            count = min(self.cells, cells)
        elif self.value_bounds is None:
            count = min(2 * self.cells, cells)
        else:
            # A value may change within its cell by `width`, or leave one cell for another.
            lower, upper, resolution = self.value_bounds
            width = int((upper - lower) / resolution)
            if cells == 1:
                return width, width**2, (width, 1)
            most = int(max(abs(lower), abs(upper)) / resolution)
            worst_change = (most, 2) if width <= most else None
            return 2 * most, max(width**2, 2 * most**2), worst_change
        return *scaled_norms(count, count, by=size), (size, count)

    def clip(self, values: value_grid.Numbers) -> NDArray[np.float64]:
        """Return values of single units as they are counted: clipped and rounded, in data units.

        Args:
            values: one value for each unit, in data units, in any shape.

        Raises:
            InvalidInputError: NaN, infinity or no number; for counts fractions and values beyond
                ``per_cell``.

        >>> ContributionBound.values(0, 10, resolution=0.5).clip([-3, 2.6, 99])
        array([ 0. ,  2.5, 10. ])
        """
        return np.asarray(to_data(self.to_grid(values), self._step), dtype=np.float64)

    def to_grid(self, values: value_grid.Numbers) -> NDArray[np.int64]:
        """Return values of single units as multiples of the resolution: int64, in their shape.

        Counts are never clipped: they are integers of at most ``per_cell``.

        Args:
            values: one value for each unit, in data units, in any shape.

        Raises:
            InvalidInputError: as for `clip`, with position and value.

        >>> ContributionBound.values(0, 10, resolution=0.5).to_grid([-3, 2.6, 99])
        array([ 0,  5, 20])
        """
        if self.value_bounds is None:
            return np.asarray(value_grid.counts(values, self.per_cell))
        return np.asarray(value_grid.clip(values, *self.value_bounds))

    def grid_total(self, totals: value_grid.Numbers) -> NDArray[np.int64]:
        """Return sums of values as exact multiples of the resolution: int64, in their shape.

        Floats may differ from a multiple by a hundredth of the resolution, which tolerates the
        rounding of float sums; without a resolution they are refused.

        Args:
            totals: sums of clipped values, or counts, in data units, in any shape.

        Raises:
            InvalidInputError: a total is no multiple of the resolution, NaN, infinite, or no
                number.
            SumOverflowError: a total beyond 2^62 times the resolution.

        >>> ContributionBound.values(0, 10, resolution=0.1).grid_total(0.1 + 0.2)
        array(3)
        """
        return np.asarray(value_grid.totals_and_extremes(totals, self.resolution)[0])

    def from_grid(self, totals: ArrayLike) -> NDArray[Any]:
        """Convert multiples of the resolution to data units: int64 for counts, else float64.

        Args:
            totals: multiples of the resolution, or counts, in any shape.
        """
        cells = np.asarray(totals)
        return cells if self.resolution is None else to_data(cells, self.resolution)

    @property
    def _step(self) -> Fraction:
        return Fraction(1) if self.resolution is None else self.resolution

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values from which `from_dict` rebuilds the contribution, without defaults.

        >>> ContributionBound.add_remove(steps=3).to_dict()
        {'neighbours': 'add_remove', 'cells': 1, 'per_cell': 1, 'steps': 3}
        """
        saved: dict[str, Any] = {"neighbours": self.relation}
        if self.value_bounds is None:
            saved |= {"cells": self.cells, "per_cell": self.per_cell}
        else:
            names = ("lower", "upper", "resolution")
            saved |= zip(names, map(text, self.value_bounds), strict=True)
        usual = ContributionBound(self.relation, 1, 1)
        for name in ("steps", "separation", "every", "unit", "most", "most_a_step", "once"):
            value = getattr(self, name)
            if value not in (None, getattr(usual, name)):
                saved[name] = value
        if self.pattern is not None:
            saved |= {"pattern": pattern_to_dict(self.pattern), "words": self.words}
        return saved

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> ContributionBound:
        """Rebuild the contribution from `to_dict`.

        Args:
            saved: JSON values that ``to_dict`` returned.

        Raises:
            InvalidInputError: missing, unknown or invalid parameters.
        """
        try:
            if "resolution" in saved:
                names = ("most", "most_a_step", "once")
                events = {name: saved[name] for name in names if name in saved}
                rest = {name: value for name, value in saved.items() if name not in events}
                return replace(cls.values(**rest), **events)
            parameters = dict(saved)
            if "pattern" in parameters:
                parameters["pattern"] = pattern_from_dict(parameters["pattern"])
            return cls(
                parameters.pop("neighbours"),
                parameters.pop("cells"),
                parameters.pop("per_cell"),
                **parameters,
            )
        except (KeyError, TypeError) as error:
            raise InvalidInputError(
                f"the saved contribution {saved} cannot be read ({error}): restore it from a copy"
            ) from error


def _short(value: Fraction) -> str:
    """Return a number as text for a message: exact up to 40 characters, else rounded."""
    exactly = text(value)
    return exactly if len(exactly) <= 40 else first_digits(value)

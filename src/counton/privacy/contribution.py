"""The contribution bound: how much one protected unit can change, and in how many steps."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.base.arrays import IntegersOrFloats, to_data
from counton.base.distributions import Pattern, Sensitivity, pattern_from_dict
from counton.base.errors import InvalidInputError
from counton.base.exact import Number, check_positive, exact, first_digits, quote, text
from counton.base.lengths import PERIODS, Length
from counton.privacy import value_grid
from counton.privacy.unit_changes import (
    LARGEST_CHANGE,
    Amount,
    BoundedCounts,
    BoundedEvents,
    ClippedValues,
    EventsAnywhere,
    EventsInDifferentCells,
    EventsPerStep,
    Occurrences,
    PatternOverSteps,
    ScheduledSteps,
    SpacedSteps,
    check_amount,
)
from counton.privacy.unit_changes import Relation as Relation

#: Values of ``once``: with "group" no two events of one unit are in one cell.
OncePer = Literal["group"]

_ONCE_VALUES = ("group",)
#: Names of the limits of steps in a saved bound.
_LIMITS = ("steps", "separation", "every")
#: Default word for a protected unit.
ANY_UNIT = "unit"
_LONGEST_UNIT = 200
#: The ending of a unit's name that states a period, and the clock (time zone and column of times)
#: by which periods are counted: "'s day (UTC, time)".
_PERIOD_ENDING = re.compile(r"(?:'s (.+?)| within one window)( \(.+\))?$")
_LENGTHS = {name: length for length, name in PERIODS.items()}
#: Time zones differ by multiples of this many microseconds. Periods that divide it end at the same
#: times in every zone.
_ZONE_UNIT_US = 900_000_000


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
    match = _PERIOD_ENDING.search(unit)
    clock = "" if match is None else match[2] or ""
    return unit.removesuffix(clock), clock


def with_clock(unit: str, *clock: str) -> str:
    """Append a clock to the name of a unit that is somebody's period, such as a reader's day.

    The clock is the time zone and the column of times that decide where a day begins. Days by two
    clocks overlap, so they are two kinds of units. Any other unit is unchanged.

    >>> with_clock("reader's day", "UTC", "seen at"), with_clock("reader", "UTC", "seen at")
    ("reader's day (UTC, seen at)", 'reader')
    """
    if _PERIOD_ENDING.search(unit) is None or clock_of(unit):
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
    return _PERIOD_ENDING.sub("", unit)


def states_period(unit: str) -> bool:
    """Return whether a unit's name states a period of somebody, such as a reader's day."""
    return _PERIOD_ENDING.search(unit) is not None


def names_other_period(unit: str, per: str | None) -> bool:
    """Return whether a unit's name states a period, and another one than ``per``.

    >>> names_other_period("reader's day", "1w"), names_other_period("reader's day", "1d")
    (True, False)
    """
    if per is None or not states_period(unit):
        return False
    return unit != f"{base_unit(unit)}'s {PERIODS.get(per, per)}"


def unit_without_period(unit: str, per: str | None) -> str:
    """Return "reader" for "reader's day" if the period ``per`` is a day ("1d").

    A unit that states no period is unchanged, as is any unit if ``per`` is None. No unit names
    another period (`names_other_period`): the options of its job were refused.

    >>> unit_without_period("reader's day", "1d"), unit_without_period("reader's day", None)
    ('reader', "reader's day")
    """
    assert not names_other_period(unit, per)
    return unit if per is None else base_unit(unit)


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
    match = _PERIOD_ENDING.search(unit)
    other = _PERIOD_ENDING.search(of)
    if canonical_unit(base_unit(unit), [base_unit(of)]) != base_unit(of) or match is None:
        return False
    return other is None or (match[2] == other[2] and _lies_within(match[1], other[1]))


def _lies_within(short: str | None, long: str | None) -> bool:
    """Return whether each ``short`` period, such as a day, lies within one ``long``."""
    part = Length.parse(_LENGTHS.get(short or "", short or ""))
    whole = Length.parse(_LENGTHS.get(long or "", long or ""))
    if part is None or whole is None:
        return False
    if part.fixed_us is not None:
        whole_us = _ZONE_UNIT_US if whole.fixed_us is None else whole.fixed_us
        return whole_us % part.fixed_us == 0
    if part.unit == whole.unit:
        return whole.number % part.number == 0
    return part == Length(1, "d") and whole.unit in ("w", "mo")


@dataclass(frozen=True, slots=True)
class ContributionBound:
    """The contribution bound: protected unit, neighbouring relation, and change by one unit.

    Build it with a class method. Units that exceed the limits are not protected as stated: keep
    only the first few events of each.

    Attributes:
        relation: "add_remove" if neighbouring datasets differ by a unit that is added or removed,
            "replace" if one unit is replaced by another.
        occurrences: in which steps and cells a unit counts: `SpacedSteps`, `ScheduledSteps`,
            `EventsAnywhere`, `EventsPerStep`, `EventsInDifferentCells` or `PatternOverSteps` of
            `counton.privacy.unit_changes`.
        amount: by how much it counts in a cell: `BoundedCounts` or `ClippedValues`.
        unit: the name of a protected unit; "unit" takes it from other streams of the state.

    >>> print(ContributionBound.add_remove(steps=3, separation=7, unit="visitor"))
    one visitor added or removed, counted in one cell of each of up to 3 steps, at least 7 apart, by
    at most 1
    """

    relation: Relation
    occurrences: Occurrences = field(default_factory=SpacedSteps)
    amount: Amount = field(default_factory=BoundedCounts)
    unit: str = ANY_UNIT

    def __post_init__(self) -> None:
        check_relation("neighbours", self.relation)
        if isinstance(self.occurrences, BoundedEvents) and self.relation != "add_remove":
            raise InvalidInputError(
                f"the unit is replaced, and has a bounded number of events, {self.occurrences!r}: "
                "count units as added or removed"
            )
        if isinstance(self.occurrences, PatternOverSteps) and self.amount != BoundedCounts():
            raise InvalidInputError(
                f"pattern is {self.occurrences.pattern!r}, which already states the whole change "
                "by a unit: leave bounds of values out"
            )
        object.__setattr__(self, "unit", checked_unit(self.unit))

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
        occurrences = _in_steps(cells, steps, separation, every)
        return cls("add_remove", occurrences, BoundedCounts(per_cell), unit)

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
        occurrences = _in_steps(cells, steps, separation, every)
        return cls("replace", occurrences, BoundedCounts(per_cell), unit)

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
        if change / step > LARGEST_CHANGE:
            least = step
            cells = Fraction(change // step)
            while change / least > LARGEST_CHANGE:
                least *= 1000
            raise InvalidInputError(
                f"resolution is {_short(step)}, so one unit may change a sum by {_short(cells)} "
                "times the resolution; at most 2^40 times are allowed: give a resolution of at "
                f"least {_short(least)}, or narrower bounds"
            )
        occurrences = _in_steps(1, steps, separation, every)
        return cls(neighbours, occurrences, ClippedValues(low, high, step), unit)

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
        bound = cls.add_remove() if bounds is None else bounds
        has_steps = not isinstance(bound.occurrences, BoundedEvents)
        if bound.relation != "add_remove" or (has_steps and bound.occurrences != SpacedSteps()):
            raise InvalidInputError(
                f"most is {most}, which bounds the events of a unit, so cells and steps cannot be "
                "bounded too: leave cells and steps out, and count units as added or removed"
            )
        return cls("add_remove", _events(most, most_a_step, once), bound.amount, unit)

    def in_steps(self, times: int) -> ContributionBound:
        """Return the bound for a unit that counts in up to ``times`` steps as it does here in one.

        Args:
            times: the most steps in which the unit counts, from 1.

        >>> print(ContributionBound.add_remove(unit="visit").in_steps(3))
        one visit added or removed, counted in one cell of each of up to 3 steps by at most 1
        """
        return replace(self, occurrences=self.occurrences.repeated(times))

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
        return cls(relation, PatternOverSteps(pattern, words), unit=unit)

    @property
    def cells(self) -> int:
        """The most cells in which a unit counts in one step."""
        return self.occurrences.cells

    @property
    def steps(self) -> int | None:
        """The most steps of a unit; None for a schedule without an end."""
        return self.occurrences.steps

    @property
    def separation(self) -> int:
        """The least distance of two steps of a unit."""
        return self.occurrences.separation

    @property
    def every(self) -> int | None:
        """Steps from one scheduled step to the next; None without a schedule."""
        return self.occurrences.every

    @property
    def per_cell(self) -> int:
        """The most by which one cell differs: an integer, or a multiple of the resolution."""
        return self.amount.per_cell(self.relation)

    @property
    def resolution(self) -> Fraction | None:
        """The finest difference of values, in data units; None for counts."""
        return self.amount.resolution

    @property
    def pattern(self) -> Pattern | None:
        """The pattern that one unit's change of the counts follows, if it does (`of_pattern`)."""
        occurrences = self.occurrences
        return occurrences.pattern if isinstance(occurrences, PatternOverSteps) else None

    @property
    def signed(self) -> bool:
        """Whether adding a unit can lower a count: assumed for all values and patterns."""
        return self.pattern is not None or isinstance(self.amount, ClippedValues)

    @property
    def value_bounds(self) -> tuple[Fraction, Fraction, Fraction] | None:
        """Lower bound, upper bound and resolution of values, in data units; None for counts."""
        amount = self.amount
        if not isinstance(amount, ClippedValues):
            return None
        return amount.lower, amount.upper, amount.resolution

    @property
    def neighbours(self) -> str:
        """The neighbouring relation in words, such as "added or removed"."""
        return "added or removed" if self.relation == "add_remove" else "replaced by another"

    @property
    def acts_once(self) -> bool:
        """Whether a unit changes one step only, and counts in it: False for every pattern."""
        return self.occurrences.counts_in_one_step

    @property
    def in_one_step(self) -> bool:
        """Whether one unit changes one step only, by the limit ``steps`` or by its pattern."""
        return self.occurrences.changes_one_step

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
        return self.occurrences.in_words(self.amount, steps=steps)

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
        if cells < 1:
            raise InvalidInputError(
                f"the vector of a step has {cells} cells; it must have at least 1"
            )
        if self.pattern is not None and not self.in_one_step:
            raise InvalidInputError(
                f"the contribution is {self}, a pattern over the steps of a stream, but a table "
                "has no steps: release a stream"
            )
        occurrences = self.occurrences
        return occurrences.sensitivity_of_all_nodes(single, self.relation, self.amount, cells)

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
        return np.asarray(to_data(self.to_grid(values), self.amount.unit_of_grid), dtype=np.float64)

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
        return self.amount.to_grid(values)

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

    def from_grid(self, totals: ArrayLike) -> IntegersOrFloats:
        """Convert multiples of the resolution to data units: int64 for counts, else float64.

        Args:
            totals: multiples of the resolution, or counts, in any shape.
        """
        cells = np.asarray(totals)
        return cells if self.resolution is None else to_data(cells, self.resolution)

    def to_dict(self) -> dict[str, object]:
        """Return JSON values from which `from_dict` rebuilds the contribution, without defaults.

        >>> ContributionBound.add_remove(steps=3).to_dict()
        {'neighbours': 'add_remove', 'cells': 1, 'per_cell': 1, 'steps': 3}
        """
        saved = {"neighbours": self.relation, **self.amount.to_dict(self.cells)}
        unit = {} if self.unit == ANY_UNIT else {"unit": self.unit}
        occurrences = self.occurrences.to_dict()
        limits = {name: occurrences.pop(name) for name in _LIMITS if name in occurrences}
        return {**saved, **limits, **unit, **occurrences}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> ContributionBound:
        """Rebuild the contribution from `to_dict`.

        Args:
            saved: JSON values that ``to_dict`` returned.

        Raises:
            InvalidInputError: missing, unknown or invalid parameters.
        """
        rest = dict(saved)
        try:
            relation = rest.pop("neighbours")
            unit = rest.pop("unit", ANY_UNIT)
            if "resolution" in rest:
                bounds = {name: rest.pop(name) for name in ("lower", "upper", "resolution")}
                amount: Amount = cls.values(**bounds, neighbours=relation).amount
            else:
                amount = BoundedCounts(rest.pop("per_cell"))
            return cls(relation, _occurrences_from(rest), amount, unit)
        except (KeyError, TypeError) as error:
            raise InvalidInputError(
                f"the saved contribution {saved} cannot be read ({error}): restore it from a copy"
            ) from error


def _in_steps(
    cells: int, steps: int | None, separation: int, every: int | None
) -> SpacedSteps | ScheduledSteps:
    """Return the occurrences of a unit that counts in some steps, spaced or scheduled."""
    if every is None:
        return SpacedSteps(cells, 1 if steps is None else steps, separation)
    if check_amount("separation", separation) != 1:
        raise InvalidInputError(
            f"separation is {separation} and every is {every}, but with every a unit follows a "
            "fixed schedule, which already states the distance of its steps: leave separation out"
        )
    return ScheduledSteps(every, cells, steps)


def _events(most: int, most_a_step: int | None, once: OncePer | None) -> BoundedEvents:
    """Return the occurrences of a unit with a bounded number of events."""
    if once is not None and once not in _ONCE_VALUES:
        raise InvalidInputError(
            f"once is {once!r}; give {' or '.join(map(repr, _ONCE_VALUES))}, together with most, "
            "or None"
        )
    if most_a_step is None:
        return EventsAnywhere(most) if once is None else EventsInDifferentCells(most)
    events = EventsPerStep(most, most_a_step)
    if once is not None:
        raise InvalidInputError(
            f"most_a_step is {most_a_step} and most is {most}, which already bounds a unit to "
            f"{events.steps} steps: leave once out"
        )
    return events


def _occurrences_from(saved: dict[str, Any]) -> Occurrences:
    """Rebuild the occurrences of a unit from their values in `ContributionBound.to_dict`.

    Raises:
        KeyError, TypeError: a value is missing, unknown, or one of another form of occurrences.
    """
    rest = dict(saved)
    cells = rest.pop("cells", 1)
    occurrences: Occurrences
    if "pattern" in rest:
        occurrences = PatternOverSteps(pattern_from_dict(rest.pop("pattern")), rest.pop("words"))
    elif "most" in rest:
        once = rest.pop("once", None)
        occurrences = _events(rest.pop("most"), rest.pop("most_a_step", None), once)
    else:
        limits = {name: rest.pop(name) for name in _LIMITS if name in rest}
        occurrences = _in_steps(
            cells, limits.get("steps"), limits.get("separation", 1), limits.get("every")
        )
    if rest.pop("steps", occurrences.steps) != occurrences.steps or cells != occurrences.cells:
        raise TypeError("its cells and steps are those of another form")
    if rest:
        raise TypeError(f"{', '.join(rest)} is unknown")
    return occurrences


def _short(value: Fraction) -> str:
    """Return a number as text for a message: exact up to 40 characters, else rounded."""
    exactly = text(value)
    return exactly if len(exactly) <= 40 else first_digits(value)

"""How the events of one protected unit spread over steps and cells, and by how much each counts.

What excludes each other is a type. A unit counts in steps that are some distance apart
(`SpacedSteps`) or on a schedule (`ScheduledSteps`). Or the number of its events is bounded
(`EventsAnywhere`, `EventsPerStep`, `EventsInDifferentCells`). Or its change follows a pattern
(`PatternOverSteps`). An event counts by whole numbers (`BoundedCounts`), or has a clipped value
(`ClippedValues`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import (
    BoundedChange,
    Pattern,
    Sensitivity,
    pattern_to_dict,
    scaled_norms,
)
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, text
from counton.privacy import value_grid

Relation = Literal["add_remove", "replace"]

#: Noise for a larger change could not be summed in int64.
LARGEST_CHANGE = 2**40


def check_amount(name: str, value: object) -> int:
    """Return a number of events, cells or steps; `InvalidInputError` unless it is in 1..2^40."""
    remedy = "state the most that one unit can change"
    return check_integer(name, value, 1, LARGEST_CHANGE, remedy)


class StepChange(NamedTuple):
    """The largest change of one step by one unit, in multiples of the resolution.

    Attributes:
        l1: its 1-norm.
        l2_squared: its squared 2-norm.
        worst: size and number of cells of the worst change; None if no single change is the worst.
    """

    l1: int
    l2_squared: int
    worst: tuple[int, int] | None

    def of_nodes(self, single: Sensitivity) -> Sensitivity:
        """Return the sensitivity of all nodes, given that to a change of one cell by 1."""
        # A unit changes step s by a vector d_s, hence the nodes by the sum of (column s of C) x
        # d_s. Norms multiply: |C e_s| |d_s| in the 1-norm, <C e_s, C e_t> <d_s, d_t> in the squared
        # 2-norm.
        entries = None
        if single.entries is not None and self.worst is not None:
            size, count = self.worst
            entries = tuple(
                (size * magnitude, count * nodes) for magnitude, nodes in single.entries
            )
        return Sensitivity(single.l1 * self.l1, single.l2_squared * self.l2_squared, entries)


# ---------------------------------------------------------------------------------------- amounts
class Amount(Protocol):
    """By how much an event counts in its cell."""

    @property
    def resolution(self) -> Fraction | None:
        """The finest difference of values, in data units; None for counts."""

    @property
    def unit_of_grid(self) -> Fraction:
        """The size of the integer 1, in data units."""

    def per_cell(self, relation: Relation) -> int:
        """Return the largest change of one cell, in multiples of the resolution."""

    def change(self, relation: Relation, cells: int, of_cells: int) -> StepChange:
        """Return the largest change of one step.

        Args:
            relation: how neighbouring datasets differ.
            cells: in how many cells a unit counts.
            of_cells: number of cells of a step.
        """

    def to_grid(self, values: value_grid.Numbers) -> NDArray[np.int64]:
        """Return values of single units as multiples of the resolution: int64, in their shape."""

    def in_steps(self, cells: int, where: str) -> str:
        """Return words for a unit that counts in some cells of the steps in ``where``."""

    def of_events(self, most: int, where: str) -> str:
        """Return words for a unit of which so many events count, in ``where``; "" for anywhere."""

    def to_dict(self, cells: int) -> dict[str, Any]:
        """Return JSON values, with the number of cells in which a unit counts."""


@dataclass(frozen=True, slots=True)
class BoundedCounts:
    """An event changes the count of its cell.

    Attributes:
        most: the most by which it changes it.
    """

    most: int = 1
    resolution: ClassVar[None] = None
    unit_of_grid: ClassVar[Fraction] = Fraction(1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", check_amount("per_cell", self.most))

    def per_cell(self, relation: Relation) -> int:
        """Return the largest change of one cell."""
        return self.most

    def change(self, relation: Relation, cells: int, of_cells: int) -> StepChange:
        """Return the largest change of one step; see `Amount.change`."""
        changed = min(cells if relation == "add_remove" else 2 * cells, of_cells)
        return _change_of_cells(changed, self.most)

    def to_grid(self, values: value_grid.Numbers) -> NDArray[np.int64]:
        """Return counts of single units as int64, in their shape; they are never clipped."""
        return np.asarray(value_grid.counts(values, self.most))

    def in_steps(self, cells: int, where: str) -> str:
        """Return words for a unit that counts in some cells; see `Amount.in_steps`."""
        counted_in = "one cell" if cells == 1 else f"up to {cells:,} cells"
        each_cell = " each" if cells > 1 else ""
        comma = "," if "," in where else ""
        return f"counted in {counted_in}{where}{comma} by at most {self.most:,}{each_cell}"

    def of_events(self, most: int, where: str) -> str:
        """Return words for a unit of which some events count; see `Amount.of_events`."""
        if most == 1:
            return f"with at most one event counted, {where} by at most {self.most:,}"
        events = f"with at most {most:,} events counted, each by at most {self.most:,}"
        return ", ".join(filter(None, (events, where)))

    def to_dict(self, cells: int) -> dict[str, Any]:
        """Return JSON values, with the number of cells in which a unit counts."""
        return {"cells": cells, "per_cell": self.most}


@dataclass(frozen=True, slots=True)
class ClippedValues:
    """An event adds its value, clipped to bounds and rounded to multiples of a resolution.

    Attributes:
        lower, upper, resolution: in data units; the bounds are multiples of the resolution.
    """

    lower: Fraction
    upper: Fraction
    resolution: Fraction

    @property
    def unit_of_grid(self) -> Fraction:
        """The size of the integer 1, in data units: the resolution."""
        return self.resolution

    @property
    def _largest(self) -> int:
        return int(max(abs(self.lower), abs(self.upper)) / self.resolution)

    @property
    def _width(self) -> int:
        return int((self.upper - self.lower) / self.resolution)

    def per_cell(self, relation: Relation) -> int:
        """Return the largest change of one cell, in multiples of the resolution."""
        return self._largest if relation == "add_remove" else max(self._largest, self._width)

    def change(self, relation: Relation, cells: int, of_cells: int) -> StepChange:
        """Return the largest change of one step; see `Amount.change`."""
        if relation == "add_remove":
            return _change_of_cells(min(cells, of_cells), self._largest)
        # A value may change within its cell by `width`, or leave one cell for another.
        width = self._width
        if of_cells == 1:
            return StepChange(width, width**2, (width, 1))
        most = self._largest
        worst = (most, 2) if width <= most else None
        return StepChange(2 * most, max(width**2, 2 * most**2), worst)

    def to_grid(self, values: value_grid.Numbers) -> NDArray[np.int64]:
        """Return values of single units as multiples of the resolution, clipped."""
        return np.asarray(value_grid.clip(values, self.lower, self.upper, self.resolution))

    def in_steps(self, cells: int, where: str) -> str:
        """Return words for a unit that adds its value to a cell; see `Amount.in_steps`."""
        return f"whose value, {self._in_words()}, is added to one cell{where}"

    def of_events(self, most: int, where: str) -> str:
        """Return words for a unit of which some events count; see `Amount.of_events`."""
        events = "one event" if most == 1 else f"{most:,} events"
        values = "its value" if most == 1 else "each value"
        clipped = f"{values} {self._in_words()}"
        return ", ".join(filter(None, (f"with at most {events} counted", where, clipped)))

    def _in_words(self) -> str:
        return (
            f"clipped to [{text(self.lower)}, {text(self.upper)}] and rounded to multiples of "
            f"{text(self.resolution)}"
        )

    def to_dict(self, cells: int) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "lower": text(self.lower),
            "upper": text(self.upper),
            "resolution": text(self.resolution),
        }


def _change_of_cells(count: int, size: int) -> StepChange:
    """Return the change of some cells by the same size."""
    return StepChange(*scaled_norms(count, count, by=size), (size, count))


# ------------------------------------------------------------------------------------ occurrences
class Occurrences(Protocol):
    """In which steps and cells the events of one unit count."""

    @property
    def cells(self) -> int:
        """The most cells of one step in which a unit counts."""

    @property
    def steps(self) -> int | None:
        """The most steps in which a unit counts; None for a schedule without an end."""

    @property
    def separation(self) -> int:
        """The least distance of two of these steps."""

    @property
    def every(self) -> int | None:
        """Steps from one scheduled step to the next; None without a schedule."""

    @property
    def changes_one_step(self) -> bool:
        """Whether a unit changes one step only, by a limit or by its pattern."""

    @property
    def counts_in_one_step(self) -> bool:
        """Whether a unit changes one step only, and counts in it: False for every pattern."""

    def in_words(self, amount: Amount, *, steps: bool) -> str:
        """Return the change by one unit in words that can follow its name.

        Args:
            amount: by how much an event counts.
            steps: whether the text states steps; a table has none.
        """

    def sensitivity_of_all_nodes(
        self, single: Sensitivity, relation: Relation, amount: Amount, of_cells: int
    ) -> Sensitivity:
        """Return the sensitivity of all nodes together to one unit.

        Args:
            single: the sensitivity to a unit that counts by 1 in one cell of each of its steps.
            relation: how neighbouring datasets differ.
            amount: by how much an event counts.
            of_cells: number of cells of a step.
        """

    def repeated(self, times: int) -> Occurrences:
        """Return the occurrences of a unit that counts up to so many times as it does here."""

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, without defaults."""


class _CountedOccurrences(ABC):
    """Occurrences without a pattern: a unit counts in each step that it changes."""

    __slots__ = ()

    @property
    @abstractmethod
    def changes_one_step(self) -> bool:
        """Whether a unit changes one step only."""

    @property
    def counts_in_one_step(self) -> bool:
        """Whether a unit counts in one step only: the one that it changes."""
        return self.changes_one_step


class _StepOccurrences(_CountedOccurrences):
    """Occurrences in some steps, in a bounded number of cells of each."""

    __slots__ = ()
    cells: int

    def sensitivity_of_all_nodes(
        self, single: Sensitivity, relation: Relation, amount: Amount, of_cells: int
    ) -> Sensitivity:
        """Return the sensitivity of all nodes to one unit; see `Occurrences`."""
        return amount.change(relation, self.cells, of_cells).of_nodes(single)


class _EventOccurrences(_CountedOccurrences):
    """Occurrences of a bounded number of events."""

    __slots__ = ()
    most: int
    cells: ClassVar[int] = 1
    separation: ClassVar[int] = 1
    every: ClassVar[None] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", check_amount("most", self.most))

    @property
    @override
    def changes_one_step(self) -> bool:
        return self.most == 1

    @property
    @abstractmethod
    def _places(self) -> str:
        """Where several events may be, in words; "" for anywhere."""

    def in_words(self, amount: Amount, *, steps: bool) -> str:
        """Return the change by one unit in words; see `Occurrences.in_words`."""
        where = "in one cell of one step" if self.most == 1 else self._places
        return amount.of_events(self.most, where)


@dataclass(frozen=True, slots=True)
class SpacedSteps(_StepOccurrences):
    """A unit counts in some steps, any two of them some distance apart.

    Attributes:
        cells: the most cells in which it counts in one step.
        steps: the most steps.
        separation: the least distance of any two of them.
    """

    cells: int = 1
    steps: int = 1
    separation: int = 1
    every: ClassVar[None] = None

    def __post_init__(self) -> None:
        for name in ("cells", "steps", "separation"):
            object.__setattr__(self, name, check_amount(name, getattr(self, name)))
        if self.steps == 1:  # one step has no distance
            object.__setattr__(self, "separation", 1)

    @property
    @override
    def changes_one_step(self) -> bool:
        return self.steps == 1

    def in_words(self, amount: Amount, *, steps: bool) -> str:
        """Return the change by one unit in words; see `Occurrences.in_words`."""
        where = "one step"
        if self.steps > 1:
            apart = "" if self.separation == 1 else f", at least {self.separation:,} apart"
            where = f"each of up to {self.steps:,} steps{apart}"
        return amount.in_steps(self.cells, f" of {where}" if steps else "")

    def repeated(self, times: int) -> SpacedSteps:
        """Return the occurrences of a unit that counts up to so many times as it does here."""
        return replace(self, steps=self.steps * times, separation=1)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, without defaults."""
        steps = {"steps": self.steps} if self.steps > 1 else {}
        return steps | ({"separation": self.separation} if self.separation > 1 else {})


@dataclass(frozen=True, slots=True)
class ScheduledSteps(_StepOccurrences):
    """A unit counts in consecutive members of i, i + every, i + 2 every, ... for one i.

    Attributes:
        every: steps from one scheduled step to the next.
        cells: the most cells in which it counts in one step.
        steps: the most steps, some of which it may miss; None: no limit.
    """

    every: int
    cells: int = 1
    steps: int | None = None
    separation: ClassVar[int] = 1
    changes_one_step: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("cells", "steps", "every"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_amount(name, getattr(self, name)))
        if self.steps == 1:
            raise InvalidInputError(
                f"every is {self.every} and steps is 1, but a schedule needs at least 2 steps: "
                "give the number of consecutive steps of the schedule, or leave steps out for no "
                "limit"
            )

    def in_words(self, amount: Amount, *, steps: bool) -> str:
        """Return the change by one unit in words; see `Occurrences.in_words`."""
        every = "every step" if self.every == 1 else f"every {self.every:,}th step"
        where = f"{every} from any one on"
        if self.steps is not None:
            where += f", {self.steps:,} scheduled steps in a row of which it may miss some"
        return amount.in_steps(self.cells, f" of {where}" if steps else "")

    def repeated(self, times: int) -> Occurrences:
        """Refuse: the steps of two schedules are no schedule."""
        raise InvalidInputError(
            f"a unit that counts in {self} cannot count {times:,} times: leave every out"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, without defaults."""
        steps = {} if self.steps is None else {"steps": self.steps}
        return {**steps, "every": self.every}


@dataclass(frozen=True, slots=True)
class EventsAnywhere(_EventOccurrences):
    """A unit has a bounded number of events, all of which may be in one step and cell.

    Attributes:
        most: the most events.
    """

    most: int
    steps: ClassVar[int] = 1
    _places: ClassVar[str] = ""

    def sensitivity_of_all_nodes(
        self, single: Sensitivity, relation: Relation, amount: Amount, of_cells: int
    ) -> Sensitivity:
        """Return the sensitivity of all nodes to one unit; see `Occurrences`."""
        return _of_events_together(single, amount, of_cells, self.most)

    def repeated(self, times: int) -> EventsPerStep:
        """Return the occurrences of a unit that counts up to so many times as it does here."""
        return EventsPerStep(self.most * times, self.most)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"most": self.most}


@dataclass(frozen=True, slots=True)
class EventsPerStep(_EventOccurrences):
    """A unit has a bounded number of events, and a bounded number of them in one step.

    Attributes:
        most: the most events.
        most_a_step: the most of them in one step.
    """

    # Let step s change by d_s with 1-norm a_s: each a_s is at most w = most_a_step, and their sum
    # at most most. Every sequence a is a mixture of those with w in as many steps as most allows,
    # the rest in one more, and 0 elsewhere. Norms are convex, so for fixed directions of d one of
    # these is at least as far. It changes ceil(most / w) steps, each by w or less. So the 1-norm is
    # at most w times, and the squared 2-norm at most w^2 times, the one a strategy states for a
    # unit in as many steps.

    most: int
    most_a_step: int

    @override
    def __post_init__(self) -> None:
        for name in ("most", "most_a_step"):
            object.__setattr__(self, name, check_amount(name, getattr(self, name)))
        if self.most < self.most_a_step:
            raise InvalidInputError(
                f"most_a_step is {self.most_a_step} and most is {self.most}, but a unit cannot "
                "have more events in one step than in all steps: give most, at least as large as "
                "most_a_step"
            )

    @property
    def steps(self) -> int:
        """The most steps of a unit whose events are as close as they may be."""
        return -(-self.most // self.most_a_step)

    @property
    def without_step_limit(self) -> EventsAnywhere:
        """The same events without the bound for one step."""
        return EventsAnywhere(self.most)

    @property
    @override
    def _places(self) -> str:
        return f"at most {self.most_a_step:,} of them in one step"

    def sensitivity_of_all_nodes(
        self, single: Sensitivity, relation: Relation, amount: Amount, of_cells: int
    ) -> Sensitivity:
        """Return the sensitivity of all nodes to one unit; see `Occurrences`.

        ``single`` is that to a unit in ``steps`` steps.
        """
        return _of_events_together(single, amount, of_cells, self.most_a_step)

    def repeated(self, times: int) -> EventsPerStep:
        """Return the occurrences of a unit that counts up to so many times as it does here."""
        return self.without_step_limit.repeated(times)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, without defaults."""
        steps = {"steps": self.steps} if self.steps > 1 else {}
        return {**steps, "most": self.most, "most_a_step": self.most_a_step}


@dataclass(frozen=True, slots=True)
class EventsInDifferentCells(_EventOccurrences):
    """A unit has a bounded number of events, no two of them in one cell, whatever their steps.

    Attributes:
        most: the most events.
    """

    most: int
    steps: ClassVar[int] = 1
    _places: ClassVar[str] = "no two of them in the same cell"

    def sensitivity_of_all_nodes(
        self, single: Sensitivity, relation: Relation, amount: Amount, of_cells: int
    ) -> Sensitivity:
        """Return the sensitivity of all nodes to one unit; see `Occurrences`."""
        # Events in different cells enter different nodes, whatever their steps.
        return amount.change("add_remove", self.most, of_cells).of_nodes(single)

    def repeated(self, times: int) -> Occurrences:
        """Refuse: a unit that counts again may be in one cell twice."""
        raise InvalidInputError(
            f"a unit whose events are in different cells cannot count {times:,} times: leave once "
            "out"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"most": self.most, "once": "group"}


#: Occurrences of a bounded number of events, each in one cell of any step.
BoundedEvents = EventsAnywhere | EventsPerStep | EventsInDifferentCells


@dataclass(frozen=True, slots=True)
class PatternOverSteps:
    """The change by a unit follows a pattern over the steps, which may lower counts, too.

    Attributes:
        pattern: the change of the counts.
        words: the change in words that follow the name of the unit.
    """

    pattern: Pattern
    words: str
    cells: ClassVar[int] = 1
    steps: ClassVar[int] = 1
    separation: ClassVar[int] = 1
    every: ClassVar[None] = None
    counts_in_one_step: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.words:
            raise InvalidInputError(
                f"pattern is {self.pattern!r}, and words is empty: describe the pattern in words"
            )

    @property
    def changes_one_step(self) -> bool:
        """Whether a unit changes one step only."""
        return isinstance(self.pattern, BoundedChange) and self.pattern.single_step

    def in_words(self, amount: Amount, *, steps: bool) -> str:
        """Return the change by one unit in words."""
        return self.words

    def sensitivity_of_all_nodes(
        self, single: Sensitivity, relation: Relation, amount: Amount, of_cells: int
    ) -> Sensitivity:
        """Return the sensitivity of all nodes to one unit, whose pattern is of one step."""
        assert isinstance(self.pattern, BoundedChange)
        assert self.pattern.single_step
        return Sensitivity(single.l1 * self.pattern.l1, single.l2_squared * self.pattern.l2_squared)

    def repeated(self, times: int) -> PatternOverSteps:
        """Return the occurrences of a unit that changes so many times as it does here.

        Raises:
            InvalidInputError: the pattern has no bounds on norms.
        """
        if not isinstance(self.pattern, BoundedChange):
            raise InvalidInputError(
                f"a unit whose change is {self.pattern!r} cannot count {times:,} times: state "
                "bounds on norms, BoundedChange"
            )
        # Norms of the sum of several changes are at most the sums of their norms.
        pattern = replace(self.pattern.scaled_by(times), single_step=False)
        return PatternOverSteps(pattern, f"{self.words}, up to {times:,} times")

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"pattern": pattern_to_dict(self.pattern), "words": self.words}


def _of_events_together(
    single: Sensitivity, amount: Amount, of_cells: int, number: int
) -> Sensitivity:
    """Return the sensitivity to events that are all in one step and cell, the worst place.

    |sum of C e_s| is at most the sum of the norms. No entries are stated for several events: they
    do not give one worst change.
    """
    change = amount.change("add_remove", 1, of_cells)
    l1, l2_squared = scaled_norms(change.l1, change.l2_squared, by=number)
    worst = change.worst if number == 1 else None
    return StepChange(l1, l2_squared, worst).of_nodes(single)

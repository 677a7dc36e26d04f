"""The base class of statistics.

A statistic counts events in cells, bounds how much one protected unit changes the cells, and
computes its numbers from the released ones. `Counter` counts all cells over time, so all
strategies, guarantees and plans apply.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput, field
from counton.base.exact import quote, text
from counton.frame.options import Option, OwnColumns, Statement
from counton.privacy import Contribution, Guarantee
from counton.privacy.contribution import checked_unit
from counton.statistics.cells import Cells

if TYPE_CHECKING:
    from counton.numbers.formulas import Estimate

#: Events of one or more steps: a sequence, or an array with a row for each event.
Events = Sequence[Any] | NDArray[Any]


class ErrorScale(NamedTuple):
    """Errors of a statistic's numbers, divided by the standard deviation of one cell.

    Attributes:
        what: the numbers; completes "errors are of".
        mean: square root of the mean variance.
        largest: square root of the largest variance.
    """

    what: str
    mean: float = 1.0
    largest: float = 1.0

    @classmethod
    def over(cls, what: str, variances: NDArray[np.float64]) -> ErrorScale:
        """Return the scale of numbers, given their variances for cells of variance 1."""
        return cls(what, math.sqrt(float(variances.mean())), math.sqrt(float(variances.max())))


#: Largest number of names in an error message.
_NAMED = 20
#: Words for protected units that are not called events.
NO_EVENTS = ("user", "edge", "letter")
#: The columns of a table by name.
Table = Mapping[str, NDArray[Any]]


def label_of_row(names: Mapping[str, Any]) -> str:
    """Join the names in a row's columns to one text.

    >>> label_of_row({"group": "north", "name": "mean"}), label_of_row({"group": None})
    ('north mean', 'all')
    """
    return " ".join(str(one) for one in names.values() if one is not None) or "all"


@dataclass(frozen=True, kw_only=True)
class Card:
    """The words, options and properties of a class of statistics, known before any data.

    Attributes:
        keyword: its name in commands, job files and tables; "": it has no name there.
        says: one line that describes the statistic.
        help: more text for its command; a `counton.base.errors.field` in it names an option.
        example: options of an example of its command, whose data are visits.csv of the front page.
        phrase: what follows "The running" in a sentence; parameters are in braces.
        also_called: other words by which people look for it.
        sources: papers by their names in `counton.base.literature`.
        neighbours: how neighbouring streams differ, in words; None: `neighbours_differ`.
        unit: kind of unit: a "user", an "edge" or a "letter"; "": one event.
        counted: name of its only cell.
        column: table column of the names of its numbers.
        options: its own options, besides those of every job.
        reads: options of every job that its constructor takes, such as "domain".
        shows: the options that change how released numbers are shown.
        unit_word: the unit of its numbers; "{counted}" stands for rows, "{value}" for the column.
        on_screen: numbers that a screen shows first.
        label: the label of a table row, given the names in its columns.
        besides_noise: sentences on errors other than noise, such as clipping.
        units: the unit of each number; None: see `units_of`.
        reading: subclass of `Reading`, made from all released cells, or, if ``on_demand``, from the
            running stream; None: `Reading` itself.
        whole: the total of which its numbers are parts; None: they are not.
        on_demand: there are too many cells to release all: each is computed when asked for.
        of_letters: each step has exactly one letter, unless several come in one step: removing one
            would move all later letters to other steps.
        is_table: released once, as a table, when rows have no times.
        finds: an undeclared group is shown once its noisy count is large enough.
        ranks: its table orders groups by size.
        additive: each cell is a released number, so that windows and groups are sums of cells; a
            stream's description does not name the statistic.
        many_groups: `number_of` takes the cells of many groups at once.
        in_rank: its error is known beforehand only as a share of the rows, as for quantiles.
        known_beforehand: numbers whose half-widths are known before data; None: all.
        declares: the declared groups, if they are its cells.
        domain: the public set of nodes, labels or a tree.
        by_groups: the statistic with one cell for each given group; None:
            `counton.statistics.by_group.Grouped` makes a copy for each.
        check_asked: raises an error for an unknown name; None: see `check_asked`.
        fills: values for options of every job that a new stream does not state.

    >>> Card(keyword="above", says="How many values lie above a threshold.").event
    'event'
    """

    keyword: str = ""
    says: str = ""
    help: str = ""
    example: Mapping[str, str] | None = None
    example_file: tuple[str, str] | None = None
    phrase: str = ""
    also_called: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    neighbours: Callable[[Any], str] | None = None
    event: str = "event"
    unit: str = ""
    counted: str = ""
    column: str = "cell"
    options: tuple[Option, ...] = ()
    reads: tuple[str, ...] = ()
    shows: tuple[str, ...] = ("over",)
    unit_word: str = "{counted}"
    on_screen: tuple[str, ...] = ()
    label: Callable[[Mapping[str, Any]], str] = label_of_row
    besides_noise: Callable[[Any], Sequence[str]] | None = None
    units: Callable[[str | None, str], dict[str, str]] | None = None
    reading: Any = None
    whole: Callable[[Cells], Estimate] | None = None
    on_demand: bool = False
    of_letters: bool = False
    is_table: bool = False
    finds: bool = False
    ranks: bool = False
    additive: bool = False
    many_groups: bool = False
    in_rank: bool = False
    known_beforehand: tuple[str, ...] | None = None
    declares: tuple[str, ...] | None = None
    domain: Any = None
    by_groups: Callable[[Any, Sequence[str]], Statistic | None] | None = None
    check_asked: Callable[[Any, Any], object] | None = None
    fills: Callable[[Statement], Mapping[str, Any]] | None = None


class Exact(ABC):
    """The exact counts of all events so far. They are secret."""

    @abstractmethod
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the events of consecutive steps, or none of them.

        Args:
            stops: for each step the number of events up to its end.

        Returns:
            The change of each cell in each step, in multiples of the contribution's resolution:
            int64, shape ``(len(stops), *cells)``; ``(len(stops), 0)`` for cells on demand.

        Raises:
            InvalidInput: a value that is no event, or breaks a bound; nothing is changed.
        """

    @abstractmethod
    def undo(self) -> None:
        """Remove the events of the last `take`, at most once, because their release failed."""

    @abstractmethod
    def save(self) -> bytes:
        """Return these secret counts as bytes that `load` reads."""

    def load(self, saved: bytes) -> None:
        """Load the bytes of `save` into a new object.

        Raises:
            StateError: the bytes cannot be from `save`.
        """
        raise NotImplementedError

    def counts(self, cells: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        """Return exact counts of cells on demand after a step, in the shape of ``cells``."""
        raise NotImplementedError

    @property
    def largest(self) -> int:
        """Upper bound on every exact count's absolute value, for cells on demand."""
        raise NotImplementedError


def place_of_name(statistic: Statistic, name: Any) -> int:
    """Return the index of a statistic's number.

    Raises:
        InvalidInput: no number has this name.

    >>> from counton.statistics import TopK
    >>> place_of_name(TopK(["JFK", "LGA"]), "LGA")
    1
    """
    counted = statistic.card.counted
    names = [str(one) for one in ([counted] if counted else statistic.number_names)]
    if type(name) in (str, int) and str(name) in names:
        return names.index(str(name))
    there = f"give one of {', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''}"
    raise InvalidInput(f"{quote(name)} is not among the {len(names):,} names; {there}")


def number_of_cell(statistic: Statistic, cells: Cells, name: Any = None) -> Estimate:
    """Return one released cell as a number.

    ``name`` None is the statistic's only number.

    Raises:
        InvalidInput: there is no such number, or no name is given although there are several.
    """
    if name is None:
        if math.prod(statistic.cells) != 1:
            raise InvalidInput(
                f"{type(statistic).__name__} has several numbers; give the name of one of them"
            )
        return cells.one(0)
    return cells.one(place_of_name(statistic, name))


class Statistic(ABC):
    """Base class of statistics.

    `contribution` bounds one unit's change of the cells, and `number_of` computes numbers from
    released cells.
    """

    card: Card = Card()
    _stated: bool = False

    @classmethod
    def from_spec(cls, stated: Statement) -> Statistic:
        """Build the statistic from a job's options, except columns.

        Raises:
            InvalidInput: an option is missing, out of range, or contradicts another one.
        """
        stated.require(*(one.name for one in cls.card.options if one.needed and not one.column))
        return cls(**stated.only(*(one.name for one in cls.card.options if not one.column)))

    @classmethod
    def columns_of_spec(cls, stated: Statement) -> OwnColumns:
        """Return the columns of a job's options for this statistic, without times, groups and
        users.

        Raises:
            InvalidInput: an option is missing.
        """
        named: list[str] = []
        of: dict[str, list[str]] = {"number": []}
        for one in cls.card.options:
            if not one.column or (stated[one.name] is None and not one.needed):
                continue
            columns = (
                stated.require_names(one.name) if one.several else tuple(stated.require(one.name))
            )
            named += columns
            of.setdefault(one.column, []).extend(columns)
        return OwnColumns(tuple(named), tuple(of["number"]))

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments as JSON values, without defaults."""
        return self._parameters_of(*_defaults_of(type(self)))

    def _parameters_of(self, *names: str) -> dict[str, Any]:
        """Return attributes as JSON values, without defaults and an unstated unit."""
        defaults, found = _defaults_of(type(self)), dict[str, Any]()
        for name in names:
            if name in defaults:
                value = getattr(self, name)
                if self._stated if name == "unit" else value != defaults[name]:
                    value = [*value] if isinstance(value, tuple) else value
                    found[name] = text(value) if isinstance(value, Fraction) else value
        return found

    def _call_units(self, unit: str | None, otherwise: str = "event") -> None:
        """Set ``unit``, or ``otherwise`` if nobody stated it."""
        self.unit = checked_unit(otherwise if unit is None else unit)
        self._stated = unit is not None

    @property
    def cells(self) -> tuple[int, ...]:
        """Shape of the cells of one step: () for a single number."""
        return ()

    @abstractmethod
    def contribution(self, *, batched: bool = False, horizon: int | None = None) -> Contribution:
        """Return the bound on how much one protected unit changes the cells.

        Neighbouring streams differ in events of one unit. All other events stay in their steps; a
        step that loses all its events remains.

        Args:
            batched: True if a step may have any number of events, else at most one, or exactly one
                letter.
            horizon: limits how many steps a unit can change; None: unknown, or no end.
        """

    @property
    def error_of(self) -> ErrorScale:
        """The numbers to which errors in a plan refer; by default the cells."""
        return ErrorScale("one cell")

    @abstractmethod
    def begin(self) -> Exact:
        """Return exact counts without events."""

    @property
    def number_names(self) -> Sequence[Any]:
        """The names of the numbers; (None,) for one number without a name."""
        if not self.cells:
            return (None,)
        return [str(cell) for cell in range(math.prod(self.cells))]

    #: Function that computes a number from released cells, given its name; by default the number is
    number_of = number_of_cell

    def for_people(self, most: int) -> Statistic:
        """Return a copy for at most ``most`` rows of each person, if it has to know; or itself."""
        return self

    def norms_of_people(self, most: int) -> tuple[int, int] | None:
        """Bound the 1-norm and squared 2-norm of the change by up to ``most`` rows of one person.

        None: each row changes the cells by no more than `contribution` says.
        """
        return None

    def settle(self, guarantee: Guarantee, horizon: int | None = None) -> Statistic:
        """Return a copy with parameters chosen for the guarantee, or the statistic itself.

        All code that begins a stream must call this first. Without an end ``horizon`` is None.
        """
        return self

    def allows(self, other: Statistic) -> bool:
        """Return True if ``other`` is equal but for parameters that `settle` chooses."""
        return self == other

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash(repr(self))


class NamedCells(Statistic):
    """A statistic with too many cells to release all: each is computed by its name."""

    @abstractmethod
    def cell(self, name: Any) -> int:
        """Return the index of a cell; `InvalidInput` for an unknown name."""

    @abstractmethod
    def name_of(self, cell: int) -> str:
        """Return the name of a cell; the inverse of `cell`."""


def distinct_names(given: Any, what: str) -> tuple[str, ...]:
    """Return distinct texts, at least one; ``what`` begins the message, such as "groups are".

    >>> distinct_names(["north", "south"], "groups are")
    ('north', 'south')
    """
    listed = [] if isinstance(given, (str, Set, Mapping)) else list(given)
    texts = all(type(one) is str for one in listed)
    if not listed or not texts or len({*listed}) < len(listed):
        raise InvalidInput(f"{what} {quote(given)}; give a list of different texts, in order")
    return tuple(listed)


def says_cells(statistic: Statistic) -> bool:
    """Return True if the statistic's numbers are its released cells."""
    return type(statistic).number_of is number_of_cell


def check_asked(statistic: Statistic, name: Any) -> None:
    """Raise `InvalidInput` unless this number can be requested by its name."""
    if statistic.card.check_asked is not None:
        statistic.card.check_asked(statistic, name)
    elif isinstance(statistic, NamedCells):
        statistic.cell(name)
    elif statistic.card.ranks:
        place_of_name(statistic, name)
    else:
        raise InvalidInput(
            f"{field('ask', name)} asks for single numbers, but {type(statistic).__name__} "
            "releases all its numbers; leave it out"
        )


def protects(statistic: Statistic) -> str:
    """Return the kind of unit: "user", "edge", "letter" or "event"."""
    card = statistic.card
    return card.unit or (card.event if card.event in NO_EVENTS else "event")


def besides_of(statistic: Statistic) -> Sequence[str]:
    """Return sentences on errors other than noise, such as clipping."""
    found = statistic.card.besides_noise
    return () if found is None else found(statistic)


def units_of(statistic: Statistic, column: str | None, rows: str) -> dict[str, str]:
    """Return the unit of each number by name; "" stands for all others, no entry for unknown."""
    card = statistic.card
    if card.units is not None:
        return card.units(column, rows)
    if card.unit_word == "{value}":
        return {} if column is None else {"": column}
    return {"": card.unit_word.replace("{counted}", rows)} if card.unit_word else {}


def neighbours_differ(statistic: Statistic) -> str:
    """Return in words how neighbouring streams of this statistic differ.

    >>> from counton.statistics import Distinct
    >>> print(neighbours_differ(Distinct()))
    in what one unit does; all other events stay in their steps, and a step left without one is
    empty
    """
    card = statistic.card
    if card.neighbours is not None:
        return card.neighbours(statistic)
    if card.of_letters:
        return f"in one {card.event}; each step has as many in both"
    return (
        "in what one unit does; all other events stay in their steps, and a step left without "
        "one is empty"
    )


def restore(statistic: Statistic, saved: bytes) -> Exact:
    """Rebuild exact counts from `Exact.save`."""
    exact = statistic.begin()
    exact.load(saved)
    return exact


def shape_of(statistic: Statistic, groups: int | None) -> tuple[int, ...]:
    """Return the shape of the cells of one step; () for cells on request."""
    if statistic.card.additive:
        return () if groups is None else (groups,)
    return () if statistic.card.on_demand else statistic.cells


@cache
def _defaults_of(kind: type[Statistic]) -> Mapping[str, Any]:
    """Return the defaults of the constructor's parameters."""
    return {name: one.default for name, one in signature(kind).parameters.items()}

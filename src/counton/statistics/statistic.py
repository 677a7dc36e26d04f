"""The base class of statistics.

A statistic has three parts. It counts events (letters, edges, values) in cells, which are sums. It
bounds how much one protected unit changes the cells. It computes its numbers from the released,
noisy cells. Cells of all statistics are counted over time by `counton.numbers.counter.Counter`, so
all strategies, guarantees and plans apply to them.
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
from counton.base.options import Option, OwnColumns, Statement
from counton.privacy import Contribution, Guarantee
from counton.privacy.contribution import checked_unit
from counton.statistics.readings import Cells, Reading, number_of_cell, place_of_name

if TYPE_CHECKING:
    from counton.numbers.formulas import Estimate
    from counton.planning.lower_bounds import LowerBound

#: Events of one or more steps: a sequence, or an array with a row for each event.
Events = Sequence[Any] | NDArray[Any]


class ErrorScale(NamedTuple):
    """How large the errors of a statistic's published numbers are, as multiples of the error of one
    cell, with words that name these numbers. Plans of streams print them.

    Attributes:
        what: words for these numbers; they complete the sentence "errors are of".
        mean: square root of the mean variance of these numbers, divided by the standard deviation
            of one cell.
        largest: square root of their largest variance, divided by the standard deviation of one
            cell.
    """

    what: str
    mean: float = 1.0
    largest: float = 1.0

    @classmethod
    def over(cls, what: str, variances: NDArray[np.float64]) -> ErrorScale:
        """Return the `ErrorScale` of numbers whose noise has the given variances.

        Args:
            what: see `ErrorScale`.
            variances: variances of the numbers if each cell has variance 1.
        """
        return cls(what, math.sqrt(float(variances.mean())), math.sqrt(float(variances.max())))


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
    """The description of a class of statistics, known before any data: its words for users, its
    options, and its properties.

    Attributes:
        keyword: its name in commands, job files and tables; "": users cannot ask for it by name.
        says: one line that describes the statistic.
        help: more text for the help of its command; a `counton.base.errors.field` in it names an
            option.
        example: options and their values for an example of its command; the data are visits.csv of
            the front page. None: no example.
        example_file: name and text of a second file that the example reads.
        phrase: words that follow "The running" in a sentence; parameters are in braces.
        also_called: other words by which people look for it.
        sources: papers that its description cites, by their names in `counton.base.literature`.
        unprotected: facts about a person that its protected unit does not cover, in words.
        neighbours: function that returns in words how neighbouring streams differ; None:
            `neighbours_differ` says it.
        event: the word for one event, such as "row".
        unit: the kind of protected unit, if it is not one event: a "user", an "edge" or a "letter";
            "": it is one event.
        counted: name of its cell, if it has a single cell with a name.
        column: name of the table column that holds the names of its numbers.
        options: its own options in a command or a job file; every job has further options.
        reads: options of every job that are also arguments of the statistic's constructor, such as
            "domain".
        shows: names of the options that change how its released numbers are shown.
        unit_word: the word for the unit of its numbers; "{counted}" stands for the plural word for
            rows, "{value}" for the name of the column of values; "": unknown.
        on_screen: names of the numbers that a screen shows first.
        label: function that returns the label of a table row, given the names in its columns.
        besides_noise: function that returns sentences on errors other than noise, such as clipping;
            None: there are no such errors.
        units: function that returns the unit of each number, by the number's name. It takes the
            column of values and the plural word for rows. None: see `units_of`.
        reading: subclass of `Reading` that computes its numbers at one step. It is made from all
            released cells, or, if ``on_demand``, from the running stream.
        whole: function that returns the total count from released cells, if its numbers are parts
            of a total; None: they are not.
        least_errors: function that returns lower bounds on the error of any mechanism. It takes the
            statistic, the number of steps, the guarantee, and True if a step may have any number of
            events.
        on_demand: True if there are too many cells to release all: each is computed when somebody
            asks for it.
        of_letters: True if events are the letters of a text. Unless several letters come in one
            step, each step has exactly one letter: removing one would move all later letters to
            other steps.
        is_table: True if it is released once, as a table, when rows have no times.
        finds: True if groups need not be declared: an undeclared group is shown once its noisy
            count is large enough.
        ranks: True if its table orders groups by size.
        additive: True for plain counts and sums: each cell is the released number of a group, or of
            all rows. Numbers of several windows or groups are then sums of cells, and the
            description of a stream does not name the statistic.
        many_groups: True if `number_of` takes the cells of many groups at once and returns arrays,
            one entry for each group.
        in_rank: True if its error is known before any data only as a share of the rows, not in
            units of the values, as for quantiles.
        known_beforehand: names of the numbers whose half-widths are known before any data; None:
            all.
        declares: names of the declared groups, if its cells are these groups; None: its cells have
            other names.
        domain: the public set of possible values, if these are not groups: nodes, labels or a tree.
        by_groups: function that returns a statistic of this kind that has one cell for each given
            group. None, or if the function returns None: `counton.statistics.by_group.Grouped`
            makes one copy of the statistic for each group.
        check_asked: function that raises an error for the name of a number that the statistic does
            not have; None: see `check_asked`.
        fills: function that returns values for options of every job that a new stream does not
            state.

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
    unprotected: tuple[str, ...] = ()
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
    reading: Any = Reading
    whole: Callable[[Cells], Estimate] | None = None
    least_errors: Callable[[Any, int, Guarantee, bool], tuple[LowerBound, ...]] | None = None
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
    """The exact counts of all events so far, from which cells are computed. They are secret."""

    @abstractmethod
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the events of consecutive steps. If an event is refused, none of them is counted.

        Args:
            events: the events in the order in which they happened.
            stops: for each step the number of events up to its end. The numbers never fall, and the
                last is ``len(events)``.

        Returns:
            The change of each cell in each step, in multiples of the contribution's resolution (1
                for counts): int64, shape ``(len(stops), *cells)``. For cells on demand an empty
                array of shape ``(len(stops), 0)``.

        Raises:
            InvalidInput: a value that is no event, or breaks a bound; nothing is changed.
        """

    @abstractmethod
    def undo(self) -> None:
        """Remove the events of the last `take`, because their release failed; call it at most once
        after each `take`.
        """

    @abstractmethod
    def save(self) -> bytes:
        """Return these exact counts, which are secret, as bytes that `load` reads."""

    def load(self, saved: bytes) -> None:
        """Load exact counts into a new, empty object: first the bytes of `save`, then the bytes of
        each later `news`, in order.

        Raises:
            StateError: the bytes cannot be from `save`.
        """
        raise NotImplementedError

    def news(self) -> bytes | None:
        """Return the change made by the last `take` as bytes, which `load` reads.

        None: the change is not available, so that `save` must be called instead.
        """
        return None

    def counts(self, cells: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        """Return the exact counts of the given cells after a step, for statistics whose cells are
        computed on request.

        The result has the shape of ``cells``.
        """
        raise NotImplementedError

    @property
    def largest(self) -> int:
        """Upper bound on the absolute value of every exact count, for statistics whose cells are
        computed on request.
        """
        raise NotImplementedError


class Statistic(ABC):
    """Base class of statistics: how events change cells, how much one unit changes them, and which
    numbers follow.

    Cells are exact sums to which noise is added. `contribution` bounds one unit's change of the
    cells. `number_of` computes the statistic's numbers from released cells.

    Attributes:
        card: what describes the statistic: its words for users, its options, and its properties.
    """

    card: Card = Card()
    _stated: bool = False

    @classmethod
    def from_spec(cls, stated: Statement) -> Statistic:
        """Build the statistic from a job's options; options that name columns are not used.

        Raises:
            InvalidInput: an option is missing, out of range, or contradicts another one.
        """
        stated.require(*(one.name for one in cls.card.options if one.needed and not one.column))
        return cls(**stated.only(*(one.name for one in cls.card.options if not one.column)))

    @classmethod
    def columns_of_spec(cls, stated: Statement) -> OwnColumns:
        """Return the columns that a job's options for this statistic name.

        Columns of times, groups and users are not among them.

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
        """The arguments of the constructor as JSON values; arguments equal to their default are
        left out.
        """
        return self._parameters_of(*_defaults_of(type(self)))

    def _parameters_of(self, *names: str) -> dict[str, Any]:
        """Return the named arguments as JSON values; arguments with their default value are left
        out.

        Each value is the attribute of the same name. The unit is left out unless the caller stated
        it.
        """
        defaults, found = _defaults_of(type(self)), dict[str, Any]()
        for name in names:
            if name in defaults:
                value = getattr(self, name)
                if self._stated if name == "unit" else value != defaults[name]:
                    value = [*value] if isinstance(value, tuple) else value
                    found[name] = text(value) if isinstance(value, Fraction) else value
        return found

    def _call_units(self, unit: str | None, otherwise: str = "event") -> None:
        """Set the attribute ``unit``, the word for one protected unit.

        The word is ``unit``, or ``otherwise`` if ``unit`` is None. Record whether the caller stated
        it.
        """
        self.unit = checked_unit(otherwise if unit is None else unit)
        self._stated = unit is not None

    @property
    def cells(self) -> tuple[int, ...]:
        """Shape of the array of this statistic's cells (its exact sums at one step): () for a
        single number.
        """
        return ()

    @abstractmethod
    def contribution(self, *, batched: bool = False, horizon: int | None = None) -> Contribution:
        """Return the bound on how much one protected unit changes the cells.

        Args:
            batched: True if a step may have any number of events. False: each step has at most one
                event, or exactly one letter if ``Card.of_letters``.
            horizon: number of steps of the stream, which limits how many steps a unit can change;
                None: unknown, or the stream has no end.

        Neighbouring streams differ in events of one unit. All other events stay in their steps. A
        step that loses all its events remains as an empty step.
        """

    @property
    def error_of(self) -> ErrorScale:
        """The released numbers to which errors in a plan refer; by default the cells.

        A plan of a stream states the standard deviation of these numbers. The `ErrorScale` has
        words for them, and their errors divided by the error of one cell.
        """
        return ErrorScale("one cell")

    @abstractmethod
    def begin(self) -> Exact:
        """Return an object that keeps exact counts, before it has counted any event."""

    @property
    def number_names(self) -> Sequence[Any]:
        """The names of the statistic's numbers, one for each row of its table; (None,) if there is
        one number without a name.
        """
        if not self.cells:
            return (None,)
        return [str(cell) for cell in range(math.prod(self.cells))]

    #: Function that computes a number from released cells, given its name; by default the number is
    number_of = number_of_cell

    def settle(self, guarantee: Guarantee, horizon: int | None = None) -> Statistic:
        """Return a copy in which the parameters that depend on the guarantee are chosen.

        If there are no such parameters, the statistic itself is returned. All code that begins a
        stream must call this method first.

        Args:
            guarantee: the privacy guarantee of the stream.
            horizon: number of steps; None if there is no end.
        """
        return self

    def allows(self, other: Statistic) -> bool:
        """Return True if ``other`` equals this statistic, except for parameters that follow from
        the guarantee (`settle` chooses them).
        """
        return self == other

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash(repr(self))


class NamedCells(Statistic):
    """A statistic with too many cells to release all: each is computed when asked for by name."""

    @abstractmethod
    def cell(self, name: Any) -> int:
        """Return the index of a cell in the flattened array of cells, given its name.

        Raises:
            InvalidInput: no cell has this name.
        """

    @abstractmethod
    def name_of(self, cell: int) -> str:
        """Return the name of a cell, given its index; the inverse of `cell`."""


def distinct_names(given: Any, what: str) -> tuple[str, ...]:
    """Check that a list has distinct texts, at least one, and return them in order.

    Args:
        given: the list.
        what: the words with which error messages begin, such as "groups are".

    Raises:
        InvalidInput: the value is no list, the list is empty, an entry is not a text, or a name
            occurs twice.

    >>> distinct_names(["north", "south"], "groups are")
    ('north', 'south')
    """
    listed = [] if isinstance(given, (str, Set, Mapping)) else list(given)
    texts = all(type(one) is str for one in listed)
    if not listed or not texts or len({*listed}) < len(listed):
        raise InvalidInput(f"{what} {quote(given)}; give a list of different texts, in order")
    return tuple(listed)


def check_asked(statistic: Statistic, name: Any) -> None:
    """Raise an error unless a reader may request this number of a statistic by its name.

    Raises:
        InvalidInput: no cell has this name, or the statistic's numbers cannot be requested by name.
    """
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
    """Return the kind of unit that a statistic protects: "user", "edge", "letter" or "event"."""
    card = statistic.card
    return card.unit or (card.event if card.event in NO_EVENTS else "event")


def besides_of(statistic: Statistic) -> Sequence[str]:
    """Return sentences on a statistic's errors other than noise, such as clipping; empty if there
    are none.
    """
    found = statistic.card.besides_noise
    return () if found is None else found(statistic)


def units_of(statistic: Statistic, column: str | None, rows: str) -> dict[str, str]:
    """Return the unit of measurement of each number, by the number's name.

    The name "" stands for all numbers without an entry of their own. An empty result means that the
    units are unknown.

    Args:
        statistic: the statistic.
        column: the column whose values the statistic reads; None: it reads none.
        rows: the plural word for its rows.
    """
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


def restore(statistic: Statistic, saved: bytes, news: Sequence[bytes] = ()) -> Exact:
    """Rebuild exact counts from the bytes of `Exact.save` and of each later `Exact.news`, in order.

    Raises:
        StateError: the bytes cannot be from this statistic.
    """
    exact = statistic.begin()
    for part in (saved, *news):
        exact.load(part)
    return exact


def shape_of(statistic: Statistic, groups: int | None) -> tuple[int, ...]:
    """Return the shape of the cells that are released at one step.

    It is () for cells that are computed on request.

    Args:
        statistic: the statistic.
        groups: number of groups; None: the stream has no groups.
    """
    if statistic.card.additive:
        return () if groups is None else (groups,)
    return () if statistic.card.on_demand else statistic.cells


@cache
def _defaults_of(kind: type[Statistic]) -> Mapping[str, Any]:
    """Return the default value of each parameter of a statistic's constructor, by name."""
    return {name: one.default for name, one in signature(kind).parameters.items()}

"""The base class of statistics.

A statistic is a map from events (letters, edges, values) to cells, a bound on one protected unit's
change of these cells, and a way to compute numbers from released cells. A `Counter` counts the
cells like any others, so all strategies, guarantees and plans can be used.
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

from counton.base.arrays import Integers
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
    """The number that a plan's standard deviations describe, and its error relative to one cell's.

    Attributes:
        what: the number in words that follow "errors are of".
        mean: root of its mean variance, divided by that of a cell.
        largest: root of its largest variance, divided by that of a cell.
    """

    what: str
    mean: float = 1.0
    largest: float = 1.0


#: Kinds of units that are not called events, whatever an event is.
NO_EVENTS = ("user", "edge", "letter")
#: The columns of a table by name.
Table = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ChartSpec:
    """The way a chart shows a statistic: title, axes, and the rows to draw.

    Attributes:
        title: the title. "Running" and "so far" are left out if the chart shows some steps only.
            "{counted}" is replaced by the word for the cells, "{statistics}" by a report's
            statistics. "": the statistic's own name.
        axis: the label of the axis, with the same placeholders; "": rows have different labels.
        rows: names of the rows of a table to draw; None: all.
        of_values: True if it shows values of a column; the chart then names the column.
        bars: True if cells stand beside each other after the last step, instead of curves.
        panels: True if each curve has its own panel.
        from_zero: True if the axis begins at 0.
        jointly: True if intervals hold for all groups at once.
        cells: name of the column with the names of cells.
        once: the chart of a table released once: ``"tree"``, ``"line"``, ``"margins"`` or
            ``"quantiles"``; "": none.
        by: words at the end of a title that say how cells differ: "by region and by sex".
        bounds: bounds of its numbers; an interval from one to the other says nothing.
        choose: function from a statistic and its table to the rows to draw, with a column ``group``
            of names if needed; None: all rows.
        left_out: function that returns words on groups that ``choose`` leaves out; None: it leaves
            out none.
        profile: function that returns the column by which cells are ordered beside each other;
            None: no order.

    >>> ChartSpec("Running number of large values", "values").from_zero
    True
    """

    title: str = ""
    axis: str = "count"
    rows: tuple[str, ...] | None = None
    of_values: bool = False
    bars: bool = False
    panels: bool = False
    from_zero: bool = True
    jointly: bool = False
    cells: str = "cell"
    once: str = ""
    by: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    choose: Callable[[Any, Table], Table] | None = None
    left_out: Callable[[Any, Table], str] | None = None
    profile: Callable[[Any, Table], str | None] | None = None


def label_of_row(names: Mapping[str, Any]) -> str:
    """Join the names in a row's columns to one text.

    >>> label_of_row({"group": "north", "name": "mean"}), label_of_row({"group": None})
    ('north mean', 'all')
    """
    return " ".join(str(one) for one in names.values() if one is not None) or "all"


@dataclass(frozen=True, kw_only=True)
class Card:
    """The facts about a statistic: its words for users, its options, and its kind.

    Attributes:
        keyword: its name in commands, job files and tables; "": it has none.
        says: one line on the statistic.
        help: further help of its command; a `counton.base.errors.field` is an option.
        example: its options in an example of its command, over the file visits.csv of the front
            page; None: no example.
        example_file: name and text of a file that the example reads as well.
        phrase: words that follow "The running" in a sentence; parameters are in braces.
        also_called: other words by which people look for it.
        sources: sources of its description, by names of `counton.base.literature`.
        unprotected: things that its unit does not cover, in words.
        neighbours: returns words on the difference of neighbouring streams; None: see
            `neighbours_differ`.
        event: the word for one event.
        unit: the kind of protected unit, if it is not an event: a "user", an "edge" or a "letter";
            "": as ``event`` states.
        counted: name of its cell, if it has only one cell with a name.
        column: name of the column of its table that has the names of its numbers.
        stream: default name of its streams.
        options: its options in a command or a job file, besides those of every job.
        reads: options of every job that are also parameters of it, such as "domain".
        shows: options for showing its readings.
        chart: the way a chart shows it.
        label: returns the label of a row, from the names in its columns.
        besides_noise: returns lines on errors besides noise; None: there are none.
        units: returns the units of its numbers by name, from the column whose values it reads and
            the plural word for its rows; None: see `units_of`.
        reading: class of its readings, if it has its own: of all cells, or of cells on demand.
        whole: returns the total count from released cells, if its numbers are parts of it.
        least_errors: returns lower bounds on the error of any mechanism, from the statistic, the
            number of steps, the guarantee, and True if a step may have any number of events.
        on_demand: True if there are so many cells that they are computed only on request.
        of_letters: True if events are the letters of a text. Without batches each step then has
            exactly one: leaving one out would move all later letters.
        windowed: True if its steps are windows of time. Otherwise, without a column of times, each
            row is a step.
        is_table: True if rows without times are released once, as a table.
        finds: True if its groups may be undeclared: a group is then shown once it is large enough.
        ranks: True if its groups are shown by their size.
        additive: True if its cells are the released groups. Then the count of some windows, or of
            several groups, is a sum of them, and the terms of a stream do not name the statistic.
        many_groups: True if `number_of` takes the cells of many groups at once, and returns arrays.
        in_rank: True if its error is known before any data as a share of the rows, not in values,
            as for quantiles.
        known_beforehand: names of numbers whose half-widths are known before any rows; None: all.
        of_now: True if a release counts things that are present now, not all that came so far.
        anew_every: number of steps after which users count anew; None: each user counts once.
        declares: names of the declared groups, if these are its cells; None: its cells have other
            names.
        domain: its public declaration, if that is not groups: nodes, labels, a tree.
        by_groups: returns the statistic whose cells are the given groups. None, or if it returns
            None: `counton.statistics.by_group.Grouped` divides it into groups.
        check_asked: refuses a name that its readings do not have; None: see `check_asked`.
        fills: function that returns defaults for options of every job that a new stream does not
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
    stream: str = "statistic"
    options: tuple[Option, ...] = ()
    reads: tuple[str, ...] = ()
    shows: tuple[str, ...] = ("over", "sums")
    chart: ChartSpec = ChartSpec()
    label: Callable[[Mapping[str, Any]], str] = label_of_row
    besides_noise: Callable[[Any], Sequence[str]] | None = None
    units: Callable[[str | None, str], dict[str, str]] | None = None
    reading: Any = Reading
    whole: Callable[[Cells], Estimate] | None = None
    least_errors: Callable[[Any, int, Guarantee, bool], tuple[LowerBound, ...]] | None = None
    on_demand: bool = False
    of_letters: bool = False
    windowed: bool = False
    is_table: bool = False
    finds: bool = False
    ranks: bool = False
    additive: bool = False
    many_groups: bool = False
    in_rank: bool = False
    known_beforehand: tuple[str, ...] | None = None
    of_now: bool = False
    anew_every: int | None = None
    declares: tuple[str, ...] | None = None
    domain: Any = None
    by_groups: Callable[[Any, Sequence[str]], Statistic | None] | None = None
    check_asked: Callable[[Any, Any], object] | None = None
    fills: Callable[[Statement], Mapping[str, Any]] | None = None


class Exact(ABC):
    """The exact counts of a statistic's events so far, hence secret."""

    @abstractmethod
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the events of consecutive steps: all of them, or none.

        Args:
            events: in the order in which they happened.
            stops: for each step the number of events up to its end; ascending, the last is
                ``len(events)``.

        Returns:
            The change of each cell in each step, in the grid units of the statistic's contribution:
                int64, shape ``(len(stops), *cells)``. For cells on demand an empty array of shape
                ``(len(stops), 0)``.

        Raises:
            InvalidInput: a value that is no event, or breaks a bound; nothing is changed.
        """

    @abstractmethod
    def undo(self) -> None:
        """Forget the events of the last `take`, whose release failed; at most once for each
        `take`.
        """

    @abstractmethod
    def save(self) -> bytes:
        """Return the exact counts as bytes, for `load`."""

    def load(self, saved: bytes) -> None:
        """Load the bytes of `save` into empty counts, then the bytes of `news` of later calls, in
        order.

        Raises:
            StateError: the bytes cannot be from `save`.
        """
        raise NotImplementedError

    def news(self) -> bytes | None:
        """Return as bytes what the last `take` added, for `load`.

        None: this is not known, and all counts must be saved again.
        """
        return None

    def counts(self, cells: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        """Return the exact counts of some cells after a step, if cells are computed on request."""
        raise NotImplementedError

    @property
    def largest(self) -> int:
        """Bound on the size of any exact count, if cells are computed on request."""
        raise NotImplementedError


class Statistic(ABC):
    """Base class of statistics: the change of cells by events, its bound for one unit, and the
    numbers.

    Events are counted in cells: sums to which noise is added. A contribution bounds one unit's
    change of the cells. Readings compute the statistic's numbers from released cells.

    Attributes:
        card: the facts about it: its words for users, its options, and its kind.
    """

    card: Card = Card()
    _stated: bool = False

    @classmethod
    def from_spec(cls, stated: Statement) -> Statistic:
        """Build the statistic from the options of a job, apart from those that name columns.

        Raises:
            InvalidInput: an option is missing, out of range, or contradicts another one.
        """
        stated.require(*(one.name for one in cls.card.options if one.needed and not one.column))
        return cls(**stated.only(*(one.name for one in cls.card.options if not one.column)))

    @classmethod
    def columns_of_spec(cls, stated: Statement) -> OwnColumns:
        """Return the columns that a job's options name, besides those of time, group and user.

        Raises:
            InvalidInput: an option is missing.
        """
        named: list[str] = []
        of: dict[str, list[str]] = {"number": [], "flag": []}
        for one in cls.card.options:
            if not one.column or (stated[one.name] is None and not one.needed):
                continue
            columns = (
                stated.require_names(one.name) if one.several else tuple(stated.require(one.name))
            )
            named += columns
            of.setdefault(one.column, []).extend(columns)
        return OwnColumns(tuple(named), tuple(of["number"]), tuple(of["flag"]))

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the constructor, as JSON values."""
        return self._parameters_of(*_defaults_of(type(self)))

    def _parameters_of(self, *names: str) -> dict[str, Any]:
        """Return the named parameters as JSON values, apart from those with their defaults.

        Each value is the attribute of that name. The unit is left out unless the caller stated it.
        """
        defaults = _defaults_of(type(self))
        return {
            name: _as_json(getattr(self, name))
            for name in names
            if name in defaults
            and (self._stated if name == "unit" else getattr(self, name) != defaults[name])
        }

    def _call_units(self, unit: str | None, otherwise: str = "event") -> None:
        """Set the word for one protected unit, and record whether ``unit`` states it.

        Without ``unit`` the word is ``otherwise``.
        """
        self.unit = checked_unit(otherwise if unit is None else unit)
        self._stated = unit is not None

    @property
    def cells(self) -> tuple[int, ...]:
        """Shape of the cells that are counted: () for a single number."""
        return ()

    @abstractmethod
    def contribution(self, *, batched: bool = False, horizon: int | None = None) -> Contribution:
        """Return the bound on how much one protected unit changes the cells.

        Args:
            batched: True if a step may have any number of events; otherwise each has at most one,
                or exactly one letter (``Card.of_letters``).
            horizon: number of steps of the stream, which may limit a unit's change; None: unknown,
                or no end.

        Neighbouring streams differ in events of one unit. All other events stay in their steps, and
        a step without any left is an empty step.
        """

    @property
    def error_of(self) -> ErrorScale:
        """The number that a plan's errors describe; by default one cell."""
        return ErrorScale("one cell")

    @abstractmethod
    def begin(self) -> Exact:
        """Return exact counts in which nothing is counted yet."""

    @property
    def number_names(self) -> Sequence[Any]:
        """The names of the statistic's numbers, one for each row of its table; (None,) for a single
        one.
        """
        if not self.cells:
            return (None,)
        return [str(cell) for cell in range(math.prod(self.cells))]

    #: Computes a number from released cells, by its name; by default the number is a cell.
    number_of = number_of_cell

    def settle(self, guarantee: Guarantee, horizon: int | None = None) -> Statistic:
        """Return this statistic with the parameters chosen that depend on the guarantee.

        By default it returns itself. All code that begins a stream must call it first.

        Args:
            horizon: number of steps; None if there is no end.
        """
        return self

    def allows(self, other: Statistic) -> bool:
        """Return True if ``other`` is this statistic after `settle` set its open parameters."""
        return self == other

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash(repr(self))


class NamedCells(Statistic):
    """A statistic with so many cells that each is computed only on request, by its name."""

    @abstractmethod
    def cell(self, name: Any) -> int:
        """Return the number of a cell by its name, in the order of a flattened array.

        Raises:
            InvalidInput: no cell has this name.
        """

    @abstractmethod
    def name_of(self, cell: int) -> str:
        """Return the name of a cell: inverse of `cell`."""

    def asked_cells(self, name: Any) -> tuple[str, Integers]:
        """Return a label for the table, and the cells whose sum a requested name stands for."""
        cell = self.cell(name)
        return self.name_of(cell), np.array([cell])


def names_once(given: Any, what: str) -> tuple[str, ...]:
    """Check a list of names and return them in order: texts, none twice.

    Args:
        given: the list.
        what: its beginning in messages, such as "groups are".

    Raises:
        InvalidInput: no list, no names in it, a name that is not a text, or a name twice.

    >>> names_once(["north", "south"], "groups are")
    ('north', 'south')
    """
    listed = [] if isinstance(given, (str, Set, Mapping)) else list(given)
    texts = all(type(one) is str for one in listed)
    if not listed or not texts or len({*listed}) < len(listed):
        raise InvalidInput(f"{what} {quote(given)}; give a list of different texts, in order")
    return tuple(listed)


def check_asked(statistic: Statistic, name: Any) -> None:
    """Raise `InvalidInput` for the name of a number that the statistic does not have.

    Raises:
        InvalidInput: no cell has this name, or the statistic's readings take no names.
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
    """Return the kind of protected unit: "user", "edge", "letter", or "event" for any other."""
    card = statistic.card
    return card.unit or (card.event if card.event in NO_EVENTS else "event")


def besides_of(statistic: Statistic) -> Sequence[str]:
    """Return sentences on errors besides noise, such as clipping; none if there are none."""
    found = statistic.card.besides_noise
    return () if found is None else found(statistic)


def units_of(statistic: Statistic, column: str | None, rows: str) -> dict[str, str]:
    """Return the unit in which each number is counted, by the number's name.

    The name "" stands for all others. An empty result: the units are unknown.

    Args:
        statistic: the statistic.
        column: the column of its values; None: it reads none.
        rows: the plural word for its rows.
    """
    card = statistic.card
    if card.units is not None:
        return card.units(column, rows)
    if card.chart.of_values:
        return {} if column is None else {"": column}
    axis = card.chart.axis.replace("{counted}", rows)
    return {"": rows if axis == ChartSpec().axis else axis} if axis else {}


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
    """Rebuild exact counts from `Exact.save`, and the `Exact.news` since then.

    Raises:
        StateError: the bytes cannot be from this statistic.
    """
    exact = statistic.begin()
    for part in (saved, *news):
        exact.load(part)
    return exact


def shape_of(statistic: Statistic, groups: int | None) -> tuple[int, ...]:
    """Return the shape of one step's release, for this many groups; None: no groups.

    Cells that are computed on request have no shape: ().
    """
    if statistic.card.additive:
        return () if groups is None else (groups,)
    return () if statistic.card.on_demand else statistic.cells


@cache
def _defaults_of(kind: type[Statistic]) -> Mapping[str, Any]:
    """Return the default value of each parameter of a statistic's constructor, by name."""
    return {name: one.default for name, one in signature(kind).parameters.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [*value]
    return text(value) if isinstance(value, Fraction) else value

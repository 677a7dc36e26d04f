"""What a statistic is: events become counts in cells, one unit changes few of them, all is read.

A statistic is one idea: a map from events (letters, edges, values) to cells, what one protected
unit changes in these cells at most, and a way to read what is released of them. The cells are
counted by a `Counter` like any others, so every strategy, guarantee and plan serves.
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

#: Events of one or more steps: a sequence of what one event is, or an array with a row for each.
Events = Sequence[Any] | NDArray[Any]


class ErrorScale(NamedTuple):
    """What the standard deviations of a plan are of, in those of one cell that is measured.

    Attributes:
        what: in words, after "errors are of".
        mean, largest: of what is asked: root of the mean of variances, and of the largest one.
    """

    what: str
    mean: float = 1.0
    largest: float = 1.0


#: What units are called that are no events, whatever sort of thing an event is.
NO_EVENTS = ("user", "edge", "letter")
#: The columns of a table by name.
Table = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class ChartSpec:
    """How a chart shows a statistic.

    Attributes:
        title: what it is called; "Running" and "so far" go where it shows what came in some steps
            alone, and "{counted}" is what cells count, "{statistics}" what a report is of. "": the
            statistic's own name.
        axis: what the axis shows, likewise; "": rows differ in that.
        rows: by name, the rows of a table that are drawn; None: all.
        of_values: it is of the values of a column, whose name the chart says.
        bars: cells stand beside each other as they are after the last step, and are no curves.
        panels: each curve has a panel of its own.
        from_zero: the axis begins at 0.
        jointly: intervals hold for all groups at once.
        cells: the column that names what is asked for.
        once: the chart of its table where that is released once: ``"tree"``, ``"line"``,
            ``"margins"`` or ``"quantiles"``; "": it is none.
        by: by what its cells are told apart, at the end of a title: ", by region".
        bounds: between what its readings lie; an interval of all that says nothing.
        choose: of a statistic and its table the rows that are drawn, called by a column ``group``
            where need be; None: all of them.
        left_out: of the same, words on groups that ``choose`` leaves out; None: it leaves out none.
        profile: of the same, the column in whose order cells stand beside each other; None: they
            have no order.

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
    by: str = ""
    bounds: tuple[float, float] | None = None
    choose: Callable[[Any, Table], Table] | None = None
    left_out: Callable[[Any, Table], str] | None = None
    profile: Callable[[Any, Table], str | None] | None = None


def label_of_row(names: Mapping[str, Any]) -> str:
    """In one text what a row is about.

    >>> label_of_row({"group": "north", "name": "mean"}), label_of_row({"group": None})
    ('north mean', 'all')
    """
    return " ".join(str(one) for one in names.values() if one is not None) or "all"


@dataclass(frozen=True, kw_only=True)
class Card:
    """What users see of a statistic, its options, and of what kind it is.

    Attributes:
        keyword: its name in commands, job files and tables; "": it has none, and is given as such.
        says: what it is, in one line.
        help: what the help of its command says besides; a `counton.base.errors.field` is an option.
        example: what a command states of it over the front page's visits.csv, by option; without
            any, its help shows no example.
        example_file: name and text of a file that the example reads besides.
        phrase: what it is in a sentence that begins "The running"; its parameters in braces.
        also_called: other words that people look for it by.
        sources: where it is described, by names of `counton.base.literature`.
        unprotected: what its unit does not cover, in words.
        neighbours: of the statistic how neighbouring streams differ, in words; None: see
            `neighbours_differ`.
        event: what one event is, in words.
        unit: what is protected, where that is no event: a "user", an "edge" or a "letter"; "": as
            ``event`` says.
        counted: name of its cell, where it has one alone, which has a name.
        column: of its table, that names the numbers.
        stream: what its streams are called, unless a job says else.
        options: what defines it in a command or a job file, besides what every job states.
        reads: fields of every job which define it too, as "domain".
        shows: fields of what is shown of its readings.
        chart: how a chart shows it.
        label: in one text what a row is about, from what its columns name.
        besides_noise: of the statistic what its numbers leave out besides noise, a line each; None:
            nothing.
        units: of the column whose values it reads and what a row is called, in the plural, the
            units of its numbers, by their names; None: see `units_of`.
        reading: what is made of its releases, where that has words of its own: of all cells, or
            of cells that are read on demand.
        whole: how all that is counted follows from released cells, where numbers are its parts.
        least_errors: of the statistic, a number of steps, a guarantee, and whether a step may have
            any number of events, what no mechanism is below, as far as there are theorems.
        on_demand: cells are so many that only those are computed which somebody asks for.
        of_letters: events are the letters of a text, of which each step has exactly one where it
            has no batch of them: one that is left out would move others.
        windowed: it is of windows of time; else without a column of times each row is a step.
        is_table: rows without times are released once, as a table.
        finds: its groups may be such as nobody declared, each shown once it is large enough.
        ranks: its groups are shown by their size.
        additive: its cells are its groups as they were released, so what happened in some windows,
            or in some groups together, is a sum of them; terms of a stream do not name it.
        many_groups: `number_of` takes the cells of many groups at once, and gives arrays of them.
        in_rank: before any data its error is known as part of the rows, and not in its values.
        known_beforehand: names of what is read whose half-widths depend on no rows; None: all.
        of_now: a release says how many there are then, and not how many came so far.
        anew_every: users are counted anew in each run of so many steps; None: each counts once.
        declares: the groups of rows by which its cells are called; None: its cells are others.
        domain: what was declared of it, where that are no groups: nodes, labels, a tree.
        by_groups: of the statistic and groups, the statistic whose cells these groups are; None,
            or where it gives None: `counton.statistics.by_group.Grouped` tells them apart.
        check_asked: of the statistic and a name, refuse what cannot be asked of its readings; None:
            see `check_asked`.
        fills: what it makes of the fields of every job, where a new stream leaves them open.

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
    """What a statistic must know of the events so far. Exact, hence secret."""

    @abstractmethod
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the events of consecutive steps: all of them, or none.

        Args:
            events: in the order in which they happened.
            stops: for each step the number of events up to its end; ascending, the last is
                ``len(events)``.

        Returns:
            By how much each cell changes in each step, in the grid units of the statistic's
            contribution: int64, shape ``(len(stops), *cells)``. An empty array of shape
            ``(len(stops), 0)`` where cells are read on demand.

        Raises:
            InvalidInput: an event that is none, or breaks a bound; nothing is changed.
        """

    @abstractmethod
    def undo(self) -> None:
        """Forget the last `take`, where its release failed; at most once for each."""

    @abstractmethod
    def save(self) -> bytes:
        """All of it, for `load`."""

    def load(self, saved: bytes) -> None:
        """Know what `save` gave, where nothing is known yet; then the `news` of each later take.

        Raises:
            StateError: what is never saved.
        """
        raise NotImplementedError

    def news(self) -> bytes | None:
        """What the last `take` added to what is known, for `load`.

        None where nobody says: then all is saved again.
        """
        return None

    def counts(self, cells: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        """Exact counts of some cells after a step, where cells are read on demand."""
        raise NotImplementedError

    @property
    def largest(self) -> int:
        """No exact count of any cell, after any step, is further from 0 than this; where cells are
        read on demand."""
        raise NotImplementedError


class Statistic(ABC):
    """A map from events to cells, with what one unit changes at most, and a way to read releases.

    Attributes:
        card: what users see of it, its options, and of what kind it is.
    """

    card: Card = Card()
    _stated: bool = False

    @classmethod
    def from_spec(cls, stated: Statement) -> Statistic:
        """The statistic that a job asks for: made of its options, but those that name columns.

        Raises:
            InvalidInput: an option is missing, out of range, or contradicts another one.
        """
        stated.require(*(one.name for one in cls.card.options if one.needed and not one.column))
        return cls(**stated.only(*(one.name for one in cls.card.options if not one.column)))

    @classmethod
    def columns_of_spec(cls, stated: Statement) -> OwnColumns:
        """The columns that it reads besides time, group and user: those its options name.

        Raises:
            InvalidInput: one is missing.
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
        """JSON values that the constructor takes."""
        return self._parameters_of(*_defaults_of(type(self)))

    def _parameters_of(self, *names: str) -> dict[str, Any]:
        """Some parameters as JSON values, but for those that are as they are without a word.

        An attribute of the same name has the value of each. Of the unit it matters whether it was
        stated, whatever it is called.
        """
        defaults = _defaults_of(type(self))
        return {
            name: _as_json(getattr(self, name))
            for name in names
            if name in defaults
            and (self._stated if name == "unit" else getattr(self, name) != defaults[name])
        }

    def _call_units(self, unit: str | None, otherwise: str = "event") -> None:
        """What one protected unit is called, and whether somebody said so."""
        self.unit = checked_unit(otherwise if unit is None else unit)
        self._stated = unit is not None

    @property
    def cells(self) -> tuple[int, ...]:
        """Shape of what is counted: () for a single number."""
        return ()

    @abstractmethod
    def contribution(self, *, batched: bool = False, horizon: int | None = None) -> Contribution:
        """What one protected unit changes at most.

        Args:
            batched: a step may have any number of events; else each has at most one, or exactly
                one letter (``Card.of_letters``).
            horizon: number of steps of the stream, which may hold less than a unit does; None: it
                is not known, or there is no end.

        Neighbouring streams differ in events of one unit; all other events stay in their steps, and
        a step that has none left is an empty step.
        """

    @property
    def error_of(self) -> ErrorScale:
        """What a plan's errors are of; of one cell, unless readings say something else."""
        return ErrorScale("one cell")

    @abstractmethod
    def begin(self) -> Exact:
        """Nothing counted yet."""

    @property
    def number_names(self) -> Sequence[Any]:
        """The names of its numbers, in the order of the rows of its table; (None,): it has one."""
        if not self.cells:
            return (None,)
        return [str(cell) for cell in range(math.prod(self.cells))]

    #: How a number follows from released cells, by its name: a cell, unless a statistic says else.
    number_of = number_of_cell

    def settle(self, guarantee: Guarantee, horizon: int | None = None) -> Statistic:
        """This statistic with all of its parameters, as far as they depend on what is promised.

        Itself unless it says else. `plan` and `counter` ask for it first; so must whoever begins
        a stream in another way.

        Args:
            horizon: number of steps; None if there is no end.
        """
        return self

    def allows(self, other: Statistic) -> bool:
        """Whether ``other`` is this one, with what this one leaves open stated (`settle`)."""
        return self == other

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash(repr(self))


class NamedCells(Statistic):
    """A statistic whose cells are so many that they are read on demand, each by its name."""

    @abstractmethod
    def cell(self, name: Any) -> int:
        """Number of the cell of this name, in the order of a flattened array.

        Raises:
            InvalidInput: no cell of this name.
        """

    @abstractmethod
    def name_of(self, cell: int) -> str:
        """Name of a cell: inverse of `cell`."""

    def asked_cells(self, name: Any) -> tuple[str, Integers]:
        """What is asked for, as a table calls it, and the cells that are added up for it."""
        cell = self.cell(name)
        return self.name_of(cell), np.array([cell])


def names_once(given: Any, what: str) -> tuple[str, ...]:
    """Names of a list, in its order.

    Args:
        given: the list.
        what: what it is, for messages, as in "groups are".

    Raises:
        InvalidInput: no list, no names in it, one that is no text, or one twice.

    >>> names_once(["north", "south"], "groups are")
    ('north', 'south')
    """
    listed = [] if isinstance(given, (str, Set, Mapping)) else list(given)
    texts = all(type(one) is str for one in listed)
    if not listed or not texts or len({*listed}) < len(listed):
        raise InvalidInput(
            f"{what} {quote(given)}; they must be a list of texts in order, each once"
        )
    return tuple(listed)


def check_asked(statistic: Statistic, name: Any) -> None:
    """Refuse what cannot be asked of readings.

    Raises:
        InvalidInput: no name of a cell, or a statistic whose readings say all there is.
    """
    if statistic.card.check_asked is not None:
        statistic.card.check_asked(statistic, name)
    elif isinstance(statistic, NamedCells):
        statistic.cell(name)
    elif statistic.card.ranks:
        place_of_name(statistic, name)
    else:
        raise InvalidInput(
            f"{field('ask', name)} names cells, and {type(statistic).__name__} releases all it has "
            f"to say; leave it out"
        )


def protects(statistic: Statistic) -> str:
    """What is protected: a "user", an "edge", a "letter", or an "event" of any other sort."""
    card = statistic.card
    return card.unit or (card.event if card.event in NO_EVENTS else "event")


def besides_of(statistic: Statistic) -> Sequence[str]:
    """What numbers leave out besides noise, a line each; none: nothing."""
    found = statistic.card.besides_noise
    return () if found is None else found(statistic)


def units_of(statistic: Statistic, column: str | None, rows: str) -> dict[str, str]:
    """The units of numbers, by their names; "": of all others. None: nobody says.

    Args:
        statistic: which.
        column: whose values it reads; None: it reads none.
        rows: what a row is called, in the plural.
    """
    card = statistic.card
    if card.units is not None:
        return card.units(column, rows)
    if card.chart.of_values:
        return {} if column is None else {"": column}
    axis = card.chart.axis.replace("{counted}", rows)
    return {"": rows if axis == ChartSpec().axis else axis} if axis else {}


def neighbours_differ(statistic: Statistic) -> str:
    """How neighbouring streams stand to each other, in words.

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
    """What `Exact.save` gave, and the `Exact.news` since then.

    Raises:
        StateError: what this statistic never saves.
    """
    exact = statistic.begin()
    for part in (saved, *news):
        exact.load(part)
    return exact


def shape_of(statistic: Statistic, groups: int | None) -> tuple[int, ...]:
    """Shape of what one step releases, of this many groups; None: of none.

    Cells that are computed when they are asked for have none.
    """
    if statistic.card.additive:
        return () if groups is None else (groups,)
    return () if statistic.card.on_demand else statistic.cells


@cache
def _defaults_of(kind: type[Statistic]) -> Mapping[str, Any]:
    """What the parameters of a statistic are where nobody states them, by name."""
    return {name: one.default for name, one in signature(kind).parameters.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [*value]
    return text(value) if isinstance(value, Fraction) else value

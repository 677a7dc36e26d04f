"""The base class of statistics.

A statistic counts events in cells, bounds how much one protected unit changes the cells, and
computes its numbers from the released ones. `Counter` counts all cells over time, so all
strategies, guarantees and plans apply.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from fractions import Fraction
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.columns import BETWEEN
from counton.base.errors import InvalidInputError, param
from counton.base.exact import has_parts, quote, quote_name, suggest, text
from counton.base.systematic_error import SystematicError
from counton.privacy import ContributionBound, Guarantee
from counton.privacy.contribution import checked_unit
from counton.statistics.cells import Cells

if TYPE_CHECKING:
    from counton.continual.formulas import Estimate
    from counton.statistics.results import StatisticResult

#: Events of one or more steps: a sequence, or an array with a row for each event.
Events = Sequence[Any] | NDArray[Any]


class OwnColumns(NamedTuple):
    """Columns that a statistic reads, in this order, and those of them that hold numbers."""

    names: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()


class ErrorScale(NamedTuple):
    """Errors of a statistic's numbers, divided by the standard deviation of one cell.

    Attributes:
        meaning: the numbers; completes "errors are of".
        mean: square root of the mean variance.
        largest: square root of the largest variance.
    """

    meaning: str
    mean: float = 1.0
    largest: float = 1.0

    @classmethod
    def from_variances(cls, meaning: str, variances: NDArray[np.float64]) -> ErrorScale:
        """Return the scale of numbers, given their variances for cells of variance 1."""
        return cls(meaning, math.sqrt(float(variances.mean())), math.sqrt(float(variances.max())))


#: Largest number of names in an error message.
_SHOWN_NAMES = 20
#: Words for protected units that are not called events.
NO_EVENTS = ("user", "edge", "letter")


class Exact(ABC):
    """The exact counts of all events so far. They are secret."""

    @abstractmethod
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the events of consecutive steps, or none of them.

        Args:
            events: the events of these steps, in the order in which they happened.
            stops: for each step the number of events up to its end.

        Returns:
            The change of each cell in each step, in multiples of the contribution's resolution:
            int64, shape ``(len(stops), *cells)``; ``(len(stops), 0)`` for cells on demand.

        Raises:
            InvalidInputError: a value that is no event, or breaks a bound; nothing is changed.
        """

    @abstractmethod
    def undo(self) -> None:
        """Remove the events of the last `take`, at most once, because their release failed."""

    @abstractmethod
    def save(self) -> bytes:
        """Return these secret counts as bytes that `load` reads."""

    def load(self, saved: bytes) -> None:
        """Load the bytes of `save` into a new object.

        Args:
            saved: the bytes that `save` returned.

        Raises:
            StateError: the bytes cannot be from `save`.
        """
        raise NotImplementedError

    def counts(self, cells: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        """Return exact counts of cells on demand after a step, in the shape of ``cells``.

        Args:
            cells: indices of cells.
            step: a step that was counted, from 1.
        """
        raise NotImplementedError

    @property
    def largest(self) -> int:
        """Upper bound on every exact count's absolute value, for cells on demand."""
        raise NotImplementedError


def place_of_name(statistic: Statistic, name: object) -> int:
    """Return the index of a statistic's number.

    Raises:
        InvalidInputError: no number has this name.

    >>> from counton.statistics import TopK
    >>> place_of_name(TopK(["JFK", "LGA"]), "LGA")
    1
    """
    counted = statistic.counted
    names = [str(label) for label in ([counted] if counted else statistic.number_names)]
    if type(name) in (str, int) and str(name) in names:
        return names.index(str(name))
    shown_names = ", ".join(names[:_SHOWN_NAMES])
    advice = f"give one of {shown_names}{', ...' if len(names) > _SHOWN_NAMES else ''}"
    advice = suggest(name, names) + advice
    raise InvalidInputError(f"{quote_name(name)} is not among the {len(names):,} names; {advice}")


def number_of_cell(statistic: Statistic, cells: Cells, name: object = None) -> Estimate:
    """Return one released cell as a number.

    ``name`` None is the statistic's only number.

    Raises:
        InvalidInputError: there is no such number, or no name is given although there are several.
    """
    if name is None:
        if math.prod(statistic.cells) != 1:
            raise InvalidInputError(
                f"{type(statistic).__name__} has several numbers; give the name of one of them"
            )
        return cells.cell(0)
    return cells.cell(place_of_name(statistic, name))


class StatisticTexts:
    """The texts of a statistic: for commands, tables, sentences and plans.

    Attributes:
        keyword: its name in commands, job files and tables; "": it has no name there.
        says: one line that describes the statistic.
        help: more text for its command; a `counton.base.errors.param` in it names an option.
        example: options of an example of its command, as in "by=page", for visits.csv of the front
            page.
        example_file: name and content of a further file of the example.
        phrase: what follows "The running" in a sentence; parameters are in braces.
        also_called: other words by which people look for it.
        sources: papers by their names in `counton.base.literature`.
        event: word for what is counted; a user, an edge or a letter is the protected unit.
        counted: name of its only cell.
        column: table column of the names of its numbers.
        unit_word: the unit of its numbers; "{counted}" stands for rows, "{value}" for the column.
        on_screen: numbers that a screen shows first.
        shows: the options that change how released numbers are shown.
    """

    keyword: str = ""
    says: str = ""
    help: str = ""
    example: str = ""
    example_file: tuple[str, str] | None = None
    phrase: str = ""
    also_called: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    event: str = "event"
    counted: str = ""
    column: str = "cell"
    unit_word: str = "{counted}"
    on_screen: tuple[str, ...] = ()
    shows: tuple[str, ...] = ("over",)

    @property
    def phrase_words(self) -> dict[str, str]:
        """Words by their names in ``phrase``, besides parameters."""
        return {}


class ReleasedNumbers:
    """How numbers follow from the released cells of a statistic.

    Attributes:
        result_type: subclass of `StatisticResult`, made from all released cells, or, if
            ``on_demand``, from the running stream; None: `StatisticResult` itself.
        additive: each cell is a released number, so that windows and groups are sums of cells; a
            stream's description does not name the statistic.
        on_demand: there are too many cells to release all: each is computed when asked for.
        many_groups: `number_of` takes the cells of many groups at once.
        finds: an undeclared group is shown once its noisy count is large enough.
        ranks: its table orders groups by size.
        is_table: released once, as a table, when rows have no times.
        in_rank: its error is known beforehand only as a share of the rows, as for quantiles.
        alike: name of each of its numbers in a plan if their errors are equal.
        known_beforehand: numbers whose half-widths are known before data; None: all.
        statistics: those that a report combines, by name.
    """

    result_type: Callable[..., StatisticResult] | None = None
    additive: bool = False
    on_demand: bool = False
    many_groups: bool = False
    finds: bool = False
    ranks: bool = False
    is_table: bool = False
    in_rank: bool = False
    alike: str = ""
    known_beforehand: tuple[str, ...] | None = None
    statistics: Mapping[str, Statistic] = {}


class Statistic(StatisticTexts, ReleasedNumbers, ABC):
    """Base class of statistics: what is known of one before any data.

    `contribution` bounds one unit's change of the cells, and `number_of` computes numbers from
    released cells. A class states only what differs from the defaults.

    Attributes:
        ordered: True if the order of events matters; False: cells are sums of rows in any order.
        of_letters: each step has exactly one letter, unless several come in one step: removing one
            would move all later letters to other steps.
        domain: the public set of nodes, labels or a tree.
        declares: the declared groups, if they are its cells.
        own_columns: the columns that it reads, if it names them itself.
    """

    ordered: bool = True
    of_letters: bool = False
    domain: Any = None
    declares: tuple[str, ...] | None = None
    own_columns: OwnColumns | None = None
    _stated: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments as JSON values, without defaults."""
        return self._parameters_of(*_defaults_of(type(self)))

    def _parameters_of(self, *names: str) -> dict[str, Any]:
        """Return attributes as JSON values, without defaults and an unstated unit."""
        defaults = _defaults_of(type(self))
        parameters = dict[str, Any]()
        for name in names:
            if name in defaults:
                value = getattr(self, name)
                if self._stated if name == "unit" else value != defaults[name]:
                    value = [*value] if isinstance(value, tuple) else value
                    parameters[name] = text(value) if isinstance(value, Fraction) else value
        return parameters

    def _call_units(self, unit: str | None, otherwise: str = "event") -> None:
        """Set ``unit``, or ``otherwise`` if nobody stated it."""
        self.unit = checked_unit(otherwise if unit is None else unit)
        self._stated = unit is not None

    @property
    def cells(self) -> tuple[int, ...]:
        """Shape of the cells of one step: () for a single number."""
        return ()

    @abstractmethod
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        """Return the bound on how much one protected unit changes the cells.

        Neighbouring streams differ in events of one unit. All other events stay in their steps; a
        step that loses all its events remains.

        Args:
            batched: True if a step may have any number of events, else at most one, or exactly one
                letter.
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

    #: Function that computes a number from released cells, given its name; by default the number of
    #: the cell of this name.
    number_of = number_of_cell

    def whole(self, cells: Cells) -> Estimate:
        """Return the total of which each number is a part, the divisor of shares.

        Args:
            cells: the released cells.

        Raises:
            InvalidInputError: the numbers of this statistic are not parts of a total.
        """
        raise InvalidInputError(
            f"numbers of {type(self).__name__} are not parts of one total, so they have no shares; "
            "ask for a ratio of two numbers"
        )

    def check_asked(self, name: Any) -> None:
        """Raise `InvalidInputError` unless this number can be requested by its name.

        Args:
            name: name of a number, as the option ``ask`` states it.
        """
        raise InvalidInputError(
            f"{param('ask', name)} asks for single numbers, but {type(self).__name__} releases all "
            "its numbers; leave it out"
        )

    @property
    def protects(self) -> str:
        """The kind of protected unit: "user", "edge", "letter" or "event"."""
        return self.event if self.event in NO_EVENTS else "event"

    def neighbours_differ(self) -> str:
        """Return in words how neighbouring streams of this statistic differ.

        >>> from counton.statistics import Distinct
        >>> print(Distinct().neighbours_differ())
        in what one unit does; all other events stay in their steps, and a step left without one is
        empty
        """
        return (
            "in what one unit does; all other events stay in their steps, and a step left without "
            "one is empty"
        )

    def systematic_errors(self) -> Sequence[SystematicError]:
        """Return the errors other than noise, such as clipping."""
        return ()

    def units_of(self, column: str | None, rows: str) -> dict[str, str]:
        """Return the units of numbers, for tables and charts.

        Args:
            column: name of the column of values; None: the statistic reads none.
            rows: word for several rows, such as "visits".

        Returns:
            Units by the name of a number. The key "" is for all others; no entry: the unit is not
            known.
        """
        if self.unit_word == "{value}":
            return {} if column is None else {"": column}
        return {"": self.unit_word.replace("{counted}", rows)} if self.unit_word else {}

    @staticmethod
    def label(names: Mapping[str, Any]) -> str:
        """Join the names in a row's columns to the name of a group.

        Args:
            names: the names by column; None in place of a name: all of that column.

        >>> Statistic.label({"region": "north", "city": "x"}), Statistic.label({"region": None})
        ('north / x', 'all')
        """
        return BETWEEN.join(str(name) for name in names.values() if name is not None) or "all"

    def by_groups(self, groups: Sequence[str]) -> Self | None:
        """Return the statistic with one cell for each given group.

        None: `counton.statistics.by_group.Grouped` makes a copy for each.

        Args:
            groups: names of all groups, in order.
        """
        return None

    def for_people(self, most: int) -> Self:
        """Return the statistic for at most ``most`` rows of each user.

        Args:
            most: largest number of rows of one user that count.

        Returns:
            A copy if the number changes anything; otherwise the statistic itself.
        """
        return self

    def norms_of_people(self, most: int) -> tuple[int, int] | None:
        """Bound the 1-norm and squared 2-norm of the change by the rows of one user.

        Args:
            most: largest number of rows of one user that count.

        Returns:
            Both bounds; None: each row changes the cells by no more than `contribution` states.
        """
        return None

    def resolve_parameters(self, guarantee: Guarantee, horizon: int | None = None) -> Self:
        """Return a copy with parameters chosen for the guarantee, or the statistic itself.

        All code that begins a stream must call this first.

        Args:
            guarantee: the guarantee of all releases together.
            horizon: number of steps; None: the stream has no last step.
        """
        return self

    def allows(self, other: Statistic) -> bool:
        """Return whether another statistic differs at most in resolved parameters.

        Args:
            other: the statistic to compare with.

        Returns:
            True if it is equal, apart from parameters that `resolve_parameters` chooses.
        """
        return self == other

    def most_counted(self, first: float, last: float) -> float:
        """Return the total of all sums up to which published numbers are exact in float64.

        It is infinite unless fractions of 1 are published.

        Args:
            first: standard deviation of a cell at the first step.
            last: the same at the last step.
        """
        return math.inf

    def total(self, cells: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the total of all sums for each step; with groups the largest.

        Args:
            cells: exact cells, of shape ``(steps, *cells)``.
        """
        return np.zeros(len(cells))

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
        """Return the index of a cell; `InvalidInputError` for an unknown name."""

    @abstractmethod
    def name_of(self, cell: int) -> str:
        """Return the name of a cell; the inverse of `cell`."""

    @override
    def check_asked(self, name: Any) -> None:
        self.cell(name)


def distinct_names(names: Any, subject: str) -> tuple[str, ...]:
    """Return distinct texts, at least one; ``subject`` begins the message, such as "groups are".

    >>> distinct_names(["north", "south"], "groups are")
    ('north', 'south')
    """
    listed = [] if isinstance(names, (str, Set, Mapping)) else list(names)
    texts = all(type(text) is str for text in listed)
    if not listed or not texts or len({*listed}) < len(listed):
        if not listed:
            wrong = "empty" if has_parts(names, 0) else quote(names)
        elif not texts:
            wrong = "not all texts"
        else:
            wrong = "not all different"
        raise InvalidInputError(f"{subject} {wrong}; give a list of different texts, in order")
    return tuple(listed)


def says_cells(statistic: Statistic) -> bool:
    """Return True if the statistic's numbers are its released cells."""
    return type(statistic).number_of is number_of_cell


def restore(statistic: Statistic, saved: bytes) -> Exact:
    """Rebuild exact counts from `Exact.save`."""
    exact = statistic.begin()
    exact.load(saved)
    return exact


def shape_of(statistic: Statistic, groups: int | None) -> tuple[int, ...]:
    """Return the shape of the cells of one step; () for cells on request."""
    if statistic.additive:
        return () if groups is None else (groups,)
    return () if statistic.on_demand else statistic.cells


@cache
def _defaults_of(kind: type[Statistic]) -> Mapping[str, object]:
    """Return the defaults of the constructor's parameters."""
    return {name: parameter.default for name, parameter in signature(kind).parameters.items()}

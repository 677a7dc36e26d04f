"""What a statistic is: events become counts in cells, one unit changes few of them, all is read.

A statistic is one idea: a map from events (letters, edges, values) to cells, what one protected
unit changes in these cells at most, and a way to read what is released of them. The cells are
counted by a `Counter` like any others, so every strategy, guarantee and plan serves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Integers
from counton.base.distributions import Sensitivity
from counton.base.errors import InvalidInput, field
from counton.base.exact import float_above, quote, root_above, text
from counton.base.options import Option, OwnColumns, Statement
from counton.numbers import StepRelease
from counton.numbers.node_law import sensitivity_of
from counton.privacy import Contribution, Guarantee
from counton.privacy.contribution import checked_unit
from counton.statistics.live_statistic import Running
from counton.statistics.readings import Cells, OnDemandReading, Reading
from counton.strategies import StreamStrategy
from counton.strategies.participation import Norm, check_norm

if TYPE_CHECKING:
    from counton.noise import Key
    from counton.numbers.formulas import Estimate
    from counton.planning.lower_bounds import LowerBound
    from counton.planning.planner import StreamOptions, StreamPlan
    from counton.statistics.event_machine import Machine

#: Events of one or more steps: a sequence of what one event is, or an array with a row for each.
Events = Sequence[Any] | NDArray[Any]
#: What reading cells on demand costs, in words.
WHEN_ASKED = (
    "a cell is computed when it is asked for: with trees from few draws of noise, with square "
    "roots from as many as there were steps"
)


class ErrorScale(NamedTuple):
    """What the standard deviations of a plan are of, in those of one cell that is measured.

    Attributes:
        what: in words, after "errors are of".
        mean, largest: of what is asked: root of the mean of variances, and of the largest one.
    """

    what: str
    mean: float = 1.0
    largest: float = 1.0


class ChartSpec(NamedTuple):
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
        """All of it; `load` goes on from there."""

    def load(self, saved: bytes) -> None:
        """Know what `save` gave, where nothing is known yet.

        Raises:
            StateError: what is never saved.
        """
        raise NotImplementedError

    def news(self) -> bytes | None:
        """What the last `take` added to what is known; `Statistic.join` puts it there.

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
        on_demand: cells are so many that only those are computed which somebody asks for.
        event: what one event is, in words.
        of_letters: events are the letters of a text, of which each step has exactly one where it
            has no batch of them: one that is left out would move others.
        tallied: the order of events does not matter (`counton.statistics.tally_statistic`).
        is_table: rows without times are released once, as a table.
        counted: name of its cell, where it has one alone, which has a name.
        declares: the groups of rows by which its cells are called; None: its cells are others.
        domain: what was declared of it, where that are no groups: nodes, labels, a tree.
        cells_in_words: by what its cells are told apart, at the end of a title: ", by region".
        reading_bounds: between what its readings lie; an interval of all that says nothing.
        sources: where it is described, by names of `counton.base.literature`.
        unprotected: what its unit does not cover, in words.
        keyword: its name in commands, job files and tables; "": it has none, and is given as such.
        says: what it is, in one line.
        help: what the help of its command says besides; a `counton.base.errors.field` is an option.
        phrase: what it is in a sentence that begins "The running"; its parameters in braces.
        also_called: other words that people look for it by.
        options: what defines it in a command or a job file, besides what every job states.
        reads: fields of every job which define it too, as "domain".
        shows: fields of what is shown of its readings.
        drawing: how a chart shows it.
        stream: what its streams are called, unless a job says else.
        windowed: it is of windows of time; else without a column of times each row is a step.
        additive: its cells are its groups as they were released, so what happened in some windows,
            or in some groups together, is a sum of them.
        in_terms: the terms of a stream name it; of counts and sums the contribution says all.
        finds: its groups may be such as nobody declared, each shown once it is large enough.
        ranks: its groups are shown by their size.
        column: of its table, that names the numbers.
        many_groups: `number_of` takes the cells of many groups at once, and gives arrays of them.
        reading: what is made of its releases, where that has words of its own.
        in_rank: before any data its error is known as part of the rows, and not in its values.
        known_beforehand: names of what is read whose half-widths depend on no rows; None: all.
    """

    keyword: ClassVar[str] = ""
    says: ClassVar[str] = ""
    help: ClassVar[str] = ""
    phrase: ClassVar[str] = ""
    also_called: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[tuple[Option, ...]] = ()
    reads: ClassVar[tuple[str, ...]] = ()
    shows: ClassVar[tuple[str, ...]] = ("over", "sums")
    drawing: ClassVar[ChartSpec] = ChartSpec()
    stream: ClassVar[str] = "statistic"
    windowed: ClassVar[bool] = False
    additive: ClassVar[bool] = False
    in_terms: ClassVar[bool] = True
    finds: ClassVar[bool] = False
    ranks: ClassVar[bool] = False
    in_rank: ClassVar[bool] = False
    on_demand: ClassVar[bool] = False
    column: ClassVar[str] = "cell"
    many_groups: ClassVar[bool] = False
    reading: ClassVar[type[Reading]] = Reading
    known_beforehand: tuple[str, ...] | None = None
    tallied: bool = False
    is_table: ClassVar[bool] = False
    event: ClassVar[str] = "event"
    of_letters: ClassVar[bool] = False
    counted: ClassVar[str] = ""
    _stated: bool = False
    declares: Sequence[str] | None = None
    domain: Any = None
    cells_in_words: str = ""
    reading_bounds: tuple[float, float] | None = None
    sources: tuple[str, ...] = ()
    unprotected: tuple[str, ...] = ()

    @classmethod
    def from_job(cls, stated: Statement) -> Statistic:
        """The statistic that a job asks for: made of its options, but those that name columns.

        Raises:
            InvalidInput: an option is missing, out of range, or contradicts another one.
        """
        stated.require(*(one.name for one in cls.options if one.needed and not one.column))
        return cls(**stated.only(*(one.name for one in cls.options if not one.column)))

    @classmethod
    def of_contribution(cls, held: Contribution) -> Statistic:
        """The statistic of a stream whose terms name none: a number of rows."""
        from counton.statistics.catalogue import statistic_named

        return statistic_named("count")()

    @classmethod
    def columns_of_job(cls, stated: Statement) -> OwnColumns:
        """The columns that it reads besides time, group and user: those its options name.

        Raises:
            InvalidInput: one is missing.
        """
        named: list[str] = []
        of: dict[str, list[str]] = {"number": [], "flag": []}
        for one in cls.options:
            if not one.column or (stated[one.name] is None and not one.needed):
                continue
            columns = (
                stated.require_names(one.name) if one.several else tuple(stated.require(one.name))
            )
            named += columns
            of.setdefault(one.column, []).extend(columns)
        return OwnColumns(tuple(named), tuple(of["number"]), tuple(of["flag"]))

    @classmethod
    def settles(cls, stated: Statement) -> Mapping[str, Any]:
        """What it makes of the fields of every job, where a new stream leaves them open."""
        return {}

    @property
    def inner(self) -> Statistic:
        """The statistic of one group; itself, where there are none."""
        return self

    @property
    def statistics(self) -> Mapping[str, Statistic]:
        """The statistics that it holds, by name; none, unless it is a report of several."""
        return {}

    @property
    def own_columns(self) -> OwnColumns | None:
        """The columns that it reads, where it knows them by itself; None: a job names them."""
        return None

    def for_people(self, most: int) -> Statistic:
        """This statistic in a stream in which this many rows of a person count."""
        return self

    def norms_of_people(self, most: int) -> tuple[int, int] | None:
        """What all rows of a person change in all cells: the 1-norm, and the square of the 2-norm.

        None where each of them changes what one row does.
        """
        return None

    def showing(self, top: int) -> Statistic:
        """This statistic, of whose groups this many are shown; itself where all are."""
        return self

    def check_asked(self, name: Any) -> None:
        """Refuse what cannot be asked of its readings.

        Raises:
            InvalidInput: no name of a cell, or a statistic whose readings say all there is.
        """
        if not (self.on_demand or self.ranks):
            raise InvalidInput(
                f"{field('ask', name)} names cells, and {type(self).__name__} releases all it has "
                f"to say; leave it out"
            )
        self.cell(name)

    def asked_cells(self, name: Any) -> tuple[str, Integers]:
        """What is asked for, as a table calls it, and the cells that are added up for it."""
        cell = self.cell(name)
        return self.name_of(cell), np.array([cell])

    def label(self, names: Mapping[str, Any]) -> str:
        """What a row is about, in one text."""
        return " ".join(str(one) for one in names.values() if one is not None) or "all"

    def profile(self, table: Mapping[str, NDArray[Any]]) -> str | None:
        """The column in whose order cells stand beside each other; None: they have no order."""
        return None

    def left_out_of_chart(self, table: Mapping[str, NDArray[Any]]) -> str:
        """Words on groups that `chart_rows` leaves out of a chart; "": none."""
        return ""

    def chart_rows(self, table: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """The rows of a table that a chart shows, called by a column ``group`` where need be."""
        return table

    def by_groups(self, groups: Sequence[str]) -> Statistic | None:
        """This statistic of some groups, which are its own cells; None: `Grouped` makes it."""
        return None

    def shape_of(self, groups: int | None) -> tuple[int, ...]:
        """Shape of what one step releases, of this many groups; None: of none.

        Cells that are computed when they are asked for have none.
        """
        if self.additive:
            return () if groups is None else (groups,)
        return () if self.on_demand else self.cells

    @property
    def protects(self) -> str:
        """What its unit is: a "user", an "edge", a "letter", or an "event" of any other sort."""
        return self.event if self.event in ("user", "edge", "letter") else "event"

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
    def contribution(self, *, batched: bool = False) -> Contribution:
        """What one protected unit changes at most.

        Args:
            batched: a step may have any number of events; else each has at most one, or exactly
                one letter (``of_letters``).

        Neighbouring streams differ in events of one unit; all other events stay in their steps, and
        a step that has none left is an empty step.
        """

    def contribution_within(self, horizon: int | None, *, batched: bool = False) -> Contribution:
        """`contribution` in a stream of this many steps, which may hold less than a unit does."""
        return self.contribution(batched=batched)

    @property
    def neighbours_differ(self) -> str:
        """How neighbouring streams stand to each other, in words.

        >>> from counton.statistics import Distinct
        >>> print(Distinct().neighbours_differ)
        in what one unit does; all other events stay in their steps, and a step left without one is
        empty
        """
        if self.of_letters:
            return f"in one {self.event}; each step has as many in both"
        return (
            "in what one unit does; all other events stay in their steps, and a step left without "
            "one is empty"
        )

    @property
    def error_of(self) -> ErrorScale:
        """What a plan's errors are of; of one cell, unless readings say something else."""
        return ErrorScale("one cell")

    @abstractmethod
    def begin(self) -> Exact:
        """Nothing counted yet."""

    def restore(self, saved: bytes) -> Exact:
        """Inverse of `Exact.save`.

        Raises:
            StateError: what this statistic never saves.
        """
        exact = self.begin()
        exact.load(saved)
        return exact

    def join(self, saved: bytes, news: Sequence[bytes]) -> bytes:
        """What `Exact.save` gives after some more takes, from what it gave, and their `Exact.news`.

        Raises:
            StateError: what this statistic never saves.
        """
        raise NotImplementedError

    @property
    def says_cells(self) -> bool:
        """Whether its numbers are its cells as they are released."""
        return type(self).number_of is Statistic.number_of

    @property
    def number_names(self) -> Sequence[Any]:
        """The names of its numbers, in the order of the rows of its table; (None,): it has one."""
        if not self.cells:
            return (None,)
        return [self.name_of(cell) for cell in range(math.prod(self.cells))]

    def number_of(self, cells: Cells, name: Any = None) -> Estimate:
        """How a number follows from released cells; unless a statistic says else it is a cell.

        Table, interval, difference, ratio, share and chart follow from it.

        Args:
            cells: as they were released, at a step or between two, of a group where there are some.
            name: as the table calls it, also in one text; None: the number it is there for.

        Raises:
            InvalidInput: no such number, or none named where there are several.
        """
        if name is None:
            if math.prod(self.cells) != 1:
                raise InvalidInput(f"{type(self).__name__} says several numbers; name one of them")
            return cells.one(0)
        with suppress(InvalidInput):
            return cells.one(self.cell(name))
        with suppress(InvalidInput, ValueError):
            return cells.one(self.cell(int(name)))
        return cells.one(self.cell(name))

    def whole(self, cells: Cells) -> Estimate:
        """All that is counted, of which numbers are shares.

        Raises:
            InvalidInput: a statistic whose numbers are no parts of a whole.
        """
        raise InvalidInput(
            f"numbers of {type(self).__name__} are no parts of one whole; ask for a ratio"
        )

    def read(self, release: StepRelease) -> Reading:
        """What one release of all cells says; not called where cells are read on demand."""
        return self.reading(self, Cells(release))

    def reading_on_demand(self, machine: Machine, step: int) -> OnDemandReading:
        """A step whose cells are read on demand; a statistic with words of its own overrides it."""
        return OnDemandReading(machine, step)

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

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters as JSON values."""
        return {"statistic": type(self).__name__, **self.parameters}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`.

        Raises:
            InvalidInput: parameters that are missing, unknown or out of range.
        """
        parameters = {name: value for name, value in saved.items() if name != "statistic"}
        try:
            return cls(**parameters)
        except TypeError as error:
            raise InvalidInput(
                f"parameters of {cls.__name__} are {str(parameters)[:200]}: {error}"
            ) from error

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash(repr(self))

    def cell(self, name: Any) -> int:
        """Number of the cell of this name, in the order of a flattened array.

        Raises:
            InvalidInput: no cell of this name.
        """
        if not self.counted:
            raise InvalidInput(f"{type(self).__name__} has no cells with names; {name!r} is none")
        if name != self.counted:
            raise InvalidInput(f"cell is {quote(name)}; there is only {self.counted!r}")
        return 0

    def name_of(self, cell: int) -> str:
        """Name of a cell: inverse of `cell`."""
        return self.counted or str(cell)

    def sensitivities(self, strategy: StreamStrategy, *, batched: bool = False) -> Sensitivity:
        """How far one unit moves all node values together, in lattice integers."""
        contribution = self.contribution_within(strategy.horizon, batched=batched)
        return sensitivity_of(strategy, contribution, self.cells)

    def sensitivity(self, strategy: StreamStrategy, p: Norm, *, batched: bool = False) -> float:
        """Largest p-norm of C d over all neighbours: exact, or a proven bound from above.

        Args:
            p: 1 for Laplace, 2 for Gaussian noise.
            batched: see `contribution`.

        Raises:
            InvalidInput: ``p`` is neither 1 nor 2, or the strategy is unbounded.
        """
        norm, moved = check_norm(p), self.sensitivities(strategy, batched=batched)
        scale = 1 << strategy.lattice_bits
        if norm == 1:
            return float_above(Fraction(moved.l1, scale))
        return root_above(Fraction(moved.l2_squared, scale**2))

    def plan(
        self,
        horizon: int | None,
        guarantee: Guarantee,
        *,
        batched: bool = False,
        **options: Unpack[StreamOptions],
    ) -> StreamPlan:
        """Strategies by the error of what is asked: ``counton.plan(..., of=self)``.

        Args:
            batched: whether steps have any number of events; else one each.
            options: as of `counton.plan`; kinds that are never best are left out unless asked for.

        Raises:
            InvalidInput: see `counton.plan`.
        """
        from counton.planning.planner import plan_stream

        this = self.settle(guarantee, horizon)
        options = {"compare": False, **options}
        if horizon == 1:  # there is one total, and one draw of integers has the least error
            options["simple"] = True
        found = plan_stream(
            horizon,
            guarantee,
            contribution=this.contribution_within(horizon, batched=batched),
            shape=() if self.on_demand else this.cells,
            **options,
        )
        steps = "steps have any number of events" if batched else "each row is a step"
        if this.on_demand:
            steps += f"; {WHEN_ASKED}"
        words = f"errors are of {this.error_of.what}, for {this!r}; {steps}"
        return this.restate(found, words, batched=batched)

    def restate(self, found: StreamPlan, words: str = "", *, batched: bool = False) -> StreamPlan:
        """A plan for one cell, with the errors of what is asked (`error_of`), and its bounds."""
        of = self.error_of
        words = words or f"errors are of {of.what}"
        read = found.best.errors_of._replace(mean=of.mean, largest=of.largest, what=words)
        return replace(
            found,
            choices=tuple(replace(one, errors_of=read) for one in found.choices),
            words=(*found.words, words),
            least_errors=self.least_errors(found.steps, found.guarantee, batched=batched),
        )

    def typical_cells(self, rows: int | None, steps: int) -> Integers | None:
        """Cells of rows that are spread evenly: how far off readings are that depend on the rows.

        None where they do not (``known_beforehand``). Nothing but public numbers is in them.

        Args:
            rows: how many rows there are; None: nobody says.
            steps: in how many steps they came.
        """
        return None

    def halfwidths(
        self,
        found: StreamPlan,
        step: int | None = None,
        level: float = 0.95,
        *,
        rows: int | None = None,
    ) -> dict[str, float]:
        """Half-widths that the best choice of a plan of this statistic has at a step, by name.

        Those of what a table has rows of: ``""`` where these are all of one kind.

        Args:
            found: what `plan` gives.
            step: which; None: the last one that is planned for.
            rows: how many rows there will be by then; None: what depends on that is left out.

        >>> from counton import PureDP
        >>> from counton.statistics import Distinct
        >>> users = Distinct(changes=4)
        >>> users.halfwidths(users.plan(52, PureDP(1), batched=True))
        {'': 49.45...}
        """
        from counton.statistics.planned_halfwidths import planned_halfwidths

        this, design = self.settle(found.guarantee, found.horizon), found.best.of_a_cell
        return planned_halfwidths(this, design, step or found.steps, level, rows=rows)

    def least_errors(
        self, horizon: int, guarantee: Guarantee, *, batched: bool = False
    ) -> tuple[LowerBound, ...]:
        """What no mechanism for this statistic is below, as far as there are theorems.

        Args:
            horizon: number of steps.
            guarantee: for all releases together.
            batched: a step may have any number of events; else one at most.
        """
        return ()

    def counter(
        self,
        horizon: int | None = None,
        guarantee: Guarantee | None = None,
        *,
        key: Key,
        name: str,
        strategy: StreamStrategy | None = None,
        batched: bool = False,
    ) -> Running:
        """A running statistic: events go in, readings come out.

        Args:
            horizon: number of steps.
            guarantee: for all releases together.
            key: the secret from which the noise is computed; never start a stream twice.
            strategy: how the noise is correlated over time; the planner's unless given.
            batched: a step may have any number of events (`Running.release_batch`); else at most
                one, and exactly one where events are letters. Then an event that comes or goes
                before others moves all later ones to other steps, and nothing is promised of it:
                let `None` stand where one is left out.

        Raises:
            InvalidInput: an argument is missing or out of range.
        """

        if guarantee is None or (strategy is None and horizon is None):
            raise InvalidInput(
                "horizon or guarantee is missing: state how many steps there will be, and what is "
                "promised, such as PureDP(1)"
            )
        this = self.settle(guarantee, horizon if strategy is None else strategy.horizon)
        if strategy is None:
            assert horizon is not None
            strategy = this.plan(horizon, guarantee, batched=batched).best.strategy
        return Running.start(this, strategy, guarantee, key=key, name=name, batched=batched)


@cache
def _defaults_of(kind: type[Statistic]) -> Mapping[str, Any]:
    """What the parameters of a statistic are where nobody states them, by name."""
    return {name: one.default for name, one in signature(kind).parameters.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [*value]
    return text(value) if isinstance(value, Fraction) else value

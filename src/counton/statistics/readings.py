"""The numbers of a statistic, computed from cells released at one step or between two steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self, cast, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.columns import TextTable, readable
from counton.base.errors import InvalidInput
from counton.base.exact import quote
from counton.numbers import Design, Releases, StepRelease
from counton.numbers.design import stream_cell
from counton.numbers.formulas import CellSum, ClosedForm, Formula, TableNumbers, Term, join_numbers
from counton.numbers.intervals import is_narrow, smooth_halfwidth
from counton.numbers.releases import PublicNumbers
from counton.numbers.table_request import EVERY_ROW, TableRequest
from counton.statistics.ranking import Ranking, ranking_of
from counton.strategies.strategy import checks_laws, largest_reads, window_rounding

if TYPE_CHECKING:
    from counton.numbers.formulas import Estimate
    from counton.statistics.live_statistic import Running
    from counton.statistics.statistic import NamedCells, Statistic

#: Largest number of names in an error message.
_NAMED = 20
#: Largest number of cells in one table.
_MOST_LISTED = 2**22


class Cells:
    """The released cells of a statistic, at one step or as a difference of two.

    They hold nothing exact. They belong to one group, or to ``groups`` at once. ``first`` is the
    index of the first cell in the stream or, for a statistic of a report, in all its groups.
    """

    def __init__(self, release: StepRelease, first: int = 0, groups: int | None = None) -> None:
        self.release, self.first, self.groups = release, first, groups

    @property
    def design(self) -> Design:
        """Design of the stream."""
        return self.release._design

    @property
    def std(self) -> float:
        """Standard deviation of each cell's noise, in data units."""
        return self.release.std

    @cached_property
    def values(self) -> NDArray[Any]:
        """Released values in data units, of shape ``(cells,)`` or ``(groups, cells)``."""
        return self.in_shape(self.release.value)

    def in_shape(self, each: Any) -> NDArray[Any]:
        """Reshape one number for each cell to the shape of ``values``."""
        return np.reshape(each, -1 if self.groups is None else (self.groups, -1))

    @property
    def ends(self) -> tuple[int, int]:
        """Pair (start, stop): rows of steps start + 1 to stop count, minus the delay."""
        return self.release.ends

    def since(self, earlier: Cells) -> Cells:
        """Subtract earlier cells of the same stream.

        Raises:
            InvalidInput: ``earlier`` is of another stream, is later, or is a difference itself; or
                the stream does not release running totals.
        """
        if earlier.first != self.first:
            raise InvalidInput(
                "numbers of one group cannot be subtracted from those of another: give numbers of "
                "the same group"
            )
        return Cells(self.release.since(earlier.release), self.first, self.groups)

    def part(self, of: Callable[[NDArray[Any]], Any], terms: Design, first: int) -> Cells:
        """Return the cells ``of`` one statistic with its design and first cell's index."""
        return Cells(self.release.part(of, terms), first)

    def one(self, cell: int, scale: Fraction = Fraction(1)) -> ClosedForm:
        """Return one cell times ``scale``, with the interval of its noise's exact distribution."""

        def times(each: NDArray[Any]) -> Any:
            number = each[..., cell] if self.groups else each[cell].item()
            return number * (int(scale) if scale.denominator == 1 else float(scale))

        def ends(level: float) -> tuple[Any, Any]:
            low, high = self.release.interval(level)
            return times(self.in_shape(low)), times(self.in_shape(high))

        return ClosedForm(
            times(self.values),
            ends,
            self.std * float(scale),
            lambda: self.sum({cell: float(scale)}),
        )

    def all(self) -> Formula:
        """Return the sum of all cells."""
        return self.sum(dict.fromkeys(range(len(self.values)), 1.0))

    def sum(
        self, weights: Mapping[int, float], value: float | None = None, grain: float = 0.0
    ) -> Formula:
        """Return a weighted sum of cells of one group.

        ``grain`` is the largest rounding error of a published ``value``, by default the sum itself.
        """
        if value is None:
            each = (weight * float(self.values[cell]) for cell, weight in weights.items())
            value = math.fsum(each)
        start, stop = self.ends
        parts = tuple(
            Term(float(weight), start, stop, stream_cell(self.design, self.first + cell))
            for cell, weight in weights.items()
            if weight
        )
        return Formula.of(CellSum(float(value), self.design, parts, grain))

    @property
    def one_draw(self) -> bool:
        """True if each cell has a single draw of noise."""
        strategy = self.design.strategy
        only = (
            strategy.horizon == 1
            and not strategy.facts.lattice_bits
            and not strategy.facts.fraction_bits
        )
        return only and self.release.between is None

    def halfwidth(self, level: float = 0.95) -> float:
        """Return the half-width of a single cell's interval, in data units.

        Raises:
            InvalidInput: the level is outside (0, 1 - 1e-9].
        """
        return self.design.errors.cell_halfwidth(*self.ends, level)

    def halfwidths(
        self, std: NDArray[np.float64], level: float = 0.95, read: int | None = None
    ) -> NDArray[np.float64]:
        """Return half-widths of weighted sums, given their standard deviations.

        ``read``: the largest number of cells in a sum, if released cells are rounded.

        Raises:
            InvalidInput: the level is outside (0, 1 - 1e-9].
        """
        # Cells have independent noise of one distribution. In standard deviations the half-width is
        # the largest of three: of a single cell, of sums of a few cells, of a normal distribution.
        # The margin added to it is that of `smooth_halfwidth`.
        one, law, strategy = self.halfwidth(level), self.design.law, self.design.strategy
        if not self.std:
            return np.zeros_like(std)
        draws = 1
        if not checks_laws(strategy):
            # A cell adds up at least as many draws at full weight as have its variance.
            variance = float(strategy.variance(self.ends[1], since=self.ends[0]))
            (full,) = largest_reads(strategy, np.array([self.ends[1]])).tolist()
            draws = max(int(variance / full**2 * (1 + 1e-9)), 1)
        coarse = (1.0 if is_narrow(law) else 0.5) / law.std
        alone = std * (one / self.std + coarse)
        half = np.maximum(alone, smooth_halfwidth(std, law, level, draws=draws))
        if read is not None:
            # By Cauchy and Schwarz, rounding moves a sum by at most this.
            rounded = float(window_rounding(strategy, *self.ends))
            rounded *= float(self.design.units.released)
            half = half + rounded * std / self.std * math.sqrt(read)
        return np.asarray(half, np.float64)


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


def says_cells(statistic: Statistic) -> bool:
    """Return True if the statistic's numbers are its released cells."""
    return type(statistic).number_of is number_of_cell


def read_release(statistic: Statistic, release: StepRelease) -> Reading:
    """Return the numbers of one release of all cells."""
    reading: Reading = statistic.card.reading(statistic, Cells(release))
    return reading


class Reading(PublicNumbers):
    """The released numbers of a statistic at one step, or between two releases.

    Every number has a value, a standard deviation and an interval. It holds nothing exact.
    ``start`` is the step after which rows count; None: all so far count.

    >>> from counton import Key, PureDP, Running
    >>> from counton.statistics import Count
    >>> visits = Running.start(
    ...     Count(), 24, PureDP(1), key=Key.generate(), name="visits", batched=True
    ... )
    >>> list(visits.release_batch(["home"]).table_columns())
    ['step', 'estimate', 'std', 'lower', 'upper']
    """

    start: int | None = None

    def __init__(self, statistic: Statistic, cells: Cells) -> None:
        self.statistic, self.cells, self.step = statistic, cells, cells.release.step
        self._design = cells.design
        if cells.release.between is not None:
            self.start = cells.ends[0]

    @property
    def release(self) -> StepRelease:
        """The released values of the cells."""
        return self.cells.release

    @property
    def number_names(self) -> Sequence[Any]:
        """The names of the numbers, one for each table row."""
        return self.statistic.number_names

    def number_of(self, name: Any = None) -> Estimate:
        """Return one number with its interval; the statistic's main number without a name.

        The result knows which noise it shares with others, so that sums and ratios have correct
        intervals.

        Raises:
            InvalidInput: there is no such number, or no name is given although there are several.
        """
        return self.statistic.number_of(self.cells, name)

    @property
    def says_cells(self) -> bool:
        """True if the numbers are the released cells."""
        return says_cells(self.statistic) and type(self).number_of is Reading.number_of

    def whole(self) -> Estimate:
        """Return the total of which each number is a part, the divisor of shares.

        Raises:
            InvalidInput: the numbers of this statistic are not parts of a total.
        """
        statistic = self.statistic
        if statistic.card.whole is None:
            raise InvalidInput(
                f"numbers of {type(statistic).__name__} are not parts of one total, so they have "
                "no shares; ask for a ratio of two numbers"
            )
        return statistic.card.whole(self.cells)

    def __getitem__(self, name: Any) -> Any:
        """Return the released value of one number.

        Raises:
            InvalidInput: no number has this name.
        """
        return self.number_of(name).value

    def std(self, name: Any = None) -> float:
        """Return the standard deviation of a number's noise, in the number's unit.

        Raises:
            InvalidInput: no number has this name.
        """
        if name is None and self.says_cells:
            return self.cells.std
        return self.number_of(name).std

    def interval(self, name: Any = None, level: float = 0.95) -> tuple[Any, Any]:
        """Return both ends of an interval of a number.

        Raises:
            InvalidInput: no number has this name, or the level is outside (0, 1 - 1e-9].
        """
        return self.number_of(name).interval(level)

    def since(self, earlier: Reading) -> Self:
        """Return the numbers of the rows that came after an earlier reading of the stream.

        Raises:
            InvalidInput: ``earlier`` is a reading of another stream, a later one or a difference;
                or the stream does not release running totals.
        """
        return type(self)(self.statistic, self.cells.since(earlier.cells))

    def screen(self, request: TableRequest, level: float) -> list[TextTable]:
        """Return the text tables of a table that is released once."""
        found = self.numbers(request).columns(level)
        names = [(name.replace("_", " "), True) for name in found]
        columns = {name: values.tolist() for name, values in found.items()}
        return [TextTable(names, [*zip(*readable(columns), strict=True)])]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.statistic!r} after step {self.step:,}>"

    def __str__(self) -> str:
        return self.describe()

    @property
    @override
    def _sources(self) -> tuple[str, ...]:
        return self.statistic.card.sources

    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        """Return the numbers of all or of the requested rows, with the texts that name them.

        Raises:
            InvalidInput: a name is unknown.
        """
        names, groups = self.number_names, self.cells.groups or 1
        about = {}
        if list(names) != [None]:
            about[self.statistic.card.column] = np.tile(np.array(names), groups)
        if self.says_cells:

            def ends(level: float) -> tuple[NDArray[Any], NDArray[Any]]:
                low, high = self.release.interval(level)
                return np.ravel(low), np.ravel(high)

            return TableNumbers(
                about, ClosedForm(np.ravel(self.cells.values), ends, self.cells.std)
            )

        def side_by_side(each: list[Any]) -> NDArray[Any]:
            return np.stack([np.broadcast_to(one, groups) for one in each], axis=-1).ravel()

        return TableNumbers(
            about, join_numbers([self.number_of(name) for name in names], side_by_side)
        )

    def table_columns(
        self, level: float = 0.95, ask: Sequence[Any] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Return the columns of `table` as arrays, by name, for all rows or those of ``ask``.

        Raises:
            InvalidInput: the level is outside (0, 1 - 1e-9].
        """
        found = self.numbers(TableRequest(ask)).columns(level)
        when = {"start": self.start, "step": self.step}
        if self.start is None:
            del when["start"]
        return {name: np.full(len(found["lower"]), one) for name, one in when.items()} | found


class Readings(Sequence[Reading]):
    """The readings of consecutive ``steps``, computed when accessed."""

    def __init__(
        self,
        statistic: Statistic,
        steps: range,
        releases: Releases | None,
        machine: Running | None = None,
        read: Callable[[StepRelease], Reading] | None = None,
    ) -> None:
        self.steps, self.releases = steps, releases
        self._statistic, self._machine = statistic, machine
        self._read = read or partial(read_release, statistic)

    @classmethod
    def of(cls, statistic: Statistic, terms: Design, values: NDArray[Any]) -> Readings:
        """Return the readings of released values; the first axis is the step, from 1."""
        steps = range(1, len(values) + 1)
        return cls(statistic, steps, Releases(steps, values, terms))

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        first, last = self.steps.start, self.steps.stop - 1
        return f"<Readings of {self._statistic!r}, steps {first:,} to {last:,}>"

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """Describe the stream, the protected unit and the guarantee."""
        return self[-1].describe() if len(self) else repr(self)

    def std(self, name: Any = None) -> NDArray[np.float64]:
        """Return the standard deviation of a number's noise at each step."""
        found = [reading.std() if name is None else reading.std(name) for reading in self]
        return np.array(found, np.float64)

    def table(self, level: float = 0.95) -> Any:
        """Return the tables of all steps below each other, as one polars data frame.

        Raises:
            InvalidInput: the level is outside (0, 1 - 1e-9].
            MissingExtra: polars is not installed.
        """
        from counton.base.columns import data_frame

        found = [reading.table_columns(level) for reading in self]
        names = found[0] if found else {}
        return data_frame({name: np.concatenate([one[name] for one in found]) for name in names})

    def _repr_html_(self) -> str:
        return self[-1]._repr_html_() if len(self) else repr(self)

    @overload
    def __getitem__(self, place: int) -> Reading: ...
    @overload
    def __getitem__(self, place: slice) -> Readings: ...
    def __getitem__(self, place: int | slice) -> Reading | Readings:
        """Return the reading at an index from 0, or those of a slice without gaps."""
        if isinstance(place, slice):
            steps, releases = self.steps[place], self.releases
            if steps.step != 1:
                raise InvalidInput(
                    f"{place} skips steps, but steps must follow each other: leave out the third "
                    "number of the slice"
                )
            if releases is not None:
                releases = Releases(steps, releases.values[place], releases._design)
            return Readings(self._statistic, steps, releases, self._machine, self._read)
        step = self.steps[place]
        if self.releases is None:
            assert self._machine is not None
            reading: Reading = self._statistic.card.reading(self._machine, step)
            return reading
        value, terms = self.releases.values[step - self.steps.start], self.releases._design
        std = float(terms.errors.std(range(step, step + 1))[0])
        return self._read(StepRelease(step, value if terms.shape else value.item(), std, terms))


class OnDemandReading(Reading):
    """The numbers of a statistic whose cells are computed on request.

    It can reach exact counts: keep it as secret as the data. Noise depends on key, cell and step
    alone, so the same question gets the same number again.
    """

    statistic: NamedCells

    def __init__(self, machine: Running, step: int) -> None:
        self.statistic = cast("NamedCells", machine.statistic)
        self.step, self._machine = step, machine
        self._design = machine.design

    @override
    def number_of(self, name: Any = None) -> Estimate:
        return self._estimate(np.array([self.statistic.cell(name)], dtype=np.int64)).at(0)

    @override
    def std(self, name: Any = None) -> float:
        """Return the standard deviation, the same for all cells."""
        if name is not None:
            self.statistic.cell(name)
        return float(self._machine.design.errors.std(range(self.step, self.step + 1))[0])

    def since(self, earlier: Reading) -> Self:
        """Raise `InvalidInput`: cells on request have no difference."""
        raise InvalidInput(
            "numbers that are computed on request cannot be subtracted as a whole (here of steps "
            f"{self.step} and {earlier.step}): subtract single numbers"
        )

    def ranking(
        self, k: int = 10, among: Sequence[Any] | None = None, level: float = 0.95
    ) -> Ranking:
        """Rank the largest cells; `rank_largest` describes the result.

        Args:
            among: cells that may be shown; None: all. Choose them without looking at releases,
                because the intervals hold together only for a fixed set.

        Raises:
            InvalidInput: the level is out of range, a cell is unknown, or ``among`` is None and
                there are over 2^22 cells.
        """
        cells = self._cells(among)
        if not len(cells):
            raise InvalidInput("among is empty: name at least one cell that may be shown")
        names = [self.statistic.name_of(cell) for cell in cells.tolist()]
        values = self._machine.values(cells, self.step)
        return ranking_of(names, values, self._half, k, level)

    def _cells(self, names: Sequence[Any] | None) -> NDArray[np.int64]:
        if names is not None:
            cells = np.array([self.statistic.cell(name) for name in names], dtype=np.int64)
            return np.unique(cells) if len(set(cells.tolist())) < len(cells) else cells
        count = math.prod(self.statistic.cells)
        if count > _MOST_LISTED:
            raise InvalidInput(
                f"there are {count:,} cells, and at most {_MOST_LISTED:,} can be listed: ask for "
                "single cells by name"
            )
        return np.arange(count)

    def _half(self, level: float) -> float:
        terms = self._machine.design
        steps = range(self.step, self.step + 1)
        half = float(terms.errors.halfwidths(steps, level)[0])
        return int(half) if half == int(half) and not terms.strategy.facts.fraction_bits else half

    def describe(self) -> str:
        """Describe the stream, the protected unit and the guarantee."""
        return self._machine.describe()

    @override
    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        """Return the numbers of all, or of the requested cells.

        Raises:
            InvalidInput: a cell is unknown, or no cells are requested and there are over 2^22.
        """
        cells = self._cells(request.ask)
        names = np.array([self.statistic.name_of(cell) for cell in cells.tolist()])
        return TableNumbers({"cell": names}, self._estimate(cells))

    def _estimate(self, cells: NDArray[np.int64]) -> ClosedForm:
        """Return the released values of some cells with their intervals."""
        return ClosedForm.around(self._machine.values(cells, self.step), self._half, self.std())

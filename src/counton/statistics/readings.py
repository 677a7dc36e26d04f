"""What was released of a statistic: of one step, of several, or of the cells that are asked for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.columns import TextTable
from counton.errors import InvalidInput
from counton.mechanisms import Releases, StepRelease
from counton.mechanisms.intervals import (
    check_level,
    is_narrow,
    smooth_halfwidth,
)
from counton.statistics.ranking import Ranking, rank_largest, ranking_levels
from counton.strategies import StreamStrategy

if TYPE_CHECKING:
    from counton.mechanisms.fit import Fit
    from counton.mechanisms.formulas import Formula, ReleasedNumber
    from counton.statistics.base import Statistic
    from counton.statistics.machine import Machine

#: Cells of a table of all of them.
_MOST_LISTED = 2**22


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseDifference(StepRelease):
    """What was counted after a step: a release less an earlier one.

    Attributes:
        start: the earlier step.
    """

    start: int = 0

    @override
    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        half = halfwidth(self, level)
        if half == int(half) and not self._terms.strategy.fraction_bits:
            half = int(half)
        return self.value - half, self.value + half

    @override
    def table_columns(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        """A column start says after which step."""
        columns = StepRelease.table_columns(self, level)
        low, high = (np.ravel(end) for end in self.interval(level))
        start = np.full(len(low), self.start)
        return {"start": start, **columns, "std": np.full(len(low), self.std)} | {
            "lower": low,
            "upper": high,
        }


def halfwidth(release: StepRelease, level: float = 0.95) -> float:
    """Half-width of the interval of each single cell of a release, in data units.

    Raises:
        InvalidInput: a level outside (0, 1 - 1e-9].
    """
    half = release._terms.window_halfwidths(*ends_of(release), level)
    return float(half.reshape(-1)[0])


def ends_of(release: StepRelease) -> tuple[int, int]:
    """After which step, and up to which, a release counts, but for the strategy's delay."""
    if isinstance(release, ReleaseDifference):
        return release.start, release.step
    windows = release._terms.strategy.workload == "windows"
    return release.step - 1 if windows else 0, release.step


def combined_halfwidths(
    release: StepRelease, std: NDArray[np.float64], level: float = 0.95
) -> NDArray[np.float64]:
    """Half-widths of intervals of sums of cells with weights, in data units.

    Cells have independent noise of one law. In standard deviations that is the largest of the
    half-width of a single cell, of sums of a few of them, and of a normal law: see
    `smooth_halfwidth`, which says too what comes to it.

    Args:
        release: of the cells.
        std: standard deviations of the sums.
        level: as of `halfwidth`.

    Raises:
        InvalidInput: a level outside (0, 1 - 1e-9].
    """
    one, law, strategy = halfwidth(release, level), release._terms.law, release._terms.strategy
    if not release.std:
        return np.zeros_like(std)
    draws = 1
    if type(strategy).node_law is StreamStrategy.node_law:
        # A cell adds up as many draws at full weight as have its variance, or more.
        variance = float(strategy.window_variance(*ends_of(release)))
        draws = max(int(variance / strategy.largest_read**2 * (1 + 1e-9)), 1)
    coarse = (1.0 if is_narrow(law) else 0.5) / law.std
    alone = std * (one / release.std + coarse)
    return np.asarray(np.maximum(alone, smooth_halfwidth(std, law, level, draws=draws)))


def is_one_draw(release: StepRelease) -> bool:
    """Whether each cell is an exact count and one draw of noise, and nothing else."""
    strategy = release._terms.strategy
    only = strategy.horizon == 1 and not strategy.lattice_bits and not strategy.fraction_bits
    return only and not isinstance(release, ReleaseDifference)


class Reading(ABC):
    """What was released of a statistic at one step: nothing exact is in it.

    Attributes:
        step: number of the step, from 1.
        statistic: which one.
        first_cell: the cell of the stream which is its first, where it is of one of several groups.
    """

    first_cell: int = 0

    def __init__(self, statistic: Statistic, release: StepRelease) -> None:
        self.statistic, self.step, self.release = statistic, release.step, release

    def formula(self, name: str | None = None) -> ReleasedNumber:
        """How a number that is read here follows from released cells, so that its error does.

        Args:
            name: as its table calls it, in one text; None: the number that it is there for.

        Raises:
            InvalidInput: no such number, or none named where there are several.
        """
        if name is None:
            if math.prod(self.statistic.cells) != 1:
                raise InvalidInput(
                    f"{type(self.statistic).__name__} says several numbers; name one of them"
                )
            return self._sum({0: 1.0})
        with suppress(InvalidInput):
            return self._sum({self.statistic.cell(name): 1.0})
        with suppress(InvalidInput, ValueError):
            return self._sum({self.statistic.cell(int(name)): 1.0})
        return self._sum({self.statistic.cell(name): 1.0})

    def whole(self) -> ReleasedNumber:
        """All that is counted, of which numbers are shares.

        Raises:
            InvalidInput: a statistic whose numbers are no parts of a whole.
        """
        raise InvalidInput(
            f"numbers of {type(self.statistic).__name__} are no parts of one whole; ask for a ratio"
        )

    def _all_cells(self) -> Formula:
        """All cells together."""
        return self._sum(dict.fromkeys(range(math.prod(self.statistic.cells)), 1.0))

    def _sum(
        self, weights: Mapping[int, float], value: float | None = None, grain: float = 0.0
    ) -> Formula:
        """A sum of cells.

        Args:
            weights: by cell.
            value: as it is published; None: what the cells add up to.
            grain: by how much that may be rounded.
        """
        from counton.mechanisms.formulas import CellSum, Formula, Term

        cells = np.ravel(np.asarray(self.release.value, np.float64))
        if value is None:
            value = math.fsum(weight * float(cells[cell]) for cell, weight in weights.items())
        start, stop = ends_of(self.release)
        parts = tuple(
            Term(float(weight), start, stop, self.first_cell + cell)
            for cell, weight in weights.items()
            if weight
        )
        return Formula.of(CellSum(float(value), self.release._terms, parts, grain))

    def __getitem__(self, name: Any) -> Any:
        """The estimate of one cell, by its name.

        Raises:
            InvalidInput: no cell of this name.
        """
        return np.ravel(self.release.value)[self.statistic.cell(name)].item()

    def std(self, name: Any = None) -> float:
        """Standard deviation of the noise of what ``[name]`` gives, in its unit.

        Args:
            name: of the cell; may be left out where all have the same.

        Raises:
            InvalidInput: no cell of this name.
        """
        if name is not None:
            self.statistic.cell(name)
        return self.release.std

    def interval(self, name: Any, level: float = 0.95) -> tuple[Any, Any]:
        """Ends of the interval that holds the truth with probability ``level`` at least.

        Raises:
            InvalidInput: no cell of this name, or a level outside (0, 1 - 1e-9].
        """
        cell = self.statistic.cell(name)
        low, high = self.release.interval(level)
        return np.ravel(low)[cell].item(), np.ravel(high)[cell].item()

    def since(self, earlier: Reading) -> Self:
        """What was counted after an earlier reading of the same stream, up to this one.

        Raises:
            InvalidInput: a reading of another stream, a later one, or of a difference; or of a
                stream whose releases are no running totals.
        """
        terms = self.release._terms
        if (
            type(earlier) is not type(self)
            or earlier.release._terms != terms
            or isinstance(earlier.release, ReleaseDifference)
            or isinstance(self.release, ReleaseDifference)
            or earlier.step > self.step
            or terms.strategy.workload != "totals"
        ):
            raise InvalidInput(
                f"step {earlier.step} is to be taken from step {self.step}: give an earlier "
                f"reading of the same stream of running totals"
            )
        value = self.release.value - earlier.release.value
        std = float(terms.window_std(earlier.step, self.step))
        found = type(self)(
            self.statistic, ReleaseDifference(self.step, value, std, terms, start=earlier.step)
        )
        found.first_cell = self.first_cell
        return found

    def screen(self, ask: Sequence[Any] | None, fit: Fit | None, level: float) -> list[TextTable]:
        """How a screen shows a table that was released once; none: the rows of its table.

        Args:
            ask: names of what is asked for; None: nothing by name.
            fit: how its numbers are made to fit; None: as they were released.
            level: probability with which each interval holds.
        """
        return []

    def describe(self) -> str:
        """Name, protected unit and guarantee, in words."""
        return self.release.describe()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.statistic!r} after step {self.step:,}>"

    def __str__(self) -> str:
        return self.describe()

    def methods(self) -> str:
        """The paragraph that a publication needs: unit, guarantee, mechanism, sources."""
        from counton.mechanisms.methods import methods
        from counton.mechanisms.releases import noise_in_words

        found = self.table_columns()
        errors = [noise_in_words(found["std"])] if len(found.get("std", ())) else []
        return methods(self.release._terms, errors=errors, sources=self.statistic.sources)

    def by_group(self, groups: Sequence[str] | None) -> dict[str, Reading] | None:
        """A reading of each of some groups, or of all; None where there are none."""
        return None

    def asked_columns(self, ask: Sequence[Any], level: float = 0.95) -> dict[str, NDArray[Any]]:
        """As `table_columns`, of what is asked for."""
        return self.table_columns(level)

    @abstractmethod
    def table_columns(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        """The rows of `table` as arrays; needs no optional package.

        Raises:
            InvalidInput: a level outside (0, 1 - 1e-9].
        """

    def table(self, level: float = 0.95) -> Any:
        """What is read, as a polars data frame, with intervals that hold with this probability.

        Raises:
            InvalidInput: a level outside (0, 1 - 1e-9].
            MissingExtra: polars is not installed; `table_columns` needs none.
        """
        from counton.columns import data_frame

        return data_frame(self.table_columns(level))

    def _repr_html_(self) -> str:
        from counton.columns import html

        return html(self.describe(), self.table_columns())


class CellsReading(Reading):
    """Cells as they are released.

    >>> from counton import Key, PureDP
    >>> from counton.statistics import Count
    >>> visits = Count().counter(24, PureDP(1), key=Key.generate(), name="visits", batched=True)
    >>> list(visits.release_batch(["home"]).table_columns())
    ['step', 'estimate', 'std', 'lower', 'upper']
    """

    @override
    def table_columns(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        """A row for each cell."""
        value, shape = np.ravel(self.release.value), self.statistic.cells
        low, high = self.release.interval(level)
        found: dict[str, NDArray[Any]] = {"step": np.full(value.size, self.step)}
        if shape:
            found["cell"] = np.array([self.statistic.name_of(cell) for cell in range(value.size)])
        return {
            **found,
            "estimate": value,
            "std": np.full(value.size, self.release.std),
            "lower": np.ravel(low),
            "upper": np.ravel(high),
        }


class Readings(Sequence[Reading]):
    """Readings of consecutive steps, each made when it is asked for.

    Attributes:
        steps: their numbers.
    """

    def __init__(
        self,
        statistic: Statistic,
        steps: range,
        releases: Releases | None,
        machine: Machine | None = None,
    ) -> None:
        """Not for callers; the machine is needed where cells are read on demand."""
        self.steps, self.releases = steps, releases
        self._statistic, self._machine = statistic, machine

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        first, last = self.steps.start, self.steps.stop - 1
        return f"<Readings of {self._statistic!r}, steps {first:,} to {last:,}>"

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """Name, protected unit and guarantee, in words; as of the last of them."""
        return self[-1].describe() if len(self) else repr(self)

    def std(self, name: Any = None) -> NDArray[np.float64]:
        """`Reading.std` of each of them, in an array."""
        found = [reading.std() if name is None else reading.std(name) for reading in self]
        return np.array(found, np.float64)

    def table(self, level: float = 0.95) -> Any:
        """The tables of all of them below each other, as a polars data frame with their steps.

        Raises:
            InvalidInput: a level outside (0, 1 - 1e-9].
            MissingExtra: polars is not installed.
        """
        from counton.columns import data_frame

        found = []
        for reading in self:
            columns = {k: v for k, v in reading.table_columns(level).items() if k != "step"}
            rows = len(next(iter(columns.values()))) if columns else 0
            found.append({"step": np.full(rows, reading.step), **columns})
        names = found[0] if found else {}
        return data_frame({name: np.concatenate([one[name] for one in found]) for name in names})

    def _repr_html_(self) -> str:
        return self[-1]._repr_html_() if len(self) else repr(self)

    @overload
    def __getitem__(self, place: int) -> Reading: ...
    @overload
    def __getitem__(self, place: slice) -> Readings: ...
    def __getitem__(self, place: int | slice) -> Reading | Readings:
        """One of them, or some: consecutive ones, in order."""
        if isinstance(place, slice):
            steps, releases = self.steps[place], self.releases
            if steps.step != 1:
                raise InvalidInput(f"{place} picks steps that are not consecutive: leave step out")
            if releases is not None:
                releases = Releases(steps, releases.values[place], releases._terms)
            return Readings(self._statistic, steps, releases, self._machine)
        step = self.steps[place]
        if self.releases is None:
            assert self._machine is not None
            return self._statistic.reading_on_demand(self._machine, step)
        value, terms = self.releases.values[step - self.steps.start], self.releases._terms
        std = float(terms.std(range(step, step + 1))[0])
        return self._statistic.read(
            StepRelease(step, value if terms.shape else value.item(), std, terms)
        )


class OnDemandReading(Reading):
    """One step of a statistic whose cells are computed when they are asked for.

    It leads to exact counts: keep it as secret as the data, and publish what it answers. An answer
    is a function of key, cell and step: asked twice it is the same.
    """

    def __init__(self, machine: Machine, step: int) -> None:
        self.statistic, self.step, self._machine = machine.statistic, step, machine

    @override
    def __getitem__(self, name: Any) -> Any:
        cell = np.array([self.statistic.cell(name)], dtype=np.int64)
        return self._machine.values(cell, self.step)[0].item()

    @override
    def std(self, name: Any = None) -> float:
        """All cells have the same."""
        if name is not None:
            self.statistic.cell(name)
        return float(self._machine.terms.std(range(self.step, self.step + 1))[0])

    @override
    def interval(self, name: Any, level: float = 0.95) -> tuple[float, float]:
        estimate, half = self[name], self._half(level)
        return estimate - half, estimate + half

    def since(self, earlier: Reading) -> Self:
        """Not here.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(
            f"step {earlier.step} is to be taken from step {self.step}, but cells are read on "
            f"demand: subtract what was answered"
        )

    def ranking(
        self, k: int = 10, among: Sequence[Any] | None = None, level: float = 0.95
    ) -> Ranking:
        """The largest cells; see `rank_largest`. All intervals together hold with this probability.

        Args:
            k: how many.
            among: names of the cells that may be shown; all of them unless given. Chosen without
                looking at what was released: intervals hold for all of these at once.
            level: with which all is true at once.

        Raises:
            InvalidInput: a level out of range, no cell of a name, or more cells than are ever
                listed at once.
        """
        cells = self._cells(among)
        if not len(cells):
            raise InvalidInput("among is empty: name the cells that may be shown")
        levels = ranking_levels(len(cells), k, check_level(level))
        down, up = (self._half(each) for each in levels)
        names = [self.statistic.name_of(cell) for cell in cells.tolist()]
        values = self._machine.values(cells, self.step)
        return rank_largest(names, values, down, k, upward=up, level=level)

    def _cells(self, names: Sequence[Any] | None) -> NDArray[np.int64]:
        if names is not None:
            cells = np.array([self.statistic.cell(name) for name in names], dtype=np.int64)
            return np.unique(cells) if len(set(cells.tolist())) < len(cells) else cells
        count = math.prod(self.statistic.cells)
        if count > _MOST_LISTED:
            raise InvalidInput(
                f"{count:,} cells are more than {_MOST_LISTED:,}, which are listed at most: "
                f"ask for some by name"
            )
        return np.arange(count)

    def _half(self, level: float) -> float:
        terms = self._machine.terms
        steps = range(self.step, self.step + 1)
        half = float(terms.halfwidths(steps, level)[0])
        return int(half) if half == int(half) and not terms.strategy.fraction_bits else half

    def describe(self) -> str:
        """Name, protected unit and guarantee, in words."""
        return self._machine.describe()

    def table_columns(
        self, level: float = 0.95, names: Sequence[Any] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Cells with estimates and intervals: all of them, or those of these names.

        Raises:
            InvalidInput: a level outside (0, 1 - 1e-9], no cell of a name, or more cells than are
                ever listed at once.
        """
        statistic, cells = self.statistic, self._machine.listed
        if names is not None or cells is None:
            cells = self._cells(names)
        values, half = self._machine.values(cells, self.step), self._half(level)
        return {
            "cell": np.array([statistic.name_of(cell) for cell in cells.tolist()]),
            "estimate": values,
            "std": np.full(len(cells), self.std()),
            "lower": values - half,
            "upper": values + half,
        }

"""The numbers of a statistic, computed from cells released at one step or between two steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Column, IntegersOrFloats
from counton.base.errors import InvalidInputError
from counton.continual import Design, Releases, StepRelease
from counton.continual.formulas import ClosedForm, Estimate, TableNumbers, join_numbers
from counton.continual.releases import PublicNumbers, SpanRelease
from counton.continual.table_request import EVERY_ROW, TableRequest
from counton.statistics.cells import Cells
from counton.statistics.statistic import Statistic, says_cells


def read_cells(statistic: Statistic, cells: Cells) -> StatisticResult:
    """Return the numbers of released cells."""
    return (statistic.result_type or StatisticResult)(statistic, cells)


def result_of_release(statistic: Statistic, release: StepRelease) -> StatisticResult:
    """Return the numbers of one release of all cells."""
    return read_cells(statistic, Cells(release))


class StatisticResult(PublicNumbers):
    """The released numbers of a statistic at one step, or between two releases.

    Every number has a value, a standard deviation and an interval. It holds nothing exact.
    ``start`` is the step after which rows count; None: all so far count.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Count
    >>> visits = RunningStatistic.start(
    ...     Count(), 24, PureDP(1), key=Key.generate(), name="visits", batched=True
    ... )
    >>> list(visits.release_batch(["home"]).table_columns())
    ['window_index', 'estimate', 'noise_std', 'lower', 'upper', 'confidence_level']
    """

    start: int | None = None

    def __init__(self, statistic: Statistic, cells: Cells) -> None:
        self.statistic = statistic
        self.cells = cells
        self.step = cells.release.step
        self._design = cells.design
        if cells.release.between is not None or isinstance(cells.release, SpanRelease):
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

        Args:
            name: one of ``number_names``, or another number that the statistic computes, such as
                the quantile 0.33; None: the main or only number.

        Raises:
            InvalidInputError: there is no such number, or no name is given although there are
                several.
        """
        return self.statistic.number_of(self.cells, name)

    @property
    def says_cells(self) -> bool:
        """True if the numbers are the released cells."""
        return says_cells(self.statistic) and type(self).number_of is StatisticResult.number_of

    def whole(self) -> Estimate:
        """Return the total of which each number is a part; see `Statistic.whole`."""
        return self.statistic.whole(self.cells)

    def __getitem__(self, name: Any) -> Any:
        """Return the released value of one number.

        Raises:
            InvalidInputError: no number has this name.
        """
        return self.number_of(name).value

    def std(self, name: Any = None) -> float:
        """Return the standard deviation of a number's noise, in the number's unit.

        Args:
            name: as in `number_of`; None: the main or only number.

        Raises:
            InvalidInputError: no number has this name.
        """
        if name is None and self.says_cells:
            return self.cells.std
        return self.number_of(name).std

    def interval(self, name: Any = None, confidence_level: float = 0.95) -> tuple[Any, Any]:
        """Return both ends of an interval of a number.

        Args:
            name: as in `number_of`; None: the main or only number.
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.

        Raises:
            InvalidInputError: no number has this name, or the level is outside (0, 1 - 1e-9].
        """
        return self.number_of(name).interval(confidence_level)

    def since(self, earlier: StatisticResult) -> Self:
        """Return the numbers of the rows that came after an earlier result of the stream.

        Args:
            earlier: a result of the same stream at an earlier step.

        Raises:
            InvalidInputError: ``earlier`` is a result of another stream, a later one or a
                difference; or the stream does not release running totals.
        """
        return type(self)(self.statistic, self.cells.since(earlier.cells))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.statistic!r} after step {self.step:,}>"

    def __str__(self) -> str:
        return self.describe()

    @property
    @override
    def _sources(self) -> tuple[str, ...]:
        return self.statistic.sources

    def numbers(self, request: TableRequest = EVERY_ROW) -> TableNumbers:
        """Return the numbers of all or of the requested rows, with the texts that name them.

        Args:
            request: names of numbers; by default all.

        Raises:
            InvalidInputError: a name is unknown.
        """
        names = self.number_names
        groups = self.cells.groups or 1
        about = {}
        if list(names) != [None]:
            about[self.statistic.column] = np.tile(np.array(names), groups)
        if self.says_cells:

            def ends(confidence_level: float) -> tuple[Column, Column]:
                low, high = self.release.interval(confidence_level)
                return np.ravel(low), np.ravel(high)

            return TableNumbers(
                about, ClosedForm(np.ravel(self.cells.values), ends, self.cells.std)
            )

        def side_by_side(columns: list[Any]) -> Column:
            return np.stack(
                [np.broadcast_to(column, groups) for column in columns], axis=-1
            ).ravel()

        return TableNumbers(
            about, join_numbers([self.number_of(name) for name in names], side_by_side)
        )

    def table_columns(
        self, confidence_level: float = 0.95, ask: Sequence[Any] | None = None
    ) -> dict[str, Column]:
        """Return the columns of `table` as arrays, by name.

        Args:
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.
            ask: names of the numbers that get a row; None: all.

        Raises:
            InvalidInputError: the level is outside (0, 1 - 1e-9].
        """
        columns = self.numbers(TableRequest(ask)).columns(confidence_level)
        when = {"window_index": self.step}
        if self.start is not None:
            when["first_window"] = self.start + 1
        n_rows = len(columns["lower"])
        return {name: np.full(n_rows, value) for name, value in when.items()} | columns


class StatisticResults(Sequence[StatisticResult]):
    """The results of consecutive ``steps``, computed when accessed.

    ``read`` computes one from its release or, without ``releases``, from its step.
    """

    def __init__(
        self,
        statistic: Statistic,
        steps: range,
        releases: Releases | None,
        read: Callable[[Any], StatisticResult] | None = None,
    ) -> None:
        self.steps = steps
        self.releases = releases
        self._statistic = statistic
        self._read = read or partial(result_of_release, statistic)

    @classmethod
    def from_values(
        cls, statistic: Statistic, design: Design, values: IntegersOrFloats
    ) -> StatisticResults:
        """Return the results of released values; the first axis is the step, from 1."""
        steps = range(1, len(values) + 1)
        return cls(statistic, steps, Releases(steps, values, design))

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        first = self.steps.start
        last = self.steps.stop - 1
        return f"<Readings of {self._statistic!r}, steps {first:,} to {last:,}>"

    def __str__(self) -> str:
        return self.describe()

    def describe(self) -> str:
        """Describe the stream, the protected unit and the guarantee."""
        return self[-1].describe() if len(self) else repr(self)

    def std(self, name: Any = None) -> NDArray[np.float64]:
        """Return the standard deviation of a number's noise at each step."""
        stds = [result.std() if name is None else result.std(name) for result in self]
        return np.array(stds, np.float64)

    def table(self, confidence_level: float = 0.95) -> Any:
        """Return the tables of all steps below each other, as one polars data frame.

        Raises:
            InvalidInputError: the level is outside (0, 1 - 1e-9].
            MissingDependencyError: polars is not installed.
        """
        from counton.base.columns import data_frame

        tables = [result.table_columns(confidence_level) for result in self]
        names = tables[0] if tables else {}
        return data_frame(
            {name: np.concatenate([table[name] for table in tables]) for name in names}
        )

    def _repr_html_(self) -> str:
        return self[-1]._repr_html_() if len(self) else repr(self)

    @overload
    def __getitem__(self, place: int) -> StatisticResult: ...
    @overload
    def __getitem__(self, place: slice) -> StatisticResults: ...
    def __getitem__(self, place: int | slice) -> StatisticResult | StatisticResults:
        """Return the result at an index from 0, or those of a slice without gaps."""
        if isinstance(place, slice):
            steps = self.steps[place]
            releases = self.releases
            if steps.step != 1:
                raise InvalidInputError(
                    f"{place} skips steps, but steps must follow each other: leave out the third "
                    "number of the slice"
                )
            if releases is not None:
                releases = Releases(steps, releases.values[place], releases._design)
            return StatisticResults(self._statistic, steps, releases, self._read)
        return self._read(self.steps[place] if self.releases is None else self.releases[place])

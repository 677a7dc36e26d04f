"""Series of counts and sums: totals, single windows, rolling and decayed sums, with their noise.

Counts and sums have a cell for each step and group. A stream publishes one or several series of
them. A series that is not published follows from a published one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import Floats, read_only
from counton.base.errors import InvalidInputError, param
from counton.base.table_schema import DECAYED, PER_WINDOW, ROLLING
from counton.continual import Design
from counton.continual.releases import recent_values
from counton.results.metadata import PublishedSeries, ReleaseMetadata
from counton.results.series_numbers import Numbers, SeriesNumbers
from counton.results.window_notes import withdrawn_cells


@dataclass(frozen=True)
class CellNumbers:
    """The released numbers of counts or sums, by step and group.

    Attributes:
        values: those of totals, or of windows if no totals are published.
        is_present: for numbers from a file, whether each step and group has a row, shape ``(steps,
            groups)``; None: all. An estimate that needs a missing row raises an error.
        own_series: the numbers of other series than ``values``, if a file has them.
        has_total: for rolling sums from a file, whether the total of each step and group follows
            from its rows; None: it does wherever there are rows.
    """

    values: Numbers
    is_present: NDArray[np.bool_] | None = None
    own_series: Mapping[PublishedSeries, Numbers] = field(default_factory=dict)
    has_total: NDArray[np.bool_] | None = None

    def until(self, last: int) -> CellNumbers:
        """Return the numbers of the first steps.

        Args:
            last: the last of these steps.
        """
        return self._part(slice(last))

    def of_groups(self, places: NDArray[np.int64]) -> CellNumbers:
        """Return the numbers of some groups.

        Args:
            places: indices of the groups.
        """
        return self._part((slice(None), places))

    def _part(self, key: Any) -> CellNumbers:
        return CellNumbers(
            values=read_only(self.values[key]),
            is_present=None if self.is_present is None else self.is_present[key],
            own_series={name: read_only(sums[key]) for name, sums in self.own_series.items()},
            has_total=None if self.has_total is None else self.has_total[key],
        )


@dataclass(frozen=True, repr=False, eq=False)
class CellSeries:
    """The series of counts or sums, published or computed, with the noise of each number.

    Attributes:
        steps: steps 1 to the last released step.
        groups: names of the groups.
        cells: the released numbers.
        interval_level: level of each interval.
        joint_margins: by step, half-widths of intervals that hold all at once; None: each interval
            holds alone.
        is_undeclared: True if groups were found in the data.
    """

    metadata: ReleaseMetadata
    design: Design
    steps: range
    groups: Sequence[str]
    cells: CellNumbers
    interval_level: float
    joint_margins: Floats | None = None
    is_undeclared: bool = False

    @property
    def _releases_windows(self) -> bool:
        """True if the strategy releases the numbers of windows, whose sums are totals."""
        return self.design.strategy.facts.release == "windows"

    @cached_property
    def released(self) -> SeriesNumbers:
        """The released cells with their errors: totals, or windows if no totals are published."""
        return self._compute_released(self.steps)

    def _released_in(self, steps: range, *, alone: bool) -> SeriesNumbers:
        """Return the released cells of some steps; ``alone`` is as in `published`."""
        if not alone or "released" in self.__dict__:
            return self.released.part(steps)
        return self._compute_released(steps)

    def _compute_released(self, steps: range) -> SeriesNumbers:
        errors = self.design.errors
        indices = slice(steps.start - 1, steps.stop - 1)
        if self.joint_margins is None:
            half = errors.halfwidths(steps, self.interval_level)
        else:
            half = self.joint_margins[indices]
        is_present = None if self.cells.is_present is None else self.cells.is_present[indices]
        return SeriesNumbers(
            self.cells.values[indices],
            errors.std(steps),
            half,
            is_present=is_present,
            start=steps.start,
            unit=self.design.units.released,
        )

    @cached_property
    def totals(self) -> SeriesNumbers | None:
        """Running totals; None if they are not published."""
        if self.metadata.series in ("per-window", "rolling", "decayed"):
            return None
        if self._releases_windows:  # sums of windows, read together
            stops = np.asarray(self.steps)
            return self.between(np.zeros_like(stops), stops)
        return self.released

    def _totals_of(self, steps: range, *, alone: bool) -> SeriesNumbers | None:
        """Return running totals after some steps; None if they are not published."""
        if self._releases_windows or self.metadata.series in ("per-window", "rolling", "decayed"):
            return None if self.totals is None else self.totals.part(steps)
        return self._released_in(steps, alone=alone)

    @cached_property
    def windows(self) -> SeriesNumbers | None:
        """The numbers of single windows; None if they are not published."""
        return self.windows_of(self.steps)

    def windows_of(self, steps: range) -> SeriesNumbers | None:
        """Return the numbers of single windows for some steps; None if they are not published.

        Args:
            steps: consecutive steps.
        """
        if self.metadata.series in ("cumulative", "rolling", "decayed"):
            return None
        if self._releases_windows and self.cells.has_total is None:
            return self.released.part(steps)
        stops = np.asarray(steps, np.int64)
        return self._of_file_or_between(PublishedSeries(PER_WINDOW), stops - 1, stops)

    def rolling(self, width: int, steps: range | None = None) -> SeriesNumbers:
        """Return the sums of the last windows; in the first steps, of all windows so far.

        Args:
            width: number of windows.
            steps: consecutive steps; None: all.
        """
        stops = np.asarray(self.steps if steps is None else steps, np.int64)
        starts = np.maximum(stops - width, 0)
        return self._of_file_or_between(PublishedSeries(ROLLING, width), starts, stops)

    def decayed(self, steps: range | None = None) -> SeriesNumbers:
        """Return the sums in which older windows count less.

        Args:
            steps: consecutive steps; None: all.
        """
        from counton.continual.stream_errors import ErrorsOf
        from counton.strategies.workloads import Decayed

        steps = self.steps if steps is None else steps
        assert self.metadata.half_life is not None
        workload = Decayed(self.metadata.half_life)
        values = self.cells.own_series.get(PublishedSeries(DECAYED))
        if values is None:
            (part,) = workload.parts
            values = recent_values(self._totals[: steps.stop - 1], part)
        errors = replace(self.design, errors_of=ErrorsOf(workload=workload)).errors
        half = errors.recent_halfwidths(steps, self.interval_level)[""]
        indices = slice(steps.start - 1, steps.stop - 1)
        is_present = None if self.cells.is_present is None else self.cells.is_present[indices]
        return SeriesNumbers(
            values[indices], errors.recent_stds(steps)[""], half, is_present, steps.start
        )

    def published(
        self, steps: range, *, alone: bool = False
    ) -> Iterator[tuple[PublishedSeries, SeriesNumbers]]:
        """Yield the published series with their numbers, for some steps.

        Args:
            steps: consecutive steps.
            alone: whether errors of totals are computed for these steps alone. This is quicker for
                few steps, but the last bits of errors may differ from those in a table.
        """
        for published in self.metadata.published_series:
            numbers: SeriesNumbers | None
            if published.width is not None:
                numbers = self.rolling(published.width, steps)
            elif published.name == DECAYED:
                numbers = self.decayed(steps)
            elif published.name == PER_WINDOW:
                numbers = self.windows_of(steps)
            else:
                numbers = self._totals_of(steps, alone=alone)
            if numbers is not None:
                yield published, numbers

    def between(self, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> SeriesNumbers:
        """Return sums over ranges of steps, start + 1 to stop, with the noise of each sum.

        Raises:
            InvalidInputError: undeclared groups, shown only from some step on; or no sums.
        """
        refuse_incomparable(self.metadata, self.design.name, is_undeclared=self.is_undeclared)
        estimates: Numbers = np.subtract(self.totals_after(stops), self.totals_after(starts))
        return self._with_noise(starts, stops, estimates)

    def totals_after(
        self, steps: NDArray[np.int64], places: NDArray[np.int64] | Sequence[int] | None = None
    ) -> Numbers:
        """Return totals after some steps, ``(len(steps), groups)``; step 0 is the beginning.

        Args:
            steps: the steps.
            places: indices of the wanted groups; None: all.

        Raises:
            InvalidInputError: the file lacks a number that the totals need.
        """
        steps = np.atleast_1d(steps)
        if self.cells.is_present is not None or self.cells.has_total is not None:
            needed = steps
            # sums of all windows up to each step
            if self._releases_windows and self.cells.has_total is None:
                needed = np.arange(1, int(steps.max(initial=0)) + 1)
            self._refuse_missing(needed[needed > 0], places)
        totals = self._totals[np.maximum(steps - 1, 0)]
        totals[steps == 0] = 0
        return totals if places is None else totals[:, places]

    def refuse_withdrawn(self, ends: Sequence[int], groups: Sequence[str]) -> None:
        """Refuse what is computed of a withdrawn number.

        Args:
            ends: the steps of the totals, or of the ends of windows, of which it is computed.
            groups: names of its groups.

        Raises:
            InvalidInputError: one of the totals, or of the windows between them, is withdrawn.
        """
        steps = range(1, max(ends) + 1)
        withdrawn = withdrawn_cells(self.metadata.notes, steps, groups)
        if self.metadata.series in ("cumulative", "rolling"):
            withdrawn[np.setdiff1d(steps, ends) - 1] = False
        else:
            withdrawn[: min(ends)] = False
        if withdrawn.any():
            step, group = np.argwhere(withdrawn)[0].tolist()
            raise InvalidInputError(
                f"the number of step {step + 1:,} of {groups[group]!r} is withdrawn: ask for "
                f"{param('windows')} without it"
            )

    def _of_file_or_between(
        self, series: PublishedSeries, starts: NDArray[np.int64], stops: NDArray[np.int64]
    ) -> SeriesNumbers:
        """Return the numbers of a series as a file has them, or computed from totals.

        Args:
            series: the series.
            starts: the step before each number's first window.
            stops: consecutive steps, the last window of each number.
        """
        own_numbers = self.cells.own_series.get(series)
        if own_numbers is None:
            return self.between(starts, stops)
        numbers = self._with_noise(starts, stops, own_numbers[stops - 1])
        is_present = None if self.cells.is_present is None else self.cells.is_present[stops - 1]
        first = int(stops[0]) if len(stops) else 1
        return replace(numbers, is_present=is_present, start=first)

    def _with_noise(
        self, starts: NDArray[np.int64], stops: NDArray[np.int64], estimates: Numbers
    ) -> SeriesNumbers:
        errors = self.design.errors
        half = errors.window_halfwidths(starts, stops, self.interval_level)
        std = errors.window_std(starts, stops)
        return SeriesNumbers(estimates, std, half, unit=self.design.units.released)

    def _refuse_missing(
        self, needed: NDArray[np.int64], places: NDArray[np.int64] | Sequence[int] | None = None
    ) -> None:
        """Raise `InvalidInputError` if the file lacks a number at ``needed`` steps."""
        has_total = self.cells.has_total
        is_known = self.cells.is_present if has_total is None else has_total
        if is_known is None:
            return
        columns = np.arange(len(self.groups)) if places is None else places
        missing = np.argwhere(~is_known[needed - 1][:, columns])
        if len(missing):
            row, column = missing[0].tolist()
            raise InvalidInputError(
                f"step {int(needed[row]):,} of {self.groups[int(columns[column])]!r} is not in the "
                f"file; give a file that has it"
            )

    @cached_property
    def _totals(self) -> Numbers:
        """Totals after each step; callers have refused missing numbers."""
        numbers = self.cells.values
        if not self._releases_windows or self.cells.has_total is not None:
            return numbers
        return cast("Numbers", np.cumsum(numbers, axis=0))


def refuse_incomparable(metadata: ReleaseMetadata, name: str, *, is_undeclared: bool) -> None:
    """Refuse sums and comparisons of decayed sums, and of groups that were found in the data.

    Args:
        metadata: the public description.
        name: name of the stream.
        is_undeclared: True if groups were found in the data.

    Raises:
        InvalidInputError: the stream has such numbers.
    """
    if metadata.series == "decayed":
        raise InvalidInputError(
            f"{name!r} releases decayed {metadata.recent_noun}s, which are not added up or "
            "compared: read its table"
        )
    if is_undeclared:
        raise InvalidInputError(
            "groups that were found in the data are each shown only from one of the releases "
            "on, so only the rows of their table are published; read these rows, or list the "
            "groups beforehand"
        )

"""Releases of streams: one step, or several, with their intervals and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import Column, IntegersOrFloats, nearest_multiples, read_only
from counton.base.errors import InvalidInputError
from counton.base.exact import quantity, quote
from counton.continual.design import Design
from counton.continual.stream_errors import ErrorsOf
from counton.privacy import ContributionBound, Guarantee

if TYPE_CHECKING:
    from counton.base.arrays import Floats
    from counton.strategies.workloads import Decayed, RecentWorkload, WorkloadPart


class PublicNumbers:
    """Releases: their guarantee, contribution bound, tables, and text for publications."""

    __slots__ = ()
    _design: Design

    @property
    def guarantee(self) -> Guarantee:
        return self._design.guarantee

    @property
    def contribution(self) -> ContributionBound:
        return self._design.contribution

    def table_columns(self, confidence_level: float = 0.95) -> dict[str, Column]:
        """Return the columns of `table` as arrays, without polars."""
        raise NotImplementedError

    def table(self, confidence_level: float | None = None) -> Any:
        """Return one row for each step and cell as a polars data frame.

        Columns: window_index, ``cell`` (or ``cell_0``, ``cell_1``, ... by axis), estimate,
        noise_std, lower, upper, confidence_level. Each interval holds its true value with
        probability ``confidence_level``, 0.95 unless given: one alone, not all at once.

        Raises:
            InvalidInputError: `table_columns` refuses the level.
            MissingDependencyError: polars is not installed.
        """
        from counton.base.columns import data_frame

        return data_frame(
            self.table_columns()
            if confidence_level is None
            else self.table_columns(confidence_level)
        )

    def describe(self) -> str:
        design = self._design
        return (
            f"{design.name}\nprivacy unit: {design.contribution}\n"
            f"guarantee: {design.guarantee}, {design.guarantee.scope}"
        )

    def methods(self) -> str:
        """Return the text on methods for a publication: unit, guarantee, mechanism, sources.

        >>> from counton import Counter, Key, PureDP
        >>> from counton.strategies import Binary
        >>> counter = Counter(Binary(31), PureDP(epsilon=1), key=Key.generate(), name="visits")
        >>> "pure differential privacy with epsilon = 1" in counter.release(3).methods()
        True
        """
        from counton.continual.methods import methods

        stds = np.asarray(self.table_columns().get("noise_std", ()), np.float64)
        errors = [noise_in_words(stds)] if len(stds) else []
        return methods(self._design, errors=errors, sources=self._sources)

    @property
    def _sources(self) -> tuple[str, ...]:
        """Papers behind the numbers, besides those on strategy and noise."""
        return ()

    def _repr_html_(self) -> str:
        from counton.continual.html_table import html_table

        return html_table(self.describe(), self.table_columns())


def noise_in_words(stds: NDArray[np.float64]) -> str:
    """Return a sentence for a publication that states the standard deviations of the noise."""
    low, high = (quantity(end, end) for end in map(float, (stds.min(), stds.max())))
    if low == high:
        return f"The noise of what was released has the standard deviation {low}."
    return f"The noise of what was released has standard deviations from {low} to {high}."


@dataclass(frozen=True, slots=True, eq=False)
class StepRelease(PublicNumbers):
    """The release of one step, or the difference between two releases.

    Attributes:
        step: number of the step, from 1.
        value: private running total (with a strategy for windows, count of the step) in data units,
            in the stream's shape: an integer for counts with tree strategies, otherwise float64.
            After `since` it is the difference of two totals.
        std: standard deviation of its noise in data units, for every cell.
        between: for a difference, the later and the earlier release.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import Binary
    >>> counter = Counter(Binary(31), PureDP(epsilon=1), key=Key.generate(), name="visits")
    >>> release = counter.release(3)
    >>> low, high = release.interval(confidence_level=0.95)
    >>> high - release.value, release.guarantee
    (15, PureDP(epsilon=1))
    """

    step: int
    value: Any
    std: float
    # It holds the design, never the counter: published numbers must not lead to exact sums.
    _design: Design = field(repr=False)
    between: tuple[StepRelease, StepRelease] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", read_only(self.value))

    def interval(self, confidence_level: float = 0.95) -> tuple[Any, Any]:
        """Return the ends of an interval around the released value.

        They have the stream's shape, with one interval for each cell.

        Args:
            confidence_level: probability with which an interval holds the true value, above 0 and
                at most 1 - 1e-9.
        """
        half = np.array(self._design.errors.cell_halfwidth(*self.ends, confidence_level))
        low, high = _around(np.asarray(self.value), half, self._design.units.released)
        return (low, high) if low.ndim else (low.item(), high.item())

    @override
    def table_columns(self, confidence_level: float = 0.95) -> dict[str, Column]:
        first = {} if self.between is None else {"first_window": self.between[1].step + 1}
        about = {"window_index": self.step, **first, **_cells(np.shape(self.value))}
        interval = self.interval(confidence_level)
        return _columns(about, self.value, self.std, interval, confidence_level)

    @property
    def ends(self) -> tuple[int, int]:
        """Pair (start, stop): the value counts the rows of steps start + 1 to stop.

        With a delay of d steps it counts those of start + 1 - d to stop - d.
        """
        if self.between is not None:
            return self.between[1].step, self.step
        windows = self._design.strategy.facts.release == "windows"
        return self.step - 1 if windows else 0, self.step

    def since(self, earlier: StepRelease) -> StepRelease:
        """Return the private count of the steps after an earlier release, up to this one.

        Args:
            earlier: a release of the same stream at an earlier step.

        Raises:
            InvalidInputError: ``earlier`` is of another stream, later, or a difference; or the
                stream does not release totals.
        """
        design = self._design
        if (
            self.between is not None
            or earlier.between is not None
            or earlier._design != design
            or earlier.step > self.step
            or design.strategy.facts.release != "totals"
        ):
            raise InvalidInputError(
                f"step {earlier.step} cannot be subtracted from step {self.step}: give an earlier "
                "release of this stream, whose releases must be running totals"
            )
        std = float(design.errors.window_std(earlier.step, self.step))
        both = self, earlier
        return StepRelease(self.step, self.value - earlier.value, std, design, both)

    def part(self, of: Callable[[IntegersOrFloats], Any], design: Design) -> StepRelease:
        """Return a release of some cells, of the same kind.

        Args:
            of: function that selects these cells from an array of all values.
            design: the design of these cells.
        """
        if self.between is not None:
            now, earlier = (release.part(of, design) for release in self.between)
            return now.since(earlier)
        value = np.asarray(of(np.asarray(self.value)))
        std = self.std if design is self._design else float(design.errors.in_data_units(self.std))
        value = value if value.ndim else value.item()
        return replace(self, value=value, std=std, _design=design)


@dataclass(frozen=True, slots=True, eq=False)
class SpanRelease(StepRelease):
    """The sum of the released numbers of several consecutive steps, each released alone.

    Attributes:
        start: the step after which the sum begins.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import Independent
    >>> counter = Counter(Independent(30), PureDP(1), key=Key.generate(), name="visits")
    >>> releases = counter.release_many([20] * 30)
    >>> week = releases.span(23, 30)
    >>> week.ends, round(week.std / releases[0].std, 2)
    ((23, 30), 2.65)
    >>> bool(week.value == releases.values[23:].sum())
    True
    """

    start: int = field(default=0, kw_only=True)

    @property
    @override
    def ends(self) -> tuple[int, int]:
        return self.start, self.step

    @override
    def since(self, earlier: StepRelease) -> StepRelease:
        raise InvalidInputError(
            "a sum of several steps is not subtracted from another: ask for the steps of both"
        )


@dataclass(frozen=True, slots=True, eq=False)
class DecayedRelease(StepRelease):
    """The decayed sum of each cell after one step, in which older steps count less.

    It is computed from the totals of all steps so far.

    Attributes:
        factor: the weight of a step, divided by the weight of the next step.

    >>> from counton import Counter, Decayed, Key, ZCDP
    >>> counter = Counter(Decayed(7).root(365), ZCDP(0.5), key=Key.generate(), name="visits")
    >>> releases = counter.release_many([20] * 30)
    >>> decayed = releases.decayed(Decayed(7))[-1]
    >>> decayed.step, decayed.std < releases[-1].std
    (30, True)
    """

    factor: float = field(default=0.5, kw_only=True)

    @override
    def interval(self, confidence_level: float = 0.95) -> tuple[Any, Any]:
        errors = self._design.errors
        half = errors.decayed_halfwidths(self.std, self.factor, confidence_level)
        low, high = _around(np.asarray(self.value), half)
        return (low, high) if low.ndim else (low.item(), high.item())

    @override
    def since(self, earlier: StepRelease) -> StepRelease:
        raise InvalidInputError(
            "decayed sums are not subtracted from each other: read the number of each step"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Releases(PublicNumbers):
    """Consecutive released steps.

    Attributes:
        steps: their numbers.
        values: private totals (or counts of windows) in data units, ``(len(steps), *shape)``.

    >>> from counton import Counter, Key, PureDP
    >>> from counton.strategies import Binary
    >>> counter = Counter(Binary(31), PureDP(epsilon=1), key=Key.generate(), name="visits")
    >>> releases = counter.release_many([3, 0, 5])
    >>> len(releases), releases.values.dtype, releases.std().round(2).tolist()
    (3, dtype('int64'), [7.06, 7.06, 9.98])
    """

    steps: range
    values: IntegersOrFloats
    _design: Design = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", read_only(self.values))

    def std(self, steps: Any = None) -> Any:
        """Return the standard deviation of the noise in data units; see `Counter.std`.

        ``steps`` is one for a float, or several for an array; None: all.

        Args:
            steps: one step for a float, several for an array; None: all of these releases.

        Raises:
            InvalidInputError: a step that is not among these.
        """
        if steps is None:
            return np.asarray(self._design.errors.std(self.steps), np.float64)
        outside = [step for step in np.ravel(np.asarray(steps)).tolist() if step not in self.steps]
        if outside:
            first, last = (self.steps[0], self.steps[-1]) if len(self) else (0, 0)
            raise InvalidInputError(
                f"step {quote(outside[0])} is not among the releases {first:,} to {last:,}: give a "
                "step among these, or ask the counter"
            )
        return self._design.errors.std(steps)

    @property
    def unit(self) -> Fraction:
        """Smallest difference of two values, in data units: all values are multiples of it."""
        return self._design.units.released

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, place: int | slice) -> StepRelease:
        """Return the release at an index from 0.

        Raises:
            InvalidInputError: a slice.
        """
        if isinstance(place, slice):
            raise InvalidInputError(
                "releases have no slices: give one index, such as releases[-1]; the count of the "
                "steps between two running totals is releases[4].since(releases[1])"
            )
        step = self.steps[place]
        design = self._design
        value = self.values[place]
        std = float(design.errors.std(range(step, step + 1))[0])
        return StepRelease(step, value if design.shape else value.item(), std, design)

    def recent(self, workload: RecentWorkload) -> RecentNumbers:
        """Return sums over recent steps, such as those of the last 7, with noise and intervals.

        Args:
            workload: ``Rolling(7)``, ``Decayed(7)`` or ``Stack([1, 7, 28])``. A stream that was
                planned for it has the least noise.

        Raises:
            InvalidInputError: no workload, or releases that do not begin with step 1.
        """
        return RecentNumbers.of(self, workload)

    def span(self, start: int, stop: int) -> SpanRelease:
        """Return the sum of the numbers of some steps, each of which was released alone.

        Args:
            start: the step after which the sum begins.
            stop: the last step.

        Raises:
            InvalidInputError: the strategy releases totals, or these are not all releases so far.
        """
        design = self._design
        if design.strategy.facts.release != "windows" or self.steps[:1] != range(1, 2):
            raise InvalidInputError(
                "a span adds up numbers of single steps from step 1 on: of totals, subtract an "
                "earlier release"
            )
        value = self.values[start:stop].sum(axis=0)
        std = float(design.errors.window_std(start, stop))
        value = value if design.shape else value.item()
        return SpanRelease(stop, value, std, design, start=start)

    def decayed(self, workload: Decayed) -> list[DecayedRelease]:
        """Return the decayed sums of all cells after each step.

        Args:
            workload: how fast the weight of a step falls.

        Raises:
            InvalidInputError: `recent` refuses the workload, or these releases.
        """
        numbers = self.recent(workload)
        (part,) = workload.parts
        values = numbers.values[part.name]
        stds = numbers.std(part.name).tolist()
        return [
            DecayedRelease(step, value, std, self._design, factor=part.factor)
            for step, value, std in zip(self.steps, values, stds, strict=True)
        ]

    def interval(self, confidence_level: float = 0.95) -> tuple[IntegersOrFloats, IntegersOrFloats]:
        """Return the ends of intervals around the released values, shaped like ``values``.

        Args:
            confidence_level: probability with which each interval holds the true value, above 0 and
                at most 1 - 1e-9.
        """
        half = self._design.errors.halfwidths(self.steps, confidence_level)
        half_by_cell = half.reshape(-1, *(1,) * (self.values.ndim - 1))
        return _around(self.values, half_by_cell, self._design.units.released)

    def table_columns(self, confidence_level: float = 0.95) -> dict[str, Column]:
        """Return the columns of `table` as arrays.

        Args:
            confidence_level: coverage of each interval, above 0 and at most 1 - 1e-9.
        """
        cells = max(math.prod(self._design.shape), 1)
        about = {"window_index": np.repeat(np.asarray(self.steps), cells)}
        about |= _cells(self._design.shape, len(self.steps))
        std = np.repeat(self.std(), cells)
        interval = self.interval(confidence_level)
        return _columns(about, self.values, std, interval, confidence_level)


@dataclass(frozen=True)
class RecentNumbers(PublicNumbers):
    """The numbers of a workload after each step, such as the sums of the last 7 and 28 steps.

    In the first steps a rolling sum is incomplete: it is the sum of all steps so far.

    Attributes:
        workload: the numbers that are computed.
        steps: the steps after which they are computed.
        values: by name, the numbers in data units, of shape ``(steps, *cells)``.

    >>> from counton import Counter, Key, Rolling, ZCDP
    >>> strategy = Rolling(7).root(365)
    >>> counter = Counter(strategy, ZCDP(0.5), key=Key.generate(), name="visits")
    >>> recent = counter.release_many([20] * 30).recent(Rolling(7))
    >>> recent.values[""].shape, recent.std().round(2).tolist()[-1]
    ((30,), 1.78)
    >>> recent.is_complete().tolist().index(True)
    6
    """

    workload: RecentWorkload
    steps: range
    values: Mapping[str, IntegersOrFloats]
    _design: Design = field(repr=False)

    @classmethod
    def of(cls, releases: Releases, workload: RecentWorkload) -> RecentNumbers:
        """Compute the numbers of a workload from all releases of a stream so far.

        Raises:
            InvalidInputError: no workload, releases that do not begin with step 1, or a stream
                that releases several recent windows again, or with a delay.
        """
        from counton.strategies.workloads import check_workload

        workload = check_workload(workload)
        design = releases._design
        facts = design.strategy.facts
        if facts.versions > 1 or facts.delay:
            raise InvalidInputError(
                f"{design.strategy!r} releases windows again or with a delay, so sums over recent "
                "steps are not computed: use another strategy"
            )
        if not len(releases) or releases.steps[0] != 1:
            raise InvalidInputError(
                "sums over recent steps need all releases from step 1 on: release them together, "
                "or give all of them"
            )
        totals = np.asarray(releases.values)
        if facts.release == "windows":
            totals = np.cumsum(totals, axis=0)
        design_of_sums = replace(design, errors_of=ErrorsOf(workload=workload))
        values = {part.name: recent_values(totals, part) for part in workload.parts}
        return cls(workload, releases.steps, values, design_of_sums)

    @cached_property
    def _stds(self) -> dict[str, Floats]:
        return self._design.errors.recent_stds(self.steps)

    def std(self, name: str = "") -> NDArray[np.float64]:
        """Return the standard deviation of one number after each step, in data units.

        Args:
            name: the name of the number, such as "last 7" of a stack; "" for a single one.

        Raises:
            InvalidInputError: there is no number of this name.
        """
        return self._stds[self._part(name).name]

    def interval(
        self, confidence_level: float = 0.95, name: str = ""
    ) -> tuple[IntegersOrFloats, IntegersOrFloats]:
        """Return the ends of intervals, each with probability ``confidence_level``.

        Args:
            confidence_level: the probability of each interval.
            name: as of `std`.

        Raises:
            InvalidInputError: there is no number of this name, or the level is out of range.
        """
        values = self.values[self._part(name).name]
        half = self._design.errors.recent_halfwidths(self.steps, confidence_level)[name]
        half_by_cell = half.reshape(-1, *(1,) * (values.ndim - 1))
        return _around(values, half_by_cell, self._design.units.released)

    def is_complete(self, name: str = "") -> NDArray[np.bool_]:
        """Return whether a rolling sum has all of its steps, after each step.

        Args:
            name: as of `std`.

        Raises:
            InvalidInputError: there is no number of this name.
        """
        width = self._part(name).width or 1
        return np.asarray(self.steps) >= width

    def _part(self, name: str) -> WorkloadPart:
        parts: Sequence[WorkloadPart] = self.workload.parts
        for part in parts:
            if part.name == name:
                return part
        names = ", ".join(repr(part.name) for part in parts)
        raise InvalidInputError(f"there is no number {name!r}: give one of {names}")

    @override
    def table_columns(self, confidence_level: float = 0.95) -> dict[str, Column]:
        """Return the columns of `table` as arrays: all numbers, with is_complete.

        The column last_windows is the number of steps of a rolling sum; 0 for totals and decayed
        sums.
        """
        cells = max(math.prod(self._design.shape), 1)
        tables = []
        for part in self.workload.parts:
            about = {"window_index": np.repeat(np.asarray(self.steps), cells)}
            about["last_windows"] = np.full(len(self.steps) * cells, part.width or 0)
            about |= _cells(self._design.shape, len(self.steps))
            std = np.repeat(self.std(part.name), cells)
            interval = self.interval(confidence_level, part.name)
            columns = _columns(about, self.values[part.name], std, interval, confidence_level)
            columns["is_complete"] = np.repeat(self.is_complete(part.name), cells)
            tables.append(columns)
        return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


#: Unit of numbers that are no multiples of another one.
_WHOLE = Fraction(1)


def _around(
    values: IntegersOrFloats, half: NDArray[np.float64], unit: Fraction = _WHOLE
) -> tuple[IntegersOrFloats, IntegersOrFloats]:
    """Return values - half and values + half, as integers if both are whole.

    Args:
        values: released numbers.
        half: half-widths of intervals.
        unit: the unit of released numbers; ends that are multiples of it are rounded to these.
    """
    if values.dtype.kind == "i" and np.all(half == np.rint(half)):
        whole = half.astype(np.int64)
        return np.asarray(values - whole), np.asarray(values + whole)
    exact = values.astype(np.float64)
    low = nearest_multiples(np.asarray(exact - half), unit)
    return low, nearest_multiples(np.asarray(exact + half), unit)


def _cells(shape: tuple[int, ...], times: int = 1) -> dict[str, Column]:
    """Return the indices of all cells, a column for each axis, repeated ``times`` times."""
    indices = [np.tile(index.ravel(), times) for index in np.indices(shape)]
    if len(indices) == 1:
        return {"cell": indices[0]}
    return {f"cell_{axis}": index for axis, index in enumerate(indices)}


def _columns(
    about: Mapping[str, Any], value: Any, std: Any, interval: tuple[Any, Any], level: float
) -> dict[str, Column]:
    """Return a table as arrays: the columns ``about``, and those of estimate and interval."""
    estimate = np.ravel(value)
    columns = {name: np.full(estimate.shape, value) for name, value in about.items()}
    return {
        **columns,
        "estimate": estimate,
        "noise_std": np.full(estimate.shape, std),
        "lower": np.ravel(interval[0]),
        "upper": np.ravel(interval[1]),
        "confidence_level": np.full(estimate.shape, float(level)),
    }


def recent_values(totals: IntegersOrFloats, part: WorkloadPart) -> IntegersOrFloats:
    """Return one number of a workload after each step, from the totals of all steps.

    Args:
        totals: totals after the steps from 1 on, of shape ``(steps, ...)``.
        part: the number.
    """
    if part.factor < 1:
        steps = np.diff(totals.astype(np.float64), axis=0, prepend=0.0)
        decayed = np.zeros_like(steps)
        before = np.zeros(steps.shape[1:])
        for index, step_number in enumerate(steps):
            before = part.factor * before + step_number
            decayed[index] = before
        return decayed
    values = totals.copy()
    if part.width is not None and part.width < len(totals):
        windows = values[part.width :]
        np.subtract(windows, totals[: -part.width], out=windows)
    return values

"""Private ranges: a line or grid of counts measured once, any interval or box answered.

`plan_ranges` decides strategy and noise by exact expected error, before any data is touched.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.arrays import Floats, Integers, integers_from_text, integers_to_text
from counton.columns import data_frame, html
from counton.errors import InvalidInput, StateError
from counton.exact import figures, quantity, quoted, quoted_numbers
from counton.laws import Family, Law
from counton.mechanisms.intervals import (
    check_level,
    interval_halfwidth,
    is_narrow,
    smooth_halfwidth,
    weighted_halfwidth,
)
from counton.mechanisms.tables import (
    NORMS,
    R,
    TableDraft,
    TableRelease,
    check_room,
    checked_counts,
    fraction_bits,
    noise_kinds,
    ranked,
    shift_of_cells,
    stated,
)
from counton.mechanisms.terms import TableTerms
from counton.noise import Key
from counton.privacy import Contribution, Guarantee, calibrate
from counton.strategies import Norm
from counton.strategies.lines import (
    Grid,
    LineStrategy,
    Queries,
    Workload,
    workload,
)
from counton.strategies.lines.catalogue import (
    NAMES,
    built,
    line_strategy_from_dict,
    serves,
    total_variance,
)
from counton.strategies.lines.grid import axis_bits

Asked = str | Workload | ArrayLike

#: A name or a strategy for every axis.
Strategies = tuple[str | LineStrategy, ...]


@dataclass(frozen=True)
class RangesChoice:
    """One strategy with one kind of noise.

    Attributes:
        grid: the strategy of every axis.
        noise_law: law of one measurement's noise, in lattice units.
        expected_error: total squared error over the workload, in squared units of the counts.

    >>> from counton.privacy import ZCDP
    >>> best = plan_ranges(64, guarantee=ZCDP(0.5)).best
    >>> best.name, best.family
    ('optimal', 'gaussian')
    """

    grid: Grid
    noise_law: Law
    expected_error: float

    @property
    def name(self) -> str:
        """Name of the strategy; "a x b" where axes differ."""
        return self.grid.name

    @property
    def family(self) -> Family:
        """Kind of noise."""
        return self.noise_law.family


@dataclass(frozen=True, repr=False)
class RangesPlan:
    """All choices, least expected error first; no data was needed to make it.

    >>> from counton.privacy import ZCDP
    >>> plan = plan_ranges(64, guarantee=ZCDP(0.5))
    >>> [choice.name for choice in plan.choices if choice.family == "gaussian"][:5]
    ['optimal', 'square_root', 'haar', 'hierarchy', 'wavelet']
    """

    choices: tuple[RangesChoice, ...]
    guarantee: Guarantee
    contribution: Contribution
    workloads: tuple[Workload, ...]

    @property
    def best(self) -> RangesChoice:
        """The choice with the least expected error."""
        return self.choices[0]

    def table(self) -> Any:
        """The same rows as `rows`, as a polars data frame.

        Raises:
            MissingExtra: polars is not installed; `rows` needs none.
        """
        from counton.columns import data_frame_of_rows

        return data_frame_of_rows(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """One row a choice: rank, strategy, noise, expected_error (squared counts, in total)."""
        return [
            {
                "rank": rank,
                "strategy": choice.name,
                "noise": choice.family,
                "expected_error": choice.expected_error,
            }
            for rank, choice in enumerate(self.choices, 1)
        ]

    def describe(self) -> str:
        """What was compared and what is protected, in words.

        >>> from counton.privacy import ZCDP
        >>> print(plan_ranges(8, guarantee=ZCDP(0.5)).describe().splitlines()[0])
        8 cells, workload ranges, least total squared error first
        """
        cells = " x ".join(f"{count:,}" for count in self.best.grid.shape)
        asked = " x ".join(dict.fromkeys(work.name for work in self.workloads))
        rows = [
            f"  {row['rank']:>2}  {row['strategy']:<12} {row['noise']:<9} "
            f"{row['expected_error']:>12,.4g}"
            for row in self.rows()
        ]
        head = (
            f"{cells} cells, workload {asked}, least total squared error first\n"
            f"guarantee: {self.guarantee}\n"
            f"protected: {self.contribution.describe(steps=False)}"
        )
        return "\n".join([head, *rows])

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<RangesPlan of {len(self.choices)} choices, best {self.best.name}>"

    def _repr_html_(self) -> str:
        rows = self.rows()
        return html(
            f"guarantee: {self.guarantee}\nprotected: {self.contribution.describe(steps=False)}",
            {name: np.array([row[name] for row in rows]) for name in rows[0]},
        )


def plan_ranges(
    shape: int | Sequence[int],
    *,
    guarantee: Guarantee,
    contribution: Contribution | None = None,
    strategy: str | LineStrategy | Strategies = "auto",
    workload: Asked | tuple[Asked, ...] = "ranges",
) -> RangesPlan:
    """Rank strategies with Laplace and Gaussian noise by their exact expected squared error.

    Args:
        shape: cells, or cells along each axis of a grid.
        guarantee: what is promised.
        contribution: the protected unit; default one unit in one cell, added or removed.
        strategy: "auto" tries all; a name, a strategy, or a tuple with one of them an axis.
        workload: "ranges", "prefixes", "nodes", "subsets", or a matrix with one row a query; a
            tuple with one entry an axis for grids, else the same on every axis. The queries of a
            grid are all products of the axes' queries (boxes, for "ranges").

    Raises:
        InvalidInput: no cells, an unknown name, or no noise that gives the guarantee.

    >>> from counton.privacy import PureDP
    >>> plan_ranges(64, guarantee=PureDP(1), workload="prefixes").best.family
    'laplace'
    """
    cells = _shape(shape)
    unit = Contribution.add_remove() if contribution is None else contribution
    asked = _asked(workload, cells)
    names = _named(strategy, cells)

    def attempt(family: Family, combination: Strategies) -> RangesChoice:
        grid, total = _grid(combination, asked, NORMS[family])
        noise_law = calibrate(guarantee, shift_of_cells(grid, unit), family).law
        return RangesChoice(grid, noise_law, noise_law.variance * total)

    attempts = (
        partial(attempt, family, combination)
        for family in noise_kinds(guarantee)
        for combination in _combinations(names, asked, NORMS[family])
    )
    distinct: dict[tuple[Family, str], RangesChoice] = {}
    for choice in ranked(attempts, cost=lambda choice: choice.expected_error):
        # "auto" on every axis can come to one name on all of them.
        distinct.setdefault((choice.family, repr(choice.grid.parameters)), choice)
    return RangesPlan(tuple(distinct.values()), guarantee, unit, asked)


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Cells along each axis."""
    one = isinstance(shape, (int, np.integer)) or not np.ndim(shape)
    cells: list[Any] = [shape] if one else list(cast("Sequence[int]", shape))
    for count in cells:
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            cells = []
    if not cells:
        raise InvalidInput(
            f"the cells have shape {quoted_numbers(shape)}; there must be at least one cell along "
            f"every axis"
        )
    return tuple(int(count) for count in cells)


def _named(strategy: str | LineStrategy | Strategies, cells: tuple[int, ...]) -> Strategies:
    """A name or strategy for every axis."""
    names = strategy if isinstance(strategy, tuple) else (strategy,) * len(cells)
    if len(names) != len(cells):
        raise InvalidInput(
            f"{len(names)} strategies were given for {len(cells)} axes: give one for each axis"
        )
    for name in names:
        known = isinstance(name, str) and name in ("auto", *NAMES)
        if not known and not isinstance(name, LineStrategy):
            raise InvalidInput(
                f"strategy is {quoted(name)}; it must be 'auto' or one of {', '.join(NAMES)}, or a "
                f"strategy, or a tuple with one of these an axis"
            )
    return names


def _asked(kind: Asked | tuple[Asked, ...], cells: tuple[int, ...]) -> tuple[Workload, ...]:
    kinds = kind if isinstance(kind, tuple) else (kind,) * len(cells)
    if len(kinds) != len(cells):
        raise InvalidInput(
            f"{len(kinds)} workloads were given for {len(cells)} axes: give one for each axis"
        )
    return tuple(workload(each, count) for each, count in zip(kinds, cells, strict=True))


def _combinations(
    names: Strategies, asked: tuple[Workload, ...], norm: Norm
) -> Iterator[Strategies]:
    """Strategies of all axes to compare: what was asked for, and for "auto" every name on all."""
    axes = len(asked)
    every = all(name == "auto" for name in names)
    if every:
        for name in NAMES:
            if all(serves(name, work, norm, axes) for work in asked):
                yield (name,) * axes
    if axes > 1 or not every:
        yield names  # "auto" on every axis is the best of each


def _grid(names: Strategies, asked: tuple[Workload, ...], norm: Norm) -> tuple[Grid, float]:
    """The grid of these strategies, and its total variance in units of one draw's."""
    axes = [_axis(name, work, norm, len(asked)) for name, work in zip(names, asked, strict=True)]
    return Grid(tuple(axis for axis, _ in axes)), math.prod(total for _, total in axes)


def _axis(
    name: str | LineStrategy, asked: Workload, norm: Norm, axes: int
) -> tuple[LineStrategy, float]:
    """The strategy of one of the axes and its total variance on the axis' workload."""
    if not isinstance(name, str):
        return name, asked.total(_fitting(name, asked))
    bits = axis_bits(axes)
    chosen = _best_name(asked, norm, bits, axes) if name == "auto" else name
    return built(chosen, asked, norm, bits), total_variance(chosen, asked, norm, bits)


def _fitting(strategy: LineStrategy, asked: Workload) -> LineStrategy:
    if strategy.cells != asked.cells:
        raise InvalidInput(
            f"the strategy {strategy.name} measures {strategy.cells} cells, but there are "
            f"{asked.cells}: build it for that number"
        )
    return strategy


def _best_name(asked: Workload, norm: Norm, bits: int, axes: int) -> str:
    """Least error times squared sensitivity: on grids both are products over the axes."""

    def cost(name: str) -> float:
        axis = built(name, asked, norm, bits)
        size = axis.l1_sensitivity() ** 2 if norm == 1 else axis.squared_sensitivity()
        return total_variance(name, asked, norm, bits) * size

    return min((name for name in NAMES if serves(name, asked, norm, axes)), key=cost)


@dataclass(frozen=True, eq=False, repr=False)
class RangesRelease(TableRelease):
    """Private sums over any interval (line) or box (grid), with their standard deviations.

    Attributes:
        shape: cells along each axis.
        strategy: name of the strategy used.
        family: kind of noise, "laplace" or "gaussian".
        noise_law: law of one measurement's noise, in units of the strategy's lattice.
        expected_error: total squared error over the workload, known before the data.
        plan: all strategies that were compared; of a release shown again the chosen one alone.

    See `TableRelease` for ``terms``, ``guarantee``, ``contribution``, ``input_digest`` and
    ``repeated``.

    >>> from counton import Key, ZCDP, release_ranges
    >>> release = release_ranges([3, 1, 4], guarantee=ZCDP(2), key=Key.generate())
    >>> release.sum([0, 0], [1, 3]).shape, release.strategy
    ((2,), 'identity')
    """

    shape: tuple[int, ...]
    plan: RangesPlan
    choice: RangesChoice
    _sums: NDArray[Any] = field(repr=False)
    _unit: float = field(repr=False)

    @property
    def strategy(self) -> str:
        """Name of the strategy used."""
        return self.choice.name

    @property
    def strategies(self) -> tuple[LineStrategy, ...]:
        """The strategy of every axis: as ``strategy=`` of `release_ranges`, the same again.

        >>> from counton import Key, ZCDP, release_ranges
        >>> key = Key.generate()
        >>> release = release_ranges([3, 1, 4, 1, 5], guarantee=ZCDP(2), key=key)
        >>> again = release_ranges(
        ...     [3, 1, 4, 1, 5], guarantee=ZCDP(2), key=key, strategy=release.strategies
        ... )
        >>> bool((again.cells() == release.cells()).all())
        True
        """
        return self.choice.grid.axes

    @property
    def family(self) -> Family:
        """Kind of noise."""
        return self.choice.family

    @property
    def noise_law(self) -> Law:
        """Law of one measurement's noise, in units of the strategy's lattice."""
        return self.choice.noise_law

    @property
    def expected_error(self) -> float:
        """Total squared error over the workload, in squared counts."""
        return self.choice.expected_error

    def sum(self, low: ArrayLike, high: ArrayLike) -> Any:
        """Private sum over [low, high), one or millions at once.

        Args:
            low, high: integers, scalars or arrays that broadcast; on a grid the last axis holds
                the corner's coordinates.

        Returns:
            float64 of their common shape (without the coordinates); 0 where low equals high.

        Raises:
            InvalidInput: not integers, low above high, or an end outside the cells.
        """
        first, last = self._corners(low, high)
        if len(self.shape) == 1:
            return (self._sums.take(last[0]) - self._sums.take(first[0])) * self._unit
        total = None
        for ends in itertools.product((0, 1), repeat=len(self.shape)):
            corner = self._sums[tuple((first, last)[e][i] for i, e in enumerate(ends))]
            odd = (len(ends) - sum(ends)) % 2
            signed = -corner if odd else corner
            total = signed if total is None else total + signed
        assert total is not None
        return total * self._unit

    def variance(self, low: ArrayLike, high: ArrayLike) -> Any:
        """Variance of the noise in `sum`, as `sum` takes its arguments."""
        firsts, lasts, shape = self._boxes(low, high)
        variance = self.choice.grid.variance(firsts, lasts) * self.noise_law.variance
        return variance.reshape(shape)[()]

    def _boxes(self, low: ArrayLike, high: ArrayLike) -> tuple[Integers, Integers, tuple[int, ...]]:
        """Both ends, checked, shape (axes, boxes); and the shape of what was asked."""
        first, last = self._corners(low, high)
        shape = np.broadcast_shapes(first[0].shape, last[0].shape)
        firsts = np.stack([np.broadcast_to(part, shape) for part in first]).reshape(len(first), -1)
        lasts = np.stack([np.broadcast_to(part, shape) for part in last]).reshape(len(last), -1)
        return firsts, lasts, shape

    def std(self, low: ArrayLike, high: ArrayLike) -> Any:
        """Standard deviation of the noise in `sum`, as `sum` takes its arguments."""
        return np.sqrt(self.variance(low, high))

    def cells(self) -> Floats:
        """Private count of every cell: float64 of shape ``shape``; they add up to every sum."""
        cells = self._sums
        for axis in range(len(self.shape)):
            cells = np.diff(cells, axis=axis)
        return np.asarray(cells * self._unit)

    def table(self, level: float = 0.95) -> Any:
        """All cells as a polars data frame, with intervals that hold with probability ``level``.

        Columns: ``cell`` (on a grid ``cell_0``, ``cell_1``, ...), estimate, std, lower, upper. The
        intervals are those of single cells, not of all together.

        Raises:
            InvalidInput: a level outside (0, 1).
            MissingExtra: polars is not installed.

        >>> from counton import Key, ZCDP, release_ranges
        >>> release_ranges([3, 1, 4], guarantee=ZCDP(2), key=Key.generate()).table().columns
        ['cell', 'estimate', 'std', 'lower', 'upper']
        """
        return data_frame(self._rows(level))

    def _rows(self, level: float = 0.95) -> dict[str, NDArray[Any]]:
        place = np.indices(self.shape).reshape(len(self.shape), -1)
        if len(self.shape) == 1:
            named, low = {"cell": place[0]}, place[0]
        else:
            named, low = {f"cell_{axis}": part for axis, part in enumerate(place)}, place.T
        std = self.std(low, low + 1)
        estimate = self.cells().ravel()
        half = self.halfwidth(low, low + 1, level)
        return {
            **named,
            "estimate": estimate,
            "std": std,
            "lower": estimate - half,
            "upper": estimate + half,
        }

    def halfwidth(self, low: ArrayLike, high: ArrayLike, level: float = 0.95) -> Any:
        """Half-widths of the intervals around `sum`, each of which holds as often as ``level``.

        They come from the law of the noise, a sum of discrete draws: exact where cells alone are
        measured; at most a quarter of an atom or 1/128 of the standard deviation too wide where
        noise is narrow; and where that would take too long, or noise is wide, from `std` with half
        a draw's weight added, or a whole one.

        Args:
            low, high: as `sum` takes them.
            level: wanted probability, above 0 and at most 1 - 1e-9.

        Raises:
            InvalidInput: a level out of range, or ends as in `sum`.

        >>> from counton import Key, ZCDP, release_ranges
        >>> release = release_ranges([3, 1, 4], guarantee=ZCDP(2), key=Key.generate())
        >>> release.halfwidth([0, 0], [1, 3]).tolist()
        [1.0, 2.0]
        """
        level = check_level(level)
        first, last, shape = self._boxes(low, high)
        grid, law = self.choice.grid, self.noise_law
        # Each corner of a box is rounded by half a unit.
        rounding = 2.0 ** (len(self.shape) - 1) * self._unit
        if (weight := grid.cell_weight) is not None:
            cells = np.prod(last - first, axis=0)
            draws, where = np.unique(_few(cells), return_inverse=True)
            half = np.array([interval_halfwidth(law, n, level) / weight for n in draws.tolist()])
            half = half[where.reshape(-1)] + (rounding if weight > 1 else 0.0)
        elif is_narrow(law) and (read := grid.read_weights(first, last)) is not None:
            kinds, where = read
            half = np.array([weighted_halfwidth(law, kind, level) for kind in kinds])
            half = half[where] + rounding
        else:
            std = np.sqrt(grid.variance(first, last) * law.variance)
            half = smooth_halfwidth(std, law, level) + rounding
        half = np.where((last > first).all(axis=0), half, 0.0)
        return half.reshape(shape)[()]

    def _measured(self) -> str:
        return (
            f"Measured were the sums over cells that the strategy {self.strategy!r} asks for; "
            f"every interval is a linear function of them."
        )

    def _errors(self) -> list[str]:
        one, axes = self.std([0] * len(self.shape), [1] * len(self.shape)), len(self.shape)
        whole = self.std([0] * axes, list(self.shape))
        if axes == 1:
            one, whole = self.std(0, 1), self.std(0, self.shape[0])
        first, total = (quantity(std, std) for std in (float(one), float(whole)))
        return [
            f"The noise of the first cell has the standard deviation {first}, and that of the sum "
            f"of all cells {total}."
        ]

    def _sources(self) -> tuple[str, ...]:
        return self.choice.grid.sources

    def saved_strategy(self) -> dict[str, Any]:
        """See `TableRelease.saved_strategy`."""
        return self.choice.grid.to_dict()

    def saved_values(self) -> dict[str, Any]:
        """See `TableRelease.saved_values`: cells as integers, and the bits behind their point."""
        cells = self._sums
        for axis in range(len(self.shape)):
            cells = np.diff(cells, axis=axis)
        return {"cells": integers_to_text(cells), "bits": -round(math.log2(self._unit))}

    def _corners(
        self, low: ArrayLike, high: ArrayLike
    ) -> tuple[tuple[Integers, ...], tuple[Integers, ...]]:
        """Both ends by axis, checked."""
        axes = len(self.shape)
        ends = []
        for name, value in (("low", low), ("high", high)):
            array = np.asarray(value)
            if not array.size:  # an empty list has no type of its own
                array = array.astype(np.int64)
                array = array.reshape(0, axes) if axes > 1 and array.ndim == 1 else array
            if array.dtype == object:
                self._refuse_huge(name, array)
            if array.dtype.kind not in "iu":
                raise InvalidInput(
                    f"{name} has type {array.dtype}; ends of intervals must be integers"
                )
            if axes > 1 and (array.ndim == 0 or array.shape[-1] != axes):
                raise InvalidInput(
                    f"{name} has shape {array.shape}; its last axis must hold {axes} coordinates"
                )
            ends.append(tuple(array[..., i] for i in range(axes)) if axes > 1 else (array,))
        first, last = ends
        for axis, cells in enumerate(self.shape):
            self._check_axis(first[axis], last[axis], cells)
        return first, last

    def _refuse_huge(self, name: str, array: NDArray[Any]) -> None:
        """Integers beyond int64 are no objects to the caller, only out of range."""
        for end in array.ravel().tolist():
            if isinstance(end, int) and not -(2**63) <= end < 2**63:
                cells = " x ".join(map(str, self.shape))
                raise InvalidInput(
                    f"{name} is {end}, which is out of range; there are {cells} cells"
                )

    @staticmethod
    def _check_axis(low: NDArray[Any], high: NDArray[Any], cells: int) -> None:
        try:
            reversed_ = low > high
        except ValueError as error:
            raise InvalidInput(f"low and high do not go together: {error}") from error
        if reversed_.any():
            place = tuple(np.argwhere(reversed_)[0])
            a, b = np.broadcast_arrays(low, high)
            raise InvalidInput(
                f"interval [{a[place]}, {b[place]}) is reversed; low must not be above high: swap "
                f"them"
            )
        if low.size and low.min() < 0:
            raise InvalidInput(f"low is {low.min()}; intervals lie within [0, {cells})")
        if high.size and high.max() > cells:
            raise InvalidInput(
                f"high is {high.max()}; there are {cells} cells, so it must be at most {cells}"
            )

    def describe(self) -> str:
        """What was released and what is protected, in words."""
        cells = " x ".join(f"{count:,}" for count in self.shape)
        kind = "Laplace" if self.family == "laplace" else "Gaussian"
        unit = self.contribution
        meaning = self.guarantee.meaning_for(unit.unit, unit.relation)
        return (
            f"{cells} cells, strategy {self.strategy}, {kind} noise\n"
            f"protected: {self.contribution.describe(steps=False)}\n"
            f"guarantee: {self.guarantee}: {meaning}\n"
            f"expected squared error over the workload: {figures(self.expected_error)}"
        )


#: Sizes of sums of which each gets its own law.
_SIZES = 512


def _few(draws: Integers) -> Integers:
    """Numbers of draws, rounded up where there are many different: more draws lie farther out."""
    if len(np.unique(draws)) <= _SIZES:
        return draws
    step = 2 ** np.maximum(np.floor(np.log2(np.maximum(draws, 1))).astype(np.int64) - 6, 0)
    rounded: Integers = -(-draws // step) * step
    return rounded


#: Most measurements of a grid: about 40 bytes each are held at once.
LARGEST_GRID = 2**28


def check_size(shape: tuple[int, ...], axes: Sequence[LineStrategy]) -> None:
    """Refuse grids whose measurements would take up all memory.

    Raises:
        InvalidInput: naming how many there would be.
    """
    measurements = math.prod(axis.measurements for axis in axes)
    if len(axes) > 1 and measurements > LARGEST_GRID:
        raise InvalidInput(
            f"the table has {math.prod(shape):,} cells in {len(shape)} columns or axes and takes "
            f"{measurements:,} measurements; at most {LARGEST_GRID:,} fit into memory: release "
            f"fewer columns together, or merge values"
        )


class CellsDraft(TableDraft[R]):
    """A draft whose cells form a line or grid: what ranges and contingency tables share."""

    def __init__(
        self, name: str, asked: Mapping[str, Any], counts: Integers, means: Mapping[str, Any]
    ) -> None:
        super().__init__(name, asked, counts)
        self._means = means  # what the cells stand for, if they are no plain positions
        self._facts: dict[str, Any] = {}

    @property
    @abstractmethod
    def plan(self) -> RangesPlan:
        """Strategy and noise, chosen once."""

    def prepare(self) -> None:
        """See `TableDraft.prepare`."""
        grid = self.plan.best.grid
        for axis in grid.axes:
            if not axis.consistent:
                raise InvalidInput(
                    f"strategy is {axis.name!r}, whose answers do not add up, so that it can be "
                    f"planned with and not released: use 'binary', the same measurements made "
                    f"consistent by least squares, with no more error anywhere"
                )
        check_size(grid.shape, grid.axes)
        check_room(self._counts, grid.largest_entry)

    def _terms(self) -> TableTerms:
        return TableTerms(
            released=self.kind,
            name=self.name,
            addressed={**self.plan.best.grid.parameters, **self._means},
            guarantee=self.plan.guarantee,
            contribution=self.plan.contribution,
            shape=self._counts.shape,
            law=self.plan.best.noise_law,
            facts=self._facts,
        )

    def _measured(self, key: Key) -> RangesRelease:
        self.prepare()
        grid, law, terms = self.plan.best.grid, self.plan.best.noise_law, self._terms()
        noise = terms.noise_field(key)
        first = np.zeros((self._counts.ndim, 1), np.int64)
        cell = math.sqrt(float(grid.variance(first, first + 1)[0]) * law.variance)
        sums, bits = grid.running_sums(self._counts, noise, fraction_bits(cell))
        return RangesRelease(
            self._counts.shape,
            self.plan,
            self.plan.best,
            sums,
            2.0**-bits,
            terms=terms,
            input_digest=self.input_digest(key),
        )

    def _shown(
        self,
        terms: TableTerms,
        strategy: Mapping[str, Any],
        values: Mapping[str, Any],
        input_digest: str,
        own: Sequence[Any],
        workloads: tuple[Workload, ...],
    ) -> RangesRelease:
        return saved_cells(terms, strategy, values, input_digest, own, workloads)


def saved_cells(
    terms: TableTerms,
    strategy: Mapping[str, Any],
    values: Mapping[str, Any],
    input_digest: str,
    own: Sequence[Any],
    workloads: tuple[Workload, ...],
) -> RangesRelease:
    """A release from what was saved of it: no plan and no noise.

    Raises:
        StateError: a strategy that is not the one of the terms.
        InvalidInput: values that do not fit the terms.
    """
    grid = Grid(tuple(_rebuilt(axis, own) for axis in strategy["axes"]))
    if grid.parameters["axes"] != terms.measured["axes"]:
        raise StateError(
            "the strategy kept with the release is not the one that its terms name: restore the "
            "state from a copy"
        )
    choice = RangesChoice(grid, terms.law, terms.law.variance * grid.total(workloads))
    cells = integers_from_text(values["cells"], terms.shape)
    sums = np.zeros(tuple(count + 1 for count in terms.shape), np.int64)
    for axis in range(cells.ndim):
        cells = np.cumsum(cells, axis=axis)
    sums[(slice(1, None),) * cells.ndim] = cells
    return RangesRelease(
        terms.shape,
        RangesPlan((choice,), terms.guarantee, terms.contribution, workloads),
        choice,
        sums,
        2.0 ** -int(values["bits"]),
        terms=terms,
        input_digest=input_digest,
        repeated=True,
    )


def saved_ranges(
    terms: TableTerms,
    strategy: Mapping[str, Any],
    values: Mapping[str, Any],
    input_digest: str,
    asked: Mapping[str, Any],
) -> RangesRelease:
    """As `saved_cells`, for the workload that was asked; a workload of one's own counts as ranges.

    Raises:
        StateError, InvalidInput: see `saved_cells`.
    """
    named = tuple(
        work if isinstance(work, str) else "ranges" for work in asked.get("workload", ())
    ) or ("ranges",) * len(terms.shape)
    return saved_cells(terms, strategy, values, input_digest, (), _asked(named, terms.shape))


def recomputed_cells(release: RangesRelease, key: Key) -> tuple[Integers, int]:
    """The exact counts behind a release, found with its key, and how far what they give lies off.

    Running sums are those of the exact counts plus a function of the noise, so the key gives the
    counts, and these give every sum again.

    Returns:
        Counts of all cells; and the largest difference between the running sums computed from
        them and those released, in units of the released grid.
    """
    grid, noise = release.choice.grid, release.terms.noise_field(key)
    bits = -round(math.log2(release._unit))
    nothing = np.zeros(release.shape, np.int64)
    drawn, bits = grid.running_sums(nothing, noise, bits)
    exact = (np.asarray(release._sums, np.float64) - drawn) * 2.0**-bits
    for axis in range(exact.ndim):
        exact = np.diff(exact, axis=axis)
    counts = np.rint(exact).astype(np.int64)
    again, _ = grid.running_sums(counts, noise, bits)
    return counts, int(np.abs(np.asarray(again) - release._sums).max())


class RangesDraft(CellsDraft[RangesRelease]):
    """A line or grid that is to be released; arguments as in `counton.release_ranges`."""

    kind = "ranges"

    def __init__(
        self,
        counts: ArrayLike,
        *,
        guarantee: Guarantee,
        contribution: Contribution | None = None,
        name: str = "ranges",
        strategy: str | LineStrategy | Strategies = "auto",
        workload: Asked | tuple[Asked, ...] = "ranges",
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        data = checked_counts(counts)
        if not data.size or not data.ndim:
            raise InvalidInput(
                f"the counts have shape {data.shape}; give at least one cell, zeros included"
            )
        promised = stated(guarantee, contribution)
        if guarantee is None:
            raise InvalidInput("guarantee is None; give one such as ZCDP(rho=0.5)")
        self._guarantee = guarantee
        self._strategies = _named(strategy, data.shape)
        self._workloads = _asked(workload, data.shape)
        asked = {
            **promised,
            "shape": list(data.shape),
            "strategy": [
                each if isinstance(each, str) else {"strategy": each.name, **each.parameters}
                for each in self._strategies
            ],
            "workload": [_identity(each) for each in self._workloads],
        }
        super().__init__(name, asked, data, {})
        if labels:  # public names of the cells by the name of their column
            self._facts = {"labels": {column: list(names) for column, names in labels.items()}}

    @cached_property
    def plan(self) -> RangesPlan:
        """See `CellsDraft.plan`."""
        return plan_ranges(
            self._counts.shape,
            guarantee=self._guarantee,
            contribution=self.contribution,
            strategy=self._strategies,
            workload=self._workloads,
        )

    def differences(self, terms: TableTerms, asked: Mapping[str, Any]) -> list[str]:
        """See `TableDraft.differences`; the strategy that a release has may be given for it."""
        found = super().differences(terms, asked)
        if self.asked["strategy"] == terms.measured.get("axes"):
            found = [name for name in found if name not in ("strategy", "workload")]
        return found

    def release(self, key: Key) -> RangesRelease:
        """See `TableDraft.release`."""
        return self._measured(key)

    def shown(
        self,
        terms: TableTerms,
        strategy: Mapping[str, Any],
        values: Mapping[str, Any],
        input_digest: str,
    ) -> RangesRelease:
        """See `TableDraft.shown`."""
        return self._shown(terms, strategy, values, input_digest, self._strategies, self._workloads)


def _identity(work: Workload) -> Any:
    """A workload as JSON: its name, or a digest of the caller's own queries."""
    if not isinstance(work, Queries):
        return work.name
    weights = np.ascontiguousarray(work.matrix, "<f8")
    digest = hashlib.sha256(f"{weights.shape};".encode() + weights.tobytes()).hexdigest()
    return {"matrix_sha256": digest}


def _rebuilt(axis: Mapping[str, Any], own: Sequence[Any]) -> LineStrategy:
    """The strategy of an axis; the caller's ``own`` where it is no part of counton."""
    for strategy in own:
        if isinstance(strategy, LineStrategy) and strategy.to_dict() == axis:
            return strategy
    return line_strategy_from_dict(axis)

"""Private ranges: a line or grid of counts measured once, any interval or box answered."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.arrays import Floats, Integers
from counton.errors import InvalidInput
from counton.laws import Family, Law
from counton.mechanisms.tables import (
    NORMS,
    check_room,
    checked_counts,
    fraction_bits,
    noise_kinds,
    ranked,
    shift_of_cells,
)
from counton.mechanisms.terms import TableTerms
from counton.noise import Key
from counton.privacy import Contribution, Guarantee, calibrate
from counton.strategies import Norm
from counton.strategies.lines import Grid, LineStrategy, Workload, workload
from counton.strategies.lines.catalogue import NAMES, built, serves, total_variance
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


@dataclass(frozen=True)
class RangesPlan:
    """All choices, least expected error first; no data was needed to make it.

    >>> from counton.privacy import ZCDP
    >>> plan = plan_ranges(64, guarantee=ZCDP(0.5))
    >>> [choice.name for choice in plan.choices if choice.family == "gaussian"]
    ['optimal', 'square_root', 'haar', 'hierarchy', 'cascade', 'binary', 'identity']
    """

    choices: tuple[RangesChoice, ...]
    guarantee: Guarantee
    contribution: Contribution
    workloads: tuple[Workload, ...]

    @property
    def best(self) -> RangesChoice:
        """The choice with the least expected error."""
        return self.choices[0]


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
    names = strategy if isinstance(strategy, tuple) else (strategy,) * len(cells)
    if len(names) != len(cells):
        raise InvalidInput(
            f"{len(names)} strategies were given for {len(cells)} axes: give one for each axis"
        )
    for name in names:
        if not isinstance(name, LineStrategy) and name not in ("auto", *NAMES):
            raise InvalidInput(
                f"strategy is {name!r}; it must be 'auto' or one of {', '.join(NAMES)}, or a "
                f"strategy, or a tuple with one of these an axis"
            )

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
            f"the cells have shape {shape!r}; there must be at least one cell along every axis"
        )
    return tuple(int(count) for count in cells)


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


@dataclass(frozen=True, eq=False)
class RangesRelease:
    """Private sums over any interval (line) or box (grid), with their standard deviations.

    Attributes:
        shape: cells along each axis.
        strategy: name of the strategy used.
        family: kind of noise, "laplace" or "gaussian".
        noise_law: law of one measurement's noise, in units of the strategy's lattice.
        guarantee, contribution: what is promised, and to whom.
        expected_error: total squared error over the workload, known before the data.
        plan: all strategies that were compared.

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

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        return self.plan.guarantee

    @property
    def contribution(self) -> Contribution:
        """The protected unit and the neighbouring relation."""
        return self.plan.contribution

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
        first, last = self._corners(low, high)
        grid = self.choice.grid
        shape = np.broadcast_shapes(first[0].shape, last[0].shape)
        firsts = np.stack([np.broadcast_to(part, shape) for part in first]).reshape(len(first), -1)
        lasts = np.stack([np.broadcast_to(part, shape) for part in last]).reshape(len(last), -1)
        variance = grid.variance(firsts, lasts) * self.noise_law.variance
        return variance.reshape(shape)[()]

    def std(self, low: ArrayLike, high: ArrayLike) -> Any:
        """Standard deviation of the noise in `sum`, as `sum` takes its arguments."""
        return np.sqrt(self.variance(low, high))

    def cells(self) -> Floats:
        """Private count of every cell: float64 of shape ``shape``; they add up to every sum."""
        cells = self._sums
        for axis in range(len(self.shape)):
            cells = np.diff(cells, axis=axis)
        return np.asarray(cells * self._unit)

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
        return (
            f"{cells} cells, strategy {self.strategy}, {kind} noise\n"
            f"protected: {self.contribution.describe(steps=False)}\n"
            f"guarantee: {self.guarantee}: {self.guarantee.meaning}\n"
            f"expected squared error over the workload: {self.expected_error:,.4g}"
        )

    def __str__(self) -> str:
        return self.describe()


#: Most measurements of a grid: about 40 bytes each are held at once.
LARGEST_GRID = 2**28


def release_ranges(
    counts: ArrayLike,
    *,
    guarantee: Guarantee,
    contribution: Contribution | None = None,
    key: Key,
    name: str = "ranges",
    strategy: str | LineStrategy | Strategies = "auto",
    workload: Asked | tuple[Asked, ...] = "ranges",
) -> RangesRelease:
    """Measure a line or grid of counts privately, once, so that any interval can be answered.

    The measurements y = C x + z are exact integers; everything released is a function of y.
    Release a data set once under a key and name: the same noise on changed data gives the change
    away.

    The noise belongs to the strategy. `optimal` ones are found by searches in floating point, which
    can end in another matrix on another processor: the same call then draws other noise and spends
    the guarantee a second time. To show the same release again elsewhere, keep its ``strategies``
    (`Dense.save`) and pass them as ``strategy``.

    Args:
        counts: non-negative integers, one axis (a line) or more (a grid).
        guarantee, contribution, strategy, workload: as in `plan_ranges`.
        key: where the noise comes from.
        name: of this release; another name under the same key has other noise.

    Raises:
        InvalidInput: counts that are not non-negative integers, no cells, or as `plan_ranges`.
        SumOverflow: counts too large to be measured exactly.

    >>> from counton.privacy import ZCDP
    >>> release = release_ranges([3, 1, 4, 1, 5], guarantee=ZCDP(2), key=Key.generate())
    >>> release.strategy, bool(release.sum(0, 5) == release.sum(0, 2) + release.sum(2, 5))
    ('optimal', True)
    >>> release.std([0, 1], [5, 2]).round(2).tolist()
    [0.82, 0.57]
    """
    data = checked_counts(counts)
    if not data.size or not data.ndim:
        raise InvalidInput(
            f"the counts have shape {data.shape}; give at least one cell, zeros included"
        )
    plan = plan_ranges(
        data.shape,
        guarantee=guarantee,
        contribution=contribution,
        strategy=strategy,
        workload=workload,
    )
    return released_cells(data, plan, key=key, kind="ranges", name=name)


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


def released_cells(
    data: Integers,
    plan: RangesPlan,
    *,
    key: Key,
    kind: str,
    name: str,
    means: dict[str, Any] | None = None,
) -> RangesRelease:
    """Measure checked counts by the best choice of a plan.

    Args:
        data: non-negative counts in the plan's shape.
        plan: the choices and the guarantee.
        key: where the noise comes from.
        kind, name: of the release; part of the noise address.
        means: what the cells stand for, if they are no plain positions; part of it too.

    Raises:
        InvalidInput: more measurements than fit into memory.
        SumOverflow: counts too large to be measured exactly.
    """
    grid = plan.best.grid
    check_size(grid.shape, grid.axes)
    check_room(data, grid.largest_entry)
    noise_law = plan.best.noise_law
    terms = TableTerms(
        released=kind,
        name=name,
        addressed={**grid.parameters, **(means or {})},
        guarantee=plan.guarantee,
        contribution=plan.contribution,
        shape=data.shape,
        law=noise_law,
    )
    noise = terms.noise_field(key)
    first = np.zeros((data.ndim, 1), np.int64)
    cell = math.sqrt(float(grid.variance(first, first + 1)[0]) * noise_law.variance)
    sums, bits = grid.running_sums(data, noise, fraction_bits(cell))
    return RangesRelease(data.shape, plan, plan.best, sums, 2.0**-bits)

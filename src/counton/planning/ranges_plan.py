"""Plans of a line or grid of cells: the strategy that measures them with the least exact error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from counton import tables
from counton.base.arguments import known_arguments
from counton.base.distributions import NoiseDistribution, NoiseKind
from counton.base.errors import InvalidInputError
from counton.base.exact import Number, figures, is_whole, quote, quoted_numbers
from counton.continual.node_distribution import check_guarantee
from counton.planning.plans import Plan, loss_of
from counton.privacy import ContributionBound, Guarantee, calibrate
from counton.privacy.guarantees import one_guarantee
from counton.strategies import Norm
from counton.strategies.participation import NORMS
from counton.tables import Grid, LineStrategy, Workload
from counton.tables.grid import axis_bits
from counton.tables.line_catalogue import NAMES, build, serves, total_variance
from counton.tables.table_calibration import noise_kinds, rank_attempts, sensitivity_of_cells

Asked = str | Workload | ArrayLike

#: A strategy, or the name of one, for every axis.
Strategies = tuple[str | LineStrategy, ...]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CellsDesign:
    """A design for measuring a line or a grid of cells once, with its error.

    Attributes:
        distribution: the noise distribution of one measurement, in units of the resolution.
        workloads: the queries along each axis; a query of the grid is a product of them.
        expected_error: expected squared error, summed over all queries, in squared counts.

    >>> from counton import plan_cells
    >>> best = plan_cells(64, rho=0.5).best
    >>> best.name, best.noise_kind
    ('optimal', 'gaussian')
    """

    strategy: Grid
    distribution: NoiseDistribution
    guarantee: Guarantee
    contribution: ContributionBound
    workloads: tuple[Workload, ...]
    expected_error: float

    @property
    def name(self) -> str:
        """Name of the strategy; "a x b" for two axes."""
        return self.strategy.name

    @property
    def noise_kind(self) -> NoiseKind:
        return self.distribution.family

    def row(self) -> dict[str, object]:
        """Return this design's row in the table of a plan."""
        return {
            "strategy": self.name,
            "noise": self.noise_kind,
            "expected_error": self.expected_error,
        }


@known_arguments
def plan_cells(
    cells: int | Sequence[int],
    guarantee: Guarantee | None = None,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    contribution: ContributionBound | None = None,
    line: str | LineStrategy | Strategies = "auto",
    workload: Asked | tuple[Asked, ...] = "ranges",
) -> Plan[CellsDesign]:
    """Plan a line or a grid of cells that is released once.

    Strategies with Laplace and Gaussian noise are ranked by their exact expected squared error over
    all queries. A plan looks at no data and costs no privacy.

    Args:
        cells: number of cells, along each axis of a grid.
        guarantee: ``PureDP``, ``ApproxDP`` or ``ZCDP``; or state ``epsilon``, ``epsilon`` and
            ``delta``, or ``rho``.
        contribution: the bound on one unit's change; default: one count, added or removed.
        line: "auto" tries all; a name, a strategy, or a tuple with one for each axis.
        workload: "ranges", "prefixes", or a matrix with one row for each query, for all axes or
            each. The queries of a grid are all products of the axes': boxes, for "ranges".

    Raises:
        InvalidInputError: an argument is out of range, or no strategy can give the guarantee.

    >>> plan_cells(64, epsilon=1, workload="prefixes").best.noise_kind
    'laplace'
    """
    shape = _shape(cells)
    guarantee = check_guarantee(one_guarantee(guarantee, epsilon, delta, rho))
    unit = ContributionBound.add_remove() if contribution is None else contribution
    asked: tuple[Asked, ...] = _by_axis("workloads", workload, shape)
    workloads = tuple(
        tables.workload(kind, cells=length) for kind, length in zip(asked, shape, strict=True)
    )
    names: Strategies = _by_axis("strategies", line, shape)
    _check_names(names)

    def attempt(family: NoiseKind, combination: Strategies) -> CellsDesign:
        grid, total = _grid(combination, workloads, NORMS[family])
        distribution = calibrate(guarantee, sensitivity_of_cells(grid, unit), family).distribution
        return CellsDesign(
            strategy=grid,
            distribution=distribution,
            guarantee=guarantee,
            contribution=unit,
            workloads=workloads,
            expected_error=distribution.variance * total,
        )

    attempts = (
        partial(attempt, family, combination)
        for family in noise_kinds(guarantee)
        for combination in _combinations(names, workloads, NORMS[family])
    )
    distinct: dict[tuple[NoiseKind, str], CellsDesign] = {}
    for choice in rank_attempts(attempts, cost=lambda choice: choice.expected_error):
        # "auto" on every axis can come to one name on all of them.
        distinct.setdefault((choice.noise_kind, repr(choice.strategy.parameters)), choice)
    choices = tuple(distinct.values())
    n_queries = math.prod(work.queries for work in workloads)
    typical = figures(math.sqrt(choices[0].expected_error / n_queries))
    shape_text = " x ".join(f"{count:,}" for count in shape)
    workload_names = " x ".join(dict.fromkeys(work.name for work in workloads))
    return Plan(
        choices=choices,
        words=(
            f"{loss_of(guarantee)}: an answer is typically off by {typical}",
            f"{shape_text} cells, workload {workload_names}, least total squared error first",
            f"guarantee: {guarantee}",
            f"protected: {unit.describe(steps=False)}",
        ),
        shown=("strategy", "noise", "expected_error"),
    )


def _check_names(names: Strategies) -> None:
    """Refuse what is neither a strategy for a line nor the name of one."""
    for name in names:
        is_known_name = isinstance(name, str) and name in ("auto", *NAMES)
        if not is_known_name and not isinstance(name, LineStrategy):
            raise InvalidInputError(
                f"line is {quote(name)}; it must be 'auto', or one of {', '.join(NAMES)}, or a "
                "strategy, or a tuple with one of these for each axis"
            )


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    is_single = isinstance(shape, (int, np.integer)) or not np.ndim(shape)
    cells: list[Any] = [shape] if is_single else list(cast("Sequence[int]", shape))
    if not cells or not all(is_whole(count) and count >= 1 for count in cells):
        raise InvalidInputError(
            f"the cells have shape {quoted_numbers(shape)}; there must be at least one cell along "
            "each axis"
        )
    return tuple(int(count) for count in cells)


def _by_axis(plural_name: str, value: T | tuple[T, ...], shape: tuple[int, ...]) -> tuple[T, ...]:
    """Return one item for each axis."""
    values = value if isinstance(value, tuple) else (value,) * len(shape)
    if len(values) != len(shape):
        raise InvalidInputError(
            f"{len(values)} {plural_name} are given for {len(shape)} axes: give one for each axis"
        )
    return values


def _combinations(
    names: Strategies, workloads: tuple[Workload, ...], norm: Norm
) -> Iterator[Strategies]:
    """Yield combinations of strategies, one for each axis.

    For "auto" only, each known strategy is yielded, the same one for every axis, then the best of
    each axis alone; otherwise only the latter.
    """
    axes = len(workloads)
    every = all(name == "auto" for name in names)
    if every:
        for name in NAMES:
            if all(serves(name, work, norm, axes) for work in workloads):
                yield (name,) * axes
    if axes > 1 or not every:
        yield names  # "auto" on every axis is the best of each


def _grid(names: Strategies, workloads: tuple[Workload, ...], norm: Norm) -> tuple[Grid, float]:
    """Return the strategy of a grid, and its answers' summed variance for variance 1."""
    axes: list[LineStrategy] = []
    variance = 1.0
    bits = axis_bits(len(workloads))
    for name, queries in zip(names, workloads, strict=True):
        if isinstance(name, str):
            chosen = _best_name(queries, norm, bits, len(names)) if name == "auto" else name
            axes.append(build(chosen, queries, norm, bits))
            variance *= total_variance(chosen, queries, norm, bits)
            continue
        if name.cells != queries.cells:
            raise InvalidInputError(
                f"the strategy {name.name} measures {name.cells} cells, but there are "
                f"{queries.cells}: build it for that number"
            )
        axes.append(name)
        variance *= queries.total(name)
    return Grid(tuple(axes)), variance


def _best_name(queries: Workload, norm: Norm, bits: int, axes: int) -> str:
    """Return the strategy with the least squared sensitivity times summed variance."""
    # On a grid both factors are products over the axes, so each axis is chosen alone.

    def cost(name: str) -> float:
        axis = build(name, queries, norm, bits)
        size = axis.l1_sensitivity() ** 2 if norm == 1 else axis.squared_sensitivity()
        return total_variance(name, queries, norm, bits) * size

    return min((name for name in NAMES if serves(name, queries, norm, axes)), key=cost)

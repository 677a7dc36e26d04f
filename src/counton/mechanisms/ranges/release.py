"""One private release of a line or grid of counts, from which any interval or box is answered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counton.arrays import Integers
from counton.errors import InvalidInput
from counton.mechanisms.ranges.answers import RangesRelease
from counton.mechanisms.ranges.plan import Asked, RangesPlan, Strategies, plan_ranges
from counton.mechanisms.tables import check_room, checked_counts, fraction_bits
from counton.mechanisms.terms import TableTerms
from counton.noise import Key
from counton.privacy import Contribution, Guarantee
from counton.strategies.lines import LineStrategy

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

"""What all releases of tables share: checked counts, the shift of a unit, kinds of noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counton.errors import InvalidInput, SumOverflow
from counton.laws import Family
from counton.privacy import ZCDP, Contribution, Guarantee, PureDP, Shift
from counton.strategies import Norm
from counton.strategies.table import TableStrategy

T = TypeVar("T")

#: Measurements stay below this; the rest of int64 is room for noise.
LARGEST_MEASUREMENT = 2**61
#: Which norm of the columns each kind of noise is calibrated to.
NORMS: dict[Family, Norm] = {"laplace": 1, "gaussian": 2}


def shift_of_cells(strategy: TableStrategy, contribution: Contribution) -> Shift:
    """Worst change of all measurements of a table between neighbours.

    Several cells or units per cell multiply the norms, by the triangle inequality. A replaced unit
    leaves its cells and enters others, so it moves; it may also only leave or enter.

    Raises:
        InvalidInput: a contribution of clipped values; tables hold counts.

    >>> from counton.strategies.lines import Nodes
    >>> shift_of_cells(Nodes(2, (2,), (1, 2)), Contribution.add_remove(cells=2))
    Shift(l1=6, l2_squared=20, entries=None)
    """
    if contribution.resolution is not None:
        raise InvalidInput(
            "the contribution has clipped values; hierarchies and ranges hold counts: use "
            "Contribution.add_remove or Contribution.replace"
        )
    if not contribution.acts_once:
        raise InvalidInput(
            f"the contribution is {contribution}; a table has no steps: state all of a "
            f"unit's cells in cells, or release a stream"
        )
    times = contribution.cells * contribution.per_cell
    one = strategy.shift()
    if contribution.relation == "add_remove":
        entries = None
        if one.entries is not None and contribution.cells == 1:
            entries = tuple((times * magnitude, count) for magnitude, count in one.entries)
        return Shift(times * one.l1, times**2 * one.l2_squared, entries)
    moved = strategy.shift("move")
    return Shift(times * max(one.l1, moved.l1), times**2 * max(one.l2_squared, moved.l2_squared))


def checked_counts(counts: ArrayLike, table: str = "the counts") -> NDArray[np.int64]:
    """Counts as int64.

    Args:
        counts: what the caller gave.
        table: what they are rows of, in messages; rows count from 1.

    Raises:
        InvalidInput: not integers, or below 0, naming the first offender.
        SumOverflow: a count beyond int64.
    """
    try:
        array = np.asarray(counts)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"the counts do not form an array: {error}") from error
    if not array.size:
        return array.astype(np.int64)
    if array.dtype == object:
        array = _whole(array, table)
    if array.dtype.kind not in "iu":
        first = array.ravel()[:1].tolist()[0]
        raise InvalidInput(
            f"counts have type {array.dtype}; the first is {first!r}: they must be integers: "
            f"count or round first"
        )
    if array.min() < 0:
        place = int(np.argmax(array.ravel() < 0))
        raise InvalidInput(
            f"{_where(array, place)} of {table} holds {array.ravel()[place]}, which is negative; a "
            f"count must be at least 0: repair it first"
        )
    if array.max() >= LARGEST_MEASUREMENT:
        place = int(array.argmax())
        raise SumOverflow(
            f"{_where(array, place)} of {table} holds {array.max()}, which is beyond 2^61, where "
            f"sums are not exact: count in larger units"
        )
    return array.astype(np.int64)


def _where(array: NDArray[Any], place: int) -> str:
    """A row, counted from 1; in a grid the cell, by the indices which questions take too."""
    if array.ndim < 2:
        return f"row {place + 1:,}"
    return f"cell {tuple(int(i) for i in np.unravel_index(place, array.shape))}"


def _whole(array: NDArray[Any], table: str) -> NDArray[Any]:
    for place, value in enumerate(array.ravel().tolist()):
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidInput(
                f"{_where(array, place)} of {table} holds {value!r} of type "
                f"{type(value).__name__}; it must be an integer: repair or drop it first"
            )
        if abs(value) >= LARGEST_MEASUREMENT:
            raise SumOverflow(
                f"{_where(array, place)} of {table} holds {value}, which is beyond 2^61, where "
                f"sums are not exact: count in larger units"
            )
    return array.astype(np.int64)


def check_room(counts: NDArray[np.int64], largest_entry: int) -> None:
    """Refuse counts whose measurements could leave int64.

    Raises:
        SumOverflow: naming the sum and the most that fits.
    """
    if counts.size * int(counts.max(initial=0)) * largest_entry < LARGEST_MEASUREMENT:
        return
    # int64 sums of counts below 2^61 can wrap; high and low halves cannot.
    total = (int((counts >> 31).sum()) << 31) + int((counts & (2**31 - 1)).sum())
    if total * largest_entry >= LARGEST_MEASUREMENT:
        raise SumOverflow(
            f"the counts sum to {total}; with this strategy at most "
            f"{(LARGEST_MEASUREMENT - 1) // largest_entry} can be measured exactly: count in "
            f"larger units"
        )


def fraction_bits(std: float) -> int:
    """Bits behind the point of released numbers: steps below 2^-15 of the least ``std``.

    Public, since ``std`` is; larger noise leaves more room for larger counts.

    >>> fraction_bits(0.3), fraction_bits(50.0), fraction_bits(1e9)
    (16, 11, 0)
    """
    if std < 1:  # 0 too: the variance of noise that is next to never there is below any float
        return 16
    return min(max(16 - math.floor(math.log2(std)), 0), 16)


def noise_kinds(guarantee: Guarantee) -> tuple[Family, ...]:
    """Kinds of noise worth trying for a guarantee.

    Up to rho = 2, Laplace noise of scale l1 / sqrt(2 rho) has at least twice the variance of
    Gaussian noise with any strategy, since l1 is never below l2.

    >>> noise_kinds(ZCDP(0.5))
    ('gaussian',)
    """
    if isinstance(guarantee, PureDP):
        return ("laplace",)
    if isinstance(guarantee, ZCDP) and guarantee.rho <= 2:
        return ("gaussian",)
    return ("laplace", "gaussian")


def ranked(attempts: Iterable[Callable[[], T]], cost: Callable[[T], float]) -> list[T]:
    """What the attempts give, least cost first; those that are refused are left out.

    Raises:
        InvalidInput: all are refused; the reason is that of the last.

    >>> ranked([lambda: 3, lambda: 2], cost=float)
    [2, 3]
    """
    found: list[T] = []
    reason = InvalidInput("nothing was tried: give at least one attempt")
    for attempt in attempts:
        try:
            found.append(attempt())
        except InvalidInput as error:
            reason = error
    if not found:
        raise reason
    return sorted(found, key=cost)


def best_of_kinds(
    guarantee: Guarantee, attempt: Callable[[Family], T], cost: Callable[[T], float]
) -> T:
    """The cheapest of what the kinds of noise give that can keep a guarantee.

    Raises:
        InvalidInput: none can; the reason is that of the last.

    >>> best_of_kinds(PureDP(1), lambda kind: kind, cost=len)
    'laplace'
    """
    return ranked((partial(attempt, family) for family in noise_kinds(guarantee)), cost)[0]

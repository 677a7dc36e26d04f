"""What a counter accepts: exact totals of the right shape whose running sums stay exact."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counton.errors import HorizonExceeded, InvalidInput, SumOverflow
from counton.mechanisms.specification import Specification
from counton.mechanisms.waiting import Waiting
from counton.privacy.grid import Numbers, extremes

#: Exact totals: integers, or numbers on the grid of a clipped contribution.
Totals = Numbers


class Progress(NamedTuple):
    """How far a stream has come: exact, hence secret.

    Attributes:
        step: number of the last released step.
        sums: running totals counted so far, grid units, shape ``shape``.
        waiting: totals of the last ``delay`` steps, not counted yet.
    """

    step: int
    sums: NDArray[np.int64]
    waiting: Waiting

    @property
    def taken(self) -> NDArray[np.int64]:
        """Running totals of all that came in, counted or waiting, shape ``shape``."""
        return self.sums + self.waiting.sum

    @classmethod
    def start(cls, spec: Specification) -> Progress:
        """Nothing released yet."""
        waiting = np.zeros((spec.strategy.delay, *spec.shape), np.int64)
        return cls(0, np.zeros(spec.shape, np.int64), Waiting(waiting))


def checked(spec: Specification, done: Progress, xs: Totals, *, one: bool) -> NDArray[np.int64]:
    """Totals of the next steps as grid integers, shape ``(n, *shape)``; ``one``: of a single step.

    Raises:
        InvalidInput: not exact numbers, negative counts, or a wrong shape.
        HorizonExceeded: the strategy serves no more steps.
        SumOverflow: a running total would leave the exact range.
    """
    totals = spec.contribution.grid_total(xs)
    if totals.ndim == 0 or totals.shape[1:] != spec.shape:
        got = totals.shape[1:] if one else totals.shape
        expected = spec.shape if one else ("n", *spec.shape)
        raise InvalidInput(
            f"input has shape {got}; this stream takes {expected}: pass one total for each "
            f"declared cell"
        )
    horizon = spec.strategy.horizon
    if horizon is not None and done.step + len(totals) > horizon:
        raise HorizonExceeded(
            f"step {done.step + len(totals):,} is beyond the horizon of {horizon:,} steps "
            f"({horizon - done.step:,} are left): start a new stream with a larger horizon"
        )
    smallest, largest = extremes(totals)
    _refuse_impossible(spec, done, totals, smallest, largest)
    _refuse_overflow(spec, done, totals, max(-smallest, largest))
    return totals


def _refuse_impossible(
    spec: Specification, done: Progress, totals: NDArray[np.int64], smallest: int, largest: int
) -> None:
    """Raise for totals that no units add up to: negative counts, sums on the wrong side of 0."""
    unit = spec.contribution
    if smallest < 0 and unit.resolution is None:
        remedy = (
            "a negative count: counts are 0 or more; for signed sums declare "
            "Contribution.clipped(lower, upper, resolution)"
        )
    elif smallest < 0 and unit.lower is not None and unit.lower >= 0:
        remedy = f"below 0, and all values lie in [{unit.lower}, {unit.upper}]: clip with to_grid"
    elif largest > 0 and unit.upper is not None and unit.upper <= 0:
        remedy = f"above 0, and all values lie in [{unit.lower}, {unit.upper}]: clip with to_grid"
    else:
        return
    wrong = totals < 0 if smallest < 0 else totals > 0
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    value = unit.from_grid(totals[place]).item()
    raise InvalidInput(f"input {value} at step {done.step + 1 + place[0]} is {remedy}")


def _refuse_overflow(
    spec: Specification, done: Progress, totals: NDArray[np.int64], largest: int
) -> None:
    """Raise if any running sum, also in the middle of the batch, leaves the exact range.

    With a delay this looks ``delay`` steps ahead, at sums that are not released yet.
    """
    if _largest(done.taken) + largest * len(totals) <= spec.largest_sum:
        return
    # cumulative sums in two halves of 32 bits cannot wrap; floats then compare safely
    high = np.cumsum(totals >> 32, axis=0).astype(float) * 2.0**32
    low = np.cumsum(totals & 0xFFFFFFFF, axis=0).astype(float)
    running = np.abs(high + low + done.taken)
    wrong = running > spec.largest_sum * (1 - 1e-9)
    if wrong.any():
        place = int(np.argwhere(wrong)[0][0])
        raise SumOverflow(
            f"running total {running[wrong][0]:.6g} at step {done.step + 1 + place} is beyond "
            f"{spec.largest_sum:,} grid cells, up to which sums are exact: coarsen the "
            f"resolution or split the stream"
        )


def _largest(numbers: NDArray[np.int64]) -> int:
    """Largest absolute value."""
    return int(np.abs(numbers).max()) if numbers.ndim else abs(int(numbers))

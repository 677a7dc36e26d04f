"""Candidates of plans for sums over recent steps: rolling sums, decayed sums, and stacks.

With Gaussian noise, the candidate is a banded root. With Laplace noise, it measures each step alone
and, on one level, sums weighted by hats. Every workload is also computed from released totals and
from single steps, so a plan has at most the error of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.strategies import (
    BandedRoot,
    EndlessBandedRoot,
    EndlessHats,
    LeastSquaresStrategy,
    StreamStrategy,
)
from counton.strategies.joint_errors import LONGEST_DECAYED_HORIZON, recent_variance
from counton.strategies.lines.hats import LARGEST_LINE, Hats
from counton.strategies.strategy import Metric
from counton.strategies.streams.endless_hats import LARGEST_SPACING
from counton.strategies.workloads import PRECISIONS, RecentWorkload, WorkloadPart

#: Up to this many steps, strategies for totals are candidates too.
_LONGEST_COMPARED_HORIZON = 1024
#: Beyond, they are candidates if the horizon is at most this many times the widest sum. Else they
#: had more noise in all cases examined.
_MOST_WIDTHS_PER_HORIZON = 8
#: Most steps of a stream without a last one over which its totals are compared.
_MOST_ENDLESS_STEPS = 2048
#: Levels of hats: the spacing as a part of the width, and the amplitude relative to single steps.
_LEVELS: tuple[tuple[tuple[float, float], ...], ...] = (
    ((1 / 2, 0.8),),
    ((1 / 2.5, 0.8),),
    ((1 / 4.5, 0.97),),
    ((1 / 6.5, 1.0),),
    ((1 / 2, 0.91),),
    ((1 / 4.1, 1.04),),
    ((1 / 30, 0.96), (1 / 2.5, 0.9)),
)
#: Two levels of hats without a last step, for the widths from `_LEAST_WIDTH_OF_TWO_LEVELS` on.
_TWO_LEVELS: tuple[tuple[tuple[float, float], ...], ...] = (
    ((1 / 30, 0.96), (1 / 2.5, 0.9)),
    ((1 / 43, 0.96), (1 / 3.5, 0.9)),
)
_LEAST_WIDTH_OF_TWO_LEVELS = 200
#: Hats for the widths from here on; below, single steps alone have less noise.
_LEAST_WIDTH_OF_HATS = 15
#: Steps over which hats are compared with each other.
_COMPARED_STEPS = 1000
_MOST_COMPARED_STEPS = 4096
#: Fraction bits of hats, and of hats without a last step for wider noise.
_HAT_BITS = 16
_COARSER_HAT_BITS = 10


def reach_of(workload: RecentWorkload) -> int | None:
    """Return the number of recent steps that decide the workload; None: totals are a part."""
    reach = 0
    for part in workload.parts:
        if part.factor < 1:
            reach = max(reach, round(math.log(0.5) / math.log(part.factor)))
        elif part.width is None:
            return None
        else:
            reach = max(reach, part.width)
    return reach


def compares_totals(
    workload: RecentWorkload, horizon: int | None, expected_windows: int | None
) -> bool:
    """Return whether strategies for totals may be the best for a workload."""
    reach = reach_of(workload)
    if horizon is None:
        if reach is None or any(part.factor < 1 for part in workload.parts):
            return False
        return (expected_windows or 0) <= min(_MOST_ENDLESS_STEPS, _MOST_WIDTHS_PER_HORIZON * reach)
    if any(part.factor < 1 for part in workload.parts):
        return reach is not None and horizon <= min(
            LONGEST_DECAYED_HORIZON, _MOST_WIDTHS_PER_HORIZON * reach
        )
    return reach is None or horizon <= max(
        _LONGEST_COMPARED_HORIZON, _MOST_WIDTHS_PER_HORIZON * reach
    )


def banded_roots(
    workload: RecentWorkload, horizon: int | None
) -> tuple[BandedRoot | EndlessBandedRoot, ...]:
    """Return the candidates for Gaussian noise, later ones for many cells and for wide noise.

    Raises:
        InvalidInputError: there are none, because the workload is too wide, or has totals and no
            or a long horizon.
    """
    roots: list[BandedRoot | EndlessBandedRoot] = []
    for precision in range(len(PRECISIONS)):
        for lengths in (None, 4):
            root = workload.root(horizon, precision, lengths=lengths)
            if root not in roots:
                roots.append(root)
    return tuple(roots)


def hats_of(
    workload: RecentWorkload, horizon: int | None, metric: Metric = "mean"
) -> tuple[StreamStrategy, ...]:
    """Return the best candidate for Laplace noise, if any: each step alone, and levels of hats.

    Args:
        workload: the sums over recent steps.
        horizon: number of steps; None: there is no last step.
        metric: "mean" for the least mean variance, "max" for the least largest one.

    Raises:
        InvalidInputError: the horizon is too long; or there is no last step, and totals are a part
            of the workload.
    """
    reach = reach_of(workload)
    if horizon is None:
        return _endless_hats(workload, metric)
    if horizon > LARGEST_LINE:
        raise InvalidInputError(f"hats are planned for at most {LARGEST_LINE:,} steps")
    if reach is None or reach < _LEAST_WIDTH_OF_HATS:
        return ()
    compared = min(horizon, max(_COMPARED_STEPS, 3 * reach), _MOST_COMPARED_STEPS)
    candidates = [*_of_levels(_LEVELS, reach, compared)]

    def error(levels: tuple[tuple[int, int], ...]) -> float:
        return _error(_hats(levels, compared), workload.parts, metric, compared)

    best = min(candidates, key=error, default=None)
    return () if best is None else (_hats(best, horizon),)


def _endless_hats(workload: RecentWorkload, metric: Metric) -> tuple[EndlessHats, ...]:
    """Return the best candidates for Laplace noise without a last step, for wider noise at the end.

    Raises:
        InvalidInputError: totals are a part of the workload.
    """
    reach = reach_of(workload)
    if reach is None:
        raise InvalidInputError("hats without a last step are not planned for totals")
    compared = min(max(_COMPARED_STEPS, 3 * reach), _MOST_COMPARED_STEPS)

    candidates: list[EndlessHats] = [EndlessHats(2, 0, 0)]  # each step alone
    if reach >= _LEAST_WIDTH_OF_HATS:
        candidates += [
            EndlessHats(spacing, height)
            for (spacing, height), *further in _of_levels(_LEVELS, reach, compared)
            if not further and spacing <= LARGEST_SPACING
        ]
    if reach >= _LEAST_WIDTH_OF_TWO_LEVELS:
        candidates += [
            EndlessHats(spacing, height, _HAT_BITS, round(wide / spacing), wide_height)
            for (spacing, height), (wide, wide_height) in _of_levels(_TWO_LEVELS, reach, compared)
            if spacing <= LARGEST_SPACING
        ]
    best = min(candidates, key=lambda hats: _error(hats, workload.parts, metric, compared))
    return (best,) if best.bits < _HAT_BITS else (best, best.coarser(_COARSER_HAT_BITS))


def _of_levels(
    candidates: Sequence[Sequence[tuple[float, float]]], reach: int, horizon: int
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield levels of hats, as pairs of a spacing and an amplitude in units of 2^-16.

    Args:
        candidates: levels as pairs of a part of the reach, and an amplitude relative to steps.
        reach: number of recent steps that decide the workload.
        horizon: number of steps; hats as far apart are left out.
    """
    for levels in candidates:
        total = 1 + sum(amplitude for _, amplitude in levels)
        spaced = [
            (round(reach * part), round(amplitude / total * 2**_HAT_BITS))
            for part, amplitude in levels
        ]
        if all(3 <= spacing < horizon for spacing, _ in spaced):
            yield tuple(spaced)


@lru_cache(maxsize=32)
def _hats(levels: tuple[tuple[int, int], ...], horizon: int) -> LeastSquaresStrategy:
    spacings = tuple(spacing for spacing, _ in levels)
    amplitudes = [[height] * (-(-horizon // spacing) + 1) for spacing, height in levels]
    return LeastSquaresStrategy(Hats(horizon, spacings, amplitudes, bits=_HAT_BITS))


def _error(
    strategy: StreamStrategy, parts: tuple[WorkloadPart, ...], metric: Metric, horizon: int
) -> float:
    """Return a workload's variance by a metric, with noise of the strategy's sensitivity."""
    unit = 1 << strategy.facts.lattice_bits
    distribution = DiscreteLaplace(strategy.l1_sensitivity() * unit)
    return recent_variance(strategy, distribution, parts, metric, horizon)

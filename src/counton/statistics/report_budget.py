"""The division of a report's budget among its statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

from counton.base.distributions import scaled_norms
from counton.base.errors import InvalidInputError
from counton.continual.design import Design, DesignPart
from counton.continual.stream_errors import ErrorsOf
from counton.statistics.accumulator_statistic import AccumulatorStatistic
from counton.statistics.catalogue import statistic_to_dict

#: Largest relative difference between errors with integer weights and with exact shares.
_TOLERANCE = 2.5e-4
#: Largest integer weight of the statistic with the smallest, and largest 1-norm of one unit's
#: change in all cells (`BoundedChange`).
_LARGEST_LEAST_WEIGHT = 2**14
_LARGEST_NORM_OF_CHANGE = 2**40


def part_design(
    design: Design,
    statistic: AccumulatorStatistic,
    weight: int,
    shape: tuple[int, ...],
    starts: Sequence[int] = (0,),
) -> Design:
    """Return the design of one statistic of a report, or of some groups of a stream.

    ``weight`` multiplies the part's cells, ``shape`` is theirs, ``starts`` has each group's first
    cell.
    """
    resolution = statistic.contribution(batched=True).resolution
    grain = (Fraction(1) if resolution is None else resolution) / weight
    return replace(
        design,
        errors_of=ErrorsOf(),
        shape=shape,
        statistic=statistic_to_dict(statistic),
        part=DesignPart(grain, weight, starts, math.prod(statistic.cells)),
    )


def weights_for_noise(report: Any, norm: Literal[1, 2]) -> dict[str, int]:
    """Return the smallest integer weights that divide the budget by the shares of a report.

    All cells are multiplied by their statistic's weight and get noise of one distribution, so a
    larger weight means a smaller error and a larger share of the budget. Every error is within a
    thousandth of the error with exact shares. Privacy depends on the integers alone.

    Args:
        norm: 1 for Laplace noise, whose shares are of epsilon; 2 for Gaussian noise: of rho.

    Raises:
        InvalidInputError: one unit would change all multiplied cells together by more than 2^40.

    >>> from counton.statistics import Count, Report, Sum
    >>> sums = {"visits": Count(), "paid": Sum(0, 60, resolution=1)}
    >>> weights_for_noise(Report(sums, columns={"paid": "paid"}), 1)
    {'visits': 60, 'paid': 1}
    """
    norms = {name: report.norms_of_member(name, report.most) for name in report.measured_ones}
    requested = [float(report.shares.get(name, 1)) for name in norms]
    shares = [share / sum(requested) for share in requested]
    sizes = [float(l1) if norm == 1 else math.sqrt(squared) for l1, squared in norms.values()]
    ideal = [share ** (1 / norm) / size for share, size in zip(shares, sizes, strict=True)]
    largest = 0
    for factor in range(1, _LARGEST_LEAST_WEIGHT):
        weights = [max(1, round(factor * weight / min(ideal))) for weight in ideal]
        pairs = zip(norms.values(), weights, strict=True)
        moved = [scaled_norms(l1, squared, by=weight) for (l1, squared), weight in pairs]
        largest = sum(l1 for l1, _ in moved)
        if largest > _LARGEST_NORM_OF_CHANGE:
            break
        whole = sum(lengths[norm - 1] for lengths in moved)
        if all(
            abs((lengths[norm - 1] / whole / share) ** (1 / norm) - 1) <= _TOLERANCE
            for lengths, share in zip(moved, shares, strict=True)
        ):
            return dict(zip(norms, weights, strict=True))
    raise InvalidInputError(
        f"one unit would change all statistics of the report together by {largest:,}, more than "
        "2^40, the most that noise can hide: give a coarser resolution for one of them"
    )


def budget_shares(report: Any, norm: Literal[1, 2]) -> dict[str, Fraction]:
    """Return the share of the budget of each measured statistic.

    A share is the statistic's part of the largest change by one person: of the 1-norm for Laplace,
    of the squared 2-norm for Gaussian noise. The report must have its weights.
    """
    moved = {
        name: report.weight(name) ** norm * report.norms_of_member(name, report.most)[norm - 1]
        for name in report.measured_ones
    }
    return {name: Fraction(amount, sum(moved.values())) for name, amount in moved.items()}

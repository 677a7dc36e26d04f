"""The division of a report's budget among its statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from counton.base.errors import InvalidInput, field
from counton.base.exact import exact, figures
from counton.numbers.design import Design, DesignPart
from counton.numbers.intervals import ErrorsOf
from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP
from counton.statistics.catalogue import statistic_to_dict
from counton.statistics.readings import Reading
from counton.statistics.report_members import WITHIN
from counton.statistics.tally_statistic import TallyStatistic
from counton.strategies.strategy import last_served_step

if TYPE_CHECKING:
    from counton.planning.splits import Noise, Split

#: Largest number of statistics for which cells of their own are tried.
_MOST_TRIED = 4


def part_design(
    terms: Design,
    statistic: TallyStatistic,
    weight: int,
    shape: tuple[int, ...],
    starts: Sequence[int] = (0,),
) -> Design:
    """Return the design of one statistic of a report, or of some groups of a stream.

    ``weight`` multiplies the part's cells, ``shape`` is theirs, ``starts`` has each group's first
    cell.
    """
    resolution = statistic.contribution(batched=True).resolution
    one = (Fraction(1) if resolution is None else resolution) / weight
    return replace(
        terms,
        errors_of=ErrorsOf(),
        shape=shape,
        statistic=statistic_to_dict(statistic),
        part=DesignPart(one, weight, starts, math.prod(statistic.cells)),
    )


def with_weights(report: Any, guarantee: Guarantee, horizon: int | None) -> Any:
    """Return a report with weights: a larger weight means a smaller error.

    A statistic whose numbers follow from another may get cells of its own if this makes errors
    smaller; all combinations of statistics with a wanted accuracy are tried.
    """
    from counton.planning.splits import last_halfwidth

    noise = last_halfwidth(horizon) if report.within else None
    sources = [*report.measured_ones]
    wanted = [name for name in report.derived_from if name in report.within][:_MOST_TRIED]
    found, best, refused = None, math.inf, None
    for several in range(len(wanted) + 1):
        for apart in combinations(wanted, several):
            tried = report.with_parameters(apart=[*report.apart, *apart])
            try:
                shared = _split(tried, guarantee, horizon, noise)
            except InvalidInput as error:
                refused = refused or error
                continue
            errors = dict(zip(tried.measured_ones, shared.errors or (), strict=False))
            size = sum(math.log(errors[name]) for name in sources if name in errors)
            if found is None or size < best - 1e-3:
                weights = dict(zip(tried.measured_ones, shared.weights, strict=True))
                found, best = tried.with_parameters(weights=weights), size
    if found is None:
        assert refused is not None
        raise refused
    return found


def weights_for_noise(report: Any, norm: Literal[1, 2]) -> dict[str, int] | None:
    """Return the weights that give each statistic its share under one kind of noise.

    An (epsilon, delta) guarantee allows Laplace noise, calibrated to the 1-norm, or Gaussian noise,
    to the 2-norm; which is narrower is known only when the strategy is chosen. None: the weights
    fit already, or were chosen by wanted half-widths.
    """
    if report.within:
        return None
    found = _split(report, PureDP(1) if norm == 1 else ZCDP(1), None, None)
    weights = dict(zip(report.measured_ones, found.weights, strict=True))
    return None if weights == report.weights else weights


def _split(report: Any, guarantee: Guarantee, horizon: int | None, noise: Noise | None) -> Split:
    from counton.planning.splits import Cost, split

    costs = []
    for name in report.measured_ones:
        l1, l2_squared = report.norms_of_member(name, report.most)
        told = [name, *(one for one, source in report.derived_from.items() if source == name)]
        bounds = [
            bound
            for one in told
            if one in report.within
            for bound in _bounds(report, one, guarantee, horizon)
        ]
        within, each, called = min(
            bounds, key=lambda one: one[0] / one[1], default=(None, 1.0, name)
        )
        costs.append(
            Cost(
                l1,
                l2_squared,
                within=within,
                each=each,
                weight=exact(str(report.shares.get(name, 1)), "share"),
                name=called,
            )
        )
    return split(costs, guarantee, noise)


def _bounds(
    report: Any, name: str, guarantee: Guarantee, horizon: int | None
) -> list[tuple[float, float, str]]:
    """Return (bound, error, name) of bounded numbers; errors are for cells of half-width 1."""
    from counton.planning.least_privacy import compare_halfwidths, least_guarantee, loss_of
    from counton.statistics.planned_halfwidths import halfwidths_of, planned_reading
    from counton.statistics.statistic_plan import plan_statistic

    of, within = report.derived_from.get(name, name), report.within[name]
    source, one = report.statistics[of], report.statistics[name]
    named: Mapping[str, float] = within if isinstance(within, Mapping) else {"": within}
    on_rows = [
        each
        for each in named
        if one.known_beforehand is not None and each not in one.known_beforehand
    ]
    if on_rows and report.size is None:
        said = f"{on_rows[0]}={figures(named[on_rows[0]])}".removeprefix("=")
        raise InvalidInput(
            f"{field(WITHIN, said)} of {name!r} depends on the number of rows; give about how many "
            f"rows there will be, if that is public ({field('size', 10000)}), or give a share "
            "instead"
        )

    def read(promised: Guarantee) -> Reading:
        plan = plan_statistic(source, horizon, promised, batched=True)
        terms = part_design(plan.best, source, 1, source.cells)
        last = horizon or last_served_step(terms.strategy) or 1
        reading = planned_reading(source, terms, last, report.size)
        return reading if of == name else report.reading_of(name, reading)

    def error(each: str, promised: Guarantee) -> float:
        if not isinstance(within, Mapping):
            told = read(promised).numbers()
            low, high = (np.ravel(np.asarray(end, float)) for end in told.numbers.interval(0.95))
            half = (high - low) / 2  # the widest; only means, if there are means
            means = np.array([str(one).startswith("mean") for one in told.about.get("name", ())])
            return float(half[means].max() if means.any() else half.max())
        reading = read(promised)
        found, bound = halfwidths_of(reading, 0.95), named[each]
        return bound * compare_halfwidths(found, {each: bound}, reading.step, 0.95).factor

    least, loss = loss_of(guarantee)
    delta = guarantee.delta if isinstance(guarantee, ApproxDP) else None
    bounds = []
    for each, bound in named.items():
        called, at, off = f"{name} {each}".strip(), guarantee, error(each, guarantee)
        if each in on_rows:
            # A quantile's error is no constant times a cell's: quantiles end at edges. So the noise
            # is found at which the error reaches the bound.
            try:
                at = least_guarantee(partial(error, each), bound, least, delta, loss)
            except InvalidInput as refused:
                raise InvalidInput(
                    f"statistic {called!r} of the report: {refused.template}"
                ) from None
            off = bound
        cell = read(at).cells.halfwidth()
        bounds.append((bound, off / cell if cell else 1.0, called))
    return bounds


def budget_shares(report: Any, norm: Literal[1, 2]) -> dict[str, Fraction]:
    """Return the share of the budget of each measured statistic.

    A share is the statistic's part of the largest change by one person: of the 1-norm for Laplace,
    of the squared 2-norm for Gaussian noise. The report must have its weights.
    """
    moved = {
        name: report.weight(name) ** norm * report.norms_of_member(name, report.most)[norm - 1]
        for name in report.measured_ones
    }
    return {name: Fraction(one, sum(moved.values())) for name, one in moved.items()}

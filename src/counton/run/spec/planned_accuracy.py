"""The errors that a planned stream will have, beside those that a job wants at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from counton.base.errors import StreamMismatchError, param
from counton.continual import Design
from counton.continual.design import design_for
from counton.continual.stream_errors import ErrorsOf
from counton.job.common_options import Job
from counton.run.spec.parsing import parse_accuracy, period_that_begins_anew
from counton.run.spec.stream_spec import StreamSpec
from counton.run.spec.terms import Endless, Revised, WantedAccuracy
from counton.statistics.by_group import inner_of
from counton.statistics.catalogue import statistic_to_dict
from counton.statistics.planned_halfwidths import planned_halfwidths, refuse_share_of_rows
from counton.strategies import AsOf, WindowVersions
from counton.windowing.periods import period_starts

if TYPE_CHECKING:
    from counton.planning.least_privacy import ReachedHalfwidths

#: Names of versions of a window, for wanted half-widths: later versions include late rows.
FIRST = "first"
FINAL = "final"
#: Name of the numbers of single windows, beside totals.
EACH_WINDOW = "in each window"
#: Name of the number of values below an edge, whose share of the rows is the rank of a quantile.
BELOW_AN_EDGE = "values below an edge"


def planned_last_step(spec: StreamSpec) -> int | None:
    """Return the last step of a stream; of a revised window, the last version.

    Of a stream without an end it is the expected number of windows; None if none is stated.
    """
    windowing = spec.terms.windowing
    return windowing.expected_windows if isinstance(windowing, Endless) else windowing.horizon


def count_windows(spec: StreamSpec) -> int | None:
    """Return the number of windows over which a public number of rows is spread.

    None if the stream has no last window, and no number of windows is stated.
    """
    if isinstance(spec.terms.windowing, Revised):
        return spec.job.windows
    return planned_last_step(spec)


def planned_design(spec: StreamSpec) -> Design:
    """Return the design (strategy, guarantee, contribution and noise) that a stream will have."""
    statistic = spec.accumulator_statistic
    return design_for(
        spec.strategy,
        spec.terms.loss,
        spec.contribution,
        spec.shape,
        noise_guarantee=spec.cells.noise_guarantee(spec.terms.loss),
        name="planned",
        statistic=None if statistic.additive else statistic_to_dict(statistic),
    )


def reached_halfwidths(spec: StreamSpec, accuracy: WantedAccuracy) -> ReachedHalfwidths:
    """Compare wanted half-widths of intervals with those at the last step of a stream.

    Of revised windows, they are compared with those of the first or the final version.

    Raises:
        InvalidInputError: no number has a wanted name, or its half-width is not known beforehand.
    """
    last = planned_last_step(spec)
    assert last is not None  # a stream that expires wants no accuracy
    bounds = accuracy.margins_of_error
    if isinstance(spec.terms.windowing, Revised) and spec.accumulator_statistic.additive:
        version_halfwidths = halfwidths_at(spec, (1, last), accuracy.confidence_level)[EACH_WINDOW]
        planned = dict(zip((FIRST, FINAL), version_halfwidths, strict=True))
        if accuracy.is_share_of_rows:
            refuse_share_of_rows(spec.accumulator_statistic, planned)
        bounds = {name or FINAL: bound for name, bound in bounds.items()}
    else:
        rows = accuracy.expected_rows
        windows = count_windows(spec)
        is_rank = accuracy.is_share_of_rows and inner_of(spec.accumulator_statistic).in_rank
        halfwidths_by_name = halfwidths_at(
            spec,
            (last,),
            accuracy.confidence_level,
            rows=None if is_rank else rows,
            windows=windows,
            over=accuracy.over,
        )
        planned = {name: halfwidths[-1] for name, halfwidths in halfwidths_by_name.items()}
        if is_rank:
            # A share of the rows is an error of the rank, not of the quantile's value.
            counted = counted_windows(spec, (last,), accuracy.over)[""][-1]
            share = counted / ((windows or last) * (spec.terms.groups.number or 1))
            planned = {BELOW_AN_EDGE: planned[""]}
            bounds = {BELOW_AN_EDGE: bounds[""] * share}
        elif accuracy.is_share_of_rows:
            refuse_share_of_rows(spec.accumulator_statistic, planned)
    from counton.planning.least_privacy import compare_halfwidths

    depends_on_rows = spec.terms.group_statistic.known_beforehand is not None
    return compare_halfwidths(
        planned,
        bounds,
        last,
        accuracy.confidence_level,
        needs_rows=depends_on_rows and accuracy.expected_rows is None,
    )


def refuse_less_accurate(spec: StreamSpec, job: Job, name: str) -> None:
    """Refuse a later job that wants more accurate numbers than its stream has.

    Args:
        job: the job, filled with the options that its stream keeps.
        name: name of the stream.

    Raises:
        StreamMismatchError: it does.
    """
    accuracy = parse_accuracy(job)
    if accuracy is None:
        return
    reached = reached_halfwidths(spec, accuracy)
    if reached.factor > 1:
        raise StreamMismatchError(
            f"{param('margin_of_error', job.margin_of_error)} is less than stream {name!r} "
            f"has ({reached}). "
            f"Leave it out, or give another {param('stream')}"
        )


def counted_windows(
    spec: StreamSpec, steps: Sequence[int], over: int | None = None
) -> Mapping[str, Sequence[int]]:
    """Return how many windows the numbers of some steps count, by the name of the number.

    Args:
        steps: steps counted from 1, ascending; of revised windows, versions.
        over: number of last windows of which a statistic's numbers are shown; None: those that the
            stream releases.

    Returns:
        A number for each step: of counts and sums, under `EACH_WINDOW`, or "" for totals; of
        another statistic, for all its numbers under "". Last windows of several lengths have names
        such as "in the last 7 days".
    """
    series = spec.terms.series
    is_additive = spec.accumulator_statistic.additive
    if isinstance(spec.terms.windowing, Revised):
        return {EACH_WINDOW if is_additive else "": [1 for _ in steps]}
    if is_additive:
        counted: dict[str, list[int]] = {}
        if series == "decayed":
            return {"": list(steps)}
        if series not in ("per-window", "rolling"):
            counted[""] = list(steps)
        if series in ("per-window", "both"):
            counted[EACH_WINDOW] = [1 for _ in steps]
        return counted | _counted_last_windows(spec, steps)
    if series == "rolling":
        return _counted_last_windows(spec, steps)
    if over is not None:
        return {"": [min(over, step) for step in steps]}
    if series == "per-window":
        return {"": [1 for _ in steps]}
    if series == "period-to-date":
        windows = spec.terms.windowing.windows
        period = period_that_begins_anew(
            spec.terms.statistic.of_group, spec.terms.privacy_unit.rule.contribution_period, windows
        )
        starts = period_starts(windows, period, steps[-1])[np.asarray(steps) - 1]
        return {"": (np.asarray(steps) - starts).tolist()}
    return {"": list(steps)}


def _counted_last_windows(spec: StreamSpec, steps: Sequence[int]) -> dict[str, list[int]]:
    """Return how many windows sums of the last windows count, by their names."""
    counted: dict[str, list[int]] = {}
    metadata = spec.metadata()
    for width in metadata.widths:
        is_single = metadata.series == "rolling" and len(metadata.widths) == 1
        name = "" if is_single else f"in the {metadata.last_in_words(width)}"
        counted[name] = [min(width, step) for step in steps]
    return counted


def halfwidths_at(
    spec: StreamSpec,
    steps: Sequence[int],
    level: float,
    *,
    rows: int | None = None,
    windows: int | None = None,
    over: int | None = None,
    ask: Sequence[object] | None = None,
) -> dict[str, tuple[float, ...]]:
    """Return half-widths of released numbers at some steps, by the name of the number.

    Args:
        steps: steps counted from 1, ascending; of revised windows, versions.
        level: confidence level of the intervals.
        rows: number of rows in the first ``windows`` windows, spread evenly over them; None:
            half-widths that depend on it are left out.
        windows: a number of windows; None: up to the last of the steps.
        over: number of last windows of which a statistic's numbers are shown.
        ask: names of the statistic's numbers that are shown, such as the ranks of quantiles.
    """
    counted = counted_windows(spec, steps, over)
    design = planned_design(spec)
    if isinstance(spec.terms.windowing, Revised):
        lags = spec.terms.windowing.n_revisions
        design = _newest_versions(design, lags)
        steps = [lags + 2 - step for step in steps]  # each version belongs to a window of its own
    from counton.strategies.workloads import Decayed

    workload = spec.terms.workload
    decay = workload if isinstance(workload, Decayed) else None
    if decay is not None and spec.accumulator_statistic.additive:
        errors = replace(design, errors_of=ErrorsOf(workload=decay)).errors
        halves = errors.recent_halfwidths(list(steps), level)
        return {name: tuple(half.tolist()) for name, half in halves.items()}
    if spec.accumulator_statistic.additive:
        return _halfwidths_of_sums(design, steps, counted, level)
    halfwidths: dict[str, tuple[float, ...]] = {}
    for times, numbers_of_windows in counted.items():
        for step, number_of_windows in zip(steps, numbers_of_windows, strict=True):
            rows_by_step = None
            if rows is not None:
                rows_by_step = max(rows * step // (windows or steps[-1]), 1)
            step_halfwidths = planned_halfwidths(
                spec.accumulator_statistic,
                design,
                step,
                level,
                rows=rows_by_step,
                over=number_of_windows,
                decay=decay,
                ask=ask,
            )
            for number, halfwidth in step_halfwidths.items():
                name = f"{number} {times}".strip()
                halfwidths[name] = (*halfwidths.get(name, ()), halfwidth)
    return halfwidths


def _halfwidths_of_sums(
    design: Design, steps: Sequence[int], counted: Mapping[str, Sequence[int]], level: float
) -> dict[str, tuple[float, ...]]:
    halfwidths: dict[str, tuple[float, ...]] = {}
    for name, windows in counted.items():
        begins = [step - number for step, number in zip(steps, windows, strict=True)]
        step_halfwidths = design.errors.window_halfwidths(begins, list(steps), level)
        halfwidths[name] = tuple(step_halfwidths.tolist())
    return halfwidths


def _newest_versions(design: Design, lags: int) -> Design:
    """Return a design of the newest version of each window, at a step where all versions occur."""
    strategy = design.strategy
    assert isinstance(strategy, WindowVersions)
    if strategy.horizon <= lags:
        strategy = WindowVersions(lags + 1, strategy.inner, strategy.corrections)
    return replace(design, strategy=AsOf(strategy, lags + 1))

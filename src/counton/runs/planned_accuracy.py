"""The errors that a planned stream will have, beside those that a job wants at most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from counton.base.errors import RequestMismatch
from counton.base.errors import field as option_name
from counton.numbers import Design
from counton.numbers.design import design_for
from counton.numbers.intervals import LEVEL
from counton.options.common_options import Job
from counton.planning.least_privacy import ReachedHalfwidths, compare_halfwidths
from counton.runs.parsing import parse_accuracy
from counton.runs.stream_spec import StreamSpec
from counton.runs.terms import Endless, Revised, WantedAccuracy, Windowing
from counton.statistics.catalogue import statistic_to_dict
from counton.statistics.planned_halfwidths import planned_halfwidths
from counton.strategies import AsOf, WindowVersions

#: Names of versions of a window: later ones include late rows.
_FIRST = "first"
_FINAL = "final"
#: Name of the numbers of single windows, beside totals.
_EACH_WINDOW = "in each window"


def reached_halfwidths(spec: StreamSpec, accuracy: WantedAccuracy) -> ReachedHalfwidths:
    """Compare wanted half-widths of intervals with those of a stream at its last step.

    Raises:
        InvalidInput: no number has a wanted name, or none whose half-width is known beforehand.
    """
    windowing = spec.terms.windowing
    last = _last_step(windowing)
    bounds = accuracy.half_widths
    if isinstance(windowing, Revised) and spec.tally_statistic.additive:
        of_versions = _halfwidths(spec, (1, last))[_EACH_WINDOW]
        planned = dict(zip((_FIRST, _FINAL), of_versions, strict=True))
        bounds = {name or _FINAL: bound for name, bound in bounds.items()}
    else:
        by_name = _halfwidths(spec, (last,), rows=accuracy.expected_rows)
        planned = {name: halfwidths[-1] for name, halfwidths in by_name.items()}
    return compare_halfwidths(planned, bounds, last, LEVEL)


def refuse_less_accurate(spec: StreamSpec, job: Job, name: str) -> None:
    """Refuse a later job that wants more accurate numbers than its stream has.

    Raises:
        RequestMismatch: it does.
    """
    accuracy = parse_accuracy(job)
    if accuracy is None:
        return
    reached = reached_halfwidths(spec, accuracy)
    if reached.factor > 1:
        raise RequestMismatch(
            f"{option_name('within', job.within)} is less than stream {name!r} has ({reached}); "
            f"leave it out, or give another {option_name('name')}"
        )


def _last_step(windowing: Windowing) -> int:
    """Return the last step, or about the last one; of a revised window, the last version."""
    if isinstance(windowing, Endless):
        return windowing.expected
    assert windowing.horizon is not None  # a stream that expires wants no accuracy
    return windowing.horizon


def _halfwidths(
    spec: StreamSpec, steps: Sequence[int], rows: int | None = None
) -> dict[str, tuple[float, ...]]:
    """Return half-widths at some steps, or of some versions of a window, by name of the number."""
    design = _planned_design(spec)
    over = None
    if isinstance(spec.terms.windowing, Revised):
        lags = spec.terms.windowing.lags
        design = _newest_versions(design, lags)
        steps = [lags + 2 - step for step in steps]  # each version belongs to a window of its own
        over = 1
    if spec.tally_statistic.additive:
        return _halfwidths_of_sums(spec, design, steps)
    halfwidths: dict[str, tuple[float, ...]] = {}
    for step in steps:
        until = None if rows is None else max(rows * step // steps[-1], 1)
        of_step = planned_halfwidths(
            spec.tally_statistic, design, step, LEVEL, rows=until, over=over
        )
        for name, halfwidth in of_step.items():
            halfwidths[name] = (*halfwidths.get(name, ()), halfwidth)
    return halfwidths


def _halfwidths_of_sums(
    spec: StreamSpec, design: Design, steps: Sequence[int]
) -> dict[str, tuple[float, ...]]:
    release = spec.terms.series
    starts: dict[str, list[int]] = {}
    if release != "windows":
        starts[""] = [0 for _ in steps]
    if release != "totals":
        starts[_EACH_WINDOW] = [step - 1 for step in steps]
    errors = design.errors
    return {
        name: tuple(errors.window_halfwidths(since, list(steps), LEVEL).tolist())
        for name, since in starts.items()
    }


def _planned_design(spec: StreamSpec) -> Design:
    return design_for(
        spec.strategy,
        spec.terms.loss,
        spec.contribution,
        spec.shape,
        counters=spec.cells.counters(spec.terms.loss),
        name="planned",
        statistic=None
        if spec.tally_statistic.additive
        else statistic_to_dict(spec.tally_statistic),
    )


def _newest_versions(design: Design, lags: int) -> Design:
    """Return a design of the newest version of each window, at a step where all versions occur."""
    strategy: Any = design.strategy
    if strategy.horizon <= lags:
        strategy = WindowVersions(lags + 1, strategy.inner, strategy.corrections)
    return replace(design, strategy=AsOf(strategy, lags + 1))

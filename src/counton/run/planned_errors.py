"""Planned errors of a stream's releases, computed from its definition before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from counton.base.errors import InvalidInput, field
from counton.base.exact import check_integer
from counton.frame.windows import usual_revised_windows
from counton.job.job import Job
from counton.numbers.design import Design, design_for
from counton.numbers.intervals import LEVEL, check_level
from counton.released.periods import period_starts
from counton.run.definition import Definition
from counton.statistics.catalogue import statistic_to_dict
from counton.statistics.planned_halfwidths import planned_halfwidths
from counton.strategies import AsOf, WindowVersions

if TYPE_CHECKING:
    from counton.planning.least_privacy import ReachedHalfwidths

#: Name of the numbers of single windows, beside the totals.
EACH_WINDOW = "in each window"
#: Names of versions of a window, for statements of wanted half-widths. A version is the window's
#: number as one release gives it; later versions include more late rows.
FIRST, FINAL = "first", "final"


def last_step(definition: Definition, around: int | None = None) -> int | None:
    """Return the last step (or version) of a stream; ``around`` for one without an end."""
    if definition.cut.lags:
        return definition.cut.lags + 1
    return (definition.strategy.horizon or around) if definition.cut.goes_on else 1


def count_windows(definition: Definition, job: Job) -> int | None:
    """Return the number of windows that a public number of rows is spread over.

    Args:
        definition: definition of the stream.
        job: the job, which may state how many windows a stream without an end is planned for.

    Returns:
        The number of the last window; None if the stream has no last one and none is stated.
    """
    if not definition.cut.lags:
        return last_step(definition, job.times.around)
    if job.times.steps is not None:
        return job.times.steps
    cut = definition.cut
    usual = usual_revised_windows(cut.start, cut.every, cut.timezone)
    return None if cut.steps == usual else cut.steps


def design_of(definition: Definition) -> Design:
    """Return the design (strategy, guarantee, contribution and noise) that a stream will have."""
    guarantee, statistic = definition.guarantee, definition.statistic
    return design_for(
        definition.strategy,
        guarantee,
        definition.contribution,
        definition.shape,
        counters=definition.cells.counters(guarantee),
        name="planned",
        statistic=None if statistic.additive else statistic_to_dict(statistic),
    )


def reached_halfwidths(definition: Definition, job: Job) -> ReachedHalfwidths:
    """Compare wanted half-widths with those at the last step, or a window's first and final
    version.

    Raises:
        InvalidInput: the stream has no last step, or a wanted half-width cannot be planned.
    """
    from counton.planning.least_privacy import bounds_of, compare_halfwidths

    within, size = job.promise.within, job.promise.size
    level = check_level(job.view.level, usual=LEVEL)
    assert within is not None
    if size is not None:
        check_integer("size", size, 1, 2**60)
    last = last_step(definition, job.times.around)
    if last is None:
        raise InvalidInput(
            f"{field('within', within)} bounds the error at the last step, and this stream has no "
            f"last step: give {field('around')}, or leave {field('within')} out"
        )
    bounds = bounds_of(within, size)
    if definition.cut.lags and definition.statistic.additive:
        versions = halfwidths_at(definition, (1, last), level)[EACH_WINDOW]
        planned = dict(zip((FIRST, FINAL), versions, strict=True))
        bounds = {name or FINAL: bound for name, bound in bounds.items()}
    else:
        windows = count_windows(definition, job)
        if size is not None and windows is None:
            raise InvalidInput(
                f"{field('size', size)} is the number of rows by the last window, and this stream "
                f"has no last window. Give {field('steps')}, or leave {field('size')} out"
            )
        over = job.view.over
        each = halfwidths_at(definition, [last], level, rows=size, windows=windows, over=over)
        planned = {name: halves[-1] for name, halves in each.items()}
    return compare_halfwidths(planned, bounds, last, level)


def _newest_at(terms: Design, lags: int) -> Design:
    """Return a design for planning the errors of windows released again in ``lags`` versions more.

    It has each window's newest version at step ``lags + 1``, where each version occurs.
    """
    strategy = terms.strategy
    assert isinstance(strategy, WindowVersions)
    if strategy.horizon <= lags:
        strategy = WindowVersions(lags + 1, strategy.inner, strategy.corrections)
    return replace(terms, strategy=AsOf(strategy, lags + 1))


def covered_windows(
    definition: Definition, steps: Sequence[int], over: int | None = None
) -> dict[str, list[int]]:
    """Return how many windows the numbers of some steps count, by the name of the number.

    Args:
        definition: definition of the stream.
        steps: steps counted from 1, ascending.
        over: number of last windows that a statistic's numbers are shown of; None: those that the
            stream releases.

    Returns:
        A number for each step: for counts and sums by `EACH_WINDOW` or "", for the total so far;
        for all numbers of another statistic by "".
    """
    if definition.cut.lags:
        own = [1] * len(steps)
        return {EACH_WINDOW if definition.statistic.additive else "": own}
    if definition.statistic.additive:
        windows = {"": [*steps], EACH_WINDOW: [1] * len(steps)}
        if definition.release == "windows":
            del windows[""]
        elif definition.release != "both":
            del windows[EACH_WINDOW]
        return windows
    if over is not None:
        return {"": [min(over, step) for step in steps]}
    if definition.release == "windows":
        return {"": [1] * len(steps)}
    if definition.release == "periods":
        begins = period_starts(definition.cut, definition.anew_every(), steps[-1])
        return {"": [step - int(begins[step - 1]) for step in steps]}
    return {"": [*steps]}


def halfwidths_at(
    definition: Definition,
    steps: Sequence[int],
    level: float,
    *,
    rows: int | None = None,
    windows: int | None = None,
    over: int | None = None,
    ask: Sequence[Any] | None = None,
) -> dict[str, tuple[float, ...]]:
    """Return half-widths of released numbers at some steps, by name.

    Args:
        definition: definition of the stream.
        steps: steps counted from 1, ascending. For windows that are released again when late rows
            come: versions of a window.
        level: probability with which each interval holds.
        rows: number of rows in the first ``windows`` windows, which is spread evenly over them;
            None: half-widths that depend on it are left out.
        windows: a number of windows; None: up to the last of the steps.
        over: number of last windows that a statistic's numbers are shown of.
        ask: names of the statistic's numbers that are shown, such as the ranks of quantiles.
    """
    terms, lags = design_of(definition), definition.cut.lags
    counted = covered_windows(definition, steps, over)
    if lags:  # each version belongs to a window of its own
        terms = _newest_at(terms, lags)
        steps = [lags + 2 - step for step in steps]
    if definition.statistic.additive:
        return {
            name: tuple(
                terms.errors.window_halfwidths(
                    [step - many for step, many in zip(steps, each, strict=True)], [*steps], level
                ).tolist()
            )
            for name, each in counted.items()
        }
    found: dict[str, list[float]] = {}
    for step, many in zip(steps, counted[""], strict=True):
        rows_by_step = None
        if rows is not None:
            rows_by_step = max(rows * step // (windows or steps[-1]), 1)
        at = planned_halfwidths(
            definition.statistic,
            terms,
            step,
            level,
            rows=rows_by_step,
            over=many,
            ask=ask,
        )
        for name, half in at.items():
            found.setdefault(name, []).append(half)
    return {name: tuple(halves) for name, halves in found.items()}

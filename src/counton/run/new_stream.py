"""Definition of a new stream from a job: its strategy is chosen, and its errors are planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from counton.base.distributions import BoundedChange, DiscreteLaplace
from counton.base.errors import InvalidInput, field
from counton.base.exact import check_integer
from counton.base.strategy_names import KINDS, PAPERS
from counton.job import stated_options as statements
from counton.job.job import Job, require_guarantee
from counton.numbers.design import Design, design_for
from counton.numbers.intervals import LEVEL, check_level
from counton.numbers.node_law import law_for
from counton.privacy import ZCDP, ApproxDP, Contribution, ExpiringDP, ExpiringZCDP, Guarantee
from counton.released.description import Description, period_anew
from counton.released.periods import period_starts
from counton.run.definition import KIND, Definition
from counton.run.stream_request import StreamRequest, ask, needs_one_loss, stated_guarantee
from counton.state.unit_names import SpentUnit
from counton.statistics import TallyStatistic
from counton.statistics.by_group import inner_of
from counton.statistics.catalogue import statistic_to_dict
from counton.statistics.discovery import (
    DECLARED,
    ONE_CELL,
    ROOM,
    Cells,
    ComparedCells,
    Discovery,
    counters_of,
    sums_draws,
)
from counton.statistics.planned_halfwidths import planned_halfwidths
from counton.statistics.statistic import shape_of
from counton.strategies import (
    Expiring,
    KAry,
    Metric,
    StreamStrategy,
    WindowVersions,
)
from counton.strategies.streams.window_versions import MOST_CORRECTIONS

if TYPE_CHECKING:
    from counton.planning.least_privacy import ReachedHalfwidths
    from counton.strategies.strategy import ReleaseForm


def define(asked: Job | StreamRequest, units: Sequence[SpentUnit] = ()) -> Definition:
    """Define the new stream of a job or its request: statistic, strategy, guarantee and all else
    that does not depend on its events.

    Args:
        units: protected units that have entries in the ledger (the record of spent privacy loss) of
            its state.

    Raises:
        InvalidInput: a value of the job is out of range.
    """
    request = ask(asked, units) if isinstance(asked, Job) else asked
    job, cut, most, record = request.job, request.cut, request.counting.most, request.record
    statistic, guarantee = request.statistic, request.guarantee
    cells: Cells = DECLARED
    strategy: StreamStrategy
    if job.promise.expire:
        strategy = Expiring(record["growth"], record["delay"])
        if record["release"] != "totals" and strategy.delay:
            raise InvalidInput(
                f"{field('release', record['release'])} does not go with "
                f"{field('delay', strategy.delay)}, because a delayed release counts up to an "
                "earlier window; leave one of them out"
            )
        if not isinstance(guarantee, ExpiringDP | ExpiringZCDP):
            raise needs_one_loss()
        guarantee, contribution = guarantee.bound_to(strategy), request.contribution(statistic)
    else:
        if guarantee is None and job.promise.within is not None:
            request = _enough(request)
            statistic, guarantee = request.statistic, request.guarantee
        elif guarantee is None and not cut.goes_on:
            statistic, guarantee = _as_wanted(statistic, most)
        guarantee = require_guarantee(guarantee)
        discovering = job.groups.unknown == "discover"
        promised = counters_of(guarantee) if discovering else guarantee
        steps = record.get("steps") if job.times.around is None or not cut.goes_on else None
        if cut.lags:
            steps = cut.lags + 1  # of one window, whose noise is that of its versions
        statistic = statistic.for_people(most).settle(promised, steps)
        contribution = request.contribution(statistic, steps)
        recounts = job.lateness.recounts or 0
        if job.lateness.recounts is not None:
            _check_recounts(request, recounts, contribution)
            contribution = contribution if cut.lags else contribution.in_steps(1 + recounts)
        groups = None if request.groups is None else len(request.groups)
        shape = (ROOM,) if discovering else shape_of(statistic, groups)
        strategy = _strategy(request, steps, promised, contribution, shape)
        if cut.lags:
            strategy = WindowVersions(cut.steps, strategy, recounts)
        if isinstance(promised, ApproxDP) and statistic.statistics:
            from counton.statistics.report_budget import weights_for_noise

            report: Any = request.statistic
            law = law_for(strategy, promised, contribution, shape).law
            settled = cast("Any", statistic)
            weights = weights_for_noise(settled, 1 if isinstance(law, DiscreteLaplace) else 2)
            if weights != settled.weights and report.weights is None:  # at most once
                fitting = settled.with_parameters(weights=weights)
                return define(replace(request, statistic=fitting))
        if discovering:
            law = law_for(strategy, promised, contribution, shape).law
            assert isinstance(law, DiscreteLaplace)
            delta = Fraction(guarantee.to_dict()["delta"])
            compared = ONE_CELL
            if statistic.row_total is not None:
                compared = ComparedCells(statistic.places, statistic.row_total)
            cells = Discovery.of(
                strategy, law, cut.steps, contribution, delta, rows=most, compared=compared
            )
    details: dict[str, Any] = {
        "kind": KIND,
        "what": statements.name_of(job.what),
        "record": record,
        "domain": request.groups,
        "once": not cut.goes_on,
        "new_rows": job.rows.append or job.rows.id is not None,
        "parts": {name: [*each] for name, each in request.parts._asdict().items()},
        "discovery": cells.to_dict(),
        "ended": None,
    }
    return Definition.from_details(details, statistic, guarantee, contribution, strategy)


def planned_people(job: Job, steps: int | None) -> tuple[TallyStatistic, Contribution]:
    """Return the statistic of a new stream that protects people, and the bound on one person's
    contribution.

    Parameters of the statistic that depend on the guarantee are not set yet.

    >>> job = Job("count", "visits.csv", "visits.db", user="reader", most=20, per="1mo")
    >>> print(planned_people(job, 365)[1])
    one user's month added or removed, with at most 20 events counted, ...
    """
    needed: dict[str, Any] = {"time": "time", "every": "1d", "start": "2000-01-01", "steps": 1}
    if job.groups.by is not None:
        needed["domain"] = ["any"]
    if stated_guarantee(job, expires=job.promise.expire) is None and job.promise.within is None:
        needed["epsilon"] = 1
    asked = ask(job.having(**{name: one for name, one in needed.items() if not job.states(name)}))
    statistic = inner_of(asked.statistic)
    return statistic.for_people(asked.counting.most), asked.contribution(asked.statistic, steps)


def _check_recounts(request: StreamRequest, recounts: int, contribution: Contribution) -> None:
    """Refuse a number of changes, of an event or of each counted row of a user, that a guarantee
    cannot cover.
    """
    counting = request.counting
    check_integer("recounts", recounts, 1, MOST_CORRECTIONS)
    bounds = counting.distinct, counting.each, counting.most_a_window, contribution.pattern
    other, pattern = None, contribution.pattern
    if contribution.relation == "replace":
        other = f"{field('replace', True)}, where a row is replaced, not added"
    elif contribution.every or not isinstance(pattern, BoundedChange | None):
        other = f"{request.statistic.keyword}, whose rows count by a schedule or a pattern"
    elif counting.users and (any(bounds) or not request.cut.lags):
        other = (
            f"{field('user')}, because it is proven only for counts and sums with "
            f"{field('revise')}, of which {field('most')} alone bounds the rows"
        )
    if other is not None:
        raise InvalidInput(f"{field('recounts', recounts)} does not go with {other}: leave one out")


def _enough(request: StreamRequest) -> StreamRequest:
    """Return the request with the least loss that reaches the job's accuracy at the last step.

    The result depends only on what the job states, not on rows.
    """
    from counton.planning.least_privacy import least_guarantee

    def factor(guarantee: Guarantee) -> float:
        made = define(replace(request, guarantee=guarantee))
        return reached_halfwidths(made, request.job).factor

    promise = request.job.promise
    least = cast("Literal['epsilon', 'rho']", promise.least or "epsilon")
    return replace(request, guarantee=least_guarantee(factor, 1.0, least, promise.delta))


def reached_halfwidths(definition: Definition, job: Job) -> ReachedHalfwidths:
    """Compare wanted half-widths with those at the last step, or a window's first and final
    version.
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
        from counton.run.revised_plan import FINAL, named_versions

        terms = design_of(definition, definition.shape)
        found = {**named_versions(terms, level)}
        bounds = {name or FINAL: bound for name, bound in bounds.items()}
    else:
        found = halfwidths_at(definition, definition.shape, [last], level, rows=size)
    planned = {name: each[-1] for name, each in found.items()}
    return compare_halfwidths(planned, bounds, last, level)


def _as_wanted(statistic: TallyStatistic, most: int) -> tuple[TallyStatistic, Guarantee | None]:
    """Return a table's statistic with its accuracies as budget shares, and the guarantee they cost.

    Other statistics come back unchanged, with None. A user counts in at most ``most`` cells.
    """
    wanting: Any = getattr(statistic, "as_wanted", None)
    if wanting is None:
        return statistic, None
    found = wanting()
    if found is None:
        raise InvalidInput(
            f"the privacy loss is missing; give {field('rho', 0.5)} for example, or state the "
            f"accuracy by {field('target', 'LEVEL=STD,...')}, from which the loss is computed"
        )
    settled, guarantee = found
    return settled, ZCDP(guarantee.rho * most**2)  # norms multiply


def _strategy(
    request: StreamRequest,
    horizon: int | None,
    guarantee: Guarantee,
    contribution: Contribution,
    shape: tuple[int, ...],
) -> StreamStrategy:
    """Return the job's own strategy, the best of its kind, or the planner's choice."""
    job, form = request.job, "totals" if request.cut.lags else request.record["release"]
    release = cast("ReleaseForm", "totals" if form == "periods" else form)
    name = request.record["strategy"]
    if (own := request.own) is not None:
        if own.horizon != horizon:
            ends = own.horizon, horizon
            has, steps = ("no last step" if end is None else f"{end:,} steps" for end in ends)
            raise InvalidInput(
                f"{field('strategy')} is {own!r}, made for {has}, and the stream has {steps}: "
                "build it for that number"
            )
        form_of_own = "windows" if release == "windows" else "totals"
        if own.facts.workload != form_of_own or release == "both":
            raise InvalidInput(
                f"{field('strategy')} is {own!r}, made for {own.facts.workload}, and does not go "
                f"with {field('release', release)}; leave one of them out"
            )
        from counton.planning.planner import ranked_designs

        found, _ = ranked_designs(
            horizon, guarantee, contribution=contribution, shape=shape, strategies=[own]
        )
        return found[0][0].strategy
    for kind in (PAPERS[name],) if name in PAPERS else KINDS.get(name, ()):
        if kind.windows != (release == "windows"):
            of = "single windows" if kind.windows else "totals"
            raise InvalidInput(
                f"{field('strategy', name)} is made for {of}, and does not go with "
                f"{field('release', release)}; leave one of them out"
            )
    if horizon is None and release == "both":
        release = "totals"  # totals are planned; a window is the difference of two
    periods = None
    if form == "periods" and horizon is not None and name == "auto":
        anew = period_anew(inner_of(request.statistic), request.counting.per)
        begins = period_starts(request.cut, anew, horizon)
        places = np.unique(np.linspace(0, horizon - 1, _WEIGHED).astype(np.int64))
        periods = tuple(zip(begins[places].tolist(), (places + 1).tolist(), strict=True))
    summed_draws = job.groups.unknown == "discover"
    return _best(
        name,
        horizon,
        guarantee,
        cast("Metric", job.noise.metric or "mean"),
        contribution,
        shape,
        release=release,
        summed_draws=summed_draws,
        simple=job.noise.simple or summed_draws or not request.cut.goes_on,
        around=job.times.around,
        periods=periods,
    )


#: Most steps at which errors of sums over periods are compared.
_WEIGHED = 512


@lru_cache(maxsize=32)  # streams of a service, and jobs of a file, are planned alike
def _best(
    name: str,
    horizon: int | None,
    guarantee: Guarantee,
    metric: Metric,
    contribution: Contribution,
    shape: tuple[int, ...],
    *,
    release: ReleaseForm,
    summed_draws: bool,
    simple: bool,
    around: int | None,
    periods: tuple[tuple[int, int], ...] | None,
) -> StreamStrategy:
    """Return the strategy of one kind (``name``) with the least error.

    Args:
        summed_draws: consider only strategies whose noise is a sum of draws from one distribution.
        periods: first and last step of each period. With periods, the strategy with the least error
            in the sums of the periods is chosen. Without (None), the strategy with the least error
            in the totals is chosen. For short periods the chosen strategy has independent noise in
            each step.

    Raises:
        InvalidInput: no strategy of the kind can serve the stream.
    """
    from counton.planning.planner import ranked_designs  # a later run needs no planner

    also = []
    if periods is not None and horizon is not None:
        also = [KAry(horizon, horizon + 1, subtraction=False)]
    ranked, _ = ranked_designs(
        horizon,
        guarantee,
        metric,
        contribution=contribution,
        shape=shape,
        strategies=None if name == "auto" else (name,),
        release=release,
        simple=simple,
        compare=summed_draws or name != "auto",
        around=around,
        also=also,
    )
    designs = [design for design, _ in ranked]
    if periods is not None:
        starts, stops = np.asarray(periods).T

        def error(choice: Design) -> float:
            found = choice.errors.window_std(starts, stops) ** 2
            return float(found.max() if metric == "max" else found.mean())

        return min(designs, key=error).strategy
    for choice in designs:
        if not summed_draws or sums_draws(choice.strategy):
            return choice.strategy
    raise InvalidInput(
        f"strategy {name!r} cannot serve {'any number of' if horizon is None else horizon} steps "
        f"under {guarantee}; give {field('strategy', 'auto')}"
    )


#: Name of the numbers of single windows, beside the totals.
EACH_WINDOW = "in each window"


def last_step(definition: Description, around: int | None = None) -> int | None:
    """Return the last step (or version) of a stream; ``around`` for one without an end."""
    if definition.cut.lags:
        return definition.cut.lags + 1
    return (definition.strategy.horizon or around) if definition.cut.goes_on else 1


def design_of(definition: Description, shape: tuple[int, ...]) -> Design:
    """Return the design (strategy, guarantee, contribution and noise) that a stream will have."""
    guarantee, statistic = definition.guarantee, definition.statistic
    return design_for(
        definition.strategy,
        guarantee,
        definition.contribution,
        shape,
        counters=definition.cells.counters(guarantee),
        name="planned",
        statistic=None if statistic.additive else statistic_to_dict(statistic),
    )


def halfwidths_at(
    definition: Description,
    shape: tuple[int, ...],
    steps: Sequence[int],
    level: float,
    *,
    rows: int | None = None,
    over: int | None = None,
    ask: Sequence[Any] | None = None,
) -> dict[str, tuple[float, ...]]:
    """Return half-widths of released numbers at some steps, by name.

    Args:
        definition: definition of the stream.
        shape: shape of the array of cells of one step.
        steps: steps counted from 1, ascending. For windows that are released again when late rows
            come: versions of a window.
        level: probability with which each interval holds.
        rows: number of rows by the last of the steps; None: half-widths that depend on it are left
            out.
        over, ask: selection of the statistic's numbers: over how many windows, and which (such as
            the ranks of quantiles).
    """
    terms, lags = design_of(definition, shape), definition.cut.lags
    if lags:
        from counton.run.revised_plan import halfwidths_of_versions, newest_at
    if lags and definition.statistic.additive:
        return {EACH_WINDOW: halfwidths_of_versions(terms, steps, level)}
    if lags:  # each version belongs to a window of its own
        terms, over = newest_at(terms, lags), 1
        steps = [lags + 2 - version for version in steps]
    if definition.statistic.additive:
        starts = {"": [0 for _ in steps], EACH_WINDOW: [step - 1 for step in steps]}
        if definition.release == "windows":
            del starts[""]
        elif definition.release != "both":
            del starts[EACH_WINDOW]
        return {
            name: tuple(terms.errors.window_halfwidths(since, [*steps], level).tolist())
            for name, since in starts.items()
        }
    found: dict[str, list[float]] = {}
    begins = None
    if over is None and definition.release == "periods":
        begins = period_starts(definition.cut, definition.anew_every(), steps[-1])
    for step in steps:
        several = over if begins is None else step - int(begins[step - 1])
        at = planned_halfwidths(
            definition.statistic,
            terms,
            step,
            level,
            rows=None if rows is None else max(rows * step // steps[-1], 1),
            over=several,
            ask=ask,
        )
        for name, half in at.items():
            found.setdefault(name, []).append(half)
    return {name: tuple(halves) for name, halves in found.items()}

"""The plan of a new stream: its strategy, and so its noise, from what its job asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from counton.base.distributions import BoundedChange, DiscreteLaplace
from counton.base.errors import InvalidInputError, param
from counton.base.series import RELEASE_FORMS
from counton.continual import Design
from counton.continual.node_distribution import distribution_for
from counton.job.common_options import Job
from counton.job.incompatible import refuse_excluded
from counton.planning.least_privacy import least_guarantee
from counton.planning.planner import RankingRequest, ranked_designs
from counton.privacy import ZCDP, ApproxDP, ContributionBound, Guarantee
from counton.run.spec.parsing import (
    normal_form,
    parse_accuracy,
    parse_terms,
    period_that_begins_anew,
    refuse_new_job,
    states_loss,
    word_of_unit,
)
from counton.run.spec.planned_accuracy import reached_halfwidths
from counton.run.spec.statistic_parsing import fit_targets, parse_statistic
from counton.run.spec.stream_spec import StreamSpec, stream_options
from counton.run.spec.terms import (
    DiscoveredGroups,
    DistinctUser,
    Endless,
    ExpiringWindows,
    Revised,
    SingleTable,
    StreamTerms,
    User,
    WantedAccuracy,
)
from counton.state.ledger_rows import SpentUnit, unit_word
from counton.statistics import AccumulatorStatistic, Report
from counton.statistics.discovery import (
    MOST_CELLS,
    ONE_CELL,
    ComparedCells,
    Discovery,
    noise_guarantee_of,
    sums_draws,
)
from counton.statistics.report_budget import weights_for_noise
from counton.statistics.statistic import shape_of
from counton.strategies import KAry, StreamStrategy, WindowVersions
from counton.strategies.participation import NORMS
from counton.strategies.strategy import ReleaseForm
from counton.strategies.streams.window_versions import MOST_CORRECTIONS
from counton.windowing.periods import period_starts

#: Most steps at which errors of sums over periods are compared.
_COMPARED_STEPS = 512


def plan_spec(job: Job, units: Sequence[SpentUnit] = ()) -> StreamSpec:
    """Plan the stream of a job that begins one: nothing is read or written.

    Args:
        job: the job; its files of groups are read.
        units: protected units in the ledger of the job's state; a unit without a name is called
            as there.

    Returns:
        The specification of the stream.

    Raises:
        InvalidInputError: an option is missing or wrong, or no strategy serves the stream.

    >>> from counton.job.statistics.count import CountJob
    >>> spec = plan_spec(CountJob(
    ...     time="at", every="1d", start="2024-03-01", windows=365, epsilon=1,
    ... ))
    >>> spec.strategy.saved_name, spec.contribution.unit
    ('Solved', 'event')
    """
    refuse_new_job(job)
    stated_word = word_of_unit(job)
    normal_job = normal_form(job)
    if normal_job.value_of("series") == "period-to-date":
        # Later runs remember this series, also if it is the default, and refuse what excludes it.
        refuse_excluded(job.with_options(series="period-to-date"))
    default_word = str(normal_job.privacy_unit)
    protects_users = normal_job.has_stated("user") or normal_job.has_stated(
        "upstream_max_contributions"
    )
    kind = "user" if protects_users else "event"
    word = unit_word(units, kind, stated_word, default=default_word)
    normal_job = normal_job.with_options(privacy_unit=word)
    accuracy = parse_accuracy(normal_job)
    if accuracy is not None:
        normal_job = _with_least_loss(normal_job, accuracy)
    if not states_loss(normal_job):
        return _with_loss_of_targets(normal_job).updated_by(normal_job)
    return _plan_in_normal_form(normal_job).updated_by(normal_job)


def _with_loss_of_targets(normal_job: Job) -> StreamSpec:
    """Plan a single table with the loss that its targets cost, if they are standard deviations."""
    table: Any = parse_statistic(normal_job).of_group
    table_and_loss = table.as_wanted()
    if table_and_loss is None:
        raise InvalidInputError(
            f"the privacy loss is missing; give {param('rho', 0.5)} for example, or state "
            f"the accuracy by {param('target', 'LEVEL=STD,...')}, from which the loss is "
            "computed"
        )
    resolved, guarantee = table_and_loss
    most = normal_job.value_of("max_contributions") or 1
    job_with_loss = _with_loss(normal_job, ZCDP(guarantee.rho * most**2))  # norms multiply
    return _with_strategy(stream_options(job_with_loss), parse_terms(job_with_loss), resolved)


def _with_least_loss(normal_job: Job, accuracy: WantedAccuracy) -> Job:
    """Return a job that states the least loss with which its numbers are accurate enough."""
    job_with_targets = fit_targets(normal_job, accuracy.margins_of_error)

    def factor(guarantee: Guarantee) -> float:
        planned = _plan_in_normal_form(_with_loss(job_with_targets, guarantee))
        return reached_halfwidths(planned, accuracy).factor

    least = least_guarantee(factor, accuracy.solve_for, accuracy.delta)
    return _with_loss(job_with_targets, least)


def _with_loss(job: Job, guarantee: Guarantee) -> Job:
    """Return a job, in its normal form, that states a privacy loss in place of an accuracy."""
    parameters = guarantee.to_dict()
    loss = {name: parameters.get(name) for name in ("epsilon", "delta", "rho")}
    return normal_form(job.with_options(margin_of_error=None, **loss))


def _plan_in_normal_form(normal_job: Job) -> StreamSpec:
    """Plan the stream of a job, which is in its normal form."""
    terms = parse_terms(normal_job)
    job_of_stream = stream_options(normal_job)
    statistic = terms.statistic_of_groups()
    if isinstance(terms.groups, DiscoveredGroups):
        return _with_discovery(job_of_stream, terms, statistic)
    spec = _with_strategy(job_of_stream, terms, statistic)
    if isinstance(terms.loss, ApproxDP):
        spec = _with_weights_for_noise(spec, terms, statistic)
    return spec


def _resolved(
    terms: StreamTerms, statistic: AccumulatorStatistic, loss: Guarantee
) -> AccumulatorStatistic:
    """Return the statistic with the parameters that depend on users, guarantee and horizon."""
    unit = terms.privacy_unit
    if isinstance(unit, User | DistinctUser):
        statistic = statistic.for_people(unit.rule.max_contributions)
    return statistic.resolve_parameters(loss, terms.windowing.horizon)


def _with_strategy(
    job_of_stream: Job, terms: StreamTerms, statistic: AccumulatorStatistic
) -> StreamSpec:
    """Plan a stream of declared groups.

    Args:
        job_of_stream: the options that define the stream, and no others (`stream_options`).
        terms: what they mean.
        statistic: the statistic of all groups.
    """
    statistic = _resolved(terms, statistic, terms.loss)
    contribution = _contribution(terms, statistic)
    shape = shape_of(statistic, terms.groups.number)
    strategy = choose_strategy(terms, contribution, shape)
    if isinstance(terms.windowing, ExpiringWindows):  # other strategies are chosen by their noise
        distribution_for(strategy, terms.loss, contribution, shape)  # refused if it is not proven
    return StreamSpec(job_of_stream, statistic, contribution, strategy)


def _contribution(terms: StreamTerms, statistic: AccumulatorStatistic) -> ContributionBound:
    """Return the bound on what a protected unit changes, with the corrections that it covers."""
    contribution = terms.privacy_unit.contribution(statistic)
    corrections = terms.max_corrections
    if not corrections:
        return contribution
    _check_corrections(terms, contribution)
    if isinstance(terms.windowing, Revised):
        return contribution  # the strategy has the corrections
    # Here no row is ever subtracted: a row that changes K times counts at most 1 + K times. In
    # revised windows it is also subtracted, 1 + 2 K in all, and only there a job may correct users'
    # rows (`refuse_unmet_needs`). See "What changes cost" in docs/concepts/late-data.md.
    assert terms.privacy_unit.user_column is None
    return contribution.in_steps(1 + corrections)


def _check_corrections(terms: StreamTerms, contribution: ContributionBound) -> None:
    """Refuse more corrections of a row than a guarantee can cover.

    What they cannot be used with was refused with the options of the job.
    """
    if terms.max_corrections > MOST_CORRECTIONS:
        raise InvalidInputError(
            f"{param('max_corrections', terms.max_corrections)} is above {MOST_CORRECTIONS}; give "
            "at most that"
        )
    pattern = contribution.pattern
    assert isinstance(pattern, BoundedChange | None)
    assert contribution.every is None
    assert contribution.relation != "replace"
    if terms.privacy_unit.user_column is not None:
        rule = terms.privacy_unit.rule
        assert pattern is None
        assert not rule.once_per_window
        assert rule.max_contributions_per_window is None
        assert rule.max_contributions_per_group is None


def _with_weights_for_noise(
    spec: StreamSpec, terms: StreamTerms, statistic: AccumulatorStatistic
) -> StreamSpec:
    """Plan a report again if its noise is of another family than that for which it has resolved."""
    report = spec.accumulator_statistic
    if not isinstance(report, Report) or cast("Report", statistic).weights is not None:
        return spec
    distribution = distribution_for(
        spec.strategy, terms.loss, spec.contribution, spec.shape
    ).distribution
    weights = weights_for_noise(report, NORMS[distribution.family])
    if weights == report.weights:
        return spec
    return _with_strategy(spec.job, terms, report.with_parameters(weights=weights))


def _with_discovery(
    job_of_stream: Job, terms: StreamTerms, statistic: AccumulatorStatistic
) -> StreamSpec:
    """Plan a stream that finds its groups: delta is spent on showing them, epsilon on counting."""
    noise_guarantee = noise_guarantee_of(terms.loss)
    statistic = _resolved(terms, statistic, noise_guarantee)
    contribution = _contribution(terms, statistic)
    strategy = choose_strategy(replace(terms, loss=noise_guarantee), contribution, (MOST_CELLS,))
    distribution = distribution_for(
        strategy, noise_guarantee, contribution, (MOST_CELLS,)
    ).distribution
    assert isinstance(distribution, DiscreteLaplace)
    assert isinstance(terms.loss, ApproxDP)
    compared = ONE_CELL
    if statistic.row_total is not None:
        compared = ComparedCells(statistic.n_accumulators, statistic.row_total)
    cells = Discovery.with_least_thresholds(
        strategy,
        distribution,
        terms.windowing.windows.steps,
        contribution,
        terms.loss.delta,
        rows=terms.privacy_unit.rule.max_contributions,
        compared=compared,
    )
    return StreamSpec(job_of_stream, statistic, contribution, strategy, cells=cells)


# --------------------------------------------------------------------------------------- strategy
def choose_strategy(
    terms: StreamTerms, contribution: ContributionBound, shape: tuple[int, ...]
) -> StreamStrategy:
    """Return the stated strategy, or the one with the least error; that of an expiring stream
    follows from its options.

    Args:
        contribution: the bound on what one protected unit changes.
        shape: shape of the cells of a step.

    Raises:
        InvalidInputError: no strategy of the stated kind serves the stream.
    """
    windowing = terms.windowing
    if isinstance(windowing, ExpiringWindows):
        return windowing.strategy
    if isinstance(windowing, Revised):
        # The versions of a revised window are running totals, whose noise no other window shares.
        inner = _best_strategy(terms, "totals", contribution, shape)
        return WindowVersions(windowing.n_windows, inner, terms.max_corrections)
    if terms.workload is not None:  # such sums are differences of totals
        return _best_strategy(terms, "totals", contribution, shape)
    return _best_strategy(terms, RELEASE_FORMS[terms.series], contribution, shape)


def _best_strategy(
    terms: StreamTerms,
    release: ReleaseForm,
    contribution: ContributionBound,
    shape: tuple[int, ...],
) -> StreamStrategy:
    """Return the user's own strategy, the best one of a stated kind, or the planner's choice."""
    windowing = terms.windowing
    if isinstance(terms.strategy, StreamStrategy):
        return _own_strategy(terms, release, contribution, shape)
    name = terms.strategy
    sums_of_draws = isinstance(terms.groups, DiscoveredGroups)  # thresholds follow from such noise
    if isinstance(windowing, Endless):
        release = "totals"  # the number of a window is the difference of two
    horizon = windowing.horizon
    further_strategies: list[StreamStrategy] = []
    if terms.series == "period-to-date" and horizon is not None and name == "auto":
        # For short periods, noise for each step alone is best.
        further_strategies = [KAry(horizon, horizon + 1, subtraction=False)]
    request = RankingRequest(
        horizon=horizon,
        guarantee=terms.loss,
        contribution=contribution,
        shape=shape,
        metric=terms.metric,
        strategies=None if name == "auto" else (name,),
        release=release,
        simple=terms.is_simple or sums_of_draws or isinstance(windowing, SingleTable),
        compare=name != "auto" or sums_of_draws,
        expected_windows=windowing.expected_windows if isinstance(windowing, Endless) else None,
        also=further_strategies,
        workload=terms.workload,
    )
    ranked, _ = ranked_designs(request)
    if further_strategies:
        return _best_for_periods(terms, ranked)
    if sums_of_draws:
        ranked = [design for design in ranked if sums_draws(design.strategy)]
    assert ranked  # thresholds are proven for each strategy that a job of such groups may name
    return ranked[0].strategy


def _best_for_periods(terms: StreamTerms, ranked: Sequence[Design]) -> StreamStrategy:
    """Return the strategy with the least error in the sums since each period began."""
    windows = terms.windowing.windows
    horizon = windows.steps
    contribution_period = terms.privacy_unit.rule.contribution_period
    period = period_that_begins_anew(terms.statistic.of_group, contribution_period, windows)
    begins = period_starts(windows, period, horizon)
    places = np.unique(np.linspace(0, horizon - 1, _COMPARED_STEPS).astype(np.int64))
    starts = begins[places]
    stops = places + 1

    def error(design: Design) -> float:
        variances = design.errors.window_std(starts, stops) ** 2
        return float(variances.max() if terms.metric == "max" else variances.mean())

    return min(ranked, key=error).strategy


def _own_strategy(
    terms: StreamTerms,
    release: ReleaseForm,
    contribution: ContributionBound,
    shape: tuple[int, ...],
) -> StreamStrategy:
    """Return the user's own strategy, once it was found to fit the stream."""
    strategy = cast("StreamStrategy", terms.strategy)
    horizon = terms.windowing.horizon
    assert strategy.horizon == horizon
    assert strategy.facts.release == release
    request = RankingRequest(
        horizon=horizon,
        guarantee=terms.loss,
        contribution=contribution,
        shape=shape,
        strategies=[strategy],
        release=release,
    )
    ranked, _ = ranked_designs(request)
    return ranked[0].strategy

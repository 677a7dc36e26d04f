"""The plan of a stream: `counton.plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from counton.base.arguments import known_arguments
from counton.base.errors import InvalidInputError, param
from counton.base.series import RELEASE_FORMS
from counton.privacy.guarantees import one_guarantee

if TYPE_CHECKING:
    from counton.base.exact import Number
    from counton.base.series import PlannedSeries
    from counton.planning.least_privacy import Loss, TargetWidth
    from counton.planning.planner import StreamOptions
    from counton.planning.plans import StreamPlan
    from counton.privacy import ContributionBound, Guarantee
    from counton.statistics.statistic import Statistic
    from counton.strategies import Metric, StreamStrategy
    from counton.strategies.workloads import RecentWorkload


@known_arguments
def plan(
    horizon: int | None,
    guarantee: Guarantee | None = None,
    metric: Metric = "mean",
    contribution: ContributionBound | None = None,
    shape: Sequence[int] = (),
    strategies: Iterable[StreamStrategy | str] | None = None,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    of: Statistic | None = None,
    batched: bool = False,
    series: PlannedSeries = "cumulative",
    simple: bool = False,
    compare: bool = True,
    expected_windows: int | None = None,
    also: Iterable[StreamStrategy] = (),
    margin_of_error: TargetWidth | None = None,
    confidence_level: float = 0.95,
    solve_for: Loss = "epsilon",
    expected_rows: int | None = None,
    workload: RecentWorkload | None = None,
) -> StreamPlan:
    """Plan a stream with the least error, or with the least guarantee for an error.

    A plan reads no data and costs no privacy. Strategies are ranked by the exact variance of their
    releases; ``of=`` plans a stream of a statistic. Every kind of strategy takes part with its best
    parameters: once if they are equal for Laplace and for Gaussian noise, else twice.

    **The least guarantee.** ``plan(365, margin_of_error=20)`` finds the least epsilon with which
    the 95% interval of the last release is at most 20 to either side, and ranks strategies for it.

    `counton.plan_expiring` plans a stream whose protection fades, `counton.plan_cells` a table for
    one release.

    Args:
        horizon: number of steps; None for a stream without a last step.
        guarantee: ``PureDP``, ``ApproxDP`` or ``ZCDP``; or in numbers: ``epsilon``, ``epsilon`` and
            ``delta``, or ``rho``.
        metric: rank strategies by the mean variance of all steps, or by the largest.
        contribution: the bound on one unit's change; default: one count, added or removed.
        shape: shape of one step's input, as in `Counter`; by default a single number.
        strategies: the strategies or names of kinds to rank; None: all. "kary-paper" is the kind
            exactly as its paper states it, "published" all kinds that refereed papers describe.
        epsilon, delta, rho: with ``margin_of_error``, ``delta`` alone asks for approximate privacy.
        of: a statistic, which sets contribution and shape. If it adds up rows, ``contribution`` may
            bound the change by all rows of a user.
        batched: with ``of``, True if a step may have any number of events, else each has one.
        series: what is made accurate: "cumulative"; "per-window", each step's own count, by a
            strategy that releases nothing else; or "both" equally, where single steps are
            differences of totals.
        simple: rank only strategies that release integers and keep no numbers in memory.
        compare: rank also kinds that are never best, or never from 64 steps on.
        expected_windows: without a horizon, the number of steps of the errors; default: 65,536.
        also: strategies to rank in addition.
        margin_of_error: instead of a guarantee, the largest half-width at the last step: a number;
            "2%" of ``expected_rows``; or by name, as in ``{"count": 20, "mean": 0.5}``. The plan
            finds the least epsilon or rho of four digits that reaches it.
        confidence_level: probability with which each interval of ``margin_of_error`` holds.
        solve_for: with ``margin_of_error``, minimise "epsilon" or "rho".
        expected_rows: with ``margin_of_error``, the public number of rows by the last step, on
            which percentages and the errors of means and quantiles depend.
        workload: sums over recent steps that are made accurate in place of ``series``:
            ``Rolling(28)``, ``Decayed(7)`` or ``Stack({1: 1, 7: 1, 28: 1})``. They are computed
            from the released numbers.

    Raises:
        InvalidInputError: an argument is out of range, or no strategy can give the guarantee.

    >>> from counton.privacy import ContributionBound
    >>> result = plan(8760, epsilon=1)
    >>> result.best.strategy_family, result.best.noise_kind, result.best.errors.mean_std < 13.8
    ('least-squares', 'laplace', True)
    >>> plan(8760, epsilon=1, simple=True).best.strategy
    KAry(horizon=8760, arity=26, subtraction=True)
    >>> published = plan(64, epsilon=1, strategies=["kary-paper", "smooth-paper"])
    >>> [choice.strategy_family for choice in published]
    ['kary-paper', 'smooth-paper']

    Protect a visitor with rows in up to 30 different hours as a whole:

    >>> visits = ContributionBound.add_remove(steps=30, unit="visitor")
    >>> plan(8760, epsilon=1, delta=1e-6, contribution=visits).best.strategy_family
    'normalised square root'

    An unknown last step costs 6% of the standard deviation with Gaussian noise:

    >>> known, unknown = plan(8760, rho=0.5), plan(None, rho=0.5, expected_windows=8760)
    >>> round(known.best.errors.mean_std, 2), round(unknown.best.errors.mean_std, 2)
    (3.67, 3.89)

    The number of the last 28 days, after each day:

    >>> from counton import Rolling
    >>> rolling = plan(365, rho=0.5, workload=Rolling(28))
    >>> rolling.best.strategy_family, round(rolling.best.errors.mean_std, 2)
    ('banded root', 2.31)

    Find the least rho that gives a total to within 20 after a year of days:

    >>> enough = plan(365, margin_of_error=20, solve_for="rho")
    >>> enough.guarantee, enough.best.errors.halfwidth(365) <= 20
    (ZCDP(rho=0.0...), True)
    """
    _check_what_is_planned(of, contribution, shape, batched=batched, series=series)
    options: StreamOptions = {
        "metric": metric,
        "strategies": [strategies] if isinstance(strategies, str) else strategies,
        "release": RELEASE_FORMS[series],
        "simple": simple,
        "compare": compare,
        "expected_windows": expected_windows,
        "also": also,
    }
    if workload is not None:
        options["workload"] = _checked_workload(workload, series, of)
    request = _StatisticPlanRequest(
        horizon=horizon,
        contribution=contribution,
        shape=shape,
        statistic=of,
        batched=batched,
        options=options,
    )
    if margin_of_error is None:
        _refuse_options_of_accuracy(
            confidence_level=confidence_level, solve_for=solve_for, expected_rows=expected_rows
        )
        # Plans refuse a guarantee that is not stated.
        return request.plan(cast("Guarantee", one_guarantee(guarantee, epsilon, delta, rho)))
    _refuse_guarantee_beside_accuracy(one_guarantee(guarantee, epsilon, None, rho))
    return _plan_accuracy(
        request,
        margin_of_error=margin_of_error,
        confidence_level=confidence_level,
        solve_for=solve_for,
        delta=delta,
        expected_rows=expected_rows,
    )


class _StatisticPlanRequest(NamedTuple):
    """What is planned, besides the guarantee.

    Attributes:
        contribution: the stated bound; None: that of the statistic, or one count.
        statistic, batched: as ``of`` and ``batched`` of `plan`.
    """

    horizon: int | None
    contribution: ContributionBound | None
    shape: Sequence[int]
    statistic: Statistic | None
    batched: bool
    options: StreamOptions

    @property
    def releases_windows(self) -> bool:
        """Whether each step's own number is released, and no total."""
        return self.options["release"] == "windows"

    def plan(self, guarantee: Guarantee) -> StreamPlan:
        """Return the plan under a guarantee."""
        if self.statistic is not None:
            from counton.statistics.statistic_plan import plan_statistic

            return plan_statistic(
                self.statistic,
                self.horizon,
                guarantee,
                batched=self.batched,
                contribution=self.contribution,
                **self.options,
            )
        from counton.planning.planner import plan_stream

        return plan_stream(
            self.horizon,
            guarantee,
            contribution=self.contribution,
            shape=self.shape,
            **self.options,
        )

    def without_comparison(self) -> _StatisticPlanRequest:
        """Return the request without families of strategies that are never the best."""
        options = self.options.copy()
        options["compare"] = False
        return self._replace(options=options)


def _check_what_is_planned(
    of: Statistic | None,
    contribution: ContributionBound | None,
    shape: Sequence[int],
    *,
    batched: bool,
    series: str,
) -> None:
    """Refuse a series that no plan has, and arguments that do not fit the statistic."""
    if of is None and batched:
        raise InvalidInputError(
            "batched is for a statistic, and none is given: give of, such as of=Distinct(), or "
            "leave batched out"
        )
    if series not in RELEASE_FORMS:
        raise InvalidInputError(
            f"{param('series', series)} is not possible; give cumulative, per-window or both"
        )
    if of is not None:
        _check_statistic(of, contribution, shape)


def _refuse_guarantee_beside_accuracy(guarantee: Guarantee | None) -> None:
    """Refuse a guarantee for a plan that finds the least one."""
    if guarantee is not None:
        raise InvalidInputError(
            f"{param('margin_of_error')} finds the privacy loss, but a guarantee is given too: "
            "leave one of them out"
        )


def _check_statistic(
    of: object, contribution: ContributionBound | None, shape: Sequence[int]
) -> None:
    """Refuse what is not a statistic, and arguments that a statistic decides."""
    from counton.base.exact import quote
    from counton.statistics.statistic import Statistic

    if not isinstance(of, Statistic):
        raise InvalidInputError(
            f"of is {quote(of)}, which is not a statistic; give one, such as Distinct()"
        )
    # For a statistic that adds up rows, the number of rows of a user may be stated.
    if contribution is not None and of.ordered:
        raise InvalidInputError("the statistic decides contribution itself: leave contribution out")
    if shape != ():
        raise InvalidInputError("the statistic decides shape itself: leave shape out")


def _refuse_options_of_accuracy(
    *, confidence_level: float, solve_for: Loss, expected_rows: int | None
) -> None:
    """Refuse options that only a plan for a margin of error uses."""
    for name, value, usual in (
        ("confidence_level", confidence_level, 0.95),
        ("solve_for", solve_for, "epsilon"),
        ("expected_rows", expected_rows, None),
    ):
        if value != usual:
            raise InvalidInputError(
                f"{param(name, value)} is only for a plan that starts from an error: give "
                f"{param('margin_of_error')}, or leave {param(name)} out"
            )


def _checked_workload(workload: object, series: str, of: Statistic | None) -> RecentWorkload:
    from counton.strategies.workloads import Decayed, check_workload

    if series != "cumulative":
        raise InvalidInputError(
            f"{param('series', series)} and a workload are given; a workload says what is made "
            "accurate: leave series out"
        )
    if of is not None and isinstance(workload, Decayed) and not _has_decayed_numbers(of):
        raise InvalidInputError(
            "decayed sums are planned for counts, sums and averages, and not for another "
            "statistic: leave of out, or give Rolling"
        )
    return check_workload(workload)


def _has_decayed_numbers(statistic: Statistic) -> bool:
    """Return whether the numbers of a statistic can be computed from decayed sums."""
    from counton.statistics.average import Average
    from counton.statistics.by_group import inner_of

    inner = inner_of(statistic)
    return isinstance(inner, Average) and inner.number is None


class _AccuracyTarget(NamedTuple):
    """The half-widths that a plan must reach.

    Attributes:
        bounds: the largest half-widths, by name.
        level: confidence level of the intervals.
        expected_rows: public number of rows by the last step; None: not stated.
        is_share: whether the bound is a percentage of the rows.
        is_rank: whether it is one of a quantile's rank, which needs no number of rows.
    """

    bounds: Mapping[str, float]
    level: float
    expected_rows: int | None
    is_share: bool
    is_rank: bool

    def plan(self, request: _StatisticPlanRequest, guarantee: Guarantee) -> StreamPlan:
        """Return the plan under a guarantee, with the half-widths that it reaches."""
        from counton.planning.least_privacy import compare_halfwidths
        from counton.statistics.by_group import inner_of

        stream_plan = request.plan(guarantee)
        if stream_plan.own_halfwidths is not None and not self.is_rank:
            halfwidths_of_rows = partial(stream_plan.own_halfwidths, rows=self.expected_rows)
            stream_plan = replace(stream_plan, own_halfwidths=halfwidths_of_rows)
        statistic = request.statistic
        halfwidths = stream_plan.halfwidths(stream_plan.steps, self.level)
        depends_on_rows = statistic is not None and inner_of(statistic).known_beforehand is not None
        reached = compare_halfwidths(
            halfwidths,
            self._bounds_of(request, stream_plan.steps, halfwidths),
            stream_plan.steps,
            self.level,
            needs_rows=depends_on_rows and self.expected_rows is None,
        )
        return replace(stream_plan, words=(*stream_plan.words, str(reached)), reached=reached)

    def _bounds_of(
        self, request: _StatisticPlanRequest, steps: int, halfwidths: Mapping[str, float]
    ) -> Mapping[str, float]:
        """Return the bounds in the unit of the half-widths of a statistic."""
        from counton.statistics.by_group import Grouped
        from counton.statistics.planned_halfwidths import refuse_share_of_rows

        statistic = request.statistic
        if self.is_rank:
            n_groups = len(statistic.groups) if isinstance(statistic, Grouped) else 1
            counted_steps = 1 if request.releases_windows else steps
            return {"": self.bounds[""] * counted_steps / (steps * n_groups)}
        if self.is_share and statistic is not None:
            refuse_share_of_rows(statistic, halfwidths)
        return self.bounds


def _plan_accuracy(
    request: _StatisticPlanRequest,
    *,
    margin_of_error: TargetWidth,
    confidence_level: float,
    solve_for: Loss,
    delta: Number | None,
    expected_rows: int | None,
) -> StreamPlan:
    """Return the plan with the smallest epsilon or rho that keeps half-widths."""
    from counton.base.exact import check_integer
    from counton.continual.intervals import check_confidence_level
    from counton.planning.least_privacy import bounds_of, is_share_of_rows, least_guarantee
    from counton.statistics.by_group import inner_of

    if expected_rows is not None:
        expected_rows = check_integer(param("expected_rows"), expected_rows, 1, 2**60)
    is_share = is_share_of_rows(margin_of_error)
    statistic = request.statistic
    target = _AccuracyTarget(
        level=check_confidence_level(confidence_level),
        bounds=bounds_of(margin_of_error, expected_rows),
        expected_rows=expected_rows,
        is_share=is_share,
        is_rank=is_share and statistic is not None and inner_of(statistic).in_rank,
    )
    if solve_for not in ("epsilon", "rho"):
        raise InvalidInputError(f"{param('solve_for', solve_for)} must be 'epsilon' or 'rho'")

    def factor(guarantee: Guarantee) -> float:
        comparison = target.plan(request.without_comparison(), guarantee).reached
        assert comparison is not None
        return comparison.factor

    return target.plan(request, least_guarantee(factor, solve_for, delta))

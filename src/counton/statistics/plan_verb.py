"""The plan of a stream, of counts or of a statistic: `counton.plan`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from counton.base.errors import InvalidInput, field
from counton.privacy.guarantees import one_guarantee
from counton.statistics.tally_statistic import is_tallied

if TYPE_CHECKING:
    from counton.base.exact import Number
    from counton.planning.least_privacy import Loss, TargetWidth
    from counton.planning.planner import StreamPlan
    from counton.privacy import Contribution, Guarantee
    from counton.statistics.statistic import Statistic
    from counton.strategies import Metric, StreamStrategy
    from counton.strategies.strategy import ReleaseForm


def plan(
    horizon: int | None,
    guarantee: Guarantee | None = None,
    metric: Metric = "mean",
    contribution: Contribution | None = None,
    shape: Sequence[int] = (),
    strategies: Iterable[StreamStrategy | str] | None = None,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    rho: Number | None = None,
    of: Statistic | None = None,
    batched: bool = False,
    release: ReleaseForm = "totals",
    simple: bool = False,
    compare: bool = True,
    around: int | None = None,
    also: Iterable[StreamStrategy] = (),
    within: TargetWidth | None = None,
    level: float = 0.95,
    least: Loss = "epsilon",
    size: int | None = None,
) -> StreamPlan:
    """Plan a stream with the least error, or with the least guarantee for an error.

    A plan looks at no data and costs no privacy. ``plan(365, epsilon=1)`` ranks strategies for a
    stream by the exact variance of their releases, with ``of=`` for a stream of a statistic. Every
    kind takes part with the parameters that suit this horizon, guarantee and contribution best,
    once for each noise family in which its best parameters differ.

    **How little is enough.** ``plan(365, within=20)`` finds the least epsilon with which the 95%
    interval of the last release is at most 20 to either side, and ranks strategies for it.

    `counton.plan_expiring` plans a stream whose protection fades, and `counton.plan_cells` a line
    or a grid of cells that is released once.

    Args:
        horizon: number of steps; None for a stream without a last step, whose protection never
            fades.
        guarantee: ``PureDP``, ``ApproxDP`` or ``ZCDP``; or say ``epsilon``, ``epsilon`` and
            ``delta``, or ``rho``.
        metric: rank by the mean of the variance over all steps, or by its maximum.
        contribution: what one protected unit can change; default: one count, present or absent.
        shape: shape of one step's input.
        strategies: rank these instead. A name stands for a kind, as for a job: "kary", or exactly
            as its paper has it, "kary-paper".
        epsilon, delta, rho: the guarantee in numbers. With ``within`` a delta alone: of approximate
            privacy.
        of: a statistic, such as ``Distinct()``, which gives contribution and shape; the errors are
            those of its numbers. If it adds up rows, ``contribution`` may say what all rows of a
            user change.
        batched: with ``of``, whether steps have any number of events; else one each.
        release: what is to be accurate: "totals" so far; "windows", each step's own count, with a
            strategy that releases nothing else; or "both", as many counts, the differences of
            totals, as totals.
        simple: only strategies that release integers; they hold nothing, and nothing is searched.
        compare: rank also the kinds that have never been found best, or not from 64 steps on.
        around: without a last step, how many steps you have in mind: strategies are ranked by their
            errors up to there, and serve as many as come. Default: 65,536.
        also: rank these besides, such as one of your own.
        within: instead of a guarantee: how large the half-width of an interval may be at the last
            step. A number; "2%" of a public ``size``; for a statistic with several numbers also by
            name, as in ``{"count": 20, "mean": 0.5}``. The plan finds the least epsilon or rho of
            four digits that does it.
        level: with ``within``: probability with which each interval holds.
        least: with ``within``: what is found, "epsilon" or "rho".
        size: with ``within``: how many rows there will be by the last step, where that is public.
            Percentages refer to it, and the errors of means and quantiles depend on it.

    Raises:
        InvalidInput: an argument is out of range, or no strategy can give the guarantee.

    >>> from counton.privacy import Contribution
    >>> result = plan(8760, epsilon=1)
    >>> result.best.kind, result.best.family, result.best.mean_std < 13.8
    ('solved', 'laplace', True)
    >>> plan(8760, epsilon=1, simple=True).best.strategy
    KAry(horizon=8760, arity=26, subtraction=True)

    A strategy of your own beside them, and what papers have, by name:

    >>> from counton.strategies import KAry
    >>> mine = KAry(64, 5)
    >>> mine in [choice.strategy for choice in plan(64, epsilon=1, also=[mine])]
    True
    >>> [one.kind for one in plan(64, epsilon=1, strategies=["kary-paper", "smooth-paper"])]
    ['kary-paper', 'smooth-paper']

    A visitor who comes in up to 30 different hours is protected as a whole:

    >>> visits = Contribution.add_remove(steps=30, unit="visitor")
    >>> plan(8760, epsilon=1, delta=1e-6, contribution=visits).best.kind
    'normalised square root'

    Not to know the last step costs 6% of the standard deviation with Gaussian noise:

    >>> known, unknown = plan(8760, rho=0.5), plan(None, rho=0.5, around=8760)
    >>> round(known.best.mean_std, 2), round(unknown.best.mean_std, 2)
    (3.67, 3.89)

    The least rho with which a total is known to 20 after a year of days, and what it will be:

    >>> enough = plan(365, within=20, least="rho")
    >>> enough.guarantee, enough.best.halfwidth(365) <= 20
    (ZCDP(rho=0.0...), True)

    A statistic:

    >>> from counton.statistics import Distinct
    >>> plan(365, epsilon=1, of=Distinct(changes=4), batched=True).best.kind
    'look-ahead tree'
    """
    if of is None and batched:
        raise InvalidInput("batched is said of a statistic: give it, or leave batched out")
    asked: dict[str, Any] = {
        "metric": metric,
        "strategies": strategies,
        "release": release,
        "simple": simple,
        "compare": compare,
        "around": around,
        "also": also,
    }
    if of is None:
        asked |= {"contribution": contribution, "shape": shape}
    else:
        own = None if contribution is None else {"contribution": contribution}
        asked |= {"of": of, "batched": batched} | _of_own(of, own or {}, shape)
    if within is None:
        for name, value, usual in (
            ("level", level, 0.95), ("least", least, "epsilon"), ("size", size, None),
        ):  # fmt: skip
            if value != usual:
                raise InvalidInput(
                    f"{field(name, value)} is of a plan for a half-width: give "
                    f"{field('within')}, or leave it out"
                )
        return _plan(horizon, one_guarantee(guarantee, epsilon, delta, rho), **asked)
    if one_guarantee(guarantee, epsilon, None, rho) is not None:
        raise InvalidInput(
            f"{field('within')} finds the guarantee, and one is given: leave one of them out"
        )
    return _within(horizon, asked, within, level, least, delta, size)


def _of_own(
    of: Statistic, contribution: dict[str, Contribution], shape: Sequence[int]
) -> dict[str, Any]:
    """What is said of the change that a unit makes, where the statistic does not say it itself."""
    from counton.base.exact import quote
    from counton.statistics.statistic import Statistic

    if not isinstance(of, Statistic):
        raise InvalidInput(f"of is {quote(of)}; give a statistic, such as Distinct()")
    # Of rows that add up as many as count of each may be said.
    for name in [*(() if is_tallied(of) else contribution), *(["shape"] if shape != () else ())]:
        raise InvalidInput(f"a statistic says {name} by itself: leave {name} out")
    return contribution


def _plan(horizon: int | None, guarantee: Any, **asked: Any) -> StreamPlan:
    if "of" in asked:
        from counton.statistics.statistic_plan import plan_statistic

        return plan_statistic(asked.pop("of"), horizon, guarantee, **asked)
    from counton.planning.planner import plan_stream

    return plan_stream(horizon, guarantee, **asked)


def _within(
    horizon: int | None,
    asked: dict[str, Any],
    within: TargetWidth,
    level: float,
    least: Loss,
    delta: Number | None,
    size: int | None,
) -> StreamPlan:
    """The plan for the least guarantee."""
    from counton.base.exact import check_integer
    from counton.numbers.intervals import check_level
    from counton.planning.least_privacy import bounds_of, compare_halfwidths, least_guarantee

    size = None if size is None else check_integer("size", size, 1, 2**60)
    level, bounds = check_level(level), bounds_of(within, size)
    if least not in ("epsilon", "rho"):
        raise InvalidInput(f"{field('least', least)} must be 'epsilon' or 'rho'")

    def plan_with(guarantee: Guarantee, **faster: bool) -> StreamPlan:
        found = _plan(horizon, guarantee, **{**asked, **faster})
        if found.own_halfwidths is not None:
            found = replace(found, own_halfwidths=partial(found.own_halfwidths, rows=size))
        halfwidths = found.halfwidths(found.steps, level)
        reached = compare_halfwidths(halfwidths, bounds, found.steps, level)
        return replace(found, words=(*found.words, str(reached)), reached=reached)

    def factor(guarantee: Guarantee) -> float:
        found = plan_with(guarantee, compare=False).reached  # kinds that are never best cost time
        assert found is not None
        return found.factor

    return plan_with(least_guarantee(factor, 1.0, least, delta))

"""One verb for every plan: what is asked about says which plan it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, TypedDict, overload

from counton.base.errors import InvalidInput, field
from counton.statistics.tally_statistic import is_tallied

if TYPE_CHECKING:
    from types import EllipsisType

    from typing_extensions import Unpack

    from counton.base.exact import Number
    from counton.planning.expiration_plans import FadingPlan
    from counton.planning.least_privacy import Loss, TargetWidth
    from counton.planning.planner import Plan, RankingOptions, StreamOptions, StreamPlan
    from counton.planning.ranges_plan import Asked, CellsDesign, Strategies
    from counton.privacy import Contribution, Guarantee
    from counton.statistics.statistic import Statistic
    from counton.strategies import Metric, StreamStrategy
    from counton.strategies.lines import LineStrategy
    from counton.strategies.strategy import ReleaseForm

    class _OfStream(RankingOptions, total=False):
        """What is said by name of a plan for a stream."""

        of: Statistic | None
        batched: bool

    class _OfAnyStream(_OfStream, StreamOptions, total=False):
        """With what else may be said by its place, behind a guarantee."""

        contribution: Contribution | None
        shape: Sequence[int]

    class _OfExpiration(TypedDict, total=False):
        """What is said of a plan for protection that fades."""

        rmse: Number | None
        largest_error: Number | None
        steps: int | None
        per_step: Number
        delays: Iterable[int] | None
        largest_growth: Number
        concentrated: bool


#: Arguments by the plan that they are for. A guarantee and a contribution are for two of them.
_STREAM = (
    "horizon", "guarantee", "metric", "contribution", "shape", "strategies", "of", "batched",
    "release", "simple", "compare", "around", "also", "within", "level", "least", "delta", "size",
)  # fmt: skip
_EXPIRATION = (
    "expire", "age", "rmse", "largest_error", "steps", "per_step", "delays", "largest_growth",
    "concentrated",
)  # fmt: skip
_CELLS = ("cells", "guarantee", "contribution", "line", "workload")


@overload
def plan(
    horizon: int | None,
    guarantee: Guarantee,
    metric: Metric = "mean",
    contribution: Contribution | None = None,
    shape: Sequence[int] = (),
    strategies: Iterable[StreamStrategy] | None = None,
    **options: Unpack[_OfStream],
) -> StreamPlan: ...


@overload
def plan(
    horizon: int | None,
    *,
    within: TargetWidth,
    level: float = 0.95,
    least: Loss = "epsilon",
    delta: Number | None = None,
    size: int | None = None,
    **options: Unpack[_OfAnyStream],
) -> StreamPlan: ...


@overload
def plan(*, expire: Mapping[int, Number], **options: Unpack[_OfExpiration]) -> FadingPlan: ...


@overload
def plan(*, age: int, **options: Unpack[_OfExpiration]) -> FadingPlan: ...


@overload
def plan(
    *,
    cells: int | Sequence[int],
    guarantee: Guarantee,
    contribution: Contribution | None = None,
    line: str | LineStrategy | Strategies = "auto",
    workload: Asked | tuple[Asked, ...] = "ranges",
) -> Plan[CellsDesign]: ...


def plan(
    horizon: int | EllipsisType | None = ...,
    guarantee: Guarantee | None = None,
    metric: Metric = "mean",
    contribution: Contribution | None = None,
    shape: Sequence[int] = (),
    strategies: Iterable[StreamStrategy] | None = None,
    *,
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
    delta: Number | None = None,
    size: int | None = None,
    expire: Mapping[int, Number] | None = None,
    age: int | None = None,
    rmse: Number | None = None,
    largest_error: Number | None = None,
    steps: int | None = None,
    per_step: Number = 1,
    delays: Iterable[int] | None = None,
    largest_growth: Number = 2,
    concentrated: bool = False,
    cells: int | Sequence[int] | None = None,
    line: str | LineStrategy | Strategies = "auto",
    workload: Asked | tuple[Asked, ...] = "ranges",
) -> StreamPlan | FadingPlan | Plan[CellsDesign]:
    """Plan the release with the least error, or the least guarantee for an error.

    A plan looks at no data and costs no privacy. It answers three questions:
    ``plan(365, PureDP(1))`` ranks strategies for a stream, with ``of=`` for a stream of a
    statistic; ``plan(expire={24: 1, 8760: 3})`` finds the endless stream of least error whose
    losses by age stay within targets; ``plan(cells=64, guarantee=PureDP(1))`` ranks strategies for
    a line or a grid of cells that is released once.

    **A stream.** The plan ranks strategies by the exact variance of their releases. Every kind
    takes part with the parameters that suit this horizon, guarantee and contribution best, once for
    each noise family in which its best parameters differ.

    **How little is enough.** ``plan(365, within=20)`` finds the least epsilon with which the 95%
    interval of the last release is at most 20 to either side, and ranks strategies for it.

    **Protection that fades.** With ``expire`` the plan minimises the error. With a wanted error,
    ``plan(age=8760, rmse=30)``, it minimises the loss at that age.

    **Cells.** The plan ranks strategies with Laplace and Gaussian noise by their exact expected
    squared error over all queries of a workload.

    Args:
        horizon: number of steps; None for a stream without a last step, whose protection never
            fades.
        guarantee: ``PureDP``, ``ApproxDP`` or ``ZCDP``. Where protection fades, the plan finds it.
        metric: rank by the mean of the variance over all steps, or by its maximum.
        contribution: what one protected unit can change; default: one count, present or absent.
        shape: shape of one step's input.
        strategies: rank these instead.
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
        delta: with ``within``: of approximate privacy.
        size: with ``within``: how many rows there will be by the last step, where that is public.
            Percentages refer to it, and the errors of means and quantiles depend on it.
        expire: largest loss by age in steps. Beyond the largest age there is no target, and the
            loss grows on like log(age)^growth: state a target for the oldest age that matters.
        age: instead of ``expire``: the age at which the loss is minimised.
        rmse: wanted root of the mean squared error, from noise and delay.
        largest_error: wanted bound on all errors up to ``steps``, with probability 2/3. With
            targets the plan minimises this bound, and no longer the rmse. If both are wanted, it
            minimises the larger of their parts of what is wanted.
        steps: releases over which errors are taken; default: the largest age, at least 1,000.
        per_step: items a step is expected to have. A delay of B steps leaves B * per_step out.
        delays: delays to choose from; default: all that can pay off.
        largest_growth: growths to choose from are 0 to this, in hundredths. With more growth the
            error is smaller if only the first few releases of an item are limited, and what it
            loses later is close to its age.
        concentrated: all losses are rho of zero-concentrated privacy, and the noise is Gaussian.
        cells: number of cells, or of cells along each axis of a grid.
        line: how cells are measured: "auto" tries all; a name, a strategy, or a tuple with one of
            them an axis.
        workload: "ranges", "prefixes", "nodes", "subsets", or a matrix with one row a query; a
            tuple with one entry an axis for grids, else the same on every axis. The queries of a
            grid are all products of the axes' queries (boxes, for "ranges").

    Raises:
        InvalidInput: an argument is out of range, or is for another of the three questions; no
            strategy can give the guarantee; no choice can keep targets together with the wanted
            error (the message says so where no mechanism at all can).

    >>> from counton.privacy import ApproxDP, Contribution, PureDP, ZCDP
    >>> result = plan(8760, PureDP(1))
    >>> result.best.kind, result.best.family, result.best.mean_std < 13.8
    ('solved', 'laplace', True)
    >>> plan(8760, PureDP(1), simple=True).best.strategy
    KAry(horizon=8760, arity=26, subtraction=True)

    A strategy of your own beside them:

    >>> from counton.strategies import KAry
    >>> mine = KAry(64, 5)
    >>> mine in [choice.strategy for choice in plan(64, PureDP(1), also=[mine])]
    True

    A visitor who comes in up to 30 different hours is protected as a whole:

    >>> visits = Contribution.add_remove(steps=30, unit="visitor")
    >>> plan(8760, ApproxDP(1, 1e-6), contribution=visits).best.kind
    'normalised square root'

    Not to know the last step costs 6% of the standard deviation with Gaussian noise:

    >>> known, unknown = plan(8760, ZCDP(0.5)), plan(None, ZCDP(0.5), around=8760)
    >>> round(known.best.mean_std, 2), round(unknown.best.mean_std, 2)
    (3.67, 3.89)

    The least rho with which a total is known to 20 after a year of days, and what it will be:

    >>> enough = plan(365, within=20, least="rho")
    >>> enough.guarantee, enough.best.halfwidth(365) <= 20
    (ZCDP(rho=0.0...), True)

    A statistic, hourly steps whose protection fades, and cells that are released once:

    >>> from counton.statistics import Distinct
    >>> plan(365, PureDP(1), of=Distinct(changes=4), batched=True).best.kind
    'look-ahead tree'
    >>> best = plan(age=8760, rmse=30).best
    >>> best.strategy.growth, best.rmse <= 30, best.loss([8760]).round(2).tolist()
    (Fraction(93, 100), True, [2.29])
    >>> plan(cells=64, guarantee=PureDP(1), workload="prefixes").best.family
    'laplace'
    """
    given = _non_defaults(locals())
    form = _form(given)
    own = {name: value for name, value in given.items() if name in form}
    if form is _EXPIRATION:
        from counton.planning.expiration_plans import plan_expiration

        return plan_expiration(own.pop("expire", None), **own)
    if form is _CELLS:
        from counton.planning.ranges_plan import plan_cells

        return plan_cells(own.pop("cells", None), **{"guarantee": None, **own})
    if horizon is ...:
        raise InvalidInput(
            "nothing to plan for: give a horizon, None for a stream without a last step; or expire "
            "or age, for one whose protection fades; or cells, which are released once"
        )
    if of is None and batched:
        raise InvalidInput("batched is said of a statistic: give it, or leave batched out")
    if within is not None:
        return _within(own)
    for name in ("level", "least", "delta", "size"):
        if name in own:
            raise InvalidInput(
                f"{field(name, own[name])} is of a plan for a half-width: give "
                f"{field('within')}, or leave it out"
            )
    return _of_stream({"guarantee": None, **own})


def _of_stream(own: dict[str, Any]) -> StreamPlan:
    if own.get("of") is not None:
        return _of_statistic(**own)
    from counton.planning.planner import plan_stream

    return plan_stream(own.pop("horizon"), own.pop("guarantee"), **own)


def _within(own: dict[str, Any]) -> StreamPlan:
    from counton.base.exact import check_integer
    from counton.numbers.intervals import check_level
    from counton.planning.least_privacy import bounds_of, compare_halfwidths, least_guarantee

    if "guarantee" in own:
        raise InvalidInput(
            f"{field('within')} finds the guarantee, and one is given: leave one of them out"
        )
    size = own.pop("size", None)
    size = None if size is None else check_integer("size", size, 1, 2**60)
    level, bounds = check_level(own.pop("level", 0.95)), bounds_of(own.pop("within"), size)
    least, delta = own.pop("least", "epsilon"), own.pop("delta", None)
    if least not in ("epsilon", "rho"):
        raise InvalidInput(f"{field('least', least)} must be 'epsilon' or 'rho'")

    def plan_with(guarantee: Guarantee, **faster: bool) -> StreamPlan:
        found = _of_stream({**own, **faster, "guarantee": guarantee})
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


def _non_defaults(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that are not what they are by default."""

    def left_out(value: Any, default: Any) -> bool:
        plain = type(value) is type(default) and isinstance(value, str | int | tuple)
        return value is default or (plain and value == default)

    defaults = {name: one.default for name, one in signature(plan).parameters.items()}
    return {name: value for name, value in arguments.items() if not left_out(value, defaults[name])}


def _form(given: Mapping[str, Any]) -> tuple[str, ...]:
    forms = (_EXPIRATION, _CELLS, _STREAM)
    form = next(form for form in forms if form is _STREAM or _only(form, given))
    foreign = [name for name in given if name not in form]
    if foreign:
        words = {
            _EXPIRATION: "a stream without an end, whose protection fades",
            _CELLS: "cells that are released once",
        }
        raise InvalidInput(
            f"{_only(form, given)[0]} is of a plan for {words[form]}, which takes no "
            f"{' and no '.join(foreign)}: leave one or the other out (a stream that ends has a "
            f"horizon)"
        )
    return form


def _only(form: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """Arguments given that no plan of a stream has."""
    return [name for name in given if name in form and name not in _STREAM]


def _of_statistic(of: Statistic, horizon: Any, guarantee: Any, **options: Any) -> StreamPlan:
    from counton.base.exact import quote
    from counton.statistics.statistic import Statistic
    from counton.statistics.statistic_plan import plan_statistic

    if not isinstance(of, Statistic):
        raise InvalidInput(f"of is {quote(of)}; give a statistic, such as Distinct()")
    people = is_tallied(of)  # whose rows add up, as many as count of each
    for name in ("shape",) if people else ("contribution", "shape"):
        if name in options:
            raise InvalidInput(f"a statistic says {name} by itself: leave {name} out")
    asked = {"compare": True, **options}
    return plan_statistic(of, horizon, guarantee, **asked)

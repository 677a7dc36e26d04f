"""Facts about a statistic before any data: its sensitivity, its plan, and its half-widths."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Unpack

from counton.base.distributions import Sensitivity
from counton.base.exact import float_above, root_above
from counton.continual.sensitivity import sensitivity_of
from counton.continual.stream_errors import ErrorsOf
from counton.privacy import ZCDP, ContributionBound, Guarantee, PureDP
from counton.statistics.planned_halfwidths import planned_halfwidths
from counton.statistics.resolved import refuse_wrong_contribution
from counton.statistics.statistic import Statistic
from counton.strategies import StreamStrategy
from counton.strategies.participation import Norm, check_norm

if TYPE_CHECKING:
    from counton.planning.planner import StreamOptions
    from counton.planning.plans import StreamPlan
    from counton.strategies.workloads import Decayed

#: The cost of computing cells on request, in words.
_WHEN_ASKED = (
    "a cell is computed when it is asked for: with trees from few draws of noise, with square "
    "roots from as many as there were steps"
)


def unit_sensitivities(
    statistic: Statistic, strategy: StreamStrategy, *, batched: bool = False
) -> Sensitivity:
    """Bound one unit's change of all nodes by its 1-norm and squared 2-norm.

    Both are in multiples of the unit in which the integer noise is drawn.

    Args:
        statistic: the statistic, with resolved parameters.
        strategy: the correlation of the noise over time.
        batched: True if a step may have any number of events.

    >>> from counton.statistics import Distinct
    >>> from counton.strategies import Binary
    >>> unit_sensitivities(Distinct(changes=2), Binary(7)).l1
    5
    """
    return sensitivity_of(strategy, statistic.contribution(batched=batched), statistic.cells)


def unit_sensitivity(
    statistic: Statistic, strategy: StreamStrategy, p: Norm, *, batched: bool = False
) -> float:
    """Return the sensitivity of a statistic under a strategy: exact, or a proven upper bound.

    It is the largest p-norm of C d, where C is the strategy's matrix and d the difference of the
    cells of two neighbouring datasets. Parameters that depend on the guarantee are chosen for noise
    of this norm.

    Args:
        statistic: the statistic. Parameters that depend on the guarantee need not be chosen.
        strategy: the correlation of the noise over time.
        p: 1 for Laplace noise, 2 for Gaussian noise.
        batched: True if a step may have any number of events.

    Raises:
        InvalidInputError: ``p`` is neither 1 nor 2, or the strategy is unbounded.

    >>> from counton.statistics import Average
    >>> from counton.strategies import Binary
    >>> unit_sensitivity(Average(0, 9, resolution=1), Binary(7), 1)
    27.0
    """
    norm = check_norm(p)
    promise = PureDP(1) if norm == 1 else ZCDP(Fraction(1, 2))
    resolved = statistic.resolve_parameters(promise, strategy.horizon)
    moved = unit_sensitivities(resolved, strategy, batched=batched)
    scale = 1 << strategy.facts.lattice_bits
    if norm == 1:
        return float_above(Fraction(moved.l1, scale))
    return root_above(Fraction(moved.l2_squared, scale**2))


def plan_statistic(
    statistic: Statistic,
    horizon: int | None,
    guarantee: Guarantee,
    *,
    batched: bool = False,
    contribution: ContributionBound | None = None,
    **options: Unpack[StreamOptions],
) -> StreamPlan:
    """Rank strategies by the error of a statistic: ``counton.plan(..., of=statistic)``.

    ``options`` are those of `counton.plan`; kinds of strategies that are never best are left out by
    default. ``contribution`` may bound a user with several events.

    Raises:
        InvalidInputError: ``contribution`` is not one of the sums that the statistic measures.
    """
    from counton.planning.planner import plan_stream

    resolved = statistic.resolve_parameters(guarantee, horizon)
    if contribution is not None:
        refuse_wrong_contribution(statistic, resolved, contribution)
    options = {"compare": False, **options}
    if horizon == 1:  # one total: one draw of integers is best
        options["simple"] = True
    plan = plan_stream(
        horizon,
        guarantee,
        contribution=contribution or resolved.contribution(batched=batched),
        shape=() if resolved.on_demand else resolved.cells,
        **options,
    )
    steps = "steps have any number of events" if batched else "each row is a step"
    if resolved.on_demand:
        steps += f"; {_WHEN_ASKED}"
    scale_of_errors = resolved.error_of
    words = f"errors are of {scale_of_errors.meaning}, for {resolved!r}; {steps}"
    read = plan.best.errors_of._replace(
        mean=scale_of_errors.mean, largest=scale_of_errors.largest, meaning=words
    )
    return replace(
        plan,
        choices=tuple(replace(choice, errors_of=read) for choice in plan.choices),
        words=(*plan.words, words),
        own_halfwidths=partial(halfwidths_of_plan, statistic),
    )


def halfwidths_of_plan(
    statistic: Statistic,
    plan: StreamPlan,
    step: int | None = None,
    confidence_level: float = 0.95,
    *,
    rows: int | None = None,
    over: int | None = None,
    decay: Decayed | None = None,
) -> dict[str, float]:
    """Return the half-widths at a step under a plan's best strategy, by the name of the number;
    ``""`` if all are of one kind.

    Args:
        step: None: the last planned step.
        rows: up to the step; None: half-widths that depend on it are left out.
        over: number of last steps whose rows count; None: all.
        decay: how fast the weights of steps fall, for numbers of decayed sums.

    >>> from counton import PureDP
    >>> from counton.statistics import Distinct
    >>> users = Distinct(changes=4)
    >>> halfwidths_of_plan(users, plan_statistic(users, 52, PureDP(1), batched=True))
    {'': 49.31...}
    """
    resolved = statistic.resolve_parameters(plan.guarantee, plan.horizon)
    cell_design = replace(plan.best, errors_of=ErrorsOf())
    return planned_halfwidths(
        resolved,
        cell_design,
        step or plan.steps,
        confidence_level,
        rows=rows,
        over=over,
        decay=decay,
    )

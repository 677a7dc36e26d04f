"""The noise distribution of a node, computed from strategy, guarantee and contribution bound."""

from __future__ import annotations

import math

from counton.base.distributions import Family
from counton.base.errors import InvalidInputError
from counton.base.exact import quote
from counton.noise.blocks import ROWS_LIMIT
from counton.privacy import (
    Calibration,
    ContributionBound,
    ExpiringDP,
    ExpiringZCDP,
    Guarantee,
    Sensitivity,
    calibrate,
)
from counton.privacy.expiration import calibrate_expiring
from counton.strategies import StreamStrategy
from counton.strategies.participation import pattern_sensitivity, sensitivities

#: Below the first number of steps (of versions of windows, where windows are revised), no level has
#: more nodes than noise has addresses. The indices of nodes that releases use exceed those of the
#: last step's own nodes by less than the second number.
_FEW_NODES = 2**28
_RESERVED_ROWS = 2**20


def sensitivity_of(
    strategy: StreamStrategy, contribution: ContributionBound, shape: tuple[int, ...] = ()
) -> Sensitivity:
    """Return how much one unit changes all nodes, in multiples of the unit of their integer noise.

    >>> from counton.strategies import Binary
    >>> sensitivity_of(Binary(31), ContributionBound.add_remove(cells=2), shape=(10,))
    Sensitivity(l1=10, l2_squared=10, entries=((1, 10),))
    >>> sensitivity_of(Binary(16), ContributionBound.add_remove(steps=3))
    Sensitivity(l1=13, l2_squared=33, entries=None)
    """
    if contribution.pattern is not None:
        return pattern_sensitivity(strategy, contribution.pattern)
    if contribution.most_a_step is not None:
        sensitivity = sensitivity_of(strategy, contribution.without_step_limit, shape)
        if strategy.horizon is None:
            return sensitivity  # an endless strategy states no bound for several steps
        several = sensitivities(strategy, steps=contribution.steps)
        spread = contribution.sensitivities(several, cells=math.prod(shape))
        return Sensitivity(
            min(sensitivity.l1, spread.l1),
            min(sensitivity.l2_squared, spread.l2_squared),
            spread.entries,
        )
    node_sensitivity = sensitivities(
        strategy,
        steps=contribution.steps,
        separation=contribution.separation,
        every=contribution.every,
    )
    return contribution.sensitivities(node_sensitivity, cells=math.prod(shape))


def guarantee_of_stream(strategy: StreamStrategy, guarantee: Guarantee) -> Guarantee:
    """Return the guarantee that a stream satisfies: an expiring one gets the growth and delay."""
    if not isinstance(strategy, StreamStrategy):
        raise InvalidInputError(
            f"strategy is {quote(strategy)}; pass a strategy such as KAry.best(8760), or "
            "counton.plan(...).best.strategy"
        )
    check_guarantee(guarantee)
    if isinstance(guarantee, (ExpiringDP, ExpiringZCDP)):
        return guarantee.bound_to(strategy)
    return guarantee


def distribution_for(
    strategy: StreamStrategy,
    guarantee: Guarantee,
    contribution: ContributionBound,
    shape: tuple[int, ...] = (),
    family: Family | None = None,
) -> Calibration:
    """Return the noise distribution of least variance that satisfies ``guarantee``.

    It holds against an attacker who chooses the next inputs, and whether they include the unit,
    after seeing releases. So the noise also depends on whether the strategy is causal.

    Raises:
        InvalidInputError: the strategy cannot give this guarantee, or not with this noise family.

    >>> from counton.privacy import PureDP
    >>> from counton.strategies import KAry
    >>> strategy = KAry(horizon=1000, arity=13, subtraction=True)
    >>> distribution_for(strategy, PureDP(0.5), ContributionBound.add_remove()).distribution
    DiscreteLaplace(scale=Fraction(6, 1))
    """
    guarantee = guarantee_of_stream(strategy, guarantee)
    check_contribution(contribution)
    if isinstance(guarantee, (ExpiringDP, ExpiringZCDP)):
        if not contribution.in_one_step:
            raise InvalidInputError(
                f"{guarantee} bounds the loss of each event by its age, but a unit of "
                f"{contribution} has several events, whose losses add up (square roots of losses "
                "under zCDP), so the loss of the unit by age is not known: protect single events "
                "with steps=1, or use a strategy with a horizon"
            )
        # The loss by age counts shifts of one unit; this is the number of units in one step's
        # change.
        unit_sensitivity = contribution.sensitivities(
            Sensitivity(1, 1, ((1, 1),)), cells=math.prod(shape)
        )
        return calibrate_expiring(guarantee, unit_sensitivity, family)
    moved = sensitivity_of(strategy, contribution, shape)
    causal = strategy.facts.causal
    once = contribution.in_one_step and not strategy.facts.corrections
    return calibrate(guarantee, moved, family, causal=causal, once=once or causal)


def check_addresses(strategy: StreamStrategy, shape: tuple[int, ...]) -> None:
    """Refuse a stream of several cells with more nodes than the noise has addresses."""
    if not shape or strategy.horizon is None:
        return
    if strategy.horizon * strategy.facts.versions < _FEW_NODES:
        return
    steps = range(strategy.horizon - 3, strategy.horizon + 1)
    last = max(node.index for step in steps for node in strategy.column(step))
    if last >= ROWS_LIMIT - _RESERVED_ROWS:
        raise InvalidInputError(
            f"{strategy!r} would measure {last + 1:,} partial sums for each of "
            f"{math.prod(shape):,} cells, but with several cells at most {ROWS_LIMIT:,} are "
            "possible: plan fewer steps"
        )


def check_guarantee(guarantee: object) -> Guarantee:
    """Return the value if it is a `Guarantee`; otherwise raise `InvalidInputError`."""
    if not isinstance(guarantee, Guarantee):
        raise InvalidInputError(
            f"guarantee is {quote(guarantee)}; give a guarantee such as PureDP(epsilon), "
            "ApproxDP(epsilon, delta) or ZCDP(rho)"
        )
    return guarantee


def check_contribution(contribution: ContributionBound) -> None:
    """Raise `InvalidInputError` if a value is no `ContributionBound`."""
    if not isinstance(contribution, ContributionBound):
        raise InvalidInputError(
            f"contribution is {quote(contribution)}; give what one protected unit can change, "
            f"such as ContributionBound.add_remove()"
        )

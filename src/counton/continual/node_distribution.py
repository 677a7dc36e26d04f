"""The noise distribution of a node, computed from strategy, guarantee and contribution bound."""

from __future__ import annotations

import math

from counton.base.distributions import NoiseKind
from counton.base.errors import InvalidInputError
from counton.base.exact import quote
from counton.continual.sensitivity import change_under_expiration, sensitivity_of
from counton.noise.blocks import ROWS_LIMIT
from counton.privacy import (
    Calibration,
    ContributionBound,
    ExpiringDP,
    ExpiringZCDP,
    Guarantee,
    calibrate,
)
from counton.privacy.expiration import calibrate_expiring
from counton.strategies import StreamStrategy

#: Below this number of steps (of versions of windows, where windows are revised), no level has more
#: nodes than noise has addresses.
_STEPS_WITH_ADDRESSES = 2**28
#: By less than this number, the indices of nodes that releases use exceed those of the last step's
#: own nodes.
_FURTHER_NODES = 2**20


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
    family: NoiseKind | None = None,
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
        change = change_under_expiration(guarantee, contribution, cells=math.prod(shape))
        return calibrate_expiring(guarantee, change, family)
    moved = sensitivity_of(strategy, contribution, shape)
    causal = strategy.facts.causal
    once = contribution.in_one_step and not strategy.facts.corrections
    return calibrate(guarantee, moved, family, causal=causal, once=once or causal)


def check_addresses(strategy: StreamStrategy, shape: tuple[int, ...]) -> None:
    """Refuse a stream of several cells with more nodes than the noise has addresses."""
    if not shape or strategy.horizon is None:
        return
    if strategy.horizon * strategy.facts.versions < _STEPS_WITH_ADDRESSES:
        return
    steps = range(strategy.horizon - 3, strategy.horizon + 1)
    last = max(node.index for step in steps for node in strategy.column(step))
    if last >= ROWS_LIMIT - _FURTHER_NODES:
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

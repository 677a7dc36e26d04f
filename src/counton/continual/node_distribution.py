"""The noise distribution of a node, computed from strategy, guarantee and contribution bound."""

from __future__ import annotations

import math
from dataclasses import replace

from counton.base.distributions import BoundedChange, NoiseKind
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
from counton.privacy.unit_changes import EventsPerStep, PatternOverSteps
from counton.strategies import StreamStrategy
from counton.strategies.participation import pattern_sensitivity, sensitivities

#: Below this number of steps (of versions of windows, where windows are revised), no level has more
#: nodes than noise has addresses.
_STEPS_WITH_ADDRESSES = 2**28
#: By less than this number, the indices of nodes that releases use exceed those of the last step's
#: own nodes.
_FURTHER_NODES = 2**20


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
    occurrences = contribution.occurrences
    if isinstance(occurrences, PatternOverSteps):
        return pattern_sensitivity(strategy, occurrences.pattern)
    if isinstance(occurrences, EventsPerStep):
        anywhere = replace(contribution, occurrences=occurrences.without_step_limit)
        sensitivity = sensitivity_of(strategy, anywhere, shape)
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
        change = _change_under_expiration(guarantee, contribution, cells=math.prod(shape))
        return calibrate_expiring(guarantee, change, family)
    moved = sensitivity_of(strategy, contribution, shape)
    causal = strategy.facts.causal
    once = contribution.in_one_step and not strategy.facts.corrections
    return calibrate(guarantee, moved, family, causal=causal, once=once or causal)


def _change_under_expiration(
    guarantee: Guarantee, contribution: ContributionBound, cells: int
) -> Sensitivity:
    """Return the change of the counts by one unit that noise of single steps has to hide.

    The loss by age, g, is that of one count which changes by 1. A unit may change counts in several
    steps s_1, ..., s_k, by d_1, ..., d_k (vectors over the cells), as a user with several events
    does, or an edge that completes several triangles. Its age is the number of steps since the
    first of them.

    *Statement.* If the sum of all |d_i| is at most K, Laplace noise of K times the scale, or
    Gaussian noise of K^2 times the variance, keeps the loss at most g(age) times epsilon or rho.
    For Laplace noise |d_i| is the 1-norm over the cells, for Gaussian noise the 2-norm. If each
    cell changes in one step only, Gaussian noise of k times the variance does for k cells.

    *Proof.* Let v_s be the shifts of noise that hide a change by 1 from step s on, in the releases
    up to t. The unit is hidden by the sum of the d_i v_(s_i). The loss of a shift is a norm of it
    for Laplace noise, and half the square of a norm for Gaussian noise. With K times the scale, or
    K^2 times the variance, the norm of v_s is at most g(t - s) / K, or the root of it. Since g
    never falls, and s_1 is the first step, the norm of the sum is at most
    (|d_1| + ... + |d_k|) / K times that of v_(s_1). Cells have noise of their own, so that squares
    of norms add up over them. A later step of the unit may be chosen after seeing releases: these
    lie before it, and the shift leaves them unchanged.

    *Statement for Gaussian noise.* A `BoundedChange` whose squared 2-norm is q needs only q times
    the variance, where q may be below K^2.

    *Proof.* A unit is hidden by V d, where column s of V is v_s, in units of the noise, and d has
    a row for each step and a column for each cell. By its definition, q bounds |V d|^2 by q times
    the largest |v_s|^2, if the columns of V are aligned: no two of them have a negative inner
    product, and that of columns i and k is at most the sum of their products with a column j
    between them. Columns before s_1 may be set to 0, because d is 0 there. Noise of q times the
    variance divides |v_s|^2 by q, so the loss is at most that of a change by 1 at s_1 or later.

    The columns are aligned. A release has the noise of all intervals around one position, so the
    intervals are nodes of trees: shifts are differences of the labels of an interval and its
    parent, and their cost is the energy of an electric network whose conductances are 1 / variance.
    The labels of positions are fixed to 0 before s and to 1 from s on. Without its inner nodes, the
    network is one of positions and ground alone, with conductances c >= 0. The inner product of
    v_s and v_t is the sum of c over pairs of positions that both s and t separate, and over pairs
    of ground and a position from the later of both on. So it is not negative, and it falls as the
    later of both grows: the product of columns i and k is at most that of i and j.

    Integer shifts, which narrow integer noise needs, have labels 0 and 1. Labels of least cost can
    be chosen such that those for a later step are 1 only where those for an earlier one are, as
    minimal cuts are nested. An edge that the cuts of i and k both cross is then crossed by that of
    j in the same direction, so that these shifts are aligned too. The excess of wide integer noise
    over continuous noise adds up over at most q cells. q times the variance raises each of its
    terms to the power q, and they are below 1/100: the sum over q cells is no larger than for one.

    Args:
        guarantee: the guarantee that expires, for the message.
        contribution: what one unit changes.
        cells: number of cells of a step.

    Raises:
        InvalidInputError: a unit may change any number of steps.
    """
    pattern = contribution.pattern
    if pattern is not None and not contribution.in_one_step:
        if isinstance(pattern, BoundedChange):
            return Sensitivity(pattern.l1, pattern.l2_squared)
        return Sensitivity(pattern.total, pattern.total**2)
    if contribution.steps is None:
        raise InvalidInputError(
            f"{guarantee} grows with the age of a unit, but a unit of {contribution} counts in any "
            "number of steps, whose losses add up. Bound its steps, as in steps=3"
        )
    change = contribution.sensitivities(Sensitivity(1, 1, ((1, 1),)), cells=cells)
    steps = contribution.steps
    if steps == 1:
        return change
    return Sensitivity(change.l1 * steps, change.l2_squared * steps**2)


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

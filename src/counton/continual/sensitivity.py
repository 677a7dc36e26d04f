"""The sensitivity: how much one protected unit, such as a user with all rows, changes."""

from __future__ import annotations

import math
from dataclasses import replace

from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError
from counton.privacy import ContributionBound, Guarantee, Sensitivity
from counton.privacy.unit_changes import EventsPerStep, PatternOverSteps
from counton.strategies import StreamStrategy
from counton.strategies.participation import pattern_sensitivity, sensitivities


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


def change_under_expiration(
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

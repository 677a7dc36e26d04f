"""Conversion of the design of a stream or table to an event of Google's dp_accounting.

An accountant of dp_accounting may then compose it with other mechanisms.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from counton.base.distributions import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseDistribution,
    Sensitivity,
)
from counton.base.errors import InvalidInput, MissingExtra
from counton.base.exact import float_above, quote
from counton.numbers.design import Design
from counton.numbers.node_law import sensitivity_of
from counton.privacy.guarantees import ZCDP, ApproxDP, PureDP

if TYPE_CHECKING:
    from dp_accounting import DpEvent


def dp_event(design: Design[Any]) -> DpEvent:
    """Return all releases of a stream or a table together as one event of dp_accounting.

    It loses at least as much privacy as the releases do, even against an attacker who chooses
    inputs after seeing earlier releases.

    - For `PureDP`, and for `ApproxDP` with Laplace noise that guarantees epsilon without delta, the
      event is randomised response, of which every mechanism with this epsilon is a function
      (Kairouz, Oh and Viswanath 2015).
    - For `ZCDP`, and for other noise of `ApproxDP`, the event bounds the loss at every Renyi order
      alpha by ``xi + rho * alpha``. Here rho follows from the noise. xi is 0 unless the noise is
      Gaussian and the strategy is not causal.

    Give the event to an accountant with ``NeighboringRelation.REPLACE_ONE``: ``RdpAccountant``
    takes every event of this function, ``PLDAccountant`` only randomised response. The event
    already states the whole loss, also if units are added or removed.

    Raises:
        InvalidInput: the design is of a part, its groups are found in the data, or its guarantee
            weakens as data ages: no event of dp_accounting has this loss.
        MissingExtra: dp_accounting before 0.6 has no event for ``xi + rho * alpha``.

    >>> from counton import PureDP, ZCDP, plan
    >>> dp_event(plan(365, ZCDP("0.5"), strategies=["binary"]).best)
    ZCDpEvent(rho=0.5, xi=0.0)
    """
    if not isinstance(design, Design):
        raise InvalidInput(
            f"design is {quote(design)}; give the terms of a stream, as release.design"
        )
    if design.part is not None or design.counters is not None:
        why = (
            "spends a part of its budget on choosing which groups are shown"
            if design.part is None
            else "is a part"
        )
        raise InvalidInput(
            f"design of {design.name!r} {why}, and no event of dp_accounting has this loss; enter "
            f"its guarantee, {design.guarantee}, in a ledger instead"
        )
    promised = design.guarantee
    if isinstance(promised, PureDP):
        return _coin(promised.epsilon)
    if not isinstance(promised, (ZCDP, ApproxDP)):
        raise InvalidInput(
            f"guarantee of {design.name!r} is {promised}, which weakens as data ages, but events "
            "of dp_accounting have no age; use counton.privacy.expiration_loss"
        )
    moved = sensitivity_of(design.strategy, design.contribution, design.shape)
    if isinstance(promised, ApproxDP) and isinstance(design.law, DiscreteLaplace):
        epsilon = moved.l1 / design.law.scale
        if epsilon <= promised.epsilon:
            return _coin(epsilon)
    try:
        from dp_accounting.dp_event import ZCDpEvent
    except ImportError as error:
        raise MissingExtra(
            "this event needs dp_accounting 0.6 or newer: pip install 'dp-accounting>=0.6'"
        ) from error
    rho, xi = _renyi_line(design.law, moved, causal=design.strategy.facts.causal)
    return ZCDpEvent(rho=float_above(rho), xi=float_above(xi))


def _coin(epsilon: Fraction) -> DpEvent:
    """Return the event of randomised response, with epsilon rounded up."""
    from dp_accounting import RandomizedResponseDpEvent

    # The less noise, the larger the loss: 2 / (1 + e^epsilon), rounded down.
    noise = 2 / (1 + math.exp(min(float_above(epsilon), 700.0))) * (1 - 1e-12)
    return RandomizedResponseDpEvent(noise, 2)


def _renyi_line(
    law: NoiseDistribution, moved: Sensitivity, *, causal: bool
) -> tuple[Fraction, Fraction]:
    """Return (rho, xi): the loss at every Renyi order alpha > 1 is at most xi + rho * alpha.

    Without ``causal`` the bound is larger: a later step may be chosen by what was released.
    """
    # Between whole orders Gaussian noise of strategies that are not causal keeps (alpha - 1) D <=
    # (alpha (alpha - 1) + 1/4) rho (docs/theory.md): above order 2 that is less than alpha rho +
    # rho. Below it D is at most that of order 2, which is 2 rho.
    if isinstance(law, DiscreteGaussian):
        rho = moved.l2_squared / (2 * law.sigma_squared)
        return rho, rho * (not causal)
    epsilon = moved.l1 / law.scale
    squares = moved.l2_squared / law.scale**2 if causal else epsilon**2
    return min(squares / 2, epsilon), 0 * epsilon

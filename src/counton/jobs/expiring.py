"""Streams whose privacy expires: what the options mean."""

from __future__ import annotations

from counton.errors import InvalidInput, field
from counton.jobs.request import Request
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.strategies import Expiring

#: What the choice of strategy is recorded as for these streams.
CHOICE = "expiring"


def expiring_strategy(request: Request) -> Expiring:
    """The strategy that ``expire``, ``growth`` and ``delay`` ask for.

    Raises:
        InvalidInput: options which go with other strategies only, or out of range.
    """
    for name, given in (("strategy", request.strategy), ("metric", request.metric)):
        if given is not None:
            raise InvalidInput(
                f"{field(name, given)} does not go with {field('expire')}, which has a strategy "
                f"of its own; leave one of them out"
            )
    return Expiring(1 if request.growth is None else request.growth, request.delay or 0)


def expiring_guarantee(request: Request, strategy: Expiring) -> ExpiringDP | ExpiringZCDP:
    """The guarantee that ``epsilon`` or ``rho`` state, as an expiring strategy gives it.

    Raises:
        InvalidInput: none or two are stated, or ``delta``.
    """
    if request.delta is not None:
        raise InvalidInput(
            f"{field('delta', request.delta)} does not go with {field('expire')}; give "
            f"{field('epsilon')} or {field('rho')} alone"
        )
    if (request.epsilon is None) == (request.rho is None):
        raise InvalidInput(
            f"{field('expire')} needs either {field('epsilon')} (the loss of the newest event) or "
            f"{field('rho')}; {field('plan_expiration')} finds it from the losses you allow"
        )
    if request.epsilon is not None:
        return ExpiringDP(request.epsilon).bound_to(strategy)
    assert request.rho is not None
    return ExpiringZCDP(request.rho).bound_to(strategy)


def refuse_without_expire(request: Request) -> None:
    """Options that mean nothing for other streams.

    Raises:
        InvalidInput: one of them is given.
    """
    for name, given in (("growth", request.growth), ("delay", request.delay)):
        if given is not None:
            raise InvalidInput(
                f"{field(name, given)} needs {field('expire')}; give it, or leave {field(name)} out"
            )

"""Streams whose privacy expires: what options mean, and the loss by age in words."""

from __future__ import annotations

from counton.cli.ages import named_ages
from counton.cli.request import Request
from counton.errors import InvalidInput
from counton.privacy import ZCDP, ExpiringDP, ExpiringZCDP, Guarantee
from counton.strategies import Expiring, Strategy

#: What ``--strategy`` is recorded as for these streams.
CHOICE = "expiring"


def expiring_strategy(request: Request) -> Expiring:
    """The strategy that --expire, --growth and --delay ask for.

    Raises:
        InvalidInput: options which go with other strategies only, or out of range.
    """
    for option, given in (("--strategy", request.strategy), ("--metric", request.metric)):
        if given is not None:
            raise InvalidInput(
                f"{option} {given} does not go with --expire, which has a strategy of its own; "
                f"leave one of them out"
            )
    return Expiring(request.growth or 1, request.delay or 0)


def expiring_guarantee(request: Request, strategy: Expiring) -> ExpiringDP | ExpiringZCDP:
    """The guarantee that --epsilon or --rho state, as an expiring strategy gives it.

    Raises:
        InvalidInput: none or two are stated, or --delta.
    """
    if request.delta is not None:
        raise InvalidInput(
            f"--delta {request.delta} does not go with --expire; give --epsilon or --rho alone"
        )
    if (request.epsilon is None) == (request.rho is None):
        raise InvalidInput(
            "--expire needs either --epsilon (the loss of the newest event) or --rho; counton plan "
            "--expire 1d:1,365d:3 --every 1h finds it from the losses you allow"
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
    for option, given in (("--growth", request.growth), ("--delay", request.delay)):
        if given is not None:
            raise InvalidInput(f"{option} {given} needs --expire; give it, or leave {option} out")


def loss_in_words(guarantee: Guarantee, strategy: Strategy, every: str) -> str | None:
    """What an item has lost by age; None for guarantees that do not expire."""
    if not isinstance(guarantee, (ExpiringDP, ExpiringZCDP)) or not isinstance(strategy, Expiring):
        return None
    bound = guarantee.bound_to(strategy)
    parts = []
    for name, age in named_ages(every).items():
        at_age = bound.at_age(age)
        loss = 0 if at_age is None else at_age.rho if isinstance(at_age, ZCDP) else at_age.epsilon
        parts.append(f"{float(loss):.3g} after {name}")
    return f"{'epsilon' if isinstance(guarantee, ExpiringDP) else 'rho'} {', '.join(parts)}"

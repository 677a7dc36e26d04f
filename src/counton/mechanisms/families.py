"""Which kinds of noise are worth trying for a guarantee, and the best of what they give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from counton.errors import InvalidInput
from counton.laws import Family
from counton.privacy import ZCDP, Guarantee, PureDP
from counton.strategies.norms import Norm

T = TypeVar("T")

#: Which norm of the columns each kind of noise is calibrated to.
NORMS: dict[Family, Norm] = {"laplace": 1, "gaussian": 2}


def families(guarantee: Guarantee) -> tuple[Family, ...]:
    """Kinds of noise worth trying for a guarantee.

    Up to rho = 2, Laplace noise of scale l1 / sqrt(2 rho) has at least twice the variance of
    Gaussian noise with any strategy, since l1 is never below l2.

    >>> families(ZCDP(0.5))
    ('gaussian',)
    """
    if isinstance(guarantee, PureDP):
        return ("laplace",)
    if isinstance(guarantee, ZCDP) and guarantee.rho <= 2:
        return ("gaussian",)
    return ("laplace", "gaussian")


def ranked(attempts: Iterable[Callable[[], T]], cost: Callable[[T], float]) -> list[T]:
    """What the attempts give, least cost first; those that are refused are left out.

    Raises:
        InvalidInput: all are refused; the reason is that of the last.

    >>> ranked([lambda: 3, lambda: 2], cost=float)
    [2, 3]
    """
    found: list[T] = []
    reason = InvalidInput("nothing was tried: give at least one attempt")
    for attempt in attempts:
        try:
            found.append(attempt())
        except InvalidInput as error:
            reason = error
    if not found:
        raise reason
    return sorted(found, key=cost)


def best_of_families(
    guarantee: Guarantee, attempt: Callable[[Family], T], cost: Callable[[T], float]
) -> T:
    """The cheapest of what the kinds of noise give that can keep a guarantee.

    Raises:
        InvalidInput: none can; the reason is that of the last.

    >>> best_of_families(PureDP(1), lambda family: family, cost=len)
    'laplace'
    """
    return ranked((partial(attempt, family) for family in families(guarantee)), cost)[0]

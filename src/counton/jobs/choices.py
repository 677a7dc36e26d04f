"""Options that choose among things: guarantee, metric, strategy."""

from __future__ import annotations

from typing import Literal, cast

from counton.analysis import plan
from counton.errors import InvalidInput, field
from counton.exact import Number
from counton.privacy import ZCDP, ApproxDP, Contribution, Guarantee, PureDP
from counton.strategies import StreamStrategy

#: Names on the command line, and the strategies they stand for.
STRATEGIES = {
    "binary": "Binary",
    "honaker": "HonakerOnline",
    "kary": "KAry",
    "smooth": "SmoothBinary",
    "sqrt": "SqrtToeplitz",
}
METRICS = ("mean", "max")


def guarantee_from(
    epsilon: Number | None, delta: Number | None, rho: Number | None
) -> PureDP | ApproxDP | ZCDP | None:
    """The guarantee that options state; None if they state none.

    Raises:
        InvalidInput: options that exclude each other, or numbers outside their bounds.

    >>> print(guarantee_from("1", "1e-9", None))
    approximate differential privacy with epsilon = 1 and delta = 1e-9
    """
    if rho is not None:
        if epsilon is not None or delta is not None:
            other = field("delta", delta) if epsilon is None else field("epsilon", epsilon)
            raise InvalidInput(
                f"{field('rho', rho)} and {other} are two different guarantees; give one of them"
            )
        return ZCDP(rho)
    if epsilon is None:
        if delta is not None:
            raise InvalidInput(f"{field('delta', delta)} stands alone; it needs {field('epsilon')}")
        return None
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


def needed_guarantee(epsilon: Number | None, delta: Number | None, rho: Number | None) -> Guarantee:
    """As `guarantee_from`, where one must be stated."""
    guarantee = guarantee_from(epsilon, delta, rho)
    if guarantee is None:
        raise InvalidInput(
            f"no guarantee is stated; give {field('epsilon')}, {field('epsilon')} and "
            f"{field('delta')}, or {field('rho')}: {field('epsilon', 1)} is a common choice"
        )
    return guarantee


def metric_from(metric: str | None) -> Literal["mean", "max"]:
    """The error to make small: its mean over the steps unless stated.

    Raises:
        InvalidInput: neither ``mean`` nor ``max``.
    """
    if metric is not None and metric not in METRICS:
        raise InvalidInput(f"metric {metric!r} is not known; use mean or max")
    return cast(Literal["mean", "max"], metric or "mean")


def choose_strategy(
    name: str | None,
    horizon: int,
    guarantee: Guarantee,
    metric: str | None,
    contribution: Contribution,
    shape: tuple[int, ...],
) -> StreamStrategy:
    """The planner's first choice, or its best strategy of the kind asked for.

    Raises:
        InvalidInput: an unknown kind, or none of that kind can give the guarantee.
    """
    if name is not None and name not in (*STRATEGIES, "auto"):
        raise InvalidInput(
            f"strategy {name!r} is not known; use auto or one of {', '.join(STRATEGIES)}"
        )
    ranked = plan(horizon, guarantee, metric_from(metric), contribution=contribution, shape=shape)
    for choice in ranked.choices:
        if name in (None, "auto") or type(choice.strategy).__name__ == STRATEGIES[name]:
            return choice.strategy
    raise InvalidInput(
        f"no strategy of kind {name!r} can serve {horizon:,} steps under {guarantee}; use auto"
    )

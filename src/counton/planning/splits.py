"""The division of one privacy budget among the parts of a report.

The cells of each part are multiplied by an integer weight, and all cells get noise of one
distribution: larger weights give a smaller error and a larger share of the budget. A part with a
bound on its error gets the share that it needs, and no more. The rest is divided in proportion to
weights that the user states: a part of weight 2 gets twice the epsilon (pure privacy), or twice the
rho, of a part of weight 1.

If every part has a bound and some budget is left, all shares grow by one factor. Finally the
weights are rounded to the smallest integers with which every error is within a thousandth of the
planned error and every bound is kept. Comments at the beginning of this file have the formulas.
"""

# What one unit changes adds up over the parts, part k's multiplied by w_k: with pure privacy, whose
# noise follows the 1-norm, to sum_k w_k D1_k; else, where it follows the 2-norm, to the root of
# sum_k (w_k D2_k)^2. With noise of error e in the multiplied cells the error of part k is e / w_k.
# So:
#
#     pure:   share_k = w_k D1_k / sum_j w_j D1_j            error_k = alone_k / share_k
#     else:   share_k = (w_k D2_k)^2 / sum_j (w_j D2_j)^2    error_k = alone_k / sqrt(share_k)
#
# where alone_k is the error that part k would have with all of the budget for itself. A part that
# is to be within a bound needs the share (alone_k / within_k)^p, with p = 1 under pure privacy,
# else 2.
#
# Privacy depends on the whole numbers alone, and they are exact.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from counton.base.distributions import BoundedChange, scaled_norms
from counton.base.errors import InvalidInput, field
from counton.base.exact import Number, exact, figures, quote, text
from counton.planning.least_privacy import least_guarantee, loss_of, next_loss, with_loss
from counton.planning.planner import plan_stream
from counton.privacy import ApproxDP, Contribution, Guarantee, PureDP

#: A function of the guarantee, and of the 1-norm and squared 2-norm of one unit's change in all
#: cells, that returns the error of a cell.
Noise = Callable[[Guarantee, int, int], float]

#: Largest relative difference between errors with integer weights and with exact shares. Planned
#: errors stay half of it below a bound, so that the bound is kept.
_TOLERANCE = 1e-3
#: Least share of the budget for all parts without a bound together.
_LEAST_REST = 0.01
#: Change of cells by one unit from which on noise is as good as continuous.
_FINE = 2**8
#: Largest number of rounds until weights and errors agree, and the largest integer weight of the
#: part with the smallest.
_MOST_ROUNDS, _MOST_SIZE = 8, 2**14
#: Largest 1-norm of one unit's change in all cells (`BoundedChange`).
_MOST = 2**40


@dataclass(frozen=True)
class Cost:
    """The sensitivity of one part of a report, and its wanted accuracy or weight.

    Attributes:
        l1, l2_squared: largest change by one unit in all cells of the part together.
        within: wanted half-width of the part's numbers; None: a share of the rest.
        weight: its share of the rest, relative to other parts.
        each: factor from the error of one cell to that of its released numbers.
        name: in messages.

    Raises:
        InvalidInput: norms that no integer vector has, or numbers that are not above 0.

    >>> Cost(60, 3600, within=500, each=0.02, name="average").l1
    60
    """

    l1: int
    l2_squared: int
    within: float | None = None
    weight: Number = 1
    each: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        BoundedChange(self.l1, self.l2_squared)
        wanted = {"within": self.within, "weight": self.weight, "each": self.each}
        for name, value in wanted.items():
            if value is not None and exact(value, name) <= 0:
                raise InvalidInput(f"{field(name, value)} must be above 0")

    def norm(self, power: int) -> float:
        """Return the part's 1-norm, or 2-norm for ``power`` 2."""
        return float(self.l1) if power == 1 else math.sqrt(self.l2_squared)


class Split(NamedTuple):
    """The division of a privacy budget among the parts of a report.

    Attributes:
        weights: kept with the stream, since its measurements depend on them.
        l1, l2_squared: largest change by one unit in all multiplied cells.
        shares: each part's fraction of epsilon, of rho, or of the squared 2-norm.
        errors: planned error of each part's numbers; None if no noise is given.

    >>> split([Cost(1, 1), Cost(1, 1, weight=3)], PureDP(1)).weights
    (1, 3)
    """

    weights: tuple[int, ...]
    l1: int
    l2_squared: int
    shares: tuple[Fraction, ...]
    errors: tuple[float, ...] | None


def split(costs: Sequence[Cost], guarantee: Guarantee, noise: Noise | None = None) -> Split:
    """Divide one guarantee among the parts of a report, by integer weights of their cells.

    Args:
        noise: the error of a cell, from `last_halfwidth`; needed if a part has a bound.

    Raises:
        InvalidInput: bounds that the guarantee does not allow; the message states the least epsilon
            or rho that allows them.

    One part has a bound of 30, and two others share the rest of the budget as 1 to 2:

    >>> noise = last_halfwidth(52)
    >>> count, visits, sales = Cost(1, 1, within=30), Cost(1, 1), Cost(1, 1, weight=2)
    >>> found = split([count, visits, sales], PureDP(1), noise)
    >>> found.weights, [round(float(share), 2) for share in found.shares]
    ((40, 19, 38), [0.41, 0.2, 0.39])
    >>> [round(error) for error in found.errors]
    [30, 63, 32]
    """
    if not costs or not all(isinstance(cost, Cost) for cost in costs):
        raise InvalidInput(
            f"costs are {quote(costs)}; give a list with a Cost for each part of the report"
        )
    loss_of(guarantee)  # refuses guarantees of other kinds
    if noise is None:
        if any(cost.within is not None for cost in costs):
            raise InvalidInput(
                "noise is missing, the error of a cell, on which the cost of a bound on errors "
                "depends; give noise=last_halfwidth(steps)"
            )
        shares = _share_out([0.0 for _ in costs], costs)
        return _with_whole_weights(costs, shares, _norms(guarantee)[0].power)
    found = _split_within(costs, guarantee, noise)
    if found is None:
        raise _error_of_bounds(costs, guarantee, noise)
    return found


def last_halfwidth(steps: int | None) -> Noise:
    """Return the half-width of a cell's 95% interval at the last step, as a function of a guarantee
    and of both norms, for which a strategy is planned as by `counton.plan`.

    >>> noise = last_halfwidth(52)
    >>> round(noise(PureDP(1), 1, 1), 1), round(noise(PureDP(1), 100, 10000), 1)
    (12.4, 1236.5)
    """

    @lru_cache(maxsize=256)
    def halfwidth(guarantee: Guarantee, l1: int, l2_squared: int) -> float:
        moved = BoundedChange(l1, l2_squared, once=True)
        words = "which changes all parts of a report together"
        ranked = plan_stream(
            steps,
            guarantee,
            contribution=Contribution.of_pattern(moved, words),
            compare=False,
            simple=steps == 1,
        )
        return ranked.best.errors.halfwidth(ranked.steps)

    return halfwidth


class _Norm(NamedTuple):
    """A norm to which noise may be calibrated: 1 or 2.

    ``strict`` refuses a division for which the other norm's noise would be narrower.
    """

    power: int
    strict: bool


def _norms(guarantee: Guarantee) -> tuple[_Norm, ...]:
    """Return the norms to try in order: one, or for approximate privacy both, ``strict`` first."""
    if isinstance(guarantee, PureDP):
        return (_Norm(1, False),)
    if not isinstance(guarantee, ApproxDP):
        return (_Norm(2, False),)
    return _Norm(2, True), _Norm(1, True), _Norm(2, False), _Norm(1, False)


def _split_within(costs: Sequence[Cost], guarantee: Guarantee, noise: Noise) -> Split | None:
    """Return the division that keeps all bounds with the first possible of the `_norms`."""
    # Weights of parts determine the joint norm, the norm determines the strategy and its error, and
    # the error determines the weights. Rounds repeat until the error changes no more.
    for power, strict in _norms(guarantee):
        unit = _unit_error(noise, guarantee, power, sum(cost.l1 for cost in costs))
        for turn in range(_MOST_ROUNDS):
            needed = _needed_shares(costs, power, unit)
            if sum(needed) > _largest_share_for_bounds(costs):
                break
            found = _with_whole_weights(costs, _share_out(needed, costs), power)
            # The sensitivity in this norm: the change of all multiplied cells by one unit.
            size = float(found.l1) if power == 1 else math.sqrt(found.l2_squared)
            error = noise(guarantee, found.l1, found.l2_squared)
            here = error / size
            if strict and here < (1 - _TOLERANCE) * _unit_error(noise, guarantee, power, size):
                break
            errors = tuple(
                error * cost.each / weight
                for cost, weight in zip(costs, found.weights, strict=True)
            )
            kept = all(
                cost.within is None or one <= cost.within
                for cost, one in zip(costs, errors, strict=True)
            )
            near = abs(here - unit) <= unit * _TOLERANCE / 2
            if kept and (near or turn >= _MOST_ROUNDS // 2):
                return found._replace(errors=errors)
            unit = here
    return None


def _unit_error(noise: Noise, guarantee: Guarantee, power: int, size: float) -> float:
    """Return the error of a cell that one unit changes by 1, from a large change, ``size``, at
    which discrete noise is like continuous noise.
    """
    whole = min(max(_FINE, math.ceil(size)), _MOST)
    return noise(guarantee, whole if power == 1 else min(whole**2, _MOST), whole**2) / whole


def _needed_shares(costs: Sequence[Cost], power: int, unit: float) -> list[float]:
    """Return the share that each part needs for its bound; 0 without one."""
    room = 1 - _TOLERANCE / 2
    return [
        0.0
        if cost.within is None
        else (unit * cost.norm(power) * cost.each / (float(cost.within) * room)) ** power
        for cost in costs
    ]


def _largest_share_for_bounds(costs: Sequence[Cost]) -> float:
    """Return the largest share that all parts with a bound may take together."""
    return 1.0 if all(cost.within is not None for cost in costs) else 1 - _LEAST_REST


def _error_of_bounds(costs: Sequence[Cost], guarantee: Guarantee, noise: Noise) -> InvalidInput:
    """Return the exception that states the least epsilon or rho that allows the bounds."""
    name, loss = loss_of(guarantee)
    most = _largest_share_for_bounds(costs)
    size = sum(cost.l1 for cost in costs)

    def budget_factor(other: Guarantee) -> float:
        """Return the factor by which a budget must grow until all bounds are kept."""
        units = {norm.power: _unit_error(noise, other, norm.power, size) for norm in _norms(other)}
        return min(sum(_needed_shares(costs, power, unit)) for power, unit in units.items()) / most

    delta = guarantee.delta if isinstance(guarantee, ApproxDP) else None
    least = loss_of(
        least_guarantee(budget_factor, 1.0, name, delta, loss * exact(budget_factor(guarantee), ""))
    )[1]
    least = max(least, next_loss(loss * Fraction(1001, 1000)))
    while _split_within(costs, with_loss(guarantee, least), noise) is None:
        least = next_loss(least * Fraction(1001, 1000))
    wanted = " and ".join(
        f"{cost.name or f'part {place}'} within {figures(float(cost.within))}"
        for place, cost in enumerate(costs, 1)
        if cost.within is not None
    )
    rest = "" if most == 1.0 else ", which leaves a hundredth to all others"
    return InvalidInput(
        f"{field(name, text(loss))} is not enough for {wanted}; give {field(name, text(least))} or "
        f"more{rest}, or allow larger errors"
    )


def _share_out(needed: Sequence[float], costs: Sequence[Cost]) -> list[float]:
    """Return the share of each part; they add up to 1, none below its need."""
    free = [cost.within is None for cost in costs]
    if not any(free):
        whole = sum(needed)  # 0 if the noise is always 0: then any shares keep the bounds
        return [share / whole if whole else 1 / len(needed) for share in needed]
    weights = [float(exact(cost.weight, "weight")) for cost in costs]
    left = 1 - sum(needed)
    total = sum(weight for weight, one in zip(weights, free, strict=True) if one)
    return [
        left * weight / total if one else share
        for weight, one, share in zip(weights, free, needed, strict=True)
    ]


def _with_whole_weights(costs: Sequence[Cost], shares: Sequence[float], power: int) -> Split:
    """Return the division by the smallest integers whose errors are close to the wanted shares'."""
    ideal = [
        share ** (1 / power) / cost.norm(power) for cost, share in zip(costs, shares, strict=True)
    ]
    smallest = min(ideal)
    for size in range(1, _MOST_SIZE):
        weights = tuple(max(1, round(size * one / smallest)) for one in ideal)
        norms = [
            scaled_norms(cost.l1, cost.l2_squared, by=weight)
            for cost, weight in zip(costs, weights, strict=True)
        ]
        l1, l2_squared = (sum(one[which] for one in norms) for which in (0, 1))
        if l1 > _MOST:
            break
        got = tuple(Fraction(own[power - 1], (l1, l2_squared)[power - 1]) for own in norms)
        if all(
            abs((float(share) / wanted) ** (1 / power) - 1) <= _TOLERANCE / 4
            for share, wanted in zip(got, shares, strict=True)
        ):
            return Split(weights, l1, l2_squared, got, None)
    raise InvalidInput(
        f"one unit would change all parts together by {l1:,}, more than 2^40, the most that "
        "noise can hide: give a coarser resolution for one of them"
    )

"""Which growth, delay and epsilon keep the losses an operator states, with the least error."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from counton.analysis.largest_error import largest_error as noise_bound
from counton.analysis.largest_error import least_largest_error
from counton.analysis.refilling import RefillingBudget
from counton.errors import InvalidInput
from counton.expiry import Expiry
from counton.privacy import ExpiringDP, expiration_loss
from counton.privacy.expiration_loss import Analysis, checked_age, loss_above
from counton.strategies import Expiring
from counton.strategies.base import check_integer

#: Growths that are tried, and the step of the refinement around the best of them.
_GROWTHS = tuple(Fraction(n, 4) for n in range(25))
_FINE = Fraction(1, 20)
#: Fewer steps than this say little about an endless stream.
_SHORTEST_AVERAGE = 1000


@dataclass(frozen=True, slots=True)
class ExpirationPlan:
    """A choice of growth, delay and epsilon.

    Attributes:
        strategy, guarantee: to be given to ``Counter``.
        targets: the losses by age that were asked for.
        steps: releases over which errors are averaged.
        per_step: items a step is expected to have; what a delay costs.
        noise_std: root of the mean variance of the noise over ``steps``.
        baseline: the refilled budget with the least error that keeps the same targets.

    >>> plan = plan_expiration({24: 1, 8760: 3})
    >>> plan.strategy.growth, plan.strategy.delay, float(plan.guarantee.epsilon)
    (Fraction(11, 10), 0, 0.17884)
    >>> plan.loss([1, 24, 8760, 87600]).round(3)
    array([0.358, 0.986, 3. , 3.712])
    """

    strategy: Expiring
    guarantee: ExpiringDP
    targets: Mapping[int, float]
    steps: int
    per_step: float
    noise_std: float
    baseline: RefillingBudget

    @property
    def rmse(self) -> float:
        """Root of the mean squared error, from noise and from items still held back."""
        return math.hypot(self.noise_std, self.per_step * self.strategy.delay)

    @property
    def baseline_rmse(self) -> float:
        """The same for ``baseline``."""
        return math.sqrt(self.baseline.mean_variance(self.steps))

    @property
    def largest_error(self) -> float:
        """All releases up to ``steps`` stay closer than this to the truth with probability 2/3."""
        noise = noise_bound(self.strategy, float(self.guarantee.epsilon), self.steps, 2 / 3)
        return noise + self.per_step * self.strategy.delay

    @property
    def least_largest_error(self) -> int:
        """What no mechanism with the same targets can stay below, for streams of 0 and 1."""
        return least_largest_error(self.targets, self.steps)

    def loss(self, ages: Iterable[int], analysis: Analysis = "exact") -> NDArray[np.float64]:
        """Privacy loss of an item by age, in epsilon."""
        return float(self.guarantee.epsilon) * expiration_loss(self.strategy, ages, analysis)


def plan_expiration(
    targets: Mapping[int, float] | None = None,
    *,
    rmse: float | None = None,
    age: int | None = None,
    largest_error: float | None = None,
    steps: int | None = None,
    per_step: float = 1,
    delays: range | None = None,
) -> ExpirationPlan:
    """The expiring stream with the least error whose losses by age stay within targets.

    Say what may be lost, ``plan_expiration({24: 1, 8760: 3})`` for "at most 1 within a day and at
    most 3 within a year" of hourly steps, and the error is made smallest. Or say what error is
    wanted, ``plan_expiration(rmse=30, age=8760)``, and the loss at that age is made smallest.

    Args:
        targets: largest loss by age in steps. Beyond the largest age nothing is asked; the loss
            grows on, slowly.
        rmse: wanted root of the mean squared error, from noise and delay.
        age: with ``rmse`` and without ``targets``: the age at which the loss is made smallest.
        largest_error: wanted bound on all errors up to ``steps``, with probability 2/3.
        steps: releases over which errors are taken; default: the largest age, at least 1,000.
        per_step: items a step is expected to have. A delay of B steps leaves B * per_step out.
        delays: delays to choose from; default: all that can pay off.

    Raises:
        InvalidInput: targets that cannot be meant, or that no choice can keep together with the
            wanted error; the message says so where no mechanism at all can (Theorem 5.1).

    >>> plan = plan_expiration(rmse=30, age=8760)
    >>> plan.strategy.growth, plan.rmse <= 30, plan.loss([8760]).round(2).tolist()
    (Fraction(19, 20), True, [2.29])
    """
    if targets is None:
        if rmse is None or age is None:
            raise InvalidInput(
                "nothing to plan for: state targets, such as {24: 1, 8760: 3} (largest loss by "
                "age in steps), or rmse and the age at which the loss should be small"
            )
        age, rmse = checked_age(age), _positive("rmse", rmse)
        return _least_loss(rmse, age, _average(steps, age), _positive("per_step", per_step), delays)
    targets = _checked(targets)
    steps = _average(steps, max(targets))
    _refuse_impossible(targets, largest_error, steps)
    plan = _least_error(targets, steps, _positive("per_step", per_step), delays)
    if rmse is not None and plan.rmse > rmse:
        raise InvalidInput(
            f"an error of {rmse:,.4g} cannot be reached with these targets: the least is "
            f"{plan.rmse:,.4g}, with {plan.strategy!r}: allow larger losses"
        )
    if largest_error is not None and plan.largest_error > largest_error:
        raise InvalidInput(
            f"all {steps:,} errors below {largest_error:,.4g} cannot be promised: this mechanism "
            f"reaches {plan.largest_error:,.4g}, and none can stay below "
            f"{plan.least_largest_error:,}: allow larger losses"
        )
    return plan


def _refuse_impossible(
    targets: Mapping[int, float], largest_error: float | None, steps: int
) -> None:
    if largest_error is None:
        return
    least = least_largest_error(targets, steps)
    if _positive("largest_error", largest_error) < least:
        raise InvalidInput(
            f"no mechanism at all can keep {steps:,} errors below {largest_error:,.4g} with these "
            f"targets (Andersson et al., Theorem 5.1): from {least:,} on it is not ruled out; "
            f"allow larger losses or a larger error"
        )


def _least_error(
    targets: dict[int, float], steps: int, per_step: float, delays: range | None
) -> ExpirationPlan:
    """The plan of least error; a delay beyond the largest age would leave nothing to protect."""

    def squared_error(growth: Fraction, delay: int) -> float:
        epsilon = min(
            loss / _first_loss(growth, age - delay) for age, loss in targets.items() if age >= delay
        )
        return 2 * _noise(growth, delay, steps) / epsilon**2 + (per_step * delay) ** 2

    at_once = min(squared_error(growth, 0) for growth in _GROWTHS)
    most = min(int(math.sqrt(at_once) / per_step), max(targets), steps - 1)
    expiry = _search(squared_error, _delays(delays, most, targets))
    epsilon = min(
        Fraction(str(loss)) / loss_above(expiry, age, "exact")
        for age, loss in targets.items()
        if age >= expiry.delay
    )
    return _plan(expiry, _rounded(epsilon, math.floor), targets, steps, per_step)


def _least_loss(
    rmse: float, age: int, steps: int, per_step: float, delays: range | None
) -> ExpirationPlan:
    """The plan of least loss at one age, with a given error."""

    def epsilon(growth: Fraction, delay: int) -> float:
        left = rmse**2 - (per_step * delay) ** 2
        return math.sqrt(2 * _noise(growth, delay, steps) / left) if left > 0 else math.inf

    def loss(growth: Fraction, delay: int) -> float:
        return epsilon(growth, delay) * _first_loss(growth, age - delay)

    allowed = _delays(delays, min(int(rmse / per_step), age, steps - 1), {age: 1.0})
    expiry = _search(loss, allowed)
    needed = epsilon(expiry.growth, expiry.delay)
    if needed == math.inf:
        raise InvalidInput(
            f"an error of {rmse:,.4g} leaves no room for a delay of {expiry.delay:,} steps with "
            f"{per_step:,.4g} items each: allow a smaller delay, or a larger error"
        )
    chosen = _rounded(Fraction(needed), math.ceil)
    reached = float(chosen * loss_above(expiry, age, "exact"))
    return _plan(expiry, chosen, {age: reached}, steps, per_step)


def _search(score: Callable[[Fraction, int], float], delays: Sequence[int]) -> Expiry:
    """Growth and delay of the least score: on a grid, then in smaller steps around its best."""
    best = min((score(growth, delay), growth, delay) for delay in delays for growth in _GROWTHS)
    near = [best[1] + n * _FINE for n in range(-4, 5)]
    place = bisect_left(delays, best[2])
    between = range(delays[max(place - 1, 0)], delays[min(place + 1, len(delays) - 1)] + 1)
    for delay in {*delays, *between[:: max(len(between) // 8, 1)]} & {*between}:
        best = min(best, *((score(g, delay), g, delay) for g in near if 0 <= g <= _GROWTHS[-1]))
    return Expiry(best[1], best[2])


def _delays(asked: range | None, most: int, targets: Mapping[int, float]) -> list[int]:
    """Delays to try, in order: those asked for, or a selection up to ``most``.

    The loss at an age drops where the releases that saw the item become fewer than a power of two.
    """
    last = max(targets)
    if asked is not None:
        allowed = sorted(delay for delay in asked if 0 <= delay <= last)
        if not allowed:
            raise InvalidInput(
                f"delays are {asked}; at least one must lie between 0 and the largest age, {last:,}"
            )
        return allowed
    spread = np.unique(np.geomspace(1, most + 1, 24).astype(int) - 1).tolist()
    edges = [age + 2 - 2**k for age in targets for k in range(1, 64)]
    return sorted({0, *spread, *(delay for delay in edges if 0 <= delay <= most)})


@cache
def _first_loss(growth: Fraction, age: int) -> float:
    """Loss of the first item of a stream, the worst: quick, and checked over all items later."""
    return float(expiration_loss(Expiring(growth), [age], position=1)[0])


@cache
def _noise(growth: Fraction, delay: int, steps: int) -> float:
    """Mean variance of the noise in variances of one Laplace number, continuous noise."""
    return Expiring(growth, delay).mean_variance(steps)


def _plan(
    expiry: Expiry, epsilon: Fraction, targets: dict[int, float], steps: int, per_step: float
) -> ExpirationPlan:
    strategy = Expiring(expiry.growth, expiry.delay)
    noise = 2 * strategy.mean_variance(steps) / float(epsilon) ** 2
    return ExpirationPlan(
        strategy=strategy,
        guarantee=ExpiringDP(epsilon).bound_to(strategy),
        targets=targets,
        steps=steps,
        per_step=per_step,
        noise_std=math.sqrt(noise),
        baseline=RefillingBudget.best(targets, steps),
    )


def _rounded(value: Fraction, towards: Callable[[Fraction], int]) -> Fraction:
    """Five significant digits, down (math.floor) or up (math.ceil)."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 4)
    return towards(value / unit) * unit


def _positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InvalidInput(f"{name} is {value!r}; it must be a number above 0")
    return float(value)


def _average(steps: int | None, largest_age: int) -> int:
    if steps is None:
        return max(largest_age, _SHORTEST_AVERAGE)
    return check_integer("steps", steps, 1)


def _checked(targets: Mapping[int, float]) -> dict[int, float]:
    """Targets in order of age."""
    if not targets:
        raise InvalidInput(
            f"targets are {targets!r}; give a largest loss for at least one age in steps, such as "
            f"{{24: 1, 8760: 3}}"
        )
    return {checked_age(age): _positive("a largest loss", targets[age]) for age in sorted(targets)}

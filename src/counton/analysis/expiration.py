"""Which growth, delay and epsilon keep the losses an operator states, with the least error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counton.analysis.expiration_search import CONCENTRATED, PURE, Choice, least_error, least_loss
from counton.analysis.largest_error import largest_error as noise_bound
from counton.analysis.largest_error import least_largest_error
from counton.analysis.refilling import RefillingBudget
from counton.errors import InvalidInput
from counton.privacy import ExpiringDP, ExpiringZCDP, expiration_loss
from counton.privacy.expiration_loss import Analysis, checked_age
from counton.strategies import Expiring
from counton.strategies.base import check_integer

#: Fewer steps than this say little about an endless stream.
_SHORTEST_AVERAGE = 1000


@dataclass(frozen=True, slots=True)
class ExpirationPlan:
    """A choice of growth, delay and epsilon, or rho.

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
    guarantee: ExpiringDP | ExpiringZCDP
    targets: Mapping[int, float]
    steps: int
    per_step: float
    noise_std: float
    baseline: RefillingBudget

    @property
    def unit(self) -> str:
        """What losses are counted in: "epsilon" or "rho"."""
        return "rho" if isinstance(self.guarantee, ExpiringZCDP) else "epsilon"

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
        noise = noise_bound(self.strategy, self.guarantee, self.steps, 2 / 3)
        return noise + self.per_step * self.strategy.delay

    @property
    def least_largest_error(self) -> float | None:
        """What no mechanism with the same targets can stay below; 0 if no such bound is known.

        It holds for streams of 0 and 1. None where it says nothing about the plan: under
        zero-concentrated privacy, and for ``per_step`` below 1, which excludes most such streams.
        """
        if isinstance(self.guarantee, ExpiringZCDP) or self.per_step < 1:
            return None
        return least_largest_error(self.targets, self.steps)

    def loss(self, ages: Iterable[int], analysis: Analysis = "exact") -> NDArray[np.float64]:
        """Privacy loss of an item by age: epsilon, or rho of a Gaussian plan.

        The exact one is what the guarantee promises, ``guarantee.at_age``.
        """
        if isinstance(self.guarantee, ExpiringDP):
            return float(self.guarantee.epsilon) * expiration_loss(self.strategy, ages, analysis)
        if analysis == "exact":
            promised = [self.guarantee.at_age(age) for age in ages]
            return np.array([float(at.rho) if at else 0.0 for at in promised], np.float64)
        return float(self.guarantee.rho) * expiration_loss(self.strategy, ages, analysis)


def plan_expiration(
    targets: Mapping[int, float] | None = None,
    *,
    rmse: float | None = None,
    age: int | None = None,
    largest_error: float | None = None,
    steps: int | None = None,
    per_step: float = 1,
    delays: range | None = None,
    concentrated: bool = False,
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
        concentrated: all losses are rho of zero-concentrated privacy, and the noise is Gaussian.

    Raises:
        InvalidInput: targets that cannot be meant, or that no choice can keep together with the
            wanted error; the message says so where no mechanism at all can (Theorem 5.1).

    >>> plan = plan_expiration(rmse=30, age=8760)
    >>> plan.strategy.growth, plan.rmse <= 30, plan.loss([8760]).round(2).tolist()
    (Fraction(19, 20), True, [2.29])
    """
    form = CONCENTRATED if concentrated else PURE
    if targets is None:
        if rmse is None or age is None:
            raise InvalidInput(
                "nothing to plan for: state targets, such as {24: 1, 8760: 3} (largest loss by "
                "age in steps), or rmse and the age at which the loss should be small"
            )
        age, rmse, steps = checked_age(age), _positive("rmse", rmse), _average(steps, age)
        chosen = least_loss(form, rmse, age, steps, _positive("per_step", per_step), delays)
        return _plan(chosen, {age: chosen.loss_at(age)}, steps, per_step)
    targets = _checked(targets)
    steps = _average(steps, max(targets))
    if largest_error is not None:
        _positive("largest_error", largest_error)
        if not concentrated and per_step >= 1:
            _refuse_impossible(targets, largest_error, steps)
    chosen = least_error(form, targets, steps, _positive("per_step", per_step), delays)
    plan = _plan(chosen, targets, steps, per_step)
    if rmse is not None and plan.rmse > rmse:
        raise InvalidInput(
            f"an error of {rmse:,.4g} cannot be reached with these targets: the least is "
            f"{plan.rmse:,.4g}, with {plan.strategy!r}: allow larger losses"
        )
    if largest_error is not None and plan.largest_error > largest_error:
        least = plan.least_largest_error
        none = f", and none at all can stay below {least:g}" if least else ""
        raise InvalidInput(
            f"all {steps:,} errors below {largest_error:,.4g} cannot be promised: this mechanism "
            f"reaches {plan.largest_error:,.4g}{none}: allow larger losses"
        )
    return plan


def _refuse_impossible(targets: Mapping[int, float], largest_error: float, steps: int) -> None:
    least = least_largest_error(targets, steps)
    if largest_error <= least:
        raise InvalidInput(
            f"no mechanism at all can keep {steps:,} errors below {least:g} with these targets "
            f"(Andersson et al., Theorem 5.1): allow larger losses or a larger error than that"
        )


def _plan(chosen: Choice, targets: dict[int, float], steps: int, per_step: float) -> ExpirationPlan:
    return ExpirationPlan(
        strategy=chosen.strategy,
        guarantee=chosen.guarantee,
        targets=targets,
        steps=steps,
        per_step=float(per_step),
        noise_std=math.sqrt(chosen.noise_variance(steps)),
        baseline=RefillingBudget.best(targets, steps, gaussian=chosen.form is CONCENTRATED),
    )


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

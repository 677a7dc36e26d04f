"""Which growth, delay and epsilon keep the losses an operator states, with the least error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput
from counton.exact import Number, check_integer, exact, float_below
from counton.expiry import LARGEST_DELAY, Expiry
from counton.plans.expiration_errors import LargestError, TypicalError
from counton.plans.expiration_noise import CONCENTRATED, PURE
from counton.plans.expiration_search import Choice, Limit, Space, least_error, least_loss
from counton.plans.largest_error import PROBABILITY, least_largest_error
from counton.plans.largest_error import largest_error as noise_bound
from counton.plans.restarted import RestartedCounter
from counton.privacy import ExpiringDP, ExpiringZCDP, expiration_loss
from counton.privacy.expiration_loss import Analysis, checked_age, checked_ages
from counton.strategies import Expiring

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
        baseline: the restarted counter with the least error that keeps the same targets.

    >>> plan = plan_expiration({24: 1, 8760: 3})
    >>> plan.strategy.growth, plan.strategy.delay, float(plan.guarantee.epsilon)
    (Fraction(27, 25), 0, 0.18506)
    >>> plan.loss([1, 24, 8760, 87600]).round(3)
    array([0.37 , 1.   , 2.993, 3.689])
    """

    strategy: Expiring
    guarantee: ExpiringDP | ExpiringZCDP
    targets: Mapping[int, float]
    steps: int
    per_step: float
    noise_std: float
    baseline: RestartedCounter

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
        noise = noise_bound(self.strategy, self.guarantee, self.steps, PROBABILITY)
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
            promised = [self.guarantee.at_age(age) for age in checked_ages(ages)]
            return np.array([float(at.rho) if at else 0.0 for at in promised], np.float64)
        return float(self.guarantee.rho) * expiration_loss(self.strategy, ages, analysis)


def plan_expiration(
    targets: Mapping[int, Number] | None = None,
    *,
    rmse: Number | None = None,
    age: int | None = None,
    largest_error: Number | None = None,
    steps: int | None = None,
    per_step: Number = 1,
    delays: Iterable[int] | None = None,
    largest_growth: Number = 2,
    concentrated: bool = False,
) -> ExpirationPlan:
    """The expiring stream with the least error whose losses by age stay within targets.

    Say what may be lost, ``plan_expiration({24: 1, 8760: 3})`` for "at most 1 within a day and at
    most 3 within a year" of hourly steps, and the error is made smallest. Or say what error is
    wanted, ``plan_expiration(rmse=30, age=8760)``, and the loss at that age is made smallest.

    Args:
        targets: largest loss by age in steps. Beyond the largest age nothing is asked, and the
            loss grows on like log(age)^growth: state a target for the oldest age that matters.
        rmse: wanted root of the mean squared error, from noise and delay.
        age: without ``targets``: the age at which the loss is made smallest.
        largest_error: wanted bound on all errors up to ``steps``, with probability 2/3. With
            targets it is this bound, and no longer the rmse, that is made smallest; if both are
            wanted, the larger of their parts of what is wanted.
        steps: releases over which errors are taken; default: the largest age, at least 1,000.
        per_step: items a step is expected to have. A delay of B steps leaves B * per_step out.
        delays: delays to choose from; default: all that can pay off.
        largest_growth: growths to choose from are 0 to this, in hundredths. With more growth the
            error is smaller if only the first few releases of an item are limited, and what it
            loses later is close to its age.
        concentrated: all losses are rho of zero-concentrated privacy, and the noise is Gaussian.

    Raises:
        InvalidInput: targets that cannot be meant, or that no choice can keep together with the
            wanted error; the message says so where no mechanism at all can (Theorem 5.1).

    >>> plan = plan_expiration(rmse=30, age=8760)
    >>> plan.strategy.growth, plan.rmse <= 30, plan.loss([8760]).round(2).tolist()
    (Fraction(93, 100), True, [2.29])
    """
    wanted_rmse = None if rmse is None else _positive("rmse", rmse)
    wanted_largest = None if largest_error is None else _positive("largest_error", largest_error)
    if targets is not None and age is not None:
        raise InvalidInput(
            f"age is {age!r} and targets are given too: with targets the error is made smallest; "
            f"leave age out, or add it to the targets with a largest loss"
        )
    losses = {} if targets is None else _checked(targets)
    if targets is None and (age is None or (rmse is None and largest_error is None)):
        raise InvalidInput(
            "nothing to plan for: state targets, such as {24: 1, 8760: 3} (largest loss by "
            "age in steps), or an error (rmse or largest_error) and the age at which the loss "
            "should be small"
        )
    oldest = checked_age(age) if targets is None else max(losses)
    steps = max(oldest, _SHORTEST_AVERAGE) if steps is None else check_integer("steps", steps, 1)
    space = Space(
        form=CONCENTRATED if concentrated else PURE,
        per_step=_positive("per_step", per_step),
        largest_growth=Expiry(exact(largest_growth, "largest_growth")).growth,
        delays=None if delays is None else _checked_delays(delays),
        steps=steps,
    )
    limits = [
        *([] if wanted_rmse is None else [Limit(TypicalError(steps), wanted_rmse)]),
        *([] if wanted_largest is None else [Limit(LargestError(steps), wanted_largest)]),
    ]
    if targets is None:
        chosen = least_loss(space, oldest, limits)
        return _plan(chosen, {oldest: chosen.loss_at(oldest)}, space)
    if wanted_largest is not None and not concentrated and space.per_step >= 1:
        _refuse_impossible(losses, wanted_largest, steps)
    chosen = least_error(space, losses, limits or [Limit(TypicalError(steps), 1.0)])
    plan = _plan(chosen, losses, space)
    _refuse_unreached(plan, wanted_rmse, wanted_largest)
    return plan


def _refuse_impossible(targets: Mapping[int, float], largest_error: float, steps: int) -> None:
    least = least_largest_error(targets, steps)
    if largest_error <= least:
        raise InvalidInput(
            f"no mechanism at all can keep {steps:,} errors below {least:g} with these targets "
            f"(Andersson et al., Theorem 5.1): allow larger losses or a larger error than that"
        )


def _refuse_unreached(
    plan: ExpirationPlan, rmse: float | None, largest_error: float | None
) -> None:
    least = "the least" if rmse is None or largest_error is None else "the nearest to both wanted"
    if rmse is not None and plan.rmse > rmse:
        raise InvalidInput(
            f"an error of {rmse:,.4g} cannot be reached with these targets: {least} is "
            f"{plan.rmse:,.4g}, with {plan.strategy!r}: allow larger losses"
        )
    if largest_error is not None and plan.largest_error > largest_error:
        bound = plan.least_largest_error
        none = f"; no mechanism at all can stay below {bound:g}" if bound else ""
        raise InvalidInput(
            f"all {plan.steps:,} errors below {largest_error:,.4g} cannot be promised with these "
            f"targets: {least} is {plan.largest_error:,.4g}, with {plan.strategy!r}{none}: allow "
            f"larger losses"
        )


def _plan(chosen: Choice, targets: dict[int, float], space: Space) -> ExpirationPlan:
    return ExpirationPlan(
        strategy=chosen.strategy,
        guarantee=chosen.guarantee,
        targets=targets,
        steps=space.steps,
        per_step=space.per_step,
        noise_std=chosen.noise(TypicalError(space.steps)),
        baseline=RestartedCounter.best(targets, space.steps, gaussian=space.form.gaussian),
    )


def _positive(name: str, value: Number) -> float:
    """A float that is not above the number that is meant."""
    number = exact(value, name)
    if number <= 0:
        raise InvalidInput(f"{name} is {value!r}; it must be a number above 0")
    near = float(number)
    return near if Fraction(str(near)) <= number else float_below(number)


def _checked(targets: object) -> dict[int, float]:
    """Targets in order of age."""
    if not isinstance(targets, Mapping) or not targets:
        raise InvalidInput(
            f"targets are {targets!r}; give a largest loss for at least one age in steps, such as "
            f"{{24: 1, 8760: 3}}"
        )
    ages = {checked_age(age): _positive("a largest loss", loss) for age, loss in targets.items()}
    return dict(sorted(ages.items()))


def _checked_delays(delays: object) -> Sequence[int]:
    """Delays in order; a range may be long, and is not counted out."""
    if not isinstance(delays, Iterable) or isinstance(delays, str):
        listed: Sequence[object] = ()
    else:
        listed = delays if isinstance(delays, range) else [*delays]
    if not listed:
        raise InvalidInput(
            f"delays are {delays!r}; give the delays in steps to choose from, such as [0, 24] or "
            f"range(25)"
        )
    if isinstance(listed, range):
        listed = listed if listed.step > 0 else listed[::-1]
        check_integer("a delay", listed[0], 0, LARGEST_DELAY)
        return listed
    return sorted(check_integer("a delay", delay, 0, LARGEST_DELAY) for delay in listed)

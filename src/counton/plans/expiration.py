"""Which growth, delay and epsilon keep the losses an operator states, with the least error."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.columns import html
from counton.errors import InvalidInput
from counton.exact import Number, check_integer, exact, figures, float_below, quote
from counton.expiry import LARGEST_DELAY, Expiry, checked_age, checked_ages
from counton.laws import Family
from counton.plans.expiration_search import (
    CONCENTRATED,
    PROBABILITY,
    PURE,
    ExpirationDesign,
    Limit,
    Space,
    TypicalError,
    WorstError,
    largest_noise,
    least_error,
    least_loss,
)
from counton.plans.restarted import RestartedCounter
from counton.privacy import Contribution, ExpiringDP, ExpiringZCDP, expiration_loss
from counton.privacy.loss_by_age import Analysis
from counton.strategies import Expiring

#: Fewer steps than this say little about an endless stream.
_SHORTEST_AVERAGE = 1000
#: Growths whose best choices are shown beside the best of all, this far apart.
_BETWEEN = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class ExpirationChoice:
    """A growth and a delay with the epsilon, or rho, that keeps what was asked.

    Attributes:
        rank: 1 for what was made smallest.
        strategy, guarantee: to be given to ``Counter``.
        steps: releases over which errors are taken.
        per_step: items a step is expected to have; what a delay costs.
        noise_std: root of the mean variance of the noise over ``steps``.

    >>> from counton import plan
    >>> best = plan(expire={24: 1, 8760: 3}).best
    >>> best.strategy.growth, best.strategy.delay, float(best.guarantee.epsilon)
    (Fraction(27, 25), 0, 0.18506)
    >>> best.loss([1, 24, 8760, 87600]).round(3)
    array([0.37 , 1.   , 2.993, 3.689])
    """

    rank: int
    strategy: Expiring
    guarantee: ExpiringDP | ExpiringZCDP
    steps: int
    per_step: float
    noise_std: float

    @property
    def family(self) -> Family:
        """Kind of noise."""
        return "gaussian" if isinstance(self.guarantee, ExpiringZCDP) else "laplace"

    @property
    def parameter(self) -> Fraction:
        """Epsilon, or rho, of the guarantee."""
        promised = self.guarantee
        return promised.rho if isinstance(promised, ExpiringZCDP) else promised.epsilon

    @property
    def rmse(self) -> float:
        """Root of the mean squared error, from noise and from items still held back."""
        return math.hypot(self.noise_std, self.per_step * self.strategy.delay)

    @property
    def largest_error(self) -> float:
        """All releases up to ``steps`` stay closer than this to the truth with probability 2/3."""
        noise = largest_error(self.strategy, self.guarantee, self.steps, PROBABILITY)
        return noise + self.per_step * self.strategy.delay

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


@dataclass(frozen=True, slots=True, repr=False)
class ExpirationPlan:
    """The best growth, delay and epsilon or rho, and the best for some other growths.

    Attributes:
        aim: what was made smallest, in words.
        choices: best first; the others have growths 0, 1/2, 1, ...
        targets: the losses by age that all of them keep.
        baseline: the restarted counter with the least error that keeps the same targets.

    >>> from counton import plan
    >>> plan = plan(expire={24: 1, 8760: 3})
    >>> [float(choice.strategy.growth) for choice in plan.choices]
    [1.08, 1.0, 1.5, 0.5, 0.0, 2.0]
    >>> print(plan)
    least typical error over 8,760 steps first
    losses:    at most 1 up to age 24, 3 up to age 8760
    protected: one unit added or removed, counted in one cell of one step by at most 1
       strategy ...
    1  Expiring(growth='1.08', delay=0, levels=None)  ...
    """

    aim: str
    choices: tuple[ExpirationChoice, ...]
    targets: Mapping[int, float]
    baseline: RestartedCounter

    @property
    def best(self) -> ExpirationChoice:
        """The choice with the least error, or the least loss."""
        return self.choices[0]

    @property
    def guarantee(self) -> ExpiringDP | ExpiringZCDP:
        """What the best choice promises."""
        return self.best.guarantee

    @property
    def contribution(self) -> Contribution:
        """The protected unit that errors are stated for: one item, which counts once, by 1."""
        return Contribution.add_remove()

    @property
    def unit(self) -> str:
        """What losses are counted in: "epsilon" or "rho"."""
        return "rho" if isinstance(self.guarantee, ExpiringZCDP) else "epsilon"

    @property
    def baseline_rmse(self) -> float:
        """Root of the mean squared error of ``baseline``."""
        return math.sqrt(self.baseline.mean_variance(self.best.steps))

    @property
    def least_largest_error(self) -> float | None:
        """What no mechanism with the same targets can stay below; 0 if no such bound is known.

        It holds for streams of 0 and 1. None where it says nothing about the plan: under
        zero-concentrated privacy, and for ``per_step`` below 1, which excludes most such streams.
        """
        if isinstance(self.guarantee, ExpiringZCDP) or self.best.per_step < 1:
            return None
        return least_largest_error(self.targets, self.best.steps)

    def table(self) -> Any:
        """The same rows as `rows`, as a polars data frame.

        Raises:
            MissingExtra: polars is not installed; `rows` needs none.
        """
        from counton.columns import data_frame_of_rows

        return data_frame_of_rows(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """One row a choice: rank, strategy, noise, epsilon or rho, errors, and loss at each age.

        Errors are in items. The last column is the loss at ten times the largest age, of which
        nothing was asked.
        """
        ages = [*self.targets, 10 * max(self.targets) or 10]
        return [
            {
                "rank": choice.rank,
                "strategy": repr(choice.strategy),
                "noise": choice.family,
                self.unit: float(choice.parameter),
                "rmse": choice.rmse,
                "largest_error": choice.largest_error,
                **{
                    f"loss_at_{age}": float(loss)
                    for age, loss in zip(ages, choice.loss(ages), strict=True)
                },
            }
            for choice in self.choices
        ]

    def describe(self) -> str:
        """What was asked and what was found, in words."""
        limits = ", ".join(f"{loss:g} up to age {age}" for age, loss in self.targets.items())
        return (
            f"{self.aim} over {self.best.steps:,} steps first\n"
            f"losses:    at most {limits}\nprotected: {self.contribution}"
        )

    def __repr__(self) -> str:
        return f"ExpirationPlan(best={self.best!r}, choices={len(self.choices)})"

    def __str__(self) -> str:
        lines = [("", "strategy", self.unit, "rmse", "largest error")] + [
            (
                str(choice.rank),
                repr(choice.strategy),
                f"{float(choice.parameter):g}",
                f"{figures(choice.rmse)}",
                f"{figures(choice.largest_error)}",
            )
            for choice in self.choices
        ]
        wide = [max(len(line[place]) for line in lines) for place in range(5)]
        return "\n".join(
            [
                self.describe(),
                *(
                    "  ".join(
                        cell.ljust(width) if place == 1 else cell.rjust(width)
                        for place, (cell, width) in enumerate(zip(line, wide, strict=True))
                    )
                    for line in lines
                ),
            ]
        )

    def _repr_html_(self) -> str:
        rows = self.rows()
        return html(
            self.describe(), {name: np.array([row[name] for row in rows]) for name in rows[0]}
        )


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
    """`counton.plan` of a stream whose protection fades."""
    wanted_rmse = None if rmse is None else _positive("rmse", rmse)
    wanted_largest = None if largest_error is None else _positive("largest_error", largest_error)
    if targets is not None and age is not None:
        raise InvalidInput(
            f"age is {quote(age)} and expire is given too: with expire the error is made "
            f"smallest; leave age out, or add it to expire with a largest loss"
        )
    losses = {} if targets is None else _check_targets(targets)
    if targets is None and (age is None or (rmse is None and largest_error is None)):
        raise InvalidInput(
            "nothing to plan for: give expire, such as {24: 1, 8760: 3} (largest loss by "
            "age in steps), or an error (rmse or largest_error) and the age for a small loss"
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
        *([] if wanted_largest is None else [Limit(WorstError(steps), wanted_largest)]),
    ]
    if targets is None:
        best = least_loss(space, oldest, limits)
        plan = _plan(
            f"least loss at age {oldest:,}",
            best,
            _beside(space, best, lambda narrow: least_loss(narrow, oldest, limits)),
            lambda choice: float(choice.loss([oldest])[0]),
            {oldest: best.loss_at(oldest)},
            space,
        )
    else:
        if wanted_largest is not None and not concentrated and space.per_step >= 1:
            _refuse_impossible(losses, wanted_largest, steps)
        aims = limits or [Limit(TypicalError(steps), 1.0)]
        typical = wanted_largest is None or wanted_rmse is not None
        best = least_error(space, losses, aims)
        plan = _plan(
            "least typical error" if typical else "least largest error",
            best,
            _beside(space, best, lambda narrow: least_error(narrow, losses, aims)),
            lambda choice: choice.rmse if typical else choice.largest_error,
            losses,
            space,
        )
        _refuse_unreached(plan, wanted_rmse, wanted_largest)
    return plan


def _beside(
    space: Space, best: ExpirationDesign, search: Callable[[Space], ExpirationDesign]
) -> list[ExpirationDesign]:
    """The best of some growths other than the best one, where there is one."""
    others = []
    for count in range(space.largest_growth // _BETWEEN + 1):
        growth = count * _BETWEEN
        if growth != best.expiry.growth:
            try:
                others.append(search(replace(space, growth=growth)))
            except InvalidInput:  # no delay of those asked for leaves room for its noise
                continue
    return others


def _plan(
    aim: str,
    best: ExpirationDesign,
    others: Sequence[ExpirationDesign],
    cost: Callable[[ExpirationChoice], float],
    targets: dict[int, float],
    space: Space,
) -> ExpirationPlan:
    def choice(found: ExpirationDesign) -> ExpirationChoice:
        return ExpirationChoice(
            rank=1,
            strategy=found.strategy,
            guarantee=found.guarantee,
            steps=space.steps,
            per_step=space.per_step,
            noise_std=found.noise(TypicalError(space.steps)),
        )

    ranked = [choice(best), *sorted(map(choice, others), key=cost)]
    return ExpirationPlan(
        aim=aim,
        choices=tuple(replace(each, rank=rank) for rank, each in enumerate(ranked, 1)),
        targets=targets,
        baseline=RestartedCounter.best(targets, space.steps, gaussian=space.form.gaussian),
    )


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
    best = plan.best
    if rmse is not None and best.rmse > rmse:
        raise InvalidInput(
            f"an error of {figures(rmse)} cannot be reached with these targets: {least} is "
            f"{figures(best.rmse)}, with {best.strategy!r}: allow larger losses"
        )
    if largest_error is not None and best.largest_error > largest_error:
        bound = plan.least_largest_error
        none = f"; no mechanism at all can stay below {bound:g}" if bound else ""
        raise InvalidInput(
            f"all {best.steps:,} errors below {figures(largest_error)} cannot be promised with "
            f"these targets: {least} is {figures(best.largest_error)}, with "
            f"{best.strategy!r}{none}: allow larger losses"
        )


def _positive(name: str, value: Number) -> float:
    """A float that is not above the number that is meant."""
    number = exact(value, name)
    if number <= 0:
        raise InvalidInput(f"{name} is {quote(value)}; it must be a number above 0")
    near = float(number)
    return near if Fraction(str(near)) <= number else float_below(number)


def _check_targets(targets: object) -> dict[int, float]:
    """Targets in order of age."""
    if not isinstance(targets, Mapping) or not targets:
        raise InvalidInput(
            f"expire is {quote(targets)}; give a largest loss for at least one age in steps, such "
            f"as {{24: 1, 8760: 3}}"
        )
    ages = {checked_age(age): _positive("a largest loss", loss) for age, loss in targets.items()}
    return dict(sorted(ages.items()))


def _checked_delays(delays: object) -> Sequence[int]:
    """Delays in order; a range may be long, and is not counted out."""
    if not isinstance(delays, Iterable) or isinstance(delays, str):
        listed: Sequence[object] = ()
    else:
        listed = delays if isinstance(delays, range) else [*delays]
    whole = isinstance(listed, range) or all(isinstance(one, int | np.integer) for one in listed)
    if not listed or not whole:
        raise InvalidInput(
            f"delays are {quote(delays)}; give one or more in steps to choose from, such as "
            f"[0, 24] or range(25)"
        )
    if isinstance(listed, range):
        listed = listed if listed.step > 0 else listed[::-1]
        check_integer("a delay", listed[0], 0, LARGEST_DELAY)
        return listed
    return sorted(check_integer("a delay", delay, 0, LARGEST_DELAY) for delay in listed)


# ------------------------------------------------------------------------------ largest errors


def allowed_loss(targets: Mapping[int, float], age: int) -> float:
    """The most an item of this age may have lost: the least target at this age or later."""
    return min((loss for at, loss in targets.items() if at >= age), default=math.inf)


def least_largest_error(targets: Mapping[int, float], steps: int) -> float:
    """No mechanism at all keeps every one of ``steps`` releases closer than this to the truth.

    For streams of 0 and 1, with probability 2/3: the largest error, in halves, that the theorem
    rules out; 0 if it rules out none. It says nothing about larger ones.

    Source: Andersson et al., "Continual Counting with Gradual Privacy Expiration", Theorem 5.1:
    errors strictly below C < steps / 2 at all steps need
    sum_{d = 0}^{2C - 1} g(d) >= ln(steps / (6 C)). Its proof compares streams with a block of 2C
    ones; so 2C has to be an integer, and C need not be.

    Args:
        targets: largest loss by age. Beyond the largest age nothing is asked.
        steps: length of the stream.

    >>> least_largest_error({24: 0.1, 8760: 0.3}, steps=10**6)
    23.0
    """
    steps = check_integer("steps", steps, 1)

    def open_to(block: int) -> bool:
        """Whether errors below half of this are not ruled out; beyond rounding errors."""
        return _sum_below(targets, block) * (1 + 1e-12) >= math.log(steps / (3 * block))

    # Larger errors allow more loss and need less of it: the first that fits is found by halving.
    return bisect_left(range(1, min(steps, max(targets) + 2)), True, key=open_to) / 2


def _sum_below(targets: Mapping[int, float], end: int) -> float:
    """Sum of what an item may have lost over the ages 0..end - 1."""
    total, age = 0.0, 0
    for at in sorted(targets):
        total += allowed_loss(targets, at) * (min(at + 1, end) - age)
        age = min(at + 1, end)
    return total if age == end else math.inf


def largest_error(
    strategy: Expiring, guarantee: ExpiringDP | ExpiringZCDP, steps: int, probability: float
) -> float:
    """All noise up to ``steps`` stays below this with at least the given probability.

    Chernoff's bound for the sum of the noises at each step, and a union bound over steps.

    >>> round(largest_error(Expiring(2), ExpiringDP(0.5), steps=1000, probability=2 / 3), 1)
    24.1

    Raises:
        InvalidInput: a probability outside (0, 1).
    """
    if not 0 < probability < 1:
        raise InvalidInput(f"probability is {probability}; it must be between 0 and 1")
    if isinstance(guarantee, ExpiringZCDP):
        unit = largest_noise(strategy.expiry, steps, probability, gaussian=True)
        return unit / math.sqrt(guarantee.rho)
    return largest_noise(strategy.expiry, steps, probability, gaussian=False) / float(
        guarantee.epsilon
    )

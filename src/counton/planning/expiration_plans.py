"""Plans of streams whose protection weakens with the age of data.

A requirement states the largest privacy loss of an item at some ages, in steps. A plan finds the
growth and delay of `Expiring`, and the epsilon or rho, that give the least error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from counton.base.errors import InvalidInput, field
from counton.base.exact import Number, check_integer, exact, figures, float_below, percent, quote
from counton.base.expiry import LARGEST_DELAY, Expiry, checked_age
from counton.frame.options import known_arguments
from counton.numbers.design import Design
from counton.planning.expiration_search import (
    CONCENTRATED,
    PURE,
    Limit,
    Space,
    TypicalError,
    WorstError,
    least_error,
    least_loss,
)
from counton.planning.lower_bounds import least_largest_error
from counton.planning.planner import Plan, off_in_words, worst_step
from counton.privacy import ZCDP, ExpiringDP, ExpiringZCDP
from counton.strategies import Expiring

if TYPE_CHECKING:
    from counton.planning.least_privacy import Loss

#: Smallest default number of steps over which errors are averaged.
_SHORTEST_AVERAGE = 1000
#: Difference of the growths whose best designs are shown beside the best of all.
_BETWEEN = Fraction(1, 2)


@dataclass(frozen=True, repr=False, kw_only=True)
class FadingPlan(Plan[Design[Expiring]]):
    """Plan of a stream whose protection weakens with age: the best design, and the best ones with
    growths 0, 1/2, 1 and so on.

    An item's loss grows like log(age)^growth; the delay is the number of latest steps that a
    release leaves out.

    Attributes:
        targets: the largest allowed privacy loss by age, which all designs keep.

    >>> from counton import plan_expiring
    >>> found = plan_expiring({24: 1, 8760: 3})
    >>> [float(choice.strategy.growth) for choice in found.choices]
    [1.08, 1.0, 1.5, 0.5, 0.0, 2.0]
    >>> print(found)
    epsilon at most 1 up to age 24 and 3 up to age 8,760: a total is off by at most 16 in ...
    protected: one unit added or removed, counted in one cell of one step by at most 1
       strategy ...
    1  Expiring(growth='1.08', delay=0, levels=None)  ...
    >>> best = found.best
    >>> best.strategy.growth, best.strategy.facts.delay, float(best.guarantee.epsilon)
    (Fraction(27, 25), 0, 0.18506)
    >>> best.errors.loss([1, 24, 8760, 87600]).round(3)
    array([0.37 , 1.   , 2.993, 3.689])
    """

    targets: Mapping[int, float]

    def halfwidth(self, step: int, level: float = 0.95) -> float:
        """Return the half-width of the count at a step with the best design.

        Items that a delay leaves out are not included.
        """
        return self.best.errors.halfwidth(step, level)

    def in_words(self, level: float = 0.95) -> str:
        """Return a sentence with the largest losses by age, and the error of a total at the first,
        the last, and a worse step.
        """
        limits = " and ".join(f"{loss:g} up to age {age:,}" for age, loss in self.targets.items())
        worst = worst_step(self.best.errors, self.steps)
        steps = dict.fromkeys((1, self.steps, *([] if worst is None else [worst])))
        halves = {step: self.halfwidth(step, level) for step in steps}
        delay = self.best.strategy.facts.delay
        held = f", besides what came in the newest {delay:,} steps" if delay else ""
        off = off_in_words("a total", halves, worst=worst, ends=False)
        return f"{self.unit} at most {limits}: {off}, in {percent(level)} of 100{held}"

    @override
    def head(self, *, full: bool = False) -> list[str]:
        return [self.in_words(), *self.words[0 if full else 2 :]]

    @property
    def unit(self) -> str:
        """The unit of the losses: "epsilon" or "rho"."""
        return "rho" if self.best.family == "gaussian" else "epsilon"

    @property
    def steps(self) -> int:
        """Number of releases over which errors are averaged, or of which the largest is taken."""
        return self.best.errors.steps

    @property
    def least_largest_error(self) -> float | None:
        """Lower bound on the largest error of any mechanism with these targets.

        The error is the largest over all ``steps`` releases, on the worst stream of zeros and ones;
        0 if the theorem gives none, None for losses in rho, or if less than one item per step is
        expected, since the worst stream may have more.
        """
        if self.unit == "rho" or self.best.errors_of.per_step < 1:
            return None
        return least_largest_error(self.targets, self.steps)

    @override
    def rows(self) -> list[dict[str, Any]]:
        """Return one row for each choice; the last column is the loss at ten times the largest age,
        for which there is no target.
        """
        ages = [*self.targets, 10 * max(self.targets) or 10]
        return [
            {
                "rank": rank,
                "strategy": repr(choice.strategy),
                "noise": choice.family,
                self.unit: float(getattr(choice.guarantee, self.unit)),
                "rmse": choice.errors.rmse,
                "largest_error": choice.errors.largest_error(),
                **{
                    f"loss_at_{age}": float(loss)
                    for age, loss in zip(ages, choice.errors.loss(ages), strict=True)
                },
            }
            for rank, choice in enumerate(self.choices, 1)
        ]


@known_arguments
def plan_expiring(
    epsilon: Mapping[int, Number] | None = None,
    *,
    rho: Mapping[int, Number] | None = None,
    age: int | None = None,
    least: Loss = "epsilon",
    rmse: Number | None = None,
    largest_error: Number | None = None,
    steps: int | None = None,
    per_step: Number = 1,
    delays: Iterable[int] | None = None,
    largest_growth: Number = 2,
) -> FadingPlan:
    """Plan a stream without an end whose protection weakens with the age of data.

    ``plan_expiring({24: 1, 8760: 3})`` finds the growth, delay and epsilon of least error with
    which an item's loss is at most 1 up to age 24, and 3 up to age 8760. ``plan_expiring(age=8760,
    rmse=30)`` finds the least loss for a wanted error.

    Args:
        epsilon: the largest loss by age in steps. Beyond the largest age there is no limit, and the
            loss goes on growing like log(age)^growth: state a limit for the oldest age that
            matters.
        rho: instead, the largest loss in rho; the noise is then Gaussian.
        age: without losses, the age at which the loss is minimised.
        least: with ``age``, minimise "epsilon" or "rho".
        rmse: wanted root of the mean squared error of noise and delay.
        largest_error: wanted bound on all errors up to ``steps`` together, with probability 2/3.
            With losses, the plan minimises it instead of the rmse, or the larger ratio to both
            wanted errors.
        steps: number of releases of the errors; default: the largest age, at least 1,000.
        per_step: expected items of a step; a delay leaves out delay * per_step, as an error.
        delays: delays to choose from; default: all that can lower the error.
        largest_growth: multiples of 1/100 are tried up to it. A larger growth lowers the error if
            losses are limited only at small ages; losses at greater ages become very large.

    Raises:
        InvalidInput: no design keeps the losses with the wanted error (the message tells whether
            any mechanism could).

    >>> best = plan_expiring(age=8760, rmse=30).best
    >>> best.strategy.growth, best.errors.rmse <= 30, best.errors.loss([8760]).round(2).tolist()
    (Fraction(93, 100), True, [2.29])
    >>> plan_expiring(rho={24: "0.1"}).best.family
    'gaussian'
    """
    if epsilon is not None and rho is not None:
        raise InvalidInput(
            f"{field('epsilon')} and {field('rho')} measure the privacy loss in two ways: give "
            "only one of them"
        )
    targets = epsilon if rho is None else rho
    if least not in ("epsilon", "rho"):
        raise InvalidInput(f"{field('least', least)} is not known; give 'epsilon' or 'rho'")
    if targets is not None and least != "epsilon":
        raise InvalidInput(
            f"{field('least', least)} needs {field('age')}, the age at which the loss is made "
            f"small: give it, or leave {field('least')} out"
        )
    concentrated = rho is not None or least == "rho"
    wanted_rmse = None if rmse is None else _positive("rmse", rmse)
    wanted_largest = None if largest_error is None else _positive("largest_error", largest_error)
    if targets is not None and age is not None:
        raise InvalidInput(
            f"age is {quote(age)}, but losses are given too. With losses, the plan finds the least "
            "error: leave age out. With age, it finds the least loss: give a largest error, and no "
            "losses"
        )
    losses = {} if targets is None else _check_targets(targets)
    if targets is None and (age is None or (rmse is None and largest_error is None)):
        raise InvalidInput(
            "losses and errors are both missing: give losses, such as epsilon={24: 1, 8760: 3} "
            "(the largest loss by age in steps), or an error (rmse or largest_error) and the age "
            "at which the loss is made small"
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
            _best_of_other_growths(space, best, lambda narrow: least_loss(narrow, oldest, limits)),
            lambda choice: float(choice.errors.loss([oldest])[0]),
            {oldest: _loss_at(best, oldest)},
        )
    else:
        if wanted_largest is not None and not concentrated and space.per_step >= 1:
            possible = least_largest_error(losses, steps)
            if wanted_largest <= possible:
                raise InvalidInput(
                    f"no mechanism at all can keep {steps:,} errors below {possible:g} with "
                    "these losses (Andersson et al., Theorem 5.1): allow larger losses or a larger "
                    "error"
                )
        aims = limits or [Limit(TypicalError(steps), 1.0)]
        typical = wanted_largest is None or wanted_rmse is not None
        best = least_error(space, losses, aims)
        plan = _plan(
            "least typical error" if typical else "least largest error",
            best,
            _best_of_other_growths(space, best, lambda narrow: least_error(narrow, losses, aims)),
            lambda choice: choice.errors.rmse if typical else choice.errors.largest_error(),
            losses,
        )
        _refuse_unreached(plan, wanted_rmse, wanted_largest)
    return plan


def _loss_at(design: Design, age: int) -> float:
    """Return the epsilon or rho of an item of this age, rounded up."""
    assert isinstance(design.guarantee, ExpiringDP | ExpiringZCDP)
    promised = design.guarantee.at_age(age)
    if promised is None:
        return 0.0
    return float(promised.rho if isinstance(promised, ZCDP) else promised.epsilon)


def _best_of_other_growths(
    space: Space, best: Design[Expiring], search: Callable[[Space], Design[Expiring]]
) -> list[Design[Expiring]]:
    """Return the best design for each growth of 0, 1/2, 1, ..., but the best of all."""
    others = []
    for count in range(space.largest_growth // _BETWEEN + 1):
        growth = count * _BETWEEN
        if growth != best.strategy.growth:
            try:
                others.append(search(replace(space, growth=growth)))
            except InvalidInput:  # no wanted delay leaves room for the noise of this growth
                continue
    return others


def _plan(
    aim: str,
    best: Design[Expiring],
    others: Sequence[Design[Expiring]],
    cost: Callable[[Design], float],
    targets: dict[int, float],
) -> FadingPlan:
    unit = "rho" if best.family == "gaussian" else "epsilon"
    limits = ", ".join(f"{loss:g} up to age {age}" for age, loss in targets.items())
    return FadingPlan(
        choices=(best, *sorted(others, key=cost)),
        words=(
            f"{aim} over {best.errors.steps:,} steps first",
            f"losses:    at most {limits}",
            f"protected: {best.contribution}",
        ),
        shown=("strategy", unit, "rmse", "largest_error"),
        targets=targets,
    )


def _refuse_unreached(plan: FadingPlan, rmse: float | None, largest_error: float | None) -> None:
    least = "the least" if rmse is None or largest_error is None else "the nearest to both wanted"
    best = plan.best
    if rmse is not None and best.errors.rmse > rmse:
        raise InvalidInput(
            f"an error of {figures(rmse)} cannot be reached with these losses: {least} is "
            f"{figures(best.errors.rmse)}, with {best.strategy!r}: allow larger losses"
        )
    if largest_error is not None and best.errors.largest_error() > largest_error:
        bound = plan.least_largest_error
        none = f"; no mechanism at all can stay below {bound:g}" if bound else ""
        raise InvalidInput(
            f"all {plan.steps:,} errors below {figures(largest_error)} cannot be promised with "
            f"these losses: {least} is {figures(best.errors.largest_error())}, with "
            f"{best.strategy!r}{none}: allow larger losses"
        )


def _positive(name: str, value: Number) -> float:
    """Return an argument above 0 as a float, not rounded up."""
    number = exact(value, name)
    if number <= 0:
        raise InvalidInput(f"{name} is {quote(value)}; it must be a number above 0")
    near = float(number)
    return near if Fraction(str(near)) <= number else float_below(number)


def _check_targets(targets: object) -> dict[int, float]:
    if not isinstance(targets, Mapping) or not targets:
        raise InvalidInput(
            f"losses are {quote(targets)}; give the largest loss for at least one age in steps, "
            "such as {24: 1, 8760: 3}"
        )
    ages = {checked_age(age): _positive("a largest loss", loss) for age, loss in targets.items()}
    return dict(sorted(ages.items()))


def _checked_delays(delays: object) -> Sequence[int]:
    """Return the delays in ascending order; a range stays a range."""
    if not isinstance(delays, Iterable) or isinstance(delays, str):
        listed: Sequence[object] = ()
    else:
        listed = delays if isinstance(delays, range) else [*delays]
    whole = isinstance(listed, range) or all(isinstance(one, int | np.integer) for one in listed)
    if not listed or not whole:
        raise InvalidInput(
            f"delays are {quote(delays)}; give a list of delays in steps to choose from, such as "
            "[0, 24] or range(25)"
        )
    if isinstance(listed, range):
        listed = listed if listed.step > 0 else listed[::-1]
        check_integer("a delay", listed[0], 0, LARGEST_DELAY)
        return listed
    return sorted(check_integer("a delay", delay, 0, LARGEST_DELAY) for delay in listed)

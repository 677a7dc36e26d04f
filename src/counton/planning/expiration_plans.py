"""Plans of streams whose protection weakens with the age of data.

A requirement states the largest privacy loss of an item at some ages, in steps. A plan finds the
growth and delay of `Expiring`, and the epsilon or rho, that give the least error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from typing_extensions import override

from counton.base.arguments import known_arguments
from counton.base.errors import InvalidInputError, param
from counton.base.exact import Number, check_integer, exact, float_below, percent, quote, text
from counton.base.expiry import Expiry, checked_age
from counton.continual.design import Design
from counton.planning.expiration_search import (
    GAUSSIAN_FORMULAS,
    LAPLACE_FORMULAS,
    SearchSpace,
    least_error,
)
from counton.planning.plans import Plan, margin_in_words, worst_step
from counton.privacy.concentrated import checked_delta, rho_within
from counton.strategies import Expiring

#: Smallest default number of steps over which errors are averaged.
_FEWEST_AVERAGED_STEPS = 1000


@dataclass(frozen=True, repr=False, kw_only=True)
class FadingPlan(Plan[Design[Expiring]]):
    """Plan of a stream whose protection weakens with age: the best design.

    An item's loss grows like log(age)^growth; the delay is the number of latest steps that a
    release leaves out.

    Attributes:
        targets: the largest allowed privacy loss by age, which the design keeps.

    >>> from counton import plan_expiring
    >>> expiring = plan_expiring({24: 1, 8760: 3})
    >>> print(expiring)
    epsilon at most 1 up to age 24 and 3 up to age 8,760: a total has a margin of error of ...
    protected: one unit added or removed, counted in one cell of one step by at most 1
       strategy ...
    1  Expiring(growth='1.08', delay=0, levels=None)  ...
    >>> best = expiring.best
    >>> best.strategy.growth, best.strategy.facts.delay, float(best.guarantee.epsilon)
    (Fraction(27, 25), 0, 0.18506)
    >>> best.errors.loss([1, 24, 8760, 87600]).round(3)
    array([0.37 , 1.   , 2.993, 3.689])
    """

    targets: Mapping[int, float]

    def halfwidth(self, step: int, confidence_level: float = 0.95) -> float:
        """Return the half-width of the count at a step with the best design.

        Items that a delay leaves out are not included.

        Args:
            step: step of the release, from 1.
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.
        """
        return self.best.errors.halfwidth(step, confidence_level)

    def in_words(self, confidence_level: float = 0.95) -> str:
        """Return a sentence with the largest losses by age, and with errors of totals.

        Errors are half-widths at the first, the last, and a worse step.

        Args:
            confidence_level: coverage of the interval, above 0 and at most 1 - 1e-9.
        """
        limits = " and ".join(f"{loss:g} up to age {age:,}" for age, loss in self.targets.items())
        worst = worst_step(self.best.errors, self.steps, confidence_level)
        halves = {
            step: self.halfwidth(step, confidence_level) for step in {1, self.steps, worst or 1}
        }
        delay = self.best.strategy.facts.delay
        held = f", besides what came in the newest {delay:,} steps" if delay else ""
        margin_text = margin_in_words("a total", halves, worst=worst, ends=False)
        return (
            f"{self.unit} at most {limits}: {margin_text} "
            f"({percent(confidence_level)}% confidence){held}"
        )

    @override
    def head(self, *, full: bool = False) -> list[str]:
        return [self.in_words(), *self.words[0 if full else 2 :]]

    @property
    def unit(self) -> str:
        """The unit of the losses: "epsilon" or "rho"."""
        return "rho" if self.best.noise_kind == "gaussian" else "epsilon"

    @property
    def steps(self) -> int:
        """Number of releases over which errors are averaged, or of which the largest is taken."""
        return self.best.errors.steps

    @override
    def rows(self) -> list[dict[str, Any]]:
        """Return the design's row; the last column is the loss at ten times the largest age, for
        which there is no target.
        """
        ages = [*self.targets, 10 * max(self.targets) or 10]
        return [
            {
                "rank": rank,
                "strategy": repr(choice.strategy),
                "noise": choice.noise_kind,
                self.unit: float(choice.guarantee.losses[self.unit]),
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
    delta: Number | None = None,
    steps: int | None = None,
    per_step: Number = 1,
    largest_growth: Number = 2,
) -> FadingPlan:
    """Plan a stream without an end whose protection weakens with the age of data.

    ``plan_expiring({24: 1, 8760: 3})`` finds the growth, delay and epsilon of least error with
    which an item's loss is at most 1 up to age 24, and 3 up to age 8760.

    Args:
        epsilon: the largest loss by age in steps. Beyond the largest age there is no limit, and the
            loss goes on growing like log(age)^growth: state a limit for the oldest age that
            matters.
        rho: instead, the largest loss in rho; the noise is then Gaussian.
        delta: with ``epsilon``: the losses are those of (epsilon, delta), for each age alone. The
            noise is then Gaussian, and ``targets`` of the plan are in rho.
        steps: number of releases of the errors; default: the largest age, at least 1,000.
        per_step: expected items of a step; a delay leaves out delay * per_step, as an error.
        largest_growth: multiples of 1/100 are tried up to it. A larger growth lowers the error if
            losses are limited only at small ages; losses at greater ages become very large.

    Raises:
        InvalidInputError: no losses, or an argument is out of range.

    >>> plan_expiring(rho={24: "0.1"}).best.noise_kind
    'gaussian'
    >>> guarantee = plan_expiring({24: 1, 8760: 2}, delta=1e-6).best.guarantee
    >>> guarantee.epsilon_by_age([24, 8760], delta=1e-6).round(2)
    array([1., 2.])
    """
    if epsilon is not None and rho is not None:
        raise InvalidInputError(
            f"{param('epsilon')} and {param('rho')} measure the privacy loss in two ways: give "
            "only one of them"
        )
    losses = _check_targets(epsilon if rho is None else rho)
    limits = ", ".join(f"{loss:g} up to age {age}" for age, loss in losses.items())
    if delta is not None:
        if epsilon is None:
            raise InvalidInputError(
                f"{param('delta')} belongs to {param('epsilon')}: give losses in epsilon, or leave "
                f"{param('delta')} out"
            )
        probability = checked_delta(delta)
        limits += f" in epsilon, at delta = {text(probability)}"
        rho = {age: rho_within(Fraction(loss), probability) for age, loss in losses.items()}
        losses = _check_targets(rho)
    steps = (
        max([*losses, _FEWEST_AVERAGED_STEPS])
        if steps is None
        else check_integer("steps", steps, 1)
    )
    space = SearchSpace(
        formulas=LAPLACE_FORMULAS if rho is None else GAUSSIAN_FORMULAS,
        per_step=_positive("per_step", per_step),
        largest_growth=Expiry(exact(largest_growth, "largest_growth")).growth,
        steps=steps,
    )
    best = least_error(space, losses)
    unit = "epsilon" if rho is None else "rho"
    return FadingPlan(
        choices=(best,),
        words=(
            f"least typical error over {best.errors.steps:,} steps",
            f"losses:    at most {limits}",
            f"protected: {best.contribution}",
        ),
        shown=("strategy", unit, "rmse", "largest_error"),
        targets=losses,
    )


def _positive(name: str, value: Number) -> float:
    """Return an argument above 0 as a float, not rounded up."""
    number = exact(value, name)
    if number <= 0:
        raise InvalidInputError(f"{name} is {quote(value)}; it must be a number above 0")
    near = float(number)
    return near if Fraction(str(near)) <= number else float_below(number)


def _check_targets(targets: object) -> dict[int, float]:
    if not isinstance(targets, Mapping) or not targets:
        raise InvalidInputError(
            f"losses are {quote(targets)}; give the largest loss for at least one age in steps, "
            "such as {24: 1, 8760: 3}"
        )
    ages = {checked_age(age): _positive("a largest loss", loss) for age, loss in targets.items()}
    return dict(sorted(ages.items()))

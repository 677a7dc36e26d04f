"""The search for growth, delay and budget of a stream whose protection weakens with age.

It minimises the error for one kind of noise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from counton.base.expiry import LARGEST_DELAY, Expiry
from counton.continual.design import Design, design_for
from counton.continual.stream_errors import ErrorsOf
from counton.privacy import ContributionBound, ExpiringDP, ExpiringZCDP, expiration_loss
from counton.privacy.loss_by_age import Analysis, concentrated_loss, is_wide, loss_rounded_up
from counton.strategies import Expiring

#: Differences of the growths that are tried: at first, and then around the best of them.
_FIRST_GROWTH_STEP = Fraction(1, 4)
_FINER_GROWTH_STEPS = (Fraction(1, 20), Fraction(1, 100))


# ------------------------------------------------------------------------------ kinds of noise


class _LaplaceFormulas:
    """Formulas of streams with Laplace noise, of scale 1 / epsilon in single steps."""

    gaussian = False

    def noise_error(self, unit: float, parameter: float) -> float:
        """Return the error at an epsilon; ``unit`` is the error at an epsilon of 1."""
        return unit / parameter

    def approximate_parameter(self, growth: Fraction, age: int, loss: float) -> float:
        """Return about the largest epsilon of the mechanism at which an item's loss is at most
        ``loss``.

        ``age`` is the number of releases that have counted the item, less one.
        """
        return loss / _first_loss(growth, age, "exact")

    def loss(self, expiry: Expiry, parameter: Fraction, age: int) -> Fraction:
        return parameter * loss_rounded_up(expiry, age)

    def guarantee(self, parameter: Fraction) -> ExpiringDP:
        return ExpiringDP(parameter)


class _GaussianFormulas:
    """The same formulas for Gaussian noise, of variance 1 / (2 rho) in single steps.

    Discrete noise that is narrow loses more privacy than continuous noise, so other formulas give
    its loss.
    """

    gaussian = True

    def noise_error(self, unit: float, parameter: float) -> float:
        return unit / math.sqrt(parameter)

    def approximate_parameter(self, growth: Fraction, age: int, loss: float) -> float:
        rho = loss / _first_loss(growth, age, "concentrated")
        wide = is_wide(Expiry(growth), rho, age)
        return rho if wide else loss / _first_loss(growth, age, "exact")

    def loss(self, expiry: Expiry, parameter: Fraction, age: int) -> Fraction:
        return concentrated_loss(expiry, parameter, age)

    def guarantee(self, parameter: Fraction) -> ExpiringZCDP:
        return ExpiringZCDP(parameter)


NoiseFormulas = _LaplaceFormulas | _GaussianFormulas
LAPLACE_FORMULAS = _LaplaceFormulas()
GAUSSIAN_FORMULAS = _GaussianFormulas()


@cache
def _first_loss(growth: Fraction, age: int, analysis: Analysis) -> float:
    """Return about the largest loss of any item at an age, at an epsilon or rho of 1.

    It is that of the first item, which is quick. The final design is checked with exact losses.
    """
    return float(expiration_loss(Expiring(growth), [age], analysis, position=1)[0])


@cache
def _mean_variance(growth: Fraction, delay: int, steps: int, *, gaussian: bool) -> float:
    return Expiring(growth, delay).mean_variance(steps, gaussian=gaussian)


# --------------------------------------------------------------------------------- the search


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The growths and delays that the search tries, for one kind of noise.

    Attributes:
        per_step: expected items of a step, which each step of delay leaves out.
        steps: number of releases of the errors; delays are shorter.
    """

    formulas: NoiseFormulas
    per_step: float
    largest_growth: Fraction
    steps: int

    def design(self, expiry: Expiry, parameter: Fraction) -> Design[Expiring]:
        return design_for(
            Expiring(expiry.growth, expiry.delay),
            self.formulas.guarantee(parameter),
            ContributionBound.add_remove(),
            errors_of=ErrorsOf(steps=self.steps, per_step=self.per_step),
            strategy_family="expiring",
        )

    def growths(self) -> list[Fraction]:
        """Return the growths with which the search begins, ascending."""
        count = self.largest_growth // _FIRST_GROWTH_STEP
        return [*(n * _FIRST_GROWTH_STEP for n in range(count + 1)), self.largest_growth]

    def delays_up_to(self, most: float, targets: Iterable[int]) -> list[int]:
        """Return the delays to try: some that leave at most ``most`` items out."""
        # The selection contains the delays at which the number of releases that have counted an
        # item of a target's age falls below a power of two, because the loss drops there.
        last = max(targets)
        longest = int(min(most / self.per_step, last, self.steps - 1, LARGEST_DELAY))
        spread = np.unique(np.geomspace(1, longest + 1, 24).astype(int) - 1).tolist()
        edges = [age + 2 - 2**k for age in targets for k in range(1, 64)]
        return sorted({0, *spread, *(delay for delay in edges if 0 <= delay <= longest)})

    def search(self, score: Callable[[Fraction, int], float], delays: Sequence[int]) -> Expiry:
        """Find the growth and delay of least score, by a coarse and then a finer grid."""
        best = min((score(g, delay), g, delay) for delay in delays for g in self.growths())
        tried = list(delays)
        for step in _FINER_GROWTH_STEPS:
            near = [best[1] + n * step for n in range(-4, 5)]
            index = bisect_left(tried, best[2])
            low = tried[max(index - 1, 0)]
            high = tried[min(index + 1, len(tried) - 1)]
            growths = range(low, high + 1, max((high - low) // 8, 1))
            tried = sorted({low, best[2], high, *growths})
            best = min(
                (score(growth, delay), growth, delay)
                for delay in tried
                for growth in near
                if 0 <= growth <= self.largest_growth
            )
        return Expiry(best[1], best[2])


def least_error(space: SearchSpace, targets: Mapping[int, float]) -> Design[Expiring]:
    """Return the design with the smallest error that keeps the limits on loss by age.

    The error is the root of the mean squared error of noise and delay, as if noise were continuous.
    Delays are at most the largest age in ``targets``, since with a longer one no release has
    counted such items.
    """
    formulas = space.formulas

    def score(growth: Fraction, delay: int) -> float:
        parameter = min(
            formulas.approximate_parameter(growth, age - delay, loss)
            for age, loss in targets.items()
            if age >= delay
        )
        mean = _mean_variance(growth, delay, space.steps, gaussian=formulas.gaussian)
        noise = formulas.noise_error(
            math.sqrt(mean / 2 if formulas.gaussian else 2 * mean), parameter
        )
        # Noise has mean 0, so squares add up.
        return math.hypot(noise, space.per_step * delay)

    at_once = min(score(growth, 0) for growth in space.growths())
    expiry = space.search(score, space.delays_up_to(at_once, targets))
    return space.design(expiry, _largest_parameter(formulas, expiry, targets))


def _largest_parameter(
    formulas: NoiseFormulas, expiry: Expiry, targets: Mapping[int, float]
) -> Fraction:
    """Return the largest epsilon or rho of five digits that keeps all losses; ages below the delay
    are not checked, since no release has counted such items.
    """
    limits = {age: Fraction(str(loss)) for age, loss in targets.items() if age >= expiry.delay}

    def within_target(parameter: Fraction) -> bool:
        return all(formulas.loss(expiry, parameter, age) <= loss for age, loss in limits.items())

    least = min(loss / loss_rounded_up(expiry, age) for age, loss in limits.items())
    low = _five_digits(least, math.floor)  # keeps all targets; for epsilon the largest
    high = min(limits.values())  # an item loses the parameter at once
    if formulas is LAPLACE_FORMULAS or not low < high:
        return low
    while (middle := _five_digits((low + high) / 2, math.floor)) > low:
        low, high = (middle, high) if within_target(middle) else (low, middle)
    return low


def _five_digits(value: Fraction, towards: Callable[[Fraction], int]) -> Fraction:
    """Round to five significant digits, by ``math.floor`` or ``math.ceil``."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 4)
    return towards(value / unit) * unit

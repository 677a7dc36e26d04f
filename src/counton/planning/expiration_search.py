"""The search for the growth, delay and privacy budget of a stream whose protection weakens with
age.

The search tries growths and delays for one form of noise (Laplace with an epsilon, Gaussian with a
rho). It minimises an error, or the loss at one age.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from counton.base.errors import InvalidInput
from counton.base.expiry import LARGEST_DELAY, Expiry
from counton.numbers.design import Design, design_for
from counton.numbers.intervals import ErrorsOf, largest_noise
from counton.privacy import Contribution, ExpiringDP, ExpiringZCDP, expiration_loss
from counton.privacy.loss_by_age import Analysis, concentrated_loss, is_wide, loss_rounded_up
from counton.strategies import Expiring

#: Probability with which all errors of a plan stay below its largest error, as in Theorem 5.1.
PROBABILITY = 2 / 3
#: Differences of the growths that are tried: at first, and then around the best of them.
_COARSE, *_FINER = Fraction(1, 4), Fraction(1, 20), Fraction(1, 100)


# ------------------------------------------------------------------------------ forms of noise


class _Pure:
    """Formulas that relate epsilon, error and privacy loss of streams with Laplace noise whose
    protection weakens with age. The noise of single steps has scale 1 / epsilon.
    """

    gaussian = False

    def noise(self, unit: float, parameter: float) -> float:
        """Return the error from noise at epsilon ``parameter``; ``unit`` is the error at an epsilon
        of 1.
        """
        return unit / parameter

    def parameter_for(self, unit: float, noise: float) -> float:
        """Return the epsilon at which noise has the error ``noise``; ``unit`` is the error at an
        epsilon of 1.
        """
        return unit / noise

    def quick_parameter(self, growth: Fraction, age: int, loss: float) -> float:
        """Return approximately the largest epsilon at which the privacy loss of an item of this age
        is at most ``loss``.

        It is the epsilon of the mechanism, which decides the scale of its noise.

        Args:
            growth: the exponent in log(age)^growth, by which an item's privacy loss grows with its
                age.
            age: number of releases that have counted the item, less one.
            loss: the limit on the item's privacy loss.
        """
        return loss / _first_loss(growth, age, "exact")

    def quick_loss(self, growth: Fraction, age: int, parameter: float) -> float:
        """Return approximately the privacy loss (epsilon) of an item that has been counted by age +
        1 releases.

        ``parameter`` is the epsilon of the mechanism. The loss grows with the age about as
        log(age)^growth.
        """
        return parameter * _first_loss(growth, age, "exact")

    def loss(self, expiry: Expiry, parameter: Fraction, age: int) -> Fraction:
        return parameter * loss_rounded_up(expiry, age)

    def guarantee(self, parameter: Fraction) -> ExpiringDP:
        return ExpiringDP(parameter)


class _ConcentratedLoss:
    """Formulas that relate rho, error and privacy loss of streams with Gaussian noise whose
    protection weakens with age. The noise of single steps has variance 1 / (2 rho).

    It has the methods of `_Pure`, with rho in place of epsilon. Discrete noise that is narrow loses
    more privacy than continuous noise, so other formulas give the privacy loss of narrow noise.
    """

    gaussian = True

    def noise(self, unit: float, parameter: float) -> float:
        return unit / math.sqrt(parameter)

    def parameter_for(self, unit: float, noise: float) -> float:
        return (unit / noise) ** 2

    def quick_parameter(self, growth: Fraction, age: int, loss: float) -> float:
        rho = loss / _first_loss(growth, age, "concentrated")
        wide = is_wide(Expiry(growth), rho, age)
        return rho if wide else loss / _first_loss(growth, age, "exact")

    def quick_loss(self, growth: Fraction, age: int, parameter: float) -> float:
        wide = is_wide(Expiry(growth), parameter, age)
        return parameter * _first_loss(growth, age, "concentrated" if wide else "exact")

    def loss(self, expiry: Expiry, parameter: Fraction, age: int) -> Fraction:
        return concentrated_loss(expiry, parameter, age)

    def guarantee(self, parameter: Fraction) -> ExpiringZCDP:
        return ExpiringZCDP(parameter)


Form = _Pure | _ConcentratedLoss
PURE, CONCENTRATED = _Pure(), _ConcentratedLoss()


@cache
def _first_loss(growth: Fraction, age: int, analysis: Analysis) -> float:
    """Return approximately the largest privacy loss of any item at an age, at an epsilon or rho of
    1.

    It is the loss of the stream's first item, which is quick to compute. The final design is
    checked with exact losses.
    """
    return float(expiration_loss(Expiring(growth), [age], analysis, position=1)[0])


# -------------------------------------------------------------------------- measures of error


@dataclass(frozen=True, slots=True)
class TypicalError:
    """Root of the mean squared error over ``steps`` releases, computed as if noise were continuous.

    Items that a delay leaves out of a release count as an error too.
    """

    steps: int
    name = "a typical error"

    def noise(self, growth: Fraction, delay: int, gaussian: bool) -> float:
        """Return the error from noise alone, at an epsilon or rho of 1: the root of its mean
        variance.
        """
        mean = _mean_variance(growth, delay, self.steps, gaussian)
        return math.sqrt(mean / 2 if gaussian else 2 * mean)

    def error(self, noise: float, held: float) -> float:
        """Return the root of the mean squared error from noise and delay together.

        ``noise`` is the error from noise alone, ``held`` the number of items that a delay leaves
        out.
        """
        # Noise has mean 0, so squares add up.
        return math.hypot(noise, held)

    def room(self, error: float, held: float) -> float:
        """Return the largest error from noise alone at which the error from noise and delay
        together is at most ``error``.

        A delay leaves out ``held`` items. The result is 0 if the items left out alone make a larger
        error.
        """
        return math.sqrt(max(error**2 - held**2, 0.0))


@dataclass(frozen=True, slots=True)
class WorstError:
    """A bound that all errors of ``steps`` releases keep at once, with probability 2/3.

    It has the methods of `TypicalError`, with this bound in place of the root of the mean squared
    error.
    """

    steps: int
    name = "a largest error"

    def noise(self, growth: Fraction, delay: int, gaussian: bool) -> float:
        return largest_noise(Expiry(growth, delay), self.steps, PROBABILITY, gaussian=gaussian)

    def error(self, noise: float, held: float) -> float:
        return noise + held

    def room(self, error: float, held: float) -> float:
        return max(error - held, 0.0)


@cache
def _mean_variance(growth: Fraction, delay: int, steps: int, gaussian: bool) -> float:
    return Expiring(growth, delay).mean_variance(steps, gaussian=gaussian)


# --------------------------------------------------------------------------------- the search


class Limit(NamedTuple):
    """A measure of error, and the largest value that it may have."""

    measure: TypicalError | WorstError
    error: float


@dataclass(frozen=True, slots=True)
class Space:
    """The growths and delays that the search tries, for one kind of noise.

    Attributes:
        form: formulas for Laplace or for Gaussian noise.
        per_step: expected number of items in a step, which each step of delay leaves out of
            a release.
        largest_growth: growths from 0 to this are tried.
        delays: delays to choose from, in order; None for all that can lower the error.
        steps: the number of releases over which errors are taken; delays are shorter.
        growth: the only growth to try; None for all.
    """

    form: Form
    per_step: float
    largest_growth: Fraction
    delays: Sequence[int] | None
    steps: int
    growth: Fraction | None = None

    def design(self, expiry: Expiry, parameter: Fraction) -> Design[Expiring]:
        return design_for(
            Expiring(expiry.growth, expiry.delay),
            self.form.guarantee(parameter),
            Contribution.add_remove(),
            errors_of=ErrorsOf(steps=self.steps, per_step=self.per_step),
            kind="expiring",
        )

    def growths(self) -> list[Fraction]:
        """Return the growths with which the search begins, ascending. The growth is the exponent in
        log(age)^growth, the loss of an item by age.
        """
        if self.growth is not None:
            return [self.growth]
        count = self.largest_growth // _COARSE
        return [*(n * _COARSE for n in range(count + 1)), self.largest_growth]

    def delays_up_to(self, most: float, targets: Iterable[int]) -> list[int]:
        """Return the delays to try, in ascending order: those that the caller gave, or else a
        selection.

        A delay in the selection leaves at most ``most`` items out of a release. ``targets`` are the
        ages at which the privacy loss is limited.
        """
        # The selection contains the delays at which the number of releases that have counted an
        # item of a target's age falls below a power of two, because the loss drops there.
        last = max(targets)
        if self.delays is not None:
            allowed = [*takewhile(lambda delay: delay <= last, self.delays)]
            if not allowed:
                raise InvalidInput(
                    f"delays are {self.delays}; at least one of them must be from 0 to the largest "
                    f"age, {last:,}"
                )
            return allowed
        longest = int(min(most / self.per_step, last, self.steps - 1, LARGEST_DELAY))
        spread = np.unique(np.geomspace(1, longest + 1, 24).astype(int) - 1).tolist()
        edges = [age + 2 - 2**k for age in targets for k in range(1, 64)]
        return sorted({0, *spread, *(delay for delay in edges if 0 <= delay <= longest)})

    def search(self, score: Callable[[Fraction, int], float], delays: Sequence[int]) -> Expiry:
        """Find the growth and delay for which ``score(growth, delay)`` is least.

        They are the parameters of a stream whose privacy loss grows with age. The search tries a
        coarse grid, and then finer steps around the best point.
        """
        best = min((score(g, delay), g, delay) for delay in delays for g in self.growths())
        tried = list(delays)
        for step in _FINER:
            near = [best[1] + n * step for n in range(-4, 5)] if self.growth is None else [best[1]]
            place = bisect_left(tried, best[2])
            low, high = tried[max(place - 1, 0)], tried[min(place + 1, len(tried) - 1)]
            between = range(low, high + 1, max((high - low) // 8, 1))
            tried = sorted({low, best[2], high, *(between if self.delays is None else ())})
            best = min(
                (score(growth, delay), growth, delay)
                for delay in tried
                for growth in near
                if 0 <= growth <= self.largest_growth
            )
        return Expiry(best[1], best[2])


def least_error(
    space: Space, targets: Mapping[int, float], limits: Sequence[Limit]
) -> Design[Expiring]:
    """Return the design with the smallest error among all that keep the limits on privacy loss.

    Args:
        space: growths and delays to try. Delays are at most the largest age in ``targets``, since
            with a longer delay no release has counted items of these ages.
        targets: the largest allowed privacy loss by age in steps.
        limits: measures of error, each with a limit. The minimised error is the largest ratio of a
            measured error to its limit.
    """
    form = space.form

    def score(growth: Fraction, delay: int) -> float:
        parameter = min(
            form.quick_parameter(growth, age - delay, loss)
            for age, loss in targets.items()
            if age >= delay
        )
        held, parts = space.per_step * delay, []
        for measure, wanted in limits:
            noise = form.noise(measure.noise(growth, delay, form.gaussian), parameter)
            parts.append(measure.error(noise, held) / wanted)
        return max(parts)

    at_once = min(score(growth, 0) for growth in space.growths())
    most = at_once * min(wanted for _, wanted in limits)
    expiry = space.search(score, space.delays_up_to(most, targets))
    return space.design(expiry, _largest_parameter(form, expiry, targets))


def _largest_parameter(form: Form, expiry: Expiry, targets: Mapping[int, float]) -> Fraction:
    """Return the largest epsilon or rho of five digits at which the privacy loss at each age keeps
    its limit.

    Args:
        form: formulas for Laplace or for Gaussian noise.
        expiry: growth and delay of the stream.
        targets: the largest allowed privacy loss by age in steps. Ages below the delay are not
            checked, since no release has counted such items.
    """
    limits = {age: Fraction(str(loss)) for age, loss in targets.items() if age >= expiry.delay}

    def within_target(parameter: Fraction) -> bool:
        return all(form.loss(expiry, parameter, age) <= loss for age, loss in limits.items())

    least = min(loss / loss_rounded_up(expiry, age) for age, loss in limits.items())
    low = _five_digits(least, math.floor)  # keeps all targets; for epsilon the largest
    high = min(limits.values())  # an item loses the parameter at once
    if form is PURE or not low < high:
        return low
    while (middle := _five_digits((low + high) / 2, math.floor)) > low:
        low, high = (middle, high) if within_target(middle) else (low, middle)
    return low


def least_loss(space: Space, age: int, limits: Sequence[Limit]) -> Design[Expiring]:
    """Return the design with the least privacy loss at one age, among all designs whose errors keep
    their limits.

    Args:
        space: growths and delays to try.
        age: the age in steps.
        limits: measures of error, each with its largest allowed value.
    """
    form = space.form

    def parameter(growth: Fraction, delay: int) -> float:
        needed = 0.0
        for measure, wanted in limits:
            room = measure.room(wanted, space.per_step * delay)
            unit = measure.noise(growth, delay, form.gaussian)
            needed = max(needed, form.parameter_for(unit, room) if room else math.inf)
        return needed

    def loss(growth: Fraction, delay: int) -> float:
        needed = parameter(growth, delay)
        return needed if needed == math.inf else form.quick_loss(growth, age - delay, needed)

    expiry = space.search(loss, space.delays_up_to(min(e for _, e in limits), [age]))
    needed = parameter(expiry.growth, expiry.delay)
    if needed == math.inf:
        measure, wanted = min(limits, key=lambda limit: limit.error)
        raise InvalidInput(
            f"a delay of {expiry.delay:,} steps with {space.per_step:,.4g} items each uses up the "
            f"whole {measure.name} of {wanted:,.4g}: allow a smaller delay, or a larger error"
        )
    return space.design(expiry, _five_digits(Fraction(needed), math.ceil))


def _five_digits(value: Fraction, towards: Callable[[Fraction], int]) -> Fraction:
    """Round a number to five significant digits, down (``math.floor``) or up (``math.ceil``)."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 4)
    return towards(value / unit) * unit

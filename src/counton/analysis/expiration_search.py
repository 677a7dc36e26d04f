"""The search for growth, delay and epsilon, or rho, of an expiring stream."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Protocol

import numpy as np

from counton.errors import InvalidInput
from counton.expiry import Expiry
from counton.privacy import ExpiringDP, ExpiringZCDP, expiration_loss
from counton.privacy.discrete_gaussian_loss import concentrated_loss, is_wide
from counton.privacy.expiration_loss import Analysis, loss_above
from counton.strategies import Expiring

#: Growths that are tried, and the step of the refinement around the best of them.
_GROWTHS = tuple(Fraction(n, 4) for n in range(25))
_FINE = Fraction(1, 20)


class Form(Protocol):
    """What differs between epsilon with Laplace noise and rho with Gaussian noise.

    The parameter is the epsilon or rho of the guarantee.
    """

    def variance(self, mean: Callable[[bool], float], parameter: float) -> float:
        """Mean variance of the noise; ``mean(gaussian)`` is it for a variance of 1 at level 0."""
        ...

    def parameter_for(self, mean: Callable[[bool], float], variance: float) -> float:
        """The parameter with this mean variance."""
        ...

    def quick_parameter(self, growth: Fraction, age: int, loss: float) -> float:
        """About the largest parameter with at most this loss after ``age`` + 1 releases."""
        ...

    def quick_loss(self, growth: Fraction, age: int, parameter: float) -> float:
        """About the loss after ``age`` + 1 releases."""
        ...

    def loss(self, expiry: Expiry, parameter: Fraction, age: int) -> Fraction:
        """Loss at an age, rounded up."""
        ...

    def guarantee(self, parameter: Fraction) -> ExpiringDP | ExpiringZCDP:
        """The guarantee with this parameter."""
        ...


class _Pure:
    """Epsilon and Laplace noise of scale 1 / epsilon."""

    def variance(self, mean: Callable[[bool], float], parameter: float) -> float:
        return 2 * mean(False) / parameter**2

    def parameter_for(self, mean: Callable[[bool], float], variance: float) -> float:
        return math.sqrt(2 * mean(False) / variance)

    def quick_parameter(self, growth: Fraction, age: int, loss: float) -> float:
        return loss / _first_loss(growth, age, "exact")

    def quick_loss(self, growth: Fraction, age: int, parameter: float) -> float:
        return parameter * _first_loss(growth, age, "exact")

    def loss(self, expiry: Expiry, parameter: Fraction, age: int) -> Fraction:
        return parameter * loss_above(expiry, age, "exact")

    def guarantee(self, parameter: Fraction) -> ExpiringDP:
        return ExpiringDP(parameter)


class _Concentrated:
    """Rho and Gaussian noise of variance 1 / (2 rho); narrow noise loses more for its rho."""

    def variance(self, mean: Callable[[bool], float], parameter: float) -> float:
        return mean(True) / (2 * parameter)

    def parameter_for(self, mean: Callable[[bool], float], variance: float) -> float:
        return mean(True) / (2 * variance)

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


PURE: Form = _Pure()
CONCENTRATED: Form = _Concentrated()


@dataclass(frozen=True, slots=True)
class Choice:
    """What a search has found."""

    form: Form
    expiry: Expiry
    parameter: Fraction

    @property
    def strategy(self) -> Expiring:
        """The strategy with this growth and delay."""
        return Expiring(self.expiry.growth, self.expiry.delay)

    @property
    def guarantee(self) -> ExpiringDP | ExpiringZCDP:
        """The guarantee, bound to the strategy."""
        return self.form.guarantee(self.parameter).bound_to(self.strategy)

    def loss_at(self, age: int) -> float:
        """Loss at an age."""
        return float(self.form.loss(self.expiry, self.parameter, age))

    def noise_variance(self, steps: int) -> float:
        """Mean variance of the noise over ``steps`` releases, of continuous noise."""
        mean = _mean(self.expiry.growth, self.expiry.delay, steps)
        return self.form.variance(mean, float(self.parameter))


def least_error(
    form: Form, targets: Mapping[int, float], steps: int, per_step: float, delays: range | None
) -> Choice:
    """The choice of least error; a delay beyond the largest age would leave nothing to protect."""

    def squared_error(growth: Fraction, delay: int) -> float:
        parameter = min(
            form.quick_parameter(growth, age - delay, loss)
            for age, loss in targets.items()
            if age >= delay
        )
        return form.variance(_mean(growth, delay, steps), parameter) + (per_step * delay) ** 2

    at_once = min(squared_error(growth, 0) for growth in _GROWTHS)
    most = min(int(math.sqrt(at_once) / per_step), max(targets), steps - 1)
    expiry = _search(squared_error, _delays(delays, most, targets))
    return Choice(form, expiry, _largest_parameter(form, expiry, targets))


def _largest_parameter(form: Form, expiry: Expiry, targets: Mapping[int, float]) -> Fraction:
    """The largest parameter of five digits that keeps the targets."""
    limits = {age: Fraction(str(loss)) for age, loss in targets.items() if age >= expiry.delay}

    def kept(parameter: Fraction) -> bool:
        return all(form.loss(expiry, parameter, age) <= loss for age, loss in limits.items())

    least = min(loss / loss_above(expiry, age, "exact") for age, loss in limits.items())
    low = _rounded(least, math.floor)  # always kept, and for epsilon the most that is
    high = min(limits.values())  # an item loses the parameter at once
    if form is PURE or not low < high:
        return low
    while (middle := _rounded((low + high) / 2, math.floor)) > low:
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def least_loss(
    form: Form, rmse: float, age: int, steps: int, per_step: float, delays: range | None
) -> Choice:
    """The choice of least loss at one age, with a given error.

    Raises:
        InvalidInput: the delays alone make a larger error.
    """

    def parameter(growth: Fraction, delay: int) -> float:
        left = rmse**2 - (per_step * delay) ** 2
        return form.parameter_for(_mean(growth, delay, steps), left) if left > 0 else math.inf

    def loss(growth: Fraction, delay: int) -> float:
        needed = parameter(growth, delay)
        return needed if needed == math.inf else form.quick_loss(growth, age - delay, needed)

    allowed = _delays(delays, min(int(rmse / per_step), age, steps - 1), {age: 1.0})
    expiry = _search(loss, allowed)
    needed = parameter(expiry.growth, expiry.delay)
    if needed == math.inf:
        raise InvalidInput(
            f"an error of {rmse:,.4g} leaves no room for a delay of {expiry.delay:,} steps with "
            f"{per_step:,.4g} items each: allow a smaller delay, or a larger error"
        )
    return Choice(form, expiry, _rounded(Fraction(needed), math.ceil))


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
def _first_loss(growth: Fraction, age: int, analysis: Analysis) -> float:
    """Loss of the first item of a stream, the worst: quick, and checked over all items later."""
    return float(expiration_loss(Expiring(growth), [age], analysis, position=1)[0])


def _mean(growth: Fraction, delay: int, steps: int) -> Callable[[bool], float]:
    """Mean variance of the noise by kind, in variances of one number of level 0."""
    return lambda gaussian: _mean_variance(growth, delay, steps, gaussian)


@cache
def _mean_variance(growth: Fraction, delay: int, steps: int, gaussian: bool) -> float:
    return Expiring(growth, delay).mean_variance(steps, gaussian=gaussian)


def _rounded(value: Fraction, towards: Callable[[Fraction], int]) -> Fraction:
    """Five significant digits, down (math.floor) or up (math.ceil)."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 4)
    return towards(value / unit) * unit

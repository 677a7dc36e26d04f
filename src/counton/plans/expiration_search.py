"""The search for growth, delay and epsilon, or rho, of an expiring stream."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from counton.errors import InvalidInput
from counton.expiry import LARGEST_DELAY, Expiry
from counton.plans.expiration_errors import Measure
from counton.plans.expiration_noise import PURE, Form
from counton.privacy import ExpiringDP, ExpiringZCDP
from counton.privacy.expiration_loss import loss_above
from counton.strategies import Expiring

#: Distance of the growths that are tried at first, and then around the best of them.
_COARSE, *_FINER = Fraction(1, 4), Fraction(1, 20), Fraction(1, 100)


class Limit(NamedTuple):
    """An error that is wanted."""

    measure: Measure
    error: float


@dataclass(frozen=True, slots=True)
class Space:
    """Where to search.

    Attributes:
        form: the noise.
        per_step: items that a delay of one step holds back.
        largest_growth: growths from 0 to this are tried.
        delays: delays to choose from, in order; None for all that can pay off.
        steps: delays are shorter than this.
    """

    form: Form
    per_step: float
    largest_growth: Fraction
    delays: Sequence[int] | None
    steps: int

    def growths(self) -> list[Fraction]:
        """The first ones to try."""
        count = self.largest_growth // _COARSE
        return [*(n * _COARSE for n in range(count + 1)), self.largest_growth]

    def delays_up_to(self, most: float, targets: Iterable[int]) -> list[int]:
        """Delays to try, in order: those asked for, or a selection up to ``most`` items held back.

        The loss at an age drops where the releases that saw the item become fewer than a power of
        two.

        Raises:
            InvalidInput: all delays asked for are longer than the largest age.
        """
        last = max(targets)
        if self.delays is not None:
            allowed = [*takewhile(lambda delay: delay <= last, self.delays)]
            if not allowed:
                raise InvalidInput(
                    f"delays are {self.delays}; at least one must lie between 0 and the largest "
                    f"age, {last:,}"
                )
            return allowed
        longest = int(min(most / self.per_step, last, self.steps - 1, LARGEST_DELAY))
        spread = np.unique(np.geomspace(1, longest + 1, 24).astype(int) - 1).tolist()
        edges = [age + 2 - 2**k for age in targets for k in range(1, 64)]
        return sorted({0, *spread, *(delay for delay in edges if 0 <= delay <= longest)})

    def search(self, score: Callable[[Fraction, int], float], delays: Sequence[int]) -> Expiry:
        """Growth and delay of the least score: on a grid, then in smaller steps around its best."""
        best = min((score(g, delay), g, delay) for delay in delays for g in self.growths())
        tried = list(delays)
        for step in _FINER:
            near = [best[1] + n * step for n in range(-4, 5)]
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

    def noise(self, measure: Measure) -> float:
        """Size of the noise."""
        unit = measure.noise(self.expiry.growth, self.expiry.delay, self.form.gaussian)
        return self.form.noise(unit, float(self.parameter))


def least_error(space: Space, targets: Mapping[int, float], limits: Sequence[Limit]) -> Choice:
    """The choice that keeps the targets and whose errors are the least parts of the limits.

    A delay beyond the largest age would leave nothing to protect.
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


def least_loss(space: Space, age: int, limits: Sequence[Limit]) -> Choice:
    """The choice of least loss at one age whose errors stay within limits.

    Raises:
        InvalidInput: the delays alone make a larger error.
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
            f"{measure.name} of {wanted:,.4g} leaves no room for a delay of {expiry.delay:,} steps "
            f"with {space.per_step:,.4g} items each: allow a smaller delay, or a larger error"
        )
    return Choice(form, expiry, _rounded(Fraction(needed), math.ceil))


def _rounded(value: Fraction, towards: Callable[[Fraction], int]) -> Fraction:
    """Five significant digits, down (math.floor) or up (math.ceil)."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 4)
    return towards(value / unit) * unit

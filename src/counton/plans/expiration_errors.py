"""Errors of an expiring stream: of its noise, and of the items that a delay holds back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Protocol

from counton.expiry import Expiry
from counton.plans.largest_error import PROBABILITY, largest_noise
from counton.strategies import Expiring


class Measure(Protocol):
    """What an error is: how large noise is, and how it adds up with ``held`` items held back."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    def noise(self, growth: Fraction, delay: int, gaussian: bool) -> float:
        """Size of the noise whose parameter, epsilon or rho, is 1."""
        ...

    def error(self, noise: float, held: float) -> float:
        """Noise and items held back together."""
        ...

    def room(self, error: float, held: float) -> float:
        """The noise that makes this error; 0 if the items alone exceed it."""
        ...


@dataclass(frozen=True, slots=True)
class TypicalError:
    """Root of the mean squared error over ``steps`` releases, of continuous noise."""

    steps: int
    name = "a typical error"

    def noise(self, growth: Fraction, delay: int, gaussian: bool) -> float:
        """Root of the mean variance."""
        mean = _mean_variance(growth, delay, self.steps, gaussian)
        return math.sqrt(mean / 2 if gaussian else 2 * mean)

    def error(self, noise: float, held: float) -> float:
        """Noise has mean 0, so squares add up."""
        return math.hypot(noise, held)

    def room(self, error: float, held: float) -> float:
        """The rest of the square."""
        return math.sqrt(max(error**2 - held**2, 0.0))


@dataclass(frozen=True, slots=True)
class LargestError:
    """What all errors of ``steps`` releases stay below with probability 2/3."""

    steps: int
    name = "a largest error"

    def noise(self, growth: Fraction, delay: int, gaussian: bool) -> float:
        """A bound on all of it."""
        return largest_noise(Expiry(growth, delay), self.steps, PROBABILITY, gaussian=gaussian)

    def error(self, noise: float, held: float) -> float:
        """Both at their largest."""
        return noise + held

    def room(self, error: float, held: float) -> float:
        """The rest."""
        return max(error - held, 0.0)


@cache
def _mean_variance(growth: Fraction, delay: int, steps: int, gaussian: bool) -> float:
    return Expiring(growth, delay).mean_variance(steps, gaussian=gaussian)

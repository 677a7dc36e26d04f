"""Kinds of noise of an expiring stream: what error and what loss a parameter makes."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import Protocol

from counton.expiry import Expiry
from counton.privacy import ExpiringDP, ExpiringZCDP, expiration_loss
from counton.privacy.discrete_gaussian_loss import concentrated_loss, is_wide
from counton.privacy.expiration_loss import Analysis, loss_above
from counton.strategies import Expiring


class Form(Protocol):
    """What differs between epsilon with Laplace noise and rho with Gaussian noise.

    The parameter is the epsilon or rho of the guarantee.
    """

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian."""
        ...

    def noise(self, unit: float, parameter: float) -> float:
        """How large an error is which has size ``unit`` if the parameter is 1."""
        ...

    def parameter_for(self, unit: float, noise: float) -> float:
        """The parameter at which that error has size ``noise``."""
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

    gaussian = False

    def noise(self, unit: float, parameter: float) -> float:
        return unit / parameter

    def parameter_for(self, unit: float, noise: float) -> float:
        return unit / noise

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


PURE: Form = _Pure()
CONCENTRATED: Form = _Concentrated()


@cache
def _first_loss(growth: Fraction, age: int, analysis: Analysis) -> float:
    """Loss of the first item of a stream, the worst: quick, and checked over all items later."""
    return float(expiration_loss(Expiring(growth), [age], analysis, position=1)[0])

"""Gradual expiry of privacy: the noise of each level of dyadic intervals, and the delay.

Here, because strategies and guarantees must not import each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any, Protocol, runtime_checkable

from counton.base.distributions import NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.base.exact import Number, check_integer, exact, shorten, text

#: Levels of dyadic intervals on the steps 1..2^62.
LEVELS = 63
#: With a larger growth the noise of higher levels would vanish.
LARGEST_GROWTH = 16
#: The delay is bounded because delayed inputs are kept in memory and in every checkpoint.
LARGEST_DELAY = 2**24

#: Largest age in steps.
LARGEST_AGE = 2**62

_PRECISION = Context(prec=60)
_SIGNIFICANT_BITS = 40


@runtime_checkable
class ExpiringNoise(Protocol):
    """A strategy whose noise depends on the age of data."""

    expiry: Expiry


@dataclass(frozen=True, slots=True, init=False)
class Expiry:
    """Noise by tree level, and delay, of a stream whose privacy loss grows with the age of data.

    Noise belongs to dyadic intervals of steps; an interval of level l has length 2^l. Its noise has
    the scale (Laplace) or the variance (Gaussian) of level 0, multiplied by ``factor(l)`` = (1 +
    l)^(1 - growth).

    Attributes:
        growth: lambda in the paper. The privacy loss of an input of age d (in steps) grows like
        delay: B in the paper: releases leave out the latest ``delay`` steps.
        levels: number of levels in use, or None. With 1 level each step has independent noise.

    Source: Andersson et al., "Continual Counting with Gradual Privacy Expiration", Algorithm 3.

    Raises:
        InvalidInputError: growth is not in 0..16, or delay or levels is not an integer in range.

    >>> expiry = Expiry(growth=2)
    >>> [str(expiry.factor(level)) for level in range(4)]
    ['1', '1/2', '1/3', '1/4']
    """

    growth: Fraction
    delay: int
    levels: int | None

    def __init__(self, growth: Number, delay: int = 0, levels: int | None = None) -> None:
        value = Fraction(-1)
        with suppress(InvalidInputError):
            value = exact(growth, "growth")
        if not 0 <= value <= LARGEST_GROWTH or value.denominator > 10**18:
            raise InvalidInputError(
                f"growth is {shorten(growth)!r}; it must be a number from 0 to {LARGEST_GROWTH}: 1 "
                "is usual; with larger values, sums over long times have less error"
            )
        object.__setattr__(self, "growth", value)
        object.__setattr__(
            self, "delay", check_integer("delay", delay, 0, LARGEST_DELAY, "count it in steps")
        )
        if levels is not None:
            levels = check_integer("levels", levels, 1, LEVELS)
        object.__setattr__(self, "levels", None if levels == LEVELS else levels)

    @property
    def top(self) -> int:
        """Highest level of dyadic intervals of steps that is in use; the lowest level is 0."""
        return (LEVELS if self.levels is None else self.levels) - 1

    def factor(self, level: int) -> Fraction:
        """Return (1 + level)^(1 - growth), rounded up by less than 2^-39 of it if irrational."""
        return _power_above(1 + level, 1 - self.growth)

    def distribution(self, base: NoiseDistribution, level: int) -> NoiseDistribution:
        """Return the noise distribution of a level, given the distribution ``base`` of level 0."""
        return base.wider_by(self.factor(level))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values that rebuild the expiry: ``Expiry(**values)``."""
        return {"growth": text(self.growth), "delay": self.delay, "levels": self.levels}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Expiry:
        try:
            return cls(**saved)
        except TypeError as error:
            raise InvalidInputError(
                f"growth, delay and levels {saved!r} of a stored guarantee cannot be read "
                f"({error}): restore the file that was being read (stream, ledger or release) from "
                "a copy"
            ) from error


@cache
def _power_above(base: int, exponent: Fraction) -> Fraction:
    """Return ``base ** exponent``, rounded up to 40 significant bits unless it is rational.

    >>> _power_above(4, Fraction(-1, 2)), _power_above(2, Fraction(1, 2)) ** 2 - 2 < 1e-11
    (Fraction(1, 2), True)
    """
    root = round(base ** (1 / exponent.denominator))
    if root**exponent.denominator == base:
        return Fraction(root) ** exponent.numerator
    up = Context(prec=60, rounding=ROUND_CEILING)
    # ln and exp are correctly rounded to 60 digits; 1e-50 covers both and the product.
    power = _PRECISION.divide(
        _PRECISION.multiply(_PRECISION.ln(Decimal(base)), Decimal(exponent.numerator)),
        Decimal(exponent.denominator),
    )
    value = Fraction(up.multiply(_PRECISION.exp(power), Decimal("1") + Decimal("1e-50")))
    shift = _SIGNIFICANT_BITS - math.frexp(float(value))[1]
    return Fraction(math.ceil(value * Fraction(2) ** shift)) / Fraction(2) ** shift


def checked_age(age: object) -> int:
    """Return the age of an input, a number of steps up to 2^62; refuse any other."""
    return check_integer("age", age, 0, LARGEST_AGE, "count it in steps, not in hours or days")


def checked_ages(ages: object) -> list[int]:
    """Return the ages of inputs; refuse any that is not a number of steps."""
    # A NumPy array of no dimensions is iterable by its type alone.
    if not isinstance(ages, Iterable) or getattr(ages, "ndim", 1) == 0:
        raise InvalidInputError(
            f"ages are {ages!r}; give a collection of ages in steps, such as [0, 24, 8760]"
        )
    return [checked_age(age) for age in ages]

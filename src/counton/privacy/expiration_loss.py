"""What an item of a given age has lost to the releases seen so far."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput
from counton.exact import check_integer
from counton.expiry import Expiry
from counton.privacy.dyadic_costs import AbsoluteCosts, QuadraticCosts
from counton.privacy.worst_position import cost_at, worst_cost

Analysis = Literal["exact", "paper", "bound", "concentrated"]

#: Ages stay below this, like steps.
LARGEST_AGE = 2**62
_LEVELS = 66  # enough for windows of LARGEST_AGE positions


class Expires(Protocol):
    """A strategy whose guarantee weakens with the age of an item."""

    @property
    def expiry(self) -> Expiry:
        """Its noise by level, and its delay."""
        ...


def expiration_loss(
    strategy: Expires,
    ages: Iterable[int],
    analysis: Analysis = "exact",
    position: int | None = None,
) -> NDArray[np.float64]:
    """Privacy loss of an item by its age: the expiration function g, shape ``(len(ages),)``.

    An item of age d entered d steps before the newest release. The result holds for every position
    an item can have in the stream, and for adaptively chosen streams.

    Args:
        strategy: an expiring strategy.
        ages: ages in steps, 0 or more.
        analysis: "exact", the least loss that can be claimed, in units of epsilon (for growths from
            4 on never less than that, and in all tests at most a thousandth more); "paper", by the
            decomposition of the released positions into dyadic intervals; "bound", the paper's
            closed form, two intervals of every level; or "concentrated", exact too, for continuous
            Gaussian noise under zero-concentrated privacy, in units of rho. What is released has
            integer noise and loses more where that is narrow: see `ExpiringZCDP.at_age`.
        position: the step at which the item entered, for the exact analyses; None for the largest
            loss over all positions there are.

    Source: Andersson et al., "Continual Counting with Gradual Privacy Expiration": Algorithm 3,
    Appendix A and Lemma 4.1. The exact loss is less than the paper's: intervals may reach into the
    future, where nothing has been released yet, and shifts of nested intervals may cancel.

    Erratum: the integral in Lemma 4.1 is slightly below the sum it bounds if growth exceeds 1;
    "bound" is the sum.

    >>> from counton.strategies import Expiring
    >>> s = Expiring(growth=2)
    >>> for analysis in ("exact", "paper", "bound"):
    ...     print(analysis, expiration_loss(s, [0, 3, 31, 999], analysis))
    exact [ 1.  4. 16. 55.]
    paper [ 1.  4. 16. 80.]
    bound [  2.  12.  42. 110.]
    >>> expiration_loss(Expiring(growth=1), [3], "concentrated")
    array([2.])

    Raises:
        InvalidInput: not an expiring strategy, ages that are no collection of integers in 0..2^62,
            an unknown analysis.
    """
    expiry = getattr(strategy, "expiry", None)
    if not isinstance(expiry, Expiry):
        raise InvalidInput(
            f"{strategy!r} gives a guarantee that does not expire: its loss is the same at every "
            f"age; use counton.strategies.Expiring"
        )
    if analysis not in get_args(Analysis):
        raise InvalidInput(
            f"analysis is {analysis!r}; it must be one of {', '.join(get_args(Analysis))}"
        )
    checked = checked_ages(ages)
    if position is None:
        return np.array([loss_at(expiry, age, analysis) for age in checked], np.float64)
    if analysis not in ("exact", "concentrated") or checked_age(position) < 1:
        raise InvalidInput(
            f"position is {position!r} and analysis {analysis!r}; a position counts from 1, and "
            f"only 'exact' and 'concentrated' look at single positions"
        )
    kind, highest = _kind(expiry, analysis), _highest(expiry)
    lengths = [max(age - expiry.delay + 1, 0) for age in checked]
    return np.array([cost_at(kind, position, length, highest) for length in lengths], np.float64)


def checked_age(age: object) -> int:
    """``age`` itself if it is a number of steps.

    Raises:
        InvalidInput: not an integer, negative, or above 2^62.
    """
    return check_integer("age", age, 0, LARGEST_AGE, "count it in steps, not in hours or days")


def checked_ages(ages: object) -> list[int]:
    """``ages`` themselves if they are several numbers of steps.

    Raises:
        InvalidInput: not a collection, or one of them is no age.
    """
    if not isinstance(ages, Iterable) or getattr(ages, "ndim", 1) == 0:
        raise InvalidInput(
            f"ages are {ages!r}; give a collection of ages in steps, such as [0, 24, 8760]"
        )
    return [checked_age(age) for age in ages]


@lru_cache(maxsize=2**16)
def loss_at(expiry: Expiry, age: int, analysis: Analysis) -> float:
    """`expiration_loss` at one checked age."""
    length = age - expiry.delay + 1  # released positions from the item's own on
    if length < 1:
        return 0.0
    top = _highest(expiry)
    if analysis in ("exact", "concentrated"):
        return worst_cost(_kind(expiry, analysis), length, top)
    weights = _weights(expiry)
    if analysis == "paper":
        return _greedy(weights, length, top)
    last = min(length.bit_length() - 1, top)
    many = 2 * math.fsum(weights[:last])
    return many + weights[last] * (2 if last < top else length >> top)


def loss_above(expiry: Expiry, age: int, analysis: Analysis) -> Fraction:
    """The same as an exact fraction, never below the true value.

    Sums and minima of a few hundred floats: their rounding errors together stay below 1e-12.
    """
    loss = loss_at(expiry, age, analysis)
    integral = analysis != "concentrated" and expiry.growth.denominator == 1 <= expiry.growth
    # Below 2^43 the search drops no position that is better by 1 or more.
    if age <= expiry.delay or (integral and loss < 2**43):
        return Fraction(loss)  # one interval, or sums of integers all the way: exact
    return _rounded_up(loss)


def smooth_loss(expiry: Expiry, length: int, highest: int) -> Fraction:
    """Never below the loss to continuous Gaussian noise of the levels up to ``highest``."""
    return _rounded_up(worst_cost(_kind(expiry, "concentrated"), length, highest))


def _rounded_up(loss: float) -> Fraction:
    places = 12 - math.frexp(loss)[1] * 3 // 10  # about twelve significant digits, rounded up
    unit = Fraction(10**places if places >= 0 else Fraction(1, 10**-places))
    return math.ceil(Fraction(loss) * (1 + Fraction(1, 10**12)) * unit) / unit


def _weights(expiry: Expiry) -> list[float]:
    """Loss of a unit shift by level, for Laplace noise of scale 1 at level 0."""
    return [float(1 / expiry.factor(level)) for level in range(_LEVELS)]


def _highest(expiry: Expiry) -> int:
    return _LEVELS - 1 if expiry.levels is None else expiry.top


@lru_cache(maxsize=256)
def _kind(expiry: Expiry, analysis: Analysis) -> AbsoluteCosts | QuadraticCosts:
    if analysis == "exact":
        return AbsoluteCosts(_weights(expiry))
    return QuadraticCosts([float(expiry.factor(level)) for level in range(_LEVELS)])


def _greedy(weights: list[float], length: int, top: int) -> float:
    """Cost of the dyadic decomposition of a window of ``length`` positions at its worst place.

    At every level the window loses an interval at its left end if it starts at an odd one, and one
    at its right end if it ends at an even one; what is left goes up a level.
    """
    costs = {length: 0.0}  # intervals of this level that are left: cost so far, at worst
    for level in range(top):
        following: dict[int, float] = {}
        for count, cost in costs.items():
            for left in (0, 1):
                ends = min(left + (count - left) % 2, count)
                rest = (count - ends) // 2
                worst = cost + ends * weights[level]
                following[rest] = max(following.get(rest, 0.0), worst)
        costs = following
    return max(cost + count * weights[top] for count, cost in costs.items())

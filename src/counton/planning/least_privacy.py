"""Search for the least epsilon, or rho, that reaches a wanted accuracy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import Literal, NamedTuple

from counton.base.errors import InvalidInputError, param
from counton.base.exact import Number, exact, figures, percent, quote, text
from counton.privacy import ZCDP, ApproxDP, Guarantee, PureDP

#: Kind of loss to minimise: of pure or approximate privacy, or of zero-concentrated privacy.
Loss = Literal["epsilon", "rho"]
#: Number of significant digits of an epsilon or rho that is searched for.
DIGITS = 4
#: Powers of ten between which an epsilon or rho is searched for. Beyond the upper one nothing is
#: protected.
_LOWEST_POWER_OF_TEN = -9
_HIGHEST_POWER_OF_TEN = 3


#: A wanted half-width: a number, "2%" of a public size, or half-widths by name.
TargetWidth = Number | str | Mapping[str, Number | str]


class ReachedHalfwidths(NamedTuple):
    """Targets and planned half-widths at a step, by the name of the number; "" if there is one."""

    step: int
    confidence_level: float
    targets: Mapping[str, float]
    planned: Mapping[str, float]

    @property
    def factor(self) -> float:
        """Largest ratio of a planned half-width to its target."""
        return max(self.planned[name] / bound for name, bound in self.targets.items())

    def __str__(self) -> str:
        comparisons = (
            f"{name} {figures(self.planned[name])} (wanted: at most {figures(bound)})".strip()
            for name, bound in self.targets.items()
        )
        return (
            f"margin of error at step {self.step:,} ({percent(self.confidence_level)}% "
            f"confidence): {', '.join(comparisons)}"
        )


def bounds_of(within: TargetWidth, size: int | None = None) -> dict[str, float]:
    """Return the wanted half-widths by name; "" without one.

    ``within`` is a number; a text such as "20", "2%" of ``size`` or "count=20,mean=0.5"; or numbers
    by name.

    >>> bounds_of("2%", size=50000), bounds_of("count=20, mean=0.5")
    ({'': 1000.0}, {'count': 20.0, 'mean': 0.5})
    """
    if isinstance(within, Mapping):
        named: dict[str, Number | str] = {str(name): bound for name, bound in within.items()}
    elif isinstance(within, str) and "=" in within:
        pairs = [pair.partition("=") for pair in within.split(",")]
        named = {name.strip(): bound.strip() for name, _, bound in pairs}
    else:
        named = {"": within}
    bounds = {}
    for name, bound in named.items():
        part = isinstance(bound, str) and bound.strip().endswith("%")
        if part and (size is None or name not in ("", "count")):
            why = f"{name} is not a number of rows"
            remedy = "give it as a number"
            if size is None:
                why = "none is stated"
                remedy = f"give {param('expected_rows')}, which must be public"
            raise InvalidInputError(
                f"{param('margin_of_error', bound)} is a share of the number of rows, and {why}: "
                f"{remedy}"
            )
        number = exact(
            bound.strip().removesuffix("%") if isinstance(bound, str) else bound, "margin_of_error"
        )
        if number <= 0:
            raise InvalidInputError(
                f"{param('margin_of_error', bound)} is the half-width of an interval, and must be "
                "above 0"
            )
        bounds[name] = float(number * (size or 1) / 100 if part else number)
    if not bounds:
        raise InvalidInputError(
            "margin_of_error is empty: give at least one half-width, such as 20"
        )
    return bounds


def is_share_of_rows(margin_of_error: TargetWidth) -> bool:
    """Return whether one unnamed half-width is wanted, as a percentage of the rows.

    >>> is_share_of_rows("2%"), is_share_of_rows("20"), is_share_of_rows("count=2%")
    (True, False, False)
    """
    unnamed = (
        margin_of_error.get("", 0) if isinstance(margin_of_error, Mapping) else margin_of_error
    )
    if not isinstance(unnamed, str) or "=" in unnamed:
        return False
    return unnamed.strip().endswith("%")


def compare_halfwidths(
    halfwidths: Mapping[str, float],
    bounds: Mapping[str, float],
    step: int,
    confidence_level: float,
    *,
    needs_rows: bool,
) -> ReachedHalfwidths:
    """Return planned beside wanted half-widths; the bound "" is for "count", or else for all.

    A bound of "mean" is for "mean in the last 7 days", too, if numbers of several lengths are
    planned.

    Args:
        halfwidths: planned half-widths by the name of the number.
        bounds: wanted ones.
        step: the step of both.
        confidence_level: confidence level of the intervals.
        needs_rows: whether other numbers could be planned if a number of rows was stated.

    Raises:
        InvalidInputError: no number has the name of a bound.
    """
    targets: dict[str, float] = {}
    for name, bound in bounds.items():
        if name == "":
            names = _names_of("count", halfwidths) or [*halfwidths]
            if not all(halfwidths[other] for other in names):
                names = [*halfwidths]
        elif not (names := _names_of(name, halfwidths)):
            names = [*filter(None, halfwidths)]
            allowed = (
                f"Names are {', '.join(names)}"
                if names
                else "There is one number: leave the name out"
            )
            rows = ""
            if needs_rows:
                rows = (
                    ". Half-widths that depend on the number of rows need "
                    f"{param('expected_rows')}, which must be public"
                )
            raise InvalidInputError(
                f"{param('margin_of_error', f'{name}={bound:g}')} names {quote(name)}, whose "
                f"half-width cannot be planned. {allowed}{rows}"
            )
        targets |= {name: min(bound, targets.get(name, math.inf)) for name in names}
    return ReachedHalfwidths(
        step, confidence_level, targets, {name: halfwidths[name] for name in targets}
    )


def _names_of(name: str, halfwidths: Mapping[str, float]) -> list[str]:
    """Return the names of a number: its own, or those of its values in last windows."""
    if name in halfwidths:
        return [name]
    return [other for other in halfwidths if other.startswith(f"{name} in the last ")]


def guarantee_of_loss(loss: Fraction, least: Loss, delta: Number | None = None) -> Guarantee:
    """Return the guarantee with a given epsilon, perhaps with a delta, or rho.

    >>> guarantee_of_loss(Fraction(1, 2), "epsilon", "1e-6")
    ApproxDP(epsilon=0.5, delta=1e-6)
    """
    if least == "rho":
        if delta is not None:
            raise InvalidInputError(
                f"{param('delta', delta)} belongs to the least epsilon, but the least rho is asked "
                "for; leave one of them out"
            )
        return ZCDP(loss)
    return PureDP(loss) if delta is None else ApproxDP(loss, delta)


def least_guarantee(
    factor: Callable[[Guarantee], float],
    least: Loss = "epsilon",
    delta: Number | None = None,
) -> Guarantee:
    """Return the guarantee with the least epsilon or rho that keeps all errors within bounds.

    ``factor``, the largest ratio of an error to its bound, must fall as the epsilon or rho grows,
    apart from small rises where the planner changes its strategy; at the result, of four
    significant digits, it is at most 1 in any case.

    >>> least_guarantee(lambda guarantee: 30 / float(guarantee.epsilon) / 20)
    PureDP(epsilon=1.5)
    """

    @cache
    def factor_at(place: int) -> float:
        try:
            return factor(guarantee_of_loss(_loss_at(place), least, delta))
        except InvalidInputError:
            if place >= highest:
                raise
            return math.inf

    lowest = _place_of(_power_of_ten(_LOWEST_POWER_OF_TEN))
    highest = _place_of(_power_of_ten(_HIGHEST_POWER_OF_TEN))
    start = 0  # where the loss is 1
    if 0 < factor_at(start) < math.inf:  # a guess: epsilon grows as errors fall, rho twice as fast
        log = (2 if least == "rho" else 1) * math.log10(factor_at(start))
        guess = _place_of(
            Fraction(10 ** min(max(log, _LOWEST_POWER_OF_TEN), _HIGHEST_POWER_OF_TEN))
        )
        start = min(max(guess, lowest), highest)
    if factor_at(start) <= 1:
        high = start
        stride = 1
        while high > lowest and factor_at(max(high - stride, lowest)) <= 1:
            high = max(high - stride, lowest)
            stride = min(4 * stride, 9 * _ONE_DECADE)
        low = max(high - stride, lowest)
    else:
        low = start
        stride = 1
        while low < highest and factor_at(min(low + stride, highest)) > 1:
            low = min(low + stride, highest)
            stride = min(4 * stride, 9 * _ONE_DECADE)
        high = min(low + stride, highest)
    if factor_at(high) > 1:
        raise InvalidInputError(
            f"{param('margin_of_error')} cannot be reached: even with {least} = "
            f"{text(_loss_at(highest))}, which protects nothing, a number is off by "
            f"{figures(factor_at(highest))} times the given half-width; allow a larger error"
        )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if factor_at(middle) <= 1 else (middle, high)
    return guarantee_of_loss(_loss_at(high), least, delta)


#: The least integer of four digits, and how many integers have four digits.
_FIRST: int = 10 ** (DIGITS - 1)
_ONE_DECADE = 9 * _FIRST


def _loss_at(place: int) -> Fraction:
    """Return the number of four significant digits at a place, ascending; place 0 is 1.

    >>> _loss_at(-1)
    Fraction(9999, 10000)
    """
    power, digits = divmod(place, _ONE_DECADE)
    return (_FIRST + digits) * _power_of_ten(power - DIGITS + 1)


def _power_of_ten(power: int) -> Fraction:
    return Fraction(f"1e{power}")


def _place_of(loss: Fraction) -> int:
    """Return the place of a loss, rounded up; the inverse of `_loss_at`."""
    power = math.floor(math.log10(loss) + 1e-12)
    digits = math.ceil(loss / _power_of_ten(power - DIGITS + 1)) - _FIRST
    return power * _ONE_DECADE + digits

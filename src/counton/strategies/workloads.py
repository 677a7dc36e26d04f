"""Workloads of sums over recent steps, for which plans find the strategy with the least noise.

After each step t a rolling sum is that of the last W steps, and a decayed sum that of all steps,
with the weight 2^(-age / half_life). A stack has several rolling sums, and perhaps totals, under
one guarantee. All of them are computed from released totals, so a strategy for them differs from
others only in the correlation of its noise.

With Gaussian noise, C = p(x)^(1/2) is the best strategy for a long stream. Here p is the power
series of the weights by age; for a stack it has |p|^2 = the sum of the shares times |p_i|^2 on the
unit circle (Fejer and Riesz). Its coefficients may be negative. `root` cuts them off, which costs
about 0.1% of the standard deviation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from typing_extensions import override

from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, quote
from counton.strategies.streams.banded_root import (
    LARGEST_BAND,
    BandedRoot,
    EndlessBandedRoot,
    series_of,
)
from counton.strategies.streams.power_series import convolve
from counton.strategies.streams.square_root import square_root_coefficients

if TYPE_CHECKING:
    from counton.base.arrays import Floats

#: Longest width, and longest half-life, for which a strategy is found.
LARGEST_WIDTH = 2**20
LARGEST_HALF_LIFE = 2**20
#: Shortest half-life.
LEAST_HALF_LIFE = Fraction(1, 4)
#: The series of C has this many coefficients for each step of the width, or of the half-life; on
#: short horizons it has at least as many as the second number.
_LENGTHS = 4
_SHORT = 512
#: Points on the unit circle at which the polynomial of a stack is computed.
_POINTS = 2**18
#: Precisions: fraction bits of the series, and of weights. Later ones leave room for wider noise.
PRECISIONS = ((14, 16), (10, 8))


class WorkloadPart(NamedTuple):
    """One number that a workload releases after each step.

    Attributes:
        name: its name in plans, such as "last 7".
        share: the weight of its variance in the error of the workload.
        width: the number of recent steps that it adds up; None: all.
        factor: the weight of a step, relative to the next one; below 1 for decayed sums.
    """

    name: str
    share: float
    width: int | None
    factor: float = 1.0


class RecentWorkload(ABC):
    """Sums over recent steps that a plan makes accurate."""

    @property
    @abstractmethod
    def parts(self) -> tuple[WorkloadPart, ...]:
        """The numbers after each step."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The numbers in words."""

    @property
    @abstractmethod
    def _reach(self) -> int | None:
        """The largest width, or the half-life; None: totals, which add up all steps."""

    @abstractmethod
    def coefficients(self, count: int) -> Floats:
        """Return the first coefficients of the best C of an endless stream; the first is 1."""

    def root(
        self, horizon: int | None, precision: int = 0, *, lengths: int | None = None
    ) -> BandedRoot | EndlessBandedRoot:
        """Return the strategy with the least Gaussian noise.

        Args:
            horizon: number of steps; None for a stream without a last step.
            precision: 0, or 1 for noise that is too wide for the first.
            lengths: coefficients of C for each step of the width; default: 4, and at least 512.

        Raises:
            InvalidInputError: the workload is too wide, or has totals and no or a long horizon.
        """
        series_bits, weight_bits = PRECISIONS[precision]
        reach = self._reach
        if reach is None and (horizon is None or horizon > LARGEST_BAND):
            raise InvalidInputError(
                f"{self!r} has totals, for which roots are known up to {LARGEST_BAND:,} steps: "
                "leave totals out, or give a shorter horizon"
            )
        least = _SHORT if lengths is None and horizon is not None else 1
        count = LARGEST_BAND
        if reach is not None:
            count = max((_LENGTHS if lengths is None else lengths) * reach, least)
        count = min(count, horizon or count)
        if count > LARGEST_BAND:
            raise InvalidInputError(
                f"{self!r} needs a series of {count:,} coefficients, but at most {LARGEST_BAND:,} "
                "are possible: give a smaller width or half-life"
            )
        series = series_of(self.coefficients(count), series_bits)
        if horizon is None:
            return EndlessBandedRoot(series, series_bits)
        weighted = horizon <= LARGEST_BAND
        return BandedRoot(horizon, series, series_bits, weight_bits if weighted else 0)


@dataclass(frozen=True)
class Rolling(RecentWorkload):
    """The sum of the last ``width`` steps, after each step.

    In the first steps it is the sum of all steps so far.

    Raises:
        InvalidInputError: not an integer from 1 to 2^20.

    >>> Rolling(4).coefficients(6).round(4).tolist()
    [1.0, 0.5, 0.375, 0.3125, -0.2266, -0.0039]
    """

    width: int

    def __post_init__(self) -> None:
        check_integer("width", self.width, 1, LARGEST_WIDTH, remedy="a number of steps")

    @property
    @override
    def parts(self) -> tuple[WorkloadPart, ...]:
        return (WorkloadPart("", 1.0, self.width),)

    @property
    @override
    def words(self) -> str:
        return f"the sum of the last {_steps(self.width)}"

    @property
    @override
    def _reach(self) -> int:
        return self.width

    @override
    def coefficients(self, count: int) -> Floats:
        # The product of (1 - x^W)^(1/2) and (1 - x)^(-1/2).
        falling = square_root_coefficients(count)
        series = np.zeros(count)
        factor = 1.0
        for j, start in enumerate(range(0, count, self.width)):
            series[start:] += factor * falling[: count - start]
            factor *= (2 * j - 1) / (2 * j + 2)
        return series


@dataclass(frozen=True)
class Decayed(RecentWorkload):
    """The sum of all steps, weighted by 2^(-age / half_life), after each step.

    Args:
        half_life: number of steps after which the weight of a step is half.

    Raises:
        InvalidInputError: not a number from 1/4 to 2^20.

    >>> round(Decayed(7).factor ** 7, 6), Decayed(1).coefficients(3).tolist()
    (0.5, [1.0, 0.25, 0.09375])
    """

    half_life: float | Fraction

    def __post_init__(self) -> None:
        value: Any = self.half_life
        number = isinstance(value, int | float | Fraction) and not isinstance(value, bool)
        if not number or not LEAST_HALF_LIFE <= value <= LARGEST_HALF_LIFE:
            raise InvalidInputError(
                f"half_life is {value if isinstance(value, Fraction) else quote(value)}; give a "
                "number of steps from 0.25 to 2^20"
            )

    @property
    def factor(self) -> float:
        """The weight of a step, relative to the next one."""
        return float(0.5 ** (1 / float(self.half_life)))

    @property
    @override
    def parts(self) -> tuple[WorkloadPart, ...]:
        return (WorkloadPart("", 1.0, None, self.factor),)

    @property
    @override
    def words(self) -> str:
        half_life = f"{float(self.half_life):,g}"
        return f"the sum with a half-life of {half_life} step{'' if half_life == '1' else 's'}"

    @property
    @override
    def _reach(self) -> int:
        return math.ceil(self.half_life)

    @override
    def coefficients(self, count: int) -> Floats:
        return np.asarray(square_root_coefficients(count) * self.factor ** np.arange(count))


class Stack(RecentWorkload):
    """Several rolling sums, and perhaps totals, under one guarantee.

    Args:
        widths: the share of each width in the error, which is the weighted mean of variances; or
            widths alone, with equal shares. The width 1 is each step's own number.
        totals: the share of totals; 0: none.

    Raises:
        InvalidInputError: no width, or a width or share out of range.

    >>> stack = Stack({1: 1, 7: 1, 28: 1})
    >>> stack, [part.name for part in stack.parts]
    (Stack({1: 1.0, 7: 1.0, 28: 1.0}), ['last 1', 'last 7', 'last 28'])
    """

    def __init__(self, widths: Mapping[int, float] | Iterable[int], totals: float = 0.0) -> None:
        shares = widths if isinstance(widths, Mapping) else dict.fromkeys(widths, 1.0)
        for width in shares:
            check_integer("width", width, 1, LARGEST_WIDTH, remedy="a number of steps")
        for share in (*shares.values(), totals):
            number = isinstance(share, int | float) and not isinstance(share, bool)
            if not number or not (0 < share < math.inf or (share is totals and share == 0)):
                raise InvalidInputError(
                    f"a share of {quote(share)} is not possible; give a positive number for each "
                    "width, and at least 0 for totals"
                )
        if not shares:
            raise InvalidInputError("a stack has no width; give one, such as Stack({1: 1, 7: 1})")
        self.widths: dict[int, float] = {w: float(shares[w]) for w in sorted(shares)}
        self.totals = float(totals)

    def __repr__(self) -> str:
        totals = f", totals={self.totals}" if self.totals else ""
        return f"Stack({self.widths}{totals})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stack) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    @property
    @override
    def parts(self) -> tuple[WorkloadPart, ...]:
        parts = [
            WorkloadPart(f"last {width}", share, width) for width, share in self.widths.items()
        ]
        return (*parts, *([WorkloadPart("total", self.totals, None)] if self.totals else []))

    @property
    @override
    def words(self) -> str:
        from counton.base.columns import list_in_words

        texts = [f"{width:,}" for width in self.widths]
        words = f"the sums of the last {list_in_words(texts)} steps"
        return f"{words}, and totals" if self.totals else words

    @property
    @override
    def _reach(self) -> int | None:
        return None if self.totals else max(self.widths)

    @override
    def coefficients(self, count: int) -> Floats:
        widest = max(self.widths)
        if not self.totals and len(self.widths) == 1:
            return Rolling(widest).coefficients(count)
        # |C|^2 = |p|, and log |C| is the real part of a power series: the cepstrum. Points lie
        # between the roots of unity, at which all polynomials may be 0.
        angles = 2 * math.pi * (np.arange(_POINTS) + 0.5) / _POINTS
        near = 2 * np.sin(angles / 2)
        squares = np.full(_POINTS, self.totals)
        for width, share in self.widths.items():
            squares += share * (2 * np.sin(width * angles / 2)) ** 2
        if not self.totals:
            squares /= near**2
        turned = np.exp(-1j * math.pi * np.arange(_POINTS) / _POINTS)
        cepstrum = (np.fft.ifft(np.log(squares) / 4) * turned.conj()).real
        cepstrum[1 : _POINTS // 2] *= 2
        cepstrum[_POINTS // 2 :] = 0
        # The exponential gives the values on the points, and from these come the coefficients.
        values = np.exp(np.fft.fft(cepstrum * turned))
        series = (np.fft.ifft(values) * turned.conj()).real[:count]
        series /= series[0]
        if self.totals:
            series = convolve(series, square_root_coefficients(count), count)
        return np.asarray(series)


def _steps(width: int) -> str:
    return "step" if width == 1 else f"{width:,} steps"


def sums_of_last_steps(series: str, widths: Iterable[int]) -> RecentWorkload:
    """Return the workload of sums of the last steps that a series has, or has beside it.

    Args:
        series: "rolling" for these sums alone; "cumulative" with totals; "both" with totals and
            single steps.
        widths: numbers of steps that are added up.

    >>> sums_of_last_steps("rolling", [7]), sums_of_last_steps("both", [7])
    (Rolling(width=7), Stack({1: 1.0, 7: 1.0}, totals=1.0))
    """
    distinct = sorted({*widths})
    if series == "rolling":
        return Rolling(distinct[0]) if len(distinct) == 1 else Stack(distinct)
    return Stack({*distinct, 1} if series == "both" else distinct, totals=1.0)


def check_workload(workload: object) -> RecentWorkload:
    """Return a workload of sums over recent steps, or raise `InvalidInputError`."""
    if not isinstance(workload, RecentWorkload):
        raise InvalidInputError(
            f"workload is {quote(workload)}; give Rolling(28), Decayed(7) or Stack({{1: 1, 7: 1}})"
        )
    return workload


def widest_sums(parts: Sequence[WorkloadPart]) -> int:
    """Return the largest width of the parts; 0 if none has a width."""
    return max((part.width or 0 for part in parts), default=0)

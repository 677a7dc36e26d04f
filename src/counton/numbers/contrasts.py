"""Differences, sums with signs, ratios and shares of what was released, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInput
from counton.base.exact import check_integer, quantity
from counton.numbers.design import Design
from counton.numbers.formulas import CellSum, Estimate, Formula, Term
from counton.numbers.intervals import check_level


@dataclass(frozen=True)
class Answer:
    """A number computed from what was released, and its interval.

    Attributes:
        value: the estimate; NaN where only an upper end is known.
        std: standard deviation of its noise; of a ratio by linear approximation; NaN where that
            does not say how far it may be off, as of a quantile.
        lower, upper: ends of the interval, infinite where a ratio's divisor may be 0.
        level: probability with which the interval holds the true value, at least, but for a
            ten-thousandth with wide Laplace noise; of all the answers at once that were asked for
            together.
        what: in words.
        asked: what was asked, of which `counton.numbers.jointly` makes intervals that hold
            together with others.
        at_once: for this many answers at once its interval holds.
        per_cent: words and charts tell it in per cent, as a share.

    >>> Answer(3.25, 1.0, 1.25, 5.25, 0.95, "home minus shop").interval()
    (1.25, 5.25)
    >>> print(Answer(0.325, 0.01, 0.305, 0.345, 0.95, "home, of all groups", per_cent=True))
    home, of all groups: 32.50%, and with probability 95% between 30.50% and 34.50%
    """

    value: float
    std: float
    lower: float
    upper: float
    level: float
    what: str = "combination"
    asked: Estimate | None = field(default=None, repr=False, compare=False)
    at_once: int = field(default=1, repr=False, compare=False)
    per_cent: bool = field(default=False, repr=False, compare=False)

    def interval(self) -> tuple[float, float]:
        return self.lower, self.upper

    def table_columns(self) -> dict[str, NDArray[Any]]:
        """One row as arrays: what, estimate, std, lower, upper."""
        return {
            "what": np.array([self.what]),
            "estimate": np.array([self.value]),
            "std": np.array([self.std]),
            "lower": np.array([self.lower]),
            "upper": np.array([self.upper]),
        }

    def table(self) -> Any:
        """One row as a polars data frame.

        Raises:
            MissingExtra: polars is not installed.
        """
        from counton.base.columns import data_frame

        return data_frame(self.table_columns())

    def describe(self) -> str:
        """The number and its interval, in words, to the digits that its error leaves."""
        unit, factor = ("%", 100) if self.per_cent else ("", 1)
        error = factor * self.std
        if not math.isfinite(error):  # the interval says how far it may be off
            error = factor * (self.upper - self.lower) / 4
        value, lower, upper = (
            (quantity(one, error) if math.isfinite(one) and math.isfinite(error) else f"{one:g}")
            + unit
            for one in (factor * self.value, factor * self.lower, factor * self.upper)
        )
        if math.isnan(self.value) and math.isfinite(self.upper):
            most = quantity(self.upper, error, self.upper == math.floor(self.upper))
            return f"{self.what}: at most {most}, with probability {100 * self.level:g}%"
        if math.isinf(self.lower) and math.isinf(self.upper):
            return (
                f"{self.what}: {value}, and what is released does not bound it: what it is divided "
                f"by may be 0"
            )
        return (
            f"{self.what}: {value}, and with probability {100 * self.level:g}% between "
            f"{lower} and {upper}"
        )

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from counton.base.columns import html

        return html(self.describe(), self.table_columns())


def answer(
    asked: Estimate, level: float = 0.95, *, at_once: int = 1, what: str = "combination"
) -> Answer:
    """A number that is read from what was released, and its interval.

    Args:
        level: probability with which the intervals of all ``at_once`` answers hold, at least.
        at_once: how many answers are asked for together (Bonferroni).

    Raises:
        InvalidInput: a level or a number of answers out of range.
    """
    level = check_level(level)
    alone = check_level(1 - (1 - level) / check_integer("at_once", at_once, 1))
    lower, upper = asked.interval(alone)
    return Answer(asked.value, asked.std, lower, upper, level, what, asked, at_once)


def sum_formula(
    terms: Design, parts: Sequence[Term], total: Callable[[int, int], float]
) -> Formula:
    """A sum of parts with weights, as a formula."""
    if not parts:
        raise InvalidInput("nothing is added up; give at least one group and its weight")
    for part in parts:
        if not math.isfinite(part.weight):
            raise InvalidInput(f"a weight is {part.weight}; give finite numbers")
    value = math.fsum(
        part.weight * (total(part.cell, part.stop) - total(part.cell, part.start)) for part in parts
    )
    placed = (part._replace(cell=terms.stream_cell(part.cell)) for part in parts)
    return Formula.of(CellSum(value, terms, tuple(placed)))

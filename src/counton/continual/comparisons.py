"""Differences, signed sums, ratios and shares of released numbers, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from counton.base.arrays import Column
from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, percent, quantity
from counton.continual.design import Design, stream_cell
from counton.continual.formulas import CellSum, Estimate, Formula, Term
from counton.continual.intervals import check_confidence_level


@dataclass(frozen=True)
class Answer:
    """A number computed from releases, with its interval.

    Attributes:
        value: the estimate.
        std: standard deviation of its noise (of a ratio to first order); NaN if none describes the
            error, as for a quantile.
        lower, upper: ends of the interval; infinite if the divisor of a ratio may be 0.
        confidence_level: least probability that the interval holds the true value; with wide
            Laplace noise it may be lower by 0.0001. For answers requested together, that all
            intervals hold.
        what: what the number is, in words.
        asked: the `Estimate` behind it, from which `counton.continual.jointly` makes joint
            intervals.
        at_once: number of answers that ``confidence_level`` is about.
        per_cent: whether the number is shown in per cent, as a share.

    >>> print(Answer(0.325, 0.01, 0.305, 0.345, 0.95, "home, of all groups", per_cent=True))
    home, of all groups: 32.50%, and with probability 95% between 30.50% and 34.50%
    """

    value: float
    std: float
    lower: float
    upper: float
    confidence_level: float
    what: str = "combination"
    asked: Estimate | None = field(default=None, repr=False, compare=False)
    at_once: int = field(default=1, repr=False, compare=False)
    per_cent: bool = field(default=False, repr=False, compare=False)

    def interval(self) -> tuple[float, float]:
        return self.lower, self.upper

    def table_columns(self) -> dict[str, Column]:
        """Return a table of one row as arrays, by column: ``measure`` says what is estimated."""
        return {
            "measure": np.array([self.what]),
            "estimate": np.array([self.value]),
            "noise_std": np.array([self.std]),
            "lower": np.array([self.lower]),
            "upper": np.array([self.upper]),
            "confidence_level": np.array([self.confidence_level]),
        }

    def table(self) -> Any:
        """Return the number as a polars data frame of one row.

        Raises:
            MissingDependencyError: polars is not installed.
        """
        from counton.base.columns import data_frame

        return data_frame(self.table_columns())

    def describe(self) -> str:
        """Describe the number and its interval, with as many digits as the error justifies."""
        unit, factor = ("%", 100) if self.per_cent else ("", 1)
        error = factor * self.std
        if not math.isfinite(error):  # only the interval describes the error
            error = factor * (self.upper - self.lower) / 4
        value, lower, upper = (
            (
                quantity(value, error)
                if math.isfinite(value) and math.isfinite(error)
                else f"{value:g}"
            )
            + unit
            for value in (factor * self.value, factor * self.lower, factor * self.upper)
        )
        if math.isinf(self.lower) and math.isinf(self.upper):
            return (
                f"{self.what}: {value}, and what is released does not bound it: what it is divided "
                f"by may be 0"
            )
        return (
            f"{self.what}: {value}, and with probability {percent(self.confidence_level)}% "
            f"between {lower} and {upper}"
        )

    def __str__(self) -> str:
        return self.describe()

    def _repr_html_(self) -> str:
        from counton.continual.html_table import html_table

        return html_table(self.describe(), self.table_columns())


def answer(
    estimate: Estimate,
    confidence_level: float = 0.95,
    *,
    at_once: int = 1,
    what: str = "combination",
) -> Answer:
    """Return an `Answer`; ``confidence_level`` is of ``at_once`` answers together (Bonferroni)."""
    confidence_level = check_confidence_level(confidence_level)
    alone = check_confidence_level(
        1 - (1 - confidence_level) / check_integer("at_once", at_once, 1)
    )
    lower, upper = estimate.interval(alone)
    return Answer(
        estimate.value, estimate.std, lower, upper, confidence_level, what, estimate, at_once
    )


def sum_formula(
    design: Design, parts: Sequence[Term], total: Callable[[int, int], float]
) -> Formula:
    """Return a weighted sum of cells as a `Formula`, by ``total(cell, step)``."""
    if not parts:
        raise InvalidInputError("no cell is named; give at least one group and its weight")
    for part in parts:
        if not math.isfinite(part.weight):
            raise InvalidInputError(f"the weight of a group is {part.weight}; give finite numbers")
    value = math.fsum(
        part.weight * (total(part.cell, part.stop) - total(part.cell, part.start)) for part in parts
    )
    placed = (part._replace(cell=stream_cell(design, part.cell)) for part in parts)
    return Formula.from_cell_sum(CellSum(value, design, tuple(placed)))

"""What a paper prints beside what is computed here."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Comparison:
    """One printed number and its recomputation.

    Attributes:
        place: where the paper prints it.
        quantity: what it is.
        printed: the number as printed; the digits say how exactly it is known.
        computed: the same quantity, computed here.
        tolerance: allowed distance, where the printed digits do not say it.
        at_most: what is printed is not to be exceeded.
        note: what a reader should know, such as an error of the paper.

    >>> Comparison("Table 1", "epsilon", "0.1341", 0.13407).agrees
    True
    """

    place: str
    quantity: str
    printed: str
    computed: float
    tolerance: float | None = None
    note: str = ""
    at_most: bool = False

    @property
    def agrees(self) -> bool:
        """Whether the computed number, rounded like the printed one, is it, or not above it."""
        printed = Decimal(self.printed)
        if self.at_most:
            return Decimal(repr(float(self.computed))) <= printed
        if self.tolerance is not None:
            return abs(self.computed - float(printed)) <= self.tolerance
        return Decimal(repr(float(self.computed))).quantize(printed) == printed


class ErrorRow(NamedTuple):
    """The error of one mechanism.

    Attributes:
        guarantee: under which it is private.
        metric: of which error.
        horizon: number of steps.
        mechanism: its name.
        source: who published it, or where it stands in counton.
        std: root of the mean or of the largest variance of a released total.

    >>> ErrorRow("pure, epsilon = 1", "mean", 365, "binary tree", "Dwork et al. (2010)", 25.7).std
    25.7
    """

    guarantee: str
    metric: str
    horizon: int
    mechanism: str
    source: str
    std: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything computed for one paper.

    Attributes:
        title: of the paper.
        comparisons: its numbers.
        figures: files that were written.
        errors: a table of errors, one row for each mechanism at each number of steps.

    >>> found = Comparison("Table 1", "epsilon", "0.1341", 0.2)
    >>> Evidence("A paper", (found,)).wrong == (found,)
    True
    """

    title: str
    comparisons: tuple[Comparison, ...]
    figures: tuple[Path, ...] = ()
    errors: tuple[ErrorRow, ...] = ()

    @property
    def wrong(self) -> tuple[Comparison, ...]:
        """The comparisons that do not agree."""
        return tuple(each for each in self.comparisons if not each.agrees)

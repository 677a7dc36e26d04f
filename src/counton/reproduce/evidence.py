"""What a paper prints beside what is computed here."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal, NamedTuple

#: Of a row: "explained" is a number that differs and says why.
Verdict = Literal["agrees", "explained", "DIFFERS"]


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
        differs: known not to agree, for the reason that `note` states. Without it a note excuses
            nothing: it would hide the day on which a number that agreed no longer does.

    >>> row = Comparison("Table 1", "epsilon", "0.1341", 0.13407)
    >>> row.agrees, row.verdict
    (True, 'agrees')
    >>> Comparison("Table 1", "epsilon", "0.1341", 0.2).verdict
    'DIFFERS'
    >>> Comparison("Cor. C.3", "constant", "0.1238", 0.12387, note="cut off", differs=True).verdict
    'explained'
    """

    place: str
    quantity: str
    printed: str
    computed: float
    tolerance: float | None = None
    note: str = ""
    at_most: bool = False
    differs: bool = False

    @classmethod
    def with_formula(
        cls, place: str, quantity: str, formula: float, computed: float, *, note: str = ""
    ) -> Comparison:
        """A printed formula's value beside the same quantity without the formula.

        Args:
            place: where the paper prints the formula.
            quantity: what it is.
            formula: its value.
            computed: by enumeration, from matrices, or from a strategy; equal to 8 digits.
            note: what a reader should know.

        >>> row = Comparison.with_formula("Lemma 3.5", "changes, k = 2", 6, 6)
        >>> row.printed, row.verdict, row.note
        ('6', 'agrees', 'the value of the printed formula')
        """
        said = "the value of the printed formula" + (f"; {note}" if note else "")
        return cls(place, quantity, f"{formula:.9g}", computed, 1e-8 * abs(formula), said)

    @property
    def difference(self) -> float:
        """Computed less printed."""
        return float(self.computed) - float(self.printed)

    @property
    def verdict(self) -> Verdict:
        """Whether it agrees, differs and says why, or only differs."""
        if self.agrees:
            return "agrees"
        return "explained" if self.differs and self.note else "DIFFERS"

    @property
    def agrees(self) -> bool:
        """Whether the computed number, rounded like the printed one, is it, or not above it."""
        printed = Decimal(self.printed)
        if self.at_most:
            return Decimal(repr(float(self.computed))) <= printed
        if self.tolerance is not None:
            return bool(abs(self.computed - float(printed)) <= self.tolerance)
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


class Figure(NamedTuple):
    """A picture that was drawn.

    Attributes:
        path: of the file.
        title: in a few words, with the paper's own number of the figure.
        shows: two sentences for a reader who does not know the paper: what is drawn, and what to
            see in it. The same in quick form.

    >>> Figure(Path("figure-1.png"), "Figure 1: error", "Error by step. Ours is smooth.").path.name
    'figure-1.png'
    """

    path: Path
    title: str
    shows: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything computed for one paper.

    Attributes:
        title: of the paper.
        comparisons: its numbers.
        figures: pictures that were drawn.
        errors: a table of errors, one row for each mechanism at each number of steps.

    >>> found = Comparison("Table 1", "epsilon", "0.1341", 0.2)
    >>> Evidence("A paper", (found,)).wrong == (found,)
    True
    """

    title: str
    comparisons: tuple[Comparison, ...]
    figures: tuple[Figure, ...] = ()
    errors: tuple[ErrorRow, ...] = ()

    @property
    def wrong(self) -> tuple[Comparison, ...]:
        """The comparisons that differ without an explanation."""
        return tuple(each for each in self.comparisons if each.verdict == "DIFFERS")

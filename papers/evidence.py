"""What a paper prints beside what is computed here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from counton.base.columns import data_frame

#: Of a row: "explained" is a number that differs from the printed one as it is known to, and why.
BatchStatus = Literal["agrees", "explained", "DIFFERS"]
#: What a row is held to: the digits of a printed number, the value of a printed formula, an
#: interval around what is printed, a bound on what rounding leaves of a zero, or a limit that is
#: not to be exceeded. Weaker: a limit that is far away, one that is proved for other sizes, and a
#: number, or a limit, that no paper prints.
Kind = Literal[
    "digits",
    "formula",
    "interval",
    "rounding",
    "limit",
    "far limit",
    "unproved",
    "own",
    "own limit",
]
#: Called with what is being done and the share of the whole that is behind it.
Report = Callable[[str, float], object]
_T = TypeVar("_T")
#: How far a number may be from what was recorded of it, as a part of it.
_ROOM = 1 / 500
#: A limit that is so many times as large says little.
_FAR = 3


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
        formula: what is printed is a formula, of which `printed` is the value.
        note: what a reader should know, such as an error of the paper.
        expected: what is computed instead of the printed number, of a row that is known to
            differ, for the reason that `note` states; as many digits as are known. A number that
            is neither DIFFERS, and so does one that agrees after all: its note would be wrong.
        spread: allowed distance from `expected`, where its digits do not say it.
        recorded: what was computed before, from which it may not differ by more than a part in
            500; see `papers.recorded`.
        rounding: what is computed is rounding, held to `tolerance` and to no record.
        own: `printed` is no paper's number: what counton states, or computes in another way.
        unproved: the limit is proved for other sizes only.

    >>> row = Comparison("Table 1", "epsilon", "0.1341", 0.13407)
    >>> row.agrees, row.verdict
    (True, 'agrees')
    >>> Comparison("Table 1", "epsilon", "0.1341", 0.2).verdict
    'DIFFERS'
    >>> why = {"note": "cut off", "expected": "0.12387"}
    >>> [Comparison("Cor. C.3", "", "0.1238", c, **why).verdict for c in (0.123874, 0.1239)]
    ['explained', 'DIFFERS']
    """

    place: str
    quantity: str
    printed: str
    computed: float
    tolerance: float | None = None
    note: str = ""
    at_most: bool = False
    formula: bool = False
    expected: str = ""
    spread: float | None = None
    recorded: float | None = None
    rounding: bool = False
    own: bool = False
    unproved: bool = False

    @classmethod
    def with_zero(
        cls, place: str, quantity: str, computed: float, bound: float, *, note: str = ""
    ) -> Comparison:
        """What is zero in the paper beside what rounding leaves of it.

        Its digits are those of the processor and its libraries, so it is held to a bound, and to
        nothing that was recorded.

        Args:
            place: where the paper states it.
            quantity: what is zero.
            computed: a number, of which rounding is all that there may be.
            bound: on its size: some ten times what was seen.
            note: what a reader should know.

        >>> row = Comparison.with_zero("Lemma B.2", "inverse less the recursion", 2.8e-12, 3e-11)
        >>> row.kind, row.allowed, row.verdict
        ('rounding', '0 ± 3e-11', 'agrees')
        >>> Comparison.with_zero("Lemma B.2", "inverse less the recursion", 4e-11, 3e-11).verdict
        'DIFFERS'
        """
        return cls(place, quantity, "0", computed, bound, note, rounding=True)

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
        >>> row.printed, row.verdict, row.kind, row.note
        ('6', 'agrees', 'formula', 'the value of the printed formula')
        """
        said = "the value of the printed formula" + (f"; {note}" if note else "")
        near = 1e-8 * abs(formula)
        return cls(place, quantity, f"{formula:.9g}", computed, near, said, formula=True)

    @property
    def difference(self) -> float:
        """Computed less printed."""
        return float(self.computed) - float(self.printed)

    @property
    def verdict(self) -> BatchStatus:
        """Whether it agrees, differs as it is known to and says why, or only differs."""
        if self.recorded is not None and not self.as_recorded:
            return "DIFFERS"
        if not self.expected:
            return "agrees" if self.agrees else "DIFFERS"
        known = self.note and _is(self.computed, self.expected, self.spread)
        return "explained" if known and not self.agrees else "DIFFERS"

    @property
    def as_recorded(self) -> bool:
        """Whether it is what was computed before.

        >>> for computed in (0.5, 0.515):
        ...     row = Comparison("Lemma 5", "", "1", computed, at_most=True, recorded=0.5)
        ...     print(row.agrees, row.verdict)
        True agrees
        True DIFFERS
        """
        if self.recorded is None or self.rounding:
            return True
        room = _ROOM * abs(self.recorded) if self.recorded else 1e-9
        return bool(abs(float(self.computed) - self.recorded) <= room)

    @property
    def agrees(self) -> bool:
        """Whether the computed number, rounded like the printed one, is it, or not above it."""
        if self.at_most:
            return bool(self.computed <= float(self.printed))
        return _is(self.computed, self.printed, self.tolerance)

    @property
    def kind(self) -> Kind:
        """What it is held to.

        >>> Comparison("Lemma 5", "distance", "1", 0.3, at_most=True).kind
        'far limit'
        """
        if self.own:
            return "own limit" if self.at_most else "own"
        if self.formula:
            return "formula"
        if self.unproved:
            return "unproved"
        if self.at_most:
            limit = float(self.printed)
            return "far limit" if _FAR * float(self.computed) < limit else "limit"
        if self.rounding:
            return "rounding"
        return "digits" if self.tolerance is None else "interval"

    @property
    def allowed(self) -> str:
        """What is printed, and how far from it a number may be.

        >>> Comparison("section 7", "factor", "4", 3.6, 0.5).allowed
        '4 ± 0.5'
        >>> Comparison("Lemma 5", "distance", "1", 0.5, at_most=True).allowed
        '≤ 1'
        """
        if self.at_most:
            return f"≤ {self.printed}"
        return self.printed + (
            f" ± {self.tolerance:.2g}" if self.kind in ("interval", "rounding") else ""
        )


def _is(computed: float, known: str, distance: float | None) -> bool:
    """Whether a number is one of which these digits are known, or as near to it as that."""
    if not math.isfinite(computed):
        return False
    if distance is not None:
        return bool(abs(computed - float(known)) <= distance)
    digits = Decimal(known)
    step = Decimal(1).scaleb(digits.as_tuple().exponent)  # type: ignore[arg-type]
    return round(Decimal(repr(float(computed))) / step) == digits / step


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

    def table(self) -> Any:
        """The numbers as a polars data frame, one row for each comparison in their order.

        Columns: ``place, quantity, printed, allowed, computed, difference, kind, verdict, note``.
        Text except ``computed`` and ``difference``, which are float64; ``printed`` has the digits
        of the paper, ``allowed`` also how far from it a number may be.

        Raises:
            MissingDependencyError: polars is not installed.

        >>> found = Comparison("Table 1", "epsilon", "0.1341", 0.13407)
        >>> table = Evidence("A paper", (found,)).table()
        >>> table.select("place", "printed", "computed", "verdict").rows()
        [('Table 1', '0.1341', 0.13407, 'agrees')]
        """
        rows = self.comparisons
        texts = ("place", "quantity", "printed", "allowed", "kind", "verdict", "note")
        said = {
            name: np.array([getattr(row, name) for row in rows], dtype=np.str_) for name in texts
        }
        numbers = {
            name: np.array([getattr(row, name) for row in rows], dtype=np.float64)
            for name in ("computed", "difference")
        }
        ordered = (*texts[:4], *numbers, *texts[4:])
        return data_frame({name: {**said, **numbers}[name] for name in ordered})

    def errors_table(self) -> Any:
        """`errors` as a polars data frame: ``guarantee, metric, horizon, mechanism, source, std``.

        Raises:
            MissingDependencyError: polars is not installed.

        >>> row = ErrorRow("pure, epsilon = 1", "mean", 365, "binary tree", "Dwork et al.", 25.7)
        >>> Evidence("Less noise", (), errors=(row,)).errors_table()["std"].to_list()
        [25.7]
        """
        kinds = {"horizon": np.int64, "std": np.float64}
        return data_frame(
            {
                name: np.array(
                    [getattr(row, name) for row in self.errors], dtype=kinds.get(name, np.str_)
                )
                for name in ErrorRow._fields
            }
        )


#: What is said of agreeing rows of each kind that are not held to printed digits.
_AGREED: dict[Kind, str] = {
    "formula": "with the value of a printed formula",
    "interval": "in an interval around the printed value",
    "rounding": "zero except for rounding",
    "limit": "within a limit",
    "far limit": "within a limit more than three times as large (which says little)",
    "unproved": "within a limit that is proved only for other sizes (which tests nothing)",
}
#: And of those that no paper prints.
_OWN: dict[Kind, str] = {
    "own": "that counton states or computes in another way",
    "own limit": "within a limit that counton states",
}


def counted(rows: Iterable[Comparison]) -> str:
    """How many of the numbers of a paper have its digits; and, apart, what the others show.

    >>> agreeing = Comparison("Table 1", "epsilon", "0.1341", 0.13407)
    >>> counted([agreeing, agreeing, Comparison("Lemma 5", "", "1", 0.5, at_most=True)])
    '2 of 3 numbers agree with the printed digits. Of the others: 1 within a limit'
    >>> counted([Comparison("the page", "epsilon", "0.1341", 0.13407, own=True)])
    'No paper prints these numbers: 1 that counton states or computes in another way'
    """
    rows = list(rows)
    told = Counter(row.verdict for row in rows)
    kinds = Counter(row.kind for row in rows if row.verdict == "agrees")
    said = [f"{told['DIFFERS']} DIFFER"] if told["DIFFERS"] else []
    said += [f"{told['explained']} with an explained difference"] if told["explained"] else []
    said += [f"{kinds[kind]} {words}" for kind, words in _AGREED.items() if kinds[kind]]
    own = [f"{kinds[kind]} {words}" for kind, words in _OWN.items() if kinds[kind]]
    printed = sum(not row.own for row in rows)
    if not printed:
        return f"No paper prints these numbers: {', '.join([*said, *own])}"
    words = f"{kinds['digits']} of {printed} numbers agree with the printed digits"
    words += f". Of the others: {', '.join(said)}" if said else ""
    return words + (f". No paper prints the rest: {', '.join(own)}" if own else "")


def silent(_stage: str, _share: float) -> None:
    """Tell nobody."""


class Stages:
    """Tells how far a paper is.

    Args:
        report: told after each stage.
        count: of stages in all.

    >>> stages = Stages(print, 4)
    >>> tuple(stages("figures", ["one", "two"]))
    figures 0.0
    figures 0.25
    figures 0.5
    ('one', 'two')
    """

    def __init__(self, report: Report, count: int) -> None:
        self._report = report
        self._count = count
        self._done = 0

    def __call__(self, name: str, parts: Iterable[_T]) -> Iterator[_T]:
        """Hand on what comes, each of which is a stage."""
        self._report(name, self._done / self._count)
        for part in parts:
            self._done += 1
            self._report(name, min(1.0, self._done / self._count))
            yield part

    def one(self, name: str, made: Callable[[], _T]) -> _T:
        """A stage that is a single call."""
        (part,) = self(name, (made() for _ in range(1)))
        return part

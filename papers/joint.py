"""`python -m papers.joint`: intervals that hold together, by the joint law and by Bonferroni.

Prints a table in Markdown: by how many per cent all half-widths are narrower than those of the
union bound, for questions that readers ask of a year of counts.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from counton import ZCDP, Counter, PureDP
from counton.continual import Design
from counton.continual.formulas import CellSum, Formula, Term
from counton.continual.intervals import halfwidths
from counton.continual.simultaneous_intervals import joint_factor, narrowing_factor
from counton.noise import Key
from counton.privacy import Guarantee
from counton.strategies import KAry, SqrtToeplitz, StreamStrategy

LEVEL = 0.95
STEPS = 52
CASES: dict[str, tuple[StreamStrategy, Guarantee]] = {
    "tree, pure, ε = 1": (KAry.best(STEPS), PureDP(1)),
    "square root, zCDP, ρ = 0.1": (SqrtToeplitz(STEPS), ZCDP("0.1")),
}


def terms_of(strategy: StreamStrategy, guarantee: Guarantee) -> Design:
    """A year of weekly counts."""
    return Counter(strategy, guarantee, key=Key.generate(), name="joint").design


def differences(
    terms: Design, pairs: list[tuple[tuple[int, int, int], tuple[int, int, int]]]
) -> list[Formula]:
    """One group's number less another's; each a cell, the step before and the last step."""
    return [
        Formula.from_cell_sum(
            CellSum(0.0, terms, (Term(1.0, *one[1:], one[0]), Term(-1.0, *other[1:], other[0])))
        )
        for one, other in pairs
    ]


def questions(terms: Design) -> dict[str, list[Formula]]:
    """What is asked, by what it is called."""
    year = [(cell, 0, STEPS) for cell in range(10)]
    weeks = [(0, week, week + 1) for week in range(STEPS)]
    months = [(0, 4 * month, 4 * month + 4) for month in range(13)]
    return {
        "3 groups against a fourth": differences(terms, [(one, year[0]) for one in year[1:4]]),
        "9 groups against a tenth": differences(terms, [(one, year[0]) for one in year[1:]]),
        "all pairs of 5 groups": differences(
            terms, [(one, other) for one in year[:5] for other in year[:5] if one < other]
        ),
        "12 four-week periods, each against the one before": differences(
            terms, [(later, earlier) for earlier, later in pairwise(months)]
        ),
        "51 weeks, each against the one before": differences(
            terms, [(later, earlier) for earlier, later in pairwise(weeks)]
        ),
    }


def gain(formulas: list[Formula]) -> float:
    """By how many per cent half-widths are narrower than Bonferroni's."""
    halves = np.array([one.half(1 - (1 - LEVEL) / len(formulas)) for one in formulas])
    return 100 * (1 - joint_factor(formulas, halves, LEVEL))


def main() -> None:
    """Print the table."""
    rows: dict[str, list[str]] = {}
    for case in CASES.values():
        terms = terms_of(*case)
        for name, formulas in questions(terms).items():
            rows.setdefault(name, []).append(f"{gain(formulas):.1f}%")
        widths = halfwidths(
            terms.strategy, terms.distribution, range(1, STEPS + 1), 1 - 0.05 / STEPS
        )
        factor = narrowing_factor(terms, widths, 1, LEVEL, windows=False)
        rows.setdefault("a band over all 52 totals", []).append(f"{100 * (1 - factor):.1f}%")
    print(f"| asked at once | {' | '.join(CASES)} |")  # noqa: T201
    print("|---|---|---|")  # noqa: T201
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")  # noqa: T201


if __name__ == "__main__":
    main()

"""Lengths of 2 to 4,096 steps: a plan beside HDMM's search, and a search for this very length.

`python -m papers.survey.lengths` computes `lengths.json` again, in some twenty minutes;
`python -m papers.survey.lengths 181 365` prints these lengths. All are mean standard deviations
at epsilon 1, one count added or removed.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from counton import PureDP, plan
from counton.base.arrays import one_thread
from counton.strategies.streams.shapes import shapes
from papers.survey.numbers import hdmm_variances
from tools.shape_search import Levels, Problem, search_rows

FILE = Path(__file__).with_name("lengths.json")
#: Every length up to 32; then 16 to an octave up to 1,024 steps, 4 up to 2,896, and
#: 4,096, beyond which HDMM's search takes no workload.
LENGTHS = sorted(
    {
        *range(2, 33),
        *(round(2 ** (k / 16)) for k in range(81, 161)),
        *(round(2 ** (k / 4)) for k in range(41, 47)),
        365,
        4096,
    }
)
#: The lengths that the page shows.
SHOWN = (8, 16, 32, 64, 128, 181, 256, 365, 512, 1024, 1448, 2048, 2896, 4096)
#: From here on a search for the very length is worth its time: all below have shapes of their own.
_SHORTEST_SEARCHED = 65


class Length(NamedTuple):
    """Mean standard deviations of totals over as many steps.

    Attributes:
        steps: the length.
        plan: of a plan.
        hdmm: of what HDMM's search finds.
        searched: of the end of a descent for this very length, from the plan's own shape.
    """

    steps: int
    plan: float
    hdmm: float
    searched: float

    @classmethod
    def of(cls, steps: int) -> Self:
        """Compute a row.

        >>> row = Length.of(70)
        >>> f"{row.plan:.3f} {row.hdmm:.2f}"
        '5.442 5.44'
        """
        with one_thread():
            hdmm = math.sqrt(2 * float(hdmm_variances(steps).mean()))
            ours = plan_std(steps)
            return cls(steps, ours, hdmm, min(ours, _descent(steps)))

    @property
    def excess(self) -> float:
        """How far the plan is above the least of all, as a part of it."""
        return self.plan / min(self.hdmm, self.searched) - 1


def plan_std(steps: int) -> float:
    """The mean standard deviation of a plan.

    >>> round(plan_std(8), 3), round(plan_std(365), 3)
    (2.879, 7.871)
    """
    return plan(steps, PureDP(1)).best.errors.mean_std


def _descent(steps: int) -> float:
    if steps < _SHORTEST_SEARCHED:
        return math.inf
    near = min(shapes(), key=lambda one: abs(math.log(one.horizon / steps)))
    if len(near.rows):
        found = search_rows(Problem(steps), [near]).serving(steps)
        return math.sqrt(2 * found.overall_variance("mean"))
    levels = Levels.like(near, Problem(steps), np.random.default_rng(0), 0.0)
    return math.sqrt(2 * levels.improve(40).improve(300, move=True).round().improve(60).error)


def recorded() -> list[Length]:
    """The rows of `lengths.json`."""
    return [Length(*row) for row in json.loads(FILE.read_text("ascii"))]


def markdown() -> list[str]:
    """The rows of the page's table."""
    return [
        f"| {row.steps:,} | {row.plan:.3f} | {row.hdmm:.3f} | {row.searched:.3f} |"
        for row in recorded()
        if row.steps in SHOWN
    ]


def main(words: Sequence[str]) -> None:
    """Print the rows of some lengths; without any compute the file again."""
    rows = []
    for steps in map(int, words) if words else LENGTHS:
        rows.append(row := Length.of(steps))
        numbers = f"plan {row.plan:.4f}, HDMM {row.hdmm:.4f}, searched {row.searched:.4f}"
        sys.stdout.write(f"{steps:>5} steps: {numbers}, {row.excess:.2%} above\n")
    if not words:
        text = ",\n".join(json.dumps([row.steps, *(round(x, 5) for x in row[1:])]) for row in rows)
        FILE.write_text(f"[\n{text}\n]\n", "ascii")


if __name__ == "__main__":
    main(sys.argv[1:])

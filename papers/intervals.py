"""`python -m papers.intervals`: how often intervals hold, and how wide they are, before and now.

Prints tables in Markdown, at 95%; `docs/research.md` has them.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from counton.laws import DiscreteGaussian, DiscreteLaplace, Law
from counton.mechanisms import interval_halfwidth
from counton.statistics import rank_largest, ranking_levels

LEVEL = 0.95
LAWS: dict[str, Law] = {
    "Laplace": DiscreteLaplace(Fraction(20)),
    "Gaussian": DiscreteGaussian(Fraction(800)),
}
#: Releases of one number of noise that are simulated for each row.
RUNS = 2_000


class Row(NamedTuple):
    """One line of a table.

    Attributes:
        what: is asked, of how many.
        law: of the noise.
        held: shares of intervals that held, before and now.
        width: mean widths, before and now, in standard deviations.
    """

    what: str
    law: str
    held: tuple[float, float]
    width: tuple[float, float]


def rankings() -> list[Row]:
    """The k largest of n groups: each interval as of n groups, and as `ranking_levels` says.

    How often they hold is that of the worst of two truths: all groups alike, and all far apart.
    """
    rows = []
    for groups, k in ((10, 3), (100, 5), (10_000, 10), (1_000_000, 10)):
        for name, law in LAWS.items():
            whole = interval_halfwidth(law, 1, LEVEL ** (1 / groups))
            levels = ranking_levels(groups, k, LEVEL)
            down, up = (interval_halfwidth(law, 1, level) for level in levels)
            held = (float("nan"), float("nan"))
            if groups <= 10_000:
                held = _held(law, groups, k, whole, whole), _held(law, groups, k, down, up)
            width = 2 * whole / law.std, (down + up) / law.std
            rows.append(Row(f"the {k} largest of {groups:,} groups", name, held, width))
    return rows


def _held(law: Law, groups: int, k: int, down: int, up: int) -> float:
    """How often all intervals hold together, in the worse of two cases."""
    rng, held = np.random.default_rng(27), []
    for apart in (0, 100 * int(law.std)):
        truth = apart * np.arange(groups)
        right = 0
        for _ in range(RUNS):
            if isinstance(law, DiscreteLaplace):
                noise = np.rint(rng.laplace(0, float(law.scale), groups))
            else:
                noise = np.rint(rng.normal(0, law.std, groups))
            found = rank_largest(range(groups), truth + noise, down, k, upward=up)
            own = truth[list(found.names)]
            right += bool(((found.lower <= own) & (own <= found.upper)).all())
        held.append(right / RUNS)
    return min(held)


#: By what is on the command line.
TABLES: dict[str, Callable[[], list[Row]]] = {"rankings": rankings}


def main() -> None:
    """Print the tables."""
    for rows in TABLES.values():
        heads = ("asked", "noise", "held, before", "held, now", "before", "now", "narrower")
        print(f"| {' | '.join(heads)} |")  # noqa: T201
        print("|---|---|---|---|---|---|---|")  # noqa: T201
        for row in rows():
            held = ("" if one != one else f"{one:.3f}" for one in row.held)
            before, now = row.width
            cells = [row.what, row.law, *held, f"{before:.2f}", f"{now:.2f}"]
            print(f"| {' | '.join(cells)} | {100 * (1 - now / before):.1f}% |")  # noqa: T201
        print()  # noqa: T201


if __name__ == "__main__":
    main()

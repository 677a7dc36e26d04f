"""The variances that `counton.strategies.streams.growing_root` ships: some of each quarter octave.

Each variance follows from the one before it. So a single late variance would take as long, and as
much memory, as all variances together. Variances between the shipped ones are interpolated by
polynomials, within 1e-6.

`make growing` computes them: two minutes on one processor.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from counton.strategies import GrowingSquareRoot
from counton.strategies.streams import growing_root
from counton.strategies.streams.growing_root import EVEN, STEPS, first_of, quarter
from counton.strategies.streams.root_variances import variances_of_long_rows

#: So many of a quarter octave, as long as it has them.
KNOTS = 80
#: Releases of the first nodes have variances that are computed exactly when they are asked for.
EXACT = growing_root._EXACT_STEPS


def knots(level: int) -> list[int]:
    """Return the nodes of one class (a quarter octave) whose variances are shipped, denser near
    both ends.
    """
    first = first_of(level)
    last = first_of(level + 1) - 1
    ends = np.log(2 * (last - first) + 1.0)
    share = 1 / (1 + np.exp(-np.linspace(-ends, ends, KNOTS)))
    nodes = np.rint(first + (last - first + 1) * share - 0.5).astype(int)
    return sorted(set(np.clip(nodes, first, last).tolist()))


def run(path: Path) -> None:
    """Compute the variances, and write them to a JSON file."""
    nodes = [node for level in range(quarter(EXACT), quarter(STEPS) + 1) for node in knots(level)]
    found: dict[str, list[float]] = {}
    for even in (None, *EVEN):
        root = GrowingSquareRoot(even=even)
        known = growing_root.WeightedRoot(STEPS, 18, root._equal)
        variances = variances_of_long_rows(known.shares, known.widths)
        name = "variances" if even is None else f"even {even}"
        found[name] = [float(f"{variances[node - 1]:.9g}") for node in nodes]
    path.write_text(json.dumps({"nodes": nodes, **found}) + "\n")


if __name__ == "__main__":
    run(Path(growing_root.__file__).parent / "growing_root.json")

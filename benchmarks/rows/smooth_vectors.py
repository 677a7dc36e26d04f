"""A thousand releases of ten thousand coordinates, against numpy drawing two normals for each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import ZCDP, Counter, Key
from counton.strategies import SmoothBinary

STEPS = 1000
COORDINATES = 10**4
WINDOW = 25


def measure() -> Iterator[Row]:
    """Measure releases of ten thousand coordinates against numpy's draws; yield one row."""
    strategy = SmoothBinary.best(STEPS, norm=2)
    generator = np.random.default_rng()
    zeros = np.zeros((WINDOW, COORDINATES), np.int64)

    def releases() -> None:
        counter = Counter(
            strategy, ZCDP(rho=0.5), key=Key.generate(), name="bench", shape=(COORDINATES,)
        )
        for _ in range(STEPS // WINDOW):
            counter.release_many(zeros)

    def normals() -> None:
        generator.standard_normal(2 * STEPS * COORDINATES)

    ours, peer = fastest(releases, normals)
    yield Row(
        f"{STEPS:,} x {COORDINATES:,} releases of {strategy}",
        ours / peer,
        1.2,
        note="numpy drawing 2 * 10^7 normals",
    )

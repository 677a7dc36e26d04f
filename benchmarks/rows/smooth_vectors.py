"""Releases of smooth binary trees, of vectors and in bulk, against numpy drawing normals.

In bulk, the lowest bits of leaves are added by tables of their trees, about twice numpy's draws.
"""

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
BULK = 10**7


def measure() -> Iterator[Row]:
    """Measure releases of ten thousand coordinates, and of one in bulk; yield both rows."""
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
    yield _bulk()


def _bulk() -> Row:
    """Measure ten million releases at once against numpy's draws."""
    strategy = SmoothBinary.best(BULK, norm=2)
    generator = np.random.default_rng()
    zeros = np.zeros(BULK, np.int64)

    def releases() -> None:
        Counter(strategy, ZCDP(rho=0.5), key=Key.generate(), name="b").release_many(zeros)

    def normals() -> None:
        generator.standard_normal(2 * BULK)

    ours, peer = fastest(releases, normals, turns=3, seconds=1)
    name = f"{BULK:,} releases of {strategy}"
    return Row(name, ours / peer, 3, note="numpy drawing 2 * 10^7 normals")

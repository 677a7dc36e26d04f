"""Releases of smooth binary trees, of vectors and in bulk, against numpy drawing normals.

In bulk, the lowest bits of leaves are added by tables of their trees, about twice numpy's draws.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

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
    yield from _bulk()


def _bulk() -> Iterator[Row]:
    """Measure ten million releases at once against numpy's draws, and against its whole tree."""
    strategy = SmoothBinary.best(BULK, norm=2)
    generator = np.random.default_rng()
    zeros = np.zeros(BULK, np.int64)

    def releases() -> None:
        Counter(strategy, ZCDP(rho=0.5), key=Key.generate(), name="b").release_many(zeros)

    def normals() -> None:
        generator.standard_normal(2 * BULK)

    def tree() -> None:
        _tree_of_normals(strategy, generator)

    ours, draws, whole_tree = fastest(releases, normals, tree, turns=3, seconds=1)
    name = f"{BULK:,} releases of {strategy}"
    yield Row(name, ours / draws, 3, note="numpy drawing 2 * 10^7 normals")
    yield Row(name, ours / whole_tree, 1.2, note="numpy drawing all nodes, added up by level")


def _tree_of_normals(strategy: SmoothBinary, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return the noise of all releases in floating point, level by level from the root.

    A node for each prefix of a leaf's index has one normal, which the right half below it adds.
    """
    sums = np.zeros(1)
    ones = np.zeros(1, np.int8)
    for level in range(strategy.height):
        can_be_one = ones < strategy.height - strategy.zeros
        can_be_zero = level - ones < strategy.zeros
        children = can_be_one.view(np.int8) + can_be_zero.view(np.int8)
        last_child = np.cumsum(children) - 1
        parent = np.repeat(np.arange(len(sums)), children)
        ones_of_level = last_child[can_be_one]
        sums = sums[parent]
        sums[ones_of_level] += generator.standard_normal(len(ones_of_level))
        ones = ones[parent]
        ones[ones_of_level] += 1
        # Each prefix has a leaf, so the first prefixes are enough.
        sums = sums[: strategy.horizon + 1]
        ones = ones[: strategy.horizon + 1]
    return sums[1:]

"""Ranges and hierarchies: exact noise and answers, against numpy in floating point."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import Key, plan_ranges, release_hierarchy, release_ranges
from counton.noise import NoiseField
from counton.privacy import ZCDP
from counton.strategies.lines import Haar
from counton.strategies.trees import Tree

CELLS = 2**25
QUERIES = 10**6
SUMMED = 10**7
LEAVES = 10**6
SIDE = 4096
AUTO_SIDE = 1024


def numpy_cascade(cells: int) -> NDArray[np.float64]:
    """Algorithm 1 of "Ranges" in plain numpy, floating point."""
    rng = np.random.default_rng()
    nodes = rng.standard_normal(1)
    half = math.sqrt(3) / 2
    while len(nodes) < cells:
        noise = rng.standard_normal(len(nodes))
        below = np.empty(2 * len(nodes))
        below[0::2] = 0.5 * nodes + half * noise
        below[1::2] = 0.5 * nodes - half * noise
        nodes = below
    return nodes


def exact_cascade(cells: int) -> NDArray[np.float64]:
    """The same law with exact discrete noise from a key, as a release draws it."""
    choice = plan_ranges(cells, guarantee=ZCDP(0.5), strategy="cascade").best
    axis = choice.grid.axes[0]
    assert isinstance(axis, Haar)
    field = NoiseField(Key.generate().derive(b"bench"), choice.noise_law)
    return axis.cascaded(lambda rows: field.run(0, rows))


def measure() -> Iterator[Row]:
    """Yield the rows."""
    ours, numpys = fastest(lambda: exact_cascade(CELLS), lambda: numpy_cascade(CELLS))
    yield Row("exact cascade noise, 2^25 cells", ours / numpys, 1.6, note="numpy, floating point")
    yield _memory()

    rng = np.random.default_rng(0)
    counts = rng.integers(0, 100, LEAVES)
    release = release_ranges(counts, guarantee=ZCDP(0.5), key=Key.generate(), strategy="haar")
    low = rng.integers(0, LEAVES, QUERIES)
    high = rng.integers(low, LEAVES + 1)
    values = rng.standard_normal(SUMMED)
    ours, numpys = fastest(lambda: release.sum(low, high), lambda: np.cumsum(values))
    yield Row("a million range queries", ours / numpys, 0.5, note="numpy.cumsum of 10^7")

    tree = _tree(rng, (16, 250, 4000, 64000, LEAVES))
    key, leaves = Key.generate(), rng.integers(0, 100, sum(map(len, tree.leaves)))
    ours, numpys = fastest(
        lambda: release_hierarchy(leaves, domain=tree, guarantee=ZCDP(0.5), key=key),
        lambda: np.random.default_rng().standard_normal(LEAVES),
    )
    yield Row("hierarchy of 10^6 leaves, 5 levels", ours / numpys, 10, note="numpy, 10^6 normals")

    grid = rng.integers(0, 100, (SIDE, SIDE))
    ours, numpys = fastest(
        lambda: release_ranges(grid, guarantee=ZCDP(0.5), key=key, strategy="cascade"),
        lambda: numpy_cascade(SIDE * SIDE),
    )
    yield Row(
        "grid of 4096 x 4096 released, cascade on both axes",
        ours / numpys,
        8,
        note="numpy, floating-point noise alone on a line of as many cells",
    )

    small = rng.integers(0, 100, (AUTO_SIDE, AUTO_SIDE))
    release_ranges(small, guarantee=ZCDP(0.5), key=key)  # plans once; later releases find it ready
    real = rng.standard_normal((AUTO_SIDE, AUTO_SIDE))
    ours, numpys = fastest(
        lambda: release_ranges(small, guarantee=ZCDP(0.5), key=key),
        lambda: np.linalg.multi_dot([real, real, real, real, real]),
    )
    yield Row(
        "grid of 1024 x 1024 released, auto",
        ours / numpys,
        10,
        note="numpy, four products of such matrices; planned before",
    )


def _memory() -> Row:
    """Peak of all that is allocated, in arrays of one float64 a cell."""
    tracemalloc.start()
    exact_cascade(CELLS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Row("memory of exact cascade noise", peak / (8 * CELLS), 3, unit="arrays of cells")


def _tree(rng: np.random.Generator, sizes: tuple[int, ...]) -> Tree:
    """Random fan-out, every node with at least one child."""
    parents: list[NDArray[np.int64]] = []
    above = 1
    for size in sizes:
        more = rng.integers(0, above, size - above)
        parents.append(np.sort(np.concatenate([np.arange(above), more])))
        above = size
    names = [f"level {number}" for number in range(1, len(sizes) + 1)]
    return Tree(names, parents, [np.arange(len(part)) for part in parents])

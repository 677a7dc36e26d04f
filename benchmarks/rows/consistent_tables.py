"""Ranges and hierarchies: exact noise and answers, against numpy in floating point."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import counton
from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import Key
from counton.base.distributions import DiscreteGaussian, NoiseDistribution
from counton.noise import NoiseField
from counton.privacy import ZCDP
from counton.tables import Haar, Tree
from counton.tables.tree_measurement import Measuring
from counton.tables.tree_strategy import tree_strategy_for
from papers.ranges.running_sums import running_sums

CELLS = 2**25
QUERIES = 10**6
SUMMED = 10**7
LEAVES = 10**6
SIDE = 4096
AUTO_SIDE = 1024


def numpy_cascade(cells: int) -> NDArray[np.float64]:
    """Draw cascade noise with numpy, in floating point (Algorithm 1 of "Ranges")."""
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
    """Draw noise of the same law as `numpy_cascade`, but exact discrete noise from a key, as a
    release does.
    """
    choice = counton.plan_cells(cells, guarantee=ZCDP(0.5), line="cascade").best
    axis = choice.strategy.axes[0]
    assert isinstance(axis, Haar)
    field = NoiseField(Key.generate().derive(b"bench"), choice.distribution)
    return axis.run_cascade(lambda rows: field.run(0, rows))


def measure() -> Iterator[Row]:
    """Measure noise, queries, hierarchies and grids, each against numpy; yield the rows."""
    ours, numpys = fastest(lambda: exact_cascade(CELLS), lambda: numpy_cascade(CELLS))
    yield Row("exact cascade noise, 2^25 cells", ours / numpys, 1.6, note="numpy, floating point")
    yield _memory()

    rng = np.random.default_rng(0)
    counts = rng.integers(0, 100, LEAVES)
    sums = _sums(counts, "haar")
    low = rng.integers(0, LEAVES, QUERIES)
    high = rng.integers(low, LEAVES + 1)
    values = rng.standard_normal(SUMMED)
    ours, numpys = fastest(lambda: sums[high] - sums[low], lambda: np.cumsum(values))
    yield Row("a million range queries", ours / numpys, 0.5, note="numpy.cumsum of 10^7")

    tree = _tree(rng, (16, 250, 4000, 64000, LEAVES))
    leaves = [rng.integers(0, 100, size) for size in tree.sizes]
    ours, numpys = fastest(
        lambda: _hierarchy(tree, leaves),
        lambda: np.random.default_rng().standard_normal(LEAVES),
    )
    yield Row("hierarchy of 10^6 leaves, 5 levels", ours / numpys, 12, note="numpy, 10^6 normals")

    grid = rng.integers(0, 100, (SIDE, SIDE))
    ours, numpys = fastest(
        lambda: _sums(grid, "cascade"),
        lambda: numpy_cascade(SIDE * SIDE),
    )
    yield Row(
        "grid of 4096 x 4096 released, cascade on both axes",
        ours / numpys,
        8,
        note="numpy, floating-point noise alone on a line of as many cells",
    )

    small = rng.integers(0, 100, (AUTO_SIDE, AUTO_SIDE))
    _sums(small, "auto")  # plans once; later releases find it ready
    real = rng.standard_normal((AUTO_SIDE, AUTO_SIDE))
    ours, numpys = fastest(
        lambda: _sums(small, "auto"),
        lambda: np.linalg.multi_dot([real, real, real, real, real]),
    )
    yield Row(
        "grid of 1024 x 1024 released, auto",
        ours / numpys,
        10,
        note="numpy, four products of such matrices; planned before",
    )


def _field(distribution: NoiseDistribution) -> NoiseField:
    return NoiseField(Key.generate().derive(b"bench"), distribution)


def _sums(counts: NDArray[np.int64], strategy: str) -> NDArray[np.int64]:
    """Return the running sums of a line or grid of counts, with noise, as a release has them."""
    best = counton.plan_cells(counts.shape, guarantee=ZCDP(0.5), line=strategy).best
    return running_sums(best.strategy, counts, _field(best.distribution), 16)[0]


def _hierarchy(tree: Tree, leaves: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Return the numbers of all nodes of a tree, with noise, as a release has them."""
    measurement, scale = tree_strategy_for(tree, [1.0] * len(tree.levels), 2)
    measuring = Measuring(measurement)
    counts = np.concatenate([leaves[level][nodes] for level, nodes in enumerate(tree.leaves)])
    noise = _field(DiscreteGaussian(Fraction(scale**2))).run(0, range(measuring.size))
    return measuring.share_to_nodes(measuring.cells(counts[None])[0] + noise, 16)


def _memory() -> Row:
    """Measure the peak memory of exact cascade noise, in arrays of one float64 for each cell."""
    tracemalloc.start()
    exact_cascade(CELLS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Row("memory of exact cascade noise", peak / (8 * CELLS), 3, unit="arrays of cells")


def _tree(rng: np.random.Generator, sizes: tuple[int, ...]) -> Tree:
    """Build a random tree with these numbers of nodes by level; each node has at least one
    child.
    """
    parents: list[NDArray[np.int64]] = []
    above = 1
    for size in sizes:
        more = rng.integers(0, above, size - above)
        parents.append(np.sort(np.concatenate([np.arange(above), more])))
        above = size
    names = [f"level {number}" for number in range(1, len(sizes) + 1)]
    return Tree(names, parents, [np.arange(len(part)) for part in parents])

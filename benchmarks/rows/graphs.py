"""Triangles of a million edges, after each edge, against a graph library's count of them all."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton.statistics import Triangles

EDGES = 10**6


def random_edges(nodes: int, seed: int) -> NDArray[np.int64]:
    """Return different edges between random nodes, in random order: shape (EDGES, 2)."""
    chance = np.random.default_rng(seed)
    ends = chance.integers(0, nodes, (2 * EDGES, 2))
    ends = np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1)
    return chance.permutation(np.unique(ends, axis=0))[:EDGES]


def measure() -> Iterator[Row]:
    """Measure counts of triangles against igraph; yield the rows.

    Without igraph, which `make bench` installs, there are no rows.
    """
    if not find_spec("igraph"):
        return
    import igraph

    stops = np.arange(1, EDGES + 1)
    for nodes in (100_000, 20_000):
        edges = random_edges(nodes, seed=1)
        statistic = Triangles(int(np.bincount(edges.ravel()).max()))

        def count(edges: NDArray[np.int64] = edges, statistic: Triangles = statistic) -> int:
            return int(statistic.begin().take(edges, stops).sum())

        def count_all(edges: NDArray[np.int64] = edges, nodes: int = nodes) -> int:
            return len(igraph.Graph(n=nodes, edges=edges).list_triangles())

        if count() != count_all():
            raise AssertionError("the counts of triangles differ")
        own, peer = fastest(count, count_all, turns=3)
        yield Row(
            f"triangles after each of 10^6 edges of {nodes:,} nodes",
            own / peer,
            3,
            note=f"igraph {igraph.__version__}, from the same edges, counted once at the end",
        )

"""The number of triangles of a growing graph."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError, param
from counton.statistics.graphs.graph_statistic import Beyond, keys_of
from counton.statistics.graphs.subgraphs import Subgraphs, sums_by_step

#: Number of pairs of edges that are checked at a time.
_WEDGES_PER_CHECK = 2**20


class Triangles(Subgraphs):
    """The number of triangles of a growing graph; edge-level privacy.

    An event is an edge ``(u, v)`` without direction, or ``None``. Nodes are texts or integers and
    need not be declared. An edge that arrives again changes nothing; one that joins a node with
    itself is refused. The protected unit is one edge with all its arrivals; all edges of one node
    together are not protected. An edge is in at most ``degree - 1`` triangles.

    The bound on degrees is enforced: an edge beyond it is refused, and nothing is released, which
    itself reveals a degree; or left out by ``beyond="drop"``. Dropping needs three times the noise
    (sqrt 5 times by the 2-norm), since one edge decides which later edges of its two nodes are
    kept.

    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", section 5, and Fichtenberger,
    Henzinger and Ost, "Differentially private algorithms for graphs under continual observation".

    Args:
        degree: largest number of edges of a node, at least 2.
        beyond: "refuse" or "drop" edges beyond it.

    Raises:
        InvalidInputError: an argument is out of range.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Triangles, unit_sensitivity
    >>> from counton.strategies import Binary
    >>> unit_sensitivity(Triangles(degree=5), Binary(1000), 1)
    40.0
    >>> counter = RunningStatistic.start(
    ...     Triangles(degree=5), 100, PureDP(1), key=Key.generate(), name="friends"
    ... )
    >>> for edge in [("ann", "bob"), ("bob", "cy"), ("cy", "ann")]:
    ...     result = counter.release(edge)
    >>> result["triangles"] == result.release.value, result.std() > 10
    (True, True)
    """

    counted = "triangles"
    phrase = "number of triangles of a growing graph"
    sources = ("constants",)

    def __init__(self, degree: int, *, beyond: Beyond = "refuse") -> None:
        super().__init__(degree, beyond)
        self.most = (self.degree or 0) - 1  # most common neighbours of the nodes of an edge
        if self.most < 1:
            raise InvalidInputError(
                f"{param('degree')} is {degree!r}, so there can be no triangle; it is the largest "
                "number of edges of one node: give at least 2"
            )

    @override
    def edge_changes(self, near: list[set[int]], end: int, other: int) -> Iterable[tuple[int, int]]:
        return ((0, len(near[end] & near[other])),)

    @override
    def step_changes(
        self, edges: NDArray[np.int64], old: int, steps: NDArray[np.int64], count: int
    ) -> NDArray[np.int64]:
        return sums_by_step(count_completed(edges)[old:], steps, count)


def count_completed(edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many triangles each edge, of shape ``(edges, 2)``, completes when it arrives.

    >>> count_completed(np.array([[0, 1], [1, 2], [2, 0], [2, 3], [3, 0]])).tolist()
    [0, 0, 1, 0, 1]
    """
    # Each edge is directed towards its node with more edges, so that few leave a node. Every
    # triangle then has one node from which two of its edges leave, and is found there once.
    triangles = np.zeros(len(edges), np.int64)
    degrees = np.bincount(edges.ravel())
    numbers = np.empty(len(degrees), np.int64)
    numbers[np.argsort(degrees, kind="stable")] = np.arange(len(degrees))
    keys = keys_of(numbers[edges])
    order = np.argsort(keys)  # by the node with fewer edges, then the other
    keys = keys[order]
    begin = np.searchsorted(keys >> 32, np.arange(len(degrees) + 1))
    # All pairs of edges that leave one node, in parts.
    more = begin[(keys >> 32) + 1] - np.arange(1, len(keys) + 1)  # later edges of the node
    pairs = np.cumsum(more)
    high = keys & (2**32 - 1)
    present = _Presence(keys)
    start = 0
    while start < len(keys):
        pairs_before = pairs[start - 1] if start else 0
        stop = max(
            start + 1, int(np.searchsorted(pairs, pairs_before + _WEDGES_PER_CHECK, side="right"))
        )
        times = more[start:stop]
        first_edges = np.repeat(np.arange(start, stop), times)
        first_pairs = np.cumsum(times) - times
        second_edges = first_edges + 1 + np.arange(len(first_edges)) - np.repeat(first_pairs, times)
        edge_keys = (high[first_edges] << 32) | high[second_edges]
        candidates = np.flatnonzero(present.possible(edge_keys))
        edge_keys = edge_keys[candidates]
        place = np.searchsorted(keys, edge_keys)
        place[place == len(keys)] = 0
        real = keys[place] == edge_keys
        ends = (first_edges[candidates[real]], second_edges[candidates[real]], place[real])
        last = np.maximum(np.maximum(order[ends[0]], order[ends[1]]), order[ends[2]])
        triangles += np.bincount(last, minlength=len(edges))
        start = stop
    return triangles


class _Presence:
    """A set with a fast test that has false positives, but no false negatives."""

    def __init__(self, keys: NDArray[np.int64]) -> None:
        self._bits = max(16, (16 * len(keys)).bit_length())
        self._held = np.zeros(1 << self._bits, bool)
        self._held[self._places(keys)] = True

    def _places(self, keys: NDArray[np.int64]) -> NDArray[np.uint64]:
        # Fibonacci hashing: the high bits of a product with 2^64 / golden ratio.
        mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return mixed >> np.uint64(64 - self._bits)

    def possible(self, keys: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return False for numbers that are not in the set."""
        return self._held[self._places(keys)]

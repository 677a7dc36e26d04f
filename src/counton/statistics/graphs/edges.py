"""The number of edges of a growing graph."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.statistics.graphs.subgraphs import Subgraphs


class Edges(Subgraphs):
    """The number of edges of a growing graph, each counted when first seen; edge-level privacy.

    An edge changes the number by 1, so no bound on degrees is needed. `Triangles` describes events
    and the protected unit.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Edges
    >>> edges = RunningStatistic.start(Edges(), 100, PureDP(1), key=Key.generate(), name="flights")
    >>> result = edges.release(("JFK", "BOS"))
    >>> result["edges"] == result.release.value, result.std() > 1
    (True, True)
    >>> print(Edges().contribution())
    one edge added or removed, counted in one cell of one step by at most 1
    """

    counted = "edges"
    phrase = "number of edges of a growing graph"
    sources = ("constants",)

    most = 1

    def __init__(self) -> None:
        super().__init__()

    @override
    def edge_changes(self, near: list[set[int]], end: int, other: int) -> Iterable[tuple[int, int]]:
        return ((0, 1),)

    @override
    def step_changes(
        self, edges: NDArray[np.int64], old: int, steps: NDArray[np.int64], count: int
    ) -> NDArray[np.int64]:
        return np.bincount(steps, minlength=count)

"""Number of edges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.privacy.contribution import Relation
from counton.statistics.graphs import Beyond
from counton.statistics.subgraphs import Subgraphs


class Edges(Subgraphs):
    """Number of edges of a growing graph, each counted at first sight; edge-level privacy.

    See `Triangles` for events, what is protected, and edges that come and go. No degree has to be
    bounded: an edge changes the number of edges by 1.

    Args:
        changes: most times that an edge comes or goes; 1: edges only come.
        beyond: "refuse" or "drop" further changes of an edge; dropping costs nothing, since what
            is kept of an edge depends on it alone.
        neighbours: "add_remove", or "replace": an edge is replaced by another.

    Raises:
        InvalidInput: an argument out of range.

    >>> from counton import Key, PureDP
    >>> from counton.statistics import Edges
    >>> edges = Edges().counter(100, PureDP(1), key=Key.generate(), name="flights")
    >>> reading = edges.release(("JFK", "BOS"))
    >>> reading["edges"] == reading.count, reading.std() > 1
    (True, True)
    >>> print(Edges().contribution())
    one edge (edge-level privacy), which counts in one cell of one step by at most 1, added or
    removed
    """

    counted, size = "edges", 1

    def __init__(
        self,
        *,
        changes: int = 1,
        beyond: Beyond = "refuse",
        neighbours: Relation = "add_remove",
    ) -> None:
        super().__init__(None, changes, beyond, neighbours)

    @property
    def parameters(self) -> dict[str, Any]:
        """See `Statistic.parameters`."""
        return self._given

    @property
    def most(self) -> int:
        """1."""
        return 1

    def of_one(self, near: list[set[int]], one: int, other: int) -> Iterable[tuple[int, int]]:
        """See `GraphStatistic.of_one`."""
        return ((0, 1),)

    def of_many(
        self, edges: NDArray[np.int64], old: int, steps: NDArray[np.int64], count: int
    ) -> NDArray[np.int64]:
        """See `GraphStatistic.of_many`."""
        return np.bincount(steps, minlength=count)

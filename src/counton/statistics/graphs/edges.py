"""The number of edges of a growing graph."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.privacy.contribution import Relation
from counton.statistics.graphs.graph_statistic import Beyond
from counton.statistics.graphs.subgraphs import Subgraphs


class Edges(Subgraphs):
    """The number of edges of a growing graph, each counted when first seen; edge-level privacy.

    An edge changes the number by 1, so no bound on degrees is needed, and dropping needs no more
    noise. `Triangles` describes events, the protected unit and the arguments.

    Raises:
        InvalidInput: an argument is out of range.

    >>> from counton import Key, PureDP, Running
    >>> from counton.statistics import Edges
    >>> edges = Running.start(Edges(), 100, PureDP(1), key=Key.generate(), name="flights")
    >>> reading = edges.release(("JFK", "BOS"))
    >>> reading["edges"] == reading.release.value, reading.std() > 1
    (True, True)
    >>> print(Edges().contribution())
    one edge added or removed, counted in one cell of one step by at most 1
    """

    # If edges only come, only first sightings count. If one sighting is replaced by another edge in
    # its step, that step counts with both signs or not at all, so that two steps differ by at most
    # 1. The first sightings of an edge and of its replacement differ in the same way: 2 D_1 and,
    # with opposite signs, 2 D_2^2. Under "replace" all sightings may instead be of another edge
    # that is seen nowhere else; with changes it is as in `Triangles`. Dropping needs no more noise,
    # since an edge's own changes alone decide what is kept.

    counted = "edges"
    phrase = "number of edges of a growing graph"
    sources = ("constants",)

    size, most = 1, 1

    def __init__(
        self, *, changes: int = 1, beyond: Beyond = "refuse", neighbours: Relation = "add_remove"
    ) -> None:
        super().__init__(None, changes, beyond, neighbours)
        self.any_sightings = changes > 1  # else one sighting, or all of an edge

    @property
    @override
    def signed_changes(self) -> tuple[int, int]:
        if self.neighbours == "replace" and not self.any_sightings:
            return 1, 1
        return super().signed_changes

    @override
    def edge_changes(self, near: list[set[int]], one: int, other: int) -> Iterable[tuple[int, int]]:
        return ((0, 1),)

    @override
    def step_changes(
        self, edges: NDArray[np.int64], old: int, steps: NDArray[np.int64], count: int
    ) -> NDArray[np.int64]:
        return np.bincount(steps, minlength=count)

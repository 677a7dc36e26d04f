"""The number of stars with k leaves of a growing graph."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError, param
from counton.base.exact import check_integer
from counton.statistics.graphs.graph_statistic import Beyond, ranks_of
from counton.statistics.graphs.subgraphs import Subgraphs, sums_by_step

#: Largest number of stars that contain one edge; sums of more could exceed int64.
_MOST_STARS = 2**40


class Stars(Subgraphs):
    """The number of stars in a growing graph; edge-level privacy.

    A star is a node with ``leaves`` of its neighbours, so a node has C(number of edges, leaves)
    stars. An edge is in at most 2 C(degree - 1, leaves - 1). `Triangles` describes events, the
    protected unit and the bound on degrees.

    Args:
        degree: largest number of edges of a node, at least ``leaves``, k.
        leaves: number of leaves of a star, k, from 1.
        beyond: as in `Triangles`.

    Raises:
        InvalidInputError: an argument is out of range, or an edge is in over 2^40 stars.

    >>> from counton.statistics import Stars, unit_sensitivity
    >>> from counton.strategies import Binary
    >>> unit_sensitivity(Stars(degree=5, leaves=3), Binary(1000), 1)
    120.0
    """

    phrase = "number of stars with {leaves} leaves of a growing graph"
    sources = ("constants",)
    counted = "stars"

    def __init__(self, degree: int, leaves: int, *, beyond: Beyond = "refuse") -> None:
        super().__init__(degree, beyond)
        self.leaves = check_integer("leaves", leaves, 1)
        if leaves > degree:
            raise InvalidInputError(
                f"{param('leaves')} is {leaves}, but {param('degree')} is only {degree}, so there "
                f"can be no such star: give a degree of at least {leaves}"
            )
        self.most = 2 * math.comb(degree - 1, leaves - 1)  # with either node in the middle
        if self.most * (3 if beyond == "drop" else 1) > _MOST_STARS:
            raise InvalidInputError(
                f"an edge may be in {self.most} stars with {leaves} leaves, and at most 2^40 can "
                "be counted: give a smaller degree, or fewer leaves"
            )

    @override
    def edge_changes(self, near: list[set[int]], end: int, other: int) -> Iterable[tuple[int, int]]:
        return ((0, sum(math.comb(len(near[node]), self.leaves - 1) for node in (end, other))),)

    @override
    def step_changes(
        self, edges: NDArray[np.int64], old: int, steps: NDArray[np.int64], count: int
    ) -> NDArray[np.int64]:
        ranks = ranks_of(edges)[old:]
        most = int(ranks.max(initial=0)) + 1
        stars = np.array([math.comb(n, self.leaves - 1) for n in range(most)], np.int64)
        return sums_by_step(stars[ranks].sum(axis=1), steps, count)

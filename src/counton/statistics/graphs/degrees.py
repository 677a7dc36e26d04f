"""The degree histogram of a growing graph: the number of nodes with each number of edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import BoundedChange
from counton.base.errors import InvalidInputError, param
from counton.base.exact import check_integer
from counton.privacy import ContributionBound
from counton.statistics.graphs.graph_statistic import (
    UNIT,
    Beyond,
    GraphStatistic,
    ranks_of,
)


class Degrees(GraphStatistic):
    """Degree histogram of a growing graph: the number of nodes with 1, 2, ..., ``degree`` edges.

    Privacy is edge-level. With a public number of ``nodes``, nodes without edges are counted too.
    `Triangles` describes events, the protected unit and the bound on degrees. Comments in the
    source prove the sensitivity.

    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", section 5. Erratum: Corollary
    3 calibrates noise to the squared 2-norm of the changes. This does not suffice, since columns of
    the strategy matrix C are not orthogonal.

    Args:
        degree: largest number of edges of a node, D.
        nodes: number of nodes if it is public.
        beyond: as in `Triangles`.

    Raises:
        InvalidInputError: an argument is out of range.

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> from counton.statistics import Degrees, unit_sensitivity
    >>> from counton.strategies import Binary
    >>> strategy = Binary(1000)
    >>> five, of_nine = Degrees(5), Degrees(5, nodes=9)
    >>> unit_sensitivity(five, strategy, 1), unit_sensitivity(of_nine, strategy, 1)
    (320.0, 360.0)
    >>> degrees = RunningStatistic.start(
    ...     Degrees(degree=3), 100, ZCDP(1), key=Key.generate(), name="friends"
    ... )
    >>> result = degrees.release_many([("ann", "bob"), ("bob", "cy")])[-1]
    >>> result.std(2) > 1, result.table_columns()["degree"].tolist()
    (True, [1, 2, 3])
    """

    # Sensitivity, with D = degree and D_1, D_2 the norms of a column of C. Let e = uv be the edge
    # in which two streams differ, and let u have j other edges. While e is there, u is in cell j +
    # 1 instead of j. Each further edge of u moves both cells up by one: the steps change cell j by
    # -1, +1 and cell j + 1 by +1, -2, +1, and so on. Up to j = D - 1 these are 2 + 4 (D - 1)
    # changes of 1; v has as many: ||C d||_1 <= (8 D - 4) D_1. Of the three columns of a cell, those
    # of opposite signs only lower the norm, and the product of the outer two is no larger than the
    # product of one of them with the middle one. So squares add up: 1 + 4 + 1 for each cell
    # between, 2 for the first, 5 and 1 for the last two. Both nodes together at most double the
    # vector: 4 (6 D - 4) = 24 D - 16 times D_2^2. Without cell 0: 8 D - 8 (D = 1: 2), and 24 D - 24
    # (4). Dropping: three edges differ (`Triangles`), so
    # three times. The smooth mechanism attains the squared norm if a step has several edges; with
    # one edge in each step, whose columns are not all one, it is a bound.
    phrase = "number of nodes of each degree up to {degree} of a growing graph"
    sources = ("constants",)
    column = "degree"

    def __init__(self, degree: int, *, nodes: int | None = None, beyond: Beyond = "refuse") -> None:
        super().__init__(degree, beyond)
        if nodes is not None:
            nodes = check_integer("nodes", nodes, 1, 2**31)
        self.nodes = nodes
        self._first = 0 if nodes is not None else 1
        self.highest = self.degree or 1

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (self.highest + 1 - self._first,)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        factor = 3 if self.beyond == "drop" else 1
        edges = "edge" if self.highest == 1 else "edges"
        words = f"whose two nodes have up to {self.highest:,} {edges} each"
        if self.nodes is not None:
            l1 = 8 * self.highest - 4
            l2_squared = 24 * self.highest - 16
        elif self.highest == 1:
            l1 = 2
            l2_squared = 4
        else:
            l1 = 8 * self.highest - 8
            l2_squared = 24 * self.highest - 24
        pattern = BoundedChange(l1, l2_squared).scaled_by(factor)
        if self.beyond == "drop":
            words += ", and which of their later edges are kept"
        return ContributionBound.of_pattern(pattern, words, unit=UNIT)

    @property
    @override
    def number_names(self) -> Sequence[int]:
        return range(self._first, self.highest + 1)

    @override
    def counts_without_edges(self, nodes: int) -> Iterable[tuple[int, int]]:
        if self.nodes is None:
            return ()
        if nodes > self.nodes:
            raise InvalidInputError(
                f"the edges have {nodes:,} nodes, but {param('nodes')} is {self.nodes:,}: give "
                f"their number, or leave {param('nodes')} out"
            )
        return ((0, self.nodes),)

    @override
    def edge_changes(self, near: list[set[int]], end: int, other: int) -> Iterable[tuple[int, int]]:
        for node in end, other:
            cell = len(near[node]) - self._first
            if cell >= 0:
                yield cell, -1
            yield cell + 1, 1

    @override
    def step_changes(
        self, edges: NDArray[np.int64], old: int, steps: NDArray[np.int64], count: int
    ) -> NDArray[np.int64]:
        width = self.cells[0]
        changes = np.zeros((count, width), np.int64)
        cells = ranks_of(edges)[old:] - self._first
        for end in cells.T:
            np.add.at(changes, (steps, end + 1), 1)
            leaving = end >= 0
            np.add.at(changes, (steps[leaving], end[leaving]), -1)
        return changes

"""Counts of small subgraphs of a growing graph: edges, triangles, stars."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.arrays import IntegersOrFloats
from counton.base.distributions import BoundedChange
from counton.privacy import ContributionBound
from counton.statistics.graphs.graph_statistic import UNIT, GraphStatistic


class Subgraphs(GraphStatistic):
    """Base class of counts of subgraphs, an edge in at most ``most`` of them.

    Comments in the source prove the sensitivity.
    """

    # Sensitivity. Let e be the edge in which two streams differ; D_1 and D_2 are norms of a column
    # of C.
    #
    # - Edges that only come: d, the difference of the steps' changes, counts the subgraphs with e
    #   as they are completed. d >= 0 and its sum is at most s = most, so that ||C d||_1 <= s D_1
    #   and ||C d||_2 <= s D_2; all in one step attains it.
    # - Dropping keeps an edge if it is among the first `degree` that both of its nodes ever had,
    #   kept or not. Without e, at each of its nodes at most one later edge moves up into the first
    #   `degree`. So two graphs of kept edges differ in e on the one side and in at most two edges
    #   on the other. Step by step the degree never exceeds the bound: d = d' - d'' - d''',
    #   hence 3 s D_1, and (1 + 4) s^2 D_2^2.

    #: Largest number of subgraphs that contain one edge.
    most: int

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        most = self.most
        dropping = self.beyond == "drop"
        words = f"which changes the number of {self.counted} by up to {most:,} in all"
        if most == 1 and not dropping:
            return ContributionBound.add_remove(unit=UNIT)
        pattern = BoundedChange(3, 5) if dropping else BoundedChange(1, 1)
        if dropping:
            words += ", and which of the later edges of its nodes are kept"
        return ContributionBound.of_pattern(pattern.scaled_by(most), words, unit=UNIT)


def sums_by_step(
    values: IntegersOrFloats, steps: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Return the sum of the values in each of ``count`` steps, int64."""
    total = np.zeros(count, np.int64)
    np.add.at(total, steps, values)
    return total

"""Counts of small subgraphs of a growing graph: edges, triangles, stars."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import Alternating, BoundedChange, Pattern
from counton.privacy import Contribution
from counton.statistics.graphs.graph_statistic import REPLACED, UNIT, GraphStatistic


class Subgraphs(GraphStatistic):
    """Base class of counts of subgraphs of ``size`` edges, an edge in at most ``most`` of them.

    Comments in the source prove the sensitivity.
    """

    # Sensitivity. Let e be the edge in which two streams differ; D_1 and D_2 are norms of a column
    # of C.
    #
    # - Edges that only come: d, the difference of the steps' changes, counts the subgraphs with e
    #   as they are completed. d >= 0 and its sum is at most s = most, so that ||C d||_1 <= s D_1
    #   and ||C d||_2 <= s D_2; all in one step attains it.
    # - Replacing: the streams differ in any sightings of two edges, so by four changes of one edge
    #   (`GraphStatistic`), two with each sign: d = d' - d'' with ||C d'||_1 and ||C d''||_1 of at
    #   most 2 s D_1 each, so 4 s D_1 in all. If columns of C have no negative product,
    #   ||C d||_2^2 <= ||C d'||_2^2 + ||C d''||_2^2 <= (4 + 4) s^2 D_2^2.
    # - Dropping keeps an edge if it is among the first `degree` that both of its nodes ever had,
    #   kept or not. Without e, at each of its nodes at most one later edge moves up into the first
    #   `degree`. So two graphs of kept edges differ in e on the one side and in at most two edges
    #   on the other. Step by step the degree never exceeds the bound: d = d' - d'' - d''',
    #   hence 3 s D_1, and (1 + 4) s^2 D_2^2 (if replaced 12 s D_1 and (36 + 36) s^2 D_2^2).
    # - Edges that come and go, each at most w times: a subgraph is there while all of its r edges
    #   are. It appears at most r ceil(w / 2) - (r - 1) times, since among the first comings of its
    #   edges only the last completes it. So it comes or goes at most c = r w - 2 r + 2 times (w
    #   even) or r w - r + 1 times (w odd). e is in at most s subgraphs that ever exist, as `degree`
    #   counts all edges that a node ever has. So d is a sum of s series that change by +1 and -1 in
    #   turn, at most c times (`counton.base.distributions.Alternating`). It is four times as much
    #   with replacing and three times as much with dropping.

    #: Number of edges of a subgraph, and the largest number of subgraphs that contain one edge.
    size: int
    most: int

    @property
    def signed_changes(self) -> tuple[int, int]:
        """Largest numbers of (added, removed) kept edges by which neighbours differ."""
        replaced = self.neighbours == "replace"
        if self.beyond == "drop" and self.degree is not None:
            return (6, 6) if replaced else (1, 2)
        return (REPLACED // 2, REPLACED // 2) if replaced else (1, 0)

    @override
    def contribution(self, *, batched: bool = False, horizon: int | None = None) -> Contribution:
        most, (up, down) = self.most, self.signed_changes
        words = f"which changes the number of {self.counted} by up to {most:,} in all"
        if self.changes == 1:
            if most == up == 1 and not down:
                return Contribution.add_remove(unit=UNIT)
            pattern: Pattern = BoundedChange(up + down, up**2 + down**2).scaled_by(most)
        else:
            r, w = self.size, self.changes
            changes = r * w - r + 1 if w % 2 else r * w - 2 * r + 2
            pattern = Alternating(changes, size=(up + down) * most)
            words = f"which comes or goes up to {w:,} times"
            if self.size > 1:
                these = self.counted if most > 1 else self.counted[:-1]
                words += f", and is in up to {most:,} {these}"
        if self.beyond == "drop" and self.degree is not None:
            words += ", and which of the later edges of its nodes are kept"
        return Contribution.of_pattern(pattern, words, relation=self.neighbours, unit=UNIT)


def sums_by_step(values: NDArray[Any], steps: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the sum of the values in each of ``count`` steps, int64."""
    total = np.zeros(count, np.int64)
    np.add.at(total, steps, values)
    return total

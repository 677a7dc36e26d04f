"""Joint law of the noise of all nodes of a tree, in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from counton.arrays import Floats
from counton.strategies.trees.tree import Tree

Place = tuple[int, int]


@dataclass(frozen=True)
class HierarchyLaw:
    """Exchangeable noise: child = parent / m + sqrt(alpha) (g_i - mean g), independent by parent.

    Attributes:
        tree: the public tree.
        root: variance of the total's noise.
        spread: for each level, every node's alpha for its children (0 with fewer than two).

    >>> tree = Tree.from_leaves({"half": [0, 0, 1, 1], "leaf": [0, 1, 2, 3]}, ["half", "leaf"])
    >>> law = HierarchyLaw(tree, 1.0, (np.full(1, 1.5), np.full(2, 1.5)))  # the cascade
    >>> [level.tolist() for level in law.variances]
    [[1.0], [1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """

    tree: Tree
    root: float
    spread: tuple[Floats, ...]

    @cached_property
    def variances(self) -> tuple[Floats, ...]:
        """For each level, the variance of every node."""
        found = [np.array([self.root])]
        for level, parents in enumerate(self.tree.parents):
            m = np.maximum(self.tree.children[level], 1).astype(np.float64)
            child = found[-1] / m**2 + self.spread[level] * (1 - 1 / m)
            found.append(child[parents])
        return tuple(found)

    def covariance(self, first: Place, second: Place) -> float:
        """Covariance of the noise of two nodes, given as (level, position)."""
        (level_1, node_1), (level_2, node_2) = first, second
        share = 1.0
        while level_1 > level_2:
            level_1, node_1, share = self._up(level_1, node_1, share)
        while level_2 > level_1:
            level_2, node_2, share = self._up(level_2, node_2, share)
        if node_1 == node_2:
            return share * float(self.variances[level_1][node_1])
        while True:
            parent_1 = int(self.tree.parents[level_1 - 1][node_1])
            parent_2 = int(self.tree.parents[level_1 - 1][node_2])
            if parent_1 == parent_2:
                break
            _, node_1, share = self._up(level_1, node_1, share)
            _, node_2, share = self._up(level_1, node_2, share)
            level_1 -= 1
        m = int(self.tree.children[level_1 - 1][parent_1])
        above = float(self.variances[level_1 - 1][parent_1])
        alpha = float(self.spread[level_1 - 1][parent_1])
        return share * (above / m**2 - alpha / m)

    def _up(self, level: int, node: int, share: float) -> tuple[int, int, float]:
        parent = int(self.tree.parents[level - 1][node])
        return level - 1, parent, share / int(self.tree.children[level - 1][parent])

    def functional(self, weights: Sequence[Floats]) -> float:
        """Variance of a linear combination: weights of every node of every level, root first.

        Upwards, a node's children count as their mean weight times the node plus what differs
        from it, which only the spread among them carries. Time in proportion to the nodes.
        """
        carried = np.asarray(weights[-1], dtype=np.float64)
        total = 0.0
        for level in range(len(self.tree.levels) - 2, -1, -1):
            m = self.tree.children[level]
            inner = m > 0
            mean = np.zeros(len(m))
            if inner.any():
                starts = self.tree.starts[level][inner]
                mean[inner] = np.add.reduceat(carried, starts) / m[inner]
                away = (carried - mean[self.tree.parents[level]]) ** 2
                total += float((self.spread[level][inner] * np.add.reduceat(away, starts)).sum())
            carried = mean + weights[level]
        return total + self.root * float(carried[0]) ** 2

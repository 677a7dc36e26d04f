"""Trees of any shape, and their measurements written out from the definition."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from counton.base.arrays import Floats
from counton.tables import HierarchyDistribution, Tree, TreeStrategy
from counton.tables.tree_strategy import Place


def tree_of_parents(parents: Any) -> Tree:
    """The tree of a mapping from nodes to parents; those without one are below the total."""
    below: dict[Any, list[Any]] = {}
    for node, parent in parents.items():
        if parent is not None:
            below.setdefault(parent, []).append(node)
    tops = [node for node in dict.fromkeys([*below, *parents]) if parents.get(node) is None]
    current = below.get(tops[0], []) if len(tops) == 1 else tops
    found = []
    labels = []
    place = np.zeros(len(current), np.int64)
    while current:
        found.append(place)
        labels.append(np.array([*current, None], dtype=object)[:-1])
        families = [below.get(node, []) for node in current]
        place = np.repeat(np.arange(len(current)), [len(family) for family in families])
        current = [node for family in families for node in family]
    return Tree([f"level {number}" for number in range(1, len(labels) + 1)], found, labels)


def random_tree(seed: Any) -> Any:
    """Any shape: fan-out 1 to many, unbalanced depth."""
    rng = np.random.default_rng(seed)
    window = int(rng.integers(1, 9))
    nodes = range(1, int(rng.integers(2, 28)))
    return tree_of_parents({i: int(rng.integers(max(0, i - window), i)) for i in nodes})


def leaf_places(tree: Any) -> Any:
    return [(level, int(node)) for level, nodes in enumerate(tree.leaves) for node in nodes]


def membership(tree: Any) -> Any:
    """For each level, which leaves lie below each node."""
    places = leaf_places(tree)
    below = [np.zeros((size, len(places)), dtype=object) for size in tree.sizes]
    for column, (level, node) in enumerate(places):
        while True:
            below[level][node, column] = 1
            if level == 0:
                break
            level, node = level - 1, int(tree.parents[level - 1][node])
    return below


def measured_matrix(measurement: Any) -> Any:
    """C by levels, written out from its definition."""
    tree = measurement.tree
    below = membership(measurement.tree)
    rows = {0: [measurement.total * below[0][0]]}
    for level in range(len(tree.parents)):
        rows[level + 1] = []
        for node in range(tree.sizes[level]):
            start = int(tree.starts[level][node])
            m = int(tree.children[level][node])
            p = int(measurement.own[level][node])
            q = int(measurement.shared[level][node])
            if m == 2:
                rows[level + 1].append(q * (below[level + 1][start] - below[level + 1][start + 1]))
            elif m > 2:
                for child in range(start, start + m):
                    rows[level + 1].append(p * below[level + 1][child] - q * below[level][node])
    return {level: np.array(part, dtype=object) for level, part in rows.items() if len(part)}


def sums_of(tree: Any, counts: Any) -> Any:
    """Sums of all nodes from counts in the order of ``Tree.leaves``."""
    sums = [np.zeros(size, np.int64) for size in tree.sizes]
    for (level, node), count in zip(leaf_places(tree), counts, strict=True):
        while True:
            sums[level][node] += count
            if level == 0:
                break
            level, node = level - 1, int(tree.parents[level - 1][node])
    return sums


#: Two families, of three and of two.
SMALL = tree_of_parents({"a": "r", "b": "r", "c": "a", "d": "a", "e": "a", "f": "b", "g": "b"})


def weighted(cls: type[TreeStrategy]) -> TreeStrategy:
    """A strategy for the small tree, with small weights."""
    own = np.array([6]), np.array([7, 4]), np.zeros(5, np.int64)
    shared = np.array([3]), np.array([2, 2]), np.zeros(5, np.int64)
    return cls(SMALL, 5, own, shared)


def covariances_of(distribution: HierarchyDistribution, place: Place) -> list[Floats]:
    """Return by level the covariances of the noise of a node with that of every node.

    Arrays have the shape (nodes,). The time is proportional to the number of nodes.
    """
    tree, (depth, node) = distribution.tree, place
    path = [node]
    shares = [1.0]
    for level in range(depth - 1, -1, -1):
        path.insert(0, int(tree.parents[level][path[0]]))
        shares.insert(0, shares[0] / int(tree.children[level][path[0]]))
    found = [np.array([shares[0] * distribution.root])]
    for level, parents in enumerate(tree.parents):
        m = np.maximum(tree.children[level], 1).astype(np.float64)
        below = (found[-1] / m)[parents]
        if level < depth:
            above = path[level]
            own = path[level + 1]
            start, size = (int(of[level][above]) for of in (tree.starts, tree.children))
            shared = float(distribution.variances[level][above]) / size**2
            shared -= float(distribution.spread[level][above]) / size
            below[start : start + size] = shares[level + 1] * shared
            below[own] = shares[level + 1] * float(distribution.variances[level + 1][own])
        found.append(below)
    return found


def functional_of(distribution: HierarchyDistribution, weights: Sequence[Floats]) -> float:
    """Return the variance of a sum of all estimates, weighted by level: shape (nodes,)."""
    # In a pass from leaves to root, the weighted sum of a node's children is written as their
    # mean weight times the node, plus deviations, whose variance is alpha times the squared
    # deviations of the weights. The time is proportional to the number of nodes.
    carried = np.asarray(weights[-1], dtype=np.float64)
    total = 0.0
    for level in range(len(distribution.tree.levels) - 2, -1, -1):
        m = distribution.tree.children[level]
        inner = m > 0
        mean = np.zeros(len(m))
        if inner.any():
            starts = distribution.tree.starts[level][inner]
            mean[inner] = np.add.reduceat(carried, starts) / m[inner]
            away = (carried - mean[distribution.tree.parents[level]]) ** 2
            total += float(
                (distribution.spread[level][inner] * np.add.reduceat(away, starts)).sum()
            )
        carried = mean + weights[level]
    return total + distribution.root * float(carried[0]) ** 2

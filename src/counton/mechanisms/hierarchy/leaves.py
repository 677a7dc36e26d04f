"""The private counts of the leaves of a tree, checked before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from counton.arrays import Integers
from counton.columns import columns_of
from counton.errors import InvalidInput
from counton.mechanisms.tables import checked_counts
from counton.strategies.trees import Tree


def leaf_counts(tree: Tree, leaves: Any, value: str) -> list[Integers]:
    """Counts of the leaves at every level, 0 at other nodes.

    Args:
        tree: the public tree.
        leaves: a sequence of counts in the order of ``Tree.leaves``, or a table of leaves.
        value: name of the table's column of counts.

    Raises:
        InvalidInput: leaves outside the tree or listed twice, counts that are not non-negative
            integers.
        SumOverflow: a count beyond int64.
    """
    counts = [np.zeros(size, np.int64) for size in tree.sizes]
    if not (isinstance(leaves, Mapping) or hasattr(leaves, "columns")):
        given = checked_counts(leaves)
        expected = sum(len(nodes) for nodes in tree.leaves)
        if given.shape != (expected,):
            raise InvalidInput(
                f"the counts have shape {given.shape}; the tree has {expected} leaves: give one "
                f"count for each, in the order of Tree.leaves"
            )
        ends = np.cumsum([len(nodes) for nodes in tree.leaves])
        for level, (nodes, part) in enumerate(
            zip(tree.leaves, np.split(given, ends[:-1]), strict=True)
        ):
            counts[level][nodes] = part
        return counts
    *columns, values = columns_of(leaves, [*tree.levels[1:], value], "table of leaves")
    given = checked_counts(values, "the leaves")
    depth, node = tree.locate(columns)
    for level in range(len(counts)):
        rows = np.flatnonzero(depth == level)
        listed = np.bincount(node[rows], minlength=len(counts[level]))
        if listed.max(initial=0) > 1:
            double = int(rows[np.flatnonzero(node[rows] == listed.argmax())[1]])
            raise InvalidInput(
                f"row {double + 1:,} of the leaves repeats a leaf: add its counts up first, one "
                f"row a leaf"
            )
        counts[level][node[rows]] = given[rows]
    return counts

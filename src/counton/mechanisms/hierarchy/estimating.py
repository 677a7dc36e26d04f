"""From leaves to the sums of all nodes, and from noisy measurements to consistent estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput, SumOverflow
from counton.mechanisms.cells import check_room, checked_counts
from counton.mechanisms.columns import columns_of
from counton.mechanisms.hierarchy.measurement import Measurement
from counton.mechanisms.hierarchy.tree import Tree
from counton.strategies import NodeNoise

Integers = NDArray[np.int64]


def leaf_counts(tree: Tree, leaves: Any, value: str) -> list[Integers]:
    """Counts of the leaves at every level, 0 at other nodes."""
    counts = [np.zeros(size, np.int64) for size in tree.sizes]
    if isinstance(leaves, np.ndarray):
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
    given = checked_counts(values)
    depth, node = tree.locate(columns)
    for level in range(len(counts)):
        rows = np.flatnonzero(depth == level)
        listed = np.bincount(node[rows], minlength=len(counts[level]))
        if listed.max(initial=0) > 1:
            double = int(rows[np.flatnonzero(node[rows] == listed.argmax())[1]])
            raise InvalidInput(
                f"row {double} of the leaves repeats a leaf: add its counts up first, one row a "
                f"leaf"
            )
        counts[level][node[rows]] = given[rows]
    return counts


def node_sums(tree: Tree, counts: list[Integers]) -> list[Integers]:
    """Sums of all nodes, from the leaves up; exact after `check_room` of the total.

    Raises:
        SumOverflow: the total is beyond int64.
    """
    everything = np.concatenate(counts)
    check_room(everything, 1)
    sums = list(counts)
    for level in range(len(counts) - 2, -1, -1):
        inner = tree.children[level] > 0
        if inner.any():
            added = sums[level].copy()
            added[inner] += np.add.reduceat(sums[level + 1], tree.starts[level][inner])
            sums[level] = added
    return sums


def estimates_of(
    measurement: Measurement, sums: list[Integers], noise: NodeNoise, bits: int
) -> list[Integers]:
    """Measure, then share every node's estimate out among its children; units of 2^-bits.

    Siblings are rounded down and the first of them get one unit each until the sum is right.
    """
    tree = measurement.tree
    total = measurement.total * int(sums[0][0]) + int(noise.run(0, range(1))[0])
    current = np.array([round(total * 2**bits / measurement.total)], dtype=np.int64)
    found = [current]
    for level, parents in enumerate(tree.parents):
        children, starts = tree.children[level], tree.starts[level]
        own, shared = measurement.own[level][parents], measurement.shared[level][parents]
        m = children[parents]
        place = np.arange(len(parents)) - starts[parents]
        rows = np.flatnonzero((m > 2) | ((m == 2) & (place == 0)))
        y = np.zeros(len(parents), np.int64)
        y[rows] = own[rows] * sums[level + 1][rows] - shared[rows] * sums[level][parents[rows]]
        y[rows] += noise.run(level + 1, range(len(rows)))
        second = np.flatnonzero((m == 2) & (place == 1))
        y[second] = -y[second - 1]
        inner = children > 0
        mean = np.zeros(len(children))
        mean[inner] = np.add.reduceat(y, starts[inner]) / children[inner]
        away = np.where(own > 0, (y - mean[parents]) / np.maximum(own, 1), 0.0)
        shares = np.floor(current[parents] / m + away * 2.0**bits)
        if max(np.abs(shares).max(), abs(int(current[0]))) >= 2**53:
            raise SumOverflow(
                f"private counts reach {np.abs(shares).max() * 2.0**-bits:.3g}; at this noise they "
                f"are exact up to {2.0 ** (53 - bits):.3g}: count in larger units"
            )
        cells = shares.astype(np.int64)
        short = current.copy()
        short[inner] -= np.add.reduceat(cells, starts[inner])
        # Rounding in floats can leave a unit too many, or one short of none.
        every, some = np.divmod(short[parents], m)
        cells += every + (place < some)
        current = cells
        found.append(current)
    return found

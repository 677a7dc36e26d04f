"""From the leaves to the sums of all nodes, and from noisy measurements to estimates that agree."""

from __future__ import annotations

import numpy as np

from counton.arrays import Floats, Integers
from counton.errors import SumOverflow
from counton.strategies.base import NodeNoise
from counton.strategies.trees.measurement import TreeStrategy
from counton.strategies.trees.tree import Tree


def node_sums(tree: Tree, counts: list[Integers]) -> list[Integers]:
    """Sums of all nodes, from the leaves up, in int64.

    Args:
        tree: the public tree.
        counts: for each level, the counts of its leaves and 0 at other nodes; their total must fit
            into int64.

    >>> tree = Tree.from_parents({"a": "root", "b": "root", "c": "a", "d": "a"})
    >>> [level.tolist() for level in node_sums(tree, [np.array(n) for n in ([0], [0, 5], [1, 2])])]
    [[8], [3, 5], [1, 2]]
    """
    sums = list(counts)
    for level in range(len(counts) - 2, -1, -1):
        inner = tree.children[level] > 0
        if inner.any():
            added = sums[level].copy()
            added[inner] += np.add.reduceat(sums[level + 1], tree.starts[level][inner])
            sums[level] = added
    return sums


def estimates_of(
    measurement: TreeStrategy, sums: list[Integers], noise: NodeNoise, bits: int
) -> list[Integers]:
    """Measure, then share every node's estimate out among its children.

    Among siblings the running sums of their shares are rounded, so that the sum of any first few
    is within half a unit of theirs, however many there are, and that of all is exact. The noise
    is 2^15 units wide and more, so rounding favours no sibling.

    Args:
        measurement: what is measured.
        sums: exact sums of all nodes by level, as from `node_sums`.
        noise: one draw for the total at level 0, and for every further measurement at the level of
            the children it compares, in units of the weights' lattice.
        bits: estimates are multiples of 2^-bits.

    Returns:
        For each level, every node's estimate in units of 2^-bits; children add up to parents.

    Raises:
        SumOverflow: estimates beyond 2^53 units, where float64 is not exact.

    >>> from counton.strategies.trees.measurement import tree_strategy_for
    >>> from counton.testing import HashedNoise
    >>> tree = Tree.from_parents({"a": "root", "b": "root"})
    >>> measurement, _ = tree_strategy_for(tree, [1.0, 1.0], norm=2)
    >>> total, (a, b) = estimates_of(measurement, [np.array([8]), np.array([3, 5])],
    ...                              HashedNoise(), bits=10)
    >>> bool(total[0] == a + b)
    True
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
        away = np.where(own > 0, (y - mean[parents]) / np.maximum(own, 1), 0.0) * 2.0**bits
        largest = float(np.abs(current[parents] / m + away).max())
        if max(largest, abs(int(current[0]))) >= 2**53:
            raise SumOverflow(
                f"private counts reach {largest * 2.0**-bits:.3g}; at this noise they are exact up "
                f"to {2.0 ** (53 - bits):.3g}: count in larger units"
            )
        current = _shared_out(current, away, starts, children, place)
        found.append(current)
    return found


def _shared_out(
    totals: Integers,
    away: Floats,
    starts: Integers,
    children: Integers,
    place: Integers,
) -> Integers:
    """Integer shares of the parents' totals: differences of rounded running sums.

    Args:
        totals: of the parents.
        away: what each child has more than its parent's mean; whole parts are added up as
            integers, so that running sums over many children lose nothing. Overwritten.
        starts, children: as in the tree.
        place: how many siblings come before each child.
    """
    inner = children > 0
    first, family = starts[inner], children[inner]
    after, last = place + 1, first + family - 1
    whole = np.floor(away)
    away -= whole
    running = whole.astype(np.int64)
    before = -running[first]
    np.cumsum(running, out=running)  # over all families: int64 may wrap around and back
    parts = np.cumsum(away)
    each, left = np.divmod(totals[inner], family)
    parts -= np.repeat(parts[first] - away[first], family)
    parts += after * np.repeat(left / family, family)
    running -= np.repeat(running[first] + before, family)
    running += after * np.repeat(each, family)
    running += np.rint(parts, out=parts).astype(np.int64)
    running[last] = totals[inner]  # exactly, not but for rounding
    shares = np.diff(running, prepend=0)
    shares[first] = running[first]
    return shares

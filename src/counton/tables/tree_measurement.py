"""The measurements of a tree as cells of a stream, and estimates of the tree's nodes from them.

The cells are the measurement of the total and then, level by level and parent by parent, those of
children: of all for a node with three or more, of the first for two, of none for one. Measurements
and estimates are linear, so both add up over steps.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from counton.base.arrays import Floats, Integers
from counton.base.errors import SumOverflowError
from counton.tables.tree_strategy import TreeStrategy


class Measuring:
    """The measurements of a tree's nodes as a vector, whose entries are called cells.

    >>> from counton.tables import Tree
    >>> from counton.tables.tree_strategy import tree_strategy_for
    >>> tree = Tree.from_leaves({"state": [1, 1, 2], "county": [1, 2, 3]}, ["state", "county"])
    >>> measuring = Measuring(tree_strategy_for(tree, [1.0] * 3, 2)[0])
    >>> cells = measuring.cells(np.array([[5, 0, 2]]))
    >>> measuring.size, [np.rint(level[0]).tolist() for level in measuring.estimates(cells)]
    (3, [[7.0], [5.0, 2.0], [5.0, 0.0, 2.0]])
    """

    def __init__(self, strategy: TreeStrategy) -> None:
        self.strategy = strategy
        self.tree = strategy.tree

    @cached_property
    def _measured_nodes(self) -> tuple[Integers, ...]:
        """For each level below the total, the indices of the nodes that have a measurement."""
        nodes_by_level = []
        for level, parents in enumerate(self.tree.parents):
            size = self.tree.children[level]
            measured = (size > 2)[parents]
            measured[self.tree.starts[level][size == 2]] = True
            nodes_by_level.append(np.flatnonzero(measured))
        return tuple(nodes_by_level)

    @cached_property
    def size(self) -> int:
        """Number of cells of the stream."""
        return 1 + sum(map(len, self._measured_nodes))

    @cached_property
    def leaves(self) -> int:
        """Number of leaves of the tree."""
        return sum(map(len, self.tree.leaves))

    def node_sums(self, leaves: Integers) -> list[Integers]:
        """Return the sums below every node by level: ``(steps, leaves)`` to ``(steps, nodes)``."""
        tree = self.tree
        steps = len(leaves)
        ends = np.cumsum([len(nodes) for nodes in tree.leaves])[:-1]
        sums = []
        for nodes, part, size in zip(
            tree.leaves, np.split(leaves, ends, axis=1), tree.sizes, strict=True
        ):
            sums.append(np.zeros((steps, size), np.int64))
            sums[-1][:, nodes] = part
        for level in range(len(sums) - 2, -1, -1):
            inner = tree.children[level] > 0
            if inner.any():
                starts = tree.starts[level][inner]
                sums[level][:, inner] += np.add.reduceat(sums[level + 1], starts, axis=1)
        return sums

    def cells(self, leaves: Integers) -> Integers:
        """Return the exact measurements of ``(steps, leaves)``: int64, shape ``(steps, size)``."""
        strategy = self.strategy
        sums = self.node_sums(leaves)
        parts = [strategy.total * sums[0]]
        for level, nodes in enumerate(self._measured_nodes):
            above = self.tree.parents[level].take(nodes)
            part = strategy.own[level].take(above) * sums[level + 1].take(nodes, axis=1)
            part -= (strategy.shared[level] * sums[level]).take(above, axis=1)
            parts.append(part)
        return np.concatenate(parts, axis=1).astype(np.int64, copy=False)

    def estimates(self, cells: Integers | Floats) -> list[Floats]:
        """Return the estimates of nodes by level: ``(steps, size)`` to ``(steps, nodes)``.

        Children add up to their parents, apart from rounding.
        """
        cell_values = np.asarray(cells, np.float64)
        estimates = [cell_values[:, :1] / self.strategy.total]
        for level, away in enumerate(self.differences(cell_values)):
            parents = self.tree.parents[level]
            fair = estimates[-1] / np.maximum(self.tree.children[level], 1)
            estimates.append(fair.take(parents, axis=1) + away)
        return estimates

    def reads(self, level: int, node: int) -> dict[int, float]:
        """Return the weights of cells in the estimate of one node, by index; without weights 0.

        The time is proportional to the number of siblings of all nodes on its path.
        """
        tree = self.tree
        strategy = self.strategy
        weights = dict[int, float]()
        share = 1.0
        while level:
            parent = int(tree.parents[level - 1][node])
            size, first = (
                int(level_arrays[level - 1][parent])
                for level_arrays in (tree.children, tree.starts)
            )
            node_weight = int(strategy.own[level - 1][parent])
            measured = self._measured_nodes[level - 1]
            begin = 1 + sum(map(len, self._measured_nodes[: level - 1]))
            begin += int(np.searchsorted(measured, first))
            if node_weight and size == 2:
                weights[begin] = share / node_weight * (1.0 if node == first else -1.0)
            elif node_weight and size > 2:
                for rank in range(size):
                    weights[begin + rank] = (
                        share / node_weight * ((first + rank == node) - 1 / size)
                    )
            share = share / size
            node = parent
            level = level - 1
        weights[0] = share / strategy.total
        return weights

    def share_to_nodes(self, cells: Integers | Floats, bits: int) -> list[Integers]:
        """Return estimates of one step, as integers in units of 2^-bits that add up exactly.

        They are within 2 units of `estimates`, by level: int64, shape ``(nodes,)``.

        Raises:
            SumOverflowError: an estimate is 2^53 units or more, which float64 does not hold
                exactly.
        """
        cell_values = np.asarray(cells, np.float64)[None]
        total = round(float(cell_values[0, 0]) * 2.0**bits / self.strategy.total)
        refuse_beyond_exact(abs(total), bits)
        shares = [np.array([total], np.int64)]
        for level, away in enumerate(self.differences(cell_values)):
            size = self.tree.children[level]
            units = away[0] * 2.0**bits
            inner = size > 0
            above = shares[-1][inner]
            most = max(units.max(initial=0), -units.min(initial=0))
            refuse_beyond_exact(float(most + np.abs(above).max(initial=0)), bits)
            shares.append(shared_out(above, units, self.tree.starts[level][inner], size[inner]))
        return shares

    def differences(self, cells: Floats) -> list[Floats]:
        """Return by level, ``(steps, nodes)``, each estimate minus the mean of its siblings."""
        tree = self.tree
        strategy = self.strategy
        begin = 1
        differences = []
        for level, nodes in enumerate(self._measured_nodes):
            children = tree.children[level]
            starts = tree.starts[level]
            inner = children > 0
            y = np.zeros((len(cells), tree.sizes[level + 1]))
            y[:, nodes] = cells[:, begin : begin + len(nodes)]
            begin += len(nodes)
            second = starts[children == 2] + 1
            y[:, second] = -y[:, second - 1]
            mean = np.zeros((len(cells), len(children)))
            if inner.any():
                mean[:, inner] = np.add.reduceat(y, starts[inner], axis=1) / children[inner]
            y -= mean.repeat(children, axis=1)
            y /= np.where(strategy.own[level] > 0, strategy.own[level], np.inf).repeat(children)
            differences.append(y)
        return differences


def refuse_beyond_exact(largest: float, bits: int) -> None:
    """Refuse numbers of 2^53 units of 2^-bits or more, which float64 does not hold exactly."""
    if largest >= 2**53:
        raise SumOverflowError(
            f"private counts reach {largest * 2.0 ** (-bits):.3g}, but with this noise they are "
            f"exact only up to {2.0 ** (53 - bits):.3g}: count in larger units"
        )


def shared_out(totals: Integers, away: Floats, first: Integers, size: Integers) -> Integers:
    """Divide each parent's total among its children, as integers that add up to it.

    A child gets its parent's total divided by the number of children, plus ``away``, rounded. For
    every j, the sum over the first j siblings is within half a unit of its exact value.

    Args:
        away: by how much each child exceeds the mean of its siblings; overwritten.
        first, size: for each parent, the index of its first child, and the number of its children.
    """
    # A child's share is a difference of rounded running sums. The noise is 2^15 units wide and
    # more, so rounding favours no sibling. Integer parts are added up as integers, so running sums
    # over many children lose nothing.
    whole = np.floor(away)
    away -= whole
    fractions = away[first]
    running = np.cumsum(away, out=away)
    quotients, remainders = np.divmod(totals, size)
    fair = np.arange(1, len(away) + 1, dtype=np.float64)  # the number of siblings up to each child
    fair -= np.repeat(first.astype(np.float64), size)
    fair *= np.repeat(remainders / size, size)
    running -= np.repeat(running[first] - fractions, size)
    running += fair
    np.rint(running, out=running)
    shares = whole.astype(np.int64)
    # All siblings together get the rest exactly, without rounding error.
    running[first + size - 1] = remainders - np.add.reduceat(shares, first)
    fair[0] = 0
    np.subtract(running[1:], running[:-1], out=fair[1:])
    fair[first] = running[first]
    shares += np.repeat(quotients, size)
    shares += fair.astype(np.int64)
    return shares

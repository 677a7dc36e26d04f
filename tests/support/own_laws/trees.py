"""Tests of a strategy for trees: its measurements, its estimates, and the errors that it states.

The measurement matrix is built from its definition, a row for each measurement and a column for
each leaf, so the tests are for trees of a few dozen leaves.
"""

import json
from collections.abc import Iterator, Sequence

import numpy as np
from trees import covariances_of, functional_of, tree_of_parents

from counton.base.arrays import Integers
from counton.base.errors import InvalidInput
from counton.laws import HashedNoise, LawBroken, ShiftedNoise
from counton.laws.rows import Address, build_again, names_subject, require, require_description
from counton.strategies import NodeNoise
from counton.tables import Tree, TreeStrategy
from counton.tables.tree_measurement import Measuring
from own_laws.equality import require_equality
from own_laws.tables import check_columns

#: Fraction bits of estimates, and the size of test noise: large even after division by weights of
#: 2^28.
_BITS = 10
_SPREAD = 2**40


@names_subject
def check_tree_strategy(strategy: TreeStrategy) -> None:
    """Check that a strategy for a tree has all properties (laws) that it must have.

    >>> from counton.tables import Tree
    >>> from counton.tables.tree_strategy import tree_strategy_for
    >>> tree = tree_of_parents({"a": "root", "b": "root", "c": "a", "d": "a", "e": "a"})
    >>> check_tree_strategy(tree_strategy_for(tree, [1.0, 1.0, 1.0], norm=2)[0])
    """
    check_tree_description(strategy)
    check_columns(strategy, tree_matrix(strategy)[1])
    check_tree_cells(strategy)
    check_tree_sensitivity(strategy)
    check_tree_estimates(strategy)
    check_tree_variance(strategy)


@names_subject
def check_tree_description(strategy: TreeStrategy) -> None:
    """Check that parameters identify the measurements, and that ``to_dict`` rebuilds the strategy.

    Strategies with different weights must have different digests, because noise is derived from the
    digest.

    Raises:
        LawBroken: parameters that change in JSON; copies that are unequal; different
            weights with equal parameters; sources that `counton.base.literature` does not
            know; or a ``to_dict`` that rebuilds another strategy, none, or one on a
            different tree.
    """
    # Two different matrices must not have one digest: changing the weight of the total, or any
    # weight of a level, must change it.
    require_description(strategy.sources, strategy.parameters)
    require_equality(strategy)
    for other in _others(strategy):
        apart = other != strategy and other.digest != strategy.digest
        require(
            apart,
            "it is equal to a strategy with another weight, or has its digest; both must "
            "depend on all weights",
        )
    written = type(strategy)(strategy.tree, strategy.total, strategy.own, strategy.shared)
    require(
        written == strategy, "a strategy built from its own weights must be equal to it, but is not"
    )
    # Another tree: below a new root.
    above = tree_of_parents(
        {"all": "above", **{f"{i}": "all" for i in range(len(strategy.tree.sizes))}}
    )
    try:
        type(strategy).from_dict(json.loads(json.dumps(strategy.to_dict())), above)
    except InvalidInput:
        pass
    else:
        raise LawBroken("from_dict() accepts another strategy; it must refuse it")
    other = build_again(strategy, lambda saved: type(strategy).from_dict(saved, strategy.tree))
    alike = np.array_equal(tree_matrix(other)[1], tree_matrix(strategy)[1])
    require(
        other == strategy and alike,
        "building it again from the output of to_dict() gives another strategy",
    )


def _others(strategy: TreeStrategy) -> Iterator[TreeStrategy]:
    """Yield strategies on the same tree with other weights: each differs from ``strategy`` in the
    weight of the total, or in the weights by which one node's children are measured.
    """
    cls, own, shared = type(strategy), strategy.own, strategy.shared
    yield cls(strategy.tree, strategy.total + 1, own, shared)
    for level, children in enumerate(strategy.tree.children):
        for node in np.flatnonzero(children > 1).tolist():
            more = int(children[node] == 2)
            yield cls(
                strategy.tree, strategy.total, _change(own, level, node, 1 + more),
                _change(shared, level, node, more),
            )  # fmt: skip
            if children[node] > 2:
                less = -1 if shared[level][node] else 1
                yield cls(strategy.tree, strategy.total, own, _change(shared, level, node, less))


def _change(weights: Sequence[Integers], level: int, node: int, by: int) -> list[Integers]:
    found = [part.copy() for part in weights]
    found[level][node] += by
    return found


@names_subject
def check_tree_cells(strategy: TreeStrategy) -> None:
    """Check the class `Measuring`, which arranges the measurements of a tree of counts as a vector;
    the entries are called cells.

    The cells must be C x, for the measurement matrix C and the counts x of the leaves. The
    estimates of nodes from exact cells must be the true sums of the nodes. The integers that
    ``share_to_nodes`` returns must be near the estimates, and those of children must add up to
    their parent's.
    """
    measuring, (nodes, matrix) = Measuring(strategy), tree_matrix(strategy)
    require(
        measuring.leaves == matrix.shape[1],
        "the measurement states another number of leaves than the tree has",
    )
    require(
        measuring.size == len(nodes), "its number of cells must be the number of its measurements"
    )
    cells = measuring.cells(np.eye(measuring.leaves, dtype=np.int64))
    require(
        np.array_equal(cells, matrix.T),
        "cells() must return the measurements C x, with the measurement matrix C",
    )
    reads = np.concatenate(measuring.estimates(np.eye(measuring.size)), axis=1).T
    right = np.allclose(reads @ matrix, np.vstack(_membership(strategy.tree)), atol=1e-9)
    require(right, "estimates from exact cells must be the exact sums of nodes, but they differ")
    noisy = HashedNoise((measuring.size,), spread=2**30).run(0, range(1))[0]
    levels, exact = measuring.share_to_nodes(noisy, _BITS), measuring.estimates(noisy[None])
    for level, parents in enumerate(strategy.tree.parents):
        added = np.zeros(strategy.tree.sizes[level], np.int64)
        np.add.at(added, parents, levels[level + 1])
        inner = strategy.tree.children[level] > 0
        agree = np.array_equal(added[inner], levels[level][inner])
        near = np.abs(levels[level + 1] - exact[level + 1][0] * 2**_BITS).max() <= 2
        require(
            agree and bool(near),
            "share_to_nodes must be near estimates(), and children must add up to parents",
        )


@names_subject
def check_tree_sensitivity(strategy: TreeStrategy) -> None:
    """Check that estimates depend on the noisy measurements y = C x + z alone: privacy depends on
    this.

    A unit is added to each leaf, and moved from each leaf to the next, while the noise z is shifted
    so that y does not change: estimates must be bit for bit equal.
    """
    nodes, matrix = tree_matrix(strategy)
    leaves = matrix.shape[1]
    counts = np.arange(leaves) ** 2 % 97 + 1
    table = HashedNoise(spread=_SPREAD)
    base = _estimates(strategy, counts, table)
    unit = np.eye(leaves, dtype=np.int64)
    for leaf in range(leaves):
        for change in (unit[leaf], unit[leaf] - unit[leaf - 1]):
            shifts = dict(zip(nodes, (-matrix @ change).tolist(), strict=True))
            moved = _estimates(strategy, counts + change, ShiftedNoise(table, shifts))
            same = np.array_equal(moved, base)
            require(
                same,
                f"the estimates change with a count in leaf {leaf} although the noise hides this "
                "count (C x + z stays the same), so they use private data beside the noisy "
                "measurements",
            )


@names_subject
def check_tree_estimates(strategy: TreeStrategy) -> None:
    """Check that estimates without noise are exact, and that noisy estimates of children add up to
    the parent's.
    """
    tree = strategy.tree
    below = np.vstack(_membership(tree))
    counts = np.arange(below.shape[1]) ** 2 % 97
    silent = _estimates(strategy, counts, HashedNoise(spread=0))
    require(
        np.array_equal(silent, below @ counts << _BITS),
        "without noise, the estimates must be the exact counts, but they differ",
    )
    noisy = _estimates(strategy, counts, HashedNoise(spread=_SPREAD))
    levels = np.split(noisy, np.cumsum(tree.sizes)[:-1])
    for level, parents in enumerate(tree.parents):
        added = np.zeros(tree.sizes[level], np.int64)
        np.add.at(added, parents, levels[level + 1])
        inner = tree.children[level] > 0
        agree = np.array_equal(added[inner], levels[level][inner])
        require(
            agree,
            "the estimates of children do not add up to their parents of level "
            f"{tree.levels[level]}",
        )


@names_subject
def check_tree_variance(strategy: TreeStrategy) -> None:
    """Check stated variances and covariances of estimates against the weights of noise in them.

    Raises:
        LawBroken: estimates are biased; or a variance, a covariance or the variance of a weighted
            sum of nodes is not the stated one.
    """
    nodes, matrix = tree_matrix(strategy)
    # The weight of each measurement's noise in each node's estimate: shape (nodes, measurements).
    reads = np.empty((sum(strategy.tree.sizes), len(nodes)))
    for row, node in enumerate(nodes):
        one = ShiftedNoise(HashedNoise(spread=0), {node: _SPREAD})
        estimates = _estimates(strategy, np.zeros(matrix.shape[1], np.int64), one)
        reads[:, row] = estimates * 2.0**-_BITS / _SPREAD
    below = np.vstack(_membership(strategy.tree))
    unbiased = np.allclose(reads @ matrix, below, rtol=0, atol=1e-4)
    require(unbiased, "the estimates are biased: without noise they are not the sums of the leaves")
    joint = reads @ reads.T
    law = strategy.joint_law(1.0)
    scale = float(joint.diagonal().max())
    claimed = np.concatenate(law.variances)
    right = np.allclose(claimed, joint.diagonal(), rtol=1e-5, atol=1e-7 * scale)
    require(right, "the stated variances are not those of its estimates")
    sizes = strategy.tree.sizes
    places = [(level, node) for level, size in enumerate(sizes) for node in range(size)]
    covariance = np.array([np.concatenate(covariances_of(law, place)) for place in places])
    right = np.allclose(covariance, joint, rtol=1e-5, atol=1e-7 * scale)
    require(right, "the stated covariances are not those of its estimates")
    for weights in (np.ones(len(places)), np.cos(np.arange(3.0, len(places) + 3))):
        parts = np.split(weights, np.cumsum(sizes)[:-1])
        expected = float(weights @ joint @ weights)
        right = abs(functional_of(law, parts) - expected) <= 1e-5 * scale * len(places) ** 2
        require(
            right, f"the stated variance of a sum of nodes must be {expected:.6g}, but it differs"
        )


def tree_matrix(strategy: TreeStrategy) -> tuple[list[Address], Integers]:
    """Return the measurement matrix C from its definition, and the noise address of each row.

    Returns:
        Noise addresses (level, index), and C of shape (measurements, leaves); leaves are in the
        order of ``Tree.leaves``.
    """
    tree, below = strategy.tree, _membership(strategy.tree)
    nodes: list[Address] = [(0, 0)]
    rows = [strategy.total * below[0][0]]
    for level in range(len(tree.parents)):
        index = 0
        for node in range(tree.sizes[level]):
            start, m = int(tree.starts[level][node]), int(tree.children[level][node])
            p, q = int(strategy.own[level][node]), int(strategy.shared[level][node])
            for child in range(start, start + (0 if m < 2 else 1 if m == 2 else m)):
                rows.append(p * below[level + 1][child] - q * below[level][node])
                nodes.append((level + 1, index))
                index += 1
    return nodes, np.array(rows)


def _membership(tree: Tree) -> list[Integers]:
    """Return, for each level, a matrix of zeros and ones: shape (nodes, leaves), 1 if the leaf is
    below the node.
    """
    places = [(level, int(node)) for level, nodes in enumerate(tree.leaves) for node in nodes]
    below = [np.zeros((size, len(places)), np.int64) for size in tree.sizes]
    for column, (level, node) in enumerate(places):
        below[level][node, column] = 1
        while level:
            level, node = level - 1, int(tree.parents[level - 1][node])
            below[level][node, column] = 1
    return below


def tree_estimates(
    strategy: TreeStrategy, counts: Integers, noise: NodeNoise, bits: int
) -> list[Integers]:
    """Return estimates of all nodes by level, from counts in the order of ``Tree.leaves``.

    Args:
        counts: counts of the leaves.
        noise: source of the noise: level 0 has the noise of the total; each other level has
            the noise of the measurements that compare children of that level.
        bits: estimates are multiples of 2^-bits.
    """
    measuring = Measuring(strategy)
    # If a node has three or more children, each has a measurement; if it has two, there is one, of
    # their difference.
    of_families = (np.where(m > 2, m, m == 2).sum() for m in strategy.tree.children[:-1])
    sizes = [1, *map(int, of_families)]
    drawn = [noise.run(level, range(size)) for level, size in enumerate(sizes)]
    return measuring.share_to_nodes(measuring.cells(counts[None])[0] + np.concatenate(drawn), bits)


def _estimates(strategy: TreeStrategy, counts: Integers, noise: NodeNoise) -> Integers:
    return np.concatenate(tree_estimates(strategy, counts, noise, _BITS))

"""Tests of a strategy for trees: its measurements, its estimates, and the errors that it states.

The measurement matrix is built from its definition, a row for each measurement and a column for
each leaf, so the tests are for trees of a few dozen leaves.
"""

import json
from collections.abc import Iterator, Sequence

import numpy as np
from trees import (
    covariances_of,
    functional_of,
    measured_matrix,
    membership,
    tree_of_parents,
)

from counton.base.arrays import Integers
from counton.base.errors import InvalidInputError
from counton.strategies import NodeNoise
from counton.tables import Tree, TreeStrategy
from counton.tables.tree_measurement import Measuring
from counton.testing import HashedNoise, PropertyViolationError, ShiftedNoise
from counton.testing.rows import Address, build_again, names_subject, require, require_description
from own_laws.equality import require_equality
from own_laws.tables import check_columns

#: Fraction bits of estimates, and the size of test noise: large even after division by weights of
#: 2^28.
_BITS = 10
_SPREAD = 2**40


@names_subject
def check_tree_strategy(strategy: TreeStrategy) -> None:
    """A strategy for a tree keeps all laws of its kind."""
    check_tree_description(strategy)
    check_columns(strategy, tree_matrix(strategy)[1])
    check_tree_cells(strategy)
    check_tree_sensitivity(strategy)
    check_tree_estimates(strategy)
    check_tree_variance(strategy)


@names_subject
def check_tree_description(strategy: TreeStrategy) -> None:
    """Parameters identify the measurements, and ``to_dict`` rebuilds the strategy on its own tree.

    Strategies with different weights have different digests, from which noise is derived.
    """
    require_description(strategy.sources, strategy.parameters)
    require_equality(strategy)
    for other in _others(strategy):
        apart = other != strategy and other.digest != strategy.digest
        require(apart, "it is equal to a strategy with another weight, or has its digest")
    written = type(strategy)(strategy.tree, strategy.total, strategy.own, strategy.shared)
    require(written == strategy, "a strategy built from its own weights is not equal to it")
    # Another tree: below a new root.
    above = tree_of_parents(
        {"all": "above", **{f"{i}": "all" for i in range(len(strategy.tree.sizes))}}
    )
    try:
        type(strategy).from_dict(json.loads(json.dumps(strategy.to_dict())), above)
    except InvalidInputError:
        pass
    else:
        raise PropertyViolationError("from_dict() accepts another strategy; it must refuse it")
    other = build_again(strategy, lambda saved: type(strategy).from_dict(saved, strategy.tree))
    alike = np.array_equal(tree_matrix(other)[1], tree_matrix(strategy)[1])
    require(
        other == strategy and alike,
        "building it again from the output of to_dict() gives another strategy",
    )


def _others(strategy: TreeStrategy) -> Iterator[TreeStrategy]:
    """Strategies on the same tree, each with another weight of the total, or of the children of one
    node.
    """
    cls = type(strategy)
    own = strategy.own
    shared = strategy.shared
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
    """The cells of `Measuring` are C x, for the measurement matrix C and counts x of the leaves.

    Estimates from exact cells are the true sums of the nodes. The integers of ``share_to_nodes``
    are near the estimates, and those of children add up to their parent's.
    """
    measuring, (nodes, matrix) = Measuring(strategy), tree_matrix(strategy)
    require(measuring.leaves == matrix.shape[1], "it states another number of leaves")
    require(measuring.size == len(nodes), "there must be a cell for each measurement")
    cells = measuring.cells(np.eye(measuring.leaves, dtype=np.int64))
    require(np.array_equal(cells, matrix.T), "cells() must return the measurements C x")
    reads = np.concatenate(measuring.estimates(np.eye(measuring.size)), axis=1).T
    right = np.allclose(reads @ matrix, _below(strategy.tree), atol=1e-9)
    require(right, "estimates from exact cells are not the exact sums of nodes")
    noisy = HashedNoise((measuring.size,), spread=2**30).run(0, range(1))[0]
    levels = measuring.share_to_nodes(noisy, _BITS)
    exact = measuring.estimates(noisy[None])
    for level, parents in enumerate(strategy.tree.parents):
        added = np.zeros(strategy.tree.sizes[level], np.int64)
        np.add.at(added, parents, levels[level + 1])
        inner = strategy.tree.children[level] > 0
        agree = np.array_equal(added[inner], levels[level][inner])
        near = bool(np.abs(levels[level + 1] - exact[level + 1][0] * 2**_BITS).max() <= 2)
        require(agree and near, "share_to_nodes must be near estimates(), and children add up")


@names_subject
def check_tree_sensitivity(strategy: TreeStrategy) -> None:
    """Estimates depend on the noisy measurements y = C x + z alone: privacy depends on this.

    A unit is added to each leaf, and moved from each leaf to the next, while the noise z is shifted
    so that y does not change: estimates are bit for bit equal.
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
            require(same, f"estimates change with leaf {leaf}, although C x + z stays the same")


@names_subject
def check_tree_estimates(strategy: TreeStrategy) -> None:
    """Estimates without noise are exact, and noisy ones of children add up to the parent's."""
    tree = strategy.tree
    below = _below(tree)
    counts = np.arange(below.shape[1]) ** 2 % 97
    silent = _estimates(strategy, counts, HashedNoise(spread=0))
    exact = np.array_equal(silent, below @ counts << _BITS)
    require(exact, "without noise, the estimates are not the exact counts")
    noisy = _estimates(strategy, counts, HashedNoise(spread=_SPREAD))
    levels = np.split(noisy, np.cumsum(tree.sizes)[:-1])
    for level, parents in enumerate(tree.parents):
        added = np.zeros(tree.sizes[level], np.int64)
        np.add.at(added, parents, levels[level + 1])
        inner = tree.children[level] > 0
        agree = np.array_equal(added[inner], levels[level][inner])
        require(agree, f"children do not add up to parents of level {tree.levels[level]}")


@names_subject
def check_tree_variance(strategy: TreeStrategy) -> None:
    """Variances and covariances of estimates are those of the weights of noise in them."""
    nodes, matrix = tree_matrix(strategy)
    # The weight of each measurement's noise in each node's estimate: shape (nodes, measurements).
    reads = np.empty((sum(strategy.tree.sizes), len(nodes)))
    for row, node in enumerate(nodes):
        one = ShiftedNoise(HashedNoise(spread=0), {node: _SPREAD})
        estimates = _estimates(strategy, np.zeros(matrix.shape[1], np.int64), one)
        reads[:, row] = estimates * 2.0**-_BITS / _SPREAD
    below = _below(strategy.tree)
    unbiased = np.allclose(reads @ matrix, below, rtol=0, atol=1e-4)
    require(unbiased, "the estimates are biased: without noise they are not the sums of the leaves")
    joint = reads @ reads.T
    distribution = strategy.joint_distribution(1.0)
    scale = float(joint.diagonal().max())
    claimed = np.concatenate(distribution.variances)
    right = np.allclose(claimed, joint.diagonal(), rtol=1e-5, atol=1e-7 * scale)
    require(right, "the stated variances are not those of its estimates")
    sizes = strategy.tree.sizes
    places = [(level, node) for level, size in enumerate(sizes) for node in range(size)]
    covariance = np.array([np.concatenate(covariances_of(distribution, place)) for place in places])
    right = np.allclose(covariance, joint, rtol=1e-5, atol=1e-7 * scale)
    require(right, "the stated covariances are not those of its estimates")
    for weights in (np.ones(len(places)), np.cos(np.arange(3.0, len(places) + 3))):
        parts = np.split(weights, np.cumsum(sizes)[:-1])
        expected = float(weights @ joint @ weights)
        right = (
            abs(functional_of(distribution, parts) - expected) <= 1e-5 * scale * len(places) ** 2
        )
        require(right, f"the stated variance of a sum of nodes is not {expected:.6g}")


def tree_matrix(strategy: TreeStrategy) -> tuple[list[Address], Integers]:
    """The noise address of each measurement, and the matrix C from its definition: shape
    (measurements, leaves), in the order of ``Tree.leaves``.
    """
    by_level = measured_matrix(strategy)
    nodes = [(level, index) for level, rows in by_level.items() for index in range(len(rows))]
    return nodes, np.concatenate([*by_level.values()]).astype(np.int64)


def _below(tree: Tree) -> Integers:
    """1 where a leaf is below a node: shape (nodes, leaves)."""
    return np.vstack(membership(tree)).astype(np.int64)


def tree_estimates(
    strategy: TreeStrategy, counts: Integers, noise: NodeNoise, bits: int
) -> list[Integers]:
    """Estimates of all nodes by level, multiples of 2^-bits, from counts in the order of
    ``Tree.leaves``.

    Level 0 of the noise is that of the total, each other level that of the measurements which
    compare children of that level.
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

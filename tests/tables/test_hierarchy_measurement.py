"""What is measured on a tree: privacy by brute force over leaves, and sums that stay exact."""

from typing import Any

import numpy as np
import pytest
from own_laws.trees import tree_estimates
from tables_of_noise import WrittenNoise
from trees import measured_matrix, random_tree

from counton.base.errors import InvalidInputError
from counton.strategies.participation import Norm
from counton.tables import Tree
from counton.tables.tree_strategy import tree_strategy_for


@pytest.mark.parametrize("norm", [2, 1])
@pytest.mark.parametrize("seed", range(25))
def test_sensitivity_and_privacy_shift_by_brute_force_over_leaves(seed: Any, norm: Norm) -> None:
    """One unit more in a leaf, and noise shifted by its column, give the same release."""
    tree = random_tree(seed)
    wanted = [1.0, 1.7, 1.2, 2.0, 1.4, *[1.5] * 30][: len(tree.levels)]
    try:
        measurement, _ = tree_strategy_for(tree, wanted, norm)
    except InvalidInputError:  # one child, whose target is below its parent's
        wanted = sorted(wanted)
        measurement, _ = tree_strategy_for(tree, wanted, norm)
    matrix = measured_matrix(measurement)
    whole = np.vstack(list(matrix.values()))
    one = measurement.sensitivities()
    moved = measurement.sensitivities("move")
    assert one.l1 == np.abs(whole).sum(axis=0).max()
    assert one.l2_squared == (whole**2).sum(axis=0).max()
    leaves = whole.shape[1]
    moves = [whole[:, i] - whole[:, j] for i in range(leaves) for j in range(i)]
    if moves:
        assert moved.l1 == max(np.abs(move).sum() for move in moves)
        assert moved.l2_squared == max((move**2).sum() for move in moves)

    rng = np.random.default_rng(seed)
    counts: Any = rng.integers(0, 50, size=leaves)
    noise = {level: rng.integers(-(2**26), 2**26, len(part)) for level, part in matrix.items()}
    base = tree_estimates(measurement, counts, WrittenNoise(noise), 24)
    for leaf in range(leaves):
        neighbour = counts.copy()
        neighbour[leaf] += 1
        shifted = {level: noise[level] - part[:, leaf] for level, part in matrix.items()}
        shifted = {level: part.astype(np.int64) for level, part in shifted.items()}
        other = tree_estimates(measurement, neighbour, WrittenNoise(shifted), 24)
        assert all((a == b).all() for a, b in zip(base, other, strict=True))


def test_weights_that_int64_cannot_square_are_refused() -> None:
    tree = Tree.from_leaves({"a": [0, 0], "b": [0, 1]}, ["a", "b"])
    with pytest.raises(InvalidInputError, match="cannot be measured exactly: give larger targets"):
        tree_strategy_for(tree, [1e-20, 1e-20, 1e-20], 2)


@pytest.mark.parametrize("norm", [2, 1])
def test_tables_add_up_where_floats_end(norm: Norm) -> None:
    """Near 2^53 units the rounded shares of a node can be more than the node."""
    tree = Tree.from_leaves({"a": range(3)}, ["a"])
    measurement, scale = tree_strategy_for(tree, [1.0, 1.0], norm)
    rng = np.random.default_rng(20)
    bits = 16
    for _ in range(400):
        counts = (rng.dirichlet([1, 1, 1]) * 2 ** (53 - bits) * 0.5).astype(np.int64)
        drawn = {
            level: np.rint(rng.normal(0, scale, size)).astype(np.int64)
            for level, size in enumerate(tree.sizes)
        }
        total, shares = tree_estimates(measurement, counts, WrittenNoise(drawn), bits)
        assert int(shares.sum()) == int(total[0])

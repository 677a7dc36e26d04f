"""What is measured on a tree: weights that can be squared, and sums that stay exact."""

from typing import Any

import numpy as np
import pytest
from own_laws.trees import tree_estimates
from tables_of_noise import WrittenNoise

from counton.base.errors import InvalidInput
from counton.tables import Tree
from counton.tables.tree_strategy import tree_strategy_for


def test_weights_that_int64_cannot_square_are_refused() -> None:
    tree = Tree.from_leaves({"a": [0, 0], "b": [0, 1]}, ["a", "b"])
    with pytest.raises(InvalidInput, match="cannot be measured exactly: give larger targets"):
        tree_strategy_for(tree, [1e-20, 1e-20, 1e-20], 2)


@pytest.mark.parametrize("norm", [2, 1])
def test_tables_add_up_where_floats_end(norm: Any) -> None:
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

"""Every law over strategies for trees of many shapes; and what is broken on purpose is noticed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from own_laws import trees as tree_laws
from own_laws.trees import (
    check_tree_estimates,
    check_tree_sensitivity,
    check_tree_strategy,
    check_tree_variance,
)
from trees import SMALL, random_tree, tree_of_parents, weighted

from counton.base.errors import InvalidInputError
from counton.strategies import NodeNoise, Norm
from counton.tables import TreeStrategy
from counton.tables.tree_measurement import Measuring
from counton.tables.tree_strategy import tree_strategy_for
from counton.testing import PropertyViolationError

#: Children may be less accurate than their parents or more, as far as there are such estimates.
WANTED = (1.0, 1.7, 1.2, 2.0, 1.4)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_trees_of_any_shape_pass_checks(seed: int, norm: Norm) -> None:
    tree = random_tree(seed)
    wanted = [*WANTED, *[1.5] * len(tree.levels)][: len(tree.levels)]
    try:
        strategy, _ = tree_strategy_for(tree, wanted, norm)
    except InvalidInputError:  # one child, whose target is below its parent's
        strategy, _ = tree_strategy_for(tree, sorted(wanted), norm)
    check_tree_strategy(strategy)


def test_single_node_and_small_weights_pass_checks() -> None:
    check_tree_strategy(tree_strategy_for(tree_of_parents({"all": None}), [1.0], 2)[0])
    check_tree_strategy(weighted(TreeStrategy))


def shows_a_count(estimates: Any, sums: Any, noise: NodeNoise) -> Any:
    estimates[-1][0] += sums[-1][0] % 2
    return estimates


def loses_a_child(estimates: Any, sums: Any, noise: NodeNoise) -> Any:
    estimates[-1][-1] = 0
    return estimates


def hides_the_noise(estimates: Any, sums: Any, noise: NodeNoise) -> Any:
    return [part << 10 for part in sums]


def halves_the_noise(estimates: Any, sums: Any, noise: NodeNoise) -> Any:
    exact = [part << 10 for part in sums]
    return [part + (own - part) // 2 for part, own in zip(exact, estimates, strict=True)]


def does_not_add_up(estimates: Any, sums: Any, noise: NodeNoise) -> Any:
    estimates[0] = estimates[0] + noise.run(9, range(1))
    return estimates


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        (check_tree_sensitivity, shows_a_count),
        (check_tree_sensitivity, hides_the_noise),
        (check_tree_sensitivity, halves_the_noise),
        (check_tree_estimates, loses_a_child),
        (check_tree_estimates, does_not_add_up),
        (check_tree_variance, hides_the_noise),
        (check_tree_variance, halves_the_noise),
    ],
    ids=lambda value: value.__name__,
)
def test_broken_estimates_are_caught(
    check: Callable[[TreeStrategy], None], wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = tree_laws.tree_estimates

    def broken(strategy: Any, counts: Any, noise: Any, bits: int) -> Any:
        sums = [level[0] for level in Measuring(strategy).node_sums(counts[None])]
        return wrong(honest(strategy, counts, noise, bits), sums, noise)

    monkeypatch.setattr(tree_laws, "tree_estimates", broken)
    with pytest.raises(PropertyViolationError):
        check(weighted(TreeStrategy))


def test_weights_that_the_formulas_do_not_hold_for_are_refused() -> None:
    own = weighted(TreeStrategy).own
    shared = weighted(TreeStrategy).shared
    zeros = np.zeros(5, np.int64)
    for wrong_own, wrong_shared, message in [
        (own[:2], shared[:2], "give a weight for each node"),
        ((own[0], own[1], np.ones(5, np.int64)), shared, "with 0 children has weights 1 and 0"),
        ((np.array([0]), *own[1:]), shared, "with 2 children has weights 0 and 3"),
        (own, (np.array([2]), *shared[1:]), "weights 6 and 2"),
        (own, (shared[0], np.array([8, 2]), zeros), "with 3 children has weights 7 and 8"),
        (own, (shared[0], np.array([-1, 2]), zeros), "weights 7 and -1"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            TreeStrategy(SMALL, 5, wrong_own, wrong_shared)
    with pytest.raises(InvalidInputError, match="must be at least 1"):
        TreeStrategy(SMALL, 0, own, shared)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"own": []}, "cannot be read"),
        ({"own": ["1:x"] * 3}, "stored integers of shape"),
        ({"total": None}, "cannot be read"),
        ({"total": 6}, "and this tree is another"),
        ({"tree_sha256": "0"}, "made for the tree '0'"),
    ],
)
def test_tree_strategy_from_dict_refuses_invalid_description(change: Any, message: str) -> None:
    described = weighted(TreeStrategy).to_dict()
    assert TreeStrategy.from_dict(described, SMALL) == weighted(TreeStrategy)
    with pytest.raises(InvalidInputError, match=message):
        TreeStrategy.from_dict({**described, **change}, SMALL)
    other = tree_of_parents({"a": "r", "b": "r"})
    with pytest.raises(InvalidInputError, match="tree it was made for"):
        TreeStrategy.from_dict(described, other)

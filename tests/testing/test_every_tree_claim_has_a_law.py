"""Every claim of a strategy for trees, its law and its cells has a law, and a wrong one breaks it.

As `test_every_claim_has_a_law` does for streams: each name of `TreeStrategy`, of the
    `HierarchyDistribution`
that it gives and of the `Measuring` that makes cells of it stands beside what is wrong, with the
law that has to notice.
"""

import hashlib
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from own_laws import trees as tree_laws
from own_laws.tables import check_columns
from own_laws.trees import (
    check_tree_cells,
    check_tree_description,
    check_tree_strategy,
    check_tree_variance,
    tree_matrix,
)
from trees import SMALL, weighted

from counton.base.distributions import Sensitivity
from counton.tables import HierarchyDistribution, Tree, TreeStrategy
from counton.tables.tree_measurement import Measuring
from counton.testing import PropertyViolationError


def claiming(**claims: Any) -> TreeStrategy:
    """A strategy that says something else of itself."""
    return weighted(type("Wrong", (TreeStrategy,), claims))


def more(name: str, by: float) -> TreeStrategy:
    """A number that is so much more."""
    held: Any = getattr(TreeStrategy, name)
    return claiming(**{name: lambda self, *args, **when: held(self, *args, **when) + by})


def less_in(wrong: int, name: str) -> TreeStrategy:
    """One norm that is too small, and the other one as it is."""
    held: Any = getattr(TreeStrategy, name)
    return claiming(**{name: lambda self, norm: held(self, norm) - (norm == wrong)})


def columns(strategy: TreeStrategy) -> None:
    check_columns(strategy, tree_matrix(strategy)[1])


def digest_of(*parts: str) -> property:
    """A digest of some of the weights: other weights stand at one noise address."""

    def digest(self: Any) -> str:
        said = [self.total if name == "total" else name for name in parts]
        said += [
            [part.tolist() for part in getattr(self, name)] for name in parts if name != "total"
        ]
        return hashlib.sha256(str(said).encode()).hexdigest()

    return property(digest)


def forgets_the_tree(self: Any) -> dict[str, Any]:
    return {"weights": self.digest}


def on_any_tree(cls: Any, description: Any, tree: Any) -> TreeStrategy:
    """Takes weights for another tree, if it has as many levels."""
    return weighted(cls)


def lighter(cls: Any, description: Any, tree: Any) -> TreeStrategy:
    made = TreeStrategy.from_dict.__func__(cls, description, tree)  # type: ignore[attr-defined]
    return cls(tree, made.total + 1, made.own, made.shared)  # type: ignore[no-any-return]


def heavier(name: str) -> TreeStrategy:
    """An attribute that is not what the constructor was given."""

    def changed(given: Any) -> Any:
        if name == "total":
            return given + 1
        if name == "tree":
            labels = [np.array([f"{label}+" for label in part]) for part in given.labels]
            return Tree(given.levels[1:], given.parents, labels)
        return (given[0] + 2 * (name == "own") + (name == "shared"), *given[1:])

    def get(self: Any) -> Any:
        return vars(self)[name]

    def put(self: Any, given: Any) -> None:
        vars(self)[name] = changed(given)

    return claiming(**{name: property(get, put), "_check": lambda self: None})


def with_distribution(**claims: Any) -> TreeStrategy:
    """A strategy whose joint law says something else."""

    def joint_distribution(self: Any, noise_variance: float) -> HierarchyDistribution:
        distribution = TreeStrategy.joint_distribution(self, noise_variance)
        cls: Any = type("WrongLaw", (HierarchyDistribution,), claims)
        made: HierarchyDistribution = cls(distribution.tree, distribution.root, distribution.spread)
        return made

    return claiming(joint_distribution=joint_distribution)


def spread(factor: float) -> TreeStrategy:
    def joint_distribution(self: Any, noise_variance: float) -> HierarchyDistribution:
        distribution = TreeStrategy.joint_distribution(self, noise_variance)
        return replace(distribution, spread=tuple(factor * part for part in distribution.spread))

    return claiming(joint_distribution=joint_distribution)


def rooted(self: Any, noise_variance: float) -> HierarchyDistribution:
    distribution = TreeStrategy.joint_distribution(self, noise_variance)
    return replace(distribution, root=distribution.root / 2)


#: For each name of `TreeStrategy`, wrong strategies, each with the law that refuses it.
WRONG: dict[str, list[tuple[Callable[[TreeStrategy], None], TreeStrategy]]] = {
    "digest": [
        (check_tree_description, claiming(digest=digest_of(*some)))
        for some in (("own", "shared"), ("total", "own"), ("total", "shared"))
    ],
    "from_dict": [
        (check_tree_description, claiming(from_dict=classmethod(on_any_tree))),
        (check_tree_description, claiming(from_dict=classmethod(lighter))),
    ],
    "joint_distribution": [
        (
            check_tree_variance,
            claiming(
                joint_distribution=lambda self, v: TreeStrategy.joint_distribution(
                    self, v * (1 - 1e-3)
                )
            ),
        ),
        (check_tree_variance, spread(1.001)),
        (check_tree_variance, claiming(joint_distribution=rooted)),
    ],
    "l1_sensitivity": [(columns, more("l1_sensitivity", -1))],
    "largest_column": [(columns, less_in(norm, "largest_column")) for norm in (1, 2)],
    "largest_entry": [(columns, claiming(largest_entry=1))],
    "largest_move": [(columns, less_in(norm, "largest_move")) for norm in (1, 2)],
    "own": [(check_tree_description, heavier("own"))],
    "parameters": [
        (check_tree_description, claiming(parameters=property(forgets_the_tree))),
        (check_tree_description, claiming(parameters={"tree_sha256": SMALL.digest})),
    ],
    "shared": [(check_tree_description, heavier("shared"))],
    "sensitivities": [
        (columns, claiming(sensitivities=lambda self, *args, **when: Sensitivity(1, 1)))
    ],
    "sources": [(check_tree_description, claiming(sources=("nobody",)))],
    "squared_sensitivity": [
        (columns, more("squared_sensitivity", -1)),
        (columns, more("squared_sensitivity", 1)),
    ],
    "to_dict": [
        (
            check_tree_description,
            claiming(to_dict=lambda self: {**TreeStrategy.to_dict(self), "total": 1}),
        )
    ],
    "total": [(check_tree_description, heavier("total"))],
    "tree": [(check_tree_description, heavier("tree"))],
    "unit_columns": [(columns, claiming(unit_columns=True))],
}

#: The same of the law that it gives.
WRONG_DISTRIBUTIONS: dict[str, TreeStrategy] = {
    "root": claiming(joint_distribution=rooted),
    "spread": spread(1.001),
    "variances": with_distribution(
        variances=property(lambda self: tuple(np.ones(size) for size in self.tree.sizes))
    ),
}


def twice(name: str) -> Any:
    held: Any = getattr(Measuring, name)
    return lambda self, *args: held(self, *args) * 2


def unshared(self: Any, cells: Any, bits: int) -> Any:
    """Rounded node by node: children do not add up."""
    return [np.rint(part[0] * 2**bits).astype(np.int64) for part in self.estimates(cells[None])]


#: The same of the cells that are made of it.
WRONG_CELLS: dict[str, Any] = {
    "cells": twice("cells"),
    "differences": lambda self, cells: [0 * part for part in Measuring.differences(self, cells)],
    "estimates": lambda self, cells: [2 * part for part in Measuring.estimates(self, cells)],
    "leaves": 1,
    "node_sums": lambda self, leaves: [part + 1 for part in Measuring.node_sums(self, leaves)],
    "share_to_nodes": unshared,
    "size": 3,
}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_every_name_is_in_a_list() -> None:
    given = {"tree", "total", "own", "shared"}
    named = public(TreeStrategy) - {"saved_name"}  # of one class: no other has that name
    assert named | given == WRONG.keys(), "a claim without a law"
    distribution = public(HierarchyDistribution) | {
        field.name for field in fields(HierarchyDistribution)
    }
    assert distribution - {"tree"} == WRONG_DISTRIBUTIONS.keys()
    # What a node reads is compared with what is read: tests/results/test_any_reading.py
    assert public(Measuring) - {"reads"} == WRONG_CELLS.keys()


def test_correct_tree_strategy_passes_checks() -> None:
    check_tree_strategy(claiming())
    check_tree_strategy(with_distribution())


@pytest.mark.parametrize("name", WRONG)
def test_tree_checks_reject_each_wrong_claim(name: str) -> None:
    for distribution, strategy in WRONG[name]:
        with pytest.raises(PropertyViolationError):
            distribution(strategy)
        with pytest.raises(PropertyViolationError):
            check_tree_strategy(strategy)


@pytest.mark.parametrize("name", WRONG_DISTRIBUTIONS)
def test_tree_checks_reject_wrong_joint_distribution(name: str) -> None:
    with pytest.raises(PropertyViolationError, match="the stated"):
        check_tree_variance(WRONG_DISTRIBUTIONS[name])


@pytest.mark.parametrize("name", WRONG_CELLS)
def test_tree_checks_reject_wrong_cells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = type("Wrong", (Measuring,), {name: WRONG_CELLS[name]})
    monkeypatch.setattr(tree_laws, "Measuring", wrong)
    with pytest.raises(PropertyViolationError):
        check_tree_cells(weighted(TreeStrategy))

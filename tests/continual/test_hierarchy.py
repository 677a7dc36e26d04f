"""Releases of hierarchies: exact consistency, the claimed joint law, plans, bad input."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from once import Planned, hierarchy, released
from own_laws.trees import tree_estimates
from tables_of_noise import WrittenNoise
from trees import (
    sums_of,
    tree_of_parents,
)

from counton import ZCDP, ApproxDP, Hierarchy, Key, PureDP
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.privacy import Guarantee
from counton.tables import Tree
from counton.tables.tree_strategy import tree_strategy_for

KEY = chosen_key()


def wide_tree(seed: Any = 0, sizes: Any = (8, 60, 900, 20000)) -> Any:
    rng = np.random.default_rng(seed)
    parents = []
    above = 1
    for size in sizes:
        more = rng.integers(0, above, size - above)
        parents.append(np.sort(np.concatenate([np.arange(above), more])))
        above = size
    names = [f"level {number}" for number in range(1, len(sizes) + 1)]
    return Tree(names, parents, [np.arange(len(part)) for part in parents])


@pytest.mark.parametrize("guarantee", [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(0.7)])
def test_children_add_up_exactly_and_errors_have_the_stated_size(guarantee: Guarantee) -> None:
    tree = wide_tree()
    counts = np.random.default_rng(1).integers(0, 2000, sum(map(len, tree.leaves)))
    release = hierarchy(counts, tree, guarantee, KEY)
    truth = sums_of(tree, counts)
    for level, parents in enumerate(tree.parents):
        summed = np.zeros(tree.sizes[level])
        np.add.at(summed, parents, release.estimates[level + 1])
        inner = tree.children[level] > 0
        assert (summed[inner] == release.estimates[level][inner]).all()
    for level, (estimate, exact, variance) in enumerate(
        zip(release.estimates, truth, release.statistic.distribution.variances, strict=True)
    ):
        away = (estimate - exact) / (np.sqrt(variance) * release.release.std)
        assert np.abs(away).max() < 14, level
        if len(away) > 500:
            assert (away**2).mean() == pytest.approx(1, abs=0.25), level


def test_target_of_total_costs_less_than_one_per_level() -> None:
    tree = Tree.from_leaves(
        {"a": np.repeat([0, 1, 2], 50), "b": np.tile(np.arange(50), 3)}, ["a", "b"]
    )
    plan = Planned(tree, targets={"total": 3.0})
    expected = Fraction(1, 9) * (1 + Fraction(2, 4) + Fraction(49, 51)) / 2
    assert float(plan.guarantee.rho) == pytest.approx(float(expected), rel=1e-5)
    assert isinstance(plan.distribution, DiscreteGaussian)
    sigma = float(plan.distribution.sigma_squared) ** 0.5
    assert plan.std("total") == pytest.approx(3, rel=1e-5)
    assert sigma / plan.measurement.total <= 3


def test_binary_trees_have_the_cascade_sensitivity_for_both_neighbour_relations() -> None:
    for height in (1, 2, 5, 10):
        tree = tree_of_parents({i: (i - 1) // 2 for i in range(1, 2 ** (height + 1) - 1)})
        strategy = Planned(tree, guarantee=ZCDP(1)).measurement
        unit = strategy.total**2
        assert strategy.squared_sensitivity() / unit == pytest.approx(1 + height / 3, rel=1e-5)
        assert strategy.largest_move(2) / unit == pytest.approx(2 * (height + 1) / 3, rel=1e-5)


def test_a_node_with_one_child_passes_its_noise_on() -> None:
    tree = tree_of_parents({"a": "r", "b": "r", "c": "a", "d": "b", "e": "b", "f": "c"})
    plan = Planned(tree, guarantee=ZCDP(1), targets={"total": 2, "level 2": 3})
    release = hierarchy([1, 2, 3], tree, ZCDP(1), KEY)
    assert release["a"] == release["a", "c"] == release["a", "c", "f"]
    assert plan.joint_distribution.variances[2][0] == plan.joint_distribution.variances[1][0]
    assert plan.joint_distribution.variances[2][1] > plan.joint_distribution.variances[1][0]


def test_targets_are_met_and_scaled() -> None:
    tree = wide_tree()
    absolute = {"total": 20.0, "level 1": 10.0, "level 3": 5.0}
    plan = Planned(tree, targets=absolute)
    for level, std in (("total", 20), ("level 1", 10), ("level 2", 10), ("level 4", 5)):
        assert plan.std(level) == pytest.approx(std, rel=1e-5)
        assert plan.std(level) <= std * (1 + 1e-12)
    scaled = Planned(tree, guarantee=ZCDP(plan.guarantee.rho / 4), targets=absolute)
    assert scaled.std("level 4") == pytest.approx(10, rel=1e-5)
    assert scaled.std("total") == pytest.approx(40, rel=1e-5)
    assert Planned(tree, targets={"total": 1e7}).std("level 2") == pytest.approx(1e7, rel=1e-3)


@pytest.mark.parametrize("unit", [1e-200, 1e-150, 1e-12, 1e-10, 1e-6, 1e9, 1e15, 1e200])
def test_targets_under_guarantee_are_ratios(unit: Any) -> None:
    tree = wide_tree(sizes=(5, 30))
    targets = {"total": 1.0, "level 1": 1.5, "level 2": 2.5}
    scaled = {name: std * unit for name, std in targets.items()}
    plan = Planned(tree, guarantee=ZCDP(0.5), targets=scaled)
    known = Planned(tree, guarantee=ZCDP(0.5), targets=targets)
    for level in targets:
        assert plan.std(level) == pytest.approx(known.std(level), rel=1e-5)


@pytest.mark.parametrize("unit", [2.0**-19, 1e-3, 1e6, 1e9])
def test_the_cost_of_any_accuracy_is_that_of_its_ratio(unit: Any) -> None:
    """Weights so large that int64 wrapped around once made accurate tables look cheap."""
    tree = wide_tree(sizes=(5, 30))
    known = Planned(tree, targets={"total": 1.0}).guarantee.rho
    assert float(Planned(tree, targets={"total": unit}).guarantee.rho) * unit**2 == pytest.approx(
        float(known), rel=5e-3
    )


def test_guarantees_choose_their_noise_and_the_cost_is_spent_exactly() -> None:
    tree = wide_tree(sizes=(5, 30))
    assert isinstance(Planned(tree, guarantee=PureDP(1)).distribution, DiscreteLaplace)
    plan = Planned(tree, guarantee=ZCDP(0.25))
    assert isinstance(plan.distribution, DiscreteGaussian)
    assert plan.guarantee.rho == Fraction(1, 4)
    moved = Planned(tree, guarantee=ZCDP(0.25), neighbours="replace")
    assert moved.std("total") > plan.std("total")


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (
            {"level 1": 100.0, "level 2": 10.0},
            "a target of 100, which must be below 3 times that of level 2, 10",
        ),
        ({"county": 1.0}, "'county', which is not a level"),
        ({"level 1": 0.0}, "must be a finite number above 0"),
        ({"level 1": float("nan")}, "must be a finite number above 0"),
        ({"level 1": "five"}, "must be a finite number above 0"),
        ({"level 1": None}, "must be a finite number above 0"),
        ({"level 1": 1e-200}, r"give a number between 2\^-20 and 2\^32"),
        ({"level 1": 1e200}, r"give a number between 2\^-20 and 2\^32"),
        ({}, "targets are empty"),
        ({"total": 1e-4, "level 1": 1e6}, "no exact noise has this standard deviation"),
    ],
)
def test_targets_no_estimate_can_have_are_refused(targets: Any, message: Any) -> None:
    tree = Tree.from_leaves({"a": [0, 0, 0, 1, 1, 1], "b": [0, 1, 2, 3, 4, 5]}, ["a", "b"])
    tree.levels = ("total", "level 1", "level 2")
    with pytest.raises(InvalidInputError, match=message):
        Planned(tree, targets=targets)


def test_target_of_single_child_below_parent_is_refused() -> None:
    tree = tree_of_parents({"a": "r", "b": "r", "c": "a"})
    with pytest.raises(
        InvalidInputError, match="has 1 child and a target of 5, which must be at most that"
    ):
        Planned(tree, targets={"level 1": 5.0, "level 2": 4.0})


DOMAIN: dict[str, Any] = {
    "state": ["CA", "CA", "NY", "DC"],
    "county": ["Kings", "Napa", "Kings", None],
}
LEVELS = ["state", "county"]


def of_places(
    events: Any, guarantee: Guarantee | None = None, key: Key = KEY, **changed: Any
) -> Any:
    tree = Tree.from_leaves(changed.pop("domain", DOMAIN), LEVELS)
    name = changed.pop("name", "table")
    return released(
        Hierarchy(tree, counts=True, **changed), events, guarantee or ZCDP(2), key, name
    )


def test_level_columns_have_estimates_in_declared_order() -> None:
    reading = of_places([(("NY", "Kings"), 700), (("DC",), 90)])
    states = reading.level_columns("state")
    assert list(states) == ["state", "estimate", "noise_std", "lower", "upper", "confidence_level"]
    assert states["state"].tolist() == ["CA", "NY", "DC"]  # as declared
    counties = reading.level_columns("county")
    assert (counties["state"][0], counties["county"][0]) == ("CA", "Kings")
    assert reading["NY", "Kings"] == pytest.approx(700, abs=9)
    assert states["estimate"].sum() == reading.total
    assert reading["DC"] == pytest.approx(90, abs=9)
    assert "which counts in one of 4 leaves, and in all that is above it" in str(reading)
    assert reading.std(("NY", "Kings")) == pytest.approx(states["noise_std"][0], rel=1e-5)


def test_rounding_error_is_equal_for_all_siblings() -> None:
    """Sums over the first siblings stay within half a unit of their exact shares, in every draw."""
    siblings = 1000
    bits = 16
    draws = 60
    tree = Tree.from_leaves({"a": range(siblings)}, ["a"])
    measurement, scale = tree_strategy_for(tree, [1.0, 1.0], 2)
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 100, siblings)
    p = int(measurement.own[0][0])
    q = int(measurement.shared[0][0])
    away = np.zeros(siblings)
    for _ in range(draws):
        z = np.rint(rng.normal(0, scale, siblings)).astype(np.int64)
        first = np.rint(rng.normal(0, scale, 1)).astype(np.int64)
        total, shares = tree_estimates(measurement, counts, WrittenNoise({0: first, 1: z}), bits)
        y = p * counts - q * counts.sum() + z
        exact = total[0] / siblings + (y - y.mean()) / p * 2**bits
        away += (shares - exact) / draws
        assert np.abs(np.cumsum(shares - exact)).max() < 0.51
    # Differences of two roundings have variance 1/6: five deviations of a mean over the draws.
    assert np.abs(away).max() < 5 * math.sqrt(1 / 6 / draws)
    assert abs(away[: siblings // 2].mean()) < 0.01


@pytest.mark.parametrize("targets", [[1, 2], 3.0, "state"])
def test_targets_are_a_mapping(targets: Any) -> None:
    with pytest.raises(InvalidInputError, match="give a dictionary from levels"):
        of_places([], targets=targets)


def test_unreachable_targets_are_refused_with_values_of_caller() -> None:
    with pytest.raises(InvalidInputError, match=r"a target of 400, which .* that of county, 50,"):
        of_places([], targets={"state": 400.0, "county": 50.0})


@pytest.mark.parametrize("guarantee", [ZCDP(1e12), PureDP(1e6)])
def test_tiny_noise_releases_exact_total(guarantee: Guarantee) -> None:
    assert of_places([(("DC",), 7)], guarantee).total == pytest.approx(7, abs=1e-3)

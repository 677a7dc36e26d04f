"""Releases of hierarchies: exact consistency, the claimed joint law, plans, bad input."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from keys import chosen_key
from tables_of_noise import WrittenNoise
from trees import leaf_places, measured_matrix, random_tree, sums_of

from counton.errors import InvalidInput, SumOverflow
from counton.laws import DiscreteGaussian, DiscreteLaplace
from counton.mechanisms.hierarchy import plan_hierarchy
from counton.noise import Key
from counton.privacy import ZCDP, ApproxDP, Contribution, PureDP
from counton.store import release_hierarchy
from counton.strategies.trees import Tree
from counton.strategies.trees.estimating import estimates_of
from counton.strategies.trees.strategy import tree_strategy_for

KEY = chosen_key()


@pytest.mark.parametrize("seed", range(12))
def test_covariance_of_all_nodes_equals_the_closed_form(seed: Any) -> None:
    """The estimator applied to unit noise gives its matrix; times its transpose is the law."""
    tree = random_tree(seed)
    plan = plan_hierarchy(tree, guarantee=ZCDP(0.5))
    matrix = measured_matrix(plan.measurement)
    zeros = sums_of(tree, np.zeros(len(leaf_places(tree)), np.int64))
    unit = 2**30
    columns = []
    for level, part in matrix.items():
        for row in range(len(part)):
            noise: Any = np.zeros(len(part), dtype=np.int64)
            noise[row] = unit
            found = estimates_of(plan.measurement, zeros, WrittenNoise({level: noise}), 30)
            columns.append(np.concatenate(found) / 2.0**30 / unit)
    reads = np.array(columns).T
    joint = reads @ reads.T * plan.noise_law.variance
    release = release_hierarchy(
        np.zeros(len(leaf_places(tree)), np.int64), domain=tree, guarantee=ZCDP(0.5), key=KEY
    )
    paths = [tree.path(lv, node) for lv, size in enumerate(tree.sizes) for node in range(size)]
    assert release.covariance(paths, paths) == pytest.approx(joint, abs=1e-6 * joint.max())
    chosen = paths[::2]
    picked = joint[np.ix_(range(0, len(paths), 2), range(0, len(paths), 2))]
    assert release.sum_of(chosen)[1] ** 2 == pytest.approx(picked.sum(), abs=1e-5 * joint.max())
    law = plan.joint_law
    for level, variances in enumerate(law.variances):
        assert variances == pytest.approx(np.full(len(variances), law.root), rel=1e-5), level


def wide_tree(seed: Any = 0, sizes: Any = (8, 60, 900, 20000)) -> Any:
    rng = np.random.default_rng(seed)
    parents, above = [], 1
    for size in sizes:
        more = rng.integers(0, above, size - above)
        parents.append(np.sort(np.concatenate([np.arange(above), more])))
        above = size
    names = [f"level {number}" for number in range(1, len(sizes) + 1)]
    return Tree(names, parents, [np.arange(len(part)) for part in parents])


@pytest.mark.parametrize("guarantee", [ZCDP(0.5), ApproxDP(1, 1e-6), PureDP(0.7)])
def test_children_add_up_exactly_and_errors_have_the_stated_size(guarantee: Any) -> None:
    tree = wide_tree()
    counts = np.random.default_rng(1).integers(0, 2000, sum(map(len, tree.leaves)))
    release = release_hierarchy(counts, domain=tree, guarantee=guarantee, key=KEY)
    truth = sums_of(tree, counts)
    for level, parents in enumerate(tree.parents):
        summed = np.zeros(tree.sizes[level])
        np.add.at(summed, parents, release.estimates[level + 1])
        inner = tree.children[level] > 0
        assert (summed[inner] == release.estimates[level][inner]).all()
    for level, (estimate, exact, variance) in enumerate(
        zip(release.estimates, truth, release.plan.joint_law.variances, strict=True)
    ):
        away = (estimate - exact) / np.sqrt(variance)
        assert np.abs(away).max() < 14, level
        if len(away) > 500:
            assert (away**2).mean() == pytest.approx(1, abs=0.25), level


def test_siblings_covary_as_the_law_says() -> None:
    """Statistics on 3,000 families of four under a common parent's law."""
    tree = Tree.from_leaves(
        {"a": np.repeat(np.arange(3000), 4), "b": np.tile(np.arange(4), 3000)}, ["a", "b"]
    )
    release = release_hierarchy(np.zeros(12000, int), domain=tree, guarantee=ZCDP(0.1), key=KEY)
    noise = release.estimates[2].reshape(3000, 4)
    expected = release.covariance([(5, 0), (5, 1), (5,)], [(5, 0), (5, 1), (5,)])
    whole = np.column_stack([noise[:, 0], noise[:, 1], release.estimates[1]])
    found = whole.T @ whole / 3000
    assert found == pytest.approx(expected, abs=5 * expected.max() / np.sqrt(3000))
    assert expected[0, 0] == pytest.approx(expected[2, 2], rel=1e-5)
    assert expected[0, 1] < 0


def test_cost_of_equal_variances_is_below_one_for_each_level_whatever_the_fan_out() -> None:
    tree = Tree.from_leaves(
        {"a": np.repeat([0, 1, 2], 50), "b": np.tile(np.arange(50), 3)}, ["a", "b"]
    )
    plan = plan_hierarchy(tree, targets={"total": 3.0})
    expected = Fraction(1, 9) * (1 + Fraction(2, 4) + Fraction(49, 51)) / 2
    assert float(plan.rho) == pytest.approx(float(expected), rel=1e-5)
    assert plan.guarantee == ZCDP(plan.rho)
    assert isinstance(plan.noise_law, DiscreteGaussian)
    sigma = float(plan.noise_law.sigma_squared) ** 0.5
    assert plan.std("total") == pytest.approx(3, rel=1e-5)
    assert sigma / plan.measurement.total <= 3


def test_binary_trees_have_the_cascade_sensitivity_for_both_neighbour_relations() -> None:
    for height in (1, 2, 5, 10):
        tree = Tree.from_parents({i: (i - 1) // 2 for i in range(1, 2 ** (height + 1) - 1)})
        strategy = plan_hierarchy(tree, guarantee=ZCDP(1)).measurement
        unit = strategy.total**2
        assert strategy.squared_sensitivity() / unit == pytest.approx(1 + height / 3, rel=1e-5)
        assert strategy.squared_move_sensitivity() / unit == pytest.approx(
            2 * (height + 1) / 3, rel=1e-5
        )


def test_a_node_with_one_child_passes_its_noise_on() -> None:
    tree = Tree.from_parents({"a": "r", "b": "r", "c": "a", "d": "b", "e": "b", "f": "c"})
    plan = plan_hierarchy(tree, guarantee=ZCDP(1), targets={"total": 2, "level 2": 3})
    release = release_hierarchy(np.array([1, 2, 3]), domain=tree, guarantee=ZCDP(1), key=KEY)
    assert (
        release.estimate("a") == release.estimate(("a", "c")) == release.estimate(("a", "c", "f"))
    )
    assert plan.joint_law.variances[2][0] == plan.joint_law.variances[1][0]
    assert plan.joint_law.variances[2][1] > plan.joint_law.variances[1][0]


def test_targets_are_met_and_scaled() -> None:
    tree = wide_tree()
    absolute = {"total": 20.0, "level 1": 10.0, "level 3": 5.0}
    plan = plan_hierarchy(tree, targets=absolute)
    for level, std in (("total", 20), ("level 1", 10), ("level 2", 10), ("level 4", 5)):
        assert plan.std(level) == pytest.approx(std, rel=1e-5)
        assert plan.std(level) <= std * (1 + 1e-12)
    scaled = plan_hierarchy(tree, guarantee=ZCDP(plan.rho / 4), targets=absolute)
    assert scaled.std("level 4") == pytest.approx(10, rel=1e-5)
    assert scaled.std("total") == pytest.approx(40, rel=1e-5)


def test_huge_targets_are_met_too() -> None:
    tree = wide_tree(sizes=(5, 30))
    assert plan_hierarchy(tree, targets={"total": 1e7}).std("level 2") == pytest.approx(
        1e7, rel=1e-3
    )


@pytest.mark.parametrize("unit", [1e-200, 1e-150, 1e-12, 1e-10, 1e-6, 1e9, 1e15, 1e200])
def test_targets_under_a_guarantee_are_ratios_whatever_their_unit(unit: Any) -> None:
    tree = wide_tree(sizes=(5, 30))
    targets = {"total": 1.0, "level 1": 1.5, "level 2": 2.5}
    scaled = {name: std * unit for name, std in targets.items()}
    plan = plan_hierarchy(tree, guarantee=ZCDP(0.5), targets=scaled)
    known = plan_hierarchy(tree, guarantee=ZCDP(0.5), targets=targets)
    for level in targets:
        assert plan.std(level) == pytest.approx(known.std(level), rel=1e-5)


@pytest.mark.parametrize("unit", [2.0**-19, 1e-3, 1e6, 1e9])
def test_the_cost_of_any_accuracy_is_that_of_its_ratio(unit: Any) -> None:
    """Weights so large that int64 wrapped around once made accurate tables look cheap."""
    tree = wide_tree(sizes=(5, 30))
    known = plan_hierarchy(tree, targets={"total": 1.0}).rho
    assert float(plan_hierarchy(tree, targets={"total": unit}).rho) * unit**2 == pytest.approx(
        float(known), rel=5e-3
    )


def test_an_epsilon_that_no_bound_covers_is_refused_and_small_ones_are_found() -> None:
    tree = wide_tree(sizes=(5, 30))
    plan = plan_hierarchy(tree, targets={"total": 1e-4})
    with pytest.raises(InvalidInput, match="does not give an epsilon up to 1,048,576"):
        plan.epsilon(1e-9)
    plan = plan_hierarchy(tree, targets={"total": 0.02})
    assert plan.epsilon(1e-9) > float(plan.rho) > 1024
    plan = plan_hierarchy(tree, targets={"total": 1e8})
    assert plan.epsilon(1e-9) < 1e-7


def test_epsilon_of_a_plan_gives_back_its_noise() -> None:
    tree = wide_tree(sizes=(5, 30))
    plan = plan_hierarchy(tree, targets={"level 1": 8.0})
    epsilon = plan.epsilon(1e-6)
    again = plan_hierarchy(tree, guarantee=ApproxDP(epsilon, 1e-6), targets={"level 1": 8.0})
    assert again.std("level 1") <= 8.0001
    assert plan.epsilon(1e-9) > epsilon


def test_guarantees_choose_their_noise_and_the_cost_is_spent_exactly() -> None:
    tree = wide_tree(sizes=(5, 30))
    assert isinstance(plan_hierarchy(tree, guarantee=PureDP(1)).noise_law, DiscreteLaplace)
    plan = plan_hierarchy(tree, guarantee=ZCDP(0.25))
    assert isinstance(plan.noise_law, DiscreteGaussian)
    assert plan.rho == Fraction(1, 4)
    moved = plan_hierarchy(tree, guarantee=ZCDP(0.25), contribution=Contribution.replace())
    assert moved.std("total") > plan.std("total")
    twice = plan_hierarchy(
        tree, guarantee=ZCDP(0.25), contribution=Contribution.add_remove(cells=1, per_cell=3)
    )
    assert twice.std("total") == pytest.approx(3 * plan.std("total"))
    with pytest.raises(InvalidInput, match="discrete Laplace; rho"):
        plan_hierarchy(tree, guarantee=PureDP(1)).rho  # noqa: B018


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
        ({"level 1": 1e-200}, r"must be between 2\^-20 and 2\^32"),
        ({"level 1": 1e200}, r"must be between 2\^-20 and 2\^32"),
        ({}, "targets are empty"),
        (None, "neither a guarantee nor targets"),
        ({"total": 1e-4, "level 1": 1e6}, "differ by a factor"),
    ],
)
def test_targets_no_estimate_can_have_are_refused(targets: Any, message: Any) -> None:
    tree = Tree.from_leaves({"a": [0, 0, 0, 1, 1, 1], "b": [0, 1, 2, 3, 4, 5]}, ["a", "b"])
    tree.levels = ("total", "level 1", "level 2")
    with pytest.raises(InvalidInput, match=message):
        plan_hierarchy(tree, targets=targets)


def test_one_child_cannot_be_better_than_asked_of_its_parent() -> None:
    tree = Tree.from_parents({"a": "r", "b": "r", "c": "a"})
    with pytest.raises(
        InvalidInput, match="has 1 child and a target of 5, which must be at most that"
    ):
        plan_hierarchy(tree, targets={"level 1": 5.0, "level 2": 4.0})


DOMAIN: dict[str, Any] = {
    "state": ["CA", "CA", "NY", "DC"],
    "county": ["Kings", "Napa", "Kings", None],
}
LEVELS = ["state", "county"]


def released(leaves: Any, **changed: Any) -> Any:
    arguments = {"domain": DOMAIN, "levels": LEVELS, "guarantee": ZCDP(2), "key": KEY, **changed}
    return release_hierarchy(leaves, **arguments)


@pytest.mark.parametrize("frame", [dict, pl.DataFrame])
def test_tables_in_and_tables_out(frame: Any) -> None:
    leaves = frame({"state": ["NY", "DC"], "county": ["Kings", None], "count": [700, 90]})
    release = released(leaves)
    states = release.table("state")
    assert states.columns == ["state", "estimate", "std", "lower", "upper"]
    assert states["state"].to_list() == ["CA", "NY", "DC"]  # as declared
    counties = release.table("county")
    assert counties.rows()[0][:2] == ("CA", "Kings")
    assert counties.filter(pl.col("state") == "NY")["estimate"].item() == pytest.approx(700, abs=9)
    assert states["estimate"].sum() == release.total
    assert release.estimate("DC") == pytest.approx(90, abs=9)
    assert "one unit, which counts in one cell by at most 1, added or removed" in str(release)
    assert release.guarantee == ZCDP(2)
    assert release.std("county") == pytest.approx(states["std"][0], rel=1e-5)


def test_the_same_key_gives_the_same_release_and_any_change_of_terms_other_noise() -> None:
    leaves = {"state": ["NY"], "county": ["Kings"], "count": [700]}
    base = released(leaves).total
    assert released(leaves).total == base
    for changed in (
        {"name": "other"},
        {"guarantee": ZCDP(2.0001)},
        {"key": Key.generate()},
        {"contribution": Contribution.replace()},
        {"targets": {"county": 1.1, "state": 1.0}},
        {"domain": {**DOMAIN, "county": ["Kings", "Nap", "Kings", None]}},
    ):
        assert released(leaves, **changed).total != base
    assert released({"state": ["NY"], "county": ["Kings"], "n": [700]}, value="n").total != base


@pytest.mark.parametrize(
    ("leaves", "changed", "message"),
    [
        ({"state": ["TX"], "county": ["Kings"], "count": [1]}, {}, "row 1 of the leaves is"),
        ({"state": ["NY"], "county": ["Napa"], "count": [1]}, {}, "not in the domain"),
        ({"state": ["NY"], "county": [None], "count": [1]}, {}, "has children in the domain"),
        ({"state": [None], "county": ["Napa"], "count": [1]}, {}, "below a missing level"),
        ({"state": ["DC"] * 2, "county": [None] * 2, "count": [1, 2]}, {}, "repeats a leaf"),
        ({"state": ["DC"], "county": [None], "count": [-1]}, {}, "negative"),
        ({"state": ["DC"], "county": [None], "count": [1.5]}, {}, "must be integers"),
        ({"state": ["DC"], "county": [None], "count": [None]}, {}, "must be an integer"),
        ({"state": ["DC"], "county": [None], "count": [True]}, {}, "must be integers"),
        ({"state": ["DC"], "count": [1]}, {}, "no column 'county'"),
        ({"state": ["DC"], "county": [None, None], "count": [1]}, {}, "must have 1 rows"),
        ([1, 2], {}, "the tree has 4 leaves"),
        (5, {}, "the tree has 4 leaves"),
        ("many", {}, "must be integers"),
        (np.array([1, 2]), {}, "the tree has 4 leaves"),
        ({"state": ["DC"], "county": [None], "count": [1]}, {"domain": None}, "domain is None"),
        ({"state": ["DC"], "county": [None], "count": [1]}, {"levels": None}, "levels is None"),
        ({"state": ["DC"], "county": [None], "count": [1]}, {"levels": []}, "at least one column"),
        ({"state": ["DC"], "county": [None], "count": [1]}, {"name": ""}, "name is ''"),
        (
            {"state": ["DC"], "county": [None], "count": [1]},
            {"contribution": Contribution.clipped(0, 5, resolution=1)},
            "clipped values",
        ),
    ],
)
def test_bad_leaves_are_refused_with_a_reason(leaves: Any, changed: Any, message: Any) -> None:
    with pytest.raises(InvalidInput, match=message):
        released(leaves, **changed)


@pytest.mark.parametrize("count", [2**42, 2**61, 2**70])
def test_counts_too_large_to_be_exact_are_refused(count: Any) -> None:
    leaves = {"state": ["DC"], "county": [None], "count": [count]}
    with pytest.raises(SumOverflow):
        released(leaves)


def test_sums_that_would_wrap_around_are_noticed() -> None:
    tree = Tree.from_leaves({"a": np.arange(8)}, ["a"])
    with pytest.raises(SumOverflow, match=str(8 * (2**61 - 1))):
        release_hierarchy(np.full(8, 2**61 - 1), domain=tree, guarantee=ZCDP(1), key=KEY)


def test_rounding_favours_no_sibling() -> None:
    """Sums over the first siblings stay within half a unit of their exact shares, in every draw."""
    siblings, bits, draws = 1000, 16, 60
    tree = Tree.from_leaves({"a": range(siblings)}, ["a"])
    measurement, scale = tree_strategy_for(tree, [1.0, 1.0], 2)
    rng = np.random.default_rng(5)
    counts = rng.integers(0, 100, siblings)
    sums = [np.array([counts.sum()]), counts]
    p, q = int(measurement.own[0][0]), int(measurement.shared[0][0])
    away = np.zeros(siblings)
    for _ in range(draws):
        z = np.rint(rng.normal(0, scale, siblings)).astype(np.int64)
        first = np.rint(rng.normal(0, scale, 1)).astype(np.int64)
        total, shares = estimates_of(measurement, sums, WrittenNoise({0: first, 1: z}), bits)
        y = p * counts - q * counts.sum() + z
        exact = total[0] / siblings + (y - y.mean()) / p * 2**bits
        away += (shares - exact) / draws
        assert np.abs(np.cumsum(shares - exact)).max() < 0.51
    # Differences of two roundings have variance 1/6: five deviations of a mean over the draws.
    assert np.abs(away).max() < 5 * math.sqrt(1 / 6 / draws)
    assert abs(away[: siblings // 2].mean()) < 0.01


def test_families_of_any_size_share_out_exactly_what_there_is() -> None:
    tree = random_wide_tree()
    measurement, scale = tree_strategy_for(tree, [1.0] * len(tree.levels), 2)
    rng = np.random.default_rng(6)
    drawn = {
        level: np.rint(rng.normal(0, scale, 3000)).astype(np.int64)
        for level in range(len(tree.sizes))
    }
    counts = rng.integers(0, 2**24, sum(map(len, tree.leaves)))
    levels = estimates_of(measurement, sums_of(tree, counts), WrittenNoise(drawn), 16)
    for level, parents in enumerate(tree.parents):
        summed = np.zeros(tree.sizes[level], np.int64)
        np.add.at(summed, parents, levels[level + 1])
        inner = tree.children[level] > 0
        assert (summed[inner] == levels[level][inner]).all()


def random_wide_tree() -> Any:
    rng = np.random.default_rng(7)
    nodes = range(1, 2000)
    return Tree.from_parents({i: int(rng.integers(0, max(1, i // 3))) for i in nodes})


def test_counts_of_a_tree_may_be_any_sequence() -> None:
    tree = Tree.from_leaves({"a": [1, 2, 3]}, ["a"])
    base = release_hierarchy(np.array([1, 2, 3]), domain=tree, guarantee=ZCDP(1), key=KEY)
    sequences: list[Any] = [[1, 2, 3], (1, 2, 3), range(1, 4), pl.Series([1, 2, 3])]
    for counts in sequences:
        again = release_hierarchy(counts, domain=tree, guarantee=ZCDP(1), key=KEY)
        assert again.total == base.total


def test_missing_values_of_data_frames_end_a_path() -> None:
    def frame(**columns: Any) -> Any:
        return pd.DataFrame(
            {name: pd.array(values, dtype="string") for name, values in columns.items()}
        )

    counties = [pd.NA if value is None else value for value in DOMAIN["county"]]
    domain = frame(state=DOMAIN["state"], county=counties)
    leaves = frame(state=["NY", "DC"], county=["Kings", pd.NA])
    leaves["count"] = [700, 90]
    plain = {"state": ["NY", "DC"], "county": ["Kings", None], "count": [700, 90]}
    assert released(leaves, domain=domain).total == released(plain).total


def test_all_of_a_path_is_shown_and_rows_count_from_1() -> None:
    domain = {"state": ["CA"], "county": ["Napa"], "tract": ["1"]}
    leaves = {"state": ["CA"] * 2, "county": ["Napa", "Sonoma"], "tract": ["1", "7"]}
    with pytest.raises(
        InvalidInput, match=r"row 2 of the leaves is \('CA', 'Sonoma', '7'\), which"
    ):
        released({**leaves, "count": [1, 2]}, domain=domain, levels=list(domain))
    with pytest.raises(InvalidInput, match="row 2 of the leaves holds -2, which is negative"):
        released({**leaves, "count": [1, -2]}, domain=domain, levels=list(domain))


@pytest.mark.parametrize("targets", [[1, 2], 3.0, "state"])
def test_targets_are_a_mapping(targets: Any) -> None:
    leaves = {"state": ["DC"], "county": [None], "count": [1]}
    with pytest.raises(InvalidInput, match="give a mapping from levels"):
        released(leaves, targets=targets)


def test_targets_no_estimate_can_have_are_named_as_the_caller_gave_them() -> None:
    leaves = {"state": ["DC"], "county": [None], "count": [1]}
    with pytest.raises(InvalidInput, match=r"a target of 400, which .* that of county, 50,"):
        released(leaves, targets={"state": 400.0, "county": 50.0})


def test_a_bare_label_is_no_list_of_nodes() -> None:
    release = released({"state": ["DC"], "county": [None], "count": [1]})
    for first, second in (("CA", ["NY"]), (["CA"], "NY")):
        with pytest.raises(InvalidInput, match="which is no list; give a list of nodes"):
            release.covariance(first, second)
    wrong: Any = 5
    for nodes in ("CA", wrong):
        with pytest.raises(InvalidInput, match="which is no list; give a list of nodes"):
            release.sum_of(nodes)


@pytest.mark.parametrize("guarantee", [ZCDP(1e12), PureDP(1e6)])
def test_noise_that_is_next_to_never_there_is_no_error(guarantee: Any) -> None:
    leaves = {"state": ["DC"], "county": [None], "count": [7]}
    release = released(leaves, guarantee=guarantee)
    assert release.total == pytest.approx(7, abs=1e-3)
    with pytest.raises(InvalidInput, match="neither state nor key is given"):
        released(leaves, key=None)

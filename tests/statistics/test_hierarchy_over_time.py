"""Hierarchies over time: all levels add up at every step and in every window, norms multiply."""

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from brute_force import changes_of, check_exact, check_sensitivity, one_replaced
from keys import chosen_key

from counton import ZCDP, ApproxDP, PureDP, RunningStatistic
from counton.base.errors import InvalidInputError, SumOverflowError
from counton.statistics import Grouped, Hierarchy, Quantiles
from counton.statistics.statistic_plan import plan_statistic
from counton.strategies import Binary, KAry, SqrtToeplitz
from counton.strategies.participation import Norm
from counton.tables import Tree

#: Families of one, two and three; a leaf that stands higher up than others.
#: A guarantee for each norm that calibrates its noise.
PROMISES = {1: PureDP(1), 2: ZCDP(1)}
TREE = Tree.from_leaves(
    {
        "region": ["N", "N", "N", "S", "T", "T", "U"],
        "city": ["a", "b", "c", None, "x", "y", "only"],
    },
    ["region", "city"],
)
LEAVES = [("N", "a"), ("N", "b"), ("N", "c"), ("S",), ("T", "x"), ("T", "y"), ("U", "only")]
HORIZON = 2


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("targets", [None, {"total": 1, "city": 3}])
def test_no_event_moves_more_than_claimed(norm: Norm, targets: Any) -> None:
    statistic = Hierarchy(TREE, targets=targets).resolve_parameters(PROMISES[norm])
    check_sensitivity(statistic, HORIZON, one_replaced(LEAVES[::2], HORIZON))
    replaced = Hierarchy(TREE, targets=targets, neighbours="replace").resolve_parameters(
        PROMISES[norm]
    )
    # A replaced event may also only leave: that is as much as adding one.
    check_sensitivity(replaced, HORIZON, one_replaced(LEAVES[::2], HORIZON, LEAVES), slack=2.0)


def test_a_count_is_as_many_events() -> None:
    once = Hierarchy(TREE).resolve_parameters(PureDP(1))
    often = Hierarchy(TREE, counts=True).resolve_parameters(PureDP(1))
    events = [("N", "a")] * 4 + [("S",)]
    same = [(("N", "a"), 3), (("N", "a"), 1), (("S",), 1), (("T", "x"), 0)]
    assert (changes_of(once, [events]) == changes_of(often, [same])).all()
    assert often.contribution().pattern == once.contribution().pattern
    check_exact(often, [same, [], [(("U", "only"), 2)]])


@pytest.mark.parametrize("norm", [1, 2])
def test_nodes_are_unbiased_with_stated_variance(norm: Norm) -> None:
    """Each node is a linear function of what is measured: its row, written out."""
    statistic = Hierarchy(TREE, targets={"total": 2, "region": 1, "city": 4}).resolve_parameters(
        PROMISES[norm]
    )
    measuring = statistic.measuring
    count = statistic.n_accumulators
    leaves = np.eye(count, dtype=np.int64)
    through = measuring.estimates(measuring.cells(leaves))
    for found, exact in zip(through, measuring.node_sums(leaves), strict=True):
        assert np.allclose(found, exact, atol=1e-12)
    rows = np.concatenate(measuring.estimates(np.eye(measuring.size)), axis=1)
    said = np.concatenate(statistic.distribution.variances)
    assert np.allclose((rows**2).sum(axis=0), said, rtol=1e-12)


def test_released_nodes_add_up_over_levels_and_time() -> None:
    """Exactly, in floats as they are shown: at each step, and between any two."""
    months = [[leaf for leaf in LEAVES for _ in range(ord(leaf[-1][0]) % 7)] for _ in range(5)]
    for guarantee, strategy in (
        (PureDP(1), KAry(5, 2, True)),
        (ZCDP("1/2"), SqrtToeplitz(5)),
        (ApproxDP(1, "1e-6"), None),
    ):
        counter = RunningStatistic.start(
            Hierarchy(TREE), 5, guarantee, key=chosen_key(), name="m", strategy=strategy,
            batched=True,
        )  # fmt: skip
        steps: list[Any] = [counter.release_batch(month) for month in months]
        windows = [steps[0], *(now.since(was) for was, now in itertools.pairwise(steps))]
        whole = steps[4].since(steps[1])
        for reading in (*steps, *windows, whole):
            for level in range(2):
                below = [Fraction(each) for each in reading.estimates[level + 1].tolist()]
                for node, above in enumerate(reading.estimates[level].tolist()):
                    mine = np.flatnonzero(TREE.parents[level] == node)
                    assert not len(mine) or sum(below[k] for k in mine) == Fraction(above)
        for path in ((), *LEAVES, ("N",)):
            parts = [Fraction(window[path]) for window in windows]
            assert sum(parts) == Fraction(steps[4][path])
            assert sum(parts[2:]) == Fraction(whole[path])
            assert whole.std(path) > 0


def test_intervals_and_tables_are_those_of_nodes() -> None:
    counter = RunningStatistic.start(
        Hierarchy(TREE), 4, PureDP(20), key=chosen_key(), name="m", batched=True
    )
    reading: Any = counter.release_batch([("N", "a")] * 50 + [("S",)] * 30)
    low, high = reading.interval("N", 0.99)
    assert low < 50 < high
    columns = reading.table_columns()
    assert columns["tree_level"].tolist() == ["total", *["region"] * 4, *["city"] * 6]
    assert columns["estimate"][0] == reading.total
    with pytest.raises(InvalidInputError, match="is not in the domain"):
        reading["Q"]


def test_the_weights_are_chosen_for_the_guarantee() -> None:
    statistic = Hierarchy(TREE)
    laplace = statistic.resolve_parameters(PureDP(1))
    gaussian = statistic.resolve_parameters(ZCDP(1), 99)
    chosen = [one._measurement for one in (laplace, gaussian)]
    assert chosen == [statistic._choose(1), statistic._choose(2)]
    assert statistic.resolve_parameters(ApproxDP(1, "1e-5"), 99) == gaussian
    assert statistic.allows(laplace)
    assert statistic.allows(gaussian)
    assert not laplace.allows(gaussian)
    assert not Hierarchy(TREE, targets={"city": 3}).allows(laplace)
    assert not statistic.allows(Quantiles([0, 1]))
    plan = plan_statistic(statistic, 9, PureDP(1))
    assert "at a node" in plan.describe()


def test_rows_are_encoded_by_labels_of_leaves() -> None:
    """A leaf, an inner node, a gap, another city, another region, nothing."""
    names = [part.labels for part in Hierarchy(TREE).parts]
    assert names == [("N", "S", "T", "U"), ("a", "b", "c", "x", "y", "only")]
    region = np.array([0, 0, 1, -1, 0, -2, -1, 2, 1])
    city = np.array([0, -1, -1, 0, 3, 0, -1, -2, 1])
    said = Hierarchy(TREE).encode(region, city).tolist()
    assert said == [1, -1, 0, -1, -1, -1, -1, -1, -1]
    counts = Hierarchy(TREE, counts=True)
    again = counts.encode(region, city, np.arange(9.0))
    [(place, amount)] = counts.entries(again)
    assert (np.ravel(place)[0], np.ravel(amount)[0], again[1]) == (1, 0, -1)


@pytest.mark.parametrize(
    ("events", "counts", "words"),
    [
        ([("N",)], False, "not a leaf of the tree"),
        ([("Q", "a")], False, "not a leaf of the tree"),
        ([("N", ["a"])], False, "not a leaf of the tree"),
        ([("N", "a")], True, "give pairs|counts 'a' times"),
        ([(("N", "a"), -1)], True, "a whole number from 0"),
        ([(("N", "a"), 1.5)], True, "a whole number from 0"),
    ],
)
def test_hierarchy_refuses_invalid_events(events: Any, counts: bool, words: str) -> None:
    counter = RunningStatistic.start(
        Hierarchy(TREE, counts=counts), 4, PureDP(1), key=chosen_key(), name="m", batched=True
    )
    with pytest.raises(InvalidInputError, match=words):
        counter.release_batch(events)
    assert counter.step == 0


def test_sums_beyond_exact_arithmetic_are_refused() -> None:
    statistic = Hierarchy(TREE).resolve_parameters(PureDP(1))
    with pytest.raises(SumOverflowError, match="can be measured exactly"):
        statistic.measure(np.full((1, 7), 2**60))
    numbers = Tree.from_leaves({"level 1": [1, 2]}, ["level 1"])
    with pytest.raises(InvalidInputError, match="give all nodes texts as names"):
        Hierarchy(numbers)
    with pytest.raises(InvalidInputError, match="is not a level"):
        Hierarchy(TREE, targets={"street": 1})


def test_groups_have_a_hierarchy_each() -> None:
    counter = RunningStatistic.start(
        Grouped(Hierarchy(TREE), ["old", "new"]), 4, PureDP(1), key=chosen_key(), name="m",
        strategy=Binary(4), batched=True,
    )  # fmt: skip
    both: Any = counter.release_batch([("old", ("S",)), ("new", ("N", "a"))])
    reading = both.of("old")
    assert reading[()] == sum(reading[path] for path in ("N", "S", "T", "U"))

"""Public trees: from tables and from parents, and what is no tree."""

from typing import Any

import numpy as np
import pytest
from trees import tree_of_parents

from counton.base.errors import InvalidInputError
from counton.tables import Tree


def test_nodes_are_known_by_their_paths() -> None:
    tree = Tree.from_leaves(
        {"state": ["NY", "CA", "CA", "DC"], "county": ["Kings", "Kings", "Napa", None]},
        ["state", "county"],
    )
    assert tree.levels == ("total", "state", "county")
    assert tree.sizes == [1, 3, 3]
    assert tree.find(("CA", "Kings")) != tree.find(("NY", "Kings"))
    assert tree.path(*tree.find(("NY", "Kings"))) == ("NY", "Kings")
    assert tree.find("DC") == tree.find(("DC",)) == (1, 1)
    assert tree.find(()) == (0, 0)
    assert [nodes.tolist() for nodes in tree.leaves] == [[], [1], [0, 1, 2]]
    with pytest.raises(InvalidInputError, match="not in the domain"):
        tree.find(("TX",))
    with pytest.raises(InvalidInputError, match="there is no level 'city'"):
        tree.level("city")


def test_children_stand_together_in_the_order_of_their_parents() -> None:
    rng = np.random.default_rng(0)
    table = {"a": rng.integers(0, 5, 200), "b": rng.integers(0, 9, 200), "c": np.arange(200)}
    tree = Tree.from_leaves(table, ["a", "b", "c"])
    for level, parents in enumerate(tree.parents):
        assert (np.diff(parents) >= 0).all()
        assert tree.children[level].sum() == len(parents)
        assert (parents[tree.starts[level]] == np.arange(tree.sizes[level])).all()
    places = [tree.find(row) for row in zip(*(table[name].tolist() for name in "abc"), strict=True)]
    assert {depth for depth, _ in places} == {3}
    assert sorted(node for _, node in places) == list(range(200))
    for row in (0, 57, 199):
        assert tree.path(*places[row]) == tuple(int(table[name][row]) for name in "abc")


def test_tree_digests_differ_for_different_trees() -> None:
    def digest(*args: Any) -> Any:
        return Tree.from_leaves(*args).digest

    base = digest({"a": [1, 2]}, ["a"])
    assert base == digest({"a": [2, 1]}, ["a"])
    assert base != digest({"b": [1, 2]}, ["b"])
    assert base != digest({"a": [1, 3]}, ["a"])
    assert base != digest({"a": ["1", "2"]}, ["a"])
    sly = [["a\x1fstr:b", "c"], ["a", "b\x1fstr:c"]]  # the same text once joined
    assert digest({"a": sly[0]}, ["a"]) != digest({"a": sly[1]}, ["a"])
    assert digest({"a": ["\ud800", "x"]}, ["a"]) != digest({"a": ["\ud801", "x"]}, ["a"])


def test_rows_of_inner_nodes_change_no_tree() -> None:
    nodes = {"a": ["x", "x", "x", "w"], "b": [None, "y", "z", None]}
    leaves = {"a": ["x", "x", "w"], "b": ["y", "z", None]}
    assert Tree.from_leaves(nodes, ["a", "b"]).digest == Tree.from_leaves(leaves, ["a", "b"]).digest


def test_a_tree_may_be_one_node() -> None:
    tree = tree_of_parents({"all": None})
    assert tree.sizes == [1]
    assert [nodes.tolist() for nodes in tree.leaves] == [[0]]


@pytest.mark.parametrize(
    ("domain", "levels", "message"),
    [
        ({"a": []}, ["a"], "no rows"),
        ({"a": [1, 1]}, ["a"], "repeats an earlier row"),
        (
            {"a": ["x", "x", "w"], "b": [None, None, "y"]},
            ["a", "b"],
            "row 2 .* repeats an earlier row",
        ),
        ({"total": [1, 2]}, ["total"], "rename the column"),
        ({1: [1, 2]}, [1], "give names of columns"),
        ({"a": [[1], None]}, ["a"], "labels must be plain values"),
        ({"noise_std": [1, 2]}, ["noise_std"], "released table needs this name"),
        ({"a": [None, "x"]}, ["a"], "has no a"),
        (
            {"a": ["x", "x"], "b": [None, "y"], "c": ["z", "z"]},
            ["a", "b", "c"],
            "below a level that is empty",
        ),
        ({"a": ["x"], "b": [None]}, ["a", "b"], "'b' of the domain is empty"),
        ({"a": [1]}, ["b"], "no column 'b'"),
        ({"a": [1]}, ["a", "a"], r"levels \['a', 'a'\] name a column twice"),
        ({"a": [1]}, "a", "at least one column"),
        (5, ["a"], "give a data frame"),
        ({"a": [1]}, 1, "levels are 1; give a list of at least one column name"),
        ({"\ud800": [1]}, ["\ud800"], "has half a character"),
    ],
)
def test_tree_refuses_invalid_leaves(domain: Any, levels: Any, message: Any) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Tree.from_leaves(domain, levels)

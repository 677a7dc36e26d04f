"""The laws of a statistic hold for those of the package.

What is wrong with others they find in `tests/testing/test_every_statistic_claim_has_a_law.py`.
"""

from typing import Any

import pytest
from above import STREAM
from own_laws.statistics import check_statistic

from counton.base.errors import InvalidInputError
from counton.statistics import (
    Average,
    Count,
    Cuts,
    Degrees,
    Distinct,
    Edges,
    Episodes,
    Forest,
    Grouped,
    Hierarchy,
    Moments,
    Quantiles,
    Ranges,
    Stars,
    Substrings,
    Sum,
    TopK,
    Triangles,
)
from counton.tables import Tree
from counton.testing import PropertyViolationError

TREE = Tree.from_leaves(
    {"state": ["N", "N", "N", "S"], "city": ["a", "b", "c", "d"]}, ["state", "city"]
)


@pytest.mark.parametrize(
    ("statistic", "batches"),
    [
        (Count(), STREAM),
        (Sum(-5, 50, resolution=1), STREAM),
        (Average(0, 50, resolution=1), STREAM),
        (Quantiles(lower=0, upper=64, cells=4), STREAM),
        (TopK(["a", "b"], 1), [["a"], ["b", "a"], []]),
        (Cuts(["a", "b", "c"]), [[("a", "b")], [], [("b", "c"), ("a", "c")]]),
        (Substrings("ab", 2), ["ab", "", "b", "aab"]),
        (Episodes("ab", 2), ["ab", "", "b", "aab"]),
        (Triangles(3, beyond="drop"), [[(1, 2), (2, 3)], [], [(1, 3)]]),
        (Moments({"a": (0, 10), "b": (-5, 5)}, grid=16), [[(3, 1), (12, -9)], [], [(4, 2)]]),
        (Ranges(["a", "b", "c", "d"]), [["a"], ["b", "a"], [], ["d"]]),
        (Hierarchy(TREE), [[("N", "a"), ("S", "d")], [], [("N", "b"), ("N", "c")]]),
        (Ranges(["a", "b"], counts=True), [[("a", 1), ("b", 1)], [], [("b", 1)]]),
        (Hierarchy(TREE, counts=True), [[(("N", "a"), 1)], [], [(("S", "d"), 1), (("N", "c"), 1)]]),
        (
            Grouped(Ranges(["a", "b"], counts=True), ["north", "south"]),
            [[("north", ("a", 1))], [], [("south", ("b", 1)), ("south", ("a", 1))]],
        ),
        *(
            (Grouped(inner, ["north", "south"]), [[("north", one), ("south", two)], [("north", 4)]])
            for inner, one, two in (
                (Count(), 3, 12),
                (Average(0, 50, resolution=1), 3, 70),
                (Quantiles(lower=0, upper=64, cells=4), 3, 70),
            )
        ),
        (Grouped(Moments({"a": (0, 10)}, grid=16), ["n", "s"]), [[("n", (3,)), ("s", (12,))], []]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_statistics_pass_checks(statistic: Any, batches: Any) -> None:
    check_statistic(statistic, batches)


@pytest.mark.parametrize(
    "statistic",
    [Edges(), Triangles(3), Stars(3, 2), Degrees(3), Degrees(3, nodes=6), Forest(5)],
    ids=str,
)
def test_edge_statistics_pass_checks(statistic: Any) -> None:
    edges: Any = [[(1, 2), (2, 3)], [], [(1, 3), (1, 4)]]
    if isinstance(statistic, Forest):
        edges = [[(*edge, 1 + edge[1]) for edge in batch] for batch in edges]
    check_statistic(statistic, edges, unit_of=lambda edge: tuple(sorted(edge[:2])))


def test_users_are_units() -> None:
    stream = [[("ann", "x"), ("bob", "x")], [("ann", "y")], []]
    taken = [[user for user, _ in batch] for batch in stream]
    check_statistic(Distinct(), taken, unit_of=lambda user: user)
    with pytest.raises(PropertyViolationError, match="unit 10 changes"):
        check_statistic(Count(), [[10, 10, 10], [10]], unit_of=lambda event: event)


def test_check_statistic_refuses_unsupported_statistics() -> None:
    with pytest.raises(InvalidInputError, match="computed on demand"):
        check_statistic(Cuts(100), [[(1, 2)]])
    with pytest.raises(InvalidInputError, match="at least one step"):
        check_statistic(Count(), [])

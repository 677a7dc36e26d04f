"""Exact states: one by one, at one go, undone, saved and restored, always the same counts."""

from typing import Any

import numpy as np
import pytest
from brute_force import changes_of

from counton import ZCDP, Cuts, Degrees, Distinct, Edges, Forest, Key, Running, Stars, Triangles
from counton.statistics.statistic import restore

EDGES: list[Any] = [[("a", "b"), (1, "b")], [None], [("a", 1), ("a", "b")], [("c", "a")]]
WEIGHTED: list[Any] = [[("a", "b", 1), ("b", "c", 0.5)], [None], [("c", "a", 0.25), ("a", "b", 1)]]
MOVES: list[Any] = [[("a", True), ("a", False)], [("a", True)], [("b", True)], [("a", False)]]


@pytest.mark.parametrize(
    ("statistic", "stream"),
    [
        (Cuts(["a", "b", "c"], resolution=0.25), WEIGHTED),
        (Forest(3, resolution="0.5"), [[("a", "b", 3), ("c", "b", 2)], [("a", "c", 1)]]),
        (Distinct(), [["a", "b"], ["b"], [], ["c", "a"], ["a"]]),
        (Distinct(changes=3), MOVES),
        (Edges(), EDGES),
        (Triangles(3), EDGES),
        (Stars(3, 2), EDGES),
        (Degrees(3, nodes=4), EDGES),
        (Triangles(2, beyond="drop"), EDGES),
        (Degrees(1, beyond="drop"), EDGES),
    ],
    ids=str,
)
def test_a_state_is_whole(statistic: Any, stream: list[list[Any]]) -> None:
    whole = changes_of(statistic, stream)
    exact, found = statistic.begin(), []
    for batch in stream:
        ends = np.array([len(batch)])
        first = exact.take(batch, ends)
        saved = exact.save()
        exact.undo()
        assert (exact.take(batch, ends) == first).all()
        assert exact.save() == saved
        exact = restore(statistic, saved)
        found.append(first.reshape(-1))
    if statistic.on_demand:
        cells = np.arange(whole.shape[1])
        found = [exact.counts(cells, step) for step in range(1, len(whole) + 1)]
        whole = whole.cumsum(axis=0)
    np.testing.assert_array_equal(np.array(found), whole)


def test_cuts_go_on_from_a_checkpoint() -> None:
    counter: Any = Running.start(Cuts(4), 9, ZCDP(1), key=(key := Key.generate()), name="s")
    counter.release_many([(0, 1), (1, 2)])
    again = type(counter).resume(counter.checkpoint(), key=key)
    assert counter.release((2, 3)).cut([0, 1]) == again.release((2, 3)).cut([0, 1])
    assert again.reading(1)[0, 1] == counter.reading(1)[0, 1]

"""What is saved is restored, and goes on alike; what is undone leaves nothing behind."""

from typing import Any

import numpy as np
import pytest

from counton.statistics import (
    Average,
    Cuts,
    Degrees,
    Distinct,
    Edges,
    Episodes,
    Forest,
    Statistic,
    Substrings,
    Triangles,
)
from counton.statistics.statistic import restore

EDGES: list[list[Any]] = [
    [("a", "b"), ("b", "c")], [("a", "b")], [], [("c", "a"), ("d", 5), (5, "a")],
]  # fmt: skip
WEIGHTED = [[(*edge, 1 + len(str(edge)) % 3) for edge in step] for step in EDGES]
USERS: list[list[Any]] = [["u", "v", "u"], ["v", 7], [], ["w", "7", "u"], ["u", "w"]]
CASES: list[tuple[Statistic, list[Any]]] = [
    (Average(0, 5, "0.5", number=1), [[1], [2.5], [4]]),
    (Edges(), EDGES),
    (Triangles(degree=3, beyond="drop"), EDGES),
    (Degrees(degree=2, beyond="drop"), EDGES),
    (Forest(largest=5), WEIGHTED),
    (Cuts(["a", "b", "c", "d", 5]), EDGES),
    (Substrings("ACGT", longest=3), ["AC", "", "GGT", "A"]),
    (Substrings("ACGT", longest=3), ["A", "C", "G", "T"]),
    (Episodes("AB", longest=2), ["AB", "B", "", "A"]),
    (Distinct(), USERS),
    (Distinct(changes=3), [[(u, n % 2 == 0) for n, u in enumerate(step)] for step in USERS]),
]


@pytest.mark.parametrize(("statistic", "steps"), CASES, ids=lambda one: repr(one)[:40])
def test_what_was_saved_goes_on_alike(statistic: Statistic, steps: list[Any]) -> None:
    exact = statistic.begin()
    for events in steps:
        stops, before = np.array([len(events)]), exact.save()
        exact.take(events, stops)
        exact.undo()
        assert exact.save() == before
        exact.take(events, stops)
        restored = restore(statistic, exact.save())
        assert restored.save() == exact.save()
        for later in steps:
            ends = np.array([len(later)])
            assert restored.take(later, ends).tolist() == exact.take(later, ends).tolist()
            restored.undo()
            exact.undo()

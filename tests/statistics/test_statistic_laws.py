"""The laws of a statistic hold for those of the package, and find what is wrong with others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counton import Contribution
from counton.errors import InvalidInput
from counton.statistics import (
    Average,
    Count,
    Cuts,
    Degrees,
    Distinct,
    Edges,
    Episodes,
    Forest,
    Moments,
    Quantiles,
    Ranges,
    Stars,
    Substrings,
    Sum,
    Tallied,
    TopK,
    Triangles,
)
from counton.statistics.readings import CellsReading
from counton.statistics.tallied import Part
from counton.testing import LawBroken, check_statistic

STREAM = [[10, 70, 90], [], [60], [20, 61]]


class Above(Tallied):
    """How many values lie below a threshold, and how many above."""

    parts = (Part("value"),)

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold

    @property
    def cells(self) -> tuple[int, ...]:
        return (2,)

    @property
    def places(self) -> int:
        return 2

    @property
    def parameters(self) -> dict[str, Any]:
        return {"threshold": self.threshold}

    def contribution(self, *, batched: bool = False) -> Contribution:
        return Contribution.add_remove(cells=1)

    def said(self, *parts: Any) -> Any:
        return (np.asarray(parts[0]) > self.threshold).astype(np.int64)

    def entries(self, said: Any) -> Any:
        return [(said, 1)]

    def read(self, release: Any) -> CellsReading:
        return CellsReading(self, release)


class TwoCells(Above):
    def entries(self, said: Any) -> Any:
        return [(said, 1), (0, 1)]


class Twice(Above):
    def entries(self, said: Any) -> Any:
        return [(said, 2)]


class Elsewhere(Above):
    def entries(self, said: Any) -> Any:
        return [(said - 1, 1)]


class Float(Above):
    def said(self, *parts: Any) -> Any:
        return super().said(*parts).astype(np.int32)


class Squared(Above):
    def measured(self, sums: Any) -> Any:
        return sums**2


class First(Above):
    def said(self, *parts: Any) -> Any:
        said = super().said(*parts)
        said[1:] = 0
        return said


class Forgets(Above):
    @property
    def parameters(self) -> dict[str, Any]:
        return {"threshold": 3}


class Shapeless(Above):
    def measured(self, sums: Any) -> Any:
        return sums.reshape(-1)


@pytest.mark.parametrize(
    ("statistic", "batches"),
    [
        (Above(60), STREAM),
        (Count(), STREAM),
        (Sum(-5, 50, resolution=1), STREAM),
        (Average(0, 50, resolution=1), STREAM),
        (Quantiles(lower=0, upper=64, cells=8), STREAM),
        (TopK(["a", "b"], 1), [["a"], ["b", "a"], []]),
        (Cuts(["a", "b", "c"]), [[("a", "b")], [], [("b", "c"), ("a", "c")]]),
        (Substrings("ab", 2), ["ab", "", "b", "aab"]),
        (Episodes("ab", 2), ["ab", "", "b", "aab"]),
        (Edges(neighbours="replace"), [[(1, 2), (2, 3)], [], [(1, 3)]]),
        (Moments({"a": (0, 10), "b": (-5, 5)}, grid=16), [[(3, 1), (12, -9)], [], [(4, 2)]]),
        (Ranges(["a", "b", "c", "d"]), [["a"], ["b", "a"], [], ["d"]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_laws_hold(statistic: Any, batches: Any) -> None:
    check_statistic(statistic, batches)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (TwoCells, r"event 10 moves .* by .*1-norm.* is claimed"),
        (Twice, r"a row adds \[2\], outside of row_bounds 1 and 1"),
        (Elsewhere, r"a row changes place \[-1\], which is none"),
        (Float, "said is int32, not int64"),
        (Squared, "halves of the rows do not add up"),
        (First, "the order of rows matters"),
        (Forgets, r"makes counts otherwise"),
        (Shapeless, r"changes have shape \(8,\), not \(4, 2\)"),
    ],
)
def test_what_breaks_a_law_is_named(wrong: type[Above], words: str) -> None:
    with pytest.raises(LawBroken, match=words):
        check_statistic(wrong(60), STREAM)


@pytest.mark.parametrize(
    "statistic",
    [Edges(), Triangles(3), Stars(3, 2), Degrees(3), Degrees(3, nodes=6), Forest(5)],
    ids=str,
)
def test_the_laws_hold_of_edges(statistic: Any) -> None:
    edges: Any = [[(1, 2), (2, 3)], [], [(1, 3), (1, 4)]]
    if isinstance(statistic, Forest):
        edges = [[(*edge, 1 + edge[1]) for edge in batch] for batch in edges]
    check_statistic(statistic, edges, unit_of=lambda edge: tuple(sorted(edge[:2])))


def test_users_are_units() -> None:
    stream = [[("ann", "x"), ("bob", "x")], [("ann", "y")], []]
    taken = [[user for user, _ in batch] for batch in stream]
    check_statistic(Distinct(), taken, unit_of=lambda user: user)
    with pytest.raises(LawBroken, match="unit 10 moves"):
        check_statistic(Count(), [[10, 10, 10], [10]], unit_of=lambda event: event)


def test_what_the_laws_do_not_cover_is_refused() -> None:
    with pytest.raises(InvalidInput, match="read on demand"):
        check_statistic(Cuts(100), [[(1, 2)]])
    with pytest.raises(InvalidInput, match="at least one step"):
        check_statistic(Count(), [])

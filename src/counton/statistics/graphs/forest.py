"""The weight of a minimum spanning forest of a growing graph."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.distributions import Alternating
from counton.base.errors import InvalidInputError, param
from counton.base.exact import Number, exact, quote, text
from counton.continual.formulas import Estimate
from counton.privacy import ContributionBound
from counton.statistics.cells import Cells
from counton.statistics.graphs.graph_statistic import (
    DIFFERENCE_IN_WORDS,
    UNIT,
    NodeNumbers,
    keys_of,
    pack_edges,
    unpack_edges,
)
from counton.statistics.statistic import ErrorScale, Events, Exact, Statistic, place_of_name

_MOST_WEIGHT = 2**32


class Forest(Statistic):
    """Weight of a minimum spanning forest of a growing graph; edge-level privacy.

    An event is an edge ``(u, v, weight)``; ``None`` is a step without an edge. A weight is refused
    if it is, rounded to ``resolution``, not above 0, or above ``largest``. The protected unit is
    one edge with all its sightings; only the first counts. `Triangles` describes nodes,
    `GraphStatistic` neighbouring datasets. Comments in the source prove the sensitivity.
    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", section 5.

    Args:
        largest: largest weight of an edge.
        resolution: 0.1 is read as exactly 1/10.

    Raises:
        InvalidInputError: ``largest`` is not a multiple of the resolution, or over 2^32 times as
            large.

    >>> from counton import Key, PureDP, RunningStatistic
    >>> from counton.statistics import Forest, unit_sensitivity
    >>> from counton.strategies import SqrtToeplitz
    >>> forest = RunningStatistic.start(
    ...     Forest(largest=10), 100, PureDP(1), key=Key.generate(), name="cables"
    ... )
    >>> result = forest.release_many([("a", "b", 3), ("b", "c", 10), ("a", "c", 4)])[-1]
    >>> result["weight"] == result.release.value, result.std() > 10
    (True, True)
    >>> round(unit_sensitivity(Forest(largest=10), SqrtToeplitz(1000), 2), 2)
    25.55
    """

    # Sensitivity. Let e have weight w, and W be the largest. Without e, its nodes are either not
    # connected, or connected by a path whose heaviest edge weighs b; b falls as edges come. While
    # they are not connected, the forest with e weighs w more than the forest without e; afterwards
    # b - w less, if b > w. So the difference rises from 0 to w, falls by at most W, to w - b, and
    # rises again to at most 0. Cut into layers of equal height, W in all, it is a sum of series
    # that rise once and fall once, in either order: W times one edge that comes and goes
    # (`counton.base.distributions.Alternating` with two changes). The bound is attained with w = W.
    # It is at most 2 W D_1, and 2 W^2 D_2^2 for most strategies.

    phrase = "weight of a minimum spanning forest of a growing graph"
    sources = ("constants",)
    event = "edge"
    counted = "weight"

    def __init__(self, largest: Number, *, resolution: Number = 1) -> None:
        self.largest = exact(largest, "largest")
        self.resolution = exact(resolution, "resolution")
        if self.resolution <= 0:
            raise InvalidInputError(
                f"{param('resolution')} is {text(self.resolution)}; it is the finest difference of "
                "weights, and must be above 0"
            )
        units = self.largest / self.resolution
        if units.denominator != 1 or not 1 <= units <= _MOST_WEIGHT:
            raise InvalidInputError(
                f"{param('largest')} is {text(self.largest)}; it must be 1 to 2^32 times the "
                f"resolution, {text(self.resolution)}"
            )
        self.units = int(units)

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        parameters: dict[str, object] = {"largest": _number(self.largest)}
        if self.resolution != 1:
            parameters["resolution"] = _number(self.resolution)
        return parameters

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        """Return the bound on the change by one edge, in units of the resolution.

        Args:
            batched: of no effect; the bound holds for any number of edges in a step.
        """
        words = (
            f"which changes the weight of the forest by up to {text(self.largest)} up, and as much "
            f"down"
        )
        return ContributionBound.of_pattern(Alternating(2, size=self.units), words, unit=UNIT)

    @property
    @override
    def error_of(self) -> ErrorScale:
        return ErrorScale(
            "the weight of the forest", float(self.resolution), float(self.resolution)
        )

    @override
    def neighbours_differ(self) -> str:
        return DIFFERENCE_IN_WORDS

    @override
    def begin(self) -> Exact:
        return _Forest(self)

    @override
    def number_of(self, cells: Cells, name: Any = None) -> Estimate:
        return cells.cell(0 if name is None else place_of_name(self, name), self.resolution)


class _Forest(Exact):
    """The exact forest: each node has one link, another node and a weight."""

    # For any weight, two nodes are connected by edges that are no heavier if and only if climbing
    # links that are no heavier ends at one node. A new edge links the ends of both climbs. The link
    # that it replaces is entered anew from there; the edge that remains in the end is the edge that
    # the forest loses. Nodes link to nodes of higher priority, mixed from their number, so that
    # climbs are short.

    def __init__(self, statistic: Forest) -> None:
        self._statistic = statistic
        self._nodes = NodeNumbers()
        #: Weight of each pair at first sight.
        self._seen: dict[int, int] = {}
        self._link: list[int] = []
        self._weight: list[float] = []
        self._undone: tuple[int, list[int]] | None = None

    def _grow(self) -> None:
        new = range(len(self._link), len(self._nodes))
        self._link += new
        self._weight += [math.inf] * len(new)

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        statistic = self._statistic
        before = len(self._nodes)
        self._undone = None
        entered: list[int] = []
        weights: list[int] = []  # in units of the resolution
        try:
            edges = self._nodes.read(events, "its weight")
            for (weight,) in edges.rest:
                number = weight.item() if isinstance(weight, np.generic) else weight
                if type(number) is int and statistic.resolution == 1:
                    units = number
                else:
                    units = round(exact(number, "weight") / statistic.resolution)
                if not 1 <= units <= statistic.units:
                    raise InvalidInputError(
                        f"the weight of an edge is {quote(number)}; it must be above 0, at most "
                        f"{param('largest', text(statistic.largest))}, and a multiple of "
                        f"{text(statistic.resolution)}: correct it, or start another stream with "
                        "other bounds"
                    )
                weights.append(units)
        except BaseException:
            self._nodes.forget(before)
            raise
        self._grow()
        changes = np.zeros(len(stops), np.int64)
        steps = np.searchsorted(stops, edges.event_indexes, side="right").tolist()
        for key, units, step in zip(keys_of(edges.ends).tolist(), weights, steps, strict=True):
            if key not in self._seen:
                entered.append(key)
                changes[step] += self._enter(key, units)
        self._undone = before, entered
        return changes

    def _enter(self, key: int, weight: int) -> int:
        """Add an edge; return by how much the weight of the forest grows."""
        self._seen[key] = weight
        links = self._link
        weights = self._weight
        node = key >> 32
        other = key & (2**32 - 1)
        lost = float(weight)
        while node != other:
            while weights[node] <= lost:
                node = links[node]
            while weights[other] <= lost:
                other = links[other]
            if node == other:
                break
            if _priority(node) > _priority(other):
                node, other = other, node
            links[node], other = other, links[node]
            weights[node], lost = lost, weights[node]
        return weight if math.isinf(lost) else weight - int(lost)

    @override
    def undo(self) -> None:
        if self._undone is None:
            return
        nodes, entered = self._undone
        self._nodes.forget(nodes)
        self._undone = None
        if not entered:
            return
        for key in entered:
            del self._seen[key]
        # rebuilt from the pairs that remain
        self._link = []
        self._weight = []
        self._grow()
        for key, weight in self._seen.items():
            self._enter(key, weight)

    @override
    def save(self) -> bytes:
        return pack_edges(0, list(self._nodes.numbers), [[*self._seen], [*self._seen.values()]])

    @override
    def load(self, saved: bytes) -> None:
        _, nodes, edges = unpack_edges(saved, 2)
        self._nodes.number(nodes)
        self._grow()
        for key, weight in edges.T.tolist():
            self._enter(key, weight)


def _priority(node: int) -> tuple[int, int]:
    return node * 0x9E3779B97F4A7C15 % 2**64, node


def _number(value: Fraction) -> int | str:
    return int(value) if value.denominator == 1 else text(value)

"""A graph with noise on every weight, from which the weight between two sets of nodes follows."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError, param
from counton.base.exact import Number, check_integer, exact, has_parts, quote, quote_name
from counton.base.systematic_error import SystematicError
from counton.continual.comparisons import Answer, answer
from counton.continual.formulas import ClosedForm
from counton.privacy import ContributionBound
from counton.privacy.contribution import Relation, check_relation
from counton.statistics.clipping import clipped_in_words
from counton.statistics.graphs.graph_statistic import (
    NodeNumbers,
    checked_label,
    pack_edges,
    unpack_edges,
)
from counton.statistics.live_statistic import OnDemandResult
from counton.statistics.results import StatisticResult
from counton.statistics.statistic import Events, Exact, NamedCells

_UNIT = "sighting of an edge"
_MOST_NODES = 2**16
#: Largest number of pairs of nodes in a cut.
_MOST_PAIRS = 2**24


class CutsResult(OnDemandResult):
    """A graph with noisy weights after a step: ``result["ann", "bob"]`` is that of one edge."""

    statistic: Cuts

    def cut(
        self,
        nodes: Collection[object],
        other: Collection[object] | None = None,
        confidence_level: float = 0.95,
    ) -> Answer:
        """Return the released weight of all edges between two sets of nodes, with an interval.

        ``other`` is None for all nodes not in ``nodes``. The ``confidence_level`` holds for each
        cut alone.

        Raises:
            InvalidInputError: sets with a common node, empty sets, or unknown nodes; or a level
                outside (0, 1 - 1e-9].
        """
        cells = self.statistic.pairs(nodes, other)
        design = self._machine.design
        values = self._machine.values(cells, self.step)
        # Python's integers do not wrap if many pairs have weights near the end of their range.
        value = sum(values.tolist()) if values.dtype.kind == "i" else values.sum().item()

        def half(confidence_level: float) -> float:
            wide = float(
                design.errors.window_halfwidths(0, self.step, confidence_level, cells=len(cells))
            )
            return math.ceil(wide) if isinstance(value, int) else wide

        weight = ClosedForm.symmetric(value, half, math.sqrt(len(cells)) * self.std())
        return answer(weight, confidence_level, what="weight of a cut")


class Cuts(NamedCells):
    """A noisy weight for every pair of nodes, from which any cut follows; edge-level privacy.

    The cut of two disjoint sets of nodes S and P is the weight of all edges between them. Its
    estimate is the sum of |S| |P| released weights. The standard deviation of its noise is exactly
    sqrt(|S| |P|) times the standard deviation for one pair. Noise is computed only for the
    requested pairs.

    An event is an edge ``(u, v)``, which adds 1 to its weight, or `None`; with ``resolution`` ``(u,
    v, weight)``, clipped to [lower, upper] and rounded. Nodes are public, edges have no direction.

    The protected unit is one sighting of an edge: the privacy losses of k sightings add up.

    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", Corollary 1 and Remark 2.
    Erratum: its bound for all cuts at once fails for small cuts, and is not used here.

    Args:
        nodes: texts or integers; or their number, with names 0, 1, 2, ...
        lower, upper: bounds of weights; only with ``resolution``.
        resolution: of weights; None: every edge weighs 1.
        neighbours: "add_remove" or "replace" for one sighting.

    Raises:
        InvalidInputError: fewer than 2 nodes, more than 65536, a node twice, or wrong bounds.

    >>> from counton import ZCDP, Key, RunningStatistic
    >>> from counton.statistics import Cuts
    >>> cuts = Cuts(["ann", "bob", "cy", "dee"])
    >>> counter = RunningStatistic.start(cuts, 100, ZCDP(1), key=Key.generate(), name="calls")
    >>> result = counter.release_many([("ann", "bob"), ("bob", "cy"), ("ann", "bob")])[-1]
    >>> one, cut = result.std(), result.cut(["ann"], ["bob", "cy", "dee"])
    >>> round(cut.std / one, 6) == round(3**0.5, 6), cut.lower <= cut.value <= cut.upper
    (True, True)
    """

    # A sighting moves one cell in one step: squared 2-norm D_2^2 (and 1-norm D_1) for weights in
    # [0, 1]; if it is replaced by another, 2 D_2^2 (2 D_1), and with weights in [-1, 1] 4 D_2^2.

    result_type: Callable[..., StatisticResult] | None = CutsResult
    phrase = "weight of the cuts of a growing graph"
    sources = ("constants",)
    on_demand = True
    event = "edge"

    def __init__(
        self,
        nodes: int | np.integer[Any] | Sequence[object] | NDArray[Any],
        *,
        lower: Number = 0,
        upper: Number = 1,
        resolution: Number | None = None,
        neighbours: Relation = "add_remove",
    ) -> None:
        self.nodes: int | list[object]
        if isinstance(nodes, (int, np.integer)):
            self.nodes = check_integer("nodes", nodes, 2, _MOST_NODES)
            named = NodeNumbers(range(self.nodes))
        else:
            self.nodes = _labels(nodes, "nodes are", "a list of nodes, in order, or their number")
            if isinstance(nodes, (Set, Mapping)):
                raise InvalidInputError(
                    f"nodes are {quote(nodes)}, of type {type(nodes).__name__}; give a list of "
                    f"nodes, in order"
                )
            if any("\0" in str(node) for node in self.nodes):
                raise InvalidInputError(
                    "a node has the character NUL in its name: remove this character"
                )
            named = NodeNumbers()
            named.number(self.nodes)
            if len(named) < len(self.nodes):
                twice = next(node for node, often in Counter(self.nodes).items() if often > 1)
                raise InvalidInputError(f"nodes contain {quote(twice)} twice: list each node once")
        if not 2 <= len(named) <= _MOST_NODES:
            raise InvalidInputError(
                f"there are {len(named)} nodes, but cuts are released only for graphs of 2 to "
                f"{_MOST_NODES:,} nodes: give fewer or more"
            )
        self.domain = self.nodes
        self._named = named
        self._labels = list(named.numbers)
        check_relation("neighbours", neighbours)
        self.neighbours = neighbours
        if resolution is not None:
            self.bounds = ContributionBound.values(lower, upper, resolution, neighbours, unit=_UNIT)
        elif exact(lower, "lower") != 0 or exact(upper, "upper") != 1:
            raise InvalidInputError(
                f"{param('lower')} is {quote(lower)} and {param('upper')} is {quote(upper)}, but "
                f"every edge weighs 1: give {param('resolution')} too (the finest difference of "
                "weights), or leave the bounds out"
            )
        elif neighbours == "replace":
            self.bounds = ContributionBound.replace(unit=_UNIT)
        else:
            self.bounds = ContributionBound.add_remove(unit=_UNIT)
        self.weighted = resolution is not None

    @property
    @override
    def parameters(self) -> dict[str, Any]:
        from counton.base.exact import text

        parameters: dict[str, object] = {"nodes": self.nodes}
        if self.bounds.value_bounds is not None:
            names = ("lower", "upper", "resolution")
            parameters |= zip(names, map(text, self.bounds.value_bounds), strict=True)
        if self.neighbours != "add_remove":
            parameters["neighbours"] = self.neighbours
        return parameters

    def __repr__(self) -> str:
        if isinstance(self.nodes, int) or len(self.nodes) <= 8:
            return super().__repr__()
        return f"Cuts({len(self.nodes)} nodes, bounds={self.bounds})"

    @property
    @override
    def cells(self) -> tuple[int, ...]:
        return (math.comb(len(self._labels), 2),)

    @override
    def contribution(self, *, batched: bool = False) -> ContributionBound:
        return self.bounds

    @override
    def systematic_errors(self) -> Sequence[SystematicError]:
        if not self.weighted:
            return ()
        assert self.bounds.value_bounds is not None
        lower, upper, _ = self.bounds.value_bounds
        return (clipped_in_words(lower, upper, "a cut", "weights"),)

    @override
    def begin(self) -> Exact:
        return _Weights(self)

    def number(self, node: object) -> int:
        """Return the index of a node among all nodes.

        Args:
            node: label of the node.

        Raises:
            InvalidInputError: no node has this label.
        """
        number = self._named.numbers.get(checked_label(node))
        if number is None:
            raise InvalidInputError(
                f"node {quote(node)} is not among the {len(self._labels)} nodes: give the name of "
                "one of them"
            )
        return number

    @override
    def cell(self, name: Any) -> int:
        if not has_parts(name, 2):
            raise InvalidInputError(f"cell is {quote_name(name)}; give a pair of two nodes")
        end, other = (self.number(node) for node in name)
        if end == other:
            raise InvalidInputError(
                f"cell is {quote_name(name)}; give a pair of two different nodes"
            )
        return int(self.cells_of(np.array([end]), np.array([other]))[0])

    def cells_of(self, nodes: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the cell of each pair of nodes, by the smaller index, then by the larger.

        Args:
            nodes: indices of the first node of each pair.
            other: indices of the second, of the same shape; never equal to the first.

        Returns:
            int64, of the same shape.
        """
        low = np.minimum(nodes, other)
        high = np.maximum(nodes, other)
        count = len(self._labels)
        return np.asarray(low * (2 * count - low - 1) // 2 + high - low - 1)

    @override
    def name_of(self, cell: int) -> str:
        count = len(self._labels)
        # Pairs whose smaller index is k begin at cell k (2 count - 1 - k) / 2. So low is the
        # largest k for which 2 count - 1 - 2 k is no smaller than the root, which is rounded up.
        root = 1 + math.isqrt((2 * count - 1) ** 2 - 8 * cell - 1)
        low = (2 * count - 1 - root) // 2
        high = cell - low * (2 * count - low - 1) // 2 + low + 1
        return f"{self._labels[low]} {self._labels[high]}"

    def pairs(
        self, nodes: Collection[object], other: Collection[object] | None
    ) -> NDArray[np.int64]:
        """Return the ascending cells of all pairs with one node in each set.

        Args:
            nodes: labels of the nodes on one side of the cut.
            other: labels of the nodes on the other side; None: all nodes that are not in ``nodes``.

        Raises:
            InvalidInputError: no set of nodes, an empty set, a node in both sets or twice, or too
                many pairs.
        """
        first = [self.number(node) for node in _labels(nodes, "one is", _A_SET)]
        if other is None:
            second = sorted(set(range(len(self._labels))) - set(first))
        else:
            second = [self.number(node) for node in _labels(other, "other is", _A_SET)]
        every = first + second
        if not first or not second or len(set(every)) < len(every):
            raise InvalidInputError(
                "a cut needs two sets of nodes: give at least one node in each, and no node twice"
            )
        if len(first) * len(second) > _MOST_PAIRS:
            raise InvalidInputError(
                f"a cut of {len(first)} and {len(second)} nodes has more than 2^24 pairs: ask for "
                f"smaller sets"
            )
        ends = np.meshgrid(np.array(first), np.array(second))
        return np.sort(self.cells_of(*(end.ravel() for end in ends)))


class _Weights(Exact):
    """For each pair of nodes, the steps in which an edge was seen, and its weight after each."""

    largest = 0

    def __init__(self, statistic: Cuts) -> None:
        self._statistic = statistic
        self._step = 0
        self._seen: dict[int, tuple[list[int], list[int]]] = {}
        self._before: tuple[int, int, list[int]] | None = None

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        statistic = self._statistic
        nodes = NodeNumbers()
        self._before = None
        edges = nodes.read(events, "its weight" if statistic.weighted else None)
        places = np.array([statistic.number(label) for label in nodes.numbers], np.int64)
        cells = statistic.cells_of(*places[edges.ends].T) if len(places) else np.empty(0, np.int64)
        if statistic.weighted:
            listed = [weight for (weight,) in edges.rest]
            weights = statistic.bounds.to_grid(np.array(listed, object) if listed else []).tolist()
        else:
            weights = [1] * len(cells)
        steps = self._step + 1 + np.searchsorted(stops, edges.event_indexes, side="right")
        before = self._step, self.largest, cells.tolist()
        for cell, step, weight in zip(cells.tolist(), steps.tolist(), weights, strict=True):
            self._enter(cell, step, weight)
        self._before = before
        self._step += len(stops)
        return np.zeros((len(stops), 0), np.int64)

    def _enter(self, cell: int, step: int, weight: int) -> None:
        steps, sums = self._seen.setdefault(cell, ([], [0]))
        steps.append(step)
        sums.append(sums[-1] + weight)
        self.largest = max(self.largest, abs(sums[-1]))

    @override
    def undo(self) -> None:
        if self._before is None:
            return
        self._step, self.largest, cells = self._before
        for cell in cells:
            steps, sums = self._seen[cell]
            steps.pop()
            sums.pop()
            if not steps:
                del self._seen[cell]
        self._before = None

    @override
    def counts(self, cells: NDArray[np.int64], step: int) -> NDArray[np.int64]:
        counts = np.zeros(len(cells), np.int64)
        for place, cell in enumerate(cells.tolist()):
            seen = self._seen.get(cell)
            if seen is not None:
                counts[place] = seen[1][bisect_right(seen[0], step)]
        return counts

    @override
    def save(self) -> bytes:
        rows = [
            (cell, step, sums[place + 1] - sums[place])
            for cell, (steps, sums) in sorted(self._seen.items())
            for place, step in enumerate(steps)
        ]
        return pack_edges(self._step, [], np.array(rows, np.int64).reshape(-1, 3).T)

    @override
    def load(self, saved: bytes) -> None:
        self._step, _, rows = unpack_edges(saved, 3)
        for cell, step, weight in rows.T.tolist():
            self._enter(cell, step, weight)


#: Words for a valid side of a cut.
_A_SET = "a list or set of nodes, also of a single one"


def _labels(nodes: Any, subject: str, instead: str) -> list[object]:
    try:
        if isinstance(nodes, (str, bytes, bytearray)):
            raise TypeError
        listed = list(nodes)
    except TypeError:
        raise InvalidInputError(
            f"{subject} {quote(nodes)}, of type {type(nodes).__name__}; give {instead}"
        ) from None
    return [checked_label(label) for label in listed]

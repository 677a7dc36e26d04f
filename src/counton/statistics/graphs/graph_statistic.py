"""Base class of statistics of a growing graph, with its exact edges and their bounds."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError, StateError, param
from counton.base.exact import check_integer, has_parts, quote
from counton.base.systematic_error import SystematicError
from counton.statistics.clipping import beyond_in_words
from counton.statistics.statistic import Events, Exact, Statistic

#: The word for the protected unit, and how neighbouring streams differ.
UNIT = "edge"
DIFFERENCE_IN_WORDS = (
    "in all sightings of one edge; all others stay in their steps, and a step left without one is "
    "empty"
)
#: Treatment of an edge that exceeds the bound on degrees.
Beyond = Literal["refuse", "drop"]

#: Largest bound on the number of edges of a node.
LARGEST_DEGREE = 2**20
#: New events are counted as arrays if there are at least this many, and at least one for every
#: `_EDGES_PER_ARRAY_EVENT` edges.
_FEWEST_ARRAY_EVENTS = 1024
_EDGES_PER_ARRAY_EVENT = 8
#: Mask of the second node in the key of an edge.
_LOW_32_BITS = 2**32 - 1
_LABELS = {str, int}


class GraphStatistic(Statistic):
    """Base class of statistics of a simple graph whose edges arrive one after another.

    An event is an edge ``(u, v)`` without direction between two nodes, texts or integers, which
    need not be declared; ``None`` is a step without an edge. Further sightings change nothing.

    The protected unit is one edge: a pair of nodes, with all its sightings. Neighbouring datasets
    differ in all sightings of one pair; all others stay in their steps. So a step must not
    depend on whether an edge comes: let steps be windows of time, and use ``batched=True``. Neither
    the number of steps nor all edges of one node together are protected.

    Attributes:
        degree: largest number of edges of a node; None if the sensitivity does not depend on it.
        beyond: "refuse" or "drop" edges beyond it.
    """

    event = "edge"

    def __init__(self, degree: int | None = None, beyond: Beyond = "refuse") -> None:
        if degree is not None:
            degree = check_integer(
                "degree", degree, 1, LARGEST_DEGREE, "the most edges of one node"
            )
        if beyond not in ("refuse", "drop"):
            raise InvalidInputError(
                f"{param('beyond')} is {quote(beyond)}; give 'refuse' or 'drop'"
            )
        self.degree = degree
        self.beyond = beyond

    @override
    def systematic_errors(self) -> Sequence[SystematicError]:
        if self.beyond != "drop":
            return ()
        return [beyond_in_words(f"edges beyond {self.degree:,} of one node", low=False)]

    @override
    def neighbours_differ(self) -> str:
        return DIFFERENCE_IN_WORDS

    @override
    def begin(self) -> Exact:
        return Graph(self)

    @abstractmethod
    def edge_changes(self, near: list[set[int]], end: int, other: int) -> Iterable[tuple[int, int]]:
        """Return pairs of a cell and an amount; ``near``: each node's present neighbours."""

    @abstractmethod
    def step_changes(
        self, edges: NDArray[np.int64], old: int, steps: NDArray[np.int64], count: int
    ) -> NDArray[np.int64]:
        """Return the changes by step, ``(count, *cells)``; the first ``old`` edges are not new."""

    def counts_without_edges(self, nodes: int) -> Iterable[tuple[int, int]]:
        """Return the cells, and their values, that are not 0 in a graph of nodes without edges."""
        return ()


class EdgeRows(NamedTuple):
    """Checked events: numbers of the two nodes, ``(edges, 2)``, indexes of the edges among the
    events, and the values after the nodes.
    """

    ends: NDArray[np.int64]
    event_indexes: NDArray[np.int64]
    rest: list[Any]


class NodeNumbers:
    """Numbers 0, 1, ... of labels, in the order in which nodes were first seen."""

    def __init__(self, labels: Iterable[Any] = ()) -> None:
        self.numbers = {label: number for number, label in enumerate(labels)}

    def __len__(self) -> int:
        return len(self.numbers)

    def forget(self, count: int) -> None:
        """Remove all nodes but the first ``count``."""
        while len(self.numbers) > count:
            self.numbers.popitem()

    def label(self, number: int) -> Any:
        """Return the label of a node, in time proportional to its number."""
        return list(self.numbers)[number]

    def read(self, events: Events, more: str | None = None) -> EdgeRows:
        """Check events, and return their nodes' numbers; ``more``: the word for an edge's further
        value.

        Raises:
            InvalidInputError: an event is no edge. Earlier nodes may have been given numbers.
        """
        if isinstance(events, np.ndarray) and events.dtype.kind in "iuU" and more is None:
            if events.ndim != 2 or events.shape[1] != 2:
                raise InvalidInputError(
                    f"edges have shape {events.shape}; give pairs of nodes, a row for each edge"
                )
            values, first, inverse = np.unique(events, return_index=True, return_inverse=True)
            order = np.argsort(first)
            numbers = np.empty(len(values), np.int64)
            numbers[order] = self.number(values[order].tolist())
            edges = EdgeRows(numbers[inverse].reshape(-1, 2), np.arange(len(events)), [])
        else:
            listed = events.tolist() if isinstance(events, np.ndarray) else events
            places = [place for place, event in enumerate(listed) if event is not None]
            present_events: list[Any] = [event for event in listed if event is not None]
            for event in present_events:
                if not has_parts(event, 2 if more is None else 3):
                    third = "" if more is None else f" and {more}"
                    raise InvalidInputError(
                        f"an event is {quote(event)}; give edges: the two nodes of each{third}"
                    )
            nodes = present_events if more is None else [event[:2] for event in present_events]
            edges = EdgeRows(
                self.number(list(chain.from_iterable(nodes))).reshape(-1, 2),
                np.array(places, np.int64),
                [event[2:] for event in present_events if more],
            )
        loops = edges.ends[:, 0] == edges.ends[:, 1]
        if loops.any():
            label = self.label(int(edges.ends[np.argmax(loops), 0]))
            raise InvalidInputError(
                f"an edge joins node {quote(label)} with itself, but it must join two different "
                "nodes: leave it out"
            )
        return edges

    def number(self, labels: list[Any]) -> NDArray[np.int64]:
        if not set(map(type, labels)) <= _LABELS:
            labels = [checked_label(label) for label in labels]
        numbers = self.numbers
        for label in dict.fromkeys(labels):
            if label not in numbers:
                numbers[checked_label(label)] = len(numbers)
        if len(numbers) > 2**31:
            raise InvalidInputError(
                "a graph has at most 2^31 nodes, and there are more: start another stream"
            )
        return np.fromiter(map(numbers.__getitem__, labels), np.int64, len(labels))


def checked_label(label: Any) -> Any:
    """Return the label of a node as a str or an int."""
    value = label.item() if isinstance(label, np.generic) else label
    if type(value) not in _LABELS or (type(value) is int and not -(2**63) <= value < 2**63):
        raise InvalidInputError(
            f"a node is {quote(value)}; it must be a text, or an integer from -2^63 to 2^63 - 1"
        )
    return value


def keys_of(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each pair, regardless of order; shape ``(edges,)``."""
    return np.asarray((ends.min(axis=1) << 32) | ends.max(axis=1))


def ends_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs of `keys_of`; shape ``(edges, 2)``."""
    return np.stack([keys >> 32, keys & _LOW_32_BITS], axis=1)


def ranks_of(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of earlier edges of each edge's nodes; shape ``(edges, 2)``.

    >>> ranks_of(np.array([[0, 1], [1, 2], [0, 1]])).tolist()
    [[0, 0], [1, 0], [1, 2]]
    """
    flat = ends.ravel()
    order = np.argsort(flat, kind="stable")
    nodes = flat[order]
    ranks = np.empty(len(flat), np.int64)
    ranks[order] = np.arange(len(flat)) - np.searchsorted(nodes, nodes)
    return ranks.reshape(-1, 2)


class _Index:
    """The present neighbours of each node, and the number of all its edges so far."""

    def __init__(self, pairs: Iterable[int], nodes: int, most: int | None) -> None:
        self.seen = [0] * nodes
        self.near: list[set[int]] = [set() for _ in range(nodes)]
        for key in pairs:
            node = key >> 32
            other = key & _LOW_32_BITS
            if most is None or max(self.seen[node], self.seen[other]) < most:
                self.put(node, other)
            self.seen[node] += 1
            self.seen[other] += 1

    def put(self, node: int, other: int) -> None:
        self.near[node].add(other)
        self.near[other].add(node)

    def grow(self, nodes: int) -> None:
        new = range(len(self.seen), nodes)
        self.seen += [0] * len(new)
        self.near += (set() for _ in new)


class Graph(Exact):
    """The edges seen so far.

    If edges are dropped, one is kept only if each of its nodes had fewer than ``degree`` edges
    before it; dropped edges count among these.
    """

    def __init__(self, statistic: GraphStatistic) -> None:
        self._statistic = statistic
        self._nodes = NodeNumbers()
        self._step = 0
        #: All pairs in order of first sight; ``_pairs`` has them if edges are counted one by one.
        self._keys = np.empty(0, np.int64)
        self._pairs: dict[int, None] | None = None
        self._index: _Index | None = None
        self._before: tuple[int, int, Any] | None = None

    @override
    def take(self, events: Events, stops: NDArray[np.int64]) -> NDArray[np.int64]:
        before = self._step, len(self._nodes)
        cells = self._statistic.cells
        self._before = None
        try:
            edges = self._nodes.read(events)
            first = list(self._statistic.counts_without_edges(len(self._nodes)))
            is_large = len(edges.ends) >= max(
                _FEWEST_ARRAY_EVENTS, self._size // _EDGES_PER_ARRAY_EVENT
            )
            steps = np.searchsorted(stops, edges.event_indexes, side="right")
            if is_large:
                changes, undone = self._take_many(edges, steps, len(stops))
            else:
                changes, undone = self._take_few(edges, steps.tolist(), len(stops))
        except BaseException:
            self._nodes.forget(before[1])
            raise
        if not self._step and len(stops):
            for cell, change in first:
                changes.reshape(len(stops), -1)[0, cell] += change
        self._step += len(stops)
        self._before = (*before, undone)
        return changes.reshape(len(stops), *cells)

    @property
    def _size(self) -> int:
        return len(self._keys if self._pairs is None else self._pairs)

    def _all_keys(self) -> NDArray[np.int64]:
        return self._keys if self._pairs is None else np.fromiter(self._pairs, np.int64, self._size)

    def _refuse(self, ends: Sequence[int], node: int) -> None:
        edge = tuple(self._nodes.label(end) for end in ends)
        degree = self._statistic.degree
        raise InvalidInputError(
            f"edge ({', '.join(map(quote, edge))}) would give node "
            f"{quote(self._nodes.label(node))} more than {degree} edges ({param('degree')}): start "
            "another stream with a larger degree, "
            f"or with {param('beyond', 'drop')}, which leaves such edges out"
        )

    def _take_many(
        self, new_edges: EdgeRows, steps: NDArray[np.int64], count: int
    ) -> tuple[NDArray[np.int64], Any]:
        """Count many new edges that only come; return changes by step, and what `undo` needs."""
        statistic = self._statistic
        old = self._all_keys()
        keys = keys_of(new_edges.ends)
        every = np.concatenate([old, keys]) if len(old) else keys
        new = np.sort(np.unique(every, return_index=True)[1])[len(old) :]
        every = every[np.concatenate([np.arange(len(old)), new])]
        steps = steps[new - len(old)]
        edges = ends_of(every)
        n_old = len(old)
        if statistic.degree is not None:
            ranks = ranks_of(edges)
            kept = ranks.max(axis=1) < statistic.degree
            if statistic.beyond == "refuse" and not kept.all():
                place = int(np.argmin(kept))
                worse = int(ranks[place].argmax())
                self._refuse(edges[place].tolist(), int(edges[place, worse]))
            edges = edges[kept]
            steps = steps[kept[n_old:]]
            n_old = int(kept[:n_old].sum())
        changes = statistic.step_changes(edges, n_old, steps, count)
        self._keys = every
        self._pairs = None
        self._index = None
        return changes, len(old)

    def _take_few(
        self, new_edges: EdgeRows, steps: list[int], count: int
    ) -> tuple[NDArray[np.int64], list[int]]:
        """Count edges one by one; return changes by step, and the changed keys."""
        statistic = self._statistic
        if self._pairs is None:
            self._pairs = dict.fromkeys(self._keys.tolist())
        if self._index is None:
            self._index = _Index(self._pairs, len(self._nodes), statistic.degree)
        self._index.grow(len(self._nodes))
        changes = np.zeros((count, int(np.prod(statistic.cells, dtype=np.int64))), np.int64)
        done: list[int] = []
        try:
            for key, step in zip(keys_of(new_edges.ends).tolist(), steps, strict=True):
                if key not in self._pairs:
                    self._count_pair(self._index, key, changes[step])
                    self._pairs[key] = None
                    done.append(key)
        except BaseException:
            self._take_back(done)
            raise
        return changes, done

    def _count_pair(self, index: _Index, key: int, changes: NDArray[np.int64]) -> None:
        statistic = self._statistic
        node = key >> 32
        other = key & _LOW_32_BITS
        kept = True
        if statistic.degree is not None:
            worse = max(node, other, key=index.seen.__getitem__)
            kept = index.seen[worse] < statistic.degree
            if not kept and statistic.beyond == "refuse":
                self._refuse((node, other), worse)
        index.seen[node] += 1
        index.seen[other] += 1
        if kept:
            for cell, change in statistic.edge_changes(index.near, node, other):
                changes[cell] += change
            index.put(node, other)

    def _take_back(self, done: list[int]) -> None:
        """Remove the last pairs; neighbours are rebuilt when next used."""
        assert self._pairs is not None
        for key in done:
            del self._pairs[key]
        self._index = None

    @override
    def undo(self) -> None:
        if self._before is None:
            return
        self._step, nodes, undone = self._before
        if isinstance(undone, int):
            self._keys = self._all_keys()[:undone]
            self._pairs = None
            self._index = None
        else:
            self._take_back(undone)
        self._nodes.forget(nodes)
        self._before = None

    @override
    def save(self) -> bytes:
        keys = self._all_keys()
        return pack_edges(self._step, list(self._nodes.numbers), [keys, [1] * len(keys)])

    @override
    def load(self, saved: bytes) -> None:
        self._step, nodes, (self._keys, _) = unpack_edges(saved, 2)
        self._nodes.number(nodes)


def pack_edges(step: int, nodes: list[Any], rows: Any) -> bytes:
    """Convert a step, labels of nodes, and integers of shape ``(rows, edges)`` to bytes."""
    head = json.dumps({"step": step, "nodes": nodes}).encode()
    return head + b"\n" + np.array(rows, "<i8").tobytes()


def unpack_edges(saved: bytes, rows: int) -> tuple[int, list[Any], NDArray[np.int64]]:
    """Return what `pack_edges` saved.

    Raises:
        StateError: the bytes are no graph.
    """
    try:
        head, body = saved.split(b"\n", 1)
        edges = json.loads(head)
        table = np.frombuffer(body, "<i8").reshape(rows, -1).astype(np.int64)
        return int(edges["step"]), list(edges["nodes"]), table
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"saved edges cannot be read ({error}): restore them from a copy"
        ) from error

"""How a tree is made from a table of leaves, or from each node's parent; and what is no tree."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Integers
from counton.columns import codes_of, columns_of, refuse_added
from counton.errors import InvalidInput

#: Names of the levels below the total; for each of them, every node's parent and own label.
Nodes = tuple[list[str], list[Integers], list[NDArray[Any]]]

#: Name of the level above all others: one node, which holds everything.
TOTAL = "total"


def nodes_from_leaves(domain: Any, levels: Sequence[str]) -> Nodes:
    """The nodes of `Tree.from_leaves`.

    Rows that name an inner node say nothing new; a leaf must be listed once.
    """
    columns = columns_of(domain, levels, "domain", called="levels")
    if TOTAL in levels:
        raise InvalidInput(
            f"a level is called {TOTAL!r}, the name of the one node above all: rename the column"
        )
    refuse_added(levels)
    rows = len(columns[0])
    if not rows:
        raise InvalidInput("the domain has no rows; it must list at least one leaf")
    present = np.ones(rows, dtype=bool)
    node_of = np.zeros(rows, np.int64)  # the deepest node that a row has named so far
    parents: list[Integers] = []
    labels: list[NDArray[Any]] = []
    for level, column in zip(levels, columns, strict=True):
        codes, values = codes_of(column)
        here = codes >= 0
        gap = here & ~present
        if gap.any():
            raise InvalidInput(
                f"row {int(np.argmax(gap)) + 1:,} of the domain names a {level} below a missing "
                f"level: fill the gap or leave all deeper levels empty"
            )
        _refuse_double_leaves(node_of, present & ~here, here, level, first=not parents)
        count = max(len(values), 1)
        unique, inverse = np.unique(node_of[here] * count + codes[here], return_inverse=True)
        if not len(unique):
            raise InvalidInput(
                f"level {level!r} of the domain is empty; every level must have at least one node: "
                f"leave the level out"
            )
        parents.append(unique // count)
        labels.append(values[unique % count])
        node_of = node_of.copy()
        node_of[here] = inverse
        present = here
    _refuse_double_leaves(node_of, present, np.zeros(rows, dtype=bool), "", first=False)
    return list(levels), parents, labels


def _refuse_double_leaves(
    node_of: Integers,
    ending: NDArray[np.bool_],
    going_on: NDArray[np.bool_],
    level: str,
    *,
    first: bool,
) -> None:
    """Among rows that end in a node, and name no child of it, there may be one only."""
    if not ending.any():
        return
    if first:
        raise InvalidInput(
            f"row {int(np.argmax(ending)) + 1:,} of the domain has no {level}; every row must name "
            f"at least the coarsest level"
        )
    size = int(node_of.max()) + 1
    ends = np.bincount(node_of[ending], minlength=size)
    inner = np.bincount(node_of[going_on], minlength=size) > 0
    double = (ends > 1) & ~inner
    if double.any():
        row = int(np.flatnonzero(ending & double[node_of])[1])
        raise InvalidInput(
            f"row {row + 1:,} of the domain repeats a leaf: every leaf must be listed once"
        )


def nodes_from_parents(
    parents: Mapping[Hashable, Hashable] | Sequence[tuple[Hashable, Hashable]],
) -> Nodes:
    """The nodes of `Tree.from_parents`."""
    pairs = list(parents.items()) if isinstance(parents, Mapping) else list(parents)
    above = _one_parent_each(pairs)
    below: dict[Hashable, list[Hashable]] = {}
    for node, parent in above.items():
        if parent is not None:
            below.setdefault(parent, []).append(node)
    nodes = set(above) | set(below)
    if not nodes:
        raise InvalidInput("the tree has no nodes; it must have at least one")
    tops = [node for node in dict.fromkeys([*below, *above]) if above.get(node) is None]
    current = below.get(tops[0], []) if len(tops) == 1 else tops
    reached = {*tops, *current}
    found: list[Integers] = []
    labels: list[NDArray[Any]] = []
    place = np.zeros(len(current), np.int64)
    while current:
        found.append(place)
        labels.append(_objects(current))
        families = [below.get(node, []) for node in current]
        place = np.repeat(np.arange(len(current)), [len(family) for family in families])
        current = [node for family in families for node in family]
        reached.update(current)
    if len(reached) < len(nodes):
        lost = min(map(str, nodes - reached))
        raise InvalidInput(f"node {lost!r} is its own ancestor: break the cycle")
    return [f"level {number}" for number in range(1, len(labels) + 1)], found, labels


def _one_parent_each(pairs: list[tuple[Hashable, Hashable]]) -> dict[Hashable, Hashable]:
    above: dict[Hashable, Hashable] = {}
    for node, parent in pairs:
        if node in above and above[node] != parent:
            raise InvalidInput(
                f"node {node!r} has two parents, {above[node]!r} and {parent!r}; a tree gives "
                f"every node one: drop one of them"
            )
        above[node] = parent
    return above


def _objects(values: Sequence[Hashable]) -> NDArray[Any]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array

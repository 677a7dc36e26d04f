"""The public tree of a hierarchy, such as states and counties, known before any data."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.arrays import (
    Column,
    Integers,
    integers_from_text,
    integers_to_text,
)
from counton.base.errors import InvalidInputError
from counton.base.exact import in_parts
from counton.base.table_schema import refuse_reserved
from counton.tables.label_columns import codes_of, columns_of, labels_bytes

Path = tuple[Hashable, ...]

#: Name of the top level, whose only node is the root.
TOTAL = "total"


class Tree:
    """A rooted tree of named nodes, level by level; children of a node have consecutive indices.

    `Tree.from_leaves` builds it. A node is identified by its path from the
    root, the root by ``()``.

    Attributes:
        levels: names of the levels, "total" first.
        parents: for each level below "total", the index of every node's parent one level up,
            ascending: int64, shape (nodes,).
        labels: for each level below "total", the last part of every node's path: shape (nodes,).
    """

    def __init__(
        self,
        levels: Sequence[str],
        parents: Sequence[Integers],
        labels: Sequence[Column],
        order: Sequence[Integers] | None = None,
    ) -> None:
        self.levels = (TOTAL, *levels)
        self.parents = tuple(parents)
        self.labels = tuple(labels)
        #: For each level, the indices of its nodes in the order in which they were first declared;
        #: tables list them in this order.
        self.order = (
            np.zeros(1, np.int64),
            *([np.arange(len(part)) for part in labels] if order is None else order),
        )

    @classmethod
    def from_leaves(cls, domain: object, levels: Sequence[str]) -> Tree:
        """Return the tree whose leaves are the rows of a table.

        Args:
            domain: a data frame, or a mapping of columns. The deepest levels of a row may be
                missing (None or NaN): its leaf is on a higher level.
            levels: names of the columns, coarsest level first.

        A row that ends at a node with children in other rows is allowed, and adds nothing.

        Raises:
            InvalidInputError: no levels, no rows, missing columns, a row without the coarsest
                level, a gap within a path, or a leaf that is listed twice.

        >>> table = {"state": ["CA", "CA", "DC"], "county": ["Kings", "Napa", None]}
        >>> tree = Tree.from_leaves(table, ["state", "county"])
        >>> tree.sizes, [tree.path(2, node) for node in range(2)]
        ([1, 2, 2], [('CA', 'Kings'), ('CA', 'Napa')])
        """
        columns = columns_of(domain, levels)
        _check_names(levels)
        rows = len(columns[0])
        if not rows:
            raise InvalidInputError("the domain has no rows; it must list at least one leaf")
        present = np.ones(rows, dtype=bool)
        node_of = np.zeros(rows, np.int64)  # the deepest node named by a row so far
        parents: list[Integers] = []
        labels: list[Column] = []
        order: list[Integers] = []
        for level, column in zip(levels, columns, strict=True):
            codes, values = codes_of(column)
            here = codes >= 0
            gap = here & ~present
            if gap.any():
                raise InvalidInputError(
                    f"row {int(np.argmax(gap)) + 1:,} of the domain names a {level} below a level "
                    "that is empty: fill the gap, or leave all deeper levels empty"
                )
            _refuse_double_leaves(node_of, present & ~here, here, level, first=not parents)
            count = max(len(values), 1)
            unique, seen, inverse = np.unique(
                node_of[here] * count + codes[here], return_index=True, return_inverse=True
            )
            if not len(unique):
                raise InvalidInputError(
                    f"level {level!r} of the domain is empty; every level must have at least one "
                    "node: leave the level out"
                )
            parents.append(unique // count)
            labels.append(values[unique % count])
            order.append(np.argsort(seen, kind="stable"))
            node_of = node_of.copy()
            node_of[here] = inverse
            present = here
        _refuse_double_leaves(node_of, present, np.zeros(rows, dtype=bool), "", first=False)
        return cls(list(levels), parents, labels, order)

    @property
    def sizes(self) -> list[int]:
        """Number of nodes of each level; 1 for the level of the total."""
        return [1, *(len(parent) for parent in self.parents)]

    @cached_property
    def children(self) -> tuple[Integers, ...]:
        """For each level, the number of children of each node: shape (nodes,)."""
        sizes = self.sizes
        counted = [
            np.bincount(parent, minlength=size)
            for parent, size in zip(self.parents, sizes[:-1], strict=True)
        ]
        return (*counted, np.zeros(sizes[-1], np.int64))

    @cached_property
    def starts(self) -> tuple[Integers, ...]:
        """For each level, the index of each node's first child, one level down: shape (nodes,)."""
        return tuple(np.concatenate([[0], np.cumsum(count)[:-1]]) for count in self.children)

    def level(self, name: str) -> int:
        """Return the number of the level with this name; the total has number 0.

        Args:
            name: name of the level: a column of the domain, or that of the total.

        Raises:
            InvalidInputError: an unknown level.
        """
        if name not in self.levels:
            raise InvalidInputError(
                f"there is no level {name!r}; the levels are {', '.join(self.levels)}"
            )
        return self.levels.index(name)

    def path(self, level: int, node: int) -> Path:
        """Return the labels on the way from the root to a node; the root has the path ().

        Args:
            level: number of the node's level; 0 for the root.
            node: index of the node in its level, from 0.
        """
        parts: list[Hashable] = []
        for depth in range(level, 0, -1):
            parts.extend(self.labels[depth - 1][node : node + 1].tolist())
            node = int(self.parents[depth - 1][node])
        return tuple(reversed(parts))

    @cached_property
    def _places(self) -> dict[Path, tuple[int, int]]:
        addresses: dict[Path, tuple[int, int]] = {(): (0, 0)}
        above: list[Path] = [()]
        for depth, (parent, label) in enumerate(zip(self.parents, self.labels, strict=True), 1):
            above = [
                (*above[p], name) for p, name in zip(parent.tolist(), label.tolist(), strict=True)
            ]
            for node, path in enumerate(above):
                addresses[path] = depth, node
        return addresses

    def find(self, path: object) -> tuple[int, int]:
        """Return the level of the node at ``path``, and its index there.

        Args:
            path: labels from the coarsest level on, as a tuple or list; () for the root. A label
                outside a tuple or list is a path of length 1.

        Raises:
            InvalidInputError: an unknown node.
        """
        parts = in_parts(path)
        try:
            return self._places[parts]
        except (KeyError, TypeError):
            raise InvalidInputError(
                f"node {parts!r} is not in the domain; give its path from the coarsest level on, "
                f"such as {self.path(len(self.levels) - 1, 0)!r}"
            ) from None

    @cached_property
    def leaves(self) -> tuple[Integers, ...]:
        """For each level, the indices of the nodes without children, shape (leaves,).

        An array of the counts of all leaves is in this order: leaves of coarser levels first.
        """
        return tuple(np.flatnonzero(count == 0) for count in self.children)

    def to_dict(self) -> dict[str, Any] | None:
        """Return all nodes and their names as JSON values; None if names are not JSON values."""
        labels = [label.tolist() for label in self.labels]
        if not all(type(name) in (str, int, bool) for part in labels for name in part):
            return None
        parents = [integers_to_text(parent) for parent in self.parents]
        order = [integers_to_text(part) for part in self.order[1:]]
        return {
            "levels": list(self.levels[1:]),
            "parents": parents,
            "labels": labels,
            "order": order,
        }

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Tree:
        """Rebuild the tree from `to_dict`.

        Args:
            description: JSON values that ``to_dict`` returned.

        Raises:
            InvalidInputError: a part is missing, or parts do not fit together.
        """
        try:
            labels = [_objects(part) for part in description["labels"]]
            parents, order = (
                [
                    integers_from_text(text, (len(part),))
                    for text, part in zip(description[name], labels, strict=True)
                ]
                for name in ("parents", "order")
            )
            return cls(list(description["levels"]), parents, labels, order)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"a tree cannot be read ({error!r}): give what Tree.to_dict wrote"
            ) from error

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the tree's shape and names; noise is derived from it and the key."""
        digest = hashlib.sha256()
        for name, parent, label in zip(self.levels[1:], self.parents, self.labels, strict=True):
            for part in (name.encode(), parent.astype("<i8").tobytes(), labels_bytes(label)):
                digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()

    def path_columns(self, level: int) -> dict[str, Column]:
        """Return a table of a level's nodes: their labels on it, and on levels below the total.

        Columns are named like levels, coarsest first. Nodes are in the order in which they were
        declared.

        Args:
            level: number of the level, 0 for the total.
        """
        columns: dict[str, Column] = {}
        node = self.order[level]
        for depth in range(level, 0, -1):
            columns[self.levels[depth]] = self.labels[depth - 1][node]
            node = self.parents[depth - 1][node]
        return dict(reversed(columns.items()))


def _refuse_double_leaves(
    node_of: Integers,
    ending: NDArray[np.bool_],
    going_on: NDArray[np.bool_],
    level: str,
    *,
    first: bool,
) -> None:
    """Refuse rows that end at the same leaf, or name no level at all.

    ``node_of`` is the deepest node that each row has named so far; ``ending`` marks rows that name
    no node at ``level`` or deeper, ``going_on`` those that name one at it. ``first``: it is the
    coarsest.
    """
    if not ending.any():
        return
    if first:
        raise InvalidInputError(
            f"row {int(np.argmax(ending)) + 1:,} of the domain has no {level}; each row must name "
            "at least the coarsest level: fill it"
        )
    size = int(node_of.max()) + 1
    ends = np.bincount(node_of[ending], minlength=size)
    inner = np.bincount(node_of[going_on], minlength=size) > 0
    double = (ends > 1) & ~inner
    if double.any():
        row = int(np.flatnonzero(ending & double[node_of])[1])
        raise InvalidInputError(
            f"row {row + 1:,} of the domain repeats an earlier row: list each leaf once"
        )


def _objects(values: Sequence[Hashable]) -> NDArray[np.object_]:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _check_names(levels: Sequence[str]) -> None:
    """Refuse names of levels that have another meaning, or that UTF-8 cannot write."""
    if TOTAL in levels:
        raise InvalidInputError(
            f"a level is called {TOTAL!r}, which is the name of the node above all others: "
            "rename the column"
        )
    refuse_reserved(levels)
    for name in levels:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(
                f"the name of level {name!r} has half a character (a lone surrogate), which "
                "UTF-8 cannot write: rename the column"
            ) from None

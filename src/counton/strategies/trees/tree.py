"""The public tree of a hierarchy: which nodes exist, known before any data."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.arrays import Integers
from counton.columns import (
    MISSING,
    OUTSIDE,
    codes_among,
    codes_of,
    labels_bytes,
)
from counton.errors import InvalidInput
from counton.strategies.trees.building import TOTAL, nodes_from_leaves, nodes_from_parents

Path = tuple[Hashable, ...]


class Tree:
    """A rooted tree of named nodes, level by level; children of one parent stand together.

    Made by `Tree.from_leaves` (a table with one column a level) or `Tree.from_parents` (a mapping
    from each node to its parent). A node is known by its path from the root, the root by ``()``.

    Attributes:
        levels: names of the levels, "total" first.
        parents: for each level below "total", the position of every node's parent one level up;
            ascending.
        labels: for each level below "total", the last part of every node's path.
    """

    def __init__(
        self, levels: Sequence[str], parents: Sequence[Integers], labels: Sequence[NDArray[Any]]
    ) -> None:
        self.levels = (TOTAL, *levels)
        self.parents = tuple(parents)
        self.labels = tuple(labels)

    @classmethod
    def from_leaves(cls, domain: Any, levels: Sequence[str]) -> Tree:
        """The tree whose leaves are the rows of a table.

        Args:
            domain: a data frame, or a mapping from level names to arrays of one length. Deeper
                levels of a row may be missing (None or NaN): then the row is a leaf higher up.
            levels: names of the columns, coarsest first.

        Raises:
            InvalidInput: no levels, no rows, missing columns, a gap within a path, a leaf that is
                listed twice or also a node with children.

        >>> table = {"state": ["CA", "CA", "DC"], "county": ["Kings", "Napa", None]}
        >>> tree = Tree.from_leaves(table, ["state", "county"])
        >>> tree.sizes, [tree.path(2, node) for node in range(2)]
        ([1, 2, 2], [('CA', 'Kings'), ('CA', 'Napa')])
        """
        return cls(*nodes_from_leaves(domain, levels))

    @classmethod
    def from_parents(
        cls, parents: Mapping[Hashable, Hashable] | Sequence[tuple[Hashable, Hashable]]
    ) -> Tree:
        """The tree given by each node's parent; levels are called "level 1", "level 2", ...

        Args:
            parents: a mapping from nodes to parents, or pairs (node, parent); None stands for no
                parent. Nodes without a parent stand below the total, unless there is only one:
                then it is the total.

        Raises:
            InvalidInput: no nodes, a node with two parents, or a cycle.

        >>> Tree.from_parents({"a": "root", "b": "root", "aa": "a"}).sizes
        [1, 2, 1]
        """
        return cls(*nodes_from_parents(parents))

    @property
    def sizes(self) -> list[int]:
        """Number of nodes at each level, 1 for the total."""
        return [1, *(len(parent) for parent in self.parents)]

    @cached_property
    def children(self) -> tuple[Integers, ...]:
        """For each level, how many children every node has."""
        sizes = self.sizes
        counted = [
            np.bincount(parent, minlength=size)
            for parent, size in zip(self.parents, sizes[:-1], strict=True)
        ]
        return (*counted, np.zeros(sizes[-1], np.int64))

    @cached_property
    def starts(self) -> tuple[Integers, ...]:
        """For each level, where every node's children begin one level down."""
        return tuple(np.concatenate([[0], np.cumsum(count)[:-1]]) for count in self.children)

    def level(self, name: str) -> int:
        """Position of a level by its name.

        Raises:
            InvalidInput: there is no such level.
        """
        if name not in self.levels:
            raise InvalidInput(f"level is {name!r}; it must be one of {', '.join(self.levels)}")
        return self.levels.index(name)

    def path(self, level: int, node: int) -> Path:
        """Path of a node from below the total."""
        parts: list[Hashable] = []
        for depth in range(level, 0, -1):
            parts.extend(self.labels[depth - 1][node : node + 1].tolist())
            node = int(self.parents[depth - 1][node])
        return tuple(reversed(parts))

    @cached_property
    def _places(self) -> dict[Path, tuple[int, int]]:
        places: dict[Path, tuple[int, int]] = {(): (0, 0)}
        above: list[Path] = [()]
        for depth, (parent, label) in enumerate(zip(self.parents, self.labels, strict=True), 1):
            above = [
                (*above[p], name) for p, name in zip(parent.tolist(), label.tolist(), strict=True)
            ]
            for node, path in enumerate(above):
                places[path] = depth, node
        return places

    def find(self, path: Any) -> tuple[int, int]:
        """Level and position of the node at ``path``; a bare label stands for a path of one.

        Raises:
            InvalidInput: there is no such node.
        """
        wanted = tuple(path) if isinstance(path, (tuple, list)) else (path,)
        try:
            return self._places[wanted]
        except (KeyError, TypeError):
            raise InvalidInput(
                f"node {wanted!r} is not in the domain; give the path from the coarsest level, "
                f"such as {self.path(len(self.levels) - 1, 0)!r}"
            ) from None

    @cached_property
    def leaves(self) -> tuple[Integers, ...]:
        """For each level, the positions of the nodes without children.

        Counts given as one array stand in this order: leaves of coarser levels first.
        """
        return tuple(np.flatnonzero(count == 0) for count in self.children)

    def locate(self, columns: Sequence[NDArray[Any]]) -> tuple[Integers, Integers]:
        """Level and position of the leaf every row of a table names.

        Args:
            columns: one array for each level below the total; missing below the leaf's level.

        Raises:
            InvalidInput: a row outside the domain, with a gap, or not at a leaf.
        """
        rows = len(columns[0])
        depth, node = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        for level, (column, parent, label) in enumerate(
            zip(columns, self.parents, self.labels, strict=True), 1
        ):
            own, values = codes_of(label)
            codes = codes_among(column, values)
            named = codes != MISSING
            gap = named & (depth < level - 1)
            if gap.any():
                raise InvalidInput(
                    f"row {int(np.argmax(gap)) + 1:,} of the leaves names a {self.levels[level]} "
                    f"below a missing level: fill the gap"
                )
            keys = parent * len(values) + own
            order = np.argsort(keys, kind="stable")
            wanted = node * len(values) + codes
            place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
            found = order[place]
            outside = named & ((codes == OUTSIDE) | (keys[found] != wanted))
            if outside.any():
                row = int(np.argmax(outside))
                cells = [part[row : row + 1] for part in columns]
                path = tuple(cell.tolist()[0] for cell in cells if codes_of(cell)[0][0] != MISSING)
                raise InvalidInput(
                    f"row {row + 1:,} of the leaves is {path!r}, which is not in the domain: add "
                    f"it to the domain, which must be public, or drop the row"
                )
            node = np.where(named, found, node)
            depth = np.where(named, level, depth)
        for level, count in enumerate(self.children):
            inner = (depth == level) & (count[np.where(depth == level, node, 0)] > 0)
            if inner.any():
                row = int(np.argmax(inner))
                raise InvalidInput(
                    f"row {row + 1:,} of the leaves is a {self.levels[level]} that has children in "
                    f"the domain; counts belong to leaves only: name its leaf"
                )
        return depth, node

    @cached_property
    def digest(self) -> str:
        """SHA-256 of shape and names: part of the noise address."""
        digest = hashlib.sha256()
        for name, parent, label in zip(self.levels[1:], self.parents, self.labels, strict=True):
            for part in (name.encode(), parent.astype("<i8").tobytes(), labels_bytes(label)):
                digest.update(len(part).to_bytes(8, "little") + part)
        return digest.hexdigest()

    def path_columns(self, level: int) -> dict[str, NDArray[Any]]:
        """Level columns of the table of one level: for every node its path."""
        found: dict[str, NDArray[Any]] = {}
        node = np.arange(self.sizes[level])
        for depth in range(level, 0, -1):
            found[self.levels[depth]] = self.labels[depth - 1][node]
            node = self.parents[depth - 1][node]
        return dict(reversed(found.items()))

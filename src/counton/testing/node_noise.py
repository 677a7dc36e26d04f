"""Fixed tables of integers that replace random noise in tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counton.strategies import NodeNoise


class HashedNoise:
    """A source of fixed noise for tests: the same node always has the same noise.

    Each integer, between -spread and spread, is a function of a node's level and index, and of the
    coordinate. It replaces ``counton.noise.NoiseField``, and protects nothing.

    >>> table = HashedNoise(spread=9)
    >>> table.run(0, range(3)).tolist() == [table.at(0, node).item() for node in range(3)]
    True
    """

    def __init__(self, shape: tuple[int, ...] = (), spread: int = 1000, seed: int = 0) -> None:
        self.shape = shape
        self.spread = spread
        self.seed = seed

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """Return the noise of consecutive nodes of one level: int64, ``(len(nodes), *shape)``.

        Args:
            level: level of the nodes, from 0 to 255.
            nodes: consecutive indices of nodes, from 0.

        Raises:
            ValueError: another level, or nodes that are not consecutive.
        """
        if nodes.step != 1 or nodes.start < 0 or not 0 <= level < 256:
            raise ValueError(
                f"{nodes} of level {level} are no nodes with noise: give consecutive nodes from 0 "
                "on, and a level from 0 to 255"
            )
        return _values(self.shape, self.spread, self.seed, level, nodes).copy()

    def at(self, level: int, node: int) -> NDArray[np.int64]:
        """Return the noise of one node.

        Args:
            level: level of the node, from 0 to 255.
            node: index of the node, from 0.

        Returns:
            int64, of the shape of the source.
        """
        return self.run(level, range(node, node + 1)).reshape(self.shape)


class ShiftedNoise:
    """A source of noise for tests: another's, with integers added at chosen nodes.

    It cancels a change of the data. ``shifts`` maps (level, index) to an integer for the first
    coordinate, or to a mapping from coordinates, indices of the flattened array, to integers.

    >>> table = HashedNoise()
    >>> (ShiftedNoise(table, {(0, 1): 5}).run(0, range(3)) - table.run(0, range(3))).tolist()
    [0, 5, 0]
    """

    def __init__(
        self, table: NodeNoise, shifts: Mapping[tuple[int, int], int | Mapping[int, int]]
    ) -> None:
        self._table = table
        self._by_level: dict[int, dict[int, Mapping[int, int]]] = {}
        for (level, node), shift in shifts.items():
            shifts_by_place = {0: shift} if isinstance(shift, int) else shift
            self._by_level.setdefault(level, {})[node] = shifts_by_place

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the noise of one node."""
        return self._table.shape

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """Return the shifted noise of consecutive nodes of a level.

        Args:
            level: level of the nodes, one that the other source has.
            nodes: consecutive indices of nodes, from 0.

        Returns:
            int64, shape ``(len(nodes), *shape)``.
        """
        values = self._table.run(level, nodes).copy()
        flat = values.reshape(len(nodes), math.prod(self.shape))
        shifts_of_level = self._by_level.get(level, {})
        shifted_nodes = shifts_of_level if len(shifts_of_level) <= len(nodes) else nodes
        for node in shifted_nodes:
            if node in nodes and node in shifts_of_level:
                for coordinate, shift in shifts_of_level[node].items():
                    flat[node - nodes.start, coordinate] += shift
        return values


def noise_of(table: HashedNoise, nodes: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return the noise of nodes (level, index): shape ``(len(nodes), coordinates)``.

    >>> table = HashedNoise(spread=9)
    >>> noise_of(table, [(2, 5), (0, 1)])[:, 0].tolist() == [table.at(2, 5), table.at(0, 1)]
    True
    """
    levels = np.array([level for level, _ in nodes], np.uint64)
    return _hash_nodes(table, levels, np.array([index for _, index in nodes], np.uint64))


@lru_cache(maxsize=1024)
def _values(
    shape: tuple[int, ...], spread: int, seed: int, level: int, nodes: range
) -> NDArray[np.int64]:
    """Return the noise of consecutive nodes, cached."""
    index = np.arange(len(nodes), dtype=np.uint64) + np.uint64(nodes.start)
    table = HashedNoise(shape, spread, seed)
    return _hash_nodes(table, np.array([level], np.uint64), index).reshape(len(nodes), *shape)


def _hash_nodes(
    table: HashedNoise, levels: NDArray[np.uint64], indexes: NDArray[np.uint64]
) -> NDArray[np.int64]:
    hashed = _mix(indexes + _mix(np.uint64(256 * table.seed) + levels))
    coordinates = np.arange(math.prod(table.shape), dtype=np.uint64)
    hashed = _mix(hashed[:, None] + _mix(coordinates)[None, :])
    hashed %= np.uint64(2 * table.spread + 1)
    return hashed.astype(np.int64) - table.spread


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood), a bijection."""
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed

"""Tables of node noise for tests: known, fast, and not random at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from counton.strategies import NodeNoise


class HashedNoise:
    """Integers between -spread and spread as a fixed function of (level, node, coordinate).

    It stands in for ``counton.noise.NoiseField`` where a test needs to know every z. It protects
    nothing.

    >>> table = HashedNoise(spread=9)
    >>> table.run(0, range(3)).tolist() == [table.at(0, node).item() for node in range(3)]
    True
    """

    def __init__(self, shape: tuple[int, ...] = (), spread: int = 1000, seed: int = 0) -> None:
        self.shape = shape
        self.spread = spread
        self.seed = seed

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """Values of consecutive nodes: int64, shape ``(len(nodes), *shape)``."""
        if nodes.step != 1 or nodes.start < 0 or not 0 <= level < 256:
            raise ValueError(f"level {level}, nodes {nodes}: not a run of node addresses")
        return _values(self.shape, self.spread, self.seed, level, nodes).copy()

    def at(self, level: int, node: int) -> NDArray[np.int64]:
        """Value of one node, shape ``shape``."""
        return self.run(level, range(node, node + 1)).reshape(self.shape)


class ShiftedNoise:
    """Another table with some nodes moved by known integers: z + d C e_i.

    Args:
        table: the table underneath.
        shifts: how far the node (level, index) moves, in lattice units: in the first coordinate, or
            in those that are given, by their number in a flattened array.

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
            by_place = {0: shift} if isinstance(shift, int) else shift
            self._by_level.setdefault(level, {})[node] = by_place

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one node's noise."""
        return self._table.shape

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        """Values of consecutive nodes: int64, shape ``(len(nodes), *shape)``."""
        values = self._table.run(level, nodes).copy()
        flat = values.reshape(len(nodes), math.prod(self.shape))
        of_level = self._by_level.get(level, {})
        known = of_level if len(of_level) <= len(nodes) else nodes
        for node in known:
            if node in nodes and node in of_level:
                for place, shift in of_level[node].items():
                    flat[node - nodes.start, place] += shift
        return values


@lru_cache(maxsize=1024)
def _values(
    shape: tuple[int, ...], spread: int, seed: int, level: int, nodes: range
) -> NDArray[np.int64]:
    """Values of a run; laws ask for the same ones again and again."""
    index = np.arange(len(nodes), dtype=np.uint64) + np.uint64(nodes.start)
    hashed = _mix(index + _mix(np.array([256 * seed + level], np.uint64)))
    coordinates = np.arange(math.prod(shape), dtype=np.uint64)
    hashed = _mix(hashed[:, None] + _mix(coordinates)[None, :])
    values = (hashed % np.uint64(2 * spread + 1)).astype(np.int64) - spread
    return values.reshape(len(nodes), *shape)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64 (Steele, Lea and Flood): a bijection that scrambles all bits."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))

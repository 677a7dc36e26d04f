"""How many numbers of noise are worked on at a time (measured; values never depend on them)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from counton.strategies.base import NodeNoise

#: Numbers of a chunk that takes two passes: it stays in the second-level cache in between.
CHUNK = 2**15
#: Numbers drawn at a time where every row is used once.
ROWS_CHUNK = 2**17
#: From this many coordinates on, nodes are added row by row instead of level by level.
WIDE = 32


def is_wide(shape: tuple[int, ...]) -> bool:
    """Whether nodes of this shape are best added one by one."""
    return math.prod(shape) >= WIDE


def nodes_per_chunk(shape: tuple[int, ...], numbers: int = CHUNK) -> int:
    """Nodes of this shape in a chunk of ``numbers``: at least one."""
    return max(1, numbers // max(1, math.prod(shape)))


class NodeRows:
    """Nodes of one level one by one, up or down, drawn ahead in chunks but not beyond ``stop``."""

    def __init__(self, field: NodeNoise, level: int, stop: int) -> None:
        self._field, self._level, self._stop = field, level, stop
        self._size = nodes_per_chunk(field.shape, ROWS_CHUNK)
        self._held = range(0)
        self._noise = np.empty((0, *field.shape), np.int64)

    def read(self, nodes: range) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Each node's number and noise, in the order of ``nodes``."""
        for at in range(0, len(nodes), self._size):
            part = nodes[at : at + self._size]
            low, high = min(part), max(part) + 1
            if not (self._held.start <= low and high <= self._held.stop):
                self._held = range(low, max(high, min(low + self._size, self._stop)))
                self._noise = self._field.run(self._level, self._held)
            for node in part:
                yield node, self._noise[node - self._held.start]

"""How many numbers of noise are worked on at a time (measured; values never depend on them)."""

from __future__ import annotations

import math

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

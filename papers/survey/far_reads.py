"""Totals of few cells among very many, far from the start: each node's noise by its address.

`python -m papers.survey.far_reads` reads 100,000 of 10^9 cells at random steps of 8,760 and prints
the time. Pagh and Sejer (arXiv 2606.11760) draw such a number in constant time, by bridges between
numbers drawn before; here every node of the binary tree is drawn again from the key, and nothing
is kept.
"""

from __future__ import annotations

import hashlib
import sys
import time

import numpy as np
from scipy.special import ndtri

from counton.base.arrays import Floats, Integers


def read(key: bytes, cells: Integers, steps: Integers) -> tuple[Floats, Integers]:
    """Noise of the totals of some cells, each at a step, and the nodes that each reads.

    Args:
        key: up to 64 secret bytes.
        cells: numbers of the cells, shape (reads,).
        steps: the step at which each is read, counted from 1, shape (reads,).

    A node has a normal number of variance 1, by its cell, level and place.

    >>> noise, nodes = read(b"secret", np.arange(3), np.array([1, 7, 8]))
    >>> nodes.tolist()
    [1, 3, 1]
    >>> bool(read(b"secret", np.array([2]), np.array([8]))[0] == noise[2])  # drawn again
    True
    """
    drawn: list[bytes] = []
    nodes = np.bitwise_count(steps).astype(np.int64)
    for cell, step in zip(cells.tolist(), steps.tolist(), strict=True):
        of_cell = hashlib.blake2b(cell.to_bytes(8), key=key, digest_size=8)
        for level in range(step.bit_length()):
            if step >> level & 1:
                node = of_cell.copy()
                node.update(bytes([level]) + (step >> level).to_bytes(8))
                drawn.append(node.digest())
    normals = ndtri((np.frombuffer(b"".join(drawn), "<u8") + 0.5) / 2.0**64)
    return np.add.reduceat(normals, np.cumsum(nodes) - nodes), nodes


if __name__ == "__main__":
    reads = 100_000
    random = np.random.default_rng(1)
    began = time.process_time()
    noise, nodes = read(
        b"secret", random.integers(0, 10**9, reads), random.integers(1, 8_761, reads)
    )
    spent = time.process_time() - began
    sys.stdout.write(
        f"{reads:,} totals of 10^9 cells: {nodes.mean():.1f} nodes each, {spent:.1f} s\n"
        f"standard deviation {noise.std():.3f}; by the number of nodes {nodes.mean() ** 0.5:.3f}\n"
    )

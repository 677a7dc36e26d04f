"""The binary mechanism: a binary tree over the steps, of which only left children are measured.

Node j of level l covers the items 2j 2^l + 1 .. (2j+1) 2^l. The release at step t has the noise of
one node for every set bit of t.
"""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from counton.base.arrays import Integers
from counton.base.exact import check_integer
from counton.strategies.strategy import Node, NodeNoise, NoiseView
from counton.strategies.streams.kary import Digits, DigitTree


class Binary(DigitTree):
    """The binary tree over ``horizon`` steps, of which only left children are measured.

    Both sensitivities (1-norm, and squared 2-norm) are bit_length(horizon), attained by the first
    step. The variance at step t is the number of set bits of t.

    Source: Andersson and Pagh, "A Smooth Binary Mechanism", sec. 2.3; Andersson et al., "Count on
    Your Elders", sec. 3.1; after Dwork et al. and Chan, Shi and Song.

    >>> tree = Binary(1000)
    >>> float(tree.l1_sensitivity()), tree.row(6), tree.overall_variance("max")
    (10.0, (Node(level=2, index=0, weight=1), Node(level=1, index=1, weight=1)), 9.0)

    Raises:
        InvalidInputError: horizon below 1 or not an integer.
    """

    sources = ("binary",)

    def __init__(self, horizon: int) -> None:
        super().__init__(check_integer("horizon", horizon, 1), Digits(base=2, below=0))

    @override
    def column(self, step: int) -> tuple[Node, ...]:
        """Return the left children that cover the step.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        return tuple(Node(level, end >> 1, 1) for level, end, _ in super().column(step))

    @override
    def row(self, step: int) -> tuple[Node, ...]:
        """Return one node for each set bit of ``step``, highest first.

        Args:
            step: step of the stream, from 1 to the horizon.
        """
        return tuple(Node(level, end >> 1, 1) for level, end, _ in super().row(step))

    @override
    def _field_by_last_step(self, field: NodeNoise) -> NodeNoise:
        """Return a source of the same noise by last step: index j on level l ends at j 2^l."""

        def run(level: int, nodes: range) -> Integers:
            noise = np.zeros((len(nodes), *field.shape), np.int64)
            stop = min(nodes.stop, (self.horizon >> level) + 1)
            left_nodes = range(nodes.start // 2, stop // 2)
            if left_nodes:
                noise[1 - nodes.start % 2 :: 2][: len(left_nodes)] = field.run(level, left_nodes)
            return noise

        return NoiseView(field.shape, run)

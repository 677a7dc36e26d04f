"""Totals in two levels: each step, and each block of steps, has noise of its own."""

from __future__ import annotations

from counton.base.exact import check_integer
from counton.strategies import Node, StrategyFacts, StreamStrategy, check_step


class Blocks(StreamStrategy):
    """A release adds up the blocks that are over, and the steps since then."""

    facts = StrategyFacts(causal=True)  # no release reads a block before it is over

    def __init__(self, horizon: int, block: int) -> None:
        self.horizon = check_integer("horizon", horizon, 1)
        self.block = check_integer("block", block, 2)

    @classmethod
    def examples(cls, horizon: int) -> tuple[Blocks, ...]:
        return cls(horizon, 2), cls(horizon, 3)  # for the laws

    def column(self, step: int) -> tuple[Node, ...]:
        at = check_step(self, step) - 1  # an item enters its step and its block
        return Node(0, at, 1), Node(1, at // self.block, 1)

    def row(self, step: int) -> tuple[Node, ...]:
        """Blocks that are over, then single steps."""
        over = check_step(self, step) // self.block
        blocks = [Node(1, at, 1) for at in range(over)]
        return (*blocks, *(Node(0, at, 1) for at in range(over * self.block, step)))

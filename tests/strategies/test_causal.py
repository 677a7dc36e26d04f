"""Which strategies are causal: no release before step i reads a node that item i enters."""

from counton.strategies import KAry, LookAhead, StreamStrategy
from counton.strategies.strategy import column_until


def reads_ahead(strategy: StreamStrategy, steps: int) -> bool:
    """By rows and columns: whether some release reads a node of an item to come."""
    seen: set[tuple[int, int]] = set()
    for step in range(1, steps + 1):
        if any(node[:2] in seen for node in column_until(strategy, step, steps)):
            return True
        seen |= {node[:2] for node in strategy.row(step)}
    return False


def test_what_says_that_it_is_not_reads_ahead() -> None:
    for tree in (*KAry.examples(26), *LookAhead.examples(26)):
        assert tree.facts.causal != reads_ahead(tree, 26), tree


def test_nobody_is_causal_without_saying_so() -> None:
    assert not StreamStrategy.facts.causal

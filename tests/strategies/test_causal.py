"""Which strategies are causal: no release before step i reads a node that item i enters."""

import pytest

from counton.strategies import KAry, LookAhead, StreamStrategy, public_strategies
from counton.strategies.strategy import column_until

#: Those that never are; of k-ary and look-ahead trees it depends on the parameters.
AHEAD = {"Expiring", "GrowingCascade", "Solved"}


def reads_ahead(strategy: StreamStrategy, steps: int) -> bool:
    """By rows and columns: whether some release reads a node of an item to come."""
    seen: set[tuple[int, int]] = set()
    for step in range(1, steps + 1):
        if any(node[:2] in seen for node in column_until(strategy, step, steps)):
            return True
        seen |= {node[:2] for node in strategy.row(step)}
    return False


@pytest.mark.parametrize("cls", public_strategies(), ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("horizon", [1, 2, 3, 4, 7, 26])
def test_strategies_declare_causality_correctly(cls: type[StreamStrategy], horizon: int) -> None:
    for strategy in cls.examples(horizon):
        if strategy.facts.causal:
            assert not reads_ahead(strategy, horizon), strategy
        if cls.saved_name in AHEAD:
            assert not strategy.facts.causal, strategy


def test_strategies_declared_not_causal_read_ahead() -> None:
    for tree in (*KAry.examples(26), *LookAhead.examples(26)):
        assert tree.facts.causal != reads_ahead(tree, 26), tree


def test_strategies_are_not_causal_by_default() -> None:
    assert not StreamStrategy.facts.causal

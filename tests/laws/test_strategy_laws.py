"""Every law over every public strategy; a new strategy is found without a line here."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from counton.laws import check_noise_is_rows, check_strategy, check_windows
from counton.strategies import StreamStrategy, public_strategies, strategy_from_dict

HORIZONS = (1, 2, 3, 4, 7, 8, 26, 64)
#: Of a strategy with several examples every other one is tried at these, in turn: what differs
#: between examples is met at 1 and 26 steps too, and each has a power of two and another number.
HALVED = (2, 3, 7, 4, 64, 8)
#: Trees add up their parts, whatever the horizon is. Of others columns are written out up to 512
#: steps and not beyond, and sets of steps tried up to 128.
LONG_HORIZONS = (130, 600)


def examples() -> Iterator[tuple[StreamStrategy, int]]:
    for horizon in (*HORIZONS, *LONG_HORIZONS):
        for cls in public_strategies():
            found = [*cls.examples(horizon)]
            if horizon in HALVED and len(found) > 1:
                found = found[HALVED.index(horizon) % 2 :: 2]
            for strategy in found:
                if horizon in HORIZONS or not strategy.structure.divisions(None):
                    yield strategy, horizon


EXAMPLES = [
    pytest.param(
        strategy,
        horizon,
        id=f"{strategy}-{horizon}",
        marks=[pytest.mark.slow] if horizon >= 64 else [],
    )
    for strategy, horizon in examples()
]


@pytest.mark.parametrize(("strategy", "horizon"), EXAMPLES)
def test_strategy_keeps_every_law(strategy: StreamStrategy, horizon: int) -> None:
    check_strategy(strategy, horizon)


@pytest.mark.parametrize("cls", public_strategies(), ids=lambda cls: cls.__name__)
def test_strategy_is_rebuilt_from_its_description(cls: type[StreamStrategy]) -> None:
    for strategy in cls.examples(100):
        assert strategy_from_dict(strategy.to_dict()) == strategy
        assert hash(strategy_from_dict(strategy.to_dict())) == hash(strategy)


@pytest.mark.parametrize("nodes", [1, 7])
@pytest.mark.parametrize("cls", public_strategies(), ids=lambda cls: cls.__name__)
@pytest.mark.slow
def test_chunk_sizes_never_change_a_value(
    cls: type[StreamStrategy], nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[cls.__module__]
    if hasattr(module, "nodes_per_chunk"):
        monkeypatch.setattr(module, "nodes_per_chunk", lambda shape, numbers=0: nodes)
    monkeypatch.setattr("counton.strategies.strategy.WIDE", 40)
    for strategy in cls.examples(90):
        for shape in ((), (2, 20)):
            check_noise_is_rows(strategy, 90, shape)
            check_windows(strategy, 90, shape)


def test_discovery_finds_every_strategy() -> None:
    found = {cls.__name__ for cls in public_strategies()}
    assert {"Binary", "Expiring", "HonakerOnline", "KAry", "SmoothBinary", "SqrtToeplitz"} <= found
    assert found <= {strategy.__class__.__name__ for strategy, _ in (e.values for e in EXAMPLES)}

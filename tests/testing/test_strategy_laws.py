"""Every law over every public strategy; a new strategy is found without a line here."""

import sys
from collections.abc import Iterator

import pytest
from in_turn import in_turn
from own_laws.streams import check_strategy

from counton.strategies import AsOf, StreamStrategy, WindowVersions, public_strategies
from counton.testing import check_noise_is_rows, check_windows

#: All examples of a strategy are tried with one step and with 26.
ALL = (1, 26)
#: Of several examples a third is tried at each of these, in turn: so each meets one of them.
IN_TURN = (2, 7, 64)
#: Trees add up their parts, whatever the horizon is, and versions of windows are as many streams as
#: there are windows. Of others columns are written out up to 512 steps and not beyond, and sets of
#: steps tried up to 128.
LONG_HORIZONS = (130, 600)
#: Strategies that are made of others, each window by itself.
BY_WINDOWS = (AsOf, WindowVersions)


def examples() -> Iterator[tuple[StreamStrategy, int]]:
    for horizon in (*ALL, *IN_TURN, *LONG_HORIZONS):
        for cls in public_strategies():
            found = [*cls.examples(horizon)]
            if horizon in IN_TURN:
                found = in_turn(found, 3, first=IN_TURN.index(horizon)) or found[:1]
            elif horizon in LONG_HORIZONS:
                found = in_turn(found, 2, first=LONG_HORIZONS.index(horizon)) or found
            for strategy in found:
                alike = isinstance(strategy, BY_WINDOWS) or strategy.structure.divisions(None)
                if horizon not in LONG_HORIZONS or not alike:
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
def test_stream_strategies_pass_checks(strategy: StreamStrategy, horizon: int) -> None:
    check_strategy(strategy, horizon)


@pytest.mark.parametrize("nodes", [1, 7])
@pytest.mark.parametrize("cls", public_strategies(), ids=lambda cls: cls.__name__)
@pytest.mark.slow
def test_chunk_sizes_never_change_a_value(
    cls: type[StreamStrategy], nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules[cls.__module__]
    if hasattr(module, "nodes_per_chunk"):
        monkeypatch.setattr(module, "nodes_per_chunk", lambda shape, numbers=0: nodes)
    monkeypatch.setattr("counton.strategies.strategy.FEWEST_WIDE_COORDINATES", 40)
    for strategy in cls.examples(90):
        for shape in ((), (2, 20)):
            check_noise_is_rows(strategy, 90, shape)
            check_windows(strategy, 90, shape)


def test_discovery_finds_every_strategy() -> None:
    found = {cls.__name__ for cls in public_strategies()}
    assert {"Binary", "Expiring", "HonakerOnline", "KAry", "SmoothBinary", "SqrtToeplitz"} <= found
    assert found <= {strategy.__class__.__name__ for strategy, _ in (e.values for e in EXAMPLES)}

"""Noise that counters of one process keep for those after them: it changes no release."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton.numbers import Counter, counter
from counton.numbers.counter import NoiseAhead
from counton.privacy import ZCDP, PureDP
from counton.strategies import Binary, GrowingSquareRoot, Independent, SqrtToeplitz, StreamStrategy
from counton.strategies.lines import Dense
from counton.strategies.streams.solved import LeastSquaresFactorization, _BlockSums

KEY = chosen_key()
ONE: dict[str, Any] = {"strategy": Binary(300), "guarantee": PureDP(1), "key": KEY, "name": "a"}
LINE = np.vstack([3 * np.eye(25, dtype=int), np.ones((2, 25), int)])
STRATEGIES: list[StreamStrategy] = [
    Binary(300),
    GrowingSquareRoot(),
    Independent(300),
    SqrtToeplitz(300),
]


def resumed(strategy: StreamStrategy, shape: tuple[int, ...], kept: NoiseAhead | None) -> Any:
    """Releases of 200 steps, of which each run of some opens the stream anew."""
    given: dict[str, Any] = {"key": KEY, "name": "visits", "shape": shape}
    saved, found = Counter(strategy, ZCDP(0.5), **given).checkpoint(), []
    for count in (1, 1, 63, 1, 40, 94):
        if kept is None:
            stream = Counter.resume(saved, key=KEY)
        else:
            with kept.keep_noise():
                stream = Counter.resume(saved, key=KEY)
        found.append(stream.release_many(np.ones((count, *shape), np.int64)).values)
        saved = stream.checkpoint()
    return np.concatenate(found)


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda one: type(one).__name__)
def test_releases_are_those_without_it(strategy: StreamStrategy, shape: tuple[int, ...]) -> None:
    kept = NoiseAhead()
    assert (resumed(strategy, shape, kept) == resumed(strategy, shape, None)).all()
    assert len(kept) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"key": chosen_key(bytes(32))},
        {"name": "b"},
        {"guarantee": PureDP(2)},
        {"strategy": Binary(301)},
        {"shape": (2,)},
    ],
    ids=lambda one: next(iter(one)),
)
def test_another_stream_never_meets_the_noise(changed: dict[str, Any]) -> None:
    kept = NoiseAhead()
    with kept.keep_noise():
        Counter(**ONE).release(0)
        other = Counter(**ONE | changed)
    alone = Counter(**ONE | changed)
    nothing = np.zeros((20, *alone.shape), np.int64)
    assert (other.release_many(nothing).values == alone.release_many(nothing).values).all()
    assert len(kept) == 2


def test_a_strategy_is_solved_once_for_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    solves, solved = 0, _BlockSums._solve_rows

    def counted(*given: Any) -> Any:
        nonlocal solves
        solves += 1
        return solved(*given)

    monkeypatch.setattr(_BlockSums, "_solve_rows", counted)
    strategy = LeastSquaresFactorization(Dense(LINE, "mine"), (4, 3), horizon=300)
    without, alone = resumed(strategy, (), None), solves
    kept = NoiseAhead()
    assert (resumed(strategy, (), kept) == without).all()
    assert alone == 6
    assert solves - alone < 4  # what is kept grows, as it does within one counter


def test_what_is_kept_is_bounded_and_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = NoiseAhead()
    monkeypatch.setattr(counter, "_STREAMS", 3)
    monkeypatch.setattr(counter, "_NUMBERS", 40)
    with kept.keep_noise():
        for number in range(5):
            Counter(**ONE | {"name": f"{number}", "shape": (2,)}).release([0, 0])
    assert len(kept) == 3
    assert repr(kept) == "NoiseAhead(streams=3)"
    for one in kept._kept.values():
        assert one.noise.size == 2 * len(one.window) == 40
        assert one.noise.base is None
        assert repr(one) == "Ahead(secret)"
    with kept.keep_noise():
        last = Counter(**ONE | {"name": "4", "shape": (2,)})
    alone = Counter(**ONE | {"name": "4", "shape": (2,)})
    nothing = np.zeros((100, 2), np.int64)
    assert (last.release_many(nothing).values == alone.release_many(nothing).values).all()


def test_without_it_nothing_is_kept() -> None:
    kept = NoiseAhead()
    with kept.keep_noise():
        pass
    Counter(**ONE).release(1)
    assert not len(kept)

"""A statistic of the smallest kind: what all of them share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counton import Contribution, Key, PureDP
from counton.errors import HorizonExceeded, InvalidInput, StateError, SumOverflow, WrongKey
from counton.laws import Bounded, Run, Runs
from counton.mechanisms.releases import Release
from counton.privacy import ZCDP
from counton.statistics import Exact, Reading, Statistic
from counton.statistics.base import Events
from counton.strategies import Binary, KAry, SmoothBinary, SqrtToeplitz
from counton.strategies.participation import moved


class _Kept(Exact):
    """The events themselves."""

    def __init__(self, statistic: Statistic, letters: str = "") -> None:
        self.statistic, self.letters, self.before = statistic, letters, letters

    def take(self, events: Events, stops: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if any(event not in ("a", "b") for event in events):
            raise InvalidInput(f"letters are {events!r}; they must be a or b")
        self.before, self.letters = self.letters, self.letters + "".join(events)
        changes = np.zeros((len(stops), 0 if self.statistic.on_demand else 2), np.int64)
        if not self.statistic.on_demand:
            for place, event in enumerate(events):
                changes[np.searchsorted(stops, place, "right"), "ab".index(event)] += 1
        return changes

    def undo(self) -> None:
        self.letters = self.before

    def save(self) -> bytes:
        return self.letters.encode()

    def counts(self, cells: np.ndarray[Any, Any], step: int) -> np.ndarray[Any, Any]:
        return np.array([self.letters[:step].count("ab"[cell]) for cell in cells])


class _Shown(Reading):
    def table_columns(self, level: float = 0.95) -> dict[str, np.ndarray[Any, Any]]:
        return self.release.table_columns(level)


class Letters(Statistic):
    """How often a and b came."""

    event = "letter"
    parameters: dict[str, Any] = {}  # noqa: RUF012
    cells = (2,)

    def contribution(self, *, batched: bool = False) -> Contribution:
        return Contribution.replace(unit="letter")

    def begin(self) -> Exact:
        return _Kept(self)

    def restore(self, saved: bytes) -> Exact:
        return _Kept(self, saved.decode())

    def read(self, release: Release) -> Reading:
        return _Shown(self, release)

    def cell(self, name: Any) -> int:
        if name not in ("a", "b"):
            raise InvalidInput(f"cell {name!r} is none")
        return "ab".index(name)


class LettersOnDemand(Letters):
    """The same, read on demand."""

    on_demand = True


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dict.fromkeys(("Letters", "LettersOnDemand"), __name__)
    monkeypatch.setattr("counton.statistics.known.KNOWN", known)


def test_both_kinds_go_on_where_they_stood() -> None:
    key = Key.generate()
    events = list("abaabbbaab")
    for statistic in Letters(), LettersOnDemand():
        strategy = SqrtToeplitz(10) if statistic.on_demand else Binary(10)
        running = statistic.counter(guarantee=PureDP(1), key=key, name="s", strategy=strategy)
        whole = [running.release(event).table_columns()["estimate"] for event in events]
        parts = statistic.counter(guarantee=PureDP(1), key=key, name="s", strategy=strategy)
        parts.release_many(events[:4])
        parts = type(parts).resume(parts.checkpoint(), key=key)
        rest = parts.release_many(events[4:])
        assert [one.step for one in rest] == list(range(5, 11))
        got = [one.table_columns()["estimate"] for one in rest[1:]]
        np.testing.assert_array_equal(got, whole[5:])
        with pytest.raises(WrongKey):
            type(parts).resume(parts.checkpoint(), key=Key.generate())
        with pytest.raises(StateError, match="altered"):
            type(parts).resume(parts.checkpoint().replace(b"false", b"true "), key=key)


def test_what_is_asked_is_the_same_alone_and_with_all() -> None:
    running = LettersOnDemand().counter(
        guarantee=ZCDP(1), key=Key.generate(), name="s", strategy=KAry.best(9)
    )
    readings = running.release_many("abba")
    all_of_them = readings[2].table_columns()["estimate"]
    assert [readings[2]["a"], readings[2]["b"]] == all_of_them.tolist()
    assert running.reading(3)["b"] == all_of_them[1]
    low, high = running.reading(3).interval("b")
    assert low < all_of_them[1] < high


def test_a_failed_release_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    running = Letters().counter(3, PureDP(1), key=Key.generate(), name="s")
    running.release("a")
    for events, error in (("ac", InvalidInput), ("abab", HorizonExceeded)):
        with pytest.raises(error):
            running.release_many(events)
    with pytest.raises(InvalidInput, match="batched"):
        running.release_batch("ab")
    with monkeypatch.context() as patched:
        patched.setitem(vars(running.terms), "largest_sum", 0)
        with pytest.raises(SumOverflow):
            running.release("b")
    assert running.step == 1
    assert running._exact.save() == b"a"
    running.release_many("bb")


def test_patterns_of_runs_are_exact_where_columns_are_written_out() -> None:
    pattern = Runs((Run(3), Run(2, offset=1, size=2, times=2), Run(1, offset=3)))
    for strategy in Binary(13), KAry(13, 4, True), SmoothBinary.best(13), SqrtToeplitz(13):
        enters = np.asarray(strategy.matrices()[1], float)
        unit = 2.0**strategy.lattice_bits
        worst = [0.0, 0.0]
        for start in range(13):
            moved_by = [enters[:, start : start + 3].sum(axis=1)]
            moved_by += [2 * enters[:, start + 1 : start + 3].sum(axis=1)] * 2
            moved_by += [enters[:, start + 3 : start + 4].sum(axis=1)]
            vector = np.concatenate(moved_by) * unit
            worst = [max(worst[0], np.abs(vector).sum()), max(worst[1], (vector**2).sum())]
        found = strategy.moved(pattern)
        assert (found.l1, found.l2_squared) == pytest.approx(worst, rel=1e-12)
        one = strategy.shift()
        bounded = moved(strategy, Bounded(3, 5))
        assert (bounded.l1, bounded.l2_squared) == (3 * one.l1, 5 * one.l2_squared)

"""Distinct users: so far, in windows, active now."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from brute_force import check_exact, check_scores, check_sensitivity, scores
from started import started

from counton import ExpiringDP, Key, PureDP, Running
from counton.base.errors import InvalidInput, StateError
from counton.privacy import ZCDP
from counton.statistics import Distinct, TopK
from counton.statistics.statistic import restore
from counton.statistics.statistic_plan import plan_statistic, unit_sensitivity
from counton.strategies import Binary, Expiring

HORIZON = 6
#: What somebody else does in each step.
OTHERS: dict[bool, list[Any]] = {
    False: ["b", "c", "b", "b", "c", "c"],
    True: [("b", True), ("b", True), ("c", False), ("b", False), ("c", True), ("b", True)],
}


def with_and_without(events: list[list[Any]]) -> Iterator[tuple[list[Any], list[Any]]]:
    """All streams of what one user does in each step, and the same without the user."""
    for own in itertools.product(events, repeat=HORIZON):
        moves = any(isinstance(event, tuple) for some in events for event in some)
        other = OTHERS[moves]
        yield (
            [[*mine, their] for mine, their in zip(own, other, strict=True)],
            [[their] for their in other],
        )


def within_one_window() -> Iterator[tuple[list[Any], list[Any]]]:
    """The same, where only events of one window (of two steps) are absent."""
    for own in itertools.product([[], ["a"]], repeat=HORIZON):
        for window in range(HORIZON // 2):
            less = [[] if step // 2 == window else mine for step, mine in enumerate(own)]
            yield list(own), less


@pytest.mark.parametrize(
    ("statistic", "slack"),
    [(Distinct(), 1.0), (Distinct(window=2, windows=2), 1.3), (Distinct(window=2, windows=3), 1.3)],
)
def test_no_user_moves_more_than_claimed(statistic: Distinct, slack: float) -> None:
    check_sensitivity(statistic, HORIZON, with_and_without([[], ["a"]]), slack=slack)


def test_no_window_of_a_user_moves_more_than_claimed() -> None:
    check_sensitivity(Distinct(window=2), HORIZON, within_one_window())


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_no_user_who_comes_and_goes_moves_more_than_claimed(changes: int) -> None:
    comes, goes = ("a", True), ("a", False)
    moves = with_and_without([[], [comes], [goes], [comes, goes, comes]])
    check_sensitivity(Distinct(changes=changes), HORIZON, moves, slack=1.0)


@pytest.mark.parametrize("changes", [2, 3])
def test_no_user_who_stays_for_a_while_moves_more_than_claimed(changes: int) -> None:
    moves = with_and_without([[], ["a"]])
    check_sensitivity(Distinct(stay=2, changes=changes), HORIZON, moves, slack=1.25)


def test_whose_window_is_protected_is_said() -> None:
    """Of a user of all windows nothing is promised, and no word says it."""
    said = Distinct(window=2, unit="reader").contribution().unit
    assert said == "reader within one window"
    assert Distinct(window=2, windows=3, unit="reader").contribution().unit == "reader"


def test_what_is_counted() -> None:
    def counted(statistic: Distinct, *batches: Any) -> Any:
        stops = np.cumsum([len(batch) for batch in batches])
        events = [event for batch in batches for event in batch]
        return statistic.begin().take(events, stops).cumsum().tolist()

    seen: tuple[Any, ...] = ["a", "a"], [], ["b", 7], ["7", "a"]
    assert counted(Distinct(), *seen) == [1, 1, 3, 4]
    assert counted(Distinct(window=3), *seen) == [1, 1, 3, 5]
    assert counted(Distinct(window=3, windows=1), *seen) == [1, 1, 3, 4]
    comes, goes = ("a", True), ("a", False)
    moves = [comes, comes], [goes], [goes, ("b", True)], [comes], [goes, goes]
    seen = ["a", "b"], ["a"], [], ["c"], ["a"], [], [], []
    assert counted(Distinct(stay=2, changes=4), *seen) == [2, 2, 1, 1, 2, 1, 0, 0]
    assert counted(Distinct(stay=2, changes=3), *seen) == [2, 2, 1, 1, 2, 1, 1, 1]
    assert counted(Distinct(stay=2, changes=1), *seen) == [2, 2, 2, 3, 3, 3, 3, 3]
    assert counted(Distinct(stay=1, changes=9), *seen) == [2, 1, 0, 1, 1, 0, 0, 0]
    assert counted(Distinct(changes=9), *moves) == [1, 0, 1, 2, 1]
    assert counted(Distinct(changes=3), *moves) == [1, 0, 1, 2, 2]
    assert counted(Distinct(changes=1), *moves) == [1, 1, 2, 2, 2]


def test_state_is_whole() -> None:
    seen = [["a", "b"], ["b"], [], ["c", "a"], ["a"]]
    for statistic in Distinct(), Distinct(window=2), Distinct(window=2, windows=2):
        check_exact(statistic, seen)
    check_exact(Distinct(stay=2, changes=3), [*seen, [], ["a", "b"], [], []])
    moves = [[("a", True), ("a", False)], [("a", True)], [("b", True)], [("a", False)]]
    check_exact(Distinct(changes=3), moves)
    with pytest.raises(StateError, match="copy"):
        restore(Distinct(), b"123456789")


def test_noise_is_as_stated() -> None:
    """Unbiased, and of the stated standard deviation."""
    check_scores(scores(Distinct(), Binary(4), PureDP("1/8"), [["a"], [], ["a", "b"], ["c"]], 600))


def test_wrong_events_change_nothing() -> None:
    running = started(Distinct(changes=2), guarantee=ZCDP(1), strategy=Binary(5), batched=True)
    running.release_batch([("a", True)])
    saved = running.checkpoint()
    for wrong in ("a", ("a", 1), (1.5, True), (None, True), (10**5000, True)):
        with pytest.raises(InvalidInput, match="give"):
            running.release_batch([("b", True), wrong])
    assert running.checkpoint() == saved
    wrong_ones: list[dict[str, Any]] = [
        *({"windows": 3}, {"window": 0}, {"window": 2, "changes": 2}, {"stay": 2})
    ]
    for arguments in wrong_ones:
        with pytest.raises(InvalidInput):
            Distinct(**arguments)


def test_users_of_a_window_are_a_difference_and_old_ones_expire() -> None:
    statistic = Distinct(window=2)
    running = started(statistic, guarantee=ZCDP(10**6), strategy=Binary(9), batched=True)
    readings: Any = running.release_batches([1, 2, 1, 3], [1, 2, 4, 4])
    assert [reading["users"] for reading in readings] == [1, 2, 4, 4]
    second = readings[3].since(readings[1])
    assert (second["users"], second.table_columns()["start"].tolist()) == (2, [2])
    noisy = started(statistic, guarantee=ZCDP(1), strategy=Binary(9)).release_many([1, 2, 1, 3])
    # The release at 4 reads another node than that at 2.
    assert noisy[3].since(noisy[1]).std() == pytest.approx(noisy[3].std() * np.sqrt(2))
    with pytest.raises(InvalidInput, match="earlier"):
        readings[1].since(readings[3])
    counter: Any = started(Distinct(), guarantee=ExpiringDP(epsilon=1), strategy=Expiring(1))
    assert counter.release("ann")["users"] < 50


def test_no_more_windows_count_than_the_horizon_holds() -> None:
    many, two = Distinct(window=24, windows=30), Distinct(window=24, windows=2)
    strategy, key = Binary(48), Key.generate()
    assert unit_sensitivity(many, strategy, 1) == unit_sensitivity(two, strategy, 1) == 11
    held = Running.start(many, guarantee=PureDP(1), strategy=strategy, key=key, name="u").design
    assert held.contribution == two.contribution()
    assert plan_statistic(many, 48, PureDP(1)).contribution == two.contribution()


def test_a_lack_of_memory_leaves_no_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    for statistic, events in (
        (Distinct(changes=2, stay=2), ["a", "b"]),
        (TopK(["g"], most=1), [("a", "g")]),
    ):
        exact: Any = statistic.begin()
        with monkeypatch.context() as patched:
            patched.setattr(np, "zeros" if isinstance(statistic, Distinct) else "bincount", full)
            with pytest.raises(MemoryError):
                exact.take(events, np.array([len(events)]))
        before = exact.save()
        assert before == statistic.begin().save()
        with monkeypatch.context() as patched:
            name = "_count_stays" if isinstance(statistic, Distinct) else "_count_cells"
            done = getattr(exact, name)

            def then_full(*args: Any, done: Any = done) -> None:
                done(*args)
                raise MemoryError

            patched.setattr(exact, name, then_full)
            with pytest.raises(MemoryError):
                exact.take(events, np.array([len(events)]))
        assert exact.save() == before
        assert exact.take(events, np.array([len(events)])).sum() > 0


def full(*_: Any, **__: Any) -> None:
    raise MemoryError

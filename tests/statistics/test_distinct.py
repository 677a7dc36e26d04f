"""Distinct users: so far, in windows, active now."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from brute_force import check_exact, check_sensitivity
from started import started

from counton import ExpiringDP
from counton.base.errors import InvalidInputError, StateError
from counton.privacy import ZCDP
from counton.statistics import Distinct
from counton.statistics.statistic import restore
from counton.strategies import Binary, Expiring

HORIZON = 5
#: What somebody else does in each step.
OTHERS: dict[bool, list[Any]] = {
    False: ["b", "c", "b", "b", "c"],
    True: [("b", True), ("b", True), ("c", False), ("b", False), ("c", True)],
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


def test_no_user_moves_more_than_claimed() -> None:
    check_sensitivity(Distinct(), HORIZON, with_and_without([[], ["a"]]), slack=1.0)


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_returning_user_changes_counts_within_claim(changes: int) -> None:
    comes = ("a", True)
    goes = ("a", False)
    moves = with_and_without([[], [comes], [goes], [comes, goes, comes]])
    check_sensitivity(Distinct(changes=changes), HORIZON, moves, slack=1.0)


def test_distinct_counts_each_user_once_per_change() -> None:
    def counted(statistic: Distinct, *batches: Any) -> Any:
        stops = np.cumsum([len(batch) for batch in batches])
        events = [event for batch in batches for event in batch]
        return statistic.begin().take(events, stops).cumsum().tolist()

    seen: tuple[Any, ...] = ["a", "a"], [], ["b", 7], ["7", "a"]
    assert counted(Distinct(), *seen) == [1, 1, 3, 4]
    comes = ("a", True)
    goes = ("a", False)
    moves = [comes, comes], [goes], [goes, ("b", True)], [comes], [goes, goes]
    assert counted(Distinct(changes=9), *moves) == [1, 0, 1, 2, 1]
    assert counted(Distinct(changes=3), *moves) == [1, 0, 1, 2, 2]
    assert counted(Distinct(changes=1), *moves) == [1, 1, 2, 2, 2]


def test_state_is_whole() -> None:
    seen = [["a", "b"], ["b"], [], ["c", "a"], ["a"]]
    check_exact(Distinct(), seen)
    moves = [[("a", True), ("a", False)], [("a", True)], [("b", True)], [("a", False)]]
    check_exact(Distinct(changes=3), moves)
    with pytest.raises(StateError, match="copy"):
        restore(Distinct(), b"123456789")


def test_wrong_events_change_nothing() -> None:
    running = started(Distinct(changes=2), guarantee=ZCDP(1), strategy=Binary(5), batched=True)
    running.release_batch([("a", True)])
    saved = running.checkpoint()
    for wrong in ("a", ("a", 1), (1.5, True), (None, True), (10**5000, True)):
        with pytest.raises(InvalidInputError, match="give"):
            running.release_batch([("b", True), wrong])
    assert running.checkpoint() == saved
    with pytest.raises(InvalidInputError, match="changes is 0"):
        Distinct(changes=0)


def test_new_users_are_a_difference_and_old_ones_expire() -> None:
    statistic = Distinct()
    running = started(statistic, guarantee=ZCDP(10**6), strategy=Binary(9), batched=True)
    readings: Any = running.release_batches([1, 2, 1, 3], [1, 2, 4, 4])
    assert [reading["users"] for reading in readings] == [1, 2, 3, 3]
    second = readings[3].since(readings[1])
    assert (second["users"], second.table_columns()["first_window"].tolist()) == (1, [3])
    noisy = started(statistic, guarantee=ZCDP(1), strategy=Binary(9)).release_many([1, 2, 1, 3])
    # The release at 4 reads another node than that at 2.
    assert noisy[3].since(noisy[1]).std() == pytest.approx(noisy[3].std() * np.sqrt(2))
    with pytest.raises(InvalidInputError, match="earlier"):
        readings[1].since(readings[3])
    counter: Any = started(Distinct(), guarantee=ExpiringDP(epsilon=1), strategy=Expiring(1))
    assert counter.release("ann")["users"] < 50


def test_failed_count_changes_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    exact: Any = Distinct(changes=2).begin()
    with monkeypatch.context() as patched:
        patched.setattr(np, "searchsorted", full)
        with pytest.raises(MemoryError):
            exact.take([("a", True)], np.array([1]))
    assert exact.save() == Distinct(changes=2).begin().save()
    assert exact.take([("a", True)], np.array([1])).sum() == 1


def full(*_: Any, **__: Any) -> None:
    raise MemoryError


@pytest.mark.parametrize("stops", [[3], [2, 3]])
def test_a_name_that_python_takes_for_another_is_refused(stops: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="a user is True"):
        Distinct().begin().take([1, True, "1"], np.array(stops))
    assert Distinct().begin().take(["ann", 1, "1", "ann"], np.array([4])).tolist() == [3]

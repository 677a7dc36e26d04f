"""A statistic whose order does not matter takes the way of counts: changes in, readings out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from observed_windows import observed_of
from streams_of_events import changes, release_events

from counton import Contribution, Key, PureDP, Running, Stream
from counton.base.errors import InvalidInput, ReplayMismatch
from counton.base.private import Private
from counton.state import Store, verify
from counton.state.addition import Addition
from counton.state.state_witness import Witness
from counton.statistics import Average, Quantiles, Statistic, TopK
from counton.strategies import Binary

VALUES: list[list[Any]] = [[1, 2.5], [9], [], [3, 3]]
CASES: list[tuple[Statistic, list[list[Any]]]] = [
    (Average(0, 5, "0.5"), VALUES),
    (Quantiles(lower=0, upper=5, cells=20), VALUES),
    (TopK(list("abc"), 2), [["a", "b"], ["b"], [], ["c", "a"]]),
]


@pytest.mark.parametrize(("statistic", "batches"), CASES, ids=repr)
def test_it_releases_what_a_running_statistic_does(
    statistic: Statistic, batches: list[list[Any]], state: str
) -> None:
    key, strategy = Key.generate(), Binary(7)
    named: Any = {"guarantee": PureDP(1), "strategy": strategy}
    running = Running.start(statistic, key=key, name="s", batched=True, **named)
    expected = [running.release_batch(batch).release.value for batch in batches]
    Stream.create(state, "s", statistic=statistic, key=key, **named).close()
    for step in range(len(batches)):
        with Stream.open(state, "s", key=key) as stream:
            one = changes(stream, batches)[step : step + 1]
            stream.take(
                Private(Addition(one, observed={step + 1: np.arange(3)}, sources=[f"file {step}"]))
            )
            assert stream.statistic == running.statistic
            assert observed_of(stream)[step + 1].tolist() == [0, 1, 2]
    with Stream.open(state, "s", key=key) as stream:
        again = [reading.release.value for reading in stream.readings()]
        np.testing.assert_array_equal(again, expected)
        assert stream.readings()[-1].table_columns() is not None
        in_data = stream.design.contribution.from_grid
        stream.release_many(in_data(changes(stream, batches)), first_step=1)
        with pytest.raises(ReplayMismatch):
            stream.release_many(in_data(changes(stream, batches[::-1])), first_step=1)
        with pytest.raises(ReplayMismatch, match="counted already"):
            stream.take(Private(Addition(sources=["file 1"])))
    with Store(state) as store:
        np.testing.assert_array_equal(store.reader("s").releases().values, expected)
    (found,) = verify(state, key=key)
    assert found.right, found


def test_the_caller_may_bound_what_a_unit_does(file: Path) -> None:
    of_users = Contribution.events(3, unit="user")
    with Stream.create(
        file, "s", Binary(7), PureDP(1), statistic=TopK(["a", "b"]), contribution=of_users
    ) as stream:
        assert stream.design.contribution == of_users
        stream.release_many([[3, 0]])
    (found,) = verify(file)
    assert found.right, found


def test_cells_are_the_statistics_own(file: Path) -> None:
    with pytest.raises(InvalidInput, match="leave it out"):
        Stream.create(file, "s", Binary(7), PureDP(1), statistic=TopK(["a"]), shape=(1,))
    with (
        Stream.create(file, "s", Binary(7), PureDP(1)) as stream,
        pytest.raises(InvalidInput, match="has counts and no statistic"),
    ):
        stream.readings()


def test_a_step_that_could_not_be_noted_is_behind_the_next(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, failed = Witness.note, list[str]()

    def full(self: Witness, *given: Any, **named: Any) -> None:
        if not failed:
            failed.append("once")
            raise OSError("disk full")
        note(self, *given, **named)

    statistic = Average(0, 5, 1)
    with Stream.create(file, "s", Binary(7), PureDP(1), statistic=statistic) as stream:
        monkeypatch.setattr(Witness, "note", full)
        with pytest.raises(OSError, match="disk full"):
            release_events(stream, [3, 4])
        (second,) = release_events(stream, [5])
        assert second.step == 2
    with Stream.open(file, "s") as stream:
        release_events(stream, [3, 4], [5], first_step=1)

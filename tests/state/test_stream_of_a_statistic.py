"""A statistic whose order does not matter takes the way of counts: changes in, readings out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from observed_windows import observed_of
from streams_of_events import changes, release_events

from counton import ZCDP, ContributionBound, Key, PureDP, RunningStatistic, Stream, plan
from counton.base.distributions import BoundedChange
from counton.base.errors import InputChangedError, InvalidInputError, StateError
from counton.base.private import Private
from counton.privacy import ExpiringZCDP
from counton.state import Store, verify
from counton.state.commit_input import CommitInput
from counton.state.rollback_guard import RollbackGuard
from counton.statistics import Average, Quantiles, Statistic, TopK
from counton.strategies import Binary, Expiring

VALUES: list[list[Any]] = [[1, 2.5], [9], [], [3, 3]]
CASES: list[tuple[Statistic, list[list[Any]]]] = [
    (Average(0, 5, "0.5"), VALUES),
    (Quantiles(lower=0, upper=5, cells=20), VALUES),
    (TopK(list("abc"), 2), [["a", "b"], ["b"], [], ["c", "a"]]),
]


@pytest.mark.parametrize(("statistic", "batches"), CASES, ids=repr)
def test_stream_of_statistic_equals_running_statistic(
    statistic: Statistic, batches: list[list[Any]], state: str
) -> None:
    key = Key.generate()
    strategy = Binary(7)
    named: Any = {"guarantee": PureDP(1), "strategy": strategy}
    running = RunningStatistic.start(statistic, key=key, name="s", batched=True, **named)
    expected = [running.release_batch(batch).release.value for batch in batches]
    Stream.create(state, "s", statistic=statistic, key=key, **named).close()
    for step in range(len(batches)):
        with Stream.open(state, "s", key=key) as stream:
            one = changes(stream, batches)[step : step + 1]
            stream.commit(
                Private(
                    CommitInput(
                        one, totals_by_window={step + 1: np.arange(3)}, sources=[f"file {step}"]
                    )
                )
            )
            assert stream.statistic == running.statistic
            assert observed_of(stream)[step + 1].tolist() == [0, 1, 2]
    with Stream.open(state, "s", key=key) as stream:
        again = [reading.release.value for reading in stream.results()]
        np.testing.assert_array_equal(again, expected)
        assert stream.results()[-1].table_columns() is not None
        in_data = stream.design.contribution.from_grid
        stream.release_many(in_data(changes(stream, batches)), first_step=1)
        with pytest.raises(InputChangedError):
            stream.release_many(in_data(changes(stream, batches[::-1])), first_step=1)
        with pytest.raises(InputChangedError, match="counted already"):
            stream.commit(Private(CommitInput(sources=["file 1"])))
    with Store(state) as store:
        np.testing.assert_array_equal(store.reader("s").releases().values, expected)
    (found,) = verify(state, key=key)
    assert found.right, found


def test_stream_of_statistic_accepts_larger_contribution_bound(file: Path) -> None:
    of_users = ContributionBound.events(3, unit="user")
    with Stream.create(
        file, "s", Binary(7), PureDP(1), statistic=TopK(["a", "b"]), contribution=of_users
    ) as stream:
        assert stream.design.contribution == of_users
        stream.release_many([[3, 0]])
    (found,) = verify(file)
    assert found.right, found


EDGES = Quantiles([-2, 0.5, 3, 4])


def test_create_with_contribution_of_unsettled_statistic_is_refused(file: Path) -> None:
    strategy = Expiring(1)
    named: Any = {"guarantee": ExpiringZCDP(1), "strategy": strategy}
    with pytest.raises(InvalidInputError, match="measured sums are not chosen yet"):
        Stream.create(
            file, "s", statistic=EDGES, contribution=EDGES.contribution(batched=True), **named
        )
    assert not file.exists()
    settled = EDGES.resolve_parameters(ExpiringZCDP(1), None)
    own = settled.contribution(batched=True)
    with Stream.create(file, "s", statistic=settled, contribution=own, **named) as stream:
        assert stream.statistic == settled
        assert stream.design.contribution.pattern == own.pattern


def test_create_with_contribution_below_one_row_is_refused(file: Path) -> None:
    settled = EDGES.resolve_parameters(ZCDP(1), 7)
    row: Any = settled.contribution(batched=True).pattern
    fewer = (
        BoundedChange(row.l1 - 1, row.l2_squared, single_step=True),
        BoundedChange(row.l1, row.l2_squared - 1, single_step=True),
    )
    for small in (
        *(ContributionBound.of_pattern(pattern, "which counts once") for pattern in fewer),
        EDGES.contribution(batched=True),
        ContributionBound.events(3, unit="user"),
    ):
        with pytest.raises(InvalidInputError, match="one row changes the measured sums by 1-norm"):
            Stream.create(file, "s", Binary(7), ZCDP(1), statistic=settled, contribution=small)


def test_plan_with_contribution_of_unsettled_statistic_is_refused() -> None:
    own = EDGES.contribution(batched=True)
    with pytest.raises(InvalidInputError, match="measured sums are not chosen yet"):
        plan(7, rho=1, of=EDGES, contribution=own)
    settled = EDGES.resolve_parameters(ZCDP(1), 7)
    best = plan(7, rho=1, of=settled, contribution=settled.contribution(batched=True)).best
    assert best.distribution == plan(7, rho=1, of=EDGES, batched=True).best.distribution


def test_open_of_stream_with_too_small_bound_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("counton.state.stream.refuse_wrong_contribution", lambda *_: None)
        of_laplace = EDGES.contribution(batched=True)
        named: Any = {"statistic": EDGES, "contribution": of_laplace}
        Stream.create(file, "s", Expiring(1), ExpiringZCDP(1), **named).close()
    with pytest.raises(StateError, match="noise is too small for its guarantee"):
        Stream.open(file, "s")
    Stream.open(file, "s", forgetting=True).close()  # people can still be deleted
    with Store(file) as store:
        assert store.reader("s").step == 0


def test_cells_are_the_statistics_own(file: Path) -> None:
    with pytest.raises(InvalidInputError, match="leave it out"):
        Stream.create(file, "s", Binary(7), PureDP(1), statistic=TopK(["a"]), shape=(1,))
    with (
        Stream.create(file, "s", Binary(7), PureDP(1)) as stream,
        pytest.raises(InvalidInputError, match="has counts and no statistic"),
    ):
        stream.results()


def test_step_after_failed_rollback_guard_follows_unrecorded_step(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = RollbackGuard.note
    failed = list[str]()

    def full(self: RollbackGuard, *given: Any, **named: Any) -> None:
        if not failed:
            failed.append("once")
            raise OSError("disk full")
        note(self, *given, **named)

    statistic = Average(0, 5, 1)
    with Stream.create(file, "s", Binary(7), PureDP(1), statistic=statistic) as stream:
        monkeypatch.setattr(RollbackGuard, "note", full)
        with pytest.raises(OSError, match="disk full"):
            release_events(stream, [3, 4])
        (second,) = release_events(stream, [5])
        assert second.step == 2
    with Stream.open(file, "s") as stream:
        release_events(stream, [3, 4], [5], first_step=1)

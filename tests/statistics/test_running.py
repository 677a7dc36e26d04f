"""A statistic of the smallest kind: what all of them share."""

import pickle
from typing import Any

import numpy as np
import pytest
from letters import Letters, LettersOnDemand, letters_are_known
from started import started

from counton import ApproxDP, Key, PureDP, RunningStatistic
from counton.base.distributions import Run, Runs
from counton.base.errors import (
    HorizonExceededError,
    InvalidInputError,
    NoiseKeyError,
    StateError,
    SumOverflowError,
)
from counton.privacy import ZCDP, Guarantee
from counton.statistics import (
    Average,
    Contingency,
    Degrees,
    Distinct,
    Forest,
    Quantiles,
    Substrings,
    TopK,
)
from counton.statistics.statistic_plan import plan_statistic
from counton.strategies import Binary, KAry, SqrtToeplitz
from counton.strategies.participation import pattern_sensitivity

__all__ = ["letters_are_known"]  # a fixture
pytestmark = pytest.mark.usefixtures("letters_are_known")


def test_pickled_statistics_have_equal_text() -> None:
    columns = {"sex": ["f", "m"], "smokes": ["no", "yes"]}
    for statistic in TopK(["a", "b"], 1), Contingency(columns), Average(0, 9, 1):
        assert repr(pickle.loads(pickle.dumps(statistic))) == repr(statistic)  # noqa: S301


def test_running_statistics_resume_from_checkpoint() -> None:
    key = Key.generate()
    events = list("abaabbbaab")
    for statistic in Letters(), LettersOnDemand():
        strategy = SqrtToeplitz(10) if statistic.on_demand else Binary(10)
        running = RunningStatistic.start(
            statistic, guarantee=PureDP(1), key=key, name="s", strategy=strategy
        )
        whole = [running.release(event).table_columns()["estimate"] for event in events]
        parts = RunningStatistic.start(
            statistic, guarantee=PureDP(1), key=key, name="s", strategy=strategy
        )
        parts.release_many(events[:4])
        parts = type(parts).resume(parts.checkpoint(), key=key)
        rest = parts.release_many(events[4:])
        assert [one.step for one in rest] == list(range(5, 11))
        got = [one.table_columns()["estimate"] for one in rest[1:]]
        np.testing.assert_array_equal(got, whole[5:])
        with pytest.raises(NoiseKeyError):
            type(parts).resume(parts.checkpoint(), key=Key.generate())
        with pytest.raises(StateError, match="altered"):
            type(parts).resume(parts.checkpoint().replace(b"false", b"true "), key=key)


def test_result_is_same_alone_and_in_table() -> None:
    running = started(LettersOnDemand(), guarantee=ZCDP(1), strategy=KAry.best(9))
    readings = running.release_many("abba")
    all_of_them = readings[2].table_columns()["estimate"]
    assert [readings[2]["a"], readings[2]["b"]] == all_of_them.tolist()
    assert running.result(3)["b"] == all_of_them[1]
    every = running.history(np.array([1, 0]), range(1, 5))
    assert every.tolist() == [[one["b"], one["a"]] for one in readings]
    assert running.history(np.array([], np.int64), range(1, 3)).shape == (2, 0)
    low, high = running.result(3).interval("b")
    assert low < all_of_them[1] < high


def test_noise_belongs_to_the_statistic_too() -> None:
    """One key, name, shape, contribution and strategy: other cells, or batches, other noise."""
    key = Key.generate()
    coarse = [2.0 * edge for edge in range(17)]
    found = []
    for edges, batched in ((range(17), True), (coarse, True), (coarse, False)):
        statistic = Quantiles(list(edges), line="identity")
        running = RunningStatistic.start(
            statistic, guarantee=PureDP("1/9"), key=key, name="s", strategy=Binary(3),
            batched=batched,
        )  # fmt: skip
        found.append((running.design.contribution, running.release_batch([])))
    assert len({str(contribution) for contribution, _ in found}) == 1
    values = {tuple(reading.release.value.tolist()) for _, reading in found}
    assert len(values) == 3


def test_runs_may_begin_in_the_last_step() -> None:
    strategy = Binary(8)
    last = sum(node.weight for node in strategy.column(8))
    assert pattern_sensitivity(strategy, Runs((Run(1, since=8),))).l1 == last


def test_cells_far_apart_are_the_same_in_one_call() -> None:
    words = Substrings("ACGT", 5)
    cells = np.array([1300, 3, 5, 5, 24, 90, 700])
    for strategy in KAry.best(9), SqrtToeplitz(9):
        running = started(words, guarantee=ZCDP(1), strategy=strategy)
        running.release_many("ACGTTAC")
        alone = [running.values(cells[at : at + 1], 7)[0] for at in range(len(cells))]
        assert running.values(cells, 7).tolist() == alone
    assert "when it is asked for" in str(plan_statistic(words, 9, ZCDP(1)))


def test_a_failed_release_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    running = started(Letters(), 3, PureDP(1))
    running.release("a")
    for events, error in (("ac", InvalidInputError), ("abab", HorizonExceededError)):
        with pytest.raises(error):
            running.release_many(events)
    with pytest.raises(InvalidInputError, match="batched"):
        running.release_batch("ab")
    with monkeypatch.context() as patched:
        patched.setattr("counton.continual.checkpoint.largest_sum", lambda strategy: 0)
        with pytest.raises(SumOverflowError):
            running.release("b")
    assert running.step == 1
    assert running._exact.save() == b"a"
    running.release_many("bb")


@pytest.mark.parametrize("statistic", [Letters(), LettersOnDemand()], ids=repr)
def test_an_interrupted_release_counts_nothing_twice(
    statistic: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key.generate()
    strategy = KAry.best(9)
    running = RunningStatistic.start(
        statistic, guarantee=PureDP(1), key=key, name="s", strategy=strategy
    )
    running.release_many("ab")
    saved = running.checkpoint()
    # After all is counted, as in making what is returned: everything is put back.
    with monkeypatch.context() as patched:
        patched.setattr("counton.statistics.live_statistic.StatisticResults", interrupted)
        with pytest.raises(KeyboardInterrupt):
            running.release_many("aab")
    assert running.checkpoint() == saved
    assert running.release_many("aab")[2].step == 5
    # While events are counted nobody knows which of them are: nothing more is released.
    whole = running.checkpoint()
    take = type(running._exact).take

    def halfway(exact: Any, events: Any, stops: Any) -> None:
        take(exact, events, stops)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(running._exact), "take", halfway)
        with pytest.raises(KeyboardInterrupt):
            running.release("a")
    for use in (lambda: running.release("a"), running.checkpoint):
        with pytest.raises(StateError, match="interrupted in one"):
            use()
    assert type(running).resume(whole, key=key).release("a").step == 6


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_step_without_its_event_is_an_empty_step() -> None:
    key = Key.generate()
    alone, other = (
        RunningStatistic.start(Distinct(), 6, PureDP(1), key=key, name="u") for _ in range(2)
    )
    alone.release_batches(["b", "b"], [0, 1, 1, 2])  # what is left of a, b, a, b without a
    alone.release_batch([])
    other.release_many(["a", "b", "a", "b"])
    assert (alone.step, other.step) == (5, 4)
    without = alone._exact
    whole = other._exact
    assert np.frombuffer(without.save()[8:], "V16,<i8,<i8").shape == (1,)
    assert np.frombuffer(whole.save()[8:], "V16,<i8,<i8").shape == (2,)
    assert "all other events stay in their steps" in alone.describe()
    before = alone.checkpoint()
    wrong: Any = (["b", "c"], [2]), (["b"], [0.9]), (["b"], [True])
    for events, stops in wrong:
        with pytest.raises(InvalidInputError, match=r"a step has 2 events|stops are"):
            alone.release_batches(events, stops)
    assert alone.checkpoint() == before
    letters = RunningStatistic.start(Substrings("ab", 2), 6, PureDP(1), key=key, name="l")
    with pytest.raises(InvalidInputError, match="a step has 0 events"):
        letters.release_batch("")
    assert "each step has as many in both" in letters.describe()


@pytest.mark.parametrize("events", ["ann", b"ann", {"ann": 1}, {"ann"}, iter("ann"), np.array("a")])
def test_running_statistic_refuses_invalid_batches(events: Any) -> None:
    running = RunningStatistic.start(
        Distinct(), 6, PureDP(1), key=Key.generate(), name="u", batched=True
    )
    for release in running.release_batch, running.release_many:
        with pytest.raises(InvalidInputError, match="in brackets"):
            release(events)
    stops: Any = [1.9, 3]
    with pytest.raises(InvalidInputError, match="stops are"):
        running.release_batches(["a", "b", "c"], stops)
    with pytest.raises(InvalidInputError, match="masked"):
        running.release_batch(np.ma.array(["a", "b"], mask=[False, True]))
    assert running.step == 0


def test_nothing_is_read_before_the_first_step() -> None:
    for statistic in Letters(), LettersOnDemand():
        running = started(statistic, 5, PureDP(1))
        with pytest.raises(InvalidInputError, match="has released no step"):
            running.result()


def test_runs_that_begin_beyond_the_horizon_are_refused() -> None:
    with pytest.raises(
        InvalidInputError, match="none of them begins within the horizon of 3 steps"
    ):
        pattern_sensitivity(Binary(3), Runs((Run(2, offset=3), Run(1, since=4))))


EDGES = [("a", "b", 3), ("b", "c", 3), ("a", "d", 3)]


@pytest.mark.parametrize(
    ("statistic", "events", "names"),
    [
        (Quantiles(lower=0, upper=6, cells=6), [3, 3, 3], [(0, edge) for edge in range(1, 7)]),
        (Quantiles([0, 1, 5], line="identity"), [3, 3, 3], [(0, 1), (0, 5)]),
        (Average(-2, 6, resolution=0.5), [3, 3, 3], ["count"]),
        (Average(0, 6, resolution=2, number=1), [3, 3, 3], ["sum"]),
        (Forest(largest=6, resolution=0.5), EDGES, [None]),
        (Degrees(degree=2), [edge[:2] for edge in EDGES], [1, 2]),
    ],
)
@pytest.mark.parametrize("guarantee", [PureDP(1), ApproxDP(1, 1e-6)])
def test_planned_errors_equal_errors_of_results(
    statistic: Any, events: list[Any], names: list[Any], guarantee: Guarantee
) -> None:
    best = plan_statistic(statistic, 3, guarantee, batched=True).best
    running = started(statistic, 3, guarantee, batched=True)
    readings = running.release_batches(events, [1, 2, 3])
    stds = np.array([[one.std(name) for name in names] for one in readings])
    assert np.sqrt((stds**2).mean()) == pytest.approx(best.errors.mean_std)
    assert stds.max() == pytest.approx(best.errors.max_std)


def test_error_of_mean_is_stated_as_multiple_of_count_error() -> None:
    of = Average(-2, 6, resolution=0.5).error_of
    running = started(Average(-2, 6, resolution=0.5), 1, PureDP(50), batched=True)
    one = running.release_batch([6.0] * 1000)  # at a bound the mean has its largest error
    times_sum = 20**0.5
    times_mean = 8 / 2**0.5
    assert f"sum: times {times_sum:.3g}; " in of.meaning
    assert f"up to times {times_mean:.3g} / n" in of.meaning
    assert one.std("sum") == pytest.approx(one.std("count") * times_sum)
    assert one.std("mean") == pytest.approx(one.std("count") * times_mean / 1000, rel=0.02)

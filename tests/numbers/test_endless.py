"""Counters without a last step: the same values however they run, and intervals that hold."""

import numpy as np
import pytest

from counton import Contribution, Counter, plan
from counton.noise.key import InsecureSeededKey
from counton.privacy import ZCDP, Guarantee, PureDP
from counton.strategies import Epochs, GrowingSquareRoot, MultiscaleInterpolation, StreamStrategy

pytestmark = pytest.mark.filterwarnings("ignore::counton.noise.key.InsecureKeyWarning")

SERVED: list[tuple[StreamStrategy, Guarantee]] = [
    (Epochs(), PureDP(1)),
    (Epochs(), ZCDP(0.5)),
    (GrowingSquareRoot(), ZCDP(0.5)),
    (MultiscaleInterpolation(3000), ZCDP(0.5)),
]


def counter(strategy: StreamStrategy, guarantee: Guarantee, number: int = 1) -> Counter:
    key = InsecureSeededKey(number)
    return Counter(strategy, guarantee, key=key, name="visits")


@pytest.mark.parametrize(("strategy", "guarantee"), SERVED, ids=repr)
def test_one_by_one_in_batches_and_resumed_are_the_same(
    strategy: StreamStrategy, guarantee: Guarantee
) -> None:
    counts = (np.arange(310) * 7) % 11
    whole = counter(strategy, guarantee).release_many(counts)
    alone = counter(strategy, guarantee)
    first = [alone.release(int(count)).value for count in counts[:70]]
    saved = alone.checkpoint()
    resumed = Counter.resume(saved, key=InsecureSeededKey(1))
    rest = resumed.release_many(counts[70:]).values
    assert np.array_equal([*first, *rest.tolist()], whole.values)
    assert whole.std()[299] == pytest.approx(counter(strategy, guarantee).std(range(300, 301))[0])
    assert "deviation" in resumed.describe()


@pytest.mark.parametrize(("strategy", "guarantee"), SERVED, ids=repr)
def test_vectors_are_as_many_streams(strategy: StreamStrategy, guarantee: Guarantee) -> None:
    key = InsecureSeededKey(4)
    wide = Counter(strategy, guarantee, key=key, name="pages", shape=(3,))
    some = wide.release_many(np.ones((300, 3), np.int64))
    again = Counter(strategy, guarantee, key=key, name="pages", shape=(3,))
    assert np.array_equal(again.release_many(np.ones((20, 3), np.int64)).values, some.values[:20])
    assert np.array_equal(again.release(np.ones(3, np.int64)).value, some.values[20])


#: Noise so wide that its whole numbers are as good as real ones.
WIDE: list[tuple[StreamStrategy, Guarantee]] = [
    (Epochs(), PureDP("0.05")),
    (Epochs(), ZCDP("0.001")),
    (GrowingSquareRoot(14), ZCDP("0.001")),
    (MultiscaleInterpolation(3000), ZCDP("0.001")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "guarantee"), WIDE, ids=repr)
def test_intervals_hold_as_often_as_they_say(
    strategy: StreamStrategy, guarantee: Guarantee
) -> None:
    """Of totals at the ends and beginnings of epochs and octaves, and of windows.

    Each cell of a vector is a stream of its own.
    """
    ends = [(0, 1), (0, 16), (0, 17), (0, 100), (0, 256), (0, 257), (0, 300), (200, 300), (16, 17)]
    runs = 600
    starts, stops = np.array(ends).T
    errors = counter(strategy, guarantee).design.errors
    half = np.array([errors.window_halfwidths(starts, stops, level) for level in (0.5, 0.95)])
    wide = Counter(strategy, guarantee, key=InsecureSeededKey(0), name="visits", shape=(runs,))
    values = wide.release_many(np.zeros((300, runs), np.int64)).values
    totals = np.concatenate([np.zeros((1, runs), np.int64), values])
    missed = np.abs(totals[stops] - totals[starts])
    held = np.array([(missed <= each[:, None]).sum(axis=1) for each in half])
    # four standard deviations of a share; with Laplace noise intervals are those of one draw
    shares = held / runs
    apart = [4 * (share * (1 - share) / runs) ** 0.5 for share in (0.5, 0.95)]
    assert (shares[0] > 0.5 - apart[0]).all()
    assert (shares[1] > 0.95 - apart[1]).all()
    assert (shares < [[0.5 + apart[0] + 0.12], [0.999]]).all()


def test_a_unit_in_several_steps_has_as_many_times_the_deviation() -> None:
    for guarantee in (PureDP(1), ZCDP(0.5)):
        once = plan(None, guarantee, around=1000).best
        thrice = plan(
            None, guarantee, around=1000, contribution=Contribution.add_remove(steps=3)
        ).best
        assert thrice.errors.mean_std == pytest.approx(3 * once.errors.mean_std, rel=5e-3)

"""Counters without a last step: the same values however they run, and intervals that hold."""

import numpy as np
import pytest

from counton import Counter
from counton.noise.key import InsecureSeededKey
from counton.privacy import ZCDP, Guarantee, PureDP
from counton.strategies import Epochs, GrowingSquareRoot, MultiscaleStrategy, StreamStrategy

pytestmark = pytest.mark.filterwarnings("ignore::counton.noise.key.InsecureKeyWarning")


def counter(strategy: StreamStrategy, guarantee: Guarantee, number: int = 1) -> Counter:
    key = InsecureSeededKey(number)
    return Counter(strategy, guarantee, key=key, name="visits")


#: Noise so wide that its whole numbers are as good as real ones.
WIDE: list[tuple[StreamStrategy, Guarantee]] = [
    (Epochs(), PureDP("0.05")),
    (Epochs(), ZCDP("0.001")),
    (GrowingSquareRoot(14), ZCDP("0.001")),
    (MultiscaleStrategy(3000), ZCDP("0.001")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "guarantee"), WIDE, ids=repr)
def test_intervals_of_endless_streams_have_stated_coverage(
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

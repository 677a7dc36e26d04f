"""Counters of windows: each release is the step's own count; blocks are sums of releases."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key

from counton import ZCDP, ContributionBound, Counter, PureDP, Stream
from counton.base.errors import (
    ConcurrentWriterError,
    HorizonExceededError,
    InputChangedError,
    InvalidInputError,
    SumOverflowError,
)
from counton.strategies import GrowingCascade

KEY = chosen_key()


def counter_of(doublings: int, **changed: Any) -> Counter:
    given = {"guarantee": ZCDP(0.5), "key": KEY, "name": "visits", **changed}
    bits = given.pop("fraction_bits", 10)
    return Counter(GrowingCascade(doublings, bits), **given)


@pytest.mark.parametrize("shape", [(), (3,), (5, 20)])
def test_releases_are_counts_plus_noise_of_their_own(shape: tuple[int, ...]) -> None:
    counts = np.random.default_rng(1).integers(0, 10**6, (40, *shape))
    noise = counter_of(6, shape=shape).release_many(np.zeros_like(counts)).values
    assert (counter_of(6, shape=shape).release_many(counts).values == counts + noise).all()
    if shape:
        assert len(np.unique(noise)) > 25 * np.prod(shape)


def test_the_state_holds_no_sums() -> None:
    counter = counter_of(5)
    before = counter.checkpoint()
    counter.release_many([7] * 10)
    assert (
        before.replace(b'"step": 0', b'"step": 10').split(b"\n")[1]
        == (counter.checkpoint().split(b"\n")[1])
    )


def test_refused_counts_leave_counter_unchanged() -> None:
    counter = counter_of(3)
    counter.release_many([1, 2, 3])
    for counts, error, message in (
        ([1] * 6, HorizonExceededError, "after the last of the 8 steps"),
        ([-1], InvalidInputError, "negative"),
        ([1.5], InvalidInputError, "float"),
        ([[1]], InvalidInputError, "shape"),
        ([2**42 + 1], SumOverflowError, "at most 4,398,046,511,104"),
    ):
        with pytest.raises(error, match=message):
            counter.release_many(counts)
    assert counter.step == 3
    assert len(counter.release_many([2**42] * 5)) == 5


def test_blocks_of_the_largest_counts_are_exact_sums() -> None:
    counts = np.full(1024, 2**42 // 1024)
    values = counter_of(10).release_many(counts).values
    exact = sum(map(Fraction, values.tolist()))
    assert Fraction(float(values.sum())) == Fraction(float(values[::-1].sum())) == exact


def test_clipped_values_are_released_in_data_units() -> None:
    unit = ContributionBound.values(0, 10, resolution="0.01")
    counter = counter_of(4, contribution=unit, guarantee=ZCDP(50))
    release = counter.release(Fraction(123456, 100))
    assert release.std == pytest.approx(float(counter.window_std(0, 1)))
    assert abs(release.value - 1234.56) < 6 * release.std
    assert 0.5 < release.std < 3


def test_a_durable_stream_of_windows(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    with Stream.create(state, "visits", GrowingCascade(8), ZCDP(0.5)) as stream:
        first = stream.release_many([3, 1, 4])
    with Stream.open(state, "visits") as stream, Stream.open(state, "visits") as later:
        with pytest.raises(ConcurrentWriterError):
            stream.release(1)
        assert (later.releases().values == first.values).all()
        assert later.replay(2, 1).value == first.values[1]
        with pytest.raises(InputChangedError):
            later.replay(2, 5)
        assert later.release(1).step == 4


def test_released_noise_equals_known_answers() -> None:
    """Known answers: what was released once must be released again by every later version."""
    values = counter_of(10).release_many(np.zeros(1000, int)).values * 2**10
    assert values[[0, 1, 2, 3, 500, 999]].tolist() == [2988, 69, 2640, -4102, -2755, -773]
    vector = counter_of(3, shape=(2,), guarantee=PureDP(2)).release([0, 0]).value * 2**10
    assert vector.tolist() == [-373, 3175]


def test_description_states_single_steps() -> None:
    assert "releases each step's own count" in counter_of(3).describe()

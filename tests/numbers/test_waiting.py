"""The queue of a delay: first in, first out, at the same cost whatever its length."""

from itertools import pairwise

import numpy as np
import pytest

from counton import Counter, ExpiringDP, Key
from counton.base.errors import SumOverflow
from counton.numbers.counter_state import Waiting
from counton.numbers.design import largest_sum
from counton.strategies import Expiring


@pytest.mark.parametrize("delay", [0, 1, 2, 3, 7, 100])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_totals_leave_in_the_order_in_which_they_came(delay: int, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(delay)
    everything = generator.integers(0, 10**6, size=(1000, *shape))
    waiting = Waiting(everything[:delay].copy())
    left = []
    cuts = np.unique([delay, *generator.integers(delay, 1000, size=150), 1000])
    for start, stop in pairwise(cuts):
        leaving, waiting = waiting.then(everything[start:stop])
        left.append(leaving.copy())
        assert (waiting.totals == everything[stop - delay : stop]).all()
        assert (waiting.sum == everything[stop - delay : stop].sum(axis=0)).all()
    assert (np.concatenate(left) == everything[: 1000 - delay]).all()


def test_a_step_that_was_not_kept_leaves_nothing_behind() -> None:
    _, waiting = Waiting(np.arange(5)).then(np.array([5]))
    waiting.then(np.array([99, 98]))  # computed, then thrown away
    leaving, after = waiting.then(np.array([6]))
    assert leaving.tolist() == [1]
    assert after.totals.tolist() == [2, 3, 4, 5, 6]


def test_memory_is_a_small_multiple_of_the_delay() -> None:
    waiting = Waiting(np.zeros(1000, np.int64))
    moves = 0
    for _ in range(10_000):
        before = waiting
        _, waiting = waiting.then(np.zeros(1, np.int64))
        moves += waiting._room is not before._room
        assert waiting._room.size <= 3000
    assert moves <= 6


@pytest.mark.parametrize("batch", [1, 2])
def test_totals_that_wait_are_part_of_what_must_stay_exact(batch: int) -> None:
    """Counted only later, they would leave the exact range then, when nothing can be refused."""
    counter = Counter(Expiring(delay=4), ExpiringDP(1), key=Key.generate(), name="late")
    part = largest_sum(counter.design.strategy) // 4
    for _ in range(4 // batch):
        counter.release_many([part] * batch)
    with pytest.raises(SumOverflow, match="running total"):
        counter.release(part)
    assert counter.step == 4
    assert counter.release(0).step == 5

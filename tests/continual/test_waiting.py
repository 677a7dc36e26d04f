"""Totals that a delay holds back: first in, first out."""

from itertools import pairwise

import numpy as np
import pytest

from counton import Counter, ExpiringDP, Key
from counton.base.errors import SumOverflowError
from counton.continual.design import largest_sum
from counton.strategies import Expiring


@pytest.mark.parametrize("delay", [0, 1, 3, 100])
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_delayed_totals_are_released_in_order(delay: int, shape: tuple[int, ...]) -> None:
    """In any batches: noise is a function of the step, so two counters differ by their input."""
    generator = np.random.default_rng(delay)
    key = Key.generate()
    everything = generator.integers(0, 10**6, size=(300, *shape))
    given, nothing = (
        Counter(Expiring(delay=delay), ExpiringDP(1), key=key, name="late", shape=shape)
        for _ in range(2)
    )
    cuts = np.unique([0, *generator.integers(0, 300, size=50), 300])
    released = [given.release_many(everything[start:stop]).values for start, stop in pairwise(cuts)]
    noise = nothing.release_many(np.zeros_like(everything)).values
    late = np.concatenate([np.zeros((delay, *shape), np.int64), everything])[:300]
    assert (np.concatenate(released) - noise == np.cumsum(late, axis=0)).all()


@pytest.mark.parametrize("delay", [0, 3])
def test_delayed_counts_are_same_one_by_one_and_batched(delay: int) -> None:
    key = Key.generate()
    one_by_one, at_once = (
        Counter(Expiring(delay=delay), ExpiringDP(1), key=key, name="late") for _ in range(2)
    )
    counts = [5, 0, 7, 1, 10**9, 3, 2]
    assert [one_by_one.release(x).value for x in counts] == at_once.release_many(
        counts
    ).values.tolist()
    assert one_by_one.checkpoint() == at_once.checkpoint()


@pytest.mark.parametrize("batch", [1, 2])
def test_delayed_totals_count_towards_exact_range(batch: int) -> None:
    """Counted only later, they would leave the exact range then, when nothing can be refused."""
    counter = Counter(Expiring(delay=4), ExpiringDP(1), key=Key.generate(), name="late")
    part = largest_sum(counter.design.strategy) // 4
    for _ in range(4 // batch):
        counter.release_many([part] * batch)
    with pytest.raises(SumOverflowError, match="running total"):
        counter.release(part)
    assert counter.step == 4
    assert counter.release(0).step == 5

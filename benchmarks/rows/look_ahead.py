"""Ten million releases of the look-ahead tree, and one at a time, as of the k-ary tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import OBJECTS, fastest, object_seconds
from benchmarks.row import Row
from counton import Counter, Key, PureDP
from counton.strategies import LookAhead

STEPS = 10**7
SINGLE = 10**5


def measure() -> Iterator[Row]:
    """Measure ten million releases of the look-ahead tree at once, and single releases; yield both
    rows.
    """
    strategy = LookAhead.best(STEPS)
    generator = np.random.default_rng()
    ones = np.ones(STEPS, np.int64)

    def counter() -> Counter:
        return Counter(strategy, PureDP(epsilon=1), key=Key.generate(), name="bench")

    def one_by_one() -> None:
        single = counter()
        for _ in range(SINGLE):
            single.release(1)

    ours, peer = fastest(
        lambda: counter().release_many(ones), lambda: generator.laplace(size=STEPS)
    )
    yield Row(
        f"10^7 releases of {strategy}", ours / peer, 1.6, note="numpy drawing 10^7 Laplace numbers"
    )
    (seconds,) = fastest(one_by_one)
    yield Row(f"10^5 releases of {strategy}, by one", seconds / object_seconds(), 20, note=OBJECTS)

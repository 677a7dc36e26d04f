"""One release at a time: what a call costs on average."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import OBJECTS, fastest, object_seconds
from benchmarks.row import Row
from counton import Counter, Key, PureDP
from counton.strategies import KAry

HORIZON = 10**7
STEPS = 10**5


def measure() -> Iterator[Row]:
    """Measure releases one at a time; yield one row with the mean time."""
    strategy = KAry.best(HORIZON)

    def releases() -> None:
        counter = Counter(strategy, PureDP(epsilon=1), key=Key.generate(), name="bench")
        for _ in range(STEPS):
            counter.release(1)

    (seconds,) = fastest(releases)
    yield Row(f"10^5 releases of {strategy}, by one", seconds / object_seconds(), 20, note=OBJECTS)

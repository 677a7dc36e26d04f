"""A year of hours for 200 groups, with the strategy that plans choose: solved for all of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import OBJECTS, fastest, object_seconds
from benchmarks.row import Row
from counton import Counter, Key, PureDP, plan

STEPS = 8760
GROUPS = 200


def measure() -> Iterator[Row]:
    """Measure a year of hourly releases for 200 groups, at once and hour by hour; yield both
    rows.
    """
    strategy = plan(STEPS, PureDP(epsilon=1)).best.strategy
    ones = np.ones((STEPS, GROUPS), np.int64)

    def counter() -> Counter:
        return Counter(strategy, PureDP(epsilon=1), key=Key.generate(), name="b", shape=(GROUPS,))

    def hourly() -> None:
        single = counter()
        for row in ones:
            single.release(row)

    at_once, by_hour = fastest(lambda: counter().release_many(ones), hourly)
    said = f"8,760 steps of 200 groups, {type(strategy).__name__}"
    each = object_seconds()
    yield Row(f"{said}, at one go", at_once / each, 10, note=OBJECTS)
    yield Row(f"{said}, hour by hour", by_hour / each, 10, note=OBJECTS)

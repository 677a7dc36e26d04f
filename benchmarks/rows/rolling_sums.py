"""Releases of rolling sums without a last step, against those of totals.

Both strategies compute the noise of a step from that of earlier steps. The rolling sum costs one
product of 112 integers a step.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import ZCDP, Counter, Key, Rolling
from counton.strategies import GrowingSquareRoot, StreamStrategy

STEPS = 10**5
WIDTH = 28


def measure() -> Iterator[Row]:
    """Measure 10^5 releases of the last 28 steps; yield the row."""
    ones = np.ones(STEPS, np.int64)

    def releases(strategy: StreamStrategy) -> None:
        counter = Counter(strategy, ZCDP(0.5), key=Key.generate(), name="bench")
        counter.release_many(ones)

    rolling = Rolling(WIDTH).root(None)
    ours, totals = fastest(
        lambda: releases(rolling), lambda: releases(GrowingSquareRoot()), turns=3
    )
    yield Row(
        f"{STEPS:,} releases of the last {WIDTH} steps",
        ours / totals,
        1,
        note="as many totals of an endless stream",
    )

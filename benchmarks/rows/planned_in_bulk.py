"""Ten million numbers of the strategy that plans choose, against as many of numpy's draws.

Each number is drawn from four tables, which takes about as long as numpy's draw, then weighed,
shared out among its block and added up, exactly: 2.4 to 2.6 times numpy's draw. With many cells the
bar is twice as high: noise of every cell is the solution of normal equations over the whole
horizon, rounded correctly by integers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import Counter, Key, PureDP, plan

NUMBERS = 10**7


def measure() -> Iterator[Row]:
    """Measure releases of the planned strategy: one long stream, and a thousand steps of ten
    thousand cells; yield both rows.
    """
    generator = np.random.default_rng()
    for steps, shape, bar in ((NUMBERS, (), 3), (1000, (NUMBERS // 1000,), 6)):
        strategy = plan(steps, PureDP(epsilon=1), shape=shape).best.strategy
        ones = np.ones((steps, *shape), np.int64)

        def releases() -> None:
            counter = Counter(
                strategy,  # noqa: B023 - called before the next
                PureDP(epsilon=1),
                key=Key.generate(),
                name="bench",
                shape=shape,  # noqa: B023
            )
            counter.release_many(ones)  # noqa: B023

        ours, peer = fastest(releases, lambda: generator.laplace(size=NUMBERS))
        cells = f" of {shape[0]:,} cells" if shape else ""
        yield Row(
            f"{steps:,} releases{cells}, {type(strategy).__name__}, as planned",
            ours / peer,
            bar,
            note="numpy drawing 10^7 Laplace numbers",
        )

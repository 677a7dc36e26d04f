"""Ten million private running totals, against numpy drawing ten million Laplace numbers.

Half of the time are sums and copies in memory, which numpy's draws hardly need. So the ratio is .4
on a machine with fast memory, and .65 to .8 where others use the memory, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import Counter, Key, PureDP
from counton.strategies import KAry

STEPS = 10**7


def measure() -> Iterator[Row]:
    """Measure ten million releases of the k-ary tree against numpy's draws; yield one row."""
    strategy = KAry.best(STEPS)
    generator = np.random.default_rng()
    ones = np.ones(STEPS, np.int64)

    def releases() -> None:
        Counter(strategy, PureDP(epsilon=1), key=Key.generate(), name="bench").release_many(ones)

    ours, peer = fastest(releases, lambda: generator.laplace(size=STEPS))
    yield Row(
        f"10^7 releases of {strategy}", ours / peer, 0.9, note="numpy drawing 10^7 Laplace numbers"
    )

"""The ten largest of 100,000 groups at each step, beside the same counter without a ranking.

A ranking with its intervals takes a little longer than the noise of all groups, and the bar leaves
a quarter for a busy machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import Counter, Key, PureDP, RunningStatistic
from counton.statistics import TopK
from counton.strategies import KAry

GROUPS = 10**5
HORIZON = 8760
#: Steps that are timed of the horizon, released at a time, and events in each.
STEPS = 128
AT_ONCE = 64
EVENTS = 1000


def measure() -> Iterator[Row]:
    """Measure a ranking of 100,000 groups at each step, against the same releases without a
    ranking; yield one row.
    """
    statistic = TopK([f"group {number}" for number in range(GROUPS)])
    strategy = KAry.best(HORIZON)
    guarantee = PureDP(epsilon=1)
    cells = np.random.default_rng(1).zipf(1.3, AT_ONCE * EVENTS) % GROUPS
    events = np.array(statistic.groups, dtype=object)[cells]
    stops = np.arange(1, AT_ONCE + 1) * EVENTS
    tallies = statistic.begin().take(events, stops)

    def plain() -> None:
        counter = Counter(
            strategy, guarantee, key=Key.generate(), name="bench", shape=statistic.cells
        )
        for _ in range(STEPS // AT_ONCE):
            counter.release_many(tallies)

    def largest() -> None:
        running = RunningStatistic.start(
            statistic,
            guarantee=guarantee,
            key=Key.generate(),
            name="bench",
            strategy=strategy,
            batched=True,
        )
        for _ in range(STEPS // AT_ONCE):
            readings: Any = running.release_batches(events, stops)
            for reading in readings:
                reading.ranking()

    ours, peer = fastest(largest, plain)
    yield Row(
        f"top 10 of {GROUPS:,} groups, horizon {HORIZON:,}",
        ours / peer,
        2.5,
        note="releases of the same tallies, counted before",
    )

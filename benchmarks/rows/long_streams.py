"""A billion releases: cost of each against a stream of ten million, and peak memory."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Process, process
from benchmarks.row import Row

LONG = 10**9
SHORT = 10**7
WINDOW = 2**18
SEGMENT = 2**20

PROGRAM = f"""
import sys, time
import numpy as np
from counton import Counter, Key, PureDP
from counton.strategies import KAry
steps = int(sys.argv[1])
ones = np.ones({WINDOW}, np.int64)
counter = Counter(KAry.best(steps), PureDP(epsilon=1), key=Key.generate(), name="bench")
counter.release_many(ones)  # builds the law's tables, once
times = [time.process_time()]
while steps - counter.step >= {SEGMENT}:
    for _ in range({SEGMENT // WINDOW}):
        counter.release_many(ones)
    times.append(time.process_time())
print(np.quantile(np.diff(times), 0.1))
"""


def run(steps: int) -> Process:
    """Release ``steps`` steps in a process of its own, which prints the 10% quantile of the time of
    a segment (2^20 steps).
    """
    return process(["-c", PROGRAM, str(steps)])


def measure() -> Iterator[Row]:
    """Measure the cost of a release in a stream of a billion steps, and the memory; yield both
    rows.

    Both streams are measured in turns, because the speed of a machine changes within seconds.
    """
    short_runs: list[Process] = []
    long_runs: list[Process] = []
    for _ in range(2):
        short_runs += [run(SHORT) for _ in range(3)]
        long_runs.append(run(LONG))
    short_cost, long_cost = (
        min(float(each.output) for each in runs) for runs in (short_runs, long_runs)
    )
    yield Row(
        "cost of one of 10^9 releases", long_cost / short_cost, 1.3, note="one of 10^7 releases"
    )
    memory = max(each.peak_megabytes for each in long_runs)
    yield Row("peak memory of 10^9 releases", memory, 200, unit="MB")

"""One release at a time: what a call costs on average."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from benchmarks.measure import OBJECTS, fastest, object_seconds
from benchmarks.row import Row
from counton import Counter, Key, PureDP
from counton.strategies import KAry

HORIZON = 10**7
STEPS = 10**5
#: The hours of a year.
HOURS = 8760


def measure() -> Iterator[Row]:
    """Measure releases one at a time; yield the rows of their mean times."""
    strategy = KAry.best(HORIZON)

    def releases() -> None:
        counter = Counter(strategy, PureDP(epsilon=1), key=Key.generate(), name="bench")
        for _ in range(STEPS):
            counter.release(1)

    (seconds,) = fastest(releases)
    yield Row(f"10^5 releases of {strategy}, by one", seconds / object_seconds(), 20, note=OBJECTS)

    year = KAry.best(HOURS)

    def hours() -> None:
        counter = Counter(year, PureDP(epsilon=1), key=Key.generate(), name="bench")
        for _ in range(HOURS):
            counter.release(1)

    def simple_hours() -> None:
        release = simple_tree(HOURS, epsilon=1)
        for _ in range(HOURS):
            release(1)

    ours, theirs = fastest(hours, simple_hours)
    name = f"{HOURS:,} releases of {year}, by one"
    yield Row(name, ours / theirs, 7, note="an online binary tree in plain Python")


def simple_tree(horizon: int, epsilon: float) -> Callable[[int], float]:
    """Return the release function of an online binary tree, with inexact noise of the process.

    Source: Chan, Shi and Song, "Private and continual release of statistics", algorithm 2.
    """
    levels = horizon.bit_length()
    sums = [0] * levels
    noisy = [0.0] * levels
    step = 0

    def release(count: int) -> float:
        nonlocal step
        step += 1
        level = (step & -step).bit_length() - 1
        sums[level] = sum(sums[:level]) + count
        sums[:level] = [0] * level
        noisy[:level] = [0.0] * level
        rate = epsilon / levels
        noisy[level] = sums[level] + random.expovariate(rate) - random.expovariate(rate)
        return sum(noisy)

    return release

"""Streams without an end: ten million releases, one release late in a stream, and the state."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import Counter, ExpiringDP, Key
from counton.continual.checkpoint import StreamProgress, write_checkpoint
from counton.strategies import Expiring

STEPS = 10**7
CALLS = 10**4
EARLY = 10**3
LATE = 10**9
DELAY = 10**4


def counter_at(step: int, delay: int = 0) -> Counter:
    """Return a counter that has released ``step`` steps: it is resumed from a checkpoint, without
    releasing them.
    """
    key = Key.generate()
    strategy = Expiring(growth=1, delay=delay)
    new = Counter(strategy, ExpiringDP(epsilon=1), key=key, name="bench")
    done = StreamProgress(step, np.array(step), np.zeros(delay, np.int64))
    return Counter.resume(write_checkpoint(new.design.text, key.fingerprint, done), key=key)


def measure() -> Iterator[Row]:
    """Measure streams without an end: speed, time of a late release, and size of the state; yield
    the rows.
    """
    generator = np.random.default_rng()
    ones = np.ones(STEPS, np.int64)
    ours, peer = fastest(
        lambda: counter_at(0).release_many(ones),
        lambda: generator.laplace(size=2 * STEPS),
    )
    yield Row(
        "10^7 releases of Expiring(growth=1)",
        ours / peer,
        1,
        note="numpy drawing 2 * 10^7 Laplace numbers",
    )

    def calls(first: int, delay: int = 0) -> None:
        counter = counter_at(first, delay)
        for _ in range(CALLS):
            counter.release(1)

    early, late, delayed = fastest(
        lambda: calls(EARLY), lambda: calls(LATE), lambda: calls(LATE, DELAY)
    )
    yield Row("one release of Expiring at 10^9", late / early, 2, note="one at 10^3")
    yield Row(f"one release with a delay of {DELAY:,}", delayed / late, 3, note="one without")
    size = len(counter_at(LATE).checkpoint()) / 1000
    yield Row("state of Expiring at 10^9", size, 10, unit="kB")

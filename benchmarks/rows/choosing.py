"""What it takes to choose: a plan without anything remembered, the exact loss by age."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import process
from benchmarks.row import Row

_PLAN = """
import time
from counton import ApproxDP, PureDP, plan
plan(100, {guarantee})  # imports
start = time.process_time()
plan({steps}, {guarantee})
print(time.process_time() - start)
"""

_MANY_STEPS = """
import time
from counton import ApproxDP, Contribution, PureDP, plan
plan(100, {guarantee})  # imports
unit = Contribution.add_remove(steps=100)
start = time.process_time()
plan(10**6, {guarantee}, contribution=unit)
print(time.process_time() - start)
"""

_LOSS = """
import time
import numpy as np
from counton.privacy import expiration_loss
from counton.strategies import Expiring
ages = [*np.unique(np.geomspace(1, 10**6, 60).astype(int)), 10**18, 2**62]
start = time.process_time()
for growth in ("1.1", "2.2", "3.3"):
    expiration_loss(Expiring(growth), ages)
print((time.process_time() - start) / 3)
"""


def _seconds(program: str) -> float:
    """The least of what fresh processes print."""
    return min(float(process(["-c", program]).output) for _ in range(5))


def measure() -> Iterator[Row]:
    """Yield the rows."""
    for guarantee, bar in (("PureDP(1)", 0.5), ("ApproxDP(1, 1e-9)", 3)):
        for steps in (8760, 10**9):
            seconds = _seconds(_PLAN.format(guarantee=guarantee, steps=steps))
            yield Row(f"plan of {steps:,} steps, {guarantee}", seconds, bar, unit="s")
        seconds = _seconds(_MANY_STEPS.format(guarantee=guarantee))
        name = f"plan of 10^6 steps, a unit in at most 100, {guarantee}"
        yield Row(name, seconds, 5, unit="s")
    yield Row("exact expiration loss at 62 ages up to 2^62", _seconds(_LOSS), 5, unit="s")

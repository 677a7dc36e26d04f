"""What it takes to choose: a plan without anything remembered, the exact loss by age."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import OBJECTS, object_seconds, process
from benchmarks.row import Row

_PLAN = """
import time
from counton import ApproxDP, PureDP, ZCDP, plan
plan(100, {guarantee})  # imports
start = time.process_time()
plan({steps}, {guarantee})
print(time.process_time() - start)
"""

_MANY_STEPS = """
import time
from counton import ApproxDP, ContributionBound, PureDP, plan
plan(100, {guarantee})  # imports
unit = ContributionBound.add_remove(steps=100)
start = time.process_time()
plan(10**6, {guarantee}, contribution=unit)
print(time.process_time() - start)
"""

_WORST = """
import time
from counton import ApproxDP, ContributionBound, PureDP, ZCDP, plan
plan(100, {guarantee})  # imports
unit = ContributionBound.add_remove({often})
start = time.process_time()
plan({steps}, {guarantee}, contribution=unit)
print(time.process_time() - start)
"""

#: Plans that take longest: steps, guarantee, how often a unit counts.
_LONGEST = (
    ("8760", "ApproxDP(1, 1e-6)", "steps=30"),
    ("65536", "ApproxDP(1, 1e-6)", "every=2"),
    ("10**6", "ApproxDP(1, 1e-6)", "steps=1000"),
    ("2**20", "ZCDP(0.5)", ""),
    ("10**9", "ApproxDP(1, 1e-6)", "steps=1000"),
    ("10**9", "PureDP(1)", "steps=1000"),
    ("2**62", "ZCDP(1)", "steps=100, separation=5"),
)

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


def _in_objects(program: str, turns: int = 5) -> float:
    """Run a program in several new processes; return the least number of seconds that it prints, as
    a multiple of `object_seconds`.
    """
    return min(float(process(["-c", program]).output) for _ in range(turns)) / object_seconds()


def measure() -> Iterator[Row]:
    """Measure the time to plan a stream, and to compute exact losses by age; yield the rows."""
    for guarantee, bar in (("PureDP(1)", 2.5), ("ApproxDP(1, 1e-9)", 15)):
        for steps in (8760, 10**9):
            times = _in_objects(_PLAN.format(guarantee=guarantee, steps=steps))
            yield Row(f"plan of {steps:,} steps, {guarantee}", times, bar, note=OBJECTS)
        times = _in_objects(_MANY_STEPS.format(guarantee=guarantee))
        name = f"plan of 10^6 steps, a unit in at most 100, {guarantee}"
        yield Row(name, times, 25, note=OBJECTS)
    # Square roots of this horizon: their errors are computed without Fourier transforms.
    times = _in_objects(_PLAN.format(guarantee="ZCDP(0.5)", steps=10**6))
    yield Row("plan of 1,000,000 steps, ZCDP(0.5)", times, 4, note=OBJECTS)
    worst, name = max(
        (
            _in_objects(_WORST.format(steps=steps, guarantee=guarantee, often=often), turns=2),
            f"plan of {steps} steps, {guarantee}, {often or 'one step a unit'}",
        )
        for steps, guarantee, often in _LONGEST
    )
    yield Row(f"{name}: the longest of {len(_LONGEST)}", worst, 30, note=OBJECTS)
    yield Row("exact expiration loss at 62 ages up to 2^62", _in_objects(_LOSS), 25, note=OBJECTS)

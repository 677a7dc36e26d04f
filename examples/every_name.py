"""Every name of ``import counton``, used as a program uses it: ``python -m examples.every_name``.

mypy and pyright, in their strict modes, find nothing in it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, assert_type

import polars as pl

import counton as ct
from counton.run import Inspection, export
from counton.statistics import Reading, Statistic
from counton.strategies.trees import Tree

#: For each statistic events of one step.
EVENTS: list[tuple[Statistic, Sequence[object]]] = [
    (ct.Average(0, 180, "0.5"), [12, 7.5, 30]),
    (ct.Contingency({"member": ["no", "yes"], "age": ["young", "old"]}), [("no", "old")]),
    (ct.Count(unit="visit"), ["home", "shop"]),
    (ct.Cuts(["ann", "bob", "cyd"]), [("ann", "bob")]),
    (ct.Degrees(3), [("ann", "bob")]),
    (ct.Distinct(), ["ann", "bob", "ann"]),
    (ct.Edges(), [("ann", "bob")]),
    (ct.Episodes("ABC", longest=2), ["A"]),
    (ct.Forest(largest=10), [("ann", "bob", 4)]),
    (
        ct.Hierarchy(
            Tree.from_leaves({"region": ["N", "N"], "city": ["a", "b"]}, ["region", "city"])
        ),
        [("N", "a")],
    ),
    (ct.Moments({"price": (0, 100), "sold": (0, 20)}), [(20, 14), (40, 10)]),
    (ct.Quantiles(lower=0, upper=120, cells=24), [10, 30, 80]),
    (ct.Ranges([f"{hour:02}" for hour in range(24)], name="hour"), ["07", "23"]),
    (ct.Stars(degree=5, leaves=2), [("ann", "bob")]),
    (ct.Substrings("ABC", longest=2), ["B"]),
    (ct.Sum(lower=0, upper=5, resolution=1), [3, 5]),
    (ct.TopK(["home", "shop", "help"], k=2), ["home"]),
    (ct.Triangles(degree=5), [("ann", "bob")]),
]


def in_memory(key: ct.Key) -> int:
    """Plans, guarantees, a counter and every statistic; no state is kept."""
    best = ct.plan(365, ct.ApproxDP(1, 1e-9), "max").best.strategy
    unit = ct.Contribution.events(2, unit="visit")
    with_noise = ct.Counter(best, ct.ZCDP("0.5"), key=key, name="visits", contribution=unit)
    last = with_noise.release(3)
    assert_type(last.interval(level=0.99), tuple[Any, Any])
    for statistic, events in EVENTS:
        running = ct.Running.start(
            statistic, 9, ct.PureDP(1), key=key, name=str(statistic), batched=True
        )
        assert_type(running.release_batch(events), Reading)
    cells = ct.plan_cells((2, 8), epsilon=1).best.strategy
    fading = ct.plan_expiring({1: 1, 365: 3}, steps=1000)
    promises = {str(one) for one in (ct.ExpiringDP(1), ct.ExpiringZCDP(0.1), fading, cells)}
    return len(promises) + last.step


def from_rows(folder: Path) -> ct.Release:
    """What a night does with rows, and what readers do with its releases."""
    days = [date(2024, 1, 1) + timedelta(days=day) for day in range(60)]
    visits = pl.DataFrame({"day": days * 20, "reader": [f"r{n % 90}" for n in range(1200)]})
    seen = ct.inspect(visits, user="reader", state=folder / "look.db", epsilon=1)
    assert_type(seen, Inspection)
    job = ct.init(
        visits, time="day", every="1d", timezone="UTC", start=days[0], steps=365, epsilon=1,
        unit="visit", until="newest",
    )  # fmt: skip
    assert_type(job, ct.Job)
    counts = ct.release(
        "count", visits, time="day", every=timedelta(days=1), start=days[0], steps=365,
        until="2024-03-01", epsilon=1, unit="visit", release="windows", name="visits",
        state=folder / "visits.db",
    )  # fmt: skip
    export(folder / "visits.db", folder / "visits.csv")
    assert ct.read(folder / "visits.csv").table().height == counts.table().height
    assert ct.watch(counts, false_alarms=0.1).newest in (True, False)
    with ct.Stream.open(folder / "visits.db", "visits") as stream:
        assert stream.step == 60
    try:
        ct.nowcast(counts)
    except ct.CountonError as wrong:  # windows that are released once need no forecast
        print(wrong)
    return counts


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        print(in_memory(ct.Key.generate()), from_rows(Path(place)))

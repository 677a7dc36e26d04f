"""Every name of ``import counton``, used as a program uses it: ``python -m examples.every_name``.

mypy and pyright, in their strict modes, find nothing in it.
"""

import tempfile
from pathlib import Path

import polars as pl

import counton as ct
from counton.statistics import Statistic
from counton.tables import Tree

CITIES = Tree.from_leaves({"region": ["N", "N"], "city": ["a", "b"]}, ["region", "city"])
#: Events, and the statistics that count each.
EVENTS: list[tuple[object, list[Statistic]]] = [
    (7.5, [ct.Average(0, 180, "0.5"), ct.Quantiles(lower=0, upper=120, cells=24)]),
    (3, [ct.Sum(lower=0, upper=5, resolution=1)]),
    ("May", [ct.Count(), ct.Ranges(["May", "June"], name="month"), ct.TopK(["May", "June"], k=1)]),
    ("A", [ct.Distinct(), ct.Episodes("ABC", longest=2), ct.Substrings("ABC", longest=2)]),
    ((20, 14), [ct.Moments({"price": (0, 100), "sold": (0, 20)})]),
    (("no", "old"), [ct.Contingency({"member": ["no", "yes"], "age": ["young", "old"]})]),
    (("N", "a"), [ct.Hierarchy(CITIES)]),
    (("ann", "bob"), [ct.Cuts(["ann", "bob"]), ct.Degrees(3), ct.Edges()]),
    (("ann", "bob"), [ct.Stars(degree=5, leaves=2), ct.Triangles(degree=5)]),
    (("ann", "bob", 4), [ct.Forest(largest=10)]),
]


def in_memory(key: ct.Key) -> None:
    best = ct.plan(365, ct.ApproxDP(1, 1e-9), "max").best
    two = ct.ContributionBound.events(2)
    counter = ct.Counter(best.strategy, ct.ZCDP(1), key=key, name="visits", contribution=two)
    print(counter.release(3).interval(confidence_level=0.99), ct.plan_cells((2, 8), epsilon=1).best)
    print(ct.ExpiringDP(1), ct.ExpiringZCDP(0.1), ct.plan_expiring({1: 1, 365: 3}, steps=1000))
    for sums in (ct.Rolling(7), ct.Decayed(half_life=7), ct.Stack({1: 1, 7: 1})):
        print(ct.plan(365, ct.ZCDP(1), workload=sums).best)
    start = ct.RunningStatistic.start
    for event, statistics in EVENTS:
        for one in statistics:
            running = start(one, 9, ct.PureDP(1), key=key, name=str(one), batched=True)
            print(running.release_batch([event]))


def from_rows(folder: Path) -> ct.Release:
    days = [f"2024-01-{day:02}" for day in range(1, 31)]
    visits = pl.DataFrame({"day": days, "reader": ["ann", "bob"] * 15})
    job = ct.Job("count", visits, folder / "v.db", time="day", until="latest-event")
    released = ct.release(
        "count", visits, time="day", every="1d", start="2024-01-01", windows=365, epsilon=1,
        privacy_unit="visit", until="latest-event", stream="visits", state=folder / "v.db",
        output=folder / "v.csv",
    )  # fmt: skip
    with ct.Stream.open(folder / "v.db", "visits") as stream:
        print(job.statistic, stream.step, ct.read(folder / "v.csv").steps)
    try:
        ct.read(folder / "none.csv")
    except ct.CountonError as error:
        print(error)
    return released


if __name__ == "__main__":
    in_memory(ct.Key.generate())
    with tempfile.TemporaryDirectory() as place:
        from_rows(Path(place))

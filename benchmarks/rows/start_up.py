"""What commands that compute little cost, against a process which only imports numpy."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import process
from benchmarks.row import Row

TURNS = 9
PLAN = ["-m", "counton", "plan", "--steps", "365", "--epsilon", "1"]
COUNT = [
    *("--time", "time", "--every", "1h", "--start", "2013-01-01", "--steps", "100"),
    *("--by", "group", "--domain", "a,b", "--epsilon", "1", "--until", "newest"),
]


def measure() -> Iterator[Row]:
    """Yield the rows."""
    help_seconds, plan_seconds, count_seconds, numpy_seconds = [], [], [], []
    for _ in range(TURNS):
        help_seconds.append(process(["-m", "counton", "--help"]).cpu_seconds)
        plan_seconds.append(process(PLAN).cpu_seconds)
        count_seconds.append(first_count())
        numpy_seconds.append(process(["-c", "import numpy"]).cpu_seconds)
    for name, seconds, bar in (
        ("counton --help", help_seconds, 2.5),
        ("counton plan, 365 steps", plan_seconds, 6),
        ("the first counton count, ten rows", count_seconds, 10.5),
    ):
        ratio = min(seconds) / min(numpy_seconds)
        yield Row(f"{name}, whole process", ratio, bar, note='python -c "import numpy"')


def first_count() -> float:
    """CPU seconds of a count of ten rows in a folder where nothing was released."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = "".join(f"2013-01-01T0{hour}:10,{'ab'[hour % 2]}\n" for hour in range(10))
        (folder / "events.csv").write_text(f"time,group\n{rows}")
        kept = ["--state", str(folder / "state.db"), "--out", str(folder / "out.csv")]
        words = ["-m", "counton", "count", str(folder / "events.csv"), *COUNT, *kept]
        return process(words).cpu_seconds

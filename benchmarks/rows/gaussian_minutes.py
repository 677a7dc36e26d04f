"""Runs of a stream of a million minutes with Gaussian noise, against the same with Laplace noise.

Gaussian noise comes from the normalised square root. It is computed for all earlier windows, and so
are its variances. Laplace noise comes from a strategy whose steps are computed on their own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.measure import Process, process
from benchmarks.row import Row

WINDOWS = 10**6
MINUTES = 500_000
ROWS = 300_000
TURNS = 2
#: What is measured: the last minute of each run, and the largest ratio of CPU time.
RUNS = {
    "first run": ("2024-06-01", 1.5),
    "a day later": ("2024-06-02", 1.43),
    "a minute later": ("2024-06-02T00:01", 1.4),
}


def measure() -> Iterator[Row]:
    """Measure three runs with either noise; yield the rows of CPU time and of peak memory."""
    with tempfile.TemporaryDirectory() as name:
        events = _events(Path(name))
        gaussian = [_runs(events, "--rho", ".5") for _ in range(TURNS)]
        laplace = [_runs(events, "--epsilon", "1") for _ in range(TURNS)]
    for place, (run, (_, bar)) in enumerate(RUNS.items()):
        seconds = min(turn[place].cpu_seconds for turn in gaussian)
        simple_seconds = min(turn[place].cpu_seconds for turn in laplace)
        what = f"{WINDOWS:,} windows of a minute, Gaussian, {run}"
        yield Row(what, seconds / simple_seconds, bar, note="the same with Laplace noise")
    most = max(used.peak_megabytes for turn in gaussian for used in turn)
    yield Row(f"{WINDOWS:,} windows of a minute, Gaussian, memory", most, 320, unit="MB")


def _events(folder: Path) -> str:
    """Write random events to a file; return its path."""
    seconds = np.sort(np.random.default_rng(1).integers(0, 60 * MINUTES, ROWS))
    times = np.datetime64("2024-01-01T00:00:00") + seconds.astype("timedelta64[s]")
    path = folder / "events.csv"
    path.write_text("time\n" + "\n".join(times.astype(str).tolist()) + "\n")
    return str(path)


def _runs(events: str, *guarantee: str) -> list[Process]:
    """Release the windows of all `RUNS` with a new state; return what each run used."""
    with tempfile.TemporaryDirectory() as name:
        words = [
            *("-m", "counton", "release", "count", events, "--time", "time", "--every", "1m"),
            *("--start", "2024-01-01", "--windows", str(WINDOWS), "--allow-empty-windows"),
            *("--privacy-unit", "visit", "--state", str(Path(name, "state.db")), *guarantee),
        ]
        return [process([*words, "--until", until]) for until, _ in RUNS.values()]

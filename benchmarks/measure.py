"""CPU time, measured so that a busy machine slows both sides of a ratio alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

Work = Callable[[], object]


class Process(NamedTuple):
    """What one child process used."""

    cpu_seconds: float
    peak_megabytes: float
    output: str


def cpu_seconds(work: Work) -> float:
    """CPU seconds of this process, all threads, for one call of ``work``."""
    start = time.process_time()
    work()
    return time.process_time() - start


def interleaved(*works: Work, repetitions: int = 5) -> tuple[float, ...]:
    """Median CPU seconds of each ``work``: run in turns, after one turn which does not count."""
    for work in works:
        work()
    turns = [[cpu_seconds(work) for work in works] for _ in range(repetitions)]
    return tuple(statistics.median(times) for times in zip(*turns, strict=True))


def process(arguments: Sequence[str]) -> Process:
    """Run Python with ``arguments`` to its end and say what it used, start-up included."""
    child = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child.stdout:
        output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with exit code {child.returncode}")
    kilobytes = usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return Process(usage.ru_utime + usage.ru_stime, kilobytes / 1024, output)

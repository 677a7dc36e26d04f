"""CPU time, measured so that a busy machine changes little.

Other programs on a machine mostly lengthen the time that code takes, so the fastest of many turns
is close to the code's own time. On a machine with three times more to do than cores, most figures
of short functions repeat within 5%, the worst within 16%; figures of functions that take half a
second or use large arrays repeat within 50%.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

Work = Callable[[], object]


#: The note of a figure that is a multiple of `object_seconds`.
OBJECTS = "10^6 objects made in Python"


class Process(NamedTuple):
    """The resources that one child process used, and its output."""

    cpu_seconds: float
    peak_megabytes: float
    output: str


def cpu_seconds(work: Work) -> float:
    """Call ``work`` once; return the CPU seconds of this process, over all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def fastest(*works: Work, turns: int = 9, seconds: float = 6) -> tuple[float, ...]:
    """Return the least CPU seconds of each of several functions, called in turns.

    A first turn is not measured.

    Args:
        works: functions without arguments.
        turns: least number of turns.
        seconds: turns go on until all calls together have used this CPU time.
    """
    for work in works:
        work()
    least = [math.inf] * len(works)
    used = 0.0
    done = 0
    while done < turns or used < seconds:
        times = [cpu_seconds(work) for work in works]
        least = [min(pair) for pair in zip(least, times, strict=True)]
        used = used + sum(times)
        done = done + 1
    return tuple(least)


class _Made:
    def __init__(self, number: int) -> None:
        self.number = number

    def add(self, more: int) -> int:
        return self.number + more


def object_seconds() -> float:
    """Return the CPU seconds of making a million objects, measured now: on a slower or busier
    machine, code of Python takes longer by about as much.
    """

    def make() -> None:
        for number in range(10**6):
            _Made(number).add(1)

    return fastest(make, seconds=1)[0]


def process(arguments: Sequence[str]) -> Process:
    """Run Python with these arguments to its end; return the resources used, including its start.

    Compiled modules are kept, as after an installation.
    """
    # By way of a small process: a child's peak memory begins with that of the process it is
    # started from, and this one may hold large arrays.
    done = subprocess.run(
        [sys.executable, "-S", "-c", _LAUNCHER, sys.executable, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
    )
    used = json.loads(done.stdout)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return Process(used["cpu_seconds"], used["peak"] / unit, used["output"])


_LAUNCHER = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime
print(json.dumps({"cpu_seconds": seconds, "peak": used.ru_maxrss, "output": done.stdout}))
"""

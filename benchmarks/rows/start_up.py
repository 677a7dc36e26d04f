"""What `counton --help` costs, against a process which only imports numpy."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import process
from benchmarks.row import Row

TURNS = 9


def measure() -> Iterator[Row]:
    """Yield the row."""
    help_seconds, numpy_seconds = [], []
    for _ in range(TURNS):
        help_seconds.append(process(["-m", "counton", "--help"]).cpu_seconds)
        numpy_seconds.append(process(["-c", "import numpy"]).cpu_seconds)
    ratio = min(help_seconds) / min(numpy_seconds)
    yield Row("counton --help, whole process", ratio, 2.5, note='python -c "import numpy"')

"""What commands that compute little cost, against a process which only imports libraries.

Each run reads its rows, also if it finds nothing new, so runs are compared with a process that
imports numpy and polars. Other commands do not load polars, and are compared with numpy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import process
from benchmarks.row import Row

TURNS = 9
PLAN = ["-m", "counton", "plan", "--windows", "365", "--epsilon", "1"]
COUNT = [
    *("--time", "time", "--every", "1h", "--start", "2013-01-01", "--windows", "100"),
    *("--group-by", "group", "--groups", "a,b", "--epsilon", "1", "--until", "latest-event"),
]


def measure() -> Iterator[Row]:
    """Measure the CPU time of short commands, each in a new process; yield the rows."""
    with tempfile.TemporaryDirectory() as name:
        nightly = nightly_job(Path(name), "nightly")
        people = nightly_job(
            Path(name),
            "people",
            "--user",
            "user",
            "--max-contributions",
            "1",
            "--contribution-period",
            "1d",
        )
        table = nightly_job(Path(name), "table", "--output", str(Path(name) / "table.csv"))
        commands = {
            "import counton": ["-c", "import counton"],
            "counton --help": ["-m", "counton", "--help"],
            "counton plan, 365 steps": PLAN,
            "counton run, nothing new": ["-m", "counton", "run", nightly],
            "counton run, nothing new, of bounded people": ["-m", "counton", "run", people],
            "counton run, nothing new, with a table": ["-m", "counton", "run", table],
        }
        seconds: dict[str, list[float]] = {one: [] for one in (*commands, FIRST, NUMPY, POLARS)}
        for _ in range(TURNS):
            for one, words in commands.items():
                seconds[one].append(process(words).cpu_seconds)
            seconds[FIRST].append(first_count())
            for imports in (NUMPY, POLARS):
                seconds[imports].append(process(["-c", imports]).cpu_seconds)
    for one, (bar, imports) in BARS.items():
        ratio = min(seconds[one]) / min(seconds[imports])
        yield Row(f"{one}, whole process", ratio, bar, note=f'python -c "{imports}"')


NUMPY = "import numpy"
POLARS = "import numpy, polars"
FIRST = "the first counton release count, ten rows"
#: The bar of each command, and the process that it is compared with.
BARS = {
    "import counton": (0.4, NUMPY),
    "counton --help": (1.5, NUMPY),
    "counton plan, 365 steps": (4.5, NUMPY),
    "counton run, nothing new": (2.4, POLARS),
    "counton run, nothing new, of bounded people": (2.4, POLARS),
    "counton run, nothing new, with a table": (2.4, POLARS),
    FIRST: (2.6, POLARS),
}


def events_in(folder: Path) -> str:
    """Write a file of ten rows into a folder; return its path."""
    rows = "".join(
        f"2013-01-01T0{hour}:10,{'ab'[hour % 2]},{'xyz'[hour % 3]}\n" for hour in range(10)
    )
    (folder / "events.csv").write_text(f"time,group,user\n{rows}")
    return str(folder / "events.csv")


def first_count() -> float:
    """Return the CPU seconds of a first count of ten rows in a new folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kept = ["--state", str(folder / "state.db"), "--output", str(folder / "out.csv")]
        words = ["-m", "counton", "release", "count", events_in(folder), *COUNT, *kept]
        return process(words).cpu_seconds


def nightly_job(folder: Path, name: str, *more: str) -> str:
    """Write a job file, and release all windows that have ended; return the file's path.

    Args:
        folder: folder of the file.
        name: name of the job file and its state.
        more: further options of the job.
    """
    job = str(folder / f"{name}.toml")
    kept = ["--state", str(folder / f"{name}.db"), "--save-job", job]
    process(["-m", "counton", "release", "count", events_in(folder), *COUNT, *more, *kept])
    process(["-m", "counton", "run", job])
    return job

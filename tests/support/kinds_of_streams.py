"""Released files of every kind of stream."""

from pathlib import Path
from typing import Any

from every_statistic import OWN, TABLES, made

from counton.run import Job, run
from counton.run.written_files import write_release

NAMES = (*OWN, *TABLES)
#: More kinds of streams than those of each statistic, by a name.
MORE: dict[str, dict[str, Any]] = {
    "windows by group": {"release": "windows", "by": "page", "domain": "home,shop"},
    "both by group": {"release": "both", "by": "page", "domain": "home,shop"},
    "people": {"user": "user", "most": 2, "per": "1d"},
    "ids": {"id": "id", "append": True},
    "found groups": {"by": "page", "unknown": "discover", "delta": 1e-6},
    "rho": {"epsilon": None, "rho": 0.5},
    "revised": {"revise": "2h", "append": True, "steps": None},
    "expiring": {"expire": True, "steps": None},
    "endless": {"epsilon": None, "rho": 50, "steps": None, "around": 20},
}


def job_of(name: str, folder: Path) -> Job:
    """The job of a kind of stream over the rows of every statistic."""
    if name not in MORE:
        job = made(name, folder)
    else:
        job = made("count", folder).having(**{"strategy": "auto", **MORE[name]})
    return job.having(witness="none")


def make(folder: Path) -> None:
    """Release once of each kind of stream, into a folder of its name."""
    for name in (*NAMES, *MORE):
        place = folder / name
        place.mkdir()
        with run(job_of(name, place)) as outcome:
            write_release(outcome.read().numbers, place / "released.parquet")

"""States and released files as a version wrote them, kept for the versions after it.

``python tests/support/corpus.py`` makes those of this version, at a release alone; a folder that is
there is never made again.
"""

from __future__ import annotations

import io
import json
import lzma
import sys
import tarfile
from pathlib import Path
from typing import Any

from every_statistic import OWN, TABLES, made
from folders import job_folder

from counton import PureDP
from counton.released.release import Release
from counton.run import Job, run
from counton.run.written_files import write_release
from counton.state import Store, ledger_rows, schema
from counton.state.backup import compact

CORPUS = Path(__file__).parents[1] / "corpus"
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
    "corrected": {"revise": "2h", "append": True, "steps": None, "id": "id", "corrections": 2},
    "expiring": {"expire": True, "steps": None},
    "endless": {"epsilon": None, "rho": 50, "steps": None, "around": 20},
    "in order": {},
}


def job_of(name: str, folder: Path) -> Job:
    """The job of a kind of stream over the rows of every statistic."""
    if name not in MORE:
        job = made(name, folder)
    else:
        what = "edges" if name == "in order" else "count"
        job = made(what, folder).having(**{"strategy": "auto", **MORE[name]})
    return job.having(witness="none")


def rows_of(released: Release) -> list[dict[str, Any]]:
    """A table as JSON values."""
    found: list[dict[str, Any]] = json.loads(released.table().write_json())
    return found


def make(folder: Path) -> None:
    """Make states with a released file and its numbers, each in a folder of its name."""
    for name in (*NAMES, *MORE):
        place = folder / name
        place.mkdir()
        job = job_of(name, place)
        with run(job) as outcome:
            released = outcome.read()
            write_release(released.numbers, place / "released.parquet")
            (place / "numbers.json").write_text(json.dumps(rows_of(released)))
    ledger = folder / "ledger"
    ledger.mkdir()
    with Store(ledger / "ledger.db", create=True) as store:
        store.set_limit(PureDP(3))
        store.set_quota("sales", PureDP(2))
    job = job_of("count", ledger).having(ledger=ledger / "ledger.db", party="sales")
    with run(job) as outcome:
        (ledger / "numbers.json").write_text(json.dumps(rows_of(outcome.read())))


def pack(folder: Path, archive: Path) -> None:
    """Write a folder into an archive, in the same order whoever does it."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.endswith(("-wal", "-shm")):
                tar.add(path, path.relative_to(folder), filter=_plain)
    archive.write_bytes(lzma.compress(held.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def unpack(archive: Path, folder: Path) -> None:
    """Write an archive's files into a folder, with the rights that states and keys have."""
    held = io.BytesIO(lzma.decompress(archive.read_bytes()))
    with tarfile.open(fileobj=held) as tar:
        tar.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


if __name__ == "__main__":
    target = CORPUS / str(schema.FORMAT)
    if target.exists():
        sys.exit(f"{target} is there: what a version wrote is never changed")
    right = ledger_rows.stamp
    ledger_rows.stamp = lambda column: {**right(column), "who": "ann", "host": "box"}
    with job_folder() as made_in:
        make(Path(made_in))
        for state in Path(made_in).rglob("*.db"):
            compact(state)
        target.mkdir(parents=True)
        pack(Path(made_in), target / "states.tar.xz")

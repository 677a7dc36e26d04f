"""A state of this version for later ones, in ``tests/corpus/VERSION``: ``python -m tools.corpus``.

The folder has a small state (``state.db.xz``) with streams of several kinds, its key, its witness,
the rows of the next night, and in ``about.json`` the version, all format numbers, and the tables
that each stream shows before and after that night. ``tests/state/test_corpus.py`` lets the present
version read every such state and run that night.

Run this command after a change of a format, which also changes the version. The state of a
development version is replaced; one of a release stays as it is.
"""

from __future__ import annotations

import csv
import json
import lzma
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import counton
from counton import ApproxDP, PureDP
from counton.continual import checkpoint, design
from counton.noise import InsecureKeyWarning, InsecureSeededKey, encryption, key
from counton.results import metadata_codec
from counton.run import Job, run
from counton.run.close_stream import close_stream
from counton.run.notes import annotate
from counton.state import Store, schema
from counton.statistics import live_statistic
from counton.training import noise as training_noise

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "corpus"
#: Nights that the state has seen. The rows of the next one are kept beside it.
NIGHTS = 4
#: The folder that the state and its witness name; whoever runs them names another.
_PLACE = "/corpus"
_PAGES = ("home", "shop", "help")
_WINDOWS = {"time": "time", "every": "1d", "start": "2024-03-01", "windows": 365}
_GROUPS = {"group_by": "page", "groups": ",".join(_PAGES), "unlisted_groups": "drop"}
#: What defines each stream. Together they have rows in every table of a state.
STREAMS: dict[str, dict[str, Any]] = {
    "visitors": {
        "what": "count", **_WINDOWS, **_GROUPS, "append": True, "epsilon": 5,
        "user": "who", "max_contributions": 2, "contribution_period": "1d",
        "privacy_unit": "visitor",
    },
    "orders": {
        "what": "sum", **_WINDOWS, "append": True, "value": "paid", "lower": 0, "upper": 9,
        "resolution": "0.5", "row_id": "number", "epsilon": 2, "privacy_unit": "order",
    },
    "found": {
        "what": "count", **_WINDOWS, "group_by": "page", "unlisted_groups": "discover",
        "append": True,
        "epsilon": 20, "delta": "1e-6", "privacy_unit": "order",
    },
    "revised": {
        "what": "count", **_WINDOWS, **_GROUPS, "allowed_lateness": "2d", "rho": "0.5",
        "privacy_unit": "order",
    },
    "ranges": {
        "what": "ranges", "label": "page", "groups": ",".join(_PAGES), "unlisted_groups": "drop",
        "epsilon": 1, "privacy_unit": "order",
    },
    "ended": {"what": "count", **_WINDOWS, "append": True, "epsilon": 1, "privacy_unit": "order"},
}  # fmt: skip


def formats() -> dict[str, Any]:
    """Return the number or name of every format that counton writes."""
    return {
        "state": schema.FORMAT,
        "checkpoint": checkpoint._FORMAT,
        "noise": [design.FORMAT, design._RECALIBRATED_FORMAT],
        "stored noise": encryption._PURPOSE.decode(),
        "key": key._MAGIC,
        "released table": metadata_codec.FORMAT,
        "statistic in memory": live_statistic._FORMAT,
        "noise of training": training_noise.FORMAT,
        "state of training": training_noise.STATE_FORMAT,
    }


def write_rows(folder: Path, night: int) -> None:
    """Write the rows of one night, ``rows/NIGHT/new.csv``, and all up to it, ``all.csv``."""
    chance = random.Random(2024)  # noqa: S311 - rows of examples
    every = []
    for day in range(1, night + 1):
        new = []
        for number in range(40):
            page = chance.choice([*_PAGES, *_PAGES, "rare"] if number % 9 == 8 else _PAGES)
            time = f"2024-03-{day:02}T{chance.randrange(24):02}:30:00"
            paid = chance.randrange(19) / 2
            new.append((time, page, f"user {chance.randrange(12)}", paid, f"{day}-{number}"))
        every += new
    place = folder / "rows" / str(night)
    place.mkdir(parents=True)
    for name, rows in (("new.csv", new), ("all.csv", every)):
        with open(place / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("time", "page", "who", "paid", "number"), *rows])


def job_of(folder: Path, name: str, options: Mapping[str, Any], night: int) -> Job:
    """Return the job of a stream for one night."""
    asked: dict[str, Any] = dict(options)
    what = asked.pop("what")
    asked["key"] = folder / "state.db.key"
    asked["rollback_guard"] = folder / "witness"
    file = "new.csv" if asked.get("append") else "all.csv"
    if "time" in asked:
        asked["until"] = f"2024-03-{night + 1:02}"
    events = folder / "rows" / str(night) / file
    return Job(what, events, folder / "state.db", stream=name, **asked)


def run_night(
    folder: Path, name: str, options: Mapping[str, Any], night: int
) -> list[dict[str, Any]]:
    """Run a stream's job for one night; return its table as JSON values."""
    with run(job_of(folder, name, options, night)) as outcome:
        table = outcome.read().table()
    found: list[dict[str, Any]] = json.loads(json.dumps(table.to_dicts(), default=str))
    return found


@contextmanager
def _nobody() -> Iterator[None]:
    """Within the ``with`` block, let the ledger note no name of a user or a machine."""
    nobody = {"who": "corpus", "host": "corpus"}
    ledger = "counton.state.ledger_rows"
    with patch(f"{ledger}.stamp", lambda column: {column: "2024-03-01T00:00:00+00:00", **nobody}):
        yield


def build(folder: Path) -> None:
    """Build the state of this version, with all that belongs to it, in an empty folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InsecureKeyWarning)
        InsecureSeededKey.from_bytes(bytes(range(32))).save(folder / "state.db.key")
    (folder / "witness").mkdir()
    with _nobody():
        with Store(folder / "state.db", create=True) as store:
            store.set_budget(ApproxDP(1000, "1/100"))
            store.set_budget(ApproxDP(500, "1/100"))
            store.add_spend("survey of 2023", PureDP("1/2"), unit="order")
        for night in range(1, NIGHTS + 1):
            write_rows(folder, night)
            for name, options in STREAMS.items():
                if night == 1 or name != "ranges":
                    run_night(folder, name, options, night)
    annotate(folder / "state.db", "2024-03-02", "a page was down", stream="revised")
    close_stream(folder / "state.db", "ended", drop_waiting=True, withdrawn="counted twice")


def main() -> None:
    """Write the state of this version."""
    version = counton.__version__
    target = FOLDER / version
    if target.exists() and "dev" not in version:
        raise SystemExit(f"{target} is the state of a release: change the version, and keep it")
    folder = Path(tempfile.gettempdir()) / "counton-corpus"
    finished = folder.with_name(f"{folder.name}-finished")
    folder.mkdir()
    try:
        build(folder)
        shutil.copytree(folder, finished)
        write_rows(folder, NIGHTS + 1)
        kept = {name: options for name, options in STREAMS.items() if name != "ended"}
        shown = []
        for night in (NIGHTS, NIGHTS + 1):  # a night that was counted shows its table again
            shown.append({name: run_night(folder, name, kept[name], night) for name in kept})
            shutil.copytree(
                folder / "rows" / str(night), finished / "rows" / str(night), dirs_exist_ok=True
            )
        for night in range(1, NIGHTS):
            shutil.rmtree(finished / "rows" / str(night))
        about = {
            "version": version,
            "formats": formats(),
            "nights": NIGHTS,
            "streams": kept,
            "before": shown[0],
            "after": shown[1],
        }
        text = json.dumps(about, indent=1, sort_keys=True)
        (finished / "about.json").write_text(f"{text}\n", encoding="utf-8")
        with closing(sqlite3.connect(finished / "state.db")) as connection:
            connection.execute("UPDATE counton_database SET witness = ?", [f"{_PLACE}/witness"])
            connection.commit()
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for path in (finished / "witness").iterdir():
            path.write_text(path.read_text("utf-8").replace(str(folder), _PLACE), "utf-8")
        content = (finished / "state.db").read_bytes()
        (finished / "state.db.xz").write_bytes(lzma.compress(content, preset=9))
        (finished / "state.db").unlink()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(finished, target)
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(finished, ignore_errors=True)
    sys.stdout.write(f"wrote {os.path.relpath(target)}\n")


if __name__ == "__main__":
    main()

"""Runs of a job that are killed, night by night, and typed again until they end.

Run as ``python killing_nights.py FOLDER MODE KILLS SEED``; MODE is "append" or "whole", of users
who are bounded, "many", of groups that are taken for very many, or "revised", of windows that are
revised, under a key in FOLDER. Prints one JSON object. A process of its own, in which nothing uses
polars: its children are forked, and threads do not survive that.
"""

import hashlib
import importlib.util
import json
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from counton.noise import Key
from counton.run import Job, run
from counton.run.contribution_bounds import ContributionBounder  # noqa: F401 - loaded before the children are forked

_spec = importlib.util.spec_from_file_location(
    "killing", Path(__file__).parents[1] / "state" / "killing.py"
)
assert _spec is not None
assert _spec.loader is not None
killing = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(killing)

START = datetime(2013, 1, 1, tzinfo=UTC)
NIGHTS = 6
MOST = 2


def night(number: int, chance: random.Random) -> list[str]:
    """Rows that come in a night: of the day before, late ones, and rows that come again."""
    rows = []
    for user in range(12):
        for _ in range(chance.choice((0, 1, 2, 7))):
            day = max(0, number - chance.choice((0, 0, 0, 1, 3)))
            moment = START + timedelta(days=day, minutes=chance.randrange(1440))
            rows.append(f"{moment.isoformat()},{chance.choice('ab')},{user},{chance.random()}\n")
    return rows


def take_for_many() -> None:
    """Do with two hundred groups what is done with millions: noise some at a time."""
    for module, name, most in (
        ("numbers.noise_ahead", "_CELLS", 64),
        ("numbers.noise_ahead", "_KEPT_STEPS", 7),
        ("numbers.noise_ahead", "_WORTH_KEEPING", 1),
        ("rows.tally", "MANY_GROUPS", 100),
        ("frame.groups", "BLOCK", 64),
    ):
        found = importlib.import_module(f"counton.{module}")
        assert hasattr(found, name)
        setattr(found, name, most)


def request(folder: Path, state: str, number: int, mode: str) -> Job:
    until, append = START + timedelta(days=number + 1), mode != "whole"
    if mode == "many":  # of one key, so that both states have the same noise
        key = Key.from_text((folder / "many.key").read_text())
        return Job(
            "count", folder / f"{number}.csv", folder / f"{state}.db", time="time", every="6h",
            by="group", domain=["a", *map(str, range(200)), "b"], start=START, steps=60,
            until=until, strategy="normalised-sqrt", rho=1, append=append, yes=True,
            key=key,
        )  # fmt: skip
    if mode == "revised":
        key = Key.from_text((folder / "many.key").read_text())
        return Job(
            "count", folder / f"{number}.csv", folder / f"{state}.db", time="time", every="1d",
            by="group", domain=["a", "b"], start=START, revise="2d", until=until, rho=1,
            append=append, yes=True, key=key,
        )  # fmt: skip
    return Job(
        "count", folder / f"{number}.csv", folder / f"{state}.db", time="time", every="6h",
        by="group", domain=["a", "b"], start=START, steps=60, until=until, strategy="binary",
        epsilon=10**6, user="user", most=MOST, per="1d", id="id" if append else None,
        append=append, yes=True,
    )  # fmt: skip


def work(folder: Path, state: str, number: int, mode: str, deadly: int, pipe: int) -> NoReturn:
    """One night's command, killed at an event; writes what it would have written."""
    count = killing.counted(deadly)
    with run(request(folder, state, number, mode)) as outcome:
        count()
        table = outcome.read().table()
        count()
        os.write(pipe, f"{hash_of(table.write_csv())} {count()}\n".encode())
    os._exit(0)


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main(folder: Path, mode: str, kills: int, seed: int) -> dict[str, object]:
    if mode == "many":
        take_for_many()
    if mode in ("many", "revised"):
        Key.generate().save(folder / "many.key")
    chance, append = random.Random(seed), mode != "whole"
    header, so_far = "time,group,user,id\n", list[str]()
    for number in range(NIGHTS):
        rows = night(number, chance)
        if mode == "append" and number:
            rows += chance.sample(so_far, min(5, len(so_far)))
        so_far += rows
        (folder / f"{number}.csv").write_text(header + "".join(rows if append else so_far))
    expected, events, seconds = [], 1, 1.0
    for number in range(NIGHTS):
        begin = time.monotonic()
        line = child(partial(work, folder, "undisturbed", number, mode, 0))
        seconds = time.monotonic() - begin
        expected.append(line[0].split()[0])
        events = int(line[0].split()[1])
    killed, shown = 0, []
    for number in range(NIGHTS):
        while True:
            wanted = killed < kills * (number + 1) / NIGHTS
            on_purpose = chance.random() < 0.7
            deadly = chance.randrange(1, events + 20) if wanted and on_purpose else 0
            late = chance.uniform(0, 1.1 * seconds) if wanted and not on_purpose else None
            line = child(partial(work, folder, "killed", number, mode, deadly), late)
            if line and line[0].startswith("error"):
                raise RuntimeError(line[0])
            killed += not line
            if line and not wanted:
                shown.append(line[0].split()[0])
                break
            if line and line[0].split()[0] != expected[number]:
                raise RuntimeError(f"night {number}: another table after {killed} kills")
    return {"killed": killed, "expected": expected, "shown": shown, "events": events}


def child(work: Any, late: float | None = None) -> list[str]:
    """What it wrote before it ended or was killed."""
    pid, reading = killing.fork(work)
    if late is not None:
        time.sleep(late)
        os.kill(pid, signal.SIGKILL)
    lines: list[str] = killing.collect(reading)
    os.waitpid(pid, 0)
    return lines


if __name__ == "__main__":
    folder, mode, kills, seed = sys.argv[1:]
    print(json.dumps(main(Path(folder), mode, int(kills), int(seed))))

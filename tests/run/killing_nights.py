"""Runs of a job that are killed, night by night, and typed again until they end.

Run as ``python killing_nights.py FOLDER MODE KILLS SEED STATE TWIN``; MODE is "append" or "whole",
of users who are bounded, "many", of groups that are taken for very many, "revised", of windows that
are revised, "covered", of exports of the last days that cover whole windows, or "slots", of people
in such exports; the last four under a key in FOLDER. Runs for TWIN are not killed. Prints one JSON
object. A process of its own, in which nothing uses polars: its children are forked, and threads do
not survive that.
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

import scipy.linalg  # noqa: F401 - loaded before the children are forked

from counton.noise import Key
from counton.run import Job, run
from counton.run.counting.chosen_rows import RowChoice  # noqa: F401 - loaded before the children are forked

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


def exports(chance: random.Random, nights: int) -> list[tuple[int, list[str]]]:
    """The last day and the rows of each night: all that its system says of the last seven days.

    Rows come late, change their group and day, and are erased; nights are skipped, or come again
    with another export, which may be the one of the night before.
    """
    events = dict[int, tuple[int, str]]()
    done = 0
    found = list[tuple[int, list[str]]]()
    for _ in range(nights):
        last = done
        done = done + chance.choice((0, 1, 1, 1, 1, 2, 3) if done else (1,))
        for day in range(last, done):
            for _ in range(chance.randrange(5)):
                events[len(events)] = day, chance.choice("ab")
        for _ in range(2):  # one comes late, one is changed
            one = chance.choice((len(events), chance.randrange(len(events) + 1)))
            events[one] = max(done - 1 - chance.randrange(5), 0), chance.choice("ab")
        if chance.random() < 0.3:  # a number stays given: another event is not taken for it
            events[chance.choice([*events])] = -9, "a"
        moments = [START + timedelta(minutes=number) for number in range(len(events))]
        rows = [
            f"{(moments[number] + timedelta(days=day)).isoformat()},{group},{number % 5},{number}\n"
            for number, (day, group) in events.items()
            if day >= max(done - 7, 0)
        ]
        chance.shuffle(rows)
        found.append((done, found[-1][1] if found and chance.random() < 0.1 else rows))
    return found


def take_for_many() -> None:
    """Do with two hundred groups what is done with millions: noise some at a time."""
    for module, name, most in (
        ("continual.noise_cache", "_CELLS_AT_ONCE", 64),
        ("continual.noise_cache", "_STEPS_PER_STORED_ROW", 7),
        ("continual.noise_cache", "_FEWEST_DRAWS_TO_STORE", 1),
        ("io.aggregation", "MOST_TABLED_GROUPS", 100),
        ("windowing.groups", "NAMES_PER_BLOCK", 64),
    ):
        found = importlib.import_module(f"counton.{module}")
        assert hasattr(found, name)
        setattr(found, name, most)


def request(folder: Path, events: Path, state: str, until: datetime, mode: str) -> Job:
    append = mode not in ("whole", "covered", "slots")
    if mode == "many":  # of one key, so that both states have the same noise
        key = Key.from_text((folder / "many.key").read_text())
        return Job(
            "count", events, state, time="time", every="6h",
            group_by="group", groups=["a", *map(str, range(200)), "b"], start=START, windows=60,
            until=until, strategy="normalised-sqrt", rho=1, append=append, allow_empty_windows=True,
            key=key,
        )  # fmt: skip
    if mode in ("revised", "covered", "slots"):
        people: dict[str, Any] = {
            "user": "user",
            "max_contributions": MOST,
            "contribution_period": "1w",
            "max_corrections": 1,
        }
        key = Key.from_text((folder / "many.key").read_text())
        return Job(
            "count", events, state, time="time", every="1d",
            group_by="group", groups=["a", "b"], start=START, allowed_lateness="3d", until=until,
            rho=1,
            append=append, lookback=None if append else "5d", allow_empty_windows=True, key=key,
            **(people if mode == "slots" else {}),
        )  # fmt: skip
    return Job(
        "count", events, state, time="time", every="6h",
        group_by="group", groups=["a", "b"], start=START, windows=60, until=until,
        strategy="binary",
        epsilon=10**6, user="user", max_contributions=MOST, contribution_period="1d",
        row_id="id" if append else None,
        append=append, allow_empty_windows=True,
    )  # fmt: skip


def work(job: Job, deadly: int, pipe: int) -> NoReturn:
    """One night's command, killed at an event; writes what it would have written."""
    count = killing.counted(deadly)
    with run(job) as outcome:
        count()
        table = outcome.read().table()
        count()
        os.write(pipe, f"{hash_of(table.write_csv())} {count()}\n".encode())
    os._exit(0)


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main(
    folder: Path, mode: str, kills: int, seed: int, state: str, twin: str
) -> dict[str, object]:
    if mode == "many":
        take_for_many()
    Key.generate().save(folder / "many.key")
    chance = random.Random(seed)
    requests = list[tuple[Job, Job]]()
    for number, (day, rows) in enumerate(delivered(chance, mode, kills)):
        file = folder / f"{number}.csv"
        until = START + timedelta(days=day)
        file.write_text("time,group,user,id\n" + "".join(rows))
        both = (request(folder, file, one, until, mode) for one in (state, twin))
        requests.append((next(both), next(both)))
    expected = []
    events = 1
    seconds = 1.0
    for _, job in requests:
        begin = time.monotonic()
        line = child(partial(work, job, 0))
        seconds = time.monotonic() - begin
        expected.append(line[0].split()[0])
        events = int(line[0].split()[1])
    killed = 0
    shown = []
    for number, (job, _) in enumerate(requests):
        while True:
            wanted = killed < kills * (number + 1) / len(requests)
            on_purpose = chance.random() < 0.7
            deadly = chance.randrange(1, events + 20) if wanted and on_purpose else 0
            late = chance.uniform(0, 1.1 * seconds) if wanted and not on_purpose else None
            line = child(partial(work, job, deadly), late)
            if line and line[0].startswith("error"):
                raise RuntimeError(line[0])
            killed += not line
            if line and not wanted:
                shown.append(line[0].split()[0])
                break
            if line and line[0].split()[0] != expected[number]:
                raise RuntimeError(f"night {number}: another table after {killed} kills")
    return {"killed": killed, "expected": expected, "shown": shown, "events": events}


def delivered(chance: random.Random, mode: str, kills: int) -> list[tuple[int, list[str]]]:
    """The last day of each night, and the rows of its file."""
    if mode in ("covered", "slots"):
        return exports(chance, max(NIGHTS, min(kills, 60)))
    so_far = list[str]()
    found = list[tuple[int, list[str]]]()
    for number in range(NIGHTS):
        rows = night(number, chance)
        if mode != "whole" and number:
            rows += chance.sample(so_far, min(5, len(so_far)))
        so_far += rows
        found.append((number + 1, [*so_far] if mode == "whole" else rows))
    return found


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
    folder, mode, kills, seed, state, twin = sys.argv[1:]
    print(json.dumps(main(Path(folder), mode, int(kills), int(seed), state, twin)))

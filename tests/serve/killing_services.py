"""A service that is killed again and again while rows come in and steps are released.

Run as ``python killing_services.py FOLDER DATABASE KILLS MINUTES SEED``; prints one JSON object.
The job file is in the folder. DATABASE is "file", or "server": then a PostgreSQL server is made,
and killed as well.
"""

import contextlib
import json
import random
import sys
import threading
import time
from pathlib import Path

import httpx
from patience import HANGS
from postgresql_server import Server, new_server
from services import RunningService, copied, counted, job_file, rows, tokens_for

BATCHES = 6


def batches_of(minute: int, chance: random.Random) -> dict[str, bytes]:
    """Batches of one minute, by their ids; some rows of an earlier one, which come late."""
    found = {}
    for number in range(BATCHES):
        of = max(0, minute - chance.choice((0, 0, 0, 1, 2)))
        pages = chance.choices(("home", "shop"), k=chance.randrange(1, 40))
        found[f"{minute}-{number}"] = rows(of, pages)
    return found


class Client:
    """Sends batches until they are acknowledged, whatever happens to the service."""

    def __init__(self, service: RunningService) -> None:
        self._service = service
        self.answers = dict[str, dict[str, object]]()
        self.repeated = 0

    def send(self, id: str, body: bytes) -> None:
        """Send one until it is acknowledged."""
        end = time.monotonic() + HANGS
        while time.monotonic() < end:
            with contextlib.suppress(httpx.TransportError):
                answer = self._service.post(id, body)
                if answer.status_code in (200, 202):
                    said = answer.json()
                    if self.answers.setdefault(id, said) != said:
                        raise AssertionError(f"{id}: {said}, and before {self.answers[id]}")
                    return
                if answer.status_code not in (429, 503):
                    raise AssertionError(f"{id}: {answer.status_code} {answer.text}")
            time.sleep(0.05)
        raise TimeoutError(f"{id} is not acknowledged")

    def steps(self) -> int:
        """How many steps readers see; -1: nobody answers."""
        with contextlib.suppress(httpx.TransportError, ValueError, KeyError):
            return self._service.steps()
        return -1


def main(
    folder: Path, kills: int, minutes: int, seed: int, database: Server | None
) -> dict[str, object]:
    # To each thread its own: what one draws may not hang on how far the other one is.
    chance, moments, again = (random.Random(f"{seed} {use}") for use in ("rows", "kills", "again"))
    state = "visits.db" if database is None else database.schema()
    file = job_file(folder, state=state, windows=minutes)
    copy = copied(file)
    service = RunningService(file, tokens_for(file))
    service.start()
    killed = 0
    databases = 0
    over = threading.Event()
    done = 0.0

    def kill() -> None:
        nonlocal killed, databases
        while not over.is_set() and killed < kills:
            if database is not None and killed % 3 == 1:
                time.sleep(moments.uniform(0.2, 1.0))
                database.kill()
                time.sleep(moments.uniform(0, 0.5))
                database.start()
                databases += 1
            if moments.random() < 0.4:  # by the clock
                time.sleep(moments.uniform(0.0, 1.5))
                service.kill()
            else:  # it has been told to die; not if nothing happens
                service.ended(2)
                service.kill()
            killed += 1
            deadly = 0 if killed >= kills else moments.randrange(1, 120)
            service.spawn(deadly)
            if moments.random() < 0.9:
                service.up(20)

    killer = threading.Thread(target=kill)
    killer.start()
    client = Client(service)
    sent = dict[str, bytes]()
    came = list[list[bytes]]()
    try:
        for minute in range(minutes):
            found = batches_of(minute, chance)
            senders = [threading.Thread(target=client.send, args=one) for one in found.items()]
            for sender in senders:
                sender.start()
            for sender in senders:
                sender.join()
            assert found.keys() <= client.answers.keys()
            sent |= found
            came.append([*found.values()])
            service.at(minute + 1)
            end = time.monotonic() + HANGS
            # Stay with each minute for its share of the kills.
            while client.steps() < minute + 1 or killed < kills * (minute + 1) // minutes:
                if time.monotonic() > end:
                    raise TimeoutError(f"step {minute + 1}: {service.log.read_text()[-3000:]}")
                if minute and again.random() < 0.1:
                    id = again.choice([*sent])
                    client.send(id, sent[id])
                    client.repeated += 1
                time.sleep(0.1)
        over.set()
        killer.join()
        end = time.monotonic() + HANGS
        while client.steps() < minutes:
            if time.monotonic() > end:
                raise TimeoutError("the last step is not told")
            time.sleep(0.1)
        told = [row["estimate"] for row in service.series()]
        done = float(service.stop())
    finally:
        over.set()
        service.close()
    return {
        "killed": killed,
        "databases": databases,
        "repeated": client.repeated,
        "code": done,
        "wrong": [
            step // 2 + 1
            for step, (one, other) in enumerate(zip(told, counted(file, copy, came), strict=True))
            if one != other
        ],
        "steps": len(told) // 2,
    }


if __name__ == "__main__":
    folder, kind, kills, minutes, seed = sys.argv[1:]
    server = new_server() if kind == "server" else None
    try:
        print(json.dumps(main(Path(folder), int(kills), int(minutes), int(seed), server)))
    finally:
        if server is not None:
            server.stop()

"""A service under load: 20,000 events a second in batches, and a thousand readers at once."""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import os
import queue
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from benchmarks.row import Row
from counton.serve.tokens import tokens_of

#: Events a second, in a batch, seconds of load, clients, readers.
RATE = 20_000
BATCH = 1_000
SECONDS = 10
CLIENTS = 8
READERS = 1_000
#: Batches sent as fast as can be in each turn, then stored by a database alone; the quickest turns
#: count.
MANY = 50
TURNS = 6


def measure() -> Iterator[Row]:
    """Measure a service with a SQLite state: acknowledgements, cost beside the database alone, and
    readers; yield the rows.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield from measured(Path(folder), "visits.db")


def measured(folder: Path, state: str) -> Iterator[Row]:
    """Measure a service with a given state; yield the rows.

    Args:
        folder: folder to which the job file is written.
        state: a SQLite file in the folder, or the URL of a PostgreSQL database.
    """
    batches = [batch(number) for number in range(50)]
    process, port, token = started(folder, state)
    try:
        send(port, token, batches, "warm", 20)
        before = megabytes(process.pid)
        took = paced(port, token, batches)
        p99, middle = np.quantile(took, [0.99, 0.5]) * 1e3
        yield Row(
            f"{RATE:,} events a second for {SECONDS} s, half of the batches acknowledged in "
            f"{middle:.0f} ms: 99% in",
            measured=float(p99),
            bar=250,
            unit="ms",
            note="by the clock",
        )
        each = math.inf
        direct = math.inf
        for turn in range(TURNS):
            begin = time.perf_counter()
            send(port, token, batches, f"many-{turn}", MANY)
            each = min(each, (time.perf_counter() - begin) / MANY)
            direct = min(direct, alone(folder / f"alone-{turn}.db", batches, MANY))
        yield Row(
            f"a batch of {BATCH:,} events from {CLIENTS} clients, {BATCH / each:,.0f} events/s",
            measured=each / direct,
            bar=3,
            note="times its rows parsed, inserted and synced by sqlite3 alone",
        )
        yield Row(
            f"{READERS:,} readers who ask at once have the newest numbers within",
            measured=1e3 * asyncio.run(reading(port)),
            bar=5000,
            unit="ms",
            note="by the clock",
        )
        yield Row(
            "memory after that",
            measured=megabytes(process.pid) - before,
            bar=200,
            unit="MB",
            note=f"more than the {before:.0f} MB before",
        )
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        assert process.stderr is not None
        process.stderr.close()


def batch(number: int) -> bytes:
    """Return a batch of random rows of the last minute, as JSON lines."""
    chance = np.random.default_rng(number)
    now = datetime.now(UTC)
    return b"".join(
        b'{"time":"%s","page":"page %d"}\n'
        % ((now - timedelta(seconds=int(ago))).isoformat().encode(), page)
        for ago, page in zip(
            chance.integers(0, 60, BATCH), chance.integers(0, 20, BATCH), strict=True
        )
    )


def started(folder: Path, state: str) -> tuple[subprocess.Popen[str], int, str]:
    """Start a service at a free port, and wait until it is ready; return its process, its port, and
    a token for sending.
    """
    begin = datetime.now(UTC) - timedelta(minutes=2)
    file = folder / "jobs.toml"
    pages = ",".join(f"page {number}" for number in range(20))
    file.write_text(
        f'[jobs.visits]\nstatistic = "count"\nstate = "{state}"\nkey = "visits.key"\n'
        f'time = "time"\nevery = "10s"\nstart = "{begin:%Y-%m-%dT%H:%M}"\n'
        "expected-windows = 10000\n"
        f'group-by = "page"\ngroups = "{pages}"\nepsilon = 1\n'
        'privacy-unit = "visit"\n[serve]\npublic = true\n'
    )
    counton = [sys.executable, "-m", "counton"]
    token = tokens_of(f"{file}.tokens").write
    process = subprocess.Popen(
        [*counton, "serve", str(file), "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    found = re.search(r":(\d+)$", process.stderr.readline())
    assert found is not None
    threading.Thread(target=process.stderr.read, daemon=True).start()  # its log
    port = int(found[1])
    for _ in range(200):
        with suppress(OSError), closing(http.client.HTTPConnection("127.0.0.1", port)) as asked:
            asked.request("GET", "/ready")
            if asked.getresponse().status == 200:
                break
        time.sleep(0.05)
    return process, port, token


def post(to: http.client.HTTPConnection, token: str, id: str, body: bytes) -> float:
    """Send a batch; return the seconds until the service acknowledges it."""
    begin = time.perf_counter()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"}
    to.request("POST", f"/v1/streams/visits/batches/{id}", body, headers)
    answer = to.getresponse()
    answer.read()
    if answer.status != 202:
        raise RuntimeError(f"the service answers {answer.status}")
    return time.perf_counter() - begin


def send(port: int, token: str, batches: list[bytes], name: str, many: int) -> None:
    """Send ``many`` batches as fast as the clients can."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(many):
        waiting.put(number)
    run_clients(port, token, batches, name, waiting, [])


def paced(port: int, token: str, batches: list[bytes]) -> list[float]:
    """Send batches at fixed times; return the seconds from each batch's fixed time until it is
    acknowledged.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(RATE * SECONDS // BATCH):
        waiting.put(number)
    took: list[float] = []
    run_clients(port, token, batches, "paced", waiting, took, BATCH / RATE)
    return took


def run_clients(
    port: int,
    token: str,
    batches: list[bytes],
    name: str,
    waiting: queue.SimpleQueue[int],
    took: list[float],
    every: float = 0.0,
) -> None:
    """Send batches from several clients, which take their numbers from a queue.

    Args:
        port: port of the service.
        token: token for sending.
        batches: texts of batches, used in turns.
        name: prefix of the batches' ids.
        waiting: numbers of the batches to send.
        took: list to which the seconds until each acknowledgement are added.
        every: seconds between the times at which batches are due; 0: all are due at once.
    """
    began = time.perf_counter()
    failed = list[Exception]()

    def client() -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as to:
            while True:
                try:
                    number = waiting.get_nowait()
                except queue.Empty:
                    return
                due = began + number * every
                time.sleep(max(0.0, due - time.perf_counter()))
                try:
                    post(to, token, f"{name}-{number}", batches[number % len(batches)])
                except (OSError, RuntimeError) as error:
                    failed.append(error)
                    return
                took.append(time.perf_counter() - (due if every else began))

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    if failed:
        raise failed[0]


def alone(path: Path, batches: list[bytes], many: int) -> float:
    """Return the mean seconds in which sqlite3 alone stores a batch: rows are parsed, inserted one
    by one, and synced.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE events (time TEXT, page TEXT)")
        begin = time.perf_counter()
        for number in range(many):
            rows = [json.loads(line) for line in batches[number % len(batches)].splitlines()]
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO events VALUES (:time, :page)", rows)
            database.execute("COMMIT")
        return (time.perf_counter() - begin) / many


async def reading(port: int) -> float:
    """Return the seconds in which many readers, who ask at once, have the newest numbers."""
    question = "GET /v1/streams/visits/series?last=1 HTTP/1.1\r\nHost: service\r\n"

    async def reader() -> None:
        answer, writing = await asyncio.open_connection("127.0.0.1", port)
        writing.write(f"{question}Connection: close\r\n\r\n".encode())
        if not (await answer.read()).startswith(b"HTTP/1.1 200"):
            raise RuntimeError("the service does not answer a reader")
        writing.close()

    begin = time.perf_counter()
    async with asyncio.timeout(120), asyncio.TaskGroup() as readers:
        for number in range(READERS):
            readers.create_task(reader())
            if number % 50 == 0:
                await asyncio.sleep(0.01)
    return time.perf_counter() - begin


def megabytes(pid: int) -> float:
    """Return the resident memory of a process in megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

"""A service under load for long: `make bench-service` prints what it acknowledges, and its memory.

Batches of JSON lines are due at fixed times, whether or not those before them are acknowledged, and
come from clients that each keep one connection. How long one takes is counted from when it was due.
The service is a process of its own; a line of the table is a tenth of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks.rows.service import BATCH, RATE, megabytes, started

CLIENTS = 16
_TIME = b"0000-00-00T00:00:00.000000+00:00"


def templates(many: int) -> list[bytes]:
    """Return batches of random rows, as JSON lines with a placeholder for the time."""
    chance = np.random.default_rng(0)
    return [
        b"".join(
            b'{"time":"%s","page":"page %d"}\n' % (_TIME, page)
            for page in chance.integers(0, 20, BATCH)
        )
        for _ in range(many)
    ]


class Load:
    """Clients that send batches at fixed times, and the time until each is acknowledged.

    Args:
        port: port of the service.
        token: token for sending.
        rate: events per second.
        seconds: duration of the load.
    """

    def __init__(self, port: int, token: str, rate: int, seconds: float) -> None:
        self._port = port
        self._token = token
        self._every = BATCH / rate
        self._bodies = templates(20)
        self._next = 0
        self._last = round(seconds / self._every)
        self._began = time.perf_counter()
        self.took: list[float] = []

    async def run(self) -> None:
        """Send all batches from several clients."""
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(self._client())

    async def _client(self) -> None:
        reading, writing = await asyncio.open_connection("127.0.0.1", self._port)
        while self._next < self._last:
            number = self._next
            self._next = self._next + 1
            due = self._began + number * self._every
            await asyncio.sleep(due - time.perf_counter())
            writing.write(self._request(number))
            status = (await reading.readline()).split()[1]
            size = 0
            while (line := await reading.readline()) != b"\r\n":
                name, _, value = line.lower().partition(b":")
                size = int(value) if name == b"content-length" else size
            said = await reading.readexactly(size)
            if status != b"202":
                raise RuntimeError(f"the service answers {status.decode()}: {said.decode()}")
            self.took.append(time.perf_counter() - due)
        writing.close()

    def _request(self, number: int) -> bytes:
        now = datetime.now(UTC).isoformat(timespec="microseconds").encode()
        body = self._bodies[number % len(self._bodies)].replace(_TIME, now)
        head = (
            f"POST /v1/streams/visits/batches/load-{number} HTTP/1.1\r\nHost: service\r\n"
            f"Authorization: Bearer {self._token}\r\nContent-Type: application/x-ndjson\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def processor_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def report(load: Load, pid: int, seconds: float) -> None:
    """Run a load; print a line for each tenth of the time, and one for all of it."""
    sending = asyncio.create_task(load.run())
    done = 0
    used = processor_seconds(pid)
    for tenth in range(1, 11):
        await asyncio.wait([sending], timeout=seconds / 10)
        now = len(load.took)
        cpu = processor_seconds(pid)
        print_line(
            f"{tenth * seconds / 10:6.0f} s", load.took[done:now], seconds / 10, cpu - used, pid
        )
        done = now
        used = cpu
    await sending
    print_line("    all ", load.took, seconds, None, pid)


def print_line(name: str, took: list[float], seconds: float, used: float | None, pid: int) -> None:
    """Print events per second, the milliseconds in which half and 99% of batches are acknowledged,
    memory, and CPU time per event.
    """
    half, most = np.quantile(took or [np.nan], [0.5, 0.99]) * 1e3
    each = "" if used is None or not took else f"{1e6 * used / (BATCH * len(took)):6.2f} us/event"
    print(
        f"{name} {BATCH * len(took) / seconds:9,.0f} events/s   half in {half:6.0f} ms   99% in "
        f"{most:6.0f} ms   {megabytes(pid):6,.0f} MB   {each}",
        flush=True,
    )


def main() -> None:
    """Start a service, send a load to it, print the results, and end the service."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=RATE, help="events a second")
    parser.add_argument("--seconds", type=float, default=120, help="how long")
    parser.add_argument("--state", default="visits.db", help="a file, or the URL of a database")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        process, port, token = started(Path(folder), given.state)
        try:
            load = Load(port, token, given.rate, given.seconds)
            asyncio.run(report(load, process.pid, given.seconds))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


if __name__ == "__main__":
    main()

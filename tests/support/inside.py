"""A service in the process of a test, whose time is set and whose releases are done when asked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx
from services import START, job_file, tokens_for

from counton.serve.application import application
from counton.serve.service import Service


class Inside:
    """A service whose time is set; a job file says what it serves.

    Attributes:
        seconds: of a steady clock, against which the time is checked; None: it is not checked.
    """

    def __init__(self, file: Path, seconds: float | None = None) -> None:
        self.file = file
        self.time = START
        self.seconds = seconds
        self.tokens = tokens_for(file)
        steady = None if seconds is None else lambda: self.seconds or 0.0
        self.service = Service(file, clock=lambda: self.time, seconds=steady)
        self.app = application(self.service)

    def __call__(
        self, method: str, path: str, use: str | None = None, **more: Any
    ) -> httpx.Response:
        """Ask for a path, with a token."""
        headers = dict(more.pop("headers", {}))
        if use is not None:
            headers["Authorization"] = f"Bearer {self.tokens[use]}"

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
                return await client.request(method, path, headers=headers, **more)

        return anyio.run(asked)

    def post(self, batch: str, rows: Sequence[Mapping[str, Any]]) -> httpx.Response:
        """Send rows."""
        return self.send(batch, "".join(json.dumps(row) + "\n" for row in rows).encode())

    def send(self, batch: str, body: bytes, media: str = "application/x-ndjson") -> httpx.Response:
        (stream,) = self.service.served
        return self(
            "POST",
            f"/v1/streams/{stream}/batches/{batch}",
            "write",
            content=body,
            headers={"Content-Type": media},
        )

    def at(self, minute: float) -> None:
        """Set the time, and do what is due then."""
        self.time = START + timedelta(minutes=minute)
        self.work()

    def work(self) -> None:
        """Do what is due now."""
        for releaser in self.service.releasers.values():
            releaser.work()
        for journal in self.service.journals.values():
            journal.refresh()

    def rows(self, **query: Any) -> list[dict[str, Any]]:
        (stream,) = self.service.served
        answer = self("GET", f"/v1/streams/{stream}/series", params=query)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["rows"]
        while (following := answer.json()["next"]) is not None:
            answer = self("GET", f"/v1/streams/{stream}/{following}")
            assert answer.status_code == 200, answer.text
            found += answer.json()["rows"]
        return found


@contextmanager
def inside(folder: Path, **job: Any) -> Iterator[Inside]:
    found = Inside(job_file(folder, **job))
    with closing(found.service):
        yield found


def visit(minute: float, page: str | None = "home", **more: Any) -> dict[str, Any]:
    return {"time": (START + timedelta(minutes=minute)).isoformat(), "page": page, **more}


#: Noise that is 0 almost surely: numbers are the exact ones.
EXACT = {"epsilon": 10**6, "strategy": "binary"}


def metric(service: Inside, name: str) -> float:
    text = service("GET", "/metrics", "write").text
    (line,) = [line for line in text.splitlines() if line.startswith(f"counton_{name}{{")]
    return float(line.rpartition(" ")[2])

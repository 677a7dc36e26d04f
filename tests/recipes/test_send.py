"""The recipe ``recipes/send.py``: each row counts once, whoever dies meanwhile."""

import json
import runpy
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "send.py"


class CountingService:
    """A service that counts each batch once, by its id."""

    def __init__(self) -> None:
        self.batches: dict[str, bytes] = {}
        self.fates: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        fate = self.fates.pop(0) if self.fates else ""
        if fate == "lost":
            raise httpx.ConnectError("no service")
        if fate == "busy":
            return httpx.Response(503, headers={"Retry-After": "0"})
        if fate == "refused":
            return httpx.Response(422, text="row 1 has a time that cannot be read")
        assert request.headers["Authorization"] == "Bearer token"
        id = request.url.path.rpartition("/")[2]
        rows = request.read()
        known = id in self.batches
        assert self.batches.setdefault(id, rows) == rows
        if fate == "unanswered":
            raise httpx.ReadError("the connection broke")
        if fate == "killed":
            raise KeyboardInterrupt
        return httpx.Response(200 if known else 202, json={"counted": rows.count(b"\n")})

    @property
    def rows(self) -> list[int]:
        return sorted(
            json.loads(line)["n"] for rows in self.batches.values() for line in rows.splitlines()
        )


@pytest.fixture
def service() -> CountingService:
    return CountingService()


@pytest.fixture
def send(service: CountingService, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], int]:
    real = httpx.Client
    monkeypatch.setattr(
        httpx, "Client", lambda **given: real(transport=httpx.MockTransport(service), **given)
    )
    recipe: dict[str, Any] = runpy.run_path(str(RECIPE), run_name="recipe")
    monkeypatch.setitem(recipe["send"].__globals__, "BYTES", 30)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return lambda file: recipe["send"](file, "http://service/v1/streams/visits", "token")


def write(file: Path, numbers: range) -> None:
    with file.open("a") as rows:
        rows.writelines(f'{{"n": {number}}}\n' for number in numbers)


def test_send_sends_new_lines_once_and_waits_for_incomplete_line(
    tmp_path: Path, service: CountingService, send: Callable[[Path], int]
) -> None:
    file = tmp_path / "visits.jsonl"
    write(file, range(10))
    with file.open("a") as rows:
        rows.write('{"n": 1')
    assert send(file) == 10
    assert send(file) == 0
    with file.open("a") as rows:
        rows.write("0}\n")
    write(file, range(11, 20))
    assert send(file) == 10
    assert service.rows == [*range(20)]
    assert len(service.batches) > 4


@pytest.mark.parametrize("fate", ["lost", "busy", "unanswered"])
def test_send_repeats_batch_until_accepted(
    tmp_path: Path, service: CountingService, send: Callable[[Path], int], fate: str
) -> None:
    file = tmp_path / "visits.jsonl"
    write(file, range(20))
    service.fates = ["", fate, fate, "", fate]
    send(file)
    assert service.rows == [*range(20)]


def test_killed_send_continues_with_its_batch(
    tmp_path: Path, service: CountingService, send: Callable[[Path], int]
) -> None:
    """Its last batch was taken, and lines have come since: it is the same batch once more."""
    file = tmp_path / "visits.jsonl"
    write(file, range(8))
    service.fates = ["", "killed"]
    with pytest.raises(KeyboardInterrupt):
        send(file)
    write(file, range(8, 30))
    send(file)
    assert service.rows == [*range(30)]


def test_send_stops_at_refused_batch(
    tmp_path: Path, service: CountingService, send: Callable[[Path], int]
) -> None:
    file = tmp_path / "visits.jsonl"
    write(file, range(3))
    service.fates = ["refused"]
    with pytest.raises(SystemExit, match="422: row 1 has a time"):
        send(file)
    send(file)
    assert service.rows == [*range(3)]


class Limited(BaseHTTPRequestHandler):
    """A service behind a proxy that passes on bodies of at most 1 MiB, as nginx does."""

    bodies: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        is_small = length <= 2**20
        if is_small:
            self.bodies.append(body)
        self.send_response(202 if is_small else 413)
        answer = json.dumps({"counted": body.count(b"\n")}).encode()
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def behind_a_proxy() -> Iterator[str]:
    """The address of a stream; `Limited.bodies` has what came."""
    Limited.bodies.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Limited) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/streams/visits"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("length", [50, 1000, 300_000])
def test_send_keeps_bodies_below_1_mib(tmp_path: Path, behind_a_proxy: str, length: int) -> None:
    file = tmp_path / "visits.jsonl"
    line = json.dumps({"page": "x" * length}).encode() + b"\n"
    file.write_bytes(line * (4 * 2**20 // len(line)))
    recipe: dict[str, Any] = runpy.run_path(str(RECIPE), run_name="recipe")
    assert recipe["send"](file, behind_a_proxy, "token") == file.read_bytes().count(b"\n")
    assert b"".join(Limited.bodies) == file.read_bytes()
    assert all(body.endswith(b"\n") for body in Limited.bodies)
    assert max(map(len, Limited.bodies)) <= 2**20

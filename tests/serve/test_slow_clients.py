"""Clients that do not read, do not send, idle or leave: others are served, and memory is bounded.

Ends do not depend on the speed of the machine: a test waits for an event, and the settings that it
does not test are so long that they never apply.
"""

import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from patience import HANGS
from services import PLAIN, RunningService, job_file, rows, running

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slow-clients")]

#: A release of more bytes than both kernels' buffers take: 300 steps of 200 groups.
GROUPS = [f"group-{number:03d}" for number in range(200)]
STEPS = 300
#: So long that only what a test is about ends a connection.
NEVER = {"timeout": "1h"}
#: So long that a client is not refused because a busy machine is slow.
PATIENT = NEVER | {"counton.serve.slots._LONGEST_WAIT_SECONDS": HANGS}
UNTOUCHED = {"counton.serve.server._IDLE_SECONDS": HANGS}


def connected(service: RunningService) -> socket.socket:
    """A connection with a small window, so that an answer waits in the service."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    found.settimeout(HANGS)
    found.connect(("127.0.0.1", service.port))
    return found


def ask(place: socket.socket, path: str) -> None:
    place.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def rest(place: socket.socket) -> bytes:
    """All that comes until the connection is closed."""
    found = bytearray()
    with contextlib.suppress(ConnectionError):
        while part := place.recv(2**20):
            found += part
    return bytes(found)


def answered(place: socket.socket, path: str = "/health") -> bytes:
    """Ask for a short answer, and read it whole."""
    ask(place, path)
    found = b""
    while b"alive\n" not in found:
        part = place.recv(65536)
        assert part, found
        found += part
    return found


@contextlib.contextmanager
def serving(folder: Path, **more: Any) -> Iterator[RunningService]:
    """A service with a long release; ``more`` are settings, and changed constants by full names."""
    changed: dict[str, float] = {name: value for name, value in more.items() if "." in name}
    settings = {name: value for name, value in more.items() if "." not in name}
    file = job_file(folder, serve=settings, groups=GROUPS, windows=STEPS)
    with running(file, changed) as service:
        service.at(STEPS - 1)
        service.wait_for(STEPS - 1)
        yield service


RELEASE = "/v1/streams/visits/release"
SERIES = "/v1/streams/visits/series"


def test_unread_answer_is_dropped(tmp_path: Path) -> None:
    with serving(tmp_path, timeout="1s") as service, connected(service) as silent:
        ask(silent, RELEASE)
        service.wait_for_log("its answer was not read")
        found = rest(silent)
        assert found.startswith(b"HTTP/1.1 200 OK")
        assert not found.endswith(b"0\r\n\r\n")  # so a reader notices that the rest is missing
        whole = service.get(RELEASE).json()
        assert len(whole["rows"]) == (STEPS - 1) * len(GROUPS)


@pytest.mark.long
def test_unread_end_of_answer_is_dropped(tmp_path: Path) -> None:
    """uvicorn takes an answer for complete when its last part waits to be sent."""
    more = {"counton.serve.connections._PART_BYTES": 2**30, "timeout": "1s"} | UNTOUCHED
    with serving(tmp_path, **more) as service, connected(service) as silent:
        for _ in range(20):  # pages, until the buffers of the kernel are full
            ask(silent, SERIES)
        service.wait_for_log("its answer was not read")
        assert service.get("/health").status_code == 200


@pytest.mark.long
def test_long_unread_answers_leave_room_for_other_clients(tmp_path: Path) -> None:
    more = PATIENT | {"counton.serve.answers._MOST_LONG_ANSWERS": 2}
    with serving(tmp_path, **more) as service, contextlib.ExitStack() as silent:
        for _ in range(6):
            ask(silent.enter_context(connected(service)), RELEASE)
        assert len(service.get(RELEASE).json()["rows"]) == (STEPS - 1) * len(GROUPS)
        assert "others wait for its place" in service.log.read_text()


def test_short_answers_wait_for_no_long_one(tmp_path: Path) -> None:
    more = PATIENT | {
        "counton.serve.answers._MOST_LONG_ANSWERS": 1,
        "counton.serve.slots._PATIENCE_SECONDS": HANGS,
        "counton.serve.slots._LONGEST_WAIT_SECONDS": 0.1,
    }
    with serving(tmp_path, **more) as service, connected(service) as silent:
        ask(silent, RELEASE)
        silent.recv(1)  # it has the only place, and keeps it
        refused = service.get(SERIES)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
        assert service.get(SERIES, last=2).status_code == 200
        assert service.get(SERIES, last=2, format="csv").status_code == 200
        assert service.post("b1", rows(STEPS - 1, GROUPS[:1])).status_code == 202
        assert service.get("/v1/streams/visits").status_code == 200
        assert service.get("/ready").status_code == 200


@pytest.mark.long
def test_unread_bytes_beyond_the_bound_are_dropped(tmp_path: Path) -> None:
    more = PATIENT | {
        "counton.serve.server._UNSENT_BYTES": 2**20,
        "counton.serve.connections._PATIENCE_SECONDS": 0.0,
        "counton.serve.slots._PATIENCE_SECONDS": HANGS,
    }
    with serving(tmp_path, **more) as service, contextlib.ExitStack() as silent:
        for _ in range(6):
            ask(silent.enter_context(connected(service)), RELEASE)
        service.wait_for_log("others need its memory")
        assert service.get(SERIES, last=1).status_code == 200


def test_idle_connection_makes_room_for_a_new_one(tmp_path: Path) -> None:
    """The one goes that has waited longest since its last answer, and not the oldest one."""
    service = RunningService(job_file(tmp_path, serve=NEVER), {}, UNTOUCHED)
    service.limit_open_files(256)  # 64 connections
    with contextlib.closing(service), contextlib.ExitStack() as opened:
        service.start()
        idle = [opened.enter_context(connected(service)) for _ in range(60)]
        for place in idle:
            answered(place)
        answered(idle[0])
        others = [opened.enter_context(connected(service)) for _ in range(20)]
        for place in others:
            answered(place)
        answered(idle[0])
        assert idle[1].recv(1) == b""
        with contextlib.suppress(ConnectionError):
            assert idle[2].recv(1) == b""
        for place in others:
            answered(place)
        assert service.get("/health").status_code == 200


@pytest.mark.long
def test_half_sent_bodies_lock_out_no_sender(tmp_path: Path) -> None:
    with running(job_file(tmp_path, serve=NEVER)) as service, contextlib.ExitStack() as slow:
        token = service.header("write")["Authorization"]
        for number in range(80):  # more than are received at once
            place = slow.enter_context(connected(service))
            place.sendall(
                f"POST /v1/streams/visits/batches/half-{number} HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: {token}\r\nContent-Type: application/x-ndjson\r\n"
                "Content-Length: 900\r\n\r\n{".encode()
            )
        status = 503
        while status == 503:  # which a sender repeats
            status = service.post("honest", rows(0, ["home"])).status_code
        assert status == 202


@pytest.mark.parametrize("path", [f"{SERIES}?series=per-window", RELEASE, f"{SERIES}?format=csv"])
def test_reader_that_leaves_early_is_no_error(tmp_path: Path, path: str) -> None:
    with serving(tmp_path, **PATIENT) as service:
        for _ in range(5):
            with connected(service) as place:
                ask(place, path)
        service.wait_for_log('"event": "request", "method": "GET", "path": "/v1/streams/{name}/', 5)
        assert_no_error(service)


def test_sender_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    with running(job_file(tmp_path)) as service:
        token = service.header("write")["Authorization"]
        with connected(service) as place:
            place.sendall(
                "POST /v1/streams/visits/batches/early HTTP/1.1\r\nHost: x\r\n"
                f"Authorization: {token}\r\nContent-Type: application/x-ndjson\r\n"
                "Content-Length: 900\r\n\r\n{".encode()
            )
        service.wait_for_log('"method": "POST"')
        assert_no_error(service)
        assert '"status": 400' in service.log.read_text()


def assert_no_error(service: RunningService) -> None:
    lines = [json.loads(line) for line in service.log.read_text().splitlines()]
    assert [line for line in lines if line["level"] == "error"] == []
    assert [line for line in lines if line.get("status") == 500] == []


@pytest.mark.long
def test_service_ends_although_clients_neither_read_nor_send(tmp_path: Path) -> None:
    with serving(tmp_path, **PATIENT) as service, contextlib.ExitStack() as slow:
        ask(slow.enter_context(connected(service)), RELEASE)
        half = slow.enter_context(connected(service))
        half.sendall(b"GET /health HTTP/1.1\r\n")
        token = service.header("write")["Authorization"]
        body = slow.enter_context(connected(service))
        body.sendall(
            "POST /v1/streams/visits/batches/early HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: {token}\r\nContent-Type: application/x-ndjson\r\n"
            "Content-Length: 900\r\n\r\n{".encode()
        )
        answered(slow.enter_context(connected(service)))
        assert service.stop() == 0
        assert_no_error(service)


def test_long_answers_are_compressed_at_a_fast_level(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=HANGS)
        with contextlib.closing(connection):
            connection.request("GET", SERIES, headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            whole = answer.read()
        assert answer.headers["Content-Encoding"] == "gzip"
        assert whole[8] == 4  # RFC 1952: the fastest algorithm
        assert len(whole) < 2**20


@pytest.mark.long
def test_pages_of_a_long_series_are_small(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        headers = {"Accept-Encoding": "identity"}
        first = httpx.get(f"{service.url}{SERIES}", headers=headers, timeout=HANGS, **PLAIN)
        assert len(first.json()["rows"]) == 5_000
        assert len(first.content) < 2 * 2**20
        assert len(service.series()) == (STEPS - 1) * len(GROUPS)

"""Services as processes: ends, restarts, slow and hostile clients, several on one server."""

import contextlib
import io
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import polars as pl
import pytest
from patience import HANGS
from services import PLAIN, RunningService, copied, counted, job_file, rows, running, tokens_for

pytestmark = pytest.mark.slow

PAGES = ["home", "shop", "home"]


def test_stopping_service_answers_open_requests_and_keeps_accepted_rows(tmp_path: Path) -> None:
    with running(job_file(tmp_path)) as service:
        answers: list[int] = []

        def send() -> None:
            for number in range(500):
                try:
                    answers.append(service.post(f"b{number}", rows(0, PAGES)).status_code)
                except httpx.TransportError:
                    return

        thread = threading.Thread(target=send)
        thread.start()
        while len(answers) < 5 and thread.is_alive():
            time.sleep(0.02)
        assert service.stop() == 0
        thread.join()
        assert set(answers) <= {202, 503}
        accepted = answers.count(202)
        service.start()
        again = [service.post(f"b{n}", rows(0, PAGES)).status_code for n in range(accepted + 1)]
        assert again == [200] * accepted + [202]
        assert '"event": "stopped"' in service.log.read_text()


def test_a_service_that_was_down_catches_up(tmp_path: Path) -> None:
    file = job_file(tmp_path)
    copy = copied(file)
    batches = [rows(minute, PAGES * minute) for minute in range(1, 4)]
    with running(file) as service:
        for number, body in enumerate(batches):
            assert service.post(f"b{number}", body).status_code == 202
        service.kill()
        service.at(10)
        service.start()
        service.wait_for(10)
        told = [row["estimate"] for row in service.series()]
        text = service.get("/v1/streams/visits/series", format="csv").text
    assert pl.read_csv(io.StringIO(text))["estimate"].to_list() == told
    # The rows were there before their windows ended, whenever these were released.
    assert told == counted(file, copy, [batches], last=10)


def connected(service: RunningService) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=HANGS)


def answer(place: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while part := place.recv(65536):
            found += part
    return found


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running(job_file(tmp_path_factory.mktemp("slow"), serve={"timeout": "2s"})) as service:
        yield service


@pytest.mark.long
def test_a_slow_client_is_not_waited_for(impatient: RunningService) -> None:
    with connected(impatient) as silent, connected(impatient) as slow, connected(impatient) as half:
        half.sendall(b"GET /health HTTP/1.1\r\nHost:")
        slow.sendall(
            b"POST /v1/streams/visits/batches/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n"
            + f"Authorization: {impatient.header('write')['Authorization']}\r\n".encode()
            + b"Content-Type: application/x-ndjson\r\nConnection: close\r\n\r\n{"
        )
        assert b" 408 " in answer(slow).split(b"\r\n")[0]
        assert answer(silent) == answer(half) == b""
    assert impatient.get("/health").status_code == 200


@pytest.mark.long
def test_a_connection_that_is_used_is_kept(impatient: RunningService) -> None:
    """Longer than a request may take: requests on it come one after the other, with pauses.

    On a busy machine a pause may be so long that the connection is closed: then another begins.
    """
    with httpx.Client(**PLAIN) as client:
        end = time.monotonic() + HANGS
        kept = list[object]()
        began = asked = time.monotonic()
        while time.monotonic() < began + 2.5:
            answer = client.get(f"{impatient.url}/health")
            assert answer.status_code == 200
            before = asked
            asked = time.monotonic()
            kept.append(answer.extensions["network_stream"])
            if kept[-1] is not kept[0]:
                assert asked - before > 1
                assert asked < end
                began = asked
                kept = kept[-1:]
            time.sleep(0.3)


@pytest.mark.long
def test_idle_connections_leave_the_work_its_descriptors(tmp_path: Path) -> None:
    """Under 256 descriptors, which 400 connections would all take: rows come in, steps go out."""
    file = job_file(tmp_path)
    service = RunningService(file, tokens_for(file))
    try:
        service.limit_open_files(256)
        service.start()
        assert "fewer connections than readers" in service.log.read_text()
        with contextlib.ExitStack() as idle:
            for _ in range(400):
                idle.enter_context(connected(service))
            for number in range(3):
                assert service.post(f"b{number}", rows(number, PAGES)).status_code == 202
                service.at(number + 1)
            service.wait_for(3)
    finally:
        service.close()


def test_a_process_that_may_open_too_little_is_refused(tmp_path: Path) -> None:
    file = job_file(tmp_path)
    service = RunningService(file, tokens_for(file))
    try:
        service.limit_open_files(100)
        service.spawn()
        assert service.ended(HANGS)
        assert "raise the limit (ulimit -n" in service.log.read_text()
    finally:
        service.close()


def test_floods_of_headers_are_cut_off(impatient: RunningService) -> None:
    with connected(impatient) as flood:
        flood.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(20_000):
                flood.sendall(f"X-{number}: {'y' * 100}\r\n".encode())
        found = answer(flood)
        assert found == b"" or b" 4" in found.split(b"\r\n")[0]
    with connected(impatient) as nonsense:
        nonsense.sendall(b"\0\xff\r\n\r\n" * 100)
        assert b" 400 " in answer(nonsense).split(b"\r\n")[0]
    assert impatient.get("/health").status_code == 200


def test_lengths_that_contradict_each_other_are_refused(impatient: RunningService) -> None:
    with connected(impatient) as place:
        place.sendall(
            b"POST /v1/streams/visits/batches/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
            b"Content-Length: 50\r\n\r\n{"
        )
        assert b" 400 " in answer(place).split(b"\r\n")[0]


@pytest.mark.long
def test_two_servers_share_a_database(postgres: str, tmp_path: Path) -> None:
    """Both take rows and answer; one releases; the other takes over from one killed or paused."""
    file = job_file(tmp_path, state=postgres)
    copy = copied(file)
    other = tmp_path / "other"
    other.mkdir()
    (other / "jobs.toml").write_text(
        file.read_text().replace('"visits.key"', f'"{tmp_path / "visits.key"}"')
    )
    one, two = (RunningService(each, tokens_for(each)) for each in (file, other / "jobs.toml"))
    minutes: list[list[bytes]] = []

    def minute(number: int, *services: RunningService) -> None:
        """Send rows of a minute, the same batch to all, then let it end."""
        body = rows(number, PAGES * (number + 1))
        found = [service.post(f"m{number}", body).status_code for service in services]
        assert found == [202, *([200] * (len(services) - 1))]
        minutes.append([body])
        for service in (one, two):
            service.at(number + 1)
        for service in services:
            service.wait_for(number + 1)

    try:
        one.start()
        two.start()
        minute(0, one, two)
        minute(1, two, one)
        end = time.monotonic() + HANGS
        leads = list[str]()
        # On a busy machine the turn may pass on between the two answers.
        while sum('counton_leader{stream="visits"} 1.0\n' in text for text in leads) != 1:
            assert time.monotonic() < end
            leads = [service.get("/metrics", "write").text for service in (one, two)]
        first, second = (
            (one, two) if 'visits"} 1.0\n' in leads[0].split("leader{")[1] else (two, one)
        )
        first.send_signal(signal.SIGSTOP)
        minute(2, second)
        first.send_signal(signal.SIGCONT)  # it goes on as if it were its turn
        minute(3, first, second)
        second.kill()
        minute(4, first)
        series = [row["estimate"] for row in first.series()]
    finally:
        for service in (one, two):
            with contextlib.suppress(ProcessLookupError):
                service.send_signal(signal.SIGCONT) if service._pid else None
            service.close()
    assert series == counted(file, copy, minutes)


@pytest.mark.long
def test_server_without_rollback_guard_accepts_no_rows(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot tell an old dump; with the folder that the servers share it takes over."""
    file = job_file(tmp_path, state=postgres)
    homes = tmp_path / "homes"
    monkeypatch.setenv("XDG_STATE_HOME", str(homes / "one"))
    with running(file) as one:
        one.post("m0", rows(0, PAGES))
        one.at(1)
        one.wait_for(1)
    homes.rename(tmp_path / "away")  # as seen from another machine
    other = RunningService(file, tokens_for(file))
    try:
        other.spawn()
        assert other.ended(HANGS)
        assert "is missing" in other.log.read_text()
    finally:
        other.close()
    (tmp_path / "away").rename(homes)
    with running(file) as two:
        two.at(1)
        assert two.post("m1", rows(1, PAGES)).status_code == 202
        homes.rename(tmp_path / "away")
        end = time.monotonic() + HANGS
        while two.get("/ready").status_code == 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert two.post("m2", rows(1, PAGES)).status_code == 503
        (tmp_path / "away").rename(homes)
        while two.get("/ready").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert two.post("m2", rows(1, PAGES)).status_code == 202
        two.at(2)
        two.wait_for(2)

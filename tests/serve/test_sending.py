"""Rows that are sent to a service: each counts once, whoever dies meanwhile."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from patience import HANGS
from services import Running, copied, counted, job_file, rows, running

from counton.base.errors import InvalidInput, ReplayMismatch, StateUnavailable
from counton.serve.client import Client, Receipt, Shipment, send_file, send_stream

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("service")]

#: What becomes of a request between a sender and the service.
Fate = Callable[[int], str]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("sending")
    with running(job_file(folder, serve={"batch-rows": 60})) as found:
        yield found


@contextmanager
def line_to(service: Running, fate: Fate) -> Iterator[tuple[str, list[str]]]:
    """An address before a service, and the ids of batches whose answers reached their sender.

    A fate is "pass", "lose the answer", "refuse", or a sentence with "kill", which `fate` does.
    """
    answered: list[str] = []
    asked = iter(range(10**6))

    class Line(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            batch = self.path.rpartition("/")[2]
            assert batch not in answered, "it was acknowledged, and is sent again"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            what = fate(next(asked))
            if what == "refuse":
                self.send_response(503)
                self.send_header("Retry-After", "0")
                self.end_headers()
                return
            to = http.client.HTTPConnection("127.0.0.1", service.port, timeout=HANGS)
            try:
                to.request("POST", self.path, body, dict(self.headers))
                answer = to.getresponse()
                said = answer.read()
            except OSError:
                self.close_connection = True
                return
            finally:
                to.close()
            if what == "lose the answer":
                self.close_connection = True
                return
            if answer.status in (200, 202):
                answered.append(batch)
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Line)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/streams/visits", answered
    finally:
        server.shutdown()
        server.server_close()


def taken(service: Running) -> int:
    """Rows that the service has accepted."""
    text = service.get("/metrics", "write").text
    found = re.findall(r'^counton_rows_total\{.*outcome="accepted".*\} (\S+)$', text, re.MULTILINE)
    return sum(map(int, map(float, found)))


def sender(service: Running, words: list[str], **more: Any) -> subprocess.Popen[bytes]:
    """The command, as a process of its own."""
    environment = {**os.environ, "COUNTON_TOKEN": service.tokens["write"]}
    command = [sys.executable, "-m", "counton", "send", *words]
    return subprocess.Popen(command, env=environment, **more)


def test_each_row_counts_once_though_sender_and_service_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between acceptance and answer; answers are lost; the service is away for a while."""
    file = tmp_path / "visits.jsonl"
    whole = rows(1, ["home", "shop"] * 45)
    file.write_bytes(whole)
    process: subprocess.Popen[bytes] | None = None
    folder = tmp_path / "service"
    folder.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")  # where the copy would be noticed
    jobs = job_file(folder)
    copy = copied(jobs)
    with running(jobs) as service:

        def fate(number: int) -> str:
            if number == 4:
                service.kill()
                threading.Thread(target=service.start).start()
            if number == 6 and process is not None:
                process.send_signal(signal.SIGKILL)
            return {1: "lose the answer", 3: "refuse", 6: "lose the answer"}.get(number, "pass")

        with line_to(service, fate) as (address, answered):
            words = [str(file), "--to", address, "--batch-rows", "10"]
            process = sender(service, words)
            assert process.wait(HANGS) == -signal.SIGKILL
            again = sender(
                service, [*words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            said, errors = again.communicate(timeout=HANGS)
            assert again.returncode == 0, errors
            assert service.up()
            assert len(answered) == 9
            assert 0 < json.loads(said)["rows"] < 90
            service.at(3)
            service.wait_for(3)
        told = [row["estimate"] for row in service.series()]
    assert told == counted(jobs, copy, [[whole]], last=3)


def test_a_file_that_grows_is_sent_as_it_grows(service: Running, tmp_path: Path) -> None:
    file, before = tmp_path / "visits.jsonl", taken(service)
    client = Client(f"{service.url}/v1/streams/visits", service.tokens["write"])
    whole = rows(2, ["home"] * 30)
    file.write_bytes(whole[:-9])  # the last line is being written
    assert send_file(client, file, rows=8) == Shipment(4, 29, 29, {})
    file.write_bytes(whole + b"\n\n")
    assert send_file(client, file).rows == 1
    assert send_file(client, file) == Shipment(0, 0, 0, {})
    assert taken(service) - before == 30
    file.write_bytes(rows(3, ["shop"] * 40))
    with pytest.raises(InvalidInput, match="is another file than was sent before"):
        send_file(client, file)
    with pytest.raises(InvalidInput, match="notes what was sent to"):
        send_file(Client("http://127.0.0.1:9/v1/streams/visits", "a"), file)
    assert taken(service) - before == 30


def test_batches_become_as_small_as_the_service_takes_them(
    service: Running, tmp_path: Path
) -> None:
    file, before = tmp_path / "visits.csv", taken(service)
    lines = [json.loads(line) for line in rows(4, ["home", "shop"] * 100).splitlines()]
    # The byte order mark of a spreadsheet, a quoted line break, a field more than the job reads.
    text = "\n".join(f'{one["time"]},{one["page"]},"a ""b"",\n{n}"' for n, one in enumerate(lines))
    file.write_bytes(f"time,page,note\n{text}".encode("utf-8-sig"))
    client = Client(f"{service.url}/v1/streams/visits", service.tokens["write"])
    receipts: list[Receipt] = []
    assert send_file(client, file, told=receipts.append).rows == 200
    assert {receipt.rows for receipt in receipts} == {50}
    assert taken(service) - before == 200


def test_rows_come_through_a_pipe_as_they_come(service: Running, tmp_path: Path) -> None:
    """A batch that nobody answered for is sent first by whoever comes next."""
    before, notes = taken(service), tmp_path / "pipe.sent"
    process: subprocess.Popen[bytes] | None = None

    def fate(number: int) -> str:
        if number == 1 and process is not None:
            process.send_signal(signal.SIGKILL)
        return "lose the answer" if number == 1 else "pass"

    with line_to(service, fate) as (address, answered):
        words = ["-", "--to", address, "--notes", str(notes), "--batch-rows", "10", "--wait", "0.1"]
        process = sender(service, words, stdin=subprocess.PIPE)
        assert process.stdin is not None
        process.stdin.write(rows(5, ["home"] * 10))
        process.stdin.flush()
        while not answered:
            assert process.poll() is None
        process.stdin.write(rows(5, ["shop"] * 7))
        process.stdin.flush()
        assert process.wait(HANGS) == -signal.SIGKILL
        process.stdin.close()
        client = Client(address, service.tokens["write"])
        reading, writing = os.pipe()
        os.write(writing, rows(6, ["home"] * 3))
        os.close(writing)
        with open(reading, "rb") as pipe:
            assert send_stream(client, notes, pipe).rows == 10
    assert taken(service) - before == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe.sent"]


def test_what_a_service_refuses_is_said(service: Running, tmp_path: Path) -> None:
    address, token = f"{service.url}/v1/streams/visits", service.tokens["write"]
    client = Client(address, token, patience=0)
    with pytest.raises(InvalidInput, match="row 1 of the batch has a time that cannot be read"):
        client.send("soon", [{"time": "soon", "page": "home"}])
    first = client.send("first", rows(7, ["home"]))
    again = client.send("first", rows(7, ["home"]))
    assert (first.known, again.known, again.counted) == (False, True, 1)
    with pytest.raises(ReplayMismatch, match="another batch was sent with this id"):
        client.send("first", rows(7, ["shop"]))
    with pytest.raises(InvalidInput, match="give a token for ingest"):
        Client(address, service.tokens["read"]).send("other", rows(7, ["home"]))
    with pytest.raises(InvalidInput, match="refuses batch 'x'"):
        Client(address.replace("visits", "sales"), token).send("x", rows(7, ["home"]))
    with pytest.raises(StateUnavailable, match="did not accept batch 'x' in 1 attempts"):
        Client("http://127.0.0.1:9/v1/streams/visits", "a", patience=0).send("x", rows(7, ["home"]))

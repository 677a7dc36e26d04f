"""`counton.read` of a service's address: the same release as the file of the same stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from inside import Inside, inside, visit

from counton import read
from counton.base.errors import CountonError, InvalidInput
from counton.cli.__main__ import main
from counton.released import service_address
from counton.released.release import Release
from counton.run.exports import export


@contextmanager
def answering(handle: Any) -> Iterator[str]:
    """A server on loopback that answers with a status, headers and a body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = handle(self.path, dict(self.headers))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def served(service: Inside) -> Iterator[str]:
    """The application on loopback."""

    def handle(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        token = {name: value for name, value in headers.items() if name == "Authorization"}
        found = service("GET", path, headers=token)
        return found.status_code, {"Content-Type": found.headers["Content-Type"]}, found.content

    with answering(handle) as url:
        yield f"{url}/v1/streams/visits"


STATISTIC = {
    "statistic": "average",
    "value": "spent",
    "lower": 0,
    "upper": 10,
    "resolution": 0.5,
    "over": 1,
    "level": 0.8,
}
JOBS: list[dict[str, Any]] = [
    {"level": 0.9},
    {"release": "both"},
    {"release": "windows"},
    {"revise": "1m", "steps": None},
    {"domain": None, "unknown": "discover", "epsilon": 100, "delta": 1e-9},
    STATISTIC,
]


@pytest.mark.parametrize("job", JOBS, ids=str)
def test_an_address_gives_the_release_of_the_file(tmp_path: Path, job: dict[str, Any]) -> None:
    with inside(tmp_path, **job) as service, served(service) as url:
        spent = {"spent": 2.5} if "value" in job else {}
        pages = ["home"] * 400 + ["shop"] * 300
        service.post("a", [visit(0.5, page, **spent) for page in pages])
        service.at(1)
        service.post("b", [visit(1.5, page, **spent) for page in pages])
        service.at(2)
        found = job.get("unknown") == "discover"  # which no export writes from the state alone
        if not found:
            export(str(tmp_path / "visits.db"), tmp_path / "visits.parquet")
        for level in (None, 0.7):
            here = read(url, level=level)
            if found:
                file = Release(service.service.journals["visits"].read(level or 0.95))
            else:
                file = read(tmp_path / "visits.parquet", level=level)
            assert here.numbers.level == file.numbers.level
            assert here.table().equals(file.table())
            assert here.table().schema == file.table().schema
            assert here.methods() == file.methods()
            if here.numbers.statistic.card.additive and not found:
                name = file.numbers.groups[0]
                for steps in (None, range(2, 3)):
                    assert here.share(name, steps=steps) == file.share(name, steps=steps)
                other = file.numbers.groups[1]
                assert here.difference(name, other) == file.difference(name, other)
        if not found:  # an address is one of several places of a stream, as a file is
            several = read([url, str(tmp_path / "visits.parquet")])
            assert several.table().equals(read(url).table())
            with pytest.raises(
                CountonError, match=r"belongs to stream 'visits': correct name=orders"
            ):
                read(url, name="orders")
        if "value" in job:
            shown = {name for name in service.rows()[0] if "estimate" in name}
            assert shown <= set(here.table().columns)


def test_a_token_is_needed_where_reading_is_not_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(url: str) -> tuple[str, str]:
        """What `counton show` prints, and what it says besides."""
        monkeypatch.setattr("sys.argv", ["counton", "show", url, "--json"])
        with suppress(SystemExit):
            main()
        told = capsys.readouterr()
        return told.out, " ".join(told.err.split())

    with inside(tmp_path, serve={"public": False}) as service, served(service) as url:
        service.at(1)
        monkeypatch.delenv("COUNTON_TOKEN", raising=False)
        with pytest.raises(CountonError, match="needs a token for reading"):
            read(url)
        with pytest.raises(CountonError, match="for another purpose"):
            read(url, token=service.tokens["write"])
        table = read(url, token=service.tokens["read"]).table()
        monkeypatch.setenv("COUNTON_TOKEN", service.tokens["read"])
        assert read(url).table().equals(table)
        with pytest.raises(CountonError, match="is not a stream of that service"):
            read(url.replace("visits", "others"))
        assert json.loads(shown(url)[0])
        monkeypatch.setenv("VAULT", service.tokens["read"])
        monkeypatch.delenv("COUNTON_TOKEN")
        for given in (service.tokens["read"], "env:VAULT"):
            assert read(url, token=given).table().equals(table)
        for given, says in (
            (service.tokens["write"], "for another purpose"),
            ("env:NOTHING", "token names the environment variable 'NOTHING', which is not set"),
            ("\u00e9", "token has characters that are not allowed in a token"),
        ):
            with pytest.raises(CountonError, match=says) as refused:
                read(url, token=given)
            assert given in ("env:NOTHING", "\u00e9") or given not in str(refused.value)
        out, said = shown(url)
        assert not out
        assert "give token, or set COUNTON_TOKEN" in said


def test_before_the_first_release_the_service_says_so(tmp_path: Path) -> None:
    nothing = pytest.raises(CountonError, match="has released nothing yet")
    with inside(tmp_path) as service, served(service) as url, nothing:
        read(url)


@pytest.mark.parametrize(
    ("status", "headers", "body", "says"),
    [
        (503, {}, b"{}", "cannot be read now"),
        (302, {"Location": "/elsewhere/v1/streams/visits"}, b"", "redirects to another"),
        (200, {}, b"<html>", "does not answer with a release"),
        (200, {}, b"[1]", "does not answer with a release"),
        (200, {}, b'{"rows": [], "description": {"format": 99}}', "reads format"),
        (500, {}, b"", "refuses with 500"),
    ],
)
def test_another_answer_is_refused_in_words(
    status: int, headers: dict[str, str], body: bytes, says: str
) -> None:
    asked: list[str] = []

    def handle(path: str, _: object) -> tuple[int, dict[str, str], bytes]:
        asked.append(path)
        return status, headers, body

    with answering(handle) as url, pytest.raises(CountonError, match=says):
        read(f"{url}/v1/streams/visits", token="secret")
    assert asked == ["/v1/streams/visits/release"]  # the token went nowhere else


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(CountonError, match="does not answer"):
        read("http://127.0.0.1:9/v1/streams/visits")
    with pytest.raises(CountonError, match="is not the address of a stream"):
        read("http://127.0.0.1:9/")


@contextmanager
def without_end(block: bytes) -> Iterator[tuple[str, list[int]]]:
    """A server whose answer does not end, and how much of it was sent."""
    sent = [0]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    sent[0] += self.wfile.write(block)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/streams/visits", sent
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_address, "_MOST_BYTES", 2**20)
    with without_end(b"[" * 2**16) as (url, sent):
        with pytest.raises(InvalidInput, match=rf"{url}.* more than 1,048,576 bytes"):
            read(url)
        assert sent[0] < 2**26  # what the system holds of it
    monkeypatch.setattr(service_address, "_LONGEST", -1)
    with (
        without_end(b"[") as (url, _),
        pytest.raises(InvalidInput, match=rf"{url}.* took longer than"),
    ):
        read(url)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[" * 10**6, "more than 64 levels"),
        (b'{"rows": [' + b"9" * 5000 + b"]}", "does not answer with a release"),
        (b'{"rows": 3, "description": []}', "does not answer with a release"),
        (b'{"rows": [], "description": {"format": 3}}', "cannot be read"),
        (b'{"rows": [], "description": "\x1b"}', "does not answer with a release"),
    ],
)
def test_an_answer_that_is_no_release_is_refused(body: bytes, says: str) -> None:
    with answering(lambda *_: (200, {}, body)) as base:
        url = f"{base}/v1/streams/visits"
        with pytest.raises(InvalidInput, match=rf"{url}.* {says}"):
            read(url)

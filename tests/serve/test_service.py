"""A service as its clients see it: a process of its own, over HTTP."""

import gzip
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from patience import HANGS
from services import PLAIN, RunningService, job_file, rows, running

from counton.serve.server import listening

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("service")]

PAGES = ["home"] * 5 + ["shop"] * 3


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One service for tests that need no other: each uses batches and minutes of its own."""
    with running(job_file(tmp_path_factory.mktemp("service"))) as found:
        yield found


def test_a_batch_is_accepted_and_its_answer_repeated(service: RunningService) -> None:
    first, again = (service.post("repeated", rows(1, PAGES)) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 200)
    assert first.json() == again.json()
    assert first.json() == {"batch": "repeated", "rows": 8, "counted": 8, "counted_nowhere": {}}


def test_another_batch_of_the_same_id_is_refused(service: RunningService) -> None:
    service.post("other", rows(2, PAGES))
    other = service.post("other", rows(2, [*PAGES, "home"]))
    assert other.status_code == 409
    assert "give each batch its own id" in other.json()["detail"]


def test_compressed_batches_are_the_same_batches(service: RunningService) -> None:
    plain = rows(3, PAGES)
    first = service.post("gzip", gzip.compress(plain), **{"Content-Encoding": "gzip"})
    again = service.post("gzip", plain)
    assert (first.status_code, again.status_code) == (202, 200)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"time":"2026-03-01T09:00:00Z","page":"home"}\n{"time":1', "row 2 of the batch is no"),
        (b'{"time":"soon","page":"home"}\n', "row 1 of the batch has a time that cannot be read"),
        (b'{"time":"2026-03-01T09:00:00Z","page":"cellar"}\n', "not listed: 'cellar'"),
        (b'{"time":"2026-03-01T09:00:00Z","page":["home"]}\n', "a list or an object"),
        (b'{"time":"2026-03-01T09:00:00Z"}\n', "has no column 'page'"),
        (
            b'{"time":"2026-03-01T09:00:00Z","pgae":"home","n":' + b"9" * 5000 + b"}\n",
            "has no column 'page'. Did you mean 'pgae'?",
        ),
        (b"", "has no rows"),
        (b"[1, 2]\n", "is not a JSON object"),
        (b'{"time": "2026-03-01T09:00:00Z", "page": "\xff"}', "is not UTF-8"),
        (b'{"time": "2026-03-01T09:00:00Z", "page": "\\ud800"}', "not valid Unicode"),
        (b'{"time":' + b'{"a":' * 100_000, "is not a JSON object"),
    ],
)
def test_rows_that_the_job_refuses(service: RunningService, body: bytes, says: str) -> None:
    answer = service.post("refused", body)
    assert answer.status_code == 422
    assert says in answer.json()["detail"]
    assert service.post("refused", rows(4, [])).status_code == 422  # nothing was taken


def test_bombs_are_refused(service: RunningService) -> None:
    bomb = gzip.compress(bytes(64 * 2**20))
    answer = service.post("bomb", bomb, **{"Content-Encoding": "gzip"})
    assert answer.status_code == 413, answer.text
    assert "at most 8,388,608 bytes" in answer.json()["detail"]


def test_large_bodies_are_refused(service: RunningService) -> None:
    assert service.post("large", b"\n" * (9 * 2**20)).status_code == 413
    assert service.post("many", b"\n" * 600_000).status_code == 413


def test_unsupported_media_type_is_refused(service: RunningService) -> None:
    for media in ("application/json", "application/vnd.apache.arrow.stream"):
        assert service.post("one", b"{}", media).status_code == 415
    assert service.post("one", b"{}", **{"Content-Encoding": "br"}).status_code == 415
    assert service.post("one", rows(5, PAGES), stream="nothing").status_code == 404


@pytest.mark.parametrize(
    "batch", ["../../etc/passwd", "a%2Fb", "%00", "a b", "-", "x" * 201, "%0a", "a%0A", "a\u00e9"]
)
def test_ids_that_are_no_names(service: RunningService, batch: str) -> None:
    assert service.post(batch, rows(5, PAGES)).status_code in (404, 405, 422)


@pytest.mark.parametrize("name", ["..", "%2e%2e", "visits%00", "x" * 500, "visits'--", "%ff"])
def test_names_that_are_no_streams(service: RunningService, name: str) -> None:
    for path in ("", "/series", "/release"):
        assert service.get(f"/v1/streams/{name}{path}").status_code in (404, 422)


def test_one_token_writes_and_one_reads(service: RunningService) -> None:
    body = rows(5, PAGES)
    url = f"{service.url}/v1/streams/visits/batches/scoped"
    media = {"Content-Type": "application/x-ndjson"}
    assert httpx.post(url, content=body, headers=media, **PLAIN).status_code == 401
    for wrong in ("Bearer x", "Basic x", "Bearer", "Bearer " + "y" * 8000, "Bearer \u00ff"):
        given = [(b"Content-Type", media["Content-Type"].encode())]
        given.append((b"Authorization", wrong.encode("latin-1")))
        assert httpx.post(url, content=body, headers=given, **PLAIN).status_code == 401
    to_read = {**media, **service.header("read")}
    assert httpx.post(url, content=body, headers=to_read, **PLAIN).status_code == 403
    assert service.get("/metrics", "read").status_code == 403
    assert service.get("/metrics").status_code == 401
    assert service.get("/metrics", "write").status_code == 200


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RunningService]:
    """A service of one test, which sets its clock."""
    with running(job_file(tmp_path)) as found:
        yield found


def test_service_reports_clock_that_was_ahead(own: RunningService) -> None:
    """Else the service is silent for as long as it was ahead, and says that it is ready."""
    own.post("before", rows(0, PAGES))
    own.at(40)
    own.wait_for(40)
    assert own.get("/ready").status_code == 200
    own.at(39.5)  # as clocks of two servers differ
    assert own.get("/ready").status_code == 200
    own.at(10)
    assert own.get("/ready").status_code == 503
    assert (
        "whose end the clock of this machine has not reached, so the clock was"
        in own.get("/ready").text
    )
    assert own.post("meanwhile", rows(9, PAGES)).status_code == 202
    end = time.monotonic() + HANGS
    while (
        "windows are released whose end the clock of this machine has not reached"
        not in own.log.read_text()
    ):
        assert time.monotonic() < end
        time.sleep(0.05)
    own.at(41)
    own.wait_for(41)
    assert own.get("/ready").status_code == 200


@pytest.mark.parametrize("path", ["/metrics/", "/ready/", "/v1/streams/", "/openapi.json/"])
def test_redirect_ignores_host_header_of_client(service: RunningService, path: str) -> None:
    answer = httpx.get(f"{service.url}{path}", headers={"Host": "elsewhere.example"}, **PLAIN)
    assert answer.status_code == 404
    assert "elsewhere" not in str(answer.headers)


def test_service_returns_released_series(own: RunningService) -> None:
    service = own
    service.post("reading", rows(0, PAGES))
    service.at(10)
    service.wait_for(10)
    (stream,) = service.get("/v1/streams").json()["streams"]
    assert stream["name"] == "visits"
    assert (stream["steps"], stream["horizon"], stream["groups"]) == (10, 60, ["home", "shop"])
    assert stream["next_release"] == "2026-03-01T09:11:00+00:00"
    assert service.get("/v1/streams/visits").json()["budget"]["left"] is None
    shop = service.series(group="shop", last=3)
    assert [(row["window_index"], row["group"]) for row in shop] == [
        (8, "shop"),
        (9, "shop"),
        (10, "shop"),
    ]
    cut = service.series(**{"from": "2026-03-01T09:02", "to": "2026-03-01T09:04"}, group="home")
    assert [row["window_index"] for row in cut] == [3, 4]
    windows = service.series(series="per-window", group="home")
    totals = service.series(series="cumulative", group="home")
    assert sum(row["estimate"] for row in windows) == pytest.approx(totals[-1]["estimate"])
    wide = service.series(confidence_level=0.999)
    assert wide[0]["upper"] > service.series()[0]["upper"]
    assert service.series(group="shop", last=3) == shop
    service.at(12)
    service.wait_for(12)
    assert [row["window_index"] for row in service.series(group="shop", last=3)] == [10, 11, 12]


def test_accepted_sockets_let_asyncio_disable_delayed_sending() -> None:
    """A second answer on a connection took 40 ms more: Nagle's algorithm and a delayed ACK."""
    with (
        listening("127.0.0.1", 0) as server,
        socket.create_connection(server.getsockname()),
        server.accept()[0] as accepted,
    ):
        assert accepted.proto == socket.IPPROTO_TCP  # for which alone asyncio sets TCP_NODELAY


def test_all_paths_are_described(service: RunningService) -> None:
    described = service.get("/openapi.json").json()
    assert "/v1/streams/{name}/batches/{batch}" in described["paths"]
    assert service.get("/docs").status_code == 404


def test_the_log_holds_no_data(service: RunningService) -> None:
    secret = "a-name-that-nobody-may-see"
    body = json.dumps({"time": "2026-03-01T09:00:00Z", "page": secret}).encode()
    assert service.post(f"{secret}", body).status_code == 422
    service.get(f"/v1/streams/{secret}/series", group=secret)
    service.get("/v1/streams", x=secret)
    log = service.log.read_text()
    assert secret not in log
    assert all(token not in log for token in service.tokens.values())
    assert all(json.loads(line)["event"] for line in log.splitlines())


def test_metrics_are_shown_to_operators(service: RunningService) -> None:
    service.post("metrics", rows(20, PAGES))
    text = service.get("/metrics", "write").text
    names = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"}
    assert {
        "counton_rows_total", "counton_run_late_total", "counton_waiting_bytes",
        "counton_lag_seconds", "counton_steps",
    } <= names  # fmt: skip
    assert all(len(line.rsplit(" ", 1)) == 2 for line in text.splitlines())

"""The proxy in front of a service: its limits fit the service's, and nginx takes the file."""

import getpass
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from patience import HANGS
from services import PLAIN, job_file, rows, running

from counton.serve import server
from counton.serve.settings import BATCH_BYTES

FILE = Path(__file__).parents[2] / "deploy" / "nginx" / "counton.conf"


def setting(name: str) -> str:
    found = re.search(rf"^ *{name} (.*);$", FILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def test_proxy_passes_on_the_largest_batch() -> None:
    assert int(setting("client_max_body_size").removesuffix("m")) * 2**20 >= BATCH_BYTES


def test_proxy_closes_an_idle_connection_before_the_service_does() -> None:
    assert int(setting("keepalive_timeout").removesuffix("s")) < server._IDLE_SECONDS


def test_proxy_keeps_encoded_stream_names() -> None:
    assert setting("proxy_pass") == "http://counton"


@contextmanager
def proxy(folder: Path, service_port: int) -> Iterator[str]:
    """nginx with this file, without TLS; the address at which it listens."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
    text = FILE.read_text(encoding="utf-8").replace("127.0.0.1:8080", f"127.0.0.1:{service_port}")
    text = re.sub(r"^ *(listen \[::\]|ssl_).*;$", "", text, flags=re.MULTILINE)
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    file.write_text(
        f"user {getpass.getuser()}; daemon off; pid {folder}/pid; "
        f"error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {folder}/body; {temporary}\n{text} }}\n"
    )
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(file)])
    try:
        end = time.monotonic() + HANGS
        while True:
            assert process.poll() is None, (folder / "error.log").read_text()
            with socket.socket() as place:
                if place.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < end
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(HANGS)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_batches_and_pages_pass_the_proxy(tmp_path: Path) -> None:
    groups = ["a b&c", "shop"]
    file = job_file(tmp_path, stream="visits of ü%2F", groups=groups, windows=4000)
    stream = "/v1/streams/visits%20of%20%C3%BC%252F"
    with running(file) as service, proxy(tmp_path, service.port) as address:
        body = rows(0, ["shop"] * 100_000)
        assert 2**20 < len(body) < BATCH_BYTES
        headers = {"Content-Type": "application/x-ndjson", **service.header("write")}
        sent = httpx.post(
            f"{address}{stream}/batches/a", content=body, headers=headers, timeout=HANGS, **PLAIN
        )
        assert sent.status_code == 202, sent.text
        assert sent.json()["counted"] == 100_000
        service.at(3000)
        service.wait_for(3000, stream="visits%20of%20%C3%BC%252F")
        found = []
        following: str | None = "series?group=a%20b%26c&group=shop"
        while following is not None:
            answer = httpx.get(f"{address}{stream}/{following}", timeout=HANGS, **PLAIN).json()
            found += answer["rows"]
            following = answer["next"]
        assert len(found) == 6000

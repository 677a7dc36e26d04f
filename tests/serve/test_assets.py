"""Files of the page: whole, asked for again, and nothing from elsewhere in them."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import anyio
import httpx
import pytest
from fastapi import FastAPI

import counton.serve
from counton.serve import assets

FILES = Path(counton.serve.__file__).parent / "page"


class Client:
    """Asks for the files of the page."""

    def __init__(self) -> None:
        app = FastAPI()
        app.include_router(assets.router())
        self._transport = httpx.ASGITransport(app)

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            url = "http://counton"
            async with httpx.AsyncClient(transport=self._transport, base_url=url) as client:
                return await client.request(method, path, headers=headers)

        return anyio.run(ask)


@pytest.fixture
def client() -> Client:
    return Client()


def addresses(page: str) -> list[str]:
    return re.findall(r'(?:href|src)="(page/[^"]+)"', page)


def test_page_names_existing_assets(client: Client) -> None:
    page = client.get("/")
    found = addresses(page.text)
    assert len(found) >= 6
    for address in found:
        answer = client.get(f"/{address}")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == page.headers["cache-control"] == "no-cache"
        (file,) = FILES.parent.glob(f"*/{address.removeprefix('page/')}")
        assert answer.content == file.read_bytes()


def test_scripts_import_existing_files() -> None:
    for path in FILES.glob("*.js"):
        for name in re.findall(r'from "\./([^"]+)"', path.read_text()):
            assert name in assets.assets()


def test_unchanged_page_is_answered_with_304(client: Client) -> None:
    tag = client.get("/").headers["etag"]
    again = client.get("/", headers={"if-none-match": f'"other", W/{tag}'})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/", headers={"if-none-match": '"other"'}).status_code == 200
    assert client.get("/", method="HEAD").content == b""


def test_page_policy_allows_only_own_scripts(client: Client) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=", answer.text)
    for path in FILES.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(", text), path
        assert "innerHTML" not in text


@pytest.mark.parametrize(
    "path",
    ["/page/", "/page/x/app.js", "/page/../app.js", "/page/..%2fassets.py", "/page/%2e%2e/y"],
)
def test_unknown_asset_is_not_found(client: Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_chart_library_is_shipped_unchanged_with_licence() -> None:
    """It is here as its author published it: no package brings it, and others along with it."""
    folder = FILES.parent / "uplot"
    script = (folder / "uPlot.iife.js").read_bytes()
    assert hashlib.sha256(script).hexdigest().startswith("655bc8aa33781e87")
    assert "uPlot.js (μPlot)" in script.decode()[:200]
    assert "Permission is hereby granted, free of charge" in (folder / "LICENSE").read_text()
    locked = (FILES.parents[3] / "requirements.lock").read_text()
    assert "ipython" not in locked

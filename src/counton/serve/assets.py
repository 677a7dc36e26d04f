"""The page at ``/``: static files that browsers keep until the files change.

It reads only the paths that are open to every reader, and draws with uPlot 1.6.16, whose licence is
in ``uplot``.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

_KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_UPLOT = ("uPlot.iife.js", "uPlot.min.css")
#: A browser runs only scripts of this service, shows the page in no foreign frame, and sends no
#: referrer.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FOREVER, _ASK_AGAIN = "public, max-age=31536000, immutable", "no-cache"


@dataclass(frozen=True)
class Asset:
    """A static file of the page.

    Attributes:
        plain, packed: bytes of the file, plain and compressed.
        tag: HTTP entity tag of this version.
    """

    kind: str
    plain: bytes
    packed: bytes
    tag: str

    @classmethod
    def of(cls, name: str, plain: bytes) -> Asset:
        """Compress a file, and compute its media type and tag."""
        tag = f'"{hashlib.sha256(plain).hexdigest()[:20]}"'
        return cls(_KINDS[Path(name).suffix], plain, gzip.compress(plain, 9, mtime=0), tag)


@cache
def assets() -> dict[str, Asset]:
    """Return the static files by path; the page's is empty.

    Other paths are made of the contents, so that browsers may keep them.

    >>> sorted(path.split("/")[-1] for path in assets())[:3]
    ['', 'app.js', 'chart.js']
    """
    here = Path(__file__).parent
    found = {path.name: path.read_bytes() for path in (here / "page").iterdir()}
    found |= {name: (here / "uplot" / name).read_bytes() for name in _UPLOT}
    whole = hashlib.sha256()
    for name, content in sorted(found.items()):
        whole.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest())
    folder = f"page/{whole.hexdigest()[:16]}"
    index = re.sub(rb'"page/', f'"{folder}/'.encode(), found.pop("index.html"))
    return {"": Asset.of("index.html", index)} | {
        f"{folder}/{name}": Asset.of(name, content) for name, content in found.items()
    }


def router() -> APIRouter:
    """Build the paths of the page and its files."""
    files = assets()
    paths = APIRouter(include_in_schema=False)

    @paths.api_route("/", methods=["GET", "HEAD"])
    def page(request: Request) -> Response:
        return _answer(request, files[""], _ASK_AGAIN)

    @paths.api_route("/page/{version}/{name}", methods=["GET", "HEAD"])
    def file(request: Request, version: str, name: str) -> Response:
        found = files.get(f"page/{version}/{name}")
        if found is None:
            return Response(status_code=404, headers=HEADERS)
        return _answer(request, found, _FOREVER)

    return paths


def _answer(request: Request, asset: Asset, keep: str) -> Response:
    headers = {**HEADERS, "Cache-Control": keep, "ETag": asset.tag, "Vary": "Accept-Encoding"}
    known = request.headers.get("if-none-match", "")
    if asset.tag in (one.strip().removeprefix("W/") for one in known.split(",")):
        return Response(status_code=304, headers=headers)
    body = asset.plain
    if takes_gzip(request):
        headers["Content-Encoding"] = "gzip"
        body = asset.packed
    return Response(body, media_type=asset.kind, headers=headers)


def takes_gzip(request: Request) -> bool:
    """Return whether a client accepts gzip; q=0 refuses it."""
    for one in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, quality = one.partition(";")
        if coding.strip() == "gzip":
            return not re.fullmatch(r"\s*q=0(\.0*)?\s*", quality)
    return False

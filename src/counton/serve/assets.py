"""The page at ``/``: static files, which browsers load again when they change.

It reads only the paths that are open to every reader, and draws with uPlot 1.6.16, whose licence is
in ``uplot``.
"""

from __future__ import annotations

import hashlib
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


@cache
def assets() -> dict[str, tuple[bytes, str, str]]:
    """Return the static files by name: content, media type, and HTTP entity tag of this version.

    >>> sorted(assets())[:3]
    ['app.js', 'chart.js', 'format.js']
    """
    folder = Path(__file__).parent
    files = [*(folder / "page").iterdir(), *(folder / "uplot" / name for name in _UPLOT)]
    return {
        path.name: (whole, _KINDS[path.suffix], f'"{hashlib.sha256(whole).hexdigest()[:20]}"')
        for path in files
        for whole in [path.read_bytes()]
    }


def router() -> APIRouter:
    """Build the paths of the page and its files."""
    paths = APIRouter(include_in_schema=False)

    @paths.api_route("/", methods=["GET", "HEAD"])
    def page(request: Request) -> Response:
        return file(request, "index.html")

    @paths.api_route("/page/{name}", methods=["GET", "HEAD"])
    def file(request: Request, name: str) -> Response:
        if name not in assets():
            return Response(status_code=404, headers=HEADERS)
        whole, kind, tag = assets()[name]
        headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": tag}
        tags = request.headers.get("if-none-match", "").split(",")
        if tag in (text.strip().removeprefix("W/") for text in tags):
            return Response(status_code=304, headers=headers)
        return Response(whole, media_type=kind, headers=headers)

    return paths

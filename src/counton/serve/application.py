"""The web application of a service, with its log and its metrics for the operator."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from time import monotonic
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.datastructures import MutableHeaders
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counton.base.errors import CountonError, InvalidInput
from counton.base.exact import short_repr
from counton.serve import assets, metrics
from counton.serve import read_paths as reading
from counton.serve import write_paths as writing
from counton.serve.log_lines import note, warn
from counton.serve.served_jobs import explain
from counton.serve.service import Service


def application(service: Service) -> FastAPI:
    """Build the service as an ASGI application."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        watching = asyncio.create_task(service.watch())
        yield
        service.stop()
        await watching
        await asyncio.to_thread(service.close)
        note("stopped")

    app = FastAPI(
        title="counton",
        version=version("counton"),
        description="Released series under differential privacy, and the path that takes rows.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a client could name any host as the target
        lifespan=lifespan,
    )
    app.state.service = service
    counts: Counter[tuple[str, str]] = Counter()
    rows: Counter[tuple[str, str]] = Counter()

    def count(stream: str, what: str, many: int) -> None:
        counts[stream, what] += 1
        rows[stream, what] += many

    app.add_middleware(RequestLog)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": "; ".join(map(problem_in_words, error.errors()))}, 422)

    @app.exception_handler(InvalidInput)
    async def _refuse(_request: Request, error: InvalidInput) -> JSONResponse:
        return JSONResponse({"detail": explain(error)}, 422)

    @app.exception_handler(OSError)
    @app.exception_handler(CountonError)
    async def _unavailable(_request: Request, error: Exception) -> JSONResponse:
        warn("a request failed", error=type(error).__name__)
        return JSONResponse(
            {"detail": "the state cannot be read now; ask again"}, 503, {"Retry-After": "2"}
        )

    @app.get("/health", tags=["operate"], response_class=PlainTextResponse)
    def health() -> str:
        """Return whether the process answers."""
        return "alive\n"

    @app.get("/ready", tags=["operate"], response_class=PlainTextResponse, responses={503: {}})
    def ready() -> PlainTextResponse:
        """Return whether rows can be taken and series read; if not, why."""
        why = service.why_not_ready
        if why is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"{why}\n", 503)

    @app.get(
        "/metrics",
        tags=["operate"],
        response_class=PlainTextResponse,
        dependencies=[service.access.needs("operate")],
        responses={status: reading.as_json(status) for status in (401, 403)},
    )
    def numbers() -> PlainTextResponse:
        """Numbers for the operator, as Prometheus reads them. Exact, so never for readers."""
        return PlainTextResponse(metrics.text(service, counts, rows), media_type=metrics.MEDIA)

    for paths in (
        reading.router(
            service.journals, service.feeds, service.failed, service.access, service.reading
        ),
        writing.router(service, count),
        assets.router(),
    ):
        app.router.routes += paths.routes  # an included router would compute each path again
    _document(app)
    return app


def problem_in_words(problem: Mapping[str, Any]) -> str:
    """Describe a wrong value of a request, with its bound and the remedy; ``problem`` is one of
    pydantic's errors.

    >>> problem_in_words({"type": "missing", "loc": ("query", "from"), "input": None})
    'from is missing; give it'
    """
    name = ".".join(str(one) for one in problem["loc"][1:]) or "the request"
    kind, bounds = problem["type"], problem.get("ctx", {})
    if kind == "missing":
        return f"{name} is missing; give it"
    for kinds, says in _ASKED:
        if kind in kinds:
            return f"{name} is {short_repr(problem['input'])}; {says.format(**bounds)}"
    return f"{name} is {short_repr(problem['input'])}, which is not allowed; see /docs"


#: What to do, by the kinds of errors that pydantic finds.
_ASKED = (
    (("greater_than",), "it must be more than {gt}"),
    (("greater_than_equal",), "it must be {ge} or more"),
    (("less_than",), "it must be less than {lt}"),
    (("less_than_equal",), "it must be {le} or less"),
    (("finite_number", "float_parsing", "float_type"), "write a number, as in 0.95"),
    (("int_parsing", "int_parsing_size", "int_from_float", "int_type"), "write a whole number"),
    (("literal_error",), "use {expected}"),
    (("string_too_long",), "it may have {max_length} characters"),
    (("string_pattern_mismatch",), "write letters, digits and . _ : -, a letter or digit first"),
)


class RequestLog:
    """ASGI middleware that logs each HTTP request and adds headers to its answer.

    The body of an answer is passed on unchanged, part by part.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one connection on to the application, and log its request; the signature is that of
        ASGI.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = monotonic(), 500

        async def passing(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.setdefault("Cache-Control", "no-store")
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            await self._app(scope, receive, passing)
        finally:
            note(
                "request",
                method=scope["method"] if scope["method"] in _METHODS else "other",
                path=getattr(scope.get("route"), "path", "none"),  # never the client's text
                status=status,
                seconds=round(monotonic() - began, 4),
            )


_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")


def _document(app: FastAPI) -> None:
    """Add the page /docs, which documents all paths; its scripts are served by this service."""
    from swagger_ui_bundle import swagger_ui_path

    app.mount("/docs/files", StaticFiles(directory=swagger_ui_path), name="docs files")

    @app.get("/docs", include_in_schema=False)
    def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="counton",
            swagger_js_url="/docs/files/swagger-ui-bundle.js",
            swagger_css_url="/docs/files/swagger-ui.css",
            swagger_favicon_url="/docs/files/favicon-32x32.png",
        )

    made = app.openapi

    def openapi() -> dict[str, Any]:
        """Return the description of all paths in OpenAPI 3.0, which the page /docs understands."""
        if app.openapi_schema is None:
            found = _to_openapi_3_0(made())
            found["openapi"] = "3.0.3"
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _to_openapi_3_0(value: Any) -> Any:
    """Convert a schema from OpenAPI 3.1 to 3.0, which writes optional values and exclusive bounds
    in another way.
    """
    if isinstance(value, list):
        return [_to_openapi_3_0(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {name: _to_openapi_3_0(one) for name, one in value.items()}
    several = found.get("anyOf")
    if isinstance(several, list) and {"type": "null"} in several:
        rest = [one for one in several if one != {"type": "null"}]
        del found["anyOf"]
        found |= rest[0] if len(rest) == 1 else {"anyOf": rest}
        found["nullable"] = True
    for bound, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        limit = found.get(bound)
        if isinstance(limit, int | float) and not isinstance(limit, bool):
            found[inclusive], found[bound] = limit, True
    return found

"""The web application of a service, with its log and metrics."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import version
from time import monotonic

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from counton.base.errors import CountonError, InvalidInputError
from counton.serve import assets, metrics
from counton.serve import read_paths as reading
from counton.serve import write_paths as writing
from counton.serve.answers import LongAnswers
from counton.serve.log_lines import note, warn
from counton.serve.served_jobs import explain
from counton.serve.service import Service
from counton.serve.slots import NoPlaceError


def application(service: Service) -> FastAPI:
    """Build the service as an ASGI application."""
    app = FastAPI(
        title="counton",
        version=version("counton"),
        description="Released series under differential privacy, and the path that takes rows.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a client could name any host as the target
        lifespan=_lifespan_of(service),
    )
    app.state.service = service
    # A level above 4 takes several times as long for answers that are a few percent smaller.
    app.add_middleware(Compression, minimum_size=1000, compresslevel=1)
    app.add_middleware(RequestLog)
    _add_error_answers(app)
    received = _ReceivedBatches()
    _add_operator_paths(app, service, received)
    for paths in (
        reading.router(service.journals, service.failed, service.access, LongAnswers()),
        writing.router(service, received.count),
        assets.router(),
    ):
        app.router.routes += paths.routes  # an included router would compute each path again
    return app


class _ReceivedBatches:
    """Numbers of batches and of their rows, by stream and outcome, since the service started."""

    def __init__(self) -> None:
        self.batches: Counter[tuple[str, str]] = Counter()
        self.rows: Counter[tuple[str, str]] = Counter()

    def count(self, stream: str, outcome: str, n_rows: int) -> None:
        """Count one batch."""
        self.batches[stream, outcome] += 1
        self.rows[stream, outcome] += n_rows


def _lifespan_of(service: Service) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Return the context manager that starts a service, and stops it in the end."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        watching = asyncio.create_task(service.watch())
        yield
        service.stop()
        await watching
        await asyncio.to_thread(service.close)
        note("stopped")

    return lifespan


def _add_error_answers(app: FastAPI) -> None:
    """Add the answers to requests that raise an error."""

    @app.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        problems = (f"{problem['loc'][-1]}: {problem['msg']}" for problem in error.errors())
        return JSONResponse({"detail": "; ".join(problems)}, 422)

    @app.exception_handler(InvalidInputError)
    async def _refuse(_request: Request, error: InvalidInputError) -> JSONResponse:
        return JSONResponse({"detail": explain(error)}, 422)

    @app.exception_handler(OSError)
    @app.exception_handler(CountonError)
    async def _unavailable(_request: Request, error: Exception) -> JSONResponse:
        warn("a request failed", error=type(error).__name__)
        return JSONResponse(
            {"detail": "the state cannot be read now; ask again"}, 503, {"Retry-After": "2"}
        )

    @app.exception_handler(NoPlaceError)
    async def _busy(_request: Request, _error: NoPlaceError) -> JSONResponse:
        return JSONResponse(
            {"detail": "too many long answers are under way; ask again"}, 503, {"Retry-After": "2"}
        )


def _add_operator_paths(app: FastAPI, service: Service, received: _ReceivedBatches) -> None:
    """Add the paths that operators and their programs ask."""

    # These two run in no thread of the pool, all of which may be busy.
    @app.get("/health", tags=["operate"], response_class=PlainTextResponse)
    async def health() -> str:
        """Return whether the process answers."""
        return "alive\n"

    @app.get("/ready", tags=["operate"], response_class=PlainTextResponse, responses={503: {}})
    async def ready() -> PlainTextResponse:
        """Return whether rows can be taken and series read; if not, why."""
        why = service.why_not_ready
        if why is None:
            return PlainTextResponse("ready\n")
        return PlainTextResponse(f"{why}\n", 503)

    @app.get(
        "/metrics",
        tags=["operate"],
        response_class=PlainTextResponse,
        dependencies=[service.access.dependency("write")],
        responses={401: {}, 403: {}},
    )
    def numbers() -> PlainTextResponse:
        """Numbers for the operator, as Prometheus reads them. Exact, so never for readers."""
        text = metrics.text(service, received.batches, received.rows)
        return PlainTextResponse(text, media_type=metrics.MEDIA)


class Compression(GZipMiddleware):
    """Compression of answers, unless the client refuses gzip by ``gzip;q=0``."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(raw=scope.get("headers", []))
        refused = _REFUSES_GZIP.search(headers.get("Accept-Encoding", ""))
        await (self.app if refused else super().__call__)(scope, receive, send)


class RequestLog:
    """ASGI middleware that logs requests and adds headers to answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = monotonic()
        status = _CLIENT_LEFT_STATUS

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
        except BaseException:
            status = 500
            raise
        finally:
            note(
                "request",
                method=scope["method"] if scope["method"] in _METHODS else "other",
                path=getattr(scope.get("route"), "path", "none"),  # never the client's text
                status=status,
                seconds=round(monotonic() - began, 4),
            )


_REFUSES_GZIP = re.compile(r"gzip\s*;\s*q\s*=\s*0(\.0*)?\s*(,|$)", re.IGNORECASE)
#: Status in the log of a request whose client left before the answer.
_CLIENT_LEFT_STATUS = 499
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")

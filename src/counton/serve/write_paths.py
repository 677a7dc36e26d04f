"""The HTTP path to which senders post rows."""

from __future__ import annotations

import asyncio
import hashlib
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect

from counton.base.errors import CountonError, InvalidInputError
from counton.serve.answers import client_of
from counton.serve.batch_intake import checked_batch
from counton.serve.bodies import ENCODINGS, JSON_LINES, TooLargeError, decompress
from counton.serve.read_paths import OLD_STATE_ANSWER, check_name, later
from counton.serve.served_jobs import explain
from counton.serve.service import Service
from counton.serve.settings import BATCH_BYTES, BATCH_ROWS, MOST_NAME, WAITING_BYTES, Settings
from counton.serve.slots import NoPlaceError, Slots
from counton.state.inbox import LONGEST_ID, BatchStatus

_BATCH_PATTERN = (
    "^[A-Za-z0-9][A-Za-z0-9._:-]*$"  # its end is that of the text, also before a newline
)
#: Numbers of threads that decompress bodies, and that check and commit batches.
_DECOMPRESSION_THREADS = 2
_COMMIT_THREADS = 4
#: Most batches that are received and checked at once; others wait.
_MOST_BATCHES_AT_ONCE = 32
_SCHEMA = {
    "requestBody": {
        "required": True,
        "description": "rows with the job's columns; Content-Encoding: gzip may be used",
        "content": {
            media: {"schema": {"type": "string", "format": "binary"}} for media in JSON_LINES
        },
    }
}
#: Why a committed batch was not taken, by the inbox's verdict: status and remedy.
_NOT_TAKEN = {
    "other": (409, "another batch was sent with this id; give each batch its own id"),
    "closed": (
        410,
        "the stream has ended and takes no more rows; send rows to another stream",
    ),
    "full": (
        410,
        "with this batch the rows sent would add up to more than the stream takes; begin another "
        "stream that counts in larger units",
    ),
}


#: Answers of the path besides that a batch was taken now, by status, for its description.
_ANSWERS = {
    200: "the same batch was accepted before",
    400: "the body was not sent whole",
    401: "no token, or an unknown token",
    403: "the token to read",
    404: "no such stream",
    408: "the body did not come in time",
    409: "another batch has this id",
    410: "the stream has ended, or takes no more rows",
    413: "more bytes or rows than allowed",
    415: "a media type or encoding that the service does not read",
    422: "a row or value that is not allowed",
    503: "not now; send it again after Retry-After seconds",
}


def router(service: Service, count: Callable[[str, str, int], None]) -> APIRouter:
    """Build the path for batches; ``count`` gets stream, outcome and number of rows of each."""
    paths = APIRouter(prefix="/v1/streams", tags=["write"])
    paths.add_api_route(
        "/{name}/batches/{batch}",
        _BatchIntake(service, count).batches,
        methods=["POST"],
        status_code=202,
        dependencies=[service.access.dependency("write")],
        responses={status: {"description": why} for status, why in _ANSWERS.items()},
        openapi_extra=_SCHEMA,
    )
    return paths


class _BatchIntake:
    """What receives, checks and commits batches: a bounded number at once."""

    def __init__(self, service: Service, count: Callable[[str, str, int], None]) -> None:
        self._service = service
        self._count = count
        self._receiving = Slots(_MOST_BATCHES_AT_ONCE)
        self._openers = ThreadPoolExecutor(_DECOMPRESSION_THREADS, "bodies")
        self._workers = ThreadPoolExecutor(_COMMIT_THREADS, "rows")

    async def batches(
        self,
        request: Request,
        name: Annotated[str, Path(description="the stream", max_length=MOST_NAME)],
        batch: Annotated[
            str,
            Path(
                description="id of the batch: the same id and rows are counted once",
                max_length=LONGEST_ID,
                pattern=_BATCH_PATTERN,
            ),
        ],
    ) -> JSONResponse:
        """Send rows. They are acknowledged when they are committed, and counted once."""
        service = self._service
        check_name(name, service.served, service.failed)
        encoding = _encoding_of(request)
        _refuse_for_now(service, name)
        try:
            verdict, rows = await self._take(request, name, batch, encoding)
        except NoPlaceError:
            self._count(name, "put off", 0)
            raise later(503, "too many batches are being received; send it again", 2) from None
        except TooLargeError:
            raise HTTPException(
                413,
                f"a batch may have at most {BATCH_BYTES:,} bytes after decompression, and "
                f"{BATCH_ROWS:,} rows; divide it into several",
            ) from None
        except InvalidInputError as error:
            self._count(name, "refused", 0)
            raise HTTPException(422, explain(error)) from None
        except (queue.Full, CountonError, OSError):
            self._count(name, "put off", 0)
            if await asyncio.to_thread(service.is_old_copy, name):
                raise later(503, OLD_STATE_ANSWER, 60) from None
            raise later(503, "the batch could not be saved now; send it again", 1) from None
        self._count(name, verdict.outcome, rows)
        if verdict.outcome in _NOT_TAKEN:
            status, remedy = _NOT_TAKEN[verdict.outcome]
            raise HTTPException(status, remedy)
        return JSONResponse(verdict.answer, 202 if verdict.outcome == "accepted" else 200)

    async def _take(
        self, request: Request, name: str, batch: str, encoding: str
    ) -> tuple[BatchStatus, int]:
        """Receive, check and commit a batch; return what `_take_batch` returns."""
        service = self._service
        # A sender that makes no progress loses its place to the next one.
        async with self._receiving.hold(client_of(request.scope)):
            body = await _receive_body(request, service.settings)
            # Nothing waits before this: the batch has come when its bytes are there.
            whole = await asyncio.wrap_future(
                self._openers.submit(decompress, body, encoding, BATCH_BYTES)
            )
            came = service.under_way.enter(name)
            done = self._workers.submit(_take_batch, service, name, batch, whole, came)
            done.add_done_callback(lambda _done: service.under_way.leave(name, came))
            return await asyncio.wrap_future(done)


def _encoding_of(request: Request) -> str:
    """Return the encoding of a body; refuse one, or a media type, that the service cannot read."""
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if media not in JSON_LINES:
        raise HTTPException(415, f"the Content-Type must be {JSON_LINES[0]}; send JSON lines")
    if encoding not in ENCODINGS:
        raise HTTPException(
            415, f"the Content-Encoding must be one of {', '.join(ENCODINGS)}; use one of them"
        )
    return encoding


def _refuse_for_now(service: Service, name: str) -> None:
    """Refuse a batch while the service stops, or too many rows wait."""
    if service.stopping.is_set():
        raise later(503, "the service is stopping; send the batch again", 2)
    if service.state_of(name).waiting_bytes > WAITING_BYTES:
        raise later(503, "too many rows are waiting to be counted; send the batch later", 5)


async def _receive_body(request: Request, settings: Settings) -> bytes:
    """Return the body of a request, which has a limited length and time."""
    body = bytearray()
    try:
        async with asyncio.timeout(settings.timeout_seconds):
            async for part in request.stream():
                body += part
                if len(body) > BATCH_BYTES:
                    raise TooLargeError
    except TimeoutError:
        raise HTTPException(
            408, f"the body did not come within {settings.timeout}; send it again"
        ) from None
    except ClientDisconnect:
        raise HTTPException(400, "the body was not sent whole; send it again") from None
    return bytes(body)


def _take_batch(
    service: Service, name: str, batch: str, whole: bytes, came: int
) -> tuple[BatchStatus, int]:
    """Check and commit a batch; return the verdict, and the number of rows accepted now."""
    state = service.state_of(name)
    digest = hashlib.sha256(whole).digest()  # of rows, however they are compressed
    verdict = state.inbox.find(name, batch, digest)
    if verdict is not None:  # even if the stream has ended since
        return verdict, 0
    ended = service.why_closed(name, came)
    if ended is not None:
        raise HTTPException(410, ended)
    checked = checked_batch(service.served[name], batch, whole, digest, came)
    return state.committer.put(checked).result(), checked.rows

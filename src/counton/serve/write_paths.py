"""The HTTP path to which senders post rows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from counton.base.errors import CountonError, InvalidInput
from counton.serve.batch_intake import Full, checked_batch, digest_of
from counton.serve.bodies import ARROW, ENCODINGS, JSON_LINES, TooLarge, decompress
from counton.serve.limits import Rates, Rooms, later
from counton.serve.read_paths import REFUSALS, UNSEEN, UNSURE, check_name, refusals
from counton.serve.served_jobs import explain
from counton.serve.service import Service
from counton.state.inbox import LONGEST_ID, Sender, Verdict

_BATCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
#: Numbers of threads that decompress bodies, and that check and commit batches.
_OPENERS, _WORKERS = 2, 4


class BatchReceipt(BaseModel):
    """The outcome of a batch. A batch that is sent again gets an equal answer."""

    batch: str
    rows: int
    counted: int
    counted_nowhere: dict[str, int]


def full_up(sender: Sender) -> str:
    """Return the message that refuses a batch, because the sender's rows would then exceed the
    sender's share of the largest sums that the stream can hold.
    """
    return (
        f"with this batch your rows would add up to more than {sender.share:.3g} of what the sums "
        "of the stream can hold, which is the most that your token may ever send; ask for another "
        "token, or for another stream that counts in larger units"
    )


class StreamEnded(Exception):
    """The error that a stream has ended, and takes no rows any more."""


_SCHEMA = {
    "requestBody": {
        "required": True,
        "description": "rows with the job's columns; Content-Encoding: gzip or zstd may be used",
        "content": {
            **{media: {"schema": {"type": "string", "format": "binary"}} for media in JSON_LINES},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
_MORE = refusals(
    {
        400: "the body was not sent whole",
        408: "the body did not come in time",
        409: "another batch has this id",
        410: "the stream has ended, or takes no more rows of this sender",
        413: "more bytes or rows than allowed",
        415: "a media type or encoding that the service does not read",
        429: "more rows a second than allowed; send it again after Retry-After seconds",
        503: "too much waits; send it again after Retry-After seconds",
    }
)


def router(service: Service, count: Callable[[str, str, int], None]) -> APIRouter:
    """Build the path to which senders post batches of rows.

    Args:
        count: function that is called with stream, outcome and number of rows of each batch, for
            the metrics.
    """
    paths = APIRouter(prefix="/v1/streams", tags=["ingest"])
    settings = service.settings
    rates, rooms = Rates(settings.rows_per_second), Rooms(settings.batch_bytes)
    openers = ThreadPoolExecutor(_OPENERS, "bodies")
    workers = ThreadPoolExecutor(_WORKERS, "rows")

    @paths.post(
        "/{name}/batches/{batch}",
        status_code=202,
        response_model=BatchReceipt,
        dependencies=[service.access.needs("ingest")],
        responses={
            **REFUSALS,
            **_MORE,
            200: {"model": BatchReceipt, "description": "the same batch was accepted before"},
        },
        openapi_extra=_SCHEMA,
    )
    async def batches(
        request: Request,
        name: Annotated[str, Path(description="the stream", max_length=200)],
        batch: Annotated[
            str,
            Path(
                description="id of the batch: the same id and rows are counted once",
                max_length=LONGEST_ID,
                pattern=f"^{_BATCH.pattern}$",
            ),
        ],
    ) -> JSONResponse:
        """Send rows. They are acknowledged when they are committed, and counted once."""
        check_name(name, service.served, service.failed)
        if not _BATCH.fullmatch(batch):  # the path's pattern also takes a final newline
            raise HTTPException(
                422, "the id of a batch may have only letters, digits and . _ : -; give such an id"
            )
        media = request.headers.get("content-type", "").split(";")[0].strip().lower()
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if media not in (*JSON_LINES, ARROW):
            raise HTTPException(
                415, f"the Content-Type must be {JSON_LINES[0]} or {ARROW}; send one of them"
            )
        if encoding not in ENCODINGS:
            raise HTTPException(
                415, f"the Content-Encoding must be one of {', '.join(ENCODINGS)}; use one of them"
            )
        state = service.state_of(name)
        if service.stopping.is_set():
            raise later(503, "the service is stopping; send the batch again", 2)
        if name in state.unseen:
            raise later(503, UNSEEN, 10)
        token = request.state.token
        sender = Sender(token.id, token.number)
        if state.waiting_bytes.get(sender.id, 0) > settings.waiting_bytes / sender.number:
            raise later(
                503, "too many of your rows are waiting to be counted; send the batch later", 5
            )
        wait = rates.wait(sender.id)
        if wait > 0:
            raise later(
                429,
                f"more than {settings.rows_per_second:,} rows came in a second; send the batch "
                "again later",
                wait,
            )
        held = 0
        try:
            body = bytearray()
            try:
                async with asyncio.timeout(settings.timeout_seconds):
                    async for part in request.stream():
                        if len(body) + len(part) > settings.batch_bytes:
                            raise HTTPException(413, _too_large(service))
                        if not rooms.take(sender, len(part)):
                            raise later(
                                503, "too many batches came at once; send the batch again", 1
                            )
                        held += len(part)
                        body += part
            except TimeoutError:
                raise HTTPException(
                    408, f"the body did not come within {settings.timeout}; send it again"
                ) from None
            try:
                # Nothing waits before this: the batch has come when its bytes are there.
                whole = await asyncio.wrap_future(
                    openers.submit(decompress, bytes(body), encoding, settings.batch_bytes)
                )
                more = max(0, len(whole) - len(body))
                if not rooms.take(sender, more):
                    raise later(503, "too many batches came at once; send the batch again", 1)
                held += more
                came = service.under_way.enter(name)
                done = workers.submit(_take_batch, service, name, batch, media, whole, came, sender)
                done.add_done_callback(lambda _done: service.under_way.leave(name, came))
                verdict, rows = await asyncio.wrap_future(done)
            except TooLarge:
                raise HTTPException(413, _too_large(service)) from None
            except StreamEnded as error:
                raise HTTPException(410, str(error)) from None
            except InvalidInput as error:
                count(name, "refused", 0)
                raise HTTPException(422, explain(error)) from None
            except (Full, CountonError, OSError):
                count(name, "put off", 0)
                if await asyncio.to_thread(service.is_old_copy, name):
                    raise later(503, UNSURE, 60) from None
                raise later(503, "the batch could not be saved now; send it again", 1) from None
        finally:
            rooms.give(sender, held)
        rates.spend(sender.id, rows)
        count(name, verdict.what, rows)
        if verdict.what == "other":
            raise HTTPException(
                409, "another batch was sent with this id; give each batch its own id"
            )
        if verdict.what == "closed":
            raise HTTPException(
                410, "the stream has ended and takes no more rows; send rows to another stream"
            )
        if verdict.what == "full":
            raise HTTPException(410, full_up(sender))
        return JSONResponse(verdict.answer, 202 if verdict.what == "accepted" else 200)

    return paths


def _too_large(service: Service) -> str:
    return (
        f"a batch may have at most {service.settings.batch_bytes:,} bytes (batch-bytes) after "
        f"decompression, and {service.settings.batch_rows:,} rows (batch-rows); divide it into "
        "several"
    )


def _take_batch(
    service: Service, name: str, batch: str, media: str, whole: bytes, came: int, sender: Sender
) -> tuple[Verdict, int]:
    """Check a batch that arrived at ``came`` (microseconds since 1970), and commit it.

    Return the verdict of the inbox (the store of rows that wait to be counted), and the number of
    rows that were accepted now.
    """
    settings, state = service.settings, service.state_of(name)
    digest = digest_of(media, whole)
    known = state.inbox.find(name, batch, digest)
    if known is not None:  # even if the stream has ended since
        return known, 0
    ended = service.why_closed(name, came)
    if ended is not None:
        raise StreamEnded(ended)
    made = checked_batch(
        *(service.served[name], batch, media, whole, digest, settings.batch_rows, came, sender)
    )
    return state.committer.put(made).result(), made.rows

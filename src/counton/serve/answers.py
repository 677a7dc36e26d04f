"""Long answers: a bounded number at once, computed part by part as their clients read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from counton.serve.connections import EXTENSION, ClientConnection
from counton.serve.slots import Client, Slots

#: Most long answers that are computed or wait for their readers at once.
_MOST_LONG_ANSWERS = 16
#: Number of threads that compute long answers.
_ANSWER_THREADS = 2


class LongAnswers:
    """The long answers of a service, of which a bounded number is under way."""

    def __init__(self) -> None:
        self._slots = Slots(_MOST_LONG_ANSWERS)
        self._workers = ThreadPoolExecutor(_ANSWER_THREADS, "answers")

    def whole(self, make: Callable[[], Response]) -> Response:
        """Return an answer that is computed as a whole when its turn comes.

        Args:
            make: function that computes the answer.
        """
        return _WholeAnswer(self._slots, self._workers, make)

    def in_parts(
        self,
        parts: Callable[[], Iterator[bytes]],
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Return an answer that is computed part by part.

        Args:
            parts: function that yields the parts of the body.
            media_type: media type of the body.
            headers: further headers.
        """
        return _AnswerInParts(self._slots, self._workers, parts, media_type, headers)


class _Nobody:
    """The client of a request that came by no connection of this server."""

    stalled_since = None
    is_gone = False

    def drop(self, why: str) -> None:
        """Do nothing."""


def client_of(scope: Scope) -> Client:
    """Return the client of a request.

    Args:
        scope: the request.
    """
    connection: ClientConnection | None = scope.get("extensions", {}).get(EXTENSION)
    return _Nobody() if connection is None else connection


class _WholeAnswer(Response):
    """An answer that is computed when its turn comes, and holds its place until it is read."""

    def __init__(
        self, slots: Slots, workers: ThreadPoolExecutor, make: Callable[[], Response]
    ) -> None:
        super().__init__()
        self._slots = slots
        self._workers = workers
        self._make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = client_of(scope)
        async with self._slots.hold(client):
            if client.is_gone:
                return
            answer = await _compute(self._workers, self._make)
            await answer(scope, receive, send)


class _AnswerInParts(Response):
    """An answer whose next part is computed when the one before is on its way."""

    def __init__(
        self,
        slots: Slots,
        workers: ThreadPoolExecutor,
        parts: Callable[[], Iterator[bytes]],
        media_type: str,
        headers: Mapping[str, str] | None,
    ) -> None:
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["Content-Length"]
        self._slots = slots
        self._workers = workers
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = client_of(scope)
        async with self._slots.hold(client):
            # The first part is there before the head of the answer, which says that all is well.
            parts = await _compute(self._workers, self._parts)
            part = await _compute(self._workers, lambda: next(parts, None))
            head = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **head})
            while part is not None and not client.is_gone:
                await send({"type": "http.response.body", "body": part, "more_body": True})
                part = await _compute(self._workers, lambda: next(parts, None))
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _compute(workers: ThreadPoolExecutor, work: Callable[[], object]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(workers, work)

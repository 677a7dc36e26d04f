"""HTTP connections that a client can neither hold for ever nor fill with answers.

uvicorn closes a connection some seconds after its last answer. This module adds what uvicorn does
not limit: how long a head of a request may take, how long an answer may make no progress, how many
bytes of answers wait for their readers, and which connection makes room for a new one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from counton.serve.log_lines import note

#: Key of the connection in the extensions of an ASGI scope.
EXTENSION = "counton.connection"
#: Largest part of an answer, in bytes, that is handed to the connection at once.
_PART_BYTES = 64 * 1024
#: Seconds without progress after which an answer is dropped if memory is short.
_PATIENCE_SECONDS = 1.0
_UNREAD = "its answer was not read"


@dataclass
class ConnectionLimits:
    """Limits that all connections of a server share.

    Attributes:
        connections: largest number of open connections.
        seconds: longest time without progress, of a head of a request and of an answer.
        unsent_bytes: bytes of answers that may wait for their readers in all connections together.
        waiting: connections that wait for their client, by the time since when; the first one has
            waited longest.
        unsent: bytes of answers that wait for their readers now.
    """

    connections: int
    seconds: float
    unsent_bytes: int
    waiting: dict[ClientConnection, float] = field(default_factory=dict)
    unsent: int = 0

    def drop_longest_waiting(self) -> None:
        """Close the connection whose client has made no progress for the longest time."""
        for connection in self.waiting:
            connection.drop("another needs its place")
            return

    def drop_all_waiting(self) -> None:
        """Close all connections whose clients have to make the next step."""
        for connection in list(self.waiting):
            connection.drop("the service ends")

    def make_room(self, now: float) -> None:
        """Drop answers without progress while too many bytes wait for their readers."""
        while self.unsent > self.unsent_bytes:
            stalled = (
                connection
                for connection, since in self.waiting.items()
                if connection.unsent and now - since >= _PATIENCE_SECONDS
            )
            slowest = next(stalled, None)
            if slowest is None:
                return
            slowest.drop("others need its memory")


class ClientConnection(H11Protocol):
    """A connection that is dropped when its client makes no progress."""

    limits: ConnectionLimits
    #: Bytes of the present answer that are not handed to the operating system yet.
    unsent = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app: object = self._answer
        self._head_since: float | None = self.loop.time()
        self._remainder: tuple[int, float] = (0, 0.0)
        self._wait()
        if len(self.connections) > self.limits.connections:
            self.limits.drop_longest_waiting()
        self._timer = self.loop.call_later(self.limits.seconds / 4, self._look)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE or not self.conn.trailing_data[0]:
            self._head_since = None  # no head is incomplete
        elif self._head_since is None:
            self._head_since = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._resume()
        super().connection_lost(exc)

    @property
    def stalled_since(self) -> float | None:
        """Time of the event loop since which the client makes no progress; None if it does."""
        return self.limits.waiting.get(self)

    @property
    def is_gone(self) -> bool:
        """Whether the client has left before the end of its answer."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.disconnected

    def drop(self, why: str) -> None:
        """Close the connection at once, with what its client has not read.

        Args:
            why: reason for the log.
        """
        note("a connection was dropped", why=why)
        self._resume()
        self._change_unsent(0)
        self.transport.abort()

    def _wait(self) -> None:
        self.limits.waiting.pop(self, None)
        self.limits.waiting[self] = self.loop.time()

    def _resume(self) -> None:
        self.limits.waiting.pop(self, None)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application for one request, and send its answer in small parts.

        Args:
            scope: the request.
            receive: uvicorn's function for parts of the body.
            send: uvicorn's function for parts of the answer.
        """

        async def send_in_parts(message: Message) -> None:
            body = message.get("body", b"")
            if len(body) <= _PART_BYTES:
                await self._send(send, message)
                return
            self._change_unsent(len(body))
            self.limits.make_room(self.loop.time())
            try:
                more = message.get("more_body", False)
                for start in range(0, len(body), _PART_BYTES):
                    stop = start + _PART_BYTES
                    part = {"body": body[start:stop], "more_body": more or stop < len(body)}
                    await self._send(send, {**message, **part})
                    self._change_unsent(max(len(body) - stop, 0))
            finally:
                self._change_unsent(0)

        async def receive_in_time() -> Message:
            if not self.cycle.more_body:
                return await receive()
            self._wait()
            try:
                return await receive()
            finally:
                self._resume()

        self._resume()
        scope["extensions"] = {**scope.get("extensions", {}), EXTENSION: self}
        try:
            await self.config.loaded_app(scope, receive_in_time, send_in_parts)
        finally:
            if self.scope is scope and not self.transport.is_closing():
                self._wait()  # for the next request

    async def _send(self, send: Send, message: Message) -> None:
        """Send a part when the parts before it are on their way; else drop the connection."""
        if not self.flow.write_paused:
            await send(message)
            return
        self._wait()
        timer = self.loop.call_later(self.limits.seconds, self.drop, _UNREAD)
        try:
            await send(message)
        finally:
            timer.cancel()
            self._resume()

    def _change_unsent(self, unsent: int) -> None:
        self.limits.unsent += unsent - self.unsent
        self.unsent = unsent

    def _look(self) -> None:
        """Close the connection if a head takes too long, or if the end of an answer is not read."""
        now = self.loop.time()
        since = self._head_since
        if since is not None and now - since >= self.limits.seconds:
            self.drop("no whole request came")
            return
        unsent = self.transport.get_write_buffer_size()
        cycle: RequestResponseCycle | None = self.cycle
        is_under_way = cycle is not None and not cycle.response_complete
        before, changed = self._remainder
        if is_under_way or unsent == 0 or unsent != before:
            self._remainder = (unsent, now)
        elif now - changed >= self.limits.seconds:
            self.drop(_UNREAD)
            return
        self._timer = self.loop.call_later(self.limits.seconds / 4, self._look)


def connections_with(limits: ConnectionLimits) -> type[ClientConnection]:
    """Return the class of a server's connections, which share limits."""

    class LimitedConnection(ClientConnection):
        pass

    LimitedConnection.limits = limits
    return LimitedConnection

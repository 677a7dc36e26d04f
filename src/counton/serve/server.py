"""The server below the application: where it listens, and how long it waits for a client."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from counton.base.errors import InvalidInput, field
from counton.serve import log_lines as journaling
from counton.serve.application import application
from counton.serve.service import Service
from counton.serve.settings import address

#: Bytes of a request's headers at most.
_HEADERS = 32 * 1024
#: Seconds for requests that are under way when the service is told to end.
_GRACE = 15
#: Descriptors that are kept for the state, the witness and other files: no connection gets them.
KEPT = 192
#: Connections that are accepted at once: fewer than are kept, since all are there before any of
#: them can be closed.
_AT_ONCE = 100
#: Connections that there are to be at least.
_FEWEST = 16


def connections_for(readers: int) -> int:
    """How many connections there can be, at most ``readers``: each takes a descriptor.

    As many descriptors are asked for as the process may have, and some are kept for the work.
    """
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:  # a sandbox may forbid to ask
        return readers
    wanted = readers + KEPT
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft < KEPT + _FEWEST:
        raise InvalidInput(
            f"this process may open {soft:,} files and connections, and a service needs "
            f"{KEPT + _FEWEST:,} or more; raise the limit (ulimit -n, or LimitNOFILE of systemd)"
        )
    if soft < wanted:
        journaling.warn("fewer connections than readers", readers=readers, most=soft - KEPT)
    return min(readers, soft - KEPT)


def _patient_for(seconds: float, most: int) -> type[asyncio.Protocol]:
    """A protocol that closes connections on which no request begins, or none is told whole.

    Of more than ``most`` the one goes that has waited longest without a request, else the new one:
    each takes a descriptor from the work. Between two requests a connection is kept as long as
    uvicorn keeps it; bodies have a limit of their own.
    """

    class Patient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._waits_since: float | None = self.loop.time()
            if len(self.connections) > most:
                self._longest_waiting().transport.close()
            self._timer = self.loop.call_later(seconds, self._look)

        def _longest_waiting(self) -> Patient:
            waiting = [
                (one._waits_since, number, one)
                for number, one in enumerate(self.connections)
                if isinstance(one, Patient)
                and one._waits_since is not None
                and (one.cycle is None or one.cycle.response_complete)
                and not one.transport.is_closing()
            ]
            return min(waiting, default=(0.0, 0, self))[2]

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE or not self.conn.trailing_data[0]:
                self._waits_since = None  # no request is half told
            elif self._waits_since is None:
                self._waits_since = self.loop.time()

        def _look(self) -> None:
            since = self._waits_since
            if since is not None and self.loop.time() - since >= seconds:
                self.transport.close()
            else:
                self._timer = self.loop.call_later(seconds / 4, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            self._timer.cancel()
            super().connection_lost(exc)

    return Patient


def listening(host: str, port: int) -> socket.socket:
    """A socket at an address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(2048)
    except OSError as error:
        found.close()
        raise InvalidInput(
            f"{field('listen', f'{host}:{port}')} cannot be used ({error.strerror}); choose "
            f"another address, or end who listens there"
        ) from error
    return found


class _Server(uvicorn.Server):
    """Tells the service at once that it is to end: those who listen for releases never would."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in good order; at once, if told again."""
        self._service.stopping.set()
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(service: Service, listen: str, began: Callable[[str], None] | None = None) -> None:
    """Serve until the process is told to end (SIGTERM, SIGINT); requests under way are answered.

    Args:
        listen: ``HOST:PORT``; port 0: a free one.
        began: told the URL, once it listens.

    Raises:
        InvalidInput: an address that cannot be used.
    """
    journaling.begin()
    most = connections_for(service.settings.readers)
    place = listening(*address(listen))
    host, port = place.getsockname()[:2]
    config = uvicorn.Config(
        application(service),
        http=_patient_for(service.settings.timeout_seconds, most),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=most + _AT_ONCE,
        backlog=_AT_ONCE,
        h11_max_incomplete_event_size=_HEADERS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_GRACE,
    )
    server = _Server(config, service)
    if began is not None:
        began(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    server.run(sockets=[place])

"""The HTTP server below the application: address, and limits on slow clients."""

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

#: Most connections at once.
_READERS = 4096
#: Largest size in bytes of a request's headers.
_HEADERS = 32 * 1024
#: Seconds that open requests have to finish after the service is told to end.
_GRACE = 15
#: Descriptors reserved for the state, the witness and other files, and not for connections.
KEPT = 192
#: Largest number of connections accepted at once: fewer than the reserved descriptors, since all
#: exist before any can be closed.
_AT_ONCE = 100
#: Least number of connections.
_FEWEST = 16


def connections_for(readers: int) -> int:
    """Return how many connections can be open, at most ``readers``.

    The limit of file descriptors is raised as far as needed and allowed; some are reserved for
    files.

    Raises:
        InvalidInput: the limit of descriptors is too low for a service.
    """
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:  # a sandbox may forbid the question
        return readers
    wanted = readers + KEPT
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft < KEPT + _FEWEST:
        raise InvalidInput(
            f"this process may open {soft:,} files and connections, but a service needs at least "
            f"{KEPT + _FEWEST:,}; raise the limit (ulimit -n, or LimitNOFILE of systemd)"
        )
    if soft < wanted:
        journaling.warn("fewer connections than readers", readers=readers, most=soft - KEPT)
    return min(readers, soft - KEPT)


def _patient_for(seconds: float, most: int) -> type[asyncio.Protocol]:
    """Return connections that close without a whole head of a request in ``seconds``.

    Of more than ``most``, the one closes that has waited longest without a request, or the new one.
    uvicorn limits the time between requests, the service that of a body.
    """

    class Patient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._waits_since: float | None = self.loop.time()
            if len(self.connections) > most:
                # close the connection that has waited longest for a request
                waiting = [
                    (one._waits_since, number, one)
                    for number, one in enumerate(self.connections)
                    if isinstance(one, Patient)
                    and one._waits_since is not None
                    and (one.cycle is None or one.cycle.response_complete)
                    and not one.transport.is_closing()
                ]
                min(waiting, default=(0.0, 0, self))[2].transport.close()
            self._timer = self.loop.call_later(seconds, self._look)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE or not self.conn.trailing_data[0]:
                self._waits_since = None  # no request is incomplete
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
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sends at once
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(2048)
    except OSError as error:
        found.close()
        raise InvalidInput(
            f"{field('listen', f'{host}:{port}')} cannot be used ({error.strerror}); choose "
            f"another address, or end the program that listens there"
        ) from error
    return found


class _Server(uvicorn.Server):
    """HTTP server that first stops the service."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after open requests are answered; at a second signal at once."""
        self._service.stopping.set()
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(service: Service, listen: str, began: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; open requests are answered.

    ``listen`` is ``HOST:PORT``, port 0 chooses a free one; ``began`` gets the URL.

    Raises:
        InvalidInput: the address cannot be used.
    """
    journaling.begin()
    most = connections_for(_READERS)
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

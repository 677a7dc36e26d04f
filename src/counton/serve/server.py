"""The server below the application: where it listens, and how long it waits for a client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import FrameType

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from counton.errors import InvalidInput, field
from counton.serve import journaling
from counton.serve.app import application
from counton.serve.service import Service
from counton.serve.settings import address

#: Bytes of a request's headers at most.
_HEADERS = 32 * 1024
#: Seconds for requests that are under way when the service is told to end.
_GRACE = 15


def _patient_for(seconds: float) -> type[asyncio.Protocol]:
    """A protocol that closes connections on which no request begins, or none is told whole.

    Between two requests a connection is kept as long as uvicorn keeps it; bodies have a limit of
    their own.
    """

    class Patient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._waits_since: float | None = self.loop.time()
            self._timer = self.loop.call_later(seconds, self._look)

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
    """A socket at an address.

    Raises:
        InvalidInput: nothing can listen there.
    """
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
        service: which.
        listen: ``HOST:PORT``; port 0: a free one.
        began: told the URL, once it listens.

    Raises:
        InvalidInput: an address that cannot be used.
    """
    place = listening(*address(listen))
    host, port = place.getsockname()[:2]
    journaling.begin()
    config = uvicorn.Config(
        application(service),
        http=_patient_for(service.settings.timeout_seconds),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=service.settings.readers,
        h11_max_incomplete_event_size=_HEADERS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_GRACE,
    )
    server = _Server(config, service)
    if began is not None:
        began(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    server.run(sockets=[place])

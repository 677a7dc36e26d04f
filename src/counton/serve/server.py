"""The HTTP server below the application: address, and limits on slow clients."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

import uvicorn

from counton.base.errors import InvalidInputError, param
from counton.serve import log_lines as journaling
from counton.serve.application import application
from counton.serve.connections import ConnectionLimits, connections_with
from counton.serve.service import Service
from counton.serve.settings import address

#: Most connections at once.
_MOST_CONNECTIONS = 4096
#: Largest size in bytes of a request's headers.
_MOST_HEADER_BYTES = 32 * 1024
#: Seconds after which a connection without a further request is closed.
_IDLE_SECONDS = 15
#: Seconds that open requests have to finish after the service is told to end.
_GRACE_SECONDS = 15
#: Longest time in seconds from the signal to the end, less than orchestrators and systemd wait.
_LONGEST_END_SECONDS = 100.0
#: Bytes of answers that may wait for their readers before readers without progress are dropped.
_UNSENT_BYTES = 64 * 2**20
#: Descriptors reserved for the state, the rollback guard and other files, and not for connections.
RESERVED_DESCRIPTORS = 192
#: Largest number of connections accepted at once: fewer than the reserved descriptors, since all
#: exist before any can be closed.
_MOST_ACCEPTED_AT_ONCE = 100
#: Least number of connections.
_FEWEST_CONNECTIONS = 16


def connections_for(readers: int) -> int:
    """Return how many connections can be open, at most ``readers``.

    The limit of file descriptors is raised as far as needed and allowed; some are reserved for
    files.

    Raises:
        InvalidInputError: the limit of descriptors is too low for a service.
    """
    try:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:  # a sandbox may forbid the question
        return readers
    needed = readers + RESERVED_DESCRIPTORS
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    fewest = RESERVED_DESCRIPTORS + _FEWEST_CONNECTIONS
    if soft < fewest:
        raise InvalidInputError(
            f"this process may open {soft:,} files and connections, but a service needs at least "
            f"{fewest:,}; raise the limit (ulimit -n, or LimitNOFILE of systemd)"
        )
    if soft < needed:
        journaling.warn(
            "fewer connections than readers", readers=readers, most=soft - RESERVED_DESCRIPTORS
        )
    return min(readers, soft - RESERVED_DESCRIPTORS)


def listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # asyncio sends at once
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise InvalidInputError(
            f"{param('listen', f'{host}:{port}')} cannot be used ({error.strerror}); choose "
            f"another address, or end the program that listens there"
        ) from error
    return listener


class _Server(uvicorn.Server):
    """HTTP server that first stops the service, and ends in a bounded time."""

    def __init__(self, config: uvicorn.Config, service: Service, limits: ConnectionLimits) -> None:
        super().__init__(config)
        self._service = service
        self._limits = limits

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End after open requests are answered; at a second signal at once."""
        if self.should_exit:
            os._exit(1)  # commits are atomic, so the next start goes on from the last one
        self._service.stopping.set()
        self.should_exit = True
        timer = threading.Timer(_LONGEST_END_SECONDS, _end_now)
        timer.daemon = True
        timer.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what is under way, but do not wait long for clients without progress."""
        asyncio.get_running_loop().call_later(_GRACE_SECONDS / 3, self._limits.drop_all_waiting)
        await super().shutdown(sockets)


def _end_now() -> None:
    """End the process although a database, or whoever reads the log, does not answer."""
    message = "ended before all was done"
    threading.Thread(target=journaling.warn, args=(message,), daemon=True).start()
    time.sleep(0.5)
    os._exit(1)


def serve(service: Service, listen: str, began: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM or SIGINT; open requests are answered.

    Args:
        service: the service.
        listen: ``HOST:PORT``; port 0 chooses a free one.
        began: function that gets the URL.

    Raises:
        InvalidInputError: the address cannot be used.
    """
    journaling.begin()
    most = connections_for(_MOST_CONNECTIONS)
    place = listening(*address(listen))
    host, port = place.getsockname()[:2]
    limits = ConnectionLimits(most, service.settings.timeout_seconds, _UNSENT_BYTES)
    config = uvicorn.Config(
        application(service),
        http=connections_with(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=most + _MOST_ACCEPTED_AT_ONCE,
        backlog=_MOST_ACCEPTED_AT_ONCE,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = _Server(config, service, limits)
    if began is not None:
        began(f"http://{f'[{host}]' if ':' in host else host}:{port}")
    server.run(sockets=[place])

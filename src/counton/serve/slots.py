"""A bound on how many clients hold memory of the service at once, and on how long they idle.

An answer that a client does not read, and a body that it does not send, stay in memory. So a fixed
number of clients may hold such memory. If all places are taken, a client that makes no progress
loses its place to the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

#: Seconds without progress after which a client may lose its place to another one.
_PATIENCE_SECONDS = 1.0
#: Longest wait for a place, in seconds.
_LONGEST_WAIT_SECONDS = 10.0
#: Seconds between two looks whether a place is free.
_LOOK_SECONDS = 0.05


class NoPlaceError(Exception):
    """No place became free in time."""


class Client(Protocol):
    """A client for which the service holds memory."""

    @property
    def stalled_since(self) -> float | None:
        """Time of the event loop since which the client makes no progress; None if it does."""

    @property
    def is_gone(self) -> bool:
        """Whether the client has left before the end of its answer."""

    def drop(self, why: str) -> None:
        """Close the connection at once, and release what is held for it.

        Args:
            why: reason for the log.
        """


class Slots:
    """A number of places. Requests get one in the order in which they ask.

    Args:
        most: number of places.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: list[Client] = []
        self._queue = asyncio.Lock()

    @asynccontextmanager
    async def hold(self, client: Client) -> AsyncIterator[None]:
        """Hold a place during the block.

        Args:
            client: the client that gets the place, and may lose it.

        Raises:
            NoPlaceError: no place became free in time; nothing was done.
        """
        try:
            async with asyncio.timeout(_LONGEST_WAIT_SECONDS), self._queue:
                while not self._has_room():
                    await asyncio.sleep(_LOOK_SECONDS)
                self._clients.append(client)
        except TimeoutError:
            raise NoPlaceError from None
        try:
            yield
        finally:
            if client in self._clients:
                self._clients.remove(client)

    def _has_room(self) -> bool:
        """Return whether a place is free; if not, take that of a client without progress."""
        if len(self._clients) < self._most:
            return True
        latest = asyncio.get_running_loop().time() - _PATIENCE_SECONDS
        stalled: dict[int, float] = {}
        for index, client in enumerate(self._clients):
            since = client.stalled_since
            if since is not None and since <= latest:
                stalled[index] = since
        if not stalled:
            return False
        slowest = min(stalled, key=lambda index: stalled[index])
        self._clients.pop(slowest).drop("others wait for its place")
        return True

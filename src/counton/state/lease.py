"""Leases of services: for each stream one service at a time counts and releases its rows.

If that service stops, another one takes over. Each stream has a lease of its own, so servers may
serve different streams of one state.

A lease keeps servers out of each other's way. It does not prevent double releases; the stream does:
its writer is the latest process to open it. So a paused server that goes on as if it still had the
lease cannot release again what another server has released.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress

from counton.base.atomic_file import try_lock
from counton.base.errors import ConcurrentWriterError, CountonError
from counton.state import schema
from counton.state.database import Closing, Database

#: Seconds after which an unrenewed lease is over.
LEASE_SECONDS = 10

_MAKING_LOCK = schema.APPLICATION_ID + 2


class Leases(Closing):
    """The leases of one service process: rights to count and release the rows of streams.

    Only one process at a time has the lease of a stream. On a database server a lease lasts for
    some seconds, by the server's clock, and is renewed before its end. On a SQLite file it lasts as
    long as the process, and no other service may serve the file.

    Args:
        names: names of the streams; on a server they must exist.
        seconds: length of a lease.
    """

    def __init__(
        self, state: str | os.PathLike[str], names: Iterable[str], seconds: float = LEASE_SECONDS
    ) -> None:
        self._database = Database(state, short_transactions=True)
        self._seconds = seconds
        self.names = frozenset[str]()
        self._holder = secrets.token_hex(16)
        self._handle = -1
        try:
            self.add(*names)
        except BaseException:
            self._database.close()
            raise

    @property
    def is_exclusive(self) -> bool:
        """True if the state is a SQLite file, which only one service at a time may serve."""
        return self._database.is_sqlite

    def add(self, *names: str) -> None:
        """Begin to compete for the leases of more streams."""
        self.names |= {*names}
        if self.is_exclusive:
            return
        with self._database.transaction(write=True) as connection:
            connection.lock(_MAKING_LOCK)
            if not connection.has_table("counton_turns"):
                connection.script(schema.TURNS)
            rows = connection.rows("SELECT id, name FROM counton_streams")
            self._streams = {row.id: row.name for row in rows if row.name in self.names}
            new = "INSERT INTO counton_turns VALUES (:id, '', now()) ON CONFLICT DO NOTHING"
            for id in self._streams:
                connection.execute(new, id=id)

    def renew(self, excluded: Collection[str] = ()) -> frozenset[str]:
        """Take or renew every lease that this process can have; return the names of the streams.

        The lease of another process is taken only after its end. The result is empty if the server
        cannot be reached.

        Args:
            excluded: streams to leave to other processes; on a server, this process gives up its
                leases of them.
        """
        if self.is_exclusive:
            if self._handle < 0:
                assert self._database.path is not None
                handle = os.open(f"{self._database.path}.served", os.O_RDWR | os.O_CREAT, 0o600)
                if not try_lock(handle):
                    os.close(handle)
                    return frozenset()
                self._handle = handle
            return self.names
        lease_sql = (
            "UPDATE counton_turns SET holder = :me,"
            " until = clock_timestamp() + make_interval(secs => :lasts)"
            " WHERE id = ANY(:wanted) AND (holder = :me OR until < clock_timestamp()) RETURNING id"
        )
        stream_ids = [id for id, name in self._streams.items() if name not in excluded]
        excluded_ids = [id for id, name in self._streams.items() if name in excluded]
        try:
            with self._database.transaction(write=True) as connection:
                if excluded_ids:
                    release_sql = (
                        "UPDATE counton_turns SET holder = '', until = now()"
                        " WHERE id = ANY(:left) AND holder = :me"
                    )
                    connection.execute(release_sql, left=excluded_ids, me=self._holder)
                leased = connection.rows(
                    lease_sql, me=self._holder, lasts=self._seconds, wanted=stream_ids
                )
                return frozenset(self._streams[row.id] for row in leased)
        except CountonError:  # an unreachable server gives no lease
            return frozenset()

    def take(self) -> None:
        """Take the lease of a SQLite file; raise an error if another service has it."""
        if not self.renew() and self.names:
            raise ConcurrentWriterError(
                f"state {self._database.label} is served by another process; end that process, or "
                "keep the state in PostgreSQL, which several processes may serve"
            )

    def close(self) -> None:
        """End all leases of this process, so that other processes may take them."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        elif not self.is_exclusive:
            ended = "UPDATE counton_turns SET until = now() WHERE holder = :me"
            # A lease ends after its time if this fails.
            with suppress(CountonError), self._database.transaction(write=True) as connection:
                connection.execute(ended, me=self._holder)
        self._database.close()

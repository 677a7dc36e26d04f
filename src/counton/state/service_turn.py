"""Which of several services releases a stream: one at a time, and another when that one is gone.

Each stream has a turn of its own: servers may serve different streams of one state.

A turn keeps servers from working against each other. It is not what keeps a release from happening
twice: that is the stream, whose writer is the latest to open it. So a server that was paused, and
goes on as if it still had the turn, can release nothing that another one has released otherwise.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterable
from contextlib import suppress

from counton.base.errors import CountonError, StreamConflict
from counton.state import schema
from counton.state.database import Closing, Database
from counton.state.sql import Connection

#: Seconds after which a turn is over that nobody asked for again.
LASTS = 10

_MAKING = schema.APPLICATION_ID + 2


class Turn(Closing):
    """The turns of one process at streams of a state.

    Of a state on a server it lasts for some seconds, by the server's clock, and is asked for again
    before they are over; of a SQLite file it lasts as long as the process, and nobody else may
    serve the file meanwhile.

    Args:
        names: of the streams; of a state on a server they are there already.
        lasts: seconds.
    """

    def __init__(
        self, state: str | os.PathLike[str], names: Iterable[str], lasts: float = LASTS
    ) -> None:
        self._database, self._lasts = Database(state, brief=True), lasts
        self._names = frozenset(names)
        self._me, self._handle = secrets.token_hex(16), -1
        if self.alone:
            return
        try:
            with self._database.transaction(write=True) as connection:
                self._enter(connection)
        except BaseException:
            self._database.close()
            raise

    @property
    def alone(self) -> bool:
        """Whether the state is a file, which one service at a time may serve."""
        return self._database.is_sqlite

    def add(self, name: str) -> None:
        """Take turns at one stream more."""
        self._names |= {name}
        if not self.alone:
            with self._database.transaction(write=True) as connection:
                self._enter(connection)

    def _enter(self, connection: Connection) -> None:
        """A row for each stream, with its number in the state."""
        connection.lock(_MAKING)
        if not connection.has("counton_turns"):
            connection.script(schema.TURNS)
        found = connection.rows("SELECT id, name FROM counton_streams")
        self._streams = {row.id: row.name for row in found if row.name in self._names}
        new = "INSERT INTO counton_turns VALUES (:id, '', now()) ON CONFLICT DO NOTHING"
        for id in self._streams:
            connection.run(new, id=id)

    def mine(self, but: Collection[str] = ()) -> frozenset[str]:
        """Of which streams it is this process's turn; asks for it, or for more of it.

        Args:
            but: streams of a state on a server that others are to have: those that are this
                process's are given up.
        """
        if self.alone:
            return self._names if self._handle >= 0 or self._try_lock() else frozenset()
        asked = (
            "UPDATE counton_turns SET holder = :me,"
            " until = clock_timestamp() + make_interval(secs => :lasts)"
            " WHERE id = ANY(:wanted) AND (holder = :me OR until < clock_timestamp()) RETURNING id"
        )
        wanted = [id for id, name in self._streams.items() if name not in but]
        left = [id for id, name in self._streams.items() if name in but]
        try:
            with self._database.transaction(write=True) as connection:
                if left:
                    given = (
                        "UPDATE counton_turns SET holder = '', until = now()"
                        " WHERE id = ANY(:left) AND holder = :me"
                    )
                    connection.run(given, left=left, me=self._me)
                mine = connection.rows(asked, me=self._me, lasts=self._lasts, wanted=wanted)
                return frozenset(self._streams[row.id] for row in mine)
        except CountonError:  # a server that cannot be reached gives no turn
            return frozenset()

    def streams_with_leader(self) -> frozenset[str]:
        """Streams that somebody leads, this process or another one."""
        if self.alone:
            return self._names
        said = "SELECT id FROM counton_turns WHERE holder <> '' AND until >= clock_timestamp()"
        with self._database.transaction(write=False) as connection:
            held = {row.id for row in connection.rows(said)}
        return frozenset(name for id, name in self._streams.items() if id in held)

    def take(self) -> None:
        """Take the turn at a file, or refuse."""
        if not self.mine() and self._names:
            raise StreamConflict(
                f"state {self._database.label} is served by another process; end that one, or keep "
                f"the state in PostgreSQL, which several may serve"
            )

    def close(self) -> None:
        """Leave the turn to others."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        elif not self.alone:
            ended = "UPDATE counton_turns SET until = now() WHERE holder = :me"
            # It ends by itself where this cannot be said.
            with suppress(CountonError), self._database.transaction(write=True) as connection:
                connection.run(ended, me=self._me)
        self._database.close()

    def _try_lock(self) -> bool:
        import fcntl

        assert self._database.path is not None
        handle = os.open(f"{self._database.path}.served", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

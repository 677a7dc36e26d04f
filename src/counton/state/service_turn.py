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

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from counton.base.errors import CountonError, StreamConflict
from counton.state import schema
from counton.state.database import Closing, Database

#: Seconds after which a turn is over that nobody asked for again.
LASTS = 10

metadata = sa.MetaData()
_turns = sa.Table(
    "counton_turns",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("holder", sa.String(32), nullable=False),
    sa.Column("until", sa.TIMESTAMP(timezone=True), nullable=False),
)
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
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING)))
                if not sa.inspect(connection).has_table(_turns.name):
                    metadata.create_all(connection)
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
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING)))
                self._enter(connection)

    def _enter(self, connection: Connection) -> None:
        """A row for each stream, with its number in the state."""
        table = schema.streams.c
        found = connection.execute(
            sa.select(table.id, table.name).where(table.name.in_(self._names))
        )
        self._streams = {int(row.id): str(row.name) for row in found}
        there = set(connection.execute(sa.select(_turns.c.id)).scalars())
        for id in self._streams.keys() - there:
            connection.execute(_turns.insert().values(id=id, holder="", until=sa.func.now()))

    def mine(self, but: Collection[str] = ()) -> frozenset[str]:
        """Of which streams it is this process's turn; asks for it, or for more of it.

        Args:
            but: streams of a state on a server that others are to have: those that are this
                process's are given up.
        """
        if self.alone:
            return self._names if self._handle >= 0 or self._try_lock() else frozenset()
        now = sa.func.clock_timestamp()
        until = now + sa.func.make_interval(0, 0, 0, 0, 0, 0, self._lasts)
        table = _turns.c
        asked = (
            _turns.update()
            .where(table.id.in_([id for id, name in self._streams.items() if name not in but]))
            .where(sa.or_(table.holder == self._me, table.until < now))
            .values(holder=self._me, until=until)
            .returning(table.id)
        )
        try:
            with self._database.transaction(write=True) as connection:
                if but:
                    left = [id for id, name in self._streams.items() if name in but]
                    given = _turns.update().where(table.id.in_(left), table.holder == self._me)
                    connection.execute(given.values(holder="", until=sa.func.now()))
                return frozenset(self._streams[id] for id in connection.execute(asked).scalars())
        except CountonError:  # a server that cannot be reached gives no turn
            return frozenset()

    def streams_with_leader(self) -> frozenset[str]:
        """Streams that somebody leads, this process or another one."""
        if self.alone:
            return self._names
        now, table = sa.func.clock_timestamp(), _turns.c
        query = sa.select(table.id).where(table.holder != "", table.until >= now)
        with self._database.transaction(write=False) as connection:
            held = set(connection.execute(query).scalars())
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
            given = _turns.update().where(_turns.c.holder == self._me)
            try:
                with self._database.transaction(write=True) as connection:
                    connection.execute(given.values(until=sa.func.now()))
            except CountonError:  # it ends by itself
                pass
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

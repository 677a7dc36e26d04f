"""What another process releases is noted here too, so that an old copy is noticed here as well.

A witness vouches for a state on a server as long as nobody else writes it. When somebody else does,
it vouches again only for what was seen to happen: a journal that goes on where it was looked at
last, row for row in the same table, while its writer passes a witness of its own. A journal that
stands still may be an old one, put back while nobody looked here.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import Any, NamedTuple

from counton.base.errors import WrongKey
from counton.state import journal, records, standing
from counton.state import key_and_witness as keyfile
from counton.state.database import Database
from counton.state.sql import Connection

#: Seconds between two looks, after which nobody can tell what happened between them.
LONGEST = 60


class Sighting(NamedTuple):
    """What was seen of a stream: where it stood, when, and whether its witness vouched for it.

    Attributes:
        marks: where the server keeps the rows that a restored journal would keep elsewhere.
        at: seconds, of a clock that nobody sets.
        known: whether the journal was known to be the newest.
    """

    step: int
    marks: tuple[str, ...]
    at: float
    known: bool


class Watch:
    """What a process has seen of streams that others write.

    >>> import shutil
    >>> from pathlib import Path
    >>> from counton import PureDP, Stream
    >>> from counton.strategies import Binary
    >>> state, copy = "visits.db", "copy.key"
    >>> with Stream.create(state, "visits", Binary(horizon=100), PureDP(1)) as stream:
    ...     first = stream.release(3)
    >>> _ = shutil.copy(state + ".key", copy)
    >>> Watch().look(state, copy)
    >>> '"step": 1' in Path(copy + ".witness").read_text()
    True
    """

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str], Sighting] = {}
        self.unknown: frozenset[str] = frozenset()  # of which this process cannot tell how new

    def look(
        self, state: keyfile.State | Database, key: keyfile.Kept, names: Iterable[str] | None = None
    ) -> None:
        """Note in the witness of a key how far streams are that another process releases.

        The process goes on to write them: nothing of the state changes. Of a state on a server a
        single look cannot tell what was written while nobody looked: look again.

        Args:
            names: of the streams; None: all. Those that the state does not have yet are left out.

        Raises:
            StateError: a stream has forgotten what the witness knows; or the witness cannot be read
                or written.
            WrongKey: the key is another one, or cannot be had.
        """
        database = state if isinstance(state, Database) else Database(state)
        try:
            witness = keyfile.witness_beside(database, key)
            if not witness.places:
                return
            wanted = None if names is None else set(names)
            with database.transaction(write=False) as connection:
                present = records.names(connection)
            for name in present:
                if wanted is None or name in wanted:
                    last = self._looks.pop((witness.where, name), None)
                    look = _note(database, witness, key, name, last)
                    self._looks[witness.where, name] = look
                    self.unknown = self.unknown - {name} if look.known else self.unknown | {name}
        finally:
            if database is not state:
                database.close()


class AcceptedState(NamedTuple):
    """What was taken on somebody's word.

    Attributes:
        streams: names of those for which no witness vouched.
        places: second places of the witness that were missing, and are given up.
    """

    streams: tuple[str, ...]
    places: tuple[str, ...]


def accept_old_copy(
    state: keyfile.State, key: keyfile.Kept, name: str | None = None
) -> AcceptedState:
    """Take somebody's word that a state is the newest, though nobody can tell; note its streams.

    Second places that are missing are given up. What a place knows better stays refused.

    Args:
        state: path of a SQLite file, or a database URL.
        key: where the key is kept.
        name: of the stream; None: all.

    Raises:
        StateError: as of `Watch.look`.
        WrongKey: it is not the key of the stream that is named.
    """
    database = Database(state)
    try:
        witness = keyfile.witness_beside(database, key)
        with database.transaction(write=True) as connection:
            database.read_witnesses(connection)
            lost = witness.give_up_missing(connection)
            witness.keep(connection, None)
            present = records.names(connection) if witness.places else []
        taken = []
        for one in present:
            if name not in (None, one):
                continue
            try:
                if not _note(database, witness, key, one, None).known:
                    _note(database, witness, key, one, None, adopted=True)
                    taken.append(one)
            except WrongKey:  # of a stream under another key
                if name is not None:
                    raise
        return AcceptedState(tuple(taken), lost)
    finally:
        database.close()


def _note(
    database: Database,
    witness: keyfile.Witness,
    key: keyfile.Kept,
    name: str,
    last: Sighting | None,
    *,
    adopted: bool = False,
) -> Sighting:
    known = witness.snapshot()  # read before the state, which knows all that stood there then
    with database.transaction(write=False) as connection:
        row = standing.position_of(connection, database, name, known)  # refused, if it is old
        at, held_at = keyfile.Mark.of(row), monotonic()
        marks, vouched = _marks(connection, database, row, row.step), known.vouches(at)
        went_on = last is not None and _went_on(connection, database, row, last)
        look = Sighting(row.step, marks, held_at, known=vouched or adopted or went_on)
        behind = bool(row.step or row.forgotten) and witness.is_behind(at)
        if not behind and vouched is look.known:
            return look
        if database.is_sqlite and not look.known:
            return look  # once noted, it would be taken for the newest
        held = keyfile.key_for(database, row.key_fingerprint, row.key_salt, key)
        records.check_key_of(row, held)
        records.check_digest(connection, row, held)
        digest = journal.digest_at(connection, row.id, row.step) if row.step else ""
        if digest is not None:
            standing.note_of_another(database, witness, row.id, at, digest, seen=look.known)
        return look


def _went_on(connection: Connection, database: Database, row: Any, last: Sighting) -> bool:
    """Whether a journal is what was looked at last, or what was written there since.

    What was known then is known now. What was not is known once its writer has gone on, who was
    not to do so on an old copy.
    """
    if monotonic() - last.at > LONGEST or row.step < last.step:
        return False
    same = last.marks == _marks(connection, database, row, last.step)
    return same and (last.known or row.step > last.step > 0)


def _marks(connection: Connection, database: Database, row: Any, step: int) -> tuple[str, ...]:
    """Where the server keeps the rows of a stream's guarantee and of a step; none of a file.

    A journal that is put back is written anew, into a new table or by another transaction; and a
    server that is put back as a whole, or another one, was started at another time.
    """
    if database.is_sqlite:
        return ()
    found = []
    for place in (
        "counton_ledger WHERE name = :name",
        "counton_journal WHERE stream_id = :stream AND step = :step",
    ):
        said = f"SELECT tableoid::text, ctid::text, xmin::text FROM {place}"
        one = connection.first(said, name=row.name, stream=row.id, step=step)
        found += ["none"] if one is None else [*one]
    return (*found, connection.value("SELECT pg_postmaster_start_time()::text"))

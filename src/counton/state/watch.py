"""Watch over streams that other processes release, so that this machine notices old copies too.

A witness vouches for a state on a server while nobody else writes it. Once somebody else writes, it
vouches again only for what this process watched: a journal that goes on from the last look, row for
row in the same table, while its writer satisfies a witness of its own. A journal that stands still
may be an old one that was put back between looks.
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

#: Longest time in seconds between two looks that still vouch for each other.
LONGEST = 60


class Sighting(NamedTuple):
    """One look at a stream: its step, the time, and whether its witness vouched for it.

    Attributes:
        marks: storage places of the rows on the server; a restored journal has others.
        at: time in seconds, by a clock that nobody sets.
        known: whether the journal was known to be the newest.
    """

    step: int
    marks: tuple[str, ...]
    at: float
    known: bool


class Watch:
    """The looks of one process at streams that others write.

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
        self.unknown: frozenset[str] = frozenset()  # streams that may be old copies

    def look(
        self, state: keyfile.State | Database, key: keyfile.Kept, names: Iterable[str] | None = None
    ) -> None:
        """Note the positions of streams that another process releases in the witness of a key.

        The other process keeps writing: nothing in the state changes. A single look at a state on a
        server cannot tell what was written between looks: look again.

        Args:
            names: names of the streams; None: all. Streams that do not exist yet are left out.

        Raises:
            StateError: a stream has forgotten releases that the witness knows; or the witness
                cannot be read or written.
            WrongKey: the key does not fit, or cannot be read.
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
    """Facts that were accepted on the user's word.

    Attributes:
        streams: names of streams for which no witness vouched.
        places: missing second places of the witness, which are given up.
    """

    streams: tuple[str, ...]
    places: tuple[str, ...]


def accept_old_copy(
    state: keyfile.State, key: keyfile.Kept, name: str | None = None
) -> AcceptedState:
    """Accept a state as the newest on the user's word, and note its streams.

    Missing second places are given up. A state that a place knows to be old stays refused.

    Args:
        state: path of a SQLite file, or a database URL.
        key: place of the key.
        name: name of the stream; None: all.

    Raises:
        StateError: as for `Watch.look`.
        WrongKey: the key does not fit the named stream.
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
            except WrongKey:  # the stream has another key
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
    known = witness.snapshot()  # read before the state, which knows all that was noted then
    with database.transaction(write=False) as connection:
        row = standing.position_of(connection, database, name, known)  # refuses an old state
        at, held_at = keyfile.Mark.of(row), monotonic()
        marks, vouched = _marks(connection, database, row, row.step), known.vouches(at)
        went_on = last is not None and _went_on(connection, database, row, last)
        look = Sighting(row.step, marks, held_at, known=vouched or adopted or went_on)
        behind = bool(row.step or row.forgotten) and witness.is_behind(at)
        if not behind and vouched is look.known:
            return look
        if database.is_sqlite and not look.known:
            return look  # a note would make the state count as the newest
        held = keyfile.key_for(database, row.key_fingerprint, row.key_salt, key)
        records.check_key_of(row, held)
        records.check_digest(connection, row, held)
        digest = journal.digest_at(connection, row.id, row.step) if row.step else ""
        if digest is not None:
            standing.note_of_another(database, witness, row.id, at, digest, seen=look.known)
        return look


def _went_on(connection: Connection, database: Database, row: Any, last: Sighting) -> bool:
    """Whether a journal is the one of the last look, or has gone on from there.

    If it was known to be the newest then, it is now. If not, it is once its writer has gone on,
    since no writer goes on with an old copy.
    """
    if monotonic() - last.at > LONGEST or row.step < last.step:
        return False
    same = last.marks == _marks(connection, database, row, last.step)
    return same and (last.known or row.step > last.step > 0)


def _marks(connection: Connection, database: Database, row: Any, step: int) -> tuple[str, ...]:
    """Return where the server stores the rows of a stream's guarantee and of a step; none for a
    file.

    A journal that is put back is written anew, into a new table or by another transaction. A server
    that is put back as a whole, or replaced, has another time of start.
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

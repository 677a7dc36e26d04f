"""Watching of streams that other processes release, so that this machine too notices old copies of
a state.

While this machine alone writes a state on a server, its witness (a record of releases outside the
state) can tell whether the state is an old copy. Once another machine writes, the witness can tell
only if this process has watched: the journal must continue from the step that was seen last, in the
same rows of the same table. The other machine has a witness of its own, which refuses an old copy.
A journal that does not grow may be an old one that was restored between two looks.
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

#: If two looks are further apart, in seconds, the second one proves nothing.
LONGEST = 60


class Sighting(NamedTuple):
    """The result of one look at a stream that another process writes.

    Attributes:
        step: the stream's last step.
        marks: places at which the server stores the stream's rows. If the journal (the table of
            releases) is restored from a backup, its rows are stored at other places.
        at: time in seconds, by a clock that cannot be set.
        known: whether it was certain at this look that the journal was no old copy.
    """

    step: int
    marks: tuple[str, ...]
    at: float
    known: bool


class Watch:
    """An observer of streams that other processes write. It records their last steps in the
    witness, the record outside the state that shows old copies.

    It remembers the last look at each stream, because a single look at a state on a server cannot
    show whether the state is an old copy.

    Attributes:
        unknown: names of the streams that may be old copies, by the last look at each. For a state
            in a file, such a stream is not recorded.

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
        """Record in the witness, the record outside the state, the last released step of streams
        that other processes release.

        The other processes keep writing, and nothing in the state is changed. A single look at a
        state on a server cannot tell whether the state is an old copy: call this function
        repeatedly.

        Args:
            names: names of the streams; None: all. Streams that do not exist yet are left out.

        Raises:
            StateError: a stream lacks releases that the witness has recorded; or the witness cannot
                be read or written.
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
    """The result of accepting a state as the newest on the user's word.

    Attributes:
        streams: names of streams that no witness could confirm as the newest.
        places: places of the second witness (a record of releases away from the state) that are
            missing and are given up.
    """

    streams: tuple[str, ...]
    places: tuple[str, ...]


def accept_old_copy(
    state: keyfile.State, key: keyfile.Kept, name: str | None = None
) -> AcceptedState:
    """Accept a state as the newest on the user's word, and record its streams in the witness (a
    record outside the state).

    Missing places of the second witness are given up. A state stays refused if an existing place
    shows that it is old.

    Args:
        state: path of a SQLite file, or a database URL.
        key: where the key is kept.
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
            standing.note(database, witness, row.id, at, digest, seen=look.known)
        return look


def _went_on(connection: Connection, database: Database, row: Any, last: Sighting) -> bool:
    """Return True if a stream's journal, the table of its releases, is certainly no old copy,
    judged by the last look at the stream (``last``).

    Three things must hold. The last look is recent. The journal is the one seen then, possibly with
    more steps. And either it was certain then that the journal was no old copy, or the journal has
    grown since: no process continues an old copy.
    """
    if monotonic() - last.at > LONGEST or row.step < last.step:
        return False
    same = last.marks == _marks(connection, database, row, last.step)
    return same and (last.known or row.step > last.step > 0)


def _marks(connection: Connection, database: Database, row: Any, step: int) -> tuple[str, ...]:
    """Return texts that change if a stream's journal (the table of its releases) is restored from a
    backup; empty for a SQLite file.

    For two rows they say where the server stores the row: the stream's ledger entry (its spent
    privacy loss), and a step of the journal. A restored journal has its rows in other places,
    because they are written anew. One more text is the time at which the server started. It changes
    if the server is restored as a whole or replaced.
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

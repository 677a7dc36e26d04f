"""What another process releases is noted here too, so that an old copy is noticed here as well."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from counton.store import keyfile, records, schema
from counton.store.database import Database


def note_seen(
    state: keyfile.State | Database, key: keyfile.Kept, names: Iterable[str] | None = None
) -> None:
    """Note in the witness of a key how far streams are that another process releases.

    The process goes on to write them: nothing of the state changes.

    Args:
        state: path of a SQLite file, a database URL, or an open database.
        key: where the key is kept.
        names: of the streams; None: all. Those that the state does not have yet are left out.

    Raises:
        StateError: a stream has forgotten what the witness knows; or the witness cannot be read or
            written.
        WrongKey: the key is another one, or cannot be had.

    >>> import shutil, tempfile
    >>> from pathlib import Path
    >>> from counton import PureDP, Stream
    >>> from counton.strategies import Binary
    >>> folder = tempfile.TemporaryDirectory()
    >>> state, copy = folder.name + "/visits.db", folder.name + "/copy.key"
    >>> with Stream.create(state, "visits", Binary(horizon=100), PureDP(1)) as stream:
    ...     first = stream.release(3)
    >>> _ = shutil.copy(state + ".key", copy)
    >>> note_seen(state, copy)
    >>> '"step": 1' in Path(copy + ".witness").read_text()
    True
    >>> folder.cleanup()
    """
    database = state if isinstance(state, Database) else Database(state)
    try:
        witness = keyfile.witness_beside(database, key)
        if not witness.paths:
            return
        wanted = None if names is None else set(names)
        with database.transaction(write=False) as connection:
            query = sa.select(schema.streams.c.name).order_by(schema.streams.c.name)
            present = [*connection.execute(query).scalars()]
        for name in present:
            if wanted is None or name in wanted:
                _note(database, witness, key, name)
    finally:
        if database is not state:
            database.close()


def _note(database: Database, witness: keyfile.Witness, key: keyfile.Kept, name: str) -> None:
    known = witness.held()  # read before the state, which knows all that stood there then
    with database.transaction(write=False) as connection:
        row = records.find(connection, name)
        records.check_witness(connection, row, known, None)
        if not row.step or not witness.is_behind(row.key_fingerprint, name, row.step):
            return
        held = keyfile.held(database, row.key_fingerprint, row.key_salt, key)
        records.check_key_of(row, held)
        records.check_witness(connection, row, known, held)
        digest = records.released_digest(connection, row, row.step, held)
        if digest is not None:
            witness.note(
                row.key_fingerprint,
                name,
                row.step,
                digest,
                lambda step: records.released_digest(connection, row, step, held),
            )

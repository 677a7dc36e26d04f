"""What must hold before a release is created: the one gate for all streams.

A state that was restored from an old copy has forgotten what it released since: under the same key
the forgotten name would get the same noise over other data, and what it spent would be spent again.
Two things stand against it. A kept key is never used as it is: every release has a key of its own,
drawn with a fresh public salt. And whatever the witness knows to be released from this state must
be in it, before anything else is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counton.base.errors import InvalidInput, RequestMismatch, WrongKey, field
from counton.noise import Key
from counton.noise.key import check_key
from counton.state import key_and_witness as keyfile
from counton.state.database import Database
from counton.state.key_and_witness import Kept, State, Witness, witness_beside
from counton.state.sql import Connection


@contextmanager
def for_creation(
    state: State | Database, key: Kept, named: State | None = None
) -> Iterator[tuple[Key, Database | None]]:
    """The key for a new release, and the state where there is one, opened.

    The key is a fresh one, or one derived afresh from the one that is kept. A fresh key gets its
    name only after the block, when the state exists: a process killed on the way leaves no key
    which a later state, on changed data, could take up.

    Args:
        state: where it is, or open: then it belongs to the caller of this, who closes it too where
            nothing is raised.
        key: a key, used as it is; or where it is kept.
        named: where its second witness is to be from now on.

    Raises:
        WrongKey: ``STATE.key``, not named, holds a key that no release of the state uses; or the
            key cannot be read or written.
        StateError: the state's folder does not exist; or the witness cannot be read, or knows a
            release that the state has forgotten (`refuse_forgotten`).
        InvalidInput: the key would take the place of the state.
    """
    database = state if isinstance(state, Database) else None
    place, label = keyfile.place_of(state)
    try:
        file = keyfile.file_of(key)
        _check_places(place, file)
        if not isinstance(state, Database):
            database = keyfile.database_at(state)
        raw = check_key(key) if isinstance(key, Key) else None
        used = _used_keys(state if database is None else database, raw, key, named)
        if raw is not None:
            yield raw, database
            return
        if key is None:
            file = keyfile.beside(place, label)
        if file is not None and not file.exists():
            with _fresh(file) as fresh:
                yield fresh, database
            return
        found = keyfile.elsewhere(str(key)) if file is None else Key.load(file)
        if key is None and not _is_used(found, used):
            raise WrongKey(
                f"key file {file} exists but nothing in state {label} was released with it, which "
                f"looks as if its state was lost or the key copied: the same key on changed data "
                f"would reveal the difference; bring its own state back, or move the key away and "
                f"a new one is made; one that was prepared is named, {field('key', file)}"
            )
        yield found.with_salt(), database
    except BaseException:
        if database is not None:
            database.close()
        raise


#: Fingerprint and salt of each key in a state.
_KeySet = set[tuple[str, str | None]]


def _used_keys(state: State | Database, raw: Key | None, key: Kept, named: State | None) -> _KeySet:
    """The keys of a state, none where there is no state; refused if it has forgotten anything."""
    witness = witness_beside(state, key, named)
    if not isinstance(state, Database):
        known: dict[str, tuple[str, ...]] = {} if raw is None else {raw.fingerprint: ()}
        witness.refuse_forgotten(known, None)
        return set()
    with state.transaction(write=False) as connection:
        refuse_forgotten(connection, state, witness, raw)
        keys = connection.rows("SELECT key_fingerprint, key_salt FROM counton_streams")
        return {*map(tuple, keys)}


def refuse_forgotten(
    connection: Connection,
    database: Database,
    witness: Witness,
    raw: Key | None = None,
    beginning: str = "",
) -> None:
    """Refuse a state which does not have what its witness knows that it has released.

    Asked before a release is created, and again when a stream releases its first step: of two
    copies in which different streams were created, one alone goes on.

    Args:
        raw: a key that is to be used as it is.
        beginning: the stream that releases its first step.
    """
    witness.refuse_missing()
    entries = witness.entries()  # read before the state, which knows all that stood there then
    if not entries:
        witness.refuse_unknown(connection, beginning)
        return
    known = released_names(connection)
    if raw is not None:
        known.setdefault(raw.fingerprint, set())
    witness.refuse_forgotten(known, database.identity)


def released_names(connection: Connection) -> dict[str, set[str]]:
    """By fingerprint of the key, what a witness calls the releases of a state."""
    known: dict[str, set[str]] = {}
    for row in connection.rows("SELECT name, key_fingerprint FROM counton_streams"):
        known.setdefault(row.key_fingerprint, set()).add(row.name)
    return known


def _is_used(key: Key, used: _KeySet) -> bool:
    return any(
        print_ == key.fingerprint or (salt and key.with_salt(salt).fingerprint == print_)
        for print_, salt in used
    )


@contextmanager
def _fresh(path: Path) -> Iterator[Key]:
    fresh = Key.generate()
    waiting = keyfile.waiting(path, fresh.fingerprint)
    try:
        try:
            fresh.save(waiting)
        except OSError as error:
            raise WrongKey(
                f"key file {path} cannot be written ({error.strerror}): check that its folder "
                f"exists and may be written, and the space left"
            ) from error
        yield fresh
    except Exception:
        waiting.unlink(missing_ok=True)
        raise
    keyfile.publish(waiting, path)


def _check_places(state: Path | None, key: Path | None) -> None:
    """Refuse a state in no folder, and a key in the state's place."""
    if state is None:
        return
    if not state.parent.is_dir():
        raise RequestMismatch(
            f"state {state} cannot be created (its folder does not exist): make the folder, or "
            f"give another {field('state')}"
        )
    if key is not None and key.resolve() in {
        Path(f"{state}{part}").resolve() for part in ("", "-wal", "-shm", "-journal")
    }:
        raise InvalidInput(
            f"{field('key', key)} is also a file of the state, {field('state', str(state))}; "
            f"keep the key in a file of its own, {state}.key unless you name one"
        )

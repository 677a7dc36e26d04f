"""Checks of a stream against its witness, before and after each release.

A release is shown only after the witness has recorded it. An old copy of a state, which lacks
releases that the witness has recorded, releases nothing.

New streams are checked too. A state that was restored from an old copy lacks its later releases:
under the same key, a stream of the same name would get the same noise over other data, and its loss
would not be counted. Two rules prevent this. A stored key is never used as it is: every stream has
a key of its own, derived with a new public salt. And every release of this state that the witness
has recorded must be in the state before it releases anything else.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from counton.base.errors import InvalidInput, OldCopy, RequestMismatch, WrongKey, field
from counton.noise import Key
from counton.noise.key import check_key
from counton.state import journal, records
from counton.state import key_and_witness as keyfile
from counton.state.database import Database
from counton.state.key_and_witness import Kept, Mark, State, Witness, witness_beside
from counton.state.sql import Connection
from counton.state.sqlite_file import files_of


class Position(NamedTuple):
    """Number of released steps of a stream, and its writer epoch, a number that each opening for
    writing raises.
    """

    step: int
    epoch: int


def position_of(connection: Connection, database: Database, name: str, witness: Witness) -> Any:
    """Return the public columns of a stream's database row; refuse an old copy.

    An old copy lacks steps, or deletions of people, that its witness (a record outside the state)
    has recorded.

    Raises:
        StateError: the stream is missing, or the witness has recorded more than the state has, or
            another release.
    """
    database.read_witnesses(connection)  # fresh for the next check: a place may have been given up
    row = records.public_row(connection, name)
    if row is None:
        raise OldCopy(
            f"state {database.label} has no stream {name!r} any more; restore the state that was "
            "used before"
        )
    witness.check(Mark.of(row), digests_in(connection, row.id))
    return row


def digests_in(connection: Connection, stream_id: int) -> Callable[[int], str | None]:
    """Return a function that maps a step of a stream to the digest of its release.

    The digest is that of the journal, the table of releases; None if the journal lacks the step.
    """
    return cache(partial(journal.digest_at, connection, stream_id))


def let_show(database: Database, name: str, key: keyfile.Kept = None) -> None:
    """Allow a process to show the last release of a stream; record the release first, if only
    earlier releases are recorded.

    The record is the stream's witness, outside the state. The process that made the release may
    have been killed, or may have failed, before it recorded the release. Nothing is recorded if the
    witness has later steps, or does not know the stream.

    Every process that shows a stream and is not its writer calls this function first. No key is
    needed.

    Raises:
        StateError: the release cannot be recorded; or another release of the step is recorded, so
            this one comes from another copy of the state.
    """
    witness = witness_beside(database, key).snapshot()  # read before the state
    with database.transaction(write=False) as connection:
        row = records.public_row(connection, name)
        digest, at = journal.digest_at(connection, row.id, row.step), Mark.of(row)
        if not row.step or digest is None:  # a damaged journal is reported by its reader
            return
        witness.check_shown(at, digest)
    if witness.is_later(at) or not witness.knows(at):
        return  # the state is an old copy, or its writer has the witness
    if witness.is_behind(at):
        note(database, witness, row.id, at, digest)


def note(
    database: Database,
    witness: Witness,
    stream_id: int,
    at: Mark,
    digest: str,
    *,
    writes: bool = False,
    seen: bool = False,
) -> None:
    """Record the last release of a stream in its witness, a record outside the state.

    Args:
        at: the stream's progress after that release.
        digest: digest of that release.
        writes: True if this process made the release.
        seen: True if another process made the release while this one watched.

    Raises:
        StateError: the release cannot be recorded, or another release of the step is recorded.
    """

    def digest_of(step: int) -> str | None:
        with database.transaction(write=False) as connection:
            return journal.digest_at(connection, stream_id, step)

    witness.note(at, digest, digest_of, writes=writes, seen=seen)


@contextmanager
def for_creation(
    state: State | Database, key: Kept, named: State | None = None
) -> Iterator[tuple[Key, Database | None]]:
    """Yield the key for a new stream, and the open state (None if the state does not exist yet).

    The key is new, or newly derived from a stored key. A new key's file gets its final name only
    after the block, when the state exists. So a killed process leaves no key that a later state, on
    changed data, could use.

    Args:
        state: address of the state, or the open state. After an error the state is closed here;
            otherwise the caller closes it.
        key: a key, used as it is; or the place of a key; None: ``STATE.key`` beside the state.
        named: folder in which the second witness (a record of releases away from the state) is
            kept from now on.

    Raises:
        WrongKey: ``key`` is None, and ``STATE.key`` holds a key that no stream of the state uses;
            or the key cannot be read or written.
        StateError: the state's folder does not exist; or the witness cannot be read, or has
            recorded a release that the state lacks (`refuse_forgotten`).
        InvalidInput: the key file is one of the state's files.
    """
    database = state if isinstance(state, Database) else None
    place, label = keyfile.place_of(state)
    try:
        file = keyfile.file_of(key)
        check_places(place, file)
        if not isinstance(state, Database):
            database = keyfile.database_at(state)
        raw = check_key(key) if isinstance(key, Key) else None
        used: list[tuple[str, str | None]] = []
        witness = witness_beside(state if database is None else database, key, named)
        if database is None:
            witness.refuse_forgotten({} if raw is None else {raw.fingerprint: ()}, None)
        else:
            with database.transaction(write=False) as connection:
                refuse_forgotten(connection, database, witness, raw)
                keys = connection.rows("SELECT key_fingerprint, key_salt FROM counton_streams")
                used = [(print_, salt) for print_, salt in keys]
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
        if key is None and not any(keyfile.fits(found, *one) for one in used):
            raise WrongKey(
                f"key file {file} exists, but state {label} has released nothing with it, so its "
                "state may be lost, or the key copied. A key that is used again on changed data "
                "would reveal the change: restore the state of this key, or move the key away, and "
                "a new one is made; if you made the key for this state, name it: "
                f"{field('key', file)}"
            )
        yield found.with_salt(), database
    except BaseException:
        if database is not None:
            database.close()
        raise


def refuse_forgotten(
    connection: Connection,
    database: Database,
    witness: Witness,
    raw: Key | None = None,
    beginning: str = "",
) -> None:
    """Refuse a state that lacks releases which its witness, the record outside the state, has.

    Called before a stream is created, and again at its first step: if two copies of a state created
    different streams, only one copy can release.

    Args:
        raw: a key that will be used as it is, without a salt; None if the key is derived.
        beginning: name of the stream that releases its first step, or "".
    """
    witness.refuse_missing()
    entries = witness.entries()  # read before the state, which knows all that was noted then
    if not entries:
        witness.refuse_unknown(connection, beginning)
        return
    known = released_names(connection)
    if raw is not None:
        known.setdefault(raw.fingerprint, set())
    witness.refuse_forgotten(known, database.identity)


def released_names(connection: Connection) -> dict[str, set[str]]:
    """Return the names of all streams of a state, in sets by the fingerprint of their keys."""
    known: dict[str, set[str]] = {}
    for row in connection.rows("SELECT name, key_fingerprint FROM counton_streams"):
        known.setdefault(row.key_fingerprint, set()).add(row.name)
    return known


@contextmanager
def _fresh(path: Path) -> Iterator[Key]:
    fresh = Key.generate()
    waiting = keyfile.waiting(path, fresh.fingerprint)
    try:
        try:
            fresh.save(waiting)
        except OSError as error:
            raise _unwritten_key(path, error.strerror) from error
        yield fresh
    except Exception:
        waiting.unlink(missing_ok=True)
        raise
    keyfile.publish(waiting, path)


def _unwritten_key(path: Path, why: str | None) -> WrongKey:
    return WrongKey(
        f"key file {path} cannot be written ({why}): check that its folder exists and may be "
        f"written, and the space left"
    )


def check_places(state: Path | None, key: Path | None) -> None:
    """Refuse a state or a key in a missing folder, and a key file that is one of the state's files.

    Raises:
        StateError: a folder does not exist.
        InvalidInput: the key file is one of the state's files.
    """
    if key is not None and not key.parent.is_dir():
        raise _unwritten_key(key, os.strerror(errno.ENOENT))
    if state is None:
        return
    if not state.parent.is_dir():
        raise RequestMismatch(
            f"state {state} cannot be created (its folder does not exist): make the folder, or "
            f"give another {field('state')}"
        )
    if key is not None and key.resolve() in {path.resolve() for path in files_of(state)}:
        raise InvalidInput(
            f"{field('key', key)} is also a file of the state, {field('state', str(state))}; give "
            f"another file for the key (without {field('key')} it is {state}.key)"
        )

"""What witness and shared ledger know of a stream: asked before it is shown, and told first.

Nobody is shown a release which they do not know, and nothing is released by an old copy of a state,
of which they know more than it does. The ledger is told first: whatever a witness knows, the ledger
knows too.

Here is the one gate for new streams, too. A state that was restored from an old copy has forgotten
what it released since: under the same key the forgotten name would get the same noise over other
data, and what it spent would be spent again. Two things stand against it. A kept key is never used
as it is: every release has a key of its own, drawn with a fresh public salt. And whatever the
witness knows to be released from this state must be in it, before anything else is.
"""

from __future__ import annotations

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
from counton.state.shared import SharedEntry, entry_in
from counton.state.sql import Connection


class Position(NamedTuple):
    """Where a stream stands: how many steps are released, and who writes it."""

    step: int
    epoch: int


def position_of(connection: Connection, database: Database, name: str, witness: Witness) -> Any:
    """The public row of a stream that is not old, by the ledger, and a witness held before.

    Raises:
        StateError: the stream is gone, or they know more of it than the state.
    """
    database.read_witnesses(connection)  # for who asks next: somebody may have given one up
    row = records.public_row(connection, name)
    if row is None:
        raise OldCopy(
            f"state {database.label} has no stream {name!r} any more; put the state back that was "
            f"used before"
        )
    digest = digests_in(connection, row.id)
    witness.check(Mark.of(row), digest)
    with entry_in(connection, database, name) as entry:
        if entry is not None:
            entry.refuse_forgotten(row.step, digest)
    return row


def digests_in(connection: Connection, stream_id: int) -> Callable[[int], str | None]:
    """Digest of what the state has released at a step, as the witness keeps it, by step."""
    return cache(partial(journal.digest_at, connection, stream_id))


def let_show(database: Database, name: str, key: keyfile.Kept = None) -> None:
    """Make sure that witness and ledger know the last release of a stream, before it is shown.

    Whoever released it may have been killed before it noted that, or could not; then it is noted
    here. Everything that shows a stream which it does not write goes through here. Needs no key.

    Raises:
        StateError: it cannot be noted; or another release of the step is known, so that this one
            comes from another copy of the state.
    """
    witness = witness_beside(database, key).snapshot()  # before the state is read
    with database.transaction(write=False) as connection:
        row = records.public_row(connection, name)
        digests, at = digests_in(connection, row.id), Mark.of(row)
        digest = digests(row.step)
        if not row.step or digest is None:  # the journal is damaged, as its reader will say
            return
        if not witness.check_shown(at, digest):  # the ledger knows the last one alone
            with entry_in(connection, database, name) as entry:
                if entry is not None:
                    entry.refuse_forgotten(row.step, digests)
    if witness.is_later(at) or not witness.knows(at):
        return  # an old copy, or whoever writes it has the witness
    if witness.is_behind(at):
        note_of_another(database, witness, row.id, at, digest)


def note_of_another(
    database: Database,
    witness: Witness,
    stream_id: int,
    at: Mark,
    digest: str,
    *,
    seen: bool = False,
) -> None:
    """As `note`, of a release that another process made.

    Args:
        seen: it was seen to do so.
    """
    with (
        database.transaction(write=False) as connection,
        entry_in(connection, database, at.name) as entry,
    ):
        note(database, witness, stream_id, at, digest, entry, seen=seen)


def note(
    database: Database,
    witness: Witness,
    stream_id: int,
    at: Mark,
    digest: str,
    entry: SharedEntry | None,
    *,
    writes: bool = False,
    seen: bool = False,
) -> None:
    """Tell ledger and witness of the last release of a stream.

    Args:
        at: where the stream stands by that.
        digest: of that release.
        entry: in the ledger that its state shares with others.
        writes: this process released it.
        seen: another one did, and was seen to do so.

    Raises:
        StateError: it cannot be noted, or another release is known.
    """

    def digest_of(step: int) -> str | None:
        with database.transaction(write=False) as connection:
            return journal.digest_at(connection, stream_id, step)

    if at.step and entry is not None:
        entry.note(at.step, digest, digest_of)
    witness.note(at, digest, digest_of, writes=writes, seen=seen)


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

"""The key of a SQLite state, kept in a file beside it: ``STATE.key``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from counton.errors import InvalidInput, StateError, WrongKey, field
from counton.noise import Key
from counton.store import schema
from counton.store.database import Database, database_url, state_file
from counton.store.sqlite_file import NoState
from counton.store.whole_file import sync_folder


def key_path(state: str | os.PathLike[str]) -> Path:
    """Where the key of a SQLite state is kept.

    Raises:
        WrongKey: the state is on a server, which is no place for its key.

    >>> key_path("visits.db").name
    'visits.db.key'
    """
    return beside(state_file(state), database_url(state).render_as_string(True))


def state_files(
    state: str | os.PathLike[str], key: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Files that keep a state and its key, whether they exist or are still to be made.

    Args:
        state: path of a SQLite file, or a database URL.
        key: file of the key; None: ``STATE.key``.

    >>> [path.name for path in state_files("visits.db")]
    ['visits.db', 'visits.db-wal', 'visits.db-shm', 'visits.db-journal', 'visits.db.key']
    """
    file = state_file(state)
    parts = ("", "-wal", "-shm", "-journal", ".key")
    kept = [] if file is None else [Path(f"{file}{part}") for part in parts]
    return kept if key is None else [*kept, Path(key)]


def beside(file: Path | None, label: str) -> Path:
    """Where the key of a state is kept whose file is known.

    Raises:
        WrongKey: there is no file; ``label`` says of which state.
    """
    if file is None:
        raise WrongKey(
            f"state {label} is on a server and has no key file beside it: say where the key is "
            f"kept, {field('key')}"
        )
    return Path(f"{file}.key")


def load(path: Path, fingerprint: str) -> Key:
    """The key of a file, for a stream whose key has this fingerprint.

    Raises:
        WrongKey: it is missing, unreadable or badly protected.
    """
    waiting = _waiting(path, fingerprint)
    if waiting.exists():
        # The process that made the state was killed before it could give the key its name, or
        # another one had given it to its own key.
        _publish(waiting, path)
        if waiting.exists():
            return Key.load(waiting)
    return Key.load(path)


@contextmanager
def for_creation(state: str | os.PathLike[str], path: Path | None = None) -> Iterator[Key]:
    """The key for a new release: that of the file, if the state uses it already, or a fresh one.

    A fresh key gets its name only after the block, when the state exists: a process killed
    on the way leaves no key which a later state, on changed data, could take up.

    Args:
        state: path or database URL.
        path: of the key; ``STATE.key`` unless given.

    Raises:
        WrongKey: the file holds a key that no release of the state uses, or cannot be written.
        StateError: the state's folder does not exist.
        InvalidInput: the key would take the place of the state.
    """
    _check_places(state, path)
    path = key_path(state) if path is None else path
    if path.exists():
        held = Key.load(path)
        if not _serves(state, held):
            raise WrongKey(
                f"key file {path} exists but nothing in state {os.fspath(state)} was released with "
                f"it, which looks as if its state was lost or the key copied: the same key on "
                f"changed data would reveal the difference; bring its own state back, or move the "
                f"key away and a new one is made"
            )
        yield held
        return
    fresh = Key.generate()
    waiting = _waiting(path, fresh.fingerprint)
    try:
        _save(fresh, waiting, path)
        yield fresh
    except Exception:
        waiting.unlink(missing_ok=True)
        raise
    _publish(waiting, path)


def _check_places(state: str | os.PathLike[str], key: Path | None) -> None:
    """Refuse a state in no folder, and a key in the state's place."""
    file = state_file(state)
    if file is None:
        return
    if not file.parent.is_dir():
        raise StateError(
            f"state {file} cannot be created (its folder does not exist): make the folder, or give "
            f"another {field('state')}"
        )
    if key is not None and key.resolve() in {
        Path(f"{file}{part}").resolve() for part in ("", "-wal", "-shm", "-journal")
    }:
        raise InvalidInput(
            f"{field('key', key)} is also a file of the state, {field('state', os.fspath(state))}; "
            f"keep the key in a file of its own, {file}.key unless you name one"
        )


def own(database: Database, fingerprint: str) -> Key:
    """The key beside a state, for a release whose key has this fingerprint."""
    return load(beside(database.path, database.label), fingerprint)


def _publish(waiting: Path, path: Path) -> None:
    """Give a key its name, never over another key: then it goes on waiting."""
    try:
        os.link(waiting, path)
    except FileExistsError:
        if path.exists() and waiting.samefile(path):  # killed between link and unlink
            waiting.unlink(missing_ok=True)
        return
    except OSError:  # a file system without hard links, or another process was faster
        if not path.exists():
            os.rename(waiting, path)
    else:
        waiting.unlink(missing_ok=True)
    sync_folder(path.parent)


def _serves(state: str | os.PathLike[str], key: Key) -> bool:
    """Whether anything in the state was released with this key."""
    try:
        database = Database(state)
    except NoState:
        return False
    try:
        with database.transaction(write=False) as connection:
            return any(
                connection.execute(
                    sa.select(table.c.id).where(table.c.key_fingerprint == key.fingerprint)
                ).first()
                is not None
                for table in (schema.streams, schema.tables)
            )
    finally:
        database.close()


def _save(key: Key, waiting: Path, path: Path) -> None:
    try:
        key.save(waiting)
    except OSError as error:
        raise WrongKey(
            f"key file {path} cannot be written ({error.strerror}): check that its folder exists "
            f"and may be written, and the space left"
        ) from error


def _waiting(path: Path, fingerprint: str) -> Path:
    """Where a key waits until its state exists."""
    return path.with_name(f"{path.name}.new-{fingerprint}")

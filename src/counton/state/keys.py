"""The place of a state's key, and the key of a new stream.

A key stands in a file (``STATE.key`` beside a SQLite state unless another is named), in an
environment variable (``env:NAME``), or in the output of a command (``command:...``, such as a
vault's client). If a new state finds an existing key there, other states may use that key too. Then
the new state's noise comes from a key of its own, derived with a public salt
(`counton.Key.with_salt`).
"""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from counton.base.errors import InvalidInputError, NoiseKeyError, StreamMismatchError, param
from counton.noise import Key
from counton.noise.key import give_name, is_same_file, refuse_key_as_place
from counton.state.database import Database, DatabaseAddress, parse_address
from counton.state.public_rows import public_rows
from counton.state.rollback_guard import (
    RollbackGuard,
    address_of,
    default_folder,
    latest_guard,
    refuse_used,
)
from counton.state.sqlite_file import NoStateError, files_of

#: A key, or where it is kept: a file, ``env:NAME``, ``command:...``, or None for ``STATE.key``.
KeySource = Key | str | os.PathLike[str] | None
State = str | os.PathLike[str]

_ENVIRONMENT = "env:"
_COMMAND = "command:"
_COMMAND_SECONDS = 60


def key_path(state: State) -> Path:
    """Return the path of the key file that lies beside a SQLite state: ``STATE.key``.

    Args:
        state: path of a SQLite file, or a database URL.

    Raises:
        NoiseKeyError: the state is on a database server, where its key must not lie.

    >>> key_path("visits.db").name
    'visits.db.key'
    """
    file = file_of(None, parse_address(state))
    assert file is not None
    return file


def state_files(state: State, key: KeySource = None) -> list[Path]:
    """List the files of a state and its key, existing or not.

    Args:
        key: place of the key, None for ``STATE.key``; or the key itself, which then adds no file.

    >>> [path.name for path in state_files("visits.db")][3:]
    ['visits.db-journal', 'visits.db.key']
    """
    address = parse_address(state)
    files = [] if address.file is None else [*files_of(address.file), key_path(state)]
    named = None if key is None else file_of(key, address)
    return files if named is None else [*files, named]


def key_for(database: Database, fingerprint: str, salt: str | None, key: KeySource) -> Key:
    """Load ``key``, apply the stored salt (None: none), and check the stored fingerprint."""
    path = file_of(key, database.address)
    if isinstance(key, Key):
        loaded = key
    else:
        loaded = read_named_key(str(key)) if path is None else _load(path, fingerprint)
    return loaded if salt is None or loaded.fingerprint == fingerprint else loaded.with_salt(salt)


def file_of(key: KeySource, state: DatabaseAddress) -> Path | None:
    """Return the file of a state's key, by default ``STATE.key``; None if the key is in no file.

    Raises:
        NoiseKeyError: the key would lie beside a state on a server.
    """
    if isinstance(key, Key):
        return None
    if key is None:
        if state.file is None:
            raise NoiseKeyError(
                f"state {state.label} is on a server, so no key file lies beside it: give "
                f"{param('key')}, the place of the key"
            )
        return Path(f"{state.file}.key")
    value: object = key
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidInputError(
            f"key is of type {type(key).__name__}; it must be a counton.Key, or the place of a "
            "key: a file, env:NAME or command:..."
        )
    if not text:
        raise InvalidInputError(
            f"{param('key')} is empty: give a file, env:NAME or command:..., or leave it out"
        )
    refuse_key_as_place(text)
    return None if text.startswith((_ENVIRONMENT, _COMMAND)) else Path(text)


def read_named_key(text: str) -> Key:
    """Read a key from ``env:NAME`` or a ``command:...``'s output."""
    if text.startswith(_ENVIRONMENT):
        name = text.removeprefix(_ENVIRONMENT)
        content = os.environ.get(name)
        if not content:
            raise NoiseKeyError(
                f"{param('key', text)} names the environment variable {name!r}, which is not set: "
                "set it to the content of a key file"
            )
        return Key.from_text(content, f"environment variable {name!r}")
    command = text.removeprefix(_COMMAND)
    try:
        words = shlex.split(command)
        done = subprocess.run(
            words, stdout=subprocess.PIPE, timeout=_COMMAND_SECONDS, check=True, text=True
        )
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        if isinstance(error, subprocess.CalledProcessError):
            why = f"it ended with exit code {error.returncode}"
        elif isinstance(error, subprocess.TimeoutExpired):
            why = f"it did not end within {_COMMAND_SECONDS} seconds"
        elif isinstance(error, OSError) and error.strerror:
            why = error.strerror
        else:
            why = "a quotation mark is not closed, or no command is named"
        raise NoiseKeyError(
            f"{param('key', text)} names a command that printed no key ({why}): run the command by "
            "itself, and correct it until it prints the content of a key file"
        ) from None
    return Key.from_text(done.stdout, f"what {words[0]!r} printed")


def _load(path: Path, fingerprint: str) -> Key:
    temporary = temporary_path(path, fingerprint)
    if temporary.exists():
        # A process was killed after it made the state, before it could name the key; or another
        # process had given the name to its own key.
        name_key_file(temporary, path)
        if temporary.exists():
            return Key.load(temporary)
    return Key.load(path)


def name_key_file(temporary: Path, path: Path) -> None:
    """Rename a key file from ``temporary`` to ``path``, which stays as it is if it exists.

    Args:
        temporary: the temporary path of the key file.
        path: its final path.
    """
    if not give_name(temporary, path) and is_same_file(temporary, path):
        temporary.unlink(missing_ok=True)  # a process was killed before it removed this name


def temporary_path(path: Path, fingerprint: str) -> Path:
    """Return the temporary path of a new key file, used until the key's state exists."""
    return path.with_name(f"{path.name}.new-{fingerprint}")


class _UsedKey(NamedTuple):
    """The key of a stream, by its fingerprint, and the salt with which it was derived."""

    fingerprint: str
    salt: str | None

    def is_of(self, key: Key) -> bool:
        """Return whether it is a key, or one that was derived from it with the salt."""
        if self.fingerprint == key.fingerprint:
            return True
        return bool(self.salt) and self.fingerprint == key.with_salt(self.salt).fingerprint


def _used_keys(database: Database, guard: RollbackGuard) -> list[_UsedKey]:
    """Return the keys of all streams of a state, which must not be an old copy."""
    with database.transaction(write=False) as connection:
        guard.refuse_forgotten(connection)
        return [_UsedKey(row.key_fingerprint, row.key_salt) for row in public_rows(connection)]


def _unused_key(file: Path | None, label: str) -> NoiseKeyError:
    """Build the error for a key beside a state that has released nothing with it."""
    return NoiseKeyError(
        f"key file {file} exists, but state {label} has released nothing with it, so its state "
        "may be lost, or the key copied. A key that is used again on changed data would reveal "
        "the change: restore the state of this key, or move the key away, and a new one is made; "
        f"if you made the key for this state, name it: {param('key', file)}"
    )


@contextmanager
def key_of_new_stream(
    state: State | Database, key: KeySource, rollback_guard: State | None = None
) -> Iterator[tuple[Key, Database | None]]:
    """Yield the key for a new stream, and the open state (None if the state does not exist yet).

    The key is new, or newly derived from a stored key, so no stream gets the noise of a stream that
    was lost with its state. A new key's file gets its final name only after the block, when the
    state exists. So a killed process leaves no key that a later state, on changed data, could use.

    Args:
        state: address of the state, or the open state. After an error the state is closed here;
            otherwise the caller closes it.
        key: the key, or the place of one.
        rollback_guard: folder of the state's rollback guard, the record of releases outside the
            state, if this run names it.

    Raises:
        NoiseKeyError: the key cannot be read or written, or is one that no stream of the state
            uses.
        StateError: the state's folder does not exist; or the rollback guard cannot be read, or has
            recorded a release that the state lacks, or of another state at this address.
        InvalidInputError: the key file is one of the state's files.
    """
    database = state if isinstance(state, Database) else None
    address = state.address if isinstance(state, Database) else parse_address(state)
    try:
        file = file_of(key, address)
        check_places(address.file, file)
        if not isinstance(state, Database):
            with suppress(NoStateError):
                database = Database(state)
        new_file = None if file is None or file.exists() else file
        used = _refuse_reused_key(
            database, address, key, rollback_guard, makes_key_file=new_file is not None
        )
        if new_file is not None:
            with _fresh_key_file(new_file) as fresh:
                yield fresh, database
        elif isinstance(key, Key):
            yield key, database
        else:
            yield _derived_key(key, file, used, address), database
    except BaseException:
        if database is not None:
            database.close()
        raise


def _refuse_reused_key(
    database: Database | None,
    address: DatabaseAddress,
    key: KeySource,
    rollback_guard: State | None,
    *,
    makes_key_file: bool,
) -> list[_UsedKey]:
    """Refuse a state that lost its streams, and a key that another state's stream used.

    Args:
        database: the open state; None if it does not exist yet.
        rollback_guard: folder of the rollback guard, if this run names it.
        makes_key_file: whether the key will be a new one, in a new file.

    Returns:
        The keys of all streams of the state.

    Raises:
        StateError: the rollback guard has recorded a release that the state lacks.
    """
    folder = default_folder() if rollback_guard is None else address_of(rollback_guard)
    used: list[_UsedKey] = []
    if database is not None:
        guard = latest_guard(database, rollback_guard)
        folder = guard.folder or folder
        used = _used_keys(database, guard)
    may_have_lost_streams = not used and not makes_key_file
    fingerprint = None
    if isinstance(key, Key) and key.file is not None:
        fingerprint = key.fingerprint
    if may_have_lost_streams or fingerprint:
        identity = None if database is None else database.identity
        refuse_used(
            folder,
            identity,
            address.label,
            lost=may_have_lost_streams,
            fingerprint=fingerprint,
        )
    return used


@contextmanager
def _fresh_key_file(file: Path) -> Iterator[Key]:
    """Yield a new key, whose file gets its name when the block has made the state."""
    fresh = Key.generate()
    temporary = temporary_path(file, fresh.fingerprint)
    try:
        try:
            fresh.save(temporary)
        except OSError as error:
            raise _unwritten_key(file, error.strerror) from error
        yield fresh
    except Exception:  # but not after an interrupt: then the state may exist, and need the file
        temporary.unlink(missing_ok=True)
        raise
    name_key_file(temporary, file)


def _derived_key(
    key: KeySource, file: Path | None, used: list[_UsedKey], address: DatabaseAddress
) -> Key:
    """Read an existing key, and derive a new one from it.

    Raises:
        NoiseKeyError: the key lies beside the state, and no stream of the state uses it.
    """
    loaded = read_named_key(str(key)) if file is None else Key.load(file)
    if key is None and not any(used_key.is_of(loaded) for used_key in used):
        raise _unused_key(file, address.label)
    return loaded.with_salt()


def _unwritten_key(path: Path, why: str | None) -> NoiseKeyError:
    return NoiseKeyError(
        f"key file {path} cannot be written ({why}): check that its folder exists and may be "
        f"written, and the space left"
    )


def check_places(state: Path | None, key: Path | None) -> None:
    """Refuse a state or key in a missing folder, and a key file that is a file of the state."""
    if state is not None and not state.parent.is_dir():
        raise StreamMismatchError(
            f"state {state} cannot be created (its folder does not exist): make the folder, or "
            f"give another {param('state')}"
        )
    if key is not None and not key.parent.is_dir():
        raise _unwritten_key(key, os.strerror(errno.ENOENT))
    state_files = [] if state is None else files_of(state)
    if key is not None and key.resolve() in {path.resolve() for path in state_files}:
        raise InvalidInputError(
            f"{param('key', key)} is also a file of the state, {param('state', str(state))}; give "
            f"another file for the key (without {param('key')} it is {state}.key)"
        )

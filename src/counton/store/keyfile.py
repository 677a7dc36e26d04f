"""Where the key of a state is kept, and what is remembered beside it.

A key stands in a file, ``STATE.key`` beside a SQLite state unless another is named, in an
environment variable (``env:NAME``), or is what a command prints (``command:...``, a vault's
client). One that a new state finds prepared may serve other states too: then the state's noise
comes from a key of its own, derived with a public salt (`counton.Key.salted`).

Beside the key stands its witness: how far each stream was, and a digest of its last release. A
state that was restored from an old copy would give the noise of known releases to other data; the
witness notices.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from counton.errors import InvalidInput, ReplayMismatch, StateError, WrongKey, field
from counton.noise import Key
from counton.noise.key import check_key
from counton.store import schema
from counton.store.database import Database, database_url, state_file
from counton.store.sqlite_file import NoState
from counton.store.whole_file import sync_folder

#: A key, or where it is kept: a file, ``env:NAME``, ``command:...``, or None for ``STATE.key``.
Kept = Key | str | os.PathLike[str] | None
State = str | os.PathLike[str]

_ENVIRONMENT, _COMMAND = "env:", "command:"
_COMMAND_SECONDS = 60


def key_path(state: State) -> Path:
    """Where the key of a SQLite state is kept.

    Raises:
        WrongKey: the state is on a server, which is no place for its key.

    >>> key_path("visits.db").name
    'visits.db.key'
    """
    return beside(state_file(state), database_url(state).render_as_string(True))


def state_files(state: State, key: str | os.PathLike[str] | None = None) -> list[Path]:
    """Files that keep a state and its key, whether they exist or are still to be made.

    Args:
        state: path of a SQLite file, or a database URL.
        key: where the key is kept; None: ``STATE.key``.

    >>> [path.name for path in state_files("visits.db")][3:]
    ['visits.db-journal', 'visits.db.key', 'visits.db.key.witness']
    """
    file, path = state_file(state), _file(key)
    parts = ("", "-wal", "-shm", "-journal", ".key", ".key.witness")
    kept = [] if file is None else [Path(f"{file}{part}") for part in parts]
    return kept if path is None else [*kept, path, Path(f"{path}.witness")]


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


def held(database: Database, fingerprint: str, salt: str | None, key: Kept) -> Key:
    """The key of a release of an open state, which says its fingerprint and its salt.

    Raises:
        WrongKey: it is missing, unreadable or badly protected, or another one.
    """
    found: Key
    if isinstance(key, Key):
        found = key
    elif key is None:
        found = _load(beside(database.path, database.label), fingerprint)
    else:
        path = _file(key)
        found = _elsewhere(os.fspath(key)) if path is None else _load(path, fingerprint)
    if salt is not None and found.fingerprint != fingerprint:
        return found.salted(salt)
    return found


def _file(key: Kept) -> Path | None:
    """The file that is named for a key; None where none is."""
    if key is None or isinstance(key, Key):
        return None
    given: Any = key
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidInput(
            f"key is of type {type(key).__name__}; it must be a counton.Key, or say where one is "
            f"kept: a file, env:NAME or command:..."
        )
    if not text:
        raise InvalidInput(
            f"{field('key')} is an empty text: name a file, env:NAME or command:..., or "
            f"leave it out"
        )
    return None if text.startswith((_ENVIRONMENT, _COMMAND)) else Path(text)


def _elsewhere(text: str) -> Key:
    """The key that an environment variable holds, or that a command prints."""
    if text.startswith(_ENVIRONMENT):
        name = text.removeprefix(_ENVIRONMENT)
        kept = os.environ.get(name)
        if not kept:
            raise WrongKey(
                f"{field('key', text)} names the environment variable {name!r}, which is not set: "
                f"set it to what a key file holds"
            )
        return Key.from_text(kept, f"environment variable {name!r}")
    command = text.removeprefix(_COMMAND)
    try:
        words = shlex.split(command)
        done = subprocess.run(
            words, stdout=subprocess.PIPE, timeout=_COMMAND_SECONDS, check=True, text=True
        )
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        why = (
            f"it ended with exit code {error.returncode}"
            if isinstance(error, subprocess.CalledProcessError)
            else f"it did not end within {_COMMAND_SECONDS} seconds"
            if isinstance(error, subprocess.TimeoutExpired)
            else getattr(error, "strerror", None) or "its words cannot be told apart"
        )
        raise WrongKey(
            f"{field('key', text)} names a command that gave no key ({why}): run it by itself, and "
            f"correct it until it prints what a key file holds"
        ) from None
    return Key.from_text(done.stdout, f"what {words[0]!r} printed")


def _load(path: Path, fingerprint: str) -> Key:
    """The key of a file, for a stream whose key has this fingerprint."""
    waiting = _waiting(path, fingerprint)
    if waiting.exists():
        # The process that made the state was killed before it could give the key its name, or
        # another one had given it to its own key.
        _publish(waiting, path)
        if waiting.exists():
            return Key.load(waiting)
    return Key.load(path)


@contextmanager
def for_creation(state: State, key: Kept, name: str) -> Iterator[Key]:
    """The key for a new release: the state's own, one derived from a prepared one, or a fresh one.

    A fresh key gets its name only after the block, when the state exists: a process killed
    on the way leaves no key which a later state, on changed data, could take up.

    Args:
        state: path or database URL.
        key: a key, used as it is; or where it is kept.
        name: of the release.

    Raises:
        WrongKey: ``STATE.key``, not named, holds a key that no release of the state uses; or the
            key cannot be read or written.
        StateError: the state's folder does not exist; or the witness cannot be read, or says that
            the state, which is lost, has released steps under this name.
        InvalidInput: the key would take the place of the state.
    """
    if isinstance(key, Key):
        yield check_key(key)
        return
    file = _file(key)
    _check_places(state, file)
    witness_beside(state, key).entries()  # refused if it cannot be read
    path = (key_path(state) if key is None else file) if key is None or file else None
    if path is not None and not path.exists():
        with _fresh(path) as fresh:
            yield fresh
        return
    found = _elsewhere(os.fspath(key or "")) if path is None else Key.load(path)
    use = _use(state, found)
    if use is None and key is None:
        raise WrongKey(
            f"key file {path} exists but nothing in state {os.fspath(state)} was released with "
            f"it, which looks as if its state was lost or the key copied: the same key on "
            f"changed data would reveal the difference; bring its own state back, or move the "
            f"key away and a new one is made; one that was prepared is named, {field('key', path)}"
        )
    if use is None:
        witness_beside(state, key).refuse_lost(name)
    yield found if use == "own" else found.salted()


@contextmanager
def _fresh(path: Path) -> Iterator[Key]:
    fresh = Key.generate()
    waiting = _waiting(path, fresh.fingerprint)
    try:
        _save(fresh, waiting, path)
        yield fresh
    except Exception:
        waiting.unlink(missing_ok=True)
        raise
    _publish(waiting, path)


def _check_places(state: State, key: Path | None) -> None:
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


def _use(state: State, key: Key) -> str | None:
    """Whether the state has releases with this key as its "own", or "salted"; None: neither."""
    try:
        database = Database(state)
    except NoState:
        return None
    try:
        with database.transaction(write=False) as connection:
            known = {
                (row.key_fingerprint, row.key_salt)
                for table in (schema.streams, schema.tables)
                for row in connection.execute(sa.select(table.c.key_fingerprint, table.c.key_salt))
            }
    finally:
        database.close()
    if any(fingerprint == key.fingerprint for fingerprint, _ in known):
        return "own"
    salted = (key.salted(salt).fingerprint == print_ for print_, salt in known if salt)
    return "salted" if any(salted) else None


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


def witness_beside(state: State | Database, key: Kept) -> Witness:
    """The witness of a state's releases: beside the key's file, else where ``STATE.key`` would be.

    A state on a server whose key is in no file has none.
    """
    path = _file(key)
    if isinstance(state, Database):
        file, label = state.path, state.label
    else:
        file = state_file(state)
        label = str(file) if file else database_url(state).render_as_string(True)
    if path is None and file is not None:
        path = Path(f"{file}.key")
    return Witness(None if path is None else Path(f"{path}.witness"), label)


class Witness:
    """What is remembered beside a key: of each stream the last step, and a digest of its release.

    It is written after each commit and holds nothing secret. Where it cannot be written, later
    releases are not known to it; where it stands and cannot be read, the state is refused.

    Args:
        path: of its file; None: there is none.
        label: of the state.
    """

    def __init__(self, path: Path | None, label: str) -> None:
        self.path, self._label = path, label

    def entries(self) -> list[dict[str, Any]]:
        """What it remembers; nothing where there is none.

        Raises:
            StateError: it is there and cannot be read.
        """
        if self.path is None:
            return []
        try:
            return _parsed(self.path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it was altered, or written in part"
            raise StateError(
                f"the witness {self.path} of state {self._label} cannot be read ({why}), so nobody "
                f"can tell whether the state was restored from an old copy: bring the witness back "
                f"from a copy; or, if you know that the state is the newest one, move the witness "
                f"away, and the next release writes another"
            ) from None

    def forgotten(self, known: Mapping[str, Collection[str]]) -> list[dict[str, Any]]:
        """Entries of releases that the state does not have, whose keys it has.

        Args:
            known: names of the state's streams, and what `refuse_other_data` calls the noise of
                its tables, by fingerprint of the key.

        Raises:
            StateError: it cannot be read.
        """
        return [
            entry
            for entry in self.entries()
            if entry["stream"] not in known.get(entry["key"], (entry["stream"],))
        ]

    def refuse_lost(self, name: str) -> None:
        """Refuse to begin a stream anew that the state of this name had begun.

        Raises:
            StateError: it has released steps, or the witness cannot be read.
        """
        for entry in self.entries():
            if (entry["state"], entry["stream"]) == (self._label, name) and entry["step"]:
                raise StateError(
                    f"state {self._label} has no stream {name!r}, but {self.path} says that it had "
                    f"released {entry['step']:,} steps of it: bring the state back from its newest "
                    f"copy, or begin a stream with another {field('name')}; what the lost one "
                    f"spent stays spent"
                )

    def refuse_other_data(self, fingerprint: str, name: str, noise: str, digest: str) -> None:
        """Refuse a table in whose noise another one was released, which the state has forgotten.

        Args:
            fingerprint: of the key.
            name: of the table.
            noise: what says under one key which noise it is: its name and terms.
            digest: of its data, keyed.

        Raises:
            ReplayMismatch: the witness knows other data.
            StateError: the witness cannot be read.
        """
        for entry in self.entries():
            known = (entry["key"], entry["stream"]) == (fingerprint, noise)
            if known and entry["digest"] != digest:
                raise ReplayMismatch(
                    f"state {self._label} does not know {name!r}, but {self.path} says that it was "
                    f"released from other data, so the state was restored from an old copy; the "
                    f"same noise on both would give the difference away: bring the newest copy "
                    f"back, or choose another {field('name')}, which spends the guarantee again"
                )

    def check(
        self, fingerprint: str, name: str, step: int, digest: Callable[[int], str | None]
    ) -> None:
        """Refuse a stream that has forgotten releases.

        Args:
            fingerprint: of the stream's key.
            name: of the stream.
            step: the last one that the state knows.
            digest: of one of the releases that the state knows; None where it cannot be read.

        Raises:
            StateError: the witness knows later ones, or another one at the same step; or it cannot
                be read.
        """
        for entry in self.entries():
            if (entry["key"], entry["stream"]) != (fingerprint, name):
                continue
            if entry["step"] > step:
                raise StateError(
                    f"stream {name!r} is at step {step:,} in state {self._label}, but {self.path} "
                    f"says that step {entry['step']:,} is released, so the state was restored from "
                    f"an old copy; the same noise on other data would give their difference away: "
                    f"bring the newest copy back, or, if it is lost, end this stream and begin "
                    f"another one that continues it (a statistic cannot be ended: begin it anew "
                    f"with another {field('name')})"
                )
            if entry["step"] and digest(entry["step"]) not in (None, entry["digest"]):
                raise StateError(
                    f"stream {name!r} in state {self._label} has another release at step "
                    f"{entry['step']:,} than {self.path} knows, so two copies of the state were "
                    f"continued; the same noise on two data sets gives their difference away: go "
                    f"on with the copy that was used here, and stop the other"
                )

    def note(self, fingerprint: str, name: str, step: int, digest: str) -> None:
        """Remember a release that is committed."""
        if self.path is None:
            return
        entry = {
            "key": fingerprint,
            "state": self._label,
            "stream": name,
            "step": step,
            "digest": digest,
        }
        # What cannot be read is left as it is: the next one who opens the state is told of it.
        with suppress(OSError, ValueError):
            if not self.path.exists() and _begun(self.path, _text([entry])):
                return
            descriptor = os.open(self.path, os.O_RDWR)
            with os.fdopen(descriptor, "rb+", buffering=0) as file:
                _lock(descriptor)
                before = file.read()
                known = _parsed(before)
                others = [
                    old for old in known if (old["key"], old["stream"]) != (fingerprint, name)
                ]
                if any(old["step"] > step for old in known if old not in others):
                    return
                text = _text([*others, entry])
                # In one write, so that a process which is killed leaves the old or the new text.
                if os.pwrite(descriptor, text, 0) != len(text):  # no space left
                    os.pwrite(descriptor, before, 0)
                    text = before
                os.ftruncate(descriptor, len(text))


def _begun(path: Path, text: bytes) -> bool:
    """Make a witness with its first entry in it; whether no other process had made it."""
    waiting = path.with_name(f"{path.name}.new")
    descriptor = os.open(waiting, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(descriptor)
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
        os.fsync(descriptor)
        try:
            os.link(waiting, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links, or another process was faster
            if path.exists() or not waiting.exists():
                return False
            os.rename(waiting, path)
        return True
    finally:
        os.close(descriptor)
        waiting.unlink(missing_ok=True)


def _text(entries: list[dict[str, Any]]) -> bytes:
    return json.dumps(entries, indent=1).encode() + b"\n"


def release_digest(step: int, value: NDArray[Any]) -> str:
    """Digest of what was released at a step; as public as the release.

    >>> release_digest(3, np.array([12])) == release_digest(3, np.array([12.0]))
    False
    """
    data = np.ascontiguousarray(value)
    plain = data.astype(data.dtype.newbyteorder("<")).tobytes()
    return hashlib.sha256(step.to_bytes(8, "little") + plain).hexdigest()[:32]


def _parsed(data: bytes) -> list[dict[str, Any]]:
    """Entries of a witness. After them may stand what is left of a longer text.

    Raises:
        ValueError: it holds no entries, or something else.
    """
    found, _ = json.JSONDecoder().raw_decode(data.decode())
    texts = ("key", "state", "stream", "digest")
    if not (isinstance(found, list) and found):
        raise ValueError("no entries")
    for entry in found:
        if not (
            isinstance(entry, dict)
            and all(isinstance(entry.get(word), str) for word in texts)
            and isinstance(entry.get("step"), int)
        ):
            raise ValueError("no entry of a release")
    return found


def _lock(descriptor: int) -> None:
    """Let one process at a time write; it ends with the process."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)

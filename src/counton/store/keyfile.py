"""The key of a SQLite state, kept in a file beside it: ``STATE.key``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from counton.errors import WrongKey
from counton.noise import Key
from counton.store.database import parse


def key_path(state: str | os.PathLike[str]) -> Path:
    """Where the key of a SQLite state is kept.

    Raises:
        WrongKey: the state is on a server, which is no place for its key.

    >>> key_path("visits.db").name
    'visits.db.key'
    """
    url = parse(state)
    if url.get_backend_name() != "sqlite":
        raise WrongKey(
            f"state {url.render_as_string(True)} is on a server and has no key file beside it: "
            f"give key=Key.load(path)"
        )
    return Path(f"{url.database}.key")


def load(state: str | os.PathLike[str], fingerprint: str) -> Key:
    """The key beside a state, where the stream's key has this fingerprint.

    Raises:
        WrongKey: it is missing, unreadable or badly protected.
    """
    path = key_path(state)
    waiting = _waiting(path, fingerprint)
    if not path.exists() and waiting.exists():
        # The process that made the state was killed before it could give the key its name.
        os.rename(waiting, path)
    return Key.load(path)


@contextmanager
def for_creation(state: str | os.PathLike[str], key: Key | None) -> Iterator[Key]:
    """The key for a new stream: the given one, or the state's own, or a fresh one.

    A fresh key gets its name only after the block, when the state exists: a process killed
    on the way leaves no key which a later state, on changed data, could take up.
    """
    if key is not None:
        yield key
        return
    path = key_path(state)
    state_file = path.with_name(path.name.removesuffix(".key"))
    if path.exists():
        if not state_file.exists():
            raise WrongKey(
                f"key file {path} exists but its state {state_file} does not: the same key on "
                f"changed data would reveal the difference; bring the state back, or move the key "
                f"away"
            )
        yield Key.load(path)
        return
    fresh = Key.generate()
    waiting = _waiting(path, fresh.fingerprint)
    fresh.save(waiting)
    try:
        yield fresh
    except Exception:
        waiting.unlink()
        raise
    if not path.exists():
        os.rename(waiting, path)


def _waiting(path: Path, fingerprint: str) -> Path:
    """Where a key waits until its state exists."""
    return path.with_name(f"{path.name}.new-{fingerprint}")

"""Rollback guards: records of the noise that keys have given, so that no noise is used twice.

The same noise for two versions of the data would reveal their exact difference. A rollback guard is
a file of entries in JSON, without secrets. That of a state (`counton.state.rollback_guard`) has an
entry for each stream, with the last step and a digest of that release. That of a key file is the
file ``KEY.witness`` beside it: a training run, or any other program that takes noise, has a random
identity there. Keys without a file have their identities in the memory of the process alone.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from counton.base.atomic_file import sync_folder
from counton.base.errors import StateError, StateUnavailableError
from counton.base.outside_input import open_plain
from counton.noise.key import InsecureSeededKey, Key, give_name

#: Identity under which a key has given noise, by the key's fingerprint and the user's name.
_identities: dict[tuple[str, str], str] = {}
_knowing = threading.Lock()
#: Value of the field "state" in entries of identities, which have no saved stream.
_NO_STATE = "no state"
#: Number of releases before the last that are remembered, to recognise old copies of a state.
REMEMBERED_RELEASES = 16
Entries = list[dict[str, Any]]


def drawn_identity() -> str:
    """Draw the public identity of one use of a key: 128 random bits, in hexadecimal digits."""
    return secrets.token_hex(16)


def identity_of(key: Key, name: str, identity: str) -> str:
    """Return the identity recorded for a run's ``name``, or record and return ``identity``.

    Two identities have different noise. A new one is recorded in this process and, if the key has a
    file, in its rollback guard, which must be writable if it exists. If none can be made, as in a
    read-only folder, only the process records it. Nothing is recorded for an `InsecureSeededKey`.

    Raises:
        StateError: the rollback guard exists and cannot be read or written.

    >>> key = Key.generate()
    >>> identity_of(key, "run", "1" * 32) == identity_of(key, "run", "2" * 32) == "1" * 32
    True
    """
    if isinstance(key, InsecureSeededKey):
        return identity
    fingerprint = key.fingerprint
    with _knowing:
        known_identity = _identities.get((fingerprint, name), identity)
        if key.file is not None:
            known_identity = _identity_in(
                guard_path_of(key.file), fingerprint, name, known_identity
            )
        return _identities.setdefault((fingerprint, name), known_identity)


def guard_path_of(file: Path) -> Path:
    """Return the path of a key file's guard, beside the file itself if a link leads to it."""
    return Path(f"{file.resolve()}.witness")


def _identity_in(path: Path, fingerprint: str, name: str, identity: str) -> str:
    entry = {
        "key": fingerprint,
        "state": _NO_STATE,
        "identity": identity,
        "stream": name,
        "step": 0,  # steps of streams begin at 1, so no stream is mistaken for it
        "digest": identity,
    }
    before: list[str] = []

    def agrees(old: dict[str, Any]) -> bool:
        before.append(old["digest"])
        return bool(old["digest"] == identity)

    try:
        GuardFile(path).note(entry, agrees, make=True)
    except OSError as error:
        if os.path.lexists(path):
            raise StateUnavailableError(
                f"the rollback guard {path} of a key, which records the use of the key, cannot be "
                f"written ({error.strerror}), so the use of {name!r} would not be recorded: make "
                "it writable (its mode, the space left), or use another key"
            ) from None
    except ValueError:
        raise StateError(
            f"the rollback guard {path} of a key, which records the use of the key, cannot be read "
            "(it was altered, or written only in part), so nobody can tell which noise the key has "
            "given: restore it from a copy, or use another key"
        ) from None
    return before[0] if before else identity


@dataclass(frozen=True)
class GuardFile:
    """A rollback guard in a file."""

    path: Path

    def begin(self, entries: Entries) -> None:
        """Make the file with its folder, and merge ``entries`` into it.

        Raises:
            OSError: the file cannot be made, read or written.
            ValueError: the content is no list of entries.
        """
        folder = self.path.parent
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(folder.parent)
        with _alone_with(self.path, merge_entries(entries, [])) as (descriptor, before):
            _write(descriptor, before, _text(merge_entries(entries, parse_entries(before))))

    def move_to(self, new: GuardFile) -> None:
        """Merge the entries into another file, and remove this one.

        Whoever waits for its lock meanwhile finds it gone.
        """
        if self.path.samefile(new.path):  # by another name of its folder
            return
        with _alone_with(self.path) as (_, before):
            new.begin([entry for entry in parse_entries(before) if entry["stream"]])
            self.path.unlink()
            sync_folder(self.path.parent)

    def note(
        self,
        entry: dict[str, object],
        agrees: Callable[[dict[str, Any]], bool],
        *,
        make: bool = False,
    ) -> int | None:
        """Write an entry, or return the step of a known entry that it contradicts.

        Args:
            entry: it replaces known entries of its key and stream that have no larger step.
            agrees: whether it agrees with a known entry of its key and stream.
            make: whether to make a missing file. It may be on a disk that is not mounted.

        Raises:
            OSError: the place cannot be read or written.
            ValueError: the content is no list of entries.
        """
        with _alone_with(self.path, [entry] if make else None) as (descriptor, before):
            same, others, latest = _split_by_stream(entry, parse_entries(before))
            other = next((int(old["step"]) for old in same if not agrees(old)), None)
            further = any(old["step"] > entry["step"] for old in same)  # another writer's
            if other is None and not further:
                _write(descriptor, before, _text([*others, latest]))
        return other

    def check_writable_for(self, entry: dict[str, object]) -> None:
        """Check before a release that its entry can be written afterwards: space, mode and lock.

        The entry itself is not written. If its key and stream have no entry yet, one of step 0 is
        written: nothing is released. A killed process may leave it.
        """
        with _alone_with(self.path) as (descriptor, before):
            same, others, latest = _split_by_stream(entry, parse_entries(before))
            if not same:  # record the stream before its first release
                entries = [*others, {**entry, "step": 0, "digest": ""}]
                _write(descriptor, before, _text(entries))
                before = _text(entries)
            room = b" " * (len(_text([*others, latest])) - len(before))
            # Rewrite the same bytes where they fit: an error shows that the file cannot be written.
            data, offset = (room, len(before)) if room else (before[-1:], len(before) - 1)
            if os.pwrite(descriptor, data, offset) != len(data):
                os.ftruncate(descriptor, len(before))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def merge_entries(entries: Entries, recorded: Entries) -> Entries:
    """Merge new entries into known ones: of each key and stream the largest step stays."""
    for entry in entries:
        same, others, latest = _split_by_stream(entry, recorded)
        if not any(old["step"] > entry["step"] for old in same):
            recorded = [*others, latest]
    return recorded


def _split_by_stream(
    entry: dict[str, object], recorded: Entries
) -> tuple[Entries, Entries, dict[str, object]]:
    """Split ``recorded`` into entries with the key and stream of ``entry``, and all others.

    The third result is the entry with what the first have recorded: digests of earlier releases,
    and how often the stream forgot.
    """
    same = [
        old for old in recorded if all(old[field] == entry[field] for field in ("key", "stream"))
    ]
    others = [old for old in recorded if old not in same]
    if "past" not in entry:
        return same, others, entry
    past = {step: digest for old in same for step, digest in old["past"]}
    past |= {old["step"]: old["digest"] for old in same if 0 < old["step"] < entry["step"]}
    latest = {
        **entry,
        "forgotten": max(old["forgotten"] for old in [entry, *same]),
        "past": [[*pair] for pair in sorted(past.items())][-REMEMBERED_RELEASES:],
    }
    return same, others, latest


def _write(descriptor: int, before: bytes, text: bytes) -> None:
    """Replace a file's text in one write: a killed process leaves the old or the new text."""
    if os.pwrite(descriptor, text, 0) != len(text):
        os.pwrite(descriptor, before, 0)
        os.ftruncate(descriptor, len(before))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.ftruncate(descriptor, len(text))
    os.fsync(descriptor)  # on disk before anybody sees the release


@contextmanager
def _alone_with(path: Path, first: Entries | None = None) -> Iterator[tuple[int, bytes]]:
    """Open and lock a rollback guard file for one writer; yield its descriptor and content. A
    missing file is made with the entries ``first``.

    Raises:
        FileNotFoundError: there is none, or another process removed it before the lock.
    """
    if first is not None and not path.exists():
        _begin(path, _text(first))
    descriptor = open_plain(path, os.O_RDWR)
    with os.fdopen(descriptor, "rb+", buffering=0) as file:
        _lock(descriptor)
        if not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        yield descriptor, file.read()


def _begin(path: Path, text: bytes) -> None:
    """Create a rollback guard file with its first text, unless another process has created it."""
    waiting = path.with_name(f"{path.name}.new")
    descriptor = open_plain(waiting, os.O_RDWR | os.O_CREAT)
    try:
        _lock(descriptor)
        there = None
        with suppress(FileNotFoundError):
            there = waiting.stat()
        if there is None or not os.path.samestat(there, os.fstat(descriptor)):
            return  # another process was faster, and may have made this file its rollback guard
        try:
            if not path.exists():  # or the other process was killed before it removed the name
                _write(descriptor, b"", text)
                give_name(waiting, path)
        finally:
            waiting.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _text(entries: Entries) -> bytes:
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    return f"[{lines}]\n".encode()


@lru_cache(maxsize=4)  # a release reads the same text three times
def parse_entries(data: bytes) -> Entries:
    """Parse the entries of a rollback guard, JSON values; ignore what follows their closing
    bracket.

    Raises:
        ValueError: there are no entries.
    """
    try:
        entries, _ = json.JSONDecoder().raw_decode(data.decode())
    except RecursionError:
        entries = None  # it nests lists too deep to hold entries
    if not (isinstance(entries, list) and entries and all(map(_is_entry, entries))):
        raise ValueError("no entries of releases")
    return entries


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
        return False
    past = entry.get("past", [])
    return (
        all(isinstance(entry.get(word), str) for word in ("key", "state", "stream", "digest"))
        and isinstance(past, list)
        and all(isinstance(pair, list) and [*map(type, pair)] == [int, str] for pair in past)
        and isinstance(entry.get("forgotten", 0), int)
        and ("past" in entry) is ("forgotten" in entry)
    )


def _lock(descriptor: int) -> None:
    """Lock an open file until it is closed, so that one process at a time writes it."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)

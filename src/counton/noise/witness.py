"""What is remembered beside a key: which noise it has given, so that it gives none twice.

A key's witness is a file beside it, ``KEY.witness``, of entries in JSON with nothing secret in
them. Streams of a state write how far they are and a digest of their last release; whatever else
draws noise under a key writes the identity that it drew for itself, as training runs do. Within a
process the same is remembered of keys without a file.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from typing_extensions import override

from counton.base.errors import StateError, StateUnavailable
from counton.base.outside_input import open_plain, read_plain
from counton.noise.key import InsecureSeededKey, Key, give_name, sync_folder

#: By fingerprint of the key and what was named: the identity under which it has given noise.
_known: dict[tuple[str, str], str] = {}
_knowing = threading.Lock()
#: What the entries of identities say where those of streams name their state.
_NO_STATE = "no state"
#: How many writers of a stream are remembered: all that may have been interrupted lately.
_WRITERS = 16
#: How many releases before the last are remembered: of old copies that still show what they have.
PAST = 16
Entries = list[dict[str, Any]]


def drawn_identity() -> str:
    """What tells one use of a key from every other: 128 random bits, in hexadecimal digits.

    It is public.

    >>> drawn_identity() == drawn_identity()
    False
    """
    return secrets.token_hex(16)


def identity_of(key: Key, name: str, identity: str) -> str:
    """Remember under which identity a key gives noise by this name, or say which was before.

    It is remembered in this process, and in the witness of a key that has a file. A witness that
    stands there has to be written. Where there is none and none can be made, as in a folder that is
    read only, nothing is remembered: two identities have two noises all the same, since each is
    part of the addresses under it.

    Args:
        key: the secret; of one that somebody chose nothing is remembered.
        name: of what draws noise.
        identity: which `drawn_identity` gave it.

    Returns:
        The identity that was remembered first: another one where the name has been used.

    Raises:
        StateError: the witness is there and cannot be read or written.

    >>> key = Key.generate()
    >>> identity_of(key, "run", "1" * 32) == identity_of(key, "run", "2" * 32) == "1" * 32
    True
    """
    if isinstance(key, InsecureSeededKey):
        return identity
    fingerprint = key.fingerprint
    with _knowing:
        known = _known.get((fingerprint, name), identity)
        if key.file is not None:
            known = _identity_in(witness_of(key.file), fingerprint, name, known)
        return _known.setdefault((fingerprint, name), known)


def witness_of(file: Path) -> Path:
    """Where the witness of a key file is.

    It lies beside the file itself, whatever symbolic link it was named by.

    >>> witness_of(Path("visits.key")).name
    'visits.key.witness'
    """
    return Path(f"{file.resolve()}.witness")


def _identity_in(path: Path, fingerprint: str, name: str, identity: str) -> str:
    entry = {
        "key": fingerprint,
        "state": _NO_STATE,
        "identity": identity,
        "stream": name,
        "step": 0,  # streams of states, which begin at 1, are never taken for it
        "digest": identity,
    }
    before: list[str] = []

    def agrees(old: dict[str, Any]) -> bool:
        before.append(old["digest"])
        return bool(old["digest"] == identity)

    try:
        WitnessFile(path).note(entry, agrees)
    except OSError as error:
        if os.path.lexists(path):
            raise StateUnavailable(
                f"the witness {path} of a key cannot be written ({error.strerror}), so the use of "
                f"{name!r} would be forgotten: let it be written (its mode, the space left), or "
                f"take another key"
            ) from None
    except ValueError:
        raise StateError(
            f"the witness {path} of a key cannot be read (it was altered, or written in part), so "
            f"nobody can tell which noise the key has given: bring it back from a copy, or take "
            f"another key"
        ) from None
    return before[0] if before else identity


class WitnessPlace(ABC):
    """Where entries of a witness are remembered."""

    @property
    def stands(self) -> bool:
        """Whether a release that cannot be noted here may not be shown."""
        return True

    def mark(self) -> object:
        """Changes when what it remembers does; and each time where nothing tells."""
        return object()

    @abstractmethod
    def read(self) -> Entries:
        """Its entries; none where there is nothing yet.

        Raises:
            ValueError: it holds something else than entries.
        """

    @abstractmethod
    def _change(self, change: Callable[[Entries], Entries | None]) -> None:
        """Replace its entries, alone with them; None: they stay as they are."""

    def note(self, entry: dict[str, Any], agrees: Callable[[dict[str, Any]], bool]) -> int | None:
        """Write an entry; or the step of another entry with which it does not agree.

        Args:
            entry: replaces those of the same key and stream, unless they are further.
            agrees: whether the new entry may stand beside a known one of its key and stream.

        Raises:
            OSError: it cannot be read or written.
            ValueError: it holds something else than entries.
        """
        other: int | None = None

        def change(known: Entries) -> Entries | None:
            nonlocal other
            same, others = _of(entry, known)
            other = next((int(old["step"]) for old in same if not agrees(old)), None)
            if other is not None or any(old["step"] > entry["step"] for old in same):
                return None  # or another writer has gone on from here
            return [*others, _with_writers(entry, same)]

        self._change(change)
        return other

    def join(self, entry: dict[str, Any]) -> None:
        """Remember the writers of an entry, whatever its step, before they write.

        Args:
            entry: as for `note`. Where its key and stream have one, that gets the writers, and
                stays as it is otherwise.
        """

        def change(known: Entries) -> Entries:
            same, others = _of(entry, known)
            own = [_with_writers({**old, "writers": entry["writers"]}, same) for old in same]
            return [*others, *(own or [{**entry, "step": 0, "digest": ""}])]

        self._change(change)

    @abstractmethod
    def reserve(self, entry: dict[str, Any]) -> None:
        """Make sure that an entry can be written soon.

        Args:
            entry: as for `note`. One that its key and stream have not yet stands there as of step
                0, which says that nothing is released.
        """


class WitnessFile(WitnessPlace):
    """A file that remembers: beside a key, beside a state, or in a folder of its own.

    Args:
        second: whether it is in a folder of its own, where `begin` alone makes it: a folder that is
            not there may be on a disk that is not mounted.
    """

    def __init__(self, path: Path, *, second: bool = False) -> None:
        self.path, self._second = path, second

    def __str__(self) -> str:
        return str(self.path)

    @property
    @override
    def stands(self) -> bool:
        return self._second or os.path.lexists(self.path)

    @override
    def mark(self) -> object:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    @override
    def read(self) -> Entries:
        try:
            return parse_entries(read_plain(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def begin(self, entries: Entries) -> None:
        """Make it with its folder, and remember entries there too, unless they are known further.

        Raises:
            OSError: it cannot be made, read or written.
            ValueError: it holds something else than entries.
        """
        folder = self.path.parent
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(folder.parent)
        WitnessFile(self.path)._change(lambda known: merge_entries(entries, known))

    @override
    def _change(self, change: Callable[[Entries], Entries | None]) -> None:
        path = self.path
        made = not self._second and not path.exists()
        if made and (first := change([])) and _begin(path, _text(first)):
            return
        with _alone_with(path) as (descriptor, before):
            entries = change(parse_entries(before))
            if entries is not None:
                _write(descriptor, before, _text(entries))

    @override
    def reserve(self, entry: dict[str, Any]) -> None:
        path = self.path
        if not self._second and not path.exists():
            # A text as long as the one to come; what stands after the entries is not read.
            nothing = _text([{**entry, "step": 0, "digest": ""}])
            if _begin(path, nothing.ljust(len(_text([entry])))):
                return
        with _alone_with(path) as (descriptor, before):
            same, others = _of(entry, parse_entries(before))
            if not same:  # it is to be known that the stream was here, before it has released
                known = [*others, {**entry, "step": 0, "digest": ""}]
                _write(descriptor, before, _text(known))
                before = _text(known)
            room = b" " * (len(_text([*others, _with_writers(entry, same)])) - len(before))
            # Where there is room, bytes as they are: they tell whether the file may be written.
            data, place = (room, len(before)) if room else (before[-1:], len(before) - 1)
            if os.pwrite(descriptor, data, place) != len(data):
                os.ftruncate(descriptor, len(before))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def merge_entries(entries: Entries, known: Entries) -> Entries:
    """What is known, with entries that are as far or further."""
    for entry in entries:
        same, others = _of(entry, known)
        if not any(old["step"] > entry["step"] for old in same):
            known = [*others, _with_writers(entry, same)]
    return known


def _of(entry: dict[str, Any], known: Entries) -> tuple[Entries, Entries]:
    """Entries of the same key and stream, and the others."""
    same = [old for old in known if all(old[of] == entry[of] for of in ("key", "stream"))]
    return same, [old for old in known if old not in same]


def _with_writers(entry: dict[str, Any], same: Entries) -> dict[str, Any]:
    """An entry with the writers, the last sighting and the past of older ones."""
    if "writers" not in entry:
        return entry
    past = {step: said for old in same for step, said in old["past"]}
    past |= {old["step"]: old["digest"] for old in same if 0 < old["step"] < entry["step"]}
    own = [writer for old in same for writer in old.get("writers", ())]
    own = [writer for writer in own if writer not in entry["writers"]]
    seen = entry.get("seen") or next((old["seen"] for old in same if old.get("seen")), None)
    return {
        **entry,
        "forgotten": max(old["forgotten"] for old in [entry, *same]),
        "writers": [*own, *entry["writers"]][-_WRITERS:],
        "seen": seen,
        "past": [[*one] for one in sorted(past.items())][-PAST:],
    }


def _write(descriptor: int, before: bytes, text: bytes) -> None:
    """In one write, so that a process which is killed leaves the old or the new text."""
    if os.pwrite(descriptor, text, 0) != len(text):
        os.pwrite(descriptor, before, 0)
        os.ftruncate(descriptor, len(before))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.ftruncate(descriptor, len(text))
    os.fsync(descriptor)  # before anybody is shown what it tells


@contextmanager
def _alone_with(path: Path) -> Iterator[tuple[int, bytes]]:
    """A witness that one process at a time writes: its descriptor, and what stands in it."""
    descriptor = open_plain(path, os.O_RDWR)
    with os.fdopen(descriptor, "rb+", buffering=0) as file:
        _lock(descriptor)
        yield descriptor, file.read()


def _begin(path: Path, text: bytes) -> bool:
    """Make a witness with its first entry in it; whether no other process had made it."""
    waiting = path.with_name(f"{path.name}.new")
    descriptor = open_plain(waiting, os.O_RDWR | os.O_CREAT)
    try:
        _lock(descriptor)
        if not _is_at(waiting, descriptor):
            return False  # another process was faster, and this file may be its witness by now
        try:
            if path.exists():
                return False  # so it is, and that process was killed before the name was gone
            _write(descriptor, b"", text)
            return give_name(waiting, path)
        finally:
            waiting.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether a path leads to an open file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False


def _text(entries: Entries) -> bytes:
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    return f"[{lines}]\n".encode()


def parse_entries(data: bytes) -> Entries:
    """Entries of a witness. After them may stand what is left of a longer text.

    Raises:
        ValueError: they are none.
    """
    try:
        found, _ = json.JSONDecoder().raw_decode(data.decode())
    except RecursionError:
        raise ValueError("no entries, but lists within lists") from None
    if not (isinstance(found, list) and found and all(map(_is_entry, found))):
        raise ValueError("no entries of releases")
    return found


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("step"), int):
        return False
    past, seen = entry.get("past", []), entry.get("seen")
    return (
        all(isinstance(entry.get(word), str) for word in ("key", "state", "stream", "digest"))
        and isinstance(past, list)
        and all(_is_of(one, int, str) for one in past)
        and isinstance(entry.get("forgotten", 0), int)
        and _are(int, entry.get("writers", []))
        and _are(str, entry.get("onward", []))
        and (seen is None or _is_of(seen, int, int))
        and ("past" in entry) is ("writers" in entry) is ("forgotten" in entry)
    )


def _are(kind: type, values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(one, kind) for one in values)


def _is_of(values: Any, *kinds: type) -> bool:
    return isinstance(values, list) and [*map(type, values)] == [*kinds]


def _lock(descriptor: int) -> None:
    """Let one process at a time write; it ends with the process."""
    if os.name == "posix":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)

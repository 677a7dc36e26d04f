"""Where the key of a state is kept, and what is remembered beside it.

A key stands in a file, ``STATE.key`` beside a SQLite state unless another is named, in an
environment variable (``env:NAME``), or is what a command prints (``command:...``, a vault's
client). One that a new state finds prepared may serve other states too: then the state's noise
comes from a key of its own, derived with a public salt (`counton.Key.with_salt`).

Beside the key stands its witness: how far each stream was, and a digest of its last release. A
state that was restored from an old copy would give the noise of known releases to other data; the
witness notices.
"""

from __future__ import annotations

import hmac
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput, StateError, WrongKey, field
from counton.noise import Key
from counton.noise.key import sync_folder
from counton.noise.witness import PAST, join_in, note_in, parse_entries, reserve_in, witness_of
from counton.store.database import Database, database_url, label_of, state_file

#: A key, or where it is kept: a file, ``env:NAME``, ``command:...``, or None for ``STATE.key``.
Kept = Key | str | os.PathLike[str] | None
State = str | os.PathLike[str]

_ENVIRONMENT, _COMMAND = "env:", "command:"
_COMMAND_SECONDS = 60
_NOTHING_RELEASED = (
    "nothing was released; let it be written (its mode, its folder, the space left), or keep the "
    "key where its folder may be written"
)
#: Numbers of writers are at least so far apart; between them are changes of what is public.
AMENDMENTS = 1000


def key_path(state: State) -> Path:
    """Where the key of a SQLite state is kept.

    Raises:
        WrongKey: the state is on a server, which is no place for its key.

    >>> key_path("visits.db").name
    'visits.db.key'
    """
    return beside(state_file(state), label_of(database_url(state)))


def state_files(state: State, key: Kept = None) -> list[Path]:
    """Files that keep a state and its key, whether they exist or are still to be made.

    Args:
        state: path of a SQLite file, or a database URL.
        key: a `Key`, which is in no file, or where it is kept; None: ``STATE.key``.

    >>> [path.name for path in state_files("visits.db")][3:]
    ['visits.db-journal', 'visits.db.key', 'visits.db.key.witness']
    """
    file, path = state_file(state), file_of(key)
    parts = ("", "-wal", "-shm", "-journal", ".key", ".key.witness")
    kept = [] if file is None else [Path(f"{file}{part}") for part in parts]
    return kept if path is None else [*kept, path, witness_of(path)]


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


def key_for(database: Database, fingerprint: str, salt: str | None, key: Kept) -> Key:
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
        path = file_of(key)
        found = elsewhere(os.fspath(key)) if path is None else _load(path, fingerprint)
    if salt is not None and found.fingerprint != fingerprint:
        return found.with_salt(salt)
    return found


def file_of(key: Kept) -> Path | None:
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


def elsewhere(text: str) -> Key:
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
    kept = waiting(path, fingerprint)
    if kept.exists():
        # The process that made the state was killed before it could give the key its name, or
        # another one had given it to its own key.
        publish(kept, path)
        if kept.exists():
            return Key.load(kept)
    return Key.load(path)


def publish(waiting: Path, path: Path) -> None:
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


def waiting(path: Path, fingerprint: str) -> Path:
    """Where a key waits until its state exists."""
    return path.with_name(f"{path.name}.new-{fingerprint}")


def witness_beside(state: State | Database, key: Kept) -> Witness:
    """The witness of a state's releases: beside the key's file, and where ``STATE.key`` would be.

    A key that is named through a symbolic link has its witness beside the file itself: by whatever
    name it is used, it remembers the same. A state on a server whose key is in no file has none.
    """
    path = key.file if isinstance(key, Key) else file_of(key)
    if isinstance(state, Database):
        file, label = state.path, state.label
    else:
        file = state_file(state)
        label = str(file) if file else label_of(database_url(state))
    paths = []
    if path is not None:
        paths.append(witness_of(path))
    if file is not None:
        paths.append(Path(f"{file}.key.witness"))
    once = {place.resolve(): place for place in reversed(paths)}
    return Witness(list(once)[::-1], label, state if isinstance(state, Database) else None)


def without_witness(state: State | None, *keys: Kept) -> str | None:
    """Why no old copy of a state would be noticed, in words; None where one would be.

    Args:
        state: path of a SQLite file, or a database URL; None: of what is released without one.
        keys: where the keys are kept.

    >>> without_witness("visits.db", "env:VISITS_KEY") is None
    True
    """
    if state is None or any(key is None or witness_beside(state, key).paths for key in keys):
        return None
    return (
        "no witness: the state is on a server and no key file is named, so an old copy of it would "
        "be taken for the newest; keep the key in a file"
    )


class Witness:
    """What is remembered beside a key: of each stream the last step, and a digest of its release.

    It is written after each commit and holds nothing secret. Where it stands and cannot be read or
    written, nothing is released; nor where none of its places can be written.

    Where a key has a file of its own, the same is remembered beside the key and beside the state,
    so that streams of one state under several keys know of each other.

    Args:
        paths: of its files; none where there are none.
        label: of the state.
        database: the state, where it is open.
    """

    def __init__(self, paths: Sequence[Path], label: str, database: Database | None = None) -> None:
        self.paths, self._label, self._database = tuple(paths), label, database
        self._read: tuple[list[tuple[int, ...] | None], list[dict[str, Any]]] | None = None
        self._held: list[dict[str, Any]] | None = None

    @property
    def where(self) -> str:
        """Its first file, for messages."""
        return str(self.paths[0]) if self.paths else "no file"

    def entries(self) -> list[dict[str, Any]]:
        """What it remembers, the latest steps first, and where; nothing where there is none.

        Raises:
            StateError: it is there and cannot be read.
        """
        if self._held is not None:
            return self._held
        marks = [_mark(path) for path in self.paths]
        if self._read is None or self._read[0] != marks:
            found = [
                {**entry, "where": str(path)}
                for path in self.paths
                for entry in self._entries_of(path)
            ]
            self._read = marks, sorted(found, key=lambda entry: -entry["step"])
        return self._read[1]

    def snapshot(self) -> Witness:
        """What it remembers now, for whoever reads the state afterwards without locking it.

        What stands in it was committed before; so a state that is read later knows all of it.
        """
        now = Witness(self.paths, self._label, self._database)
        with suppress(StateError):  # said of each release
            now._held = self.entries()
        return now

    def _entries_of(self, path: Path) -> list[dict[str, Any]]:
        try:
            return parse_entries(path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it was altered, or written in part"
            raise StateError(
                f"the witness {path} of state {self._label} cannot be read ({why}), so nobody "
                f"can tell whether the state was restored from an old copy: bring the witness back "
                f"from a copy; or, if you know that the state is the newest one, move the witness "
                f"away, and the next release writes another"
            ) from None

    def forgotten_entries(
        self, known: Mapping[str, Collection[str]], identity: str | None
    ) -> list[dict[str, Any]]:
        """Entries of releases from this state, or under its keys, which the state does not have.

        Args:
            known: names of the state's streams, by fingerprint of the key.
            identity: of the state; None where there is none yet.

        Raises:
            StateError: it cannot be read.
        """
        return [
            entry
            for entry in self.entries()
            if entry["step"]
            and entry["stream"] not in known.get(entry["key"], ())
            and (
                entry["key"] in known
                or entry["state"] == self._label
                or (identity is not None and entry.get("identity") == identity)
            )
        ]

    def refuse_forgotten(self, known: Mapping[str, Collection[str]], identity: str | None) -> None:
        """Refuse to release anything new from a state that has forgotten releases.

        Args:
            known, identity: as of `forgotten_entries`.

        Raises:
            StateError: it has, or the witness cannot be read.
        """
        for entry in self.forgotten_entries(known, identity):
            name, steps = entry["stream"], entry["step"]
            what = "1 step" if steps == 1 else f"{steps:,} steps"
            raise StateError(
                f"state {self._label} has no release {name!r}, but {entry['where']} says that "
                f"it had released {what} of it, so the state was lost or restored from an old "
                f"copy; what is forgotten stays spent, and the limit no longer counts it: bring "
                f"the newest copy of the state back; if it is lost for good, begin another "
                f"{field('state')}, under a limit less what was spent"
            )

    def check(
        self, fingerprint: str, name: str, step: int, digest: Callable[[int], str | None]
    ) -> None:
        """Refuse a stream that has forgotten releases.

        Args:
            fingerprint: of the stream's key.
            name: of the stream.
            step: the last one that the state knows.
            digest: of one of the releases that the state knows; None where it has no such one.

        Raises:
            StateError: the witness knows later ones, or another one at the same step; or it cannot
                be read.
        """
        for entry in self._of(fingerprint, name):
            if entry["step"] > step:
                raise StateError(
                    f"stream {name!r} is at step {step:,} in state {self._label}, but "
                    f"{entry['where']} "
                    f"says that step {entry['step']:,} is released, so the state was restored from "
                    f"an old copy; the same noise on other data would give their difference away: "
                    f"bring the newest copy back, or, if it is lost, end this stream and begin "
                    f"another one that continues it (a statistic cannot be ended: begin it anew "
                    f"with another {field('name')})"
                )
            if entry["step"] and digest(entry["step"]) != entry["digest"]:
                raise self._other_release(name, entry["step"], entry["where"])

    def _of(self, fingerprint: str, name: str) -> list[dict[str, Any]]:
        """Entries of a stream, the latest steps first."""
        return [one for one in self.entries() if (one["key"], one["stream"]) == (fingerprint, name)]

    def check_shown(self, fingerprint: str, name: str, step: int, digest: str | None) -> None:
        """Refuse to show the last release of a state that may be an old copy, if it is another one.

        Args:
            fingerprint: of the stream's key.
            name: of the stream.
            step: the last one that the state knows.
            digest: of its release.

        Raises:
            StateError: another release of this step was noted, or one of a later step, and this
                one was not; or the witness cannot be read.
        """
        of = self._of(fingerprint, name)
        known = False
        for entry in of:
            past = {**dict(map(tuple, entry["past"])), entry["step"]: entry["digest"]}
            if past.get(step, digest) != digest:
                raise self._other_release(name, step, entry["where"])
            known |= step in past or (len(past) > PAST and step < min(past))
        if of and of[0]["step"] > step and not known:
            raise self._other_release(name, step, of[0]["where"])

    def is_later(self, fingerprint: str, name: str, step: int) -> bool:
        """Whether it knows later steps of a stream than a state does."""
        return any(entry["step"] > step for entry in self._of(fingerprint, name))

    def knows(self, fingerprint: str, name: str) -> bool:
        """Whether it has heard of a stream."""
        return bool(self._of(fingerprint, name))

    def _other_release(self, name: str, step: int, where: str) -> StateError:
        return StateError(
            f"stream {name!r} in state {self._label} has another release at step {step:,} than "
            f"{where} knows, so two copies of the state were continued; the same noise on two "
            f"data sets gives their difference away: go on with the copy that was used here, and "
            f"stop the other"
        )

    def vouches(self, fingerprint: str, name: str, step: int, writer: int) -> bool:
        """Whether it can tell that a state on a server is the newest: nobody wrote unseen.

        Args:
            fingerprint: of the key.
            name: of the stream.
            step: the last one that the state knows.
            writer: the last one that opened the stream, as the state knows.

        Returns:
            True where that writer's witness is this one, or where it has seen the stream exactly
            as it is; and before the first step of a stream that it does not know. False where
            somebody else wrote, who may have gone on further than the state.

        Raises:
            StateError: it cannot be read.
        """
        of = self._of(fingerprint, name)
        for entry in of:
            seen = entry["seen"] or [None, None]
            if entry["step"] == of[0]["step"] and (
                _wrote(entry["writers"], writer) or (seen[1] == step and _wrote(seen[:1], writer))
            ):
                return True
        return not of and (not self.paths or not step)

    def refuse_unseen(self, fingerprint: str, name: str, step: int, writer: int) -> None:
        """Refuse to write a stream which somebody else wrote, unseen.

        Args:
            fingerprint, name, step, writer: as of `vouches`.

        Raises:
            StateError: it does not vouch for the stream; or it cannot be read.
        """
        why = self.unseen(fingerprint, name, step, writer)
        if why is not None:
            raise StateError(why)

    def unseen(self, fingerprint: str, name: str, step: int, writer: int) -> str | None:
        """Why it does not vouch for a stream, in words; None where it does, or knows later steps.

        Args:
            fingerprint, name, step, writer: as of `vouches`.

        Raises:
            StateError: it cannot be read.
        """
        later = self.is_later(fingerprint, name, step)
        if later or self.vouches(fingerprint, name, step, writer):
            return None
        return (
            f"stream {name!r} is at step {step:,} in state {self._label}, and {self.where} has "
            f"not seen who wrote it last: another server went on while this one was away, and "
            f"nobody here can tell whether the state was restored from an old copy since; the "
            f"same noise on other data would give their difference away: if you know that it "
            f"is the newest, say so ({field('adopt')}); else bring the "
            f"newest copy back"
        )

    def join(self, fingerprint: str, name: str, writer: int) -> None:
        """Remember who is to write a stream, before it does.

        Args:
            fingerprint, name, writer: as of `vouches`.

        Raises:
            StateError: it cannot be written.
        """
        entry = self._entry(fingerprint, name, 0, "", writer)
        noted = False
        for path in self.paths:
            try:
                join_in(path, entry)
            except (OSError, ValueError) as error:
                if self._is_needed(path, noted):
                    raise self._unwritten(path, error, _NOTHING_RELEASED) from None
                continue
            noted = True

    def note(
        self,
        fingerprint: str,
        name: str,
        step: int,
        digest: str,
        released: Callable[[int], str | None] | None = None,
        *,
        writer: int | None = None,
        seen: int | None = None,
    ) -> None:
        """Remember a release that is committed, before anybody is shown it.

        Args:
            fingerprint: of the key.
            name: of the stream.
            step: the last one released.
            digest: of its release.
            released: digest of what the state has released at a step by now; None where it has no
                such step.
            writer: who released it, where that was this process.
            seen: who did, where that was another one, and it was seen to do so.

        Raises:
            StateError: the witness knows another release of a step, so that another copy of the
                state is in use; it stays as it is.
        """
        entry = self._entry(fingerprint, name, step, digest, writer)
        entry["seen"] = None if seen is None else [seen, step]

        def agrees(old: dict[str, Any]) -> bool:
            if old["step"] == step:
                return bool(old["digest"] == digest)
            return released is None or not old["step"] or released(old["step"]) == old["digest"]

        noted = False
        for path in self.paths:
            try:
                other = note_in(path, entry, agrees)
            except (OSError, ValueError) as error:
                if self._is_needed(path, noted):
                    raise self._unwritten(
                        path,
                        error,
                        f"what is released of {name!r} is kept in the state, and is not shown yet; "
                        f"make the witness writable, then run the same again",
                    ) from None
                continue
            if other is not None:
                raise self._other_release(name, other, str(path))
            noted = True

    def reserve(self, fingerprint: str, name: str, step: int, writer: int | None = None) -> None:
        """Make sure that a release can be noted, before it is committed.

        Args:
            fingerprint: of the key.
            name: of the stream.
            step: the last one to be released.
            writer: who is to release it.

        Raises:
            StateError: the witness cannot be written.
        """
        entry = self._entry(fingerprint, name, step, "0" * 64, writer)
        noted = False
        for path in self.paths:
            try:
                reserve_in(path, entry)
            except (OSError, ValueError) as error:
                if self._is_needed(path, noted):
                    raise self._unwritten(path, error, _NOTHING_RELEASED) from None
                continue
            noted = True

    def is_behind(self, fingerprint: str, name: str, step: int) -> bool:
        """Whether one of its files, written or still to be made, does not know a step.

        Args:
            fingerprint: of the key.
            name: of the stream.
            step: the last one released.

        Raises:
            StateError: one is there and cannot be read.
        """
        of = (fingerprint, name, step)
        return any(
            all((one["key"], one["stream"], one["step"]) != of for one in self._entries_of(path))
            for path in self.paths
        )

    def lacks(
        self, fingerprint: str, name: str, step: int, writer: int | None = None
    ) -> str | None:
        """Why it would not notice an old copy of the state, in words; None where it would.

        Args:
            fingerprint: of the key.
            name: of the stream.
            step: the last one that the state knows.
            writer: of a state on a server, as of `vouches`.
        """
        if not (self.paths and step):
            return None
        for path in self.paths:
            try:
                os.close(os.open(path, os.O_RDWR))
            except FileNotFoundError:
                continue
            except OSError as error:
                return f"the witness {path} cannot be written ({error.strerror}): let it be written"
        for wait in (0, 0.05, 0.2, 1):  # a writer notes what it has just committed
            time.sleep(wait)
            known = [e["step"] for e in Witness(self.paths, self._label)._of(fingerprint, name)]
            if known and max(known) >= step:
                break
        now = Witness(self.paths, self._label)
        unseen = None if writer is None else now.unseen(fingerprint, name, step, writer)
        if unseen is not None or (known and max(known) >= step):
            return unseen
        there = any(path.exists() for path in self.paths)
        says = f"knows it up to step {max(known, default=0):,}" if there else "is missing"
        return (
            f"the state is at step {step:,} and its witness {self.where} {says}, so an old copy "
            f"would be taken for the newest: bring the witness back, or run the job again, which "
            f"notes what the state has"
        )

    def _entry(
        self, fingerprint: str, name: str, step: int, digest: str, writer: int | None = None
    ) -> dict[str, Any]:
        return {
            "key": fingerprint,
            "state": self._label,
            "identity": None if self._database is None else self._database.identity,
            "stream": name,
            "step": step,
            "digest": digest,
            "writers": [] if writer is None else [writer],
            "seen": None,
            "past": [],
        }

    def _is_needed(self, path: Path, noted: bool) -> bool:
        """Whether a file has to be written: where it stands, or nobody else remembers."""
        return (noted is False and path == self.paths[-1]) or os.path.lexists(path)

    def _unwritten(self, path: Path, error: Exception, what: str) -> StateError:
        why = getattr(error, "strerror", None) or "it was altered, or written in part"
        return StateError(
            f"the witness {path} of state {self._label} cannot be written ({why}), and without it "
            f"an old copy of the state would be taken for the newest: {what}"
        )


def _wrote(known: Sequence[int], writer: int) -> bool:
    """Whether a stream's last writer is known, whatever was amended since: see `AMENDMENTS`."""
    return any(0 <= writer - one < AMENDMENTS for one in known)


def _mark(path: Path) -> tuple[int, ...] | None:
    """What tells whether a file was changed since it was read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def witness_key(key: Key, name: str) -> bytes:
    """Under which the releases of a stream are digested for its witness."""
    return key.derive(b"witness", name.encode())


def release_digest(step: int, value: NDArray[Any], subkey: bytes) -> str:
    """Keyed digest of what was released at a step (HMAC-SHA256), of all cells.

    Some cells are never shown, as those of groups that nobody declared: a plain hash could be
    inverted by trying, and would tell how many there are.

    >>> one, other = (release_digest(3, np.array([12]), bytes([key]) * 32) for key in (1, 2))
    >>> len(one), one == other
    (64, False)
    """
    data = np.ascontiguousarray(value)
    plain = data.astype(data.dtype.newbyteorder("<"), copy=False)
    digest = hmac.new(subkey, step.to_bytes(8, "little"), "sha256")
    digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()

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
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from counton.base.errors import (
    CountonError,
    InvalidInput,
    OldCopy,
    StateError,
    StateUnavailable,
    StreamConflict,
    WrongKey,
    field,
)
from counton.base.outside_input import open_plain
from counton.noise import Key
from counton.noise.key import give_name, is_same_file
from counton.noise.witness import PAST, WitnessFile, WitnessPlace, witness_of
from counton.state import schema
from counton.state.database import Database, database_url, label_of, state_file
from counton.state.second_witness import address_of, home_of, why_not_written
from counton.state.sqlite_file import NoState

#: A key, or where it is kept: a file, ``env:NAME``, ``command:...``, or None for ``STATE.key``.
Kept = Key | str | os.PathLike[str] | None
State = str | os.PathLike[str]

_ENVIRONMENT, _COMMAND = "env:", "command:"
_COMMAND_SECONDS = 60
_NOTHING_RELEASED = (
    "nothing was released; let it be written (its mode, its folder, the space left), or keep the "
    "key where its folder may be written"
)
#: What is raised where a witness cannot be read or written.
_FAILS = (OSError, ValueError, StateError, StreamConflict)
#: Numbers of writers are at least so far apart; between them are changes of what is public.
AMENDMENTS = 1000


def key_path(state: State) -> Path:
    """Where the key of a SQLite state is kept.

    Raises:
        WrongKey: the state is on a server, which is no place for its key.

    >>> key_path("visits.db").name
    'visits.db.key'
    """
    return beside(*place_of(state))


def state_files(state: State, key: Kept = None) -> list[Path]:
    """Files that keep a state and its key, whether they exist or are still to be made.

    Args:
        key: a `Key`, which is in no file, or where it is kept; None: ``STATE.key``.

    >>> [path.name for path in state_files("visits.db")][3:]
    ['visits.db-journal', 'visits.db.key', 'visits.db.key.witness']
    """
    file, path = state_file(state), file_of(key)
    parts = ("", "-wal", "-shm", "-journal", ".key", ".key.witness")
    kept = [] if file is None else [Path(f"{file}{part}") for part in parts]
    return kept if path is None else [*kept, path, witness_of(path)]


def beside(file: Path | None, label: str) -> Path:
    """Where the key of a state is kept whose file is known."""
    if file is None:
        raise WrongKey(
            f"state {label} is on a server and has no key file beside it: say where the key is "
            f"kept, {field('key')}"
        )
    return Path(f"{file}.key")


def key_for(database: Database, fingerprint: str, salt: str | None, key: Kept) -> Key:
    """The key of a release of an open state, which says its fingerprint and its salt."""
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
    if not give_name(waiting, path) and is_same_file(waiting, path):
        waiting.unlink(missing_ok=True)  # a process was killed before it did so


def waiting(path: Path, fingerprint: str) -> Path:
    """Where a key waits until its state exists."""
    return path.with_name(f"{path.name}.new-{fingerprint}")


def place_of(state: State | Database) -> tuple[Path | None, str]:
    """The file of a state, None where it is on a server; and its name in messages."""
    if isinstance(state, Database):
        return state.path, state.label
    file = state_file(state)
    return file, str(file) if file else label_of(database_url(state))


def witness_beside(state: State | Database, key: Kept) -> Witness:
    """The witness of a state's releases: beside the key's file, and where ``STATE.key`` would be.

    An open state has a second one, away from both: see `counton.state.second_witness`. A key that
    is named through a symbolic link has its witness beside the file itself: by whatever name it is
    used, it remembers the same.
    """
    path = key.file if isinstance(key, Key) else file_of(key)
    file, label = place_of(state)
    named = [] if path is None else [witness_of(path)]
    if file is not None:
        named.append(Path(f"{file}.key.witness"))
    # A name that is a link, also to what is not there yet, stands for the file that it leads to.
    places = dict.fromkeys(place.resolve() for place in dict.fromkeys(named))
    return Witness([*places], label, state if isinstance(state, Database) else None)


def name_witness(connection: Connection, database: Database, place: State) -> bool:
    """Say where a state's second witness is; whether it was elsewhere before."""
    address = address_of(place)
    database.read_witness(connection)
    if address == database.witness:
        return False
    connection.execute(schema.database.update().values(witness=address))
    database.witness = address
    return True


def without_witness(
    state: State | None,
    *keys: Kept,
    witness: State | None = None,
    opened: Database | None = None,
) -> str | None:
    """Which old copies of a state would not be noticed, in words; None where all would be."""
    if state is None:
        return None
    database = database_at(state) if opened is None else opened
    try:
        named = None if database is None else database.witness
        if witness is not None:
            named = address_of(witness)
        why = why_not_written(named)
        if why is None:
            return None if database is None else _begun_anew(database, named)
    finally:
        if database is not None and opened is None:
            database.close()
    if any(key is None or witness_beside(state, key).places for key in keys):
        return (
            f"no second witness ({why}): a state that is put back together with the witness beside "
            f"its key would be taken for the newest; say where else one may be kept, "
            f"{field('witness')}, or set XDG_STATE_HOME"
        )
    return (
        f"no witness: the state is on a server, no key file is named, and {why}, so an old copy of "
        f"it would be taken for the newest; keep the key in a file, or say where a witness may be "
        f"kept, {field('witness')}"
    )


def database_at(state: State) -> Database | None:
    """An open state; None where there is none yet."""
    try:
        return Database(state)
    except NoState:
        return None


def _begun_anew(database: Database, named: str | None) -> str | None:
    """A line for a second witness that knows nothing of a state which has released something."""
    home = home_of(database.identity, named)
    with database.transaction(write=False) as connection:
        table = schema.streams.c
        query = sa.select(table.name).where(table.step > 0)
        missing = {*connection.execute(query).scalars()}
    if home is None or not missing - {entry["stream"] for entry in home.read()}:
        return None
    return (
        f"the second witness {home} knows nothing yet of what state {database.label} has released, "
        f"and begins now: that the state was put back from an old copy before, together with the "
        f"witness beside its key, would not be noticed; if it was moved here, move that along too"
    )


class _OtherRelease(Exception):
    """A place knows another release."""

    def __init__(self, said: StateError) -> None:
        self.said = said


class Witness:
    """What is remembered beside a key: of each stream the last step, and a digest of its release.

    It is written after each commit and holds nothing secret. Where it stands and cannot be read or
    written, nothing is released; nor where none of its places can be written. The user's folder
    that nobody asked for does not count: where there is nothing else, each run says so.

    Where a key has a file of its own, the same is remembered beside the key and beside the state,
    so that streams of one state under several keys know of each other.

    Args:
        beside: files beside the key and the state; none where there are none.
        label: of the state, for messages.
        database: the open state, which says where its second witness is.
    """

    def __init__(
        self, beside: Sequence[Path], label: str, database: Database | None = None
    ) -> None:
        self._beside = tuple(beside)
        self._label, self._database = label, database
        self._placed: tuple[str | None, tuple[WitnessPlace, ...]] | None = None
        self._read: tuple[list[object], list[dict[str, Any]]] | None = None
        self._held: list[dict[str, Any]] | None = None

    @property
    def places(self) -> tuple[WitnessPlace, ...]:
        """Its files, or rows in a database: the second one's place as the state says it by now."""
        named = None if self._database is None else self._database.witness
        if self._placed is None or self._placed[0] != named:
            home = None if self._database is None else home_of(self._database.identity, named)
            beside = tuple(WitnessFile(file) for file in self._beside)
            self._placed = named, beside if home is None else (*beside, home)
        return self._placed[1]

    @property
    def where(self) -> str:
        """Its first place, for messages."""
        return str(self.places[0]) if self.places else "no file"

    @property
    def _unasked(self) -> bool:
        """Whether it has no place, or none but in the user's folder."""
        return all(place.by_default for place in self.places)

    def entries(self) -> list[dict[str, Any]]:
        """What it remembers, the latest steps first, and where; nothing where there is none."""
        if self._held is not None:
            return self._held
        marks = [place.mark() for place in self.places]
        if self._read is None or self._read[0] != marks:
            found = [
                {**entry, "where": str(place)}
                for place in self.places
                for entry in self._entries_of(place)
            ]
            self._read = marks, sorted(found, key=lambda entry: -entry["step"])
        return self._read[1]

    def snapshot(self) -> Witness:
        """What it remembers now, for whoever reads the state afterwards without locking it.

        What stands in it was committed before; so a state that is read later knows all of it.
        """
        now = self._unread()
        with suppress(StateError):  # said of each release
            now._held = self.entries()
        return now

    def _unread(self) -> Witness:
        return Witness(self._beside, self._label, self._database)

    def _entries_of(self, place: WitnessPlace) -> list[dict[str, Any]]:
        try:
            return place.read()
        except _FAILS as error:
            raise StateError(
                f"the witness {place} of state {self._label} cannot be read ({_why(error)}), so "
                f"nobody can tell whether the state was restored from an old copy: bring the "
                f"witness back from a copy; or, if you know that the state is the newest one, move "
                f"the witness away, and the next release writes another"
            ) from None

    def forgotten_entries(
        self, known: Mapping[str, Collection[str]], identity: str | None
    ) -> list[dict[str, Any]]:
        """Entries of releases from this state, or under its keys, which the state does not have.

        Args:
            known: names of the state's streams, by fingerprint of the key.
            identity: of the state; None where there is none yet.
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
        """Refuse to release anything new from a state that has forgotten releases."""
        for entry in self.forgotten_entries(known, identity):
            name, steps = entry["stream"], entry["step"]
            what = "1 step" if steps == 1 else f"{steps:,} steps"
            raise OldCopy(
                f"state {self._label} has no release {name!r}, but {entry['where']} says that "
                f"it had released {what} of it, so the state was lost or restored from an old "
                f"copy; what is forgotten stays spent, and the limit no longer counts it: bring "
                f"the newest copy of the state back; if it is lost for good, begin another "
                f"{field('state')}, under a limit less what was spent"
            )

    def check(
        self,
        fingerprint: str,
        name: str,
        step: int,
        digest: Callable[[int], str | None],
        forgotten: int | None,
    ) -> None:
        """Refuse a stream that has forgotten releases, or that it forgot somebody.

        Args:
            digest: of one of the releases that the state knows; None where it has no such one.
            forgotten: how many times people were forgotten, as the state knows; None: of no
                interest, since somebody is forgotten now.

        Raises:
            StateError: the witness knows later ones, or another one at the same step, or more times
                that people were forgotten; or it cannot be read.
        """
        for entry in self._of(fingerprint, name):
            if entry["step"] > step:
                raise OldCopy(
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
            if forgotten is not None and entry["forgotten"] > forgotten:
                more = entry["forgotten"] - forgotten
                times = "once" if more == 1 else f"{more:,} times"
                raise OldCopy(
                    f"state {self._label} is an old copy: {entry['where']} says that people were "
                    f"forgotten in stream {name!r} {times} since it was made, and it has them "
                    f"again: bring the newest copy back, or forget them again (counton forget), "
                    f"{times}; until then it releases nothing"
                )

    def _of(self, fingerprint: str, name: str) -> list[dict[str, Any]]:
        """Entries of a stream, the latest steps first."""
        return [one for one in self.entries() if (one["key"], one["stream"]) == (fingerprint, name)]

    def check_shown(self, fingerprint: str, name: str, step: int, digest: str | None) -> None:
        """Refuse to show the last release of a state that may be an old copy, if it is another one.

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
        return OldCopy(
            f"stream {name!r} in state {self._label} has another release at step {step:,} than "
            f"{where} knows, so two copies of the state were continued; the same noise on two "
            f"data sets gives their difference away: go on with the copy that was used here, and "
            f"stop the other"
        )

    def vouches(self, fingerprint: str, name: str, step: int, writer: int) -> bool:
        """Whether it can tell that a state on a server is the newest: nobody wrote unseen.

        Args:
            writer: the last one that opened the stream, as the state knows.

        Returns:
            True where that writer's witness is this one, or where it has seen the stream exactly
            as it is; before the first step of a stream that it does not know; and where there is
            none but in the user's folder. False where somebody else wrote, who may have gone on
            further than the state.
        """
        if self._unasked:
            return True  # nobody said that it should know
        of = self._of(fingerprint, name)
        for entry in of:
            seen = entry["seen"] or [None, None]
            if entry["step"] == of[0]["step"] and (
                _wrote(entry["writers"], writer) or (seen[1] == step and _wrote(seen[:1], writer))
            ):
                return True
        return not of and not step

    def unseen(self, fingerprint: str, name: str, step: int, writer: int) -> str | None:
        """Why it does not vouch for a stream, in words; None where it does or knows later steps."""
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
        """Remember who is to write a stream, before it does."""
        entry = self._entry(fingerprint, name, 0, "", writer)
        self._each(lambda place: place.join(entry), _NOTHING_RELEASED)

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
        forgotten: int = 0,
    ) -> None:
        """Remember a release that is committed, before anybody is shown it.

        Args:
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
        entry["forgotten"] = forgotten

        def agrees(old: dict[str, Any]) -> bool:
            if old["step"] == step:
                return bool(old["digest"] == digest)
            return released is None or not old["step"] or released(old["step"]) == old["digest"]

        def act(place: WitnessPlace) -> None:
            if (other := place.note(entry, agrees)) is not None:
                raise _OtherRelease(self._other_release(name, other, str(place)))

        try:
            self._each(
                act,
                f"what is released of {name!r} is kept in the state, and is not shown yet; make "
                f"the witness writable, then run the same again",
            )
        except _OtherRelease as error:
            raise error.said from None

    def reserve(self, fingerprint: str, name: str, step: int, writer: int | None = None) -> None:
        """Make sure that a release can be noted, before it is committed."""
        entry = self._entry(fingerprint, name, step, "0" * 64, writer)
        self._each(lambda place: place.reserve(entry), _NOTHING_RELEASED)

    def is_behind(self, fingerprint: str, name: str, step: int, forgotten: int = 0) -> bool:
        """Whether one of its files, written or still to be made, does not know a step."""
        of = (fingerprint, name, step)
        return any(
            all(
                (one["key"], one["stream"], one["step"]) != of or one["forgotten"] < forgotten
                for one in self._entries_of(place)
            )
            for place in self.places
            if place.stands or not place.by_default or why_not_written(None) is None
        )

    def lacks(
        self, fingerprint: str, name: str, step: int, writer: int | None = None
    ) -> str | None:
        """Why it would not notice an old copy of the state, in words; None where it would."""
        if not step or (self._unasked and why_not_written(None) is not None):
            return None  # where there can be none at all, `without_witness` says so
        for place in self.places:
            if not isinstance(place, WitnessFile) or not place.stands:
                continue
            path = place.path
            try:
                os.close(open_plain(path, os.O_RDWR))
            except FileNotFoundError:
                continue
            except OSError as error:
                return f"the witness {path} cannot be written ({error.strerror}): let it be written"
        for wait in (0, 0.05, 0.2, 1):  # a writer notes what it has just committed
            time.sleep(wait)
            known = [e["step"] for e in self._unread()._of(fingerprint, name)]
            if known and max(known) >= step:
                break
        now = self._unread()
        unseen = None if writer is None else now.unseen(fingerprint, name, step, writer)
        if unseen is not None or (known and max(known) >= step):
            return unseen
        there = any(place.stands for place in self.places)
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
            "forgotten": 0,
        }

    def _each(self, act: Callable[[WitnessPlace], None], what: str) -> None:
        """Do an act in all places that stand, and at least in one that somebody asked for."""
        first, noted = None, False
        for place in self.places:
            try:
                act(place)
            except _FAILS as error:
                first = first or self._unwritten(place, error, what)
                if place.stands:
                    raise self._unwritten(place, error, what) from None
            else:
                noted = True
        if first is not None and not noted and not self._unasked:
            raise first

    def _unwritten(self, place: WitnessPlace, error: Exception, what: str) -> StateError:
        return StateUnavailable(
            f"the witness {place} of state {self._label} cannot be written ({_why(error)}), and "
            f"without it an old copy of the state would be taken for the newest: {what}"
        )


def _wrote(known: Sequence[int], writer: int) -> bool:
    """Whether a stream's last writer is known, whatever was amended since: see `AMENDMENTS`."""
    return any(0 <= writer - one < AMENDMENTS for one in known)


def _why(error: Exception) -> str:
    if isinstance(error, CountonError):
        return str(error)
    return getattr(error, "strerror", None) or "it was altered, or written in part"


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

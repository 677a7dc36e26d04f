"""The place of a state's key, and the witness that stands beside the key.

A key stands in a file, ``STATE.key`` beside a SQLite state unless another is named, in an
environment variable (``env:NAME``), or in the output of a command (``command:...``, a vault's
client). If a new state finds a key already there, other states may use that key too. Then the
state's noise comes from a key of its own, derived with a public salt (`counton.Key.with_salt`).

The witness holds the last step of each stream and a digest of its last release. A state that was
restored from an old copy would give the noise of known releases to other data; the witness notices.
"""

from __future__ import annotations

import hmac
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
from counton.noise.key import give_name, is_same_file, refuse_key_as_place
from counton.noise.witness import PAST, Entries, WitnessFile, WitnessPlace, witness_of
from counton.state.database import Database, parse_address, state_file
from counton.state.second_witness import (
    HOME,
    LEFT,
    LOST,
    NAMED,
    NONE,
    SecondPlaces,
    SecondWitness,
    address_of,
    default_folder,
    onward_entry,
    place_at,
    refuse_the_state,
)
from counton.state.sql import Connection
from counton.state.sqlite_file import NoState, may_be_written

#: A key, or where it is kept: a file, ``env:NAME``, ``command:...``, or None for ``STATE.key``.
Kept = Key | str | os.PathLike[str] | None
State = str | os.PathLike[str]

_ENVIRONMENT, _COMMAND = "env:", "command:"
_COMMAND_SECONDS = 60
_NOTHING_RELEASED = (
    "nothing was released; let it be written (its mode, its folder, the space left), or keep the "
    "key where its folder may be written"
)
#: Exceptions of a witness that cannot be read or written.
_FAILS = (OSError, ValueError, StateError, StreamConflict)
#: Writers' numbers are at least so far apart; numbers between count changes of public facts.
AMENDMENTS = 1000


def key_path(state: State) -> Path:
    """Return the key file of a SQLite state.

    Raises:
        WrongKey: the state is on a server, which is no place for its key.

    >>> key_path("visits.db").name
    'visits.db.key'
    """
    return beside(*place_of(state))


def state_files(state: State, key: Kept = None) -> list[Path]:
    """List the files of a state and its key, existing or not.

    Args:
        key: a `Key`, which is in no file, or the place of the key; None: ``STATE.key``.

    >>> [path.name for path in state_files("visits.db")][3:]
    ['visits.db-journal', 'visits.db.key', 'visits.db.key.witness']
    """
    file, path = state_file(state), file_of(key)
    parts = ("", "-wal", "-shm", "-journal", ".key", ".key.witness")
    kept = [] if file is None else [Path(f"{file}{part}") for part in parts]
    return kept if path is None else [*kept, path, witness_of(path)]


def beside(file: Path | None, label: str) -> Path:
    """Return the key file beside a state's file."""
    if file is None:
        raise WrongKey(
            f"state {label} is on a server and has no key file beside it: say where the key is "
            f"kept, {field('key')}"
        )
    return Path(f"{file}.key")


def key_for(database: Database, fingerprint: str, salt: str | None, key: Kept) -> Key:
    """Return the key of a release, given the fingerprint and the salt in its open state."""
    found: Key
    if isinstance(key, Key):
        found = key
    elif key is None:
        found = _load(beside(database.path, database.label), fingerprint)
    else:
        path = file_of(key)
        found = elsewhere(os.fspath(key)) if path is None else _load(path, fingerprint)
    return found if salt is None or found.fingerprint == fingerprint else found.with_salt(salt)


def fits(key: Key, fingerprint: str, salt: str | None) -> bool:
    """Return True if a key, with a salt if there is one, has the fingerprint of a release's key."""
    return fingerprint in (key.fingerprint, salt and key.with_salt(salt).fingerprint)


def file_of(key: Kept) -> Path | None:
    """Return the file named for a key; None if the key is in no file."""
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
    refuse_key_as_place(text)
    return None if text.startswith((_ENVIRONMENT, _COMMAND)) else Path(text)


def elsewhere(text: str) -> Key:
    """Read a key from an environment variable or from the output of a command."""
    if text.startswith(_ENVIRONMENT):
        name = text.removeprefix(_ENVIRONMENT)
        kept = os.environ.get(name)
        if not kept:
            raise WrongKey(
                f"{field('key', text)} names the environment variable {name!r}, which is not set: "
                f"set it to the content of a key file"
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
            f"correct it until it prints the content of a key file"
        ) from None
    return Key.from_text(done.stdout, f"what {words[0]!r} printed")


def _load(path: Path, fingerprint: str) -> Key:
    kept = waiting(path, fingerprint)
    if kept.exists():
        # A process was killed after it made the state, before it could name the key; or another
        # process had given the name to its own key.
        publish(kept, path)
        if kept.exists():
            return Key.load(kept)
    return Key.load(path)


def publish(waiting: Path, path: Path) -> None:
    """Rename a waiting key to its final name; if another key has that name, leave it waiting."""
    if not give_name(waiting, path) and is_same_file(waiting, path):
        waiting.unlink(missing_ok=True)  # a process was killed before it removed this name


def waiting(path: Path, fingerprint: str) -> Path:
    """Return the file in which a key waits until its state exists."""
    return path.with_name(f"{path.name}.new-{fingerprint}")


def place_of(state: State | Database) -> tuple[Path | None, str]:
    """Return a state's file (None on a server) and its name for messages."""
    if isinstance(state, Database):
        return state.path, state.label
    address = parse_address(state)
    return address.file, address.label


def witness_beside(state: State | Database, key: Kept, also: State | None = None) -> Witness:
    """Return the witness of a state: files beside its key and beside the state
    (``STATE.key.witness``).

    An open state has a second witness, away from both: see `counton.state.second_witness`. If a
    symbolic link names the key, its witness lies beside the linked file: all names of one key
    share one witness.

    Args:
        also: a second place of the witness, read as if the state named it.
    """
    path = key.file if isinstance(key, Key) else file_of(key)
    file, label = place_of(state)
    named = [] if path is None else [witness_of(path)]
    if file is not None:
        named.append(Path(f"{file}.key.witness"))
    # A link stands for the file it leads to, even if that file is yet to be made.
    places = dict.fromkeys(place.resolve() for place in dict.fromkeys(named))
    opened = state if isinstance(state, Database) else None
    return Witness([*places], label, opened, None if also is None else address_of(also))


def database_at(state: State) -> Database | None:
    """Open a state; return None if there is none yet."""
    try:
        return Database(state)
    except NoState:
        return None


def witness_remarks(
    state: State | None,
    *keys: Kept,
    witness: State | None = None,
    opened: Database | None = None,
    in_file: bool = False,
) -> list[str]:
    """Say which old copies of a state the witness would miss; an empty list if none.

    A damaged or missing witness is not reported here: every release refuses it.

    Args:
        witness: a second place that is named in this run.
        opened: the open state, if it is open.
        in_file: whether a job file names the place for every run.
    """
    if state is None:
        return []
    database = database_at(state) if opened is None else opened
    try:
        where: State | Database = state if database is None else database
        known = [witness_beside(where, key) for key in keys]
        remarks: dict[str, None] = {}
        for one in known:
            with suppress(StateError):
                remarks |= dict.fromkeys(one.remarks(witness, in_file=in_file))
        return [*remarks]
    finally:
        if database is not None and opened is None:
            database.close()


def _why_not_written(folder: Path | None) -> str | None:
    """Try to write or make a folder, and say why it fails; None if it succeeds."""
    if folder is None:
        return "the user has no home"
    there = next((one for one in (folder, *folder.parents) if os.path.lexists(one)), folder)
    try:
        TemporaryFile(dir=there).close()
    except OSError:
        return f"{folder} cannot be written"
    return None


class Mark(NamedTuple):
    """The position of a stream.

    Attributes:
        key: fingerprint of its key.
        writer: number of the last process that opened it to write.
        forgotten: how many times people were forgotten in it.
    """

    key: str
    name: str
    step: int
    writer: int = 0
    forgotten: int = 0

    @classmethod
    def of(cls, row: Any) -> Mark:
        """Read the mark from a stream's row."""
        return cls(row.key_fingerprint, row.name, row.step, row.writer_epoch, row.forgotten)


class _Look(NamedTuple):
    """The content of all places of a witness, read at one moment.

    Attributes:
        said: the settings of these places, by the state and by the user.
        marks: mark of each place before it was read.
        second: the second places; none if the state is not open.
        places: places in which a release is noted.
        entries: entries of streams, the latest steps first, each with its place.
    """

    said: object
    marks: list[tuple[WitnessPlace, object]]
    second: SecondPlaces
    places: tuple[WitnessPlace, ...]
    entries: list[dict[str, Any]]


class Witness:
    """The memory of a state's releases: the last step of each stream, and a digest of its release.

    It stands beside the key and, if the key has a file of its own, also beside the state, so that
    streams of one state under several keys know of each other. It also stands in second places,
    away from both: see `counton.state.second_witness`.

    It is written after each commit and holds nothing secret. Nothing is released if an existing
    place cannot be read or written, or if a second place is missing that should exist. Nothing is
    released either if no place can be written, or if no place knows a stream that has released
    something, unless somebody has said that no second witness is wanted.

    Args:
        beside: files beside the key and the state; empty if there are none.
        label: name of the state, for messages.
        database: the open state, which remembers its second places.
        also: address of one more second place to read.
    """

    def __init__(
        self,
        beside: Sequence[Path],
        label: str,
        database: Database | None = None,
        also: str | None = None,
    ) -> None:
        self._beside = tuple(WitnessFile(file) for file in beside)
        self._label, self._database, self._also = label, database, also
        self._last: _Look | None = None
        self._held: _Look | None = None

    @property
    def places(self) -> tuple[WitnessPlace, ...]:
        """Files, or rows in a database, in which a release is noted."""
        return self._look_at_places().places

    @property
    def where(self) -> str:
        """Its first place, for messages."""
        return next((str(place) for place in (*self._beside, *self.places)), "no file")

    def entries(self) -> list[dict[str, Any]]:
        """Return all remembered entries with their places, the latest steps first."""
        return self._look().entries

    def snapshot(self) -> Witness:
        """Read the witness now, for a caller who reads the state afterwards without a lock.

        Every noted release was committed before, so a state that is read later has all of them.
        """
        now = self._unread()
        with suppress(StateError):  # each release reports it
            now._held = now._look()
        return now

    def _unread(self) -> Witness:
        now = copy(self)
        now._last = now._held = None
        return now

    def _state(self) -> Database:
        assert self._database is not None
        return self._database

    def _look_at_places(self) -> _Look:
        """Return the last look if the places are unchanged, whatever they hold by now."""
        last = self._last if self._held is None else self._held
        return last if last is not None and last.said == self._place_settings() else self._look()

    def _place_settings(self) -> object:
        database = self._database
        return None if database is None else (dict(database.witnesses), default_folder())

    def _look(self) -> _Look:
        if self._held is not None:
            return self._held
        said, last, database = self._place_settings(), self._last, self._database
        same = last is not None and last.said == said
        if last is not None and same and all(at.mark() == mark for at, mark in last.marks):
            return last
        marks: list[tuple[WitnessPlace, object]] = [(one, one.mark()) for one in self._beside]
        found = [(str(one), self._entries_of(one)) for one in self._beside]
        second = SecondPlaces(
            None if database is None else database.identity,
            {} if database is None else dict(database.witnesses),
            self._entries_of,
            server=self._on_server,
            also=None if database is None else self._also,
        )
        marks += [(one.place, one.mark) for one in second.found.values()]
        found += [(str(one.place), one.entries) for one in second.found.values()]
        places: list[WitnessPlace] = [*self._beside]
        places += second.noted_places
        entries = [
            {**entry, "where": where}
            for where, known_there in found
            for entry in known_there
            if "onward" not in entry
        ]
        entries.sort(key=lambda entry: -int(entry["step"]))
        self._last = _Look(said, marks, second, tuple(places), entries)
        return self._last

    def _entries_of(self, place: WitnessPlace) -> list[dict[str, Any]]:
        try:
            entries = place.read()
            if any(one["step"] and "writers" not in one for one in entries):
                raise ValueError("no entries of streams")
            return entries
        except _FAILS as error:
            raise StateError(
                f"the witness {place} of state {self._label} cannot be read ({_why(error)}), so "
                f"nobody can tell whether the state was restored from an old copy: bring the "
                f"witness back from a copy; or, if you know that the state is the newest one, move "
                f"the witness away, and say so ({field('accept_old_copy', True)})"
            ) from None

    def name(self, connection: Connection, place: State) -> None:
        """Keep the second witness in a place from now on; its earlier places point on to it.

        Args:
            connection: a transaction that writes the state. The places are written before its
                commit, so a later reader of an earlier place is led to the new one in any case.

        Raises:
            StateError: a place cannot be read or written.
        """
        database, address = self._state(), address_of(place)
        database.read_witnesses(connection)
        known = dict(database.witnesses)
        if known.get(address) == NAMED:
            return
        refuse_the_state(address, database)
        look = self._look()
        if address != NONE:
            self._begin(address, look)
            known.pop(NONE, None)
            for one in look.second.found.values():
                if one.address != address and one.entries and not one.onward and one.said != LOST:
                    onward = onward_entry(database.identity, self._label, [address])
                    self._write(one.place, [onward])
                    known[one.address] = LEFT
        self._remember(connection, {**known, address: NAMED})

    def keep(self, connection: Connection, place: State | None) -> None:
        """Keep the second witness: in a place that is named now, or where it was before.

        If it had no place, it goes into the user's folder, or into each of several such folders.
        """
        if place is not None:
            self.name(connection, place)
        database, look = self._state(), self._look()
        second = look.second
        known = dict(database.witnesses)
        known |= {one.address: NAMED for one in second.kept_places if one.said not in (HOME, NAMED)}
        home = None if second.home is None else second.found.get(str(second.home))
        wanted = home is not None and not (second.named_addresses or second.none_wanted)
        if home is not None and wanted and (home.said != HOME or not home.entries):
            with suppress(*_FAILS):  # `remarks` says that it cannot be written
                self._begin(home.address, look)
                known[home.address] = HOME
        self._remember(connection, known)

    def give_up_missing(self, connection: Connection) -> tuple[str, ...]:
        """Declare missing places lost for good, on the user's word, and return them."""
        second = self._look().second
        lost = {one.address: LOST for one in second.missing_places}
        self._remember(connection, {**self._state().witnesses, **lost})
        return tuple(lost)

    def _begin(self, address: str, look: _Look) -> None:
        """Make a place that starts with all entries of the other places."""
        database = self._state()
        known = [
            {word: value for word, value in entry.items() if word != "where"}
            for entry in reversed(look.entries)
            if entry.get("identity") == database.identity
        ]
        first = onward_entry(database.identity, self._label, [])
        self._write(place_at(address, database.identity), [first, *known])

    def _write(self, place: SecondWitness, entries: Entries) -> None:
        try:
            place.begin(entries)
        except _FAILS as error:
            raise self._unwritten(place, error, _NOTHING_RELEASED) from None

    def _remember(self, connection: Connection, known: dict[str, str]) -> None:
        database = self._state()
        if known != database.witnesses:
            connection.run("UPDATE counton_database SET witnesses = :text", text=json.dumps(known))
            database.witnesses = known

    def remarks(self, witness: State | None = None, *, in_file: bool = False) -> list[str]:
        """Say which old copies of the state the witness would miss: see `witness_remarks`."""
        named = None if witness is None else address_of(witness)
        second, remarks = self._look().second, list[str]()
        if named is None:
            remembered = [NONE] if second.none_wanted else second.named_addresses
            remarks = [
                f"the second witness is {one!r}, as was named once: the state remembers it though "
                f"{field('witness')} is not said; name another place, or {NONE!r}"
                for one in remembered
                if in_file
            ]
            named = next(iter(remembered), None)
        if not any(one.stands for one in self._beside) and self._serves():
            remarks.append(
                f"the witness {self._beside[0]} is missing, though state {self._label} has "
                f"released something: bring it back, or let it be written; until it is there the "
                f"second one alone notices an old copy"
            )
        if named == NONE:
            return remarks
        home = default_folder()
        if named is None and (why := _why_not_written(home)) is not None:
            return [*remarks, self._no_second(why)]
        if (inside := self._inside(home if named is None else named)) is not None:
            remarks.append(
                f"the second witness {inside} lies in the folder of state {self._label}: a copy of "
                f"the whole folder, restored later, would pass for the newest state; name a place "
                f"elsewhere, {field('witness')}"
            )
        if named is None and self._database is not None and self.entries():
            at = second.found[str(home)]
            if at.said is None and not at.entries:
                remarks.append(
                    f"the second witness {at.place} has no record of releases of state "
                    f"{self._label} and begins now; if you moved the state here, move its second "
                    f"witness, too"
                )
        return remarks

    def _serves(self) -> bool:
        """Return True if the state has released something under the key of the witness's first
        file."""
        for one in self._beside[:1] if self._database is not None else ():
            with suppress(WrongKey), self._state().transaction(write=False) as connection:
                key = Key.load(Path(str(one).removesuffix(".witness")))
                said = "SELECT key_fingerprint, key_salt FROM counton_streams WHERE step > 0"
                return any(fits(key, *row) for row in connection.rows(said))
        return False

    def _no_second(self, why: str) -> str:
        if self._beside:
            return (
                f"no second witness ({why}): a state that is put back together with the witness "
                f"beside its key would be taken for the newest; say where else one may be kept, "
                f"{field('witness')}, or set XDG_STATE_HOME"
            )
        return (
            f"no witness: the state is on a server, no key file is named, and {why}, so an old "
            f"copy of it would be taken for the newest; nothing is released until the key is in a "
            f"file, or you say where a witness may be kept, {field('witness')}, or {NONE!r}"
        )

    def _inside(self, place: State | None) -> Path | None:
        """Return the path of a place in or below the state's folder; None for any other place."""
        file, _ = place_of(self._label if self._database is None else self._database)
        if file is None or place is None:
            return None
        text = os.fspath(place)
        at = Path(os.path.realpath(text)) if "://" not in text else state_file(text)
        return at if at is not None and at.is_relative_to(file.resolve().parent) else None

    def refuse_unknown(self, connection: Connection, beginning: str) -> None:
        """Refuse to begin a stream if no place knows the streams that the state has released.

        Args:
            beginning: name of the stream that has just made its first step, or "".

        Raises:
            OldCopy: nobody can tell which releases the state has forgotten.
        """
        second = self._look().second
        said = "SELECT name FROM counton_streams WHERE step > 0 AND name <> :name LIMIT 1"
        released = connection.first(said, name=beginning)
        if released is not None and not (self._on_server or second.none_wanted):
            raise OldCopy(self._unknown(f"stream {released.name!r} has released something"))

    def refuse_missing(self) -> None:
        """Refuse a state if one of its second places is missing that should exist.

        Raises:
            StateUnavailable: the place may be on a disk that is not mounted.
        """
        second = self._look().second
        for one in second.missing_places:
            raise StateUnavailable(
                f"the witness {one.place} of state {self._label} is missing, so nobody can tell "
                f"whether the state was restored from an old copy: mount its disk, or bring it "
                f"back; nothing is released until then. What an old copy has forgotten would be "
                f"released again, from other rows: only if the witness is lost for good, and you "
                f"know that the state is the newest, say so ({field('accept_old_copy', True)})"
            )

    def forgotten_entries(
        self, known: Mapping[str, Collection[str]], identity: str | None
    ) -> list[dict[str, Any]]:
        """List entries of this state, or under its keys, whose streams the state lacks.

        Args:
            known: names of the state's streams, by fingerprint of the key.
            identity: identity of the state; None if it does not exist yet.
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
        """Refuse all new releases of a state that has forgotten releases."""
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
        self, at: Mark, digest: Callable[[int], str | None], *, forgetting: bool = False
    ) -> None:
        """Refuse a stream that has forgotten releases, or has forgotten that people were forgotten.

        Args:
            at: position of the stream in the state.
            digest: returns the digest of a step's release; None if the state has none for it.
            forgetting: this act forgets somebody, so the number of earlier times does not matter.

        Raises:
            StateError: the witness knows later releases, another release at the same step, or more
                times that people were forgotten; or it cannot be read, or a part is missing.
        """
        self.refuse_missing()
        for entry in self._of(at):
            if entry["step"] > at.step:
                raise OldCopy(
                    f"stream {at.name!r} is at step {at.step:,} in state {self._label}, but "
                    f"{entry['where']} "
                    f"says that step {entry['step']:,} is released, so the state was restored from "
                    f"an old copy; the same noise on other data would give their difference away: "
                    f"bring the newest copy back, or, if it is lost, end this stream and begin "
                    f"another one that continues it (a statistic cannot be ended: begin it anew "
                    f"with another {field('name')})"
                )
            if entry["step"] and digest(entry["step"]) != entry["digest"]:
                raise other_release(at.name, self._label, entry["step"], entry["where"])
            if not forgetting and entry["forgotten"] > at.forgotten:
                more = entry["forgotten"] - at.forgotten
                times = "once" if more == 1 else f"{more:,} times"
                raise OldCopy(
                    f"state {self._label} is an old copy: {entry['where']} says that people were "
                    f"forgotten in stream {at.name!r} {times} since it was made, and this copy "
                    f"still remembers them: restore the newest copy, or forget them again (counton "
                    f"forget), {times}; until then it releases nothing"
                )

    def _of(self, at: Mark) -> list[dict[str, Any]]:
        """Return a stream's entries, the latest steps first."""
        return [one for one in self.entries() if (one["key"], one["stream"]) == at[:2]]

    def check_shown(self, at: Mark, digest: str | None) -> bool:
        """Refuse to show the last release if the witness knows another one in its place.

        Returns:
            Whether the witness noted the release, as the last one or before later ones.

        Raises:
            StateError: the witness noted another release of this step, or a later step without this
                release; or the witness cannot be read.
        """
        of, known = self._of(at), False
        for entry in of:
            past = {**dict(map(tuple, entry["past"])), entry["step"]: entry["digest"]}
            if past.get(at.step, digest) != digest:
                raise other_release(at.name, self._label, at.step, entry["where"])
            known |= at.step in past or (len(past) > PAST and at.step < min(past))
        if of and of[0]["step"] > at.step and not known:
            raise other_release(at.name, self._label, at.step, of[0]["where"])
        return known

    def is_later(self, at: Mark) -> bool:
        """Whether the witness knows later steps of a stream than the state."""
        return any(entry["step"] > at.step for entry in self._of(at))

    def knows(self, at: Mark) -> bool:
        """Whether the witness has an entry of a stream."""
        return bool(self._of(at))

    def vouches(self, at: Mark) -> bool:
        """Whether the witness can tell that a state is the newest.

        For a state in a file, knowing the stream is enough.

        Returns:
            For an unknown stream: whether it has released nothing, or somebody said that no second
            witness is wanted. On a server: whether this witness noted the last writer, or has seen
            the stream exactly as it is; otherwise another writer may have gone further.
        """
        of = self._of(at)
        if not of:
            second = self._look().second
            return not at.step or second.none_wanted
        if not self._on_server:
            return True
        for entry in of:
            seen = entry["seen"] or [None, None]
            if entry["step"] == of[0]["step"] and (
                _wrote(entry["writers"], at.writer)
                or (seen[1] == at.step and _wrote(seen[:1], at.writer))
            ):
                return True
        return False

    def unseen(self, at: Mark) -> str | None:
        """Return why the witness cannot vouch for a stream; None if it can, or knows later
        steps."""
        if self.is_later(at) or self.vouches(at):
            return None
        what = f"stream {at.name!r} is at step {at.step:,}"
        if not self._on_server:
            return self._unknown(what)
        seen = f"{self.where} has not" if self.places else "no witness here has"
        return self._unknown(
            what, f"{seen} seen who wrote it last: another server went on while this one was away"
        )

    @property
    def _on_server(self) -> bool:
        return self._database is not None and not self._database.is_sqlite

    def _unknown(self, what: str, why: str | None = None) -> str:
        why = why or f"{self.where} knows nothing of it: it is missing, or new"
        return (
            f"{what} in state {self._label}, and {why}, so nobody here can tell whether "
            f"the state was restored from an old copy; if it was, what it has forgotten would be "
            f"released again, and the same noise on other data gives their difference away: bring "
            f"the newest copy back with its witness, or say where the second one is, "
            f"{field('witness')}; if you know that it is the newest, say so "
            f"({field('accept_old_copy', True)})"
        )

    def join(self, at: Mark) -> None:
        """Remember the next writer of a stream, before it writes."""
        entry = self._entry(at._replace(step=0), "", writes=True)
        self._each(lambda place: place.join(entry), _NOTHING_RELEASED)

    def note(
        self,
        at: Mark,
        digest: str,
        released: Callable[[int], str | None] | None = None,
        *,
        writes: bool = False,
        seen: bool = False,
    ) -> None:
        """Remember a committed release, before anybody is shown it.

        Args:
            at: position of the stream after that release.
            released: returns the digest of a released step; None if the state has no such step.
            writes: this process released it, as the stream's writer.
            seen: the stream's writer is another process, and was seen to release it.

        Raises:
            StateError: the witness knows another release of a step, so another copy of the state is
                in use; the witness stays unchanged.
        """
        entry = self._entry(at, digest, writes=writes)
        entry["seen"] = [at.writer, at.step] if seen and self._on_server else None
        entry["forgotten"] = at.forgotten

        def agrees(old: dict[str, Any]) -> bool:
            if old["step"] == at.step:
                return bool(old["digest"] == digest)
            return released is None or not old["step"] or released(old["step"]) == old["digest"]

        def act(place: WitnessPlace) -> StateError | None:
            other = place.note(entry, agrees)
            return None if other is None else other_release(at.name, self._label, other, str(place))

        self._each(
            act,
            f"what is released of {at.name!r} is kept in the state, and is not shown yet; make the "
            f"witness writable, then run the same again",
        )

    def reserve(self, at: Mark) -> None:
        """Make sure that a release can be noted, before its commit."""
        entry = self._entry(at, "0" * 64, writes=True)
        self._each(lambda place: place.reserve(entry), _NOTHING_RELEASED)

    def is_behind(self, at: Mark) -> bool:
        """Whether one of its places, existing or not, lacks a step."""
        return any(
            all(
                (one["key"], one["stream"], one["step"]) != at[:3]
                or one["forgotten"] < at.forgotten
                for one in self._entries_of(place)
                if "onward" not in one
            )
            for place in self.places
        )

    def lacks(self, at: Mark) -> str | None:
        """Return why the witness would miss an old copy of the state; None if it would notice."""
        if not at.step:
            return None
        for place in self.places:
            if not isinstance(place, WitnessFile) or not place.stands:
                continue
            path = place.path
            try:
                os.close(open_plain(path, os.O_RDWR))
            except FileNotFoundError:
                continue
            except OSError as error:
                state = None if self._database is None else self._database.path
                if state is not None and not may_be_written(state):
                    continue  # nothing can be released there, so nothing has to be noted
                return f"the witness {path} cannot be written ({error.strerror}): let it be written"
        for wait in (0, 0.05, 0.2, 1):  # a writer may just be noting its last commit
            time.sleep(wait)
            now = self._unread()
            known = [entry["step"] for entry in now._of(at)]
            if known and max(known) >= at.step:
                break
        unseen = now.unseen(at)
        if unseen is not None or not known or max(known) >= at.step:
            return unseen
        return (
            f"the state is at step {at.step:,} and its witness {self.where} records steps up to "
            f"{max(known):,} only, so an old copy of the state would pass for the newest: if you "
            f"restored the witness, restore its newest copy; if a run was interrupted, the next "
            f"run records the missing steps"
        )

    def _entry(self, at: Mark, digest: str, *, writes: bool) -> dict[str, Any]:
        return {
            "key": at.key,
            "state": self._label,
            "identity": None if self._database is None else self._database.identity,
            "stream": at.name,
            "step": at.step,
            "digest": digest,
            "writers": [at.writer] if writes else [],
            "seen": None,
            "past": [],
            "forgotten": 0,
        }

    def _each(self, act: Callable[[WitnessPlace], StateError | None], what: str) -> None:
        """Apply an act to all existing places; at least one must exist, unless none is wanted.

        Args:
            act: returns an error to raise, or None.
            what: consequence for the release, for the message if a place cannot be written.
        """
        look, noted = self._look_at_places(), False
        first: StateError | None = None
        for place in look.places:
            try:
                refused = act(place)
            except _FAILS as error:
                first = first or self._unwritten(place, error, what)
                if place.stands:
                    raise self._unwritten(place, error, what) from None
            else:
                if refused is not None:
                    raise refused
                noted = True
        if noted or look.second.none_wanted:
            return
        raise first or StateUnavailable(self._no_second("there is none beside it"))

    def _unwritten(self, place: WitnessPlace, error: Exception, what: str) -> StateError:
        return StateUnavailable(
            f"the witness {place} of state {self._label} cannot be written ({_why(error)}), and "
            f"without it an old copy of the state would be taken for the newest: {what}"
        )


def other_release(name: str, state: str, step: int, where: str) -> OldCopy:
    """Build the error for a step whose release differs between a state and somebody else."""
    return OldCopy(
        f"stream {name!r} in state {state} has another release at step {step:,} than {where} "
        f"knows, so two copies of the state were continued; the same noise on two data sets gives "
        f"their difference away: go on with the copy that it knows, and stop the other"
    )


def _wrote(known: Sequence[int], writer: int) -> bool:
    """Return True if one of the known numbers belongs to a stream's last writer; see
    `AMENDMENTS`."""
    return any(0 <= writer - one < AMENDMENTS for one in known)


def _why(error: Exception) -> str:
    if isinstance(error, CountonError):
        return str(error)
    return getattr(error, "strerror", None) or "it was altered, or written in part"


def witness_key(key: Key, name: str) -> bytes:
    """Return the key of the digests of a stream's releases in its witness."""
    return key.derive(b"witness", name.encode())


def release_digest(step: int, value: NDArray[Any], subkey: bytes) -> str:
    """Return the keyed digest of one step's release, over all cells (HMAC-SHA256).

    Some cells are never shown, such as those of undeclared groups. A plain hash could be inverted
    by trying values, and would reveal how many such cells there are.

    >>> one, other = (release_digest(3, np.array([12]), bytes([key]) * 32) for key in (1, 2))
    >>> len(one), one == other
    (64, False)
    """
    data = np.ascontiguousarray(value)
    plain = data.astype(data.dtype.newbyteorder("<"), copy=False)
    digest = hmac.new(subkey, step.to_bytes(8, "little"), "sha256")
    digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()

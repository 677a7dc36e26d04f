"""The place of a state's key, and the witness: a small file that shows whether a state is an old
copy.

A key stands in a file (``STATE.key`` beside a SQLite state unless another is named), in an
environment variable (``env:NAME``), or in the output of a command (``command:...``, such as a
vault's client). If a new state finds an existing key there, other states may use that key too. Then
the new state's noise comes from a key of its own, derived with a public salt
(`counton.Key.with_salt`).

The witness stands beside the key. It holds the last step of each stream and a digest of its last
release. A state that was restored from an old copy would add the noise of known releases to other
data; the witness shows that releases are missing.
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
from counton.noise.witness import PAST, Entries, WitnessFile, witness_of
from counton.state.database import Database, parse_address, state_file
from counton.state.second_witness import (
    HOME,
    LOST,
    NAMED,
    NONE,
    SecondPlaces,
    address_of,
    default_folder,
    first_entry,
    place_at,
)
from counton.state.sql import Connection
from counton.state.sqlite_file import NoState, files_of, may_be_written

#: A key, or where it is kept: a file, ``env:NAME``, ``command:...``, or None for ``STATE.key``.
Kept = Key | str | os.PathLike[str] | None
State = str | os.PathLike[str]

_ENVIRONMENT, _COMMAND = "env:", "command:"
_COMMAND_SECONDS = 60
_NOTHING_RELEASED = (
    "nothing was released; make it writable (its mode, its folder, the space left), or keep the "
    "key in a folder that is writable"
)
#: Exceptions raised if a place of the witness cannot be read or written.
_FAILS = (OSError, ValueError, StateError, StreamConflict)
#: Each opening raises a stream's writer number by at least this; other changes raise it by 1.
AMENDMENTS = 1000


def key_path(state: State) -> Path:
    """Return the path of the key file that lies beside a SQLite state: ``STATE.key``.

    Raises:
        WrongKey: the state is on a database server, where its key must not lie.

    >>> key_path("visits.db").name
    'visits.db.key'
    """
    return beside(*place_of(state))


def state_files(state: State, key: Kept = None) -> list[Path]:
    """List the files of a state and its key, existing or not.

    Args:
        key: place of the key, None for ``STATE.key``; or the key itself, which then adds no file.

    >>> [path.name for path in state_files("visits.db")][3:]
    ['visits.db-journal', 'visits.db.key', 'visits.db.key.witness']
    """
    file, path = state_file(state), file_of(key)
    keys = [Path(f"{file}{suffix}") for suffix in (".key", ".key.witness")]
    kept = [] if file is None else [*files_of(file), *keys]
    return kept if path is None else [*kept, path, witness_of(path)]


def beside(file: Path | None, label: str) -> Path:
    """Return the path of the key file beside a state's file.

    A state on a server (``file`` is None) has no such path and is refused; ``label`` is its name in
    the message.
    """
    if file is None:
        raise WrongKey(
            f"state {label} is on a server, so no key file lies beside it: give {field('key')}, "
            "the place of the key"
        )
    return Path(f"{file}.key")


def key_for(database: Database, fingerprint: str, salt: str | None, key: Kept) -> Key:
    """Return the key of a release: load ``key``, apply the salt, and check the fingerprint.

    ``salt`` and ``fingerprint`` are stored in the state; a salt of None leaves the key as it is.
    """
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
    """Return True if a key has this fingerprint, either unchanged or after the salt is applied."""
    return fingerprint in (key.fingerprint, salt and key.with_salt(salt).fingerprint)


def file_of(key: Kept) -> Path | None:
    """Return the file named for a key; None if the key is in no file."""
    if key is None or isinstance(key, Key):
        return None
    given: Any = key
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise InvalidInput(
            f"key is of type {type(key).__name__}; it must be a counton.Key, or the place of a "
            "key: a file, env:NAME or command:..."
        )
    if not text:
        raise InvalidInput(
            f"{field('key')} is empty: give a file, env:NAME or command:..., or leave it out"
        )
    refuse_key_as_place(text)
    return None if text.startswith((_ENVIRONMENT, _COMMAND)) else Path(text)


def elsewhere(text: str) -> Key:
    """Read a key from an environment variable (``env:NAME``) or a command's output
    (``command:...``).
    """
    if text.startswith(_ENVIRONMENT):
        name = text.removeprefix(_ENVIRONMENT)
        kept = os.environ.get(name)
        if not kept:
            raise WrongKey(
                f"{field('key', text)} names the environment variable {name!r}, which is not set: "
                "set it to the content of a key file"
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
            else getattr(error, "strerror", None)
            or "a quotation mark is not closed, or no command is named"
        )
        raise WrongKey(
            f"{field('key', text)} names a command that printed no key ({why}): run the command by "
            "itself, and correct it until it prints the content of a key file"
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
    """Rename a key file from its temporary name ``waiting`` to its final name ``path``.

    If ``path`` exists, it stays as it is.
    """
    if not give_name(waiting, path) and is_same_file(waiting, path):
        waiting.unlink(missing_ok=True)  # a process was killed before it removed this name


def waiting(path: Path, fingerprint: str) -> Path:
    """Return the temporary path of a new key file, used until the key's state exists."""
    return path.with_name(f"{path.name}.new-{fingerprint}")


def place_of(state: State | Database) -> tuple[Path | None, str]:
    """Return the path of a state's file (None on a server), and the state's name for messages."""
    if isinstance(state, Database):
        return state.path, state.label
    address = parse_address(state)
    return address.file, address.label


def witness_beside(state: State | Database, key: Kept, also: State | None = None) -> Witness:
    """Return the witness of a state, which is the record of releases kept outside the state.

    It is kept in a file beside the key and a file beside the state (``STATE.key.witness``). If
    ``key`` is a symbolic link, the witness lies beside the linked file, so that all names of one
    key share one witness. If ``state`` is an open database, the result also includes the second
    witness, which is kept away from the state: see `counton.state.second_witness`.

    Args:
        also: path of one more second witness to read, besides those that the state
            remembers.
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
    """Warn of old copies of a state that its witness, the record of releases outside the state,
    would not notice. Return one sentence for each gap of the witness; none if it would notice every
    old copy.

    A damaged or missing witness is not reported here: every release refuses it.

    Args:
        witness: path of a second witness, as named in this run.
        opened: the state, if the caller has it open.
        in_file: whether a job file states the options of the run. Then there is also a remark if an
            earlier run has named the second witness's place and ``witness`` is None.
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
    """Return why a folder cannot be written or made; None if it can."""
    if folder is None:
        return "the user has no home"
    there = next((one for one in (folder, *folder.parents) if os.path.lexists(one)), folder)
    try:
        TemporaryFile(dir=there).close()
    except OSError:
        return f"{folder} cannot be written"
    return None


class Mark(NamedTuple):
    """The progress of a stream, as stored in a state or in its witness (a record outside the
    state).

    Attributes:
        key: fingerprint of the stream's key.
        writer: number of the process that opened it last for writing; the number grows with each
            opening.
        forgotten: number of requests to forget people that the stream has carried out.
    """

    key: str
    name: str
    step: int
    writer: int = 0
    forgotten: int = 0

    @classmethod
    def of(cls, row: Any) -> Mark:
        """Build the mark (progress) of a stream from the stream's database row."""
        return cls(row.key_fingerprint, row.name, row.step, row.writer_epoch, row.forgotten)


class _Look(NamedTuple):
    """Everything that a witness (the record of releases outside a state) holds, read at one moment
    from all of its places, which are files.

    Attributes:
        settings: settings that decide where the places are: the addresses in the state, and the
            user's folder.
        marks: for each place, a value that changes whenever its content does, taken before reading.
        second: places of the second witness, which lies away from the state; none if the state is
            not open.
        places: places in which every release is recorded.
        entries: entries of streams in all places, each with its place, the latest steps first.
    """

    settings: object
    marks: list[tuple[WitnessFile, object]]
    second: SecondPlaces
    places: tuple[WitnessFile, ...]
    entries: list[dict[str, Any]]


class Witness:
    """The record, kept outside a state, of the last released step of each stream, with a digest of
    its release. It shows that a state was restored from an old copy.

    The record stands in several places: beside the key, and beside the state if the key is in
    another file, so that streams of one state under several keys know of each other. A second
    witness stands elsewhere: see `counton.state.second_witness`.

    It is written after each commit and holds nothing secret. Nothing is released if an existing
    place cannot be read or written, or if a place of the second witness that should exist is
    missing. Unless the user has said that no second witness is wanted, two more things stop a
    release: no place can be written, or no place has an entry for a stream that has released
    something.

    Args:
        beside: witness files beside the key and the state; empty if there are none.
        label: name of the state, for messages.
        database: the open state, which remembers the places of its second witness.
        also: address of one more place of a second witness to read.
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
    def places(self) -> tuple[WitnessFile, ...]:
        """Files of the witness (the record of releases outside the state) in which
        every release is recorded.
        """
        return self._look_at_places().places

    @property
    def where(self) -> str:
        """Path of the first file that holds the witness (the record of releases
        outside the state), for messages.
        """
        return next((str(place) for place in (*self._beside, *self.places)), "no file")

    def entries(self) -> list[dict[str, Any]]:
        """Return all entries of the witness (the record of releases outside the state), the latest
        steps first.

        An entry has the last released step of one stream, as recorded in one of the files that
        hold the witness.
        """
        return self._look().entries

    def snapshot(self) -> Witness:
        """Return a copy of the witness with its present entries. The witness is the record of
        releases outside the state.

        A caller who reads the state without a lock takes the copy first. A release is recorded only
        after its commit, so the state has every release that the copy has.
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
        """Return what was last read from the places of the witness, without reading them again.

        The witness is the record of releases outside the state; its places are files. They are
        read again only if the list of places has changed.
        """
        last = self._last if self._held is None else self._held
        return (
            last if last is not None and last.settings == self._place_settings() else self._look()
        )

    def _place_settings(self) -> object:
        database = self._database
        return None if database is None else (dict(database.witnesses), default_folder())

    def _look(self) -> _Look:
        if self._held is not None:
            return self._held
        settings, last, database = self._place_settings(), self._last, self._database
        same = last is not None and last.settings == settings
        if last is not None and same and all(at.mark() == mark for at, mark in last.marks):
            return last
        marks: list[tuple[WitnessFile, object]] = [(one, one.mark()) for one in self._beside]
        found = [(str(one), self._entries_of(one)) for one in self._beside]
        second = SecondPlaces(
            None if database is None else database.identity,
            {} if database is None else dict(database.witnesses),
            self._entries_of,
            also=None if database is None else self._also,
        )
        marks += [(one.place, one.mark) for one in second.found.values()]
        found += [(str(one.place), one.entries) for one in second.found.values()]
        places: list[WitnessFile] = [*self._beside]
        places += second.noted_places
        entries = [
            {**entry, "where": where}
            for where, known_there in found
            for entry in known_there
            if "moving" not in entry
        ]
        entries.sort(key=lambda entry: -int(entry["step"]))
        self._last = _Look(settings, marks, second, tuple(places), entries)
        return self._last

    def _entries_of(self, place: WitnessFile) -> list[dict[str, Any]]:
        try:
            entries = place.read()
            if any(one["step"] and "writers" not in one for one in entries):
                raise ValueError("an entry does not name the processes that wrote its stream")
            return entries
        except _FAILS as error:
            raise StateError(
                f"the witness {place} of state {self._label} cannot be read ({_why(error)}). It "
                "records the last releases, and without it nobody can tell whether the state was "
                "restored from an old copy: restore the witness from a copy; or, if you know that "
                "the state is the newest, move the witness away, and confirm it "
                f"({field('accept_old_copy', True)})"
            ) from None

    def name(self, connection: Connection, place: State) -> None:
        """Name the place (path) at which the second witness, a record of releases away from
        the state, is kept from now on.

        The new place takes the entries of each earlier place, whose file is removed.

        Args:
            connection: a transaction that writes the state. The earlier files are removed before it
                commits, so that no copy of the state finds them any more.

        Raises:
            StateError: a place cannot be read or written.
        """
        database, address = self._state(), address_of(place)
        database.read_witnesses(connection)
        known = dict(database.witnesses)
        if known.get(address) == NAMED:
            return
        look = self._look()
        if address != NONE:
            known.pop(NONE, None)
            old = [one for one in look.second.found.values() if one.entries and one.note != LOST]
            old = [one for one in old if one.address != address]
            self._begin(address, look, moving=bool(old))
            new = place_at(address, database.identity)
            for one in old:
                try:
                    one.place.move_to(new)
                except _FAILS as error:
                    raise self._unwritten(one.place, error, _NOTHING_RELEASED) from None
                known.pop(one.address, None)
            self._write(new, [first_entry(database.identity, self._label)])
            for one in look.second.gone_places:
                known.pop(one.address, None)
        self._remember(connection, {**known, address: NAMED})

    def keep(self, connection: Connection, place: State | None) -> None:
        """Keep the second witness (a record of releases away from the state) at this path,
        or where it was before if ``place`` is None.

        If it had no place, it is kept in the user's folder for program state. For a state on a
        server, the folder is on each user's own machine.
        """
        if place is not None:
            self.name(connection, place)
        database, look = self._state(), self._look()
        second = look.second
        known = dict(database.witnesses)
        home = None if second.home is None else second.found.get(str(second.home))
        wanted = home is not None and not (second.named_addresses or second.none_wanted)
        if home is not None and wanted and (home.note != HOME or not home.entries):
            with suppress(*_FAILS):  # `remarks` says that it cannot be written
                self._begin(home.address, look)
                known[home.address] = HOME
        self._remember(connection, known)

    def give_up_missing(self, connection: Connection) -> tuple[str, ...]:
        """Record, at the user's request, that those files of the second witness which
        cannot be found are lost; return their addresses.

        The second witness is a record of the releases that is kept away from the state.
        """
        second = self._look().second
        lost = {one.address: LOST for one in second.missing_places}
        self._remember(connection, {**self._state().witnesses, **lost})
        return tuple(lost)

    def _begin(self, address: str, look: _Look, *, moving: bool = False) -> None:
        """Begin the second witness at one more address, with copies of its entries for this state.

        The second witness is a record of the releases that is kept away from the state, at one or
        several addresses. ``look`` holds the entries found at its other addresses; ``moving`` says
        that some of these are removed next.
        """
        database = self._state()
        known = [
            {word: value for word, value in entry.items() if word != "where"}
            for entry in reversed(look.entries)
            if entry.get("identity") == database.identity
        ]
        first = first_entry(database.identity, self._label, moving=moving)
        self._write(place_at(address, database.identity), [first, *known])

    def _write(self, place: WitnessFile, entries: Entries) -> None:
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
        """Return sentences that warn if the witness (the record of releases outside the state)
        would not notice some old copy of the state; none if it would notice every one.
        """
        named = None if witness is None else address_of(witness)
        second, remarks = self._look().second, list[str]()
        if named is None:
            remembered = [NONE] if second.none_wanted else second.named_addresses
            remarks = [
                f"an earlier run named the second witness {one!r}, and the state remembers it "
                f"though {field('witness')} is not given now: to change it, name another place, or "
                f"{NONE!r}"
                for one in remembered
                if in_file
            ]
            named = next(iter(remembered), None)
        if not any(one.stands for one in self._beside) and self._serves():
            remarks.append(
                f"the witness {self._beside[0]} is missing, though state {self._label} has "
                "released something. It records the last releases: restore it, or make its place "
                "writable; until then only the second witness notices an old copy of the state"
            )
        if named == NONE:
            return remarks
        home = default_folder()
        if named is None and (why := _why_not_written(home)) is not None:
            return [*remarks, self._no_second(why)]
        if (inside := self._inside(home if named is None else named)) is not None:
            remarks.append(
                f"the second witness {inside} lies in the folder of the state {self._label}: if "
                "the whole folder were restored from a copy, nobody would notice that the state is "
                f"old; give a place elsewhere, {field('witness')}"
            )
        if named is None and self._database is not None and self.entries():
            at = second.found[str(home)]
            if at.note is None and not at.entries:
                remarks.append(
                    f"the second witness {at.place} has no record of state {self._label} yet, and "
                    "begins now; if you moved the state here, move its second witness too"
                )
        return remarks

    def _serves(self) -> bool:
        """Return True if a stream of the state has released something under the key whose file lies
        beside the first witness file.

        A witness file records releases: ``KEY.witness`` lies beside the key file ``KEY``. The
        result is False if the state is not open, or if that key cannot be used.
        """
        for one in self._beside[:1] if self._database is not None else ():
            with suppress(WrongKey), self._state().transaction(write=False) as connection:
                key = Key.load(Path(str(one).removesuffix(".witness")))
                said = "SELECT key_fingerprint, key_salt FROM counton_streams WHERE step > 0"
                return any(fits(key, *row) for row in connection.rows(said))
        return False

    def _no_second(self, why: str) -> str:
        if self._beside:
            return (
                f"there is no second witness ({why}): if the state were restored together with the "
                "witness beside its key, nobody would notice that it is old; give another place to "
                f"record releases, {field('witness')}, or set XDG_STATE_HOME"
            )
        return (
            "there is no witness, which would record the last releases: the state is on a server, "
            f"no key file is named, and {why}. An old copy of the state would not be noticed, so "
            f"nothing is released until the key is in a file, or you give {field('witness')}: a "
            f"folder for the record, or {NONE!r}"
        )

    def _inside(self, place: State | None) -> Path | None:
        """Return the path of a file of the witness (the record of releases) if the file lies in the
        state's folder or below; None for any other place.
        """
        file, _ = place_of(self._label if self._database is None else self._database)
        if file is None or place is None:
            return None
        at = Path(os.path.realpath(place))
        return at if at.is_relative_to(file.resolve().parent) else None

    def refuse_unknown(self, connection: Connection, beginning: str) -> None:
        """Refuse a stream's first step if another stream of the state has released something.

        Called if the witness, the record of releases outside the state, is empty: it should have
        recorded that release. Nothing is refused for a state on a server, or if the user wants no
        second witness.

        Args:
            beginning: name of the stream that releases its first step, or "".

        Raises:
            OldCopy: nobody can tell whether the state lacks releases.
        """
        second = self._look().second
        said = "SELECT name FROM counton_streams WHERE step > 0 AND name <> :name LIMIT 1"
        released = connection.first(said, name=beginning)
        if released is not None and not (self._on_server or second.none_wanted):
            raise OldCopy(self._unknown(f"stream {released.name!r} has released something"))

    def refuse_missing(self) -> None:
        """Refuse a state if a file of its second witness (a record of releases away
        from the state) should exist and is missing.

        Raises:
            StateUnavailable: the place may be on a disk that is not mounted.
        """
        second = self._look().second
        for one in second.missing_places:
            raise StateUnavailable(
                f"the witness {one.place} of state {self._label} is missing. It records the last "
                "releases, and without it nobody can tell whether the state was restored from an "
                "old copy: mount its disk, or restore it; until then nothing is released. An old "
                "copy would release steps again from other rows. Only if the witness is lost for "
                "good, and you know that the state is the newest, confirm it "
                f"({field('accept_old_copy', True)})"
            )

    def forgotten_entries(
        self, known: Mapping[str, Collection[str]], identity: str | None
    ) -> list[dict[str, Any]]:
        """Return the entries that the witness (the record of releases outside the state) has for
        streams that the state lacks.

        An entry holds the last recorded step of a stream; only streams that have released something
        are returned. An entry belongs to this state if it has the fingerprint of a key of the
        state, or the state's address or identity.

        Args:
            known: names of the state's streams, by fingerprint of their keys.
            identity: identity of the state; None if the state does not exist yet.
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
        """Refuse a state that lacks streams which have released something, according to the
        witness, the record outside the state.
        """
        for entry in self.forgotten_entries(known, identity):
            name, steps = entry["stream"], entry["step"]
            what = "1 step" if steps == 1 else f"{steps:,} steps"
            raise OldCopy(
                f"state {self._label} has no release {name!r}, but {entry['where']} records {what} "
                "of it as released, so the state was lost or restored from an old copy. The "
                "privacy loss of those releases remains, and the ledger does not count it any "
                "more: restore the newest copy of the state; if it is lost for good, begin another "
                f"{field('state')}, with a limit reduced by that loss"
            )

    def check(
        self, at: Mark, digest: Callable[[int], str | None], *, forgetting: bool = False
    ) -> None:
        """Refuse a stream that is an old copy: the witness, the record outside the state, has
        releases or deletions of people that the stream lacks.

        Args:
            at: the stream's progress as the state has it.
            digest: function that returns the digest of a step's release, or None if the state has
                none.
            forgetting: the caller is going to delete a person's data; missing deletions are then
                allowed.

        Raises:
            StateError: the witness knows later releases, another release at the same step, or more
                deletions; or the witness cannot be read, or one of its places is missing.
        """
        self.refuse_missing()
        for entry in self._of(at):
            if entry["step"] > at.step:
                raise OldCopy(
                    f"stream {at.name!r} is at step {at.step:,} in state {self._label}, but "
                    f"{entry['where']} records that step {entry['step']:,} is released, so the "
                    "state was restored from an old copy. Releasing a step again from other data, "
                    "with equal noise, would reveal the difference of the data: restore the newest "
                    "copy; or, if it is lost, end this stream and begin another one "
                    f"({field('name')})"
                )
            if entry["step"] and digest(entry["step"]) != entry["digest"]:
                raise other_release(at.name, self._label, entry["step"], entry["where"])
            if not forgetting and entry["forgotten"] > at.forgotten:
                more = entry["forgotten"] - at.forgotten
                times = "once" if more == 1 else f"{more:,} times"
                raise OldCopy(
                    f"state {self._label} is an old copy: {entry['where']} records that people "
                    f"were forgotten in stream {at.name!r} {times} since the copy was made, and "
                    "the copy still remembers them: restore the newest copy, or forget them again "
                    f"(counton forget), {times}; until then nothing is released"
                )

    def _of(self, at: Mark) -> list[dict[str, Any]]:
        """Return the entries that the witness (the record of releases outside the state) has for
        one stream, the latest steps first. ``at`` has the stream's name and the fingerprint of its
        key.
        """
        return [one for one in self.entries() if (one["key"], one["stream"]) == at[:2]]

    def check_shown(self, at: Mark, digest: str | None) -> None:
        """Refuse to show a stream's last release if the witness (the record outside the state) has
        recorded another release of that step.

        ``digest`` is the digest of the release that would be shown.

        Raises:
            StateError: the witness has recorded another release of this step, or a later step
                without this release; or the witness cannot be read.
        """
        of, known = self._of(at), False
        for entry in of:
            past = {**dict(map(tuple, entry["past"])), entry["step"]: entry["digest"]}
            if past.get(at.step, digest) != digest:
                raise other_release(at.name, self._label, at.step, entry["where"])
            known |= at.step in past or (len(past) > PAST and at.step < min(past))
        if of and of[0]["step"] > at.step and not known:
            raise other_release(at.name, self._label, at.step, of[0]["where"])

    def is_later(self, at: Mark) -> bool:
        """Return True if the witness (the record outside the state) has recorded later steps of a
        stream than ``at``, its progress in the state.
        """
        return any(entry["step"] > at.step for entry in self._of(at))

    def knows(self, at: Mark) -> bool:
        """Return True if the witness (the record of releases outside the state) has an entry for
        the stream that ``at`` names.
        """
        return bool(self._of(at))

    def vouches(self, at: Mark) -> bool:
        """Return True if the witness (the record of releases outside the state) proves that a
        stream is not an old copy. ``at`` is the stream's progress in the state.

        For a state in a file, an entry for the stream is proof enough. On a server the witness must
        also have recorded the last writer, or have seen the stream exactly as it is: otherwise
        another writer may have gone further.

        Without an entry for the stream the result is True if the stream has released nothing, or if
        the user wants no second witness.
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
        """Return why the witness (the record of releases outside the state) cannot tell whether a
        stream is an old copy; None if it can. ``at`` is the stream's progress in the state.
        """
        if self.is_later(at) or self.vouches(at):
            return None
        what = f"stream {at.name!r} is at step {at.step:,}"
        if not self._on_server:
            return self._unknown(what)
        seen = f"{self.where} has not" if self.places else "no witness here has"
        return self._unknown(
            what,
            f"{seen} seen who wrote the state last: another server wrote it while this one was "
            "away",
        )

    @property
    def _on_server(self) -> bool:
        return self._database is not None and not self._database.is_sqlite

    def _unknown(self, what: str, why: str | None = None) -> str:
        why = why or f"{self.where} has no record of it: it is missing, or new"
        return (
            f"{what} in state {self._label}, and {why}, so nobody here can tell whether the state "
            "was restored from an old copy. An old copy would release steps again, with equal "
            "noise, and reveal how the data differ: restore the newest copy with its witness, or "
            f"give the place of the second witness, {field('witness')}; if you know that this copy "
            f"is the newest, confirm it ({field('accept_old_copy', True)})"
        )

    def join(self, at: Mark) -> None:
        """Record in the witness (outside the state) that a process becomes the writer of a stream,
        before the process writes.

        ``at`` is the stream's progress, with the number of the new writer.
        """
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
        """Record a committed release in all places of the witness (the record outside the state),
        before the release is shown to anybody.

        Args:
            at: the stream's progress after the release, whose digest is ``digest``.
            released: function that returns the digest of an earlier step's release, or None if the
                state has none.
            writes: True if this process made the release, as the stream's writer.
            seen: True if another process made the release and this one only read it.

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

        def act(place: WitnessFile) -> StateError | None:
            other = place.note(entry, agrees)
            return None if other is None else other_release(at.name, self._label, other, str(place))

        self._each(
            act,
            f"what {at.name!r} has released is kept in the state, but not shown yet; make the "
            "witness writable, then run the same command again",
        )

    def reserve(self, at: Mark) -> None:
        """Check, before a release is committed, that every file of the witness (the
        record of releases outside the state) can record it afterwards.
        """
        entry = self._entry(at, "0" * 64, writes=True)
        self._each(lambda place: place.reserve(entry), _NOTHING_RELEASED)

    def is_behind(self, at: Mark) -> bool:
        """Return True if some file of the witness (the record outside the state) has
        not recorded a stream's progress ``at``: its last step, or all its deletions of people.
        """
        return any(
            all(
                (one["key"], one["stream"], one["step"]) != at[:3]
                or one["forgotten"] < at.forgotten
                for one in self._entries_of(place)
            )
            for place in self.places
        )

    def lacks(self, at: Mark) -> str | None:
        """Return, in words, why the witness (the record of releases outside the state) would not
        notice an old copy of the state; None if it would notice it. ``at`` is the stream's progress
        as the state has it.
        """
        if not at.step:
            return None
        for place in self.places:
            if not place.stands:
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
                return f"the witness {path} cannot be written ({error.strerror}): make it writable"
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
            f"the state is at step {at.step:,}, but its witness {self.where} records only steps up "
            f"to {max(known):,}, so it could not tell an old copy of the state from the newest: if "
            "you restored the witness, restore its newest copy; if a run was interrupted, the next "
            "run records the missing steps"
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

    def _each(self, act: Callable[[WitnessFile], StateError | None], what: str) -> None:
        """Write to every place (file) of the witness, the record of releases outside
        the state.

        An error is raised if a place in use cannot be written. Unless the user wants no second
        witness, an error is also raised if no place can be written.

        Args:
            act: function that writes to a place; it returns an error to raise, or None.
            what: words for the message if a place cannot be written; they say what happened to the
                release.
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

    def _unwritten(self, place: WitnessFile, error: Exception, what: str) -> StateError:
        return StateUnavailable(
            f"the witness {place} of state {self._label} cannot be written ({_why(error)}). It "
            f"records the last releases, and without it nobody would notice an old copy of the "
            f"state: {what}"
        )


def other_release(name: str, state: str, step: int, where: str) -> OldCopy:
    """Build the error for a step whose release in the state differs from the release that was
    recorded outside the state.

    ``where`` names the record: a witness, the file of last releases.
    """
    return OldCopy(
        f"step {step:,} of stream {name!r} has another release in state {state} than {where} "
        "records, so two copies of the state were continued; equal noise on two data sets reveals "
        "how they differ: go on with the recorded copy, and stop using the other"
    )


def _wrote(known: Sequence[int], writer: int) -> bool:
    """Return True if a stream's present writer is one of the recorded writers (``known``).

    Writers are numbers. A change that releases nothing raises a writer's number by 1, and each
    opening raises it by at least `AMENDMENTS`. So numbers that differ by less than `AMENDMENTS`
    belong to the same writer.
    """
    return any(0 <= writer - one < AMENDMENTS for one in known)


def _why(error: Exception) -> str:
    if isinstance(error, CountonError):
        return str(error)
    return getattr(error, "strerror", None) or "it was altered, or written only in part"


def release_digest(key: Key, name: str, step: int, value: NDArray[Any]) -> str:
    """Return a keyed digest (HMAC-SHA256) of the values released at a step, for the witness, the
    record of releases outside the state.

    ``name`` is the name of the stream, and ``value`` has one number per cell. The digest has a key
    because some cells are never shown, such as those of undeclared groups. Without a key, one could
    find their values by trying, and learn how many such cells there are.

    >>> released = "visits", 3, np.array([12])
    >>> one, other = (release_digest(Key.generate(), *released) for _ in range(2))
    >>> len(one), one == other
    (64, False)
    """
    data = np.ascontiguousarray(value)
    plain = data.astype(data.dtype.newbyteorder("<"), copy=False)
    subkey = key.derive(b"witness", name.encode())
    digest = hmac.new(subkey, step.to_bytes(8, "little"), "sha256")
    digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()

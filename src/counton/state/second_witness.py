"""Places of the second witness, outside the state's folder, so that no copy of the folder holds it
too.

A witness records the last step that each stream has released, so that an old copy of the state is
recognised. A place is where a witness is kept: the user's folder for program state
(``$XDG_STATE_HOME/counton``, by default ``~/.local/state/counton``), or a folder or database that a
run names. In it each state has a file, or rows, named by the state's identity. Copies share the
identity, so a reader needs no key.

A state remembers every place that it ever had, and reads all of them. If a new place is named,
releases are no longer noted in the earlier ones; each gets an entry that points to the new place.
So even an old copy of the state finds all later places from those it remembers. If a place is
missing that should exist, nothing is released until it is back, or until the user says that it is
lost: it may be on a disk that is not mounted.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from counton.base.errors import InvalidInput, RequestMismatch, field
from counton.noise.witness import Entries, WitnessFile, WitnessPlace, merge_entries, parse_entries
from counton.state import ledger_rows as books
from counton.state.database import Database, given_address, kept_address, state_file
from counton.state.sql import Connection
from counton.state.sqlite_file import NoState

#: Where a witness is kept: a folder, or a database URL.
Place = str | os.PathLike[str]

#: Kinds of places that a state remembers: the user's folder; a place that a run named; a place
#: that a later one has replaced; a place that the user has declared lost.
HOME, NAMED, LEFT, LOST = "home", "named", "left", "lost"
#: Given as the place by a user who wants no second witness.
NONE = "none"
#: Stands in place of a key's fingerprint in an entry that points to later places.
_PLACES = "places"


def default_folder() -> Path | None:
    """Return the user's folder for program state; None if the user has no home."""
    given = os.environ.get("XDG_STATE_HOME", "")
    if Path(given).is_absolute():
        return Path(given) / "counton"
    try:
        return Path.home() / ".local" / "state" / "counton"
    except RuntimeError:
        return None


def address_of(place: Place) -> str:
    """Return the address of a place for a second witness (a record of releases away from the state)
    as a state stores it: an absolute path, or a URL without its password.

    Raises:
        InvalidInput: neither a folder nor a database URL.
    """
    given: Any = place
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or not text:
        raise InvalidInput(
            f"{field('witness', place)} is neither a folder nor a database: give a folder, the URL "
            f"of a database, or {NONE!r} for no second witness"
        )
    if "://" not in text:
        return text if text == NONE else os.path.abspath(text)
    kept = kept_address(text, "witness")
    return kept if "://" in kept else f"sqlite:///{kept}"


def onward_entry(identity: str, label: str, onward: list[str]) -> dict[str, Any]:
    """Build the entry that points from a former place of the second witness to the places that
    replace it.

    The second witness is the record of releases away from the state. The entry is written to the
    former place.

    Args:
        identity: identity of the state.
        label: address of the state, for messages.
        onward: addresses of the later places.
    """
    texts = {"key": _PLACES, "state": label, "identity": identity, "stream": "", "digest": ""}
    return {**texts, "step": 0, "onward": onward}


class SecondPlace(NamedTuple):
    """One place (a file or database rows) at which a second witness is kept, and what it holds.

    The second witness is a record of the releases. It is kept away from the state, and so shows
    when the state is an old copy.

    Attributes:
        note: the state's note on the place: that it is the user's folder, that a run named it, or
            that it is lost; None if the state has no note.
        mark: a value that changes whenever the content changes; it was taken before reading.
    """

    address: str
    place: SecondWitness
    note: str | None
    mark: object
    entries: Entries

    @property
    def onward(self) -> list[str]:
        """Addresses of later places of the second witness (the record of releases away from the
        state) that replace this one, as recorded here.
        """
        return [to for entry in self.entries for to in entry.get("onward", ())]


class SecondPlaces:
    """All places (files or database rows) of a state's second witness, the record of releases away
    from the state. The state stores the addresses of some places; these places point to others.

    The folder of the current user is read too.

    Args:
        identity: identity of the state; None if the state is not open: then no places are read.
        known: the state's note on each remembered place, by address: see `SecondPlace`.
        read: function that reads the entries of a place.
        server: whether the state is on a server. The folders of users on other machines cannot be
            read then; `Witness.unseen` notices what these machines wrote.
        also: address of one more place to read.

    Attributes:
        none_wanted: whether the user has said that there shall be no second witness.
        home: the user's folder for program state; None if the user has no home.
        found: all places that were read, by address.
        kept_places: places in use: those that no later place has replaced.
        missing_places: places that should exist and do not.
        noted_places: places in which every release is recorded before anybody is shown it.
        named_addresses: addresses of places in use that a run has named.
    """

    def __init__(
        self,
        identity: str | None,
        known: Mapping[str, str],
        read: Callable[[WitnessPlace], Entries],
        *,
        server: bool,
        also: str | None,
    ) -> None:
        self.none_wanted = known.get(NONE) == NAMED or also == NONE
        self.home = default_folder()
        self.found: dict[str, SecondPlace] = {}
        todo = [*known, *(str(one) for one in (self.home, also) if one is not None)]
        for address in todo:
            if address in self.found or address == NONE or identity is None:
                continue
            place, note = place_at(address, identity), known.get(address)
            mark = place.mark()
            # Nothing is read from a user's folder that belongs to somebody else, as under ``sudo``.
            others = isinstance(place, WitnessFile) and not os.access(place.path.parent, os.X_OK)
            entries = [] if note is None and others else read(place)
            one = self.found[address] = SecondPlace(address, place, note, mark, entries)
            todo += one.onward
        led_to = {to for one in self.found.values() for to in one.onward}
        to_be = [
            one
            for one in self.found.values()
            if one.note in (HOME, NAMED) or (one.address in led_to and one.note != LOST)
        ]
        # All places point on if a process was killed on the way back to an earlier place.
        self.kept_places = [one for one in to_be if not one.onward] or to_be
        # Homes of other machines, which this machine does not see.
        elsewhere = server or self.none_wanted
        there = [
            one
            for one in self.kept_places
            if one.entries or not (elsewhere and one.note == HOME and one.address not in led_to)
        ]
        self.missing_places = [one for one in there if not one.entries]
        self.noted_places = [one.place for one in there]
        self.named_addresses = [one.address for one in self.kept_places if one.note != HOME]


def place_at(address: str, identity: str) -> SecondWitness:
    """Return the place (a file or database rows) at this address that holds the second witness (the
    record of releases) of the state with this identity.
    """
    if "://" in address:
        return WitnessTable(address, identity)
    return WitnessFile(Path(address) / f"{identity}.witness", second=True)


def refuse_the_state(address: str, database: Database) -> None:
    """Refuse a second witness (a record of releases that shows old copies) in the state's own
    database, because restoring an old state would restore an old witness too.
    """
    if address == NONE or "://" not in address:
        return
    same = state_file(address) == database.path
    if database.path is None:
        with WitnessTable(address, database.identity).open_database(create=True) as other:
            same = other.identity == database.identity
    if same:
        raise RequestMismatch(
            f"the second witness of state {database.label} would be kept in the state itself, so "
            "an old copy of the state would bring an old witness along: give another "
            f"{field('witness')}"
        )


class WitnessTable(WitnessPlace):
    """A second witness (a record of releases away from the state) kept in tables of a database;
    `WitnessFile` is one kept in a file.
    """

    def __init__(self, address: str, identity: str) -> None:
        self._address, self._identity = address, identity

    def __str__(self) -> str:
        return f"{self._address} (witness)"

    @override
    def read(self) -> Entries:
        try:
            with self.open_database() as database, database.transaction(write=False) as connection:
                return self._entries(connection)
        except NoState:
            return []

    def begin(self, entries: Entries) -> None:
        """Make the tables of this second witness if needed, and write entries (last released steps
        of streams) into them, in place of entries of earlier steps.
        """
        with (
            self.open_database(create=True) as database,
            database.transaction(write=True) as connection,
        ):
            books.lock(connection)
            self._write(connection, merge_entries(entries, self._entries(connection)))

    @override
    def _change(self, change: Callable[[Entries], Entries | None]) -> None:
        with self.open_database() as database, database.transaction(write=True) as connection:
            books.lock(connection)
            known = self._entries(connection)
            if not known:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
            entries = change(known)
            if entries is not None:
                self._write(connection, entries)

    @override
    def reserve(self, entry: dict[str, Any]) -> None:
        self.join({**entry, "digest": ""})  # this rewrites all rows once

    @contextmanager
    def open_database(self, *, create: bool = False) -> Iterator[Database]:
        """Open the database that holds this second witness; if it is missing and ``create`` is set,
        make it.
        """
        database = Database(given_address(self._address), create=create)
        try:
            yield database
        finally:
            database.close()

    def _entries(self, connection: Connection) -> Entries:
        said = "SELECT entry FROM counton_witness WHERE state = :state"
        texts = [row.entry for row in connection.rows(said, state=self._identity)]
        return parse_entries(f"[{','.join(texts)}]".encode()) if texts else []

    def _write(self, connection: Connection, entries: Entries) -> None:
        mine = {"state": self._identity}
        connection.run("DELETE FROM counton_witness WHERE state = :state", **mine)
        rows = (
            {"key": one["key"], "stream": one["stream"], "entry": json.dumps(one)}
            for one in entries
        )
        connection.insert("counton_witness", *(mine | row for row in rows))


SecondWitness = WitnessFile | WitnessTable

"""Places of the second witness, outside the state's folder, so that no copy of the folder holds it
too.

A witness records the last step that each stream has released, so that an old copy of the state is
recognised. A place is where a witness is kept: the user's folder for program state
(``$XDG_STATE_HOME/counton``, by default ``~/.local/state/counton``), or a folder that a run names.
In it each state has a file named by the state's identity. Copies share the identity, so a reader
needs no key.

A state remembers every place that it ever had, and reads all of them. If a new place is named,
releases are no longer noted in the earlier ones; each gets an entry that points to the new place.
So even an old copy of the state finds all later places from those it remembers. If a place is
missing that should exist, nothing is released until it is back, or until the user says that it is
lost: it may be on a disk that is not mounted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from counton.base.errors import InvalidInput, field
from counton.noise.witness import Entries, WitnessFile

#: Where a witness is kept: a folder.
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
    as a state stores it: an absolute path.

    Raises:
        InvalidInput: not the path of a folder.
    """
    given: Any = place
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "://" in text:
        raise InvalidInput(
            f"{field('witness', place)} is not the path of a folder: give a folder, which may lie "
            f"on a disk that several machines share, or {NONE!r} for no second witness"
        )
    return text if text == NONE else os.path.abspath(text)


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
    """One place (a file) at which a second witness is kept, and what it holds.

    The second witness is a record of the releases. It is kept away from the state, and so shows
    when the state is an old copy.

    Attributes:
        note: the state's note on the place: that it is the user's folder, that a run named it, or
            that it is lost; None if the state has no note.
        mark: a value that changes whenever the content changes; it was taken before reading.
    """

    address: str
    place: WitnessFile
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
    """All places (files) of a state's second witness, the record of releases away
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
        read: Callable[[WitnessFile], Entries],
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
            others = not os.access(place.path.parent, os.X_OK)
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


def place_at(address: str, identity: str) -> WitnessFile:
    """Return the file in this folder that holds the second witness (the record of releases) of the
    state with this identity.
    """
    return WitnessFile(Path(address) / f"{identity}.witness", second=True)

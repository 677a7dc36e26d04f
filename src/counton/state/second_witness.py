"""Places of the second witness, outside the state's folder, so that no copy of the folder holds it
too.

A witness records the last step that each stream has released, so that an old copy of the state is
recognised. A place is where a witness is kept: the user's folder for program state
(``$XDG_STATE_HOME/counton``, by default ``~/.local/state/counton``), or a folder that a run names.
In it each state has a file named by the state's identity. Copies share the identity, so a reader
needs no key.

A state remembers the places that it has, and reads all of them. If a new place is named, it takes
the witness: the earlier files are removed, and then the state remembers the new place alone. So an
old copy of the state looks for a file that is gone. If a place is missing that should exist,
nothing is released until it is back, until a run names the place that took it, or until the user
says that it is lost: it may be on a disk that is not mounted.
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
#: that the user has declared lost.
HOME, NAMED, LOST = "home", "named", "lost"
#: Given as the place by a user who wants no second witness.
NONE = "none"
#: Stands in place of a key's fingerprint in the entry that begins a file.
_BEGINNING = "beginning"


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


def first_entry(identity: str, label: str, *, moving: bool = False) -> dict[str, Any]:
    """Build the entry that begins a file of a second witness, the record of releases away from the
    state.

    Args:
        identity: identity of the state.
        label: address of the state, for messages.
        moving: whether an earlier file, which the new one is to replace, is not removed yet.
    """
    texts = {"key": _BEGINNING, "state": label, "identity": identity, "stream": "", "digest": ""}
    return {**texts, "step": 0, "moving": moving}


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
    def whole(self) -> bool:
        """True if this place holds the second witness (the record of releases away from the state),
        and no earlier place is still to be removed.
        """
        return bool(self.entries) and not any(entry.get("moving") for entry in self.entries)


class SecondPlaces:
    """All places (files) of a state's second witness, the record of releases away
    from the state. The state stores their addresses.

    The folder of the current user is read too.

    Args:
        identity: identity of the state; None if the state is not open: then no places are read.
        known: the state's note on each remembered place, by address: see `SecondPlace`.
        read: function that reads the entries of a place.
        also: address of one more place to read.

    Attributes:
        none_wanted: whether the user has said that there shall be no second witness.
        home: the user's folder for program state; None if the user has no home.
        found: all places that were read, by address.
        kept_places: places in use.
        gone_places: places that the state remembers and that are not there.
        missing_places: the same, but none if the place ``also`` has taken the witness from them.
        noted_places: places in which every release is recorded before anybody is shown it.
        named_addresses: addresses of places in use that a run has named.
    """

    def __init__(
        self,
        identity: str | None,
        known: Mapping[str, str],
        read: Callable[[WitnessFile], Entries],
        *,
        also: str | None,
    ) -> None:
        self.none_wanted = known.get(NONE) == NAMED or also == NONE
        self.home = default_folder()
        self.found: dict[str, SecondPlace] = {}
        for address in [*known, *(str(one) for one in (self.home, also) if one is not None)]:
            if address in self.found or address == NONE or identity is None:
                continue
            place, note = place_at(address, identity), known.get(address)
            mark = place.mark()
            # Nothing is read from a user's folder that belongs to somebody else, as under ``sudo``.
            others = not os.access(place.path.parent, os.X_OK)
            entries = [] if note is None and others else read(place)
            self.found[address] = SecondPlace(address, place, note, mark, entries)
        self.kept_places = [one for one in self.found.values() if one.note in (HOME, NAMED)]
        there = [
            one
            for one in self.kept_places
            if one.entries or not (self.none_wanted and one.note == HOME)
        ]
        # A process was killed between the removal of the earlier file and its commit.
        moved = also in self.found and self.found[also].whole
        self.gone_places = [one for one in there if not one.entries]
        self.missing_places = [] if moved else self.gone_places
        self.noted_places = [one.place for one in there]
        self.named_addresses = [one.address for one in self.kept_places if one.note != HOME]


def place_at(address: str, identity: str) -> WitnessFile:
    """Return the file in this folder that holds the second witness (the record of releases) of the
    state with this identity.
    """
    return WitnessFile(Path(address) / f"{identity}.witness", second=True)

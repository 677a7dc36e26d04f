"""Random histories of states, keys and copies, and what an attacker was shown in each.

A history is a list of moves, so that one that finds something can be made shorter.
"""

import errno
import os
import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from states_put_back import Files, Place

from counton import PureDP, Stream
from counton.base.errors import CountonError
from counton.base.private import Private
from counton.noise import Key
from counton.state import Store, state_summary
from counton.state import key_and_witness as keyfile
from counton.state.addition import Addition
from counton.state.key_and_witness import Witness
from counton.state.watch import Watch
from counton.strategies import Binary

#: What is done, in which place, and what chance it has.
Move = tuple[str, int, int]
#: How often each move is drawn: with files, and with a server that others use too.
OF_FILES = {
    "release": 9, "save": 3, "restore": 3, "link": 1, "hard_link": 1, "copy_key": 1, "hold": 1,
    "go_on_held": 2, "unwritable": 2, "note_fails": 1, "killed": 2, "late": 1, "create": 1,
    "watch": 1, "end": 1, "continues": 1,
}  # fmt: skip
OF_SERVERS = {
    "release": 9, "save": 3, "restore": 3, "copy_key": 1, "goes_away": 4, "comes_back": 4,
    "hold": 1, "go_on_held": 2, "note_fails": 1, "killed": 1, "late": 1, "continues": 1,
}  # fmt: skip


def drawn(chance: random.Random, moves: int, *, server: bool = False) -> list[Move]:
    """So many moves."""
    weights = OF_SERVERS if server else OF_FILES
    names = chance.choices([*weights], [*weights.values()], k=moves)
    return [(name, chance.randrange(2), chance.randrange(10**6)) for name in names]


class TwoInputs(AssertionError):
    """One noise was shown on different data."""


class NobodyThere(CountonError):
    """All servers are away."""


class Unnoticed(Exception):
    """One noise was shown on different data, where nobody could have noticed: the end of it."""


class Killed(BaseException):
    """The process ended here."""


class History:
    """Streams of one key in one or several places, and what an attacker was shown of them."""

    def __init__(self, folder: Path, places: list[Place]) -> None:
        self.draw = random.Random(0)  # of each move its own
        self.folder, self.places = folder, places
        key = folder / "my.key"
        Key.generate().save(key)
        self.names = [key]  # by which the key is known to machines that share its folder
        self.copies: list[Path] = []  # of machines with a key file of their own
        #: Of servers, by the key file of each: what looks on while it is there; who is not; what it
        #: saw last of a stream that it knew to be the newest, and of which it knows that now.
        self.watches: dict[Path, Watch] = {}
        self.away: set[Path] = set()
        self.saw: dict[tuple[Path, str], list[int]] = {}
        self.knows: set[tuple[Path, str]] = set()
        self.ended: set[tuple[int, str]] = set()
        #: What each stream of a place has counted, as far as its state knows.
        self.counted: dict[int, dict[str, list[int]]] = {n: {} for n in range(len(places))}
        self.saved: list[tuple[Any, dict[str, list[int]]]] = []
        self.held: list[tuple[int, Path, Stream]] = []
        self.shown: dict[tuple[str, str, int, int], tuple[int, ...]] = {}
        self.went: dict[str, int] = {}

    def run(self, moves: Sequence[Move]) -> None:
        """Make the moves; raises as soon as an address has two inputs."""
        self.create(0)
        if self.places[0].is_server:
            self.copy_key(0)
        try:
            for name, place, seed in moves:
                self.draw = random.Random(seed)
                move: Callable[[int], None] = getattr(self, name)
                with suppress(CountonError):
                    move(place % len(self.places))
                    self.went[name] = self.went.get(name, 0) + 1
                self.learn(place % len(self.places))
        except Unnoticed:
            self.went["unnoticed"] = 1
        finally:
            for *_, stream in self.held:
                stream.close()

    def key(self) -> Path:
        """By a name that somebody may use: a copied key knows nothing of states elsewhere."""
        names = self.names + (self.copies if len(self.places) == 1 else [])
        there = [name for name in names if self.machine(name) not in self.away]
        if not there:
            raise NobodyThere
        return self.draw.choice(there)

    def machine(self, name: Path) -> Path:
        """By the key file of its own: links are of the first one."""
        return name if name in self.copies else self.names[0]

    def machines(self) -> list[Path]:
        """Those that look on."""
        return [one for one in (self.names[0], *self.copies) if one not in self.away]

    def stream(self, place: int) -> str:
        return self.draw.choice(sorted(self.counted[place]) or ["a"])

    def learn(self, place: int) -> None:
        """What is in a state by now may be read by anybody who may read it with its key."""
        if not self.counted[place]:
            return
        for one in state_summary(self.places[place].address)["streams"]:
            counted = self.counted[place].setdefault(one["name"], [])
            assert one["step"] == len(counted), (one, counted)

    def show(self, place: int, stream: Stream, *, excused: bool = False) -> None:
        """All that a stream has released is shown; each node that a release adds is an address.

        Excused is a server that came back to exactly what it had seen last: nothing tells it.
        """
        counted = self.counted[place][stream.name]
        for step in range(1, stream.step + 1):
            stop = step
            while stop:
                start = stop & (stop - 1)
                address = (stream.key_fingerprint, stream.name, start, stop)
                data = tuple(counted[start:stop])
                if self.shown.setdefault(address, data) != data:
                    if excused:
                        raise Unnoticed
                    raise TwoInputs(f"{address}: {self.shown[address]} and {data}")
                stop = start

    def create(self, place: int) -> None:
        name = "abcdefgh"[self.draw.randrange(8)]
        state = self.places[place].address
        with Stream.create(state, name, Binary(256), PureDP(1), key=self.key()):
            self.counted[place][name] = []
        self.look_on(place)
        self.knows |= {(machine, name) for machine in self.machines()}
        self.saw |= {(machine, name): [] for machine in self.machines()}

    def values(self) -> list[int]:
        return [self.draw.randrange(100) for _ in range(self.draw.randint(1, 3))]

    def release(self, place: int, stream: Stream | None = None, key: Path | None = None) -> None:
        key = key or self.key()
        self.look_on(place)
        opened = stream or Stream.open(self.places[place].address, self.stream(place), key=key)
        try:
            if (place, opened.name) in self.ended:
                return
            values, before = self.values(), opened.step
            counted = self.counted[place].get(opened.name, [])
            try:
                opened.release_many(values)
            finally:  # committed, though nobody was shown it
                with Store(self.places[place].address) as store:  # which notes nothing
                    found = store.find(opened.name)
                now = 0 if found is None else found.step
                if now == before + len(values) and len(counted) == before:
                    counted += values
            knew = (self.machine(key), opened.name) in self.knows
            self.show(place, opened, excused=self.places[place].is_server and knew)
            self.knows |= {(machine, opened.name) for machine in self.machines()}
            self.look_on(place)
        finally:
            if stream is None:
                opened.close()

    def save(self, place: int) -> None:
        counted = {name: [*values] for name, values in self.counted[place].items()}
        self.saved.append((self.places[place].saved(), counted))

    def restore(self, place: int) -> None:
        if self.saved:
            saved, counted = self.draw.choice(self.saved)
            self.places[place].put_back(saved)
            self.counted[place] = {name: [*values] for name, values in counted.items()}
            self.ended = {(at, name) for at, name in self.ended if at != place}
            self.knows = {of for of in self.saw if of[0] not in self.away and self.same(of)}

    def same(self, of: tuple[Path, str]) -> bool:
        """Whether a stream is what a server saw last."""
        return self.saw[of] == self.counted[0].get(of[1])

    def goes_away(self, _place: int) -> None:
        there = self.machines()
        if len(there) > 1:
            gone = self.draw.choice(there)
            self.away.add(gone)
            self.watches.pop(gone, None)
            self.knows = {of for of in self.knows if of[0] != gone}
            for held in [one for one in self.held if self.machine(one[1]) == gone]:
                held[2].close()
                self.held.remove(held)

    def comes_back(self, _place: int) -> None:
        if self.away:
            back = self.draw.choice(sorted(self.away))
            self.away.remove(back)
            self.knows |= {of for of in self.saw if of[0] == back and self.same(of)}

    def end(self, place: int) -> None:
        """As ``counton end`` does, which needs no key."""
        name = self.stream(place)
        with Store(self.places[place].address) as store:
            store.amend(name, lambda step: {"ended": step})
        self.ended.add((place, name))

    def continues(self, place: int) -> None:
        """Another stream goes on where one ends: its noise is its own."""
        self.create(place)
        self.end(place)

    def link(self, _place: int) -> None:
        link = self.folder / f"links {len(self.names)}" / "link.key"
        link.parent.mkdir()
        link.symlink_to(self.draw.choice(self.names))
        self.names.append(link)

    def hard_link(self, place: int) -> None:
        other = self.folder / "hard.key"
        os.link(self.names[0], other)
        try:
            Stream.open(self.places[place].address, self.stream(place), key=other).close()
            raise TwoInputs("a key with two names was taken")
        finally:
            other.unlink()

    def copy_key(self, _place: int) -> None:
        copy = self.folder / f"copy {len(self.copies)}.key"
        shutil.copy2(self.names[0], copy)
        first = self.names[0]
        self.saw |= {(copy, of[1]): saw for of, saw in self.saw.items() if of[0] == first}
        self.knows |= {(copy, of[1]) for of in self.knows if of[0] == first}
        with suppress(FileNotFoundError):  # nothing is released yet
            shutil.copy2(f"{self.names[0]}.witness", f"{copy}.witness")
        self.copies.append(copy)

    def hold(self, place: int) -> None:
        name = self.stream(place)
        key = self.key()
        self.held.append((place, key, Stream.open(self.places[place].address, name, key=key)))

    def go_on_held(self, _place: int) -> None:
        if self.held:
            place, key, stream = self.draw.choice(self.held)
            self.release(place, stream, key)

    def unwritable(self, place: int) -> None:
        """As of files that are immutable, or on a disk that is full or read only."""
        plain = os.open

        def opened(path: Any, flags: int, *more: Any, **others: Any) -> int:
            if flags & (os.O_RDWR | os.O_WRONLY) and ".witness" in str(path):
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
            return plain(path, flags, *more, **others)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "open", opened)
            self.release(place)

    def note_fails(self, place: int) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("counton.noise.witness.WitnessFile.note", full)
            self.release(place)

    def killed(self, place: int) -> None:
        """Before the commit, or between the commit and the note."""

        def end(*_: Any, **__: Any) -> None:
            raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Witness, self.draw.choice(["reserve", "note"]), end)
            with suppress(Killed):
                self.release(place)

    def late(self, place: int) -> None:
        name = self.stream(place)
        with Stream.open(self.places[place].address, name, key=self.key()) as stream:
            stream.take(Private(Addition(observed={stream.step + 1: 7})))

    def watch(self, place: int) -> None:
        for machine in self.machines():
            self.look(place, machine)

    def look_on(self, place: int) -> None:
        """As servers do that wait for their turn."""
        if self.places[place].is_server:
            for machine in self.machines():
                self.look(place, machine)
                for of in self.knows:
                    if of[0] == machine and of[1] in self.counted[place]:
                        self.saw[of] = [*self.counted[place][of[1]]]

    def look(self, place: int, key: Path) -> None:
        """As a service does again and again, which is told in its log what it refuses."""
        watch = self.watches.setdefault(key, Watch())
        with suppress(CountonError):
            watch.look(self.places[place].address, key)


def one_file(folder: Path) -> list[Place]:
    return [Files(folder / "state.db")]


def two_files(folder: Path) -> list[Place]:
    return [Files(folder / "state.db"), Files(folder / "elsewhere.db")]


def in_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Witness, "reserve", lambda *_: None)
    patch.setattr("counton.state.standing.let_show", lambda *_: None)  # by whoever looks

    def each(self: Witness, act: Callable[[Any], None], _: str) -> None:
        for place in self.places:
            with suppress(OSError, ValueError):
                act(place)

    patch.setattr(Witness, "_each", each)


def by_every_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(keyfile, "witness_of", lambda file: Path(f"{file}.witness"))

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
from witnesses import refuse_writing

from counton import Key, PureDP, Stream
from counton.base.errors import CountonError, StateUnavailableError
from counton.base.private import Private
from counton.noise.guard_file import GuardFile
from counton.state import Store, state_summary
from counton.state.commit_input import CommitInput
from counton.state.rollback_guard import RollbackGuard
from counton.strategies import Binary

#: What is done, in which place, and what chance it has.
Move = tuple[str, int, int]
#: How often each move is drawn: with files, and with a server that others use too.
OF_FILES = {
    "release": 9, "save": 3, "restore": 3, "link": 1, "hard_link": 1, "copy_key": 1, "hold": 1,
    "go_on_held": 2, "unwritable": 2, "note_fails": 1, "killed": 2, "late": 1, "create": 1,
    "look": 1, "end": 1, "continues": 1, "moves": 2, "moves_in_part": 1,
}  # fmt: skip
OF_SERVERS = {
    "release": 9, "save": 3, "restore": 3, "copy_key": 1, "hold": 1, "go_on_held": 2,
    "note_fails": 1, "killed": 1, "late": 1, "look": 1, "continues": 1,
    "moves": 2,
    "moves_in_part": 1,
}  # fmt: skip


def drawn(chance: random.Random, moves: int, *, server: bool = False) -> list[Move]:
    """So many moves."""
    weights = OF_SERVERS if server else OF_FILES
    names = chance.choices([*weights], [*weights.values()], k=moves)
    return [(name, chance.randrange(2), chance.randrange(10**6)) for name in names]


class TwoInputsError(AssertionError):
    """One noise was shown on different data."""


class Killed(BaseException):
    """The process ended here."""


class History:
    """Streams of one key in one or several places, and what an attacker was shown of them."""

    def __init__(self, folder: Path, places: list[Place]) -> None:
        self.draw = random.Random(0)  # of each move its own
        self.folder = folder
        self.places = places
        key = folder / "my.key"
        Key.generate().save(key)
        self.names = [key]  # by which the key is known; all machines share the witness's folder
        self.ended: set[tuple[int, str]] = set()
        #: What each stream of a place has counted, as far as its state knows.
        self.counted: dict[int, dict[str, list[int]]] = {n: {} for n in range(len(places))}
        self.saved: list[tuple[Any, dict[str, list[int]]]] = []
        self.held: list[tuple[int, Stream]] = []
        self.shown: dict[tuple[str, str, int, int], tuple[int, ...]] = {}
        self.went: dict[str, int] = {}

    def run(self, moves: Sequence[Move]) -> None:
        """Make the moves; raises as soon as an address has two inputs."""
        self.create(0)
        try:
            for name, place, seed in moves:
                self.draw = random.Random(seed)
                move: Callable[[int], None] = getattr(self, name)
                with suppress(CountonError):
                    move(place % len(self.places))
                    self.went[name] = self.went.get(name, 0) + 1
                self.learn(place % len(self.places))
        finally:
            for *_, stream in self.held:
                stream.close()

    def key(self) -> Path:
        """By a name that somebody may use."""
        return self.draw.choice(self.names)

    def stream(self, place: int) -> str:
        return self.draw.choice(sorted(self.counted[place]) or ["a"])

    def learn(self, place: int) -> None:
        """What is in a state by now may be read by anybody who may read it with its key."""
        if not self.counted[place]:
            return
        for one in state_summary(self.places[place].address)["streams"]:
            counted = self.counted[place].setdefault(one["name"], [])
            assert one["step"] == len(counted), (one, counted)

    def show(self, place: int, stream: Stream) -> None:
        """All that a stream has released is shown; each node that a release adds is an address."""
        counted = self.counted[place][stream.name]
        for step in range(1, stream.step + 1):
            stop = step
            while stop:
                start = stop & (stop - 1)
                address = (stream.key_fingerprint, stream.name, start, stop)
                data = tuple(counted[start:stop])
                if self.shown.setdefault(address, data) != data:
                    raise TwoInputsError(f"{address}: {self.shown[address]} and {data}")
                stop = start

    def create(self, place: int) -> None:
        name = "abcdefgh"[self.draw.randrange(8)]
        state = self.places[place].address
        with Stream.create(state, name, Binary(256), PureDP(1), key=self.key()):
            self.counted[place][name] = []

    def values(self) -> list[int]:
        return [self.draw.randrange(100) for _ in range(self.draw.randint(1, 3))]

    def open(self, place: int, **more: Any) -> Stream:
        address = self.places[place].address
        return Stream.open(address, self.stream(place), key=self.key(), **more)

    def release(self, place: int, stream: Stream | None = None) -> None:
        opened = stream or self.open(place)
        try:
            if (place, opened.name) in self.ended:
                return
            values = self.values()
            before = opened.step
            counted = self.counted[place].get(opened.name, [])
            try:
                opened.release_many(values)
            finally:  # committed, though nobody was shown it
                with Store(self.places[place].address) as store:  # which notes nothing
                    found = store.find(opened.name)
                now = 0 if found is None else found.step
                if now == before + len(values) and len(counted) == before:
                    counted += values
            self.show(place, opened)
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

    def end(self, place: int) -> None:
        """As ``counton close`` does, which needs no key."""
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
            raise TwoInputsError("a key with two names was taken")
        finally:
            other.unlink()

    def copy_key(self, _place: int) -> None:
        copy = self.folder / f"copy {len(self.names)}.key"
        shutil.copy2(self.names[0], copy)
        self.names.append(copy)

    def hold(self, place: int) -> None:
        self.held.append((place, self.open(place)))

    def go_on_held(self, _place: int) -> None:
        if self.held:
            self.release(*self.draw.choice(self.held))

    def moves(self, place: int) -> None:
        """A run names a folder for the witness."""
        self.open(place, rollback_guard=self.folder / self.draw.choice(["w 1", "w 2"])).close()

    def moves_in_part(self, place: int) -> None:
        """It is killed before the earlier file is gone, or before the state says so."""
        right = RollbackGuard._begin
        name = self.draw.choice(["move_to", "_begin"])

        def end(*given: Any, **named: Any) -> None:
            if name == "_begin":
                right(*given, **named)
            raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RollbackGuard if name == "_begin" else GuardFile, name, end)
            with suppress(Killed):
                self.moves(place)

    def unwritable(self, place: int) -> None:
        """As of files that are immutable, or on a disk that is full or read only."""
        with pytest.MonkeyPatch.context() as patch:
            refuse_writing(patch)
            self.release(place)

    def note_fails(self, place: int) -> None:
        def full(*_: Any) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("counton.noise.guard_file.GuardFile.note", full)
            self.release(place)

    def killed(self, place: int) -> None:
        """Before the commit, or between the commit and the note."""

        def end(*_: Any, **__: Any) -> None:
            raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RollbackGuard, self.draw.choice(["check_writable_for", "note"]), end)
            with suppress(Killed):
                self.release(place)

    def late(self, place: int) -> None:
        name = self.stream(place)
        with Stream.open(self.places[place].address, name, key=self.key()) as stream:
            stream.commit(Private(CommitInput(totals_by_window={stream.step + 1: 7})))

    def look(self, place: int) -> None:
        with Store(self.places[place].address) as store:
            store.reader(self.stream(place)).releases()


def one_file(folder: Path) -> list[Place]:
    return [Files(folder / "state.db")]


def two_files(folder: Path) -> list[Place]:
    return [Files(folder / "state.db"), Files(folder / "elsewhere.db")]


def in_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RollbackGuard, "check_writable_for", lambda *_: None)
    patch.setattr(
        "counton.state.rollback_guard.confirm_release", lambda *_: None
    )  # by whoever looks
    patch.setattr("counton.state.stream_reader.confirm_release", lambda *_: None)
    patch.setattr("counton.state.store.confirm_release", lambda *_: None)
    right = RollbackGuard._write

    def write(self: RollbackGuard, *given: Any) -> None:
        with suppress(StateUnavailableError):
            right(self, *given)

    patch.setattr(RollbackGuard, "_write", write)


def left_behind(patch: pytest.MonkeyPatch) -> None:
    """Where the witness was, it stays, too."""
    patch.setattr(GuardFile, "move_to", lambda *_: None)

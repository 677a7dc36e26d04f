"""A world in which a state and all that remembers it are put back, each by itself."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from counton import CountonError, PureDP, Stream
from counton.state import Store
from counton.state.rollback_guard import RollbackGuard
from counton.strategies import Binary


class Killed(BaseException):
    """The process ended here."""


class Part(NamedTuple):
    """A part of a world as it was: its files, and the last step that it knows, of each key."""

    files: dict[Path, bytes]
    known: dict[str, int]


class World:
    """A stream, all that remembers it, copies of everything, and what was shown."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.state = folder / "web.db"
        self.parts: dict[str, Callable[[], list[Path]]] = {
            "state": lambda: [*folder.glob("web.db"), *folder.glob("web.db-*")],
            "key": lambda: [*folder.glob("web.db.key")],
            "rollback_guard": lambda: [*home.glob("counton/*.witness")],
        }
        #: The last step that a part ought to know, of each key by its fingerprint.
        self.known: dict[tuple[str, str], int] = {}
        self.copies: list[dict[str, Part]] = []
        self.shown: dict[tuple[str, int], frozenset[int]] = {}
        self.unnoticed = 0

    def save(self) -> None:
        """A backup of everything."""
        self.copies.append(
            {
                name: Part(
                    {path: path.read_bytes() for path in files()},
                    {key: step for (part, key), step in self.known.items() if part == name},
                )
                for name, files in self.parts.items()
            }
        )

    def put_back(self, name: str, copy: dict[str, Part] | None) -> None:
        """A part from a backup; None: it is lost."""
        for path in self.parts[name]():
            path.unlink()
        part = Part({}, {}) if copy is None else copy[name]
        for path, data in part.files.items():
            path.write_bytes(data)
            path.chmod(0o600)
        self.known = {of: step for of, step in self.known.items() if of[0] != name}
        self.known |= {(name, key): step for key, step in part.known.items()}

    def release(self, rows: int, *, killed: bool = False) -> bool:
        """Count rows in the next step; whether somebody was shown it."""
        with pytest.MonkeyPatch.context() as patched:
            if killed:
                patched.setattr(RollbackGuard, "note", dies)
            try:
                with self._open() as stream:
                    stream.release(rows)
            except (CountonError, Killed):
                return False
        return self.read(released=True)

    def _open(self) -> Stream:
        if self.state.exists():
            return Stream.open(self.state, "visits")
        return Stream.create(self.state, "visits", Binary(15), PureDP(1))

    def read(self, *, released: bool = False) -> bool:
        """Show all steps that there are; whether they were."""
        try:
            with Store(self.state) as store:
                reader = store.reader("visits")
                values = reader.releases().values.tolist()
        except CountonError:
            return False
        key = reader.key_fingerprint
        present = [name for name, files in self.parts.items() if files()]
        known = {name: self.known.get((name, key), 0) for name in present}
        for step, value in enumerate(values, 1):
            address = key, step
            shown = self.shown.get(address, frozenset())
            if shown and value not in shown:  # what was shown before tells nothing new
                if any(there >= step for name, there in known.items() if name != "key"):
                    raise AssertionError(f"step {step} was shown twice: {known}")
                self.unnoticed += 1
            self.shown[address] = shown | {value}
        knows = known.get("witness")
        # By a release, and where a witness is behind; of an old copy nothing is noted.
        if released or (knows is not None and knows < len(values)):
            for name in present:
                self.known[name, key] = max(known[name], len(values))
        return True

    def act(self, what: str, part: int, copy: int, rows: int) -> None:
        """A move: a part put back or lost, or rows released, or a look, or a backup.

        Args:
            what: a name of `ACTS`.
            part: which one is put back.
            copy: of which night; 0 loses it.
            rows: what is counted.
        """
        names = sorted(self.parts)
        if what == "put back":
            copies = [None, *self.copies[1:]]
            self.put_back(names[part % len(names)], copies[copy % len(copies)])
        elif what == "save":
            if len(self.copies) < 8:
                self.save()
        elif what == "read":
            self.read()
        else:
            self.release(rows, killed=what == "killed")


#: How often each move is drawn.
ACTS = {"put back": 7, "release": 2, "killed": 1, "read": 1, "save": 1}


def drawn_acts(chance: random.Random, many: int) -> list[tuple[str, int, int, int]]:
    """So many moves, each with rows that no other one has."""
    names = chance.choices([*ACTS], [*ACTS.values()], k=many)
    draw = chance.randrange
    return [(name, draw(60), draw(60), 20 + number) for number, name in enumerate(names)]


def dies(*_: Any, **__: Any) -> None:
    raise Killed


def nights(folder: Path, home: Path) -> World:
    """Three nights, with a backup after each, and one before all."""
    folder.mkdir()
    world = World(folder, home)
    world.save()
    for rows in (3, 5, 7):
        assert world.release(rows)
        world.save()
    return world

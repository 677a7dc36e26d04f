"""Two servers with key files of their own, dumps put back, and every order of what they do.

Each server is a process, which looks at the stream after each move, as a service does. While it is
away there is no process, and nobody looks. No address of noise is shown with two inputs, except
where a server comes back to a dump of exactly what it saw last, which nothing tells it.

``COUNTON_ORDERS=6`` tries all orders of up to six moves, which takes minutes; by default those of
up to four, and each that a defect put back breaks.
"""

import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from databases import looked_into

from counton import PureDP, Stream
from counton.base.errors import CountonError
from counton.noise import Key
from counton.state import watch as watching
from counton.state.database import Database
from counton.state.key_and_witness import Witness
from counton.state.watch import Watch, accept_old_copy
from counton.strategies import Binary

# Each machine has a home of its own, and here they share one: nobody has any.
pytestmark = [pytest.mark.usefixtures("one_witness"), pytest.mark.slow]

LONGEST = int(os.environ.get("COUNTON_ORDERS", "4"))
A, B = "A", "B"
MOVES = [
    *("A releases", "B releases", "dump", "restore"),
    *("A away", "A back", "B away", "B back"),
]
Order = tuple[str, ...]


def orders(length: int) -> Iterator[Order]:
    """All that can be done and might show a noise twice: they release after a dump is put back."""
    for order in product(MOVES, repeat=length):
        if order[-1].endswith("releases") and "restore" in order and _possible(order):
            yield order


def _possible(order: Order) -> bool:
    away: set[str] = set()
    dumped = forgets = False
    for move in order:
        who, what = move[0], move[2:]
        if move == "dump":
            dumped, forgets = True, False
        elif move == "restore":
            if not (dumped and forgets):
                return False
            forgets = False
        elif (what == "back") is not (who in away):
            return False
        elif what == "releases":
            forgets = True
        else:
            away ^= {who}
    return True


class Process:
    """A server, as long as it is there."""

    def __init__(self, state: str, key: Path, name: str) -> None:
        context: Any = multiprocessing.get_context("fork")
        self._end, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, state, key, name), daemon=True)
        self._process.start()
        other.close()

    def ask(self, value: int | None) -> int | None:
        """Look, or release a value: at which step, or None where it is refused."""
        self._end.send(value)
        answer: int | None = self._end.recv()
        return answer

    def end(self) -> None:
        """It is killed."""
        self._process.kill()
        self._process.join()
        self._end.close()


def _serve(questions: Connection, state: str, key: Path, name: str) -> None:
    watch, database = Watch(), Database(state)
    stream = None  # goes on as long as nobody takes it over
    while True:
        value = questions.recv()
        answer = None
        for _ in range(1 if value is None else 2):
            try:
                if value is None:
                    watch.look(database, key, [name])
                else:
                    stream = stream or Stream.open(state, name, key=key)
                    answer = stream.release(value).step
                break
            except CountonError:
                if stream is not None and value is not None:
                    stream.close()
                    stream = None
        questions.send(answer)


class Rows:
    """The rows of one stream, which are dumped and put back."""

    def __init__(self, state: str, name: str) -> None:
        self._state, self._name = state, name

    def dumped(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """As they are."""
        with looked_into(self._state) as connection:
            return [
                (table, [row._asdict() for row in connection.rows(_every(table), name=self._name)])
                for table in _TABLES
            ]

    def put_back(self, dump: list[tuple[str, list[dict[str, Any]]]]) -> None:
        """As they were."""
        with looked_into(self._state) as connection:
            for table, of in _TABLES.items():
                connection.run(f"DELETE FROM {table} {of}", name=self._name)  # noqa: S608 - a table
            for table, rows in reversed(dump):
                connection.insert(table, *rows)


_NAMED = "WHERE name = :name"
#: Tables in which a stream has rows, and which are its own.
_TABLES = {
    "counton_ledger": _NAMED,
    "counton_journal": f"WHERE stream_id IN (SELECT id FROM counton_streams {_NAMED})",  # noqa: S608 - a table
    "counton_streams": _NAMED,
}


def _every(table: str) -> str:
    return f"SELECT * FROM {table} {_TABLES[table]}"  # noqa: S608 - a table


class World:
    """One stream, its two servers, and what was shown of it."""

    def __init__(self, state: str, folder: Path, name: str) -> None:
        self.state, self.name, self.rows = state, name, Rows(state, name)
        self.keys = {who: folder / f"{name} {who}.key" for who in (A, B)}
        Key.generate().save(self.keys[A])
        with Stream.create(state, name, Binary(64), PureDP(1), key=self.keys[A]) as stream:
            stream.release(0)
        shutil.copy2(self.keys[A], self.keys[B])
        accept_old_copy(state, self.keys[B], name)
        self.there = {who: Process(state, key, name) for who, key in self.keys.items()}
        self.counted = [0]  # what the state has counted; each value is another one
        #: What each server saw last of a state that it knew to be the newest; who knows it now.
        self.saw = dict.fromkeys((A, B), self.counted)
        self.knows = {A, B}
        self.shown: dict[tuple[int, int], tuple[int, ...]] = {(0, 1): (0,)}
        self.dump: Any = None
        self.next = 1
        self.refused = 0
        self.look()

    def look(self) -> None:
        for who, process in self.there.items():
            process.ask(None)
            if who in self.knows:
                self.saw[who] = self.counted

    def make(self, move: str) -> bool:
        """Whether it shows noise with two inputs, by a server that could have noticed."""
        who, what = move[0], move[2:]
        twice = False
        if move == "dump":
            self.dump = self.rows.dumped(), self.counted
        elif move == "restore":
            self.rows.put_back(self.dump[0])
            self.counted = self.dump[1]
            self.knows = {who for who in self.there if self.saw[who] == self.counted}
        elif what == "away":
            self.there.pop(who).end()
            self.knows.discard(who)
        elif what == "back":
            self.there[who] = Process(self.state, self.keys[who], self.name)
            if self.saw[who] == self.counted:
                self.knows.add(who)
        else:
            twice = self.release(who)
        self.look()
        return twice

    def release(self, who: str) -> bool:
        knew, value = who in self.knows, self.next
        self.next += 1
        step = self.there[who].ask(value)
        if step is None:
            self.refused += 1
            return False
        self.counted = [*self.counted, value]
        self.knows |= self.there.keys()  # they saw it happen
        assert step == len(self.counted)
        twice, stop = False, step
        while stop:
            start = stop & (stop - 1)
            data = tuple(self.counted[start:stop])
            twice |= self.shown.setdefault((start, stop), data) != data
            stop = start
        return twice and not knew

    def close(self) -> None:
        for process in self.there.values():
            process.end()


def tried(state: str, folder: Path, chosen: list[Order]) -> tuple[list[Order], int]:
    """Orders in which noise is shown twice; and how often a release was refused in all."""
    found, refused = [], 0
    for number, order in enumerate(chosen):
        world = World(state, folder, f"s{number}")
        try:
            twice = [world.make(move) for move in order]
            if any(twice):
                found.append(order)
            refused += world.refused
        finally:
            world.close()
    return found, refused


def test_no_order_shows_a_noise_with_two_inputs(postgres: str, tmp_path: Path) -> None:
    chosen = [order for length in range(2, LONGEST + 1) for order in orders(length)]
    known = [order for _, order in DEFECTS if len(order) > LONGEST]
    found, refused = tried(postgres, tmp_path, [*chosen, *known])
    assert not found
    assert refused >= len(known)


def _any_writer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Witness, "vouches", lambda *_: True)


def _any_step_of_a_writer(patch: pytest.MonkeyPatch) -> None:
    """Who was seen is taken for one's own: it may have gone on, and an old dump come back."""
    plain = Witness.note

    def note(self: Witness, *of: Any, seen: bool = False, writes: bool = False) -> None:
        plain(self, *of, writes=writes or seen)

    patch.setattr(Witness, "note", note)


def _any_journal(patch: pytest.MonkeyPatch) -> None:
    """One that stands still, or was put back, is taken for one that went on."""
    patch.setattr(watching, "_went_on", lambda *_: True)


AWAY = ("A away", "B releases", "dump", "B releases", "restore", "A back", "A releases")
DEFECTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Order]] = [
    (_any_writer, AWAY),
    (_any_step_of_a_writer, ("B releases", *AWAY)),
    (_any_journal, (*AWAY[:-1], "dump", "A releases")),
]


@pytest.mark.parametrize(("defect", "order"), DEFECTS)
def test_each_defect_shows_one(
    postgres: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    defect: Callable[[pytest.MonkeyPatch], None],
    order: Order,
) -> None:
    defect(monkeypatch)
    assert tried(postgres, tmp_path, [order])[0] == [order]

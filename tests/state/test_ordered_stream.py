"""Durable statistics: committed before shown, the same after a kill, refused with other events."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked_commands import forked_python
from letters import Letters, LettersOnDemand, letters_are_known

from counton import Key, PureDP, Stream
from counton.base.errors import (
    BudgetExceeded,
    HorizonExceeded,
    InvalidInput,
    ReplayMismatch,
    StateError,
    StreamConflict,
)
from counton.base.exact import text
from counton.state import Store, state_summary, verify
from counton.state.ordered_state import OrderedMachine, event_digests
from counton.statistics import Distinct, Statistic
from counton.strategies import KAry

__all__ = ["letters_are_known"]  # a fixture
pytestmark = pytest.mark.usefixtures("letters_are_known")

KINDS = [Letters(), LettersOnDemand()]


def create(
    state: str | Path,
    statistic: Statistic,
    name: str = "s",
    horizon: int = 30,
    key: Key | None = None,
    batched: bool = False,
) -> Stream:
    return Stream.create(
        state,
        name,
        KAry.best(horizon),
        PureDP(1),
        statistic=statistic,
        batched=batched,
        key=key,
    )


def give(stream: Stream, letter: str, step: int | None = None) -> list[int]:
    (reading,) = stream.release_events(letter, first_step=step)
    estimates: list[int] = reading.table_columns()["estimate"].tolist()
    return estimates


def exact(stream: Stream) -> OrderedMachine:
    assert stream._ordered_machine is not None
    return stream._ordered_machine


def shown(stream: Stream) -> list[list[int]]:
    return [one.table_columns()["estimate"].tolist() for one in stream.readings()]


@pytest.mark.parametrize("statistic", KINDS, ids=repr)
def test_it_goes_on_after_each_step(statistic: Letters, state: str) -> None:
    letters = "abaabbbaab"
    key = Key.generate()
    with create(state, statistic, key=key) as stream:
        seen = [give(stream, letter) for letter in "abaab"]
    for number, letter in enumerate(letters[5:], 6):
        with Stream.open(state, "s", key=key) as stream:
            assert stream.step == number - 1
            seen.append(give(stream, letter))
    with Stream.open(state, "s", key=key) as stream:
        assert shown(stream) == seen
        assert stream.reading(4)["a"] == seen[3][0]
        again = stream.release_events(letters + "ab", first_step=1)
        assert [one.table_columns()["estimate"].tolist() for one in again][:10] == seen
        assert stream.step == 12
        noise = [one["a"] - (letters + "ab")[: one.step].count("a") for one in again]
        assert len(set(noise)) > 5
    (found,) = verify(state, key=key)
    assert found.right, found
    assert state_summary(state)["streams"][0]["terms"]["statistic"]["statistic"] in repr(statistic)
    with Store(state) as store:
        assert [spend.name for spend in store.spends] == ["s"]


@pytest.mark.parametrize("statistic", KINDS, ids=repr)
def test_what_is_refused_changes_nothing(statistic: Letters, file: Path) -> None:
    with create(file, statistic, horizon=12) as stream:
        stream.release_events("abab")
        before = shown(stream)
        for bad in (
            lambda: give(stream, "a", 2),
            lambda: stream.release_events("abaab", first_step=1),
        ):
            with pytest.raises(ReplayMismatch, match=r"step [24] of statistic 's'"):
                bad()
        with pytest.raises(InvalidInput, match="first step is 6"):
            give(stream, "a", 6)
        with pytest.raises(InvalidInput, match="must be a or b"):
            stream.release_events("ababac", first_step=1)
        with pytest.raises(HorizonExceeded):
            stream.release_events("a" * 9)
        assert stream.step == 4
        assert shown(stream) == before
        with Stream.open(file, "s") as other:
            give(other, "b")
        with pytest.raises(StreamConflict):
            give(stream, "a")
        assert exact(stream)._exact.save() == b"abab"
        with pytest.raises(InvalidInput, match="takes events in order"):
            stream.release_many([[1, 0]])
    with Stream.open(file, "s") as stream:
        assert exact(stream)._exact.save() == b"ababb"
    with (
        Stream.create(file, "plain", KAry.best(9), PureDP(1)) as stream,
        pytest.raises(InvalidInput, match="counts and no statistic"),
    ):
        stream.release_events([1])


#: Where it strikes, and whether the step is committed then.
PLACES = [
    ("before", False, Letters()),
    ("commit", True, Letters()),
    ("witness", True, LettersOnDemand()),
    ("counting", False, LettersOnDemand()),
]


@pytest.mark.parametrize(("place", "committed", "statistic"), PLACES, ids=str)
def test_an_interruption_leaves_what_the_database_says(
    place: str, committed: bool, statistic: Letters, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create(file, statistic, horizon=12) as stream:
        stream.release_events("ab")
        with monkeypatch.context() as patched:
            strike(patched, stream, place)
            with pytest.raises(KeyboardInterrupt):
                give(stream, "b", 3)
        # Whoever asks again is answered once for all, or refused until it is opened again.
        if place in ("commit", "counting"):
            with pytest.raises(StateError, match="open it again"):
                give(stream, "b", 3)
            assert stream.step == 2
        else:
            assert stream.step == 2 + committed
            if committed:
                with pytest.raises(ReplayMismatch):
                    give(stream, "a", 3)
            give(stream, "b", 3)
            give(stream, "a", 4)
            assert exact(stream)._exact.save() == b"abba"
    with Stream.open(file, "s") as stream:
        if place in ("commit", "counting"):
            assert stream.step == 2 + committed
            give(stream, "b", 3)
            give(stream, "a", 4)
        assert stream.step == 4
        assert exact(stream)._exact.save() == b"abba"
    (found,) = verify(file)
    assert found.right, found


def strike(patched: pytest.MonkeyPatch, stream: Stream, place: str) -> None:
    """Let something be interrupted right after it has done its work."""
    owner, name = {
        "before": (stream._counter(), "release_exact"),
        "commit": (stream, "_commit"),
        "witness": (stream._witness, "note"),
        "counting": (exact(stream)._exact, "take"),
    }[place]
    work = getattr(owner, name)

    def then_interrupted(*args: Any, **more: Any) -> None:
        work(*args, **more)
        raise KeyboardInterrupt

    patched.setattr(type(owner), name, lambda _, *args, **more: then_interrupted(*args, **more))


def test_a_limit_holds_for_statistics_too(file: Path) -> None:
    with Store(file, create=True) as store:
        store.set_limit(PureDP(1))
    create(file, Letters()).close()
    with pytest.raises(BudgetExceeded):
        create(file, LettersOnDemand(), "t")


def rows_of(file: Path, kind: str = "exact") -> dict[int, bytes]:
    """Parts of what a statistic knows, by their numbers."""
    with closing(sqlite3.connect(file)) as database, database:
        query = "SELECT part, marks FROM counton_marks WHERE kind = ? ORDER BY part"
        found = dict(database.execute(query, [kind]).fetchall())
    database.close()
    return found


def put(file: Path, rows: dict[int, bytes | None], kind: str = "exact") -> None:
    """Change parts; None removes one."""
    with closing(sqlite3.connect(file)) as database, database:
        for part, blob in rows.items():
            database.execute("DELETE FROM counton_marks WHERE kind = ? AND part = ?", [kind, part])
            if blob is not None:
                row = [1, kind, 0, part, blob]
                database.execute("INSERT INTO counton_marks VALUES (?, ?, ?, ?, ?)", row)
    database.close()


@pytest.mark.parametrize("statistic", [Distinct(), LettersOnDemand()], ids=repr)
def test_what_is_altered_shows(statistic: Any, file: Path) -> None:
    with create(file, statistic) as stream:
        for letter in "abab":
            stream.release_events([letter])
            if stream.step == 3:
                before, head = rows_of(file), rows_of(file, "digest")[0]
    parts, last = rows_of(file), rows_of(file, "digest")[0]
    assert any(b"ab" in blob for blob in parts.values()) is False
    numbers = sorted(parts)
    altered: list[tuple[dict[int, bytes | None], bytes]] = [
        ({part: blob[:-1] + bytes([blob[-1] ^ 1])}, last) for part, blob in parts.items()
    ]
    altered += [
        ({numbers[-1]: None}, last),
        ({numbers[0]: None}, last),
        ({numbers[-1]: parts[numbers[0]]}, last),
        ({numbers[-1] + 1: parts[numbers[-1]]}, last),
        ({**dict.fromkeys(numbers), **before}, head),  # those of an earlier step
        ({}, last[:-1]),
        ({}, last[:8][::-1] + last[8:]),
    ]
    for rows, as_head in altered:
        if as_head == last and all(parts.get(part) == blob for part, blob in rows.items()):
            continue
        put(file, rows)
        put(file, {0: as_head}, "digest")
        (found,) = verify(file)
        assert not found.right
        with pytest.raises(StateError, match="altered"):
            Stream.open(file, "s")
        put(file, {**dict.fromkeys([*rows, *before]), **parts})
        put(file, {0: last}, "digest")
    (found,) = verify(file)
    assert found.right, found


def narrower(checkpoint: bytes) -> bytes:
    """With a tenth of the noise, and the checksum that belongs to it."""
    head, said, kept, packed = checkpoint.split(b"\n", 3)
    terms = json.loads(kept)
    terms["law"]["scale"] = text(Fraction(terms["law"]["scale"]) / 10)
    body = b"\n".join([said, json.dumps(terms, sort_keys=True).encode(), packed])
    return head.split(b" ")[0] + f" {sha256(body).hexdigest()}\n".encode() + body


ALTERED: list[tuple[str, str, Callable[[Any], Any]]] = [
    ("streams", "checkpoint", lambda kept: kept[:60] + bytes([kept[60] ^ 4]) + kept[61:]),
    ("streams", "checkpoint", lambda kept: kept[:-2]),
    ("streams", "checkpoint", lambda kept: b""),
    ("streams", "checkpoint", lambda kept: kept + b"\n"),
    ("streams", "checkpoint", narrower),
    ("streams", "terms", lambda kept: kept[:-3]),
    ("journal", "input_digests", lambda kept: kept + b"x"),
    ("journal", "input_digests", lambda kept: kept[:-1]),
]


@pytest.mark.parametrize("statistic", KINDS, ids=repr)
def test_verify_finds_every_altered_column(statistic: Letters, file: Path) -> None:
    with create(file, statistic) as stream:
        stream.release_events("abab")
    for table, column, alter in ALTERED:
        before, write = (
            f"SELECT {column} FROM counton_{table}",  # noqa: S608
            f"UPDATE counton_{table} SET {column} = ?",  # noqa: S608
        )
        with closing(sqlite3.connect(file)) as database, database:
            ((kept,),) = database.execute(before).fetchall()
            assert alter(kept) != kept
            database.execute(write, [alter(kept)])
        (found,) = verify(file)
        assert found.problems, (column, found)
        assert len(set(found.problems)) == len(found.problems)
        with closing(sqlite3.connect(file)) as database, database:
            database.execute(write, [kept])
        (found,) = verify(file)
        assert found.right, found


def test_a_release_writes_what_is_new_alone(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counton.state.exact_state._LITTLE", 1000)
    names, batches = iter(range(10**6)), [100, 1, 1, 0, 1, 1, 200, 1, 1]
    wholes, written = [], []
    with create(file, Distinct(), horizon=30, batched=True) as stream:
        for number in batches:
            before = rows_of(file)
            stream.release_events([f"user {next(names)}" for _ in range(number)])
            after = rows_of(file)
            written.append([len(after[part]) for part in sorted({*after} - {*before})])
            wholes.append(not {*before} & {*after})
        known = exact(stream)._exact.save()
    # Few bytes for each user who is new; all of them when there are twice as many.
    assert wholes == [False, True, *[False] * 5, True, False]
    for number, whole, sizes in zip(batches, wholes, written, strict=True):
        assert len(sizes) == 1
        assert whole or sizes[0] < 120 + 40 * number
    with Stream.open(file, "s") as stream:
        assert exact(stream)._exact.save() == known
        stream.release_events(["user 0"])
    (found,) = verify(file)
    assert found.right, found


def test_many_small_parts_are_put_together(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counton.state.exact_state._MOST", 3)
    with create(file, Distinct(), horizon=30, batched=True) as stream:
        counts = []
        for step in range(12):
            stream.release_events([f"user {step}"])
            counts.append(len(rows_of(file)))
        known = exact(stream)._exact.save()
    assert max(counts) <= 6
    with Stream.open(file, "s") as stream:
        assert exact(stream)._exact.save() == known


def test_events_that_are_equal_have_one_digest() -> None:
    key, stops = bytes(32), np.array([1, 2])
    same: list[Any] = [[5, 6.5], np.array([5, 6.5]), (np.int64(5), np.float32(6.5))]
    assert len({event_digests(key, 1, given, stops) for given in same}) == 1
    pairs: list[Any] = [[("a", 1), ("b", 2)], [["a", 1.0], ["b", np.int32(2)]]]
    assert len({event_digests(key, 1, given, stops) for given in pairs}) == 1
    assert event_digests(key, 1, "ab", stops) == event_digests(key, 1, np.array(["a", "b"]), stops)
    assert event_digests(key, 1, "ab", stops) != event_digests(key, 2, "ab", stops)
    with pytest.raises(InvalidInput, match="thousands of digits"):
        event_digests(key, 1, [(10**5000, "a"), ("a", "b")], stops)
    with pytest.raises(InvalidInput, match="of type object"):
        event_digests(key, 1, [object(), 2], stops)


_KILLED = """
import os, sys
sys.path.insert(0, {support!r})
import letters
from counton.statistics import catalogue as known
from counton.base.exact import text
from counton.statistics import Distinct, Statistic
from counton.state import Stream
from counton.state import exact_state as saved
from counton.state.sql import Connection
known.KNOWN.update(Letters="letters", LettersOnDemand="letters")
for at in 1, 2, 3:
    if os.fork() == 0:
        with Stream.open({state!r}, "s") as stream:
            calls = []
            def dying(of):
                def called(*arguments):
                    calls.append(of)
                    if len(calls) == at:
                        os._exit(9)
                    return of(*arguments)
                return called
            exact = stream._ordered_machine._exact
            exact.save = dying(exact.save)
            insert = Connection.insert
            head = dying(insert)
            def inserted(connection, table, *rows):
                is_head = bool(rows) and rows[0].get("kind") == saved._HEAD
                (head if is_head else insert)(connection, table, *rows)
            Connection.insert = inserted
            stream.release_events("b", first_step=3)
            print(stream.reading(3).table_columns()["estimate"].tolist(), flush=True)
            os._exit(9)
    assert os.wait()[1] == 9 << 8
    with Stream.open({state!r}, "s") as stream:
        assert stream.step == (2 if at < 3 else 3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("statistic", KINDS, ids=repr)
def test_a_killed_writer_shows_one_value(statistic: Letters, file: Path) -> None:
    with create(file, statistic) as stream:
        stream.release_events("ab")
    support = str(Path(__file__).parents[1] / "support")
    program = _KILLED.format(support=support, state=str(file))
    done = subprocess.run([forked_python(), "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with Stream.open(file, "s") as stream:
        answer = give(stream, "b", 3)
        assert done.stdout.splitlines() == [str(answer)]
        with pytest.raises(ReplayMismatch):
            give(stream, "a", 3)

"""Noise drawn ahead lies in the state: what is missing or does not fit is drawn again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from numpy.typing import NDArray

from counton import ZCDP, ApproxDP, Counter, Key, PureDP, Stream
from counton.base.arrays import pack
from counton.base.errors import StateUnavailableError
from counton.continual import noise_cache
from counton.noise.encryption import NoiseCipher
from counton.state import verify
from counton.state.backup import back_up
from counton.state.database import Database
from counton.state.stream import NoiseTable
from counton.strategies import Binary, NormalisedSqrt

KEY = chosen_key()
CELLS = 50
NIGHTS = 6


@pytest.fixture(autouse=True)
def _short_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_cache, "_FEWEST_DRAWS_TO_STORE", 1)
    monkeypatch.setattr(noise_cache, "_STEPS_PER_STORED_ROW", 4)
    monkeypatch.setattr(noise_cache, "_MOST_NUMBERS_IN_STORED_ROW", 2 * CELLS)


def create(state: str, name: str = "pages", key: Key = KEY) -> None:
    Stream.create(state, name, NormalisedSqrt(20), ZCDP(0.5), key=key, shape=(CELLS,)).close()


def night(state: str, step: int, name: str = "pages") -> NDArray[Any]:
    """What a process of its own releases at a step."""
    with Stream.open(state, name, key=KEY) as stream:
        assert stream.step == step - 1
        return np.asarray(stream.release(np.arange(CELLS) + step).value)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> NDArray[Any]:
    """What is released of a state that keeps no noise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_cache, "_FEWEST_DRAWS_TO_STORE", 2**60)
        create(plain := str(tmp_path_factory.mktemp("plain") / "plain.db"))
        found = np.array([night(plain, step) for step in range(1, NIGHTS + 1)])
    assert not kept(plain)
    return found


def ask(state: str, statement: str, **values: Any) -> list[tuple[Any, ...]]:
    database = Database(state)
    try:
        with database.transaction(write=True) as connection:
            found = connection.execute(statement, values)
            return [] if found.description is None else [tuple(row) for row in found]
    finally:
        database.close()


def kept(state: str) -> list[tuple[Any, ...]]:
    """Steps of the rows, and how many each holds."""
    return ask(state, "SELECT step, steps FROM counton_noise ORDER BY stream_id, step")


def test_runs_with_noise_table_release_same_values(state: str, expected: NDArray[Any]) -> None:
    create(state)
    steps = []
    for step in range(1, NIGHTS + 1):
        assert (night(state, step) == expected[step - 1]).all()
        steps.append([row[0] for row in kept(state)])
    assert steps == [[1, 3]] * 4 + [[5, 7]] * 2
    assert all(one.right for one in verify(state, key=KEY))


ALTERED: dict[str, tuple[str, dict[str, Any]]] = {
    "all rows are gone": ("DELETE FROM counton_noise", {}),
    "some rows are gone": ("DELETE FROM counton_noise WHERE step > 1", {}),
    "other noise": (
        "UPDATE counton_noise SET noise = :n",
        {"n": pack(np.ones((2, CELLS), np.int64))},
    ),
    "no noise": ("UPDATE counton_noise SET noise = :n", {"n": b""}),
    "another nonce": (
        "UPDATE counton_noise SET noise = :n",
        {"n": bytes(12) + pack(np.ones((2, CELLS), np.int64))},
    ),
    "other steps": ("UPDATE counton_noise SET step = step + 1", {}),
    "earlier steps": ("UPDATE counton_noise SET step = step - 2", {}),
    "more steps": ("UPDATE counton_noise SET steps = steps + 1", {}),
    "fewer cells": ("UPDATE counton_noise SET cells = cells - 1", {}),
    "impossible places": ("UPDATE counton_noise SET steps = -steps, cells = -cells", {}),
}


@pytest.mark.parametrize("what", ALTERED)
def test_altered_noise_table_changes_no_release(
    state: str, expected: NDArray[Any], what: str
) -> None:
    create(state)
    night(state, 1)
    statement, values = ALTERED[what]
    ask(state, statement, **values)
    for step in range(2, NIGHTS + 1):
        assert (night(state, step) == expected[step - 1]).all()
    assert kept(state)


def test_the_table_itself_may_be_missing(state: str, expected: NDArray[Any]) -> None:
    create(state)
    night(state, 1)
    ask(state, "DROP TABLE counton_noise")
    for step in range(2, NIGHTS + 1):
        assert (night(state, step) == expected[step - 1]).all()


@pytest.mark.parametrize(
    "other",
    [
        {"name": "b", "strategy": NormalisedSqrt(20), "guarantee": ZCDP(0.5)},
        {"name": "b", "strategy": NormalisedSqrt(21), "guarantee": ZCDP(0.5)},
        {"name": "b", "strategy": NormalisedSqrt(20), "guarantee": ZCDP(2)},
        {"name": "b", "strategy": NormalisedSqrt(20), "guarantee": ApproxDP(1, 1e-9)},
        {"name": "b", "strategy": Binary(31), "guarantee": PureDP(1)},
    ],
    ids=lambda one: f"{one['strategy']!r} {one['guarantee']}",
)
def test_noise_of_another_stream_changes_no_release(
    state: str, expected: NDArray[Any], other: dict[str, Any]
) -> None:
    create(state)
    Stream.create(state, key=KEY, shape=(CELLS,), **other).close()
    night(state, 1, "b")
    night(state, 1)
    (mine,), (theirs,) = (
        ask(state, "SELECT id FROM counton_streams WHERE name = :name", name=name)
        for name in ("pages", "b")
    )
    ask(state, "DELETE FROM counton_noise WHERE stream_id = :mine", mine=mine[0])
    ask(
        state,
        "UPDATE counton_noise SET stream_id = :mine WHERE stream_id = :theirs",
        mine=mine[0],
        theirs=theirs[0],
    )
    for step in range(2, NIGHTS + 1):
        assert (night(state, step) == expected[step - 1]).all()


def test_noise_of_another_key_changes_no_release(state: str, expected: NDArray[Any]) -> None:
    """The rows of a state of the same name and terms, whose key is another one."""
    create(state, "pages")
    night(state, 1)
    rows = ask(state, "SELECT step, noise FROM counton_noise")
    other = Counter(
        NormalisedSqrt(20), ZCDP(0.5), key=chosen_key(bytes(32)), name="pages", shape=(CELLS,)
    )
    found: list[noise_cache.EncryptedNoise] = []

    class Collecting:
        def find(self, step: int, cell: int) -> None:
            return None

        def replace(self, cell: int, rows: Any) -> None:
            found.extend(rows)

    other.keep_noise(Collecting())
    other.release(np.zeros(CELLS, np.int64))
    assert [row.step for row in found] == [row[0] for row in rows]
    for row in found:
        ask(
            state,
            "UPDATE counton_noise SET noise = :noise WHERE step = :step",
            noise=row.noise,
            step=row.step,
        )
    for step in range(2, NIGHTS + 1):
        assert (night(state, step) == expected[step - 1]).all()


def test_noise_table_without_authentication_releases_altered_noise(
    state: str, expected: NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests above would see it."""

    def encrypt_nothing(self: NoiseCipher, message: bytes, address: bytes) -> bytes:
        return message

    def decrypt_nothing(self: NoiseCipher, encrypted: bytes, address: bytes) -> bytes:
        return bytes(encrypted)

    monkeypatch.setattr(NoiseCipher, "encrypt", encrypt_nothing)
    monkeypatch.setattr(NoiseCipher, "decrypt", decrypt_nothing)
    create(state)
    night(state, 1)
    (stored,) = ask(state, "SELECT noise FROM counton_noise WHERE step = 1")
    altered = bytes(len(bytes(stored[0])))
    ask(state, "UPDATE counton_noise SET noise = :n WHERE step = 1", n=altered)
    assert not (night(state, 2) == expected[1]).all()


class Killed(BaseException):
    """A process that ends here."""


@pytest.mark.parametrize("place", ["before", "within", "after"])
def test_kill_while_noise_is_stored_changes_no_release(
    state: str, expected: NDArray[Any], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before rows are kept, while they are, and when they are and the release is not."""
    create(state)
    for step in (1, 2, 3, 4):
        night(state, step)
    replaced = NoiseTable.replace
    before = kept(state)

    def dies(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if place == "before":
            patch.setattr(NoiseTable, "replace", dies)
        elif place == "within":

            def halfway(self: NoiseTable, cell: int, rows: Any) -> None:
                def some() -> Any:
                    yield from rows[:1]
                    raise Killed

                replaced(self, cell, some())

            patch.setattr(NoiseTable, "replace", halfway)
        else:
            patch.setattr(Stream, "_write_transaction", dies)
        with pytest.raises(Killed):
            night(state, 5)
    assert (kept(state) == before) == (place != "after")
    for step in range(5, NIGHTS + 1):
        assert (night(state, step) == expected[step - 1]).all()


def test_noise_that_cannot_be_kept_is_released_all_the_same(
    state: str, expected: NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    create(state)
    transaction = Database.transaction
    step = 0

    def full(self: Database, *, write: bool) -> Any:
        nonlocal step
        step += write
        if write and step == 3:  # the writer's epoch, and what is kept
            raise StateUnavailableError("the disk is full")
        return transaction(self, write=write)

    monkeypatch.setattr(Database, "transaction", full)
    with Stream.open(state, "pages", key=KEY) as stream:
        step = 2
        assert (stream.release(np.arange(CELLS) + 1).value == expected[0]).all()
    monkeypatch.undo()
    assert step == 4
    assert not kept(state)


def test_backup_contains_no_stored_noise(tmp_path: Path, expected: NDArray[Any]) -> None:
    """With what is released later it would tell sums of later than the copy."""
    create(state := str(tmp_path / "state.db"))
    night(state, 1)
    (noise, *_) = (row[0] for row in ask(state, "SELECT noise FROM counton_noise"))
    copy = back_up(state, tmp_path / "copy.db")
    assert noise[:40] in Path(state).read_bytes()
    assert noise[:40] not in copy.read_bytes()
    assert kept(state)
    assert not kept(str(copy))
    copy.replace(state)
    for step in range(2, NIGHTS + 1):
        assert (night(state, step) == expected[step - 1]).all()

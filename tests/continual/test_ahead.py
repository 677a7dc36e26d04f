"""Noise of steps to come that is kept for later processes: it changes no release."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from calls import calls_of
from keys import chosen_key

from counton.base.arrays import to_fixed_width
from counton.continual import Counter, noise_cache
from counton.continual.noise_cache import EncryptedNoise, NoiseCache
from counton.noise.encryption import NoiseCipher
from counton.privacy import ZCDP, PureDP
from counton.strategies import (
    Binary,
    GrowingSquareRoot,
    Independent,
    KAry,
    LookAhead,
    NormalisedSqrt,
    SqrtToeplitz,
    StreamStrategy,
    WindowVersions,
)
from counton.strategies.streams import look_ahead
from counton.strategies.streams.least_squares_strategy import LeastSquaresStrategy, _BlockSums
from counton.tables import Dense

KEY = chosen_key()
ONE: dict[str, Any] = {
    "strategy": SqrtToeplitz(300), "guarantee": ZCDP(0.5), "key": KEY, "name": "a", "shape": (3,),
}  # fmt: skip
LINE = np.vstack([3 * np.eye(25, dtype=int), np.ones((2, 25), int)])
SOLVED = LeastSquaresStrategy(Dense(LINE, "mine"), (4, 3), horizon=300)
KEPT: list[StreamStrategy] = [GrowingSquareRoot(), NormalisedSqrt(300), SOLVED, SqrtToeplitz(300)]
KEPT_OF_SEVERAL_CELLS = LookAhead(300, (7, 7), (4, 3, 2))
CHEAP: list[StreamStrategy] = [KAry(300, 5), Independent(300)]


class Rows:
    """A store in memory, which counts what is asked of it."""

    def __init__(self) -> None:
        self.rows: dict[int, list[EncryptedNoise]] = {}
        self.written = self.missed = 0

    def find(self, step: int, cell: int) -> EncryptedNoise | None:
        for row in self.rows.get(cell, ()):
            if row.step <= step < row.step + row.steps:
                return row
        self.missed += 1
        return None

    def replace(self, cell: int, rows: Sequence[EncryptedNoise]) -> None:
        self.written += 1
        self.rows[cell] = [*rows]

    def change(self, change: Callable[[EncryptedNoise], EncryptedNoise]) -> None:
        """Change every row."""
        self.rows = {cell: [*map(change, rows)] for cell, rows in self.rows.items()}


def with_other_byte(row: EncryptedNoise, place: int) -> EncryptedNoise:
    """A row with one byte of its noise changed."""
    noise = bytearray(row.noise)
    noise[place] ^= 1
    return row._replace(noise=bytes(noise))


@pytest.fixture(autouse=True)
def _few_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_cache, "_FEWEST_DRAWS_TO_STORE", 1)
    monkeypatch.setattr(noise_cache, "_STEPS_PER_STORED_ROW", 40)
    monkeypatch.setattr(noise_cache, "_MOST_NUMBERS_IN_STORED_ROW", 32)
    monkeypatch.setattr(look_ahead, "FEWEST_WIDE_COORDINATES", 2)


def resumed(strategy: StreamStrategy, shape: tuple[int, ...], rows: Rows | None) -> Any:
    """Releases of 200 steps, of which each process of some opens the stream anew."""
    given: dict[str, Any] = {"key": KEY, "name": "visits", "shape": shape}
    saved = Counter(strategy, ZCDP(0.5), **given).checkpoint()
    found = []
    for count in (1, 1, 63, 1, 40, 94):
        stream = Counter.resume(saved, key=KEY)
        if rows is not None:
            stream.keep_noise(rows)
        found.append(stream.release_many(np.ones((count, *shape), np.int64)).values)
        saved = stream.checkpoint()
    return np.concatenate(found)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)], ids=str)
@pytest.mark.parametrize(
    "strategy", [*KEPT, KEPT_OF_SEVERAL_CELLS, *CHEAP], ids=lambda one: type(one).__name__
)
def test_releases_with_noise_cache_equal_those_without(
    strategy: StreamStrategy, shape: tuple[int, ...]
) -> None:
    rows = Rows()
    assert (resumed(strategy, shape, rows) == resumed(strategy, shape, None)).all()
    kept = strategy in KEPT or (strategy is KEPT_OF_SEVERAL_CELLS and shape != ())
    assert bool(rows.written) == kept


@pytest.mark.parametrize("strategy", [NormalisedSqrt(60), LookAhead(60, (7, 7), (4, 3, 2))])
def test_noise_of_wide_step_is_stored_in_parts(
    strategy: StreamStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = resumed_nights(strategy, None)
    for name, most in (("_CELLS_AT_ONCE", 4), ("_MOST_NUMBERS_AHEAD", 8)):
        monkeypatch.setattr(noise_cache, name, most)
    rows = Rows()
    assert (resumed_nights(strategy, rows) == without).all()
    assert sorted(rows.rows) == [0, 4, 8]
    assert {row.cells for row in rows.rows[8]} == {2}
    assert rows.written == 3 * 12 / 2


@pytest.mark.parametrize(
    ("strategy", "by_cells", "ahead"), [(NormalisedSqrt(60), False, 4), (KAry(60, 5), True, 0)]
)
def test_wide_steps_without_store_compute_noise_ahead_in_blocks(
    strategy: StreamStrategy, by_cells: bool, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**ONE, "strategy": strategy, "shape": (10,)}
    whole = Counter(**given).release_many(np.ones((9, 10), np.int64)).values
    for name, most in (("_CELLS_AT_ONCE", 4), ("_MOST_NUMBERS_AHEAD", 40)):
        monkeypatch.setattr(noise_cache, name, most)
    counter = Counter(**given)
    assert counter._lookahead.by_cells is by_cells
    assert (counter.release(np.ones(10, np.int64)).value == whole[0]).all()
    assert len(counter._lookahead.window) == ahead
    rest = [counter.release(np.ones(10, np.int64)).value for _ in range(8)]
    assert (np.array(rest) == whole[1:]).all()


def resumed_nights(strategy: StreamStrategy, rows: Rows | None) -> Any:
    """Releases of twelve steps of ten cells, each by a process of its own."""
    saved = Counter(strategy, ZCDP(0.5), key=KEY, name="pages", shape=(10,)).checkpoint()
    found = []
    for _ in range(12):
        stream = Counter.resume(saved, key=KEY)
        if rows is not None:
            stream.keep_noise(rows)
        found.append(stream.release(np.ones(10, np.int64)).value)
        saved = stream.checkpoint()
    return np.array(found)


@pytest.mark.parametrize(
    "changed",
    [
        {"key": chosen_key(bytes(32))},
        {"name": "b"},
        {"guarantee": ZCDP(2)},
        {"guarantee": PureDP(1)},
        {"strategy": SqrtToeplitz(301)},
        {"strategy": NormalisedSqrt(300)},
        {"shape": (2,)},
        {"shape": (1, 3)},
    ],
    ids=str,
)
def test_noise_of_another_stream_is_drawn_again(changed: dict[str, Any]) -> None:
    rows = Rows()
    other, alone = (Counter(**ONE | changed) for _ in range(2))
    first = Counter(**ONE)
    first.keep_noise(rows)
    first.release([0] * 3)
    other.keep_noise(rows)
    nothing = np.zeros((20, *alone.shape), np.int64)
    assert (other.release_many(nothing).values == alone.release_many(nothing).values).all()
    assert rows.written == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda row: with_other_byte(row, 0),
        lambda row: with_other_byte(row, 20),
        lambda row: with_other_byte(row, -1),
        lambda row: row._replace(noise=row.noise[:-1]),
        lambda row: row._replace(noise=row.noise[:27]),
        lambda row: row._replace(noise=b""),
        lambda row: row._replace(noise=bytes(len(row.noise))),
        lambda row: row._replace(step=row.step + 1),
        lambda row: row._replace(steps=row.steps + 1),
        lambda row: row._replace(cell=1),
        lambda row: row._replace(cells=row.cells - 1),
        lambda row: row._replace(step=-row.step),
        lambda row: row._replace(cells=2**70),
    ],
)
def test_altered_cached_noise_is_drawn_again(
    change: Callable[[EncryptedNoise], EncryptedNoise],
) -> None:
    rows = Rows()
    altered, alone = (Counter(**ONE) for _ in range(2))
    first = Counter(**ONE)
    first.keep_noise(rows)
    first.release([0] * 3)
    rows.change(change)
    altered.keep_noise(rows)
    assert (altered.release([5] * 3).value == alone.release([5] * 3).value).all()
    assert rows.written == 2


def test_noise_that_was_kept_for_other_steps_is_drawn_again() -> None:
    """Rows that are whole, and of this stream, but not of the step that comes."""
    rows = Rows()
    first, late, alone = (Counter(**ONE) for _ in range(3))
    first.keep_noise(rows)
    first.release([0] * 3)
    (row, *_) = rows.rows[0]
    rows.find = lambda step, cell: row  # type: ignore[method-assign]
    for counter in (late, alone):
        counter.release_many([[1] * 3] * 20)
    late.keep_noise(rows)
    assert (late.release([5] * 3).value == alone.release([5] * 3).value).all()


def test_noise_ahead_without_authentication_releases_altered_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That what is altered above is read at all: the tests see more than draws that are missed."""

    def encrypt_nothing(self: NoiseCipher, message: bytes, address: bytes) -> bytes:
        return message

    def decrypt_nothing(self: NoiseCipher, encrypted: bytes, address: bytes) -> bytes:
        return encrypted

    monkeypatch.setattr(NoiseCipher, "encrypt", encrypt_nothing)
    monkeypatch.setattr(NoiseCipher, "decrypt", decrypt_nothing)
    rows = Rows()
    altered, alone = (Counter(**ONE) for _ in range(2))
    first = Counter(**ONE)
    first.keep_noise(rows)
    first.release([0] * 3)
    rows.change(lambda row: row._replace(noise=bytes(len(row.noise))))
    altered.keep_noise(rows)
    assert (altered.release([5] * 3).value != alone.release([5] * 3).value).all()


def test_a_strategy_is_solved_once_for_many_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    solves = calls_of(monkeypatch, _BlockSums, "_solve_rows")
    without = resumed(SOLVED, (), None)
    alone = len(solves)
    assert (resumed(SOLVED, (), Rows()) == without).all()
    assert alone == 6
    assert len(solves) - alone == 4  # steps 1 to 40, 41 to 65, 106 and 107 to 200


@pytest.mark.parametrize(
    ("strategy", "cells", "worth"),
    [
        (SqrtToeplitz(300), 99, False), (SqrtToeplitz(300), 100, True), (SOLVED, 11, False),
        (SOLVED, 12, True), (KAry(300, 5), 10**6, False), (Independent(300), 10**6, False),
    ],
    ids=str,
)  # fmt: skip
def test_cheap_noise_is_not_cached(
    strategy: StreamStrategy, cells: int, worth: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise_cache, "_FEWEST_DRAWS_TO_STORE", 4100)
    counter = Counter(**ONE | {"strategy": strategy, "shape": (cells,)})
    counter.keep_noise(Rows())
    assert (counter._lookahead.store is not None) is worth


def test_continuing_process_reads_each_cached_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows()
    first = Counter(**ONE)
    first.keep_noise(rows)
    first.release([1] * 3)
    found = calls_of(monkeypatch, rows, "find")
    later = Counter.resume(first.checkpoint(), key=KEY)
    later.keep_noise(rows)
    for _ in range(30):
        later.release([1] * 3)
    assert [step for step, _ in found] == [2, 11, 21, 31]


@pytest.mark.parametrize(("released", "last"), [(1500, 2048), (2000, 3000)])
def test_window_ends_at_a_power_of_two_or_the_horizon(released: int, last: int) -> None:
    """Step 2,048 is too near after 2,000 steps: a window that short is not worth its draws."""
    counter = Counter(NormalisedSqrt(3000), ZCDP(0.5), key=chosen_key(), name="s")
    counter.release_many(np.ones(released, np.int64))
    counter.keep_noise(Rows())
    counter.release(1)
    assert counter._lookahead.window == range(released + 1, last + 1)


class EveryRow(Rows):
    """A store that remembers every row that it ever held."""

    def __init__(self) -> None:
        super().__init__()
        self.ever: list[EncryptedNoise] = []

    def replace(self, cell: int, rows: Sequence[EncryptedNoise]) -> None:
        super().replace(cell, rows)
        self.ever += rows


def test_stored_noise_of_same_address_has_different_nonces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows of other lengths, and of another form of the bytes, begin at the same step and cell."""
    rows = EveryRow()
    to_bytes = to_fixed_width
    for kept_steps, row_size, wider in ((40, 32, 0), (30, 32, 0), (40, 64, 0), (40, 32, 1)):
        monkeypatch.setattr(noise_cache, "_STEPS_PER_STORED_ROW", kept_steps)
        monkeypatch.setattr(noise_cache, "_MOST_NUMBERS_IN_STORED_ROW", row_size)
        monkeypatch.setattr(
            noise_cache,
            "to_fixed_width",
            lambda numbers, width, wider=wider: to_bytes(numbers, width + wider),
        )
        counter = Counter(**ONE)
        counter.keep_noise(rows)
        counter.release([0] * 3)
        rows.rows.clear()
    messages = {(row.address, row.noise[12:]) for row in rows.ever}
    nonces = {row.noise[:12] for row in rows.ever}
    assert len({(row.step, row.cell) for row in rows.ever}) < len(messages)
    assert len(nonces) == len(messages)


def test_stored_noise_length_does_not_depend_on_the_key() -> None:
    """Compressed noise, or noise of as many bytes as it needs, would tell how large it is.

    Among so many guarantees there are some of which the largest number of a row is just below a
    whole number of bytes with one key, and above it with another.
    """
    for power in range(-6, 22, 2):
        lengths = set()
        for number in range(8):
            rows = Rows()
            key = chosen_key(bytes([number] * 32))
            counter = Counter(**ONE | {"guarantee": ZCDP(Fraction(2) ** power), "key": key})
            counter.keep_noise(rows)
            counter.release([0] * 3)
            lengths.add(tuple(len(row.noise) for row in rows.rows[0]))
        assert len(lengths) == 1


@pytest.mark.parametrize(
    "strategy",
    [*KEPT, KEPT_OF_SEVERAL_CELLS, WindowVersions(300, Binary(7)), WindowVersions(30, KAry(9, 3))],
    ids=str,
)
def test_stored_noise_is_within_a_few_of_its_stated_deviations(strategy: StreamStrategy) -> None:
    """The room for stored noise, 64 deviations, follows from the design."""
    counter = Counter(**ONE | {"strategy": strategy, "shape": (200,)})
    window = range(1, 1 + min(40, strategy.horizon or 40))
    noise = np.concatenate([part.copy() for part in counter._lookahead.parts(window)])
    by_version = noise.reshape(len(window), 200, -1)
    largest = max(float(np.std(by_version[-1, :, lag])) for lag in range(by_version.shape[2]))
    stated = counter.design.largest_noise_std(window)
    assert np.abs(noise).max() < 8 * stated
    assert 0.75 * stated < largest < 1.3 * stated


def test_noise_drawn_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of strategies that read all draws before a step, whatever the step."""
    counter = Counter(**ONE | {"shape": (50,)})
    field = counter._lookahead.field
    whole = NoiseCache(counter.design.strategy, field)._compute(range(200, 203), slice(0, 50))
    sizes: list[int] = []

    class Counted:
        """A field that notes how much is drawn of it at once."""

        def __init__(self, field: Any) -> None:
            self._field = field
            self.shape = field.shape

        def part(self, first: int, cells: int) -> Any:
            return Counted(self._field.part(first, cells))

        def run(self, level: int, nodes: range) -> Any:
            drawn = self._field.run(level, nodes)
            sizes.append(drawn.size)
            return drawn

    monkeypatch.setattr(noise_cache, "_DRAWS_AT_ONCE", 1000)
    some = NoiseCache(counter.design.strategy, Counted(field))  # type: ignore[arg-type]
    assert (some._compute(range(200, 203), slice(0, 50)) == whole).all()
    assert max(sizes) <= 1000
    assert sum(sizes) == 50 * 202

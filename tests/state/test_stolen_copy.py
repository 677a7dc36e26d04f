"""A copy of a state without its key: no byte of it tells noise of later releases."""

import itertools
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from numpy.typing import NDArray

from counton import ZCDP, Counter, Stream
from counton.base.arrays import from_fixed_width, integers_to_text, pack, to_fixed_width
from counton.base.errors import NoiseKeyError
from counton.continual import noise_cache
from counton.noise.encryption import NoiseCipher
from counton.privacy import Guarantee
from counton.strategies import (
    Binary,
    GrowingSquareRoot,
    NormalisedSqrt,
    SqrtToeplitz,
    StreamStrategy,
    WindowVersions,
)

KEY = chosen_key()
CELLS = 8
STEPS = 16
#: Consecutive numbers that are searched for. So many do not appear by chance.
RUN = 6


@pytest.fixture(autouse=True)
def _noise_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_cache, "_FEWEST_DRAWS_TO_STORE", 1)
    monkeypatch.setattr(noise_cache, "_STEPS_PER_STORED_ROW", STEPS)


def steal(
    folder: Path, strategy: StreamStrategy, guarantee: Guarantee
) -> tuple[Path, NDArray[np.int64]]:
    """Return a copy of a state after its first release, and the noise of all steps."""
    state = folder / "state.db"
    stolen = folder / "stolen.db"
    terms: dict[str, Any] = {"key": KEY, "shape": (CELLS,)}
    alone = Counter(strategy, guarantee, name="visits", **terms)
    parts = alone._lookahead.parts(range(1, STEPS + 1))
    noise = np.concatenate([part.copy() for part in parts]).reshape(STEPS, -1)
    one_step = np.ones(alone.design.step_shape, np.int64)
    with Stream.create(state, "visits", strategy, guarantee, **terms) as stream:
        stream.release(one_step)
        for suffix in ("", "-wal"):
            copied = Path(f"{state}{suffix}").read_bytes()
            Path(f"{stolen}{suffix}").write_bytes(copied)
        stolen.chmod(0o600)
    return stolen, noise


def cells_of(state: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield table, column and bytes of each cell of a state."""
    with closing(sqlite3.connect(state)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master")]
        for table in tables:
            if table.startswith("sqlite_"):
                continue
            found = connection.execute(f"SELECT * FROM {table}")  # noqa: S608
            columns = [column[0] for column in found.description]
            for row in found:
                for column, value in zip(columns, row, strict=True):
                    yield table, column, value if type(value) is bytes else str(value).encode()


def forms_of(numbers: NDArray[np.int64]) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes of some integers in many forms."""
    zigzag = (numbers << 1) ^ (numbers >> 63)
    for name, values in (("as they are", numbers), ("zigzag", zigzag)):
        for width in range(1, 9):
            whole = to_fixed_width(values, width)
            if whole is None:
                continue
            rows = np.frombuffer(whole, np.uint8).reshape(-1, width)
            yield f"{name}, {width} bytes, lowest first", rows.tobytes()
            yield f"{name}, {width} bytes, highest first", rows[:, ::-1].tobytes()
            lowest = rows[:, 0]
            if width > 1 and len(lowest) >= RUN:
                yield f"{name}, lowest bytes together", lowest.tobytes()
    for separator in (",", ", ", " ", "\n"):
        yield "text", separator.join(map(str, numbers.tolist())).encode()
    yield "packed", pack(numbers)
    yield "as text of counton", integers_to_text(numbers).encode()


def runs_of(noise: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield short runs of noise along cells and along steps, and of their differences."""
    changes = np.diff(noise, axis=0)
    for table in (noise, changes, np.diff(noise, axis=1)):
        for line in itertools.chain(table, table.T):
            for at in range(len(line) - RUN + 1):
                yield line[at : at + RUN]


def opened_up(data: bytes) -> Iterator[bytes]:
    """Yield bytes, and what each part of them is decompressed to."""
    yield data
    for at in range(len(data)):
        for window in (15, -15, 31):
            reader = zlib.decompressobj(window)
            try:
                found = reader.decompress(data[at:], 2**20)
            except zlib.error:
                continue
            if len(found) >= RUN:
                yield found


def find_noise(state: Path, noise: NDArray[np.int64]) -> set[str]:
    """Return the forms in which the bytes of a state, packed or not, hold later noise."""
    logs = [Path(f"{state}{suffix}") for suffix in ("", "-wal")]
    hay = [path.read_bytes() for path in logs if path.exists()]
    for value in {value for _, _, value in cells_of(state)}:
        hay += opened_up(value)
    joined = b"\n\n".join(hay)
    wanted: dict[bytes, str] = {}
    for run in runs_of(noise):
        if len({*run.tolist()}) < RUN - 1:  # a run of zeros is everywhere
            continue
        wanted.update((form, name) for name, form in forms_of(run))
    present = np.unique(beginnings([joined[at:] for at in range(8)], every=True))
    possible = np.isin(beginnings([*wanted], every=False), present)
    return {
        name
        for (form, name), is_possible in zip(wanted.items(), possible.tolist(), strict=True)
        if is_possible and form in joined
    }


def beginnings(texts: list[bytes], *, every: bool) -> NDArray[np.uint64]:
    """Return the first six bytes of each text as an integer; or of each eight bytes of each."""
    if every:
        whole = b"".join(text[: len(text) // 8 * 8] for text in texts)
    else:
        whole = b"".join(text[:8].ljust(8, b"\0") for text in texts)
    six_bytes = np.uint64(2**48 - 1)
    return np.frombuffer(whole, "<u8").astype(np.uint64) & six_bytes


STOLEN: list[tuple[StreamStrategy, Any]] = [
    (NormalisedSqrt(60), ZCDP(0.01)),
    (GrowingSquareRoot(14), ZCDP(0.01)),
    (SqrtToeplitz(60), ZCDP(0.01)),
    (WindowVersions(60, Binary(3)), ZCDP(0.01)),
]


@pytest.mark.parametrize(
    ("strategy", "guarantee"),
    [STOLEN[0], *(pytest.param(*one, marks=pytest.mark.long) for one in STOLEN[1:])],
    ids=str,
)
def test_stolen_state_holds_no_later_noise_in_any_form(
    tmp_path: Path, strategy: StreamStrategy, guarantee: Guarantee
) -> None:
    stolen, noise = steal(tmp_path, strategy, guarantee)
    assert (tmp_path / "stolen.db-wal").stat().st_size > 1000  # the search reads the log, too
    # The first step is released. A thief knows its noise: the release minus the exact sums.
    assert find_noise(stolen, noise[1:]) == set()
    assert any(column == "noise" for _, column, _ in cells_of(stolen))
    with pytest.raises(NoiseKeyError):
        Stream.open(stolen, "visits")


@pytest.mark.long
@pytest.mark.parametrize("wrong", ["in plain text", "packed", "compressed", "differences"])
def test_search_of_stolen_state_finds_unencrypted_noise(
    tmp_path: Path, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong implementations, which the test above rejects."""

    def encrypt(self: NoiseCipher, message: bytes, address: bytes) -> bytes:
        steps, cells = (int(word) for word in address.split()[1::2])
        if wrong == "in plain text":
            return message
        if wrong == "compressed":
            return zlib.compress(message)
        numbers = from_fixed_width(message, (steps, cells))
        if wrong == "packed":
            return pack(numbers)
        return np.diff(numbers, axis=0).tobytes()

    monkeypatch.setattr(NoiseCipher, "encrypt", encrypt)
    stolen, noise = steal(tmp_path, *STOLEN[0])
    assert find_noise(stolen, noise[1:])


def candidate_keys(state: Path) -> set[bytes]:
    """Return each 32 bytes of the state outside the noise, as they are and from digits."""
    found = set()
    for _, column, value in cells_of(state):
        if column == "noise":
            continue
        found |= {value[at : at + 32] for at in range(len(value) - 31)}
        digits = value.decode("latin-1")
        for at in range(len(digits) - 63):
            word = digits[at : at + 64]
            if word.isalnum() and all(letter in "0123456789abcdef" for letter in word):
                found.add(bytes.fromhex(word))
        found.add(value.ljust(32, b"\0")[:32])
    return found


def decrypts(state: Path, keys: set[bytes]) -> bool:
    """Tell whether one of the keys decrypts the first row of stored noise."""
    with closing(sqlite3.connect(state)) as connection:
        first = "SELECT step, steps, cell, cells, noise FROM counton_noise ORDER BY step, cell"
        row = noise_cache.EncryptedNoise._make(connection.execute(first).fetchone())
    return any(NoiseCipher(key).decrypt(row.noise, row.address) is not None for key in keys)


def test_no_bytes_of_a_stolen_state_decrypt_its_noise(tmp_path: Path) -> None:
    stolen, _ = steal(tmp_path, *STOLEN[0])
    design = Counter(*STOLEN[0], key=KEY, name="visits", shape=(CELLS,)).design
    right = KEY.derive(b"counter", design._address.encode())
    keys = candidate_keys(stolen)
    assert len(keys) > 300
    assert decrypts(stolen, {right})
    assert not decrypts(stolen, keys)

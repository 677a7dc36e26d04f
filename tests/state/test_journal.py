"""How what was released is kept: small, and to the bit."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from altered_journal import mend_checksums
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray
from observed_windows import observed_of

from counton import ZCDP, ContributionBound, Key, PureDP, Stream
from counton.base.arrays import narrowest, pack, unpack
from counton.base.errors import StateError
from counton.base.private import Private, reveal
from counton.state.commit_input import CommitInput
from counton.strategies import KAry, SqrtToeplitz, StreamStrategy

WHOLE = arrays(
    np.int64, array_shapes(max_dims=3, max_side=40), elements=st.integers(-(2**63), 2**63 - 1)
)
SMALL = arrays(np.int64, array_shapes(max_dims=2, max_side=60), elements=st.integers(-40, 300))


@given(WHOLE | SMALL)
def test_packed_integers_are_restored(numbers: NDArray[np.int64]) -> None:
    packed = pack(numbers)
    assert (unpack(packed, numbers.shape) == numbers).all()
    assert len(packed) <= 8 * numbers.size + 1


@given(WHOLE | SMALL, st.integers(1, 200))
def test_integers_packed_in_parts_equal_packed_whole(numbers: NDArray[np.int64], most: int) -> None:
    packed = pack(numbers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("counton.base.arrays._BYTES_PER_COMPRESSION", most)
        assert pack(numbers) == packed


@given(WHOLE | SMALL)
def test_a_narrow_type_changes_no_byte_and_no_number(numbers: NDArray[np.int64]) -> None:
    row = numbers.reshape(1, -1)
    narrow = row.astype(narrowest(int(row.min(initial=0)), int(row.max(initial=0))))
    packed = pack(row)
    assert pack(narrow) == packed
    found = unpack(packed, row.shape, narrow=True)
    assert (found == row).all()
    assert found.itemsize <= max(narrow.itemsize, 1)
    assert unpack(pack(numbers), numbers.shape).dtype == np.int64


@given(SMALL)
def test_numbers_that_are_read_as_integers_are_packed_as_these(numbers: NDArray[np.int64]) -> None:
    read = pack(numbers / 8, lambda some: np.rint(some * 8).astype(np.int64))
    assert read == pack(numbers)


def test_a_longer_blob_is_not_decompressed() -> None:
    bomb = pack(np.zeros(10**7, np.int64))
    assert len(bomb) < 10**5
    with pytest.raises(ValueError, match="bytes are missing, or there are more"):
        unpack(bomb, (10,))


CLIPPED = ContributionBound.values(0, 10, "0.01")


@pytest.mark.parametrize(
    ("strategy", "contribution", "cut"),
    [
        (KAry.best(3000), ContributionBound.add_remove(), [1, 2, 3000]),
        (KAry.best(3000), CLIPPED, [2999]),
        (SqrtToeplitz(3000), ContributionBound.add_remove(), []),
        (SqrtToeplitz(3000), CLIPPED, [1, 2, 3000]),
    ],
)
def test_journal_restores_values_exactly_in_few_bytes(
    strategy: StreamStrategy, contribution: ContributionBound, cut: list[int], tmp_path: Path
) -> None:
    key = Key.generate()
    file = tmp_path / "state.db"
    xs = np.arange(3000 * 10).reshape(3000, 10) % 7
    with Stream.create(
        file, "s", strategy, ZCDP(1), key=key, contribution=contribution, shape=(10,)
    ) as stream:
        parts = np.split(xs, cut)
        shown = np.concatenate([stream.release_many(part).values for part in parts])
        kept = stream.releases()
        assert kept.values.dtype == shown.dtype
        assert kept.values.tobytes() == shown.tobytes()
        ends = [(1, 2), (2, 3000), (1500, 1600), (3000, 3001)]
        assert all(
            stream.releases(a, b).values.tobytes() == shown[a - 1 : b - 1].tobytes()
            for a, b in ends
        )
    connection = sqlite3.connect(file)
    (size,) = connection.execute("SELECT sum(length(estimates)) FROM counton_journal").fetchone()
    connection.close()
    assert size < 4 * xs.size


def test_a_scalar_stream_takes_less_than_ten_bytes_a_step(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with Stream.create(file, "s", KAry.best(100_000), PureDP(1), key=Key.generate()) as stream:
        before = file.stat().st_size
        stream.release_many(np.arange(100_000) % 3)
    assert file.stat().st_size - before < 10 * 100_000


@pytest.mark.parametrize("change", ["SET step = 5", "SET unit = '1/2'"])
def test_inconsistent_journal_rows_are_refused(change: str, tmp_path: Path) -> None:
    """A step that two rows have, and a row of other numbers than those before it."""
    file = tmp_path / "state.db"
    with Stream.create(file, "s", KAry.best(9), PureDP(1), key=Key.generate()) as stream:
        shown = [*stream.release_many([1, 2, 3]).values, *stream.release_many([4, 5, 6]).values]
        assert stream.releases(1, 6).values.tolist() == shown[:5]
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"UPDATE counton_journal {change} WHERE step = 6")
        mend_checksums(file)
        with pytest.raises(StateError, match="journal has 3 readable releases for the 5 steps"):
            stream.releases(1, 6)
        assert stream.releases(1, 4).values.tolist() == shown[:3]


def test_observed_sums_are_restored_after_later_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "counton.state.journal._NUMBERS_PER_ROW", 2600
    )  # three of the largest windows
    rng = np.random.default_rng(3)
    file = tmp_path / "state.db"
    expected = dict[int, NDArray[np.int64]]()
    with Stream.create(file, "s", KAry.best(12), PureDP(1), key=Key.generate()) as stream:
        for _ in range(12):
            shape = [(2, 3), (2, 3), (40, 20), ()][rng.integers(4)]
            steps = rng.choice(np.arange(1, 40), rng.integers(1, 12), replace=False).tolist()
            seen = {int(step): rng.integers(-9, 99, shape) for step in steps}
            stream.commit(Private(CommitInput(totals_by_window=seen)))
            expected |= seen
            stream.release(1)
            assert observed_of(stream).keys() == expected.keys()
            for also in (range(1, 17), (7, 8), range(12, 40), (60, 69)):
                found = observed_of(stream, *also)
                assert {k for k in expected if k in also or k > stream.step} <= found.keys()
                assert all((found[k] == expected[k]).all() for k in found)
                assert all(found[k].shape == expected[k].shape for k in found)


def test_observed_totals_of_many_windows_take_few_bytes(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    seen = {step: np.full((2, 1, 20), step % 5) for step in range(1, 20_001)}
    with Stream.create(file, "s", KAry.best(10), PureDP(1), key=Key.generate()) as stream:
        stream.commit(Private(CommitInput(totals_by_window=seen)))
        ones = np.ones((2, 1, 20), np.int64)
        stream.commit(Private(CommitInput(totals_by_window={20_001: ones, 3: ones})))
        assert len(observed_of(stream)) == 20_001
    connection = sqlite3.connect(file)
    query = "SELECT count(*), sum(length(totals) + length(steps)) FROM counton_observed"
    rows, size = connection.execute(query).fetchone()
    connection.close()
    assert rows < 10
    assert size < 20_000 * 40


def test_blocks_of_observed_windows_equal_written_sums(tmp_path: Path) -> None:
    seen = {step: np.full((2, 1, 2000), step % 5) for step in (1, 2, 3, 200, 201, 999)}
    with Stream.create(
        tmp_path / "state.db", "s", KAry.best(10), PureDP(1), key=Key.generate()
    ) as stream:
        assert [*reveal(stream.observed_blocks())] == []
        stream.commit(Private(CommitInput(totals_by_window=seen)))
        blocks = [*reveal(stream.observed_blocks())]
        assert len(blocks) > 2
        found = {k: x for steps, xs in blocks for k, x in zip(steps.tolist(), xs, strict=True)}
        assert found.keys() == seen.keys()
        assert all((found[step] == seen[step]).all() for step in seen)

"""Growing hierarchies: the paper's law at every size, privacy by brute force, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tables_of_noise import WrittenNoise

from counton.errors import HorizonExceeded, InvalidInput
from counton.mechanisms.hierarchy import HierarchyStream
from counton.noise import Key
from counton.privacy import ZCDP, ApproxDP, Contribution, PureDP
from counton.strategies.ranges import Haar

KEY = Key(bytes(range(32)))
DOUBLING = 128


def stream_of(doublings: Any, noise: Any = None, **changed: Any) -> Any:
    stream = HierarchyStream(
        **{"guarantee": ZCDP(0.5), "doublings": doublings, "key": KEY, **changed}
    )
    if noise is not None:
        stream._noise = WrittenNoise(noise)
    return stream


def measured(stream: Any) -> Any:
    """C by levels: {level: rows}, from the definition in the paper's appendix D.1."""
    cascade = stream.cascade
    doublings, first, weight = cascade.doublings, cascade.first, cascade.weight
    cells = 1 << doublings
    rows = {}
    start = np.zeros((1, cells), np.int64)
    start[0, 0] = first
    rows[DOUBLING] = start
    for number in range(1, doublings + 1):
        grown = np.zeros((1, cells), np.int64)
        half = 1 << (number - 1)
        grown[0, :half], grown[0, half : 2 * half] = weight, 2 * weight
        rows[DOUBLING + number] = grown
    for height in range(1, doublings):
        size = 1 << height
        part = np.zeros((cells // size, cells), np.int64)
        for node in range(1, cells // size):  # node 0 grew by doubling
            part[node, node * size : node * size + size // 2] = weight
            part[node, node * size + size // 2 : (node + 1) * size] = -weight
        rows[height] = part
    return rows


@pytest.mark.parametrize("doublings", [0, 1, 2, 3, 5])
def test_sensitivity_and_privacy_shift_by_brute_force(doublings: Any) -> None:
    stream = stream_of(doublings)
    rows = measured(stream)
    whole = np.vstack(list(rows.values()))
    norms = stream.cascade.norms()
    assert norms.l1 == np.abs(whole).sum(axis=0).max()
    assert norms.l2_squared == (whole**2).sum(axis=0).max()
    assert norms.l2_squared / stream.cascade.first**2 == pytest.approx(1 + doublings / 3, rel=1e-9)
    cells = 1 << doublings
    for i in range(cells):
        for j in range(i):
            move = whole[:, i] - whole[:, j]
            assert np.abs(move).sum() <= norms.move_l1
            assert (move**2).sum() <= norms.move_l2_squared
    rng = np.random.default_rng(doublings)
    noise = {level: rng.integers(-(2**24), 2**24, len(part)) for level, part in rows.items()}
    counts = rng.integers(0, 9, cells)
    base = stream_of(doublings, noise).release_many(counts)
    for cell in range(cells):
        neighbour = counts.copy()
        neighbour[cell] += 1
        shifted = {level: noise[level] - part[:, cell] for level, part in rows.items()}
        assert (stream_of(doublings, shifted).release_many(neighbour) == base).all()


def test_noise_has_the_covariance_of_the_cascade_at_every_size() -> None:
    doublings = 4
    stream = stream_of(doublings)
    unit = 2**24
    columns = []
    for level, part in measured(stream).items():
        for row in range(len(part)):
            noise = np.zeros(len(part), np.int64)
            noise[row] = unit
            values = stream.cascade.noise(WrittenNoise({level: noise}), range(16), stream._bits)
            columns.append(values * 2.0**-stream._bits / unit)
    reads = np.array(columns).T
    joint = reads @ reads.T
    cascade = Haar.cascade(16)
    low, high = np.triu_indices(17, 1)
    summed = np.vstack([np.zeros(16), np.tril(np.ones((16, 16)))])
    sums = summed @ joint @ summed.T
    found = sums[low, low] + sums[high, high] - 2 * sums[low, high]
    assert found == pytest.approx(cascade.variance(low, high), rel=1e-3)
    scale = np.sqrt(found * stream.noise_law.variance)
    assert stream.interval_std(low, high) == pytest.approx(scale, rel=1e-3)
    assert stream.interval_std(0, 8) == pytest.approx(stream.std)


def test_any_cut_gives_the_same_releases() -> None:
    counts = np.random.default_rng(0).integers(0, 100, 300)
    whole = stream_of(9).release_many(counts)
    stream = stream_of(9)
    parts = [stream.release_many(part) for part in np.split(counts, [1, 2, 3, 70, 128, 129, 250])]
    assert (np.concatenate(parts) == whole).all()
    resumed = stream_of(9, step=250)
    assert (resumed.release_many(counts[250:]) == whole[250:]).all()
    with pytest.raises(InvalidInput, match="step is 513"):
        stream_of(9, step=513)
    single = stream_of(9)
    assert [single.release(int(count)).value for count in counts[:20]] == whole[:20].tolist()
    last = single.release(int(counts[20]))
    assert (last.step, last.value, last.std) == (21, whole[20], single.std)
    assert single.step == 21


def test_every_complete_node_has_the_same_accuracy() -> None:
    stream = stream_of(14)
    values = stream.release_many(np.zeros(2**14, int))
    for height in (0, 3, 6):
        nodes = values.reshape(-1, 2**height).sum(axis=1)
        assert (nodes**2).mean() / stream.std**2 == pytest.approx(1, abs=0.25)
    assert abs(values.sum()) < 6 * stream.std


@pytest.mark.parametrize("guarantee", [PureDP(1), ApproxDP(1, 1e-6), ZCDP(0.5)])
def test_doublings_cost_accuracy(guarantee: Any) -> None:
    stds = [stream_of(n, guarantee=guarantee).std for n in (0, 5, 10, 20)]
    assert stds == sorted(stds)
    assert "growing hierarchy" in stream_of(5, guarantee=guarantee).describe()
    moved = stream_of(5, guarantee=guarantee, contribution=Contribution.replace())
    assert moved.std > stds[1]


def test_refusals_change_nothing() -> None:
    stream = stream_of(3)
    stream.release_many([1, 2, 3])
    for counts, error, message in (
        ([1] * 6, HorizonExceeded, "beyond the 8 that 3 doublings allow"),
        ([-1], InvalidInput, "negative"),
        ([1.5], InvalidInput, "must be integers"),
        ([[1]], InvalidInput, "one axis"),
        ([2**50], InvalidInput, "too large"),
    ):
        with pytest.raises(error, match=message):
            stream.release_many(counts)
    assert stream.step == 3
    assert len(stream.release_many([1] * 5)) == 5
    with pytest.raises(InvalidInput, match="must be an integer from 0 to 32"):
        stream_of(33)
    assert stream_of(32).horizon == 2**32
    assert float(stream_of(32).interval_std(0, 2**32)) == pytest.approx(stream_of(32).std)
    with pytest.raises(InvalidInput, match="0 <= low <= high"):
        stream.interval_std(3, 2)
    for ends in ((0.5, 3), ("a", 3)):
        with pytest.raises(InvalidInput, match="must be integers"):
            stream.interval_std(*ends)


def test_other_terms_other_noise() -> None:
    base = stream_of(5).release(0).value
    assert stream_of(5).release(0).value == base
    assert stream_of(6).release(0).value != base
    assert stream_of(5, name="other").release(0).value != base
    assert stream_of(5, guarantee=ZCDP(0.51)).release(0).value != base

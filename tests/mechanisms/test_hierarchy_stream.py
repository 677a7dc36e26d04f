"""Growing hierarchies: any cut gives the same cells, as accurate as they say; refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from counton.errors import HorizonExceeded, InvalidInput, SumOverflow
from counton.mechanisms.hierarchy_stream import HierarchyStream
from counton.noise import Key
from counton.privacy import ZCDP, ApproxDP, Contribution, PureDP
from counton.strategies.lines import Haar

KEY = Key(bytes(range(32)))


def stream_of(doublings: Any, **changed: Any) -> Any:
    return HierarchyStream(
        **{"guarantee": ZCDP(0.5), "doublings": doublings, "key": KEY, **changed}
    )


def test_intervals_are_as_accurate_as_those_of_the_cascade() -> None:
    stream, cascade = stream_of(4), Haar.cascade(16)
    low, high = np.triu_indices(17, 1)
    expected = np.sqrt(cascade.variance(low, high) * stream.noise_law.variance)
    assert stream.interval_std(low, high) == pytest.approx(expected, rel=1e-9)
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
        ([2**50], SumOverflow, "too large"),
        (
            [2**35] * 5,
            SumOverflow,
            r"would sum to 1\.718e\+11; at this noise sums are exact below 2\^37",
        ),
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


def test_blocks_are_exact_sums_or_refused() -> None:
    """Cells near 2^34 once summed to blocks that were off by 0.007."""
    large = 2**34 + 12345
    with pytest.raises(SumOverflow, match="count in larger units"):
        stream_of(11).release_many(np.full(2048, large))
    stream = stream_of(11)
    counts = np.full(2048, large >> 9)
    values = np.concatenate([stream.release_many(part) for part in np.split(counts, [5, 900])])
    exact = sum(map(Fraction, values.tolist()))
    assert Fraction(float(values.sum())) == exact
    assert Fraction(float(values[::-1].sum())) == exact


def test_a_refused_stretch_can_be_released_in_part() -> None:
    stream = stream_of(4)
    base = stream_of(4).release_many([2**35])
    with pytest.raises(SumOverflow):
        stream.release_many([2**35] * 5)
    assert stream.step == 0
    assert stream.release_many([2**35]) == base

"""The cascade that grows: the paper's measurements and its law at every size."""

from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from counton.base.distributions import DiscreteGaussian
from counton.base.errors import InvalidInputError
from counton.strategies import GrowingCascade, matrices, sensitivities
from counton.strategies.strategy import window_rounding
from counton.tables import Haar
from counton.testing import HashedNoise


def measured(cascade: GrowingCascade) -> Any:
    """C from the definition in the paper's appendix D.1, without looking at columns."""
    first = cascade.first
    weight = cascade.weight
    cells = cascade.horizon
    rows = [np.where(np.arange(cells) == 0, first, 0)]
    for number in range(1, cascade.doublings + 1):
        grown = np.zeros(cells, np.int64)
        half = 1 << (number - 1)
        grown[:half] = weight
        grown[half : 2 * half] = 2 * weight
        rows.append(grown)
    for height in range(1, cascade.doublings):
        size = 1 << height
        for start in range(size, cells, size):  # the first node of each height grew by doubling
            part = np.zeros(cells, np.int64)
            part[start : start + size // 2] = weight
            part[start + size // 2 : start + size] = -weight
            rows.append(part)
    return np.array(rows)


@pytest.mark.parametrize("doublings", [0, 1, 2, 3, 5])
def test_growing_cascade_measures_sums_of_paper(doublings: int) -> None:
    cascade = GrowingCascade(doublings)
    expected = measured(cascade)
    _, enters = matrices(cascade)
    assert sorted(map(tuple, enters.astype(int).tolist())) == sorted(map(tuple, expected.tolist()))
    assert cascade.l1_sensitivity() == np.abs(expected).sum(axis=0).max()
    assert cascade.squared_sensitivity() == (expected**2).sum(axis=0).max()
    assert cascade.squared_sensitivity() / cascade.first**2 == pytest.approx(1 + doublings / 3)
    assert cascade.first**2 == 3 * cascade.weight**2 + 1


def test_sums_have_variance_of_cascade_at_every_size() -> None:
    for doublings in (0, 1, 4, 6):
        cascade = GrowingCascade(doublings)
        low, high = np.triu_indices(cascade.horizon + 1, 1)
        expected = Haar.cascade(1 << max(doublings, 1)).variance(low, high)
        assert cascade.variance(high, since=low) == pytest.approx(expected, rel=1e-11)


def test_complete_blocks_have_equal_variance_in_any_stream_length() -> None:
    cascade = GrowingCascade(32)
    starts = np.array([0, 2**31, 2**20 * 77, 5, 2**32 - 1])
    sizes = np.array([2**32, 2**31, 2**20, 1, 1])
    unit = 1 / (3 * cascade.weight**2)
    assert cascade.variance(starts + sizes, since=starts) == pytest.approx([unit] * 5, rel=1e-11)
    assert cascade.overall_variance("max") == pytest.approx(unit)


@pytest.mark.parametrize("bits", [1, 10])
def test_no_block_is_rounded_by_more_than_a_unit(bits: int) -> None:
    cascade = GrowingCascade(6, fraction_bits=bits)
    table = HashedNoise((50,), spread=2**27)
    nodes = sorted({node[:2] for step in range(1, 65) for node in cascade.row(step)})
    z = np.array([table.at(*node) for node in nodes], dtype=np.float64)
    reads, _ = matrices(cascade)
    off = cascade.noise(table, range(1, 65)) - reads.astype(float) @ z * 2.0**bits
    for height in range(7):
        blocks = off.reshape(-1, 2**height, 50).sum(axis=1)
        assert np.abs(blocks).max() <= 1 + 1e-6
    sums = np.vstack([np.zeros(50), np.cumsum(off, axis=0)])
    starts, stops = np.triu_indices(65, 1)
    windows = np.abs(sums[stops] - sums[starts]).max(axis=1)
    assert (windows <= window_rounding(cascade, starts, stops) + 1e-6).all()
    assert np.abs(off).max() > 0.4  # there is something to round
    assert abs(off.mean()) < 0.01  # to either side


@pytest.mark.parametrize("doublings", [-1, 33, 1.0, True, None])
def test_doublings_are_fixed_in_advance_and_few(doublings: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"doublings is .* between 0 and 32"):
        GrowingCascade(doublings)
    with pytest.raises(InvalidInputError, match="fraction_bits is"):
        GrowingCascade(3, fraction_bits=17)


def test_noise_beyond_its_sums_is_refused() -> None:
    cascade = GrowingCascade(3, fraction_bits=16)
    narrow, wide = (DiscreteGaussian(Fraction(2**power)) for power in (76, 77))
    cascade._check_distribution(narrow)
    with pytest.raises(InvalidInputError, match=r"hold at most 2\.749e\+11"):
        cascade._check_distribution(wide)


@pytest.mark.parametrize("doublings", [0, 1, 2, 3, 4])
def test_units_that_act_in_several_steps_by_brute_force(doublings: int) -> None:
    """Over all sets of steps: with products of columns as they are, which no signs can exceed."""
    cascade = GrowingCascade(doublings)
    columns = measured(cascade).astype(object)
    products = columns.T @ columns
    assert (products > 0).all()
    lengths = np.abs(columns).sum(axis=0)
    cells = range(cascade.horizon)
    for steps in (2, 3, 4):
        for apart in (1, 2, 3, 5):
            sets = [
                list(chosen)
                for size in range(1, steps + 1)
                for chosen in combinations(cells, size)
                if all(b - a >= apart for a, b in pairwise(chosen))
            ]
            squared = max(int(products[np.ix_(chosen, chosen)].sum()) for chosen in sets)
            found = sensitivities(cascade, steps=steps, separation=apart)
            assert squared <= found.l2_squared <= squared + 1
            assert max(lengths[chosen].sum() for chosen in sets) <= found.l1
            schedules = [list(cells[i::apart][:steps]) for i in cells]
            squared = max(int(products[np.ix_(chosen, chosen)].sum()) for chosen in schedules)
            found = sensitivities(cascade, steps=steps, every=apart)
            assert squared <= found.l2_squared <= 1.05 * squared


def test_units_that_act_often_in_a_long_stream() -> None:
    cascade = GrowingCascade(20)
    once = sensitivities(cascade)
    often = sensitivities(cascade, steps=100)
    assert 100 * once.l2_squared < often.l2_squared < 100**2 * once.l2_squared
    assert sensitivities(cascade, steps=100, separation=1000).l2_squared < often.l2_squared
    assert sensitivities(cascade, steps=1) == once

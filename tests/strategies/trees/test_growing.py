"""The cascade that grows: privacy by brute force over cells, the paper's law at every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tables_of_noise import WrittenNoise

from counton.errors import InvalidInput
from counton.strategies.lines import Haar
from counton.strategies.trees import GrowingCascade

DOUBLING = 128
BITS = 12


def measured(cascade: Any) -> Any:
    """C by levels: {level: rows}, from the definition in the paper's appendix D.1."""
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


def released(cascade: Any, counts: Any, noise: Any) -> Any:
    """Cells in units of 2^-BITS."""
    return (counts << BITS) + cascade.noise(WrittenNoise(noise), range(cascade.horizon), BITS)


@pytest.mark.parametrize("doublings", [0, 1, 2, 3, 5])
def test_sensitivity_and_privacy_shift_by_brute_force(doublings: Any) -> None:
    cascade = GrowingCascade(doublings)
    rows = measured(cascade)
    whole = np.vstack(list(rows.values()))
    norms = cascade.norms()
    assert norms.l1 == np.abs(whole).sum(axis=0).max()
    assert norms.l2_squared == (whole**2).sum(axis=0).max()
    assert norms.l2_squared / cascade.first**2 == pytest.approx(1 + doublings / 3, rel=1e-9)
    cells = 1 << doublings
    for i in range(cells):
        for j in range(i):
            move = whole[:, i] - whole[:, j]
            assert np.abs(move).sum() <= norms.move_l1
            assert (move**2).sum() <= norms.move_l2_squared
    rng = np.random.default_rng(doublings)
    noise = {level: rng.integers(-(2**24), 2**24, len(part)) for level, part in rows.items()}
    counts = rng.integers(0, 9, cells)
    base = released(cascade, counts, noise)
    for cell in range(cells):
        neighbour = counts.copy()
        neighbour[cell] += 1
        shifted = {level: noise[level] - part[:, cell] for level, part in rows.items()}
        assert (released(cascade, neighbour, shifted) == base).all()


def test_noise_has_the_covariance_of_the_cascade_at_every_size() -> None:
    doublings = 4
    grown = GrowingCascade(doublings)
    unit = 2**24
    columns = []
    for level, part in measured(grown).items():
        for row in range(len(part)):
            noise = np.zeros(len(part), np.int64)
            noise[row] = unit
            values = grown.noise(WrittenNoise({level: noise}), range(16), BITS)
            columns.append(values * 2.0**-BITS / unit)
    reads = np.array(columns).T
    joint = reads @ reads.T
    cascade = Haar.cascade(16)
    low, high = np.triu_indices(17, 1)
    summed = np.vstack([np.zeros(16), np.tril(np.ones((16, 16)))])
    sums = summed @ joint @ summed.T
    found = sums[low, low] + sums[high, high] - 2 * sums[low, high]
    assert found == pytest.approx(cascade.variance(low, high), rel=1e-3)
    assert found == pytest.approx(grown.variance(low, high), rel=1e-3)


@pytest.mark.parametrize("doublings", [-1, 33, 1.0, True, None])
def test_doublings_are_fixed_in_advance_and_few(doublings: Any) -> None:
    with pytest.raises(InvalidInput, match="must be an integer from 0 to 32"):
        GrowingCascade(doublings)

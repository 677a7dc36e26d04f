"""Honaker's online estimator: optimal weights, and fixed-point sums that lose nothing private."""

from fractions import Fraction

import numpy as np
import pytest

from counton.base.errors import InvalidInputError, SumOverflowError
from counton.strategies import HonakerOnline, matrices
from counton.testing import HashedNoise, ShiftedNoise


def test_worst_variance_at_2_20() -> None:
    """The baseline in "A Smooth Binary Mechanism": binary 420, smooth 144."""
    tree = HonakerOnline(2**20)
    assert float(tree.squared_sensitivity()) * tree.overall_variance("max") == pytest.approx(
        226.870289, abs=5e-7
    )


def test_node_variances_follow_the_recursion() -> None:
    v = Fraction(1)
    tree = HonakerOnline(2**30)
    for level in range(30):
        assert tree.variance([2**level])[0] == pytest.approx(float(v), rel=1e-15)
        v = 1 / (1 + 1 / (2 * v))


@pytest.mark.parametrize("step", [1, 2, 4, 6, 7, 8, 13])
def test_weights_are_the_best_of_all_unbiased_ones(step: int) -> None:
    """Least squares from the completed nodes up to ``step`` cannot do better."""
    tree = HonakerOnline(16)
    _, enters = matrices(tree)
    right_ends = sorted({(n.level, n.index) for t in range(1, 17) for n in tree.column(t)})
    done = [i for i, (level, index) in enumerate(right_ends) if (index + 1) << level <= step]
    known = enters[done, :step].astype(float)
    covariance = np.linalg.inv(known.T @ known)
    best = np.ones(step) @ covariance @ np.ones(step)
    assert tree.variance([step])[0] == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("shape", [(), (3,), (40,)])
def test_blocks_join_seamlessly(shape: tuple[int, ...]) -> None:
    """Longer than a block of the fast path; the shift is exact across its borders."""
    horizon = 300_000 if shape == () else 10_000
    tree = HonakerOnline(horizon)
    table = HashedNoise(shape, spread=2**30)
    whole = tree.noise(table, range(1, horizon + 1))
    for start in (1, 4095, horizon // 2 - 1, horizon - 20):
        window = range(start, start + 20)
        np.testing.assert_array_equal(tree.noise(table, window), whole[start - 1 :][:20])
    item = horizon // 3
    shifts = {(n.level, n.index): 5 for n in tree.column(item)}
    moved = tree.noise(ShiftedNoise(table, shifts), range(1, horizon + 1)) - whole
    moved = moved.reshape(horizon, -1)
    assert not moved[: item - 1].any()
    assert (moved[item - 1 :, 0] == 5 * 2**16).all()
    assert not moved[:, 1:].any()


def test_noise_too_large_for_its_sums_is_refused() -> None:
    tree = HonakerOnline(2**40)
    with pytest.raises(SumOverflowError, match="give a larger epsilon"):
        tree.noise(HashedNoise(spread=2**40), range(1, 40))
    largest = np.abs(tree.noise(HashedNoise(spread=2**37 - 1), range(1, 4000))).max()
    assert largest < 2**62


@pytest.mark.parametrize("horizon", [0, True, 2.0, 2**40 + 1])
def test_bad_horizons(horizon: int) -> None:
    with pytest.raises(InvalidInputError, match=f"horizon is {horizon}"):
        HonakerOnline(horizon)

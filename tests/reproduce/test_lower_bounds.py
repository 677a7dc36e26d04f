"""Mathias' bounds against the square-root factorisation and a norm computed directly."""

import math

import numpy as np
import pytest

from counton.errors import InvalidInput
from counton.reproduce.constants import factorisation_bounds, mathias_sum
from counton.strategies.streams.square_root import square_root_sensitivity


@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 1000, 2**16, 2**20])
def test_square_root_lies_within_0585_of_the_lower_bound(horizon: int) -> None:
    lower, upper = factorisation_bounds(horizon)
    value = square_root_sensitivity(horizon)
    assert lower <= value <= lower + 0.58502
    assert lower <= upper <= lower + 0.5


def test_the_gap_tends_to_its_limit() -> None:
    lower, _ = factorisation_bounds(2**20)
    assert square_root_sensitivity(2**20) - lower == pytest.approx(0.5850, abs=1e-4)


def test_blocks_of_the_sum_agree_with_one_sum() -> None:
    horizon = 2**21 + 12_345
    j = np.arange(1, horizon + 1)
    direct = math.fsum(1 / np.sin((2 * j - 1) * np.pi / (2 * horizon))) / horizon
    assert mathias_sum(horizon) == pytest.approx(direct, rel=1e-10)


def test_no_factorisation_of_two_steps_beats_the_bound() -> None:
    """A = B C for T = 2 is B = A M^-1, C = M: search the lower-triangular M."""
    best = math.inf
    for a in np.linspace(0.05, 3, 120):
        for b in np.linspace(-3, 3, 121):
            inverse = np.array([[1, 0], [-b / a, 1 / a]])
            reads = np.array([[1, 0], [1, 1]]) @ inverse
            column = math.sqrt(max(1 + b * b, a * a))
            row = math.sqrt(max((reads**2).sum(axis=1)))
            best = min(best, column * row)
    lower, upper = factorisation_bounds(2)
    assert lower <= best <= upper + 0.01


def test_horizon_is_checked() -> None:
    with pytest.raises(InvalidInput, match="horizon"):
        mathias_sum(0)

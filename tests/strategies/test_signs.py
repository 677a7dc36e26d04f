"""Strategies whose columns have negative entries: no sensitivity is understated."""

from __future__ import annotations

from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from counton.base.distributions import Alternating, BoundedChange
from counton.strategies import NormalisedSqrt, SqrtToeplitz, StreamStrategy
from counton.strategies.participation import (
    Schedule,
    pattern_sensitivity,
    sensitivities,
    written_out,
)
from counton.strategies.strategy import Node
from counton.strategies.streams.square_root import RootSeries, is_falling, signed_overlaps
from counton.testing import check_strategy

#: A series with signs: the first coefficients of sqrt(1 + x + x^2 + x^3), times 2^12.
_SIGNED = (4096, 2048, 1536, 1280, -1088, -144, -96, 480, 640, -12, 77, -300)


class _SignedSeries(RootSeries):
    @cached_property
    def numerators(self) -> NDArray[np.int64]:
        return np.array(_SIGNED[: self.count], np.int64)


class _SignedRoot(SqrtToeplitz):
    """The square root, with another series in its place."""

    def __init__(self, horizon: int) -> None:
        super().__init__(horizon)
        self.root = _SignedSeries(horizon, 12)
        self.facts = self.facts._replace(lattice_bits=12)


class _SignedNormalised(NormalisedSqrt):
    """The normalised square root, with another series in its place."""

    def __init__(self, horizon: int, weight_bits: int = 8) -> None:
        super().__init__(horizon, weight_bits)
        self.root = _SignedSeries(horizon, self.root.bits)


class _Difference(StreamStrategy):
    """A user's strategy without facts: it measures each step minus the step before."""

    def __init__(self, horizon: int) -> None:
        self.horizon = horizon
        self.facts = self.facts._replace(unit_columns=False)

    def column(self, step: int) -> tuple[Node, ...]:
        later = (Node(0, step + 1, -1),) if step < (self.horizon or 0) else ()
        return (Node(0, step, 1), *later)

    def row(self, step: int) -> tuple[Node, ...]:
        return tuple(Node(0, node, 1 + step - node) for node in range(1, step + 1))


def _strategies(horizon: int) -> list[StreamStrategy]:
    return [_SignedRoot(horizon), _SignedNormalised(horizon), _Difference(horizon)]


def _worst(matrix: NDArray[np.int64], steps: int, apart: int) -> tuple[int, int]:
    """Return both largest norms of sums of columns with any signs, over all sets of steps."""
    horizon = matrix.shape[1]
    worst = [0, 0]
    for size in range(1, steps + 1):
        signs = np.array([[1 - 2 * (i >> j & 1) for j in range(size)] for i in range(2**size)])
        for chosen in combinations(range(horizon), size):
            if any(b - a < apart for a, b in pairwise(chosen)):
                continue
            moved = signs @ matrix[:, list(chosen)].T
            worst[0] = max(worst[0], int(np.abs(moved).sum(axis=1).max()))
            worst[1] = max(worst[1], int((moved**2).sum(axis=1).max()))
    return worst[0], worst[1]


@pytest.mark.parametrize("strategy", _strategies(10), ids=lambda s: type(s).__name__)
def test_norms_of_one_step_count_magnitudes(strategy: StreamStrategy) -> None:
    matrix = written_out(strategy)
    assert (matrix < 0).any()
    moved = sensitivities(strategy)
    assert moved.l1 == np.abs(matrix).sum(axis=0).max()
    assert moved.l2_squared == (matrix**2).sum(axis=0).max()


@pytest.mark.parametrize("strategy", _strategies(10), ids=lambda s: type(s).__name__)
@pytest.mark.parametrize(("steps", "apart"), [(2, 1), (2, 3), (3, 1), (3, 4)])
def test_units_in_several_steps_move_no_more_than_stated(
    strategy: StreamStrategy, steps: int, apart: int
) -> None:
    l1, squared = _worst(written_out(strategy), steps, apart)
    moved = sensitivities(strategy, steps=steps, separation=apart)
    assert moved.l1 >= l1
    assert moved.l2_squared >= squared


@pytest.mark.parametrize("strategy", _strategies(10), ids=lambda s: type(s).__name__)
def test_changes_within_norms_move_no_more_than_stated(strategy: StreamStrategy) -> None:
    # A move from one step to another has norms 2 and 2; with signs its columns may add up.
    _, squared = _worst(written_out(strategy), 2, 1)
    assert pattern_sensitivity(strategy, BoundedChange(2, 2)).l2_squared >= squared
    moved = written_out(strategy)
    pairs = [moved[:, a] - moved[:, b] for a, b in combinations(range(10), 2)]
    most = max(int((pair**2).sum()) for pair in pairs)
    assert pattern_sensitivity(strategy, Alternating(2)).l2_squared >= most


def test_overlaps_of_long_series_fall_back_to_the_largest_column() -> None:
    series = np.resize(np.array([9, -8, 7, -6]), 2**15)
    weights = np.ones(2**15, np.int64)
    schedule = Schedule(4, 3, fixed=False)
    assert signed_overlaps(series, weights, schedule) == [int((series**2).sum())] * 3


def test_a_series_falls_only_without_rises_and_signs() -> None:
    assert is_falling(np.array([4, 4, 1, 0]))
    assert not is_falling(np.array([4, 5]))
    assert not is_falling(np.array([4, 2, -1]))


@pytest.mark.parametrize("horizon", [1, 7, 12])
def test_signed_roots_pass_check_strategy(horizon: int) -> None:
    check_strategy(_SignedRoot(horizon))
    check_strategy(_SignedNormalised(horizon))


def test_overlaps_of_opposite_signs_are_magnitudes() -> None:
    series = np.zeros(200, np.int64)
    series[:3] = 16, -12, -1
    overlaps = signed_overlaps(series, np.ones_like(series), Schedule(4, 1, fixed=False))
    assert overlaps == [192, 16, 0]


def test_two_columns_of_opposite_signs_are_not_aligned() -> None:
    strategy = _Difference(2)  # columns (1, -1) and (0, 1), whose difference is (1, -2)
    assert not strategy.structure.aligned()
    assert pattern_sensitivity(strategy, BoundedChange(2, 2)).l2_squared >= 5

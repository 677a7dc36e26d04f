"""Octave, growing roots and epochs at any horizon: shifts, least norms, and many at once or few."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from counton.base.distributions import DiscreteGaussian
from counton.laws import HashedNoise
from counton.strategies import (
    Epochs,
    GrowingSquareRoot,
    Metric,
    MultiscaleInterpolation,
    StreamStrategy,
    matrices,
)
from counton.strategies.strategy import column_until, node_factor, node_law

SPREAD = 2**30


class Table:
    """Noise that a test may move."""

    shape: tuple[int, ...] = ()

    def __init__(self, seed: int) -> None:
        self._field = HashedNoise(spread=SPREAD, seed=seed)
        self.moved: dict[tuple[int, int], int] = {}

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        found = self._field.run(level, nodes)
        for (of, node), by in self.moved.items():
            if of == level and node in nodes:
                found[node - nodes.start] += by
        return found


def check_shifts(strategy: StreamStrategy, steps: int, seed: int, change: int) -> None:
    """For every step, whole: what one item moves is made up for to the last bit."""
    table, window = Table(seed), range(1, steps + 1)
    before = strategy.noise(table, window)
    for step in window:
        column = column_until(strategy, step, steps)
        table.moved = {
            (level, node): int(change * weight * 2**strategy.facts.lattice_bits)
            for level, node, weight in column
        }
        moved = strategy.noise(table, window) - before
        expected = (np.arange(1, steps + 1) >= step) * (change << strategy.facts.fraction_bits)
        assert np.array_equal(moved, expected), (strategy, step)


@settings(deadline=None, max_examples=12)
@given(
    horizon=st.integers(1, 150), metric=st.sampled_from(["mean", "max"]), change=st.integers(-3, 3)
)
def test_octave_makes_up_for_every_step(horizon: int, metric: Metric, change: int) -> None:
    strategy = MultiscaleInterpolation(horizon, metric)
    check_shifts(strategy, horizon, horizon, change)
    squared = [
        sum(weight**2 for _, _, weight in strategy.column(step)) for step in range(1, horizon + 1)
    ]
    assert max(squared) <= strategy.squared_sensitivity()


@pytest.mark.slow
@settings(deadline=None, max_examples=8)
@given(horizon=st.integers(2, 200), metric=st.sampled_from(["mean", "max"]))
def test_octave_claims_no_less_than_its_rows_demand(horizon: int, metric: Metric) -> None:
    """Of all C with B C = A the one of least squares has the shortest columns."""
    strategy = MultiscaleInterpolation(horizon, metric)
    b = matrices(strategy)[0].astype(np.float64)
    totals = np.tri(horizon)
    demanded = (totals.T @ np.linalg.solve(b @ b.T, totals)).diagonal().max()
    assert demanded <= float(strategy.squared_sensitivity()) * (1 + 1e-9)


@settings(deadline=None, max_examples=10)
@given(steps=st.integers(1, 60), bits=st.sampled_from([4, 8, 14, 18]), change=st.integers(-3, 3))
def test_the_growing_root_makes_up_for_every_step(steps: int, bits: int, change: int) -> None:
    strategy = GrowingSquareRoot(bits)
    check_shifts(strategy, steps, steps, change)
    for step in range(1, steps + 1):
        cost = Fraction(0)
        for level, _, weight in column_until(strategy, step, steps):
            law = node_law(strategy, DiscreteGaussian(Fraction(1)), level)
            assert isinstance(law, DiscreteGaussian)
            cost += Fraction(weight) ** 2 / law.sigma_squared
        assert cost <= 1


@settings(deadline=None, max_examples=10)
@given(steps=st.integers(2, 60))
def test_the_growing_root_claims_no_less_than_its_rows_demand(steps: int) -> None:
    strategy = GrowingSquareRoot()
    b = np.zeros((steps, steps))
    for step in range(1, steps + 1):
        for level, node, weight in strategy.row(step):
            b[step - 1, node - 1] = float(weight) * float(node_factor(strategy, level)) ** 0.5
    totals = np.tri(steps)
    demanded = (totals.T @ np.linalg.solve(b @ b.T, totals)).diagonal().max()
    assert 0.3 < demanded <= 1 + 1e-9


@settings(deadline=None, max_examples=12)
@given(radix=st.sampled_from([3, 4, 5, 16]), steps=st.integers(1, 120), change=st.integers(-3, 3))
def test_epochs_make_up_for_every_step(radix: int, steps: int, change: int) -> None:
    check_shifts(Epochs(radix), steps, steps, change)


@settings(deadline=None)
@given(
    strategy=st.sampled_from([MultiscaleInterpolation(500), GrowingSquareRoot(), Epochs()]),
    data=st.data(),
)
def test_windows_of_a_running_stream_are_those_alone(
    strategy: StreamStrategy, data: st.DataObject
) -> None:
    lengths = data.draw(st.lists(st.integers(1, 120), max_size=4))
    field = HashedNoise(spread=SPREAD)
    whole = strategy.noise(field, range(1, sum(lengths) + 1))
    reader, start = strategy._reader(field), 1
    for length in lengths:
        window = range(start, start + length)
        assert np.array_equal(reader.noise(window), whole[start - 1 : start - 1 + length])
        start += length

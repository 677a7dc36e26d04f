"""Octave: the shift for every step, least norms from the rows alone, and known answers."""

import hashlib
import math
from fractions import Fraction
from functools import cache, cached_property
from importlib.resources import files

import numpy as np
import pytest
from numpy.typing import NDArray
from some_cases import long

from counton.base.distributions import DiscreteGaussian
from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.strategies import Metric, MultiscaleStrategy, noise_variance
from counton.strategies.participation import Schedule, sensitivities, sensitivity
from counton.strategies.streams.multiscale import (
    _DIFFERENCE_WEIGHTS,
    _RELEASE_WEIGHTS,
    MultiscaleColumns,
    _Grid,
)
from counton.testing import HashedNoise


class Plain(MultiscaleStrategy):
    """All weights 1, and a chosen number of levels: what is tabulated elsewhere."""

    def __init__(self, horizon: int, levels: int, upper: int = 0) -> None:
        super().__init__(horizon)
        nodes = [range(1, horizon + 1)]
        for _ in range(levels):
            low = nodes[-1].start
            high = nodes[-1].stop - 1
            nodes.append(range(low // 2 - (low % 2 == 0), high // 2 + 2))
        self._grid = _Grid(horizon, upper, tuple(nodes))

    @cached_property
    def weights(self) -> tuple[NDArray[np.int64], ...]:
        return tuple(np.full(len(nodes), 64) for nodes in self._grid.nodes[self._grid.upper :])


class Drawn:
    """Noise of all nodes as arrays, which tests may change."""

    shape: tuple[int, ...] = ()

    def __init__(self, strategy: MultiscaleStrategy, spread: int) -> None:
        field = HashedNoise(spread=spread)
        self.levels = [
            field.run(level, range(nodes.stop + 1))
            for level, nodes in enumerate(strategy._grid.nodes)
        ]

    def run(self, level: int, nodes: range) -> NDArray[np.int64]:
        return self.levels[level][nodes.start : nodes.stop].copy()


def rows(strategy: MultiscaleStrategy) -> NDArray[np.float64]:
    """B, from the rows alone."""
    read = [
        {node[:2]: float(node.weight) for node in strategy.row(step)}
        for step in range(1, strategy.horizon + 1)
    ]
    nodes = sorted(set().union(*read))
    return np.array([[row.get(node, 0.0) for node in nodes] for row in read])


# --- privacy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy",
    [
        MultiscaleStrategy(33), MultiscaleStrategy(200, "max", 12),
        long(MultiscaleStrategy(600)), long(MultiscaleStrategy(600, "max", 14)),
        long(MultiscaleStrategy(1100)),
    ],
    ids=repr,
)  # fmt: skip
def test_the_shift_of_every_step_moves_releases_by_exactly_that(
    strategy: MultiscaleStrategy,
) -> None:
    table = Drawn(strategy, 2**30)
    window = range(1, strategy.horizon + 1)
    before = strategy.noise(table, window)
    steps = np.arange(1, strategy.horizon + 1)
    largest = [0, 0]
    for step in window if strategy.horizon < 1000 else range(1, strategy.horizon + 1, 7):
        column = strategy._columns.column(step)
        change = 3 if step % 2 else -2
        for level, node, weight in column:
            table.levels[level][node + 1] += change * weight
        moved = strategy.noise(table, window) - before
        for level, node, weight in column:
            table.levels[level][node + 1] -= change * weight
        expected = (steps >= step) * change * 2**strategy.facts.fraction_bits
        assert np.array_equal(moved, expected)
        weights = [abs(weight) for _, _, weight in column]
        largest = [max(largest[0], sum(weights)), max(largest[1], sum(w * w for w in weights))]
    claimed = strategy._columns.norms
    assert claimed.l1 >= largest[0]
    assert claimed.l2_squared >= largest[1]
    assert claimed.l2_squared <= 1.02 * largest[1]


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [40, 200, long(515)])
@pytest.mark.parametrize("metric", ["mean", "max"])
def test_no_column_is_shorter_than_the_rows_demand(horizon: int, metric: Metric) -> None:
    """Of all C with B C = A the one of least squares has the shortest columns."""
    strategy = MultiscaleStrategy(horizon, metric)
    b = rows(strategy)
    least = np.linalg.solve(b @ b.T, np.tri(horizon))
    demanded = (np.tri(horizon).T @ least).diagonal().max()
    claimed = float(strategy.squared_sensitivity())
    assert demanded <= claimed <= 1.04 * demanded


def test_bounds_hold_for_random_steps_of_a_long_stream() -> None:
    strategy = MultiscaleStrategy(10**9)
    rng = np.random.default_rng(3)
    steps = [1, 2, 10**9, 2**29, (2**30 - 1) // 3, *rng.integers(1, 10**9, 60).tolist()]
    found = [sum(w * w for _, _, w in strategy._columns.column(step)) for step in steps]
    assert max(found) <= strategy._columns.norms.l2_squared
    assert max(found) >= 0.95 * strategy._columns.norms.l2_squared


def test_columns_far_apart_meet_on_high_levels_alone() -> None:
    strategy = MultiscaleStrategy(3000)
    columns = {
        step: {(level, node): weight for level, node, weight in strategy._columns.column(step)}
        for step in (900, 901, 998, 999, 1000, 1001, 1150, 2000, 2999)
    }
    for apart in (99, 100, 101, 250, 1000, 1999):
        bound = strategy._overlaps(Schedule(2, apart, fixed=False))[0]
        for one, of_one in columns.items():
            for other, of_other in columns.items():
                if abs(one - other) >= apart:
                    shared = of_one.keys() & of_other.keys()
                    product = sum(of_one[node] * of_other[node] for node in shared)
                    assert abs(product) <= bound
    alone = sensitivities(strategy).l2_squared
    assert sensitivities(strategy, steps=2, separation=1000).l2_squared < 0.98 * 4 * alone
    assert sensitivities(strategy, steps=2).l2_squared == 4 * alone


# --- noise ---------------------------------------------------------------------------------------


def by_definition(strategy: MultiscaleStrategy, field: HashedNoise | Drawn, step: int) -> int:
    """One release in Python's integers, from the definition."""
    grid = strategy._grid
    bits = strategy.weight_bits

    @cache
    def level_noise(level: int, node: int) -> int:
        if level == len(grid.nodes) or node not in grid.nodes[level]:
            return 0
        drawn = int(field.run(level, range(node + 1, node + 2))[0])
        weight = strategy._weight(level, node)
        at = node // 2
        if node % 2:
            above = 8 * (level_noise(level + 1, at) + level_noise(level + 1, at + 1))
        else:
            parts = (level_noise(level + 1, at + k) for k in (-1, 0, 1))
            above = sum(share * part for share, part in zip((3, 10, 3), parts, strict=True))
        # round(above / 16 + drawn / weight), weight 2^bits being 1
        assert weight > 0
        assert bits == strategy.facts.lattice_bits - strategy.grid_bits
        return (weight * above + 16 * drawn + 8 * weight) // (16 * weight)

    coarser = strategy.grid_bits - strategy.facts.fraction_bits
    return (level_noise(0, step) + (1 << coarser - 1)) >> coarser


@pytest.mark.parametrize("spread", [1, 2**20, 2**44])
@pytest.mark.parametrize("horizon", [5, 600])
def test_noise_equals_definition_at_any_width(horizon: int, spread: int) -> None:
    for strategy in (MultiscaleStrategy(horizon), MultiscaleStrategy(horizon, "max", 12)):
        field = HashedNoise(spread=spread)
        noise = strategy.noise(field, range(1, horizon + 1))
        for step in {1, 2, 3, horizon // 2, horizon}:
            assert noise[step - 1] == by_definition(strategy, field, step)


def test_a_window_far_out_is_the_same_alone() -> None:
    strategy = MultiscaleStrategy(10**9)
    field = HashedNoise((2,), spread=2**22)
    whole = strategy.noise(field, range(10**9 - 5000, 10**9 + 1))
    assert np.array_equal(strategy.noise(field, range(10**9, 10**9 + 1)), whole[-1:])
    assert np.array_equal(
        strategy.noise(field, range(10**9 - 4000, 10**9 - 3000)), whole[1000:2000]
    )


# --- variances -----------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [10**6 + 3, 10**9, 2**40])
def test_variances_of_long_streams_are_those_of_their_rows(horizon: int) -> None:
    strategy = MultiscaleStrategy(horizon)

    def weights(step: int) -> dict[tuple[int, int], float]:
        return {node[:2]: float(node.weight) for node in strategy.row(step)} if step else {}

    ends = [(0, 1), (0, horizon), (horizon // 3, horizon // 3 + 1), (5, horizon), (6, 9), (6, 10)]
    claimed = strategy.variance([stop for _, stop in ends], since=[start for start, _ in ends])
    for (start, stop), variance in zip(ends, claimed, strict=True):
        first = weights(start)
        last = weights(stop)
        nodes = first.keys() | last.keys()
        exact = math.fsum((last.get(n, 0.0) - first.get(n, 0.0)) ** 2 for n in nodes)
        assert variance == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("horizon", [515, 4097, long(70_000)])
def test_means_and_maxima_are_those_of_all_steps(horizon: int) -> None:
    strategy = MultiscaleStrategy(horizon)
    ends = np.arange(horizon + 1)
    variances = strategy.variance(ends[1:])
    alone = strategy.variance(ends[1:], since=ends[:-1])
    assert strategy.overall_variance("mean") == pytest.approx(variances.mean(), rel=1e-12)
    assert strategy.overall_variance("mean", "windows") == pytest.approx(alone.mean(), rel=1e-12)
    assert strategy.overall_variance("max") == pytest.approx(variances.max(), rel=1e-4)
    assert strategy.overall_variance("max", "windows") == pytest.approx(alone.max(), rel=1e-4)
    # as on streams too long to look at every step
    assert strategy._largest(_RELEASE_WEIGHTS) == pytest.approx(variances.max(), rel=1e-4)
    assert strategy._largest(_DIFFERENCE_WEIGHTS) == pytest.approx(alone[1:].max(), rel=1e-4)


# --- known answers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("horizon", "least", "mean", "largest"),
    [(256, 1.790334, 4.463600, 4.510143), (512, 1.904657, 4.887441, 4.936848)],
)
def test_equal_weights_have_the_known_norms_and_variances(
    horizon: int, least: float, mean: float, largest: float
) -> None:
    strategy = Plain(horizon, horizon.bit_length() - 1)
    assert float(strategy.squared_sensitivity()) == pytest.approx(least, rel=2e-5)
    assert strategy.overall_variance("mean") == pytest.approx(mean, abs=1e-6)
    assert strategy.overall_variance("max") == pytest.approx(largest, abs=1e-6)


@pytest.mark.parametrize(
    ("horizon", "levels", "proven"),
    [(2**16, 17, 2.575311), (10**7, 24, 3.452518), (10**9, 31, 4.189463), (2**40, 41, 5.378480)],
)
def test_equal_weights_have_the_known_bounds(horizon: int, levels: int, proven: float) -> None:
    """Of real numbers, which rounding to multiples of 2^-12 raises a little."""
    nodes = Plain(horizon, levels)._grid.nodes
    upper = tuple(np.full(len(one), 64) for one in nodes[levels - 8 :])
    found = MultiscaleColumns(horizon, nodes, upper, 12, 6).norms.l2_squared / 4.0**22
    assert proven <= found <= 1.0008 * proven


@pytest.mark.parametrize(
    ("horizon", "mean", "largest"),
    [(2**16, 4.42, 4.48), (2**20, 5.32, 5.38), (10**7, 6.05, 6.12), (10**9, 7.53, 7.60)],
)
def test_multiscale_errors_are_below_stated_errors(
    horizon: int, mean: float, largest: float
) -> None:
    metrics: tuple[Metric, ...] = ("mean", "max")
    for metric, bar in zip(metrics, (mean, largest), strict=True):
        strategy = MultiscaleStrategy(horizon, metric)
        error = sensitivity(strategy, 2) * math.sqrt(strategy.overall_variance(metric))
        assert error <= bar


def test_shipped_weights_never_change() -> None:
    """Noise of running streams is divided by them: new ones need a name of their own."""
    data = files("counton.strategies.streams").joinpath("multiscale.json").read_bytes()
    assert (
        hashlib.sha256(data).hexdigest()
        == "4d20e9f04daeda57f86b3c928dbbecd562970f657b94d2a195395afb6be470c3"
    )


# --- what is refused -----------------------------------------------------------------------------


def test_arguments_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="horizon is 0"):
        MultiscaleStrategy(0)
    with pytest.raises(InvalidInputError, match="horizon"):
        MultiscaleStrategy(2**60 + 1)
    with pytest.raises(InvalidInputError, match="grid_bits is 13; give 12, 14 or 16"):
        MultiscaleStrategy(9, grid_bits=13)
    with pytest.raises(InvalidInputError, match="grid_bits is 17"):
        MultiscaleStrategy(9, grid_bits=17)
    with pytest.raises(InvalidInputError, match="metric is 'median'"):
        MultiscaleStrategy(9, "median")  # type: ignore[arg-type]
    with pytest.raises(HorizonExceededError, match="step 10"):
        MultiscaleStrategy(9).row(10)


# --- whole numbers -------------------------------------------------------------------------------


def test_whole_numbers_are_the_same_noise_rounded_once_more() -> None:
    fine = MultiscaleStrategy(700)
    whole = MultiscaleStrategy(700, whole=True)
    field = HashedNoise(spread=2**26)
    steps = range(1, 701)
    assert whole._columns.norms == fine._columns.norms
    apart = whole.noise(field, steps) - fine.noise(field, steps) / 2**10
    assert np.abs(apart).max() <= 0.5 + 2.0**-10
    assert apart.std() == pytest.approx(12**-0.5, rel=0.1)
    distribution = DiscreteGaussian(Fraction(2**50))
    spread = noise_variance(whole, distribution, [5]) - noise_variance(fine, distribution, [5])
    assert spread == pytest.approx([1 / 12])
    ends = noise_variance(whole, distribution, [5, 4, 7], since=[0, 3, 7])
    assert ends - noise_variance(fine, distribution, [5, 4, 7], since=[0, 3, 7]) == pytest.approx(
        [1 / 12, 1 / 6, 0.0]
    )
    with pytest.raises(InvalidInputError, match="whole is 1; give True"):
        MultiscaleStrategy(9, whole=1)  # type: ignore[arg-type]

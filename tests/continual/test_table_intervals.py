"""Intervals of tables hold as often as they say: exactly, from the law of the noise."""

import itertools
import math
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from node_masses import all_masses
from numpy.typing import NDArray
from once import grid as grid_of
from once import line, released

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.base.errors import InvalidInputError
from counton.continual.intervals import is_narrow, smooth_halfwidth, weighted_halfwidth
from counton.noise import InsecureKeyWarning, InsecureSeededKey
from counton.privacy import ZCDP, Guarantee, PureDP
from counton.statistics import Contingency
from counton.statistics.grid_cells import GridResult, _few
from counton.tables import Haar, LineStrategy, Nodes

LEVELS = (0.5, 0.9, 0.95, 0.999)

pytestmark = pytest.mark.filterwarnings("ignore::counton.noise.InsecureKeyWarning")
with pytest.warns(InsecureKeyWarning):
    KEY = InsecureSeededKey(11)

#: Budgets from an epsilon of 0.3 to one of 5, with either kind of noise.
BUDGETS = [PureDP(e) for e in ("0.3", 1, 3, 5)] + [ZCDP(r) for r in ("0.045", "0.5", 2, 12)]


@cache
def inside(
    distribution: NoiseDistribution, weights: tuple[Fraction, ...]
) -> tuple[NDArray[np.float64], int]:
    """P(|N| <= c / d) for c = 0, 1, ..., and d: by convolution on the lattice of all weights."""
    common = math.lcm(*(weight.denominator for weight in weights))
    total = np.ones(1)
    for weight in weights:
        step = abs(int(weight * common))
        one = all_masses(distribution)
        spaced = np.zeros((len(one) - 1) * step + 1)
        spaced[::step] = one
        length = len(total) + len(spaced) - 1
        size = 1 << length.bit_length()
        total = np.fft.irfft(np.fft.rfft(total, size) * np.fft.rfft(spaced, size), size)[:length]
    half = total[len(total) // 2 :]
    return np.asarray(2 * np.cumsum(half) - half[0]), common


@cache
def read(
    axes: tuple[LineStrategy, ...], low: tuple[int, ...], high: tuple[int, ...]
) -> tuple[Fraction, ...]:
    """With which weights a box reads the measurements, from C alone."""
    rows = np.ones(1)
    for axis, first, last in zip(axes, low, high, strict=True):
        rows = np.kron(rows, np.linalg.pinv(axis.matrix())[first:last].sum(axis=0))
    found = [Fraction(float(weight)).limit_denominator(20_000) for weight in rows]
    assert np.allclose([float(weight) for weight in found], rows, atol=1e-9)
    return tuple(weight for weight in found if weight)


def half_of(reading: GridResult, low: list[int], high: list[int], wanted: float) -> float:
    ends = np.array(low)[:, None], np.array(high)[:, None]
    return float(reading.halves(*ends, wanted)[0])


def check(reading: GridResult) -> None:
    """Coverage of every box, from its exact law: at least as wanted, hardly more."""
    grid = reading.statistic.grid
    distribution = reading.release._design.distribution
    sides: list[Any] = [list(itertools.combinations(range(cells + 1), 2)) for cells in grid.shape]
    for box in itertools.product(*sides):
        low = [side[0] for side in box]
        high = [side[1] for side in box]
        weights = read(tuple(grid.axes), tuple(low), tuple(high))
        chance, common = inside(distribution, weights)
        # What is released is rounded: only what is within this of the estimate's noise is covered.
        rounding = 2.0 ** (len(low) - 1 - reading._bits)
        std = math.sqrt(distribution.variance * sum(float(weight) ** 2 for weight in weights))
        atom = float(max(abs(weight) for weight in weights))
        for wanted in LEVELS:
            half = half_of(reading, low, high, wanted)
            within = half if grid.cell_weight == 1 else half - rounding
            place = min(math.floor(within * common + 1e-6), len(chance) - 1)
            assert chance[place] >= wanted - 1e-9, (box, distribution, half)
            needed = int(np.argmax(chance >= wanted)) / common
            if is_narrow(distribution) or grid.cell_weight is not None:
                assert within <= needed + max(atom, 0.01 * std), (box, distribution, half, needed)
            else:  # a rule that does not look at single weights
                assert within <= 1.35 * needed + atom, (box, distribution, half, needed)


STRATEGIES: list[tuple[Nodes, ...]] = [
    (Nodes.independent(5),),
    (Nodes(3, (3,), (2, 0)),),
    (Nodes(3, (3,), (1, 1)),),
    (Nodes.binary(4),),
    (Nodes(3, (2, 2), (3, 1, 2)),),
    (Nodes.independent(3), Nodes.independent(2)),
    (Nodes(2, (2,), (1, 1)), Nodes(3, (3,), (1, 1))),
    (Nodes(2, (2,), (2, 1)), Nodes.independent(2)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guarantee", "strategy"),
    [  # each strategy with either kind of noise, narrow and wide; each budget with half of them
        pytest.param(
            *(guarantee, strategy),
            id=f"{guarantee}-{[str(one.weights) for one in strategy]}",
            marks=pytest.mark.long if turn in (3, 4) else (),
        )
        for turn, strategy in enumerate(STRATEGIES)
        for guarantee in BUDGETS[turn % 2 :: 2]
    ],
)
def test_boxes_are_covered_exactly(
    guarantee: Guarantee, strategy: tuple[LineStrategy, ...]
) -> None:
    shape = [axis.cells for axis in strategy]
    reading = grid_of(np.full(shape, 7), guarantee, KEY, strategy=strategy)
    check(reading)


@pytest.mark.parametrize("guarantee", BUDGETS, ids=str)
@pytest.mark.parametrize("equal", [False, True])
def test_margins_are_covered_exactly(guarantee: Guarantee, equal: bool) -> None:
    table = Contingency({"sex": ["f", "m"], "age": ["1", "2", "3"]}, equal=equal)
    reading = released(table, [("f", "1"), ("m", "2"), ("f", "3")], guarantee, KEY)
    grid = reading.statistic.grid
    distribution = reading.release._design.distribution
    ends: dict[tuple[str, ...], tuple[list[int], list[int]]] = {
        (): ([0, 0], [2, 3]), ("sex",): ([0, 0], [1, 3]), ("age",): ([0, 0], [2, 1]),
        ("age", "sex"): ([0, 0], [1, 1]),
    }  # fmt: skip
    by_boxes = grid.cell_weight is not None or equal
    if by_boxes:
        check(reading)
    for level in LEVELS:
        for columns, (low, high) in ends.items():
            shown = reading.margin(*columns, confidence_level=level)
            half = (shown["upper"] - shown["lower"]) / 2
            assert half == pytest.approx(half_of(reading, low, high, level))
        if not by_boxes:  # weights of no common lattice that could be enumerated
            for low, high in ends.values():
                rows = np.ones(1)
                for axis, first, last in zip(grid.axes, low, high, strict=True):
                    rows = np.kron(rows, np.linalg.pinv(axis.matrix())[first:last].sum(axis=0))
                sampled = by_sampling(distribution, rows, 20_000)
                hit = (sampled <= half_of(reading, low, high, level)).mean()
                assert hit >= level - 5 * math.sqrt(level * (1 - level) / 20_000)


def by_sampling(
    distribution: NoiseDistribution, weights: NDArray[np.float64], draws: int
) -> NDArray[np.float64]:
    """|N| of so many sums of draws, wide laws taken for what they are discretized from."""
    generator = np.random.default_rng(3)
    size = (draws, len(weights))
    if distribution.variance > 10**6:
        wide = generator.laplace if isinstance(distribution, DiscreteLaplace) else generator.normal
        spread = math.sqrt(
            distribution.variance / (2 if isinstance(distribution, DiscreteLaplace) else 1)
        )
        return np.asarray(np.abs(wide(0, spread, size) @ weights))
    one = all_masses(distribution)
    reach = len(one) // 2
    noise = generator.choice(np.arange(-reach, reach + 1), p=one, size=size)
    return np.asarray(np.abs(noise @ weights))


@pytest.mark.parametrize(
    "distribution", [DiscreteLaplace(Fraction(2, 3)), DiscreteGaussian(Fraction(1, 3))]
)
@pytest.mark.parametrize("weights", [[1.0, 0.37, 0.37, 0.05], [0.5, 0.3], [1.0] + [0.01] * 30])
def test_weighted_halfwidth_covers_sums_with_real_weights(
    distribution: NoiseDistribution, weights: list[float]
) -> None:
    values, counts = np.unique(weights, return_counts=True)
    kind = tuple(zip(values.tolist(), counts.tolist(), strict=True))
    sampled = by_sampling(distribution, np.array(weights), 100_000)
    for level in LEVELS:
        half = weighted_halfwidth(distribution, kind, level)
        slack = 5 * math.sqrt(level * (1 - level) / len(sampled))
        assert (sampled <= half).mean() >= level - slack
        shorter = half - max(max(weights) / 3, 0.02)
        assert shorter < 0 or (sampled <= shorter).mean() <= level + slack


WIDE_DISTRIBUTIONS: list[NoiseDistribution] = [
    DiscreteLaplace(Fraction(20)),
    DiscreteLaplace(Fraction(3000)),
    DiscreteGaussian(Fraction(400)),
]
WEIGHTS = [[1], [1, 1], [1] * 3, [1] * 8, [2, 1], [3, 2], [3, 1, 1], [4, 3, 2, 1]]


@pytest.mark.slow
@pytest.mark.parametrize("distribution", WIDE_DISTRIBUTIONS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_wide_noise_is_covered_by_the_smooth_rule(
    distribution: NoiseDistribution, weights: list[int]
) -> None:
    assert not is_narrow(distribution)
    chance, _ = inside(distribution, tuple(map(Fraction, weights)))
    std = math.sqrt(distribution.variance * sum(weight**2 for weight in weights))
    for level in (0.88, 0.9, 0.906, 0.907, 0.908, 0.92, 0.95, 0.999):
        half = float(smooth_halfwidth(std, distribution, level))
        assert chance[math.floor(half)] >= level - 1e-9, (distribution, weights, level)


@pytest.mark.parametrize("scale", ["1/8", "1/3", "1", "4", "13"])
def test_narrow_noise_of_many_kinds_is_covered_too(scale: str) -> None:
    """The rule for tables with too many different boxes to look at each."""
    for distribution in (DiscreteLaplace(Fraction(scale)), DiscreteGaussian(Fraction(scale) ** 2)):
        assert is_narrow(distribution)
        for weights in ([1], [1] * 4, [2, 1], [3, 1, 1], [4, 3, 2, 1], [5] + [1] * 20):
            chance, _ = inside(distribution, tuple(map(Fraction, weights)))
            std = math.sqrt(distribution.variance * sum(weight**2 for weight in weights))
            for level in LEVELS:
                half = float(smooth_halfwidth(std, distribution, level))
                place = min(math.floor(half), len(chance) - 1)
                assert chance[place] >= level - 1e-9, (distribution, weights)


def test_intervals_of_many_boxes_equal_single_ones() -> None:
    reading = line(np.arange(700), PureDP(3), KEY, strategy="identity")
    low = np.zeros((1, 701), np.int64)
    high = np.arange(701)[None]
    half = reading.halves(low, high, 0.95)
    assert half[0] == 0
    assert (np.diff(half) >= 0).all()
    some = np.array([*range(40), *range(40, 701, 20)])
    single = np.array([half_of(reading, [0], [n], 0.95) for n in some.tolist()])
    assert (half[some] >= single).all()
    assert (half[some] <= single * 1.02 + 1).all()
    sizes = np.arange(1, 10**5)
    assert (_few(sizes) >= sizes).all()
    assert (_few(sizes) <= sizes * 1.016 + 1).all()
    binary = line(np.arange(60), PureDP(3), KEY, strategy="binary")
    low, high = (ends[None] for ends in np.triu_indices(61, 1))
    wide = binary.halves(low, high, 0.95)
    for n in (1, 3, 7, 20):
        exact = half_of(binary, [0], [n], 0.95)
        assert exact <= wide[n - 1] <= 2 * exact + 1


def test_wide_strategies_keep_their_intervals() -> None:
    reading = line(np.arange(64), ZCDP("0.5"), KEY, strategy=Haar.cascade(64))
    half = half_of(reading, [0], [64], 0.95)
    std = reading.std()
    assert half == pytest.approx(1.959964 * std + 2.0**-reading._bits, rel=1e-5)
    level: Any
    for level in (0.0, 1.0, "often"):
        with pytest.raises(InvalidInputError, match="level is"):
            half_of(reading, [0], [64], level)

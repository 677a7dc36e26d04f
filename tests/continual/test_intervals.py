"""Intervals: the smallest half-width with the wanted probability, neither shorter nor longer."""

import math
from fractions import Fraction

import numpy as np
import pytest
from calls import calls_of
from node_masses import all_masses
from numpy.typing import NDArray

from counton import ZCDP, ContributionBound, Counter, PureDP
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.continual import halfwidths, interval_halfwidth, intervals, window_halfwidths
from counton.continual.node_distribution import distribution_for
from counton.continual.tails import _gaussian_tail, _inverted_tail, _transformed_tail, laplace_tail
from counton.noise import InsecureKeyWarning, InsecureSeededKey, NoiseField
from counton.privacy import Guarantee
from counton.strategies import (
    Binary,
    Expiring,
    GrowingCascade,
    HonakerOnline,
    KAry,
    LeastSquaresStrategy,
    SmoothBinary,
    SqrtToeplitz,
    StreamStrategy,
    noise_variance,
)
from counton.strategies.strategy import node_distribution, window_rows
from counton.tables import Hats

LEVELS = (0.5, 0.9, 0.95, 0.999)


def by_convolution(distribution: NoiseDistribution, terms: int) -> NDArray[np.float64]:
    """P(|N| <= c) for c = 0, 1, ..."""
    total = np.ones(1)
    for _ in range(terms):
        total = np.convolve(total, all_masses(distribution))
    half = total[len(total) // 2 :]
    return np.asarray(2 * np.cumsum(half) - half[0])


@pytest.mark.parametrize("terms", [1, 2, 5, 30])
@pytest.mark.parametrize(
    "distribution",
    [DiscreteLaplace(Fraction(b)) for b in ("0.2", "1", "3.7", "12")]
    + [DiscreteGaussian(Fraction(s)) for s in ("0.05", "0.5", "1", "3.9", "4.1", "100")],
)
def test_halfwidth_is_the_smallest_by_direct_convolution(
    distribution: NoiseDistribution, terms: int
) -> None:
    inside = by_convolution(distribution, terms)
    for level in LEVELS:
        assert interval_halfwidth(distribution, terms, level) == int(np.argmax(inside >= level))


@pytest.mark.parametrize("terms", [257, 300, 1001])
@pytest.mark.parametrize("scale", ["0.06", "0.1", "0.2", "1"])
def test_many_narrow_draws_have_the_halfwidth_of_direct_convolution(scale: str, terms: int) -> None:
    distribution = DiscreteLaplace(Fraction(scale))
    inside = by_convolution(distribution, terms)
    for level in (*np.arange(0.01, 1, 0.01), 0.999, 1 - 1e-9):
        assert interval_halfwidth(distribution, terms, level) == int(np.argmax(inside >= level))


@pytest.mark.parametrize("terms", [1, 5])
@pytest.mark.parametrize("scale", [Fraction(1, 700), Fraction(1, 800), Fraction(1, 10**9)])
def test_hardly_any_noise_needs_no_width(scale: Fraction, terms: int) -> None:
    assert interval_halfwidth(DiscreteLaplace(scale), terms) == 0


@pytest.mark.parametrize("terms", [1, 4, 200])
def test_laplace_sums_are_right_at_large_scales(terms: int) -> None:
    """Against the continuous law: a mixture of Gamma laws, from independent formulas."""
    from scipy.special import gammaincc

    scale = 2**40
    left = np.arange(terms)
    weights = [
        2.0 * math.comb(2 * terms - i - 1, terms - 1) / 2 ** (2 * terms - i)
        for i in range(terms, 0, -1)
    ]
    assert sum(weights) == pytest.approx(1)
    tail = laplace_tail(DiscreteLaplace(Fraction(scale)), terms)
    for x in (0.1, 1.0, 3.0, 50.0):
        continuous = float(np.dot(weights, gammaincc(terms - left, x)))
        assert tail(int(x * scale)) == pytest.approx(continuous, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("growth", ["1/2", "1", "1.1", "3/2", "3"])
@pytest.mark.parametrize(
    "base",
    [DiscreteLaplace(Fraction(7)), DiscreteGaussian(Fraction(9)), DiscreteGaussian(Fraction(90))],
)
def test_distributions_of_different_levels_are_convolved(
    growth: str, base: NoiseDistribution
) -> None:
    strategy = Expiring(growth, delay=2)
    total = np.ones(1)
    for level in range(6):
        total = np.convolve(total, all_masses(node_distribution(strategy, base, level)))
        half = total[len(total) // 2 :]
        inside = 2 * np.cumsum(half) - half[0]
        first = 2**level + 2
        for wanted in LEVELS:
            found = halfwidths(strategy, base, range(first, first + 2**level), wanted)
            assert (found == np.argmax(inside >= wanted)).all(), (level, wanted)
    assert (halfwidths(strategy, base, range(1, 3)) == 0).all()  # nothing is released


@pytest.mark.parametrize("growth", ["1.1", "2"])
def test_wide_distributions_of_different_levels_are_covered_tightly(growth: str) -> None:
    strategy = Expiring(growth)
    unit = DiscreteLaplace(Fraction(500))
    exact = halfwidths(strategy, unit, np.array([1, 100, 10**4]))
    for times in (2**9, 2**30):
        wide = halfwidths(strategy, DiscreteLaplace(unit.scale * times), np.array([1, 100, 10**4]))
        assert wide[0] == pytest.approx(exact[0] * times, rel=1e-3)
        assert (wide >= exact * times * (1 - 1e-3)).all()
        assert (wide <= exact * times * 1.002).all()


def test_a_wide_and_a_narrow_gaussian_are_covered() -> None:
    strategy = Expiring(16)
    distribution = DiscreteGaussian(Fraction(10**9))
    assert node_distribution(strategy, distribution, 60).variance < 1e-9
    widths = halfwidths(strategy, distribution, np.array([1, 1000, 2**60]))
    assert (np.diff(widths) >= 0).all()
    assert widths[-1] == pytest.approx(
        1.96 * noise_variance(strategy, distribution, [2**60])[0] ** 0.5, rel=1e-3
    )


def test_gaussian_sum_and_integral_meet() -> None:
    summed = _gaussian_tail(4095.9**2)
    integrated = _gaussian_tail(4096.1**2)
    for c in (0, 100, 8000, 12_000):
        scaled = round((c + 0.5) * 4096.1 / 4095.9 - 0.5)
        assert integrated(scaled) == pytest.approx(summed(c), abs=2e-4)
        assert integrated(c) >= math.erfc((c + 0.5) / (4096.1 * math.sqrt(2)))
    assert interval_halfwidth(DiscreteGaussian(Fraction(2**60)), 4) / 2**31 == pytest.approx(
        1.959964, rel=1e-6
    )


LAPLACE = DiscreteLaplace(Fraction(60))
GAUSSIAN = DiscreteGaussian(Fraction(60**2))
FEW = LeastSquaresStrategy(Hats(5, (2,), ([60, 50, 40, 70],), bits=8), (3,), (2, 1))
#: Strategies of 15 steps, with the law of a node.
OF_TREES: list[tuple[StreamStrategy, NoiseDistribution]] = [
    (Binary(15), LAPLACE),
    (KAry(15, 5, subtraction=True), LAPLACE),
    (KAry(15, 3, subtraction=False), GAUSSIAN),
    (SmoothBinary.even(15), LAPLACE),
    (HonakerOnline(15), GAUSSIAN),
    (SqrtToeplitz(15), DiscreteGaussian(Fraction((60 * 2**18) ** 2))),
]
MANY = LeastSquaresStrategy(Hats(15, (3, 8), ([60] * 6, [40] * 3), bits=8))


@pytest.mark.parametrize(
    "distribution",
    [DiscreteLaplace(Fraction(s)) for s in ("1/10", "1", "5000")]
    + [DiscreteGaussian(Fraction(s)) for s in ("1/9", "5", "2000000")],
    ids=str,
)
def test_halfwidths_of_many_steps_equal_those_of_each_step(
    distribution: NoiseDistribution,
) -> None:
    """Up to 400 nodes, beyond the numbers where mixtures and sums give way to integrals."""
    tree = KAry(400, 800)
    steps = np.array([*range(1, 20), *range(20, 240, 19), *range(250, 262), 398])
    for level in (0.5, 0.95, 1 - 1e-9):
        expected = [interval_halfwidth(distribution, terms, level) for terms in steps.tolist()]
        assert halfwidths(tree, distribution, steps, level).tolist() == expected
        assert halfwidths(tree, distribution, steps[::-1], level).tolist() == expected[::-1]
    assert halfwidths(tree, distribution, range(5, 5)).shape == (0,)


def test_a_year_of_hours_costs_few_sums_at_any_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    computed = calls_of(monkeypatch, intervals, "sum_tail")
    monkeypatch.setattr(KAry, "row", lambda *_: pytest.fail("rows are as long as the stream"))
    tree = KAry(8760, 17520)
    assert tree.height == 1
    halfwidths(tree, DiscreteLaplace(Fraction(1, 10)), range(1, 8761), 0.951)
    assert len(computed) < 60
    computed.clear()
    # Rows of thousands of nodes, and nearly as many half-widths: one sum for each, at most.
    halfwidths(tree, DiscreteLaplace(Fraction(1000)), range(8001, 8761), 0.951)
    assert len(computed) <= 760


@pytest.mark.parametrize("std", [4000, 4097, 5000, 9000, 10**6])
def test_wide_gaussians_have_intervals_of_every_level(std: int) -> None:
    """At most one integer above the normal law's quantile, up to the highest level."""
    distribution = DiscreteGaussian(Fraction(std**2))
    for level in (0.5, 0.95, 1 - 1e-8, 1 - 1e-9):
        width = interval_halfwidth(distribution, 1, level)
        inside = math.erf((width + 0.5) / (std * math.sqrt(2)))
        shorter = math.erf((width - 1.5) / (std * math.sqrt(2)))
        assert inside >= level - 1e-12
        assert shorter < level


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 95, float("nan"), 1 - 1e-10])
def test_levels_are_checked(level: float) -> None:
    with pytest.raises(InvalidInputError, match="level"):
        interval_halfwidth(LAPLACE, 1, level)
    with pytest.raises(InvalidInputError, match="level"):
        halfwidths(Binary(3), LAPLACE, range(1, 4), level)


def test_numbers_of_draws_and_steps_are_checked() -> None:
    assert interval_halfwidth(LAPLACE, 0) == 0
    with pytest.raises(InvalidInputError, match="draws"):
        interval_halfwidth(LAPLACE, -1)
    with pytest.raises(HorizonExceededError):
        halfwidths(Binary(3), LAPLACE, range(1, 5))


@pytest.mark.parametrize(
    "guarantee", [PureDP(5), PureDP(1), ZCDP(2), ZCDP(Fraction(1, 8))], ids=repr
)
def test_fractional_weights_cover_from_the_first_step_on(guarantee: Guarantee) -> None:
    """Early steps read one or two nodes of whole numbers: no normal law."""
    size = 100_000
    steps = range(1, 17)
    with pytest.warns(InsecureKeyWarning):
        key = InsecureSeededKey(7)
    counter = Counter(HonakerOnline(16), guarantee, key=key, name="early", shape=(size,))
    noise = np.abs(counter.release_many(np.zeros((16, size), np.int64)).values)
    for level in (0.5, 0.9, 0.95, 0.99):
        widths = halfwidths(counter.design.strategy, counter.design.distribution, steps, level)
        covered = (noise <= widths[:, None]).mean(axis=1)
        assert (covered >= level - 4 * math.sqrt(level * (1 - level) / size)).all()
        # wider than the grid of the nodes asks for would be careless
        shorter = (noise <= widths[:, None] - 1.5).mean(axis=1)
        assert (shorter < level).any()


@pytest.mark.parametrize("horizon", [1, 2, 7, 100])
def test_the_first_step_of_fractional_weights_has_the_exact_interval(horizon: int) -> None:
    """It reads one node of whole numbers: as many of them as it takes, and no more."""
    strategy = HonakerOnline(horizon)
    for budget in np.geomspace(0.02, 25, 20).round(4):
        for guarantee in (PureDP(float(budget)), ZCDP(float(budget))):
            distribution = distribution_for(
                strategy, guarantee, ContributionBound.add_remove()
            ).distribution
            for level in (0.5, 0.95, 0.99, 0.999999):
                width = halfwidths(strategy, distribution, range(1, 2), level)[0]
                assert width == interval_halfwidth(distribution, 1, level)


@pytest.mark.parametrize("cells", [1, 30])
@pytest.mark.parametrize(
    ("strategy", "distribution"),
    [
        *OF_TREES,
        (Expiring(1, delay=2), LAPLACE),
        (HonakerOnline(15), LAPLACE),
        (FEW, DiscreteLaplace(Fraction(60 * 2**8))),
        (MANY, DiscreteLaplace(Fraction(60 * 2**8))),
        (GrowingCascade(4), DiscreteGaussian(Fraction((3 * 2**20) ** 2))),
        (GrowingCascade(4), DiscreteLaplace(Fraction(3 * 2**20))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_intervals_of_windows_have_stated_coverage(
    strategy: StreamStrategy, distribution: NoiseDistribution, cells: int
) -> None:
    draws = 30_000 if cells == 1 else 4_000
    level = 0.95
    field = NoiseField(
        bytes(32), lambda level: node_distribution(strategy, distribution, level), (draws * cells,)
    )
    noise = strategy.noise(field, range(1, 16))
    totals = noise.reshape(15, draws, cells).sum(axis=2) / 2.0**strategy.facts.fraction_bits
    if strategy.facts.release == "windows":
        totals = np.cumsum(totals, axis=0)
    totals = np.vstack([np.zeros(draws), totals])
    ends = [(0, 1), (0, 2), (0, 15), (3, 4), (3, 7), (0, 8), (5, 15), (7, 14), (8, 9)]
    starts, stops = np.array(ends).T
    off = np.abs(totals[stops] - totals[starts])
    widths = window_halfwidths(strategy, distribution, starts, stops, level, cells=cells)
    covered = (off <= widths[:, None]).mean(axis=1)
    error = 5 * math.sqrt(level * (1 - level) / draws)
    assert (covered > level - error).all()
    # Laplace nodes of different weights stand for fewer equal ones, with heavier tails.
    careful = (
        0.02
        if strategy.facts.fraction_bits and isinstance(distribution, DiscreteLaplace)
        else 0.005
    )
    assert (covered[widths > 0] < level + careful + error).all()  # none within a delay


def by_enumeration(
    strategy: StreamStrategy, distribution: NoiseDistribution, start: int, stop: int, cells: int
) -> tuple[int, NDArray[np.float64]]:
    """P(|N| <= c / unit) for c = 0, 1, .., where all weights are multiples of 1 / unit.

    Weights that stand for such fractions to multiples of 2^-40 are taken for them.
    """
    weights: dict[tuple[int, int], Fraction] = {}
    for sign, step in window_rows(strategy, start, stop):
        for level, index, weight in strategy.row(step):
            simple = Fraction(weight).limit_denominator(64)
            assert abs(simple - weight) <= Fraction(1, 2**40)
            weights[level, index] = weights.get((level, index), Fraction(0)) + sign * simple
    unit = math.lcm(*(weight.denominator for weight in weights.values()))
    mass = all_masses(distribution)
    total = np.ones(1)
    for weight in weights.values():
        times = abs(int(weight * unit))
        spread = np.zeros((len(mass) - 1) * times + 1)
        spread[:: max(times, 1)] = mass if weight else mass.sum()
        for _ in range(cells):
            total = np.convolve(total, spread)
    half = total[len(total) // 2 :]
    return unit, np.asarray(2 * np.cumsum(half) - half[0])


@pytest.mark.parametrize("cells", [1, 3])
@pytest.mark.parametrize(
    "distribution",
    [DiscreteGaussian(Fraction(s)) for s in ("0.05", "0.2", "1", "5")]
    + [DiscreteLaplace(Fraction(s)) for s in ("0.15", "0.4", "1")],
    ids=str,
)
@pytest.mark.parametrize("strategy", [HonakerOnline(6), Binary(6), KAry(6, 3)], ids=repr)
def test_windows_of_narrow_nodes_are_covered_by_enumeration(
    strategy: StreamStrategy, distribution: NoiseDistribution, cells: int
) -> None:
    for start, stop in ((0, 1), (0, 6), (1, 2), (1, 4), (2, 3), (3, 5), (3, 6), (4, 6)):
        unit, inside = by_enumeration(strategy, distribution, start, stop, cells)
        for level in (0.5, 0.9, 0.95, 0.999, 1 - 1e-7):
            width = window_halfwidths(strategy, distribution, start, stop, level, cells=cells)
            needed = int(np.argmax(inside >= level)) / unit
            assert width >= needed, (start, stop, level)
            if strategy.facts.fraction_bits == 0:
                assert width == needed
            else:
                assert width <= 1.35 * needed + 2.6, (start, stop, level)


def test_sums_over_many_cells() -> None:
    strategy = Expiring(2)
    distribution = DiscreteLaplace(Fraction(2**12))
    std = math.sqrt(float(noise_variance(strategy, distribution, 900, since=3)))
    for cells in (10**4, 10**6, 10**9):
        width = float(window_halfwidths(strategy, distribution, 3, 900, cells=cells))
        assert width == pytest.approx(1.959964 * std * math.sqrt(cells), rel=2e-3)
    for each in (DiscreteLaplace(Fraction(7)), DiscreteGaussian(Fraction(1, 2))):
        width = float(window_halfwidths(Binary(7), each, 3, 7, cells=10**8))
        assert width == pytest.approx(1.959964 * each.std * math.sqrt(5e8), rel=1e-4)


def test_inverted_sums_are_those_of_mixtures_and_products() -> None:
    for distribution, terms in (
        (DiscreteLaplace(Fraction(9)), 200),
        (DiscreteLaplace(Fraction(2**30)), 50),
    ):
        mixture = laplace_tail(distribution, terms)
        inverted = _inverted_tail({distribution: terms}, distribution.std * math.sqrt(terms))
        assert inverted is not None
        for times in (0.0, 0.3, 1.0, 2.0, 4.0, 6.0, 40.0):
            c = int(times * distribution.std * math.sqrt(terms))
            assert inverted(c) == pytest.approx(mixture(c), abs=2e-12)
    several: dict[NoiseDistribution, int] = {
        DiscreteLaplace(Fraction(40)): 20,
        DiscreteLaplace(Fraction(90)): 30,
    }
    std = math.sqrt(sum(distribution.variance * count for distribution, count in several.items()))
    product = _transformed_tail(several, std)
    inverted = _inverted_tail(several, std)
    assert inverted is not None
    for c in (0, 100, 700, 1500, 4000):
        assert inverted(c) == pytest.approx(product(c), abs=1e-11)
    assert _inverted_tail({DiscreteLaplace(Fraction(10**6)): 1}, 1.4e6) is None

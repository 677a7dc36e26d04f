"""Both laws are what they say: exactly at single addresses, statistically with power at large."""

import math
from fractions import Fraction

import numpy as np
import pytest
from calls import calls_of
from scipy import stats

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace, NoiseDistribution
from counton.noise import NoiseField
from counton.noise.blocks import BlockSource, Tile
from counton.noise.samplers import (
    GaussianBlockSampler,
    GaussianTableSampler,
    LaplaceSampler,
    TileSampler,
    sampler_for,
)
from proofs import reference

SUBKEY = bytes(range(32))

LAPLACE_SCALES = [Fraction(1, 50), Fraction(1, 2), Fraction(3), Fraction(65, 3), Fraction(24)]
LARGE_LAPLACE_SCALES = [Fraction(25), Fraction(1000), Fraction(2**20, 3), Fraction(2**40)]
TABLE_VARIANCES = [Fraction(1, 50), Fraction(1, 2), Fraction(9), Fraction(1000), Fraction(128**2)]
BLOCK_VARIANCES = [Fraction(128**2 + 1), Fraction(10**6), Fraction(2**60, 7), Fraction(2**80)]
DISTRIBUTIONS: list[NoiseDistribution] = [
    *(DiscreteLaplace(s) for s in LAPLACE_SCALES + LARGE_LAPLACE_SCALES),
    *(DiscreteGaussian(v) for v in TABLE_VARIANCES + BLOCK_VARIANCES),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
def test_draws_equal_the_slow_definition_at_single_addresses(
    distribution: NoiseDistribution,
) -> None:
    bits = reference.Bits(SUBKEY)
    slow: reference.Laplace | reference.Gaussian
    if isinstance(distribution, DiscreteLaplace):
        slow = reference.Laplace(distribution.scale)
    else:
        slow = reference.Gaussian(distribution.sigma_squared)
    scalar = NoiseField(SUBKEY, distribution).run(3, range(1000, 1300))
    assert scalar.tolist() == [slow.draw(bits, (3, 0, at)) for at in range(1000, 1300)]
    vector = NoiseField(SUBKEY, distribution, (5,)).run(200, range(7, 11))
    grid = [[slow.draw(bits, (200, row, cell)) for cell in range(5)] for row in range(7, 11)]
    assert vector.tolist() == grid
    far = range(2**31, 2**31 + 8)
    vector = NoiseField(SUBKEY, distribution, (3,)).run(7, far)
    assert vector.tolist() == [
        [slow.draw(bits, (7, row, cell)) for cell in range(3)] for row in far
    ]
    scalar = NoiseField(SUBKEY, distribution).run(8, range(2**40, 2**40 + 8))
    assert scalar.tolist() == [slow.draw(bits, (8, 0, at)) for at in range(2**40, 2**40 + 8)]


class ReadBits(reference.Bits):
    """Bits that say what they were read for."""

    def __init__(self, secret: bytes) -> None:
        super().__init__(secret)
        self.purposes: list[int] = []

    def part(
        self, where: reference.Place, fields: reference.Place, block: int, first: int, size: int
    ) -> int:
        self.purposes.append(fields[0])
        return super().part(where, fields, block, first, size)


def test_draws_that_were_rejected_equal_the_slow_definition() -> None:
    """One proposal in some hundreds: among two thousand several are drawn again."""
    distribution = DiscreteGaussian(Fraction(10**9))
    bits = ReadBits(SUBKEY)
    slow = reference.Gaussian(distribution.sigma_squared)
    drawn = [slow.draw(bits, (0, 0, at)) for at in range(2000)]
    assert NoiseField(SUBKEY, distribution).run(0, range(2000)).tolist() == drawn
    assert bits.purposes.count(reference.RETRY) > 3


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=str)
@pytest.mark.slow
def test_exact_path_returns_same_values_as_usual_path(
    distribution: NoiseDistribution,
) -> None:
    tile = Tile(0, 1, 0, 3000)
    usual = np.empty((1, 3000), np.int64)
    careful = np.empty((1, 3000), np.int64)
    source = BlockSource(SUBKEY)
    sampler_for(distribution).fill(source, 0, tile, usual)
    exact_sampler(distribution).fill(source, 0, tile, careful)
    assert (usual == careful).all()


def exact_sampler(distribution: NoiseDistribution) -> TileSampler:
    if isinstance(distribution, DiscreteLaplace):
        return LaplaceSampler(distribution, guard_bits=60)
    if distribution.sigma_squared <= 128**2:
        return GaussianTableSampler(distribution, guard_bits=60)
    return GaussianBlockSampler(distribution, guard_bits=45)


def test_exact_sampler_takes_exact_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from counton.noise.samplers import InverseTable

    taken = calls_of(monkeypatch, InverseTable, "_exact")
    tile = Tile(0, 1, 0, 3000)
    out = np.empty((1, 3000), np.int64)
    sampler_for(DiscreteLaplace(Fraction(24))).fill(BlockSource(SUBKEY), 0, tile, out)
    assert not taken
    exact_sampler(DiscreteLaplace(Fraction(24))).fill(BlockSource(SUBKEY), 0, tile, out)
    assert len(taken) > 5


def cumulative_at(distribution: NoiseDistribution, x: np.ndarray) -> np.ndarray:
    """P(X <= x) in float64, for the chi-square cells."""
    x = x.astype(float)
    if isinstance(distribution, DiscreteLaplace):
        log_q = -1 / float(distribution.scale)
        q = np.exp(log_q)
        tail = np.exp(np.where(x < 0, -x, x + 1) * log_q) / (1 + q)
        return np.asarray(np.where(x < 0, tail, 1 - tail))
    sigma = float(distribution.sigma_squared) ** 0.5
    if sigma > 50:  # the midpoint rule errs by less than 1e-5 of a cell's probability
        return np.asarray(stats.norm.cdf((x + 0.5) / sigma))
    support = np.arange(-int(40 * sigma) - 5, int(40 * sigma) + 6)
    weights = np.exp(-(support.astype(float) ** 2) / (2 * sigma**2))
    sums = np.cumsum(weights) / weights.sum()
    return np.asarray(sums[(x - support[0]).astype(int)])


def chi_square_p(values: np.ndarray, distribution: NoiseDistribution) -> float:
    """p-value of a chi-square test over some 40 cells of like probability."""
    cuts = np.unique(np.quantile(values, np.linspace(0, 1, 41)[1:-1]).astype(np.int64))
    edges = np.concatenate([[0.0], cumulative_at(distribution, cuts), [1.0]])
    expected = np.diff(edges) * len(values)
    observed = np.bincount(np.searchsorted(cuts, values, side="left"), minlength=len(expected))
    keep = expected > 5
    if keep.sum() < 2:  # nearly all mass in one point
        return 1.0
    return float(
        stats.chisquare(
            observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()
        ).pvalue
    )


def narrower(distribution: NoiseDistribution) -> NoiseDistribution:
    """The same family, 3% too narrow."""
    if isinstance(distribution, DiscreteLaplace):
        return DiscreteLaplace(distribution.scale * Fraction(97, 100))
    return DiscreteGaussian(distribution.sigma_squared * Fraction(97, 100) ** 2)


SPREAD_DISTRIBUTIONS = [
    distribution for distribution in DISTRIBUTIONS if distribution.variance > 0.2
]


@pytest.mark.parametrize("shape", [(), (1000,)], ids=["scalar", "vector"])
@pytest.mark.parametrize("distribution", SPREAD_DISTRIBUTIONS, ids=str)
def test_chi_square_accepts_distribution_and_rejects_narrower_one(
    distribution: NoiseDistribution, shape: tuple[int, ...]
) -> None:
    nodes = range(300) if shape else range(300_000)
    values = NoiseField(SUBKEY, distribution, shape).run(0, nodes).reshape(-1)
    assert chi_square_p(values, distribution) > 1e-4
    assert chi_square_p(values, narrower(distribution)) < 1e-8


def test_places_within_blocks_are_accepted_by_their_probability() -> None:
    """Wide Gaussian noise proposes places evenly: without the test they would stay even."""
    distribution = DiscreteGaussian(Fraction(4096**2))
    sampler = sampler_for(distribution)
    assert isinstance(sampler, GaussianBlockSampler)
    block = 1 << sampler._bits
    lower = 0
    number = 0
    for level in range(10):
        draws = np.abs(NoiseField(SUBKEY, distribution).run(level, range(2_000_000)))
        draws = draws[draws >= block]
        lower = lower + int((draws % block < block // 2).sum())
        number = number + len(draws)
    weights = np.exp(-((np.arange(block, 40_000).astype(float) / 4096) ** 2) / 2)
    nearer = np.arange(block, 40_000) % block < block // 2
    chance = weights[nearer].sum() / weights.sum()
    std = math.sqrt(number * chance * (1 - chance))
    assert abs(lower - number * chance) < 4 * std
    assert abs(lower - number / 2) > 8 * std  # so many if all were accepted


@pytest.mark.parametrize("distribution", SPREAD_DISTRIBUTIONS, ids=str)
def test_stated_variance_is_the_variance(distribution: NoiseDistribution) -> None:
    values = NoiseField(SUBKEY, distribution).run(1, range(300_000)).astype(float)
    kurtosis = 6 if isinstance(distribution, DiscreteLaplace) else 3
    error = ((kurtosis + 2) / len(values)) ** 0.5
    assert values.var() / distribution.variance == pytest.approx(1, abs=5 * error)
    assert abs(values.mean()) / distribution.std < 5 / len(values) ** 0.5


def test_neighbouring_addresses_are_uncorrelated() -> None:
    distribution = DiscreteLaplace(Fraction(5))
    field = NoiseField(SUBKEY, distribution, (40,))
    draws = field.run(0, range(20_000)).astype(float) / distribution.std
    correlation = draws.T @ draws / len(draws)
    off_diagonal = correlation - np.diag(np.diag(correlation))
    assert np.abs(off_diagonal).max() < 6 / len(draws) ** 0.5
    in_time = (draws[1:] * draws[:-1]).mean()
    assert abs(in_time) < 6 / draws.size**0.5
    levels = (draws * field.run(1, range(20_000)) / distribution.std).mean()
    assert abs(levels) < 6 / draws.size**0.5


@pytest.mark.parametrize("scale", [Fraction(2**24), Fraction(2**40)])
def test_digits_of_wide_laplace_noise_are_independent(scale: Fraction) -> None:
    """Digits of one address would be one number in all places: far fewer values than the law has.

    Leading bits of any two digits, and of the part above all digits, in a table of 64 cells.
    """
    count = 20_000
    width = 8
    drawn = np.empty((1, count), np.int64)
    sampler_for(DiscreteLaplace(scale)).fill(BlockSource(SUBKEY), 0, Tile(0, 1, 0, count), drawn)
    magnitude = np.where(drawn < 0, ~drawn, drawn)[0]
    above = int(scale).bit_length() - 5  # so many bits lie below the part that is drawn as a whole
    leading = [(magnitude >> place + 5) % 8 for place in range(above % width, above, width)]
    leading.append(np.minimum((magnitude >> above) // 6, 7))
    assert len(leading) > 2
    for number, one in enumerate(leading):
        for other in leading[:number]:
            joint = np.bincount(one * 8 + other, minlength=64).reshape(8, 8)
            alone = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / count
            assert alone.min() > 5
            assert ((joint - alone) ** 2 / alone).sum() < stats.chi2.ppf(1 - 1e-6, 49)

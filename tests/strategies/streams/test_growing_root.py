"""The square root that grows: norms over all that can ever be read, and known answers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.signal import fftconvolve

from counton.arrays import Floats
from counton.errors import HorizonExceeded, InvalidInput
from counton.laws import DiscreteGaussian, DiscreteLaplace
from counton.strategies import GrowingSquareRoot
from counton.strategies.streams import growing_root
from counton.strategies.streams.growing_root import (
    NODES,
    first_of,
    node_variance,
    norms_of,
    quarter,
    series_bits,
)
from counton.strategies.streams.square_root import square_root_coefficients
from counton.testing import HashedNoise, check_strategy

#: sigma = 1; to the last digit.
NORMS = {
    1: 2.380566061,
    2: 2.367248110,
    3: 2.352792320,
    8: 2.246366633,
    9: 2.204896071,
    10: 2.095829057,
    100: 0.878436993,
    1000: 0.347882819,
    10**4: 0.126737722,
}
VARIANCES = {
    1: 2.38056606,
    2: 2.96572845,
    3: 3.28681362,
    4: 3.50267738,
    8: 3.94862388,
    9: 3.99700450,
    16: 4.90748778,
    64: 7.33818144,
    100: 8.17011877,
    365: 11.07565181,
    1000: 13.35840935,
    1024: 13.520518,
    2**14: 21.470874,
}


def test_norms_are_the_known_ones() -> None:
    found = norms_of(np.arange(1, 10**4 + 1))
    for step, norm in NORMS.items():
        assert norm <= found[step - 1] <= norm * (1 + 1e-6)


def test_norms_do_not_depend_on_how_many_are_asked_for() -> None:
    found = norms_of(np.arange(1, 5001))
    assert np.array_equal(norms_of(np.arange(1, 101)), found[:100])
    assert (np.diff(found) < 0).all()


def test_variances_are_the_known_ones() -> None:
    found = GrowingSquareRoot().variance([*VARIANCES])
    assert found == pytest.approx([*VARIANCES.values()], rel=1e-5)


def test_variances_far_out_are_the_known_ones() -> None:
    root = GrowingSquareRoot()
    assert root.variance([2**17, 2**20]) == pytest.approx([28.614252, 36.779446], rel=1e-5)
    # Blocks: what 48 and 73 would be without them.
    assert root.variance([10**7, 10**9]) == pytest.approx([49.812, 120.68], rel=1e-4)


@pytest.mark.parametrize(("weight_bits", "within"), [(8, 1e-3), (14, 5e-5), (18, 1e-5)])
def test_what_is_shipped_is_what_rows_have(weight_bits: int, within: float) -> None:
    root = GrowingSquareRoot(weight_bits)
    nodes = np.random.default_rng(3).integers(2**13 + 1, 2**17, 25)
    nodes = np.append(nodes, [first_of(level) + at for level in (41, 50) for at in (-1, 0, 1)])
    apart = root.beginning(2**17).differences(np.zeros_like(nodes), nodes)
    assert root.variance(nodes) == pytest.approx(apart, rel=within)


def test_long_and_short_variances_agree() -> None:
    root = GrowingSquareRoot()
    exact = growing_root._Beginning(2**13, 18, 2**20)
    long = growing_root._variances_of_long_rows(exact.shares, exact.widths)
    assert long == pytest.approx(exact.variances, rel=1e-4)
    found = root.variance([1, 2**13, 2**13 + 1, 10_000])
    steps = np.array([2**13 + 1, 10_000])
    apart = root.beginning(10_000).differences(np.zeros_like(steps), steps)
    assert np.array_equal(found[:2], exact.variances[[0, -1]])
    assert found[2:] == pytest.approx(apart, rel=1e-4)
    coarse = GrowingSquareRoot(4)
    apart = coarse.beginning(10_000).differences(np.zeros_like(steps), steps)
    assert coarse.variance(steps) == pytest.approx(apart, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("weight_bits", [4, 18])
def test_no_column_ever_costs_more_than_one(weight_bits: int) -> None:
    """Over all nodes up to the last step; roots are rounded to the nearest, and that is paid for.

    Every class of nodes has one variance, so that norms are sums of running sums.
    """
    bits = series_bits(weight_bits)
    numerators = np.rint(square_root_coefficients(NODES) * 2.0**bits).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(numerators**2)])
    rng = np.random.default_rng(5)
    items = [*range(1, 40), NODES, NODES - 1, 2**20, *rng.integers(1, NODES, 60).tolist()]
    norms = norms_of(np.array(items))
    for item, weight in zip(items, np.floor(2.0**weight_bits / np.sqrt(norms)), strict=True):
        cost = Fraction(0)
        level = quarter(item)
        while first_of(level) <= NODES:
            low = max(first_of(level), item) - item
            high = min(first_of(level + 1), NODES + 1) - item
            cost += Fraction(int(sums[high] - sums[low])) / node_variance(level)
            level += 1
        exact = cost * int(weight) ** 2 / 4 ** (bits + weight_bits)
        assert exact <= 1
        assert exact >= 0.999 or item > 9 or weight_bits == 4


class Small(GrowingSquareRoot):
    """Eight single steps, four blocks of two, two of four."""

    singles, growth, kinds = 8, 2, 3


class Threes(GrowingSquareRoot):
    """Six single steps, three blocks of three, one of nine."""

    singles, growth, kinds = 6, 3, 3


@pytest.mark.parametrize("weight_bits", [4, 18])
@pytest.mark.parametrize("root", [Small, Threes])
def test_blocks_keep_every_law(root: type[GrowingSquareRoot], weight_bits: int) -> None:
    strategy = root(weight_bits)
    assert strategy.longest == 24
    check_strategy(strategy, 24)
    for steps in (3, 7, 9, 13, 24):
        variances = strategy.variance(range(1, steps + 1))
        assert strategy.mean_variance(steps) == pytest.approx(variances.mean(), rel=1e-12)
        assert strategy.largest_variance(steps) == pytest.approx(variances.max(), rel=1e-12)


def test_an_item_in_a_block_costs_no_more_in_both_roots() -> None:
    strategy = Threes()
    for item in range(1, 25):
        cost = Fraction(0)
        for level, _, weight in strategy.column_until(item, 24):
            law = strategy.node_law(DiscreteGaussian(Fraction(1)), level)
            assert isinstance(law, DiscreteGaussian)
            cost += Fraction(weight) ** 2 / law.sigma_squared
        assert 0.1 < cost <= 1


def test_places_far_out() -> None:
    root = GrowingSquareRoot()
    assert root.longest == 5461 * 2**20
    at = root._place(2**20 + 13)
    assert (at.kind.size, at.block, at.step, at.over) == (8, 1, 5, 2**20 + 1)
    last = root._place(root.longest)
    assert last.kind.size == last.step == 8**6
    assert last.over == last.node == NODES - 2**14


def test_classes_of_nodes_are_quarter_octaves() -> None:
    for level in range(60):
        first = first_of(level)
        assert quarter(first) == level
        assert first == 1 or quarter(first - 1) == level - 1
    assert quarter(2**20) == 68
    assert quarter(NODES) == 72
    assert node_variance(4) >= Fraction(12, 11) ** 4 > node_variance(4) - Fraction(1, 2**30)


def test_noise_is_the_same_however_far_a_stream_is_planned() -> None:
    root = GrowingSquareRoot()
    field = HashedNoise(spread=2**30)
    short = root.noise(field, range(1, 900))
    assert np.array_equal(GrowingSquareRoot().noise(field, range(1, 3000))[:899], short)


def mean_variance_with(q: Callable[[Floats], Floats], steps: int) -> float:
    """Of the root whose node s has variance q(s), computed apart: rows of A D L^-1, sum by sum."""
    near = 2**18  # squared weights beyond are 1 / (pi k), and q is looked at on a logarithmic axis
    k = np.arange(1, near)
    root = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    inverse = np.concatenate([[1.0], np.cumprod((k[:steps] - 1.5) / k[:steps])])
    far = np.exp(np.log(near) + np.arange(0.005, 400, 0.01))
    inverses = 1 / q(np.arange(1.0, steps + near + 1))
    norms = fftconvolve(inverses, (root**2)[::-1], mode="valid")[:steps]
    divisors = np.sqrt(norms + (0.01 / np.pi / q(far)).sum())
    variances = np.zeros(steps)
    for node, variance in enumerate(q(np.arange(1.0, steps + 1))):
        row = np.cumsum(divisors[node:] * inverse[: steps - node])
        variances[node:] += variance * row**2
    return float(variances.mean())


def test_how_much_less_another_growth_errs_over_a_thousand_steps() -> None:
    """The module's sentence, which once said 3 percent, and then a tenth or so."""
    own = GrowingSquareRoot().variance(range(1, 1025)).mean()

    def shipped(s: Floats) -> Floats:
        quarters: Floats = np.floor(4 * np.log2(s) + 1e-9)
        return np.power(12 / 11, np.maximum(0, quarters - 12), dtype=np.float64)

    def power_of(a: float) -> Callable[[Floats], Floats]:
        return lambda s: np.power(s, a, dtype=np.float64)

    assert mean_variance_with(shipped, 1024) == pytest.approx(own, rel=1e-3)
    longer = mean_variance_with(lambda s: np.maximum(1, s / 256), 1024)
    assert longer / own == pytest.approx(0.88, abs=0.005)
    for power in (0.4, 0.5, 0.6, 0.7):
        assert mean_variance_with(power_of(power), 1024) > 1.01 * own


@pytest.mark.slow
def test_how_much_less_another_growth_errs_over_thousands_of_steps() -> None:
    own = GrowingSquareRoot().variance(range(1, 8193)).mean()
    longer = mean_variance_with(lambda s: np.maximum(1, s / 4096), 8192)
    assert longer / own == pytest.approx(0.87, abs=0.005)
    assert mean_variance_with(np.sqrt, 8192) > 1.01 * own


def test_what_it_cannot_serve_is_refused() -> None:
    root = GrowingSquareRoot()
    with pytest.raises(HorizonExceeded, match="lies beyond the horizon of 5726273536"):
        root.variance([root.longest + 1])
    with pytest.raises(InvalidInput, match="use Gaussian noise"):
        root.l1_sensitivity()
    with pytest.raises(InvalidInput, match="use Gaussian noise"):
        root.sensitivity(1)
    with pytest.raises(InvalidInput, match="use Gaussian noise"):
        root.node_law(DiscreteLaplace(Fraction(3)), 0)
    with pytest.raises(InvalidInput, match="wider than 2\\^40"):
        root.node_law(DiscreteGaussian(Fraction(2**75)), 0)
    with pytest.raises(InvalidInput, match="without an end"):
        root.overall_variance("mean")
    with pytest.raises(InvalidInput, match="without end"):
        root.column(3)
    with pytest.raises(InvalidInput, match="weight_bits is 19"):
        GrowingSquareRoot(19)


def test_a_unit_with_several_steps_moves_it_by_as_many_times_as_much() -> None:
    root = GrowingSquareRoot()
    assert root.sensitivity(2) == 1.0
    assert root.sensitivity(2, steps=3, separation=100) == pytest.approx(3.0)
    assert root.sensitivity(2, steps=3, every=100) == pytest.approx(3.0)

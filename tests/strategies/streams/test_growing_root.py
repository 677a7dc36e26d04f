"""The square root that grows: norms over all that can ever be read, and known answers."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.signal import fftconvolve
from some_cases import long

from counton.base.arrays import Floats
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.strategies import GrowingSquareRoot, sensitivity
from counton.strategies.strategy import node_distribution
from counton.strategies.streams import growing_root
from counton.strategies.streams.growing_root import (
    EVEN,
    STEPS,
    first_of,
    node_variance,
    norms_of,
    quarter,
    series_bits,
)
from counton.strategies.streams.root_variances import variances_of_long_rows
from counton.strategies.streams.square_root import square_root_coefficients

#: sigma = 1; to the last digit.
NORMS = {
    1: 2.380566061, 2: 2.367248110, 3: 2.352792320, 8: 2.246366633, 9: 2.204896071, 10: 2.095829057,
    100: 0.878436993, 1000: 0.347882819, 10**4: 0.126737722,
}  # fmt: skip
VARIANCES = {
    1: 2.38056606, 2: 2.96572845, 3: 3.28681362, 4: 3.50267738, 8: 3.94862388, 9: 3.99700450,
    16: 4.90748778, 64: 7.33818144, 100: 8.17011877, 365: 11.07565181, 1000: 13.35840935,
    1024: 13.520518, 2**14: 21.470874,
}  # fmt: skip


def test_norms_are_the_known_ones() -> None:
    found = norms_of(np.arange(1, 10**4 + 1))
    for step, norm in NORMS.items():
        assert norm <= found[step - 1] <= norm * (1 + 1e-6)


def test_norms_are_independent_of_requested_number() -> None:
    found = norms_of(np.arange(1, 5001))
    assert np.array_equal(norms_of(np.arange(1, 101)), found[:100])
    assert (np.diff(found) < 0).all()


def test_variances_are_the_known_ones() -> None:
    found = GrowingSquareRoot().variance([*VARIANCES])
    assert found == pytest.approx([*VARIANCES.values()], rel=1e-5)


def test_variances_far_out_are_the_known_ones() -> None:
    root = GrowingSquareRoot()
    assert root.variance([2**17, STEPS]) == pytest.approx([28.614252, 36.342073], rel=1e-5)


@pytest.mark.parametrize(
    ("weight_bits", "even", "within"),
    [
        long(8, None, 1e-3), long(14, None, 5e-5), long(18, None, 1e-5), long(18, 2048, 1e-5),
        (18, 128, 1e-5),
    ],
)  # fmt: skip
def test_shipped_norms_equal_computed_ones(
    weight_bits: int, even: int | None, within: float
) -> None:
    root = GrowingSquareRoot(weight_bits, even)
    nodes = np.random.default_rng(3).integers(2**13 + 1, 2**17, 25)
    nodes = np.append(nodes, [first_of(level) + at for level in (41, 50) for at in (-1, 0, 1)])
    apart = root._beginning(2**17).differences(np.zeros_like(nodes), nodes)
    assert root.variance(nodes) == pytest.approx(apart, rel=within)


def test_long_and_short_variances_agree() -> None:
    root = GrowingSquareRoot()
    exact = growing_root.WeightedRoot(2**13, 18)
    long = variances_of_long_rows(exact.shares, exact.widths)
    assert long == pytest.approx(exact._variances, rel=1e-4)
    found = root.variance([1, 2**13, 2**13 + 1, 10_000])
    steps = np.array([2**13 + 1, 10_000])
    apart = root._beginning(10_000).differences(np.zeros_like(steps), steps)
    assert np.array_equal(found[:2], exact._variances[[0, -1]])
    assert found[2:] == pytest.approx(apart, rel=1e-4)
    coarse = GrowingSquareRoot(4)
    apart = coarse._beginning(10_000).differences(np.zeros_like(steps), steps)
    assert coarse.variance(steps) == pytest.approx(apart, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weight_bits", "even"), [(4, None), (18, None), *((18, even) for even in EVEN)]
)
def test_no_column_ever_costs_more_than_one(weight_bits: int, even: int | None) -> None:
    """Over all nodes up to the last step; roots are rounded to the nearest, and that is paid for.

    Every class of nodes has one variance, so that norms are sums of running sums.
    """
    bits = series_bits(weight_bits)
    numerators = np.rint(square_root_coefficients(STEPS) * 2.0**bits).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(numerators**2)])
    rng = np.random.default_rng(5)
    items = [*range(1, 40), STEPS, STEPS - 1, *rng.integers(1, STEPS, 60).tolist()]
    root = GrowingSquareRoot(weight_bits, even)
    norms = norms_of(np.array(items), root._equal)
    for item, weight in zip(items, np.floor(2.0**weight_bits / np.sqrt(norms)), strict=True):
        cost = Fraction(0)
        level = quarter(item, root._equal)
        while first_of(level, root._equal) <= STEPS:
            low = max(first_of(level, root._equal), item) - item
            high = min(first_of(level + 1, root._equal), STEPS + 1) - item
            width = node_distribution(root, DiscreteGaussian(Fraction(1)), level)
            assert isinstance(width, DiscreteGaussian)
            cost += Fraction(int(sums[high] - sums[low])) / width.sigma_squared
            level += 1
        cost *= Fraction(int(weight) ** 2, 4 ** (bits + weight_bits))
        assert cost <= 1
        assert cost >= 0.99 or item > 9 or weight_bits == 4
        if item <= 2**13:
            assert root._weights(range(item, item + 1)) == weight


@pytest.mark.parametrize("even", EVEN)
def test_norms_of_growing_root_lie_between_sums_and_tail_bounds(even: int) -> None:
    """Apart: node by node up to 2^18, then by f(k)^2 < 1 / (pi k) and what q grows by."""
    equal = GrowingSquareRoot(even=even)._equal
    near = 2**18
    k = np.arange(1, near + 1)
    squares = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k)) ** 2])
    classes = np.floor(4 * np.log2(np.arange(1, near + 5000)) + 1e-9).astype(int)
    steep = np.clip(classes - equal, 0, 8)
    q = 1.3**steep * (12 / 11) ** (np.maximum(classes - equal, 0) - steep)
    items = np.array([1, 2, even, even + 1, 2 * even, 5000 - 2])
    found = norms_of(items, equal)
    for item, norm in zip(items.tolist(), found.tolist(), strict=True):
        own = (squares[:near] / q[item - 1 : item - 1 + near]).sum()
        # From there on an octave adds ln 2 / pi, over a q that is 1.416 times as much each time.
        rest = math.log(2) / math.pi / q[near - 1]
        assert own + 0.5 * rest < norm < own + 4 * rest


@pytest.mark.parametrize(
    ("even", "metric", "ratio"),
    [
        (32, "mean", {64: 0.874, 128: 0.920, 256: 1.006}),
        (128, "mean", {256: 0.870, 512: 0.909, 1024: 0.988}),
        long(512, "mean", {1024: 0.862, 2048: 0.900}),
        long(2048, "mean", {4096: 0.857}),
        (128, "largest", {256: 0.866, 512: 1.008}),
    ],
)
def test_even_nodes_reduce_error_near_expected_windows(
    even: int, metric: str, ratio: dict[int, float]
) -> None:
    """Than without a number of steps in mind; and how much more the first release does."""
    root = GrowingSquareRoot(even=even)
    own = GrowingSquareRoot()
    for steps, expected in ratio.items():
        errors = [
            one.mean_variance(steps) if metric == "mean" else one.largest_variance(steps)
            for one in (root, own)
        ]
        assert errors[0] / errors[1] == pytest.approx(expected, abs=0.001)
    assert 1.03 < root.variance([1])[0] / own.variance([1])[0] < 1.6
    far = [2**10 * even // 32, 2**17, STEPS]
    assert (root.variance(far) / own.variance(far)).max() < 1.06


def test_classes_of_nodes_are_quarter_octaves() -> None:
    for level in range(60):
        first = first_of(level)
        assert quarter(first) == level
        assert first == 1 or quarter(first - 1) == level - 1
    assert (quarter(STEPS), quarter(STEPS + 1)) == (67, 68)
    assert node_variance(4) >= Fraction(12, 11) ** 4 > node_variance(4) - Fraction(1, 2**30)


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


@pytest.mark.long
def test_how_much_less_another_growth_errs_over_thousands_of_steps() -> None:
    own = GrowingSquareRoot().variance(range(1, 8193)).mean()
    longer = mean_variance_with(lambda s: np.maximum(1, s / 4096), 8192)
    assert longer / own == pytest.approx(0.87, abs=0.005)
    assert mean_variance_with(np.sqrt, 8192) > 1.01 * own


def test_growing_root_refuses_invalid_arguments() -> None:
    root = GrowingSquareRoot()
    with pytest.raises(
        HorizonExceededError,
        match="is after the last of the 1048575 steps: it was begun without a last one; start",
    ):
        root.variance([STEPS + 1])
    with pytest.raises(InvalidInputError, match="use Gaussian noise"):
        root.l1_sensitivity()
    with pytest.raises(InvalidInputError, match="use Gaussian noise"):
        sensitivity(root, 1)
    with pytest.raises(InvalidInputError, match="use Gaussian noise"):
        root._check_distribution(DiscreteLaplace(Fraction(3)))
    with pytest.raises(InvalidInputError, match="above 2\\^40"):
        root._check_distribution(DiscreteGaussian(Fraction(2**75)))
    with pytest.raises(InvalidInputError, match="without an end"):
        root.overall_variance("mean")
    with pytest.raises(InvalidInputError, match="as the stream goes on"):
        root.column(3)
    with pytest.raises(InvalidInputError, match="weight_bits is 19"):
        GrowingSquareRoot(19)
    with pytest.raises(InvalidInputError, match="even is 64; give one of 32, 128, 512, 2048"):
        GrowingSquareRoot(even=64)


def test_sensitivity_grows_with_number_of_steps() -> None:
    root = GrowingSquareRoot()
    assert sensitivity(root, 2) == 1.0
    assert sensitivity(root, 2, steps=3, separation=100) == pytest.approx(3.0)
    assert sensitivity(root, 2, steps=3, every=100) == pytest.approx(3.0)

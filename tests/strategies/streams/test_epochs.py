"""Epochs: the known errors, exact rows over several epochs, and what a unit costs in each."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from some_cases import long

from counton import ZCDP, ContributionBound, PureDP, plan
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.continual.node_distribution import distribution_for
from counton.strategies import Epochs, GrowingBlocks, noise_variance
from counton.strategies.strategy import node_distribution
from counton.testing import HashedNoise, ShiftedNoise

#: Mean variances up to a step at epsilon = 1, to the last digit (continuous Laplace noise).
MEANS = {
    365: 121.406655, 2**10: 188.437239, 8760: 348.340359, 2**14: 421.044832, 65536: 529.705172,
    2**17: 675.912658, 2**20: 953.345738,
}  # fmt: skip


@pytest.mark.parametrize("most", [2**14, long(2**20)])
def test_mean_variances_are_the_known_ones(most: int) -> None:
    for steps, mean in ((steps, mean) for steps, mean in MEANS.items() if steps <= most):
        assert 8 * Epochs().mean_variance(steps) == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize(
    ("steps", "least", "most"),
    [
        (63, 2.22, 2.3), (256, 1.5, 2.3), long(24, 1.5, 2.3), long(700, 1.5, 2.3),
        long(1024, 2.07, 2.3), long(8760, 1.5, 2.3), long(2**20, 1.5, 1.6),
    ],
)  # fmt: skip
@pytest.mark.every_case
def test_epochs_error_ratio_to_best_plan_is_as_documented(
    steps: int, least: float, most: float
) -> None:
    """The docstring's sentence, which once said 2.1 at most."""
    best = plan(steps, PureDP(1)).best.errors.mean_std
    assert least < 8 * Epochs().mean_variance(steps) / best**2 < most


def test_variances_of_very_many_steps_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="over 4,194,305 steps: give at most 4,194,304"):
        Epochs().largest_variance(2**22 + 1)


@pytest.mark.long
def test_epochs_are_planned_for_millions_of_steps() -> None:
    """There the growing square root has ended, and only the one over blocks is better."""
    over_blocks, best = plan(None, ZCDP(0.5), expected_windows=1_100_000)
    assert isinstance(over_blocks.strategy, GrowingBlocks)
    assert isinstance(best.strategy, Epochs)
    variances = best.strategy.variance([1, 2**20, 1_100_000], distribution=best.distribution)
    assert variances[0] < best.errors.mean_std**2 < best.errors.max_std**2
    assert variances.max() < best.errors.max_std**2 < 2 * variances.max()


def test_every_item_costs_the_same() -> None:
    epochs = Epochs()
    distribution = distribution_for(epochs, PureDP(1), ContributionBound.add_remove()).distribution
    assert distribution == DiscreteLaplace(Fraction(2))
    for item in (1, 16, 17, 256, 257, 10**6, 10**12):
        scales = [
            node_distribution(epochs, distribution, node.level) for node in epochs.column(item)
        ]
        assert all(isinstance(one, DiscreteLaplace) for one in scales)
        assert sum(1 / one.scale for one in scales if isinstance(one, DiscreteLaplace)) == 1
    wide = distribution_for(epochs, PureDP(1), ContributionBound.add_remove(steps=3)).distribution
    assert wide == DiscreteLaplace(Fraction(6))


@pytest.mark.parametrize("step", [255, 256, 257, 300, 4097])
def test_the_shift_holds_across_the_ends_of_epochs(step: int) -> None:
    epochs = Epochs()
    window = range(max(step - 40, 1), step + 200)
    table = HashedNoise(spread=2**30)
    shifts = {node[:2]: 5 for node in epochs.column(step)}
    moved = epochs.noise(ShiftedNoise(table, shifts), window) - epochs.noise(table, window)
    expected = (np.arange(window.start, window.stop) >= step) * (5 << epochs.facts.fraction_bits)
    assert np.array_equal(moved, expected)


def test_a_release_far_out_is_computed_alone() -> None:
    epochs = Epochs()
    table = HashedNoise(spread=2**20)
    some = epochs.noise(table, range(10**12, 10**12 + 300))
    assert np.array_equal(epochs.noise(table, range(10**12 + 299, 10**12 + 300)), some[-1:])


def test_noise_has_variance_of_its_epoch() -> None:
    epochs = Epochs()
    base = DiscreteGaussian(Fraction(4))
    level = epochs.column(17)[0].level
    assert node_distribution(epochs, base, level) == DiscreteGaussian(Fraction(6))
    (exact,) = noise_variance(epochs, base, [17])
    # a root of variance 4 that is over, and a first step of 6
    first, second = (float(e._trees.variances[-1][0]) for e in epochs._up_to(17))
    assert exact > 4 * first + 6 * second / 240**2
    assert exact == pytest.approx(float(noise_variance(epochs, base, 17, since=0)), rel=1e-12)


def test_epochs_refuse_invalid_arguments() -> None:
    with pytest.raises(InvalidInputError, match="radix is 2"):
        Epochs(2)
    with pytest.raises(HorizonExceededError, match="is after the last of the"):
        Epochs().row(2**60 + 1)
    with pytest.raises(InvalidInputError, match="without an end"):
        Epochs().overall_variance("mean")
    with pytest.raises(InvalidInputError, match="deviation"):
        Epochs()._check_distribution(DiscreteLaplace(Fraction(2**40)))


@pytest.mark.parametrize("shape", [(), (3,), (40,)])
def test_a_stream_read_in_order_has_the_same_noise(shape: tuple[int, ...]) -> None:
    epochs = Epochs(3)
    field = HashedNoise(shape, spread=2**20)
    reader = epochs._reader(field)
    cuts = [1, 2, 5, 20, 27, 28, 81, 100, 260, 300]
    found = [reader.noise(range(low, high)) for low, high in pairwise(cuts)]
    whole = np.concatenate(found)
    assert np.array_equal(whole, epochs.noise(field, range(1, 300)))
    parts = [part.copy() for part in reader.parts(range(50, 200))]  # and back again
    assert np.array_equal(np.concatenate(parts), whole[49:199])
    assert reader.noise(range(7, 7)).shape == (0, *shape)

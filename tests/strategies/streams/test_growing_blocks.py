"""The growing square root over blocks: matrices, sensitivity, variances and noise."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from counton import ZCDP, ApproxDP, PureDP, plan
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.planning.families import endless_families, without_early_ends
from counton.strategies import GrowingBlocks, GrowingSquareRoot, matrices, strategy_from_dict
from counton.strategies.joint_errors import noise_variance
from counton.strategies.strategy import node_distribution
from counton.strategies.streams import growing_blocks
from counton.testing import HashedNoise, check_strategy

SMALL = (GrowingBlocks(block=3), GrowingBlocks(4, 4), GrowingBlocks(8, 2))


def scaled(strategy: GrowingBlocks, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """B and C in float64, with columns and rows of nodes whose noise has variance 1."""
    reads, enters = matrices(strategy, steps, exact=False)
    columns = [strategy.column(step, steps) for step in range(1, steps + 1)]
    rows = [strategy.row(step) for step in range(1, steps + 1)]
    nodes = sorted({node[:2] for some in (*columns, *rows) for node in some})
    stds = np.sqrt([float(strategy._node_factor(level)) for level, _ in nodes])
    return reads * stds, enters / stds[:, None]


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_small_examples_pass_check_strategy(strategy: GrowingBlocks) -> None:
    check_strategy(strategy, 11)


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_factorisation_of_blocks_is_exact_with_fractions(strategy: GrowingBlocks) -> None:
    steps = 4 * strategy.block + 1
    reads, enters = matrices(strategy, steps)
    assert (reads @ enters == np.tri(steps, dtype=int)).all()


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_no_change_of_one_step_costs_more_than_stated(strategy: GrowingBlocks) -> None:
    """By exact sums over all nodes of the first releases, for every step."""
    stated = strategy.squared_sensitivity()
    steps = 30
    largest = Fraction(0)
    for step in range(1, steps + 1):
        cost = sum(
            (
                Fraction(node.weight) ** 2 / strategy._node_factor(node.level)
                for node in strategy.column(step, steps)
            ),
            Fraction(0),
        )
        assert cost <= stated
        largest = max(largest, cost)
    assert largest > 0.8 * stated


def test_columns_within_a_block_reach_but_never_exceed_one() -> None:
    for strategy in (*SMALL, GrowingBlocks(), GrowingBlocks(4)):
        squares = [
            sum(Fraction(node.weight) ** 2 for node in strategy._within.column(step, end))
            for end in (strategy.block - 1,)
            for step in {1, end // 2 + 1, end}
        ]
        assert all(Fraction(4, 5) < square <= 1 for square in squares)


@pytest.mark.parametrize("strategy", SMALL, ids=repr)
def test_variances_of_totals_and_differences_equal_sums_over_nodes(
    strategy: GrowingBlocks,
) -> None:
    steps = 3 * strategy.block + 2
    reads, _ = scaled(strategy, steps)
    covariance = reads @ reads.T
    assert strategy.variance(range(1, steps + 1)) == pytest.approx(np.diag(covariance), rel=1e-6)
    starts, stops = np.array([*product(range(steps + 1), repeat=2)]).T
    starts, stops = np.minimum(starts, stops), np.maximum(starts, stops)
    rows = np.concatenate([np.zeros_like(reads[:1]), reads])
    apart = ((rows[stops] - rows[starts]) ** 2).sum(axis=1)
    assert strategy.variance(stops, since=starts) == pytest.approx(apart, rel=1e-6, abs=1e-12)
    base = DiscreteGaussian(Fraction(2**70))
    drawn = noise_variance(strategy, base, np.arange(1, steps + 1))
    unit = base.variance / 4.0**strategy.facts.lattice_bits
    assert drawn == pytest.approx(np.diag(covariance) * unit, rel=1e-6)


def test_largest_reads_bound_the_first_node_of_long_blocks() -> None:
    """Its weight is larger than those of the first nodes between blocks."""
    strategy = GrowingBlocks()
    (node,) = strategy.row(1)
    assert strategy.largest_reads(np.array([1])) >= float(node.weight)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 64, 1000])
def test_mean_and_largest_variances_are_those_of_all_steps(steps: int) -> None:
    for strategy in (*SMALL, GrowingBlocks(block=16)):
        variances = strategy.variance(range(1, steps + 1))
        assert strategy.mean_variance(steps) == pytest.approx(variances.mean())
        assert strategy.largest_variance(steps) == pytest.approx(variances.max())


@pytest.mark.parametrize("shape", [(), (3,)])
def test_noise_is_the_same_in_any_windows(shape: tuple[int, ...]) -> None:
    strategy = GrowingBlocks(block=16)
    field = HashedNoise(shape, spread=2**36)
    noise = strategy.noise(field, range(1, 200))
    reader = strategy._reader(field)
    one_by_one = [reader.noise(range(step, step + 1)) for step in range(1, 200)]
    assert (np.concatenate(one_by_one) == noise).all()
    for start, stop in ((150, 160), (5, 9), (16, 48), (15, 33), (31, 32), (32, 199), (47, 49)):
        assert (reader.noise(range(start, stop)) == noise[start - 1 : stop - 1]).all()
        assert (strategy.noise(field, range(start, stop)) == noise[start - 1 : stop - 1]).all()
    assert reader.noise(range(7, 7)).shape == (0, *shape)


def test_noise_is_the_same_in_few_and_many_numbers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = GrowingBlocks(block=8)
    field = HashedNoise((5,), spread=2**36)
    noise = strategy.noise(field, range(1, 100))
    monkeypatch.setattr(growing_blocks, "_NUMBERS_PER_DRAW", 1)
    assert (strategy.noise(field, range(1, 100)) == noise).all()
    monkeypatch.setattr(growing_blocks, "_NUMBERS_PER_DRAW", 3 * 8 * 5)
    assert (strategy.noise(field, range(1, 100)) == noise).all()


def test_noise_beyond_a_million_steps_takes_few_draws() -> None:
    """As many as blocks before, and steps of the open one."""
    strategy = GrowingBlocks()
    drawn = 0

    class Counting(HashedNoise):
        def run(self, level: int, nodes: range) -> np.ndarray:
            nonlocal drawn
            drawn += len(nodes)
            return super().run(level, nodes)

    field = Counting((), spread=2**36)
    step = 2**20 + 5
    late = strategy.noise(field, range(step, step + 1))
    assert drawn <= 2**10 + 5 + 1
    assert (strategy.noise(field, range(step - 1030, step + 1))[-1] == late).all()


def test_variance_of_long_streams_is_near_that_of_a_known_end() -> None:
    """The largest one, over the largest one of the square root over as many steps."""
    strategy = GrowingBlocks()
    unit = float(strategy.squared_sensitivity())
    for octaves, ratio in {10: 2.0, 14: 1.73, 20: 1.52, 22: 1.5, 24: 1.49, 30: 1.5}.items():
        steps = 2**octaves - (octaves == 30)
        known_end = (math.log(steps) / math.pi + 1.06628) ** 2
        assert ratio - 0.02 < unit * strategy.largest_variance(steps) / known_end < ratio
    growing = GrowingSquareRoot()
    assert unit * strategy.mean_variance(2**18) / growing.mean_variance(2**18) < 1.25


@pytest.mark.long
def test_blocks_are_planned_where_the_growing_root_would_end() -> None:
    families = endless_families("totals", (2,), "mean", 2**18)
    assert without_early_ends(families, 2**18) == families
    *later, without_members = without_early_ends(families, 2**18 + 1)
    assert later == families[1:]
    assert without_members.strategy_family == families[0].strategy_family == "growing square root"
    assert not without_members.members
    many = plan(None, ZCDP(0.5), expected_windows=2**30 - 1)
    assert many.best.strategy == GrowingBlocks()
    assert any("its streams end after 1,048,575 steps" in note for note in many.notes)
    named = plan(None, ZCDP(0.5), expected_windows=2**25, strategies=["growing-blocks"])
    assert [design.strategy for design in named] == [GrowingBlocks()]
    wide = plan(None, ZCDP("1e-6"), expected_windows=2**25, strategies=["growing-blocks"])
    assert wide.best.strategy.parameters["weight_bits"] < 18
    approximate = plan(None, ApproxDP(1, "1e-6"), expected_windows=2**25)
    assert approximate.best.strategy == GrowingBlocks(14)
    with pytest.raises(InvalidInputError, match="no strategy of"):
        plan(None, PureDP(1), expected_windows=2**25, strategies=["growing-blocks"])
    early = plan(None, ZCDP(0.5), expected_windows=2**19, strategies=["growing-sqrt"])
    assert early.best.strategy == GrowingSquareRoot()


def test_refused_endless_plan_gives_reason_of_blocks() -> None:
    with pytest.raises(InvalidInputError, match=r"last step: GrowingBlocks\(weight_bits=18"):
        plan(None, ZCDP("1e-20"), expected_windows=2**25)


def test_growing_blocks_refuse_invalid_arguments() -> None:
    strategy = GrowingBlocks()
    with pytest.raises(HorizonExceededError, match="after the last of the 1073741823 steps"):
        strategy.variance([2**30])
    assert GrowingBlocks(block=2**13).facts.last_step == 2**30 - 1
    assert GrowingBlocks(block=2).facts.last_step == 2**21 - 1
    with pytest.raises(InvalidInputError, match="use Gaussian noise"):
        strategy.l1_sensitivity()
    with pytest.raises(InvalidInputError, match="use Gaussian noise"):
        strategy._check_distribution(DiscreteLaplace(Fraction(3)))
    for spread in (36, 39):
        with pytest.raises(InvalidInputError, match=r"noise of GrowingBlocks.* above 2\^40"):
            strategy._check_distribution(DiscreteGaussian(Fraction(4**spread)))
    with pytest.raises(InvalidInputError, match="as the stream goes on"):
        strategy.column(3)
    for arguments in ((19,), (3,), (18, 1), (18, 2**13 + 1)):
        with pytest.raises(InvalidInputError, match=r"(weight_bits|block) is"):
            GrowingBlocks(*arguments)
    assert strategy_from_dict(GrowingBlocks(8, 5).to_dict()) == GrowingBlocks(8, 5)


def test_noise_between_blocks_has_four_fifths_of_the_variance_within() -> None:
    base = DiscreteGaussian(Fraction(1000))
    widths = [node_distribution(GrowingBlocks(), base, level) for level in (0, 1, 2)]
    assert [width.variance for width in widths[:2]] == pytest.approx([1000, 800])
    assert widths[2].variance == pytest.approx(800 * 12 / 11)

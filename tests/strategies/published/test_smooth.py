"""The smooth binary mechanism: the paper's numbers, better parameters, few node changes."""

import math
from itertools import pairwise

import numpy as np
import pytest
from drawn_noise import CountedNoise

from counton.base.errors import InvalidInputError
from counton.strategies import KAry, SmoothBinary, sensitivity
from counton.testing.node_noise import HashedNoise


def changes(strategy: SmoothBinary) -> list[int]:
    """How many nodes each release reads that the one before did not; the first reads all anew."""
    rows = [set(), *(set(strategy.row(t)) for t in range(1, strategy.horizon + 1))]
    return [len(after - before) for before, after in pairwise(rows)]


def test_zcdp_optimum_and_even_rule_at_2_20() -> None:
    best = SmoothBinary.best(2**20, norm=2)
    even = SmoothBinary.even(2**20)
    assert (best.height, best.zeros) == (23, 10)
    assert best.overall_variance("max") * int(best.squared_sensitivity()) == 130
    assert (even.height, even.zeros) == (24, 12)
    assert even.overall_variance("max") * int(even.squared_sensitivity()) == 144


@pytest.mark.parametrize(
    ("horizon", "height", "zeros", "variance"),
    [(2**8, 24, 2, 176), (2**10, 20, 3, 306), (2**16, 26, 5, 1050), (2**20, 33, 6, 1944)],
)
def test_pure_epsilon_optimum(horizon: int, height: int, zeros: int, variance: int) -> None:
    best = SmoothBinary.best(horizon, norm=1)
    assert (best.height, best.zeros) == (height, zeros)
    assert 2 * best.overall_variance("max") * sensitivity(best, 1) ** 2 == variance


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("horizon", [1, 2, 3, 10, 200, 1000, 2**20, 2**40])
def test_best_is_best_of_all(horizon: int, norm: int) -> None:
    best = SmoothBinary.best(horizon, norm)  # type: ignore[arg-type]
    cheapest = min(
        (height - zeros) * zeros ** (3 - norm)
        for height in range(2, 257)
        for zeros in range(1, height)
        if math.comb(height, zeros) >= horizon + 1
    )
    assert best.overall_variance("max") * best.zeros ** (3 - norm) == cheapest


def test_even_takes_the_smallest_height() -> None:
    for horizon in range(1, 1000):
        height = SmoothBinary.even(horizon).height
        assert math.comb(height, height // 2) > horizon
        assert height == 2 or math.comb(height - 2, height // 2 - 1) <= horizon


@pytest.mark.parametrize("exponent", [10, 12, 16, 20, 24, 32])
def test_against_the_kary_tree_under_pure_epsilon(exponent: int) -> None:
    """Better in the worst case from 2^10 on, worse on average."""
    smooth = SmoothBinary.best(2**exponent)
    mean = KAry.best(2**exponent)
    worst = KAry.best(2**exponent, "max")
    cost = smooth.overall_variance("max") * smooth.zeros**2
    assert cost < worst.overall_variance("max") * worst.height**2
    assert cost > mean.overall_variance("mean") * mean.height**2


def test_asymptotic_fraction_of_zeros() -> None:
    """0.16037 as the horizon grows; 2^61 is on its way there."""
    best = SmoothBinary.best(2**61)
    assert 0.13 < best.zeros / best.height < 0.19


@pytest.mark.parametrize("half", range(1, 8))
def test_node_changes_of_full_trees(half: int) -> None:
    """Lemma 3.5 with its constant corrected: C(2k+1, k+1) - (k+1) for height 2k, at most 2 each."""
    full = SmoothBinary(math.comb(2 * half, half) - 1, 2 * half, half)
    counted = changes(full)
    assert sum(counted) == math.comb(2 * half + 1, half + 1) - (half + 1)
    assert sum(counted) <= 2 * len(counted)


@pytest.mark.parametrize("horizon", [1, 2, 3, 5, 10, 100, 250, 1000, 3000, 3431])
def test_amortised_node_changes(horizon: int) -> None:
    """Lemma 3.4's o(1) term fails at some finite horizons; 2.25 was never exceeded."""
    even = SmoothBinary.even(horizon)
    assert sum(changes(even)) <= 2.25 * horizon


def test_wide_nodes_are_drawn_once() -> None:
    for strategy in SmoothBinary.examples(1000):
        table = CountedNoise((40,))
        strategy.noise(table, range(1, 1001))
        assert table.drawn == sum(changes(strategy))


def test_every_release_reads_as_many_nodes() -> None:
    strategy = SmoothBinary(1000, 20, 3)
    assert {len(strategy.row(t)) for t in range(1, 1001)} == {17}
    assert max(len(strategy.column(t)) for t in range(1, 1001)) == 3


@pytest.mark.parametrize("strategy", SmoothBinary.examples(2000))
def test_nodes_of_level_are_numbered_without_gaps(strategy: SmoothBinary) -> None:
    """Nodes of a level are numbered in the order of their first use, without gaps."""
    used: dict[int, int] = {}
    for step in range(1, 2001):
        for level, index, _ in strategy.row(step):
            seen = used.get(level)
            # The first leaf is never read; where it has a one, place 0 stays unused.
            assert index in ((0, 1) if seen is None else (seen, seen + 1))
            used[level] = index
    assert max(used.values()) <= 2000


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((0, 4, 2), "horizon is 0"),
        ((5, 4.0, 2), "height is 4.0"),
        ((5, 1, 1), "height is 1"),
        ((5, 257, 2), "height is 257"),
        ((5, 4, 0), "zeros is 0"),
        ((5, 4, 4), "zeros is 4"),
        ((5, 4, True), "zeros is True"),
        ((6, 4, 2), "gives 6 leaves, but a horizon of 6 needs at least 7"),
    ],
)
def test_bad_arguments(arguments: tuple[int, int, int], complaint: str) -> None:
    with pytest.raises(InvalidInputError, match=complaint):
        SmoothBinary(*arguments)


def test_bad_choices() -> None:
    with pytest.raises(InvalidInputError, match="norm is 0"):
        SmoothBinary.best(10, norm=0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="horizon is 0"):
        SmoothBinary.best(0)
    with pytest.raises(InvalidInputError, match=r"horizon is 1\.5"):
        SmoothBinary.even(1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "strategy",
    [
        SmoothBinary.best(20_000, 1),
        SmoothBinary.even(20_000),
        SmoothBinary(20_000, 40, 5),
        SmoothBinary(20_000, 30, 24),
        SmoothBinary.best(10**7, 2),
    ],
    ids=str,
)
@pytest.mark.parametrize("steps", [range(1, 20_001), range(7777, 12_000)], ids=str)
def test_noise_of_many_releases_is_that_of_few(strategy: SmoothBinary, steps: range) -> None:
    table = HashedNoise((), 2**20)
    in_parts = [strategy.noise(table, steps[at : at + 1000]) for at in range(0, len(steps), 1000)]
    assert strategy.noise(table, steps).tolist() == np.concatenate(in_parts).tolist()

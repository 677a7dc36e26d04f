"""Expiring: which noise is read when, how much of it, and what is refused."""

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.base.expiry import Expiry
from counton.noise import NoiseField
from counton.strategies import Expiring, matrices, sensitivity
from counton.strategies.strategy import node_distribution


class OnesAt:
    """Noise of 1 at every node: releases then count the nodes they read."""

    shape: tuple[int, ...] = ()

    def run(self, level: int, nodes: range) -> Any:
        assert nodes.start >= 1, "no interval starts at 0"
        return np.ones(len(nodes), np.int64)


@pytest.mark.parametrize("delay", [0, 1, 2, 5, 24])
def test_outputs_during_delay_are_0_and_later_ones_have_noise(delay: int) -> None:
    # Erratum: Algorithm 3 as printed shifts twice; then steps delay + 1 .. 2 delay carry none.
    strategy = Expiring(growth=1, delay=delay)
    noise = strategy.noise(OnesAt(), range(1, 200))
    assert (noise[:delay] == 0).all()
    assert [int(n) for n in noise[delay:]] == [t.bit_length() for t in range(1, 200 - delay)]
    assert (strategy.variance(range(1, 200)) == noise).all()  # growth 1: all nodes weigh the same
    printed = [max(t - 2 * delay, 0).bit_length() for t in range(1, 200)]
    assert (np.array(printed[delay : 2 * delay]) == 0).all()  # what the test above would catch


@pytest.mark.parametrize("growth", [0, "1/2", 1, "3/2", 2, 3])
@pytest.mark.parametrize("delay", [0, 7])
def test_variance_is_the_sum_of_theorem_1_2(growth: int | str, delay: int) -> None:
    strategy = Expiring(growth, delay)
    power = 2 - 2 * float(Fraction(growth))
    steps = np.array([*range(1, 70), 2**20 - 1, 2**20, 10**9, 2**61 - 1, 2**61])
    expected = [
        sum((1 + level) ** power for level in range(max(int(t) - delay, 0).bit_length()))
        for t in steps
    ]
    assert strategy.variance(steps) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("growth", [0, "3/2", 3])
def test_levels_have_at_least_noise_of_paper(growth: int | str) -> None:
    strategy = Expiring(growth)
    power = 1 - Fraction(growth)
    for level in range(60):
        laplace = node_distribution(strategy, DiscreteLaplace(Fraction(2)), level)
        gaussian = node_distribution(strategy, DiscreteGaussian(Fraction(9)), level)
        assert isinstance(laplace, DiscreteLaplace)
        assert isinstance(gaussian, DiscreteGaussian)
        exact = (1 + level) ** float(power)
        assert laplace.scale == pytest.approx(2 * exact, rel=1e-11)
        assert gaussian.sigma_squared == pytest.approx(9 * exact, rel=1e-11)
        # Never less than asked for, in exact arithmetic: compare the squares of half powers.
        assert (laplace.scale / 2) ** 2 >= Fraction(1 + level) ** int(2 * power)


def test_factors_are_exact_where_rational_and_never_too_small() -> None:
    assert Expiry("3/2").factor(3) == Fraction(1, 2)
    assert Expiry("4/3").factor(7) == Fraction(1, 2)
    assert Expiry(0).factor(62) == 63
    for growth in ("0.3", "1.000000001", "123/77", "15.9"):
        power = 1 - Fraction(growth)
        for level in range(1, 63):
            factor = Expiry(growth).factor(level)
            log = math.log(factor.numerator) - math.log(factor.denominator)
            assert 0 <= log - float(power) * math.log1p(level) + 1e-13 < 3e-12
            assert factor.denominator.bit_length() < 150


def test_far_out_any_window_is_the_same_noise() -> None:
    strategy = Expiring(growth=2, delay=5)
    field = NoiseField(bytes(32), DiscreteLaplace(Fraction(50)))
    start = 10**9 - 40_000
    whole = strategy.noise(field, range(start, start + 80_000))
    cuts = [start, start + 1, start + 777, start + 33_333, start + 79_999, start + 80_000]
    parts = [strategy.noise(field, range(a, b)) for a, b in pairwise(cuts)]
    assert (np.concatenate(parts) == whole).all()


def test_capped_levels_give_fresh_noise_at_each_step() -> None:
    fresh = Expiring(growth=1, delay=1, levels=1)  # the paper's Algorithm 1
    assert fresh.variance(range(1, 6)).tolist() == [0, 1, 1, 1, 1]
    assert [fresh.row(step) for step in (1, 2, 9)] == [(), ((0, 1, 1),), ((0, 8, 1),)]
    assert [len(Expiring(1, levels=3).row(step)) for step in (1, 2, 4, 9, 99)] == [1, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Expiring(growth=-1), "growth is '-1'"),
        (lambda: Expiring(growth=float("nan")), "growth is 'nan'"),
        (lambda: Expiring(growth="much"), "from 0 to 16"),
        (lambda: Expiring(growth=17), "from 0 to 16"),
        (lambda: Expiring(growth="1e999999999"), "growth is '1e999999999'"),  # in no time
        (lambda: Expiring(growth=10**5000), "growth is 'a number of thousands of digits'"),
        (lambda: Expiring(growth=True), "growth is 'True'"),
        (lambda: Expiring(delay=-1), "delay is -1"),
        (lambda: Expiring(delay=2**40), r"2\^24"),
        (lambda: Expiring(levels=0), "levels is 0"),
        (lambda: Expiring().column(1), "last release to look at"),
        (lambda: Expiring().l1_sensitivity(), "ExpiringDP"),
        (lambda: sensitivity(Expiring(), 2), "ExpiringDP"),
        (lambda: Expiring().overall_variance("mean"), "mean_variance"),
        (lambda: matrices(Expiring()), "dense"),
        (lambda: Expiring().noise(OnesAt(), range(3)), "step is 0"),
    ],
)
def test_bad_input_is_refused_in_words(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        make()

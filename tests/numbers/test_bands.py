"""Bands over all steps at once: they cover, no other draw widens them, and narrower ones do not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from keys import chosen_key

from counton import PureDP, plan
from counton.base.distributions import DiscreteGaussian, DiscreteLaplace
from counton.base.errors import InvalidInput
from counton.laws import band, simulate
from counton.numbers.intervals import halfwidths
from counton.numbers.joint import order_above_quantile
from counton.strategies import Binary, HonakerOnline, Independent, SqrtToeplitz, StreamStrategy

WIDE = DiscreteLaplace(Fraction(9))


def within(half: int) -> float:
    """With which probability one draw of the Laplace law lies there, exactly."""
    q = math.exp(-1 / float(WIDE.scale))
    return 1 - 2 * q ** (half + 1) / (1 + q)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_independent_steps_lie_within_with_the_stated_probability(level: float) -> None:
    found = band(Independent(64), WIDE, level, runs=4000)
    assert math.prod(within(int(half)) for half in found) >= level
    assert math.prod(within(int(0.85 * half)) for half in found) < level


@pytest.mark.parametrize(
    ("strategy", "law"),
    [
        (Binary(100), WIDE),
        (Binary(100), DiscreteGaussian(Fraction(400))),
        (HonakerOnline(100), DiscreteLaplace(Fraction(2**20))),
        (SqrtToeplitz(100), DiscreteGaussian(Fraction(2**50))),
    ],
    ids=repr,
)
def test_runs_of_other_draws_lie_within(
    strategy: StreamStrategy, law: DiscreteLaplace | DiscreteGaussian
) -> None:
    found = band(strategy, law, 0.9, runs=4000)
    noise = np.abs(simulate(strategy, law, 4000, key=chosen_key()))
    assert (noise <= found).all(axis=1).mean() >= 0.9
    assert (noise <= 0.85 * found).all(axis=1).mean() < 0.88
    apart = halfwidths(strategy, law, range(1, 101), 1 - 0.1 / 100)
    alone = halfwidths(strategy, law, range(1, 101), 0.9)
    assert (found <= apart).all()
    assert (alone < found).all()


def test_a_band_is_narrower_than_the_union_bound_under_laplace_noise() -> None:
    best = plan(128, PureDP(1)).best
    found = band(best.strategy, best.law, runs=4000)
    assert (
        found.mean()
        < 0.87 * halfwidths(best.strategy, best.law, range(1, 129), 1 - 0.05 / 128).mean()
    )


def test_the_order_statistic_lies_above_the_quantile() -> None:
    """Of the binomial law, by its sum: r draws or more below the quantile are unlikely."""
    for runs, level in ((300, 0.9), (1000, 0.95)):
        place = order_above_quantile(runs, level)
        assert place is not None
        tails = [
            sum(
                math.comb(runs, k) * Fraction(level) ** k * (1 - Fraction(level)) ** (runs - k)
                for k in range(least, runs + 1)
            )
            for least in (place, place - 1)
        ]
        assert tails[0] <= 1e-6 < tails[1]


def test_one_seed_is_one_band_and_few_runs_are_refused() -> None:
    wide = HonakerOnline(31), DiscreteLaplace(Fraction(2**20)), 0.9
    first = band(*wide, runs=500)
    assert np.array_equal(first, band(*wide, runs=500))
    assert not np.array_equal(first, band(*wide, runs=500, seed=1))
    with pytest.raises(InvalidInput, match="needs at least 270"):
        band(Binary(31), WIDE, 0.95, runs=200)
    with pytest.raises(InvalidInput, match="level is 2"):
        band(Binary(31), WIDE, 2)

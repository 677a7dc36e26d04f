"""The loss by age: against linear programs, dense covariances and laws of releases."""

import itertools
import sys
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from in_turn import in_turn
from numpy.typing import NDArray

from counton.base.distributions import DiscreteLaplace
from counton.base.errors import InvalidInputError
from counton.base.expiry import Expiry
from counton.privacy import expiration_loss
from counton.privacy.loss_by_age import (
    AbsoluteCosts,
    QuadraticCosts,
    cost_at,
    loss_rounded_up,
    smooth_loss,
    worst_cost,
)
from counton.strategies import Binary, Expiring
from counton.strategies.strategy import node_distribution

GROWTHS = [0, "1/2", 1, "3/2", 2, 3, 5]

MODULE: Any = sys.modules[worst_cost.__module__]  # in the package its name is the function's


@cache
def intervals(last: int, levels: int = 20) -> list[tuple[int, int]]:
    """(level, number) of all intervals that contain one of the positions 1..last."""
    return sorted(
        {(lv, t >> lv) for t in range(1, last + 1) for lv in range(min(t.bit_length(), levels))}
    )


@cache
def membership(last: int, levels: int = 20) -> NDArray[np.float64]:
    """Positions 1..last by intervals: 1 where the interval contains the position."""
    all_of_them = intervals(last, levels)
    return np.array(
        [[float(t >> lv == number) for lv, number in all_of_them] for t in range(1, last + 1)]
    )


def least_shift(position: int, last: int, growth: float, levels: int = 20) -> float:
    """The linear program: cheapest signed shift which all releases up to ``last`` do not show."""
    from scipy.optimize import linprog

    inside = membership(last, levels)
    weights = [(1 + lv) ** (growth - 1) for lv, _ in intervals(last, levels)]
    gains = np.arange(1, last + 1) >= position
    solved = linprog([*weights, *weights], A_eq=np.hstack([inside, -inside]), b_eq=gains)
    assert solved.status == 0
    return float(solved.fun)


def least_energy(position: int, last: int, growth: float, levels: int = 20) -> float:
    """d^T Sigma^-1 d of all releases up to ``last``, also those before the item."""
    inside = membership(last, levels)
    variances = [(1 + lv) ** (1 - growth) for lv, _ in intervals(last, levels)]
    gains = (np.arange(1, last + 1) >= position).astype(float)
    return float(gains @ np.linalg.solve((inside * variances) @ inside.T, gains))


@pytest.mark.parametrize(
    ("growth", "delay"),
    [*((growth, 0) for growth in GROWTHS), *((growth, 2) for growth in in_turn(GROWTHS, 3))],
)
def test_every_position_and_age_is_the_linear_programs_optimum(
    growth: int | str, delay: int
) -> None:
    strategy = Expiring(growth, delay)
    power = float(Fraction(growth))
    for position in range(1, 12):
        for age in range(13 - position):
            claimed = expiration_loss(strategy, [age], position=position)[0]
            last = position + age - delay  # the newest position that is released
            expected = least_shift(position, last, power) if last >= position else 0
            assert claimed == pytest.approx(expected, rel=1e-9), (position, age)


@pytest.mark.parametrize("growth", GROWTHS)
def test_every_position_and_age_is_the_covariances_value(growth: int | str) -> None:
    strategy = Expiring(growth)
    power = float(Fraction(growth))
    for position in range(1, 24):
        for age in range(24 - position):
            claimed = expiration_loss(strategy, [age], "concentrated", position)[0]
            expected = least_energy(position, position + age, power)
            assert claimed == pytest.approx(expected, rel=1e-9), (position, age)


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_capped_levels_agree_with_brute_force_too(levels: int) -> None:
    strategy = Expiring(2, levels=levels)
    for position, age in [(1, 0), (1, 5), (2, 6), (3, 8), (5, 7), (6, 9), (7, 3), (11, 6)]:
        last = position + age
        exact = expiration_loss(strategy, [age], position=position)[0]
        assert exact == pytest.approx(least_shift(position, last, 2, levels), rel=1e-9)
        energy = expiration_loss(strategy, [age], "concentrated", position)[0]
        assert energy == pytest.approx(least_energy(position, last, 2, levels), rel=1e-9)


@pytest.mark.parametrize(
    ("levels", "analysis", "growth"),
    in_turn(product([None, 1, 3, 5], ["exact", "concentrated"], [0, 1, "3/2", 3, 5]), 3),
)
def test_the_worst_position_is_the_worst_of_all(
    growth: int | str, analysis: Any, levels: int | None
) -> None:
    # Positions repeat: windows of at most 16 cannot tell apart more than those below 3 * 16.
    strategy = Expiring(growth, levels=levels)
    ages = range(16)
    each = [expiration_loss(strategy, ages, analysis, j) for j in range(1, 80)]
    found = expiration_loss(strategy, ages, analysis)
    assert found == pytest.approx(np.max(each, axis=0), rel=1e-12)


@pytest.mark.parametrize("skipped", [0, 1, 2])
@pytest.mark.parametrize("make", [AbsoluteCosts, QuadraticCosts])
def test_the_search_looks_at_all_positions(
    make: Any, skipped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first position has been worst with all weights tried. To see that the search would find
    # any other, the first 2^skipped - 1 positions are kept from it here.
    finished = MODULE._largest_cost

    def later(kind: Any, window: Any, level: int, carry: int, ends: Any) -> float:
        return 0.0 if level < skipped else finished(kind, window, level, carry, ends)

    monkeypatch.setattr(MODULE, "_largest_cost", later)
    rng = np.random.default_rng(3)
    worst = set()
    for _ in range(60):
        kind = make((2.0 ** rng.uniform(-3, 3, 12)).tolist())
        length = int(rng.integers(2**skipped + 1, 17))
        highest = int(rng.integers(skipped + 1, 10))
        positions = range(2**skipped, 64)
        each = [cost_at(kind, j, length, highest) for j in positions]
        assert worst_cost(kind, length, highest) == pytest.approx(max(each), rel=1e-12)
        worst.add(positions[int(np.argmax(each))])
    assert skipped == 0 or len(worst) > 2


@pytest.mark.parametrize("growth", [0, 1, "3/2", 2, 3, 5])
@pytest.mark.parametrize("analysis", ["exact", "concentrated"])
def test_no_sampled_position_is_worse_at_large_ages(growth: int | str, analysis: Any) -> None:
    rng = np.random.default_rng(7)
    strategy = Expiring(growth)
    for age in (999, 65_535, 10**6):
        worst = expiration_loss(strategy, [age], analysis)[0]
        places = [1, 2, 3, 4, 20, *(2 ** rng.uniform(0, 40, 40)).astype(int).tolist()]
        some = [expiration_loss(strategy, [age], analysis, j)[0] for j in places]
        assert max(some) <= worst * (1 + 1e-12)
        assert max(some) == pytest.approx(worst, rel=1e-12)  # position 1 has been worst so far


@pytest.mark.parametrize("make", [AbsoluteCosts, QuadraticCosts])
def test_search_rounds_loss_up_slightly(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "_MOST_EXACT_POSITIONS", 0)
    monkeypatch.setattr(MODULE, "_MOST_POSITIONS", 4)
    rng = np.random.default_rng(4)
    rounded = 0
    for grid in (2.0**-4, 2.0**-9):
        monkeypatch.setattr(MODULE, "_COST_GRID", grid)
        for _ in range(25):
            kind = make((2.0 ** rng.uniform(-3, 3, 12)).tolist())
            length = int(rng.integers(2, 17))
            highest = int(rng.integers(1, 10))
            largest = max(cost_at(kind, j, length, highest) for j in range(1, 64))
            found = worst_cost(kind, length, highest)
            assert largest * (1 - 1e-12) <= found <= largest * 2.5, (length, highest)
            rounded += found > largest * (1 + 1e-12)
    assert rounded


@pytest.mark.parametrize("growth", [5, 6, "9.07", 16])
@pytest.mark.parametrize("analysis", ["exact", "concentrated"])
@pytest.mark.slow
def test_large_growth_at_large_ages_has_a_loss_too(growth: int | str, analysis: Any) -> None:
    strategy = Expiring(growth)
    ages = [10**6, 31_556_953, 274_627_143_334_147, 2**62]
    found = expiration_loss(strategy, ages, analysis)
    first = expiration_loss(strategy, ages, analysis, position=1)  # has been worst so far
    assert (first * (1 - 1e-12) <= found).all()
    assert (found <= first * 1.001).all()
    above = loss_rounded_up(Expiry(growth), ages[1])
    if analysis == "concentrated":
        above = smooth_loss(Expiry(growth), ages[1] + 1, 65)
    assert above >= Fraction(first[1])


def released_distribution(scales: list[float], last: int, reach: int) -> Any:
    """Log-law of the noise of releases 1..last <= 3 on -reach..reach; 2 and 3 share an interval."""
    leaf_scale, pair_scale = scales
    inner = np.arange(-4 * reach, 4 * reach + 1)
    values = np.arange(-reach, reach + 1)

    def distribution(scale: float, numbers: NDArray[np.int64]) -> Any:
        decay = np.exp(-1 / scale)
        return np.log((1 - decay) / (1 + decay)) - np.abs(numbers) / scale

    first = distribution(leaf_scale, values)
    given_pair = distribution(leaf_scale, values[:, None] - inner)
    pair = distribution(pair_scale, inner)
    if last == 1:
        return first
    if last == 2:
        return first[:, None] + np.logaddexp.reduce(given_pair + pair, axis=1)
    both = np.logaddexp.reduce(given_pair[:, None] + given_pair[None] + pair, axis=2)
    return first[:, None, None] + both


@pytest.mark.parametrize("growth", [0, 1, 2])
def test_likelihood_ratios_of_three_releases_reach_expiration_loss(growth: int) -> None:
    strategy = Expiring(growth)
    reach = 25
    base = DiscreteLaplace(Fraction(2))  # epsilon = 1/2
    distributions = [node_distribution(strategy, base, level) for level in range(2)]
    scales = [
        float(distribution.scale)
        for distribution in distributions
        if isinstance(distribution, DiscreteLaplace)
    ]
    for position, age in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (3, 0)]:
        last = position + age
        distribution = released_distribution(scales, last, reach)
        moved = tuple(slice(1, None) if t >= position else slice(None) for t in range(1, last + 1))
        kept = tuple(slice(-1) if t >= position else slice(None) for t in range(1, last + 1))
        largest = np.abs(distribution[kept] - distribution[moved]).max()
        loss = expiration_loss(strategy, [age], position=position)[0] / 2
        assert loss - 0.06 <= largest <= loss * (1 + 1e-9), (position, age)


# Values of the mechanisms' restatement: (age, growth 1, growth 2, growth 3), paper then exact.
# Its 532 for growth 3 at age 999 is the paper's analysis at position 1; position 4 has 535.
TABLE = [
    (0, (1, 1, 1), (1, 1, 1)), (3, (3, 4, 9), (3, 4, 4)), (31, (6, 16, 59), (6, 16, 32)),
    (100, (9, 32, 140), (7, 28, 101)), (999, (15, 80, 535), (10, 55, 357)),
]  # fmt: skip


@pytest.mark.parametrize(("age", "paper", "exact"), TABLE)
def test_known_values(age: int, paper: tuple[int, ...], exact: tuple[int, ...]) -> None:
    for growth, by_paper, least in zip((1, 2, 3), paper, exact, strict=True):
        assert expiration_loss(Expiring(growth), [age], "paper") == [by_paper]
        assert expiration_loss(Expiring(growth), [age], "exact") == [least]


def test_known_values_of_the_gaussian_form() -> None:
    found = expiration_loss(Expiring(growth=1), [3, 10], "concentrated")
    assert found == pytest.approx([2.0, 2.6017316017], abs=5e-11)


def test_exact_loss_at_growth_1_is_half_of_bound() -> None:
    ages = np.array([*range(70), 10**3, 10**6, 2**40])
    exact = expiration_loss(Expiring(growth=1), ages)
    assert exact.tolist() == [int(age + 1).bit_length() for age in ages]
    bound = expiration_loss(Expiring(growth=1), ages, "bound")
    assert (bound == 2 * exact).all()


def greedy(position: int, length: int, growth: int) -> int:
    """Cost of the disjoint intervals that make up a window, largest possible from the left."""
    cost = 0
    last = position + length - 1
    while position <= last:
        level = (position & -position).bit_length() - 1
        while position + (1 << level) - 1 > last:
            level -= 1
        cost = cost + (1 + level) ** (growth - 1)
        position = position + (1 << level)
    return cost


def test_the_papers_analysis_is_the_worst_decomposition() -> None:
    for growth in (1, 2, 3):
        for age in (*range(40), 100, 999):
            worst = max(greedy(j, age + 1, growth) for j in range(1, 300 if age < 99 else 2100))
            assert expiration_loss(Expiring(growth), [age], "paper") == [worst], (growth, age)
    assert (greedy(1, 1000, 3), greedy(4, 1000, 3)) == (532, 535)


@pytest.mark.parametrize("growth", GROWTHS)
def test_analyses_are_ordered_and_grow_with_age(growth: int | str) -> None:
    ages = [*range(50), 10**3, 10**4, 10**5]
    by = {a: expiration_loss(Expiring(growth), ages, a) for a in ("exact", "paper", "bound")}
    gaussian = expiration_loss(Expiring(growth), ages, "concentrated")
    assert (by["exact"] <= by["paper"] * (1 + 1e-12)).all()
    assert (by["paper"] <= by["bound"] * (1 + 1e-12)).all()
    assert (gaussian <= by["exact"] * (1 + 1e-12)).all()
    for curve in (by["exact"], by["bound"], gaussian):
        assert (np.diff(curve) >= -1e-12 * curve[1:]).all()


def test_delay_shifts_the_loss_by_age() -> None:
    ages = range(60)
    delayed = Expiring(growth=2, delay=24)
    for analysis in ("exact", "paper", "bound", "concentrated"):
        late = expiration_loss(delayed, ages, analysis)
        assert (late[:24] == 0).all()
        assert (late[24:] == expiration_loss(Expiring(growth=2), range(36), analysis)).all()


def test_fresh_noise_loses_its_age() -> None:
    fresh = Expiring(growth=1, delay=1, levels=1)  # Algorithm 1: g(d) = d
    for analysis in ("exact", "paper", "bound", "concentrated"):
        assert expiration_loss(fresh, [0, 1, 2, 50], analysis).tolist() == [0, 1, 2, 50]


def test_the_exact_fraction_is_never_below_the_float() -> None:
    for growth, age, analysis in itertools.product(
        ("0", "1", "1.7", "3"), (0, 1, 99, 10**6), ("exact", "concentrated")
    ):
        expiry = Expiry(growth)
        above = loss_rounded_up(expiry, age)
        if analysis == "concentrated":
            above = smooth_loss(expiry, age + 1, 65)
        loss = expiration_loss(Expiring(growth), [age], analysis)[0]  # type: ignore[arg-type]
        assert 0 <= above - Fraction(loss) <= Fraction(loss) / 10**11 + Fraction(1, 10**10)
    assert loss_rounded_up(Expiry(2), 999) == 55


@pytest.mark.parametrize("age", [-1, 2**62 + 1, 2**64, 1.5, float("nan"), True, "24"])
def test_bad_ages_are_refused_in_words(age: Any) -> None:
    with pytest.raises(InvalidInputError, match="count it in steps"):
        expiration_loss(Expiring(1), [age])


@pytest.mark.parametrize("ages", [5, None, np.array(5), 2.5])
def test_ages_that_are_no_collection_are_refused_in_words(ages: Any) -> None:
    for position in (None, 1):
        with pytest.raises(
            InvalidInputError, match=r"ages are .*; give a collection of ages in steps"
        ):
            expiration_loss(Expiring(1), ages, position=position)
    assert expiration_loss(Expiring(1), np.array([0, 3])).tolist() == [1, 3]


def test_other_bad_input_is_refused_in_words() -> None:
    with pytest.raises(InvalidInputError, match="does not expire"):
        expiration_loss(Binary(9), [1])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="give one of exact, paper"):
        expiration_loss(Expiring(1), [1], "guess")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="a position is at least 1"):
        expiration_loss(Expiring(1), [1], position=0)
    with pytest.raises(InvalidInputError, match="single positions"):
        expiration_loss(Expiring(1), [1], "paper", position=1)

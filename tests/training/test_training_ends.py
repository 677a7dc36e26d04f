"""Normals that are drawn end: what that costs, and which deltas are too small for it."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from scipy.stats import norm

from counton import ZCDP, ApproxDP
from counton.base.errors import InvalidInputError
from counton.noise.normals import LARGEST_SQUARED_RADIUS, _box_muller
from counton.training import (
    FixedEpochs,
    PoissonBatches,
    TrainingDesign,
    TrainingNoise,
    accounting,
    noise_multiplier,
    plan,
    poisson_multiplier,
)
from counton.training.accounting import _outside, _pairs, beyond
from counton.training.strategies import BufferedToeplitz, OctaveTraining

TINY = ApproxDP(1, "1e-30")


def by_chance(steps: int = 8) -> PoissonBatches:
    return PoissonBatches(500, 0.1, steps, key=chosen_key(), name="run")


def choice(sampler: Any) -> TrainingDesign:
    good = plan(sampler=sampler, dimension=9, guarantee=ApproxDP(1, 1e-5)).best
    return TrainingDesign(good.strategy, TINY, 1.0, 9, sampler)


PATHS: dict[str, Callable[[], object]] = {
    "plan": lambda: plan(steps=8, dimension=9, guarantee=TINY),
    "plan by chance": lambda: plan(sampler=by_chance(), dimension=9, guarantee=TINY),
    "noise": lambda: TrainingNoise(
        BufferedToeplitz.fit(8), key=chosen_key(), name="run", guarantee=TINY
    ),
    "noise of a choice": lambda: choice(FixedEpochs(80, 10)).noise(key=chosen_key(), name="run"),
    "noise by chance": lambda: choice(by_chance()).noise(key=chosen_key(), name="run"),
    "error": lambda: choice(FixedEpochs(80, 10)).error,
    "error by chance": lambda: choice(by_chance()).error,
    "multiplier": lambda: noise_multiplier(TINY),
    "multiplier by chance": lambda: poisson_multiplier(TINY, 0.1, 8),
    "large epsilon": lambda: noise_multiplier(ApproxDP(50, 1e-5)),
}


@pytest.mark.parametrize("path", PATHS)
def test_delta_below_end_of_normals_is_refused(path: str) -> None:
    with pytest.raises(InvalidInputError, match=r"noise that ends at 9\.49 .* give a larger delta"):
        PATHS[path]()


def test_usual_deltas_cost_next_to_nothing() -> None:
    for delta in (1e-5, 1e-8, 1e-10):
        exact = noise_multiplier(ApproxDP(1, delta), 1)
        assert exact <= noise_multiplier(ApproxDP(1, delta), 10_000) < exact * 1.002
    poisson_multiplier(ApproxDP(2, 1e-8), 0.1, 100)


def test_normals_end_at_stated_radius() -> None:
    words = 2.0**32 * np.array([2.0**-65, 2.0**-64, 2.0**-33, 0.5], np.float64)
    angle = np.zeros(4, np.int32)  # all of the radius is in the first of a pair
    low, high = np.empty((2, 4), np.float32)
    _box_muller(words.astype(np.float32), angle, low, high)
    assert np.allclose(low, np.sqrt(-2 * np.log(words / 2.0**32)), atol=1e-5)
    assert (low.astype(float) ** 2 + high**2 <= LARGEST_SQUARED_RADIUS + 2e-5).all()
    assert 9.49 < math.sqrt(LARGEST_SQUARED_RADIUS) < 9.4935


def test_octave_has_no_more_nodes_than_are_counted_with() -> None:
    for steps in (1, 2, 3, 4, 5, 8, 9, 33, 512):
        levels = math.ceil(math.log2(steps)) + 2 if steps > 1 else 1
        _, nodes = OctaveTraining(steps, (1.0,) * levels).increments()
        assert len(nodes) <= accounting._NODES * steps


def deltas(epsilon: float, shift: float, radius: float) -> tuple[float, float]:
    """Of a pair of normals within a disc, by an integral; and of exact normals."""
    at = np.linspace(-radius, radius, 801)
    x, y = np.meshgrid(at, at)
    density = np.exp(-(x**2 + y**2) / 2) * (x**2 + y**2 <= radius**2)
    total = density.sum()
    moved = np.exp(-((x + shift) ** 2 + y**2) / 2) * ((x + shift) ** 2 + y**2 <= radius**2)
    ends = np.maximum(density - math.exp(epsilon) * moved, 0).sum() / total
    exact = norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(
        -shift / 2 - epsilon / shift
    )
    return float(ends), float(exact)


@pytest.mark.parametrize("radius", [2.0, 3.0, 4.0])
@pytest.mark.parametrize("shift", [0.05, 0.5, 1.5])
def test_delta_at_end_of_normals_is_within_bound(
    radius: float, shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "LARGEST_SQUARED_RADIUS", radius**2)
    for epsilon in (0.1, 1.0, 3.0):
        ends, exact = deltas(epsilon, shift, radius)
        assert ends <= math.exp(math.exp(-(radius**2) / 2)) * exact + _outside(shift) + 2e-4
    assert deltas(3.0, 1.5, 2.0)[0] > 5 * deltas(3.0, 1.5, 2.0)[1]  # what was promised before


def lost(epsilon: float, shift: float) -> float:
    """By how much the end of normals raises delta where one pair moves, by an integral.

    Where one disc reaches and the other does not: the lesser of the densities, epsilon included.
    """
    radius = math.sqrt(LARGEST_SQUARED_RADIUS)
    along = np.linspace(-radius, shift / 2, 601)
    across = np.linspace(0, radius, 401)
    x, y = np.meshgrid(along, across)
    own = x**2 + y**2
    moved = (x - shift) ** 2 + y**2
    least = np.exp(np.minimum(-own / 2, epsilon - moved / 2))
    least *= (own <= radius**2) & (moved > radius**2)
    return float(2 * least.sum() * (along[1] - along[0]) * (across[1] - across[0]) / (2 * math.pi))


LONG = [(epsilon, shift) for epsilon in (1, 8, 24, 32, 36) for shift in (0.5, 2.2, 4.0, 5.6, 8.0)]


def test_beyond_bounds_exact_loss_at_large_epsilon() -> None:
    for epsilon, shift in LONG:
        assert lost(epsilon, shift) <= beyond(1 / shift, 1, epsilon) <= beyond(1 / shift)
    assert beyond(1 / 5.6, 1, 32) < beyond(1 / 5.6) / 100


def test_bound_reduced_to_a_sixteenth_is_exceeded() -> None:
    """The same with a sixteenth of what the second density has beyond its disc."""
    for epsilon in (32, 36):
        assert lost(epsilon, 5.6) > beyond(1 / 5.6, 1, epsilon - math.log(16))


def test_no_split_of_pairs_exceeds_bound_at_epsilon() -> None:
    """Pairs that are lost by either density, each of the two sums over a split of its own."""
    random = np.random.default_rng(6)
    for epsilon, shift in LONG:
        bound = beyond(1 / shift, 1, epsilon)
        most = math.exp(epsilon - LARGEST_SQUARED_RADIUS / 2) / 2
        sums = {"short": 0.0, "long": 0.0}
        splits = [np.full(pairs, 1 / pairs) for pairs in (1, 2, 3, 4, 10)]
        splits += [random.dirichlet(np.full(pairs, 0.5)) for pairs in (2, 3, 5) for _ in range(20)]
        for shares in splits:
            each = np.array([_outside(one) for one in (shift * np.sqrt(shares)).tolist()])
            sums["short"] = max(sums["short"], float(each[each <= most].sum()))
            sums["long"] = max(sums["long"], float(most * (each > most).sum()))
        assert min(sum(sums.values()), 1) <= bound * (1 + 1e-4)


def test_no_split_of_a_shift_over_pairs_shows_more() -> None:
    random = np.random.default_rng(5)
    for multiplier in (0.15, 0.3, 1.0, 7.0, 100.0):
        bound = beyond(multiplier)
        for pairs in (1, 2, 3, 10, 1000):
            for power in (0.0, 0.5, 2.0, 8.0):
                shares = random.random(pairs) ** power + 1e-12
                shifts = np.sqrt(shares / shares.sum()) / multiplier
                found = sum(map(_outside, shifts.tolist()))
                assert min(found, 1) <= bound * (1 + 1e-9)
    assert beyond(1.0, 1) < beyond(1.0, 100) < beyond(0.5, 100)
    assert _pairs(1) == 2**41


#: Epsilon, steps, and the smallest delta.
LEAST_DELTAS = [
    (1, 100, 1.2e-12), (1, 10_000, 1.3e-11), (16, 10_000, 1.8e-10), (24, 10_000, 2.5e-9),
    (32, 10_000, 6.5e-6),
]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "steps", "least"), LEAST_DELTAS)
def test_the_least_deltas_of_the_trust_page(epsilon: int, steps: int, least: float) -> None:
    noise_multiplier(ApproxDP(epsilon, least), steps)
    with pytest.raises(InvalidInputError, match="larger delta"):
        noise_multiplier(ApproxDP(epsilon, 0.9 * least), steps)


def test_zcdp_guarantees_lose_stated_delta() -> None:
    """The numbers of docs/guarantees/details.md."""
    found = {rho: beyond(noise_multiplier(ZCDP(rho)), 10_000) for rho in ("1/2", 2, 8)}
    assert found["1/2"] < 4e-11
    assert found[2] < 9e-11
    assert 2e-7 < found[8] < 3e-7


def power_of_ten(number: float) -> str:
    """Write a number as a page does: 1.2·10⁻¹²."""
    digits, _, exponent = f"{number:.1e}".partition("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{float(digits):g}·10{raised}"


def test_trust_page_states_these_deltas() -> None:
    file = Path(__file__).parents[2] / "docs" / "guarantees" / "details.md"
    page = " ".join(file.read_text("utf-8").split())
    least = {(epsilon, steps): power_of_ten(delta) for epsilon, steps, delta in LEAST_DELTAS}
    short, long = least[1, 100], least[1, 10_000]
    assert f"the smallest δ is {short} over 100 steps and {long} over 10,000." in page
    assert f"With ε = 32, it is {least[32, 10_000]}." in page
    lost = {rho: beyond(noise_multiplier(ZCDP(rho)), 10_000) for rho in ("1/2", 8)}
    for rho, most in (("1/2", 4e-11), (8, 3e-7)):
        assert 0.5 * most < lost[rho] < most
        assert f"{power_of_ten(most)} with ρ = {rho}" in page

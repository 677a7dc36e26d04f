"""The bound by moments, piece by piece, against integrals over two places.

`test_secret_places.py` has simulations, which take long. Here each step of the proof is compared
with an exact number, so that a slip in one of them is found within a second (`tests/mutants.toml`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize

from counton.base.arrays import Floats
from counton.training import moment_bound
from counton.training.bins import PlaceBound, gaussian_delta
from counton.training.moment_bound import MomentBound, excess, shortfall

#: Covariances of two places: some with a shared factor, one without, one with unequal places.
GRAMS = [
    np.array([[1.0, 0.6], [0.6, 1.0]]),
    np.array([[1.0, 0.0], [0.0, 1.0]]),
    np.array([[1.0, 0.3], [0.3, 0.5]]),
]
by_gram = pytest.mark.parametrize("gram", GRAMS, ids=["shared", "apart", "unequal"])
#: Relative error of the integrals.
GRID = 1e-4


def mean_of_factors(covariances: Floats) -> tuple[Floats, Floats]:
    """Return values of a mean of two log-normals of mean 1, with their probabilities."""
    axis = np.linspace(-8.5, 8.5, 1201)
    weight = np.exp(-(axis**2) / 2)
    weight /= weight.sum()
    root = np.linalg.cholesky(covariances + 1e-14 * np.eye(2))
    normals = root @ np.stack(np.meshgrid(axis, axis, indexing="ij")).reshape(2, -1)
    values = np.exp(normals - covariances.diagonal()[:, None] / 2).mean(axis=0)
    return values, np.outer(weight, weight).ravel()


def exact_deltas(gram: Floats, epsilon: float, scale: float) -> tuple[float, float]:
    """Return delta for a removed and for an added example."""
    values, masses = mean_of_factors(scale * gram)
    limit = np.exp(epsilon)
    return (
        float(np.maximum(values - limit, 0) @ masses),
        float(np.maximum(1 - limit * values, 0) @ masses),
    )


@by_gram
@pytest.mark.parametrize(("epsilon", "scale"), [(1.0, 0.7), (0.3, 2.0)])
def test_both_directions_are_above_their_integral(
    gram: Floats, epsilon: float, scale: float
) -> None:
    found = moment_bound._PlaceGroup(gram).deltas(epsilon, scale)
    for bound, exact in zip(found, exact_deltas(gram, epsilon, scale), strict=True):
        assert exact * (1 - GRID) <= bound <= exact * 1.3 + 1e-4


@by_gram
@pytest.mark.parametrize("scale", [0.3, 1.5])
def test_tails_of_the_mean_are_above_their_integral(gram: Floats, scale: float) -> None:
    places = moment_bound._PlaceGroup(gram)
    facts = places.facts(scale)
    values, masses = mean_of_factors(scale * places.rest)
    points = np.array([0.02, 0.1, 0.3, 0.6, 0.9, 1.0, 1.3, 2.0, 4.0])
    above = np.array([np.maximum(values - point, 0) @ masses for point in points])
    below = np.array([np.maximum(point - values, 0) @ masses for point in points])
    assert (facts.above(points) >= above * (1 - GRID)).all()
    assert (facts.below(points) >= below * (1 - GRID)).all()
    assert facts.moments == pytest.approx(
        [float((values - 1) ** power @ masses) for power in range(5)], rel=1e-3, abs=1e-9
    )


def test_mass_cut_off_by_grid_is_part_of_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moment_bound, "_COMPARED_CUT_SHARE", 0.05)
    compared = moment_bound._DominatingDistribution(PlaceBound(4, 0.2), 1.0, 1.5)
    assert compared.beyond > 1e-3
    assert float(compared.tail(np.zeros(1))[0]) == pytest.approx(1)


@pytest.mark.parametrize("loss", [excess, shortfall])
def test_losses_are_means_over_the_shared_factor(loss: Any) -> None:
    normals = np.linspace(-9, 9, 20_001)
    masses = np.exp(-(normals**2) / 2)
    masses /= masses.sum()
    factor = np.exp(np.sqrt(0.8) * normals - 0.4)
    for value in (0.2, 1.0, 3.0):
        kept = value * factor - np.e if loss is excess else 1 - np.e * value * factor
        expected = float(np.maximum(kept, 0) @ masses)
        assert float(loss(np.array([value]), 0.8, 1.0)[0]) == pytest.approx(expected, rel=1e-5)


def small_program(loss: Any = excess) -> moment_bound._BoundProgram:
    """A program whose solution takes no time, and which is still a bound."""
    places = moment_bound._PlaceGroup(GRAMS[1])
    return moment_bound._BoundProgram(
        loss, places.shared, 1.0, places.facts(1.0), end=12.0, scale=0.1
    )


@pytest.fixture
def few_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let programs compare at few points, so that they are solved at once."""
    monkeypatch.setattr(moment_bound, "_PROGRAM_POINTS", 400)
    monkeypatch.setattr(moment_bound, "_PROGRAM_KNOTS", 20)


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize("loss", [excess, shortfall])
def test_solution_that_does_not_reach_the_loss_is_repaired(
    loss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    linprog = scipy.optimize.linprog

    def lower(costs: Any, **options: Any) -> Any:
        solved = linprog(costs, **options)
        solved.x = np.where(np.arange(len(solved.x)) == 0, solved.x - 0.5, solved.x)
        return solved

    right = small_program(loss).solve()
    exact = exact_deltas(GRAMS[1], 1.0, 1.0)[0 if loss is excess else 1]
    assert exact * (1 - GRID) <= right
    monkeypatch.setattr("scipy.optimize.linprog", lower)
    assert exact * (1 - GRID) <= small_program(loss).solve() <= 2 * right
    monkeypatch.setattr(moment_bound._BoundProgram, "_repair", lambda self, missing: 0.0)
    assert small_program(loss).solve() < exact


@pytest.mark.usefixtures("few_points")
def test_polynomial_between_points_is_below_its_chord() -> None:
    program = small_program()
    centred = (program.grid - 1) / program.spread
    weights = np.zeros(5)
    weights[2:] = 0.7, -0.1, 0.05
    polynomial = np.polynomial.Polynomial(weights)
    missing = program._missing(np.zeros(len(centred)), centred, weights)
    for index in range(0, len(centred) - 1, 7):
        inside = np.linspace(centred[index], centred[index + 1], 21)
        ends = polynomial(centred[index]), polynomial(centred[index + 1])
        chord = np.interp(inside, centred[index : index + 2], ends)
        assert float((chord - polynomial(inside)).max()) <= missing[index] * (1 + 1e-6) + 1e-12


def test_groups_of_places_count_with_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told the place itself, an attacker sees one of two normal losses."""
    monkeypatch.setattr(moment_bound, "MOST_JOINT_PLACES", 1)
    gram = np.diag([1.0, 0.25])
    expected = (gaussian_delta(1.0, 1.0) + gaussian_delta(1.0, 0.25)) / 2
    found = MomentBound(gram).delta(1.0, 1.0)
    assert expected * (1 - GRID) <= found <= expected * 1.02


@pytest.mark.usefixtures("few_points")
def test_what_is_above_the_end_of_the_grid_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moment_bound, "_TAIL_SHARE", 1.0)
    facts = moment_bound._PlaceGroup(GRAMS[1]).facts(1.5)
    solved: list[float] = []
    solve = moment_bound._BoundProgram.solve

    def solve_and_note(program: Any) -> float:
        solved.append(solve(program))
        return solved[-1]

    monkeypatch.setattr(moment_bound._BoundProgram, "solve", solve_and_note)
    monkeypatch.setattr(moment_bound._DominatingDistribution, "mean_of", lambda *_: 1.0)
    bound = moment_bound._bound(moment_bound._EXCESS, facts, 0.0, 1.0)
    assert bound > solved[-1] + 1e-3


@pytest.mark.usefixtures("few_points")
def test_bound_above_its_limit_is_that_of_a_removed_example() -> None:
    """A search needs the other direction only if the first one is small enough."""
    places = moment_bound._PlaceGroup(GRAMS[0])
    removed, added = places.deltas(1.0, 1.0)
    assert 0 < added < removed
    bound = MomentBound(GRAMS[0])
    assert bound.delta(1.0, 1.0) == pytest.approx(removed)
    assert places.deltas(1.0, 1.0, limit=removed / 2) == pytest.approx((removed, 0.0))
    assert places.deltas(1.0, 1.0, limit=removed * 2)[1] == pytest.approx(added)
    assert bound.delta(1.0, 1.0, limit=removed / 2) == pytest.approx(removed)

"""The epsilon of a run so far and at its end: as tight as the noise, and never too small."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import pld
from keys import chosen_key
from some_cases import long

from counton import ZCDP, ApproxDP, Key
from counton.base.errors import InvalidInputError
from counton.privacy import Guarantee
from counton.strategies.participation import Schedule
from counton.training import (
    FixedEpochs,
    MinSeparation,
    PoissonBatches,
    Sampler,
    SecretPlaces,
    TrainingNoise,
    epsilon,
    moment_bound,
)
from counton.training.epsilon import prefix_squared_sensitivity
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BufferedToeplitz,
    OctaveTraining,
    TrainingStrategy,
)

DELTA = 1e-5


def places(epochs: int, anew: bool = False) -> SecretPlaces:
    return SecretPlaces(80, 8, epochs, key=chosen_key(), name="run", anew=anew)


def poisson(steps: int) -> PoissonBatches:
    return PoissonBatches(80, 1 / 8, steps, key=chosen_key(), name="run")


def independent(sampler: Sampler) -> BandedInverseSquareRoot:
    return BandedInverseSquareRoot(sampler.steps, 1, sampler.schedule)


def blt(sampler: Sampler) -> BufferedToeplitz:
    return BufferedToeplitz(sampler.steps, (0.5,), (0.2,), sampler.schedule)


def noise_of(
    strategy: TrainingStrategy, sampler: Sampler | None, guarantee: Guarantee | None = None
) -> TrainingNoise:
    return TrainingNoise(
        strategy,
        key=chosen_key(),
        name="run",
        guarantee=ApproxDP(1, DELTA) if guarantee is None else guarantee,
        sampler=sampler,
        clip=0.5,
    )


NAMES = ("fixed order", "poisson", "places anew", "independent places", "places")
by_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True)
def coarse_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bounds by moments compare at few points, which is faster, and a bound all the same."""
    monkeypatch.setattr(moment_bound, "_PROGRAM_POINTS", 600)
    monkeypatch.setattr(moment_bound, "_PROGRAM_KNOTS", 30)


def run_of(name: str, epochs: int) -> TrainingNoise:
    """Noise of one kind of sampling, for a run of so many epochs of 8 steps."""
    if name == "fixed order":
        fixed = FixedEpochs(80, 10, epochs)
        return noise_of(blt(fixed), fixed)
    if name == "poisson":
        return noise_of(independent(poisson(8 * epochs)), poisson(8 * epochs))
    if name == "places":
        return noise_of(blt(places(epochs)), places(epochs))
    sampler = places(epochs, anew=name == "places anew")
    return noise_of(independent(sampler), sampler)


@by_name
def test_epsilon_at_the_end_is_that_of_the_guarantee(name: str) -> None:
    noise = run_of(name, 2)
    assert noise.epsilon(DELTA) == 1
    assert 0.99 < noise.epsilon(DELTA * (1 + 1e-9)) <= 1
    found = noise.epsilon(1e-4)
    again = noise_of(noise.strategy, noise.sampler, ApproxDP(found, 1e-4))
    assert again.std <= noise.std * 1.01
    assert again.std >= noise.std * 0.98


@by_name
def test_epsilon_so_far_is_that_of_a_shorter_run(name: str) -> None:
    """After two of four epochs, the noise is that of a run of two epochs."""
    whole = run_of(name, 4)
    short = run_of(name, 2)
    found = whole.epsilon(DELTA, steps=16)
    assert found < 0.8
    again = noise_of(short.strategy, short.sampler, ApproxDP(found, DELTA))
    assert again.std <= whole.std * 1.01
    assert again.std >= whole.std * 0.98


@pytest.mark.parametrize("name", [*NAMES[:-1], long("places")])
def test_epsilon_rises_from_step_to_step(name: str) -> None:
    noise = run_of(name, 2)
    found = [noise.epsilon(DELTA, steps=steps) for steps in (0, 1, 8, 9, 16)]
    assert found[0] == 0
    assert found == sorted(found)
    assert found[-1] == 1


def test_epsilon_under_zcdp_is_that_of_one_gaussian_mechanism() -> None:
    noise = noise_of(blt(FixedEpochs(80, 10, 2)), None, ZCDP("1/2"))
    exact = pld.privacy_loss_distribution.from_gaussian_mechanism(1.0)
    assert noise.epsilon(DELTA) == pytest.approx(exact.get_epsilon_for_delta(DELTA), rel=2e-3)


def test_epsilon_of_poisson_batches_agrees_with_dp_accounting() -> None:
    noise = run_of("poisson", 2)
    once = pld.privacy_loss_distribution.from_gaussian_mechanism(
        noise.std / 0.5, sampling_prob=1 / 8
    )
    expected = once.self_compose(5).get_epsilon_for_delta(DELTA)
    assert noise.epsilon(DELTA, steps=5) == pytest.approx(expected, rel=5e-3)
    assert once.self_compose(4).get_epsilon_for_delta(DELTA) < 0.97 * expected


SCHEDULES = [Schedule(3, 4, fixed=True), Schedule(3, 4, fixed=False), Schedule(2, 5, fixed=False)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 4, 5, 9, 12])
def test_sensitivity_of_first_steps_bounds_every_set_of_steps(
    schedule: Schedule, steps: int
) -> None:
    """All sets of steps in which one example may count, and no set of more steps."""
    strategy = BufferedToeplitz(12, (0.9, 0.4), (0.7, 0.1), schedule)
    matrix = strategy.encoder()[:steps, :steps]
    sets: list[tuple[int, ...]] = [()]
    for step in range(steps):
        for taken in list(sets):
            gap = step - taken[-1] if taken else schedule.apart
            fits = gap % schedule.apart == 0 if schedule.fixed else gap >= schedule.apart
            if fits and len(taken) < schedule.steps:
                sets.append((*taken, step))
    largest = max(float((matrix[:, list(taken)].sum(axis=1) ** 2).sum()) for taken in sets)
    found = prefix_squared_sensitivity(strategy, steps)
    assert largest <= found * (1 + 1e-12)
    assert found <= largest * (1.3 if not schedule.fixed else 1 + 1e-6)


def test_noise_that_reads_ahead_loses_all_from_the_first_step() -> None:
    """Its first steps use normals of later ones, so no part of its matrix is theirs."""
    strategy = OctaveTraining.fit(8, 2)
    noise = noise_of(strategy, FixedEpochs(80, 20, 2), ZCDP("1/2"))
    assert noise.epsilon(DELTA, steps=1) == noise.epsilon(DELTA)


@pytest.mark.parametrize("wrong", ["sensitivity", "epochs", "steps", "places", "lost"])
def test_wrong_epsilon_is_found(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One epoch less, one step less, places that are more, and normals without an end."""
    names = {
        "sensitivity": "fixed order", "epochs": "places anew", "steps": "poisson",
        "places": "places", "lost": "fixed order",
    }  # fmt: skip
    noise = run_of(names[wrong], 4)
    right = noise.epsilon(DELTA, steps=16)
    if wrong == "sensitivity":
        whole = epsilon.prefix_squared_sensitivity
        monkeypatch.setattr(
            epsilon,
            "prefix_squared_sensitivity",
            lambda strategy, steps: whole(strategy, steps - 8),
        )
    if wrong == "epochs":
        losses = epsilon.reshuffled_losses  # type: ignore[attr-defined]
        monkeypatch.setattr(
            epsilon,
            "reshuffled_losses",
            lambda places, epochs, *more: losses(places, epochs - 1, *more),
        )
    if wrong == "steps":
        by_chance = epsilon.poisson_losses  # type: ignore[attr-defined]
        monkeypatch.setattr(
            epsilon,
            "poisson_losses",
            lambda multiplier, rate, steps: by_chance(multiplier, rate, steps - 1),
        )
    if wrong == "places":
        products = epsilon.products_of_matrix  # type: ignore[attr-defined]
        monkeypatch.setattr(
            epsilon, "products_of_matrix", lambda matrix, count: products(matrix[:8, :8], count)
        )
    if wrong == "lost":
        monkeypatch.setattr(epsilon, "beyond", lambda *_, **__: 9.9e-6)
        assert noise.epsilon(DELTA, steps=16) > 1.05 * right
        return
    assert noise.epsilon(DELTA, steps=16) < 0.99 * right


@pytest.mark.parametrize("delta", [0, 1, -1e-5, math.nan, "x"])
def test_epsilon_of_a_wrong_delta_is_refused(delta: Any) -> None:
    with pytest.raises(InvalidInputError, match="delta"):
        run_of("fixed order", 2).epsilon(delta)


def test_epsilon_of_steps_beyond_the_run_is_refused() -> None:
    with pytest.raises(ValueError, match="after the last"):
        run_of("fixed order", 2).epsilon(DELTA, steps=17)


@pytest.mark.long
def test_epsilon_of_a_run_with_more_noise_is_smaller() -> None:
    """A run may have more noise than its guarantee needs, if an earlier version began it."""
    key = Key.generate()
    sampler = SecretPlaces(80, 8, 2, key=key, name="run")
    noise = TrainingNoise(
        blt(sampler), key=key, name="run", guarantee=ApproxDP(1, DELTA), sampler=sampler
    )
    before = noise.epsilon(2 * DELTA)
    noise.std *= 1.5
    assert noise.epsilon(2 * DELTA) < 0.8 * before


def test_separated_steps_are_covered_so_far() -> None:
    sampler = MinSeparation(80, 10, 4, window=4)
    strategy = BufferedToeplitz(32, (0.5,), (0.2,), sampler.schedule)
    noise = noise_of(strategy, sampler)
    steps = [noise.epsilon(DELTA, steps=steps) for steps in np.arange(1, 33, 8).tolist()]
    assert steps == sorted(steps)
    assert steps[0] < 0.6

"""Secret places: bounds against integrals over small runs, attackers who adapt, runs that go on."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from keys import chosen_key

from counton import ZCDP, ApproxDP, Key
from counton.base.arrays import Floats
from counton.base.errors import InvalidInput, StateError
from counton.strategies.participation import Schedule
from counton.strategies.training import (
    BandedInverseSquareRoot,
    BufferedToeplitz,
    Echo,
    TrainingStrategy,
)
from counton.training import (
    BallsInBins,
    FixedEpochs,
    PoissonBatches,
    SecretPlaces,
    TrainingNoise,
    noise_multiplier,
    plan,
)
from counton.training.bins import (
    PlaceBound,
    _mean_of_many,
    place_bounds,
    place_delta,
    places_multiplier,
)

ZEROS = {"w": np.zeros(4)}


def secret(key: Key, places: int = 3) -> SecretPlaces:
    return SecretPlaces(600, places, 2, key=key, name="run")


def blt(steps: int, epochs: int) -> BufferedToeplitz:
    return BufferedToeplitz(
        steps, (0.9, 0.4), (0.7, 0.1), Schedule(epochs, steps // epochs, fixed=True)
    )


def independent(steps: int, epochs: int) -> BandedInverseSquareRoot:
    return BandedInverseSquareRoot(steps, 1, Schedule(epochs, steps // epochs, fixed=True))


SMALL: list[TrainingStrategy] = [
    independent(2, 1),
    independent(6, 2),
    blt(4, 2),
    blt(6, 2),
    blt(6, 2).with_scaling("free"),
    blt(2, 1),
    BandedInverseSquareRoot(6, 3, Schedule(2, 3, fixed=True)),
]


def means_of_places(strategy: TrainingStrategy, places: int) -> Floats:
    """The rows by which an example moves C x, gradients all 1, by its place: steps added up."""
    matrix = strategy.encoder()
    return np.array([matrix[:, place::places].sum(axis=1) for place in range(places)])


def exact_deltas(means: Floats, std: float, epsilon: float) -> tuple[float, float]:
    """Both hockey-stick divergences of the mixture of normals from the one at 0, by integrals."""
    _, span = np.linalg.qr(means.T)
    square = span.T / std  # one row a place, in coordinates of what the means span
    points = {1: 4001, 2: 501, 3: 101}[len(square)]
    axis = np.linspace(-9, 9, points)
    weight = np.exp(-(axis**2) / 2)
    weight /= weight.sum()
    where = np.stack(np.meshgrid(*[axis] * len(square), indexing="ij")).reshape(len(square), -1)
    masses = np.prod(np.stack(np.meshgrid(*[weight] * len(square), indexing="ij")), axis=0).ravel()
    logs = square @ where - (square**2).sum(axis=1)[:, None] / 2
    ratio = np.exp(logs).mean(axis=0)
    limit = np.exp(epsilon)
    return (
        float(np.maximum(ratio - limit, 0) @ masses),
        float(np.maximum(1 - limit * ratio, 0) @ masses),
    )


@pytest.mark.parametrize("strategy", SMALL, ids=lambda one: f"{one.name} {one.steps}")
@pytest.mark.parametrize(("epsilon", "multiplier"), [(0.3, 2.0), (1.0, 1.0), (2.0, 0.7)])
def test_every_bound_is_above_the_exact_divergence(
    strategy: TrainingStrategy, epsilon: float, multiplier: float
) -> None:
    places = strategy.schedule.apart if strategy.schedule.steps > 1 else strategy.steps
    std = multiplier * np.sqrt(strategy.squared_sensitivity())
    exact = max(exact_deltas(means_of_places(strategy, places), std, epsilon))
    bounds = place_bounds(strategy, places)
    assert len(bounds) > 1, "something is amplified"
    for bound in bounds:
        assert exact <= place_delta(epsilon, bound, multiplier) * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("steps", [2, 3])
def test_the_bound_of_independent_noise_is_tight(steps: int) -> None:
    strategy = independent(steps, 1)
    for epsilon, multiplier in ((0.3, 2.0), (1.0, 1.0)):
        exact = max(exact_deltas(means_of_places(strategy, steps), multiplier, epsilon))
        bound = place_delta(epsilon, place_bounds(strategy, steps)[0], multiplier)
        assert exact == pytest.approx(bound, rel=0.01)


def test_noise_keeps_the_definition_and_a_little_less_does_not() -> None:
    strategy, promised = independent(3, 1), ApproxDP(0.5, 1e-3)
    std = places_multiplier(promised, strategy, 3)
    means = means_of_places(strategy, 3)
    assert max(exact_deltas(means, std, 0.5)) <= 1e-3
    assert max(exact_deltas(means, 0.99 * std, 0.5)) > 1e-3
    assert std < 0.8 * noise_multiplier(promised, 3)


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_attackers_who_choose_gradients_by_what_they_saw_gain_nothing(epsilon: float) -> None:
    """Two steps, one place each: the second gradient is a function of the first output."""
    strategy = BufferedToeplitz(2, (0.9,), (0.3,), Schedule(1, 2, fixed=True))
    (one, _), (moved, last) = strategy.encoder() / np.sqrt(strategy.squared_sensitivity())
    axis = np.linspace(-7, 7, 81)
    weight = np.exp(-(axis**2) / 2)
    weight /= weight.sum()
    first, second, third = np.meshgrid(axis, axis, axis, indexing="ij")
    masses = weight[:, None, None] * weight[:, None] * weight

    def lost(cut: float, low: float, high: float) -> float:
        along = np.where(first < cut, low, high)  # the second gradient, in two dimensions
        aside = np.sqrt(1 - along**2)
        early = np.exp(one * first + moved * second - (one**2 + moved**2) / 2)
        late = np.exp(last * (along * second + aside * third) - last**2 / 2)
        ratio = (early + late) / 2
        up = (np.maximum(ratio - np.exp(epsilon), 0) * masses).sum()
        down = (np.maximum(1 - np.exp(epsilon) * ratio, 0) * masses).sum()
        return float(max(up, down))

    bound = place_delta(epsilon, place_bounds(strategy, 2)[0], 1.0)
    alike = lost(0.0, 1.0, 1.0)
    assert alike <= bound * (1 + 1e-3)
    for cut, low, high in product((-1.0, 0.5), (-1.0, 0.0, 0.6, 1.0), (-1.0, 0.5, 1.0)):
        assert lost(cut, low, high) <= alike * (1 + 1e-4)


def test_means_on_grids_have_mean_one_and_are_wider_than_the_exact_law() -> None:
    for variance, number in ((0.3, 5), (2.0, 64), (1.0, 100)):
        atoms = _mean_of_many(variance, number, 128, 1e-12)
        assert atoms.masses.sum() == pytest.approx(1)
        assert float(atoms.values @ atoms.masses) + atoms.beyond == pytest.approx(1, abs=1e-9)
        spread = float(atoms.values**2 @ atoms.masses) - 1
        assert np.expm1(variance) / number * (1 - 1e-9) < spread < 1.1 * np.expm1(variance) / number


def test_what_is_cut_off_above_the_grid_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("counton.training.bins._CUT", 1.0)
    strategy = independent(2, 1)
    for epsilon, multiplier in ((1.0, 1.0), (1.0, 0.5)):
        exact = max(exact_deltas(means_of_places(strategy, 2), multiplier, epsilon))
        assert exact <= place_delta(epsilon, place_bounds(strategy, 2)[0], multiplier, 512)


def test_finer_grids_only_lower_the_bound() -> None:
    bound = PlaceBound(16, 0.3)
    coarse, fine = (place_delta(1.0, bound, 1.5, points) for points in (64, 512))
    assert 0.9 * coarse < fine < coarse


def test_covariances_are_nowhere_above_their_bound() -> None:
    """Of all places k apart, for every k, over all pairs of one class."""
    strategy = blt(32, 4)
    means = means_of_places(strategy, 8)
    gram = means @ means.T / strategy.squared_sensitivity()
    for bound in place_bounds(strategy, 8)[:-1]:
        step = 8 // bound.places
        for first in range(step):
            own = gram[first::step, first::step]
            apart = own[~np.eye(len(own), dtype=bool)]
            assert (own <= 1).all()
            assert (apart <= bound.shared).all()


def test_what_is_not_covered_is_not_amplified() -> None:
    guarantee = ApproxDP(1, 1e-5)
    echo = Echo.fit(12, 2)
    assert places_multiplier(guarantee, echo, 6) == noise_multiplier(guarantee, 12)
    assert places_multiplier(ZCDP("1/2"), blt(12, 2), 6) == noise_multiplier(ZCDP("1/2"))
    longer = independent(12, 2)  # whose sensitivity is that of two steps, not of four
    assert place_bounds(longer, 3) == (PlaceBound(1, 0.0),)


def test_what_the_end_of_the_normals_may_show_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for every place, with epsilon + ln(places); where delta does not cover it, no gain."""
    guarantee, strategy = ApproxDP(1, 1e-5), independent(16, 1)
    free = places_multiplier(guarantee, strategy, 16)
    asked = []

    def shown(multiplier: float, steps: int, epsilon: float) -> float:
        asked.append(epsilon)
        return share

    monkeypatch.setattr("counton.training.bins.beyond", shown)
    share = 1e-5 / 16 / 2.5
    assert free * 1.02 < places_multiplier(guarantee, strategy, 16)
    assert asked == [pytest.approx(1 + np.log(16))]
    share = 1e-5 / 16
    assert places_multiplier(guarantee, strategy, 16) == noise_multiplier(guarantee, 16)


def test_plans_compare_amplified_errors() -> None:
    guarantee = ApproxDP(2, 1e-5)
    places = SecretPlaces(320, 16, 2, key=chosen_key(), name="run")
    hidden = plan(sampler=places, dimension=9, guarantee=guarantee)
    fixed = plan(sampler=FixedEpochs(320, 20, 2), dimension=9, guarantee=guarantee)
    chance = PoissonBatches(320, 1 / 16, 32, key=chosen_key(), name="run")
    poisson = plan(sampler=chance, dimension=9, guarantee=guarantee)
    assert hidden.best.error < 0.95 * fixed.best.error
    assert hidden.best.error < poisson.best.error
    names = [choice.strategy.name for choice in hidden.choices]
    assert len(set(names)) == len(names)


def test_places_are_even_secret_and_kept() -> None:
    sampler = SecretPlaces(8000, 5, 2, key=chosen_key(), name="run")
    sizes = np.array([len(batch) for batch in sampler])
    assert sizes.sum() == 16_000
    assert (abs(sizes - 1600) < 5.5 * np.sqrt(8000 * 4 / 25)).all()
    for step in range(1, 6):
        assert np.array_equal(sampler.batch(step), sampler.batch(step + 5))
    key = Key.generate()
    one, other = secret(key), secret(key)
    assert not np.array_equal(one.batch(1), other.batch(1))
    assert "one example more or less" in repr(one)
    assert "drawn by chance and in secret" in repr(one)
    assert BallsInBins(8, 2).chance is None


def noise_with(sampler: SecretPlaces, key: Key, name: str = "run") -> TrainingNoise:
    schedule = Schedule(sampler.epochs, sampler.steps_per_epoch, fixed=True)
    strategy = BufferedToeplitz(sampler.steps, (0.4,), (0.1,), schedule)
    guarantee = ApproxDP(1, 1e-5)
    return TrainingNoise(strategy, key=key, name=name, guarantee=guarantee, sampler=sampler)


def test_noise_is_amplified_and_says_why() -> None:
    key = chosen_key()
    noise = noise_with(secret(key, 16), key)
    strategy, wide = noise.strategy, noise.std
    plain = TrainingNoise(strategy, key=key, name="run", guarantee=noise.guarantee).std
    needed = places_multiplier(noise.guarantee, strategy, 16)
    assert wide == pytest.approx(needed * np.sqrt(strategy.squared_sensitivity()), rel=1e-3)
    assert wide < 0.7 * plain
    assert "drawn by chance and in secret" in noise.promise
    with pytest.raises(InvalidInput, match="single examples"):
        TrainingNoise(
            strategy, key=key, name="run", guarantee=noise.guarantee, sampler=noise.sampler, group=2
        )


def test_a_run_that_goes_on_keeps_its_places() -> None:
    key = Key.generate()
    first = noise_with(secret(key), key)
    first.add(1, ZEROS)
    assert first.sampler is not None
    batches = [first.sampler.batch(step) for step in range(1, 7)]
    again = noise_with(secret(key), key)
    again.load_state_dict(first.state_dict())
    resumed = noise_with(secret(key), key)
    resumed.resume(2, first.run)
    for other in (again, resumed):
        assert other.sampler is not None
        assert all(map(np.array_equal, batches, other.sampler))
        other.add(2, ZEROS)


def test_other_places_in_the_middle_of_a_run_are_refused() -> None:
    key = Key.generate()
    first = noise_with(secret(key), key)
    first.add(1, ZEROS)
    late = noise_with(secret(key), key)
    assert late.sampler is not None
    late.sampler.batch(2)
    with pytest.raises(StateError, match="before the first batch"):
        late.load_state_dict(first.state_dict())
    run = {name: value for name, value in first.run.items() if name != "places"}
    with pytest.raises(StateError, match="does not say which places"):
        noise_with(secret(key), key).resume(2, run)
    with pytest.raises(StateError, match="does not say which places"):
        noise_with(secret(key), key).join(run)


def test_places_serve_one_run() -> None:
    key = Key.generate()
    sampler = secret(key)
    noise_with(sampler, key, "rate 0.1").add(1, ZEROS)
    with pytest.raises(InvalidInput, match="make a new SecretPlaces"):
        noise_with(sampler, key, "rate 0.3").add(1, ZEROS)

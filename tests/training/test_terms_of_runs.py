"""A run goes on under its own terms alone, which it says: nothing is searched for again."""

import hashlib
import json
import math
import os
import platform
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from programs import run_program
from some_cases import long

from counton import ZCDP, ApproxDP, Key
from counton.base.errors import InvalidInputError, StateError
from counton.noise import InsecureSeededKey
from counton.strategies.descent import matrix_on_grid, on_grid
from counton.training import (
    FixedEpochs,
    GivenBatches,
    MinSeparation,
    PoissonBatches,
    Sampler,
    SecretPlaces,
    TrainingNoise,
    plan,
)
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BandedOptimum,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    TrainingStrategy,
    public_training_strategies,
    training_schedule,
    training_strategy_from_dict,
)
from counton.training.strategies.buffered import interlace

FITS: dict[str, Callable[[], TrainingStrategy]] = {
    "buffers": partial(BufferedToeplitz.fit, 24, 2, scaling="free"),
    "buffers-apart": partial(BufferedToeplitz.fit, 24, 2, order="separated", scaling="epochs"),
    "bands": partial(BandedInverseSquareRoot.fit, 24, 2, scaling="equal"),
    "echo": partial(Echo.fit, 24, 2, 1, "free"),
    "octave": partial(OctaveTraining.fit, 24, 2, scaling="free"),
    "optimal-bands": partial(BandedOptimum.fit, 24, 2),
    "optimal-bands-few": partial(BandedOptimum.fit, 24, 2, draws=3),
}
#: What a processor does otherwise: kernels of linear algebra that all of them have, and threads.
PROCESSORS = [{"OPENBLAS_NUM_THREADS": "1"}, {"OPENBLAS_NUM_THREADS": "4"}]
if platform.machine() in ("x86_64", "AMD64"):
    PROCESSORS[1:] = [
        {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": threads}
        for core, threads in (("Nehalem", "1"), ("Prescott", "2"))
    ]

#: Threads without work sleep at once: else they keep a core busy, and other tests wait.
IDLE = {"OPENBLAS_THREAD_TIMEOUT": "4"}


@cache
def fitted(name: str) -> TrainingStrategy:
    """Searched for once, and not where this file is only read."""
    return FITS[name]()


def noise_of(strategy: TrainingStrategy, key: Key, **more: Any) -> TrainingNoise:
    terms: dict[str, Any] = {"key": key, "name": "run", "guarantee": ZCDP(50)}
    return TrainingNoise(strategy, **terms | more)


def through_json(run: Any) -> Any:
    return json.loads(json.dumps(run))


def begun(key: Key, **more: Any) -> TrainingNoise:
    """A run of which four steps were taken."""
    noise = noise_of(fitted("buffers"), key, **more)
    for step in range(1, 5):
        noise.add(step, {"w": np.zeros(5)})
    return noise


def a_little_less() -> TrainingStrategy:
    """The strategy that `begun` has, and its first decay the next smaller number."""
    said = fitted("buffers").to_dict()
    first, *others = said["thetahat"]
    return training_strategy_from_dict(
        said | {"thetahat": [float(np.nextafter(first, 0)), *others]}
    )


OTHERS: dict[str, Callable[[Key], TrainingNoise]] = {
    "guarantee": lambda key: noise_of(fitted("buffers"), key, guarantee=ZCDP("0.01")),
    "clip": lambda key: noise_of(fitted("buffers"), key, clip=0.5),
    "name": lambda key: noise_of(fitted("buffers"), key, name="another"),
    "strategy": lambda key: noise_of(a_little_less(), key),
    "key": lambda _: noise_of(fitted("buffers"), Key.generate()),
    "sampler": lambda key: noise_of(fitted("buffers"), key, sampler=FixedEpochs(120, 10, 2)),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("way", ["resume", "join", "load_state_dict"])
def test_a_run_is_not_gone_on_with_under_other_terms(name: str, way: str) -> None:
    key = Key.generate()
    first = begun(key)
    other = OTHERS[name](key)
    before = other.run, other.std
    arguments = {
        "resume": (5, first.run),
        "join": (first.run,),
        "load_state_dict": (first.state_dict(),),
    }
    with pytest.raises(
        StateError, match=rf"other settings: its {name} is .* TrainingNoise\.of_run"
    ):
        getattr(other, way)(*arguments[way])
    assert (other.run, other.std) == before
    again = noise_of(fitted("buffers"), key)
    getattr(again, way)(*arguments[way])
    assert again.run["identity"] == first.run["identity"]


def test_run_without_terms_is_refused() -> None:
    key = Key.generate()
    run = begun(key).run
    for name in ("terms", "std"):
        part = {each: value for each, value in run.items() if each != name}
        with pytest.raises(StateError, match="cannot be read"):
            noise_of(fitted("buffers"), key).resume(5, part)
        with pytest.raises(StateError, match="cannot be read"):
            noise_of(fitted("buffers"), key).join(part)
        with pytest.raises(StateError, match="cannot be read"):
            TrainingNoise.of_run(part, key=key)
    with pytest.raises(StateError, match="other settings"):
        noise_of(fitted("buffers"), key).join(run | {"terms": run["terms"] | {"more": 1}})


@pytest.mark.parametrize("name", FITS)
def test_noise_is_restored_from_run_description(name: str) -> None:
    strategy = fitted(name)
    key = chosen_key()
    first = noise_of(strategy, key, clip=0.25, guarantee=ApproxDP(1, "1e-6"))
    right = [first.read(step, "w", 7) for step in range(1, 25)]
    again = TrainingNoise.of_run(through_json(first.run), key=key)
    assert again.strategy == strategy
    assert (again.run, again.std, again.guarantee_text) == (
        first.run,
        first.std,
        first.guarantee_text,
    )
    again.resume(9, through_json(first.run))
    for step in range(9, 25):
        assert (again.read(step, "w", 7) == right[step - 1]).all()


def test_run_with_terms_of_other_noise_is_refused() -> None:
    key = Key.generate()
    run = through_json(begun(key).run)
    with pytest.raises(StateError, match="its key is"):
        TrainingNoise.of_run(run, key=Key.generate())
    with pytest.raises(StateError, match="its sampler is None"):
        TrainingNoise.of_run(run, key=key, sampler=FixedEpochs(120, 10, 2))
    for strategy in ({"strategy": "Unknown"}, {**run["terms"]["strategy"], "theta": [2.0]}):
        with pytest.raises(InvalidInputError):
            TrainingNoise.of_run(run | {"terms": run["terms"] | {"strategy": strategy}}, key=key)


def test_the_standard_deviation_is_that_of_the_run() -> None:
    """Two processors find ones that both keep the guarantee; the steps so far had one of them."""
    key = Key.generate()
    first = begun(key)
    there = math.nextafter(first.std, math.inf)
    for way in ("join", "resume", "load_state_dict"):
        again = noise_of(fitted("buffers"), key)
        run = first.run | {"std": there}
        state = first.state_dict() | {"run": run}
        arguments = {"join": (run,), "resume": (5, run), "load_state_dict": (state,)}
        getattr(again, way)(*arguments[way])
        assert again.std == there
        again.add(1 if way == "join" else 5, {"w": np.zeros(5)})
        assert {one.std for one in again._parameters.values()} == {there}
    for wrong in (first.std / 2, 0.0, math.nan, math.inf):
        with pytest.raises(StateError, match="standard deviation"):
            noise_of(fitted("buffers"), key).join(first.run | {"std": wrong})


# ------------------------------------------------------------------------------- samplers


def samplers(key: Key) -> list[Sampler]:
    """Of each two that differ in one thing that everybody may know."""
    return [
        FixedEpochs(120, 10, 2), FixedEpochs(120, 10, 2, seed=1), FixedEpochs(119, 10, 2),
        FixedEpochs(110, 9, 2), MinSeparation(120, 10, 2, window=2),
        MinSeparation(120, 10, 2, window=3),
        GivenBatches([[0, 1], [2]]), GivenBatches([[0], [1, 2]]),
        PoissonBatches(120, 0.1, 24, key=key, name="a"),
        PoissonBatches(120, 0.2, 24, key=key, name="a"),
        SecretPlaces(120, 12, 2, key=key, name="a"),
        SecretPlaces(120, 12, 2, key=key, name="a", anew=True),
    ]  # fmt: skip


def test_descriptions_of_samplers_differ() -> None:
    said = [json.dumps(one.description, sort_keys=True) for one in samplers(Key.generate())]
    assert len(set(said)) == len(said)
    again = [json.dumps(one.description, sort_keys=True) for one in samplers(Key.generate())]
    assert said == again


def test_description_of_run_is_independent_of_one_example() -> None:
    """Where the promise hides one more or less, their number is not said."""
    key = Key.generate()
    pairs: list[tuple[Sampler, Sampler]] = [
        (
            PoissonBatches(120, 0.1, 24, key=key, name="a"),
            PoissonBatches(121, 0.1, 24, key=key, name="a"),
        ),
        (SecretPlaces(120, 12, 2, key=key, name="a"), SecretPlaces(121, 12, 2, key=key, name="a")),
    ]
    for one, other in pairs:
        assert one.neighbours == "more or less"
        assert one.description == other.description


def test_resumed_run_refuses_other_batches() -> None:
    """Other batches from the middle on let an example count more often than is promised."""
    key = Key.generate()
    strategy = fitted("buffers")
    first = noise_of(strategy, key, sampler=FixedEpochs(120, 10, 2))
    with pytest.raises(StateError, match="its sampler is"):
        noise_of(strategy, key, sampler=FixedEpochs(120, 10, 2, seed=1)).resume(14, first.run)
    noise_of(strategy, key, sampler=FixedEpochs(120, 10, 2)).resume(14, first.run)


# --------------------------------------------------------------------- what is searched for


def numbers_of(strategy: TrainingStrategy) -> dict[str, Any]:
    """What a search found of a strategy."""
    said = strategy.to_dict()
    names = ("theta", "thetahat", "weights", "shares", "gain", "ratio", "matrix")
    return {name: said[name] for name in names if name in said}


@pytest.mark.parametrize("name", FITS)
def test_fitted_parameters_lie_on_grid(name: str) -> None:
    strategy = fitted(name)
    for name, found in numbers_of(strategy).items():
        if name == "matrix":
            assert isinstance(strategy, BandedOptimum)
            kept = np.asarray(strategy._entries * 2.0**-strategy._bits, np.float64)
            entries, bits = matrix_on_grid(kept)
            assert (bits, entries.tolist()) == (strategy._bits, strategy._entries.tolist())
            assert 2**19 < np.abs(entries).max() <= 2**20
            continue
        values = np.atleast_1d(found)
        if name == "thetahat":
            assert (values == values.astype(np.float32)).all()
        rest = 1 - values if name.startswith("theta") else values
        near = np.maximum(rest, 2.0**-24) if name == "thetahat" else rest
        assert (on_grid(near) == near).all()
    rebuilt = training_strategy_from_dict(through_json(strategy.to_dict()))
    assert rebuilt.to_dict() == strategy.to_dict()


def test_a_matrix_stays_on_its_grid() -> None:
    for largest in (1.0, 0.5, 0.5 + 1e-9, 1 - 1e-9, 3.0, 1e-5):
        found = np.array([[largest, 0.0], [-largest / 3, largest / 7]])
        entries, bits = matrix_on_grid(found)
        assert np.abs(entries * 2.0**-bits - found).max() <= largest * 2.0**-19
        again, same = matrix_on_grid(np.asarray(entries * 2.0**-bits, np.float64))
        assert same == bits
        assert (again == entries).all()


HERE = """
import hashlib, json, sys, warnings
warnings.simplefilter("ignore")
from counton.noise import InsecureSeededKey
from counton.training import TrainingNoise
from tests.training.test_terms_of_runs import bits_of, searched
for run in json.load(sys.stdin):
    print(bits_of(TrainingNoise.of_run(run, key=InsecureSeededKey(7))))
print(json.dumps(searched()))
"""


def bits_of(noise: TrainingNoise) -> str:
    steps = (noise.read(step, "w", 50) for step in range(1, 25))
    return hashlib.sha256(b"".join(step.tobytes() for step in steps)).hexdigest()


def searched() -> list[dict[str, Any]]:
    """Strategies whose search has one end, far from where the grid divides."""
    return [
        BufferedToeplitz.fit(64, buffers=2).to_dict(),
        BufferedToeplitz.fit(48, 4, buffers=1, scaling="free").to_dict(),
        OctaveTraining.fit(16).to_dict(),
        BandedOptimum.fit(12, 3).to_dict(),
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("settings", PROCESSORS, ids=str)
@pytest.mark.long
def test_noise_of_run_is_same_on_other_processors(settings: dict[str, str]) -> None:
    """And finds the same strategy where a search has one end, since what it finds is rounded."""
    key = InsecureSeededKey(7)
    made = [noise_of(strategy, key) for strategy in map(fitted, FITS)]
    said = json.dumps([noise.run for noise in made])
    wanted = [*map(bits_of, made), json.dumps(searched())]
    if settings.items() <= os.environ.items():
        return  # this process has them
    done = run_program(
        [sys.executable, "-c", HERE],
        input=said,
        env={**os.environ, **IDLE, **settings, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == wanted


# -------------------------------------------------------------------------- fits and plans


def test_decays_near_1_are_numbers_of_float32() -> None:
    """Where the grid of searches is finer: runs multiply buffers by them in float32."""
    _, (decay,) = interlace(np.array([1e-5, 1e-4 / 3]))
    assert float(np.float32(decay)) == decay < 1 - 2.0**-15


@pytest.mark.parametrize(
    ("steps", "epochs"),
    [
        (240, 6), (200, 5), (1, 1), (2, 1), (2, 2), (48, 4), long(512, 8), long(2**16, 1),
        long(2**20, 16),
    ],
)  # fmt: skip
@pytest.mark.parametrize("buffers", [1, 3, 5])
def test_a_fit_of_buffers_makes_noise(steps: int, epochs: int, buffers: int) -> None:
    strategy = BufferedToeplitz.fit(steps, epochs, buffers=buffers)
    assert [float(np.float32(decay)) for decay in strategy.decays] == list(strategy.decays)
    noise_of(strategy, chosen_key()).read(1, "w", 3)
    fewer = BufferedToeplitz.fit(steps, epochs, buffers=max(strategy.buffers - 1, 1))
    assert strategy.buffers == 1 or strategy.rmse < fewer.rmse * (1 - 0.9e-5)


@pytest.mark.parametrize(("examples", "buffers"), [(400, 1), long(4000, 3)])
def test_all_that_a_plan_lists_makes_noise(examples: int, buffers: int) -> None:
    sampler = FixedEpochs(examples, batch_size=100, epochs=6)
    found = plan(sampler=sampler, dimension=100_000, guarantee=ZCDP("0.5"), buffers=buffers)
    assert len(found.choices) > 3
    for choice in found.choices:
        choice.noise(key=chosen_key(), name="run").read(1, "w", 3)


def test_every_public_strategy_is_among_those_that_are_rebuilt() -> None:
    assert {type(fitted(name)) for name in FITS} == set(public_training_strategies())
    assert training_schedule(24, 2) == fitted("buffers").schedule

"""No two sets of gradients meet one noise: runs, sweeps, checkpoints, workers, copies."""

import copy
import multiprocessing
import pickle
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from own_laws.training import sets_of_steps
from patience import HANGS
from witnesses import refuse_writing

from counton import ZCDP, ApproxDP, Key
from counton.base.errors import CountonError, InvalidInputError, StateError
from counton.noise import guard_file
from counton.training import FixedEpochs, PoissonBatches, TrainingNoise
from counton.training.noise import renew
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    TrainingStrategy,
    training_schedule,
)
from papers.dense_optimum import dense_optimum

STRATEGIES = [
    BufferedToeplitz(12, (0.9, 0.5), (0.7, 0.2), training_schedule(12, 3)).with_scaling("equal"),
    Echo(12, (0.9, 0.5), (0.7, 0.2), 0.2, 0.6, training_schedule(12, 3)).with_scaling("free"),
    BandedInverseSquareRoot(12, 4, training_schedule(12, 3)),
    dense_optimum(12, 3),
    OctaveTraining.fit(12, 3),
]
CAUSAL = STRATEGIES[:4]
ZEROS = {"w": np.zeros(5)}
ONES = {"w": np.arange(5.0)}


def noise_of(strategy: TrainingStrategy, key: Key, name: str = "run", **more: Any) -> TrainingNoise:
    return TrainingNoise(strategy, key=key, name=name, guarantee=ZCDP(0.5), **more)


def far(one: Any, other: Any) -> bool:
    """Whether two releases differ by more than their gradients do."""
    return bool(np.abs(one["w"] - other["w"] - ONES["w"]).max() > 1e-3)


def test_a_second_run_under_one_key_and_name_is_refused() -> None:
    key = Key.generate()
    noise_of(STRATEGIES[0], key).add(1, ONES)
    with pytest.raises(StateError, match=r"a run called 'run' already.* give another name"):
        noise_of(STRATEGIES[0], key).read(1, "w", 5)
    for other in STRATEGIES:  # whatever else it promises
        with pytest.raises(StateError, match="another run"):
            noise_of(other, key).add(1, ZEROS)
    noise_of(STRATEGIES[0], key, name="run 2").add(1, ZEROS)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_runs_share_no_noise_under_repeated_name(
    strategy: TrainingStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key.generate()
    first = noise_of(strategy, key)
    one = [first.add(step, ONES) for step in (1, 2, 3)]
    monkeypatch.setattr(guard_file, "_identities", {})
    second = noise_of(strategy, key)
    for step, release in enumerate(one, 1):
        assert far(release, second.add(step, ZEROS))


def test_key_file_records_names_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "training.key"
    key = Key.generate()
    key.save(path)
    noise_of(STRATEGIES[0], key, name="first").add(1, ZEROS)
    noise_of(STRATEGIES[0], Key.load(path), name="second").add(1, ZEROS)
    shared = Key.load(path).with_salt("0")
    noise_of(STRATEGIES[0], shared, name="first").add(1, ZEROS)
    monkeypatch.setattr(guard_file, "_identities", {})  # another process
    for name in ("first", "second"):
        with pytest.raises(StateError, match="another run"):
            noise_of(STRATEGIES[0], Key.load(path), name=name).add(1, ONES)
    with pytest.raises(StateError, match="another run"):
        noise_of(STRATEGIES[0], Key.load(path).with_salt("0"), name="first").add(1, ONES)
    noise_of(STRATEGIES[0], Key.load(path), name="third").add(1, ONES)
    guard_file.guard_path_of(path).write_text("[")
    with pytest.raises(StateError, match="cannot be read"):
        noise_of(STRATEGIES[0], Key.load(path), name="fourth").add(1, ONES)


def test_a_key_whose_folder_cannot_be_written_still_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "training.key"
    Key.generate().save(path)

    def full(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(guard_file.GuardFile, "note", full)
    noise_of(STRATEGIES[0], Key.load(path)).add(1, ZEROS)


def test_unwritable_rollback_guard_stops_training_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "training.key"
    Key.generate().save(path)
    noise_of(STRATEGIES[0], Key.load(path), name="first").add(1, ZEROS)
    before = guard_file.guard_path_of(path).read_bytes()
    monkeypatch.setattr(guard_file, "_identities", {})  # another process
    with monkeypatch.context() as immutable:
        refuse_writing(immutable)
        for name in ("first", "second"):
            with pytest.raises(StateError, match="cannot be written"):
                noise_of(STRATEGIES[0], Key.load(path), name=name).add(1, ZEROS)
    assert guard_file.guard_path_of(path).read_bytes() == before
    noise_of(STRATEGIES[0], Key.load(path), name="second").add(1, ZEROS)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
@pytest.mark.parametrize("done", [0, 1, 5])
def test_a_checkpoint_continued_twice_has_two_noises(strategy: TrainingStrategy, done: int) -> None:
    key = Key.generate()
    first = noise_of(strategy, key)
    for step in range(1, done + 1):
        first.add(step, ZEROS)
    state = first.state_dict()
    ways: list[TrainingNoise] = [first]
    for _ in range(2):
        ways.append(noise_of(strategy, key))
        ways[-1].load_state_dict(state)
    ways.append(noise_of(strategy, key))
    ways[-1].resume(done + 1, first.run)
    for step in (done + 1, done + 2):
        shown = [way.add(step, ONES) for way in ways]
        for number, one in enumerate(shown):
            for other in shown[:number]:
                assert np.abs(one["w"] - other["w"]).max() > 1e-3
    assert all("one version is shown" in way.guarantee_text for way in ways[1:])
    assert "one version" not in first.guarantee_text
    for step in range(1, done + 1):
        for way in ways:
            with pytest.raises(InvalidInputError):
                way.add(step, ONES)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_noise_of_resumed_run_has_distribution_of_strategy(strategy: TrainingStrategy) -> None:
    """Its noise is std * K z with one independent normal at each node, whoever drew it."""
    key = Key.generate()
    size = 3
    noise = noise_of(strategy, key)
    made = []
    for step in range(1, 13):
        if step in (4, 5, 9):
            again = noise_of(strategy, key)
            again.load_state_dict(noise.state_dict())
            noise = again
        made.append(noise.read(step, "w", size))
    sessions = noise.run["sessions"]
    assert [first for first, _ in sessions] == [1, 4, 5, 9]
    fields = [(first, noise._field("w", size, each)) for first, each in sessions]
    matrix, nodes = strategy.increments()
    normals = []
    for level, index in nodes:
        taken = next(
            step
            for step in range(1, 13)
            if any((tap.level, tap.index) == (level, index) for tap in strategy.taps(step))
        )
        own = next(field for first, field in reversed(fields) if first <= taken)
        normals.append(own.read(level, index))
    assert np.allclose(made, noise.std * matrix @ np.array(normals), atol=2e-5 * noise.std)


def squared_sensitivity_of_two_ways(strategy: TrainingStrategy, last: int) -> float:
    """Of what is shown up to a step and of two ways to go on from it, by matrices written out."""
    matrix, nodes = strategy.increments()
    old = np.array([strategy.first_step(*node) <= last for node in nodes])
    common = np.where(old, matrix, 0)
    own = np.where(old, 0, matrix)
    first = (common[last:], own[last:], 0 * own[last:])
    second = (common[last:], 0 * own[last:])
    shown = np.block(
        [[common[:last], own[:last], 0 * own[:last]], list(first), [*second, own[last:]]]
    )
    products = np.abs(np.linalg.inv(shown @ shown.T))
    rest = strategy.steps - last
    most = 0.0
    for steps in sets_of_steps(strategy.steps, strategy.schedule):
        later = [step for step in steps if step >= last]
        chosen = steps + [step + rest for step in later]
        most = max(most, float(products[np.ix_(chosen, chosen)].sum()))
    return most


@pytest.mark.parametrize("strategy", CAUSAL, ids=lambda s: s.name)
def test_two_continuations_from_a_step_cost_at_most_two_runs(strategy: TrainingStrategy) -> None:
    for last in range(strategy.steps):
        found = squared_sensitivity_of_two_ways(strategy, last)
        assert found <= 2 * strategy.squared_sensitivity() * (1 + 1e-6)


def test_two_ways_on_of_octave_cost_more_than_two_runs() -> None:
    strategy = STRATEGIES[4]
    assert squared_sensitivity_of_two_ways(strategy, 2) > 10 * strategy.squared_sensitivity()


def test_sessions_that_took_no_step_are_left_out() -> None:
    once = renew((((1, "a")),), 0, "b")
    assert once == ((1, "b"),)
    assert renew(renew(once, 4, "c"), 4, "d") == ((1, "b"), (5, "d"))


def test_resuming_needs_the_run() -> None:
    key = Key.generate()
    first = noise_of(STRATEGIES[4], key)
    first.add(1, ZEROS)
    again = noise_of(STRATEGIES[4], key)
    with pytest.raises(StateError, match=r"load the checkpoint, or give run="):
        again.resume(2)
    for wrong in ({}, {"identity": "x", "sessions": []}, {"identity": "0" * 32, "sessions": [[2]]}):
        with pytest.raises(StateError, match="cannot be read"):
            again.resume(2, wrong)
    with pytest.raises(StateError, match="another run"):
        again.add(1, ZEROS)
    seeded = noise_of(STRATEGIES[4], chosen_key())
    seeded.resume(2)  # of a key that somebody chose everything is known


def test_a_state_that_is_refused_changes_nothing() -> None:
    key = Key.generate()
    first = noise_of(STRATEGIES[0], key)
    first.add(1, ZEROS)
    state = first.state_dict()
    entry = state["parameters"][0]
    broken = state | {"parameters": [entry | {"buffers": entry["buffers"][:1]}]}
    before = first.run
    with pytest.raises(StateError, match="buffers"):
        first.load_state_dict(broken)
    assert first.run == before
    first.add(2, ZEROS)


def test_workers_of_one_step_join_the_run_of_the_first() -> None:
    key = Key.generate()
    strategy = STRATEGIES[1]
    first = noise_of(strategy, key)
    other = noise_of(strategy, key)
    other.join(first.run)
    whole = noise_of(strategy, key)
    whole.join(first.run)
    for step in (1, 2):
        parts = [
            worker.add(step, {"w": np.zeros(3)}, shards={"w": (3 * place, 6)})["w"]
            for place, worker in enumerate((first, other))
        ]
        assert (np.concatenate(parts) == whole.add(step, {"w": np.zeros(6)})["w"]).all()
    with pytest.raises(InvalidInputError, match="before the first step"):
        other.join(first.run)
    # after a checkpoint each would draw its own: they join again
    state = first.state_dict()
    ways = [noise_of(strategy, key) for _ in range(2)]
    for way in ways:
        way.load_state_dict(state)
    ways[1].join(ways[0].run)
    places = {"w": (0, 6)}
    found = [way.add(3, {"w": np.zeros(3)}, shards=places)["w"] for way in ways]
    assert (found[0] == found[1]).all()


def test_shards_do_not_overlap() -> None:
    noise = noise_of(STRATEGIES[4], Key.generate())
    noise.add(1, {"w": np.zeros(3)}, shards={"w": (0, 6)})
    for first, size, whole in ((2, 3, 6), (0, 6, 6), (0, 2, 6), (1, 3, 8)):
        with pytest.raises(InvalidInputError, match="overlap"):
            noise.add(1, {"w": np.ones(size)}, shards={"w": (first, whole)})
    noise.add(1, {"w": np.zeros(3)}, shards={"w": (3, 6)})


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.name)
def test_step_that_was_read_is_not_added(strategy: TrainingStrategy) -> None:
    noise = noise_of(strategy, Key.generate())
    noise.read(1, "w", 5)
    with pytest.raises(InvalidInputError):
        noise.read(1, "w", 5)
    with pytest.raises(InvalidInputError):
        noise.add(1, ZEROS)


def test_noise_is_neither_copied_nor_pickled() -> None:
    noise = noise_of(STRATEGIES[0], Key.generate())
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(CountonError):
            copied(noise)


def test_threads_do_not_take_one_step_twice() -> None:
    noise = noise_of(STRATEGIES[4], Key.generate())
    together = threading.Barrier(4)
    given = []

    def take() -> None:
        together.wait()
        with suppress(InvalidInputError):
            given.append(noise.add(1, ZEROS))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == 1


def _drawn_in_a_copy(noise: TrainingNoise, answer: Any) -> None:
    try:
        noise.add(1, ZEROS)
        answer.put("noise")
    except StateError as error:
        answer.put(str(error))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_copy_of_the_process_draws_nothing() -> None:
    """A pool that sweeps over learning rates would give each of them the same noise."""
    forked = multiprocessing.get_context("fork")
    answer = forked.Queue()
    process = forked.Process(
        target=_drawn_in_a_copy, args=(noise_of(STRATEGIES[0], Key.generate()), answer)
    )
    process.start()
    assert "made in another process" in answer.get(timeout=HANGS)
    process.join()


# ------------------------------------------------------------------------------------- batches


def sampled() -> tuple[TrainingNoise, FixedEpochs]:
    sampler = FixedEpochs(examples=240, batch_size=60, epochs=3)
    echo = Echo(12, (0.5,), (0.3,), 0.1, 0.5, training_schedule(12, 3))
    return noise_of(echo, Key.generate(), sampler=sampler), sampler


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sums_longer_than_the_samplers_batch_can_be_are_refused(dtype: Any) -> None:
    noise, _ = sampled()
    with pytest.raises(InvalidInputError, match="add up to a norm of 600"):
        noise.add(1, {"a": np.full(9, 160, dtype), "b": np.full(16, 90, dtype)})
    noise.add(1, {"a": np.full(9, 16, dtype), "b": np.full(16, 9, dtype)})


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_norms_are_of_squares_that_16_bits_do_not_hold(dtype: Any) -> None:
    """A million coordinates of 1e-4 are as long as 0.1; each square is 0 in 16 bits."""
    sampler = FixedEpochs(examples=6, batch_size=1, epochs=2)
    strategy = BandedInverseSquareRoot(12, 1, training_schedule(12, 2))
    noise = noise_of(strategy, Key.generate(), sampler=sampler, clip=0.01)
    with pytest.raises(InvalidInputError, match=r"add up to a norm of 0\.[01]"):
        noise.add(1, {"w": np.full(10**6, 1e-4, dtype)})
    short = np.full(10**6, 9e-6, dtype)
    assert np.abs(noise.add(1, {"w": short})["w"] - short).max() > 0


@pytest.mark.parametrize("dtype", [">f4", "<f8", ">f2"])
def test_gradients_of_any_byte_order_are_taken(dtype: str) -> None:
    noises = [noise_of(BandedInverseSquareRoot(12, 1), chosen_key()) for _ in range(2)]
    given = np.ones(3, dtype)
    swapped = given.astype(given.dtype.newbyteorder())
    one, other = (
        noise.add(1, {"w": array})["w"]
        for noise, array in zip(noises, (given, swapped), strict=True)
    )
    assert (one == other).all()


def test_two_runs_by_chance_take_other_batches() -> None:
    key = Key.generate()
    one, other = (PoissonBatches(500, 0.2, 8, key=key, name="run") for _ in range(2))
    assert not np.array_equal(one.batch(1), other.batch(1))
    third = PoissonBatches(500, 0.2, 8, key=key, name="run")
    assert one.identity is not None
    third.join(one.identity)
    assert np.array_equal(one.batch(1), third.batch(1))
    with pytest.raises(InvalidInputError, match="before the first"):
        other.join(one.identity)
    with pytest.raises(InvalidInputError, match="not secret"):
        FixedEpochs(8, 4).join(one.identity)


def by_chance(key: Key) -> PoissonBatches:
    return PoissonBatches(500, 0.2, 8, key=key, name="run")


def test_batches_by_chance_serve_one_run() -> None:
    """Two runs with the same batches are no two runs by chance: whoever is in one is in both."""
    key = Key.generate()
    sampler = by_chance(key)
    independent = BandedInverseSquareRoot(8, 1, training_schedule(8, 8))

    def run(name: str, sampler: PoissonBatches) -> TrainingNoise:
        promised = ApproxDP(1, 1e-5)
        return TrainingNoise(independent, key=key, name=name, guarantee=promised, sampler=sampler)

    first = run("rate 0.1", sampler)
    first.add(1, ZEROS)
    with pytest.raises(InvalidInputError, match="another run, or the same one before"):
        run("rate 0.3", sampler).add(1, ZEROS)
    state = first.state_dict()
    first.load_state_dict(state)
    with pytest.raises(InvalidInputError, match="make a new PoissonBatches"):
        first.add(2, ZEROS)
    again = run("rate 0.1", by_chance(key))
    again.load_state_dict(state)
    again.add(2, ZEROS)


def test_step_beyond_sampler_is_refused() -> None:
    sampler = FixedEpochs(examples=40, batch_size=10, epochs=2)
    longer = BufferedToeplitz.fit(12, 2, order="separated", separation=4)
    noise = noise_of(longer, Key.generate(), sampler=sampler)
    for step in range(1, 9):
        noise.add(step, {"w": np.zeros(2)}, shards={"w": (0, 4)})
    with pytest.raises(InvalidInputError, match="after the last of the 8 steps of the sampler"):
        noise.read(9, "w", 4, 0, 2)
    with pytest.raises(InvalidInputError, match="after the last of the 8 steps of the sampler"):
        noise.add(9, {"w": np.zeros(2)}, shards={"w": (0, 4)})


def test_runs_under_chosen_key_have_same_noise() -> None:
    for strategy in STRATEGIES:
        one, other = (noise_of(strategy, chosen_key()) for _ in range(2))
        assert (one.add(1, ZEROS)["w"] == other.add(1, ZEROS)["w"]).all()
        other.load_state_dict(one.state_dict())
        assert (one.add(2, ZEROS)["w"] == other.add(2, ZEROS)["w"]).all()

"""JAX: noise as a transformation of optax; skipped where optax is not installed."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from programs import run_program

from counton import ZCDP, ApproxDP, Key
from counton.base.errors import InvalidInputError
from counton.training import FixedEpochs, SecretPlaces, TrainingNoise
from counton.training.strategies import (
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    TrainingStrategy,
    training_schedule,
)

pytestmark = pytest.mark.filterwarnings("ignore")
optax = pytest.importorskip("optax", reason="optax is not installed: make test-training")
jax = pytest.importorskip("jax", reason="jax is not installed: make test-training")

import counton.training.optax as optax_noise  # noqa: E402 - after the skip
from counton.training.optax import _digest as digest  # noqa: E402
from counton.training.optax import _from_numbers as told  # noqa: E402
from counton.training.optax import private_aggregate, resume  # noqa: E402

jnp = jax.numpy

STRATEGIES = [BufferedToeplitz.fit(6, 2, scaling="equal"), Echo.fit(6, 2), OctaveTraining.fit(6, 2)]


def noise_of(strategy: TrainingStrategy, rho: str = "1/2", clip: float = 1.0) -> TrainingNoise:
    return TrainingNoise(strategy, key=chosen_key(), name="run", guarantee=ZCDP(rho), clip=clip)


def parameters() -> Any:
    return {"layer": {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}, "scale": [jnp.ones(())]}


def wanted(strategy: TrainingStrategy, steps: int) -> list[Any]:
    """What `TrainingNoise.add` gives for zeros."""
    noise = noise_of(strategy)
    zeros = jax.tree_util.tree_map(lambda p: np.zeros(p.shape, np.float32), parameters())
    return [noise.add(step, zeros) for step in range(1, steps + 1)]


def near(one: Any, other: Any) -> bool:
    pairs = zip(jax.tree_util.tree_leaves(one), jax.tree_util.tree_leaves(other), strict=True)
    return all(np.allclose(a, b, atol=1e-5) for a, b in pairs)


def test_two_gradients_of_one_name_are_refused() -> None:
    """They would have equal noise, and their difference none."""
    transformation = private_aggregate(noise_of(STRATEGIES[1]), batch_size=1, per_example=False)
    twice = {"a": {"b": jnp.zeros(3)}, "a/b": jnp.ones(3)}
    with pytest.raises(InvalidInputError, match="both called 'a/b'"):
        transformation.init(twice)
    state = transformation.init({"a/b": jnp.zeros(3)})
    with pytest.raises(InvalidInputError, match="both called 'a/b'"):
        transformation.update(twice, state)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_noise_is_that_of_add_under_jit_and_scan(strategy: TrainingStrategy) -> None:
    transformation = private_aggregate(noise_of(strategy), batch_size=1, per_example=False)
    zeros = jax.tree_util.tree_map(jnp.zeros_like, parameters())
    right = wanted(strategy, 6)

    state = transformation.init(parameters())
    update = jax.jit(transformation.update)
    for step in range(3):
        found, state = update(zeros, state)
        assert near(found, right[step])

    def one(state: Any, _: Any) -> Any:
        found, state = transformation.update(zeros, state)
        return state, found

    state, found = jax.lax.scan(one, transformation.init(parameters()), None, length=6)
    assert int(state.step) == 6
    for step in range(6):
        assert near(jax.tree_util.tree_map(lambda a, at=step: a[at], found), right[step])


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


def test_registered_nodes_are_trees_too() -> None:
    noise = noise_of(OctaveTraining.fit(2))
    plain = noise.add(1, {"first": {"w": np.zeros(3), "b": np.zeros(2)}})
    found = noise_of(OctaveTraining.fit(2)).add(1, {"first": Layer(jnp.zeros(3), jnp.zeros(2))})
    assert isinstance(found["first"], Layer)
    assert near(found["first"].w, plain["first"]["w"])
    with pytest.raises(InvalidInputError, match="arrays of numpy"):
        noise.add(2, {"w": object()})


def test_gradients_of_examples_are_clipped_and_summed() -> None:
    noise = noise_of(OctaveTraining.fit(2), rho="1e12", clip=0.5)
    transformation = private_aggregate(noise, batch_size=4)
    random = np.random.default_rng(1)
    given = {"w": random.standard_normal((5, 3)) * [[0.01], [9], [1], [np.nan], [1]]}
    given["b"] = random.standard_normal((5, 2, 1)) * 0.1
    total = {"w": np.zeros(3), "b": np.zeros((2, 1))}
    for at in (0, 1, 2, 4):
        norm = np.sqrt((given["w"][at] ** 2).sum() + (given["b"][at] ** 2).sum())
        for name, each in total.items():
            each += given[name][at] * min(1, 0.5 / norm)
    state = transformation.init({"w": jnp.zeros(3), "b": jnp.zeros((2, 1))})
    found, _ = transformation.update(jax.tree_util.tree_map(jnp.asarray, given), state)
    assert near(found, {name: each / 4 for name, each in total.items()})


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32])
@pytest.mark.parametrize(("size", "value"), [(10**6, 1e-4), (16, 300.0)])
def test_clipping_holds_where_16_bits_do_not_hold_a_square(
    dtype: Any, size: int, value: float
) -> None:
    """A million coordinates of 1e-4 are as long as 0.1, and the square of 300 is above 65,504."""
    noise = noise_of(OctaveTraining.fit(2), rho="1e12", clip=0.01)
    transformation = private_aggregate(noise, batch_size=1)
    state = transformation.init({"w": jnp.zeros(size)})
    found, _ = transformation.update({"w": jnp.full((1, size), value, dtype)}, state)
    assert 0.0098 < np.linalg.norm(np.asarray(found["w"], np.float64)) < 0.0102


def test_private_aggregate_trains_in_a_chain() -> None:
    random = np.random.default_rng(2)
    inputs = jnp.asarray(random.standard_normal((64, 3)))
    labels = inputs @ jnp.asarray([1.0, -2.0, 0.5])
    noise = noise_of(BufferedToeplitz.fit(60, 10), rho="100", clip=1.0)
    chain = optax.chain(private_aggregate(noise, batch_size=64), optax.sgd(0.5))

    def loss(p: Any, x: Any, y: Any) -> Any:
        return (x @ p["w"] - y) ** 2

    def train(p: Any, state: Any) -> Any:
        gradients = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(p, inputs, labels)
        updates, state = chain.update(gradients, state)
        return optax.apply_updates(p, updates), state

    jitted = jax.jit(train)
    p = {"w": jnp.zeros(3)}
    state = chain.init(p)
    for _ in range(60):
        p, state = jitted(p, state)
    assert float(jnp.abs(p["w"] - jnp.asarray([1.0, -2.0, 0.5])).max()) < 0.2


def test_private_aggregate_refuses_step_beyond_run_and_empty_batch() -> None:
    transformation = private_aggregate(
        noise_of(OctaveTraining.fit(1)), batch_size=1, per_example=False
    )
    state = transformation.init({"w": jnp.zeros(3)})
    _, state = transformation.update({"w": jnp.zeros(3)}, state)
    with pytest.raises(Exception, match="after the last of the 1 steps"):
        jax.block_until_ready(transformation.update({"w": jnp.zeros(3)}, state))
    with pytest.raises(InvalidInputError, match="batch_size"):
        private_aggregate(noise_of(OctaveTraining.fit(1)), batch_size=0)


def own_noise(name: str = "run", key: Key | None = None, **more: Any) -> TrainingNoise:
    """Under a key that nobody chose."""
    strategy = more.pop("strategy", STRATEGIES[1])
    terms: dict[str, Any] = {"guarantee": ZCDP("1/2"), "name": name, "key": key or Key.generate()}
    return TrainingNoise(strategy, **terms | more)


def zeros_and_ones() -> tuple[Any, Any]:
    return {"w": jnp.zeros(5)}, {"w": jnp.arange(5.0)}


@pytest.mark.parametrize("jitted", [False, True])
def test_a_fresh_state_is_another_run(jitted: bool) -> None:
    zeros, ones = zeros_and_ones()
    transformation = private_aggregate(own_noise(), batch_size=1, per_example=False)
    init = transformation.init
    update = transformation.update
    if jitted:
        init = jax.jit(init)
        update = jax.jit(update)
    states = [init(zeros) for _ in range(3)]
    assert len({np.asarray(state.run).tobytes() for state in states}) == 3
    update(ones, states[0])
    for state in states[1:]:
        with pytest.raises(Exception, match="a run called 'run' already"):
            jax.block_until_ready(update(zeros, state))


@pytest.mark.parametrize("jitted", [False, True])
def test_a_state_is_taken_once(jitted: bool) -> None:
    zeros, ones = zeros_and_ones()
    transformation = private_aggregate(own_noise(), batch_size=1, per_example=False)
    update = jax.jit(transformation.update) if jitted else transformation.update
    first = transformation.init(zeros)
    found, second = update(ones, first)
    again, _ = update(ones, first)
    assert near(found, again)  # the same gradients have the same noise
    update(ones, second)
    for old in (first, second):
        with pytest.raises(Exception, match="has its noise already"):
            jax.block_until_ready(update(zeros, old))
    shown = [update({"w": jnp.zeros(5)}, resume(second))[0] for _ in range(2)]
    assert not near(*shown)


def test_states_side_by_side_need_runs_of_their_own() -> None:
    """A sweep over learning rates by vmap, from one state."""
    zeros, _ = zeros_and_ones()
    transformation = private_aggregate(own_noise(), batch_size=1, per_example=False)
    state = transformation.init(zeros)
    both = jax.tree_util.tree_map(lambda leaf: jnp.stack([leaf, leaf]), state)
    gradients = {"w": jnp.stack([jnp.zeros(5), jnp.arange(5.0)])}
    with pytest.raises(Exception, match="has its noise already"):
        jax.block_until_ready(jax.vmap(transformation.update)(gradients, both))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_state_of_another_process_is_resumed(
    strategy: TrainingStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, (zeros, ones) = Key.generate(), zeros_and_ones()

    def begun() -> Any:
        noise = own_noise(key=key, strategy=strategy)
        return optax.chain(
            private_aggregate(noise, batch_size=1, per_example=False), optax.sgd(1.0)
        )

    chain = begun()
    state = chain.init(zeros)
    for _ in range(2):
        _, state = chain.update(zeros, state)
    monkeypatch.setattr("counton.training.optax._digests_by_session", {})
    monkeypatch.setattr("counton.noise.guard_file._identities", {})
    with pytest.raises(Exception, match=r"counton\.training\.optax\.resume\(state\)"):
        jax.block_until_ready(begun().update(zeros, state))
    monkeypatch.setattr("counton.noise.guard_file._identities", {})
    shown = []
    for _ in range(3):
        chain = begun()
        own = resume(state)
        update = jax.jit(chain.update)
        for _ in range(3):
            found, own = update(ones, own)
        assert int(own[0].step) == 5
        shown.append(found)
    assert not near(shown[0], shown[1])
    assert not near(shown[1], shown[2])


def test_jax_state_continues_only_under_its_terms() -> None:
    key, (zeros, ones) = Key.generate(), zeros_and_ones()
    strategy = Echo(6, (0.9,), (0.7,), 0.2, 0.6, training_schedule(6, 2))
    first = own_noise(key=key, strategy=strategy)
    begun = private_aggregate(first, batch_size=1, per_example=False)
    _, state = begun.update(zeros, begun.init(zeros))
    searched = Echo(6, (0.9,), (0.7,), np.nextafter(0.2, 1), 0.6, training_schedule(6, 2))
    for other in (
        own_noise(key=key, strategy=strategy, guarantee=ZCDP("0.01")),
        own_noise(key=key, strategy=searched),
        own_noise(strategy=strategy),
    ):
        chain = private_aggregate(other, batch_size=1, per_example=False)
        for old in (state, resume(state)):
            with pytest.raises(Exception, match=r"to other settings.* TrainingNoise\.of_run"):
                jax.block_until_ready(chain.update(ones, old))
    again = TrainingNoise.of_run(json.loads(json.dumps(first.run)), key=key)
    chain = private_aggregate(again, batch_size=1, per_example=False)
    assert int(chain.update(ones, resume(state))[1].step) == 2


def test_resumed_state_draws_noise_of_add() -> None:
    """Sessions of a state are those of `TrainingNoise`: the law of the strategy."""
    key, (zeros, _) = Key.generate(), zeros_and_ones()
    for place, strategy in enumerate(STRATEGIES):
        noise = own_noise(f"run {place}", key, strategy=strategy)
        transformation = private_aggregate(noise, batch_size=1, per_example=False)
        state = transformation.init(zeros)
        found = []
        for step in range(1, 7):
            if step in (3, 5):
                state = resume(state)
            shown, state = transformation.update(zeros, state)
            found.append(shown["w"])
        plain = own_noise(f"run {place}", key, strategy=strategy)
        run = told(state.run)
        assert [first for first, _ in run["sessions"]] == [1, 3, 5]
        plain.join(noise.run | run)
        for step, one in enumerate(found, 1):
            assert np.allclose(one, plain.add(step, {"w": np.zeros(5)})["w"], atol=1e-5)


@pytest.mark.parametrize("change", [(0, 1e-30), (4, -1.0), (2, 3e-8)])
def test_gradients_differ_where_one_number_does(change: tuple[int, float]) -> None:
    base = jnp.asarray([0.0, 1, 2, 3, 4], jnp.float32)
    other = base.at[change[0]].set(change[1])
    for dtype in (jnp.float32, jnp.bfloat16):
        one, two = (digest([jnp.ones(2), a.astype(dtype)]) for a in (base, other))
        assert (one != two).any()


def test_more_examples_than_the_samplers_batch_are_refused() -> None:
    sampler = FixedEpochs(examples=24, batch_size=8, epochs=2)
    noise = own_noise(sampler=sampler, clip=1)
    transformation = private_aggregate(noise, batch_size=8)
    state = transformation.init({"w": jnp.zeros(3)})
    for rows in (80, 7, 0):
        with pytest.raises(Exception, match=f"of {rows} examples, but .* batch has 8"):
            jax.block_until_ready(transformation.update({"w": jnp.ones((rows, 3))}, state))
    filled = jnp.concatenate([jnp.ones((8, 3)), jnp.zeros((4, 3))])  # to a size that stays
    _, state = jax.jit(transformation.update)({"w": filled}, state)
    assert int(state.step) == 1
    summed = private_aggregate(own_noise(sampler=sampler), batch_size=8, per_example=False)
    state = summed.init({"w": jnp.zeros(4)})
    with pytest.raises(Exception, match="add up to a norm of 80"):
        jax.block_until_ready(summed.update({"w": jnp.full(4, 40.0)}, state))


def test_resumed_jax_state_keeps_its_shape() -> None:
    zeros, _ = zeros_and_ones()
    noise = own_noise(strategy=BufferedToeplitz.fit(400))
    transformation = private_aggregate(noise, batch_size=1, per_example=False)
    state = transformation.init(zeros)
    shapes = {state.run.shape}
    for step in range(254):
        state = resume(state._replace(step=jnp.asarray(step, jnp.int32)))
        shapes.add(state.run.shape)
    with pytest.raises(InvalidInputError, match="another run under another name"):
        resume(state._replace(step=jnp.asarray(300, jnp.int32)))
    assert shapes == {(256, 5)}
    assert len(told(state.run)["sessions"]) == 254


def test_parts_of_batches_are_added_up_before_their_noise() -> None:
    zeros, ones = zeros_and_ones()
    noise = own_noise()
    inner = private_aggregate(noise, batch_size=1, per_example=False)
    several = optax.MultiSteps(inner, every_k_schedule=2)
    state = several.init(zeros)
    shown = []
    update = jax.jit(several.update)
    for _ in range(4):
        found, state = update(ones, state)
        shown.append(np.asarray(found["w"]))
    assert not shown[0].any()
    assert not shown[2].any()
    assert np.abs(shown[1] - shown[3]).max() > 1e-3


def test_several_processes_take_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    key, (zeros, ones) = Key.generate(), zeros_and_ones()
    alone = private_aggregate(own_noise(key=key), batch_size=1, per_example=False)
    with pytest.raises(Exception, match=r"noise\.join"):
        jax.block_until_ready(alone.init(zeros))
    first = own_noise(key=key)
    workers = []
    for _ in range(2):
        noise = own_noise(key=key)
        noise.join(first.run)
        workers.append(private_aggregate(noise, batch_size=1, per_example=False))
    states = [worker.init(zeros) for worker in workers]
    shown = [w.update(zeros, state) for w, state in zip(workers, states, strict=True)]
    assert near(shown[0][0], shown[1][0])
    with pytest.raises(Exception, match="has its noise already"):
        jax.block_until_ready(workers[1].update(ones, states[1]))
    with pytest.raises(InvalidInputError, match="same identity="):
        resume(shown[0][1])
    later = resume(shown[0][1], "ab" * 16)
    with pytest.raises(InvalidInputError, match="another run of this process has this identity"):
        resume(shown[0][1], "ab" * 16)
    workers[0].update(ones, later)


def test_two_chains_have_noise_of_their_own() -> None:
    noise = own_noise()
    private_aggregate(noise, batch_size=1)
    with pytest.raises(InvalidInputError, match="another optimizer"):
        private_aggregate(noise, batch_size=1)


SHARDED = """
import sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from counton import ZCDP
from counton.noise import InsecureSeededKey
from counton.training.optax import private_aggregate
from counton.training.strategies import BufferedToeplitz
from counton.training import TrainingNoise

assert len(jax.devices()) == int(sys.argv[1])
mesh = Mesh(np.array(jax.devices()), ("d",))
place = NamedSharding(mesh, PartitionSpec("d"))
noise = TrainingNoise(
    BufferedToeplitz.fit(4), key=InsecureSeededKey(1), name="run", guarantee=ZCDP(1)
)
chain = private_aggregate(noise, batch_size=1, per_example=False)
zeros = {"w": jax.device_put(jnp.zeros((8, 5)), place)}
state = chain.init(zeros)
update = jax.jit(chain.update)
for _ in range(3):
    found, state = update(zeros, state)
import hashlib
print(hashlib.sha256(np.asarray(found["w"]).tobytes()).hexdigest())
"""


def test_any_number_of_devices_gives_the_same_bits() -> None:
    digests = set()
    for devices in (1, 2, 4):
        flags = f"--xla_force_host_platform_device_count={devices}"
        done = run_program(
            [sys.executable, "-W", "ignore", "-c", SHARDED, str(devices)],
            env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        )
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout.strip().splitlines()[-1])
    assert len(digests) == 1


def test_a_program_that_reads_no_result_ends() -> None:
    """Updates that JAX has queued draw their noise before the interpreter goes down."""
    program = """
import time
import jax, jax.numpy as jnp
from counton import ZCDP, ApproxDP, Key
from counton.training.optax import private_aggregate
from counton.training.strategies import OctaveTraining
from counton.training import TrainingNoise

def slow(*given, fresh=TrainingNoise.fresh_of):
    time.sleep(0.05)
    return fresh(*given)

def main(compiled):
    noise = TrainingNoise(
        OctaveTraining.fit(12), key=Key.generate(), name="run", guarantee=ZCDP(1), clip=1.0
    )
    chain = private_aggregate(noise, batch_size=1, per_example=False)
    # a computation that is not trivial is queued, and with it what takes its result
    square, wide = jax.jit(lambda w, wide: w + 0 * (wide @ wide).sum()), jnp.ones((700, 700))
    w = jnp.zeros(3)
    state, update = chain.init(w), jax.jit(chain.update) if compiled else chain.update
    for _ in range(6):
        w, state = update(square(w, wide), state)
    print("queued")

TrainingNoise.fresh_of = slow
main(False)
main(True)
"""
    done = run_program([sys.executable, "-W", "ignore", "-c", program])
    assert (done.returncode, done.stdout) == (0, "queued\nqueued\n"), done.stderr


def places_run(key: Key, strategy: Any = None) -> TrainingNoise:
    """Noise with secret places, as every process of a run makes it."""
    sampler = SecretPlaces(60, 4, 3, key=key, name="run")
    correlated = BufferedToeplitz(12, (0.4,), (0.1,), sampler.schedule)
    return TrainingNoise(
        strategy or correlated, key=key, name="run", guarantee=ApproxDP(1, 1e-5), sampler=sampler
    )


def take_steps(noise: TrainingNoise, state: Any, steps: range, taken: dict[int, list[int]]) -> Any:
    """Take the steps of the sampler's batches, and note the steps of each example."""
    assert noise.sampler is not None
    chain = private_aggregate(noise, batch_size=15)
    if state is None:
        state = chain.init({"w": jnp.zeros(3)})
    for step in steps:
        batch = noise.sampler.batch(step)
        for example in batch.tolist():
            taken.setdefault(example, []).append(step)
        rows = np.zeros((60, 3), np.float32)  # of one size, so that JAX compiles once
        rows[: len(batch)] = 1
        _, state = chain.update({"w": jnp.asarray(rows)}, state)
    return jax.block_until_ready(state)


def forget_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a process remembers of runs, as a new process does."""
    monkeypatch.setattr("counton.training.optax._digests_by_session", {})
    monkeypatch.setattr("counton.noise.guard_file._identities", {})


def test_secret_places_are_those_of_the_state_in_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = Key.generate()
    taken: dict[int, list[int]] = {}
    state = take_steps(places_run(key), None, range(1, 7), taken)
    for _ in range(2):  # two continuations of one checkpoint have the same places
        forget_process(monkeypatch)
        again = places_run(key)
        own = resume(state, noise=again)
        later = {example: list(steps) for example, steps in taken.items()}
        take_steps(again, own, range(7, 13), later)
        assert sorted(later) == list(range(60))
        for steps in later.values():
            assert np.diff(steps).tolist() == [4, 4]


def test_state_with_other_secret_places_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Key.generate()
    state = take_steps(places_run(key), None, range(1, 7), {})
    forget_process(monkeypatch)
    with pytest.raises(Exception, match=r"other secret places.*\.resume\(state, noise=noise\)"):
        take_steps(places_run(key), resume(state), range(7, 13), {})
    forget_process(monkeypatch)
    late = places_run(key)
    assert late.sampler is not None
    late.sampler.batch(7)
    with pytest.raises(InvalidInputError, match="before the first batch"):
        resume(state, noise=late)


def test_other_places_would_let_an_example_count_in_two_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the check of places, which is a wrong implementation."""
    key = Key.generate()
    taken: dict[int, list[int]] = {}
    state = take_steps(places_run(key), None, range(1, 7), taken)
    forget_process(monkeypatch)
    places_of = optax_noise._places_of
    monkeypatch.setattr(optax_noise, "_places_of", lambda _: told(state.run)["places"])
    take_steps(places_run(key), resume(state), range(7, 13), taken)
    monkeypatch.setattr(optax_noise, "_places_of", places_of)
    assert any((np.diff(steps) != 4).any() for steps in taken.values())


def test_noise_of_secret_places_is_that_of_add() -> None:
    key = chosen_key()
    noise = places_run(key)
    chain = private_aggregate(noise, batch_size=1, per_example=False)
    state = chain.init({"w": jnp.zeros(3)})
    plain = places_run(key)
    for step in range(1, 13):
        found, state = chain.update({"w": jnp.zeros(3)}, state)
        assert np.allclose(found["w"], plain.add(step, {"w": np.zeros(3)})["w"], atol=1e-5)


def test_batches_of_secret_places_may_be_filled_with_zeros() -> None:
    noise = places_run(Key.generate())
    assert noise.sampler is not None
    chain = private_aggregate(noise, batch_size=15)
    state = chain.init({"w": jnp.zeros(3)})
    update = jax.jit(chain.update)
    for step in range(1, 13):
        rows = np.zeros((40, 3), np.float32)
        rows[: len(noise.sampler.batch(step))] = 1
        _, state = update({"w": jnp.asarray(rows)}, state)
    assert int(state.step) == 12
    chain = private_aggregate(places_run(Key.generate()), batch_size=15)
    state = chain.init({"w": jnp.zeros(3)})
    with pytest.raises(Exception, match="but the sampler's batch has"):
        jax.block_until_ready(chain.update({"w": jnp.ones((60, 3))}, state))


def test_a_state_with_places_keeps_its_shape_and_its_places() -> None:
    key = Key.generate()
    noise = places_run(key)
    chain = private_aggregate(noise, batch_size=15)
    state = chain.init({"w": jnp.zeros(3)})
    places = told(state.run)["places"]
    assert noise.sampler is not None
    assert places == noise.sampler.identity
    for step in range(253):
        state = resume(state._replace(step=jnp.asarray(step, jnp.int32)))
    assert told(state.run)["places"] == places
    assert len(told(state.run)["sessions"]) == 253
    with pytest.raises(InvalidInputError, match="another run under another name"):
        resume(state._replace(step=jnp.asarray(300, jnp.int32)))


def test_several_processes_take_the_places_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    key = Key.generate()
    first = places_run(key)
    workers = []
    for _ in range(2):
        worker = places_run(key)
        worker.join(first.run)
        workers.append(worker)
    states = [private_aggregate(worker, batch_size=15).init({"w": 0.0 * jnp.ones(3)})
              for worker in workers]  # fmt: skip
    assert len({told(state.run)["places"] for state in states}) == 1
    assert first.sampler is not None
    for worker in workers:
        assert worker.sampler is not None
        assert all(map(np.array_equal, worker.sampler, first.sampler))

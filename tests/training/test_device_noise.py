"""Noise that PyTorch or JAX draws on the device of the gradients, here the CPU."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from keys import chosen_key
from numpy.typing import NDArray
from scipy import stats

from counton import ZCDP, Key
from counton.base.errors import InvalidInputError, StateError
from counton.training import TrainingNoise, device, plan
from counton.training.device import DeviceField
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BandedOptimum,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    Tap,
    TrainingStrategy,
)

pytestmark = pytest.mark.filterwarnings("ignore")
torch = pytest.importorskip("torch", reason="torch is not installed: make test-training")
jax = pytest.importorskip("jax", reason="jax is not installed: make test-training")
pytest.importorskip("optax", reason="optax is not installed: make test-training")

from counton.training.optax import _from_numbers as told  # noqa: E402 - after the skip
from counton.training.optax import private_aggregate, resume  # noqa: E402

jnp = jax.numpy
Floats = NDArray[np.float64]

STRATEGIES = [
    BufferedToeplitz.fit(6, 2, scaling="equal"), Echo.fit(6, 2, scaling="free"),
    OctaveTraining.fit(6, 2), BandedInverseSquareRoot(6, 3), BandedOptimum.fit(6, 2),
]  # fmt: skip
MANY = 100_000


def noise_of(strategy: TrainingStrategy, key: Key | None = None, **more: Any) -> TrainingNoise:
    terms: dict[str, Any] = {"name": "run", "guarantee": ZCDP("1/2"), "where": "device"} | more
    return TrainingNoise(strategy, key=key or chosen_key(), **terms)


def by_torch(noise: TrainingNoise, size: int, steps: range = range(1, 7)) -> Floats:
    zeros = {"w": torch.zeros(size)}
    return np.array([noise.add(step, zeros)["w"].numpy() for step in steps], float)


def by_jax(noise: TrainingNoise, size: int) -> Floats:
    zeros = {"w": jnp.zeros(size)}
    transformation = private_aggregate(noise, batch_size=1, per_example=False)
    state = transformation.init(zeros)
    update = jax.jit(transformation.update)
    made = []
    for _ in range(6):
        found, state = update(zeros, state)
        made.append(np.asarray(found["w"], float))
    return np.array(made)


def nodes_of_torch(noise: TrainingNoise, nodes: list[tuple[int, int]], size: int) -> Iterator[Any]:
    field = DeviceField(noise.subkey("w", size, "0" * 32), size)
    for level, index in nodes:
        yield field.normals(Tap(level, index, 1.0), 0, size, torch.device("cpu")).numpy()


def nodes_of_jax(noise: TrainingNoise, nodes: list[tuple[int, int]], size: int) -> Iterator[Any]:
    words = np.frombuffer(noise.subkey("w", size, "")[:8], "<u4")
    run = jax.random.wrap_key_data(jnp.asarray(words))
    for _ in range(4):  # the identity of a chosen key: four words of 0
        run = jax.random.fold_in(run, 0)
    for level, index in nodes:
        key = jax.random.fold_in(jax.random.fold_in(run, level), index)
        yield np.asarray(jax.random.normal(key, (size,)))


DOORS: list[Any] = [(by_torch, nodes_of_torch), (by_jax, nodes_of_jax)]


@pytest.mark.parametrize(("made_by", "nodes_of"), DOORS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_noise_is_the_matrix_times_the_normals(
    strategy: TrainingStrategy, made_by: Callable[..., Floats], nodes_of: Callable[..., Any]
) -> None:
    """Normals of earlier steps are drawn again: the noise of all steps is std K z."""
    noise = noise_of(strategy)
    made = made_by(noise, 9)
    matrix, nodes = strategy.increments()
    normals = np.array(list(nodes_of(noise, nodes, 9)))
    assert np.allclose(made, noise.std * matrix @ normals, rtol=0, atol=2e-5 * noise.std)
    assert not np.allclose(made, noise.std * matrix @ normals[::-1], rtol=0, atol=0.1)


def off(made: Floats, claimed: Floats) -> float:
    """The largest distance of the covariance of rows from the claimed one, in its deviations."""
    many = made.shape[1]
    spread = np.sqrt((np.outer(claimed.diagonal(), claimed.diagonal()) + claimed**2) / many)
    return float((np.abs(made @ made.T / many - claimed) / spread).max())


@pytest.mark.parametrize("made_by", [by_torch, by_jax])
@pytest.mark.parametrize("strategy", STRATEGIES[:3])
def test_outputs_have_the_joint_covariance_that_is_claimed(
    strategy: TrainingStrategy, made_by: Callable[..., Floats]
) -> None:
    noise = noise_of(strategy)
    made = made_by(noise, MANY)
    matrix, _ = strategy.increments()
    claimed = matrix @ matrix.T * noise.std**2
    assert off(made, claimed) < 4.5
    assert off(math.sqrt(1.03) * made, claimed) > 4.5  # a variance 3% off
    again = made.copy()
    again[-1] = made_by(noise_of(strategy, name="other"), MANY)[-1]  # earlier normals drawn anew
    assert off(again, claimed) > 4.5


@pytest.mark.parametrize("nodes_of", [nodes_of_torch, nodes_of_jax])
def test_device_noise_is_normal(nodes_of: Callable[..., Any]) -> None:
    drawn = np.concatenate(list(nodes_of(noise_of(STRATEGIES[0]), [(0, 1), (3, 2)], 5 * MANY)))
    edges = stats.norm.ppf(np.linspace(0, 1, 101))

    def chance(values: Floats) -> float:
        return float(stats.chisquare(np.histogram(values, edges)[0]).pvalue)

    assert chance(drawn) > 1e-6
    assert chance(math.sqrt(1.03) * drawn) < 1e-20
    assert abs(np.corrcoef(drawn[: 5 * MANY], drawn[5 * MANY :])[0, 1]) < 5 / math.sqrt(5 * MANY)


@pytest.mark.parametrize("made_by", [by_torch, by_jax])
def test_keys_names_and_budgets_have_noise_of_their_own(made_by: Callable[..., Floats]) -> None:
    strategy = STRATEGIES[1]
    size = 9999
    first = made_by(noise_of(strategy), size)[0]
    assert (made_by(noise_of(strategy), size)[0] == first).all()
    others = [
        noise_of(strategy, chosen_key(bytes(32))), noise_of(strategy, Key.generate()),
        noise_of(strategy, name="other"), noise_of(strategy, guarantee=ZCDP(2)),
        noise_of(strategy, clip=2), noise_of(STRATEGIES[0]),
    ]  # fmt: skip
    for other in others:
        assert abs(np.corrcoef(first, made_by(other, size)[0])[0, 1]) < 5 / math.sqrt(size)
    assert abs(np.corrcoef(first, made_by(noise_of(strategy), size + 1)[0, :-1])[0, 1]) < 0.05


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("shards", [2, 3])
def test_shards_have_the_bits_of_the_whole(
    strategy: TrainingStrategy, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_COORDINATES_PER_GENERATOR", 1000)
    size = 2501
    whole = by_torch(noise_of(strategy), size)
    ends = [size * number // shards for number in range(shards + 1)]
    parts = [noise_of(strategy) for _ in range(shards)]
    for step in range(1, 7):
        got = [
            part.add(step, {"w": torch.zeros(b - a)}, shards={"w": (a, size)})["w"]
            for part, (a, b) in zip(parts, pairwise(ends), strict=True)
        ]
        assert (torch.cat(got).numpy() == whole[step - 1]).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_restart_draws_the_same_normals_again(strategy: TrainingStrategy) -> None:
    first = noise_of(strategy)
    by_torch(first, 50, range(1, 4))
    state = first.state_dict()
    wanted = by_torch(first, 50, range(4, 7))
    loaded = noise_of(strategy)
    resumed = noise_of(strategy)
    loaded.load_state_dict(state)
    resumed.resume(4, first.run)
    for again in (loaded, resumed):
        assert (by_torch(again, 50, range(4, 7)) == wanted).all()


def test_under_an_own_key_only_earlier_normals_are_drawn_again() -> None:
    """Echo's third step of two epochs repeats a normal of the first; its own is new."""
    strategy = Echo.fit(4, 2)
    key = Key.generate()
    first = noise_of(strategy, key)
    before = by_torch(first, MANY, range(1, 3))
    ends = []
    for _ in range(2):
        again = TrainingNoise.of_run(first.run, key=key)
        again.resume(3, first.run)
        assert again.run["sessions"][0] == first.run["sessions"][0]
        ends.append(by_torch(again, MANY, range(3, 4))[0])
    rows, _ = strategy.increments()
    claimed = rows @ rows.T * first.std**2
    assert all(off(np.array([*before, end]), claimed[:3, :3]) < 4.5 for end in ends)
    assert not np.allclose(*ends)


@pytest.mark.parametrize("strategy", STRATEGIES[:3])
def test_resumed_jax_state_keeps_noise_distribution(strategy: TrainingStrategy) -> None:
    noise = noise_of(strategy, Key.generate())
    zeros = {"w": jnp.zeros(MANY)}
    transformation = private_aggregate(noise, batch_size=1, per_example=False)
    state = transformation.init(zeros)
    made = []
    for step in range(1, 7):
        if step in (3, 5):
            state = resume(state)
        found, state = transformation.update(zeros, state)
        made.append(np.asarray(found["w"], float))
    assert [first for first, _ in told(state.run)["sessions"]] == [1, 3, 5]
    rows, _ = strategy.increments()
    assert off(np.array(made), rows @ rows.T * noise.std**2) < 4.5


def test_nothing_as_long_as_a_parameter_crosses_to_the_host() -> None:
    """One callback checks a step: its number, its run and a digest; normals are drawn inside."""
    zeros = {"w": jnp.zeros(9999)}
    crossed = {}
    for where in ("host", "device"):
        noise = noise_of(STRATEGIES[1], where=where)
        transformation = private_aggregate(noise, batch_size=1, per_example=False)
        program = jax.make_jaxpr(transformation.update)(zeros, transformation.init(zeros))
        calls = [eqn for eqn in program.eqns if "callback" in str(eqn.primitive)]
        ends = [[*eqn.invars, *eqn.outvars] for eqn in calls]
        crossed[where] = len(calls), max(each.aval.size for own in ends for each in own)
    assert crossed == {"host": (2, 9999), "device": (1, 256 * 5)}


def test_a_compiled_program_does_not_show_the_key() -> None:
    """Whoever reads a dump of the program could draw the noise, and take it off."""
    noise = noise_of(STRATEGIES[1])
    zeros = {"w": jnp.zeros(9)}
    transformation = private_aggregate(noise, batch_size=1, per_example=False)
    program = jax.jit(transformation.update).lower(zeros, transformation.init(zeros))
    words = np.frombuffer(noise.subkey("w", 9, "")[:8], "<u4")
    for text in (program.as_text(), program.compile().as_text()):
        assert not any(str(word) in text for word in words)


def test_cpu_generator_uses_more_than_32_bits_of_seed() -> None:
    generator = DeviceField(bytes(32), 5)._generator("0/1/0", torch.device("cpu"))
    seeded = torch.Generator().manual_seed(generator.initial_seed())
    assert not torch.equal(torch.randn(5, generator=generator), torch.randn(5, generator=seeded))


def test_unrepeatable_device_generator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Key.generate()
    strategy = STRATEGIES[1]
    with pytest.raises(InvalidInputError, match="give 'host' or 'device'"):
        noise_of(strategy, where="gpu")
    noise = noise_of(strategy, key)
    for given in (np.zeros(3), jnp.zeros(3)):
        with pytest.raises(InvalidInputError, match="tensors of PyTorch alone"):
            noise.add(1, {"w": given})
    with pytest.raises(InvalidInputError, match="tensors of PyTorch alone"):
        noise.read(1, "w", 3)
    noise.add(1, {"w": torch.zeros(3)})
    assert "not cryptographic" in noise.guarantee_text
    assert noise.run["terms"]["device"] == f"torch {torch.__version__}, cpu"
    here = f"torch {torch.__version__}, cpu"
    host = noise_of(strategy, key, where="host")
    with pytest.raises(StateError, match=rf"its device is {re.escape(here)}, but here .* the host"):
        host.resume(2, noise.run)
    with pytest.raises(StateError, match="its device is the host, but here it is not known"):
        noise_of(strategy, key).resume(2, host.run)
    again = noise_of(strategy, key)
    again.bind("torch 1.0, cpu")
    with pytest.raises(StateError, match="its device is"):
        again.resume(2, noise.run)
    again = TrainingNoise.of_run(noise.run, key=key)
    again.resume(2, noise.run)
    monkeypatch.setattr(torch, "__version__", "99")
    with pytest.raises(StateError, match="cannot draw them again"):
        again.add(2, {"w": torch.zeros(3)})
    monkeypatch.undo()
    again.add(2, {"w": torch.zeros(3)})


def test_a_run_states_its_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that does not could be continued, or joined, where other noise is drawn."""
    key = Key.generate()
    zeros = {"w": torch.zeros(3)}
    noise = noise_of(STRATEGIES[1], key)
    before = noise.fingerprint
    with pytest.raises(StateError, match="cannot say yet which generator"):
        noise.state_dict()
    noise.bind(device.generator_of(zeros["w"]))
    assert noise.fingerprint != before
    unbound = noise.run | {"terms": noise.run["terms"] | {"device": None}}  # of an older version
    monkeypatch.setattr(torch, "__version__", "99")
    bound = noise_of(STRATEGIES[1], key)
    bound.bind(device.generator_of(zeros["w"]))
    for other in (bound, noise_of(STRATEGIES[1], key)):
        with pytest.raises(StateError, match="its device is None"):
            other.join(unbound)
        with pytest.raises(StateError, match="its device is None"):
            other.resume(3, unbound)
    with pytest.raises(StateError, match="its device is"):
        bound.join(noise.run)
    joined = noise_of(STRATEGIES[1], key)
    joined.join(noise.run)
    with pytest.raises(StateError, match="cannot draw them again"):
        joined.add(1, zeros)
    monkeypatch.undo()
    assert torch.equal(joined.add(1, zeros)["w"], noise.add(1, zeros)["w"])


def test_refused_gradients_bind_no_generator() -> None:
    key = Key.generate()
    noise = noise_of(STRATEGIES[1], key)
    other = noise_of(STRATEGIES[1], key, name="other")
    other.bind("torch 1.0, cpu")
    with pytest.raises(StateError, match="its name is"):
        noise.resume(2, other.run)
    with pytest.raises(InvalidInputError, match="tensors of PyTorch alone"):
        noise.add(1, {"a": torch.zeros(3), "b": np.zeros(3)})
    with pytest.raises(StateError, match="but here torch 2 draws"):
        noise.bind("torch 1", "torch 2")
    noise.bind("torch 3")
    assert noise.run["terms"]["device"] == "torch 3"


def test_a_state_of_jax_is_that_of_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    key = Key.generate()
    zeros = {"w": jnp.zeros(3)}
    begun = private_aggregate(noise_of(STRATEGIES[1], key), batch_size=1, per_example=False)
    _, state = begun.update(zeros, begun.init(zeros))
    monkeypatch.setattr(jax, "__version__", "99")
    other = private_aggregate(noise_of(STRATEGIES[1], key), batch_size=1, per_example=False)
    with pytest.raises(Exception, match="to other settings"):
        jax.block_until_ready(other.update(zeros, resume(state)))


def test_planned_noise_is_drawn_on_stated_device() -> None:
    best = plan(steps=8, epochs=2, dimension=6).best
    noise = best.noise(key=Key.generate(), name="run", where="device")
    found = noise.add(1, {"w": torch.zeros(2, 3, dtype=torch.bfloat16)})["w"]
    assert found.shape == (2, 3)
    assert found.dtype == torch.bfloat16

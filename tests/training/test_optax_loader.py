"""Loader of JAX: each example is in the batches of its steps, once; skipped without optax."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from counton import ZCDP, ApproxDP, Key
from counton.base.errors import InvalidInputError, StateError
from counton.training import (
    FixedEpochs,
    GivenBatches,
    PoissonBatches,
    Sampler,
    SecretPlaces,
    TrainingNoise,
)
from counton.training.strategies import BandedInverseSquareRoot, BufferedToeplitz

pytestmark = pytest.mark.filterwarnings("ignore")
optax = pytest.importorskip("optax", reason="optax is not installed: make test-training")
jax = pytest.importorskip("jax", reason="jax is not installed: make test-training")

from counton.training.optax import loader, private_aggregate, resume  # noqa: E402 - after the skip

jnp = jax.numpy

EXAMPLES = 24


def samplers(key: Key) -> dict[str, Sampler]:
    return {
        "fixed": FixedEpochs(EXAMPLES, 4, 2),
        "chance": PoissonBatches(EXAMPLES, 0.05, 12, key=key, name="run"),
        "places": SecretPlaces(EXAMPLES, 6, 2, key=key, name="run"),
        "given": GivenBatches([[0, 1], [], [2, 3], [4]]),
    }


def noise_of(name: str, key: Key) -> TrainingNoise:
    sampler = samplers(key)[name]
    strategy: Any = BufferedToeplitz(sampler.steps, (0.4,), (0.1,), sampler.schedule)
    if sampler.for_independent_noise:
        strategy = BandedInverseSquareRoot(sampler.steps, 1, sampler.schedule)
    guarantee = ZCDP(1) if sampler.chance is None else ApproxDP(1, 1e-5)
    return TrainingNoise(strategy, key=key, name="run", guarantee=guarantee, sampler=sampler)


def numbered() -> dict[str, Any]:
    """A dataset whose examples show their position; no value is 0."""
    return {
        "inputs": np.arange(1.0, 1 + 3 * EXAMPLES).reshape(EXAMPLES, 3),
        "positions": jnp.arange(EXAMPLES),
    }


def forget_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a process remembers of runs, as a new process does."""
    monkeypatch.setattr("counton.training.optax._digests_by_session", {})
    monkeypatch.setattr("counton.noise.guard_file._identities", {})


@pytest.mark.parametrize("name", samplers(Key.generate()))
def test_loader_gives_the_batches_of_the_sampler(name: str) -> None:
    """Empty batches too, in which no example counts."""
    noise = noise_of(name, Key.generate())
    sampler = noise.sampler
    assert sampler is not None
    batches = loader(noise, numbered())
    assert len(batches) == sampler.steps
    taken = []
    for batch in batches:
        assert batch["inputs"].shape == (len(batch["positions"]), 3)
        assert (batch["inputs"][:, 0] == 1 + 3 * np.asarray(batch["positions"])).all()
        taken.append(batch["positions"].tolist())
    assert taken == [batch.tolist() for batch in sampler]
    assert name not in ("chance", "given") or [] in taken


@pytest.mark.parametrize("name", ["chance", "given"])
def test_filled_batches_have_few_shapes_and_zeros_beyond_the_examples(name: str) -> None:
    noise = noise_of(name, Key.generate())
    assert noise.sampler is not None
    filled = list(loader(noise, numbered(), rows=8))
    assert len(filled) == noise.sampler.steps
    for step, (arrays, present) in enumerate(filled, 1):
        batch = {name: np.asarray(array) for name, array in arrays.items()}
        examples = noise.sampler.batch(step)
        size = len(examples)
        assert len(present) == max(-(-size // 8), 1) * 8
        assert present.tolist() == [1.0] * size + [0.0] * (len(present) - size)
        assert batch["positions"][:size].tolist() == examples.tolist()
        assert not batch["inputs"][size:].any()
        assert not batch["positions"][size:].any()
        assert batch["inputs"].shape == (len(present), 3)


def test_one_program_trains_on_filled_batches_and_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = Key.generate()
    data = numbered()["inputs"]
    n_compiled = 0

    def gradient(weights: Any, row: Any, weight: Any) -> Any:
        nonlocal n_compiled
        n_compiled += 1
        return jax.grad(lambda w: weight * ((w["w"] * row).sum() - 1) ** 2)(weights)

    per_example = jax.jit(jax.vmap(gradient, in_axes=(None, 0, 0)))
    steps: Counter[int] = Counter()
    parameters = {"w": jnp.ones(3)}
    noise = noise_of("places", key)
    chain = optax.chain(private_aggregate(noise, batch_size=4), optax.sgd(0.1))
    state = chain.init(parameters)
    update = jax.jit(chain.update)
    for taken, (inputs, present) in enumerate(loader(noise, data, rows=EXAMPLES)):
        if taken == 5:
            break
        _, state = update(per_example(parameters, inputs, present), state)
        steps.update(np.flatnonzero(np.isin(data[:, 0], inputs[:, 0])).tolist())
    state = jax.block_until_ready(state)
    assert n_compiled == 1

    forget_process(monkeypatch)
    again = noise_of("places", key)
    with pytest.raises(StateError, match="resume"):
        loader(again, data, state=state)
    state = resume(state, noise=again)
    chain = optax.chain(private_aggregate(again, batch_size=4), optax.sgd(0.1))
    update = jax.jit(chain.update)
    left = loader(again, data, state=state, rows=EXAMPLES)
    assert len(left) == 7
    for inputs, present in left:
        _, state = update(per_example(parameters, inputs, present), state)
        steps.update(np.flatnonzero(np.isin(data[:, 0], inputs[:, 0])).tolist())
    jax.block_until_ready(state)
    assert dict(steps) == dict.fromkeys(range(EXAMPLES), 2)
    assert len(loader(again, data, state=state)) == 0


def test_rows_that_are_not_weighted_are_refused() -> None:
    """Filled rows would count as examples."""
    noise = noise_of("places", Key.generate())
    chain = private_aggregate(noise, batch_size=4)
    state = chain.init({"w": jnp.zeros(3)})
    _, present = next(iter(loader(noise, numbered(), rows=EXAMPLES)))
    with pytest.raises(Exception, match="but the sampler's batch has"):
        jax.block_until_ready(chain.update({"w": jnp.ones((len(present), 3))}, state))


@pytest.mark.parametrize("examples", [23, 25])
def test_dataset_of_another_size_is_refused(examples: int) -> None:
    noise = noise_of("fixed", Key.generate())
    pair = np.zeros((EXAMPLES, 3)), np.zeros(examples)
    with pytest.raises(InvalidInputError, match=f"has {examples} examples, but the sampler 24"):
        loader(noise, pair)


def test_what_is_no_array_is_refused() -> None:
    noise = noise_of("fixed", Key.generate())
    for dataset in ([], [1.0] * EXAMPLES, np.float32(1)):
        with pytest.raises(InvalidInputError, match="must be an array whose first axis"):
            loader(noise, dataset)


def test_loader_refuses_missing_sampler_wrong_rows_and_other_states() -> None:
    noise = noise_of("fixed", Key.generate())
    data = numbered()
    with pytest.raises(InvalidInputError, match="rows"):
        loader(noise, data, rows=0)
    with pytest.raises(InvalidInputError, match="0 states of private_aggregate"):
        loader(noise, data, state=optax.sgd(0.1).init({"w": jnp.zeros(3)}))
    other = noise_of("given", Key.generate())
    state = private_aggregate(other, batch_size=4).init({"w": jnp.zeros(3)})
    with pytest.raises(StateError, match="another run"):
        loader(noise, data, state=state)
    plain = TrainingNoise(
        BufferedToeplitz.fit(4), key=Key.generate(), name="run", guarantee=ZCDP(1)
    )
    with pytest.raises(InvalidInputError, match="needs a sampler"):
        loader(plain, data)

"""Noise of training drawn on the device, against the libraries' own: a table, no bars.

    python -m benchmarks.device_noise [MILLIONS]

It draws MILLIONS * 10^6 normals at a time (default 1,000 on a GPU, where it takes three minutes,
and 1 on a CPU), noise of 1 to 64 terms, and steps of BLT. ``make training-ready`` makes an
environment with PyTorch and JAX.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax_privacy import noise_addition
from jax_privacy.matrix_factorization import buffered_toeplitz

from counton import ZCDP, Key
from counton.training import TrainingNoise
from counton.training.optax import private_aggregate
from counton.training.strategies import BandedInverseSquareRoot, BufferedToeplitz, TrainingStrategy

STEPS = 1024


def shortest(work: Callable[[], object], wait: Callable[[], object] = lambda: None) -> float:
    """Return the milliseconds of the fastest of up to ten calls, after one that compiles.

    It is time by the clock with a GPU, and else CPU time.
    """
    clock = time.perf_counter if torch.cuda.is_available() else time.process_time
    took = []
    for _ in range(11):
        wait()
        began = clock()
        work()
        wait()
        took.append(1e3 * (clock() - began))
        if sum(took) > 10_000:
            break
    return min(took[1:] or took)


def noise_of(strategy: TrainingStrategy, where: str) -> TrainingNoise:
    """Return noise under a key of its own, so that nothing can be repeated."""
    return TrainingNoise(strategy, key=Key.generate(), name="bench", guarantee=ZCDP(1), where=where)


def first_step(strategy: TrainingStrategy) -> int:
    """Return the number of steps before those that are timed: early ones have fewer terms."""
    return 0 if strategy.buffers else 64


def by_torch(strategy: TrainingStrategy, where: str, zeros: Any) -> float:
    """Return the time in which PyTorch's gradients get the noise of a step."""
    noise = noise_of(strategy, where)
    place = {"step": first_step(strategy)}

    def step() -> None:
        place["step"] += 1
        noise.add(place["step"], {"w": zeros})

    return shortest(step, torch.cuda.synchronize if zeros.is_cuda else lambda: None)


def by_jax(strategy: TrainingStrategy, zeros: Any) -> float:
    """Return the time in which JAX's gradients get the noise of a step, inside ``jit``."""
    own = private_aggregate(noise_of(strategy, "device"), batch_size=1, per_example=False)
    return stepped(own.init({"w": zeros}), jax.jit(own.update), zeros, first_step(strategy))


def stepped(state: Any, update: Any, zeros: Any, before: int = 0) -> float:
    """Return the time of a step of a transformation, whose states follow each other, after the
    steps ``before``.
    """
    held = [state]

    def step() -> None:
        found, held[0] = update({"w": zeros}, held[0])
        jax.block_until_ready(found)

    for _ in range(before):
        step()
    return shortest(step)


def main() -> None:
    """Print the table."""
    cuda = torch.cuda.is_available()
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else (1000 if cuda else 1)
    size = millions * 10**6
    device = torch.device("cuda" if cuda else "cpu")
    blt = BufferedToeplitz.fit(STEPS, buffers=2)
    cases: dict[str, TrainingStrategy] = {
        "BLT-2": blt,
        "BLT-3": BufferedToeplitz.fit(STEPS, buffers=3),
        **{f"normals: {terms}": BandedInverseSquareRoot(STEPS, terms) for terms in (1, 4, 12, 64)},
    }
    name = torch.cuda.get_device_name() if cuda else "CPU"
    print(f"{millions:,} million coordinates; torch {torch.__version__} on {name}, one thread on a")
    print(f"CPU; jax {jax.__version__} on {jax.devices()[0].device_kind}; milliseconds a step")

    def row(what: str, took: float, own: float) -> None:
        print(f"{what:52} {took:10.2f} {took / own:7.2f} x", flush=True)

    torch.set_num_threads(1)
    zeros = torch.zeros(size, device=device)
    wait = torch.cuda.synchronize if cuda else lambda: None
    normal = shortest(lambda: torch.randn(size, device=device), wait)
    row("torch.randn", normal, normal)
    for what, strategy in cases.items():
        row(f"PyTorch, {what}, where='device'", by_torch(strategy, "device", zeros), normal)
        if size <= 10**8:
            row(f"PyTorch, {what}, where='host'", by_torch(strategy, "host", zeros), normal)
    del zeros
    torch.cuda.empty_cache()

    jax.config.update("jax_enable_x64", True)  # jax_privacy asks for it
    given = jnp.zeros(size, jnp.float32)
    key = jax.random.key(0)
    draw = jax.jit(lambda key: jax.random.normal(key, (size,), jnp.float32))
    own = shortest(lambda: jax.block_until_ready(draw(key)))
    row("jax.random.normal", own, own)
    for what, strategy in cases.items():
        row(f"JAX, {what}, where='device'", by_jax(strategy, given), own)
    theirs = buffered_toeplitz.BufferedToeplitz.build(
        buf_decay=list(blt.theta), output_scale=[0.3, 0.2]
    )
    privatizer = noise_addition.matrix_factorization_privatizer(
        theirs.inverse_as_streaming_matrix(), stddev=1.0, prng_key=key
    )
    state = privatizer.init({"w": given})
    row("jax_privacy, BLT-2", stepped(state, jax.jit(privatizer.update), given), own)


if __name__ == "__main__":
    main()

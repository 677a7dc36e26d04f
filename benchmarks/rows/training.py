"""Noise for training, against PyTorch's normals and jax_privacy's BLT.

Peers are installed with ``make test-training`` and ``pip install jax_privacy opake[dpftrl]``;
without one of them its rows are left out:
``PYTHONPATH=src .venv-training/bin/python -m benchmarks training``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.measure import fastest
from benchmarks.row import Row
from counton import ZCDP, Key
from counton.noise.normals import COORDINATES_PER_BLOCK, NormalField
from counton.training import TrainingNoise
from counton.training.strategies import BufferedToeplitz
from counton.training.strategies.buffered import fit_buffers

SIZE = 10**6
STEPS = 2**20


def measure() -> Iterator[Row]:
    """Measure noise for training; yield rows of the comparisons whose packages are installed."""
    if find_spec("torch"):
        yield normals()
    if find_spec("opake"):
        yield from steps_in_torch()
    if find_spec("jax_privacy"):
        import jax

        jax.config.update("jax_enable_x64", True)
        yield steps()
        yield from fits()


def normals() -> Row:
    """Measure standard normal numbers drawn from a key, against those of PyTorch's generator."""
    import torch

    torch.set_num_threads(1)
    field = NormalField(bytes(32), SIZE)
    space = np.empty(COORDINATES_PER_BLOCK, np.float32)
    theirs = torch.empty(SIZE)

    def draw() -> None:
        for block in field.blocks(0, SIZE):
            field.block(0, 1, block, space)

    own, other = fastest(draw, theirs.normal_)
    return Row("10^6 normals from AES", own / other, 1.6, note="torch.normal_, one thread")


def own_steps(strategy: BufferedToeplitz, zeros: Any, where: str = "host") -> Callable[[], None]:
    """Return a function that adds to zeros the noise of a next step, of a BLT."""
    run = BufferedToeplitz(STEPS, strategy.theta, strategy.thetahat)
    noise = TrainingNoise(run, key=Key.generate(), name="b", guarantee=ZCDP(0.5), where=where)
    numbers = itertools.count(1)
    return lambda: noise.add(next(numbers), {"w": zeros})


def steps() -> Row:
    """Measure a training step of BLT noise, against jax_privacy."""
    import jax
    import jax.numpy as jnp
    from jax_privacy import noise_addition
    from jax_privacy.matrix_factorization import buffered_toeplitz

    strategy = BufferedToeplitz.fit(1024, buffers=2)
    blt = buffered_toeplitz.BufferedToeplitz.build(
        buf_decay=list(strategy.theta), output_scale=[0.3, 0.2]
    )
    privatizer = noise_addition.matrix_factorization_privatizer(
        blt.inverse_as_streaming_matrix(), stddev=1.0, prng_key=jax.random.key(0)
    )
    given = {"w": jnp.zeros(SIZE, jnp.float32)}
    once = jax.jit(privatizer.update)
    held = [privatizer.init(given)]

    def theirs() -> None:
        found, held[0] = once(given, held[0])
        jax.block_until_ready(found)

    own, other = fastest(own_steps(strategy, np.zeros(SIZE, np.float32)), theirs)
    return Row("BLT-2 step of 10^6 coordinates", own / other, 0.35, note="jax_privacy")


def steps_in_torch() -> Iterator[Row]:
    """Measure a training step of BLT noise against opake, whose normals are PyTorch's; ours are
    drawn by AES, or by PyTorch too (``where="device"``).
    """
    import torch
    from opake.dpftrl.noise import blt_strategy, mf_gaussian_noise
    from opake.random import key
    from opake.types import ClippedPytree

    torch.set_num_threads(1)
    zeros = {"w": torch.zeros(SIZE)}
    noise, state = mf_gaussian_noise(
        zeros, blt_strategy(max_buffers=2), n_steps=1024, noise_multiplier=1.0, key=key(0)
    )
    held = [state]
    given = ClippedPytree(zeros, 1.0)

    def theirs() -> None:
        held[0] = noise(given, held[0])[1] if held[0]._step_counter < 1023 else state

    strategy = BufferedToeplitz.fit(1024, buffers=2)
    by_aes = own_steps(strategy, np.zeros(SIZE, np.float32))
    by_torch = own_steps(strategy, torch.zeros(SIZE), "device")
    first, second, other = fastest(by_aes, by_torch, theirs)
    name = "BLT-2 step of 10^6 coordinates"
    yield Row(f"{name}, by AES", first / other, 1.25, note="opake")
    yield Row(f"{name}, by PyTorch", second / other, 1.1, note="opake")


def fits() -> Iterator[Row]:
    """Measure the search for parameters of BLT noise: its time, and the error that it finds with
    three buffers.
    """
    from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz

    for steps, epochs in ((1024, 1), (2048, 16)):
        apart = steps // epochs
        found: list[Any] = [None, None]

        def ours(steps: int = steps, epochs: int = epochs, found: list[Any] = found) -> None:
            fit_buffers.cache_clear()
            found[0] = BufferedToeplitz.fit(steps, epochs, buffers=3)

        def theirs(
            steps: int = steps, epochs: int = epochs, apart: int = apart, found: list[Any] = found
        ) -> None:
            found[1] = buffered_toeplitz.optimize(
                n=steps,
                min_sep=apart,
                max_participations=epochs,
                error="mean",
                min_buffers=3,
                max_buffers=3,
            )

        own, other = fastest(ours, theirs, turns=2, seconds=1)
        name = f"fit of BLT, {steps} steps, {epochs} epochs"
        yield Row(f"{name}: time", own / other, 0.05, note="jax_privacy")
        coefficients = np.asarray(found[1].toeplitz_coefs(steps))
        inverse = np.asarray(toeplitz.inverse_coef(found[1].toeplitz_coefs(steps)))
        sums = np.cumsum(inverse) ** 2 @ np.arange(steps, 0, -1) / steps
        total = coefficients.copy()
        for lag in range(apart, steps, apart):
            total[lag:] += coefficients[:-lag]
        error = float(np.sqrt(sums * (total @ total)))
        yield Row(f"{name}: error", found[0].rmse / error, 1 + 1e-5, note="jax_privacy")

"""Training with JAX: noise as a gradient transformation of optax.

Normals come from the host (`jax.pure_callback`), each a function of key and address, so that they
are the same under ``jit``, in ``scan`` and on any number of devices. What a strategy keeps from
step to step is part of the optimiser's state.

JAX and optax are imported when `private_aggregate` is called: ``pip install 'counton[jax]'``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counton.errors import InvalidInput
from counton.lazy import require
from counton.training import trees

if TYPE_CHECKING:
    from counton.training import TrainingNoise

__all__ = ["NoiseState", "private_aggregate"]


class NoiseState(NamedTuple):
    """What `private_aggregate` keeps: the steps taken, and buffers by parameter.

    >>> NoiseState(step=0, buffers={}).step
    0
    """

    step: Any
    buffers: Any


def private_aggregate(noise: TrainingNoise, *, batch_size: float, per_example: bool = True) -> Any:
    """Clip, sum, add noise, divide: put it first into ``optax.chain``.

    Args:
        noise: of `counton.training`; its ``clip`` bounds the gradient of an example.
        batch_size: what sums are divided by, the expected size of a batch: a number that does not
            depend on the data.
        per_example: updates are gradients of single examples, in a first axis, as ``jax.vmap``
            gives them; else sums of gradients that are clipped already.

    Returns:
        An ``optax.GradientTransformation``. Its state counts the steps; a step beyond the run
        raises an error of JAX that says so.

    Raises:
        MissingExtra: optax is not installed.
        InvalidInput: a ``batch_size`` that is not above 0.

    Example::

        >>> transformation = optax.chain(                       # doctest: +SKIP
        ...     private_aggregate(noise, batch_size=64), optax.sgd(0.1)
        ... )
    """
    require("optax")
    import jax
    import jax.numpy as jnp
    import optax

    if not batch_size > 0:
        raise InvalidInput(
            f"batch_size is {batch_size}; it must be above 0: the expected examples of a step"
        )
    strategy = noise.strategy
    steps = range(1, strategy.steps + 1)
    scales = np.array([noise.std / strategy.divisor(step) for step in steps], np.float32)
    outputs = np.array(strategy.outputs, np.float32)
    decays = np.array(strategy.decays, np.float32)

    def init(parameters: Any) -> NoiseState:
        buffers = {
            name: jnp.zeros((strategy.buffers, *array.shape), jnp.float32)
            for name, array in trees.leaves(parameters)
        }
        return NoiseState(jnp.zeros((), jnp.int32), buffers)

    def update(updates: Any, state: NoiseState, parameters: Any = None) -> tuple[Any, NoiseState]:
        del parameters
        step = state.step + 1
        summed = _clipped_sum(updates, noise.clip) if per_example else updates
        buffers: dict[str, Any] = {}

        def noisy(name: str, array: Any) -> Any:
            def fresh(at: Any) -> Any:
                return noise.fresh(int(at), name, math.prod(array.shape)).reshape(array.shape)

            result = jax.ShapeDtypeStruct(array.shape, jnp.float32)
            drawn = jax.pure_callback(fresh, result, step, vmap_method="sequential")
            held = state.buffers[name]
            total = drawn + jnp.tensordot(jnp.asarray(outputs), held, axes=1)
            shape = (-1,) + (1,) * array.ndim
            buffers[name] = jnp.asarray(decays).reshape(shape) * held + drawn
            scaled = total * jnp.asarray(scales)[step - 1]
            return ((array + scaled.astype(array.dtype)) / batch_size).astype(array.dtype)

        found = trees.rebuilt(summed, noisy)
        return found, NoiseState(step, buffers)

    return optax.GradientTransformation(init, update)


def _clipped_sum(updates: Any, clip: float) -> Any:
    """Sum over the first axis of gradients clipped by their norm over all parameters."""
    import jax.numpy as jnp

    squares = [
        jnp.square(array.astype(jnp.float32)).reshape(len(array), -1).sum(1)
        for _, array in trees.leaves(updates)
    ]
    norms = jnp.sqrt(sum(squares))
    # an example whose gradient is not finite counts for nothing
    factors = jnp.where(jnp.isfinite(norms), clip / jnp.maximum(norms, clip), 0.0)

    def summed(name: str, array: Any) -> Any:
        finite = jnp.nan_to_num(array, nan=0.0, posinf=0.0, neginf=0.0)
        return jnp.tensordot(factors.astype(finite.dtype), finite, axes=1)

    return trees.rebuilt(updates, summed)

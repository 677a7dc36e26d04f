"""Normals that PyTorch or JAX draws on the device of the gradients: ``noise(..., where="device")``.

As in ``noise/normals.py`` a normal is a function of key, run, parameter and address (level, index,
coordinate). So normals of earlier steps are drawn again in place of being kept, and a restart and
another process draw the same ones.

*PyTorch*: each node (level, index) has generators of its own, one for every 2^22 coordinates, whose
seeds are digests of the parameter's subkey and the node. *JAX*: the subkey is a key of threefry,
into which the session's identity, the level and the index are folded, inside ``jit``.

What is not guaranteed. These generators (Philox, threefry; on a CPU the Mersenne twister) are not
cryptographic, and seeds and keys have 64 bits: who searches through them, or predicts the
generator, takes the noise off. Normals have 23 to 32 random bits and end at 5.4 (JAX), 5.8
(PyTorch on a CPU) or 6.7 standard deviations (CUDA), which no guarantee accounts for; those of the
host end at 9.5. Bits depend on library and device, so a run keeps to the ones that it began with.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from counton.training.strategies import Tap, TrainingStrategy

#: Coordinates that one generator of PyTorch draws.
_COORDINATES_PER_GENERATOR = 2**22
#: Words of the Mersenne twister's state, and the byte at which they begin in PyTorch's own state.
_TWISTER_WORDS = 624
_TWISTER_OFFSET = 24


class DeviceField:
    """An endless table of normals, as `NormalField`, which PyTorch draws on a device."""

    def __init__(self, subkey: bytes, size: int) -> None:
        self._subkey = subkey
        self.size = size

    def normals(self, tap: Tap, first: int, stop: int, device: object) -> Any:
        """Draw the normals of the node of ``tap``, for coordinates ``first`` to ``stop``."""
        import torch

        out = torch.empty(stop - first, device=device, dtype=torch.float32)
        for block in range(
            first // _COORDINATES_PER_GENERATOR, -(-stop // _COORDINATES_PER_GENERATOR)
        ):
            begin = block * _COORDINATES_PER_GENERATOR
            end = min((block + 1) * _COORDINATES_PER_GENERATOR, self.size)
            low = max(first, begin)
            high = min(stop, end)
            part = out[low - first : high - first]
            whole = part if high - low == end - begin else out.new_empty(end - begin)
            whole.normal_(generator=self._generator(f"{tap.level}/{tap.index}/{block}", device))
            if whole is not part:
                part.copy_(whole[low - begin : high - begin])
        return out

    def _generator(self, node: str, device: Any) -> Any:
        import torch

        twister = device.type == "cpu"  # it takes 32 bits of a seed; the whole state has more
        address = hashlib.shake_256(self._subkey + node.encode())
        drawn = address.digest(4 * _TWISTER_WORDS if twister else 8)
        generator = torch.Generator(device)
        generator.manual_seed(int.from_bytes(drawn[:8], "little"))
        if twister:
            state = generator.get_state()
            words = state.numpy()[_TWISTER_OFFSET : _TWISTER_OFFSET + 8 * _TWISTER_WORDS].view(
                "<u8"
            )
            words[:] = np.frombuffer(drawn, "<u4")
            generator.set_state(state)
        return generator


def generator_of(tensor: Any) -> str:
    """Return what decides the bits of a tensor's normals: PyTorch's version, and the device."""
    import torch

    if tensor.device.type == "cuda":
        return f"torch {torch.__version__}, {torch.cuda.get_device_name(tensor.device)}"
    return f"torch {torch.__version__}, {tensor.device.type}"


def normals_inside(
    strategy: TrainingStrategy,
) -> Callable[[Any, tuple[int, ...], Any, Any], Any]:
    """Return a function that draws the weighted sum of a step's normals inside ``jit``.

    Arguments of the function are two words of a parameter's subkey, which are no constants, as a
    compiled program would show them; its shape, the step, and the run of a state (`NoiseState`).
    """
    import jax
    import jax.numpy as jnp

    taps = [strategy.taps(step) for step in range(1, strategy.steps + 1)]
    ends = np.cumsum([0, *map(len, taps)]).astype(np.int32)
    flat = [tap for taps_of_step in taps for tap in taps_of_step]
    nodes = np.array([(tap.level, tap.index) for tap in flat], np.uint32)
    firsts = np.array([strategy.first_step(tap.level, tap.index) for tap in flat], np.uint32)
    weights = np.array([tap.weight for tap in flat], np.float32)

    def sum_of_normals(words: Any, shape: tuple[int, ...], step: Any, run: Any) -> Any:
        base = jax.random.wrap_key_data(words, impl="threefry2x32")
        begun = run[2:, 0]  # the first step of each session; 0 where there is none

        def with_one(index: Any, total: Any) -> Any:
            session = jnp.argmax(jnp.where(begun <= jnp.asarray(firsts)[index], begun, 0))
            key = base
            for word in (*run[2 + session, 1:], *jnp.asarray(nodes)[index]):
                key = jax.random.fold_in(key, word)
            return total + jnp.asarray(weights)[index] * jax.random.normal(key, shape, jnp.float32)

        low = jnp.asarray(ends)[step - 1]
        high = jnp.asarray(ends)[step]
        return jax.lax.fori_loop(low, high, with_one, jnp.zeros(shape, jnp.float32))

    return sum_of_normals

"""Noise for gradients: a function of key, parameter, step and coordinate, not a state.

Each parameter has its own subkey, bound to the run's name, the strategy, the guarantee, the bound
on gradients and the parameter's name and size, so that another budget or model never meets the same
noise. Under it a normal stands at (level, index, coordinate), in blocks of 2^16 coordinates: shards
of a parameter, other orders and other machines compute the same bits.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counton.errors import InvalidInput, StateError
from counton.exact import Number, check_integer, exact
from counton.noise import Key
from counton.noise.key import check_key
from counton.noise.normals import BLOCK, NormalField, Singles
from counton.privacy import Guarantee
from counton.strategies.training.base import TrainingStrategy
from counton.training import trees
from counton.training.fitting import check_fit, multiplier

if TYPE_CHECKING:
    from counton.training.samplers import Sampler

FORMAT = 1
#: Noise is wider by this: weights and decays are rounded to float32 where they are used.
ROUNDING = 1e-4
#: Coordinates that go through the buffers at a time, so that they stay in the cache.
_PART = 2**14


class TrainingNoise:
    """What is added to the sum of a step's clipped gradients.

    Args:
        strategy: how the noise of different steps goes together.
        key: the secret; one key and name for one run on one data set.
        name: of the run.
        guarantee: what is promised, to one example for the whole run.
        clip: the largest 2-norm of one example's gradient, all parameters together.
        group: so many examples are protected together, such as all those of one person.
        sampler: what gives the batches; checked against the strategy.

    Raises:
        InvalidInput: an argument out of range, or a sampler that does not promise enough.

    >>> from counton import Key
    >>> from counton.training import plan
    >>> noise = plan(steps=8, dimension=3).best.noise(key=Key.generate(), name="doctest")
    >>> noise.add(1, {"weight": np.zeros((2, 1)), "bias": np.zeros(1)})["weight"].shape
    (2, 1)
    """

    def __init__(
        self,
        strategy: TrainingStrategy,
        *,
        key: Key,
        name: str,
        guarantee: Guarantee,
        clip: Number = 1,
        group: int = 1,
        sampler: Sampler | None = None,
    ) -> None:
        if not name:
            raise InvalidInput(f"name is {name!r}; it must be a text that names the run")
        bound = exact(clip, "clip")
        if bound <= 0:
            raise InvalidInput(f"clip is {clip}; it must be above 0: the largest gradient norm")
        if sampler is not None:
            check_fit(strategy, sampler)
        for decay in strategy.decays:
            used = float(np.float32(decay))
            if not used < 1 or abs(used - decay) > ROUNDING / 10 * (1 - decay):
                raise InvalidInput(
                    f"a buffer decays by {decay!r}, which float32 rounds to {used!r}: too far from "
                    f"it for the sensitivity that is claimed; use the fit of the strategy, whose "
                    f"zeros are float32 numbers"
                )
        self._key = check_key(key)
        self.strategy, self.name, self.guarantee = strategy, name, guarantee
        self.clip, self.group = float(bound), check_integer("group", group, 1)
        if sampler is not None and sampler.rate is not None and self.group > 1:
            raise InvalidInput(
                f"group is {group} and examples are sampled by chance, which is accounted for "
                f"single examples: leave group out, or sample otherwise"
            )
        sensitivity = math.sqrt(strategy.squared_sensitivity()) * self.clip * self.group
        #: Standard deviation of one fresh normal, before the step's divisor.
        self.std = sensitivity * multiplier(guarantee, strategy, sampler) * (1 + ROUNDING)
        self._terms = {
            "format": FORMAT,
            "name": name,
            "strategy": strategy.to_dict(),
            "guarantee": guarantee.to_dict(),
            "clip": repr(self.clip),
            "group": self.group,
            "sampled": None if sampler is None else sampler.rate,
        }
        self._parameters: dict[tuple[str, int, int], _Parameter] = {}
        self._resumed = 0

    def __repr__(self) -> str:
        return f"<noise of {self.name!r}: {self.strategy.name}, {self.guarantee}>"

    @property
    def promise(self) -> str:
        """What is promised, to whom, against which neighbours, under which batches: one sentence.

        >>> from counton import Key
        >>> from counton.training import plan
        >>> best = plan(steps=8, epochs=2, dimension=3).best
        >>> print(best.noise(key=Key.generate(), name="a").promise)
        zero-concentrated differential privacy with rho = 0.5 for all 8 steps together, for one
        example present or its place left empty, which counts in 2 steps at most, in the same place
        of each epoch, with a gradient of norm at most 1
        """
        times, apart, fixed = self.strategy.schedule
        unit = "one example" if self.group == 1 else f"any {self.group} examples"
        chance = self._terms["sampled"] is not None
        change = "more or less" if chance else "present or its place left empty"
        if chance:
            when = "which each step takes by chance and in secret"
        else:
            when = f"which counts in {times} step{'s' * (times > 1)} at most"
            if times > 1:
                order = "in the same place of each epoch" if fixed else f"{apart} or more apart"
                when = f"{when}, {order}"
        return (
            f"{self.guarantee} for all {self.strategy.steps} steps together, for {unit} {change}, "
            f"{when}, with a gradient of norm at most {self.clip:g}"
        )

    def add(
        self, step: int, gradients: Any, shards: Mapping[str, tuple[int, int]] | None = None
    ) -> Any:
        """The gradients of a step, summed over its batch, plus noise.

        Args:
            step: counts from 1. Strategies with buffers take steps in order, others in any.
            gradients: an array, or dicts, lists and tuples of arrays, of numpy, PyTorch or JAX.
                Names and shapes stay the same from step to step.
            shards: by name, where only consecutive coordinates of a parameter are given: the
                number of the first, and how many the whole parameter has.

        Returns:
            The same tree of new arrays.

        Raises:
            InvalidInput: a step out of order, given before, or beyond the run, or gradients that
                are no finite floats; nothing has changed then.
        """
        self.strategy.check_step(step)
        found = list(trees.leaves(gradients))
        names = [name for name, _ in found]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(f"two gradients are both called {twice!r}: rename one")
        unknown = set(shards or ()) - set(names)
        if unknown:
            raise InvalidInput(f"shards name {sorted(unknown)[0]!r}, which is no gradient")
        for name, array in found:
            trees.check_floats(array, name)
            trees.check_finite(array, name)
        places = {name: self._place(name, math.prod(array.shape), shards) for name, array in found}
        parameters = {name: self._parameter(name, *place) for name, place in places.items()}
        for parameter in parameters.values():
            parameter.check_next(step)
            if step in parameter.released:
                raise InvalidInput(
                    f"step {step} has its noise already; the same noise on other gradients would "
                    f"give their difference away: count steps up"
                )
        for parameter in parameters.values():
            parameter.released.add(step)

        def noisy(name: str, array: Any) -> Any:
            return trees.with_noise(array, parameters[name].noise(step))

        return trees.rebuilt(gradients, noisy)

    def read(
        self, step: int, name: str, size: int, first: int = 0, stop: int | None = None
    ) -> Singles:
        """The noise of a step for consecutive coordinates of one parameter, as `add` adds it.

        Args:
            step: counts from 1.
            name: of the parameter.
            size: coordinates it has altogether.
            first, stop: which of them; all unless given.

        Returns:
            float32, shape ``(stop - first,)``.

        Raises:
            InvalidInput: as `add`.
        """
        self.strategy.check_step(step)
        stop = size if stop is None else stop
        size = check_integer("size", size, 1)
        parameter = self._parameter(name, size, first, stop)
        parameter.check_next(step)
        return parameter.noise(step)

    def fresh(self, step: int, name: str, size: int) -> Singles:
        """The weighted normals of a step for one parameter, before buffers and scale.

        A function of its arguments alone, for programs that keep the buffers themselves.

        Args:
            step: counts from 1.
            name: of the parameter.
            size: coordinates it has.

        Returns:
            float32, shape ``(size,)``.

        Raises:
            HorizonExceeded: a step beyond the run.
        """
        self.strategy.check_step(step)
        return self._made(name, size, 0, size).fresh(step)

    def resume(self, step: int) -> None:
        """Go on with a step in a new process, without a checkpoint.

        Buffers are computed from the key by drawing all earlier steps again; without buffers
        nothing needs to be computed.

        Raises:
            InvalidInput: a step beyond the run, or noise has been drawn here already.
        """
        self.strategy.check_step(step)
        if self._parameters:
            raise InvalidInput(
                f"resume({step}) comes after noise was drawn; call it first, in the new process"
            )
        self._resumed = step - 1

    def state_dict(self) -> dict[str, Any]:
        """Buffers and steps, to be saved with the model: secret, as they hold noise.

        Strategies without buffers need none of it.
        """
        return {
            "format": FORMAT,
            "run": self._fingerprint(),
            "parameters": [
                {
                    "name": name,
                    "size": parameter.field.size,
                    "first": first,
                    "stop": stop,
                    "step": parameter.step,
                    "buffers": parameter.buffers.copy(),
                }
                for (name, first, stop), parameter in self._parameters.items()
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave.

        Raises:
            StateError: of another run, key or format, or not whole.
        """
        try:
            if state["format"] != FORMAT:
                raise StateError(
                    f"the state of the noise has format {state['format']}; this version reads "
                    f"{FORMAT}: resume with the version that wrote it"
                )
            if state["run"] != self._fingerprint():
                raise StateError(
                    f"the state belongs to another run, plan or key than {self.name!r}: load that "
                    f"of this run"
                )
            found: dict[tuple[str, int, int], _Parameter] = {}
            for entry in state["parameters"]:
                name, first, stop = entry["name"], int(entry["first"]), int(entry["stop"])
                parameter = self._made(name, int(entry["size"]), first, stop)
                buffers = np.array(entry["buffers"], np.float32)
                if buffers.shape != parameter.buffers.shape or not np.isfinite(buffers).all():
                    raise StateError(f"buffers of {name!r} are not those of {self.strategy!r}")
                parameter.buffers, parameter.step = buffers, int(entry["step"])
                found[name, first, stop] = parameter
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"the state of the noise cannot be read ({type(error).__name__}): load an earlier "
                f"checkpoint, or use resume(step)"
            ) from error
        self._parameters = found

    def _fingerprint(self) -> str:
        text = json.dumps(self._terms, sort_keys=True).encode()
        return hashlib.sha256(text + self._key.fingerprint.encode()).hexdigest()

    def _place(
        self, name: str, size: int, shards: Mapping[str, tuple[int, int]] | None
    ) -> tuple[int, int, int]:
        """Size of the whole parameter, first and last coordinate that are given."""
        if not shards or name not in shards:
            return size, 0, size
        first, whole = shards[name]
        return whole, first, first + size

    def _parameter(self, name: str, size: int, first: int, stop: int) -> _Parameter:
        if not 0 <= first <= stop <= size:
            raise InvalidInput(
                f"coordinates {first} to {stop} are not all among the {size} of {name!r}"
            )
        known = self._parameters.get((name, first, stop))
        if known is None:
            known = self._made(name, size, first, stop)
            known.replay(self._resumed)
            self._parameters[name, first, stop] = known
        elif known.field.size != size:
            raise InvalidInput(
                f"{name!r} has {size} coordinates and had {known.field.size} before: a "
                f"parameter keeps its shape"
            )
        return known

    def _made(self, name: str, size: int, first: int, stop: int) -> _Parameter:
        address = {**self._terms, "parameter": name, "size": size}
        text = json.dumps(address, sort_keys=True, separators=(",", ":"))
        field = NormalField(self._key.derive(b"training", text.encode()), size)
        return _Parameter(self.strategy, field, self.std, first, stop)


class _Parameter:
    """Noise of consecutive coordinates of one parameter, step by step."""

    def __init__(
        self, strategy: TrainingStrategy, field: NormalField, std: float, first: int, stop: int
    ) -> None:
        self.strategy, self.field, self.std = strategy, field, std
        self.first, self.stop = first, stop
        self.step = 0
        self.released: set[int] = set()
        self.buffers = np.zeros((strategy.buffers, stop - first), np.float32)
        self._spare: NDArray[np.float32] | None = None
        self._outputs = [np.float32(output) for output in strategy.outputs]
        self._decays = [np.float32(decay) for decay in strategy.decays]

    def check_next(self, step: int) -> None:
        """Refuse a step that buffers are not ready for."""
        if self.strategy.buffers and step != self.step + 1:
            raise InvalidInput(
                f"step {step} comes after step {self.step}; noise with buffers is drawn in order: "
                f"load the checkpoint of step {step - 1}, or call resume({step}) on new noise"
            )

    def replay(self, step: int) -> None:
        """Bring the buffers to where they stand after a step."""
        if self.strategy.buffers:
            for earlier in range(1, step + 1):
                self.noise(earlier)
        self.step = step

    def fresh(self, step: int) -> Singles:
        """The weighted sum of a step's normals."""
        out = np.empty(self.stop - self.first, np.float32)
        fresh, drawn, _ = self._space()
        taps = self.strategy.taps(step)
        for block in self.field.blocks(self.first, self.stop):
            begin = block * BLOCK
            low, high = max(self.first, begin), min(self.stop, begin + self.field.length(block))
            summed = self._summed(taps, block, fresh, drawn)
            out[low - self.first : high - self.first] = summed[low - begin : high - begin]
        return out

    def noise(self, step: int) -> Singles:
        """The noise of a step; buffers move on."""
        out = np.empty(self.stop - self.first, np.float32)
        fresh, drawn, spare = self._space()
        taps = self.strategy.taps(step)
        scale = np.float32(self.std / self.strategy.divisor(step))
        for block in self.field.blocks(self.first, self.stop):
            begin = block * BLOCK
            low = max(self.first, begin)
            high = min(self.stop, begin + self.field.length(block))
            summed = self._summed(taps, block, fresh, drawn)[low - begin : high - begin]
            for part in range(0, len(summed), _PART):
                self._carried(summed[part : part + _PART], low - self.first + part, out, spare)
            place = out[low - self.first : high - self.first]
            np.multiply(place, scale, out=place)
        self.step = step
        return out

    def _carried(self, summed: Singles, begin: int, out: Singles, spare: Singles) -> None:
        """The recurrence over the buffers for some coordinates."""
        place = slice(begin, begin + len(summed))
        total, product = out[place], spare[: len(summed)]
        np.copyto(total, summed)
        for buffer, output, decay in zip(self.buffers, self._outputs, self._decays, strict=True):
            held = buffer[place]
            np.multiply(held, output, out=product)
            np.add(total, product, out=total)
            np.multiply(held, decay, out=held)
            np.add(held, summed, out=held)

    def _space(self) -> NDArray[np.float32]:
        """Three blocks to compute in; kept, since new memory is slow."""
        if self._spare is None:
            self._spare = np.empty((3, min(BLOCK, self.field.size + 1)), np.float32)
        return self._spare

    def _summed(self, taps: tuple[Any, ...], block: int, fresh: Singles, drawn: Singles) -> Singles:
        """The weighted sum of the step's normals for all coordinates of a block."""
        first = taps[0]
        total = self.field.block(first.level, first.index, block, fresh)
        if first.weight != 1:
            np.multiply(total, np.float32(first.weight), out=total)
        for tap in taps[1:]:
            other = self.field.block(tap.level, tap.index, block, drawn)
            np.multiply(other, np.float32(tap.weight), out=other)
            np.add(total, other, out=total)
        return total

"""Noise for gradients: a function of key, parameter, step and coordinate, without a hidden state.

Each parameter has its own subkey, derived from the run's name, the strategy, the guarantee, the
bound on gradients and the parameter's name and size. So another guarantee or model never gets the
same noise. Under the subkey each standard normal has an address (level, index, coordinate), and is
computed in blocks of 2^16 coordinates. So shards of a parameter, another order and another machine
give the same bits.

A run draws an identity. A process that continues the run from a checkpoint begins a session, with a
new identity for all normals that no step has used yet. Both identities are part of the address. So
two runs with one key and name have different noise, and so have two continuations of one
checkpoint: later noise never repeats noise that may have been shown before. Workers that compute
one step together share one identity: `TrainingNoise.join`.

A run also states its parameters: strategy, guarantee, clipping norm, key and sampler. A
continuation with other parameters is refused, because its noise would not match that of earlier
steps. A strategy that was found by a search is stored with the run, coefficient by coefficient, so
that `TrainingNoise.of_run` has it on any machine.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counton.base.errors import InvalidInputError, StateError
from counton.base.exact import Number, check_integer, check_positive, quote, shorten
from counton.noise import InsecureSeededKey, Key
from counton.noise.guard_file import drawn_identity, identity_of
from counton.noise.key import check_key
from counton.noise.normals import COORDINATES_PER_BLOCK, NormalField, Singles
from counton.privacy import Guarantee
from counton.privacy.guarantees import guarantee_from_dict
from counton.training import trees
from counton.training.batch_samplers import Sampler, when_counted
from counton.training.device import DeviceField, generator_of
from counton.training.fit import check_fit, multiplier
from counton.training.strategies import training_strategy_from_dict
from counton.training.strategies.training_strategy import TrainingStrategy

#: Format versions of the addresses of noise, and of checkpoints.
FORMAT = 2
STATE_FORMAT = 3
#: Relative increase of the standard deviation that allows for weights and decays in float32.
ROUNDING = 1e-4
#: Number of coordinates that go through the buffers at a time, so that they stay in the cache.
_COORDINATES_PER_PART = 2**14
#: Relative tolerance for the rounding of clipped gradients that are summed in 16 bits.
_CLIPPING_TOLERANCE = 0.01
#: Largest relative difference between the standard deviations that two processors compute for one
#: guarantee.
_STD_TOLERANCE = 5e-3
#: How much larger the standard deviation of a run may be that began under the looser bounds for
#: secret places of earlier versions. More noise keeps the guarantee.
_LARGEST_STD_EXCESS = 0.6

#: The identity of every run under an `InsecureSeededKey`, for tests and papers.
SEEDED = "0" * 32
#: Pairs of the first step and the identity of each session, in the order of steps.
Sessions = tuple[tuple[int, str], ...]
Field = NormalField | DeviceField


class TrainingNoise:
    """The noise that is added to the sum of a step's clipped gradients.

    Under an `InsecureSeededKey` the noise is the same each time, for tests and papers: no identity
    is drawn, and another run with the same name is not refused.

    Args:
        strategy: the correlation of the noise over steps.
        key: the secret.
        name: name of the run: under one key each run has a name of its own.
        guarantee: the guarantee for one example, over all steps of the run.
        clip: the largest 2-norm of one example's gradient, over all parameters together.
        sampler: the sampler that gives the batches; it is checked that the strategy's sensitivity
            holds for them.
        where: "host": normals are those of ``counton.noise.normals``, the same on every machine.
            "device": PyTorch or JAX draws them on the device of the gradients
            (``training/device.py`` says what is not guaranteed then).

    Raises:
        InvalidInputError: an argument is out of range, or the sampler does not guarantee enough.

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
        sampler: Sampler | None = None,
        where: str = "host",
    ) -> None:
        untyped_name: object = name
        if not isinstance(untyped_name, str) or not untyped_name:
            raise InvalidInputError(f"name is {quote(name)}; it must be a text that names the run")
        bound = check_positive("clip", clip, "the largest gradient norm")
        if sampler is not None:
            check_fit(strategy, sampler)
        for decay in strategy.decays:
            used = float(np.float32(decay))
            if not used < 1 or abs(used - decay) > ROUNDING / 10 * (1 - decay):
                raise InvalidInputError(
                    f"a buffer decays by {decay!r}, which float32 rounds to {used!r}, and the "
                    "stated sensitivity would not hold; use the fit method of the strategy, which "
                    "finds float32 numbers"
                )
        self._key = check_key(key)
        self.strategy = strategy
        self.name = name
        self.guarantee = guarantee
        self.clip = float(bound)
        sensitivity = math.sqrt(strategy.squared_sensitivity()) * self.clip
        #: Standard deviation of one fresh normal, before the step's divisor.
        self.std = sensitivity * multiplier(guarantee, strategy, sampler) * (1 + ROUNDING)
        self._terms: dict[str, object] = {
            "format": FORMAT,
            "name": name,
            "strategy": strategy.address,
            "guarantee": guarantee.to_dict(),
            "clip": repr(self.clip),
            "group": 1,  # of examples that are protected together
            "sampled": None if sampler is None else sampler.chance,
        }
        if where not in ("host", "device"):
            raise InvalidInputError(f"where is {where!r}; give 'host' or 'device'")
        if where == "device":
            self._terms["device"] = None  # known with the first gradient
        self.sampler = sampler
        self._parameters: dict[tuple[str, int, int], _Parameter] = {}
        self._resumed = 0
        self._last = 0
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._taken = self._drawn = False
        #: Whether the run is that of another process too.
        self.joined = False
        self._remembered: str | None = None
        self._identity = SEEDED if self.seeded else drawn_identity()
        #: (first step, identity): normals first taken from that step on have this identity.
        self._sessions: Sessions = ((1, self._identity),)

    @classmethod
    def of_run(
        cls, run: Mapping[str, Any], *, key: Key, sampler: Sampler | None = None
    ) -> TrainingNoise:
        """Return the noise of a run that began in another process, rebuilt from its public
        parameters.

        The strategy is not searched for again. Continue with `resume`, `join` or `load_state_dict`.

        Args:
            run: the value of `TrainingNoise.run` in that process; a checkpoint has it as
                ``state["run"]``.
            key, sampler: the key and the sampler of that run.

        Raises:
            InvalidInputError: the run's parameters are not valid, or the sampler does not fit.
            StateError: the run cannot be read, or has another key or sampler.

        >>> from counton import Key
        >>> from counton.training import plan
        >>> key = Key.generate()
        >>> run = plan(steps=8, dimension=3).best.noise(key=key, name="a").run
        >>> noise = TrainingNoise.of_run(run, key=key)
        >>> noise.resume(5, run)
        >>> noise.name
        'a'
        """
        try:
            terms = run["terms"]
            noise = cls(
                training_strategy_from_dict(terms["strategy"]),
                key=key,
                name=terms["name"],
                guarantee=guarantee_from_dict(terms["guarantee"]),
                clip=float(terms["clip"]),
                sampler=sampler,
                where="device" if "device" in terms else "host",
            )
        except InvalidInputError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(error) from error
        noise.std = noise._check_terms(run)
        return noise

    def __repr__(self) -> str:
        return f"<noise of {self.name!r}: {self.strategy.name}, {self.guarantee}>"

    @property
    def guarantee_text(self) -> str:
        """The guarantee in one sentence, with the protected unit, neighbouring datasets and
        batches.

        >>> from counton import Key
        >>> from counton.training import plan
        >>> best = plan(steps=8, epochs=2, dimension=3).best
        >>> print(best.noise(key=Key.generate(), name="a").guarantee_text)
        zero-concentrated differential privacy with rho = 0.5 for all 8 steps together, for one
        example present or its place left empty, which counts in 2 steps at most, in the same place
        of each epoch, with a gradient of norm at most 1
        """
        counted_for = Sampler if self.sampler is None else self.sampler
        when = when_counted(counted_for, self.strategy.schedule)
        again = ""
        if len(self._sessions) > 1 or self._sessions[0][1] != self._identity:
            again = ", if of steps taken again after a checkpoint one version is shown"
        if self.on_device:
            again += "; as far as a generator that is not cryptographic draws normal numbers"
        return (
            f"{self.guarantee} for all {self.strategy.steps} steps together, for one "
            f"{counted_for.unit} {counted_for.neighbours}, {when}, with a gradient of norm at most "
            f"{self.clip:g}{again}"
        )

    def epsilon(self, delta: Number, steps: int | None = None) -> float:
        """Return an epsilon with which the run keeps (epsilon, delta).

        It is an upper bound, and includes amplification by the sampler. For `SecretPlaces` and
        correlated noise it takes seconds.

        Args:
            delta: delta, above 0 and below 1.
            steps: number of steps from the first one; None: the whole run.

        Raises:
            InvalidInputError: an argument is out of range, or no epsilon up to 10,000 suffices.

        >>> from counton import Key, ZCDP
        >>> from counton.training import plan
        >>> best = plan(steps=8, epochs=2, guarantee=ZCDP("1/2")).best
        >>> noise = best.noise(key=Key.generate(), name="a")
        >>> round(noise.epsilon(1e-5), 2), round(noise.epsilon(1e-5, steps=4), 2)
        (4.38, 3.22)
        """
        from counton.training.epsilon import epsilon_of_run

        whole = self.strategy.steps if self.sampler is None else self.sampler.steps
        unit_std = self.std / (self.clip * (1 + ROUNDING))
        return epsilon_of_run(self, unit_std, delta, whole if steps is None else steps)

    @property
    def run(self) -> dict[str, Any]:
        """The run's identity and its parameters, as JSON values. They are public.

        `resume`, `join` and `of_run` take this value.

        Raises:
            StateError: normals are drawn on the device, and it is not known yet which one.

        >>> from counton import Key
        >>> from counton.training import plan
        >>> noise = plan(steps=8, dimension=3).best.noise(key=Key.generate(), name="a")
        >>> sorted(noise.run)
        ['identity', 'sessions', 'std', 'terms']
        """
        if self._terms.get("device", "") is None:
            raise StateError(
                f"the run of {self.name!r} cannot say yet which generator draws its normals, and "
                "with another one it would have other noise: take it after make_private or the "
                "first step, or call noise.bind(counton.training.device.generator_of(tensor)) first"
            )
        run: dict[str, object] = {
            "identity": self._identity,
            "sessions": [list(session) for session in self._sessions],
            "terms": dict(self._all_terms),
            "std": self.std,
        }
        if self.sampler is not None and self.sampler.secret_places is not None:
            run["places"] = self.sampler.identity
        return run

    def add(
        self,
        step: int,
        gradients: object,
        shards: Mapping[str, tuple[int, int]] | None = None,
    ) -> Any:
        """Return the gradients of a step, summed over its batch, with noise added.

        Args:
            step: number of the step, from 1. Strategies with buffers take steps in order, other
                strategies in any order.
            gradients: an array, or dicts, lists and tuples of arrays, of numpy, PyTorch or JAX.
                Names and shapes must be the same in each step.
            shards: needed if only some consecutive coordinates of a parameter are passed. Maps the
                parameter's name to the number of the first coordinate, and the size of the whole
                parameter.

        Returns:
            New arrays in containers of the same form.

        Raises:
            InvalidInputError: a step out of order, repeated, or beyond the run; gradients that are
                not finite floats; or, if there is a sampler and no shards, a sum with a larger
                2-norm than the batch's clipped gradients can have. The object is then unchanged.
            StateError: another run with this name has begun under the key.
        """
        self.check_step(step)
        named_arrays = trees.distinct_leaves(gradients)
        unknown = set(shards or ()) - {name for name, _ in named_arrays}
        if unknown:
            raise InvalidInputError(
                f"shards name {sorted(unknown)[0]!r}, which is not a gradient: leave it out"
            )
        for name, array in named_arrays:
            trees.check_floats(array, name)
            trees.check_finite(array, name)
        if not shards and self.sampler is not None:
            squares = sum(trees.squared_norm(array) for _, array in named_arrays)
            self.check_length(step, math.sqrt(squares))
        places = {}  # for each parameter its size, and the range of coordinates here
        self._find_device([array for _, array in named_arrays])
        for name, array in named_arrays:
            here = math.prod(array.shape)
            first, size = (shards or {}).get(name, (0, here))
            places[name] = size, first, first + here
        parameters = self._next(step, places)

        def noisy(name: str, array: object) -> Any:
            return trees.with_noise(array, parameters[name].noise(step, array))

        return trees.rebuilt(gradients, noisy)

    def read(
        self, step: int, name: str, size: int, first: int = 0, stop: int | None = None
    ) -> Singles:
        """Return the noise that `add` adds in a step, for consecutive coordinates of one parameter.

        Args:
            step: number of the step, from 1.
            name: name of the parameter.
            size: number of its coordinates.
            first, stop: the range of coordinates to return; by default all.

        Returns:
            float32, shape ``(stop - first,)``.

        Raises:
            InvalidInputError, StateError: as `add`.
        """
        self.check_step(step)
        self._find_device([None])
        stop = size if stop is None else stop
        size = check_integer("size", size, 1)
        normals: Singles = self._next(step, {name: (size, first, stop)})[name].noise(step)
        return normals

    def fresh_of(self, run: Mapping[str, object], step: int, name: str, size: int) -> Singles:
        """Return the new random part of a step's noise for one parameter.

        It is the weighted sum of the step's standard normal numbers, of a run with the parameters
        ``run`` instead of this noise's own run. It is not scaled, and what buffers carry over from
        earlier steps is not in it.

        The step is not recorded: the caller must ensure that no step gets its noise twice.

        Args:
            run: the value of `run` of the noise that began the run.
            step: number of the step, from 1.
            name: name of the parameter.
            size: number of its coordinates.

        Returns:
            float32, shape ``(size,)``.

        Raises:
            HorizonExceededError: the step is beyond the run.
            StateError: the run cannot be read.
        """
        self.check_step(step)
        _, sessions = read_run(run)
        return self._make_parameter(name, size, 0, size, sessions).fresh(step)

    def check_count(self, step: int, rows: int, present: int | None = None) -> None:
        """Raise an error for a number of gradients that the sampler's batch cannot have.

        Without a sampler nothing is checked.

        Args:
            step: number of the step, from 1.
            rows: number of gradients of single examples.
            present: number of gradients that are not all zero, if rows are padded with zeros.

        Raises:
            InvalidInputError: fewer rows than the sampler's batch has examples, or more rows that
                are not all zero.
        """
        if self.sampler is None:
            return
        in_batch = len(self.sampler.batch(step))
        counted = rows if present is None else present
        if rows < in_batch or counted > in_batch:
            raise InvalidInputError(
                f"step {step} has the gradients of {counted if counted > in_batch else rows} "
                f"examples, but the sampler's batch has {in_batch}, on which the guarantee relies: "
                f"take sampler.batch({step})"
            )

    def check_length(self, step: int, length: float) -> None:
        """Raise an error if a sum of gradients has a 2-norm above (number of examples in the batch)
        * ``clip``.

        Without a sampler nothing is checked.

        Args:
            step: number of the step, from 1.
            length: the sum's 2-norm over all parameters.

        Raises:
            InvalidInputError: the norm is too large.
        """
        if self.sampler is None:
            return
        examples = len(self.sampler.batch(step))
        if not length <= examples * self.clip * (1 + _CLIPPING_TOLERANCE):
            raise InvalidInputError(
                f"the gradients of step {step} add up to a norm of {length:.6g}, but the "
                f"{examples} examples of the sampler's batch can reach only "
                f"{examples * self.clip:.6g} if each is clipped to {self.clip:g}: clip each "
                f"example, and take sampler.batch({step})"
            )

    def resume(self, step: int, run: Mapping[str, object] | None = None) -> None:
        """Continue at a step in a new process, without a checkpoint of the noise.

        Buffers, which carry noise from step to step, are recomputed by drawing all earlier steps
        again. Normal numbers that no earlier step has used are drawn under a new identity.

        Args:
            step: the next step.
            run: the value of `TrainingNoise.run` in the earlier process; it may be left out only
                under an `InsecureSeededKey`.

        Raises:
            InvalidInputError: the step is beyond the run, or noise has already been drawn here.
            StateError: no run is given, it cannot be read, or it has other parameters.
        """
        self.check_step(step)
        if self._parameters:
            raise InvalidInputError(
                f"resume({step}) must be called before noise is drawn, but noise was drawn "
                "already: call it first, in the new process"
            )
        if run is None and not self.seeded:
            raise StateError(
                f"resume({step}) would continue an unknown run, and new noise in place of the old "
                "breaks the guarantee: load the checkpoint, or give run=, the value of noise.run; "
                "to begin a new run, start with step 1 under another name"
            )
        if run is not None:
            identity, sessions = read_run(run)
            std = self._check_terms(run)
            self._keep_places(run)
            if not self.seeded:
                sessions = renew(sessions, step - 1, drawn_identity())
            self._identity = identity
            self._sessions = sessions
            self.std = std
        self._resumed = self._last = step - 1

    def join(self, run: Mapping[str, object]) -> None:
        """Let this process draw exactly the noise that another process draws for its run, for the
        steps that both compute together.

        This is only for workers that compute one step together: workers with different coordinates,
        or with the same sums of gradients, as in `counton.training.torch` under
        ``torch.distributed``.

        Args:
            run: the value of `TrainingNoise.run` in that process, after its noise was made, loaded
                or resumed.

        Raises:
            InvalidInputError: noise has already been drawn here.
            StateError: the run cannot be read, or has other parameters.
        """
        if self._drawn:
            raise InvalidInputError(
                "join must be called before the first step, but noise was drawn already: call it "
                "first"
            )
        resumed = *read_run(run), self._check_terms(run)
        self._keep_places(run)
        self._identity, self._sessions, self.std = resumed
        self.joined = True
        for (name, first, stop), parameter in self._parameters.items():
            parameter.take_over(self._make_parameter(name, parameter.field.size, first, stop))

    def check_step(self, step: int) -> None:
        """Raise an error for a step after the last step of the strategy or of the sampler.

        Args:
            step: number of the step, from 1.

        Raises:
            InvalidInputError: the step is after the last step of the strategy or of the sampler.
        """
        self.strategy.check_step(step)
        if self.sampler is not None:
            self.sampler.check_step(step)

    def take(self) -> None:
        """Bind the noise to one optimiser, because clipping bounds the gradient over all its
        parameters together.

        Raises:
            InvalidInputError: the noise is already bound to another optimiser.
        """
        if self._taken:
            raise InvalidInputError(
                f"the noise of {self.name!r} belongs to another optimizer already; two optimizers "
                "that clip apart would make an example's gradient longer than clip: give each its "
                "own noise, with its own name and guarantee"
            )
        self._taken = True

    def __reduce__(self) -> str | tuple[object, ...]:
        raise StateError(
            "noise of training cannot be copied or pickled, because two copies would give equal "
            "noise to different gradients: make it where it is used, and save its state_dict()"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return steps, and buffers that carry noise from step to step; they must be saved with the
        model. They are secret, because they hold noise.

        For strategies without buffers the public `run` is enough.
        """
        return {
            "format": STATE_FORMAT,
            "run": self.run,
            "step": self._last,
            "parameters": [
                {
                    "name": name,
                    "size": parameter.field.size,
                    "first": first,
                    "stop": stop,
                    "step": parameter.step,
                    "buffers": np.array(trees.on_host(parameter.buffers)),
                }
                for (name, first, stop), parameter in self._parameters.items()
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the result of `state_dict`.

        Normal numbers that no step had used by then are drawn under a new identity, so two
        continuations of one checkpoint never repeat noise. The guarantee holds if the steps of only
        one continuation are shown to others. If both are shown, they cost at most as much privacy
        as two runs; this needs a causal strategy. With a strategy that is not causal, such as
        `OctaveTraining`, show only one continuation.

        Args:
            state: what `state_dict` returned. It is secret.

        Raises:
            StateError: the state belongs to another run, key or format, or is incomplete.
        """
        try:
            if state["format"] != STATE_FORMAT:
                raise StateError(
                    f"the state of the noise has format {state['format']}, but this version reads "
                    f"{STATE_FORMAT}: resume with the version that wrote it"
                )
            identity, sessions = read_run(state["run"])
            std = self._check_terms(state["run"])
            last = check_integer("step", state["step"], 0, self.strategy.steps)
            if not self.seeded:
                sessions = renew(sessions, last, drawn_identity())
            parameters: dict[tuple[str, int, int], _Parameter] = {}
            for entry in state["parameters"]:
                name = entry["name"]
                first = int(entry["first"])
                stop = int(entry["stop"])
                parameter = self._make_parameter(
                    name, int(entry["size"]), first, stop, sessions, std
                )
                buffers = np.array(entry["buffers"], np.float32)
                if buffers.shape != parameter.buffers.shape or not np.isfinite(buffers).all():
                    raise StateError(
                        f"buffers of {name!r} do not belong to {self.strategy!r}: restore the "
                        "checkpoint from a copy"
                    )
                parameter.buffers = buffers
                parameter.step = int(entry["step"])
                parameters[name, first, stop] = parameter
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(error) from error
        self._keep_places(state["run"])
        self._identity = identity
        self._sessions = sessions
        self.std = std
        self._parameters = parameters
        self._resumed = last
        self._last = last
        self._drawn = False

    # ------------------------------------------------------------------- whose noise it is

    @property
    def seeded(self) -> bool:
        """True if the key is an `InsecureSeededKey`, which anybody can guess: noise repeats."""
        return isinstance(self._key, InsecureSeededKey)

    @cached_property
    def _all_terms(self) -> dict[str, object]:
        """All parameters, as JSON values, that must be equal in a run and in its continuation."""
        terms = {
            **self._terms,
            "strategy": self.strategy.to_dict(),
            "key": self._key.fingerprint,
            "sampler": None if self.sampler is None else self.sampler.description,
        }
        return dict(json.loads(json.dumps(terms)))

    @cached_property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that identify all parameters of the run, for states that can hold
        only numbers.

        >>> from counton import Key
        >>> from counton.training import plan
        >>> len(plan(steps=8, dimension=3).best.noise(key=Key.generate(), name="a").fingerprint)
        32
        """
        text = json.dumps(self._all_terms, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _check_terms(self, run: Mapping[str, Any]) -> float:
        """Return the std that ``run`` states; raise StateError for other parameters."""
        # It may differ from the one computed here in its last digits; both keep the guarantee, and
        # earlier steps had the stated one.
        try:
            there = dict(run["terms"])
            std = float(run["std"])
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(error) from error
        here = self._all_terms
        if here.get("device", "") is None:  # no gradient has come: it is that of the run
            here = here | {"device": there.get("device") or "not known"}
        other = [name for name in here | there if there.get(name, there) != here.get(name, here)]
        if other:
            saved, current = (
                shorten(str(({"device": "the host"} | terms).get(other[0])))
                for terms in (there, here)
            )
            raise StateError(
                f"the run belongs to another noise than {self.name!r}, or to other settings: its "
                f"{other[0]} is {saved}, but here it is {current}; with two settings neither "
                "guarantee would hold: make the noise with TrainingNoise.of_run(run, key=..., "
                "sampler=...) from that run"
            )
        is_older = self.sampler is not None and self.sampler.secret_places is not None
        largest = 1 + (_LARGEST_STD_EXCESS if is_older else _STD_TOLERANCE)
        if not 1 - _STD_TOLERANCE <= std / self.std <= largest:
            raise StateError(
                f"the saved run of {self.name!r} states noise of standard deviation {std!r}, but "
                f"this noise has {self.std!r}: give the value that noise.run had, unchanged"
            )
        if self.on_device:
            self.bind(str(here["device"]))
        return std

    def _keep_places(self, run: Mapping[str, Any]) -> None:
        """Give each example the secret place that it has in ``run``.

        Raises:
            StateError: the run does not contain places.
            InvalidInputError: batches with other places were already taken.
        """
        if self.sampler is None or self.sampler.secret_places is None:
            return
        places = run.get("places")
        if not isinstance(places, str):
            raise StateError(
                f"the saved run of {self.name!r} lacks the order of its examples in the epochs, "
                "and in another order an example could count twice in an epoch: give the value "
                "that noise.run had when it was saved"
            )
        self.sampler.join(places)

    def begin(self, identity: str, session: str) -> None:
        """Begin to draw noise: check the process and the run's name, and bind the sampler to the
        run.

        Args:
            identity: identity of the run that asks for noise.
            session: identity of its newest session.

        Raises:
            StateError: another run with this name has begun under the key, or the process is a fork
                of the process that made the noise.
            InvalidInputError: the sampler is bound to another run.
        """
        if os.getpid() != self._process:
            raise StateError(
                f"the noise of {self.name!r} was made in another process, and each copy would give "
                "equal noise: make it in the process that trains"
            )
        if self.sampler is not None:
            self.sampler.serve(identity, session)
        if identity == self._remembered:
            return
        if identity_of(self._key, f"training: {self.name}", identity) != identity:
            raise StateError(
                f"key {self._key.fingerprint} has begun a run called {self.name!r} already: to "
                "continue it, load its checkpoint; to begin another run, whose loss adds up with "
                "the first, give another name"
            )
        self._remembered = identity

    def _next(self, step: int, places: Mapping[str, tuple[int, int, int]]) -> dict[str, _Parameter]:
        """Record that a step gets its noise, so that no step gets noise twice.

        Return the generators of noise by parameter; ``places`` has the size and range of each.
        """
        with self._lock:
            self.begin(self._identity, self._sessions[-1][1])
            self._drawn = True
            parameters = {
                name: self._parameter(name, size, first, stop)
                for name, (size, first, stop) in places.items()
            }
            for parameter in parameters.values():
                parameter.check_next(step)
                if step in parameter.released or step <= self._resumed:
                    raise InvalidInputError(
                        f"step {step} has its noise already; equal noise on other gradients would "
                        "reveal their difference: increase the step with each call"
                    )
            for parameter in parameters.values():
                parameter.released.add(step)
            self._last = max(self._last, step)
        return parameters

    def _parameter(self, name: str, size: int, first: int, stop: int) -> _Parameter:
        if not 0 <= first <= stop <= size:
            raise InvalidInputError(
                f"coordinates {first} to {stop} are not all among the {size} coordinates of "
                f"{name!r}: give coordinates among these"
            )
        parameter = self._parameters.get((name, first, stop))
        if parameter is None:
            for other, low, high in self._parameters:
                if other == name and max(low, first) < min(high, stop):
                    raise InvalidInputError(
                        f"coordinates {first} to {stop} of {name!r} overlap {low} to {high}, which "
                        "have noise in this step already; a parameter must keep its shape, and its "
                        "shards their places: give each coordinate once"
                    )
            parameter = self._make_parameter(name, size, first, stop)
            parameter.step = self._resumed
            parameter.behind = self._resumed
            self._parameters[name, first, stop] = parameter
        elif parameter.field.size != size:
            raise InvalidInputError(
                f"{name!r} has {size} coordinates, but had {parameter.field.size} before: keep the "
                "shape of a parameter"
            )
        return parameter

    def _make_parameter(
        self,
        name: str,
        size: int,
        first: int,
        stop: int,
        sessions: Sessions | None = None,
        std: float | None = None,
    ) -> _Parameter:
        return _Parameter(
            self.strategy,
            sessions or self._sessions,
            lambda identity: self._field(name, size, identity),
            self.std if std is None else std,
            first,
            stop,
        )

    def _field(self, name: str, size: int, identity: str) -> Field:
        kind = DeviceField if self.on_device else NormalField
        return kind(self.subkey(name, size, identity), size)

    def subkey(self, name: str, size: int, identity: str) -> bytes:
        """Return the secret from which the normals of one parameter in one session are drawn.

        Args:
            name: name of the parameter.
            size: number of its coordinates.
            identity: identity of the session: 32 hexadecimal digits.
        """
        address = {**self._terms, "identity": identity, "parameter": name, "size": size}
        text = json.dumps(address, sort_keys=True, separators=(",", ":"))
        return self._key.derive(b"training", text.encode())

    # ---------------------------------------------------------------------- noise on the device

    @property
    def on_device(self) -> bool:
        """True if normals are drawn on the device of the gradients."""
        return "device" in self._terms

    def bind(self, *devices: str) -> None:
        """State which generator draws the normals, on which device: for all parameters and steps
        the same one, because another could not draw earlier normals again.

        Raises:
            StateError: earlier steps, or two of the devices, had another one.
        """
        bound = self._terms["device"] or next(iter(devices), None)
        for device in devices:
            if device != bound:
                raise StateError(
                    f"the normals of {self.name!r} were drawn by {bound}, but here {device} "
                    "draws, which cannot draw them again: continue with that one, or begin a run "
                    "under another name"
                )
        self._terms["device"] = bound
        for attribute in ("_all_terms", "fingerprint"):
            vars(self).pop(attribute, None)

    def _find_device(self, arrays: Sequence[object]) -> None:
        if not self.on_device:
            return
        if not all(map(trees.is_torch, arrays)):
            raise InvalidInputError(
                "where='device' draws noise for tensors of PyTorch alone: give tensors, take "
                "counton.training.optax.private_aggregate with JAX, or leave where out"
            )
        self.bind(*map(generator_of, arrays))


def _unreadable(error: Exception) -> StateError:
    return StateError(
        f"a run of training cannot be read ({type(error).__name__}): give the value of noise.run, "
        "or the whole checkpoint"
    )


def read_run(run: Mapping[str, Any]) -> tuple[str, Sessions]:
    """Return a run's identity, and the first step and identity of each of its sessions.

    A session is a part of a run between two restarts. It has an identity (random digits), under
    which it draws the normal numbers that no earlier step has used.

    Args:
        run: a value of `TrainingNoise.run`.

    Raises:
        StateError: ``run`` is not such a value.
    """
    try:
        identity = str(run["identity"])
        sessions = tuple(
            (int(first), str(drawn_identity_text)) for first, drawn_identity_text in run["sessions"]
        )
        starts = [first for first, _ in sessions]
        if not starts or starts[0] != 1 or starts != sorted(set(starts)):
            raise ValueError
        if any(len(bytes.fromhex(text)) != 16 for text in (identity, *dict(sessions).values())):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(error) from error
    return identity, sessions


def renew(sessions: Sessions, last: int, identity: str) -> Sessions:
    """Return the sessions (first step, identity) of a run that continues after step ``last``.

    A session is a part of a run between two restarts. The new session has the given identity and
    begins at the next step. Sessions with a later first step are dropped.

    >>> renew(((1, "a"), (5, "b")), 7, "c"), renew(((1, "a"), (5, "b")), 3, "c")
    (((1, 'a'), (5, 'b'), (8, 'c')), ((1, 'a'), (4, 'c')))
    """
    return (
        *((first, session) for first, session in sessions if first <= last),
        (last + 1, identity),
    )


class _Parameter:
    """The noise of consecutive coordinates of one parameter, step by step."""

    def __init__(
        self,
        strategy: TrainingStrategy,
        sessions: Sessions,
        make: Callable[[str], Field],
        std: float,
        first: int,
        stop: int,
    ) -> None:
        self.strategy = strategy
        self.std = std
        self._sessions = sessions
        self._make = make
        #: Of the newest session; all have the same coordinates.
        self.field: Any = make(sessions[-1][1])
        self._earlier: dict[str, Field] = {}
        self.first = first
        self.stop = stop
        #: The last step, and how many steps the buffers are to be computed again for.
        self.step = 0
        self.behind = 0
        self.released: set[int] = set()
        self.buffers: Any = np.zeros((strategy.buffers, stop - first), np.float32)
        self._spare: NDArray[np.float32] | None = None
        self._outputs = [np.float32(output) for output in strategy.outputs]
        self._decays = [np.float32(decay) for decay in strategy.decays]

    def check_next(self, step: int) -> None:
        if self.strategy.buffers and step != self.step + 1:
            raise InvalidInputError(
                f"step {step} was requested after step {self.step}, but noise with buffers must be "
                f"drawn in order: load the checkpoint of step {step - 1}, or call resume({step}) "
                "on new noise"
            )

    def noise(self, step: int, like: object = None) -> Any:
        """Return the noise of a step, float32 for each coordinate, and advance the buffers.

        On a device it is a tensor on the device of the gradient ``like``.
        """
        draw = self._on_host if isinstance(self.field, NormalField) else self._on_device
        again = range(1, self.behind + 1 if self.strategy.buffers else 1)
        self.behind = 0
        for earlier in again:
            draw(earlier, like)
        self.step = step
        return draw(step, like)

    def _on_device(self, step: int, like: Any) -> Any:
        torch = sys.modules["torch"]
        self.buffers = held = torch.as_tensor(self.buffers, device=like.device)
        fresh: Any = None
        for tap in self.strategy.taps(step):
            drawn = self._field_of(tap).normals(tap, self.first, self.stop, like.device)
            fresh = drawn.mul_(tap.weight) if fresh is None else fresh.add_(drawn, alpha=tap.weight)
        total = fresh.clone() if len(held) else fresh
        for buffer, output, decay in zip(held, self._outputs, self._decays, strict=True):
            total.add_(buffer, alpha=float(output))
            buffer.mul_(float(decay)).add_(fresh)
        return total.mul_(self.std / self.strategy.divisor(step))

    def fresh(self, step: int) -> Singles:
        """Return the weighted sum of a step's normals: float32, one entry for each coordinate."""
        out = np.empty(self.stop - self.first, np.float32)
        for place, summed in self._sums_by_block(step):
            out[place] = summed
        return out

    def _on_host(self, step: int, _: object) -> Singles:
        out = np.empty(self.stop - self.first, np.float32)
        _, _, spare = self._space()
        scale = np.float32(self.std / self.strategy.divisor(step))
        for place, summed in self._sums_by_block(step):
            for begin in range(0, len(summed), _COORDINATES_PER_PART):
                new = summed[begin : begin + _COORDINATES_PER_PART]
                here = slice(place.start + begin, place.start + begin + len(new))
                total = out[here]
                product = spare[: len(new)]
                np.copyto(total, new)
                for buffer, output, decay in zip(
                    self.buffers, self._outputs, self._decays, strict=True
                ):
                    held = buffer[here]
                    np.multiply(held, output, out=product)
                    np.add(total, product, out=total)
                    np.multiply(held, decay, out=held)
                    np.add(held, new, out=held)
            np.multiply(out[place], scale, out=out[place])
        return out

    def _sums_by_block(self, step: int) -> Iterator[tuple[slice, Singles]]:
        """Yield a slice of coordinates and its weighted sum of normals, block by block."""
        fresh, drawn, _ = self._space()
        first, *others = self.strategy.taps(step)  # the normal numbers, with their weights
        for block in self.field.blocks(self.first, self.stop):
            begin = block * COORDINATES_PER_BLOCK
            low = max(self.first, begin)
            high = min(self.stop, begin + self.field.length(block))
            summed = self._field_of(first).block(first.level, first.index, block, fresh)
            if first.weight != 1:
                np.multiply(summed, np.float32(first.weight), out=summed)
            for tap in others:
                other = self._field_of(tap).block(tap.level, tap.index, block, drawn)
                np.multiply(other, np.float32(tap.weight), out=other)
                np.add(summed, other, out=summed)
            yield slice(low - self.first, high - self.first), summed[low - begin : high - begin]

    def _space(self) -> NDArray[np.float32]:
        """Return three blocks of scratch space, of shape ``(3, coordinates)``."""
        # They are kept, since new memory is slow.
        if self._spare is None:
            self._spare = np.empty((3, min(COORDINATES_PER_BLOCK, self.field.size + 1)), np.float32)
        return self._spare

    def _field_of(self, tap: Any) -> Any:
        if len(self._sessions) == 1:
            return self.field
        begun = self.strategy.first_step(tap.level, tap.index)
        if begun >= self._sessions[-1][0]:
            return self.field
        session = next(session for first, session in reversed(self._sessions) if first <= begun)
        if session not in self._earlier:
            self._earlier[session] = self._make(session)
        return self._earlier[session]

    def take_over(self, other: _Parameter) -> None:
        self._sessions = other._sessions
        self._make = other._make
        self._earlier = {}
        self.field = other.field
        self.std = other.std

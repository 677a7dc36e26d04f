"""Training with JAX: noise as a gradient transformation of optax.

Normals are drawn on the host (`jax.experimental.io_callback`); with ``where="device"`` inside
``jit``, and only the check of a step, which gets a digest of its gradients, calls the host. Each
normal is a function of key and address, so they are the same under ``jit``, in ``scan`` and on any
number of devices. The optimiser's state holds the buffers that a strategy carries from step to
step, and the identity of the run. ``init`` draws the identity, so every new state is a run of its
own.

A state is a value, and a program may keep old states. So the host remembers, for each run, a 64-bit
digest of each step's gradients, and refuses to give the noise of a step to other gradients.
`resume` continues an older state, or a state of another process, with new noise.

With `counton.training.SecretPlaces` the state also has the identity of the secret places. A step
whose batches come from other places is refused: an example could then count in two places of an
epoch. `loader` gives the batches of the sampler as arrays, from the step of a state on.

JAX and optax are imported when `private_aggregate` is called; in a checkout: ``pip install
'.[jax]'``.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counton.base.errors import InvalidInputError, StateError
from counton.base.exact import check_integer, check_positive
from counton.base.lazy import require
from counton.noise.guard_file import drawn_identity
from counton.training import trees
from counton.training.batch_samplers import check_examples
from counton.training.device import normals_inside
from counton.training.noise import SEEDED, renew

if TYPE_CHECKING:
    from collections.abc import Iterator

    from counton.training import TrainingNoise
    from counton.training.batch_samplers import Sampler

__all__ = ["ArrayLoader", "NoiseState", "loader", "private_aggregate", "resume"]

#: Number of rows that describe a run in a state; fixed, because checkpoints need fixed shapes.
_ROWS_OF_RUN = 256
#: The row that has the identity of secret places. Its first number is 0.
_PLACES_ROW = _ROWS_OF_RUN - 1
#: Number of steps whose digests are remembered, for programs that compute a step again.
_REMEMBERED_STEPS = 4096
#: For each session of a run in this process, by its identity: digests of the gradients by step.
_digests_by_session: dict[str, dict[int, bytes]] = {}
_digests_lock = threading.Lock()


class NoiseState(NamedTuple):
    """The state of `private_aggregate`: number of steps, buffers, and the identity of the run.

    Attributes:
        step: number of steps taken.
        buffers: buffers by name of the parameter; they carry noise from step to step.
        run: public integers, uint32 of shape (256, 5). The first row has 0 and the identity of the
            run, the second row 0 and the fingerprint of its parameters. Each further row has the
            first step and the identity of a session; unused rows are 0. With secret places, the
            last row has 0 and their identity.

    >>> NoiseState(step=0, buffers={}, run=[]).step
    0
    """

    step: Any
    buffers: Any
    run: Any


def private_aggregate(noise: TrainingNoise, *, batch_size: float, per_example: bool = True) -> Any:
    """Return an optax transformation that clips gradients, adds them up, adds noise, and divides.

    It comes first in ``optax.chain``.

    Args:
        noise: a `TrainingNoise`; its ``clip`` bounds the 2-norm of an example's gradient.
        batch_size: the number by which sums are divided, such as the expected batch size. It must
            not depend on the data.
        per_example: True if updates are gradients of single examples along the first axis, as from
            ``jax.vmap``; False if they are sums of gradients that are already clipped.

    Returns:
        An ``optax.GradientTransformation``. Its state counts the steps. It raises an error of JAX,
            whose message says why, if a step is beyond the run, or has other gradients than before;
            if a state has other parameters than the noise, or comes from another process (see
            `resume`); if another run has begun under the same name; if the sampler has other secret
            places than the state; or if the number of examples or the norm of their sum does not
            fit the sampler's batch. It raises `InvalidInputError` if
            updates have other names or shapes than the parameters that ``init`` was given, or if
            they have rows of different numbers of examples.

    Raises:
        MissingDependencyError: optax is not installed.
        InvalidInputError: ``batch_size`` is not above 0, or the noise is bound to another
            optimiser.

    Example::

        >>> transformation = optax.chain(                       # doctest: +SKIP
        ...     private_aggregate(noise, batch_size=64), optax.sgd(0.1)
        ... )
    """
    require("optax")
    import jax
    import optax

    batch_size = float(check_positive("batch_size", batch_size, "the expected examples of a step"))
    if noise.on_device:
        noise.bind(f"JAX {jax.__version__}, partitionable {jax.config.jax_threefry_partitionable}")
    noise.take()
    aggregate = _Aggregate(noise, batch_size, per_example)
    return optax.GradientTransformation(aggregate.init, aggregate.update)


class _CheckedStep(NamedTuple):
    """A step that the host has checked, as arrays of JAX.

    Attributes:
        number: number of the step.
        words: secret words for drawing normals on the device, by name of the parameter; empty if
            they are drawn on the host.
    """

    number: Any
    words: dict[str, Any]


class _Aggregate:
    """The functions ``init`` and ``update`` of `private_aggregate`, which has its arguments."""

    def __init__(self, noise: TrainingNoise, batch_size: float, per_example: bool) -> None:
        strategy = noise.strategy
        steps = range(1, strategy.steps + 1)
        self._noise = noise
        self._batch_size = batch_size
        self._per_example = per_example
        self._scales = np.array([noise.std / strategy.divisor(step) for step in steps], np.float32)
        self._outputs = np.array(strategy.outputs, np.float32)
        self._decays = np.array(strategy.decays, np.float32)
        self._normals = normals_inside(strategy) if noise.on_device else None

    def init(self, parameters: Any) -> NoiseState:
        """Begin a run, without noise in its buffers."""
        import jax
        import jax.numpy as jnp

        n_buffers = self._noise.strategy.buffers
        buffers = {
            name: jnp.zeros((n_buffers, *array.shape), jnp.float32)
            for name, array in trees.distinct_leaves(parameters)
        }
        drawn = jax.ShapeDtypeStruct((_ROWS_OF_RUN, 5), jnp.uint32)
        run = jax.experimental.io_callback(lambda: _begin(self._noise), drawn)
        return NoiseState(jnp.zeros((), jnp.int32), buffers, run)

    def update(
        self, updates: Any, state: NoiseState, parameters: Any = None
    ) -> tuple[Any, NoiseState]:
        """Return the sums of a step with their noise, divided, and the state after it."""
        del parameters
        _check_updates(updates, state, per_example=self._per_example)
        if self._per_example:
            sums, rows, present = _clipped_sum(updates, self._noise.clip)
        else:
            sums = updates
            rows = None
            present = 0
        step = state.step + 1
        checked = self._check_on_host(step, state.run, sums, rows, present)
        dtypes = {name: array.dtype for name, array in trees.leaves(updates)}
        buffers: dict[str, Any] = {}

        def noisy(name: str, array: Any) -> Any:
            normals = self._draw(name, array.shape, checked, state.run)
            noise, buffers[name] = self._mix(normals, state.buffers[name], step)
            # Rounding to 16 bits comes last: it would move a sum by more than one example does.
            wide = _widened(array)
            return ((wide + noise.astype(wide.dtype)) / self._batch_size).astype(dtypes[name])

        return trees.rebuilt(sums, noisy), NoiseState(step, buffers, state.run)

    def _check_on_host(
        self, step: Any, run: Any, sums: Any, rows: int | None, present: Any
    ) -> _CheckedStep:
        """Let the host check a step before its noise is drawn.

        Args:
            step: number of the step.
            run: the run of the state.
            sums: the sums of clipped gradients.
            rows: number of examples; None if ``updates`` are sums.
            present: number of examples whose gradient is not zero.
        """
        import jax
        import jax.numpy as jnp

        noise = self._noise
        named = trees.distinct_leaves(sums)
        words = {}
        if noise.on_device:
            words = {
                name: np.frombuffer(noise.subkey(name, math.prod(array.shape), "")[:8], "<u4")
                for name, array in named
            }

        def check(step: Any, run: Any, digest: Any, length: Any, present: Any) -> Any:
            number = int(step)
            noise.check_step(number)
            if rows is not None:
                noise.check_count(number, rows, int(present))
            noise.check_length(number, float(length))
            _check(noise, number, _from_numbers(run), digest.tobytes())
            return step, words

        arrays = [array for _, array in named]
        squares = [jnp.square(array.astype(jnp.float32)).sum() for array in arrays]
        length = jnp.sqrt(sum(squares, start=jnp.zeros(())))  # 2-norm of all numbers together
        pair = jax.ShapeDtypeStruct((2,), jnp.uint32)
        types = jax.ShapeDtypeStruct((), jnp.int32), dict.fromkeys(words, pair)
        # Noise is drawn for the step that the host returns, so no noise is drawn before the check.
        # The host also returns the secret words: constants of a compiled program can be read in
        # it. The call is an `io_callback`, because JAX waits for these when a program ends. It
        # does not wait for a `pure_callback`, whose thread would then abort the process.
        number, secret_words = jax.experimental.io_callback(
            check, types, step, run, _digest(arrays), length, jnp.asarray(present)
        )
        return _CheckedStep(number, secret_words)

    def _draw(self, name: str, shape: tuple[int, ...], step: _CheckedStep, run: Any) -> Any:
        """Return the normal numbers of a parameter at a step."""
        import jax
        import jax.numpy as jnp

        if self._normals is not None:
            return self._normals(step.words[name], shape, step.number, run)

        def fresh(number: Any, run: Any) -> Any:
            size = math.prod(shape)
            normals = self._noise.fresh_of(_from_numbers(run), int(number), name, size)
            return normals.reshape(shape)

        result = jax.ShapeDtypeStruct(shape, jnp.float32)
        return jax.experimental.io_callback(fresh, result, step.number, run)

    def _mix(self, normals: Any, buffers: Any, step: Any) -> tuple[Any, Any]:
        """Return the noise of a step, and the buffers after it, from its normals and buffers."""
        import jax.numpy as jnp

        total = normals + jnp.tensordot(jnp.asarray(self._outputs), buffers, axes=1)
        decays = jnp.asarray(self._decays).reshape((-1,) + (1,) * normals.ndim)
        return total * jnp.asarray(self._scales)[step - 1], decays * buffers + normals


def resume(state: Any, identity: str | None = None, noise: TrainingNoise | None = None) -> Any:
    """Return a state with new noise, which continues an older state or a state of another process.

    Args:
        state: the saved state of a chain with `private_aggregate` in it.
        identity: identity of the new session; None draws one. If JAX runs in several processes,
            pass the same 32 hexadecimal digits to all of them.
        noise: the noise of this process. It is needed in a new process if the sampler is
            `SecretPlaces`: the sampler then gives the places that the state has. Call `resume`
            before the first batch is taken.

    Returns:
        The same state, except that normal numbers which no step has used yet are drawn under the
            new identity. `counton.training.TrainingNoise.load_state_dict` says what that means for
            the guarantee.

    Raises:
        InvalidInputError: the identity is that of another run, or batches with other places were
            already taken.
        StateError: the state belongs to another run than ``noise``, or has no secret places.

    Example::

        >>> state = resume(restored["optimizer"], noise=noise)  # doctest: +SKIP
    """
    require("optax")
    import jax
    import jax.numpy as jnp

    if identity is None and jax.process_count() > 1:
        raise InvalidInputError(
            "JAX runs in several processes, which must have one identity: give the same identity= "
            "to all of them"
        )

    def resume_leaf(state: Any) -> Any:
        if not isinstance(state, NoiseState):
            return state
        run = _from_numbers(np.asarray(state.run))
        last = int(state.step)
        if noise is not None:
            _check_fingerprint(noise, run)
            _take_places(noise, run)
        if run["identity"] == SEEDED:
            return state
        session = drawn_identity() if identity is None else identity
        sessions = renew(tuple(map(tuple, run["sessions"])), last, session)
        rows = _as_numbers(run | {"sessions": sessions})
        with _digests_lock:
            if session in _digests_by_session:
                raise InvalidInputError(
                    "another run of this process has this identity, and would have equal noise: "
                    "give identity= 32 other hexadecimal digits, the same to all processes of a "
                    "run; where JAX runs in one process, leave it out"
                )
            _digests_by_session[session] = {}
        return state._replace(run=jnp.asarray(rows))

    return jax.tree_util.tree_map(
        resume_leaf, state, is_leaf=lambda node: isinstance(node, NoiseState)
    )


def loader(
    noise: TrainingNoise, dataset: Any, *, state: Any = None, rows: int | None = None
) -> ArrayLoader:
    """Return the sampler's batches of a dataset, one for each step that is left.

    The guarantee holds only for the batches of the sampler. Take one step for each batch.

    Args:
        noise: a `TrainingNoise` with a sampler.
        dataset: an array of numpy or JAX whose first axis is the example, or a dict, list or tuple
            of such arrays. Its examples have the positions that the sampler gives.
        state: the state of a chain with `private_aggregate` in it; batches then begin after its
            step. In another process, pass the state that `resume` returned. None begins at step 1.
        rows: fill each batch with zeros up to a multiple of this number, so that `jax.jit` compiles
            few shapes. The loader then gives pairs: the batch, and an array that is 1.0 for an
            example and 0.0 for a filled row. Multiply the loss of each row by it.

    Raises:
        MissingDependencyError: optax is not installed.
        InvalidInputError: the noise has no sampler; the arrays have other numbers of examples than
            the sampler; ``rows`` is no integer above 0; or ``state`` has no state of
            `private_aggregate`.
        StateError: the state belongs to another run, or the sampler has other secret places.

    Example::

        >>> for inputs, labels in loader(noise, (inputs, labels)):     # doctest: +SKIP
        ...     each = jax.vmap(gradient, in_axes=(None, 0, 0))(parameters, inputs, labels)
        ...     updates, state = update(each, state)
        ...     parameters = optax.apply_updates(parameters, updates)
    """
    require("optax")
    sampler = noise.sampler
    if sampler is None:
        raise InvalidInputError("loader() needs a sampler: give noise(sampler=...)")
    if rows is not None:
        rows = check_integer("rows", rows, 1, remedy="each batch is filled to a multiple of it")
    for array in _arrays_of(dataset):
        check_examples(sampler, len(array))
    steps_taken = 0
    if state is not None:
        noise_state = _noise_state_in(state)
        run = _from_numbers(np.asarray(noise_state.run))
        _check_fingerprint(noise, run)
        _check_places(noise, run)
        steps_taken = int(noise_state.step)
    return ArrayLoader(sampler, dataset, steps_taken, rows)


class ArrayLoader:
    """The batches of a dataset for the steps of a run that are left; made by `loader`.

    Args:
        sampler: the sampler of the noise.
        dataset: arrays, or a dict, list or tuple of arrays.
        steps_taken: number of steps that were taken before.
        rows: fill batches up to a multiple of this number; None does not fill them.

    Example::

        >>> len(loader(noise, (inputs, labels)))                       # doctest: +SKIP
        60
    """

    def __init__(self, sampler: Sampler, dataset: Any, steps_taken: int, rows: int | None) -> None:
        self._sampler = sampler
        self._dataset = dataset
        self._steps_taken = steps_taken
        self._rows = rows

    def __len__(self) -> int:
        """Return the number of steps that are left."""
        return max(self._sampler.steps - self._steps_taken, 0)

    def __iter__(self) -> Iterator[Any]:
        """Yield the batch of each step that is left."""
        for step in range(self._steps_taken + 1, self._sampler.steps + 1):
            positions = self._sampler.batch(step)
            if self._rows is None:
                yield self._examples_at(positions)
            else:
                yield self._filled(positions, max(-(-len(positions) // self._rows), 1) * self._rows)

    def _examples_at(self, positions: Any) -> Any:
        """Return the examples at some positions, in the form of the dataset."""
        import jax

        return jax.tree_util.tree_map(lambda array: array[positions], self._dataset)

    def _filled(self, positions: Any, rows: int) -> tuple[Any, Any]:
        """Return the examples at some positions and rows of zeros, and which rows are examples.

        Args:
            positions: positions of examples.
            rows: number of rows, with those of zeros.
        """
        import jax
        import jax.numpy as jnp

        is_example = np.arange(rows) < len(positions)
        # Filled positions first read example 0, so that all arrays have one shape.
        padded = np.zeros(rows, np.int64)
        padded[: len(positions)] = positions

        def without_others(array: Any) -> Any:
            mask = is_example.reshape(-1, *(1 for _ in array.shape[1:]))
            return jnp.where(mask, array, jnp.zeros_like(array))

        examples = self._examples_at(padded)
        return jax.tree_util.tree_map(without_others, examples), is_example.astype(np.float32)


def _arrays_of(dataset: Any) -> list[Any]:
    """Return the arrays of a dataset.

    Raises:
        InvalidInputError: there are none, or one has no axis of examples.
    """
    import jax

    arrays: list[Any] = jax.tree_util.tree_leaves(dataset)
    if not arrays or not all(len(getattr(array, "shape", ())) for array in arrays):
        raise InvalidInputError(
            f"the dataset ({type(dataset).__name__}) must be an array whose first axis is the "
            "example, or a dict, list or tuple of such arrays: convert columns with numpy.asarray"
        )
    return arrays


def _noise_state_in(state: Any) -> NoiseState:
    """Return the state of `private_aggregate` within the state of a chain.

    Raises:
        InvalidInputError: there is no such state, or more than one.
    """
    import jax

    def is_noise(part: Any) -> bool:
        return isinstance(part, NoiseState)

    parts = [part for part in jax.tree_util.tree_leaves(state, is_leaf=is_noise) if is_noise(part)]
    if len(parts) != 1:
        raise InvalidInputError(
            f"the state has {len(parts)} states of private_aggregate, but must have one: give the "
            "state that optimizer.init or optimizer.update returned"
        )
    only: NoiseState = parts[0]
    return only


def _begin(noise: TrainingNoise) -> Any:
    """Begin a new run, and return its identity and sessions as an array of uint32."""
    import jax

    if not noise.seeded and not noise.joined and jax.process_count() > 1:
        raise InvalidInputError(
            "JAX runs in several processes, and each would draw noise of its own: pass the value "
            "of noise.run of the first process to noise.join in all processes, before init"
        )
    run = noise.run
    if not noise.joined and not noise.seeded:
        identity = drawn_identity()
        run = {"identity": identity, "sessions": [(1, identity)]}
    run["fingerprint"] = noise.fingerprint
    run["places"] = _places_of(noise)
    with _digests_lock:
        _digests_by_session.setdefault(run["sessions"][-1][1], {})
    return _as_numbers(run)


def _as_numbers(run: Any) -> Any:
    """Return identity, fingerprint and sessions as the uint32 array of a JAX state."""
    rows = [(0, run["identity"]), (0, run["fingerprint"]), *run["sessions"]]
    places = run["places"]
    most = _PLACES_ROW if places else _ROWS_OF_RUN
    if len(rows) > most:
        raise InvalidInputError(
            f"the run was continued {most - 3} times already, which is the most that its state "
            "can record: begin another run under another name"
        )
    words = np.zeros((_ROWS_OF_RUN, 5), np.uint32)
    for index, (first, text) in enumerate(rows):
        words[index] = [first, *_words_of(text)]
    if places:
        words[_PLACES_ROW] = [0, *_words_of(places)]
    return words


def _words_of(text: str) -> list[int]:
    """Return an identity, 32 hexadecimal digits, as four integers."""
    numbers: list[int] = np.frombuffer(bytes.fromhex(text), "<u4").tolist()
    return numbers


def _from_numbers(rows: Any) -> dict[str, Any]:
    """Return the identity, fingerprint, sessions and places of a run, given the array of
    `_as_numbers`. The places are "" if the state has none.
    """
    words = np.asarray(rows)
    used = 2 + int((words[2:, 0] > 0).sum())
    texts = [row[1:].astype("<u4").tobytes().hex() for row in words]
    sessions = list(zip(words[2:used, 0].tolist(), texts[2:used], strict=True))
    has_places = used <= _PLACES_ROW and words[_PLACES_ROW].any()
    return {
        "identity": texts[0],
        "fingerprint": texts[1],
        "sessions": sessions,
        "places": texts[_PLACES_ROW] if has_places else "",
    }


def _places_of(noise: TrainingNoise) -> str:
    """Return the identity of the secret places of a noise's sampler; "" if it has none."""
    sampler = noise.sampler
    if sampler is None or sampler.secret_places is None:
        return ""
    return sampler.identity or ""


def _take_places(noise: TrainingNoise, run: dict[str, Any]) -> None:
    """Give each example the secret place that it has in a run.

    Raises:
        StateError: the run has no places.
        InvalidInputError: batches with other places were already taken.
    """
    sampler = noise.sampler
    if sampler is None or _places_of(noise) == run["places"]:
        return
    if not run["places"]:
        raise StateError(
            f"the state of {noise.name!r} has no secret places, and with other places an example "
            "could count twice in an epoch: restore the state of the run that this sampler served"
        )
    sampler.join(run["places"])


def _check_fingerprint(noise: TrainingNoise, run: dict[str, Any]) -> None:
    """Raise an error if a state belongs to a run of other parameters than those of the noise."""
    if run["fingerprint"] != noise.fingerprint:
        raise StateError(
            f"the state belongs to another run than {noise.name!r}, or to other settings, and with "
            "two settings neither guarantee would hold: make the noise with "
            "TrainingNoise.of_run(run, key=..., sampler=...), where run is the value of noise.run"
        )


def _check_places(noise: TrainingNoise, run: dict[str, Any]) -> None:
    """Raise an error if the sampler of the noise has other secret places than a run."""
    if run["places"] != _places_of(noise):
        raise StateError(
            f"the sampler of {noise.name!r} has other secret places than the state, and an example "
            "could count twice in an epoch: call counton.training.optax.resume(state, noise=noise) "
            "before the first batch"
        )


def _check(noise: TrainingNoise, step: int, run: dict[str, Any], digest: bytes) -> None:
    """Refuse noise for a state of other parameters, other places or another process, a name in use,
    or a step whose noise other gradients (by ``digest``) had.
    """
    _check_fingerprint(noise, run)
    _check_places(noise, run)
    noise.begin(run["identity"], run["sessions"][-1][1])
    if run["identity"] == SEEDED and noise.seeded:
        return
    with _digests_lock:
        digests = _digests_by_session.get(run["sessions"][-1][1])
        if digests is None:
            raise StateError(
                f"the state of {noise.name!r} at step {step} belongs to another process, which may "
                "have gone on from it: continue with counton.training.optax.resume(state), which "
                "draws its own noise"
            )
        if step not in digests and step > max(digests, default=0):
            digests[step] = digest
            digests.pop(step - _REMEMBERED_STEPS, None)
        elif digests.get(step) != digest:
            raise InvalidInputError(
                f"step {step} of {noise.name!r} has its noise already; equal noise on other "
                "gradients would reveal their difference: use each state once, make one state for "
                "each run, or go on from an older state with counton.training.optax.resume(state)"
            )


def _digest(arrays: list[Any]) -> Any:
    """Return a 64-bit digest as two uint32, which changes if any single number changes.

    Each number's bits are multiplied by odd numbers, which is one-to-one modulo 2^32.
    """
    import jax
    import jax.numpy as jnp

    total = jnp.zeros(2, jnp.uint32)
    for index, array in enumerate(arrays):
        wide = array if array.dtype.itemsize == 8 else array.astype(jnp.float32)
        bits = jax.lax.bitcast_convert_type(wide, jnp.uint32).reshape(-1)
        counters = jax.lax.iota(jnp.uint32, len(bits)) + jnp.uint32(index * 0x9E3779B9 % 2**32)
        for number, factor in enumerate((0x85EBCA6B, 0xC2B2AE35)):
            mixed = (counters ^ (counters >> 15)) * jnp.uint32(factor)
            weights = (mixed ^ (mixed >> 13)) | jnp.uint32(1)
            total = total.at[number].add((bits * weights).sum(dtype=jnp.uint32))
    return total


def _check_updates(updates: Any, state: NoiseState, *, per_example: bool) -> None:
    """Raise an error unless updates are gradients of the parameters that the state was made for.

    Args:
        updates: the updates: sums of gradients, or gradients of single examples.
        state: the state, whose buffers have the names and shapes of the parameters.
        per_example: whether the first axis of each update is the example.

    Raises:
        InvalidInputError: Updates have other names, shapes or types, or rows of different numbers
            of examples.
    """
    shapes = {name: tuple(buffers.shape[1:]) for name, buffers in state.buffers.items()}
    named = dict(trees.distinct_leaves(updates))
    for name in named:
        if name not in shapes:
            raise InvalidInputError(
                f"there is a gradient for {name!r}, which was no parameter when init made the "
                "state. Only the parameters of then are clipped together and get noise. Make a new "
                "state under another name of the noise."
            )
    for name in shapes:
        if name not in named:
            raise InvalidInputError(
                f"there is no gradient for {name!r}, a parameter that the state was made for. Give "
                "zeros where a step has none. Leave a parameter that is not trained out of init."
            )
    rows: dict[str, int] = {}
    for name, array in named.items():
        trees.check_floats(array, name)
        shape = tuple(array.shape[1:] if per_example else array.shape)
        if shape != shapes[name] or (per_example and not array.ndim):
            expected = f"(examples, *{shapes[name]})" if per_example else str(shapes[name])
            raise InvalidInputError(
                f"the update of {name!r} has shape {tuple(array.shape)}, but with "
                f"per_example={per_example} it must be {expected}. Give gradients of single "
                "examples (jax.vmap) with per_example=True, and clipped sums with "
                "per_example=False."
            )
        if per_example:
            rows[name] = array.shape[0]
    first = next(iter(rows), "")
    for name, count in rows.items():
        if count != rows[first]:
            raise InvalidInputError(
                f"parameter {first!r} has gradients of {rows[first]} examples, but {name!r} of "
                f"{count}. Clipping bounds an example only if all parameters have a gradient for "
                "it. Compute them together."
            )


def _clipped_sum(updates: Any, clip: float) -> tuple[Any, int, Any]:
    """Return the sum of clipped gradients, and the numbers of examples and of nonzero ones.

    Sums have at least 32 bits. The first axis is the example, whose 2-norm is over all parameters;
    one not finite counts as 0.
    """
    import jax.numpy as jnp

    squares = [
        jnp.square(array.astype(jnp.float32)).sum(tuple(range(1, array.ndim)))
        for _, array in trees.leaves(updates)
    ]
    norms = jnp.sqrt(sum(squares))
    # an example whose gradient is not finite counts for nothing
    factors = jnp.where(jnp.isfinite(norms), clip / jnp.maximum(norms, clip), 0.0)

    def sum_of(name: str, array: Any) -> Any:
        finite = jnp.nan_to_num(_widened(array), nan=0.0, posinf=0.0, neginf=0.0)
        return jnp.tensordot(factors.astype(finite.dtype), finite, axes=1)

    return trees.rebuilt(updates, sum_of), len(norms), (norms != 0).sum()


def _widened(array: Any) -> Any:
    """Return an array with at least 32 bits for each number."""
    import jax.numpy as jnp

    return array.astype(jnp.promote_types(array.dtype, jnp.float32))

"""Samplers: the batches of a training run, and the steps in which one example counts.

They are part of the privacy proof. Neighbouring datasets differ in one example. If batches depend
on how examples are numbered, the place of the missing example stays empty: removing it would
renumber later examples and move them to other batches. Where secret draws treat all examples alike,
under `PoissonBatches` and `SecretPlaces`, one dataset has one example more. `Sampler.neighbours`
says which case holds.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from counton.base.errors import InvalidInputError
from counton.base.exact import check_integer, check_positive, is_whole, quote
from counton.noise import InsecureSeededKey, Key
from counton.noise.blocks import BlockAddress, BlockSource, Tile
from counton.noise.guard_file import drawn_identity
from counton.noise.key import check_key
from counton.strategies.participation import Schedule

Examples = NDArray[np.int64]
LARGEST_NUMBER_OF_EXAMPLES = 2**31


def in_order(name: str, values: object) -> list[Any]:
    """Return the values of a list, an array, or a column of any library, by position.

    Labels of a column, such as the index of pandas, are ignored.

    Raises:
        InvalidInputError: the values have no order, or are no flat container.

    >>> in_order("people", np.array([4, 2])), in_order("people", range(2))
    ([4, 2], [0, 1])
    """
    methods = (getattr(values, name, None) for name in ("tolist", "to_list", "to_pylist"))
    method = next((method for method in methods if callable(method)), None)
    values_list = values if method is None else method()
    if isinstance(values_list, Mapping | Set | str | bytes) or not isinstance(
        values_list, Sequence
    ):
        raise InvalidInputError(
            f"{name} is {quote(values)}; it must be a list, a flat array or one column, whose "
            "values are taken by position"
        )
    return list(values_list)


def check_positions(name: str, values: object) -> Examples:
    """Return positions of examples, integers from 0, as a new array: int64, shape
    ``(positions,)``.

    Raises:
        InvalidInputError: a value is negative, no integer, or a truth value as in a mask.

    >>> check_positions("batch 1", [3, 0])
    array([3, 0])
    >>> check_positions("batch 1", [-1])
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: a position in batch 1 is -1; it must be an integer ...
    """
    remedy = "positions count from 0; make them from a mask by numpy.flatnonzero(mask)"
    positions = [
        check_integer(f"a position in {name}", position, 0, LARGEST_NUMBER_OF_EXAMPLES - 1, remedy)
        for position in in_order(name, values)
    ]
    return np.array(positions, np.int64)


def check_people(values: object, examples: int) -> list[str]:
    """Return a text for each example, by position: its person.

    The whole number 7 and the text "7" are the same person.

    Args:
        examples: number of examples; there may be no fewer names.

    Raises:
        InvalidInputError: a name is missing, or is neither a whole number nor a text; or there are
            too few.

    >>> check_people(["ann", 7, "7"], 3)
    ['ann', '7', '7']
    """
    names = in_order("people", values)
    if len(names) < examples:
        raise InvalidInputError(
            f"people are given for {len(names)} examples, but there are {examples}: give one for "
            "each"
        )
    for index, name in enumerate(names):
        if not is_whole(name) and not (isinstance(name, str) and name.strip()):
            raise InvalidInputError(
                f"people has no whole number or text for example {index}, but a value of type "
                f"{type(name).__name__}: give each example its value, because one that is missing "
                "would be a unit of its own"
            )
    return [str(name) for name in names]


class Sampler(ABC):
    """Base class of samplers, which choose the examples of each step.

    Attributes:
        examples: number of examples, numbered from 0.
        epochs: largest number of times that an example counts.
        steps_per_epoch: number of steps in an epoch, if every example counts once in each epoch,
            always in the same step of the epoch.
        seed: seed of the order; it need not be secret.
        unit: the protected unit, "example" or "person".
        neighbours: how neighbouring datasets differ: one unit is "more or less", or "present or its
            place left empty".
    """

    unit: str = "example"
    neighbours: str = "present or its place left empty"
    examples: int
    epochs: int
    steps_per_epoch: int
    seed: int
    #: Probability with which a step takes an example, if batches are random and secret.
    rate: float | None = None
    #: Number of steps of an epoch, if every example draws one of them at random and in secret.
    secret_places: int | None = None
    #: Whether every example draws another step in each epoch.
    anew: bool = False
    #: Public identity of secret batches, different for each run; None: batches are not secret.
    identity: str | None = None

    def join(self, identity: str) -> None:
        """Use the batches that a sampler in another process has drawn.

        Args:
            identity: the identity of that sampler.

        Raises:
            InvalidInputError: batches are not random, or some batches were already taken from this
                sampler.
        """
        raise InvalidInputError(
            f"the batches of {type(self).__name__} are not secret, so other processes need not "
            "join: leave out the call of join"
        )

    @property
    def steps(self) -> int:
        """Number of steps of the whole training run, over all epochs."""
        return self.epochs * self.steps_per_epoch

    @property
    def schedule(self) -> Schedule:
        """The steps in which one example may count."""
        return Schedule(self.epochs, self.steps_per_epoch, fixed=True)

    @abstractmethod
    def batch(self, step: int) -> Examples:
        """Return the numbers of the examples in the batch of a step: int64, shape ``(batch,)``.

        Args:
            step: number of the step, from 1.

        Raises:
            InvalidInputError: the sampler has no such step.
        """

    @property
    def chance(self) -> Any:
        """The secret random choices of the sampler, as a JSON value; None if it makes none."""
        if self.secret_places is None:
            return self.rate
        return {"places": self.secret_places, **({"anew": True} if self.anew else {})}

    @property
    def for_independent_noise(self) -> bool:
        """True if the privacy gain from random batches is proven for independent noise only."""
        return self.rate is not None or self.anew

    @property
    def description(self) -> dict[str, Any]:
        """A public description of the batches, as JSON values.

        If the guarantee hides whether an example is there, it does not contain their number.
        """
        description: dict[str, object] = {
            "sampler": type(self).__name__,
            "steps": self.steps,
            "schedule": list(self.schedule),
            "seed": self.seed,
            "chance": self.chance,
        }
        if self.neighbours == Sampler.neighbours:
            description["examples"] = self.examples
        return description

    def serve(self, run: str, session: str) -> None:
        """Bind the sampler to one run, because secret batches may be used only once.

        Args:
            run: the identity of the run.
            session: identity of the part of the run, between two checkpoints, that takes the
                batches.

        Raises:
            InvalidInputError: another run has taken random batches from this sampler.
        """
        return  # others may serve many

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__}: {self.examples} examples, {self.steps} steps; one "
            f"{self.unit} {self.neighbours}, {when_counted(self, self.schedule)}>"
        )

    def __iter__(self) -> Iterator[Examples]:
        return (self.batch(step) for step in range(1, self.steps + 1))

    def __len__(self) -> int:
        return self.steps

    def check_step(self, step: int) -> int:
        """Return ``step`` as an integer.

        Args:
            step: number of the step, from 1 to ``steps``.

        Raises:
            InvalidInputError: the sampler has no such step.
        """
        step = check_integer("step", step, 1)
        if step > self.steps:
            raise InvalidInputError(
                f"step {step} is after the last of the {self.steps} steps of the sampler: make a "
                "sampler with more steps"
            )
        return step


def when_counted(sampler: Sampler | type[Sampler], schedule: Schedule) -> str:
    """Return in words in which steps one unit counts; the class of all samplers stands for none.

    >>> when_counted(Sampler, Schedule(2, 5, fixed=False))
    'which counts in 2 steps at most, 5 or more apart'
    """
    times, apart, fixed = schedule
    if sampler.rate is not None:
        return "which each step takes by chance and in secret"
    order = "in the same place of each epoch" if fixed else f"{apart} or more apart"
    order = "once in each epoch" if sampler.anew else order
    drawn = "" if sampler.secret_places is None else ", drawn by chance and in secret"
    several = f"s at most, {order}" if times > 1 else " at most"
    return f"which counts in {times} step{several}{drawn}"


class FixedEpochs(Sampler):
    """A sampler with one order for all epochs: each example is in the same batch of every epoch.

    Args:
        examples: number of examples.
        batch_size: number of examples in a step; the last step of an epoch may have fewer.
        epochs: number of times that each example counts.
        seed: seed of the order.

    Raises:
        InvalidInputError: an argument is out of range.

    >>> sampler = FixedEpochs(examples=10, batch_size=4, epochs=2)
    >>> sampler.steps, [len(batch) for batch in sampler]
    (6, [4, 4, 2, 4, 4, 2])
    >>> sampler.schedule
    Schedule(steps=2, apart=3, fixed=True)
    """

    def __init__(self, examples: int, batch_size: int, epochs: int = 1, seed: int = 0) -> None:
        self.examples = check_integer("examples", examples, 1, LARGEST_NUMBER_OF_EXAMPLES)
        self.batch_size = check_integer("batch_size", batch_size, 1, self.examples)
        self.epochs = check_integer("epochs", epochs, 1, LARGEST_NUMBER_OF_EXAMPLES)
        self.seed = check_integer("seed", seed, 0)
        self.steps_per_epoch = -(-self.examples // self.batch_size)

    @property
    @override
    def description(self) -> dict[str, Any]:
        return {**super().description, "batch_size": self.batch_size}

    @cached_property
    def _order(self) -> Examples:
        return np.random.default_rng([self.seed, 0]).permutation(self.examples)

    @override
    def batch(self, step: int) -> Examples:
        place = (self.check_step(step) - 1) % self.steps_per_epoch
        return self._order[place * self.batch_size : (place + 1) * self.batch_size].copy()


class MinSeparation(FixedEpochs):
    """A sampler that shuffles each epoch anew, but keeps a minimum distance between the steps of an
    example.

    An epoch is divided into windows of consecutive steps. An example stays in its window, and each
    epoch draws another step within the window. So two steps of an example are at least (steps of an
    epoch) - window + 1 apart.

    Args:
        examples: number of examples, a multiple of ``batch_size``.
        batch_size: number of examples in a step.
        epochs: number of times that each example counts.
        window: number of steps of a window; the number of steps of an epoch must be a multiple of
            it.
        seed: seed of the order.

    Raises:
        InvalidInputError: an argument is out of range.

    >>> sampler = MinSeparation(examples=40, batch_size=5, epochs=3, window=2)
    >>> sampler.schedule
    Schedule(steps=3, apart=7, fixed=False)
    """

    def __init__(
        self, examples: int, batch_size: int, epochs: int = 1, window: int = 1, seed: int = 0
    ) -> None:
        super().__init__(examples, batch_size, epochs, seed)
        if self.examples % self.batch_size:
            raise InvalidInputError(
                f"examples is {examples} and batch_size is {batch_size}, but all batches must be "
                f"equally large: leave {examples % batch_size} examples out"
            )
        self.window = check_integer("window", window, 1, self.steps_per_epoch)
        if self.steps_per_epoch % self.window:
            raise InvalidInputError(
                f"window is {window} and an epoch has {self.steps_per_epoch} steps, but windows "
                f"must fill an epoch: give a divisor of {self.steps_per_epoch}"
            )

    @property
    @override
    def schedule(self) -> Schedule:
        return Schedule(self.epochs, self.steps_per_epoch - self.window + 1, fixed=False)

    @property
    @override
    def description(self) -> dict[str, Any]:
        return {**super().description, "window": self.window}

    @override
    def batch(self, step: int) -> Examples:
        epoch, place = divmod(self.check_step(step) - 1, self.steps_per_epoch)
        number, offset = divmod(place, self.window)
        members = self.window * self.batch_size
        members_in_order = self._order[number * members : (number + 1) * members]
        shuffled = np.random.default_rng([self.seed, 1, epoch, number]).permutation(
            members_in_order
        )
        return shuffled[offset * self.batch_size : (offset + 1) * self.batch_size]


class _SecretSampler(Sampler):
    """Base class of samplers whose secret batches are drawn from a key, for one run."""

    neighbours = "more or less"
    _purpose: bytes

    def __init__(self, key: Key, address: str) -> None:
        self.seed = 0
        self._address = address
        self._key = check_key(key)
        self._taken = False
        self._served: str | None = None
        self._process = os.getpid()
        self._set_identity("" if isinstance(key, InsecureSeededKey) else drawn_identity())

    def _set_identity(self, identity: str) -> None:
        address = f"{identity}/{self._address}".encode()
        self.identity = identity
        self._source = BlockSource(self._key.derive(self._purpose, address))

    @override
    def join(self, identity: str) -> None:
        if identity != self.identity:
            if self._taken:
                raise InvalidInputError(
                    "a run that goes on, or is joined, gives the batches of its sampler, but a "
                    "batch was taken in another order: load, resume or join before the first batch"
                )
            self._set_identity(identity)

    def _serve_only(self, who: str, when: str) -> None:
        if self._served not in (None, who) or self._process != os.getpid():
            raise InvalidInputError(
                f"another run{when} has taken these batches; they are secret and may be used once "
                f"only: make a new {type(self).__name__} and new noise for it"
            )
        self._served = who

    def _words(self, row: int) -> NDArray[np.uint64]:
        """Return 64 random bits for each example in step or epoch ``row``: uint64, shape
        ``(examples,)``.
        """
        self._taken = True
        tile = Tile(row, 1, 0, self.examples)
        return np.asarray(self._source.words_of_tile(BlockAddress(0, 0), tile, "<u8")[0], np.uint64)


class PoissonBatches(_SecretSampler):
    """A sampler in which each step takes each example with the same probability, independently and
    in secret.

    This amplifies privacy if noise is independent (DP-SGD), and requires such noise. Two samplers
    have different batches, because using batches twice would halve the protection. Under an
    `InsecureSeededKey` batches are the same each time.

    Args:
        examples: number of examples.
        rate: probability with which a step takes an example.
        steps: number of steps of the run.
        key: the secret from which batches are drawn; if batches become known, the privacy gain is
            lost.
        name: name of the run.

    Raises:
        InvalidInputError: an argument is out of range.

    >>> from counton import Key
    >>> sampler = PoissonBatches(1000, rate=0.05, steps=40, key=Key.generate(), name="run")
    >>> 500 < sum(len(batch) for batch in sampler) < 4000
    True
    """

    _purpose = b"training batches"

    def __init__(self, examples: int, rate: float, steps: int, *, key: Key, name: str) -> None:
        self.examples = check_integer("examples", examples, 1, LARGEST_NUMBER_OF_EXAMPLES)
        if check_positive("rate", rate, "the probability of each example in a step") > 1:
            raise InvalidInputError(f"rate is {rate}; it must be above 0 and at most 1")
        self.rate = float(rate)
        self._below = np.uint64(min(int(self.rate * 2.0**64), 2**64 - 1))
        self._steps = self.epochs = check_integer("steps", steps, 1, LARGEST_NUMBER_OF_EXAMPLES)
        super().__init__(key, f"{name}/{self.examples}/{self.rate!r}/{self._steps}")

    @override
    def serve(self, run: str, session: str) -> None:
        """Bind the sampler to a run; a run that continues from a checkpoint draws new batches.

        Args:
            run: of no effect; ``session`` identifies the batches.
            session: identity of the part of the run, between two checkpoints, that takes the
                batches.

        Raises:
            InvalidInputError: another session has taken random batches from this sampler.
        """
        self._serve_only(session, ", or the same one before it went back to a checkpoint,")

    @property
    @override
    def steps(self) -> int:
        return self._steps

    @property
    @override
    def schedule(self) -> Schedule:
        """The steps in which one example may count: all of them."""
        return Schedule(self._steps, 1, fixed=True)

    @override
    def batch(self, step: int) -> Examples:
        return np.flatnonzero(self._words(self.check_step(step)) < self._below)


class SecretPlaces(_SecretSampler):
    """A sampler that puts each example at random into one step of the epoch, called its place,
    which stays secret.

    An example keeps its place in all epochs. Secret places amplify privacy for ``ApproxDP``, under
    every strategy whose matrix C is lower-triangular. With ``anew`` each epoch draws another place
    (random allocation); this amplifies more, but requires independent noise (DP-SGD). Batches have
    different sizes. A run that continues from a checkpoint keeps the places, which are part of
    `TrainingNoise.run`.

    Args:
        examples: number of examples.
        steps_per_epoch: number of places in an epoch.
        epochs: number of times that each example counts.
        key: the secret from which places are drawn; if places become known, the privacy gain is
            lost.
        name: name of the run.
        anew: True to draw another place in each epoch.

    Raises:
        InvalidInputError: an argument is out of range.

    >>> from counton import Key
    >>> sampler = SecretPlaces(100, steps_per_epoch=4, epochs=2, key=Key.generate(), name="run")
    >>> sum(len(batch) for batch in sampler), sampler.schedule
    (200, Schedule(steps=2, apart=4, fixed=True))
    """

    _purpose = b"training places"

    def __init__(
        self,
        examples: int,
        steps_per_epoch: int,
        epochs: int = 1,
        *,
        key: Key,
        name: str,
        anew: bool = False,
    ) -> None:
        self.examples = check_integer("examples", examples, 1, LARGEST_NUMBER_OF_EXAMPLES)
        self.steps_per_epoch = check_integer(
            "steps_per_epoch", steps_per_epoch, 1, LARGEST_NUMBER_OF_EXAMPLES
        )
        self.epochs = check_integer("epochs", epochs, 1, LARGEST_NUMBER_OF_EXAMPLES)
        self.secret_places = self.steps_per_epoch
        self.anew = anew and self.epochs > 1
        self._drawn: tuple[int, NDArray[np.uint64]] | None = None
        again = "/anew" if self.anew else ""
        super().__init__(key, f"{name}/{self.examples}/{self.steps_per_epoch}/{self.epochs}{again}")

    def _set_identity(self, identity: str) -> None:
        super()._set_identity(identity)
        self._drawn = None

    @override
    def serve(self, run: str, session: str) -> None:
        """Bind the sampler to a run; a continued run keeps its examples' secret places.

        Args:
            run: the identity of the run.
            session: of no effect; the places are those of the whole run.

        Raises:
            InvalidInputError: another run has taken random batches from this sampler.
        """
        self._serve_only(run, "")

    @property
    @override
    def schedule(self) -> Schedule:
        return Schedule(self.epochs, 1, fixed=False) if self.anew else super().schedule

    def _places(self, draw: int) -> NDArray[np.uint64]:
        if self._drawn is None or self._drawn[0] != draw:
            self._drawn = draw, self._words(draw) % np.uint64(self.steps_per_epoch)
        return self._drawn[1]

    @override
    def batch(self, step: int) -> Examples:
        epoch, place = divmod(self.check_step(step) - 1, self.steps_per_epoch)
        return np.flatnonzero(self._places(1 + epoch * self.anew) == np.uint64(place))


class GivenBatches(Sampler):
    """A sampler of your own batches, which checks in which steps each example counts.

    Args:
        batches: for each step, the positions of its examples: integers from 0, in a list, a flat
            array or a column.
        people: for each example, by position, its person, if people are protected instead of
            examples: a whole number or a text. All examples of a person are then one unit, which
            may occur in a step only once.
        order: "fixed" if all examples have the same step in each epoch; "separated" if only a
            minimum distance is guaranteed, which is the smallest distance in the batches.
        epochs: with order "fixed", the number of epochs.

    Raises:
        InvalidInputError: a position is no integer from 0, or an example has no person; a unit
            counts twice in a step; or, in fixed order, twice in an epoch or in different steps of
            it.

    >>> GivenBatches([[0, 1], [2], [1, 0], [2]], order="fixed", epochs=2).schedule
    Schedule(steps=2, apart=2, fixed=True)
    >>> GivenBatches([[0, 1], [1], [0], [2]], order="fixed", epochs=2)
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: example 1 counts in step 2 and in step 1, ...
    """

    def __init__(
        self,
        batches: Iterable[Sequence[int] | Examples],
        *,
        people: Sequence[int | str] | NDArray[Any] | None = None,
        order: str = "separated",
        epochs: int = 1,
    ) -> None:
        if isinstance(batches, Mapping | Set):
            in_order("batches", batches)
        self._batches = [check_positions(f"batch {step}", b) for step, b in enumerate(batches, 1)]
        self.examples = 1 + max((int(b.max()) for b in self._batches if len(b)), default=0)
        self.seed = 0
        if not self._batches or order not in ("fixed", "separated"):
            raise InvalidInputError(
                f"there are {len(self._batches)} batches and order is {order!r}; give at least one "
                "batch, and order as 'fixed' or 'separated'"
            )
        names = None if people is None else check_people(people, self.examples)
        self.unit = "example" if people is None else "person"
        steps_by_unit = self._steps_by_unit(names)
        if order == "fixed":
            epochs = check_integer("epochs", epochs, 1)
            self._schedule = self._fixed_schedule(steps_by_unit, epochs)
        else:
            self._schedule = self._separated_schedule(steps_by_unit)
        self.epochs = self._schedule.steps

    def _steps_by_unit(self, names: list[str] | None) -> dict[int | str, list[int]]:
        """Return the steps of each unit; refuse a unit that is in a step twice.

        Args:
            names: the person of each example; None: examples are the units.
        """
        steps_by_unit: dict[int | str, list[int]] = {}
        for step, batch in enumerate(self._batches, 1):
            for example in batch.tolist():
                unit = example if names is None else names[example]
                steps = steps_by_unit.setdefault(unit, [])
                if steps and steps[-1] == step:
                    raise InvalidInputError(
                        f"{self.unit} {unit} is in step {step} twice: put it there once, so that "
                        "its gradients are clipped together"
                    )
                steps.append(step)
        return steps_by_unit

    def _fixed_schedule(self, steps_by_unit: dict[int | str, list[int]], epochs: int) -> Schedule:
        """Return the schedule of a fixed order; refuse a unit that changes its place."""
        if len(self._batches) % epochs:
            raise InvalidInputError(
                f"{len(self._batches)} batches cannot be divided into {epochs} equally long "
                "epochs: give whole epochs"
            )
        apart = len(self._batches) // epochs
        for unit, (first, *later) in steps_by_unit.items():
            moved = next((step for step in later if (step - first) % apart), None)
            if moved is not None:
                raise InvalidInputError(
                    f"{self.unit} {unit} counts in step {moved} and in step {first}, but in a "
                    f"fixed order its steps must be a multiple of {apart} apart: keep its "
                    "place, or give order='separated'"
                )
        return Schedule(epochs, apart, fixed=True)

    def _separated_schedule(self, steps_by_unit: dict[int | str, list[int]]) -> Schedule:
        """Return the schedule of an order that keeps only a least distance."""
        times = max(map(len, steps_by_unit.values()), default=1)
        gaps = (later - step for steps in steps_by_unit.values() for step, later in pairwise(steps))
        return Schedule(times, min(gaps, default=len(self._batches)), fixed=False)

    @property
    @override
    def steps(self) -> int:
        return len(self._batches)

    @property
    @override
    def description(self) -> dict[str, Any]:
        """The public description of the batches, with a digest of their examples' numbers."""
        digest = hashlib.sha256()
        for batch in self._batches:
            digest.update(len(batch).to_bytes(8, "little") + batch.astype("<i8").tobytes())
        return {**super().description, "batches_sha256": digest.hexdigest()}

    @property
    @override
    def schedule(self) -> Schedule:
        return self._schedule

    @override
    def batch(self, step: int) -> Examples:
        return self._batches[self.check_step(step) - 1].copy()


def check_examples(sampler: Sampler, examples: int) -> None:
    """Raise an error unless a dataset has the examples of a sampler.

    Args:
        sampler: the sampler of a run.
        examples: number of examples of the dataset; `GivenBatches` may leave some out.

    Raises:
        InvalidInputError: the dataset has another number of examples.

    >>> check_examples(FixedEpochs(examples=10, batch_size=4), 10)
    """
    is_enough = isinstance(sampler, GivenBatches) and examples >= sampler.examples
    if examples != sampler.examples and not is_enough:
        raise InvalidInputError(
            f"the dataset has {examples:,} examples, but the sampler {sampler.examples:,}: make "
            f"the sampler with examples={examples}"
        )

"""Strategies for training: noise of single steps that is correlated, so that sums of it are small.

A training run adds up gradients. As for counts, the matrix A of running sums is factored into A = B
C, with normals z as the noise of measurements. The noise of running sums is B z. A run uses the
noise of each step, K z with K = A^-1 B, so K C = I. A strategy defines how the noise of step t is
made from independent standard normals z(level, index):

    w_t = sum of weight * z(level, index) over the taps of step t
    noise_t = (w_t + sum_i outputs_i S_i) / divisor_t,      then S_i <- decays_i S_i + w_t.

The taps of a step are the normals that it uses, with weights. The buffers S are numbers kept from
step to step; without them, the noise of a step depends only on key and step. All of this is pure
mathematics: no randomness, no data, no privacy. Normals are real numbers here, unlike the exact
integers of counting streams.

The error of a strategy is sensitivity * sqrt(mean variance of the running sums): the root mean
squared error for the guarantee rho = 1/2.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from typing_extensions import override

from counton.base.arrays import Floats
from counton.base.errors import HorizonExceededError, InvalidInputError
from counton.base.exact import check_integer
from counton.strategies.participation import Schedule
from counton.strategies.strategy import LARGEST_DENSE, Strategy
from counton.training.strategies.sgd import SGD

#: Largest number of steps of a training run.
LARGEST_STEPS = 2**24
#: How long parameters are searched for: "quick" within two seconds for all strategies of a plan
#: together, "long" until the search ends.
Search = Literal["quick", "long"]
#: Relative margin for float64 rounding in every stated sensitivity.
SLACK = 1e-9


def check_search(search: str) -> None:
    """Raise an error for an unknown kind of search.

    Args:
        search: "quick" or "long".

    Raises:
        InvalidInputError: another value.
    """
    if search not in get_args(Search):
        raise InvalidInputError(f"search is {search!r}; give 'quick' or 'long'")


class Tap(NamedTuple):
    """A standard normal draw that enters the noise of a step, with its weight.

    ``level`` and ``index`` are the address of the draw.

    >>> from counton.training.strategies import BufferedToeplitz
    >>> BufferedToeplitz.fit(steps=64, buffers=2).taps(5)
    (Tap(level=0, index=5, weight=1.0),)
    """

    level: int
    index: int  # type: ignore[assignment]  # a tuple has a method of this name
    weight: float


def training_schedule(
    steps: int, epochs: int = 1, order: str = "fixed", separation: int | None = None
) -> Schedule:
    """Return the checked schedule: the steps of a run in which one training example counts.

    Args:
        steps: number of steps of the whole run.
        epochs: largest number of steps in which one example counts.
        order: "fixed" if every example has the same place in each epoch, which a sampler must
            enforce; "separated" if only a least distance is enforced.
        separation: the least distance of two steps of an example; by default the number of
            steps in an epoch.

    Raises:
        InvalidInputError: not integers, out of range, or steps that do not divide into whole epochs
            in fixed order.

    >>> training_schedule(2048, 16)
    Schedule(steps=16, apart=128, fixed=True)
    >>> training_schedule(100, 3, order="separated", separation=20)
    Schedule(steps=3, apart=20, fixed=False)
    """
    steps = check_integer("steps", steps, 1, LARGEST_STEPS)
    epochs = check_integer("epochs", epochs, 1, steps)
    if order not in ("fixed", "separated"):
        raise InvalidInputError(
            f"order is {order!r}; give 'fixed' (the sampler keeps each example at one place of "
            "every epoch) or 'separated' (any order with a least distance)"
        )
    if order == "fixed":
        if steps % epochs:
            low = steps - steps % epochs
            raise InvalidInputError(
                f"steps is {steps} and epochs is {epochs}, but with order='fixed' all epochs are "
                f"equally long: give {low} or {low + epochs} steps"
            )
        if separation not in (None, steps // epochs):
            raise InvalidInputError(
                f"separation is {separation}, but with order='fixed' it is always the length of an "
                f"epoch, {steps // epochs} steps: leave it out"
            )
        return Schedule(epochs, steps // epochs, fixed=True)
    apart = steps // epochs if separation is None else separation
    apart = check_integer("separation", apart, 1, steps)
    return Schedule(min(epochs, -(-steps // apart)), apart, fixed=False)


class TrainingStrategy(Strategy):
    """Base class of all strategies for training: how the noise of each step is made from standard
    normal numbers.

    Attributes:
        steps: number of steps of the run.
        schedule: the steps in which one training example counts.
        optimizer: the optimiser for whose weights errors are stated; None: errors are those of
            running sums. The noise does not depend on it.
    """

    steps: int
    schedule: Schedule
    optimizer: SGD | None = None

    @property
    def address(self) -> dict[str, Any]:
        """JSON values that identify the noise of this strategy; every normal number is derived from
        them and the key.

        Large arrays are represented by digests; `to_dict` has the exact arrays.
        """
        return {
            "strategy": self.saved_name,
            "steps": self.steps,
            "schedule": list(self.schedule),
            **self.parameters,
        }

    @override
    def to_dict(self) -> dict[str, Any]:
        """Return the description: name, parameters, steps and schedule.

        `training_strategy_from_dict` rebuilds the strategy from it.
        """
        return self.address

    @property
    def name(self) -> str:
        """The name under which the strategy is shown, such as "BLT-3"."""
        return self.saved_name

    def under(self, optimizer: SGD | None) -> Self:
        """Return the strategy with the same noise, and errors for an optimiser.

        Args:
            optimizer: the optimiser for whose weights errors are stated; None: errors are those of
                running sums.

        >>> from counton.training import SGD
        >>> from counton.training.strategies import BufferedToeplitz
        >>> momentum = SGD(momentum=0.9)
        >>> strategy = BufferedToeplitz.fit(64)
        >>> round(strategy.rmse, 1), round(strategy.under(momentum).rmse, 1)
        (2.2, 13.7)
        """
        return self._copy_with(optimizer=optimizer)

    def _copy_with(self, *forgotten: str, **changes: Any) -> Self:
        """Return a copy with ``changes``, without the cached values ``forgotten``."""
        other = object.__new__(type(self))
        vars(other).update(vars(self) | changes)
        for name in ("rmse", *forgotten):
            vars(other).pop(name, None)
        return other

    def __repr__(self) -> str:
        times, apart, fixed = self.schedule
        order = "fixed order" if fixed else f"at least {apart} apart"
        return f"<{self.name}: {self.steps} steps, {times} for each example, {order}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainingStrategy) and other.address == self.address

    def __hash__(self) -> int:
        return hash(str(self.address))

    def _set_run(self, steps: int, schedule: Schedule | None, most: int = LARGEST_STEPS) -> None:
        self.steps = check_integer("steps", steps, 1, most)
        self.schedule = (
            training_schedule(steps) if schedule is None else Schedule.from_saved(schedule)
        )

    # ------------------------------------------------------------------------- how noise is made

    decays: tuple[float, ...] = ()
    outputs: tuple[float, ...] = ()

    @property
    def buffers(self) -> int:
        """Number of values that are kept from step to step for each coordinate."""
        return len(self.decays)

    @abstractmethod
    def taps(self, step: int) -> tuple[Tap, ...]:
        """Return the standard normal numbers that enter the noise of a step (taps).

        Args:
            step: number of the step, from 1.

        Returns:
            The numbers' addresses, with their weights.

        Raises:
            HorizonExceededError: a step beyond the run.
        """

    def first_step(self, level: int, index: int) -> int:
        """Return the first step whose noise uses a standard normal number.

        It is the step ``index``, if each step draws one that only later steps draw again.

        Args:
            level: level of the number, as in `Tap`.
            index: index of the number in its level, from 1.

        Raises:
            InvalidInputError: no step uses it.

        >>> from counton.training.strategies import OctaveTraining
        >>> strategy = OctaveTraining.fit(8)
        >>> strategy.first_step(0, 5), strategy.first_step(3, 2)
        (5, 2)
        """
        return self.check_step(index)

    def divisor(self, step: int) -> float:
        """Return the number by which the noise of a step is divided; 1 without step scaling.

        Args:
            step: number of the step, from 1.
        """
        self.check_step(step)
        return 1.0

    @property
    def draws(self) -> float:
        """Number of normal numbers that are drawn for each step and coordinate, on average."""
        return sum(len(self.taps(step)) for step in range(1, self.steps + 1)) / self.steps

    def check_step(self, step: int) -> int:
        """Return ``step`` as an integer, if it is a step of the run.

        Args:
            step: number of the step, from 1 to ``steps``.

        Raises:
            HorizonExceededError: the run has no such step.
        """
        step = check_integer("step", step, 1)
        if step > self.steps:
            raise HorizonExceededError(
                f"step {step} is after the last of the {self.steps} steps that the noise was "
                "planned for: plan for more steps before training starts"
            )
        return step

    # ------------------------------------------------------------------------ errors and norms

    @abstractmethod
    def squared_sensitivity(self) -> float:
        """Return an upper bound of the squared norm by which one example moves the measurements.

        The gradients of an example have norm at most 1.
        """

    @abstractmethod
    def mean_variance(self) -> float:
        """Return the mean over all steps of the variance of the running sums of noise, or of the
        weights under ``optimizer``.

        The unit is the variance of one normal number.
        """

    @cached_property
    def rmse(self) -> float:
        """Root mean squared error of running sums, or of the weights under ``optimizer``, if noise
        is calibrated to zCDP with rho = 1/2 and to gradients of norm at most 1.
        """
        # The sensitivity times the root of the mean variance.
        return math.sqrt(self.squared_sensitivity() * self.mean_variance())

    # ------------------------------------------------------------------------ small runs, written

    def increments(self) -> tuple[Floats, list[tuple[int, int]]]:
        """Return the matrix K that makes the noise of all steps from standard normal draws, and the
        addresses of the draws.

        The noise of the steps is K z for a vector z of draws. K has the shape (steps, normals). The
        address of the draw for a column of K is (level, index).

        Raises:
            InvalidInputError: more than 4096 steps.
        """
        self.check_small()
        taps = [self.taps(step) for step in range(1, self.steps + 1)]
        nodes = sorted({(tap.level, tap.index) for step_taps in taps for tap in step_taps})
        column_of = {node: number for number, node in enumerate(nodes)}
        fresh = np.zeros((self.steps, len(nodes)))
        for row, step_taps in zip(fresh, taps, strict=True):
            for tap in step_taps:
                row[column_of[tap.level, tap.index]] += tap.weight
        state = np.zeros((self.buffers, len(nodes)))
        decays = np.array(self.decays)
        outputs = np.array(self.outputs)
        increments = np.empty_like(fresh)
        for number, row in enumerate(fresh):
            increments[number] = (row + outputs @ state) / self.divisor(number + 1)
            state = decays[:, None] * state + row
        return increments, nodes

    @abstractmethod
    def encoder(self) -> Floats:
        """Return the measurement matrix C: shape (normals, steps), with a row for each normal
        number in the order of `increments`.

        Raises:
            InvalidInputError: more than 4096 steps.
        """

    def check_small(self) -> None:
        """Raise `InvalidInputError` if the run has over 4096 steps, too many for matrices."""
        if self.steps > LARGEST_DENSE:
            raise InvalidInputError(
                f"{self.steps:,} steps are too many for whole matrices; at most {LARGEST_DENSE:,} "
                "are possible: use a shorter run"
            )

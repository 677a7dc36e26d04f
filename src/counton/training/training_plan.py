"""Plans of training runs: strategies ranked by error, with their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from counton.base.errors import InvalidInput
from counton.base.exact import Number, check_integer, check_positive, figures
from counton.noise import Key
from counton.planning.planner import Plan
from counton.privacy import ZCDP, Guarantee
from counton.strategies.strategy import LARGEST_DENSE
from counton.training.accounting import LARGEST_DIMENSION, noise_multiplier
from counton.training.batch_samplers import Sampler
from counton.training.fit import multiplier
from counton.training.noise import TrainingNoise
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BandedOptimum,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    TrainingStrategy,
)
from counton.training.strategies.sgd import SGD
from counton.training.strategies.toeplitz import Scaling
from counton.training.strategies.training_strategy import training_schedule

#: Largest number of steps for which plans try Octave, which needs matrices of steps x steps.
_MOST_FOR_OCTAVE = 1024
#: Largest number of steps for which plans search for Echo.
_MOST_FOR_ECHO = 2**14
#: Largest number of steps for which plans search for banded matrices; this takes seconds.
_MOST_FOR_BANDS = 512
#: Smallest number of normals per step for which banded matrices are searched for; with fewer, a BLT
#: has less error with one normal per step.
_FEWEST_DRAWS = 4


@dataclass(frozen=True)
class TrainingDesign:
    """A strategy for a training run, with its cost and its error.

    Attributes:
        strategy: the correlation of the noise over steps.
        guarantee: the guarantee for one example, over all steps of the run.
        clip: largest 2-norm of one example's gradient.
        dimension: number of coordinates of all parameters together.
        sampler: the sampler that gives the batches; None: only its order was stated.

    >>> choice = plan(steps=8, epochs=2, dimension=1000).best
    >>> choice.strategy.buffers, choice.state_bytes, choice.strategy.draws
    (2, 8000, 1.5)
    """

    strategy: TrainingStrategy
    guarantee: Guarantee
    clip: float
    dimension: int
    sampler: Sampler | None = None

    @property
    def rmse(self) -> float:
        """Root mean squared error of running sums of noise, or of the weights under the strategy's
        optimiser, for the guarantee rho = 1/2 and clipping norm 1.

        It does not include amplification by sampling.
        """
        return self.strategy.rmse

    @property
    def error(self) -> float:
        """Root mean squared error of running sums of gradients, or of the weights under the
        strategy's optimiser, for each coordinate, under the guarantee.

        It is in units of gradients, or of gradients times learning rates, and includes
        amplification by sampling. Plans print it.
        """
        return self.rmse * multiplier(self.guarantee, self.strategy, self.sampler) * self.clip

    @property
    def state_bytes(self) -> int:
        """Bytes of memory that the noise needs from step to step, for all coordinates."""
        return 4 * self.strategy.buffers * self.dimension

    def noise(
        self,
        *,
        key: Key,
        name: str,
        sampler: Sampler | None = None,
        where: str = "host",
    ) -> TrainingNoise:
        """Return the generator of noise (`TrainingNoise`) for one training run with this design's
        strategy, guarantee and clipping norm; ``where`` says where normals are drawn.

        Raises:
            InvalidInput: an argument is out of range, or the sampler does not guarantee enough.
        """
        return TrainingNoise(
            self.strategy,
            key=key,
            name=name,
            guarantee=self.guarantee,
            clip=self.clip,
            sampler=self.sampler if sampler is None else sampler,
            where=where,
        )

    def row(self) -> dict[str, Any]:
        """Return a row of the plan's table: strategy, error, and what one step needs."""
        return {
            "strategy": self.strategy.name,
            "error": self.error,
            "buffers": self.strategy.buffers,
            "normals": self.strategy.draws,
        }

    def __str__(self) -> str:
        return (
            f"{self.strategy.name}: error {figures(self.error)}, {self.strategy.buffers} "
            f"buffers, {figures(self.strategy.draws)} normals a step"
        )


def _plan(choices: Sequence[TrainingDesign]) -> Plan[TrainingDesign]:
    best = choices[0]
    unit = "example" if best.sampler is None else best.sampler.unit
    of_what = "running sums of" if best.strategy.optimizer is None else "weights that SGD makes of"
    return Plan(
        choices=tuple(choices),
        words=(
            f"errors of {of_what} gradients clipped to {best.clip:g}, for each coordinate; "
            f"{best.guarantee}, for one {unit} and the whole run",
        ),
        shown=("strategy", "error", "buffers", "normals"),
    )


def plan(
    *,
    steps: int | None = None,
    epochs: int = 1,
    order: str = "fixed",
    dimension: int,
    separation: int | None = None,
    sampler: Sampler | None = None,
    guarantee: Guarantee | None = None,
    clip: Number = 1,
    buffers: int = 3,
    draws: Number = 64,
    optimizer: SGD | None = None,
) -> Plan[TrainingDesign]:
    """Rank strategies for a training run by the error of running sums of gradients, or of the
    weights that an optimiser makes of them.

    Args:
        steps: number of steps of the whole run.
        epochs: number of times that one example counts.
        order: the order that the sampler guarantees: "fixed" if every example has the same step in
            each epoch; "separated" for any order with a minimum distance between the steps of an
            example.
        dimension: number of coordinates of all parameters together.
        separation: the minimum distance between the steps of an example, in steps; default: steps
            // epochs.
        sampler: the sampler that gives the batches, in place of steps, epochs, order and
            separation.
        guarantee: the guarantee for one example; default: ZCDP(1/2).
        clip: largest 2-norm of one example's gradient.
        buffers: largest number of values that the noise may keep from step to step, for each
            coordinate.
        draws: largest mean number of normal numbers, for each coordinate and step, that
            `BandedOptimum` may use. If this is at least half the number of steps, a step may use
            the normal numbers of all steps so far.
        optimizer: momentum, weight decay and learning rates, for at most 4096 steps. Strategies are
            fitted for the weights that it makes of noisy gradients, and ranked by the error of the
            weights; default: running sums.

    Raises:
        InvalidInput: an argument is out of range.

    >>> for choice in plan(steps=8, epochs=2, dimension=1000).choices[:2]:
    ...     print(choice)
    Echo-2, steps scaled: error 2.1..., 2 buffers, 1.5 normals a step
    Octave: error 2.2..., 0 buffers, 10... normals a step
    >>> plan(steps=8, epochs=2, order="separated", dimension=1000).best.strategy.name
    'banded optimum, 4 bands'
    """
    if sampler is not None:
        if steps is not None or epochs != 1 or separation is not None:
            raise InvalidInput(
                "a sampler already states steps, epochs and separation: leave these out"
            )
        steps, epochs = sampler.steps, sampler.epochs
        _, apart, fixed = sampler.schedule
        order, separation = ("fixed", None) if fixed else ("separated", apart)
    if steps is None:
        raise InvalidInput("steps is missing: give the number of steps of the run, or a sampler")
    dimension = check_integer("dimension", dimension, 1, LARGEST_DIMENSION)
    buffers = check_integer("buffers", buffers, 1)
    schedule = training_schedule(steps, epochs, order, separation)
    promised = ZCDP("1/2") if guarantee is None else guarantee
    bound = float(check_positive("clip", clip, "the largest gradient norm"))
    most = float(check_positive("draws", draws, "the largest mean number of normals a step"))
    if sampler is not None and sampler.for_independent_noise:
        independent = BandedInverseSquareRoot(steps, 1, sampler.schedule).under(optimizer)
        multiplier(promised, independent, sampler)
        only = TrainingDesign(independent, promised, bound, dimension, sampler)
        return _plan([only])
    noise_multiplier(promised, steps)
    if optimizer is not None:
        if not isinstance(optimizer, SGD):
            raise InvalidInput(
                f"optimizer is of type {type(optimizer).__name__}; give counton.training.SGD with "
                "its momentum, weight decay and learning rates, or leave it out"
            )
        optimizer.rates(steps)

    free: Scaling = "free" if schedule.fixed else "epochs"
    if steps > LARGEST_DENSE:
        free = "equal"

    place = (steps, epochs, order, separation)
    plain = BufferedToeplitz.fit(*place, buffers=buffers, optimizer=optimizer)
    tried: list[TrainingStrategy] = [plain]
    if epochs == 1 or steps <= LARGEST_DENSE:
        scaled = BufferedToeplitz.fit(*place, buffers=buffers, scaling=free, optimizer=optimizer)
        tried.append(scaled)
        tried.append(BandedInverseSquareRoot.fit(*place, scaling=free, optimizer=optimizer))
    if schedule.fixed and schedule.steps > 1 and steps <= _MOST_FOR_ECHO:
        tried.append(Echo.fit(steps, epochs, min(buffers, 2), free, optimizer))
    banded = min(most, steps / 2) >= _FEWEST_DRAWS and steps <= _MOST_FOR_BANDS
    every = optimizer is not None and steps <= 2 * most  # as few steps as draws allow in all
    if banded and (every or (not schedule.fixed and schedule.steps > 1)):
        tried.append(BandedOptimum.fit(steps, epochs, separation, most, optimizer))
    if steps <= _MOST_FOR_OCTAVE and optimizer is None:
        equal: Scaling = "free" if free == "free" else "equal"
        tried.append(OctaveTraining.fit(*place, scaling=equal))
    if sampler is not None and (places := sampler.secret_places) is not None:
        # Noise that is correlated over shorter times tells an attacker less about an example's
        # secret place in the epoch.
        tried.append(BandedInverseSquareRoot(steps, 1, schedule).under(optimizer))
        constant = None if optimizer is None else SGD(optimizer.momentum)
        for reach in (places // 2, places, 2 * places):
            if 4 <= reach < steps <= LARGEST_DENSE:
                cut = BufferedToeplitz.fit(reach, buffers=buffers, optimizer=constant)
                made = BufferedToeplitz(steps, cut.theta, cut.thetahat, schedule)
                tried.append(made.under(optimizer))
    found = [TrainingDesign(made, promised, bound, dimension, sampler) for made in tried]
    ranked = sorted(found, key=lambda choice: choice.error)
    by_name = {choice.strategy.name: choice for choice in reversed(ranked)}  # the best of each
    return _plan([choice for choice in ranked if choice is by_name[choice.strategy.name]])

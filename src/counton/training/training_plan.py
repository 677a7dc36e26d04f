"""Plans of training runs: strategies ranked by error, with their costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from counton.base.arrays import one_thread
from counton.base.errors import InvalidInputError
from counton.base.exact import Number, check_integer, check_positive, figures
from counton.noise import Key
from counton.planning.plans import Plan
from counton.privacy import ZCDP, ApproxDP, Guarantee
from counton.strategies.participation import Schedule
from counton.strategies.strategy import LARGEST_DENSE
from counton.training.accounting import LARGEST_DIMENSION, noise_multiplier
from counton.training.batch_samplers import Sampler
from counton.training.fit import multiplier
from counton.training.noise import TrainingNoise
from counton.training.secret_place_noise import quick_places_multiplier
from counton.training.strategies import (
    BandedInverseSquareRoot,
    BandedOptimum,
    BufferedToeplitz,
    Echo,
    OctaveTraining,
    TrainingStrategy,
)
from counton.training.strategies.banded import is_independent
from counton.training.strategies.sgd import SGD
from counton.training.strategies.toeplitz import Scaling, ToeplitzTraining
from counton.training.strategies.training_strategy import (
    Search,
    check_search,
    training_schedule,
)

#: Largest number of steps for which plans try `OctaveTraining`: it needs matrices of steps x steps.
_MOST_FOR_MULTISCALE = 1024
#: Largest number of steps for which plans search for Echo.
_MOST_FOR_ECHO = 2**14
#: Largest number of steps for which plans search for banded matrices.
_MOST_FOR_BANDS = 512
#: Largest number of steps for which a quick search scales the steps of every strategy.
_MOST_FOR_QUICK_SCALES = 512
#: Largest number of steps for which a quick search scales the steps of three strategies.
_MOST_FOR_THREE_QUICK_SCALES = 1024
#: Largest number of steps for which a quick search scales the steps of the best strategy.
_MOST_FOR_ONE_QUICK_SCALE = 2048
#: Largest number of steps for which plans scale steps equally.
_MOST_FOR_EQUAL_SCALES = 2**17
#: Smallest number of normals per step for which banded matrices are searched for; with fewer, a BLT
#: has less error with one normal per step.
_FEWEST_DRAWS = 4
#: Number of strategies with correlated noise that a plan proves under secret places, by search.
_MOST_PROVED_STRATEGIES = {"quick": 2, "long": 4}
#: Largest number of steps for which a quick search proves two of them.
_MOST_FOR_TWO_QUICK_PROOFS = 1024
#: A quick search proves another strategy only if its estimate is within this factor of the least.
#: What is proved is up to 3% above its estimate.
_LARGEST_ERROR_RATIO = 1.03


@dataclass(frozen=True)
class TrainingDesign:
    """A strategy for a training run, with its cost and its error.

    Attributes:
        strategy: the correlation of the noise over steps.
        guarantee: the guarantee for one example, over all steps of the run.
        clip: largest 2-norm of one example's gradient.
        dimension: number of coordinates of all parameters together; None: not stated.
        sampler: the sampler that gives the batches; None: only its order was stated.

    >>> choice = plan(steps=512, epochs=8, dimension=1000).best
    >>> choice.strategy.buffers, choice.state_bytes, choice.strategy.draws
    (2, 8000, 4.5)
    """

    strategy: TrainingStrategy
    guarantee: Guarantee
    clip: float
    dimension: int | None = None
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
    def state_bytes(self) -> int | None:
        """Bytes of memory that the noise needs from step to step, for all coordinates; None if
        ``dimension`` is not stated.
        """
        return None if self.dimension is None else 4 * self.strategy.buffers * self.dimension

    def noise(
        self,
        *,
        key: Key,
        name: str,
        sampler: Sampler | None = None,
        where: str = "host",
    ) -> TrainingNoise:
        """Return the generator of noise (`TrainingNoise`) for one training run.

        It has this design's strategy, guarantee and clipping norm.

        Args:
            key: the secret of the noise.
            name: name of the run: under one key each run has a name of its own.
            sampler: the sampler that gives the batches; None: that of the design.
            where: "host" or "device": where normal numbers are drawn, as in `TrainingNoise`.

        Raises:
            InvalidInputError: an argument is out of range, or the sampler does not guarantee
                enough.
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
    released_value = (
        "running sums of" if best.strategy.optimizer is None else "weights that SGD makes of"
    )
    return Plan(
        choices=tuple(choices),
        words=(
            f"errors of {released_value} gradients clipped to {best.clip:g}, for each coordinate; "
            f"{best.guarantee}, for one {unit} and the whole run",
        ),
        shown=("strategy", "error", "buffers", "normals"),
    )


class _Run(NamedTuple):
    """What a plan searches strategies for."""

    steps: int
    epochs: int
    order: str
    separation: int | None
    schedule: Schedule
    sampler: Sampler | None
    buffers: int
    draws: float
    optimizer: SGD | None
    search: Search
    guarantee: Guarantee

    @property
    def place(self) -> tuple[int, int, str, int | None]:
        """The first arguments of the ``fit`` methods of strategies."""
        return self.steps, self.epochs, self.order, self.separation

    @property
    def scaling(self) -> Scaling:
        """The kind of step scaling with the least error that can be computed."""
        if self.steps > LARGEST_DENSE:
            return "equal"
        return "free" if self.schedule.fixed else "epochs"

    @property
    def secret_places(self) -> int | None:
        """The number of steps of an epoch, if each example draws one of them in secret."""
        return None if self.sampler is None else self.sampler.secret_places

    @property
    def proves_places(self) -> bool:
        """Whether noise for a strategy takes a proof of some seconds."""
        return self.secret_places is not None and isinstance(self.guarantee, ApproxDP)


class _Candidates(NamedTuple):
    """Strategies that are found by one search, of which a plan tells the name."""

    name: str
    find: Callable[[], list[TrainingStrategy]]


def _find_buffered(run: _Run) -> list[TrainingStrategy]:
    """Return BLT noise, plain and with scaled steps."""
    strategies: list[TrainingStrategy] = []
    scalings: list[Scaling] = ["none"]
    if run.steps <= LARGEST_DENSE:
        scalings.append(run.scaling)
    elif run.epochs == 1 and run.steps <= _MOST_FOR_EQUAL_SCALES:
        scalings.append("equal")
    for scaling in scalings:
        strategies.append(
            BufferedToeplitz.fit(
                *run.place, buffers=run.buffers, scaling=scaling, optimizer=run.optimizer
            )
        )
    return strategies


def _find_cut(run: _Run, reaches: Sequence[int]) -> list[TrainingStrategy]:
    """Return BLT noise that is correlated over shorter times than the run, for secret places.

    Noise that is correlated over shorter times tells an attacker less about an example's secret
    place in the epoch.

    Args:
        run: the run.
        reaches: the numbers of steps.
    """
    strategies: list[TrainingStrategy] = []
    constant = None if run.optimizer is None else SGD(run.optimizer.momentum)
    for reach in reaches:
        if 4 <= reach < run.steps <= LARGEST_DENSE:
            cut = BufferedToeplitz.fit(reach, buffers=run.buffers, optimizer=constant)
            whole = BufferedToeplitz(run.steps, cut.theta, cut.thetahat, run.schedule)
            strategies.append(whole.under(run.optimizer))
    return strategies


def _find_independent(run: _Run) -> list[TrainingStrategy]:
    """Return independent noise in each step."""
    return [BandedInverseSquareRoot(run.steps, 1, run.schedule).under(run.optimizer)]


def _find_banded_root(run: _Run, scaling: Scaling) -> list[TrainingStrategy]:
    """Return the banded inverse square root."""
    return [BandedInverseSquareRoot.fit(*run.place, scaling=scaling, optimizer=run.optimizer)]


def _find_echo(run: _Run, scaling: Scaling) -> list[TrainingStrategy]:
    """Return Echo."""
    buffers = min(run.buffers, 2)
    return [Echo.fit(run.steps, run.epochs, buffers, scaling, run.optimizer, run.search)]


def _find_bands(run: _Run) -> list[TrainingStrategy]:
    """Return the optimal matrix with bands."""
    return [
        BandedOptimum.fit(
            run.steps,
            run.epochs,
            run.separation,
            run.draws,
            run.optimizer,
            order=run.order,
            search=run.search,
        )
    ]


def _find_multiscale(run: _Run) -> list[TrainingStrategy]:
    """Return multiscale noise for training."""
    scaling = "free" if run.scaling == "free" else "equal"
    return [OctaveTraining.fit(*run.place, scaling=scaling, search=run.search)]


def _find_few(run: _Run) -> list[TrainingStrategy]:
    """Return BLT noise, Echo and the banded inverse square root, and some with scaled steps.

    These are for runs of so many steps that scales take long.
    """
    plain: list[ToeplitzTraining] = [
        BufferedToeplitz.fit(*run.place, buffers=run.buffers, optimizer=run.optimizer),
        BandedInverseSquareRoot.fit(*run.place, optimizer=run.optimizer),
    ]
    if _takes_echo(run):
        buffers = min(run.buffers, 2)
        plain.append(Echo.fit(run.steps, run.epochs, buffers, "none", run.optimizer, run.search))
    scaled = plain
    if run.steps > _MOST_FOR_THREE_QUICK_SCALES:
        scaled = [min(plain, key=lambda strategy: strategy.rmse)]
    strategies: list[TrainingStrategy] = [*plain]
    if run.steps <= _MOST_FOR_ONE_QUICK_SCALE:
        strategies += [strategy.with_scaling(run.scaling, run.search) for strategy in scaled]
    elif run.epochs == 1 and run.optimizer is None:
        # The error of equal scales takes time in proportion to the steps, not to their square.
        strategies.append(plain[0].with_scaling("equal"))
    return strategies


def _takes_echo(run: _Run) -> bool:
    return run.schedule.fixed and run.schedule.steps > 1 and run.steps <= _MOST_FOR_ECHO


def _takes_bands(run: _Run) -> bool:
    if run.steps > _MOST_FOR_BANDS or min(run.draws, run.steps / 2) < _FEWEST_DRAWS:
        return False
    # Up to this many steps the number of draws allows every earlier normal.
    takes_all = run.optimizer is not None and run.steps <= 2 * run.draws
    return takes_all or run.schedule.steps > 1


def _candidates(run: _Run) -> list[_Candidates]:
    """Return the searches of a plan, in their order."""
    places = run.secret_places
    if places is not None and run.search == "quick":
        # To account for secret places takes seconds for each strategy that is proved.
        if run.steps > LARGEST_DENSE:
            return [
                _Candidates("BLT", lambda: _find_buffered(run)[:1]),
                _Candidates("independent noise", lambda: _find_independent(run)),
            ]
        scaled = run.steps <= _MOST_FOR_ONE_QUICK_SCALE
        root: Scaling = run.scaling if scaled else "none"
        few = [
            _Candidates("independent noise", lambda: _find_independent(run)),
            _Candidates("banded inverse square root", lambda: _find_banded_root(run, root)),
            _Candidates("BLT cut", lambda: _find_cut(run, [places // 4, places // 2, places])),
        ]
        if run.optimizer is not None:
            few.append(_Candidates("BLT", lambda: _find_buffered(run)[-1:]))
        return few
    if _MOST_FOR_QUICK_SCALES < run.steps <= LARGEST_DENSE and run.search == "quick":
        return [_Candidates("BLT and Echo", lambda: _find_few(run))]
    scaling: Scaling = run.scaling if run.steps <= LARGEST_DENSE else "none"
    candidates = [_Candidates("BLT", lambda: _find_buffered(run))]
    if run.steps <= LARGEST_DENSE:
        candidates.append(
            _Candidates("banded inverse square root", lambda: _find_banded_root(run, scaling))
        )
    if _takes_echo(run):
        candidates.append(_Candidates("Echo", lambda: _find_echo(run, scaling)))
    if _takes_bands(run):
        candidates.append(_Candidates("banded optimum", lambda: _find_bands(run)))
    if run.steps <= _MOST_FOR_MULTISCALE and run.optimizer is None:
        candidates.append(_Candidates("Octave", lambda: _find_multiscale(run)))
    if places is not None:
        reaches = [places // 4, places // 2, places, 2 * places]
        candidates.append(_Candidates("independent noise", lambda: _find_independent(run)))
        candidates.append(_Candidates("BLT cut", lambda: _find_cut(run, reaches)))
    return candidates


def _find_all(run: _Run) -> list[TrainingStrategy]:
    """Return all candidates of a plan, and write the progress of a long search."""
    searches = _candidates(run)
    strategies: list[TrainingStrategy] = []
    for number, candidates in enumerate(searches, 1):
        _tell(run, candidates.name, number, len(searches))
        strategies += candidates.find()
    return strategies


def _most_promising(run: _Run, strategies: list[TrainingStrategy]) -> list[TrainingStrategy]:
    """Return the strategies whose noise a plan computes, in their order.

    Under (epsilon, delta) and secret places, a proof for correlated noise takes seconds. So only
    the strategies with the least estimated errors are proved, and all with independent noise.
    """
    places = run.secret_places
    if places is None or not run.proves_places:
        return strategies
    independent = [strategy for strategy in strategies if is_independent(strategy)]
    correlated = [strategy for strategy in strategies if not is_independent(strategy)]
    estimates = {
        id(strategy): strategy.rmse * quick_places_multiplier(run.guarantee, strategy, places)
        for strategy in correlated
    }
    correlated.sort(key=lambda strategy: estimates[id(strategy)])
    promising = correlated[: _MOST_PROVED_STRATEGIES[run.search]]
    if run.search == "quick" and promising:
        if run.steps > _MOST_FOR_TWO_QUICK_PROOFS:
            promising = promising[:1]
        largest = _LARGEST_ERROR_RATIO * estimates[id(promising[0])]
        promising = [strategy for strategy in promising if estimates[id(strategy)] <= largest]
    kept = {id(strategy) for strategy in (*independent, *promising)}
    return [strategy for strategy in strategies if id(strategy) in kept]


def _tell(run: _Run, what_runs: str, number: int, total: int) -> None:
    """Write a line of progress to standard error, if the search or a proof takes seconds."""
    if run.search == "long" or run.proves_places:
        sys.stderr.write(
            f"counton: plan for {run.steps:,} steps, {number} of {total}: {what_runs}\n"
        )
        sys.stderr.flush()


def plan(
    *,
    steps: int | None = None,
    epochs: int = 1,
    order: str = "fixed",
    dimension: int | None = None,
    separation: int | None = None,
    sampler: Sampler | None = None,
    guarantee: Guarantee | None = None,
    clip: Number = 1,
    buffers: int = 3,
    draws: Number = 64,
    optimizer: SGD | None = None,
    search: Search = "quick",
) -> Plan[TrainingDesign]:
    """Rank strategies for a training run by the error of running sums of gradients, or of the
    weights that an optimiser makes of them.

    A quick search takes about a second, and its best error is usually within 1% of that of a long
    search, in a separated order within 3%. A long search takes seconds for up to 100 steps, and up
    to a minute for 512. Proofs for `SecretPlaces` under (epsilon, delta) take up to ten seconds
    more. What takes seconds writes its progress to standard error.

    Args:
        steps: number of steps of the whole run.
        epochs: number of times that one example counts.
        order: the order that the sampler guarantees: "fixed" if every example has the same step in
            each epoch; "separated" for any order with a minimum distance between the steps of an
            example.
        dimension: number of coordinates of all parameters together, for
            `TrainingDesign.state_bytes` alone; errors do not depend on it.
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
        search: "quick" or "long".

    Raises:
        InvalidInputError: an argument is out of range.

    >>> for choice in plan(steps=8, epochs=2).choices[:2]:
    ...     print(choice)
    banded optimum, 4 bands: error 2.1..., 0 buffers, 4.5 normals a step
    Echo-2, steps scaled: error 2.1..., 2 buffers, 1.5 normals a step
    >>> plan(steps=8, epochs=2, order="separated").best.strategy.name
    'banded optimum, 4 bands'
    """
    if sampler is not None:
        if steps is not None or epochs != 1 or separation is not None:
            raise InvalidInputError(
                "a sampler already states steps, epochs and separation: leave these out"
            )
        steps = sampler.steps
        epochs = sampler.epochs
        _, apart, fixed = sampler.schedule
        order, separation = ("fixed", None) if fixed else ("separated", apart)
    if steps is None:
        raise InvalidInputError(
            "steps is missing: give the number of steps of the run, or a sampler"
        )
    if dimension is not None:
        dimension = check_integer("dimension", dimension, 1, LARGEST_DIMENSION)
    check_search(search)
    buffers = check_integer("buffers", buffers, 1)
    schedule = training_schedule(steps, epochs, order, separation)
    requested = ZCDP("1/2") if guarantee is None else guarantee
    bound = float(check_positive("clip", clip, "the largest gradient norm"))
    most = float(check_positive("draws", draws, "the largest mean number of normals a step"))

    def design(strategy: TrainingStrategy) -> TrainingDesign:
        return TrainingDesign(strategy, requested, bound, dimension, sampler)

    if sampler is not None and sampler.for_independent_noise:
        independent = BandedInverseSquareRoot(steps, 1, sampler.schedule).under(optimizer)
        _check_amplified(requested, independent, sampler)
        return _plan([design(independent)])
    _check_calibrates(requested, steps)
    if optimizer is not None:
        _check_optimizer(optimizer, steps)
    run = _Run(
        steps=steps,
        epochs=epochs,
        order=order,
        separation=separation,
        schedule=schedule,
        sampler=sampler,
        buffers=buffers,
        draws=most,
        optimizer=optimizer,
        search=search,
        guarantee=requested,
    )
    return _plan(_ranked_designs(run, design))


def _check_amplified(guarantee: Guarantee, strategy: TrainingStrategy, sampler: Sampler) -> None:
    """Refuse a guarantee that the strategy cannot give with the batches of the sampler."""
    multiplier(guarantee, strategy, sampler)


def _check_calibrates(guarantee: Guarantee, steps: int) -> None:
    """Refuse a guarantee that no noise of training gives, before strategies are searched."""
    noise_multiplier(guarantee, steps)


def _check_optimizer(optimizer: object, steps: int) -> None:
    """Refuse an optimiser of another type, or with other rates than one for each step."""
    if not isinstance(optimizer, SGD):
        raise InvalidInputError(
            f"optimizer is of type {type(optimizer).__name__}; give counton.training.SGD with "
            "its momentum, weight decay and learning rates, or leave it out"
        )
    optimizer.rates(steps)


def _ranked_designs(
    run: _Run, design: Callable[[TrainingStrategy], TrainingDesign]
) -> list[TrainingDesign]:
    """Return the best design of each strategy's name, by error.

    Args:
        run: the run.
        design: function that returns the design with a strategy.
    """
    # It has its own library of linear algebra, whose threads are limited only if it is loaded.
    import scipy.linalg  # noqa: F401

    with one_thread():
        designs = [design(strategy) for strategy in _most_promising(run, _find_all(run))]
        errors: dict[int, float] = {}
        for number, choice in enumerate(designs, 1):
            if run.secret_places is not None:
                _tell(run, f"noise for {choice.strategy.name}", number, len(designs))
            errors[id(choice)] = choice.error
    ranked = sorted(designs, key=lambda choice: errors[id(choice)])
    best_by_name = {choice.strategy.name: choice for choice in reversed(ranked)}
    return [choice for choice in ranked if choice is best_by_name[choice.strategy.name]]

"""Tests of strategies for training, against dense matrices and all allowed sets of steps."""

import copy
import json
import math
from collections.abc import Iterator
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from counton.base.errors import InvalidInputError
from counton.strategies.participation import Schedule
from counton.strategies.strategy import LARGEST_DENSE, built_from
from counton.testing.rows import (
    PropertyViolationError,
    build_again,
    names_subject,
    require,
    require_description,
)
from counton.training.strategies.sgd import SGD
from counton.training.strategies.training_strategy import TrainingStrategy
from own_laws.equality import require_equality

_NEAR = 1e-7


@names_subject
def check_training_strategy(strategy: TrainingStrategy) -> None:
    """A strategy for training, of at most some twenty steps, keeps all laws of its kind."""
    check_training_description(strategy)
    check_training_factorisation(strategy)
    check_training_variance(strategy)
    check_training_sensitivity(strategy)


@names_subject
def check_training_description(strategy: TrainingStrategy) -> None:
    """A strategy has a name, its ``to_dict`` as JSON rebuilds an equal one, and it refuses steps
    outside of its run, and dense matrices of more than 4096 steps.
    """
    require(type(strategy.name) is str and bool(strategy.name), "has no name")
    require_description(strategy.sources, None)
    long: Any = copy.copy(strategy)
    long.steps = LARGEST_DENSE + 1
    try:
        long.check_small()
    except InvalidInputError:
        pass
    else:
        raise PropertyViolationError(
            f"check_small() lets matrices of {long.steps:,} steps be written out"
        )
    saved = json.loads(json.dumps(strategy.to_dict()))
    kept = saved == json.loads(json.dumps({**strategy.to_dict(), **strategy.parameters}))
    kept = kept and saved.get("strategy") == strategy.saved_name
    kept = kept and saved.get("steps") == strategy.steps
    kept = kept and saved.get("schedule") == list(strategy.schedule)
    require(kept, "to_dict() must contain its name, parameters, steps and schedule")
    other = build_again(strategy, partial(built_from, type(strategy)))
    kept = other == strategy and json.loads(json.dumps(other.to_dict())) == saved
    kept = kept and all(
        other.taps(step) == strategy.taps(step) and other.divisor(step) == strategy.divisor(step)
        for step in range(1, strategy.steps + 1)
    )
    kept = kept and (other.decays, other.outputs) == (strategy.decays, strategy.outputs)
    require(kept, "building it again from the output of to_dict() gives another strategy")
    require_equality(strategy)
    sizes = {strategy.buffers, len(strategy.decays), len(strategy.outputs)}
    require(len(sizes) == 1, f"it has {sorted(sizes)} buffers, decays and outputs")
    for call in (strategy.check_step, strategy.taps, strategy.divisor):
        for step in (0, strategy.steps + 1):
            try:
                call(step)
            except InvalidInputError:
                continue
            raise PropertyViolationError(f"accepted step {step} of a run of {strategy.steps} steps")
    count = sum(len(strategy.taps(step)) for step in range(1, strategy.steps + 1))
    draws = count / strategy.steps
    message = f"taps() take {draws} normals per step on average, but draws is {strategy.draws}"
    require(math.isclose(strategy.draws, draws), message)


@names_subject
def check_training_factorisation(strategy: TrainingStrategy) -> None:
    """K C is the identity, where K turns standard normal draws z into the noise K z of the steps;
    ``increments`` returns K, and ``first_step`` the first step that uses a draw.

    K is computed from the draws of each step (``taps``) and the buffers that carry noise from step
    to step.
    """
    increments, nodes = TrainingStrategy.increments(strategy)  # from what noise is made of
    require(len(set(nodes)) == len(nodes), "increments() names a normal twice; name each once")
    written, names = strategy.increments()
    same = names == nodes and np.allclose(written, increments, rtol=0, atol=_NEAR)
    require(same, "increments() returns another matrix than taps() and the buffers make")
    begun: dict[tuple[int, int], int] = {}
    for step in range(1, strategy.steps + 1):
        for tap in strategy.taps(step):
            begun.setdefault((tap.level, tap.index), step)
    for node, step in begun.items():
        claimed = strategy.first_step(*node)
        require(claimed == step, f"the first step of {node} is {step}, not {claimed}")
    error = np.abs(increments @ strategy.encoder() - np.eye(strategy.steps)).max()
    require(error < _NEAR, f"K C must be the identity, but differs by {error:.3g}")


@names_subject
def check_training_variance(strategy: TrainingStrategy) -> None:
    """The stated mean variance of running sums of noise, and of the weights that momentum, weight
    decay and falling rates make of it, is that of the matrix of noise weights.
    """
    increments, _ = TrainingStrategy.increments(strategy)
    sums = np.cumsum(increments, axis=0)  # of the noise of steps
    moved = np.zeros((2, increments.shape[1]))
    weights = []
    for step, noise in enumerate(increments, 1):
        moved[0] = 0.5 * moved[0] + noise - 0.1 * moved[1]
        moved[1] += moved[0] / step
        weights.append(moved[1].copy())
    under = strategy.under(SGD(0.5, 0.1, lambda step: 1 / step))
    require(under == strategy, "under(optimizer) changes the noise; it may change only errors")
    for one, made in ((strategy, sums), (under, np.array(weights))):
        true = float((made**2).sum() / len(made))
        claimed = one.mean_variance()
        right = abs(claimed / true - 1) < _NEAR
        require(right, f"the mean variance under {one.optimizer} is {true}, not {claimed}")
        root = math.sqrt(one.squared_sensitivity() * claimed)
        message = f"rmse is {one.rmse}, but sensitivity times root mean variance is {root}"
        require(math.isclose(one.rmse, root, rel_tol=_NEAR), message)


@names_subject
def check_training_sensitivity(strategy: TrainingStrategy) -> None:
    """The squared sensitivity is at least the largest squared norm of all sets of steps in which
    one example may count, and equal to it if the schedule is fixed.
    """
    encoder = strategy.encoder()
    gram = np.abs(encoder.T @ encoder)
    true_squared = max(
        float(gram[np.ix_(steps, steps)].sum())
        for steps in sets_of_steps(strategy.steps, strategy.schedule)
    )
    claimed_squared = strategy.squared_sensitivity()
    most = 1 + _NEAR if strategy.schedule.fixed else math.inf
    right = true_squared * (1 - 1e-12) <= claimed_squared <= true_squared * most
    require(right, f"squared_sensitivity() is {claimed_squared}, but steps have {true_squared}")


def sets_of_steps(steps: int, schedule: Schedule) -> Iterator[list[int]]:
    """Yield the sets of steps, numbered from 0, in which one example may count.

    For a fixed schedule only the full sets are listed, since their subsets have smaller norms.

    >>> list(sets_of_steps(4, Schedule(2, 2, True)))
    [[0, 2], [1, 3]]
    >>> list(sets_of_steps(4, Schedule(2, 2, False)))
    [[0, 2], [0, 3], [1, 3], [0], [1], [2], [3]]
    """
    if schedule.fixed:
        for first in range(schedule.apart):
            yield list(range(first, steps, schedule.apart))
        return
    for members in range(schedule.steps, 0, -1):
        for chosen in combinations(range(steps), members):
            if all(b - a >= schedule.apart for a, b in pairwise(chosen)):
                yield list(chosen)

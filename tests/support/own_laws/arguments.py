"""Tests of the steps and windows that a strategy takes and refuses."""

from collections.abc import Callable
from typing import Any

import numpy as np

from counton.base.errors import InvalidInputError
from counton.strategies import StreamStrategy, check_step, noise_variance
from counton.strategies.strategy import (
    check_ends,
    check_steps,
    check_window,
    last_served_step,
    window_rounding,
)
from counton.testing.node_noise import HashedNoise
from counton.testing.rows import PropertyViolationError, names_subject, require
from counton.testing.stream_checks import DISTRIBUTIONS


@names_subject
def check_arguments(strategy: StreamStrategy) -> None:
    """All methods of a strategy refuse steps that are no integers between 1 and the horizon."""
    longest = last_served_step(strategy)
    beyond = [] if longest is None else [longest + 1]
    distribution = DISTRIBUTIONS[-1]
    calls: list[Callable[[int], object]] = [
        strategy.row,
        lambda step: check_step(strategy, step),
        lambda step: check_steps(strategy, [step]),
        lambda step: check_window(strategy, range(step, step + 1)),
        lambda step: check_ends(strategy, step - 1, step),
        lambda step: strategy.variance([step]),
        lambda step: noise_variance(strategy, distribution, [step]),
        lambda step: strategy.variance([step], since=[step - 1]),
        lambda step: noise_variance(strategy, distribution, [step], since=[step - 1]),
        lambda step: window_rounding(strategy, [step - 1], [step]),
        lambda step: strategy.noise(HashedNoise(), range(step, step + 1)),
        lambda step: strategy._reader(HashedNoise()).noise(range(step, step + 1)),
        strategy.column,
    ]
    for call in calls if strategy.horizon is not None else calls[:-1]:
        for step in [0, -1, *beyond]:
            _refuses(call, step)
    _refuses(strategy.row, 1.0)
    _refuses(lambda steps: strategy.noise(HashedNoise(), steps), range(1, 9, 2))
    _refuses(lambda start: strategy.variance(start - 1, since=start), 1)
    last = 32 if longest is None else min(longest, 32)
    steps = [*range(1, last + 1), *([longest] if longest is not None else [])]
    try:
        accepted = check_steps(strategy, np.array(steps)).tolist() == steps
        accepted = accepted and [check_step(strategy, step) for step in steps] == steps
        accepted = accepted and check_window(strategy, range(1, last + 1)) == range(1, last + 1)
        ends = [each.tolist() for each in check_ends(strategy, [0] * len(steps), steps)]
    except InvalidInputError as error:
        raise PropertyViolationError(f"it refuses a step of 1 to {steps[-1]:,}: {error}") from error
    accepted = accepted and ends == [[0] * len(steps), steps]
    require(accepted, "what checks steps must return valid ones unchanged")


def _refuses(call: Callable[[Any], object], argument: object) -> None:
    try:
        call(argument)
    except InvalidInputError:
        return
    raise PropertyViolationError(
        f"accepted {argument!r} as a step or window; it must raise InvalidInputError there"
    )

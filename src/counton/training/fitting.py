"""Whether a sampler promises what a strategy was made for: part of the privacy proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counton.errors import InvalidInput
from counton.strategies.training.base import TrainingStrategy

if TYPE_CHECKING:
    from counton.training.samplers import Sampler


def check_fit(strategy: TrainingStrategy, sampler: Sampler) -> None:
    """Refuse a strategy whose sensitivity does not hold for the sampler's batches.

    Raises:
        InvalidInput: too many steps, too many epochs, too small a distance, or an order that the
            strategy needs and the sampler does not enforce.

    >>> from counton.strategies.training import Echo
    >>> from counton.training import FixedEpochs
    >>> check_fit(Echo.fit(8, 2), FixedEpochs(examples=40, batch_size=10, epochs=2))
    >>> check_fit(Echo.fit(12, 2), FixedEpochs(examples=40, batch_size=10, epochs=3))
    Traceback (most recent call last):
    counton.errors.InvalidInput: the sampler's examples count up to 3 times, ...
    """
    promised, needed = sampler.schedule, strategy.schedule
    if sampler.steps > strategy.steps:
        raise InvalidInput(
            f"the sampler has {sampler.steps} steps and the strategy {strategy.steps}: plan for "
            f"steps={sampler.steps}"
        )
    if promised.steps > needed.steps:
        raise InvalidInput(
            f"the sampler's examples count up to {promised.steps} times, and the strategy is "
            f"calibrated for {needed.steps}: plan for epochs={promised.steps}"
        )
    if needed.fixed and needed.steps > 1 and not promised.fixed and promised.steps > 1:
        raise InvalidInput(
            f"{strategy.name} is calibrated for an enforced order and the sampler promises a "
            f"distance of {promised.apart} steps only, so that its noise would be too small: plan "
            f"with order='separated', or sample with FixedEpochs"
        )
    exactly = needed.fixed and needed.steps > 1 and promised.steps > 1
    if exactly and promised.apart != needed.apart:
        raise InvalidInput(
            f"the sampler's epochs have {promised.apart} steps and those of the strategy "
            f"{needed.apart}: plan for steps={sampler.steps} and epochs={promised.steps}"
        )
    if promised.steps > 1 and promised.apart < needed.apart:
        raise InvalidInput(
            f"the sampler keeps {promised.apart} steps between two times of an example, and the "
            f"strategy needs {needed.apart}: plan with separation={promised.apart}"
        )

"""The check that a strategy's sensitivity holds for a sampler: part of the privacy proof."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from counton.base.errors import InvalidInputError
from counton.privacy import Guarantee
from counton.training.accounting import noise_multiplier, poisson_multiplier
from counton.training.bins import reshuffled_multiplier
from counton.training.secret_place_noise import places_multiplier
from counton.training.strategies.banded import is_independent
from counton.training.strategies.training_strategy import TrainingStrategy

if TYPE_CHECKING:
    from counton.training.batch_samplers import Sampler


def check_fit(strategy: TrainingStrategy, sampler: Sampler) -> None:
    """Raise an error if a strategy's sensitivity does not hold for the sampler's batches.

    Args:
        strategy: the correlation of the noise over steps, with the schedule for which it is
            calibrated.
        sampler: the sampler that gives the batches.

    Raises:
        InvalidInputError: the sampler has too many steps, too many epochs, too small a distance
            between the steps of an example, or does not guarantee an order that the strategy needs.

    >>> from counton.training.strategies import BufferedToeplitz
    >>> from counton.training import FixedEpochs
    >>> check_fit(BufferedToeplitz.fit(8, 2), FixedEpochs(examples=40, batch_size=10, epochs=2))
    >>> check_fit(BufferedToeplitz.fit(12, 2), FixedEpochs(examples=40, batch_size=10, epochs=3))
    Traceback (most recent call last):
    counton.base.errors.InvalidInputError: the sampler's examples count up to 3 times, ...
    """
    enforced = sampler.schedule
    needed = strategy.schedule
    if sampler.for_independent_noise and not is_independent(strategy):
        raise InvalidInputError(
            "the sampler takes examples at random, which can be accounted for only with "
            f"independent noise, but the noise of {strategy.name} is correlated: plan with this "
            "sampler, or use FixedEpochs"
        )
    if sampler.steps > strategy.steps:
        raise InvalidInputError(
            f"the sampler has {sampler.steps} steps, but the strategy has {strategy.steps}: plan "
            f"for steps={sampler.steps}"
        )
    if enforced.steps > needed.steps:
        raise InvalidInputError(
            f"the sampler's examples count up to {enforced.steps} times, but the strategy is "
            f"calibrated for {needed.steps} times: plan for epochs={enforced.steps}"
        )
    if needed.fixed and needed.steps > 1 and not enforced.fixed and enforced.steps > 1:
        raise InvalidInputError(
            f"{strategy.name} is calibrated for an enforced order, but the sampler enforces only a "
            f"distance of {enforced.apart} steps, so the noise would be too small: plan with "
            "order='separated', or sample with FixedEpochs"
        )
    exactly = needed.fixed and needed.steps > 1 and enforced.steps > 1
    if exactly and enforced.apart != needed.apart:
        raise InvalidInputError(
            f"the sampler's epochs have {enforced.apart} steps, but the strategy's epochs have "
            f"{needed.apart}: plan for steps={sampler.steps} and epochs={enforced.steps}"
        )
    if enforced.steps > 1 and enforced.apart < needed.apart:
        raise InvalidInputError(
            f"the sampler keeps {enforced.apart} steps between two uses of an example, but the "
            f"strategy needs {needed.apart}: plan with separation={enforced.apart}"
        )


def multiplier(
    guarantee: Guarantee, strategy: TrainingStrategy, sampler: Sampler | None = None
) -> float:
    """Return the noise multiplier for a guarantee: standard deviation divided by sensitivity.

    A sampler with secret batches amplifies privacy. A place is the step of an epoch in which an
    example counts. Poisson batches, and places that each epoch draws anew, require independent
    noise; noise is then calibrated to an example's change in one step. Places that stay the same in
    all epochs work with all strategies.

    Raises:
        InvalidInputError: the guarantee does not fit the sampler.

    >>> from counton.privacy import ZCDP
    >>> from counton.training.strategies import BandedInverseSquareRoot
    >>> multiplier(ZCDP("1/2"), BandedInverseSquareRoot(8, band=1))
    1.0
    """
    if sampler is None or sampler.chance is None:
        return noise_multiplier(guarantee, strategy.steps)
    check_fit(strategy, sampler)
    if sampler.rate is not None:
        once = poisson_multiplier(guarantee, sampler.rate, sampler.steps)
    elif sampler.secret_places is not None and sampler.anew:
        once = reshuffled_multiplier(guarantee, sampler.secret_places, sampler.epochs)
    else:
        assert sampler.secret_places is not None
        return places_multiplier(guarantee, strategy, sampler.secret_places)
    return once / math.sqrt(strategy.squared_sensitivity())

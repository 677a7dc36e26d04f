"""Strategies for training: correlated noise of gradients, so that their sums are accurate."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from counton.base.lazy import attach
from counton.strategies.strategy import built_from, exported_classes, saved_strategy_name

if TYPE_CHECKING:
    from counton.training.strategies.banded import (
        BandedInverseSquareRoot as BandedInverseSquareRoot,
    )
    from counton.training.strategies.banded_optimum import BandedOptimum as BandedOptimum
    from counton.training.strategies.buffered import BufferedToeplitz as BufferedToeplitz
    from counton.training.strategies.echo import Echo as Echo
    from counton.training.strategies.training_multiscale import OctaveTraining as OctaveTraining
    from counton.training.strategies.training_strategy import Tap as Tap
    from counton.training.strategies.training_strategy import TrainingStrategy as TrainingStrategy
    from counton.training.strategies.training_strategy import training_schedule as training_schedule

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__all__ += ["public_training_strategies", "training_strategy_from_dict"]


def public_training_strategies() -> tuple[type[TrainingStrategy], ...]:
    """Return the classes of all strategies for training that ``counton.training.strategies``
    exports, by name.

    >>> [cls.__name__ for cls in public_training_strategies()]  # doctest: +NORMALIZE_WHITESPACE
    ['BandedInverseSquareRoot', 'BandedOptimum', 'BufferedToeplitz', 'Echo', 'OctaveTraining']
    """
    from counton.training.strategies.training_strategy import TrainingStrategy

    return exported_classes(sys.modules[__name__], TrainingStrategy)  # type: ignore[type-abstract]


def training_strategy_from_dict(description: Mapping[str, object]) -> TrainingStrategy:
    """Rebuild a strategy for training from the description that its ``to_dict`` made, without a
    search.

    Raises:
        InvalidInputError: an unknown strategy for training, or wrong parameters.

    >>> from counton.training.strategies import Echo
    >>> strategy = Echo.fit(8, epochs=2)
    >>> training_strategy_from_dict(strategy.to_dict()) == strategy
    True
    """
    kinds = {kind.saved_name: kind for kind in public_training_strategies()}
    return built_from(
        kinds[saved_strategy_name(description, list(kinds), " for training")], description
    )

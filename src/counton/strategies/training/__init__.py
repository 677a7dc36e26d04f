"""Strategies for training: noise of single steps, so that sums of gradients are accurate."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from counton.lazy import loader
from counton.strategies.base import exported_classes

if TYPE_CHECKING:
    from counton.strategies.training.banded import (
        BandedInverseSquareRoot as BandedInverseSquareRoot,
    )
    from counton.strategies.training.banded_optimum import BandedOptimum as BandedOptimum
    from counton.strategies.training.base import Tap as Tap
    from counton.strategies.training.base import TrainingStrategy as TrainingStrategy
    from counton.strategies.training.base import training_schedule as training_schedule
    from counton.strategies.training.buffered import BufferedToeplitz as BufferedToeplitz
    from counton.strategies.training.dense import DenseOptimum as DenseOptimum
    from counton.strategies.training.echo import Echo as Echo
    from counton.strategies.training.octave import OctaveTraining as OctaveTraining

#: Where each public name lives. The imports above say the same to type checkers.
_HOME = {
    "BandedInverseSquareRoot": "counton.strategies.training.banded",
    "BandedOptimum": "counton.strategies.training.banded_optimum",
    "BufferedToeplitz": "counton.strategies.training.buffered",
    "DenseOptimum": "counton.strategies.training.dense",
    "Echo": "counton.strategies.training.echo",
    "OctaveTraining": "counton.strategies.training.octave",
    "Tap": "counton.strategies.training.base",
    "TrainingStrategy": "counton.strategies.training.base",
    "training_schedule": "counton.strategies.training.base",
}

__all__ = [
    "BandedInverseSquareRoot",
    "BandedOptimum",
    "BufferedToeplitz",
    "DenseOptimum",
    "Echo",
    "OctaveTraining",
    "Tap",
    "TrainingStrategy",
    "public_training_strategies",
    "training_schedule",
]

__getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def public_training_strategies() -> tuple[type[TrainingStrategy], ...]:
    """Every strategy for training that ``counton.strategies.training`` exports, by name.

    >>> [cls.__name__ for cls in public_training_strategies()]  # doctest: +NORMALIZE_WHITESPACE
    ['BandedInverseSquareRoot', 'BandedOptimum', 'BufferedToeplitz', 'DenseOptimum', 'Echo',
     'OctaveTraining']
    """
    from counton.strategies.training.base import TrainingStrategy

    return exported_classes(sys.modules[__name__], TrainingStrategy)  # type: ignore[type-abstract]
